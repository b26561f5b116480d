"""Semantics cards and bestiaries: what a store does when asked and tried, typed."""

from typing import Literal

from typing_extensions import TypedDict

from loadstone.documents.python_types import Number, Whole

CardAnswer = Literal["yes", "no", "differs", "refused", "undecided"]
"""`differs`: something else is done; `refused`: it was denied; `undecided`: no answer came."""


class CardRow(TypedDict):
    """One question: its answer, what was seen, and what that means for a measurement.

    `name` stays the same where the question is worded anew. `usual` says whether S3, or Swift, as
    documented by who made it gives this answer.
    """

    group: str
    name: str
    question: str
    answer: CardAnswer
    detail: str
    means: str
    usual: bool


class AskedOf(TypedDict):
    """Which target was asked. `place` names what was written into; None where nothing could be."""

    target: str
    protocol: str
    server: str | None
    place: str | None
    when: str
    seconds: Number
    requests: Whole
    loadstone: str


class Card(AskedOf):
    """What a target honours."""

    rows: list[CardRow]


BestiaryAnswer = Literal["passed", "failed", "undecided", "not applicable"]


class BestiaryRow(TypedDict):
    """One sequence. `finding` is what went wrong, as audits name it; `store` is where it was found.

    `reference` is the address of the thread that published it.
    """

    number: str
    name: str
    store: str
    sequence: str
    answer: BestiaryAnswer
    finding: str | None
    detail: str
    reference: str


class Bestiary(AskedOf):
    """What a target does with each published sequence."""

    rows: list[BestiaryRow]
