"""Trials left out of results, since the client or the record was at fault."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from loadstone.analysis.cells.little import has_too_many_in_flight
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.judgements.labels import (
    LEFT_OUT,
    OUTAGE_SHARE,
    VOIDING,
    label_trial,
    outage_share,
)
from loadstone.analysis.judgements.run_view import RunView
from loadstone.analysis.judgements.validity import FAILED_MAX, failed_share
from loadstone.analysis.measured.part import SECOND_NS, Part
from loadstone.analysis.rules import label_words

AnyPart = TypeVar("AnyPart", bound=Part)

Reasons = Mapping[str, tuple[str, ...]]
"""The labels for which each trial could be left out, by the trial's id."""

NAMED = 6


# A trial is left out for faults of the client or the record, if less than half of a result's trials
# have one. Trials in which the target may have failed stay in: without them it would look better
# than it is.
def spoiled_trials(parts: Sequence[Part]) -> Reasons:
    """Return the trials that only the client or the record spoiled, with their labels."""
    trials = grouped(parts, lambda part: part.record.id)
    reasons = {name: _reasons(of_trial) for name, of_trial in trials.items()}
    return {name: labels for name, labels in reasons.items() if labels}


def without_spoiled(parts: Sequence[AnyPart], reasons: Reasons) -> list[AnyPart]:
    """Return the parts without spoiled trials, where those are the minority of a result.

    If half of a result's trials are spoiled, the others are in doubt too, and all of them stay.
    """
    left_out = _left_out(parts, reasons)
    if not left_out:
        return list(parts)
    excluded = ((part, left_out.get(_result_of(part), ())) for part in parts)
    return [
        replace(part, left_out=tuple(trials))
        for part, trials in excluded
        if part.record.id not in trials
    ]


def find_left_out(view: RunView) -> Iterator[Finding]:
    """Report which trials are left out of their results, and why."""
    reasons = spoiled_trials(view.parts)
    left_out = _left_out(view.parts, reasons)
    trials = sorted({trial for excluded in left_out.values() for trial in excluded})
    if not trials:
        return
    words = [f"trial {trial} ({', '.join(map(label_words, reasons[trial]))})" for trial in trials]
    more = f" and {len(words) - NAMED} more" if len(words) > NAMED else ""
    yield Finding(
        "LEFT_OUT",
        f"{len(left_out)} results go without trials in which the client or the record"
        f" was at fault: {'; '.join(words[:NAMED])}{more}",
        cases=tuple(f"trial {trial}" for trial in trials),
    )


def _left_out(parts: Sequence[Part], reasons: Reasons) -> dict[tuple[object, ...], Collection[str]]:
    """Return the trials that are left out of each result that leaves out any."""
    trials: dict[tuple[object, ...], dict[str, None]] = {}
    for part in parts:
        trials.setdefault(_result_of(part), {})[part.record.id] = None
    spoiled = {
        result: [trial for trial in of_result if trial in reasons]
        for result, of_result in trials.items()
    }
    return {
        result: excluded
        for result, excluded in spoiled.items()
        if 0 < 2 * len(excluded) < len(trials[result])
    }


def _reasons(parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the labels for which a trial could be left out; none where it shows the target."""
    labels = label_trial(parts[0].record)
    if set(labels) & (VOIDING - LEFT_OUT) or _may_be_the_target(parts):
        return ()
    operations = grouped(parts, lambda part: part.operation)
    # LITTLE is a label of results, which do not exist yet: this checks a single trial.
    is_little = any(has_too_many_in_flight(of_one) for of_one in operations.values())
    candidates = (*labels, *(["LITTLE"] if is_little else []))
    return tuple(label for label in candidates if label in LEFT_OUT)


def _may_be_the_target(parts: Sequence[Part]) -> bool:
    """Tell whether a trial's target failed or was away."""
    summary = parts[0].record.summary
    failed, requests = summary.get("failed") or 0, summary.get("requests") or 0
    is_failing = (failed_share(good=requests - failed, failed=failed) or 0.0) > FAILED_MAX
    return (
        is_failing
        or not any(part.good for part in parts)
        or any(
            outage_share(part, part.mix.median_ns / SECOND_NS) > OUTAGE_SHARE
            for part in parts
            if part.errors
        )
    )


def _result_of(part: Part) -> tuple[object, ...]:
    return *part.case, part.record.trial["round"]
