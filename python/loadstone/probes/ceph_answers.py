"""Types of the JSON answers of Ceph's command; values of other types are refused.

Keys that are used may be missing or null, because releases differ; others are not listed.
"""

from collections.abc import Mapping
from typing import Required

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from loadstone.documents.mistake import adapter_of, first_mistake

Number = int | float


class Message(TypedDict, total=False):
    """The text of a health check."""

    message: str | None


class HealthCheck(TypedDict, total=False):
    """A failed health check."""

    summary: Message | None


class Health(TypedDict, total=False):
    """The health, such as HEALTH_OK, with its failed checks."""

    status: str | None
    checks: dict[str, HealthCheck] | None


class GroupState(TypedDict):
    """The number of placement groups in a state."""

    state_name: str
    count: int


class Groups(TypedDict, total=False):
    """The placement groups, and their data that moves."""

    pgs_by_state: list[GroupState] | None
    misplaced_objects: int | None
    degraded_objects: int | None
    recovering_bytes_per_sec: int | None


class Status(TypedDict, total=False):
    """`ceph status`."""

    fsid: str | None
    health: Health | None
    pgmap: Groups | None


class Room(TypedDict, total=False):
    """All devices together."""

    total_bytes: int | None
    total_used_raw_bytes: int | None


class ClassRoom(TypedDict, total=False):
    """All devices of a class; the ratio is from 0 to 1."""

    total_used_raw_ratio: Number | None


class PoolStats(TypedDict, total=False):
    """The usage of a pool; `percent_used` is from 0 to 1, in spite of its name."""

    objects: int | None
    stored: int | None
    max_avail: int | None
    percent_used: Number | None


class PoolUsage(TypedDict, total=False):
    """A pool in `ceph df`."""

    name: Required[str]
    stats: PoolStats | None


class Usage(TypedDict, total=False):
    """`ceph df`."""

    stats: Room | None
    stats_by_class: dict[str, ClassRoom] | None
    pools: list[PoolUsage] | None


class Osd(TypedDict, total=False):
    """An OSD and its device; `utilization` is in percent."""

    id: Required[int | str]
    device_class: str | None
    status: str | None
    utilization: Number
    pgs: int | None


class Osds(TypedDict, total=False):
    """`ceph osd df`."""

    nodes: list[Osd] | None


class OsdTimes(TypedDict, total=False):
    """The latency of an OSD's last writes, in milliseconds."""

    commit_latency_ms: Number | None
    apply_latency_ms: Number | None


class OsdLatency(TypedDict, total=False):
    """An OSD in `ceph osd perf`."""

    id: Required[int | str]
    perf_stats: OsdTimes | None


class LatencyList(TypedDict, total=False):
    """All OSDs in `ceph osd perf`."""

    osd_perf_infos: list[OsdLatency] | None


class Latencies(LatencyList, total=False):
    """`ceph osd perf`; newer releases have the list in `osdstats`."""

    osdstats: LatencyList | None


class PoolOptions(TypedDict, total=False):
    """The options of a pool."""

    compression_mode: str | None


class Pool(TypedDict, total=False):
    """A pool in `ceph osd dump`."""

    pool_name: Required[str]
    size: int
    min_size: int | None
    pg_num: int | None
    crush_rule: int | None
    erasure_code_profile: str | None
    flags_names: str | None
    options: PoolOptions | None


class Profile(TypedDict, total=False):
    """An erasure code of k data chunks and m coding chunks."""

    k: int | str
    m: int | str


class ClusterMap(TypedDict, total=False):
    """`ceph osd dump`."""

    pools: list[Pool] | None
    erasure_code_profiles: dict[str, Profile] | None


class RuleStep(TypedDict, total=False):
    """A step of a rule; a "take" step has the name of a root."""

    op: str | None
    item_name: str | None


class PoolRule(TypedDict, total=False):
    """A rule in `ceph osd crush rule dump`."""

    rule_id: int | None
    steps: list[RuleStep] | None


class Versions(TypedDict, total=False):
    """`ceph versions`: the number of daemons of each version."""

    overall: dict[str, int] | None


class Answers(TypedDict, total=False):
    """All answers, by the names of the questions."""

    status: Status | None
    usage: Usage | None
    osds: Osds | None
    latencies: Latencies | None
    map: ClusterMap | None
    rules: list[PoolRule] | None
    versions: Versions | None


class HeldGroup(TypedDict):
    """A placement group, and the OSDs that hold it."""

    acting: list[int]


class HeldGroups(TypedDict):
    """`ceph pg ls-by-pool`; older releases return only the list."""

    pg_stats: list[HeldGroup]


def read_answers(answers: Mapping[str, object]) -> Answers:
    """Return typed answers; raise ValueError with the first wrong value."""
    try:
        return adapter_of(Answers).validate_python(answers)
    except ValidationError as error:
        raise ValueError(first_mistake(error)) from error


def read_groups(text: bytes) -> list[HeldGroup]:
    """Return the placement groups of a pool; raise ValueError for any other document."""
    try:
        groups = TypeAdapter[HeldGroups | list[HeldGroup]](
            HeldGroups | list[HeldGroup]
        ).validate_json(text)
    except ValidationError as error:
        raise ValueError(first_mistake(error)) from error
    return groups if isinstance(groups, list) else groups["pg_stats"]
