"""The types of Python for what the load generator reads and writes, made from its own.

Run it (`python -m tests.docs.document_types`) to write `documents/trial.py` and `summary.py` anew
after `docs/reference/record.schema.json` has changed, which Rust's types make.
"""

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "docs" / "reference" / "record.schema.json"
DOCUMENTS = ROOT / "python" / "loadstone" / "documents"

HEAD = '''\
"""{}, as the types of the load generator have them.

Made from docs/reference/record.schema.json by `python -m tests.docs.document_types`: change the
types in Rust. Any key may be absent, as documents of earlier builds lack some. Where Rust knows all
words of a key it is a text here: a later build knows more.
"""

from typing_extensions import TypedDict

from loadstone.documents.python_types import {}
'''

NAMES = {
    "AuditSummary": "AuditSummary",
    "Call": "AuditCall",
    "ClockFacts": "ClockDocument",
    "DatasetSpec": "DatasetDocument",
    "Digest": "FileDigest",
    "EdgeWork": "EdgeWork",
    "Finding": "AuditFinding",
    "HostState": "HostState",
    "IterationTimes": "Iteration",
    "Keys": "KeyOrder",
    "HistoryFile": "HistoryFile",
    "HistorySpec": "HistoryDocument",
    "HistorySummary": "HistorySummary",
    "LedgerSpec": "LedgerDocument",
    "Left": "LeftPlace",
    "LoadHost": "LoadHost",
    "Observed": "Summary",
    "Origin": "Origin",
    "OwedSpec": "OwedDocument",
    "Residue": "Residue",
    "ScriptSpec": "ScriptDocument",
    "Share": "Share",
    "Spread": "Spread",
    "SizeLaw": "Size",
    "Stalls": "Stalls",
    "Stop": "Stop",
}
"""Python names of types that do not consist of the Rust name and "Document"."""

PYTHON_TYPES = (
    *("Live", "Number", "Object", "Parameters", "QueryDocument", "QuerySummary", "StatedLatency"),
    *("StreamsSummary", "TablesSummary", "TargetSettings", "Whole"),
)

KINDS = {
    "Case.parameters": "Parameters",
    "Intervention.of": "Parameters",
    "Target.settings": "TargetSettings",
    "Trial.queries": "QueryDocument",
    "Observed.data": "TablesSummary",
    "Observed.error_examples": "Object | None",
    "Observed.features": "Object | None",
    "Observed.filesystem": "str | None",
    "Observed.paced_by": "str | None",
    "Observed.query": "QuerySummary",
    "Observed.source": "Object | None",
    "Observed.stated_latency": "dict[str, StatedLatency] | None",
    "Observed.streams": "StreamsSummary",
}
"""Keys whose types Python knows more of than Rust: a campaign's names, a driver's, and what only
queries, imports and earlier builds have."""

NULLABLE = frozenset(
    place
    for name, keys in {
        "DatasetSpec": ("objects",),
        "IterationTimes": ("in_flight_ns",),
        "Load": ("clients_max", "rate_per_s"),
        "Observed": (
            *("buckets_absent", "buckets_deleted", "buckets_left", "cores_watched"),
            *("ended_unix_ns", "iterations", "places_left"),
            *("stalls", "state", "thread_run_delay_ns"),
        ),
        "Trial": ("connections", "dataset", "keys", "on_error", "timeout_ns", "verify"),
    }.items()
    for place in (f"{name}.{key}" for key in keys)
)
"""Keys that are null where another tool did not tell: in records of imports."""

NEVER_NULL = frozenset({"Trial.search", "Trial.intervention"})
"""Keys that Rust reads as null, and that are never written so."""


def modules() -> dict[Path, str]:
    """Return the modules that are made."""
    definitions: Mapping[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]
    of_trial = list(dict.fromkeys(_with_parts("Trial", definitions)))
    of_record = [*_with_parts("Observed", definitions), *_with_parts("Digest", definitions)]
    of_summary = [name for name in dict.fromkeys(of_record) if name not in of_trial]
    return {
        DOCUMENTS / "trial.py": _module("Trial documents", of_trial, definitions),
        DOCUMENTS / "summary.py": _module("What is observed of a trial", of_summary, definitions),
    }


def _module(title: str, names: Sequence[str], definitions: Mapping[str, Any]) -> str:
    classes = [
        _class(name, definitions[name], definitions)
        for name in names
        if _properties(definitions[name], definitions) or name in NAMES
    ]
    text = "\n\n".join(classes)
    used = sorted(name for name in PYTHON_TYPES if re.search(rf"\b{name}\b", text))
    text = HEAD.format(title, ", ".join(used)) + "\n\n" + text
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def _with_parts(name: str, definitions: Mapping[str, Any]) -> Iterator[str]:
    """Yield a type after those that it is made of."""
    for part in _references(definitions[name]):
        yield from _with_parts(part, definitions)
    yield name


def _references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]
        for inner in part.values():
            yield from _references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _references(inner)


def _properties(part: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of an object over all its variants: a reader meets any of them."""
    keys = dict(part.get("properties", {}))
    for variant in (*part.get("oneOf", ()), *part.get("anyOf", ()), *part.get("allOf", ())):
        keys |= _properties(variant, definitions)
    if "$ref" in part:
        keys |= _properties(definitions[part["$ref"].rpartition("/")[2]], definitions)
    return keys


def _class(name: str, definition: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    words = " ".join(definition.get("description", "").split("\n\n")[0].split())
    text = textwrap.fill(f'"""{words}', 97, initial_indent="    ", subsequent_indent="    ")
    text += '\n    """\n' if "\n" in text else '"""\n'
    lines = [f"class {_name(name)}(TypedDict, total=False):", text]
    keys = dict(_properties(definition, definitions))
    keys |= {
        key: None for owner, _, key in (place.partition(".") for place in KINDS) if owner == name
    }
    for key, value in keys.items():
        place = f"{name}.{key}"
        kinds = (
            [KINDS[place]] if place in KINDS else list(dict.fromkeys(_kinds(value, definitions)))
        )
        if place in NULLABLE and "None" not in kinds:
            kinds.append("None")
        if place in NEVER_NULL:
            kinds.remove("None")
        lines.append(f"    {key}: {' | '.join(sorted(kinds, key=lambda kind: kind == 'None'))}")
    return "\n".join(lines) + "\n"


def _name(name: str) -> str:
    return NAMES.get(name, f"{name}Document")


def _kinds(value: Any, definitions: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types of Python that a value may be of."""
    if not isinstance(value, dict):
        yield "Any"
        return
    for variant in (*value.get("oneOf", ()), *value.get("anyOf", ()), *value.get("allOf", ())):
        yield from _kinds(variant, definitions)
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        if _properties(definitions[name], definitions):
            yield _name(name)
        else:
            yield from _kinds(definitions[name], definitions)
    types = value.get("type", ())
    for kind in [types] if isinstance(types, str) else types:
        match kind:
            case "array" if "prefixItems" in value:
                items = dict.fromkeys(
                    inner for item in value["prefixItems"] for inner in _kinds(item, definitions)
                )
                yield f"list[{' | '.join(items)}]"
            case "array":
                yield f"list[{' | '.join(dict.fromkeys(_kinds(value['items'], definitions)))}]"
            case "object" if isinstance(value.get("additionalProperties"), dict):
                inner = dict.fromkeys(_kinds(value["additionalProperties"], definitions))
                yield f"dict[str, {' | '.join(inner)}]"
            case _:
                yield {
                    "integer": "Whole", "number": "Number", "string": "str", "boolean": "bool",
                    "object": "Object", "null": "None",
                }[kind]  # fmt: skip


if __name__ == "__main__":
    for path, text in modules().items():
        path.write_text(text, encoding="utf-8")
