"""Measures how late client hosts start their load after the common start time.

    python bench/hosts_start.py [--hosts 3] [--rounds 60]

Hosts are network namespaces with ssh (tests/system/ssh_network.py needs root and sshd). They share
this machine's cores, so other processes delay a start, too: separate hosts are late only by the
bound of their clock. The load is small, for the same reason.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from loadstone.results.store import read_run
from tests.system.ssh_network import CONTROLLER, ssh_network

CAMPAIGN = """\
name: starts
targets: {{t: {{driver: "null"}}}}
hosts:
  launch: ssh
  names: ["client{{1...{hosts}}}"]
  command: {python} -m loadstone
  listen: {listen}
dataset: {{objects: 1000, size: 4KiB}}
load: {{rate: 20/s, clients_max: 1, cores: 1}}
rounds: {rounds}
phases: [{{op: put, duration: 500ms}}]
"""


def main() -> None:
    """Print the start errors and the clocks' bounds of all trials."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=60)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        file = folder / "campaign.yaml"
        file.write_text(
            CAMPAIGN.format(
                hosts=wanted.hosts, python=sys.executable, listen=CONTROLLER, rounds=wanted.rounds
            )
        )
        with ssh_network(folder, wanted.hosts) as network:
            result = network.loadstone("run", file, "-o", folder / "run")
        run = read_run(folder / "run")
        # On a busy machine some requests are due and never sent, which does not affect starts.
        assert run.state == "finished", result.err
        hosts = [host for record in run.records for host in record.summary["hosts"]]
    print(f"{len(hosts)} starts of {wanted.hosts} hosts, load average {os.getloadavg()[0]:.1f}")
    show("late by", [host["start_error_ns_max"] for host in hosts])
    show("clock's bound", [host["clock_bound_ns"] for host in hosts])


def show(name: str, times_ns: list[int]) -> None:
    """Print the percentiles of some times."""
    cuts = statistics.quantiles(times_ns, n=100, method="inclusive")
    shares = {"median": cuts[49], "p90": cuts[89], "p99": cuts[98], "most": max(times_ns)}
    delays = ", ".join(f"{share} {time_ns / 1e6:.4f} ms" for share, time_ns in shares.items())
    print(f"{name}: {delays}")


if __name__ == "__main__":
    main()
