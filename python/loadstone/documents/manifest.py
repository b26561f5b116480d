"""A run's manifest, typed: what was planned, on which hosts, and how the run stands.

Values may be absent, as runs of earlier builds lack them, and some null, as other tools tell less.
What a manifest must have, its reader asks for (`results/layout.py`).
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
"""What the control group of a process may use, as the kernel says it."""


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
    """What makes a host the same one on another day."""

    name: str | None
    machine: str | None
    cpu_model: str | None


_GroupConditions = TypedDict(
    "_GroupConditions", {"cgroup_cpu.max": str, "cgroup_cpuset.cpus.effective": str}, total=False
)


class HostConditions(_GroupConditions, total=False):
    """What of a host a ceiling depends on and may change; other builds know more."""

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
    """A client host as it joined a run: what it said of itself."""

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
    """How the campaign has its tables look."""

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
    """How large a store is, and how much of it is used, in bytes that a client may write."""

    total_bytes: Whole
    used_bytes: Whole


class MemoryUse(TypedDict, total=False):
    """The limit of a run's memory, and what was really used under it."""

    memory_bytes: Whole
    memory_peak_bytes: Whole | None
    memory_limit_hits: Whole | None
    memory_kills: Whole


class EndedSearch(TypedDict, total=False):
    """How a search for a capacity ended."""

    trials: Whole
    reason: str


class ValueChange(TypedDict):
    """What something said when the run began, and what it says since a resumption."""

    before: Any
    after: Any


class CampaignChange(TypedDict):
    """What a resumption found changed in the campaign's file."""

    time: str
    keys: dict[str, ValueChange]
    campaign_file: ValueChange


Imported = TypedDict("Imported", {"from": str, "by": str}, total=False)
"""Which tool's file a run was imported from."""


class ListFacts(TypedDict):
    """What is in a list, as the load generator reads it (`_loadgen.list_facts`)."""

    objects: int
    bytes: int
    size_bytes_min: int
    size_bytes_max: int
    without_size: int
    with_etag: int


class ObjectListDocument(ListFacts):
    """Where a list came from, and what is in it.

    `path` is its file in the run folder. `source` is the file that was given; without one, the
    store listed the objects, at `listed`. `is_cut` says that there are more than were asked for.
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
    """What a trace was, what of it is in the script, and what is not.

    `rows_read` are its requests: `actions` of them became actions, the others are in `left_out` by
    reason, or `malformed`, of which `malformed_examples` say where the first of them stand.
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
    """How a run ended, and what became of the trials that have no record."""

    ended: str | None
    problems: list[str]
    failed: dict[str, str]
    skipped: dict[str, str]
    not_run: list[str]


class Resumption(TypedDict, total=False):
    """When, by what and where a run was gone on with, and how it had ended before."""

    started: str | None
    loadstone: str
    versions: dict[str, str]
    host: HostFacts
    left_as: RunOutcome


class Manifest(RunOutcome, total=False):
    """What was planned, on which host, and how the run stands."""

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
