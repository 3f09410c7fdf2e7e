"""nn --export: what .onnx and .c have in common, beside nn; an ONNX file by
onnxruntime, a C file by any compiler."""

import csv
import datetime
import re

import numpy as np
import onnx
import pytest
from support.c_models import SINGLE, Library, check_program, predicted, trained
from support.command_line import argv, run, succeed
from support.distances import relative_distance
from support.mixed_table import read_raw
from support.networks import members_with_and_without_an_encoding, network
from support.onnx_models import TOLERANCE, check_table, outputs, session

import nn
from nn.data.scaling import Scaling
from nn.data.written import YES_NO

TABLES = [
    ("two", []),
    (
        "two",
        argv("--networks 3 --validation 0.2 --threshold f1 --calibrate temperature"),
    ),
    ("two", ["--folds", "3", "--layers", "auto,9:gelu,1"]),
    ("number", ["--networks", "2"]),
    ("three", ["--validation", "0.2", "--calibrate", "temperature"]),
    ("number", ["--number_embedding", "waves6"]),
    (
        "three",
        ["--networks", "2", "--scaling", "normalization", "--drop", "place,when"],
    ),
    ("two", argv("--networks 2 --number_embedding waves5:0.7 --layers auto,5:silu,1")),
    ("number", ["--number_embedding", "pieces4", "--missing", "red,none"]),
]


def check_both(folder, new, **options) -> None:
    """Both files of m.bin give for the rows of the file `new` what --predict gives."""
    check_program(folder, new, **options)
    check_table(folder, new)


@pytest.mark.slow
@pytest.mark.parametrize("target, flags", TABLES, ids=str)
def test_tables_with_every_kind_of_column(target, flags, tables, folder):
    old, new = tables(target)
    trained(folder, old, *flags)
    check_both(folder, new)


def test_numbers_as_they_are(tables, folder):
    old, new = tables("number")
    trained(
        folder, old, "--scaling", "none", "--numbers", "label", "--categories", "truth"
    )
    # sums of millions, which backend omp adds up as float32
    check_both(folder, new, backend="seq")


def test_gaps_and_words_that_training_did_not_have(tables, folder):
    old, new = tables("two", gaps=0)
    text = new.read_text(encoding="utf-8").replace("green", "purple")
    new.write_text(text, encoding="utf-8")
    trained(folder, old)
    check_both(folder, new)


def test_parts_of_dates_of_seven_centuries_in_every_format(folder):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    when = np.datetime64(0, "s") + rng.integers(
        -12 * 10**9, 9 * 10**9, 300
    ) * np.timedelta64(1, "s")
    when[3] = np.datetime64("NaT")
    size = rng.normal(size=300).round(3)
    rows = []
    for time, value in zip(when, size):
        rows.append(f"{'' if np.isnat(time) else time},{value},{value}")
    text = "\n".join(["when,size,goal", *rows])
    (folder / "old.csv").write_text(text)
    trained(
        folder,
        folder / "old.csv",
        "--number_embedding",
        "waves3",
        "--dtype",
        "float64",
        "--backend",
        "seq",
    )
    check_both(folder, folder / "old.csv", backend="seq")
    model = nn.Model.load(folder / "m.bin")
    frame = pd.DataFrame({"when": when, "size": size})
    encoder = model.network.encoding.encoders[0]
    assert encoder.parts == ["month", "monthday", "weekday", "hour"]
    assert (
        model.predict(frame) == model.predict(pd.read_csv(folder / "old.csv"))
    ).all()


@pytest.mark.usual(2)
@pytest.mark.parametrize("flags", [[], ["--folds", "2", "--dtype", "float64"]], ids=str)
@pytest.mark.parametrize("target", ["number", "two", "three"])
def test_means_of_the_targets_of_words(target, flags, folder):
    """One column has many words as well as slots of its own, the other words of one or
    two rows alone."""
    rng = np.random.default_rng(2)
    places = rng.integers(0, 30, 400)
    names = rng.integers(0, 250, 400)
    size = rng.normal(size=400).round(3)
    goal = rng.normal(size=30)[places] + rng.normal(size=250)[names] + size
    three = np.digitize(goal, [-1, 1])
    two = np.where(goal > 0.3, "a", "b")
    classes = {"number": goal, "two": two, "three": three}
    words = [f"Zürich {place}" if place else "" for place in places]
    rows = []
    for word, name, number, value in zip(words, names, size, classes[target]):
        rows.append(f"{word},n{name},{number},{value}")
    text = "\n".join(["place,name,size,goal", *rows])
    (folder / "old.csv").write_text(text, encoding="utf-8")
    unseen = []
    for word, name in [("x", "n1"), ("", "?"), ("Zürich 2", "y")]:
        unseen.append(f"{word},{name},1.5,{classes[target][0]}")
    text = "\n".join(["place,name,size,goal", *unseen, *rows])
    (folder / "new.csv").write_text(text, encoding="utf-8")
    trained(
        folder, folder / "old.csv", "--target_means", "--categories", "name", *flags
    )
    model = nn.Model.load(folder / "m.bin")
    member = model.network.members[0]
    encoders = member.encoding.encoders[:2]
    means = [encoder.targets for encoder in encoders]
    assert means == [{"number": 1, "two": 1, "three": 3}[target]] * 2
    check_both(folder, folder / "new.csv")


@pytest.mark.parametrize("flags", [[], ["--target_means"]], ids=str)
def test_a_word_for_a_gap_is_no_code_of_a_category(flags, folder):
    """7, 07 and 7.0 are one code, but for 7.0 where it is said to be missing."""
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 40, 400)
    rows = [f"{code},{size:g},{code % 2}" for code, size in zip(codes, rng.random(400))]
    rows += ["7.0,0.5,0"] * 20
    (folder / "old.csv").write_text("\n".join(["code,size,goal", *rows]))
    new = ["7,0.5,1", "7.0,0.5,1", "07,0.5,0", "8,0.5,0", "77,0.5,0", ",0.5,0"]
    (folder / "new.csv").write_text("\n".join(["code,size,goal", *new]))
    how = ["--categories", "code", "--missing", "7.0", *flags]
    trained(folder, folder / "old.csv", *how)
    gap, code = nn.Model.load(folder / "m.bin").predict_proba(folder / "new.csv")[1:3]
    assert not np.allclose(gap, code)
    check_both(folder, folder / "new.csv")


def test_a_code_in_c_is_found_with_any_zeros_behind_it(folder):
    rng = np.random.default_rng(3)
    codes = rng.choice(["7", "70", "0.5", "-3", "-2.25", "0"], 300)
    rows = [
        f"{code},{x:.3f},{code == '7':d}" for code, x in zip(codes, rng.random(300))
    ]
    (folder / "old.csv").write_text("\n".join(["code,size,goal", *rows]))
    trained(folder, folder / "old.csv", "--categories", "code")
    library = Library.of(nn.Model.load(folder / "m.bin").network, folder)

    def answer(word: str) -> float:
        row = [[library.code(0, word), 0.5]]
        return library.predict(np.array(row), double=True).item()

    known = {*codes.tolist()}
    assert len({*map(answer, [*known, "8"])}) == 7
    for word in known:
        point = "" if "." in word else "."
        for zeros in (1, 2, 3, 9):
            assert answer(f"{word}{point}{'0' * zeros}") == answer(word), word
    new = folder / "new.csv"
    for word in ("7.", "7.01", "700", "7.0x", "7.00.0", "x.00"):
        new.write_text(f"code,size,goal\n{word},0.5,1\n")
        score = np.ravel(nn.Model.load(folder / "m.bin").predict_proba(new))[-1]
        assert answer(word) == pytest.approx(score, abs=1e-6), word


@pytest.mark.parametrize("networks", [1, 2])
def test_a_word_for_a_gap_is_no_rank_of_an_order(networks, folder):
    rng = np.random.default_rng(3)
    words = rng.choice(["none", "low", "mid", "high"], 300)
    size = rng.random(300).round(3)
    goal = [int((w == "high") ^ (s > 0.5)) for w, s in zip(words, size)]
    rows = [f"{w},{s},{g}" for w, s, g in zip(words, size, goal)]
    (folder / "old.csv").write_text("\n".join(["word,size,goal", *rows]))
    new = [f"{w},0.5,1" for w in ("none", "low", "mid", "high", "", "other")]
    (folder / "new.csv").write_text("\n".join(["word,size,goal", *new]))
    how = ["--ordered", "word=none<low<mid<high", "--missing", "none"]
    trained(folder, folder / "old.csv", *how, "--networks", networks)
    scores = nn.Model.load(folder / "m.bin").predict_proba(folder / "new.csv")
    assert np.array_equal(scores[0], scores[4]), "a gap"
    assert not np.allclose(scores[0], scores[1])
    check_both(folder, folder / "new.csv")


@pytest.mark.parametrize("number_type", ["float32", "float64"])
@pytest.mark.parametrize("networks", [1, 2])
def test_numbers_are_rounded_as_the_model_reads_them(networks, number_type, folder):
    """Whatever their size says: at 10^6 float32 keeps a sixteenth."""
    x = 1e6 + np.random.default_rng(0).normal(size=(40, 3))
    members = [nn.Network("3,5:tanh,1", "regression", seed=s) for s in range(networks)]
    for member in members:
        member.number_type = number_type
        member.scaling = Scaling("standardization", np.full(3, 1e6), np.ones(3))
    net = members[0]
    if networks > 1:
        net = nn.Network(members[0].spec, "regression")
        net.combine(members, [1.0, 2.0])
        net.number_type = number_type
    nn.export(net, folder / "m.onnx")
    rounded = net.predict(x.astype(np.float32).astype(np.float64))
    of_onnx = outputs(folder / "m.onnx", {"features": x})["values"]
    of_c = Library.of(net, folder).predict(x, double=True)
    for found in (of_onnx, of_c):
        assert relative_distance(found, net.predict(x)) < 2e-6
        is_same = relative_distance(found, rounded) < 2e-6
        assert is_same == (number_type == "float32")


def test_numbers_of_which_some_are_often_repeated(folder):
    rng = np.random.default_rng(2)
    sums = [*np.zeros(3000), *(np.arange(2000) % 70 + 1) * 1.1]
    rows = []
    for k, total in enumerate(sums):
        rows.append(
            f"{'' if k % 97 == 5 else format(total, 'g')},{rng.normal():g},{total % 3 > 1:d}"
        )
    text = "\n".join(["sum,size,goal", *rows])
    (folder / "old.csv").write_text(text)
    text = "\n".join(["sum,size,goal", *rows[::40], "2.3,1,0", "1e9,1,1", "-1,0,1"])
    (folder / "new.csv").write_text(text)
    for flags in (
        ["--networks", "2"],
        ["--dtype", "float64", "--number_embedding", "waves3"],
    ):
        trained(folder, folder / "old.csv", *flags, "--backend", "seq")
        model = nn.Model.load(folder / "m.bin")
        member = model.members[0]
        encoder = member.encoding.encoders[0]
        assert len(encoder.frequent) == 70
        check_both(folder, folder / "new.csv", backend="seq")


def test_yes_and_no_in_every_way_that_a_model_reads(folder):
    rows = []
    for k in range(90):
        rows.append(f"{['yes', 'no'][k * k % 3 % 2]},{k % 7},{k % 11 / 3}")
    text = "\n".join(["t,x,y", *rows])
    (folder / "old.csv").write_text(text)
    words = [word for known in YES_NO for word in (known, known.upper(), known.title())]
    words += ["nO", "?", "2", "yess", "fals"]
    text = "\n".join(["t,x,y", *(f"{word},3,1" for word in words)])
    (folder / "new.csv").write_text(text)
    trained(folder, folder / "old.csv")
    check_both(folder, folder / "new.csv")


CYCLES = {  # dates in which these cycles alone vary
    "week": [f"2024-03-{1 + k % 28:02}T00:00:00" for k in range(90)],
    "day": [f"2024-03-01T{k % 24:02}:{k % 60:02}:00" for k in range(90)],
    "year": [f"{1990 + k % 30}-{1 + k % 12:02}-01T00:00:00" for k in range(90)],
}


@pytest.mark.parametrize("cycle", CYCLES)
@pytest.mark.parametrize("networks", [1, 2])
def test_dates_of_each_cycle(cycle, networks, folder):
    rng = np.random.default_rng(0)
    dates = CYCLES[cycle]
    goal = rng.integers(0, 2, 90)
    rows = [f"{date},{x:.3f},{y}" for date, x, y in zip(dates, rng.random(90), goal)]
    (folder / "old.csv").write_text("\n".join(["day,x,y", *rows]))
    new = ["1969-12-31T00:00:00", "2000-02-29T12:00:00", "2100-12-31T23:59:59", ""]
    new = [f"{date},0.5,1" for date in (*dates[:9], *new)]
    (folder / "new.csv").write_text("\n".join(["day,x,y", *new]))
    trained(folder, folder / "old.csv", "--networks", networks)
    encoder = nn.Model.load(folder / "m.bin").members[0].encoding.encoders[0]
    expected = {"year": ["year", "week"]}.get(cycle, [cycle])
    assert encoder.cycles == expected
    check_both(folder, folder / "new.csv")


def write_rows(path, seconds, price, *flags) -> None:
    """A CSV file with a column of dates as people write them, one of prices, two of
    words and a target."""
    moments = []
    for second in seconds:
        moments.append(
            None
            if np.isnan(second)
            else datetime.datetime(1970, 1, 1) + datetime.timedelta(0, second)
        )
    dates = [
        "" if moment is None else moment.strftime("%d.%m.%Y %H:%M")
        for moment in moments
    ]
    prices = ["" if np.isnan(second) else f"${second:,.2f}" for second in price]
    with open(path, "w", newline="") as file:
        rows = [["when", "price", "size", "grade", "goal"], *zip(dates, prices, *flags)]
        csv.writer(file).writerows(rows)


def codes_of(library: Library, column: int, words) -> list[int]:
    return [library.code(column, str(word)) for word in words]


@pytest.mark.usual(2)
@pytest.mark.parametrize("gaps", [0.0, 0.1])
@pytest.mark.parametrize(
    "target, flags",
    [
        ("two", ["--networks", "2"]),
        ("number", ["--number_embedding", "waves3", "--dtype", "float64"]),
        ("number", ["--number_embedding", "pieces4"]),
    ],
    ids=str,
)
def test_ordered_words_and_what_people_write_in_their_own_way(
    target, flags, gaps, folder
):
    """A program gives ordered words as they are, of written dates the seconds since
    1970, of written numbers these."""
    rng = np.random.default_rng(5)
    seconds = rng.integers(0, 2 * 10**9 // 60, 200) * 60.0
    price = rng.integers(10**8, 2 * 10**9, 200) / 100
    size = np.array(["S", "M", "L", "2.50"], object)[rng.integers(4, size=200)]
    grade = np.array(["1", "2", "10"], object)[rng.integers(3, size=200)]
    goal = seconds / 1e9 + np.arange(200) % 3 + (size == "M") + price / 1e7
    if target == "two":
        goal = np.where(goal > np.median(goal), "high", "low")
    cases = [(seconds, np.nan), (price, np.nan), (size, ""), (grade, "")]
    for values, gap in cases:
        values[50:][rng.random(150) < gaps] = gap
    write_rows(folder / "old.csv", seconds, price, size, grade, goal)
    size[:4] = ["XXL", "NA", "2.5", "2.500"]
    grade[:6] = ["1.0", "02", "10.00", "3", "?", "one"]
    # gaps also where training had none
    seconds[7] = np.nan
    price[8] = np.nan
    write_rows(folder / "new.csv", seconds, price, size, grade, goal)
    trained(
        folder,
        folder / "old.csv",
        "--ordered",
        "size=S<M<L<2.50,grade=1<2<10",
        "--backend",
        "seq",
        *flags,
    )
    net = nn.Model.load(folder / "m.bin").network
    kinds = [encoder.kind for encoder in net.encoding.encoders]
    assert kinds == ["written date", "written number", "ordered", "ordered"]
    prediction = predicted(folder, folder / "new.csv", "--backend", "seq")
    expected = np.array(
        prediction["score low" if target == "two" else "predicted goal"], np.float64
    )

    succeed("--export", "--model", folder / "m.bin", "-o", folder / "m.onnx", "-q")
    columns = {"when": seconds, "price": price, "size": size, "grade": grade}
    inputs = {}
    for name, values in columns.items():
        inputs[name] = np.array(values)[:, None]
    out = outputs(folder / "m.onnx", inputs)
    if target == "two":
        of_onnx = out["probabilities"][:, 1]
    else:
        of_onnx = out["values"][:, 0]
    assert relative_distance(of_onnx, expected) < TOLERANCE[net.dtype]

    library = Library.of(net, folder)
    codes = codes_of(library, 2, size)
    rows = np.column_stack([seconds, price, codes, codes_of(library, 3, grade)])
    of_c = library.predict(rows, double=True)[:, 0]
    assert relative_distance(of_c, expected) < (
        1e-14 if net.dtype == "float64" else SINGLE
    )
    rows[[0, 1], 2] = np.nan  # a gap is NaN too, as a word of no rank is
    predictions = library.predict(rows, double=True)
    assert predictions[:, 0].tolist() == of_c.tolist()


# --------------------------------------------------- numbers and images, through Python


def both(net, folder, rows, features=None, name="m", double=False) -> list[np.ndarray]:
    """What the ONNX file and the C file of a network give for rows. features: as the
    ONNX file takes them."""
    nn.export(net, folder / f"{name}.onnx")
    inputs = features or {"features": np.asarray(rows, np.float64)}
    result = outputs(folder / f"{name}.onnx", inputs)
    if "values" in result:
        of_onnx = result["values"]
    else:
        of_onnx = result["probabilities"]
    if net.outputs == 1 and of_onnx.shape[1] == 2:
        of_onnx = of_onnx[:, 1:]
    library = Library.of(net, folder, name=name)
    of_c = library.predict(rows, double)
    if "label" in result:
        expected = [library.label(row) for row in of_c]
        assert result["label"].tolist() == expected
        predictions = nn.Model(net).predict(rows)
        expected = list(map(str, predictions))
        assert result["label"].tolist() == expected
    return [of_onnx, of_c]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scaling", ["standardization", "normalization", "none"])
def test_plain_numbers_with_a_time_among_them(dtype, scaling, folder):
    rng = np.random.default_rng(3)
    if scaling != "none":
        time = 1.7e9 + rng.integers(0, 9000, size=300)
    else:
        time = rng.normal(size=300)
    x = np.column_stack([rng.normal(size=(300, 3)), np.full(300, 7.0), time])
    y = (x[:, 0] * 3 + x[:, 1] > 0.2).astype(int)
    ds = nn.load(x, y=y, dtype=dtype)
    net = nn.Network.for_data(ds, dtype=dtype, backend="seq")
    nn.train(net, ds, epochs=3, scaling=scaling)
    predictions = net.predict(ds.x)
    of_onnx, of_c = both(net, folder, x, double=True)
    assert relative_distance(of_onnx, predictions) < TOLERANCE[dtype]
    if dtype == "float64":
        assert of_c.tobytes() == predictions.tobytes()
    else:
        assert relative_distance(of_c, predictions) < SINGLE
    # a float holds two minutes
    of_floats = Library.of(net, folder).predict(x)
    assert relative_distance(of_floats, predictions) < 0.1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scaling", ["pixel", "standardization"])
def test_images_are_bytes_and_classes_have_names(scaling, dtype, folder):
    rng = np.random.default_rng(4)
    x = rng.integers(0, 256, size=(60, 3, 6, 6)).astype(np.uint8)
    y = rng.integers(3, size=60)
    ds = nn.Dataset(x, y, "multiclass", ["cat", "dog", "eel"])
    net = nn.Network.for_data(
        ds, "auto,conv4:silu,maxpool2,3", dtype=dtype, backend="seq"
    )
    nn.train(net, ds, epochs=2, scaling=scaling)
    if dtype == "float64":  # which onnxruntime does not have of conv
        predictions = Library.of(net, folder).predict(x)
        expected = net.predict(x).tobytes()
        assert predictions.tobytes() == expected
        return
    features = {"features": x if scaling == "pixel" else x.astype(np.float64)}
    of_onnx, of_c = both(net, folder, x, features)
    assert relative_distance(of_onnx, net.predict(x)) < 1e-5
    assert relative_distance(of_c, net.predict(x)) < SINGLE


@pytest.mark.parametrize("white", [1, 65535])
def test_pixels_of_another_range_are_numbers(white, folder):
    """What a model of floats divides by nothing was divided by 255."""
    rng = np.random.default_rng(4)
    x = rng.integers(0, 65536, size=(60, 1, 6, 6)) / 65535 * white
    y = np.arange(60) % 3
    ds = nn.Dataset(x.astype(np.float32), y, "multiclass", ["cat", "dog", "eel"])
    if white == 1:
        ds.pixel_range = None
    else:
        ds.pixel_range = white
    net = nn.Network.for_data(ds, "auto,conv4:silu,maxpool2,3", backend="seq")
    nn.train(net, ds, epochs=2)
    assert net.pictures["range"] == white
    assert net.scaling.kind == "pixel"
    features = {"features": ds.x.astype(np.float64)}
    of_onnx, of_c = both(net, folder, ds.x, features)
    expected = net.predict(ds.x)
    assert relative_distance(of_onnx, expected) < 1e-5
    predictions = net.predict(ds.x)
    assert relative_distance(of_c, predictions) < SINGLE


def test_a_text_model_of_the_original(folder):
    rng = np.random.default_rng(1)
    path = rng.normal(size=(50, 3)).round(2)
    y = np.arange(50) % 2
    ds = nn.load(path, y=y)
    net = nn.Network("3,4:sigmoid,1:sigmoid", "binary", dtype="float64")
    nn.train(net, ds, epochs=2)
    net.export(folder / "m.m")
    again = nn.Model.load(folder / "m.m", backend="seq").network
    x = ds.x.astype(np.float64)
    of_onnx, of_c = both(again, folder, x)
    assert relative_distance(of_onnx, again.predict(x)) < 1e-12
    expected = again.predict(x).tobytes()
    assert of_c.tobytes() == expected
    written = (folder / "m.c").read_bytes()
    succeed("--export", "--model", folder / "m.m", "-o", folder / "m.c", "-q")
    assert (folder / "m.c").read_bytes() == written


def test_columns_without_names_are_called_by_their_places_in_the_file(folder):
    lines = [f"{k % 2},{k % 5},{'abc'[k % 3]},{k}.5\n" for k in range(60)]
    (folder / "t.csv").write_text("".join(lines))
    given = {"header": "no", "target": 0, "drop": 1}
    model = nn.fit("t.csv", **given, layers="auto,3,1", epochs=1)
    model.export("m.onnx")
    words = np.array([["a"], ["c"]], object)
    inputs = {"column_2": words, "column_3": np.array([[1.5], [7.5]])}
    probabilities = outputs("m.onnx", inputs)["probabilities"]
    rows = [["0", word, text] for word, text in (("a", "1.5"), ("c", "7.5"))]
    np.testing.assert_allclose(probabilities, model.predict_proba(rows), rtol=1e-5)


def test_members_with_and_without_an_encoding(folder):
    x, nets = members_with_and_without_an_encoding("seq")
    for number, net in enumerate(nets):
        of_onnx, of_c = both(net, folder, x, name=f"m{number}")
        assert relative_distance(of_onnx, net.predict(x)) < 1e-5
        assert relative_distance(of_c, net.predict(x)) < SINGLE


@pytest.mark.parametrize("loss", ["poisson", "tweedie=1.3", "quantile=.8", "huber=.5"])
def test_a_loss_and_its_output_layer(loss, folder):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 3)).astype(np.float32)
    ds = nn.load(x, y=rng.poisson(np.exp(3 + x[:, 0])), task="regression")
    net = nn.Network.for_data(ds, loss=loss, backend="seq")
    nn.train(net, ds, networks=2, epochs=2)
    expected = net.predict(x)
    for answers in both(net, folder, x):
        assert relative_distance(answers, expected) < 1e-6


@pytest.mark.parametrize("more", [{}, {"folds": 3, "holdout": 0}])
def test_predictions_that_are_clipped(more, folder):
    """Each network by the targets of its own rows."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 2))
    columns = np.column_stack([9 * x[:, 0] + 50, x[:, 1], np.full(200, 7.0)])
    ds = nn.load(x, y=columns)
    net = nn.Network.for_data(ds, backend="seq")
    nn.train(net, ds, epochs=2, clip=True, **more)
    net.export("m.bin")
    net = nn.Model.load("m.bin").network
    far = (100 * x).astype(np.float32)
    expected = net.predict(far)
    for answers in both(net, folder, far):
        assert relative_distance(answers, expected) < 1e-5
    assert (expected[:, :2] == expected[:, :2].max(axis=0)).sum() > 10  # at the bounds
    # of a target that was constant; a mean of float32 has a rounding
    np.testing.assert_allclose(expected[:, 2], 7, rtol=1e-7 if more else 0)


@pytest.mark.parametrize("suffix", ["onnx", "c"])
def test_the_same_model_gives_the_same_bytes_and_unexplained_codes_are_refused(
    suffix, folder
):
    net = network("7,5:tanh,3", dtype="float32")
    path = folder / f"m.{suffix}"
    nn.export(net, path)
    before = path.read_bytes()
    nn.export(net, path)
    assert path.read_bytes() == before
    with pytest.raises(nn.UsageError, match="first layer, embedding"):
        nn.export(network("mixed,5", dtype="float32"), path)


@pytest.mark.parametrize(
    "given, code, message",
    [
        (
            "--model m.bin -o m.onnx",
            2,
            "activation gelu: onnxruntime has no gelu in float64; add --dtype float32",
        ),
        ("--model m.bin -o m.pt", 2, "the suffix .pt, expected .onnx or .c"),
        ("--model m.bin -o m", 2, "no suffix, expected .onnx or .c"),
        ("--model m.bin -o absent/m.onnx", 73, "no folder"),
        ("--model m.bin -o absent/m.c", 73, "no folder"),
        ("--model m.bin -o link.c", 73, "a device"),
        ("--model m.bin", 2, "--export needs --output PATH"),
        ("-o m.onnx", 2, "--export needs --model PATH"),
    ],
)
def test_what_cannot_be_exported_is_told(given, code, message, folder):
    network("4,3:gelu,2", dtype="float64").export(folder / "m.bin")
    (folder / "link.c").symlink_to("/dev/null")
    result = run("--export", *given.split())
    assert result.code == code, result.err
    assert message in result.err, result.err
    assert sorted(path.name for path in folder.iterdir()) == ["link.c", "m.bin"]


@pytest.mark.parametrize("suffix", ["onnx", "c"])
def test_an_export_tells_its_size_and_its_time(suffix, folder):
    network("4,30:relu,20:relu,2", dtype="float32").export(folder / "m.bin")
    command = ("--export", "--model", "m.bin", "-o", f"m.{suffix}")
    size = (folder / f"m.{suffix}").stat
    lines = succeed(*command).err.splitlines()
    assert lines[0].endswith(f", {size().st_size} bytes")
    about_row = {"c": "; a row takes about 0.342 us with -O3", "onnx": ""}[suffix]
    assert re.fullmatch(rf"written in \d+\.\d\d s{about_row}", lines[1])
    facts = succeed(*command, "--json").json
    assert list(facts) == ["model", "output", "bytes", "seconds", "us_per_row"]
    assert facts["bytes"] == size().st_size
    assert 0 < facts["seconds"] < 60
    about_c = pytest.approx(0.00045 * (4 * 30 + 30 * 20 + 20 * 2))
    assert facts["us_per_row"] == {"c": about_c, "onnx": None}[suffix]


@pytest.mark.parametrize(
    "flags", [[], ["--networks", "2"], ["--number_embedding", "pieces4"]], ids=" ".join
)
def test_targets_far_from_0_keep_their_digits_in_every_door(flags, folder):
    """A billion, give or take 100: float32 has steps of 64 there."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 2)).round(4)
    y = (1e9 + 100 * x[:, 0] + 30 * x[:, 1]).round(3)
    lines = []
    for (a, b), target in zip(x.tolist(), y.tolist()):
        lines.append(f"{a},{b},{target}")
    text = "\n".join(["a,b,y", *lines]) + "\n"
    (folder / "old.csv").write_text(text)
    (folder / "one.csv").write_text(f"a,b,y\n{lines[0]}\n")
    common = ["--epochs", "150", "--learning_rate", "0.01", "--layers", "2,16,1", "-q"]
    succeed("--train", "--dataset", "old.csv", "--model", "m.bin", *common, *flags)
    succeed(
        "--predict", "--model", "m.bin", "--dataset", "old.csv", "-o", "p.csv", "-q"
    )
    predicted = read_raw(folder / "p.csv")
    values = np.array(predicted["predicted y"], np.float64)
    assert len(set(values)) > 390
    assert np.abs(values - y).max() < 60
    assert np.abs(values - y).mean() < 5
    np.testing.assert_array_equal(np.array(predicted["true y"], np.float64), y)
    net = nn.Model.load(folder / "m.bin").network
    frame = [{"a": a, "b": b} for a, b in x.tolist()]
    model = nn.Model.load(folder / "m.bin")
    predictions = model.predict(frame)
    np.testing.assert_allclose(predictions.reshape(-1), values, rtol=0, atol=1e-3)
    nn.export(net, folder / "m.onnx")
    runtime = session(folder / "m.onnx")
    # whatever the network makes of the numbers
    names = [feature.name for feature in runtime.get_inputs()]
    assert names == ["features"]
    (out,) = runtime.run(None, {"features": x})
    np.testing.assert_allclose(out[:, 0], values, rtol=0, atol=1e-2)
    predictions = Library.of(net, folder).predict(x, double=True)
    np.testing.assert_allclose(predictions[:, 0], values, rtol=0, atol=1e-2)
    succeed(
        "--predict", "--model", "m.bin", "--dataset", "one.csv", "-o", "one.p.csv", "-q"
    )
    scores = read_raw(folder / "one.p.csv")
    assert scores["predicted y"] == predicted["predicted y"][:1]
    assert float(scores["true y"][0]) == y[0]


# ------------------------------------------------------------ sizes of default models


def default_model(folder, task: str):
    """The network that nn trains by default on a table of gaps, words of several kinds
    and numbers, all of which the ensemble's candidates read in ways of their own."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(160, 3)).round(4)
    words = rng.integers(0, 5, 160)
    names = rng.integers(0, 24, 160)
    goal = np.sin(3 * x[:, 0]) + x[:, 1] * (words - 2) + names / 20
    targets = goal.round(4) if task == "number" else np.digitize(goal, [0, 1])
    rows = []
    for k in range(160):
        gap = "" if k % 9 == 4 else x[k, 2]
        truth = "yes" if words[k] > 2 else "no"
        fields = (*x[k, :2], gap, "abcde"[words[k]], f"n{names[k]}", truth, targets[k])
        rows.append(",".join(map(str, fields)))
    text = "\n".join(["a,b,c,letter,name,truth,goal", *rows, ""])
    (folder / "old.csv").write_text(text)
    succeed("--train", "--dataset", "old.csv", "--model", "m.bin", "-q")
    return nn.Model.load(folder / "m.bin").network


@pytest.mark.usual(0, 1)
@pytest.mark.parametrize("task", ["number", "three"])
def test_a_default_model_is_a_small_graph_with_readable_names_and_a_small_c_file(
    task, folder
):
    net = default_model(folder, task)
    assert len(net.members) > 4
    check_table(folder, folder / "old.csv")
    graph = onnx.load(str(folder / "m.onnx")).graph
    assert len(graph.node) <= 40 + 6 * net.inputs
    names = {tensor.name for tensor in graph.initializer}
    weights = [
        name for name in names if re.fullmatch(r"members?[\d,-]+/layer\d+/weight", name)
    ]
    assert len(weights) >= 3
    for tensor in graph.initializer:
        count = int(np.prod(tensor.dims))
        assert count < 100 or tensor.name.startswith("member"), tensor.name
    count = sum(member.parameter_count for member in net.members)
    assert (folder / "m.onnx").stat().st_size < 4.5 * count + 60_000
    succeed("--export", "--model", "m.bin", "-o", "m.c", "-q")
    check_program(folder, folder / "old.csv")
    assert (folder / "m.c").stat().st_size < 5 * count + 40_000
