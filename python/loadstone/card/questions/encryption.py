"""Encryption by the store: with its own key, its key service's, or one that the client sends."""

from base64 import b64encode
from collections.abc import Callable
from hashlib import md5
from typing import Final

from loadstone.card.conclusion import Conclusion, NotApplicableError, differs, no, yes
from loadstone.card.questions.shared import BODY
from loadstone.card.store import Store

ENCRYPTION: Final = "x-amz-server-side-encryption"
KEY: Final = b"a key of the card, in 32 bytes.."
CUSTOMER: Final = {
    f"{ENCRYPTION}-customer-algorithm": "AES256",
    f"{ENCRYPTION}-customer-key": b64encode(KEY).decode(),
    f"{ENCRYPTION}-customer-key-md5": b64encode(md5(KEY, usedforsecurity=False).digest()).decode(),
}


def encrypts(algorithm: str) -> Callable[[Store], Conclusion]:
    """Return the question whether an object is encrypted as requested, and reported as such."""

    def ask(store: Store) -> Conclusion:
        reply = store.put("k", BODY, {ENCRYPTION: algorithm})
        if not reply.is_ok:
            return no(reply.words)
        reported = store.head("k").headers.get(ENCRYPTION)
        return yes() if reported == algorithm else differs("the header is ignored")

    return ask


def encrypts_for_customer(store: Store) -> Conclusion:
    """Check that an object that was written with a customer's key is not read without it."""
    reply = store.put("k", BODY, CUSTOMER)
    if reply.status == 400 and reply.tls is None:
        raise NotApplicableError(f"{reply.words} without TLS")
    if not reply.is_ok:
        return no(reply.words)
    return differs("the key is ignored") if store.get("k", may_be_denied=True).is_ok else yes()
