"""Objects that mixes put beyond their dataset: each trial has its own numbers."""

from itertools import pairwise

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning import beyond
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.campaign.resume import resume
from loadstone.campaign.search import Measure
from loadstone.campaign.search_step import step_document
from loadstone.errors import CampaignError
from tests.unit.campaign_drivers import DRIVERS, STORE

MIX = "{mix: {get: 1, put: 1}, duration: 1s}"
CAPACITY = "{p99: 50ms, trial: 2s, coarse_trial: 1s, TRIALS}"
SEARCH = "{name: search, mix: {get: 1, put: 1}, capacity: " + CAPACITY + "}"


def planned(phases: str, more: str = "") -> Plan:
    head = "name: test\n" + STORE + "dataset: {objects: 100, size: 4KiB}\nload: {threads: 4}\n"
    text = f"{head}phases: {phases}\n{more}"
    return make_plan(parse_campaign(text, drivers=DRIVERS, environ={}), DRIVERS)


def test_each_mix_has_numbers_that_no_other_trial_has() -> None:
    plan = planned(f"[put, {MIX}, {{mix: {{get: 1, delete: 1, put: 1}}, name: b}}]", "blocks: 3\n")
    ranges = [beyond.written_beyond(document) for document in plan.documents()]
    assert [numbers is None for numbers in ranges].count(False) == 6
    ranges_sorted = sorted(numbers for numbers in ranges if numbers is not None)
    assert all(end <= first for (_, end), (first, _) in pairwise(ranges_sorted))
    assert ranges_sorted[0][0] > 100


def test_each_step_of_a_search_has_numbers_of_its_own_and_so_has_what_follows() -> None:
    plan = planned(f"[put, {SEARCH.replace('TRIALS', 'trials_max: 7')}, {MIX}]")
    search = next(trial for trial in plan.trials if trial.is_search)
    steps = [
        step_document(search.document, Measure(load=10, duration_s=1, stage="coarse"), number)
        for number in range(1, 8)
    ]
    after = plan.trials[plan.trials.index(search) + 1].document
    ranges = [beyond.written_beyond(document) for document in (*steps, after)]
    assert all(numbers is not None for numbers in ranges)
    assert all(numbers[1] <= other[0] for numbers, other in pairwise(ranges) if numbers and other)
    whole = beyond.written_beyond(search.document)
    assert whole is not None
    for document in steps:
        of_trial = beyond.written_beyond(document)
        assert of_trial is not None
        assert whole[0] <= of_trial[0] < of_trial[1] <= whole[1]


def test_a_clean_up_says_what_mixes_may_have_put_and_nothing_else() -> None:
    plan = planned(f"[put, {MIX}, {{mix: {{put: 1, get: 1}}, name: b}}]", "blocks: 2\n")
    clean_ups = [trial.document for trial in plan.trials if trial.phase == "clean-up"]
    assert len(clean_ups) == 2
    for block, document in enumerate(clean_ups, start=1):
        written = [
            beyond.written_beyond(trial.document)
            for trial in plan.trials
            if trial.is_measured and trial.document["block"] == block
        ]
        expected = beyond.merged(numbers for numbers in written if numbers is not None)
        assert document["ownership"]["written"] == [list(numbers) for numbers in expected]
    assert clean_ups[0]["ownership"] != clean_ups[1]["ownership"]
    for trial in planned("[put, get]").trials:
        assert trial.document["ownership"]["written"] == []


def test_a_clean_up_that_a_resume_puts_in_knows_of_mixes_too() -> None:
    plan = planned(f"[put, {MIX}, delete, create_bucket]")
    repairs = resume(plan, set(), started_ids={"0001"}).trials[0].document
    assert repairs["phase"] == "clean-up"
    written = beyond.written_beyond(plan.trials[1].document)
    assert written is not None
    assert repairs["ownership"]["written"] == [list(written)]


def test_more_steps_than_there_are_numbers_are_refused() -> None:
    with pytest.raises(CampaignError):
        planned(f"[put, {SEARCH.replace('TRIALS', 'trials_max: 600000000')}]")
