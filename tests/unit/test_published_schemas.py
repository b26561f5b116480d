"""The files of a run folder fit the published schemas of its documents."""

import datetime
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.execution import runner
from loadstone.results.store import RunWriter, read_run
from tests.docs import report_schema
from tests.docs.document_types import modules

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
    """Every key of a record and of its summary is documented."""
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


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.name)
def test_the_types_of_python_are_those_of_the_schema(path: Path) -> None:
    made = modules()[path]
    assert path.read_text(encoding="utf-8") == made, "make reference renews it"


def test_the_schema_of_the_report_is_that_of_its_types() -> None:
    """`make reference` writes it anew."""
    assert report_schema.SCHEMA.read_text(encoding="utf-8") == report_schema.schema()
