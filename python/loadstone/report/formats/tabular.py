"""The results as flat rows, for spreadsheets and data frames: CSV, and Parquet with types."""

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.cells.agents import AgentCell
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.statistics.latency import QUANTILES, Latency
from loadstone.errors import InputError
from loadstone.report.options import Options
from loadstone.results.record import Run

CSV_ROWS = "one line per case, round and iteration"
OF_CASE = (
    "run", "name", "target", "workload", "phase", "operation", "round", "iteration", "trials",
    "standing", "reasons", "duration_s",
)  # fmt: skip
"""Columns in which the row of an agent equals the row of its cell."""
LATENCIES = ("response", "service", "first_byte", "lag", "part")


def render_csv(run: Run, findings: Findings, options: Options) -> bytes:
    """Return one line per cell with a head line; absent numbers are empty fields.

    With a layout that is tab separated, its tables.
    """
    layout = options.layout
    if layout is not None and layout.is_markdown:
        raise InputError(
            f'the table "{layout.name}" is Markdown and no CSV',
            f"-f markdown prints it; --table none -f csv prints {CSV_ROWS}",
        )
    if layout is not None:
        return layout.render(findings, options).encode()
    rows = flat_rows(run, findings)
    stream = io.StringIO()
    writer = csv.DictWriter(
        stream,
        fieldnames=list(rows[0]) if rows else [],
        # If the decimal mark is a comma, spreadsheets expect semicolons between fields.
        delimiter=";" if options.decimal_comma else ",",
        lineterminator="\n",
    )
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _field(value, options) for name, value in row.items()})
    return stream.getvalue().encode()


def render_parquet(run: Run, findings: Findings, options: Options) -> bytes:
    """Return the same rows as a Parquet table."""
    # Imported here: it costs more than a report as CSV.
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(flat_rows(run, findings)), stream)
    return stream.getvalue()


def flat_rows(run: Run, findings: Findings) -> list[dict[str, Any]]:
    """Return one row per cell: each iteration by itself, never added up with the others.

    Below it is one for each of several agents, which has the numbers that are of it alone.
    """
    names = list(dict.fromkeys(name for cell in findings.iterations for name in cell.parameters))
    rows = []
    for cell in findings.iterations:
        row = _row(run, cell, names)
        rows += [row, *(_agent_row(row, agent) for agent in cell.agents)]
    return rows


def _agent_row(row: dict[str, Any], agent: AgentCell) -> dict[str, Any]:
    of_agent = {
        "agent": agent.agent,
        "requests": agent.requests,
        "good_requests": agent.good,
        "failed_requests": agent.failed,
        "errors": _errors(agent.errors),
        "objects": agent.objects,
        "bytes": agent.bytes,
        "requests_per_s": agent.requests_per_s,
        "bytes_per_s": agent.bytes_per_s,
        **times_cells("response", agent.response),
        **times_cells("service", agent.service),
        **times_cells("first_byte", agent.first_byte),
    }
    return {
        name: of_agent.get(
            name, value if name in OF_CASE or name.startswith("parameter_") else None
        )
        for name, value in row.items()
    }


def _row(run: Run, cell: Result, parameters: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "run": run.manifest.get("run"),
        "name": run.name,
        "target": cell.target,
        "workload": cell.workload,
        "phase": cell.phase,
        "operation": cell.operation,
        **{f"parameter_{name}": _plain(cell.parameters.get(name)) for name in parameters},
        "round": cell.round,
        "iteration": cell.iteration,
        "agent": None,
        "trials": len(cell.trials),
        "standing": cell.standing,
        "reasons": " ".join(cell.reasons),
        "limited_by": cell.limit,
        "requests": cell.requests,
        "good_requests": cell.good,
        "failed_requests": cell.failed_if_stated,
        "unwritten_requests": cell.unwritten,
        "lost_races": cell.lost_races,
        "errors": _errors(cell.errors),
        "objects": cell.objects,
        "bytes": cell.bytes,
        "duration_s": cell.duration_s,
        "first_done_s": cell.first_done_s,
        "last_done_s": cell.last_done_s,
        "requests_per_s": cell.requests_per_s,
        "requests_per_s_low": cell.rate.low if cell.rate.is_spread else None,
        "requests_per_s_high": cell.rate.high if cell.rate.is_spread else None,
        "spread_is": cell.rate.spread_is if cell.rate.is_spread else None,
        "bytes_per_s": cell.bytes_per_s,
    }
    for kind in LATENCIES:
        row |= times_cells(kind, getattr(cell, kind))
    row |= {
        "parts": cell.part.count if cell.part is not None else None,
        "parts_failed": cell.parts_failed,
        "little": cell.little,
        "cpu_us_per_request": cell.client.cpu_us_per_request,
        "rss_bytes_max": cell.client.rss_bytes_max,
        "sockets_max": cell.client.sockets_max,
        "share_of_ceiling": cell.instrument.share if cell.instrument is not None else None,
        "ceiling_basis": cell.instrument.basis if cell.instrument is not None else None,
        "hiccup_ns_p99_9": cell.jitter.hiccup_ns_p99_9,
        "run_delay_share": cell.jitter.run_delay_share,
        "labels": " ".join(cell.labels),
    }
    return row


def _errors(errors: Mapping[str, int]) -> str:
    return " ".join(f"{kind}={count}" for kind, count in errors.items())


def times_cells(kind: str, latency: Latency | None) -> dict[str, int | float | None]:
    """Return the columns of one kind of time; empty where it was not recorded."""
    quantiles = latency.quantiles if latency is not None else dict.fromkeys(QUANTILES)
    return {
        **{f"{kind}_{name}_ns": quantiles[name] for name in QUANTILES},
        f"{kind}_max_ns": latency.max_ns if latency is not None else None,
        f"{kind}_mean_ns": latency.mean_ns if latency is not None else None,
    }


def _plain(value: object) -> object:
    is_plain = value is None or isinstance(value, (bool, int, float, str))
    return value if is_plain else json.dumps(value)


def _field(value: object, options: Options) -> object:
    if isinstance(value, float):
        text = f"{value:.10g}"
        return text.replace(".", ",") if options.decimal_comma else text
    return units.csv_cell(value)
