"""Trials of queries: through the processes of query engines."""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from loadstone.campaign.planning.lifecycle import CLEAN_UP
from loadstone.campaign.planning.query_plan import CHECK, LOAD, ON_SERVER, STREAMS
from loadstone.documents.summary import Iteration, Summary
from loadstone.documents.trial import QueryDocument, TrialDocument
from loadstone.engines import entry_of
from loadstone.engines.answers import answer_file, difference, like, read_answer_file
from loadstone.engines.benchmark import text_of
from loadstone.engines.places import OWN_FORMAT, TablePlace, place_of
from loadstone.engines.tables import (
    Mark,
    TableFile,
    describe,
    files_by_table,
    generate,
    hash_of,
)
from loadstone.errors import TargetError
from loadstone.execution import secrets
from loadstone.execution.executor import Output
from loadstone.execution.queries.checks import cache_of, check_queries
from loadstone.execution.queries.engine_process import (
    EngineError,
    EngineProcess,
    KeptEngines,
)
from loadstone.execution.queries.second_rows import SecondRows
from loadstone.execution.queries.streams import QueryStreams

ANSWERS = "answers"
"""The folder of a run in which the expected answers are."""

_SECOND_NS = 1_000_000_000


class QueryTrials:
    """The executor of kind `queries`."""

    def __init__(self) -> None:
        """Begin without an engine."""
        self._engines = KeptEngines()

    def close(self) -> None:
        """End the engines that were kept."""
        self._engines.close()

    def check(self, documents: Iterable[TrialDocument]) -> None:
        """Look for the engines, and for room on each target and for the tables themselves."""
        check_queries(documents)

    def run(self, document: TrialDocument, output: Output) -> Summary:
        """Load tables, run one query or streams of them, or remove the tables."""
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
    """Remove the tables that a run loaded, and return what a clean-up's summary says of that."""
    account = _removed(_place(document), document["run"])
    return cast(
        Summary, {"state": "finished", "requests": 0, "failed": 0, "objects_swept": 0, **account}
    )


def _removed(place: TablePlace, run: str) -> dict[str, Any]:
    mark = place.mark()
    if mark is None or mark.run != run:
        return {"buckets_absent": [place.name], "places_left": []}
    left = place.remove(mark)
    return {
        "objects_swept": len(mark.files),
        "buckets_deleted": [] if left else [place.name],
        "places_left": [
            {"place": place.name, "kind": "foreign", "reason": f"not ours: {name}"}
            for name in left[:3]
        ],
    }


def _account(kept: Sequence[TableFile]) -> dict[str, int]:
    return {"files_kept": len(kept), "bytes_kept": sum(one.size_bytes for one in kept)}


def _added(used: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up what processes used; None where one ended without telling."""
    added: dict[str, Any] = {}
    for name in ("cpu_ns", "read_bytes", "received_bytes"):
        told = [one.get(name) for one in used]
        added[name] = None if None in told else sum(told)
    return added | {"cores": next((one["cores"] for one in used if "cores" in one), None)}


def _place(document: TrialDocument) -> TablePlace:
    own, target = document["queries"], document["target"]
    if own["storage"] == ON_SERVER:
        from loadstone.engines.clickhouse_server import DatabasePlace

        settings = cast(dict[str, Any], secrets.resolved(own["settings"], os.environ))
        return DatabasePlace(settings, own["place"], own["partitions"])
    values = {
        name: secrets.resolve(value, os.environ) if isinstance(value, dict) else value
        for name, value in target["settings"].items()
        if name in ("access_key", "secret_key", "session_token")
    }
    if not own["is_directory"] and not {"access_key", "secret_key"} <= values.keys():
        raise TargetError(
            f'target "{target["name"]}": queries need access_key and secret_key in its settings'
        )
    return place_of(target, own["place"], is_directory=own["is_directory"], secrets=values)


class _Trial:
    """One trial, from its first moment on."""

    def __init__(self, document: TrialDocument, output: Output, engines: KeptEngines) -> None:
        self._engines = engines
        self._document = document
        self._own: QueryDocument = document["queries"]
        self._output = output
        self._is_stopped = False
        self._started_unix_ns = time.time_ns()
        self._started = time.monotonic_ns()
        self._place = _place(document)
        self._hidden = secrets.values_in(document, os.environ)
        self._done = 0
        self._streams: QueryStreams | None = None

    def stop(self) -> None:
        """End at the next tick."""
        self._is_stopped = True

    def tick(self) -> bool:
        """Tell how it stands, and whether to go on."""
        elapsed_ns = time.monotonic_ns() - self._started
        done = self._streams.done if self._streams is not None else 0.0
        self._done = len(self._streams.ended) if self._streams is not None else self._done
        self._output.progress(
            {
                "elapsed_ns": elapsed_ns, "iteration": 1, "iterations": 1, "stage": "measure",
                "requests": self._done, "failed": 0, "unwritten": 0, "bytes": 0,
                "requests_last_s": 0, "bytes_last_s": 0, "p50_ns": 0, "p99_ns": 0, "progress": done,
            }
        )  # fmt: skip
        return not self._is_stopped

    # ---- loading ------------------------------------------------------------------------------

    def load(self) -> Summary:
        """Write the tables to the target, file by file; what lies there complete is kept.

        Of tables that this run began to write and was cut off, files with the right hash are kept.
        """
        own = self._own
        folder, files = generate(
            cache_of(own), own["benchmark"], own["scale"], own["partitions"], self.tick
        )
        mark = Mark(
            run=self._document["run"], benchmark=own["benchmark"], scale=own["scale"],
            format=own["storage"], partitions=own["partitions"], is_complete=False, files=files,
        )  # fmt: skip
        there = self._place.mark()
        whole = replace(mark, is_complete=True)
        if there is not None and there.holds(whole):
            # Of this run itself, if it was cut off before it could say that all is there.
            is_own = there.run == mark.run
            data = {**describe(whole), "was_there": not is_own, **_account(files if is_own else ())}
            return self._summary(SecondRows("load"), data=data)
        if there is not None and there.run != mark.run:
            raise TargetError(
                f'"{self._place.name}" has tables of run {there.run[:8]} that are not whole',
                "loadstone clean with that run's folder removes them",
            )
        kept = self._kept(files) if there == mark else ()
        self._output.intent([self._place.name])
        self._place.begin(mark)
        self._started_unix_ns, self._started = time.time_ns(), time.monotonic_ns()
        rows = SecondRows("load")
        if own["storage"] in ("parquet", ON_SERVER):
            for one in files:
                if one in kept:
                    continue
                if not self.tick():
                    break
                if hash_of(folder / one.name) != one.sha256:
                    raise TargetError(
                        f'"{folder / one.name}" is damaged: its hash is another',
                        f'remove "{folder}"; the tables are made anew',
                    )
                before = time.monotonic_ns()
                self._place.write(one.name, folder / one.name)
                self._note(rows, before, one.size_bytes)
        else:
            self._load_own_format(rows, folder, mark)
        if not self._is_stopped:
            self._place.complete(whole)
        data = {**describe(whole), "was_there": False, **_account(kept)}
        return self._summary(rows, data=data)

    def _kept(self, files: Sequence[TableFile]) -> Sequence[TableFile]:
        """Return the files that the run had written before it was cut off."""
        return [one for one in files if self.tick() and self._place.holds(one)]

    def _load_own_format(self, rows: SecondRows, folder: Path, mark: Mark) -> None:
        with EngineProcess(self.tick, self._hidden) as process:
            task = {
                "do": "load", "engine": self._own["engine"], "source": str(folder),
                "settings": self._settings(), "tables": self._tables(mark),
            }  # fmt: skip
            before = time.monotonic_ns()
            try:
                process.ask(task, self._document["timeout_ns"] or 0)
            except EngineError as error:
                raise TargetError(f"loading the tables: {error}") from error
            self._note(rows, before, sum(one.size_bytes for one in mark.files))

    def _note(self, rows: SecondRows, before_ns: int, size_bytes: int) -> None:
        now = time.monotonic_ns()
        rows.add((now - self._started) // _SECOND_NS, "ok", now - before_ns, size_bytes)
        self._done += 1

    # ---- one query ----------------------------------------------------------------------------

    def query(self) -> Summary:
        """Run one query once, and compare its answer."""
        own, document = self._own, self._document
        tables = self._tables_made() if document["phase"] == CHECK else self._tables_loaded()
        rows = SecondRows("query")
        text = text_of(own["query"] or "", own["scale"])
        told: dict[str, Any] = {name: own[name] for name in ("query", "engine", "cache", "threads")}
        outcome, message, measured_ns = "ok", None, None
        try:
            with self._opened(tables, told) as process:
                asked = {"do": "run", "query": text, "is_kept": True}
                if own["cache"] == "warm":
                    process.ask({**asked, "is_kept": False}, document["timeout_ns"] or 0)
                self._started_unix_ns, self._started = time.time_ns(), time.monotonic_ns()
                answer = process.ask(asked, document["timeout_ns"] or 0)
                measured_ns = answer["time_ns"]
                found = answer.pop("answer")
                told |= answer
                wrong = self._compare(own["query"] or "", found, told)
                if wrong is not None:
                    outcome, message = "wrong_answer", wrong
        except EngineError as error:
            if error.kind == "stopped":
                return self._summary(rows, query=told, state="interrupted")
            outcome, message = error.kind, str(error)
        elapsed_ns = time.monotonic_ns() - self._started
        time_ns = measured_ns if measured_ns is not None else elapsed_ns
        # Nothing tells what a cluster on other hosts read.
        moved = (told.get("read_bytes") or 0) + (told.get("received_bytes") or 0)
        rows.add(0, outcome, time_ns, moved)
        self._done = 1
        return self._summary(
            rows, query={**told, "time_ns": time_ns}, message=message, measured_ns=time_ns
        )

    @contextmanager
    def _opened(self, tables: Mapping[str, Any], told: dict[str, Any]) -> Iterator[EngineProcess]:
        """Give an engine that knows the tables, and none of them from a cache if that is asked."""
        own = self._own
        task = {
            "do": "open", "engine": own["engine"], "settings": self._settings(),
            "limits": {"threads": own["threads"], "memory_bytes": own["memory_bytes"]},
        }  # fmt: skip
        timeout_ns = self._document["timeout_ns"] or 0
        with self._process(task, tables) as process:
            told["version"] = process.ask({**task, "tables": tables}, timeout_ns)["version"]
            if own["cache"] == "cold":
                # Now, as engines look into the files when they are made known.
                self._place.evict()
            yield process

    # ---- streams beside each other --------------------------------------------------------------

    def streams(self) -> Summary:
        """Run all streams to their end; an engine that dies is started again for the rest."""
        own, timeout_ns = self._own, self._document["timeout_ns"] or 0
        orders = own["streams"] or []
        self._streams = streams = QueryStreams(orders, own["scale"], timeout_ns)
        tables = self._tables_loaded()
        told: dict[str, Any] = {name: own[name] for name in ("engine", "cache", "threads")}
        is_begun, state, used = False, None, []
        while state is None and not streams.are_over:
            warming = None
            try:
                with self._opened(tables, told) as process:
                    if own["cache"] == "warm":
                        for warming in streams.names_left:
                            text = text_of(warming, own["scale"])
                            process.ask({"do": "run", "query": text, "is_kept": False}, timeout_ns)
                    if not is_begun:
                        self._started_unix_ns, self._started = time.time_ns(), time.monotonic_ns()
                        is_begun = True
                    used.append(streams.ask(process))
            except EngineError as error:
                used.append({})
                if error.kind == "stopped":
                    state = "interrupted"
                else:
                    streams.lose(error, warming)
        return self._told_streams(streams, told | _added(used), state)

    def _told_streams(
        self, streams: QueryStreams, told: dict[str, Any], state: str | None
    ) -> Summary:
        rows, started = SecondRows(STREAMS), self._started
        messages: dict[str, str] = {}
        queries = []
        for one in sorted(streams.ended, key=lambda one: int(one["ended_ns"])):
            if "answer" in one:
                wrong = self._compare(one["query"], one.pop("answer"), one)
                if wrong is not None:
                    one |= {"outcome": "wrong_answer", "message": wrong}
            start_ns, end_ns = one.pop("started_ns") - started, one.pop("ended_ns") - started
            rows.add(max(0, end_ns) // _SECOND_NS, one["outcome"], end_ns - start_ns, 0)
            if one["message"] is not None:
                one["message"] = secrets.hide(one["message"], self._hidden)
                messages.setdefault(one["outcome"], f"{one['query']}: {one['message']}")
            queries.append({**one, "start_ns": start_ns, "end_ns": end_ns})
        measured_ns = max((one["end_ns"] for one in queries), default=1)
        self._done = len(queries)
        whole = {**told, "time_ns": measured_ns, "queries": queries}
        summary = self._summary(rows, streams=whole, state=state, measured_ns=measured_ns)
        if messages:
            summary["error_examples"] = {STREAMS: messages}
        return summary

    def _settings(self) -> dict[str, Any]:
        """Return the engine's settings, their secrets resolved."""
        return cast(dict[str, Any], secrets.resolved(self._own.get("settings") or {}, os.environ))

    def _process(
        self, task: Mapping[str, Any], tables: Mapping[str, Any]
    ) -> AbstractContextManager[EngineProcess]:
        key, group = None, None
        if entry_of(self._own["engine"] or "").is_kept:
            master = task["settings"].get("master")
            group = f"{master} " if master else None
            # Spark opens files of a bucket's name once, whatever store it is in.
            key = f"{master} {json.dumps([task, tables['bucket']])}"
        return self._engines.process(self.tick, self._hidden, key=key, group=group)

    def _tables_loaded(self) -> dict[str, Any]:
        mark = self._place.mark()
        if mark is None or not mark.is_complete:
            raise TargetError(
                f'"{self._place.name}" has no tables', "they are loaded first; start a new run"
            )
        return self._tables(mark)

    def _tables_made(self) -> dict[str, Any]:
        """Return the tables that were written to the targets, where they were made."""
        own = self._own
        folder, files = generate(
            cache_of(own), own["benchmark"], own["scale"], own["partitions"], self.tick
        )
        return {
            "format": "parquet", "partitions": own["partitions"],
            "files": files_by_table(files), "directory": str(folder), "bucket": None,
        }  # fmt: skip

    def _tables(self, mark: Mark) -> dict[str, Any]:
        directory = self._place.directory
        if directory is not None and mark.format != "parquet":
            directory = f"{directory}/{OWN_FORMAT}"
        bucket = self._place.bucket
        return {
            "format": mark.format,
            "partitions": mark.partitions,
            "files": files_by_table(mark.files),
            "directory": directory,
            "bucket": asdict(bucket) if bucket is not None else None,
            "database": self._place.database,
        }

    def _compare(self, query: str, found: list[list[Any]], told: dict[str, Any]) -> str | None:
        """Return what is wrong with an answer; that of the trusted engine is kept."""
        own = self._own
        if files := own.get("answer_files"):
            file = answer_file(Path(files), query)
            told["compared_with"] = file.name
            return difference(found, like(read_answer_file(file), found))
        if own["answers"] is None:
            return None
        path = self._output.folder / ANSWERS / f"{query}.json"
        if path.exists():
            expected = json.loads(path.read_text(encoding="utf-8"))
            told["compared_with"] = expected["engine"]
            return difference(found, expected["rows"])
        if self._document["phase"] != CHECK:
            return None
        path.parent.mkdir(exist_ok=True, mode=0o700)
        text = json.dumps({"query": query, "engine": own["engine"], "rows": found})
        path.write_text(text + "\n", encoding="utf-8")
        return None

    # ---- the end ------------------------------------------------------------------------------

    def clean_up(self) -> Summary:
        """Remove what this run loaded."""
        return self._summary(SecondRows("delete"), **_removed(self._place, self._document["run"]))

    def _summary(
        self,
        rows: SecondRows,
        *,
        state: str | None = None,
        message: str | None = None,
        measured_ns: int | None = None,
        **more: Any,
    ) -> Summary:
        now = time.monotonic_ns()
        end_ns = max(1, measured_ns if measured_ns is not None else now - self._started)
        for batch in rows.batches():
            self._output.intervals(batch)
        failed = {outcome: count for outcome, count in rows.outcomes.items() if outcome != "ok"}
        examples = {outcome: message for outcome in failed if message}
        times: Iteration = {
            "iteration": 1, "start_ns": 0, "measure_start_ns": 0,
            "measure_end_ns": end_ns, "end_ns": end_ns,
        }  # fmt: skip
        summary: Summary = {
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
        return cast(Summary, {**summary, **more})
