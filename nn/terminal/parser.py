"""The parser of the command line, made from the table of flags; words as commands stand
for flags."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import islice
from types import SimpleNamespace
from typing import Annotated

from ..settings.flags import FLAGS, GONE, MODES, Flag, meant
from ..utils import UsageError, closest

SAID = {  # what a person may call a word
    "help": "--help",
    "fit": "train",
    "evaluate": "test",
    "eval": "test",
    "score": "predict",
    "show": "info",
    "convert": "export",
}
ASKED = ("--help", "-h", "--version", "--completion")  # of help.py
_KNOWN = {name: flag for flag in [*MODES.values(), *FLAGS] for name in flag.names}
_TWICE = ("model", "dataset")  # two different ones are more often a slip than meant

# a flag (None: a word, or a flag that there is not), its value, its tokens
Read = tuple[Flag | None, str, list[str]]


def parse(argv: list[str]) -> SimpleNamespace | None:
    """Return the flags as attributes, None or False where not given, values checked;
    None after --help and its like.

    The attribute `remarks` has what a person should be told of them. Raises UsageError
    whose line names the flag.
    """
    if not set(ASKED).isdisjoint(argv):
        from .help import show

        show(argv)
        return None
    read = _named(list(_read(argv)))
    given = SimpleNamespace(remarks=_remarks(read), **nothing_given())
    for name, text in _texts(read).items():
        value = _KNOWN[f"--{name}"].value
        setattr(given, name, value(f"--{name}", text) if value else text)
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
    if not all(_is_complete(*one) for one in read):
        texts = _by_typer(read)
    else:
        texts = {flag.name: text if flag.value else True for flag, text, _ in read}
    lists = {
        flag: []
        for flag, _, _ in read
        if flag is not None and flag.value and flag.value.adds_up
    }
    for flag, text, _ in read:
        if flag in lists:
            lists[flag].append(text)
    return texts | {
        flag.name: ",".join(own) for flag, own in lists.items() if len(own) > 1
    }


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
    import typer

    if flag.value is None:
        kind = bool
        default = False
    else:
        kind = str | None
        default = None
    annotation = Annotated[kind, typer.Option(*flag.names)]
    return inspect.Parameter(
        flag.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=annotation,
    )


def _explanation(error) -> str:
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
    known = [
        spelling[2:]
        for spelling in [*_KNOWN, "--help", "--version"]
        if spelling.startswith("--")
    ]
    close = meant(name.lstrip("-").replace("-", "_"), known)
    if close:
        return f": did you mean --{close}?"
    return "; nn --help --all lists all flags"


# ---------------------------------------------------------------- words


def _read(argv: list[str]) -> Iterator[Read]:
    tokens = iter(argv)
    for token in tokens:
        if token == "--":
            yield from ((None, word, [word]) for word in tokens)
        elif not token.startswith("-") or token == "-":
            yield None, token, [token]
        else:
            if token.startswith("--"):
                *switches, (name, equals, value) = [token.partition("=")]
            else:
                *switches, (name, equals, value) = _short(token)
            yield from ((_KNOWN[switch], "", [switch]) for switch, *_ in switches)
            flag = _KNOWN.get(
                "--" + name[2:].replace("-", "_") if name.startswith("--") else name
            )
            if flag is not None and flag.alone and not equals:
                equals = "="
                value = flag.alone
            if flag is None or flag.value is None or equals or value:
                following = []
            else:
                following = [*islice(tokens, 1)]
            yield (
                flag,
                value or "".join(following),
                [f"{name}{equals}{value}", *following],
            )


def _short(token: str) -> list[tuple[str, str, str]]:
    """Return the flags of a token of short ones, such as -v, -vf or -vmFILE: (flag, "",
    what follows it)."""
    parts = []
    for at, letter in enumerate(token[1:], start=1):
        flag = _KNOWN.get(f"-{letter}")
        if flag is None or flag.value is not None:
            return [*parts, (f"-{letter}", "", token[at + 1 :])]
        parts.append((f"-{letter}", "", ""))
    return parts


def _named(read: list[Read]) -> list[Read]:
    """Return the flags of a line, the words among them as the flags that they stand
    for. Raises UsageError."""
    words = [text for flag, text, tokens in read if flag is None and tokens == [text]]
    if not words or any(
        flag is None and tokens != [text] for flag, text, tokens in read
    ):
        return read  # no such flag: typer's to refuse
    mode = words[0]
    _check_words(mode, words, read)
    asked = MODES[mode]
    has_value = asked.value is not None and len(words) > 1
    if asked.value and not (has_value or asked.alone):
        raise UsageError(
            f"--{mode} needs {asked.metavar}; nn {mode} --help shows its flags"
        )
    values: dict[str, str] = {}
    if not has_value:
        values[mode] = asked.alone or mode
    for name, word in zip(asked.words, words[1:], strict=False):
        if name in values:
            values[name] = f"{values[name]},{word}"
        else:
            values[name] = word
    named = []
    for flag, text, tokens in read:
        if flag is not None:
            named.append((flag, text, tokens))
        elif values and not (text is mode and has_value):
            name = next(iter(values))
            named.append(_as_flag(name, values.pop(name)))
    return named


def _as_flag(name: str, text: str) -> Read:
    """Return a word as if its flag had been given."""
    flag = _KNOWN[f"--{name}"]
    if flag.value:
        return flag, text, [f"{flag.long}={text}"]
    return flag, text, [flag.long]


def _check_words(mode: str, words: list[str], read: list[Read]) -> None:
    """Raise UsageError for words that are no mode with its values."""
    flags = {flag.name for flag, _, _ in read if flag is not None}
    modes = [
        flag.name for flag, _, _ in read if flag is not None and flag.name in MODES
    ]
    if modes or mode not in MODES:
        _check_commas(read)
        raise UsageError(f"unexpected argument {mode}{_place(modes, mode, read)}")
    places = MODES[mode].words
    most = 1 + len(places)
    are_named_too = not flags.isdisjoint(places[: len(words) - 1])
    if len(words) > most or (len(words) > 1 and are_named_too):
        _check_commas(read)
    if len(words) > most:
        raise UsageError(
            f"unexpected argument {words[most]}{_too_many(mode, words, read)}"
        )


def _check_commas(read: list[Read]) -> None:
    """Raise UsageError for words behind the value of a list: there are commas between
    its words."""
    for at, (flag, text, _) in enumerate(read):
        if flag is None or not flag.value or not flag.value.adds_up:
            continue
        words = []
        for behind, word, _ in read[at + 1 :]:
            if behind is not None:
                break
            words.append(word)
        if words:
            there = ",".join([text, *words])
            raise UsageError(
                f"unexpected argument {words[0]}: {flag.long} has commas between its words: {there}"
            )


def _place(modes: list[str], word: str, read: list[Read]) -> str:
    given = {flag.name for flag, _, _ in read if flag is not None}
    name = next(
        (name for mode in modes[:1] for name in MODES[mode].words if name not in given),
        None,
    )
    if name:
        return f": did you mean --{name} {word}?"
    if modes and MODES[modes[0]].alone:
        return f": did you mean --{modes[0]}={word}?"
    if modes:
        close = None
    else:
        close = SAID.get(word) or closest(word, MODES)
    if close:
        return f": did you mean nn {close}?"
    return "; nn --help shows what nn takes"


def _too_many(mode: str, words: list[str], read: list[Read]) -> str:
    """Return where the first word that has no place probably belongs."""
    word = words[1 + len(MODES[mode].words)]
    if mode == "train":
        name = "model"
    else:
        name = "output"
    if mode == "train" and word.rpartition(".")[2] == words[1].rpartition(".")[2]:
        return f"; files have commas between them: nn train {','.join(words[1:3])}"
    if mode in _KNOWN[f"--{name}"].modes and name not in {
        flag.name for flag, _, _ in read if flag is not None
    }:
        return f": did you mean --{name} {word}?"
    return f"; nn {mode} takes {' '.join(f'--{name}' for name in MODES[mode].words)} in this order"


def _remarks(read: list[Read]) -> list[str]:
    """Return remarks on files that are given twice. Raises UsageError for two names of
    one flag with other values."""
    remarks = []
    for flag in {
        flag: None
        for flag, _, _ in read
        if flag and (flag.alias or flag.name in _TWICE)
    }:
        texts = {
            tokens[0].partition("=")[0].replace("-", "_"): text
            for own, text, tokens in read
            if own is flag
        }
        values = list(dict.fromkeys(text for own, text, _ in read if own is flag))
        if flag.alias and len(set(texts.values())) > 1:
            found = " and ".join(
                f"--{name} {texts['__' + name]}" for name in (flag.name, flag.alias)
            )
            raise UsageError(f"{found}: two names of one flag; leave one out")
        if flag.name in _TWICE and len(values) > 1:
            remarks.append(
                f"{flag.long} is given as {' and '.join(values)}; the last one counts"
            )
    return remarks


def _check_mode(given: SimpleNamespace) -> None:
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
