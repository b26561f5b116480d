"""Removes what the questions wrote below the card's prefix; the place is ownership's to remove."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from hashlib import md5
from typing import Final
from xml.sax.saxutils import escape

from loadstone.card.store import Request, Store, must, parse_listing

AT_ONCE: Final = 16
PAGES_MAX: Final = 20


def remove_objects(store: Store, keys: Sequence[str]) -> str | None:
    """Delete these keys, whether they are listed or not, then what a listing shows.

    Return a key that is listed all the same.
    """
    _delete(store, keys)
    return _remove_listed(store, _listed_objects)


def remove_versions(store: Store) -> str | None:
    """Delete all versions and markers that are listed; return the key of one that stays."""
    return _remove_listed(store, _listed_versions)


def _remove_listed(store: Store, listed: Callable[[Store], list[Request]]) -> str | None:
    before: list[Request] = []
    for _ in range(PAGES_MAX):
        # A store may ignore the prefix that it was asked for.
        requests = [request for request in listed(store) if request.key.startswith(store.prefix)]
        if not requests or requests == before:
            break
        _ask_all(store, requests)
        before = requests
    return requests[0].key if requests else None


def _listed_objects(store: Store) -> list[Request]:
    return [Request(method="DELETE", key=key) for key in store.page().keys]


def _listed_versions(store: Store) -> list[Request]:
    query = {"versions": None, "prefix": store.prefix, "encoding-type": "url"}
    root, plain = parse_listing(must(store.ask(Request(method="GET", query=query)), "list"))
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
    """Delete keys that a store over folders may have kept as such, and the folder above them."""
    _delete(store, [store.key(name) for name in folders])
    _delete(store, [store.prefix])


def _delete(store: Store, keys: Sequence[str]) -> None:
    """Delete with one request what XML can name, and the rest one by one."""
    plain = [key for key in keys if key.isprintable()] if not store.is_swift else []
    if plain:
        rows = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in plain)
        body = f"<Delete><Quiet>true</Quiet>{rows}</Delete>".encode()
        digest = b64encode(md5(body, usedforsecurity=False).digest()).decode()
        reply = store.post("", {"delete": None}, body, headers={"content-md5": digest})
        plain = plain if reply.is_ok else []
    _ask_all(store, [Request(method="DELETE", key=key) for key in keys if key not in plain])


def abort_uploads(store: Store, uploads: Iterable[tuple[str, str]]) -> None:
    """Abort uploads by key and id; those that were completed are not there any more."""
    _ask_all(
        store,
        [Request(method="DELETE", key=key, query={"uploadId": upload}) for key, upload in uploads],
    )


def _ask_all(store: Store, requests: Sequence[Request]) -> None:
    for first in range(0, len(requests), AT_ONCE):
        store.ask_at_once(requests[first : first + AT_ONCE])
