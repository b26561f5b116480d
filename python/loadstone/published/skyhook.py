"""Skyhook's observations: rados bench, and the ceilings of network, device and OSDs."""

from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

from loadstone.analysis.accounts.account import BYTE_RATE, Account, KnownCeiling, Measurement
from loadstone.published import read
from loadstone.published.rules import consistency

FILE = "skyhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkyhookRate:
    """A rate as printed, or one described in words, with the meant number in `value`."""

    threads: int
    osds: int
    text: str
    tool: str
    place: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkyhookCeiling:
    """A ceiling as it is printed."""

    resource: Literal["network", "device", "server", "client"]
    name: str
    text: str
    value: str
    low: str | None = None
    high: str | None = None
    tool: str
    count: int
    is_count_inferred: bool = False
    bounds: Literal["read", "write"] | None = None
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkyhookFacts(read.ReportFacts):
    """All figures of the document; `hinted` are given in words only."""

    target: str
    threads: tuple[int, ...]
    ceilings: tuple[SkyhookCeiling, ...]
    rates: tuple[SkyhookRate, ...]
    hinted: tuple[SkyhookRate, ...]


facts = cache(partial(read.read_facts, FILE, SkyhookFacts))


def account() -> Account:
    """Return the rates and the ceilings in bytes per second, by each tool's own units."""
    return Account(
        name=FILE,
        title=facts().title,
        measurements=tuple(_measurement(rate) for rate in facts().rates),
        hinted=tuple(_measurement(hint) for hint in facts().hinted),
        ceilings=tuple(_known(ceiling) for ceiling in facts().ceilings),
        disclosure=facts().disclosure,
        ratios=facts().ratios,
        loads=facts().loads,
        planned_threads=facts().threads,
    )


def render() -> str:
    """Return the network's figures as printed, and all figures in a table.

    The report has no table of its own.
    """
    network, *_ = ceilings = facts().ceilings
    lines = [
        f"* Min. Bandwidth: `{network.low}`",
        f"* Max. Bandwidth: `{network.high}`",
        "",
        f"The average is `{network.value}` ({network.text.partition('(')[2]}.",
        "",
    ]
    lines += ["| Figure | As printed | Tool |", "| ------ | ---------- | ---- |"]
    for ceiling in ceilings:
        ends = f", min {ceiling.low}, max {ceiling.high}" if ceiling.low is not None else ""
        lines.append(f"| {ceiling.name} | {ceiling.text}{ends} | {ceiling.tool} |")
    for rate in (*facts().rates, *facts().hinted):
        lines.append(f"| {_load(rate)} | {rate.text} | {rate.tool} |")
    return "\n".join(lines) + "\n"


def details() -> str:
    """Return the nodes, and the command that measured the device."""
    return f"{facts().text['node']}\n{facts().text['fio']}"


def _load(rate: SkyhookRate) -> str:
    threads = "1 thread" if rate.threads == 1 else f"{rate.threads} threads"
    return f"read, {threads}, {rate.osds} OSD{'s' * (rate.osds > 1)}"


def _measurement(rate: SkyhookRate) -> Measurement:
    printed = rate.value if rate.value is not None else rate.text.lstrip("~")
    return Measurement(
        target=facts().target,
        workload="rados bench",
        operation="read",
        parameters={"threads": rate.threads, "OSDs": rate.osds},
        metric=BYTE_RATE,
        value=consistency.parse_rate_bytes(printed, rate.tool),
        text=rate.text,
        tool=rate.tool,
        place=rate.place,
    )


def _known(ceiling: SkyhookCeiling) -> KnownCeiling:
    def bytes_per_s(text: str | None) -> float | None:
        return consistency.parse_rate_bytes(text, ceiling.tool) if text else None

    return KnownCeiling(
        resource=ceiling.resource,
        name=ceiling.name,
        bytes_per_s=consistency.parse_rate_bytes(ceiling.value, ceiling.tool),
        low=bytes_per_s(ceiling.low),
        high=bytes_per_s(ceiling.high),
        count=ceiling.count,
        is_count_inferred=ceiling.is_count_inferred,
        bounds=ceiling.bounds,
        text=ceiling.text,
        tool=ceiling.tool,
        place=ceiling.place,
    )
