"""--reference: what it stands for, and what the original program does not have."""

from __future__ import annotations

from ..utils import UsageError
from .flags import FLAGS

REFERENCE = {flag.name: flag.reference for flag in FLAGS if flag.reference is not None}


def check_reference(given: dict) -> None:
    """Raise UsageError for a setting that contradicts --reference, or that the original program does not have.

    given: by the flags' names; None, False: not given.
    """
    for flag in FLAGS:
        value = given.get(flag.name)
        if value is None or value is False:
            continue
        shown = flag.long if value is True else f"{flag.long} {value}"
        if flag.reference is not None and value not in ("auto", flag.reference):
            meant = f"{flag.long} {flag.reference}"
            raise UsageError(f"{shown} contradicts --reference, which means {meant}; leave one out")
        if flag.later and value != flag.default:
            raise UsageError(f"{shown}: --reference has no such thing; leave one out")
    if isinstance(given.get("threshold"), str):
        raise UsageError(f"--threshold {given['threshold']}: --reference takes a number only; leave one out")


def check_reference_layers(layers) -> None:
    """Raise UsageError if the original program does not have such layers (layers.Layer)."""
    for layer in layers:
        if (layer.kind, layer.activation) != ("dense", "sigmoid"):
            found = f"{layer.item}:{layer.activation}" if layer.biases else layer.item or layer.kind
            raise UsageError(f"--layers {found} contradicts --reference, which has dense sigmoid layers only")
