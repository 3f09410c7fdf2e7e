"""`tests/bench/honest.py`: its draws, and what it says of them."""

import importlib.util
import sys

import numpy as np
import pandas as pd
import pytest
from support.command_line import REPOSITORY


@pytest.fixture(scope="module")
def honest():
    """Import it as the script that it is."""
    before = list(sys.path)
    path = REPOSITORY / "tests" / "bench" / "honest.py"
    spec = importlib.util.spec_from_file_location("honest", path)
    module = sys.modules["honest"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before
    del sys.modules["honest"]


def source_of(honest, rows=2000):
    """Return a table whose target is its only input."""
    values = np.arange(rows, dtype=float)
    frame = pd.DataFrame({"a": values})
    return honest.Source("made", frame, values)


def test_a_draw_and_its_truth_share_no_row_and_twins_stand_for_rows_that_were_drawn(
    honest,
):
    drawn, twins, noise, noise_twins = honest.draws_of(source_of(honest), 300, 0)
    ids = {*drawn.others["a"]}
    lengths = [len(draw.known) for draw in (drawn, twins, noise, noise_twins)]
    assert lengths == [300] * 4
    assert len(ids) == 1700
    assert not ids & {*drawn.known["a"]}
    assert {*twins.known["a"]} < {*drawn.known["a"]}
    sets = twins.known["a"].value_counts()
    assert len(sets) == 210
    assert (sets > 1).sum() == 16
    assert sets.max() in (6, 7)
    assert (drawn.known["target"] == drawn.known["a"]).all()
    correlations = np.corrcoef(noise.known["a"], noise.known["target"])
    assert abs(correlations[0, 1]) < 0.2
    by_value = noise_twins.known.groupby("a")["target"]
    assert (by_value.nunique() == 1).all()  # a twin has the target of its row
    whole = honest.draw_of_all(source_of(honest), 0)
    assert len(whole.known) == 1600
    assert not {*whole.known["a"]} & {*whole.others["a"]}


def test_rows_of_groups_and_errors_in_time_are_alike(honest):
    kinds = [(draw.kind, draw.choices) for draw in honest.made_draws(300, 0)]
    assert (
        kinds
        == [("groups", {"group": "group"})] * 2 + [("times", {"time": "time"})] * 2
    )
    made = honest.grouped(3000, np.random.default_rng(0))
    left = made["target"] - honest.signal_of(made.to_numpy()[:, : honest.COLUMNS])
    assert (
        left.groupby(made["group"]).mean().std()
        > 0.8
        > 0.6
        > left.groupby(made["group"]).std().mean()
    )
    rng = np.random.default_rng(0)
    errors = honest.following(20_000, 0.8, rng)
    correlations = np.corrcoef(errors[1:], errors[:-1])
    assert correlations[0, 1] == pytest.approx(0.8, abs=0.02)
    assert errors.std() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("difference", "is_within"),
    [(0.04, True), (0.06, False), (-0.09, True), (-0.12, False)],
)
def test_a_difference_is_within_both_by_the_ends_that_lie_between(
    honest, difference, is_within
):
    """Told 0.8 (0.77 to 0.9); true (less 0.05, more 0.04): too good may be sqrt(.03^2 +
    .04^2), too bad more."""
    true = 0.8 - difference
    measured = {"f1": 0.8, "intervals": {"f1": [0.77, 0.9]}}
    intervals = {"f1": [true - 0.05, true + 0.04]}
    assert (
        honest.are_within("f1", measured, {"f1": true, "intervals": intervals})
        is is_within
    )
    assert (
        honest.are_within("f1", measured, {"f1": true, "intervals": {"f1": None}})
        is None
    )


def test_the_tables_have_bias_share_and_noise_that_is_learned(honest, capsys):
    about = {"rows": 300, "rows_drawn": "300", "table": "t"}
    records = [
        {
            **about,
            "kind": "drawn",
            "learned": True,
            "metric": "rmse",
            "told": ratio,
            "true": 2.0,
            "within": within,
        }
        for ratio, within in ((2.2, True), (1.8, False), (2.6, True))
    ] + [
        {
            **about,
            "kind": "noise",
            "learned": learned,
            "metric": "roc_auc",
            "told": 0.5,
            "true": 0.5,
            "within": True,
        }
        for learned in (True, False)
    ]
    coverage = [honest.coverage_of_series(64, 0.0, 2)]
    honest.report(records, coverage, by_table=False)
    out = capsys.readouterr().out
    assert (
        "| drawn | 300 | all | RMSE, relative | 3 | +0.100 | 0.115 | +0.100 | 67 % | 2 |"
        in out
    )
    assert "| noise | 300 | 2 | 50 % | ROC-AUC | 0.500 |" in out
    assert "| 64 | 0 | 2 | " in out
    assert "| --- | --- | --- | --- | ---: |" in out


def test_draws_that_a_file_keeps_are_not_trained_again(honest, tmp_path, monkeypatch):
    draws = [(draw, "300", 0) for draw in honest.draws_of(source_of(honest), 300, 0)]
    trained = []

    def judged(draw, effort, seed):
        trained.append((draw.kind, effort))
        return [{"metric": "rmse", "told": 1.0, "true": 2.0, "within": None}]

    monkeypatch.setattr(honest, "judged", judged)
    path = tmp_path / "kept.jsonl"
    first = honest.records_of(draws[:2], "quick", path)
    every = honest.records_of(draws, "quick", path)
    kinds = ["drawn", "twins", "noise", "noise, twins"]
    assert trained == [(kind, "quick") for kind in kinds]
    assert [record["kind"] for record in every] == kinds
    assert every[:2] == first
    honest.records_of(draws[:1], "standard", path)
    assert trained[4:] == [("drawn", "standard")]
