"""Facts of targets: parameters of their results, which make several targets one system."""

import pytest

from loadstone.analysis import analyse
from loadstone.analysis.accounts.judged_account import read_account
from loadstone.analysis.judgements.judgement import judge_measured
from loadstone.analysis.measured.reading import read_measured
from loadstone.analysis.numbers.order import not_monotonic, rate_per_machine
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.errors import CampaignError, InputError
from loadstone.published import find_layout
from loadstone.report import Options
from loadstone.results.store import read_run
from tests.unit.campaign_drivers import DRIVERS
from tests.unit.synthetic_run import Folder, trial

CAMPAIGN = """\
name: labs
targets:
  ceph-4: {{driver: s3, endpoint: http://a, facts: {{system: ceph, nodes: 4}}}}
  ceph-5: {{driver: s3, endpoint: http://b, facts: {facts}}}
dataset: {{objects: 10, size: 4KiB}}
load: {{threads: 2}}
phases: [{{op: put}}]
{more}
"""
RATES = {
    ("old", 5, "ceph"): 140, ("new", 5, "ceph"): 350, ("new", 4, "ceph"): 500,
    ("old", 5, "swift"): 60, ("new", 5, "swift"): 90, ("new", 4, "swift"): 72,
}  # fmt: skip
"""Puts per second of each laboratory, number of nodes and system."""


def plan_of(facts="{system: ceph, nodes: 5}", more=""):
    campaign = parse_campaign(
        CAMPAIGN.format(facts=facts, more=more), (), drivers=DRIVERS, environ={}
    )
    return make_plan(campaign, DRIVERS, "0123456789abcdef" * 2)


@pytest.fixture(scope="module")
def labs(tmp_path_factory):
    folder = Folder(tmp_path_factory.mktemp("labs"), "labs", seconds=3)
    targets = {}
    for number, ((lab, nodes, system), rate) in enumerate(RATES.items(), start=1):
        name, facts = f"{system}-{lab}-{nodes}", {"system": system, "nodes": nodes, "lab": lab}
        document = trial(number, name, "put")
        document["case"]["parameters"] |= facts
        document["target"]["facts"] = facts
        targets[name] = {"driver": "s3", "facts": facts}
        folder.add(document, rate)
    return read_run(folder.close(campaign={"name": "labs", "targets": targets}, campaign_file=""))


def test_facts_are_parameters_of_every_measured_trial_and_stand_with_the_target() -> None:
    trials = [planned.document for planned in plan_of().trials if planned.is_measured]
    document_of = {document["target"]["name"]: document for document in trials}
    assert document_of["ceph-5"]["case"]["parameters"] == {
        "threads": 2, "size": 4096, "system": "ceph", "nodes": 5,
    }  # fmt: skip
    assert document_of["ceph-4"]["target"]["facts"] == {"system": "ceph", "nodes": 4}


@pytest.mark.parametrize(
    ("facts", "more", "path"),
    [
        ("{size: 5}", "", "targets.ceph-5.facts.size"),
        ("{Nodes: 5}", "", "targets.ceph-5.facts.Nodes"),
        ("{nodes: .inf}", "", "targets.ceph-5.facts.nodes"),
        ("{system: 5}", "", "targets.ceph-5.facts.system"),
        ("{system: ceph, nodes: 4}", "", "targets.ceph-5.facts"),
        ("{verify: 1}", "sweep: {verify: [0, 1]}", "sweep.verify"),
        ("{lab: new}", "report: {labels: {old: Old}}", "report.labels.old"),
    ],
)
def test_wrong_facts_are_refused_at_their_place(facts, more, path) -> None:
    with pytest.raises(CampaignError) as caught:
        plan_of(facts, more)
    assert path in [mistake.key for mistake in caught.value.mistakes]


def test_one_run_gives_a_table_for_each_laboratory_and_number_of_nodes(labs) -> None:
    options = Options(
        head="{size} {nodes} nodes Results",
        labels={"ceph": "Ceph", "4 KiB": "4 KB", "old": "Old laboratory"},
    )
    text = find_layout("hummingbird").render(analyse(labs), options)
    heads = [line.split("|")[1].strip() for line in text.splitlines() if "Results" in line]
    assert [line for line in text.splitlines() if line.startswith("# ")] == [
        "# Old laboratory", "# new",
    ]  # fmt: skip
    assert heads == ["4 KB 5 nodes Results"] * 2 + ["4 KB 4 nodes Results"]
    rows = [line.split() for line in text.splitlines() if line.startswith("| PUT/sec")]
    assert [[int(row[5]), int(row[7])] for row in rows] == [[140, 60], [350, 90], [500, 72]]
    assert text.count("| Ceph | swift |") == 3


def test_a_head_with_an_unknown_parameter_names_those_there_are(labs) -> None:
    with pytest.raises(InputError, match="nodes"):
        find_layout("hummingbird").render(analyse(labs), Options(head="{osds} OSDs"))


def test_systems_are_told_apart_by_their_other_facts(labs) -> None:
    account = read_account(labs)
    assert account.targets == ("ceph", "swift")
    assert all("system" not in measurement.parameters for measurement in account.measurements)
    (falls,) = not_monotonic(account)
    assert [round(evidence.value, 1) for evidence in falls.evidence] == [0.7]
    (per_node,) = rate_per_machine(account)
    assert [round(float(evidence.value), 2) for evidence in per_node.evidence] == [0.56, 1.0]


def test_facts_of_targets_that_are_no_instances_do_not_keep_them_from_comparison(labs) -> None:
    measured = read_measured(labs)
    for part in measured.parts:
        facts = part.record.trial["target"]["facts"]
        if "system" in facts:
            del facts["system"]
    account = judge_measured(labs, measured).account
    assert len(account.targets) == len(RATES)
    assert {tuple(sorted(measurement.parameters)) for measurement in account.measurements} == {
        ("size", "system", "threads")
    }
