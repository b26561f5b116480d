"""Checks that the keys of a campaign fit together and that its targets support its operations."""

import math
from collections.abc import Iterator
from dataclasses import replace

from loadstone import _loadgen, units
from loadstone.campaign.check_surroundings import surroundings_mistakes
from loadstone.campaign.drivers import Driver, Drivers
from loadstone.campaign.planning.case import (
    Case,
    cases_of,
    first_workload,
    intervention_mistakes,
    workload_sources,
)
from loadstone.campaign.planning.existing import existing_mistakes
from loadstone.campaign.planning.lifecycle import can_prepare, is_historic
from loadstone.campaign.planning.placement import (
    buckets_of,
    dataset_key,
    places,
    shared_bucket,
    stores_of,
)
from loadstone.campaign.reading.mistakes import KeyMistake, listed
from loadstone.campaign.schema.campaign import Campaign, suites
from loadstone.campaign.schema.dataset import FixedSize
from loadstone.campaign.schema.phase import Phase
from loadstone.campaign.schema.target import resolve_settings
from loadstone.errors import shown

TRIALS_MAX = 100_000

_READS_NOTHING_NEW = frozenset(
    {"get", "range_get", "multi_range_get", "multipart_get", "head", "list", "read"}
)  # fmt: skip
_READS_PARTS = frozenset({"range_get", "multi_range_get", "multipart_get"})
_ANY_RUN = "0" * 32


def campaign_mistakes(campaign: Campaign, drivers: Drivers) -> list[KeyMistake]:
    """Return every mistake that prevents a well-formed campaign from being planned."""
    mistakes: list[KeyMistake] = []
    for name, target in campaign.targets.items():
        _, wrong = resolve_settings(target, drivers)
        mistakes += [mistake.below(("targets", name)) for mistake in wrong]
    mistakes += surroundings_mistakes(campaign, drivers)
    mistakes += _wrong_profiles(campaign, drivers)
    if campaign.queries is not None:
        return [*mistakes, *queries_mistakes(campaign, drivers)]
    too_many = _too_many_trials(campaign)
    if too_many:
        # Checking this many cases one by one would take hours.
        return [*mistakes, too_many]
    cases, wrong = cases_of(campaign)
    mistakes += wrong
    incomplete = False
    for case in cases:
        missing = list(_missing(case))
        incomplete = incomplete or bool(missing)
        mistakes += missing or [*_wrong_case(case), *existing_mistakes(case, campaign, drivers)]
        driver = drivers.get(campaign.targets[case.target].driver)
        # An unknown driver is reported as a mistake of its target.
        if not missing and driver is not None:
            mistakes += _beyond_driver(case, campaign, driver, drivers)
    if not incomplete and not wrong:
        mistakes += _wrong_names(campaign, cases, drivers)
    return list(dict.fromkeys(mistakes))


def _beyond_driver(
    case: Case, campaign: Campaign, driver: Driver, drivers: Drivers
) -> Iterator[KeyMistake]:
    """Yield the keys that ask for more than the driver of a case's target supports."""
    yield from _wrong_fill(case, campaign, driver)
    yield from _wrong_operations(case, driver)
    yield from _wrong_audit(case, campaign, driver)
    yield from _wrong_encryption(case, driver, drivers)
    yield from _wrong_path_encryption(case, driver, drivers)
    yield from _wrong_sizes(case, driver)
    yield from _wrong_keys(case, driver)


def _wrong_profiles(campaign: Campaign, drivers: Drivers) -> Iterator[KeyMistake]:
    """Yield the mistakes in keys that give each agent its own signing credentials."""
    if campaign.hosts is None or not campaign.hosts.profiles:
        return
    for name, target in campaign.targets.items():
        if drivers[target.driver].setting("profile") is None:
            yield KeyMistake(
                ("hosts", "profiles"),
                f'this key with driver {target.driver} (target "{name}")',
                "drivers that sign with the keys of a profile: s3",
            )


def _too_many_trials(campaign: Campaign) -> KeyMistake | None:
    # Later starts of a schedule are planned when they are due, unless ceilings run between blocks.
    is_at_once = any(ceiling.when == "blocks" for ceiling in campaign.ceilings)
    planned = suites(campaign.schedule) if is_at_once else 1
    starts = planned * campaign.blocks * len(campaign.targets)
    trials = 0
    for source in workload_sources(campaign):
        cases = math.prod(len(values) for values in source.sweep.values())
        workload = first_workload(source)
        # A wrong workload may have too many swept values to count.
        of_case = 1 if workload is None else max(1, len(workload.phases)) * workload.rounds
        trials += cases * of_case * starts
    if trials <= TRIALS_MAX:
        return None
    return KeyMistake(
        ("sweep",) if campaign.sweep else ("blocks",),
        f"a plan of {trials:,} trials",
        f"at most {TRIALS_MAX:,}",
        hint="fewer values in sweep, fewer blocks or rounds, or several campaigns",
    )


def _missing(case: Case) -> Iterator[KeyMistake]:
    workload, path = case.workload, case.source.path
    if not workload.phases:
        yield KeyMistake(path(("phases",)), "nothing", "phases, like [put, get, delete]")
    if workload.dataset is None:
        yield KeyMistake(
            path(("dataset",)), "nothing", "a dataset, like {objects: 1000, size: 4KiB}"
        )
    else:
        dataset = workload.dataset
        scripts = [phase.script for phase in workload.phases if phase.script is not None]
        needed = {"objects": dataset.objects_total, "size": dataset.size}
        if dataset.existing is not None:
            needed = {}
        elif scripts:
            # A script file lists its objects; only a generator needs a size.
            settings = scripts[0].settings
            is_told = scripts[0].file or (settings is not None and settings.size_bytes is not None)
            needed = {} if is_told else {"size": dataset.size}
        for key, value in needed.items():
            if value is None:
                yield KeyMistake(
                    path(("dataset", key)),
                    "nothing",
                    f"a value; {key} is required here or in the sweep",
                )
    if workload.load is None and any(
        phase.load is None and phase.capacity is None for phase in workload.phases
    ):
        yield KeyMistake(path(("load",)), "nothing", "a load, like {threads: 16} or {rate: 1000/s}")


def _wrong_fill(case: Case, campaign: Campaign, driver: Driver) -> Iterator[KeyMistake]:
    level = case.workload.fill
    if level is None:
        return
    swept = "fill" in case.source.sweep
    path = case.source.path(("sweep", "fill") if swept else ("fill",))
    if not (can_prepare(driver) and "put" in driver.operations):
        yield KeyMistake(
            path,
            f"this key with driver {driver.name} (target {case.target})",
            "fill with a target that keeps objects in places of their own; on a device,"
            " a dataset as large as the part that is to be full",
        )
    if campaign.keep_data:
        yield KeyMistake(
            path,
            "this key with keep_data",
            "fill without: what fills a store is deleted when the run ends",
        )
    limit = driver.facts.limits.put_bytes_max
    if limit is not None and case.workload.fill_size_bytes > limit:
        yield KeyMistake(
            case.source.path(("fill_size",)),
            units.format_size(case.workload.fill_size_bytes),
            f"at most {units.format_size(limit)}, the most that driver {driver.name}"
            " puts in one request",
        )


def _wrong_case(case: Case) -> Iterator[KeyMistake]:
    workload, path = case.workload, case.source.path
    yield from _wrong_script(case)
    if case.intervention is None:
        for mistake in intervention_mistakes(workload, case.hosts_all):
            yield replace(mistake, path=path(mistake.path))
    dataset = workload.dataset
    writes = any(set(phase.operations) - _READS_NOTHING_NEW for phase in workload.phases)
    if dataset and workload.rounds > 1 and writes and "{round}" not in dataset.prefix:
        yield KeyMistake(
            path(("dataset", "prefix")),
            shown(dataset.prefix),
            "a prefix with {round} in it, because each round writes new objects",
        )
    for index, phase in enumerate(workload.phases):
        if phase.capacity is not None and phase.capacity.vary in case.swept:
            yield KeyMistake(
                path(("sweep", phase.capacity.vary)),
                f"a sweep over {phase.capacity.vary}, which phase {phase.label} searches",
                f"no {phase.capacity.vary} in the sweep beside capacity",
            )
        load = case.load(phase)
        if load.rate_per_s is not None and phase.rate_limit_per_s is not None:
            yield KeyMistake(
                path(("phases", index, "rate_limit")),
                "an open load: rate",
                "a closed load: threads",
            )
        yield from _too_few_objects(case, index, phase)
        yield from _wrong_hosts(case, index, phase)


def _wrong_script(case: Case) -> Iterator[KeyMistake]:
    """Yield conflicts between a script and other users of its dataset."""
    workload, path = case.workload, case.source.path
    for index, phase in enumerate(workload.phases):
        if phase.script is None:
            continue
        if len(workload.phases) > 1:
            yield KeyMistake(
                path(("phases", index, "script")),
                "this key beside other phases",
                "a workload of its own, under workloads",
            )
        if case.load(phase).rate_per_s is not None:
            yield KeyMistake(
                path(("load", "rate")),
                "this key with a script",
                "threads: actions are due at the script's times, divided by its speed",
            )
        dataset = case.dataset(phase)
        if dataset.key_prefix[1] is not None:
            yield KeyMistake(
                path(("dataset", "object_prefix")),
                f"{shown(dataset.object_prefix)} with a script",
                "a prefix without {shard}: the script says its keys",
            )
        if dataset.objects_total is not None:
            yield KeyMistake(
                path(("dataset", "objects")),
                f"{dataset.objects_total} with a script",
                "none: the script contains its objects",
            )
        if dataset.size is not None and not isinstance(dataset.size, FixedSize):
            yield KeyMistake(path(("dataset", "size")), dataset.size.kind, "one size with a script")


def _wrong_hosts(case: Case, index: int, phase: Phase) -> Iterator[KeyMistake]:
    load, path = phase.load or case.workload.load, case.source.path
    if load is None:
        return
    place = ("phases", index, "load") if phase.load is not None else ("load",)
    if case.hosts_all is None:
        for key in ("hosts", "per"):
            if key in load.model_fields_set:
                where = ("sweep", key) if key in case.swept else (*place, key)
                yield KeyMistake(
                    path(where),
                    "this key without hosts",
                    "a campaign that names its hosts, like hosts: {launch: local, count: 2}",
                )
    elif load.hosts is not None and load.hosts > case.hosts_all:
        where = ("sweep", "hosts") if "hosts" in case.swept else (*place, "hosts")
        yield KeyMistake(
            path(where), f"{load.hosts} hosts", f"up to {case.hosts_all}, which the campaign names"
        )


def _too_few_objects(case: Case, index: int, phase: Phase) -> Iterator[KeyMistake]:
    """Yield phases with too few objects: each object accepts one append at a time, and contention
    needs existing objects.
    """
    threads, objects = case.load(phase).threads, case.dataset(phase).objects_total
    if phase.op == "append" and threads and objects is not None and threads > objects:
        yield KeyMistake(
            case.source.path(("phases", index, "op")),
            f"append to {objects} objects by {threads} threads",
            "at least as many objects as threads, because an object takes one append at a time",
        )
    if phase.contend is not None and objects is not None and phase.contend.keys > objects:
        yield KeyMistake(
            case.source.path(("phases", index, "contend", "keys")),
            str(phase.contend.keys),
            f"up to {objects}, the objects of the dataset",
        )


def _wrong_operations(case: Case, driver: Driver) -> Iterator[KeyMistake]:
    for index, phase in enumerate(case.workload.phases):
        for operation in phase.operations:
            if operation not in driver.operations:
                yield KeyMistake(
                    case.source.path(("phases", index, *phase.key_of(operation))),
                    shown(operation),
                    f'what driver {driver.name} of target "{case.target}" can do: '
                    f"{listed(driver.operations)}",
                )


_AUDITED = frozenset(
    {
        "put", "multipart_put", "delete", "bulk_delete", "get", "range_get", "multi_range_get",
        "multipart_get", "head", "list", "copy", "post", "create_bucket", "delete_bucket",
    }
)  # fmt: skip
"""Operations whose objects an audit can compare with the ledger."""


def _wrong_audit(case: Case, campaign: Campaign, driver: Driver) -> Iterator[KeyMistake]:
    if campaign.audit is None:
        return
    if not driver.facts.keeps or not {"get", "list"}.issubset(driver.operations):
        yield KeyMistake(
            ("audit",),
            f'an audit of target "{case.target}" (driver {driver.name})',
            "targets whose objects can be read and listed: not devices",
        )
    for index, phase in enumerate(case.workload.phases):
        if phase.script is not None and not campaign.audit.history:
            yield KeyMistake(
                case.source.path(("phases", index, "script")),
                "a script in a campaign with audit",
                "audit: {history: true}: a script writes several versions of an object in one"
                " trial, of which a ledger holds none",
            )
        is_judged = campaign.audit.history and is_historic(phase.operations)
        for operation in set(phase.operations) - _AUDITED if not is_judged else ():
            key = ("op",) if phase.op is not None else ("mix", operation)
            yield KeyMistake(
                case.source.path(("phases", index, *key)),
                f"{operation} in a campaign with audit",
                f"operations whose objects can be read back: {listed(sorted(_AUDITED))}",
            )


def _wrong_encryption(case: Case, driver: Driver, drivers: Drivers) -> Iterator[KeyMistake]:
    dataset = case.workload.dataset
    if dataset is None or dataset.encryption == "none":
        return
    if not driver.encrypts:
        can = [name for name, other in drivers.items() if other.encrypts]
        yield _no_such_encryption(case, driver, "encryption", f"encrypt: {listed(can)}")
    for index, phase in enumerate(case.workload.phases):
        for operation in _READS_PARTS.intersection(phase.operations):
            yield KeyMistake(
                case.source.path(("phases", index, *phase.key_of(operation))),
                f"{operation} of objects encrypted with {dataset.encryption}",
                "get, which reads whole objects: a range cannot be decrypted by itself",
            )


def _no_such_encryption(case: Case, driver: Driver, key: str, others: str) -> KeyMistake:
    return KeyMistake(
        case.source.path(("dataset", key)),
        getattr(case.workload.dataset, key),
        f'none for driver {driver.name} of target "{case.target}"; drivers whose clients {others}',
    )


def _wrong_path_encryption(case: Case, driver: Driver, drivers: Drivers) -> Iterator[KeyMistake]:
    dataset = case.workload.dataset
    if dataset is None or dataset.path_encryption == "none":
        return
    if not driver.facts.encrypts_paths:
        can = [name for name, other in drivers.items() if other.facts.encrypts_paths]
        yield _no_such_encryption(case, driver, "path_encryption", f"encrypt paths: {listed(can)}")
    if dataset.key_prefix[1] is not None:
        yield KeyMistake(
            case.source.path(("dataset", "object_prefix")),
            f"{shown(dataset.object_prefix)} beside encrypted paths",
            "a prefix without {shard}: the rest of each key is encrypted",
        )
    for index, phase in enumerate(case.workload.phases):
        if phase.prefix is not None and not dataset.object_prefix.startswith(phase.prefix):
            yield KeyMistake(
                case.source.path(("phases", index, "prefix")),
                f'"{phase.prefix}" beside encrypted paths',
                f'what "{dataset.object_prefix}" begins with: the rest of each key is encrypted',
            )


def _wrong_keys(case: Case, driver: Driver) -> Iterator[KeyMistake]:
    dataset, limit = case.workload.dataset, driver.facts.limits.key_bytes_max
    if dataset is None or limit is None or dataset.objects_total is None:
        return
    own_bytes = len(str(dataset.objects_total - 1))
    if dataset.path_encryption != "none":
        own_bytes = _loadgen.sealed_bytes(own_bytes)
    prefix, shards = dataset.key_prefix
    if shards is not None:
        prefix = f"{prefix}{'0' * shards['digits']}{shards['tail']}"
    longest_bytes = len(prefix.encode()) + own_bytes
    if longest_bytes > limit:
        yield KeyMistake(
            case.source.path(("dataset", "object_prefix")),
            f"names of {longest_bytes:,} bytes",
            f"names of at most {limit:,} bytes for {driver.name}",
        )


def _wrong_sizes(case: Case, driver: Driver) -> Iterator[KeyMistake]:
    for index, phase in enumerate(case.workload.phases):
        law = case.dataset(phase).size
        if law is None:
            continue
        largest_bytes = law.largest_bytes()
        place = case.source.path(("phases", index))
        limit = driver.facts.limits.put_bytes_max
        in_one = [name for name in phase.operations if name in _PUTS]
        if limit and largest_bytes > limit and in_one:
            yield KeyMistake(
                (*place, phase.key_of(in_one[0])[0]),
                f"{in_one[0]} of objects of {units.format_bytes(largest_bytes)}",
                f"objects up to {units.format_bytes(limit)} in one request to {driver.name}",
                hint="use op: multipart_put with a part_size",
            )
        if phase.range_bytes is not None and isinstance(law, FixedSize):
            allowed_bytes = law.size_bytes // (phase.range_count or 1)
            if phase.range_bytes > allowed_bytes:
                yield KeyMistake(
                    (*place, "range"),
                    units.format_bytes(phase.range_bytes),
                    f"ranges that fit into objects of {units.format_bytes(law.size_bytes)}",
                )
        yield from _wrong_parts(phase, driver, largest_bytes, place)


def _wrong_parts(
    phase: Phase, driver: Driver, largest_bytes: int, place: tuple[str | int, ...]
) -> Iterator[KeyMistake]:
    # Parts that are read are ranges of an object, so neither their size nor their number is
    # limited.
    if phase.part_bytes is None or not (
        "multipart_put" in phase.operations or phase.has_upload_steps
    ):
        return
    limits = driver.facts.limits
    least, most = limits.part_bytes_min or 1, limits.parts_max
    if phase.part_bytes < least and largest_bytes > phase.part_bytes:
        yield KeyMistake(
            (*place, "part_size"),
            units.format_bytes(phase.part_bytes),
            f"at least {units.format_bytes(least)} for {driver.name}",
        )
    elif most and -(-largest_bytes // phase.part_bytes) > most:
        yield KeyMistake(
            (*place, "part_size"),
            f"{-(-largest_bytes // phase.part_bytes)} parts an object",
            f"at most {most} for {driver.name}: parts of "
            f"{units.format_bytes(-(-largest_bytes // most))} or more",
        )


def _wrong_names(campaign: Campaign, cases: list[Case], drivers: Drivers) -> Iterator[KeyMistake]:
    prefixes = places(cases, campaign.name, _ANY_RUN)
    sources = {
        dataset_key(case, phase, number, campaign.name, _ANY_RUN): case
        for case in cases
        for phase in case.workload.phases
        for number in range(1, case.workload.rounds + 1)
    }
    for key, prefix in prefixes.items():
        if key.is_existing:
            continue
        buckets = buckets_of(key, prefix)
        driver = drivers.get(campaign.targets[key.target].driver)
        allowed = buckets.mistake(driver.facts.bucket_names) if driver else None
        if allowed is not None:
            yield KeyMistake(
                sources[key].source.path(("dataset", "prefix")),
                f'"{buckets.last()}" as the name of a bucket',
                allowed,
            )
    # With `prepare: never` the buckets exist already and keep their names.
    is_theirs = campaign.prepare == "never"
    targets = {
        name: (target.driver, resolve_settings(target, drivers)[0])
        for name, target in campaign.targets.items()
    }
    # Early clean-up deletes the data before the next target starts, as when comparing two
    # interfaces.
    stays = campaign.keep_data or campaign.clean_up == "late"
    stores = {} if is_theirs else stores_of(targets, across_drivers=stays)
    shared = shared_bucket(prefixes) or shared_bucket(prefixes, stores)
    if shared is not None:
        first, other, name = shared
        where, hint = "two datasets", 'end the prefix with a dash, as in "bench-{round}-"'
        if first.target != other.target:
            where = f'targets "{first.target}" and "{other.target}", which may be the same store'
            hint = 'put {target} into the prefix, as in "bench-{target}-{round}-"'
        yield KeyMistake(
            sources[other].source.path(("dataset", "prefix")),
            f'bucket "{name}" in {where}: prefixes "{prefixes[first]}" and "{prefixes[other]}"',
            "prefixes that keep datasets apart",
            hint=hint,
        )


QUERY_TRIALS_MAX = 100_000
_PUTS = (
    "put", "put_if_absent", "put_if_match", "compare_and_swap", "versioned_put", "presigned_put",
)  # fmt: skip
"""Operations that write an object with one request."""

_OF_OPERATIONS = ("workloads", "phases", "dataset", "load", "sweep", "interventions", "hosts")


def queries_mistakes(campaign: Campaign, drivers: Drivers) -> Iterator[KeyMistake]:
    """Yield every mistake that prevents a campaign of queries from being planned."""
    queries = campaign.queries
    assert queries is not None, "used for no other campaign"
    for key in _OF_OPERATIONS:
        if key in campaign.model_fields_set:
            yield KeyMistake(
                (key,),
                "this key beside queries",
                "one of them: a campaign of queries has no storage operations",
            )
    if "order" in campaign.model_fields_set:
        yield KeyMistake(("order",), "this key beside queries", "the order of queries itself")
    for name, target in campaign.targets.items():
        if not can_hold_tables(drivers[target.driver]):
            holding = [driver.name for driver in drivers.values() if can_hold_tables(driver)]
            yield KeyMistake(
                ("targets", name, "driver"),
                shown(target.driver),
                f"one that can hold tables: {', '.join(holding)}",
            )
    for number, engine in enumerate(queries.engine):
        for name in engine.policies:
            if name not in campaign.targets:
                yield KeyMistake(
                    ("queries", "engine", number, "clickhouse", "policies", name),
                    f"{shown(name)}, no target",
                    ", ".join(campaign.targets),
                )
    states = 2 if queries.cache == "both" else 1
    each = (len(campaign.targets), len(queries.engine), states, max(1, len(queries.threads)))
    runs = len(queries.streams) or len(queries.only)
    trials = math.prod(each) * runs * queries.loops * suites(campaign.schedule)
    if trials > QUERY_TRIALS_MAX:
        yield KeyMistake(
            ("queries", "loops"), f"a plan of {trials:,} trials", f"at most {QUERY_TRIALS_MAX:,}"
        )


def can_hold_tables(driver: Driver) -> bool:
    """Tell whether engines can read tables from a driver's targets: directories, S3 buckets."""
    is_bucket = driver.facts.address.kind == "urls" and driver.setting("access_key") is not None
    return driver.facts.place == "directory" or is_bucket
