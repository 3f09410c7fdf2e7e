"""Every number that tables, last lines and lines of progress print: against arithmetic
by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import metrics

import nn
from nn.terminal import console, figures, network_facts, progress, tables
from nn.terminal.figures import metric_lines, short_text
from nn.test import binary_report, multiclass_report, regression_report
from nn.test.reports import figures_by_target, multilabel_report
from nn.utils import axis_texts, target_text


@pytest.mark.parametrize(
    "value, written",
    [
        (None, "undefined"),
        (0, "0"),
        (0.0, "0"),
        (1_000_000, "1000000"),
        (999_999.4, "999999"),
        (999_999.5, "1000000"),
        (1e6, "1000000"),
        (1_234_567_891.25, "1234567891"),
        (-1_234_567_892.25, "-1234567892"),
        (1e15, "1e+15"),
        (123_456.5, "123456"),
        (-0.00012345678, "-0.000123457"),
        (0.00001, "1e-05"),
        (2.0, "2"),
    ],
)
def test_a_figure_has_six_digits_and_a_whole_number_all(value, written):
    assert figures.number_text(value) == written


@pytest.mark.parametrize(
    "value, written",
    [
        (None, "undefined"),
        (0.0, "0.0000"),
        (1.0, "1.0000"),
        (0.99995001, "1.0000"),
        (0.99994999, "0.9999"),
        (-0.12346, "-0.1235"),
        (1234.5, "1234.5000"),
    ],
)
def test_a_rate_has_four_decimals(value, written):
    assert figures.rate_text(value) == written


@pytest.mark.parametrize(
    "value, written",
    [
        (0, "0"),
        (1234567, "1234567"),
        (999.96, "1000.0"),
        (999.94, "999.9"),
        (2.0, "2.0"),
        (-0.04, "-0.0"),
    ],
)
def test_a_number_of_rows_is_whole_and_a_sum_of_weights_has_a_tenth(value, written):
    assert figures.count_text(value) == written


@pytest.mark.parametrize(
    "value, written",
    [
        (999.4, "999"),
        (999.9, "1,000"),
        (1000.0, "1,000"),
        (1000.6, "1,001"),
        (-999.4, "-999"),
        (-123456.7, "-123,500"),
        (0.0012345, "0.00123"),
        (0.0, "0"),
    ],
)
def test_what_importance_loses_has_three_digits_and_a_large_one_no_decimals(
    value, written
):
    assert figures._brief(value) == written


def test_ends_shapes_settings_and_bars():
    assert figures.ends_text((0.25, 1.5), figures.rate_text) == "0.2500 to 1.5000"
    assert figures.ends_text(None, figures.rate_text) == "undefined"
    assert [
        figures.shape_text(shape) for shape in ((60, 1, 1), (4, 28, 1), (1, 28, 28))
    ] == ["60", "4x28x1", "1x28x28"]
    settings = {None: "", 0.1234567: "0.123457", 3: "3", 1e-5: "1e-05", "a": "a"}
    assert {value: figures.setting_text(value) for value in settings} == settings
    shares = {
        1.0: "█" * 12,
        0.5: "█" * 6,
        1 / 96: "▏",
        7 / 96: "▉",
        8 / 96: "█",
        9 / 96: "█▏",
        0.0: "",
        -3.0: "",
        0.4 / 96: "",
        0.6 / 96: "▏",
    }
    assert {share: figures.bar(share) for share in shares} == shares
    assert figures.small_bars([0, 1, 8, 9, 16]) == " ▁▄▅█"
    assert figures.small_bars([0, 0]) == "  "
    assert figures.small_bars([1, 800]) == "▁█", "one row is no gap"


def lines_of(printed: str) -> list[list[str]]:
    """Return the cells of printed lines: two spaces or more lie between them."""
    return [
        [cell.strip() for cell in line.split("  ") if cell.strip()]
        for line in printed.splitlines()
        if line
    ]


@pytest.mark.parametrize("columns, shown", [(2, 500), (10, 100), (30, 60)])
def test_the_cells_of_a_line_share_a_thousand_letters_or_have_sixty_each(
    capsys, columns, shown
):
    headers = [f"h{k}" for k in range(columns)]
    tables.table(headers, [["x" * 700, *"1" * (columns - 1)]], "title")
    title, head, line, *_ = capsys.readouterr().out.splitlines()
    assert title == "title"
    assert line[:shown].count("x") == shown - len(" ... ")
    assert head == "  ".join(["h0".ljust(shown), *headers[1:]])
    # words on the left, numbers on the right, below their headers
    tables.table(["word", "number"], [["a", "1"], ["letters", "12345678"]])
    assert capsys.readouterr().out.splitlines()[:3] == [
        "word       number",
        "a               1",
        "letters  12345678",
    ]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_test_of_two_classes_has_counts_in_their_places_and_scikit_learns_rates(
    capsys, weighted
):
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 90)
    scores = rng.integers(0, 11, 90) / 10
    w = rng.integers(1, 9, 90) / 4 if weighted else None
    said = scores >= 0.4
    result = binary_report(truth, scores, 0.4, w)
    result["intervals"] = {"recall": [0.125, 0.75], "mcc": None}
    tables.test_report(result, ["no", "yes"], None)
    shown = lines_of(capsys.readouterr().out)
    tn, fp, fn, tp = metrics.confusion_matrix(truth, said, sample_weight=w).ravel()
    text = "{:.1f}".format if weighted else str
    expected = [
        f"90 rows{', weighted' if weighted else ''}, class yes from a score of 0.4"
    ]
    assert shown[0] == expected
    expected = [
        ["predicted no", "predicted yes"],
        ["true no", f"{text(tn)} TN", f"{text(fp)} FP"],
        ["true yes", f"{text(fn)} FN", f"{text(tp)} TP"],
    ]
    assert shown[1:4] == expected
    printed = {line[0]: line[1:] for line in shown[5:]}
    p = np.clip(scores, 1e-7, 1 - 1e-7)
    y = truth
    precision = metrics.precision_score(y, said, sample_weight=w)
    rates = {
        "precision": precision,
        "F1": metrics.f1_score(y, said, sample_weight=w),
        "ROC-AUC": metrics.roc_auc_score(y, p, sample_weight=w),
        "Brier score": metrics.brier_score_loss(y, scores, sample_weight=w),
        "accuracy": metrics.accuracy_score(y, said, sample_weight=w),
    }
    expected = {name: [f"{value:.4f}"] for name, value in rates.items()}
    assert {name: printed[name] for name in rates} == expected
    expected = [
        f"{metrics.recall_score(y, said, sample_weight=w):.4f}",
        "0.1250 to 0.7500",
    ]
    assert printed["recall"] == expected
    assert printed["MCC"][1] == "undefined"


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes, verbose", [(5, False), (6, False), (6, True)])
def test_a_test_of_several_classes_shows_all_up_to_five_else_the_worst(
    capsys, classes, verbose, weighted
):
    rng = np.random.default_rng(classes)
    truth = rng.integers(0, classes, 200)
    # some are predicted more often than others: of high recall, and of low precision
    scores = rng.dirichlet(1 + np.arange(classes) / 2, 200)
    names = [f"c{k}" for k in range(classes)]
    w = None
    if weighted:  # most errors are of less than a row
        w = rng.integers(1, 9, 200) / 64

    def text(value):
        return f"{value:.1f}" if weighted else f"{value:.0f}"

    result = multiclass_report(truth, scores, names, w)
    tables.test_report(result, names, None, verbose)
    shown = lines_of(capsys.readouterr().out)
    counts = metrics.confusion_matrix(truth, scores.argmax(axis=1), sample_weight=w)
    rates = np.transpose(
        metrics.precision_recall_fscore_support(
            truth, scores.argmax(axis=1), zero_division=0, sample_weight=w
        )
    )
    lines = [
        [names[k], *(f"{rate:.4f}" for rate in rates[k][:3]), text(rates[k][3])]
        for k in range(classes)
    ]
    if classes == 5 or verbose:
        rows = [[names[k], *map(text, counts[k])] for k in range(classes)]
        assert shown[2 : 2 + classes] == rows
        expected = lines
    else:
        mistakes = []
        for a in range(6):
            for b in range(6):
                if a != b and counts[a, b]:
                    mistakes.append((-counts[a, b], a, b))
        rows = []
        for negative, a, b in sorted(mistakes)[:5]:
            share = -negative / counts[a].sum()
            rows.append([names[a], names[b], text(-negative), f"{share:.1%}"])
        assert shown[2:7] == rows
        order = sorted(range(classes), key=lambda k: rates[k][2])
        assert order[:5] != sorted(range(classes), key=lambda k: rates[k][1])[:5]
        expected = [lines[k] for k in order[:5]]
    assert [line for line in shown if len(line) == 5 and "." in line[1]] == expected
    macro = next(line for line in shown if line[0] == "macro F1")
    assert macro == ["macro F1", f"{rates[:, 2].mean():.4f}"]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_test_of_several_targets_tells_each_ones_figures(capsys, weighted):
    rng = np.random.default_rng(2)
    truth = rng.normal(size=(40, 2)) * [1, 1000]
    predicted = truth + rng.normal(size=(40, 2)) * [0.5, 400]
    w = rng.integers(1, 9, 40) / 4 if weighted else None
    result = regression_report(truth, predicted, ["u", "v"], weights=w)
    result["per_target"] = figures_by_target(truth, predicted, ["u", "v"], weights=w)
    tables.test_report(result, None, ["u", "v"])
    shown = lines_of(capsys.readouterr().out)
    printed = {line[0]: line[1] for line in shown if len(line) == 2}
    mse = metrics.mean_squared_error(truth, predicted, sample_weight=w)
    assert printed["RMSE"] == f"{mse**0.5:.6g}"
    assert printed["MSE"] == f"{mse:.6g}"
    assert printed["rows"] == "40, weighted" if weighted else "40"
    headers = next(line for line in shown if line[0] == "target")
    for k, name in enumerate("uv"):
        line = dict(
            zip(headers, next(line for line in shown if line[0] == name), strict=True)
        )
        pair = truth[:, k], predicted[:, k]
        mse = metrics.mean_squared_error(*pair, sample_weight=w)
        values = {
            "MSE": mse,
            "MAE": metrics.mean_absolute_error(*pair, sample_weight=w),
            "RMSE": mse**0.5,
            "R2": metrics.r2_score(*pair, sample_weight=w),
        }
        assert line == {
            "target": name,
            **{label: f"{value:.6g}" for label, value in values.items()},
        }


def test_folds_members_and_trials_have_their_figures_in_their_places(capsys):
    mean = {"roc_auc": 0.91234, "rmse": 12.3456789}
    std = {"roc_auc": 0.01, "rmse": 0.5}
    result = {"mean": mean, "std": std, "folds": [1, 2, 3]}
    tables._folds_report(result)
    expected = [
        ["3 folds"],
        ["mean", "deviation"],
        ["ROC-AUC", "0.9123", "0.0100"],
        ["RMSE", "12.3457", "0.5"],
    ]
    assert lines_of(capsys.readouterr().out) == expected
    tables._folds_report(result, in_time=True)
    expected[0] = ["3 folds in time: each network knows only the rows before its fold"]
    assert lines_of(capsys.readouterr().out) == expected
    member = {"weight": 2.0, "accuracy": 0.5, "brier": 0.25}
    other = {"weight": 1, "accuracy": 1.0, "brier": None}
    tables._members_report([member, other])
    expected = [["0", "2", "0.5000", "0.2500"], ["1", "1", "1.0000", "undefined"]]
    assert lines_of(capsys.readouterr().out)[1:] == expected
    tables._members_report([member, other | {"weight": 2.0}])
    expected = [["0", "0.5000", "0.2500"], ["1", "1.0000", "undefined"]]
    assert lines_of(capsys.readouterr().out)[1:] == expected
    tables._members_report([{"rmse": 123.4567891}, {"rmse": 2.0}])
    expected = [["0", "123.457"], ["1", "2"]]
    assert lines_of(capsys.readouterr().out)[1:] == expected

    def trial(weight, score, seed, status="tried"):
        facts = {"settings": {"lr": 0.001 * seed}, "epochs": seed + 1}
        return {
            "weight": weight,
            "score": score,
            "seed": seed,
            "status": status,
            **facts,
        }

    trials = [
        trial(0, 0.5, 1),
        trial(0, 0.9, 2),
        trial(2, 0.7, 3),
        trial(0, None, 4),
        trial(0, 0.95, 5, "given up"),
        trial(1, 0.8, 6),
    ]
    cases = (("roc_auc", [6, 3, 2, 1, 4, 5]), ("log_loss", [3, 6, 1, 2, 4, 5]))
    for monitor, order in cases:
        tables.trials_report({"monitor": monitor, "trials": trials})
        shown = lines_of(capsys.readouterr().out)
        assert shown[0] == ["6 networks tried"]
        assert [int(line[1]) for line in shown[2:]] == order
        by_seed = {line[1]: line for line in shown[2:]}
        assert by_seed["3"] == ["2", "3", "0.003", "4", "0.7"]
        assert by_seed["4"] == ["tried", "4", "0.004", "5", "undefined"]
    for count, title in (8, "8 networks tried"), (9, "9 networks tried, the best 8"):
        result = {"monitor": "rmse", "trials": [trial(0, k, k) for k in range(count)]}
        tables.trials_report(result)
        shown = lines_of(capsys.readouterr().out)
        assert shown[0] == [title]
        cells = [line[1] for line in shown[2:]]
        assert cells == list("01234567")


def test_a_profile_tells_milliseconds_shares_of_the_batch_and_rates(capsys):
    layer = {
        "layer": "dense",
        "forward_ms": 1.25,
        "backward_ms": 2.5,
        "update_ms": 0.0,
        "share": 0.375,
        "gflops_forward": 12.34,
        "gflops_backward": None,
    }
    result = {
        "layers": [layer],
        "loss_ms": 0.5,
        "gather_ms": 0.0,
        "end_ms": 1.5,
        "batch_ms": 10.0,
        "batches": 7,
        "rows": 32,
    }
    tables.profile_report(result)
    shown = lines_of(capsys.readouterr().out)
    assert shown[0] == ["median of 7 batches of 32 rows"]
    expected = [
        ["0", "dense", "1.2500", "2.5000", "37.5%", "12.3"],
        ["loss", "5.0%"],
        ["rest", "15.0%"],
        ["batch", "10.0000"],
    ]
    assert shown[2:] == expected
    other = layer | {"layer": "relu", "share": 0.05, "gflops_forward": None}
    calls = result | {"layers": [layer, other], "calls": 9, "call_ms": 8.0}
    tables.inference_report(calls | {"gather_ms": 0.25, "end_ms": 0.0})
    shown = lines_of(capsys.readouterr().out)
    assert shown[0] == ["median of 9 calls of 32 rows"]
    assert shown[2:] == [
        ["0", "dense", "1.2500", "37.5%", "12.3"],
        ["1", "relu", "1.2500", "5.0%"],
        ["rows gathered", "0.2500", "3.1%"],
        ["call", "8.0000"],
    ]


def outcome(**facts) -> dict:
    return {
        "parameters": 12345,
        "epochs_run": 3,
        "epochs": 5,
        "seconds": 61.239,
        "us_per_batch": 12.345,
        "loss": [4.0, 2.0, 1.0],
        "val_loss": [4.5, 3.25, 3.5],
        "classes": ["a", "b"],
        "baseline": 0.69314,
        "learned": True,
        "holdout": 0.2,
        "model": "m.bin",
    } | facts


def last_lines(capsys, result, loss: str = "bce") -> list[str]:
    tables.training_report(result, loss)
    return capsys.readouterr().out.splitlines()


def test_the_last_lines_of_a_training_have_its_own_numbers(capsys):
    calibration = {
        "temperature": 1.23456,
        "log_loss": [0.51239, 0.5],
        "brier": [0.25, 0.2],
    }
    lines = last_lines(
        capsys, outcome(networks=2, threshold=0.123456789, calibration=calibration)
    )
    assert (
        lines[0]
        == "temperature 1.235: log loss 0.5124 -> 0.5000, Brier score 0.2500 -> 0.2000"
    )
    assert lines[1] == "threshold 0.123457"
    assert (
        lines[2]
        == "m.bin: 2 networks, 12,345 parameters, 3 of 5 epochs in 61.24 s (12.3 us a batch)"
    )
    assert (
        lines[3]
        == "held-out loss 3.50, training loss 1.00; the class shares alone would have 0.693"
    )
    of_best = last_lines(capsys, outcome(best_epoch=2, monitor="loss"))[1]
    assert of_best.startswith("validation loss 3.25, training loss 2.00;")
    result = outcome(best_epoch=2, folds=[1], mean={"f1": 0.5}, std={"f1": 0.1})
    of_folds = last_lines(capsys, result)[-2]
    assert of_folds.startswith("out-of-fold loss 3.25, training loss 2.00;")
    alone = outcome(val_loss=[], classes=None, epochs=3)
    assert (
        last_lines(capsys, alone)[0]
        == "m.bin: 12,345 parameters, 3 epochs in 61.24 s (12.3 us a batch)"
    )
    assert (
        last_lines(capsys, alone)[1]
        == "training loss 1.00; the mean alone would have 0.693"
    )
    assert last_lines(capsys, alone | {"baseline": None})[1] == "training loss 1.00"


def test_the_last_lines_of_an_effort_have_its_own_figures(capsys):
    measured = {"roc_auc": 0.9123456789, "accuracy": None}
    effort = outcome(effort="quick", chosen=[1, 2], tried=9, validated=measured)
    lines = last_lines(capsys, effort)
    assert (
        lines[0]
        == "m.bin: 12,345 parameters in 61.24 s, effort quick: 2 of 9 candidates"
    )
    alone = "the class shares alone would have log loss 0.693"
    assert lines[1] == f"validated: ROC-AUC 0.912, accuracy undefined; {alone}"
    row = {"f1": 0.25, "accuracy": 0.5}
    rows = [{"target": "u", "roc_auc": 0.75} | row, {"target": "v", "roc_auc": 1} | row]
    several = {"roc_auc": 0.875, "per_target": rows}
    pairs = {"classes": None, "labels": [["n", "y"]] * 2, "out_of_fold": several}
    effort = outcome(effort="quick", chosen=[1], tried=9, **pairs)
    told = "out of fold: ROC-AUC 0.875; ROC-AUC by target: u 0.750, v 1.00"
    assert last_lines(capsys, effort)[1] == f"{told}; {alone}"
    of_numbers = {
        "rmse": 2.0,
        "per_target": [{"target": "u", "r2": 0.5}, {"target": "v", "r2": -1.25}],
    }
    effort = outcome(
        effort="best",
        chosen=[1],
        tried=9,
        out_of_fold=of_numbers,
        classes=None,
        baseline=6.25,
    )
    lines = last_lines(capsys, effort)
    assert (
        lines[1]
        == "out of fold: RMSE 2.00; R2 by target: u 0.500, v -1.25; the mean alone would have RMSE 2.50"
    )
    effort["out_of_fold"] = {"rmse": 2.0, "deviance": 1.5}
    alone = "the mean alone would have mean deviance 6.25"
    lines = last_lines(capsys, effort, "gamma")
    assert lines[1] == f"out of fold: mean deviance 1.50, RMSE 2.00; {alone}"
    effort["out_of_fold"] = {"rmse": 2.0, "mae": 1.5}
    line = last_lines(capsys, effort, "mae")[1]
    assert line.endswith("MAE 1.50; the median alone would have MAE 6.25")
    line = last_lines(capsys, effort, "huber")[1]
    assert line.endswith("MAE 1.50; the mean alone would have RMSE 2.50")
    alone = last_lines(capsys, outcome(classes=None), "huber")[1]
    assert alone.endswith("the best constant alone would have 0.693")
    low = {"target": "u 0.1", "r2": -3.0, "pinball": 0.25, "below": 0.125}
    high = {"target": "u 0.9", "r2": -2.0, "pinball": 0.75, "below": 0.875}
    of_quantiles = {"rmse": 2.0, "r2": -2.5, "pinball": 0.5, "per_target": [low, high]}
    effort["out_of_fold"] = of_quantiles
    line = last_lines(capsys, effort, "quantile=.1,.9")[1]
    coverage = "coverage by target: u 0.1 0.125, u 0.9 0.875"
    assert line.startswith(f"out of fold: pinball loss 0.500; {coverage}; the quantile")


def test_the_last_line_has_the_intervals_that_are_known(capsys):
    intervals = {
        "roc_auc": [0.9711111, 0.9988888],
        "log_loss": [0.0214, 0.0391499],
        "f1": [0.5, 0.6],
    }
    measured = {
        "roc_auc": 0.98228765,
        "pr_auc": 0.9,
        "log_loss": 0.029969,
        "intervals": intervals,
    }
    result = outcome(effort="quick", chosen=[1], tried=9, out_of_fold=measured)
    line = last_lines(capsys, result)[1]
    assert line.startswith(
        "out of fold: ROC-AUC 0.982 (95 %: 0.971 to 0.999), PR-AUC 0.900, log loss 0.0300 (95 %: 0.0214 to 0.0391);"
    )
    measured["intervals"] = {"roc_auc": None, "log_loss": [0.0214, 0.0391]}
    result = outcome(effort="quick", chosen=[1], tried=9, validated=measured)
    line = last_lines(capsys, result)[1]
    assert line.startswith(
        "validated: ROC-AUC 0.982, PR-AUC 0.900, log loss 0.0300 (95 %: 0.0214 to 0.0391);"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.98228765, "0.982"),
        (0.029969, "0.0300"),
        (0.99951, "1.00"),
        (0.9994, "0.999"),
        (1.0, "1.00"),
        (0.0, "0"),
        (-1.2345, "-1.23"),
        (6059.28, "6060"),
        (6_059_280.0, "6060000"),
        (87_999_000_000.0, "8.80e+10"),
        (9_996_000.0, "1.00e+07"),
        (9_994_000.0, "9990000"),
        (1.234e-5, "0.0000123"),
        (9.99e-6, "9.99e-06"),
        (-5.5e-7, "-5.50e-07"),
        (12.345, "12.3"),
        (999.9, "1000"),
        (123.4, "123"),
        (3, "3.00"),
        (None, "undefined"),
        (float("inf"), "undefined"),
    ],
)
def test_a_short_figure_has_three_digits(value, text):
    assert short_text(value) == text


@pytest.mark.parametrize(
    "loss, training, baseline, is_far",
    [
        (3.01, 1.0, 20.0, True),
        (3.0, 1.0, 19.9, False),
        (2.99, 1.0, 10.0, False),
        (3.5, 1.0, 25.01, False),
        (3.5, 1.0, 24.99, True),
        (0.61, 0.2, 1.0, True),
        (0.59, 0.2, 1.0, False),
        (9.0, 1.0, None, False),
    ],
)
def test_a_loss_three_times_that_of_training_by_a_tenth_of_the_baseline_is_far(
    loss, training, baseline, is_far
):
    result = outcome(loss=[training], val_loss=[loss], baseline=baseline)
    step = tables._next_step(result)
    assert step.startswith("the training loss is far below the held-out loss") == is_far


def test_a_loss_far_from_that_of_validation_rows_asks_for_no_others():
    cures = "a larger --weight_decay or more rows"
    result = outcome(loss=[1.0], val_loss=[9.0], baseline=20.0)
    assert tables._next_step(result).endswith(
        f"--validation 0.2 --patience 10, {cures}"
    )
    step = tables._next_step(result | {"monitor": "loss"})
    assert step == f"the training loss is far below the validation loss: try {cures}"


@pytest.mark.parametrize(
    "names, asked, text",
    [
        (["a"], None, "target a (the last column; --target chooses)"),
        (["a", "b"], None, "targets a, b (the last columns; --target chooses)"),
        (["a", "b"], "a,b", "targets a, b"),
        (None, None, "target the last column (--target chooses)"),
        (None, "3", "target column 3"),
    ],
)
def test_the_targets_are_told_and_who_chose_them(names, asked, text):
    assert target_text(names, asked) == text


def test_a_model_tells_the_names_of_its_inputs(capsys):
    net = nn.Network("3,1", "regression")
    net.columns = ["age", "size", "dose"]
    tables.model_report(net)
    shown = lines_of(capsys.readouterr().out)
    assert ["inputs", "age, size, dose"] in shown


def test_importance_and_comparison_print_their_own_numbers(capsys):
    texts = [f"c{k}" for k in range(14)]
    mean = [14.0 - k for k in range(14)]
    low = [13.0 - k for k in range(14)]
    high = [15.5 - k for k in range(14)]
    correlated = [("c1", "c0", -0.946)]
    result = {
        "metric": "roc_auc",
        "baseline": 0.87654321,
        "names": texts,
        "mean": mean,
        "low": low,
        "high": high,
        "correlated": correlated,
    }
    words = [(word, [0.25]) for word in ["a", "", "c", "d", "e"]]
    c0 = [(1.0, [0.1]), (2.0, [0.5]), (3.25, [0.98765])]
    # no line of c13, which loses nothing
    mean[13] = low[13] = 0.0
    curves = {"c0": c0, "c1": words, "c13": words}
    net = SimpleNamespace(classes=["no", "yes"], outputs=1)
    tables.importance_report(result, curves, net)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ROC-AUC 0.876543; what it loses without a column"
    expected = ["c0", "█" * 12, "14", "13", "to", "15.5"]
    assert lines[2].split() == expected
    expected = ["█" * 6 + "▉", "8", "7", "to", "9.5"]
    assert lines[8].split()[1:] == expected
    assert (
        len([line for line in lines if line.startswith("c") and " to " in line]) == 12
    )
    assert "2 more columns: at most 2 each" in lines
    assert lines[-3:] == [
        "c0: yes 0.1 at 1, 0.988 at 3.25",
        "c1: yes 0.25 at a, 0.25 at (missing), 0.25 at c, 0.25 at d",
        "correlation -0.95 of c1 and c0: see both, --group_columns 'c1+c0'",
    ]
    interval = [-1.5, -0.125]
    rmse = {"a": 2.0, "b": 1.25, "difference": -0.75, "interval": interval}
    disagree = [{"row": 7, "true": "x", "a": [0.12345, 2.0], "b": [0.5]}]
    tables.comparison_report(
        {
            "models": ["a", "b"],
            "rows": 12,
            "verdict": "b is better",
            "metrics": {"rmse": rmse},
            "disagree": disagree,
        }
    )
    shown = lines_of(capsys.readouterr().out)
    assert shown[0] == ["12 rows"]
    assert shown[2] == ["RMSE", "2", "1.25", "-0.75", "-1.5 to -0.125"]
    assert shown[3:] == [["row 7, true x: a 0.123; 2, b 0.5"], ["b is better"]]


def test_the_facts_of_a_network_count_its_products_and_parameters(capsys):
    net = nn.Network("1x6x5,conv2k3,7:relu,3", "multiclass")
    facts = network_facts.facts_of(net)
    conv = 2 * 4 * 3 * (1 * 3 * 3)
    products = conv + 24 * 7 + 7 * 3
    parameters = (9 * 2 + 2) + (24 * 7 + 7) + (7 * 3 + 3)
    assert facts["multiply-adds"] == f"{products:,} a prediction"
    assert facts["parameters"] == f"{parameters:,}"
    tables.network_table(net.layers)
    shown = lines_of(capsys.readouterr().out)
    cells = [line[-1] for line in shown[1:]]
    assert cells == ["0", "20", "0", "175", "24", f"{parameters}"]
    cells = [line[-2] for line in shown[1:-1]]
    assert cells == ["1x6x5", "2x4x3", "24", "7", "3"]
    members = [nn.Network("4,3,1", "regression", seed=seed) for seed in (5, 6)]
    for member, epochs in zip(members, (2, 3), strict=True):
        member.history = {"loss": [1.0] * epochs, "val_loss": []}
        member.config = {"learning_rate": 0.001 * epochs}
    both = nn.Network("4,3,1", "regression")
    both.combine(members, [2.0, 1.0])
    facts = network_facts.facts_of(both)
    assert facts["networks"] == "2, seeds 5, 6, weights 2, 1"
    expected = str(2 * (4 * 3 + 3 + 3 + 1))
    assert facts["parameters"] == expected
    layers = tuple(both.layers)
    assert network_facts.layers_of(both) == [("2 networks", layers)]
    assert network_facts.layers_of(members[0]) == [("", layers)]
    expected = f"{2 * 15} a prediction, {3 * 15 * (2 + 3)} a row of training"
    assert facts["multiply-adds"] == expected
    several = nn.Network("4,1", "regression")
    unlike = [nn.Network(layers, "regression") for layers in ("4,1", "4,7,1")]
    several.combine(unlike, [2.0, 1.0])
    facts_of_unlike = network_facts.facts_of(several)
    assert facts_of_unlike["multiply-adds"] == f"{4 + 4 * 7 + 7} a prediction"
    expected = (
        ["seed", "weight", "learning_rate"],
        [["5", "2", "0.002"], ["6", "1", "0.003"]],
    )
    assert network_facts.members_of(both) == expected
    texts = {0.5: "0.5", 1.0: "", 2.5: "2.5"}
    for both.temperature in texts:
        told = network_facts.facts_of(both)["temperature"]
        assert told == texts[both.temperature]
    candidates = [
        {"layers": "4,1", "loss": 0.123456, "operations": 123456, "weight": 2},
        {"layers": "4,9,1", "loss": None, "operations": 5, "weight": 0},
    ]
    lines = network_facts.candidates_of(
        SimpleNamespace(config={"candidates": candidates})
    )[1]
    assert lines == [["4,1", "0.1235", "120,000", "2"], ["4,9,1", "", "5", "0"]]


# ---------------------------------------------------------------- progress


@pytest.mark.parametrize(
    "count, epochs_shown",
    [
        (6, [1, 2, 3, 4, 5, 6]),
        (7, [1, 3, 5, 7]),
        (12, [1, 3, 5, 7, 9, 11, 12]),
        (13, [1, 4, 7, 10, 13]),
        (1, [1]),
    ],
)
def test_about_six_epochs_and_the_last_one_are_told(count, epochs_shown):
    assert [
        number for number in range(1, count + 1) if progress.has_line(number, count)
    ] == epochs_shown


def info(**facts) -> dict:
    return {
        "layers": "2,1",
        "parameters": 3,
        "loss": "bce",
        "scaling": "none",
        "monitor": None,
        "holdout": 20,
        "validation": 0,
        "epochs": 4,
        "batches": 8,
        "batch_number": 10,
        "optimizer": "sgd",
        "learning_rate": 0.0125,
        "schedule": "constant",
        "rows": 80,
        "resumed": None,
        "routes": list,
        "encoding": None,
        "backend": "omp",
        "threads": 2,
        "dtype": "float32",
        "seed": 7,
    } | facts


def test_lines_of_epochs_have_loss_seconds_and_microseconds_a_batch(capsys):
    lines = progress.Lines("t.csv: 100 rows", verbose=False)
    lines.start(info(resumed={"file": "m.bin", "epoch": 1, "row": 30}))
    lines.epoch(2, 4, 0.123456789, 0.987654321, 1.2345, 123.456)
    lines.judged(3, "roc_auc", 0.8765432, True)
    lines.epoch(3, 4, 12.0, None, 61.239, 0.04)
    err = capsys.readouterr().err.splitlines()
    assert (
        "training on 80 rows, 20 held out: 4 epochs of 8 batches of 10, sgd, learning rate 0.0125, constant"
        in err
    )
    assert "resuming from m.bin: 1 epoch and 30 rows are done" in err
    assert [" ".join(line.split()) for line in err[-2:]] == [
        "epoch 2/4 loss 0.123457 held-out 0.987654 1.23 s 123.5 us a batch",
        "epoch 3/4 loss 12 roc_auc 0.876543 best 61.2 s 0.0 us a batch",
    ]


@pytest.mark.parametrize(
    "size, text",
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (1 << 50, "1.0 PiB"),
        (3 << 30, "3.0 GiB"),
        (5 << 39, "2.5 TiB"),
    ],
)
def test_bytes_have_the_unit_of_which_there_is_one_or_more(size, text):
    assert figures.bytes_text(size) == text


def test_a_refit_tells_its_first_and_its_last_epoch(capsys):
    lines = progress.Lines("t.csv")
    lines.start(info(epochs=6))
    capsys.readouterr()
    lines.refit(6, 100)
    for epoch in range(1, 7):
        lines.epoch(epoch, 6, 1.0, None, 1.0, 1.0)
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("refit: training once more on 100 rows")
    assert [line.split()[1] for line in told[1:]] == ["1/6", "6/6"]


@pytest.mark.parametrize(
    "seconds, line",
    [
        (10.0, "candidate 1 of 3: 4,1: loss 2; 10.0 s, about 30 s left"),
        (5 / 3 + 0.01, "candidate 1 of 3: 4,1: loss 2; 1.7 s, about 5 s left"),
        (1.66, "candidate 1 of 3: 4,1: loss 2; 1.7 s"),
    ],
)
def test_a_candidate_tells_the_time_that_its_share_of_the_operations_foretells(
    capsys, monkeypatch, seconds, line
):
    """A quarter is done: three times as long is left."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    lines = progress.Lines("t.csv")
    lines.begin([0.25, 0.35, 0.4])
    now[0] += seconds
    lines.ended("4,1", "loss 2")
    assert capsys.readouterr().err.splitlines() == [f"{line}"]
    now[0] += 10
    lines.ended("5,1", "loss 1")
    lines.ended("6,1", "loss 1")
    second, third = capsys.readouterr().err.splitlines()
    assert third == f"candidate 3 of 3: 6,1: loss 1; {seconds + 10:.1f} s", (
        "nothing is left"
    )
    left = (seconds + 10) * 0.4 / 0.6
    assert (
        second
        == f"candidate 2 of 3: 5,1: loss 1; {seconds + 10:.1f} s, about {left:.0f} s left"
    )


@pytest.mark.parametrize(
    "seconds, words",
    [
        ((0.2, 0.8), "about 1 s here"),
        ((0.62, 2.04), "about 0.62 to 2 s here"),
        ((12.3, 36.9), "about 12 to 37 s here"),
        ((33, 99), "about 33 to 99 s here"),
        ((60, 180), "about 1 to 3 min here"),
        ((7000, 21_000), "about 120 to 350 min here"),
    ],
)
def test_the_first_line_has_the_seconds_that_candidates_will_take(
    capsys, seconds, words
):
    lines = progress.Lines("t.csv")
    lines.begin([1.0])
    lines.expect(lambda threads: tuple(threads * value / 2 for value in seconds))
    lines.start(info())
    assert capsys.readouterr().err.splitlines()[0].endswith(f"seed 7; {words}")
    going_on = progress.Lines("t.csv")
    going_on.begin([1.0])
    going_on.expect(lambda threads: seconds)
    going_on.start(info(resumed={"file": "m.bin", "epoch": 1, "row": 30}))
    assert capsys.readouterr().err.splitlines()[0].endswith("seed 7")


class Drawn(progress.Bar):
    """A bar that keeps what it would draw."""

    def _open(self):
        self._bar = True
        self._drawn = 0.0
        self.shown = []

    def _draw(self, share, what, told):
        self._drawn = progress.time.monotonic()
        self.shown.append((share, what, told))


def test_a_bar_has_the_share_of_all_epochs_and_the_rows_a_second_of_this_run(
    monkeypatch,
):
    now = [50.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    bar = Drawn("t.csv")
    bar.start(info(resumed={"file": "m.bin", "epoch": 1, "row": 40}))
    now[0] += 2.0
    bar.update(2, 60, 80, 0.123456789)
    bar.update(2, 70, 80, 9.0)  # too soon
    now[0] += 0.5
    bar.epoch(3, 4, 0.25, 0.5, 1.0, 1.0)
    now[0] += 0.05
    bar.epoch(4, 4, 0.125, None, 1.0, 1.0)
    expected = pytest.approx([1.5 / 4, 1.75 / 4, 3 / 4, 1.0])
    assert [share for share, *_ in bar.shown] == expected
    assert bar.shown[0][1:] == ("epoch 2/4", "")
    assert bar.shown[1][1:] == ("epoch 2/4", "loss 0.123457 10 rows/s")
    expected = ("epoch 3/4", f"loss 0.25, held-out 0.5 {1.5 * 80 / 2.5:.0f} rows/s")
    assert bar.shown[2][1:] == expected
    expected = ("epoch 4/4", f"loss 0.125 {2.5 * 80 / 2.55:,.0f} rows/s")
    assert bar.shown[3][1:] == expected


@pytest.mark.parametrize(
    "asked",
    [
        {"epochs": 4},
        # three times the patience is usual, fewer where no more are asked for
        {"epochs": 100, "schedule": "plateau", "patience": 4 / 3},
        {"epochs": 4, "schedule": "plateau", "patience": 10},
        {"epochs": 4, "schedule": "constant", "patience": 1},
    ],
)
def test_a_bar_of_candidates_has_the_share_of_all_operations(monkeypatch, asked):
    now = [50.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    bar = Drawn("t.csv")
    bar.begin([0.2, 0.5, 0.3])
    bar.start(info(patience=None) | asked)
    bar.ended("4,1", "loss 2")
    now[0] += 1.0
    bar.epoch(3, 4, 0.5, None, 1.0, 1.0)
    bar.ended("5,1", "loss 1")
    bar.ended("6,1", "loss 3")
    expected = pytest.approx([0.2, 0.2 + 0.5 * 3 / 4, 0.7, 1.0])
    assert [share for share, *_ in bar.shown] == expected
    expected = [f"candidate {k}/3" for k in (2, 2, 3, 3)]
    assert [what for _, what, _ in bar.shown] == expected


@pytest.mark.parametrize("spread", [1e-6, 0.02, 1.0, 30.0, 5e7])
@pytest.mark.parametrize("base", [0.0, 0.3, 47.0, 8e5, 3e9])
def test_numbers_of_an_axis_are_written_within_a_hundredth_of_their_spread(
    base, spread
):
    values = [base + spread * part for part in (0.0, 0.13, 0.5, 0.77, 1.0)]
    written = [float(text.replace(",", "")) for text in axis_texts(values)]
    shown = max(values) - min(values)  # where float64 has as many digits
    assert np.abs(np.subtract(written, values)).max() <= 0.01 * shown


def test_figures_of_several_targets_say_that_they_are_means():
    truth = np.array([[0, 1], [1, 0], [1, 1], [0, 0]], float)
    scores = np.array([[0.1, 0.9], [0.7, 0.6], [0.4, 0.8], [0.2, 0.3]])
    lines = metric_lines(multilabel_report(truth, scores, ["u", "v"], 0.5))
    told = {label: value for label, value, _ in lines}
    assert told["rows wholly right"] == "0.5000"
    assert told["mean ROC-AUC"] == "1.0000"
    f1 = [metrics.f1_score(truth[:, k], scores[:, k] >= 0.5) for k in range(2)]
    assert told["mean F1"] == f"{np.mean(f1):.4f}"


def test_the_first_lines_count_rows_of_each_class_and_threads(capsys):
    x = np.zeros((7, 2))
    y = np.array([0, 1, 0, 0, 1, 0, 0])
    ds = nn.Dataset(x, y, "binary", ["no", "yes"], path="t.csv")
    assert console.about(ds).startswith(
        "t.csv: 7 rows x 2 inputs; binary, classes no (5), yes (2, positive)"
    )
    labels = np.array([[1, 0], [0, np.nan], [1, 1], [0, np.nan]])
    ds = nn.Dataset(x[:4], labels, "multilabel", path="t.csv", targets=["u", "v"])
    ds.labels = [["no", "yes"], ["-", "+"]]
    told = "t.csv: 4 rows x 2 inputs; multilabel, u (yes: 2), v (+: 1)"
    assert console.about(ds).startswith(told)
    console.report_run("", "omp", 1, "float32", 7)
    console.report_run("", "omp", 2, "float64", 0, "remark")
    line, two = capsys.readouterr().err.splitlines()
    assert line == f"nn {nn.__version__}: omp, 1 thread, float32, seed 7"
    assert two == f"nn {nn.__version__}: omp, 2 threads, float64, seed 0; remark"


def test_a_long_computation_tells_the_time_that_its_steps_foretell(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    steps = progress.Steps("importance")
    now[0] += 10.0
    steps(25, 100)
    now[0] += 30.0
    steps(80, 100)
    assert capsys.readouterr().err.splitlines() == [
        "importance: 25 of 100, 10.0 s, 30 s left",
        "importance: 80 of 100, 40.0 s, 10 s left",
    ]


@pytest.mark.parametrize(
    "history, told",
    [
        ({"loss": [], "val_loss": []}, ""),
        ({"loss": [3.0, 1.5], "val_loss": []}, "2 epochs, loss 1.5"),
        (
            {"loss": [3.0, 1.5], "val_loss": [4.0, 2.5]},
            "2 epochs, loss 1.5, held-out loss 2.5",
        ),
        (
            {"loss": [3.0, 1.5], "val_loss": [4.0, 2.5], "val_metric": [0.5, 0.6]},
            "2 epochs, loss 1.5, validation loss 2.5",
        ),
    ],
)
def test_a_model_tells_its_epochs_and_last_losses(history, told):
    net = nn.Network("3,1", "regression")
    net.history = history
    assert network_facts.facts_of(net)["trained"] == told


def test_each_target_has_a_table_of_its_own_where_it_has_intervals(capsys):
    """With what its intervals of predictions hold; else all have one table."""
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(40, 2))
    predicted = truth + rng.normal(0, 0.3, (40, 2))
    result = regression_report(truth, predicted, ["u", "v"])
    result["per_target"] = figures_by_target(truth, predicted, ["u", "v"])
    tables.test_report(result, None, ["u", "v"])
    assert "by target" in capsys.readouterr().out
    for target in result["per_target"]:
        target["intervals"] = {"rmse": [0.25, 0.375], "r2": None}
        target |= {"level": 0.9, "coverage": 0.875, "width": 2.5}
    tables.test_report(result | {"intervals": {}}, None, ["u", "v"])
    text = capsys.readouterr().out
    assert "by target" not in text
    for target in result["per_target"]:
        _, _, own = text.partition(f"of {target['target']}\n")
        lines = [line.split() for line in own.split("\n\n")[0].splitlines()]
        assert [
            "RMSE",
            figures.number_text(target["rmse"]),
            "0.25",
            "to",
            "0.375",
        ] in lines
        assert ["R2", figures.number_text(target["r2"]), "undefined"] in lines
    assert "v: intervals of level 0.9 hold 87.5 % of the rows" in text


@pytest.mark.parametrize(
    "true, metrics, text",
    [
        ("x", {"log_loss"}, "x"),
        ([16.0], {"rmse", "r2"}, "16"),
        ([0.5, 47.0], {"rmse", "r2"}, "0.5; 47"),
        ([47.0, 47.0], {"rmse", "r2"}, "47; 47"),
        ([47.0, 47.0], {"rmse", "r2", "pinball"}, "47"),
        ([None, 2.0], {"rmse"}, "undefined; 2"),
        (["no", "yes"], {"log_loss"}, "no; yes"),
    ],
)
def test_what_is_true_of_a_row_is_told_without_copies_for_quantiles(
    true, metrics, text
):
    assert figures.true_text({"true": true}, metrics) == text
