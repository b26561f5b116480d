"""Generates users of a vault with private spaces and inboxes, who share objects with others.

The counts are those of a published long run of an encrypting vault, whose sequence of actions was
random but the same for every thread: 155 writes, 296 reads, 281 lists, 214 deletes and 63 shares,
with 215 objects overwritten. Other lengths keep the proportions; an action that finds no object, as
with few recipients, is left out. Types of users divide the actions, each by its own mix: a user
reads and deletes objects in the spaces of users of its type.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from loadstone.campaign.schema.script import Users, UserType
from loadstone.script.table import Action

COUNTS: Mapping[tuple[str, str], int] = {
    ("WRITE", "private"): 155,
    ("READ", "private"): 176,
    ("READ", "inbox"): 120,
    ("LIST", "private"): 151,
    ("LIST", "inbox"): 130,
    ("DELETE", "private"): 108,
    ("DELETE", "inbox"): 106,
    ("SHARE", "inbox"): 63,
}
OVERWRITES = {"private": 35, "inbox": 180}
"""Overwritten objects: 215 in total, divided among the spaces by their remaining objects."""

RECIPIENTS_MEAN = 5.5
"""The mean for 1 to 9 recipients; for other bounds it moves with their middle."""

TRIED_ACTIONS = 64 * 1009
"""Total actions of all draws: long sequences miss few overwrites, and are drawn less often."""

NAMES_LOOKED_AT = 32

_Name = TypeVar("_Name")
_Kind = tuple[str | None, str, str]
"""The user's type, an action, and a kind of space."""


def make(settings: Users, seed: int) -> Iterator[Action]:
    """Yield the script: creation of users, then concurrent copies, then their audits."""
    assert settings.copies is not None, "the caller fills in the number of threads"
    assert settings.size_bytes is not None, "the caller fills in a size"
    steps = sequence(settings, seed)
    users = [f"user-{number}" for number in range(settings.users)]
    types: list[str | None] = [None] * len(users)
    for name, members in _members(settings).items():
        for member in members:
            types[member] = name
    row = 0
    for user, kind in zip(users, types, strict=True):
        row += 1
        yield Action(row, 0, "CREATE_USER", user, user_type=kind)
    for copy in range(1, settings.copies + 1):
        for step in steps:
            row += 1
            action = _action(row, copy, step, users, settings.size_bytes)
            yield action._replace(user_type=types[step.user])
    for copy in range(1, settings.copies + 1):
        for user, kind in zip(users, types, strict=True):
            for space in ("private", "inbox"):
                row += 1
                prefix = f"copy-{copy}/"
                audits = settings.copies + copy
                yield Action(row, audits, "AUDIT", user, space, prefix, user_type=kind)


@dataclass(frozen=True, slots=True)
class UserStep:
    """One action of the sequence, before it is copied; `holders` are the recipients of a share."""

    action: str
    space: str
    user: int
    name: str | None = None
    content: int | None = None
    holders: tuple[int, ...] = ()


def _action(row: int, copy: int, step: UserStep, users: Sequence[str], size: int) -> Action:
    is_put = step.action in ("WRITE", "SHARE")
    return Action(
        row=row,
        session=copy,
        action=step.action,
        user=users[step.user],
        space=None if step.action == "SHARE" else step.space,
        object=f"copy-{copy}/{step.name or ''}",
        size=size if is_put else None,
        recipients=[users[holder] for holder in step.holders] if step.holders else None,
        content=step.content,
    )


def sequence(settings: Users, seed: int) -> list[UserStep]:
    """Return one copy: the first draw that overwrites enough objects."""
    best: _Walk | None = None
    for number in range(max(1, TRIED_ACTIONS // settings.actions)):
        walk = _Walk(settings, random.Random(f"{seed}/users/{number}"))
        walk.go()
        if best is None or walk.missed < best.missed:
            best = walk
        if not walk.missed:
            break
    assert best is not None, "there is a first"
    return best.steps


def scaled(counts: Mapping[_Name, float], total: int) -> dict[_Name, int]:
    """Return counts with another sum in the same proportions, the largest remainders rounded up."""
    whole = sum(counts.values())
    exact = {name: count * total / whole for name, count in counts.items()}
    rounded = {name: int(value) for name, value in exact.items()}
    order = sorted(counts, key=lambda name: exact[name] - rounded[name], reverse=True)
    for name in order[: total - sum(rounded.values())]:
        rounded[name] += 1
    return rounded


def _members(settings: Users) -> dict[str | None, range]:
    """Return the users of each type, by number; each type has at least one."""
    if not settings.types:
        return {None: range(settings.users)}
    shares = {name: float(user_type.share) for name, user_type in settings.types.items()}
    dealt = scaled(shares, settings.users)
    for name in shares:
        if not dealt[name]:
            dealt[name] = 1
            dealt[max(dealt, key=lambda type_name: dealt[type_name])] -= 1
    members: dict[str | None, range] = {}
    begin = 0
    for name in shares:
        end = begin + dealt[name]
        members[name], begin = range(begin, end), end
    return members


def _counts(settings: Users, members: Mapping[str | None, range]) -> dict[_Kind, int]:
    """Return how many actions of each kind the users of each type do.

    A type that writes nothing has an empty private space: it lists, reads and deletes in the inbox.
    """
    counts: dict[_Kind, int] = {}
    dealt = scaled({name: len(users) for name, users in members.items()}, settings.actions)
    for name, total in dealt.items():
        mix = settings.types.get(name or "", UserType()).mix
        if mix is None:
            weights: dict[tuple[str, str], float] = {**COUNTS}
        else:
            weights = {}
            for (action, space), count in COUNTS.items():
                if action not in mix:
                    continue
                of_action = sum(n for (other, _), n in COUNTS.items() if other == action)
                place = space if "WRITE" in mix else "inbox"
                at = (action, place)
                weights[at] = weights.get(at, 0.0) + mix[action] * count / of_action
        for (action, space), count in scaled(weights, total).items():
            counts[name, action, space] = count
    return counts


@dataclass(slots=True)
class _Space:
    """The objects in all users' spaces of one kind, and the remaining writes to them."""

    writes: int
    overwrites: int
    types: Sequence[str | None]
    """The type of each user."""
    held: dict[str | None, list[tuple[int, str]]] = field(default_factory=dict)
    """The objects in the spaces of the users of each type."""
    places: dict[tuple[int, str], int] = field(default_factory=dict)

    def of(self, kind: str | None) -> list[tuple[int, str]]:
        return self.held.setdefault(kind, [])

    def add(self, entry: tuple[int, str]) -> None:
        objects = self.of(self.types[entry[0]])
        self.writes -= 1
        if entry in self.places:
            self.overwrites -= 1
            return
        self.places[entry] = len(objects)
        objects.append(entry)

    def remove(self, entry: tuple[int, str]) -> None:
        objects = self.of(self.types[entry[0]])
        place = self.places.pop(entry)
        last = objects.pop()
        if last != entry:
            objects[place] = last
            self.places[last] = place

    @property
    def share(self) -> float:
        return self.overwrites / self.writes if self.writes else 0.0


class _Walk:
    def __init__(self, settings: Users, chance: random.Random) -> None:
        self.settings, self.chance = settings, chance
        self.members = _members(settings)
        self.left = _counts(settings, self.members)
        self.steps: list[UserStep] = []
        self.recipients = self._recipients(self._left("SHARE", "inbox"))
        scale = settings.actions / sum(COUNTS.values())
        writes = {"private": self._left("WRITE", "private"), "inbox": sum(self.recipients)}
        types = [name for name, users in self.members.items() for _ in users]
        self.spaces = {
            name: _Space(
                writes[name],
                min(round(count * scale), max(0, writes[name] - self._least(name))),
                types,
            )
            for name, count in OVERWRITES.items()
        }
        self.holders: dict[str, set[int]] = {}
        self.shared: list[str] = []
        self.made = 0

    def _left(self, action: str, space: str) -> int:
        return sum(self.left.get((kind, action, space), 0) for kind in self.members)

    def _least(self, space: str) -> int:
        """The number of objects to create, so that each delete has one and one remains to read."""
        return sum(
            self.left.get((kind, "DELETE", space), 0)
            + (self.left.get((kind, "READ", space), 0) > 0)
            for kind in self.members
        )

    def _recipients(self, shares: int) -> list[int]:
        fewest, most = self.settings.recipients
        middle = fewest + (most - fewest) * (RECIPIENTS_MEAN - 1) / 8
        counts = [self.chance.randint(fewest, most) for _ in range(shares)]
        wanted = round(middle * shares)
        while sum(counts) != wanted:
            step = 1 if sum(counts) < wanted else -1
            able = [at for at, count in enumerate(counts) if fewest <= count + step <= most]
            for at in self.chance.sample(able, min(len(able), abs(wanted - sum(counts)))):
                counts[at] += step
        return counts

    @property
    def missed(self) -> int:
        """The number of overwrites and actions that could not be placed."""
        return sum(abs(space.overwrites) for space in self.spaces.values()) + sum(
            self.left.values()
        )

    def go(self) -> None:
        names = list(self.left)
        while True:
            weights = [self.left[name] if self._can(*name) else 0 for name in names]
            if not any(weights):
                return
            kind, action, space = self.chance.choices(names, weights)[0]
            self.left[kind, action, space] -= 1
            self._take(kind, action, space)

    def _can(self, kind: str | None, action: str, space: str) -> bool:
        objects = len(self.spaces[space].of(kind))
        if action == "READ":
            return objects > 0
        if action == "DELETE":
            # One object remains for reads and for overwrites.
            left = self.left.get((kind, "READ", space), 0) or self.spaces[space].overwrites
            return objects > (1 if left else 0)
        return True

    def _take(self, kind: str | None, action: str, space: str) -> None:
        user = self.chance.choice(self.members[kind])
        match action:
            case "WRITE":
                self.steps.append(self._write(kind, user))
            case "SHARE":
                self.steps.append(self._share(user))
            case "LIST":
                self.steps.append(UserStep(action, space, user))
            case _:
                held = self.spaces[space]
                user, name = self.chance.choice(held.of(kind))
                if action == "DELETE":
                    held.remove((user, name))
                    self.holders.get(name, set()).discard(user)
                self.steps.append(UserStep(action, space, user, name))

    def _write(self, kind: str | None, user: int) -> UserStep:
        space = self.spaces["private"]
        if space.of(kind) and self.chance.random() < space.share:
            user, name = self.chance.choice(space.of(kind))
        else:
            name = self._new_name("file")
        space.add((user, name))
        return UserStep("WRITE", "private", user, name, self._content())

    def _share(self, user: int) -> UserStep:
        space, count = self.spaces["inbox"], self.recipients.pop()
        others = [other for other in range(self.settings.users) if other != user]
        wanted = sum(self.chance.random() < space.share for _ in range(count))
        least = count - (space.writes - space.overwrites)
        wanted = min(count, max(0, min(wanted, space.overwrites), least))
        name, again = self._name_held(others, count, wanted)
        fresh = [other for other in others if other not in self.holders[name]]
        holders = [*again, *self.chance.sample(fresh, count - len(again))]
        self.chance.shuffle(holders)
        for holder in holders:
            space.add((holder, name))
        self.holders[name].update(holders)
        return UserStep("SHARE", "inbox", user, name, self._content(), tuple(holders))

    def _name_held(self, others: Sequence[int], count: int, wanted: int) -> tuple[str, list[int]]:
        """Return an object held by the wanted number of others, and those; a new one if there is
        none.

        Of several examined objects the closest is used.
        """
        best: tuple[int, str, list[int]] | None = None
        looked = self.chance.sample(self.shared, min(len(self.shared), NAMES_LOOKED_AT))
        for name in looked if wanted else ():
            held = [other for other in others if other in self.holders[name]]
            again = max(min(wanted, len(held)), count - (len(others) - len(held)))
            far = abs(wanted - again)
            if again <= len(held) and (best is None or far < best[0]):
                best = far, name, held
                if not far:
                    break
        if best is None or best[0] >= wanted:
            name = self._new_name("shared")
            self.holders[name] = set()
            self.shared.append(name)
            return name, []
        _, name, held = best
        again = max(min(wanted, len(held)), count - (len(others) - len(held)))
        return name, self.chance.sample(held, again)

    def _new_name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}-{self.made}"

    def _content(self) -> int:
        return self.chance.randrange(self.settings.contents)
