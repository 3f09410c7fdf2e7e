"""Tables of SQLite databases: `data.db:table`, or `data.db` alone if there is one table
in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from ..utils import DataError, closest, listed
from .column import Column, decoded
from .source import database_of, local, reason_of
from .typed import Opened, objects

_READ_ROWS = 1 << 16  # at a time
# as SQLite advises for strangers' files
_CAUTIOUS = ("PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON")
# bytes of a value, beside those of the file: a view may make longer ones of nothing
_LONGEST_VALUE = 1 << 20
# a column that is an argument of a virtual table; generated ones have other numbers
_HIDDEN_COLUMN = 1
# SQLITE_RECURSIVE: a query that calls itself, in a view perhaps without end
_RECURSIVE = 33
_CURE = "copy it again or write it anew"
_CURES = {  # what SQLite says -> what helps
    "database is locked": "wait for the program that writes it",
    "attempt to write a readonly database": (
        "a program was ended while it wrote: open it with that program, or sqlite3, once"
    ),
}


def database(path: str) -> Opened:
    """Open a table, or a view, of a database that is only read; its rows are in the
    order of their keys, as no index is asked. Raises DataError."""
    file, asked = database_of(path)
    with _connection(file) as connection:
        table = _table_of(connection, file, asked)
        facts = connection.execute(f"PRAGMA table_xinfo({_quoted(table)})").fetchall()
        columns = [row[1:3] for row in facts if row[6] != _HIDDEN_COLUMN]
        counted = connection.execute(f"SELECT count(*) FROM {_quoted(table)}")
        row_count = counted.fetchone()[0]

    def block(fields: dict[int, tuple], place: int) -> Column:
        values = fields[place]
        declared = columns[place][1].upper().removesuffix(" GENERATED ALWAYS")
        if declared in ("BOOL", "BOOLEAN"):  # SQLite keeps truths as 0 and 1
            values = [
                bool(value) if isinstance(value, int) and value in (0, 1) else value
                for value in values
            ]
        return objects(values)

    def parts(places: list[int]) -> Iterator[tuple[int, Callable[[int], Column]]]:
        names = ", ".join(_quoted(columns[place][0]) for place in places)
        with _connection(file) as connection:
            cursor = connection.execute(
                f"SELECT {names or 'NULL'} FROM {_quoted(table)} NOT INDEXED"
            )
            while rows := cursor.fetchmany(_READ_ROWS):
                fields = dict(zip(places, zip(*rows, strict=True), strict=False))
                yield len(rows), partial(block, fields)

    return Opened([name for name, _ in columns], row_count, parts)


def _table_of(connection, file: str, asked: str | None) -> str:
    """Return the table that is asked for, or the only one. Raises DataError."""
    query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
    # a damaged one may be bytes
    names = [name for (name,) in connection.execute(query) if isinstance(name, str)]
    tables = sorted(name for name in names if not name.startswith("sqlite_"))
    if asked in tables or (asked is None and len(tables) == 1):
        return asked or tables[0]
    listing = "there is none"
    advice = ""
    if tables:
        listing = f"the tables are {listed(tables)}"
        advice = f"; choose one, for example {file}:{tables[0]}"
    if asked is None:
        raise DataError(
            f"{file}: {len(tables)} tables in this database, expected one; {listing}{advice}"
        )
    similar = closest(asked, tables)
    advice = f"; did you mean {file}:{similar}?" if similar else ""
    raise DataError(f"{file}: no table {asked} in this database, {listing}{advice}")


@contextmanager
def _connection(file: str) -> Iterator:
    """Yield a connection of sqlite3 that only reads; failures become a DataError."""
    import sqlite3  # here: few tables are of databases

    path = Path(local(file))
    try:
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            # some programs write text as their system has it
            connection.text_factory = decoded
            for setting in _CAUTIOUS:
                connection.execute(setting)
            answers = {_RECURSIVE: sqlite3.SQLITE_DENY}
            connection.set_authorizer(
                lambda action, *_: answers.get(action, sqlite3.SQLITE_OK)
            )
            if hasattr(connection, "setlimit"):  # Python 3.11
                connection.setlimit(
                    sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE + path.stat().st_size
                )
            yield connection
    except (sqlite3.Error, UnicodeDecodeError, MemoryError) as error:
        reason = reason_of(error)
        # most often a length that is none, in a file that is damaged
        if isinstance(error, MemoryError):
            reason = "a field of it does not fit into memory"
        raise DataError(
            f"{file}: cannot be read ({reason}); {_CURES.get(reason, _CURE)}"
        ) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
