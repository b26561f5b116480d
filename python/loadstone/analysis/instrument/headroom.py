"""The instrument itself, seen in a trial: how near its own ceiling, and how often it hiccuped."""

import base64
import binascii
import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from loadstone.analysis.instrument import client_limits
from loadstone.analysis.instrument.own_ceiling import (
    Basis,
    ClientLoad,
    NoOwnCeilingError,
    OwnCeiling,
    ceiling_of,
    cores_of,
)
from loadstone.campaign.planning.trial import kind_of
from loadstone.results.calibration import AGE_MAX, Calibration, conditions_of, parse
from loadstone.results.record import Record

if TYPE_CHECKING:
    from loadstone._loadgen import Histogram
    from loadstone.analysis.measured.part import Part

AGE_MAX_DAYS = AGE_MAX.days
HICCUP_QUANTILE = 0.999
HICCUP_SHARE = 0.10
"""Hiccups of more than this share of a percentile make it noisy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingShare:
    """How much of its own ceiling the instrument used: 0.5 is half of it, and 1 all of it.

    Several operations side by side use up the sum of their shares. `ceiling_per_s` is the rate at
    which nothing would be left, the mix of operations being the same. `age_s` is how old the
    calibration was when the trial began.
    """

    share: float
    ceiling_per_s: float
    basis: Basis
    is_extended: bool
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Jitter:
    """What the client's host did to a thread of the load generator that only wanted to sleep.

    `run_delay_share` is how long the worst load thread waited for a core, of the time measured.
    """

    hiccup_ns_p99_9: int | None
    hiccup_ns_max: int | None
    run_delay_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The calibration that a run carries with it, or why it has none."""

    calibration: Calibration | None
    absent: str
    conditions: Mapping[str, Any]


def read_calibration(manifest: Mapping[str, Any]) -> Calibrated:
    """Return what a manifest keeps of the instrument's calibration."""
    conditions = conditions_of(manifest.get("host") or {})
    kept = manifest.get("calibration")
    if manifest.get("imported"):
        return Calibrated(calibration=None, absent="", conditions=conditions)
    if not kept or "absent" in kept:
        absent = str((kept or {}).get("absent") or "no calibration was copied into the run")
        return Calibrated(calibration=None, absent=absent, conditions=conditions)
    try:
        return Calibrated(calibration=parse(kept), absent="", conditions=conditions)
    except (KeyError, TypeError, ValueError):
        absent = "the calibration that was copied into the run cannot be read"
        return Calibrated(calibration=None, absent=absent, conditions=conditions)


def with_shares(parts: Iterable["Part"], calibrated: Calibrated) -> list["Part"]:
    """Return the parts of one trial with the share of the instrument that each iteration took."""
    parts = list(parts)
    if calibrated.calibration is None:
        return [replace(part, no_ceiling=calibrated.absent) for part in parts]
    judged: list[Part] = []
    for iteration in dict.fromkeys(part.iteration for part in parts):
        own = [part for part in parts if part.iteration == iteration]
        try:
            ceilings = [_ceiling(part, calibrated, calibrated.calibration) for part in own]
        except NoOwnCeilingError as error:
            judged += [replace(part, no_ceiling=str(error)) for part in own]
            continue
        share = _share(own, ceilings, _busy(own[0].record, calibrated.conditions))
        judged += [replace(part, instrument=share) for part in own]
    return judged


def combine_shares(parts: Sequence["Part"]) -> CeilingShare | None:
    """Return the share over several parts, each with the weight of its time."""
    shares = [(part.instrument, part.duration_s) for part in parts if part.instrument is not None]
    if not shares or len(shares) != len(parts):
        return None
    whole_s = sum(duration_s for _, duration_s in shares)
    bases = [share.basis for share, _ in shares]
    return CeilingShare(
        share=sum(share.share * duration_s for share, duration_s in shares) / whole_s,
        ceiling_per_s=sum(share.ceiling_per_s * duration_s for share, duration_s in shares)
        / whole_s,
        basis=bases[0],
        is_extended=any(share.is_extended for share, _ in shares),
        age_s=max(share.age_s for share, _ in shares),
    )


def jitter_of(records: Iterable[Record]) -> Jitter:
    """Return what the instrument saw of its own host during some trials; hiccups are merged."""
    records = list(records)
    merged = hiccups_of(records)
    delays = [delay for record in records if (delay := _run_delay(record)) is not None]
    return Jitter(
        hiccup_ns_p99_9=merged.quantile(HICCUP_QUANTILE) if merged is not None else None,
        hiccup_ns_max=merged.max if merged is not None else None,
        run_delay_share=max(delays, default=None),
    )


def hiccups_of(records: Iterable[Record]) -> "Histogram | None":
    """Return by how much a sleep was late, all trials added up."""
    from loadstone._loadgen import Histogram

    merged = Histogram()
    for record in records:
        encoded = record.summary.get("hiccup")
        if isinstance(encoded, str):
            try:
                merged.add(base64.b64decode(encoded, validate=True))
            except (binascii.Error, ValueError):
                continue
    return merged if merged.count else None


def stalled_share(record: Record, at_least_ns: float) -> float:
    """Return the share of a trial's time that a sleeping thread spent waiting to be woken, of all
    waits of a length; 0 where it was not measured.
    """
    hiccups = hiccups_of([record])
    iterations = record.summary.get("iterations") or ()
    whole_ns = sum(one.get("end_ns", 0) - one.get("start_ns", 0) for one in iterations)
    if hiccups is None or whole_ns <= 0:
        return 0.0
    late_ns, counts = hiccups.buckets()
    stalled_ns = sum(ns * n for ns, n in zip(late_ns, counts, strict=True) if ns >= at_least_ns)
    return float(min(1.0, stalled_ns / whole_ns))


def _run_delay(record: Record) -> float | None:
    delays = [one for one in record.summary.get("thread_run_delay_ns") or () if one is not None]
    ends = [
        entry["end_ns"] for entry in record.summary.get("iterations") or () if "end_ns" in entry
    ]
    if not delays or not ends or max(ends) <= 0:
        return None
    return float(max(delays) / max(ends))


def _ceiling(part: "Part", calibrated: Calibrated, calibration: Calibration) -> OwnCeiling:
    trial = part.record.trial
    load = trial.get("load")
    if not load:
        raise NoOwnCeilingError(f"no load generator made the load of a trial of {kind_of(trial)}")
    if not part.good:
        raise NoOwnCeilingError("not one request succeeded")
    if trial.get("hosts"):
        raise NoOwnCeilingError("client hosts made the load, each with a ceiling of its own")
    settings = trial["target"].get("settings") or {}
    return ceiling_of(
        calibration,
        ClientLoad(
            driver=trial["target"]["driver"],
            operation=part.operation,
            bytes_per_request=part.bytes / part.good,
            clients=load.get("clients") if load.get("kind") == "closed" else None,
            cores=trial.get("cores"),
            verify=float(trial.get("verify") or 0),
            connections=str(trial.get("connections") or "keep_alive"),
            encryption=(trial.get("dataset") or {}).get("encryption"),
            settings=settings,
            is_on_own_host=client_limits.is_on_own_host(part.record),
        ),
        calibrated.conditions,
    )


def _busy(record: Record, conditions: Mapping[str, Any]) -> float:
    """Return the share of its cores' time that the load's threads used during a trial."""
    cpu_ns = sum(record.summary.get("thread_cpu_ns") or ())
    ends = [
        entry["end_ns"] for entry in record.summary.get("iterations") or () if "end_ns" in entry
    ]
    length_ns = max(ends, default=0)
    cores = cores_of(conditions, record.trial.get("cores"))
    return cpu_ns / length_ns / cores if length_ns > 0 else 0.0


def _share(parts: Sequence["Part"], ceilings: Sequence[OwnCeiling], busy: float) -> CeilingShare:
    """Add up what each operation took: of requests that failed the client had the work too.

    The way to a target elsewhere may cost the client more than loopback did, so that it is never
    less than what its threads really used of their cores.
    """
    rates = [(part.good + sum(part.errors.values())) / part.duration_s for part in parts]
    share = sum(rate / one.requests_per_s for rate, one in zip(rates, ceilings, strict=True))
    if ceilings[0].basis == "processor time":
        share = max(share, busy)
    began_ns = parts[0].record.summary.get("started_unix_ns") or 0
    began = datetime.datetime.fromtimestamp(began_ns / 1e9, datetime.UTC)
    oldest = min(one.measured for one in ceilings)
    return CeilingShare(
        share=share,
        ceiling_per_s=sum(rates) / share if share else ceilings[0].requests_per_s,
        basis=ceilings[0].basis,
        is_extended=any(one.is_extended for one in ceilings),
        age_s=max(0.0, (began - oldest).total_seconds()) if began_ns else 0.0,
    )
