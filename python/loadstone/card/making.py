"""Asks a target questions in places made for them, and removes these afterwards."""

import datetime
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

from loadstone import __version__, _loadgen
from loadstone.campaign.drivers import read_drivers
from loadstone.card import place, removing
from loadstone.card.conclusion import (
    Conclusion,
    DeniedError,
    NotApplicableError,
    UnansweredError,
    no,
)
from loadstone.card.place import FIRST, PREFIX, CardPlace
from loadstone.card.questions import retention, versions
from loadstone.card.store import QUESTION_S, AskedTarget, Request, Shared, Store
from loadstone.card.table import ALONE, BOTH, IN_TURN, QUESTIONS, Question, Where
from loadstone.documents.card import NO_ANSWERS, AskedOf, Card, CardRow
from loadstone.documents.load_event import LoadEvent
from loadstone.documents.trial import TargetDocument
from loadstone.errors import TargetError

AT_ONCE: Final = 6
"""Number of concurrent questions, because each takes long on a remote store."""
QUESTIONS_S: Final = 20.0
"""Time limit of all questions together, for a store that answers few of them."""
READY_S: Final = 3.0
"""Time limit of the retries of what makes a place: the first retry after it is not waited for."""
REMOVAL_S: Final = 10.0
DETAIL_CHARACTERS: Final = 200
FAILURES: Final = (
    _loadgen.TargetError, TargetError, DeniedError, UnansweredError, ValueError, OSError
)  # fmt: skip
"""Outcomes that prevent the removal of a place."""
SWIFT_VERSIONS: Final = ("x-versions-enabled", "x-versions-location", "x-history-location")
"""Headers of a container that keeps deleted objects."""
UNDECIDED: Final = Conclusion("undecided", "there is no place to test it in")
NOT_OURS: Final = frozenset({"foreign", "other_run"})
"""Reasons why a clean-up leaves a place: it is unmarked, or has another run's mark."""
NUMBERED: Final = tuple(
    (group, question) for group, questions in QUESTIONS.items() for question in questions
)


def as_target_error(error: _loadgen.TargetError) -> TargetError:
    """Return the load generator's error as a TargetError."""
    return TargetError(error.message, error.hint, kind=error.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAnswers:
    """The conclusions by group, with the target, time and server."""

    facts: AskedOf
    answers: list[tuple[str, Question, Conclusion]]


@dataclass(frozen=True, slots=True)
class _Ground:
    """The place where questions of a kind are asked, or the answer that applies to all of them."""

    place: CardPlace | None
    instead: Conclusion = UNDECIDED


def make_card(
    target: TargetDocument,
    *,
    say_left: Callable[[str], None],
    say_freed: Callable[[str], None],
    bucket: str | None = None,
    allow_foreign: bool = False,
    with_retention: bool = False,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Card:
    """Ask a target all questions of a card, as `ask_target` does.

    `with_retention` locks objects for a moment, in a bucket of the card's own. Once `is_stopped`,
    no further question is asked, and the card is of no use.
    """
    questions = [row for row in NUMBERED if with_retention or row[1].where != "locked"]
    asked = ask_target(
        target, questions, say_left=say_left, say_freed=say_freed, bucket=bucket,
        allow_foreign=allow_foreign, limit_s=QUESTIONS_S, is_stopped=is_stopped,
    )  # fmt: skip
    return {**asked.facts, "rows": [_row(*answer) for answer in asked.answers]}


def ask_target(
    target: TargetDocument,
    questions: Sequence[tuple[str, Question]],
    *,
    say_left: Callable[[str], None],
    say_freed: Callable[[str], None],
    limit_s: float,
    bucket: str | None = None,
    allow_foreign: bool = False,
    is_stopped: Callable[[], bool] = lambda: False,
) -> TargetAnswers:
    """Ask a target the questions of its protocol; raise if it cannot be used at all.

    `say_left` receives a line for each item that could not be removed, even if this raises;
    `say_freed` one for each item of a killed card that was removed.

    `bucket` is a place that the user names; with `allow_foreign` it may be foreign, and everything
    is written below a unique prefix. No question starts later than `limit_s` after the first.
    """
    began, when = time.monotonic(), datetime.datetime.now(datetime.UTC)
    protocol = read_drivers()[target["driver"]].facts.protocol
    questions = [row for row in questions if protocol in row[1].protocols]
    if not questions:
        raise TargetError(
            f'target "{target["name"]}": driver "{target["driver"]}" cannot be asked that',
            f"only stores that speak {' or '.join(BOTH)} can",
            kind="unsupported",
        )
    number = secrets.token_hex(4)
    objects = CardPlace(
        name=bucket or f"{PREFIX}{number}",
        prefix=f"{PREFIX}{number}/",
        run=secrets.token_hex(16),
        target=target,
        allow_foreign=allow_foreign,
    )
    asking = _Asking(objects, protocol, limit_s, is_stopped)
    asking.free(target, say_freed)
    if bucket is not None:
        asking.refuse_what_stays(objects)
        objects = replace(objects, keeps_versions=asking.keeps_versions(objects))
    # Questions that need no place use one that may not exist.
    places: dict[Where, CardPlace] = {"objects": objects, "anywhere": objects}
    apart = replace(objects, allow_foreign=False, keeps_versions=True)
    needed = {question.where for _, question in questions}
    if "versions" in needed:
        places["versions"] = replace(
            apart, name=f"{PREFIX}{number}-versions", run=secrets.token_hex(16)
        )
    if "locked" in needed:
        places["locked"] = replace(
            apart, name=f"{PREFIX}{number}-locked", run=secrets.token_hex(16),
            target=_locking(target),
        )  # fmt: skip
    note = place.write_note(target, list({place.name: place for place in places.values()}.values()))
    left = ["all of it"]
    try:
        ground = asking.make(objects)
        answers = asking.answers(questions, places, ground)
    finally:
        left = asking.remove()
        for line in left:
            say_left(line)
        if note is not None:
            note.end(is_all_removed=not left)
    facts: AskedOf = {
        "target": target["name"],
        "protocol": protocol,
        "server": asking.server,
        "place": ground.place.name if ground.place else None,
        "when": when.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - began, 3),
        "requests": asking.requests,
        "loadstone": __version__,
    }
    return TargetAnswers(facts=facts, answers=answers)


class _Asking:
    """The connections of a card, separate for each thread, and the places that it created."""

    def __init__(
        self, first: CardPlace, protocol: str, limit_s: float, is_stopped: Callable[[], bool]
    ) -> None:
        self._document = first.document("put")
        self._protocol = protocol
        self._limit_s = limit_s
        self._is_stopped = is_stopped
        self._local = threading.local()
        self._targets: list[AskedTarget] = []
        self._places: list[CardPlace] = []
        self._shared: dict[str, Shared] = {}
        self._lock = threading.Lock()
        self._versioned: set[str] = set()
        self._intended: set[str] = set()
        self._unready: set[str] = set()

    @property
    def requests(self) -> int:
        """The number of requests sent, without those for ownership."""
        return sum(target.requests for target in self._targets)

    @property
    def server(self) -> str | None:
        """The server's name, from its responses."""
        names = (target.server for target in self._targets)
        return next((shown(name) for name in names if name), None)

    def refuse_what_stays(self, place: CardPlace) -> None:
        """Raise if a place retains written objects, because they could not be removed."""
        store = self._store(place, "")
        try:
            if store.is_swift:
                reply = store.ask(Request(method="HEAD"), may_be_denied=True)
                settings = (reply.headers.get(name, "false").lower() for name in SWIFT_VERSIONS)
                if any(word != "false" for word in settings):
                    raise _keeps_objects(place, "keeps versions of")
                return
            request = Request(method="GET", query={"object-lock": None})
            reply = store.ask(request, may_be_denied=True)
            if reply.is_ok and b"<Rule>" in reply.body:
                raise _keeps_objects(place, "locks")
            reply = store.ask(Request(method="GET", query={"versioning": None}), may_be_denied=True)
            if reply.is_ok and b"<Status>" in reply.body:
                self._versioned.add(place.name)
        except UnansweredError as error:
            raise TargetError(f'bucket "{place.name}": {error}', kind="unreachable") from error

    def make(self, place: CardPlace) -> _Ground:
        """Create a place; if that is denied, the questions that need it are answered "refused"."""
        self._places.append(place)
        ends = time.monotonic() + READY_S

        def note(event: LoadEvent) -> None:
            if event["kind"] == "intent":
                self._intended.add(place.name)
            elif event["kind"] == "unmade":
                self._intended.difference_update(event["names"])
            elif event["kind"] == "retry" and time.monotonic() > ends:
                raise TargetError(f'bucket "{place.name}": {event["text"]}', kind="unreachable")

        try:
            place.prepare(note)
        except TargetError:
            self._unready.add(place.name)
            raise
        except _loadgen.TargetError as error:
            self._unready.add(place.name)
            # A refused place holds nothing of this card; an allowed foreign one may hold a claim.
            if not place.allow_foreign and place.name not in self._intended:
                self._places.remove(place)
            if error.kind == "denied":
                return _Ground(None, Conclusion("refused", shown(error.message)))
            raise as_target_error(error) from error
        if not self._store(place, "").is_swift:
            headers = self._headers_of_first(place)
            if "x-amz-version-id" in headers:
                self._versioned.add(place.name)
            if "x-amz-object-lock-mode" in headers:
                raise _keeps_objects(place, "locks")
        return _Ground(place)

    def keeps_versions(self, place: CardPlace) -> bool:
        """Tell whether a place is known to keep versions."""
        return place.name in self._versioned

    def free(self, target: TargetDocument, say_freed: Callable[[str], None]) -> None:
        """Remove the data that killed cards left on a target."""
        for note, places in place.notes_left(target):
            is_all_removed = False
            try:
                left = [line for place in places for line in self._free(place, say_freed)]
                is_all_removed = not left
            except FAILURES:
                # They stay recorded: this card must not fail because of them.
                pass
            finally:
                note.end(is_all_removed=is_all_removed)

    def _free(self, place: CardPlace, say_freed: Callable[[str], None]) -> list[str]:
        """Remove a killed card's data from a place; return the remains."""
        store = self._store(place, "", REMOVAL_S)
        if place.allow_foreign:
            if not removing.has_claim(store, place.run):
                return []
        else:
            # Only a randomly named bucket cannot have been created by the user since.
            if place.name.startswith(PREFIX):
                self._intended.add(place.name)
            # The clean-up checks the mark, so it precedes everything else.
            summary = place.remove(with_versions=False, is_ours=place.name in self._intended)
            left = summary["places_left"] or []
            if not left or {entry["kind"] for entry in left} & NOT_OURS:
                return []
        if place.keeps_versions:
            self._versioned.add(place.name)
        if not store.is_swift:
            removing.abort_listed_uploads(store)
        rest = [f'"{stays}"' for stays in [self._empty(place)] if stays] or self._remove(place)
        say_freed(f'{"not all of" if rest else "removed"} "{place.name}", which a killed card left')
        return rest

    def _make_versioned(self, place: CardPlace) -> _Ground:
        """Create a place that keeps versions; return the reason if that is not possible."""
        ground = self.make(place)
        if ground.place is None:
            return ground
        reply = versions.enable(self._store(place, ""))
        if not reply.is_ok:
            return _Ground(None, no(f"versions cannot be kept: {reply.words}"))
        self._versioned.add(place.name)
        return ground

    def _make_apart(self, where: Where, place: CardPlace) -> _Ground:
        """Create an additional place; return the reason if that is not possible."""
        try:
            if where == "versions":
                return self._make_versioned(place)
            ground = self.make(place)
        except DeniedError as error:
            return _Ground(None, Conclusion("refused", str(error)))
        except (UnansweredError, TargetError) as error:
            is_unsupported = isinstance(error, TargetError) and error.kind == "unsupported"
            if where == "locked" and is_unsupported:
                return _Ground(None, no("it creates no bucket with locks"))
            return _Ground(None, Conclusion("undecided", shown(str(error))))
        # A bucket with object lock keeps versions.
        self._versioned.add(place.name)
        return ground

    def answers(
        self,
        questions: Sequence[tuple[str, Question]],
        places: Mapping[Where, CardPlace],
        objects: _Ground,
    ) -> list[tuple[str, Question, Conclusion]]:
        """Ask questions concurrently, except those of the same turn, which run one after
        another.
        """
        turns: dict[str, list[Question]] = {}
        for _, question in questions:
            in_turn = question.where if question.where in IN_TURN else question.turn
            turns.setdefault(in_turn or question.name, []).append(question)
        answers: dict[str, Conclusion] = {}
        ends = time.monotonic() + self._limit_s
        out_of_time = Conclusion("undecided", f"not asked: the others took {self._limit_s:g} s")

        def ask(turn: Sequence[Question]) -> None:
            where = turn[0].where
            ground = objects if where == "objects" else _Ground(places[where])
            if where in IN_TURN:
                ground = self._make_apart(where, places[where])
            for question in turn:
                is_late = time.monotonic() > ends or self._is_stopped()
                answers[question.name] = self._ask(
                    question, _Ground(None, out_of_time) if is_late else ground
                )

        alone = turns.pop(ALONE, [])
        pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="card")
        try:
            # Longest turns start first.
            longest_first = sorted(turns.values(), key=len, reverse=True)
            for future in [pool.submit(ask, turn) for turn in longest_first]:
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)
        if alone:
            ask(alone)
        return [(group, question, answers[question.name]) for group, question in questions]

    def remove(self) -> list[str]:
        """Remove the created places; return the remains, one line each."""
        with ThreadPoolExecutor(thread_name_prefix="card") as pool:
            return [line for left in pool.map(self._clear, self._places) for line in left]

    def _clear(self, place: CardPlace) -> list[str]:
        """Empty and remove a place; return the remains."""
        try:
            stays = None if place.name in self._unready else self._empty(place)
            rest = self._remove(place)
        except FAILURES as error:
            return [f'"{place.name}": {shown(str(error))}']
        if stays is not None:
            return [f'"{place.name}": the store does not delete "{shown(stays)}"']
        return rest

    def _empty(self, place: CardPlace) -> str | None:
        """Delete the objects of the questions; return the key of one that remains."""
        store = self._store(place, "", REMOVAL_S)
        if store.ask(Request(method="HEAD")).status == 404:
            # A fault has destroyed the bucket.
            return None
        uploads = {upload for target in self._targets for upload in target.uploads(place.name)}
        removing.abort_uploads(store, sorted(uploads))
        if place.name in self._versioned:
            return removing.remove_versions(store)
        return removing.remove_objects(store, sorted(self._written(place) | {place.first_key}))

    def _remove(self, place: CardPlace) -> list[str]:
        """Remove an empty place; return the remains."""
        name = place.name
        with_versions, is_ours = name in self._versioned, name in self._intended
        summary = place.remove(with_versions=with_versions, is_ours=is_ours)
        if summary["places_left"] and name not in self._unready:
            # Stores over directories keep those of puts that they have refused.
            below = {key.removeprefix(place.prefix) for key in self._written(place)}
            folders = sorted({key[: key.index("/") + 1] for key in below if "/" in key})
            removing.remove_folders(self._store(place, "", REMOVAL_S), folders)
            summary = place.remove(with_versions=with_versions, is_ours=is_ours)
        return [f'"{rest["place"]}": {rest["reason"]}' for rest in summary["places_left"] or ()]

    def _written(self, place: CardPlace) -> set[str]:
        return {key for target in self._targets for key in target.written(place.name)}

    def _ask(self, question: Question, ground: _Ground) -> Conclusion:
        if ground.place is None:
            return ground.instead
        try:
            return question.ask(self._store(ground.place, f"{question.name}/", question.limit_s))
        except (DeniedError, NotApplicableError) as error:
            return Conclusion("refused", str(error))
        except (UnansweredError, TargetError) as error:
            return Conclusion("undecided", str(error))
        # A response may be malformed in any way.
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            return Conclusion("undecided", f"the response is not understood: {error}")

    def _store(self, place: CardPlace, below: str, seconds: float = QUESTION_S) -> Store:
        target: AskedTarget | None = getattr(self._local, "target", None)
        if target is None:
            try:
                target = self._local.target = AskedTarget(self._document, self._protocol)
            except _loadgen.TargetError as error:
                raise as_target_error(error) from error
            self._targets.append(target)
        with self._lock:
            shared = self._shared.setdefault(place.name, Shared(place.prefix))
        ends = time.monotonic() + seconds
        return Store(target, place.name, f"{place.prefix}{below}", ends, seconds, shared)

    def _headers_of_first(self, place: CardPlace) -> Mapping[str, str]:
        """Return the headers of the object that was written when the place was created."""
        try:
            return self._store(place, "").head(FIRST, may_be_denied=True).headers
        except UnansweredError:
            return {}


def _locking(target: TargetDocument) -> TargetDocument:
    """Return a target whose new buckets can lock objects."""
    # Settings are specific to the driver, so their type is unknown here.
    settings: Any = dict(target["settings"])
    settings["headers"] = {**settings.get("headers", {}), **retention.LOCKING}
    return {**target, "settings": settings}


def _keeps_objects(place: CardPlace, does: str) -> TargetError:
    return TargetError(
        f'bucket "{place.name}" {does} what is written into it: nothing there could be removed',
        "name another bucket, or none: then the card makes one",
    )


def _row(group: str, question: Question, answer: Conclusion) -> CardRow:
    is_usual = question.usual is None or answer.word == question.usual
    return {
        "group": group,
        "name": question.name,
        "question": question.text,
        "answer": answer.word,
        "detail": shown(answer.detail),
        "means": "" if answer.word in ("yes", *NO_ANSWERS) else question.means,
        "usual": is_usual,
    }


def shown(text: str) -> str:
    """Return a store's message as one line without secrets."""
    return _loadgen.foreign_line(text)[:DETAIL_CHARACTERS]
