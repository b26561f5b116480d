"""A card in a sentence, for screens and pages."""

from loadstone.documents.card import Card
from loadstone.units import counted


def summary_of(card: Card) -> str:
    """Return a card in a sentence."""
    surprising = sum(not row["usual"] for row in card["rows"])
    server = f'server "{card["server"]}", ' if card["server"] else ""
    return (
        f"{server}{counted(len(card['rows']), 'question')}, {surprising} answered otherwise than"
        f" by {card['protocol']}, {counted(card['requests'], 'request')} in {card['seconds']:.1f} s"
    )
