"""What stands in a run folder is what the published schemas of its documents say."""

import datetime
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import jsonschema
import pytest
from pydantic import TypeAdapter

from loadstone.campaign.planning.plan import make_plan
from loadstone.campaign.reading.parse import parse_campaign
from loadstone.documents import summary
from loadstone.documents import trial as documents
from loadstone.execution import runner
from loadstone.results.store import RunWriter, read_run

# What only imports and queries have in their summaries.
OF_OTHERS = frozenset(
    {"stated_latency", "source", "query", "streams", "data", "filesystem", "paced_by"}
)

# The types of Python, the definitions of the schema that they are, and what others have beside.
TYPES: Mapping[type, tuple[str, frozenset[str]]] = {
    documents.CaseDocument: ("Case", frozenset()),
    documents.TargetDocument: ("Target", frozenset()),
    documents.Size: ("SizeLaw", frozenset()),
    documents.DatasetDocument: ("DatasetSpec", frozenset()),
    documents.Share: ("Share", frozenset()),
    documents.LoadDocument: ("Load", frozenset()),
    documents.Stop: ("Stop", frozenset()),
    documents.TrialDocument: ("Trial", frozenset({"queries"})),
    documents.Origin: ("Origin", frozenset()),
    documents.OptionsDocument: ("Options", frozenset()),
    documents.KeyOrder: ("Keys", frozenset()),
    documents.OnErrorDocument: ("OnError", frozenset()),
    documents.OwnershipDocument: ("Ownership", frozenset()),
    documents.PortionDocument: ("Portion", frozenset()),
    documents.ScriptFileDocument: ("ScriptFile", frozenset()),
    documents.ScriptDocument: ("ScriptSpec", frozenset()),
    documents.GoalDocument: ("Goal", frozenset()),
    documents.LoadsDocument: ("Loads", frozenset()),
    documents.SearchDocument: ("Search", frozenset()),
    documents.InterventionDocument: ("Intervention", frozenset()),
    summary.ClockDocument: ("ClockFacts", frozenset()),
    summary.LeftPlace: ("Left", frozenset()),
    summary.LoadHost: ("LoadHost", frozenset()),
    summary.Iteration: ("IterationTimes", frozenset()),
    summary.EdgeWork: ("EdgeWork", frozenset()),
    summary.Stalls: ("Stalls", frozenset()),
    summary.Summary: ("Observed", OF_OTHERS),
}

# A trial that is of no search lacks the key: null is read and never written.
ABSENT_NOT_NULL = {"search", "intervention"}

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"

CAMPAIGN = """
name: schema
targets: {nothing: {driver: "null"}}
dataset: {objects: 100, size: {uniform: [1KiB, 4KiB]}, buckets: 2}
load: {threads: 2}
phases:
  - {op: put, requests: 100}
  - {mix: {get: 90, put: 10}, name: both, load: {rate: 2000}, duration: 1s, log_requests: true}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the null driver."""
    plan = make_plan(parse_campaign(CAMPAIGN, environ={}))
    path = tmp_path_factory.mktemp("schemas") / "run"
    started = datetime.datetime.now(datetime.UTC).isoformat()
    manifest = {
        "name": plan.name,
        "run": plan.run,
        "seed": plan.seed,
        "plan": plan.documents(),
        "started": started,
    }
    end = runner.execute(plan, RunWriter.create(path, manifest), lambda event: None)
    assert (end.state, end.problems) == ("finished", [])
    return path


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((REFERENCE / name).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def keys_beside(schema: dict[str, Any], document: dict[str, Any]) -> set[str]:
    return set(document) - set(schema["properties"])


def test_documents_of_a_plan_are_of_the_schema(folder: Path) -> None:
    """Every key that the planner writes is in the schema too."""
    check = validator("trial.schema.json")
    plan = json.loads((folder / "manifest.json").read_text())["plan"]
    assert plan
    for document in plan:
        check.validate(document)
        assert not keys_beside(check.schema, document)


def test_records_are_of_the_schema(folder: Path) -> None:
    """So is every key of a record and of its summary."""
    check = validator("record.schema.json")
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("trials/*.json"))]
    assert len(records) == 2
    for record in records:
        check.validate(record)
        assert not keys_beside(check.schema, record)
        assert not keys_beside(check.schema["$defs"]["Observed"], record["summary"])


def test_a_schema_refuses_what_is_not_of_its_types(folder: Path) -> None:
    """It is no schema that accepts anything."""
    document = read_run(folder).records[0].trial
    for change in ({"kind": "queries"}, {"mix": "get"}, {"seed": -1}, {"load": {"kind": "half"}}):
        with pytest.raises(jsonschema.ValidationError):
            validator("trial.schema.json").validate({**document, **change})


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_types_of_python_are_those_of_the_schema(kind: type) -> None:
    """Each has every key of the schema and no other, and takes every JSON type that it names."""
    name, of_imports = TYPES[kind]
    schema = json.loads((REFERENCE / "record.schema.json").read_text(encoding="utf-8"))
    published = properties(schema, schema["$defs"][name])
    assert set(get_type_hints(kind)) == set(published) | of_imports
    mine = TypeAdapter(kind).json_schema()
    own = mine["properties"] if "properties" in mine else mine["$defs"][kind.__name__]["properties"]
    for key, value in published.items():
        if key in ABSENT_NOT_NULL:
            value = {**value, "anyOf": [one for one in value["anyOf"] if one != {"type": "null"}]}
        wanted, taken = set(types(schema, value)), set(types(mine, own[key]))
        # A whole number is a number, and where anything is an object this one is.
        taken |= {"integer"} if "number" in taken else set()
        assert wanted <= taken, f"{name}.{key}"


def properties(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of an object, over all its variants."""
    found = dict(part.get("properties", {}))
    for variant in (*part.get("oneOf", ()), *part.get("anyOf", ()), *part.get("allOf", ())):
        found |= properties(schema, variant)
    if "$ref" in part:
        found |= properties(schema, schema["$defs"][part["$ref"].rpartition("/")[2]])
    return found


def types(schema: dict[str, Any], part: dict[str, Any]) -> Iterator[str]:
    """Yield the JSON types that a value may be of."""
    told = part.get("type", [])
    yield from [told] if isinstance(told, str) else told
    for variant in (*part.get("oneOf", ()), *part.get("anyOf", ()), *part.get("allOf", ())):
        yield from types(schema, variant)
    if "$ref" in part:
        yield from types(schema, schema["$defs"][part["$ref"].rpartition("/")[2]])
