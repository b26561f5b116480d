"""The agent on a client host: it makes the load that the controller requests, and nothing else.

The load ends if the controller asks for it, if the connection breaks, if the launcher exits, or if
the controller is silent for the length of the lease.
"""

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import queue
import resource
import select
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from loadstone import __version__, _loadgen
from loadstone.campaign.drivers import calibrated_drivers
from loadstone.documents.load_event import LoadEvent
from loadstone.documents.summary import HostState, Summary
from loadstone.documents.trial import TrialDocument
from loadstone.errors import HostError, TargetError
from loadstone.execution.host import facts
from loadstone.execution.host.limits import read_limits
from loadstone.execution.host.settling import Settling
from loadstone.execution.refusals import Raised, as_target_error
from loadstone.hosts import messages
from loadstone.hosts.invitation import Invitation
from loadstone.hosts.sent_files import SentFiles, agent_folder
from loadstone.hosts.stream import MessageStream, join
from loadstone.probes import Collector
from loadstone.results import calibration
from loadstone.results.layout import named_in, state_folder
from loadstone.steady_clock import SteadyClock

IN_USE = "another agent already generates load here"
LAUNCHER_GONE = "the program that launched the agent is gone"
INVALID_MESSAGE = "the controller sent an invalid message"

ALIVE_EVERY_S = 1.0
LEASE_CHECK_S = 0.5
HOLD_TRIES = 40
PIECE_LOOK_S = 0.2
"""How often a wait for a piece of a file checks whether the trial was stopped."""

END_S = 5.0
"""Time for a load to stop before the process exits anyway, in seconds."""


async def serve(invitation: Invitation, *, until_input_ends: bool) -> str:
    """Take part in a run until it is over, and return why it ended.

    With `until_input_ends` it also ends when standard input is closed, which the launcher keeps
    open.
    """
    with only_agent(invitation) if invitation.is_alone else contextlib.nullcontext():
        return await _serve(invitation, until_input_ends=until_input_ends)


async def _serve(invitation: Invitation, *, until_input_ends: bool) -> str:
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(agent_folder())
        except OSError as error:
            raise _unwritable(invitation, str(tempfile.gettempdir()), error, "TMPDIR") from error
        clock = SteadyClock()
        stream = await join(invitation, clock)
        files = SentFiles(Path(folder) / "files")
        agent = Agent(invitation, stream, clock, asyncio.get_running_loop(), files)
        if until_input_ends:
            threading.Thread(target=agent.watch_input, daemon=True).start()
        threading.Thread(target=agent.watch_lease, daemon=True).start()
        agent.send(describe_host())
        await agent.run()
        with contextlib.suppress(OSError, TimeoutError):
            await asyncio.wait_for(stream.close(), END_S)
        agent.has_left.set()
    return agent.reason


class Agent:
    """One host's part in a run: one trial after another, each in a thread of its own."""

    def __init__(
        self,
        invitation: Invitation,
        stream: MessageStream,
        clock: SteadyClock,
        loop: asyncio.AbstractEventLoop,
        files: SentFiles,
    ) -> None:
        """Use `serve`."""
        self.files = files
        self.settling = Settling()
        self.has_left = threading.Event()
        self.reason = "the connection to the controller broke off"
        self.clock = clock
        self._host = invitation.host
        self._lease_s = invitation.lease_s
        self._stream = stream
        self._loop = loop
        self._last_message = self._sent_at = time.monotonic()
        self._is_over = asyncio.Event()
        self._work: _Work | None = None

    async def run(self) -> None:
        """Serve until the controller or the connection ends it, then stop any remaining load."""
        listening = self._loop.create_task(self._listen())
        over = self._loop.create_task(self._is_over.wait())
        while not (listening.done() or over.done()):
            await asyncio.wait({listening, over}, timeout=ALIVE_EVERY_S)
            if time.monotonic() - self._sent_at >= ALIVE_EVERY_S * 0.9:
                self.send(messages.Alive())
        over.cancel()
        listening.cancel()
        if self._work is not None:
            self._work.leave(self.reason)
            await asyncio.to_thread(self._work.thread.join, END_S)

    async def _listen(self) -> None:
        """Process the messages of the controller until the connection ends."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                try:
                    asked = messages.read_asked(*await self._stream.receive())
                except ValueError as error:
                    self.leave(f"{INVALID_MESSAGE}: {error}")
                    return
                self.on_ask(asked)

    def send(self, message: messages.FromAgent) -> None:
        """Send the controller a message; only from the loop's thread."""
        self._sent_at = time.monotonic()
        self._stream.send(messages.word(type(message)), messages.body(message))

    def send_from_thread(self, message: messages.FromAgent) -> None:
        """Send the controller a message, from any thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.send, message)

    def on_ask(self, asked: messages.FromController) -> None:
        """Process a message of the controller."""
        now_ns = self.clock.unix_ns()
        self._last_message = time.monotonic()
        work = self._work
        if work is not None:
            work.renew()
        match asked:
            case messages.ReadClock(question=question):
                self.send(messages.ClockReading(question=question, host_ns=now_ns))
            case messages.Trial(secrets=secrets):
                if work is not None and work.thread.is_alive():
                    work.stop()
                if secrets is not None:
                    _loadgen.keep_secrets(secrets["variables"], secrets["files"])
                self._work = _Work(self, self._host, asked, self._lease_s)
                self._work.thread.start()
            case messages.Go(at_unix_ns=at_unix_ns) if work is not None:
                work.go(at_unix_ns)
            case messages.FilePiece() if work is not None:
                work.pieces.put(asked)
            case messages.Begin() if work is not None:
                work.begin_turn(asked)
            case messages.Noted() if work is not None:
                work.noted.set()
            case messages.StopLoad() if work is not None:
                work.stop()
            case messages.Leave(reason=reason):
                self.leave(reason)

    def leave(self, why: str) -> None:
        """Stop serving; only from the loop's thread."""
        if not self._is_over.is_set():
            self.reason = why
            self._is_over.set()

    def watch_input(self) -> None:
        """Leave when the launcher has exited."""
        # Read unbuffered: a thread would hold the lock of Python's buffer when the process exits.
        while True:
            select.select([sys.stdin.fileno()], [], [])
            if not os.read(sys.stdin.fileno(), 4096):
                break
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.leave, LAUNCHER_GONE)

    def watch_lease(self) -> None:
        """Stop all load when the controller is silent for the lease, even if the loop hangs."""
        while time.monotonic() - self._last_message < self._lease_s:
            if self.has_left.wait(LEASE_CHECK_S):
                return
        why = f"no message from the controller for {self._lease_s:g} s"
        if self._work is not None:
            self._work.leave(why)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.leave, why)
        if not self.has_left.wait(2 * END_S):
            os._exit(1)


class _Work:
    """One trial on this host, in a thread that belongs to the load generator."""

    def __init__(self, agent: Agent, host: str, trial: messages.Trial, lease_s: float) -> None:
        self.thread = threading.Thread(target=self._run, name="load", daemon=True)
        self.noted = threading.Event()
        self.pieces: queue.SimpleQueue[messages.FilePiece] = queue.SimpleQueue()
        self._agent = agent
        self._trial = trial.trial
        self._attempt = trial.attempt
        self._control = _loadgen.Control()
        self._clock = agent.clock
        self._probes = Collector(host=host, clock=agent.clock)
        self._stopped = threading.Event()
        self._left: str | None = None
        self._lease_s = lease_s
        self._control.lease(lease_s)

    def renew(self) -> None:
        """Extend the load by another lease, unless the last one has expired."""
        self._control.lease(self._lease_s)

    def go(self, at_unix_ns: int) -> None:
        """Start the load at a time of the agent's clock, in Unix nanoseconds."""
        # The load generator uses the host's wall clock, and after the start the monotonic one.
        self._control.start(at_unix_ns + self._clock.step_ns())

    def begin_turn(self, begin: messages.Begin) -> None:
        """Start a turn of a script: all hosts have ended the previous one."""
        if begin.attempt == self._attempt:
            self._control.begin_turn(begin.turn, begin.doubts, begin.lost)

    def stop(self) -> None:
        """Stop the load, or the wait for its start, as the controller asks."""
        self._stopped.set()
        self.noted.set()
        self._control.stop()

    def leave(self, why: str) -> None:
        """Stop the load without a request from the controller: this host's share is incomplete."""
        self._left = self._left or why
        self.stop()

    def _run(self) -> None:
        try:
            host_state = self._settle()
            before_ns = self._clock.step_ns()
            with self._probes:
                summary_text = self._load()
        except Raised as error:
            self._fail(as_target_error(error))
        except Exception as error:
            self._fail(TargetError(f"{type(error).__name__}: {error}"))
        else:
            self._send_probes()
            now_ns = self._clock.step_ns()
            # The load generator read this host's clock, which may have been stepped since.
            summary = on_steady_clock(json.loads(summary_text), now_ns)
            self._agent.settling.note(json.loads(self._trial), summary)
            if host_state is not None:
                summary["host_state"] = host_state
            self._send(
                messages.End(
                    attempt=self._attempt,
                    summary=summary,
                    left=self._why_left(summary),
                    clock_step_ns=now_ns - before_ns,
                    absent_probes=self._probes.absent,
                )
            )

    def _fail(self, error: TargetError) -> None:
        self._send(messages.Failed.of(error, attempt=self._attempt, left=self._left))

    def _why_left(self, summary: Summary) -> str | None:
        """Return why the load ended without a request from the controller, or None."""
        if summary["state"] == "finished":
            return None
        # An interruption that was requested has no reason.
        reason = summary["reason"] if summary["state"] == "interrupted" else None
        return self._left or reason

    def _settle(self) -> HostState | None:
        """Wait until this host has settled, and return the residue of earlier trials."""
        document: TrialDocument = json.loads(self._trial)
        if not document["measured"]:
            return None
        reasons: set[str] = set()

        def tell(left_s: float, why: str) -> None:
            if why not in reasons:
                reasons.add(why)
                self._send(
                    messages.News(
                        attempt=self._attempt, text=f"waits, at most {left_s:.0f} s, {why}"
                    )
                )

        settling = self._agent.settling
        return settling.settle(settling.quantities_of(document), self._stopped.wait, tell)

    def _load(self) -> str:
        return _loadgen.run_trial(self._with_files(), self._on_event, self._control, holds=True)

    def _with_files(self) -> str:
        """Return the trial with the paths of its files on this host."""
        document: TrialDocument = json.loads(self._trial)
        files = named_in(document)
        for file in files:
            needed = [file["sha256"] for file in files]
            path = self._agent.files.take(file["sha256"], needed, self._ask_for_piece)
            file["path"] = str(path)
        return json.dumps(document) if files else self._trial

    def _ask_for_piece(self, sha256: str, offset: int) -> tuple[int, bytes]:
        self._send(messages.Want(attempt=self._attempt, sha256=sha256, offset=offset))
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Empty):
                sent = self.pieces.get(timeout=PIECE_LOOK_S)
                if (sent.attempt, sent.sha256, sent.offset) == (self._attempt, sha256, offset):
                    return sent.size, sent.piece
        raise InterruptedError("the trial was stopped before its script was there")

    def _send(self, message: messages.FromAgent) -> None:
        self._agent.send_from_thread(message)

    def _send_probes(self) -> None:
        for batch in self._probes.take():
            self._send(messages.Probes(attempt=self._attempt, rows=batch))

    def _on_event(self, event: LoadEvent) -> None:
        self._send(messages.of_load(event, self._attempt))
        match event["kind"]:
            case "figures":
                self._send_probes()
            case "intent":
                # Nothing is created before the run folder records it, so that a clean-up finds it.
                self.noted.wait()
                if self._stopped.is_set():
                    raise InterruptedError("the trial was stopped before anything was made")


def describe_host() -> messages.Hello:
    """Return the facts of this host, in the form of records, and its free resources."""
    fingerprint, versions = facts.fingerprint(), facts.versions()
    limits = read_limits()
    return messages.Hello(
        loadstone=__version__,
        build=versions["load_generator"],
        python=versions["python"],
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=fingerprint.get("memory_bytes"),
        network=fingerprint.get("network") or {},
        descriptors=limits.descriptors,
        ports=limits.ports,
        rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        calibration=calibration.copy_for(
            fingerprint, versions["load_generator"], tuple(calibrated_drivers())
        ),
        fingerprint=fingerprint,
    )


def on_steady_clock(summary: Summary, step_ns: int) -> Summary:
    """Return a summary with its end on the steady clock."""
    ended_ns = summary["ended_unix_ns"]
    assert ended_ns is not None, "only imports know of no end"
    return {**summary, "ended_unix_ns": ended_ns - step_ns}


@contextlib.contextmanager
def only_agent(invitation: Invitation) -> Iterator[None]:
    """Reserve this host for one run; raise HostError while another run's agent uses it."""
    # The name of the host is included: many hosts may share a home directory.
    path = state_folder() / f"agent-{socket.gethostname()}.lock"
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(open(path, "a+", encoding="utf-8"))
            _hold(lock, invitation)
        except OSError as error:
            with contextlib.suppress(OSError):
                # Closing would repeat the failed write.
                stack.close()
            raise _unwritable(invitation, str(path), error, "XDG_STATE_HOME") from error
        yield


def _hold(lock: TextIO, invitation: Invitation) -> None:
    """Lock a host for a run, alone or together with its other agents."""
    tag = f"run {invitation.run[:8]}, as "
    for _ in range(HOLD_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.truncate(0)
            lock.write(f"{tag}{invitation.host}, process {os.getpid()}")
            lock.flush()
            if not invitation.is_only:
                fcntl.flock(lock, fcntl.LOCK_SH)
            return
        lock.seek(0)
        holder = lock.read(200)
        if invitation.is_only or not tag.startswith(holder[: len(tag)]):
            break
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return
        # Another rank of this run briefly holds the lock, to write its identity.
        time.sleep(0.05)
    raise HostError(
        f"host {invitation.host}: {IN_USE}: {holder}",
        "wait for that run to end"
        + ("; two names for one host are two agents, too" if invitation.is_only else ""),
        kind="host-in-use",
    )


def _unwritable(invitation: Invitation, path: str, error: OSError, variable: str) -> HostError:
    return HostError(
        f'host {invitation.host}: write "{path}": {error.strerror or error}',
        f"an agent keeps some KiB there: make room, or name another folder in {variable} there",
        kind="no-space" if error.errno == errno.ENOSPC else None,
    )
