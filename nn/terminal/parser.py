"""The parser of the command line, made from the table of flags."""

from __future__ import annotations

import inspect
import signal
from types import SimpleNamespace
from typing import Annotated

import typer

from ..settings.flags import FLAGS, GONE, MODE, MODES, Flag
from ..utils import UsageError, closest

# Wherever this typer keeps its click: a package of its own, or inside typer.
_OptionError = typer.BadParameter.__bases__[0]


def parse(argv: list[str]) -> SimpleNamespace | None:
    """Return the flags as attributes, None or False where not given, values checked; None after --help, --version.

    Raises UsageError whose line names the flag.
    """
    try:
        given = _command().main(args=argv, prog_name="nn", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except SystemExit as ended:  # what it makes of a reader that has gone away, as in `nn --help | head`
        raise BrokenPipeError from ended
    except _OptionError as error:
        raise UsageError(_explanation(error)) from error
    if given == 128 + signal.SIGINT:  # what newer typers make of Ctrl-C, with which they return
        raise KeyboardInterrupt
    if not isinstance(given, SimpleNamespace):
        return None
    _check_aliases(argv)
    for flag in FLAGS:
        text = getattr(given, flag.name)
        if flag.value is not None and text is not None:
            setattr(given, flag.name, flag.value(flag.long, text))
    if given.config is not None:
        from .config import apply_config

        apply_config(given, FLAGS, MODES, GONE)
    _check_mode(given)
    return given


def _command():
    """Return the typer command made from the table."""

    def nn(context, **values):
        for word in context.args:
            raise UsageError(f"unexpected argument {word}{_suggestion('--' + word)}")
        return SimpleNamespace(**values)

    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [context, *map(_parameter, FLAGS)]
    version = typer.Option(
        "--version",
        help="Show the version.",
        metavar=" ",
        rich_help_panel=MODE,
        is_eager=True,
        callback=_print_version,
    )
    parameters.append(
        inspect.Parameter("version", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, version])
    )
    nn.__signature__ = inspect.Signature(parameters)
    nn.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    nn.__doc__ = """Train and test neural networks, fast, with the same results everywhere.

    Example: nn --train --dataset CC.csv --model m.bin && nn --test --model m.bin
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(
        context_settings={
            "allow_extra_args": True,
            "help_option_names": ["-h", "--help"],
            "token_normalize_func": lambda name: name.replace("-", "_"),  # --batch-number is --batch_number
        }
    )(nn)
    return typer.main.get_command(app)


def _parameter(flag: Flag) -> inspect.Parameter:
    option = typer.Option(
        *flag.names,
        help=flag.help,
        metavar=flag.metavar or " ",
        rich_help_panel=flag.group,
        show_default=False,
    )
    kind, default = (bool, False) if flag.value is None else (str | None, None)
    return inspect.Parameter(
        flag.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        print(f"nn {__version__}")
        raise typer.Exit()


def _explanation(error) -> str:
    """Return one line about the parser's error."""
    message = error.message.rstrip(".")
    if hasattr(error, "possibilities"):  # no such option
        instead = GONE.get(error.option_name.lstrip("-"))
        if instead:
            return f"{error.option_name}: has gone; use --{instead}"
        return f"no such flag {error.option_name}{_suggestion(error.option_name)}"
    return message[:1].lower() + message[1:]


def _suggestion(name: str) -> str:
    known = [spelling for flag in FLAGS for spelling in flag.names if spelling.startswith("--")]
    known += ["--help", "--version"]
    close = next((flag for flag in known if flag.startswith(name)), None) or closest(name, known)
    return f": did you mean {close}?" if close else "; nn --help lists all flags"


def _check_aliases(argv: list[str]) -> None:
    """Raise UsageError if a flag and its alias are given with different values."""
    following = [*argv[1:], ""]
    values = {}
    for word, after in zip(argv, following, strict=False):  # no word: nothing follows
        name, equals, value = word.partition("=")
        values[name.replace("-", "_")] = value if equals else after
    for flag in filter(lambda flag: flag.alias, FLAGS):
        texts = {name: values[key] for name in flag.names if (key := name.replace("-", "_")) in values}
        if len(set(texts.values())) > 1:
            found = " and ".join(f"{name} {text}" for name, text in texts.items())
            raise UsageError(f"{found}: two names of one flag; leave one out")


def _check_mode(given: SimpleNamespace) -> None:
    modes = [f"--{mode}" for mode in MODES if getattr(given, mode)]
    everything = ", ".join(f"--{mode}" for mode in MODES)
    if not modes:
        raise UsageError(f"no mode given; choose one of {everything}; nn --help shows all flags")
    if len(modes) > 1:
        raise UsageError(f"{' and '.join(modes)}: only one of {everything} at a time")
    if given.quiet and given.verbose:
        raise UsageError("--quiet and --verbose contradict each other; leave one out")
