"""Scripts of a campaign: planning makes them in a temporary folder, the run folder keeps them."""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from loadstone.campaign.planning.scripted import PlannedScript, WantedScript
from loadstone.campaign.schema.campaign import Campaign
from loadstone.cli.messages import say
from loadstone.documents.manifest import ScriptOrigin
from loadstone.results.files.durable import make_folder_in, replacing

if TYPE_CHECKING:
    from loadstone.script.planned import ScriptMaker
    from loadstone.script.table import Action

SAID_EVERY_S = 10.0
"""How often progress is printed while a long script is read."""
LOOKED_EVERY = 65_536


class CampaignScripts:
    """Makes scripts when a plan requests the first, and copies their files to a run folder."""

    def __init__(self, folder: Path, beside: Path) -> None:
        """Use `making_scripts`."""
        self._folder, self._beside = folder, beside
        self._maker: ScriptMaker | None = None

    def __call__(self, wanted: WantedScript) -> PlannedScript:
        """Return the planner's facts about a script."""
        if self._maker is None:
            # Imports Parquet, which campaigns without scripts do not need.
            from loadstone.script.planned import ScriptMaker

            self._maker = ScriptMaker(self._folder, beside=self._beside, watch=watched)
        return self._maker(wanted)

    @property
    def origins(self) -> dict[str, ScriptOrigin]:
        """The sources of scripts that are traces, by the SHA-256 of their measured requests."""
        return {} if self._maker is None else self._maker.origins

    def keep_in(self, run_folder: Path) -> None:
        """Copy the files into a run folder; files that it already has are identical."""
        if self._maker is None:
            return
        keep_files(self._maker.folder, run_folder)


def keep_files(made: Path, run_folder: Path) -> None:
    """Copy a folder's files, if it exists, into the folder with the same name in a run folder."""
    for file in sorted(made.iterdir()) if made.exists() else ():
        make_folder_in(run_folder, made.name)
        name = f"{made.name}/{file.name}"
        if not (run_folder / name).exists():
            with replacing(run_folder, name) as copy, open(file, "rb") as source:
                shutil.copyfileobj(source, copy, 1 << 20)


def watched(actions: "Iterator[Action]", name: str) -> "Iterator[Action]":
    """Yield the actions of a script; print progress if that takes long."""
    count, last_said = 0, time.monotonic()
    is_long = False
    for action in actions:
        yield action
        count += 1
        if count % LOOKED_EVERY == 0 and time.monotonic() - last_said >= SAID_EVERY_S:
            is_long, last_said = True, time.monotonic()
            say(f'script "{name}": {count:,} actions read')
    if is_long:
        say(f'script "{name}": all {count:,} actions read; planning their requests')


@contextlib.contextmanager
def making_scripts(campaign: Campaign) -> Iterator[CampaignScripts]:
    """Yield a maker of a campaign's scripts; its files are deleted unless a run keeps them."""
    beside = Path(campaign.source.origin).parent
    with tempfile.TemporaryDirectory(prefix="loadstone-scripts-") as folder:
        yield CampaignScripts(Path(folder), beside)
