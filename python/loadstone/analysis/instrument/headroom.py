"""The load generator in a trial: its share of its own ceiling, and its hiccups."""

import base64
import binascii
import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from loadstone.analysis.instrument.own_ceiling import (
    CeilingShare,
    ClientLoad,
    NoOwnCeilingError,
    OwnCeiling,
    ceiling_of,
    cores_of,
)
from loadstone.analysis.instrument.watched_lines import is_on_own_host
from loadstone.campaign.planning.kinds import kind_of
from loadstone.documents.manifest import HostConditions, HostFacts, KeptCalibration, Manifest
from loadstone.results.calibration import AGE_MAX, Calibration, conditions_of, identity_of, parse
from loadstone.results.record import Record

if TYPE_CHECKING:
    from loadstone._loadgen import Histogram
    from loadstone.analysis.measured.part import Part
from loadstone.documents.summary import LoadHost

AGE_MAX_DAYS = AGE_MAX.days
HICCUP_QUANTILE = 0.999
HICCUP_SHARE = 0.10
"""Hiccups of more than this share of a percentile make it noisy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jitter:
    """Delays of a thread of the load generator that only sleeps.

    `run_delay_share` is the share of time that the worst load thread waited for a core.
    """

    hiccup_ns_p99_9: int | None
    hiccup_ns_max: int | None
    run_delay_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The calibration of a run and of its client hosts, or the reason why there is none.

    Agents with the same `machine` share its ceiling.
    """

    calibration: Calibration | None
    absent: str
    conditions: HostConditions
    machine: str = ""
    hosts: Mapping[str, "Calibrated"] = field(default_factory=dict)


def read_calibration(manifest: Manifest) -> Calibrated:
    facts = manifest.get("host") or {}
    if manifest.get("imported"):
        return Calibrated(calibration=None, absent="", conditions=conditions_of(facts))
    hosts = {
        host["name"]: _read_kept(host.get("calibration"), host["fingerprint"])
        for host in manifest.get("hosts") or ()
    }
    return replace(_read_kept(manifest.get("calibration"), facts), hosts=hosts)


def _read_kept(kept_calibration: KeptCalibration | None, facts: HostFacts) -> Calibrated:
    calibrated = Calibrated(
        calibration=None,
        absent=(kept_calibration or {}).get("absent") or "no calibration was copied into the run",
        conditions=conditions_of(facts),
        machine=json.dumps(identity_of(facts), sort_keys=True),
    )
    if not kept_calibration or "absent" in kept_calibration:
        return calibrated
    try:
        return replace(calibrated, calibration=parse(kept_calibration), absent="")
    except ValidationError:
        return replace(
            calibrated, absent="the calibration that was copied into the run cannot be read"
        )


def with_shares(parts: Iterable["Part"], calibrated: Calibrated) -> list["Part"]:
    """Return the parts of one trial with the share of the load generator's ceiling.

    Of several client hosts the one with the least headroom counts.
    """
    parts = list(parts)
    judged: list[Part] = []
    for iteration in dict.fromkeys(part.iteration for part in parts):
        iteration_parts = [part for part in parts if part.iteration == iteration]
        try:
            if iteration_parts[0].record.trial.get("hosts"):
                share = _share_over_hosts(iteration_parts, calibrated.hosts)
            else:
                share = _share(iteration_parts, calibrated, _here(iteration_parts[0].record))
        except NoOwnCeilingError as error:
            judged += [replace(part, no_ceiling=str(error)) for part in iteration_parts]
            continue
        judged += [replace(part, instrument=share) for part in iteration_parts]
    return judged


def combine_shares(parts: Sequence["Part"]) -> CeilingShare | None:
    """Return the share over several parts, weighted by time."""
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
    """Return the merged hiccups of some trials, and their run delays."""
    records = list(records)
    merged = hiccups_of(records)
    delays = [delay for record in records if (delay := _run_delay(record)) is not None]
    return Jitter(
        hiccup_ns_p99_9=merged.quantile(HICCUP_QUANTILE) if merged is not None else None,
        hiccup_ns_max=merged.max if merged is not None else None,
        run_delay_share=max(delays, default=None),
    )


def hiccups_of(records: Iterable[Record]) -> "Histogram | None":
    """Return the merged histogram of late sleeps."""
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
    whole_ns = sum(
        iteration.get("end_ns", 0) - iteration.get("start_ns", 0) for iteration in iterations
    )
    if hiccups is None or whole_ns <= 0:
        return 0.0
    late_ns, counts = hiccups.buckets()
    stalled_ns = sum(ns * n for ns, n in zip(late_ns, counts, strict=True) if ns >= at_least_ns)
    return float(min(1.0, stalled_ns / whole_ns))


def _run_delay(record: Record) -> float | None:
    reported = record.summary.get("thread_run_delay_ns") or ()
    delays = [delay for delay in reported if delay is not None]
    length_ns = _length_ns(record)
    return float(max(delays) / length_ns) if delays and length_ns > 0 else None


def _length_ns(record: Record) -> int:
    entries = record.summary.get("iterations") or ()
    return max((entry["end_ns"] for entry in entries if "end_ns" in entry), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Worker:
    """One client host in a trial: its clients, its share of the requests, its figures."""

    clients: int | None
    requests_share: float
    thread_cpu_ns: Sequence[int]
    is_on_target: bool


def _here(record: Record) -> _Worker:
    load = record.trial.get("load") or {}
    return _Worker(
        clients=load.get("clients") if load.get("kind") == "closed" else None,
        requests_share=1.0,
        thread_cpu_ns=record.summary.get("thread_cpu_ns") or (),
        is_on_target=is_on_own_host(record),
    )


def _share_over_hosts(parts: Sequence["Part"], hosts: Mapping[str, Calibrated]) -> CeilingShare:
    """Return the share of the client host that used the most of its ceiling.

    All hosts are assumed to have the same mix. Agents on one machine share its ceiling.
    """
    record = parts[0].record
    load = record.trial.get("load") or {}
    active = [host for host in hosts_of(record) if host.get("requests")]
    whole = sum(host["requests"] for host in active)
    machines: dict[str, list[CeilingShare]] = {}
    for host in active:
        worker = _Worker(
            clients=host.get("clients") if load.get("kind") == "closed" else None,
            requests_share=host["requests"] / whole,
            thread_cpu_ns=host.get("thread_cpu_ns") or (),
            is_on_target=bool(host.get("target_on_own_host")),
        )
        known = hosts.get(host["name"])
        if known is None:
            raise NoOwnCeilingError(f"{host['name']}: the run does not say what host it was")
        try:
            share = _share(parts, known, worker)
        except NoOwnCeilingError as error:
            raise NoOwnCeilingError(f"{host['name']}: {error}") from error
        machines.setdefault(known.machine or host["name"], []).append(share)
    if not machines:
        raise NoOwnCeilingError("no request succeeded")
    return max((_together(shares) for shares in machines.values()), key=lambda share: share.share)


def _together(shares: Sequence[CeilingShare]) -> CeilingShare:
    """Add up the shares of agents on one machine."""
    rate = shares[0].share * shares[0].ceiling_per_s
    share = sum(share.share for share in shares)
    return replace(shares[0], share=share, ceiling_per_s=rate / share if share else 0.0)


def _ceiling(part: "Part", calibrated: Calibrated, worker: _Worker) -> OwnCeiling:
    trial = part.record.trial
    if calibrated.calibration is None:
        raise NoOwnCeilingError(calibrated.absent)
    if not trial.get("load"):
        raise NoOwnCeilingError(f"no load generator made the load of a trial of {kind_of(trial)}")
    if not part.good:
        raise NoOwnCeilingError("no request succeeded")
    settings = trial["target"].get("settings") or {}
    dataset = trial.get("dataset") or {}
    return ceiling_of(
        calibrated.calibration,
        ClientLoad(
            driver=trial["target"]["driver"],
            operation=part.operation,
            bytes_per_request=part.bytes / part.good,
            clients=worker.clients,
            cores=trial.get("cores"),
            verify=float(trial.get("verify") or 0),
            connections=str(trial.get("connections") or "keep_alive"),
            encryption=dataset.get("encryption"),
            path_encryption=dataset.get("path_encryption"),
            settings=settings,
            is_on_own_host=worker.is_on_target,
        ),
        calibrated.conditions,
    )


def _busy(record: Record, worker: _Worker, conditions: HostConditions) -> float:
    """Return the share of cores' time that load threads used in a trial."""
    cpu_ns = sum(worker.thread_cpu_ns)
    length_ns = _length_ns(record)
    cores = cores_of(conditions, record.trial.get("cores"))
    return cpu_ns / length_ns / cores if length_ns > 0 else 0.0


def _share(parts: Sequence["Part"], calibrated: Calibrated, worker: _Worker) -> CeilingShare:
    """Add up the shares of operations, failed requests included.

    A remote target may cost the client more than loopback, so the share is at least that of its
    threads.
    """
    ceilings = [_ceiling(part, calibrated, worker) for part in parts]
    rates = [(part.good + sum(part.errors.values())) / part.duration_s for part in parts]
    share = worker.requests_share * sum(
        rate / ceiling.requests_per_s for rate, ceiling in zip(rates, ceilings, strict=True)
    )
    if ceilings[0].basis == "processor time":
        share = max(share, _busy(parts[0].record, worker, calibrated.conditions))
    began_ns = parts[0].record.summary.get("started_unix_ns") or 0
    began = datetime.datetime.fromtimestamp(began_ns / 1e9, datetime.UTC)
    oldest = min(ceiling.measured for ceiling in ceilings)
    return CeilingShare(
        share=share,
        ceiling_per_s=sum(rates) / share if share else ceilings[0].requests_per_s,
        basis=ceilings[0].basis,
        is_extended=any(ceiling.is_extended for ceiling in ceilings),
        age_s=max(0.0, (began - oldest).total_seconds()) if began_ns else 0.0,
    )


START_ERROR_NS_MAX = 5_000_000
SHARE_MIN = 0.8
"""A host with less than this part of an equal share is not explained by chance."""


def hosts_of(record: Record) -> Sequence[LoadHost]:
    """Return the hosts of a record; none if the trial ran on this one alone."""
    return record.summary.get("hosts") or ()


def lost(record: Record) -> list[LoadHost]:
    """Return the hosts that were lost before or during the trial."""
    return [host for host in hosts_of(record) if host["state"] == "lost"]


def is_lost_meanwhile(record: Record) -> bool:
    """Tell whether a host was lost during its load."""
    return any(host.get("lost_ns") for host in lost(record))


def behind(record: Record) -> list[tuple[LoadHost, float]]:
    """Return the hosts that did less than their share, with the part that they did.

    Only if a clock ends the load, as a number of requests is divided evenly beforehand. Shares
    follow the clients of each host.
    """
    stop, whole = record.trial.get("stop") or {}, hosts_of(record)
    working = [host for host in whole if host["state"] == "finished"]
    if stop.get("requests") is not None or len(working) < 2 or not record.trial.get("measured"):
        return []
    clients = {host["name"]: host.get("clients") or 1 for host in working}
    per_client = sum(host["requests"] for host in working) / sum(clients.values())
    shares = (
        [(host, host["requests"] / (per_client * clients[host["name"]])) for host in working]
        if per_client
        else []
    )
    return [(host, share) for host, share in shares if share < SHARE_MIN]


def start_error_ns(host: LoadHost) -> int:
    """Return the largest offset of a host from the common start."""
    return abs(int(host.get("start_error_ns_max") or 0))
