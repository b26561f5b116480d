"""Runs trials on many hosts: prepares them, starts them together, and merges their results.

If a host is lost, so is its share. Everything that it reported before stays in the record.
"""

import contextlib
import json
import queue
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from loadstone import _loadgen
from loadstone._loadgen import Table
from loadstone.campaign.drivers import facts_of
from loadstone.campaign.planning.lifecycle import is_whole_only
from loadstone.documents.python_types import Live
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.errors import TargetError
from loadstone.execution.executor import Executor, Output
from loadstone.execution.host.settling import HOST_WAIT_MAX_S
from loadstone.hosts import messages, secrets
from loadstone.hosts.carrier import Carrier, HostMessage
from loadstone.hosts.clock import Clock
from loadstone.hosts.contact import Contact, contact_document, refusal, some_of
from loadstone.hosts.division import clients_of, divide, failures_max, signed_by
from loadstone.hosts.merging import LiveFigures, TrialHost, count, end_ns, merge_summaries
from loadstone.hosts.relaunch import Relaunch
from loadstone.hosts.sent_files import read_piece
from loadstone.hosts.turns import Turns
from loadstone.results.layout import located, named_in
from loadstone.results.record import PROBE_SCHEMA

ALL_LOST = "all client hosts were lost"

SILENT_S = 3.0
"""A host is lost after this many seconds without a message: its agent sends one every second."""

OWN_REST_S = 1.0
"""If the controller itself stalled for this many seconds, its hosts get as much extra time."""

CONNECTED_S = 45.0
READY_S = HOST_WAIT_MAX_S + CONNECTED_S
"""Time in seconds for a host to become ready, after the last file piece that any host requested: to
settle and to connect its clients.
"""

READY_TELL_S = 5.0

LEAD_S = 0.5
"""Delay of the common start in seconds, within which every host must receive it."""

CLOCK_STEP_NS_MIN = 1_000_000
"""Smaller clock steps cannot be distinguished from a pause between two readings."""

TICK_S = 0.1
TELL_S = 0.5
STOP_S = 15.0
"""Time in seconds within which hosts must end a stopped load."""


class OnHosts:
    """The executor of trials that several hosts run together."""

    def __init__(
        self,
        carrier: Carrier,
        hosts: Iterable[str],
        check: Executor,
        *,
        stops_on_loss: bool,
        sends_secrets: bool = False,
        profiles: Collection[str] = (),
        launch_again: Relaunch | None = None,
    ) -> None:
        """`check` validates documents before any load; hosts take part in their order.

        Hosts whose name is among the `profiles` sign with that profile's keys. `launch_again`
        relaunches lost hosts before a trial that needs them, unless a loss stops the run.
        """
        self._launch_again = launch_again
        self._sends_secrets = sends_secrets
        self._profiles = profiles
        self._carrier = carrier
        self._order = tuple(hosts)
        self._checker = check
        self._stops_on_loss = stops_on_loss
        self._attempts = 0
        self._reached: set[str] = set()

    def check(self, documents: Iterable[TrialDocument]) -> None:
        """Raise TargetError for wrong documents, before any request to a target."""
        self._checker.check(documents)

    def run(self, document: TrialDocument, output: Output) -> Summary:
        """Run a trial on the connected hosts; raise TargetError if it never began."""
        if self._launch_again is not None and not self._stops_on_loss:
            wanted = self._order[: document.get("hosts") or 1]
            away = [host for host in wanted if host not in self._carrier.hosts]
            self._launch_again(
                away,
                lambda text, is_problem: output.host_news(text, is_problem=is_problem),
                is_over=lambda: output.is_stop_asked,
            )
        asked = self._present(document)
        self._reach(document, asked, output)
        self._attempts += 1
        self._carrier.forget()
        here = [host for host in self._present(document) if host in asked]
        for host in asked:
            if host not in here:
                output.host_news(f"client host {host} was lost: no answer", is_problem=True)
        trial = _TrialOnHosts(document, output, self._carrier, here, self._attempts)
        trial.stops_on_loss = self._stops_on_loss
        trial.profiles = self._profiles
        if self._sends_secrets:
            trial.secrets = secrets.read(document)
        missing = [host for host in self._order if host not in here]
        trial.absent += missing[: max(0, (document.get("hosts") or 1) - len(here))]
        return trial.run()

    def _present(self, document: TrialDocument) -> list[str]:
        """Return the hosts that are there; refuse a trial without any, or without one it needs."""
        here = [host for host in self._order if host in self._carrier.hosts]
        if not here or (len(here) < len(self._order) and self._stops_on_loss):
            lost = ", ".join(host for host in self._order if host not in here)
            raise TargetError(
                f"trial {document['id']}: client hosts {lost} are lost",
                "start their agents again and continue with --resume",
            )
        return here

    def _reach(self, document: TrialDocument, hosts: Sequence[str], output: Output) -> None:
        """Let each host contact a target before the first load on it; refuse hosts that cannot.

        An obstacle that all hosts have is the target's, unless none gets a response.
        """
        target = document["target"]
        if target["name"] in self._reached or not facts_of(target["driver"]).connects:
            return
        self._attempts += 1
        prefix = (document.get("dataset") or {}).get("bucket_prefix", "")
        contact = Contact(
            self._carrier, contact_document(target, document["run"], prefix), self._attempts,
            sends_secrets=self._sends_secrets, profiles=self._profiles,
        )  # fmt: skip
        obstacles_of_hosts = contact.obstacles(
            hosts,
            lambda text: output.host_news(text, is_problem=False),
            is_over=lambda: output.is_stop_asked,
        )
        # Hosts that have disconnected meanwhile are lost, as in any trial.
        present = [host for host in hosts if host in self._carrier.hosts]
        obstacles = {
            host: obstacles_of_hosts[host] for host in present if host in obstacles_of_hosts
        }
        is_of_all = len(obstacles) == len(present)
        if obstacles and (
            not is_of_all or all(obstacle.is_unreached for obstacle in obstacles.values())
        ):
            ended = {
                host: f"host {host}: {obstacle.text}"
                + (f"\nhint: {obstacle.hint}" if obstacle.hint else "")
                for host, obstacle in obstacles.items()
            }
            why = refusal(ended)
            raise TargetError(
                f'target "{target["name"]}": a client host does not reach it\n{why.message}',
                why.hint, kind="unreachable",
            )  # fmt: skip
        self._reached.add(target["name"])

    def close(self) -> None:
        """Do nothing: agents are dismissed by their carrier."""


class _TrialOnHosts:
    """A running trial, from its documents to its merged summary."""

    def __init__(
        self,
        document: TrialDocument,
        output: Output,
        carrier: Carrier,
        here: list[str],
        attempt: int,
    ) -> None:
        self.stops_on_loss = False
        self.absent: list[str] = []
        self.secrets: messages.Secrets | None = None
        self.profiles: Collection[str] = ()
        self._document = document
        self._output = output
        self._carrier = carrier
        self._attempt = attempt
        self._division = divide(document, here)
        self._hosts = {
            name: TrialHost(name, clients=clients_of(share["load"]))
            for name, share in self._division.shares.items()
        }
        self._live = LiveFigures()
        self._turns = Turns(tuple(self._hosts), attempt) if document.get("script") else None
        self._ready_end = 0.0
        self._failures_max = failures_max(document)
        self._reason: str | None = None
        self._is_stopped_on_loss = False
        self._stopped_at: float | None = None
        self._is_asked = False
        self._reported_at = 0.0
        self._turned = time.monotonic()
        self._started_ns: int | None = None

    def run(self) -> Summary:
        """Prepare, start, collect, merge."""
        self._output.begin(self._ask_to_stop)
        first, *others = self._division.shares
        try:
            # The first host prepares the places, so that the others find them.
            self._prepare([first])
            self._check_places(self._hosts[first])
            self._prepare(others)
            started_ns, monotonic_ns = self._go()
            while self._working():
                self._turn()
        except BaseException:
            self._carrier.ask(self._hosts, messages.StopLoad())
            raise
        return self._summary(started_ns, monotonic_ns)

    def _prepare(self, names: Iterable[str]) -> None:
        """Let hosts prepare their load, and wait until they are ready."""
        for name in names:
            if self._is_asked:
                self._hosts[name].state = "idle"
                continue
            self._hosts[name].last_message = time.monotonic()
            self._hosts[name].state = "preparing"
            trial = json.dumps(signed_by(self._division.shares[name], name, self.profiles))
            self._carrier.ask(
                (name,), messages.Trial(trial=trial, attempt=self._attempt, secrets=self.secrets)
            )
        began = time.monotonic()
        next_told = began + READY_TELL_S
        self._ready_end = began + READY_S
        while any(host.state == "preparing" for host in self._hosts.values()):
            self._turn()
            if time.monotonic() > next_told:
                next_told = time.monotonic() + READY_TELL_S
                slow = [host.name for host in self._hosts.values() if host.state == "preparing"]
                waited_s = time.monotonic() - began
                self._output.host_news(
                    f"waiting for {some_of(slow)} to be ready for the load, {waited_s:.0f} s of at"
                    f" most {self._ready_end - began:.0f}",
                    is_problem=False,
                )
            if time.monotonic() > self._ready_end:
                slow = [host.name for host in self._hosts.values() if host.state == "preparing"]
                raise TargetError(
                    f"trial {self._document['id']}: client host {', '.join(slow)} was not ready"
                    f" within {READY_S:g} s",
                    "do these hosts reach the target?",
                )
        lost = [host for host in self._hosts.values() if host.state == "lost"]
        if len(lost) == len(self._hosts):
            reasons = "; ".join(f"{host.name}: {host.reason}" for host in lost)
            raise TargetError(
                f"trial {self._document['id']}: all its client hosts were lost before its start:"
                f" {reasons}",
                "start their agents again and continue with --resume",
            )

    def _check_places(self, first: TrialHost) -> None:
        """Refuse to go on without the host that prepares the places: no other creates them, and the
        target would be blamed for their absence.
        """
        if first.state == "lost":
            raise TargetError(
                f"trial {self._document['id']}: client host {first.name}, which prepares the"
                f" dataset's places for all, was lost: {first.reason}",
                "start its agent again and continue with --resume",
            )

    def _go(self) -> tuple[int, int]:
        """Start all hosts at the same time; return it on the controller's clocks."""
        names = [] if self._is_asked else [host.name for host in self._working()]
        clocks = self._carrier.read_clocks(names)
        for name, clock in clocks.items():
            self._hosts[name].clock = clock
        # Hosts may have been lost meanwhile. One that rejoined does not take part in this trial.
        self._turn()
        names = [name for name in names if self._hosts[name].state == "ready"]
        at_ns = self._carrier.clock.unix_ns() + int(LEAD_S * 1e9)
        monotonic_ns = self._carrier.clock.monotonic_ns(at_ns)
        for name in names:
            if name in clocks:
                at = at_ns + clocks[name].offset_ns
                self._carrier.ask((name,), messages.Go(at_unix_ns=at))
                self._hosts[name].state = "loading"
            else:
                self._lose(self._hosts[name], "its clock could not be read")
        self._started_ns = monotonic_ns
        return at_ns, monotonic_ns

    def _working(self) -> list[TrialHost]:
        return [host for host in self._hosts.values() if host.state in ("ready", "loading")]

    def _turn(self) -> None:
        """Process the hosts' messages for a moment, and drop silent hosts."""
        with contextlib.suppress(queue.Empty):
            self._handle(self._carrier.inbox.get(timeout=TICK_S))
            # Later messages wait for the next turn, so that a busy host does not delay others.
            for _ in range(self._carrier.inbox.qsize()):
                self._handle(self._carrier.inbox.get_nowait())
        now = time.monotonic()
        if now - self._turned > OWN_REST_S:
            for host in self._hosts.values():
                host.last_message = max(host.last_message, now - SILENT_S + OWN_REST_S)
        self._turned = now
        is_late = self._stopped_at is not None and now - self._stopped_at > STOP_S
        for host in self._hosts.values():
            if host.state not in ("preparing", "ready", "loading"):
                continue
            if now - host.last_message > SILENT_S:
                self._lose(host, f"no message from it for {SILENT_S:g} s")
            elif is_late:
                self._lose(host, f"it did not stop within {STOP_S:g} s")
        if self._is_asked and self._stopped_at is None:
            self._stop(None)
        self._begin_turn()
        if now - self._reported_at >= TELL_S:
            self._reported_at = now
            live = self._live.all()
            if live is not None:
                self._output.progress(live)
            else:
                self._output.probes()

    def _handle(self, received: HostMessage) -> None:
        host = self._hosts.get(received.host)
        if host is None or host.state in ("lost", "finished"):
            return
        if received.name == "gone":
            # The host may have rejoined already, for the next trial.
            why = "its agent ended, or the connection to it broke"
            self._lose(host, why, keeps_agent=True)
            return
        host.last_message = time.monotonic()
        if messages.attempt_of(received.body) not in (None, self._attempt):
            return
        try:
            message = messages.read(received.name, received.body)
        except ValueError as error:
            self._lose(host, f"its agent sent an invalid message: {error}")
            return
        if others := messages.hosts_in(message) - {host.name}:
            self._lose(
                host, f"its agent sent numbers of other hosts: {', '.join(map(str, others))}"
            )
        elif isinstance(message, messages.TrialMessage):
            self._take(host, message)

    def _take(self, host: TrialHost, message: messages.TrialMessage) -> None:
        match message:
            case messages.Ready():
                host.state = "ready"
            case messages.Figures():
                self._take_rows(host, message.rows, message.live)
            case messages.Probes():
                self._output.trial.write_probes(_on_our_clock(message.rows, host.clock))
            case messages.Actions():
                self._output.trial.write_actions(message.rows)
            case messages.Ledger():
                self._output.trial.write_ledger(message.frames)
            case messages.CallHistory():
                clock = host.clock or Clock(offset_ns=0, bound_ns=0, round_trip_ns=0)
                calls = _loadgen.on_clock(message.calls, clock.offset_ns, clock.bound_ns)
                self._output.trial.write_history(calls)
            case messages.Turn() if self._turns is not None:
                self._turns.end(host.name, message.turn, message.doubts)
            case messages.Want():
                self._send_piece(host, message.sha256, message.offset)
            case messages.LoggedRequests():
                self._output.trial.write_operations(message.rows)
            case messages.Intent():
                self._output.intent(message.names)
                self._carrier.ask((host.name,), messages.Noted())
            case messages.Volume():
                self._output.volume(message.volume)
            case messages.Unmade():
                self._output.unmade(message.names)
            case messages.Retry():
                self._output.retry(f"{host.name}: {message.text}")
            case messages.News():
                self._output.host_news(f"{host.name}: {message.text}", is_problem=False)
            case messages.End():
                for probe, reason in message.absent_probes.items():
                    self._output.collector.absent[f"{probe} on {host.name}"] = reason
                if abs(message.clock_step_ns) >= CLOCK_STEP_NS_MIN:
                    host.clock_step_ns = message.clock_step_ns
                if self._has_left(host, message.left):
                    return
                host.summary = message.summary
                host.state = "finished"
                self._live.end(host.name)
            case messages.Failed() if not self._has_left(host, message.left):
                self._fail(host, message)

    def _begin_turn(self) -> None:
        """Continue a script when all remaining hosts have ended its current turn."""
        if self._turns is None:
            return
        working = [host.name for host in self._working()]
        lost = [host.name for host in self._hosts.values() if host.state == "lost"]
        begin = self._turns.next(working, lost)
        if begin is not None:
            self._carrier.ask(working, begin)

    def _send_piece(self, host: TrialHost, sha256: str, offset: int) -> None:
        """Send a piece of one of the trial's files; requests for other files are ignored."""
        located_here = located(self._document, self._output.folder)
        paths = {file["sha256"]: file["path"] for file in named_in(located_here)}
        if sha256 not in paths:
            return
        try:
            size, piece = read_piece(Path(paths[sha256]), offset)
        except OSError as error:
            raise TargetError(
                f'trial {self._document["id"]}: read "{paths[sha256]}": {error.strerror}',
                "the run folder has its scripts in the folder scripts",
            ) from error
        self._ready_end = time.monotonic() + READY_S
        sent = messages.FilePiece(
            attempt=self._attempt, sha256=sha256, offset=offset, size=size, piece=piece
        )
        self._carrier.ask((host.name,), sent)

    def _has_left(self, host: TrialHost, why: str | None) -> bool:
        """Drop a host that ended its load without a request; return whether it did."""
        if why is None or self._stopped_at is not None:
            return False
        # Its summary would cover less than its share. The rows that it sent are kept.
        self._lose(host, f"it ended its load: {why}", keeps_agent=True)
        return True

    def _take_rows(self, host: TrialHost, rows: Table | None, live: Live) -> None:
        times = None
        if rows is not None:
            try:
                times = count(host, rows)
            except ValueError as error:
                self._lose(host, f"its agent sent invalid numbers: {error}")
                return
            self._output.trial.write_intervals(rows)
        self._live.note(host.name, live, times)
        most = self._failures_max
        if most is None or not host.failed or self._reason is not None:
            return
        failed = sum(host.failed for host in self._hosts.values())
        if failed > most:
            self._stop(f"{failed} requests failed on all hosts, allowed {most}")

    def _fail(self, host: TrialHost, message: messages.Failed) -> None:
        """Abort the start on all hosts if one cannot begin, since the others would make a different
        load.
        """
        if self._stopped_at is not None:
            host.state = "finished"
            return
        name = self._document["target"]["name"]
        what = f'target "{name}": host {host.name}: {message.error}'
        hint = message.hint
        if message.kind == "secret-absent" and self.secrets is None:
            hint = messages.with_send_hint(hint)
        raise TargetError(what, hint, kind=message.kind)

    def _lose(self, host: TrialHost, reason: str, *, keeps_agent: bool = False) -> None:
        host.state, host.reason = "lost", reason
        if self._started_ns is not None:
            host.lost_ns = max(0, time.monotonic_ns() - self._started_ns)
        self._live.lose(host.name)
        if not keeps_agent:
            self._carrier.drop(host.name)
        loss = f"client host {host.name} was lost: {reason}"
        self._output.host_news(loss, is_problem=True)
        if not self._document["measured"] or is_whole_only(self._document):
            # A dataset with a missing share would fail every later trial.
            raise TargetError(
                f"trial {self._document['id']}: {loss}, and later trials need all that it writes",
                "start its agent again and continue with --resume",
            )
        if self.stops_on_loss and self._stopped_at is None:
            self._is_stopped_on_loss = True
            self._stop(loss)

    def _ask_to_stop(self) -> None:
        # Called from the signal thread, which must not block.
        self._is_asked = True

    def _stop(self, reason: str | None) -> None:
        self._reason = self._reason or reason
        self._stopped_at = time.monotonic()
        self._carrier.ask(self._hosts, messages.StopLoad())

    def _summary(self, started_ns: int, monotonic_ns: int) -> Summary:
        summaries = [host.summary for host in self._hosts.values() if host.summary is not None]
        lost = [host for host in self._hosts.values() if host.state == "lost"]
        if summaries:
            merged = merge_summaries(summaries)
        else:
            reason = ALL_LOST if lost else "stopped before its start"
            merged = {"state": "interrupted", "reason": reason,
                      "iterations": [], "requests": 0, "failed": 0, "bytes": 0}  # fmt: skip
        ended_ns = max((end_ns(host) for host in self._hosts.values()), default=None)
        merged["started_unix_ns"], merged["started_monotonic_ns"] = started_ns, monotonic_ns
        merged["ended_unix_ns"] = ended_ns or self._carrier.clock.unix_ns()
        for host in lost:
            # Counted up to the host's last report; later requests are unknown.
            merged["requests"] += host.requests
            merged["failed"] += host.failed
            merged["bytes"] += host.bytes
        if self._reason is not None:
            merged["state"], merged["reason"] = "stopped", self._reason
            merged["stopped_on_loss"] = self._is_stopped_on_loss
        merged.pop("start_error_ns", None)
        why = "it was lost before this trial"
        absent = [TrialHost(name, "lost", why) for name in self.absent]
        idle = [TrialHost(name, "idle") for name in self._division.idle]
        merged["hosts"] = [host.document() for host in (*self._hosts.values(), *idle, *absent)]
        return merged


def _on_our_clock(rows: Table, clock: Clock | None) -> Table:
    """Return a host's readings with times converted to the controller's clock."""
    if clock is None:
        return rows
    times = [time_ns - clock.offset_ns for time_ns in rows["time_unix_ns"]]
    others = [rows[name] for name in PROBE_SCHEMA.names if name != "time_unix_ns"]
    return PROBE_SCHEMA.of_columns([times, *others])
