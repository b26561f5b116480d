"""Convert another tool's output into a run folder, for all other commands.

Files whose times overlap are parts of one load, and one trial. For files without times, --together
says so; otherwise they are repetitions. Values that a file does not state are not stated in the run
either. To compare or analyse a file without keeping a folder, name it as FORMAT:FILE.

Tools that record neither requests nor seconds (datasafe, tpch) give their tables instead. For these
two, NAME=FILE names the client of a Datasafe log, or the system of a TPC-H log.

\b
Examples:
  loadstone import warp warp-get.csv.zst -o runs/warp-get
  loadstone import nectar bench-put.csv console.txt -o runs/put
  loadstone import fio fio.json -o runs/disk
  loadstone import tpch ssd.log ceph.log
  loadstone import datasafe m5.large=day-1.log c5n.large=day-2.log
  loadstone compare fio:before.json fio:after.json
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from loadstone import units
from loadstone.analysis.accounts.account import Account
from loadstone.errors import InputError


def command(
    form: Annotated[str, typer.Argument(help="The tool's name.", metavar="FORMAT")],
    files: Annotated[list[Path], typer.Argument(help="The tool's output.", metavar="FILE...")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Run folder.")] = None,
    target: Annotated[str | None, typer.Option(help="Name of the target.")] = None,
    operation: Annotated[
        str | None, typer.Option(help="The operation, if the file does not state it.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="The object size, if the file does not state it.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Requests in flight, if the file does not state them.")
    ] = None,
    together: Annotated[
        bool,
        typer.Option(
            "--together", help="The files are parts of one load, measured at the same time."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print tables as JSON.")] = False,
) -> None:
    from loadstone import importers
    from loadstone.formats.imported import Hints

    hints = Hints(
        operation=operation,
        size_bytes=units.parse_size(size) if size is not None else None,
        threads=threads,
        target=target,
        are_parts=together,
    )
    imported = importers.find(form).read(files, hints)
    if isinstance(imported, Account):
        _print_account(imported, form, output, as_json=as_json)
        return
    from loadstone.cli.running.session import default_folder
    from loadstone.importers.run_folder import write_run

    folder = output or default_folder(imported.name)
    write_run(imported, folder)
    requests = sum(row.requests for trial in imported.trials for row in trial.rows)
    trials = units.counted(len(imported.trials), "trial")
    print(f"{folder}: {trials}, {units.counted(requests, 'request')} from {imported.tool}")
    for note in imported.notes:
        print(f"note: {note}")
    print(f"see: loadstone report {folder}")


def _print_account(account: Account, form: str, output: Path | None, *, as_json: bool) -> None:
    if output is not None:
        raise InputError(
            f"{form} has neither requests nor seconds, and so cannot become a run folder",
            f"leave out -o, and use the file in place of a run: loadstone analyse {form}:FILE",
        )
    if as_json:
        from loadstone.cli.account_reports import account_json

        print(json.dumps(account_json(account), indent=2, ensure_ascii=False))
        return
    from loadstone.published.tables.accounts import account_table

    print(account_table(account), end="")
