"""Invitations: the controller's address and the host's certificate, for one agent in one run."""

import json
import os
import stat
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from loadstone import __version__
from loadstone.documents.mistake import first_mistake
from loadstone.errors import InputError

FORMAT = 1
SIZE_BYTES_MAX = 64 * 1024
RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""Environment variables in which Open MPI, PMIx, MPICH and Slurm give a process its rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """A host's invitation to one run. It contains the host's key, so it is as secret as a password.

    `is_alone` means that no other run's agent may make load on the host meanwhile, and with
    `is_only` no other of this run either.
    """

    controller: str
    host: str
    run: str
    loadstone: str
    lease_s: float
    is_alone: bool
    is_only: bool
    authority: str
    certificate: str
    key: str

    def __repr__(self) -> str:
        return f"Invitation(host={self.host!r}, controller={self.controller!r}, ...)"

    def text(self) -> str:
        """Return the invitation as one line of JSON."""
        return json.dumps({"format": FORMAT, **asdict(self)}) + "\n"


class InvitationHead(TypedDict):
    """The fields that all versions of invitations have: the host, and the version of the format."""

    format: Literal[1]
    loadstone: str
    host: str


def rank_file(folder: Path, rank: int) -> Path:
    """Return the path of a rank's invitation in a folder."""
    return folder / f"{rank}.invitation"


def _rank(folder: str) -> int:
    """Return this process's rank in a parallel program, from the launcher's variables."""
    rank = next((os.environ[name] for name in RANKS if os.environ.get(name)), "")
    if not rank.isdigit():
        raise InputError(
            f'"{folder}" is a folder, with an invitation for each rank, and this process has none',
            f"mpirun and srun set one of {', '.join(RANKS)}; otherwise name one of its files",
        )
    return int(rank)


def read_invitation(path: str) -> Invitation:
    """Read an invitation from a file that only its owner may read, or from "-", standard input.

    In a folder, the file of this process's rank is read.
    """
    if path == "-":
        # Only one line: the launcher keeps the pipe open, and closes it to end the agent.
        return parse_invitation(sys.stdin.readline(SIZE_BYTES_MAX), "standard input")
    if os.path.isdir(path):
        path = str(rank_file(Path(path), _rank(path)))
    try:
        with open(path, encoding="utf-8") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise InputError(
                    f'"{path}": found mode {stat.S_IMODE(mode):o}: others may read or change it',
                    f"it holds a key; make it private with: chmod 600 {path}",
                )
            text = stream.read(SIZE_BYTES_MAX)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not valid UTF-8"
        raise InputError(
            f'cannot read the invitation "{path}": {reason}',
            "loadstone run writes one for each host of a campaign with hosts: {launch: join}",
        ) from error
    return parse_invitation(text, f'"{path}"')


def parse_invitation(text: str, origin: str) -> Invitation:
    """Parse an invitation; InputError if it is not valid."""
    hint = "take the file that loadstone run wrote for this host"
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{origin}: it is not an invitation to a run", hint) from error
    try:
        made = TypeAdapter(InvitationHead).validate_python(fields, strict=True)
        if made["loadstone"] != __version__:
            raise InputError(
                f"{origin}: the controller has loadstone {made['loadstone']}, this host "
                f"{made['host']} has {__version__}",
                "install the same version on all hosts",
            )
        return TypeAdapter(Invitation).validate_python(fields)
    except ValidationError as error:
        raise InputError(
            f"{origin}: this loadstone cannot read the invitation: {first_mistake(error)}", hint
        ) from error


def write_invitation(path: Path, invitation: Invitation) -> None:
    """Write an invitation to a new file that only its owner may read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(invitation.text())
