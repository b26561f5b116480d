"""Measures devices (read only) and mounts of nodes by fio, as a campaign requests.

Probes run one after another, because two mounts of one store would share it. A failed probe is
recorded with the reason, and stops nothing. A mount is written only in a directory made for it, and
only if it is what the campaign states and has space; that directory is always removed.
"""

import secrets as chance
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar

from loadstone import units
from loadstone.campaign.schema.node import Node, NodeProbe
from loadstone.documents.node import DirectionRates, NodeDocument, StorageProbe, StorageRates
from loadstone.errors import InputError
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.program import Ended, run_programs
from loadstone.execution.programs.reaching import (
    CONNECT_TIMEOUT_S,
    command_on,
    new_mark,
    shell_file,
    why_failed,
)
from loadstone.formats.node_probes import is_kind_of, read_fio, read_mount, read_room
from loadstone.formats.reading import Parts, clean, read_parts, why
from loadstone.formats.survey import read_survey
from loadstone.results.layout import NodeOutputs

LOOK_S = 60.0
LAY_OUT_S = 600
"""Longest time for writing the files before the measurement, in seconds."""

SPARE_S = 30
ROOM_SHARE = 1.05
SECOND_NS = 1_000_000_000

# Large blocks first, the order that readers expect.
STEPS: Sequence[tuple[str, Literal["read", "write"], Literal["bandwidth", "requests"]]] = (
    ("write", "write", "bandwidth"),
    ("read", "read", "bandwidth"),
    ("randwrite", "write", "requests"),
    ("randread", "read", "requests"),
)

Say = Callable[[str], None]
_T = TypeVar("_T")


def expected_s(probe: NodeProbe) -> float:
    """Return the duration of a probe in seconds, without the writing of its files."""
    return probe.duration_ns / SECOND_NS * (2 if probe.kind == "device" else 4)


def probe_storage(
    nodes: Mapping[str, Node],
    failed: Mapping[str, str],
    say: Say,
    interrupt: Interrupt,
    outputs: NodeOutputs | None = None,
) -> dict[str, list[StorageProbe]]:
    """Return the results of each node's devices and mounts; `failed` nodes are not tried again.

    The output of the programs goes into `outputs`.
    """
    probes: dict[str, list[StorageProbe]] = {}
    for name, node in nodes.items():
        for probe in node.probes:
            if probe.kind == "network":
                continue
            say(f'probing {probe.kind} {probe.path} of node "{name}"')
            printed: dict[str, str] = {}
            result = _probe_of(node, probe, failed.get(name), interrupt, printed)
            if outputs is not None and printed:
                result["outputs"] = outputs.take(printed)
            probes.setdefault(name, []).append(result)
    return probes


def _probe_of(
    node: Node, probe: NodeProbe, failed: str | None, interrupt: Interrupt, printed: dict[str, str]
) -> StorageProbe:
    result: StorageProbe = {
        "kind": probe.kind,
        "path": str(probe.path),
        "block_bytes": probe.block_size,
        "small_block_bytes": probe.small_block_size,
        "jobs": probe.jobs,
        "depth": probe.depth,
        "direct": probe.direct,
        "seconds": probe.duration_ns / SECOND_NS,
    }
    if probe.file_system is not None:
        result["claimed"] = probe.file_system
    if failed is not None:
        return result | {"failed": f"the node could not be reached: {failed}"}
    try:
        _look(node, probe, result, interrupt)
        measure = _device if probe.kind == "device" else _mount
        result = {**result, **measure(node, probe, interrupt, printed)}
    except InputError as error:
        result["failed"] = error.message
        if error.hint:
            result["hint"] = error.hint
    return result


def _look(node: Node, probe: NodeProbe, result: StorageProbe, interrupt: Interrupt) -> None:
    """Record the kind of the path; InputError if it must not be measured."""
    mark = new_mark()
    settings = {"mark": mark, "kind": probe.kind, "path": str(probe.path)}
    parts = _run(node, shell_file("look.sh"), settings, mark, LOOK_S, interrupt)
    _text_of(parts, "here")
    if probe.kind == "device":
        size = parts.get("size", ("", 1))[0].strip()
        if size.isdigit():
            result["bytes"] = int(size)
    else:
        _look_at_mount(probe, parts, result)
    _text_of(parts, "fio", hint="on the node, if it is Debian: apt-get install fio")


def _look_at_mount(probe: NodeProbe, parts: Parts, result: StorageProbe) -> None:
    mount = read_mount(_text_of(parts, "mounts"), _text_of(parts, "real").strip())
    result |= {
        "file_system": mount.file_system,
        "source": mount.source,
        "mounted_at": mount.mounted_at,
        "options": mount.options,
    }
    if probe.file_system is not None and not is_kind_of(probe.file_system, mount.file_system):
        raise InputError(
            f"{probe.path} is {mount.file_system} ({mount.source} mounted at {mount.mounted_at}),"
            f" and not {probe.file_system}",
            "is it mounted? nothing was written to it",
        )
    needed = probe.jobs * probe.file_size
    result |= {"file_bytes": probe.file_size, "total_bytes": needed}
    memory, room = _memory(parts), _room(parts)
    if memory is not None:
        result["memory_bytes"] = memory
    if room is not None:
        result["free_bytes"] = room
    if room is not None and room < needed * ROOM_SHARE:
        raise InputError(
            f"the files need {units.format_bytes(needed)}, and {units.format_bytes(room)} are free"
            f" at {probe.path}",
            "make file_size or jobs smaller; nothing was written to it",
        )


def _memory(parts: Parts) -> int | None:
    for line in parts.get("memory", ("", 1))[0].splitlines():
        words = line.split()
        if words[:1] == ["MemTotal:"] and len(words) > 1 and words[1].isdigit():
            return int(words[1]) * 1024
    return None


def _room(parts: Parts) -> int | None:
    try:
        return read_room(_text_of(parts, "room"))
    except (InputError, ValueError, IndexError, StopIteration):
        return None


def _device(
    node: Node, probe: NodeProbe, interrupt: Interrupt, printed: dict[str, str]
) -> StorageRates:
    sudo = ["sudo", "-n"] if node.sudo else []
    # --readonly and --allow_file_create=0 ensure that nothing is written, whatever the path is.
    fixed = [*sudo, "fio", "--readonly", "--allow_file_create=0", f"--filename={probe.path}"]
    fixed += _options(probe, is_direct=True)
    words = {
        step: [*fixed, *_times(probe), f"--rw={step}", f"--bs={_block(probe, what)}"]
        for step, direction, what in STEPS
        if direction == "read"
    }
    lines = [_line("part", probe, step, arguments) for step, arguments in words.items()]
    mark = new_mark()
    limit_s = len(lines) * (probe.duration_ns / SECOND_NS + SPARE_S) + SPARE_S
    parts = _run(node, "\n".join(lines), {"mark": mark}, mark, limit_s, interrupt)
    printed |= _printed(parts)
    return _results(parts, words)


def _mount(
    node: Node, probe: NodeProbe, interrupt: Interrupt, printed: dict[str, str]
) -> StorageRates:
    word = chance.token_hex(8)
    folder = f"{str(probe.path).rstrip('/')}/loadstone-probe-{word}"
    fixed = ["fio", f"--directory={folder}", "--filename_format=probe.$jobnum"]
    fixed += [f"--size={probe.file_size}", *_options(probe, is_direct=probe.direct)]
    # Files are written completely first: reads of holes would never reach the storage.
    laid = [*fixed, "--rw=write", f"--bs={probe.block_size}", "--end_fsync=1"]
    fixed += _times(probe)
    words = {
        step: [*fixed, f"--rw={step}", f"--bs={_block(probe, what)}"]
        + (["--end_fsync=1"] if direction == "write" else [])
        for step, direction, what in STEPS
    }
    lines = ["part make make", f"measure lay timeout {LAY_OUT_S} {shlex.join(laid)}"]
    lines += [_line("measure", probe, step, arguments) for step, arguments in words.items()]
    # A failed step still runs the removal, and keeps its own error.
    lines += ["part remove remove"]
    mark = new_mark()
    settings = {
        "mark": mark, "folder": folder, "jobs": str(probe.jobs),
        "owner": f"made by loadstone for the probe {word}",
    }  # fmt: skip
    program = f"{shell_file('probe_files.sh')}\n" + "\n".join(lines)
    limit_s = LAY_OUT_S + len(STEPS) * (probe.duration_ns / SECOND_NS + SPARE_S) + 2 * SPARE_S
    try:
        parts = _run(node, program, settings, mark, limit_s, interrupt)
        printed |= _printed(parts)
        left = None if _is_removed(parts) else _remove(node, settings, folder)
        _text_of(parts, "make")
        _read(parts, "lay", read_fio, hint=_hint_of_files(probe))
        rates = _results(parts, words)
    except InputError as error:
        left = _remove(node, settings, folder)
        if left is None:
            raise
        raise InputError(f"{error.message}; {left.message}", left.hint) from error
    except BaseException:
        _remove(node, settings, folder)
        raise
    if left is not None:
        rates["left_behind"] = left.message
    return rates


def _is_removed(parts: Parts) -> bool:
    return "remove" in parts and parts["remove"][1] == 0


def _remove(node: Node, settings: Mapping[str, str], folder: str) -> InputError | None:
    """Remove the directory of an aborted probe; return the error if that fails."""
    program = f"{shell_file('probe_files.sh')}\npart remove remove"
    try:
        _text_of(_run(node, program, settings, settings["mark"], LOOK_S, Interrupt()), "remove")
    except InputError as error:
        return InputError(
            f"the probe's directory {folder} may still be there: {error.message}",
            f"look at it on the node, and remove it: rm -r {shlex.quote(folder)}",
        )
    return None


def _hint_of_files(probe: NodeProbe) -> str:
    if probe.direct:
        return "a file system without direct I/O: direct: false, and files larger than the memory"
    return "make file_size or jobs smaller"


def _options(probe: NodeProbe, *, is_direct: bool) -> list[str]:
    engine = (
        ["--ioengine=libaio", f"--iodepth={probe.depth}"] if is_direct else ["--ioengine=psync"]
    )
    return [
        "--name=probe", "--output-format=json", "--group_reporting=1",
        f"--numjobs={probe.jobs}", f"--direct={int(is_direct)}", *engine,
    ]  # fmt: skip


def _times(probe: NodeProbe) -> list[str]:
    return ["--time_based=1", f"--runtime={max(1, round(probe.duration_ns / SECOND_NS))}"]


def _block(probe: NodeProbe, what: str) -> int:
    return probe.block_size if what == "bandwidth" else probe.small_block_size


def _line(word: str, probe: NodeProbe, step: str, words: list[str]) -> str:
    limit_s = round(probe.duration_ns / SECOND_NS) + SPARE_S
    return f"{word} {step} timeout {limit_s} {shlex.join(words)}"


def _results(parts: Parts, words: Mapping[str, list[str]]) -> StorageRates:
    rates: StorageRates = {"commands": [shlex.join(arguments) for arguments in words.values()]}
    measured: dict[tuple[str, str], DirectionRates] = {}
    for step, direction, what in STEPS:
        if step not in words:
            continue
        job = _read(parts, step, read_fio)
        side = job.read if direction == "read" else job.write
        if side is None:
            raise InputError(f"fio, {step}: no transfer in {parts[step][0][:40]!r}")
        measured[direction, what] = side
        rates["tool"] = job.tool
    for direction in ("write", "read"):
        if (direction, "requests") in measured:
            small = measured[direction, "requests"]
            rates[direction] = {
                "bytes_per_s": measured[direction, "bandwidth"]["bytes_per_s"],
                "requests_per_s": small["requests_per_s"],
                "latency_ns": small["latency_ns"],
            }
    return rates


def _printed(parts: Parts) -> dict[str, str]:
    return {name: text for name, (text, _) in parts.items() if name not in _PLAIN}


def _text_of(parts: Parts, name: str, *, hint: str | None = None) -> str:
    return _read(parts, name, str, hint=hint)


def _read(parts: Parts, name: str, read: Callable[[str], _T], *, hint: str | None = None) -> _T:
    """Parse a part of the output; InputError with the output if its program failed."""
    if name not in parts:
        raise InputError(f"{name}: the connection to the node ended before it")
    text, code = parts[name]
    if code == 0:
        try:
            return read(text)
        except InputError as error:
            raise InputError(f"{name}: {clean(error.message)}", error.hint) from error
    is_late = code == 124
    reason = "not finished in time" if is_late else _why(text, code)
    raise InputError(reason if name in _PLAIN else f"fio, {name}: {reason}", hint)


_PLAIN = ("here", "real", "mounts", "room", "fio", "make", "remove")
"""Parts whose errors need no name before them."""


def _why(text: str, code: int) -> str:
    """Return fio's first error line, or the last line of other programs."""
    complaints = [line for line in text.splitlines() if line.startswith("fio: ")]
    return clean(complaints[0]) if complaints else why(text, code)


def _run(
    node: Node,
    program: str,
    settings: Mapping[str, str],
    mark: str,
    limit_s: float,
    interrupt: Interrupt,
) -> Parts:
    (ended,) = run_programs(
        [command_on(node, program, settings)],
        timeout_s=limit_s + CONNECT_TIMEOUT_S,
        is_stopped=lambda: interrupt.is_asked,
    )
    return _parts_of(ended, mark, limit_s)


def _parts_of(ended: Ended, mark: str, limit_s: float) -> Parts:
    text = ended.output.decode(errors="replace")
    if mark not in text:
        raise InputError(why_failed(ended, limit_s))
    return read_parts(text, mark)


TIMEOUT_S = 60.0


# An unreachable machine is recorded with the reason, and does not stop the survey.
def survey(nodes: Mapping[str, Node], interrupt: Interrupt) -> dict[str, NodeDocument]:
    """Return the description of each machine by name, with its host and roles.

    A failed node has "failed", the reason, instead.
    """
    mark = new_mark()
    programs = run_programs(
        [
            command_on(node, shell_file("survey.sh"), _settings(node, mark))
            for node in nodes.values()
        ],
        timeout_s=TIMEOUT_S,
        is_stopped=lambda: interrupt.is_asked,
    )
    return {
        name: {"host": node.host, "roles": list(node.roles), **_read_node(ended, mark)}
        for (name, node), ended in zip(nodes.items(), programs, strict=True)
    }


def _settings(node: Node, mark: str) -> dict[str, str]:
    return {
        "mark": mark,
        "sudo": "sudo -n" if node.sudo else "",
        # Only monitors are queried for pools; other nodes need no permission for it.
        "pools": "yes" if "mon" in node.roles else "",
    }


def _read_node(ended: Ended, mark: str) -> NodeDocument:
    text = ended.output.decode(errors="replace")
    if mark in text:
        return read_survey(text, mark)
    return {"failed": why_failed(ended, TIMEOUT_S)}
