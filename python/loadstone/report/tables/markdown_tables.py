"""A report's Markdown as pieces that a page can show: its tables as tables, the rest as text."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A table with its heads and rows, or `text` where there are none."""

    text: str = ""
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def pieces_of(markdown: str) -> Iterable[Piece]:
    text: list[str] = []
    lines = markdown.splitlines()
    at = 0
    while at < len(lines):
        if _is_row(lines[at]) and at + 1 < len(lines) and _is_rule(lines[at + 1]):
            yield from _text(text)
            text = []
            heads = _cells(lines[at])
            rows: list[tuple[str, ...]] = []
            at += 2
            while at < len(lines) and _is_row(lines[at]):
                rows.append(_cells(lines[at]))
                at += 1
            yield Piece(heads=heads, rows=tuple(rows))
            continue
        text.append(lines[at])
        at += 1
    yield from _text(text)


def _text(lines: list[str]) -> Iterable[Piece]:
    text = "\n".join(lines).strip("\n")
    if text.strip():
        yield Piece(text=text)


def _is_row(line: str) -> bool:
    return line.lstrip().startswith("|")


def _is_rule(line: str) -> bool:
    return _is_row(line) and "-" in line and set(line.strip()) <= set("|-: ")


def _cells(line: str) -> tuple[str, ...]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return tuple(cell.strip() for cell in inner.split("|"))
