"""List drivers, operations, probes, reports or tables; or the runs in a folder.

\b
Examples:
  loadstone list drivers
  loadstone list drivers s3        the settings of one driver
  loadstone list runs              the run folders in runs/
  loadstone list runs DIR
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from loadstone.cli import completion, plain
from loadstone.cli.screen.output import print_table
from loadstone.errors import InputError


class Kind(StrEnum):
    """Things that can be listed."""

    DRIVERS = "drivers"
    OPERATIONS = "operations"
    PROBES = "probes"
    REPORTS = "reports"
    RUNS = "runs"
    TABLES = "tables"


def command(
    kind: Annotated[Kind, typer.Argument(help="The kind of thing to list.")],
    name: Annotated[
        str | None,
        typer.Argument(
            help="A driver, to list its settings; for runs, their folder.",
            autocompletion=completion.drivers,
        ),
    ] = None,
) -> None:
    if kind is Kind.DRIVERS and name is not None:
        _print_driver(name)
        return
    if kind is Kind.RUNS:
        _print_runs(Path(name or "runs"))
    elif kind is Kind.DRIVERS:
        from loadstone.campaign.drivers import read_drivers

        rows = [
            (driver.name, driver.summary, ", ".join(driver.operations))
            for driver in read_drivers().values()
        ]
        print_table(("driver", "reaches", "operations"), rows)
    elif kind is Kind.OPERATIONS:
        from loadstone.campaign.operations import OPERATIONS

        print_table(
            ("operation", "does"),
            [(operation.name, operation.summary) for operation in OPERATIONS.values()],
        )
    elif kind is Kind.PROBES:
        from loadstone.probes import PROBES

        print_table(("probe", "watches"), [(name, probe.SUMMARY) for name, probe in PROBES.items()])
    elif kind is Kind.REPORTS:
        from loadstone.report import REPORTS

        summaries = [(report.name, report.summary) for report in REPORTS.values()]
        print_table(("report", "gives"), summaries)
    else:
        from loadstone.published import LAYOUTS

        summaries = [(layout.name, layout.summary) for layout in LAYOUTS.values()]
        print_table(("table", "gives"), summaries)


def _print_runs(folder: Path) -> None:
    """Print the runs in a folder, newest first, and those that cannot be read."""
    from loadstone.view.run_list import RunList

    runs = RunList(folder)
    listed = runs.read()
    if not listed:
        raise InputError(f'"{folder}" holds no run', "name a folder of run folders")
    rows = [
        ("", "", "cannot be read", "", f"{plain(str(run.path))}: {run.problem}")
        if run.problem
        else (
            run.started[:16].replace("T", " "),
            run.campaign,
            run.state,
            f"{run.trials:,}",
            plain(str(folder if run.path == runs.folder else folder / run.path.name)),
        )
        for run in listed
    ]
    print_table(("started", "campaign", "state", "trials", "folder"), rows)


def _print_driver(name: str) -> None:
    from loadstone.campaign.drivers import read_drivers

    drivers = read_drivers()
    if name not in drivers:
        raise InputError.of_value(name, f"a driver: {', '.join(drivers)}")
    driver = drivers[name]
    print(f"{driver.name}: {driver.summary}\noperations: {', '.join(driver.operations)}\n")
    rows = [
        (
            setting.name,
            "yes" if setting.required else "",
            ", ".join(setting.choices) or setting.kind.replace("_", " "),
            setting.default or "",
            setting.help,
        )
        for setting in driver.settings
    ]
    print_table(("setting", "required", "kind", "default", "meaning"), rows)
