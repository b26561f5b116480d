"""Types of a target's state before and after a trial; unknown values are absent."""

from typing_extensions import TypedDict

from loadstone.documents.manifest import StoreDocument
from loadstone.documents.python_types import Number, Whole

PoolState = TypedDict(
    "PoolState",
    {
        "size": Whole,
        "min_size": Whole,
        "pg_num": Whole,
        "crush_rule": Whole,
        "erasure_code_profile": str,
        "flags_names": str,
        "class": str,
        "redundancy": str,
        "compression": str,
        "objects": Whole,
        "stored_bytes": Whole,
        "fill": Number,
    },
    total=False,
)
"""A pool of a Ceph cluster: its settings, and what it holds."""


OsdState = TypedDict(
    "OsdState",
    {"class": str | None, "status": str | None, "fill": Number | None, "groups": Whole | None},
    total=False,
)
"""An OSD, and its device's class."""


class OsdLatencies(TypedDict, total=False):
    """Milliseconds of an OSD's last writes."""

    commit: Number | None
    apply: Number | None


class ClusterState(TypedDict, total=False):
    """A Ceph cluster, in a digest of its own answers."""

    fsid: str
    health: str
    checks: dict[str, str]
    groups: dict[str, Whole]
    objects_misplaced: Whole
    objects_degraded: Whole
    recovery_bytes_per_s: Number
    total_bytes: Whole
    used_bytes: Whole
    fill: Number
    fill_by_class: dict[str, Number | None]
    osds: dict[str, OsdState]
    classes: dict[str, Whole]
    osds_up: Whole
    fill_of_fullest_osd: Number
    latency_ms: dict[str, OsdLatencies]
    versions: dict[str, Whole]
    pools: dict[str, PoolState]


class ServerState(TypedDict):
    """The resources used by all processes of a server, since loadstone started it."""

    processes: Whole
    cpu_ns: Whole
    memory_bytes: Whole
    memory_peak_bytes: Whole
    read_bytes: Whole
    written_bytes: Whole


class TargetState(TypedDict, total=False):
    """A target at one moment: its cluster, how full its store was, and what its server used."""

    ceph: ClusterState
    server: ServerState
    store: StoreDocument
