"""A list of objects that others wrote, as a run's manifest says it."""

from typing_extensions import TypedDict


class ListFacts(TypedDict):
    """What is in a list, as the load generator reads it (`_loadgen.list_facts`)."""

    objects: int
    bytes: int
    size_bytes_min: int
    size_bytes_max: int
    without_size: int
    with_etag: int


class ObjectListDocument(ListFacts):
    """Where a list came from, and what is in it.

    `path` is its file in the run folder. `source` is the file that was given; without one, the
    store listed the objects, at `listed`. `is_cut` says that there are more than were asked for.
    """

    target: str
    bucket: str
    prefix: str
    source: str | None
    listed: str
    is_cut: bool
    path: str
    sha256: str
