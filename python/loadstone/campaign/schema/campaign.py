"""The campaign: all keys of a campaign file, as frozen values."""

import json
import re
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from loadstone import units
from loadstone.campaign.reading.mistakes import KeyMistake, SourceFile, listed
from loadstone.campaign.schema.ceiling import Ceiling
from loadstone.campaign.schema.dataset import Dataset, FillValue
from loadstone.campaign.schema.hook import Fault, Hook
from loadstone.campaign.schema.hosts import Hosts
from loadstone.campaign.schema.load import Load
from loadstone.campaign.schema.node import Node
from loadstone.campaign.schema.phase import OnError, OnErrorValue, PhaseValue
from loadstone.campaign.schema.queries import Queries
from loadstone.campaign.schema.target import SYSTEM, Arm, Target
from loadstone.campaign.schema.target_probe import TargetProbes
from loadstone.campaign.schema.values import (
    NAME_ALLOWED,
    NAME_PATTERN,
    Count,
    Duration,
    Flag,
    PositiveCount,
    PositiveDuration,
    PositiveSize,
    Section,
    Verify,
)
from loadstone.documents.manifest import CampaignDocument
from loadstone.errors import InputError, shown


class Statements(Section):
    """Statements for the disclosure; missing ones are listed as not stated."""

    sponsor: str | None = Field(
        default=None, description="Who commissioned and paid for the measurement."
    )
    conflicts: str | None = Field(default=None, description="Conflicts of interest, or none.")
    product: str | None = Field(default=None, description="The target's product and version.")
    configuration: str | None = Field(
        default=None, description="Settings other than the product's defaults, and who tuned it."
    )
    hardware: str | None = Field(
        default=None, description="The target's hosts, cards, drives, firmware and their number."
    )
    topology: str | None = Field(default=None, description="The network between client and target.")
    redundancy: str | None = Field(
        default=None, description="Copies or erasure coding, and when a write is acknowledged."
    )
    consistency: str | None = Field(
        default=None, description="Consistency that the target promises readers."
    )
    cache: str | None = Field(
        default=None,
        description="State of caches when measuring began: cold or warm, and how that "
        "was achieved.",
    )
    fill: str | None = Field(default=None, description="Fill level of the target.")
    preconditions: str | None = Field(
        default=None, description="Preparation: what was written or waited for before."
    )
    deviations: str | None = Field(default=None, description="Deviations from the plan.")
    availability: str | None = Field(
        default=None, description="Whether all parts can be bought or downloaded."
    )


TABLE_OF_CLIENTS = "datasafe"
"""The table layout whose labels may also name client types, such as m5 of m5.large."""


def _is_size(text: str) -> bool:
    try:
        units.parse_size(text)
    except InputError:
        return False
    return True


def _read_name(value: str) -> str:
    if not re.match(NAME_PATTERN, value):
        raise InputError.of_value(value, NAME_ALLOWED)
    return value


def _read_time_of_day(value: str) -> str:
    if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value):
        raise InputError.of_value(value, 'a time of day like "08:00", in quotes')
    return value


Name = Annotated[str, AfterValidator(_read_name)]


class WorkloadKeys(Section):
    """Keys of the campaign for all of its workloads, or of a single workload."""

    dataset: Dataset | None = Field(default=None, description="The objects to work on.")
    load: Load | None = Field(default=None, description="How requests arrive in every phase.")
    phases: tuple[PhaseValue, ...] = Field(default=(), description="The operations, in this order.")
    rounds: PositiveCount = Field(
        default=1, description="Number of datasets that each phase runs over, one after another."
    )
    round_pause_ns: Duration = Field(
        default=0, alias="round_pause", description="Pause between the rounds of a phase."
    )
    fill: FillValue | None = Field(
        default=None,
        description="Fill level of the store before the measurement: 60%, if it reports "
        "its size, or 500GiB.",
    )
    fill_size_bytes: PositiveSize = Field(
        default=4 << 20, alias="fill_size", description="Size of the objects that fill it."
    )
    sweep: dict[str, tuple[Any, ...]] = Field(
        default={}, description="Keys, each with its list of values; all combinations run."
    )
    on_error: OnErrorValue = Field(
        default=OnError(action="continue"), description="Effect of failed requests on a trial."
    )
    connections: Literal["keep_alive", "per_request"] = Field(
        default="keep_alive", description="Whether a connection serves many requests or one."
    )
    timeout_ns: PositiveDuration = Field(
        default=60_000_000_000, alias="timeout", description="Time limit of one request."
    )
    verify: Verify = Field(default=1.0, description="Share of reads whose bytes are checked.")
    log_requests: Flag = Field(default=False, description="Log every request.")
    interventions: tuple[
        Literal["half_clients", "half_size", "half_verification", "half_hosts"], ...
    ] = Field(
        default=(),
        description="Run every case once more with one setting halved, to prove what limits it.",
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        labels = [phase.label for phase in self.phases]
        for index, label in enumerate(labels):
            if label in labels[:index]:
                yield KeyMistake(
                    ("phases", index),
                    f"a second phase named {shown(label)}",
                    "names that differ",
                    hint='give one of them a "name"',
                )
        for key, values in self.sweep.items():
            if not values:
                yield KeyMistake(("sweep", key), "no values", "a list with some")


class Workload(WorkloadKeys):
    """One of several workloads; missing keys come from the top of the campaign."""

    name: Name = Field(description="The workload's name in results.")

    def document(self) -> dict[str, Any]:
        """Return it as JSON that reads back as the same."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Schedule(Section):
    """When the whole plan runs again: at times of day, or at an interval, for some days."""

    times: tuple[Annotated[str, AfterValidator(_read_time_of_day)], ...] = Field(
        default=(),
        description="Times of day at which the plan starts, in the time zone of the host.",
    )
    every_ns: PositiveDuration | None = Field(
        default=None, alias="every", description="Interval between starts; the first is now."
    )
    days: PositiveCount = Field(default=1, description="Number of days.")
    order: Literal["new", "same"] = Field(
        default="new",
        description="Whether each start draws a new order of the cases, or uses that of the first.",
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        if bool(self.times) == (self.every_ns is not None):
            actual = "both times and every" if self.times else "neither"
            yield KeyMistake((), actual, "one of times and every")


class Expect(Section):
    """Expected failures, which are not errors of the run."""

    failures: Flag = Field(
        default=False, description="Failed requests are expected, and are not errors of the run."
    )


class Audit(Section):
    """Objects to read back after the load and compare with a ledger of all acknowledged writes."""

    sample: PositiveCount | None = Field(
        default=None, description="Number of objects to read back, chosen at random; default: all."
    )
    history: Flag = Field(
        default=False,
        description="In mixes, contended writes and scripts, keep each call with its times, and "
        "judge whether a target of this model could give these answers. A mix then writes and "
        "deletes the objects that it reads.",
    )
    model: Literal["linear", "read-after-write", "last-writer-wins"] = Field(
        default="linear",
        description="Consistency model that the target promises for calls on one object.",
    )
    again_after_ns: PositiveDuration | None = Field(
        default=None,
        alias="again_after",
        description="Delay after which everything is read back a second time.",
    )


def _read_audit(value: Any) -> Any:
    return {True: {}, False: None}[value] if isinstance(value, bool) else value


class ReportOptions(Section):
    """Layout of tables of this campaign."""

    table: str | None = Field(
        default=None, description="Name of a published table whose layout is used."
    )
    head: str | None = Field(
        default=None, description="The table's head cell; {NAME} stands for a parameter."
    )
    labels: dict[str, str] = Field(
        default={},
        description="Other words in tables for targets, sizes and values of facts; with "
        "the table datasafe, also for kinds of clients.",
    )
    decimal_comma: Flag = Field(default=False, description="Write means with a decimal comma.")
    spread: Literal["seconds", "trials"] = Field(
        default="seconds", description="Meaning of ±: over the seconds of a trial, or over trials."
    )
    megabyte: Literal["MB", "MiB"] = Field(
        default="MB", description="A megabyte in the table: 10^6 bytes, or 2^20."
    )


class ClientLimits(Section):
    """Limits of the client, which the kernel enforces."""

    memory_bytes: PositiveSize | None = Field(
        default=None,
        alias="memory",
        description="Memory limit of the run; refused if the host cannot enforce it.",
    )


class Campaign(WorkloadKeys):
    """Targets, workloads and parameters, and how often all of it is repeated."""

    name: Name = Field(
        description="The campaign's name, which is part of the names of run folders."
    )
    description: str | None = Field(default=None, description="A sentence for the report.")
    seed: Count = Field(
        default=1, description="Seed of all random choices: order, sizes, contents, keys."
    )
    targets: dict[str, Target] = Field(
        min_length=1, description="The systems under test, by a name of your choice."
    )
    workloads: tuple[Workload, ...] = Field(
        default=(), description="Several workloads; missing keys come from the top of the campaign."
    )
    blocks: PositiveCount = Field(
        default=1, description="Number of times that all cases run, each time in another order."
    )
    order: Literal["random", "as_written"] = Field(
        default="random",
        description="Order of the cases in each block: drawn from the seed, or as in the file.",
    )
    schedule: Schedule | None = Field(
        default=None, description="Times at which all blocks run again."
    )
    prepare: Literal["auto", "never"] = Field(
        default="auto", description="Whether missing objects that a phase needs are written."
    )
    clean_up: Literal["early", "late"] = Field(
        default="early",
        description="Whether data is deleted as soon as no later trial needs it, or at "
        "the end of the run.",
    )
    keep_data: Flag = Field(default=False, description="Keep all data; nothing is deleted.")
    audit: Annotated[Audit | None, BeforeValidator(_read_audit)] = Field(
        default=None,
        description="Keep a ledger of acknowledged writes, and read the objects back before any "
        "is deleted: true, or {sample: N}; {history: true} also judges each call.",
    )
    card: Flag | None = Field(
        default=None,
        description="Test before any load what each S3 or Swift target honours, in separate "
        "buckets, and keep the answers with the run; by default in runs of five minutes or more.",
    )
    allow_foreign: tuple[str, ...] = Field(
        default=(), description="Targets whose existing, unmarked buckets may be written to."
    )
    ceilings: tuple[Ceiling, ...] = Field(
        default=(), description="Limits measured apart from the load: network, device, store."
    )
    hosts: Hosts | None = Field(
        default=None, description="The hosts that make the load together; default: this machine."
    )
    queries: Queries | None = Field(
        default=None, description="Queries on tables, instead of workloads of storage operations."
    )
    arms: dict[Name, Arm] = Field(
        default={},
        description="Servers, by target name, that are started for each leg and stopped after it, "
        "such as two builds of one server.",
    )
    hooks: tuple[Hook, ...] = Field(
        default=(), description="Commands of your own, run at given points of the run."
    )
    faults: tuple[Fault, ...] = Field(
        default=(),
        description="Faults of the target at given times of each trial. Failed requests are "
        "expected then.",
    )
    probes: TargetProbes = Field(
        default=TargetProbes(), description="Metrics and states of the targets to record."
    )
    nodes: dict[Name, Node] = Field(
        default={},
        description="Machines behind the targets, and clients, to describe in the report.",
    )
    expect: Expect = Field(default=Expect(), description="Expected failures.")
    limits: ClientLimits = Field(
        default=ClientLimits(), description="Limits of the client, enforced by a control group."
    )
    statements: Statements = Field(
        default=Statements(), description="Facts for the disclosure that cannot be measured."
    )
    report: ReportOptions = Field(default=ReportOptions(), description="Layout of tables.")

    _source: SourceFile = PrivateAttr(default_factory=SourceFile)

    def mistakes(self) -> Iterator[KeyMistake]:
        yield from super().mistakes()
        target_names = f"the name of a target: {', '.join(self.targets)}"
        for name in self.targets:
            if not re.match(NAME_PATTERN, name):
                yield KeyMistake(("targets", name), shown(name), NAME_ALLOWED)
        for index, name in enumerate(self.allow_foreign):
            if name not in self.targets:
                yield KeyMistake(("allow_foreign", index), shown(name), target_names)
        yield from self._indistinct_instances()
        for name in self.arms:
            if name not in self.targets:
                yield KeyMistake(("arms", name), shown(name), target_names)
        # The data of a leg is deleted with its server.
        beside_arms = {
            "keep_data": self.keep_data,
            "clean_up": self.clean_up == "late",
            "queries": self.queries is not None,
        }
        for key, is_there in beside_arms.items():
            if self.arms and is_there:
                allowed = "none of it: the data of a leg is deleted with its server"
                yield KeyMistake((key,), "this key beside arms", allowed)
        yield from self._unknown_labels()
        names = [workload.name for workload in self.workloads]
        for index, name in enumerate(names):
            if name in names[:index]:
                yield KeyMistake(("workloads", index, "name"), shown(name), "names that differ")

    def _indistinct_instances(self) -> Iterator[KeyMistake]:
        """Yield targets of one system with identical facts: their results would be pooled."""
        target_of_facts: dict[str, str] = {}
        for name, target in self.targets.items():
            facts = json.dumps(target.facts, sort_keys=True)
            if SYSTEM in target.facts and facts in target_of_facts:
                yield KeyMistake(
                    ("targets", name, "facts"),
                    f"the facts of {target_of_facts[facts]}",
                    f"a fact that tells the two instances of {target.facts[SYSTEM]} apart",
                )
            target_of_facts.setdefault(facts, name)

    def _unknown_labels(self) -> Iterator[KeyMistake]:
        values = (str(value) for target in self.targets.values() for value in target.facts.values())
        titled = {*self.targets, *values}
        # This table also accepts client types, which are given on the report's command line.
        names = self.report.labels if self.report.table != TABLE_OF_CLIENTS else ()
        for name in names:
            if name not in titled and not _is_size(name):
                allowed = f"a target, a size, or the value of a fact: {listed(sorted(titled))}"
                yield KeyMistake(("report", "labels", name), shown(name), allowed)

    @property
    def source(self) -> SourceFile:
        """The file that the campaign was read from; later mistakes are reported with its lines."""
        return self._source

    def with_source(self, source: SourceFile) -> "Campaign":
        """Return the campaign with its source."""
        campaign = self.model_copy()
        campaign._source = source
        return campaign

    def document(self) -> CampaignDocument:
        """Return the campaign as JSON that parses to the same campaign."""
        dumped = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return cast(CampaignDocument, dumped)


_DAY_NS = 86_400_000_000_000


def suites(schedule: Schedule | None) -> int:
    """Return the number of starts; 1 without a schedule."""
    if schedule is None:
        return 1
    if schedule.every_ns is not None:
        return max(1, -(-schedule.days * _DAY_NS // schedule.every_ns))
    return len(set(schedule.times)) * schedule.days


def start_of(schedule: Schedule | None, now: datetime, number: int) -> datetime:
    """Return the time of a start, counted from 0; `now` must have a time zone.

    Times of day begin with the next one due: three times for two days are always six starts, though
    they may extend into a third day.
    """
    assert now.tzinfo is not None, "a start needs a time zone"
    if schedule is None:
        return now
    if schedule.every_ns is not None:
        return now + number * timedelta(microseconds=schedule.every_ns / 1000)
    times = sorted(time.fromisoformat(text) for text in set(schedule.times))
    past = sum(
        datetime.combine(now.date(), time_of_day, tzinfo=now.tzinfo) < now for time_of_day in times
    )
    days, place = divmod(past + number, len(times))
    return datetime.combine(now.date() + timedelta(days=days), times[place], tzinfo=now.tzinfo)
