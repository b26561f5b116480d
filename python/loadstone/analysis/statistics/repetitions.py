"""The repetitions that the next run needs, from the spread of this one.

There are two levels: iterations within a trial, and trials in interleaved blocks. By Kalibera and
Jones (Rigorous Benchmarking in Reasonable Time, ISMM 2013), with the mean variance S1² of
iterations within trials, the variance S2² of the trials' means over n1 iterations, and the costs c1
of an iteration and c2 of a trial:

    T1² = S1²,  T2² = S2² - S1² / n1,  best n1 = ⌈√(c2/c1 · T1²/T2²)⌉

and the smallest number of trials n with t(n-1) · √((T2² + T1²/n1) / n) ≤ ln(1 + half width).
Variances are those of logarithms.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loadstone.analysis.grouping import grouped_pairs
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.statistics.ratios import mean_interval, repetitions_needed

HALF_WIDTH = 0.05
ITERATIONS_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The precision of one result, and the blocks needed for `HALF_WIDTH`.

    `iterations` is the best number per trial; None if trials have a single one.
    """

    cell: Result
    half_width: float
    blocks: int
    iterations: int | None


def advise(
    rounds: Sequence[Result], iterations: Sequence[Result], overhead_s: Mapping[str, float]
) -> list[Advice]:
    """Return advice for each result of a round with repeated trials.

    `overhead_s` is the time of warm-up and preparation, by trial.
    """
    advice = []
    by_trials = grouped_pairs(
        ((trial, iteration.operation), iteration)
        for iteration in iterations
        for trial in iteration.trials
    )
    for cell in rounds:
        rates = _rates(cell, by_trials)
        if len(rates) < 2 or any(rate <= 0 for trial_rates in rates for rate in trial_rates):
            continue
        logs = [np.log(rate) for rate in rates]
        measured_s = cell.duration_s / sum(map(len, rates))
        spent_s = [overhead_s[name] for name in cell.trials if name in overhead_s]
        cost = sum(spent_s) / len(spent_s) / measured_s if spent_s and measured_s else 0.0
        within, between, best = _levels(logs, cost)
        reached = mean_interval([float(np.exp(log.mean())) for log in logs])
        assert reached.high is not None, "two trials have an interval"
        advice.append(
            Advice(
                cell=cell,
                half_width=reached.high / reached.centre - 1,
                blocks=repetitions_needed(
                    math.sqrt(between + within / (best or len(rates[0]))), HALF_WIDTH
                ),
                iterations=best,
            )
        )
    return advice


def advice_findings(advice: Sequence[Advice]) -> Iterator[Finding]:
    """Report the widths of intervals, and the blocks needed for narrower ones."""
    if not advice:
        return
    worst = max(advice, key=lambda cell_advice: cell_advice.half_width)
    evidence = tuple(
        Evidence("half width of the 95 % CI", cell_advice.half_width, place=cell_advice.cell.name)
        for cell_advice in advice
    )
    yield Finding(
        "repetitions",
        describe(worst, of=len(advice)),
        evidence=evidence,
        cases=tuple(cell_advice.cell.name for cell_advice in advice),
    )


def describe(advice: Advice, *, of: int) -> str:
    """Return advice as a sentence."""
    subject = f"{advice.cell.name}" if of == 1 else f"the widest of {of}, {advice.cell.name},"
    known = f"known within ±{advice.half_width:.1%}"
    known = known if advice.half_width < 1 else "not even known within ±100%"
    reached = f"{subject} is {known} after {len(advice.cell.trials)} blocks"
    if advice.half_width <= HALF_WIDTH:
        return f"{reached}: enough for ±{HALF_WIDTH:.0%}"
    inside = ""
    if advice.iterations is not None and advice.iterations != advice.cell.iterations:
        plural = "s" if advice.iterations > 1 else ""
        inside = f" with {advice.iterations} iteration{plural} each"
    return f"{reached}; for ±{HALF_WIDTH:.0%} run about {advice.blocks:,} blocks{inside}"


def _rates(
    cell: Result, by_trials: Mapping[tuple[str, str], Sequence[Result]]
) -> list[list[float]]:
    """Return the rates of each trial's iterations."""
    rates = []
    for trial in cell.trials:
        of_trial = [
            rate.requests_per_s
            for iteration in by_trials.get((trial, cell.operation), ())
            for rate in iteration.trial_rates
            if rate.trial == trial
        ]
        rates += [of_trial] if of_trial else []
    return rates


def _levels(logs: Sequence[np.ndarray], cost: float) -> tuple[float, float, int | None]:
    """Return the variance within and between trials, and the best number of iterations.

    `cost` is the cost of a trial over that of an iteration.
    """
    means = np.array([log.mean() for log in logs])
    of_means = float(means.var(ddof=1))
    counts = [log.size for log in logs]
    if min(counts) < 2:
        return 0.0, of_means, None
    within = float(np.mean([log.var(ddof=1) for log in logs]))
    between = max(0.0, of_means - within / float(np.mean(counts)))
    if between == 0.0:
        return within, between, ITERATIONS_MAX if cost > 0 else max(counts)
    best = math.ceil(math.sqrt(cost * within / between)) if cost > 0 else 1
    return within, between, min(ITERATIONS_MAX, max(1, best))
