"""The table of launchers: each starts `loadstone agent` on the hosts, and does nothing else."""

import importlib
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from loadstone.campaign.schema.hosts import Hosts
from loadstone.hosts.connection.invitation import Invitation

LAUNCHERS: Mapping[str, str] = {
    "local": "loadstone.hosts.launchers.local:Local",
    "ssh": "loadstone.hosts.launchers.ssh:Ssh",
    "join": "loadstone.hosts.launchers.by_hand:ByHand",
    "mpirun": "loadstone.hosts.launchers.ranks:Mpirun",
    "srun": "loadstone.hosts.launchers.ranks:Srun",
    "slurm": "loadstone.hosts.launchers.jobs:Slurm",
    "htcondor": "loadstone.hosts.launchers.jobs:HTCondor",
    "dask": "loadstone.hosts.launchers.dask_workers:DaskWorkers",
}
"""Modules are imported when they are used: each has libraries of its own."""


class Launcher(Protocol):
    """Brings agents up, and takes them down."""

    def start(self, invitations: Sequence[Invitation]) -> list[str]:
        """Start an agent for each invitation; return before they have joined, with what the user
        has to do, line by line.
        """

    def ended(self) -> Mapping[str, str]:
        """Return the hosts whose agents have ended, or never began, with what they said."""

    def news(self) -> list[str]:
        """Return lines that what was started has printed since the last call."""

    def stop(self) -> None:
        """End what was started and has not ended by itself."""


def make_launcher(hosts: Hosts, secrets: Collection[str] = ()) -> Launcher:
    """Return the launcher that a campaign names.

    What it starts does not inherit the environment variables that `secrets` names.
    """
    module, _, name = LAUNCHERS[hosts.launch].partition(":")
    made: Launcher = getattr(importlib.import_module(module), name)(
        hosts, environment_without(secrets)
    )
    return made


def listen_address(hosts: Hosts) -> str:
    """Return where agents connect to; HostError if the campaign has to state it."""
    if hosts.listen is None and hosts.launch == "ssh":
        from loadstone.hosts.launchers.ssh import own_address

        return own_address(hosts)
    return hosts.listen or "127.0.0.1"


def environment_without(secrets: Collection[str]) -> dict[str, str]:
    """Return this process's environment without some of its variables."""
    return {name: value for name, value in os.environ.items() if name not in secrets}
