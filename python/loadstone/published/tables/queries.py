"""Tables of queries in the layout of a published report: averages side by side, and every time."""

from collections.abc import Mapping, Sequence
from statistics import fmean

SECONDS_WIDTH = 7

Times = Mapping[str, Sequence[float]]
"""The repetitions of a query in seconds, by the query's name, such as "Q01"."""


def queries_table(systems: Mapping[str, Times]) -> str:
    """Return a Markdown table of mean seconds, systems side by side; a query not run is blank."""
    names = list(dict.fromkeys(name for times in systems.values() for name in times))
    widths = {system: max(SECONDS_WIDTH, len(system)) for system in systems}
    lines = ["| Query |" + "".join(f" {system:>{widths[system]}} |" for system in systems)]
    lines.append("| ----- |" + "".join(f" {'-' * (widths[one] - 1)}: |" for one in systems))
    for name in names:
        cells = "".join(
            f" {_mean(times.get(name)):>{widths[system]}} |" for system, times in systems.items()
        )
        lines.append(f"| {name:<5} |{cells}")
    return "\n".join(lines) + "\n"


def repetitions_block(title: str, times: Times) -> str:
    """Return every time behind the averages of one system, a query a line, under its title."""
    lines = [f"* {title}", "```"]
    for name, seconds in times.items():
        detail = ", ".join(f"{value:.1f}" for value in seconds)
        lines.append(f"{name}, avg: {_mean(seconds):>5}, detail: [{detail}]")
    return "\n".join([*lines, "```"]) + "\n"


def _mean(seconds: Sequence[float] | None) -> str:
    return f"{fmean(seconds):.1f}" if seconds else ""
