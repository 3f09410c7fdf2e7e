"""--plot and --report: pictures with labels and units, and a page that needs nothing beside it."""

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from support.command_line import ONE, run, succeed, write_numbers, write_three_classes, write_two_classes

import nn
from nn.core.thresholds import cut_offs
from nn.study import plot, plot_model, plot_results, report, sweep
from nn.study.results import INFERENCE_ROWS
from nn.test import binary_report, multiclass_report

pytest.importorskip("matplotlib", reason="skipped: no matplotlib (extra `report`)")

SIZES = (
    (2_601, "50,50:relu,1:linear", 1),
    (83_201, "50,1600:relu,1:linear", 1),
    (120_401, "50,400:relu,250:relu,1:linear", 2),
)


def result(layers, parameters, depth, backend="omp", batch=100, ms=1.0, **more):
    """A line of results with plausible figures."""
    row = dict.fromkeys(sweep.COLUMNS)
    row |= {
        "entry": f"{layers}{backend}{batch}{more}", "plan": "made up", "status": "ok", "data": "clouds table",
        "layers": layers, "kind": "dense", "depth": float(depth), "width": 50.0, 
        "parameters": float(parameters),
        "rows": 1000.0, "inputs": 50.0, "batch_number": float(batch), "epochs": 3.0, "backend": backend,
        "engine": "omp (avx2)" if backend == "omp" else f"{backend} (Large GPU)",
        "device": "Some Processor" if backend == "omp" else "Large GPU", "cores": 8.0, "dtype": "float32",
        "train_s": ms / 100, "epoch_s": ms / 300, "batch_ms": ms, "batch_p95_ms": 1.1 * ms,
        "network_bytes": 16.0 * parameters, "peak_bytes": 1e8, "loss": 0.1, "rmse": 150.0, "mae": 100.0, 
        "r2": 0.6,         "skill": 0.3, "nn": "0.1.0", "python": "3.11.7", "numpy": "2.0",
    }  # fmt: skip
    row |= {f"infer_{n}_ms": ms * n / 100 for n in INFERENCE_ROWS}
    return row | ({"threads": 2.0} if backend == "omp" else {"threads": 1.0}) | more


@pytest.fixture(scope="module")
def results():
    """A processor that is quick with small networks, and a GPU that is quick with large ones."""
    rows = []
    for parameters, layers, depth in SIZES:
        for batch in (100, 1000):
            rows.append(result(layers, parameters, depth, batch=batch, ms=parameters * batch / 1e6))
            rows.append(result(layers, parameters, depth, "cuda", batch=batch, ms=1.0 + parameters * batch / 1e8))
        rows.append(result(layers, parameters, depth, threads=1.0, ms=parameters * 190 / 1e6))
        rows.append(result(layers, parameters, depth, "cuda", gpus="2", distribute="mirrored", ms=0.8,
                           engine="cuda (2 x Large GPU, mirrored)"))  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def pictures(results):
    """All pictures of the results, by name."""
    return named(plot_results.of_results(results))


def named(pictures) -> dict:
    return {picture.name: picture for picture in pictures}


def texts(svg: bytes) -> list[str]:
    """What is written in a picture."""
    return ["".join(node.itertext()).strip() for node in ET.fromstring(svg).iter() if node.tag.endswith("}text")]


# ---------------------------------------------------------------- pictures


LABELS = {  # picture -> what must be written in it: the axes with their units, and who is who
    "training-time": [
        "parameters",
        "time of a batch of 100 rows (ms)",
        "omp (avx2), 2 threads",
        "cuda (Large GPU)",
    ],
    "batch-size": ["batch size (rows)", "training time of a row (µs)", "50-50-1", "50-1600-1"],
    "width-depth": ["parameters", "time of a batch of 100 rows (ms)", "1 hidden layer", "2 hidden layers"],
    "inference": ["rows in a call", "time of a call of predict (ms)", "cuda (Large GPU)"],
    "speed-up": ["threads", "GPUs", "speed-up (times)", "ideal", "Several GPUs"],
    "error": ["parameters", "RMSE on test rows (unit of the target)", "1 hidden layer"],
    "memory": ["parameters", "memory of the network in training (MB)", "omp", "cuda"],
}


def test_every_picture_says_what_it_shows(pictures):
    assert pictures.keys() == LABELS.keys()
    for name, expected in LABELS.items():
        written = texts(pictures[name].svg)
        for label in expected:
            assert label in written, name
        assert pictures[name].png.startswith(b"\x89PNG") and len(pictures[name].png) > 10_000
        assert pictures[name].caption


def test_lines_differ_in_more_than_colour(results):
    """For those who do not tell colours apart: each line of a picture has a marker of its own."""
    most = len(plot.COLOURS) * len(plot.DASHES)
    styles = plot.styles_of(f"line {i}" for i in range(most))
    looks = [(style["marker"], style["linestyle"]) for style in styles.values()]
    assert len(set(looks)) == most


def test_more_lines_than_leave_room_are_named_once_below_the_picture(results):
    def words(rows):
        picture = named(plot_results.of_results(rows))["inference"]
        return texts(picture.svg).count("omp (avx2), 1 thread"), ET.fromstring(picture.svg).get("height")

    many = [row | {"threads": float(threads)} for row in results for threads in range(1, 9) if row["backend"] == "omp"]
    each, low = words(results)
    assert each == 3  # in each of three
    once, high = words(many)
    assert once == 1 and float(high.removesuffix("pt")) > float(low.removesuffix("pt"))


def test_speed_up_by_gpus_is_drawn_for_both_ways_of_each_network():
    rows = [
        result("50,1600:relu,1:linear", 83_201, 1, "cuda", gpus=str(gpus), distribute=how, ms=1 / gpus, engine=how)
        for gpus in (1, 2, 4)
        for how in ("mirrored", "central")
    ]
    picture = named(plot_results.of_results(rows))["speed-up"]
    assert {"50-1600-1, batch 100, central", "50-1600-1, batch 100, mirrored"} < set(texts(picture.svg))


def test_a_picture_has_the_same_bytes_every_time(results, pictures):
    again = named(plot_results.of_results(results))["inference"]
    assert (again.svg, again.png) == (pictures["inference"].svg, pictures["inference"].png)


def test_logarithmic_axes_have_numbers_that_can_be_read(pictures):
    """They were formulas, `$\\mathdefault{10^{-3}}$`, which stay as they are where names may hold dollars."""
    written = {name: texts(picture.svg) for name, picture in pictures.items()}
    truth, scores = np.arange(2000) % 2, np.linspace(0.001, 0.999, 2000) ** 3
    found = binary_report(truth, scores, 0.5)
    written |= words(plot_model.of_two_classes(found, truth, scores, None, ["no", "yes"]))
    net = nn.Network("2,1", "regression")
    net.describe(history={"loss": [10.0**-epoch for epoch in range(7)], "val_loss": None})
    written |= words(plot_model.of_model(net))
    trials = [{"score": 0.5, "metric": "f1", "weight": 1.0, "learning_rate": rate} for rate in (0.001, 0.002, 0.004)]
    trials = [dict.fromkeys(plot_results.SETTINGS) | trial for trial in trials]
    written |= words(plot_results.of_trials(trials))
    assert not [(name, text) for name, own in written.items() for text in own if "$" in text or "math" in text]
    assert {"10000", "100000", "1", "10"} <= set(written["training-time"])
    assert {"0.01", "0.1"} <= written["scores"] and {"0.001", "1e-06"} <= written["loss"]
    assert {"0.001", "0.002", "0.004"} <= written["trials-learning_rate"]


def test_times_grow_to_the_right_place(results):
    """The curve of training-time goes through the measured points."""
    from matplotlib.axes import Axes

    drawn = {}
    original = Axes.plot

    def remember(axes, xs, ys, **style):
        if "label" in style and axes.get_title() == "Training a dense network":
            drawn[style["label"]] = list(zip(xs, ys, strict=True))
        return original(axes, xs, ys, **style)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Axes, "plot", remember)
        plot_results.of_results(results)
    assert drawn["cuda (Large GPU)"] == [(p, pytest.approx(1 + p / 1e6)) for p, _, _ in SIZES]
    assert drawn["omp (avx2), 2 threads"] == [(p, pytest.approx(p / 1e4)) for p, _, _ in SIZES]


def test_results_without_a_measurement_make_a_page_without_pictures(folder):
    plan = {"data": {"clouds": {"rows": 200}}, "layers": "50,1", "backend": "nowhere"}
    (folder / "plan.json").write_text(json.dumps(plan))
    succeed("--sweep", "plan.json", "-o", "r.csv", "--report", "page.html", "-q")
    assert "backend nowhere: expected auto, seq, omp, cuda or cudnn" in (folder / "page.html").read_text()
    result = run("--plot", "r.csv", "-o", "p")
    assert result.code == 2 and "nothing to draw in r.csv: 1 results, 1 of them failed" in result.err


def test_a_page_does_not_replace_the_plan_or_the_results(folder):
    plan = '{"data": {"clouds": {"rows": 200}}, "layers": "50,1"}'
    (folder / "plan.json").write_text(plan)
    for page in ("plan.json", "r.csv"):
        result = run("--sweep", "plan.json", "-o", "r.csv", "--report", page)
        assert result.code == 2 and f"--report {page} would replace {page}" in result.err
    assert (folder / "plan.json").read_text() == plan and not (folder / "r.csv").exists()


def test_a_model_shows_its_losses_and_errors(folder):
    write_numbers(folder / "numbers.csv", rows=100)
    succeed(*ONE, "--dataset", "numbers.csv", "--model", "m.bin", "--epochs", 5, "-q")
    files = succeed("--plot", "m.bin", "-o", "pictures").out.split()
    assert files == [f"pictures/{n}.{s}" for n in ("loss", "predicted", "errors") for s in ("svg", "png")]
    written = {name: texts((folder / f"pictures/{name}.svg").read_bytes()) for name in ("loss", "predicted", "errors")}
    assert {"epoch", "loss (mse, of scaled targets)", "training rows", "held-out rows"} <= set(written["loss"])
    assert {"true value (unit of the target)", "predicted value (unit of the target)"} <= set(written["predicted"])
    assert {"predicted - true (unit of the target)", "rows"} <= set(written["errors"])
    assert any(text.startswith("power: mean ") for text in written["errors"])


VALIDATED = ["--validation", 0.3, "--monitor"]


@pytest.mark.parametrize("flags, shown", [
    ([*ONE, "--holdout", 0], {"loss": ["training rows"]}),
    ([*ONE, *VALIDATED, "roc_auc"],
     {"loss": ["validation rows"], "metric": ["roc_auc while training; epoch {best} is the best"]}),
    ([*ONE, *VALIDATED, "loss"], {"loss": ["epoch {best}, the best"]}),
    (["--train", *VALIDATED, "roc_auc", "--networks", 2],
     {"loss": [], "metric": ["roc_auc while training; mean of 2 networks"]}),
])  # fmt: skip
def test_a_classifier_shows_its_losses_and_the_metric_that_chose_its_epoch(folder, flags, shown):
    """Of several networks, each with its best epoch, none is marked."""
    write_two_classes(folder / "two.csv")
    result = succeed(*flags, "--dataset", "two.csv", "--model", "m.bin", "--epochs", 3, "-q", "--json").json
    files = succeed("--plot", "m.bin", "-o", "p", "--json").json["files"]
    assert files == [f"p/{name}.{suffix}" for name in shown for suffix in ("svg", "png")]
    for name, lines in shown.items():
        written = texts((folder / f"p/{name}.svg").read_bytes())
        assert {line.format(best=result.get("best_epoch")) for line in lines} <= set(written)
        assert "held-out rows" not in written
    assert ("validation loss" in succeed("--info", "--model", "m.bin").out) == ("--validation" in flags)


# ---------------------------------------------------------------- the answer in words


def test_the_answer_names_the_size_from_which_the_gpu_is_faster(results):
    lines = report.verdicts(results)
    assert lines == [
        "Dense networks, batches of 100 rows: Some Processor is faster up to 2,601 parameters, "
        "Large GPU from 83,201 parameters on.",
        "Dense networks, batches of 1000 rows: Large GPU is faster than Some Processor from 2,601 parameters "
        "on, the smallest measured.",
    ]


def test_the_answer_does_not_hide_exceptions(results):
    quick = result(SIZES[-1][1], SIZES[-1][0], 2, ms=0.01)
    assert "(1 larger ones are faster on Some Processor too)" in report.verdicts([*results, quick])[0]
    slow = [{**row, "batch_ms": 1e6} if row["backend"] == "cuda" else row for row in results]
    assert "is faster than Large GPU up to 120,401 parameters, the largest measured" in report.verdicts(slow)[0]
    assert "nothing to compare" in report.verdicts([row for row in results if row["backend"] == "omp"])[0]


# ---------------------------------------------------------------- pages


class Page(html.parser.HTMLParser):
    """The elements of a page: every opened one must be closed, and ids must be unique."""

    VOID = {"meta", "link", "br", "img", "hr"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.texts = [], [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "data", "action"):
                self.links.append(value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append(text)


def check_alone(text: str) -> Page:
    """The page needs nothing from elsewhere."""
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert set(re.findall(r"url\((#?)", text)) <= {"#"}
    assert not re.search(r"https?:|@import|<script|<link|<img|<iframe", text)
    return page


@pytest.fixture(scope="module")
def pages(tmp_path_factory, results, pictures):
    """One page of each kind."""
    failed = {"status": "no <device>", "layers": "50,1", "backend": "cudnn", "plan": "x"}
    texts = {"sweep": report.of_results([*results, {**dict.fromkeys(sweep.COLUMNS), **failed}], pictures.values())}
    folder = tmp_path_factory.mktemp("pages")
    write_numbers(folder / "numbers.csv", rows=100)
    write_two_classes(folder / "two.csv")
    write_three_classes(folder / "three.csv")
    for name in ("numbers", "two", "three"):
        path = folder / name
        succeed(*ONE, "--dataset", f"{path}.csv", "--model", f"{path}.bin", "--epochs", 2, "-q")
        tested = succeed("--test", "--model", f"{path}.bin", "--report", f"{path}.html", "-q", "--json").json
        texts[name] = path.with_suffix(".html").read_text()
        if name == "numbers":
            figures = {key: f"{value:.6g}" for key, value in tested.items()}
            assert set(figures.values()) <= set(Page(texts[name]).texts)
            assert figures.keys() <= set(Page(texts[name]).texts)
    succeed("--plot", folder / "numbers.bin", "-o", folder / "p", "--report", folder / "model.html")
    texts["model"] = (folder / "model.html").read_text()
    return texts


def test_pages_need_nothing_beside_them(pages):
    counts = {name: check_alone(text).tags.count("svg") for name, text in pages.items()}
    assert counts == {"sweep": 7, "numbers": 3, "two": 4, "three": 2, "model": 3}


def test_pages_hold_the_figures(pages):
    assert {"rmse", "r2", "mae"} <= set(Page(pages["numbers"]).texts)  # and their values: see `pages`
    assert {"red", "green", "blue", "precision", "recall", "macro_f1"} <= set(Page(pages["three"]).texts)
    assert {"tp", "fp", "mcc", "roc_auc"} <= set(Page(pages["two"]).texts)
    sweep_texts = Page(pages["sweep"]).texts
    assert "Timing study: made up, x" in sweep_texts and "no <device>" in sweep_texts
    assert "83,201" in sweep_texts and "omp (avx2)" in sweep_texts
    assert any(text.startswith("Dense networks, batches of 100 rows") for text in sweep_texts)


def words(pictures) -> dict[str, set]:
    """What is written in each picture, by its name."""
    return {picture.name: set(texts(picture.svg)) for picture in pictures}


def test_two_classes_show_curves_with_the_threshold_and_scores():
    truth, scores = np.array([0, 0, 1, 0, 1, 1]), np.array([0.1, 0.2, 0.3, 0.4, 0.8, 0.9])
    result = binary_report(truth, scores, 0.25)
    written = words(plot_model.of_two_classes(result, truth, scores, None, ["ok", "fraud"]))
    assert list(written) == ["precision-recall", "roc", "scores"]
    assert {"recall", "precision", f"area {result['pr_auc']:.4f}", "by chance 0.5"} <= written["precision-recall"]
    assert {"false positive rate", f"area {result['roc_auc']:.4f}", "by chance"} <= written["roc"]
    assert {"score", "class ok", "class fraud"} <= written["scores"]
    assert all("threshold 0.25" in texts for texts in written.values())


def test_the_mark_of_the_threshold_lies_on_the_curves():
    """At 0.25 both fall on points that the curves pass."""
    rng = np.random.default_rng(0)
    truth, scores, weights = rng.integers(0, 2, 300), rng.random(300).round(2), rng.random(300)
    result, cuts = binary_report(truth, scores, 0.255, weights), cut_offs(truth, scores, weights)
    points = np.stack([cuts.recall, cuts.precision, cuts.fp / cuts.fp[-1]], axis=1)
    mark = [result["recall"], result["precision"], result["fp"] / (result["fp"] + result["tn"])]
    assert np.abs(points - mark).sum(axis=1).min() < 1e-12


def test_one_class_alone_has_no_curves():
    truth, scores = np.zeros(3, int), np.array([-1.0, 0.5, 3.0])
    pictures = plot_model.of_two_classes(binary_report(truth, scores, 0.5), truth, scores, None, ["a", "b"])
    assert [picture.name for picture in pictures] == ["scores"]
    assert "class b" not in texts(pictures[0].svg)


@pytest.mark.parametrize("classes", [3, 10, 60])
def test_several_classes_show_a_heat_map(classes):
    rng = np.random.default_rng(0)
    truth, scores = rng.integers(0, classes, 500), rng.dirichlet(np.ones(classes), 500)
    names = [f"a class with a long name {k}" for k in range(classes)]
    (picture,) = plot_model.of_several_classes(multiclass_report(truth, scores, names))
    written = texts(picture.svg)
    assert {"true class", "predicted class", "share of the true class", "a class …ame 0"} <= set(written)
    counts = np.bincount(truth * classes + scores.argmax(axis=1), minlength=classes**2)
    assert (str(counts[0]) in written) or classes == 60
    assert len(written) < 200


@pytest.mark.parametrize("weighted", [False, True])
def test_the_table_of_thresholds_has_the_figures_of_tests_at_them(weighted):
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 400)
    scores = np.clip(rng.normal(0.3 + 0.4 * truth, 0.2), 0, 1).astype(np.float32)
    weights = rng.random(400) if weighted else None
    headers, lines = report.threshold_table(binary_report(truth, scores, 0.37, weights), truth, scores, weights, (1, 5))
    assert headers == ["threshold", "precision", "recall", "F1", "alarms per 1000 rows", "cost"]
    assert [line[0] for line in lines if "used" in line[0]] == ["0.37 (used)"]
    for first, *shown in lines:
        at = binary_report(truth, scores, float(first.split()[0]), weights)
        rows = sum(at[key] for key in ("tp", "fp", "fn", "tn"))
        alarms = 1000 * (at["tp"] + at["fp"]) / rows
        rates = [f"{at[key]:.4f}" for key in ("precision", "recall", "f1")]
        assert shown == [*rates, f"{alarms:.1f}", f"{at['fp'] + 5 * at['fn']:g}"]


def test_the_page_of_a_test_has_intervals_costs_and_columns(folder):
    write_two_classes(folder / "two.csv")
    flags = ("--dataset", "two.csv", "--model", "m.bin", "--epochs", 2, "--threshold", "cost=1:5", "-q")
    succeed(*ONE, *flags)
    succeed("--test", "--model", "m.bin", "--report", "page.html", "--intervals", "-q")
    text = (folder / "page.html").read_text()
    shown = check_alone(text).texts
    assert {"95 % interval", "cost", "alarms per 1000 rows", "thresholds"} <= set(shown)
    told = succeed("--test", "--model", "m.bin", "--intervals", "-q", "--json").json["intervals"]
    assert {" to ".join(f"{end:.4f}" for end in told[name]) for name in ("precision", "roc_auc")} <= set(shown)
    assert "grid-template-columns: repeat(auto-fit" in text and text.count("<div class=columns>") == 2


def test_curves_of_many_rows_make_no_large_pictures():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 200_000)
    scores = rng.random(200_000)
    pictures = plot_model.of_two_classes(binary_report(truth, scores, 0.5), truth, scores, None, ["a", "b"])
    assert all(len(picture.svg) < 300_000 for picture in pictures)


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def test_pages_open_in_a_browser(pages, folder):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium or Chrome to open the page in")
    for name, text in pages.items():
        page = folder / f"{name}-page.html"
        page.write_text(text)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
        flags += ["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--dump-dom"]
        done = subprocess.run([browser, *flags, page.as_uri()], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert "CONSOLE" not in done.stderr
        shown = Page(done.stdout)
        assert shown.tags.count("svg") == Page(text).tags.count("svg") >= 1
        assert shown.tags.count("tr") == Page(text).tags.count("tr") > 1
        assert shown.texts[-1].strip() == "" and f"nn {nn.__version__}" in shown.texts


# ---------------------------------------------------------------- the commands


def test_a_sweep_becomes_pictures_and_a_page(folder):
    data = {"clouds": {"rows": 200, "step": 60}}
    plan = {"data": data, "epochs": 1, "layers": ["50,5,1", "50,9,1"], "backend": "omp"}
    (folder / "plan.json").write_text(json.dumps(plan))
    succeed("--sweep", "plan.json", "-o", "r.csv", "--report", "page.html", "-q")
    assert check_alone((folder / "page.html").read_text()).tags.count("svg") >= 3
    files = succeed("--plot", "r.csv", "-o", "pictures", "--report", "again.html").out.split()
    assert files[-1] == "again.html" and "pictures/training-time.svg" in files
    assert (folder / "again.html").read_bytes() == (folder / "page.html").read_bytes()


def test_what_cannot_be_drawn_or_written_is_said(folder):
    write_two_classes(folder / "two.csv")
    assert run("--plot", "none.csv", "-o", "p").code == 66
    assert run("--plot", "two.csv", "-o", "p").code == 65
    assert run("--plot", "two.csv").code == 2
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", "--epochs", 1, "-q")
    assert run("--plot", "m.bin", "-o", "two.csv").code == 73  # no folder
    result = run("--test", "--model", "m.bin", "--report", "none/page.html")
    assert result.code == 73 and result.out == ""


@pytest.mark.parametrize("command", ["--test --model m.bin --report p.html", "--plot m.bin -o p"])
def test_a_missing_package_is_answered_with_what_to_install(folder, monkeypatch, command):
    write_two_classes(folder / "two.csv")
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", "--epochs", 1, "-q")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run(*command.split())
    assert result.code == 2 and 'pip install "matplotlib>=3.7"' in result.err and result.out == ""


def test_large_data_make_no_large_pictures():
    rows = 100_000
    net = nn.Network("1,1", "regression")
    x = np.linspace(0, 1, rows, dtype=np.float32)[:, None]
    pictures = plot_model.of_model(net, nn.Dataset(x, x, "regression"))
    assert [picture.name for picture in pictures] == ["predicted", "errors"]
    assert all(len(picture.svg) < 5_000_000 for picture in pictures)


@pytest.mark.parametrize("path, told", [("pipe", "not a regular file"), ("/dev/zero", "not a regular file"),
                                        ("zeros", "more than 256 MiB"), ("half", "more than 256 MiB")])  # fmt: skip
def test_what_has_no_end_is_not_drawn(folder, path, told):
    os.mkfifo("pipe")
    for name, text in (("zeros", b""), ("half", b"entry,")):
        (folder / name).write_bytes(text)
        os.truncate(name, 1 << 40)  # takes no room on the disk
    result = run("--plot", path, "-o", "pictures")
    assert result.code == (65 if "MiB" in told else 66) and told in result.err and result.err.count("\n") == 1


def test_names_with_dollars_are_no_formulas(folder):
    """matplotlib would read what stands between two of them as one, and fail."""
    rows = [f"{i},{i % 7},{name}" for i in range(20) for name in ("$\\frac{$", "$x^$")]
    (folder / "a.csv").write_text("\n".join(["a$,$b,y", *rows]) + "\n")
    succeed(*ONE, "--dataset", "a.csv", "--model", "m.bin", "--epochs", 1, "-q")
    succeed("--test", "--model", "m.bin", "--report", "p.html", "-q")
    numbers = "\n".join(["a,$\\frac{$"] + [f"{i},{i % 5 + i / 9}" for i in range(40)]) + "\n"
    (folder / "n.csv").write_text(numbers)
    succeed(*ONE, "--dataset", "n.csv", "--model", "n.bin", "--epochs", 1, "-q", "--task", "regression")
    succeed("--plot", "n.bin", "-o", "p", "--report", "n.html", "-q")
    assert "$\\frac{$" in (folder / "p.html").read_text() and "$\\frac{$" in (folder / "n.html").read_text()
