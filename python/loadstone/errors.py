"""The errors that loadstone raises.

LoadstoneError                  base class; the command line prints it and exits ├── CampaignError
a campaign file that cannot be planned; lists every mistake ├── TargetError                 a target
that cannot be reached, or refuses before load starts │   └── LeftBehindError         data of a run
that could not be removed at its end ├── HostError                   a client host that cannot take
part in a run ├── ResultError                 a run folder that cannot be written or read ├──
InvalidTrialError           a trial whose numbers must not be used └── InputError
an invalid value, or a user's file that cannot be read

A failed request is none of these: it is an outcome, counted in the record.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

Kind = Literal[
    "error", "campaign", "target", "left-behind", "host", "run", "input", "script", "usage",
    "unreadable", "run-exists", "no-run", "run-in-use", "no-space", "other-plan",
    "program-absent", "secret-absent", "not-ours", "certificates", "unreachable", "host-in-use",
    "clock", "of-another-run", "copied", "denied", "unknown-key", "wrong-signature",
    "target-absent", "in-use", "unsupported",
]  # fmt: skip
"""The kind of an error, for programs: unlike the message, it is stable."""


class LoadstoneError(Exception):
    """An error that the user can act on: one message, and a hint on its own line."""

    KIND: ClassVar[Kind] = "error"
    """The kind of errors of this class, unless the error states a more specific one."""

    def __init__(self, message: str, hint: str | None = None, *, kind: Kind | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.kind: Kind = kind or self.KIND

    def document(self) -> dict[str, Any]:
        """Return the error as plain values."""
        return {"kind": self.kind, "message": self.message, "hint": self.hint}

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A mistake in a campaign: its key, the actual value, and the allowed values.

    `origin` is the file's name, or "set" for a value that came from the command line; `line` counts
    from 1 and is absent if there is no line.
    """

    key: str
    actual: str
    allowed: str
    origin: str = ""
    line: int | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = [self.origin] if self.origin else []
        if self.line is not None:
            place.append(str(self.line))
        where = ":".join(place)
        what = f"found {self.actual}, allowed {self.allowed}"
        text = ": ".join(part for part in (where, self.key, what) if part)
        return text if self.hint is None else f"{text}\nhint: {self.hint}"


class CampaignError(LoadstoneError):
    """A campaign that cannot be used; lists all its mistakes at once, one per line."""

    KIND = "campaign"

    def __init__(self, mistakes: Sequence[Mistake], hint: str | None = None) -> None:
        assert mistakes, "a campaign without mistakes is not an error"
        super().__init__("\n".join(str(mistake) for mistake in mistakes), hint)
        self.mistakes = list(mistakes)

    def document(self) -> dict[str, Any]:
        return {**super().document(), "mistakes": [asdict(mistake) for mistake in self.mistakes]}


class TargetError(LoadstoneError):
    """A target that cannot be reached, or that refuses a trial's requirements before load
    starts.
    """

    KIND: ClassVar[Kind] = "target"


class LeftBehindError(TargetError):
    """Data of a run that could not be removed; its measurements are valid."""

    KIND = "left-behind"


class HostError(LoadstoneError):
    """A client host that cannot be reached, or that cannot take part in a run."""

    KIND = "host"


class ResultError(LoadstoneError):
    """A run folder that cannot be written, or read back."""

    KIND = "run"


class InputError(LoadstoneError, ValueError):
    """An invalid value, or a file that cannot be parsed."""

    KIND: ClassVar[Kind] = "input"

    @classmethod
    def of_value(cls, value: object, allowed: str, hint: str | None = None) -> "InputError":
        """Return the error for one value, worded like a campaign's mistake."""
        words = shown(value)
        error = cls(f"found {words}, allowed {allowed}", hint)
        error.actual = words
        error.allowed = allowed
        return error

    actual: str | None = None
    allowed: str | None = None


def shown(value: object) -> str:
    """Return a value for a message; a map or a list by its type instead of its contents."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"' if len(value) <= 60 else f'"{value[:57]}..."'
        case dict():
            return "a map of keys" if value else "an empty map"
        case list() | tuple():
            return "a list" if value else "an empty list"
    return str(value)
