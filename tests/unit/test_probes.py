"""Probes read what the kernel says, keep counters raw, and are absent rather than zero."""

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from loadstone import probes
from loadstone.probes import AbsentError, Collector, cgroup, cpu, disk, network, proc, sockets, tcp
from loadstone.results.record import PROBE_SCHEMA


def descriptors() -> list[str]:
    """Name the open files; those without a path belong to a library's own threads."""
    links = (link for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    named = [os.readlink(link) for link in links if link.exists()]
    return sorted(name for name in named if name.startswith("/"))


def values(probe: probes.Probe) -> dict[tuple[str, str], float]:
    try:
        return {(subject, metric): value for subject, metric, value in probe.read()}
    finally:
        probe.close()


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the kernel's files by files of the test."""
    real = proc.os.open

    def opened(path: str | Path, *arguments: int) -> int:
        replacement = tmp_path / str(path).lstrip("/")
        return real(replacement, *arguments)

    monkeypatch.setattr(proc.os, "open", opened)
    return tmp_path


def put(kernel: Path, path: str, text: str) -> None:
    file = kernel / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize("name", probes.PROBES)
def test_every_probe_reads_this_host_or_says_why_it_cannot(name: str) -> None:
    kind = probes.PROBES[name]
    before = descriptors()
    try:
        probe = kind()
    except AbsentError as reason:
        assert str(reason)
    else:
        first, second = list(probe.read()), list(probe.read())
        probe.close()
        assert first
        assert {row[:2] for row in first} <= {row[:2] for row in second}
        assert all(isinstance(value, float) for _, _, value in first)
        assert all(metric == metric.lower() and " " not in metric for _, metric, _ in first)
        assert len({row[:2] for row in first}) == len(first)
    assert descriptors() == before
    assert kind.SUMMARY


@pytest.mark.parametrize("name", probes.PROBES)
def test_a_host_without_the_files_has_no_such_probe_and_loses_no_descriptor(
    name: str, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "ROOT", kernel / "no")
    before = descriptors()
    with pytest.raises(AbsentError, match=os.strerror(errno.ENOENT)):
        probes.PROBES[name]()
    assert descriptors() == before


def test_free_ports_are_the_range_without_those_in_use(kernel: Path) -> None:
    sockstat = (
        "sockets: used 200\nTCP: inuse 40 orphan 1 tw 1000 alloc 50 mem 7\nUDP: inuse 3 mem 0\n"
    )
    put(kernel, "/proc/net/sockstat", sockstat)
    put(kernel, "/proc/net/sockstat6", "TCP6: inuse 2\n")
    put(kernel, "/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
    put(kernel, "/proc/sys/net/ipv4/tcp_tw_reuse", "1\n")
    values_read = values(sockets.Sockets())
    assert values_read["tcp", "tcp_tw_reuse"] == 1
    assert values_read["tcp", "in_use"] == 42
    assert values_read["tcp", "time_wait"] == 1000
    assert values_read["tcp", "ports"] == 28_232
    assert values_read["tcp", "ports_left_min"] == 28_232 - 1_042


def test_tcp_counters_are_found_by_name_wherever_they_stand(kernel: Path) -> None:
    put(
        kernel,
        "/proc/net/snmp",
        "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
        "Tcp: RtoAlgorithm RtoMin MaxConn ActiveOpens RetransSegs OutSegs\nTcp: 1 200 -1 9 7 800\n",
    )
    netstat = "TcpExt: SyncookiesSent TCPTimeouts\nTcpExt: 0 5\nIpExt: InOctets\nIpExt: 1000\n"
    put(kernel, "/proc/net/netstat", netstat)
    put(kernel, "/proc/net/snmp6", "Ip6InReceives \t 3\nIp6InOctets \t 234\n")
    values_read = values(tcp.Tcp())
    assert values_read == {
        ("", "ip_received_bytes"): 1234,
        ("", "connections_opened"): 9,
        ("", "segments_repeated"): 7,
        ("", "segments_sent"): 800,
        ("", "timeouts"): 5,
    }


def test_a_card_whose_counter_touches_its_name_is_read(kernel: Path) -> None:
    numbers = " ".join(str(number) for number in range(100, 116))
    put(kernel, "/proc/net/dev", f"Inter-|\n face |\n  eth0:{numbers}\n")
    values_read = values(network.Network())
    assert values_read["eth0", "received_bytes"] == 100
    assert values_read["eth0", "sent_bytes"] == 108
    assert values_read["eth0", "sent_dropped"] == 111


def test_partitions_and_idle_disks_are_left_out(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        "   8       0 sda 10 0 80 5 20 0 160 9 1 12 14 0 0 0 0",
        "   8       1 sda1 10 0 80 5 20 0 160 9 1 12 14 0 0 0 0",
        "   8      16 sdb 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
    ]
    put(kernel, "/proc/diskstats", "\n".join(rows) + "\n")
    for name in ("sda", "sdb"):
        (kernel / "block" / name).mkdir(parents=True)
    monkeypatch.setattr(disk, "BLOCK", kernel / "block")
    values_read = values(disk.Disk())
    assert {subject for subject, _ in values_read} == {"sda"}
    assert values_read["sda", "read_bytes"] == 80 * 512
    assert values_read["sda", "queued_ns"] == 14_000_000


def test_limits_of_the_control_group_are_read_and_no_limit_is_no_row(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "own_folder", lambda: Path("/group"))
    put(kernel, "/group/cpu.max", "150000 100000\n")
    put(kernel, "/group/cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 70\n")
    put(kernel, "/group/memory.max", "max\n")
    put(kernel, "/group/memory.current", "4096\n")
    put(kernel, "/group/memory.events", "low 0\nhigh 2\nmax 0\noom 0\noom_kill 0\n")
    values_read = values(cgroup.Cgroup())
    assert values_read["", "cores_max"] == 1.5
    assert values_read["", "throttled"] == 3
    assert values_read["", "throttled_ns"] == 70_000
    assert values_read["", "memory_events_high"] == 2
    assert ("", "memory_bytes_max") not in values_read


class Clock:
    """A probe of the test's own."""

    SUMMARY = "the time"

    def __init__(self) -> None:
        self.is_open = True
        self.reads = 0

    def read(self) -> Iterator[tuple[str, str, float]]:
        self.reads += 1
        yield "", "reads", float(self.reads)

    def close(self) -> None:
        self.is_open = False


def test_the_collector_reads_at_its_start_on_every_tick_and_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probes, "PERIOD_NS", 50_000_000)
    monkeypatch.setattr(probes, "PROBES", {"clock": Clock})
    begun_ns = time.time_ns()
    with Collector() as collector:
        clock = collector._probes["clock"]
        assert isinstance(clock, Clock)
        while clock.reads < 5:
            time.sleep(0.01)
    batches = collector.take()
    took_ns = time.time_ns() - begun_ns
    assert all(batch.schema == PROBE_SCHEMA for batch in batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    reads = [row["value"] for row in rows if row["probe"] == "clock"]
    assert reads == [float(number) for number in range(1, len(reads) + 1)]
    # The start, every tick, the end: however long it took here.
    assert 6 <= len(reads) <= 2 + took_ns / 50_000_000
    times = [row["time_unix_ns"] for row in rows if row["probe"] == "clock"]
    assert times == sorted(times)
    assert begun_ns <= times[0] <= times[-1] <= time.time_ns()
    assert any(row["metric"] == "collector_cpu_ns" for row in rows)
    assert not any(thread.name == "probes" for thread in threading.enumerate())


def test_absent_probes_are_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing(Clock):
        def __init__(self) -> None:
            raise AbsentError("/proc/nothing: No such file or directory")

    monkeypatch.setattr(probes, "PROBES", {"clock": Clock, "missing": Missing})
    with Collector() as collector:
        pass
    assert collector.absent == {"missing": "/proc/nothing: No such file or directory"}
    assert {row["probe"] for batch in collector.take() for row in batch.to_pylist()} == {
        "clock",
        "process",
    }


@pytest.mark.parametrize("error", [OSError(19, "No such device"), ValueError("8 kB?"), KeyError(3)])
def test_a_probe_that_breaks_midway_ends_itself_and_not_the_run(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaking(Clock):
        def read(self) -> Iterable[tuple[str, str, float]]:  # type: ignore[override]
            if self.reads:
                raise error
            return super().read()

    monkeypatch.setattr(probes, "PROBES", {"breaking": Breaking, "clock": Clock})
    with Collector() as collector:
        pass
    assert list(collector.absent) == ["breaking"]
    rows = [row for batch in collector.take() for row in batch.to_pylist()]
    assert [row["value"] for row in rows if row["probe"] == "clock"] == [1.0, 2.0]


def test_no_descriptor_is_left_open() -> None:
    with Collector():
        pass
    before = descriptors()
    for _ in range(3):
        with Collector():
            pass
    assert descriptors() == before


def test_reading_everything_costs_less_than_a_hundredth_of_a_core() -> None:
    with Collector() as collector:
        spent_ns = []
        for _ in range(20):
            begun_ns = time.thread_time_ns()
            collector._read()
            spent_ns.append(time.thread_time_ns() - begun_ns)
    # The least of them: what other work on the machine adds is not the collector's.
    assert min(spent_ns) < 10_000_000


def test_controllers_of_version_1_are_read_too(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "own_folder", lambda: Path("/group"))
    monkeypatch.setattr(cgroup, "own_folder_1", lambda controller: Path("/older", controller))
    put(kernel, "/older/cpu/cpu.cfs_quota_us", "30000\n")
    put(kernel, "/older/cpu/cpu.cfs_period_us", "100000\n")
    put(kernel, "/older/cpu/cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 123\n")
    put(kernel, "/older/memory/memory.usage_in_bytes", "4096\n")
    put(kernel, "/older/memory/memory.failcnt", "7\n")
    put(kernel, "/older/memory/memory.stat", "cache 1\nhierarchical_memory_limit 8192\n")
    values_read = values(cgroup.Cgroup())
    assert values_read["", "cores_max"] == 0.3
    assert (values_read["", "throttled"], values_read["", "throttled_ns"]) == (4, 123)
    memory = ("memory_bytes", "memory_bytes_max", "memory_events_max")
    assert [values_read["", metric] for metric in memory] == [4096, 8192, 7]
    put(kernel, "/older/memory/memory.stat", "hierarchical_memory_limit 9223372036854771712\n")
    assert ("", "memory_bytes_max") not in values(cgroup.Cgroup())


DROPS = """
import socket
from loadstone.probes.network import Network

network = Network()
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(50):
    udp.sendto(bytes(1000), ("127.0.0.1", 9))
print(*(f"{metric} {value:.0f}" for card, metric, value in network.read() if "queue" in metric))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
def test_packets_that_a_card_s_queue_drops_are_counted() -> None:
    queue = "tc qdisc add dev lo root tbf rate 8kbit burst 2000 limit 3000"
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", f'ip link set lo up && {queue} && exec "$0" -',
         sys.executable],
        input=DROPS, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"no such queue here: {done.stderr.strip()}")
    counters = dict(zip(*[iter(done.stdout.split())] * 2, strict=True))
    assert int(counters["send_queue_dropped"]) > 40


def test_a_shaper_on_a_card_is_the_speed_of_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    disciplines = b'[{"kind":"tbf","dev":"eth9","root":true,"options":{"rate":12500000}},' + (
        b'{"kind":"noqueue","dev":"lo","root":true,"options":{}},'
        b'{"kind":"netem","dev":"eth8","root":true,"options":{"rate":{"rate":125000}}},'
        b'{"kind":"tbf","dev":"eth7","root":true,"options":{"rate":"fast"}}, "tbf"]'
    )
    monkeypatch.setattr(
        network.subprocess,
        "run",
        lambda *_, **__: network.subprocess.CompletedProcess([], 0, stdout=disciplines),
    )
    assert network.shaped_cards() == {"eth9": 1e8}


def test_the_cores_that_the_load_may_use_are_told() -> None:
    allowed = {subject for subject, metric, _ in cpu.Cpu().read() if metric == "allowed"}
    assert allowed == {str(core) for core in os.sched_getaffinity(0)}
