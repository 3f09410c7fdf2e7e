"""The parser of the command line, made from the table of flags; words as commands stand
for flags."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from itertools import islice
from types import SimpleNamespace
from typing import Annotated

from ..settings.flags import ELSEWHERE, FLAGS, GONE, MODE_WORDS, MODES, Flag, meant
from ..utils import UsageError, closest

MODE_SYNONYMS = {  # of the words, as people may type them
    "fit": "train",
    "evaluate": "test",
    "eval": "test",
    "score": "predict",
    "show": "info",
    "convert": "export",
    "serve": "export",
    "tune": "train --effort best",
    "report": "test --report page.html",
    "run": "predict",
    "apply": "predict",
    "infer": "predict",
    "version": "--version",
    "list": "help",
}
HELP_FLAGS = ("--help", "-h", "--version", "--completion")  # of help.py
_KNOWN = {name: flag for flag in [*MODES.values(), *FLAGS] for name in flag.names}
_TWICE = ("model", "dataset")  # two different ones are more often a slip than meant

# a flag (None: a word, or a flag that there is not), its value, its tokens
Read = tuple[Flag | None, str, list[str]]


def parse(argv: list[str]) -> SimpleNamespace | None:
    """Return the flags as attributes, None or False where not given, values checked;
    None after --help and its like.

    The attribute `remarks` has remarks on them for a person. Raises UsageError
    whose line names the flag.
    """
    if argv[:1] == ["help"] or not argv:
        argv = [*argv[1:], "--help"]
        if argv[0] not in (*MODE_WORDS, *HELP_FLAGS, "--all"):
            raise UsageError(f"help {argv[0]}: expected one of {', '.join(MODE_WORDS)}")
    argv = [MODE_WORDS.get(argv[0], argv[0]), *argv[1:]]
    if not set(HELP_FLAGS).isdisjoint(argv):
        from .help import show

        show(argv)
        return None
    read = _named(list(_read(argv)))
    given = SimpleNamespace(remarks=_remarks(read), **nothing_given())
    for name, text in _texts(read).items():
        check = _KNOWN[f"--{name}"].value
        if check:
            text = check(f"--{name}", text)
        setattr(given, name, text)
    if given.config is not None:
        from .config import apply_config

        apply_config(given)
    _check_mode(given)
    return given


def nothing_given() -> dict:
    """Return what each flag is that is not given."""
    return {flag.name: None if flag.value else False for flag in _KNOWN.values()}


# ---------------------------------------------------------------- typer


def _texts(read: list[Read]) -> dict[str, str | bool]:
    """Return the texts of the flags of a line: of lists all of each, of others the
    last. Raises UsageError."""
    if not all(_is_complete(*flag) for flag in read):
        texts = _by_typer(read)
    else:
        texts = {flag.name: text if flag.value else True for flag, text, _ in read}
    lists: dict[str, list[str]] = {}
    for flag, text, _ in read:
        if flag is not None and flag.value and flag.value.adds_up:
            lists.setdefault(flag.name, []).append(text)
    for name, words in lists.items():
        if len(words) > 1:
            texts[name] = ",".join(words)
    return texts


def _is_complete(flag: Flag | None, text: str, tokens: list[str]) -> bool:
    """Return whether a flag has all that it needs, and no more: a line of such flags
    says what it means. It is read without typer, whose import takes as long as
    NumPy's."""
    has_equals = tokens[0].startswith("--") and "=" in tokens[0]
    if flag is None:
        return False
    if flag.value:
        return text != "" or has_equals
    return not has_equals


def _by_typer(read: list[Read]) -> dict[str, str | bool]:
    """Return what typer makes of a line. Raises UsageError with what it says of the
    mistake."""
    import typer

    flags = dict.fromkeys(flag for flag, _, _ in read if flag)
    parameters = [_parameter(flag) for flag in flags]

    def nn(**values):
        return {
            name: value
            for name, value in values.items()
            if value is not None and value is not False
        }

    nn.__signature__ = inspect.Signature(parameters)
    nn.__annotations__ = {
        parameter.name: parameter.annotation for parameter in parameters
    }
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    # --batch-number is --batch_number
    settings = {"token_normalize_func": lambda name: name.replace("-", "_")}
    app.command(add_help_option=False, context_settings=settings)(nn)
    # wherever this typer keeps its click: a package of its own, or inside typer
    mistake = typer.BadParameter.__bases__[0]
    try:
        argv = [token for _, _, tokens in read for token in tokens]
        return typer.main.get_command(app).main(
            args=argv, prog_name="nn", standalone_mode=False
        )
    except mistake as error:
        raise UsageError(_explanation(error)) from error


def _parameter(flag: Flag) -> inspect.Parameter:
    """Return a flag as a parameter of the function that typer calls."""
    import typer

    kind = str | None
    default = None
    if flag.value is None:
        kind = bool
        default = False
    return inspect.Parameter(
        flag.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, typer.Option(*flag.names)],
    )


def _explanation(error) -> str:
    """Return what typer says of a mistake, in the form of the other messages."""
    message = error.message.rstrip(".")
    if hasattr(error, "possibilities"):  # no such option
        name = error.option_name
        instead = GONE.get(name.lstrip("-"))
        if instead:
            return f"{name}: has gone; use --{instead}"
        return f"no such flag {name}{_suggestion(name)}"
    return message[:1].lower() + message[1:]


def _suggestion(name: str) -> str:
    """Return which flag a name that is none was probably meant to be."""
    names = [name[2:] for name in _KNOWN if name.startswith("--")]
    if name.lstrip("-") in ELSEWHERE:
        return f": {ELSEWHERE[name.lstrip('-')]}"
    close = meant(name.lstrip("-").replace("-", "_"), [*names, "help", "version"])
    if close:
        return f": did you mean --{close}?"
    return "; nn --help --all lists all flags"


# ---------------------------------------------------------------- words


def _read(argv: list[str]) -> Iterator[Read]:
    """Yield the flags and words of a line."""
    tokens = iter(argv)
    for token in tokens:
        if token == "--":
            for word in tokens:
                yield None, word, [word]
        elif not token.startswith("-") or token == "-":
            yield None, token, [token]
        elif token.startswith("--"):
            name, equals, value = token.partition("=")
            flag = _KNOWN.get("--" + name[2:].replace("-", "_"))
            yield _with_value(flag, name, equals, value, tokens)
        else:
            *switches, (name, value) = _short(token)
            for switch, _ in switches:
                yield _KNOWN[switch], "", [switch]
            yield _with_value(_KNOWN.get(name), name, "", value, tokens)


def _with_value(
    flag: Flag | None, name: str, equals: str, value: str, tokens: Iterator[str]
) -> Read:
    """Return a flag with its value: what stands behind its name, what it has alone, or
    the next of the tokens."""
    if flag is not None and flag.alone and not equals:
        equals = "="
        value = flag.alone
    token = f"{name}{equals}{value}"
    if flag is None or flag.value is None or equals or value:
        return flag, value, [token]
    following = [*islice(tokens, 1)]
    return flag, "".join(following), [token, *following]


def _short(token: str) -> list[tuple[str, str]]:
    """Return the flags of a token of short ones, such as -v, -vf or -vmFILE: (flag,
    what follows it)."""
    parts = []
    for place, letter in enumerate(token[1:], start=1):
        flag = _KNOWN.get(f"-{letter}")
        if flag is None or flag.value is not None:
            return [*parts, (f"-{letter}", token[place + 1 :])]
        parts.append((f"-{letter}", ""))
    return parts


def _named(read: list[Read]) -> list[Read]:
    """Return the flags of a line, the words among them as the flags that they stand
    for. Raises UsageError."""
    words = []
    for flag, text, tokens in read:
        if flag is None:
            if tokens != [text]:
                return read  # no such flag: typer's to refuse
            words.append(text)
    if not words:
        return read
    mode = words[0]
    _check_words(mode, words, read)
    has_value = MODES[mode].value is not None and len(words) > 1
    values = _values_of(mode, words[1:], has_value)
    named = []
    for flag, text, tokens in read:
        if flag is not None:
            named.append((flag, text, tokens))
        elif values and not (text is mode and has_value):
            name = next(iter(values))
            named.append(_as_flag(name, values.pop(name)))
    return named


def _values_of(mode: str, words: list[str], has_value: bool) -> dict[str, str]:
    """Return the values of the flags that words behind a mode stand for, in their
    order: first the mode itself, unless the words are its value. Raises UsageError."""
    settings = MODES[mode]
    values: dict[str, str] = {}
    if not has_value:
        if settings.value and not settings.alone:
            raise UsageError(
                f"nn {settings.word} needs {settings.usage}; nn {settings.word} --help shows its flags"
            )
        values[mode] = settings.alone or mode
    for name, word in zip(settings.words, words, strict=False):
        if name in values:
            values[name] = f"{values[name]},{word}"
        else:
            values[name] = word
    return values


def _as_flag(name: str, text: str) -> Read:
    """Return a word as if its flag had been given."""
    flag = _KNOWN[f"--{name}"]
    if flag.value:
        return flag, text, [f"{flag.long}={text}"]
    return flag, text, [flag.long]


def _check_words(mode: str, words: list[str], read: list[Read]) -> None:
    """Raise UsageError for words that are no mode with its values."""
    names = _names(read)
    modes = [name for name in names if name in MODES]
    if modes or mode not in MODES:
        _check_commas(read)
        raise UsageError(f"unexpected argument {mode}{_place(modes, mode, names)}")
    values = words[1:]
    places = MODES[mode].words
    are_named_too = not set(names).isdisjoint(places[: len(values)])
    if len(values) > len(places) or (values and are_named_too):
        _check_commas(read)
    if len(values) > len(places):
        raise UsageError(
            f"unexpected argument {values[len(places)]}{_too_many(mode, values, names)}"
        )


def _names(read: list[Read]) -> list[str]:
    """Return the names of the flags of a line."""
    return [flag.name for flag, _, _ in read if flag is not None]


def _check_commas(read: list[Read]) -> None:
    """Raise UsageError for words behind the value of a list: there are commas between
    its words; and for one behind a switch."""
    for place, (flag, text, _) in enumerate(read, 1):
        words = [text]
        for following, word, _ in read[place:]:
            if following is not None:
                break
            words.append(word)
        if flag is None or flag.name in MODES or len(words) == 1:
            continue
        if not flag.value:
            raise UsageError(
                f"unexpected argument {words[1]}: {flag.long} takes no value; leave {words[1]} out"
            )
        if not flag.value.adds_up:
            continue
        if len(words) > 1:
            raise UsageError(
                f"unexpected argument {words[1]}: {flag.long} has commas between its words: {','.join(words)}"
            )


def _place(modes: list[str], word: str, names: list[str]) -> str:
    """Return where a word that stands for no mode probably belongs. modes: those that
    are given as flags; names: of all flags that are given."""
    if not modes:
        close = MODE_SYNONYMS.get(word) or closest(word, MODES)
        if close:
            return f": did you mean nn {close}?"
        if os.path.isfile(word):
            return f": did you mean nn train {word} -m MODEL?"
    else:
        mode = MODES[modes[0]]
        for name in mode.words:
            if name not in names:
                return f": did you mean --{name} {word}?"
        if mode.alone:
            return f": did you mean --{mode.name}={word}?"
    return "; nn --help shows what nn takes"


def _too_many(mode: str, values: list[str], names: list[str]) -> str:
    """Return where the first word that has no place probably belongs. values: the words
    behind the mode; names: of the flags that are given."""
    places = MODES[mode].words
    word = values[len(places)]
    name = "output"
    if mode == "train":
        name = "model"
        if word.rpartition(".")[2] == values[0].rpartition(".")[2]:
            files = ",".join(values[:2])
            return f"; files have commas between them: nn train {files}"
    if mode in _KNOWN[f"--{name}"].modes and name not in names:
        return f": did you mean --{name} {word}?"
    flags = " ".join(f"--{place}" for place in places)
    return f"; nn {MODES[mode].word} takes {flags} in this order"


def _remarks(read: list[Read]) -> list[str]:
    """Return remarks on files that are given twice. Raises UsageError for two names of
    one flag with other values."""
    remarks = []
    for flag in dict.fromkeys(flag for flag, _, _ in read if flag):
        given = [(text, tokens) for other, text, tokens in read if other is flag]
        if flag.alias:
            _check_alias(flag, given)
        values = list(dict.fromkeys(text for text, _ in given))
        if flag.name in _TWICE and len(values) > 1:
            remarks.append(
                f"{flag.long} is given as {' and '.join(values)}; the last one counts"
            )
    return remarks


def _check_alias(flag: Flag, given: list[tuple[str, list[str]]]) -> None:
    """Raise UsageError for two names of one flag with other values. given: (its text,
    its tokens)."""
    texts = {
        tokens[0].partition("=")[0].replace("-", "_"): text for text, tokens in given
    }
    if len(set(texts.values())) > 1:
        names = (flag.name, flag.alias)
        both = " and ".join(f"--{name} {texts['__' + name]}" for name in names)
        raise UsageError(f"{both}: two names of one flag; leave one out")


def _check_mode(given: SimpleNamespace) -> None:
    """Raise UsageError unless one mode is given, and for flags that contradict each
    other."""
    modes = [f"--{mode}" for mode in MODES if getattr(given, mode)]
    everything = ", ".join(f"--{mode}" for mode in MODES)
    if not modes:
        raise UsageError(
            f"no mode given; choose one of {everything}; nn --help shows what they do"
        )
    if len(modes) > 1:
        raise UsageError(f"{' and '.join(modes)}: only one of {everything} at a time")
    if given.quiet and given.verbose:
        raise UsageError("--quiet and --verbose contradict each other; leave one out")
