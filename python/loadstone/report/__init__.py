"""Findings → bytes: formatting only; every number comes from analysis.

A report is a function `render(run, findings, options) -> bytes` and one row in REPORTS. One of
several files returns them by their names, and is written into a folder.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loadstone.errors import InputError
from loadstone.report.options import Layout, Options

# Reports are looked up before a run begins, and what makes them must not be in memory under load.
if TYPE_CHECKING:
    from loadstone.analysis import Findings
    from loadstone.results.record import Run

__all__ = ["REPORTS", "Layout", "Options", "Report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One kind of report: what it is, how its file ends, and its module in `report/formats`.

    The module is imported when it is used: charts need libraries that a load host does not have.
    Without one it has the report's name. One that `draws` shows what happened over time, which the
    others spare themselves to read. `extra` is what the installation needs for it, besides
    loadstone itself.
    """

    name: str
    summary: str
    suffix: str
    module: str = ""
    function: str = "render"
    is_folder: bool = False
    draws: bool = False
    extra: str = ""

    def render(self, run: "Run", findings: "Findings", options: Options) -> bytes:
        """Return the report's bytes."""
        if self.is_folder:
            raise InputError(
                f'cannot print report "{self.name}": it consists of several files',
                hint=f"name a folder for them: -f {self.name} -o DIR",
            )
        content: bytes = self._made(run, findings, options)
        return content

    def render_files(
        self, run: "Run", findings: "Findings", options: Options
    ) -> Mapping[str, bytes]:
        """Return the report's files by name; a report of one file has one."""
        if not self.is_folder:
            return {f"report{self.suffix}": self.render(run, findings, options)}
        files: Mapping[str, bytes] = self._made(run, findings, options)
        return files

    def _made(self, *of: object) -> Any:
        module = importlib.import_module(f"loadstone.report.formats.{self.module or self.name}")
        return getattr(module, self.function)(*of)


REPORTS: Mapping[str, Report] = {
    report.name: report
    for report in (
        Report(
            name="terminal",
            summary="tables for a terminal, or plain text in a pipe",
            suffix=".txt",
        ),
        Report(
            name="html",
            summary="one page with the answer, charts and evidence, readable offline",
            suffix=".html",
            draws=True,
            extra="report",
        ),
        Report(
            name="markdown",
            summary="Markdown tables",
            suffix=".md",
        ),
        Report(
            name="disclosure",
            summary="what a reader must know of the run, and the rules it meets, as YAML",
            suffix=".yaml",
        ),
        Report(
            name="csv",
            summary="one line per case, round and iteration",
            suffix=".csv",
            module="tabular",
            function="render_csv",
        ),
        Report(
            name="json",
            summary="every number, in a published schema",
            suffix=".json",
            module="document",
        ),
        Report(
            name="parquet",
            summary="the lines of csv, with types",
            suffix=".parquet",
            module="tabular",
            function="render_parquet",
            extra="arrow",
        ),
        Report(
            name="hlog",
            summary="the histograms of every second, as an HdrHistogram log",
            suffix=".hlog",
        ),
        Report(
            name="openmetrics",
            summary="the results as metrics for a dashboard",
            suffix=".txt",
        ),
        Report(
            name="junit",
            summary="results and thresholds (--fail-if) as tests, for a job that shows them",
            suffix=".xml",
        ),
        Report(
            name="svg",
            summary="every chart of the page as a vector graphic",
            suffix=".svg",
            module="images",
            function="render_svg",
            is_folder=True,
            draws=True,
            extra="report",
        ),
        Report(
            name="png",
            summary="every chart of the page as an image",
            suffix=".png",
            module="images",
            function="render_png",
            is_folder=True,
            draws=True,
            extra="report",
        ),
    )
}
