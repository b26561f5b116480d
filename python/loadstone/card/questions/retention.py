"""Retention and legal hold, in a bucket of the card's own; only asked on request."""

import datetime
import time
from base64 import b64encode
from hashlib import md5
from typing import Final

from loadstone.card.conclusion import Conclusion, UnansweredError, no, yes
from loadstone.card.store import Reply, Request, Store, must

RETENTION_S: Final = 2
"""Lock duration in seconds: S3 accepts any future time with a resolution of a second."""
LOCKING: Final = {"x-amz-bucket-object-lock-enabled": "true"}
"""The header that lets a new bucket lock objects."""
BODY: Final = b"locked"


def keeps_locked(store: Store) -> Conclusion:
    """Check that a locked version cannot be deleted."""
    reply = _put_locked(store)
    if not reply.is_ok:
        return no(f"the put: {reply.words}")
    deleted = _delete(store, reply)
    return no("deleted") if deleted.is_ok else yes(deleted.words)


def lets_go(store: Store) -> Conclusion:
    """Check that a version whose lock has expired can be deleted."""
    reply = _put_locked(store)
    if not reply.is_ok:
        return no(f"the put: {reply.words}")
    # The expiry was rounded up to a whole second, and clocks may differ a little.
    time.sleep(RETENTION_S + 1.5)
    deleted = _delete(store, reply)
    return yes() if deleted.is_ok else no(deleted.words)


def keeps_held(store: Store) -> Conclusion:
    """Check that a version on legal hold cannot be deleted until the hold is lifted."""
    reply = store.put("k", BODY, {"x-amz-object-lock-legal-hold": "ON", **_md5(BODY)})
    if not reply.is_ok:
        return no(f"the put: {reply.words}")
    deleted = _delete(store, reply)
    body = b"<LegalHold><Status>OFF</Status></LegalHold>"
    lift = Request(
        method="PUT", key=store.key("k"), query={"legal-hold": None}, headers=_md5(body), body=body
    )
    must(store.ask(lift), "lift the hold")
    if deleted.is_ok:
        return no("deleted")
    return yes(deleted.words) if _delete(store, reply).is_ok else no("it stays when it is lifted")


def _put_locked(store: Store) -> Reply:
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=RETENTION_S)
    headers = {
        "x-amz-object-lock-mode": "GOVERNANCE",
        "x-amz-object-lock-retain-until-date": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
        **_md5(BODY),
    }
    return store.put("k", BODY, headers)


def _delete(store: Store, put: Reply) -> Reply:
    version = put.headers.get("x-amz-version-id")
    if version is None:
        raise UnansweredError("a put gets no version")
    return store.delete("k", query={"versionId": version}, may_be_denied=True)


def _md5(body: bytes) -> dict[str, str]:
    """Return the checksum header that S3 requires for requests that lock."""
    digest = md5(body, usedforsecurity=False).digest()
    return {"content-md5": b64encode(digest).decode()}
