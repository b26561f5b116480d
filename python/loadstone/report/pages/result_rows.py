"""The table of results on a page: cells, and the numbers for sorting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadstone.analysis.answers.answer import Answer
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.naming import describe_size
from loadstone.analysis.rules import find_rule
from loadstone.report.result_words import operation_words
from loadstone.report.tables.layout import Field
from loadstone.report.tables.results import screen_fields, varied_names

CLIENT_BOUND = "client"
"""The kind of a limit that is the instrument's own: the rate is a bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """A result of all rounds, or of one: its cells with what sorts them, and its limit."""

    result: Result
    operation: str
    size: str
    round: str
    cells: Sequence[tuple[Field[Result], str, str | None]]
    chip: Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    fields: Sequence[Field[Result]]
    rows: Sequence[ResultRow]


def result_table(answer: Answer, rounds: Sequence[Result]) -> ResultTable:
    """Return fields and rows: all results, and those of rounds."""
    every = answer.results
    screen = screen_fields(every, varied_names(every))
    data = [screen.data] * any(result.bytes for result in every)
    fields = [screen.target, screen.operation, *screen.parameters, screen.rate, screen.spread]
    fields += [*data, *screen.times, screen.failed, screen.trials]
    rows = [
        ResultRow(
            result=result,
            operation=operation_words(result),
            size="" if result.size_bytes is None else describe_size(result.size_bytes),
            round=of_round,
            cells=[(field, field.cell(result), _sorted_by(field, result)) for field in fields],
            chip=_chip(result),
        )
        for result, of_round in (
            *((result, "") for result in every),
            *((result, str(result.round)) for result in rounds),
        )
    ]
    return ResultTable(fields=fields, rows=rows)


def _sorted_by(field: Field[Result], result: Result) -> str | None:
    value = field.value(result)
    return None if value is None else repr(value)


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
