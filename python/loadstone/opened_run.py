"""A run folder for programs: the objects that `loadstone.open_run` returns.

Everything is read from the folder by the code that makes the reports. Nothing is written.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadstone import units
from loadstone._loadgen import Histogram
from loadstone.analysis import Findings, analyse
from loadstone.analysis.cells.agents import AgentCell, read_agents
from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.measured.part import LATENCIES
from loadstone.analysis.measured.rows import Rows
from loadstone.analysis.statistics.latency import merge
from loadstone.documents.manifest import Manifest
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.errors import InputError
from loadstone.results.record import Record
from loadstone.results.store import read_run

if TYPE_CHECKING:
    import pyarrow as pa

TRIAL = "trial"


class OpenedTrial:
    """One trial of a run that left a record."""

    def __init__(self, record: Record) -> None:
        """Use `OpenedRun.trials`."""
        self._record = record

    def __repr__(self) -> str:
        return f"<trial {self.id}: {self.document['phase']}>"

    @property
    def id(self) -> str:
        """The trial's number in its plan, such as "0007"."""
        return self._record.id

    @property
    def document(self) -> TrialDocument:
        """The trial document, in the format of docs/reference/trial.schema.json."""
        return self._record.trial

    @property
    def summary(self) -> Summary:
        """The load generator's summary of the whole trial; empty if it was interrupted."""
        return self._record.summary

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels from its execution and from reading it: `INTERRUPTED`, `ALTERED` and so on."""
        return self._record.labels

    @property
    def agents(self) -> tuple[AgentCell, ...]:
        """The results of each agent, by operation."""
        return read_agents(self._record, Rows(self._record.intervals))

    @cached_property
    def intervals(self) -> "pa.Table":
        """Requests, bytes and histograms of each second, stage, operation, outcome and agent."""
        table: pa.Table = _arrow().table(self._record.intervals)
        return table

    @cached_property
    def probes(self) -> "pa.Table":
        """The readings of the probes during the trial."""
        table: pa.Table = _arrow().table(self._record.probes)
        return table

    @property
    def requests(self) -> "Iterator[pa.RecordBatch]":
        """The single requests, if the campaign logged them."""
        for rows in self._record.read_requests():
            yield from _arrow().table(rows).to_batches()

    def histogram(self, time: str = "service", **where: str | int) -> Histogram:
        """Return the merged histogram of one kind of time, in nanoseconds.

        `time` is response, service, first_byte or lag. `where` selects rows by their columns; the
        defaults are stage "measure" and outcome "ok".
        """
        return _histogram([self.intervals], time, where)


class OpenedRun:
    """A run: its results and findings as in reports, its tables as Arrow tables."""

    def __init__(self, path: str | Path) -> None:
        """Use `loadstone.open_run`."""
        self._run = read_run(path)

    def __repr__(self) -> str:
        return f"<run {self.name}, {self.state}: {units.counted(len(self.trials), 'trial')}>"

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self._run.name

    @property
    def state(self) -> str:
        """ "running", "finished", "interrupted" or "failed"."""
        return self._run.state

    @property
    def path(self) -> Path:
        """The run folder."""
        return self._run.path

    @property
    def manifest(self) -> Manifest:
        """The campaign, the plan, the host and versions, as described in
        docs/reference/record.md.
        """
        return self._run.manifest

    @cached_property
    def trials(self) -> tuple[OpenedTrial, ...]:
        """The trials that left a record, in the plan's order."""
        return tuple(OpenedTrial(record) for record in self._run.records)

    @cached_property
    def analysis(self) -> Findings:
        """The whole analysis; the other properties are parts of it."""
        return analyse(self._run)

    @property
    def results(self) -> tuple[Result, ...]:
        """One result for each operation of each case, over all trials, rounds and iterations."""
        return self.analysis.results

    @property
    def rounds(self) -> tuple[Result, ...]:
        """Results for each round; equal to `results` if there is only one."""
        return self.analysis.rounds

    @property
    def iterations(self) -> tuple[Result, ...]:
        """Results for each iteration of each round."""
        return self.analysis.iterations

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the run, the gravest first."""
        return self.analysis.findings

    def intervals(self, columns: Sequence[str] | None = None) -> "pa.Table":
        """Return the intervals of all trials, with the trial's id in a first column `trial`."""
        tables = [_arrow().table(record.read_intervals(columns)) for record in self._run.records]
        return _together(self._run.records, tables)

    def probes(self) -> "pa.Table":
        """Return the readings of the probes in all trials, with the trial's id in a first column
        `trial`.
        """
        tables = [_arrow().table(record.probes) for record in self._run.records]
        return _together(self._run.records, tables)

    def histogram(self, result: Result, time: str = "service") -> Histogram:
        """Return the histogram from which a result's percentiles are computed, in nanoseconds."""
        where: dict[str, str | int] = {"operation": result.operation}
        where |= {"iteration": result.iteration} if result.iteration is not None else {}
        intervals = [trial.intervals for trial in self.trials if trial.id in result.trials]
        return _histogram(intervals, time, where)

    def table(self) -> "pa.Table":
        """Return the results as a table with a row for each, and a column for each parameter."""
        table: pa.Table = _arrow().Table.from_pylist([_row(result) for result in self.results])
        return table


def _together(records: Iterable[Record], tables: "Iterable[pa.Table]") -> "pa.Table":
    arrow = _arrow()
    named = [
        table.add_column(0, TRIAL, arrow.array([record.id] * table.num_rows, arrow.utf8()))
        for record, table in zip(records, tables, strict=True)
    ]
    joined: pa.Table = arrow.table({TRIAL: arrow.array([], arrow.utf8())})
    if named:
        joined = arrow.concat_tables(named)
    return joined


def _histogram(
    tables: "Iterable[pa.Table]", time: str, where: Mapping[str, str | int]
) -> Histogram:
    if time not in LATENCIES:
        raise InputError.of_value(time, f"a kind of time: {', '.join(LATENCIES)}")
    chosen = {"stage": "measure", "outcome": "ok", **where}
    encoded: list[bytes | None] = []
    for table in tables:
        for column, value in chosen.items():
            if column not in table.column_names:
                raise InputError.of_value(column, f"a column: {', '.join(table.column_names)}")
            table = table.filter(_arrow().compute.equal(table[column], value))
        encoded += table[time].to_pylist()
    return merge(encoded) or Histogram()


def _row(result: Result) -> dict[str, object]:
    row: dict[str, object] = {
        "target": result.target,
        "workload": result.workload,
        "phase": result.phase,
        "operation": result.operation,
        **{name: value for name, value in result.parameters.items() if name not in _SHOWN_BY_NAME},
        "standing": result.standing,
        "limited_by": result.limit,
        "trials": result.rate.n,
        "requests": result.requests,
        "failed": result.failed_if_stated,
        "bytes": result.bytes,
        "duration_s": result.duration_s,
        "requests_per_s": result.requests_per_s,
        "requests_per_s_low": result.rate.low if result.rate.is_spread else None,
        "requests_per_s_high": result.rate.high if result.rate.is_spread else None,
        "bytes_per_s": result.bytes_per_s,
    }
    headline = result.headline
    for name, value in (headline.quantiles if headline is not None else {}).items():
        row[f"{name}_ns"] = value
    return {**row, "labels": list(result.labels)}


_SHOWN_BY_NAME = frozenset(
    {"target", "workload", "phase", "operation", "round", "labels", "standing"}
)


def _arrow() -> Any:
    """Return pyarrow, which is not needed for numbers and findings."""
    try:
        import pyarrow as pa
        import pyarrow.compute
    except ModuleNotFoundError as error:
        raise InputError(
            f"tables of a run need a package that is not installed: {error.name}",
            "pip install 'loadstone[arrow]'",
        ) from None
    return pa
