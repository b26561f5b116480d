"""The hosts that make the load: which ones, how their agents are started, and who may be lost."""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from loadstone import units
from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.schema.values import PositiveCount, PositiveDuration, Section
from loadstone.errors import InputError, shown

HOSTS_MAX = 10_000
JOIN_EACH_S = 1.0
"""Additional time per host: 100 agents on two cores took 52 s to join."""
NAMED_ONLY = ("ssh", "join")
COUNTED_ONLY = ("htcondor", "dask")
OPTIONS_OF = ("mpirun", "srun")
JOBS_OF = ("slurm", "htcondor")
LAUNCHERS_OF = {
    "options": OPTIONS_OF,
    "job": JOBS_OF,
    "folder": (*OPTIONS_OF, *JOBS_OF),
    "scheduler": ("dask",),
    "profiles": ("local",),
}
"""Keys that only some launchers read."""
_COUNTED = {"local": "local", "slurm": "job", "htcondor": "job", "dask": "worker"}
"""Names of numbered agents; "rank" for all other launchers."""

_PORT = r"(?::(\d{1,5}))?"
_IPV6 = r"[0-9A-Fa-f]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(?:%\w+)?"
_NAME = re.compile(
    r"(?:([A-Za-z0-9_][A-Za-z0-9_.-]*)@)?"
    rf"(?:\[({_IPV6})\]{_PORT}|({_IPV6})|([A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?){_PORT})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshName:
    """The parts of "user@host:port"; user and port may be absent.

    An IPv6 address with a port stands in brackets, as in "user@[2001:db8::7]:2222".
    """

    host: str
    user: str | None = None
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> "SshName":
        """Parse a name; raise InputError if it is not valid."""
        parts = _NAME.fullmatch(text)
        if parts is None:
            raise InputError.of_value(text, "a host as user@host:port, or several as client{1...8}")
        user, bracketed, bracketed_port, bare, plain, plain_port = parts.groups()
        port = bracketed_port or plain_port
        return cls(host=bracketed or bare or plain, user=user, port=int(port) if port else None)


def _read_names(value: str) -> str:
    for name in units.expand_hosts(value):
        SshName.parse(name)
    return value


def _read_listen(value: str) -> str:
    bracketed = re.fullmatch(r"\[([^\]]+)\]" + _PORT, value)
    plain = value.rpartition(":")[0] if re.fullmatch(r"[^:]+:\d{1,5}", value) else value
    try:
        address = ipaddress.ip_address(bracketed[1] if bracketed else plain)
    except ValueError as error:
        raise InputError.of_value(value, "an address of this machine, as 10.0.0.1") from error
    if address.is_unspecified:
        raise InputError.of_value(
            value,
            "one address of this machine, never all of them",
            "take the one that the hosts reach: who can connect is decided by certificates, but "
            "no other host should be asked for one",
        )
    return value


class Hosts(Section):
    """The hosts that make the load together."""

    launch: Literal["local", "ssh", "join", "mpirun", "srun", "slurm", "htcondor", "dask"] = Field(
        description="How agents are started: local (processes on this machine), ssh, "
        "join (by people, with the commands that are printed), mpirun or "
        "srun (one agent per rank), slurm or htcondor (one agent per job, by "
        "dask-jobqueue), or dask (on the workers of a running scheduler)."
    )
    names: tuple[Annotated[str, AfterValidator(_read_names)], ...] = Field(
        default=(), description="The hosts; client{1...8} stands for eight of them."
    )
    count: PositiveCount | None = Field(
        default=None, description="Number of agents, instead of names; not with ssh and join."
    )
    profiles: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(),
        description="With local, instead of names and count: one agent for each of these AWS "
        "profiles, named after it, whose clients sign with its keys instead of the target's.",
    )
    command: str | None = Field(
        default=None, description="Command that starts loadstone on the hosts; default: loadstone."
    )
    listen: Annotated[str, AfterValidator(_read_listen)] | None = Field(
        default=None,
        description="The address of this machine that agents connect to; a port may "
        "follow. Default with ssh: the address from which ssh reaches the "
        "hosts.",
    )
    on_lost: Literal["continue", "stop"] = Field(
        default="continue",
        description="When a trial loses a host: continue to its end with the others, or stop.",
    )
    secrets: Literal["resolve", "send"] | None = Field(
        default=None,
        description="Who resolves {env: NAME} and {file: PATH}: each host (resolve), or "
        "the controller, which sends the values over TLS; hosts keep them in "
        "memory only (send). Default: send with ssh, whose sessions have "
        "none of your variables; otherwise resolve.",
    )
    options: tuple[str, ...] = Field(
        default=(), description="With mpirun and srun: further arguments."
    )
    job: dict[str, Any] = Field(
        default={},
        description="With slurm and htcondor: settings of dask-jobqueue, such as queue, "
        "cores, memory and walltime; the others come from its own "
        "configuration.",
    )
    folder: str | None = Field(
        default=None,
        description="With mpirun, srun, slurm and htcondor: a directory that all hosts "
        "see, for invitations; default: the current one.",
    )
    scheduler: str | None = Field(
        default=None,
        description="With dask: the scheduler's address; TLS follows dask's own configuration.",
    )
    join_timeout_ns: PositiveDuration | None = Field(
        default=None,
        alias="join_timeout",
        description="How long to wait for all agents to join; default: a minute, or ten "
        "with join, slurm and htcondor, plus a second for each host.",
    )

    @property
    def join_s(self) -> float:
        """How long to wait until all agents have joined, in seconds."""
        if self.join_timeout_ns is not None:
            return self.join_timeout_ns / 1e9
        usual_s = 600.0 if self.launch in ("join", *JOBS_OF) else 60.0
        return usual_s + JOIN_EACH_S * len(self.all_names)

    @property
    def sends_secrets(self) -> bool:
        """Whether the controller reads the secrets and sends them to the agents."""
        return self.secrets == "send" or (self.secrets is None and self.launch == "ssh")

    @property
    def all_names(self) -> tuple[str, ...]:
        """The hosts as a list of single names."""
        if self.profiles:
            return self.profiles
        if self.count is not None:
            name = _COUNTED.get(self.launch, "rank")
            return tuple(f"{name}{number}" for number in range(1, self.count + 1))
        return tuple(name for text in self.names for name in units.expand_hosts(text))

    def mistakes(self) -> Iterator[KeyMistake]:
        if self.count is not None and self.names:
            yield KeyMistake(("count",), "this key beside names", "one of the two")
        elif self.profiles and (self.count is not None or self.names):
            yield KeyMistake(("profiles",), "this key beside names or count", "one of them")
        elif self.count is None and not self.names and not self.profiles:
            allowed = "names" if self.launch in NAMED_ONLY else "names, or count"
            allowed = "count" if self.launch in COUNTED_ONLY else allowed
            yield KeyMistake((), "no hosts", allowed)
        if self.count is not None and self.launch in NAMED_ONLY:
            yield KeyMistake(("count",), f"this key with {self.launch}", "names")
        if self.names and self.launch in COUNTED_ONLY:
            yield KeyMistake(("names",), f"this key with {self.launch}", "count")
        for key, launchers in LAUNCHERS_OF.items():
            if getattr(self, key) and self.launch not in launchers:
                yield KeyMistake(
                    (key,),
                    f"this key with {self.launch}",
                    f"this key with {' or '.join(launchers)}",
                )
        if self.launch == "dask" and self.scheduler is None:
            allowed = "the address of a scheduler of dask, like tls://10.0.0.1:8786"
            yield KeyMistake(("scheduler",), "nothing", allowed)
        if self.launch not in ("local", "ssh") and self.listen is None:
            allowed = "the one address of this machine that the hosts reach, like 10.0.0.1"
            yield KeyMistake(("listen",), "nothing", allowed)
        names = self.all_names
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            yield KeyMistake(
                ("names",),
                f"{shown(twice[0])} twice",
                "each host once",
                hint="several agents on one host: give it several names",
            )
        if len(names) > HOSTS_MAX:
            yield KeyMistake((), f"{len(names):,} hosts", f"up to {HOSTS_MAX:,}")
