"""Agents that people start: an invitation for each host, and the command to type there."""

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from loadstone.campaign.schema.hosts import Hosts
from loadstone.hosts.invitation import Invitation, write_invitation


class ByHand:
    """Invitation files for the user to copy; each contains a key, so they are deleted after the
    run.
    """

    def __init__(self, hosts: Hosts, environment: Mapping[str, str]) -> None:
        self._command = hosts.command or "loadstone"
        self._folder: Path | None = None

    def start(self, invitations: Sequence[Invitation]) -> list[str]:
        """Write the invitations, and return the instructions."""
        folder = self._folder = Path(f"invitations-{invitations[0].run[:8]}").absolute()
        lines = [
            f"invitations are in {folder}, readable by you alone: each holds a key of its host",
            "copy each to its host (by scp, which keeps it private with -p), and type there:",
        ]
        for invitation in invitations:
            path = folder / f"{invitation.host}.invitation"
            write_invitation(path, invitation)
            lines.append(f"  on {invitation.host}: {self._command} agent --join {path.name}")
        return lines

    def ended(self) -> Mapping[str, str]:
        """Return nothing: only the user who started an agent sees its exit."""
        return {}

    def news(self) -> list[str]:
        """Return nothing: the output of agents stays on their hosts."""
        return []

    def stop(self) -> None:
        """Remove the invitations; agents leave with the run by themselves."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(self._folder)
