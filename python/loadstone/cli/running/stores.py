"""Asks stores before planning: for their sizes, and for lists of objects that others wrote."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from loadstone.campaign.drivers import read_drivers
from loadstone.campaign.planning.case import cases_of
from loadstone.campaign.planning.filling import StoreSize
from loadstone.campaign.planning.trial import targets_in_run
from loadstone.campaign.schema.campaign import Campaign
from loadstone.cli.messages import say
from loadstone.cli.running.scripts import keep_files
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.object_lists import ListMaker
from loadstone.execution.programs.store_sizes import read_size
from loadstone.results.layout import read_manifest
from loadstone.results.writer import RunWriter


def store_sizes(campaign: Campaign) -> dict[str, StoreSize]:
    """Return the size of each target that is filled, if its store reports one."""
    if campaign.queries is not None or _names_no_fill(campaign):
        return {}
    cases, _ = cases_of(campaign)
    filled = {case.target for case in cases if case.workload.fill is not None}
    drivers = read_drivers()
    known = {
        name: target
        for name, target in campaign.targets.items()
        if name in filled and target.driver in drivers
    }
    if not known:
        return {}
    documents = targets_in_run(campaign.model_copy(update={"targets": known}), drivers, "")
    sizes = {name: read_size(target.document, Interrupt()) for name, target in documents.items()}
    return {name: size for name, size in sizes.items() if size is not None}


def _names_no_fill(campaign: Campaign) -> bool:
    """Tell whether no workload has fill levels, which is cheaper than generating all cases."""
    workloads = (campaign, *campaign.workloads)
    return not any(workload.fill is not None or "fill" in workload.sweep for workload in workloads)


PRINTED_EVERY_S = 5.0
"""How often progress is printed during a long listing."""


class _Progress:
    """Prints the progress of a long listing."""

    def __init__(self) -> None:
        self._printed_at = time.monotonic()

    def __call__(self, where: str, count: int) -> None:
        if time.monotonic() - self._printed_at >= PRINTED_EVERY_S:
            self._printed_at = time.monotonic()
            say(f'listing "{where}": {count:,} objects so far (Ctrl-C ends it)')


@contextlib.contextmanager
def making_lists(campaign: Campaign, run_folder: Path | None = None) -> Iterator[ListMaker]:
    """Yield a maker of a campaign's lists; its files are deleted unless a run keeps them.

    A resumed run has its lists in its folder.
    """
    known = () if run_folder is None else read_manifest(run_folder).get("lists", ())
    beside = Path(campaign.source.origin).parent
    with tempfile.TemporaryDirectory(prefix="loadstone-lists-") as folder:
        yield ListMaker(Path(folder), beside=beside, watch=_Progress(), known=known)


def keep_lists(lists: ListMaker, folder: Path, writer: RunWriter) -> None:
    """Copy the lists of a plan into the run folder, and record their source."""
    keep_files(lists.folder, folder)
    if lists.documents:
        writer.amend({"lists": lists.documents})
        warn_of_cuts(lists)


def warn_of_cuts(lists: ListMaker) -> None:
    """Warn about stores with more objects than the lists hold."""
    for document in lists.documents:
        if document["is_cut"]:
            say(
                f'warning: "{document["bucket"]}/{document["prefix"]}" holds more than the '
                f"{document['objects']:,} objects that are read\nhint: raise "
                "dataset.existing.objects_max, or name a prefix"
            )
