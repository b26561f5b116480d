"""Makes the card of a target: places of its own, the questions, and all of it removed again."""

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
from loadstone.card import removing
from loadstone.card.conclusion import Conclusion, DeniedError, UnansweredError, no
from loadstone.card.place import FIRST, PREFIX, CardPlace
from loadstone.card.questions import retention, versions
from loadstone.card.store import QUESTION_S, AskedTarget, Request, Store
from loadstone.card.table import BOTH, IN_TURN, QUESTIONS, Question, Where
from loadstone.documents.card import Card, CardRow
from loadstone.documents.load_event import LoadEvent
from loadstone.documents.trial import TargetDocument
from loadstone.errors import TargetError

AT_ONCE: Final = 6
"""Questions that are asked at the same time: a store that is far away takes its time with each."""
QUESTIONS_S: Final = 20.0
"""What all questions together may take of a store that answers few of them."""
REMOVAL_S: Final = 10.0
DETAIL_CHARACTERS: Final = 200
OUT_OF_TIME: Final = Conclusion("undecided", f"not asked: the others took {QUESTIONS_S:g} s")
FAILURES: Final = (
    _loadgen.TargetError, TargetError, DeniedError, UnansweredError, ValueError, OSError
)  # fmt: skip
"""What keeps a place from being removed."""
SWIFT_VERSIONS: Final = ("x-versions-enabled", "x-versions-location", "x-history-location")
"""Headers of a container that keeps what is deleted in it."""
UNDECIDED: Final = Conclusion("undecided", "there is no place to try it in")
NUMBERED: Final = tuple(
    (group, question) for group, questions in QUESTIONS.items() for question in questions
)


def as_target_error(error: _loadgen.TargetError) -> TargetError:
    """Return the load generator's error as one of ours."""
    return TargetError(error.message, error.hint, kind=error.kind)


@dataclass(frozen=True, slots=True)
class _Ground:
    """Where a kind of questions is asked: a place, or the answer that stands for each of them."""

    place: CardPlace | None
    instead: Conclusion = UNDECIDED


def make_card(
    target: TargetDocument,
    *,
    say_left: Callable[[str], None],
    bucket: str | None = None,
    allow_foreign: bool = False,
    with_retention: bool = False,
) -> Card:
    """Ask a target all questions of its driver; raise where it cannot be asked at all.

    `say_left` is told in a line each what could not be removed, also where it raises.

    `bucket` is a place that the user names; with `allow_foreign` it may be another's, and all is
    written below a prefix of the card's own. `with_retention` locks objects for a moment, in a
    bucket of the card's own.
    """
    began, when = time.monotonic(), datetime.datetime.now(datetime.UTC)
    protocol = read_drivers()[target["driver"]].facts.protocol
    if not protocol:
        raise TargetError(
            f'target "{target["name"]}": driver "{target["driver"]}" has no card',
            f"cards are made of stores that speak {' or '.join(BOTH)}",
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
    asking = _Asking(objects, protocol)
    try:
        if bucket is not None:
            asking.refuse_what_stays(objects)
        ground = asking.make(objects)
        # What needs no place is asked of one that may not be there.
        grounds: dict[Where, _Ground] = {"objects": ground, "anywhere": _Ground(objects)}
        unshared = replace(objects, allow_foreign=False)
        if any(row.where == "versions" for _, row in NUMBERED if protocol in row.protocols):
            versioned = replace(
                unshared, name=f"{PREFIX}{number}-versions", run=secrets.token_hex(16)
            )
            grounds["versions"] = asking.make_versioned(versioned)
        if with_retention:
            locking = replace(
                unshared, name=f"{PREFIX}{number}-locked", run=secrets.token_hex(16),
                target=_locking(target),
            )  # fmt: skip
            grounds["locked"] = asking.make_locking(locking)
        rows = asking.rows(grounds)
    finally:
        for line in asking.remove():
            say_left(line)
    return {
        "target": target["name"],
        "protocol": protocol,
        "server": asking.server,
        "place": ground.place.name if ground.place else None,
        "when": when.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - began, 3),
        "requests": asking.requests,
        "loadstone": __version__,
        "rows": rows,
    }


class _Asking:
    """The connections of a card, those of each thread apart, and the places that it made."""

    def __init__(self, first: CardPlace, protocol: str) -> None:
        self._document = first.document("put")
        self._protocol = protocol
        self._local = threading.local()
        self._targets: list[AskedTarget] = []
        self._places: list[CardPlace] = []
        self._versioned: set[str] = set()
        self._intended: set[str] = set()
        self._unready: set[str] = set()

    @property
    def requests(self) -> int:
        """How many requests were sent, without those of ownership."""
        return sum(target.requests for target in self._targets)

    @property
    def server(self) -> str | None:
        """What the server calls itself."""
        names = (target.server for target in self._targets)
        return next((_shown(name) for name in names if name), None)

    def refuse_what_stays(self, place: CardPlace) -> None:
        """Raise if a place keeps what is written into it: it could not be removed."""
        store = self._store(place, "")
        try:
            if store.is_swift:
                reply = store.ask(Request(method="HEAD"), may_be_denied=True)
                settings = (reply.headers.get(name, "false").lower() for name in SWIFT_VERSIONS)
                if any(word != "false" for word in settings):
                    raise _kept(place, "keeps versions of")
                return
            request = Request(method="GET", query={"object-lock": None})
            reply = store.ask(request, may_be_denied=True)
            if reply.is_ok and b"<Rule>" in reply.body:
                raise _kept(place, "locks")
            reply = store.ask(Request(method="GET", query={"versioning": None}), may_be_denied=True)
            if reply.is_ok and b"<Status>" in reply.body:
                self._versioned.add(place.name)
        except UnansweredError as error:
            raise TargetError(f'bucket "{place.name}": {error}', kind="unreachable") from error

    def make(self, place: CardPlace) -> _Ground:
        """Make a place ready; where that is denied, questions that need it are refused."""
        self._places.append(place)

        def note(event: LoadEvent) -> None:
            if event["kind"] == "intent":
                self._intended.add(place.name)
            elif event["kind"] == "unmade":
                self._intended.difference_update(event["names"])

        try:
            place.prepare(note)
        except _loadgen.TargetError as error:
            self._unready.add(place.name)
            # In what was refused nothing is ours; in another's that is allowed, a claim may be.
            if not place.allow_foreign and place.name not in self._intended:
                self._places.remove(place)
            if error.kind == "denied":
                return _Ground(None, Conclusion("refused", _shown(error.message)))
            raise as_target_error(error) from error
        if not self._store(place, "").is_swift:
            headers = self._headers_of_first(place)
            if "x-amz-version-id" in headers:
                self._versioned.add(place.name)
            if "x-amz-object-lock-mode" in headers:
                raise _kept(place, "locks")
        return _Ground(place)

    def make_versioned(self, place: CardPlace) -> _Ground:
        """Make a place that keeps versions; where there is none, say why."""
        try:
            ground = self.make(place)
            if ground.place is None:
                return ground
            reply = versions.enable(self._store(place, ""))
        except DeniedError as error:
            return _Ground(None, Conclusion("refused", str(error)))
        except (UnansweredError, TargetError) as error:
            return _Ground(None, Conclusion("undecided", _shown(str(error))))
        if not reply.is_ok:
            return _Ground(None, no(f"versions cannot be kept: {reply.words}"))
        self._versioned.add(place.name)
        return _Ground(place)

    def make_locking(self, place: CardPlace) -> _Ground:
        """Make a place that can lock objects; where there is none, say why."""
        try:
            ground = self.make(place)
        except TargetError as error:
            if error.kind == "unsupported":
                return _Ground(None, no("it makes no bucket that can lock"))
            return _Ground(None, Conclusion("undecided", _shown(error.message)))
        # A bucket that can lock keeps versions.
        self._versioned.add(place.name)
        return ground

    def rows(self, grounds: Mapping[Where, _Ground]) -> list[CardRow]:
        """Ask all questions, several at once, but those of some places one after another."""
        asked = [
            (number, group, question)
            for number, (group, question) in enumerate(NUMBERED)
            if self._protocol in question.protocols and question.where in grounds
        ]
        apart = [[row] for row in asked if row[2].where not in IN_TURN]
        in_turn = [[row for row in asked if row[2].where == where] for where in IN_TURN]
        answers: dict[int, Conclusion] = {}

        ends = time.monotonic() + QUESTIONS_S

        def ask(turn: Sequence[tuple[int, str, Question]]) -> None:
            for number, _, question in turn:
                is_late = time.monotonic() > ends
                ground = _Ground(None, OUT_OF_TIME) if is_late else grounds[question.where]
                answers[number] = self._ask(question, number, ground)

        pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="card")
        try:
            for future in [pool.submit(ask, turn) for turn in (*in_turn, *apart)]:
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)
        return [_row(group, question, answers[number]) for number, group, question in asked]

    def remove(self) -> list[str]:
        """Remove what was made; return what is left, a line each."""
        left: list[str] = []
        for place in self._places:
            try:
                stays = None if place.name in self._unready else self._empty(place)
                rest = self._remove(place)
                if stays is not None and not rest:
                    rest = [f'"{place.name}": the store does not delete "{_shown(stays)}"']
                left += rest
            except FAILURES as error:
                left.append(f'"{place.name}": {_shown(str(error))}')
        return left

    def _empty(self, place: CardPlace) -> str | None:
        """Delete what the questions wrote; return the key of something that stays."""
        store = self._store(place, "", REMOVAL_S)
        uploads = {upload for target in self._targets for upload in target.uploads(place.name)}
        removing.abort_uploads(store, sorted(uploads))
        if place.name in self._versioned:
            return removing.remove_versions(store)
        keys = {key for target in self._targets for key in target.written(place.name)}
        return removing.remove_objects(store, sorted(keys | {place.first_key}))

    def _remove(self, place: CardPlace) -> list[str]:
        """Remove an empty place; return what is left of it."""
        name = place.name
        with_versions, is_ours = name in self._versioned, name in self._intended
        summary = place.remove(with_versions=with_versions, is_ours=is_ours)
        if summary["places_left"] and name not in self._unready:
            # Stores over folders keep those of puts that they have refused.
            folders = [_folder(number) for number in range(len(NUMBERED))]
            removing.remove_folders(self._store(place, "", REMOVAL_S), folders)
            summary = place.remove(with_versions=with_versions, is_ours=is_ours)
        return [f'"{rest["place"]}": {rest["reason"]}' for rest in summary["places_left"] or ()]

    def _ask(self, question: Question, number: int, ground: _Ground) -> Conclusion:
        if ground.place is None:
            return ground.instead
        try:
            return question.ask(self._store(ground.place, _folder(number)))
        except DeniedError as error:
            return Conclusion("refused", str(error))
        except (UnansweredError, TargetError) as error:
            return Conclusion("undecided", str(error))
        # What a store answers may be anything.
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            return Conclusion("undecided", f"the answer is not understood: {error}")

    def _store(self, place: CardPlace, below: str, seconds: float = QUESTION_S) -> Store:
        target: AskedTarget | None = getattr(self._local, "target", None)
        if target is None:
            try:
                target = self._local.target = AskedTarget(self._document, self._protocol)
            except _loadgen.TargetError as error:
                raise as_target_error(error) from error
            self._targets.append(target)
        return Store(target, place.name, f"{place.prefix}{below}", time.monotonic() + seconds)

    def _headers_of_first(self, place: CardPlace) -> Mapping[str, str]:
        """Return the headers of the object that made the place ready."""
        try:
            return self._store(place, "").head(FIRST, may_be_denied=True).headers
        except UnansweredError:
            return {}


def _folder(number: int) -> str:
    """Return where a question writes, below the card's own prefix."""
    return f"q{number}/"


def _locking(target: TargetDocument) -> TargetDocument:
    """Return a target whose new buckets can lock objects."""
    # Which settings a driver has is its own affair.
    settings: Any = dict(target["settings"])
    settings["headers"] = {**settings.get("headers", {}), **retention.LOCKING}
    return {**target, "settings": settings}


def _kept(place: CardPlace, does: str) -> TargetError:
    return TargetError(
        f'bucket "{place.name}" {does} what is written into it: nothing there could be removed',
        "name another bucket, or none: then the card makes one",
    )


def _row(group: str, question: Question, answer: Conclusion) -> CardRow:
    is_usual = question.usual is None or answer.word == question.usual
    return {
        "group": group,
        "question": question.text,
        "answer": answer.word,
        "detail": _shown(answer.detail),
        "means": "" if answer.word == "yes" else question.means,
        "usual": is_usual,
    }


def _shown(text: str) -> str:
    """Return what a store has said as one line without secrets."""
    return _loadgen.foreign_line(text)[:DETAIL_CHARACTERS]
