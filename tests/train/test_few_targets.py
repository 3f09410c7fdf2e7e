"""Tables in which few rows have one of several targets: what is told is true of the
rows that have it, or a line says what there is not."""

import re

import numpy as np
import pandas as pd
import pytest
from support.command_line import run, succeed

import nn
from nn.core.thresholds import best_threshold, best_thresholds
from nn.utils import DataError, UsageError

NUMBERS = ["--target", "p,q", "--layers", "auto,4,2", "--epochs", 3]
LABELS = [*NUMBERS, "--task", "multilabel"]


def numbers(known: int, rows: int = 120, seed: int = 0) -> pd.DataFrame:
    """Return rows of two targets, the second one known of few."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)).round(3)
    frame = pd.DataFrame(x, columns=["a", "b"])
    frame["p"] = (x[:, 0] + 0.3 * rng.normal(size=rows)).round(3)
    frame["q"] = (x[:, 1] + 0.3 * rng.normal(size=rows)).round(3)
    frame.loc[rng.permutation(rows)[known:], "q"] = np.nan
    return frame


def labels(known: int, positive: int, rows: int = 120, seed: int = 0) -> pd.DataFrame:
    """Return rows of two yes/no targets, the second one known of few."""
    frame = numbers(rows, rows, seed)
    order = np.random.default_rng(seed + 1).permutation(rows)
    frame["p"] = (frame["p"] > 0).astype(int)
    frame["q"] = np.nan
    frame.loc[order[:known], "q"] = 0
    frame.loc[order[:positive], "q"] = 1
    frame["q"] = frame["q"].astype("Int64")
    return frame


def write(name: str, frame: pd.DataFrame) -> str:
    frame.to_csv(name, index=False)
    return name


# ---- whether there is something to learn


@pytest.mark.parametrize("scaling", ["standardization", "none"])
def test_a_target_that_no_training_row_has_is_refused_by_its_name(scaling, folder):
    path = write("t.csv", numbers(0))
    result = run("train", path, *NUMBERS, "--scaling", scaling, "-m", "m.bin")
    assert result.code == DataError.exit_code
    assert "t.csv: no training row has the target q, which could not" in result.err
    ds = nn.load(labels(1, 1), target=["p", "q"], task="multilabel")
    (row,) = np.flatnonzero(~np.isnan(ds.y[:, 1]))
    net = nn.Network("2,4,2", "multilabel")
    with pytest.raises(DataError, match="no training row has the target q"):
        nn.train(net, ds, rows=np.delete(np.arange(ds.rows), row), epochs=1)


@pytest.mark.parametrize(
    "frame, flags", [(numbers(1), NUMBERS), (labels(1, 1), LABELS)]
)
def test_folds_that_would_train_without_a_target_are_refused(frame, flags, folder):
    path = write("t.csv", frame)
    result = run("train", path, *flags, "--folds", 3, "--holdout", 0, "-m", "m.bin")
    assert result.code == UsageError.exit_code
    assert re.search(
        r"--folds 3: fold \d has no row of target q to train on", result.err
    )
    given = ["--target", "p,q", *flags[6:], "-m", "m.bin"]
    effort = run("train", path, *given, "--effort", "quick")
    assert "120 rows, or those of one of its targets, are too few" in effort.err
    assert run("train", path, *given, "--holdout", 0).code == 0, "one network of all"


# ---- figures of the rows that have it


@pytest.mark.parametrize("frame", [numbers(4), labels(4, 2)])
def test_a_fold_that_tests_no_row_of_a_target_has_no_figures_of_it(frame, folder):
    path = write("t.csv", frame)
    task = ["--task", "multilabel"] if frame["p"].dtype.kind == "i" else []
    flags = [*NUMBERS, *task, "--folds", 6, "--holdout", 0, "-m", "m.bin", "--json"]
    told = succeed("train", path, *flags).json
    name = "log_loss" if task else "mse"
    of_q = [fold["per_target"][1][name] for fold in told["folds"]]
    assert None in of_q
    assert any(value is not None for value in of_q)
    assert all(fold["per_target"][0][name] is not None for fold in told["folds"])
    tested = succeed("test", "m.bin", path, "--json").json["per_target"][1]
    assert tested[name] is not None, "of all rows that folds judge"
    quick = ["--target", "p,q", *task, "--effort", "quick", "-q", "-m", "e.bin"]
    assert run("train", path, *quick).code == 0


def test_rows_of_a_test_that_lack_a_target_tell_nothing_of_it(folder):
    """Neither what intervals or sets hold, in figures and on pages."""
    for frame, new, flags in (
        (numbers(60), numbers(0, 40, 1), NUMBERS),
        (labels(60, 20), labels(0, 0, 40, 1), LABELS),
    ):
        given = [*flags, "--folds", 3, "--holdout", 0, "-q", "-m", "m.bin"]
        succeed("train", write("t.csv", frame), *given)
        path = write("n.csv", new)
        asked = ["test", "m.bin", path, "--intervals", "--json"]
        told = succeed(*asked, "--report", "page.html").json
        of_p, of_q = told["per_target"]
        assert {*of_q["intervals"].values()} == {None}
        assert of_q["coverage"] is None
        assert told["coverage"] == of_p["coverage"]
        assert of_q["width"] > 0
        page = (folder / "page.html").read_text()
        assert not re.search(r"\bnan\b", page)


# ---- intervals and sets


@pytest.mark.parametrize(
    "make, what", [(numbers, "intervals"), (labels, "sets of classes")]
)
def test_a_line_says_which_target_leaves_a_model_without_intervals(make, what, folder):
    few = make(29, 30) if make is numbers else make(29, 9, 30)
    enough = make(30) if make is numbers else make(30, 9)
    flags = NUMBERS if make is numbers else LABELS
    given = [*flags, "--folds", 3, "--holdout", 0, "-m", "m.bin"]
    err = succeed("train", write("t.csv", few), *given).err
    line = f"no {what} of predictions: fewer than 30 of the rows that judge have a target: q (29)"
    assert err.count(line) == 1
    assert f"no {what} of predictions: no 30 rows judged it, or one of its targets" in (
        succeed("info", "m.bin").out
    )
    refused = run("predict", "m.bin", "t.csv", "--level", 0.5)
    assert refused.code == 2
    assert "fewer than 30 rows judged it, or one of its targets" in refused.err
    err = succeed("train", write("t.csv", enough), *given).err
    assert "fewer than 30" not in err
    assert nn.Model.load("m.bin").network.conformal is not None
    # too few of all, as of one target
    assert "fewer than 30" not in succeed("train", write("t.csv", few[:29]), *given).err


# ---- thresholds


def test_a_target_without_positive_rows_keeps_its_threshold_and_a_line_says_so(folder):
    path = write("t.csv", labels(40, 8))
    judging = labels(20, 0, 60, 3)
    given = [*LABELS, "--validation", write("v.csv", judging), "-m", "m.bin"]
    trained = succeed("train", path, *given, "--threshold", "f1")
    line = "--threshold f1: no row to choose it by is of the positive class of q, where it stays 0.5"
    assert trained.err.count(line) == 1
    net = nn.Model.load("m.bin").network
    scores = net.predict(nn.load_for(net, "v.csv").x)
    own = best_threshold("f1", judging["p"].to_numpy(), scores[:, 0])
    assert net.threshold == [own, 0.5]
    asked = ["threshold", "m.bin", "recall=0.9", "--dataset", "v.csv", "-o", "n.bin"]
    assert line.replace("f1", "recall=0.9") in succeed(*asked).err
    assert nn.Model.load("n.bin").network.threshold[1] == 0.5


def test_a_target_whose_rows_do_not_reach_what_a_rule_asks_is_named():
    truth = np.array([[1, 0], [0, 1], [np.nan, 0]])
    scores = np.array([[0.9, 0.9], [0.1, 0.8], [0.1, 0.1]], np.float32)
    fault = "target q: --threshold precision=1: no cut-off reaches it, the best has"
    with pytest.raises(UsageError, match=fault):
        best_thresholds("precision=1", truth, scores, targets=["p", "q"])
