"""Removes what the questions wrote below the card's prefix; the place is ownership's to remove."""

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import md5
from typing import Final
from urllib.parse import unquote_plus
from xml.sax.saxutils import escape

from loadstone.card.store import Request, Store

AT_ONCE: Final = 16
PAGES_MAX: Final = 20
_VERSION = re.compile(
    r"<(?:Version|DeleteMarker)>.*?<Key>(.*?)</Key>.*?<VersionId>(.*?)</VersionId>", re.DOTALL
)


def remove_objects(store: Store, keys: Sequence[str]) -> None:
    """Delete these keys, whether they are listed or not, then what a listing shows."""
    _delete(store, keys)
    for _ in range(PAGES_MAX):
        # A store may ignore the prefix that it was asked for.
        keys = [key for key in store.page().keys if key.startswith(store.prefix)]
        if not keys:
            break
        _ask_all(store, [Request(method="DELETE", key=key) for key in keys])


def remove_versions(store: Store) -> None:
    """Delete all versions and markers that a listing of versions shows."""
    for _ in range(PAGES_MAX):
        query = {"versions": None, "prefix": store.prefix, "encoding-type": "url"}
        reply = store.ask(Request(method="GET", query=query))
        versions = _VERSION.findall(reply.body.decode(errors="replace"))
        requests = [
            Request(method="DELETE", key=unquote_plus(key), query={"versionId": version})
            for key, version in versions
            if unquote_plus(key).startswith(store.prefix)
        ]
        if not requests:
            break
        _ask_all(store, requests)


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
