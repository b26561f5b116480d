"""The fixture JSON of Datasafe's harness: a sequence of users' actions, each with its result.

Its users are made first, one by one; each copy of the sequence is a session under a prefix of its
own, as the harness runs one in each thread; at the end every space is listed, as the harness means
to. What a READ and a LIST must return stands in the fixture, and is held to what was written.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from loadstone import regular_file
from loadstone.errors import InputError
from loadstone.script.table import Action
from loadstone.script.trace import Losses, TraceOptions

FILE_BYTES_MAX = 256 * 2**20
SPACES = {"PRIVATE": "private", "INBOX": "inbox"}
OF_SPACE = ("WRITE", "READ", "LIST", "DELETE")
AUDITED = (("private", "userPrivateSpace"), ("inbox", "userPublicSpace"))


def actions(path: Path, options: TraceOptions, losses: Losses) -> Iterator[Action]:
    """Yield the actions of a fixture, in as many copies as are asked for."""
    if options.size_bytes is None:
        raise InputError(
            f'"{path}" does not say how large objects are', "give it: --size 100KiB, 1MiB or 10MiB"
        )
    document = _read(path)
    steps = _Steps(path, losses)
    kept = [step for number, one in enumerate(document["operations"], 1)
            if (step := steps.step(number, one)) is not None]  # fmt: skip
    losses.stop_if_malformed()
    audits = list(_audits(path, document))
    users = list(dict.fromkeys([one["user"] for one in kept] + [one["user"] for one in audits]))
    row = 0
    for user in users:
        row += 1
        yield Action(row, 0, "CREATE_USER", user=user)
    for copy in range(1, options.copies + 1):
        for step in kept:
            row += 1
            yield _action(row, copy, copy, step, options.size_bytes)
    for copy in range(1, options.copies + 1):
        for step in audits:
            row += 1
            yield _action(row, options.copies + copy, copy, step, None)


Step = Mapping[str, Any]


def _action(row: int, session: int, copy: int, step: Step, size_bytes: int | None) -> Action:
    is_put = step["action"] in ("WRITE", "SHARE")
    return Action(
        row=row,
        session=session,
        size=size_bytes if is_put else None,
        **{**step, "object": f"copy-{copy}/{step['object']}"},
    )


def _audits(path: Path, document: Mapping[str, Any]) -> Iterator[Step]:
    for space, key in AUDITED:
        held = document.get(key)
        if not isinstance(held, Mapping) or not all(isinstance(v, Mapping) for v in held.values()):
            raise InputError(f'"{path}": "{key}" is no map of users to their objects')
        for user, objects in held.items():
            entries = len(objects)
            yield {
                "action": "AUDIT", "user": user, "space": space, "object": "", "entries": entries
            }  # fmt: skip


class _Steps:
    """Reads operations in their order, and holds their results to what was written before."""

    def __init__(self, path: Path, losses: Losses) -> None:
        self._path, self._losses = path, losses
        self._contents: dict[str, int] = {}
        self._written: dict[tuple[str, str, str], str] = {}

    def step(self, number: int, one: Any) -> Step | None:
        """Return an operation as an action without its copy; None where it cannot be read."""
        try:
            step = self._read(one)
        except (KeyError, TypeError, ValueError) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            self._losses.malform(InputError(f'"{self._path}", operation {number}: {what}'))
            return None
        self._losses.read += 1
        return step

    def _read(self, one: Any) -> Step:
        action, user, name = str(one["type"]), str(one["userId"]), str(one.get("location") or "")
        if action == "SHARE":
            content = str(one["contentId"]["id"])
            recipients = sorted(map(str, one["recipients"]))
            for recipient in recipients:
                self._written[recipient, "inbox", name] = content
            return {
                "action": action, "user": user, "object": name, "recipients": recipients,
                "content": self._number(content),
            }  # fmt: skip
        if action not in OF_SPACE:
            raise ValueError(f'found "{action}", expected SHARE or one of {", ".join(OF_SPACE)}')
        space = SPACES[str(one["storageType"])]
        place = (user, space, name)
        step = {"action": action, "user": user, "space": space, "object": name}
        match action:
            case "WRITE":
                self._written[place] = str(one["contentId"]["id"])
                return {**step, "content": self._number(self._written[place])}
            case "READ":
                expected = str(one["result"]["content"]["id"])
                if self._written.get(place) != expected:
                    raise ValueError(
                        f'reads "{name}" as {expected}, but {self._written.get(place)} was written'
                    )
                return {**step, "content": self._number(expected)}
            case "DELETE":
                if self._written.pop(place, None) is None:
                    raise ValueError(f'deletes "{name}", which is no object that is there')
                return step
        expected_names = set(map(str, one["result"]["dirContent"]))
        found = {
            key for who, of, key in self._written if (who, of) == (user, space)
            and key.startswith(name)
        }  # fmt: skip
        if found != expected_names:
            raise ValueError(
                f'lists "{name}" as {len(expected_names)} keys, but {len(found)} are there'
            )
        return {**step, "entries": len(expected_names)}

    def _number(self, content: str) -> int:
        return self._contents.setdefault(content, len(self._contents))


def _read(path: Path) -> Mapping[str, Any]:
    try:
        regular_file.check(path)
        if path.stat().st_size > FILE_BYTES_MAX:
            raise InputError(f'"{path}" is larger than 256 MiB, which no fixture is')
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f'cannot read "{path}": {error.strerror}') from error
    except (ValueError, RecursionError) as error:
        raise InputError(f'"{path}" is no JSON: {error}') from error
    if not isinstance(document, Mapping) or not isinstance(document.get("operations"), list):
        raise InputError(
            f'"{path}" is no fixture: it has no list "operations"',
            "the harness keeps them under src/test/resources/fixture",
        )
    return document
