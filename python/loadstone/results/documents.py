"""The documents of a run folder, typed: what a reader may rely on.

The types of trials and records are those of the published schemas, which are made from the load
generator's own; a test holds them together. Values may be absent, as runs of earlier builds lack
them, and null where another tool did not tell. A value of another kind was edited by hand.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from loadstone.errors import ResultError

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


class TargetDocument(TypedDict, total=False):
    """A target: its name, its driver, and that driver's settings."""

    name: str
    driver: str
    settings: Object
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
    version: Whole
    written_by: Object | None


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
    search: Object
    intervention: Object
    agent: str
    target: TargetDocument
    stop: Stop
    warm_up_ns: Whole
    cool_down_ns: Whole
    iterations: Whole
    timeout_ns: Whole | None
    on_error: Object | None
    cores: Whole | None
    log_requests: bool
    mix: list[Share]
    script: Object | None
    dataset: DatasetDocument | None
    options: Object
    load: LoadDocument
    rate_limit_per_s: Number | None
    keys: Object | None
    connections: str | None
    verify: Number | None
    allow_foreign: bool
    ownership: Object
    ticket_base: Whole
    hosts: Whole | None
    portion: Object | None
    queries: Object


class Iteration(TypedDict, total=False):
    """When one iteration began, was measured and ended."""

    iteration: Whole
    start_ns: Whole
    measure_start_ns: Whole
    measure_end_ns: Whole
    end_ns: Whole
    first_done_ns: Whole | None
    in_flight_ns: Whole | None


class Stalls(TypedDict, total=False):
    """The seconds in which a core, or the whole client, stood still, and for how long."""

    core: Whole | None
    seconds: list[list[Whole]]


class Summary(TypedDict, total=False):
    """What was observed of a whole trial. The keys of an import follow those of a load."""

    state: str | None
    reason: str | None
    started_unix_ns: Whole
    started_monotonic_ns: Whole
    ended_unix_ns: Whole | None
    iterations: list[Iteration] | None
    requests: Whole
    failed: Whole
    unwritten: Whole
    bytes: Whole
    verified_requests: Whole
    verified_bytes: Whole
    mismatches: Object
    connections_opened: Whole
    bytes_sent: Whole
    bytes_received: Whole
    requests_repeated: Whole
    log_ins: Whole
    log_ins_ns: Whole
    cores: Whole
    clients: Whole
    thread_cpu_ns: list[Whole]
    thread_awake_ns: list[Whole]
    thread_run_delay_ns: list[Whole | None] | None
    hiccup: str | None
    stalls: list[Stalls] | None
    cores_watched: Whole | None
    clock: Object
    features: Object | None
    clients_requests_min: Whole
    clients_requests_max: Whole
    error_examples: Object | None
    objects_unwritten: list[list[Whole]]
    puts_failed_more: Whole
    buckets_created: list[str]
    buckets_foreign: list[str]
    buckets_deleted: list[str] | None
    buckets_absent: list[str] | None
    buckets_left: list[str] | None
    places_left: list[Object] | None
    objects_swept: Whole
    target_on_own_host: bool | None
    hosts: list[Object] | None
    start_error_ns: Whole | None
    stated_latency: Object | None
    source: Object | None
    query: Object
    data: Object
    filesystem: str | None


class RecordDocument(TypedDict, total=False):
    """What one trial left behind."""

    record_format: Whole
    trial: TrialDocument
    summary: Summary
    labels: list[str]
    absent_probes: Object
    target_state: Object | None
    files: dict[str, Object] | None


class CampaignDocument(TypedDict, total=False):
    """The campaign as it was resolved."""

    targets: Object
    report: Object | None
    statements: Object | None


class Host(TypedDict, total=False):
    """The client."""

    cpu: Object | None
    memory_bytes: Whole | None
    network: Object | None
    nics: list[Any]
    disks: Object | None
    sysctl: Object | None


Imported = TypedDict("Imported", {"from": str, "by": str}, total=False)
"""Which tool's file a run was imported from."""


class Manifest(TypedDict, total=False):
    """What was planned, on which host, and how the run stands."""

    format: Whole
    name: str
    state: str
    run: str
    seed: Whole
    plan: list[TrialDocument]
    campaign: CampaignDocument | None
    campaign_file: str | None
    started: str | None
    ended: str | None
    versions: Object | None
    host: Host | None
    nodes: dict[str, Object]
    calibration: Object | None
    ceilings: list[Object]
    ceilings_failed: Object
    problems: list[Any]
    failed: Object
    skipped: Object
    not_run: list[Any]
    files: dict[str, Object] | None
    searches: Object
    resumed: list[Any]
    cleaned: list[Any]
    deleted_by: list[str]
    starts: Whole
    starts_left: Whole
    failed_requests: Whole
    loadstone: str | None
    imported: Imported | None


def check_manifest(path: Path, document: Mapping[str, Any]) -> None:
    """Refuse a manifest whose values are of other kinds than those it was written with."""
    _check(path, document, Manifest)


def check_record(path: Path, document: Mapping[str, Any]) -> None:
    """Refuse a trial's record likewise."""
    _check(path, document, RecordDocument)


JUDGED = ("phase", "block", "measured", "case.target", "case.workload", "target.name")
"""What a trial says of itself in any run that can be judged."""


def check_judged(path: Path, trial: Mapping[str, Any]) -> None:
    """Refuse a trial that does not say what it takes to judge its run."""
    for way in JUDGED:
        inner: Any = trial
        for step in way.split("."):
            if not isinstance(inner, Mapping) or step not in inner:
                raise ResultError(
                    f'"{path}": trial "{trial.get("id")}" lacks "{way}"',
                    "the file was edited by hand; take the one that loadstone wrote",
                )
            inner = inner[step]


def _check(path: Path, document: Mapping[str, Any], kind: type) -> None:
    try:
        _adapter(kind).validate_python(document, strict=True)
    except ValidationError as error:
        mistakes = error.errors(include_url=False, include_context=False)
        place = _place(document, mistakes[0]["loc"])
        same = [one for one in mistakes if _place(document, one["loc"]) == place]
        expected = " or ".join(dict.fromkeys(_WORDS.get(one["type"], one["msg"]) for one in same))
        shown = repr(same[0]["input"])
        shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
        raise ResultError(
            f'"{path}", "{".".join(map(str, place))}": found {shown}, expected {expected}',
            "the file was edited by hand; take the one that loadstone wrote",
        ) from error


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _place(document: Any, way: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return the way to a value without what is no step of it: which of several kinds failed."""
    steps = []
    for step in way:
        is_list = isinstance(document, list) and isinstance(step, int)
        if not is_list and not (isinstance(document, Mapping) and step in document):
            break
        steps.append(step)
        document = document[step]
    return tuple(steps)


_WORDS: Mapping[str, str] = {
    "int_type": "a whole number", "float_type": "a number", "string_type": "text",
    "bool_type": "true or false", "dict_type": "an object", "list_type": "a list",
    "less_than_equal": "a number that can be", "greater_than_equal": "a number that can be",
}  # fmt: skip
