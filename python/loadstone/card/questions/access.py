"""Authentication and expiry: signatures, signed URLs, clocks."""

from loadstone.card.conclusion import Conclusion, differs, no, yes
from loadstone.card.questions.shared import BODY, two_objects
from loadstone.card.store import Reply, Store

EXPIRED = {"url": 1}
OPEN = {"url": 60}


def refuses_nobody(store: Store) -> Conclusion:
    """Check that a read without a signature or token is refused."""
    there, _ = store.shared(two_objects)
    return _refused(there.get("k", signing="nobody", may_be_denied=True))


def refuses_wrong(store: Store) -> Conclusion:
    """Check that a read with a wrong signature or token is refused."""
    there, _ = store.shared(two_objects)
    return _refused(there.get("k", signing="wrong", may_be_denied=True))


def signed_get(store: Store) -> Conclusion:
    """Check that a signed URL allows a read."""
    there, _ = store.shared(two_objects)
    reply = there.get("k", signing=OPEN, may_be_denied=True)
    return yes() if reply.body == BODY else no(reply.words)


def signed_put(store: Store) -> Conclusion:
    """Check that a signed URL allows a put."""
    reply = store.put("k", b"first", signing=OPEN, may_be_denied=True)
    if not reply.is_ok:
        return no(reply.words)
    return yes() if store.get("k").body == b"first" else no("acknowledged, and not written")


def signed_get_ends(store: Store) -> Conclusion:
    """Check that an expired signed URL is refused."""
    there, _ = store.shared(two_objects)
    reply = there.get("k", signing=EXPIRED, signed_ago_s=60, may_be_denied=True)
    return _refused(reply)


def skew_of_minutes(store: Store) -> Conclusion:
    """Check that a request signed 10 minutes ago is accepted."""
    there, _ = store.shared(two_objects)
    reply = there.get("k", signed_ago_s=600, may_be_denied=True)
    return yes() if reply.is_ok else no(reply.words)


def skew_of_20_minutes(store: Store) -> Conclusion:
    """Check that a request signed 20 minutes ago is refused; Amazon refuses after 15."""
    there, _ = store.shared(two_objects)
    return _refused(there.get("k", signed_ago_s=1200, may_be_denied=True))


def _refused(reply: Reply) -> Conclusion:
    if reply.is_ok:
        return no("accepted")
    return yes(reply.words) if reply.status in (401, 403) else differs(reply.words)
