"""Tables of queries in the layout of a published report: averages side by side, and every time."""

from collections.abc import Mapping

from loadstone.analysis.accounts.case_means import CaseMean

SECONDS_WIDTH = 7

Times = Mapping[str, CaseMean]
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
    for name, case in times.items():
        detail = ", ".join(f"{value:.1f}" for value in case.values)
        lines.append(f"{name}, avg: {_mean(case):>5}, detail: [{detail}]")
    return "\n".join([*lines, "```"]) + "\n"


def _mean(case: CaseMean | None) -> str:
    return f"{case.mean:.1f}" if case is not None else ""
