"""A network as a model file, and the network that a model file holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..data.encoding import Encoding
from ..data.scaling import Scaling
from ..files import model_file, text_model
from ..files.export.text_file import save_text
from ..files.suffixes import A_MODEL, TEXT_MODEL, check_named_format
from ..nn_aux import TASKS
from ..utils import DataError, UsageError
from .crossed import Crossed
from .facts import FACTS, USUAL_FACTS, Facts

# ---- writing


def target_of(net) -> str | list[str] | int | None:
    """Return the target of a network as JSON has it: its name, of several a list;
    without names as it was asked for."""
    names = getattr(net, "targets", None)
    if not names:
        return getattr(net, "config", {}).get("target")
    if len(names) == 1:
        return names[0]
    return list(names)


def metadata(net) -> dict:
    """Return what a model file keeps beside the parameters (docs/command-line.md, Model
    file)."""
    meta = _own_metadata(net)
    if not net.is_combined:
        return meta
    return {**meta, "members": [*_member_metadata(net, meta)]}


def _member_metadata(net, shared: dict) -> Iterator[dict]:
    """Yield the weight of each member, and those of its metadata that are not among the
    shared ones."""
    for weight, member in zip(net.member_weights, net.members, strict=True):
        meta = metadata(member)
        if "encoding" in shared:
            meta.setdefault("encoding", None)
        yield {
            "weight": weight,
            **{
                name: value for name, value in meta.items() if shared.get(name) != value
            },
        }


def _own_metadata(net) -> dict:
    meta = {name: getattr(net, name) for name in ("task", "loss", "dtype", "seed")}
    meta |= vars(net.facts)
    meta |= {
        "layers": net.spec,
        "format": model_file.MODEL_FORMAT,
        "encoding": net.encoding and net.encoding.to_dict(),
        "scaling": net.scaling.to_dict(),
        "target_scaling": net.target_scaling and net.target_scaling.to_dict(),
        "crossed": net.crossed and _crossed_facts(net.crossed),
        "conformal": net.conformal and net.conformal.to_dict(),
    }
    for name, usual in USUAL_FACTS.items():
        if meta[name] == usual:
            del meta[name]
    return meta


def _crossed_facts(crossed: Crossed) -> dict:
    """Return what a file keeps of it beside the tensors."""
    facts = {
        "temperatures": list(crossed.temperatures),
        "thresholds": list(crossed.thresholds),
    }
    if crossed.figures is not None:
        facts["figures"] = crossed.figures
    if crossed.is_retrained:
        facts["retrained"] = True
    return facts


def export(net, path) -> None:
    """Write the model: safetensors, or the original's text where `path` ends in .m.
    Raises OutputError, UsageError.

    A .m file holds one dense sigmoid network. The file is replaced whole or not at all;
    a suffix of another format is refused.
    """
    check_named_format(path, (A_MODEL, TEXT_MODEL), "m.bin")
    if text_model.is_text(path):
        save_text(net, path)
    else:
        model_file.save(path, tensors(net), metadata(net))


def packed(net) -> bytes:
    return model_file.packed(tensors(net), metadata(net))


def tensors(net) -> dict[str, np.ndarray]:
    if not net.is_combined:
        return net.parameters()
    of_members = {
        f"{model_file.member_prefix(number)}{name}": value
        for number, member in enumerate(net.members)
        for name, value in member.parameters().items()
    }
    return of_members | _row_tensors(net)


def _row_tensors(net) -> dict[str, np.ndarray]:
    """Return what a model keeps of each row that it was trained on."""
    if net.crossed is None:
        return {}
    if net.crossed.figures is not None:
        return {model_file.FOLD: net.crossed.fold}
    return {model_file.FOLD: net.crossed.fold, model_file.SCORE: net.crossed.scores}


# ---- reading; cls is the class of the network, engine what it computes with


def load(cls, path, dtype: str | None, engine: dict):
    """Return the network of a model file; see Network.load."""
    if text_model.is_text(path):
        return _of_text(cls, path, dtype, engine)
    return _of_tensors(cls, path, *model_file.load(path), dtype, engine)


def unpacked(cls, packed: bytes, dtype: str, engine: dict):
    """Return the network that `packed` has made a model file in memory."""
    return _of_tensors(
        cls, model_file.IN_MEMORY, *model_file.unpacked(packed), dtype, engine
    )


def _of_tensors(
    cls,
    path,
    tensors: dict[str, np.ndarray],
    meta: dict,
    dtype: str | None,
    engine: dict,
):
    """Return the network, or the network of several, that a model file holds."""
    parts = [(*part, dtype, engine) for part in model_file.members_of(tensors, meta)]
    net = _single(cls, path, *parts[0])
    if "members" in meta:
        members = [_single(cls, path, *part, like=(net, parts[0][1])) for part in parts]
        encoding = net.encoding
        if "encoding" in meta and meta["encoding"] != parts[0][1].get("encoding"):
            encoding = Encoding.from_dict(meta["encoding"], meta["columns"])
        net.seed = meta["seed"]
        net.facts = _facts_of(meta, encoding, _crossed_of(tensors, meta))
        net.combine(members, [member["weight"] for member in meta["members"]])
    return net


def _crossed_of(tensors: dict[str, np.ndarray], meta: dict) -> Crossed | None:
    facts = meta.get("crossed")
    if facts is None:
        return None
    return Crossed(
        tensors[model_file.FOLD],
        tensors.get(model_file.SCORE),
        facts["temperatures"],
        facts["thresholds"],
        facts.get("figures"),
        facts.get("retrained", False),
        TASKS[meta["task"]].by_output,
    )


def _single(
    cls,
    path,
    tensors: dict,
    meta: dict,
    dtype: str | None,
    engine: dict,
    like: tuple = (None, {}),
):
    """Return the one network of these parameters and metadata. like: a network and its
    metadata; what is equal of them is the same object."""
    other, shared = like
    encoding = meta.get("encoding")
    if encoding is not None and encoding == shared.get("encoding"):
        encoding = other.encoding
    elif encoding is not None:
        encoding = Encoding.from_dict(encoding, meta["columns"])
    facts = _facts_of(meta, encoding)
    if meta["scaling"] == shared.get("scaling"):
        facts = replace(facts, scaling=other.scaling)
    try:
        net = cls(
            meta["layers"],
            meta["task"],
            loss=meta["loss"],
            seed=meta["seed"],
            dtype=dtype or meta["dtype"],
        )
        net.facts = facts
    except (UsageError, DataError) as error:
        raise DataError(f"{path}: {error}") from error
    net.vector = np.zeros(net.parameter_count, net.dtype)
    net.compute_on(**engine)
    net.set_parameters(tensors)
    return net


def _facts_of(
    meta: dict, encoding: Encoding | None, crossed: Crossed | None = None
) -> Facts:
    facts = {name: meta[name] for name in FACTS if name in meta}
    for name in ("scaling", "target_scaling"):
        facts[name] = meta[name] and Scaling.from_dict(meta[name])
    if "conformal" in meta:
        from ..core.conformal import KIND_OF_TASK

        facts["conformal"] = KIND_OF_TASK[meta["task"]].from_dict(meta["conformal"])
    return Facts(**facts | {"encoding": encoding, "crossed": crossed})


def _of_text(cls, path, dtype: str | None, engine: dict):
    """Read the original's text: sigmoid everywhere, classes known by their number
    only."""
    sizes, biases, weights = text_model.load(path)
    net = cls(
        ",".join(map(str, sizes)) + ":sigmoid",
        "binary" if sizes[-1] == 1 else "multiclass",
        loss="mse",
        activation="sigmoid",
        dtype=dtype or "float64",
        **engine,
    )
    for index, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        net.set_parameters({f"layer{index}.weight": weight, f"layer{index}.bias": bias})
    return net
