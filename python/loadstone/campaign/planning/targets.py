"""The targets of a campaign as trial documents hold them."""

import os
from typing import Any, cast

from loadstone.campaign.drivers import Drivers, facts_of
from loadstone.campaign.planning.trial import TargetInRun
from loadstone.campaign.schema.campaign import Campaign
from loadstone.campaign.schema.systems.target import resolve_settings
from loadstone.documents.trial import TargetSettings


def targets_in_run(campaign: Campaign, drivers: Drivers, run: str) -> dict[str, TargetInRun]:
    """Return what is the same for all trials of each target, by its name."""
    return {
        name: TargetInRun(
            run=run,
            seed=campaign.seed,
            driver=drivers[target.driver],
            document={
                "name": name,
                "driver": target.driver,
                "settings": cast(
                    TargetSettings,
                    _from_anywhere(target.driver, resolve_settings(target, drivers)[0]),
                ),
                **({"facts": target.facts} if target.facts else {}),
            },
            allow_foreign=name in campaign.allow_foreign,
            # What is never prepared is there already, and is read by its own name.
            is_beside_others=name in campaign.allow_foreign and campaign.prepare != "never",
        )
        for name, target in campaign.targets.items()
    }


def _from_anywhere(driver: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings that mean the same in another directory, where a run is gone on with."""
    address = facts_of(driver).address
    paths = [name for name in address.settings if name in settings and address.kind == "path"]
    return {**settings, **{name: os.path.abspath(settings[name]) for name in paths}}
