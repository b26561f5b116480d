"""Replaces one value in nested maps and lists by its dotted key: for --set and for sweeps.

Examples: `load.threads`, `targets.ceph.region` and `phases.0.iterations`. An entry of a list whose
entries have names can be named too: `phases.get.iterations`.
"""

import copy
from collections.abc import Mapping
from typing import Any

from loadstone.campaign.reading.mistakes import KeyMistake, Path, listed, nearest
from loadstone.errors import shown

# Short names of common parameters, so that a sweep can be written `threads: [1, 4, 8]`.
SHORT_KEYS: Mapping[str, str] = {
    "threads": "load.threads",
    "clients_max": "load.clients_max",
    "rate": "load.rate",
    "arrivals": "load.arrivals",
    "hosts": "load.hosts",
    "size": "dataset.size",
    "buckets": "dataset.buckets",
    "containers": "dataset.buckets",
    "objects": "dataset.objects",
    "objects_per_bucket": "dataset.objects_per_bucket",
    "compressible": "dataset.compressible",
    "duplicate": "dataset.duplicate",
    "encryption": "dataset.encryption",
    "path_encryption": "dataset.path_encryption",
}


class OverrideError(ValueError):
    """A dotted key that does not exist."""

    def __init__(self, mistake: KeyMistake) -> None:
        super().__init__(f"{mistake.path}: {mistake.allowed}")
        self.mistake = mistake


def with_value(data: Any, key: str, value: Any) -> tuple[Any, Path]:
    """Return a copy of `data` with one value replaced, and the path of that value."""
    result = copy.deepcopy(data)
    steps = key.split(".")
    if not all(steps):
        raise OverrideError(KeyMistake((key,), shown(key), "names with dots between them"))
    place = result
    path: Path = ()
    for number, step in enumerate(steps):
        is_last = number == len(steps) - 1
        key_or_index = _step(place, step, key)
        if is_last:
            place[key_or_index] = value
        else:
            place = _below(place, key_or_index, path, key)
        path = (*path, key_or_index)
    return result, path


def _step(place: Any, step: str, key: str) -> str | int:
    if isinstance(place, dict):
        if step == "containers" or step == "buckets":
            # The key has two names; the one in use is replaced.
            other = "buckets" if step == "containers" else "containers"
            return other if other in place and step not in place else step
        return step
    if step.isdigit():
        if int(step) < len(place):
            return int(step)
        raise OverrideError(
            KeyMistake(
                (key,),
                f"entry {step}",
                f"an entry from 0 to {len(place) - 1}" if place else "no entry: it is empty",
            )
        )
    names = [_name(entry) for entry in place]
    if step in names:
        return names.index(step)
    known = [name for name in names if name]
    raise OverrideError(
        KeyMistake(
            (key,),
            shown(step),
            f"a number, or one of {listed(known)}" if known else "a number",
            hint=nearest(step, known),
        )
    )


def _below(place: Any, step: str | int, path: Path, key: str) -> Any:
    if isinstance(place, list):
        entry = place[int(step)]
        if isinstance(entry, str) and path and path[-1] == "phases":
            # `phases: [put, get]` is a short form; the override needs the full maps.
            place[int(step)] = entry = {"op": entry}
    else:
        entry = place.setdefault(step, {})
        if entry is None:
            place[step] = entry = {}
        if path == () and step == "on_error" and isinstance(entry, str):
            place[step] = entry = {"action": entry}
    if not isinstance(entry, (dict, list)):
        raise OverrideError(
            KeyMistake((key,), f"{shown(entry)} at {step}", "a map or a list there")
        )
    return entry


def _name(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    if isinstance(entry, dict):
        name = entry.get("name") or entry.get("op") or entry.get("kind")
        return str(name or ("mix" if "mix" in entry else ""))
    return ""
