"""The tables of agents: what each did of a result, and the work and clocks of client hosts."""

from collections.abc import Sequence

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.cells.agents import AgentCell
from loadstone.analysis.judgements.result import Result
from loadstone.documents.summary import LoadHost
from loadstone.report.result_words import MARKS, MarkedNumber, notes_below
from loadstone.report.tables.layout import (
    Field,
    Table,
    known,
    measured,
    number,
    numbers,
    tabulated,
    texts,
    word,
)
from loadstone.report.tables.results import case_fields, headline_fields

RowOfAgent = tuple[Result, AgentCell]


def agents_table(findings: Findings) -> Table | None:
    """Return the rate, times and failures of each agent in each result; None for one agent."""
    rows = [(result, agent) for result in findings.results for agent in result.agents]
    if not rows:
        return None
    results = [result for result in findings.results if result.agents]
    of_case, caption = case_fields(results)
    fields: list[Field[RowOfAgent]] = [
        *(field.of(lambda row: row[0]) for field in of_case),
        word("Host or profile", lambda row: row[1].agent),
        measured("Requests", lambda row: _rate(row, row[1].requests_per_s), unit="per s"),
        number("Share", known(_share, 0.01), "%"),
    ]
    if any(agent.bytes for _, agent in rows):
        fields.append(
            measured("Data", lambda row: _rate(row, row[1].bytes_per_s), unit="MiB/s", scale=2**20)
        )
    fields += headline_fields([agent.headline for _, agent in rows], lambda row: row[1].headline)
    fields.append(number("Failed", known(_failed, 0.01), "%"))
    return tabulated(
        "Each client host or profile", rows, fields, caption=caption, notes=notes_below(results)
    )


def _rate(row: RowOfAgent, per_s: float) -> MarkedNumber:
    result, agent = row
    return MarkedNumber(per_s if agent.good else None, MARKS[result.standing])


def _share(row: RowOfAgent) -> float | None:
    result, agent = row
    return agent.good / result.good if result.good else None


def _failed(row: RowOfAgent) -> float:
    _, agent = row
    return agent.failed / agent.requests if agent.failed else 0.0


def hosts_table(findings: Findings) -> Table | None:
    """Return a row per host over all measured trials; None for a single host."""
    trials_by_host: dict[str, list[tuple[str, LoadHost]]] = {}
    for trial in findings.trials:
        for host in trial.hosts if trial.is_measured else ():
            trials_by_host.setdefault(host["name"], []).append((trial.trial, host))
    if not trials_by_host:
        return None
    whole = sum(
        host["requests"] for host_trials in trials_by_host.values() for _, host in host_trials
    )
    return Table(
        title="Client hosts",
        caption="Requests of measured trials. Start error: from the common start. Clock offset:"
        " the host's clock minus the controller's, with the bound of its error.",
        columns=(
            *texts("Host"),
            *numbers(
                "Requests",
                "Share",
                "Failed",
                ("Start error", "at most"),
                ("Clock", "offset ± bound"),
            ),
            *texts("State"),
        ),
        rows=tuple(_row(name, host_trials, whole) for name, host_trials in trials_by_host.items()),
    )


def _row(name: str, host_trials: Sequence[tuple[str, LoadHost]], whole: int) -> tuple[str, ...]:
    requests = sum(host["requests"] for _, host in host_trials)
    errors_ns = [host.get("start_error_ns_max") for _, host in host_trials]
    known_ns = [abs(error) for error in errors_ns if error is not None]
    clocks = [(host.get("clock_offset_ns"), host.get("clock_bound_ns")) for _, host in host_trials]
    known = [
        f"{offset_ns / 1e6:+.2f} ± {bound_ns / 1e6:.2f} ms"
        for offset_ns, bound_ns in clocks
        if offset_ns is not None and bound_ns
    ]
    return (
        name,
        units.format_count(requests),
        f"{requests / whole:.1%}" if whole else "–",
        units.format_count(sum(host["failed"] for _, host in host_trials)),
        f"{max(known_ns) / 1e6:.2f} ms" if known_ns else "–",
        known[-1] if known else "–",
        _state(host_trials),
    )


def _state(host_trials: Sequence[tuple[str, LoadHost]]) -> str:
    lost = [(trial, host) for trial, host in host_trials if host["state"] == "lost"]
    if lost:
        trial, host = lost[0]
        return f"lost in trial {trial}: {host['reason']}"
    idle = sum(host["state"] == "idle" for _, host in host_trials)
    return f"had no client in {idle} of {len(host_trials)} trials" if idle else "well"
