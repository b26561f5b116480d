"""A cell adds up agents exactly: the same requests give the same cell, by any agents."""

import json
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone import _loadgen
from loadstone._loadgen import Histogram, Table
from loadstone.analysis.cells.agents import read_agents
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.cells.summary import summarise_totals
from loadstone.analysis.measured.part import read_parts
from loadstone.analysis.measured.rows import Rows
from loadstone.analysis.statistics.latency import merge
from loadstone.documents.load_event import LoadEvent
from loadstone.results.record import INTERVAL_SCHEMA, Record
from tests.unit import synthetic_run

SECONDS = 4
SECOND_NS = 1_000_000_000

Request = tuple[str, int, str, str, int]
"""Agent, second, operation, outcome and time."""

REQUESTS = st.lists(
    st.tuples(
        st.sampled_from(["client-1", "client-2", "client-3"]),
        st.integers(0, SECONDS - 1),
        st.sampled_from(["get", "put"]),
        st.sampled_from(["ok", "ok", "ok", "timeout"]),
        st.integers(1_000, 10 * SECOND_NS),
    ),
    min_size=1,
    max_size=200,
)


def table(requests: Sequence[Request], agent: str | None = None) -> Rows:
    """The intervals of these requests, recorded by their own agents or all by one."""
    rows: dict[tuple[str, int, str, str], list[int]] = {}
    for who, second, operation, outcome, time_ns in requests:
        rows.setdefault((agent or who, second, operation, outcome), []).append(time_ns)
    return Rows(INTERVAL_SCHEMA.of_rows([_row(*key, times) for key, times in rows.items()]))


def _row(agent: str, second: int, operation: str, outcome: str, times: list[int]) -> dict:
    recorded = Histogram()
    for time_ns in times:
        recorded.record(time_ns)
    encoded = recorded.encode()
    count = len(times)
    return {
        "agent": agent, "stage": "measure", "iteration": 1, "operation": operation,
        "outcome": outcome, "second": second, "requests": count, "objects": count,
        "bytes": 4096 * count, "response": encoded, "service": encoded, "first_byte": None,
        "lag": None,
    }  # fmt: skip


def record() -> Record:
    end_ns = SECONDS * SECOND_NS
    times = {"iteration": 1, "start_ns": 0, "measure_start_ns": 0}
    trial = synthetic_run.trial(1, "ceph", "get")
    trial["mix"] = [{"operation": "get", "weight": 1.0}, {"operation": "put", "weight": 1.0}]
    ends = {"measure_end_ns": end_ns, "end_ns": end_ns, "first_done_ns": end_ns}
    edges = {"get": {"requests": 1.5, "failed": 0.0, "objects": 1.5, "bytes": 6144.0}}
    iteration = {**times, **ends, "edges": edges}
    return Record(trial=trial, summary={"state": "finished", "iterations": [iteration]})


def totals(requests: Rows) -> Mapping[str, Cell]:
    cells = summarise_totals(list(read_parts(record(), requests)), {}, by_round=True)
    return {cell.operation: cell for cell in cells}


@settings(max_examples=30, deadline=None)
@given(REQUESTS)
def test_agents_add_up_to_what_one_pooled_recorder_would_have(requests: list[Request]) -> None:
    assert totals(table(requests)) == totals(table(requests, agent="pooled"))


@settings(max_examples=30, deadline=None)
@given(REQUESTS)
def test_the_view_of_each_agent_adds_up_to_the_cell(requests: list[Request]) -> None:
    intervals = table(requests)
    agents = read_agents(record(), intervals)
    assert {agent.agent for agent in agents} == {request[0] for request in requests}
    for operation, cell in totals(intervals).items():
        of_operation = [agent for agent in agents if agent.operation == operation]
        assert sum(agent.requests for agent in of_operation) == cell.requests
        assert sum(agent.good for agent in of_operation) == cell.good
        assert sum(agent.bytes for agent in of_operation) == cell.bytes
        assert {agent.duration_s for agent in of_operation} == {cell.duration_s}
        rate = cell.requests_per_s if cell.good else 0.0
        assert sum(agent.requests_per_s for agent in of_operation) == pytest.approx(rate)
        counts = sum(agent.service.count for agent in of_operation if agent.service is not None)
        assert counts == (cell.service.count if cell.service is not None else 0)


def test_one_agent_is_the_whole_histogram() -> None:
    requests: list[Request] = [("client-1", 0, "get", "ok", 1_000_000 * n) for n in range(1, 50)]
    intervals = table(requests)
    (only,) = read_agents(record(), intervals)
    whole = merge(intervals["service"].tolist())
    assert whole is not None
    assert only.service is not None
    assert (only.service.count, only.service.max_ns) == (whole.count, whole.max)


def test_the_load_generator_names_the_agent_of_its_document() -> None:
    trial = synthetic_run.trial(1, "nothing", "put", clients=2)
    trial["target"] = {"name": "nothing", "driver": "null", "settings": {}}
    trial |= {"agent": "client-7", "stop": {"requests": 100, "duration_ns": None}}
    tables: list[Table] = []

    def keep(event: LoadEvent) -> None:
        if event["kind"] == "figures" and event["rows"] is not None:
            tables.append(event["rows"])

    _loadgen.run_trial(json.dumps(trial), keep)
    assert {name for rows in tables for name in rows["agent"]} == {"client-7"}


def test_a_load_whose_lease_runs_out_says_so_itself() -> None:
    trial = synthetic_run.trial(1, "nothing", "put", clients=1) | {
        "target": {"name": "nothing", "driver": "null", "settings": {}},
        "load": {"kind": "open", "rate_per_s": 10.0, "clients_max": 1},
        "stop": {"requests": None, "duration_ns": 3600 * 10**9},
    }
    control = _loadgen.Control()
    control.lease(0.3)
    document = json.loads(_loadgen.run_trial(json.dumps(trial), None, control))
    assert document["state"] == "interrupted"
    assert document["reason"].endswith(" 0.3 s")
