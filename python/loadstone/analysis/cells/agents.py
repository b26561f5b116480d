"""What each agent did: the rows of a trial by who made their load.

A cell adds up agents. This is the same, one agent at a time: in the windows of the whole trial, so
that counts, bytes and histograms of all agents add up to those of the cell.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from loadstone.analysis.measured.part import Part, read_parts
from loadstone.analysis.measured.rows import Rows
from loadstone.analysis.statistics.latency import Latency, latency, merge
from loadstone.results.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCell:
    """One operation of one trial as one agent saw it, all iterations added up."""

    agent: str
    trial: str
    operation: str
    requests: int
    good: int
    objects: int
    bytes: int
    errors: Mapping[str, int]
    duration_s: float
    response: Latency | None
    service: Latency | None
    first_byte: Latency | None

    @property
    def requests_per_s(self) -> float:
        """Good requests over the time that was measured."""
        return self.good / self.duration_s


def read_agents(record: Record, intervals: Rows) -> tuple[AgentCell, ...]:
    """Return what each agent did in a trial; agents by name, operations as the trial has them."""
    cells = []
    lengths_s: dict[str, float] = {}
    for part in read_parts(record, intervals):
        lengths_s[part.operation] = lengths_s.get(part.operation, 0.0) + part.duration_s
    for agent in sorted(set(intervals["agent"].tolist())):
        parts: dict[str, list[Part]] = {}
        for part in read_parts(record, intervals.where("agent", agent)):
            parts.setdefault(part.operation, []).append(part)
        cells += [_cell(agent, own, lengths_s[name]) for name, own in parts.items()]
    return tuple(cells)


def _cell(agent: str, parts: list[Part], duration_s: float) -> AgentCell:
    errors: dict[str, int] = {}
    for part in parts:
        for kind, count in part.errors.items():
            errors[kind] = errors.get(kind, 0) + count
    good = sum(part.good for part in parts)
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
        response=_latency(parts, "response"),
        service=_latency(parts, "service"),
        first_byte=_latency(parts, "first_byte"),
    )


def _latency(parts: list[Part], name: str) -> Latency | None:
    return latency(merge(part.histograms[name] for part in parts))
