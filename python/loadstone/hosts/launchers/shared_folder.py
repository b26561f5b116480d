"""Invitations in a folder that all hosts share, for agents that the site's scheduler starts."""

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from loadstone.campaign.schema.hosts import Hosts
from loadstone.errors import HostError
from loadstone.hosts.invitation import Invitation, rank_file, write_invitation


class SharedFolder:
    """A folder for one run, readable only by its user, and deleted with the run."""

    def __init__(self, hosts: Hosts, run: str) -> None:
        self.path = Path(hosts.folder or ".").absolute() / f"invitations-{run[:8]}"

    def write(self, invitations: Sequence[Invitation]) -> list[Path]:
        """Write an invitation for each rank, and return their paths."""
        paths = [rank_file(self.path, rank) for rank in range(len(invitations))]
        try:
            for path, invitation in zip(paths, invitations, strict=True):
                write_invitation(path, invitation)
        except OSError as error:
            raise HostError(
                f'write invitations to "{self.path}": {error.strerror}',
                "hosts.folder names a directory that this machine can write and all hosts can read",
            ) from error
        return paths

    def remove(self) -> None:
        """Remove the folder and its files."""
        with contextlib.suppress(OSError):
            shutil.rmtree(self.path)
