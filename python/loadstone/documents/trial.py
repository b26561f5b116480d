"""Trial documents, as the types of the load generator have them.

Made from docs/reference/record.schema.json by `python -m tests.docs.document_types`: change the
types in Rust. Any key may be absent, as documents of earlier builds lack some. Where Rust knows all
words of a key it is a text here: a later build knows more.
"""

from typing_extensions import TypedDict

from loadstone.documents.python_types import (
    Number,
    Object,
    Parameters,
    QueryDocument,
    TargetSettings,
    Whole,
)


class CaseDocument(TypedDict, total=False):
    """One cell of a campaign's matrix."""

    parameters: Parameters
    target: str
    workload: str


class NamedFileDocument(TypedDict, total=False):
    """A file that a trial names: part of a script, or a list of objects."""

    path: str
    sha256: str


class ShardsDocument(TypedDict, total=False):
    """The shard of a key: digits, then a constant text. The object of number i in its bucket has
    shard i modulo the number of shards.
    """

    base: Whole
    digits: Whole
    tail: str


class Size(TypedDict, total=False):
    """Distribution of object sizes, in bytes. The size of an object is a function of the seed
    and its number.
    """

    bytes: Whole
    kind: str
    max: Whole
    min: Whole
    median: Number
    sigma: Number
    choices: list[list[Whole | Number]]
    mean: Number


class Origin(TypedDict, total=False):
    """The run that wrote the objects. Sizes and payload are functions of its ID and its seed."""

    run: str
    seed: Whole


class DatasetDocument(TypedDict, total=False):
    """The objects: number, names, sizes and content."""

    bucket_prefix: str
    buckets: Whole
    compressible: Number
    duplicate: Number
    encryption: str | None
    existing: NamedFileDocument | None
    object_prefix: str
    objects: Whole | None
    oldest_version: Whole | None
    path_encryption: str | None
    payload: NamedFileDocument | None
    shards: ShardsDocument | None
    size: Size
    version: Whole
    written_by: Origin | None


class InterventionDocument(TypedDict, total=False):
    """A deliberate change in comparison with another phase."""

    kind: str
    of: Parameters


class HistoryFile(TypedDict, total=False):
    """The history of one trial."""

    path: str
    sha256: str


class HistoryDocument(TypedDict, total=False):
    """Histories that an audit judges together with its own reads."""

    files: list[HistoryFile]
    model: str
    version: Whole | None


class KeyOrder(TypedDict, total=False):
    """How requests choose objects."""

    order: str
    theta: Number | None


class LoadDocument(TypedDict, total=False):
    """How requests arrive."""

    clients: Whole
    kind: str
    arrivals: str
    clients_max: Whole | None
    rate_per_s: Number | None


class Share(TypedDict, total=False):
    """One operation of a mix and its weight."""

    operation: str
    weight: Number


class OnErrorDocument(TypedDict, total=False):
    """Reaction to failed requests."""

    action: str
    limit: Whole | None


class OptionsDocument(TypedDict, total=False):
    """Settings of single operations."""

    bulk_keys: Whole
    contended_keys: Whole
    delimiter: str | None
    ended_twice: Number
    page_keys: Whole
    part_bytes: Whole | None
    part_concurrency: Whole
    part_order: str
    part_pause_ns: Whole
    prefix: str | None
    range_bytes: Whole | None
    range_count: Whole


class LedgerDocument(TypedDict, total=False):
    """The ledger of one trial, and what that trial did."""

    copies: bool
    deletes: bool
    end: Whole
    first: Whole
    metadata_follows: bool
    path: str
    posts: bool
    puts: bool
    repeats: bool
    sha256: str
    tears: bool
    trial: str
    version: Whole


class OwedDocument(TypedDict, total=False):
    """The ledgers of a dataset, from which an audit derives what must exist."""

    is_absent_before: bool
    ledgers: list[LedgerDocument]
    sample: Whole | None


class OwnershipDocument(TypedDict, total=False):
    """Which of the existing places belong to this run. A *place* is a bucket, a container, a
    namespace, a directory or a device.
    """

    adopt: list[str]
    runs: list[str]
    unwritten: list[list[Whole]]
    volumes: list[str]
    written: list[list[Whole]]


class PortionDocument(TypedDict, total=False):
    """This host's portion of a trial. Request number `i` of the whole trial belongs to host `i`
    modulo the number of hosts, so that all portions together are the requests of a single host.
    The first host prepares the places.
    """

    index: Whole
    of: Whole


class ScriptDocument(TypedDict, total=False):
    """A script of dependent actions. `stop.requests` is the number of its requests, and `mix`
    names the operations that it contains.
    """

    actions: Whole
    requests: NamedFileDocument | None
    sessions: Whole
    speed: Number | None
    subjects: NamedFileDocument


class GoalDocument(TypedDict, total=False):
    """Objective of a search, and the effort to spend on it."""

    achieved_min: Number
    coarse_trial_s: Number
    confirm_good_min: Whole
    confirm_trials: Whole
    duration_sum_s: Number
    errors_max: Number
    exceed: Number
    latency_ns_max: Whole
    quantile: Number
    time_max_s: Number
    trial_s: Number
    trials_max: Whole
    width: Number


class LoadsDocument(TypedDict, total=False):
    """Loads to search between. An absent bound is searched for, outwards from `start`."""

    high: Number | None
    is_whole: bool
    low: Number | None
    start: Number


class SearchDocument(TypedDict, total=False):
    """A search for a capacity, or one of its steps."""

    goal: GoalDocument
    loads: LoadsDocument
    pause_ns: Whole
    quantile: str
    vary: str
    duration_s: Number
    load: Number
    of: str
    stage: str
    step: Whole


class Stop(TypedDict, total=False):
    """Limits that end an iteration."""

    duration_ns: Whole | None
    requests: Whole | None


class TargetDocument(TypedDict, total=False):
    """A target: its name, its driver, and the driver's settings."""

    driver: str
    facts: Object
    name: str
    settings: TargetSettings


class TrialDocument(TypedDict, total=False):
    """One phase of one case on one round's dataset."""

    agent: str
    allow_foreign: bool
    block: Whole
    case: CaseDocument
    connections: str | None
    cool_down_ns: Whole
    cores: Whole | None
    cpus: list[Whole]
    dataset: DatasetDocument | None
    format: Whole
    hosts: Whole | None
    id: str
    intervention: InterventionDocument
    iterations: Whole
    judged: HistoryDocument | None
    keeps_history: bool
    keeps_ledger: bool
    keys: KeyOrder | None
    kind: str
    load: LoadDocument
    log_requests: bool
    measured: bool
    mix: list[Share]
    numa_nodes: list[Whole]
    on_error: OnErrorDocument | None
    options: OptionsDocument
    owed: OwedDocument | None
    ownership: OwnershipDocument
    phase: str
    portion: PortionDocument | None
    rate_limit_per_s: Number | None
    round: Whole
    run: str
    script: ScriptDocument | None
    search: SearchDocument
    seed: Whole
    stop: Stop
    target: TargetDocument
    ticket_base: Whole
    timeout_ns: Whole | None
    verify: Number | None
    warm_up_ns: Whole
    queries: QueryDocument
