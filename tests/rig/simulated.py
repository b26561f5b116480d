"""A scenario on the virtual clock: planned, executed, recorded, analysed, and its verdict read.

The load is the load generator's own, against a target whose stations are the scenario's resources.
What probes would read is put into the record, so that everything from the record on is what users
run.
"""

import datetime
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from loadstone import _loadgen
from loadstone._loadgen import Table
from loadstone.analysis import analyse
from loadstone.analysis.judgements.result import Result
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.documents.ceiling import CeilingDocument, CeilingMeasurement
from loadstone.documents.load_event import LoadEvent
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.results.ceiling_record import CeilingWriter
from loadstone.results.record import INTERVAL_SCHEMA
from loadstone.results.store import read_run
from loadstone.results.writer import RunWriter
from tests.rig import observations
from tests.rig.scenario import Outcome, Scenario, is_blamed, is_right, truth_of

DRIVERS = _loadgen.drivers(with_tests=True)
SECOND_NS = 1_000_000_000
REFUSED_BY = ("throttle", "client ports")


def outcome_of(scenario: Scenario, keep: Path | None = None) -> Outcome:
    """Run a scenario and return the report's verdict on the judged load."""
    with tempfile.TemporaryDirectory(prefix="rig-", dir=_memory()) as text:
        folder = Path(text) / "run"
        slower = record(scenario, folder)
        findings = analyse(read_run(folder), courses=False)
        if keep is not None:
            shutil.copytree(folder, keep, dirs_exist_ok=True)
    result = _judged(scenario, findings.rounds)
    return _outcome(scenario.slowed(slower[result.trials[0]]), result)


def _memory() -> str | None:
    """Return a folder in memory: run folders are synced at every step."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _outcome(scenario: Scenario, result: Result) -> Outcome:
    verdict = result.verdict
    assert verdict is not None, "each result has a verdict"
    truth = truth_of(scenario, result.requests_per_s)
    return Outcome(
        family=scenario.family,
        combination=scenario.combination,
        seed=scenario.seed,
        limit=verdict.limit,
        also=verdict.also,
        next=": ".join(verdict.next),
        grade=verdict.grade,
        rate_per_s=result.requests_per_s,
        right=sorted(truth.right),
        is_right=is_right(truth, verdict.limit, verdict.also),
        is_blamed=is_blamed(truth, verdict.limit),
    )


def _judged(scenario: Scenario, results: tuple[Result, ...]) -> Result:
    key = "rate_per_s" if scenario.is_open else "clients"
    return next(result for result in results if result.load[key] == scenario.judged)


def record(scenario: Scenario, folder: Path) -> dict[str, float]:
    """Write a scenario's run folder; return by how much the target was slower in each trial."""
    plan = _plan(scenario)
    manifest = {
        "name": plan.name,
        "run": plan.run,
        "seed": plan.seed,
        "plan": plan.documents(),
        "started": datetime.datetime.now(datetime.UTC).isoformat(),
    }
    chance = random.Random(scenario.seed)
    with RunWriter.create(folder, manifest) as writer:
        _record_ceilings(scenario, folder, chance)
        slower = {}
        for number, planned in enumerate(plan.trials):
            factor = chance.lognormvariate(0, scenario.noise)
            factor *= 1 if number else scenario.slow_first
            factor *= _contended(scenario, planned.document)
            _record_trial(scenario.slowed(factor), writer, planned.document)
            slower[planned.id] = factor
        writer.finish({"state": "finished"})
    return slower


def _plan(scenario: Scenario) -> Plan:
    loads: dict[str, Any] = {"cores": 1}
    if scenario.is_open:
        loads |= {
            "rate": f"{scenario.judged:.10g}/s",
            "clients_max": scenario.clients_max,
            "arrivals": scenario.arrivals,
        }
    else:
        loads |= {"threads": scenario.judged}
    sweep: dict[str, Any] = {}
    if len(scenario.loads) > 1:
        rates = [f"{load:.10g}/s" for load in scenario.loads]
        sweep = {"rate": rates} if scenario.is_open else {"threads": list(scenario.loads)}
    phase = {
        "op": scenario.operation,
        "duration": f"{scenario.seconds}s",
        "warm_up": f"{scenario.warm_up_s}s",
    }
    if scenario.paced_per_s is not None:
        phase["rate_limit"] = f"{scenario.paced_per_s:.10g}/s"
    campaign = {
        "name": "scenario",
        "seed": scenario.seed,
        "targets": {"model": {"driver": "simulated"}},
        "dataset": {"objects": 1000, "size": scenario.size},
        "connections": "keep_alive" if scenario.is_kept else "per_request",
        "load": loads,
        "phases": [phase],
        **({"sweep": sweep} if sweep else {}),
    }
    return make_plan(parse_campaign(json.dumps(campaign), drivers=DRIVERS, environ={}), DRIVERS)


def _record_trial(scenario: Scenario, writer: RunWriter, document: TrialDocument) -> None:
    target: Any = {**document["target"], "settings": _settings(scenario)}
    document_here: TrialDocument = {**document, "target": target}
    batches: list[Table] = []

    def take(event: LoadEvent) -> None:
        if event["kind"] == "figures" and event["rows"] is not None:
            batches.append(event["rows"])

    text = _loadgen.run_trial(json.dumps(document_here), take, _loadgen.Control())
    summary: Summary = json.loads(text)
    rows = [_row(row, scenario) for batch in batches for row in batch.to_pylist()]
    served = sum(row["requests"] for row in rows if row["outcome"] == "ok")
    tried = sum(row["requests"] for row in rows if row["outcome"] != "not_sent")
    summary |= observations.thread_times(scenario, tried, served)  # type: ignore[typeddict-item]
    examples = summary.get("error_examples") or {}
    if scenario.refusal and summary["failed"]:
        summary["error_examples"] = {**examples, scenario.refusal: "refused by the scenario"}
    is_watched = scenario.client.is_watched
    if not is_watched:
        for key in ("thread_cpu_ns", "thread_awake_ns", "thread_run_delay_ns"):
            summary.pop(key, None)  # type: ignore[misc]
    trial = writer.begin_trial(document)
    trial.write_intervals(INTERVAL_SCHEMA.of_rows(rows))
    if is_watched or scenario.watched.target:
        tries, served_rates = _rates(rows, summary, "not_sent"), _rates(rows, summary, "")
        seconds = list(zip(tries, served_rates, strict=True))
        trial.write_probes(observations.probe_table(scenario, summary["started_unix_ns"], seconds))
    reason = "hidden from this process"
    trial.finish(summary, (), {} if is_watched else {"cpu": reason, "network": reason})


def _settings(scenario: Scenario) -> dict[str, Any]:
    """Return the target that the resources of a scenario make."""
    stations: dict[str, Any] = {
        "delay": {"latency": "uniform", "mean_ns": scenario.delay_s * 1e9, "servers": 0}
    }
    last: dict[str, Any] = {"mean_ns": 0.0, "servers": 0}
    settings: dict[str, Any] = {"client_ns": round(observations.thread_ns(scenario))}
    if scenario.refusal == "throttled":
        # Those it refuses have come as far as its door.
        settings["refusal_ns"] = round(scenario.delay_s * 1e9)
    for resource in scenario.resources:
        if resource.name.startswith("client ") and resource.name not in (
            "client card",
            *REFUSED_BY,
        ):
            continue
        if resource.name in REFUSED_BY:
            settings["admits_per_s"] = resource.full_at_per_s
            continue
        # A wire takes the same time for each byte, whatever the target's law is.
        is_wire = resource.name in ("client card", "path", "card")
        station: dict[str, Any] = {
            "latency": "fixed" if is_wire else scenario.law,
            "mean_ns": resource.servers * 1e9 / resource.full_at_per_s,
            "servers": resource.servers,
        }
        if resource.name == "software" and scenario.pause_share:
            # While it runs it does more, so that with its pauses it does what it should.
            last = station | {"mean_ns": station["mean_ns"] * (1 - scenario.pause_share)}
            every_ns = round(scenario.pause_every_s * 1e9)
            settings["stall_every_ns"] = every_ns
            settings["stall_ns"] = round(every_ns * scenario.pause_share)
            continue
        stations[resource.name] = station | {"others": resource.others}
    return {**settings, **last, "stations": stations}


def _contended(scenario: Scenario, document: TrialDocument) -> float:
    """Return how many times slower the software is at a load beyond the one that fits."""
    clients = document["load"].get("clients") or 0 if scenario.contention else 0
    beyond = clients / (scenario.full_at_per_s * scenario.alone_s) - 1
    return float(1 + scenario.contention * max(0.0, beyond))


def _row(row: dict[str, Any], scenario: Scenario) -> dict[str, Any]:
    if row["outcome"] == "throttled" and scenario.refusal:
        return row | {"outcome": scenario.refusal}
    return row


def _rates(rows: list[dict[str, Any]], summary: Summary, without: str) -> list[float]:
    """Return the requests of each second since the trial began: the good ones, or all but some."""
    end_ns = max(iteration["end_ns"] for iteration in summary["iterations"] or ())
    rates = [0.0] * max(1, round(end_ns / SECOND_NS))
    for row in rows:
        is_counted = row["outcome"] != without if without else row["outcome"] == "ok"
        if is_counted and 0 <= row["second"] < len(rates):
            rates[row["second"]] += row["requests"]
    return rates


def _record_ceilings(scenario: Scenario, folder: Path, chance: random.Random) -> None:
    """Write the ceilings that were measured apart, each within some percent of the truth."""
    size, wire = scenario.size, observations.wire_bytes(scenario)
    at = {resource.name: resource.full_at_per_s for resource in scenario.resources}
    measured: list[tuple[str, float, bool]] = []
    if scenario.watched.path != "no":
        way = [at["path"]]
        if scenario.client.card_speed != "stated" or at["client card"] < at["path"]:
            way.append(at["client card"])
        measured.append(("network", min(way) * wire, scenario.watched.path == "credit"))
    if scenario.watched.device:
        measured.append(("device", at["disk"] * size, False))
    if scenario.watched.own_benchmark:
        names = ("processors", "core", "disk", "software")
        measured.append(("rados_bench", min(at[name] for name in names) * size, False))
    for number, (kind, bytes_per_s, has_credit) in enumerate(measured, start=1):
        value = bytes_per_s * chance.uniform(0.97, 1.03)
        seconds = [value * chance.gauss(1, 0.01) for _ in range(9)]
        if has_credit:
            seconds[:4] = [3 * second for second in seconds[:4]]
        document: CeilingDocument = {
            "id": f"C{number:03d}",
            "name": kind,
            "kind": kind,
            "targets": ["model"],
            "count": 1,
            "moment": "before all trials",
        }
        measurements: list[CeilingMeasurement] = [
            {
                "name": bounds,
                "bounds": bounds,
                "parameters": {},
                "bytes_per_s": sum(seconds) / len(seconds),
                "bytes_per_second": seconds,
                "tool": "t",
                "tool_version": "1",
                "commands": [["t"]],
                "outputs": [],
            }
            for bounds in ("read", "write")
        ]
        CeilingWriter(folder, document).finish(measurements, 0, 0, [])
