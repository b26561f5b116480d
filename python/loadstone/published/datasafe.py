"""Datasafe's long run: the statistics of its example log, and the rates derived from them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

from loadstone.analysis.accounts.account import RATE, THREAD_RATE, Account, Measurement
from loadstone.published import read
from loadstone.published.tables.layouts import (
    ActionLog,
    ActionStatistics,
    rates_table,
    statistics_log,
)

FILE, RATES_FILE = "datasafe", "datasafe-rates"
SIZES_KIB = {"100kb": 100, "1mb": 1024, "10mb": 10240}


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasafeLine:
    """One line of the log's statistics, under the heading of its load; milliseconds as printed."""

    heading_time: str
    time: str
    provider: str
    threads: int
    size_kib: int
    operation: str
    p50: str
    p99: str
    p90: str
    p75: str
    p95: str
    rate_per_thread: str

    @property
    def quantiles(self) -> Mapping[str, str]:
        """The percentiles, in the order the log prints them."""
        return {"50": self.p50, "99": self.p99, "90": self.p90, "75": self.p75, "95": self.p95}


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasafeRate:
    """One cell of the table of rates, with the number of its trailing blanks as printed."""

    operation: str
    threads: int
    size: str
    rate: str
    trailing_blanks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasafeClient:
    """A machine that made the load."""

    name: str
    kind: str
    cpus: int
    memory_gb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasafeFacts(read.ReportFacts):
    """The text of the document; `campaign` and `ceph` are shown unchanged."""

    logger: str
    clients: tuple[DatasafeClient, ...]
    campaign: Mapping[str, object]
    ceph: Mapping[str, object]


facts = cache(partial(read.read_facts, FILE, DatasafeFacts))
_lines = cache(partial(read.read_rows, FILE, DatasafeLine))
_rates = cache(partial(read.read_rows, RATES_FILE, DatasafeRate))


def account() -> Account:
    """Return the log's percentiles and rates per thread, and the table's rates."""
    return Account(
        name=FILE,
        title=facts().title,
        measurements=(*_log_measurements(), *_table_measurements()),
        disclosure=facts().disclosure,
    )


def render() -> str:
    """Return the log, and the table of rates, in their layouts."""
    return f"{statistics_log(list(_logs()), facts().logger)}\n{_rates_tables()}"


def details() -> str:
    """Return the clients, and the Ceph cluster."""
    lines = [
        f"{client.name} ({client.kind}): {client.cpus} CPUs, {client.memory_gb:g} GB"
        for client in facts().clients
    ]
    lines += [f"{key}: {value}" for key, value in facts().campaign.items()]
    lines += [f"Ceph {key}: {value}" for key, value in facts().ceph.items()]
    return "\n".join(lines) + "\n"


def _logs() -> Iterator[ActionLog]:
    for threads, size_kib in dict.fromkeys((line.threads, line.size_kib) for line in _lines()):
        lines = [line for line in _lines() if (line.threads, line.size_kib) == (threads, size_kib)]
        yield ActionLog(
            time=lines[0].heading_time,
            provider=lines[0].provider,
            threads=threads,
            size_kib=size_kib,
            actions=[
                ActionStatistics(
                    time=line.time,
                    action=line.operation,
                    quantiles=line.quantiles,
                    rate_per_thread=line.rate_per_thread,
                )
                for line in lines
            ],
        )


def _rates_tables() -> str:
    sizes = list(dict.fromkeys(rate.size for rate in _rates()))
    tables = []
    for operation in dict.fromkeys(rate.operation for rate in _rates()):
        lines: dict[int, list[str]] = {}
        for rate in _rates():
            if rate.operation == operation:
                # The trailing blanks of one printed line belong to the layout, not to the number.
                text = rate.rate + " " * int(rate.trailing_blanks or 0)
                lines.setdefault(rate.threads, []).append(text)
        tables.append(rates_table(operation, sizes, lines))
    return "".join(tables)


def _log_measurements() -> Iterator[Measurement]:
    for line in _lines():
        texts = {f"service_ns_p{name}": text for name, text in line.quantiles.items()}
        for metric, text in {THREAD_RATE: line.rate_per_thread, **texts}.items():
            scale = 1.0 if metric == THREAD_RATE else 1e6
            yield Measurement(
                target=line.provider,
                workload="random actions",
                operation=line.operation.lower(),
                parameters={"size": 1024 * line.size_kib, "threads": line.threads},
                metric=metric,
                value=float(text) * scale,
                text=text,
                place=f"log, {line.operation}, {line.threads} threads, {line.size_kib} Kb",
            )


def _table_measurements() -> Iterator[Measurement]:
    provider = _lines()[0].provider
    for rate in _rates():
        yield Measurement(
            target=provider,
            workload="random actions",
            operation=rate.operation.lower(),
            parameters={"size": 1024 * SIZES_KIB[rate.size], "threads": rate.threads},
            metric=RATE,
            value=float(rate.rate),
            text=rate.rate,
            place=f"table of {rate.operation}, {rate.threads} threads, {rate.size}",
        )
