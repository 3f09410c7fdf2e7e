"""The card of a model: what `nn info`, a page and a notebook say of it."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.command_line import succeed

import nn
from nn.card import card_of, groups_of
from nn.terminal import tables
from nn.utils import figure_text

LINES_OF_A_SCREEN = 16


@pytest.mark.parametrize(
    "value, text",
    [
        (None, "undefined"),
        (float("inf"), "undefined"),
        (0.0, "0"),
        (0.853274, "0.8533"),
        (-12.345, "-12.35"),
        (999.96, "1,000"),
        (1234.5, "1,234"),
        (15110.2, "15,110"),
        (-24927106.0, "-24,930,000"),
        (1e-7, "1e-07"),
        (1e15, "1e+15"),
    ],
)
def test_a_figure_has_four_digits_and_thousands_separators(value, text):
    assert figure_text(value) == text


def test_more_digits_than_four_have_separators_too():
    assert figure_text(1234.5, 6) == "1,234.5"
    assert figure_text(123456.0, 6) == "123,456"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a table and the model of a small search on it."""
    folder = tmp_path_factory.mktemp("card")
    rng = np.random.default_rng(3)
    lines = ["id,size,town,old,kept"]
    for k in range(120):
        size = rng.normal()
        town = "abc"[rng.integers(3)]
        kept = "yes" if size + rng.normal() > 0 else "no"
        lines.append(f"{k},{size:.3f},{town},{'no' if k % 7 else 'yes'},{kept}")
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    flags = ["--effort", "quick", "--id", "id", "--drop", "old"]
    given = ["--target", "kept", "-m", folder / "m.bin"]
    result = succeed("train", folder / "t.csv", *given, *flags, "--json")
    return folder, result.json


@pytest.mark.parametrize(
    "path, name",
    [
        ("a/t.csv", "t.csv"),
        (r"C:\data\t.csv", "t.csv"),
        ("a/x.csv,a/y.csv,a/z.csv", "x.csv and 2 more"),
        ("https://host/t.csv?key=1", "t.csv"),
    ],
)
def test_a_card_names_the_files_of_a_training_without_their_folders(path, name):
    net = nn.Network("2,1")
    net.dataset = {"path": path, "sha256": "0123456789abcdef"}
    assert card_of(net)["trained on"] == f"{name}, SHA-256 0123456789ab..."


def test_the_columns_of_a_card_are_counted_by_kind_and_as_inputs():
    """A word of four has a table of numbers; a gap is an input of its own."""
    words = np.resize(["a", "b", "c", "d"], 80).tolist()
    columns = {"x": np.arange(80.0).tolist(), "w": words, "y": [0, 1] * 40}
    net = nn.fit(columns, "y", layers="auto,2,1", epochs=1).network
    inputs = net.members[0].layers[1].in_shape[0]
    assert inputs > 2
    assert card_of(net)["columns"].startswith("2: ")
    assert card_of(net)["columns"].endswith(f"; {inputs} inputs")


def test_the_size_of_several_networks_is_that_of_all():
    net = nn.Network("3,1", "binary")
    members = [nn.Network(layers, "binary") for layers in ("3,1", "3,5,1", "3,5,1")]
    net.combine(members, [1.0, 2.0, 2.0])
    parameters = 4 + 2 * (4 * 5 + 6)
    assert card_of(net)["size"] == f"{parameters} parameters"
    assert card_of(net, 12345)["size"] == f"{parameters} parameters, 12,345 bytes"
    expected = "1 x 3,1, weight 1; 2 x 3,5:relu,1, weight 2"
    assert card_of(net)["networks"] == expected
    net.combine(members, [2.0, 2.0, 2.0])  # which say nothing
    assert card_of(net)["networks"] == "1 x 3,1; 2 x 3,5:relu,1"


def test_info_of_a_search_is_a_card_with_the_figures_of_its_training(trained):
    folder, told = trained
    model = folder / "m.bin"
    lines = succeed("info", model).out.splitlines()
    assert len(lines) <= LINES_OF_A_SCREEN
    assert lines[0] == "target kept"
    text = "\n".join(lines)
    assert "left out     id (id), old (dropped)" in text
    assert "columns      2: number (1), category (1)" in text
    assert "120 rows, t.csv, SHA-256" in text
    assert "two classes: no, yes; yes from a score of 0.5" in text
    figures = told["out_of_fold"]
    low, high = figures["intervals"]["roc_auc"]
    expected = f"ROC-AUC {figures['roc_auc']:.4g} (95 %: {low:.4g} to {high:.4g})"
    assert expected in text
    assert f"{model.stat().st_size:,} bytes" in text
    verbose = succeed("info", model, "--verbose").out
    assert verbose.startswith(text.rstrip())
    assert "learning_rate" in verbose
    assert "learning_rate" not in text


@pytest.mark.parametrize(
    "loss, text",
    [
        ("quantile=.1,.9", "pinball loss 0.123"),
        ("quantile=.1", "pinball loss 0.123"),
        ("mse", "RMSE 4"),
    ],
)
def test_a_card_begins_with_the_metric_of_the_loss(loss, text):
    """Of quantiles there is no other: distances from them are no errors."""
    outputs = loss.count(",") + 1
    net = nn.Network(f"2,{outputs}", "regression", loss=loss)
    metrics = {"rmse": 4.0}
    if loss != "mse":
        metrics["pinball"] = 0.123
    net.judged = {"by": "folds", "rows": 9, "metrics": metrics, "intervals": {}}
    assert card_of(net)["out of fold"] == text


@pytest.mark.parametrize("names", [["power"], ["power", "heat"], ["targets of heat"]])
def test_a_card_names_its_targets(names):
    net = nn.Network(f"2,{len(names)}", "regression")
    net.targets = names
    net.config = {**net.config, "target": ",".join(names)}
    assert card_of(net)["target"] == ", ".join(names)


def test_a_card_has_each_metric_with_its_own_interval_where_there_is_one():
    labels = {"deviance": "mean deviance", "rmse": "RMSE", "mae": "MAE", "r2": "R2"}
    net = nn.Network("2,1:exp", "regression", loss="poisson")
    metrics = {name: number + 0.5 for number, name in enumerate(labels)}
    intervals = {"deviance": [0.25, 0.75], "mae": None, "r2": [3.0, 4.0]}
    for by, title in (("folds", "out of fold"), ("validation", "validated")):
        net.judged = {
            "by": by,
            "rows": 9,
            "metrics": {**metrics, "mse": 7.0, "huber": None},
            "intervals": intervals,
        }
        assert card_of(net)[title] == (
            "mean deviance 0.5 (95 %: 0.25 to 0.75), RMSE 1.5, MAE 2.5, R2 3.5 (95 %: 3 to 4)"
        )


def test_a_notebook_shows_the_card_and_no_markup_of_the_data(trained):
    model = nn.Model.load(trained[0] / "m.bin")
    model.network.unused = [["<b>", "id"]]
    shown = model._repr_html_()
    assert "&lt;b&gt; (id)" in shown
    assert "<b>" not in shown
    for text in card_of(model.network).values():
        assert len(text) < 200


@pytest.mark.parametrize(
    "layers, task, facts, told",
    [
        ("3,1", "regression", {}, "numbers"),
        ("3,2", "regression", {}, "2 numbers"),
        (
            "3,2",
            "regression",
            {"loss": "quantile=.1,.9"},
            "quantiles 0.1, 0.9 of a number",
        ),
        ("3,4", "multiclass", {}, "4 classes"),
        ("3,2", "multiclass", {"classes": ["a", "b"]}, "2 classes: a, b"),
        (
            "3,1",
            "binary",
            {"classes": ["no", "yes"], "threshold": 0.125},
            "two classes: no, yes; yes from a score of 0.125",
        ),
        (
            "3,2",
            "multilabel",
            {"labels": [["no", "yes"], ["-", "+"]], "threshold": [0.5, 0.25]},
            "2 targets of two classes: no or yes, - or +; from scores of 0.5, 0.25",
        ),
        ("3,2", "multilabel", {}, "2 targets of two classes"),
    ],
)
def test_a_card_tells_the_task_with_its_classes_and_what_decides(
    layers, task, facts, told
):
    net = nn.Network(layers, task, loss=facts.get("loss"))
    for name in facts.keys() - {"loss"}:
        setattr(net, name, facts[name])
    card = card_of(net)
    assert card["task"] == told
    assert card["columns"] == "3 of numbers"
    assert not {"left out", "out of fold", "trained on"} & card.keys()
    kind = "intervals" if task == "regression" else "sets of classes"
    assert card["sureness"].startswith(f"no {kind} of predictions")
    if net.loss.startswith("quantile"):
        assert card["sureness"].endswith("beside the quantiles")
        return
    net.conformal = SimpleNamespace(levels=np.array([0.5, 0.96875]))
    assert card_of(net)["sureness"] == f"{kind} of predictions up to level 0.9688"


def test_a_card_tells_the_size_of_images_and_the_first_four_kinds_of_networks():
    net = nn.Network("3x6x5,conv2k3,2", "multiclass")
    assert card_of(net)["columns"] == "images of 3x6x5"
    members = [nn.Network(f"3,{k},1", "binary") for k in (1, 1, 2, 3, 4, 5)]
    for count, more in ((5, ""), (6, " and 1 more kind (--verbose lists all)")):
        net = nn.Network("3,1", "binary")
        net.combine(members[:count], [1.0] * count)
        groups = "2 x 3,1:relu,1; 1 x 3,2:relu,1; 1 x 3,3:relu,1; 1 x 3,4:relu,1"
        assert card_of(net)["networks"] == groups + more


def test_equal_networks_are_one_group_with_their_number_and_weight():
    net = nn.Network("7,64:silu,dropout0.1,3", "multiclass")
    members = [net.sibling(0), net.sibling(1), net.sibling(2, layers="7,9:relu,3")]
    net.combine(members, [1, 1, 3])
    assert groups_of(net) == ["2 x 7,64:silu,3, weight 1", "1 x 7,9:relu,3, weight 3"]


@pytest.mark.parametrize(
    "metric, told, head",
    [
        ("roc_auc", "ROC-AUC 0.5; what it loses without a column", "lost"),
        ("rmse", "RMSE 0.5; how much it grows without a column", "grows by"),
    ],
)
def test_an_error_grows_without_a_column_and_a_score_is_lost(
    metric, told, head, capsys
):
    result = {
        "metric": metric,
        "baseline": 0.5,
        "names": ["a"],
        "mean": [0.25],
        "low": [0.125],
        "high": [0.5],
        "correlated": [],
    }
    tables.importance_report(result, {}, nn.Network("1,1", "regression"))
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == told
    assert head in shown[1]
