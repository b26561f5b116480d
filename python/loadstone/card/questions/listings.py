"""Consistency of reads and listings right after changes, and their order and encodings."""

from collections.abc import Mapping

from loadstone.card.conclusion import Conclusion, differs, no, yes
from loadstone.card.questions.shared import LISTED_KEYS, SPECIAL, listed_keys, odd_keys
from loadstone.card.store import Reply, Request, Store, delete_many, must, s3_page

CONTROL = "a\x01b"


def read_after_put(store: Store) -> Conclusion:
    """Check reads right after the first put, and after a put that replaces it."""
    for body, reply in store.shared(_reads)[1].items():
        if reply.body != body:
            return no(reply.words if not reply.is_ok else "an older object is read")
    return yes()


def list_after_put(store: Store) -> Conclusion:
    """Check that an object is listed right after its put."""
    _, (listed, _, _) = store.shared(_changes)
    return yes() if all(listed) else no("not listed right after the put")


def list_after_delete(store: Store) -> Conclusion:
    """Check that an object is neither listed nor readable right after its delete."""
    _, (_, still_listed, reply) = store.shared(_changes)
    if any(still_listed):
        return no("listed right after the delete")
    return yes() if reply.status == 404 else differs(f"a read gives {reply.words}")


def _reads(store: Store) -> dict[bytes, Reply]:
    """Write an object twice; return what is read right after each put, by what was written."""
    reads = {}
    for body in (b"first", b"second"):
        store.must_put("k", body)
        reads[body] = store.get("k")
    return reads


def _changes(store: Store) -> tuple[list[bool], list[bool], Reply]:
    """Return whether puts, then deletes, of some keys show in listings, and a read of a deleted
    key.
    """
    there, _ = store.shared(_reads)
    there.must_put("new")
    names = ("k", "new")
    listed = there.listed()
    for name in names:
        must(there.delete(name), "DELETE")
    still_listed = there.listed()
    return (
        [name in listed for name in names],
        [name in still_listed for name in names],
        there.get("new"),
    )


def delete_absent(store: Store) -> Conclusion:
    """Check the status of a delete of an absent object: S3 answers 204, Swift 404."""
    reply = store.delete("absent")
    usual = 404 if store.is_swift else 204
    return yes(reply.words) if reply.status == usual else differs(reply.words)


def in_order(store: Store) -> Conclusion:
    """Check that keys are listed in the order of their UTF-8 bytes."""
    _, (replies, listed) = store.shared(listed_keys)
    for reply in replies:
        must(reply, "PUT")
    if sorted(listed) != sorted(LISTED_KEYS):
        return no("keys are missing, or changed")
    if listed == list(LISTED_KEYS):
        return yes("by bytes of UTF-8")
    if listed == sorted(LISTED_KEYS, key=lambda name: name.encode("utf-16-be")):
        return differs("by UTF-16")
    return no("in another order")


def encodes_keys(store: Store) -> Conclusion:
    """Check that `encoding-type=url` is honoured."""
    odd = store.together(odd_keys)
    if odd is not None and odd.are_listed(SPECIAL):
        page = odd.page
    else:
        store.must_put(SPECIAL)
        page = store.page()
    if not page.is_encoded:
        return no("ignored")
    if not any(key.endswith(SPECIAL) for key in page.keys):
        return no("the key comes back as another")
    return yes("blanks as +" if "a+b" in page.text else "blanks as %20")


def control_characters(store: Store) -> Conclusion:
    """Check that a key with a control character, which XML cannot represent, can be listed."""
    reply = store.put(CONTROL)
    if not reply.is_ok:
        return no(f"the put: {reply.words}")
    if store.get(CONTROL).body != b"x":
        return no("it cannot be read back")
    try:
        listed = store.listed()
    except ValueError:
        return no("the listing is not XML")
    return yes() if listed == [CONTROL] else no("it is listed as another key, or not")


def pages(store: Store) -> Conclusion:
    """Check that a listing continues where a page ended, and contains each key once."""
    there, names = _listed(store)
    keys: list[str] = []
    after, count = None, 0
    while True:
        page = there.page(keys_max=3, after=after)
        keys += page.keys
        count += 1
        if page.next is None or count > len(names):
            break
        after = page.next
    listed = _names(there, keys)
    if listed == names:
        return yes(f"{count} pages of 3")
    is_short = set(listed) < set(names)
    return no("keys are missing" if is_short else "keys come twice, or disordered")


def start_after(store: Store) -> Conclusion:
    """Check that `start-after` starts a listing behind a key, which need not exist."""
    there, names = _listed(store)
    query = {"list-type": "2", "prefix": there.prefix, "start-after": there.key("b/1x")}
    listed = _names(there, s3_page(must(store.ask(_list(query)), "list")).keys)
    if listed == names[names.index("b/2") :]:
        return yes()
    return no("ignored" if listed == names else "other keys")


def markers(store: Store) -> Conclusion:
    """Check version 1 of listings with markers, which old programs use."""
    there, names = _listed(store)
    query = {"prefix": there.prefix, "marker": there.key("a"), "max-keys": "2"}
    reply = store.ask(_list(query))
    if not reply.is_ok:
        return no(reply.words)
    begin = names.index("a") + 1
    listed = _names(there, s3_page(reply).keys)
    return yes() if listed == names[begin : begin + 2] else no("other keys")


def folders(store: Store) -> Conclusion:
    """Check that a delimiter groups keys into common prefixes, each once over all pages."""
    there, names = _listed(store)
    prefixes: list[str] = []
    keys: list[str] = []
    after = None
    for _ in names:
        # The first page ends between the keys of a common prefix.
        page = there.page(delimiter="/", keys_max=4, after=after)
        prefixes += page.prefixes
        keys += page.keys
        if (after := page.next) is None:
            break
    if _names(there, prefixes) == ["b/"] and _names(there, keys) == [
        name for name in names if "/" not in name
    ]:
        return yes()
    return no("prefixes come twice" if len(prefixes) > len(set(prefixes)) else "other entries")


def deletes_many(store: Store) -> Conclusion:
    """Check that one request deletes several objects, and ignores an absent one."""
    there, _ = store.shared(listed_keys)
    reply = delete_many(there, [(there.key(name), None) for name in (*LISTED_KEYS, "absent")])
    if not reply.is_ok:
        return no(reply.words)
    return yes() if not there.listed() else no("some are still listed")


def _listed(store: Store) -> tuple[Store, list[str]]:
    """Return where the keys for listings are, and their names in the store's own order."""
    there, (replies, listed) = store.shared(listed_keys)
    names = [name for name, reply in zip(LISTED_KEYS, replies, strict=True) if reply.is_ok]
    return there, listed if sorted(listed) == sorted(names) else names


def _names(store: Store, keys: list[str]) -> list[str]:
    return [key.removeprefix(store.prefix) for key in keys]


def _list(query: Mapping[str, str]) -> Request:
    return Request(method="GET", query=query)
