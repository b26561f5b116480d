"""The manual page, made from the commands themselves: `python -m tests.docs.manual FILE`."""

import datetime
import subprocess
import sys
from pathlib import Path

import typer

from loadstone import __version__, cli
from loadstone.cli import application

ESCAPED = str.maketrans({"\\": "\\e", "-": "\\-"})


def manual(date: datetime.date) -> str:
    """Return the page in roff: every command with its help and its options."""
    group = typer.main.get_command(application.app)
    parts = [
        f'.TH LOADSTONE 1 "{date:%Y-%m-%d}" "loadstone {__version__}" "User Commands"',
        ".SH NAME\nloadstone \\- measures storage, and says what limited each number",
        ".SH SYNOPSIS\n.B loadstone\n.I COMMAND\n[OPTIONS]",
        ".SH COMMANDS",
    ]
    with group.make_context("loadstone", [], resilient_parsing=True) as context:
        for row in cli.COMMANDS:
            command = group.get_command(context, row.name)  # type: ignore[attr-defined]
            sub_context = command.make_context(row.name, [], parent=context, resilient_parsing=True)
            parts.append(f".SS {_escape(row.name)}\n{_escape(row.summary)}")
            parts.append(_example(command.help or ""))
            parts += [
                _option(record)
                for record in (each.get_help_record(sub_context) for each in command.params)
                if record
            ]
    parts.append(
        ".SH EXIT STATUS\n0: all went well. 1: the command or a request failed. 2: wrong usage."
        " 3: a threshold was crossed, or a case got slower. 4: no case of a comparison has a ratio."
        " 5: all else went well, and something that the run made is still on a target."
        " 130: interrupted."
    )
    return "\n".join(filter(None, parts)) + "\n"


def _option(record: tuple[str, str]) -> str:
    names, about = record
    return f".TP\n.B {_escape(names)}\n{_escape(about)}"


def _example(text: str) -> str:
    lines = text.partition("\b\n")[2].rstrip().splitlines()
    return ".PP\n.nf\n" + "\n".join(map(_escape, lines)) + "\n.fi" if lines else ""


def _escape(text: str) -> str:
    # A line that begins with a dot or an apostrophe would be a command of roff.
    plain = " ".join(text.splitlines()) if "\n" in text else text
    escaped = plain.translate(ESCAPED)
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


if __name__ == "__main__":
    done = subprocess.run(["git", "log", "-1", "--format=%cs"], capture_output=True, text=True)
    known = done.stdout.strip()
    date = datetime.date.fromisoformat(known) if known else datetime.date.today()
    Path(sys.argv[1]).parent.mkdir(parents=True, exist_ok=True)
    Path(sys.argv[1]).write_text(manual(date))
