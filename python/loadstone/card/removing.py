"""Removes the questions' objects below the card's prefix; the ownership rules remove the place."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from loadstone.card.store import Request, Store, delete_many, must, parse_listing

AT_ONCE: Final = 16
CLAIM: Final = ".loadstone-claim"
"""The key of the object that marks a prefix in a foreign bucket as a run's."""
PAGES_MAX: Final = 20


def remove_objects(store: Store, keys: Sequence[str]) -> str | None:
    """Delete these keys, listed or not, then any key that is still listed.

    Return a key that remains in the listing.
    """
    _delete(store, _deletes(keys))
    return _remove_listed(store, _listed_objects)


def remove_versions(store: Store) -> str | None:
    """Delete all listed versions and markers; return the key of one that remains."""
    return _remove_listed(store, _listed_versions)


def _remove_listed(store: Store, listed: Callable[[Store], list[Request]]) -> str | None:
    before: list[Request] = []
    delete = _delete
    for _ in range(PAGES_MAX):
        # A store may ignore the requested prefix.
        requests = [request for request in listed(store) if request.key.startswith(store.prefix)]
        if not requests or requests == before:
            break
        delete(store, requests)
        # Versions that a bulk delete leaves are deleted one by one.
        before, delete = requests, _ask_all
    return requests[0].key if requests else None


def _listed_objects(store: Store) -> list[Request]:
    return _deletes(store.page().keys)


def _listed_versions(store: Store) -> list[Request]:
    query = {"versions": None, "prefix": store.prefix, "encoding-type": "url"}
    reply = store.ask(Request(method="GET", query=query))
    if reply.status == 404:
        return []
    root, plain = parse_listing(must(reply, "list"))
    return [
        Request(
            method="DELETE",
            key=plain(entry.findtext("Key") or ""),
            query={"versionId": entry.findtext("VersionId")},
        )
        for entry in root
        if entry.tag in ("Version", "DeleteMarker")
    ]


def remove_folders(store: Store, folders: Sequence[str]) -> None:
    """Delete keys that a store over directories may have kept as such, and their parent
    directory.
    """
    _delete(store, _deletes([store.key(name) for name in folders]))
    _delete(store, _deletes([store.prefix]))


def _deletes(keys: Iterable[str]) -> list[Request]:
    return [Request(method="DELETE", key=key) for key in keys]


def _delete(store: Store, requests: Sequence[Request]) -> None:
    """Delete objects: in bulk where possible, the rest one by one."""
    named = [request for request in requests if request.key.isprintable()]
    objects = [(request.key, request.query.get("versionId")) for request in named]
    if named and delete_many(store, objects).is_ok:
        requests = [request for request in requests if not request.key.isprintable()]
    _ask_all(store, requests)


def abort_uploads(store: Store, uploads: Iterable[tuple[str, str]]) -> None:
    """Abort uploads by key and id."""
    _ask_all(
        store,
        [Request(method="DELETE", key=key, query={"uploadId": upload}) for key, upload in uploads],
    )


def abort_listed_uploads(store: Store) -> None:
    """Abort the uploads in the listing of uploads."""
    query = {"uploads": None, "prefix": store.prefix}
    root, _ = parse_listing(must(store.ask(Request(method="GET", query=query)), "list uploads"))
    uploads = [
        (entry.findtext("Key") or "", entry.findtext("UploadId") or "")
        for entry in root.iter("Upload")
    ]
    abort_uploads(store, [entry for entry in uploads if entry[0].startswith(store.prefix)])


def has_claim(store: Store, run: str) -> bool:
    """Tell whether the prefix belongs to a run, by its claim."""
    return run.encode() in store.get(CLAIM).body


def _ask_all(store: Store, requests: Sequence[Request]) -> None:
    for first in range(0, len(requests), AT_ONCE):
        store.ask_at_once(requests[first : first + AT_ONCE])
