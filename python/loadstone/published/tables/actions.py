"""Prints the actions of scripts as tab-separated rows with all numbers, for spreadsheets."""

import csv
import io
from typing import Any

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.cells.actions import ALL, ActionCell
from loadstone.errors import InputError
from loadstone.report.formats.tabular import times_cells
from loadstone.report.options import Options


def action_rows(findings: Findings, options: Options) -> str:
    """Return a line for each action, then one for each action, space and type of user.

    Absent numbers are empty fields.
    """
    if not findings.actions:
        raise InputError("the table actions is one of users' actions, and this run has none")
    # `user_type` is empty for users without a type, and for all users together.
    counted = [(action, "action") for action in findings.actions]
    counted += [
        (action_group, "user_type" if action_group.action == ALL else "space_and_user_type")
        for action_group in findings.action_groups
    ]
    cells = [action for action, _ in counted]
    names = list(dict.fromkeys(name for cell in cells for name in cell.cell.parameters))
    rows = [{"counted_by": by, **_row(action, names)} for action, by in counted]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), delimiter="\t", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _field(value, options) for name, value in row.items()})
    return stream.getvalue()


def _field(value: Any, options: Options) -> str:
    text = "" if value is None else str(units.csv_cell(value))
    return text.replace(".", ",") if options.decimal_comma and isinstance(value, float) else text


def _row(action: ActionCell, names: list[str]) -> dict[str, Any]:
    cell = action.cell
    rate = cell.rate if action.completed_per_s and cell.rate.is_spread else None
    return {
        "target": cell.target,
        "workload": cell.workload,
        "phase": cell.phase,
        "action": action.action,
        "space": action.space,
        "user_type": action.user_type,
        **{f"parameter_{name}": cell.parameters.get(name) for name in names},
        "round": cell.round,
        "trials": len(cell.trials),
        "actions": cell.requests,
        "good_actions": cell.good,
        "failed_actions": cell.failed,
        "unwritten_actions": cell.unwritten,
        "errors": " ".join(f"{kind}={count}" for kind, count in cell.errors.items()),
        "requests": cell.objects,
        "bytes": cell.bytes,
        "completed_per_s": action.completed_per_s,
        "completed_per_s_low": rate.low if rate is not None else None,
        "completed_per_s_high": rate.high if rate is not None else None,
        "standing": cell.standing,
        "busy_per_s": action.busy_per_s,
        "crypto_share": action.crypto_share,
        **times_cells("response", cell.response),
        **times_cells("service", cell.service),
    }
