"""The largest load under a service-level objective: which trial to run next, from those that were
run.

A pure function of the trials so far, so that a search can be stopped, resumed and checked without a
target. Loads are classified as in draft-ietf-bmwg-mlrsearch: by the summed durations of their good
and bad trials, and not by a single trial, for one disturbed trial must not decide.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Stage = Literal["coarse", "fine", "confirm"]
Class = Literal["lower", "upper", "undecided"]

LOWER_AFTER_FAILED_CONFIRM = 0.98
COARSE_WIDTH = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What counts as capacity, and how hard to look.

    A trial is good when its latency quantile is at most `latency_ns_max`, at most `errors_max` of
    its requests fail and at least `achieved_min` of the load was achieved. A load passes when at
    most `exceed` of `duration_sum_s` is bad. The bounds end up at most `width` apart, relatively.
    """

    latency_ns_max: int
    quantile: float = 0.99
    errors_max: float = 0.001
    achieved_min: float = 0.99
    width: float = 0.01
    trial_s: float = 60.0
    coarse_trial_s: float = 10.0
    duration_sum_s: float = 180.0
    exceed: float = 0.5
    confirm_trials: int = 5
    confirm_good_min: int = 4
    trials_max: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTrial:
    """One trial of the search: the load it offered, how long, and whether it met the goal."""

    load: float
    duration_s: float
    stage: Stage
    is_good: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The search wants this load measured for so long next."""

    load: float
    duration_s: float
    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The search is over.

    `lower` is the confirmed capacity, None when even the lowest load fails; `upper` the smallest
    load that fails, None when even the highest passes. `is_confirmed` is False when the search gave
    up, and `reason` then says why.
    """

    lower: float | None
    upper: float | None
    is_confirmed: bool
    reason: str
    trials: int


def is_good(goal: Goal, *, latency_ns: float | None, errors: float, achieved: float) -> bool:
    """Tell whether a trial met the goal; a quantile that could not be read has not met it."""
    return (
        latency_ns is not None
        and latency_ns <= goal.latency_ns_max
        and errors <= goal.errors_max
        and achieved >= goal.achieved_min
    )


def next_step(
    goal: Goal, trials: Sequence[SearchTrial], *, load_min: float, load_max: float
) -> Measure | Found:
    """Return what to do after these trials, given the loads to search between."""
    if len(trials) >= goal.trials_max:
        lower, upper = bounds(goal, trials)
        reason = f"gave up after {goal.trials_max} trials"
        return Found(
            lower=lower, upper=upper, is_confirmed=False, reason=reason, trials=len(trials)
        )
    coarse = _coarse_step(goal, trials, load_min, load_max)
    if coarse is not None:
        return coarse
    fine = _fine_step(goal, trials, load_min, load_max)
    if isinstance(fine, Measure):
        return fine
    return _confirm_step(goal, trials, fine, load_min)


def classify(goal: Goal, trials: Iterable[SearchTrial]) -> Class:
    """Classify one load by its trials.

    With bad and good durations of full and of short trials and e = `exceed`:
    high = bad_full + max(0, bad_short - good_short · e/(1-e)), whole = max(good_full + high, sum);
    a lower bound if whole - good_full ≤ e · whole, an upper bound if high > e · whole.
    """
    sums = {(is_full, good): 0.0 for is_full in (True, False) for good in (True, False)}
    for trial in trials:
        sums[trial.duration_s >= goal.trial_s, trial.is_good] += trial.duration_s
    excess = sums[False, False] - sums[False, True] * goal.exceed / (1 - goal.exceed)
    high = sums[True, False] + max(0.0, excess)
    whole = max(sums[True, True] + high, goal.duration_sum_s)
    if whole - sums[True, True] <= goal.exceed * whole:
        return "lower"
    if high > goal.exceed * whole:
        return "upper"
    return "undecided"


def bounds(goal: Goal, trials: Sequence[SearchTrial]) -> tuple[float | None, float | None]:
    """Return the relevant bounds: the smallest failing load, and the largest passing below it."""
    classes = _classes(goal, trials)
    upper = min((load for load, kind in classes.items() if kind == "upper"), default=None)
    passing = [
        load
        for load, kind in classes.items()
        if kind == "lower" and (upper is None or load < upper)
    ]
    return max(passing, default=None), upper


def _classes(goal: Goal, trials: Sequence[SearchTrial]) -> dict[float, Class]:
    by_load: dict[float, list[SearchTrial]] = {}
    for trial in trials:
        # Fresh trials that confirm a bound must not help to classify it, nor the other way round.
        if trial.stage != "confirm":
            by_load.setdefault(trial.load, []).append(trial)
    return {load: classify(goal, own) for load, own in by_load.items()}


def _coarse_step(
    goal: Goal, trials: Sequence[SearchTrial], load_min: float, load_max: float
) -> Measure | None:
    """Bisect geometrically with short trials; the bracket only guides the fine stage."""
    if any(trial.stage != "coarse" for trial in trials):
        return None
    verdicts = _coarse_verdicts(trials)
    open_loads = [load for load, is_passing in verdicts.items() if is_passing is None]
    if open_loads:
        return Measure(load=open_loads[0], duration_s=goal.coarse_trial_s, stage="coarse")
    for end in (load_min, load_max):
        if end not in verdicts:
            return Measure(load=end, duration_s=goal.coarse_trial_s, stage="coarse")
        if verdicts[end] is (end == load_max):
            # The lowest load fails or the highest passes: there is nothing to bisect.
            return None
    low, high = _coarse_bracket(trials, load_min, load_max)
    if high / low <= 1 + COARSE_WIDTH:
        return None
    return Measure(load=math.sqrt(low * high), duration_s=goal.coarse_trial_s, stage="coarse")


def _coarse_verdicts(trials: Sequence[SearchTrial]) -> dict[float, bool | None]:
    """Return whether each load passes; a bad trial is repeated until two of them agree."""
    verdicts: dict[float, bool | None] = {}
    for load in dict.fromkeys(trial.load for trial in trials if trial.stage == "coarse"):
        own = [trial.is_good for trial in trials if trial.stage == "coarse" and trial.load == load]
        bad = own.count(False)
        verdicts[load] = True if own[0] or own.count(True) == 2 else False if bad == 2 else None
    return verdicts


def _coarse_bracket(
    trials: Sequence[SearchTrial], load_min: float, load_max: float
) -> tuple[float, float]:
    verdicts = _coarse_verdicts(trials)
    high = min((load for load, passes in verdicts.items() if passes is False), default=load_max)
    passing = [load for load, passes in verdicts.items() if passes and load <= high]
    return max(passing, default=load_min), high


def _fine_step(
    goal: Goal, trials: Sequence[SearchTrial], load_min: float, load_max: float
) -> Measure | tuple[float | None, float | None]:
    """Return the next full trial, or the relevant bounds once they are close enough."""
    classes = _classes(goal, trials)
    lower, upper = bounds(goal, trials)
    undecided = _undecided(trials, classes)
    low, high = _coarse_bracket(trials, load_min, load_max)
    if lower is None and upper is None:
        return _full(goal, undecided[0] if undecided else low)
    if lower is None:
        assert upper is not None, "the case of no bound at all stands above"
        if upper <= load_min:
            return None, upper
        below = [load for load in undecided if load < upper]
        step = _expansion(classes, "upper")
        return _full(goal, max(below) if below else max(load_min, upper / step))
    if upper is None:
        if lower >= load_max:
            return lower, None
        above = [load for load in undecided if load > lower]
        wanted = high if high > lower else min(load_max, lower * _expansion(classes, "lower"))
        return _full(goal, min(above) if above else wanted)
    if (upper - lower) / upper <= goal.width:
        return lower, upper
    between = [load for load in undecided if lower < load < upper]
    return _full(goal, between[0] if between else math.sqrt(lower * upper))


def _expansion(classes: Mapping[float, Class], kind: Class) -> float:
    """Return the factor of the next step outwards; it grows, for the bracket was wrong.

    A crawl would meet the same disturbance at many loads, and be stopped by one of them.
    """
    outwards = sum(found == kind for found in classes.values())
    return float((1 + COARSE_WIDTH) ** (2 ** (outwards - 1)))


def _undecided(trials: Sequence[SearchTrial], classes: Mapping[float, Class]) -> list[float]:
    """Return the loads that full trials have begun to classify and not yet decided."""
    begun = {trial.load for trial in trials if trial.stage == "fine"}
    return [load for load, kind in classes.items() if kind == "undecided" and load in begun]


def _confirm_step(
    goal: Goal,
    trials: Sequence[SearchTrial],
    found: tuple[float | None, float | None],
    load_min: float,
) -> Measure | Found:
    """Ask for fresh trials at the lower bound, and go down by 2 % until enough of them are good."""
    lower, upper = found
    if lower is None:
        return Found(
            lower=None,
            upper=upper,
            is_confirmed=True,
            reason="even the lowest load fails",
            trials=len(trials),
        )
    candidate = lower
    while True:
        own = [t for t in trials if t.stage == "confirm" and t.load == candidate]
        good = sum(trial.is_good for trial in own)
        bad = len(own) - good
        if good >= goal.confirm_good_min:
            reason = "confirmed" if upper is not None else "even the highest load passes"
            return Found(
                lower=candidate,
                upper=upper,
                is_confirmed=True,
                reason=reason,
                trials=len(trials),
            )
        if bad <= goal.confirm_trials - goal.confirm_good_min:
            return Measure(load=candidate, duration_s=goal.trial_s, stage="confirm")
        upper = candidate
        candidate *= LOWER_AFTER_FAILED_CONFIRM
        if candidate < load_min:
            return Found(
                lower=None,
                upper=upper,
                is_confirmed=True,
                reason="no load could be confirmed",
                trials=len(trials),
            )


def _full(goal: Goal, load: float) -> Measure:
    return Measure(load=load, duration_s=goal.trial_s, stage="fine")
