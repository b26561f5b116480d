"""A run as an account: a view of its results, one measurement per trial, operation and metric."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from loadstone import units
from loadstone.analysis.accounts.account import (
    ACTION_RATE,
    BYTE_RATE,
    RATE,
    SECONDS,
    SERVER_CPU,
    SERVER_MEMORY,
    Account,
    Disclosure,
    KnownCeiling,
    Measurement,
    Parameter,
)
from loadstone.analysis.accounts.level import BUSY_RATE, read_level
from loadstone.analysis.cells.actions import ActionCell
from loadstone.analysis.cells.cell import TrialRate, system_of
from loadstone.analysis.grouping import grouped_pairs
from loadstone.analysis.instrument.client_limits import cached_share
from loadstone.analysis.judgements.labels import LEFT_OUT, label_trial
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.limits.measured_ceilings import ceilings_of, read_measured_ceilings
from loadstone.analysis.measured.fill import describe_fill
from loadstone.analysis.naming import describe_size
from loadstone.analysis.statistics.latency import Latency
from loadstone.campaign.planning.kinds import QUERY
from loadstone.campaign.schema.target import SYSTEM
from loadstone.documents.card import Card
from loadstone.documents.manifest import HostFacts
from loadstone.documents.trial import TrialDocument
from loadstone.results.record import ALTERED, Run

LABELS_OF_CELLS = frozenset({"n=1"})
"""Labels that speak of how a result was put together, and not of a trial."""

TIMES = ("response", "service", "first_byte")
TimesOfTrial = Callable[[Result, str, str], bytes | None]
"""The histogram of one kind of time in one trial of a result; None where there is none."""

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
    "buckets", "objects", "size", "compressible", "duplicate", "payload", "encryption",
    "path_encryption",
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


def account_of(
    run: Run,
    results: Sequence[Result],
    actions: Sequence[ActionCell] = (),
    times: TimesOfTrial | None = None,
) -> Account:
    """Return a run's results, and those of its scripts' actions, as an account of their trials.

    `times` has the histograms of trials; without it percentiles are the result's.
    """
    named = (run.manifest.get("campaign") or {}).get("targets") or {}
    # In the campaign's order: the plan's is random.
    order: dict[str, int] = {}
    for name, entry in named.items():
        order.setdefault(system_of(name, entry.get("facts") or {}), len(order))
    servers = dict(_servers(run))
    measurements = [m for result in results for m in _measurements(result, times, servers)]
    measurements += _of_stalled(run, results, servers)
    measurements += [m for action in actions for m in measurements_of_action(action)]
    targets = {str(doc["target"]["name"]): doc["target"] for doc in run.plan}
    systems = grouped_pairs(
        (system_of(name, document.get("facts") or {}), name) for name, document in targets.items()
    )
    return Account(
        name=run.name,
        title=run.name,
        measurements=tuple(sorted(measurements, key=lambda m: order.get(m.target, len(order)))),
        disclosure=_disclosure(run, results),
        run=str(run.manifest.get("run") or run.path),
        comparable={system: comparable_of(run, names) for system, names in systems.items()},
        cards=_cards(run, systems),
        identical=twins_of(run),
        planned_threads=_planned_threads(run),
        client_links=tuple(_client_links(run)),
        ceilings=ceilings_of_run(run),
    )


def _cards(run: Run, systems: Mapping[str, Sequence[str]]) -> dict[str, Card]:
    """Return the cards of systems: that of the first of its targets that has one."""
    cards = run.manifest.get("cards") or {}
    card_of = {
        system: next((cards[name] for name in names if name in cards), None)
        for system, names in systems.items()
    }
    return {system: card for system, card in card_of.items() if card is not None}


def ceilings_of_run(run: Run) -> tuple[KnownCeiling, ...]:
    """Return the ceilings of systems; a ceiling must hold for all of a system's targets."""
    systems: dict[str, list[str]] = {}
    for doc in run.plan:
        name, facts = str(doc["target"]["name"]), doc["target"].get("facts") or {}
        of_system = systems.setdefault(system_of(name, facts), [])
        of_system += [name] if name not in of_system else []
    ceilings = []
    for ceiling in ceilings_of(read_measured_ceilings(run)):
        whole = [
            name for name, of_system in systems.items() if set(of_system) <= set(ceiling.targets)
        ]
        if not ceiling.targets or whole:
            ceilings.append(replace(ceiling, targets=tuple(whole)))
    return tuple(ceilings)


def twins_of(run: Run) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a run's targets that are one target under two names: A against A."""
    targets = {str(doc["target"]["name"]): doc["target"] for doc in run.plan}
    # The servers of several arms may use one address in turn.
    arms = (run.manifest.get("campaign") or {}).get("arms") or {}
    return tuple(
        _twins({name: {**document, "arm": arms.get(name)} for name, document in targets.items()})
    )


def _servers(run: Run) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yield the trials whose server loadstone started, each with what the server used."""
    for record in run.records:
        states = record.target_state
        before, after = (states.get(when, {}).get("server") for when in ("before", "after"))
        if before is None or after is None:
            continue
        used = {SERVER_MEMORY: float(after["memory_peak_bytes"])}
        requests = sum(row["requests"] for row in record.read_intervals(["requests"]).to_pylist())
        if requests:
            used[SERVER_CPU] = (after["cpu_ns"] - before["cpu_ns"]) / requests
        yield record.id, {metric: value for metric, value in used.items() if value > 0}


def leave_out_spoiled(account: Account) -> Account:
    """Leave out of cases that have other trials what only the client made void, as results do."""
    spoiled = {
        id(number)
        for number in account.measurements
        if number.standing == "void" and LEFT_OUT.issuperset(number.reasons)
    }
    usable = {(n.target, n.case, n.metric) for n in account.measurements if id(n) not in spoiled}
    return replace(
        account,
        measurements=tuple(
            number
            for number in account.measurements
            if id(number) not in spoiled
            or (number.target, number.case, number.metric) not in usable
        ),
    )


def _of_stalled(
    run: Run, results: Sequence[Result], servers: Mapping[str, Mapping[str, float]]
) -> Iterator[Measurement]:
    """Yield what servers used in trials that results go without since the client stalled.

    What a server took for its requests is known all the same, and a pair of trials is not lost.
    """
    rated = {rate.trial for result in results for rate in result.trial_rates}
    for record in run.records:
        labels = LEFT_OUT.intersection(label_trial(record))
        if record.id in rated or labels != {"STALLED"} or record.summary.get("failed"):
            continue
        trial = record.trial
        case = {**trial["case"], "phase": trial["phase"]}
        rate = TrialRate(
            trial=record.id, round=trial["round"], block=trial["block"],
            requests=record.summary.get("requests") or 0, requests_per_s=0.0, bytes_per_s=0.0,
            duration_s=0.0, started_unix_ns=record.summary.get("started_unix_ns"),
        )  # fmt: skip
        for result in results:
            if result.round not in (None, trial["round"]):
                continue
            if all(getattr(result, name) == value for name, value in case.items()):
                made = _common(result, rate)
                for metric, value in servers.get(record.id, {}).items():
                    yield made(metric=metric, value=value, standing="valid", reasons=())


def _measurements(
    result: Result, times: TimesOfTrial | None, servers: Mapping[str, Mapping[str, float]]
) -> Iterator[Measurement]:
    for rate, number in _repetitions(result):
        made = partial(_common(result, rate), repetition=number)
        for metric, value in servers.get(rate.trial, {}).items():
            # The server's resource use per request is valid even if the client was late.
            if not result.failed and ALTERED not in result.reasons:
                yield made(metric=metric, value=value, standing="valid", reasons=())
            else:
                yield made(metric=metric, value=value)
        if result.operation == QUERY:
            if rate.requests_per_s:
                yield made(metric=SECONDS, value=1 / rate.requests_per_s)
            continue
        if rate.requests_per_s:
            yield made(metric=RATE, value=rate.requests_per_s)
        if rate.bytes_per_s:
            yield made(metric=BYTE_RATE, value=rate.bytes_per_s)
        if times is not None:
            for kind in TIMES:
                yield from _times(made, result, kind, times(result, rate.trial, kind))
    if times is None and result.good and result.operation != QUERY:
        made = partial(_common(result, result.trial_rates[0]), work=result.good)
        for metric, value in _values_of_times("service_ns", result.headline):
            yield made(metric=metric, value=value)


def _repetitions(result: Result) -> Iterator[tuple[TrialRate, int]]:
    """Yield each trial of a result with its number among those of its round."""
    counts: dict[int, int] = {}
    for rate in result.trial_rates:
        counts[rate.round] = counts.get(rate.round, 0) + 1
        yield rate, counts[rate.round]


def _times(
    made: partial[Measurement],
    result: Result,
    kind: str,
    histogram: bytes | None,
    name: str | None = None,
) -> Iterator[Measurement]:
    """Yield a trial's part in each number that the result has of one kind of time."""
    for metric, value in _values_of_times(f"{name or kind}_ns", getattr(result, kind)):
        level = read_level(metric, [histogram])
        if level:
            yield made(metric=metric, value=level, histogram=histogram)
        elif histogram is None and len(result.trials) == 1:
            # Another tool states its times, and keeps no histogram.
            yield made(metric=metric, value=value)


def measurements_of_action(
    action: ActionCell, times: TimesOfTrial | None = None
) -> Iterator[Measurement]:
    """Yield the numbers of an action, beside those of the requests that it is made of."""
    group = {"user_type": action.user_type, "space": action.space}
    named = {name: value for name, value in group.items() if value is not None}
    result = replace(action.cell, parameters={**action.cell.parameters, **named})
    for rate, number in _repetitions(result):
        made = partial(_common(result, rate), repetition=number)
        if action.completed_per_s and rate.requests_per_s:
            yield made(metric=ACTION_RATE, value=rate.requests_per_s)
        if times is None:
            continue
        service = times(result, rate.trial, "service")
        busy_per_s = read_level(BUSY_RATE, [service])
        if busy_per_s:
            yield made(metric=BUSY_RATE, value=busy_per_s, histogram=service)
        response = times(result, rate.trial, "response")
        yield from _times(made, result, "response", response, "action")


def _values_of_times(name: str, latency: Latency | None) -> Iterator[tuple[str, float]]:
    if latency is None:
        return
    yield f"{name}_mean", latency.mean_ns
    for quantile, value in latency.quantiles.items():
        if value is not None:
            yield f"{name}_{quantile}", float(value)


def _common(result: Result, rate: TrialRate) -> partial[Measurement]:
    """Return a maker of measurements of a result's trial, with their common fields set."""
    # The facts of a target that is no instance of a system do not distinguish its cases, and
    # would make it incomparable with other targets.
    parameters: dict[str, Parameter] = {
        key: value if isinstance(value, (str, int, float)) or value is None else json.dumps(value)
        for key, value in result.parameters.items()
        if key not in result.facts or (SYSTEM in result.facts and key != SYSTEM)
    }
    is_named = result.operation == result.phase
    return partial(
        Measurement,
        target=result.system,
        workload=result.workload,
        operation=result.operation if is_named else f"{result.operation} ({result.phase})",
        parameters=parameters,
        round=rate.round,
        block=rate.block,
        work=rate.requests,
        place=f"trial {rate.trial}",
        tool="loadstone",
        labels=tuple(label for label in result.labels if label not in LABELS_OF_CELLS),
        standing=result.standing,
        reasons=result.reasons,
        started_unix_ns=rate.started_unix_ns,
    )


def _disclosure(run: Run, results: Sequence[Result]) -> Disclosure:
    measured = [record.trial for record in run.records if record.trial["measured"]]
    if not measured:
        return Disclosure()
    requests = sum(cell.requests for cell in results)
    failed = sum(cell.failed for cell in results)
    are_stated = all(cell.failed_if_stated is not None for cell in results)
    cpu = [cell.client.cpu_us_per_request for cell in results]
    costs = [cost for cost in cpu if cost is not None]
    loops: set[Literal["open", "closed"]] = {
        "open" if trial["load"]["kind"] == "open" else "closed"
        for trial in measured
        if trial.get("load")
    }
    blocks = len({trial["block"] for trial in measured})
    verified = {float(share) for trial in measured if (share := trial.get("verify")) is not None}
    is_checked = any(record.summary.get("verified_requests") for record in run.records)
    connections = {trial.get("connections") for trial in measured}
    shares = [cached_share(record) for record in run.records if record.trial["measured"]]
    cached = [share for share in shares if share is not None]
    statements = (run.manifest.get("campaign") or {}).get("statements") or {}
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
        instrument_ceiling=_instrument_ceiling(results),
        client_cost=f"{min(costs):.1f} to {max(costs):.1f} µs of CPU a request" if costs else None,
        errors=f"{failed} of {requests} requests failed, and are in no rate"
        if are_stated
        else None,
        payload=_payload(measured),
        tuning=statements.get("configuration"),
        durability=statements.get("redundancy"),
        cache=statements.get("cache"),
        cached=(min(cached), max(cached)) if cached else None,
        fill=statements.get("fill") or describe_fill(run),
        verified=(min(verified) if is_checked else 0.0) if verified else None,
        all_trials_listed=True,
    )


def _connections(kinds: Collection[str | None]) -> Literal["keep_alive", "per_request"] | None:
    """Tell whether connections were kept, if all trials agree."""
    if set(kinds) == {"keep_alive"}:
        return "keep_alive"
    return "per_request" if set(kinds) == {"per_request"} else None


def _instrument_ceiling(results: Sequence[Result]) -> str | None:
    """State the most of its ceiling that the load generator used, if that is known of all cells."""
    shares = [cell.instrument for cell in results if cell.instrument is not None]
    if not shares or len(shares) != len(results):
        return None
    most, age_s = max(share.share for share in shares), max(share.age_s for share in shares)
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
    takes_turns = len(blocks) > 1 and all(block == names for block in blocks.values())
    return "interleaved" if takes_turns else "sequential"


def _dataset_bytes(measured: Sequence[TrialDocument]) -> int | None:
    sizes = []
    for trial in measured:
        dataset = trial.get("dataset") or {}
        size = dataset.get("size") or {}
        objects = dataset.get("objects")
        if objects is not None and "bytes" in size:
            sizes.append(objects * size["bytes"])
    return min(sizes, default=None)


def _dataset_objects(measured: Sequence[TrialDocument]) -> int | None:
    """Return how many objects each trial had, if all had the same number."""
    counts = {int((trial.get("dataset") or {}).get("objects") or 0) for trial in measured}
    return (counts.pop() or None) if len(counts) == 1 else None


def _payload(measured: Sequence[TrialDocument]) -> str | None:
    shares = {
        (
            "" if (payload := dataset.get("payload")) is None else Path(payload["path"]).name,
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
        (
            f"bytes of the file {file}"
            if file
            else f"{compressible:.0%} compressible, {duplicate:.0%} duplicate"
        )
        + (f", then encrypted by the client with {cipher}" if cipher else "")
        + (f", paths encrypted with {of_paths}" if of_paths else "")
        for file, compressible, duplicate, cipher, of_paths in sorted(shares)
    ]
    return "; ".join(words)


def comparable_of(run: Run, targets: Collection[str]) -> dict[str, object]:
    """Return the facts that must agree with another run's targets; a phase's under its name."""
    host = run.manifest.get("host") or {}
    facts: dict[str, object] = {f"host {name}": host.get(name) for name in HOST_FIELDS}
    facts["loadstone"] = run.manifest.get("loadstone")
    values_by_field: dict[str, set[str]] = {}
    for doc in run.plan:
        if doc["target"]["name"] not in targets or not doc["measured"]:
            continue
        settings: Mapping[str, object] = doc["target"].get("settings") or {}
        for name in SETTING_FIELDS:
            # Certificates make no difference without encryption.
            is_idle = name == "tls" and "https:" not in _text(settings)
            if name in settings and not is_idle:
                values_by_field.setdefault(f"setting {name}", set()).add(_text(settings[name]))
        phase = f"{doc['case']['workload']} {doc['phase']}"
        for name in TRIAL_FIELDS:
            values_by_field.setdefault(f"{phase}: {name}", set()).add(_text(doc.get(name)))
        dataset = doc.get("dataset") or {}
        for name in DATASET_FIELDS:
            value = dataset.get(name)
            if name == "payload":
                # The same file may lie elsewhere.
                value = (dataset.get("payload") or {}).get("sha256")
            values_by_field.setdefault(f"{phase}: dataset.{name}", set()).add(_text(value))
        kind = (doc.get("load") or {}).get("kind")
        values_by_field.setdefault(f"{phase}: load.kind", set()).add(str(kind))
    return facts | {name: " or ".join(sorted(values)) for name, values in values_by_field.items()}


def _named(key: str, value: object) -> str:
    # Exact: what is rounded to the same words would pass for the same.
    return f"{value / 1e9!r} s" if key.endswith("_ns") and isinstance(value, int) else _text(value)


def _text(value: object) -> str:
    """Return a fact as people read it: "4 KiB", "put 3, get 1"."""
    match value:
        case {"kind": "fixed", "bytes": int(size)}:
            return describe_size(size)
        case {"operation": operation, "weight": float(weight) | int(weight)}:
            return f"{operation} {weight:g}"
        case Mapping():
            known = sorted((key, fact) for key, fact in value.items() if fact is not None)
            return ", ".join(
                f"{key.removesuffix('_ns')} {_named(key, fact)}" for key, fact in known
            )
        case list() | tuple():
            return ", ".join(map(_text, value)) or "none"
        case None:
            return "none"
        case _:
            return str(value)


def _twins(targets: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Return the pairs of targets that are one target under two names: A against A."""
    for first, other in combinations(targets, 2):
        facts = [
            {key: value for key, value in targets[name].items() if key != "name"}
            for name in (first, other)
        ]
        if facts[0] == facts[1]:
            yield first, other


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
