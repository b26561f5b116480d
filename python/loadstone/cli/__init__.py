"""The command line: the only code that prints, reads flags or exits.

A command is one module here and one line in COMMANDS. Command modules and typer are imported only
when a command is used, because typer dominates the start-up time: `loadstone --help` needs neither.
"""

import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from loadstone import __version__

__all__ = ["COMMANDS", "command_for", "main", "plain"]


class Command(NamedTuple):
    """One command: its name, its line in the overview, and its module below `cli.commands`."""

    name: str
    summary: str
    module: str


COMMANDS = (
    Command("demo", "Measure the embedded store, end to end, with a report.", "load.demo"),
    Command("run", "Run a campaign file.", "load.run"),
    Command("bench", "Run one workload from flags, without a file.", "load.bench"),
    Command(
        "card",
        "Test what a store supports: conditions, listings, parts, versions, checksums.",
        "load.card",
    ),
    Command("ab", "Compare a new build of a server with its base; fail if it is worse.", "load.ab"),
    Command(
        "script",
        "Make, show, check and convert scripts of users' actions, and traces.",
        "load.script",
    ),
    Command("nodes", "Describe and probe the machines of a campaign.", "load.nodes"),
    Command("clean", "Remove the data that a run left on its targets.", "load.clean"),
    Command(
        "audit",
        "Read back a run's objects, and compare them with its acknowledged writes.",
        "load.audit",
    ),
    Command(
        "report", "Make a report of a run: terminal, HTML, CSV, JSON and others.", "results.report"
    ),
    Command(
        "compare", "Compare runs or targets: how much faster, with an interval.", "results.compare"
    ),
    Command(
        "history", "Compare many runs of one campaign: when did it get slower?", "results.history"
    ),
    Command("view", "Show runs in a browser: reports, comparisons, running runs.", "results.view"),
    Command("analyse", "Judge the numbers of a run or a published report.", "results.analyse"),
    Command(
        "published",
        "List and show the published reports that loadstone includes.",
        "results.published",
    ),
    Command("import", "Convert another tool's output into a run folder.", "results.import_"),
    Command(
        "calibrate", "Measure the load generator's own ceiling on this host.", "load.calibrate"
    ),
    Command("doctor", "Check what limits this host as a source of load.", "load.doctor"),
    Command("hosts", "Check whether a campaign's client hosts can make its load.", "load.hosts"),
    Command("agent", "Generate load on this host for a controller on another host.", "load.agent"),
    Command("serve", "Serve the embedded object store (S3 and Swift).", "load.serve"),
    Command("list", "List drivers, operations, probes, reports, tables or runs.", "results.list_"),
)

ABOUT = "Measure storage: object stores, file systems, block devices."
EXAMPLES = (
    "loadstone demo",
    "loadstone run campaign.yaml",
    "loadstone bench put,get s3+http://127.0.0.1:9000 -t 64 -s 4KiB -n 100000",
    "loadstone report runs/2026-11-21T0800-hummingbird -f html -o report.html",
)
HELP_TEXTS = {
    "-V, --version": "Print the version.",
    "--debug": "Show the stack trace of an error.",
    "--errors FORMAT": "Format of errors: terminal or json.",
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Show completion for the current shell, to copy it or customize the "
    "installation.",
    "-h, --help": "Show this message and exit.",
}
"""The global options, as typer shows them; a test keeps both texts equal."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit code; print expected errors as a message with a hint."""
    typed = sys.argv[1:] if arguments is None else arguments
    return command_for(typed)(typed)


def command_for(typed: list[str]) -> Callable[[list[str]], int]:
    """Return the function that runs the typed command, after importing its module."""
    if typed in (["-h"], ["--help"]):
        return lambda _: _say(overview(_columns()))
    if typed in (["-V"], ["--version"]):
        return lambda _: _say(f"loadstone {__version__}\n")
    from loadstone.cli import application

    return application.main


def plain(text: str) -> str:
    """Escape control characters, so that a text cannot control the terminal."""
    if text.replace("\n", "").isprintable():
        return text
    # Imported late, since most commands succeed and need no load generator.
    from loadstone import _loadgen

    return _loadgen.plain(text)


def overview(columns: int) -> str:
    """Return the text of `loadstone --help` for a terminal with this many columns."""
    width = max(min(columns, 80) - 2, 50)
    examples = "".join(f"    {line}\n" for line in EXAMPLES)
    commands = {command.name: command.summary for command in COMMANDS}
    return (
        "Usage: loadstone [OPTIONS] COMMAND [ARGS]...\n\n"
        f"{_wrapped('  ', ABOUT, width)}\n  Examples:\n{examples}\n"
        f"Options:\n{_listed(HELP_TEXTS, width)}\n"
        f"Commands:\n{_listed(commands, width)}"
    )


def _listed(rows: dict[str, str], width: int) -> str:
    column = max(map(len, rows)) + 2
    return "".join(_wrapped(f"  {name:<{column}}", text, width) for name, text in rows.items())


def _wrapped(head: str, text: str, width: int) -> str:
    """Wrap a text to `width` columns: the first line after `head`, the others indented below it."""
    lines = [head]
    for word in text.split():
        gap = "" if len(lines[-1]) == len(head) else " "
        if gap and len(lines[-1]) + 1 + len(word) > width:
            lines.append(" " * len(head))
            gap = ""
        lines[-1] += gap + word
    return "\n".join(lines) + "\n"


def _columns() -> int:
    """Return the terminal's width, in the same way as shutil."""
    try:
        columns = int(os.environ.get("COLUMNS", "0"))
    except ValueError:
        columns = 0
    try:
        return columns if columns > 0 else os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


def _say(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
