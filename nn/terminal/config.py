"""--config: flags from a JSON or TOML file, under those of the command line."""

from __future__ import annotations

import json
from types import SimpleNamespace

from ..settings.flags import (
    BY_NAME,
    DEFAULTS,
    GONE,
    MODES,
    meant,
    plain_name,
    settings_of_model,
)
from ..settings.values import joined_items
from ..utils import DataError, InputNotFound, UsageError, is_file_name, os_reason

MOST_CONFIG_BYTES = 1 << 20
REFUSED = "config"  # a file that names a file: whose flags would win?


def read_config(path: str, flag: str = "--config") -> dict:
    """Return the keys and values of a JSON or TOML file, recognised by its content; a
    pipe is read once, front to back.

    flag: names the file, to the user.

    Raises InputNotFound, DataError (with line and column) and UsageError for a key that
    appears twice.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_CONFIG_BYTES + 1)
        if len(data) > MOST_CONFIG_BYTES:
            raise DataError(
                f"{path}: more than {MOST_CONFIG_BYTES} bytes, expected JSON or TOML with flags; check {flag}"
            )
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: byte {error.start} is not UTF-8 text, expected JSON or TOML"
        ) from error
    except OSError as error:
        raise InputNotFound(
            f"{path}: cannot read: {os_reason(error)}; check {flag}"
        ) from error
    return _parsed(path, text.removeprefix("\ufeff"))


def _parsed(path: str, text: str) -> dict:
    """Return the keys and values of JSON, which begins with a brace, or of TOML."""
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib

    def distinct(pairs: list[tuple[str, object]]) -> dict:
        """Return the members of an object of JSON, none of which has a name twice."""
        members = {}
        for name, value in pairs:
            if name in members:
                raise UsageError(f"{path}: key {name} appears twice; remove one")
            members[name] = value
        return members

    where = ""
    expected = "the values of flags"
    try:
        if text.lstrip().startswith("{"):
            return json.loads(text, object_pairs_hook=distinct)
        return tomllib.loads(text)
    except json.JSONDecodeError as error:
        where = f", row {error.lineno}, column {error.colno}"
        reason = error.msg
        expected = "JSON"
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
        expected = "JSON or TOML such as epochs = 20"
    except ValueError:
        reason = "a number of thousands of digits"
    except RecursionError:
        reason = "nested too deeply"
        expected = "flags and their values"
    raise DataError(
        f"{path}{where}: {reason[:1].lower()}{reason[1:]}, expected {expected}"
    )


def apply_config(given: SimpleNamespace) -> None:
    """Fill in from the file `given.config` what the command line left open and the mode
    reads.

    The file holds flags by their names, or, as `nn --info --json` prints them, under
    the key `config` beside the data set that they were used on. null and false stand
    for a flag that was not given. Raises UsageError for a key that is no flag and a
    value that the flag cannot have; see read_config.
    """
    path = given.config
    flags = {
        name: flag for name, flag in {**MODES, **BY_NAME}.items() if name != REFUSED
    }
    values = _values_of_flags(path, _flags_of(path, read_config(path), given), flags)
    if any(getattr(given, mode) for mode in MODES):
        values = {name: value for name, value in values.items() if name not in MODES}
    left_open = {
        name: flag_value(path, flags[name], value)
        for name, value in values.items()
        if _is_given(value) and not _is_given(getattr(given, name))
    }
    modes = {mode for mode in MODES if getattr(given, mode) or mode in left_open}
    for name, value in left_open.items():
        if name in MODES or flags[name].modes & modes:
            setattr(given, name, value)
    if "scaling" in left_open and not given.train and given.model is not None:
        from ..files.text_model import is_text

        # the model stores its own, that of the file was for its training
        if not is_text(given.model):
            given.scaling = None


def _is_given(value) -> bool:
    """Return whether a flag has a value, and is not left open by null or false."""
    return value is not None and value is not False


def _values_of_flags(path: str, values: dict, flags: dict) -> dict:
    """Return the values of a file by the names of their flags. Raises UsageError for a
    name of no flag, and two values of one."""
    by_flag = {}
    for name, value in values.items():
        if name in GONE:
            if _is_given(value):
                raise UsageError(f"{path}: {name}: has gone; use {GONE[name]}")
            continue
        if name not in flags:
            close = meant(name, flags)
            cure = "; nn --help --all lists all flags"
            if close:
                cure = f": did you mean {close}?"
            raise UsageError(f"{path}: no such flag {name}{cure}")
        flag = flags[name]
        if flag.name in by_flag and by_flag[flag.name] != value:
            raise UsageError(
                f"{path}: {flag.name} and {flag.alias}: two names of one flag; remove one"
            )
        by_flag[flag.name] = value
    return by_flag


def _flags_of(path: str, values: dict, given: SimpleNamespace) -> dict:
    """Return the flags among a file's values, by their Python names."""
    nested = values.get("config")
    if not isinstance(nested, dict):
        return _by_python_names(path, values)
    flags = _by_python_names(path, nested)
    kept = settings_of_model(flags)
    for name in sorted(flags.keys() - kept.keys()):
        given.remarks.append(
            f"{path}: {name}: a model does not say what is written or read beside it; left out"
        )
    if not given.train:
        return kept
    data = values.get("dataset")
    if isinstance(data, dict) and data.get("path"):
        kept["dataset"] = data["path"]
    for name in ("dataset", "validation"):
        if getattr(given, name) is None:
            _check_is_here(path, name, kept.get(name))
    return kept


def _by_python_names(path: str, values: dict) -> dict:
    flags = {}
    for key, value in _given_of(values).items():
        name = plain_name(key)
        if name in flags:
            raise UsageError(f"{path}: key {name} appears twice; remove one")
        flags[name] = value
    return flags


def _check_is_here(path: str, name: str, value) -> None:
    """Raise UsageError for data of a model's training that lie elsewhere: its file may
    be a stranger's, and would say which host gets to know of this one."""
    from ..data.source import lies_elsewhere

    if isinstance(value, str) and lies_elsewhere(value):
        raise UsageError(
            f"{path}: {name} {value} of a model lies elsewhere; give --{name} on the command line"
        )


def _given_of(values: dict) -> dict:
    """Return what was given of a model's settings: not what --effort chose, nor what
    the data decided."""
    chosen = values.get("chosen")
    table = values.get("table")
    if not isinstance(chosen, list | None) or not isinstance(table, dict | None):
        return values
    dropped = {"candidates", "chosen", "left_out", "table"}
    dropped.update(name for name in chosen or () if isinstance(name, str))
    has_classes_or_numbers = values.get("task") in ("multiclass", "regression")
    if has_classes_or_numbers and values.get("threshold") == DEFAULTS["threshold"]:
        # files keep the default, although the flag is for two classes only
        dropped.add("threshold")
    given = {name: value for name, value in values.items() if name not in dropped}
    return given | (table or {})


def flag_value(path: str, flag, value):
    """Return the value of a flag (of FLAGS) from a file's, checked as if it had been
    typed. Raises UsageError."""
    if flag.value is None:
        if value is not True:
            raise UsageError(
                f"{path}: {flag.name}: found {json.dumps(value, default=str)}, expected true or false"
            )
        return True
    if value is True and flag.alone:
        return flag.alone
    if isinstance(value, list):  # "layers": [30, 60, 10, 1]
        text = (flag.value.joined or joined_items)(value)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        text = str(value)
    else:
        text = json.dumps(value, default=str)
        raise UsageError(
            f"{path}: {flag.name}: found {text}, expected {flag.value.expected}"
        )
    if not is_file_name(text):
        raise UsageError(
            f"{path}: {flag.name}: found a character that no name has, expected {flag.value.expected}"
        )
    try:
        return flag.value(flag.name, text)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
