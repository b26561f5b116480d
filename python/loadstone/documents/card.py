"""Semantics cards and bestiaries: what a store does when asked and tried, typed."""

from typing import Literal

from typing_extensions import TypedDict

from loadstone.documents.python_types import Number, Whole

CardAnswer = Literal["yes", "no", "differs", "refused", "undecided"]
"""`differs`: the target does something else; `refused`: it denies; `undecided`: no answer."""
NO_ANSWERS: tuple[CardAnswer, ...] = ("refused", "undecided")
"""The answers that say nothing about what the target honours."""


class CardRow(TypedDict):
    """One question: its answer, the observation, and the effect on a measurement.

    `name` is stable when the question is reworded. `usual` if documented S3 or Swift gives this
    answer.
    """

    group: str
    name: str
    question: str
    answer: CardAnswer
    detail: str
    means: str
    usual: bool


class AskedOf(TypedDict):
    """The target. `place` is the bucket or container that was written; None if none could be."""

    target: str
    protocol: str
    server: str | None
    place: str | None
    when: str
    seconds: Number
    requests: Whole
    loadstone: str


class Card(AskedOf):
    """The semantics card of a target."""

    rows: list[CardRow]


BestiaryAnswer = Literal["passed", "failed", "undecided", "not applicable"]


class BestiaryRow(TypedDict):
    """One sequence.

    `finding` is the kind of an audit's finding, `store` the store it was published for, and
    `reference` the address of the publication.
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
    """The bestiary of a target."""

    rows: list[BestiaryRow]
