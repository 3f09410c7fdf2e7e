"""Tables of SQLite databases: `data.db:table`, or `data.db` alone if there is one table in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from ..utils import DataError, closest, listed
from .column import Column
from .source import database_of, local
from .typed import Opened, objects

_READ_ROWS = 1 << 16  # at a time
_CAUTIOUS = ("PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON")  # as SQLite advises for strangers' files
_LONGEST = 1 << 20  # bytes of a value, beside those of the file: a view may make longer ones of nothing
_RECURSIVE = 33  # SQLITE_RECURSIVE: a query that calls itself, in a view perhaps without end
_CURES = {  # what SQLite says -> what helps
    "database is locked": "wait for the program that writes it",
    "attempt to write a readonly database": (
        "a program was ended while it wrote: open it with that program, or sqlite3, once"
    ),
}


def database(path: str) -> Opened:
    """Open a table of a database. Raises DataError."""
    found = _Database(path)
    return Opened(found.names, found.rows, found.parts)


class _Database:
    """A table, or a view, of a database that is only read. Its rows are in the order of their keys."""

    def __init__(self, path: str):
        self.file, asked = database_of(path)
        with self._connection() as connection:
            self._table = self._choose(connection, asked)
            columns = [row[1:3] for row in connection.execute(f"PRAGMA table_info({_quoted(self._table)})")]
            self.names = [name for name, _ in columns]
            self._are_truths = [kind.upper() in ("BOOL", "BOOLEAN") for _, kind in columns]
            self._key = self._find_key(connection)
            (self.rows,) = connection.execute(f"SELECT count(*) FROM {_quoted(self._table)}").fetchone()

    def parts(self, places: list[int]) -> Iterator[tuple[int, Callable[[int], Column]]]:
        """Yield the rows, some at a time."""
        names = ", ".join(_quoted(self.names[place]) for place in places)
        order = f" ORDER BY {self._key}" if self._key else ""
        with self._connection() as connection:
            cursor = connection.execute(f"SELECT {names or 'NULL'} FROM {_quoted(self._table)}{order}")
            while some := cursor.fetchmany(_READ_ROWS):
                yield len(some), partial(self._block, dict(zip(places, zip(*some, strict=True), strict=False)))

    def _block(self, fields: dict[int, tuple], place: int) -> Column:
        """Return the block of a column; SQLite keeps truths as 0 and 1."""
        values = fields[place]
        if self._are_truths[place]:
            values = [bool(value) if isinstance(value, int) and value in (0, 1) else value for value in values]
        return objects(values)

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
        """Return the name of the row number; None for a view, and a table without one or with a column called so."""
        try:
            row = connection.execute(f"SELECT rowid FROM {_quoted(self._table)} LIMIT 1").fetchone()
        except sqlite3.OperationalError:  # no such column
            return None
        return "rowid" if "rowid" not in map(str.lower, self.names) and isinstance((row or [0])[0], int) else None

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that only reads; failures become a DataError."""
        path = Path(local(self.file))
        try:
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
                for setting in _CAUTIOUS:
                    connection.execute(setting)
                connection.set_authorizer(_authorize)
                if hasattr(connection, "setlimit"):  # Python 3.11
                    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST + path.stat().st_size)
                yield connection
        except (sqlite3.Error, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            cure = _CURES.get(reason, "copy it again or write it anew")
            raise DataError(f"{self.file}: cannot be read ({reason}); {cure}") from error
        except MemoryError as error:  # most often a length that is none, in a file that is damaged
            why = "a field of it does not fit into memory"
            raise DataError(f"{self.file}: cannot be read ({why}); copy it again, or write it anew") from error


def _authorize(action: int, *_) -> int:
    return sqlite3.SQLITE_DENY if action == _RECURSIVE else sqlite3.SQLITE_OK


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
