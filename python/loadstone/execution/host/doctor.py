"""Checks a load host: each limit or missing feature, with its value and advice."""

import ctypes
import os
import resource
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from loadstone import _loadgen, units
from loadstone.campaign.drivers import calibrated_drivers
from loadstone.documents.manifest import HostFacts
from loadstone.execution.host import facts
from loadstone.execution.host.limits import read_limits
from loadstone.probes import PROBES, read_once
from loadstone.probes.cgroup import Cgroup
from loadstone.probes.memory import Memory
from loadstone.probes.proc import AbsentError
from loadstone.probes.sockets import PORTS_QUICK_SHARE, TIME_WAIT_S
from loadstone.results import calibration

State = Literal["good", "limits", "missing"]

DESCRIPTORS_USUAL_MIN = 65_536
"""About the number of local ports that one host has for one remote address."""

RECEIVE_WINDOW_MIN_BYTES = 4 << 20
"""The bandwidth-delay product of 10 Gbit/s at 3 ms; a smaller window limits a connection to
less.
"""

STEAL_MAX_SHARE = 0.01
LOAD_MAX_SHARE = 0.25
"""Share of the cores used by other programs, above which results vary with their load."""

ROOM_MIN_BYTES = 1 << 30
SLOW_CLOCKS = ("acpi_pm", "hpet", "jiffies", "pit")
GOVERNORS_OF_FULL_SPEED = ("performance",)
TIME_ERROR = 5
"""Result of adjtimex(2) for a clock that is not synchronised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCheck:
    """Result of one check."""

    name: str
    state: State
    value: str
    advice: str | None = None

    def document(self) -> dict[str, str | None]:
        """Return the check as JSON."""
        return asdict(self)


def examine(folder: Path) -> list[HostCheck]:
    """Return all checks of this host; `folder` is where runs would be stored."""
    host = facts.fingerprint()
    return [
        *_build(),
        *_cores(host),
        *_clocks(host),
        *_memory(),
        *_sockets(host),
        *_process(folder),
        *_probes(),
        _calibration(host),
    ]


def _limit(name: str, value: str, advice: str | None) -> HostCheck:
    """Return a check that is "limits" if there is advice, and "good" otherwise."""
    return HostCheck(name=name, state="limits" if advice else "good", value=value, advice=advice)


def _build() -> Iterator[HostCheck]:
    if not _loadgen.IS_RELEASE_BUILD:
        advice = "build with maturin develop --release; a debug build is many times slower"
        yield _limit("build", "debug", advice)


def _cores(host: HostFacts) -> Iterator[HostCheck]:
    cpu = host.get("cpu") or {}
    present, allowed = os.cpu_count() or 1, len(os.sched_getaffinity(0))
    advice = None
    if allowed < present:
        advice = "this process is bound to a part of the cores (taskset, cpuset of a container)"
    if allowed < 2:
        advice = "with one core the probes disturb the load; use two or more"
    yield _limit("cores", f"{allowed} of {present}", advice)
    quota = _cgroup().get("cores_max")
    if quota is not None:
        advice = "raise the quota: a group that is throttled stops for the rest of each period"
        yield _limit("quota of cores", f"{quota:g}", advice if quota < allowed else None)
    if governor := cpu.get("governor"):
        is_full = governor in GOVERNORS_OF_FULL_SPEED
        yield _limit(
            "governor", governor, None if is_full else "cpupower frequency-set -g performance"
        )
    busy = os.getloadavg()[0] / allowed
    yield _limit(
        "other load",
        f"{os.getloadavg()[0]:.1f} processes ready on {allowed} cores",
        "stop other programs: the load generator waits while they use the cores"
        if busy > LOAD_MAX_SHARE
        else None,
    )
    yield from _steal()


def _steal() -> Iterator[HostCheck]:
    try:
        words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return
    # user nice system idle iowait irq softirq steal; later fields are part of user and nice.
    ticks = [int(word) for word in words[:8]]
    if len(ticks) == 8 and any(ticks):
        share = ticks[7] / sum(ticks)
        advice = "the hypervisor gives cores to others: use a dedicated or larger machine"
        yield _limit(
            "steal time", f"{share:.1%} since boot", advice if share > STEAL_MAX_SHARE else None
        )


def _clocks(host: HostFacts) -> Iterator[HostCheck]:
    if source := host.get("clock_source"):
        advice = "reading this clock takes a microsecond or more: choose tsc or kvm-clock"
        yield _limit("clock source", source, advice if source in SLOW_CLOCKS else None)
    # struct timex has 208 bytes; all zero only queries, and sets nothing.
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(256))
    if state >= 0:
        is_free = state == TIME_ERROR
        yield _limit(
            "time of day",
            "not synchronised" if is_free else "synchronised",
            "run chrony or another NTP client: stores refuse requests with a wrong time,"
            " and the clocks of hosts are compared"
            if is_free
            else None,
        )


def _memory() -> Iterator[HostCheck]:
    readings = read_once(Memory)
    total = readings.get("total_bytes", 0.0)
    if total:
        yield _limit("memory", units.format_bytes(round(total)), None)
    if limit := _cgroup().get("memory_bytes_max"):
        advice = "keep threads × size of objects below it, or the kernel kills the run"
        yield _limit("limit of memory", units.format_bytes(round(limit)), advice)
    try:
        swaps = Path("/proc/swaps").read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    except OSError:
        return
    # Columns: name, type, size and use in KiB, priority.
    used = sum(int(line.split()[-2]) << 10 for line in swaps if len(line.split()) >= 5)
    yield _limit(
        "swap",
        f"{units.format_bytes(used)} in use" if swaps else "none",
        "pages that come back from disk stall the load: free memory, then swapoff -a"
        if used
        else None,
    )


def _sockets(host: HostFacts) -> Iterator[HostCheck]:
    limits = read_limits()
    yield _limit(
        "descriptors",
        f"{limits.descriptors:,}",
        f"raise the hard limit of open files (ulimit -Hn) to {DESCRIPTORS_USUAL_MIN:,}"
        if limits.descriptors < DESCRIPTORS_USUAL_MIN
        else None,
    )
    resting = limits.time_wait > PORTS_QUICK_SHARE * limits.ports
    advice = None
    if resting:
        advice = (
            f"wait {TIME_WAIT_S} s: ports of earlier connections are in"
            " TIME_WAIT, and new connections are slow"
        )
    elif limits.ports < 16_384:
        advice = "sysctl -w net.ipv4.ip_local_port_range='1024 65535'"
    yield _limit(
        "local ports", f"{limits.ports:,}, of which {limits.time_wait:,} are in TIME_WAIT", advice
    )
    window = (host.get("sysctl") or {}).get("net.ipv4.tcp_rmem", "").split()
    if len(window) == 3:
        most = int(window[2])
        advice = f"sysctl -w net.ipv4.tcp_rmem='4096 131072 {RECEIVE_WINDOW_MIN_BYTES}'"
        yield _limit(
            "receive window",
            f"at most {units.format_bytes(most)}",
            advice if most < RECEIVE_WINDOW_MIN_BYTES else None,
        )
    for name, card in (host.get("network") or {}).items():
        if name != "lo" and card.get("state") == "up":
            speed = int(card.get("speed_mbit_per_s") or 0) / 1000
            yield _limit(
                f"card {name}",
                f"{speed:g} Gbit/s" if speed else "of unknown speed",
                None if speed else "measure the path (ceilings: network), or its limit is unknown",
            )


def _process(folder: Path) -> Iterator[HostCheck]:
    for name, kind, unit in (
        ("CPU time", resource.RLIMIT_CPU, "s (ulimit -t)"),
        ("size of files", resource.RLIMIT_FSIZE, "bytes (ulimit -f)"),
        ("address space", resource.RLIMIT_AS, "bytes (ulimit -v)"),
    ):
        most = resource.getrlimit(kind)[0]
        if most != resource.RLIM_INFINITY:
            advice = (
                "raise it: otherwise the kernel may kill the run, or refuse to write its record"
            )
            yield _limit(f"limit of {name}", f"{most:,} {unit}", advice)
    disabled = facts.read_sysctl("kernel.io_uring_disabled") not in (None, "0")
    advice = "sysctl -w kernel.io_uring_disabled=0, or block devices get a thread for each client"
    yield _limit("io_uring", "disabled" if disabled else "allowed", advice if disabled else None)
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    yield _limit(
        "free space for runs",
        f"{units.format_bytes(free)} in {folder}",
        "free some space: a run that cannot write its record stops"
        if free < ROOM_MIN_BYTES
        else None,
    )


def _probes() -> Iterator[HostCheck]:
    for name, probe in PROBES.items():
        try:
            probe().close()
        except AbsentError as reason:
            yield HostCheck(
                name=f"probe {name}",
                state="missing",
                value=str(reason),
                advice=f"verdicts lack it: {probe.SUMMARY}",
            )


def _calibration(host: HostFacts) -> HostCheck:
    calibrated = calibration.copy_for(
        host, facts.versions()["load_generator"], tuple(calibrated_drivers())
    )
    is_there = "absent" not in calibrated
    return HostCheck(
        name="calibration",
        state="good" if is_there else "missing",
        value="kept" if is_there else "none of this host and build",
        advice=None
        if is_there
        else "loadstone calibrate (a few minutes): how far its own ceiling is away",
    )


def _cgroup() -> Mapping[str, float]:
    return read_once(Cgroup)
