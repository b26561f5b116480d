"""Skyhook's observations: rados bench, and the ceilings of network, device and OSDs."""

from dataclasses import dataclass
from typing import Literal

from loadstone.analysis.accounts.account import BYTE_RATE, Account, KnownCeiling, Measurement
from loadstone.analysis.standards import printed_units
from loadstone.published import read

FILE = "skyhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rate:
    """A rate as it is printed, or one that words hint at, whose `value` they mean."""

    threads: int
    osds: int
    text: str
    tool: str
    place: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ceiling:
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


def account() -> Account:
    """Return the rates and the ceilings in bytes per second, each as its own tool counts them."""
    facts = read.read_facts(FILE)
    target = facts["target"]
    return Account(
        name=FILE,
        title=facts["title"],
        measurements=tuple(_measurement(one, target) for one in _rates("rates")),
        hinted=tuple(_measurement(one, target) for one in _rates("hinted")),
        ceilings=tuple(_known(one) for one in _ceilings()),
        disclosure=read.disclosure(facts),
        ratios=read.ratios(facts),
        loads=read.loads(facts),
        planned_threads=tuple(facts["threads"]),
    )


def render() -> str:
    """Return the network's figures as they are printed, and all figures in a table.

    The report has no table of its own.
    """
    network, *_ = ceilings = _ceilings()
    lines = [
        f"* Min. Bandwidth: `{network.low}`",
        f"* Max. Bandwidth: `{network.high}`",
        "",
        f"The average is `{network.value}` ({network.text.partition('(')[2]}.",
        "",
    ]
    lines += ["| Figure | As printed | Tool |", "| ------ | ---------- | ---- |"]
    for one in ceilings:
        ends = f", min {one.low}, max {one.high}" if one.low is not None else ""
        lines.append(f"| {one.name} | {one.text}{ends} | {one.tool} |")
    for rate in (*_rates("rates"), *_rates("hinted")):
        lines.append(f"| {_load(rate)} | {rate.text} | {rate.tool} |")
    return "\n".join(lines) + "\n"


def details() -> str:
    """Return the nodes, and the command that measured the device."""
    text = read.read_facts(FILE)["text"]
    return f"{text['node']}\n{text['fio']}"


def _rates(table: str) -> list[_Rate]:
    return [_Rate(**entry) for entry in read.read_facts(FILE)[table]]


def _ceilings() -> list[_Ceiling]:
    return [_Ceiling(**entry) for entry in read.read_facts(FILE)["ceilings"]]


def _load(rate: _Rate) -> str:
    threads = "1 thread" if rate.threads == 1 else f"{rate.threads} threads"
    return f"read, {threads}, {rate.osds} OSD{'s' * (rate.osds > 1)}"


def _measurement(rate: _Rate, target: str) -> Measurement:
    printed = rate.value if rate.value is not None else rate.text.lstrip("~")
    return Measurement(
        target=target,
        workload="rados bench",
        operation="read",
        parameters={"threads": rate.threads, "OSDs": rate.osds},
        metric=BYTE_RATE,
        value=printed_units.parse_rate_bytes(printed, rate.tool),
        text=rate.text,
        tool=rate.tool,
        place=rate.place,
    )


def _known(one: _Ceiling) -> KnownCeiling:
    def bytes_per_s(text: str | None) -> float | None:
        return printed_units.parse_rate_bytes(text, one.tool) if text else None

    return KnownCeiling(
        resource=one.resource,
        name=one.name,
        bytes_per_s=printed_units.parse_rate_bytes(one.value, one.tool),
        low=bytes_per_s(one.low),
        high=bytes_per_s(one.high),
        count=one.count,
        is_count_inferred=one.is_count_inferred,
        bounds=one.bounds,
        text=one.text,
        tool=one.tool,
        place=one.place,
    )
