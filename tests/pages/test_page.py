"""The page of a model: what it says and shows, alone in a file, and what cannot be
drawn or written."""

import html
import json
import os
import re
import shlex
from itertools import chain

import numpy as np
import pytest
from support.browser import text_in_browser
from support.command_line import (
    ONE,
    argv,
    run,
    succeed,
    write_numbers,
    write_three_classes,
    write_two_classes,
)
from support.pages import Page, check_alone, tables_of, texts
from support.tables import csv_of

import nn
from nn.pages import model_page, task_blocks
from nn.pages.page import html_of
from nn.test import binary_report, multiclass_report

# how many pictures each has
PAGES = {"numbers": 5, "two": 7, "three": 4, "images": 5, "explain": 7, "info": 1}
FRAMES = """<!DOCTYPE html><body><script>
for (const width of [400, 1400]) {
  const frame = document.createElement("iframe");
  frame.style.width = width + "px";
  frame.onload = () => {
    const shown = frame.contentDocument.documentElement;
    const boxes = [...frame.contentDocument.querySelectorAll(".scroll")];
    const cut = boxes.filter(box => box.scrollWidth > box.clientWidth).length;
    document.body.append(`[${width}: ${shown.scrollWidth}, ${cut}]`);
  };
  frame.srcdoc = PAGE;
  document.body.append(frame);
}
</script></body>"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """One page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    write_numbers(folder / "numbers.csv", rows=100)
    write_two_classes(folder / "two.csv", rows=300)
    write_three_classes(folder / "three.csv", rows=300)
    x = np.arange(40 * 64, dtype=np.uint8).reshape(40, 1, 8, 8)
    y = np.arange(40) % 2
    np.savez(folder / "images.npz", x=x, y=y)
    for data in ("numbers.csv", "two.csv", "three.csv", "images.npz"):
        if data == "images.npz":
            layers = ["--layers", "1x8x8,4,1"]
        else:
            layers = []
        model = (folder / data).with_suffix(".bin")
        succeed(
            *ONE,
            *layers,
            "--dataset",
            folder / data,
            *argv(f"--model {model} --epochs 2 -q"),
        )
        succeed(
            "--test", "--model", model, "--report", model.with_suffix(".html"), "-q"
        )
    for name in ("explain", "info"):
        path = folder / f"{name}.html"
        succeed(f"--{name}", "--model", folder / "two.bin", "--report", path, "-q")
    return {name: (folder / f"{name}.html").read_text() for name in PAGES}


# titles and headings, headers of tables, labels of axes
OUTLINE = re.compile(
    r'(?:<h2>|<figcaption>|<text [^>]*class="h m">)([^<]*)<'
    r'|(?:<th\b[^>]*>|<text [^>]*(?:y="276" class="m"|rotate\(-90 [^>]*)>)(.*?)</t'
)
OF_TEST = ["Result", "metrics |  |  | 95 % interval"]
CONFUSION = "rows of each true class by predicted class; a stronger colour is more of the true class"
OF_TWO_CLASSES = [
    rf"{CONFUSION} | true \ predicted | 0 | 1",
    "Precision and recall | recall | precision",
    "ROC curve | false positive rate | true positive rate (recall)",
    "Scores by class | score | share of the class's rows, logarithmic",
    "Calibration (Brier score #) | score of class 1 | share of the rows that are it",
    "thresholds | threshold | precision | recall | F1 | alarms per 1,000 rows",
]
OF_MISTAKES = [
    "The worst mistakes",
    "rows whose prediction is furthest from the truth |  | row | true | predicted",
]
COLUMNS = "2 columns | column | kind | became"


def of_importance(metric, columns, scores):
    title = (
        f"how much worse {metric} (#) is with a column's values exchanged between rows"
    )
    return [
        "Columns that matter",
        f"{title} | column |  | {metric}, worse by | 95 % interval",
        *(
            f"Prediction if all rows had this {column} | {column} | {scores}"
            for column in columns
        ),
        "Where it errs most",
        "Columns",
        f"{COLUMNS} | values |  | gaps",
    ]


def of_training(loss):
    return [
        "Training",
        f"Loss while training | epoch | loss ({loss})",
        "what was trained",
        "layers | layer | activation | output shape | parameters",
        "To make it again",
    ]


OUTLINES = {
    "numbers": [
        *OF_TEST,
        "Predicted against true | true value (unit of the target) | predicted value (unit of the target)",
        "Errors | predicted - true (unit of the target) | rows",
        "errors of power by range of the prediction | predicted | rows | mean error | RMSE | 90 % of the errors",
        *of_importance("RMSE", "yx", "mean value"),
        *of_training("mse, of scaled targets"),
    ],
    "two": [
        *OF_TEST,
        *OF_TWO_CLASSES,
        *of_importance("ROC-AUC", "ab", "mean score"),
        *of_training("bce"),
    ],
    "three": [
        *OF_TEST,
        rf"{CONFUSION} | true \ predicted | blue | green | red",
        "most confused | true | predicted | rows | of the class",
        "classes | class | precision | recall | F1 | rows",
        "Calibration (Brier score #) | score of the predicted class | share of the rows that are it",
        *of_importance("loss", "xy", "mean score"),
        *of_training("ce"),
    ],
    # of eight rows, without intervals
    "images": [
        "Result",
        "metrics",
        *(line.replace(", logarithmic", "") for line in OF_TWO_CLASSES),
        *OF_MISTAKES,
        "Columns",
        *of_training("bce"),
    ],
    "info": ["Columns", COLUMNS, *of_training("bce")],
}
OUTLINES["explain"] = OUTLINES["two"]


def test_pages_need_nothing_beside_them_and_name_what_they_show(pages):
    for name, text in pages.items():
        shown = check_alone(text)
        assert shown.tags.count("svg") == PAGES[name]
        told = []
        for title, label in OUTLINE.findall(re.sub(r"\d+\.\d+", "#", text)):
            if title:
                told.append(title)
            else:
                told[-1] += f" | {label}"
        told = html.unescape("\n".join(told).replace("<wbr>", ""))
        assert told.splitlines() == ["The model", *OUTLINES[name]]
    target = "target Class (the last column; --target chooses)"
    answer = f"One network predicts two classes ({target}) from 2 inputs."
    assert answer in pages["info"]
    assert "Images of 1x8x8 pixels, scaled by pixel." in pages["images"]
    assert pages["images"].count("<img") >= 1


def test_the_writers_tell_the_same(folder):
    """Sentences, headings and tables are those of the HTML."""
    write_two_classes(folder / "two.csv", rows=200)
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", "--epochs", 2, "-q")
    for suffix in ("html", "md", "json"):
        succeed("--test", "--model", "m.bin", "--report", f"p.{suffix}", "-q")
    content = json.loads((folder / "p.json").read_text())
    shown = check_alone((folder / "p.html").read_text()).texts
    markdown = (folder / "p.md").read_text().replace("\\", "")
    sections = content["sections"].values()
    blocks = list(chain.from_iterable(sections))
    tables = [block for block in blocks if "headers" in block]
    lines = chain.from_iterable(table["lines"] for table in tables)
    fields = [field for field in chain.from_iterable(lines) if field]
    cases = [content["title"], *content["answer"], *content["sections"], *fields]
    for text in cases:
        assert text in shown
        assert text in markdown
    pictures = [
        block for block in blocks if "lines" in block and "headers" not in block
    ]
    names = {picture["name"] for picture in pictures}
    assert {"roc", "calibration", "curve-0"} <= names
    for picture in pictures:
        assert picture["title"] in markdown
    assert str(folder) not in json.dumps(content)
    succeed("--info", "--model", "m.bin", "--report", "P.MD", "-q")
    assert (folder / "P.MD").read_text().startswith("# Model m.bin\n")
    result = run("--test", "--model", "m.bin", "--report", "p.pdf")
    assert result.code == 2
    assert (
        "--report p.pdf: expected a name that ends in .html, .md, .json" in result.err
    )


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "flags",
    [
        "--networks 1 --epochs 3 --validation 0.2 --holdout 0 --betas 0.8,0.99 --seed 3 --drop a",
        "--effort quick",
        "--folds 3 --epochs 2 --optimizer sgd --momentum 0.5 --weight_decay 0",
        "--reference --networks 1 --epochs 2 --layers 2,1",
    ],
)
def test_the_command_of_a_page_makes_the_same_model(two, flags):
    succeed("--train", "--dataset", two, "--model", "m.bin", "-q", *flags.split())
    made = nn.Model.load("m.bin").network
    succeed(*shlex.split(model_page.command_of(made, "again.bin", "two.csv"))[1:], "-q")
    again = nn.Model.load("again.bin").network
    expected = [member.vector.tobytes() for member in again.members]
    assert [member.vector.tobytes() for member in made.members] == expected
    assert {**made.metadata(), "dataset": None} == {**again.metadata(), "dataset": None}


def test_names_are_texts_whatever_they_hold(folder):
    names = [
        "<script>alert(1)</script>",
        "a\"b'&amp;",
        "c|`*_[x](http://e.vil)",
        "$\\frac{$",
        "long " * 300,
        "<i>",
    ]
    lines = []
    for k in range(120):
        word = ("<b>bold</b>", "x|y", "]]>")[k % 3]
        target = ("<img src=x>", "o&k")[k % 7 > 3]
        line = [
            k % 7,
            f"{k % 5}.5",
            word,
            f"{np.sin(k):.4f}",
            f"{np.cos(k):.4f}",
            target,
        ]
        lines.append(line)
    text = csv_of(names, zip(*lines))
    (folder / "h <x>&.csv").write_text(text)
    succeed(*ONE, "--dataset", "h <x>&.csv", "--model", "<b>.bin", "--epochs", 1, "-q")
    for suffix in ("html", "md"):
        succeed("--test", "--model", "<b>.bin", "--report", f"p.{suffix}", "-q")
    shown = Page((folder / "p.html").read_text())
    assert {"Model <b>.bin", *names[:2], names[3]} <= {*shown.texts}
    assert len((folder / "p.html").read_text()) < 300_000
    assert not {"script", "b", "i", "img"} & {*shown.tags}
    markdown = re.sub("(?m)^    nn .*", "", (folder / "p.md").read_text())
    assert "\\<script\\>" in markdown
    assert not re.search(r"(?<!\\)[<>]|(?<!\\)\]\(", markdown)


@pytest.mark.slow
def test_a_page_of_a_wide_table_is_small():
    names = [f"a column with the long name {k} of many" for k in range(400)]
    rng = np.random.default_rng(0)
    y = np.array([f"class {k % 30:20d}" for k in range(60)])
    table = {name: rng.normal(size=60) for name in names} | {"y": y}
    ds = nn.load(table, target="y")
    net = nn.Network("400,4,30", "multiclass")
    nn.train(net, ds, epochs=1, holdout=0)
    text = html_of(model_page.page_of_model(net, "m.bin", ds))
    assert check_alone(text)
    assert "400 columns, the first 100" in text


NET = nn.Network("2,1", "binary")


@pytest.mark.parametrize("classes", [6, 7, 30, 31, 60, 61])
def test_of_many_classes_there_is_a_wide_heat_map_or_none_and_the_largest_alone(
    classes,
):
    """Every row is taken for the next class; the last class has two rows."""
    truth = np.append(np.arange(classes), classes - 1)
    names = [f"a class with a long name {k}" for k in range(classes)]
    scores = np.roll(np.eye(classes), 1, axis=1)[truth]
    result = multiclass_report(truth, scores, names)
    tables = tables_of(task_blocks.class_blocks(NET, result, truth, scores, None))
    assert (CONFUSION in tables) == (classes <= 30)
    if classes <= 30:
        heat = tables[CONFUSION]
        assert heat.is_wide == (classes > 6)
        heads = names
        if classes > 6:
            heads = [str(k + 1) for k in range(classes)]
            names = [f"{k} {name}" for k, name in zip(heads, names, strict=True)]
        assert heat.headers == [r"true \ predicted", *heads]
        assert [line[0] for line in heat.lines] == names
        assert heat.lines[-1][1:] == ["2"] + [""] * (classes - 1)
    pairs = [[k, (k + 1) % classes, "1"] for k in range(-1, 11)][: min(classes, 12)]
    pairs[0] = [classes - 1, 0, "2"]
    told = tables["most confused"].lines
    own = [row["class"] for row in result["per_class"]]
    assert told == [[own[a], own[b], rows, "100.0%"] for a, b, rows in pairs]
    title = "the 60 largest of 61 classes" if classes == 61 else "classes"
    assert len(tables[title].lines) == min(classes, 60)
    assert tables[title].lines[0][-1] == "2"


@pytest.mark.parametrize("weighted", [False, True])
def test_the_table_of_thresholds_has_the_figures_of_tests_at_them(weighted):
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 400)
    scores = np.clip(rng.normal(0.3 + 0.4 * truth, 0.2), 0, 1).astype(np.float32)
    if weighted:
        weights = rng.random(400)
    else:
        weights = None
    result = binary_report(truth, scores, 0.37, weights)
    table = task_blocks.threshold_table(result, truth, scores, weights, (1, 5))
    assert table.headers == [
        "threshold",
        "precision",
        "recall",
        "F1",
        "alarms per 1,000 rows",
        "cost",
    ]
    cells = [line[0] for line in table.lines if "used" in line[0]]
    assert cells == ["0.37 (used)"]
    for cell, *shown in table.lines:
        threshold = float(cell.split()[0])
        at = binary_report(truth, scores, threshold, weights)
        rows = sum(at[key] for key in ("tp", "fp", "fn", "tn"))
        alarms = 1000 * (at["tp"] + at["fp"]) / rows
        rates = [f"{at[key]:.4f}" for key in ("precision", "recall", "f1")]
        assert shown == [*rates, f"{alarms:.1f}", f"{at['fp'] + 5 * at['fn']:g}"]


@pytest.mark.long
def test_pages_fit_a_phone_and_a_screen_in_a_browser(pages, folder):
    for name, text in pages.items():
        both = folder / f"{name}-page.html"
        both.write_text(FRAMES.replace("PAGE", json.dumps(text).replace("</", "<\\/")))
        matches = re.findall(r"\[(\d+): (\d+), (\d+)\]", text_in_browser(both))
        shown = {int(width): (int(all_), int(cut)) for width, all_, cut in matches}
        assert shown.keys() == {400, 1400}, name
        for width, (whole, tables) in shown.items():
            assert whole <= width, name
            assert tables == 0, f"{name}: tables cut at {width}"


def test_a_model_shows_its_losses_and_errors(folder):
    write_numbers(folder / "numbers.csv", rows=100)
    succeed(*ONE, "--dataset", "numbers.csv", "--model", "m.bin", "--epochs", 5, "-q")
    files = succeed("--plot", "m.bin", "-o", "pictures").out.split()
    assert "pictures/curve-0.svg" in files
    for name in ("loss", "predicted", "errors"):
        assert texts((folder / f"pictures/{name}.svg").read_text())
        assert f"pictures/{name}.svg" in files
    x = np.arange(40.0)[:, None]
    net = nn.Network("1,1", "regression")
    nn.train(net, nn.Dataset(x, x[:, 0], "regression"), epochs=2)
    net.export("arrays.bin")  # whose rows no file holds
    shown = succeed("--plot", "arrays.bin", "-o", "others", "--json").json["files"]
    assert shown == ["others/loss.svg"]


def test_what_cannot_be_drawn_or_written_is_said(trained, folder):
    os.mkfifo("pipe")
    for name, text in (("zeros", b""), ("half", b"entry,")):
        (folder / name).write_bytes(text)
        os.truncate(name, 1 << 40)  # takes no room on the disk
    endless = {66: ["pipe", "/dev/zero"], 65: ["zeros", "half"]}
    messages = {66: "not a regular file", 65: "more than 256 MiB"}
    for code, path in [
        (code, path) for code, paths in endless.items() for path in paths
    ]:
        result = run("--plot", path, "-o", "p")
        assert result.code == code, path
        assert messages[code] in result.err, path
        assert result.err.count("\n") == 1, path
    wrong = {
        ("none.csv", "-o", "p"): 66,
        ("two.csv", "-o", "p"): 65,
        ("two.csv",): 2,
        ("m.bin", "-o", "two.csv"): 73,
    }
    for given, code in wrong.items():
        assert run("--plot", *given).code == code, given
    nn.Network("2,1", "binary").export("new.bin")
    reason = "the model holds no history; give a data set with --dataset"
    refused = run("plot", "new.bin", "-o", "p")
    assert refused == (2, "", f"nn: nothing to draw in new.bin: {reason}\n")
    result = run("--test", "--model", "m.bin", "--report", "none/page.html")
    assert result.code == 73
    assert result.out == ""
    assert result.err.count("\n") == 1, "before any work"
