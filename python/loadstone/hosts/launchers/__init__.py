"""The table of launchers: each starts `loadstone agent` on the hosts, and does nothing else."""

import importlib
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from loadstone.campaign.schema.hosts import Hosts
from loadstone.hosts.invitation import Invitation

LAUNCHERS: Mapping[str, str] = {
    "local": "loadstone.hosts.launchers.processes:Local",
    "ssh": "loadstone.hosts.launchers.ssh:Ssh",
    "join": "loadstone.hosts.launchers.by_hand:ByHand",
    "mpirun": "loadstone.hosts.launchers.ranks:Mpirun",
    "srun": "loadstone.hosts.launchers.ranks:Srun",
    "slurm": "loadstone.hosts.launchers.jobs:Slurm",
    "htcondor": "loadstone.hosts.launchers.jobs:HTCondor",
    "dask": "loadstone.hosts.launchers.dask_workers:DaskWorkers",
}
"""Modules are imported on first use, because each needs its own libraries."""


class Launcher(Protocol):
    """Starts and stops agents."""

    def start(self, invitations: Sequence[Invitation]) -> list[str]:
        """Start an agent for each invitation; return before they have joined.

        Returns instructions for the user, one per line.
        """

    def ended(self) -> Mapping[str, str]:
        """Return the hosts whose agents have exited, or never started, with their output."""

    def news(self) -> list[str]:
        """Return the lines that started programs have printed since the last call."""

    def stop(self) -> None:
        """Stop the started programs that still run."""


def make_launcher(hosts: Hosts, secrets: Collection[str] = ()) -> Launcher:
    """Return the launcher that a campaign names.

    Programs that it starts do not inherit the environment variables in `secrets`.
    """
    module, _, name = LAUNCHERS[hosts.launch].partition(":")
    made: Launcher = getattr(importlib.import_module(module), name)(
        hosts, environment_without(secrets)
    )
    return made


def listen_address(hosts: Hosts) -> str:
    """Return the address that agents connect to; HostError if the campaign has to state it."""
    if hosts.listen is None and hosts.launch == "ssh":
        from loadstone.hosts.launchers.ssh import own_address

        return own_address(hosts)
    return hosts.listen or "127.0.0.1"


def environment_without(secrets: Collection[str]) -> dict[str, str]:
    """Return this process's environment without some of its variables."""
    return {name: value for name, value in os.environ.items() if name not in secrets}
