"""Conditional requests, which locks, leases and commits of table formats rely on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from loadstone.card.conclusion import Conclusion, UnansweredError, differs, no, yes
from loadstone.card.questions.shared import two_objects
from loadstone.card.store import Reply, Request, Store

CREATORS, REPLACERS = 32, 16
"""Number of concurrent writers in a race."""
CREATORS_S, REPLACERS_S = 2.0, 1.5
"""Limits of the races: there are stores whose writers wait for each other for seconds."""
WRONG_ETAG = '"00000000000000000000000000000000"'
IF_ABSENT = {"if-none-match": "*"}
UNQUOTED = "only without the quotes of the ETag"


def put_if_absent(store: Store) -> Conclusion:
    """Check that `If-None-Match: *` is refused for an existing object."""
    return _refusal(store, _put_if_absent)


def put_if_absent_creates(store: Store) -> Conclusion:
    """Check that `If-None-Match: *` creates an absent object."""
    reply = store.shared(_created)[1].creation
    return yes() if reply.is_ok else no(reply.words)


def put_if_match(store: Store) -> Conclusion:
    """Check that `If-Match` with the object's own ETag succeeds.

    Ceph 16 compares it with the ETag without its quotes.
    """
    there, known, (_, etag) = _existing(store)
    reply = quoted = there.put("k", b"third", {"if-match": etag})
    if quoted.status == 412:
        reply = there.put("k", b"third", {"if-match": etag.strip('"')})
    if not reply.is_ok:
        return no(reply.words)
    read = there.get("k")
    if read.body != b"third":
        return no("acknowledged, and not written")
    known.state = (read.body, read.headers.get("etag", ""))
    return yes() if quoted.is_ok else differs(UNQUOTED)


def put_if_other(store: Store) -> Conclusion:
    """Check that `If-Match` with another ETag is refused."""
    return _refusal(store, _put_if_other)


def put_if_match_absent(store: Store) -> Conclusion:
    """Check that `If-Match` for an absent object is refused; Amazon answers 404."""
    reply = store.put("k", b"first", {"if-match": WRONG_ETAG})
    if reply.is_ok:
        return no("writes the object")
    return yes(reply.words) if reply.status == 404 else differs(reply.words)


def one_creates(store: Store) -> Conclusion:
    """Check that exactly one of many concurrent puts with `If-None-Match: *` succeeds."""
    there, answers = store.shared(_creators)
    return _judge_race(there, answers, CREATORS_S)


def one_replaces(store: Store) -> Conclusion:
    """Check that exactly one of many concurrent puts with the same `If-Match` succeeds."""
    there, answers = store.shared(_creators)
    winners = [reply for _, reply in answers if reply.is_ok]
    if len(winners) != 1 or any(reply.failure for _, reply in answers):
        # Others may write there still.
        there, winners = store, [store.must_put("k", b"first")]
    etag = winners[0].headers.get("etag", "")
    answers = _replacers(there, etag)
    if not {reply.status for _, reply in answers} - {412}:
        answers = _replacers(there, etag.strip('"'))
    return _judge_race(there, answers, REPLACERS_S)


def _replacers(store: Store, etag: str) -> list[tuple[bytes, Reply]]:
    """Have many replace one object at once on the condition that it has the ETag."""
    return race(store, "k", "replacer", REPLACERS, {"if-match": etag}, within_s=REPLACERS_S)


def _creators(store: Store) -> list[tuple[bytes, Reply]]:
    """Have many create one object at once."""
    return race(store, "k", "creator", CREATORS, IF_ABSENT, within_s=CREATORS_S)


def race(
    store: Store,
    name: str,
    writer: str,
    writers: int,
    headers: Mapping[str, str],
    *,
    within_s: float | None = None,
) -> list[tuple[bytes, Reply]]:
    """Write an object concurrently with one condition; return the bytes and reply of each put.

    Who is not answered within `within_s` has failed; without it, all must be answered. `writer`
    makes the bytes different from those of other races: a repeated ETag would make the condition
    true again.
    """
    bodies = [f"{writer} {number}".encode() for number in range(writers)]
    requests = [
        Request(method="PUT", key=store.key(name), body=body, headers=headers) for body in bodies
    ]
    return list(zip(bodies, store.ask_at_once(requests, within_s), strict=True))


def _judge_race(
    store: Store, answers: Sequence[tuple[bytes, Reply]], within_s: float
) -> Conclusion:
    """Judge who won of those that raced for `k` for so long; one is to win."""
    writers = len(answers)
    winners = [body for body, reply in answers if reply.is_ok]
    if len(winners) == writers:
        return no(f"all of {writers} succeed")
    if len(winners) > 1:
        return no(f"several of {writers} succeed")
    answered = sum(reply.failure is None for _, reply in answers)
    if answered < writers:
        what = f"{answered} of {writers} are answered within {within_s:g} s"
        raise UnansweredError(f"{what}, {len(winners)} of them with success")
    if not winners:
        statuses = {reply.status for _, reply in answers}
        return no(f"none succeeds: {', '.join(map(str, sorted(statuses)))}")
    is_kept = store.get("k").body == winners[0]
    return yes(f"1 of {writers}") if is_kept else no("one succeeds, and another's bytes are kept")


def delete_if_other(store: Store) -> Conclusion:
    """Check that a delete with another `If-Match` than the object's ETag is refused."""
    return _refusal(store, _delete_if_other)


def delete_if_match(store: Store) -> Conclusion:
    """Check that a delete with the object's own ETag succeeds."""
    there, _, (_, etag) = _existing(store)
    reply = there.delete("k", {"if-match": etag})
    if not reply.is_ok:
        return no(reply.words)
    return yes() if there.head("k").status == 404 else no("acknowledged, and still there")


def get_if_changed(store: Store) -> Conclusion:
    """Check that a read with `If-None-Match` of the current ETag returns 304."""
    there, replies = store.shared(two_objects)
    etag = replies[-1].headers.get("etag", "")
    return _status(there.get("k", {"if-none-match": etag}), 304)


def get_if_match(store: Store) -> Conclusion:
    """Check that a read with another `If-Match` than the object's ETag is refused."""
    there, _ = store.shared(two_objects)
    return _status(there.get("k", {"if-match": WRONG_ETAG}), 412)


def copy_if_match(store: Store) -> Conclusion:
    """Check that a copy is refused if its source has another ETag than the stated one."""
    there, _ = store.shared(two_objects)
    source = f"/{store.place}/{there.key('k')}"
    headers = {"x-amz-copy-source": source, "x-amz-copy-source-if-match": WRONG_ETAG}
    return _status(store.put("copy", b"", headers), 412)


def _status(reply: Reply, usual: int) -> Conclusion:
    if reply.status == usual:
        return yes(reply.words)
    return no("condition ignored") if reply.is_ok else differs(reply.words)


@dataclass(slots=True)
class _Object:
    """The object `k` of the questions of one turn: its creation, its bytes and its ETag."""

    creation: Reply
    state: tuple[bytes, str] | None
    """None if unknown, so that the next question writes the object again."""


def _created(store: Store) -> _Object:
    """Create the object on the condition that it is absent."""
    reply = store.put("k", b"first", IF_ABSENT)
    return _Object(reply, (b"first", reply.headers.get("etag", "")) if reply.is_ok else None)


def _existing(store: Store) -> tuple[Store, _Object, tuple[bytes, str]]:
    """Return the store, the object, and its state; a caller that changes it must update the
    state.
    """
    there, known = store.shared(_created)
    state, known.state = known.state, None
    if state is None:
        state = (b"first", there.must_put("k", b"first").headers.get("etag", ""))
    return there, known, state


def _put_if_absent(store: Store) -> Reply:
    return store.put("k", b"second", IF_ABSENT)


def _put_if_other(store: Store) -> Reply:
    return store.put("k", b"second", {"if-match": WRONG_ETAG})


def _delete_if_other(store: Store) -> Reply:
    return store.delete("k", {"if-match": WRONG_ETAG})


Ask = Callable[[Store], Reply]


def _refusals(store: Store) -> dict[Ask, Reply]:
    """Try all that must be refused; return the answers, or none where the object has changed."""
    there, known, state = _existing(store)
    asks: list[Ask] = [_put_if_absent]
    if not store.is_swift:
        asks += [_put_if_other, _delete_if_other]
    replies = {ask: ask(there) for ask in asks}
    if there.get("k").body != state[0]:
        return {}
    known.state = state
    return replies


def _refusal(store: Store, ask: Ask) -> Conclusion:
    """Judge a request that must be refused with 412, by its status and the object afterwards."""
    reply, is_kept = (store.together(_refusals) or {}).get(ask), True
    if reply is None:
        there, known, state = _existing(store)
        reply = ask(there)
        is_kept = there.get("k").body == state[0]
        known.state = state if is_kept else None
    if is_kept:
        if reply.is_ok:
            return no(f"{reply.status}, and not carried out")
        return yes(reply.words) if reply.status == 412 else differs(reply.words)
    if reply.is_ok:
        return no("condition ignored")
    return no(f"{reply.words}, and carried out all the same")
