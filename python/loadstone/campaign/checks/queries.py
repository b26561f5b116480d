"""What a campaign of queries may not say beside them, and which targets can hold tables."""

import math
from collections.abc import Iterator

from loadstone.campaign.drivers import Driver, Drivers
from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.schema.campaign import Campaign
from loadstone.campaign.schema.schedule import suites
from loadstone.errors import shown

TRIALS_MAX = 100_000
_OF_OPERATIONS = ("workloads", "phases", "dataset", "load", "sweep", "interventions", "hosts")


def queries_mistakes(campaign: Campaign, drivers: Drivers) -> Iterator[KeyMistake]:
    """Yield everything that keeps a campaign of queries from being planned."""
    queries = campaign.queries
    assert queries is not None, "asked for no other campaign"
    for key in _OF_OPERATIONS:
        if key in campaign.model_fields_set:
            yield KeyMistake(
                path=(key,),
                found="it beside queries",
                allowed="one of them: a campaign of queries has no storage operations",
            )
    if "order" in campaign.model_fields_set:
        yield KeyMistake(
            path=("order",), found="it beside queries", allowed="the order of queries itself"
        )
    for name, target in campaign.targets.items():
        if not can_hold_tables(drivers[target.driver]):
            holding = [driver.name for driver in drivers.values() if can_hold_tables(driver)]
            yield KeyMistake(
                path=("targets", name, "driver"),
                found=shown(target.driver),
                allowed=f"one that can hold tables: {', '.join(holding)}",
            )
    for number, one in enumerate(queries.engine):
        for name in one.policies:
            if name not in campaign.targets:
                yield KeyMistake(
                    path=("queries", "engine", number, "clickhouse", "policies", name),
                    found=f"{shown(name)}, no target",
                    allowed=", ".join(campaign.targets),
                )
    states = 2 if queries.cache == "both" else 1
    each = (len(campaign.targets), len(queries.engine), states, max(1, len(queries.threads)))
    runs = len(queries.streams) or len(queries.only)
    trials = math.prod(each) * runs * queries.loops * suites(campaign.schedule)
    if trials > TRIALS_MAX:
        yield KeyMistake(
            path=("queries", "loops"),
            found=f"a plan of {trials:,} trials",
            allowed=f"at most {TRIALS_MAX:,}",
        )


def can_hold_tables(driver: Driver) -> bool:
    """Tell whether engines can read tables from a driver's targets: directories, S3 buckets."""
    is_bucket = driver.facts.address.kind == "urls" and driver.setting("access_key") is not None
    return driver.facts.place == "directory" or is_bucket
