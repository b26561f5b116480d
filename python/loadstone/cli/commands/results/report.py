"""Make a report of a run, from its folder alone.

Several runs of one campaign from different clients become one report, with the client as a
parameter. NAME=RUN names a client; the default is its host's name. published:NAME is a published
report. datasafe:FILE and tpch:FILE are logs of other tools without single requests. All of these
are also available as markdown, json, html, svg and png. With --fail-if the exit code is 3 if a case
meets a condition, and 1 if that cannot be decided.

\b
Examples:
  loadstone report runs/demo
  loadstone report runs/demo --full
  loadstone report runs/demo --limits
  loadstone report runs/demo -f html -o report.html
  loadstone report runs/demo -f json | jq '.cases[].requests_per_s'
  loadstone report runs/demo --table hummingbird --head "4 KB 5 nodes Results"
  loadstone report runs/nightly --fail-if "get p99 > 50ms"
  loadstone report m5.large=runs/a c5n.large=runs/b -f html -o clients.html
  loadstone report published:theflash -f html -o theflash.html
  loadstone report datasafe:m5.large=a.log datasafe:c5n.large=b.log -f html -o clients.html
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from loadstone.cli import completion, exit_code, fail_if
from loadstone.cli.flags import FailIf, Overwrite
from loadstone.errors import InputError

if TYPE_CHECKING:
    from loadstone.results.record import Run

# Other common names of reports.
ALIASES = {"text": "terminal", "md": "markdown"}
SUFFIXES = {".htm": ".html"}


def command(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Run folders, NAME=RUN, or published:NAME.",
            metavar="RUN...",
            autocompletion=completion.runs,
        ),
    ],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help="See: loadstone list reports; default: by the ending of -o.",
            autocompletion=completion.reports,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File, or folder for several files.")
    ] = None,
    overwrite: Overwrite = False,
    table: Annotated[
        str | None, typer.Option(help="Layout of the table, or none; see: loadstone list tables.")
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="The table's head cell; {nodes} stands for a parameter.")
    ] = None,
    spread: Annotated[
        Literal["seconds", "trials"], typer.Option(help="The meaning of ±: over seconds or trials.")
    ] = "seconds",
    decimal_comma: Annotated[
        bool, typer.Option(help="Write a decimal comma in tables: 0,5.")
    ] = False,
    megabyte: Annotated[
        Literal["MB", "MiB"], typer.Option(help="Unit of MB/Sec: MB or MiB.")
    ] = "MB",
    limits: Annotated[
        bool,
        typer.Option(
            "--limits", help="On a terminal: what was observed of each resource, and nothing else."
        ),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="On a terminal: everything instead of one screen.")
    ] = False,
    conditions: FailIf = None,
) -> None:
    thresholds = fail_if.read_thresholds(conditions)
    form = ALIASES.get(form, form) if form is not None else _form_of(output)
    # Importing importers and charts takes longer than reporting on a small run.
    if any(":" in name for name in runs) and _print_accounts(
        runs, form, output, overwrite, conditions
    ):
        return
    from loadstone.analysis import analyse
    from loadstone.cli.reporting import find_report, report_options, write
    from loadstone.report import Options
    from loadstone.results.several import merge_runs

    report = find_report(form)
    named = [_read(name) for name in runs]
    run = merge_runs(named) if len(named) > 1 else named[0][1]
    chosen = Options(
        head=head,
        spread=spread,
        decimal_comma=decimal_comma,
        megabyte=megabyte,
        is_full=full,
        is_limits=limits,
        thresholds=thresholds,
    )
    is_terminal = output is None and sys.stdout.isatty()
    options = report_options(run, report, chosen, is_terminal=is_terminal, table=table)
    findings = analyse(run, courses=report.draws)
    write(report, run, findings, options, output, may_overwrite=overwrite)
    code = fail_if.judge_all(thresholds, findings)
    for member in run.members or (run,):
        for file in member.altered:
            print(
                f'warning: "{member.path / file}" is not as loadstone wrote it: its checksum does'
                " not match\n"
                "hint: do not use it; take the file from a copy of the run",
                file=sys.stderr,
            )
    if run.altered or code:
        raise typer.Exit(exit_code.FAILED if run.altered else code)


def _read(name: str) -> tuple[str, "Run"]:
    """Return a run and the name of its client, from RUN or NAME=RUN."""
    from loadstone.results.store import read_run

    client, is_named, folder = name.partition("=")
    if is_named and not Path(name).exists():
        return client, read_run(folder)
    return "", read_run(name)


def _print_accounts(
    runs: Sequence[str],
    form: str,
    output: Path | None,
    may_overwrite: bool,
    conditions: Sequence[str] | None,
) -> bool:
    """Print published reports and other tools' files; return False if `runs` are run folders."""
    from loadstone.cli.account_reports import is_account, print_accounts, refuse_file_of_requests

    if not any(map(is_account, runs)):
        for name in runs:
            refuse_file_of_requests(name)
        return False
    if not all(map(is_account, runs)):
        raise InputError(
            "cannot report runs together with published reports or files",
            "use one command for each kind",
        )
    if conditions:
        raise InputError(
            "--fail-if is for runs: published reports and logs have no requests to judge"
        )
    print_accounts(runs, form, output, may_overwrite=may_overwrite)
    return True


def _form_of(output: Path | None) -> str:
    """Return the report for a file's suffix; without one, the terminal's."""
    from loadstone.report import REPORTS

    suffix = output.suffix.lower() if output is not None else ""
    suffix = SUFFIXES.get(suffix, suffix)
    for report in REPORTS.values():
        if report.suffix == suffix:
            if report.is_folder:
                raise InputError(
                    f'cannot write file "{output}": report "{report.name}" consists of'
                    " several files",
                    f"name a folder for them: -f {report.name} -o DIR",
                )
            return report.name
    if suffix:
        known = dict.fromkeys(report.suffix for report in REPORTS.values() if report.suffix)
        allowed = f"an ending of a report: {', '.join(known)}; or another with -f"
        raise InputError.of_value(str(output), allowed)
    return "terminal"
