"""What several questions look at: written once in a place, and then only read."""

from loadstone.card.store import Reply, Request, Store, must

BODY = b"0123456789" * 10
FIVE_KEYS = ("k1", "k2", "k3", "k4", "k5")


def object_of_100_bytes(store: Store) -> Reply:
    """Write an object `k`."""
    return store.must_put("k", BODY)


def five_keys(store: Store) -> None:
    """Write objects for listings."""
    put_all(store, FIVE_KEYS)


def missing_object(store: Store) -> Reply:
    """Read what is not there: how the store answers tells much, and needs no place."""
    return store.get("absent")


def five_reads(store: Store) -> list[Reply]:
    """Read an object again and again."""
    there, _ = store.shared(object_of_100_bytes)
    return [there.get("k") for _ in range(5)]


def put_all(store: Store, names: tuple[str, ...]) -> None:
    """Write objects at once."""
    requests = [Request(method="PUT", key=store.key(name), body=b"x") for name in names]
    for reply in store.ask_at_once(requests):
        must(reply, "PUT")
