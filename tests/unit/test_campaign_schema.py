"""Keys and values of a campaign, their limits, and the published schema of the file."""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from loadstone import _loadgen
from loadstone.campaign.operations import OPERATIONS
from loadstone.campaign.planning.lifecycle import HISTORIC
from loadstone.campaign.reading.mistakes import KeyMistake, translate
from loadstone.campaign.schema.campaign import Campaign
from loadstone.campaign.schema.dataset import Dataset, read_size_law
from loadstone.campaign.schema.json_schema import json_schema, json_schema_text, known_keys
from loadstone.campaign.schema.load import Load
from loadstone.campaign.schema.phase import Phase
from loadstone.documents.mix import DELETES, WRITES_WHOLE
from loadstone.errors import InputError
from loadstone.published import LAYOUTS
from tests.unit.campaign_mistakes import is_reported, names

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"

WHOLE = {
    "name": "whole",
    "description": "Everything at once.",
    "seed": 7,
    "targets": {"s": {"driver": "s3", "endpoint": "http://s", "replication": 3}},
    "dataset": {
        "containers": 3,
        "objects": "10_000",
        "size": {"lognormal": {"median": "64K", "sigma": 1.5, "min": 1, "max": "1M"}},
        "compressible": "30%",
    },
    "load": {"rate": "600/min", "arrivals": "constant"},
    "on_error": {"action": "stop", "limit": 3},
    "rounds": 2,
    "round_pause": "1m30s",
    "phases": [
        "put",
        {"op": "get", "duration": "250ms", "verify": False, "keys": {"order": "zipf"}},
        {"mix": {"get": 2, "put": 1}, "requests": 10, "size": {"uniform": ["1K", "2K"]}},
        {"op": "delete", "load": {"threads": 2}, "rate_limit": "5/s", "pause_after": 0.5},
    ],
    "sweep": {"size": ["4K", {"weighted": [["1K", 1], ["1M", 2.5]]}]},
    "schedule": {"times": ["08:00"], "days": 3},
    "allow_foreign": ["s"],
}


def refused(model: type[Any], value: object) -> list[KeyMistake]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(value)
    return translate(caught.value, known_keys())


def allowed(model: type[Any], value: object) -> str:
    return "; ".join(
        f"{'.'.join(map(str, mistake.path))}: {mistake.actual} -> {mistake.allowed}"
        for mistake in refused(model, value)
    )


def test_a_campaign_written_down_reads_back_as_the_same() -> None:
    campaign = Campaign.model_validate(WHOLE)
    written = json.loads(json.dumps(campaign.document()))
    again = Campaign.model_validate(written)
    assert again == campaign
    assert again.document() == written


def test_a_campaign_cannot_be_changed() -> None:
    campaign = Campaign.model_validate(WHOLE)
    with pytest.raises(ValidationError):
        campaign.seed = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("law", "document", "mean_bytes", "largest_bytes"),
    [
        ("4KiB", {"kind": "fixed", "bytes": 4096}, 4096, 4096),
        (0, {"kind": "fixed", "bytes": 0}, 0, 0),
        ({"uniform": [0, "1K"]}, {"kind": "uniform", "min": 0, "max": 1024}, 512, 1024),
        (
            {"weighted": [["1K", 1], ["2K", 3]]},
            {"kind": "weighted", "choices": [[1024, 1.0], [2048, 3.0]]},
            1792,
            2048,
        ),
    ],
)
def test_sizes_follow_the_law_that_is_written(
    law: Any, document: dict[str, Any], mean_bytes: float, largest_bytes: int
) -> None:
    size = read_size_law(law)
    assert size.document() == document
    assert size.mean_bytes() == mean_bytes
    assert size.largest_bytes() == largest_bytes


def test_the_mean_of_a_wide_lognormal_law_is_that_of_the_formula() -> None:
    law = {"lognormal": {"median": 100_000, "sigma": 1.0, "min": 0, "max": "1T"}}
    # The mean of a log-normal variable is median * exp(sigma² / 2).
    assert read_size_law(law).mean_bytes() == pytest.approx(164_872, rel=0.005)


@pytest.mark.parametrize(
    "law",
    [
        "big",
        -1,
        [1, 2],
        {},
        {"uniform": [2, 1]},
        {"uniform": [1]},
        {"normal": [1, 2]},
        {"lognormal": {"median": 1, "sigma": 0, "min": 0, "max": 9}},
        {"lognormal": {"median": 10, "sigma": 1, "min": 0, "max": 9}},
        {"weighted": []},
        {"weighted": [[1, 0]]},
        {"weighted": [1, 2]},
        {"uniform": [1, 2], "weighted": [[1, 1]]},
    ],
)
def test_a_law_of_sizes_that_makes_no_sense_is_refused(law: Any) -> None:
    with pytest.raises(InputError, match=r"found .* allowed "):
        read_size_law(law)


def test_buckets_and_containers_are_one_key() -> None:
    assert Dataset.model_validate({"containers": 5}).buckets == 5
    (mistake,) = refused(Dataset, {"containers": 5, "buckets": 5})
    assert names(mistake.actual, "containers", "buckets")


def test_objects_may_be_counted_per_bucket() -> None:
    assert Dataset.model_validate({"buckets": 5, "objects_per_bucket": 50}).objects_total == 250
    (mistake,) = refused(Dataset, {"objects": 5, "objects_per_bucket": 5})
    assert names(mistake.actual, "objects", "objects_per_bucket")


def test_a_load_is_either_closed_or_open() -> None:
    assert Load.model_validate({"threads": 4}).document() == {"kind": "closed", "clients": 4}
    assert Load.model_validate({"rate": "600/min"}).document() == {
        "kind": "open",
        "rate_per_s": 10.0,
        "arrivals": "poisson",
        "clients_max": 1024,
    }
    (neither,) = refused(Load, {})
    assert neither.path == ()
    assert names(neither.allowed, "threads", "rate")
    (both,) = refused(Load, {"threads": 1, "rate": 1})
    assert names(both.actual, "threads", "rate")
    (beside,) = refused(Load, {"threads": 1, "clients_max": 5})
    assert beside.path == ("clients_max",)
    assert names(beside.actual, "threads")
    assert names(beside.allowed, "rate")


@pytest.mark.parametrize(
    ("phase", "facts"),
    [
        ({}, ("", "none", "op, mix", "script")),
        ({"op": "get", "mix": {"get": 1}}, ("", "op and mix ->", "script")),
        ({"op": "get", "name": "prepare"}, ("name", '"prepare" ->')),
        ({"op": "range_get"}, ("range", "nothing ->", "range_get")),
        ({"op": "multi_range_get", "range": 1}, ("range_count", "nothing ->")),
        ({"op": "multipart_put"}, ("part_size", "nothing ->")),
        ({"op": "read"}, ("range", "nothing ->")),
        ({"op": "put", "range": 1}, ("range", "put ->", "range_get")),
        ({"op": "get", "bulk_keys": 5}, ("bulk_keys", "get ->", "bulk_delete")),
        ({"op": "get", "delimiter": "/"}, ("delimiter", "get ->", "list")),
        ({"op": "delete", "warm_up": 1}, ("warm_up", "-> none", "delete")),
        (
            {"op": "delete", "keys": {"order": "uniform"}},
            ("keys.order", '"uniform" -> "sequential"'),
        ),
        ({"op": "bulk_delete", "iterations": 2}, ("iterations", "2 -> 1")),
        ({"mix": {}}, ("mix", "empty map ->", "{get: 45")),
        ({"mix": {"get": 1, "bulk_delete": 1}}, ("mix.bulk_delete", "bulk_delete -> bulk_delete")),
        ({"mix": {"put": 1, "delete": 2}}, ("mix.delete", " 2 ", " 1 ->", "put")),
        ({"op": "get", "keys": {"theta": 0.5}}, ("keys.theta", "0.5 ->", "order: zipf")),
        ({"op": "get", "rate_limit": 1, "load": {"rate": 1}}, ("rate_limit", "rate ->", "threads")),
        ({"op": "get", "duration": 0}, ("duration", "0 ->", "1ms")),
        ({"op": "get", "verify": "most"}, ("verify", '"most" ->', "0 to 1")),
        ({"op": "get", "log_requests": "yes"}, ("log_requests", '"yes" ->', "true", "false")),
    ],
)
def test_a_phase_whose_keys_do_not_fit_together_is_refused(
    phase: dict[str, Any], facts: tuple[str, ...]
) -> None:
    assert is_reported(refused(Phase, phase), *facts)


def test_two_phases_with_one_name_are_refused() -> None:
    (mistake,) = refused(Campaign, {**WHOLE, "phases": ["get", {"op": "get"}]})
    assert mistake.path == ("phases", 1)
    assert names(mistake.actual, '"get"')


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"name": "a b"}, ("name", '"a b" ->', "64")),
        ({"targets": {}}, ("targets", "empty map ->")),
        (
            {"targets": {"a b": {"driver": "s3"}}, "allow_foreign": []},
            ("targets.a b", '"a b" ->', "64"),
        ),
        ({"allow_foreign": ["x"]}, ("allow_foreign.0", '"x" ->', ": s")),
        ({"schedule": {"days": 3}}, ("schedule", "neither ->", "times", "every")),
        ({"schedule": {"times": ["8:00"]}}, ("schedule.times.0", '"8:00" ->', '"08:00"')),
        ({"workloads": [{"name": "a"}, {"name": "a"}]}, ("workloads.1.name", '"a" ->', "differ")),
        ({"report": {"labels": {"x": "X"}}}, ("report.labels.x", '"x" ->', "target", ": s")),
        ({"report": {"table": "cern", "labels": {"m5": "GP"}}}, ("report.labels.m5",)),
        ({"on_error": "retry"}, ("on_error", '"retry" ->', "continue, stop")),
        ({"sweep": {"size": []}}, ("sweep.size", "no values ->")),
    ],
)
def test_a_campaign_whose_keys_do_not_fit_together_is_refused(
    change: dict[str, Any], facts: tuple[str, ...]
) -> None:
    assert is_reported(refused(Campaign, {**WHOLE, **change}), *facts)


def test_labels_of_the_table_of_clients_may_name_their_kinds() -> None:
    report = {"table": "datasafe", "labels": {"m5": "GP", "c5n": "CO"}}
    campaign = Campaign.model_validate({**WHOLE, "report": report})
    assert campaign.report.labels == {"m5": "GP", "c5n": "CO"}


def test_the_reference_names_every_layout_that_a_report_can_have() -> None:
    lines = (REFERENCE / "campaign.md").read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith("| `table` |")]
    assert set(re.findall(r"`(\w+)`", row)) == {"table", *LAYOUTS}


def test_the_published_schema_is_the_one_of_this_code() -> None:
    path = REFERENCE / "campaign.schema.json"
    assert path.read_text(encoding="utf-8") == json_schema_text(), (
        f"renew it: python -m loadstone.campaign.schema.json_schema {path.relative_to(ROOT)}"
    )


def test_the_published_schema_accepts_a_campaign_and_refuses_a_wrong_key() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert not list(validator.iter_errors(WHOLE))
    assert list(validator.iter_errors({**WHOLE, "colour": "red"}))
    assert list(validator.iter_errors({**WHOLE, "phases": [{"op": "gett"}]}))


@pytest.mark.parametrize(
    ("target", "is_valid"),
    [
        ({"driver": "s3", "endpoint": "http://s", "secret_key": {"env": "S"}}, True),
        ({"driver": "s3", "endpoints": ["http://a", "http://b"], "addressing": "virtual"}, True),
        ({"driver": "file", "path": "/mnt/x", "direct": True, "replication": 3}, True),
        ({"driver": "s3", "endpoint": "http://s", "secret_key": "literal"}, False),
        ({"driver": "s3", "endpoint": "http://s", "addressing": "sideways"}, False),
        ({"driver": "file", "path": "/mnt/x", "direct": "yes"}, False),
        ({"driver": "file", "endpoint": "http://s"}, False),
        ({"driver": "ftp"}, False),
    ],
)
def test_the_published_schema_knows_the_settings_of_drivers(
    target: dict[str, Any], is_valid: bool
) -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    assert validator.is_valid({**WHOLE, "targets": {"s": target}}) == is_valid


def test_the_schema_has_a_name_of_its_own_and_refers_to_nothing_else() -> None:
    schema = json_schema()
    assert schema["$id"].startswith("urn:loadstone:")
    assert schema["$defs"]["Target"]["properties"]["driver"]["enum"] == _loadgen_drivers()


def _loadgen_drivers() -> list[str]:
    return [driver["name"] for driver in _loadgen.drivers()]


def test_every_key_is_on_the_reference_page() -> None:
    page = (REFERENCE / "campaign.md").read_text(encoding="utf-8")
    schema = json_schema()
    owners = {"campaign": schema, **schema["$defs"]}
    missing = [
        f"{owner}.{key}"
        for owner, node in owners.items()
        for key in node.get("properties", {})
        if f"`{key}`" not in page
    ]
    assert missing == []


def test_every_operation_is_on_the_reference_page() -> None:
    page = (REFERENCE / "campaign.md").read_text(encoding="utf-8")
    assert [name for name in OPERATIONS if f"`{name}`" not in page] == []


def test_the_reference_says_what_audits_judge() -> None:
    page = (REFERENCE / "campaign.md").read_text()
    table = page.partition("| operation | does | audited by |")[2].partition("\n\n")[0]
    documented = {
        name: set(filter(None, cells[3].strip().split(", ")))
        for line in table.splitlines()[2:]
        for cells in [line.split("|")]
        for name in re.findall(r"`(\w+)`", cells[1])
    }
    kinds = {"ledger": WRITES_WHOLE | DELETES, "history": HISTORIC}
    assert documented == {
        name: {kind for kind, names in kinds.items() if name in names} for name in OPERATIONS
    }


def test_options_that_operations_read_are_keys_of_a_phase() -> None:
    options = {option for operation in OPERATIONS.values() for option in operation.options}
    assert len(options) > 5
    # The key `contend` selects the contended keys.
    assert options <= {*Phase.model_fields, "contended_keys"}
    assert {name for row in _loadgen.drivers() for name in row["operations"]} <= set(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_that_cannot_repeat_or_be_mixed_are_refused(name: str) -> None:
    operation = OPERATIONS[name]
    needed = {"range": "4KiB", "range_count": 2, "part_size": "8MiB"}
    fields = Phase.model_fields
    makers = dict.fromkeys(operation.takes_from, 1)
    for repeated, is_allowed in (
        ({"op": name, "iterations": 2}, operation.repeats == "always"),
        ({"op": name, "warm_up": "1s"}, operation.repeats != "never"),
        ({"mix": {**makers, name: 1, "put": 1, "head": 1}}, operation.is_mixed),
    ):
        operations = repeated.get("mix", [name])
        read = {option for each in operations for option in OPERATIONS[each].options}
        options = {fields[option].alias or option for option in read if option in fields}
        options_needed = {key: value for key, value in needed.items() if key in options}
        with contextlib.nullcontext() if is_allowed else pytest.raises(ValidationError):
            Phase.model_validate({**options_needed, **repeated})
