"""Impossible records: times that run backwards, counts that disagree."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import cast

from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.measured.rows import Rows
from loadstone.results.record import Record

TIMES = ("start_ns", "measure_start_ns", "measure_end_ns", "end_ns")
"""An iteration's times, in the only possible order."""

SECOND_NS = 1_000_000_000


def contradictions(record: Record, intervals: Rows) -> list[str]:
    """Return the contradictions within a whole trial's record, one sentence each."""
    if not record.is_whole or not record.summary.get("iterations"):
        return []
    return [*_of_windows(record), *_of_counts(record, intervals)]


def find_contradictions(sentences: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """Report trials whose records contradict themselves, given as (trial, sentence)."""
    if sentences:
        listed = "; ".join(f"trial {trial}: {sentence}" for trial, sentence in sentences[:3])
        yield Finding(
            "CONTRADICTORY",
            f"records contradict themselves, so a file was edited or damaged ({listed})",
            cases=tuple(dict.fromkeys(f"trial {trial}" for trial, _ in sentences)),
        )


def _of_windows(record: Record) -> Iterator[str]:
    summary = record.summary
    entries = summary.get("iterations") or ()
    for entry in entries:
        times = [(name, ns) for name, ns in entry.items() if name in TIMES]
        times.sort(key=lambda time: TIMES.index(time[0]))
        for (earlier, earlier_ns), (later, later_ns) in pairwise(times):
            if cast(int, later_ns) < cast(int, earlier_ns):
                yield f"{later} of iteration {entry.get('iteration')} lies before its {earlier}"
    for before, after in pairwise(entries):
        if after.get("start_ns", 0) < before.get("end_ns", 0):
            yield f"iteration {after.get('iteration')} began before the one before it had ended"
    began_ns, ended_ns = summary.get("started_unix_ns"), summary.get("ended_unix_ns")
    if began_ns and ended_ns and ended_ns < began_ns:
        yield "the trial ended before it began"


def _of_counts(record: Record, intervals: Rows) -> Iterator[str]:
    summarised = record.summary.get("requests")
    counted = intervals.sum("requests")
    if summarised is not None and summarised != counted:
        yield f"its summary counts {summarised} requests, its intervals {counted}"
    seconds = intervals["second"].tolist()
    last_ns = max(entry.get("end_ns", 0) for entry in record.summary.get("iterations") or ())
    # A request that timed out is counted in the second in which it was given up.
    if seconds and (min(seconds) < 0 or 0 < last_ns < (max(seconds) - 1) * SECOND_NS):
        yield f"its intervals reach to second {max(seconds)}, and it ended before"
