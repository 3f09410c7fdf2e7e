"""Tables of SQLite databases: `data.db:table`, or `data.db` alone if there is one table in it."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ..utils import DataError, closest, listed, sha256_file
from .arrow_table import check_same_names
from .column_blocks import objects
from .column_reader import Blocks, Part
from .column_table import ColumnTable
from .source import Extents, database_of
from .table_files import AS_FOUND, ReadOptions

SQLITE = b"SQLite format 3\0"  # how the files begin
_READ_ROWS = 1 << 16  # at a time
_CAUTIOUS = ("PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON")  # as SQLite advises for strangers' files
_LONGEST = 1 << 20  # bytes of a value, beside those of the file: a view may make longer ones of nothing
_RECURSIVE = 33  # SQLITE_RECURSIVE: a query that calls itself, in a view perhaps without end


class _Database:
    """A table, or a view, of a database that is only read. Its rows are in the order of their keys.

    names: of the columns; are_truths: whether each is declared to hold truths; rows: of the table.
    """

    def __init__(self, path: str):
        self.path = path
        self.file, asked = database_of(path)
        with self._connection() as connection:
            self._table = self._choose(connection, asked)
            columns = [row[1:3] for row in connection.execute(f"PRAGMA table_info({_quoted(self._table)})")]
            self.names = [name for name, _ in columns]
            self.are_truths = [kind.upper() in ("BOOL", "BOOLEAN") for _, kind in columns]
            self._key = self._find_key(connection)
            (self.rows,) = connection.execute(f"SELECT count(*) FROM {_quoted(self._table)}").fetchone()
        self._known = [(0, None)]  # (place of a row, its key), from which others are counted

    def read(self, columns: list[int], start: int, rows: int) -> Iterator[tuple[int, list]]:
        """Yield (place of the first row, the values of each column) for some rows at a time."""
        names = [_quoted(self.names[column]) for column in columns]
        names.insert(0, self._key or "NULL")
        with self._connection() as connection:
            cursor = connection.execute(*self._query(names, start, rows))
            while some := cursor.fetchmany(_READ_ROWS):
                keys, *values = zip(*some, strict=True)
                self._remember(start, keys[0])
                yield start, [list(column) for column in values]
                start += len(some)

    def _query(self, names: list[str], start: int, rows: int) -> tuple[str, tuple]:
        """Return a query for some rows, from the nearest row before them whose key is known."""
        select = f"SELECT {', '.join(names)} FROM {_quoted(self._table)}"
        place, key = self._known[bisect_right(self._known, start, key=lambda known: known[0]) - 1]
        where = "" if key is None else f" WHERE {self._key} >= {key}"
        order = f" ORDER BY {self._key}" if self._key else ""
        return f"{select}{where}{order} LIMIT ? OFFSET ?", (rows, start - place)

    def _remember(self, place: int, key: int | None) -> None:
        at = bisect_right(self._known, place, key=lambda known: known[0])
        if key is not None and self._known[at - 1][0] < place:
            self._known.insert(at, (place, key))

    def _choose(self, connection: sqlite3.Connection, asked: str | None) -> str:
        query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        names = [name for (name,) in connection.execute(query) if isinstance(name, str)]  # a damaged one may be bytes
        tables = sorted(name for name in names if not name.startswith("sqlite_"))
        if asked in tables:
            return asked
        there = f"the tables are {listed(tables)}" if tables else "there is none"
        if asked is not None:
            similar = closest(asked, tables)
            advice = f"; did you mean {self.file}:{similar}?" if similar else ""
            raise DataError(f"{self.file}: no table {asked} in this database, {there}{advice}")
        if len(tables) == 1:
            return tables[0]
        advice = f"; choose one, for example {self.file}:{tables[0]}" if tables else ""
        raise DataError(f"{self.file}: {len(tables)} tables in this database, expected one; {there}{advice}")

    def _find_key(self, connection: sqlite3.Connection) -> str | None:
        """Return a name of the row number that no column has; None for a view or a table without one."""
        names = {name.lower() for name in self.names}
        for key in ("rowid", "_rowid_", "oid"):
            if key in names:
                continue
            try:
                row = connection.execute(f"SELECT {key} FROM {_quoted(self._table)} LIMIT 1").fetchone()
            except sqlite3.OperationalError:  # no such column
                return None
            return key if row is None or isinstance(row[0], int) else None
        return None

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that only reads; failures become a DataError."""
        try:
            with closing(sqlite3.connect(f"{Path(self.file).absolute().as_uri()}?mode=ro", uri=True)) as connection:
                for setting in _CAUTIOUS:
                    connection.execute(setting)
                connection.set_authorizer(_authorize)
                if hasattr(connection, "setlimit"):  # Python 3.11
                    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST + Path(self.file).stat().st_size)
                yield connection
        except (sqlite3.Error, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            is_locked = reason == "database is locked"
            cure = "wait for the program that writes it" if is_locked else "copy it again or write it anew"
            raise DataError(f"{self.file}: cannot be read ({reason}); {cure}") from error
        except MemoryError as error:  # most often a length that is none, in a file that is damaged
            why = "a field of it does not fit into memory"
            raise DataError(f"{self.file}: cannot be read ({why}); copy it again, or write it anew") from error


def _authorize(action: int, *_) -> int:
    return sqlite3.SQLITE_DENY if action == _RECURSIVE else sqlite3.SQLITE_OK


def _truth(value):
    """Return what a value of a column of truths means; SQLite keeps truths as 0 and 1."""
    return bool(value) if isinstance(value, int) and value in (0, 1) else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class SqliteFiles(ColumnTable):
    """The TableFiles of SQLite."""

    def __init__(self, paths: list[str], path: str, options: ReadOptions = AS_FOUND):
        self._databases = [_Database(file) for file in paths]
        first = self._databases[0]
        for other in self._databases[1:]:
            check_same_names(other.path, other.names, first.path, first.names)
        self._extents = Extents([database.file for database in self._databases])
        self._open(path, paths, first.names, [database.rows for database in self._databases])

    def _parts(self, number: int, columns: list[int], start: int, stop: int) -> Iterator[Part]:
        self._extents.check(number)
        for first, values in self._databases[number].read(columns, start, stop - start):
            fields = dict(zip(columns, values, strict=True))
            for column in columns:
                if self._databases[number].are_truths[column]:
                    fields[column] = [_truth(value) for value in fields[column]]
            yield Blocks(number, first, len(values[0]), {column: objects(fields[column]) for column in columns})

    def _digests(self) -> list[bytes]:
        return [bytes.fromhex(sha256_file(database.file)) for database in self._databases]
