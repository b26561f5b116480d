"""Conditional requests, which locks, leases and commits of table formats rely on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loadstone.card.conclusion import Conclusion, differs, no, yes
from loadstone.card.questions.shared import two_objects
from loadstone.card.store import Reply, Request, Store

CREATORS, REPLACERS = 32, 16
"""Number of concurrent writers in a race."""
WRONG_ETAG = '"00000000000000000000000000000000"'
IF_ABSENT = {"if-none-match": "*"}


def put_if_absent(store: Store) -> Conclusion:
    """Check that `If-None-Match: *` is refused for an existing object."""
    return _refusal(store, lambda there: there.put("k", b"second", IF_ABSENT))


def put_if_absent_creates(store: Store) -> Conclusion:
    """Check that `If-None-Match: *` creates an absent object."""
    reply = store.shared(_created)[1].creation
    return yes() if reply.is_ok else no(reply.words)


def put_if_match(store: Store) -> Conclusion:
    """Check that `If-Match` with the object's own ETag succeeds."""
    there, known, (_, etag) = _existing(store)
    reply = there.put("k", b"third", {"if-match": etag})
    if not reply.is_ok:
        return no(reply.words)
    read = there.get("k")
    if read.body != b"third":
        return no("acknowledged, and not written")
    known.state = (read.body, read.headers.get("etag", ""))
    return yes()


def put_if_other(store: Store) -> Conclusion:
    """Check that `If-Match` with another ETag is refused."""
    return _refusal(store, lambda there: there.put("k", b"second", {"if-match": WRONG_ETAG}))


def put_if_match_absent(store: Store) -> Conclusion:
    """Check that `If-Match` for an absent object is refused; Amazon answers 404."""
    reply = store.put("k", b"first", {"if-match": WRONG_ETAG})
    if reply.is_ok:
        return no("writes the object")
    return yes(reply.words) if reply.status == 404 else differs(reply.words)


def one_creates(store: Store) -> Conclusion:
    """Check that exactly one of many concurrent puts with `If-None-Match: *` succeeds."""
    return _race(store, CREATORS, IF_ABSENT)


def one_replaces(store: Store) -> Conclusion:
    """Check that exactly one of many concurrent puts with the same `If-Match` succeeds."""
    etag = store.must_put("k", b"first").headers.get("etag", "")
    return _race(store, REPLACERS, {"if-match": etag})


def race(
    store: Store, name: str, writer: str, writers: int, headers: Mapping[str, str]
) -> list[tuple[bytes, Reply]]:
    """Write an object concurrently with one condition; return the bytes and reply of each put.

    `writer` makes the bytes different from those of other races: a repeated ETag would make the
    condition true again.
    """
    bodies = [f"{writer} {number}".encode() for number in range(writers)]
    requests = [
        Request(method="PUT", key=store.key(name), body=body, headers=headers) for body in bodies
    ]
    return list(zip(bodies, store.ask_at_once(requests), strict=True))


def _race(store: Store, writers: int, headers: Mapping[str, str]) -> Conclusion:
    answers = race(store, "k", "writer", writers, headers)
    winners = [body for body, reply in answers if reply.is_ok]
    if len(winners) == writers:
        return no(f"all of {writers} succeed")
    if not winners:
        statuses = {reply.status for _, reply in answers}
        return no(f"none succeeds: {', '.join(map(str, sorted(statuses)))}")
    if len(winners) > 1:
        return no(f"several of {writers} succeed")
    is_kept = store.get("k").body == winners[0]
    return yes(f"1 of {writers}") if is_kept else no("one succeeds, and another's bytes are kept")


def delete_if_other(store: Store) -> Conclusion:
    """Check that a delete with another `If-Match` than the object's ETag is refused."""
    return _refusal(store, lambda there: there.delete("k", {"if-match": WRONG_ETAG}))


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


def _refusal(store: Store, ask: Callable[[Store], Reply]) -> Conclusion:
    """Judge a request that must be refused with 412, by its status and the object afterwards."""
    there, known, state = _existing(store)
    reply = ask(there)
    if there.get("k").body == state[0]:
        known.state = state
        if reply.is_ok:
            return no(f"{reply.status}, and not carried out")
        return yes(reply.words) if reply.status == 412 else differs(reply.words)
    if reply.is_ok:
        return no("condition ignored")
    return no(f"{reply.words}, and carried out all the same")
