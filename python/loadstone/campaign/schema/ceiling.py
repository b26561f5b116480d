"""A ceiling: a limit measured apart from the load, by the program that the field measures it with.

What is asked for here becomes a document with the very commands; see `ceiling_plan`.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from loadstone.campaign.reading.mistakes import KeyMistake, listed
from loadstone.campaign.schema.fio_jobs import (
    READS,
    refused_options,
    unknown_options,
    writes_of_options,
)
from loadstone.campaign.schema.values import (
    NAME_PATTERN,
    Count,
    Flag,
    Names,
    OneOrMany,
    PositiveCount,
    PositiveDuration,
    PositiveSize,
    Section,
    Words,
)
from loadstone.errors import InputError, shown

CeilingKind = Literal["network", "device", "rados_bench", "osd_bench", "mount"]

LOOPBACK = ("127.0.0.1", "::1", "localhost")

# Keys that each kind reads; any other key is refused, because it would have no effect.
READ_BY: Mapping[str, tuple[str, ...]] = {
    "host": ("network",),
    "port": ("network",),
    "streams": ("network",),
    "directions": ("network",),
    "start_server": ("network",),
    "options": ("device",),
    "job_file": ("device",),
    "allow_write": ("device",),
    "count": ("device",),
    "threads": ("rados_bench",),
    "operations": ("rados_bench",),
    "size": ("rados_bench",),
    "osds": ("osd_bench",),
    "total_size": ("osd_bench",),
    "block_size": ("osd_bench", "mount"),
    "directory": ("mount",),
    "file_size": ("mount",),
    "small_block_size": ("mount",),
    "jobs": ("mount",),
    "direct": ("mount",),
    "duration": ("network", "rados_bench", "mount"),
}
REQUIRED: Mapping[str, str] = {"host": "network", "directory": "mount"}

# Options that loadstone sets itself, to parse the program's output and to name its job.
OPTIONS_TAKEN = frozenset(
    {"output", "output-format", "status-interval", "client", "server", "daemonize", "readonly"}
)

OptionValue = str | int | float | bool
BenchOperation = Literal["write", "seq", "rand"]
Direction = Literal["send", "receive"]


def _read_options(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        raise InputError.of_value(value, "options of fio, like {filename: /dev/sdX, rw: read}")
    return {str(name): option for name, option in value.items()}


class Ceiling(Section):
    """One ceiling; which keys it reads depends on its kind."""

    kind: CeilingKind = Field(description="Kind of ceiling, which determines the program.")
    name: str = Field(
        default="",
        pattern=NAME_PATTERN + "|^$",
        description="The ceiling's name in results; default: its kind.",
    )
    targets: Names = Field(
        default=(), description="Targets to which the ceiling applies; default: all."
    )
    when: Literal["before", "after", "both", "blocks"] = Field(
        default="before", description="Before all trials, after them, both, or before each block."
    )
    via: Words = Field(
        default=(), description="Words before each command, to run it elsewhere: [ssh, root@osd1]."
    )
    timeout_ns: PositiveDuration | None = Field(
        default=None,
        alias="timeout",
        description="Time limit of one measurement; default: its length plus two minutes.",
    )
    duration_ns: PositiveDuration = Field(
        default=30_000_000_000, alias="duration", description="Length of each measurement."
    )
    host: str | None = Field(
        default=None, min_length=1, description="network: the host where iperf3 -s listens."
    )
    port: Annotated[int, Field(ge=1, le=65535)] = Field(
        default=5201, description="network: the port of iperf3."
    )
    streams: Annotated[tuple[PositiveCount, ...], OneOrMany()] = Field(
        default=(1, 8), min_length=1, description="network: TCP streams; each value is measured."
    )
    directions: Annotated[tuple[Direction, ...], OneOrMany()] = Field(
        default=("send", "receive"),
        min_length=1,
        description="network: send bounds writes, receive bounds reads.",
    )
    start_server: Flag = Field(
        default=False, description="network: start an iperf3 server; only on loopback."
    )
    options: Annotated[dict[str, OptionValue], BeforeValidator(_read_options)] | None = Field(
        default=None, description="device: options of fio, without the dashes."
    )
    job_file: str | None = Field(
        default=None, min_length=1, description="device: a job file of fio, instead of options."
    )
    allow_write: Names = Field(
        default=(),
        description="device: files and devices that fio may write to; their data is lost.",
    )
    count: PositiveCount = Field(
        default=1, description="device: number of such devices that a target uses in parallel."
    )
    threads: Annotated[tuple[PositiveCount, ...], OneOrMany()] = Field(
        default=(16,),
        min_length=1,
        description="rados_bench: concurrent operations; each value is measured.",
    )
    operations: Annotated[tuple[BenchOperation, ...], OneOrMany()] = Field(
        default=("write", "seq"), min_length=1, description="rados_bench: the measured operations."
    )
    size: PositiveSize = Field(default=4 << 20, description="rados_bench: size of its objects.")
    osds: Annotated[tuple[Count, ...], OneOrMany()] = Field(
        default=(), description="osd_bench: numbers of OSDs; default: those of the pool."
    )
    total_size: PositiveSize = Field(
        default=1 << 30, description="osd_bench: bytes that each OSD writes."
    )
    block_size: PositiveSize = Field(
        default=4 << 20, description="osd_bench, mount: block of the bandwidth."
    )
    directory: str | None = Field(
        default=None, min_length=1, description="mount: a directory, in which a new one is created."
    )
    file_size: PositiveSize = Field(default=1 << 30, description="mount: size of each job's file.")
    small_block_size: PositiveSize = Field(
        default=4 << 10, description="mount: block of the I/Os per second."
    )
    jobs: PositiveCount = Field(default=4, description="mount: jobs of fio, each with its file.")
    direct: Flag = Field(default=True, description="mount: bypass the page cache (O_DIRECT).")

    def mistakes(self) -> Iterator[KeyMistake]:
        yield from self._wrong_keys()
        yield from self._wrong_network()
        yield from self._wrong_device()
        if self.kind == "rados_bench" and "write" not in self.operations:
            allowed = "write among them, because the reads need what it has written"
            yield KeyMistake(("operations",), ", ".join(self.operations), allowed)

    @property
    def label(self) -> str:
        """The ceiling's name in results."""
        return self.name or self.kind

    def _wrong_keys(self) -> Iterator[KeyMistake]:
        written = {Ceiling.model_fields[name].alias or name for name in self.model_fields_set}
        for key, kinds in READ_BY.items():
            if key in written and self.kind not in kinds:
                yield KeyMistake(
                    (key,), f"this key with {self.kind}", f"{key} with {listed(kinds)}"
                )
        for key, kind in REQUIRED.items():
            if self.kind == kind and getattr(self, key) is None:
                yield KeyMistake((key,), "nothing", f"a value; {kind} needs it")

    def _wrong_network(self) -> Iterator[KeyMistake]:
        if self.start_server and self.host not in LOOPBACK:
            yield KeyMistake(
                ("start_server",),
                f"this key with host {shown(self.host)}",
                f"this key with {', '.join(LOOPBACK)}",
                hint="on the other host start it by hand: iperf3 -s",
            )
        if self.start_server and self.via:
            allowed = "this key without, because the server is started on this host"
            yield KeyMistake(("start_server",), "this key with via", allowed)

    def _wrong_device(self) -> Iterator[KeyMistake]:
        if self.kind != "device":
            return
        if (self.options is None) == (self.job_file is None):
            actual = "neither" if self.options is None else "both options and job_file"
            yield KeyMistake((), actual, "one of options and job_file")
        elif self.options is not None:
            yield from self._wrong_options(self.options)
        elif self.via:
            allowed = "options, because the job file is on this host and fio on another"
            yield KeyMistake(("job_file",), "this key with via", allowed)

    def _wrong_options(self, options: Mapping[str, OptionValue]) -> Iterator[KeyMistake]:
        taken = [name for name in options if name.replace("_", "-") in OPTIONS_TAKEN]
        for name in taken:
            yield KeyMistake(("options", name), f"option {shown(name)}", "options of a job")
        for name, reason in {**unknown_options(options), **refused_options(options)}.items():
            if name not in taken:
                actual = f"option {shown(name)}: {reason}"
                yield KeyMistake(("options", name), actual, "options that read and write")
        if not ("filename" in options or "directory" in options):
            yield KeyMistake(("options",), "no filename", "a filename to test")
        for name in writes_of_options(options):
            if name not in self.allow_write:
                yield KeyMistake(
                    ("options",),
                    f"a job that writes to {shown(name)}",
                    f"reads ({', '.join(sorted(READS))}), or the name in allow_write",
                    hint=f"allow_write: [{name}] destroys what is on it",
                )
