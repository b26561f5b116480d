"""The state of a trial's target and the outcome of its hooks: rules, and their words."""

from collections.abc import Iterable, Iterator, Sequence

from loadstone.analysis.judgements.finding import Finding
from loadstone.documents.target_state import ClusterState
from loadstone.probes.ceph import is_moving
from loadstone.results.hook_log import HookEntry
from loadstone.results.record import Record

HEALTHY = "HEALTH_OK"


def clusters(record: Record) -> Iterator[tuple[str, ClusterState]]:
    """Yield the states of the Ceph cluster, each with its time: before or after the load."""
    for when, state in record.target_state.items():
        if "ceph" in state and state["ceph"].get("health"):
            yield when, state["ceph"]


def last_hooks(record: Record) -> Iterable[HookEntry]:
    """Return the last entry of each hook, which is that of the last attempt."""
    return {(entry["hook"], entry["at"]): entry for entry in record.hooks}.values()


def is_good(entry: HookEntry) -> bool:
    return bool(entry["state"] == "ended" and entry["exit_code"] == 0)


def find_states(records: Sequence[Record]) -> Iterator[Finding]:
    """Report unhealthy clusters and failed hooks."""
    unwell = [
        (record.id, when, state)
        for record in records
        for when, state in clusters(record)
        if state.get("health") != HEALTHY or is_moving(state)
    ]
    if unwell:
        conditions = dict.fromkeys(_condition(state) for _, _, state in unwell)
        trials = tuple(dict.fromkeys(f"trial {name}" for name, _, _ in unwell))
        yield Finding(
            "cluster-state",
            f"the cluster was not healthy in {len(trials)} of {len(records)} trials:"
            f" {'; '.join(list(conditions)[:3])}",
            cases=trials,
        )
    failed = [entry for record in records for entry in last_hooks(record) if not is_good(entry)]
    if failed:
        words = dict.fromkeys(
            f"{entry['hook']} at {entry['at']}: {ending(entry)}" for entry in failed
        )
        yield Finding(
            "HOOK",
            f"hooks failed: {'; '.join(list(words)[:3])}",
            cases=tuple(dict.fromkeys(f"trial {entry['trial']}" for entry in failed)),
        )


def ending(entry: HookEntry) -> str:
    """Return how a hook ended, in words."""
    state = str(entry["state"])
    return f"exit code {entry['exit_code']}" if state == "ended" else state


def _condition(state: ClusterState) -> str:
    words = [str(state["health"])]
    words += [f"{name}: {text}" for name, text in (state.get("checks") or {}).items()]
    groups = [
        f"{count} placement groups {name}"
        for name, count in (state.get("groups") or {}).items()
        if name != "active+clean"
    ]
    return ", ".join([*words, *groups])
