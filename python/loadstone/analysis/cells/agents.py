"""The rows of a cell by agent.

In the windows of the whole trial, so that counts, bytes and histograms add up to the cell.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from loadstone.analysis.grouping import added_up, grouped, grouped_pairs
from loadstone.analysis.measured.part import Part, read_parts
from loadstone.analysis.measured.rows import Rows
from loadstone.analysis.statistics.latency import Latency, latency, merge
from loadstone.documents.outcomes import NO_FAILURES
from loadstone.results.record import Record


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts and times of one operation.

    `requests` are all, `good` those that count in rates, and `errors` the others by kind, including
    those for unwritten objects and lost races.
    """

    operation: str
    trials: tuple[str, ...]
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
    def failed(self) -> int:
        """The failed requests."""
        others = sum(self.errors.get(outcome, 0) for outcome in NO_FAILURES)
        return self.requests - self.good - others

    @property
    def headline(self) -> Latency | None:
        """The latency that is shown first: response time, or else service time."""
        return self.response or self.service


@dataclass(frozen=True, kw_only=True)
class AgentCell(Counts):
    """One agent's part in a cell: a client host, or the clients that sign with one profile's keys.

    `requests_per_s` is its share of the cell's rate, by good requests, and `bytes_per_s` by bytes:
    work at the edges of the window is only known for all agents together.
    """

    agent: str
    requests_per_s: float
    bytes_per_s: float


def read_agents(record: Record, intervals: Rows) -> tuple[AgentCell, ...]:
    """Return the results of each agent in a trial over its iterations, sorted by agent."""
    parts = with_agents(read_parts(record, intervals), record, intervals)
    cells: list[AgentCell] = []
    for of_operation in grouped(parts, lambda part: part.operation).values():
        duration_s = sum(part.duration_s for part in of_operation)
        works = [part.work for part in of_operation]
        cells += agents_of(
            of_operation,
            requests_per_s=sum(work.requests for work in works) / duration_s,
            bytes_per_s=sum(work.bytes for work in works) / duration_s,
        )
    return tuple(sorted(cells, key=lambda cell: cell.agent))


def with_agents(parts: Iterable[Part], record: Record, intervals: Rows) -> list[Part]:
    """Return the parts of a trial, each with those of its agents."""
    by_agent = {
        agent: {
            (part.operation, part.iteration): part
            for part in read_parts(record, intervals.where("agent", agent))
        }
        for agent in sorted(set(intervals["agent"].tolist()))
    }
    return [
        replace(
            part,
            agents={
                agent: of_agent[key]
                for key in [(part.operation, part.iteration)]
                for agent, of_agent in by_agent.items()
                if key in of_agent
            },
        )
        for part in parts
    ]


def agents_of(
    parts: Sequence[Part], *, requests_per_s: float, bytes_per_s: float
) -> tuple[AgentCell, ...]:
    """Return what each agent did of a cell that has these parts and rates, sorted by agent."""
    by_agent = grouped_pairs(pair for part in parts for pair in part.agents.items())
    # An agent that did nothing in one of the trials has no part there.
    duration_s = sum(part.duration_s for part in parts)
    good, whole_bytes = sum(part.good for part in parts), sum(part.bytes for part in parts)
    cells = []
    for agent in sorted(by_agent):
        of_agent = by_agent[agent]
        errors = added_up(error for part in of_agent for error in part.errors.items())
        agent_good, agent_bytes = (
            sum(part.good for part in of_agent),
            sum(part.bytes for part in of_agent),
        )
        cells.append(
            AgentCell(
                agent=agent,
                trials=tuple(dict.fromkeys(part.record.id for part in of_agent)),
                operation=of_agent[0].operation,
                requests=agent_good + sum(errors.values()),
                good=agent_good,
                objects=sum(part.objects for part in of_agent),
                bytes=agent_bytes,
                errors=errors,
                duration_s=duration_s,
                requests_per_s=requests_per_s * agent_good / good if good else 0.0,
                bytes_per_s=bytes_per_s * agent_bytes / whole_bytes if whole_bytes else 0.0,
                response=_latency(of_agent, "response"),
                service=_latency(of_agent, "service"),
                first_byte=_latency(of_agent, "first_byte"),
            )
        )
    return tuple(cells)


def _latency(parts: Sequence[Part], name: str) -> Latency | None:
    return latency(merge(part.histograms[name] for part in parts))
