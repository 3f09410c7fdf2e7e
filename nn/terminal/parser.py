"""The reader of the command line: words and flags, by the table of flags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace

from ..settings.flags import FLAGS, GONE, MODE, MODES, Flag, meant
from ..utils import UsageError, closest

WORDS = {  # a mode as a word -> the flags whose values follow it, in this order; `nn train DATA` is `nn --train ...`
    "train": ("dataset",),
    "test": ("model", "dataset"),
    "predict": ("model", "dataset"),
    "explain": ("model", "dataset"),
    "info": ("model",),
    "export": ("model",),
    "bench": ("case",),
    "sweep": ("sweep",),
    "plot": ("plot",),
}
ASKED = ("--help", "-h", "--version", "--completion")  # of help.py
_KNOWN = {name: flag for flag in FLAGS for name in flag.names}
_TWICE = ("model", "dataset")  # two different ones are more often a slip than meant

Read = tuple[Flag | None, str, str | bool]  # a flag (None: a word that is no flag's), its spelling, its value


def parse(argv: list[str]) -> SimpleNamespace | None:
    """Return the flags as attributes, None or False where not given, values checked; None after --help and its like.

    The attribute `remarks` has what a person should be told of them. Raises UsageError whose line names the flag.
    """
    if not set(ASKED).isdisjoint(argv):
        from .help import show

        show(argv)
        return None
    read = _named(list(_read(argv)))
    given = SimpleNamespace(**{flag.name: None if flag.value else False for flag in FLAGS}, remarks=_remarks(read))
    for flag, text in {flag: text for flag, _, text in read}.items():  # the last one counts
        setattr(given, flag.name, flag.value(flag.long, text) if flag.value else text)
    if given.config is not None:
        from .config import apply_config

        apply_config(given, FLAGS, MODES, GONE)
    _check_mode(given)
    return given


def _read(argv: Iterable[str]) -> Iterator[Read]:
    """Yield the flags and words of a line; `--flag value`, `--flag=value`, `-f value` and `-fvalue` are the same."""
    words = iter(argv)
    for word in words:
        if word == "--":
            yield from ((None, rest, rest) for rest in words)
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            yield _with_value(name, [value] if equals else [], words)
        elif word.startswith("-") and word != "-":
            flag = _KNOWN.get(word[:2])
            while flag is not None and flag.value is None and word[2:]:  # -vf is -v -f
                yield flag, word[:2], True
                word = "-" + word[2:]
                flag = _KNOWN.get(word[:2])
            yield _with_value(word[:2], [word[2:]] if word[2:] else [], words)
        else:
            yield None, word, word


def _with_value(name: str, value: list[str], following: Iterator[str]) -> Read:
    """Return a flag with the value that was written behind it, or the word that follows."""
    flag = _KNOWN.get("--" + name[2:].replace("-", "_") if name.startswith("--") else name)
    if flag is None:
        instead = GONE.get(name.lstrip("-"))
        raise UsageError(f"{name}: has gone; use --{instead}" if instead else f"no such flag {name}{_suggestion(name)}")
    if flag.value is None:
        if value:
            raise UsageError(f"{name}={value[0]}: {name} is a switch, which has no value")
        return flag, name, True
    text = next(iter(value), None) if value else next(following, None)
    if text is None:
        raise UsageError(f"{name}: found nothing, expected {flag.value.expected}")
    return flag, name, text


def _named(read: list[Read]) -> list[Read]:
    """Return the flags of a line, the words among them as the flags that they stand for. Raises UsageError."""
    words = [text for flag, _, text in read if flag is None]
    if not words:
        return read
    modes = [flag.name for flag, _, _ in read if flag is not None and flag.group == MODE]
    if modes or words[0] not in WORDS:
        raise UsageError(f"unexpected argument {words[0]}{_place(modes, words[0], read)}")
    mode = words[0]
    names = iter(WORDS[mode])
    named, is_first = [], True
    for flag, spelling, text in read:
        if flag is not None:
            named.append((flag, spelling, text))
        elif is_first:
            named += [(_KNOWN[f"--{mode}"], mode, True)] if mode not in WORDS[mode] else []
            is_first = False
        else:
            name = next(names, None)
            if name is None:
                raise UsageError(f"unexpected argument {text}{_too_many(mode, words)}")
            named.append((_KNOWN[f"--{name}"], text, text))
    if mode in WORDS[mode] and len(words) == 1:
        raise UsageError(f"--{mode} needs {_KNOWN[f'--{mode}'].metavar}; nn {mode} --help shows its flags")
    return named


def _place(modes: list[str], word: str, read: list[Read]) -> str:
    """Return what a word that stands nowhere probably belongs to."""
    given = {flag.name for flag, _, _ in read if flag is not None}
    name = next((name for mode in modes[:1] for name in WORDS[mode] if name not in given), None)
    if name:
        return f": did you mean --{name} {word}?"
    close = closest(word, [] if modes else WORDS)
    return f": did you mean nn {close}?" if close else "; nn --help shows what nn takes"


def _too_many(mode: str, words: list[str]) -> str:
    if mode == "train":
        return f"; files have commas between them: nn train {','.join(words[1:3])}"
    return f"; nn {mode} takes {' '.join(f'--{name}' for name in WORDS[mode])} in this order"


def _suggestion(name: str) -> str:
    """Return which flag a name that is none was probably meant to be."""
    known = [spelling[2:] for spelling in [*_KNOWN, "--help", "--version"] if spelling.startswith("--")]
    close = meant(name.lstrip("-").replace("-", "_"), known)
    return f": did you mean --{close}?" if close else "; nn --help --all lists all flags"


def _remarks(read: list[Read]) -> list[str]:
    """Return remarks on files that are given twice. Raises UsageError for two names of one flag with other values."""
    remarks = []
    for flag in {flag: None for flag, _, _ in read if flag.alias or flag.name in _TWICE}:
        texts = {spelling.replace("-", "_"): text for own, spelling, text in read if own is flag}
        values = list(dict.fromkeys(text for own, _, text in read if own is flag))
        if flag.alias and len(set(texts.values())) > 1:
            found = " and ".join(f"--{name} {texts['__' + name]}" for name in (flag.name, flag.alias))
            raise UsageError(f"{found}: two names of one flag; leave one out")
        if flag.name in _TWICE and len(values) > 1:
            remarks.append(f"{flag.long} is given as {' and '.join(values)}; the last one counts")
    return remarks


def _check_mode(given: SimpleNamespace) -> None:
    modes = [f"--{mode}" for mode in MODES if getattr(given, mode)]
    everything = ", ".join(f"--{mode}" for mode in MODES)
    if not modes:
        raise UsageError(f"no mode given; choose one of {everything}; nn --help shows all flags")
    if len(modes) > 1:
        raise UsageError(f"{' and '.join(modes)}: only one of {everything} at a time")
    if given.quiet and given.verbose:
        raise UsageError("--quiet and --verbose contradict each other; leave one out")
