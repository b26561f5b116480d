"""Keys and metadata: what may be in them, and how much."""

from collections.abc import Callable

from loadstone.card.conclusion import Conclusion, differs, no, yes
from loadstone.card.store import Store

KEY_BYTES_MAX = 1024
METADATA_BYTES_MAX = 2048


def keeps_key(name: str) -> Callable[[Store], Conclusion]:
    """Return the question whether an object of this name is read and listed under it."""

    def ask(store: Store) -> Conclusion:
        reply = store.put(name, b"x")
        if not reply.is_ok:
            return no(reply.words)
        if store.get(name).body != b"x":
            return no("it cannot be read back")
        listed = store.listed()
        if listed == [name]:
            return yes()
        return no("not listed" if not listed else "listed as another key")

    return ask


def distinct_keys(first: str, second: str) -> Callable[[Store], Conclusion]:
    """Return the question whether two keys are two objects."""

    def ask(store: Store) -> Conclusion:
        for name in (first, second):
            reply = store.put(name, name.encode())
            if not reply.is_ok:
                return no(f"the second put: {reply.words}" if name == second else reply.words)
        if any(store.get(name).body != name.encode() for name in (first, second)):
            return no("they are one object")
        listed = store.listed()
        return yes() if set(listed) == {first, second} else no("not both are listed")

    return ask


def longest_segment(store: Store) -> Conclusion:
    """A key of 1,024 bytes, most of them in one segment."""
    return _takes_long(store, "k" * (KEY_BYTES_MAX - len(store.prefix)))


def longest_key(store: Store) -> Conclusion:
    """A key of 1,024 bytes, in segments that a file system could take."""
    return _takes_long(store, _long_name(store, KEY_BYTES_MAX))


def too_long_key(store: Store) -> Conclusion:
    """A key of 1,025 bytes is refused."""
    reply = store.put(_long_name(store, KEY_BYTES_MAX + 1))
    if reply.is_ok:
        return no("accepted")
    return yes(reply.words) if reply.status == 400 else differs(reply.words)


def keeps_metadata(store: Store) -> Conclusion:
    """2 KiB of metadata, the names of their headers included, are kept."""
    meta = "x-object-meta-m" if store.is_swift else "x-amz-meta-m"
    # In Swift a value is no longer than 256 bytes.
    value = "v" * (METADATA_BYTES_MAX // 8 - len(f"{meta}0"))
    headers = {f"{meta}{number}": value for number in range(8)}
    reply = store.put("k", b"x", headers)
    if not reply.is_ok:
        return no(reply.words)
    answered = store.head("k").headers
    return yes() if headers.items() <= answered.items() else no("it does not come back")


def too_much_metadata(store: Store) -> Conclusion:
    """More than 2 KiB of metadata are refused."""
    reply = store.put("k", b"x", {"x-amz-meta-m": "v" * (METADATA_BYTES_MAX + 1)})
    if reply.is_ok:
        return no("accepted")
    return yes(reply.words) if reply.status == 400 else differs(reply.words)


def keeps_headers(store: Store) -> Conclusion:
    """Content type and encoding are kept, and the body is left as it came."""
    headers = {"content-type": "text/x-card", "content-encoding": "gzip"}
    store.must_put("k", b"not gzip", headers)
    reply = store.get("k")
    if reply.body != b"not gzip":
        return no("the body is changed")
    lost = [name for name, value in headers.items() if reply.headers.get(name) != value]
    return no(f"lost: {', '.join(lost)}") if lost else yes()


def copies_onto_itself(store: Store) -> Conclusion:
    """A copy onto itself replaces the metadata and keeps the bytes."""
    store.must_put("k", b"first", {"x-amz-meta-a": "1"})
    headers = {
        "x-amz-copy-source": f"/{store.place}/{store.key('k')}",
        "x-amz-metadata-directive": "REPLACE",
        "x-amz-meta-b": "2",
    }
    reply = store.put("k", b"", headers)
    if not reply.is_ok:
        return no(reply.words)
    read = store.get("k")
    if read.body != b"first":
        return no("the bytes are lost")
    is_replaced = read.headers.get("x-amz-meta-b") == "2" and "x-amz-meta-a" not in read.headers
    return yes() if is_replaced else no("the metadata stays")


def tags(store: Store) -> Conclusion:
    """An object's tags are kept."""
    reply = store.put("k", b"x", {"x-amz-tagging": "a=1"})
    if not reply.is_ok:
        return no(reply.words)
    reply = store.get("k", query={"tagging": None})
    return (
        yes() if b"<Key>a</Key>" in reply.body else no(reply.words if not reply.is_ok else "lost")
    )


def _takes_long(store: Store, name: str) -> Conclusion:
    reply = store.put(name)
    if not reply.is_ok:
        return no(reply.words)
    return yes() if store.get(name).body == b"x" else no("it cannot be read back")


def _long_name(store: Store, key_bytes: int) -> str:
    """Return a name whose key is so long."""
    folders = ("k" * 199 + "/") * 4
    return folders + "k" * (key_bytes - len(store.key(folders)))
