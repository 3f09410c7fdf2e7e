"""--help, --version and --completion: one screen of the commonest flags, all flags,
what a shell completes."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable

from .. import __version__
from ..settings.flags import BY_NAME, FLAGS, MODE_WORDS, MODES, Flag, flags_of_mode
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
    "the commonest flags of training, nn train --help --all lists all of them, nn --version prints the version. "
    'eval "$(nn --completion bash)" lets the shell complete words and flags (bash, zsh, fish).'
)
SHELLS = ("bash", "zsh", "fish")
_ALL = [*MODES.values(), *FLAGS]
_LEFT = 31  # columns of a flag's names


def show(argv: list[str]) -> None:
    """Print the help, the version or the completions that argv asks for. Raises
    UsageError."""
    everything = "--all" in argv
    if "--version" in argv:
        text = f"nn {__version__}"
    elif "--completion" in argv:
        text = _completion(argv[argv.index("--completion") + 1 :])
    else:
        words = [word for word in argv if not word.startswith("-")][:1]
        modes = [mode for mode in MODES if mode in words or f"--{mode}" in argv]
        if modes:
            text = _mode_help(modes[0], everything)
        else:
            text = _overview(everything)
    print(text)


def _overview(everything: bool) -> str:
    """Return the modes in a few lines each; with --all the flags too."""
    lines = [
        "Train and test neural networks, fast, with the same results everywhere.",
        "",
    ]
    for mode in MODES.values():
        lines += _entry(f"nn {mode.word} {mode.usage}", mode.help)
    lines += ["", *_wrapped(ABOUT)]
    if everything:
        lines += _groups(_ALL)
    return "\n".join(lines)


def _mode_help(mode: str, everything: bool) -> str:
    """Return a mode's help: the common flags, or all."""
    flags = [flag for flag in FLAGS if mode in flag.modes]
    called = f"nn {MODES[mode].word}"
    lines = [f"{called} {MODES[mode].usage} [flags]", "", MODES[mode].help, ""]
    if everything:
        lines += _groups(flags)
    else:
        common = [BY_NAME[name] for name in COMMON if BY_NAME[name] in flags]
        lines += [f"  {_names(flag):{_LEFT}} {COMMON[flag.name]}" for flag in common]
        if len(flags) > len(common):
            lines += ["", f"{called} --help --all lists all {len(flags)} flags."]
    if mode in NOTES:
        lines += ["", *_wrapped(NOTES[mode])]
    return "\n".join(lines)


def _names(flag: Flag) -> str:
    return f"{', '.join(flag.names)} {flag.metavar or ''}".strip()


def _groups(flags: Iterable[Flag]) -> list[str]:
    """Return all flags with their help, under the names of their groups."""
    by_group: dict[str, list[str]] = {}
    for flag in flags:
        by_group.setdefault(flag.group, []).extend(_entry(_names(flag), flag.help))
    lines = []
    for group, entries in by_group.items():
        lines += ["", f"{group}:", *entries]
    return lines


def _entry(names: str, text: str) -> list[str]:
    """Return the lines of names on the left and a text on the right."""
    lines = _wrapped(text, " " * (_LEFT + 3))
    if len(names) > _LEFT:
        return [f"  {names}", *lines]
    lines[0] = f"  {names:{_LEFT}} {lines[0].lstrip()}"
    return lines


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


def _completion(words: list[str]) -> str:
    """Return what makes a shell complete, by the words behind --completion. Raises
    UsageError for no shell that is known."""
    shell = "nothing"
    if words:
        shell = words[0]
    if shell not in SHELLS:
        raise UsageError(f"--completion {shell}: expected {', '.join(SHELLS)}")
    if shell == "fish":
        return _fish()
    if shell == "zsh":
        return f"autoload -U +X bashcompinit && bashcompinit\n{_bash()}"
    return _bash()


def _spellings(flags: Iterable[Flag]) -> str:
    return " ".join(name for flag in flags for name in flag.names)


def _bash() -> str:
    """Return the function that completes words, flags by the mode, and values that are
    names; else files."""
    values = []
    for flag in FLAGS:
        if _has_names(flag):
            names = " ".join(flag.value.names)
            values.append(f'    {"|".join(flag.names)}) words="{names}" ;;')
    modes = []
    for name, mode in MODES.items():
        names = _spellings(flag for flag in _ALL if flag.name in flags_of_mode(name))
        modes.append(f'        {mode.word}) words="{names} --help" ;;')
    return "\n".join(
        [
            "_nn() {",
            '    local cur="${COMP_WORDS[COMP_CWORD]}" words=""',
            '    case "${COMP_WORDS[COMP_CWORD - 1]}" in',
            *values,
            f'    *) if [[ $COMP_CWORD == 1 && $cur != -* ]]; then words="{" ".join(MODE_WORDS)}"; fi',
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
    """Return a line for each word and each flag, with values that are names."""
    lines = [
        f"complete -c nn -n __fish_use_subcommand -a {mode.word} -d '{_plain(mode.help)}'"
        for mode in MODES.values()
    ]
    for flag in _ALL:
        words = ["complete -c nn"]
        for name in flag.names:
            if name.startswith("--"):
                words.append(f"-l {name[2:]}")
            else:
                words.append(f"-s {name[1:]}")
        if _has_names(flag):
            words.append(f"-x -a '{' '.join(flag.value.names)}'")
        elif flag.value and not flag.alone:
            words.append("-r")
        lines.append(f"{' '.join(words)} -d '{_plain(flag.help)}'")
    return "\n".join(lines)


def _has_names(flag: Flag) -> bool:
    return bool(flag.value and flag.value.names)


def _plain(text: str) -> str:
    return text.replace("'", "")
