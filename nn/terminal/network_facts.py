"""Facts of a network as text: what it was trained with, its members and their layers,
on the terminal and in a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..card import judging_rows, sureness_text, trained_text
from ..layers import Layer
from ..nn import Network
from ..utils import counted, figure_text, listed, plural
from .figures import setting_text, threshold_text

# settings in which members may differ and which no table of members shows
NOT_SHOWN = ("seed", "split_seed", "candidates")


def layers_of(net: Network) -> list[tuple[str, Sequence[Layer]]]:
    """Return (title, layers) of a network, or of each of its members that differ in
    layers: how many have them."""
    counts = Counter(tuple(member.layers) for member in net.members)
    if not net.is_combined:
        return [("", layers) for layers in counts]
    return [(plural(count, "network"), layers) for layers, count in counts.items()]


def members_of(net: Network) -> tuple[list[str], list[list[str]]]:
    """Return (headers, a line for each member) of the settings in which a network's
    members differ; no lines if none. The seeds are shown beside the others only."""
    configs = [member.config for member in net.members]
    names = []
    for name in dict.fromkeys(
        name for config in (net.config, *configs) for name in config
    ):
        texts = {str(config.get(name)) for config in configs}
        if name not in NOT_SHOWN and len(texts) > 1:
            names.append(name)
    headers = ["seed", "weight", *names]
    if not names:
        return headers, []
    lines = []
    for member, weight in zip(net.members, net.member_weights, strict=True):
        settings = [setting_text(member.config.get(name)) for name in names]
        lines.append([str(member.seed), f"{weight:g}", *settings])
    return headers, lines


def candidates_of(net: Network) -> tuple[list[str], list[list[str]]]:
    """Return (headers, a line for each candidate) of what the choice of a network's
    layers has tried."""
    lines = []
    for candidate in net.config.get("candidates", ()):
        loss = ""
        if candidate["loss"] is not None:
            loss = figure_text(candidate["loss"])
        operations = figure_text(candidate["operations"], 2)
        lines.append([candidate["layers"], loss, operations, str(candidate["weight"])])
    return ["candidate", "loss", "multiply-adds", "weight"], lines


def facts_of(net: Network) -> dict[str, str]:
    """Return the facts of a network for a person, by their names; empty where there is
    none."""
    members = net.members
    facts = {
        "task": net.task,
        "loss": net.loss,
        "dtype": net.dtype,
        "scaling": "; ".join(counted(member.scaling.kind for member in members)),
        "targets": listed(net.targets or []),
        "classes": listed(net.classes or []),
        "threshold": "",
        "temperature": "",
    }
    if net.task in ("binary", "multilabel"):
        facts["threshold"] = threshold_text(net.threshold)
    if net.temperature != 1:
        facts["temperature"] = f"{net.temperature:g}"
    parameters = sum(member.parameter_count for member in members)
    return facts | {
        "seed": str(net.seed),
        "networks": _networks(net),
        "layers": "; ".join(counted(member.spec for member in members)),
        "parameters": f"{parameters:,}",
        "multiply-adds": _operations(net),
        "hold-out": f"{net.holdout:g}",
        "out of fold": judging_rows(net),
        "sureness": sureness_text(net),
        "trained": trained_text(net),
    }


def _networks(net: Network) -> str:
    """Return how many members a network has, their seeds, and their weights where these
    differ; empty for one."""
    if len(net.members) == 1:
        return ""
    text = f"{len(net.members)}, seeds {listed([str(member.seed) for member in net.members])}"
    if len(set(net.member_weights)) > 1:
        text += f", weights {listed([f'{weight:g}' for weight in net.member_weights])}"
    return text


def _operations(net: Network) -> str:
    """Return how many products of weights a prediction takes, and a row of the whole
    training: forwards, and twice as many backwards."""
    prediction = 0
    training = 0
    for member in net.members:
        products = sum(layer.products for layer in member.layers if not layer.columns)
        prediction += products
        training += 3 * products * len(member.history["loss"])
    text = f"{prediction:,} a prediction"
    if training:
        text += f", {training:,} a row of training"
    return text
