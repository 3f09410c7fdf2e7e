"""Columns: which columns of a table are features and which targets; their rows become a Dataset."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ..utils import DataError, UsageError
from .column_lookup import (
    GLANCE_ROWS,
    check_one_use,
    column_mismatch,
    columns_asked_for,
    feature_columns,
    role_columns,
    split_names,
    target_columns,
)
from .column_types import (
    ColumnChoice,
    better_than_nothing,
    is_meant_as_text,
    is_text,
    left_out,
    may_be_text,
    number_codes,
    reads_of,
)
from .dataset import Dataset, Schema
from .digest import columns_digest
from .encoders import are_decimals
from .field_types import MOST_NUMBERS, ClassName, Number, TargetNumber
from .frame_table import FrameTable
from .source import FileDigest, absolute
from .table import Table
from .table_files import GAPS, ColumnFacts, Fields, TableFiles, read_as_needed
from .table_rows import TableRows
from .targets import FEW_CLASSES, Targets, dataset_of, resolve
from .written import is_number, numbers_of

_AHEAD = re.compile(r"(.+)_in_[0-9.]+s")  # how a target column is named that holds NAME some seconds later
_MOST_TOLD = 20  # columns in a message

Result = TypeVar("Result")


@dataclass(frozen=True)
class Columns:
    """The features and targets of a table, as indices of its columns, with their schema.

    reads: number, text or date, of each feature; None: all are numbers without gaps, and stay so. missing: words for
    gaps, none where there are no gaps. target_is_text: None: the first row tells.
    """

    files: TableFiles
    schema: Schema
    features: list[int]
    targets: list[int]
    path: str  # the files from wherever the program runs next
    ids: tuple[int, ...] = ()
    reads: tuple[str, ...] | None = None
    missing: frozenset[str] = frozenset()
    target_is_text: bool | None = None
    examined: bool = False  # all fields were looked at
    chosen: frozenset[int] = frozenset()  # columns whose kind a person has said
    left_out: tuple[tuple[int, str], ...] = ()  # features that were found to tell nothing, with the reason
    decimals: frozenset[int] = frozenset()  # columns of text in which 1, 1.0 and 1e0 are one
    labelled: bool = True
    roles: tuple[tuple[str, int], ...] = ()  # columns of weights, groups and times
    time_reads: str = "number"  # or date

    @classmethod
    def choose(cls, files: TableFiles, schema: Schema, labelled: bool) -> Columns:
        """Return the columns that a schema asks for. Raises DataError, UsageError."""
        targets = target_columns(files, schema, labelled)
        choices = schema.choices
        dropped = set(columns_asked_for(files, "drop", choices.drop))
        ids = tuple(columns_asked_for(files, "id", choices.id))
        roles = role_columns(files, schema)
        out = [("drop", column) for column in targets if column in dropped]
        check_one_use(files, [*(("target", c) for c in targets), *out, *(("id", c) for c in ids), *roles])
        features = feature_columns(files, targets, schema, dropped | set(ids) | {column for _, column in roles})
        known = schema.of_model or schema.pixels
        if known and schema.width is not None and len(features) != schema.width:
            raise DataError(column_mismatch(files, len(features), schema))
        if not features:
            if dropped:
                raise DataError(f"{files.path}: no input columns left, expected one or more; drop fewer with --drop")
            raise DataError(f"{files.path}: only target columns, expected features as well; check --target")
        path = files.path if isinstance(files, FrameTable) else absolute(files.path)
        columns = cls(files, schema, features, targets, path, ids, labelled=labelled)
        if roles and (labelled or not schema.of_model):  # a prediction does not ask for them
            columns = replace(columns, roles=roles)._with_roles()
        if schema.of_model and schema.encoding is not None and not schema.encoding.plain:
            reads = tuple(encoder.reads for encoder in schema.encoding.encoders)
            one = (column for column, how in zip(features, schema.encoding.encoders, strict=True) if are_decimals(how))
            known = {"decimals": columns.decimals | frozenset(one), "missing": columns._gap_words(), "examined": True}
            return replace(columns, reads=reads, **known)
        return columns

    def knowing(self, **facts) -> Columns:
        """Return the same columns, with these facts in their schema."""
        return replace(self, schema=replace(self.schema, **facts))

    def names(self, columns: list[int]) -> list[str] | None:
        """Return the names of columns; None where the files have none."""
        return [self.files.names[c] for c in columns] if self.files.names else None

    # ---- what the columns hold

    def use(self, read: Callable[[Columns], Result]) -> Result:
        """Return read(columns), with the columns as their fields are: by the choice of a person, a model or the fields.

        Where a first look at the fields was wrong, `read` fails with a DataError and is called a second time.
        """
        if self.schema.plain or self.schema.pixels:  # numbers, whatever the fields are
            return read(self)
        return self._read_as_model(read) if self.schema.of_model else self._read_as_found(read)

    def _read_as_model(self, read: Callable[[Columns], Result]) -> Result:
        """Read as a model's columns; where these are plain numbers, a second time with gaps in the target."""
        try:
            return read(self)
        except DataError as error:
            if self.reads is not None or not self.targets:
                raise
            try:
                return read(replace(self, missing=self._gap_words()))
            except DataError:
                raise error from None

    def _read_as_found(self, read: Callable[[Columns], Result]) -> Result:
        """Read as the first rows look, which is nearly always right; else as what all fields are."""
        guessed = self._guessed()
        if guessed is None:
            return read(self._examined())
        try:
            return read(guessed)
        except DataError as error:
            examined = self._examined()
            if replace(examined, examined=False, missing=guessed.missing) == guessed:  # nothing new: it is the data
                raise error
            return read(examined)

    def _refuse_gaps(self, table: Table, inputs: np.ndarray) -> None:
        """Raise DataError for the first gap among inputs of a model of plain numbers."""
        row, column = np.argwhere(np.isnan(inputs))[0].tolist()
        raise DataError(
            f"{self.files.path}, {table.row(row)}, {self.files.column(self.features[column])}: found an empty field, "
            f"expected a number; fill it in or remove the row"
        )

    def _guessed(self) -> Columns | None:
        """Return the columns as what the first rows look like; None if that does not tell."""
        missing = self._gap_words()
        facts = self.files.facts(missing, GLANCE_ROWS)
        if not self._choices() and not self.schema.choices.missing and self._is_plain(facts):
            return self
        try:
            guessed = self._as(facts, missing)
        except DataError:  # that is for all fields to say
            return None
        if guessed.reads is None or guessed.left_out:
            return None
        return replace(guessed, missing=missing, examined=False)

    def _gap_words(self) -> frozenset[str]:
        return GAPS | set(split_names(self.schema.choices.missing))

    def _choices(self) -> dict[int, str]:
        """Return the columns whose kind a person has said."""
        asked = self.schema.choices
        kinds = (("categories", "text"), ("numbers", "number"), ("dates", "date"))
        chosen: dict[int, str] = {}
        for flag, reads in kinds:
            for column in columns_asked_for(self.files, flag, getattr(asked, flag)):
                if column in chosen:
                    raise UsageError(f"--{flag}: {self.files.column(column)} is given two kinds; name it once")
                chosen[column] = reads
        return chosen

    def _is_plain(self, facts: list[ColumnFacts]) -> bool:
        """Return whether these fields are numbers without gaps, those of a target perhaps text."""
        numbers = all(facts[c].numbers == facts[c].rows for c in self.features)
        return numbers and not any(facts[c].gaps for c in self.targets)

    def _examined(self) -> Columns:
        """Return the columns as what all of their fields are. Raises DataError, which tells all obstacles."""
        missing = self._gap_words()
        facts = self.files.facts(missing)
        return self._as(facts, missing, self._mixed(facts, missing))

    def _mixed(self, facts: list[ColumnFacts], missing: frozenset[str]) -> frozenset[int]:
        """Return the columns of numbers but for some words that, read as text, turn out to be text."""
        chosen = self._choices()
        mixed = [column for column in self.features if column not in chosen and may_be_text(facts[column])]
        if not mixed:
            return frozenset()
        as_text = replace(self, features=mixed, reads=("text",) * len(mixed), missing=missing, examined=True)
        table = read_as_needed(lambda fields: self.files.read(fields)[0], as_text.fields())
        columns = zip(mixed, table.codes.T, table.words, strict=True)
        return frozenset(column for column, codes, words in columns if is_meant_as_text(codes, words))

    def _as(self, facts: list[ColumnFacts], missing: frozenset[str], mixed: frozenset[int] = frozenset()) -> Columns:
        """Return the columns as what these fields are. mixed: of them, the columns that are text for what they hold."""
        chosen = self._choices()
        wanted = dict.fromkeys(mixed, "text") | chosen
        choices = [ColumnChoice(column, wanted.get(column)) for column in self.features]
        reads = reads_of(self.files.path, self.files.column, choices, facts)
        kept = [(column, kind) for column, kind in zip(self.features, reads, strict=True) if kind != "nothing"]
        empty = tuple(
            (column, "gaps only") for column, kind in zip(self.features, reads, strict=True) if kind == "nothing"
        )
        if not kept:
            raise DataError(f"{self.files.path}: every input column holds gaps only; add data")
        any_gap = any(facts[column].gaps for column in [*self.features, *self.targets])
        plain = all(kind == "number" and not facts[column].gaps for column, kind in kept)
        return replace(
            self,
            features=[column for column, _ in kept],
            reads=None if plain else tuple(kind for _, kind in kept),
            missing=missing if any_gap else frozenset(),
            target_is_text=self._target_is_text(facts),
            examined=True,
            chosen=frozenset(chosen),
            decimals=self.decimals | {c for c, kind in chosen.items() if kind == "text" and facts[c].are_numbers},
            left_out=empty,
        )

    def _target_is_text(self, facts: list[ColumnFacts]) -> bool | None:
        if len(self.targets) != 1:
            return None
        found = facts[self.targets[0]]
        return 2 * found.numbers < found.rows - found.gaps

    # ---- how they are read

    def fields(self) -> Fields:
        """Return how the columns are read, as far as is known."""
        schema, dtype = self.schema, self.schema.dtype
        reads = self.reads or ("number",) * len(self.features)
        groups = {
            kind: [column for column, read in zip(self.features, reads, strict=True) if read == kind]
            for kind in ("number", "text", "date")
        }
        for role, column in self.roles:
            groups[self._role_reads(role)].append(column)
        return Fields(
            groups["number"],
            self.targets,
            Number("uint8" if schema.pixels else dtype, dtype),
            self._target_type(),
            texts=groups["text"],
            dates=groups["date"],
            ids=list(self.ids),
            decimals=self.decimals,
            missing=self.missing,
            keep_unlabelled=not self.labelled,
        )

    def _role_reads(self, role: str) -> str:
        return {"weight": "number", "group": "text", "time": self.time_reads}[role]

    def _with_roles(self) -> Columns:
        """Return the columns knowing what times and groups are, as the first rows tell."""
        facts, roles = self.files.facts(self._gap_words(), GLANCE_ROWS), dict(self.roles)
        found = self
        if "time" in roles and facts[roles["time"]].dates > facts[roles["time"]].numbers:
            found = replace(found, time_reads="date")
        if "group" in roles and facts[roles["group"]].are_numbers:
            found = replace(found, decimals=frozenset({roles["group"]}))
        return found

    def _target_type(self) -> TargetNumber | ClassName:
        schema = self.schema
        if len(self.targets) != 1:
            return TargetNumber(None, "or remove the row")
        target = self.targets[0]
        place = (self.files.path, self.files.column(target))
        if schema.task == "regression":
            written = ClassName(*place, may_mix=True, are_numbers=True, most=MOST_NUMBERS)
            return TargetNumber(None if schema.plain else written, "or remove the row")
        name = ClassName(*place, may_mix=schema.task != "auto" or schema.classes is not None)
        is_text = self.target_is_text
        if is_text is None:
            first = self.files.first_field(target)
            is_text = first not in self._gap_words() and not is_number(first)
        return name if is_text else TargetNumber(name, "")

    def read(self) -> Dataset:
        """Read all rows."""

        def read(fields: Fields) -> tuple[Table, str | FileDigest | None]:
            table, sha256 = self.files.read(fields, hashed=self.reads is None)
            if table.names is not None:
                fields.check_names(*names_of(table))
            fields.check_all(table)
            return table, sha256

        table, sha256 = read_as_needed(read, self.fields())
        if self.reads is not None and not self.examined and not self.schema.of_model:
            self._check_texts(table)
        if not len(table.inputs):
            target = ", ".join(map(self.files.column, self.targets))
            raise DataError(f"{self.files.path}, {target}: every field is a gap, expected a target in some rows")
        if codes := self._number_codes(table):
            return self._with_texts(codes).read()
        columns = self._without_useless(table)
        if columns is not self:
            table = columns._narrowed(table, self)
        if columns.reads is None:
            return columns.dataset(table, sha256)
        with ThreadPoolExecutor(1) as hasher:
            digest = hasher.submit(columns_digest, [table])
            return replace(columns.dataset(table), sha256=digest.result())

    def without_useless_first(self, rows: int) -> Columns:
        """Return the columns without those that tell a network nothing in the first rows."""
        if self.schema.plain or self.schema.of_model or self.schema.pixels:
            return self
        first = read_as_needed(lambda fields: next(self.files.blocks(fields, rows)), self.fields())
        if codes := self._number_codes(first):
            return self._with_texts(codes).without_useless_first(rows)
        return self._without_useless(first)

    def _number_codes(self, table: Table) -> list[int]:
        """Return the features, by their places among them, whose numbers are names of something: ids, codes."""
        if self.schema.plain or self.schema.of_model or self.schema.pixels:
            return []
        return number_codes(self.inputs_of(table), self.names(self.features), self._chosen_features())

    def _with_texts(self, places: list[int]) -> Columns:
        """Return the columns with these features, which are numbers, read as text in which 1, 1.0 and 1e0 are one."""
        reads = list(self.reads or ("number",) * len(self.features))
        for place in places:
            reads[place] = "text"
        return replace(self, reads=tuple(reads), decimals=self.decimals | {self.features[place] for place in places})

    def _check_texts(self, table: Table) -> None:
        """Raise DataError if a column that was read as text is none, after all rows."""
        texts = [column for column, kind in zip(self.features, self.reads, strict=True) if kind == "text"]
        for place, column in enumerate(texts):
            known = column in self.chosen or column in self.decimals
            if not known and not is_text(table.codes[:, place], table.words[place]):
                raise DataError(f"{self.files.path}, {self.files.column(column)}: not text in most rows")

    def _without_useless(self, table: Table) -> Columns:
        """Return the columns without those that tell a network nothing."""
        if self.schema.plain or self.schema.of_model or self.schema.pixels:
            return self
        useless = left_out(self.inputs_of(table), self.names(self.features), self._chosen_features())
        if len(useless) == len(self.features):
            for i in better_than_nothing(useless, self.names(self.features)):
                del useless[i]
        if not useless:
            return self
        if len(useless) == len(self.features):
            some = list(useless.items())[:_MOST_TOLD]
            reasons = ", ".join(f"{self.files.column(self.features[i])} ({why})" for i, why in some)
            reasons += f" and {len(useless) - len(some)} more" if len(useless) > len(some) else ""
            raise DataError(f"{self.files.path}: no input columns left, expected features; left out: {reasons}")
        kept = [i for i in range(len(self.features)) if i not in useless]
        return replace(
            self,
            features=[self.features[i] for i in kept],
            reads=self.reads and tuple(self.reads[i] for i in kept),
            left_out=(*self.left_out, *((self.features[i], why) for i, why in useless.items())),
        )

    def _categories(self) -> frozenset[int]:
        """Return the features that a person has called categories, and numbers that are names, by their places."""
        known = {i for i, column in enumerate(self.features) if column in self.chosen or column in self.decimals}
        return frozenset(i for i in known if self.reads and self.reads[i] == "text")

    def _chosen_features(self) -> set[int]:
        return {i for i, column in enumerate(self.features) if column in self.chosen}

    def _narrowed(self, table: Table, former: Columns) -> Table:
        """Return a table of these columns only, of one that was read by `former`."""
        gone = {i for i, column in enumerate(former.features) if column not in set(self.features)}
        reads = former.reads or ("number",) * len(former.features)
        kept: dict[str, list[int]] = {"number": [], "text": [], "date": []}
        at = dict.fromkeys(kept, 0)
        for index, kind in [*enumerate(reads), *((-1, former._role_reads(role)) for role, _ in former.roles)]:
            if index not in gone:
                kept[kind].append(at[kind])
            at[kind] += 1
        numbers, texts = kept["number"], kept["text"]
        return replace(
            table,
            inputs=np.ascontiguousarray(table.inputs[:, numbers]),
            low=table.low[numbers],
            high=table.high[numbers],
            codes=None if table.codes is None else table.codes[:, texts],
            words=[table.words[place] for place in texts],
            dates=None if table.dates is None else table.dates[:, kept["date"]],
        )

    def dataset(self, table: Table, sha256: str | FileDigest | None = None) -> Dataset:
        """Return rows of these columns as a data set. sha256: of the files."""
        x, pixels = self.inputs_of(table), self.schema.pixels
        self._check_width()
        facts = {
            **self.dataset_facts(),
            **self._of_rows(table),
            "sha256": sha256,
            "unlabelled": table.unlabelled,
            "ids": table.ids[0] if table.ids else None,
        }
        facts["now"] = _now(facts["columns"], facts["targets"])
        labels = self._targets_of(table) if self.targets and not any_gap(table) else None
        return dataset_of(x.reshape(-1, *pixels) if pixels else x, labels, self.schema, **facts)

    def dataset_facts(self) -> dict:
        """Return what a data set knows of its columns, as Dataset names it."""
        kept = {*self.features, *self.targets}
        return {
            "columns": self.names(self.features),
            "targets": self.names(self.targets),
            "path": self.path,
            "given": self.files.path,
            "places": tuple(self.features),
            "left_out": {self._plain_name(column): why for column, why in self.left_out},
            "left_out_places": tuple(column for column in range(self.files.columns) if column not in kept),
            "categories": self._categories(),
            "decimals": frozenset(i for i, column in enumerate(self.features) if column in self.decimals),
            "kept_choices": self.schema.choices.kept(),
        }

    def _check_width(self) -> None:
        """Raise DataError if the network has another number of inputs, as its --layers say."""
        width = self.schema.width
        if width is None or len(self.features) == width:
            return
        if not self.left_out or len(self.features) + len(self.left_out) != width:
            found = len(self.features) if self.schema.target is not None else self.files.columns
            raise DataError(column_mismatch(self.files, found, self.schema))
        reasons = ", ".join(f"{self._plain_name(column)} ({why})" for column, why in self.left_out)
        raise DataError(
            f"{self.files.path}: {len(self.features)} columns are inputs, expected {width}; left out: {reasons}; begin "
            f"--layers with {len(self.features)} or auto, or keep a column by --numbers or --categories"
        )

    def _plain_name(self, column: int) -> str:
        return self.files.names[column] if self.files.names else str(column)

    def inputs_of(self, table: Table) -> np.ndarray | TableRows:
        """Return the inputs of a data set of these rows."""
        rows, counts = len(table.inputs), self._group_sizes()
        if self.reads is None:
            inputs = np.ascontiguousarray(table.inputs[:, : len(self.features)])
            if self.missing and inputs.dtype.kind == "f" and np.isnan(inputs).any():
                self._refuse_gaps(table, inputs)
            return inputs
        codes = np.zeros((rows, 0), np.int32) if table.codes is None else table.codes
        dates = np.zeros((rows, 0)) if table.dates is None else table.dates
        texts = counts["text"]
        return TableRows(
            self.reads,
            table.inputs[:, : counts["number"]],
            codes[:, :texts],
            table.words[:texts],
            dates[:, : counts["date"]],
        )

    def _group_sizes(self) -> dict[str, int]:
        """Return how many features are read as each kind; columns of weights, groups and times follow them."""
        reads = self.reads or ("number",) * len(self.features)
        return {kind: reads.count(kind) for kind in ("number", "text", "date")}

    def _of_rows(self, table: Table) -> dict[str, np.ndarray]:
        """Return weights, groups and times of the rows, as a Dataset names them."""
        at, found = self._group_sizes(), {}
        for role, column in self.roles:
            kind = self._role_reads(role)
            group = {"number": table.inputs, "text": table.codes, "date": table.dates}[kind]
            values = group[:, at[kind]].astype(np.int64 if kind == "text" else np.float64)
            self._check_role(table, role, column, values)
            found[f"{role}s"] = values
            at[kind] += 1
        return found

    def _check_role(self, table: Table, role: str, column: int, values: np.ndarray) -> None:
        """Raise DataError that names the first row whose weight or time cannot be."""
        if role == "group":
            return
        bad = np.flatnonzero(~np.isfinite(values) | ((values < 0) if role == "weight" else False))
        if bad.size:
            place = f"{self.files.path}, {self.files.column(column)}, {table.row(bad[0])}"
            found = "a gap" if np.isnan(values[bad[0]]) else f"{values[bad[0]]:g}"
            expected = "a finite number, 0 or above" if role == "weight" else "a time"
            raise DataError(f"{place}: --{role}: found {found}, expected {expected}; correct it or remove the row")

    def resolve(self, table: Table, counts: np.ndarray | None = None) -> tuple[np.ndarray, str, list[str] | None]:
        """Return (y, task, class names) of a table's targets; see targets.resolve. counts: as in Targets."""
        return resolve(self._targets_of(table, counts), self.schema)

    def _targets_of(self, table: Table, counts: np.ndarray | None = None) -> Targets:
        one = len(self.targets) == 1
        place = f"{self.files.path}, {self.files.column(self.targets[0])}" if one else self.files.path
        values, names = table.targets, table.names
        numbers = self._written_numbers(names)
        if numbers is not None:
            values, names = numbers[values.astype(np.intp)], None
        return Targets(values, place, table.row, names, self.names(self.targets), counts=counts)

    def _written_numbers(self, names: list[str] | None) -> np.ndarray | None:
        """Return the numbers that texts of a target are, as people write them; None if they name classes.

        Few of them may name classes as well as any text (4dr, 2dr).
        """
        task, classes = self.schema.task, self.schema.classes
        if names is None or classes is not None or not (task == "regression" or task == "auto"):
            return None
        if task == "auto" and len(names) <= FEW_CLASSES:
            return None
        numbers = numbers_of(names)
        return None if numbers is None else np.array(numbers)


def names_of(table: Table) -> tuple[list[str], np.ndarray, Callable[[int], tuple[int, str]]]:
    """Return the different targets of a table, how many rows have each, and what finds the first of these rows."""
    codes = table.targets[:, 0].astype(np.intp)

    def first(name: int) -> tuple[int, str]:
        row = int(np.argmax(codes == name))
        return row, table.row(row)

    return table.names, np.bincount(codes[codes >= 0], minlength=len(table.names)), first


def any_gap(table: Table) -> bool:
    """Return whether a target is a gap: a row that is to be predicted."""
    is_gap = np.isnan(table.targets) if table.names is None else table.targets < 0
    return bool(is_gap.any())


def _now(columns: list[str] | None, targets: list[str] | None) -> list[int] | None:
    """Return the columns whose values the targets have ahead, as their names say (see Dataset.now)."""
    ahead = [_AHEAD.fullmatch(target) for target in targets or []]
    if not ahead or not all(match and match[1] in columns for match in ahead):
        return None
    return [columns.index(match[1]) for match in ahead]
