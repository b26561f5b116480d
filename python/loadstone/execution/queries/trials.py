"""Runs trials of queries in the processes of query engines."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from loadstone.campaign.planning.kinds import CHECK, LOAD, STREAMS
from loadstone.campaign.planning.lifecycle import CLEAN_UP
from loadstone.campaign.planning.query_plan import ON_SERVER
from loadstone.documents.python_types import (
    QueryDocument,
    QuerySummary,
    StreamQuery,
    StreamsSummary,
)
from loadstone.documents.summary import Iteration, Summary
from loadstone.documents.trial import TrialDocument
from loadstone.engines import entry_of
from loadstone.engines.answers import Answer
from loadstone.engines.engine import EngineUse, SparkOptions, Tables
from loadstone.engines.messages import (
    EngineOpened,
    OpenEngine,
    QueryAnswer,
    RunQuery,
    TablesWritten,
    WriteTables,
)
from loadstone.engines.places import OWN_FORMAT, TablePlace
from loadstone.engines.tables import Mark, TableFile, files_by_table, generate, hash_of, text_of
from loadstone.errors import TargetError
from loadstone.execution import secrets
from loadstone.execution.executor import Output
from loadstone.execution.queries.checks import (
    AnswerCheck,
    ExpectedAnswer,
    cache_of,
    check_answer,
    check_queries,
    keep_answer,
)
from loadstone.execution.queries.engine_process import EngineError, EngineProcess, KeptEngines
from loadstone.execution.queries.streams import EndedQuery, QueryStreams
from loadstone.execution.queries.summaries import SecondRows, added, tables_summary, use_of_query
from loadstone.execution.queries.table_places import engine_settings, table_place

_SECOND_NS = 1_000_000_000


class QueryTrials:
    """The executor of kind `queries`."""

    def __init__(self) -> None:
        """Start without an engine."""
        self._engines = KeptEngines()

    def close(self) -> None:
        """Stop the engines that were kept."""
        self._engines.close()

    def check(self, documents: Iterable[TrialDocument]) -> None:
        """Check for the engines, and for space on each target and for the generated tables."""
        check_queries(documents)

    def run(self, document: TrialDocument, output: Output) -> Summary:
        """Load tables, run one query or several streams, or remove the tables."""
        trial = _Trial(document, output, self._engines)
        output.begin(trial.stop)
        match document["phase"]:
            case phase if phase == LOAD:
                return trial.load()
            case phase if phase == CLEAN_UP:
                return trial.clean_up()
            case phase if phase == STREAMS:
                return trial.streams()
        return trial.query()


def remove_tables(document: TrialDocument) -> Summary:
    """Remove the tables that a run loaded, and return the summary of the clean-up."""
    summary: Summary = {"state": "finished", "requests": 0, "failed": 0, "objects_swept": 0}
    summary.update(_removed(table_place(document), document))
    return summary


def _removed(place: TablePlace, document: TrialDocument) -> Summary:
    mark = place.mark()
    claimed = (document.get("ownership") or {}).get("volumes", [])
    if mark is None and claimed and (volume := place.volume()) not in claimed:
        why = f"it was on {', or '.join(claimed)}, and its path now leads to {volume}"
        return {"places_left": [{"place": place.name, "kind": "not_there", "reason": why}]}
    if mark is None or mark.run != document["run"]:
        return {"buckets_absent": [place.name], "places_left": []}
    left = place.remove(mark)
    return {
        "objects_swept": len(mark.files),
        "buckets_deleted": [] if left else [place.name],
        "places_left": [
            {"place": place.name, "kind": "foreign", "reason": f"not written by this run: {name}"}
            for name in left[:3]
        ],
    }


class _Trial:
    """A running trial."""

    def __init__(self, document: TrialDocument, output: Output, engines: KeptEngines) -> None:
        self._engines = engines
        self._document = document
        self._settings: QueryDocument = document["queries"]
        self._output = output
        self._is_stopped = False
        self._started_unix_ns = time.time_ns()
        self._started = time.monotonic_ns()
        self._place = table_place(document)
        self._hidden = secrets.values_in(document, os.environ)
        self._done = 0
        self._streams: QueryStreams | None = None

    def stop(self) -> None:
        """Stop at the next tick."""
        self._is_stopped = True

    def tick(self) -> bool:
        """Emit the progress, and return whether to continue."""
        elapsed_ns = time.monotonic_ns() - self._started
        done = self._streams.done if self._streams is not None else 0.0
        self._done = len(self._streams.ended) if self._streams is not None else self._done
        self._output.progress(
            {
                "elapsed_ns": elapsed_ns, "iteration": 1, "iterations": 1, "stage": "measure",
                "requests": self._done, "failed": 0, "unwritten": 0, "lost_races": 0, "bytes": 0,
                "requests_last_s": 0, "bytes_last_s": 0, "p50_ns": 0, "p99_ns": 0, "progress": done,
            }
        )  # fmt: skip
        return not self._is_stopped

    # ---- loading ------------------------------------------------------------------------------

    def load(self) -> Summary:
        """Write the tables to the target, file by file, unless they exist already.

        If this run was interrupted while it wrote them, files with the right hash are kept.
        """
        settings = self._settings
        folder, files = self._generated()
        mark = Mark(
            run=self._document["run"], benchmark=settings["benchmark"], scale=settings["scale"],
            format=settings["storage"], partitions=settings["partitions"], is_complete=False,
            files=files,
        )  # fmt: skip
        there = self._place.mark()
        whole = replace(mark, is_complete=True)
        if there is not None and there.holds(whole):
            # The tables are this run's, if it was interrupted before it recorded their completion.
            is_own = there.run == mark.run
            summary = self._summary(SecondRows("load"))
            written = files if is_own else ()
            summary["data"] = tables_summary(whole, written, was_there=not is_own)
            return summary
        if there is not None and there.run != mark.run:
            raise TargetError(
                f'"{self._place.name}" has incomplete tables of run {there.run[:8]}',
                "loadstone clean with that run's folder removes them",
                kind="of-another-run",
            )
        complete = self._complete_files(files) if there == mark else ()
        self._output.intent([self._place.name])
        if volume := self._place.volume():
            self._output.volume(volume)
        self._place.begin(mark)
        self._started_unix_ns, self._started = time.time_ns(), time.monotonic_ns()
        rows = SecondRows("load")
        if settings["storage"] in ("parquet", ON_SERVER):
            for file in files:
                if file in complete:
                    continue
                if not self.tick():
                    break
                if hash_of(folder / file.name) != file.sha256:
                    raise TargetError(
                        f'"{folder / file.name}" is damaged: its hash differs',
                        f'remove "{folder}"; the tables are then made again',
                    )
                before = time.monotonic_ns()
                self._place.write(file.name, folder / file.name)
                self._note(rows, before, file.size_bytes)
        else:
            self._load_own_format(rows, folder, mark)
        if not self._is_stopped:
            self._place.complete(whole)
        summary = self._summary(rows)
        summary["data"] = tables_summary(whole, complete, was_there=False)
        return summary

    def _complete_files(self, files: Sequence[TableFile]) -> Sequence[TableFile]:
        """Return the files that the run had completed before it was interrupted."""
        return [file for file in files if self.tick() and self._place.holds(file)]

    def _load_own_format(self, rows: SecondRows, folder: Path, mark: Mark) -> None:
        with EngineProcess(self.tick, self._hidden) as process:
            task = WriteTables(
                engine=self._settings["engine"] or "",
                settings=engine_settings(self._document),
                tables=self._tables(mark),
                source=str(folder),
            )
            before = time.monotonic_ns()
            try:
                process.ask(task, TablesWritten, self._timeout_ns)
            except EngineError as error:
                raise TargetError(f"loading the tables: {error}") from error
            self._note(rows, before, sum(file.size_bytes for file in mark.files))

    def _note(self, rows: SecondRows, before_ns: int, size_bytes: int) -> None:
        now = time.monotonic_ns()
        rows.add((now - self._started) // _SECOND_NS, "ok", now - before_ns, size_bytes)
        self._done += 1

    # ---- one query ----------------------------------------------------------------------------

    def query(self) -> Summary:
        """Run one query once, and compare its answer."""
        settings = self._settings
        tables = self._tables_made() if self._document["phase"] == CHECK else self._tables_loaded()
        rows = SecondRows("query")
        name = settings["query"] or ""
        asked = RunQuery(query=text_of(name, settings["scale"]), is_kept=True)
        query_summary: QuerySummary = {
            "query": settings["query"], "engine": settings["engine"], "cache": settings["cache"],
            "threads": settings["threads"],
        }  # fmt: skip
        outcome, message, measured_ns = "ok", None, None
        try:
            with self._opened(tables) as (process, query_summary["version"]):
                if settings["cache"] == "warm":
                    process.ask(replace(asked, is_kept=False), QueryAnswer, self._timeout_ns)
                self._started_unix_ns, self._started = time.time_ns(), time.monotonic_ns()
                answer = process.ask(asked, QueryAnswer, self._timeout_ns)
                query_summary["time_ns"] = measured_ns = answer.time_ns
                query_summary["rows"] = answer.rows
                query_summary.update(use_of_query(answer.use))
                check = self._compare(name, answer.answer or [])
                if check.compared_with is not None:
                    query_summary["compared_with"] = check.compared_with
                if check.wrong is not None:
                    outcome, message = "wrong_answer", check.wrong
        except EngineError as error:
            if error.outcome == "stopped":
                summary = self._summary(rows, state="interrupted")
                summary["query"] = query_summary
                return summary
            outcome, message = error.outcome, str(error)
        elapsed_ns = time.monotonic_ns() - self._started
        query_summary["time_ns"] = time_ns = measured_ns if measured_ns is not None else elapsed_ns
        # Reads of a cluster on other hosts are not counted.
        moved = (query_summary.get("read_bytes") or 0) + (query_summary.get("received_bytes") or 0)
        rows.add(0, outcome, time_ns, moved)
        self._done = 1
        summary = self._summary(rows, message=message, measured_ns=time_ns)
        summary["query"] = query_summary
        return summary

    @contextmanager
    def _opened(self, tables: Tables) -> Iterator[tuple[EngineProcess, str]]:
        """Yield an engine with the tables opened, outside caches if requested, and its version."""
        settings = self._settings
        task = OpenEngine(
            engine=settings["engine"] or "",
            settings=engine_settings(self._document),
            threads=settings["threads"],
            memory_bytes=settings["memory_bytes"],
            tables=tables,
        )
        with self._process(task) as process:
            version = process.ask(task, EngineOpened, self._timeout_ns).version
            if settings["cache"] == "cold":
                # At this point, because engines read the files when they open them.
                self._place.evict()
            yield process, version

    # ---- streams beside each other --------------------------------------------------------------

    def streams(self) -> Summary:
        """Run all streams to their end; restart an engine that dies, for the remaining queries."""
        settings = self._settings
        orders = settings["streams"] or []
        self._streams = streams = QueryStreams(orders, settings["scale"], self._timeout_ns)
        tables = self._tables_loaded()
        is_begun, is_stopped, version = False, False, None
        used: list[EngineUse | None] = []
        while not is_stopped and not streams.are_over:
            warming = None
            try:
                with self._opened(tables) as (process, version):
                    if settings["cache"] == "warm":
                        for warming in streams.names_left:
                            asked = RunQuery(
                                query=text_of(warming, settings["scale"]), is_kept=False
                            )
                            process.ask(asked, QueryAnswer, self._timeout_ns)
                    if not is_begun:
                        self._started_unix_ns, self._started = time.time_ns(), time.monotonic_ns()
                        is_begun = True
                    used.append(streams.ask(process))
            except EngineError as error:
                used.append(None)
                is_stopped = error.outcome == "stopped"
                if not is_stopped:
                    streams.lose(error, warming)
        rows, messages = SecondRows(STREAMS), dict[str, str]()
        queries = [
            self._told_query(query, rows, messages)
            for query in sorted(streams.ended, key=lambda query: query.ended_ns)
        ]
        self._done = len(queries)
        measured_ns = max((query["end_ns"] for query in queries), default=1)
        state = "interrupted" if is_stopped else None
        summary = self._summary(rows, state=state, measured_ns=measured_ns)
        streams_summary: StreamsSummary = {
            "engine": settings["engine"], "cache": settings["cache"],
            "threads": settings["threads"], "version": version or "", **added(used),
            "time_ns": measured_ns, "queries": queries,
        }  # fmt: skip
        if version is None:
            del streams_summary["version"]
        summary["streams"] = streams_summary
        if messages:
            summary["error_examples"] = {STREAMS: messages}
        return summary

    def _told_query(
        self, ended: EndedQuery, rows: SecondRows, messages: dict[str, str]
    ) -> StreamQuery:
        outcome, message = ended.outcome, ended.message
        check = AnswerCheck()
        if ended.answer is not None:
            check = self._compare(ended.query, ended.answer)
        if check.wrong is not None:
            outcome, message = "wrong_answer", check.wrong
        start_ns, end_ns = ended.started_ns - self._started, ended.ended_ns - self._started
        rows.add(max(0, end_ns) // _SECOND_NS, outcome, end_ns - start_ns, 0)
        if message is not None:
            message = secrets.hide(message, self._hidden)
            messages.setdefault(outcome, f"{ended.query}: {message}")
        stream_query: StreamQuery = {
            "stream": ended.stream, "query": ended.query, "rows": ended.rows or 0,
            "outcome": outcome, "message": message, "compared_with": check.compared_with or "",
            "start_ns": start_ns, "end_ns": end_ns,
        }  # fmt: skip
        if ended.rows is None:
            del stream_query["rows"]
        if check.compared_with is None:
            del stream_query["compared_with"]
        return stream_query

    @property
    def _timeout_ns(self) -> int:
        return self._document["timeout_ns"] or 0

    def _process(self, task: OpenEngine) -> AbstractContextManager[EngineProcess]:
        key, group = None, None
        if entry_of(task.engine).is_kept:
            master = task.settings.master if isinstance(task.settings, SparkOptions) else None
            group = f"{master} " if master else None
            # Spark caches the store of a bucket's name, so the bucket is part of the key.
            needs = (task.settings, task.threads, task.memory_bytes, task.tables.bucket)
            key = f"{master} {needs}"
        return self._engines.process(self.tick, self._hidden, key=key, group=group)

    def _tables_loaded(self) -> Tables:
        mark = self._place.mark()
        if mark is None or not mark.is_complete:
            raise TargetError(
                f'"{self._place.name}" has no tables', "start a new run, which loads them first"
            )
        return self._tables(mark)

    def _tables_made(self) -> Tables:
        """Return the generated tables that were written to the targets."""
        folder, files = self._generated()
        return Tables(
            format="parquet",
            partitions=self._settings["partitions"],
            files=files_by_table(files),
            directory=str(folder),
        )

    def _generated(self) -> tuple[Path, tuple[TableFile, ...]]:
        settings = self._settings
        return generate(
            cache_of(settings),
            settings["benchmark"],
            settings["scale"],
            settings["partitions"],
            self.tick,
        )

    def _tables(self, mark: Mark) -> Tables:
        directory = self._place.directory
        if directory is not None and mark.format != "parquet":
            directory = f"{directory}/{OWN_FORMAT}"
        return Tables(
            format=mark.format,
            partitions=mark.partitions,
            files=files_by_table(mark.files),
            directory=directory,
            bucket=self._place.bucket,
            database=self._place.database,
        )

    def _compare(self, query: str, answer: Answer) -> AnswerCheck:
        """Compare an answer with the expected one; store that of the reference engine."""
        settings, folder = self._settings, self._output.folder
        check = check_answer(settings, folder, query, answer)
        if self._document["phase"] == CHECK and check.compared_with is None:
            engine = settings["engine"] or ""
            keep_answer(folder, ExpectedAnswer(query=query, engine=engine, rows=answer))
        return check

    # ---- the end ------------------------------------------------------------------------------

    def clean_up(self) -> Summary:
        """Remove the tables that this run loaded."""
        removed = _removed(self._place, self._document)
        summary = self._summary(SecondRows("delete"))
        summary.update(removed)
        return summary

    def _summary(
        self,
        rows: SecondRows,
        *,
        state: str | None = None,
        message: str | None = None,
        measured_ns: int | None = None,
    ) -> Summary:
        now = time.monotonic_ns()
        end_ns = max(1, measured_ns if measured_ns is not None else now - self._started)
        for batch in rows.batches():
            self._output.trial.write_intervals(batch)
        failed = {outcome: count for outcome, count in rows.outcomes.items() if outcome != "ok"}
        examples = {outcome: message for outcome in failed if message}
        times: Iteration = {
            "iteration": 1, "start_ns": 0, "measure_start_ns": 0,
            "measure_end_ns": end_ns, "end_ns": end_ns,
        }  # fmt: skip
        return {
            "state": state or ("interrupted" if self._is_stopped else "finished"),
            "reason": None,
            "started_unix_ns": self._started_unix_ns,
            "ended_unix_ns": self._started_unix_ns + end_ns,
            "iterations": [times],
            "requests": sum(rows.outcomes.values()),
            "failed": sum(failed.values()),
            "bytes": rows.bytes,
            "error_examples": {rows.operation: examples} if examples else {},
            "filesystem": self._place.filesystem(),
        }
