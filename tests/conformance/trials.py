"""Small trial documents, and what came of running them."""

import errno
import json
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from loadstone import _loadgen
from loadstone.documents.load_event import LoadEvent
from loadstone.documents.trial import TrialDocument
from loadstone.results.intents import Intents
from tests.conformance.targets import Place

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """The objects of one test, in buckets that no other test uses."""

    objects: int = 12
    buckets: int = 2
    size_bytes: int = 4096
    duplicate: float = 0.0
    prefix: str = field(default_factory=lambda: f"conformance-{uuid.uuid4().hex[:8]}-")
    # Payloads carry the run that wrote them; those of another run are not ours to accept.
    run: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def bytes(self) -> int:
        """Size of all objects together."""
        return self.objects * self.size_bytes

    @property
    def bucket_names(self) -> list[str]:
        """All buckets, by the rule that campaigns are promised."""
        if self.buckets == 1:
            return [self.prefix.rstrip("-")]
        return [f"{self.prefix}{number}" for number in range(self.buckets)]

    def where(self, number: int) -> tuple[str, str]:
        """Bucket and key of an object."""
        return self.bucket_names[number % self.buckets], f"object-{number}"


JOURNALS: dict[str, Intents] = {}
"""The volumes that each run has claimed, by its id; nothing is written."""
NO_FOLDER = Path("/nonexistent")


def forget_volumes() -> None:
    """Go on as other runs would, which have claimed nothing yet."""
    JOURNALS.clear()


@dataclass(frozen=True)
class Result:
    """The result of a trial."""

    summary: Mapping[str, Any]
    rows: list[dict[str, Any]]

    def outcomes(self) -> dict[str, int]:
        """Requests of the measured part, by outcome."""
        counts: dict[str, int] = {}
        for row in self.rows:
            if row["stage"] == "measure":
                counts[row["outcome"]] = counts.get(row["outcome"], 0) + row["requests"]
        return counts

    def total(self, column: str) -> int:
        """Sum of a column over the measured part."""
        return sum(row[column] for row in self.rows if row["stage"] == "measure")


def document(place: Place, dataset: Dataset, operation: str, **changes: Any) -> dict[str, Any]:
    """Write a trial of one operation on every object of the dataset, once."""
    requests = dataset.objects
    base: dict[str, Any] = {
        "format": 1,
        "id": "0001",
        "run": dataset.run,
        "seed": 7,
        "phase": operation,
        "round": 1,
        "block": 1,
        "measured": True,
        "case": {"target": place.driver, "workload": "conformance", "parameters": {}},
        "target": {"name": "target", "driver": place.driver, "settings": place.settings},
        "dataset": {
            "bucket_prefix": dataset.prefix,
            "buckets": dataset.buckets,
            "objects": dataset.objects,
            "object_prefix": "object-",
            "size": {"kind": "fixed", "bytes": dataset.size_bytes},
            "compressible": 0.0,
            "duplicate": dataset.duplicate,
            "version": 1,
        },
        "mix": [{"operation": operation, "weight": 1.0}],
        "options": {
            "range_bytes": place.range_bytes,
            "range_count": 2,
            "page_keys": 100,
            "bulk_keys": 4,
        },
        "load": {"kind": "closed", "clients": 4},
        "keys": {"order": "sequential", "theta": None},
        "stop": {"requests": requests, "duration_ns": None},
        "iterations": 1,
        "connections": "keep_alive",
        "timeout_ns": 60 * SECOND_NS,
        "on_error": {"action": "continue", "limit": None},
        "verify": 1.0,
        "allow_foreign": place.is_foreign,
    }
    return base | changes


def run(
    trial: Mapping[str, Any],
    control: "_loadgen.Control | None" = None,
    *,
    stops_once_begun: bool = False,
    begun: threading.Event | None = None,
    watch: Callable[[Mapping[str, Any]], None] | None = None,
) -> Result:
    """Check a trial, run it, and collect what it tells meanwhile.

    One that `stops_once_begun` is stopped when it has told of its first requests; `begun` is set
    then. `watch` is given each of its live figures.
    """
    control = control or _loadgen.Control()
    document = cast(TrialDocument, trial)
    journal = JOURNALS.setdefault(trial["run"], Intents(NO_FOLDER))
    ownership = {**journal.adopted(document).get("ownership", {}), **trial.get("ownership", {})}
    text = json.dumps({**trial, "ownership": ownership})
    _loadgen.check(text)
    rows: list[dict[str, Any]] = []

    def on_event(event: LoadEvent) -> None:
        if event["kind"] == "volume":
            journal.take_volume(document, event["volume"])
        elif event["kind"] == "figures":
            if event["rows"] is not None:
                rows.extend(event["rows"].to_pylist())
            if watch is not None:
                watch(event["live"])
            has_begun = bool(event["live"]["requests"])
            if has_begun and begun is not None:
                begun.set()
            if has_begun and stops_once_begun:
                control.stop()

    summary = json.loads(_loadgen.run_trial(text, on_event, control))
    return Result(summary, rows)


def prepare(place: Place, dataset: Dataset, **changes: Any) -> Result:
    """Make the buckets and write the objects, as the planner has it done before a phase."""
    trial = document(place, dataset, place.fill, phase="prepare", measured=False)
    # A write of blocks fills an object with one block as long as the object.
    trial["options"]["range_bytes"] = dataset.size_bytes
    return run(trial | changes)


def clean_up(place: Place, dataset: Dataset, **changes: Any) -> Result:
    """Delete the objects and the buckets, as the planner has it done at the end."""
    trial = document(place, dataset, "delete", phase="clean-up", measured=False)
    return run(trial | changes)


def intents_of(text: str) -> list[list[str]]:
    """Run a trial; give the places that it announced, each time that it did."""
    intents: list[list[str]] = []

    def on_event(event: LoadEvent) -> None:
        if event["kind"] == "intent":
            intents.append(event["names"])

    _loadgen.run_trial(text, on_event)
    return intents


def refuse_the_intent(event: LoadEvent) -> None:
    """Fail as a full disk does, when places are announced."""
    if event["kind"] == "intent":
        raise OSError(errno.ENOSPC, f"names: {len(event['names'])}")
