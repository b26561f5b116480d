"""What the targets of a run answered before its load, where that is not what is usual."""

from collections.abc import Iterator

from loadstone.documents.manifest import Manifest
from loadstone.report.card_words import summary_of
from loadstone.report.tables.layout import Column, Table, texts

HEADS = ("Question", "Answer", "Seen", "What it means here")


def card_tables(manifest: Manifest) -> Iterator[Table]:
    """Return a table for each card of a run, and the reasons why others could not be made."""
    columns = tuple(Column(head=head, align="left") for head in HEADS)
    for name, card in (manifest.get("cards") or {}).items():
        yield Table(
            title=f"What {name} honours",
            columns=columns,
            rows=tuple(
                (row["question"], row["answer"], row["detail"], row["means"])
                for row in card["rows"]
                if not row["usual"]
            ),
            caption=f"Asked on {card['when']}: {summary_of(card)}.",
            notes=(f"The other questions are answered as by {card['protocol']}.",),
        )
    failed = manifest.get("cards_failed") or {}
    if failed:
        yield Table(
            title="Targets that could not be asked what they honour",
            columns=texts(*("Target", "Because")),
            rows=tuple(failed.items()),
        )
