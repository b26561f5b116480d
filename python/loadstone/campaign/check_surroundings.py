"""Mistakes in ceilings, hooks, faults and probes."""

from collections.abc import Iterable, Iterator

from loadstone.campaign.drivers import Drivers
from loadstone.campaign.planning.ceiling_plan import ceiling_targets, is_of_one_target, is_pool
from loadstone.campaign.planning.kinds import QUERY_PHASES
from loadstone.campaign.reading.mistakes import KeyMistake, Path, listed, nearest
from loadstone.campaign.schema.campaign import Campaign
from loadstone.campaign.schema.hook import SomeTrials
from loadstone.errors import shown


def surroundings_mistakes(campaign: Campaign, drivers: Drivers) -> list[KeyMistake]:
    """Return the mistakes in ceilings, cards, hooks, faults and probes."""
    return [
        *_ceilings(campaign, drivers),
        *_card(campaign, drivers),
        *_hooks(campaign),
        *_probes(campaign),
    ]


def targets_with_card(campaign: Campaign, drivers: Drivers) -> list[str]:
    """Return the targets whose semantics card is made before the load.

    Targets of arms are left out: their server runs only during a leg. If the campaign does not ask
    for cards, so are targets that only hosts may reach, or where the run need not make buckets.
    """
    if campaign.card is False:
        return []
    known = [name for name, target in campaign.targets.items() if target.driver in drivers]
    asked = [name for name in known if drivers[campaign.targets[name].driver].facts.protocol]
    asked = [name for name in asked if name not in campaign.arms]
    if campaign.card:
        return asked
    if campaign.hosts or campaign.prepare == "never":
        return []
    reused = [name for name, target in campaign.targets.items() if target.reuse]
    return [name for name in asked if name not in (*campaign.allow_foreign, *reused)]


def _card(campaign: Campaign, drivers: Drivers) -> Iterator[KeyMistake]:
    if campaign.card and not targets_with_card(campaign, drivers):
        yield KeyMistake(
            ("card",),
            "this key without a target that has a card",
            "a target that speaks S3 or Swift, whose server is not an arm's",
        )


def _ceilings(campaign: Campaign, drivers: Drivers) -> Iterator[KeyMistake]:
    labels = [ceiling.label for ceiling in campaign.ceilings]
    for index, ceiling in enumerate(campaign.ceilings):
        place: Path = ("ceilings", index)
        if ceiling.label in labels[:index]:
            yield KeyMistake(
                (*place, "name"),
                f"a second ceiling named {shown(ceiling.label)}",
                "names that differ",
                hint='give one of them a "name"',
            )
        unknown = list(_unknown(ceiling.targets, campaign.targets, (*place, "targets")))
        yield from unknown
        if unknown or not is_of_one_target(ceiling):
            continue
        names = ceiling_targets(ceiling, campaign)
        others = [name for name in names if not is_pool(campaign.targets[name].driver)]
        if others or not names:
            pools = listed(name for name, driver in drivers.items() if driver.facts.is_ceph_pool)
            yield KeyMistake(
                (*place, "targets"),
                f"no target with driver {pools}{f', but {listed(others)}' if others else ''}",
                f"targets with driver {pools}, whose pool {ceiling.kind} uses",
                hint="for any target, name the OSDs: osds: [0, 1]"
                if ceiling.kind == "osd_bench"
                else None,
            )


def _hooks(campaign: Campaign) -> Iterator[KeyMistake]:
    workloads = [workload.name for workload in campaign.workloads] or [campaign.name]
    sources = [campaign, *campaign.workloads]
    phases = list(dict.fromkeys(phase.label for source in sources for phase in source.phases))
    phases += QUERY_PHASES if campaign.queries is not None else ()
    entries: list[tuple[Path, SomeTrials]] = [
        *((("hooks", index), hook) for index, hook in enumerate(campaign.hooks)),
        *((("faults", index), fault) for index, fault in enumerate(campaign.faults)),
    ]
    for place, hook in entries:
        yield from _unknown(hook.targets, campaign.targets, (*place, "targets"))
        yield from _unknown(hook.workloads, workloads, (*place, "workloads"))
        yield from _unknown(hook.phases, phases, (*place, "phases"))


def _probes(campaign: Campaign) -> Iterator[KeyMistake]:
    for index, probe in enumerate(campaign.probes.ceph):
        place: Path = ("probes", "ceph", index, "targets")
        yield from _unknown(probe.targets, campaign.targets, place)


def _unknown(names: Iterable[str], known: Iterable[str], place: Path) -> Iterator[KeyMistake]:
    known = list(known)
    for index, name in enumerate(names):
        if name not in known:
            yield KeyMistake(
                (*place, index),
                shown(name),
                listed(known) or "a name of this campaign",
                hint=nearest(name, known),
            )
