"""Small run folders, written as the runner writes them, without any load."""

from loadstone._loadgen import Table
from loadstone.documents.manifest import Manifest
from loadstone.documents.trial import TrialDocument
from loadstone.results.record import INTERVAL_SCHEMA, PROBE_SCHEMA
from loadstone.results.writer import RunWriter


def document(number: int) -> TrialDocument:
    return {"format": 1, "id": f"{number:04d}", "phase": "get", "measured": True}


def manifest(trials: int = 3) -> Manifest:
    plan = [document(number) for number in range(1, trials + 1)]
    return {"name": "sample", "seed": 1, "run": "0" * 32, "plan": plan}


def interval(second: int, requests: int = 10, payload: bytes = b"") -> Table:
    row = dict.fromkeys(INTERVAL_SCHEMA.names)
    row |= {"agent": "local", "stage": "measure", "iteration": 1, "operation": "get"}
    row |= {"outcome": "ok", "second": second, "requests": requests, "objects": requests}
    row |= {"bytes": 4096 * requests, "response": payload, "service": payload}
    return INTERVAL_SCHEMA.of_rows([row])


def probe_values(value: float) -> Table:
    row = {"time_unix_ns": 1, "host": "h", "probe": "cpu", "subject": "cpu0", "metric": "user"}
    return PROBE_SCHEMA.of_rows([row | {"value": value}])


def write_trial(writer: RunWriter, number: int, seconds: int = 5) -> None:
    trial = writer.begin_trial(document(number))
    for second in range(seconds):
        trial.write_intervals(interval(second))
        trial.write_probes(probe_values(second))
    trial.finish({"state": "finished"}, absent_probes={"pressure": "no /proc/pressure"})
