"""Thresholds that fail a run: "get p99 > 50ms", "failures > 1%"."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.judgements.standing import reason_words
from loadstone.analysis.naming import describe_parameters
from loadstone.analysis.statistics.latency import QUANTILES, Latency
from loadstone.errors import InputError

ALLOWED = (
    'a condition like "p99 > 50ms", "rate < 1000/s", "rate < 100MiB/s", "failures > 1%", with an'
    ' operation before it if it is for that one alone: "get p99 > 50ms"'
)
RATE = "rate"
FAILURES = "failures"
PERCENTILES: Mapping[str, str] = {
    spelling: name
    for name in QUANTILES
    for spelling in (name, name.replace("_", "."), name.replace("_", ""))
}
_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_FORM = re.compile(r"\s*(?:([\w-]+)\s+)?([\w.]+)\s*(>=|<=|>|<)\s*(.+?)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A condition that fails a run; `of` is the phase or operation it is for, None for all.

    `metric` is "rate", "failures" or a name of QUANTILES; `unit` is what `limit` counts: "/s",
    "B/s", "ns", "share" or "requests".
    """

    text: str
    of: str | None
    metric: str
    sign: str
    limit: float
    unit: str

    def is_met(self, value: float) -> bool:
        """Whether a value crosses the threshold."""
        return _COMPARED[self.sign](value, self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a threshold for one case; `what` says why `is_crossed` is None."""

    threshold: Threshold
    case: str
    what: str
    is_crossed: bool | None


def parse_threshold(text: str) -> Threshold:
    """Parse a threshold; raise InputError if it is none."""
    match = _FORM.fullmatch(text)
    name = match[2] if match else ""
    metric = PERCENTILES.get(name, name)
    if match is None or (metric not in (RATE, FAILURES) and metric not in QUANTILES):
        raise InputError.of_value(text, ALLOWED)
    try:
        limit, unit = _limit(metric, match[4])
    except InputError as error:
        raise InputError.of_value(text, error.allowed or ALLOWED, error.hint) from error
    return Threshold(
        text=text.strip(), of=match[1], metric=metric, sign=match[3], limit=limit, unit=unit
    )


def _limit(metric: str, text: str) -> tuple[float, str]:
    if metric == FAILURES:
        if text.endswith("%") or "." in text:
            return units.parse_fraction(text), "share"
        return units.parse_count(text), "requests"
    if metric == RATE:
        size = text.removesuffix("/s")
        if size != text and re.search(r"[A-Za-z]", size):
            return units.parse_size(size.strip()), "B/s"
        return units.parse_rate(text), "/s"
    if not re.search(r"[^\d.\s]", text):
        raise InputError.of_value(text, 'a time with its unit, like "50ms" or "1.5s"')
    return units.parse_duration_ns(text), "ns"


def judge(threshold: Threshold, findings: Findings) -> tuple[Outcome, ...]:
    """Check every case of a run against a threshold."""
    results = [
        result
        for result in findings.results
        if result.requests and threshold.of in (None, result.operation, result.phase)
    ]
    if not results:
        what = f'no result of "{threshold.of}"' if threshold.of else "no result"
        return (Outcome(threshold=threshold, case="the run", what=what, is_crossed=None),)
    return tuple(_judge(threshold, result) for result in results)


def _judge(threshold: Threshold, result: Result) -> Outcome:
    words = [result.target, result.phase, describe_parameters(result.parameters)]
    if result.operation != result.phase:
        words.insert(2, result.operation)
    if threshold.metric == FAILURES:
        is_crossed, what = _failures(threshold, result)
    elif result.is_void:
        is_crossed, what = (
            None,
            f"its numbers are void: {'; '.join(map(reason_words, result.reasons))}",
        )
    elif threshold.metric == RATE:
        is_crossed, what = _rate(threshold, result)
    else:
        is_crossed, what = _latency(threshold, result.headline)
    case = ", ".join(word for word in words if word)
    return Outcome(threshold=threshold, case=case, what=what, is_crossed=is_crossed)


def _failures(threshold: Threshold, result: Result) -> tuple[bool | None, str]:
    if result.failed_if_stated is None:
        return None, "how many requests failed is not stated"
    share = result.failed / result.requests
    value = share if threshold.unit == "share" else result.failed
    return threshold.is_met(value), f"{result.failed:,} of {result.requests:,} requests failed"


def _rate(threshold: Threshold, result: Result) -> tuple[bool | None, str]:
    is_data = threshold.unit == "B/s"
    value = result.bytes_per_s if is_data else result.requests_per_s
    shown = units.format_byte_rate(value) if is_data else units.format_rate(value)
    if not result.is_bound:
        return threshold.is_met(value), f"rate {shown}"
    # The target does at least so much, and perhaps more.
    what = f"rate at least {shown}: {'; '.join(map(reason_words, result.reasons))}"
    is_low = threshold.sign.startswith("<")
    return (None if threshold.is_met(value) == is_low else not is_low), what


def _latency(threshold: Threshold, latency: Latency | None) -> tuple[bool | None, str]:
    name = threshold.metric.replace("_", ".")
    if latency is None:
        return None, f"{name} is not known: no request has a time"
    value = latency.quantiles[threshold.metric]
    if value is not None:
        return threshold.is_met(value), f"{name} {units.format_duration(value)}"
    least, most = latency.min_ns or 0, latency.max_ns
    if threshold.metric in latency.at_least:
        # Its true time is anything from the time-out on.
        least, most = latency.at_least[threshold.metric], 1 << 63
    answers = {threshold.is_met(bound) for bound in (least, most)}
    reason = latency.unresolved[threshold.metric]
    # Whatever a percentile is, it lies between the least and the greatest.
    return (answers.pop() if len(answers) == 1 else None), f"{name} is not resolved: {reason}"
