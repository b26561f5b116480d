"""From a campaign to trials: their order, their documents, and what is prepared and deleted."""

import json
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.errors import CampaignError
from tests.unit.campaign_drivers import DRIVERS, STORE
from tests.unit.campaign_mistakes import findings

SECOND = 1_000_000_000
RUN = "0123456789abcdef" * 2
LEAD = f"loadstone-test-store-{RUN[:8]}-1-"
DATASET = "dataset: {objects: 100, size: 4KiB, buckets: 10}\n"


def planned(text: str, *overrides: str) -> Plan:
    keys = {line.partition(":")[0] for line in text.splitlines()}
    text = text if "targets" in keys else STORE + text
    text = text if "name" in keys else "name: test\n" + text
    campaign = parse_campaign(text, overrides, drivers=DRIVERS, environ={})
    return make_plan(campaign, DRIVERS, RUN)


def outline(plan: Plan) -> list[str]:
    """Return each trial as its phase, round and bucket prefix."""
    return [
        f"{trial.phase} {trial.document['round']} {trial.document['dataset']['bucket_prefix']}"
        for trial in plan.trials
    ]


def phases(plan: Plan) -> list[str]:
    return [trial.phase for trial in plan.trials]


def test_rounds_and_pauses_follow_the_published_script() -> None:
    plan = planned("""\
name: hummingbird-4k
targets: {ceph: {driver: s3, endpoint: http://c}}
dataset: {containers: 100, objects: 10_000_000, size: 4KiB, prefix: "bench-ec-kb-{round}-"}
load: {threads: 250}
rounds: 2
round_pause: 300s
phases:
  - {op: put, pause_after: 900s}
  - {op: get, iterations: 3, pause_after: 900s}
  - {op: delete}
""")
    measured = [trial for trial in plan.trials if trial.is_measured]
    assert [(trial.phase, trial.document["round"]) for trial in measured] == [
        ("put", 1), ("put", 2), ("get", 1), ("get", 2), ("delete", 1), ("delete", 2),
    ]  # fmt: skip
    assert [trial.pause_before_ns // SECOND for trial in measured] == [0, 300, 900, 300, 900, 300]
    assert [trial.document["iterations"] for trial in measured] == [1, 1, 3, 3, 1, 1]
    assert {trial.document["stop"]["requests"] for trial in measured} == {10_000_000}
    assert plan.estimate().pauses_ns == 2700 * SECOND
    # Emptied buckets go at once, before the rest that stands between two measurements.
    assert outline(plan)[4:] == [
        "delete 1 bench-ec-kb-1-",
        "clean-up 1 bench-ec-kb-1-",
        "delete 2 bench-ec-kb-2-",
        "clean-up 2 bench-ec-kb-2-",
    ]


def test_a_pause_without_rounds_stands_between_phases() -> None:
    plan = planned(DATASET + "load: {threads: 1}\nphases: [{op: put, pause_after: 300s}, get]\n")
    assert [trial.pause_before_ns // SECOND for trial in plan.trials] == [0, 300, 0]


def test_a_pause_is_taken_after_what_has_to_be_prepared() -> None:
    plan = planned(
        DATASET
        + "load: {threads: 1}\nphases: [{op: put, pause_after: 300s}, {op: get, size: 1KiB}]\n"
    )
    assert [(trial.phase, trial.pause_before_ns // SECOND) for trial in plan.trials] == [
        ("put", 0), ("clean-up", 0), ("prepare", 0), ("get", 300), ("clean-up", 0),
    ]  # fmt: skip


def test_a_document_says_everything_that_the_load_generator_is_to_know() -> None:
    plan = planned("""\
name: whole
seed: 12345
targets: {ceph: {driver: s3, endpoint: "http://rgw{1...2}:7480", secret_key: {env: KEY}}}
dataset: {buckets: 100, objects: 1000, size: 4KiB, prefix: "b-{round}-", compressible: 30%}
load: {threads: 250}
on_error: {action: stop, limit: 5}
timeout: 5s
allow_foreign: [ceph]
phases: [{op: get, iterations: 3, warm_up: 1s, keys: {order: zipf, theta: 0.5}, verify: 10%}]
""")
    trial = next(trial for trial in plan.trials if trial.is_measured)
    parameters = {"threads": 250, "size": 4096}
    endpoints = ["http://rgw1:7480", "http://rgw2:7480"]
    settings = {"endpoints": endpoints, "secret_key": {"env": "KEY"}}
    assert trial.document == {
        "format": 1,
        "kind": "operations",
        "id": "0002",
        "run": plan.run,
        "seed": 12345,
        "phase": "get",
        "round": 1,
        "block": 1,
        "measured": True,
        "case": {"target": "ceph", "workload": "whole", "parameters": parameters},
        "target": {"name": "ceph", "driver": "s3", "settings": settings},
        "dataset": {
            "bucket_prefix": "b-1-",
            "buckets": 100,
            "objects": 1000,
            "object_prefix": f"bench-{plan.run[:8]}-",
            "size": {"kind": "fixed", "bytes": 4096},
            "compressible": 0.3,
            "duplicate": 0.0,
            "encryption": None,
            "path_encryption": None,
            "version": 1,
        },
        "mix": [{"operation": "get", "weight": 1.0}],
        "options": {
            "range_bytes": None,
            "range_count": 1,
            "part_bytes": None,
            "part_concurrency": 1,
            "page_keys": 1000,
            "prefix": None,
            "delimiter": None,
            "bulk_keys": 1000,
            "contended_keys": 16,
        },
        "load": {"kind": "closed", "clients": 250},
        "rate_limit_per_s": None,
        "keys": {"order": "zipf", "theta": 0.5},
        "stop": {"requests": 1000, "duration_ns": None},
        "warm_up_ns": SECOND,
        "cool_down_ns": 0,
        "iterations": 3,
        "connections": "keep_alive",
        "timeout_ns": 5 * SECOND,
        "on_error": {"action": "stop", "limit": 5},
        "verify": 0.1,
        "allow_foreign": True,
        "ownership": {"adopt": [], "runs": [], "written": []},
        "ticket_base": 0,
        "cores": None,
        "log_requests": False,
    }


def test_documents_are_json_and_have_ids_in_order() -> None:
    plan = planned(DATASET + "load: {threads: 1}\nphases: [put, get]\nblocks: 3\n")
    assert json.loads(json.dumps(plan.documents())) == plan.documents()
    assert [trial.id for trial in plan.trials] == [
        f"{number:04d}" for number in range(1, len(plan.trials) + 1)
    ]


def test_the_same_campaign_makes_the_same_plan_and_another_seed_another_order() -> None:
    text = DATASET + "load: {threads: 1}\nphases: [get]\nsweep: {threads: [1, 2, 3, 4, 5, 6]}\n"
    assert planned(text).documents() == planned(text).documents()
    threads = [_threads(planned(text, f"seed={seed}")) for seed in (1, 2)]
    assert threads[0] != threads[1]
    assert sorted(threads[0]) == sorted(threads[1]) == [1, 2, 3, 4, 5, 6]


def _threads(plan: Plan) -> list[int]:
    return [
        trial.document["case"]["parameters"]["threads"]
        for trial in plan.trials
        if trial.is_measured
    ]


def test_each_block_has_every_case_once_in_an_order_of_its_own() -> None:
    plan = planned(
        DATASET
        + "load: {threads: 1}\nphases: [get]\nblocks: 4\nsweep: {threads: [1, 2, 3, 4, 5, 6]}\n"
    )
    blocks: dict[int, list[int]] = {}
    for trial in plan.trials:
        if trial.is_measured:
            threads = trial.document["case"]["parameters"]["threads"]
            blocks.setdefault(trial.document["block"], []).append(threads)
    assert list(blocks) == [1, 2, 3, 4]
    assert all(sorted(block) == [1, 2, 3, 4, 5, 6] for block in blocks.values())
    assert len({tuple(block) for block in blocks.values()}) > 1


@pytest.mark.parametrize("seed", range(1, 9))
def test_loads_of_a_sweep_never_rise_or_fall_with_time(seed: int) -> None:
    plan = planned(
        f"{DATASET}seed: {seed}\nload: {{threads: 1}}\nphases: [get]\nblocks: 3\n"
        "sweep: {threads: [1, 2, 3], size: [1, 2]}\n"
    )
    sweeps: dict[object, list[int]] = {}
    for trial in plan.trials:
        if trial.is_measured:
            parameters = trial.document["case"]["parameters"]
            sweep = trial.document["block"], parameters["size"]
            sweeps.setdefault(sweep, []).append(parameters["threads"])
    assert len(sweeps) == 6
    assert not any(order in ([1, 2, 3], [3, 2, 1]) for order in sweeps.values())


def test_a_campaign_may_keep_the_order_in_which_it_was_written() -> None:
    text = DATASET + "load: {threads: 1}\nphases: [get]\nblocks: 2\nsweep: {threads: [8, 2, 4]}\n"
    assert _threads(planned(text + "order: as_written\n")) == [8, 2, 4] * 2


def test_a_plan_keeps_its_run_identity_or_takes_the_one_it_is_given() -> None:
    campaign = parse_campaign(
        "name: a\n" + STORE + DATASET + "load: {threads: 1}\nphases: [put]\n",
        drivers=DRIVERS,
        environ={},
    )
    run = "0123456789abcdef" * 2
    assert {document["run"] for document in make_plan(campaign, DRIVERS, run).documents()} == {run}
    made = make_plan(campaign, DRIVERS)
    assert len(made.run) == 32
    assert made.run == make_plan(campaign, DRIVERS).run


def test_cases_that_read_the_same_objects_share_one_preparation() -> None:
    plan = planned(
        DATASET + "load: {threads: 1}\nphases: [get, head]\nblocks: 3\nsweep: {threads: [1, 8]}\n"
    )
    assert Counter(phases(plan)) == {"prepare": 1, "get": 6, "head": 6, "clean-up": 1}
    assert phases(plan)[0] == "prepare"
    assert phases(plan)[-1] == "clean-up"
    # Objects are written with the workload's highest number of threads, whichever case is first.
    assert plan.trials[0].document["load"] == {"kind": "closed", "clients": 8}
    assert plan.trials[0].document["case"]["parameters"] == {"threads": 8, "size": 4096}


def test_each_case_that_writes_finds_no_objects_of_an_earlier_one() -> None:
    plan = planned(DATASET + "load: {threads: 1}\nphases: [put, get]\nsweep: {threads: [1, 8]}\n")
    assert phases(plan) == ["put", "get", "clean-up"] * 2
    versions = [trial.document["dataset"]["version"] for trial in plan.trials]
    assert versions == [1, 1, 1, 2, 2, 2]


def test_a_later_put_of_one_case_writes_over_its_objects() -> None:
    plan = planned(DATASET + "load: {threads: 1}\nphases: [put, get, {op: put, name: overwrite}]\n")
    assert phases(plan) == ["put", "get", "overwrite", "clean-up"]
    assert [trial.document["dataset"]["version"] for trial in plan.trials] == [1, 1, 2, 2]


def test_deletes_are_followed_by_what_a_later_phase_needs() -> None:
    plan = planned(DATASET + "load: {threads: 1}\nphases: [put, delete, get]\n")
    assert phases(plan) == ["put", "delete", "prepare", "get", "clean-up"]


def test_objects_of_a_mix_are_deleted_before_buckets_must_be_empty() -> None:
    mixed = DATASET + "load: {threads: 1}\nphases: [put, {mix: {get: 1, put: 1}}, delete, {}]\n"
    assert phases(planned(mixed.replace("{}", "delete_bucket"))) == [
        "put", "mix", "delete", "clean-up", "prepare", "delete_bucket",
    ]  # fmt: skip
    sweep = mixed.replace(", {}", "") + "sweep: {threads: [1, 2]}\n"
    assert phases(planned(sweep)) == ["put", "mix", "delete", "clean-up"] * 2


def test_a_delete_that_leaves_objects_behind_is_prepared_again() -> None:
    plan = planned(
        DATASET + "load: {threads: 1}\nphases: [put, {op: delete, requests: 10}, head]\n"
    )
    assert phases(plan) == ["put", "delete", "prepare", "head", "clean-up"]


def test_late_clean_up_writes_to_fresh_buckets_and_deletes_at_the_end() -> None:
    plan = planned(
        DATASET + "load: {threads: 1}\nphases: [put]\nsweep: {threads: [1, 2, 3]}\nclean_up: late\n"
    )
    assert outline(plan) == [
        f"put 1 {LEAD}",
        f"put 1 {LEAD}g2-",
        f"put 1 {LEAD}g3-",
        f"clean-up 1 {LEAD}",
        f"clean-up 1 {LEAD}g2-",
        f"clean-up 1 {LEAD}g3-",
    ]


def test_kept_data_is_never_deleted_and_never_written_over() -> None:
    plan = planned(
        DATASET
        + "load: {threads: 1}\nphases: [put, get]\nsweep: {threads: [1, 2]}\nkeep_data: true\n"
    )
    assert outline(plan) == [
        f"put 1 {LEAD}",
        f"get 1 {LEAD}",
        f"put 1 {LEAD}g2-",
        f"get 1 {LEAD}g2-",
    ]


def test_datasets_that_differ_get_buckets_that_differ() -> None:
    plan = planned(
        DATASET + "load: {threads: 1}\nphases: [get]\nsweep: {size: [4K, 8K], threads: [1, 2]}\n"
    )
    prefixes = {
        trial.document["dataset"]["size"]["bytes"]: trial.document["dataset"]["bucket_prefix"]
        for trial in plan.trials
    }
    assert prefixes == {4096: f"{LEAD}", 8192: f"{LEAD}d2-"}
    assert Counter(phases(plan)) == {"prepare": 2, "get": 4, "clean-up": 2}


def test_a_prefix_may_tell_datasets_apart_itself() -> None:
    plan = planned(
        "dataset: {objects: 10, size: 1, buckets: 2, prefix: '{name}-{size}-{buckets}b-{run}-'}\n"
        "load: {threads: 1}\nphases: [get]\nsweep: {size: [4K, 1000]}\n"
    )
    prefixes = {trial.document["dataset"]["bucket_prefix"] for trial in plan.trials}
    assert prefixes == {f"test-{size}-2b-{plan.run[:8]}-" for size in ("4kib", "1000")}


def test_early_clean_up_keeps_only_what_is_still_needed() -> None:
    plan = planned(DATASET + "load: {threads: 1}\nphases: [get]\nsweep: {size: [4K, 8K, 16K]}\n")
    assert phases(plan) == ["prepare", "get", "clean-up"] * 3


def test_prepare_never_takes_the_objects_to_be_there_and_leaves_them() -> None:
    plan = planned(DATASET + "load: {threads: 1}\nphases: [get, list]\nprepare: never\n")
    assert phases(plan) == ["get", "list"]


def test_a_target_that_keeps_nothing_needs_nothing() -> None:
    plan = planned(
        "targets: {t: {driver: 'null'}}\n" + DATASET + "load: {threads: 1}\nphases: [get, put]\n"
    )
    assert phases(plan) == ["get", "put"]


def test_block_devices_are_filled_with_what_they_can_do() -> None:
    plan = planned(
        "targets: {t: {driver: block, path: /dev/x}}\n"
        "dataset: {objects: 1, size: 1GiB}\nload: {threads: 4}\n"
        "phases: [{op: read, range: 4KiB, duration: 5s, keys: {order: uniform}}]\n"
    )
    assert phases(plan) == ["prepare", "read", "clean-up"]
    prepare = plan.trials[0].document
    assert prepare["mix"] == [{"operation": "write", "weight": 1.0}]
    assert prepare["options"]["range_bytes"] == 1 << 20
    assert prepare["stop"]["requests"] == 1024


def test_objects_too_large_for_one_request_are_prepared_in_parts() -> None:
    plan = planned("dataset: {objects: 1, size: 60GiB}\nload: {threads: 1}\nphases: [head]\n")
    prepare = plan.trials[0].document
    assert prepare["mix"][0]["operation"] == "multipart_put"
    assert prepare["options"]["part_bytes"] >= 64 << 20


def test_bucket_operations_get_the_buckets_they_need() -> None:
    plan = planned(DATASET + "load: {threads: 1}\nphases: [create_bucket, delete_bucket]\n")
    assert phases(plan) == ["create_bucket", "delete_bucket"]
    assert [trial.document["stop"]["requests"] for trial in plan.trials] == [10, 10]
    plan = planned(DATASET + "load: {threads: 1}\nphases: [put, delete_bucket]\n")
    assert phases(plan) == ["put", "clean-up", "prepare", "delete_bucket"]
    assert plan.trials[2].document["mix"] == [{"operation": "create_bucket", "weight": 1.0}]


@pytest.mark.parametrize(
    ("phase", "requests"),
    [
        ("put", 100),
        ("list", 10),
        ("{op: list, page_keys: 3}", 40),
        ("{op: bulk_delete, bulk_keys: 4}", 30),
        ("{op: range_get, range: 1}", 100),
        ("{op: get, requests: 7}", 7),
        ("{mix: {get: 1, put: 1}}", 100),
        ("{op: get, duration: 5s}", None),
        ("{op: delete, duration: 5s}", 100),
        ("{op: delete, requests: 1_000_000}", 100),
        ("{op: create_bucket}", 10),
    ],
)
def test_a_phase_ends_when_it_has_gone_once_over_the_dataset(
    phase: str, requests: int | None
) -> None:
    plan = planned(DATASET + f"load: {{threads: 1}}\nphases: [{phase}]\n")
    measured = next(trial for trial in plan.trials if trial.is_measured)
    assert measured.document["stop"]["requests"] == requests


def test_swept_keys_are_parameters_by_their_short_names() -> None:
    plan = planned(
        DATASET
        + "load: {threads: 1}\nphases: [{op: range_get, range: 1KiB}, get]\n"
        + "sweep: {load.threads: [2], containers: [3], connections: [per_request],"
        + " phases.range_get.range: [2KiB], compressible: [50%]}\n"
    )
    measured = [trial.document for trial in plan.trials if trial.is_measured]
    assert measured[0]["case"]["parameters"] == {
        "threads": 2,
        "size": 4096,
        "buckets": 3,
        "connections": "per_request",
        "phases.range_get.range": 2048,
        "compressible": 0.5,
    }
    assert measured[0]["options"]["range_bytes"] == 2048
    assert measured[0]["connections"] == "per_request"
    assert measured[0]["dataset"]["buckets"] == 3
    assert measured[0]["dataset"]["compressible"] == 0.5


def test_an_open_load_is_told_apart_by_its_rate() -> None:
    plan = planned(
        DATASET + "load: {rate: 100/s}\nphases: [{op: get, duration: 1s}]\nsweep: {rate: [50/s]}\n"
    )
    measured = next(trial.document for trial in plan.trials if trial.is_measured)
    assert measured["load"]["rate_per_s"] == 50
    assert measured["case"]["parameters"] == {"rate": 50.0, "size": 4096}


def test_a_phase_may_have_a_load_and_a_size_of_its_own() -> None:
    plan = planned(
        DATASET
        + "load: {threads: 1}\nphases: [put, {op: get, load: {threads: 9, cores: 2}, size: 1}]\n"
    )
    get = next(trial.document for trial in plan.trials if trial.phase == "get")
    assert get["load"] == {"kind": "closed", "clients": 9}
    assert get["cores"] == 2
    assert get["dataset"]["size"] == {"kind": "fixed", "bytes": 1}
    assert get["case"]["parameters"] == {"threads": 9, "size": 1}


def test_workloads_take_from_the_campaign_what_they_do_not_say() -> None:
    plan = planned("""\
name: several
load: {threads: 3}
dataset: {objects: 10, size: 1, prefix: "{workload}-{round}-"}
phases: [put]
workloads:
  - {name: one}
  - {name: two, load: {threads: 5}, phases: [get]}
""")
    document_of = {
        trial.document["case"]["workload"]: trial.document
        for trial in plan.trials
        if trial.is_measured
    }
    assert document_of["one"]["phase"] == "put"
    assert document_of["one"]["load"]["clients"] == 3
    assert document_of["two"]["phase"] == "get"
    assert document_of["two"]["load"]["clients"] == 5
    assert document_of["two"]["dataset"]["bucket_prefix"] == "two-1-"


def test_every_target_gets_every_case() -> None:
    plan = planned("""\
name: targets
targets: {a: {driver: s3, endpoint: x}, b: {driver: swift, auth_url: y}, c: {driver: 'null'}}
dataset: {objects: 10, size: 1}
load: {threads: 3}
phases: [put]
sweep: {threads: [1, 2]}
""")
    measured = [trial.document for trial in plan.trials if trial.is_measured]
    assert Counter(document["case"]["target"] for document in measured) == {"a": 2, "b": 2, "c": 2}


def test_a_schedule_repeats_all_blocks_at_each_start() -> None:
    plan = planned(
        DATASET
        + "load: {threads: 1}\nphases: [get]\nblocks: 2\n"
        + "schedule: {times: ['08:00', '20:00'], days: 3}\n"
    )
    assert plan.suites == 6
    blocks = [(trial.suite, trial.document["block"]) for trial in plan.trials if trial.is_measured]
    assert blocks == [(number // 2, number + 1) for number in range(12)]


def test_every_trial_finds_its_dataset_as_it_needs_it() -> None:
    plan = planned(
        DATASET
        + "load: {threads: 1}\nblocks: 2\nsweep: {threads: [1, 2], size: [1, 2]}\nrounds: 2\n"
        + "phases: [put, get, {mix: {get: 2, put: 1, delete: 1}}, {op: delete, requests: 3}, head,"
        + " {op: put, name: again}, bulk_delete]\n"
    )
    full: dict[str, bool] = {}
    for trial in plan.trials:
        place = trial.document["dataset"]["bucket_prefix"]
        match trial.phase:
            case "put":
                assert place not in full
                full[place] = True
            case "get" | "mix" | "head" | "delete" | "bulk_delete":
                assert full[place], trial.id
                full[place] = trial.phase not in ("delete", "bulk_delete")
            case "prepare" | "again":
                full[place] = True
            case "clean-up":
                del full[place]
    assert full == {}


def test_no_clean_up_follows_another_of_the_same_buckets() -> None:
    plan = planned(
        DATASET + "load: {threads: 1}\nphases: [put, delete]\nblocks: 2\nsweep: {size: [1, 2]}\n"
    )
    for step, other in pairwise(outline(plan)):
        assert not (step == other and step.startswith("clean-up"))


def test_a_campaign_that_cannot_be_planned_is_refused_with_its_place() -> None:
    text = "name: a\n" + STORE + DATASET + "load: {threads: 1}\nphases:\n  - copy\n"
    campaign = parse_campaign(text, origin="c.yaml", drivers=DRIVERS, environ={})
    rows: list[dict[str, Any]] = [
        {"name": "s3", "operations": ["put"], "settings": [{"name": "endpoints", "kind": "texts"}]}
    ]
    with pytest.raises(CampaignError) as caught:
        make_plan(campaign, rows)
    assert findings(caught.value.mistakes) == [(6, "phases.0.op", '"copy"')]


def test_a_thousand_cases_are_planned_as_a_matter_of_course() -> None:
    threads = list(range(1, 101))
    plan = planned(
        DATASET
        + f"load: {{threads: 1}}\nphases: [get]\nsweep: {{threads: {threads}, size: [1, 2, 3, 4, 5,"
        + " 6, 7, 8, 9, 10]}\n"
    )
    assert Counter(phases(plan)) == {"prepare": 10, "get": 1000, "clean-up": 10}
