"""Dataset: rows of inputs with their targets; Targets: as a file has them; the digest
of columns, in whatever format."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import numpy as np

from ..core.weighted import row_counts
from ..nn_aux import LOSSES, TASKS, loss_name, loss_of, quantiles_of
from ..utils import DataError, UsageError, default_threads, listed, log, plural
from .column import Column, shortened
from .kinds import Kind
from .records import share_of, some_rows, within
from .schema import targets_for
from .source import Files
from .table_rows import TableRows, with_gaps

PICTURE_NAMES = "file"  # the column of predictions that names each picture
# more distinct numbers than this are classes only if --task says so; more texts need
# many rows
AUTO_CLASSES = 100
CHANGE = -1  # of Dataset.now
LEAST_EXPOSURE = 1e-30
# taken into a digest at a time: they stay in a processor's cache
_DIGEST_ROWS = 1 << 15
_ESCAPE = 255  # the byte of a code that has its own 4 bytes


@dataclass(eq=False)
class Targets:
    """The targets as a file has them: numbers (rows, columns), or indices (rows, 1)
    into `names`."""

    values: np.ndarray
    place: str  # how messages call them: "iris.csv, column Class"
    row: Callable[[int], str]  # how messages call a row
    names: list[str] | None = None
    columns: list[str] | None = None  # the names of the target columns
    places: Sequence[int] = ()  # of the target columns in the file, from 0
    # the two classes of each column; values are then 0 and 1
    labels: list[list[str]] | None = None
    are_classes: bool = False  # names are classes by the file's format, however many
    are_indices: bool = False  # numbers are class indices by the file's format
    spelling: Column | None = None  # the texts of numbers some of which are codes, 01
    label_type: str | None = None  # see Column.given

    @property
    def width(self) -> int:
        return self.values.shape[1]

    @cached_property
    def different(self) -> tuple[np.ndarray, np.ndarray]:
        """The different numbers of the first column, ascending; the index of each row's
        number among them."""
        return np.unique(self.values[:, 0], return_inverse=True)

    @property
    def are_many(self) -> bool:
        """Return whether the first rows show that these are no classes, so that nobody
        has to sort them all."""
        return len(np.unique(self.values[: 1 << 12, 0])) > AUTO_CLASSES


@dataclass(eq=False)
class Dataset:
    """Rows of inputs with the targets that a network should give for them.

    x: (rows, inputs) or images (rows, channels, height, width); uint8, float32 or
    float64, C-contiguous; or the
       TableRows of a table whose features are not all numbers without gaps.
       float64 although float32 was asked for where float32 would blur a column (1.7e9
       plus a few seconds):
       scale before casting (Scaling.apply does).
    y: int32 (rows,) class indices for the tasks binary and multiclass (binary: 1 is the
    positive class), float (rows,
       outputs) for regression and, of 0 and 1, multilabel; None for data without
       targets.
    labels: of multilabel the two classes of each target, the positive one last.
    target: the target column as it was asked for; None: the last.
    now: for a series whose targets lie ahead: for each target the index (into a
    flattened row of x) of its value
       now, or CHANGE for a target that is the change until then. In CSV files the
       column NAME is the now of the target column NAME_in_60s, and NAME_change_in_60s
       is a change.
    digest: sha256, or the files of which it is taken when it is first asked for.
    weights: float64 (rows,), 0 or above: a row of weight 2 is as good as the row twice,
    in training and in a test. groups: (rows,), which become int64 codes; the rows of a
    group stay together in every split.
    times: float64 (rows,); the last rows in time are held out.
    exposures: float64 (rows,), above 0: the time, area or number in which a row counts
    its target. loss: whose targets y are, see for_loss; None: they are the file's.
    told_targets: the names that the file has, where y are others.
    sets_of_twins: int64 (rows,), the set of rows of equal inputs and target that each
    row is in, of which the first
       alone is trained on or judges a training (--drop_duplicates); None: all do.
    path, given: of the files, absolute and as it was given, by which messages call
    them.
    left_out: columns that are no inputs, with the reason. remarks: what a person should
    know of how they were read. unlabelled: rows that were left out because their target
    is a gap; unlabelled_words: how many have each word for one, "" for an empty field.
    ids: the text of each row of the --id columns, by their names. is_part: these are
    some rows of those that sha256 stands for: the rows part_rows of whole, which has no
    inputs.
    memory: bytes within which the program is to stay; what has no room is in mapped
    files (data/records.py). pixel_range: of files of pictures, the number that stands
    for white.
    unfilled_x: x before medians took the places of its gaps; None: it had none.
    row_names: how messages call a row of the whole, by its index, where they may have
    to: of the furthest targets.
    """

    x: np.ndarray | TableRows
    y: np.ndarray | None
    task: str
    classes: list[str] | None = None
    columns: list[str] | None = None
    targets: list[str] | None = None
    path: str | None = None
    digest: str | Files | None = None
    target: str | int | None = None
    now: list[int] | None = None
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None
    times: np.ndarray | None = None
    exposures: np.ndarray | None = None
    loss: str | None = None
    told_targets: list[str] | None = None
    sets_of_twins: np.ndarray | None = None
    places: tuple[int, ...] = ()  # of the features in the file, from 0
    left_out: dict[str, str] = field(default_factory=dict)
    left_out_places: tuple[int, ...] = ()  # of these columns in the file
    # (name, reason) of each, with those that a person left out
    unused: list[list[str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    kinds: tuple[Kind, ...] = ()  # of the features; none: all are numbers without gaps
    # see Choices.kept
    kept_choices: dict[str, str | bool] = field(default_factory=dict)
    # see Choices.of_columns
    column_choices: dict[str, str | bool] = field(default_factory=dict)
    unlabelled: int = 0
    weightless: int = 0
    is_left_out_logged: bool = False  # a person knows which rows were left out
    unlabelled_words: dict[str, int] = field(default_factory=dict)
    label_type: str | None = None  # of the classes, see column.LABEL_TYPES; None: texts
    ids: dict[str, list[str]] = field(default_factory=dict)
    given: str | None = None
    memory: int | None = None
    is_part: bool = False
    pixel_range: int | None = None
    whole: Dataset | None = None
    part_rows: np.ndarray | None = None
    row_names: dict[int, str] = field(default_factory=dict)
    unfilled_x: np.ndarray | TableRows | None = None
    labels: list[list[str]] | None = None

    def __post_init__(self):
        """Make arrays of what a person gives. Raises DataError for texts, and what
        `check` raises."""
        if not isinstance(self.x, TableRows):
            is_plain = type(self.x) is np.ndarray and self.x.dtype.kind in "biuf"
            if not is_plain:
                self.x = np.asarray(with_gaps(self.x))
        if np.ma.is_masked(self.y):
            raise DataError(
                "y: found a masked value, expected one of each row; leave its row out"
            )
        if self.y is not None:
            self.y = np.asarray(self.y)
        for array in (self.x, self.y):
            if isinstance(array, np.ndarray) and array.dtype.kind in "OUSM":
                raise DataError(
                    "x, y: found more than numbers; nn.load(x, y=y) reads class names, "
                    "texts, dates and gaps"
                )
        if self.y is not None and self.y.dtype == bool:
            self.y = self.y.astype(np.int32)
        is_flat = self.y is not None and self.y.ndim == 1
        if is_flat and self.task in TASKS and TASKS[self.task].by_output:
            self.y = self.y.reshape(-1, 1)
        self.check()

    def check(self) -> None:
        """Check weights, exposures, groups and times, which may have been set since.
        Raises DataError."""
        if self.groups is not None:
            codes = np.unique(self.groups, return_inverse=True)[1].reshape(-1)
            self.groups = of_each_row("groups", codes, self.rows, name_of(self))
            self.groups = self.groups.astype(np.int64)
        for name in ("weights", "exposures", "times"):
            values = getattr(self, name)
            if values is not None:
                values = of_each_row(name, values, self.rows, name_of(self))
                setattr(self, name, values)

    @property
    def sha256(self) -> str | None:
        """The SHA-256 of the bytes that determine the data; of one file, that file's.
        None if the file has been written to since it was read, or there is none."""
        if isinstance(self.digest, Files):
            return self.digest.sha256
        return self.digest

    @property
    def unfilled(self) -> np.ndarray | TableRows:
        """Return the inputs with their gaps."""
        if self.unfilled_x is None:
            return self.x
        return self.unfilled_x

    @property
    def rows(self) -> int:
        return len(self.x)

    @property
    def inputs(self) -> int:
        return math.prod(self.x.shape[1:])

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.x.shape[1:]

    @property
    def are_images(self) -> bool:
        return isinstance(self.x, np.ndarray) and (
            self.x.dtype == np.uint8 or self.x.ndim == 4
        )

    @property
    def outputs(self) -> int | None:
        """Return how many outputs a network needs for this data; None without
        targets."""
        if self.y is None:
            return None
        if self.task == "multiclass":
            return len(self.classes or ())
        return math.prod(self.y.shape[1:])

    def of_rows(self, rows, inputs: bool = True) -> Dataset:
        """Return some rows, a slice or indices, as a data set of their own. inputs:
        False leaves them out, unless a forecast is among them."""
        facts = {"whole": self._without_inputs(), "is_part": True}
        indices = np.arange(self.rows)[rows]
        facts["part_rows"] = indices
        if self.part_rows is not None:
            facts["part_rows"] = self.part_rows[rows]
        facts["ids"] = {
            name: [texts[row] for row in indices.tolist()]
            for name, texts in self.ids.items()
        }
        for name in ("y", "weights", "exposures", "groups", "times", "sets_of_twins"):
            values = getattr(self, name)
            if values is not None:
                facts[name] = values[rows]
        with within(share_of(self.memory)):
            if not inputs and self.now is None:
                x = np.zeros((len(indices), 0), np.float32)
            elif isinstance(self.x, TableRows):
                x = self.x[rows]
            else:
                x = some_rows(self.x, rows)
            if self.unfilled_x is not None:
                facts["unfilled_x"] = some_rows(self.unfilled_x, rows)
        return replace(self, x=x, **facts)

    def for_loss(self, loss: str) -> Dataset:
        """Return the rows with the targets that a network of a loss learns and is
        judged by: where they have exposures E, y / E of weight E^(2 - P); of several
        quantiles the target for each.

        For a deviance of the power P that is the same as outputs times E: it is
        E^(2 - P) times that of both divided by E. Weights have the mean 1, unless rows
        have some of their own. Raises UsageError for exposures beside another loss, and
        several quantiles of several targets.
        """
        if self.loss is not None or self.y is None:
            return self
        if self.exposures is not None:
            return self._by_exposure(loss)
        shares = quantiles_of(loss)
        if not shares or self.task != "regression":
            return self
        if self.y.shape[1] != 1:
            raise UsageError(
                f"--loss {loss}: several quantiles are for one target, the data has {self.y.shape[1]}; "
                "choose it with --target"
            )
        return replace(
            self,
            y=np.repeat(self.y, len(shares), axis=1),
            targets=targets_for(loss, self.targets),
            told_targets=self.targets,
            loss=loss,
        )

    def _by_exposure(self, loss: str) -> Dataset:
        """Return the rows with rates for targets."""
        rule = LOSSES.get(loss_name(loss))
        if rule is None or rule.metric != "deviance":
            raise UsageError(
                f"--exposure: is for --loss poisson, gamma or tweedie=P, not {loss}; leave it out or give one"
            )
        weights = self.exposures ** (2 - loss_of(loss).constants[0])
        weights /= weights.mean()
        if self.weights is not None:
            weights *= self.weights
        rates = self.y / self.exposures[:, None]
        if self.y.dtype.kind == "f":  # counts may be whole numbers
            rates = rates.astype(self.y.dtype)
        return replace(
            self,
            y=rates,
            weights=weights,
            told_targets=self.targets,
            loss=loss,
        )

    @property
    def names_of_targets(self) -> list[str] | None:
        """Return the names that the targets have in the file."""
        return self.targets if self.loss is None else self.told_targets

    @property
    def different_targets(self) -> np.ndarray:
        """Return the targets (rows, targets) without copies for several quantiles."""
        copies = len(quantiles_of(self.loss)) if self.loss else 0
        return self.y.reshape(len(self.y), -1)[:, :: copies or 1]

    def _without_inputs(self) -> Dataset:
        """Return what these rows are a part of, without the inputs and texts that take
        memory."""
        if self.whole is not None:
            return self.whole
        whole = copy(self)  # which checks nothing again
        whole.x = np.zeros((self.rows, 0), np.float32)
        whole.ids = {}
        return whole

    def row_name(self, row: int) -> str:
        """Return how messages call a row."""
        if self.part_rows is not None:
            row = int(self.part_rows[row])
        return self.row_names.get(row) or f"data row {row + 1}"

    def persistence(self) -> np.ndarray | None:
        """Return the forecast that nothing changes, (rows, outputs) in the targets'
        units; None if no series."""
        if self.now is None or isinstance(self.x, TableRows):
            return None
        flat = self.x.reshape(self.rows, -1)
        forecast = np.zeros((self.rows, len(self.now)), flat.dtype)
        for output, place in enumerate(self.now):
            if place != CHANGE:
                forecast[:, output] = flat[:, place]
        return forecast

    def about_unlabelled(self) -> str:
        """Return how many rows were left out for want of a target, and for which words;
        nothing where none were."""
        if not self.unlabelled:
            return ""
        counts = sorted(self.unlabelled_words.items(), key=lambda item: -item[1])
        words = [
            f"{shortened(word) if word else 'empty'} ({rows})" for word, rows in counts
        ]
        told = f"left out: {plural(self.unlabelled, 'row')} without a target"
        return f"{told}: {listed(words)}" if words else told

    def about_weightless(self) -> str:
        """Return how many rows were left out because their weight is 0; nothing where
        none were."""
        if self.weightless:
            return f"left out: {plural(self.weightless, 'row')} of weight 0"
        return ""

    @property
    def left_out_rows(self) -> dict[str, int]:
        """Return how many rows count for nothing, by the reason, without reasons that
        no row has."""
        counts = {
            "weightless": self.weightless + self.rows - len(self.counting_rows()),
            "unlabelled": self.unlabelled,
        }
        return {reason: rows for reason, rows in counts.items() if rows}

    def without_weightless(self) -> Dataset:
        """Return the rows whose weight is above 0. Raises DataError where there are
        none."""
        counting = self.counting_rows()
        if len(counting) == self.rows:
            return self
        if not len(counting):
            raise all_weightless(self.rows)
        return replace(
            self.of_rows(counting),
            weightless=self.weightless + self.rows - len(counting),
        )

    def weights_of(self, rows: np.ndarray) -> np.ndarray | None:
        """Return the weights of some rows (indices); None where rows have none."""
        if self.weights is None:
            return None
        return self.weights[rows]

    def check_pictures(self, pictures: dict | None) -> None:
        """Raise DataError for pictures that were read without a model that keeps this
        of pictures (pixels.py), in another range than its own."""
        if pictures is None or self.pixel_range in (None, pictures["range"]):
            return
        raise DataError(
            f"{name_of(self)}: pictures whose white is {self.pixel_range}, expected "
            f"{pictures['range']} as in the training of the model; read them with "
            "nn.load_for(net, ...)"
        )

    def counting_rows(self) -> np.ndarray:
        """Return the rows (indices, ascending) whose weight is above 0: all others
        train nothing and judge nothing."""
        if self.weights is None:
            return np.arange(self.rows)
        return np.flatnonzero(self.weights)

    def without_duplicates(self, rows: np.ndarray) -> np.ndarray:
        """Return those of some rows (indices, ascending) that a training uses: of twins
        the first, where they leave."""
        if self.sets_of_twins is None:
            return rows
        _, first_rows = np.unique(self.sets_of_twins[rows], return_index=True)
        return rows[np.sort(first_rows)]

    def duplicates(self) -> int:
        """Return how many rows leave a training because an equal one stays."""
        counting = self.counting_rows()
        return len(counting) - len(self.without_duplicates(counting))

    def about_duplicates(self) -> str:
        """Return how many rows leave a training because an equal one stays; nothing
        where none do."""
        count = self.duplicates()
        if count == 1:
            return "left out: 1 row that repeats another"
        if count:
            return f"left out: {count} rows that repeat another"
        return ""

    def about_left_out(self) -> list[str]:
        """Return a line for each reason for which rows count for nothing in a
        training."""
        lines = [
            self.about_unlabelled(),
            self.about_weightless(),
            self.about_duplicates(),
        ]
        return list(filter(None, lines))

    def log_left_out(self) -> None:
        """Log a line for each reason for which rows count for nothing in a training,
        unless a person knows it."""
        if self.is_left_out_logged:
            return
        self.is_left_out_logged = True
        for line in self.about_left_out():
            log.warning("%s: %s", name_of(self), line)

    def row_counts(self, rows) -> np.ndarray | None:
        """Return as how many rows each of these rows (indices) counts, float64; None:
        each as one."""
        if self.weights is None:
            return None
        return row_counts(self.weights[rows])

    def class_counts(self, rows=None) -> list[int]:
        """Return the rows of each class, in the order of `classes`, among all rows or
        the given ones."""
        y = self.y
        if rows is not None:
            y = y[rows]
        return np.bincount(y, minlength=len(self.classes)).tolist()


def as_read_by(net, ds: Dataset, anew: bool = False) -> Dataset:
    """Return a data set as a network reads it, where both have names: with its columns
    in the network's order, and its classes by the network's numbers. anew: it is
    trained on, and may be other data.

    Raises DataError for a data set without a column or with other classes.
    """
    if not isinstance(ds, Dataset):
        return ds
    if ds.task == "regression":
        ds = ds.for_loss(net.loss)
    changed = _in_order(net, ds, anew)
    classes = list(getattr(net, "classes", None) or ())
    names = list(ds.classes or ())
    if ds.y is not None and names and names != classes and {*names} <= {*classes}:
        numbers = np.array(list(map(classes.index, names)), np.int32)
        changed |= {"classes": classes, "y": numbers[ds.y]}
    if changed:
        return replace(ds, **changed)
    return ds


def _in_order(net, ds: Dataset, anew: bool) -> dict:
    """Return what changes where the columns of a data set get the order of a
    network's."""
    model_names = [name.strip() for name in getattr(net, "columns", None) or ()]
    names = [name.strip() for name in ds.columns or ()]
    if not model_names or not names or model_names == names or ds.are_images:
        return {}
    if len({*model_names}) < len(model_names) or len({*names}) < len(names):
        return {}
    absent = [name for name in model_names if name not in names]
    if anew and (absent or len(names) != len(model_names)):
        return {}
    # who tests says that the target is an input
    if set(absent).intersection(ds.targets or ()):
        return {}
    if absent:
        raise DataError(
            f"{name_of(ds)}: no column {', '.join(absent[:10])}, expected every "
            "column that the model was trained on; read the data with "
            "nn.load_for(net, ...)"
        )
    order = [names.index(name) for name in model_names]
    if isinstance(ds.x, TableRows):
        x = TableRows(tuple(ds.x.columns[place] for place in order))
    else:
        x = np.ascontiguousarray(ds.x[:, order])
    changed = {"x": x, "columns": list(net.columns)}
    if len(ds.places) == len(names):
        changed["places"] = tuple(ds.places[place] for place in order)
    if ds.kinds:
        changed["kinds"] = tuple(ds.kinds[place] for place in order)
    if ds.now is not None:
        changed["now"] = _moved(ds.now, order)
    return changed


def _moved(now: list[int], order: list[int]) -> list[int] | None:
    """Return Dataset.now where inputs are in another order; None where it lacks a
    value."""
    if not {*now} <= {*order, CHANGE}:
        return None
    return [place if place == CHANGE else order.index(place) for place in now]


# what each row may have -> (the least of it, how a message ends)
_OF_EACH_ROW = {
    "groups": (0, ""),
    "weights": (0, ", 0 or above"),
    "exposures": (LEAST_EXPOSURE, " above 0"),
    "times": (-np.inf, "; remove the row"),
}


def of_each_row(name: str, values, rows: int, where: str) -> np.ndarray:
    """Return what each row has, float64 (rows,): weights, exposures, times, or the
    numbers of groups. where: what the message names. Raises DataError for values that
    are no numbers, another number of them, and the first row of one that cannot be."""
    least, expected = _OF_EACH_ROW[name]
    flag = f"--{name.removesuffix('s')}"
    try:
        numbers = np.asarray(with_gaps(values), np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"{where}: {flag}: found values that are no numbers, expected one number for each row"
        ) from None
    if numbers.shape != (rows,):
        found = f"{numbers.size} {name}"
        if numbers.ndim != 1:
            found = f"{name} of shape {numbers.shape}"
        raise DataError(f"{where}: {found} for {rows} rows, expected one for each")
    bad = np.flatnonzero(~np.isfinite(numbers) | (numbers < least))
    if bad.size:
        raise DataError(
            f"{where}: {flag}: row {bad[0]}: "
            f"found {numbers[bad[0]]:g}, expected a finite number{expected}"
        )
    return numbers


def name_of(ds) -> str:
    """Return how messages call a data set, a Dataset or what is like one: by the path
    that was given."""
    return str(getattr(ds, "given", None) or ds.path or "the data")


def check_trainable(ds: Dataset) -> None:
    """Raise DataError if there is nothing to learn: one class only."""
    if ds.classes is None:
        return
    rows = ds.counting_rows()
    counts = ds.class_counts(rows)
    present = [name for name, count in zip(ds.classes, counts, strict=True) if count]
    if len(present) != 1:
        return
    column = ""
    if ds.targets and len(ds.targets) == 1:
        column = f", column {ds.targets[0]}"
    cure = "add rows of another class or choose the target with --target"
    if PICTURE_NAMES in ds.ids:
        cure = "add a folder of pictures of another class"
    if ds.unlabelled:
        cure += f"; {ds.about_unlabelled()}"
    raise DataError(
        f"{name_of(ds)}{column}: only class {present[0]} ({len(rows)} rows), expected "
        f"at least two classes to train on; {cure}"
    )


def all_weightless(rows: int, what: str = "rows") -> DataError:
    """Return the error that the weights of all rows, called `what`, are 0."""
    return DataError(
        f"--weight: the weights of all {rows} {what} are 0, expected one above 0 at "
        "least; correct them, or leave it out"
    )


# ---------------------------------------------------------------- the digest


def columns_digest(
    features: list[Column],
    targets: list[Column],
    roles: list[Column],
    ids: list[Column],
) -> str:
    """Return the SHA-256 of columns, as hexadecimal text: numbers and dates as numbers,
    texts as codes, and the texts themselves. roles: weights, groups and times.

    Codes count texts in the order of their first appearance, in which any format
    numbers them.
    """
    columns = [*features, *roles]
    numbers = [c for c in columns if c.reads == "number"]
    texts = [c for c in columns if c.reads == "text"]
    dates = [c for c in columns if c.reads == "date"]
    from concurrent.futures import ThreadPoolExecutor

    in_order = [column.values for column in (*numbers, *targets, *texts, *dates)]
    with ThreadPoolExecutor(default_threads()) as pool:
        digests = list(pool.map(_digest_of_values, in_order))
    digests += [_digest_of_words(column.words) for column in texts]
    digests.append(_digest_of_words(chain(*(target.words for target in targets))))
    digests.append(_digest_of_words(chain(*(column.texts() for column in ids))))
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _digest_of_words(words: Iterable[str]) -> bytes:
    """Return the digest of texts, each behind its length: as no other texts are."""
    digest = hashlib.sha256()
    for word in words:
        encoded = word.encode(errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.digest()


def _digest_of_values(values: np.ndarray) -> bytes:
    """Return the digest of a column's values: numbers, or codes as a byte each, the gap
    0, from _ESCAPE on all bytes in a digest of their own."""
    small = hashlib.sha256()
    large = hashlib.sha256()
    for start in range(0, len(values), _DIGEST_ROWS):
        block = values[start : start + _DIGEST_ROWS]
        if block.dtype == np.int32:
            counted = block + np.int32(1)
            large.update(counted[counted >= _ESCAPE].astype("<i4"))
            small.update(np.minimum(counted, _ESCAPE).astype(np.uint8))
            continue
        block = block + block.dtype.type(0)  # one zero and one nan
        block[np.isnan(block)] = np.nan
        small.update(np.ascontiguousarray(block, block.dtype.newbyteorder("<")))
    return small.digest() + large.digest()
