"""A training that is stopped wherever it is, again and again, ends in the model of one
that nobody stopped."""

import numpy as np
import pytest
from support.packs import SEED, until_ended
from support.tables import csv_of

import nn
from nn.nn import Network
from nn.utils import UsageError

VALID = {"validation": 0.3, "learning_rate": 0.03}
RULES = {"threshold": "f1", "calibrate": "temperature"}
VARIED = "learning_rate=1e-4..1e-1,hidden=4|16,optimizer=adam|sgd,number_embedding=linear|pieces4"
WAYS = {
    "one": {**VALID, "epochs": 9},
    "one, patience": {**VALID, "epochs": 12, "patience": 3, "monitor": "pr_auc"},
    "one, refit": {**VALID, "epochs": 9, "refit": True, "class_weight": "balanced"},
    "some rows": {"rows": np.arange(20, 300), "validation": 0.2, "epochs": 12},
    "networks": {"networks": 3, "epochs": 5},
    "folds": {"folds": 3, "epochs": 5},
    "networks, refit": {
        **VALID,
        "networks": 3,
        "epochs": 8,
        "patience": 2,
        "refit": True,
    },
    "networks, rules": {
        **VALID,
        **RULES,
        "networks": 3,
        "epochs": 8,
        "patience": 2,
        "refit": True,
    },
    "folds, rules": {**RULES, "folds": 3, "epochs": 5},
    "folds, refit": {
        **VALID,
        "folds": 3,
        "epochs": 5,
        "threshold": "f1",
        "refit": True,
    },
    "folds, judged": {
        **RULES,
        "folds": 3,
        "epochs": 9,
        "validation": "fold",
        "learning_rate": 0.03,
        "patience": 3,
    },
    "folds, roc_auc": {
        "folds": 3,
        "epochs": 7,
        "validation": "fold",
        "learning_rate": 0.03,
        "monitor": "roc_auc",
    },
    "folds, time": {
        "folds": 3,
        "epochs": 9,
        "validation": "fold",
        "learning_rate": 0.05,
        "patience": 3,
    },
    "vary": {
        "validation": 0.3,
        "networks": 20,
        "patience": 3,
        "vary": f"{VARIED},epochs=4..9",
    },
    "vary, refit": {
        "validation": 0.3,
        "networks": 20,
        "refit": True,
        "vary": f"{VARIED},epochs=4..9",
    },
    "vary, given up twice": {
        "validation": 0.3,
        "networks": 40,
        "epochs": 8,
        "vary": VARIED,
    },
}
# in mapped files, too
LIMITED = [
    "one, refit",
    "networks",
    "networks, rules",
    "folds, rules",
    "folds, judged",
    "vary",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two classes of six numbers, and a weight of each row."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 6))
    path = tmp_path_factory.mktemp("stopped") / "rows.csv"
    y = x[:, 0] * x[:, 1] + rng.normal(size=400) / 2 > 0
    draws = rng.random(400).round(3)
    columns = [*x.round(4).T, draws, y * 1]
    path.write_text(csv_of("abcdefwy", columns))
    return path


@pytest.mark.usual(0, 8)
@pytest.mark.parametrize(
    "way, memory",
    [*((way, None) for way in WAYS), *((way, 100 << 20) for way in LIMITED)],
)
def test_a_stopped_training_goes_on_to_the_same_model(
    way, memory, table, folder, mapped
):
    kept = folder / "state.nn"

    def trained(**settings):
        if way == "folds, time":
            of_rows = {"time": "f"}
        else:
            of_rows = {}
        ds = nn.load(table, weight="w", memory=memory, **of_rows)
        net = Network(
            f"{ds.inputs},12,dropout0.2,1", "binary", seed=SEED, backend="omp"
        )
        result = nn.train(net, ds, **{**WAYS[way], **settings})
        net.export(folder / "m.bin")
        return (
            (folder / "m.bin").read_bytes(),
            {**result, "seconds": None, "us_per_batch": None},
            net,
        )

    whole = trained()
    ended, stops = until_ended(
        lambda stop: trained(checkpoint=kept, resume="auto", stop=stop), 7, 30
    )
    assert stops > 1
    assert ended[:2] == whole[:2]
    assert ended[2].temperature != 1 or "calibrate" not in WAYS[way]
    assert trained(resume=kept)[0] == whole[0]
    if way == "folds, time":
        assert len({len(member.history["loss"]) for member in whole[2].members}) > 1, (
            "each should end by itself"
        )
    if "rows" in WAYS[way]:
        rows = WAYS[way]["rows"][1:]
        with pytest.raises(UsageError, match="other data"):
            trained(checkpoint=kept, resume="auto", rows=rows)
    if "vary" in way:
        with pytest.raises(UsageError, match="--(vary|epochs)"):
            trained(checkpoint=kept, resume="auto", vary="learning_rate=1e-4..1e-1")
