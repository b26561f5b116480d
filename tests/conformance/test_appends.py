"""Appends leave what a put would have left, by any clients, and say when they cannot."""

from typing import Any

import pytest

from tests.conformance import trials
from tests.conformance.conftest import DRIVERS
from tests.conformance.targets import Place
from tests.conformance.trials import SECOND_NS, Dataset, Result

BLOCK_BYTES = 4096
# Two whole blocks and what is left.
SIZE_BYTES = 2 * BLOCK_BYTES + 1000


@pytest.fixture
def grown(place: Place, dataset: Dataset) -> Dataset:
    """Give a dataset of objects that take several appends each."""
    if "append" not in DRIVERS[place.driver]["operations"]:
        pytest.skip(f"{place.driver} cannot append")
    return Dataset(objects=6, size_bytes=SIZE_BYTES, prefix=dataset.prefix)


def append(place: Place, dataset: Dataset, **changes: Any) -> Result:
    """Append to objects until something ends it; a count that is never reached by itself."""
    stop = {"requests": 10 * dataset.objects, "duration_ns": None}
    trial = trials.document(place, dataset, "append", stop=stop)
    trial["options"]["range_bytes"] = BLOCK_BYTES
    return trials.run(trial | changes)


def test_objects_are_filled_block_by_block_and_can_be_verified(
    place: Place, grown: Dataset
) -> None:
    result = append(place, grown)
    assert result.outcomes() == {"ok": 3 * grown.objects}, result.summary["error_examples"]
    assert result.summary["state"] == "finished"
    if place.view is None:
        return
    assert result.total("bytes") == grown.bytes
    read = trials.run(trials.document(place, grown, "get"))
    assert read.outcomes() == {"ok": grown.objects}, read.summary["error_examples"]
    assert read.summary["verified_bytes"] == grown.bytes
    appended = {where: place.view.read(*where) for where in wheres(grown)}
    trials.clean_up(place, grown)
    trials.prepare(place, grown)
    assert appended == {where: place.view.read(*where) for where in wheres(grown)}
    trials.clean_up(place, grown)


def test_appends_end_where_their_count_ends(place: Place, grown: Dataset) -> None:
    """With one client it is known which objects were begun."""
    load, stop = {"kind": "closed", "clients": 1}, {"requests": 4, "duration_ns": None}
    result = append(place, grown, load=load, stop=stop)
    assert result.outcomes() == {"ok": 4}, result.summary["error_examples"]
    if place.view is not None:
        sizes = [place.view.objects(bucket) for bucket in grown.bucket_names]
        assert sizes[0]["object-0"] == SIZE_BYTES
        assert sizes[1]["object-1"] == BLOCK_BYTES
        trials.clean_up(place, grown)


def test_a_warm_up_appends_too_and_nothing_is_appended_twice(place: Place, grown: Dataset) -> None:
    """A bounded rate keeps objects unfilled to the last request, however fast the target."""
    many = Dataset(objects=1000, size_bytes=SIZE_BYTES, prefix=grown.prefix)
    stop = {"requests": 400, "duration_ns": None}
    slow = {"warm_up_ns": SECOND_NS // 20, "rate_limit_per_s": 2000.0}
    result = append(place, many, stop=stop, **slow)
    assert result.outcomes() == {"ok": 400}, result.summary["error_examples"]
    assert result.summary["failed"] == 0
    if place.view is None:
        return
    objects_of_buckets = [place.view.objects(bucket) for bucket in many.bucket_names]
    sizes = [
        size for objects in objects_of_buckets for key, size in objects.items() if "object-" in key
    ]
    assert {size for size in sizes if size < SIZE_BYTES} <= {BLOCK_BYTES, 2 * BLOCK_BYTES}
    assert max(sizes) <= SIZE_BYTES
    assert sum(sizes) == sum(row["bytes"] for row in result.rows)
    trials.clean_up(place, many)


def test_more_clients_than_objects_are_refused(place: Place, grown: Dataset) -> None:
    with pytest.raises(ValueError, match=r"7 clients.* 6 objects"):
        append(place, grown, load={"kind": "closed", "clients": 7})


def wheres(dataset: Dataset) -> list[tuple[str, str]]:
    """Name every object of a dataset."""
    return [dataset.where(number) for number in range(dataset.objects)]
