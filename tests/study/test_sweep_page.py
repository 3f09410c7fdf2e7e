"""Pictures, and the pages of sweeps: labels with units, and which device suits which
network."""

import json
from itertools import product
from statistics import median

import numpy as np
import pytest
from support.command_line import argv, run, succeed
from support.pages import Drawing, check_alone, named, texts

from nn.pages import chart
from nn.pages.chart import Axis, Line
from nn.pages.page import html_of
from nn.study import sweep_page
from nn.study.results import INFERENCE_ROWS, RESULT_COLUMNS

SIZES = (  # layers, parameters, depth
    ("50,50:relu,1:linear", 2_601, 1),
    ("50,1600:relu,1:linear", 83_201, 1),
    ("50,400:relu,250:relu,1:linear", 120_401, 2),
)


def result(layers, parameters, depth, backend="omp", batch=100, ms=1.0, **settings):
    """A line of results with plausible figures."""
    row = dict.fromkeys(RESULT_COLUMNS)
    entry = f"{layers}{backend}{batch}{settings}"
    engine = "omp (avx2)" if backend == "omp" else f"{backend} (Large GPU)"
    device = "Some Processor" if backend == "omp" else "Large GPU"
    row |= {
        "entry": entry,
        "plan": "made up",
        "status": "ok",
        "data": "clouds table",
        "layers": layers,
        "kind": "dense",
        "depth": float(depth),
        "width": 50.0,
        "parameters": float(parameters),
        "rows": 1000.0,
        "inputs": 50.0,
        "batch_number": float(batch),
        "epochs": 3.0,
        "backend": backend,
        "engine": engine,
        "device": device,
        "cores": 8.0,
        "dtype": "float32",
        "train_s": ms / 100,
        "epoch_s": ms / 300,
        "batch_ms": ms,
        "batch_p95_ms": 1.1 * ms,
        "network_bytes": 16.0 * parameters,
        "peak_bytes": 1e8,
        "loss": 0.1,
        "rmse": 150.0,
        "mae": 100.0,
        "r2": 0.6,
        "skill": 0.3,
        "nn": "0.1.0",
        "python": "3.11.7",
        "numpy": "2.0",
    }
    row |= {f"infer_{n}_ms": ms * n / 100 for n in INFERENCE_ROWS}
    return row | ({"threads": 2.0} if backend == "omp" else {"threads": 1.0}) | settings


@pytest.fixture(scope="module")
def results():
    """A processor that is quick with small networks, and a GPU that is quick with large
    ones."""
    rows = []
    two = {
        "gpus": 2.0,
        "distribute": "mirrored",
        "engine": "cuda (2 x Large GPU, mirrored)",
    }
    for size in SIZES:
        for batch in (100, 1000):
            ms = size[1] * batch / 1e6
            rows.append(result(*size, batch=batch, ms=ms))
            ms = 1.0 + size[1] * batch / 1e8
            rows.append(result(*size, "cuda", batch=batch, ms=ms))
        ms = size[1] * 190 / 1e6
        rows += [
            result(*size, threads=1.0, ms=ms),
            result(*size, "cuda", ms=0.8, **two),
        ]
    return rows


@pytest.fixture(scope="module")
def pictures(results):
    """All pictures of the results, by name."""
    return named(sweep_page.pictures_of(results))


# picture -> what must be written in it: the axes with their units, and who is who
LABELS = {
    "training-time": [
        "parameters, logarithmic",
        "time of a batch of 100 rows (ms), logarithmic",
        "omp (avx2), 2 threads",
        "cuda (Large GPU)",
    ],
    "batch-size": [
        "batch size (rows)",
        "training time of a row (µs), logarithmic",
        "Training 50-50-1",
    ],
    "batch-size-2": ["Training 50-1600-1"],
    "width-depth": [
        "parameters, logarithmic",
        "time of a batch of 100 rows (ms), logarithmic",
        "1 hidden layer",
        "2 hidden layers",
    ],
    "inference": [
        "rows in a call, logarithmic",
        "time of a call of predict (ms), logarithmic",
        "cuda (Large GPU)",
    ],
    "speed-up-threads": ["threads", "speed-up (times)", "ideal"],
    "speed-up-gpus": ["GPUs", "speed-up (times)", "Several GPUs"],
    "error": [
        "parameters, logarithmic",
        "RMSE on test rows (unit of the target)",
        "1 hidden layer",
    ],
    "memory": [
        "parameters, logarithmic",
        "memory of the network in training (MB), logarithmic",
        "omp",
        "cuda",
    ],
}


def test_every_picture_says_what_it_shows(pictures):
    assert pictures.keys() >= LABELS.keys()
    for name, expected in LABELS.items():
        picture = pictures[name].svg()
        assert {*expected} <= {*texts(picture)}, name


def test_speed_up_by_gpus_is_drawn_for_both_ways_of_each_network():
    rows = []
    for gpus in (1.0, 2.0, 4.0):
        for how in ("mirrored", "central"):
            run = {"gpus": gpus, "distribute": how, "ms": 1 / gpus, "engine": how}
            rows.append(result(*SIZES[1], "cuda", **run))
    picture = named(sweep_page.pictures_of(rows))["speed-up-gpus"]
    names = {line.name for line in picture.lines}
    assert {"50-1600-1, batch 100, central", "50-1600-1, batch 100, mirrored"} < names


def test_a_picture_has_the_same_bytes_each_time_even_of_rows_that_no_sweep_writes(
    results, pictures
):
    again = named(sweep_page.pictures_of(results))["inference"]
    assert chart.alone(again) == chart.alone(pictures["inference"])
    rows = [*results, result(*SIZES[0], batch=0, ms=-1.0, gpus=0.0)]
    assert sweep_page.pictures_of(rows)


def test_axes_have_numbers_that_can_be_read(pictures):
    picture = pictures["training-time"].svg()
    assert {"10,000", "100,000", "1", "10"} <= {*texts(picture)}
    cases = ((0.0, 1.0), (-3e-7, 5e-7), (18e6, 21e6), (5.0, 5.0), (-1e30, 1e30))
    for low, high in cases:
        for log in (False, True):
            x = [max(low, 1e-3 * log), high or 1.0]
            line = Line("", x, [0, 1])
            ticks = chart.Scale(Axis(log=log), line.x, 0.0, 400.0).ticks
            places, labels = zip(*ticks, strict=True)
            assert 2 <= len(ticks) <= 12
            assert len({*labels}) == len(labels)
            assert 0 <= round(min(places)) < round(max(places)) <= 400


def test_the_answer_names_the_size_from_which_the_gpu_is_faster_and_its_exceptions(
    results,
):
    assert sweep_page.verdicts(results) == [
        "Dense networks, batches of 100 rows: Some Processor is faster up to 2,601 parameters, "
        "Large GPU from 83,201 parameters on.",
        "Dense networks, batches of 1000 rows: Large GPU is faster than Some Processor from 2,601 parameters "
        "on, the smallest measured.",
    ]
    quick = result(*SIZES[-1], ms=0.01)
    rows = [*results, quick]
    assert (
        "(1 larger ones are faster on Some Processor too)"
        in sweep_page.verdicts(rows)[0]
    )
    slow = [
        {**row, "batch_ms": 1e6} if row["backend"] == "cuda" else row for row in results
    ]
    assert (
        "is faster than Large GPU up to 120,401 parameters, the largest measured"
        in sweep_page.verdicts(slow)[0]
    )
    rows = [row for row in results if row["backend"] == "omp"]
    assert "nothing to compare" in sweep_page.verdicts(rows)[0]


def points_of(picture) -> dict:
    """Return {name of a line: [(x, y), ...]} of a picture, without the references."""
    return {
        line.name: [*zip(line.x, line.y)]
        for line in picture.lines
        if line.look != "rule"
    }


@pytest.fixture
def measured():
    """Two backends at odd times, some of them thrice: medians are none of the means."""
    rows = []
    for number, size in enumerate(SIZES):
        for batch in (100, 1000):
            for repeat in (1.0, 1.5, 4.0):
                ms = (number + 1) * repeat * batch / 100
                rmse = 100.0 * repeat + number
                columns = {"rmse": rmse, "network_bytes": 1e6 * (number + 1)}
                rows.append(result(*size, batch=batch, ms=ms, **columns))
            rows.append(
                result(
                    *size,
                    "cuda",
                    batch=batch,
                    ms=0.5 * (number + 1),
                    rmse=90.0,
                    network_bytes=2.5e6,
                )
            )
    return rows


def test_lines_go_through_medians_in_the_units_of_their_axes(measured):
    pictures = named(sweep_page.pictures_of(measured))
    omp = "omp (avx2), 2 threads"
    cuda = "cuda (Large GPU)"
    at_1000 = {}
    for name in ("omp", "cuda"):
        at_1000[name] = [
            row
            for row in measured
            if (row["backend"], row["batch_number"]) == (name, 1000)
        ]
    expected = {}
    for backend, name in (("omp", omp), ("cuda", cuda)):
        expected[name] = [
            (
                size[1],
                median(
                    row["batch_ms"]
                    for row in at_1000[backend]
                    if row["layers"] == size[0]
                ),
            )
            for size in SIZES
        ]
    assert pictures["training-time"].y.label == "time of a batch of 1000 rows (ms)", (
        "of sizes as frequent the larger"
    )
    assert points_of(pictures["training-time"]) == expected
    assert points_of(pictures["batch-size"]) == {
        omp: [(100, 15.0), (1000, 15.0)],
        cuda: [(100, 5.0), (1000, 0.5)],
    }
    assert points_of(pictures["batch-size-3"]) == {
        omp: [(100, 45.0), (1000, 45.0)],
        cuda: [(100, 15.0), (1000, 1.5)],
    }
    for name in ("omp", "cuda"):
        members = []
        for row in measured:
            if row["backend"] == name and row["layers"] == SIZES[1][0]:
                members.append(row)
        if name == "omp":
            key = omp
        else:
            key = cuda
        calls = []
        for n in INFERENCE_ROWS:
            calls.append((n, median(row["batch_ms"] * n / 100 for row in members)))
        assert np.allclose(points_of(pictures["inference-2"])[key], calls, rtol=1e-12)
    errors = points_of(pictures["error"])
    each = {}
    for number in range(3):
        each[number] = [
            row["rmse"] for row in measured if row["layers"] == SIZES[number][0]
        ]
    pairs = []
    for k in (0, 1):
        pairs.append((SIZES[k][1], median(each[k])))
    assert errors == {
        "1 hidden layer": pairs,
        "2 hidden layers": [(SIZES[2][1], median(each[2]))],
    }
    memory = points_of(pictures["memory"])
    pairs = [(SIZES[k][1], k + 1.0) for k in range(3) for _ in range(6)]
    assert memory["omp"] == pairs
    pairs = [(size[1], 2.5) for size in SIZES for _ in range(2)]
    assert memory["cuda"] == pairs


def test_small_multiples_share_their_axes_and_are_drawn_where_their_values_are(
    measured,
):
    pictures = named(sweep_page.pictures_of(measured))
    three = [pictures[f"batch-size{suffix}"] for suffix in ("", "-2", "-3")]
    values = [v for picture in three for line in picture.lines for v in line.y]
    room = (max(values) / min(values)) ** 0.04
    for picture in three:
        expected = (min(values) / room, max(values) * room)
        assert picture.y.ends == pytest.approx(expected)
        expected = (100 / 10**0.04, 1000 * 10**0.04)
        assert picture.x.ends == pytest.approx(expected)
    times = [time for line in pictures["training-time"].lines for time in line.y]
    assert max(times) > 20 * min(times)
    drawing = Drawing(pictures["training-time"], (True, True))
    for line in pictures["training-time"].lines:
        expected = [*zip(line.x, line.y)]
        points = drawing.points(f"l s{line.number}")
        assert np.allclose(points, expected, rtol=0.02)


def test_a_speed_up_is_over_the_least_number_of_threads_and_the_ideal_is_the_number():
    times = {2: (8.0, 10.0, 30.0), 4: (6.0,), 8: (2.0, 3.0)}
    rows = []
    for threads, milliseconds in times.items():
        for ms in milliseconds:
            rows.append(result(*SIZES[0], threads=float(threads), ms=ms))
    picture = named(sweep_page.pictures_of(rows))["speed-up-threads"]
    expected = {"50-50-1, batch 100": [(2, 2.0), (4, 2 * 10 / 6), (8, 2 * 10 / 2.5)]}
    assert points_of(picture) == expected
    ideal = next(line for line in picture.lines if line.look == "rule")
    assert ideal.x == [1, 8]
    assert ideal.y == [1, 8]
    alone = result(*SIZES[0], "cuda", ms=9.0)
    two = result(*SIZES[0], "cuda", ms=6.0, gpus=2.0, distribute="mirrored")
    picture = named(sweep_page.pictures_of([alone, two]))["speed-up-gpus"]
    expected = {"50-50-1, batch 100, mirrored": [(1, 1.0), (2, 1.5)]}
    assert points_of(picture) == expected


@pytest.mark.parametrize("backends", [["omp"], ["omp", "seq"]])
@pytest.mark.parametrize("devices", [["P"], ["P", "Q"]])
def test_speed_ups_have_the_backend_and_the_device_where_there_are_several(
    backends, devices
):
    rows = []
    expected = {}
    for number, (backend, device) in enumerate(product(backends, devices)):
        facts = {"engine": backend, "device": device}
        for threads, ms in ((2.0, 10.0), (4.0, 8.0 - number)):
            run = result(*SIZES[0], backend, threads=threads, ms=ms, **facts)
            rows.append(run)
        words = ["50-50-1, batch 100"]
        words += [backend] * (len(backends) > 1) + [device] * (len(devices) > 1)
        expected[", ".join(words)] = [(2, 2.0), (4, 2 * 10 / (8.0 - number))]
    picture = named(sweep_page.pictures_of(rows))["speed-up-threads"]
    assert points_of(picture) == expected


def test_a_line_of_all_figures_has_each_in_its_column_and_unit():
    row = result(
        *SIZES[0],
        ms=12.345,
        batch_p95_ms=23.456,
        network_bytes=1_234_567.0,
        skill=-0.5,
        accuracy=0.98765,
        setup_s=1.2345,
        f1=0.87654,
    )
    page = sweep_page.results_page([row])
    table = page.sections["All figures"][0]
    cells = dict(zip(table.headers, table.lines[0], strict=True))
    assert table.caption == "1 network"
    assert cells == {
        "network": "50,50,1",
        "data": "clouds table",
        "backend": "omp (avx2)",
        "threads": "2",
        "GPUs": "",
        "batch": "100",
        "parameters": "2,601",
        "ms a batch": "12.3",
        "95 %": "23.5",
        "s of set-up": "1.23",
        "s an epoch": "0.0411",
        "s in all": "0.123",
        "MB": "1.23",
        "RMSE": "150",
        "MAE": "100",
        "R2": "0.6",
        "skill": "-0.5",
        "accuracy": "0.9877",
        "F1": "0.8765",
        **{
            f"ms for {n} row{'s' if n > 1 else ''}": f"{12.345 * n / 100:.3g}"
            for n in INFERENCE_ROWS
        },
    }
    lines = page.sections["Measured on"][0].lines
    assert lines == [("Some Processor", "omp (avx2)", "8", "0.1.0", "3.11.7")]


def test_the_processor_wins_equal_times_and_of_several_settings_the_fastest_counts():
    rows = [
        result(*SIZES[0], ms=3.0, threads=1.0),
        result(*SIZES[0], ms=1.0),
        result(*SIZES[0], ms=2.0, threads=4.0),
        result(*SIZES[0], "cuda", ms=1.0),
        result(*SIZES[0], "cuda", ms=5.0),
    ]
    start = "Dense networks, batches of 100 rows: "
    assert sweep_page.verdicts(rows) == [
        f"{start}Some Processor is faster than Large GPU up to 2,601 parameters, the largest measured."
    ]
    faster = [*rows, result(*SIZES[0], "cuda", ms=0.99)]
    assert sweep_page.verdicts(faster) == [
        f"{start}Large GPU is faster than Some Processor from 2,601 parameters on, the smallest measured."
    ]
    larger = [result(*SIZES[1], ms=1.0), result(*SIZES[2], ms=9.0)]
    larger += [result(*size, "cuda", ms=2.0) for size in SIZES[1:]]
    assert sweep_page.verdicts([*faster, *larger]) == [
        f"{start}Large GPU is faster than Some Processor from 2,601 parameters on, the smallest measured, "
        "except 1 of 3 networks."
    ]
    # the order of the plan, and of the names of networks, is another
    rows = [result(*size, ms=ms) for size, ms in zip(SIZES, (1.0, 5.0, 9.0))]
    rows += [result(*size, "cuda", ms=2.0) for size in SIZES[:3]]
    assert sweep_page.verdicts([rows[k] for k in (1, 5, 0, 4, 3, 2)]) == [
        f"{start}Some Processor is faster up to {SIZES[0][1]:,} parameters, Large GPU from {SIZES[1][1]:,} "
        "parameters on."
    ]


@pytest.mark.parametrize(
    "count, most, expected",
    [
        (3, 3, [0, 1, 2]),
        (4, 3, [0, 2, 3]),
        (9, 5, [0, 2, 4, 6, 8]),
        (11, 3, [0, 5, 10]),
    ],
)
def test_some_of_many_are_spread_from_the_first_to_the_last(count, most, expected):
    items = list(range(count))
    assert sweep_page._spread(items, most) == expected


def test_the_page_holds_the_figures(results):
    failed = {
        "status": "no <device>",
        "layers": "50,1",
        "backend": "cudnn",
        "plan": "x",
    }
    rows = [*results, {**dict.fromkeys(RESULT_COLUMNS), **failed}]
    page = check_alone(html_of(sweep_page.results_page(rows)))
    assert {"Timing study: made up, x", "no <device>", "83,201", "omp (avx2)"} <= {
        *page.texts
    }
    assert any(
        text.startswith("Dense networks, batches of 100 rows") for text in page.texts
    )
    assert page.tags.count("svg") == 14


def test_what_was_not_run_is_told_with_its_batch_and_the_reason(results):
    assert "Not run" not in sweep_page.results_page(results).sections
    failed = {**results[0], "status": "out of memory"}
    unknown = {**failed, "backend": None, "batch_number": None, "status": "no GPU"}
    page = sweep_page.results_page([*results, failed, unknown])
    (table,) = page.sections["Not run"]
    layers = results[0]["layers"]
    assert table.lines == [
        [layers, "omp", "100", "out of memory"],
        [layers, "", "0", "no GPU"],
    ]
    (table,) = page.sections["All figures"]
    assert len(table.lines) == len(results)


def test_no_measurements_make_a_page_without_pictures_that_replaces_no_inputs(folder):
    plan = '{"data": {"clouds": {"rows": 200}}, "layers": "50,1", "backend": "nowhere"}'
    (folder / "plan.json").write_text(plan)
    for page, message in (
        ("plan.json", " is both input and output"),
        ("r.csv", ": the same file as --"),
    ):
        result = run("--sweep", "plan.json", "-o", "r.csv", "--report", page)
        assert result.code == 2
        assert page + message in result.err
    assert (folder / "plan.json").read_text() == plan
    assert not (folder / "r.csv").exists()
    command = ("--sweep", "plan.json:0", "-o", "r.csv", "--report", "page.html")
    told = succeed(*command, "--json", "-q").json
    assert told == {"results": "r.csv", "rows": 1, "failed": 1}
    assert (
        "backend nowhere: expected auto, seq, omp, cuda or cudnn"
        in (folder / "page.html").read_text()
    )
    result = run("--plot", "r.csv", "-o", "p")
    assert result.code == 2
    assert "nothing to draw in r.csv: 1 results, 1 of them failed" in result.err


def test_a_sweep_becomes_pictures_and_a_page(folder, brief):
    data = {"clouds": {"rows": 200, "step": 60}}
    plan = {"data": data, "epochs": 1, "layers": ["50,5,1", "50,9,1"], "backend": "omp"}
    (folder / "plan.json").write_text(json.dumps(plan))
    for index in (0, 1):
        succeed(*argv(f"--sweep plan.json:{index} -o r.csv --report page.html -q"))
    page_shown = check_alone((folder / "page.html").read_text())
    assert page_shown.tags.count("svg") >= 3
    files = succeed(
        "--plot", "r.csv", "-o", "pictures", "--report", "again.html"
    ).out.split()
    assert files[-1] == "again.html"
    assert "pictures/training-time.svg" in files
    assert (folder / "again.html").read_bytes() == (folder / "page.html").read_bytes()
