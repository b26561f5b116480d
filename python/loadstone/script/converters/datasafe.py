"""Reads fixture JSON of Datasafe's harness: a sequence of users' actions, each with its result.

Its users are created first, one by one. Each copy of the sequence is a session under its own
prefix, as the harness runs one in each thread. At the end every space is listed, as the harness
intends. Expected results of READ and LIST are in the fixture, and are compared with earlier writes.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from loadstone import regular_file
from loadstone.documents.mistake import first_mistake
from loadstone.errors import InputError
from loadstone.script.table import Action
from loadstone.script.trace import Losses, TraceOptions

FILE_BYTES_MAX = 256 * 2**20
SPACES = {"PRIVATE": "private", "INBOX": "inbox"}


class _FixturePart(BaseModel):
    """The used keys of a part of a fixture."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, coerce_numbers_to_str=True)


class FixtureContent(_FixturePart):
    """Content of an object, identified by a number of the harness."""

    id: str


class FixtureRead(_FixturePart):
    """Expected result of a READ."""

    content: FixtureContent


class FixtureListing(_FixturePart):
    """Expected result of a LIST."""

    dir_content: list[str]


class FixtureOperation(_FixturePart):
    """One operation of a user, on a key or under a prefix."""

    user_id: str
    location: str | None = None

    @property
    def name(self) -> str:
        """The key or the prefix."""
        return self.location or ""


class SpaceOperation(FixtureOperation):
    """An operation in one of the user's own spaces."""

    storage_type: Literal["PRIVATE", "INBOX"]


class WriteOperation(SpaceOperation):
    """Puts an object."""

    type: Literal["WRITE"]
    content_id: FixtureContent


class ReadOperation(SpaceOperation):
    """Gets an object."""

    type: Literal["READ"]
    result: FixtureRead


class ListOperation(SpaceOperation):
    """Lists keys."""

    type: Literal["LIST"]
    result: FixtureListing


class DeleteOperation(SpaceOperation):
    """Deletes an object."""

    type: Literal["DELETE"]


class ShareOperation(FixtureOperation):
    """Puts an object into the inboxes of others."""

    type: Literal["SHARE"]
    content_id: FixtureContent
    recipients: list[str]


class Fixture(_FixturePart):
    """A fixture; operations are read one by one, as malformed ones may be skipped.

    At the end, each user's objects are in the two spaces.
    """

    operations: list[object]
    user_private_space: Mapping[str, Mapping[str, object]]
    user_public_space: Mapping[str, Mapping[str, object]]


AnyOperation = Annotated[
    WriteOperation | ReadOperation | ListOperation | DeleteOperation | ShareOperation,
    Field(discriminator="type"),
]
_OPERATIONS: TypeAdapter[AnyOperation] = TypeAdapter(AnyOperation)


def actions(path: Path, options: TraceOptions, losses: Losses) -> Iterator[Action]:
    """Yield the actions of a fixture, in the requested number of copies."""
    if options.size_bytes is None:
        raise InputError(
            f'"{path}" does not state the size of objects', "give it: --size 100KiB, 1MiB or 10MiB"
        )
    fixture = _read(path)
    steps = _Steps(path, losses)
    steps_read = [step for number, operation in enumerate(fixture.operations, 1)
            if (step := steps.step(number, operation)) is not None]  # fmt: skip
    losses.stop_if_malformed()
    audits = list(_audits(fixture))
    row = 0
    for user in dict.fromkeys(step.user for step in (*steps_read, *audits)):
        row += 1
        yield Action(row, 0, "CREATE_USER", user=user)
    for copy in range(1, options.copies + 1):
        for step in steps_read:
            row += 1
            yield _copied(step, row, copy, copy, options.size_bytes)
    for copy in range(1, options.copies + 1):
        for step in audits:
            row += 1
            yield _copied(step, row, options.copies + copy, copy, None)


def _copied(step: Action, row: int, session: int, copy: int, size_bytes: int | None) -> Action:
    is_put = step.action in ("WRITE", "SHARE")
    return step._replace(
        row=row,
        session=session,
        size=size_bytes if is_put else None,
        object=f"copy-{copy}/{step.object}",
    )


def _step(action: str, user: str, name: str) -> Action:
    """Return an action that is not assigned to a copy yet."""
    return Action(0, 0, action, user=user, object=name)


def _audits(fixture: Fixture) -> Iterator[Action]:
    for space, held in (
        ("private", fixture.user_private_space), ("inbox", fixture.user_public_space)
    ):  # fmt: skip
        for user, objects in held.items():
            yield _step("AUDIT", user, "")._replace(space=space, entries=len(objects))


class _Steps:
    """Reads operations in order, and compares their results with earlier writes."""

    def __init__(self, path: Path, losses: Losses) -> None:
        self._path, self._losses = path, losses
        self._contents: dict[str, int] = {}
        self._written: dict[tuple[str, str, str], str] = {}

    def step(self, number: int, operation: object) -> Action | None:
        """Return an operation as an action without its copy; None if it cannot be parsed."""
        try:
            step = self._read(_OPERATIONS.validate_python(operation))
        except ValueError as error:
            what = first_mistake(error) if isinstance(error, ValidationError) else str(error)
            self._losses.malform(InputError(f'"{self._path}", operation {number}: {what}'))
            return None
        self._losses.read += 1
        return step

    def _read(self, operation: AnyOperation) -> Action:
        step = _step(operation.type, operation.user_id, operation.name)
        if isinstance(operation, ShareOperation):
            recipients = sorted(operation.recipients)
            for recipient in recipients:
                self._written[recipient, "inbox", operation.name] = operation.content_id.id
            return step._replace(recipients=recipients, content=self._number(operation.content_id))
        space = SPACES[operation.storage_type]
        place = (operation.user_id, space, operation.name)
        step = step._replace(space=space)
        match operation:
            case WriteOperation():
                self._written[place] = operation.content_id.id
                return step._replace(content=self._number(operation.content_id))
            case ReadOperation():
                expected, written = operation.result.content, self._written.get(place)
                if written != expected.id:
                    raise ValueError(
                        f'reads "{operation.name}" as {expected.id}, but {written} was written'
                    )
                return step._replace(content=self._number(expected))
            case DeleteOperation():
                if self._written.pop(place, None) is None:
                    raise ValueError(f'deletes "{operation.name}", which does not exist')
                return step
            case ListOperation():
                names = set(operation.result.dir_content)
                present = {
                    key for who, of, key in self._written if (who, of) == (operation.user_id, space)
                    and key.startswith(operation.name)
                }  # fmt: skip
                if present != names:
                    raise ValueError(
                        f'lists "{operation.name}" as {len(names)} keys; there are {len(present)}'
                    )
                return step._replace(entries=len(names))

    def _number(self, content: FixtureContent) -> int:
        return self._contents.setdefault(content.id, len(self._contents))


def _read(path: Path) -> Fixture:
    try:
        regular_file.check(path)
        if path.stat().st_size > FILE_BYTES_MAX:
            raise InputError(f'"{path}" is larger than 256 MiB, and so not a fixture')
        content = path.read_bytes()
        return Fixture.model_validate_json(content.decode(json.detect_encoding(content)))
    except OSError as error:
        raise InputError(f'cannot read "{path}": {error.strerror}') from error
    except ValueError as error:
        what = first_mistake(error) if isinstance(error, ValidationError) else str(error)
        raise InputError(
            f'"{path}" is not a fixture: {what}',
            "the harness keeps them under src/test/resources/fixture",
        ) from error
