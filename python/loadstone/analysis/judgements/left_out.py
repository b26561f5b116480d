"""Trials that a result goes without, for the client stalled in them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from loadstone.analysis.judgements.labels import STALLED, label_trial
from loadstone.analysis.measured.part import Part

AnyPart = TypeVar("AnyPart", bound=Part)


def without_stalled(parts: Sequence[AnyPart]) -> list[AnyPart]:
    """Return the parts without trials in which the client stalled, where those are the minority.

    What the client lacked there was its own, whatever it measured, and does not spoil what the
    other trials of a result found. Where it stalled in half of them, the others are in doubt, too:
    all of them stay.
    """
    trials: dict[tuple[object, ...], dict[str, bool]] = {}
    for part in parts:
        is_stalled = STALLED in label_trial(part.record)
        trials.setdefault(_result_of(part), {})[part.record.id] = is_stalled
    left_out = {
        result: tuple(trial for trial, is_stalled in own.items() if is_stalled)
        for result, own in trials.items()
        if 0 < 2 * sum(own.values()) < len(own)
    }
    if not left_out:
        return list(parts)
    kept = ((part, left_out.get(_result_of(part), ())) for part in parts)
    return [replace(part, left_out=out) for part, out in kept if part.record.id not in out]


def _result_of(part: Part) -> tuple[object, ...]:
    return *case_of(part), part.record.trial["round"]


def case_of(part: Part) -> tuple[str, ...]:
    """Return what tells the case of a part, and its operation, from others."""
    trial = part.record.trial
    case = trial["case"]
    parameters = json.dumps(case["parameters"], sort_keys=True)
    return case["target"], case["workload"], trial["phase"], part.operation, parameters
