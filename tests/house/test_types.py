"""What an editor knows of nn: completion of its names, and types that hold in a
person's script."""

import inspect
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import nn

PACKAGE = Path(nn.__file__).parent
SCRIPT = """
from typing import Any
import numpy as np
import nn

class Told(nn.Callback):
    def epoch(
        self, epoch: int, epochs: int, loss: float, val_loss: float | None, seconds: float, us_per_batch: float
    ) -> None:
        print(epoch, loss)

ds: nn.Dataset = nn.load("CC.csv", target="Class")
net = nn.Network("30,60,10,1", task=ds.task, seed=0)
figures: dict[str, Any] = nn.train(net, ds, epochs=20, learning_rate=1e-3, callback=Told())
print(figures["loss"], nn.test(net, nn.load("test.csv"), intervals=True)["rows"])
net.export("m.bin")
again = nn.Network.load("m.bin", threads=2)
scores: np.ndarray = again.predict(ds.x)
weights: dict[str, np.ndarray] = again.parameters()
again.set_parameters(weights)
print(again.members[0].seed, again.columns, scores.shape, nn.__version__)
nn.export(again, "m.onnx")
nn.load({"a": [1, 2], "b": [0, 1]}, target="b")
nn.load(np.zeros((3, 2)), y=np.zeros(3))
classifier = nn.NetworkClassifier(effort="quick", epochs=3)
classifier.fit(np.zeros((4, 2)), [0, 1, 0, 1])
print(classifier.predict(np.zeros((4, 2))))
try:
    nn.load("none.csv")
except nn.NnError as error:
    print(error.exit_code)
"""


STUB = PACKAGE / "train" / "call.pyi"  # python tests/house/test_types.py writes it


def stub() -> str:
    """What an editor reads of nn.train: its settings by name, as the record has
    them."""
    parameters = inspect.signature(nn.train).parameters.values()
    positional = []
    for parameter in parameters:
        if parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append(f"    {parameter.name}: {parameter.annotation},\n")
    named = []
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY:
            named.append(f"    {parameter.name}: {parameter.annotation} = ...,\n")
    return f'''"""The settings of train by name, made from FLAGS by tests/house/test_types.py."""

from typing import Any

import numpy as np

from ..ds import Dataset
from ..files.checkpoint import Checkpoint
from ..nn import Network
from ..utils import StopRequest
from ..watch.callbacks import Callback
from .rows import ReadValidation

def train(
{"".join(positional)}    *,
{"".join(named)}) -> dict[str, Any]: ...
'''


def test_editors_see_the_settings_of_train():
    assert STUB.read_text() == stub()


def test_editors_see_the_public_names():
    text = (PACKAGE / "__init__.pyi").read_text()
    names = re.findall(r"^from \S+ import (\w+) as \1$", text, re.M)
    assert sorted([*names, "__version__"]) == sorted(dir(nn))
    assert (PACKAGE / "py.typed").exists()


@pytest.mark.parametrize(
    "checker, given",
    [
        ("mypy", ["--strict", "--ignore-missing-imports"]),
        ("pyright", ["--pythonpath", sys.executable]),
    ],
)
def test_a_script_has_no_errors_of_types(checker, given, tmp_path, monkeypatch):
    if find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed")
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.setenv("MYPYPATH", str(PACKAGE.parent))
    command = [sys.executable, "-m", checker, *given, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    STUB.write_text(stub())
