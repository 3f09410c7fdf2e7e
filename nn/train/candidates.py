"""Candidates of --effort: networks and their trainings, for tables and for images.

Those for tables were found by cross-validation on other tables, those for images by
validation rows of CIFAR-10 and Fashion-MNIST (docs/measured.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from ..ds import Dataset
from ..nn import Network
from ..nn_aux import EFFORTS, OF_FOLD, PLATEAU, USUAL_PATIENCES
from .search import VALIDATION_SHARE

MANY_ROWS = 10_000
MANY_FOLDS = 8
MOST_EPOCHS_OF_TABLES = 240  # where the budget has room for as many
NETWORKS = 2  # of each candidate where validation rows judge
USUAL_ACTIVATION = "relu"
SCALE_RATE = 6.0  # RealMLP's (Holzmüller et al. 2024)


@dataclass(frozen=True)
class Candidate:
    """Settings of a training, by the names of the flags; hidden: sizes, with - between
    them."""

    hidden: str
    activation: str
    dropout: float
    number_embedding: str | None
    learning_rate: float
    weight_decay: float
    epochs: int
    schedule: str
    batch_number: int = 32
    patience: int = 16
    folds: int | None = MANY_FOLDS  # None: judged by validation rows
    is_trial: bool = False  # a short training that tells whether mirror images help
    scale_rate: float | None = SCALE_RATE

    def layers(self, ds: Dataset) -> str:
        if self.dropout:
            drop = [f"dropout{self.dropout:g}"]
        else:
            drop = []
        if self.activation == USUAL_ACTIVATION:
            suffix = ""
        else:
            suffix = f":{self.activation}"
        hidden = [
            item for size in self.hidden.split("-") for item in (size + suffix, *drop)
        ]
        return ",".join(["auto", *hidden, str(ds.outputs)])

    def settings(self) -> dict:
        others = ("hidden", "activation", "dropout", "is_trial")
        chosen = {
            name: value
            for name, value in asdict(self).items()
            if name not in others and value is not None
        }
        if self.folds is None:
            by = {"networks": NETWORKS, "validation": VALIDATION_SHARE}
        else:
            by = {"validation": OF_FOLD}
        for name, value in by.items():
            chosen.setdefault(name, value)  # candidates for images have their own
        return {**chosen, "holdout": 0.0}

    def operations(self, net: Network, rows: int) -> float:
        """Return the multiply-adds of the forward passes of its usual epochs."""
        if self.folds is None:
            passes = NETWORKS * (1 - VALIDATION_SHARE)
        else:
            passes = self.folds - 1
        return net.parameter_count * rows * passes * self.usual_epochs

    @property
    def usual_epochs(self) -> int:
        return min(self.epochs, USUAL_PATIENCES * self.patience)

    def lasting(self, times: float) -> Candidate:
        """Return it with as many epochs at most as take that many times its usual
        operations."""
        epochs = min(MOST_EPOCHS_OF_TABLES, int(times * self.usual_epochs))
        return replace(self, epochs=max(self.epochs, epochs))

    def settled(self, losses: dict[str, float]) -> Candidate:
        """Return it with what short trainings have shown; losses: theirs."""
        return self


WIDE = Candidate(
    "128-64",
    "silu",
    0.1,
    None,
    0.002,
    0.15,
    30,
    PLATEAU,
    batch_number=16,
    patience=8,
)
WITH_PIECES = replace(WIDE, number_embedding="pieces16")
WITH_WAVES = Candidate(
    "60-10", "relu", 0.0, "waves16:0.5", 0.002, 0.02, 30, PLATEAU, patience=8
)
SMOOTH = replace(WITH_WAVES, number_embedding="waves8:0.3")
STEEP = replace(WITH_WAVES, number_embedding="waves16:1.0")
FINE = replace(WITH_WAVES, number_embedding="pieces48")
BROAD = replace(WIDE, hidden="256-128", dropout=0.2)
NARROW_CANDIDATE = replace(WIDE, hidden="32-16")
JAGGED = Candidate("64-64-32", "relu", 0.1, "waves8:1.0", 0.002, 0.15, 300, "constant")
EACH = {  # effort -> candidates of tables below MANY_ROWS, and from there on
    "quick": ([WITH_PIECES], [SMOOTH]),
    "standard": ([WIDE, WITH_PIECES, WITH_WAVES], [WIDE, FINE, SMOOTH]),
    "best": (
        [WIDE, WITH_PIECES, WITH_WAVES, FINE, STEEP, JAGGED, BROAD]
        + [
            replace(WIDE, number_embedding=one)
            for one in ("waves8:0.3", "waves16:0.5", "pieces32")
        ],
        [WIDE, FINE, SMOOTH, WITH_PIECES, WITH_WAVES, JAGGED],
    ),
}
# of any number of rows, where the budget of an effort has room for none of its
# candidates
SPARE = [WIDE, NARROW_CANDIDATE]
SOLVED_LOG_LOSS = 1e-3  # from which on nobody waits for less


@dataclass(frozen=True)
class Thrift:
    """A saving of the trainings of a table: epochs divided by `shorter`, fewer steps by
    a larger batch and a rate times `faster`, fewer folds."""

    folds: int = MANY_FOLDS
    shorter: int = 1
    faster: float = 1.0
    patience: int | None = None
    batch_number: int | None = None

    def of(self, candidate: Candidate) -> Candidate:
        """Return a candidate that saves so much."""
        savings = {"folds": self.folds}
        if self.shorter > 1:
            savings |= {
                "epochs": min(candidate.epochs // self.shorter, 60),
                "learning_rate": self.faster * candidate.learning_rate,
                "patience": self.patience,
                "batch_number": self.batch_number,
            }
        return replace(candidate, **savings)


# one after another, until all candidates fit the budget; SHORTER is the usual one from
# MANY_ROWS on
LAVISH = Thrift()
FEW_FOLDS = Thrift(4)
SHORTER = Thrift(4, 2, 1.5, 4, 128)
SHORTEST = Thrift(4, 4, 2.0, 3, 256)


def thrifts_for(rows: int, effort: str) -> list[Thrift]:
    """Return how much candidates for a number of rows may save, the least first."""
    if rows < MANY_ROWS:
        return [LAVISH, FEW_FOLDS, SHORTER, SHORTEST]
    if effort == "best":
        return [replace(SHORTER, folds=MANY_FOLDS), SHORTER, SHORTEST]
    return [SHORTER, SHORTEST]


def candidates_for(rows: int, effort: str) -> list[Candidate]:
    """Return the candidates for a number of rows, in the order in which a budget is
    spent on them, before any thrift."""
    few, many = EACH[effort]
    if rows < MANY_ROWS:
        return few
    return many


# ---- images

# multiply-adds of a convolution in the time of one of a table's small network
CONVOLVED = 22
# of images that are halved by pooling, and of those that are not made smaller before
LEAST_SIDE = 8
MOST_SIDE = 64
# that a network should see; what is left is better spent on another one
ENOUGH_IMAGES = 150_000
ENOUGH_EPOCHS = 8
LEAST_EPOCHS = 4
MOST_EPOCHS = 100
MOST_IMAGE_NETWORKS = 4
# from which on images are seen so often that they should be seen shifted
SHIFTED_EPOCHS = 20
# that a short training sees, and of all that are seen at most
TRIAL_IMAGES = 18_000
TRIAL_SHARE = 0.1
# a loss that many times as high, and a little more, is as good: what mirror images gain
AS_GOOD = 1.02
NOTHING = 0.005
# shows in long trainings


@dataclass(frozen=True)
class ImageCandidate(Candidate):
    """Convolutions with pooling between them, as many filters as `hidden` has."""

    augment: str = "none"
    networks: int = NETWORKS
    validation: float = 0.1
    scale_rate: float | None = None  # a convolution comes first

    def layers(self, ds: Dataset) -> str:
        side = min(ds.row_shape[1:])
        items = ["x".join(map(str, ds.row_shape))]
        if self.activation == USUAL_ACTIVATION:
            suffix = ""
        else:
            suffix = f":{self.activation}"
        if side >= MOST_SIDE:
            shrunk = 2 * side // MOST_SIDE
            side = side // shrunk
            items = [*items, f"avgpool{shrunk}"]
        for filters in self.hidden.split("-"):
            items.append(f"conv{filters}k3same{suffix}")
            if side >= LEAST_SIDE:
                side = side // 2
                items = [*items, "maxpool2"]
        return ",".join([*items, f"dropout{self.dropout:g}", str(ds.outputs)])

    def operations(self, net: Network, rows: int) -> float:
        """Return the multiply-adds of the forward passes of its epochs, which may end
        early."""
        return (
            multiply_adds(net)
            * rows
            * (1 - self.validation)
            * self.epochs
            * self.networks
        )

    def settled(self, losses: dict[str, float]) -> ImageCandidate:
        """Return it with mirror images if the losses of short trainings, by
        augmentation, are as good with them."""
        if self.is_trial or not losses:
            return self
        (plain, loss), (mirrored, of_mirrored) = losses.items()
        return replace(
            self, augment=mirrored if of_mirrored <= AS_GOOD * loss + NOTHING else plain
        )

    def within(
        self, budget: float, macs: int, rows: int, tries: bool
    ) -> list[ImageCandidate]:
        """Return it with as many epochs and networks as the budget of multiply-adds
        allows, behind two trials where that `tries` mirror images and has the time.
        macs: multiply-adds of an image; rows: that are trained on."""
        images = budget / macs
        rows = max(1, round(rows * (1 - self.validation)))
        most = (
            math.ceil(TRIAL_IMAGES / rows),
            int(TRIAL_SHARE * images / rows),
            MOST_EPOCHS // 2,
        )
        if tries:
            trial = min(most)
        else:
            trial = 0
        images -= 2 * trial * rows
        most = min(images / ENOUGH_IMAGES, images / rows / ENOUGH_EPOCHS)
        # of an odd number one has no core beside it
        if most >= MOST_IMAGE_NETWORKS:
            networks = MOST_IMAGE_NETWORKS
        else:
            networks = NETWORKS
        epochs = max(LEAST_EPOCHS, int(min(images / rows / networks, MOST_EPOCHS)))
        if epochs >= SHIFTED_EPOCHS:
            augments = ("shift", "both")
        else:
            augments = ("none", "mirror")
        short = replace(self, epochs=trial, networks=1, is_trial=True)
        candidate = replace(
            self,
            epochs=epochs,
            patience=max(8, epochs // 2),
            networks=networks,
            augment=augments[0],
        )
        return [
            *(replace(short, augment=name) for name in augments if trial),
            candidate,
        ]


SMALL = ImageCandidate(
    "24-48-96", "relu", 0.3, None, 0.002, 0.05, MOST_EPOCHS, "linear", folds=None
)
LARGE = replace(SMALL, hidden="64-128-256", dropout=0.4)


def image_share(rows: int) -> float:
    """Return the share of images that choose and stop: a tenth, of few images more."""
    return min(0.3, max(0.1, 20 / rows))


def multiply_adds(net: Network) -> int:
    """Return the multiply-adds of one row's forward pass."""
    return sum(
        layer.outputs * layer.fan_in for layer in net.layers if layer.weight_shape
    )


def image_candidates(
    effort: str, rows: int, macs: Callable[[Candidate], int], tries: bool
) -> list[Candidate]:
    """Return the candidates for a number of images; see ImageCandidate.within. macs: of
    a candidate."""
    if effort == "best":
        bases = [SMALL, LARGE]
    else:
        bases = [SMALL]
    budget = CONVOLVED * EFFORTS[effort] / len(bases)
    candidates = []
    for base in bases:
        base = replace(base, validation=image_share(rows))
        candidates += base.within(budget, macs(base), rows, tries and not candidates)
    return candidates
