"""Merges several runs of one campaign, each from another client host, into one run.

The case of each trial gets the parameter `client`, and the trial's number gets the client's name as
a prefix, so that trials of different runs remain distinct. `Run.members` keeps the single runs,
because calibration, probes and ceilings belong to each client.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from loadstone.documents.manifest import Manifest
from loadstone.documents.trial import TrialDocument
from loadstone.errors import InputError
from loadstone.results.ceiling_record import CeilingRecord
from loadstone.results.hook_log import HookEntry
from loadstone.results.record import Record, Run

CLIENT = "client"

# Keys in which the campaigns may differ: description, judging and presentation.
OF_NO_MATTER = frozenset({"description", "expect", "statements", "report"})

# From best to worst.
STATES = ("finished", "running", "interrupted", "failed")

# Keys of a manifest with a value per trial, and keys with lists.
BY_TRIAL = ("failed", "skipped", "searches")
LISTS = ("problems", "resumed", "cleaned")


def merge_runs(runs: Sequence[tuple[str, Run]]) -> Run:
    """Return named runs as one; an empty name means the run's host.

    Raises InputError for different campaigns, or for a client or a run given twice.
    """
    _refuse_other_campaigns([run for _, run in runs])
    names = _client_names(runs)
    members = tuple(_of_client(run, name) for name, (_, run) in zip(names, runs, strict=True))
    return Run(
        path=members[0].path,
        manifest=_manifest(members, names),
        records=tuple(record for member in members for record in member.records),
        is_being_written=any(member.is_being_written for member in members),
        ceilings=tuple(ceiling for member in members for ceiling in member.ceilings),
        hooks=tuple(entry for member in members for entry in member.hooks),
        altered=tuple(file for member in members for file in member.altered),
        members=members,
    )


def _client_names(runs: Sequence[tuple[str, Run]]) -> list[str]:
    names = [name or _host(run) or run.path.resolve().name for name, run in runs]
    if len(set(names)) < len(names):
        # Runs of one host are distinguished by their folders.
        names = [
            name or run.path.resolve().name if names.count(host) > 1 else host
            for host, (name, run) in zip(names, runs, strict=True)
        ]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f'two runs have the client "{twice}"', "name each client: NAME=RUN NAME=RUN …"
        )
    return names


def _host(run: Run) -> str:
    host = run.manifest.get("host", {})
    return host.get("hostname") or host.get("name") or ""


def _refuse_other_campaigns(runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs[1:]:
        if run.manifest.get("run") and run.manifest.get("run") == first.manifest.get("run"):
            raise InputError(f'"{run.path}" and "{first.path}" are the same run')
        campaigns = [
            dict(campaign_run.manifest.get("campaign") or {}) for campaign_run in (first, run)
        ]
        keys = sorted({*campaigns[0], *campaigns[1]} - OF_NO_MATTER)
        wrong = [key for key in keys if campaigns[0].get(key) != campaigns[1].get(key)]
        if run.name != first.name or wrong:
            what = ", ".join(wrong) or "their names"
            raise InputError(
                f'"{first.path}" and "{run.path}" are of two campaigns, which differ in: {what}',
                "one report is of one campaign, run on several clients; report each run by itself, "
                "or use: loadstone compare",
            )


def _of_client(run: Run, client: str) -> Run:
    return replace(
        run,
        manifest=cast(
            Manifest,
            {
                **run.manifest,
                "plan": [_document(document, client) for document in run.manifest["plan"]],
                **{
                    key: {f"{client}:{of}": entry for of, entry in by_trial.items()}
                    for key in BY_TRIAL
                    if (by_trial := cast(Mapping[str, Any], run.manifest.get(key)))
                },
            },
        ),
        records=tuple(_record(record, client) for record in run.records),
        ceilings=tuple(_ceiling(ceiling, client) for ceiling in run.ceilings),
        hooks=tuple(_entry(hook, client) for hook in run.hooks),
        client=client,
    )


def _document(document: TrialDocument, client: str) -> TrialDocument:
    case = document.get("case") or {}
    changed: dict[str, Any] = {
        **document,
        "id": f"{client}:{document['id']}",
        "case": {**case, "parameters": {**case.get("parameters", {}), CLIENT: client}},
    }
    if "of" in (search := document.get("search") or {}):
        changed["search"] = {**search, "of": f"{client}:{search['of']}"}
    return cast(TrialDocument, changed)


def _record(record: Record, client: str) -> Record:
    return replace(
        record,
        trial=_document(record.trial, client),
        hooks=tuple(_entry(hook, client) for hook in record.hooks),
    )


def _ceiling(record: CeilingRecord, client: str) -> CeilingRecord:
    name = f"{record.ceiling.get('name', '')} ({client})"
    return replace(
        record, ceiling={**record.ceiling, "id": f"{client}:{record.ceiling['id']}", "name": name}
    )


def _entry(entry: HookEntry, client: str) -> HookEntry:
    trial = entry.get("trial")
    return {**entry, "trial": f"{client}:{trial}"} if trial else entry


def _manifest(members: Sequence[Run], names: Sequence[str]) -> Manifest:
    """Return the merged manifest: the first campaign, the whole time, and common host facts."""
    manifests = [member.manifest for member in members]
    first: Mapping[str, Any] = manifests[0]
    merged: dict[str, Any] = {key: first[key] for key in first if _is_common(key, manifests)}
    merged |= {
        "campaign": manifests[0].get("campaign"),
        "name": manifests[0]["name"],
        "run": "+".join(str(manifest.get("run") or "") for manifest in manifests),
        "state": max((member.state for member in members), key=STATES.index),
        "started": min(
            filter(None, (manifest.get("started") for manifest in manifests)), default=None
        ),
        "ended": max(filter(None, (manifest.get("ended") for manifest in manifests)), default=None),
        "plan": [document for manifest in manifests for document in manifest["plan"]],
        "host": {**_common_host(manifests), "name": ", ".join(names)},
        "failed_requests": sum(manifest.get("failed_requests") or 0 for manifest in manifests),
    }
    for key in BY_TRIAL:
        merged[key] = dict(
            pair
            for manifest in manifests
            for pair in cast(Mapping[str, Any], manifest.get(key) or {}).items()
        )
    for key in LISTS:
        merged[key] = [
            entry for manifest in manifests for entry in cast(list[Any], manifest.get(key) or [])
        ]
    return cast(Manifest, merged)


def _is_common(key: str, documents: Iterable[Mapping[str, Any]]) -> bool:
    return len({repr(document.get(key)) for document in documents}) == 1


def _common_host(manifests: Sequence[Manifest]) -> dict[str, Any]:
    hosts: list[Mapping[str, Any]] = [manifest.get("host") or {} for manifest in manifests]
    return {key: hosts[0][key] for key in hosts[0] if _is_common(key, hosts)}
