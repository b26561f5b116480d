"""Keys and metadata: permitted characters and sizes."""

from collections.abc import Callable

from loadstone.card.conclusion import Conclusion, differs, no, yes
from loadstone.card.questions.shared import (
    HEADERS,
    METADATA_BYTES_MAX,
    metadata,
    object_with_headers,
    odd_keys,
)
from loadstone.card.store import Reply, Store

KEY_BYTES_MAX = 1024


def keeps_key(name: str) -> Callable[[Store], Conclusion]:
    """Return the question whether an object of this name can be read and is listed under it."""

    def ask(store: Store) -> Conclusion:
        there, is_listed, refused = _written(store, (name,))
        if refused is not None:
            return no(refused[1].words)
        if there.get(name).body != name.encode():
            return no("it cannot be read back")
        listed = [name] if is_listed else there.listed()
        if listed == [name]:
            return yes()
        return no("not listed" if not listed else "listed as another key")

    return ask


def distinct_keys(first: str, second: str) -> Callable[[Store], Conclusion]:
    """Return the question whether two keys are two objects."""

    def ask(store: Store) -> Conclusion:
        there, is_listed, refused = _written(store, (first, second))
        if refused is not None:
            name, reply = refused
            return no(f"the second put: {reply.words}" if name == second else reply.words)
        if any(there.get(name).body != name.encode() for name in (first, second)):
            return no("they are one object")
        if is_listed or set(there.listed()) == {first, second}:
            return yes()
        return no("not both are listed")

    return ask


def _written(store: Store, names: tuple[str, ...]) -> tuple[Store, bool, tuple[str, Reply] | None]:
    """Write the names of one folder: where, whether they are listed, and which put was refused."""
    odd = store.together(odd_keys)
    if odd is not None and all(odd.puts[name].is_ok for name in names):
        return odd.folders[names[0]], odd.are_listed(*names), None
    for name in names:
        reply = store.put(name, name.encode())
        if not reply.is_ok:
            return store, False, (name, reply)
    return store, False, None


def longest_segment(store: Store) -> Conclusion:
    """Check that a key of 1,024 bytes, most of them in one segment, is accepted."""
    return _takes_long(store, "k" * (KEY_BYTES_MAX - len(store.prefix)))


def longest_key(store: Store) -> Conclusion:
    """Check that a key of 1,024 bytes, in segments that a file system allows, is accepted."""
    return _takes_long(store, _long_name(store, KEY_BYTES_MAX))


def too_long_key(store: Store) -> Conclusion:
    """Check that a key of 1,025 bytes is refused."""
    reply = store.put(_long_name(store, KEY_BYTES_MAX + 1))
    if reply.is_ok:
        return no("accepted")
    return yes(reply.words) if reply.status == 400 else differs(reply.words)


def keeps_metadata(store: Store) -> Conclusion:
    """Check that 2 KiB of metadata, including the header names, are kept."""
    headers = metadata(store)
    together = store.together(object_with_headers)
    if together is not None and headers.items() <= together[1].headers.items():
        return yes()
    reply = store.put("k", b"x", headers)
    if not reply.is_ok:
        return no(reply.words)
    answered = store.head("k").headers
    return yes() if headers.items() <= answered.items() else no("it does not come back")


def too_much_metadata(store: Store) -> Conclusion:
    """Check that more than 2 KiB of metadata are refused."""
    reply = store.put("k", b"x", {"x-amz-meta-m": "v" * (METADATA_BYTES_MAX + 1)})
    if reply.is_ok:
        return no("accepted")
    return yes(reply.words) if reply.status == 400 else differs(reply.words)


def keeps_headers(store: Store) -> Conclusion:
    """Check that content type and encoding are kept, and that the body is not changed."""
    together = store.together(object_with_headers)
    if together is not None and together[0].is_ok:
        reply = together[1]
    else:
        store.must_put("k", b"not gzip", HEADERS)
        reply = store.get("k")
    if reply.body != b"not gzip":
        return no("the body is changed")
    lost = [name for name, value in HEADERS.items() if reply.headers.get(name) != value]
    return no(f"lost: {', '.join(lost)}") if lost else yes()


def copies_onto_itself(store: Store) -> Conclusion:
    """Check that a copy onto itself replaces the metadata and keeps the bytes."""
    there, (put, _) = store.shared(object_with_headers)
    if not put.is_ok:
        there.must_put("k", b"not gzip", {"x-amz-meta-m0": "v"})
    headers = {
        "x-amz-copy-source": f"/{store.place}/{there.key('k')}",
        "x-amz-metadata-directive": "REPLACE",
        "x-amz-meta-b": "2",
    }
    reply = there.put("k", b"", headers)
    if not reply.is_ok:
        return no(reply.words)
    read = there.get("k")
    if read.body != b"not gzip":
        return no("the bytes are lost")
    is_replaced = read.headers.get("x-amz-meta-b") == "2" and "x-amz-meta-m0" not in read.headers
    return yes() if is_replaced else no("the metadata stays")


def tags(store: Store) -> Conclusion:
    """Check that an object's tags are kept."""
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
    """Return a name whose key has this length in bytes."""
    folders = ("k" * 199 + "/") * 4
    return folders + "k" * (key_bytes - len(store.key(folders)))
