"""The live view: a bar and figures on a terminal, plain lines on a pipe."""

import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from loadstone import units
from loadstone.execution.events import (
    Event,
    Resting,
    TrialEnded,
    TrialProgress,
    TrialSkipped,
    TrialStarted,
)

PLAIN_EVERY_S = 1.0


class View(Protocol):
    """Shows events as they come."""

    def show(self, event: Event) -> None:
        """Take one event."""

    def close(self) -> None:
        """Leave the screen as it should stay."""


def make_view(trials: int) -> View:
    """Return the view that suits where the output goes."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return _TerminalView(trials)
    return _PlainView(trials)


def describe(document: dict[str, Any]) -> str:
    """Return what a trial is, in a few words."""
    words = [document["target"]["name"], document["phase"]]
    if document.get("round", 1) > 1 or document["measured"]:
        words.append(f"round {document.get('round', 1)}")
    if document.get("block", 1) > 1:
        words.append(f"block {document['block']}")
    parameters = document["case"]["parameters"]
    words += [f"{name}={value}" for name, value in parameters.items()]
    return " ".join(str(word) for word in words)


def figures(live: dict[str, Any]) -> str:
    """Return the last second's figures."""
    parts = [f"{live['requests_last_s']:>9,}/s"]
    parts.append(f"{live['bytes_last_s'] / (1 << 20):>8.1f} MiB/s")
    parts.append(f"p50 {live['p50_ns'] / 1e6:.2f} ms  p99 {live['p99_ns'] / 1e6:.2f} ms")
    if live["failed"]:
        parts.append(f"{live['failed']:,} failed")
    return "  ".join(parts)


def ending(event: TrialEnded) -> str:
    """Return the one line that stays of a trial."""
    summary = event.summary
    times = summary.get("iterations") or []
    seconds = sum(entry["measure_end_ns"] - entry["measure_start_ns"] for entry in times) / 1e9
    good = summary.get("requests", 0) - summary.get("failed", 0)
    rate = good / seconds if seconds > 0 else 0.0
    line = f"{good:,} requests in {seconds:.2f} s, {rate:,.0f}/s"
    if summary.get("bytes"):
        line += f", {units.format_bytes(int(summary['bytes'] / max(seconds, 1e-9)))}/s"
    if summary.get("failed"):
        line += f", {summary['failed']:,} failed"
    if summary.get("state") != "finished":
        line += f" [{summary.get('state')}]"
    return line


def time_left(live: dict[str, Any]) -> str:
    """Return how long the trial will take yet, as far as it goes on like this."""
    share = live.get("progress")
    if not share or share >= 1:
        return ""
    return units.format_duration(round(live["elapsed_ns"] * (1 - share) / share / 1e9) * 10**9)


class _PlainView:
    def __init__(self, trials: int) -> None:
        self._trials = trials
        self._number = 0
        self._last = 0.0
        self._say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True)

    def show(self, event: Event) -> None:
        match event:
            case TrialStarted(document=document, number=number):
                self._number = number
                self._last = time.monotonic()
                self._say(f"[{number}/{self._trials}] {describe(document)}: started")
            case TrialProgress(live=live):
                now = time.monotonic()
                if now - self._last >= PLAIN_EVERY_S and live["requests"]:
                    self._last = now
                    share = live.get("progress")
                    done = "" if share is None else f"{share:4.0%} "
                    self._say(f"[{self._number}/{self._trials}] {done}{figures(live)}")
            case TrialEnded(document=document):
                line = f"{describe(document)}: {ending(event)}"
                self._say(f"[{self._number}/{self._trials}] {line}")
            case TrialSkipped(document=document, reason=reason):
                self._say(f"[-/{self._trials}] {describe(document)}: skipped: {reason}")
            case Resting(seconds=seconds, why=why):
                self._say(f"resting {seconds:.0f} s: {why}")

    def close(self) -> None:
        pass


class _TerminalView:
    def __init__(self, trials: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._trials = trials
        self._console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("{task.fields[number]}"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}"),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=1.0, number="", figures="", left="")
        self._progress.start()

    def show(self, event: Event) -> None:
        update = self._progress.update
        match event:
            case TrialStarted(document=document, number=number):
                update(
                    self._task,
                    completed=0,
                    description=describe(document),
                    number=f"[{number}/{self._trials}]".replace("[", "\\["),
                    figures="",
                    left="",
                )
            case TrialProgress(live=live):
                left = time_left(live)
                update(
                    self._task,
                    completed=live.get("progress") or 0,
                    figures=figures(live),
                    left=f"{left} left" if left else "",
                )
            case TrialEnded(document=document):
                state = event.summary.get("state")
                mark = "✓" if state == "finished" and not event.summary.get("failed") else "!"
                self._console.print(f"{mark} {describe(document)}: {ending(event)}", markup=False)
            case TrialSkipped(document=document, reason=reason):
                self._console.print(f"- {describe(document)}: skipped: {reason}", markup=False)
            case Resting(seconds=seconds, why=why):
                update(
                    self._task,
                    completed=0,
                    description=f"resting: {why}",
                    figures=f"{seconds:.0f} s",
                    left="",
                )

    def close(self) -> None:
        self._progress.stop()
