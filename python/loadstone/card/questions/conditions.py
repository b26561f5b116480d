"""Conditional requests: what locks, leases and the commits of table formats stand on."""

from collections.abc import Mapping

from loadstone.card.conclusion import Conclusion, differs, no, yes
from loadstone.card.questions.shared import object_of_100_bytes
from loadstone.card.store import Reply, Request, Store

CREATORS, REPLACERS = 32, 16
"""How many race."""
WRONG_ETAG = '"00000000000000000000000000000000"'
IF_ABSENT = {"if-none-match": "*"}


def put_if_absent(store: Store) -> Conclusion:
    """`If-None-Match: *` where the object is there."""
    store.must_put("k", b"first")
    return _refusal(store.put("k", b"second", IF_ABSENT), 412, store, "k", b"first")


def put_if_absent_creates(store: Store) -> Conclusion:
    """`If-None-Match: *` where nothing is there."""
    reply = store.put("k", b"first", IF_ABSENT)
    return yes() if reply.is_ok else no(reply.words)


def put_if_match(store: Store) -> Conclusion:
    """`If-Match` with the object's own ETag."""
    etag = store.must_put("k", b"first").headers.get("etag", "")
    reply = store.put("k", b"second", {"if-match": etag})
    if not reply.is_ok:
        return no(reply.words)
    return yes() if store.get("k").body == b"second" else no("acknowledged, and not written")


def put_if_other(store: Store) -> Conclusion:
    """`If-Match` with another ETag."""
    store.must_put("k", b"first")
    return _refusal(store.put("k", b"second", {"if-match": WRONG_ETAG}), 412, store, "k", b"first")


def put_if_match_absent(store: Store) -> Conclusion:
    """`If-Match` where nothing is there; Amazon answers 404."""
    reply = store.put("k", b"first", {"if-match": WRONG_ETAG})
    if reply.is_ok:
        return no("writes the object")
    return yes(reply.words) if reply.status == 404 else differs(reply.words)


def one_creates(store: Store) -> Conclusion:
    """Of many puts at once with `If-None-Match: *` one succeeds."""
    return _race(store, CREATORS, IF_ABSENT)


def one_replaces(store: Store) -> Conclusion:
    """Of many puts at once with the same `If-Match` one succeeds."""
    etag = store.must_put("k", b"first").headers.get("etag", "")
    return _race(store, REPLACERS, {"if-match": etag})


def race(
    store: Store, name: str, writer: str, writers: int, headers: Mapping[str, str]
) -> list[tuple[bytes, Reply]]:
    """Write an object by several at once on one condition; return the bytes and reply of each.

    `writer` makes the bytes others than those of another race: an ETag that came back would make
    the condition hold again.
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
    """A delete with another `If-Match` than the object's ETag."""
    store.must_put("k", b"first")
    return _refusal(store.delete("k", {"if-match": WRONG_ETAG}), 412, store, "k", b"first")


def delete_if_match(store: Store) -> Conclusion:
    """A delete with the object's own ETag."""
    etag = store.must_put("k", b"first").headers.get("etag", "")
    reply = store.delete("k", {"if-match": etag})
    if not reply.is_ok:
        return no(reply.words)
    return yes() if store.head("k").status == 404 else no("acknowledged, and still there")


def get_if_changed(store: Store) -> Conclusion:
    """A read with `If-None-Match` of what the reader has already."""
    there, reply = store.shared(object_of_100_bytes)
    etag = reply.headers.get("etag", "")
    return _status(there.get("k", {"if-none-match": etag}), 304)


def get_if_match(store: Store) -> Conclusion:
    """A read with another `If-Match` than the object's ETag."""
    there, _ = store.shared(object_of_100_bytes)
    return _status(there.get("k", {"if-match": WRONG_ETAG}), 412)


def copy_if_match(store: Store) -> Conclusion:
    """A copy whose source has another ETag than the one that was named."""
    there, _ = store.shared(object_of_100_bytes)
    source = f"/{store.place}/{there.key('k')}"
    headers = {"x-amz-copy-source": source, "x-amz-copy-source-if-match": WRONG_ETAG}
    return _status(store.put("copy", b"", headers), 412)


def _status(reply: Reply, usual: int) -> Conclusion:
    if reply.status == usual:
        return yes(reply.words)
    return no("condition ignored") if reply.is_ok else differs(reply.words)


def _refusal(reply: Reply, usual: int, store: Store, name: str, body: bytes) -> Conclusion:
    """Judge a request that must not be carried out: its status, and what is there afterwards."""
    is_kept = store.get(name).body == body
    if reply.is_ok:
        return no("condition ignored" if not is_kept else f"{reply.status}, and not carried out")
    if not is_kept:
        return no(f"{reply.words}, and carried out all the same")
    return yes(reply.words) if reply.status == usual else differs(reply.words)
