"""Image data: IDX, CIFAR-10 binary, NPZ and folders of class folders."""

import gzip
import hashlib
import io
import os
import struct
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.effort import examples
from support.tables import failure, is_mapped, peak_of_loading, refusal

from nn.data import records
from nn.ds import load
from nn.utils import InputNotFound, NnError, UsageError

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (12, 5, 4), np.uint8)
LABELS = np.arange(12, dtype=np.uint8) % 3


def idx(array, kind=0x08):
    head = bytes([0, 0, kind, array.ndim]) + struct.pack(
        f">{array.ndim}I", *array.shape
    )
    return head + array.tobytes()


@pytest.mark.parametrize(
    "images, labels",
    [
        ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
        ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
        ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte"),
        ("t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte.gz"),
        ("images", "labels"),
    ],
)
def test_idx_images_with_the_labels_beside_them(write, images, labels):
    cases = ((images, idx(PIXELS)), (labels, idx(LABELS)))
    for name, data in cases:
        content = gzip.compress(data) if name.endswith(".gz") else data
        path = write(content, name)
    path = path.parent / images
    ds = load(path)
    assert ds.x.dtype == np.uint8
    assert ds.x.flags.c_contiguous
    expected = PIXELS[:, None]
    np.testing.assert_array_equal(ds.x, expected)
    np.testing.assert_array_equal(ds.y, LABELS)
    assert ds.task == "multiclass"
    assert ds.classes == ["0", "1", "2"]
    assert ds.y.dtype == np.int32
    expected = hashlib.sha256(
        path.read_bytes() + (path.parent / labels).read_bytes()
    ).hexdigest()
    assert ds.sha256 == expected


def test_idx_of_other_shapes_and_types_and_the_shape_of_the_network(write):
    write(idx(LABELS.astype(">i4"), 0x0C), "labels")
    floats = (PIXELS / 7).astype(">f4")
    ds = load(write(idx(floats, 0x0D), "images"), dtype="float64")
    expected = floats[:, None]
    np.testing.assert_array_equal(ds.x, expected)
    # colours, vectors
    arrays = (PIXELS.reshape(12, 2, 2, 5), PIXELS.reshape(12, 20))
    for array in arrays:
        x = load(write(idx(array), "images")).x
        np.testing.assert_array_equal(x, array)
    write(idx(LABELS), "labels")
    path = write(idx(PIXELS), "images")
    x = load(path, inputs=(1, 5, 4), outputs=3).x
    assert x.shape == (12, 1, 5, 4)
    x = load(path, inputs=20, outputs=3).x
    assert x.shape == (12, 1, 5, 4)
    expected = [str(i) for i in range(10)]
    assert load(path, inputs=20, outputs=10).classes == expected
    assert "1x5x4 values a row, expected 3x32x32" in failure(path, inputs=(3, 32, 32))
    assert "expected 1x4x5" in failure(path, inputs=(1, 4, 5))
    assert "3 classes, expected 2" in failure(
        path, names=path.parent / "labels", inputs=20, outputs=2
    )
    with pytest.raises(UsageError, match="--target"):
        load(path, target="0")


def test_damaged_idx_files(write):
    whole = idx(PIXELS)
    labels = write(idx(LABELS), "x-labels-idx1-ubyte")
    cases = (
        (b"\0\0\x07\3" + whole[4:], "the file is cut or in another format"),
        (b"\3\x08\0\0" + whole[4:], "the file is cut or in another format"),
        (whole[:-1], "only 239 bytes, expected 240 for the 12x5x4 values"),
        (whole[:9], "ends within its header"),
        (whole + b"\0", "more bytes, expected 240"),
        (gzip.compress(whole[:-1]), "only 239 bytes, expected 240"),
        (gzip.compress(whole)[:-30], "too early"),
        (idx(PIXELS[:0]), "no images"),
    )
    for data, message in cases:
        assert message in failure(write(data, "x-images-idx3-ubyte"))
    assert "labels (magic number 0x00000801), expected images" in failure(labels)
    images = write(whole, "x-images-idx3-ubyte")
    for data, message in (
        (idx(LABELS[:11]), "11 labels, expected 12"),
        (idx(PIXELS), "expected whole numbers"),
        (
            b"\0\0\x07\1" + idx(LABELS)[4:],
            "magic number 0x00000701, expected 0x00000803",
        ),
    ):
        labels.write_bytes(data)
        assert message in failure(images, names=labels)
    labels.unlink()
    assert "expected x-labels-idx1-ubyte" in failure(images, InputNotFound)
    assert load(images, labelled=False).y is None


NAMES = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
]
RECORDS = RNG.integers(0, 256, (7, 3073), np.uint8)
RECORDS[:, 0] = [6, 9, 9, 4, 1, 1, 2]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_cifar_records(write, pack):
    path = write(pack(RECORDS.tobytes()), "data_batch_1.bin")
    ds = load(path)
    assert ds.x.dtype == np.uint8
    assert ds.classes == ["1", "2", "4", "6", "9"]
    expected = RECORDS[:, 1:].reshape(7, 3, 32, 32)
    np.testing.assert_array_equal(ds.x, expected)
    assert [ds.classes[i] for i in ds.y] == ["6", "9", "9", "4", "1", "1", "2"]
    expected = hashlib.sha256(path.read_bytes()).hexdigest()
    assert ds.sha256 == expected
    expected = [str(i) for i in range(10)]
    assert load(path, inputs=(3, 32, 32), outputs=10).classes == expected
    y = load(path, classes=NAMES).y.tolist()
    assert y == [6, 9, 9, 4, 1, 1, 2]


def test_many_cifar_records_come_in_pieces_and_damaged_files_are_refused(
    write, tmp_path
):
    records = RNG.integers(0, 256, (3000, 3073), np.uint8)
    records[:, 0] = np.arange(3000) % 10
    content = gzip.compress(records.tobytes(), 1)
    ds = load(write(content, "many.bin.gz"))
    x = ds.x.reshape(3000, -1)
    expected = records[:, 1:]
    np.testing.assert_array_equal(x, expected)
    expected = records[:, 0]
    np.testing.assert_array_equal(ds.y, expected)
    with open(tmp_path / "zeros", "wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk
    assert "1099511627776 bytes, expected whole CIFAR-10 records" in failure(
        tmp_path / "zeros"
    )
    cases = (RECORDS.tobytes()[:-1], gzip.compress(RECORDS.tobytes() + b"\0"))
    for data in cases:
        assert "expected whole CIFAR-10 records" in failure(write(data, "a.bin"))
    records = RECORDS.copy()
    records[3, 0] = 10
    assert "record 4: label 10, expected 0 to 9" in failure(
        write(records.tobytes(), "label.bin")
    )


def npz(compressed=False, **arrays):
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_images_stay_bytes(write, compressed):
    path = write(npz(compressed, x=PIXELS, y=LABELS), "digits")
    ds = load(path)
    expected = PIXELS[:, None]
    np.testing.assert_array_equal(ds.x, expected)
    assert ds.x.dtype == np.uint8
    assert ds.y.tolist() == LABELS.tolist()
    assert ds.task == "multiclass"
    expected = hashlib.sha256(path.read_bytes()).hexdigest()
    assert ds.sha256 == expected


def test_npz_of_other_shapes_types_and_orders(write):
    colours = RNG.integers(0, 256, (12, 6, 5, 3), np.uint8)
    content = npz(x=colours, y=LABELS)
    ds = load(write(content, "a.npz"))
    expected = colours.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(ds.x, expected)
    assert ds.x.flags.c_contiguous
    tables = RNG.normal(size=(12, 4))
    cases = (tables, np.asfortranarray(tables), tables.astype(">f8"))
    for x in cases:
        y = tables[:, :2]
        path = write(npz(x=x, y=y), "a.npz")
        ds = load(path, dtype="float64")
        np.testing.assert_array_equal(ds.x, tables)
        expected = tables[:, :2]
        np.testing.assert_array_equal(ds.y, expected)
        assert ds.task == "regression"
        assert ds.x.dtype == np.float64
        assert ds.x.flags.c_contiguous
    y = np.array(["b", "a", "c"] * 4)
    content = npz(x=np.arange(24).reshape(12, 2), y=y)
    ds = load(write(content, "a.npz"))
    assert ds.x.dtype == np.float32
    assert ds.classes == ["a", "b", "c"]
    assert ds.y.tolist() == [1, 0, 2] * 4
    y = np.eye(3)[LABELS]
    content = npz(x=tables, y=y)
    ds = load(write(content, "a.npz"))
    assert ds.task == "multiclass"
    assert ds.y.tolist() == LABELS.tolist()
    path = write(npz(x=tables, y=LABELS > 0), "a.npz")
    assert load(path).task == "binary"
    path = write(npz(x=tables), "a.npz")
    assert load(path, labelled=False).y is None
    path = write(npz(x=PIXELS.reshape(12, 20), y=LABELS), "a.npz")
    pixels = load(path, inputs=(1, 5, 4), outputs=3)
    expected = PIXELS[:, None]
    np.testing.assert_array_equal(pixels.x, expected)


def test_bad_npz_files(write):
    x = RNG.normal(size=(4, 2))
    y = np.array([0, 1, 0, 1])
    bad = x.copy()
    bad[2, 1] = np.nan
    many = np.zeros((5000, 2))
    many[4500] = np.inf
    whole = npz(True, x=np.zeros((100, 100)), y=np.zeros(100))
    with zipfile.ZipFile(packed := io.BytesIO(), "w", zipfile.ZIP_LZMA) as archive:
        for name in ("x.npy", "y.npy"):
            archive.writestr(name, b"")
    cases = (
        (packed.getvalue(), "x is compressed in an unknown way"),
        (npz(a=x, y=y), "holds the arrays a, y, expected x and y"),
        (npz(x=x), "holds the arrays x, expected x and y"),
        (npz(x=x, y=np.array([None, 1, 2, 3])), "Python objects"),
        (npz(x=x[0], y=y), "shape (2,)"),
        (npz(x=x, y=y[:3]), "shape (3,), expected (4,)"),
        (npz(x=bad, y=y), "index 2: nan or infinite"),
        (npz(x=x, y=bad[:, 1]), "array y, index 2"),
        (npz(x=many, y=many[:, 0] > 1), "a.npz, index 4500: nan or infinite"),
        (npz(x=x, y=x, now=np.array([0, 2])), "array now: expected for each of the 2"),
        (npz(x=x, y=x, now=np.array([-2, 0])), "0 to 1, or -1 for a change"),
        (npz(x=x, y=x, now=np.array([0])), "array now"),
        (npz(x=x, y=x, now=np.array([0.0, 1.0])), "array now"),
        (npz(x=x, y=x * 1e60), "too large for float32"),
        (npz(x=np.array([["a"], ["b"]]), y=y[:2]), "expected numbers"),
        (whole[:-100], "NPZ"),
        (whole[:100] + bytes([whole[100] ^ 255]) + whole[101:], "NPZ"),
        (gzip.compress(whole), "unpack"),
    )
    for data, message in cases:
        assert message in failure(write(data, "a.npz"))
    ends = np.array([-1, 1])
    assert load(write(npz(x=x, y=x, now=ends), "a.npz")).now == [-1, 1]


@pytest.mark.parametrize("form", ["idx", "npz", "npz, packed"])
@examples(100)
@given(data=st.data())
def test_any_damage_is_refused_or_harmless(tmp_path_factory, form, data):
    folder = tmp_path_factory.mktemp("damaged")
    whole = bytearray(
        idx(PIXELS) if form == "idx" else npz("packed" in form, x=PIXELS, y=LABELS)
    )
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    if form == "idx":
        cut = data.draw(st.integers(0, 256))
    else:
        cut = 0
    content = bytes(whole[: len(whole) - cut])
    (folder / "images").write_bytes(content)
    (folder / "labels").write_bytes(idx(LABELS))
    try:
        ds = load(folder / "images")
    except NnError as error:
        assert "\n" not in str(error)
    else:
        assert cut == 0
        assert ds.x.size == PIXELS.size
        # it has a check sum
        assert form == "idx" or (ds.x.ravel() == PIXELS.ravel()).all()
        np.testing.assert_array_equal(ds.y, LABELS)


def test_a_header_that_declares_too_much_takes_no_memory(write, tmp_path):
    huge = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**31, 2**16, 2**16) + b"\0" * 100
    for data in (huge, gzip.compress(huge)):
        assert "expected 9223372036854775808 for" in failure(write(data, "images"))
    header = io.BytesIO()
    shape = (2**40, 2**10)
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        for name in ("x.npy", "y.npy"):
            archive.writestr(name, header.getvalue() + b"\0" * 800)
    assert "too few bytes, expected 9007199254740992 for" in failure(
        tmp_path / "huge.npz"
    )


@pytest.fixture
def save(tmp_path):
    from PIL import Image

    def save(name, pixels, **how):
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, **how)
        return path

    return save


@pytest.fixture
def folder(save, tmp_path):
    """Two classes of grey images in all formats; JPEG is lossy, so its image is one
    grey."""
    save("dog/0.jpg", np.full((5, 4), 77, np.uint8), quality=100)
    for name, pixels in zip(("cat/a.png", "cat/b.png", "dog/1.pgm"), PIXELS):
        save(name, pixels)
    return tmp_path / "set"


def test_a_folder_of_class_folders_is_read_without_files_that_are_no_images(
    folder, request, warnings_of
):
    ds = load(folder)
    assert ds.task == "binary"
    assert ds.classes == ["cat", "dog"]
    assert ds.y.tolist() == [0, 0, 1, 1]
    expected = np.stack(
        [PIXELS[0], PIXELS[1], np.full((5, 4), 77, np.uint8), PIXELS[2]]
    )[:, None]
    np.testing.assert_array_equal(ds.x, expected)
    assert ds.x.dtype == np.uint8
    assert ds.path == str(folder)
    assert not is_mapped(ds.x)
    request.getfixturevalue("mapped")
    assert is_mapped(load(folder).x)
    for name in ("cat/notes.txt", "cat/.hidden.png", "readme.txt"):
        (folder / name).write_text("x")
    assert load(folder).rows == 4
    assert warnings_of() == [f"{folder}: ignored files that are not images: 1"]


@pytest.mark.skipif(sys.platform == "darwin", reason="its names are Unicode")
def test_a_class_folder_whose_name_is_no_text_is_a_class(folder):
    (folder / "dog").rename(folder / os.fsdecode(b"d\xff"))
    ds = load(folder)
    assert ds.classes == ["cat", "d\\udcff"]
    assert ds.y.tolist() == [0, 0, 1, 1]


def test_one_image_with_colours_gives_all_three_channels_and_numbers_keep_order(
    folder, save
):
    colours = RNG.integers(0, 256, (5, 4, 3), np.uint8)
    save("emu/x.png", colours)
    ds = load(folder)
    assert ds.x.shape == (5, 3, 5, 4)
    assert ds.task == "multiclass"
    expected = colours.transpose(2, 0, 1)
    np.testing.assert_array_equal(ds.x[4], expected)
    expected = np.stack([PIXELS[0]] * 3)
    np.testing.assert_array_equal(ds.x[0], expected)
    for i in range(12):
        save(f"../numbers/{i}/a.png", PIXELS[i])
    ds = load(folder.parent / "numbers")
    expected = [str(i) for i in range(12)]
    assert ds.classes == expected
    assert ds.y.tolist() == list(range(12))
    expected = PIXELS[:, None]
    np.testing.assert_array_equal(ds.x, expected)


def test_the_hash_of_a_folder_covers_names_classes_and_pixels(folder, save):
    hashes = [load(folder).sha256, load(folder).sha256]
    for name, other in (("cat/a.png", "cat/c.png"), ("cat/c.png", "dog/c.png")):
        (folder / name).rename(folder / other)
        hashes.append(load(folder).sha256)
    save("dog/c.png", PIXELS[9])
    hashes.append(load(folder).sha256)
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 4


def test_bad_folders_and_a_missing_pillow_are_told(folder, save, tmp_path, monkeypatch):
    odd = save("dog/z.png", PIXELS[0].T.copy())
    assert "5x4 pixels, expected 4x5 as" in failure(folder, names=odd)
    whole = save("dog/z.png", RNG.integers(0, 256, (5, 4), np.uint8)).read_bytes()
    cases = (
        b"no image",
        whole[:-25],
        b"",
        whole[:40] + bytes([whole[40] ^ 255]) + whole[41:],
    )
    for data in cases:
        odd.write_bytes(data)
        assert "cannot read the image" in failure(folder, names=odd)
    odd.unlink()
    assert "2 classes, expected 10" in failure(folder, inputs=(1, 5, 4), outputs=10)
    assert (
        "no folders of classes, but 2 pictures, expected a folder with a folder"
        in failure(folder / "cat")
    )
    (tmp_path / "none" / "a").mkdir(parents=True)
    assert "no images in its folders" in failure(tmp_path / "none")
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert 'pip install "pillow>=9"' in refusal(lambda: load(folder))


def test_mnist_and_cifar(shared):
    ds = load(
        shared / "data/mnist/t10k-images-idx3-ubyte.gz", inputs=(1, 28, 28), outputs=10
    )
    assert ds.x.shape == (10_000, 1, 28, 28)
    assert ds.x.dtype == np.uint8
    expected = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert ds.class_counts() == expected
    ds = load(
        shared / "data/cifar10/cifar10_test_1000.bin.gz", inputs=(3, 32, 32), outputs=10
    )
    assert ds.x.shape == (1000, 3, 32, 32)
    expected = [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    assert ds.y[:10].tolist() == expected
    expected = [103, 89, 100, 103, 90, 86, 112, 102, 106, 109]
    assert ds.class_counts() == expected


def test_images_take_little_more_memory_than_their_own_bytes(write):
    write(idx(LABELS), "small-labels")
    write(idx(np.zeros(40_000, np.uint8)), "large-labels")
    array = np.ones((40_000, 28, 28), np.uint8)
    large = write(idx(array), "large-images")
    small = write(idx(PIXELS), "small-images")
    assert peak_of_loading(large, small)[0] < 1.3 * 40_000 * 28 * 28


def test_an_image_that_does_not_fit_the_memory_is_named_before_it_is_unpacked(
    tmp_path, monkeypatch
):
    """A PNG of 80 kB has 9,000 x 9,000 pixels: the system killed the training in a
    control group of 500 MB."""
    Image = pytest.importorskip("PIL.Image")
    for name in "ab":
        (tmp_path / name).mkdir()
        image = Image.new("L", (3000, 3000))
        image.save(tmp_path / name / "1.png")
    monkeypatch.setattr(records, "memory_left", lambda: 20 << 20)
    monkeypatch.setattr(records, "private_bytes", records.resident_bytes)
    message = failure(tmp_path, NnError, "out of memory")
    assert (
        "a/1.png: an image of 3000x3000 pixels needs 69M, but only 20M are left"
        in message
    )
