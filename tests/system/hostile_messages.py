"""Messages that would run code if they were decoded to anything but plain values.

They are enumerated: each message that either side knows and each of its fields, each kind of value
that MessagePack and pickle can represent, and each name of a handler in the installed dask.
"""

import contextlib
import marshal
import os
import pickle
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import msgpack
import pytest

from loadstone.hosts import agent, messages
from loadstone.hosts.carrier import Carrier
from loadstone.hosts.stream import MessageStream, pack, unpack


class Runs:
    """Runs a command where it is unpickled."""

    def __init__(self, command: str) -> None:
        self._command = command

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (self._command,)


def hostile_values(canary: Path) -> list[Any]:
    """Return values that would create a file if anything ran or unpickled them."""
    command = f"touch {canary}"
    pickles = [pickle.dumps(Runs(command), number) for number in range(pickle.HIGHEST_PROTOCOL + 1)]
    code = compile(f"__import__('os').system({command!r})", "x", "exec")
    texts = [
        f"!!python/object/apply:os.system [{command!r}]",
        f'{{"py/reduce": [{{"py/function": "os.system"}}, ["{command}"]]}}',
        f"$({command})", f"`{command}`", f"; {command}", f"__import__('os').system({command!r})",
        "{0.__class__.__init__.__globals__}",
    ]  # fmt: skip
    packed = pickles[-1]
    return [
        *pickles, marshal.dumps(code), *texts, *(text.encode() for text in texts),
        *frames_of_dask(Runs(command)),
        *(msgpack.ExtType(code, packed) for code in range(128)),
        msgpack.Timestamp(1, 2),
        {"__reduce__": packed, "op": "run_function", "function": packed},
        [packed] * 3, True, -(2**63), 1e308, float("nan"), "\x1b]0;x\x07", "\0", {},
    ]  # fmt: skip


def frames_of_dask(value: object) -> list[bytes]:
    """Return a value as packed by each of dask's families of serializers."""
    protocol = pytest.importorskip("distributed.protocol")
    from distributed.protocol.serialize import families

    packed = [b"".join(map(bytes, protocol.dumps([protocol.to_serialize(value)])))]
    for family in families:
        with contextlib.suppress(Exception):
            _, frames = protocol.serialize(value, serializers=[family], on_error="raise")
            packed.append(b"".join(map(bytes, frames)))
    assert any(b"posix" in frame for frame in packed), "dask pickles nothing any more"
    return packed


def names_to_try() -> list[str]:
    """Return all names that could be a handler in loadstone or dask."""
    distributed = pytest.importorskip("distributed")
    names = {messages.word(kind) for kind in get_args(messages.FromAgent | messages.FromController)}
    for kind in (distributed.Scheduler, distributed.Worker, distributed.Nanny, distributed.Client):
        names |= set(dir(kind))
    for kind in (Carrier, agent.Agent, MessageStream, messages, agent):
        names |= set(dir(kind))
    return sorted(names)


def hostile_messages(canary: Path, kinds: Any) -> Iterator[bytes]:
    """Yield each message of a side with each hostile value in each field, and unknown names."""
    values = hostile_values(canary)
    for kind in get_args(kinds):
        names = [field.name for field in fields(kind)]
        for name in names:
            others = dict.fromkeys(names, 1)
            yield from (pack(messages.word(kind), {**others, name: value}) for value in values)
        for value in values:
            yield msgpack.packb((messages.word(kind), value))
    for name in names_to_try():
        yield pack(name, {"function": values[0], "args": values[1], "kwargs": {}, "attempt": 1})
    yield from (msgpack.packb((value, {})) for value in values)
    yield from map(msgpack.packb, values)
    # Unassigned extension types; the negative ones are MessagePack's own.
    yield from (b"\x92\xa3end\xc7\x01" + bytes([code]) + b"x" for code in range(128, 256))
    yield b"\x91" * 100_000
    yield b"\x92\xa3end\xdf\xff\xff\xff\xff"
    yield b"\x92\xa3end\xdd\xff\xff\xff\xff"
    yield b""


def hostile_messages_that_are_messages(canary: Path) -> list[bytes]:
    """Return the messages after which the connection stays open for the next one."""
    whole = []
    for packed in hostile_messages(canary, messages.FromAgent | messages.FromController):
        with contextlib.suppress(ValueError):
            unpack(packed)
            whole.append(packed)
    assert len(whole) > 5000
    return whole
