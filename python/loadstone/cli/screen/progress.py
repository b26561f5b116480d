"""The live view: a bar and figures on a terminal, plain lines on a pipe."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from loadstone import units
from loadstone.campaign.forecast import Forecast
from loadstone.campaign.parameters import describe_trial
from loadstone.campaign.planning.lifecycle import CLEAN_UP, place_of
from loadstone.campaign.planning.trial import PlannedTrial
from loadstone.cli import plain
from loadstone.documents.ceiling import CeilingDocument, CeilingMeasurement
from loadstone.documents.mix import writes_dataset
from loadstone.documents.outcomes import good_requests
from loadstone.documents.python_types import Live
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.execution.events import (
    CardFailed,
    CardMade,
    CardStarted,
    CeilingEnded,
    CeilingFailed,
    CeilingProgress,
    CeilingStarted,
    Event,
    HookEnded,
    HostNews,
    RequestRetried,
    Resting,
    StartPlanned,
    TrialEnded,
    TrialFailed,
    TrialProgress,
    TrialSkipped,
    TrialStarted,
)
from loadstone.report.card_words import summary_of
from loadstone.results.hook_log import HookEntry
from loadstone.results.record import describe_refusal, refused

LOST_NAMED = 3
"""At most this many lost hosts are named in a trial's line."""

PLAIN_EVERY_S = 1.0
# A pause may last for hours, and a log needs no countdown.
PLAIN_REST_EVERY_S = 60.0

# The load generator's names for the outcome of requests for missing objects.
ABSENT = frozenset({"not_found", "http_404"})


class View(Protocol):
    """Shows events as they occur."""

    def show(self, event: Event) -> None:
        """Show one event."""

    def close(self) -> None:
        """Finish the output and restore the screen."""


def make_view(
    trials: Sequence[PlannedTrial],
    done: int = 0,
    *,
    is_quiet: bool = False,
    has_trials: bool = True,
) -> View:
    """Return the view for the kind of output; `done` trials ran before a resumption.

    A quiet view prints problems only. Without `has_trials` only problems stay on the screen,
    because the caller prints the results.
    """
    if not is_quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return _TerminalView(trials, done, has_trials=has_trials)
    return _PlainView(len(trials), done, is_quiet=is_quiet or not has_trials)


class _Refusals:
    """Refusals by the kernel; each kind is printed once in a run."""

    def __init__(self) -> None:
        self._printed: set[tuple[str, str]] = set()

    def new(self, document: TrialDocument, summary: Summary) -> list[str]:
        """Return the lines that have not been printed yet."""
        target = document["target"]["name"]
        refusals = set(refused(summary).items()) - self._printed
        self._printed |= refusals
        return [f"target {target}: {describe_refusal(*refusal)}" for refusal in sorted(refusals)]


class _Holes:
    """Failed puts that may nevertheless have stored their object on the target."""

    def __init__(self) -> None:
        self._more: dict[tuple[str, str], int] = {}

    def note(self, document: TrialDocument, summary: Summary) -> str:
        """Record a trial; return how many of its failures may be due to earlier failed puts."""
        place = place_of(document)
        if writes_dataset(document):
            self._more[place] = summary.get("puts_failed_more", 0)
            return ""
        more = self._more.get(place, 0)
        if document["phase"] == CLEAN_UP:
            self._more.pop(place, None)
        kinds = ABSENT & (summary.get("error_examples") or {}).keys()
        if not more or not kinds:
            return ""
        return f"; up to {more:,} of {min(kinds)} are of objects whose put had failed"


ALL_WRONG = (
    "\nhint: no object holds data that loadstone writes: if another program wrote them, or another"
    " seed or size was used, read them unchecked with verify: 0"
)


def figures(live: Live) -> str:
    """Return the figures of the last second."""
    parts = [f"{live['requests_last_s']:>9,}/s"]
    parts.append(f"{live['bytes_last_s'] / (1 << 20):>8.1f} MiB/s")
    parts.append(f"p50 {_time(live['p50_ns'])}  p99 {_time(live['p99_ns'])}")
    if live["failed"]:
        parts.append(f"{live['failed']:,} failed")
    if live["lost_races"]:
        parts.append(f"{live['lost_races']:,} lost the race")
    return "  ".join(parts).rstrip()


def _time(value_ns: int) -> str:
    # Zero stands for a second without an answer.
    return f"{units.format_duration(value_ns) if value_ns else '–':<7}"


def ending(summary: Summary) -> str:
    """Return the line that stays on the screen when a trial has ended."""
    times = summary.get("iterations") or []
    # The summary counts all requests including warm-up and cool-down, so their time is included.
    seconds = sum(max(0, entry["end_ns"] - entry["start_ns"]) for entry in times) / 1e9
    good = good_requests(summary)
    rate = good / seconds if seconds > 0 else 0.0
    swept = summary.get("objects_swept") or summary.get("buckets_left")
    is_sweep = not summary.get("requests") and swept
    # A clean-up finds its objects by listing, and makes no counted requests.
    line = "" if is_sweep else units.counted(good, "request")
    if seconds > 0 and not is_sweep:
        # A load whose hosts were all lost has no end time, and therefore no rate.
        line += f" in {seconds:.2f} s, {rate:,.0f}/s"
        if summary.get("bytes"):
            line += f", {units.format_byte_rate(summary['bytes'] / seconds)}"
    if summary.get("failed"):
        line += f", {summary['failed']:,} failed{_kinds(summary)}"
    if summary.get("unwritten"):
        line += f", {summary['unwritten']:,} for objects whose put had failed"
    if summary.get("lost_races"):
        line += f", {summary['lost_races']:,} lost the race"
    if summary.get("objects_swept"):
        line += f", {units.counted(summary['objects_swept'], 'object')} swept"
    if left := summary.get("buckets_left"):
        line += f", {units.counted(len(left), 'bucket')} left"
    line += _lost_hosts(summary)
    if retries := summary.get("retries"):
        kinds = ", ".join(f"{count:,} × {kind}" for kind, count in sorted(retries.items()))
        paused = units.format_duration(summary["retries_paused_ns"])
        line += f", retried outside the measurement: {kinds} (waited {paused})"
    line = line.removeprefix(", ")
    if summary.get("state") != "finished":
        reason = f": {summary['reason']}" if summary.get("reason") else ""
        line += f" [{summary.get('state')}{reason}]"
    if is_all_wrong(summary):
        line += ALL_WRONG
    return line


def _lost_hosts(summary: Summary) -> str:
    """Return the client hosts that were lost, some by name."""
    names = [host["name"] for host in summary.get("hosts") or () if host["state"] == "lost"]
    if not names:
        return ""
    more = f" and {len(names) - LOST_NAMED} more" if len(names) > LOST_NAMED else ""
    hosts = "client host" if len(names) == 1 else "client hosts"
    return f", {hosts} {', '.join(names[:LOST_NAMED])}{more} lost"


def did_something(document: TrialDocument, summary: Summary) -> bool:
    """Tell whether a trial deserves a line; a preparation or clean-up without work does not."""
    names = ("requests", "objects_swept", "buckets_left", "retries")
    counts = (summary.get(name) for name in names)
    is_whole = summary.get("state") == "finished"
    return document["measured"] or not is_whole or any(counts)


def is_all_wrong(summary: Summary) -> bool:
    """Tell whether several reads completed and none returned data that loadstone wrote.

    Some requests may have failed for other reasons, as foreign objects rarely have the dataset's
    names.
    """
    wrong = sum((summary.get("mismatches") or {}).values())
    requests = summary.get("requests", 0)
    return bool(wrong > 1 and not good_requests(summary) and 2 * wrong >= requests)


def _kinds(summary: Summary) -> str:
    """Return an example of the target's message for each kind of failure."""
    examples = summary.get("error_examples") or {}
    reasons = "; ".join(f"{kind}: {text}" if text else kind for kind, text in examples.items())
    return f" ({reasons})" if reasons else ""


def left_ns(live: Live) -> int | None:
    """Return the remaining time of the trial at its present pace, in nanoseconds."""
    share: float | None = live.get("progress")
    elapsed_ns: int = live["elapsed_ns"]
    if not share:
        return None
    return max(0, round(elapsed_ns * (1 - share) / share))


def _duration(duration_ns: int) -> str:
    # Fractions of a second would only flicker.
    seconds = round(duration_ns / 1e9)
    return units.format_duration(seconds * 10**9) if seconds >= 120 else f"{seconds} s"


def ceiling_words(document: CeilingDocument) -> str:
    """Return a short description of a ceiling."""
    return f"ceiling {document['name']} of {', '.join(document['targets'])}"


def measured(measurements: Sequence[CeilingMeasurement]) -> str:
    """Return the highest rate of a ceiling in each direction."""
    best: dict[str, float] = {}
    for measurement in measurements:
        best[measurement["bounds"]] = max(
            best.get(measurement["bounds"], 0.0), measurement["bytes_per_s"]
        )
    return ", ".join(f"{name} {units.format_byte_rate(rate)}" for name, rate in best.items())


def hook_words(entry: HookEntry) -> str:
    """Return the line that stays on the screen for a hook."""
    where = f", trial {entry['trial']}" if entry["trial"] else ""
    state = f"exit code {entry['exit_code']}" if entry["state"] == "ended" else entry["state"]
    took_ns = entry["ended_unix_ns"] - entry["started_unix_ns"]
    took = "" if entry["state"] == "not reached" else f" after {units.format_duration(took_ns)}"
    output = f": {_one_line(entry['said'])[-200:]}" if entry["said"] and entry["exit_code"] else ""
    return f"hook {entry['hook']} at {entry['at']}{where}: {state}{took}{output}"


class _Line(NamedTuple):
    """A line that stays on the screen; `is_of_trial` if it shows the trial's number."""

    mark: str
    text: str
    is_of_trial: bool = True

    @property
    def is_problem(self) -> bool:
        """Whether the line reports a problem."""
        return self.mark in ("!", "✗")


class _Lines:
    """Formats the permanent lines of events, the same on a terminal and on a pipe."""

    def __init__(self) -> None:
        self._refusals = _Refusals()
        self._holes = _Holes()

    def of(self, event: Event) -> Iterator[_Line]:
        """Yield the lines of an event."""
        match event:
            case HostNews(text=text, is_problem=is_problem):
                yield _Line("!" if is_problem else "-", text)
            case TrialEnded(document=document, summary=summary):
                holes = self._holes.note(document, summary)
                is_whole = summary.get("state") == "finished" and not _lost_hosts(summary)
                is_good = is_whole and not (summary.get("failed") or summary.get("retries"))
                if did_something(document, summary):
                    text = f"{describe_trial(document)}: {ending(summary)}{holes}"
                    yield _Line("✓" if is_good else "!", text)
                yield from (_Line("!", line) for line in self._refusals.new(document, summary))
            case TrialFailed(document=document, reason=reason):
                yield _Line("✗", f"{describe_trial(document)}: failed: {_one_line(reason)}")
            case TrialSkipped(document=document, reason=reason):
                yield _Line("!", f"{describe_trial(document)}: skipped: {_one_line(reason)}", False)
            case CeilingEnded(document=document, measurements=measurements):
                yield _Line("✓", f"{ceiling_words(document)}: {measured(measurements)}", False)
            case CeilingFailed(document=document, reason=reason):
                yield _Line("✗", f"{ceiling_words(document)}: failed: {_one_line(reason)}", False)
            case CardMade(card=card):
                yield _Line("✓", f"card of {card['target']}: {summary_of(card)}", False)
            case CardFailed(target=name, reason=reason):
                yield _Line("✗", f"card of {name}: failed: {_one_line(reason)}", False)
            case HookEnded(entry=entry):
                is_good = entry["state"] == "ended" and entry["exit_code"] == 0
                yield _Line("✓" if is_good else "✗", hook_words(entry), False)


class _PlainView:
    """At most one line per second on standard error, then one for each trial that ends."""

    def __init__(self, trials: int, done: int = 0, *, is_quiet: bool = False) -> None:
        self._is_quiet = is_quiet
        self._trials = trials + done
        self._done = done
        self._number = 0
        self._quiet_until = 0.0
        self._resting = ""
        self._lines = _Lines()

    def show(self, event: Event) -> None:
        for line in self._lines.of(event):
            if line.is_problem or not self._is_quiet:
                self._say(line.text, number=None if line.is_of_trial else "-")
        match event:
            case StartPlanned(trials=trials):
                self._trials += len(trials)
            case TrialStarted(document=document, number=number):
                self._number = number + self._done
                self._resting = ""
                self._quiet_until = time.monotonic() + PLAIN_EVERY_S
                if not self._is_quiet:
                    self._say(f"{describe_trial(document)}: started")
            case RequestRetried(document=document, text=text) if self._is_due(PLAIN_EVERY_S):
                self._say(f"{describe_trial(document)}: {_one_line(plain(text))}")
            case _ if self._is_quiet:
                pass
            case TrialProgress(live=live) if live["requests"] and self._is_due(PLAIN_EVERY_S):
                share = live.get("progress")
                self._say(("" if share is None else f"{share:4.0%} ") + figures(live))
            case Resting(seconds=seconds, why=why) if seconds >= 1:
                if why != self._resting or self._is_due(PLAIN_REST_EVERY_S):
                    self._resting = why
                    self._quiet_until = time.monotonic() + PLAIN_REST_EVERY_S
                    self._say(f"resting {_duration(round(seconds * 1e9))}: {why}", number="-")
            case CeilingStarted(document=document):
                self._say(f"{ceiling_words(document)}: started", number="-")
            case CardStarted(target=name):
                self._say(f"card of {name}: started", number="-")

    def close(self) -> None:
        pass

    def _is_due(self, every_s: float) -> bool:
        now = time.monotonic()
        if now < self._quiet_until:
            return False
        self._quiet_until = now + every_s
        return True

    def _say(self, text: str, number: str | None = None) -> None:
        # Hours of measurement must not be lost because a pipe was closed.
        with contextlib.suppress(OSError):
            line = f"[{number or self._number}/{self._trials}] {text}"
            # The text may come from a remote host.
            print(plain(line), file=sys.stderr, flush=True)


class _TerminalView:
    """One live line, and above it a permanent line for each trial that has ended."""

    def __init__(
        self, trials: Sequence[PlannedTrial], done: int = 0, *, has_trials: bool = True
    ) -> None:
        from rich.console import Console
        from rich.live import Live

        from loadstone.cli.screen.live_screen import LiveScreen

        self._trials = len(trials) + done
        self._done = done
        self._has_trials = has_trials
        self._forecast = Forecast(trials)
        self._console = Console(stderr=True, highlight=False)
        self._screen = LiveScreen()
        self._progress = Live(
            self._screen, console=self._console, transient=True, refresh_per_second=4
        )
        self._number = 0
        self._lines = _Lines()
        self._progress.start()

    def show(self, event: Event) -> None:
        for line in self._lines.of(event):
            if line.is_problem or self._has_trials:
                self._console.print(f"{line.mark} {plain(line.text)}", markup=False)
        match event:
            case StartPlanned(trials=trials):
                self._trials += len(trials)
                self._forecast.extend(trials)
            case TrialStarted(document=document, number=number):
                self._number = number + self._done
                self._forecast.drop(document)
                self._screen.begin(self._numbered(describe_trial(document)))
            case TrialProgress(document=document, live=live):
                self._forecast.observe(document, live["requests"], live["elapsed_ns"])
                self._screen.update(
                    self._numbered(describe_trial(document)), live, self._left(left_ns(live))
                )
            case TrialSkipped(document=document):
                self._forecast.drop(document)
            case RequestRetried(document=document, text=text):
                self._screen.tell(self._numbered(describe_trial(document)), _one_line(plain(text)))
            case Resting(seconds=seconds, why=why):
                rest_ns = round(seconds * 1e9)
                self._screen.tell(self._numbered(f"resting: {why}"), _duration(rest_ns))
            case CeilingStarted(document=document):
                self._screen.tell(ceiling_words(document), "started")
            case CeilingProgress(document=document, step=step, progress=share):
                self._screen.tell(ceiling_words(document), step, share)
            case CardStarted(target=name):
                self._screen.tell(f"card of {name}", "started")

    def close(self) -> None:
        self._progress.stop()

    def _numbered(self, what: str) -> str:
        return f"[{self._number}/{self._trials}] {what}" if self._number else what

    def _left(self, trial_ns: int | None) -> str:
        if trial_ns is None:
            return ""
        others_ns = self._forecast.left_ns()
        text = f"{_duration(trial_ns)} left"
        if others_ns:
            text += f", {_duration(trial_ns + others_ns)} in all"
        return text


def _one_line(text: str) -> str:
    return "; ".join(text.splitlines())
