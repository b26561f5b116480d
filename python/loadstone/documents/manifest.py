"""The type of a run's manifest: the plan, the hosts, and the state of the run.

Values may be absent in runs of earlier builds, and null in runs of other tools. The reader checks
required keys (`results/layout.py`).
"""

from typing import Any, Required

from pydantic import ConfigDict
from typing_extensions import TypedDict

from loadstone.documents.card import Card
from loadstone.documents.ceiling import CeilingDocument
from loadstone.documents.node import NodeDocument
from loadstone.documents.python_types import Object, TargetSettings, Whole
from loadstone.documents.summary import FileDigest
from loadstone.documents.trial import TrialDocument


class HostProcessor(TypedDict, total=False):
    """All processors of a host that makes load; several governors or frequencies are one text."""

    model: str | None
    cores: Whole
    cores_allowed: Whole
    governor: str
    frequency_khz_max: str
    turbo: str
    smt_active: str
    mitigations: dict[str, str]


class HostCard(TypedDict, total=False):
    """A network card, in the kernel's own words."""

    mtu: str
    state: str
    speed_mbit_per_s: str
    driver: str


class HostDisk(TypedDict, total=False):
    """A disk of a host that makes load."""

    model: str
    bytes: Whole
    rotates: bool
    scheduler: str


HostGroup = TypedDict(
    "HostGroup", {"cpu.max": str, "cpuset.cpus.effective": str, "memory.max": str}, total=False
)
"""Limits of a process's control group, in the kernel's words."""


class HostFacts(TypedDict, total=False):
    """A host that makes load; what cannot be read there is left out."""

    name: str
    hostname: str
    kernel: str
    machine: str
    system: str
    kernel_options: list[str]
    cpu: HostProcessor | None
    memory_bytes: Whole | None
    clock_source: str
    network: dict[str, HostCard] | None
    disks: dict[str, HostDisk] | None
    sysctl: dict[str, str] | None
    descriptors_max: Whole
    container: str
    cgroup: HostGroup
    virtualisation: str


class HostIdentity(TypedDict, total=False):
    """Facts that identify a host."""

    name: str | None
    machine: str | None
    cpu_model: str | None


_GroupConditions = TypedDict(
    "_GroupConditions", {"cgroup_cpu.max": str, "cgroup_cpuset.cpus.effective": str}, total=False
)


class HostConditions(_GroupConditions, total=False):
    """Facts of a host that affect a ceiling and may change; other builds may have more."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    kernel: str
    kernel_options: list[str]
    cpu_cores: Whole
    cpu_cores_allowed: Whole
    cpu_governor: str
    cpu_frequency_khz_max: str
    cpu_turbo: str
    cpu_smt_active: str


class KeptCalibration(TypedDict, total=False):
    """A calibration as a file or a manifest keeps it; `absent` is why a run has none."""

    absent: str
    format: Whole
    host: HostIdentity
    build: str
    sessions: list[Object]
    age_s: Whole


class JoinedHost(TypedDict, total=False):
    """A client host, by its own statement when it joined a run."""

    name: Required[str]
    loadstone: str
    build: str
    python: str
    cores: Whole
    memory_bytes: Whole | None
    network: dict[str, HostCard]
    descriptors: Whole
    ports: Whole
    rss_bytes: Whole
    calibration: KeptCalibration
    fingerprint: Required[HostFacts]


class CampaignTarget(TargetSettings, total=False):
    """A target of the campaign: its driver and facts, beside its settings."""

    driver: str
    facts: Object | None


class ReportDocument(TypedDict, total=False):
    """The campaign's options for tables."""

    table: str | None
    head: str | None
    labels: dict[str, str]
    decimal_comma: bool
    spread: str
    megabyte: str


class CampaignDocument(TypedDict, total=False):
    """The campaign as it was resolved; its schema has all keys."""

    name: str
    description: str | None
    targets: dict[str, CampaignTarget]
    report: ReportDocument | None
    arms: dict[str, Any]
    statements: dict[str, str | None] | None
    imported_from: str


class StoreDocument(TypedDict):
    """The size of a store and its used part, in bytes that a client may write."""

    total_bytes: Whole
    used_bytes: Whole


class MemoryUse(TypedDict, total=False):
    """The memory limit of a run, and its use."""

    memory_bytes: Whole
    memory_peak_bytes: Whole | None
    memory_limit_hits: Whole | None
    memory_kills: Whole


class EndedSearch(TypedDict, total=False):
    """The end of a search for a capacity."""

    trials: Whole
    reason: str


class ValueChange(TypedDict):
    """A value at the start of the run, and after a resumption."""

    before: Any
    after: Any


class CampaignChange(TypedDict):
    """Changes in the campaign's file that a resumption found."""

    time: str
    keys: dict[str, ValueChange]
    campaign_file: ValueChange


Imported = TypedDict("Imported", {"from": str, "by": str}, total=False)
"""The file and the tool that a run was imported from."""


class ListFacts(TypedDict):
    """The contents of a list, from `_loadgen.list_facts`."""

    objects: int
    bytes: int
    size_bytes_min: int
    size_bytes_max: int
    without_size: int
    with_etag: int


class ObjectListDocument(ListFacts):
    """A list of objects, and its contents.

    `path` is its file in the run folder, `source` the given file; without one, the store listed the
    objects at the time `listed`. `is_cut` if there are more than requested.
    """

    target: str
    bucket: str
    prefix: str
    source: str | None
    listed: str
    is_cut: bool
    path: str
    sha256: str


class ScriptOrigin(TypedDict):
    """The trace of a script.

    Of its requests, `rows_read`, `actions` became actions; the others are `left_out`, by reason, or
    `malformed`, with the places of the first ones.
    """

    format: str
    files: list[str]
    rows_read: int
    actions: int
    span_ns: int
    left_out: dict[str, int]
    malformed: int
    malformed_examples: list[str]
    sessions_by: str
    sessions: int
    size_bytes: int | None
    is_anonymous: bool
    has_times: bool


def rows_kept(origin: ScriptOrigin) -> int:
    """Return how many rows are in the script; one row may be in several copies of a sequence."""
    return origin["rows_read"] - sum(origin["left_out"].values()) - origin["malformed"]


class RunOutcome(TypedDict, total=False):
    """The end of a run, and the fate of trials without records."""

    ended: str | None
    problems: list[str]
    failed: dict[str, str]
    skipped: dict[str, str]
    not_run: list[str]


class Resumption(TypedDict, total=False):
    """When, by which build and on which host a run was resumed, and its state before."""

    started: str | None
    loadstone: str
    versions: dict[str, str]
    host: HostFacts
    left_as: RunOutcome


class Manifest(RunOutcome, total=False):
    """The plan of a run, its hosts, and its state."""

    format: Whole
    name: str
    state: str
    run: str
    seed: Whole
    plan: list[TrialDocument]
    campaign: CampaignDocument | None
    campaign_file: str | None
    command: str | None
    nodes: dict[str, NodeDocument]
    stores: dict[str, StoreDocument]
    hosts: list[JoinedHost]
    calibration: KeptCalibration | None
    cards: dict[str, Card]
    cards_failed: dict[str, str]
    ceilings: list[CeilingDocument]
    ceilings_failed: dict[str, str]
    files: dict[str, FileDigest] | None
    manifest_sha256: str
    started: str | None
    loadstone: str
    versions: dict[str, str]
    host: HostFacts
    scripts: dict[str, ScriptOrigin]
    lists: list[ObjectListDocument]
    limits: MemoryUse
    searches: dict[str, EndedSearch]
    changes: list[CampaignChange]
    resumed: list[Resumption]
    cleaned: list[str]
    deleted_by: list[str]
    starts: Whole
    starts_left: Whole
    failed_requests: Whole
    imported: Imported | None
