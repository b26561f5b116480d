"""Findings on queries: caches that were not cold, wrong and unchecked answers."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.judgements.run_view import RunView

if TYPE_CHECKING:
    from loadstone.analysis.cells.query_streams import ArmKey, StreamRuns


def find_not_cold(view: RunView) -> Iterator[Finding]:
    """Report queries that claim a cold cache and read nothing from the storage."""
    for arm in view.queries.arms if view.queries else ():
        if arm.arm.cache != "cold":
            continue
        answered = [query for query in arm.queries if query.by_block]
        unknown = [query.query for query in answered if query.read_bytes is None]
        for warm, what in (
            ([query.query for query in answered if query.read_bytes == 0], "read nothing from"),
            (unknown, "no counter shows what they read from"),
        ):
            if not warm:
                continue
            yield Finding(
                "cold-not-proven",
                f"{_words(arm.arm)}: {len(warm)} of {len(arm.queries)} queries are called"
                f" cold, and {what} the storage ({_some(warm)})",
                evidence=(Evidence("queries", len(warm), place=_words(arm.arm)),),
                cases=tuple(warm),
            )

    for runs in view.queries.streams if view.queries else ():
        if runs.arm.cache == "cold" and runs.right and not runs.read_bytes:
            what = "no counter shows what they read from" if runs.read_bytes is None else ""
            yield Finding(
                "cold-not-proven",
                f"{_beside(runs)}: queries are called cold, and "
                f"{what or 'read nothing from'} the storage",
                evidence=(Evidence("queries", runs.queries, place=_beside(runs)),),
            )


def find_wrong_answers(view: RunView) -> Iterator[Finding]:
    """Report queries with wrong or unchecked answers, and those that failed."""
    for arm in view.queries.arms if view.queries else ():
        for times in arm.queries:
            for outcome, count in times.failures.items():
                rule = "wrong-answer" if outcome == "wrong_answer" else "query-failed"
                message = next(iter(times.messages), "")
                yield Finding(
                    rule,
                    f"{times.query} on {_words(arm.arm)}: {outcome.replace('_', ' ')}, "
                    f"{count} of {count + len(times.by_block)} runs"
                    f"{f': {message}' if message else ''}",
                    evidence=(Evidence("runs", count, place=times.query),),
                    cases=(times.query,),
                )
        unchecked = [
            times.query for times in arm.queries if times.by_block and not times.is_compared
        ]
        if unchecked:
            yield Finding(
                "answer-not-checked",
                f"{_words(arm.arm)}: the answers of {_some(unchecked)} were compared with nothing",
                cases=tuple(unchecked),
            )

    for runs in view.queries.streams if view.queries else ():
        for failure in runs.failures:
            yield Finding(
                "wrong-answer" if failure.outcome == "wrong_answer" else "query-failed",
                f"{failure.query} in {_beside(runs)}: {failure.outcome.replace('_', ' ')}, "
                f"{failure.count} of {runs.asked} queries"
                f"{f': {failure.message}' if failure.message else ''}",
                evidence=(Evidence("queries", failure.count, place=failure.query),),
                cases=(failure.query,),
            )
        if runs.right and not runs.is_compared:
            yield Finding(
                "answer-not-checked", f"{_beside(runs)}: answers were compared with nothing"
            )


def _beside(runs: "StreamRuns") -> str:
    return f"{runs.streams} stream{'' if runs.streams == 1 else 's'} on {_words(runs.arm)}"


def _words(arm: "ArmKey") -> str:
    return " ".join(filter(None, (arm.target, arm.engine, arm.cache)))


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
