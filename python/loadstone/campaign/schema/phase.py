"""One phase of a workload: which requests, arriving how, until when."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from loadstone.campaign.operations import OPERATIONS, readers_of
from loadstone.campaign.reading.mistakes import KeyMistake, KeyMistakesError
from loadstone.campaign.schema.capacity import Capacity
from loadstone.campaign.schema.contend import Contend
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
"""The operations that actions of a script are made of."""

WITH_SCRIPT = frozenset(
    {
        "script", "op", "mix", "name", "pause_after_ns", "duration_ns", "load", "size", "page_keys",
        "verify", "timeout_ns", "connections", "log_requests",
    }
)  # fmt: skip
"""What a phase with a script may say beside it."""

REQUIRED = ("range", "range_count", "part_size")

_FROZEN = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Keys(BaseModel):
    """The order in which requests choose objects."""

    model_config = _FROZEN

    order: Literal["sequential", "uniform", "zipf"] = Field(
        default="sequential",
        description="In sequence, uniformly at random, or by a Zipf distribution.",
    )
    theta: Number | None = Field(
        default=None, gt=0, le=10, description="Skew of zipf, from 0; default 0.99."
    )

    @model_validator(mode="after")
    def _theta_of_zipf(self) -> Self:
        if self.theta is not None and self.order != "zipf":
            wrong = KeyMistake(
                path=("theta",), actual=str(self.theta), allowed="theta with order: zipf only"
            )
            raise KeyMistakesError([wrong])
        return self


class OnError(BaseModel):
    """Effect of failed requests on a trial."""

    model_config = _FROZEN

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
    # Who contends is the load.
    return {**value, "load": {"threads": contend.get("clients", Contend().clients)}}


OnErrorValue = Annotated[OnError, BeforeValidator(_read_on_error)]


class Phase(BaseModel):
    """A stretch of load with one operation or mix, one load and one end."""

    model_config = _FROZEN

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
        default=0, alias="pause_after", description="Rest after the last round of the phase."
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
        default=None,
        description="Search for the largest load that meets an objective.",
    )
    load: Load | None = Field(default=None, description="Another load instead of the workload's.")
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
        default=None, description="Ranges asked for by one multi_range_get."
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
        description="The order in which the parts of an upload are sent, in a mix of its steps.",
    )
    part_pause_ns: Duration = Field(
        default=0,
        alias="part_pause",
        description="Rest of an upload after each of its parts, in a mix of its steps.",
    )
    ended_twice: Number = Field(
        default=0,
        ge=0,
        le=1,
        description="Share of the uploads of a mix that are completed or aborted a second time, by "
        "another client at once where one is free.",
    )
    page_keys: PositiveCount = Field(default=1000, description="Keys asked for by one list.")
    bulk_keys: PositiveCount = Field(default=1000, description="Keys deleted by one bulk_delete.")
    prefix: str | None = Field(
        default=None,
        description="Prefix of list; default: the dataset's object_prefix.",
    )
    delimiter: str | None = Field(default=None, description="Delimiter of list.")
    verify: Verify | None = Field(
        default=None, description="The workload's verify for this phase only."
    )
    timeout_ns: PositiveDuration | None = Field(
        default=None, alias="timeout", description="The workload's timeout for this phase only."
    )
    rate_limit_per_s: Rate | None = Field(
        default=None,
        alias="rate_limit",
        description="Bound on the rate of a closed load, over all clients.",
    )
    connections: Literal["keep_alive", "per_request"] | None = Field(
        default=None, description="The workload's connections for this phase only."
    )
    log_requests: Flag | None = Field(
        default=None, description="The workload's log_requests for this phase only."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        mistakes = [*self._wrong_operations(), *self._wrong_options(), *self._wrong_repeats()]
        mistakes += [*self._wrong_capacity(), *self._wrong_contention()]
        if mistakes:
            raise KeyMistakesError(mistakes)
        return self

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
        """Whether it uploads step by step, each step a request of its own."""
        return any(OPERATIONS[name].is_upload_step for name in self.operations)

    @property
    def only_once(self) -> str | None:
        """Why the phase goes over its objects only once; None where it may repeat."""
        return None if self.op is None else OPERATIONS[self.op].only_once

    def key_of(self, operation: str) -> tuple[str, ...]:
        """Return the key that asks for an operation."""
        if self.contend is not None:
            return ("contend",)
        return ("op",) if self.op is not None else ("mix", operation)

    def shares(self) -> list[Share]:
        """Return the mix as a trial document spells it."""
        return [{"operation": name, "weight": weight} for name, weight in self._weights().items()]

    def _weights(self) -> dict[str, float]:
        if self.op is not None:
            return {self.op: 1.0}
        if self.contend is not None:
            return {COMPARE_AND_SWAP: 1.0}
        return {str(name): weight for name, weight in (self.mix or {}).items()}

    def _wrong_operations(self) -> list[KeyMistake]:
        mistakes = []
        kinds = ("op", "mix", "script", "contend")
        given = [key for key in kinds if getattr(self, key) is not None]
        if len(given) != 1:
            actual = " and ".join(given) or "none of them"
            allowed = "one of op, mix, script and contend"
            mistakes.append(KeyMistake(path=(), actual=actual, allowed=allowed))
        if self.script is not None:
            mistakes += [
                KeyMistake(
                    path=(field.alias or key,),
                    actual="it with a script",
                    allowed="none: a script contains its requests, and runs once",
                )
                for key, field in Phase.model_fields.items()
                if key in self.model_fields_set - WITH_SCRIPT and getattr(self, key) is not None
            ]
        if self.label in RESERVED_NAMES:
            mistakes.append(
                KeyMistake(
                    path=("name",),
                    actual=shown(self.name),
                    allowed="a name other than prepare, clean-up and audit",
                )
            )
        mix = self._weights() if self.mix else {}
        mistakes += [
            KeyMistake(path=("mix", name), actual=name, allowed=f"{name} as a phase of its own")
            for name in mix
            if not OPERATIONS[name].is_mixed
        ]
        if self.op is not None and OPERATIONS[self.op].is_upload_step:
            mistakes.append(
                KeyMistake(
                    path=("op",), actual=self.op, allowed="it in a mix with other steps of uploads"
                )
            )
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
            mistakes.append(
                KeyMistake(
                    path=("mix", next(iter(takes))),
                    actual=f"a weight of {sum(takes.values()):g} against {words} with "
                    f"{sum(makes.values()):g}",
                    allowed=f"a weight up to that of {words}" if is_weighed else f"it with {words}",
                    hint="a mix does this only to what it has made itself, so that no request asks "
                    "for an object that is gone",
                )
            )
        return mistakes

    def _wrong_options(self) -> list[KeyMistake]:
        mistakes = []
        # A key that no operation of the phase reads would be believed and do nothing.
        for option, field in Phase.model_fields.items():
            readers, key = readers_of(option), field.alias or option
            if not readers:
                continue
            written = getattr(self, option) if option in self.model_fields_set else None
            is_read = any(name in readers for name in self.operations)
            if written is not None and not is_read:
                mistakes.append(
                    KeyMistake(
                        path=(key,),
                        actual=f"it with {' and '.join(self.operations) or 'no operation'}",
                        allowed=f"{key} with {' or '.join(readers)}",
                    )
                )
            if key in REQUIRED and is_read and written is None:
                reader = next(name for name in self.operations if name in readers)
                mistakes.append(
                    KeyMistake(path=(key,), actual="nothing", allowed=f"a value; {reader} needs it")
                )
        if self.rate_limit_per_s is not None and self.load and self.load.rate_per_s is not None:
            mistakes.append(
                KeyMistake(path=("rate_limit",), actual="it with rate", allowed="it with threads")
            )
        return mistakes

    def _wrong_repeats(self) -> list[KeyMistake]:
        if self.only_once is None:
            return []
        mistakes = []
        if self.iterations > 1:
            mistakes.append(self._only_once("iterations", str(self.iterations), "1"))
        if self.keys.order != "sequential":
            order = shown(self.keys.order)
            mistakes.append(self._only_once(("keys", "order"), order, '"sequential"'))
        if OPERATIONS[self.op or ""].repeats == "never":
            stages = {"warm_up": self.warm_up_ns, "cool_down": self.cool_down_ns}
            mistakes += [
                self._only_once(key, "a duration", "none") for key, value in stages.items() if value
            ]
        return mistakes

    def _only_once(self, key: str | tuple[str, ...], actual: str, allowed: str) -> KeyMistake:
        path = (key,) if isinstance(key, str) else key
        why = f"{allowed}, because {self.only_once}"
        return KeyMistake(path=path, actual=actual, allowed=why)

    def _wrong_contention(self) -> list[KeyMistake]:
        """Its clients are its load, and its objects are chosen by chance."""
        if self.contend is None:
            return []
        allowed = {
            "load": (self.load == Load(threads=self.contend.clients), "none: see contend.clients"),
            "keys": (self.keys == Keys(), "none: see contend.keys"),
            "contend": (
                bool(self.requests or self.duration_ns),
                "it with requests or a duration",
            ),
        }
        return [
            KeyMistake(
                path=(key,),
                actual="it alone" if key == "contend" else "it with contend",
                allowed=words,
            )
            for key, (holds, words) in allowed.items()
            if not holds
        ]

    def _wrong_capacity(self) -> list[KeyMistake]:
        """A search sets lengths and loads itself, and asks for its objects over and over."""
        if self.capacity is None:
            return []
        mistakes = []
        if self.only_once is not None:
            mistakes.append(self._only_once("capacity", f"it with {self.op}", "none"))
        for key, value in (
            ("requests", self.requests),
            ("duration", self.duration_ns),
            ("cool_down", self.cool_down_ns),
            ("rate_limit", self.rate_limit_per_s),
            ("iterations", self.iterations if self.iterations > 1 else None),
        ):
            if value:
                mistakes.append(
                    KeyMistake(
                        path=(key,),
                        actual="it with capacity",
                        allowed="none: the search sets the length of its trials",
                        hint="set capacity.trial and capacity.coarse_trial",
                    )
                )
        kind = "threads" if self.load and self.load.threads is not None else "rate"
        if self.load is not None and kind != self.capacity.vary:
            mistakes.append(
                KeyMistake(
                    path=("load",),
                    actual=kind,
                    allowed=f"{self.capacity.vary}, which the capacity varies",
                )
            )
        return mistakes


PhaseValue = Annotated[Phase, BeforeValidator(_read_phase)]
