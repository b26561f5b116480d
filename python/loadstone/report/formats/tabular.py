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
CASE_COLUMNS = {name: name for name in ("target", "workload", "phase", "operation")}
COLUMNS = {
    "round": "round",
    "iteration": "iteration",
    "agent": "agent",
    "trials": "trials",
    "standing": "standing",
    "reasons": "reasons",
    "limited_by": "limit",
    "requests": "requests",
    "good_requests": "good",
    "failed_requests": "failed_if_stated",
    "unwritten_requests": "unwritten",
    "lost_races": "lost_races",
    "errors": "errors",
    "objects": "objects",
    "bytes": "bytes",
    "duration_s": "duration_s",
    "first_done_s": "first_done_s",
    "last_done_s": "last_done_s",
    "requests_per_s": "requests_per_s",
    "requests_per_s_low": "rate.spread.low",
    "requests_per_s_high": "rate.spread.high",
    "spread_is": "rate.spread.spread_is",
    "bytes_per_s": "bytes_per_s",
}
"""The columns of a result, or of an agent's part in it, each with the path of its value."""

CLIENT_COLUMNS = {
    "parts": "part.count",
    "parts_failed": "parts_failed",
    "little": "little",
    "cpu_us_per_request": "client.cpu_us_per_request",
    "rss_bytes_max": "client.rss_bytes_max",
    "sockets_max": "client.sockets_max",
    "share_of_ceiling": "instrument.share",
    "ceiling_basis": "instrument.basis",
    "hiccup_ns_p99_9": "jitter.hiccup_ns_p99_9",
    "run_delay_share": "jitter.run_delay_share",
    "labels": "labels",
}
"""The columns behind those of times."""

OF_CASE = ("round", "iteration", "standing", "reasons", "duration_s")
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
    names = dict.fromkeys(name for cell in findings.iterations for name in cell.parameters)
    rows = []
    for cell in findings.iterations:
        case = {
            "run": run.manifest.get("run"),
            "name": run.name,
            **_values(cell, CASE_COLUMNS),
            **{f"parameter_{name}": _plain(cell.parameters.get(name)) for name in names},
        }
        row = case | _row(cell)
        rows.append(row)
        shared = {name: row[name] for name in OF_CASE}
        for agent in cell.agents:
            rows.append(case | _row(agent) | shared | {"failed_requests": agent.failed})
    return rows


def _row(cell: Result | AgentCell) -> dict[str, Any]:
    row = _values(cell, COLUMNS) | {"trials": len(cell.trials)}
    for kind in LATENCIES:
        row |= times_cells(kind, getattr(cell, kind, None))
    return row | _values(cell, CLIENT_COLUMNS)


def _values(cell: Result | AgentCell, columns: Mapping[str, str]) -> dict[str, object]:
    return {name: _value_at(cell, path) for name, path in columns.items()}


def _value_at(item: object, path: str) -> object:
    """Return a value by its path, lists as words; None where an agent, or a result, has none."""
    for name in path.split("."):
        item = getattr(item, name, None)
    if isinstance(item, Mapping):
        return " ".join(f"{kind}={count}" for kind, count in item.items())
    return " ".join(item) if isinstance(item, tuple) else item


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
