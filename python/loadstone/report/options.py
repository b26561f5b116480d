"""How a report is to look: what a reader may choose, and nothing that changes a number."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from loadstone.analysis import Findings
    from loadstone.analysis.judgements.thresholds import Threshold
    from loadstone.results.record import Run

Spread = Literal["seconds", "trials"]
Megabyte = Literal["MB", "MiB"]

RenderTables = Callable[["Findings", "Options"], str]
ChartData = Callable[["Run", "Findings", "Options"], dict[str, Any]]
"""Returns the data of a layout's own charts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Tables, and perhaps charts, that take the place of a report's own.

    Its tables are Markdown by themselves, or separated by tabs.
    """

    name: str
    summary: str
    render: RenderTables
    is_markdown: bool = False
    chart_data: ChartData | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The choices of one report.

    `width` and `color` are the terminal's. `layout` takes the place of the report's own tables;
    `head` is its head cell, in which {NAME} stands for a parameter; `labels` are words for targets,
    sizes and what facts say. `is_full` asks a terminal for everything, instead of the answer on one
    screen, and `is_limits` for what was observed of each resource alone. `spread` says what stands
    behind a ±, `megabyte` what a layout's MB/Sec counts. `thresholds` are those of `--fail-if`.
    """

    width: int = 100
    color: bool = False
    layout: Layout | None = None
    head: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    decimal_comma: bool = False
    spread: Spread = "seconds"
    megabyte: Megabyte = "MB"
    is_full: bool = False
    is_limits: bool = False
    thresholds: Sequence["Threshold"] = ()
