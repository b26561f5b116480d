"""Ceilings that a run measured apart from its load, in bytes per second.

The value of a ceiling is the highest of its measurements in one direction, and the mean of these
values if it was measured several times in a run.
"""

import base64
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from loadstone.analysis.accounts.account import KnownCeiling
from loadstone.analysis.grouping import grouped, grouped_pairs
from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.statistics.latency import Latency, latency, merge
from loadstone.campaign.operations import READS, WRITES
from loadstone.documents.ceiling import CeilingDocument, CeilingMeasurement, sustained_share
from loadstone.results.ceiling_record import CeilingRecord
from loadstone.results.record import Run

Resource = Literal["network", "device", "server"]
Bounds = Literal["read", "write"]

RESOURCES: Mapping[str, Resource] = {
    "network": "network",
    "device": "device",
    "rados_bench": "server",
    "osd_bench": "server",
    "mount": "server",
}
NAMES: Mapping[str, str] = {
    "network": "network path (iperf3)",
    "device": "device (fio)",
    "rados_bench": "rados bench",
    "osd_bench": "OSDs by themselves (ceph tell osd bench)",
    "mount": "mount (fio)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCeiling:
    """One measurement of one ceiling; `is_value` marks the one that stands for its ceiling.

    `low` and `high` are the slowest and the fastest second or sample. `replication` are the bytes
    that a target stores for each byte written, if the campaign states it.
    """

    ceiling: str
    name: str
    kind: str
    targets: tuple[str, ...]
    moment: str
    measurement: str
    bounds: str
    bytes_per_s: float
    low: float | None
    high: float | None
    requests_per_s: float | None
    seconds: tuple[float, ...]
    service: Latency | None
    count: int
    replication: Mapping[str, float]
    tool: str
    tool_version: str | None
    commands: tuple[tuple[str, ...], ...]
    outputs: tuple[str, ...]
    is_value: bool
    is_cleaned_up: bool = True


def find_left_behind(ceilings: Iterable[CeilingRecord]) -> Iterable[Finding]:
    """Report ceilings whose clean-up failed; their measurements are valid."""
    for record in ceilings:
        if not record.left_behind:
            continue
        commands = "; ".join(shlex.join(step["command"]) for step in record.left_behind)
        reasons = "; ".join(dict.fromkeys(str(step["why"]) for step in record.left_behind))
        yield Finding(
            "LEFT BEHIND",
            f'ceiling "{record.ceiling["name"]}" was measured, and what it had made may still'
            f" be there: its clean-up failed ({reasons}); remove it with: {commands}",
            cases=(record.id,),
        )


def bounds_of(operation: str) -> Bounds | None:
    """Return the direction whose ceilings bound an operation; None if it moves no data."""
    # An operation may be followed by the name of its phase.
    word = operation.partition(" ")[0]
    return "read" if word in READS else "write" if word in WRITES else None


def read_measured_ceilings(run: Run) -> tuple[MeasuredCeiling, ...]:
    """Return every measurement of every ceiling of a run, in the order they were made."""
    ceilings = []
    for record in run.ceilings:
        by_bounds = grouped(record.measurements, lambda measured: measured["bounds"])
        values = [_value(record.ceiling["kind"], group) for group in by_bounds.values()]
        for measurement in record.measurements:
            measured = _measured(
                record.ceiling, measurement, is_value=any(measurement is value for value in values)
            )
            ceilings.append(replace(measured, is_cleaned_up=not record.left_behind))
    return tuple(ceilings)


def ceilings_of(measured: Sequence[MeasuredCeiling]) -> tuple[KnownCeiling, ...]:
    """Return one ceiling per name, targets and direction.

    Targets with different numbers of copies are kept apart: see `_copies`.
    """
    groups = grouped(
        (ceiling for ceiling in measured if ceiling.is_value),
        lambda ceiling: (ceiling.name, ceiling.targets, ceiling.bounds),
    )
    ceilings = []
    for members in groups.values():
        by_copies = grouped_pairs(
            (_copies(members[0], target), target) for target in members[0].targets
        )
        ceilings += [_ceiling(members, tuple(names), n) for n, names in by_copies.items()]
    return tuple(ceilings)


def _copies(ceiling: MeasuredCeiling, target: str) -> float:
    """Return the bytes that a device writes per byte of the client, if stated.

    Network paths and the store's own client carry single copies; devices and OSDs write all copies.
    """
    is_behind = ceiling.kind in ("device", "osd_bench") and ceiling.bounds == "write"
    return ceiling.replication.get(target, 1.0) if is_behind else 1.0


def _ceiling(
    members: Sequence[MeasuredCeiling], targets: tuple[str, ...], copies: float
) -> KnownCeiling:
    first = members[0]
    lows = [member.low for member in members if member.low is not None]
    highs = [member.high for member in members if member.high is not None]
    usual = first.name == first.kind
    sustained = [sustained_share(member.seconds) for member in members]
    return KnownCeiling(
        resource=RESOURCES[first.kind],
        name=(NAMES[first.kind] if usual else f"{first.name}, {NAMES[first.kind]}")
        + (f" ÷ {copies:g} for its copies" if copies != 1 else ""),
        bytes_per_s=fmean(
            member.bytes_per_s if share is None else share * member.bytes_per_s
            for member, share in zip(members, sustained, strict=True)
        )
        / copies,
        is_steady=all(share is None for share in sustained),
        low=min(lows) / copies if lows else None,
        high=max(highs) / copies if highs else None,
        count=first.count,
        tool=first.tool,
        place=", ".join(f"ceiling {member.ceiling}, {member.measurement}" for member in members),
        targets=targets,
        bounds="read" if first.bounds == "read" else "write",
    )


def _value(kind: str, measurements: Sequence[CeilingMeasurement]) -> CeilingMeasurement:
    """Return the measurement that stands for a ceiling."""
    if kind == "osd_bench":
        # OSDs may share a device: the sum of single ones would be too high.
        return max(measurements, key=lambda entry: len(entry["parameters"].get("osds") or ()))
    return max(measurements, key=lambda entry: float(entry["bytes_per_s"]))


def _measured(
    ceiling: CeilingDocument, measurement: CeilingMeasurement, *, is_value: bool
) -> MeasuredCeiling:
    encoded = measurement.get("service")
    times = merge([base64.b64decode(encoded)]) if encoded else None
    return MeasuredCeiling(
        ceiling=str(ceiling["id"]),
        name=str(ceiling["name"]),
        kind=str(ceiling["kind"]),
        targets=tuple(ceiling["targets"]),
        moment=str(ceiling["moment"]),
        measurement=str(measurement["name"]),
        bounds=str(measurement["bounds"]),
        bytes_per_s=float(measurement["bytes_per_s"]),
        low=measurement.get("bytes_per_s_min"),
        high=measurement.get("bytes_per_s_max"),
        requests_per_s=measurement.get("requests_per_s"),
        seconds=tuple(measurement.get("bytes_per_second") or ()),
        service=latency(times) if times is not None else None,
        count=int(ceiling.get("count") or 1),
        replication=ceiling.get("replication") or {},
        tool=str(measurement.get("tool") or ""),
        tool_version=measurement.get("tool_version"),
        commands=tuple(tuple(words) for words in measurement.get("commands") or ()),
        outputs=tuple(measurement.get("outputs") or ()),
        is_value=is_value,
    )
