"""Pages of what stores were asked: cards side by side, and a bestiary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadstone.documents.card import Bestiary, Card, CardRow
from loadstone.report.card_words import by_answer, summary_of, summary_of_bestiary, thread_of
from loadstone.report.pages.frame import render_page

LEGEND = (
    "yes, no; differs: the store does something else; refused: the credentials may not try it;"
    " undecided: no answer came. Rows that differ from the documentation come first in each group."
)

BESTIARY_LEGEND = (
    "Each row is a sequence of requests with which the named store once lost or mixed up data, and"
    " the thread that published it. Passed: the fault did not appear here; undecided: the answers"
    " prove nothing."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """One question and the rows of all cards on it; None where a card has it not."""

    group: str
    question: str
    cells: tuple[CardRow | None, ...]

    @property
    def is_surprising(self) -> bool:
        """Whether an answer is not the usual one, or stores answer differently."""
        words = {cell["answer"] for cell in self.cells if cell}
        return len(words) > 1 or any(cell is not None and not cell["usual"] for cell in self.cells)


def side_by_side(cards: Sequence[Card]) -> list[SideBySide]:
    """Return the questions of all cards, groups in their order, the surprising first in each."""
    by_name: list[Mapping[str, CardRow]] = [
        {row["name"]: row for row in card["rows"]} for card in cards
    ]
    first = {name: row for rows in reversed(by_name) for name, row in rows.items()}
    names = dict.fromkeys(name for rows in by_name for name in rows)
    groups = list(dict.fromkeys(first[name]["group"] for name in names))
    rows = [
        SideBySide(
            group=first[name]["group"],
            question=first[name]["question"],
            cells=tuple(cells.get(name) for cells in by_name),
        )
        for name in names
    ]
    return sorted(rows, key=lambda row: (groups.index(row.group), not row.is_surprising))


def render_cards(cards: Sequence[Card]) -> bytes:
    """Return the page of some cards."""
    shown = [{"target": card["target"], "summary": summary_of(card)} for card in cards]
    *first, last = (card["target"] for card in cards)
    honour = f"{', '.join(first)} and {last} honour" if first else f"{last} honours"
    return render_page(
        "card.html.jinja",
        data={},
        title=f"What {honour}",
        cards=shown,
        rows=side_by_side(cards),
        legend=LEGEND,
    )


def render_bestiary(bestiary: Bestiary) -> bytes:
    rows = [
        {
            "group": row["number"],
            "question": f"{row['store']}: {row['sequence']}",
            "cells": (
                {
                    "answer": row["answer"],
                    "usual": row["answer"] != "failed",
                    "means": "",
                    "detail": ": ".join(filter(None, (row["finding"], row["detail"]))),
                    "reference": row["reference"],
                    "thread": thread_of(row["reference"]),
                },
            ),
        }
        for row in by_answer(bestiary)
    ]
    return render_page(
        "card.html.jinja",
        data={},
        title=f"Published sequences, tried on {bestiary['target']}",
        cards=[{"target": bestiary["target"], "summary": summary_of_bestiary(bestiary)}],
        rows=rows,
        legend=BESTIARY_LEGEND,
    )
