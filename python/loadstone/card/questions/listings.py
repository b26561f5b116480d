"""Consistency of reads and listings right after changes, and their order and encodings."""

from loadstone.card.conclusion import Conclusion, differs, no, yes
from loadstone.card.questions.shared import FIVE_KEYS, SPECIAL, five_keys, odd_keys, put_all
from loadstone.card.store import Reply, Request, Store, delete_many, must

UNICODE = ("é", "\ufffd", "😀")
"""The last two are in reverse order if keys are sorted as UTF-16."""
ORDERED = ("Z", "a", "a!", "a-b", "aa")
CONTROL = "a\x01b"


def read_after_put(store: Store) -> Conclusion:
    """Check reads right after the first put, and after a put that replaces it."""
    for body in (b"first", b"second"):
        store.must_put("k", body)
        reply = store.get("k")
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


def _changes(store: Store) -> tuple[list[bool], list[bool], Reply]:
    """Return whether puts, then deletes, of some keys show in listings, and a read of a deleted
    key.
    """
    after_put, after_delete = [], []
    for name in ("k0", "k1"):
        store.must_put(name)
        after_put.append(name in store.listed())
        must(store.delete(name), "DELETE")
        after_delete.append(name in store.listed())
    return after_put, after_delete, store.get("k1")


def delete_absent(store: Store) -> Conclusion:
    """Check the status of a delete of an absent object: S3 answers 204, Swift 404."""
    reply = store.delete("absent")
    usual = 404 if store.is_swift else 204
    return yes(reply.words) if reply.status == usual else differs(reply.words)


def in_order(store: Store) -> Conclusion:
    """Check that keys are listed in the order of their UTF-8 bytes."""
    names = (*ORDERED, *UNICODE)
    put_all(store, names)
    listed = store.listed()
    if sorted(listed) != sorted(names):
        return no("keys are missing, or changed")
    if listed == sorted(names, key=str.encode):
        return yes("by bytes of UTF-8")
    if listed == sorted(names, key=lambda name: name.encode("utf-16-be")):
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
        return no("the listing is no XML")
    return yes() if listed == [CONTROL] else no("it is listed as another key, or not")


def pages(store: Store) -> Conclusion:
    """Check that a listing continues where a page ended, and contains each key once."""
    there, _ = store.shared(five_keys)
    keys: list[str] = []
    after, count = None, 0
    while True:
        page = there.page(keys_max=2, after=after)
        keys += page.keys
        count += 1
        if page.next is None or count > len(FIVE_KEYS):
            break
        after = page.next
    names = [key.removeprefix(there.prefix) for key in keys]
    if names == list(FIVE_KEYS):
        return yes(f"{count} pages of 2")
    is_short = set(names) < set(FIVE_KEYS)
    return no("keys are missing" if is_short else "keys come twice, or disordered")


def start_after(store: Store) -> Conclusion:
    """Check that `start-after` starts a listing behind a key, which need not exist."""
    there, _ = store.shared(five_keys)
    query = {"list-type": "2", "prefix": there.prefix, "start-after": there.key("b/2x")}
    reply = must(store.ask(Request(method="GET", query=query)), "list")
    keys = [name for name in FIVE_KEYS if there.key(name).encode() + b"<" in reply.body]
    return yes() if keys == ["c/1", "d"] else no("ignored" if len(keys) == 5 else "other keys")


def markers(store: Store) -> Conclusion:
    """Check version 1 of listings with markers, which old programs use."""
    there, _ = store.shared(five_keys)
    query = {"prefix": there.prefix, "marker": there.key("b/1"), "max-keys": "2"}
    reply = store.ask(Request(method="GET", query=query))
    if not reply.is_ok:
        return no(reply.words)
    keys = [name for name in FIVE_KEYS if there.key(name).encode() + b"<" in reply.body]
    return yes() if keys[-2:] == ["b/2", "c/1"] and "d" not in keys else no("other keys")


def folders(store: Store) -> Conclusion:
    """Check that a delimiter groups keys into common prefixes, each once over all pages."""
    there, _ = store.shared(five_keys)
    prefixes: list[str] = []
    keys: list[str] = []
    after = None
    for _ in range(5):
        page = there.page(delimiter="/", keys_max=2, after=after)
        prefixes += page.prefixes
        keys += page.keys
        if (after := page.next) is None:
            break
    names = [name.removeprefix(there.prefix) for name in (*prefixes, *keys)]
    if names == ["b/", "c/", "a", "d"]:
        return yes()
    return no("prefixes come twice" if len(prefixes) > len(set(prefixes)) else "other entries")


def deletes_many(store: Store) -> Conclusion:
    """Check that one request deletes several objects, and ignores an absent one."""
    there, _ = store.shared(five_keys)
    reply = delete_many(there, [(there.key(name), None) for name in (*FIVE_KEYS, "absent")])
    if not reply.is_ok:
        return no(reply.words)
    return yes() if not there.listed() else no("some are listed still")
