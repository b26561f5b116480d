"""Fill levels: whether they were reached, and the rate of a fuller store."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from loadstone import units
from loadstone.analysis.accounts.account import RATE, Account, Measurement, describe_case
from loadstone.analysis.accounts.comparison import ALPHA, TRIALS_MIN
from loadstone.analysis.accounts.in_turns import ratio_of
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.judgements.run_view import RunView
from loadstone.analysis.measured.fill import BYTES, PERCENT, fill_of
from loadstone.analysis.naming import describe_parameter
from loadstone.analysis.rules.rule import NumberRules
from loadstone.analysis.statistics.ratios import Ratio, geometric_mean, t_p
from loadstone.analysis.statistics.significance import holm

RULES = NumberRules()


MISSED = 0.02
"""The tolerance of a level, as a share of the store: the dataset needs space too."""

DECLINES = 0.95
"""The ratio of rates below which a decline is relevant."""


def find_missed(view: RunView) -> Iterator[Finding]:
    """Report trials whose store missed the requested level; level 0 adds no data."""
    missed = []
    for record in view.measured.values():
        level: Any = record.trial["case"]["parameters"].get(PERCENT)
        fill = fill_of(record)
        is_asked = isinstance(level, (int, float)) and level > 0
        if is_asked and fill is not None and abs(fill - level / 100) > MISSED:
            missed.append((record.id, float(level) / 100, fill))
    if missed:
        name, level, fill = max(missed, key=lambda miss: abs(miss[1] - miss[2]))
        yield Finding(
            "fill-missed",
            f"the store did not have the planned fill level before {len(missed)} trials; the"
            f" worst is trial {name}: {fill:.1%} instead of {level:.0%}",
            evidence=tuple(
                Evidence("fill", fill, level, place=f"trial {name}") for name, level, fill in missed
            ),
            cases=tuple(f"trial {name}" for name, _, _ in missed),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decline:
    """The trials of one case at its lowest and its highest level, and their ratio."""

    emptiest: Sequence[Measurement]
    fullest: Sequence[Measurement]
    ratio: Ratio

    @property
    def rates(self) -> tuple[float, float]:
        """The geometric means of both levels, in requests per second."""
        first, last = (
            [trial.value for trial in trials] for trials in (self.emptiest, self.fullest)
        )
        return geometric_mean(first), geometric_mean(last)

    @property
    def trials(self) -> int:
        """The number of trials of the level with fewer."""
        return min(self.ratio.n_a, self.ratio.n_b)

    @property
    def is_testable(self) -> bool:
        """Whether there are enough trials, and all are valid."""
        standings = {trial.standing for trial in (*self.emptiest, *self.fullest)}
        return self.trials >= TRIALS_MIN and standings == {"valid"}


@RULES.note(
    id="fill-and-rate",
    says="how the rate changes as a store is filled",
    means="Near 1, the fill level makes no difference.",
    do="Nothing, or try a higher level: fill: 80%.",
)
@RULES.caution(
    id="slower-when-fuller",
    short="slower when fuller",
    says="a store that is slower when it is fuller",
    means="The number of the empty store is too high, unless this is chance.",
    do="Repeat it in blocks, and report the level at which the store will be used.",
)
def declines(account: Account) -> Iterator[Finding]:
    """State the rate of the fullest store over that of the emptiest, per target.

    A decline is claimed for cases with `TRIALS_MIN` trials or more at both levels, by the p of the
    ratio after Holm's correction.
    """
    for name in (PERCENT, BYTES):
        by_target = grouped(_of_ends(account, name), lambda decline: decline.emptiest[0].target)
        for target, cases in by_target.items():
            tested = [case for case in cases if case.is_testable]
            p_values = holm([_p(case.ratio) for case in tested])
            slower = [
                case
                for case, p in zip(tested, p_values, strict=True)
                if p < ALPHA and case.ratio.ratio < DECLINES
            ]
            yield _finding(target, name, slower or cases, is_claim=bool(slower))


def _finding(target: str, name: str, cases: Sequence[_Decline], *, is_claim: bool) -> Finding:
    least = min(cases, key=lambda case: case.ratio.ratio)
    first, last = least.emptiest[0], least.fullest[0]
    ends = [describe_parameter(name, trial.parameters[name]) for trial in (first, last)]
    before, after = least.rates
    words = f"{target}, {ends[1]} over {ends[0]}: {least.ratio.ratio:.2f} of the rate"
    if len(cases) > 1:
        ratios = [case.ratio.ratio for case in cases]
        words = (
            f"{target}, {ends[1]} over {ends[0]}: {geometric_mean(ratios):.2f} of the rate,"
            f" the mean of {len(cases)} cases; the greatest ratio is {max(ratios):.2f}, the least"
            f" {least.ratio.ratio:.2f}"
        )
    if is_claim:
        why = f"95 % CI {least.ratio.low:.2f}-{least.ratio.high:.2f}, {least.trials} trials"
    elif least.trials < TRIALS_MIN:
        trials = units.counted(least.trials, "trial")
        why = f"no claim: {trials} of a level, {TRIALS_MIN} are needed"
    else:
        why = "no case is significantly slower"
    where = describe_case(last, (name, "round"))
    return Finding(
        "slower-when-fuller" if is_claim else "fill-and-rate",
        f"{words} ({where}: {before:.4g} to {after:.4g}/s; {why})",
        evidence=tuple(
            Evidence(
                f"rate, {ends[1]} / {ends[0]}",
                case.ratio.ratio,
                DECLINES,
                place=f"{case.fullest[0].place}; {case.emptiest[0].place}",
            )
            for case in cases
        ),
        cases=tuple(describe_case(case.fullest[0], ("round",)) for case in cases),
    )


def _p(ratio: Ratio) -> float:
    p = t_p(ratio)
    return 1.0 if p is None else p


def _of_ends(account: Account, name: str) -> Iterator[_Decline]:
    """Return each case at its lowest level and its highest, without void trials."""
    known = [
        trial
        for trial in account.of(RATE)
        if isinstance(trial.parameters.get(name), (int, float))
        and trial.value > 0
        and trial.standing != "void"
    ]
    cases = grouped(known, lambda trial: (trial.target, trial.case_without(name, "round")))
    for trials in cases.values():
        levels = grouped(trials, lambda trial: float(trial.parameters[name] or 0))
        emptiest, fullest = levels[min(levels)], levels[max(levels)]
        if emptiest is not fullest:
            ratio = ratio_of(emptiest, fullest, is_one_run=bool(account.run))
            yield _Decline(emptiest=emptiest, fullest=fullest, ratio=ratio)
