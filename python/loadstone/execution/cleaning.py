"""Removes a run's data from its targets, by running its remaining clean-up trials."""

import json
from pathlib import Path
from typing import Final

from loadstone import _loadgen
from loadstone.campaign.drivers import read_drivers
from loadstone.campaign.planning.kinds import QUERIES, kind_of
from loadstone.campaign.remains import Remains, remains, unknown_drivers, with_remade
from loadstone.documents.summary import Summary
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.refusals import Raised, target_error
from loadstone.results.intents import Intents, intended
from loadstone.results.layout import located
from loadstone.results.store import read_begun, read_manifest

# The setting that makes a clean-up delete versions, too.
VERSIONS: Final = "delete_versions"


def what_is_left(folder: Path) -> list[Remains]:
    """Return what a run may have left on its targets; the data of arms was deleted with their
    servers.
    """
    manifest = read_manifest(folder)
    arms = (manifest.get("campaign") or {}).get("arms") or {}
    left = remains(manifest["plan"], begun(folder), read_drivers(None))
    return [dataset for dataset in left if dataset.target not in arms]


def unknown(folder: Path) -> list[str]:
    """Return the drivers of a run that this build lacks, so that it cannot remove their data."""
    return unknown_drivers(read_manifest(folder)["plan"], read_drivers(None))


def begun(folder: Path) -> dict[str, Summary]:
    """Return the summaries of the trials that may have sent requests to their targets."""
    planned = (trial["id"] for trial in read_manifest(folder)["plan"])
    unread: dict[str, Summary] = {name: {} for name in intended(folder, planned)}
    return unread | read_begun(folder)


def remove(remains: Remains, folder: Path, interrupt: Interrupt, *, with_versions: bool) -> Summary:
    """Delete a dataset and its buckets, and return a summary.

    `with_versions` deletes all versions of what the run wrote, if the driver supports versions.
    """
    document = Intents(folder).adopted(remains.clean_up)
    if kind_of(document) == QUERIES:
        from loadstone.execution.queries.trials import remove_tables

        return remove_tables(document)
    if with_versions and read_drivers(None)[remains.driver].setting(VERSIONS) is not None:
        target = document["target"]
        document["target"] = {**target, "settings": {**target["settings"], VERSIONS: True}}
    control = _loadgen.Control()
    interrupt.on_ask(control.stop)
    try:
        summary_json = _loadgen.run_trial(json.dumps(located(document, folder)), control=control)
    except Raised as error:
        raise target_error(remains.target, error) from error
    summary: Summary = json.loads(summary_json)
    return with_remade(summary, remains.created)
