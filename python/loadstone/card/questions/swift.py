"""Features that only Swift has: segments of large objects, and expiring objects."""

import json
from hashlib import md5
from typing import Any
from urllib.parse import quote

from loadstone.card.conclusion import Conclusion, differs, no, yes
from loadstone.card.store import Reply, Store


def static_segments(store: Store) -> Conclusion:
    """Check that a manifest of segments is read as one object."""
    reply = _manifest(store, [_segment(store, "s1", b"first "), _segment(store, "s2", b"second")])
    if not reply.is_ok:
        return no(reply.words)
    return yes() if store.get("k").body == b"first second" else no("other bytes")


def refuses_wrong_segment(store: Store) -> Conclusion:
    """Check that a manifest with a wrong ETag of a segment is refused."""
    reply = _manifest(store, [{**_segment(store, "s1", b"first"), "etag": "0" * 32}])
    if reply.is_ok:
        return no("accepted")
    return yes(reply.words) if reply.status == 400 else differs(reply.words)


def dynamic_segments(store: Store) -> Conclusion:
    """Check that an object that names a prefix is read as all objects with that prefix."""
    for name, body in (("s/1", b"first "), ("s/2", b"second")):
        store.must_put(name, body)
    store.must_put("k", b"", {"x-object-manifest": quote(f"{store.place}/{store.key('s/')}")})
    return yes() if store.get("k").body == b"first second" else no("other bytes")


def expires(store: Store) -> Conclusion:
    """Check that an object written with an expiry reports it."""
    reply = store.put("k", b"x", {"x-delete-after": "86400"})
    if not reply.is_ok:
        return no(reply.words)
    return yes() if "x-delete-at" in store.head("k").headers else no("it does not expire")


def _segment(store: Store, name: str, body: bytes) -> dict[str, Any]:
    store.must_put(name, body)
    etag = md5(body, usedforsecurity=False).hexdigest()
    return {"path": f"/{store.place}/{store.key(name)}", "etag": etag, "size_bytes": len(body)}


def _manifest(store: Store, segments: list[dict[str, Any]]) -> Reply:
    body = json.dumps(segments).encode()
    return store.put("k", body, query={"multipart-manifest": "put"})
