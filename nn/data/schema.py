"""Schema: what is known of a table's columns before its rows are read; Choices: what
people say of them; Places: where in a file they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..nn_aux import TASKS, quantiles_of
from ..settings.values import split_names
from ..utils import UsageError
from .column import GAPS, WINDOWS
from .kinds import Kind

# of columns that say something of their row
ROW_ROLES = ("weight", "exposure", "group", "time")
# the column that exposures beside the rows of a training would be
EXPOSURE = "exposure"
TASK_NAMES = ("auto", *TASKS)


# Choices.of_columns has these
COLUMN_CHOICES = (
    "categories",
    "numbers",
    "dates",
    "ordered",
    "drop",
    "strict",
    "positive",
)


@dataclass(frozen=True)
class Choices:
    """A person's choices for the columns of a table; the flags of these names say what
    each is (settings/flags.py).

    Columns are names or indices with commas between, quoted as in CSV where a name has
    a comma; dates may have a form (COL=%d.%m.%Y), ordered has an order
    (COL=low<mid<high), see kinds. positive is one of the target's two classes.
    """

    categories: str | None = None
    numbers: str | None = None
    dates: str | None = None
    ordered: str | None = None
    drop: str | None = None
    id: str | None = None
    missing: str | None = None
    strict: bool = False
    separator: str | None = None
    header: str = "auto"
    weight: str | None = None
    exposure: str | None = None
    group: str | None = None
    time: str | None = None
    positive: str | None = None
    drop_duplicates: bool = False

    def kept(self) -> dict[str, str | bool]:
        """Return the choices that a model keeps: how its files are read later."""
        names = ("id", "missing", "separator", "header", *ROW_ROLES, "drop_duplicates")
        return self._given(names)

    def of_columns(self) -> dict[str, str | bool]:
        """Return the choices that the columns of a model tell: only who trains it once
        more needs them."""
        return self._given(COLUMN_CHOICES)

    def _given(self, names: Sequence[str]) -> dict[str, str | bool]:
        return {
            name: value
            for name in names
            if (value := getattr(self, name)) not in (None, "auto", False)
        }


NO_CHOICES = Choices()


def check_has_exposure(choices: Choices) -> None:
    """Raise UsageError for exposures beside a model that was trained without. choices:
    the model's."""
    if choices.exposure is None:
        raise UsageError(
            "exposure: the model was trained without; leave it out, or train with --exposure"
        )


@dataclass(frozen=True)
class Schema:
    """The facts about a data set's columns that are known before its rows are read;
    None: the file decides.

    inputs: values of a row, or the shape (channels, height, width) of pixels. outputs:
    of the network. labels: the two classes of each of several targets. columns,
    targets: their names, [] for no targets.
    target: the target column as it was asked for, a name or an index; None: the last.
    asked: the same in the training of a model whose targets have names. plain: all
    features are numbers without gaps, and inputs.
    follows_model: the columns are those of a model. encoding: what its columns become,
    None: they are plain numbers; left_out: columns of its file that were no inputs, by
    their indices; names_left_out: (index, name) of those that have names. fills_gaps:
    the model has medians of plain numbers, which stand for gaps.
    gaps: the words for a gap, beside those of choices. code_page: of text that is no
    UTF-8. pictures: how the model reads them, see pixels.py. number_type,
    target_type: float32 or float64, in which the model reads columns of numbers, and
    has its targets; None: as the rows need it. keeps_weightless: rows of weight 0 stay,
    as in the training of a model of an earlier version, whose held-out rows are drawn
    from all. weighs: rows without targets have their weights too, where the data have
    them.
    """

    task: str = "auto"
    inputs: int | tuple[int, int, int] | None = None
    outputs: int | None = None
    classes: list[str] | None = None
    columns: list[str] | None = None
    targets: list[str] | None = None
    target: str | int | None = None
    dtype: str = "float32"
    choices: Choices = NO_CHOICES
    plain: bool = False
    follows_model: bool = False
    encoding: object = None  # encoding.Encoding or None
    left_out: tuple[int, ...] = ()
    names_left_out: tuple[tuple[int, str], ...] = ()
    asked: str | int | None = None
    fills_gaps: bool = False
    gaps: frozenset[str] = GAPS
    code_page: str = WINDOWS
    pictures: dict | None = None
    number_type: str | None = None
    target_type: str | None = None
    keeps_weightless: bool = False
    weighs: bool = False
    labels: list[list[str]] | None = None

    def __post_init__(self):
        if self.task not in TASK_NAMES:
            raise UsageError(
                f"unknown task '{self.task}', expected one of {', '.join(TASK_NAMES)}"
            )

    @property
    def pixels(self) -> tuple[int, int, int] | None:
        if isinstance(self.inputs, tuple):
            return self.inputs
        return None

    @property
    def width(self) -> int | None:
        if self.pixels:
            return math.prod(self.pixels)
        return self.inputs

    @property
    def missing(self) -> frozenset[str]:
        """Return all words for a gap."""
        return self.gaps.union(split_names(self.choices.missing))

    @property
    def is_numeric(self) -> bool:
        """Return whether all features are read as numbers, whatever their fields
        hold."""
        if self.follows_model and (self.encoding is None or self.encoding.plain):
            return True
        return self.plain or self.pixels is not None

    @property
    def needs_all(self) -> bool:
        """Return whether every field must be a number: there is nothing that could
        stand for a gap."""
        return self.is_numeric and (not self.fills_gaps or self.choices.strict)


UNSAID = Schema()  # nothing is known


@dataclass(frozen=True)
class Places:
    """The uses of the columns of a file, by their places in it, from 0.

    features, targets: in the order of the network. roles: the columns of weights,
    groups and times. choices: what a person says that columns are.
    """

    features: list[int]
    targets: list[int]
    ids: tuple[int, ...] = ()
    roles: dict[str, int] = field(default_factory=dict)
    choices: dict[int, Kind] = field(default_factory=dict)


def targets_for(loss: str, targets: list[str] | None) -> list[str] | None:
    """Return what the outputs for targets of these names are called: as they are, or
    several quantiles of one."""
    shares = quantiles_of(loss)
    if not shares:
        return targets
    name = targets[0] if targets else ""
    return [f"{name} {share}".strip() for share in shares]
