"""Intents are on disk before objects are made, and known when the run is resumed."""

import json
from pathlib import Path
from typing import Any

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.execution import runner
from loadstone.results.intents import (
    INTENTS,
    Intents,
    intended,
    note_intent,
    note_unmade,
    note_volume,
)
from loadstone.results.layout import MANIFEST
from loadstone.results.writer import RunWriter
from tests.unit.campaign_drivers import DRIVERS, STORE
from tests.unit.fake_loadgen import FakeLoadgen


def document(name: str = "0001", prefix: str = "b-", target: str = "one") -> dict[str, Any]:
    return {
        "id": name,
        "target": {"name": target},
        "dataset": {"bucket_prefix": prefix},
        "ownership": {"adopt": [], "runs": [], "written": [[1, 2]]},
    }


def planned(phases: str) -> tuple[Plan, dict[str, Any]]:
    """Return a plan and the manifest of its run."""
    text = f"name: test\n{STORE}dataset: {{objects: 10, size: 1}}\nload: {{threads: 1}}\n"
    campaign = parse_campaign(f"{text}phases: {phases}\n", drivers=DRIVERS, environ={})
    plan = make_plan(campaign, DRIVERS)
    begun = {
        "name": "test",
        "run": plan.run,
        "seed": plan.seed,
        "plan": plan.documents(),
        "started": runner.now().isoformat(),
    }
    return plan, begun


def test_all_places_of_the_same_dataset_are_adopted_and_no_others(tmp_path: Path) -> None:
    note_intent(tmp_path, document("0001"), ["b-0"], "now")
    note_intent(tmp_path, document("0002"), ["b-1", "b-2"], "now")
    note_intent(tmp_path, document("0003", prefix="c-"), ["c-0"], "now")
    note_intent(tmp_path, document("0004", target="two"), ["b-3"], "now")
    with (tmp_path / INTENTS).open("a") as stream:
        stream.write('{"trial": "0002", "names": ["b-9"], "cut o')
    note_intent(tmp_path, document("0002"), ["b-2", "b-4"], "now")
    intents = Intents(tmp_path)
    assert intents.adopted(document("0009"))["ownership"] == {
        "adopt": ["b-0", "b-1", "b-2", "b-4"],
        "runs": [],
        "written": [[1, 2]],
    }
    assert intents.adopted(document(prefix="d-")) == document(prefix="d-")


def test_a_target_that_may_be_overwritten_is_one_device_in_all_rounds(tmp_path: Path) -> None:
    note_volume(tmp_path, document("0001"), "disk-1", "now")
    note_volume(tmp_path, document("0002", target="two"), "disk-2", "now")
    later = document("0003", prefix="c-")
    assert Intents(tmp_path).adopted(later) == later
    adopted = Intents(tmp_path).adopted({**later, "allow_foreign": True})
    assert adopted["ownership"]["volumes"] == ["disk-1"]


def test_a_trial_whose_places_were_all_refused_has_made_none(tmp_path: Path) -> None:
    trials = ["0001", "0002"]
    note_intent(tmp_path, document("0001"), ["b-0", "b-1"], "now")
    note_unmade(tmp_path, document("0001"), ["b-0"], "now")
    assert intended(tmp_path, trials) == {"0001"}
    note_unmade(tmp_path, document("0001"), ["b-1"], "now")
    assert intended(tmp_path, trials) == set()
    assert Intents(tmp_path).adopted(document("0001")) == document("0001")
    # A resumption may be luckier.
    note_intent(tmp_path, document("0001"), ["b-0", "b-1"], "now")
    assert intended(tmp_path, trials) == {"0001"}
    # A request without a response may still take effect after a later session is refused.
    note_intent(tmp_path, document("0001"), ["b-0"], "now")
    note_unmade(tmp_path, document("0001"), ["b-0", "b-1"], "now")
    assert intended(tmp_path, trials) == {"0001"}
    ownership = Intents(tmp_path).adopted(document("0001"))["ownership"]
    assert ownership["adopt"] == ["b-0"]


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_run_that_goes_on_adopts_what_it_was_about_to_make(
    tmp_path: Path, loadgen: FakeLoadgen, is_noted: bool
) -> None:
    plan, begun = planned("[put, get]")
    writer = RunWriter.create(tmp_path / "run", begun)
    # Killed between the journal and the mark: nothing else of the trial is there.
    if is_noted:
        note_intent(writer.path, plan.trials[0].document, ["loadstone"], "now")
    writer.close()
    runner.execute(plan, RunWriter.reopen(tmp_path / "run"), lambda event: None)
    adopted = [document["ownership"]["adopt"] for document in loadgen.documents]
    assert adopted == [["loadstone"] if is_noted else []] * len(plan.trials)


def test_a_clean_up_that_was_killed_adopts_what_a_finished_trial_has_made(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    """The kill came between the mark's deletion and the place's: it is bare again."""
    plan, begun = planned("[put]")
    loadgen.makes = {plan.trials[0].document["id"]: ["loadstone"]}
    runner.execute(plan, RunWriter.create(tmp_path / "run", begun), lambda event: None)
    manifest = tmp_path / "run" / MANIFEST
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "state": "interrupted"}))
    writer = RunWriter.reopen(tmp_path / "run")
    clean_up = plan.trials[-1].document
    assert clean_up["phase"] == "clean-up"
    assert writer.finished
    assert writer.intents.adopted(clean_up)["ownership"]["adopt"] == ["loadstone"]
    writer.close()


def test_intents_are_on_disk_before_the_load_generator_continues(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    plan, begun = planned("[put]")
    loadgen.makes = {"0001": ["b-0", "b-1"]}
    runner.execute(plan, RunWriter.create(tmp_path / "run", begun), lambda event: None)
    (line,) = (tmp_path / "run" / INTENTS).read_text().splitlines()
    assert json.loads(line)["names"] == ["b-0", "b-1"]
    assert json.loads(line)["trial"] == "0001"
