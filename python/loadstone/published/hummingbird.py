"""The campaign of Hummingbird, Ceph and Swift in four laboratories: 18 tables, 240 rates."""

from collections.abc import Iterator

from loadstone.analysis.accounts.account import RATE, Account, Measurement, Statement
from loadstone.published import read
from loadstone.report.tables.published.layouts import RoundsRow, ordinal, rounds_table

FILE = "hummingbird"


def account() -> Account:
    """Return the 240 rates; a read of an object counts once for each of its iterations."""
    facts = read.read_facts(FILE)
    return Account(
        name=FILE,
        title=facts["title"],
        measurements=tuple(_measurements()),
        statements=(
            Statement(
                quantity="concurrency",
                value=facts["campaign"]["threads"],
                unit="requests in flight",
                place="nectar -C",
            ),
        ),
        disclosure=read.disclosure(facts),
    )


def render() -> str:
    """Return the tables in their order and layout, each under the name of its laboratory."""
    laboratories = read.read_facts(FILE)["laboratories"]
    parts, laboratory = [], None
    for rows in _tables():
        if rows[0]["lab"] != laboratory:
            laboratory = rows[0]["lab"]
            parts.append(f"# {laboratories[laboratory]['name']}\n")
        parts.append(_table(rows))
    return "\n".join(parts)


def details() -> str:
    """Return the hardware of each laboratory."""
    laboratories = read.read_facts(FILE)["laboratories"].values()
    return "\n".join(f"# {entry['name']}\n\n{entry['hardware']}" for entry in laboratories)


def _measurements() -> Iterator[Measurement]:
    facts = read.read_facts(FILE)
    campaign = facts["campaign"]
    objects = {entry["size_bytes"]: entry["objects"] for entry in campaign["datasets"]}
    for row in read.read_rows(FILE):
        operation, size, number = row["operation"], int(row["size_bytes"]), int(row["round"])
        iterations = campaign["iterations_of_get"] if operation == "get" else 1
        label = f"{operation.upper()}/sec {ordinal(number)} round"
        yield Measurement(
            target=row["system"],
            workload=facts["laboratories"][row["lab"]]["name"],
            operation=operation,
            parameters={
                "size": size,
                "nodes": int(row["nodes"]),
                "threads": campaign["threads"],
            },
            metric=RATE,
            value=float(row["rate_per_s"]),
            text=row["rate_per_s"],
            round=number,
            work=objects[size] * iterations,
            place=f'table {row["table"]} "{row["head"]}", {label}, {row["system"]}',
        )


def _tables() -> Iterator[list[read.Row]]:
    rows = read.read_rows(FILE)
    for number in dict.fromkeys(row["table"] for row in rows):
        yield [row for row in rows if row["table"] == number]


def _table(rows: list[read.Row]) -> str:
    systems = list(dict.fromkeys(row["system"] for row in rows))
    lines: dict[tuple[str, int], dict[str, float]] = {}
    for row in rows:
        line = lines.setdefault((row["operation"], int(row["round"])), {})
        line[row["system"]] = float(row["rate_per_s"])
    return rounds_table(
        rows[0]["head"],
        systems,
        [
            RoundsRow(operation=operation, round=number, rates=[rates.get(s) for s in systems])
            for (operation, number), rates in lines.items()
        ],
    )
