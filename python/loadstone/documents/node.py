"""Types of nodes: their facts, and the results of their probes.

Unknown facts are absent. `failed` is the reason why a node could not be described or measured.
"""

from typing import Required

from typing_extensions import TypedDict

from loadstone.documents.python_types import Number, Whole


class ProcessorFacts(TypedDict, total=False):
    """All processors of a node together; `cores` are of all sockets, where it says how many."""

    model: str
    sockets: Whole
    cores: Whole
    cores_per_socket: Whole
    threads: Whole
    mhz: Number
    mhz_max: Number


class MemoryModule(TypedDict, total=False):
    """One module of memory, in the machine's own words."""

    size: str
    type: str
    speed: str
    part: str


class CardFacts(TypedDict, total=False):
    """A network card."""

    model: str
    driver: str
    firmware: str
    state: str
    speed_mbit_per_s: Whole
    mtu: Whole


class DiskFacts(TypedDict, total=False):
    """A disk, and where it is mounted."""

    model: str
    firmware: str
    transport: str
    bytes: Whole
    rotates: bool
    mounts: list[str]


class MountFacts(TypedDict, total=False):
    """A mounted file system; `type` is the kernel's name."""

    path: str
    device: str
    type: str
    options: str


class PoolFacts(TypedDict, total=False):
    """A pool of Ceph, replicated or erasure-coded."""

    name: str
    placement_groups: Whole
    copies: Whole | None
    erasure_code: str | None


class DirectionRates(TypedDict, total=False):
    """The rates of one direction: bytes of large blocks, requests of small random ones."""

    bytes_per_s: Required[Number]
    requests_per_s: Required[Number]
    latency_ns: dict[str, Whole]
    """Latency of small blocks by quantile: p50, p99."""


class StorageRates(TypedDict, total=False):
    """The rates of a device or mount by fio, with its commands, and what it left behind."""

    commands: list[str]
    write: DirectionRates
    read: DirectionRates
    tool: str
    left_behind: str


class StorageProbe(StorageRates, total=False):
    """A device or a mount of a node, its test, and the result."""

    kind: Required[str]
    path: Required[str]
    block_bytes: Required[Whole]
    small_block_bytes: Required[Whole]
    jobs: Required[Whole]
    depth: Required[Whole]
    direct: Required[bool]
    seconds: Required[Number]
    claimed: str
    """The file system that the campaign says it is."""
    bytes: Whole
    file_system: str
    source: str
    mounted_at: str
    options: str
    file_bytes: Whole
    total_bytes: Whole
    memory_bytes: Whole
    free_bytes: Whole
    failed: str
    hint: str
    outputs: list[str]


class Ping(TypedDict, total=False):
    """Packets there and back; without times where all were lost."""

    sent: Required[Whole]
    received: Required[Whole]
    min_ms: Number
    avg_ms: Number
    max_ms: Number


class Bandwidth(TypedDict, total=False):
    """The received rate of a path."""

    bits_per_s: Required[Number]
    seconds: Number
    retransmits: Whole | None
    streams: Whole
    tool: str


class PathProbe(TypedDict, total=False):
    """The network path from one node to another."""

    address: str
    ping: Ping
    bandwidth: Bandwidth
    failed: str
    hint: str
    outputs: list[str]


class NodeDocument(TypedDict, total=False):
    """A node; `host` is null where it is the client itself."""

    host: str | None
    roles: list[str]
    failed: str
    name: str
    kernel: str
    machine: str
    system: str
    chassis: str
    bios: str
    cpu: ProcessorFacts
    memory_bytes: Whole
    memory_modules: list[MemoryModule]
    network: dict[str, CardFacts]
    disks: dict[str, DiskFacts]
    raid: list[str]
    mounts: list[MountFacts]
    packages: dict[str, str]
    pools: list[PoolFacts]
    not_read: dict[str, str]
    probes: list[StorageProbe]
    paths: dict[str, PathProbe]


def is_cached(probe: StorageProbe) -> bool:
    """Tell whether a mount's files may have been read from the node's memory."""
    memory, total = probe.get("memory_bytes"), probe.get("total_bytes")
    if memory is None or total is None:
        return False
    return probe["kind"] == "mount" and not probe["direct"] and total < memory
