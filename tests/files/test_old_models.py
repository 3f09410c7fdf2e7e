"""Models that version 0.1 wrote load and predict what they did then; `version-0.1/` has
them, and ten rows of each."""

import csv
from pathlib import Path

import numpy as np
import pytest
from support.command_line import succeed

import nn
from nn.files import model_file

FOLDER = Path(__file__).parents[1] / "version-0.1"
MODELS = {  # model -> the data that it was trained on
    "binary.bin": "binary.csv",
    "classes.bin": "classes.csv",
    "numbers.bin": "numbers.csv",
    "images.bin": "images.npz",
    "original.m": "binary.csv",
    "table.bin": "table.csv",
    "values.bin": "values.csv",
}


@pytest.mark.parametrize("backend", ["seq", "omp"])
@pytest.mark.parametrize("model", MODELS)
def test_predictions_are_those_of_then(model, backend):
    arguments = (
        "--model",
        FOLDER / model,
        "--dataset",
        FOLDER / MODELS[model],
        "--backend",
        backend,
    )
    lines = succeed("--predict", *arguments).out.splitlines()
    result = list(csv.reader(lines))
    with open(FOLDER / f"{Path(model).stem}.predicted.csv", newline="") as file:
        expected = list(csv.reader(file))
    assert result[0] == expected[0]
    # those of the first rows are kept
    for line, expected_line in zip(
        result[1 : len(expected)], expected[1:], strict=True
    ):
        for a, b in zip(line, expected_line, strict=True):
            try:
                # backends add up in their own order; a deviation is a difference of
                # scores
                np.testing.assert_allclose(float(a), float(b), rtol=1e-5, atol=1e-7)
            except ValueError:
                assert a == b


@pytest.mark.parametrize("model", [model for model in MODELS if model.endswith(".bin")])
def test_what_such_a_model_knows_is_written_again_in_the_newest_format(model, tmp_path):
    net = nn.Network.of_file(FOLDER / model)
    net.export(tmp_path / model)
    (old_tensors, old) = model_file.load(FOLDER / model)
    (tensors, new) = model_file.load(tmp_path / model)
    expected = {name: array.tobytes() for name, array in old_tensors.items()}
    assert {name: array.tobytes() for name, array in tensors.items()} == expected
    changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
    assert changed == {"format", "sha256"}
    assert new["format"] == model_file.MODEL_FORMAT


def test_the_rows_that_were_held_out_are_found_beside_the_model():
    result = succeed("--test", "--model", FOLDER / "binary.bin", "--json")
    assert result.json["rows"] == 11
