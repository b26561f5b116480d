"""Half an hour of twenty agents, of which one is killed every few seconds and comes back.

`LOADSTONE_SOAK_S` and `LOADSTONE_SOAK_AGENTS` make it shorter or smaller.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadstone.results.store import read_run

SOAK_S = float(os.environ.get("LOADSTONE_SOAK_S", "1800"))
AGENTS = int(os.environ.get("LOADSTONE_SOAK_AGENTS", "20"))
TRIAL_S = 20
WAIT_S = 300.0
GROWTH_MIB_MAX = 48
"""Permitted growth of the controller's memory after the first quarter, in MiB."""

CAMPAIGN = f"""\
name: soak
targets: {{t: {{driver: "null"}}}}
hosts: {{launch: join, names: ["agent{{1...{AGENTS}}}"], listen: 127.0.0.1}}
dataset: {{objects: 1000, size: 4KiB}}
load: {{rate: 20/s, clients_max: 4, cores: 1}}
rounds: {max(2, int(SOAK_S / TRIAL_S))}
phases: [{{op: put, duration: {TRIAL_S}s}}]
"""


@pytest.mark.long(cpu_s=1500)
def test_agents_that_are_killed_and_come_back_lose_nothing_that_was_told(tmp_path: Path) -> None:
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    with soaking(tmp_path) as soak:
        soak.run()
    run = read_run(tmp_path / "run")
    # On a busy machine, some requests are due in a second and never sent.
    failed = {
        row["outcome"]
        for record in run.records
        for row in record.read_intervals(["outcome"]).to_pylist()
    } - {"ok"}
    assert failed <= {"not_sent"}
    assert soak.process.returncode == (1 if failed else 0), (tmp_path / "said").read_text()[-2000:]
    assert run.state == "finished"
    assert len(run.records) == len(run.manifest["plan"])
    lost = 0
    for record in run.records:
        hosts = record.summary["hosts"]
        assert len({host["name"] for host in hosts}) == AGENTS == len(hosts)
        assert sum(host["requests"] for host in hosts) == record.summary["requests"]
        requests_of: dict[str, int] = {}
        for row in record.read_intervals(["agent", "requests"]).to_pylist():
            requests_of[row["agent"]] = requests_of.get(row["agent"], 0) + row["requests"]
        assert requests_of == {host["name"]: host["requests"] for host in hosts if host["requests"]}
        gone = [host for host in hosts if host["state"] == "lost"]
        # Only killed hosts are lost, each with a reason.
        assert all(host["reason"] for host in gone)
        assert {host["name"] for host in gone} <= set(soak.kills)
        lost += len(gone)
    print(f"{len(soak.kills)} kills, {lost} losses of a host in {len(run.records)} trials")
    print(f"the controller held {soak.memory_mib[0]:.0f} to {max(soak.memory_mib):.0f} MiB")
    # A host killed between two trials may have rejoined before the next.
    assert len(soak.kills) * 0.8 <= lost
    quarter = soak.memory_mib[len(soak.memory_mib) // 4]
    assert soak.memory_mib[-1] - quarter < GROWTH_MIB_MAX
    assert not any(agent.poll() is None for agent in soak.agents.values())


class Soak:
    """A run whose agents are started, killed and restarted."""

    def __init__(self, folder: Path) -> None:
        self.kills: list[str] = []
        self.memory_mib: list[float] = []
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = folder
        self._dice = random.Random(17)
        with (folder / "said").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "loadstone", "run", "campaign.yaml", "-o", "run"],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    def run(self) -> None:
        """Let agents join, and kill one after another until the last rounds."""
        self._wait_for(lambda: bool(list(self._folder.glob("invitations-*/*.invitation"))))
        (folder,) = self._folder.glob("invitations-*")
        self._wait_for(lambda: len(list(folder.iterdir())) == AGENTS)
        for path in sorted(folder.iterdir()):
            self._start(path)
        self._wait_for(lambda: self._trials() > 0)
        while self._trials() < self._rounds() - 2:
            self._look()
            time.sleep(self._dice.uniform(3, 12))
            victim = self._dice.choice(sorted(self.agents))
            self.agents[victim].send_signal(signal.SIGKILL)
            self.agents[victim].wait()
            self.kills.append(victim)
            time.sleep(self._dice.uniform(0.5, 4))
            self._start(folder / f"{victim}.invitation")
        self._look()
        self.process.wait(WAIT_S)
        for agent in self.agents.values():
            agent.wait(WAIT_S)

    def end(self) -> None:
        """Kill the remaining processes of a failed test."""
        for process in (self.process, *self.agents.values()):
            with contextlib.suppress(OSError):
                process.kill()
                process.wait()

    def _start(self, invitation: Path) -> None:
        # One agent per host: each has its own state directory, as on separate hosts.
        state = {"XDG_STATE_HOME": str(self._folder / "states" / invitation.stem)}
        self.agents[invitation.stem] = subprocess.Popen(
            [sys.executable, "-m", "loadstone", "agent", "--join", str(invitation)],
            env={**os.environ, **state},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def _look(self) -> None:
        assert self.process.poll() is None, "the run ended"
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                self.memory_mib.append(int(line.split()[1]) / 1024)

    def _trials(self) -> int:
        return len(list((self._folder / "run" / "trials").glob("*.json")))

    def _rounds(self) -> int:
        return max(2, int(SOAK_S / TRIAL_S))

    def _wait_for(self, holds: Any) -> None:
        end = time.monotonic() + WAIT_S
        while not holds():
            assert self.process.poll() is None, (self._folder / "said").read_text()[-2000:]
            assert time.monotonic() < end
            time.sleep(0.2)


@contextlib.contextmanager
def soaking(folder: Path) -> Iterator[Soak]:
    soak = Soak(folder)
    try:
        yield soak
    finally:
        soak.end()
