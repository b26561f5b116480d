"""The two live lines of a terminal: the current activity with its progress, and the figures below.

The lines are drawn for the terminal's current width. On narrow terminals the least important parts
are left out; the percentiles never are.
"""

import os
import time
from collections import deque

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from loadstone import units
from loadstone.documents.python_types import Live

BARS = "▁▂▃▄▅▆▇█"
SECONDS_SHOWN = 10
BAR_WIDTH = 12


class LiveScreen:
    """The contents of the live lines, redrawn at the terminal's current width."""

    def __init__(self) -> None:
        self.what = ""
        self.note = ""
        self.left = ""
        self.share = 0.0
        self.live: Live | None = None
        self._rates: deque[float] = deque(maxlen=SECONDS_SHOWN)
        self._second = -1
        self._cpu = (time.monotonic(), time.process_time(), None)

    def begin(self, what: str) -> None:
        """Show a trial that has just begun, without figures."""
        self.what, self.note, self.left, self.share, self.live = what, "connecting …", "", 0.0, None
        self._rates.clear()
        self._second = -1

    def tell(self, what: str, note: str, share: float = 0.0) -> None:
        """Show an activity without figures, such as a pause."""
        self.what, self.note, self.left, self.share, self.live = what, note, "", share, None

    def update(self, what: str, live: Live, left: str) -> None:
        """Show the figures of a trial's last second."""
        self.what, self.left, self.share = what, left, live.get("progress") or 0.0
        if live["requests"] or live["failed"]:
            self.live = live
        second = live["elapsed_ns"] // 10**9
        if second != self._second:
            self._second = second
            self._rates.append(float(live["requests_last_s"]))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        yield _fitted(self._first(width), width)
        yield _fitted(Text("  " + self._second_line(width - 2)), width)

    def _first(self, width: int) -> Text:
        share = min(1.0, max(0.0, self.share))
        filled = round(BAR_WIDTH * share)
        tail = f" {share:4.0%}  {self.left}".rstrip()
        room = width - BAR_WIDTH - len(tail) - 2
        what = self.what if len(self.what) <= room else f"{self.what[: max(0, room - 1)]}…"
        line = Text(f"{what} ")
        line.append("━" * filled, style="green")
        line.append("━" * (BAR_WIDTH - filled), style="dim")
        line.append(tail)
        return line

    def _second_line(self, width: int) -> str:
        if self.live is None:
            return self.note
        live = self.live
        # Sorted by importance, so that the last ones are dropped first; the line has another order.
        parts = {
            "rate": f"{live['requests_last_s']:,}/s",
            "times": f"p50 {_time(live['p50_ns'])}  p99 {_time(live['p99_ns'])}",
            "errors": f"{live['failed']:,} failed",
            "cpu": f"client CPU {self._cpu_share():.0%}",
            "spark": _spark(self._rates),
            "data": units.format_byte_rate(live["bytes_last_s"]) if live["bytes_last_s"] else "",
        }
        fitting: list[str] = []
        for name, text in parts.items():
            if text and sum(len(parts[part]) + 2 for part in fitting) + len(text) <= width:
                fitting.append(name)
        shown = ("spark", "rate", "data", "times", "errors", "cpu")
        return "  ".join(parts[name] for name in shown if name in fitting)

    def _cpu_share(self) -> float:
        """Return this process's CPU use since the last second, as a share of its available
        cores.
        """
        at, used, share = self._cpu
        now, cpu = time.monotonic(), time.process_time()
        if share is None or now - at >= 1.0:
            cores = len(os.sched_getaffinity(0))
            share = (cpu - used) / max(now - at, 1e-9) / cores
            self._cpu = (now, cpu, share)  # type: ignore[assignment]
        return share


def _fitted(line: Text, width: int) -> Text:
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line


def _spark(rates: deque[float]) -> str:
    top = max(rates, default=0.0)
    if top <= 0 or len(rates) < 2:
        return ""
    return "".join(BARS[min(len(BARS) - 1, int(rate / top * len(BARS)))] for rate in rates)


def _time(value_ns: int) -> str:
    # Zero stands for a second without an answer.
    return units.format_duration(value_ns) if value_ns else "–"
