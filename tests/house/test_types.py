"""What an editor knows of nn: completion of its names, and types that hold in a
person's script."""

import inspect
import json
import os
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
model = nn.fit("CC.csv", "Class", epochs=5, layers="auto,8,1", drop=["Time"])
classes: np.ndarray | None = model.classes_
accuracy: float = model.score("test.csv") + model.score([[0.0]], [1])
print(model.feature_names_in_, model.predict([[0.0]]), nn.Model.load("m.bin").columns)
try:
    nn.load("none.csv")
except nn.NnError as error:
    print(error.exit_code)
"""


# python tests/house/test_types.py writes them
STUBS = {
    "call": """\
from typing import Any

import numpy as np

from ..ds import Dataset
from ..files.checkpoint import Checkpoint
from ..nn import Network
from ..utils import StopRequest
from ..watch.callbacks import Callback
from .rows import ReadValidation
""",
    "fit": """\
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..files.checkpoint import Checkpoint
from ..nn import Network
from ..test.importance import Importance
from ..test.shapley import Explanation
from ..watch.callbacks import Callback
""",
    "estimators": """\
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from ..nn import Network
""",
}
HEAD = '"""The settings of {}, made from FLAGS by tests/house/test_types.py."""\n'


def signature_text(function, indent: str = "", returns: str | None = None) -> str:
    """A function as a stub has it. returns: its type, None: as it says."""
    signature = inspect.signature(function)
    lines = []
    is_named = False
    for parameter in signature.parameters.values():
        text = parameter.name
        if parameter.kind is parameter.VAR_KEYWORD:
            text = f"**{text}: Any"
        elif parameter.name != "self" and parameter.name != "cls":
            annotation = parameter.annotation
            if annotation is parameter.empty:
                annotation = "Any"
            text += f": {annotation}"
        if parameter.kind is parameter.KEYWORD_ONLY and not is_named:
            is_named = True
            lines.append(f"{indent}    *,\n")
        if parameter.default is not parameter.empty:
            text += " = ..."
        lines.append(f"{indent}    {text},\n")
    result = returns or signature.return_annotation
    if result is signature.empty:
        result = "None"
    result = result.replace("dict", "dict[str, Any]") if result == "dict" else result
    name = function.__name__
    return f"{indent}def {name}(\n{''.join(lines)}{indent}) -> {result}: ...\n"


def class_text(kind: type, base: str = "", attributes: str = "") -> str:
    """A class with its public methods, those of its bases in nn too."""
    found: dict = {}
    for owner in reversed(kind.__mro__):
        if owner.__module__.startswith("nn."):
            found |= vars(owner)
    parts = [f"class {kind.__name__}{base}:\n{attributes}"]
    for name, member in found.items():
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, property):
            parts.append("    @property\n")
            parts.append(signature_text(member.fget, "    "))
        elif isinstance(member, classmethod):
            parts.append("    @classmethod\n")
            parts.append(signature_text(member.__func__, "    "))
        elif inspect.isfunction(member):
            returns = kind.__name__ if name in ("fit", "partial_fit") else None
            parts.append(signature_text(member, "    ", returns))
    return "".join(parts)


def stub(module: str) -> str:
    """What an editor reads of a module: its settings by name, as the record has
    them."""
    if module == "call":
        parts = [signature_text(nn.train, returns="dict[str, Any]")]
    elif module == "fit":
        attributes = "    network: Network\n    metrics: dict[str, Any]\n"
        parts = [signature_text(nn.fit), class_text(nn.Model, "", attributes)]
        parts.append(signature_text(nn.compare))
    else:
        attributes = (
            "    network_: Network\n    figures_: dict[str, Any]\n"
            "    loss_curve_: list[float]\n    n_features_in_: int\n"
        )
        of_classes = attributes + "    classes_: np.ndarray\n"
        parts = [
            class_text(
                nn.NetworkClassifier, "(ClassifierMixin, BaseEstimator)", of_classes
            ),
            class_text(
                nn.NetworkRegressor, "(RegressorMixin, BaseEstimator)", attributes
            ),
        ]
    about = {"call": "train", "fit": "fit", "estimators": "the estimators"}[module]
    return "\n".join([HEAD.format(about), STUBS[module], *parts])


@pytest.mark.parametrize("module", STUBS)
def test_editors_see_the_settings(module):
    assert (PACKAGE / "train" / f"{module}.pyi").read_text() == stub(module)


def test_editors_see_the_public_names():
    text = (PACKAGE / "__init__.pyi").read_text()
    names = re.findall(r"^from \S+ import (\w+) as \1$", text, re.M)
    assert sorted([*names, "__version__"]) == sorted(dir(nn))
    assert (PACKAGE / "py.typed").exists()


CHECKERS = {
    "mypy": ["--strict", "--ignore-missing-imports"],
    "pyright": ["--pythonpath", sys.executable],
    "basedpyright": ["--pythonpath", sys.executable, "--level", "error"],
}
in_each_checker = pytest.mark.parametrize("checker", CHECKERS)


def checked(checker: str, script: str, folder: Path) -> subprocess.CompletedProcess:
    """A checker of types, run on a script."""
    if find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed")
    (folder / "script.py").write_text(script)
    command = [sys.executable, "-m", checker, *CHECKERS[checker], "script.py"]
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(PACKAGE.parent)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment
    )


@in_each_checker
def test_a_script_has_no_errors_of_types(checker, tmp_path):
    done = checked(checker, SCRIPT, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


WRONG = """
import nn

nn.fit("CC.csv", epochs="five")
nn.NetworkClassifier(epochs="five")
nn.fit("CC.csv", epoch=5)
nn.train(nn.Network("4,1"), nn.load("CC.csv"), epochs="five")
nn.NetworkRegressor(optimizer=7)
nn.fit("CC.csv").nothing()
"""


@in_each_checker
def test_a_checker_finds_a_setting_of_another_type_or_name(checker, tmp_path):
    done = checked(checker, WRONG, tmp_path)
    lines = re.findall(r"script.py:(\d+)(?::\d+)?(?: -|:) error", done.stdout)
    assert sorted(map(int, lines)) == [4, 5, 6, 7, 8, 9], done.stdout


if __name__ == "__main__":
    for module in STUBS:
        (PACKAGE / "train" / f"{module}.pyi").write_text(stub(module))
