"""A result in words, as all reports print it."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from loadstone import units
from loadstone.analysis.accounts.account import ACTION_RATE, RATE, SECONDS, is_lower_better
from loadstone.analysis.accounts.comparison import CaseComparison, Comparison
from loadstone.analysis.judgements.finding import Evidence
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.judgements.standing import Standing, reason_words
from loadstone.analysis.limits.cell_verdicts import NO_SUCH_LABEL
from loadstone.analysis.naming import metric_value
from loadstone.analysis.rules import label_words
from loadstone.analysis.statistics.latency import Latency
from loadstone.analysis.statistics.mean import INTERVAL_TRIALS_MIN, Mean
from loadstone.documents.outcomes import NO_FAILURES

NOT_KNOWN = "–"
MARKS: dict[Standing, str] = {"valid": "", "bound": "≥ ", "void": "× "}
"""The prefix of a rate by its standing."""

MARK_WORDS: dict[Standing, str] = {"void": "× must not be used", "bound": "≥ a lower bound"}
LIMIT_NOTE = (
    "Limited by: the resource that limited the rate, with the grade of the evidence: A confirmed by"
    " an intervention, B two independent counters, C one counter."
)


class MarkedNumber(NamedTuple):
    """A number of a result, None if it is not known, and the mark before it."""

    value: float | None
    mark: str = ""

    def words(self, words: Callable[[float], str]) -> str:
        """Return the number as `words` print it, with its mark: "≥ 8,050/s"."""
        return NOT_KNOWN if self.value is None else f"{self.mark}{words(self.value)}"


def rate_of(result: Result) -> MarkedNumber:
    return MarkedNumber(result.requests_per_s if result.good else None, MARKS[result.standing])


def data_of(result: Result) -> MarkedNumber:
    """Return the payload per second."""
    return MarkedNumber(result.bytes_per_s if result.bytes else None, MARKS[result.standing])


def failed_of(result: Result) -> MarkedNumber:
    """Return the share of failed requests; unknown if another tool does not state it."""
    if result.failed_if_stated is None:
        return MarkedNumber(None)
    return MarkedNumber(result.failed / result.requests if result.failed else 0.0)


def time_of(latency: Latency | None, name: str) -> MarkedNumber:
    """Return a quantile, as a bound where only that is known, or "max" or "mean"."""
    if latency is None:
        return MarkedNumber(None)
    if name in latency.at_least:
        return MarkedNumber(latency.at_least[name], "≥ ")
    times = {**latency.quantiles, "max": latency.max_ns, "mean": latency.mean_ns}
    return MarkedNumber(times[name])


def rate_words(result: Result) -> str:
    return rate_of(result).words(units.format_rate)


def data_words(result: Result) -> str:
    return data_of(result).words(units.format_byte_rate)


def quantile_words(latency: Latency | None, name: str) -> str:
    return time_of(latency, name).words(units.format_duration)


def failed_words(result: Result) -> str:
    return failed_of(result).words(share_words)


def share_words(share: float) -> str:
    return f"{units.format_number(100 * share, 2)} %" if share else "0"


def ends_words(mean: Mean | None, scale: float = 1) -> str:
    """Return the ends of an interval, or the minimum and maximum of the trials."""
    if mean is None or not mean.is_spread:
        return NOT_KNOWN
    low, high = (units.format_number(end / scale) for end in (mean.low, mean.high))
    return f"{low}–{high}"


def data_ends_words(result: Result) -> str:
    """Return the ends of the data rate in the unit of the rate."""
    scale = 1024 ** max(0, int(math.log(result.bytes_per_s, 1024))) if result.bytes_per_s else 1
    return ends_words(result.byte_rate, scale)


def spread_head(means: Iterable[Mean]) -> str:
    """Return the head of a column of spreads."""
    kinds = {mean.is_interval for mean in means if mean.is_spread}
    if len(kinds) > 1:
        return "Spread"
    return "95 % interval" if kinds == {True} else "Min–max"


def spread_note(means: Sequence[Mean], of: str = "Rate") -> str:
    """Return the meaning of rates and spreads; empty for single trials."""
    repeated = [mean for mean in means if mean.is_spread]
    if not repeated:
        return ""
    counts, days = sorted({mean.n for mean in repeated}), max(mean.days for mean in repeated)
    many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    head = f"{of}: geometric mean of {many} trials" + (f" of {days} days" if days > 1 else "")
    kinds = {mean.is_interval for mean in repeated}
    if kinds == {True}:
        return f"{head}, with its 95 % interval."
    if kinds == {False}:
        return f"{head}, with their minimum and maximum."
    return (
        f"{head}; with its 95 % interval from {INTERVAL_TRIALS_MIN} trials on, otherwise with their"
        " minimum and maximum."
    )


def marks_note(standings: Iterable[Standing]) -> str:
    """Return the meaning of the marks before numbers, if there are some."""
    marked = set(standings)
    words = [text for standing, text in MARK_WORDS.items() if standing in marked]
    return f"{'; '.join(words)}." if words else ""


def notes_below(results: Sequence[Result]) -> Iterable[str]:
    """Yield the notes below a table of results."""
    marks = marks_note(result.standing for result in results if result.good)
    yield from filter(None, (spread_note([result.rate for result in results]), marks))


def standing_notes(results: Sequence[Result]) -> Iterable[str]:
    """Name void and bound results, for layouts without marks."""
    for standing, words in (("void", "Must not be used"), ("bound", "Lower bounds")):
        of_standing = [result for result in results if result.standing == standing]
        if of_standing:
            reasons = dict.fromkeys(
                reason_words(name) for result in of_standing for name in result.reasons
            )
            names = "; ".join(result.name for result in of_standing)
            yield f"{words} ({', '.join(reasons)}): {names}."


def limit_words(result: Result, *, graded: bool = False) -> str:
    """Return the limit of a result: "client CPU", with its grade "client CPU B"."""
    grade = result.verdict.grade if graded and result.verdict is not None else None
    return f"{result.limit_words} {grade}" if grade else result.limit_words or NOT_KNOWN


def operation_words(result: Result) -> str:
    """Return an operation, with its phase if that has another name."""
    return (
        result.operation
        if result.operation == result.phase
        else f"{result.operation} ({result.phase})"
    )


def errors_words(results: Iterable[Result]) -> tuple[str, str]:
    """Return the number of failed requests, the most frequent error and an example."""
    counts: dict[str, int] = {}
    examples: dict[str, str] = {}
    failed = requests = 0
    for result in results:
        failed, requests = failed + result.failed, requests + result.requests
        for kind, count in result.errors.items():
            if kind in NO_FAILURES:
                continue
            counts[kind] = counts.get(kind, 0) + count
        if result.example:
            examples.setdefault(result.most_frequent_error, result.example)
    if not failed:
        return "", ""
    kind = max(counts, key=lambda name: counts[name])
    words = f"{units.format_count(failed)} of {units.format_count(requests)} failed"
    words += f"; {units.format_count(counts[kind])} × {kind.replace('_', ' ')}"
    return words, examples.get(kind, "")


def evidence_words(evidence: Sequence[Evidence]) -> str:
    """Return evidence as a list: metric, value, threshold, and place."""
    return "; ".join(map(_evidence, evidence))


def _evidence(evidence: Evidence) -> str:
    if evidence.threshold == NO_SUCH_LABEL:
        return f"labelled: {label_words(evidence.metric)}"
    unit = f" {evidence.unit}" if evidence.unit else ""
    threshold = (
        "" if evidence.threshold is None else f" (threshold {_shown(evidence.threshold)}{unit})"
    )
    place = f" on {evidence.place}" if evidence.place else ""
    return f"{evidence.metric} {_shown(evidence.value)}{unit}{threshold}{place}"


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else units.format_number(float(value))


def compared_words(compared: Comparison, case: CaseComparison) -> tuple[str, str]:
    """Return the means of both sides, each rate with its mark."""
    is_rate = not is_lower_better(compared.metric)
    # The heading has the unit of these.
    is_plain = compared.metric in (RATE, ACTION_RATE, SECONDS)
    a, b = (
        (MARKS[standing] if is_rate else "")
        + (units.format_number(mean) if is_plain else metric_value(mean, compared.metric))
        for standing, mean in zip(case.standings, (case.a, case.b), strict=True)
    )
    return a, b


def compared_note(compared: Comparison, cases: Sequence[CaseComparison]) -> str:
    """Return the meaning of these marks, if there are some."""
    marked = () if is_lower_better(compared.metric) else cases
    return marks_note(standing for case in marked for standing in case.standings)
