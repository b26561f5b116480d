"""Requests on a condition: who comes first wins, who comes later has lost and has not failed."""

from tests.conformance import trials
from tests.conformance.exemptions import needs
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset


@needs("view", "put_if_absent")
def test_existing_objects_are_not_put_if_absent(place: Place, dataset: Dataset) -> None:
    """Puts of the existing half of the objects lose the race, and overwrite nothing."""
    half = {"requests": dataset.objects // 2, "duration_ns": None}
    trials.run(trials.document(place, dataset, "put_if_absent", stop=half))
    trial = trials.document(place, dataset, "put_if_absent")
    # Content of another version would be seen below.
    trial["dataset"]["version"] = 2
    result = trials.run(trial)
    assert result.outcomes() == {"ok": dataset.objects // 2, "lost_race": dataset.objects // 2}
    assert (result.summary["failed"], result.summary["lost_races"]) == (0, dataset.objects // 2)
    assert not result.summary["error_examples"]
    first = trials.run(trials.document(place, dataset, place.read, stop=half))
    assert first.outcomes() == {"ok": dataset.objects // 2}, first.summary["error_examples"]
    trials.clean_up(place, dataset)


@needs("view", "compare_and_swap")
def test_some_of_several_writers_of_one_object_lose(place: Place) -> None:
    """Each request wins or loses; what is there afterwards is what a winner wrote.

    It needs a store that tells a lost race from a failure, as `compare_and_swap` does.
    """
    dataset = Dataset(objects=1, buckets=1)
    trials.prepare(place, dataset)
    stop = {"requests": 200, "duration_ns": None}
    load = {"kind": "closed", "clients": 8}
    result = trials.run(trials.document(place, dataset, "put_if_match", stop=stop, load=load))
    outcomes = result.outcomes()
    assert set(outcomes) == {"ok", "lost_race"}, result.summary["error_examples"]
    assert sum(outcomes.values()) == 200
    assert result.summary["lost_races"] == outcomes["lost_race"]
    assert result.summary["failed"] == 0
    read = trials.run(trials.document(place, dataset, "get"))
    assert read.outcomes() == {"ok": 1}, read.summary["error_examples"]
    trials.clean_up(place, dataset)


@needs("view", "put_if_match")
def test_one_client_alone_wins_each_time(place: Place, dataset: Dataset) -> None:
    """It knows the ETag of its own last write, in a second iteration without asking for it."""
    trials.prepare(place, dataset)
    load = {"kind": "closed", "clients": 1}
    result = trials.run(trials.document(place, dataset, "put_if_match", iterations=3, load=load))
    assert result.outcomes() == {"ok": 3 * dataset.objects}, result.summary["error_examples"]
    trials.clean_up(place, dataset)


@needs("view", "put_if_absent", "delete_if_match")
def test_a_mix_deletes_on_condition_what_it_has_put_on_condition(
    place: Place, dataset: Dataset
) -> None:
    trials.prepare(place, dataset)
    mix = [{"operation": name, "weight": 1.0} for name in ("put_if_absent", "delete_if_match")]
    stop = {"requests": 80, "duration_ns": None}
    result = trials.run(trials.document(place, dataset, "get", mix=mix, stop=stop))
    assert result.outcomes() == {"ok": 80}, result.summary["error_examples"]
    assert {row["operation"] for row in result.rows} == {"put_if_absent", "delete_if_match"}
    beyond = [[dataset.objects, dataset.objects + (1 << 34)]]
    swept = trials.clean_up(place, dataset, ownership={"written": beyond}).summary
    counts = dict.fromkeys(("put_if_absent", "delete_if_match"), 0)
    for row in result.rows:
        counts[row["operation"]] += row["requests"]
    left = counts["put_if_absent"] - counts["delete_if_match"]
    assert swept["objects_swept"] == dataset.objects + left


@needs("view", "compare_and_swap")
def test_clients_that_contend_win_each_after_some_tries(place: Place) -> None:
    """Each request ends with a win; tries beyond those are what others came before."""
    dataset = Dataset(objects=4, buckets=1)
    trials.prepare(place, dataset)
    trial = trials.document(place, dataset, "compare_and_swap")
    trial["stop"] = {"requests": 200, "duration_ns": None}
    trial["load"] = {"kind": "closed", "clients": 8}
    trial["options"]["contended_keys"] = 1
    result = trials.run(trial)
    assert result.outcomes() == {"ok": 200}, result.summary["error_examples"]
    assert result.total("objects") > 200
    assert result.total("bytes") == 200 * dataset.size_bytes
    squares = result.summary["clients_requests_squares"]
    # The least is that all clients did as many.
    assert 200**2 / 8 <= squares <= 200**2
    read = trials.run(trials.document(place, dataset, "get"))
    assert read.outcomes() == {"ok": 4}, read.summary["error_examples"]
    trials.clean_up(place, dataset)
