"""Executors, each of which runs the trials of one kind, and the code that they share."""

import datetime
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from loadstone import _loadgen
from loadstone.campaign.drivers import addresses_of, facts_of
from loadstone.documents.load_event import LoadEvent
from loadstone.documents.python_types import Live
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.errors import TargetError
from loadstone.execution.events import Event, HostNews, RequestRetried, TrialProgress
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.surroundings import AroundTrial
from loadstone.probes import Collector
from loadstone.results.intents import note_intent, note_unmade, note_volume
from loadstone.results.record import STOPPED, STOPPED_ON_LOSS
from loadstone.results.writer import RunWriter, TrialWriter


class Output:
    """Receives the output of a running trial, for its record and for listeners."""

    def __init__(
        self,
        document: TrialDocument,
        writer: RunWriter,
        listen: Callable[[Event], None],
        interrupt: Interrupt,
        around: AroundTrial,
    ) -> None:
        """Use `run_trial`."""
        # Client hosts have their own probes: readings of this host would not describe them.
        self.collector = Collector({}) if document.get("hosts") else Collector()
        self._document = document
        self._folder = writer.path
        self._intents = writer.intents
        self._trial = writer.begin_trial(document)
        self._listen = listen
        self._interrupt = interrupt
        self._around = around
        self._has_begun = False

    def begin(self, stop: Callable[[], None]) -> None:
        """Record the start of the load; `stop` ends it early, and may be called from another
        thread.
        """
        self._interrupt.on_ask(stop)
        self._has_begun = True
        self._around.start(stop)

    def take(self, event: LoadEvent) -> None:
        """Process an event of the load generator."""
        match event["kind"]:
            case "figures":
                if event["rows"] is not None:
                    self._trial.write_intervals(event["rows"])
                self.progress(event["live"])
            case "actions":
                self._trial.write_actions(event["rows"])
            case "loggedrequests":
                self._trial.write_operations(event["rows"])
            case "ledger":
                self._trial.write_ledger(event["frames"])
            case "history":
                self._trial.write_history(event["calls"])
            case "intent":
                self.intent(event["names"])
            case "volume":
                self.volume(event["volume"])
            case "unmade":
                self.unmade(event["names"])
            case "retry":
                self.retry(event["text"])
            case "ready" | "turn":
                raise AssertionError(f"only hosts wait for each other: {event['kind']}")

    def progress(self, live: Live) -> None:
        """Emit the progress of the trial, about twice a second."""
        self._around.note(live["elapsed_ns"])
        self.probes()
        self._listen(TrialProgress(document=self._document, live=live))

    @property
    def is_stop_asked(self) -> bool:
        """Whether a stop was requested: a wait before the load then ends at once."""
        return self._interrupt.is_asked

    def host_news(self, text: str, *, is_problem: bool) -> None:
        """Emit news about client hosts during a trial."""
        # The text may come from a host, or from a program there.
        text = _loadgen.plain(text)
        self._listen(HostNews(document=self._document, text=text, is_problem=is_problem))

    def intent(self, names: Sequence[str]) -> None:
        """Record places that are about to be created, before they are."""
        time = datetime.datetime.now(datetime.UTC).isoformat()
        note_intent(self._folder, self._document, names, time)

    def volume(self, volume: str) -> None:
        """Record the device or file system on which the trial claims places."""
        time = datetime.datetime.now(datetime.UTC).isoformat()
        note_volume(self._folder, self._document, volume, time)
        self._intents.take_volume(self._document, volume)

    def unmade(self, names: Sequence[str]) -> None:
        """Record which of these places were certainly not created."""
        time = datetime.datetime.now(datetime.UTC).isoformat()
        note_unmade(self._folder, self._document, names, time)

    def retry(self, text: str) -> None:
        """Emit the retry of a request outside the measurement."""
        self._listen(RequestRetried(document=self._document, text=text))

    def end(self) -> None:
        """Record the end of the load."""
        if self._has_begun:
            self._around.finish()

    def probes(self) -> None:
        """Write the readings of the probes to the record."""
        for rows in (*self.collector.take(), *self._around.take()):
            self._trial.write_probes(rows)

    @property
    def folder(self) -> Path:
        """The run folder, for files that trials of a kind share."""
        return self._folder

    @property
    def trial(self) -> TrialWriter:
        """The record that is being written."""
        return self._trial


class Executor(Protocol):
    """Runs the trials of one kind."""

    def check(self, documents: Iterable[TrialDocument]) -> None:
        """Raise TargetError for invalid documents, before any request to a target."""

    def run(self, document: TrialDocument, output: Output) -> Summary:
        """Run a trial and return its summary; raise TargetError if it never began.

        Every summary has `state` ("finished", "stopped" or "interrupted"), `reason`,
        `started_unix_ns`, `ended_unix_ns`, `iterations`, `requests`, `failed` and `bytes`.
        """

    def close(self) -> None:
        """Release the resources that the trials of a session share."""


def run_trial(
    executor: Executor,
    document: TrialDocument,
    writer: RunWriter,
    listen: Callable[[Event], None],
    interrupt: Interrupt,
    around: AroundTrial,
) -> Summary:
    """Run one trial with its hooks and probes, store its record, and return its summary.

    Raises TargetError if the trial never began, without leaving a record; ResultError if the folder
    cannot be written, and HookError if a hook stopped it. After these two, the data so far remains
    as an interrupted trial.
    """
    document = writer.contents.completed(writer.intents.adopted(document))
    document = writer.ledgers.with_ledgers(document)
    around.look_before()
    output = Output(document, writer, listen, interrupt, around)
    try:
        with output.collector:
            try:
                summary = executor.run(document, output)
            finally:
                output.end()
        output.probes()
        if document.get("judged") and summary["state"] == "finished":
            summary["audit"] = output.trial.judge_history()
        summary["target_on_own_host"] = is_on_own_host(
            document["target"]["driver"], document["target"].get("settings") or {}
        )
        if around.host_state is not None:
            summary["host_state"] = around.host_state
        around.look_after()
        output.trial.note_target(around.target_state)
        absent = {**output.collector.absent, **around.absent}
        if summary["state"] == "interrupted":
            output.trial.interrupt(summary, absent_probes=absent)
        else:
            writer.ledgers.note_earlier(document, summary)
            output.trial.finish(summary, _stop_labels(summary), absent_probes=absent)
        writer.contents.note(document, summary)
        writer.ledgers.note(document, summary)
        if around.problem is not None:
            raise around.problem
    except TargetError:
        output.trial.discard()
        raise
    except BaseException:
        output.trial.close()
        raise
    return summary


def _stop_labels(summary: Summary) -> tuple[str, ...]:
    if summary["state"] != "stopped":
        return ()
    return (STOPPED_ON_LOSS if summary.get("stopped_on_loss") else STOPPED,)


def is_on_own_host(driver: str, settings: Mapping[str, Any]) -> bool | None:
    """Tell whether any address of a target belongs to this host; None if it has no address."""
    hosts = dict.fromkeys(_hosts(driver, settings))
    answers = [_is_own(host) for host in hosts]
    known = [answer for answer in answers if answer is not None]
    return any(known) if known else None


def _hosts(driver: str, settings: Mapping[str, Any]) -> Iterator[str]:
    for address in addresses_of(facts_of(driver), settings):
        try:
            host = urlsplit(address if "://" in address else f"//{address}").hostname
        except ValueError:
            continue
        if host:
            yield host


def _lets_anything_bind() -> bool:
    """Tell whether this host lets sockets bind to addresses of other hosts."""
    names = ("ipv4", "ipv6")
    paths = (Path(f"/proc/sys/net/{name}/ip_nonlocal_bind") for name in names)
    return any(path.exists() and path.read_text().strip() == "1" for path in paths)


def _is_own(host: str) -> bool | None:
    """Ask the kernel, which lets a socket bind only to the host's own addresses."""
    try:
        addresses = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return None
    if _lets_anything_bind():
        return None
    for family, kind, protocol, _, address in addresses:
        with socket.socket(family, kind, protocol) as connection:
            try:
                connection.bind(address)
            except OSError:
                continue
            return True
    return False
