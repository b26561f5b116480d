"""The tables of what was measured, in the one order in which text reports show them."""

from loadstone.analysis import Findings
from loadstone.report.tables.capacity import capacity_table
from loadstone.report.tables.ceilings import ceilings_table
from loadstone.report.tables.hosts import agents_table, hosts_table
from loadstone.report.tables.layout import (
    Table,
    client_table,
    errors_table,
    iterations_table,
    latency_table,
    results_table,
    rounds_table,
)
from loadstone.report.tables.query_results import query_tables
from loadstone.report.tables.replays import replays_table
from loadstone.report.tables.script_actions import actions_table, groups_table


def measured_tables(findings: Findings) -> tuple[Table | None, ...]:
    """Return the tables of results, then those of what they rest on; None where one has no rows."""
    return (
        capacity_table(findings),
        *query_tables(findings.queries),
        actions_table(findings),
        groups_table(findings),
        replays_table(findings),
        results_table(findings),
        rounds_table(findings),
        ceilings_table(findings),
        iterations_table(findings),
        agents_table(findings),
        hosts_table(findings),
        latency_table(findings),
        client_table(findings),
        errors_table(findings),
    )
