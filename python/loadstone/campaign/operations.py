"""Facts about each operation, from the load generator's table.

`OPERATIONS` maps names to operations, in the order in which lists show them.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from loadstone import _loadgen


@dataclass(frozen=True, slots=True)
class Operation:
    """One kind of request."""

    name: str
    summary: str
    reads: bool
    """Whether its responses carry payload."""

    writes: bool
    """Whether its requests carry payload."""

    needs_objects: bool
    """Whether its objects must exist already."""

    is_mixed: bool
    """Whether it may be combined with others in a mix."""

    reads_existing: bool
    """Whether it may run on objects that others wrote, because it changes nothing."""

    repeats: Literal["always", "until_full", "never"]
    """How often it can be repeated on one object or bucket."""

    options: Sequence[str]
    """The options of a trial document that it reads."""

    takes_from: Sequence[str]
    """Within a mix it uses only objects or uploads that these operations created there."""

    @property
    def is_upload_step(self) -> bool:
        """Whether it begins an upload or continues one that its mix has begun."""
        return "create_upload" in self.takes_from

    @property
    def only_once(self) -> str | None:
        """Why a phase can process its objects only once; None if it may repeat."""
        if self.repeats == "always":
            return None
        if self.repeats == "until_full":
            return f"{self.name} fills each object only once"
        return f"{self.name} can happen to an object only once"


def _operations() -> Mapping[str, Operation]:
    names = [field.name for field in fields(Operation)]
    rows = [Operation(**{name: row[name] for name in names}) for row in _loadgen.operations()]
    return {row.name: row for row in rows}


OPERATIONS: Mapping[str, Operation] = _operations()
READS = frozenset(name for name, operation in OPERATIONS.items() if operation.reads)
WRITES = frozenset(name for name, operation in OPERATIONS.items() if operation.writes)


@functools.cache
def readers_of(option: str) -> tuple[str, ...]:
    """Return the operations that read an option of a trial document."""
    return tuple(name for name, operation in OPERATIONS.items() if option in operation.options)
