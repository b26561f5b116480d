"""A client host and a server host on one machine: namespaces, shaped cards, quotas, cores.

Needs root, `ip`, `tc`, `nsenter`, `unshare` and `taskset`, two cores, and the CPU controller of
control groups, of either version.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
CLIENT, SERVER = "client", "server"
ADDRESSES = {CLIENT: "10.231.7.2", SERVER: "10.231.7.1"}
CARD = "rig0"
PROGRAMS = ("ip", "tc", "nsenter", "unshare", "taskset")
CGROUP_1 = Path("/sys/fs/cgroup/cpu")
CPUACCT = Path("/sys/fs/cgroup/cpuacct")
CGROUP_2 = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
SHARES_1, WEIGHT_2 = "262144", "10000"
"""The largest there are, so that the machine's other load does not limit first."""

# A namespace has a /sys of its own, where its cards are; the control groups are put back into it.
ENTER = """
mount --rbind /sys/fs/cgroup "$1" && mount -t sysfs sysfs /sys &&
mount --rbind "$1" /sys/fs/cgroup && shift && exec "$@"
"""


def lacks() -> str | None:
    """Return why this machine cannot carry the rig, or None."""
    if os.geteuid() != 0:
        return "the rig needs root, for namespaces and control groups"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"these programs are missing: {', '.join(missing)}"
    if len(os.sched_getaffinity(0)) < 2:
        return "the rig needs two cores, one for each host"
    if _cpu_groups() is None:
        return "no CPU controller of control groups"
    name = f"rig-try-{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if tried.returncode:
        return f"cannot make a network namespace: {tried.stderr.strip()}"
    limit = ["tc", "-n", name, "qdisc", "add", "dev", "lo", "root", *_rate(100)]
    tried = subprocess.run(limit, capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", name], check=True)
    return f"cannot shape a card: {tried.stderr.strip()}" if tried.returncode else None


def foreign_time(hosts: "Sequence[Host]") -> tuple[float, float]:
    """Return how long others have kept the hosts' cores busy, and the whole, in seconds.

    Steal time counts as time of others.
    """
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    names = {f"cpu{host.core}" for host in hosts}
    busy = whole = 0.0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *words = line.split()
        if name in names:
            # user, nice, system, idle, iowait, irq, softirq, steal; guest time is in the first two.
            ticks = [int(word) for word in words[:8]]
            busy += tick_s * (sum(ticks) - ticks[3] - ticks[4])
            whole += tick_s * sum(ticks)
    return busy - sum(host.used_s for host in hosts), whole


def _cpu_groups() -> Path | None:
    if (CGROUP_1 / "cpu.cfs_quota_us").exists() or (CGROUP_1 / "cpu.shares").exists():
        return CGROUP_1
    controllers = CGROUP_2 / "cgroup.subtree_control"
    with contextlib.suppress(OSError):
        if "cpu" in controllers.read_text().split():
            return CGROUP_2
    return None


def _rate(megabits: float) -> list[str]:
    # A burst of some milliseconds, and a queue that does not drop what a few flows have in flight.
    burst = max(16_000, int(megabits * 1e6 / 8 * 0.004))
    return ["tbf", "rate", f"{megabits}mbit", "burst", str(burst), "limit", "4000000"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a host of the rig: cores of its quota, sending rate of its card, local ports."""

    cores: float | None = None
    sends_megabits: float | None = None
    ports: int | None = None


@dataclass(slots=True)
class Host:
    """One of the two hosts: a namespace, a core, and a control group."""

    role: str
    namespace: str
    core: int
    group: Path
    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The address at which the other host reaches this one."""
        return ADDRESSES[self.role]

    @property
    def groups(self) -> list[Path]:
        """Return its control groups: version 1 counts CPU time in another controller's."""
        is_1 = self.group.parent == CGROUP_1
        return [self.group, *([CPUACCT / self.group.name] if is_1 else [])]

    @property
    def used_s(self) -> float:
        """How long its programs have run, in seconds of one core."""
        if self.group.parent == CGROUP_1:
            return int((self.groups[-1] / "cpuacct.usage").read_text()) / 1e9
        text = (self.group / "cpu.stat").read_text()
        return int(text.split("usage_usec", 1)[1].split()[0]) / 1e6

    def start(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a program on this host."""
        holder = tempfile.mkdtemp(dir=self.folder, prefix="cgroup-")
        entered = ["nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--mount"]
        entered += ["sh", "-c", ENTER, "sh", holder, "taskset", "-c", str(self.core), *command]

        def join() -> None:
            for group in self.groups:
                (group / "cgroup.procs").write_text(str(os.getpid()))

        process = subprocess.Popen(
            entered,
            preexec_fn=join,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}/python:{ROOT}", **(environment or {})},
        )
        self.processes.append(process)
        return process

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        """Run a program on this host to its end and return what it printed."""
        process = self.start(command, environment)
        output, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{output}")
        return output


def python(*words: str) -> list[str]:
    """Return the command that runs a module in this very Python."""
    return [sys.executable, *words]


@contextlib.contextmanager
def hosts(client: Limits, server: Limits) -> Iterator[tuple[Host, Host]]:
    """Make the two hosts with a link between them, and take all of it away again."""
    root = _cpu_groups()
    assert root is not None, "lacks() said that there is one"
    cores = sorted(os.sched_getaffinity(0))
    made: list[Host] = []
    with tempfile.TemporaryDirectory(prefix="rig-") as text:
        folder = Path(text)
        try:
            for role, core in ((CLIENT, cores[0]), (SERVER, cores[1])):
                name = f"rig-{role}-{os.getpid()}"
                _run("ip", "netns", "add", name)
                made.append(Host(role, name, core, root / name, folder))
                for group in made[-1].groups:
                    # Both controllers may be one hierarchy.
                    group.mkdir(exist_ok=True)
                _put_first(made[-1].group)
            _link(made[0].namespace, made[1].namespace)
            for host, limits in zip(made, (client, server), strict=True):
                _limit(host, limits)
            yield made[0], made[1]
        finally:
            for host in made:
                _remove(host)


def _put_first(group: Path) -> None:
    """Give a group the cores before the machine's other programs, within its quota."""
    if group.parent == CGROUP_1:
        (group / "cpu.shares").write_text(SHARES_1)
    else:
        (group / "cpu.weight").write_text(WEIGHT_2)


def _link(client: str, server: str) -> None:
    _run(
        *("ip", "link", "add", CARD, "netns", client, "type", "veth"),
        *("peer", "name", CARD, "netns", server),
    )
    for role, name in ((CLIENT, client), (SERVER, server)):
        _run("ip", "-n", name, "link", "set", "lo", "up")
        _run("ip", "-n", name, "address", "add", f"{ADDRESSES[role]}/30", "dev", CARD)
        _run("ip", "-n", name, "link", "set", CARD, "up")


def _limit(host: Host, limits: Limits) -> None:
    if limits.cores is not None:
        quota_us = round(limits.cores * PERIOD_US)
        if host.group.parent == CGROUP_1:
            (host.group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (host.group / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (host.group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    if limits.sends_megabits is not None:
        rate = _rate(limits.sends_megabits)
        _run("tc", "-n", host.namespace, "qdisc", "add", "dev", CARD, "root", *rate)
    if limits.ports is not None:
        ports = f"net.ipv4.ip_local_port_range=20000 {20000 + limits.ports - 1}"
        _run("nsenter", f"--net=/run/netns/{host.namespace}", "sysctl", "-q", "-w", ports)


def _remove(host: Host) -> None:
    for process in host.processes:
        if process.poll() is None:
            process.terminate()
    for process in host.processes:
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    subprocess.run(["ip", "netns", "del", host.namespace], check=False)
    for group in host.groups:
        _remove_group(group)


def _remove_group(group: Path) -> None:
    # The kernel counts a process as gone from its group a moment after it was waited for.
    for _ in range(50):
        if not group.exists():
            return
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
