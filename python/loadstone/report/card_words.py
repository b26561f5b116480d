"""A card, or a bestiary, in a sentence, for screens and pages."""

from collections import Counter
from urllib.parse import urlsplit

from loadstone.documents.card import NO_ANSWERS, AskedOf, Bestiary, BestiaryRow, Card
from loadstone.units import counted

WORST_FIRST = ("failed", "undecided", "passed", "not applicable")


def summary_of(card: Card) -> str:
    """Return a card in a sentence."""
    answers = Counter(row["answer"] for row in card["rows"] if not row["usual"])
    open_questions = {name: answers.pop(name, 0) for name in NO_ANSWERS}
    words = [
        counted(len(card["rows"]), "question"),
        f"{answers.total()} not answered as {card['protocol']} documents",
        *(f"{count} {name}" for name, count in open_questions.items() if count),
    ]
    return _summary(card, ", ".join(words))


def summary_of_bestiary(bestiary: Bestiary) -> str:
    """Return what came of a bestiary in a sentence."""
    answers = Counter(row["answer"] for row in by_answer(bestiary))
    counts = ", ".join(f"{count} {answer}" for answer, count in answers.items())
    return _summary(bestiary, f"{counted(len(bestiary['rows']), 'published sequence')}: {counts}")


def by_answer(bestiary: Bestiary, *, worst_last: bool = False) -> list[BestiaryRow]:
    """Return the rows of a bestiary by their answers: the worst first, as people read a page."""
    return sorted(
        bestiary["rows"], key=lambda row: WORST_FIRST.index(row["answer"]), reverse=worst_last
    )


def _summary(asked: AskedOf, of_rows: str) -> str:
    server = f'server "{asked["server"]}", ' if asked["server"] else ""
    requests = counted(asked["requests"], "request")
    return f"{server}{of_rows}, {requests} in {asked['seconds']:.1f} s"


def thread_of(reference: str) -> str:
    """Return the address of a thread in short: its project and number."""
    parts = urlsplit(reference)
    *_, project, _, number = parts.netloc.split(".")[-2], *parts.path.strip("/").split("/")
    return f"{project}#{number}"
