"""Models exported to ONNX: what onnxruntime makes of them, beside --predict."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest

from support.command_line import succeed
from support.distances import relative_distance
from support.mixed_table import read_raw

# onnxruntime adds up in another order; of the whole vector, as is every distance here
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def session(path) -> onnxruntime.InferenceSession:
    onnx.checker.check_model(str(path), full_check=True)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def outputs(path, inputs: dict) -> dict:
    """Return outputs by their names."""
    onnx_session = session(path)
    names = [output.name for output in onnx_session.get_outputs()]
    return dict(zip(names, onnx_session.run(None, inputs)))


def as_inputs(found: onnxruntime.InferenceSession, raw: dict[str, list[str]]) -> dict:
    """Return the columns of a file as the inputs of a model, as a program without nn
    makes them."""

    def number(text: str) -> float:
        if text in ("", "NA", "?"):
            return np.nan
        if "T" in text:
            return np.datetime64(text).astype("datetime64[s]").astype(np.int64)
        return float(text)

    arrays = {}
    for value in found.get_inputs():
        if value.name == "features":
            names = json.loads(found.get_modelmeta().custom_metadata_map["columns"])
            columns = [[number(word) for word in raw[name]] for name in names]
            arrays["features"] = np.array(columns, np.float64).T
            continue
        words = raw[value.name]
        is_text = value.type == "tensor(string)"
        arrays[value.name] = np.array(
            [[word if is_text else number(word)] for word in words],
            object if is_text else np.float64,
        )
    return arrays


def check_table(folder, new) -> None:
    """Assert that the ONNX file of m.bin gives what --predict gives for the file
    `new`."""
    succeed("--export", "--model", folder / "m.bin", "-o", folder / "m.onnx", "-q")
    succeed(
        "--predict",
        "--model",
        folder / "m.bin",
        "--dataset",
        new,
        "-o",
        folder / "p.csv",
        "-q",
    )
    predicted = read_raw(folder / "p.csv")
    onnx_session = session(folder / "m.onnx")
    names = [output.name for output in onnx_session.get_outputs()]
    out = dict(
        zip(names, onnx_session.run(None, as_inputs(onnx_session, read_raw(new))))
    )
    if "probabilities" in out:
        scores = "score"
    else:
        scores = "predicted"
    expected = np.array(
        [predicted[name] for name in predicted if name.startswith(scores)], np.float64
    ).T
    if "probabilities" in out:
        values = out["probabilities"]
    else:
        values = out["values"]
    if expected.shape[1] == 1 and values.shape[1] == 2:
        assert values.sum(axis=1) == pytest.approx(1, abs=1e-6)
        values = values[:, 1:]
    assert relative_distance(values, expected) < TOLERANCE["float32"]
    if "probabilities" in out:
        label = out["label_" if "label_" in out else "label"]  # `label` is a column
        assert np.mean(label == np.array(predicted["predicted"])) == 1
