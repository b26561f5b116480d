"""The typer application: the group of all commands, and the messages for typer's errors."""

import difflib
import importlib
import os
import re
import sys
import traceback
from itertools import zip_longest
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from loadstone import __version__
from loadstone.cli import ABOUT, COMMANDS, EXAMPLES, HELP_TEXTS, exit_code
from loadstone.cli.messages import FORM, tell
from loadstone.errors import InputError, LoadstoneError

__all__ = ["app", "main"]

READERS = frozenset({"report", "analyse", "compare", "history", "import"})
"""Commands that read files that others may have modified."""

# Typer bundles its own copy of click, and exports only some of its error classes; their common base
# class is two levels above this one.
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

BLOCKS = "6"
"""Blocks of `bench --blocks` without a number: six pairs can decide a comparison."""


class _Commands(TyperGroup):
    """The group of all commands; each is imported when it is first needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [command.name for command in COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = next((command for command in COMMANDS if command.name == cmd_name), None)
        if command is None:
            return None
        module = importlib.import_module(f"loadstone.cli.commands.{command.module}")
        app = typer.Typer(
            add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
        )
        # The module's docstring is the command's help, with examples. Flags after a nested command
        # belong to that command.
        settings = {**HELP, **getattr(module, "CONTEXT_SETTINGS", {})}
        app.command(
            name=command.name, context_settings=settings, help=module.__doc__, no_args_is_help=False
        )(module.command)
        made = typer.main.get_command(app)
        made.short_help = command.summary
        return made

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        # Written from the table, because asking each command would import all of them.
        with formatter.section("Commands"):
            formatter.write_dl([(command.name, command.summary) for command in COMMANDS])


HELP = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    context_settings=HELP,
    cls=_Commands,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"loadstone {__version__}")
        raise typer.Exit


def _set_form_of_errors(form: str | None) -> None:
    if form is None:
        return
    if form not in ("terminal", "json"):
        raise InputError.of_value(form, "a format of errors: terminal, json")
    os.environ[FORM] = form


@app.callback(
    help=f"{ABOUT}\n\n\b\nExamples:\n" + "".join(f"  {line}\n" for line in EXAMPLES),
    no_args_is_help=True,
)
def _options(
    version: bool = typer.Option(
        False,
        "--version",
        "-V",
        callback=_print_version,
        is_eager=True,
        help=HELP_TEXTS["-V, --version"],
    ),
    debug: bool = typer.Option(False, "--debug", help=HELP_TEXTS["--debug"]),
    errors: str | None = typer.Option(
        None,
        "--errors",
        metavar="FORMAT",
        # Processed before the command is looked up, because an unknown command is also an error.
        callback=_set_form_of_errors,
        is_eager=True,
        help=HELP_TEXTS["--errors FORMAT"],
    ),
) -> None:
    if debug:
        os.environ["LOADSTONE_DEBUG"] = "1"


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit code; print expected errors as a message with a hint."""
    try:
        # Commands read the typed arguments from their context, because a record stores its command.
        typed = sys.argv[1:] if arguments is None else arguments
        words = _with_values(typed)
        code: Any = app(args=words, standalone_mode=False, prog_name="loadstone", obj=typed)
    except LoadstoneError as error:
        return _fail(error)
    except USAGE_ERROR as error:
        return _fail_usage(error)
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        return exit_code.INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has closed the pipe: nothing more can be printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_code.FAILED
    except ModuleNotFoundError as error:
        from loadstone.cli import extras

        extra = extras.extra_of(error.name or "")
        if extra is None:
            raise
        return _fail(extras.refuse(f"loadstone {typed[0]}" if typed else "this", extra))
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        names = {command.name for command in COMMANDS}
        command = next((word for word in typed if word in names), "")
        if command not in READERS or os.environ.get("LOADSTONE_DEBUG"):
            raise
        return _fail_reading(error)
    return code if isinstance(code, int) else 0


def _with_values(typed: list[str]) -> list[str]:
    """Add the default number to `bench --blocks` without one; typer has no optional values."""
    words = []
    for word, after in zip_longest(typed, typed[1:], fillvalue="-"):
        words.append(word)
        if word == "--blocks" and after.startswith("-") and "bench" in typed:
            words.append(BLOCKS)
    return words


def _fail_reading(error: Exception) -> int:
    """Report inconsistent input files; most likely one was edited by hand."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}, line {last.lineno}"
    what = f"{type(error).__name__}: {error}"
    tell(
        LoadstoneError(
            f"input files are inconsistent: {what} ({place})",
            "use files that were not edited; if they were not, this is a defect of loadstone: put"
            " --debug before the command, and report the output",
            kind="unreadable",
        )
    )
    return exit_code.FAILED


def _fail(error: LoadstoneError) -> int:
    if os.environ.get("LOADSTONE_DEBUG"):
        raise error
    tell(error)
    return exit_code.FAILED


def _fail_usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return exit_code.USAGE
    # The hint contains the suggestions. "Value error" is a term of the parser.
    message = re.sub(r" \((Possible options|Did you mean).*\)", "", error.format_message()).rstrip(
        "."
    )
    message = message.replace("Value error, ", "")
    path = error.ctx.command_path if getattr(error, "ctx", None) else "loadstone"
    names = [command.name for command in COMMANDS]
    unknown = re.match(r"no such command '([^']*)'", message, re.IGNORECASE)
    meant = difflib.get_close_matches(unknown[1], names, 1) if unknown else []
    hint = f"did you mean: loadstone {meant[0]}" if meant else f"see {path} --help"
    if options := getattr(error, "possibilities", None):
        hint += f"; did you mean {' or '.join(options)}?"
    tell(LoadstoneError(f"{message[:1].lower()}{message[1:]}", hint, kind="usage"))
    return exit_code.USAGE
