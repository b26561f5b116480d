"""Searches the largest load that meets a service-level objective: chooses the next trial.

A pure function of the trials so far, so that a search can be stopped, resumed and tested without a
target. Loads are classified as in draft-ietf-bmwg-mlrsearch: by the summed durations of their good
and bad trials instead of by a single trial, which one disturbance could decide.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, cast

from loadstone import units
from loadstone.documents.trial import GoalDocument, LoadsDocument

Stage = Literal["coarse", "fine", "confirm"]
Class = Literal["lower", "upper", "undecided"]
End = Literal[
    "confirmed", "highest passes", "lowest fails", "none confirmed", "gave up", "not over"
]
"""How a search ended; "not over" if trials are missing."""

# A percentile is read when ten requests lie beyond it; arrivals vary, so a trial is planned for a
# few more, and is prolonged if its load is too low for that.
BEYOND_QUANTILE = 12
WARM_UP_SHARE = 1 / 6

LOWER_AFTER_FAILED_CONFIRM = 0.98
COARSE_WIDTH = 0.05

# Without a bound, the search expands from its start by this factor, at most this often.
STRIDE = 4
STRIDES_DOWN = 3
STRIDES_UP = 12
DIGITS = 5

STALLED_SHARE = 0.5
"""A bad trial is attributed to the client if the client stalled for at least this fraction of the
share of requests that may exceed the objective.
"""
STALLED_MAX = 3
"""At most this many such trials of a load and stage are discarded; later bad ones count."""
DOUBT = "the upper bound fails only while the client's host stalls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The objective of a search, and its effort.

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
    time_max_s: float = math.inf

    def document(self) -> GoalDocument:
        """Return the objective as in trial documents."""
        return cast(GoalDocument, asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """The range of loads to search; a missing bound is found by expanding from `start`.

    If `is_whole`, loads are counts such as threads; otherwise rates.
    """

    start: float
    low: float | None = None
    high: float | None = None
    is_whole: bool = False

    def document(self) -> LoadsDocument:
        """Return the range as in trial documents."""
        return cast(LoadsDocument, asdict(self))

    @property
    def floor(self) -> float:
        """The lowest load to try."""
        least = self.low if self.low is not None else self.start / STRIDE**STRIDES_DOWN
        return max(1.0, least) if self.is_whole else least

    @property
    def ceiling(self) -> float:
        """The highest load to try."""
        return self.high if self.high is not None else self.start * STRIDE**STRIDES_UP

    def between(self, low: float, high: float) -> float | None:
        """Return the geometric mean of two loads on the grid, if it lies strictly between them."""
        middle = self.on_grid(math.sqrt(low * high))
        middle = max(middle, low + 1) if self.is_whole else middle
        return middle if low < middle < high else None

    def on_grid(self, load: float) -> float:
        """Round a load to the grid: a whole number of threads, or a rate with few digits."""
        inside = min(max(load, self.floor), self.ceiling)
        if self.is_whole:
            return float(math.floor(inside + 1e-9))
        return inside if inside in (self.floor, self.ceiling) else float(f"{inside:.{DIGITS}g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The figures of a trial that the goal is checked against; a missing latency could not be read.

    `errors` is the share of failed requests, `achieved` the achieved share of the offered load, and
    `stalled` the share of the time in which the client's host stalled.
    """

    latency_ns: float | None
    errors: float
    achieved: float
    stalled: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTrial:
    """One trial of the search: the offered load, its duration, and whether it met the goal.

    `elapsed_s` is the whole duration of the trial including warm-up. `is_stalled` means that it is
    bad and that the client's host stalled long enough to explain it.
    """

    load: float
    duration_s: float
    stage: Stage
    is_good: bool
    elapsed_s: float = 0.0
    is_stalled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The search needs a trial of this load and duration next."""

    load: float
    duration_s: float
    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCapacity:
    """The result of a finished search.

    `lower` is the confirmed capacity, None if even the lowest load fails; `upper` is the smallest
    failing load, None if even the highest passes. `is_doubted` means that only trials with a
    stalled client missed the goal at `upper`. `is_confirmed` is False when the search gave up, or
    has no lower bound and a doubtful upper one; `end` is the cause, and `reason` states it in
    words.
    """

    lower: float | None
    upper: float | None
    is_confirmed: bool
    end: End
    reason: str
    trials: int
    is_doubted: bool = False


def is_good(goal: Goal, observation: Observation) -> bool:
    """Tell whether a trial met the goal; an unreadable quantile does not meet it."""
    return (
        observation.latency_ns is not None
        and observation.latency_ns <= goal.latency_ns_max
        and observation.errors <= goal.errors_max
        and observation.achieved >= goal.achieved_min
    )


def is_stalled(goal: Goal, observation: Observation) -> bool:
    """Tell whether a trial missed the goal and its client stalled long enough to explain it."""
    return not is_good(goal, observation) and observation.stalled > STALLED_SHARE * (
        1 - goal.quantile
    )


def are_counted(trials: Iterable[SearchTrial]) -> tuple[bool, ...]:
    """Tell for each trial whether it counts.

    All do, except the first few of each load and stage with a stalled client.
    """
    spoiled: Counter[tuple[float, Stage]] = Counter()
    are_told = []
    for trial in trials:
        load_and_stage = (trial.load, trial.stage)
        are_told.append(not trial.is_stalled or spoiled[load_and_stage] >= STALLED_MAX)
        spoiled[load_and_stage] += trial.is_stalled
    return tuple(are_told)


def counted(trials: Sequence[SearchTrial]) -> tuple[SearchTrial, ...]:
    """Return the trials that count."""
    return tuple(itertools.compress(trials, are_counted(trials)))


def next_step(goal: Goal, trials: Sequence[SearchTrial], loads: Loads) -> Measure | FoundCapacity:
    """Return the next step after these trials, within the given loads."""
    counted_trials = counted(trials)
    step = _coarse_step(goal, counted_trials, loads) or _deciding_step(goal, counted_trials, loads)
    if isinstance(step, FoundCapacity):
        return _with_doubt(replace(step, trials=len(trials)), counted_trials)
    reason = None
    if len(trials) >= goal.trials_max:
        reason = f"gave up after {units.counted(goal.trials_max, 'trial')}"
    elif sum(trial.elapsed_s for trial in trials) >= goal.time_max_s:
        reason = f"gave up after {units.format_duration(goal.time_max_s * 1e9)}"
    if reason is None:
        return step
    lower, upper = bounds(goal, counted_trials)
    capacity = FoundCapacity(
        lower=lower, upper=upper, is_confirmed=False, end="gave up", reason=reason,
        trials=len(trials),
    )  # fmt: skip
    return _with_doubt(capacity, counted_trials)


def _with_doubt(capacity: FoundCapacity, trials: Iterable[SearchTrial]) -> FoundCapacity:
    """Mark an upper bound as doubtful if the client stalled in all trials that missed the goal
    there.

    Such trials do not show the target's limit at that load.
    """
    missed = [trial for trial in trials if trial.load == capacity.upper and not trial.is_good]
    if not missed or not all(trial.is_stalled for trial in missed):
        return capacity
    return replace(
        capacity,
        is_confirmed=capacity.is_confirmed and capacity.lower is not None,
        reason=f"{capacity.reason}; {DOUBT}",
        is_doubted=True,
    )


def _deciding_step(
    goal: Goal, trials: Sequence[SearchTrial], loads: Loads
) -> Measure | FoundCapacity:
    fine = _fine_step(goal, trials, loads)
    return fine if isinstance(fine, Measure) else _confirm_step(goal, trials, fine, loads)


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
    """Return the relevant bounds: the smallest failing load, and the largest passing load
    below it.
    """
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
        # Trials that confirm a bound are kept out of its classification, and vice versa.
        if trial.stage != "confirm":
            by_load.setdefault(trial.load, []).append(trial)
    return {load: classify(goal, load_trials) for load, load_trials in by_load.items()}


def _coarse_step(goal: Goal, trials: Sequence[SearchTrial], loads: Loads) -> Measure | None:
    """Bisect geometrically with short trials; the bracket only guides the fine stage."""
    if any(trial.stage != "coarse" for trial in trials):
        return None

    def measure(load: float) -> Measure:
        return Measure(load=load, duration_s=goal.coarse_trial_s, stage="coarse")

    verdicts = _coarse_verdicts(trials)
    open_loads = [load for load, is_passing in verdicts.items() if is_passing is None]
    if open_loads:
        return measure(open_loads[0])
    end = _next_end(verdicts, loads)
    if end is not None:
        return measure(end)
    low, high = _coarse_bracket(trials, loads)
    if not verdicts[low] or verdicts[high]:
        # The lowest load fails or the highest passes: there is nothing to bisect.
        return None
    middle = loads.between(low, high)
    return None if middle is None or high / low <= 1 + COARSE_WIDTH else measure(middle)


def _next_end(verdicts: Mapping[float, bool | None], loads: Loads) -> float | None:
    """Return the next load to try until one load passes and a higher one fails."""
    first = loads.on_grid(loads.start if loads.low is None else loads.low)
    if first not in verdicts:
        return first
    if verdicts[first]:
        ways = (loads.ceiling,) if loads.high is not None else _strides(first, STRIDE, loads)
        wanted = False
    else:
        ways = _strides(first, 1 / STRIDE, loads) if loads.low is None else ()
        wanted = True
    for load in ways:
        if load not in verdicts:
            return load
        if verdicts[load] is wanted:
            return None
    return None


def _strides(first: float, factor: float, loads: Loads) -> tuple[float, ...]:
    """Return the loads outwards from the first, each once."""
    count = STRIDES_UP if factor > 1 else STRIDES_DOWN
    steps = (loads.on_grid(first * factor**step) for step in range(1, count + 1))
    return tuple(load for load in dict.fromkeys(steps) if load != first)


def _coarse_verdicts(trials: Sequence[SearchTrial]) -> dict[float, bool | None]:
    """Return whether each load passes; a bad trial is repeated until two agree."""
    verdicts: dict[float, bool | None] = {}
    for load in dict.fromkeys(trial.load for trial in trials if trial.stage == "coarse"):
        are_good = [
            trial.is_good for trial in trials if trial.stage == "coarse" and trial.load == load
        ]
        bad = are_good.count(False)
        verdicts[load] = (
            True if are_good[0] or are_good.count(True) == 2 else False if bad == 2 else None
        )
    return verdicts


def _coarse_bracket(trials: Sequence[SearchTrial], loads: Loads) -> tuple[float, float]:
    """Return the largest passing and the smallest failing load; if unknown, the last load that was
    tried.
    """
    verdicts = _coarse_verdicts(trials)
    highest, lowest = max(verdicts, default=loads.ceiling), min(verdicts, default=loads.floor)
    high = min((load for load, passes in verdicts.items() if passes is False), default=highest)
    passing = [load for load, passes in verdicts.items() if passes and load <= high]
    return max(passing, default=lowest), high


def _fine_step(
    goal: Goal, trials: Sequence[SearchTrial], loads: Loads
) -> Measure | tuple[float | None, float | None]:
    """Return the next full trial, or the relevant bounds once they are close enough."""
    classes = _classes(goal, trials)
    lower, upper = bounds(goal, trials)
    undecided = _undecided(trials, classes)
    low, high = _coarse_bracket(trials, loads)
    if lower is None and upper is None:
        return _full(goal, undecided[0] if undecided else low)
    if lower is None:
        assert upper is not None, "the case of no bound at all stands above"
        if upper <= loads.floor:
            return None, upper
        below = [load for load in undecided if load < upper]
        step = _expansion(classes, "upper")
        return _full(goal, max(below) if below else _below(loads, upper, upper / step))
    if upper is None:
        if lower >= loads.ceiling:
            return lower, None
        above = [load for load in undecided if load > lower]
        wanted = high if high > lower else _above(loads, lower * _expansion(classes, "lower"))
        return _full(goal, min(above) if above else wanted)
    middle = loads.between(lower, upper)
    if middle is None or (upper - lower) / upper <= goal.width:
        return lower, upper
    between = [load for load in undecided if lower < load < upper]
    return _full(goal, between[0] if between else middle)


def _above(loads: Loads, load: float) -> float:
    return loads.on_grid(math.ceil(load) if loads.is_whole else load)


def _below(loads: Loads, load: float, wanted: float) -> float:
    """Round a load to the grid; for whole loads, always to a lower one than `load`."""
    return loads.on_grid(min(wanted, load - 1) if loads.is_whole else wanted)


def _expansion(classes: Mapping[float, Class], kind: Class) -> float:
    """Return the factor of the next step outwards, which grows because the bracket was wrong.

    Small steps would meet the same disturbance at many loads, and stop at one of them.
    """
    outwards = sum(category == kind for category in classes.values())
    return float((1 + COARSE_WIDTH) ** (2 ** (outwards - 1)))


def _undecided(trials: Sequence[SearchTrial], classes: Mapping[float, Class]) -> list[float]:
    """Return the loads with full trials that are not decided yet."""
    begun = {trial.load for trial in trials if trial.stage == "fine"}
    return [load for load, kind in classes.items() if kind == "undecided" and load in begun]


def _confirm_step(
    goal: Goal,
    trials: Sequence[SearchTrial],
    interval: tuple[float | None, float | None],
    loads: Loads,
) -> Measure | FoundCapacity:
    """Request fresh trials at the lower bound, reducing it by 2 % until enough are good."""
    lower, upper = interval
    if lower is None:
        return FoundCapacity(
            lower=None, upper=upper, is_confirmed=True, end="lowest fails",
            reason="even the lowest load fails", trials=len(trials),
        )  # fmt: skip
    candidate = lower
    while True:
        fresh = [t for t in trials if t.stage == "confirm" and t.load == candidate]
        good = sum(trial.is_good for trial in fresh)
        bad = len(fresh) - good
        if good >= goal.confirm_good_min:
            return FoundCapacity(
                lower=candidate,
                upper=upper,
                is_confirmed=True,
                end="highest passes" if upper is None else "confirmed",
                reason="even the highest load passes" if upper is None else "confirmed",
                trials=len(trials),
            )
        if bad <= goal.confirm_trials - goal.confirm_good_min:
            return Measure(load=candidate, duration_s=goal.trial_s, stage="confirm")
        upper = candidate
        if candidate <= loads.floor:
            return FoundCapacity(
                lower=None,
                upper=upper,
                is_confirmed=True,
                end="none confirmed",
                reason="no load could be confirmed",
                trials=len(trials),
            )
        candidate = _below(loads, candidate, candidate * LOWER_AFTER_FAILED_CONFIRM)


def _full(goal: Goal, load: float) -> Measure:
    return Measure(load=load, duration_s=goal.trial_s, stage="fine")
