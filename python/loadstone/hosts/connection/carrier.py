"""The controller's end: it takes in agents, asks them, and hears what they say and when they go."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from distributed import SchedulerPlugin

from loadstone import __version__
from loadstone.errors import HostError
from loadstone.hosts import clock, messages
from loadstone.hosts.connection import carriage
from loadstone.hosts.connection.address import split_address
from loadstone.hosts.connection.certificates import Authority
from loadstone.hosts.connection.invitation import Invitation
from loadstone.steady_clock import SteadyClock

LEASE_S = 10.0
"""How long an agent goes on without a word of the controller."""

RENEW_S = 1.0
ANSWER_S = 5.0
START_S = 60.0
STOP_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a host said: `say` is "hello", "gone", or what `agent.py` says during a trial."""

    host: str
    say: str
    body: Mapping[str, Any]


class Carrier:
    """A scheduler of dask in a thread of its own. Its methods may be called from any thread."""

    def __init__(self, run: str, listen: str) -> None:
        """Listen on one address, "10.0.0.1" or "10.0.0.1:7000"; without a port on a free one."""
        self.heard: queue.Queue[Heard] = queue.Queue()
        self.clock = SteadyClock()
        self._run = run
        host, port = split_address(listen)
        self._authority = Authority(run)
        self._listen = f"tls://[{host}]:{port}" if ":" in host else f"tls://{host}:{port}"
        self._identity = self._authority.issue("controller", host)
        self._addresses: dict[str, str] = {}
        self._waiting: dict[tuple[str, int], asyncio.Future[int]] = {}
        self._question = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="carrier", daemon=True)
        self._scheduler: carriage.QuietScheduler | None = None

    def __enter__(self) -> Self:
        carriage.settle()
        self._thread.start()
        try:
            self._wait(self._open(), START_S)
        except (OSError, RuntimeError) as error:
            self._end_loop()
            # Dask wraps what kept a scheduler from starting.
            reason = getattr(error.__cause__, "strerror", None) or error
            raise HostError(
                f"listen on {self._listen.removeprefix('tls://')}: {reason}",
                "hosts.listen names an address of this machine that the hosts reach",
            ) from error
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(TimeoutError):
            self._wait(self._close(), STOP_S)
        self._end_loop()

    @property
    def address(self) -> str:
        """The address that agents connect to."""
        assert self._scheduler is not None, "the carrier has been entered"
        return str(self._scheduler.address)

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts whose agents are connected."""
        return frozenset(self._addresses)

    def invite(self, host: str, *, is_alone: bool, is_only: bool = True) -> Invitation:
        """Return a host's way in, with a certificate of its own."""
        identity = self._authority.issue(host)
        return Invitation(
            controller=self.address, host=host, run=self._run, loadstone=__version__,
            lease_s=LEASE_S, is_alone=is_alone, is_only=is_only,
            authority=self._authority.certificate,
            certificate=identity.certificate, key=identity.key,
        )  # fmt: skip

    def ask(self, hosts: Iterable[str], asked: messages.Asked) -> None:
        """Ask hosts for something; who is gone is not asked."""
        names = tuple(hosts)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._send, names, asked)

    def read_clocks(self, hosts: Iterable[str]) -> dict[str, clock.Clock]:
        """Return how far the clocks of hosts are from ours; who does not answer is left out."""
        found: dict[str, clock.Clock] = {}
        with contextlib.suppress(TimeoutError):
            found = self._wait(self._clocks(tuple(hosts)), ANSWER_S + STOP_S)
        return found

    def forget(self) -> None:
        """Forget what was heard and not yet taken: it was about an earlier trial."""
        with contextlib.suppress(queue.Empty):
            while True:
                self.heard.get_nowait()

    def drop(self, host: str) -> None:
        """Have nothing more to do with a host, whatever it may say yet."""
        self._loop.call_soon_threadsafe(self._drop, host)

    # From here on everything runs in the loop's thread.

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_S)

    def _wait(self, work: Coroutine[Any, Any, Any], seconds: float) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    async def _open(self) -> None:
        security = carriage.security(self._authority.certificate, self._identity)
        self._scheduler = carriage.QuietScheduler(
            host=self._listen, security=security, dashboard=False, plugins=[_Watch(self._gone)]
        )
        self._scheduler.stream_handlers[carriage.MESSAGE] = self._hear
        await self._scheduler
        self._renewal = self._loop.create_task(self._renew())

    async def _close(self) -> None:
        self._renewal.cancel()
        self._send(tuple(self._addresses), messages.Leave())
        for _ in range(40):
            if not self._addresses:
                break
            await asyncio.sleep(0.05)
        assert self._scheduler is not None
        await self._scheduler.close(reason=messages.RUN_OVER)

    async def _renew(self) -> None:
        while True:
            self._send(tuple(self._addresses), messages.Renew())
            await asyncio.sleep(RENEW_S)

    def _send(self, hosts: Iterable[str], asked: messages.Asked) -> None:
        assert self._scheduler is not None
        body = {"ask": messages.word(type(asked)), "body": messages.body(asked)}
        message = {"op": carriage.MESSAGE, **body}
        for host in hosts:
            address = self._addresses.get(host)
            if address is not None and address in self._scheduler.stream_comms:
                carriage.gather_no_longer(self._scheduler.stream_comms[address])
                self._scheduler.worker_send(address, message)

    def _hear(self, say: str, body: Mapping[str, Any], worker: str) -> None:
        assert self._scheduler is not None
        state = self._scheduler.workers.get(worker)
        if state is None:
            return
        host = str(state.name)
        if say == messages.word(messages.ClockReading):
            # An answer that is none leaves its question open: the host's clock is not read.
            with contextlib.suppress(ValueError):
                self._take_answer(host, messages.read(say, body))
            return
        if say == messages.word(messages.Hello):
            self._addresses[host] = worker
        if self._addresses.get(host) == worker:
            self.heard.put(Heard(host=host, say=say, body=body))

    def _take_answer(self, host: str, answer: messages.Said | messages.Asked) -> None:
        if isinstance(answer, messages.ClockReading) and answer.host_ns is not None:
            waiting = self._waiting.pop((host, answer.question), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer.host_ns)

    def _gone(self, worker: str) -> None:
        for host, address in list(self._addresses.items()):
            if address == worker:
                del self._addresses[host]
                self.heard.put(Heard(host=host, say="gone", body={}))

    def _drop(self, host: str) -> None:
        address = self._addresses.pop(host, None)
        if address is not None and self._scheduler is not None:
            removal = self._scheduler.remove_worker(address, stimulus_id="lost")
            self._removal = self._loop.create_task(removal)

    async def _clocks(self, hosts: Iterable[str]) -> dict[str, clock.Clock]:
        async def one(host: str) -> tuple[str, clock.Clock | None]:
            # All questions together have this time: a slow host is asked fewer.
            exchanges = []
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_S):
                    for _ in range(clock.QUESTIONS):
                        exchanges.append(await self._exchange(host))
            return host, clock.estimate(exchanges) if exchanges else None

        found = await asyncio.gather(*(one(host) for host in hosts))
        return {host: seen for host, seen in found if seen is not None}

    async def _exchange(self, host: str) -> clock.Exchange:
        self._question += 1
        number, answer = self._question, self._loop.create_future()
        self._waiting[host, number] = answer
        sent_ns = self.clock.unix_ns()
        self._send((host,), messages.ClockReading(question=number))
        host_ns = await answer
        return clock.Exchange(sent_ns=sent_ns, answered_ns=self.clock.unix_ns(), host_ns=host_ns)


class _Watch(SchedulerPlugin):
    """Tells which worker has gone, whatever the reason."""

    name = "loadstone-watch"

    def __init__(self, gone: Callable[[str], None]) -> None:
        self._gone = gone

    def remove_worker(self, scheduler: Any, worker: str, **more: Any) -> None:
        self._gone(worker)
