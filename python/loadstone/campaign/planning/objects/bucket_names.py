"""How the buckets of a dataset are called, and whether two datasets would share one."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from loadstone import _loadgen
from loadstone.campaign.drivers import BucketNames
from loadstone.campaign.schema.dataset import Dataset, FixedSize

# Letters and digits of any script: only names that are hosts are bound to those of ASCII.
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
        # When the longer prefix is the shorter one and digits, its bucket 0 has the smallest
        # number that the shorter could have too.
        return long.first() if short.contains(long.first()) else None

    def mistake(self, rule: BucketNames) -> str | None:
        """Return what is allowed if a name is not, or None."""
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
    # A script may say itself how large its objects are, and always does how many there are.
    law = "script" if size is None else size.kind
    return dataset.prefix.format(
        **fields,
        size=str(size.written()).lower() if isinstance(size, FixedSize) else law,
        buckets=dataset.buckets,
        objects="script" if dataset.objects_total is None else dataset.objects_total,
    )


def short(name: str, length: int) -> str:
    """Return a name as it can stand in a default prefix, which every store has to allow.

    One that is too long is cut, with four digits of its own, so that two of them stay apart.
    """
    text = slug(name).replace(".", "-")
    if len(text) <= length:
        return text
    digest = hashlib.blake2b(name.encode(), digest_size=2).hexdigest()
    return f"{text[: length - 5].rstrip('-')}-{digest}"


def slug(name: str) -> str:
    """Return a name as it can stand in a bucket's name."""
    return re.sub(r"[^a-z0-9.-]", "-", name.lower())
