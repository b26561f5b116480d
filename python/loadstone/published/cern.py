"""Huawei's S3 store at CERN: files and megabytes per second against threads, mean ± spread."""

from collections.abc import Iterator
from decimal import Decimal

from loadstone.analysis.accounts.account import MEGABYTE_RATE, RATE, Account, Measurement
from loadstone.published import read
from loadstone.report.tables.published.layouts import (
    DecimalMarks,
    MeasuredRow,
    ThreadsColumn,
    threads_table,
)

FILE = "cern"
SIZES = {"4 KB": 4 * 2**10, "10 MB": 10 * 2**20}
"""What the printed sizes stand for when their units are powers of two, as the tables suggest."""


def account() -> Account:
    """Return the clean cells that all copies of a table agree on."""
    facts = read.read_facts(FILE)
    threads = dict.fromkeys(int(row["threads"]) for row in read.read_rows(FILE))
    return Account(
        name=FILE,
        title=facts["title"],
        measurements=tuple(_measurements()),
        statements=read.statements(facts),
        disclosure=read.disclosure(facts),
        planned_threads=tuple(threads),
    )


def render() -> str:
    """Return the tables in their layout; one slide prints two cells more than its copies do."""
    return "\n".join(_table(title, rows) for title, rows in _tables())


def details() -> str:
    """Return the set-up, the call-outs, the summary with its issues, and the damaged copies."""
    facts = read.read_facts(FILE)
    parts = ["\n".join(facts["setup"]) + "\n", facts["text"]["configuration"]]
    parts += ["called out on the slides: " + ", ".join(facts["call_outs"]) + "\n"]
    parts += [f"summary\n{facts['text']['summary']}"]
    parts += [
        f"damaged, not used: {copy['operation']} {copy['size']}, {copy['slide']}\n{copy['text']}"
        for copy in facts["damaged_copies"]
    ]
    return "\n".join(parts)


def _measurements() -> Iterator[Measurement]:
    target = read.read_facts(FILE)["target"]
    for row in read.read_rows(FILE):
        if row["only_on"]:
            continue
        for metric, column in ((RATE, "files"), (MEGABYTE_RATE, "megabytes")):
            if not row[column]:
                continue
            yield Measurement(
                target=target,
                workload=f"{row['operation']}s of {row['size']}",
                operation=row["operation"],
                parameters={"size": SIZES[row["size"]], "threads": int(row["threads"])},
                metric=metric,
                value=float(row[column]),
                text=row[column],
                spread=float(row[f"{column}_spread"]),
                place=f"{row['operation']} {row['size']}, {row['threads']} threads",
            )


def _tables() -> Iterator[tuple[str, list[read.Row]]]:
    rows = read.read_rows(FILE)
    for title in dict.fromkeys(_title(row) for row in rows):
        own = [row for row in rows if _title(row) == title]
        shared = [row for row in own if not row["only_on"]]
        yield title, shared
        extra = {row["threads"]: row for row in own if row["only_on"]}
        if extra:
            yield title, [extra.get(row["threads"], row) for row in shared]


def _title(row: read.Row) -> str:
    return f"{row['operation']} {row['size']}"


def _table(title: str, rows: list[read.Row]) -> str:
    marks = DecimalMarks(**read.read_facts(FILE)["marks"][title])
    columns = [
        ThreadsColumn(
            threads=int(row["threads"]),
            files_per_s=_cell(row, "files", row["files_mark"] or None),
            megabytes_per_s=_cell(row, "megabytes", None),
        )
        for row in rows
    ]
    return threads_table(columns, marks)


def _cell(row: read.Row, column: str, mark: str | None) -> MeasuredRow | None:
    if not row[column]:
        return None
    return MeasuredRow(
        mean=Decimal(row[column]), spread=Decimal(row[f"{column}_spread"]), mark=mark
    )
