"""A run as an Account: one measurement per trial, operation and metric."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, Literal

from loadstone import units
from loadstone.analysis.accounts.account import (
    ACTION_RATE,
    BYTE_RATE,
    RATE,
    SECONDS,
    Account,
    Disclosure,
    KnownCeiling,
    Measurement,
    Parameter,
)
from loadstone.analysis.cells.actions import (
    ActionCell,
    ActionPart,
    read_action_parts,
    read_group_parts,
    summarise_actions,
)
from loadstone.analysis.cells.cell import Cell, system_of
from loadstone.analysis.cells.summary import summarise_totals
from loadstone.analysis.judgements.left_out import spoiled_trials, without_spoiled
from loadstone.analysis.limits.measured_ceilings import ceilings_of, read_measured_ceilings
from loadstone.analysis.measured.fill import describe_fill
from loadstone.analysis.measured.part import Part
from loadstone.analysis.measured.reading import Measured, read_measured
from loadstone.campaign.planning.query_plan import QUERY
from loadstone.campaign.schema.systems.target import SYSTEM
from loadstone.documents.manifest import HostFacts
from loadstone.documents.trial import TrialDocument
from loadstone.results.record import Record, Run

TIMES = ("response", "service", "first_byte")
LABELS_OF_CELLS = frozenset({"n=1"})
"""Labels that speak of how a cell was put together, and not of a trial."""

TRIAL_FIELDS = (
    "mix",
    "options",
    "keys",
    "stop",
    "rate_limit_per_s",
    "warm_up_ns",
    "iterations",
    "connections",
    "timeout_ns",
    "on_error",
    "verify",
)
DATASET_FIELDS = (
    "buckets", "objects", "size", "compressible", "duplicate", "encryption", "path_encryption",
)  # fmt: skip
SETTING_FIELDS = (
    "payload_signing",
    "checksum",
    "tls",
    "direct",
    "fsync",
    "storage_policy",
    "addressing",
)
HOST_FIELDS = ("cpu", "memory_bytes", "kernel", "network", "nics", "cgroup")


def read_account(run: Run) -> Account:
    """Read a run's tables, one trial at a time, and return it as an account."""
    measured = read_measured(run)
    kept = without_spoiled(measured.parts, spoiled_trials(measured.parts))
    account = account_of(run, measured, summarise_totals(kept, measured.peaks))

    def of(read: Callable[[Record], Iterable[ActionPart]]) -> list[Measurement]:
        found = _of_actions(measured, read)
        return sorted(found, key=lambda one: account.targets.index(one.target))

    return replace(
        account,
        measurements=(*account.measurements, *of(read_action_parts)),
        of_user_types=tuple(one for one in of(read_group_parts) if "user_type" in one.parameters),
    )


def account_of(run: Run, measured: Measured, totals: Sequence[Cell]) -> Account:
    """Return a run as an account, from what was read of it, and its cells of all iterations."""
    named = (run.manifest.get("campaign") or {}).get("targets") or {}
    # In the campaign's order: that of the plan is drawn by lot.
    order: dict[str, int] = {}
    for name, entry in named.items():
        order.setdefault(system_of(name, entry.get("facts") or {}), len(order))
    measurements = tuple(
        sorted(_measurements(measured, totals), key=lambda one: order.get(one.target, len(order)))
    )
    targets = {str(doc["target"]["name"]): doc["target"] for doc in run.plan}
    systems: dict[str, list[str]] = {}
    for name, document in targets.items():
        systems.setdefault(system_of(name, document.get("facts") or {}), []).append(name)
    return Account(
        name=run.name,
        title=run.name,
        measurements=measurements,
        disclosure=_disclosure(run, totals),
        run=str(run.manifest.get("run") or run.path),
        comparable={system: comparable_of(run, names) for system, names in systems.items()},
        identical=tuple(_twins(targets)),
        planned_threads=_planned_threads(run),
        client_links=tuple(_client_links(run)),
        ceilings=tuple(_ceilings(run, systems)),
    )


def _ceilings(run: Run, systems: Mapping[str, Sequence[str]]) -> Iterator[KnownCeiling]:
    """Return the ceilings of systems; one of some of a system's targets is not the system's."""
    for one in ceilings_of(read_measured_ceilings(run)):
        whole = [name for name, own in systems.items() if set(own) <= set(one.targets)]
        if not one.targets or whole:
            yield replace(one, targets=tuple(whole))


def twins_of(run: Run) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a run's targets that are one under two names: A against A."""
    return tuple(_twins({str(doc["target"]["name"]): doc["target"] for doc in run.plan}))


def _measurements(measured: Measured, totals: Sequence[Cell]) -> Iterator[Measurement]:
    alone = {(cell.trials[0], cell.operation): cell for cell in totals if len(cell.trials) == 1}
    order: dict[str, list[Part]] = {}
    for part in without_spoiled(measured.parts, spoiled_trials(measured.parts)):
        order.setdefault(part.record.id, []).append(part)
    seen: dict[object, dict[str, int]] = {}
    found, empty = list[Measurement](), set[object]()
    for name, own in order.items():
        block = own[0].record.trial["block"]
        begun_ns = own[0].record.summary.get("started_unix_ns")
        for cell in _cells_of(name, own, alone) or summarise_totals(own, measured.peaks):
            labels = tuple(label for label in cell.labels if label not in LABELS_OF_CELLS)
            labels += tuple(measured.flags.get(name, ()))
            made = partial(_common(cell), block=block, labels=labels, started_unix_ns=begun_ns)
            of_nothing = made(metric="", value=0.0)
            key = of_nothing.target, of_nothing.case
            of_case = seen.setdefault(key, {})
            if cell.requests and not cell.good:
                empty.add(key)
            for metric, value in _values(cell):
                of_case[metric] = of_case.get(metric, 0) + 1
                found.append(made(metric=metric, value=value, repetition=of_case[metric]))
    # A trial in which all failed has no number: without a word, the others would stand for it.
    for one in found:
        is_told = (one.target, one.case) in empty
        yield replace(one, labels=(*one.labels, "NOTHING")) if is_told else one


def _of_actions(
    measured: Measured, read: Callable[[Record], Iterable[ActionPart]]
) -> Iterator[Measurement]:
    """Yield the numbers of scripts' actions, beside those of the requests that they are made of."""
    records = {part.record.id: part.record for part in measured.parts}
    parts: dict[str, list[ActionPart]] = {}
    of_actions = [part for record in records.values() for part in read(record)]
    for part in without_spoiled(of_actions, spoiled_trials(measured.parts)):
        parts.setdefault(part.record.id, []).append(part)
    seen: dict[object, int] = {}
    for name, own in parts.items():
        record = records[name]
        for action in summarise_actions(own, (), by_round=True):
            group = {"user_type": action.user_type, "space": action.space}
            named = {name: value for name, value in group.items() if value is not None}
            cell = replace(action.cell, parameters={**action.cell.parameters, **named})
            labels = tuple(label for label in cell.labels if label not in LABELS_OF_CELLS)
            labels += tuple(measured.flags.get(name, ()))
            for metric, value in _values_of_action(action):
                made = _common(cell)(
                    metric=metric,
                    value=value,
                    block=record.trial["block"],
                    labels=labels,
                    started_unix_ns=record.summary.get("started_unix_ns"),
                )
                key = made.target, made.case, metric
                seen[key] = seen.get(key, 0) + 1
                yield replace(made, repetition=seen[key])


def _values_of_action(action: ActionCell) -> Iterator[tuple[str, float]]:
    if action.completed_per_s:
        yield ACTION_RATE, action.completed_per_s
    if action.busy_per_s:
        yield "actions_busy_per_s", action.busy_per_s
    if action.cell.response is not None:
        yield "action_ns_mean", action.cell.response.mean_ns
        for quantile, value in action.cell.response.quantiles.items():
            if value is not None:
                yield f"action_ns_{quantile}", float(value)


def _cells_of(
    trial: str, parts: Sequence[Part], alone: Mapping[tuple[str, str], Cell]
) -> list[Cell]:
    """Return the totals of a trial that are of this trial alone, if all are."""
    operations = dict.fromkeys(part.operation for part in parts)
    found = [alone.get((trial, operation)) for operation in operations]
    return [cell for cell in found if cell is not None] if all(found) else []


def _common(cell: Cell) -> partial[Measurement]:
    """Return what makes a measurement of a cell, with what they all have in common."""
    # A target that is no instance of a system has facts of its own: they tell none of its cases
    # apart, and would keep it from being compared with another.
    parameters: dict[str, Parameter] = {
        key: one if isinstance(one, (str, int, float)) or one is None else json.dumps(one)
        for key, one in cell.parameters.items()
        if key not in cell.facts or (SYSTEM in cell.facts and key != SYSTEM)
    }
    return partial(
        Measurement,
        target=cell.system,
        workload=cell.workload,
        operation=cell.operation if cell.phase == cell.operation else _both(cell),
        parameters=parameters,
        round=cell.round,
        work=cell.requests,
        place=f"trial {', '.join(cell.trials)}",
        tool="loadstone",
    )


def _both(cell: Cell) -> str:
    return f"{cell.operation} ({cell.phase})"


def _values(cell: Cell) -> Iterator[tuple[str, float]]:
    if cell.operation == QUERY:
        if cell.good:
            yield SECONDS, 1 / cell.requests_per_s
        return
    if cell.good:
        yield RATE, cell.requests_per_s
    if cell.bytes:
        yield BYTE_RATE, cell.bytes_per_s
    for name, found in zip(TIMES, (cell.response, cell.service, cell.first_byte), strict=True):
        if found is None:
            continue
        yield f"{name}_ns_mean", found.mean_ns
        for quantile, value in found.quantiles.items():
            if value is not None:
                yield f"{name}_ns_{quantile}", float(value)


def _disclosure(run: Run, totals: Sequence[Cell]) -> Disclosure:
    measured = [record.trial for record in run.records if record.trial["measured"]]
    if not measured:
        return Disclosure()
    requests = sum(cell.requests for cell in totals)
    failed = sum(cell.failed for cell in totals)
    are_stated = all(cell.failed_if_stated is not None for cell in totals)
    cpu = [cell.client.cpu_us_per_request for cell in totals]
    costs = [cost for cost in cpu if cost is not None]
    loops: set[Literal["open", "closed"]] = {
        "open" if trial["load"]["kind"] == "open" else "closed"
        for trial in measured
        if trial.get("load")
    }
    blocks = len({trial["block"] for trial in measured})
    verified = {float(one) for trial in measured if (one := trial.get("verify")) is not None}
    connections = {trial.get("connections") for trial in measured}
    return Disclosure(
        connections=_connections(connections),
        replication_unit="block" if blocks > 1 else "trial",
        order=_order(run),
        loop=loops.pop() if len(loops) == 1 else None,
        percentiles="merged histograms",
        correction="Holm",
        dataset_bytes=_dataset_bytes(measured),
        dataset_objects=_dataset_objects(measured),
        client_memory_bytes=(run.manifest.get("host") or {}).get("memory_bytes"),
        instrument_ceiling=_instrument_ceiling(totals),
        client_cost=f"{min(costs):.1f} to {max(costs):.1f} µs of CPU a request" if costs else None,
        errors=f"{failed} of {requests} requests failed, and are in no rate"
        if are_stated
        else None,
        payload=_payload(measured),
        fill=describe_fill(run),
        verified=min(verified) if verified else None,
        all_trials_listed=True,
    )


def _connections(
    found: Collection[str | None],
) -> Literal["keep_alive", "per_request"] | None:
    """Tell whether connections were kept, where it was the same in all trials."""
    if set(found) == {"keep_alive"}:
        return "keep_alive"
    return "per_request" if set(found) == {"per_request"} else None


def _instrument_ceiling(totals: Sequence[Cell]) -> str | None:
    """State the most of its ceiling that the load generator used, if that is known of all cells."""
    shares = [cell.instrument for cell in totals if cell.instrument is not None]
    if not shares or len(shares) != len(totals):
        return None
    most, age_s = max(one.share for one in shares), max(one.age_s for one in shares)
    age = units.format_duration(round(age_s) * 10**9)
    return f"at most {most:.0%} of the load generator's own ceiling, calibrated {age} before"


def _order(run: Run) -> Literal["interleaved", "sequential"] | None:
    """Tell whether the targets took turns: in every block each of them ran."""
    measured = [doc for doc in run.plan if doc["measured"]]
    names = {doc["case"]["target"] for doc in measured}
    blocks: dict[int, set[str]] = {}
    for doc in measured:
        blocks.setdefault(doc["block"], set()).add(doc["case"]["target"])
    if len(names) < 2:
        return None
    takes_turns = len(blocks) > 1 and all(found == names for found in blocks.values())
    return "interleaved" if takes_turns else "sequential"


def _dataset_bytes(measured: Sequence[TrialDocument]) -> int | None:
    found = []
    for trial in measured:
        dataset = trial.get("dataset") or {}
        size = dataset.get("size") or {}
        objects = dataset.get("objects")
        if objects is not None and "bytes" in size:
            found.append(objects * size["bytes"])
    return min(found, default=None)


def _dataset_objects(measured: Sequence[TrialDocument]) -> int | None:
    """Return how many objects each trial had, where all had as many."""
    found = {int((trial.get("dataset") or {}).get("objects") or 0) for trial in measured}
    return (found.pop() or None) if len(found) == 1 else None


def _payload(measured: Sequence[TrialDocument]) -> str | None:
    shares = {
        (
            dataset["compressible"],
            dataset["duplicate"],
            dataset.get("encryption") or "",
            dataset.get("path_encryption") or "",
        )
        for trial in measured
        if (dataset := trial.get("dataset")) and "compressible" in dataset
    }
    if not shares:
        return None
    words = [
        f"{one:.0%} compressible, {other:.0%} duplicate"
        + (f", then encrypted by the client with {cipher}" if cipher else "")
        + (f", paths encrypted with {of_paths}" if of_paths else "")
        for one, other, cipher, of_paths in sorted(shares)
    ]
    return "; ".join(words)


def comparable_of(run: Run, targets: Collection[str]) -> dict[str, object]:
    """Return what must agree with another run's targets, that of a phase under its name."""
    host = run.manifest.get("host") or {}
    facts: dict[str, object] = {f"host {name}": host.get(name) for name in HOST_FIELDS}
    facts["loadstone"] = run.manifest.get("loadstone")
    found: dict[str, set[str]] = {}
    for doc in run.plan:
        if doc["target"]["name"] not in targets or not doc["measured"]:
            continue
        settings: Mapping[str, object] = doc["target"].get("settings") or {}
        for name in SETTING_FIELDS:
            # Whom to trust makes no difference where nothing is encrypted.
            is_idle = name == "tls" and "https:" not in _text(settings)
            if name in settings and not is_idle:
                found.setdefault(f"setting {name}", set()).add(_text(settings[name]))
        phase = f"{doc['case']['workload']} {doc['phase']}"
        for name in TRIAL_FIELDS:
            found.setdefault(f"{phase}: {name}", set()).add(_text(doc.get(name)))
        dataset = doc.get("dataset") or {}
        for name in DATASET_FIELDS:
            found.setdefault(f"{phase}: dataset.{name}", set()).add(_text(dataset.get(name)))
        kind = (doc.get("load") or {}).get("kind")
        found.setdefault(f"{phase}: load.kind", set()).add(str(kind))
    return facts | {name: " or ".join(sorted(values)) for name, values in found.items()}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _twins(targets: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Return the pairs of targets that are one under two names: A against A."""
    for one, other in combinations(targets, 2):
        facts = [
            _text({key: value for key, value in targets[name].items() if key != "name"})
            for name in (one, other)
        ]
        if facts[0] == facts[1]:
            yield one, other


def _planned_threads(run: Run) -> tuple[int, ...]:
    loads: Iterable[object] = (
        (doc.get("load") or {}).get("clients") for doc in run.plan if doc["measured"]
    )
    return tuple(sorted({load for load in loads if isinstance(load, int)}))


def _client_links(run: Run) -> Iterator[tuple[float, int]]:
    host = run.manifest.get("host") or HostFacts()
    for card in (host.get("network") or {}).values():
        speed = card.get("speed_mbit_per_s")
        if speed and card.get("state") != "down":
            yield float(speed) / 1000, int(card.get("mtu") or 1500)
