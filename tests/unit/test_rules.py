"""The one table of judgement: its rows are whole, its views follow, and a rule is one row."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone import analysis
from loadstone.analysis import analyse, numbers, rules
from loadstone.analysis.judgements import trial_findings
from loadstone.analysis.judgements.finding import Finding, by_severity
from loadstone.analysis.judgements.labels import LABELS, RESULT_LABELS, TRIAL_LABELS, VOIDING
from loadstone.analysis.judgements.run_view import RunView
from loadstone.analysis.rules import RULES, Rule, find_rule, of_runs
from loadstone.analysis.standards import linter, standard
from loadstone.published import rules as published_rules
from loadstone.report import REPORTS, Options
from loadstone.report.rules_reference import render_reference
from loadstone.results.record import Run
from loadstone.results.store import read_run
from tests.unit import synthetic_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run(synthetic_run.write_rounds(tmp_path_factory.mktemp("rounds"), seconds=4))


def find_odd_trials(view: RunView) -> Iterator[Finding]:
    """The function of a toy rule: trials with an odd number."""
    odd = tuple(trial.trial for trial in view.trials if int(trial.trial) % 2)
    yield Finding(rule="toy", statement=f"{len(odd)} trials are odd", cases=odd)


ALL_RULES = (*RULES, *numbers.RULES, *linter.RULES, *standard.RULES, *published_rules.RULES)

TOY = Rule(
    id="toy",
    views=("finding",),
    severity="caution",
    effect="precision",
    looks_at="run",
    says="trials with an odd number",
    means="Half of the numbers are odd.",
    do="Count in twos.",
)


def test_a_rule_is_one_function_and_one_row(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "toy" not in {finding.rule for finding in analyse(run).findings}
    monkeypatch.setattr(rules, "RULES", (*RULES, TOY))
    monkeypatch.setitem(rules._BY_ID, TOY.id, TOY)
    monkeypatch.setattr(trial_findings, "find_missing", find_odd_trials)
    findings = analyse(run)
    (toy_finding,) = [finding for finding in findings.findings if finding.rule == "toy"]
    assert (toy_finding.severity, toy_finding.effect, toy_finding.do) == (
        TOY.severity,
        TOY.effect,
        TOY.do,
    )
    assert set(toy_finding.cases) == {
        trial.trial for trial in findings.trials if int(trial.trial) % 2
    }
    for name in ("terminal", "markdown", "html", "json"):
        content = REPORTS[name].render(run, findings, Options(is_full=True)).decode()
        assert toy_finding.statement in content, name


def test_every_row_has_a_statement_a_meaning_and_a_remedy() -> None:
    ids = [rule.id for rule in ALL_RULES]
    assert len(ids) == len(set(ids))
    for rule in ALL_RULES:
        assert rule.says, rule.id
        assert rule.means.endswith("."), rule.id
        assert rule.do.endswith("."), rule.id
        assert rule.short or "limit" not in rule.views, rule.id
        assert all("label" in find_rule(label).views for label in rule.covers), rule.id


def test_each_row_is_asked_for() -> None:
    """A label has a function or is recorded, a finding of a run is made, others have a check."""
    recorded = {"RUNNING", "ALTERED", "CONTRADICTORY", "IMPORTED", "INCOMPLETE"}
    recorded |= {"FAILURES_NOT_STATED", "AUDIT_FAILED"}
    labels = set(TRIAL_LABELS) | set(RESULT_LABELS) | recorded
    assert labels == {rule.id for rule in ALL_RULES if "label" in rule.views}
    findings = {rule.id for rule in RULES if "finding" in rule.views}
    # One finding speaks for each resource of the client that reached a limit, by the flag's name.
    assert findings - made_in_source() == set(trial_findings.FLAGS) - made_in_source()
    assert all(rule.checks for rule in ALL_RULES if rule not in RULES)


def made_in_source() -> set[str]:
    """Return the ids that stand in the code of judgement, apart from the table."""
    package = Path(analysis.__file__).parent
    return {
        node.value
        for path in package.rglob("*.py")
        if path.parent.name != "rules"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_void_and_bound_labels_follow_from_the_table() -> None:
    assert {"CORRUPT", "STALLED", "LAG", "NOTHING"} <= VOIDING
    bounds = {name for name, rule in LABELS.items() if rule.effect == "bound"}
    assert bounds == {"INSTRUMENT_LIMITED", "HOST_LOST"}
    remarks = {name for name, rule in LABELS.items() if rule.severity == "note"}
    assert remarks == {"n=1", "SHORT", "IMPORTED", "FAILURES_NOT_STATED"}


def test_a_subject_of_one_finding_is_not_repeated_by_another() -> None:
    state = Finding(rule="cluster-state", statement="")
    shown = by_severity(
        [Finding(rule="UNHEALTHY", statement=""), Finding(rule="SHORT", statement="")]
    )
    assert len(shown) == 2
    shown_with_state = by_severity([*shown, state])
    assert [finding.rule for finding in shown_with_state] == ["cluster-state", "SHORT"]


def test_a_label_of_another_tool_stands_for_itself() -> None:
    assert find_rule("THEIRS").id == "THEIRS"


def test_the_rules_of_a_run_have_no_rows_without_findings(run: Run) -> None:
    """The functions of the table yield rows of the table."""
    ids = {rule.id for rule in ALL_RULES}
    assert {finding.rule for finding in analyse(run).findings} <= ids
    assert {rule.id for rule in of_runs.RULES} <= ids


def test_the_reference_of_findings_is_made_from_the_table(golden) -> None:  # type: ignore[no-untyped-def]
    golden("../../docs/reference/findings.md", render_reference(ALL_RULES).encode())


def test_no_function_outside_the_table_names_a_rule_of_its_own() -> None:
    package = Path(rules.__file__).parents[2]
    ids = {rule.id for rule in ALL_RULES}
    for path in package.rglob("*.py"):
        for line in path.read_text().splitlines():
            name = line.partition('rule="')[2].partition('"')[0]
            assert not name or name in ids, f"{path.name}: {name}"
