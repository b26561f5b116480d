"""Resources of the client at their limits while a trial was measured.

A resource is judged over the measured window by its worst core or card, since a mean would hide a
full one. A missing source is no evidence.

Most kernel counters are of the whole host, with other programs. They count only if this process
(the time of its threads, its bytes, connections and page faults) can explain the full resource.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from loadstone.analysis.instrument.card_limits import (
    busy_cards,
    busy_interrupts,
    drops,
    losses,
    shares_of_cards,
)
from loadstone.analysis.instrument.watched_lines import (
    Line,
    Lines,
    Numbers,
    addresses_of_target,
    evidence_of,
    is_on_own_host,
    whole_ns_of,
)
from loadstone.analysis.judgements.finding import Evidence
from loadstone.documents.outcomes import CLIENT_FAILURES
from loadstone.documents.summary import Summary
from loadstone.probes.sockets import PORTS_QUICK_SHARE, TCP_TW_REUSE_USUAL, is_loopback, port_rest_s
from loadstone.results.record import Record

CORE_BUSY = 0.95
CORE_BUSY_SHARE = 0.10
CPU_BUSY = 0.80
STEAL = 0.02
RUN_DELAY = 0.05
OCCUPIED = 0.8
AWAKE_SOME = 0.05
OCCUPIED_SOME = 0.5
THROTTLED = 0.01
MEMORY_PRESSURE = 0.001
MEMORY_FULL = 0.90
FOREIGN_BUSY = 0.10

PROCESSOR_TIME, LOAD_THREADS = "processor time", "load threads"
"""Sources of evidence with several metrics."""

CPU_KINDS = ("user", "nice", "system", "irq", "softirq", "steal")
CPU_IDLE = ("idle", "iowait")


def limits_of(record: Record, lines: Lines) -> dict[str, list[Evidence]]:
    """Return the flags of a trial with their evidence, such as INSTRUMENT_CPU or CLIENT_NIC.

    If the target runs on the client's host, a full processor may be due to either: SHARED_HOST.
    """
    flags: dict[str, list[Evidence]] = {}
    for of_host, watched in _of_each_host(record, lines):
        if evidence := _full_processor(of_host, watched):
            name = "SHARED_HOST" if is_on_own_host(of_host) else "INSTRUMENT_CPU"
            flags.setdefault(name, []).extend(evidence)
        for flag, look in LOOKS:
            if evidence := list(look(of_host, watched)):
                flags.setdefault(flag, []).extend(evidence)
    return flags


def _full_processor(record: Record, lines: Lines) -> list[Evidence]:
    cores = list(_busy_cores(lines))
    stolen = _stolen_shares(lines, cores)
    occupied = occupied_share(record)
    # A thread of the load may have waited for a stolen core.
    if occupied is not None and occupied + max(stolen, default=0.0) < OCCUPIED_SOME:
        # Threads that mostly wait for answers would not gain from more processor time.
        return []
    return [*_cpu(record, lines, cores), *_waiting(record, lines, occupied, stolen)]


Uses = Mapping[str, float | None]
"""The used shares of the client's resources that were watched, by their limits."""


def uses_of(record: Record, lines: Lines) -> Uses:
    """Return the used shares of the client's resources that were watched on every host.

    A missing resource was not watched, and may have been full.
    """
    hosts = [
        _uses_of_host(host_record, watched) for host_record, watched in _of_each_host(record, lines)
    ]
    limits = [limit for limit in hosts[0] if all(limit in host for host in hosts)] if hosts else []
    return {
        limit: max((used for host in hosts if (used := host[limit]) is not None), default=None)
        for limit in limits
    }


def _uses_of_host(record: Record, lines: Lines) -> dict[str, float | None]:
    used: dict[str, float | None] = {}
    occupied = occupied_share(record)
    if occupied is not None or ("cpu", "idle_ns") in lines:
        used["INSTRUMENT_CPU"] = occupied
    if ("memory", "swapped_in_pages") in lines:
        used["INSTRUMENT_MEM"] = _peak_share(
            lines, ("process", "rss_bytes"), ("cgroup", "memory_bytes_max")
        )
    if ("sockets", "ports") in lines:
        used["INSTRUMENT_SOCKETS"] = _peak_share(
            lines, ("sockets", "time_wait"), ("sockets", "ports")
        )
    cards = [
        share
        for metric in ("received_bytes", "sent_bytes")
        for _, share in shares_of_cards(lines, metric)
    ]
    if cards or is_on_own_host(record):
        used["CLIENT_NIC"] = max(cards, default=None)
    return used


def _peak_share(lines: Lines, part: tuple[str, str], whole: tuple[str, str]) -> float | None:
    shares = [
        float(line.values.max() / of.values.max())
        for line in lines.get(part, ())
        for of in lines.get(whole, ())
        if line.host == of.host and of.values.max() > 0
    ]
    return max(shares, default=None)


def _of_each_host(record: Record, lines: Lines) -> Iterator[tuple[Record, Lines]]:
    """Yield the record of each client host, with the quantities watched there.

    The whole record if one host made the load, or if an older record only has sums.
    """
    hosts = [host for host in record.summary.get("hosts") or () if host.get("thread_cpu_ns")]
    if not hosts:
        yield record, lines
        return
    for host in hosts:
        # A host's figures have the names of those in the summary.
        figures = cast(
            Summary, {key: value for key, value in host.items() if key not in ("name", "state")}
        )
        watched = {
            quantity: [line for line in all_lines if line.host == host["name"]]
            for quantity, all_lines in lines.items()
        }
        yield replace(record, summary={**record.summary, **figures}), watched


Cores = Sequence[tuple[str, str, Numbers, Numbers]]
"""The host, the core, and the shares of busy and of stolen time between samples."""


def _cpu(record: Record, lines: Lines, cores: Cores) -> Iterator[Evidence]:
    awake = awake_cores(record)
    allowed = {(line.host, line.subject) for line in lines.get(("cpu", "allowed"), ())}
    means: dict[str, list[float]] = {}
    stolen: dict[str, list[float]] = {}
    for host, core, busy, steal in cores:
        if (host, core) in allowed or (core == "all" and not allowed):
            means.setdefault(host, []).append(float(busy.mean()))
            stolen.setdefault(host, []).append(float(steal.mean()))
        if core == "all" or (allowed and (host, core) not in allowed):
            # The load does not run on this core.
            continue
        share = float((busy >= CORE_BUSY).mean())
        # A thread that stays awake fills a core without need, and threads move.
        if share <= CORE_BUSY_SHARE or awake >= AWAKE_SOME:
            continue
        own_busy = _own_busy(record, lines, host, core)
        if own_busy is None or own_busy >= float(busy.mean()) - FOREIGN_BUSY:
            yield evidence_of(
                f"share of time with core {core} at 95 % or more",
                share,
                CORE_BUSY_SHARE,
                host,
                PROCESSOR_TIME,
            )
    for host, taken in stolen.items():
        mean = sum(taken) / len(taken)
        if mean >= STEAL:
            yield evidence_of("CPU stolen by the hypervisor", mean, STEAL, host)
    for host, busy_shares in means.items():
        mean = (sum(busy_shares) - awake) / len(busy_shares)
        count = _core_count(lines, host, allowed)
        own_busy = _own_busy(record, lines, host, "all")
        if own_busy is not None and count and own_busy / count < mean - FOREIGN_BUSY:
            # Other programs fill the host, and the load did not wait for them.
            mean = own_busy / count
        if mean >= CPU_BUSY:
            yield evidence_of("CPU busy, all cores", mean, CPU_BUSY, host, PROCESSOR_TIME)


def _own_busy(record: Record, lines: Lines, host: str, core: str) -> float | None:
    """Return the most cores that the load and the kernel kept busy, on one core or on all.

    On one core that is the busiest thread of the load. None if unknown or irrelevant: if threads
    waited for a core, or if the target is on the same host.
    """
    ran, whole_ns = record.summary.get("thread_cpu_ns") or (), whole_ns_of(record)
    delays = record.summary.get("thread_run_delay_ns") or ()
    known = [delay for delay in delays if delay is not None]
    if not ran or not whole_ns or len(known) < len(delays) or is_on_own_host(record):
        return None
    if max(known, default=0) / whole_ns >= RUN_DELAY:
        return None
    kernel = sum(
        line.rate / 1e9
        for kind in ("irq", "softirq", "steal")
        for line in lines.get(("cpu", f"{kind}_ns"), ())
        if line.host == host and line.subject == core
    )
    if core != "all":
        return float(max(ran) / whole_ns + kernel)
    process = sum(
        line.rate / 1e9
        for kind in ("user", "system")
        for line in lines.get(("process", f"{kind}_ns"), ())
        if line.host == host
    )
    return float(max(process, sum(ran) / whole_ns) + kernel)


def _core_count(lines: Lines, host: str, allowed: Collection[tuple[str, str]]) -> int:
    """Return the number of cores that the load may use; 0 if single cores were not watched."""
    subjects = {
        line.subject
        for line in lines.get(("cpu", "idle_ns"), ())
        if line.host == host and line.subject != "all"
    }
    return len({core for core in subjects if not allowed or (host, core) in allowed})


def _waiting(
    record: Record, lines: Lines, occupied: float | None, stolen: Sequence[float]
) -> Iterator[Evidence]:
    if occupied is not None and occupied >= OCCUPIED:
        words = "load thread running or waiting for a core"
        yield evidence_of(words, occupied, OCCUPIED, "", LOAD_THREADS)
    if occupied is not None and max(stolen, default=0.0) >= STEAL:
        # A moving thread loses time on each of its cores, but has one core in all.
        taken = min(1.0, occupied + sum(stolen))
        if occupied < OCCUPIED <= taken:
            words = "load thread running, or its core taken away by the hypervisor"
            yield evidence_of(words, taken, OCCUPIED, "", LOAD_THREADS)
    delays = [delay or 0 for delay in record.summary.get("thread_run_delay_ns") or ()]
    whole_ns = whole_ns_of(record)
    if delays and whole_ns:
        worst = max(delays) / whole_ns
        if worst >= RUN_DELAY:
            yield evidence_of("load thread waiting for a core", worst, RUN_DELAY, "", LOAD_THREADS)
    for line in lines.get(("cgroup", "throttled_ns"), ()):
        if line.rate / 1e9 >= THROTTLED:
            yield evidence_of("control group throttled", line.rate / 1e9, THROTTLED, line.host)


def _memory(record: Record, lines: Lines) -> Iterator[Evidence]:
    # Any program may make the host swap: it counts if this one's own pages were affected.
    faulted = {line.host for line in lines.get(("process", "major_faults"), ()) if line.growth > 0}
    swapped = {line.host for line in lines.get(("process", "swapped_bytes"), ()) if line.growth > 0}
    for metric, hit in (("swapped_in_pages", faulted), ("swapped_out_pages", swapped)):
        for line in lines.get(("memory", metric), ()):
            if line.growth > 0 and line.host in hit:
                yield evidence_of(metric.replace("_", " "), line.growth, 0, line.host, "swap")
    for line in lines.get(("pressure", "full_ns"), ()):
        if line.host not in faulted | swapped:
            continue
        if line.subject == "memory" and line.rate / 1e9 > MEMORY_PRESSURE:
            yield evidence_of("memory pressure, full", line.rate / 1e9, MEMORY_PRESSURE, line.host)
    for key in ("max", "oom"):
        for line in lines.get(("cgroup", f"memory_events_{key}"), ()):
            if line.growth > 0:
                words = f"control group memory events {key}"
                yield evidence_of(words, line.growth, 0, line.host, "control group memory")
    limits = {line.host: line for line in lines.get(("cgroup", "memory_bytes_max"), ())}
    for line in lines.get(("process", "rss_bytes"), ()):
        limit = limits.get(line.host)
        if limit is not None and line.values.max() >= MEMORY_FULL * limit.values.max():
            share = float(line.values.max() / limit.values.max())
            yield evidence_of("memory used, share of its limit", share, MEMORY_FULL, line.host)


def _sockets(record: Record, lines: Lines) -> Iterator[Evidence]:
    # Ports are reserved for a while after their connections. With kept connections, it is the store
    # that closes them and waits.
    is_closed_here = record.trial.get("connections") == "per_request"
    spare = (record.summary.get("connections_opened") or 0) - (record.summary.get("clients") or 0)
    whole_s = whole_ns_of(record) / 1e9
    settings = (record.trial.get("target") or {}).get("settings") or {}
    endpoints = settings.get("endpoints")
    # One port serves as many connections as there are destinations.
    destinations = max(1, len(endpoints)) if isinstance(endpoints, list) else 1
    for line in lines.get(("sockets", "ports"), ()) if is_closed_here and whole_s else ():
        ports = float(line.values.max())
        rested = spare / destinations * min(1.0, _port_rest_s(record, lines, line.host) / whole_s)
        rested += residue_of(record, "ports_resting")
        if ports and rested >= PORTS_QUICK_SHARE * ports:
            yield evidence_of(
                "local ports in TIME_WAIT after connections to the target, share of all",
                rested / ports,
                PORTS_QUICK_SHARE,
                line.host,
            )
    examples = record.summary.get("error_examples") or {}
    for kind in CLIENT_FAILURES:
        if kind in examples:
            yield Evidence(kind, str(examples[kind]), "none")


def residue_of(record: Record, quantity: str) -> float:
    """Return the unsettled residue of earlier trials when the load began."""
    state = record.summary.get("host_state")
    residues = state["residues"] if state else ()
    left = (
        residue["before_load"]
        for residue in residues
        if residue["quantity"] == quantity and residue["before_load"] > residue["settled_max"]
    )
    return max(left, default=0.0)


CACHED_SOME, CACHED_ALL = 0.10, 0.99
"""The shares of data in the page cache from which on a trial partly, or almost entirely, measures
memory."""


def cached_share(record: Record) -> float | None:
    """Return the share of a trial's dataset in the page cache of its hosts before the load.

    None if that is unknown, or if nothing is read through it.
    """
    sampled = record.summary.get("cache_sampled_bytes")
    return (record.summary.get("cache_resident_bytes") or 0) / sampled if sampled else None


def _port_rest_s(record: Record, lines: Lines, host: str) -> int:
    """Return for how many seconds a host reserves a port; older records lack its setting."""
    settings = [
        float(line.values.max())
        for line in lines.get(("sockets", "tcp_tw_reuse"), ())
        if line.host == host
    ]
    addresses = addresses_of_target(record)
    return port_rest_s(
        int(max(settings, default=TCP_TW_REUSE_USUAL)),
        is_loopback=bool(addresses) and all(map(is_loopback, addresses)),
    )


LOOKS: tuple[tuple[str, Callable[[Record, Lines], Iterator[Evidence]]], ...] = (
    ("INSTRUMENT_MEM", _memory),
    ("CLIENT_NIC", busy_cards),
    ("CLIENT_NIC", busy_interrupts),
    ("CLIENT_NIC", drops),
    ("NETWORK_PATH", losses),
    ("INSTRUMENT_SOCKETS", _sockets),
)


def _busy_cores(lines: Lines) -> Iterator[tuple[str, str, Numbers, Numbers]]:
    cores: dict[tuple[str, str], dict[str, Line]] = {}
    for kind in (*CPU_KINDS, *CPU_IDLE):
        for line in lines.get(("cpu", f"{kind}_ns"), ()):
            cores.setdefault((line.host, line.subject), {})[kind] = line
    for (host, core), kinds in cores.items():
        steps = {kind: np.diff(line.values) for kind, line in kinds.items()}
        sizes = {step.size for step in steps.values()}
        # Shares need the idle time.
        if "idle" not in steps or len(sizes) != 1 or sizes == {0}:
            continue
        total = np.sum([*steps.values()], axis=0)
        idle = np.sum([step for kind, step in steps.items() if kind in CPU_IDLE], axis=0)
        whole = np.where(total > 0, total, 1.0)
        busy = np.where(total > 0, 1 - idle / whole, 0.0)
        steal = steps.get("steal", np.zeros_like(total)) / whole
        yield host, core, busy, steal


def _stolen_shares(lines: Lines, cores: Cores) -> list[float]:
    """Return the stolen share of time of each core that the load may use."""
    allowed = {(line.host, line.subject) for line in lines.get(("cpu", "allowed"), ())}
    shares = {
        core: float(steal.mean())
        for host, core, _, steal in cores
        if not allowed or (host, core) in allowed
    }
    # Older records may only have the sum of all cores.
    return [share for core, share in shares.items() if core != "all" or len(shares) == 1]


def occupied_share(record: Record) -> float | None:
    """Return the share of time that the busiest load thread ran or waited for a core.

    Otherwise it waited for answers, which a faster client cannot shorten. None if not reported.
    """
    cpu, whole_ns = record.summary.get("thread_cpu_ns") or (), whole_ns_of(record)
    reported = record.summary.get("thread_run_delay_ns") or ()
    delays = [delay for delay in reported if delay is not None]
    if not cpu or len(cpu) != len(delays) or len(delays) < len(reported) or not whole_ns:
        return None
    return float(max(ran + waited for ran, waited in zip(cpu, delays, strict=True)) / whole_ns)


def awake_cores(record: Record) -> float:
    """Return the cores that load threads kept busy only to be awake for due requests."""
    whole_ns = whole_ns_of(record)
    return sum(record.summary.get("thread_awake_ns") or ()) / whole_ns if whole_ns else 0.0
