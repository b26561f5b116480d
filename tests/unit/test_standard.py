"""The declared standard and the disclosure: what a run meets, and what nobody stated."""

from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from loadstone.analysis import analyse
from loadstone.analysis.standard import RULES, declare, plan_hash
from loadstone.report.disclosure import render, standard_table
from loadstone.report.options import Options
from loadstone.results.record import Run
from loadstone.results.store import read_run
from tests.unit import synthetic_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return read_run(synthetic_run.write_sweep(tmp_path / "run"))


def status(run: Run) -> dict[str, str]:
    return {one.title: one.status for one in declare(run, analyse(run))}


def test_every_rule_is_answered_and_counted(run: Run) -> None:
    rules = declare(run, analyse(run))
    assert [one.number for one in rules] == list(range(1, 27))
    assert len(RULES) == 26
    assert all(one.because for one in rules)
    table = standard_table(run, analyse(run))
    met = sum(one.status == "met" for one in rules)
    assert table.caption.startswith(f"{met} of 26 rules are met")


def test_what_was_not_done_is_not_met(run: Run) -> None:
    found = status(run)
    assert found["The instrument is calibrated"] == "not met"
    assert found["Trials are interleaved"] == "not met"
    assert found["Acknowledged writes are audited"] == "not met"
    assert found["A capacity is confirmed"] == "not applicable"
    assert found["Throughput and latency stand together, against load"] == "met"
    assert found["Preconditions, fill and cache are stated"] == "unknown"


def test_statements_of_the_campaign_are_taken_as_they_are(run: Run) -> None:
    told = {"cache": "cold", "fill": "60 %", "preconditions": "none"}
    campaign = {**(run.manifest.get("campaign") or {}), "statements": told}
    stated = replace(run, manifest={**run.manifest, "campaign": campaign})
    assert status(stated)["Preconditions, fill and cache are stated"] == "met"
    text = render(stated, analyse(stated), Options()).decode()
    document = YAML(typ="safe").load(text)
    assert document["statements"]["cache"] == "cold"
    assert document["statements"]["sponsor"] is None
    assert len(document["standard"]) == 26
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
    assert status(named)["Named benchmarks only in full"] == "not met"


def test_of_what_another_tool_measured_no_rule_of_measuring_is_claimed(run: Run) -> None:
    told = {"from": "fio 3", "by": "loadstone"}
    found = status(replace(run, manifest={**run.manifest, "imported": told}))
    titles = ("The plan comes first", "Sums are honest", "Little's law holds")
    assert [status(run)[title] for title in titles] == ["met", "met", "met"]
    assert [found[title] for title in titles] == ["unknown", "unknown", "unknown"]
