"""Objects that others wrote are listed, read and checked, and stay as they are."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadstone.results.store import read_run
from tests.conformance import store_under_test
from tests.system.command import ERRORS_AS_JSON, CommandResult, loadstone

BUCKET = "theirs"
KEYS = [f"logs/2026/{number}.txt" for number in range(20)] + ["logs/ü & + %2F", "other/one"]
# boto3's additional checksums would be another kind of verification.
PLAIN = {"request_checksum_calculation": "when_required"}
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": store_under_test.ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": store_under_test.SECRET_KEY,
    "OS_USERNAME": store_under_test.USER,
    "OS_PASSWORD": store_under_test.PASSWORD,
    "OS_PROJECT_NAME": store_under_test.PROJECT,
}


def bench(*arguments: str | Path) -> CommandResult:
    return loadstone(*ERRORS_AS_JSON, "bench", *arguments, environment=ENVIRONMENT)


@pytest.fixture
def store() -> Iterator[str]:
    with store_under_test.store() as url:
        yield url


def put_theirs(url: str, **options: Any) -> Any:
    client = store_under_test.s3(url, **options)
    client.create_bucket(Bucket=BUCKET)
    for number, key in enumerate(KEYS):
        client.put_object(Bucket=BUCKET, Key=key, Body=os.urandom(1000 * number))
    return client


def listed(client: Any) -> list[tuple[str, str]]:
    page = client.list_objects_v2(Bucket=BUCKET)
    return [(entry["Key"], entry["ETag"]) for entry in page["Contents"]]


def manifest_of(run: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((run / "manifest.json").read_text())
    return manifest


@pytest.mark.parametrize(
    ("options", "method"), [(PLAIN, "md5"), ({}, "crc32")], ids=["etag", "checksum"]
)
def test_a_bucket_of_others_is_read_and_checked_and_stays(
    tmp_path: Path, store: str, options: dict[str, str], method: str
) -> None:
    client = put_theirs(store, **options)
    before = listed(client)
    run = tmp_path / "run"
    finished = bench(
        "get,head,list", f"{store}/{BUCKET}/logs/", "--existing", "-n", "42", "-t", "3", "-o", run
    )
    assert finished.code == 0, finished.err
    get, head, pages = (record.summary for record in read_run(run).records)
    assert (get["requests"], get["verified_requests"], get["failed"]) == (42, 41, 0) or (
        get["requests"], get["failed"]) == (42, 0)  # fmt: skip
    assert (get["features"] or {})["verified_by"] == f"{method}: 42"
    assert (head["requests"], head["failed"], pages["failed"]) == (42, 0, 0)
    [objects] = manifest_of(run)["lists"]
    assert (objects["objects"], objects["with_etag"], objects["is_cut"]) == (21, 21, False)
    assert (run / objects["path"]).is_file()
    assert [record.trial["phase"] for record in read_run(run).records] == ["get", "head", "list"]
    # No mark, no other object, and nothing that a clean-up would look for.
    assert listed(client) == before
    assert loadstone("clean", run, "--yes", environment=ENVIRONMENT).code == 0
    assert listed(client) == before


def test_ranges_and_parts_are_read_and_drawn_by_zipf(tmp_path: Path, store: str) -> None:
    put_theirs(store)
    finished = bench(
        "range_get,multipart_get", f"{store}/{BUCKET}/logs/2026/", "--existing", "-n", "40",
        "--keys", "zipf", "-B", "512", "--part-size", "4KiB", "-o", tmp_path / "run",
    )  # fmt: skip
    assert finished.code == 0, finished.err
    ranges, parts = (record.summary for record in read_run(tmp_path / "run").records)
    assert (ranges["requests"], ranges["failed"], parts["failed"]) == (40, 0, 0)
    assert parts["bytes"] > ranges["bytes"] > 0


def test_bytes_that_the_store_has_damaged_are_corrupt(tmp_path: Path) -> None:
    faults = {"seed": 9, "lies": {"corrupt_byte": 0.5, "log": str(tmp_path / "lies")}}
    with store_under_test.store(faults=faults) as url:
        put_theirs(url, **PLAIN)
        damaged = {json.loads(line)["key"] for line in (tmp_path / "lies").read_text().splitlines()}
        finished = bench("get", f"{url}/{BUCKET}", "--existing", "-n", "22", "-o", tmp_path / "run")
    assert finished.code != 0
    [record] = read_run(tmp_path / "run").records
    assert record.summary["mismatches"] == {"corrupt": len(damaged)}
    assert 0 < len(damaged) < len(KEYS)


def test_objects_deleted_or_replaced_after_the_listing_are_an_outcome(
    tmp_path: Path, store: str
) -> None:
    client = put_theirs(store)
    sizes = {
        entry["Key"]: entry["Size"] for entry in client.list_objects_v2(Bucket=BUCKET)["Contents"]
    }
    rows = [f"{key},{sizes[key]}," for key in KEYS[:4]]
    rows += [f"{KEYS[4]},{sizes[KEYS[4]]},other-etag", f"{KEYS[5]},1,", "logs/gone,7,"]
    (tmp_path / "keys.csv").write_text("\n".join(["key,size,etag", *rows]))
    finished = bench(
        "get", f"{store}/{BUCKET}", "--list", tmp_path / "keys.csv", "-n", "7",
        "-o", tmp_path / "run",
    )  # fmt: skip
    [record] = read_run(tmp_path / "run").records
    assert (record.summary["requests"], record.summary["failed"]) == (7, 3)
    assert set(record.summary["error_examples"] or {}) == {"changed", "http_404"}
    assert not record.summary["mismatches"]
    assert finished.code != 0


def test_a_list_of_keys_alone_has_no_lengths_to_check(tmp_path: Path, store: str) -> None:
    put_theirs(store)
    (tmp_path / "keys.txt").write_text("\n".join(KEYS[:5]))
    arguments = (f"{store}/{BUCKET}", "--list", tmp_path / "keys.txt", "-n", "10")
    assert bench("get,head", *arguments, "-o", tmp_path / "run").code == 0
    [objects] = manifest_of(tmp_path / "run")["lists"]
    assert (objects["objects"], objects["without_size"]) == (5, 5)
    # A range of an object of unknown length cannot be chosen.
    finished = bench("range_get", *arguments, "-o", tmp_path / "ranges")
    assert finished.code != 0
    assert finished.errors


def test_a_container_of_others_is_read_by_swift(tmp_path: Path, store: str) -> None:
    client = store_under_test.swift(store)
    client.put_container(BUCKET)
    for number in range(12):
        client.put_object(BUCKET, f"a/{number}", os.urandom(500 + number))
    finished = bench(
        "get,head", f"swift+{store}/v3", "--existing", "--prefix", BUCKET, "--object-prefix", "a/",
        "-n", "24", "-o", tmp_path / "run",
    )  # fmt: skip
    assert finished.code == 0, finished.err
    get = read_run(tmp_path / "run").records[0].summary
    assert (get["requests"], get["verified_requests"], get["failed"]) == (24, 24, 0)
    assert (get["features"] or {})["verified_by"] == "md5: 24"
    assert len(client.get_container(BUCKET)[1]) == 12


def test_a_tree_of_files_is_read_and_stays(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number in range(10):
        path = tree / f"{number % 3}" / "deep" / f"{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(100 * number))
    (tree / "link").symlink_to(tree / "0" / "deep" / "0")
    before = {path: path.stat().st_mtime_ns for path in tree.rglob("*")}
    finished = bench("get,head", tree, "--existing", "-n", "20", "-t", "2", "-o", tmp_path / "run")
    assert finished.code == 0, finished.err
    get = read_run(tmp_path / "run").records[0].summary
    # Files have no checksum that is kept: their lengths are compared.
    assert (get["requests"], get["verified_requests"], get["failed"]) == (20, 0, 0)
    [objects] = manifest_of(tmp_path / "run")["lists"]
    assert (objects["objects"], objects["bytes"]) == (10, 4500)
    assert {path: path.stat().st_mtime_ns for path in tree.rglob("*")} == before


@pytest.mark.parametrize("operation", ["put", "get,delete", "get=3,put=1", "mixed"])
def test_changes_of_existing_objects_are_refused_before_any_listing(
    tmp_path: Path, store: str, operation: str
) -> None:
    put_theirs(store)
    finished = bench(operation, f"{store}/{BUCKET}", "--existing", "-o", tmp_path / "run")
    assert finished.code != 0
    assert "OPERATION" in finished.errors[0]["message"]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("place", ["absent-bucket", f"{BUCKET}/none/"])
def test_nothing_to_read_is_said_and_leaves_no_folder(
    tmp_path: Path, store: str, place: str
) -> None:
    put_theirs(store)
    finished = bench("get", f"{store}/{place}", "--existing", "-o", tmp_path / "run")
    assert finished.code != 0
    assert finished.errors
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_reads_from_the_list_that_it_has(tmp_path: Path, store: str) -> None:
    client = put_theirs(store)
    campaign = tmp_path / "campaign.yaml"
    campaign.write_text(f"""\
name: theirs
targets: {{store: {{driver: s3, endpoint: "{store}"}}}}
dataset: {{existing: {{bucket: {BUCKET}, prefix: logs/, objects_max: 8}}}}
load: {{threads: 2}}
phases: [{{op: get, requests: 16}}, {{op: head, requests: 16}}]
blocks: 2
""")
    run = tmp_path / "run"
    finished = loadstone("run", campaign, "-o", run, environment=ENVIRONMENT)
    assert finished.code == 0, finished.err
    manifest = manifest_of(run)
    assert [listed["objects"] for listed in manifest["lists"]] == [8]
    assert manifest["lists"][0]["is_cut"]
    # As if it had been killed before its last trial.
    last = manifest["plan"][-1]["id"]
    for path in (run / "trials").glob(f"{last}.*"):
        path.unlink()
    manifest |= {"state": "running"}
    manifest.pop("files", None)
    (run / "manifest.json").write_text(json.dumps(manifest))
    client.put_object(Bucket=BUCKET, Key="logs/0000", Body=b"new")
    finished = loadstone("run", campaign, "-o", run, "--resume", environment=ENVIRONMENT)
    assert finished.code == 0, finished.err
    assert manifest_of(run)["lists"] == manifest["lists"]
    assert len(read_run(run).records) == len(manifest["plan"])


def test_each_of_several_hosts_gets_the_list(tmp_path: Path, store: str) -> None:
    put_theirs(store)
    finished = bench(
        "get", f"{store}/{BUCKET}", "--existing", "-n", "44", "-o", tmp_path / "run",
        "--set", "hosts={launch: local, count: 2}",
    )  # fmt: skip
    assert finished.code == 0, finished.err
    [record] = read_run(tmp_path / "run").records
    assert (record.summary["requests"], record.summary["failed"]) == (44, 0)
    assert record.summary["mismatches"] == {}
    assert {host["requests"] for host in record.summary["hosts"] or ()} == {22}
