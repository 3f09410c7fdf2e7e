"""From raw rows to predictions: scaled, computed, averaged over members, in target
units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

import numpy as np

from ..data.far_values import furthest, name_of_column, value_text
from ..data.table_rows import TableRows
from ..layers import predict_alike
from ..utils import RowError

# rows scaled at a time, so that predicting needs no second copy of the data
PREDICT_BLOCK = 65536
FEW_NUMBERS = 16  # numbers that Python adds up in less time than NumPy looks at them


def predict(net, x: np.ndarray | TableRows, engine=None) -> np.ndarray:
    """Return outputs (rows, outputs) for raw features (rows, inputs) or (rows, C, H,
    W), or of a table, as data.given_rows reads them.

    Features are scaled inside; outputs of a regression are in the targets' own units. A
    gap where the network was trained without any becomes the median of training, with a
    remark. Raises DataError for a row with a gap where the network knows no medians, or
    with values for which an output is not finite.

    engine: one that trains the network, and has parameters of it that are not the
    network's yet; None: the network's.
    """
    if 0 < len(x) <= PREDICT_BLOCK:
        out = _outputs(net, x, engine)
    else:
        out = np.empty((len(x), net.outputs), net.value_dtype)
        for at in range(0, len(x), PREDICT_BLOCK):
            out[at : at + PREDICT_BLOCK] = _outputs(
                net, x[at : at + PREDICT_BLOCK], engine
            )
    _check_finite(net, x, out)
    return out


@np.errstate(over="ignore", invalid="ignore")  # it refuses what is not finite
def deviation(net, x: np.ndarray | TableRows) -> np.ndarray:
    """Return the standard deviation of the members' outputs for rows as predict takes
    them: (rows, outputs).

    It is weighted as the mean is; of a single network 0.
    """
    out = np.zeros((len(x), net.outputs), net.dtype)
    step = max(1, PREDICT_BLOCK // len(net.members))
    for at in range(0, len(x) if net.is_combined else 0, step):
        outputs = [
            output.astype(np.float64)
            for output in member_outputs(net, x[at : at + step])
        ]
        mean = mean_of(outputs, net.member_weights)
        variance = mean_of(
            [(output - mean) ** 2 for output in outputs], net.member_weights
        )
        out[at : at + step] = np.sqrt(variance)
    _check_finite(net, x, out)
    return out


def member_outputs(net, x) -> Iterator[np.ndarray]:
    """Yield each member's outputs (rows, outputs) for some rows; members alike take
    turns on one engine."""
    engine = net.engine
    data = None
    read_by = None
    for member in net.members:
        if not predict_alike(member.layers, net.layers):
            yield _outputs(member, x)
            continue
        reads = (member.scaling, member.encoding)
        if read_by is None or any(
            a is not b for a, b in zip(reads, read_by, strict=True)
        ):
            data = engine.load(member.reader.engine_rows(x))
            read_by = reads
        yield in_units(member, engine.predict(data, vector=member.vector))


# ---- outputs


def _outputs(net, x: np.ndarray | TableRows, engine=None) -> np.ndarray:
    if net.is_combined:
        return net.calibrated(
            mean_of(member_outputs(net, x), net.member_weights).astype(net.value_dtype)
        )
    rows = net.reader.engine_rows(x)
    if engine is None:
        outputs = net.engine.predict_once(rows)
    else:
        outputs = engine.predict(engine.load(rows))
    return in_units(net, outputs)


def mean_of(each: Iterable[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """Return the weighted mean of several networks' outputs, float64: added one after
    another, so that a row has the same bits alone and among others."""
    mean = np.zeros(())
    whole = sum(weights)
    for weight, out in zip(weights, each, strict=True):
        mean = mean + weight / whole * np.asarray(out, np.float64)
    return mean


def in_units(net, out: np.ndarray) -> np.ndarray:
    """Return an engine's outputs as predictions: calibrated, in the targets' own
    units."""
    out = net.calibrated(out)
    if net.target_scaling is None:
        return out
    return net.target_scaling.inverse(out).astype(net.value_dtype)


# ---- outputs that are no numbers


def _check_finite(net, x: np.ndarray | TableRows, out: np.ndarray) -> None:
    """Raise RowError for the first row whose outputs are not finite: it names the row's
    value furthest out, or a gap where there cannot be any."""
    if out.size <= FEW_NUMBERS and math.isfinite(
        out.item() if out.size == 1 else sum(out.ravel().tolist())
    ):
        return
    are_finite = np.isfinite(out)
    if are_finite.all():
        return
    row = int(are_finite.all(axis=1).argmin())
    single_row = x[row : row + 1]
    readers = [member.reader for member in net.members]
    _, column = max(
        (furthest(reader, single_row) for reader in readers), key=itemgetter(0)
    )
    name = name_of_column(net.reader, column)
    value = value_text(single_row, column)
    if net.dtype == "float32":
        wider = ", or train with --dtype float64"
    else:
        wider = ""
    expected = f"for which the network's output is not finite; correct it{wider}"
    if value == "nan":
        expected = "expected a number; the network was trained without gaps"
    raise RowError(row, f"column {name}: found {value}, {expected}")
