"""The shape of a run's documents: who reads them later finds every value to be of its kind.

Only what analysis and reports rely on is described; a document may hold more. A value of another
kind was edited by hand, and is refused with its way through the file.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from loadstone.errors import ResultError

Kinds = tuple[type, ...]

WHOLE: Kinds = (int,)
NUMBER: Kinds = (int, float)
TEXT: Kinds = (str,)
FLAG: Kinds = (bool,)
OBJECT: Kinds = (dict,)
LIST: Kinds = (list,)
NOTHING: Kinds = (type(None),)

TRIAL: Mapping[str, Kinds] = {
    "phase": TEXT, "round": WHOLE, "block": WHOLE, "measured": FLAG,
    "case": OBJECT, "case.target": TEXT, "case.workload": TEXT, "case.parameters": OBJECT,
    "case.parameters.size": NUMBER + TEXT + NOTHING, "case.parameters.threads": WHOLE,
    "target": OBJECT, "target.name": TEXT, "target.driver": TEXT, "target.settings": OBJECT,
    "dataset": OBJECT + NOTHING, "dataset.size": OBJECT + NOTHING, "dataset.size.kind": TEXT,
    "dataset.size.bytes": WHOLE, "dataset.objects": WHOLE + NOTHING,
    "mix": LIST, "mix.*": OBJECT, "mix.*.operation": TEXT, "mix.*.weight": NUMBER,
    "load": OBJECT, "load.kind": TEXT, "load.clients": WHOLE, "load.rate_per_s": NUMBER + NOTHING,
    "load.clients_max": WHOLE + NOTHING, "options": OBJECT, "keys": OBJECT + NOTHING,
    "stop": OBJECT, "stop.requests": WHOLE + NOTHING, "stop.duration_ns": WHOLE + NOTHING,
    "warm_up_ns": WHOLE, "cool_down_ns": WHOLE, "iterations": WHOLE,
    "verify": NUMBER + NOTHING, "connections": TEXT + NOTHING, "on_error": OBJECT + NOTHING,
    "search": OBJECT,
}  # fmt: skip
MANIFEST: Mapping[str, Kinds] = {
    "run": TEXT, "seed": WHOLE, "campaign": OBJECT + NOTHING, "campaign.targets": OBJECT,
    "campaign_file": TEXT + NOTHING, "started": TEXT + NOTHING, "ended": TEXT + NOTHING,
    "versions": OBJECT + NOTHING, "host": OBJECT + NOTHING, "host.cpu": OBJECT + NOTHING,
    "host.memory_bytes": WHOLE + NOTHING, "host.network": OBJECT + NOTHING, "host.nics": LIST,
    "host.disks": OBJECT + NOTHING, "host.sysctl": OBJECT + NOTHING,
    "calibration": OBJECT + NOTHING, "ceilings": LIST, "ceilings.*": OBJECT, "problems": LIST,
    "failed": OBJECT, "ceilings_failed": OBJECT, "skipped": OBJECT, "not_run": LIST,
    "files": OBJECT + NOTHING, "files.*": OBJECT,
    "searches": OBJECT, "imported": OBJECT + NOTHING, "imported.from": TEXT, "imported.by": TEXT,
}  # fmt: skip
RECORD: Mapping[str, Kinds] = {
    "labels": LIST, "labels.*": TEXT, "absent_probes": OBJECT, "target_state": OBJECT + NOTHING,
    "files": OBJECT + NOTHING,
    "summary.state": TEXT + NOTHING, "summary.iterations": LIST + NOTHING,
    "summary.iterations.*": OBJECT,
    "summary.iterations.*.iteration": WHOLE, "summary.iterations.*.start_ns": WHOLE,
    "summary.iterations.*.measure_start_ns": WHOLE, "summary.iterations.*.measure_end_ns": WHOLE,
    "summary.iterations.*.end_ns": WHOLE, "summary.iterations.*.in_flight_ns": WHOLE + NOTHING,
    "summary.iterations.*.first_done_ns": WHOLE + NOTHING, "summary.started_unix_ns": WHOLE,
    "summary.ended_unix_ns": WHOLE + NOTHING, "summary.requests": WHOLE, "summary.failed": WHOLE,
    "summary.bytes": WHOLE, "summary.clients": WHOLE, "summary.error_examples": OBJECT + NOTHING,
    "summary.thread_cpu_ns": LIST, "summary.thread_cpu_ns.*": WHOLE,
    "summary.stalls": LIST + NOTHING, "summary.stalls.*": OBJECT,
    "summary.stalls.*.core": WHOLE + NOTHING, "summary.stalls.*.seconds": LIST,
    "summary.stalls.*.seconds.*": LIST, "summary.stalls.*.seconds.*.*": WHOLE,
    "summary.cores_watched": WHOLE + NOTHING,
    **{f"trial.{name}": kinds for name, kinds in TRIAL.items()},
}  # fmt: skip
LARGEST = 2**63 - 1


def check_trial(path: Path, document: Mapping[str, Any], where: str) -> None:
    """Refuse a trial of a plan whose values are of other kinds than those it was written with."""
    _check(path, document, TRIAL, where)


def check_manifest(path: Path, document: Mapping[str, Any]) -> None:
    """Refuse a manifest likewise, its plan apart."""
    _check(path, document, MANIFEST, "")


def check_record(path: Path, document: Mapping[str, Any]) -> None:
    """Refuse a trial's record likewise."""
    _check(path, document, RECORD, "")


def _check(path: Path, document: Mapping[str, Any], shape: Mapping[str, Kinds], where: str) -> None:
    for way, kinds in shape.items():
        for place, value in _found(document, way.split("."), where):
            is_flag = isinstance(value, bool) and bool not in kinds
            if is_flag or not isinstance(value, kinds):
                words = " or ".join(dict.fromkeys(_WORDS[kind] for kind in kinds))
                _refuse(path, place, value, words)
            if isinstance(value, int) and abs(value) > LARGEST:
                _refuse(path, place, value, "a number that can be")


def _found(value: Any, way: list[str], place: str) -> Iterator[tuple[str, Any]]:
    """Yield the values that a way leads to, each with its place; what is absent is not there."""
    if not way:
        yield place, value
        return
    step, rest = way[0], way[1:]
    if step == "*" and isinstance(value, list):
        for index, one in enumerate(value):
            yield from _found(one, rest, f"{place}.{index}")
    elif isinstance(value, Mapping) and step in value:
        yield from _found(value[step], rest, f"{place}.{step}" if place else step)


_WORDS: Mapping[type, str] = {
    int: "a whole number", float: "a number", str: "text", bool: "true or false",
    dict: "an object", list: "a list", type(None): "null",
}  # fmt: skip


def _refuse(path: Path, place: str, value: object, expected: str) -> None:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
    raise ResultError(
        f'"{path}", "{place}": found {shown}, expected {expected}',
        "the file was edited by hand; take the one that loadstone wrote",
    )
