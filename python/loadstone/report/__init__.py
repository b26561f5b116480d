"""Findings → bytes: formatting only; every number comes from analysis.

A report is a function `render(run, findings, options) -> bytes` and one line in REPORTS. Those made
of several files have `render_files` beside it, and are written into a folder.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from loadstone.errors import InputError
from loadstone.report.options import Layout, Options

# Reports are looked up before a run begins, and what makes them must not be in memory under load.
if TYPE_CHECKING:
    from loadstone.analysis import Findings
    from loadstone.results.record import Run

__all__ = ["REPORTS", "Layout", "Options", "Report"]


class Render(Protocol):
    """What a report is made by."""

    def __call__(self, run: "Run", findings: "Findings", options: Options) -> bytes:
        """Return the whole report."""


class RenderFiles(Protocol):
    """What a report of several files is made by."""

    def __call__(self, run: "Run", findings: "Findings", options: Options) -> Mapping[str, bytes]:
        """Return the files by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One kind of report: what it is, how its file ends, and where its functions are.

    Its module is imported when it is used: charts need libraries that a load host does not have.
    One that `draws` shows what happened over time, which the others spare themselves to read.
    `extra` is what the installation needs for it, besides loadstone itself.
    """

    name: str
    summary: str
    suffix: str
    module: str
    function: str = "render"
    is_folder: bool = False
    draws: bool = False
    extra: str = ""

    def render(self, run: "Run", findings: "Findings", options: Options) -> bytes:
        """Return the report's bytes."""
        if self.is_folder:
            raise InputError(
                f'report "{self.name}" is several files and cannot be printed',
                hint=f"name a folder to put them in: -f {self.name} -o DIR",
            )
        render = cast(Render, getattr(importlib.import_module(self.module), self.function))
        return render(run, findings, options)

    def render_files(
        self, run: "Run", findings: "Findings", options: Options
    ) -> Mapping[str, bytes]:
        """Return the report's files by name; a report of one file has one."""
        if not self.is_folder:
            return {f"report{self.suffix}": self.render(run, findings, options)}
        module = importlib.import_module(self.module)
        return cast(RenderFiles, getattr(module, self.function))(run, findings, options)


REPORTS: Mapping[str, Report] = {
    report.name: report
    for report in (
        Report(
            name="terminal",
            summary="tables for a terminal, or plain text in a pipe",
            suffix=".txt",
            module="loadstone.report.formats.terminal",
        ),
        Report(
            name="html",
            summary="one page with the answer, charts and evidence, readable offline",
            suffix=".html",
            module="loadstone.report.formats.html",
            draws=True,
            extra="report",
        ),
        Report(
            name="markdown",
            summary="Markdown tables",
            suffix=".md",
            module="loadstone.report.formats.markdown",
        ),
        Report(
            name="disclosure",
            summary="what a reader must know of the run, and the rules it meets, as YAML",
            suffix=".yaml",
            module="loadstone.report.formats.disclosure",
        ),
        Report(
            name="csv",
            summary="one line per case, round and iteration",
            suffix=".csv",
            module="loadstone.report.formats.tabular",
            function="render_csv",
        ),
        Report(
            name="json",
            summary="every number, in a published schema",
            suffix=".json",
            module="loadstone.report.formats.document",
        ),
        Report(
            name="parquet",
            summary="the lines of csv, with types",
            suffix=".parquet",
            module="loadstone.report.formats.tabular",
            function="render_parquet",
            extra="arrow",
        ),
        Report(
            name="hlog",
            summary="the histograms of every second, as an HdrHistogram log",
            suffix=".hlog",
            module="loadstone.report.formats.hlog",
        ),
        Report(
            name="openmetrics",
            summary="the results as metrics for a dashboard",
            suffix=".txt",
            module="loadstone.report.formats.openmetrics",
        ),
        Report(
            name="junit",
            summary="results and thresholds (--fail-if) as tests, for a job that shows them",
            suffix=".xml",
            module="loadstone.report.formats.junit",
        ),
        Report(
            name="svg",
            summary="every chart of the page as a vector graphic",
            suffix=".svg",
            module="loadstone.report.formats.images",
            function="render_svg",
            is_folder=True,
            draws=True,
            extra="report",
        ),
        Report(
            name="png",
            summary="every chart of the page as an image",
            suffix=".png",
            module="loadstone.report.formats.images",
            function="render_png",
            is_folder=True,
            draws=True,
            extra="report",
        ),
    )
}
