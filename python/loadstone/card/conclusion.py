"""What becomes of a question: its answer in one word, and what was seen."""

from dataclasses import dataclass

from loadstone.documents.card import CardAnswer


@dataclass(frozen=True, slots=True)
class Conclusion:
    """One word, and the evidence, which is the same each time the store is asked."""

    word: CardAnswer
    detail: str = ""
    finding: str = ""
    """Of what kind is what went wrong, as audits name it; empty where nothing did."""


def yes(detail: str = "") -> Conclusion:
    """Return that the store does it."""
    return Conclusion("yes", detail)


def no(detail: str = "") -> Conclusion:
    """Return that the store does not do it."""
    return Conclusion("no", detail)


def differs(detail: str) -> Conclusion:
    """Return that the store does something else."""
    return Conclusion("differs", detail)


class DeniedError(Exception):
    """The store denied a request that a question needs."""


class NotApplicableError(Exception):
    """The store has nothing of the kind that a question is about."""


class UnansweredError(Exception):
    """A request that a question needs was not answered in time, or not as HTTP."""
