"""Gate: is a new build no worse than its base in rate, p99, processor time and memory?

Two hypotheses are tested per metric at each look: that the build is worse by the margin or more,
and that it is worse by less. It passes if the first is rejected for all metrics, which needs no
correction; it fails if the second is rejected for one, at the level divided by their number.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from loadstone.analysis.accounts.account import (
    RATE,
    SERVER_CPU,
    SERVER_MEMORY,
    Account,
    is_lower_better,
)
from loadstone.analysis.accounts.claims import describe
from loadstone.analysis.accounts.comparison import CaseComparison, compare
from loadstone.analysis.statistics import sequential

METRICS = {"rate": RATE, "p99": "response_ns_p99", "cpu": SERVER_CPU, "memory": SERVER_MEMORY}
"""Metrics that a gate may judge, by their names on the command line."""

BLOCKS_MIN = 6
POWER = 0.8

Outcome = Literal["no worse", "worse", "not decided", "no ratio", "void"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The margin and the error rates of a gate."""

    margin: float
    alpha: float
    looks: tuple[int, ...]
    metrics: tuple[str, ...]

    @property
    def spread(self) -> float:
        """The spread of log ratios up to which an equal build passes with POWER."""
        return sequential.spread_that_is_decided(self.looks, self.margin, self.alpha, POWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMetric:
    """One metric of one case; `change` is a share of the base's value, with its 95 % interval.

    `pairs` are blocks with a usable trial of both arms. `blocks_more` would bring a decision with
    POWER, by the spread so far; None if that is far.
    """

    metric: str
    case: str
    base: float
    new: float
    change: float
    low: float | None
    high: float | None
    pairs: int
    outcome: Outcome
    reasons: tuple[str, ...]
    blocks_more: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateAnswer:
    """The answer after some blocks."""

    base: str
    new: str
    rules: Rules
    blocks: int
    rows: tuple[JudgedMetric, ...]

    @property
    def outcome(self) -> Outcome:
        """Worse if any row is, no worse if all are; void or without a ratio if nothing is open."""
        outcomes = {row.outcome for row in self.rows}
        if "worse" in outcomes:
            return "worse"
        if outcomes == {"no worse"}:
            return "no worse"
        if "not decided" in outcomes or not outcomes:
            return "not decided"
        return "void" if "void" in outcomes else "no ratio"

    @property
    def is_last(self) -> bool:
        """Whether no look is left."""
        return self.blocks >= self.rules.looks[-1]

    @property
    def blocks_more(self) -> int | None:
        """The blocks needed to decide everything that is open; None if that is far."""
        left = [row.blocks_more for row in self.rows if row.outcome == "not decided"]
        known = [blocks for blocks in left if blocks is not None]
        return max(known) if known and len(known) == len(left) else None


def judge(account: Account, base: str, new: str, rules: Rules, blocks: int) -> GateAnswer:
    """Compare the new arm of a run with its base after some blocks.

    The error spent by a look depends on the number of blocks alone, those with left-out trials
    included.
    """
    arms = account.only(base), account.only(new)
    compared = [
        (metric, case)
        for metric in rules.metrics
        if all(arm.of(metric) for arm in arms)
        for case in compare(*arms, metric=metric, is_together=False).comparisons
    ]
    rows = tuple(_row(metric, case, rules, blocks, len(compared)) for metric, case in compared)
    return GateAnswer(base=base, new=new, rules=rules, blocks=blocks, rows=rows)


def _row(metric: str, case: CaseComparison, rules: Rules, blocks: int, tests: int) -> JudgedMetric:
    ratio = case.ratio
    outcome, more = _outcome(metric, case, rules, blocks, tests)
    return JudgedMetric(
        metric=metric, case=describe(case), base=case.a, new=case.b, change=ratio.ratio - 1,
        low=None if ratio.low is None else ratio.low - 1,
        high=None if ratio.high is None else ratio.high - 1,
        pairs=ratio.n_a, outcome=outcome, reasons=case.reasons, blocks_more=more,
    )  # fmt: skip


def _outcome(
    metric: str, case: CaseComparison, rules: Rules, blocks: int, tests: int
) -> tuple[Outcome, int | None]:
    if case.verdict == "void" or case.verdict == "no ratio":
        return case.verdict, None
    is_inverse = not is_lower_better(metric)
    excess = sequential.excess_of(case.ratio, 1 + rules.margin, is_inverse=is_inverse)
    if excess is None or not case.ratio.is_paired:
        return "not decided", None
    level = sequential.level_at(rules.looks, blocks, rules.alpha)
    if excess.below_p < level:
        return "no worse", 0
    if excess.above_p < level / tests:
        return "worse", 0
    # To show that it is worse takes a lower level: for that, so many may be too few.
    alpha = rules.alpha if excess.errors < 0 else rules.alpha / tests
    needed = sequential.blocks_to_decide(excess, rules.looks, blocks, alpha, POWER)
    return "not decided", None if needed is None else needed - blocks


def rules_of(
    margin: float, alpha: float, blocks_max: int, metrics: Collection[str] = METRICS.keys()
) -> Rules:
    """Return the rules of a gate on some of METRICS, with looks from BLOCKS_MIN blocks on."""
    return Rules(
        margin=margin,
        alpha=alpha,
        looks=sequential.looks_until(BLOCKS_MIN, blocks_max),
        metrics=tuple(METRICS[name] for name in METRICS if name in metrics),
    )
