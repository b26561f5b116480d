"""Assigns buckets to datasets: different datasets get different buckets."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from loadstone import _loadgen
from loadstone.campaign.drivers import BucketNames, facts_of
from loadstone.campaign.schema.dataset import Dataset, FixedSize
from loadstone.documents.trial import DatasetDocument, NamedFileDocument, Size

if TYPE_CHECKING:
    # A report asks what is left in buckets, and needs no planning.
    from loadstone.campaign.planning.case import Case
    from loadstone.campaign.schema.phase import Phase

# Any script's letters are valid here; only names that are part of host names must be ASCII.
_ANY_CASE = re.compile(r"[^\W_][\w.-]*")
_SMALL = re.compile(r"[a-z0-9][a-z0-9.-]*")


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of one dataset: a prefix and how many."""

    prefix: str
    count: int

    def first(self) -> str:
        """Return the name of the first bucket."""
        return _loadgen.bucket_name(self.prefix, self.count, 0)

    def last(self) -> str:
        """Return the name of the last bucket, which is the longest."""
        return _loadgen.bucket_name(self.prefix, self.count, self.count - 1)

    def contains(self, name: str) -> bool:
        """Tell whether one of the buckets has this name."""
        if self.count == 1:
            return name == self.first()
        number = name.removeprefix(self.prefix)
        is_number = number.isdecimal() and str(int(number)) == number
        return name.startswith(self.prefix) and is_number and int(number) < self.count

    def overlap(self, other: "Buckets") -> str | None:
        """Return a name that both have, or None."""
        short, long = sorted((self, other), key=lambda buckets: len(buckets.prefix))
        # If the longer prefix is the shorter one plus digits, its bucket 0 has the smallest number
        # that the shorter prefix could also produce.
        return long.first() if short.contains(long.first()) else None

    def mistake(self, rule: BucketNames) -> str | None:
        """Return the rule that a bucket name breaks, or None."""
        pattern = _ANY_CASE if rule.capitals_and_underscores else _SMALL
        cases = "letters" if rule.capitals_and_underscores else "lower-case letters"
        if not pattern.fullmatch(self.last()):
            return f"a prefix that makes names of {cases}, digits, dots and dashes"
        if len(self.last().encode()) > rule.length_max:
            return f"a prefix that makes names of at most {rule.length_max} bytes"
        if len(self.first()) < rule.length_min:
            return f"a prefix that makes names of at least {rule.length_min} characters"
        return None


def bucket_prefix(dataset: Dataset, fields: Mapping[str, str]) -> str:
    """Return a dataset's prefix with its braces filled in."""
    size = dataset.size
    # A script always states its number of objects, and may state their sizes.
    law = "script" if size is None else size.kind
    return dataset.prefix.format(
        **fields,
        size=str(size.written()).lower() if isinstance(size, FixedSize) else law,
        buckets=dataset.buckets,
        objects="script" if dataset.objects_total is None else dataset.objects_total,
    )


def short(name: str, length: int) -> str:
    """Return a name short enough for a default prefix that every store allows.

    A longer name is cut and gets four digits of its hash, so that cut names stay distinct.
    """
    text = slug(name).replace(".", "-")
    if len(text) <= length:
        return text
    digest = hashlib.blake2b(name.encode(), digest_size=2).hexdigest()
    return f"{text[: length - 5].rstrip('-')}-{digest}"


def slug(name: str) -> str:
    """Return a name with only the characters that bucket names allow."""
    return re.sub(r"[^a-z0-9.-]", "-", name.lower())


# Share of the default prefix in the 63 characters of a bucket name.
NAME_MAX = 16
TARGET_MAX = 12

# The addressing that targets of possibly the same store have in common.
Store = tuple[str, ...]

DriverSettings = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class DatasetKey:
    """Identity of a dataset: the target, the name in the campaign, and the content."""

    target: str
    prefix: str
    content: str
    buckets: int
    is_existing: bool = False
    """Whether others wrote it: its bucket keeps its name, and several datasets may use it."""


PayloadFiles = Callable[[str], NamedFileDocument]


def no_payload_files(file: str) -> NamedFileDocument:
    """Raise an error: plans with payload files need a reader of files."""
    raise AssertionError(f"make_plan was given no reader of files, but needs {file}")


def content_document(dataset: Dataset) -> DatasetDocument:
    """Return a dataset as a trial document spells it, without its place and version."""
    existing = dataset.existing
    # Sizes of objects in scripts and lists are read from their files during planning.
    size: Size = {"kind": "fixed", "bytes": 0}
    if dataset.size is not None:
        size = dataset.size.document()
    object_prefix, shards = dataset.key_prefix
    if existing is not None:
        object_prefix = existing.prefix
    return {
        "buckets": dataset.buckets,
        "objects": dataset.objects_total or 0,
        "object_prefix": object_prefix,
        **({} if shards is None else {"shards": shards}),
        "size": size,
        "compressible": dataset.compressible,
        "duplicate": dataset.duplicate,
        "encryption": _declared(dataset.encryption),
        "path_encryption": _declared(dataset.path_encryption),
    }


def _declared(cipher: str) -> str | None:
    return None if cipher == "none" else cipher


def dataset_key(case: "Case", phase: "Phase", round_number: int, name: str, run: str) -> DatasetKey:
    """Return the dataset of a phase in one round."""
    dataset = case.dataset(phase)
    fields = {
        "name": slug(name),
        "workload": slug(case.workload.name),
        "target": slug(case.target),
        "round": str(round_number),
        "run": run[:8],
    }
    if "prefix" not in dataset.model_fields_set:
        # Default prefixes may be cut, so that no campaign is refused for a long name.
        fields |= {"name": short(name, NAME_MAX), "target": short(case.target, TARGET_MAX)}
    described: dict[str, Any] = {**content_document(dataset)}
    if dataset.payload is not None:
        described["payload"] = dataset.payload.file
    if phase.script is not None:
        # A different script, or number of sessions, has different objects.
        script = phase.script.model_dump(mode="json", by_alias=True)
        described |= {"script": script, "threads": case.load(phase).clients}
    existing = dataset.existing
    if existing is not None:
        # Existing objects are the same in all rounds.
        content = existing.model_dump_json()
        return DatasetKey(case.target, existing.bucket, content, 1, is_existing=True)
    content = json.dumps(described, sort_keys=True)
    return DatasetKey(case.target, bucket_prefix(dataset, fields), content, dataset.buckets)


def places(cases: Iterable["Case"], name: str, run: str) -> dict[DatasetKey, str]:
    """Return the bucket prefix of every dataset, in the order of the campaign file.

    If a campaign gives two different datasets one name, as a sweep over sizes does, the second
    gets the suffix "d2-", the third "d3-".
    """
    prefixes: dict[DatasetKey, str] = {}
    used: dict[tuple[str, str], int] = {}
    for case in cases:
        for phase in case.workload.phases:
            for round_number in range(1, case.workload.rounds + 1):
                key = dataset_key(case, phase, round_number, name, run)
                if key.is_existing:
                    prefixes[key] = key.prefix
                if key in prefixes:
                    continue
                place = (key.target, key.prefix)
                number = used[place] = used.get(place, 0) + 1
                prefixes[key] = key.prefix if number == 1 else numbered(key.prefix, "d", number)
    return prefixes


def stores_of(
    targets: Mapping[str, DriverSettings], *, across_drivers: bool = False
) -> dict[str, Store]:
    """Return which targets may be the same store, judged by their drivers and settings."""
    stores: dict[str, Store] = {}
    for name, (driver, settings) in targets.items():
        joined = {
            stores[other]
            for other in stores
            if (across_drivers or targets[other][0] == driver)
            and _may_be_one((driver, settings), targets[other])
        }
        stores = {other: (name,) if store in joined else store for other, store in stores.items()}
        stores[name] = (name,)
    return stores


def _may_be_one(driver_settings: DriverSettings, other: DriverSettings) -> bool:
    (driver, settings), (other_driver, other_settings) = driver_settings, other
    facts = facts_of(driver)
    if not facts.keeps:
        return False
    if driver != other_driver:
        # Some servers offer S3 and Swift at one port, on the same buckets.
        return bool(_servers(driver_settings) & _servers(other))
    keys = [key for key in facts.address.settings if settings.get(key) and other_settings.get(key)]
    # If no address key is set in both, they may be the same store.
    return not keys or any(
        _addresses(settings[key]) & _addresses(other_settings[key]) for key in keys
    )


def _servers(target: DriverSettings) -> set[str]:
    """Return the host:port pairs in a target's settings."""
    driver, settings = target
    texts = [settings.get(key) or () for key in facts_of(driver).address.settings]
    flat = [text for value in texts for text in ([value] if isinstance(value, str) else value)]
    return {urlsplit(str(text)).netloc.lower() for text in flat} - {""}


def _addresses(value: Any) -> set[str]:
    texts = [value] if isinstance(value, str) else value
    return {urlsplit(text).netloc.lower() or os.path.realpath(text) for text in map(str, texts)}


def generation(key: DatasetKey, prefix: str, number: int) -> tuple[DatasetKey, str]:
    """Return key and prefix of a dataset that starts anew while its old objects remain."""
    # Prefixes never contain a slash, so this key cannot collide with another one.
    return replace(key, prefix=f"{key.prefix}/{number}"), numbered(prefix, "g", number)


def numbered(prefix: str, letter: str, number: int) -> str:
    """Append a numbered suffix to a prefix, separated by a dash."""
    dash = "" if prefix.endswith(("-", ".", "_")) else "-"
    return f"{prefix}{dash}{letter}{number}-"


def buckets_of(key: DatasetKey, prefix: str) -> Buckets:
    """Return the buckets of a dataset at a prefix."""
    return Buckets(prefix, key.buckets)


def shared_bucket(
    prefixes: Mapping[DatasetKey, str], stores: Mapping[str, Store] | None = None
) -> tuple[DatasetKey, DatasetKey, str] | None:
    """Return two datasets that would share a bucket, and that bucket's name.

    `stores` groups the targets that may be the same store; without it each target is a store.
    """
    stores = stores or {}
    prefixes = {key: prefix for key, prefix in prefixes.items() if not key.is_existing}
    by_prefix: dict[tuple[Store, str], list[DatasetKey]] = {}
    for key, prefix in prefixes.items():
        store = stores.get(key.target, (key.target,))
        by_prefix.setdefault((store, prefix), []).append(key)
        # A dataset with a single bucket drops the final dash, so it can clash with names without
        # one.
        if prefix.rstrip("-") != prefix:
            by_prefix.setdefault((store, prefix.rstrip("-")), []).append(key)
    for key, prefix in prefixes.items():
        buckets = buckets_of(key, prefix)
        first = buckets.first()
        for length in range(1, len(first) + 1):
            store = stores.get(key.target, (key.target,))
            for other in by_prefix.get((store, first[:length]), ()):
                if other == key:
                    continue
                name = buckets.overlap(buckets_of(other, prefixes[other]))
                if name is not None:
                    return other, key, name
    return None
