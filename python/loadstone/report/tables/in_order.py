"""The tables of a run, in the one order in which all reports show them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from loadstone.analysis import Findings
from loadstone.report.tables.capacity import capacity_table, steps_table
from loadstone.report.tables.ceilings import ceilings_table, hooks_table, target_table
from loadstone.report.tables.contention import contention_table
from loadstone.report.tables.hosts import agents_table, hosts_table
from loadstone.report.tables.interventions import intervention_table, verdict_table
from loadstone.report.tables.layout import Table
from loadstone.report.tables.observations import observation_tables
from loadstone.report.tables.query_results import query_tables
from loadstone.report.tables.replays import replays_table
from loadstone.report.tables.results import (
    client_table,
    errors_table,
    iterations_table,
    latency_table,
    results_table,
    rounds_table,
    trials_table,
)
from loadstone.report.tables.script_actions import actions_table, groups_table
from loadstone.results.record import Run

Reader = Literal["terminal", "markdown", "page", "page of queries"]
Section = Literal["capacity", "actions", "numbers", "evidence"]
"""The part of a page that contains a table."""

Tables = Callable[[Run, Findings], Sequence[Table | None]]

_TEXTS: tuple[Reader, ...] = ("terminal", "markdown")
_ALL: tuple[Reader, ...] = (*_TEXTS, "page")
_LONG: tuple[Reader, ...] = ("markdown", "page")


def _each(*tables: Callable[[Findings], Table | None]) -> Tables:
    return lambda _, findings: [table(findings) for table in tables]


_ORDER: tuple[tuple[Section, tuple[Reader, ...], Tables], ...] = (
    ("capacity", _ALL, _each(capacity_table)),
    ("numbers", _TEXTS, lambda _, findings: [*query_tables(findings.queries)]),
    ("actions", _ALL, _each(actions_table, groups_table, replays_table)),
    ("numbers", _ALL, _each(results_table, rounds_table)),
    ("evidence", (*_ALL, "page of queries"), _each(ceilings_table)),
    ("numbers", _ALL, _each(iterations_table)),
    ("numbers", ("page",), _each(contention_table)),
    ("numbers", _ALL, _each(agents_table, hosts_table, latency_table, client_table)),
    ("numbers", (*_ALL, "page of queries"), _each(errors_table)),
    ("capacity", _LONG, _each(steps_table)),
    ("evidence", _LONG, _each(verdict_table)),
    ("evidence", _ALL, observation_tables),
    ("evidence", _ALL, _each(intervention_table)),
    ("numbers", (*_LONG, "page of queries"), _each(trials_table)),
    ("evidence", _LONG, _each(target_table)),
    ("evidence", (*_LONG, "page of queries"), _each(hooks_table)),
)


def tables_of(run: Run, findings: Findings, reader: Reader) -> Iterator[tuple[Section, Table]]:
    """Yield the tables of a report that have rows."""
    for section, readers, make in _ORDER:
        for table in make(run, findings) if reader in readers else ():
            if table is not None and table.rows:
                yield section, table
