"""What came of the bestiary: published sequences, each tried on a target, typed."""

from typing import Literal

from typing_extensions import TypedDict

from loadstone.documents.card import AskedOf

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
