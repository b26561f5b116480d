"""Huawei's S3 store at CERN: files and megabytes per second against threads, mean ± spread."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial

from loadstone.analysis.accounts.account import MEGABYTE_RATE, RATE, Account, Measurement
from loadstone.published import read
from loadstone.published.tables.layouts import (
    DecimalMarks,
    MeasuredRow,
    ThreadsColumn,
    threads_table,
)

FILE = "cern"
SIZES = {"4 KB": 4 * 2**10, "10 MB": 10 * 2**20}
"""The printed sizes in bytes; the tables suggest that units are powers of two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CernColumn:
    """One column of a table: means ± spreads as printed, or empty.

    `only_on` names the slide of a column that other copies of its table lack.
    """

    operation: str
    size: str
    threads: int
    files: str
    files_spread: str
    megabytes: str
    megabytes_spread: str
    files_mark: str
    only_on: str

    @property
    def table(self) -> str:
        """The title of the column's table."""
        return f"{self.operation} {self.size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedCopy:
    """A copy of a table with cells missing or cut."""

    operation: str
    size: str
    slide: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CernFacts(read.ReportFacts):
    """The text of the slides around their tables; `marks` are keyed by the title of a table."""

    target: str
    call_outs: tuple[str, ...]
    setup: tuple[str, ...]
    marks: Mapping[str, DecimalMarks]
    damaged_copies: tuple[DamagedCopy, ...]


facts = cache(partial(read.read_facts, FILE, CernFacts))
_columns = cache(partial(read.read_rows, FILE, CernColumn))


def account() -> Account:
    """Return the clean cells that all copies of a table agree on."""
    return Account(
        name=FILE,
        title=facts().title,
        measurements=tuple(_measurements()),
        statements=facts().statements,
        disclosure=facts().disclosure,
        planned_threads=tuple(dict.fromkeys(column.threads for column in _columns())),
    )


def render() -> str:
    """Return the tables in their layout; one slide has two cells more than its copies."""
    return "\n".join(_table(title, columns) for title, columns in _tables())


def details() -> str:
    """Return the set-up, the call-outs, the summary with its issues, and the damaged copies."""
    parts = ["\n".join(facts().setup) + "\n", facts().text["configuration"]]
    parts += ["called out on the slides: " + ", ".join(facts().call_outs) + "\n"]
    parts += [f"summary\n{facts().text['summary']}"]
    parts += [
        f"damaged, not used: {copy.operation} {copy.size}, {copy.slide}\n{copy.text}"
        for copy in facts().damaged_copies
    ]
    return "\n".join(parts)


def _measurements() -> Iterator[Measurement]:
    for column in _columns():
        if column.only_on:
            continue
        for metric, mean, spread in (
            (RATE, column.files, column.files_spread),
            (MEGABYTE_RATE, column.megabytes, column.megabytes_spread),
        ):
            if not mean:
                continue
            yield Measurement(
                target=facts().target,
                workload=f"{column.operation}s of {column.size}",
                operation=column.operation,
                parameters={"size": SIZES[column.size], "threads": column.threads},
                metric=metric,
                value=float(mean),
                text=mean,
                spread=float(spread),
                place=f"{column.table}, {column.threads} threads",
            )


def _tables() -> Iterator[tuple[str, list[CernColumn]]]:
    for title in dict.fromkeys(column.table for column in _columns()):
        columns = [column for column in _columns() if column.table == title]
        shared = [column for column in columns if not column.only_on]
        yield title, shared
        extra = {column.threads: column for column in columns if column.only_on}
        if extra:
            yield title, [extra.get(column.threads, column) for column in shared]


def _table(title: str, columns: Sequence[CernColumn]) -> str:
    printed = [
        ThreadsColumn(
            threads=column.threads,
            files_per_s=_cell(column.files, column.files_spread, column.files_mark or None),
            megabytes_per_s=_cell(column.megabytes, column.megabytes_spread, None),
        )
        for column in columns
    ]
    return threads_table(printed, facts().marks[title])


def _cell(mean: str, spread: str, mark: str | None) -> MeasuredRow | None:
    if not mean:
        return None
    return MeasuredRow(mean=Decimal(mean), spread=Decimal(spread), mark=mark)
