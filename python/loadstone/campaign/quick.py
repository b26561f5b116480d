"""Builds a campaign of one workload from flags, for `loadstone bench OPERATION TARGET`."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack
from urllib.parse import urlsplit

from loadstone import _loadgen, units
from loadstone.campaign.drivers import DriverTable, read_drivers
from loadstone.campaign.operations import OPERATIONS, READS, readers_of
from loadstone.campaign.parse import campaign_of
from loadstone.campaign.reading.override import SHORT_KEYS
from loadstone.campaign.reading.source import Document
from loadstone.campaign.schema.campaign import Campaign
from loadstone.errors import CampaignError, InputError, Mistake

THREADS = 16
SIZE = "4KiB"
COUNT = 1000
DURATION = "10s"
WARM_UP = "2s"

# Bounds of the default number of objects: as many as fit into the space. A lone put ends by its
# duration and may write more.
OBJECTS_MIN, OBJECTS_MAX = 16, 10_000
SPACE_BYTES = units.parse_size("1GiB")
PUT_SPACE_BYTES = units.parse_size("16GiB")
BLOCK = "4KiB"
PART_SIZE = "8MiB"
RANGE_COUNT = 4
# A put with a duration creates objects until its end and must not run out of names.
COUNT_OF_TIMED_PUT = 10_000_000

# In a sequence of operations only these repeat; a put, for example, would find its objects there.
REPEATED = READS | {"head", "list"}

PUTS = (["put"], ["multipart_put"])

OF_OWN_OBJECTS = (
    *("size", "buckets", "encryption", "path_encryption", "rounds", "keep_data"),
    "reuse",
)
"""Flags for writing objects, which do not apply to existing objects."""

# Settings that determine the length of a phase.
LENGTHS = frozenset({"objects", "requests", "duration", "capacity", "phases"})

# Common proportions of mixed object benchmarks.
MIXED = {"get": 45, "head": 30, "put": 15, "delete": 10}

# A script of users who write, read, list, share and delete, in place of operations.
SESSIONS = "sessions"

SWEPT = ("threads", "rate", "size", "buckets")
"""Flags that take several values with commas between them; all combinations are measured."""

_LOAD = ("threads", "rate", "arrivals", "clients_max", "cpus", "numa")
_DATASET = ("buckets", "prefix", "object_prefix", "encryption", "path_encryption")
_CAMPAIGN = (
    "seed", "rounds", "blocks", "verify", "timeout", "connections", "on_error",
    "keep_data", "card",
)  # fmt: skip
"""Flags with the name of the key that they set: of the load, the dataset, and the campaign."""


def _typed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# Mistakes name the flag that was typed, not the campaign key behind it.
_FLAG_OF_KEY = {
    **{f"load.{name}": _typed(name) for name in _LOAD},
    **{f"dataset.{name}": _typed(name) for name in ("size", *_DATASET)},
    **{name: _typed(name) for name in (*_CAMPAIGN, "audit")},
    "dataset.objects": "--count",
    "dataset.encryption": "--encrypt",
    "dataset.path_encryption": "--encrypt-paths",
    "dataset.existing.bucket": "--prefix",
    "dataset.existing.list": "--list",
    "connections": "--no-keepalive",
    "audit.history": "--audit-history",
}
_FLAG_OF_PHASE_KEY = {
    **{
        name: _typed(name)
        for name in (
            "iterations", "duration", "range_count", "part_size", "part_concurrency", "rate_limit",
        )
    },
    "warm_up": "--ramp-up",
    "cool_down": "--ramp-down",
    "range": "--block",
    "keys.order": "--keys",
    "keys.theta": "--theta",
    "op": "OPERATION",
    "mix": "OPERATION",
}  # fmt: skip


class Flags(TypedDict, total=False):
    """A workload on the command line; absent flags and None mean the default."""

    threads: int | str | None
    rate: str | float | None
    arrivals: str | None
    clients_max: int | None
    cpus: str | None
    numa: str | None
    size: int | str | None
    count: int | str | None
    buckets: int | str | None
    prefix: str | None
    object_prefix: str | None
    encryption: str | None
    path_encryption: str | None
    duration: str | float | None
    iterations: int | None
    rounds: int | None
    blocks: int | None
    ramp_up: str | float | None
    ramp_down: str | float | None
    rate_limit: str | float | None
    keys: str | None
    theta: float | None
    block: int | str | None
    range_count: int | None
    part_size: int | str | None
    part_concurrency: int | None
    verify: bool | str | float | None
    timeout: str | float | None
    connections: str | None
    on_error: str | None
    seed: int | None
    keep_data: bool
    audit: bool
    audit_history: bool
    card: bool | None
    allow_foreign: bool
    reuse: str | None
    existing: bool
    list_file: str | None


def campaign_from_flags(
    operation: str,
    target: str,
    *,
    settings: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    drivers: DriverTable | None = None,
    environ: Mapping[str, str] | None = None,
    **flags: Unpack[Flags],
) -> Campaign:
    """Return the campaign that flags describe.

    `operation` is one operation, several separated by commas, which run one after another, "mixed",
    or a custom mix such as "get=3,put=1". `settings` are further settings of the target's driver.
    `overrides` are applied last, as with `--set`.
    """
    if _is_operation(target) and not _is_operation(operation):
        hint = f"the operation comes first: {target} {operation}"
        raise CampaignError(
            [Mistake(key="TARGET", actual=f'"{target}"', allowed="a target", hint=hint)]
        )
    sweep = _sweep(flags)
    flags = {**flags, **{key: values[0] for key, values in sweep.items()}}  # type: ignore[typeddict-item]
    operations = [name.strip() for name in operation.split(",") if name.strip()]
    is_usual = not any(_says_length(text) for text in overrides) and operations != [SESSIONS]
    lengths = (flags.get("count"), flags.get("duration"), flags.get("reuse"))
    is_by_clock = is_usual and all(length is None for length in lengths)
    size = flags.get("size")
    sizes: Sequence[int | str] = sweep.get("size") or [SIZE if size is None else size]
    if flags.get("existing"):
        driver, target_settings, dataset = _existing(target, flags)
    else:
        driver, target_settings = parse_target(target)
        target_settings, bucket = _bucket_apart(target, driver, target_settings, flags)
        dataset = {
            **_dataset(operations, flags, sizes, is_by_clock=is_by_clock),
            **_given({"prefix": bucket}),
        }
    data = {
        "name": "bench",
        "targets": {
            driver: _given(
                {
                    "driver": driver,
                    **target_settings,
                    **(settings or {}),
                    "reuse": flags.get("reuse"),
                }
            )
        },
        "dataset": dataset,
        "load": _load(flags),
        "sweep": sweep or None,
        "phases": _phases(operations, flags, sizes, is_by_clock=is_by_clock),
        "allow_foreign": [driver] if flags.get("allow_foreign") else None,
        **{key: flags.get(key) for key in _CAMPAIGN},
        "audit": {"history": True} if flags.get("audit_history") else flags.get("audit"),
    }
    document = Document("", _given(data))
    try:
        return campaign_of(
            document, overrides, drivers=drivers, environ=os.environ if environ is None else environ
        )
    except CampaignError as error:
        raise CampaignError([_with_flag(mistake) for mistake in error.mistakes]) from error


def parse_target(text: str) -> tuple[str, dict[str, Any]]:
    """Return the driver and the settings for a target given as one word."""
    read = _loadgen.read_target(text)
    if read is not None:
        driver, setting = read
        return driver, dict([setting]) if setting else {}
    drivers = read_drivers()
    hint = _hint_of_address(text)
    if (scheme := text.partition("://")[0]) in drivers and "://" in text:
        place = drivers[scheme].facts.place
        hint = f"{scheme}://NAME is a {place}; a target is the address of the store that holds it"
    words = [word for driver in drivers.values() for word in driver.facts.words]
    allowed = f"one of {', '.join(words)}; a name alone where the environment says the address"
    raise CampaignError([Mistake(key="TARGET", actual=f'"{text}"', allowed=allowed, hint=hint)])


def _hint_of_address(text: str) -> str | None:
    """Return the target that a host:port without a scheme probably means."""
    host, _, port = text.partition("/")[0].rpartition(":")
    if host and port.isdigit():
        return f"for S3 write http://{text}"
    return f"for a directory write ./{text}" if Path(text).is_dir() else None


def _is_operation(text: str) -> bool:
    names = {name.partition("=")[0].strip() for name in text.split(",")}
    return names <= {*OPERATIONS, "mixed", SESSIONS}


def _sweep(flags: Flags) -> dict[str, list[str]]:
    """Return the values of each flag that has several."""
    given = {key: str(flags.get(key)) for key in SWEPT if flags.get(key) is not None}
    return {key: text.split(",") for key, text in given.items() if "," in text}


def _bucket_apart(
    text: str, driver: str, settings: dict[str, Any], flags: Flags
) -> tuple[dict[str, Any], str | None]:
    """Split the bucket from an address such as http://host:9000/bucket, if it contains one.

    A path belongs to the address itself if the driver is named (s3+http://...), if a bucket prefix
    is given, or if it has several segments.
    """
    parts = urlsplit(text)
    bucket = parts.path.strip("/")
    is_bare = parts.scheme in ("http", "https") and not parts.query and not parts.fragment
    row = read_drivers().get(driver)
    if not (is_bare and bucket and "/" not in bucket and row and row.facts.place == "bucket"):
        return settings, None
    if flags.get("prefix") is not None:
        return settings, None
    if (flags.get("buckets") or 1) != 1:
        allowed = "a bucket in the address is the only one; prefix names several"
        raise CampaignError([Mistake(key="TARGET", actual=f'"{text}"', allowed=allowed)])
    address = parts._replace(path="").geturl()
    return {key: address if value == text else value for key, value in settings.items()}, bucket


def _existing(text: str, flags: Flags) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return a target's driver and settings, and its existing objects."""
    for name in OF_OWN_OBJECTS:
        if flags.get(name):
            flag = _typed(name)
            allowed = "one of them: existing objects are not written"
            mistake = Mistake(key="--existing", actual=f"this flag beside {flag}", allowed=allowed)
            raise CampaignError([mistake])
    bucket, prefix = flags.get("prefix"), flags.get("object_prefix")
    if bucket is None:
        text, bucket, inner = _split_bucket(text)
        prefix = inner if prefix is None else prefix
    driver, settings = parse_target(text)
    settings, bucket = _split_directory(driver, settings, bucket)
    objects = {"bucket": bucket, "prefix": prefix, "list": flags.get("list_file")}
    return driver, settings, {"existing": _given(objects)}


def _split_bucket(text: str) -> tuple[str, str | None, str | None]:
    """Split a target's word into the target, the bucket and the prefix of keys.

    `s3://BUCKET/PREFIX` names a bucket if the environment gives the store's address;
    `http://HOST/BUCKET/PREFIX` names one in its path. Paths of other addresses belong to the
    target.
    """
    drivers = read_drivers()
    scheme, separator, rest = text.partition("://")
    if separator and scheme in drivers:
        bucket, _, prefix = rest.partition("/")
        return scheme, bucket or None, prefix or None
    named = drivers.get(text.partition("+")[0])
    if not separator or (named is not None and named.facts.place != "bucket"):
        return text, None, None
    parts = urlsplit(text)
    bucket, _, prefix = parts.path.strip("/").partition("/")
    # A final slash restricts the prefix to a folder; without it, `a` would also match `ab`.
    prefix += "/" if prefix and parts.path.endswith("/") else ""
    return parts._replace(path="").geturl(), bucket or None, prefix or None


def _split_directory(
    driver: str, settings: Mapping[str, Any], bucket: str | None
) -> tuple[dict[str, Any], str]:
    """Return a target's settings and its bucket; for a directory, the last segment of its path.

    For a pool, the bucket is the default namespace, which has an empty name.
    """
    facts = read_drivers()[driver].facts
    if bucket is None and facts.place == "directory":
        [key] = facts.address.settings
        parent, bucket = os.path.split(os.path.abspath(str(settings[key])))
        settings = {**settings, key: parent}
    if bucket is None and facts.place == "namespace":
        # The default namespace of the pool, which most programs use.
        bucket = ""
    elif not bucket:
        # The path of any other address belongs to the target.
        address = "one, as in http://HOST:PORT/BUCKET/PREFIX, or " * (facts.place == "bucket")
        mistake = Mistake(
            key="TARGET",
            actual=f"no {facts.place} whose objects are there",
            allowed=f"{address}its name by --prefix and that of keys by --object-prefix",
        )
        raise CampaignError([mistake])
    return dict(settings), bucket


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _says_length(override: str) -> bool:
    return not LENGTHS.isdisjoint(override.partition("=")[0].strip().split("."))


def _load(flags: Flags) -> dict[str, Any]:
    threads, rate = flags.get("threads"), flags.get("rate")
    if threads is None and rate is None:
        threads = THREADS
    return _given({**{key: flags.get(key) for key in _LOAD}, "threads": threads})


def _dataset(
    operations: Sequence[str], flags: Flags, sizes: Sequence[int | str], *, is_by_clock: bool
) -> dict[str, Any]:
    objects = _count(operations, flags, sizes, is_by_clock=is_by_clock)
    return _given(
        {"objects": objects, "size": sizes[0], **{key: flags.get(key) for key in _DATASET}}
    )


def _count(
    operations: Sequence[str], flags: Flags, sizes: Sequence[int | str], *, is_by_clock: bool
) -> int | str | None:
    """Return the number of objects: as requested, or as many as fit into the space."""
    if list(operations) == [SESSIONS]:
        # A script determines its number of objects; `count` is its number of actions.
        return None
    count = flags.get("count")
    if count is not None:
        return count
    is_put = list(operations) in PUTS
    if flags.get("duration") is not None and (
        is_put or list(operations) in (["append"], ["put_if_absent"], ["presigned_put"])
    ):
        return COUNT_OF_TIMED_PUT
    try:
        size_bytes = max(1, *(units.parse_size(str(size)) for size in sizes))
    except InputError:
        # A distribution of sizes, or an invalid size that a later check reports.
        return COUNT
    if is_by_clock and is_put:
        space_bytes, most = PUT_SPACE_BYTES, COUNT_OF_TIMED_PUT
    else:
        space_bytes, most = SPACE_BYTES, OBJECTS_MAX if is_by_clock else COUNT
    return max(OBJECTS_MIN, min(most, space_bytes // size_bytes))


def _phases(
    operations: Sequence[str], flags: Flags, sizes: Sequence[int | str], *, is_by_clock: bool
) -> list[dict[str, Any]]:
    """Return the phases; `is_by_clock` gives phases without a length the default duration.

    Reads, mixes and a lone put last for `DURATION`. Deletes, and writes for later phases, process
    each object once.
    """
    shared = _given(
        {
            "duration": flags.get("duration"),
            "warm_up": flags.get("ramp_up"),
            "cool_down": flags.get("ramp_down"),
            "rate_limit": flags.get("rate_limit"),
            # With existing objects, `count` is the number of requests.
            "requests": flags.get("count") if flags.get("existing") else None,
            "keys": _given({"order": flags.get("keys"), "theta": flags.get("theta")}) or None,
        }
    )
    if list(operations) == [SESSIONS]:
        script = _given({"generator": "users", "settings": _given({"actions": flags.get("count")})})
        script = {key: value for key, value in script.items() if value}
        iterations = _given({"iterations": flags.get("iterations")})
        return [{**shared, **iterations, "name": SESSIONS, "script": script}]
    mix: dict[str, Any] = {}
    if list(operations) == ["mixed"]:
        mix = dict(MIXED)
    elif operations and all("=" in name for name in operations):
        mix = {name.partition("=")[0]: _weight(name.partition("=")[2]) for name in operations}
    timed = {"warm_up": WARM_UP, **shared, "duration": DURATION} if is_by_clock else shared
    if mix:
        keys = _keys_of_some(list(mix), flags, sizes, is_only=True, is_by_clock=is_by_clock)
        return [{**timed, "mix": mix, **keys}]
    is_only = len(operations) == 1
    is_put = list(operations) in PUTS
    return [
        {
            **(timed if is_put or name in REPEATED else shared),
            **_named(operations, place),
            "op": name,
            **_keys_of_some([name], flags, sizes, is_only=is_only, is_by_clock=is_by_clock),
        }
        for place, name in enumerate(operations)
    ]


def _named(operations: Sequence[str], place: int) -> dict[str, str]:
    """Return a unique phase name for a repeated operation: get-2."""
    before = operations[:place].count(operations[place])
    return {"name": f"{operations[place]}-{before + 1}"} if before else {}


def _keys_of_some(
    operations: Sequence[str],
    flags: Flags,
    sizes: Sequence[int | str],
    *,
    is_only: bool,
    is_by_clock: bool,
) -> dict[str, Any]:
    """Return the keys that only some operations read.

    In a sequence each phase gets the keys that it reads; a single phase gets all given keys, so
    that a useless one is refused instead of ignored.
    """
    given = {
        "range": ("range_bytes", flags.get("block"), _usual_range(operations, flags, sizes)),
        "range_count": ("range_count", flags.get("range_count"), RANGE_COUNT),
        "part_size": ("part_bytes", flags.get("part_size"), PART_SIZE),
        "part_concurrency": ("part_concurrency", flags.get("part_concurrency"), None),
    }
    keys: dict[str, Any] = {}
    if list(operations) == ["list"] and flags.get("duration") is None and not is_by_clock:
        # A list request covers many objects, so `count` is the number of requests.
        keys["requests"] = COUNT if flags.get("count") is None else flags.get("count")
    if is_only or REPEATED.issuperset(operations):
        keys["iterations"] = flags.get("iterations")
    for key, (option, value, usual) in given.items():
        readers = readers_of(option)
        is_read = any(operation in readers for operation in operations)
        if is_read or is_only:
            keys[key] = usual if is_read and value is None else value
    return _given(keys)


def _usual_range(operations: Sequence[str], flags: Flags, sizes: Sequence[int | str]) -> int | str:
    """Return the range that is used if none is given: a block, or less in small objects."""
    try:
        least_bytes = min(units.parse_size(str(size)) for size in sizes)
    except InputError:
        # A later check reports the size.
        return BLOCK
    ranges = flags.get("range_count") or RANGE_COUNT if "multi_range_get" in operations else 1
    return min(units.parse_size(BLOCK), max(1, least_bytes // ranges))


def _weight(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _with_flag(mistake: Mistake) -> Mistake:
    key = re.sub(r"^sweep\.(\w+)\.\d+$", lambda match: SHORT_KEYS[match[1]], mistake.key)
    if match := re.fullmatch(r"phases\.\d+\.(.+)", key):
        inner = match[1]
        key = _FLAG_OF_PHASE_KEY.get(inner) or ("OPERATION" if inner.startswith("mix") else key)
    elif key.startswith("targets."):
        key = "TARGET " + key.split(".", 2)[-1]
    key = _FLAG_OF_KEY.get(key, "OPERATION" if key == "phases" else key)
    hint = mistake.hint
    if key == "OPERATION" and hint is None and mistake.actual.strip('"') not in OPERATIONS:
        hint = 'for several operations in order: "put,get,delete"'
    return Mistake(key=key, actual=mistake.actual, allowed=mistake.allowed, hint=hint)
