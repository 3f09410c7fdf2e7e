"""What the arena of tests/bench tells of results: Elo, ranks, failures, the front;
nothing is trained here."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")

sys.path.append(str(Path(__file__).parents[1] / "bench"))
from arena import judge
from arena.__main__ import known, run, tell
from arena.methods import METHODS, Method
from arena.tables import SMALL, read, tables_of


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch) -> None:
    """How exact an interval is matters to no test here."""
    monkeypatch.setattr(judge, "ROUNDS", 100)


def errors_of(wins: int, losses: int) -> np.ndarray:
    """Errors (tables, one split, 2 methods), the first of which is better in `wins`
    tables."""
    return np.array([[[0.1, 0.2]]] * wins + [[[0.2, 0.1]]] * losses)


def test_elo_is_what_the_share_of_wins_says():
    result = errors_of(750, 250)
    rating = judge.elo(judge.wins(result), reference=1)
    assert rating[1] == 1000
    expected = 1000 + 400 * np.log10(3)
    assert rating[0] == pytest.approx(expected, abs=0.1)


def test_who_always_wins_has_a_rating_and_an_interval_around_it():
    rating, (low, high) = judge.ratings(errors_of(9, 1), reference=1)
    assert 1000 < low[0] <= rating[0] <= high[0] < 3000
    assert np.isfinite(judge.elo(judge.wins(errors_of(5, 0)), reference=1)).all()


def test_a_failure_has_the_worst_place_and_a_tie_counts_half():
    result = np.array([[[0.1, np.inf, 0.1]], [[0.3, 0.2, 0.1]]])
    expected = [(1.5 + 3) / 2, (3 + 2) / 2, (1.5 + 1) / 2]
    assert judge.mean_ranks(result).tolist() == expected


def test_a_method_that_took_no_part_in_a_table_is_ranked_by_the_others():
    result = np.array([[[0.1, 0.2, np.nan]], [[0.3, 0.2, 0.1]]])
    assert judge.mean_ranks(result).tolist() == [2, 1.5 + 0.5, 1]


def test_without_the_forest_the_first_method_has_an_elo_of_1000(capsys):
    about = {"version": "1", "rows": 10, "tested": 5, "split": 0, "predict": 0.1}
    results = [
        {**about, "table": table, "method": method, "error": error, "train": 1.0}
        for table, errors in {"a": (0.1, 0.2), "b": (0.1, 0.3)}.items()
        for method, error in zip(("CatBoost", "nn"), errors, strict=True)
    ]
    lines = {line["method"]: line for line in tell(results, ["nn", "CatBoost"])}
    assert lines["nn"]["elo"] == 1000
    assert lines["CatBoost"]["elo"] > 1000
    assert lines["nn"]["failed"] == 0
    assert "2 tables" in capsys.readouterr().out


def test_the_front_is_what_no_other_beats_in_time_and_rating():
    assert judge.front(
        np.array([1.0, 2.0, 3.0, 4.0]), np.array([1000.0, 1200, 1100, 1300])
    ) == [0, 1, 3]


@pytest.mark.parametrize(
    "out", [np.zeros(3), np.array([[0.1, np.nan]] * 4), np.zeros((4, 3))]
)
def test_what_is_no_prediction_is_a_failure(out):
    with pytest.raises(ValueError):
        judge.error_of(np.array([0, 1, 0, 1]), out, classes=2)


def test_a_result_that_was_half_written_is_trained_again(tmp_path):
    record = {"method": "nn", "version": "1", "digest": "ab", "split": 0, "error": 0.1}
    text = json.dumps(record) + '\n{"method": "nn", "vers'
    (tmp_path / "r.jsonl").write_text(text)
    assert known(tmp_path / "r.jsonl") == {("nn", "1", "ab", 0): record}


def test_a_slow_method_takes_part_in_a_large_table_by_what_is_known(
    tmp_path, monkeypatch
):
    def fit(x, y, classes):
        raise AssertionError("trained on a large table")

    slow = Method("numpy", fit, slow=True)
    monkeypatch.setitem(METHODS, "slow", slow)
    rows = [f"{row},{row % 7}.5" for row in range(SMALL + 1)]
    (tmp_path / "a.csv").write_text("\n".join(["x,y", *rows]))
    spec = f"{tmp_path / 'a.csv'}:y"
    kept = tmp_path / "r.jsonl"
    assert run([spec], ["slow"], lite=True, path=kept) == []
    record = {"method": "slow", "version": slow.version, "split": 0, "error": 0.1}
    record["digest"] = read(spec).digest
    kept.write_text(json.dumps(record) + "\n")
    assert run([spec], ["slow"], lite=True, path=kept) == [record]


def test_tables_are_files_lists_and_those_of_packages(tmp_path):
    text = "word,y,no\n" + "u,1,5\nv,2,6\n" * 6 + "v,9,6\n"
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "list.txt").write_text("# a comment\na.csv:y:-no:classes\n")
    tables = tables_of(["scikit-learn:wine", str(tmp_path / "list.txt")], tmp_path)
    assert tables[0] == "scikit-learn:wine"
    tables = tables_of([str(tmp_path / "list.txt")], tmp_path)
    table = read(tables[0])
    # one row of class 9
    assert table.x.columns.tolist() == ["cword"]
    assert table.classes == 2
    assert len(table.y) == 12
    assert len(table.splits(lite=False)) == 30
    assert len(table.splits(lite=True)) == 1
    assert not set(table.splits(lite=True)[0][0]) & set(table.splits(lite=True)[0][1])
