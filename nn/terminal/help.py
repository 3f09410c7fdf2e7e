"""--help, --version and --completion: one screen of the commonest flags, all flags,
what a shell completes."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable

from .. import __version__
from ..settings.flags import BY_NAME, FLAGS, MODES, Flag, read_by
from ..utils import UsageError

COMMON = {  # flags that help shows without --all, in this order, each in a line
    "dataset": "table: CSV, Parquet, ... (- is stdin)",
    "model": "the model file",
    "output": "file to write, or folder (- is stdout)",
    "target": "target column, a name or index (last)",
    "effort": "quick, standard, best (standard)",
    "layers": "one network, such as auto,60,10,1",
    "epochs": "passes over the rows (20)",
    "batch_number": "rows in a batch (32)",
    "learning_rate": "step size (0.001 for adam)",
    "holdout": "share of rows that --test is for (0.2)",
    "validation": "share of rows, or file, to choose epochs by",
    "categories": "columns that are categories",
    "drop": "columns that are no inputs",
    "id": "columns kept beside predictions, no inputs",
    "threshold": "score that makes a row class 1 (0.5)",
    "intervals": "95 % intervals of the figures, by bootstrap",
    "report": "write tables and pictures as one page",
    "checkpoint": "file to save an unfinished training in",
    "resume": "go on from a checkpoint, auto: if any",
    "seed": "makes the same numbers again (0)",
    "backend": "auto, seq, omp, cuda, cudnn (auto)",
    "config": "JSON or TOML file with flags",
    "json": "print the result as JSON",
    "quiet": "print results and errors only",
    "verbose": "print all epochs and candidates",
}
NOTES = {
    "predict": "The columns written: row (from 0), the --id columns, the prediction (a class, or a number for each "
    "target), of classes `score CLASS`: the probability of that class (of two classes, of the positive one, which is "
    "compared with --threshold), of several networks the deviation among them, and the truth where DATA has it.",
    "info": "Without MODEL: nn info --layers 30,60,10,1 describes a network that is not trained yet.",
}
ABOUT = (
    "Each word is a flag too: nn --train --dataset DATA --model MODEL, nn --test --model MODEL. nn train --help shows "
    "the commonest flags of training, nn train --help --all lists all of them, nn --version tells the version. "
    'eval "$(nn --completion bash)" lets the shell complete words and flags (bash, zsh, fish).'
)
SHELLS = ("bash", "zsh", "fish")
_ALL = [*MODES.values(), *FLAGS]
_LEFT = 31  # columns of a flag's names


def show(argv: list[str]) -> None:
    """Print the help, the version or the completions that argv asks for. Raises
    UsageError."""
    mode = next(
        (mode for mode in MODES if mode in argv[:1] or f"--{mode}" in argv), None
    )
    if "--version" in argv:
        print(f"nn {__version__}")
    elif "--completion" in argv:
        shell = (argv[argv.index("--completion") + 1 :] or ["nothing"])[0]
        if shell not in SHELLS:
            raise UsageError(f"--completion {shell}: expected {', '.join(SHELLS)}")
        print(_fish() if shell == "fish" else _bash(shell))
    elif mode is None:
        print(_overview("--all" in argv))
    else:
        print(_of_mode(mode, "--all" in argv))


def _overview(everything: bool) -> str:
    lines = [
        "Train and test neural networks, fast, with the same results everywhere.",
        "",
    ]
    for mode in MODES.values():
        lines += _entry(f"nn {mode.name} {mode.usage}", mode.help)
    lines += ["", *_wrapped(ABOUT)]
    return "\n".join([*lines, *(_groups(_ALL) if everything else [])])


def _of_mode(mode: str, everything: bool) -> str:
    """Return a mode's help: the common flags, or all."""
    own = [flag for flag in FLAGS if mode in flag.modes]
    lines = [f"nn {mode} {MODES[mode].usage} [flags]", "", MODES[mode].help, ""]
    if everything:
        lines += _groups(own)
    else:
        common = [BY_NAME[name] for name in COMMON if BY_NAME[name] in own]
        lines += [f"  {_names(flag):{_LEFT}} {COMMON[flag.name]}" for flag in common]
        if len(own) > len(common):
            lines += ["", f"nn {mode} --help --all lists all {len(own)} flags."]
    return "\n".join([*lines, *(["", *_wrapped(NOTES[mode])] if mode in NOTES else [])])


def _names(flag: Flag) -> str:
    return f"{', '.join(flag.names)} {flag.metavar or ''}".strip()


def _groups(flags: Iterable[Flag]) -> list[str]:
    """Return all flags with their help, under the names of their groups."""
    lines = []
    for group in dict.fromkeys(flag.group for flag in flags):
        lines += ["", f"{group}:"]
        for flag in (flag for flag in flags if flag.group == group):
            lines += _entry(_names(flag), flag.help)
    return lines


def _entry(names: str, text: str) -> list[str]:
    """Return the lines of names on the left and a text on the right."""
    first, *rest = _wrapped(text, " " * (_LEFT + 3))
    if len(names) > _LEFT:
        return [f"  {names}", first, *rest]
    return [f"  {names:{_LEFT}} {first.lstrip()}", *rest]


def _wrapped(text: str, indent: str = "") -> list[str]:
    width = max(60, shutil.get_terminal_size().columns)
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


# ---------------------------------------------------------------- completion


def _spellings(flags: Iterable[Flag]) -> str:
    return " ".join(name for flag in flags for name in flag.names)


def _bash(shell: str) -> str:
    """Return the function that completes words, flags by the mode, and values that are
    names; else files."""
    named = [flag for flag in FLAGS if _has_names(flag)]
    values = [
        f'    {"|".join(flag.names)}) words="{" ".join(flag.value.names)}" ;;'
        for flag in named
    ]
    modes = [
        f'        {mode}) words="{_spellings(flag for flag in _ALL if flag.name in read_by(mode))} --help" ;;'
        for mode in MODES
    ]
    if shell == "zsh":
        begin = ["autoload -U +X bashcompinit && bashcompinit"]
    else:
        begin = []
    return "\n".join(
        [
            *begin,
            "_nn() {",
            '    local cur="${COMP_WORDS[COMP_CWORD]}" words=""',
            '    case "${COMP_WORDS[COMP_CWORD - 1]}" in',
            *values,
            f'    *) if [[ $COMP_CWORD == 1 && $cur != -* ]]; then words="{" ".join(MODES)}"; fi',
            '        if [[ $cur == -* ]]; then case "${COMP_WORDS[1]#--}" in',
            *modes,
            f'        *) words="{_spellings(_ALL)} --help --version" ;;',
            "        esac; fi ;;",
            "    esac",
            '    COMPREPLY=($(compgen -W "$words" -- "$cur"))',
            "}",
            "complete -o default -F _nn nn",
        ]
    )


def _fish() -> str:
    lines = [
        f"complete -c nn -n __fish_use_subcommand -a {mode} -d '{_plain(own.help)}'"
        for mode, own in MODES.items()
    ]
    for flag in _ALL:
        names = "".join(
            f" -{'l' if name.startswith('--') else 's'} {name.lstrip('-')}"
            for name in flag.names
        )
        if _has_names(flag):
            value = f" -x -a '{' '.join(flag.value.names)}'"
        elif flag.value and not flag.alone:
            value = " -r"
        else:
            value = ""
        lines.append(f"complete -c nn{names}{value} -d '{_plain(flag.help)}'")
    return "\n".join(lines)


def _has_names(flag: Flag) -> bool:
    return bool(flag.value and flag.value.names)


def _plain(text: str) -> str:
    return text.replace("'", "")
