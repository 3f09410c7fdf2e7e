"""Pictures: as a viewer shows them, in the channels and the range of the model,
whatever Pillow reads."""

import copy
import io
import struct
import zlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.command_line import argv, predictions, run, succeed
from support.tables import failure, refusal

import nn
from nn.data.pictures import Picture, _Rows, decoded_picture
from nn.data.schema import Schema
from nn.ds import load
from nn.files import model_file
from nn.utils import DataError, NnError

Image = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (5, 4), np.uint8)
DEEP = RNG.integers(0, 65536, (5, 4)).astype(np.uint16)
COLOURS = RNG.integers(0, 256, (5, 4, 3), np.uint8)
ALPHA = RNG.integers(0, 256, (5, 4), np.uint8)
TRAIN = "--train", "--seed", 0, "-q", "--epochs"
SHOWN = {  # what a viewer makes of stored pixels, by the EXIF orientation
    1: lambda a: a,
    2: np.fliplr,
    3: lambda a: np.rot90(a, 2),
    4: np.flipud,
    5: lambda a: np.rot90(np.fliplr(a)),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: np.rot90(np.fliplr(a), -1),
    8: np.rot90,
}
EXACT = {"WEBP": {"lossless": True, "exact": True}, "JPEG": {"quality": 95}}


def packed(pixels, kind, **how) -> bytes:
    """A picture as the bytes of a file."""
    picture = pixels
    file = io.BytesIO()
    if isinstance(pixels, np.ndarray):
        picture = Image.fromarray(pixels)
    picture.save(file, kind, **EXACT.get(kind, {}), **how)
    return file.getvalue()


def shown(data: bytes) -> np.ndarray:
    return decoded_picture("picture", data).pixels


def on_white(pixels, alpha):
    """Pixels with this alpha on white, rounded."""
    if pixels.ndim == 2:
        share = alpha / 255
    else:
        share = alpha[..., None] / 255
    return np.rint(pixels * share + 255 * (1 - share))


@pytest.fixture
def gallery(tmp_path):
    """A function that writes pictures into a folder: names with their bytes, or pixels
    for PNG."""

    def write(name, files):
        for file, content in files.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(
                packed(content, "PNG") if isinstance(content, np.ndarray) else content
            )
        return tmp_path / name

    return write


def noise(count, *shape, kind=np.uint8, seed=1):
    """Pictures of two classes: the second is brighter."""
    most = np.iinfo(kind).max
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, most // 2, (count, *shape)).astype(kind)
    pixels[1::2] += most // 2
    return pixels


def classes_of(pixels, suffix="png", kind="PNG") -> dict[str, bytes]:
    return {
        f"{'ab'[row % 2]}/{row}.{suffix}": packed(picture, kind)
        for row, picture in enumerate(pixels)
    }


def model_on(data, layers, folder, *flags):
    succeed(
        *TRAIN,
        3,
        "--dataset",
        data,
        "--model",
        folder / "m.bin",
        "--layers",
        layers,
        *flags,
    )
    return folder / "m.bin"


def scores(model, data, *flags) -> dict[str, str]:
    """The score of each picture by its name."""
    rows = predictions(model, data, *flags)
    return {row["file"]: row["score b"] for row in rows}


def test_columns_of_pixels_from_0_to_1_stay_numbers_where_later_ones_are_whole(
    tmp_path,
):
    rng = np.random.default_rng(0)

    def written(name, pixels):
        rows = np.column_stack([pixels, np.arange(len(pixels)) % 2])
        path = tmp_path / name
        np.savetxt(path, rows, "%.17g", ",", header="a,b,c,d,y", comments="")
        return path

    table = written("t.csv", rng.random((60, 4)))
    net = nn.Network.load(model_on(table, "1x2x2,3:tanh,1", tmp_path))
    dark = rng.integers(0, 2, (20, 4)).astype(np.float32)
    read = nn.load_for(net, written("new.csv", dark)).x
    given = dark.reshape(-1, 1, 2, 2)
    assert np.array_equal(net.predict(read), net.predict(given))


# ---------------------------------------------------------------- EXIF


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", SHOWN)
def test_pictures_are_read_as_a_viewer_shows_them(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = Image.open(io.BytesIO(packed(COLOURS, kind)))
    stored = np.asarray(image.convert("RGB"))
    np.testing.assert_array_equal(
        shown(packed(COLOURS, kind, exif=exif)), SHOWN[orientation](stored)
    )
    if kind in ("PNG", "TIFF"):
        np.testing.assert_array_equal(
            shown(packed(DEEP, kind, exif=exif)), SHOWN[orientation](DEEP)
        )


def test_a_turned_picture_is_predicted_as_upright_and_a_damaged_exif_turns_nothing(
    gallery, tmp_path
):
    pixels = noise(12, 5, 4)
    model = model_on(gallery("set", classes_of(pixels)), "1x5x4,3,1", tmp_path)
    exif = Image.Exif()
    # stored turned to the left: upright again when it is turned to the right
    exif[0x0112] = 6
    turned = packed(np.ascontiguousarray(np.rot90(pixels[0])), "PNG", exif=exif)
    damaged = packed(pixels[0], "PNG", exif=b"Exif\0\0MM\0*\xff\xff")
    new = gallery(
        "new", {"1.png": packed(pixels[0], "PNG"), "2.png": turned, "3.png": damaged}
    )
    result = scores(model, new)
    assert len({*result.values()}) == 1
    assert len(result) == 3


# ---------------------------------------------------------------- alpha


def test_what_is_transparent_is_read_on_white():
    with_alpha = np.dstack([COLOURS, ALPHA])
    for kind in ("PNG", "WEBP", "TIFF"):
        np.testing.assert_array_equal(
            shown(packed(with_alpha, kind)), on_white(COLOURS, ALPHA)
        )
    grey = Image.merge("LA", (Image.fromarray(GREY), Image.fromarray(ALPHA)))
    np.testing.assert_array_equal(shown(packed(grey, "PNG")), on_white(GREY, ALPHA))
    palette = Image.fromarray(COLOURS).quantize(8)
    colours = np.asarray(palette.convert("RGB"))
    places = np.asarray(palette)
    alphas = bytes(range(0, 256, 36))
    alpha = np.frombuffer(alphas, np.uint8)[places]
    expected = on_white(colours, alpha)
    np.testing.assert_array_equal(
        shown(packed(palette, "PNG", transparency=alphas)), expected
    )
    alpha = np.where(places == 3, 0, 255)
    np.testing.assert_array_equal(
        shown(packed(palette, "PNG", transparency=3)), on_white(colours, alpha)
    )
    clear = int(GREY[0, 0])
    np.testing.assert_array_equal(
        shown(packed(GREY, "PNG", transparency=clear)),
        np.where(clear == GREY, 255, GREY),
    )
    expected = COLOURS.copy()
    expected[2, 1] = 255
    transparency = tuple(map(int, COLOURS[2, 1]))
    data = packed(COLOURS, "PNG", transparency=transparency)
    np.testing.assert_array_equal(shown(data), expected)
    transparency = int(DEEP[1, 1])
    data = packed(DEEP, "PNG", transparency=transparency)
    np.testing.assert_array_equal(
        shown(data), np.where(DEEP[1, 1] == DEEP, 65535, DEEP)
    )


def test_the_sample_that_a_png_of_few_bits_names_as_transparent_is_white():
    def chunk(name, content):
        body = name + content
        return (
            struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 1, 4, 0, 0, 0, 0))
    rest = chunk(b"IDAT", zlib.compress(bytes([0, 0x0F, 0x7F]))) + chunk(b"IEND", b"")
    magic = b"\x89PNG\r\n\x1a\n"
    clear = chunk(b"tRNS", struct.pack(">H", 7))
    assert shown(magic + header + rest).tolist() == [[0, 255, 119, 255]]
    assert shown(magic + header + clear + rest).tolist() == [[0, 255, 255, 255]]


def test_alpha_of_255_changes_nothing_and_other_alpha_is_told_once(
    gallery, warnings_of
):
    whole = np.dstack([COLOURS, np.full((5, 4), 255, np.uint8)])
    np.testing.assert_array_equal(shown(packed(whole, "PNG")), COLOURS)
    assert not decoded_picture("picture", packed(whole, "PNG")).is_transparent
    icon = np.zeros((5, 4, 4), np.uint8)
    icon[1:3, 1:3, 3] = 255  # a black square, whose shape lies in alpha
    path = gallery("set", {"a/1.png": icon, "a/2.png": icon, "b/1.png": whole})
    ds = load(path)
    x = ds.x[0, :, 1:3, 1:3]
    assert x.max() == 0
    assert (ds.x[0] == 255).sum() == 3 * 16
    assert warnings_of() == [
        f"{path}: 2 of 3 pictures have transparent pixels, which are read on white"
    ]


# ---------------------------------------------------------------- channels


def test_the_channels_of_the_model_decide_and_not_the_neighbours(gallery, tmp_path):
    pixels = noise(12, 5, 4, 3)
    model = model_on(gallery("set", classes_of(pixels)), "3x5x4,3,1", tmp_path)
    grey = pixels[0, ..., 0]
    repeated = np.dstack([grey] * 3)
    alone = gallery("alone", {"1.png": grey})
    among = gallery("among", {"1.png": grey, "2.png": pixels[1], "3.png": repeated})
    score_alone = scores(model, alone)["1.png"]
    scores_among = scores(model, among)
    assert scores_among["1.png"] == score_alone
    assert scores_among["3.png"] == score_alone
    assert scores_among["2.png"] != score_alone


def test_colours_go_to_a_grey_model_only_where_they_are_grey(gallery, tmp_path):
    pixels = noise(12, 5, 4)
    model = model_on(gallery("set", classes_of(pixels)), "1x5x4,3,1", tmp_path)
    new = gallery("new", {"1.png": pixels[0], "2.png": np.dstack([pixels[0]] * 3)})
    values = scores(model, new).values()
    assert len({*values}) == 1
    odd = gallery("new", {"3.png": COLOURS}) / "3.png"
    for command in (["--predict", "--dataset", new], ["--predict", "--dataset", odd]):
        result = run(*command, "--model", model)
        assert result.code == 65
        assert (
            f"{odd}: has colours, the model was trained on grey pictures; convert it to grey"
            in result.err
        )
    gallery("truth", {"a/1.png": pixels[0], "b/3.png": COLOURS})
    result = run("--test", "--model", model, "--dataset", tmp_path / "truth")
    assert result.code == 65
    assert "b/3.png: has colours" in result.err
    assert "--layers" not in result.err


def test_in_a_training_layers_may_say_the_channels(gallery):
    path = gallery("set", {"a/1.png": GREY, "b/2.png": np.dstack([GREY] * 3)})
    assert load(path).x.shape == (2, 3, 5, 4)
    shape = load(path, inputs=(1, 5, 4), outputs=1).x.shape
    x = load(path, inputs=20, outputs=1).x
    assert shape == x.shape == (2, 1, 5, 4)
    ds = load(path, inputs=60, outputs=1)
    assert ds.x.shape == (2, 3, 5, 4)
    grey = gallery("grey", {"a/1.png": GREY, "b/2.png": GREY})
    expected = np.stack([GREY] * 3)
    ds = load(grey, inputs=(3, 5, 4), outputs=1)
    np.testing.assert_array_equal(ds.x[0], expected)
    odd = gallery("set", {"b/3.png": COLOURS}) / "b" / "3.png"
    message = failure(path, names=odd, inputs=(1, 5, 4), outputs=1)
    assert "has colours, expected grey; begin --layers with 3x5x4" in message


# ---------------------------------------------------------------- formats and ranges


@pytest.mark.parametrize(
    "kind, suffix",
    [
        ("PNG", "png"),
        ("WEBP", "webp"),
        ("BMP", "bmp"),
        ("TIFF", "tiff"),
        ("TIFF", "tif"),
        ("PPM", "ppm"),
        ("GIF", "gif"),
        ("PNG", "JPG"),
        ("TGA", "tga"),
        ("JPEG2000", "jp2"),
        ("PNG", ""),
        ("BMP", ""),
    ],
)
def test_what_pillow_reads_is_a_picture(gallery, kind, suffix):
    # which GIF holds too
    colours = np.repeat(COLOURS[:, :, :1] // 128 * 255, 3, axis=2)
    if suffix:
        name = f"1.{suffix}"
    else:
        name = "1"
    path = gallery("set", {"a/1.png": GREY, f"b/{name}": packed(colours, kind)})
    ds = load(path)
    assert ds.classes == ["a", "b"]
    assert ds.ids == {"file": ["a/1.png", f"b/{name}"]}
    shape = ds.x[1].shape
    expected = np.broadcast_to(colours.transpose(2, 0, 1), shape)
    np.testing.assert_array_equal(ds.x[1], expected)


def pgm(pixels, white=65535) -> bytes:
    data = pixels.astype(">u2").tobytes()
    shape = pixels.shape[::-1]
    return b"P5\n%d %d\n%d\n" % (*shape, white) + data


def test_grey_of_16_bits_is_read_by_its_full_range(gallery):
    files = {
        "a/1.png": packed(DEEP, "PNG"),
        "a/2.tif": packed(DEEP, "TIFF"),
        "b/3.pgm": pgm(DEEP),
        "b/4.png": GREY,
    }
    ds = load(gallery("set", files))
    assert ds.pixel_range == 65535
    assert ds.x.dtype == np.float32
    assert ds.x.shape == (4, 1, 5, 4)
    for row in range(3):
        x = ds.x[row, 0]
        np.testing.assert_array_equal(x, DEEP)
    x = ds.x[3, 0]
    np.testing.assert_array_equal(x, 257.0 * GREY)
    expected = np.rint((DEEP % 1024).astype(int) * 65535 / 1023)
    np.testing.assert_array_equal(shown(pgm(DEEP % 1024, 1023)), expected)
    np.testing.assert_array_equal(
        shown(packed(DEEP, "TIFF", tiffinfo={262: 0})), 65535 - DEEP
    )
    cases = (DEEP.astype(np.int32), DEEP.astype(np.float32))
    for numbers in cases:
        data = packed(numbers, "TIFF")
        message = refusal(partial(shown, data), DataError)
        assert "expected 8 bits per channel, or 16 of grey" in message


def test_a_model_keeps_the_range_of_its_pictures(gallery, tmp_path):
    pixels = noise(12, 5, 4, kind=np.uint16) // 257 * 257
    deep = model_on(gallery("deep", classes_of(pixels)), "1x5x4,3,1", tmp_path)
    facts = model_file.load(deep)[1]
    assert facts["pictures"] == {"range": 65535, "shape": [1, 5, 4], "alpha": "white"}
    assert facts["format"] == 3
    small = gallery(
        "small",
        {
            f"{row}.png": (picture // 257).astype(np.uint8)
            for row, picture in enumerate(pixels)
        },
    )
    wide = gallery(
        "wide", {f"{row}.png": picture for row, picture in enumerate(pixels)}
    )
    assert scores(deep, small) == scores(deep, wide)
    assert scores(deep, small / "3.png")["3.png"] == scores(deep, wide)["3.png"]
    net = nn.Network.load(deep)
    values = scores(deep, wide).values()
    numbers = [float(score) for score in values]
    expected = np.array(numbers, np.float32)
    names = [int(name.removesuffix(".png")) for name in scores(deep, wide)]
    rows = pixels[names, None]
    np.testing.assert_allclose(net.predict(rows)[:, 0], expected, rtol=1e-6)
    bytes_ = model_on(
        gallery("bytes", classes_of((pixels // 257).astype(np.uint8))),
        "1x5x4,3,1",
        tmp_path,
    )
    assert scores(bytes_, small) == scores(bytes_, wide)


# ---------------------------------------------------------------- folders


def test_a_folder_without_a_picture_is_named_and_no_class(
    gallery, warnings_of, tmp_path
):
    files = {
        "a/1.png": GREY,
        "b/2.png": GREY,
        "c/x.heic": b"x",
        "c/y.HEIC": b"x",
        "d/.keep": b"",
    }
    path = gallery("set", files)
    assert load(path).classes == ["a", "b"]
    assert warnings_of() == [
        f"{path}: 2 folders without a picture, no class: c (2 .heic), d (empty)"
    ]
    message = refusal(
        lambda: nn.fit(
            str(gallery("one", {"a/1.png": GREY, "a/2.png": GREY, "b/x.heic": b"x"}))
        )
    )
    assert "only class a" in message
    assert "add a folder of pictures of another class" in message
    assert "--target" not in message
    bad = gallery("set", {"b/2.png": b"no picture"}) / "b" / "2.png"
    assert "cannot read the image" in failure(path, names=bad)


def test_pictures_without_class_folders_are_rows_of_predict(
    gallery, tmp_path, warnings_of
):
    pixels = noise(12, 5, 4)
    data = gallery("set", classes_of(pixels))
    model = model_on(data, "1x5x4,3,1", tmp_path)
    truth = predictions(model, data)
    files = [row["file"] for row in truth]
    assert files[:3] == ["a/0.png", "a/10.png", "a/2.png"]
    expected = ["a"] * 6 + ["b"] * 6
    assert [row["true"] for row in truth] == expected
    loose = predictions(model, data / "a")
    assert list(loose[0]) == ["row", "file", "predicted", "score b"]
    expected = [row["score b"] for row in truth[:6]]
    assert [row["score b"] for row in loose] == expected
    path = data / "b" / "1.png"
    (one,) = predictions(model, path)
    assert one["file"] == "1.png"
    assert one["score b"] == truth[6]["score b"]
    path = data / "b" / "1.png"
    several = predictions(model, f"{path},{data / 'a' / '0.png'}")
    assert [row["file"] for row in several] == ["1.png", "0.png"]
    rows = predictions(model, data / "a" / "*.png")
    assert len(rows) == 6
    other = gallery("other", {"new/1.png": pixels[1], "2.png": pixels[0]})
    mixed = predictions(model, other)
    assert [row["file"] for row in mixed] == ["2.png", "new/1.png"]
    assert "true" not in mixed[0]
    expected = [truth[0]["score b"], truth[6]["score b"]]
    assert [row["score b"] for row in mixed] == expected
    (other / "2.png").unlink()
    # its folder is no class of the model
    assert "true" not in predictions(model, other)[0]


def test_a_training_and_a_test_say_how_folders_of_classes_look(gallery, tmp_path):
    data = gallery("set", classes_of(noise(12, 5, 4)))
    model = model_on(data, "1x5x4,3,1", tmp_path)
    how = "expected a folder with a folder of pictures for each class"
    path = data / "a" / "0.png"
    cases = (
        (data / "a", f"no folders of classes, but 6 pictures, {how}"),
        (path, f"a picture without a class, {how}"),
    )
    for place, words in cases:
        commands = (
            [*TRAIN, 1, "--model", tmp_path / "x.bin"],
            ["--test", "--model", model],
        )
        for command in commands:
            result = run(*command, "--dataset", place)
            assert result.code == 65
            assert f"{place}: {words}" in result.err


def test_pictures_beside_class_folders_are_told_in_a_training(gallery, warnings_of):
    path = gallery("set", {"a/1.png": GREY, "b/2.png": GREY, "3.png": GREY})
    assert load(path, labelled=False).rows == 3
    assert not warnings_of()
    assert load(path).rows == 2
    assert warnings_of() == [f"{path}: ignored pictures that lie in no class folder: 1"]


def test_a_picture_is_no_row_of_a_table_and_of_no_other_size(gallery, tmp_path, write):
    rows = []
    for k in range(20):
        rows.append(f"{k},{k % 3},{k % 7},{k % 5},{k % 2}\n")
    write("a,b,c,d,y\n" + "".join(rows), "t.csv")
    model = model_on(tmp_path / "t.csv", "4,3,1", tmp_path)
    picture = gallery("new", {"1.png": GREY[:2, :2]}) / "1.png"
    result = run("--predict", "--model", model, "--dataset", picture)
    assert result.code == 65
    assert "a picture, expected rows of a table" in result.err
    for layers in ("1x5x4,3,1", "20,3,1"):
        model = model_on(gallery("set", classes_of(noise(12, 5, 4))), layers, tmp_path)
        odd = gallery("odd", {"1.png": np.ascontiguousarray(GREY.T)}) / "1.png"
        result = run("--predict", "--model", model, "--dataset", odd)
        assert result.code == 65
        assert (
            f"{odd}: 5x4 pixels, expected 4x5 as in the training of the model; resize it"
            in result.err
        )


# ----------------------------------------- the model decides whether pixels are divided


def doors(pixels, folder):
    """The same whole numbers as NPZ of several types and as CSV, and as one row of
    each."""
    flat = pixels.reshape(len(pixels), -1)
    results = []
    cases = (np.uint8, np.int64, np.float32, np.float64)
    for kind in cases:
        for rows in (slice(None), slice(3, 4)):
            name = np.dtype(kind).name
            path = folder / f"{name}{rows.start}.npz"
            x = pixels[rows].astype(kind)
            np.savez(path, x=x)
            results.append((path, rows))
    for rows in (slice(None), slice(3, 4)):
        path = folder / f"t{rows.start}.csv"
        np.savetxt(path, flat[rows], fmt="%d", delimiter=",")
        results.append((path, rows))
    return results


@pytest.mark.parametrize("kind", ["bytes", "fractions", "whole"])
def test_whether_pixels_are_divided_is_a_fact_of_the_model(tmp_path, kind):
    """A row of whole numbers was divided by 255, and not beside a fraction."""
    pixels = noise(40, 1, 4, 4)
    pixels[0, 0, 0, :2] = 0, 255
    if kind == "bytes":
        y = np.arange(40) % 2
        np.savez(tmp_path / "train.npz", x=pixels, y=y)
    elif kind == "fractions":
        y = np.arange(40) % 2
        np.savez(tmp_path / "train.npz", x=pixels / 255, y=y)
        pixels = pixels // 128
    else:
        x = pixels.astype(np.float32)
        y = np.arange(40) % 2
        np.savez(tmp_path / "train.npz", x=x, y=y)
    model = model_on(tmp_path / "train.npz", "1x4x4,3,1", tmp_path)
    pictures = model_file.load(model)[1]["pictures"]
    assert pictures["range"] == {"bytes": 255, "fractions": 1, "whole": None}[kind]
    reader = nn.Network.load(model).reader
    white = {"bytes": 255, "fractions": 1, "whole": 1}[kind]
    assert reader.pixel_range == white
    if reader.scaling.kind == "pixel":
        read = reader.engine_rows(pixels.astype(np.float32) + 0.25)
        np.testing.assert_allclose(read, (pixels + 0.25) / white, rtol=1e-6)
    expected = None
    for path, rows in doors(pixels, tmp_path):
        cells = [row["score 1"] for row in predictions(model, path)]
        if expected is None:
            expected = cells
        assert cells == expected[rows], path
    net = nn.Network.load(model)
    cases = (np.uint8, np.int32, np.float32, np.float64)
    for dtype in cases:
        np.testing.assert_array_equal(
            net.predict(pixels.astype(dtype)), np.array(expected, np.float32)[:, None]
        )
    several = pixels.astype(np.float32)
    several[0, 0, 0, 0] += 0.5  # a fraction in one row
    np.testing.assert_array_equal(
        net.predict(several)[1:], np.array(expected, np.float32)[1:, None]
    )


def test_a_table_of_pixels_is_read_by_the_range_of_the_model(tmp_path):
    pixels = noise(40, 16)
    names = ",".join(f"p{k}" for k in range(16))
    for name, scale in (("bytes", 1), ("fractions", 1 / 255)):
        rows = np.column_stack([pixels * scale, np.arange(40) % 2])
        path = tmp_path / f"{name}.csv"
        np.savetxt(
            path, rows, fmt="%.9g", delimiter=",", header=f"{names},y", comments=""
        )
        path = tmp_path / f"{name}.csv"
        model = model_on(path, "1x4x4,3,1", tmp_path)
        net = nn.Network.load(model)
        if name == "bytes":
            whole = pixels[:5]
        else:
            whole = pixels[:5] // 128
        among = np.vstack([whole, np.full((1, 16), 0.25)])
        for file, table in (("alone", whole), ("among", among)):
            path = tmp_path / f"{file}.csv"
            np.savetxt(
                path, table, fmt="%.9g", delimiter=",", header=names, comments=""
            )
        alone = predictions(model, tmp_path / f"{'alone'}.csv")
        beside = predictions(model, tmp_path / f"{'among'}.csv")
        cells = [row["score 1"] for row in alone]
        assert cells == [row["score 1"] for row in beside][:5]
        expected = net.predict(whole.reshape(-1, 1, 4, 4).astype(np.float32))[:, 0]
        cells = [row["score 1"] for row in alone]
        np.testing.assert_array_equal(np.array(cells, np.float32), expected)


def test_an_estimator_reads_pixels_by_the_range_of_its_model():
    x = noise(40, 16).astype(np.float64)
    cases = ((x, x[:6]), (x / 255, x[:6] // 128))
    for rows, new in cases:
        classifier = nn.NetworkClassifier("1x4x4,3,1", epochs=2).fit(
            rows, np.arange(40) % 2
        )
        among = np.vstack([new, np.full((1, 16), 0.3)])
        np.testing.assert_array_equal(
            classifier.predict_proba(new), classifier.predict_proba(among)[:6]
        )


def test_pictures_for_a_model_of_floats_are_read_by_their_full_range_or_refused(
    tmp_path, gallery
):
    pixels = noise(40, 1, 5, 4)
    path = gallery("new", {f"{row}.png": pixels[row, 0] for row in range(3)})
    y = np.arange(40) % 2
    np.savez(tmp_path / "t.npz", x=pixels / 255, y=y)
    model = model_on(tmp_path / "t.npz", "1x5x4,3,1", tmp_path)
    numbers = [float(row["score 1"]) for row in predictions(model, path)]
    net = nn.Network.load(model)
    rows = pixels[:3] / 255
    expected = net.predict(rows)[:, 0]
    np.testing.assert_allclose(numbers, expected, rtol=1e-6)
    y = np.arange(40) % 2
    x = pixels / 255 - 0.5
    np.savez(tmp_path / "t.npz", x=x, y=y)
    result = run(
        "--predict",
        "--model",
        model_on(tmp_path / "t.npz", "1x5x4,3,1", tmp_path),
        "--dataset",
        path,
    )
    assert result.code == 65
    assert (
        "0.png: a picture, the model was trained on numbers that are no pixels"
        in result.err
    )


@pytest.mark.parametrize(
    "scaling", ["pixel", "standardization", "normalization", "none"]
)
@pytest.mark.parametrize("layers", ["20,3,1", "60,3,1"])
def test_a_dense_network_reads_pictures_as_columns(gallery, tmp_path, scaling, layers):
    """Scaling by channel ended such a training after its last epoch; explanations took
    bytes undivided."""
    if layers.startswith("20"):
        pixels = noise(24, 5, 4)
    else:
        pixels = noise(24, 5, 4, 3)
    data = gallery("set", classes_of(pixels))
    model = model_on(data, layers, tmp_path, "--scaling", scaling)
    net = nn.Network.load(model)
    ds = nn.load_for(net, data)
    numbers = [float(row["score b"]) for row in predictions(model, data)]
    np.testing.assert_allclose(net.predict(ds.x)[:, 0], numbers, rtol=1e-6)
    x = ds.x.reshape(24, -1)
    np.testing.assert_allclose(net.predict(x)[:, 0], numbers, rtol=1e-6)
    x = ds.x[3:9]
    explained = nn.explain(net, ds.x[:3], x)
    logits = np.clip(explained.base_values + explained.values.sum(axis=1), -80, 80)
    np.testing.assert_allclose(
        1 / (1 + np.exp(-logits)), numbers[:3], rtol=1e-3, atol=1e-4
    )


# ---------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"range": 255},
        {"range": 254, "shape": [1, 5, 4], "alpha": "white"},
        {"range": 255.0, "shape": [1, 5, 4], "alpha": "white"},
        {"range": "255", "shape": [1, 5, 4], "alpha": "white"},
        {"range": 255, "shape": [1, 5], "alpha": "white"},
        {"range": 255, "shape": [1, 5, 5], "alpha": "white"},
        {"range": 255, "shape": [-1, -5, 4], "alpha": "white"},
        {"range": 255, "shape": [1, 5, 4], "alpha": "black"},
        {"range": int("9" * 400), "shape": None, "alpha": "white"},
    ],
)
def test_a_hostile_model_of_pictures_is_damage(gallery, tmp_path, value):
    from files.test_model_file import file_of

    data = gallery("set", classes_of(noise(12, 5, 4)))
    path = model_on(data, "1x5x4,3,1", tmp_path)
    tensors, facts = model_file.load(path)
    del facts["sha256"]
    changed = copy.deepcopy(facts) | {"pictures": value}
    (tmp_path / "x.bin").write_bytes(file_of(tensors, changed))
    commands = (
        ["--info"],
        ["--predict", "--dataset", data],
        ["--export", "-o", tmp_path / "x.c"],
    )
    for command in commands:
        result = run(*command, "--model", tmp_path / "x.bin")
        assert result.code == 65
        assert "`pictures`" in result.err
        assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF", "PPM"])
def test_a_damaged_picture_is_one_line_or_a_picture(kind):
    whole = packed(Image.fromarray(COLOURS), kind)
    for cut in range(0, len(whole), 7):
        message = refusal_or_picture(whole[:cut])
        assert message is None or message.startswith("picture: cannot read the image (")
    for place in range(0, min(len(whole), 200), 3):
        refusal_or_picture(
            whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :]
        )


def refusal_or_picture(data: bytes) -> str | None:
    """The message that reading ends in, one line; None where there is a picture."""
    try:
        picture = decoded_picture("picture", data)
    except NnError as error:
        assert "\n" not in str(error)
        return str(error)
    assert picture.pixels.ndim in (2, 3)
    assert picture.range in (255, 65535)
    return None


def test_a_picture_that_unpacks_without_end_is_one_line(gallery, tmp_path, capfd):
    def chunk(name, content):
        return (
            struct.pack(">I", len(content))
            + name
            + content
            + struct.pack(">I", zlib.crc32(name + content))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 0, 0, 0, 0))
    bomb = (
        b"\x89PNG\r\n\x1a\n"
        + header
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )
    data = gallery("set", classes_of(noise(12, 5, 4)))
    model = model_on(data, "1x5x4,3,1", tmp_path)
    new = gallery("new", {"1.png": bomb})
    for place in (new, new / "1.png"):
        result = run("--predict", "--model", model, "--dataset", place)
        assert result.code == 65
        assert "1.png: cannot read the image" in result.err
        assert len(result.err.splitlines()) == 1


def test_a_model_of_version_0_1_reads_pictures_as_then(gallery):
    """Neither turned nor on white: the alpha is dropped."""
    model = Path(__file__).parents[1] / "version-0.1" / "images.bin"
    grey = RNG.integers(0, 256, (8, 8), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    alpha = Image.merge("LA", (Image.fromarray(grey), Image.fromarray(grey.T.copy())))
    files = {
        "1.png": packed(grey, "PNG"),
        "2.png": packed(grey, "PNG", exif=exif),
        "3.png": packed(alpha, "PNG"),
    }
    files["4.png"] = packed(grey.astype(np.uint16) * 257, "PNG")
    rows = predictions(model, gallery("new", files))
    assert (
        len(
            {
                tuple(row[name] for name in row if name.startswith("score"))
                for row in rows
            }
        )
        == 1
    )
    net = nn.Network.of_file(model)
    expected = net.predict(grey[None, None])
    numbers = [float(rows[0][f"score {k}"]) for k in range(3)]
    np.testing.assert_allclose(numbers, expected[0], rtol=1e-6)


def test_pictures_that_were_read_without_the_model_are_refused_in_another_range(
    gallery, tmp_path
):
    pixels = noise(12, 5, 4, kind=np.uint16)
    deep = gallery("deep", classes_of(pixels))
    path = model_on(deep, "1x5x4,3,1", tmp_path)
    net = nn.Network.load(path)
    small = gallery("small", classes_of(noise(12, 5, 4)))
    message = refusal(lambda: nn.test(net, load(small)), DataError)
    assert (
        "pictures whose white is 255, expected 65535 as in the training of the model"
        in message
    )
    rows = nn.load_for(net, small)
    assert nn.test(net, rows)["rows"] == 12


def test_bytes_for_a_model_of_shares_and_shares_for_one_of_bytes_are_told(
    tmp_path, warnings_of
):
    pixels = noise(40, 1, 4, 4)
    cases = (("shares", pixels / 255), ("bytes", pixels))
    for name, x in cases:
        y = np.arange(40) % 2
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    for name, other, words in (
        (
            "shares",
            "bytes",
            f"bytes up to {pixels.max()}, the model was trained on numbers from 0 to 1",
        ),
        (
            "bytes",
            "shares",
            "the model divides by 255 by itself; give them from 0 to 255",
        ),
    ):
        path = model_on(tmp_path / f"{name}.npz", "1x4x4,3,1", tmp_path)
        net = nn.Network.load(path)
        before = len(warnings_of())
        nn.load_for(net, tmp_path / f"{name}.npz")
        assert warnings_of()[before:] == []
        nn.load_for(net, tmp_path / f"{other}.npz")
        (message,) = warnings_of()[before:]
        assert words in message


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(np.uint8, marks=pytest.mark.long), np.uint16]
)
def test_pictures_are_learned_from_end_to_end(gallery, tmp_path, kind):
    """Without --layers, three classes: bars at three heights."""
    rng = np.random.default_rng(3)
    pixels = rng.integers(0, np.iinfo(kind).max // 3, (90, 8, 8)).astype(kind)
    for row, place in enumerate(np.arange(90) % 3):
        pixels[row, 2 * place : 2 * place + 2] += np.iinfo(kind).max // 2
    files = {}
    for row, picture in enumerate(pixels):
        files[f"{'abc'[row % 3]}/{row}.png"] = packed(picture, "PNG")
    data = gallery("set", files)
    model = tmp_path / "m.bin"
    succeed(
        *TRAIN[:-1],
        *argv(f"--effort quick --dataset {data} --model {model}"),
        "--report",
        tmp_path / "r.html",
    )
    result = succeed("--test", "--model", model, "--dataset", data, "--json")
    assert result.json["accuracy"] > 0.9
    rows = predictions(model, data)
    expected = [row["predicted"] for row in rows]
    assert nn.Model.load(model).predict(str(data)).tolist() == expected


@pytest.mark.parametrize("first", ["bytes", "words"])
def test_bytes_beside_16_bits_are_the_same_part_of_white(first):
    """In a training whichever comes first; for a model of bytes, of an earlier version
    rounded."""
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4) * 23
    fine = np.arange(12, dtype=np.uint16).reshape(3, 4) * 5957
    pictures = [Picture(grey, 255), Picture(fine, 65535)]
    expected = [grey / 255, fine / 65535]
    if first == "words":
        pictures.reverse()
        expected.reverse()

    def read(schema):
        rows = _Rows(schema, 2)
        for number, picture in enumerate(pictures):
            rows.put(number, Path(f"{number}.png"), picture)
        return rows.whole()[:, 0], rows.range

    x, white = read(Schema())
    assert white == 65535
    np.testing.assert_allclose(x / white, expected, rtol=1e-6)
    facts = {"range": 255, "shape": [1, 3, 4], "alpha": "white"}
    model = Schema(inputs=(1, 3, 4), follows_model=True)
    x, white = read(replace(model, pictures=facts))
    np.testing.assert_allclose(x / white, expected, rtol=1e-6)
    x, white = read(model)
    assert x.dtype == np.uint8
    assert (x == np.rint(np.array(expected) * 255)).all()
