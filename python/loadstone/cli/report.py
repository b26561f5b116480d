"""Render what a run measured, from its folder alone.

published:NAME is a published report; datasafe:FILE and tpch:FILE are logs of other tools that hold
no requests. All of them also come as markdown, json, html, svg and png.

\b
Examples:
  loadstone report runs/demo
  loadstone report runs/demo -f html -o report.html
  loadstone report runs/demo -f json | jq '.cases[].requests_per_s'
  loadstone report runs/demo --table hummingbird --head "4 KB 5 nodes Results"
  loadstone report published:theflash -f html -o theflash.html
  loadstone report datasafe:m5.large=a.log datasafe:c5n.large=b.log -f html -o clients.html
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from loadstone.errors import InputError

# What most people mean by the name of a report.
ALIASES = {"text": "terminal", "md": "markdown"}


def command(
    runs: Annotated[
        list[str], typer.Argument(help="Run folders, or published:NAME.", metavar="RUN...")
    ],
    form: Annotated[
        str, typer.Option("--format", "-f", help="See: loadstone list reports.")
    ] = "terminal",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File, or folder for several files.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="Layout of the table; see: loadstone list tables.")
    ] = None,
    head: Annotated[str | None, typer.Option(help="The table's head cell, literally.")] = None,
    spread: Annotated[
        str, typer.Option(help="What stands behind a ±: seconds or trials.")
    ] = "seconds",
    decimal_comma: Annotated[bool, typer.Option(help="Write 0,5 for 0.5 in tables.")] = False,
    megabyte: Annotated[str, typer.Option(help="What MB/Sec counts: MB or MiB.")] = "MB",
) -> None:
    from loadstone.cli.account_reports import is_account, print_accounts, refuse_file_of_requests

    if any(map(is_account, runs)):
        if not all(map(is_account, runs)):
            raise InputError(
                "runs have no report in common with published reports and files",
                "name them in calls of their own",
            )
        print_accounts(runs, ALIASES.get(form, form), output)
        return
    for name in runs:
        refuse_file_of_requests(name)
    from loadstone.cli.reporting import find_report, render, report_options, write
    from loadstone.results.store import read_run

    report = find_report(ALIASES.get(form, form))
    if len(runs) > 1 and output is not None and not report.is_folder:
        raise InputError("several runs cannot be written to one file", "name one run, or no file")
    for name in runs:
        run = read_run(name)
        options = report_options(
            run,
            table=table,
            head=head,
            spread=spread,
            decimal_comma=decimal_comma,
            megabyte=megabyte,
            is_terminal=output is None and sys.stdout.isatty(),
        )
        write(report, *render(run), options, output)
