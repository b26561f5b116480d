"""A node: a machine behind a target, or a client, and how it is reached to be described."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from loadstone.campaign.reading.mistakes import KeyMistake, listed
from loadstone.campaign.schema.values import (
    Flag,
    PositiveCount,
    PositiveDuration,
    PositiveSize,
    Section,
)
from loadstone.errors import InputError

NodeProbeKind = Literal["network", "device", "mount"]

# Keys that each kind reads; any other key is refused, because it would have no effect.
READ_BY: Mapping[str, tuple[NodeProbeKind, ...]] = {
    "address": ("network",),
    "port": ("network",),
    "streams": ("network",),
    "pings": ("network",),
    "path": ("device", "mount"),
    "file_system": ("mount",),
    "file_size": ("mount",),
    "direct": ("mount",),
    "jobs": ("mount", "device"),
    "depth": ("mount", "device"),
    "block_size": ("mount", "device"),
    "small_block_size": ("mount", "device"),
}

_HOST = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.:%\[\]-]*")
_FILE_SYSTEM = re.compile(r"[a-z][a-z0-9_.-]{0,31}")
PINGS_MAX = 1000


def read_host(value: str) -> str:
    """Return a host's name; refuse one that ssh or ping would parse as a flag, a command or
    hops.
    """
    if not _HOST.fullmatch(value):
        raise InputError.of_value(value, "a host's name or address, as ssh takes it")
    return value


def _read_path(value: str) -> str:
    # fio splits names at colons; relative paths and ".." depend on the working directory.
    is_plain = value.isprintable() and ":" not in value and "," not in value
    if not (value.startswith("/") and is_plain and ".." not in value.split("/")):
        raise InputError.of_value(value, 'an absolute path, without ":", "," and ".."')
    return value


def _read_file_system(value: str) -> str:
    if not _FILE_SYSTEM.fullmatch(value):
        raise InputError.of_value(value, "a type as /proc/mounts has it, such as ceph, nfs or xfs")
    return value


class NodeProbe(Section):
    """One probe; which keys it reads depends on its kind."""

    kind: NodeProbeKind = Field(
        description="network: ping and iperf3 to each other node that has such a probe. device: "
        "fio reads it, and never writes. mount: fio writes and reads files in a directory made "
        "for it, and removes them."
    )
    duration_ns: PositiveDuration = Field(
        default=10_000_000_000, alias="duration", description="Length of each measurement."
    )
    address: Annotated[str, AfterValidator(read_host)] | None = Field(
        default=None,
        description="network: the node's address on the network in question; default: its host.",
    )
    port: Annotated[int, Field(ge=1, le=65535)] = Field(
        default=5201, description="network: the port of iperf3."
    )
    streams: PositiveCount = Field(default=1, description="network: concurrent TCP streams.")
    pings: Annotated[PositiveCount, Field(le=PINGS_MAX)] = Field(
        default=10, description="network: number of pings, 0.2 s apart."
    )
    path: Annotated[str, AfterValidator(_read_path)] | None = Field(
        default=None, description="device, mount: its path on the node."
    )
    file_system: Annotated[str, AfterValidator(_read_file_system)] | None = Field(
        default=None,
        description="mount: file system that must be mounted there, such as ceph; "
        "otherwise nothing is measured.",
    )
    file_size: PositiveSize = Field(default=1 << 30, description="mount: size of each job's file.")
    direct: Flag = Field(
        default=True,
        description="mount: bypass the node's page cache (O_DIRECT). Without it, all "
        "files together must be larger than the node's memory.",
    )
    jobs: PositiveCount = Field(default=4, description="device, mount: jobs of fio.")
    depth: PositiveCount = Field(
        default=16, description="device, mount: requests that each job keeps in flight."
    )
    block_size: PositiveSize = Field(
        default=4 << 20, description="device, mount: block of the bandwidth."
    )
    small_block_size: PositiveSize = Field(
        default=4 << 10, description="device, mount: block of the I/Os per second."
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        written = {NodeProbe.model_fields[name].alias or name for name in self.model_fields_set}
        for key, kinds in READ_BY.items():
            if key in written and self.kind not in kinds:
                yield KeyMistake(
                    (key,), f"this key with {self.kind}", f"{key} with {listed(kinds)}"
                )
        if self.kind != "network" and self.path is None:
            yield KeyMistake(("path",), "nothing", f"a value; {self.kind} needs it")
        largest, smallest = max(self.block_size, self.small_block_size), self.small_block_size
        if self.kind == "mount" and self.file_size < largest:
            allowed = f"at least one block, {largest} bytes"
            yield KeyMistake(("file_size",), f"{self.file_size} bytes", allowed)
        if self.kind != "network" and smallest % 512:
            allowed = "a multiple of 512 bytes, which direct I/O needs"
            yield KeyMistake(("small_block_size",), f"{smallest} bytes", allowed)


_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\$?")


def _read_user(value: str) -> str:
    if not _USER.fullmatch(value):
        raise InputError.of_value(value, "a user's name")
    return value


class Node(Section):
    """One machine. Without `host` it is the one that runs the campaign."""

    host: Annotated[str, AfterValidator(read_host)] | None = Field(
        default=None, description="Its name or address for ssh; default: this machine."
    )
    user: Annotated[str, AfterValidator(_read_user)] | None = Field(
        default=None, description="The user for ssh; default: as in ssh's own configuration."
    )
    port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None, description="The port of its sshd; default: as in ssh's own configuration."
    )
    roles: tuple[str, ...] = Field(
        default=(), description='Its roles, such as "mon", "osd", "client".'
    )
    sudo: Flag = Field(
        default=False,
        description="Whether to read memory modules and probed devices by sudo, which must not "
        "ask for a password.",
    )
    probes: tuple[NodeProbe, ...] = Field(
        default=(), description="Measurements there before any load; default: none."
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        networks = [index for index, probe in enumerate(self.probes) if probe.kind == "network"]
        if len(networks) > 1:
            yield KeyMistake(("probes", networks[1]), "a second network", "one of a node")
