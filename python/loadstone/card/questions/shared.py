"""Objects that several questions use: written once in a place, and then only read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest

from loadstone.card.store import Page, Reply, Request, Store

BODY = b"0123456789" * 10
METADATA_BYTES_MAX = 2048
LISTED_KEYS = ("Z", "a", "a-b", "b/1", "b/2", "\ufffd", "😀")
"""In the order of their bytes; sorted as UTF-16, the last two are the other way round."""
SPECIAL = "a b+c%20&'\"<é>"
ODD_KEYS = (("a//b",), ("a/../b",), ("a/",), (SPECIAL,), ("a", "a/b"), ("é", "e\u0301"))
"""Names grouped by folder; a store might confuse those of one folder with each other."""
HEADERS = {"content-type": "text/x-card", "content-encoding": "gzip"}
RANGES = ("bytes=10-19", "bytes=95-", "bytes=-3", "bytes=90-1000", "bytes=0-9,50-59")


def two_objects(store: Store) -> list[Reply]:
    """Write `empty`, and `k` of 100 bytes twice in sequence; return the replies."""
    return [store.put("empty", b""), store.must_put("k", BODY), store.must_put("k", BODY)]


def listed_keys(store: Store) -> tuple[list[Reply], list[str]]:
    """Write `LISTED_KEYS`; return the answers, and the names that one listing shows."""
    requests = [Request(method="PUT", key=store.key(name), body=b"x") for name in LISTED_KEYS]
    return store.ask_at_once(requests), store.listed()


def missing_object(store: Store) -> list[Reply]:
    """Read an absent object; the replies tell much about the store, and need no place."""
    return [store.get("absent") for _ in range(3)]


def five_reads(store: Store) -> list[Reply]:
    """Read the `RANGES` of an object in sequence."""
    there, _ = store.shared(two_objects)
    return [there.get("k", {"range": text}) for text in RANGES]


def whole_reads(store: Store) -> list[Reply]:
    """Read an object repeatedly."""
    there, _ = store.shared(two_objects)
    return [there.get("k") for _ in RANGES]


@dataclass(frozen=True, slots=True, kw_only=True)
class OddKeys:
    """The results of `ODD_KEYS`: the folder and the put of each, and one listing of all."""

    folders: Mapping[str, Store]
    puts: Mapping[str, Reply]
    page: Page

    def are_listed(self, *names: str) -> bool:
        """Tell whether the listing contains exactly these names of one folder."""
        folder = self.folders[names[0]]
        listed = [key for key in self.page.keys if key.startswith(folder.prefix)]
        return sorted(listed) == sorted(map(folder.key, names))


def odd_keys(store: Store) -> OddKeys:
    """Write each odd key, with its name as content, and list them all."""
    folders = {
        name: replace(store, prefix=store.key(f"{number}/"))
        for number, names in enumerate(ODD_KEYS)
        for name in names
    }
    puts: dict[str, Reply] = {}
    # The second name of a folder is written after the first, which may conflict with it.
    for names in zip_longest(*ODD_KEYS):
        requests = {
            name: Request(method="PUT", key=folders[name].key(name), body=name.encode())
            for name in names
            if name is not None
        }
        puts |= zip(requests, store.ask_at_once(list(requests.values())), strict=True)
    return OddKeys(folders=folders, puts=puts, page=store.page())


def object_with_headers(store: Store) -> tuple[Reply, Reply]:
    """Write an object `k` with metadata and content headers; return that reply, and a read."""
    return store.put("k", b"not gzip", HEADERS | metadata(store)), store.get("k")


def metadata(store: Store) -> dict[str, str]:
    """Return headers with 2 KiB of metadata, including their names."""
    name = "x-object-meta-m" if store.is_swift else "x-amz-meta-m"
    # Swift limits a value to 256 bytes.
    value = "v" * (METADATA_BYTES_MAX // 8 - len(f"{name}0"))
    return {f"{name}{number}": value for number in range(8)}
