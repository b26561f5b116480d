"""The documents of a run folder, typed: what a reader may rely on.

The types of trials and records are those of the published schemas, which are made from the load
generator's own; a test holds them together. Values may be absent, as runs of earlier builds lack
them, and null where another tool did not tell. A value of another kind was edited by hand.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from loadstone.documents.node import NodeDocument
from loadstone.documents.script import ScriptOrigin
from loadstone.documents.summary import Summary
from loadstone.documents.trial import Object, TrialDocument, Whole
from loadstone.errors import ResultError


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
    nodes: dict[str, NodeDocument]
    stores: dict[str, Object]
    calibration: Object | None
    ceilings: list[Object]
    ceilings_failed: Object
    problems: list[Any]
    failed: Object
    skipped: Object
    not_run: list[Any]
    files: dict[str, Object] | None
    scripts: dict[str, ScriptOrigin]
    limits: Object
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
        if mistakes[0]["type"] == "missing":
            raise ResultError(
                f'"{path}", "{".".join(map(str, place))}": lacks "{mistakes[0]["loc"][-1]}"',
                "the file was edited by hand; take the one that loadstone wrote",
            ) from error
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
