"""Data that a run may have left on its targets, from its plan and the started trials."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from loadstone.campaign.drivers import Drivers
from loadstone.campaign.planning import beyond, lifecycle
from loadstone.campaign.planning.kinds import LOAD, QUERIES, kind_of
from loadstone.campaign.planning.lifecycle import dataset_of, place_of
from loadstone.campaign.planning.placement import Buckets
from loadstone.documents.mix import CHANGES_NOTHING, operations_of
from loadstone.documents.summary import LeftPlace, Summary
from loadstone.documents.trial import TrialDocument

REMADE = (
    "this run made it, and its mark is gone: others have removed it and made it again, or removed "
    "the mark"
)


@dataclass(frozen=True, slots=True)
class Remains:
    """A dataset that still exists, or may exist."""

    target: str
    driver: str
    buckets: Buckets
    clean_up: TrialDocument
    """A trial document that deletes it."""
    reasons: tuple[str, ...] = ()
    """Why the run's own clean-up left it, if it ran."""
    kinds: frozenset[str] = frozenset()
    """The kinds of these reasons."""
    created: frozenset[str] = frozenset()
    """The places that this run is known to have created."""

    @property
    def has_versions(self) -> bool:
        """Whether versions or delete markers remain, which ordinary listings do not show."""
        return not self.kinds.isdisjoint(("hidden", "locked"))

    def describe(self) -> str:
        """Return a short description of its place."""
        first, last = self.buckets.first(), self.buckets.last()
        names = f'"{first}"' if first == last else f'"{first}" to "{last}"'
        return f"target {self.target} ({self.driver}): {names}"


def remains(
    plan: Iterable[TrialDocument], begun: Mapping[str, Summary], drivers: Drivers
) -> list[Remains]:
    """Return what remains of a run; `begun` maps each started trial to its summary.

    An unfinished trial has an empty summary. Objects that the run only read, or that another run
    wrote, are left out.
    """
    documents = list(plan)
    left: dict[tuple[str, str], TrialDocument] = {}
    left_places: dict[tuple[str, str], list[LeftPlace]] = {}
    created: dict[tuple[str, str], set[str]] = {}
    for document in sorted(documents, key=lambda document: began(begun.get(document["id"]))):
        summary = begun.get(document["id"])
        driver = drivers.get(document["target"]["driver"])
        if summary is None or driver is None or not lifecycle.can_clean_up(driver):
            continue
        if not document.get("dataset") or dataset_of(document).get("written_by"):
            continue
        ours = created.setdefault(place_of(document), set())
        if document["phase"] == lifecycle.CLEAN_UP:
            summary = with_remade(summary, ours)
            if is_removed(summary, document):
                left.pop(place_of(document), None)
            left_places[place_of(document)] = places_left(summary)
            continue
        ours |= set(summary.get("buckets_created") or ())
        # The trial has found it without the mark, and claimed its keys.
        ours -= set(summary.get("buckets_foreign") or ())
        if not CHANGES_NOTHING.issuperset(operations_of(document)):
            left.setdefault(place_of(document), document)
    remaining = [
        Remains(
            target=document["target"]["name"],
            driver=document["target"]["driver"],
            buckets=Buckets(dataset_of(document)["bucket_prefix"], dataset_of(document)["buckets"]),
            clean_up=_clean_up(document, documents, number),
            reasons=tuple(
                dict.fromkeys(
                    str(left_place["reason"])
                    for left_place in left_places.get(place, ())
                    if left_place.get("reason")
                )
            ),
            kinds=frozenset(
                left_place.get("kind", "") for left_place in left_places.get(place, ())
            ),
            created=frozenset(created[place]),
        )
        for number, (place, document) in enumerate(left.items(), start=1)
    ]
    return [*remaining, *_tables(documents, begun)]


def _tables(plan: Iterable[TrialDocument], begun: Mapping[str, Summary]) -> Iterable[Remains]:
    """Yield the tables of queries that a run loaded and did not remove."""
    left: dict[tuple[str, str], TrialDocument] = {}
    for document in plan:
        summary = begun.get(document["id"])
        if kind_of(document) != QUERIES or summary is None:
            continue
        place = (document["target"]["name"], document["queries"]["place"])
        tables = summary.get("data")
        if document["phase"] == LOAD and not (tables and tables["was_there"]):
            left[place] = document
        elif document["phase"] == lifecycle.CLEAN_UP and is_removed(summary, document):
            left.pop(place, None)
    for number, ((target, name), document) in enumerate(left.items(), start=1):
        yield Remains(
            target=target,
            driver=document["target"]["driver"],
            buckets=Buckets(name, 1),
            clean_up={**document, "phase": lifecycle.CLEAN_UP, "id": f"clean-tables-{number}"},
        )


def unknown_drivers(plan: Iterable[TrialDocument], drivers: Drivers) -> list[str]:
    """Return a plan's drivers that this build lacks, such as those of imported runs."""
    names = {str(document["target"]["driver"]) for document in plan}
    return sorted(names - set(drivers))


def is_removed(summary: Summary, document: TrialDocument) -> bool:
    """Tell whether a clean-up removed everything that the run may have stored in a dataset's
    places.
    """
    if summary.get("state") != "finished" or places_left(summary):
        return False
    # If an object could not be deleted but its bucket was, the object is gone.
    return not summary.get("failed") or places_gone(summary) >= dataset_of(document)["buckets"]


def with_remade(summary: Summary, created: Collection[str]) -> Summary:
    """Return a clean-up's summary in which places that others have made again count as left.

    `created` are the places that the run created. What it wrote into one after others made it again
    bears no mark or claim, so that the clean-up leaves it, and cannot tell that it is there.
    """
    foreign = set(created).intersection(summary.get("buckets_foreign") or ())
    foreign.update(
        left["place"]
        for left in places_left(summary)
        if left.get("kind") == "foreign" and left["place"] in created
    )
    if not foreign:
        return summary
    others = [left for left in summary.get("places_left") or () if left["place"] not in foreign]
    remade = [LeftPlace(place=place, kind="foreign", reason=REMADE) for place in sorted(foreign)]
    return {**summary, "places_left": [*others, *remade]}


def places_gone(summary: Summary) -> int:
    """Return how many places do not exist after a clean-up, whether deleted or never created."""
    return len(summary.get("buckets_deleted") or ()) + len(summary.get("buckets_absent") or ())


def places_left(summary: Summary) -> list[LeftPlace]:
    """Return the places in which a clean-up left data of the run, or may have."""
    if "places_left" not in summary:
        return [{"place": name} for name in summary.get("buckets_left") or ()]
    # A place marked by another run no longer belongs to this run.
    return [place for place in summary["places_left"] or () if place.get("kind") != "other_run"]


def began(summary: Summary | None) -> float:
    """Return the start time of a trial in Unix nanoseconds, for sorting."""
    # An unfinished trial is the last of its session, whatever its start time.
    return float((summary or {}).get("started_unix_ns", "inf"))


def _clean_up(document: TrialDocument, plan: Iterable[TrialDocument], number: int) -> TrialDocument:
    # Imported here: a report asks what is left, and needs no planning.
    from loadstone.campaign.planning.trial import PREPARE_THREADS_OPEN, clean_up_of

    same = [trial for trial in plan if place_of(trial) == place_of(document)]
    written = [objects for other in same if (objects := beyond.written_beyond(other)) is not None]
    load = document["load"]
    threads = load["clients"] if load["kind"] == "closed" else PREPARE_THREADS_OPEN
    return {**clean_up_of(document, threads, written), "id": f"clean-{number}"}
