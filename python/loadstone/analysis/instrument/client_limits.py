"""Which of the client's own resources were at their limit while a trial was measured?

A resource is looked at over the measured window and by its worst core or card: a mean over all of
them hides the one that is full. A source that was absent gives no evidence, neither for nor
against.

Most counters of the kernel are of the whole host, where other programs run too. They count against
the client only where what this process did itself (its threads' time, the bytes it moved, the
connections it opened, the pages it waited for) can be what filled the resource.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from loadstone.analysis.judgements.finding import Evidence
from loadstone.analysis.measured.rows import Quantities
from loadstone.campaign.drivers import addresses_of, facts_of
from loadstone.documents.summary import Summary
from loadstone.probes.sockets import (
    PORTS_QUICK_SHARE,
    TCP_TW_REUSE_USUAL,
    is_loopback,
    port_rest_s,
)
from loadstone.results.record import Record

Numbers = NDArray[np.float64]

CORE_BUSY = 0.95
CORE_BUSY_SHARE = 0.10
CPU_BUSY = 0.80
STEAL = 0.02
RUN_DELAY = 0.05
OCCUPIED = 0.8
AWAKE_SOME = 0.05
OCCUPIED_SOME = 0.5
SOFTIRQ_BUSY = 0.90
THROTTLED = 0.01
MEMORY_PRESSURE = 0.001
MEMORY_FULL = 0.90
NIC_BUSY = 0.90
NIC_PASSED = 1.05
OWN_TRAFFIC = 0.5
FOREIGN_BUSY = 0.10
FRAME_BYTES = 1500
FRAME_HEADER_BYTES = 14
DROPPED = 0.001
"""Of the packets: fewer are dropped now and then by any card, as of protocols that nobody knows."""
LOST_INSIDE = 0.10
"""Of the bytes that came in: headers of packets that are put together before IP are up to 4 %."""
REPEATED = 0.01

PROCESSOR_TIME, LOAD_THREADS = "processor time", "load threads"
"""Kinds of evidence that several metrics are read from."""

CPU_KINDS = ("user", "nice", "system", "irq", "softirq", "steal")
CPU_IDLE = ("idle", "iowait")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One quantity over the window: seconds from its start, and the values read."""

    host: str
    subject: str
    times_s: Numbers
    values: Numbers

    @property
    def growth(self) -> float:
        """How much a counter grew over the window."""
        return float(self.values[-1] - self.values[0]) if self.values.size > 1 else 0.0

    @property
    def length_s(self) -> float:
        """How long the quantity was watched."""
        return float(self.times_s[-1] - self.times_s[0]) if self.times_s.size > 1 else 0.0

    @property
    def rate(self) -> float:
        """How fast a counter grew, in its unit per second."""
        return self.growth / self.length_s if self.length_s else 0.0


Lines = Mapping[tuple[str, str], Sequence[Line]]


def limits_of(record: Record, lines: Lines) -> dict[str, list[Evidence]]:
    """Return the flags of a trial with their evidence: INSTRUMENT_CPU, CLIENT_NIC and so on.

    Where the target runs on the client's own host a full processor may be either's: SHARED_HOST.
    """
    flags: dict[str, list[Evidence]] = {}
    for own, watched in _of_each_host(record, lines):
        occupied = occupied_share(own)
        # A core that was taken away is one that a thread waited for, perhaps one of the load.
        waits_for_answers = (
            occupied is not None
            and occupied < OCCUPIED_SOME
            and occupied + _stolen_share(watched) < OCCUPIED_SOME
        )
        for flag, look in LOOKS:
            found = list(look(own, watched))
            if flag == "INSTRUMENT_CPU" and waits_for_answers:
                # Threads that mostly wait for answers gain nothing from a core that is freer.
                continue
            if found:
                name = "SHARED_HOST" if flag == "INSTRUMENT_CPU" and is_on_own_host(own) else flag
                flags.setdefault(name, []).extend(found)
    return flags


def _of_each_host(record: Record, lines: Lines) -> Iterator[tuple[Record, Lines]]:
    """Yield the record as each client host alone would have it, with what was watched there.

    The whole, where one host made the load, or an older record has sums over all hosts only.
    """
    hosts = [one for one in record.summary.get("hosts") or () if one.get("thread_cpu_ns")]
    if not hosts:
        yield record, lines
        return
    for host in hosts:
        # A host's figures have the names that they have in the summary of a whole trial.
        own = cast(
            Summary, {key: value for key, value in host.items() if key not in ("name", "state")}
        )
        watched = {
            quantity: [line for line in found if line.host == host["name"]]
            for quantity, found in lines.items()
        }
        yield replace(record, summary={**record.summary, **own}), watched


def is_on_own_host(record: Record) -> bool:
    """Tell whether a trial's target was on the client's own host, as far as addresses show."""
    seen = record.summary.get("target_on_own_host")
    if isinstance(seen, bool):
        return seen
    # Older records do not say; loopback shows it.
    return any(map(is_loopback, _addresses(record)))


def _addresses(record: Record) -> Sequence[str]:
    target = record.trial.get("target") or {}
    return addresses_of(facts_of(str(target.get("driver"))), target.get("settings") or {})


def _cpu(record: Record, lines: Lines) -> Iterator[Evidence]:
    awake = awake_cores(record)
    allowed = {(line.host, line.subject) for line in lines.get(("cpu", "allowed"), ())}
    means: dict[str, list[float]] = {}
    stolen: dict[str, list[float]] = {}
    for host, core, busy, steal in _busy_cores(lines):
        if (host, core) in allowed or (core == "all" and not allowed):
            means.setdefault(host, []).append(float(busy.mean()))
            stolen.setdefault(host, []).append(float(steal.mean()))
        if core == "all" or (allowed and (host, core) not in allowed):
            # Of other programs: the load is kept to other cores.
            continue
        share = float((busy >= CORE_BUSY).mean())
        # A thread that stays awake fills a core without needing it, and threads move.
        if share <= CORE_BUSY_SHARE or awake >= AWAKE_SOME:
            continue
        own = _own_busy(record, lines, host, core)
        if own is None or own >= float(busy.mean()) - FOREIGN_BUSY:
            yield _evidence(
                f"share of time with core {core} at 95 % or more",
                share,
                CORE_BUSY_SHARE,
                host,
                PROCESSOR_TIME,
            )
    for host, taken in stolen.items():
        mean = sum(taken) / len(taken)
        if mean >= STEAL:
            yield _evidence("CPU stolen by the hypervisor", mean, STEAL, host)
    for host, busy_shares in means.items():
        mean = (sum(busy_shares) - awake) / len(busy_shares)
        cores = _core_names(lines, host, allowed)
        own = _own_busy(record, lines, host, "all")
        if own is not None and cores and own / cores < mean - FOREIGN_BUSY:
            # Others fill the host, and the load did not wait for them.
            mean = own / cores
        if mean >= CPU_BUSY:
            yield _evidence("CPU busy, all cores", mean, CPU_BUSY, host, PROCESSOR_TIME)


def _own_busy(record: Record, lines: Lines, host: str, core: str) -> float | None:
    """Return at most how many cores the load and the kernel kept busy, on one core or on all.

    On one core that is the busiest thread of the load. None where that is not known or does not
    matter: where threads waited for a core, the program that filled it held them up, and a target
    on the same host as well.
    """
    ran, whole_ns = record.summary.get("thread_cpu_ns") or (), _whole_ns(record)
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


def _core_names(lines: Lines, host: str, allowed: Collection[tuple[str, str]]) -> int:
    """Return how many cores of a host the load may use; 0 where single cores were not seen."""
    seen = {
        line.subject
        for line in lines.get(("cpu", "idle_ns"), ())
        if line.host == host and line.subject != "all"
    }
    return len({core for core in seen if not allowed or (host, core) in allowed})


def _waiting(record: Record, lines: Lines) -> Iterator[Evidence]:
    occupied = occupied_share(record)
    if occupied is not None and occupied >= OCCUPIED:
        words = "load thread running or waiting for a core"
        yield _evidence(words, occupied, OCCUPIED, "", LOAD_THREADS)
    delays = [delay or 0 for delay in record.summary.get("thread_run_delay_ns") or ()]
    whole_ns = _whole_ns(record)
    if delays and whole_ns:
        worst = max(delays) / whole_ns
        if worst >= RUN_DELAY:
            yield _evidence("load thread waiting for a core", worst, RUN_DELAY, "", LOAD_THREADS)
    for line in lines.get(("cgroup", "throttled_ns"), ()):
        if line.rate / 1e9 >= THROTTLED:
            yield _evidence("control group throttled", line.rate / 1e9, THROTTLED, line.host)


def _memory(record: Record, lines: Lines) -> Iterator[Evidence]:
    # The host swaps for any of its programs: it is this one's only where its own pages were hit.
    faulted = {line.host for line in lines.get(("process", "major_faults"), ()) if line.growth > 0}
    swapped = {line.host for line in lines.get(("process", "swapped_bytes"), ()) if line.growth > 0}
    for metric, hit in (("swapped_in_pages", faulted), ("swapped_out_pages", swapped)):
        for line in lines.get(("memory", metric), ()):
            if line.growth > 0 and line.host in hit:
                yield _evidence(metric.replace("_", " "), line.growth, 0, line.host, "swap")
    for line in lines.get(("pressure", "full_ns"), ()):
        if line.host not in faulted | swapped:
            continue
        if line.subject == "memory" and line.rate / 1e9 > MEMORY_PRESSURE:
            yield _evidence("memory pressure, full", line.rate / 1e9, MEMORY_PRESSURE, line.host)
    for key in ("max", "oom"):
        for line in lines.get(("cgroup", f"memory_events_{key}"), ()):
            if line.growth > 0:
                words = f"control group memory events {key}"
                yield _evidence(words, line.growth, 0, line.host, "control group memory")
    limits = {line.host: line for line in lines.get(("cgroup", "memory_bytes_max"), ())}
    for line in lines.get(("process", "rss_bytes"), ()):
        limit = limits.get(line.host)
        if limit is not None and line.values.max() >= MEMORY_FULL * limit.values.max():
            share = float(line.values.max() / limit.values.max())
            yield _evidence("memory of its limit", share, MEMORY_FULL, line.host)


def _cards(record: Record, lines: Lines) -> Iterator[Evidence]:
    speeds = {
        (line.host, line.subject): float(line.values.max())
        for line in lines.get(("network", "speed_bits_per_s"), ())
    }
    for metric in ("received_bytes", "sent_bytes"):
        for line in lines.get(("network", metric), ()):
            speed = speeds.get((line.host, line.subject))
            if speed is None or not _is_mostly_own(record, metric, line.rate):
                continue
            # The kernel counts frames without preamble, check sum and gap, which the line carries.
            share = 8 * line.rate * (FRAME_BYTES + 38) / (FRAME_BYTES + 14) / speed
            # A virtual card's speed is a mere number: one that was passed is none.
            if NIC_BUSY <= share <= NIC_PASSED:
                name = f"{metric.partition('_')[0]} on {line.subject}, of the line's speed"
                yield _evidence(name, share, NIC_BUSY, line.host, "card traffic")
    for line in lines.get(("network", "backlog_dropped"), ()):
        if line.growth > 0 and _receives_most(record, lines, line.host):
            words = f"packets dropped on {line.subject}"
            yield _evidence(words, line.growth, 0, line.host, "card drops")


DROPS = (
    ("received_dropped", "received"),
    ("receive_queue_dropped", "received"),
    ("sent_dropped", "sent"),
    ("send_queue_dropped", "sent"),
)
"""What a card and its queues drop, and of which packets."""


def _drops(record: Record, lines: Lines) -> Iterator[Evidence]:
    for metric, way in DROPS:
        for line in lines.get(("network", metric), ()):
            packets = _beside(lines, ("network", f"{way}_packets"), line)
            moved = _beside(lines, ("network", f"{way}_bytes"), line)
            if packets is None or moved is None or not packets.growth:
                continue
            share = line.growth / (packets.growth + line.growth)
            # Acknowledgements are no payload: what is dropped of them is told by the other way.
            if share >= DROPPED and _is_mostly_own(record, f"{way}_bytes", moved.rate):
                name = f"{metric.replace('_', ' ')} on {line.subject}, of its packets"
                yield _evidence(name, share, DROPPED, line.host, "card drops")
    for line in lines.get(("network", "received_bytes"), ()):
        lost = _lost_inside(lines, line)
        is_own = line.subject != "lo" and _is_mostly_own(record, "received_bytes", line.rate)
        if lost is not None and lost >= LOST_INSIDE and is_own:
            name = f"bytes that came in on {line.subject} and did not come up to IP"
            yield _evidence(name, lost, LOST_INSIDE, line.host, "card drops")


def _beside(lines: Lines, quantity: tuple[str, str], line: Line) -> Line | None:
    """Return another quantity of the same host and subject."""
    like = (line.host, line.subject)
    return next((one for one in lines.get(quantity, ()) if (one.host, one.subject) == like), None)


def _lost_inside(lines: Lines, received: Line) -> float | None:
    """Return which share of what a card received the kernel dropped before IP; None unwatched.

    What others receive by this card and pass on counts as received by IP: it hides a loss.
    """
    of_ip = lines.get(("tcp", "ip_received_bytes"), ())
    up = next((line.growth for line in of_ip if line.host == received.host), None)
    packets = _beside(lines, ("network", "received_packets"), received)
    headers = FRAME_HEADER_BYTES * packets.growth if packets is not None else 0.0
    whole = received.growth - headers
    if up is None or whole <= 0:
        return None
    of_itself = sum(
        line.growth
        for line in lines.get(("network", "received_bytes"), ())
        if (line.host, line.subject) == (received.host, "lo")
    )
    return 1 - (up - of_itself) / whole


REPEATS = (
    ("segments_repeated", "segments_sent", "TCP segments sent again"),
    ("segments_received_again", "segments_received", "TCP segments received again"),
    ("segments_out_of_order", "segments_received", "TCP segments out of order"),
)
"""What tells of losses on the way: a counter, and what it is a share of."""


def _losses(record: Record, lines: Lines) -> Iterator[Evidence]:
    if is_on_own_host(record) or next(_drops(record, lines), None) is not None:
        # What the client itself dropped is sent again, too.
        return
    for metric, whole, words in REPEATS:
        for line in lines.get(("tcp", metric), ()):
            of = _beside(lines, ("tcp", whole), line)
            share = line.growth / of.growth if of is not None and of.growth else 0.0
            if share >= REPEATED and _receives_most(record, lines, line.host):
                yield _evidence(words, share, REPEATED, line.host, "losses")


def _interrupts(record: Record, lines: Lines) -> Iterator[Evidence]:
    for line in lines.get(("cpu", "softirq_ns"), ()):
        share = line.rate / 1e9
        is_full = line.subject != "all" and share >= SOFTIRQ_BUSY
        if is_full and _receives_most(record, lines, line.host):
            name = f"core {line.subject} with packets of the card"
            yield _evidence(name, share, SOFTIRQ_BUSY, line.host, "card interrupts")


def _is_mostly_own(record: Record, metric: str, bytes_per_s: float) -> bool:
    """Tell whether the load itself may have moved at least half of what was seen on the host.

    A full card may be another program's, or not the one on the load's way.
    """
    whole_ns = _whole_ns(record)
    if not whole_ns:
        return False
    # Drivers that leave the wire to a library or the kernel know their payload only.
    summary = record.summary
    is_received = metric == "received_bytes"
    of_wire = summary.get("bytes_received") if is_received else summary.get("bytes_sent")
    moved = of_wire or summary.get("bytes") or 0
    return 1e9 * moved / whole_ns >= OWN_TRAFFIC * bytes_per_s


def _receives_most(record: Record, lines: Lines, host: str) -> bool:
    """Tell whether most of what a host received was the load's, be it answers to what it sent."""
    metrics = ("received_bytes", "sent_bytes")
    busiest = max(metrics, key=lambda metric: _moved(lines, host, metric))
    return _is_mostly_own(record, busiest, _moved(lines, host, busiest))


def _moved(lines: Lines, host: str, metric: str) -> float:
    """Return the bytes a second of a host's busiest card."""
    rates = (line.rate for line in lines.get(("network", metric), ()) if line.host == host)
    return max(rates, default=0.0)


def _sockets(record: Record, lines: Lines) -> Iterator[Evidence]:
    # A port rests before it is free again; clients that keep their connections need one each. Where
    # they should be kept, it is the store that closes them, and the wait for the port is its own.
    is_closed_here = record.trial.get("connections") == "per_request"
    spare = (record.summary.get("connections_opened") or 0) - (record.summary.get("clients") or 0)
    whole_s = _whole_ns(record) / 1e9
    settings = (record.trial.get("target") or {}).get("settings") or {}
    endpoints = settings.get("endpoints")
    # One port serves as many connections as there are destinations.
    destinations = max(1, len(endpoints)) if isinstance(endpoints, list) else 1
    for line in lines.get(("sockets", "ports"), ()) if is_closed_here and whole_s else ():
        ports = float(line.values.max())
        rested = spare / destinations * min(1.0, _port_rest_s(record, lines, line.host) / whole_s)
        rested += residue_of(record, "ports_resting")
        if ports and rested >= PORTS_QUICK_SHARE * ports:
            yield _evidence(
                "local ports that rest after connections to the target, of all",
                rested / ports,
                PORTS_QUICK_SHARE,
                line.host,
            )
    examples = record.summary.get("error_examples") or {}
    for kind in ("no_ports", "no_descriptors"):
        if kind in examples:
            yield Evidence(metric=kind, value=str(examples[kind]), threshold="none")


def residue_of(record: Record, quantity: str) -> float:
    """Return how much earlier trials had left of a quantity when the load of a host began."""
    state = record.summary.get("host_state")
    residues = state["residues"] if state else ()
    return max((one["before_load"] for one in residues if one["quantity"] == quantity), default=0.0)


def _port_rest_s(record: Record, lines: Lines, host: str) -> int:
    """Return for how many seconds a port of a host rests; older records do not say its setting."""
    settings = [
        float(line.values.max())
        for line in lines.get(("sockets", "tcp_tw_reuse"), ())
        if line.host == host
    ]
    addresses = _addresses(record)
    return port_rest_s(
        int(max(settings, default=TCP_TW_REUSE_USUAL)),
        is_loopback=bool(addresses) and all(map(is_loopback, addresses)),
    )


LOOKS: tuple[tuple[str, Callable[[Record, Lines], Iterator[Evidence]]], ...] = (
    ("INSTRUMENT_CPU", _cpu),
    ("INSTRUMENT_CPU", _waiting),
    ("INSTRUMENT_MEM", _memory),
    ("CLIENT_NIC", _cards),
    ("CLIENT_NIC", _interrupts),
    ("CLIENT_NIC", _drops),
    ("NETWORK_PATH", _losses),
    ("INSTRUMENT_SOCKETS", _sockets),
)


def lines_of(record: Record, quantities: Quantities) -> Lines:
    """Return every quantity inside the measured window, by probe and metric."""
    window_ns = _window_ns(record)
    lines: dict[tuple[str, str], list[Line]] = {}
    for name, found in quantities.items():
        for one in found:
            first, last = np.searchsorted(one.times_ns, window_ns)
            # The end of the window belongs to it.
            last += int(last < one.times_ns.size and one.times_ns[last] == window_ns[1])
            if first < last:
                times_s = (one.times_ns[first:last] - one.times_ns[first]) / 1e9
                line = Line(
                    host=one.host,
                    subject=one.subject,
                    times_s=times_s,
                    values=one.values[first:last],
                )
                lines.setdefault(name, []).append(line)
    return lines


def _busy_cores(lines: Lines) -> Iterator[tuple[str, str, Numbers, Numbers]]:
    """Return the share of time that each core was busy, and was taken away, between two samples."""
    cores: dict[tuple[str, str], dict[str, Line]] = {}
    for kind in (*CPU_KINDS, *CPU_IDLE):
        for line in lines.get(("cpu", f"{kind}_ns"), ()):
            cores.setdefault((line.host, line.subject), {})[kind] = line
    for (host, core), kinds in cores.items():
        steps = {kind: np.diff(line.values) for kind, line in kinds.items()}
        sizes = {step.size for step in steps.values()}
        # Without the idle time there is no whole to take a share of.
        if "idle" not in steps or len(sizes) != 1 or sizes == {0}:
            continue
        total = np.sum([*steps.values()], axis=0)
        idle = np.sum([step for kind, step in steps.items() if kind in CPU_IDLE], axis=0)
        whole = np.where(total > 0, total, 1.0)
        busy = np.where(total > 0, 1 - idle / whole, 0.0)
        steal = steps.get("steal", np.zeros_like(total)) / whole
        yield host, core, busy, steal


def _stolen_share(lines: Lines) -> float:
    """Return the share of time for which the worst core that the load may use was taken away."""
    allowed = {(line.host, line.subject) for line in lines.get(("cpu", "allowed"), ())}
    own = (
        float(steal.mean())
        for host, core, _, steal in _busy_cores(lines)
        if not allowed or (host, core) in allowed
    )
    return max(own, default=0.0)


def _window_ns(record: Record) -> tuple[int, int]:
    """Return the measured window on the wall clock, from the first iteration to the last."""
    started = int(record.summary.get("started_unix_ns") or 0)
    entries = record.summary.get("iterations") or ()
    starts = [entry["measure_start_ns"] for entry in entries if "measure_start_ns" in entry]
    ends = [entry["measure_end_ns"] for entry in entries if "measure_end_ns" in entry]
    if not started or not starts or not ends:
        return 0, 2**63 - 1
    return started + min(starts), started + max(ends)


def occupied_share(record: Record) -> float | None:
    """Return how much of the time the busiest load thread ran, or was ready and had no core.

    The rest it waited for answers: so much of the rate at most could a faster client add. None
    where the kernel or another tool did not say.
    """
    cpu, whole_ns = record.summary.get("thread_cpu_ns") or (), _whole_ns(record)
    told = record.summary.get("thread_run_delay_ns") or ()
    delays = [delay for delay in told if delay is not None]
    if not cpu or len(cpu) != len(delays) or len(delays) < len(told) or not whole_ns:
        return None
    return float(max(ran + waited for ran, waited in zip(cpu, delays, strict=True)) / whole_ns)


def awake_cores(record: Record) -> float:
    """Return how many cores the load threads kept busy only to be awake when a request is due."""
    whole_ns = _whole_ns(record)
    return sum(record.summary.get("thread_awake_ns") or ()) / whole_ns if whole_ns else 0.0


def _whole_ns(record: Record) -> int:
    """Return how long the load threads lived, warm-up and cool-down included."""
    entries = record.summary.get("iterations") or ()
    starts = [entry.get("start_ns", entry.get("measure_start_ns")) for entry in entries]
    ends = [entry.get("end_ns", entry.get("measure_end_ns")) for entry in entries]
    first = min((one for one in starts if one is not None), default=None)
    last = max((one for one in ends if one is not None), default=None)
    if first is None or last is None or None in starts or None in ends:
        return 0
    return last - first


def _evidence(metric: str, value: float, threshold: float, host: str, source: str = "") -> Evidence:
    return Evidence(metric=metric, value=value, threshold=threshold, place=host, source=source)
