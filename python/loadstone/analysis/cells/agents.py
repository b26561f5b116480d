"""The rows of a trial by agent.

In the windows of the whole trial, so that counts, bytes and histograms add up to the cell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadstone.analysis.grouping import added_up, grouped
from loadstone.analysis.measured.part import Part, read_parts
from loadstone.analysis.measured.rows import Rows
from loadstone.analysis.statistics.latency import Latency, latency, merge
from loadstone.results.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCell:
    """One operation of one trial and one agent, over all iterations.

    `requests_per_s` is its share of the trial's rate, by good requests: work at the edges of the
    window is only known of all agents together.
    """

    agent: str
    trial: str
    operation: str
    requests: int
    good: int
    objects: int
    bytes: int
    errors: Mapping[str, int]
    duration_s: float
    requests_per_s: float
    response: Latency | None
    service: Latency | None
    first_byte: Latency | None


def read_agents(record: Record, intervals: Rows) -> tuple[AgentCell, ...]:
    """Return the results of each agent in a trial, with operations in the trial's order."""
    whole = grouped(read_parts(record, intervals), lambda part: part.operation)
    cells = []
    for agent in sorted(set(intervals["agent"].tolist())):
        parts = grouped(
            read_parts(record, intervals.where("agent", agent)), lambda part: part.operation
        )
        cells += [_cell(agent, of_operation, whole[name]) for name, of_operation in parts.items()]
    return tuple(cells)


def _cell(agent: str, parts: Sequence[Part], whole: Sequence[Part]) -> AgentCell:
    errors = added_up(error for part in parts for error in part.errors.items())
    good, whole_good = (sum(part.good for part in some_parts) for some_parts in (parts, whole))
    duration_s = sum(part.duration_s for part in whole)
    trial_rate = sum(part.work.requests for part in whole) / duration_s
    return AgentCell(
        agent=agent,
        trial=parts[0].record.id,
        operation=parts[0].operation,
        requests=good + sum(errors.values()),
        good=good,
        objects=sum(part.objects for part in parts),
        bytes=sum(part.bytes for part in parts),
        errors=errors,
        duration_s=duration_s,
        requests_per_s=trial_rate * good / whole_good if whole_good else 0.0,
        response=_latency(parts, "response"),
        service=_latency(parts, "service"),
        first_byte=_latency(parts, "first_byte"),
    )


def _latency(parts: Sequence[Part], name: str) -> Latency | None:
    return latency(merge(part.histograms[name] for part in parts))
