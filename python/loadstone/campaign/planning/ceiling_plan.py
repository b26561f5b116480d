"""Plans ceilings: documents with the exact commands, placed among the trials.

A step of a document is one measurement: its `commands` run in parallel and their results are added
up. `format` names the parser of their output.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loadstone.campaign.drivers import facts_of
from loadstone.campaign.schema.ceiling import Ceiling, OptionValue
from loadstone.campaign.schema.fio_jobs import writes_of_options
from loadstone.documents.ceiling import CeilingDocument, CeilingStep, CeilingWork
from loadstone.documents.python_types import TargetSettings
from loadstone.documents.trial import TargetDocument

if TYPE_CHECKING:
    from loadstone.campaign.planning.trial import PlannedTrial
    from loadstone.campaign.schema.campaign import Campaign

FORMAT = 1
SPARE_NS = 120_000_000_000
SECOND_NS = 1_000_000_000

# Debian packages of the programs, for hints when a program is missing.
PACKAGES: Mapping[str, str] = {
    "iperf3": "iperf3",
    "fio": "fio",
    "rados": "ceph-common",
    "ceph": "ceph-common",
    "ssh": "openssh-client",
}

# Placeholder until the OSDs of the pool are known.
ANY_OSD = "osd.ID"

# The direction of load that a measurement bounds.
READS, WRITES = "read", "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCeiling:
    """A ceiling in its place: before the trial with that id, or at the end of the plan."""

    document: CeilingDocument

    @property
    def id(self) -> str:
        """The ceiling's name in the run folder."""
        return str(self.document["id"])

    @property
    def before(self) -> str | None:
        """The trial that it precedes; None at the end."""
        return self.document["before"]

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that must be installed on this host."""
        commands = [command for step in self.document["steps"] for command in step["commands"]]
        commands += [
            command for command in (self.document["query"], self.document["server"]) if command
        ]
        return tuple(dict.fromkeys(str(command[0]) for command in commands))

    @property
    def expected_ns(self) -> int:
        """Expected duration of its measurements; 0 where it is unknown."""
        return sum(step["expected_ns"] or 0 for step in self.document["steps"])


def plan_ceilings(
    campaign: "Campaign",
    targets: Mapping[str, TargetDocument],
    trials: Sequence["PlannedTrial"],
    run: str,
) -> tuple[PlannedCeiling, ...]:
    """Return every ceiling of a campaign; `targets` are the targets as trial documents hold them.

    A ceiling of the store is measured for each of its targets, any other one once.
    """
    planned: list[PlannedCeiling] = []
    for moment, before, wanted in _moments(trials):
        for ceiling in campaign.ceilings:
            if ceiling.when not in wanted:
                continue
            names = ceiling_targets(ceiling, campaign)
            for name in names if is_of_one_target(ceiling) else (None,):
                document: CeilingDocument = {
                    "format": FORMAT,
                    "id": f"C{len(planned) + 1:03d}",
                    "run": run,
                    "name": ceiling.label,
                    "kind": ceiling.kind,
                    "moment": moment,
                    "before": before,
                    "targets": [name] if name else list(names),
                    "count": ceiling.count,
                    "replication": {
                        target: copies
                        for target in ([name] if name else names)
                        if (copies := campaign.targets[target].replication) is not None
                    },
                    "via": list(ceiling.via),
                    "job_file": ceiling.job_file,
                    "allow_write": list(ceiling.allow_write),
                    **_work(ceiling, _settings(targets, [name] if name else names), run),
                }
                planned.append(PlannedCeiling(document=document))
    return tuple(planned)


def ceiling_targets(ceiling: Ceiling, campaign: "Campaign") -> tuple[str, ...]:
    """Return the targets that a ceiling bounds; ceilings of a pool apply to targets in pools
    only.
    """
    if ceiling.targets:
        return ceiling.targets
    names = tuple(campaign.targets)
    if is_of_one_target(ceiling):
        return tuple(name for name in names if is_pool(campaign.targets[name].driver))
    return names


def is_pool(driver: str) -> bool:
    """Tell whether a driver's targets are pools of a Ceph cluster."""
    return facts_of(driver).is_ceph_pool


def is_of_one_target(ceiling: Ceiling) -> bool:
    """Tell whether the ceiling is measured for each target, because it depends on the target's
    pool.
    """
    return ceiling.kind == "rados_bench" or (ceiling.kind == "osd_bench" and not ceiling.osds)


def _moments(trials: Sequence["PlannedTrial"]) -> Iterator[tuple[str, str | None, tuple[str, ...]]]:
    """Yield the points of the plan: name, id of the following trial, and the targets measured
    there.
    """
    block = None
    for planned in trials:
        if planned.document["block"] != block:
            is_first = block is None
            block = planned.document["block"]
            if is_first:
                yield "before all trials", planned.id, ("before", "both")
            yield f"before block {block}", planned.id, ("blocks",)
    yield "after all trials", None, ("after", "both")


def _settings(targets: Mapping[str, TargetDocument], names: Sequence[str]) -> TargetSettings:
    """Return the settings of the first target in a Ceph cluster; empty if there is none."""
    pools = (targets[name] for name in names if is_pool(targets[name]["driver"]))
    nothing: TargetSettings = {}
    return next((target["settings"] for target in pools), nothing)


def _work(ceiling: Ceiling, settings: TargetSettings, run: str) -> CeilingWork:
    """Return a ceiling's steps, its preparation and its clean-up."""
    nothing: CeilingWork = {"server": None, "query": None, "clean_up": []}
    match ceiling.kind:
        case "network":
            server = ["iperf3", "-s", "-p", str(ceiling.port), "-B", str(ceiling.host)]
            steps = list(_network(ceiling))
            return {**nothing, "steps": steps, "server": server if ceiling.start_server else None}
        case "device":
            return {**nothing, "steps": [_device(ceiling)]}
        case "rados_bench":
            return {**nothing, **_rados_bench(ceiling, settings, run)}
        case "osd_bench":
            return {**nothing, **_osd_bench(ceiling, settings)}
        case "mount":
            return {**nothing, **_mount(ceiling, run)}


def command_via(via: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the words of a command that runs through a wrapper such as ssh.

    ssh passes one line to the remote shell, so each word is quoted for it.
    """
    if via and os.path.basename(via[0]) == "ssh":
        return [*via, shlex.join(words)]
    return [*via, *words]


def _step(
    ceiling: Ceiling,
    name: str,
    commands: Sequence[Sequence[str]],
    form: str | None,
    *,
    bounds: str | None,
    parameters: Mapping[str, Any],
    expected_ns: int | None,
) -> CeilingStep:
    return {
        "name": name,
        "commands": [command_via(ceiling.via, words) for words in commands],
        "format": form,
        "bounds": bounds,
        "parameters": dict(parameters),
        "expected_ns": expected_ns,
        "timeout_ns": ceiling.timeout_ns or (expected_ns or 600 * SECOND_NS) + SPARE_NS,
    }


def _network(ceiling: Ceiling) -> Iterator[CeilingStep]:
    seconds = max(1, round(ceiling.duration_ns / SECOND_NS))
    for direction in ceiling.directions:
        for streams in ceiling.streams:
            words = ["iperf3", "-c", str(ceiling.host), "-p", str(ceiling.port), "-J", "-i", "1"]
            words += ["-t", str(seconds), "-P", str(streams)]
            # An unreachable host then fails within seconds instead of minutes.
            words += ["--connect-timeout", "10000"]
            words += ["-R"] if direction == "receive" else []
            yield _step(
                ceiling, f"{direction}, {_counted(streams, 'stream')}", [words], "iperf3",
                bounds=READS if direction == "receive" else WRITES,
                parameters={"direction": direction, "streams": streams},
                expected_ns=seconds * SECOND_NS,
            )  # fmt: skip


def _device(ceiling: Ceiling) -> CeilingStep:
    words = ["fio", "--output-format=json+"]
    if ceiling.job_file is not None:
        # Unless writing is allowed, fio itself refuses every job that writes.
        words += [] if ceiling.allow_write else ["--readonly"]
        words.append(ceiling.job_file)
        return _step(
            ceiling, os.path.basename(ceiling.job_file), [words], "fio",
            bounds=None, parameters={}, expected_ns=None,
        )  # fmt: skip
    options = ceiling.options or {}
    kind = str(options.get("rw", options.get("readwrite", "read")))
    writes = writes_of_options(options)
    words += [] if "name" in options else ["--name=loadstone"]
    words += [f"--{name}={_option(value)}" for name, value in options.items()]
    words += [] if writes else ["--readonly"]
    return _step(
        ceiling, kind, [words], "fio",
        # A mixed job has no single direction: its reads and writes are counted separately.
        bounds=READS if not writes else WRITES if kind in ("write", "randwrite") else None,
        parameters={"rw": kind, **{key: options[key] for key in _SHOWN if key in options}},
        expected_ns=_runtime_ns(options),
    )  # fmt: skip


_SHOWN = ("bs", "iodepth", "numjobs", "ioengine", "direct")


def _option(value: OptionValue) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _runtime_ns(options: Mapping[str, OptionValue]) -> int | None:
    try:
        return round(float(str(options.get("runtime", "")).removesuffix("s")) * SECOND_NS)
    except ValueError:
        return None


def ceph_words(program: str, settings: Mapping[str, object]) -> list[str]:
    """Return a command of Ceph with a target's settings of its cluster."""
    words = [program]
    for key, flag in (("conf", "-c"), ("keyring", "-k"), ("user", "-n"), ("cluster", "--cluster")):
        if settings.get(key):
            words += [flag, str(settings[key])]
    return words


def _rados_bench(ceiling: Ceiling, settings: TargetSettings, run: str) -> CeilingWork:
    rados = [*ceph_words("rados", settings), "-p", str(settings.get("pool"))]
    seconds = max(1, round(ceiling.duration_ns / SECOND_NS))
    steps, clean_up = [], []
    for threads in ceiling.threads:
        # A unique name, so that clean-up deletes only objects that this measurement wrote.
        name = f"loadstone-{run[:8]}-{ceiling.label}-{threads}"
        for operation in sorted(ceiling.operations, key=("write", "seq", "rand").index):
            words = [*rados, "bench", str(seconds), operation, "-t", str(threads)]
            words += ["--run-name", name, "--format=json"]
            words += ["-b", str(ceiling.size), "--no-cleanup"] if operation == "write" else []
            steps.append(
                _step(
                    ceiling, f"{operation}, {_counted(threads, 'thread')}", [words], "rados-bench",
                    bounds=WRITES if operation == "write" else READS,
                    parameters={"operation": operation, "threads": threads, "size": ceiling.size},
                    expected_ns=seconds * SECOND_NS,
                )
            )  # fmt: skip
        clean_up.append(command_via(ceiling.via, [*rados, "cleanup", "--run-name", name]))
    return {"steps": steps, "clean_up": clean_up}


def _osd_bench(ceiling: Ceiling, settings: TargetSettings) -> CeilingWork:
    ceph = ceph_words("ceph", settings)
    words = [*ceph, "tell", ANY_OSD, "bench", str(ceiling.total_size), str(ceiling.block_size)]
    step = _step(
        ceiling, "each OSD of the pool", [[*words, "-f", "json"]], "osd-bench",
        bounds=WRITES,
        parameters={"total_size": ceiling.total_size, "block_size": ceiling.block_size},
        expected_ns=None,
    )  # fmt: skip
    if ceiling.osds:
        return {"steps": steps_of_osds(step, ceiling.osds)}
    pool = str(settings.get("pool"))
    query = command_via(ceiling.via, [*ceph, "pg", "ls-by-pool", pool, "-f", "json"])
    return {"query": query, "steps": [step]}


def steps_of_osds(template: CeilingStep, osds: Sequence[int]) -> list[CeilingStep]:
    """Return one step for each OSD alone, and one for all of them in parallel."""
    parameters = template["parameters"]
    (words,) = template["commands"]
    commands = [[word.replace(ANY_OSD, f"osd.{osd}") for word in words] for osd in osds]
    steps: list[CeilingStep] = [
        {
            **template,
            "name": f"osd.{osd} alone",
            "commands": [command],
            "parameters": {"osds": [osd], **parameters},
        }
        for osd, command in zip(osds, commands, strict=True)
    ]
    if len(osds) > 1:
        # OSDs that share a device are slower together than the sum of their separate results.
        together = {"osds": list(osds), **parameters}
        name = f"{len(osds)} OSDs together"
        steps.append({**template, "name": name, "commands": commands, "parameters": together})
    return steps


def _mount(ceiling: Ceiling, run: str) -> CeilingWork:
    folder = f"{str(ceiling.directory).rstrip('/')}/loadstone-{run[:8]}-{ceiling.label}"
    seconds = max(1, round(ceiling.duration_ns / SECOND_NS))
    fixed = ["fio", "--output-format=json+", f"--directory={folder}", "--name=loadstone"]
    fixed += [f"--size={ceiling.file_size}", f"--numjobs={ceiling.jobs}", "--group_reporting=1"]
    fixed += [f"--direct={int(ceiling.direct)}", "--ioengine=libaio" if ceiling.direct else ""]
    fixed += [f"--iodepth={16 if ceiling.direct else 1}", f"--runtime={seconds}"]
    fixed += ["--time_based=1", "--end_fsync=1"]
    make = _step(
        ceiling, "make a directory", [["mkdir", folder]], None,
        bounds=None, parameters={}, expected_ns=None,
    )  # fmt: skip
    steps = [make]
    # Large blocks first: they lay the files out, so that small reads meet no hole.
    for kind, block, what in (
        ("write", ceiling.block_size, "bandwidth"),
        ("read", ceiling.block_size, "bandwidth"),
        ("randwrite", ceiling.small_block_size, "I/Os per second"),
        ("randread", ceiling.small_block_size, "I/Os per second"),
    ):
        words = [word for word in (*fixed, f"--rw={kind}", f"--bs={block}") if word]
        bounds = READS if kind.endswith("read") else WRITES
        steps.append(
            _step(
                ceiling, f"{bounds}, {what}", [words], "fio",
                bounds=bounds,
                parameters={"rw": kind, "bs": block, "jobs": ceiling.jobs},
                expected_ns=seconds * SECOND_NS,
            )
        )  # fmt: skip
    return {"steps": steps, "clean_up": [command_via(ceiling.via, ["rm", "-r", "--", folder])]}


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
