"""Facts: what a network knows of its data and of its training, in one record."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ..data.column import FORMER_GAPS, LATIN
from ..data.encoding import Encoding
from ..data.scaling import Scaling
from ..files.model_file import MAY_BE_MISSING
from .crossed import Crossed


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts that a model file keeps beside the parameters and the settings of a
    network; the defaults are those of a network that knows no data.

    A training replaces the record as a whole. Its fields are attributes of the network.
    """

    encoding: Encoding | None = None  # None: the rows are plain numbers, or images
    scaling: Scaling = field(default_factory=Scaling)
    target_scaling: Scaling | None = None
    columns: list[str] | None = None  # names
    targets: list[str] | None = None
    classes: list[str] | None = None
    # of the classes in Python, see column.LABEL_TYPES
    label_type: str | None = None
    # of several targets the two classes of each, the positive one last
    labels: list[list[str]] | None = None
    threshold: float | list[float] = 0.5  # a list of each of several yes/no targets
    temperature: float = 1.0  # by which the logits of class probabilities are divided
    gap_words: list[str] = field(default_factory=lambda: sorted(FORMER_GAPS))
    number_type: str | None = None  # of columns; None: as the rows need it
    code_page: str = LATIN  # of text in its files that is no UTF-8
    # the fold and the scores of each row of a cross-validation
    crossed: Crossed | None = None
    # how sure predictions are, None where no rows told it:
    # one of KIND_OF_TASK of core/conformal.py, which few commands need
    conformal: Any = None
    holdout: float = 0.0
    dataset: dict | None = None  # path, sha256
    row_hashes: dict | None = None  # of the rows of training, see row_hashes.py
    # trainings before, of the models that it goes on from, see trained_rows.py
    ancestors: list[dict] = field(default_factory=list)
    profiles: list[dict] | None = None  # of their columns, see data/profiles.py
    # that left before rows were divided; None: such rows stay
    weightless_rows: int | None = None
    # (name, reason) of the columns of its file that are no inputs
    unused: list[list[str]] | None = None
    # figures of rows that no network knew, as its training told them
    judged: dict | None = None
    # of plain numbers; None: a gap is refused, or the encoding's
    medians: list[float] | None = None
    history: dict = field(default_factory=lambda: {"loss": [], "val_loss": None})
    config: dict = field(default_factory=dict)  # settings of the training
    # data/pixels.py; None: a table, or a model of an earlier version
    pictures: dict | None = None


FACTS = tuple(vars(Facts()))
# that a file leaves out where they are these
USUAL_FACTS = {
    name: usual for name, usual in vars(Facts()).items() if name in MAY_BE_MISSING
}


def remember(net, **facts) -> None:
    """Let a network keep facts in the place of those that it has."""
    net.facts = replace(net.facts, **facts)
