"""The first screens of runs whose users follow scripts: actions lead, requests are a detail."""

import json
import re
from pathlib import Path

import pytest

from loadstone.analysis import analyse
from loadstone.analysis.answers.answer import answer_of, answer_of_scripts
from loadstone.analysis.answers.headline import headline_of
from loadstone.analysis.cells.actions import OUT_OF_LINE
from loadstone.report import REPORTS, Options
from loadstone.results.store import read_run
from tests.conformance import store_under_test
from tests.system import campaigns
from tests.system.command import loadstone
from tests.system.test_scripts import SECRETS, USERS

BESIDE = """\
name: beside
targets: {{folder: {{driver: file, path: "{folder}"}}}}
load: {{threads: 3}}
rounds: 2
workloads:
  - name: users
    dataset: {{size: 4KiB, buckets: 2}}
    phases:
      - name: users
        script: {{generator: users, settings: {{users: 4, actions: 50, recipients: [1, 3]}}}}
  - {{name: plain, dataset: {{objects: 20, size: 4KiB}}, phases: [put]}}
"""


def test_the_first_screens_lead_with_actions_and_not_with_their_requests(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with store_under_test.store() as url:
        text = USERS.format(url=url, folder=folder) + "blocks: 2\n"
        text = text.replace("actions: 50", "actions: 50, recipients: [1, 3]")
        finished = loadstone(
            "run", campaigns.write(tmp_path, text), "-o", tmp_path / "run", environment=SECRETS
        )
    assert finished.code == 0, finished.err
    run = read_run(tmp_path / "run")
    findings = analyse(run)
    answer = answer_of(findings)
    scripts = answer_of_scripts(findings, answer)
    assert scripts is not None
    for result in scripts.whole.results:
        of_target = [each for each in scripts.each.results if each.target == result.target]
        assert {each.operation for each in of_target}.isdisjoint(OUT_OF_LINE)
        # All that clients completed is the sum of what they completed of each, trial by trial.
        assert result.good == sum(each.good for each in of_target)
        for place, rate in enumerate(result.trial_rates):
            rates = [each.trial_rates[place].requests_per_s for each in of_target]
            assert rate.requests_per_s == pytest.approx(sum(rates))
    if any(result.is_void for result in scripts.whole.results):
        pytest.skip("this host held the client up")
    headline = headline_of(findings, scripts.whole)
    # Two blocks do not suffice for a claim.
    assert re.search(r"\baction: .* [\d,.]+ actions/s, .* [\d,.]+ actions/s", headline.sentence)
    assert headline.ratio is not None
    assert (headline.ratio.of.ratio.n_a, headline.ratio.of.ratio.is_paired) == (2, True)
    tiles = {tile.key: tile.name for tile in headline.tiles}
    assert list(tiles)[:4] == ["rate", "ratio", "p99", "failed"]
    assert all("action" in tiles[key] for key in ("rate", "p99", "failed"))
    shown = REPORTS["terminal"].render(run, findings, Options(width=80)).decode().splitlines()
    assert len(shown) <= 24
    # A path or a command is there to be copied, and never broken.
    assert max(len(line) for line in shown if not line.startswith(" ")) <= 80
    lead = next(line for line in shown if line.startswith("Target"))
    assert lead.split()[:2] == ["Target", "Actions"]
    # Targets are side by side, action by action, and no action is missing.
    (head,) = [line.split() for line in shown if line.startswith("Action ")]
    assert head == ["Action", "store", "folder", "store", "p99", "folder", "p99", "Failed"]
    for name in ("CREATE_USER", "DELETE", "LIST", "READ", "SHARE", "WRITE"):
        assert sum(line.startswith(f"{name} ") for line in shown) == 1
    page = REPORTS["html"].render(run, findings, Options()).decode()
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert data["counted"] == "action"
    assert {result["operation"] for result in data["results"]} == {
        "DELETE",
        "LIST",
        "READ",
        "SHARE",
        "WRITE",
    }
    # The requests follow, in the table of results.
    assert 'data-operation="get (users)"' in page


def test_a_run_that_also_has_other_phases_leads_with_requests(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    text = BESIDE.format(folder=tmp_path / "data")
    file = campaigns.write(tmp_path, text)
    finished = loadstone("run", file, "-o", tmp_path / "run")
    assert finished.code == 0, finished.err
    findings = analyse(read_run(tmp_path / "run"))
    assert answer_of_scripts(findings, answer_of(findings)) is None
    # Its actions are there all the same, those of both rounds as one case.
    (whole,) = findings.action_totals
    assert len(whole.cell.trial_rates) == 2
    assert whole.cell.requests == sum(
        action.cell.requests for action in findings.actions if action.action not in OUT_OF_LINE
    )
