"""`tests/bench/sureness.py`: its trainings, and what it says of them."""

import importlib
import logging
import sys

import numpy as np
import pandas as pd
import pytest
from support.command_line import REPOSITORY


@pytest.fixture(scope="module")
def sureness():
    """Import it as the module that it is, without a package of that name elsewhere."""
    pytest.importorskip("sklearn")
    before = list(sys.path)
    level = logging.getLogger("nn").level  # a training of the study is silent
    known = {name: sys.modules.pop(name) for name in [*sys.modules] if is_ours(name)}
    sys.path.insert(0, str(REPOSITORY))
    yield importlib.import_module("tests.bench.sureness")
    logging.getLogger("nn").setLevel(level)
    sys.path[:] = before
    for name in [name for name in sys.modules if is_ours(name)]:
        del sys.modules[name]
    sys.modules.update(known)


def is_ours(name):
    return name.split(".")[0] in ("tests", "arena")


def csv_of(folder, is_regression):
    """The spec of a table of 160 rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(160, 2))
    y = x[:, 0] + 0.3 * rng.normal(size=160)
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "goal": y})
    if not is_regression:
        frame["goal"] = np.where(y > 0, "high", "low")
    path = folder / "made.csv"
    frame.to_csv(path, index=False)
    return f"{path}:goal{':regression' if is_regression else ''}"


def test_a_training_is_judged_by_rows_that_it_did_not_have(sureness, tmp_path):
    spec = csv_of(tmp_path, is_regression=True)
    records = sureness.records_of(sureness.Job(spec, 100, 0, "quick"))
    rules = {(record["rule"], record["level"]) for record in records}
    assert rules == {
        (rule, level) for rule in ("own", "constant") for level in (0.8, 0.9, 0.95)
    }
    for record in records:
        assert record["rows"] == 100
        assert record["winkler"] >= record["width"]
        held = 60 * record["coverage"]
        assert held == pytest.approx(round(held))
    assert sureness.records_of(sureness.Job(spec, 140, 0, "quick")) == []


def test_of_classes_calibration_is_judged_too(sureness, tmp_path, capsys):
    spec = csv_of(tmp_path, is_regression=False)
    records = sureness.records_of(sureness.Job(spec, 100, 0, "quick"))
    (of_losses,) = [record for record in records if record["rule"] == "log loss"]
    before, after = of_losses["losses"]
    assert (before == after) == (of_losses["temperature"] == 1)
    sets = [record for record in records if record["rule"] != "log loss"]
    assert all(record["coverage"] >= record["accuracy"] for record in sets)
    sureness.report(records, by_table=True)
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("| 100 | made |") for line in lines) == 1
    assert any("--calibrate temperature" in line for line in lines)
