"""The declared standard and the disclosure: rules that a run meets, and what is not stated."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ruamel.yaml import YAML

from loadstone.analysis import analyse
from loadstone.analysis.limits.searches import CapacitySearch
from loadstone.analysis.standards import linter
from loadstone.analysis.standards.standard import RULES, declare, plan_hash
from loadstone.report import REPORTS
from loadstone.report.formats.disclosure import render, standard_table
from loadstone.report.options import Options
from loadstone.results.record import Run
from loadstone.results.store import read_run
from tests.unit import synthetic_run
from tests.unit.synthetic_run import Folder, trial

PLANNED = "plan-not-run"
RATIO = "not-comparable"
CALIBRATED = "no-ceiling"
PRECONDITIONS = "preconditions-not-stated"
INTERLEAVED = "not-interleaved"
UNIT = "trials-of-one-block"
FAMILY = "uncorrected-family"
STARTS = "late-requests"
LITTLES_LAW = "littles-law"
CURVE = "one-load"
CAPACITY = "capacity-not-confirmed"
AUDIT = "writes-not-audited"
NAMED = "named-benchmark"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return read_run(synthetic_run.write_sweep(tmp_path / "run"))


def status(run: Run) -> dict[str, str]:
    return {rule.rule: rule.status for rule in declare(run, analyse(run))}


def test_every_rule_is_answered_and_counted(run: Run) -> None:
    rules = declare(run, analyse(run))
    asked = [rule.id for rule in (*RULES, *linter.RULES) if rule in RULES or rule.asks]
    assert [rule.rule for rule in rules] == asked
    assert all(rule.because for rule in rules)
    table = standard_table(run, analyse(run))
    met = sum(rule.status == "met" for rule in rules)
    assert table.caption.startswith(f"{met} of {len(asked)} ")


def test_a_rule_without_its_work_is_not_met(run: Run) -> None:
    status_of = status(run)
    assert status_of[CALIBRATED] == "not met"
    assert status_of[INTERLEAVED] == "not applicable"
    assert status_of[PLANNED] == "not met"
    assert status_of[AUDIT] == "not applicable"
    assert status_of[CAPACITY] == "not applicable"
    assert status_of[CURVE] == "met"
    assert status_of[PRECONDITIONS] == "unknown"


def test_statements_of_the_campaign_are_taken_as_they_are(run: Run) -> None:
    statements = {"cache": "cold", "fill": "60 %", "preconditions": "none"}
    campaign = {**(run.manifest.get("campaign") or {}), "statements": statements}
    stated = replace(run, manifest={**run.manifest, "campaign": campaign})
    assert status(stated)[PRECONDITIONS] == "met"
    text = render(stated, analyse(stated), Options(is_full=True)).decode()
    document = YAML(typ="safe").load(text)
    assert document["statements"]["cache"] == "cold"
    assert document["statements"]["sponsor"] is None
    assert len(document["standard"]) == len(declare(stated, analyse(stated)))
    assert document["plan"]["sha256"] == plan_hash(run)


def test_the_hash_is_that_of_the_plan_alone(run: Run) -> None:
    plan = list(run.manifest["plan"])
    step = {**plan[0], "id": "0001-001", "search": {"of": plan[0]["id"]}}
    longer = replace(run, manifest={**run.manifest, "plan": [*plan, step]})
    assert plan_hash(longer) == plan_hash(run)
    other = replace(run, manifest={**run.manifest, "plan": plan[1:]})
    assert plan_hash(other) != plan_hash(run)


def test_the_name_of_an_official_benchmark_is_seen(run: Run) -> None:
    named = replace(run, manifest={**run.manifest, "name": "TPC-H on Ceph"})
    assert status(named)[NAMED] == "not met"


def test_imported_results_claim_no_rule_of_measuring(run: Run) -> None:
    imported = {"from": "fio 3", "by": "loadstone"}
    status_of = status(replace(run, manifest={**run.manifest, "imported": imported}))
    rules = (STARTS, LITTLES_LAW)
    assert [status(run)[rule] for rule in rules] == ["met", "met"]
    assert [status_of[rule] for rule in rules] == ["unknown", "unknown"]


def answer(run: Run, rule: str) -> tuple[str, str]:
    (declared,) = [
        declared_rule for declared_rule in declare(run, analyse(run)) if declared_rule.rule == rule
    ]
    return declared.status, declared.because


def write_two(path: Path, blocks: int, same_block: bool = False, **settings: str) -> Run:
    """Two targets in turns, put and get; the settings are those of the second alone."""
    folder = synthetic_run.Folder(path, "two", 4)
    number = 0
    for block in range(1, blocks + 1):
        for target, rate in (("a", 100), ("b", 150)):
            for operation in ("put", "get"):
                number += 1
                document = synthetic_run.trial(
                    number, target, operation, block=1 if same_block else block
                )
                document["target"]["settings"] |= settings if target == "b" else {}
                folder.add(document, rate + block)
    return read_run(folder.close(campaign={"targets": {"a": {}, "b": {}}}, campaign_file=""))


def stated(run: Run) -> Run:
    statements = {"redundancy": "3 copies, acknowledged by all", "consistency": "read after write"}
    campaign = {**run.manifest["campaign"], "statements": statements}
    return replace(run, manifest={**run.manifest, "campaign": campaign})


def test_a_ratio_needs_the_same_key_and_what_only_people_can_say(tmp_path: Path) -> None:
    run = write_two(tmp_path / "run", 6)
    status, because = answer(run, RATIO)
    assert status == "unknown"
    assert because.endswith(": redundancy, consistency")
    status, because = answer(stated(run), RATIO)
    assert status == "met"
    assert "2 targets" in because
    assert "3 copies" in because


def test_targets_that_differ_in_several_fields_are_not_comparable(tmp_path: Path) -> None:
    with_paths = stated(write_two(tmp_path / "one", 6, addressing="path"))
    assert answer(with_paths, RATIO)[0] == "met"
    assert "setting addressing" in answer(with_paths, RATIO)[1]
    two = stated(write_two(tmp_path / "two", 6, addressing="path", checksum="crc32c"))
    status, because = answer(two, RATIO)
    assert status == "not met"
    assert "setting checksum" in because


def test_n_is_read_from_the_blocks_of_the_trials(tmp_path: Path) -> None:
    assert answer(write_two(tmp_path / "six", 6), UNIT)[0] == "met"
    assert "n = 6 trials" in answer(write_two(tmp_path / "again", 6), UNIT)[1]
    assert answer(write_two(tmp_path / "one", 1), UNIT)[0] == "not applicable"
    status, because = answer(write_two(tmp_path / "crowded", 3, same_block=True), UNIT)
    assert status == "not met"
    assert "one block" in because


def test_a_family_is_what_the_run_compares(tmp_path: Path, run: Run) -> None:
    assert answer(run, FAMILY)[0] == "not applicable"
    status, because = answer(write_two(tmp_path / "six", 6), FAMILY)
    assert status == "met"
    assert "Holm" in because


def test_an_audit_is_asked_of_writes_alone(tmp_path: Path, run: Run) -> None:
    assert answer(run, AUDIT)[0] == "not applicable"
    two = write_two(tmp_path / "run", 2)
    status, because = answer(two, AUDIT)
    assert status == "not met"
    # Two blocks of four seconds: 101 and 102 puts a second of a, 151 and 152 of b.
    assert because.startswith(f"{4 * (101 + 102 + 151 + 152):,} requests ")


def test_imported_results_leave_these_rules_undecided(tmp_path: Path) -> None:
    run = stated(write_two(tmp_path / "run", 6))
    imported = {"from": "fio 3", "by": "loadstone"}
    foreign = replace(run, manifest={**run.manifest, "imported": imported})
    for rule in (RATIO, UNIT, AUDIT):
        assert answer(foreign, rule)[0] == "unknown"


def test_the_common_mistakes_stand_in_every_readable_report(run: Run) -> None:
    findings = analyse(run)
    assert [mistake.id for mistake in findings.mistakes] == [rule.id for rule in linter.RULES]
    made = [mistake.mistake for mistake in findings.mistakes if mistake.outcome == "fail"]
    assert made
    for name in ("html", "markdown", "json", "disclosure", "terminal"):
        text = REPORTS[name].render(run, findings, Options(is_full=True)).decode()
        assert all(sentence in text for sentence in made), name


def test_a_capacity_is_confirmed_when_it_has_both_bounds_and_no_doubt(run: Run) -> None:
    def declared_of(**changes: Any) -> tuple[str, str]:
        capacity = {
            "name": "ceph, get",
            "upper": 120.0,
            "is_confirmed": True,
            "is_doubted": False,
        }
        search = cast("CapacitySearch", SimpleNamespace(**{**capacity, **changes}))
        searched = replace(analyse(run), searches=(search,))
        (declared,) = [rule for rule in declare(run, searched) if rule.rule == CAPACITY]
        return declared.status, declared.because

    assert declared_of()[0] == "met"
    for lacking in ({"is_confirmed": False}, {"is_doubted": True}, {"upper": None}):
        status, because = declared_of(**lacking)
        assert status == "not met"
        assert because.endswith(": ceph, get")


@pytest.mark.parametrize("is_stated", [True, False])
def test_statements_about_targets_reach_every_rule(tmp_path: Path, is_stated: bool) -> None:
    folder = Folder(tmp_path / "run", "stated", 3)
    for number, target in enumerate(("one", "other")):
        folder.add(trial(number + 1, target, "get", clients=4, block=1), 300)
    statements = {"configuration": "defaults", "redundancy": "3 copies", "cache": "cold"}
    campaign = {"targets": {"one": {}, "other": {}}, "statements": statements if is_stated else {}}
    findings = analyse(read_run(folder.close(campaign=campaign, campaign_file="")))
    outcomes = {mistake.id: mistake.outcome for mistake in findings.mistakes}
    expected = "pass" if is_stated else "not stated"
    assert outcomes["unequal-tuning"] == outcomes["durability-differs"] == expected
    # The dataset is smaller than the memory of the client.
    assert outcomes["cache-measured"] == ("pass" if is_stated else "fail")


@pytest.mark.parametrize(
    ("seconds", "wobble", "outcome"),
    [(300, 0.05, "pass"), (300, 0.95, "fail"), (3, 0.05, "not stated")],
)
def test_a_steady_state_is_claimed_of_five_rounds_of_a_minute(
    tmp_path: Path, seconds: int, wobble: float, outcome: str
) -> None:
    folder = Folder(tmp_path / "run", "steady", seconds)
    folder.add(trial(1, "one", "get", clients=4), 300, wobble=wobble)
    folder.close(campaign={"targets": {"one": {}}}, campaign_file="")
    findings = analyse(read_run(folder.path))
    assert {mistake.id: mistake.outcome for mistake in findings.mistakes}["unsteady"] == outcome
