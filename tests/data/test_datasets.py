"""The bundled data are what datasets/README.md says and what the scripts beside them
make."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

DATASETS = Path(__file__).resolve().parents[2] / "datasets"


def run(script: str, *arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, str(DATASETS / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def make_cc(path: Path, *arguments) -> bytes:
    done = run("make_cc.py", "-o", path, *arguments)
    assert done.returncode == 0, done.stderr
    return path.read_bytes()


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    """Rows of CC.csv."""
    return np.loadtxt(DATASETS / "CC.csv", delimiter=",", skiprows=1, quotechar='"')


@pytest.mark.slow
def test_make_cc_writes_the_committed_bytes_and_another_table_for_another_seed(
    tmp_path,
):
    assert make_cc(tmp_path / "CC.csv") == (DATASETS / "CC.csv").read_bytes()
    path = tmp_path / "missing" / "CC.csv"
    done = run("make_cc.py", "-o", path, "--rows", 50)
    assert done.returncode
    assert done.stderr.count("\n") == 1
    assert "cannot write" in done.stderr
    table = make_cc(tmp_path / "t.csv", "--rows", 150, "--seed", 1)
    again = make_cc(tmp_path / "t.csv", "--rows", 150, "--seed", 1)
    other = make_cc(tmp_path / "t.csv", "--rows", 150, "--seed", 2)
    assert table == again
    assert table != other
    lines = other.decode().splitlines()[1:]
    assert len(lines) == 150
    assert sum(line.endswith(',"1"') for line in lines) == 6


def test_cc_is_written_in_kaggles_style():
    data = (DATASETS / "CC.csv").read_bytes()
    assert len(data) < 2_000_000
    assert b"\r" not in data
    assert data.endswith(b"\n")
    header, *lines = data.decode("ascii").splitlines()
    names = ["Time", *(f"V{i}" for i in range(1, 29)), "Amount", "Class"]
    assert header == ",".join(f'"{name}"' for name in names)
    for line in lines:
        assert re.fullmatch(r'\d+,.*\.\d\d,"[01]"', line)
        assert line.count('"') == 2


def test_cc_has_5000_rows_200_frauds_ordered_times_falling_variances_skewed_amounts(
    values,
):
    assert values.shape == (5000, 31)
    assert values[:, -1].sum() == 200
    times = values[:, 0]
    assert (np.diff(times) >= 0).all()
    assert times[0] >= 0
    assert times[-1] < 2 * 86_400
    v = values[values[:, -1] == 0, 1:29]
    amount = values[:, 29]
    std = v.std(axis=0)
    assert np.abs(v.mean(axis=0) / std).max() < 0.1
    # Sampling noise of a heavy-tailed standard deviation allows neighbours to swap, not
    # distant columns.
    assert np.all(std[4:] < std[:-4])
    kurtosis = ((v - v.mean(axis=0)) ** 4).mean(axis=0) / std**4
    assert kurtosis.min() > 4  # of a normal distribution: 3
    assert amount.min() >= 0
    assert amount.mean() > 2 * np.median(amount)


def test_cc_is_about_as_separable_as_the_real_set(values):
    pytest.importorskip("sklearn")
    from sklearn import linear_model, model_selection, pipeline, preprocessing
    from sklearn.metrics import average_precision_score, f1_score

    x = values[:, :-1]
    y = values[:, -1].astype(int)
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.LogisticRegression(max_iter=1000)
    )
    folds = model_selection.StratifiedKFold(5, shuffle=True, random_state=0)
    score = model_selection.cross_val_predict(
        model, x, y, cv=folds, method="predict_proba"
    )[:, 1]
    # The same model on the real set: F1 0.90, PR-AUC 0.90; 200 frauds leave both
    # uncertain by 0.02.
    assert 0.87 < f1_score(y, score > 0.5) < 0.95
    assert 0.87 < average_precision_score(y, score) < 0.95
    # No single column gives the frauds away; the best of the real set reaches 0.87 at
    # this share of frauds.
    best_column = max(
        average_precision_score(y, s * x[:, i]) for i in range(30) for s in (-1, 1)
    )
    assert best_column < 0.88


def test_truth_tables_are_true_and_what_make_logic_writes(tmp_path):
    done = run("make_logic.py", tmp_path)
    assert done.returncode == 0, done.stderr
    for name, text in {
        "and": '"x1","x2","Class"\n0,0,0\n0,1,0\n1,0,0\n1,1,1\n',
        "or": '"x1","x2","Class"\n0,0,0\n0,1,1\n1,0,1\n1,1,1\n',
        "xor": '"x1","x2","Class"\n0,0,0\n0,1,1\n1,0,1\n1,1,0\n',
        "not": '"x1","Class"\n0,1\n1,0\n',
    }.items():
        path = DATASETS / f"{name}.csv"
        assert path.read_text() == (tmp_path / f"{name}.csv").read_text() == text


def test_make_customers_writes_the_committed_bytes_and_others_for_another_seed(
    tmp_path,
):
    for seed in (0, 1):
        (tmp_path / str(seed)).mkdir()
        given = ["--folder", tmp_path / str(seed), "--seed", seed]
        done = run("make_customers.py", *given)
        assert done.returncode == 0, done.stderr
    for name in ("customers.csv", "new_customers.csv"):
        made = (tmp_path / "0" / name).read_bytes()
        assert made == (DATASETS / name).read_bytes()
        assert made != (tmp_path / "1" / name).read_bytes()
