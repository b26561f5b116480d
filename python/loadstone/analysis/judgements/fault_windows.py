"""Failed requests of a campaign with faults: those in the time of a fault are expected."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loadstone import units
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.campaign.schema.hook import Fault
from loadstone.documents.outcomes import NO_FAILURES
from loadstone.results.fault_log import describe_fault
from loadstone.results.hook_log import HookEntry
from loadstone.results.record import Record, Run
from loadstone.units import counted

FAILED_OUTSIDE = "failed-outside-faults"
FAULT_LEFT = "fault-left"
_EXPECTED = NO_FAILURES | {"ok", "not_sent"}
SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Window:
    """When requests may fail; without an end they may until the trial ends."""

    begin_ns: int
    end_ns: int | None

    def meets(self, begin_ns: int, end_ns: int) -> bool:
        """Tell whether any of it is between two times."""
        return self.begin_ns < end_ns and (self.end_ns is None or begin_ns <= self.end_ns)


def find_failed_outside(run: Run | None) -> Iterator[Finding]:
    """Report requests that failed while no fault was under way."""
    campaign: Mapping[str, object] = (run.manifest.get("campaign") or {}) if run else {}
    expected = campaign.get("expect")
    documents = campaign.get("faults")
    if run is None or not isinstance(documents, Sequence) or not documents:
        return
    if isinstance(expected, Mapping) and expected.get("failures"):
        return
    faults = [Fault.model_validate(document) for document in documents]
    for record in run.records:
        failed = failed_outside(record, list(windows_of(record.hooks, faults)))
        if not record.trial["measured"] or not failed:
            continue
        graces = ", ".join(units.format_duration(fault.recovery_ns) for fault in faults)
        yield Finding(
            rule=FAILED_OUTSIDE,
            statement=f"trial {record.id}: {counted(failed, 'request')} failed when no fault was"
            f" under way, nor within {graces} after one",
            evidence=(
                Evidence(
                    metric="requests failed", value=float(failed), threshold=0.0, unit="requests",
                    place=f"trial {record.id}",
                ),
            ),
            cases=(f"trial {record.id}",),
        )  # fmt: skip


def find_faults_left(run: Run | None) -> Iterator[Finding]:
    """Report faults that a killed controller may have left in effect."""
    for entry in run.faults_left if run is not None else ():
        yield Finding(
            rule=FAULT_LEFT,
            statement=f"fault {describe_fault(entry)} began and was not undone",
            cases=(f"trial {entry['trial']}",),
        )


def windows_of(hooks: Sequence[HookEntry], faults: Sequence[Fault]) -> Iterator[Window]:
    """Yield when faults were under way in a trial, each with its recovery."""
    for fault in faults:
        begun = [entry for entry in hooks if entry["hook"] == fault.label]
        undone = [entry for entry in hooks if entry["hook"] == f"{fault.label}-undone"]
        for number, entry in enumerate(begun):
            if entry["state"] == "not reached":
                continue
            end_ns = None
            if number < len(undone):
                end = undone[number]
                end_ns = end.get("ready_unix_ns", end["ended_unix_ns"]) + fault.recovery_ns
            yield Window(entry["started_unix_ns"], end_ns)


def failed_outside(record: Record, windows: Sequence[Window]) -> int:
    """Return how many requests of a trial failed in seconds that no window meets.

    A request without an answer was sent as long before it was given up as a timeout is.
    """
    rows = record.read_intervals(["outcome", "second", "requests"])
    started_ns = record.summary.get("started_unix_ns") or 0
    failed = 0
    for outcome, second, requests in zip(
        rows["outcome"], rows["second"], rows["requests"], strict=True
    ):
        if outcome in _EXPECTED:
            continue
        end_ns = started_ns + (second + 1) * SECOND_NS
        waited_ns = record.trial["timeout_ns"] if outcome == "timeout" else 0
        begin_ns = end_ns - SECOND_NS - waited_ns
        if not any(window.meets(begin_ns, end_ns) for window in windows):
            failed += requests
    return failed
