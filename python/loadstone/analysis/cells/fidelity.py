"""The fidelity of a replayed trace: its share of the trace, and the lateness of its actions.

A replay without times only keeps the order of each session.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from loadstone.analysis.grouping import grouped
from loadstone.analysis.measured.part import SECOND_NS, Part
from loadstone.analysis.measured.trial_case import TrialCase, case_of
from loadstone.analysis.statistics.latency import Latency, Timeouts, latency, merge
from loadstone.documents.manifest import ScriptOrigin
from loadstone.results.record import Run

NO_TIMEOUTS = Timeouts(count=0, requests=0, timeout_ns=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity(TrialCase):
    """The fidelity of one trial to its script.

    `recorded_s` is when the last action was due, `lateness` that of good actions; both and `speed`
    are None without times. `origin` is None if the script is not from a trace.
    """

    script: str
    speed: float | None
    actions_planned: int
    actions_done: int
    actions_good: int
    recorded_s: float | None
    achieved_s: float
    lateness: Latency | None
    origin: ScriptOrigin | None


def read_fidelity(run: Run, parts: Sequence[Part]) -> tuple[Fidelity, ...]:
    """Return the fidelity of each trial with a trace, or with a script's times."""
    origins = run.manifest.get("scripts") or {}
    by_trial = grouped(parts, lambda part: part.record.id)
    fidelities = []
    for of_trial in by_trial.values():
        script = of_trial[0].record.trial.get("script") or {}
        requests = script.get("requests") or {}
        origin = origins.get(requests.get("sha256", ""))
        if origin is not None or script.get("speed") is not None:
            fidelities.append(_of_trial(of_trial, requests.get("sha256", ""), origin))
    return tuple(fidelities)


def _of_trial(parts: Sequence[Part], sha256: str, origin: ScriptOrigin | None) -> Fidelity:
    trial = parts[0].record.trial
    script, load = trial.get("script") or {}, trial.get("load") or {}
    speed = script.get("speed")
    good = sum(part.good for part in parts)
    return Fidelity(
        **case_of(trial),
        script=sha256,
        speed=speed,
        actions_planned=script.get("actions") or 0,
        actions_done=good + sum(sum(part.errors.values()) for part in parts),
        actions_good=good,
        recorded_s=_recorded_s(trial["stop"].get("requests"), load.get("rate_per_s"), speed),
        achieved_s=max(part.last_done_ns or part.end_ns for part in parts) / SECOND_NS
        - min(part.start_ns for part in parts) / SECOND_NS,
        lateness=None
        if speed is None
        else latency(merge(part.histograms["lag"] for part in parts), NO_TIMEOUTS),
        origin=origin,
    )


def _recorded_s(
    requests: int | None, rate_per_s: float | None, speed: float | None
) -> float | None:
    """Return when the last request was due, by the rate of the script's times."""
    if speed is None or not requests or not rate_per_s:
        return None
    return requests / rate_per_s
