"""Finds rates that were computed from durations instead of counted over time."""

from collections.abc import Iterator
from fractions import Fraction

from loadstone.analysis.accounts.account import (
    RATE,
    THREAD_RATE,
    Account,
    Measurement,
    describe_case,
)
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.rules.rule import NumberRules
from loadstone.published.rules.quantised import CHANCE_MAX

RULES = NumberRules()


DENOMINATOR_MAX = 10_000_000


@RULES.problem(
    id="rate-from-latency",
    short="rates computed from latency",
    says="throughput computed as threads over mean latency",
    means="It leaves out all time between requests: the true rate is lower.",
    do="Count completions over wall time.",
)
def rate_from_latency(account: Account) -> Iterator[Finding]:
    """Find throughput that was computed as threads over mean latency.

    Two signs: each rate is exactly the number of threads times the rate of one thread; and rates
    per thread are quotients of whole numbers, 1000 · n / Σ ms, so that durations were added up.
    Such a rate ignores the time between requests.
    """
    per_thread = {(m.target, m.case): m for m in account.of(THREAD_RATE)}
    cells = [
        (m, per_thread[m.target, m.case])
        for m in account.of(RATE)
        if m.threads and (m.target, m.case) in per_thread
    ]
    # Rates of a single thread are the same in both columns.
    cells = [(m, single) for m, single in cells if m.value != single.value]
    exact = [pair for pair in cells if _is_multiple(*pair)]
    quotients = {id(measurement): _quotient(measurement) for measurement in per_thread.values()}
    telling = [quotient for quotient in quotients.values() if quotient is not None]
    if len(cells) < 3 or len(exact) < len(cells):
        return
    chance = 1.0
    for fraction_and_chance in telling:
        chance *= fraction_and_chance[1]
    statement = (
        f"all {len(exact)} rates are exactly threads × rate of one thread"
        f" ({exact[0][0].text} = {exact[0][0].threads} × {exact[0][1].text})"
    )
    if telling and chance < CHANCE_MAX:
        fraction = telling[0][0]
        statement += (
            f", and {len(telling)} of {len(quotients)} rates of one thread are quotients of small"
            f" whole numbers (1000·{fraction.numerator}/{fraction.denominator}): requests over"
            " the sum of their milliseconds"
        )
    statement += (
        "; throughput is threads / mean latency, not completions over wall time, and leaves out"
        " whatever the threads did between these requests"
    )
    yield Finding(
        "rate-from-latency",
        statement,
        evidence=tuple(
            Evidence(
                "rate / (threads × rate of one thread)",
                m.value / ((m.threads or 1) * single.value),
                1,
                place=m.place,
            )
            for m, single in exact
        ),
        cases=tuple(describe_case(measurement) for measurement, _ in exact),
        chance=chance if telling else None,
    )


def _is_multiple(measurement: Measurement, single: Measurement) -> bool:
    expected = (measurement.threads or 1) * single.value
    return abs(measurement.value / expected - 1) < 1e-12


def _quotient(measurement: Measurement) -> tuple[Fraction, float] | None:
    """Return rate/1000 as a quotient of small whole numbers, and the probability that it is a
    coincidence.

    A number with d decimals is within half a last digit of a quotient with a denominator up to q
    with a probability of about q² · 10^-d, as there are about q²/2 such quotients per unit.
    """
    text = measurement.text or ""
    digits = len(text.partition(".")[2])
    if digits < 9:
        return None
    exact = Fraction(text) / 1000
    tolerance = Fraction(1, 2 * 10**12) * exact
    for limit in (100, 1_000, 10_000, 100_000, DENOMINATOR_MAX):
        quotient = exact.limit_denominator(limit)
        if abs(quotient - exact) <= tolerance:
            chance = min(1.0, float(quotient.denominator**2 * 2 * tolerance))
            return (quotient, chance) if chance < 0.01 else None
    return None
