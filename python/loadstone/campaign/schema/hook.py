"""A hook: a command of the user's own, run at a given point of a run."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from loadstone import units
from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.schema.target import secret_reference
from loadstone.campaign.schema.values import (
    NAME_PATTERN,
    Names,
    OneOrMany,
    PositiveCount,
    PositiveDuration,
    Section,
    Words,
    format_duration_exactly,
)
from loadstone.documents.trial import TrialDocument
from loadstone.errors import InputError

Point = Literal[
    "before_run", "after_run", "before_phase", "after_phase", "before_trial", "after_trial"
]
POINTS: tuple[str, ...] = get_args(Point)
OF_RUN = ("before_run", "after_run")

_ALLOWED = f"{', '.join(POINTS)}, or a time into the trial like 30s"


def _read_moment(value: Any) -> str | int:
    if value in POINTS:
        return str(value)
    try:
        return units.parse_duration_ns(value)
    except InputError as error:
        raise InputError.of_value(value, _ALLOWED) from error


def _format_moment(value: str | int) -> str:
    return value if isinstance(value, str) else format_duration_exactly(value)


def read_environment(value: Any) -> Any:
    """Return variables as texts and references to secrets; raise InputError for anything else."""
    if not isinstance(value, dict):
        raise InputError.of_value(value, "names with their values, like {CLUSTER: north}")
    return {
        str(name): secret_reference(item) if isinstance(item, dict) else str(item)
        for name, item in value.items()
    }


Moment = Annotated[
    str | int,
    BeforeValidator(_read_moment),
    PlainSerializer(_format_moment, return_type=str),
    WithJsonSchema({"anyOf": [{"enum": list(POINTS)}, {"type": ["number", "string"]}]}),
]


class SomeTrials(Section):
    """Some of the measured trials; all of them where nothing is said."""

    targets: Names = Field(default=(), description="Only at trials of these targets.")
    workloads: Names = Field(default=(), description="Only at trials of these workloads.")
    phases: Names = Field(default=(), description="Only at trials of these phases.")
    rounds: Annotated[tuple[PositiveCount, ...], OneOrMany()] = Field(
        default=(), description="Only in these rounds."
    )
    blocks: Annotated[tuple[PositiveCount, ...], OneOrMany()] = Field(
        default=(), description="Only in these blocks."
    )


class Hook(SomeTrials):
    """When to run which command, and what its failure means."""

    at: Moment = Field(
        description="before_run, after_run, before_phase, after_phase, before_trial, after_trial, "
        "or a time into each trial, like 30s."
    )
    run: Words = Field(default=(), description="The command as a list of words; no shell reads it.")
    shell: str = Field(default="", description="Instead of run: a line for /bin/sh.")
    name: str = Field(
        default="",
        pattern=NAME_PATTERN + "|^$",
        description="The hook's name in results; default: the command's first word.",
    )
    timeout_ns: PositiveDuration = Field(
        default=60_000_000_000,
        alias="timeout",
        description="Most time for the command; after that its process group is killed.",
    )
    on_failure: Literal["stop", "label"] = Field(
        default="stop", description="End the run, or continue and label the trial."
    )
    undoes: str = Field(
        default="",
        description="The name of another hook: then this one also runs, at the end of a trial, "
        "if that one has run and the moment of this one did not come.",
    )
    ready: str = Field(
        default="", description="A URL that has to answer, within timeout, before the run goes on."
    )
    env: Annotated[dict[str, str | dict[str, str]], BeforeValidator(read_environment)] = Field(
        default={},
        description="Variables for the command; a secret as {env: NAME} or {file: PATH}.",
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        if bool(self.run) == bool(self.shell):
            actual = "both run and shell" if self.run else "neither"
            yield KeyMistake((), actual, "one of run and shell")
        for key in SomeTrials.model_fields if self.at in OF_RUN else ():
            if getattr(self, key):
                yield KeyMistake((key,), f"this key at {self.at}", "this key at a trial or phase")
        if self.undoes and self.elapsed_ns is None:
            yield KeyMistake(("undoes",), f"this key at {self.at}", "this key at a time")

    @property
    def label(self) -> str:
        """The hook's name in results."""
        return self.name or (self.run[0].rpartition("/")[2] if self.run else "shell")

    @property
    def moment(self) -> str:
        """When it runs, as the campaign says it."""
        return _format_moment(self.at)

    @property
    def command(self) -> tuple[str, ...]:
        """The words that are executed."""
        return self.run or ("/bin/sh", "-c", self.shell)

    @property
    def elapsed_ns(self) -> int | None:
        """How far into the trial it runs; None at all other points."""
        return self.at if isinstance(self.at, int) else None

    def fits(self, document: TrialDocument) -> bool:
        """Tell whether a trial is one of those that the hook is for; only measured ones are."""
        case = document["case"]
        return bool(
            document["measured"]
            and (not self.targets or case["target"] in self.targets)
            and (not self.workloads or case["workload"] in self.workloads)
            and (not self.phases or document["phase"] in self.phases)
            and (not self.rounds or document["round"] in self.rounds)
            and (not self.blocks or document["block"] in self.blocks)
        )
