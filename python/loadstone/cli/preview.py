"""What a plan would do, for `--dry-run`."""

import datetime
from typing import Any

from loadstone import units
from loadstone.campaign.plan import Plan
from loadstone.campaign.schedule import start_of, suites
from loadstone.campaign.schema import Schedule
from loadstone.cli import preview_surroundings
from loadstone.cli.output import print_table
from loadstone.execution import host_limits
from loadstone.execution.documents import check_documents

STARTS_SHOWN = 12
ORDERS = {"new": "an order of its own", "same": "the same order"}


def print_preview(plan: Plan, rate: float | None, bandwidth: float | None) -> None:
    """Print the trials of a plan and what they cost."""
    check_documents(plan)
    rows = []
    for planned in plan.trials:
        document = planned.document
        load = document["load"]
        clients = load.get("clients") or f"{load['rate_per_s']:g}/s"
        pause = units.format_duration(planned.pause_before_ns) if planned.pause_before_ns else ""
        operations = ", ".join(entry["operation"] for entry in document["mix"])
        rows.append(
            (
                document["id"],
                document["target"]["name"],
                document["phase"] if planned.is_measured else f"({document['phase']})",
                operations,
                str(document["round"]),
                str(document["block"]),
                _search_load(document) if planned.is_search else str(clients),
                _search_end(document) if planned.is_search else _end(document),
                pause,
            )
        )
    head = ("trial", "target", "phase", "does", "round", "block", "load", "ends", "rest before")
    print_table(head, rows)
    preview_surroundings.print_surroundings(plan)
    cost = plan.estimate(requests_per_s=rate, bytes_per_s=bandwidth)
    print()
    lines = [
        ("trials", f"{cost.trials} ({cost.trials_measured} measured)"),
        ("requests", f"{cost.requests:,}"),
        ("written", units.format_bytes(cost.bytes_written)),
        ("read", units.format_bytes(cost.bytes_read)),
        ("rests", units.format_duration(cost.pauses_ns) if cost.pauses_ns else "none"),
        ("time, at least", units.format_duration(cost.time_ns_min)),
    ]
    if cost.time_ns is not None:
        lines.append(("time, at the rates given", units.format_duration(cost.time_ns)))
    if cost.trials_by_time:
        lines.append(("ended by the clock", f"{cost.trials_by_time} trials, on top of the above"))
    if cost.searches:
        bound = f"{cost.search_trials_max} trials and about " + units.format_duration(
            cost.search_time_ns_max
        )
        lines.append(("searches", f"{cost.searches}, at most {bound}, on top of the above"))
    lines += [
        (f"space on {name}", units.format_bytes(size)) for name, size in cost.peak_bytes.items()
    ]
    connections = host_limits.describe(plan)
    lines += [("connections", connections)] if connections is not None else []
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        print(f"{name:<{width}}  {value}")
    for worry in host_limits.check(plan):
        print(f"warning: {worry.text}\nhint: {worry.hint}")


def print_starts(schedule: Schedule | None) -> None:
    """Print when a schedule starts the plan: what stands above is its first start."""
    if schedule is None:
        return
    now = datetime.datetime.now().astimezone()
    count = suites(schedule)
    print(f"\nstarts    {count:,}, each with the cases above in {ORDERS[schedule.order]}")
    shown = range(count) if count <= STARTS_SHOWN else [*range(STARTS_SHOWN - 1), count - 1]
    for number in shown:
        if number > 0 and number - 1 not in shown:
            print("  ...")
        print(f"  {number + 1:>6,}  {start_of(schedule, now, number):%Y-%m-%d %H:%M:%S}")


def _search_load(document: dict[str, Any]) -> str:
    """Return the loads of a search: "100 to 4,000/s", an end that is to be found left open."""
    loads, per = (
        document["search"]["loads"],
        "" if document["search"]["vary"] == "threads" else "/s",
    )
    if loads["low"] is None and loads["high"] is None:
        return f"from {loads['start']:g}{per}"
    ends = ["…" if loads[key] is None else f"{loads[key]:g}" for key in ("low", "high")]
    return f"{ends[0]} to {ends[1]}{per}"


def _search_end(document: dict[str, Any]) -> str:
    goal, quantile = document["search"]["goal"], document["search"]["quantile"].replace("_", ".")
    limit = units.format_duration(goal["latency_ns_max"])
    time_max = units.format_duration(goal["time_max_s"] * 1e9)
    return f"{quantile} ≤ {limit}; at most {goal['trials_max']} trials, {time_max}"


def _end(document: dict[str, object]) -> str:
    stop = document["stop"]
    assert isinstance(stop, dict)
    parts = []
    if stop.get("requests") is not None:
        parts.append(f"{stop['requests']:,} requests")
    if stop.get("duration_ns") is not None:
        parts.append(units.format_duration(stop["duration_ns"]))
    iterations = document.get("iterations", 1)
    return " or ".join(parts) + (f", {iterations} times" if iterations != 1 else "")
