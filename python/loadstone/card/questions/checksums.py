"""Checksums: whether a store verifies them against the received bytes, and keeps them."""

import zlib
from base64 import b64encode
from collections.abc import Callable
from hashlib import md5, sha1, sha256

from loadstone.card.conclusion import Conclusion, differs, no, yes
from loadstone.card.questions.shared import BODY as SHARED_BODY
from loadstone.card.questions.shared import two_objects
from loadstone.card.store import Reply, Store

BODY = b"123456789"
"""The usual input of CRC catalogues' check values."""
DIGESTS = {
    "crc32": zlib.crc32(BODY).to_bytes(4, "big"),
    "crc32c": 0xE3069283.to_bytes(4, "big"),
    "crc64nvme": 0xAE8B14860A799888.to_bytes(8, "big"),
    "sha1": sha1(BODY, usedforsecurity=False).digest(),
    "sha256": sha256(BODY).digest(),
}
WRONG = {
    **{
        f"x-amz-checksum-{name}": b64encode(bytes(len(digest))).decode()
        for name, digest in DIGESTS.items()
    },
    "content-md5": b64encode(bytes(16)).decode(),
}
WRONG_IN_SWIFT = {"etag": "0" * 32}
"""Checksums that do not match their content, by header."""


def refuses_wrong(name: str) -> Callable[[Store], Conclusion]:
    """Return the question whether a wrong checksum of this name is refused."""
    return lambda store: _refuses(store, f"x-amz-checksum-{name}")


def keeps(name: str) -> Callable[[Store], Conclusion]:
    """Return the question whether a checksum of this name is stored and returned."""

    def ask(store: Store) -> Conclusion:
        right = b64encode(DIGESTS[name]).decode()
        header = f"x-amz-checksum-{name}"
        reply = store.put("k", BODY, {header: right})
        if not reply.is_ok:
            return no(reply.words)
        checksum = store.head("k", {"x-amz-checksum-mode": "ENABLED"}).headers.get(header)
        if checksum is None:
            return no("not reported")
        return yes() if checksum == right else no("a different one is reported")

    return ask


def refuses_wrong_md5(store: Store) -> Conclusion:
    """Check that a wrong `Content-MD5` (S3) or `ETag` (Swift) is refused."""
    return _refuses(store, "etag" if store.is_swift else "content-md5")


def etag_is_md5(store: Store) -> Conclusion:
    """Check that the ETag of a single put is its MD5, on which other programs rely."""
    reply = store.shared(two_objects)[1][-1]
    right = md5(SHARED_BODY, usedforsecurity=False).hexdigest()
    return yes() if reply.headers.get("etag", "").strip('"') == right else no("something else")


def _wrong_puts(store: Store) -> tuple[dict[str, Reply], bool]:
    """Put one object with each wrong checksum; return the replies, and whether it exists."""
    wrong = WRONG_IN_SWIFT if store.is_swift else WRONG
    replies = {header: store.put("k", BODY, {header: wrong[header]}) for header in wrong}
    return replies, store.head("k").is_ok


def _refuses(store: Store, header: str) -> Conclusion:
    replies, is_there = store.together(_wrong_puts) or ({}, True)
    reply = replies.get(header)
    if reply is None or (is_there and not reply.is_ok):
        # It is unknown which of the puts wrote the existing object.
        reply = store.put("k", BODY, {header: (WRONG | WRONG_IN_SWIFT)[header]})
        is_there = not reply.is_ok and store.head("k").is_ok
    if reply.is_ok:
        return no("accepted")
    if is_there:
        return no(f"{reply.words}, and the object is there")
    return yes(reply.words) if reply.status in (400, 422) else differs(reply.words)
