"""The number of objects that clean-ups found, against the number that earlier trials imply.

A mismatch reveals a store that acknowledged puts or deletes it did not perform, even if no object
is read back. Each trial moves a lower and an upper bound of the number of objects. A failed request
widens them, since it may have been done. Nothing is expected where anything else may have changed
the objects.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.measured.rows import Rows
from loadstone.campaign.planning.lifecycle import CLEAN_UP, dataset_of, order_of, place_of
from loadstone.campaign.remains import is_removed
from loadstone.documents.mix import KEEPS_OBJECTS, operations_of
from loadstone.documents.trial import TrialDocument
from loadstone.results.record import Record, Run
from loadstone.units import counted

_PUTS, _DELETES = ("put", "put_if_absent"), ("delete", "delete_if_match")
_OK = "ok"
VERSION_SETTINGS = ("delete_versions", "versioning", "retention_s")
"""Settings of targets whose buckets keep versions."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest number of objects that may be there."""

    least: int = 0
    most: int = 0

    def put(self, *, surely: int, perhaps: int, universe: int) -> "Bounds":
        """Return the bounds after puts of distinct objects out of `universe`."""
        return Bounds(max(self.least, surely), min(universe, self.most + perhaps))

    def remove(self, *, surely: int, perhaps: int, universe: int) -> "Bounds":
        """Return the bounds after deletes of distinct objects out of `universe`."""
        return Bounds(max(0, self.least - perhaps), min(self.most, universe - surely))

    def __add__(self, other: "Bounds") -> "Bounds":
        return Bounds(self.least + other.least, self.most + other.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """The requests of one operation in one trial, over all stages."""

    good: int = 0
    failed: int = 0
    good_objects: int = 0

    @property
    def all(self) -> int:
        """How many ended."""
        return self.good + self.failed


@dataclass(slots=True)
class Place:
    """The objects of one dataset: originals, their copies, and those that mixes added."""

    originals: Bounds = field(default_factory=Bounds)
    copies: Bounds = field(default_factory=Bounds)
    beyond: Bounds = field(default_factory=Bounds)
    objects: int | None = None
    is_known: bool = True

    @property
    def expected(self) -> Bounds:
        """How many objects there are in all."""
        return self.originals + self.copies + self.beyond

    def note(self, document: TrialDocument, requests: Mapping[str, RequestCounts]) -> None:
        """Take note of a trial that ran to its end."""
        operations = operations_of(document)
        objects = dataset_of(document).get("objects") or 0
        # Datasets of several sizes in one place have objects in common.
        is_another = self.objects not in (None, objects)
        self.objects = objects
        is_free = bool(document.get("script") or document.get("keeps_history"))
        if is_free or not operations or is_another:
            self.is_known = False
        elif len(operations) > 1:
            self._note_mix(requests)
        else:
            self._note_phase(document, requests.get(operations[0], RequestCounts()))

    def _note_mix(self, requests: Mapping[str, RequestCounts]) -> None:
        """In a mix each put makes a new object, and each delete removes one that was put."""
        puts = [requests.get(name, RequestCounts()) for name in _PUTS]
        deletes = [requests.get(name, RequestCounts()) for name in _DELETES]
        self.beyond += Bounds(
            sum(put.good for put in puts) - sum(delete.all for delete in deletes),
            sum(put.all for put in puts) - sum(delete.good for delete in deletes),
        )
        if requests.keys() - KEEPS_OBJECTS - {*_PUTS, *_DELETES}:
            self.is_known = False

    def _note_phase(self, document: TrialDocument, requests: RequestCounts) -> None:
        (operation,) = operations_of(document)
        objects = dataset_of(document).get("objects") or 0
        # Each request takes the next object.
        goes_over = order_of(document) == "sequential" and _runs_once(document)
        match operation:
            case _ if operation in KEEPS_OBJECTS:
                pass
            case "put" | "put_if_absent" | "copy":
                surely = min(objects, requests.all) - requests.failed if goes_over else 0
                bounds = self.copies if operation == "copy" else self.originals
                bounds = bounds.put(surely=surely, perhaps=requests.all, universe=objects)
                if operation == "copy":
                    self.copies = bounds
                else:
                    self.originals = bounds
            case "delete" | "delete_if_match":
                surely = requests.good if goes_over and requests.all <= objects else 0
                self.originals = self.originals.remove(
                    surely=surely, perhaps=requests.all, universe=objects
                )
            case "bulk_delete":
                keys = document["options"]["bulk_keys"]
                surely = requests.good_objects if goes_over else 0
                self.originals = self.originals.remove(
                    surely=min(objects, surely), perhaps=keys * requests.all, universe=objects
                )
            case _:
                # Blocks and parts may be objects of their own, or none.
                self.is_known = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUpCount:
    """A clean-up that met an unexpected number of objects."""

    trial: str
    met: Bounds
    expected: Bounds

    def __str__(self) -> str:
        """Say it in a few words."""
        return (
            f"clean-up found {counted(self.met.most, 'object')} where the record expects"
            f" {_span(self.expected)}"
        )


class ObjectCounts:
    """Follows the trials of a run in the order in which they ran."""

    def __init__(self, run: Run) -> None:
        """Begin before the first trial."""
        self.wrong: list[CleanUpCount] = []
        self._places: dict[tuple[str, str], Place] = {}
        self._missing = _trials_without_record(run)
        # A resumed run keeps no record of the attempts that were interrupted.
        self._is_whole = not run.manifest.get("resumed")

    def note(self, record: Record, intervals: Rows) -> None:
        """Take note of one trial; trials come in the plan's order, in which they ran."""
        document, summary = record.trial, record.summary
        if not dataset_of(document).get("bucket_prefix"):
            return
        key = place_of(document)
        place = self._places.setdefault(key, Place())
        if document["phase"] == CLEAN_UP:
            self._compare(record, place)
            self._places[key] = Place()
        elif not self._is_alone(record):
            place.is_known = False
        elif summary.get("requests"):
            place.note(document, _requests(intervals))

    def _compare(self, record: Record, place: Place) -> None:
        summary = record.summary
        swept = summary.get("objects_swept") or 0
        # A listing that lags behind may show deleted objects, which are then counted twice.
        met = Bounds(swept - (summary.get("objects_swept_again") or 0), swept)
        is_counted = "objects_swept_again" in summary and is_removed(summary, record.trial)
        is_counted = is_counted and bool(summary.get("buckets_deleted"))
        if not (place.is_known and is_counted and self._is_alone(record)):
            return
        expected = place.expected
        if met.most < expected.least or met.least > expected.most:
            self.wrong.append(CleanUpCount(trial=record.id, met=met, expected=expected))

    def _is_alone(self, record: Record) -> bool:
        """Tell whether only complete trials of this run changed the objects."""
        document, summary = record.trial, record.summary
        ownership = document.get("ownership") or {}
        settings = document["target"].get("settings") or {}
        # With versions, a delete adds a marker, which a clean-up deletes and counts.
        keeps_versions = any(settings.get(name) for name in VERSION_SETTINGS)
        is_ours = not (
            document.get("allow_foreign")
            or summary.get("buckets_foreign")
            or ownership.get("runs")
            or dataset_of(document).get("written_by")
            or keeps_versions
        )
        hosts = summary.get("hosts") or ()
        is_whole = (
            self._is_whole
            and record.is_whole
            and summary.get("state") == "finished"
            and all(host.get("state") == "finished" for host in hosts)
            and place_of(document) not in self._missing
        )
        return is_ours and is_whole


def find_miscounted(wrong: Sequence[CleanUpCount]) -> Iterator[Finding]:
    """Report clean-ups that met fewer or more objects than expected."""
    for is_fewer in (True, False):
        chosen = [
            clean_up
            for clean_up in wrong
            if (clean_up.met.most < clean_up.expected.least) is is_fewer
        ]
        if not chosen:
            continue
        first = chosen[0]
        why = (
            "puts that the store acknowledged are not there"
            if is_fewer
            else "deletes that the store acknowledged were not done"
        )
        more = f" ({counted(len(chosen), 'clean-up')} so)" if len(chosen) > 1 else ""
        yield Finding(
            "clean-up-miscounted",
            f"{first}: {why}{more}",
            evidence=tuple(
                Evidence(
                    "objects found by clean-up",
                    float(clean_up.met.most),
                    float(clean_up.expected.least if is_fewer else clean_up.expected.most),
                    unit="objects",
                    place=f"trial {clean_up.trial}",
                )
                for clean_up in chosen
            ),
            cases=tuple(f"trial {clean_up.trial}" for clean_up in chosen),
        )


def _span(bounds: Bounds) -> str:
    if bounds.least == bounds.most:
        return f"{bounds.least:,}"
    return f"{bounds.least:,} to {bounds.most:,}"


def _requests(intervals: Rows) -> dict[str, RequestCounts]:
    """Count a trial's requests by operation."""
    counts: dict[str, RequestCounts] = {}
    names = dict.fromkeys(intervals["operation"].tolist())
    for name in names:
        rows = intervals.where("operation", name)
        good = rows.where("outcome", _OK)
        every = rows.sum("requests")
        counts[str(name)] = RequestCounts(
            good=good.sum("requests"),
            failed=every - good.sum("requests"),
            good_objects=good.sum("objects"),
        )
    return counts


def _runs_once(document: TrialDocument) -> bool:
    """Tell whether a trial goes over its objects once."""
    stages = document.get("warm_up_ns") or document.get("cool_down_ns")
    return document.get("iterations", 1) == 1 and not stages


def _trials_without_record(run: Run) -> set[tuple[str, str]]:
    """Return the places with a planned trial that left no record."""
    recorded = {record.id for record in run.records}
    return {place_of(document) for document in run.plan if document["id"] not in recorded}
