"""Finds rates computed by dividing by whole seconds, from a clock with coarse resolution."""

import math
from collections.abc import Iterator, Sequence

from loadstone.analysis.accounts.account import RATE, Account, Measurement, describe_case
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.naming import describe_size
from loadstone.analysis.rules.rule import NumberRules

RULES = NumberRules()


CHANCE_MAX = 1e-6
TELLING = 0.5
NEIGHBOURHOOD = 0.10


@RULES.caution(
    id="whole-seconds",
    short="times in whole seconds",
    says="rates over whole seconds",
    means="Short runs are wrong by up to a second in their length.",
    do="Measure time to the millisecond, or much longer.",
)
def whole_seconds(account: Account) -> Iterator[Finding]:
    """Find groups of rates that all equal work / k for a whole number of seconds k.

    Quotients may be rounded or truncated. The probability of such a value by chance is the share
    of such values among the whole numbers within 10 % of it; cells with a probability of more than
    half are left out.
    """
    known = [m for m in account.of(RATE) if m.work and m.text is not None and m.text.isdigit()]
    groups = grouped(known, lambda m: (m.operation, m.size_bytes))
    for cells in groups.values():
        telling = [(cell, _chance(cell)) for cell in cells]
        telling = [(measurement, chance) for measurement, chance in telling if chance <= TELLING]
        hits = [(m, chance) for m, chance in telling if _seconds(m) is not None]
        if not telling or len(hits) < len(telling):
            continue
        chance = math.prod(chance for _, chance in telling)
        if chance < CHANCE_MAX:
            yield _finding(cells, [measurement for measurement, _ in telling], chance)


def _finding(
    cells: Sequence[Measurement], telling: Sequence[Measurement], chance: float
) -> Finding:
    first = telling[0]
    coarsest = max(telling, key=_resolution)
    examples = sorted(telling, key=lambda m: -m.value)[:4]
    shown = ", ".join(
        f"{example.text} = {example.work:,}/{_seconds(example)} s" for example in examples
    )
    what = f"{first.operation.upper()}"
    if first.size_bytes is not None:
        what += f" of {describe_size(first.size_bytes)}"
    rest = len(cells) - len(telling)
    left = f" (the other {rest} are too coarse to show it)" if rest else ""
    return Finding(
        "whole-seconds",
        f"all {len(telling)} rates of {what} that are precise enough to show it equal the work"
        f" divided by whole seconds{left}: {shown}; the rates are quantised, and one second is up"
        f" to {_resolution(coarsest):.1%} of the value",
        evidence=tuple(
            Evidence("seconds", float(_seconds(m) or 0), m.text, unit="s", place=m.place)
            for m in telling
        ),
        cases=tuple(describe_case(measurement) for measurement in telling),
        chance=chance,
    )


def _seconds(measurement: Measurement) -> int | None:
    """Return the whole number of seconds that gives this rate, rounded or truncated, or None."""
    assert measurement.work is not None, "asked of rates with known work only"
    value = round(measurement.value)
    for seconds in range(
        max(1, math.floor(measurement.work / (value + 1))),
        math.ceil(measurement.work / max(value - 0.5, 0.5)) + 1,
    ):
        if value in (measurement.work // seconds, round(measurement.work / seconds)):
            return seconds
    return None


def _chance(measurement: Measurement) -> float:
    """Return the share of whole numbers near a rate that result from whole seconds."""
    assert measurement.work is not None, "asked of rates with known work only"
    reach = max(3, int(measurement.value * NEIGHBOURHOOD))
    low, high = max(1, int(measurement.value) - reach), int(measurement.value) + reach
    first = max(1, measurement.work // (high + 1))
    last = math.ceil(measurement.work / max(low - 0.5, 0.5))
    if last - first > 2 * (high - low + 1):
        return 1.0
    reachable = set()
    for seconds in range(first, last + 1):
        for value in (measurement.work // seconds, round(measurement.work / seconds)):
            if low <= value <= high:
                reachable.add(value)
    return len(reachable) / (high - low + 1)


def _resolution(measurement: Measurement) -> float:
    seconds = _seconds(measurement)
    return 1 / seconds if seconds else 0.0
