"""The rest of a plan after an interruption at any point."""

from pathlib import Path

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.campaign.resume import resume
from loadstone.script.planned import ScriptMaker
from tests.unit.campaign_drivers import DRIVERS, STORE


def planned(text: str) -> Plan:
    head = "name: test\n" + STORE + "dataset: {objects: 100, size: 4KiB, buckets: 10}\n"
    campaign = parse_campaign(head + "load: {threads: 4}\n" + text, drivers=DRIVERS, environ={})
    return make_plan(campaign, DRIVERS)


def ids(plan: Plan) -> list[str]:
    return [f"{trial.id} {trial.phase}" for trial in plan.trials]


WHOLE = planned("phases: [put, get, {op: delete, pause_after: 60s}, create_bucket]\n")


def test_the_plan_of_these_tests_is_as_expected() -> None:
    assert ids(WHOLE) == [
        "0001 put",
        "0002 get",
        "0003 delete",
        "0004 clean-up",
        "0005 create_bucket",
        "0006 clean-up",
    ]


def test_nothing_is_left_of_a_finished_plan() -> None:
    assert resume(WHOLE, {trial.id for trial in WHOLE.trials}).trials == ()


def test_all_is_left_of_a_plan_that_never_started() -> None:
    assert resume(WHOLE, set(), started_ids=set()) == WHOLE


def test_an_interrupted_get_is_just_run_again() -> None:
    assert ids(resume(WHOLE, {"0001"})) == ids(WHOLE)[1:]


def test_an_interrupted_put_is_run_again_on_empty_buckets() -> None:
    left = resume(WHOLE, set(), started_ids={"0001"})
    assert ids(left) == ["0007 clean-up", *ids(WHOLE)]


def test_an_interrupted_delete_gets_its_objects_back_first() -> None:
    left = resume(WHOLE, {"0001", "0002"})
    assert ids(left) == ["0007 prepare", *ids(WHOLE)[2:]]
    prepare = left.trials[0].document
    assert prepare["mix"] == [{"operation": "put", "weight": 1.0}]
    assert prepare["dataset"] == WHOLE.trials[2].document["dataset"]
    assert not prepare["measured"]


def test_a_script_gets_what_it_begins_with_again(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(
        "session,action,object,size,expect\n1,READ,a,10,exists\n1,WRITE,b,10,\n"
    )
    campaign = parse_campaign(
        "name: test\n" + STORE + "dataset: {size: 4KiB}\nload: {threads: 1}\n"
        "phases: [{name: users, script: {file: s.csv}}]\n",
        drivers=DRIVERS, environ={},
    )  # fmt: skip
    whole = make_plan(campaign, DRIVERS, scripts=ScriptMaker(tmp_path / "run", beside=tmp_path))
    assert ids(whole) == ["0001 prepare", "0002 users", "0003 clean-up"]
    left = resume(whole, {"0001"})
    assert ids(left) == ["0004 clean-up", "0005 prepare", "0002 users", "0003 clean-up"]
    assert left.trials[1].document["script"] == whole.trials[0].document["script"]
    # Its preparation was interrupted: it is not planned twice.
    assert ids(resume(whole, set())) == ["0004 clean-up", *ids(whole)]
    assert ids(resume(whole, {"0001"}, started_ids={"0001"})) == ids(whole)[1:]
    assert ids(resume(whole, {"0001", "0002"})) == ids(whole)[2:]


def test_a_delete_that_had_not_started_needs_no_new_objects() -> None:
    assert ids(resume(WHOLE, {"0001", "0002"}, started_ids={"0001", "0002"})) == ids(WHOLE)[2:]


def test_an_interrupted_clean_up_is_just_run_again() -> None:
    assert ids(resume(WHOLE, {"0001", "0002", "0003"})) == ids(WHOLE)[3:]


def test_interrupted_bucket_operations_start_from_what_they_need() -> None:
    finished = {"0001", "0002", "0003", "0004"}
    assert ids(resume(WHOLE, finished)) == ["0007 clean-up", *ids(WHOLE)[4:]]


def test_rests_stay_with_the_trials_they_stand_before() -> None:
    left = resume(WHOLE, {"0001", "0002", "0003"})
    assert {trial.phase: trial.pause_before_ns for trial in left.trials}["create_bucket"] == (
        60_000_000_000
    )


def test_an_interrupted_preparation_is_just_run_again() -> None:
    plan = planned("phases: [get]\nsweep: {threads: [1, 2]}\n")
    assert ids(plan)[0] == "0001 prepare"
    assert ids(resume(plan, set())) == ids(plan)


def test_a_trial_left_out_in_the_middle_gets_the_objects_it_was_to_read() -> None:
    plan = planned("phases: [put, get]\nsweep: {threads: [1, 2]}\n")
    assert ids(plan) == [
        "0001 put",
        "0002 get",
        "0003 clean-up",
        "0004 put",
        "0005 get",
        "0006 clean-up",
    ]
    # The first get is missing: by now its objects are gone and the second case's are there.
    left = resume(plan, {"0001", "0003", "0004", "0005"}, started_ids=set())
    assert ids(left) == ["0007 prepare", "0002 get", "0006 clean-up"]
    versions = [trial.document["dataset"]["version"] for trial in left.trials]
    assert versions == [1, 1, 2]


def test_later_trials_before_an_interruption_count() -> None:
    # The clean-up has run without the delete before it: the delete has to find objects again.
    left = resume(WHOLE, {"0001", "0002", "0004"})
    assert ids(left) == ["0007 prepare", "0003 delete", "0008 clean-up", *ids(WHOLE)[4:]]


def test_a_target_that_could_not_be_used_goes_on_where_it_stopped() -> None:
    campaign = parse_campaign(
        "name: two\ntargets: {a: {driver: s3, endpoint: x}, b: {driver: s3, endpoint: y}}\n"
        "dataset: {objects: 10, size: 1}\nload: {threads: 1}\nphases: [put, get, delete]\n",
        drivers=DRIVERS,
        environ={},
    )
    plan = make_plan(campaign, DRIVERS)
    first = plan.trials[0].document["target"]["name"]
    finished = {trial.id for trial in plan.trials if trial.document["target"]["name"] != first}
    left = resume(plan, finished | {"0001"})
    assert ids(left) == ["0002 get", "0003 delete", "0004 clean-up"]


def test_the_rest_of_a_leg_finds_the_data_that_went_with_its_server() -> None:
    arm = '{start: [serve], ready: "http://127.0.0.1:9000/"}'
    phases = "[put, get, {op: put, name: again}]"
    plan = planned(f"arms: {{store: {arm}}}\nphases: {phases}\nblocks: 2\n")
    whole = ["put", "get", "again", "clean-up"]
    assert [trial.phase for trial in plan.trials] == whole * 2
    rests = {
        0: whole,
        1: ["prepare", "get", "again", "clean-up"],
        2: ["prepare", "again", "clean-up"],
        3: ["clean-up"],
        4: [],
    }
    for finished, rest in rests.items():
        for block in (0, 1):
            left = resume(plan, {trial.id for trial in plan.trials[: 4 * block + finished]})
            assert [trial.phase for trial in left.trials] == rest + whole * (1 - block), (
                finished,
                block,
            )


def test_objects_that_the_plan_never_wrote_are_not_written_by_a_resume() -> None:
    plan = planned("prepare: never\nphases: [get, head]\n")
    for finished in (set(), {"0001"}):
        assert ids(resume(plan, finished)) == ids(plan)[len(finished) :]


def test_new_trials_never_take_a_number_that_is_in_use() -> None:
    left = resume(WHOLE, {"0001", "0002", "0009"}, started_ids={"0003"})
    assert left.trials[0].id == "0010"


@pytest.mark.parametrize("finished", range(7))
def test_from_every_point_on_each_phase_still_runs_once(finished: int) -> None:
    done = {trial.id for trial in WHOLE.trials[:finished]}
    left = resume(WHOLE, done)
    measured = [trial.id for trial in left.trials if trial.is_measured]
    assert measured == [
        trial.id for trial in WHOLE.trials if trial.is_measured and trial.id not in done
    ]
