"""The objects a workload works on: how many, named how, how large, filled with what."""

import math
import re
import statistics
import string
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from loadstone import units
from loadstone.campaign.drivers import read_drivers
from loadstone.campaign.schema.values import Fraction, PositiveCount, Section
from loadstone.documents.trial import ShardsDocument, Size
from loadstone.errors import InputError

SIZE_LAW_ALLOWED = (
    'a size like "4KiB", {uniform: [SIZE, SIZE]}, '
    "{lognormal: {median: SIZE, sigma: NUMBER, min: SIZE, max: SIZE}} "
    "or {weighted: [[SIZE, WEIGHT], ...]}"
)
PREFIX_FIELDS = ("name", "workload", "target", "round", "size", "buckets", "objects", "run")


class FixedSize(Section):
    """Every object has the same size."""

    kind: Literal["fixed"] = "fixed"
    size_bytes: int

    def written(self) -> str:
        """Return the value in the spelling of campaign files."""
        return units.format_size(self.size_bytes)

    def document(self) -> Size:
        """Return the distribution as in trial documents."""
        return {"kind": "fixed", "bytes": self.size_bytes}

    def mean_bytes(self) -> float:
        """Return the expected size of an object in bytes."""
        return self.size_bytes

    def largest_bytes(self) -> int:
        """Return the largest possible size of an object in bytes."""
        return self.size_bytes


class UniformSize(Section):
    """Every size between two bounds is equally likely."""

    kind: Literal["uniform"] = "uniform"
    min_bytes: int
    max_bytes: int

    def written(self) -> dict[str, list[str]]:
        """Return the value in the spelling of campaign files."""
        return {"uniform": [units.format_size(self.min_bytes), units.format_size(self.max_bytes)]}

    def document(self) -> Size:
        """Return the distribution as in trial documents."""
        return {"kind": "uniform", "min": self.min_bytes, "max": self.max_bytes}

    def mean_bytes(self) -> float:
        """Return the expected size of an object in bytes."""
        return (self.min_bytes + self.max_bytes) / 2

    def largest_bytes(self) -> int:
        """Return the largest possible size of an object in bytes."""
        return self.max_bytes


class LognormalSize(Section):
    """Sizes are log-normal, cut at two bounds."""

    kind: Literal["lognormal"] = "lognormal"
    median_bytes: int
    sigma: float
    min_bytes: int
    max_bytes: int

    def written(self) -> dict[str, Any]:
        """Return the value in the spelling of campaign files."""
        size = units.format_size
        bounds = {"min": size(self.min_bytes), "max": size(self.max_bytes)}
        return {"lognormal": {"median": size(self.median_bytes), "sigma": self.sigma, **bounds}}

    def document(self) -> Size:
        """Return the distribution as in trial documents."""
        return {
            "kind": "lognormal",
            "median": self.median_bytes,
            "sigma": self.sigma,
            "min": self.min_bytes,
            "max": self.max_bytes,
        }

    def mean_bytes(self) -> float:
        """Return the expected size of an object in bytes, accurate to about 0.1 %."""
        law = statistics.NormalDist(math.log(self.median_bytes), self.sigma)
        steps = 2000
        sizes = (
            math.exp(min(law.inv_cdf((step + 0.5) / steps), math.log(self.max_bytes)))
            for step in range(steps)
        )
        return math.fsum(max(size, self.min_bytes) for size in sizes) / steps

    def largest_bytes(self) -> int:
        """Return the largest possible size of an object in bytes."""
        return self.max_bytes


class WeightedSize(Section):
    """Each object has one of a few sizes, chosen by weight."""

    kind: Literal["weighted"] = "weighted"
    choices: tuple[tuple[int, float], ...]

    def written(self) -> dict[str, Any]:
        """Return the value in the spelling of campaign files."""
        return {"weighted": [[units.format_size(size), weight] for size, weight in self.choices]}

    def document(self) -> Size:
        """Return the distribution as in trial documents."""
        return {"kind": "weighted", "choices": [list(choice) for choice in self.choices]}

    def mean_bytes(self) -> float:
        """Return the expected size of an object in bytes."""
        total = math.fsum(weight for _, weight in self.choices)
        return math.fsum(size * weight for size, weight in self.choices) / total

    def largest_bytes(self) -> int:
        """Return the largest possible size of an object in bytes."""
        return max(size for size, _ in self.choices)


SizeLaw = FixedSize | UniformSize | LognormalSize | WeightedSize


def read_size_law(value: Any) -> SizeLaw:
    """Return the size distribution that a campaign spells."""
    if isinstance(value, SizeLaw):
        return value
    if isinstance(value, (int, str)):
        return FixedSize(size_bytes=units.parse_size(value))
    if not isinstance(value, dict) or len(value) != 1:
        raise InputError.of_value(value, SIZE_LAW_ALLOWED)
    law, settings = next(iter(value.items()))
    match law, settings:
        case "uniform", [least, most]:
            return _uniform(units.parse_size(least), units.parse_size(most))
        case "lognormal", {"median": median, "sigma": sigma, "min": least, "max": most}:
            return _lognormal(median, sigma, units.parse_size(least), units.parse_size(most))
        case "weighted", [_, *_]:
            return WeightedSize(choices=tuple(_choice(choice) for choice in settings))
    raise InputError.of_value(value, SIZE_LAW_ALLOWED)


def _uniform(least: int, most: int) -> UniformSize:
    if least > most:
        raise InputError(
            f"found uniform sizes from {least} to {most} bytes, allowed the smaller one first"
        )
    return UniformSize(min_bytes=least, max_bytes=most)


def _lognormal(median: Any, sigma: Any, least: int, most: int) -> LognormalSize:
    median_bytes = units.parse_size(median)
    if not isinstance(sigma, (int, float)) or isinstance(sigma, bool) or not 0 < sigma <= 10:
        raise InputError.of_value(sigma, "a sigma above 0 and at most 10")
    if median_bytes < 1 or not least <= median_bytes <= most:
        raise InputError(
            f"found a lognormal law with median {median_bytes} between {least} and {most} bytes, "
            "allowed a median of at least 1 byte that lies between min and max"
        )
    return LognormalSize(
        median_bytes=median_bytes, sigma=float(sigma), min_bytes=least, max_bytes=most
    )


def _choice(choice: Any) -> tuple[int, float]:
    match choice:
        case [size, int() | float() as weight] if not isinstance(weight, bool) and weight > 0:
            return units.parse_size(size), float(weight)
    raise InputError.of_value(choice, "[SIZE, WEIGHT] with a weight above 0")


def _known_fields(template: str) -> str:
    fields = ", ".join(f"{{{field}}}" for field in PREFIX_FIELDS)
    allowed = f"a prefix whose braces hold only {fields}"
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise InputError.of_value(template, allowed) from error
    # The pattern is not formatted here: a huge width could exhaust memory.
    if any(
        field is not None and (field not in PREFIX_FIELDS or form or conversion)
        for _, field, form, conversion in parts
    ):
        raise InputError.of_value(template, allowed)
    return template


SizeLawValue = Annotated[
    SizeLaw,
    BeforeValidator(read_size_law),
    PlainSerializer(lambda law: law.written()),
    WithJsonSchema(
        {
            "description": SIZE_LAW_ALLOWED,
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string"},
                {
                    "type": "object",
                    "minProperties": 1,
                    "maxProperties": 1,
                    "additionalProperties": False,
                    "properties": {
                        "uniform": {"type": "array", "minItems": 2, "maxItems": 2},
                        "lognormal": {
                            "type": "object",
                            "required": ["median", "sigma", "min", "max"],
                        },
                        "weighted": {"type": "array", "minItems": 1},
                    },
                },
            ],
        }
    ),
]
Prefix = Annotated[str, AfterValidator(_known_fields)]

_SHARD = re.compile(r"\{shard:0([1-4])([dx])\}")
SHARD_ALLOWED = "at most one {shard:02x}, of 1 to 4 digits, hexadecimal (x) or decimal (d)"


def _known_shard(prefix: str) -> str:
    """Check a key prefix with a shard placeholder; other braces are literal."""
    if prefix.count("{shard") > len(_SHARD.findall(prefix)) or prefix.count("{shard") > 1:
        raise InputError.of_value(prefix, SHARD_ALLOWED)
    return prefix


ObjectPrefix = Annotated[str, AfterValidator(_known_shard)]

Encryption = Literal["none", "aes-256-gcm", "aes-256-cbc"]
PathEncryption = Literal["none", "aes-256-siv"]


class Existing(Section):
    """Objects that others wrote, which are read and never written."""

    bucket: str = Field(
        description="Bucket (or container, directory or namespace) that holds the objects; empty: "
        "a pool's default namespace."
    )
    prefix: str = Field(
        default="", description="Prefix of the objects' keys; the others are left out."
    )
    list_file: str | None = Field(
        default=None,
        alias="list",
        min_length=1,
        description="File that lists the objects, instead of the store. Parquet or CSV (.parquet, "
        ".csv) with a column key, and size and etag if they are known; otherwise a key on each "
        "line.",
    )
    objects_max: PositiveCount = Field(
        default=10_000_000,
        description="Maximum number of objects to list; the run says whether there are more.",
    )


class PayloadFile(Section):
    """A file that objects are filled with."""

    file: str = Field(
        min_length=1,
        description="A regular file of 64 KiB to 1 GiB; its path is relative to the campaign's "
        "folder. It is kept in memory, and must not change before the run has ended.",
    )


class Dataset(Section):
    """The objects: number, names, sizes and contents."""

    buckets: PositiveCount = Field(
        default=1,
        description="Number of buckets (or containers, or directories) that hold the objects.",
    )
    objects: PositiveCount | None = Field(
        default=None,
        description="Number of objects, over all buckets. Required, here or in the "
        "sweep, if there is no objects_per_bucket.",
    )
    objects_per_bucket: PositiveCount | None = Field(
        default=None, description="Number of objects in each bucket, instead of objects."
    )
    size: SizeLawValue | None = Field(
        default=None, description="Size of the objects. Required, here or in the sweep."
    )
    prefix: Prefix = Field(
        default="loadstone-{name}-{target}-{run}-{round}-",
        min_length=1,
        description="Prefix of bucket names; the bucket's number follows. Braces can contain "
        + ", ".join(PREFIX_FIELDS)
        + ".",
    )
    object_prefix: ObjectPrefix = Field(
        default="bench-",
        description="Prefix of object names; the object's number follows. {shard:02x} in it "
        "spreads names over 256 prefixes: " + SHARD_ALLOWED + ".",
    )
    compressible: Fraction = Field(
        default=0.0, description="Share of each page of an object that can be compressed away."
    )
    duplicate: Fraction = Field(
        default=0.0,
        description="Share of pages that repeat other pages. With 1, drivers file, block "
        "and rados write buffers of multiples of 256 KiB, and small whole "
        "objects, again unchanged.",
    )
    payload: PayloadFile | None = Field(
        default=None,
        description="File whose bytes fill the objects, instead of random bytes; each object "
        "starts at another offset. In every 4 KiB, 64 bytes identify the page, as in other "
        "payload.",
    )
    encryption: Encryption = Field(
        default="none",
        description="How the client encrypts objects before it sends them, and decrypts what it "
        "reads: none, aes-256-gcm or aes-256-cbc. Ranges cannot be read. Drivers that can: "
        + ", ".join(name for name, driver in read_drivers().items() if driver.encrypts)
        + ".",
    )
    existing: Existing | None = Field(
        default=None,
        description="Objects that others wrote, instead of all other keys: they are listed once "
        "and read, and nothing is ever written. Drivers that can: "
        + ", ".join(name for name, driver in read_drivers().items() if driver.facts.reads_existing)
        + ".",
    )
    path_encryption: PathEncryption = Field(
        default="none",
        description="How the client encrypts the keys of objects behind object_prefix, each "
        "segment by itself: none or aes-256-siv. Drivers that can: "
        + ", ".join(name for name, driver in read_drivers().items() if driver.facts.encrypts_paths)
        + ".",
    )

    @model_validator(mode="after")
    def _one_count(self) -> Self:
        if self.objects is not None and self.objects_per_bucket is not None:
            raise InputError("found objects and objects_per_bucket, allowed one of them")
        others = self.model_fields_set - {"existing"}
        if self.existing is not None and others:
            raise InputError(
                f"found existing beside {', '.join(sorted(others))}, allowed existing alone: what "
                "others wrote is as it is"
            )
        if self.payload is not None and (self.compressible or self.duplicate):
            raise InputError(
                "found payload with compressible or duplicate, allowed payload alone: a file is as"
                " compressible as it is"
            )
        return self

    @property
    def key_prefix(self) -> tuple[str, ShardsDocument | None]:
        """The prefix that all keys share, and the shards between it and the object numbers."""
        shard = _SHARD.search(self.object_prefix)
        if shard is None:
            return self.object_prefix, None
        shards: ShardsDocument = {
            "digits": int(shard[1]),
            "base": 16 if shard[2] == "x" else 10,
            "tail": self.object_prefix[shard.end() :],
        }
        return self.object_prefix[: shard.start()], shards

    @property
    def objects_total(self) -> int | None:
        """The number of objects in all buckets, if the campaign states it."""
        if self.objects_per_bucket is not None:
            return self.objects_per_bucket * self.buckets
        return self.objects

    @model_validator(mode="before")
    @classmethod
    def _accept_containers(cls, value: Any) -> Any:
        if isinstance(value, dict) and "containers" in value:
            if "buckets" in value:
                raise InputError(
                    "found buckets and containers, allowed one of them: they mean the same"
                )
            value = {**value, "buckets": value["containers"]}
            del value["containers"]
        return value


SHARE_MAX = 0.9
"""Stores refuse writes when nearly full (Ceph at 95 %), and Ceph's OSDs fill unevenly."""

ALLOWED = (
    f"a share of the store's size up to {SHARE_MAX:.0%}, in quotes or plain: 60%; or a size: 500GiB"
)


@dataclass(frozen=True, slots=True)
class FillLevel:
    """A fill level: `share` of the store if it reports its size, else `size_bytes`."""

    share: float | None = None
    size_bytes: int | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is to be written."""
        return not self.share and not self.size_bytes

    @property
    def order(self) -> tuple[bool, float]:
        """The sort key of levels, lowest first."""
        return self.share is None, self.share or self.size_bytes or 0

    def parameters(self) -> dict[str, float]:
        """Return the level as a parameter of results, in percent, so that charts can use it as an
        axis.
        """
        if self.share is None:
            return {"fill_bytes": self.size_bytes or 0}
        percent = round(self.share * 100, 6)
        return {"fill_percent": int(percent) if percent.is_integer() else percent}

    def __str__(self) -> str:
        if self.share is None:
            return units.format_size(self.size_bytes or 0)
        return f"{round(self.share * 100, 6):g}%"


def _read_level(value: Any) -> FillLevel:
    if isinstance(value, FillLevel):
        return value
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            share = units.parse_fraction(value)
        except InputError as error:
            raise InputError.of_value(value, ALLOWED) from error
        if share > SHARE_MAX:
            raise InputError.of_value(value, ALLOWED)
        return FillLevel(share=share)
    # A bare 0.6 may be meant as a share, so it is refused as a size.
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        try:
            return FillLevel(size_bytes=units.parse_size(value))
        except InputError as error:
            raise InputError.of_value(value, ALLOWED) from error
    raise InputError.of_value(value, ALLOWED)


FillValue = Annotated[
    FillLevel,
    BeforeValidator(_read_level),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}], "description": ALLOWED}
    ),
]
