"""Implements `--fail-if`: checks a run against thresholds and determines the exit code."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadstone.cli import exit_code, plain
from loadstone.documents.mix import operations_of
from loadstone.errors import InputError

if TYPE_CHECKING:
    from loadstone.analysis import Findings
    from loadstone.analysis.judgements.thresholds import Threshold
    from loadstone.documents.trial import TrialDocument

CASES_SHOWN = 5

CONTRADICTIONS = frozenset({"clean-up-miscounted", "AUDIT_FAILED"})
"""Rules for stores that contradict their own acknowledgements."""


def read_thresholds(texts: Sequence[str] | None) -> tuple["Threshold", ...]:
    """Parse the typed thresholds, before anything is measured."""
    if not texts:
        return ()
    from loadstone.analysis.judgements.thresholds import parse_threshold

    return tuple(map(parse_threshold, texts))


def check_thresholds(
    thresholds: Sequence["Threshold"], documents: Sequence["TrialDocument"]
) -> None:
    """Refuse thresholds of operations that a plan does not measure, before hours of load.

    The operations of a script are known only after it has run.
    """
    if not thresholds:
        return
    measured = [document for document in documents if document.get("measured")]
    if any(document.get("script") for document in measured):
        return
    names: dict[str, None] = {}
    for document in measured:
        names |= dict.fromkeys((*operations_of(document), document["phase"]))
    for threshold in thresholds:
        if threshold.of is not None and threshold.of not in names:
            raise InputError(
                f'--fail-if "{threshold.text}": the run does not measure "{threshold.of}"',
                f"it measures: {', '.join(names)}",
            )


def judge_all(thresholds: Sequence["Threshold"], findings: "Findings | None") -> int:
    """Print the cases that crossed a threshold, and return the exit code.

    A threshold that cannot be decided is an error: the run must not pass.
    """
    from loadstone.analysis.judgements.thresholds import judge

    codes = {0}
    for threshold in thresholds:
        outcomes = judge(threshold, findings) if findings is not None else ()
        if findings is None:
            _say(f'error: --fail-if "{threshold.text}": the run has no result')
            codes.add(exit_code.FAILED)
        for is_crossed, word, code in (
            (True, "failed", exit_code.WORSE),
            (None, "error", exit_code.FAILED),
        ):
            outcomes_of_kind = [outcome for outcome in outcomes if outcome.is_crossed is is_crossed]
            for outcome in outcomes_of_kind[:CASES_SHOWN]:
                cannot = "" if is_crossed else "cannot be decided: "
                _say(
                    f'{word}: --fail-if "{threshold.text}": {cannot}{outcome.case}: {outcome.what}'
                )
            if len(outcomes_of_kind) > CASES_SHOWN:
                _say(f"{word}: and {len(outcomes_of_kind) - CASES_SHOWN} cases more")
            if outcomes_of_kind:
                codes.add(code)
    # A slow case takes precedence over an undecided one.
    return max(codes)


FAILURES = frozenset({"INVALID(errors)", "NOTHING", "EMPTY", "OUTAGE"})
"""Reasons of a void result that follow from failed requests."""


def judge_standing(findings: "Findings", *, are_failures_expected: bool) -> int:
    """Return the exit code of a run: an error without results, VOID if some must not be used.

    If failures are expected, results that are void only because of them do not count.
    """
    from loadstone.analysis.answers.answer import no_result
    from loadstone.analysis.judgements.standing import reason_words

    contradictions = [
        finding
        for finding in findings.findings
        if finding.rule in CONTRADICTIONS and finding.evidence
    ]
    for finding in contradictions:
        _say(f"error: {finding.statement}")
    if contradictions:
        return exit_code.FAILED
    others = findings.queries or findings.searches or findings.actions
    results = [result for result in findings.results if result.requests]
    if not results and not others and any(trial.is_measured for trial in findings.trials):
        _say(f"error: {no_result(findings)}")
        return exit_code.FAILED
    excused = FAILURES if are_failures_expected else frozenset[str]()
    void = [
        (result.name, [reason_words(name) for name in result.reasons if name not in excused])
        for result in results
        if result.is_void and not (excused and excused.issuperset(result.reasons))
    ]
    for name, reasons in void[:CASES_SHOWN]:
        _say(f"void: {name}: {'; '.join(reasons)}")
    if rest := void[CASES_SHOWN:]:
        words = dict.fromkeys(word for _, reasons in rest for word in reasons)
        _say(f"void: and {len(rest)} more results: {'; '.join(words)}")
    return exit_code.VOID if void else 0


def has_failed_outside(findings: "Findings") -> bool:
    """Tell, and print, whether requests failed while no fault was active."""
    failed = [finding for finding in findings.findings if finding.rule == "failed-outside-faults"]
    for finding in failed[:CASES_SHOWN]:
        _say(f"error: {finding.statement}")
    return bool(failed)


def _say(text: str) -> None:
    sys.stdout.flush()
    print(plain(text), file=sys.stderr)
