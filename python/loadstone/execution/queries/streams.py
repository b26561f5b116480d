"""Concurrent streams of queries on one engine: requested, running and finished queries."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from loadstone.engines.answers import Answer
from loadstone.engines.engine import EngineUse
from loadstone.engines.messages import NamedQuery, RunStreams, StreamAnswer, StreamsEnded
from loadstone.engines.tables import text_of
from loadstone.execution.queries.engine_process import EngineError, EngineProcess, outcome_of


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedQuery:
    """A finished query of a stream, numbered from 1, with its times on the host's clock."""

    stream: int
    query: str
    outcome: str
    message: str | None
    started_ns: int
    ended_ns: int
    rows: int | None = None
    answer: Answer | None = None


class QueryStreams:
    """The queries of all streams. A query during which the engine dies has failed; the rest
    continues.
    """

    def __init__(self, orders: Sequence[Sequence[str]], scale: float, timeout_ns: int) -> None:
        """Store the names of each stream's queries in order, and the time limit of a query."""
        self.ended: list[EndedQuery] = []
        self._left = [list(order) for order in orders]
        self._count = sum(map(len, orders))
        self._since_ns = [0] * len(orders)
        self._is_asked = False
        names = {name for order in orders for name in order}
        self._queries = {name: NamedQuery(name=name, text=text_of(name, scale)) for name in names}
        self._timeout_ns = timeout_ns

    @property
    def are_over(self) -> bool:
        """Whether every query has ended."""
        return not any(self._left)

    @property
    def done(self) -> float:
        """The share of the queries that have ended."""
        return len(self.ended) / self._count

    def ask(self, process: EngineProcess) -> EngineUse:
        """Run the remaining queries on an open engine; return the resources that it used."""
        streams = [[self._queries[name] for name in left] for left in self._left]
        self._since_ns = [time.monotonic_ns()] * len(streams)
        self._is_asked = True
        process.begin(RunStreams(streams=streams))
        while True:
            answer = process.answer(self._remaining_ns())
            match answer:
                case StreamsEnded(use=use) if self.are_over:
                    return use
                case StreamAnswer(stream=number, query=name) if self._is_asked_for(number, name):
                    self._take(answer)
                case _:
                    raise process.end_for(f"answered {answer} to streams")

    def _is_asked_for(self, number: int, name: str) -> bool:
        return 0 <= number < len(self._left) and name in self._left[number]

    def _take(self, answer: StreamAnswer) -> None:
        self._left[answer.stream].remove(answer.query)
        self._since_ns[answer.stream] = answer.ended_ns
        self.ended.append(
            EndedQuery(
                stream=answer.stream + 1,
                query=answer.query,
                outcome="ok" if answer.error is None else outcome_of(answer.error),
                message=answer.error,
                started_ns=answer.started_ns,
                ended_ns=answer.ended_ns,
                rows=answer.rows,
                answer=answer.answer,
            )
        )

    @property
    def names_left(self) -> list[str]:
        """The queries that some stream has not run yet, without duplicates."""
        return sorted({name for left in self._left for name in left})

    def lose(self, error: EngineError, warming: str | None) -> None:
        """Count all running queries as failed: it is unknown which of them ended the engine.

        If the engine died while warming up a query, that query fails in all streams. If the engine
        could not even open, all queries fail.
        """
        now = time.monotonic_ns()
        for number, left in enumerate(self._left):
            if self._is_asked:
                lost = left[:1]
            else:
                lost = [name for name in left if warming in (None, name)]
            self._left[number] = [name for name in left if name not in lost]
            since = self._since_ns[number] if self._is_asked else now
            kind, message = error.outcome, str(error)
            if self._is_asked and kind == "timeout" and since + self._timeout_ns > now:
                kind, message = "engine_died", "ended with its engine, by another stream's timeout"
            self.ended += [
                EndedQuery(
                    stream=number + 1,
                    query=name,
                    outcome=kind,
                    message=message,
                    started_ns=since,
                    ended_ns=now,
                )
                for name in lost
            ]
        self._is_asked = False

    def _remaining_ns(self) -> int:
        running = [since for since, left in zip(self._since_ns, self._left, strict=True) if left]
        first = min(running, default=time.monotonic_ns())
        return max(0, first + self._timeout_ns - time.monotonic_ns())
