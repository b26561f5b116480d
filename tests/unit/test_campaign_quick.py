"""One workload from flags, and how mistakes in flags are reported."""

import itertools
from typing import Any

import pytest

from loadstone.campaign.planning.plan import make_plan
from loadstone.campaign.quick import campaign_from_flags, parse_target
from loadstone.errors import CampaignError, Mistake
from tests.unit.campaign_drivers import DRIVERS
from tests.unit.campaign_mistakes import names


def measured(operation: str, target: str = "null", **flags: Any) -> list[dict[str, Any]]:
    campaign = campaign_from_flags(operation, target, drivers=DRIVERS, environ={}, **flags)
    plan = make_plan(campaign, DRIVERS)
    return [trial.document for trial in plan.trials if trial.is_measured]


def wrong(operation: str, target: str = "null", **flags: Any) -> Mistake:
    with pytest.raises(CampaignError) as caught:
        measured(operation, target, **flags)
    return caught.value.mistakes[0]


def error_of(operation: str, target: str = "null", **flags: Any) -> str:
    return str(wrong(operation, target, **flags))


@pytest.mark.parametrize(
    ("word", "driver", "settings"),
    [
        ("null", "null", {}),
        ("/mnt/x", "file", {"path": "/mnt/x"}),
        ("./x", "file", {"path": "./x"}),
        ("file:x", "file", {"path": "x"}),
        ("rados:bench", "rados", {"pool": "bench"}),
        ("s3", "s3", {}),
        ("swift", "swift", {}),
        ("http://host:9000", "s3", {"endpoints": "http://host:9000"}),
        ("https://rgw{1...3}", "s3", {"endpoints": "https://rgw{1...3}"}),
        ("s3+http://host:5000", "s3", {"endpoints": "http://host:5000"}),
        ("http://host:5000/v3", "swift", {"auth_url": "http://host:5000/v3"}),
        ("http://host/auth/v1.0", "swift", {"auth_url": "http://host/auth/v1.0"}),
        ("swift+http://host/x", "swift", {"auth_url": "http://host/x"}),
    ],
)
def test_a_target_is_one_word(word: str, driver: str, settings: dict[str, Any]) -> None:
    assert parse_target(word) == (driver, settings)


def test_a_bucket_is_not_taken_for_a_store() -> None:
    mistake = wrong("get", "s3://bucket")
    assert (mistake.key, mistake.actual) == ("TARGET", '"s3://bucket"')
    assert names(mistake.hint, "s3://NAME")


def test_flags_say_what_a_campaign_file_would() -> None:
    document = measured(
        "get",
        "http://store",
        threads="8",
        size="1M",
        count=500,
        buckets=5,
        iterations=3,
        duration="5m",
        ramp_up="10s",
        ramp_down=5,
        keys="zipf",
        theta=0.8,
        verify="10%",
        connections="per_request",
        prefix="mine-",
        settings={"region": "x"},
        overrides=["load.cores=2"],
    )[0]
    assert document["load"] == {"kind": "closed", "clients": 8}
    assert document["dataset"]["size"] == {"kind": "fixed", "bytes": 1 << 20}
    assert (document["dataset"]["objects"], document["dataset"]["buckets"]) == (500, 5)
    assert document["dataset"]["bucket_prefix"] == "mine-"
    assert document["stop"] == {"requests": None, "duration_ns": 300_000_000_000}
    assert (document["warm_up_ns"], document["cool_down_ns"]) == (10_000_000_000, 5_000_000_000)
    assert document["keys"] == {"order": "zipf", "theta": 0.8}
    assert (document["iterations"], document["verify"]) == (3, 0.1)
    assert document["connections"] == "per_request"
    assert document["target"]["settings"] == {"endpoints": ["http://store"], "region": "x"}
    assert document["cores"] == 2


def test_usual_values_stand_in_for_flags_that_are_absent() -> None:
    document = measured("get")[0]
    assert document["load"] == {"kind": "closed", "clients": 16}
    assert document["stop"] == {"requests": None, "duration_ns": 10 * 10**9}
    assert document["warm_up_ns"] == 2 * 10**9
    assert document["dataset"]["objects"] == 10_000
    assert document["dataset"]["size"] == {"kind": "fixed", "bytes": 4096}


def test_a_put_alone_is_timed_with_new_objects_up_to_a_bound_of_space() -> None:
    small, large = measured("put")[0], measured("put", size="1MiB")[0]
    assert small["stop"] == large["stop"] == {"requests": None, "duration_ns": 10 * 10**9}
    assert small["dataset"]["objects"] == 16 * 2**30 // 4096
    assert large["dataset"]["objects"] == 16 * 1024


def test_writes_for_later_phases_and_deletes_pass_once_over_the_objects() -> None:
    put, get, delete = measured("put,get,delete")
    once = {"requests": 10_000, "duration_ns": None}
    assert put["stop"] == delete["stop"] == once
    assert put["warm_up_ns"] == delete["warm_up_ns"] == 0
    assert get["stop"] == {"requests": None, "duration_ns": 10 * 10**9}
    assert measured("delete")[0]["stop"] == once


@pytest.mark.parametrize(("size", "objects"), [("4KiB", 10_000), ("1MiB", 1024), ("1GiB", 16)])
def test_the_usual_objects_fit_into_the_usual_space(size: str, objects: int) -> None:
    assert measured("get", size=size)[0]["dataset"]["objects"] == objects
    for operation in ("get", "put,get", "mixed"):
        timed = measured(operation, size=size, duration="5s")
        assert timed[0]["dataset"]["objects"] == min(objects, 1000)


@pytest.mark.parametrize(
    ("flags", "stop"),
    [
        ({"count": 7}, {"requests": 7, "duration_ns": None}),
        ({"duration": 3}, {"requests": None, "duration_ns": 3 * 10**9}),
        ({"overrides": ["dataset.objects=7"]}, {"requests": 7, "duration_ns": None}),
        ({"overrides": ["phases.0.requests=7"]}, {"requests": 7, "duration_ns": None}),
        ({"overrides": ["load.cores=1"]}, {"requests": None, "duration_ns": 10 * 10**9}),
    ],
)
def test_a_stated_length_is_used(flags: dict[str, Any], stop: dict[str, Any]) -> None:
    document = measured("get", **flags)[0]
    assert document["stop"] == stop
    assert document["warm_up_ns"] == (0 if stop["duration_ns"] != 10 * 10**9 else 2 * 10**9)


def test_a_rate_makes_the_load_open() -> None:
    assert measured("get", rate="100/s", duration=1)[0]["load"]["kind"] == "open"
    mistake = wrong("get", rate=100, threads=3)
    assert mistake.key == "load"
    assert names(mistake.actual, "threads", "rate")


def test_a_put_by_the_clock_does_not_run_out_of_new_objects() -> None:
    assert measured("put", duration="1m")[0]["dataset"]["objects"] == 10_000_000


def test_several_operations_run_one_after_another() -> None:
    documents = measured("put,get,range_get", block="1K")
    assert [document["phase"] for document in documents] == ["put", "get", "range_get"]
    assert [document["options"]["range_bytes"] for document in documents] == [None, None, 1024]


def test_a_mix_is_the_usual_one_or_ones_own() -> None:
    shares = measured("mixed", duration=1)[0]["mix"]
    assert {share["operation"]: share["weight"] for share in shares} == {
        "get": 45, "head": 30, "put": 15, "delete": 10,
    }  # fmt: skip
    shares = measured("get=3,put=1", duration=1)[0]["mix"]
    assert [share["weight"] for share in shares] == [3.0, 1.0]


def test_operations_with_required_keys_get_usual_ones() -> None:
    assert measured("range_get")[0]["options"]["range_bytes"] == 4096
    assert measured("multi_range_get", size="1M")[0]["options"]["range_count"] == 4
    assert measured("multipart_put", size="64M")[0]["options"]["part_bytes"] == 8 << 20
    options = measured("multipart_get", size="64M", part_concurrency=4)[0]["options"]
    assert (options["part_bytes"], options["part_concurrency"]) == (8 << 20, 4)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"threads": "x"}, '--threads: found "x", '),
        ({"size": "4kb"}, '--size: found "4kb", '),
        ({"count": "1M"}, '--count: found "1M", '),
        ({"duration": "5x"}, '--duration: found "5x", '),
        ({"iterations": 0}, "--iterations: found 0, "),
        ({"block": "4K"}, "--block: "),
        ({"keys": "random"}, '--keys: found "random", '),
        ({"rounds": 2, "prefix": "x-"}, ""),
    ],
)
def test_a_mistake_is_told_with_the_flag(flags: dict[str, Any], expected: str) -> None:
    if not expected:
        assert len(measured("get", **flags)) == 2
        return
    assert error_of("get", **flags).startswith(expected)


def test_an_unknown_operation_is_told_with_the_known_ones() -> None:
    mistake = wrong("putt")
    assert (mistake.key, mistake.actual) == ("OPERATION", '"putt"')
    assert names(mistake.allowed, '"put"', '"get"')
    assert names(mistake.hint, '"put"')
    assert (wrong("").key, wrong("").actual) == ("OPERATION", "nothing")


def test_an_unknown_setting_of_the_target_is_told() -> None:
    mistake = wrong("get", "/tmp/x", settings={"dirct": True})
    assert mistake.key == "TARGET dirct"
    assert names(mistake.hint, '"direct"')


def test_the_environment_fills_a_target_without_an_address() -> None:
    campaign = campaign_from_flags(
        "get", "s3", drivers=DRIVERS, environ={"AWS_ENDPOINT_URL": "http://store"}
    )
    assert campaign.targets["s3"].settings["endpoints"] == "http://store"
    mistake = wrong("get", "s3")
    assert (mistake.key, mistake.actual) == ("TARGET endpoints", "nothing")


def test_keeping_and_trusting_are_passed_on() -> None:
    campaign = campaign_from_flags(
        "get", "null", drivers=DRIVERS, environ={}, keep_data=True, allow_foreign=True
    )
    assert campaign.keep_data
    assert campaign.allow_foreign == ("null",)


@pytest.mark.parametrize(
    ("target", "flags", "endpoint", "bucket"),
    [
        ("http://host:9000/mine", {}, "http://host:9000", "mine"),
        ("https://host/mine/", {}, "https://host", "mine"),
        ("http://host:9000/mine", {"prefix": "other-"}, "http://host:9000/mine", "other"),
        ("s3+http://host:9000/mine", {}, "http://host:9000/mine", None),
        ("http://host:9000/storage/v1", {}, "http://host:9000/storage/v1", None),
        ("http://host:9000", {}, "http://host:9000", None),
    ],
)
def test_a_bucket_in_the_address_is_the_bucket(
    target: str, flags: dict[str, Any], endpoint: str, bucket: str | None
) -> None:
    trial = measured("put", target, **flags)[0]
    assert trial["target"]["settings"]["endpoints"] == [endpoint]
    name = trial["dataset"]["bucket_prefix"].rstrip("-")
    assert name == bucket or (bucket is None and name.startswith("loadstone-bench-s3-"))


def test_a_bucket_in_the_address_is_the_only_one() -> None:
    assert "TARGET: found" in error_of("put", "http://host:9000/mine", buckets=3)


def test_a_count_is_one_of_requests_also_where_one_lists_many_objects() -> None:
    (puts, lists) = measured("put,list", count=40)
    assert [phase["stop"]["requests"] for phase in (puts, lists)] == [40, 40]
    assert lists["dataset"]["objects"] == 40
    assert measured("list", duration="5s")[0]["stop"]["requests"] is None


def test_usual_settings_are_consistent() -> None:
    (document,) = measured("multi_range_get")
    several = document["options"]["range_bytes"] * document["options"]["range_count"]
    assert several <= document["dataset"]["size"]["bytes"]


def test_several_values_of_a_flag_are_a_sweep_over_all_combinations() -> None:
    documents = measured("put,get", threads="1,4", size="4KiB,1MiB", buckets="1,2")
    cases = {
        (
            document["phase"],
            *(document["case"]["parameters"][name] for name in ("threads", "size", "buckets")),
        )
        for document in documents
    }
    assert cases == set(itertools.product(("put", "get"), (1, 4), (4096, 1 << 20), (1, 2)))
    # As many as fit into 1 GiB of the largest size.
    assert {document["dataset"]["objects"] for document in documents} == {1024}
    assert [document["load"]["rate_per_s"] for document in measured("get", rate="5,7/s")] == [5, 7]


@pytest.mark.parametrize(
    ("flags", "key"),
    [
        ({"threads": "1,x"}, "--threads"),
        ({"threads": "1,,2"}, "--threads"),
        ({"size": "4KiB,4kb"}, "--size"),
        ({"rate": "5,x"}, "--rate"),
    ],
)
def test_a_mistake_in_a_sweep_is_told_with_the_flag(flags: dict[str, Any], key: str) -> None:
    assert wrong("get", **flags).key == key


@pytest.mark.parametrize(
    ("operation", "target", "facts"),
    [
        ("get", "127.0.0.1:7070", "http://127.0.0.1:7070"),
        ("http://127.0.0.1:7070", "put,get", "put,get http://127.0.0.1:7070"),
        ("get", "rgw", None),
    ],
)
def test_a_target_that_is_none_is_told_with_what_was_probably_meant(
    operation: str, target: str, facts: str | None
) -> None:
    mistake = wrong(operation, target)
    assert (mistake.key, mistake.actual) == ("TARGET", f'"{target}"')
    assert mistake.hint is None if facts is None else names(mistake.hint, facts)


@pytest.mark.parametrize(
    ("operation", "size", "range_bytes"),
    [
        ("range_get", "1MiB", 4096),
        ("range_get", "1KiB", 1024),
        ("multi_range_get", "1MiB", 4096),
        ("multi_range_get", "4KiB", 1024),
        ("multi_range_get", "1MiB,2KiB", 512),
    ],
)
def test_the_usual_ranges_fit_into_the_smallest_objects(
    operation: str, size: str, range_bytes: int
) -> None:
    documents = measured(operation, size=size)
    assert {document["options"]["range_bytes"] for document in documents} == {range_bytes}
