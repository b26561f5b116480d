"""The table of results on a page: cells, and the numbers for sorting."""

from collections.abc import Iterable, Sequence
from typing import Any

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


Cell = tuple[str, float | str | None, bool]
"""A text, the value that sorts its column, and whether it is a number."""


def result_table(answer: Answer, rounds: Sequence[Result]) -> dict[str, Any]:
    """Return heads, each with whether it is numeric, and rows: all results, and those of rounds."""
    every = answer.results
    varied = varied_parameters(result.parameters for result in every)
    names = [name for name in varied if name != SYSTEM]
    has_data = any(result.bytes for result in every)
    heads = [("Target", False), ("Operation", False)]
    heads += [(name.removesuffix("_bytes").replace("_", " ").capitalize(), True) for name in names]
    heads += [("Rate", True), (spread_head(result.rate for result in every), True)]
    heads += [("Data", True)] * has_data
    heads += [("p50", True), ("p99", True), ("Max", True), ("Failed", True), ("Trials", True)]
    rows = [
        {
            "result": result,
            "operation": operation_words(result),
            "size": "" if result.size_bytes is None else describe_size(result.size_bytes),
            "round": of_round,
            "cells": list(_cells(result, names, has_data=has_data)),
            "chip": _chip(result),
        }
        for result, of_round in (
            *((result, "") for result in every),
            *((result, str(result.round)) for result in rounds),
        )
    ]
    return {"heads": heads, "rows": rows}


def _cells(result: Result, names: Sequence[str], *, has_data: bool) -> Iterable[Cell]:
    rate, times = result.rate, result.headline
    yield result.target, None, False
    yield operation_words(result), None, False
    for name in names:
        yield _parameter(name, result.parameters.get(name))
    yield rate_words(result), short(rate.value), True
    width = (rate.high - rate.low) / rate.value if rate.is_spread else None
    yield ends_words(rate), None if width is None else short(width), True
    if has_data:
        yield data_words(result), short(result.bytes_per_s), True
    for name in ("p50", "p99"):
        value = None if times is None else times.at_least.get(name) or times.quantiles[name]
        yield quantile_words(times, name), value, True
    most = None if times is None else times.max_ns
    yield NOT_KNOWN if most is None else units.format_duration(most), most, True
    share = None if result.failed_if_stated is None else short(result.failed / result.requests)
    yield failed_words(result), share, True
    yield str(rate.n), rate.n, True


def _parameter(name: str, value: object) -> Cell:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    sorted_by = value if isinstance(value, (int, float)) and is_number else None
    return describe_value(name, value), sorted_by, is_number


def _chip(result: Result) -> dict[str, str] | None:
    """Return the limit of a result, or the first reason why it must not be used."""
    verdict = result.verdict
    if result.is_void and (verdict is None or verdict.effect != "invalid"):
        rule = result.reasons[0].partition("(")[0]
        return _worded(result, rule, find_rule(rule).says, "void")
    if verdict is None:
        return None
    kind = "unknown" if result.limit == "UNDETERMINED" else "limit"
    kind = {"valid": kind, "bound": CLIENT_BOUND, "void": "void"}[result.standing]
    grade = f" (grade {verdict.grade})" if verdict.grade else ""
    return _worded(result, result.limit, f"{verdict.reason}{grade}", kind)


def _worded(result: Result, rule: str, says: str, kind: str) -> dict[str, str]:
    return {"id": rule, "words": result.limit_words, "says": says, "kind": kind}
