"""Versions, in a place of the card's own that keeps them."""

import re

from loadstone.card.conclusion import Conclusion, UnansweredError, differs, no, yes
from loadstone.card.store import Reply, Request, Store, must

VERSION = "x-amz-version-id"


def keeps_versions(store: Store) -> Conclusion:
    """Check that each put creates a version, and that each version can be read."""
    there, ids = store.shared(_two_versions)
    if ids[0] == ids[1]:
        return no("puts get no ids of their own")
    bodies = [there.get("k", query={"versionId": version}).body for version in ids]
    return yes() if bodies == [b"first", b"second"] else no("an older version cannot be read")


def lists_versions(store: Store) -> Conclusion:
    """Check that all versions are listed, newest first."""
    there, ids = store.shared(_two_versions)
    reply = version_list(there)
    if not reply.is_ok:
        return no(reply.words)
    listed = re.findall(r"<VersionId>([^<]*)</VersionId>", reply.body.decode(errors="replace"))
    if listed == [ids[1], ids[0]]:
        return yes()
    return differs("another order") if sorted(listed) == sorted(map(str, ids)) else no("not all")


def delete_marks(store: Store) -> Conclusion:
    """Check that a delete creates a marker and keeps the versions."""
    there, ids = store.shared(_two_versions)
    reply = store.shared(_deletion)[1]
    read = there.get("k")
    if read.status != 404:
        return no(f"a read gives {read.words}")
    if there.get("k", query={"versionId": ids[0]}).body != b"first":
        return no("the versions are gone")
    is_told = reply.headers.get("x-amz-delete-marker") == "true"
    return yes() if is_told else differs("the response does not report the marker")


def hides_deleted(store: Store) -> Conclusion:
    """Check that deleted objects are left out of listings."""
    there, _ = store.shared(_two_versions)
    store.shared(_deletion)
    there.must_put("kept")
    return yes() if there.listed() == ["kept"] else no("the deleted object is listed")


def marker_goes(store: Store) -> Conclusion:
    """Check that deleting a marker restores the object."""
    read = store.shared(_restoration)[1]
    if read is None:
        return no("the marker has no id")
    return yes() if read.body == b"second" else no("it stays deleted")


def version_goes(store: Store) -> Conclusion:
    """Check that deleting the newest version makes the previous one current."""
    there, ids = store.shared(_two_versions)
    restored = store.together(_restoration)
    if restored is None or restored.body != b"second":
        there, ids = store, _two_versions(store)
    must(there.delete("k", query={"versionId": ids[1]}), "DELETE")
    return yes() if there.get("k").body == b"first" else no("the older version is not read")


def suspends(store: Store) -> Conclusion:
    """Check that with suspended versions a put replaces the version `null` and keeps older ones."""
    before = store.must_put("k", b"before").headers.get(VERSION)
    if before is None:
        raise UnansweredError("a put gets no version")
    reply = set_versioning(store, "Suspended")
    if not reply.is_ok:
        return no(reply.words)
    try:
        written = [store.must_put("k", body).headers.get(VERSION) for body in (b"a", b"b")]
        if store.get("k").body != b"b":
            return no("a put is not read back")
        if store.get("k", query={"versionId": before}).body != b"before":
            return no("older versions are gone")
        listed = re.findall(rb"<VersionId>([^<]*)</VersionId>", version_list(store).body)
        if len(listed) != 2:
            return no("a put leaves another version")
    finally:
        must(set_versioning(store, "Enabled"), "versions")
    # Amazon's response names the version; others omit it.
    return yes() if set(written) <= {"null", None} else differs("puts get ids of their own")


def bucket_stays(store: Store) -> Conclusion:
    """Check that deleting the card's own bucket is refused while it contains objects."""
    store.must_put("k")
    reply = store.ask(Request(method="DELETE"), may_be_denied=True)
    if store.get("k").is_ok:
        return yes(reply.words) if reply.status == 409 else differs(reply.words)
    return no("deleted with all that is in it")


def enable(store: Store) -> Reply:
    """Enable versions in a place."""
    return set_versioning(store, "Enabled")


def set_versioning(store: Store, state: str) -> Reply:
    """Enable (`Enabled`) or suspend (`Suspended`) versions in a place."""
    body = f"<VersioningConfiguration><Status>{state}</Status></VersioningConfiguration>"
    request = Request(method="PUT", query={"versioning": None}, body=body.encode())
    return store.ask(request)


def _two_versions(store: Store) -> list[str]:
    ids = [store.must_put("k", body).headers.get(VERSION) for body in (b"first", b"second")]
    if None in ids:
        raise UnansweredError("a put gets no version")
    return [str(version) for version in ids]


def _deletion(store: Store) -> Reply:
    """Delete the object with two versions."""
    there, _ = store.shared(_two_versions)
    return must(there.delete("k"), "DELETE")


def _restoration(store: Store) -> Reply | None:
    """Delete the marker of that object, and read it; None if the marker has no id."""
    there, _ = store.shared(_two_versions)
    marker = store.shared(_deletion)[1].headers.get(VERSION)
    if marker is None:
        return None
    must(there.delete("k", query={"versionId": marker}), "DELETE")
    return there.get("k")


def version_list(store: Store) -> Reply:
    """List the versions of the question's objects."""
    return store.ask(Request(method="GET", query={"versions": None, "prefix": store.prefix}))
