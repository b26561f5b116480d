"""Each operation of each driver, on each target: the right requests, bytes and objects."""

from collections.abc import Callable

import pytest

from loadstone import _loadgen
from loadstone.analysis.statistics.latency import merge
from tests.conformance import trials
from tests.conformance.conftest import ON_BUCKETS, OPERATIONS
from tests.conformance.targets import TARGETS, Place
from tests.conformance.trials import Dataset

RANGES = 2
IN_PARTS = frozenset({"multipart_put", "multipart_get"})

# The bytes that one request on one object moves, where they do not depend on the product.
BYTES_OF_REQUEST: dict[str, Callable[[Place, Dataset], int]] = {
    "put": lambda place, dataset: dataset.size_bytes,
    "get": lambda place, dataset: dataset.size_bytes,
    "multipart_put": lambda place, dataset: dataset.size_bytes,
    "multipart_get": lambda place, dataset: dataset.size_bytes,
    "range_get": lambda place, dataset: place.range_bytes,
    "multi_range_get": lambda place, dataset: RANGES * place.range_bytes,
    "read": lambda place, dataset: place.range_bytes,
    "write": lambda place, dataset: place.range_bytes,
    "presigned_get": lambda place, dataset: dataset.size_bytes,
    "presigned_put": lambda place, dataset: dataset.size_bytes,
    "head": lambda place, dataset: 0,
    "delete": lambda place, dataset: 0,
    "bulk_delete": lambda place, dataset: 0,
    "copy": lambda place, dataset: 0,
    "post": lambda place, dataset: 0,
    "put_if_absent": lambda place, dataset: dataset.size_bytes,
    "put_if_match": lambda place, dataset: dataset.size_bytes,
    "delete_if_match": lambda place, dataset: 0,
    "compare_and_swap": lambda place, dataset: dataset.size_bytes,
}


def test_the_table_has_a_target_for_every_driver() -> None:
    """A driver that the suite never meets would be untested without anybody noticing."""
    without = {row["name"] for row in _loadgen.drivers()} - {target.driver for target in TARGETS}
    assert not without, f"add a line to TARGETS in tests/conformance/targets.py for {without}"


def test_each_operation_has_its_effect(place: Place, dataset: Dataset, operation: str) -> None:
    """Counts, bytes and outcomes are right, and the objects are as the operation leaves them."""
    if operation in IN_PARTS:
        size = 2 * place.smallest_part_bytes + 1000
        dataset = Dataset(objects=3, size_bytes=size, prefix=dataset.prefix)
    if OPERATIONS[operation]["needs_objects"] or operation == "write":
        trials.prepare(place, dataset)
    trial = trials.document(place, dataset, operation)
    trial["options"] |= {"part_bytes": place.smallest_part_bytes, "part_concurrency": 3}
    # In bulk: six objects in each of two buckets, four at a time.
    requests = 4 if operation == "bulk_delete" else dataset.objects
    result = trials.run(trial)
    assert result.outcomes() == {"ok": requests}, result.summary["error_examples"]
    assert result.summary["state"] == "finished"
    assert (result.summary["requests"], result.summary["failed"]) == (requests, 0)
    if operation in IN_PARTS and place.driver != "null":
        parts = [merge([row["part"]]) for row in result.rows]
        assert sum(part.count for part in parts if part is not None) == 3 * requests
        assert result.total("parts_failed") == 0
    if place.driver != "null":
        _check_bytes(result, place, dataset, operation)
    if place.view is not None:
        _check_objects(place, dataset, operation)
        trials.clean_up(place, dataset)
        assert not _left_over(place, dataset)


def test_buckets_are_created_and_deleted(place: Place, dataset: Dataset) -> None:
    """The two operations on buckets count as requests, and the buckets come and go."""
    driver = {row["name"]: row for row in _loadgen.drivers()}[place.driver]
    if not ON_BUCKETS.issubset(driver["operations"]):
        pytest.skip(f"{place.driver} has no such operations")
    stop = {"requests": dataset.buckets, "duration_ns": None}
    made = trials.run(trials.document(place, dataset, "create_bucket", stop=stop))
    assert made.outcomes() == {"ok": dataset.buckets}, made.summary["error_examples"]
    if place.view is not None:
        assert set(dataset.bucket_names) <= place.view.buckets()
    gone = trials.run(trials.document(place, dataset, "delete_bucket", stop=stop))
    assert gone.outcomes() == {"ok": dataset.buckets}, gone.summary["error_examples"]
    if place.view is not None:
        assert not _left_over(place, dataset)


def test_a_mix_keeps_its_counts_together(place: Place, dataset: Dataset) -> None:
    """Reads and writes at once: every request is there once, under its own operation."""
    if place.fill != "put":
        pytest.skip(f"{place.driver} has no objects that come and go")
    trials.prepare(place, dataset)
    mix = [{"operation": name, "weight": 1.0} for name in ("get", "put", "delete", "head")]
    stop = {"requests": 80, "duration_ns": None}
    result = trials.run(trials.document(place, dataset, "get", mix=mix, stop=stop))
    assert result.outcomes() == {"ok": 80}, result.summary["error_examples"]
    counts = {row["operation"]: 0 for row in result.rows}
    for row in result.rows:
        counts[row["operation"]] += row["requests"]
    assert set(counts) == {"get", "put", "delete", "head"}
    moved = counts["get"] + counts["put"]
    assert result.total("bytes") == moved * dataset.size_bytes
    if place.view is not None:
        objects_left = sum(len(_objects(place, bucket)) for bucket in dataset.bucket_names)
        assert objects_left == dataset.objects + counts["put"] - counts["delete"]
        beyond = [[dataset.objects, dataset.objects + (1 << 34)]]
        trials.clean_up(place, dataset, ownership={"written": beyond})
        assert not _left_over(place, dataset)


def test_iterations_read_everything_again(place: Place, dataset: Dataset) -> None:
    """Three iterations are three times the requests, told apart in the record."""
    trials.prepare(place, dataset)
    result = trials.run(trials.document(place, dataset, place.read, iterations=3))
    counts = {1: 0, 2: 0, 3: 0}
    for row in result.rows:
        counts[row["iteration"]] += row["requests"]
    assert counts == dict.fromkeys(counts, dataset.objects)
    assert [row["iteration"] for row in result.summary["iterations"]] == [1, 2, 3]
    trials.clean_up(place, dataset)


def test_sizes_follow_their_law(place: Place, dataset: Dataset) -> None:
    """Objects of different sizes are written and read back whole, and the bytes add up."""
    if place.fill != "put":
        pytest.skip(f"{place.driver} has objects of one size")
    choices = [[0, 1.0], [1, 1.0], [4095, 1.0], [100_000, 1.0]]
    law = {"kind": "weighted", "choices": choices}
    trial = trials.document(place, dataset, "put", phase="prepare")
    trial["dataset"]["size"] = law
    written = trials.run(trial)
    assert written.outcomes() == {"ok": dataset.objects}, written.summary["error_examples"]
    trial = trials.document(place, dataset, "get")
    trial["dataset"]["size"] = law
    read = trials.run(trial)
    assert read.outcomes() == {"ok": dataset.objects}, read.summary["error_examples"]
    assert read.total("bytes") == written.total("bytes")
    if place.view is not None:
        sizes = [size for name in dataset.bucket_names for size in _objects(place, name).values()]
        assert sum(sizes) == written.total("bytes")
        assert len(set(sizes)) > 1
    trials.clean_up(place, dataset)


def test_payload_that_repeats_is_written_again_as_it_is(place: Place) -> None:
    """With duplicates only, a buffer is kept between writes, unless a read comes between."""
    driver = {row["name"]: row for row in _loadgen.drivers()}[place.driver]
    page = 4096
    dataset = Dataset(objects=8, buckets=1, size_bytes=96 * page, duplicate=1.0)
    trials.prepare(place, dataset)
    if {"write", "read"}.issubset(driver["operations"]):
        mixed = trials.document(place, dataset, "write")
        mixed["mix"] = [{"operation": name, "weight": 1.0} for name in ("write", "read")]
        # Blocks at places that differ, so that reads leave other bytes in the buffers.
        mixed["options"]["range_bytes"] = 24 * page
        mixed["keys"]["order"] = "uniform"
        mixed["stop"]["requests"] = 200
        result = trials.run(mixed)
        assert result.outcomes() == {"ok": 200}, result.summary["error_examples"]
    read = trials.document(place, dataset, place.read)
    read["options"]["range_bytes"] = dataset.size_bytes
    result = trials.run(read)
    assert result.outcomes() == {"ok": dataset.objects}, result.summary["error_examples"]
    if place.driver != "null":
        assert result.summary["verified_bytes"] == dataset.bytes
    trials.clean_up(place, dataset)


def _check_bytes(result: trials.Result, place: Place, dataset: Dataset, operation: str) -> None:
    if operation in BYTES_OF_REQUEST:
        expected = dataset.objects * BYTES_OF_REQUEST[operation](place, dataset)
        assert result.total("bytes") == expected
        assert result.summary["bytes"] == expected
    if operation in ("put", "get", "delete", "bulk_delete", "multipart_put", "head"):
        assert result.total("objects") == dataset.objects
    if OPERATIONS[operation]["reads"]:
        assert result.summary["verified_bytes"] == result.summary["bytes"]
        assert result.summary["verified_requests"] == result.summary["requests"]


def _check_objects(place: Place, dataset: Dataset, operation: str) -> None:
    buckets = {bucket: _objects(place, bucket) for bucket in dataset.bucket_names}
    for number in range(dataset.objects):
        bucket, key = dataset.where(number)
        sizes = buckets[bucket]
        if operation in ("delete", "bulk_delete", "delete_if_match"):
            assert key not in sizes
        elif operation == "multipart_put":
            # Some products list an object in parts as being as long as its manifest.
            assert place.view is not None
            assert len(place.view.read(bucket, key)) == dataset.size_bytes
        else:
            assert sizes.get(key) == dataset.size_bytes, f"{bucket}/{key}"


def _objects(place: Place, bucket: str) -> dict[str, int]:
    """Objects of the dataset: without the mark that loadstone may have left in the bucket."""
    assert place.view is not None
    sizes = place.view.objects(bucket)
    return {key: size for key, size in sizes.items() if key.startswith("object-")}


def _left_over(place: Place, dataset: Dataset) -> set[str]:
    assert place.view is not None
    start = dataset.prefix.rstrip("-")
    return {bucket for bucket in place.view.buckets() if bucket.startswith(start)}
