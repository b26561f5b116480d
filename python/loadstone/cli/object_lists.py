"""Lists of objects that others wrote: planning makes them, and the run folder keeps them."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from loadstone.campaign.schema.campaign import Campaign
from loadstone.cli.messages import say
from loadstone.cli.scripts import keep_files
from loadstone.execution.object_lists import ListMaker
from loadstone.results.layout import read_manifest
from loadstone.results.writer import RunWriter

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
