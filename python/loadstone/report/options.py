"""How a report is to look: what a reader may choose, and nothing that changes a number."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Spread = Literal["seconds", "trials"]
Megabyte = Literal["MB", "MiB"]

NO_TABLE = "none"
"""What a reader says to have a report's own tables where the campaign names a layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The choices of one report.

    `width` and `color` are the terminal's. `table` names a template of TABLES, which then takes the
    place of the report's own tables; `head` is its head cell, in which {NAME} stands for
    a parameter; `labels` are words for targets, sizes and what facts say. `is_full` asks a terminal
    for everything, instead of the answer on one screen.
    `spread` says what stands behind a ±, `megabyte` what a template's MB/Sec counts.
    """

    width: int = 100
    color: bool = False
    table: str | None = None
    head: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    decimal_comma: bool = False
    spread: Spread = "seconds"
    megabyte: Megabyte = "MB"
    is_full: bool = False
