"""Which of some rows a model was trained on, as far as it knows: the rows of its
training data, which it knows by their digest, exactly; those of other data by the
hashes of its training rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data.dataset import Dataset, as_read_by
from ..data.loading import split_of_model, split_seed_of
from ..data.profiles import profiles_of
from ..data.row_hashes import KEPT, fact_of, hashes_of, kept_hashes, knows_earlier_rows
from ..files.model_file import MOST_ANCESTORS
from ..nn import Network, remember
from .shapley import background_rows

# rows that could be among the kept hashes, from which a share is told of all
LEAST_SAMPLE = 5
TOLD = 0.1  # share of the rows from which an estimate is told
SPLIT_ROLES = ("groups", "times")  # of rows, which decide the split


class Trained(NamedTuple):
    """How many of some rows a model was trained on; count: None where it cannot
    tell."""

    rows: int
    count: int | None
    is_exact: bool = True

    @property
    def spoils_figures(self) -> bool:
        """Return whether figures on these rows are to be told with a warning."""
        if self.count is None:
            return False
        if self.is_exact:
            return self.count > 0
        return self.count >= TOLD * self.rows

    def warning(self, model: str) -> str:
        """Return the beginning of that warning."""
        if self.is_exact:
            about = ""
        else:
            about = "about "
        return (
            f"{model} was trained on {about}{self.count:,} of these {self.rows:,} rows"
        )


# however many rows were held out, or are judged by networks that do not know them
ON_NONE = Trained(0, 0)


def trained_on(net: Network, ds: Dataset) -> Trained:
    """Return how many rows of a data set a network was trained on."""
    is_network = hasattr(net, "row_hashes")  # or only looks like one
    # the original program tests on the rows that it trains on
    if not is_network or net.config.get("reference"):
        return Trained(len(ds.x), None, False)
    are_known = known_rows(net, ds)
    if are_known is None:
        return Trained(ds.rows, _estimate(net, as_read_by(net, ds).x), False)
    count = int(are_known.sum())
    if knows_earlier_rows(net.row_hashes) and count < ds.rows:
        earlier = _estimate(net, as_read_by(net, ds).x[np.flatnonzero(~are_known)])
        if earlier:
            return Trained(ds.rows, count + earlier, False)
    return Trained(ds.rows, count)


def known_rows(net: Network, ds: Dataset) -> np.ndarray | None:
    """Return which rows of its training data, or of a part of them, a network was
    trained on, bool (rows,); None for other data."""
    if ds.whole is None:
        whole = ds
    else:
        whole = ds.whole
    is_trained = np.zeros(whole.rows, bool)
    splits = [split_of_model(net, whole, **how) for how in _divisions_of(net, ds)]
    if not splits:
        return None
    for split in splits:
        is_trained[split.training] = True
    # the networks know a row that leaves by its twin
    if whole.sets_of_twins is not None:
        is_trained = np.isin(whole.sets_of_twins, whole.sets_of_twins[is_trained])
    if ds.whole is None:
        return is_trained
    return is_trained[ds.part_rows]


def _divisions_of(net: Network, ds: Dataset) -> list[dict]:
    """Return how these rows, or those that they are some of, were divided for the
    trainings of a network and of its ancestors; none for data of no training."""
    if not _are_read_alike(net, ds):
        return []
    divisions = [
        {name: training[name] for name in ("holdout", "split_seed")}
        for training in getattr(net, "ancestors", ())
        if training["data"] == ds.sha256
    ]
    if _digest_of(net) == ds.sha256:
        divisions.append({})
    return divisions


def ancestors_with(net: Network) -> list[dict]:
    """Return the ancestors of a model that goes on from this one: the last trainings
    whose data are known."""
    data = _digest_of(net)
    if data is None:
        return net.ancestors
    training_now = {
        "data": data,
        "holdout": net.holdout,
        "split_seed": split_seed_of(net),
    }
    others = [training for training in net.ancestors if training != training_now]
    return [*others, training_now][-MOST_ANCESTORS:]


def is_training_data(net: Network, ds: Dataset) -> bool:
    """Return whether these are the rows that a network was trained on and held out, or
    some of them."""
    return _digest_of(net) == ds.sha256 and _are_read_alike(net, ds)


def _digest_of(net: Network) -> str | None:
    """Return the digest of all rows of which a network was trained on some; None where
    it knows none."""
    facts = net.dataset or {}
    if facts.get("part"):
        return None
    return facts.get("sha256") or (net.row_hashes or {}).get("data")


def _are_read_alike(net: Network, ds: Dataset) -> bool:
    """Return whether rows have the targets and what else decides how they are divided
    as those of a network's training have them."""
    if ds.sha256 is None or ds.y is None or (ds.is_part and ds.whole is None):
        return False
    asked = net.config.get("target")
    if net.targets:
        same_target = ds.names_of_targets == net.targets
    else:
        same_target = ds.target in (asked, str(asked))
    roles = net.config.get("table", {})
    same_roles = all(
        getattr(ds, role) is not None
        for role in SPLIT_ROLES
        if role.removesuffix("s") in roles
    )
    same_roles = same_roles and (ds.sets_of_twins is not None) == roles.get(
        "drop_duplicates", False
    )
    return same_target and same_roles


def _estimate(net: Network, x) -> int | None:
    """Return about how many rows a network was trained on by the hashes that it keeps;
    None where they are too few to tell, or there are none."""
    if net.row_hashes is None:
        return None
    kept = kept_hashes(net.row_hashes)
    hashes = hashes_of(x, encoders_of(net), net.row_hashes)
    is_whole = len(kept) < KEPT  # all hashes of the training rows are there
    if is_whole:
        sample = hashes
    else:
        sample = hashes[hashes <= kept[-1]]
    there = int(np.isin(sample, kept).sum())
    if is_whole or len(sample) >= LEAST_SAMPLE:
        return round(len(hashes) * there / max(1, len(sample)))
    return there or None


def encoders_of(net: Network) -> list:
    """Return the encoders of a network's columns, none for plain numbers."""
    if net.encoding is None:
        return []
    return net.encoding.encoders


def known_words(net: Network) -> list[set[str | None]]:
    """Return the words of each column that some network of a model tells apart, none of
    columns of other kinds; no sets for plain numbers."""
    words_of_columns = [set() for _ in encoders_of(net)]
    for member in net.members:
        for words, encoder in zip(words_of_columns, encoders_of(member), strict=False):
            words.update(getattr(encoder, "values", ()))
    return words_of_columns


def remember_rows(
    net: Network, ds: Dataset, rows: np.ndarray, before: dict | None = None
) -> None:
    """Let a network know later which rows (indices) it was trained on, and keep some of
    them for explanations. before: what it knew of the rows of earlier trainings, from
    whose parameters this one went on."""
    if net.reference:
        return
    remember(
        net,
        row_hashes=fact_of(ds, rows, encoders_of(net), before),
        profiles=profiles_for(net, ds, rows),
    )
    if not ds.are_images:
        net.background = background_rows(net, ds)


def profiles_for(net: Network, ds: Dataset, rows: np.ndarray) -> list[dict] | None:
    """Return the profiles that a network keeps of the columns of its training rows
    (indices); None of images."""
    if ds.are_images or ds.x.ndim != 2 or not len(rows):
        return None
    return profiles_of(ds.x, rows, encoders_of(net), known_words(net))
