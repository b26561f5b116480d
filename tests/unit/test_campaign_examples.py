"""The example campaigns: each parses, plans, suits the published schema, and can be made small."""

import json
import tempfile
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from loadstone.campaign.parse import read_campaign
from loadstone.campaign.planning.kinds import OPERATIONS, kind_of
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.campaign.schema.json_schema import json_schema
from loadstone.script.planned import ScriptMaker
from tests.unit.campaign_drivers import DRIVERS

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
ENVIRON = {
    "AWS_ENDPOINT_URL": "http://store",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
}
SMALLER = {
    "capacity": ["dataset.objects=20", "phases.get.capacity.coarse_trial=1s"],
    "contention": ["phases.contended.duration=1s", "phases.alone.duration=1s"],
    "hummingbird-4k": ["dataset.objects=20", "dataset.containers=2", "round_pause=0"],
    "hummingbird-1m": ["dataset.objects=20", "phases.put.pause_after=0"],
    "cern-upload": ["sweep.threads=[1, 8]", "phases.put.duration=1s", "sweep.size=[4kB]"],
    "cern-download": ["sweep.threads=[1, 8]", "phases.get.duration=1s"],
    "mixed": ["phases.mix.duration=1s", "dataset.objects=20", "blocks=1"],
    "open-loop": ["phases.get.duration=1s", "sweep.rate=[10/s]", "blocks=1"],
    "skyhook-rados": ["dataset.objects=20", "phases.seq.duration=1s", "sweep.threads=[1, 8]"],
    "ceph-rados": ["dataset.objects=20", "sweep.threads=[1, 16]", "blocks=1"],
    "ceph-append": ["dataset.objects=20", "blocks=1"],
    "ceph-rgw": ["dataset.objects=20", "dataset.buckets=2", "blocks=1"],
    "cephfs": ["workloads.small-files.dataset.objects=20", "workloads.1.dataset.size=8MiB"],
    "rbd": ["dataset.size=64MiB", "sweep.threads=[1, 16]", "blocks=1"],
    "datasafe-s3": ["sweep.threads=[2]", "sweep.size=[100KiB]", "sweep.buckets=[1]"],
    "datasafe": ["sweep.threads=[2]", "sweep.size=[100KiB]", "sweep.buckets=[1]"],
    "queries": ["queries.scale=0.01", "queries.loops=1"],
    "theflash": ["queries.scale=0.1", "queries.loops=1"],
    "directory": ["workloads.small-files.dataset.objects=20", "workloads.1.dataset.size=1MiB"],
}


def planned(path: Path, overrides: list[str] | None = None) -> Plan:
    campaign = read_campaign(path, overrides or [], drivers=DRIVERS, environ=ENVIRON)
    with tempfile.TemporaryDirectory() as folder:
        return make_plan(campaign, DRIVERS, scripts=ScriptMaker(Path(folder), beside=Path(folder)))


def example(name: str) -> Path:
    return next(path for path in EXAMPLES if path.stem == name)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_plans_and_can_be_made_small(path: Path) -> None:
    whole, small = planned(path), planned(path, SMALLER[path.stem])
    assert 0 < len(small.trials) <= len(whole.trials)
    costs = [plan.estimate(requests_per_s=1000, bytes_per_s=1e8) for plan in (whole, small)]
    assert costs[1].time_ns is not None
    assert costs[0].time_ns is not None
    assert costs[1].time_ns < costs[0].time_ns


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_suits_the_published_schema(path: Path) -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    data = YAML(typ="safe").load(path)
    assert [error.message for error in validator.iter_errors(data)] == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_load_generator_accepts_every_trial_of_an_example(path: Path) -> None:
    loadgen = pytest.importorskip("loadstone._loadgen")
    known = {row["name"] for row in loadgen.drivers()}
    plan = planned(path, SMALLER[path.stem])
    documents = [
        document
        for document in plan.documents()
        if document["target"]["driver"] in known and kind_of(document) == OPERATIONS
    ]
    if not documents:
        pytest.skip("nothing for the load generator, or it lacks the example's drivers")
    for document in documents:
        loadgen.check(json.dumps(document))


@pytest.mark.parametrize(
    ("name", "objects", "size_bytes"),
    [("hummingbird-4k", 10_000_000, 4096), ("hummingbird-1m", 1_000_000, 1 << 20)],
)
def test_the_hummingbird_campaigns_are_those_of_the_report(
    name: str, objects: int, size_bytes: int
) -> None:
    plan = planned(example(name))
    first = [
        trial
        for trial in plan.trials
        if trial.is_measured and trial.document["target"]["name"] == "hummingbird"
    ]
    assert [(trial.phase, trial.document["round"]) for trial in first] == [
        ("put", 1), ("put", 2), ("get", 1), ("get", 2), ("delete", 1), ("delete", 2),
    ]  # fmt: skip
    assert [trial.pause_before_ns // 10**9 for trial in first][1:] == [300, 900, 300, 900, 300]
    for trial in first:
        document = trial.document
        assert document["stop"]["requests"] == document["dataset"]["objects"] == objects
        assert document["dataset"]["size"]["bytes"] == size_bytes
        assert document["dataset"]["buckets"] == 100
        assert document["load"] == {"kind": "closed", "clients": 250}
        assert document["iterations"] == (3 if trial.phase == "get" else 1)
        assert document["on_error"]["action"] == "continue"


def test_the_upload_campaign_has_every_cell_of_the_report() -> None:
    plan = planned(example("cern-upload"))
    cells = {
        tuple(trial.document["case"]["parameters"].items())
        for trial in plan.trials
        if trial.is_measured
    }
    assert len(cells) == 12 * 2 * 2 * 2


def test_the_datasafe_campaign_has_every_cell_three_times_a_day_for_three_days() -> None:
    campaign = read_campaign(example("datasafe-s3"), [], drivers=DRIVERS, environ=ENVIRON)
    plan = make_plan(campaign, DRIVERS)
    cells = {
        tuple(trial.document["case"]["parameters"].items())
        for trial in plan.trials
        if trial.is_measured
    }
    assert len(cells) == 4 * 3 * 4 * 2
    assert {trial.phase for trial in plan.trials if trial.is_measured} == {
        "put", "get", "list", "mix", "delete",
    }  # fmt: skip
    documents = list(plan.documents())
    assert {document["dataset"]["encryption"] for document in documents} == {
        "aes-256-cbc", "aes-256-gcm",
    }  # fmt: skip
    assert {document["block"] for document in documents if document["measured"]} == set(
        range(1, 10)
    )


def test_the_download_campaign_writes_each_dataset_once() -> None:
    plan = planned(example("cern-download"))
    prepares = [trial for trial in plan.trials if trial.phase == "prepare"]
    assert sorted(trial.document["dataset"]["objects"] for trial in prepares) == [50, 50, 250, 250]
    assert {trial.phase for trial in plan.trials if trial.is_measured} == {"get", "range_get"}
