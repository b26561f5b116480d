"""Types of the documents in a run folder.

The types of trials and records are those of the published schemas, which are generated from the
load generator's types; a test compares them. Values may be missing in runs of earlier builds, and
null if another tool did not state them. A value of a wrong type means that the file was edited.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from typing_extensions import TypedDict

from loadstone.documents.ceiling import CeilingDocument, CeilingMeasurement, LeftBehind
from loadstone.documents.manifest import Manifest
from loadstone.documents.mistake import adapter_of
from loadstone.documents.python_types import Object, Whole
from loadstone.documents.summary import FileDigest, Summary
from loadstone.documents.target_state import TargetState
from loadstone.documents.trial import TrialDocument
from loadstone.errors import ResultError


class RecordDocument(TypedDict, total=False):
    """The record of one trial."""

    record_format: Whole
    trial: TrialDocument
    summary: Summary
    labels: list[str]
    absent_probes: Object
    target_state: dict[str, TargetState] | None
    files: dict[str, FileDigest] | None


class CeilingRecordDocument(TypedDict, total=False):
    """The record of one ceiling."""

    ceiling_format: Whole
    ceiling: CeilingDocument
    started_unix_ns: Whole
    ended_unix_ns: Whole
    measurements: list[CeilingMeasurement]
    left_behind: list[LeftBehind] | None


Document = TypeVar("Document")


def check_manifest(path: Path, document: Mapping[str, Any]) -> Manifest:
    """Return a typed manifest; raise ResultError on a value of another type."""
    return _checked(path, document, Manifest)


def check_record(path: Path, document: Mapping[str, Any]) -> RecordDocument:
    """Return the typed record of a trial; raise ResultError on a value of another type."""
    record = _checked(path, document, RecordDocument)
    audit = record.get("summary", {}).get("audit") or {}
    for finding in audit.get("findings", ()):
        check_keys(path, "finding", finding, FINDING)
        for call in finding["calls"]:
            check_keys(path, "call", call, CALL)
    return record


def check_ceiling(path: Path, document: Mapping[str, Any]) -> CeilingRecordDocument:
    """Return the typed record of a ceiling; raise ResultError on a value of another type."""
    return _checked(path, document, CeilingRecordDocument)


JUDGED = (
    *("phase", "block", "round", "measured"),
    *("case.target", "case.workload", "case.parameters", "target.name", "target.driver"),
)
"""Keys of a trial that are required to judge a run."""
FINDING = ("kind", "bucket", "key", "calls")
CALL = ("from_unix_ns", "to_unix_ns", "operation", "outcome")
"""Required keys of an audit's finding, and of a call that proves it."""


def check_judged(path: Path, trial: TrialDocument) -> None:
    """Refuse a trial without the keys that judging requires."""
    check_keys(path, f'trial "{trial.get("id")}"', trial, JUDGED)


def check_keys(path: Path, what: str, document: Mapping[str, Any], ways: Iterable[str]) -> None:
    """Refuse a part of a file that lacks a key; nested keys are joined with dots."""
    for way in ways:
        inner: Any = document
        for step in way.split("."):
            if not isinstance(inner, Mapping) or step not in inner:
                raise ResultError(
                    f'"{path}": {what} lacks "{way}"',
                    "the file was edited by hand; take the one that loadstone wrote",
                )
            inner = inner[step]


def _checked(path: Path, document: Mapping[str, Any], kind: type[Document]) -> Document:
    """Validate a document and return it unchanged, including keys unknown to this build."""
    try:
        adapter_of(kind).validate_python(document, strict=True)
    except ValidationError as error:
        raise ResultError(
            f'"{path}", {_describe(document, error)}',
            "the file was edited by hand; take the one that loadstone wrote",
        ) from error
    return cast(Document, document)


def _describe(document: Mapping[str, Any], error: ValidationError) -> str:
    """Describe the first mistake in a document: its place, and the expected value."""
    mistakes = error.errors(include_url=False, include_context=False)
    place = _place(document, mistakes[0]["loc"])
    if mistakes[0]["type"] == "missing":
        return f'"{_dotted(place)}": lacks "{mistakes[0]["loc"][-1]}"'
    same = [mistake for mistake in mistakes if _place(document, mistake["loc"]) == place]
    expected = " or ".join(
        dict.fromkeys(_WORDS.get(mistake["type"], mistake["msg"]) for mistake in same)
    )
    shown = repr(same[0]["input"])
    shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
    return f'"{_dotted(place)}": found {shown}, expected {expected}'


def _dotted(way: tuple[int | str, ...]) -> str:
    return ".".join(map(str, way))


def _place(document: Any, way: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return the path of a value, without pydantic's names of union members."""
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
