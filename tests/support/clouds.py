"""The solar study's data: datasets/solar.py as a module, and files of clouds for plans."""

import functools
import importlib.util
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "datasets" / "solar.py"
CLOUDS = {"path": "clouds_200_60s.csv", "test": "clouds_200_60s_test.csv"}  # `data` of a plan, beside it


@functools.cache
def solar():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("solar", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def _texts() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        solar().write_forecasts(f"{folder}/{CLOUDS['path']}", solar().clouds(200, step=60))
        return {name: Path(folder, name).read_text() for name in CLOUDS.values()}


def write_clouds(folder: Path) -> None:
    """Write the files that CLOUDS names."""
    for name, text in _texts().items():
        (folder / name).write_text(text)
