"""Stalls of the client, by second and by core."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.measured.rows import values_of_metric
from loadstone.results.record import Record

STALLED_SHARE = 0.05
"""With more stalled time, a trial measured its client: the missing rate is as large as a reportable
change of the target, and as the wait for a core that counts as a limit of the client.
"""
SECOND_NS = 1_000_000_000
NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """The measured time of a trial that its client lost.

    `share` is that of the whole client or the average of its cores, whichever is more. `seconds`
    count from the trial's start; `cores` are those that stalled, if not all.
    """

    share: float
    measured_ns: int
    seconds: tuple[int, ...]
    cores: tuple[int, ...]

    @property
    def is_invalid(self) -> bool:
        """Tell whether the trial must not be used as a result."""
        return self.share > STALLED_SHARE


def stall_of(record: Record) -> Stall | None:
    """Return the stall of a trial's measured time; None if there is none."""
    windows = _windows(record)
    measured_ns = sum(end - start for start, end in windows)
    lost: dict[int | None, dict[int, float]] = {}
    for entry in record.summary.get("stalls") or ():
        seconds = {second: _inside(windows, second, ns) for second, ns in entry["seconds"]}
        lost[entry.get("core")] = {second: ns for second, ns in seconds.items() if ns > 0}
    if not measured_ns or not any(lost.values()):
        return None
    watched = max(int(record.summary.get("cores_watched") or 0), len(lost.keys() - {None}), 1)
    whole_ns = sum(lost.get(None, {}).values())
    cores_ns = sum(sum(of.values()) for core, of in lost.items() if core is not None) / watched
    # Throttling by the client's control group is reported as a limit of the client.
    lost_ns = max(whole_ns, cores_ns) - _throttled_ns(record)
    if lost_ns <= 0:
        return None
    return Stall(
        share=min(1.0, lost_ns / measured_ns),
        measured_ns=measured_ns,
        seconds=tuple(sorted({second for of in lost.values() for second in of})),
        cores=tuple(sorted(core for core, of in lost.items() if core is not None and of)),
    )


def find_stalls(records: Iterable[Record]) -> Iterator[Finding]:
    """Report the trials whose client stalled, and when."""
    stalls = {
        record.id: stall
        for record in records
        if record.trial.get("measured") and (stall := stall_of(record)) is not None
    }
    invalid = {trial: stall for trial, stall in stalls.items() if stall.is_invalid}
    noisy = {trial: stall for trial, stall in stalls.items() if not stall.is_invalid}
    if invalid:
        yield Finding(
            "STALLED",
            f"invalid, because the client stalled: {_listed(invalid)}",
            evidence=_evidence(invalid),
            cases=tuple(f"trial {trial}" for trial in invalid),
        )
    if noisy:
        yield Finding(
            "NOISY",
            f"the client stalled briefly: {_listed(noisy)}",
            evidence=_evidence(noisy),
            cases=tuple(f"trial {trial}" for trial in noisy),
        )


def _windows(record: Record) -> list[tuple[int, int]]:
    entries = record.summary.get("iterations") or ()
    windows = (
        (entry.get("measure_start_ns", 0), entry.get("measure_end_ns", 0)) for entry in entries
    )
    return [(start, end) for start, end in windows if start < end]


def _inside(windows: Sequence[tuple[int, int]], second: int, stalled_ns: int) -> float:
    """Return the stalled time of a second within the windows, in proportion."""
    begin, finish = second * SECOND_NS, (second + 1) * SECOND_NS
    overlap_ns = sum(max(0, min(end, finish) - max(start, begin)) for start, end in windows)
    return stalled_ns * min(1.0, overlap_ns / SECOND_NS)


def _throttled_ns(record: Record) -> float:
    """Return how long the client's control group throttled its threads."""
    if record.probes_path is None:
        return 0.0
    values = values_of_metric(record.probes, "cgroup", "throttled_ns")
    return float(values.max() - values.min()) if values.size else 0.0


def _evidence(stalls: Mapping[str, Stall]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            "share of the measured time that the client stalled",
            stall.share,
            STALLED_SHARE,
            place=f"trial {trial}",
        )
        for trial, stall in stalls.items()
    )


def _listed(stalls: Mapping[str, Stall]) -> str:
    worst = sorted(stalls.items(), key=lambda entry: -entry[1].share)
    listed = "; ".join(f"trial {trial} {_in_words(stall)}" for trial, stall in worst[:3])
    return listed + (f"; and {len(worst) - 3} more" if len(worst) > 3 else "")


def _in_words(stall: Stall) -> str:
    lost_s, measured_s = stall.share * stall.measured_ns / 1e9, stall.measured_ns / 1e9
    cores = f", cores {_ranges(stall.cores)}" if stall.cores else ""
    seconds = _ranges(stall.seconds)
    return f"for {lost_s:.2g} of {measured_s:.3g} s measured (seconds {seconds}{cores})"


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as ranges: "2-4, 9"."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    listed = ", ".join("-".join(map(str, ends)) for ends in ranges[:NAMED])
    return listed + (" …" if len(ranges) > NAMED else "")
