"""--trials: what was tried as a table, a file to which several runs add, and pictures."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_line import environment, run, succeed, write_two_classes

from nn.study.trials import COLUMNS, append_trials, is_trials, read_trials
from nn.utils import DataError

VARY = "learning_rate=1e-3..1e-1,hidden=4|6-3,optimizer=adam|sgd"
CALL = ["--train", "--epochs", 3, "--validation", 0.3, "--split_seed", 0, "--vary", VARY, "--trials", "trials.csv"]


@pytest.fixture
def data(folder):
    return write_two_classes(folder / "data.csv", 120)


def call(data, networks, seed, *more):
    model = f"{seed}.bin"
    return [*CALL, "--dataset", data, "--model", model, "--networks", networks, "--seed", seed, *more]


def test_a_line_for_each_network(data):
    told = succeed(*call(data, 8, 3, "--monitor", "roc_auc", "-q", "--json")).json
    rows = list(csv.DictReader(Path("trials.csv").read_text().splitlines()))
    assert tuple(rows[0]) == COLUMNS and [int(row["seed"]) for row in rows] == list(range(3, 11))
    for row, trial in zip(rows, told["trials"], strict=True):
        assert {name: row[name] for name in ("hidden", "optimizer")} == {
            name: trial["settings"][name] for name in ("hidden", "optimizer")
        }
        assert float(row["learning_rate"]) == trial["settings"]["learning_rate"]
        assert float(row["score"]) == pytest.approx(trial["score"], rel=1e-5) and row["metric"] == "roc_auc"
        assert (int(row["epochs_done"]), row["status"], float(row["weight"])) == (
            trial["epochs"], trial["status"], trial["weight"],
        )  # fmt: skip
        assert [row[name] for name in ("batch_number", "epochs", "dropout", "split_seed")] == ["32", "3", "", "0"]
    weights = {row["seed"]: float(row["weight"]) for row in rows if float(row["weight"])}
    assert weights == {str(own["seed"]): own["weight"] for own in told["members"]}
    assert read_trials("trials.csv")[0]["learning_rate"] == told["trials"][0]["settings"]["learning_rate"]


def test_runs_of_an_array_are_one_run(data):
    """But that each chooses among its own networks."""

    def tried(path):
        lines = [{**line, "weight": None, "status": None} for line in read_trials(path)]
        return sorted(lines, key=lambda line: line["seed"])

    succeed(*call(data, 6, 0, "-q"))
    for seed in (0, 3, 0):  # one again
        succeed(*call(data, 3, seed, "-q", "--trials", "parts.csv"))
        assert seed or tried("parts.csv")[:3] == tried("trials.csv")[:3]
    assert tried("parts.csv") == tried("trials.csv") and len(tried("parts.csv")) == 6


ADD = """
import sys
from nn.study.trials import append_trials
for line in range(40):
    append_trials("many.csv", [{"seed": 1000 * int(sys.argv[1]) + 2 * line + k} for k in (0, 1)])
"""


def test_many_processes_add_to_a_new_file_at_once(folder):
    processes = [subprocess.Popen([sys.executable, "-c", ADD, str(k)], env=environment()) for k in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    seeds = sorted(int(row["seed"]) for row in read_trials("many.csv"))
    assert seeds == sorted(1000 * k + line for k in range(4) for line in range(80))


def test_a_line_that_was_cut_is_mended(folder):
    append_trials("t.csv", [{"seed": 1}, {"seed": 2}])
    text = Path("t.csv").read_text()
    with open("t.csv", "w") as file:
        file.write(text[:-9])
    assert [row["seed"] for row in read_trials("t.csv")] == [1]
    append_trials("t.csv", [{"seed": 2}, {"seed": 3}])
    assert [row["seed"] for row in read_trials("t.csv")] == [1, 2, 3]


def test_other_files_are_refused_before_training(data):
    with open("other.csv", "w") as file:
        file.write("a,b\n1,2\n")
    result = run(*call(data, 3, 0, "--trials", "other.csv"))
    assert result.code == 65 and "not those that --trials writes" in result.err and "epoch" not in result.err
    assert Path("other.csv").read_text() == "a,b\n1,2\n" and not is_trials("other.csv")
    with pytest.raises(DataError, match="others than those to add"):
        append_trials("other.csv", [{"seed": 1}])
    assert run(*call(data, 3, 0, "--trials", data)).code == 2
    result = run("--train", "--dataset", data, "--model", "m.bin", "--networks", 3, "--trials", "t.csv")
    assert result.code == 2 and "each network of --vary" in result.err


def test_the_table_shows_the_best_first_and_verbose_all(data):
    told = succeed(*call(data, 24, 0, "--monitor", "roc_auc", "--verbose")).out
    lines = told[told.index("24 networks tried\n") :].splitlines()
    assert lines[1].split() == ["weight", "seed", "learning_rate", "hidden", "optimizer", "epochs", "roc_auc"]
    shown = [line.split() for line in lines[2:26]]
    weighted = [line for line in shown if line[0].isdigit()]
    assert shown[: len(weighted)] == weighted and 1 <= len(weighted) <= 10
    others = [float(line[-1]) for line in shown if line[:2] == ["not", "chosen"]]
    assert others == sorted(others, reverse=True) and shown[-1][:2] == ["given", "up"]
    told = succeed(*call(data, 24, 0, "--monitor", "roc_auc")).out
    best = told[told.index("24 networks tried, the best 8\n") :].splitlines()[2:10]
    assert [line.split() for line in best] == shown[:8]


def test_pictures_of_the_score_against_each_setting(data):
    succeed(*call(data, 6, 0, "-q"))
    files = succeed("--plot", "trials.csv", "-o", "pictures", "--report", "page.html", "--json").json["files"]
    names = {file for file in files if file.endswith(".svg")}
    assert names == {f"pictures/trials-{name}.svg" for name in ("learning_rate", "hidden", "optimizer")}
    svg = Path("pictures/trials-hidden.svg").read_text()
    assert ">6-3<" in svg and ">hidden<" in svg
    page = Path("page.html").read_text()
    assert "<h2>All trials</h2>" in page and page.count("<svg") == 3 and "6-3" in page
    append_trials("one.csv", [{"seed": 1, "metric": "loss", "score": 0.5, "weight": 1, "epochs": 3}])
    assert run("--plot", "one.csv", "-o", "pictures").code == 2
