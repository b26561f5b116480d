"""Trial documents, typed: what planning writes and an executor carries out.

The types are those of `crates/loadgen/src/trial.rs`; a test holds them to the published
schema. Any key may be absent: documents of earlier builds lack some, and trials of other kinds
have none of those that say what operations do.
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

LARGEST = 2**63 - 1

Whole = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Object = dict[str, Any]


class Parameters(TypedDict, total=False):
    """A value for each parameter of a case; those that every reader knows are named."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    threads: Whole
    size: Number | str | None


class CaseDocument(TypedDict, total=False):
    """One cell of a campaign's matrix."""

    target: str
    workload: str
    parameters: Parameters


class TargetSettings(TypedDict, total=False):
    """Settings of a target, secrets as references; those that are read in Python are named."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    path: str | None
    endpoints: list[str] | str | None
    region: str | None
    access_key: str | dict[str, str] | None
    secret_key: str | dict[str, str] | None
    session_token: str | dict[str, str] | None
    profile: str | None
    pool: str | None
    delete_versions: bool | None


class TargetDocument(TypedDict, total=False):
    """A target: its name, its driver, and that driver's settings."""

    name: str
    driver: str
    settings: TargetSettings
    """By the names that the driver knows; `loadstone list drivers NAME` prints them."""
    facts: Object


class Size(TypedDict, total=False):
    """The law of object sizes."""

    kind: str
    bytes: Whole
    min: Whole
    max: Whole
    median: Number
    sigma: Number
    choices: list[Any]


class Origin(TypedDict, total=False):
    """The run that wrote a dataset, where another one uses it."""

    run: str
    seed: Whole


class DatasetDocument(TypedDict, total=False):
    """The objects that a trial works on."""

    bucket_prefix: str
    buckets: Whole
    objects: Whole | None
    object_prefix: str
    size: Size
    compressible: Number
    duplicate: Number
    encryption: str | None
    path_encryption: str | None
    version: Whole
    written_by: Origin | None


class Share(TypedDict, total=False):
    """One operation of a mix."""

    operation: str
    weight: Number


class LoadDocument(TypedDict, total=False):
    """How requests arrive."""

    kind: str
    clients: Whole
    rate_per_s: Number | None
    arrivals: str
    clients_max: Whole | None


class Stop(TypedDict, total=False):
    """When an iteration ends."""

    requests: Whole | None
    duration_ns: Whole | None


class OptionsDocument(TypedDict, total=False):
    """What operations on pieces and lists of objects read."""

    range_bytes: Whole | None
    range_count: Whole
    part_bytes: Whole | None
    part_concurrency: Whole
    page_keys: Whole
    prefix: str | None
    delimiter: str | None
    bulk_keys: Whole


class KeyOrder(TypedDict, total=False):
    """In which order objects are taken."""

    order: str
    theta: Number | None


class OnErrorDocument(TypedDict, total=False):
    """What failed requests do to a trial."""

    action: str
    limit: Whole | None


class OwnershipDocument(TypedDict, total=False):
    """Whose places a trial may use, and which objects in them are its run's."""

    adopt: list[str]
    runs: list[str]
    written: list[list[Whole]]
    unwritten: list[list[Whole]]
    volumes: list[str]


class PortionDocument(TypedDict, total=False):
    """Which of a trial's requests are one host's."""

    index: Whole
    of: Whole


class ScriptFileDocument(TypedDict, total=False):
    """One file of a script."""

    path: str
    sha256: str


class ScriptDocument(TypedDict, total=False):
    """The script that a trial follows."""

    subjects: ScriptFileDocument
    requests: ScriptFileDocument | None
    speed: Number | None
    actions: Whole
    sessions: Whole


class GoalDocument(TypedDict, total=False):
    """The objective of a search; `campaign/search.py` says what each value means."""

    latency_ns_max: Whole
    quantile: Number
    errors_max: Number
    achieved_min: Number
    width: Number
    trial_s: Number
    coarse_trial_s: Number
    duration_sum_s: Number
    exceed: Number
    confirm_trials: Whole
    confirm_good_min: Whole
    trials_max: Whole
    time_max_s: Number


class LoadsDocument(TypedDict, total=False):
    """The loads that a search goes between."""

    start: Number
    low: Number | None
    high: Number | None
    is_whole: bool


class SearchDocument(TypedDict, total=False):
    """A search, down to `loads`; or from `of` on, one of its steps."""

    vary: str
    quantile: str
    pause_ns: Whole
    goal: GoalDocument
    loads: LoadsDocument
    of: str
    step: Whole
    stage: str
    load: Number
    duration_s: Number


class InterventionDocument(TypedDict, total=False):
    """What a trial has halved, and the parameters of the case that it is compared with."""

    kind: str
    of: Parameters


class QueryDocument(TypedDict, total=False):
    """What only trials of kind `queries` have: the tables, and one run of one query.

    Or, as `streams`, the names of the queries of each stream in their order.
    """

    benchmark: str
    scale: Number
    storage: str
    partitions: Whole
    place: str
    is_directory: bool
    data: str | None
    query: str | None
    streams: list[list[str]] | None
    engine: str | None
    settings: Object
    cache: str | None
    threads: Whole | None
    memory_bytes: Whole | None
    answers: str | None
    answer_files: str | None


class TrialDocument(TypedDict, total=False):
    """A trial document. From `mix` on, its keys are of trials of kind `operations` alone."""

    format: Whole
    kind: str
    id: str
    run: str
    seed: Whole
    phase: str
    round: Whole
    block: Whole
    measured: bool
    case: CaseDocument
    search: SearchDocument
    intervention: InterventionDocument
    agent: str
    target: TargetDocument
    stop: Stop
    warm_up_ns: Whole
    cool_down_ns: Whole
    iterations: Whole
    timeout_ns: Whole | None
    on_error: OnErrorDocument | None
    cores: Whole | None
    log_requests: bool
    mix: list[Share]
    script: ScriptDocument | None
    dataset: DatasetDocument | None
    options: OptionsDocument
    load: LoadDocument
    rate_limit_per_s: Number | None
    keys: KeyOrder | None
    connections: str | None
    verify: Number | None
    allow_foreign: bool
    ownership: OwnershipDocument
    ticket_base: Whole
    hosts: Whole | None
    portion: PortionDocument | None
    queries: QueryDocument
