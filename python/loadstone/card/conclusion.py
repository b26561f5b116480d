"""The result of a question: its answer in one word, and the evidence."""

from dataclasses import dataclass

from loadstone.documents.card import CardAnswer


@dataclass(frozen=True, slots=True)
class Conclusion:
    """One word, and the evidence, which is the same each time the store is asked."""

    word: CardAnswer
    detail: str = ""
    finding: str = ""
    """The kind of defect, as audits name it; empty if there was none."""


def yes(detail: str = "") -> Conclusion:
    """Return that the store behaves as the question states."""
    return Conclusion("yes", detail)


def no(detail: str = "") -> Conclusion:
    """Return that the store does not behave as the question states."""
    return Conclusion("no", detail)


def differs(detail: str) -> Conclusion:
    """Return that the store behaves differently, with the difference."""
    return Conclusion("differs", detail)


class DeniedError(Exception):
    """The store denied a request that a question needs."""


class NotApplicableError(Exception):
    """The store lacks the feature that a question is about."""


class UnansweredError(Exception):
    """A request that a question needs got no valid HTTP response in time."""
