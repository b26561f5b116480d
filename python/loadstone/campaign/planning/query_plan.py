"""Plans queries: load the tables, run every combination in each loop, remove the tables.

A trial is one run of one query, so that an interrupted run resumes at that query. With streams a
trial runs all of them concurrently, and its rate is known only at its end.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from loadstone.campaign.drivers import Drivers
from loadstone.campaign.planning.kinds import (
    CHECK,
    LOAD,
    MEASURED_PHASES,
    QUERIES,
    QUERY,
    STREAMS,
)
from loadstone.campaign.planning.lifecycle import CLEAN_UP
from loadstone.campaign.planning.trial import FORMAT, PlannedTrial, targets_in_run
from loadstone.campaign.schema.campaign import Campaign
from loadstone.campaign.schema.queries import Queries, is_folder
from loadstone.documents.python_types import Parameters
from loadstone.documents.trial import TargetDocument, TrialDocument

SERVER = "clickhouse_server"
ON_SERVER = "server"
"""The format of tables that only a server can read."""

_OWN_FORMATS = {"mergetree": "clickhouse"}
"""Formats that only one engine reads; the other engines get Parquet copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParameters:
    """The parameters that distinguish trials of queries on a target; None where not applicable.

    `streams` is the number of streams, and `engine` the engine's name in this run.
    """

    query: str | None = None
    streams: int | None = None
    format: str | None = None
    engine: str | None = None
    cache: str | None = None
    threads: int | None = None

    def document(self) -> dict[str, Any]:
        """Return the parameters that are not None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class QueryPlanner:
    """Adds the starts of a schedule to the plan, one after another."""

    def __init__(self, campaign: Campaign, drivers: Drivers, run: str) -> None:
        """Prepare to plan the campaign's queries."""
        assert campaign.queries is not None, "used for no other campaign"
        self.trials: list[PlannedTrial] = []
        self._campaign = campaign
        self._queries: Queries = campaign.queries
        self._run = run
        self._targets = targets_in_run(campaign, drivers, run)

    @property
    def targets(self) -> dict[str, TargetDocument]:
        """The targets as trial documents contain them."""
        return {name: target.document for name, target in self._targets.items()}

    def add_start(self, suite: int, *, is_last: bool) -> None:
        """Plan one start; the first one loads the tables, and the last one removes them.

        Before that, one engine runs each query once on the generated tables, as a reference for the
        answers of all engines on the targets.
        """
        first = next(iter(self._targets))
        if suite == 0:
            for target in self._targets:
                for parameters in self._storage_forms():
                    self._emit(target, LOAD, suite, 1, parameters)
            for query in self._queries.only if self._trusted is not None else ():
                asked = QueryParameters(query=query, engine=self._trusted)
                self._emit(first, CHECK, suite, 1, asked)
        for number in range(self._queries.loops):
            for target, asked in self._order(suite, number):
                block = suite * self._queries.loops + number + 1
                phase = QUERY if asked.streams is None else STREAMS
                self._emit(target, phase, suite, block, asked)
        if is_last and not self._campaign.keep_data:
            for target in self._targets:
                for parameters in self._storage_forms():
                    self._emit(target, CLEAN_UP, suite, 1, parameters)

    @property
    def _trusted(self) -> str | None:
        """The engine whose answers are the reference."""
        answers = self._queries.answers
        return None if answers is None or is_folder(answers) else answers

    def _storage_forms(self) -> list[QueryParameters]:
        """Return the formats and servers that keep tables, for each target."""
        forms: dict[QueryParameters, None] = {}
        for engine in self._queries.engine:
            form = self._format_of(engine.engine)
            server = engine.name if form == ON_SERVER else None
            forms[QueryParameters(format=form, engine=server)] = None
        return list(forms)

    def _format_of(self, engine: str) -> str:
        if engine == SERVER:
            return ON_SERVER
        form = self._queries.storage.format
        return form if _OWN_FORMATS.get(form, engine) == engine else "parquet"

    def _order(self, suite: int, number: int) -> Iterator[tuple[str, QueryParameters]]:
        queries = self._queries
        states = ("cold", "warm") if queries.cache == "both" else (queries.cache,)
        asked = [QueryParameters(query=name) for name in queries.only]
        if queries.streams:
            asked = [QueryParameters(streams=count) for count in queries.streams]
        combinations = list(
            itertools.product(
                self._targets, queries.engine, states, queries.threads or (None,), asked
            )
        )
        if queries.order == "interleaved":
            schedule = self._campaign.schedule
            is_same = schedule is not None and schedule.order == "same"
            seed = number if is_same else suite * queries.loops + number
            random.Random(f"{self._campaign.seed}/queries/{seed}").shuffle(combinations)
        for target, engine, cache, threads, what in combinations:
            yield target, replace(what, engine=engine.name, cache=cache, threads=threads)

    def _streams(self, count: int | None) -> list[list[str]] | None:
        """Return the query order of each stream, the same in every loop and arm."""
        if count is None:
            return None
        orders = [list(self._queries.only) for _ in range(count)]
        for number, order in enumerate(orders):
            random.Random(f"{self._campaign.seed}/streams/{number}").shuffle(order)
        return orders

    def _emit(
        self, target: str, phase: str, suite: int, block: int, asked: QueryParameters
    ) -> None:
        queries, known = self._queries, self._targets[target]
        engine, settings = self._engine_of(asked.engine or "", target)
        if phase == CHECK:
            engine, settings = asked.engine or "", {}
        form = asked.format or self._format_of(engine)
        facts = self._campaign.targets[target].facts
        streams = self._streams(asked.streams)
        document: TrialDocument = {
            "format": FORMAT,
            "kind": QUERIES,
            "id": f"{len(self.trials) + 1:04d}",
            "run": self._run,
            "seed": self._campaign.seed,
            "phase": phase,
            "round": 1,
            "block": block,
            "measured": phase in MEASURED_PHASES,
            "case": {
                "target": target,
                "workload": self._campaign.name,
                "parameters": cast(
                    Parameters, {**asked.document(), "scale": queries.scale, **facts}
                ),
            },
            "target": known.document,
            "stop": {"requests": sum(map(len, streams)) if streams else 1, "duration_ns": None},
            "warm_up_ns": 0,
            "cool_down_ns": 0,
            "iterations": 1,
            "timeout_ns": queries.timeout_ns,
            "on_error": {"action": "continue", "limit": None},
            "log_requests": False,
            "queries": {
                "benchmark": queries.benchmark,
                "scale": queries.scale,
                "storage": form,
                "partitions": queries.storage.partitions,
                "place": self._place(form, target, asked.engine),
                "is_directory": known.driver.facts.place == "directory",
                "data": queries.data,
                "query": asked.query,
                "streams": streams,
                "engine": engine or _OWN_FORMATS.get(form),
                "settings": settings,
                "cache": asked.cache,
                "threads": asked.threads,
                "memory_bytes": queries.memory,
                "answers": self._trusted,
                "answer_files": queries.answers if self._trusted is None else None,
            },
        }
        self.trials.append(PlannedTrial(document=document, suite=suite))

    def _engine_of(self, name: str, target: str) -> tuple[str, dict[str, Any]]:
        """Return the type and the settings of the engine with this name in this run."""
        engine = next(
            (candidate for candidate in self._queries.engine if candidate.name == name), None
        )
        return (name, {}) if engine is None else (engine.engine, engine.settings_for(target))

    def _place(self, form: str, target: str, engine: str | None) -> str:
        """Return the directory's or bucket's name; without the run's id where data is kept."""
        queries = self._queries
        scale = f"{queries.scale:g}".replace(".", "-").replace("+", "")
        name = f"loadstone-{queries.benchmark}-{scale}-{form}-{queries.storage.partitions}"
        # A server holds the tables of all targets, so the name includes the target.
        name += f"-{engine}-{target}" if form == ON_SERVER else ""
        return name if self._campaign.keep_data else f"{name}-{self._run[:8]}"
