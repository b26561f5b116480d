"""How often verdicts were right, by family, with intervals; and where that is published.

Right is a share of the verdicts that name a limit, wrong blame and UNDETERMINED are shares of all.
The interval of a family is Clopper and Pearson's, for its scenarios are drawn one independently of
the other. That of all families together is the wider of two: Clopper and Pearson's of all
scenarios, and a bootstrap that draws families again, since what goes wrong in one scenario of a
family goes wrong in others of it, and a limit that nobody thought of is another family.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scipy import stats

from tests.rig.scenario import Outcome

BEGIN, END = "<!-- rig: begin -->", "<!-- rig: end -->"
RESAMPLES = 10_000
GOALS = {"right": 0.95, "blamed": 0.01, "undetermined": 0.10}


@dataclass(slots=True)
class Count:
    """How many verdicts of a family were what."""

    scenarios: int = 0
    right: int = 0
    blamed: int = 0
    undetermined: int = 0
    without_next: int = 0
    void: int = 0
    wrong_limits: dict[str, int] = field(default_factory=dict)

    @property
    def decided(self) -> int:
        """How many verdicts named a limit."""
        return self.scenarios - self.undetermined


def count(outcomes: Sequence[Outcome]) -> dict[str, Count]:
    """Return the counts of each family."""
    counts: dict[str, Count] = {}
    for outcome in outcomes:
        family = counts.setdefault(outcome.family, Count())
        if outcome.is_void:
            family.void += 1
            continue
        family.scenarios += 1
        family.right += outcome.is_right
        family.blamed += outcome.is_blamed
        family.undetermined += outcome.is_undetermined
        family.without_next += outcome.is_undetermined and not outcome.next
        if not outcome.is_right and not outcome.is_undetermined:
            limit = outcome.limit
            family.wrong_limits[limit] = family.wrong_limits.get(limit, 0) + 1
    return dict(sorted(counts.items()))


def total(counts: Mapping[str, Count]) -> Count:
    """Return the sum of all families."""
    whole = Count()
    for family in counts.values():
        for name in ("scenarios", "right", "blamed", "undetermined", "without_next", "void"):
            setattr(whole, name, getattr(whole, name) + getattr(family, name))
    return whole


def exact(part: int, whole: int) -> tuple[float, float]:
    """Return Clopper and Pearson's 95 % interval of a share."""
    if not whole:
        return 0.0, 1.0
    low = float(stats.beta.ppf(0.025, part, whole - part + 1)) if part else 0.0
    high = float(stats.beta.ppf(0.975, part + 1, whole - part)) if part < whole else 1.0
    return low, high


def of_families(counts: Mapping[str, Count], part: str, whole: str) -> tuple[float, float]:
    """Return the 95 % interval of a share over families, the wider of two."""
    families = [(getattr(count, part), getattr(count, whole)) for count in counts.values()]
    chance = random.Random(1)
    shares = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(families, k=len(families))
        shares.append(sum(pair[0] for pair in drawn) / max(1, sum(pair[1] for pair in drawn)))
    shares.sort()
    bootstrap = shares[RESAMPLES // 40], shares[-RESAMPLES // 40]
    alone = exact(sum(family[0] for family in families), sum(family[1] for family in families))
    return min(bootstrap[0], alone[0]), max(bootstrap[1], alone[1])


def document(outcomes: Sequence[Outcome], **facts: Any) -> dict[str, Any]:
    """Return the result file: the drawn scenarios, the counts, and each wrong verdict."""
    return {
        **facts,
        "families": {
            name: asdict(count_of_family) for name, count_of_family in count(outcomes).items()
        },
        "wrong": [
            {
                "combination": outcome.combination,
                "seed": outcome.seed,
                "limit": outcome.limit,
                "also": list(outcome.also),
                "right": list(outcome.right),
                "is_blamed": outcome.is_blamed,
            }
            for outcome in outcomes
            if not (outcome.is_right or outcome.is_undetermined or outcome.is_void)
        ],
    }


def counts_of(figure: Mapping[str, Any]) -> dict[str, Count]:
    """Return the counts that a result file holds."""
    return {name: Count(**fields) for name, fields in figure["families"].items()}


def meets_goals(figure: Mapping[str, Any]) -> bool:
    """Tell whether all goals are met, and every UNDETERMINED names what to measure next."""
    whole = total(counts_of(figure))
    return (
        whole.right >= GOALS["right"] * whole.decided
        and whole.blamed <= GOALS["blamed"] * whole.scenarios
        and whole.undetermined <= GOALS["undetermined"] * whole.scenarios
        and not whole.without_next
    )


def summary(figure: Mapping[str, Any]) -> str:
    """Return the three figures with their intervals, as one sentence."""
    counts = counts_of(figure)
    whole = total(counts)
    right = _share(counts, "right", "decided")
    blamed = _share(counts, "blamed", "scenarios")
    undetermined = _share(counts, "undetermined", "scenarios")
    return (
        f"Of {whole.decided:,} verdicts that named a limit, {right} were right; in {blamed} of all"
        f" {whole.scenarios:,} scenarios a limit of the client was blamed on something else or the"
        f" reverse; {undetermined} were undetermined"
    )


def headline(figure: Mapping[str, Any]) -> str:
    """Return the one share that README claims."""
    whole = total(counts_of(figure))
    return f"{_percent(whole.right / whole.decided)} of {whole.decided:,} verdicts"


def table(figure: Mapping[str, Any]) -> str:
    """Return the counts by family as Markdown."""
    lines = [
        "| family | scenarios | right, of those that named a limit | blamed | undetermined"
        " | named instead |",
        "|---|---:|---|---:|---:|---|",
    ]
    for name, counted in counts_of(figure).items():
        low, high = exact(counted.right, counted.decided)
        share = counted.right / counted.decided if counted.decided else 0
        wrong = ", ".join(
            f"`{limit}` {n}"
            for limit, n in sorted(counted.wrong_limits.items(), key=lambda pair: -pair[1])
        )
        lines.append(
            f"| {name} | {counted.scenarios} | {_percent(share)} ({100 * low:.0f} to"
            f" {_percent(high, 0)}) | {counted.blamed}"
            f" | {counted.undetermined} | {wrong} |"
        )
    return "\n".join(lines)


def page_with(text: str, figures: Sequence[Mapping[str, Any]]) -> str:
    """Return a page with the figures between its two marks."""
    body = "\n\n".join(
        f"{table(figure)}\n\n{summary(figure)}. {figure['drawn']}" for figure in figures
    )
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: f"{BEGIN}\n{body}\n{END}", text)


def publish(page: Path, figures: Sequence[Mapping[str, Any]]) -> None:
    """Put the figures into a page."""
    page.write_text(page_with(page.read_text(encoding="utf-8"), figures), encoding="utf-8")


def _share(counts: Mapping[str, Count], part: str, whole: str) -> str:
    low, high = of_families(counts, part, whole)
    sums = total(counts)
    share = getattr(sums, part) / max(1, getattr(sums, whole))
    return f"{_percent(share)} (95 % interval {100 * low:.1f} to {_percent(high)})"


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"
