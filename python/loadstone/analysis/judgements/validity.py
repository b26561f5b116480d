"""Gates: checks of a trial's accounting, which must hold before its numbers are used.

A gate without data is "unknown", not passed.
"""

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["pass", "fail", "unknown"]

LITTLE_TOLERANCE = 0.02
LITTLE_INSTRUMENT = 0.90
ACHIEVED_MIN = 0.99
LAG_MIN_NS = 100_000
LAG_SHARE = 0.05
TAIL_PRINTED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The outcome of one check, with its number and the range that was wanted."""

    name: str
    outcome: Outcome
    value: float | None
    wanted: str
    statement: str


def little_gate(
    *, clients: float, requests_per_s: float | None, service_s_mean: float | None
) -> Gate:
    """Check Little's law under a closed load: N = X · R̄ within 2 %.

    Below 0.98 the clients spent the rest outside requests; above 1.02 the accounting is wrong. It
    is necessary and not sufficient: a starved client stretches R̄ and keeps the law.
    """
    wanted = "X·R/N between 0.98 and 1.02"
    if not requests_per_s or not service_s_mean or clients <= 0:
        return _unknown("little", wanted, "rate, mean service time or clients are not known")
    ratio = requests_per_s * service_s_mean / clients
    if ratio > 1 + LITTLE_TOLERANCE:
        statement = f"X·R/N = {ratio:.3f}: more requests were in flight than there were clients"
        return Gate(name="little", outcome="fail", value=ratio, wanted=wanted, statement=statement)
    if ratio < 1 - LITTLE_TOLERANCE:
        blame = ": suspect the client" if ratio < LITTLE_INSTRUMENT else ""
        statement = (
            f"X·R/N = {ratio:.3f}: clients spent {1 - ratio:.1%} of their time outside requests"
            + blame
        )
        return Gate(name="little", outcome="fail", value=ratio, wanted=wanted, statement=statement)
    return Gate(
        name="little",
        outcome="pass",
        value=ratio,
        wanted=wanted,
        statement=f"X·R/N = {ratio:.3f}",
    )


def in_flight_gate(
    *, in_flight_mean: float | None, requests_per_s: float | None, service_s_mean: float | None
) -> Gate:
    """Check Little's law under an open load: the mean number in flight is X · R̄ within 2 %."""
    wanted = "in flight / (X·R) between 0.98 and 1.02"
    if not requests_per_s or not service_s_mean or in_flight_mean is None:
        return _unknown("little", wanted, "rate, mean time or requests in flight are not known")
    ratio = in_flight_mean / (requests_per_s * service_s_mean)
    outcome: Outcome = "pass" if abs(ratio - 1) <= LITTLE_TOLERANCE else "fail"
    statement = f"in flight / (X·R) = {ratio:.3f}"
    return Gate(name="little", outcome=outcome, value=ratio, wanted=wanted, statement=statement)


def rate_gate(*, offered_per_s: float, achieved_per_s: float | None) -> Gate:
    """Check that an open load was achieved: at least 99 % of the rate at which it was due."""
    wanted = f"achieved ≥ {ACHIEVED_MIN:.0%} of offered"
    if achieved_per_s is None:
        return _unknown("rate", wanted, "the achieved rate is not known")
    share = achieved_per_s / offered_per_s
    outcome: Outcome = "pass" if share >= ACHIEVED_MIN else "fail"
    statement = f"{share:.1%} of the offered rate was achieved"
    return Gate(name="rate", outcome=outcome, value=share, wanted=wanted, statement=statement)


def lag_gate(*, lag_p99_ns: float | None, service_p99_ns: float | None) -> Gate:
    """Check that requests left when they were due: lag p99 ≤ max(100 µs, 5 % of service p99)."""
    if lag_p99_ns is None or service_p99_ns is None:
        return _unknown("lag", "lag p99 small", "no lag was recorded")
    allowed = max(LAG_MIN_NS, LAG_SHARE * service_p99_ns)
    wanted = f"lag p99 ≤ {allowed / 1000:.0f} µs"
    outcome: Outcome = "pass" if lag_p99_ns <= allowed else "fail"
    statement = f"lag p99 is {lag_p99_ns / 1000:.0f} µs"
    return Gate(name="lag", outcome=outcome, value=lag_p99_ns, wanted=wanted, statement=statement)


def error_gate(*, requests: int, failed: int, share_max: float = 0.001) -> Gate:
    """Check that failed requests stay below 0.1 %: a target that refuses work answers fast."""
    wanted = f"failed ≤ {share_max:.1%}"
    total = requests + failed
    if total == 0:
        return _unknown("errors", wanted, "no request was made")
    share = failed / total
    outcome: Outcome = "pass" if share <= share_max else "fail"
    statement = f"{failed} of {total} requests failed"
    return Gate(name="errors", outcome=outcome, value=share, wanted=wanted, statement=statement)


def may_print_quantile(q: float, n: int) -> bool:
    """Tell whether a quantile may be shown at all: at least ten values must lie beyond it."""
    return n * (1 - q) >= TAIL_PRINTED - 1e-9


def _unknown(name: str, wanted: str, why: str) -> Gate:
    return Gate(name=name, outcome="unknown", value=None, wanted=wanted, statement=why)
