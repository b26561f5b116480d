"""The scripts of a campaign: planning makes them in a temporary folder, the run keeps them."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from loadstone.campaign.planning.scripted import PlannedScript, WantedScript
from loadstone.campaign.schema.campaign import Campaign
from loadstone.documents.script import ScriptOrigin
from loadstone.errors import ResultError

if TYPE_CHECKING:
    from loadstone.script.planned import ScriptMaker


class CampaignScripts:
    """Makes scripts when a plan asks for the first, and hands their files to a run folder."""

    def __init__(self, folder: Path, beside: Path) -> None:
        """Use `making_scripts`."""
        self._folder, self._beside = folder, beside
        self._maker: ScriptMaker | None = None

    def __call__(self, wanted: WantedScript) -> PlannedScript:
        """Return what planning must know of a script."""
        if self._maker is None:
            # It imports Parquet, which campaigns without scripts do not need.
            from loadstone.script.planned import ScriptMaker

            self._maker = ScriptMaker(self._folder, beside=self._beside)
        return self._maker(wanted)

    @property
    def origins(self) -> dict[str, ScriptOrigin]:
        """Where scripts came from that are traces, by the SHA-256 of their measured requests."""
        return {} if self._maker is None else self._maker.origins

    def keep_in(self, run_folder: Path) -> None:
        """Copy the files into a run folder; those that it has already are the same."""
        if self._maker is None:
            return
        made = self._maker.folder
        kept = run_folder / made.name
        try:
            for file in sorted(made.iterdir()):
                kept.mkdir(exist_ok=True)
                if not (kept / file.name).exists():
                    partial = kept / f"{file.name}.partial"
                    shutil.copyfile(file, partial)
                    partial.replace(kept / file.name)
        except OSError as error:
            raise ResultError(f'cannot keep scripts in "{kept}": {error.strerror}') from error


@contextlib.contextmanager
def making_scripts(campaign: Campaign) -> Iterator[CampaignScripts]:
    """Yield a maker of a campaign's scripts. Its files are deleted unless a run keeps them."""
    beside = Path(campaign.source.origin).parent
    with tempfile.TemporaryDirectory(prefix="loadstone-scripts-") as folder:
        yield CampaignScripts(Path(folder), beside)
