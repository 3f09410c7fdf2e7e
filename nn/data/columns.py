"""Columns: which columns of a table are features and which targets; their rows become a Dataset."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

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
from .dataset import Dataset, Schema
from .encoders import are_decimals
from .field_types import Number
from .frame_table import FrameTable
from .row_columns import RowColumns
from .source import FileDigest, absolute
from .table import Table
from .table_files import GAPS, Fields, TableFiles
from .table_rows import TableRows
from .target_columns import TargetColumns, any_gap
from .targets import Targets, dataset_of


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
    as_written: dict[int, str] = field(default_factory=dict)  # columns of text that are number or date as people write
    labelled: bool = True
    row_columns: RowColumns = RowColumns()

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
            columns = columns._with_roles(roles)
        if schema.of_model and schema.encoding is not None and not schema.encoding.plain:
            reads = tuple(encoder.reads for encoder in schema.encoding.encoders)
            one = (column for column, how in zip(features, schema.encoding.encoders, strict=True) if are_decimals(how))
            known = {"decimals": columns.decimals | frozenset(one), "missing": columns.gap_words(), "examined": True}
            return replace(columns, reads=reads, **known)
        return columns

    def _with_roles(self, roles: tuple[tuple[str, int], ...]) -> Columns:
        """Return the columns with these roles, knowing what times and groups are, as the first rows tell."""
        facts = self.files.facts(self.gap_words(), GLANCE_ROWS)
        found, group = RowColumns.of(roles, facts), dict(roles).get("group")
        decimals = frozenset() if group is None or not facts[group].are_numbers else frozenset({group})
        return replace(self, row_columns=found, decimals=decimals)

    def knowing(self, **facts) -> Columns:
        """Return the same columns, with these facts in their schema."""
        return replace(self, schema=replace(self.schema, **facts))

    def names(self, columns: list[int]) -> list[str] | None:
        """Return the names of columns; None where the files have none."""
        return [self.files.names[c] for c in columns] if self.files.names else None

    @cached_property
    def _of_targets(self) -> TargetColumns:
        return TargetColumns(self.files, self.schema, self.targets)

    # ---- what a person says of them

    def gap_words(self) -> frozenset[str]:
        """Return the words for a gap: those of every table, and those that a person has said."""
        return GAPS | set(split_names(self.schema.choices.missing))

    def choices(self) -> dict[int, str]:
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

    def _text_kinds(self) -> dict[int, str]:
        """Return what columns of text are known to be, as Encoding.fit has it: numbers or dates as people write them,
        and categories, which a person has called so, or which are numbers that are names."""
        categories = dict.fromkeys([*self.chosen, *self.decimals], "category")
        known = categories | self.as_written
        texts = [(i, column) for i, column in enumerate(self.features) if self.reads and self.reads[i] == "text"]
        return {i: known[column] for i, column in texts if column in known}

    def chosen_features(self) -> set[int]:
        """Return the features whose kind a person has said, by their places among them."""
        return {i for i, column in enumerate(self.features) if column in self.chosen}

    # ---- how they are read

    def fields(self) -> Fields:
        """Return how the columns are read, as far as is known."""
        schema, dtype = self.schema, self.schema.dtype
        reads = self.reads or ("number",) * len(self.features)
        groups = {
            kind: [column for column, read in zip(self.features, reads, strict=True) if read == kind]
            for kind in ("number", "text", "date")
        }
        for column, kind in self.row_columns.reads():
            groups[kind].append(column)
        return Fields(
            groups["number"],
            self.targets,
            Number("uint8" if schema.pixels else dtype, dtype),
            self._of_targets.field_type(self.target_is_text, self.gap_words()),
            texts=groups["text"],
            dates=groups["date"],
            ids=list(self.ids),
            decimals=self.decimals,
            missing=self.missing,
            keep_unlabelled=not self.labelled,
        )

    # ---- their rows

    def dataset(self, table: Table, sha256: str | FileDigest | None = None) -> Dataset:
        """Return rows of these columns as a data set. sha256: of the files."""
        x, pixels = self.inputs_of(table), self.schema.pixels
        self._check_width()
        facts = {
            **self.dataset_facts(),
            **self.row_columns.values(self.files, table, self._group_sizes()),
            "sha256": sha256,
            "unlabelled": table.unlabelled,
            "ids": table.ids[0] if table.ids else None,
        }
        facts["now"] = self._of_targets.now_among(facts["columns"])
        labels = self.targets_of(table) if self.targets and not any_gap(table) else None
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
            "text_kinds": self._text_kinds(),
            "decimals": frozenset(
                i for i, column in enumerate(self.features) if column in self.decimals and column not in self.as_written
            ),
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

    def _refuse_gaps(self, table: Table, inputs: np.ndarray) -> None:
        """Raise DataError for the first gap among inputs of a model of plain numbers."""
        row, column = np.argwhere(np.isnan(inputs))[0].tolist()
        raise DataError(
            f"{self.files.path}, {table.row(row)}, {self.files.column(self.features[column])}: found an empty field, "
            f"expected a number; fill it in or remove the row"
        )

    def _group_sizes(self) -> dict[str, int]:
        """Return how many features are read as each kind; columns of weights, groups and times follow them."""
        reads = self.reads or ("number",) * len(self.features)
        return {kind: reads.count(kind) for kind in ("number", "text", "date")}

    def targets_of(self, table: Table, counts: np.ndarray | None = None) -> Targets:
        """Return the targets of a table's rows. counts: as in Targets."""
        return self._of_targets.of_table(table, counts)
