"""Campaigns on objects that others wrote: their keys and their plans."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from loadstone.campaign.operations import OPERATIONS
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.campaign.quick import campaign_from_flags
from loadstone.campaign.schema.dataset import Existing
from loadstone.documents.manifest import ObjectListDocument
from loadstone.documents.trial import TargetDocument
from loadstone.errors import CampaignError, InputError
from loadstone.execution.object_lists import ListMaker

CAMPAIGN = """\
name: theirs
targets:
  store: {driver: s3, endpoint: "http://store:9000"}
dataset:
  existing: {bucket: backups-, prefix: 2026/}
load: {threads: 4}
phases:
  - get
  - {op: head, requests: 10}
"""


def objects_of(target: TargetDocument, existing: Existing) -> ObjectListDocument:
    return {
        "target": target["name"], "bucket": existing.bucket, "prefix": existing.prefix,
        "source": None, "listed": "", "is_cut": False, "path": "lists/ab.parquet", "sha256": "ab",
        "objects": 500, "bytes": 5000, "size_bytes_min": 1, "size_bytes_max": 99,
        "without_size": 0, "with_etag": 500,
    }  # fmt: skip


def planned(text: str) -> Plan:
    return make_plan(parse_campaign(text), lists=objects_of)


def test_a_plan_reads_every_object_once_and_prepares_and_removes_nothing() -> None:
    plan = planned(CAMPAIGN)
    assert [(trial.phase, trial.document["stop"]["requests"]) for trial in plan.trials] == [
        ("get", 500),
        ("head", 10),
    ]
    dataset = plan.trials[0].document["dataset"]
    # The bucket is another's, and has the name that it has.
    assert (dataset["bucket_prefix"], dataset["object_prefix"]) == ("backups-", "2026/")
    assert dataset["existing"] == {"path": "lists/ab.parquet", "sha256": "ab"}
    assert dataset["size"] == {"kind": "listed", "min": 1, "max": 99, "mean": 10.0}
    assert plan.estimate().bytes_written == 0
    assert plan.estimate().bytes_read == 5000
    assert planned(CAMPAIGN.replace("- get", "- {op: get, duration: 1h}")).cards == ()


def test_two_workloads_may_read_one_bucket() -> None:
    text = CAMPAIGN.replace("name: theirs", "name: theirs\nrounds: 2").replace(
        "dataset:\n  existing: {bucket: backups-, prefix: 2026/}",
        "sweep:\n  dataset.existing.prefix: [2025/, 2026/]\n"
        "dataset:\n  existing: {bucket: backups-}",
    )
    plan = planned(text)
    places = {trial.document["dataset"]["bucket_prefix"] for trial in plan.trials}
    assert places == {"backups-"}
    assert len(plan.trials) == 8


@pytest.mark.parametrize(
    "operation", [name for name, operation in OPERATIONS.items() if not operation.reads_existing]
)
def test_operations_other_than_reads_are_refused_with_their_line(operation: str) -> None:
    needed = {"range_bytes": "range: 1KiB", "part_bytes": "part_size: 5MiB"}
    options = OPERATIONS[operation].options
    more = "".join(f", {key}" for option, key in needed.items() if option in options)
    text = CAMPAIGN.replace("  - get\n", f"  - {{op: {operation}, requests: 5{more}}}\n")
    with pytest.raises(CampaignError) as caught:
        planned(text)
    places = {(mistake.key, mistake.line) for mistake in caught.value.mistakes}
    assert ("phases.0.op", 8) in places


def test_a_mix_with_a_write_is_refused_at_the_write() -> None:
    text = CAMPAIGN.replace("  - get\n", "  - mix: {get: 9, put: 1}\n    duration: 5s\n")
    with pytest.raises(CampaignError) as caught:
        planned(text)
    [mistake] = caught.value.mistakes
    assert (mistake.key, mistake.line) == ("phases.0.mix.put", 8)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("2026/}", "2026/}\n  objects: 10", "dataset"),
        ("2026/}", "2026/}\n  size: 4KiB", "dataset"),
        ("load:", "keep_data: true\nload:", "keep_data"),
        ("load:", "fill: 1GiB\nload:", "fill"),
        ("load:", "card: true\nload:", "card"),
        ("- get", "- {op: get, size: 4KiB}", "phases.0.size"),
        ("driver: s3, endpoint: \"http://store:9000\"", "driver: block, path: /dev/x",
         "dataset.existing"),
    ],
)  # fmt: skip
def test_keys_of_written_objects_are_refused_with_existing_ones(
    old: str, new: str, key: str
) -> None:
    with pytest.raises(CampaignError) as caught:
        planned(CAMPAIGN.replace(old, new))
    assert key in {mistake.key for mistake in caught.value.mistakes}


@pytest.mark.parametrize(
    ("target", "flags", "driver", "existing"),
    [
        ("http://h:1/b/p/q/", {}, "s3", {"bucket": "b", "prefix": "p/q/"}),
        ("http://h:1/b", {}, "s3", {"bucket": "b"}),
        ("s3+http://h:1/b/p", {}, "s3", {"bucket": "b", "prefix": "p"}),
        ("s3://b/p", {}, "s3", {"bucket": "b", "prefix": "p"}),
        ("swift://c", {}, "swift", {"bucket": "c"}),
        ("swift+http://h:1/v3", {"prefix": "c", "object_prefix": "p"}, "swift",
         {"bucket": "c", "prefix": "p"}),
        ("/data/tree", {}, "file", {"bucket": "tree"}),
    ],
)  # fmt: skip
def test_one_word_names_store_bucket_and_prefix(
    target: str, flags: dict[str, Any], driver: str, existing: dict[str, str]
) -> None:
    environ = {
        "AWS_ENDPOINT_URL": "http://e:1", "OS_AUTH_URL": "http://e:1/v3", "OS_USERNAME": "u",
        "OS_PASSWORD": "x", "OS_PROJECT_NAME": "p",
    }  # fmt: skip
    campaign = campaign_from_flags("get", target, environ=environ, existing=True, **flags)
    assert [target.driver for target in campaign.targets.values()] == [driver]
    assert campaign.dataset is not None
    assert campaign.dataset.existing is not None
    assert campaign.dataset.existing.model_dump(exclude_unset=True) == existing


@pytest.mark.parametrize("flags", [{"size": "4KiB"}, {"buckets": 2}, {"keep_data": True}])
def test_flags_that_say_how_objects_are_written_are_refused(flags: dict[str, Any]) -> None:
    with pytest.raises(CampaignError):
        campaign_from_flags("get", "http://h:1/b", environ={}, existing=True, **flags)


def test_a_target_without_a_bucket_is_refused() -> None:
    with pytest.raises(CampaignError) as caught:
        campaign_from_flags("get", "http://h:1", environ={}, existing=True)
    assert caught.value.mistakes[0].key == "TARGET"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("huge.csv", f"key,size\na,{10**30}\n"),
        ("less.csv", "key,size\na,-1\n"),
        ("field.csv", 'key\n"' + "a" * 200_000 + '"\n'),
        ("long.txt", "a" * 200_000),
        ("none.txt", "\n\n"),
        ("zero.txt", "a\0b\n"),
        ("headless.csv", "a,1\n"),
        ("short.csv", "size,key\n5\n"),
        ("keyless.csv", "key,size\n,5\n"),
        ("line.csv", "key,size\na,5" + "," * 200_000 + "\n"),
    ],
    ids=lambda text: text[:16],
)
def test_a_list_of_a_stranger_is_refused_where_it_names_nothing(
    name: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    lists = ListMaker(tmp_path / "run", beside=tmp_path, watch=lambda where, count: None)
    target: TargetDocument = {"name": "store", "driver": "s3", "settings": {}}
    with pytest.raises(InputError):
        lists(target, Existing.model_validate({"bucket": "theirs", "list": name}))


def test_a_short_list_whose_keys_unpack_without_end_is_refused(tmp_path: Path) -> None:
    keys = pa.DictionaryArray.from_arrays(pa.array([0] * 5000, pa.int32()), ["k" * (64 << 20)])
    path = tmp_path / "bomb.parquet"
    pa.parquet.write_table(pa.table({"key": keys}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 100_000
    lists = ListMaker(tmp_path / "run", beside=tmp_path, watch=lambda where, count: None)
    target: TargetDocument = {"name": "store", "driver": "s3", "settings": {}}
    existing = Existing.model_validate({"bucket": "theirs", "list": path.name})
    with pytest.raises(InputError):
        lists(target, existing)


@pytest.mark.parametrize("name", ["list.txt", "list.csv", "list.parquet"])
def test_a_list_is_a_regular_file(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    lists = ListMaker(tmp_path / "run", beside=tmp_path, watch=lambda where, count: None)
    target: TargetDocument = {"name": "store", "driver": "s3", "settings": {}}
    with pytest.raises(InputError, match="regular"):
        lists(target, Existing.model_validate({"bucket": "theirs", "list": name}))
