"""One phase of a workload: which requests, arriving how, until when."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from loadstone.campaign.operations import OPERATIONS, readers_of
from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.schema.capacity import Capacity
from loadstone.campaign.schema.dataset import SizeLawValue
from loadstone.campaign.schema.load import Load
from loadstone.campaign.schema.script import Script
from loadstone.campaign.schema.values import (
    NAME_PATTERN,
    Count,
    Duration,
    Flag,
    Number,
    PositiveCount,
    PositiveDuration,
    PositiveNumber,
    PositiveSize,
    Rate,
    Section,
    Verify,
)
from loadstone.documents.mix import COMPARE_AND_SWAP
from loadstone.documents.trial import Share
from loadstone.errors import InputError, shown

if TYPE_CHECKING:
    OperationName = str
else:
    OperationName = Literal[tuple(OPERATIONS)]

RESERVED_NAMES = ("prepare", "clean-up", "audit")

SCRIPTED = ("put", "get", "head", "delete", "list")
"""The operations of which a script's actions consist."""

WITH_SCRIPT = frozenset(
    {
        "script", "op", "mix", "name", "pause_after_ns", "duration_ns", "load", "size", "page_keys",
        "verify", "timeout_ns", "connections", "log_requests",
    }
)  # fmt: skip
"""Keys that a phase with a script may have."""

REQUIRED = ("range", "range_count", "part_size")


class Keys(Section):
    """The order in which requests choose objects."""

    order: Literal["sequential", "uniform", "zipf"] = Field(
        default="sequential",
        description="In sequence, uniformly at random, or by a Zipf distribution.",
    )
    theta: Number | None = Field(
        default=None, gt=0, le=10, description="Skew of zipf, from 0; default 0.99."
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        if self.theta is not None and self.order != "zipf":
            yield KeyMistake(("theta",), str(self.theta), "theta with order: zipf only")


class Contend(Section):
    """How many clients contend for how many objects."""

    keys: PositiveCount = Field(
        default=16, description="Number of contended objects: the first of the dataset."
    )
    clients: PositiveCount = Field(
        default=64, description="Number of clients; each contends for one random object at a time."
    )


class OnError(Section):
    """Effect of failed requests on a trial."""

    action: Literal["continue", "stop"] = Field(
        description="Count failures and continue, or stop the trial."
    )
    limit: Count | None = Field(
        default=None,
        description="Number of failures after which the trial stops; stop without a "
        "limit allows none.",
    )


def _read_on_error(value: Any) -> Any:
    if isinstance(value, str):
        if value not in ("continue", "stop"):
            raise InputError.of_value(value, "continue, stop, or {action: ..., limit: N}")
        return {"action": value}
    return value


def _read_mix(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        raise InputError.of_value(value, "operations with their weights, like {get: 45, put: 15}")
    return value


def _read_phase(value: Any) -> Any:
    if isinstance(value, str):
        return {"op": value}
    contend = value.get("contend") if isinstance(value, dict) else None
    if not isinstance(contend, dict) or "load" in value:
        return value
    # The contending clients make the load.
    return {**value, "load": {"threads": contend.get("clients", Contend().clients)}}


OnErrorValue = Annotated[OnError, BeforeValidator(_read_on_error)]


class Phase(Section):
    """A stretch of load with one operation or mix, one load and one end."""

    op: OperationName | None = Field(default=None, description="The operation of every request.")
    mix: Annotated[dict[OperationName, PositiveNumber], BeforeValidator(_read_mix)] | None = Field(
        default=None, description="Operations with their weights, instead of op."
    )
    script: Script | None = Field(
        default=None, description="Actions that depend on each other, instead of op and mix."
    )
    contend: Contend | None = Field(
        default=None,
        description="Clients that contend for a few objects, instead of op, mix and script.",
    )
    name: str = Field(
        default="",
        pattern=NAME_PATTERN + "|^$",
        description="The phase's name in results; default: the operation's.",
    )
    iterations: PositiveCount = Field(
        default=1, description="Number of times that the phase runs over its objects."
    )
    pause_after_ns: Duration = Field(
        default=0, alias="pause_after", description="Pause after the last round of the phase."
    )
    requests: PositiveCount | None = Field(
        default=None,
        description="Requests per iteration; without requests and duration, the whole "
        "dataset once.",
    )
    duration_ns: PositiveDuration | None = Field(
        default=None,
        alias="duration",
        description="Time per iteration; with requests too, the first end counts.",
    )
    warm_up_ns: Duration = Field(
        default=0,
        alias="warm_up",
        description="Load before the measured part; separate in the record.",
    )
    cool_down_ns: Duration = Field(
        default=0,
        alias="cool_down",
        description="Load after the measured part; separate in the record.",
    )
    capacity: Capacity | None = Field(
        default=None, description="Search for the largest load that meets an objective."
    )
    load: Load | None = Field(
        default=None, description="Replaces the workload's load in this phase."
    )
    size: SizeLawValue | None = Field(
        default=None, description="Other object sizes, and so another dataset."
    )
    keys: Keys = Field(default=Keys(), description="The order in which requests choose objects.")
    range_bytes: PositiveSize | None = Field(
        default=None,
        alias="range",
        description="Length of a range; for read, write and append the block size.",
    )
    range_count: PositiveCount | None = Field(
        default=None, description="Number of ranges in one multi_range_get."
    )
    part_bytes: PositiveSize | None = Field(
        default=None,
        alias="part_size",
        description="Length of the parts of a multipart_put, a multipart_get or an upload.",
    )
    part_concurrency: PositiveCount = Field(
        default=1,
        description="Parts of one object that a client of a multipart_put or "
        "multipart_get has in flight at once, each over a separate "
        "connection.",
    )
    part_order: Literal["ascending", "descending", "shuffled"] = Field(
        default="ascending",
        description="Order in which the parts of an upload are sent, in a mix of upload steps.",
    )
    part_pause_ns: Duration = Field(
        default=0,
        alias="part_pause",
        description="Pause of an upload after each part, in a mix of upload steps.",
    )
    ended_twice: Number = Field(
        default=0,
        ge=0,
        le=1,
        description="Share of a mix's uploads that are completed or aborted twice, the second "
        "time by another client at the same moment if one is free.",
    )
    page_keys: PositiveCount = Field(
        default=1000, description="Maximum number of keys in one list."
    )
    bulk_keys: PositiveCount = Field(
        default=1000, description="Number of keys deleted by one bulk_delete."
    )
    prefix: str | None = Field(
        default=None, description="Prefix of list; default: the dataset's object_prefix."
    )
    delimiter: str | None = Field(default=None, description="Delimiter of list.")
    verify: Verify | None = Field(
        default=None, description="Replaces the workload's verify in this phase."
    )
    timeout_ns: PositiveDuration | None = Field(
        default=None, alias="timeout", description="Replaces the workload's timeout in this phase."
    )
    rate_limit_per_s: Rate | None = Field(
        default=None,
        alias="rate_limit",
        description="Bound on the rate of a closed load, over all clients.",
    )
    connections: Literal["keep_alive", "per_request"] | None = Field(
        default=None, description="Replaces the workload's connections in this phase."
    )
    log_requests: Flag | None = Field(
        default=None, description="Replaces the workload's log_requests in this phase."
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        yield from self._wrong_operations()
        yield from self._wrong_options()
        yield from self._wrong_repeats()
        yield from self._wrong_capacity()
        yield from self._wrong_contention()

    @property
    def label(self) -> str:
        """The phase's name in results."""
        kinds = ("mix", "script", "contend")
        return (
            self.name
            or self.op
            or next((kind for kind in kinds if getattr(self, kind) is not None), "mix")
        )

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations that requests of this phase may have."""
        if self.script is not None:
            return SCRIPTED
        if self.contend is not None:
            return (COMPARE_AND_SWAP,)
        return (self.op,) if self.op is not None else tuple(self.mix or ())

    @property
    def has_upload_steps(self) -> bool:
        """Whether it uploads step by step, with a separate request for each step."""
        return any(OPERATIONS[name].is_upload_step for name in self.operations)

    @property
    def only_once(self) -> str | None:
        """Why the phase can process its objects only once; None if it may repeat."""
        return None if self.op is None else OPERATIONS[self.op].only_once

    def key_of(self, operation: str) -> tuple[str, ...]:
        """Return the path of the key that selects an operation."""
        if self.contend is not None:
            return ("contend",)
        return ("op",) if self.op is not None else ("mix", operation)

    def shares(self) -> list[Share]:
        """Return the mix as in trial documents."""
        return [{"operation": name, "weight": weight} for name, weight in self._weights().items()]

    def _weights(self) -> dict[str, float]:
        if self.op is not None:
            return {self.op: 1.0}
        if self.contend is not None:
            return {COMPARE_AND_SWAP: 1.0}
        return {str(name): weight for name, weight in (self.mix or {}).items()}

    def _wrong_operations(self) -> Iterator[KeyMistake]:
        kinds = ("op", "mix", "script", "contend")
        given = [key for key in kinds if getattr(self, key) is not None]
        if len(given) != 1:
            actual = " and ".join(given) or "none of them"
            yield KeyMistake((), actual, "one of op, mix, script and contend")
        if self.script is not None:
            for key, field in Phase.model_fields.items():
                if key in self.model_fields_set - WITH_SCRIPT and getattr(self, key) is not None:
                    allowed = "none: a script contains its requests, and runs once"
                    yield KeyMistake((field.alias or key,), "this key with a script", allowed)
        if self.label in RESERVED_NAMES:
            allowed = "a name other than prepare, clean-up and audit"
            yield KeyMistake(("name",), shown(self.name), allowed)
        if self.op is not None and OPERATIONS[self.op].is_upload_step:
            for key in ("part_order", "part_pause_ns", "ended_twice"):
                if key in self.model_fields_set:
                    name = Phase.model_fields[key].alias or key
                    yield KeyMistake((name,), f"this key with {self.op} alone", "a mix of steps")
        yield from self._wrong_mix(self._weights() if self.mix else {})

    def _wrong_mix(self, mix: Mapping[str, float]) -> Iterator[KeyMistake]:
        for name in mix:
            if not OPERATIONS[name].is_mixed:
                yield KeyMistake(("mix", name), name, f"{name} as a phase of its own")
        for makers in {tuple(OPERATIONS[name].takes_from): None for name in mix}:
            takes = {
                name: mix[name] for name in mix if tuple(OPERATIONS[name].takes_from) == makers
            }
            makes = {name: mix[name] for name in makers if name in mix}
            is_weighed = not any(OPERATIONS[name].is_upload_step for name in takes)
            excess = sum(takes.values()) > sum(makes.values()) if is_weighed else not makes
            if not makers or not excess:
                continue
            words = " and ".join(makes) or makers[0]
            yield KeyMistake(
                ("mix", next(iter(takes))),
                f"a weight of {sum(takes.values()):g} against {words} with {sum(makes.values()):g}",
                f"a weight up to that of {words}" if is_weighed else f"this key with {words}",
                hint="a mix does this only to what it has made itself, so that no request asks for"
                " an object that is gone",
            )

    def _wrong_options(self) -> Iterator[KeyMistake]:
        # A key that none of the phase's operations reads would have no effect.
        for option, field in Phase.model_fields.items():
            readers, key = readers_of(option), field.alias or option
            if not readers:
                continue
            written = getattr(self, option) if option in self.model_fields_set else None
            is_read = any(name in readers for name in self.operations)
            if written is not None and not is_read:
                operations = " and ".join(self.operations) or "no operation"
                allowed = f"{key} with {' or '.join(readers)}"
                yield KeyMistake((key,), f"this key with {operations}", allowed)
            if key in REQUIRED and is_read and written is None:
                reader = next(name for name in self.operations if name in readers)
                yield KeyMistake((key,), "nothing", f"a value; {reader} needs it")
        if self.rate_limit_per_s is not None and self.load and self.load.rate_per_s is not None:
            yield KeyMistake(("rate_limit",), "an open load: rate", "a closed load: threads")

    def _wrong_repeats(self) -> Iterator[KeyMistake]:
        if self.only_once is None:
            return
        why = f"because {self.only_once}"
        if self.iterations > 1:
            yield KeyMistake(("iterations",), str(self.iterations), f"1, {why}")
        if self.keys.order != "sequential":
            yield KeyMistake(("keys", "order"), shown(self.keys.order), f'"sequential", {why}')
        if OPERATIONS[self.op or ""].repeats == "never":
            stages = {"warm_up": self.warm_up_ns, "cool_down": self.cool_down_ns}
            for key in (key for key, value in stages.items() if value):
                yield KeyMistake((key,), "a duration", f"none, {why}")

    @model_validator(mode="after")
    def _leave_out_derived_load(self) -> Self:
        """Leave the load that `contend` implies out of documents, so that a sweep can change it."""
        if self.contend is not None:
            self.model_fields_set.discard("load")
        return self

    def _wrong_contention(self) -> Iterator[KeyMistake]:
        """Yield keys that conflict with a contention, and the missing end of its phase."""
        if self.contend is None:
            return
        if self.load != Load(threads=self.contend.clients):
            yield KeyMistake(("load",), "this key with contend", "none: see contend.clients")
        if self.keys != Keys():
            yield KeyMistake(("keys",), "this key with contend", "none: see contend.keys")
        if not (self.requests or self.duration_ns):
            yield KeyMistake(("contend",), "this key alone", "this key with requests or a duration")

    def _wrong_capacity(self) -> Iterator[KeyMistake]:
        """Yield keys that conflict with a search, and an operation that it cannot repeat."""
        if self.capacity is None:
            return
        if self.only_once is not None:
            yield KeyMistake(
                ("capacity",), f"this key with {self.op}", f"none, because {self.only_once}"
            )
        for key, value in (
            ("requests", self.requests),
            ("duration", self.duration_ns),
            ("cool_down", self.cool_down_ns),
            ("rate_limit", self.rate_limit_per_s),
            ("iterations", self.iterations > 1),
        ):
            if value:
                yield KeyMistake(
                    (key,),
                    "this key with capacity",
                    "none: the search sets the length of its trials",
                    hint="set capacity.trial and capacity.coarse_trial",
                )
        kind = "threads" if self.load and self.load.threads is not None else "rate"
        if self.load is not None and kind != self.capacity.vary:
            allowed = f"{self.capacity.vary}, which the capacity varies"
            yield KeyMistake(("load",), kind, allowed)


PhaseValue = Annotated[Phase, BeforeValidator(_read_phase)]
