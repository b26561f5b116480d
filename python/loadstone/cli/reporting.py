"""Makes a report from a run folder, for the screen or a file."""

import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from loadstone import _loadgen
from loadstone.campaign.reading.mistakes import nearest
from loadstone.cli import extras
from loadstone.cli.screen.output import write_files
from loadstone.documents.manifest import ReportDocument
from loadstone.errors import InputError, ResultError
from loadstone.report import REPORTS, Layout, Options, Report
from loadstone.report.options import Megabyte, Spread
from loadstone.results.files import durable
from loadstone.results.output import check_outside_runs

if TYPE_CHECKING:
    from loadstone.analysis import Findings
    from loadstone.results.record import Run

LAID_OUT = ("terminal", "markdown", "html", "csv")
"""Reports that accept another layout of tables."""
DRAWN = ("svg", "png")
"""Reports that can draw the charts of a layout, if the layout has any."""
NO_TABLE = "none"
"""The --table value that selects a report's own tables when the campaign names a layout."""

COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def find_report(name: str) -> Report:
    """Return the report with this name; raise InputError if this installation lacks it."""
    reports = {report.name: report for report in REPORTS.values()}
    if name not in reports:
        raise InputError.of_value(name, f"a report: {', '.join(reports)}", nearest(name, reports))
    report = reports[name]
    if report.extra and not extras.has(report.extra):
        raise extras.refuse(f'report "{name}"', report.extra)
    return report


def report_options(
    run: "Run", report: Report, chosen: Options, *, is_terminal: bool, table: str | None = None
) -> Options:
    """Return the options of a report: those chosen, or else the campaign's.

    The campaign's layout does not apply to formats for programs. On a terminal it applies with
    --full only: one screen with the answer comes first.
    """
    stated: ReportDocument = (run.manifest.get("campaign") or {}).get("report") or {}
    usual = Options()
    if table is None:
        is_read = report.name in ("markdown", "html")
        if is_read or (report.name == "terminal" and chosen.is_full):
            table = stated.get("table")
    elif table != NO_TABLE:
        _check_layout(report, table)
    options = replace(
        chosen,
        layout=None if table in (None, NO_TABLE) else find_layout(table),
        head=stated.get("head") if chosen.head is None else chosen.head,
        labels=chosen.labels or stated.get("labels", {}),
        decimal_comma=chosen.decimal_comma or stated.get("decimal_comma", False),
    )
    if chosen.spread == usual.spread:
        options = replace(options, spread=_known(Spread, stated.get("spread"), usual.spread))
    if chosen.megabyte == usual.megabyte:
        options = replace(
            options, megabyte=_known(Megabyte, stated.get("megabyte"), usual.megabyte)
        )
    return on_screen(options, is_terminal=is_terminal)


def _known(choices: Any, word: str | None, usual: str) -> Any:
    """Return the campaign's choice, or the default if only a later build knows it."""
    return word if word in get_args(choices) else usual


def on_screen(options: Options, *, is_terminal: bool) -> Options:
    """Return options with the terminal's width and colours, where there is a terminal."""
    width = shutil.get_terminal_size((80, 24)).columns if is_terminal else 100
    return replace(options, width=width, color=is_terminal and "NO_COLOR" not in os.environ)


def find_layout(table: str) -> Layout:
    """Return a table layout by name; the import is skipped for reports without one."""
    from loadstone import published

    return published.find_layout(table)


def _check_layout(report: Report, table: str) -> None:
    """Refuse a layout that the report would ignore."""
    if report.name in LAID_OUT:
        return
    if report.name in DRAWN:
        from loadstone.published import LAYOUTS

        drawn = [layout.name for layout in LAYOUTS.values() if layout.chart_data is not None]
        if table in drawn:
            return
        raise InputError(
            f'layout "{table}" has no charts of its own, and --table asks report "{report.name}"'
            " for them",
            f"those have some: {', '.join(drawn)}; without --table, all charts of the run"
            " are drawn",
        )
    raise InputError(
        f'report "{report.name}" has no layouts of tables, and --table asks for one',
        f"those have them: {', '.join(LAID_OUT)}",
    )


def for_screen(content: bytes) -> bytes:
    """Return a report without terminal control sequences other than colours."""
    parts = COLOUR.split(content.decode(errors="replace"))
    return "".join(
        part if number % 2 else _loadgen.plain(part) for number, part in enumerate(parts)
    ).encode()


def write(
    report: Report,
    run: "Run",
    findings: "Findings",
    options: Options,
    output: Path | None,
    *,
    may_overwrite: bool = False,
) -> None:
    """Render a report and write it to a file, a folder, or the screen."""
    if output is not None:
        if report.is_folder:
            files = report.render_files(run, findings, options)
            contents = {output / name: content for name, content in files.items()}
            check_outside_runs(output)
            with durable.writing(output):
                output.mkdir(exist_ok=True)
        else:
            contents = {output: report.render(run, findings, options)}
        write_files(contents, may_overwrite=may_overwrite)
        return
    try:
        content = report.render(run, findings, options)
        sys.stdout.flush()
        sys.stdout.buffer.write(for_screen(content) if sys.stdout.isatty() else content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ResultError(f"cannot write the report to the screen: {error.strerror}") from error
