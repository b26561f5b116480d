"""A wall clock that is set between two messages holds none of them."""

import asyncio
from typing import Any

import distributed.batched
import pytest
from distributed.batched import BatchedSend

from loadstone.hosts.connection import carriage


class Wire:
    """In the place of a connection: keeps what was written to it."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.has_written = asyncio.Event()

    async def write(self, messages: list[Any], **options: Any) -> int:
        self.written += messages
        self.has_written.set()
        return 1

    def closed(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("is_gathered", "arrived"),
    [
        (False, ["before", "after"]),
        # Dask still needs it.
        (True, ["before"]),
    ],
)
def test_a_message_is_not_held_by_a_clock_that_is_set_back(
    monkeypatch: pytest.MonkeyPatch, is_gathered: bool, arrived: list[str]
) -> None:
    now = 1e9
    monkeypatch.setattr(distributed.batched, "time", lambda: now)
    wire = Wire()

    async def run() -> None:
        nonlocal now
        stream = BatchedSend(interval="2ms")

        def send(message: str) -> None:
            if not is_gathered:
                carriage.gather_no_longer(stream)
            stream.send(message)

        stream.start(wire)
        send("before")
        await wire.has_written.wait()
        now -= 3600.0
        send("after")
        await asyncio.sleep(0.05)
        stream.please_stop = True
        stream.waker.set()
        await stream.stopped.wait()

    asyncio.run(run())
    assert wire.written == arrived
