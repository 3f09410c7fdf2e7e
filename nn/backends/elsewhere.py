"""Rows in arrays of other libraries, which speak DLPack or CUDA's array interface: the
predictions are an array of the same library, and where both lie on the GPU that
computes, nothing goes over the computer's memory."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..layers import predict_alike
from ..utils import UsageError

OF_A_GPU = (2, 13)  # DLPack's numbers of CUDA's memory and of its managed one
SCALED_THERE = ("none", "normalization", "standardization")


class Reading(NamedTuple):
    """How rows (rows, inputs) of plain numbers become a network's inputs, and its
    outputs predictions.

    number_type: that columns are read in; None: as the rows have it. shift, scale: of
    each input, float64, none where rows are not scaled. target_shift, target_scale,
    low, high: the same of each output, and its bounds. value_dtype: of predictions.
    """

    number_type: str | None
    shift: np.ndarray
    scale: np.ndarray
    target_shift: np.ndarray
    target_scale: np.ndarray
    low: np.ndarray
    high: np.ndarray
    value_dtype: str


def is_elsewhere(x) -> bool:
    """Return whether x is an array (rows, ...) of another library."""
    if isinstance(x, np.ndarray):
        return False
    names = ("__dlpack_device__", "__cuda_array_interface__")
    speaks = any(hasattr(type(x), name) for name in names)
    return speaks and getattr(x, "ndim", 0) > 1


def predict(net, x, predict_here: Callable[[np.ndarray], np.ndarray]):
    """Return outputs as net.predict does, as an array of the library of x, where x
    lies. predict_here: predicts rows in the computer's memory. Raises UsageError for
    rows on a GPU where the network has none."""
    if not _is_on_gpu(x):
        return _as_in_library_of(x, predict_here(np.from_dlpack(x)))
    if not hasattr(net.engine, "beside_others"):
        raise UsageError(
            f"the rows are on a GPU, the network on {net.engine.describe()}: load it for one GPU (backend='cuda'), or copy the rows"
        )
    with net.engine.beside_others() as there:
        rows = there(x)
        out = outputs_there(net, rows, there)
        if out is not None:
            return _as_in_library_of(x, out)
        rows = rows.get()
    outputs = predict_here(rows)
    with net.engine.beside_others() as there:
        return _as_in_library_of(x, there(outputs))


def outputs_there(net, rows, there: Callable):
    """Return outputs for rows on the GPU, there; None where the computer must read the
    rows, as an encoding does, or say what is wrong with them. there: copies arrays to
    the GPU."""
    if not net.is_combined and rows.flags.c_contiguous:
        standing = net.engine.standing_there(
            rows, net.facts, lambda: _reading(net, rows)
        )
        if standing is not None:
            return standing.predictions(rows)
    if not _are_read_there(net, rows):
        return None
    outputs_of_members = (
        _member_outputs(net, member, rows, there) for member in net.members
    )
    if net.is_combined:
        shares = np.array(net.member_weights) / sum(net.member_weights)
        terms = zip(shares.tolist(), outputs_of_members, strict=True)
        mean = sum(share * outputs.astype(np.float64) for share, outputs in terms)
        out = mean.astype(net.value_dtype)
    else:
        out = next(outputs_of_members)
    # one number for the computer to wait for: a gap or an infinity is in it
    if math.isfinite(rows.sum() + out.sum()):
        return out
    return None


def _reading(net, rows) -> Reading | None:
    """Return how a network alone reads rows on the GPU; None where the computer must
    read them."""
    if not _are_read_there(net, rows):
        return None
    reader = net.reader
    targets = net.target_scaling
    if targets is None:
        none = np.zeros(0)
        of_targets = (none, none, none, none)
    else:
        of_targets = (targets.shift, _factors(targets), targets.low, targets.high)
    scaling = reader.scaling
    return Reading(
        reader.number_type, scaling.shift, scaling.scale, *of_targets, net.value_dtype
    )


def _are_read_there(net, rows) -> bool:
    """Return whether arithmetic alone makes predictions of rows on the GPU."""
    if net.temperature != 1 or not len(rows):
        return False
    return all(_is_read_there(net, member, rows) for member in net.members)


def _is_on_gpu(x) -> bool:
    if hasattr(type(x), "__dlpack_device__"):
        return x.__dlpack_device__()[0] in OF_A_GPU
    return True


def _as_in_library_of(x, out):
    """Return an array as one of the library of x, if that has a way to make one."""
    if isinstance(out, type(x)):
        return out
    if hasattr(x, "__array_namespace__"):
        library = x.__array_namespace__()
    else:
        library = sys.modules.get(type(x).__module__.partition(".")[0])
    from_dlpack = getattr(library, "from_dlpack", None)
    if from_dlpack is None:
        return out
    return from_dlpack(out)


def _is_read_there(net, member, rows) -> bool:
    """Return whether arithmetic alone makes a member's inputs of rows."""
    reader = member.reader
    types = {"float32", "float64"}
    if reader.number_type == "float64":  # of float32 it takes the decimals
        types = {"float64"}
    return (
        reader.encoding is None
        and reader.scaling.kind in SCALED_THERE
        and rows.shape[1:] == (reader.inputs,)
        and rows.dtype.name in types
        and predict_alike(member.layers, net.layers)
    )


def _member_outputs(net, member, rows, there: Callable):
    """Return a member's outputs (rows, outputs), in the targets' own units, with the
    arithmetic of Scaling."""
    vector = None
    if net.is_combined:
        vector = member.vector
    out = net.engine.predict_there(_scaled(member.reader, rows, there), vector)
    scaling = member.target_scaling
    if scaling is None or not len(scaling.shift):
        return out
    out = out.astype(np.float64) * there(_factors(scaling)) + there(scaling.shift)
    if len(scaling.low):
        out = np.minimum(np.maximum(out, there(scaling.low)), there(scaling.high))
    return out.astype(member.value_dtype)


def _factors(scaling) -> np.ndarray:
    """Return by what outputs are multiplied to undo a scaling: 0 of a target that was
    constant."""
    return np.where(np.isinf(scaling.scale), 0.0, scaling.scale)


def _scaled(reader, rows, there: Callable):
    if reader.number_type is not None:
        rows = rows.astype(reader.number_type, copy=False)
    if len(reader.scaling.shift):
        shift, scale = map(there, (reader.scaling.shift, reader.scaling.scale))
        rows = (rows.astype(np.float64) - shift) / scale
    return rows.astype(reader.dtype, order="C", copy=False)
