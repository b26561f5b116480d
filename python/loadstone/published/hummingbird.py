"""Benchmarks of Hummingbird, Ceph and Swift in four laboratories: 18 tables, 240 rates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from loadstone.analysis.accounts.account import RATE, Account, Measurement, Statement
from loadstone.published import read
from loadstone.published.tables.layouts import RoundsRow, ordinal, rounds_table

FILE = "hummingbird"


@dataclass(frozen=True, slots=True, kw_only=True)
class HummingbirdRate:
    """One cell of a table; `head` is the beginning of the table as printed."""

    table: int
    head: str
    lab: str
    nodes: int
    size_bytes: int
    system: str
    operation: str
    round: int
    rate_per_s: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Laboratory:
    """A laboratory that measured some of the tables."""

    name: str
    hardware: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NectarDataset:
    """The objects of one size."""

    size_bytes: int
    objects: int
    containers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NectarCampaign:
    """The runs of nectar, equal in all laboratories."""

    tool: str
    threads: int
    containers: int
    iterations_of_get: int
    pauses_s: Mapping[str, int]
    continue_on_error: bool
    datasets: tuple[NectarDataset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HummingbirdFacts(read.ReportFacts):
    """The text of the document around its tables."""

    campaign: NectarCampaign
    laboratories: Mapping[str, Laboratory]


facts = cache(partial(read.read_facts, FILE, HummingbirdFacts))
_rates = cache(partial(read.read_rows, FILE, HummingbirdRate))


def account() -> Account:
    """Return the 240 rates; a read of an object counts once for each of its iterations."""
    return Account(
        name=FILE,
        title=facts().title,
        measurements=tuple(_measurements()),
        statements=(
            Statement(
                quantity="concurrency",
                value=facts().campaign.threads,
                unit="requests in flight",
                place="nectar -C",
            ),
        ),
        disclosure=facts().disclosure,
    )


def render() -> str:
    """Return the tables in order and in their layout, each under the name of its laboratory."""
    parts, laboratory = [], None
    for rates in _tables():
        if rates[0].lab != laboratory:
            laboratory = rates[0].lab
            parts.append(f"# {facts().laboratories[laboratory].name}\n")
        parts.append(_table(rates))
    return "\n".join(parts)


def details() -> str:
    """Return the hardware of each laboratory."""
    return "\n".join(
        f"# {laboratory.name}\n\n{laboratory.hardware}"
        for laboratory in facts().laboratories.values()
    )


def _measurements() -> Iterator[Measurement]:
    campaign = facts().campaign
    objects = {dataset.size_bytes: dataset.objects for dataset in campaign.datasets}
    for rate in _rates():
        iterations = campaign.iterations_of_get if rate.operation == "get" else 1
        label = f"{rate.operation.upper()}/sec {ordinal(rate.round)} round"
        yield Measurement(
            target=rate.system,
            workload=facts().laboratories[rate.lab].name,
            operation=rate.operation,
            parameters={"size": rate.size_bytes, "nodes": rate.nodes, "threads": campaign.threads},
            metric=RATE,
            value=float(rate.rate_per_s),
            text=rate.rate_per_s,
            round=rate.round,
            work=objects[rate.size_bytes] * iterations,
            place=f'table {rate.table} "{rate.head}", {label}, {rate.system}',
        )


def _tables() -> Iterator[list[HummingbirdRate]]:
    for number in dict.fromkeys(rate.table for rate in _rates()):
        yield [rate for rate in _rates() if rate.table == number]


def _table(rates: Sequence[HummingbirdRate]) -> str:
    systems = list(dict.fromkeys(rate.system for rate in rates))
    lines: dict[tuple[str, int], dict[str, float]] = {}
    for rate in rates:
        lines.setdefault((rate.operation, rate.round), {})[rate.system] = float(rate.rate_per_s)
    return rounds_table(
        rates[0].head,
        systems,
        [
            RoundsRow(operation=operation, round=number, rates=[line.get(s) for s in systems])
            for (operation, number), line in lines.items()
        ],
    )
