"""Interventions on the virtual clock: halving moves what it should, and verdicts follow."""

import datetime
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from loadstone import _loadgen
from loadstone.analysis import Findings, analyse
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.errors import CampaignError
from loadstone.execution import runner
from loadstone.report.tables.interventions import intervention_table
from loadstone.results.store import read_run
from loadstone.results.writer import RunWriter

DRIVERS = _loadgen.drivers(with_tests=True)
CAMPAIGN = """
name: halves
targets: {model: {driver: simulated, latency: exponential, mean_ns: 10000000, servers: 4}}
dataset: {objects: 1000, size: 4KiB}
load: {threads: THREADS, cores: 1}
interventions: [KINDS]
blocks: 3
phases: [{op: get, duration: 20s}]
"""


def plan_of(threads: int, kinds: str) -> Plan:
    text = CAMPAIGN.replace("THREADS", str(threads)).replace("KINDS", kinds)
    return make_plan(parse_campaign(text, drivers=DRIVERS, environ={}), DRIVERS)


def run(folder: Path, plan: Plan) -> Findings:
    started = datetime.datetime.now(datetime.UTC).isoformat()
    manifest = {
        "name": plan.name,
        "run": plan.run,
        "seed": plan.seed,
        "plan": plan.documents(),
        "started": started,
    }
    with RunWriter.create(folder, manifest) as writer:
        assert runner.execute(plan, writer, lambda event: None).state == "finished"
    return analyse(read_run(folder))


def test_changed_cases_run_beside_their_case_in_every_block() -> None:
    plan = plan_of(16, "half_clients, half_size")
    kinds = [trial.document["case"]["parameters"].get("intervention") for trial in plan.trials]
    blocks = [kinds[start : start + 3] for start in range(0, 9, 3)]
    assert all(set(block) == {None, "half_clients", "half_size"} for block in blocks)
    halved = {
        trial.document["intervention"]["kind"]: trial.document
        for trial in plan.trials
        if "intervention" in trial.document
    }
    assert halved["half_clients"]["load"]["clients"] == 8
    assert halved["half_size"]["dataset"]["size"]["bytes"] == 2048
    of = halved["half_size"]["intervention"]["of"]
    assert of == {"threads": 16, "size": 4096}


@pytest.mark.parametrize(
    ("threads", "ratio", "limit"), [(16, 1.0, "BEYOND_CLIENT"), (2, 0.5, "NOT_SATURATED")]
)
def test_half_the_clients_tell_a_full_queue_from_an_idle_one(
    tmp_path: Path, threads: int, ratio: float, limit: str
) -> None:
    findings = run(tmp_path / "run", plan_of(threads, "half_clients"))
    (change,) = findings.changes
    assert change.ratio.ratio == pytest.approx(ratio, rel=0.05)
    assert change.ratio.n_a == 3
    # The changed trials are not results: one cell represents the case, and its verdict uses them.
    (cell,) = findings.rounds
    assert cell.parameters == {"threads": threads, "size": 4096}
    verdict = cell.verdict
    assert verdict is not None
    assert verdict.limit == limit
    table = intervention_table(findings)
    assert table is not None
    assert table.rows[0][1] == "half the clients"


SWEPT = CAMPAIGN.replace("interventions: [KINDS]", "sweep: {hosts: [1, 2]}")


def of_hosts(campaign: str, servers: Callable[[int], int]) -> Plan:
    """Return a plan for two hosts that this one carries out, on a model that knows the hosts.

    With so many servers for each host the client is the bottleneck, with a fixed number the target.
    """
    text = campaign.replace("cores: 1", "cores: 1, per: total").replace("THREADS", "16")
    text += "hosts: {launch: local, count: 2}\n"
    plan = make_plan(parse_campaign(text, drivers=DRIVERS, environ={}), DRIVERS)
    trials = []
    for trial in plan.trials:
        document = trial.document.copy()
        count = document.pop("hosts")
        target = document["target"]
        settings = {**target["settings"], "servers": servers(count)}
        document["target"] = {**target, "settings": settings}
        trials.append(replace(trial, document=document))
    return replace(plan, trials=tuple(trials))


@pytest.mark.parametrize("campaign", [SWEPT, CAMPAIGN.replace("KINDS", "half_hosts")])
def test_hosts_that_add_up_were_the_limit(tmp_path: Path, campaign: str) -> None:
    findings = run(tmp_path / "clients", of_hosts(campaign, lambda hosts: 4 * hosts))
    first = findings.rounds[0]
    verdict = first.verdict
    assert verdict is not None
    assert (verdict.limit, verdict.grade) == ("INSTRUMENT_HOSTS", "A")
    findings = run(tmp_path / "target", of_hosts(campaign, lambda hosts: 4))
    assert all(
        verdict is None or verdict.effect == "none"
        for verdict in (judged.verdict for judged in findings.rounds)
    )


def test_settings_that_cannot_be_halved_are_refused() -> None:
    with pytest.raises(CampaignError, match="2 threads"):
        plan_of(1, "half_clients")
    with pytest.raises(CampaignError, match="2 hosts"):
        plan_of(4, "half_hosts")
