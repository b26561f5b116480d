"""Hosts that are slow, have no room on their disk, or whose clock is set: no hang, and no loss."""

import contextlib
import errno
import json
import mmap
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from loadstone.results.store import read_run
from tests.system import campaigns, ssh_network
from tests.system.command import loadstone
from tests.system.ssh_network import CONTROLLER, SshNetwork

LACKS = ssh_network.lacks()
pytestmark = pytest.mark.skipif(LACKS is not None, reason=str(LACKS))
WAIT_S = 120.0
ROOM = 256 << 10

CAMPAIGN = """\
name: failing
targets: {{t: {{driver: "null"}}}}
hosts:
  launch: ssh
  names: [client1, client2]
  command: {command}
  listen: {listen}
  on_lost: {on_lost}
dataset: {{objects: 1000, size: 4KiB}}
load: {load}
phases: {phases}
"""
CLOSED = "{threads: 1, cores: 1}"
OPEN = "{rate: 100/s, clients_max: 20, cores: 1}"
"""A load that leaves the processor to others: its number of requests is known beforehand."""

SLOW_SHARE = 0.1
MUTE_SHARE = 0.001
GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 1_000_000

SETTABLE_CLOCK = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
static volatile long long *ahead_ns;
static int (*read_clock)(clockid_t, struct timespec *);
__attribute__((constructor)) static void begin(void) {
    read_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int file = open(getenv("CLOCK_AHEAD"), O_RDONLY);
    if (file < 0) abort();
    ahead_ns = mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    if (ahead_ns == MAP_FAILED) abort();
}
int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!read_clock) begin();
    int failed = read_clock(clock, time);
    if (!failed && clock == CLOCK_REALTIME) {
        long long now_ns = time->tv_sec * 1000000000LL + time->tv_nsec + *ahead_ns;
        time->tv_sec = now_ns / 1000000000LL;
        time->tv_nsec = now_ns % 1000000000LL;
    }
    return failed;
}
"""
"""Replaces setting the clock, because the kernel has one clock for all namespaces."""


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk of one MiB that the hosts see."""
    with small_disk(tmp_path_factory.mktemp("disk")) as disk:
        yield disk


@pytest.fixture(scope="module")
def network(disk: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshNetwork]:
    # A namespace has the mounts that were there when it was made.
    with ssh_network.ssh_network(tmp_path_factory.mktemp("ssh"), 2) as network:
        yield network


def write(
    folder: Path,
    *,
    load: str,
    durations: Sequence[str],
    on_lost: str,
    on_client2: str = "",
) -> Path:
    """Write a campaign of trials so long, whose agent on client2 has shell commands before it."""
    command = folder / "loadstone-here"
    command.write_text(
        f'#!/bin/sh\nif [ "$(hostname)" = client2 ]; then\n:\n{on_client2}\nfi\n'
        f'exec {sys.executable} -m loadstone "$@"\n'
    )
    command.chmod(0o755)
    return campaigns.write(
        folder,
        CAMPAIGN.format(
            command=command,
            listen=CONTROLLER,
            load=load,
            phases=[
                {"name": f"put{number}", "op": "put", "duration": duration}
                for number, duration in enumerate(durations)
            ],
            on_lost=on_lost,
        ),
    )


def wait_for_figures(process: subprocess.Popen[str]) -> None:
    """Wait until the hosts have reported some seconds."""
    for _ in range(5):
        campaigns.wait_for(process, "%")


def no_load_is_left(network: SshNetwork) -> None:
    """Wait for the agents' end, which may come after the controller's."""
    end = time.monotonic() + WAIT_S
    while left := network.processes("client1") + network.processes("client2"):
        assert time.monotonic() < end, left
        time.sleep(0.1)


def reports_say(folder: Path, label: str) -> None:
    """Every report that has words bears a label."""
    for form in ("terminal", "html", "markdown", "disclosure", "csv", "json", "openmetrics"):
        words = ["--full"] if form == "terminal" else []
        finished = loadstone("report", folder, "-f", form, *words)
        assert finished.code in campaigns.WENT_WELL, finished.err
        assert label in finished.out, form


@contextlib.contextmanager
def slowed(processes: list[int], share: float) -> Iterator[None]:
    """Let processes have a small part of one core, and all of it for their end."""
    group = GROUPS / f"loadstone-slow-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(int(PERIOD_US * share)))
        for process in processes:
            (group / "cgroup.procs").write_text(str(process))
        yield
    finally:
        (group / "cpu.cfs_quota_us").write_text("-1")
        end = time.monotonic() + WAIT_S
        while (group / "cgroup.procs").read_text():
            assert time.monotonic() < end, "processes are left in the group"
            time.sleep(0.1)
        group.rmdir()


throttles = pytest.mark.skipif(
    not (GROUPS / "cpu.cfs_quota_us").exists() and not (GROUPS / "cpu.shares").exists(),
    reason="there is no control group for processor time",
)


@throttles
@pytest.mark.parametrize(
    "on_lost", [pytest.param("continue", marks=pytest.mark.long(cpu_s=4)), "stop"]
)
def test_a_host_that_is_too_slow_to_send_is_lost_as_configured(
    network: SshNetwork, tmp_path: Path, on_lost: str
) -> None:
    file = write(tmp_path, load=OPEN, durations=["1s", "10s"], on_lost=on_lost)
    process = network.start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "[2/2]")
    wait_for_figures(process)
    with slowed(network.processes("client2"), MUTE_SHARE):
        _, err = campaigns.end(process)
    no_load_is_left(network)
    run = read_run(tmp_path / "run")
    whole, cut = run.records
    assert [host["state"] for host in whole.summary["hosts"]] == ["finished"] * 2
    others, slow = cut.summary["hosts"]
    assert slow["reason"].endswith(" 3 s")
    assert others["requests"] + slow["requests"] == cut.summary["requests"]
    if on_lost == "continue":
        assert process.returncode in campaigns.WENT_WELL, err
        assert (run.state, cut.summary["state"]) == ("finished", "finished")
    else:
        assert process.returncode == 1
        assert "client2" in err
        assert (run.state, cut.summary["state"]) == ("failed", "stopped")
    reports_say(tmp_path / "run", "HOST_LOST")


@throttles
@pytest.mark.long(cpu_s=14)
def test_a_host_that_is_too_slow_ends_with_the_others_and_is_named(
    network: SshNetwork, tmp_path: Path
) -> None:
    file = write(tmp_path, load=CLOSED, durations=["1s", "8s"], on_lost="continue")
    process = network.start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "[2/2]")
    campaigns.wait_for(process, "%")
    with slowed(network.processes("client2"), SLOW_SHARE):
        _, err = campaigns.end(process)
        no_load_is_left(network)
    assert process.returncode in campaigns.WENT_WELL, err
    records = read_run(tmp_path / "run").records
    assert [record.summary["state"] for record in records] == ["finished"] * 2
    fast, slow = records[-1].summary["hosts"]
    assert fast["state"] == "finished"
    assert slow["requests"] < fast["requests"] / 2
    if slow["state"] == "finished":
        reports_say(tmp_path / "run", "HOSTS_UNEQUAL")
    else:
        # A machine that is busy with other work besides may leave it too little to say anything.
        assert slow["reason"].endswith(" 3 s")
        reports_say(tmp_path / "run", "HOST_LOST")


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of one MiB."""
    disk = folder / "small"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def fill(disk: Path) -> Path:
    """Leave no room on a disk, and return the file that takes it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler


def test_a_host_whose_disk_is_full_is_named_before_any_load(
    network: SshNetwork, disk: Path, tmp_path: Path
) -> None:
    here = f"export TMPDIR={disk} XDG_STATE_HOME={disk}"
    file = write(tmp_path, load=OPEN, durations=["1s"], on_lost="continue", on_client2=here)
    filler = fill(disk)
    try:
        finished = network.loadstone("run", file, "-o", tmp_path / "run")
        no_load_is_left(network)
    finally:
        filler.unlink()
    assert finished.code == 1
    assert "host client2" in finished.err
    assert os.strerror(errno.ENOSPC) in finished.err
    assert "hint:" in finished.err
    assert "Traceback" not in finished.err
    assert not (tmp_path / "run").exists()


def test_a_host_without_room_for_a_script_is_named_and_one_with_room_runs_it(
    network: SshNetwork, disk: Path, tmp_path: Path
) -> None:
    """The requests take more than its disk has left."""
    filler = fill(disk)
    os.truncate(filler, filler.stat().st_size - ROOM)
    rows = [f"{session},WRITE,s{session},10," for session in range(4) for _ in range(4_000)]
    (tmp_path / "own.csv").write_text(
        "session,action,object,size,due_ns\n" + "\n".join(rows) + "\n"
    )
    (tmp_path / "data").mkdir()

    def campaign(on_client2: str) -> Path:
        file = write(tmp_path, load=CLOSED, durations=["1s"], on_lost="stop", on_client2=on_client2)
        text = re.sub(
            "phases: .*", "phases: [{name: own, script: {file: own.csv}}]", file.read_text()
        )
        text = text.replace('driver: "null"', f'driver: file, path: "{tmp_path / "data"}"')
        file.write_text(text.replace("objects: 1000, size: 4KiB", "buckets: 1"))
        return file

    file = campaign(f"export TMPDIR={disk} XDG_STATE_HOME={disk}")
    finished = network.loadstone("run", file, "-o", tmp_path / "full")
    no_load_is_left(network)
    assert finished.code == 1
    assert "client2" in finished.err
    full = os.strerror(errno.ENOSPC)
    assert re.search(rf'write ".*[.]part": {full}', finished.err), finished.err
    assert "TMPDIR" in finished.err
    assert "Traceback" not in finished.err
    scripts = [path.stat().st_size for path in (tmp_path / "full" / "scripts").rglob("*.*")]
    assert max(scripts) > ROOM
    assert not list(disk.rglob("*.part"))
    filler.unlink()

    finished = network.loadstone("run", campaign(""), "-o", tmp_path / "run")
    no_load_is_left(network)
    assert finished.code in campaigns.WENT_WELL, finished.err
    (record,) = (
        record for record in read_run(tmp_path / "run").records if record.trial["measured"]
    )
    made = [host["requests"] for host in record.summary["hosts"]]
    assert sum(made) == record.summary["requests"] == len(rows)
    assert made == [len(rows) / 2] * 2


def test_a_host_with_a_full_disk_continues_because_it_writes_nothing(
    network: SshNetwork, disk: Path, tmp_path: Path
) -> None:
    here = f"export TMPDIR={disk} XDG_STATE_HOME={disk}"
    file = write(tmp_path, load=OPEN, durations=["3s", "1s"], on_lost="stop", on_client2=here)
    process = network.start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "%")
    filler = fill(disk)
    try:
        _, err = campaigns.end(process)
        no_load_is_left(network)
    finally:
        filler.unlink()
    assert process.returncode in campaigns.WENT_WELL, err
    for record in read_run(tmp_path / "run").records:
        assert [host["state"] for host in record.summary["hosts"]] == ["finished"] * 2


def test_a_controller_whose_disk_fills_ends_all_load_and_goes_on_when_there_is_room(
    network: SshNetwork, tmp_path: Path
) -> None:
    file = write(tmp_path, load=OPEN, durations=["1s", "2s", "1s"], on_lost="continue")
    with small_disk(tmp_path) as disk:
        run = disk / "run"
        process = network.start("run", file, "-o", run)
        campaigns.wait_for(process, "[2/3]")
        filler = fill(disk)
        _, err = campaigns.end(process)
        no_load_is_left(network)
        assert process.returncode == 1
        assert os.strerror(errno.ENOSPC) in err
        assert "Traceback" not in err
        filler.unlink()
        first = read_run(run).records[0]
        assert first.summary["state"] == "finished"
        finished = network.loadstone("run", file, "-o", run, "--resume")
        assert finished.code in campaigns.WENT_WELL, finished.err
        records = read_run(run).records
        assert [record.summary["state"] for record in records] == ["finished"] * 3
        # The trial that was whole was not made again.
        assert records[0].summary == first.summary


def test_a_clock_that_is_set_moves_no_figure_and_is_named(
    network: SshNetwork, tmp_path: Path
) -> None:
    ahead = tmp_path / "ahead"
    ahead.write_bytes(bytes(8))
    library = tmp_path / "clock.so"
    (tmp_path / "clock.c").write_text(SETTABLE_CLOCK)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", library, tmp_path / "clock.c", "-ldl"], check=True
    )
    here = f"export CLOCK_AHEAD={ahead} LD_PRELOAD={library}"
    file = write(
        tmp_path, load=OPEN, durations=["12s", "1s", "12s"], on_lost="stop", on_client2=here
    )
    process = network.start("run", file, "-o", tmp_path / "run")
    wait_for_figures(process)
    set_clock(ahead, 3600.0)
    campaigns.wait_for(process, "[3/3]")
    wait_for_figures(process)
    set_clock(ahead, -600.0)
    _, err = campaigns.end(process)
    no_load_is_left(network)
    assert process.returncode in campaigns.WENT_WELL, err
    records = read_run(tmp_path / "run").records
    steps_s = []
    for record in records:
        hosts = record.summary["hosts"]
        assert [host["state"] for host in hosts] == ["finished"] * 2
        assert all(abs(host["clock_offset_ns"]) < 1e9 for host in hosts)
        assert is_in_the_trial(record)
        steps_s += [host.get("clock_step_ns", 0) / 1e9 for host in hosts]
    assert [round(step_s) for step_s in steps_s] == [0, 3600, 0, 0, 0, -4200]
    reports_say(tmp_path / "run", "CLOCK_SET")


def set_clock(file: Path, ahead_s: float) -> None:
    """Set a host's clock, at once and in the middle of whatever it does."""
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 8) as memory:
        memory[:8] = struct.pack("<q", int(ahead_s * 1e9))


def is_in_the_trial(record: Any) -> bool:
    """Tell whether rows of hosts and probes have times of the trial, within ten seconds."""
    rest_ns = 10 * 10**9
    first_ns = record.summary["started_unix_ns"] - rest_ns
    last_ns = record.summary["ended_unix_ns"] + rest_ns
    times = [row["time_unix_ns"] for row in record.probes.to_pylist()]
    assert times, json.dumps(record.summary["hosts"])
    return last_ns - first_ns < 60 * 10**9 and all(first_ns < at < last_ns for at in times)
