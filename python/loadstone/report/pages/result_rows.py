"""The table of results on a page: cells, and the numbers for sorting."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadstone import units
from loadstone.analysis.answers.answer import Answer
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.naming import describe_size, describe_value, varied_parameters
from loadstone.analysis.rules import find_rule
from loadstone.campaign.schema.target import SYSTEM
from loadstone.report.pages.chart_data import short
from loadstone.report.result_words import (
    NOT_KNOWN,
    data_words,
    ends_words,
    failed_words,
    operation_words,
    quantile_words,
    rate_words,
    spread_head,
)

CLIENT_BOUND = "client"
"""The kind of a limit that is the instrument's own: the rate is a bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A word beside a number, with its rule, its meaning and its kind."""

    id: str
    words: str
    says: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultCell:
    """One cell; `value` sorts its column."""

    text: str
    value: float | str | None = None
    is_number: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One result: the values of filters, its cells, and its limit."""

    target: str
    operation: str
    size: str
    round: str
    cells: tuple[ResultCell, ...]
    chips: tuple[Chip, ...]
    is_void: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """Heads, each with whether it is numeric, and rows; `rounds` are those of single rounds."""

    heads: tuple[tuple[str, bool], ...]
    rows: tuple[ResultRow, ...]
    rounds: tuple[ResultRow, ...]


def result_table(answer: Answer, rounds: Sequence[Result]) -> ResultTable:
    """Return the table of all results, and of each round if there are several."""
    every = answer.results
    varied = varied_parameters(result.parameters for result in every)
    names = [name for name in varied if name != SYSTEM]
    has_data = any(result.bytes for result in every)
    heads = [("Target", False), ("Operation", False)]
    heads += [(name.removesuffix("_bytes").replace("_", " ").capitalize(), True) for name in names]
    heads += [("Rate", True), (spread_head(result.rate for result in every), True)]
    heads += [("Data", True)] * has_data
    heads += [("p50", True), ("p99", True), ("Max", True), ("Failed", True), ("Trials", True)]

    def row(result: Result, of_round: str) -> ResultRow:
        return ResultRow(
            target=result.target,
            operation=operation_words(result),
            size="" if result.size_bytes is None else describe_size(result.size_bytes),
            round=of_round,
            cells=tuple(_cells(result, names, has_data=has_data)),
            chips=tuple(_chips(result)),
            is_void=result.is_void,
        )

    return ResultTable(
        heads=tuple(heads),
        rows=tuple(row(result, "") for result in every),
        rounds=tuple(row(result, str(result.round)) for result in rounds),
    )


def _cells(result: Result, names: Sequence[str], *, has_data: bool) -> Iterable[ResultCell]:
    rate, times = result.rate, result.headline
    yield ResultCell(text=result.target, is_number=False)
    yield ResultCell(text=operation_words(result), is_number=False)
    for name in names:
        yield _parameter(name, result.parameters.get(name))
    yield ResultCell(text=rate_words(result), value=short(rate.value))
    width = (rate.high - rate.low) / rate.value if rate.is_spread else None
    yield ResultCell(text=ends_words(rate), value=None if width is None else short(width))
    if has_data:
        yield ResultCell(text=data_words(result), value=short(result.bytes_per_s))
    for name in ("p50", "p99"):
        value = None if times is None else times.at_least.get(name) or times.quantiles[name]
        yield ResultCell(text=quantile_words(times, name), value=value)
    most = None if times is None else times.max_ns
    yield ResultCell(text=NOT_KNOWN if most is None else units.format_duration(most), value=most)
    share = None if result.failed_if_stated is None else short(result.failed / result.requests)
    yield ResultCell(text=failed_words(result), value=share)
    yield ResultCell(text=str(rate.n), value=rate.n)


def _parameter(name: str, value: object) -> ResultCell:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    sorted_by = value if isinstance(value, (int, float)) and is_number else None
    return ResultCell(text=describe_value(name, value), value=sorted_by, is_number=is_number)


def _chips(result: Result) -> Iterable[Chip]:
    """Return the limit of a result, or the first reason why it must not be used."""
    verdict = result.verdict
    if result.is_void and (verdict is None or verdict.effect != "invalid"):
        rule = result.reasons[0].partition("(")[0]
        yield Chip(id=rule, words=result.limit_words, says=find_rule(rule).says, kind="void")
    elif verdict is not None:
        kind = "unknown" if result.limit == "UNDETERMINED" else "limit"
        kind = {"valid": kind, "bound": CLIENT_BOUND, "void": "void"}[result.standing]
        grade = f" (grade {verdict.grade})" if verdict.grade else ""
        yield Chip(
            id=result.limit, words=result.limit_words, says=f"{verdict.reason}{grade}", kind=kind
        )
