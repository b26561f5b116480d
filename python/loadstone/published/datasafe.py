"""Datasafe's long run: the statistics of its example log, and the rates derived from them."""

from collections.abc import Iterator

from loadstone.analysis.accounts.account import RATE, THREAD_RATE, Account, Measurement
from loadstone.published import read
from loadstone.report.tables.published.actions import (
    ActionLog,
    ActionStatistics,
    rates_table,
    statistics_log,
)

FILE = "datasafe"
QUANTILES = ("p50", "p99", "p90", "p75", "p95")
"""In the order the log prints them."""

SIZES_KIB = {"100kb": 100, "1mb": 1024, "10mb": 10240}


def account() -> Account:
    """Return the log's percentiles and rates per thread, and the table's rates."""
    facts = read.read_facts(FILE)
    return Account(
        name=FILE,
        title=facts["title"],
        measurements=(*_log_measurements(), *_table_measurements()),
        disclosure=read.disclosure(facts),
    )


def render() -> str:
    """Return the log, and the table of rates, in their layouts."""
    log = statistics_log(list(_logs()), read.read_facts(FILE)["logger"])
    return f"{log}\n{_rates()}"


def details() -> str:
    """Return the clients, and the Ceph cluster."""
    facts = read.read_facts(FILE)
    lines = [
        f"{one['name']} ({one['kind']}): {one['cpus']} CPUs, {one['memory_gb']} GB"
        for one in facts["clients"]
    ]
    lines += [f"{key}: {value}" for key, value in facts["campaign"].items()]
    lines += [f"Ceph {key}: {value}" for key, value in facts["ceph"].items()]
    return "\n".join(lines) + "\n"


def _logs() -> Iterator[ActionLog]:
    rows = read.read_rows(FILE)
    for load in dict.fromkeys((row["threads"], row["size_kib"]) for row in rows):
        own = [row for row in rows if (row["threads"], row["size_kib"]) == load]
        yield ActionLog(
            time=own[0]["heading_time"],
            provider=own[0]["provider"],
            threads=int(load[0]),
            size_kib=int(load[1]),
            actions=[
                ActionStatistics(
                    time=row["time"],
                    action=row["operation"],
                    quantiles={name[1:]: row[name] for name in QUANTILES},
                    rate_per_thread=row["rate_per_thread"],
                )
                for row in own
            ],
        )


def _rates() -> str:
    rows = read.read_rows("datasafe-rates")
    sizes = list(dict.fromkeys(row["size"] for row in rows))
    tables = []
    for operation in dict.fromkeys(row["operation"] for row in rows):
        lines: dict[int, list[str]] = {}
        for row in rows:
            if row["operation"] == operation:
                # One printed line ends in blanks; they belong to the layout, not to the number.
                text = row["rate"] + " " * int(row["trailing_blanks"] or 0)
                lines.setdefault(int(row["threads"]), []).append(text)
        tables.append(rates_table(operation, sizes, lines))
    return "".join(tables)


def _log_measurements() -> Iterator[Measurement]:
    for row in read.read_rows(FILE):
        texts = {f"service_ns_{name}": row[name] for name in QUANTILES}
        for metric, text in {THREAD_RATE: row["rate_per_thread"], **texts}.items():
            scale = 1.0 if metric == THREAD_RATE else 1e6
            yield Measurement(
                target=row["provider"],
                workload="random actions",
                operation=row["operation"].lower(),
                parameters={"size": 1024 * int(row["size_kib"]), "threads": int(row["threads"])},
                metric=metric,
                value=float(text) * scale,
                text=text,
                place=f"log, {row['operation']}, {row['threads']} threads, {row['size_kib']} Kb",
            )


def _table_measurements() -> Iterator[Measurement]:
    provider = read.read_rows(FILE)[0]["provider"]
    for row in read.read_rows("datasafe-rates"):
        yield Measurement(
            target=provider,
            workload="random actions",
            operation=row["operation"].lower(),
            parameters={"size": 1024 * SIZES_KIB[row["size"]], "threads": int(row["threads"])},
            metric=RATE,
            value=float(row["rate"]),
            text=row["rate"],
            place=f"table of {row['operation']}, {row['threads']} threads, {row['size']}",
        )
