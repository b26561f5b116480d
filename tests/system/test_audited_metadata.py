"""Audits find each change of metadata that a store acknowledged and did not keep, and no other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone.cli import exit_code
from tests.conformance import store_under_test
from tests.system.command import loadstone
from tests.system.test_audit import audit_of, lies_in, named
from tests.system.test_audited_copies import OBJECTS, address_of, bench
from tests.system.test_clean_up_counts import KEYS


@pytest.fixture(scope="module")
def store_port() -> Iterator[int]:
    with store_under_test.store() as url:
        yield int(url.rsplit(":", 1)[1])


@pytest.mark.parametrize("interface", ["s3", "swift"])
@pytest.mark.parametrize("operations", ["put,post", "put,post,post", "put,post,copy"])
def test_lost_changes_of_metadata_are_found_and_rightly_named(
    operations: str, interface: str, tmp_path: Path
) -> None:
    log = tmp_path / "lies.jsonl"
    lies = {"lost_metadata": 0.05, "prefix": "object-", "log": str(log)}
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        port = int(url.rsplit(":", 1)[1])
        finished = bench(address_of(interface, port, tmp_path), tmp_path / "run", operations)
    audit, posts = audit_of(tmp_path / "run"), operations.count("post")
    lied_about = lies_in(log, posts - 1)["lost_metadata"]
    # A copy includes the metadata of its object.
    copies = {(bucket, f"{key}.copy") for bucket, key in lied_about if "copy" in operations}
    assert named(audit) == {"metadata_wrong": lied_about | copies}
    assert finished.code == exit_code.FAILED
    assert audit["metadata"] == audit["metadata_read_back"] == audit["acknowledged"]
    assert audit["unknown"] == audit["unanswered"] == 0
    for finding in audit["findings"]:
        made = [call["operation"] for call in finding["calls"]]
        of_copy = ["post"] * posts + ["copy", "get", "head", "head"]
        of_object = ["put"] + ["post"] * posts + ["get", "head", "head"]
        assert made == (of_copy if finding["key"].endswith(".copy") else of_object)
        assert [call["outcome"] for call in finding["calls"][-2:]] == ["metadata_wrong"] * 2


SOUND = {
    "put,post,post": (OBJECTS, ()),
    "put,post,copy,post,copy": (2 * OBJECTS, ()),
    "put,post,put": (OBJECTS, ()),
    "put,post,delete": (0, ()),
    "put=2,post=3,copy=2,delete=1,get=2": (1, ("-d", "2s")),
}
"""Operations, and of how many objects at least metadata is read back."""


@pytest.mark.parametrize("interface", ["s3", "swift", "file"])
@pytest.mark.parametrize("operations", SOUND)
def test_a_sound_target_whose_metadata_changes_is_accused_of_nothing(
    operations: str, interface: str, store_port: int, tmp_path: Path
) -> None:
    expected, options = SOUND[operations]
    address = address_of(interface, store_port, tmp_path)
    finished = bench(address, tmp_path / "run", operations, *options)
    assert finished.code == 0, finished.err
    audit = audit_of(tmp_path / "run")
    assert audit["findings"] == []
    assert audit["read_back"] == audit["acknowledged"] >= OBJECTS
    assert audit["unknown"] == audit["unanswered"] == 0
    if interface == "file":
        # A file that is written again keeps its attributes, and a copy has none.
        expected = 0 if operations == "put,post,put" else min(expected, OBJECTS)
    assert audit["metadata_read_back"] == audit["metadata"] >= expected
    shown = f"metadata read back: {audit['metadata']:,} of {audit['metadata']:,}"
    assert (shown in finished.out) is (audit["metadata"] > 0)


def test_a_change_of_metadata_that_failed_may_be_carried_out_or_not(tmp_path: Path) -> None:
    errors = {"post": {"rate": 0.1, "status": 500}}
    with store_under_test.store(faults={"seed": 5, "errors": errors}) as url:
        port = int(url.rsplit(":", 1)[1])
        bench(address_of("swift", port, tmp_path), tmp_path / "run", "put,post,post")
    audit = audit_of(tmp_path / "run")
    assert audit["findings"] == []
    assert OBJECTS / 2 < audit["metadata_read_back"] == audit["metadata"] < OBJECTS


def test_metadata_is_read_back_days_later_and_by_a_replay(tmp_path: Path) -> None:
    run, log = tmp_path / "run", tmp_path / "lies.jsonl"
    lies = {"lost_metadata": 0.05, "prefix": "object-", "log": str(log)}
    with store_under_test.store() as sound:
        bench(sound, run, "put,post", "--keep-data")
        assert loadstone("audit", run, environment=KEYS).code == 0
        client = store_under_test.s3(sound)
        bucket = client.list_buckets()["Buckets"][0]["Name"]
        listed = client.list_objects_v2(Bucket=bucket)["Contents"]
        key = next(entry["Key"] for entry in listed if "object-" in entry["Key"])
        client.copy_object(
            Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": key},
            MetadataDirective="REPLACE", Metadata={"loadstone": "0123456789abcdef"},
        )  # fmt: skip
        assert loadstone("audit", run, environment=KEYS).code == exit_code.FAILED
        finding = audit_of(run)["findings"][-1]
        assert (finding["kind"], finding["key"]) == ("metadata_wrong", key)
        replay = run / finding["replay"]
        target = f"targets.s3.endpoints={sound}"
        again = loadstone(
            "run", replay, "--set", target, "-o", tmp_path / "sound", environment=KEYS
        )
        assert (again.code, audit_of(tmp_path / "sound")["metadata_read_back"]) == (0, 1)
    with store_under_test.store(faults={"seed": 3, "lies": {**lies, "lost_metadata": 1.0}}) as url:
        target = f"targets.s3.endpoints={url}"
        again = loadstone(
            "run", replay, "--set", target, "-o", tmp_path / "lying", environment=KEYS
        )
    assert again.code == exit_code.FAILED
    assert {entry["kind"] for entry in audit_of(tmp_path / "lying")["findings"]} == {
        "metadata_wrong"
    }
