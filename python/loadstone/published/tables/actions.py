"""Logs and rates of actions in the layout of a published report on client-side encryption."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionStatistics:
    """What one action took, in milliseconds as text, and its rate per thread, as text."""

    time: str
    action: str
    quantiles: Mapping[str, str]
    rate_per_thread: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLog:
    """The statistics of one load: every action at one number of threads and one size."""

    time: str
    provider: str
    threads: int
    size_kib: int
    actions: Sequence[ActionStatistics]


def statistics_log(logs: Sequence[ActionLog], logger: str) -> str:
    """Return the log as its logger writes it, one block per load."""
    blocks = []
    for log in logs:
        head = (
            f"==== Statistics for {log.provider} with {log.threads} threads "
            f"and {log.size_kib} Kb filesize: ===="
        )
        lines = [f"{log.time} [main] INFO {logger} - {head}"]
        for one in log.actions:
            stat = ", ".join(f"{name}={value}" for name, value in one.quantiles.items())
            lines.append(
                f"{one.time} [main] INFO {logger} - {one.action} : StatisticService.Percentiles("
                f"stat={{{stat}}}, throughputPerThread={one.rate_per_thread})"
            )
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def rates_table(action: str, sizes: Sequence[str], rows: Mapping[int, Sequence[str]]) -> str:
    """Return the rates of one action, tab separated: a line per number of threads."""
    lines = [action, "\t".join(["Threads", *sizes])]
    lines += ["\t".join([str(threads), *rates]) for threads, rates in rows.items()]
    return "\n".join(lines) + "\n"
