"""Tables of what surrounds the load: ceilings, hooks, and how the target was."""

import datetime
from collections.abc import Iterable, Sequence

from loadstone.analysis import Findings, TrialFacts
from loadstone.analysis.limits.measured_ceilings import MeasuredCeiling
from loadstone.analysis.limits.target_state import ending
from loadstone.documents.target_state import ClusterState
from loadstone.report.result_words import NOT_KNOWN
from loadstone.report.tables.layout import (
    Column,
    Field,
    Table,
    known,
    number,
    numbers,
    tabulated,
    texts,
    word,
)
from loadstone.results.hook_log import HookEntry

MEBIBYTE = 2**20
SAID_MAX = 80


def ceilings_table(findings: Findings) -> Table | None:
    """Return every measurement of every ceiling; None when none was measured."""
    ceilings = findings.ceilings
    if not ceilings:
        return None
    fields: list[Field[MeasuredCeiling]] = [
        word("Ceiling", lambda ceiling: ceiling.name),
        word("Of", lambda ceiling: ", ".join(ceiling.targets)),
        word("Measured", _measured),
        word("Bounds", lambda ceiling: f"{ceiling.bounds}s"),
        number("Rate", known(lambda ceiling: ceiling.bytes_per_s, MEBIBYTE), "MiB/s"),
        number("Min", known(lambda ceiling: ceiling.low, MEBIBYTE), "MiB/s"),
        number("Max", known(lambda ceiling: ceiling.high, MEBIBYTE), "MiB/s"),
        number("Rate", known(lambda ceiling: ceiling.bytes_per_s, 1e9 / 8), "Gbit/s"),
        number("I/Os", known(lambda ceiling: ceiling.requests_per_s), "per s", is_optional=True),
    ]
    if any(ceiling.service is not None for ceiling in ceilings):
        fields += [
            number("p50", known(lambda c: _quantile_ns(c, "p50"), 1000), "µs", is_optional=True),
            number("p99", known(lambda c: _quantile_ns(c, "p99"), 1000), "µs", is_optional=True),
        ]
    fields.append(word("Value", _value))
    notes = [
        "Min and max: over its seconds, or fio's samples. Value: compared with the results.",
        *_mounts(ceilings),
    ]
    if any(ceiling.count > 1 for ceiling in ceilings):
        notes.append("×: this many of them work in parallel in each target.")
    return tabulated("Ceilings", ceilings, fields, notes=notes)


def _measured(ceiling: MeasuredCeiling) -> str:
    moment = "" if ceiling.moment == "before all trials" else f", {ceiling.moment}"
    return f"{ceiling.measurement}{moment}"


def _quantile_ns(ceiling: MeasuredCeiling, name: str) -> int | None:
    return None if ceiling.service is None else ceiling.service.quantiles[name]


def _value(ceiling: MeasuredCeiling) -> str:
    value = "" if not ceiling.is_value else f"× {ceiling.count}" if ceiling.count > 1 else "yes"
    return value if ceiling.is_cleaned_up else f"{value} (left behind what it made)"


def _mounts(measured_ceilings: Sequence[MeasuredCeiling]) -> Iterable[str]:
    """Yield a line for each mount in fio's terms: IOPS of small blocks, BW of large ones."""
    for name in dict.fromkeys(
        measured_ceiling.name
        for measured_ceiling in measured_ceilings
        if measured_ceiling.kind == "mount"
    ):
        of_mount = [
            measured_ceiling
            for measured_ceiling in measured_ceilings
            if measured_ceiling.name == name
        ]
        words = []
        for bounds in ("write", "read"):
            rates = [ceiling for ceiling in of_mount if ceiling.bounds == bounds]
            if not rates:
                continue
            small = max(rate.requests_per_s or 0 for rate in rates)
            large = max(rate.bytes_per_s for rate in rates)
            words.append(
                f"{bounds.capitalize()}: IOPS={_decimal(small, '')}, BW={_decimal(large, 'B/s')}"
            )
        yield f"{name}: {'; '.join(words)} (10³, 10⁶ and 10⁹)."


def _decimal(value: float, unit: str) -> str:
    for power, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= power:
            return f"{value / power:.3g}{letter}{unit}"
    return f"{value:.3g}{unit}"


def hooks_table(findings: Findings) -> Table | None:
    """Return every hook that was run, in order; None when there was none."""
    if not findings.hooks:
        return None
    starts = {trial.trial: trial.started_unix_ns for trial in findings.trials}
    rows = [_hook_row(entry, starts.get(entry.get("trial") or "")) for entry in findings.hooks]
    columns = (
        Column(head="Started", unit="UTC", align="left"),
        *texts("Hook", "At", "Trial"),
        *numbers(("Into it", "s"), ("Took", "s")),
        Column(head="Ended", align="left"),
        Column(head="Said last", align="left", is_optional=True),
    )
    notes = ("Into it: seconds from the start of the trial's load; before it they are negative.",)
    return Table(title="Hooks", columns=columns, rows=tuple(rows), notes=notes)


def _hook_row(entry: HookEntry, started_ns: int | None) -> tuple[str, ...]:
    moment = datetime.datetime.fromtimestamp(entry["started_unix_ns"] / 1e9, tz=datetime.UTC)
    into_ns = None if started_ns is None else entry["started_unix_ns"] - started_ns
    is_run = entry["state"] != "not reached"
    lines = str(entry["said"]).splitlines() or [""]
    return (
        f"{moment:%Y-%m-%d %H:%M:%S}",
        entry["hook"],
        entry["at"],
        entry.get("trial") or "",
        NOT_KNOWN if into_ns is None or not is_run else f"{into_ns / 1e9:.1f}",
        f"{(entry['ended_unix_ns'] - entry['started_unix_ns']) / 1e9:.2f}" if is_run else NOT_KNOWN,
        ending(entry),
        lines[-1][-SAID_MAX:],
    )


def target_table(findings: Findings) -> Table | None:
    """Return the state of each trial's Ceph cluster; None if it was not queried."""
    rows = [
        (trial, when, state)
        for trial in findings.trials
        for when, states in trial.target_state.items()
        if (state := states.get("ceph"))
    ]
    if not rows:
        return None
    fields: list[Field[tuple[TrialFacts, str, ClusterState]]] = [
        word("Trial", lambda row: row[0].trial),
        word("Target", lambda row: row[0].target),
        word("When", lambda row: row[1]),
        word("Health", lambda row: _health(row[2]) or NOT_KNOWN),
        word("Placement groups", lambda row: _groups(row[2]) or NOT_KNOWN),
        word("OSDs", lambda row: _osds(row[2]) or NOT_KNOWN),
        word("Fill", lambda row: _fill(row[2]) or NOT_KNOWN),
        word("Pools", lambda row: _pools(row[2]) or NOT_KNOWN),
        word("Versions", lambda row: ", ".join(row[2].get("versions") or ()) or NOT_KNOWN),
    ]
    return tabulated("The target's cluster", rows, fields)


def _health(state: ClusterState) -> str:
    checks = ", ".join(state.get("checks") or ())
    return f"{state.get('health', '')}{f' ({checks})' if checks else ''}"


def _groups(state: ClusterState) -> str:
    groups = state.get("groups") or {}
    return ", ".join(f"{count} {name}" for name, count in groups.items())


def _osds(state: ClusterState) -> str:
    if "osds_up" not in state:
        return ""
    classes = ", ".join(f"{count} {name}" for name, count in (state.get("classes") or {}).items())
    return f"{state['osds_up']} up of {classes}"


def _fill(state: ClusterState) -> str:
    words = [f"{state['fill']:.1%}"] if "fill" in state else []
    fullest = state.get("fill_of_fullest_osd")
    words += [f"fullest OSD {fullest:.1%}"] if fullest is not None else []
    return ", ".join(words)


def _pools(state: ClusterState) -> str:
    pools = state.get("pools") or {}
    return "; ".join(
        ", ".join(
            str(word)
            for word in (
                name,
                pool.get("redundancy"),
                pool.get("class"),
                f"{pool['pg_num']} groups" if "pg_num" in pool else None,
            )
            if word
        )
        for name, pool in pools.items()
    )
