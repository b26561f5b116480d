"""Checks of a trial's accounting, which must hold before its numbers are used.

Each returns None where a number that it needs is unknown, which is no success.
"""

LITTLE_TOLERANCE = 0.02
LITTLE_INSTRUMENT = 0.90
ACHIEVED_MIN = 0.99
LAG_MIN_NS = 100_000
LAG_SHARE = 0.05
FAILED_MAX = 0.001
TAIL_PRINTED = 10


def little_ratio(
    *, clients: float, requests_per_s: float | None, service_s_mean: float | None
) -> float | None:
    """Return X · R̄ / N of a closed load, which is 1 within 2 % by Little's law.

    Below 0.98 clients spent time outside requests, below 0.9 probably because of the client; above
    1.02 more requests were in flight than there were clients. The law is necessary and not
    sufficient: a starved client stretches R̄ and keeps it.
    """
    if not requests_per_s or not service_s_mean or clients <= 0:
        return None
    return requests_per_s * service_s_mean / clients


def in_flight_ratio(
    *, in_flight_mean: float | None, requests_per_s: float | None, service_s_mean: float | None
) -> float | None:
    """Return the mean number in flight over X · R̄ of an open load, which is 1 within 2 %."""
    if not requests_per_s or not service_s_mean or in_flight_mean is None:
        return None
    return in_flight_mean / (requests_per_s * service_s_mean)


def is_achieved(*, offered_per_s: float, achieved_per_s: float) -> bool:
    """Tell whether at least 99 % of the requests that were due were answered."""
    return achieved_per_s / offered_per_s >= ACHIEVED_MIN


def is_on_time(*, lag_p99_ns: float | None, service_p99_ns: float | None) -> bool | None:
    """Tell whether requests left when due: lag p99 at most max(100 µs, 5 % of service p99)."""
    if lag_p99_ns is None or service_p99_ns is None:
        return None
    return lag_p99_ns <= max(LAG_MIN_NS, LAG_SHARE * service_p99_ns)


def failed_share(*, good: int, failed: int) -> float | None:
    """Return the share of failed requests, at most 0.1 %: a target that refuses work is fast."""
    return failed / (good + failed) if good + failed else None


def may_print_quantile(q: float, n: int) -> bool:
    """Tell whether a quantile may be shown at all: at least ten values must lie beyond it."""
    return n * (1 - q) >= TAIL_PRINTED - 1e-9
