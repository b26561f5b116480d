"""Reads of ranges of an object."""

from loadstone.card.conclusion import Conclusion, differs, no, yes
from loadstone.card.questions.shared import BODY, RANGES, five_reads, two_objects
from loadstone.card.store import Reply, Store, must


def first_bytes(store: Store) -> Conclusion:
    """Check a range with both ends."""
    return _is(store, "bytes=10-19", BODY[10:20], "bytes 10-19/100")


def open_end(store: Store) -> Conclusion:
    """Check a range without an end."""
    return _is(store, "bytes=95-", BODY[95:], "bytes 95-99/100")


def suffix(store: Store) -> Conclusion:
    """Check a range of the last bytes of an object."""
    return _is(store, "bytes=-3", BODY[-3:], "bytes 97-99/100")


def beyond(store: Store) -> Conclusion:
    """Check a range that ends behind the object's end."""
    return _is(store, "bytes=90-1000", BODY[90:], "bytes 90-99/100")


def several(store: Store) -> Conclusion:
    """Check several ranges in one request; Amazon sends the whole object."""
    reply = _read(store, "bytes=0-9,50-59")
    is_multipart = reply.headers.get("content-type", "").startswith("multipart/byteranges")
    if reply.status == 206 and is_multipart and BODY[50:60] in reply.body:
        return yes("multipart/byteranges")
    if reply.status == 200 and reply.body == BODY:
        return no("the whole object")
    return differs(reply.words if not reply.is_ok else f"{reply.status}, one range")


def unsatisfiable(store: Store) -> Conclusion:
    """Check that a range that begins behind the object's end is refused."""
    reply = _read(store, "bytes=100-")
    if reply.status == 416:
        return yes(reply.words)
    return no("200, the whole object") if reply.status == 200 else differs(reply.words)


def of_nothing(store: Store) -> Conclusion:
    """Check a range of an empty object."""
    there, replies = store.shared(two_objects)
    must(replies[0], "PUT")
    reply = there.get("empty", {"range": "bytes=0-9"})
    return yes(reply.words) if reply.status == 416 else differs(reply.words)


def of_head(store: Store) -> Conclusion:
    """Check that a HEAD returns the length of the object."""
    there, _ = store.shared(two_objects)
    length = there.head("k").headers.get("content-length")
    return yes() if length == str(len(BODY)) else no(f"content-length: {length}")


def _read(store: Store, text: str) -> Reply:
    reads = store.together(five_reads)
    if reads is not None and text in RANGES:
        return reads[RANGES.index(text)]
    there, _ = store.shared(two_objects)
    return there.get("k", {"range": text})


def _is(store: Store, text: str, body: bytes, content_range: str) -> Conclusion:
    reply = _read(store, text)
    if reply.status == 200 and reply.body == BODY:
        return no("the whole object")
    if reply.body != body:
        return no(reply.words if not reply.is_ok else "other bytes")
    if reply.status != 206:
        return differs(f"the right bytes with {reply.status}")
    answered = reply.headers.get("content-range")
    return yes() if answered == content_range else differs(f"Content-Range: {answered}")
