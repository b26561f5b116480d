"""Multiples in words: "almost thrice", "2.5x faster", "drops by a third", "more than doubled"."""

import re
from collections.abc import Callable

APART = 0.10
"""By how much words may round the ratio of their numbers."""

_COUNTS = {
    "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "seven": 7.0, "eight": 8.0,
    "nine": 9.0, "ten": 10.0, "eleven": 11.0, "twelve": 12.0, "twenty": 20.0, "a hundred": 100.0,
}  # fmt: skip
_PARTS = {
    "half": 1 / 2, "third": 1 / 3, "quarter": 1 / 4, "fourth": 1 / 4, "fifth": 1 / 5,
    "sixth": 1 / 6, "seventh": 1 / 7, "eighth": 1 / 8, "ninth": 1 / 9, "tenth": 1 / 10,
}  # fmt: skip
_OF_PARTS = {"a": 1, "an": 1, "one": 1, **{word: int(count) for word, count in _COUNTS.items()}}
_COUNT = "|".join(_COUNTS)
_NUMBER = r"(?P<number>\d+(?:[.,]\d+)*)"
_PERCENT = r"\s*(?:%|per ?cent)"
_PART = rf"(?P<parts>a|an|one|{_COUNT})[ -](?P<part>{'|'.join(_PARTS)})s?\b"
_MORE = r"more|faster|higher|greater|larger"
_LESS = r"less|slower|lower|fewer|smaller"
_RISES = r"\b(?:increas|ris|rose|grow|grew|gain|improv|up)\w*"
_FALLS = r"\b(?:decreas|drop|fall|fell|reduc|cut|declin|shr[iau]nk|los|down)\w*"


def _number(found: re.Match[str]) -> float:
    """Return a number with a point or a comma; a comma before three digits parts thousands."""
    text = re.sub(r",(?=\d{3}(?!\d))", "", found["number"])
    return float(text.replace(",", "."))


def _counted(found: re.Match[str]) -> float:
    return _COUNTS[found["word"]]


def _part(found: re.Match[str]) -> float:
    return _OF_PARTS[found["parts"]] * _PARTS[found["part"]]


_RANGE = re.compile(r"\d\s*(?:-|\u2013|to|or)\s*\d+(?:[.,]\d+)?\s*(?:×|x\b|times|-?fold|%)")
"""What lies between two numbers is no single multiple."""

# What says more stands before the part of it that says less: "one and a half" holds "half".
MULTIPLES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], float]], ...] = tuple(
    (re.compile(pattern), value)
    for pattern, value in (
        (rf"(?P<word>{_COUNT}) and a half(?: times|-?fold)", lambda one: _counted(one) + 0.5),
        (r"\bone and a half\b|\bhalf again\b|\bhalf as \w+ again\b", lambda _: 1.5),
        (rf"{_NUMBER}\s*(?:×|x\b|times\b|-?fold\b)", _number),
        (rf"factor(?: of)? {_NUMBER}", _number),
        (rf"factor(?: of)? (?P<word>{_COUNT})\b", _counted),
        (rf"{_NUMBER}{_PERCENT} (?:{_MORE})", lambda one: 1 + _number(one) / 100),
        (rf"{_NUMBER}{_PERCENT} (?:{_LESS})", lambda one: 1 - _number(one) / 100),
        (rf"{_RISES} by \D*{_NUMBER}{_PERCENT}", lambda one: 1 + _number(one) / 100),
        (rf"{_FALLS} by \D*{_NUMBER}{_PERCENT}", lambda one: 1 - _number(one) / 100),
        (rf"{_NUMBER}{_PERCENT} of\b", lambda one: _number(one) / 100),
        (rf"\b(?P<word>{_COUNT})(?: times|-?fold)\b", _counted),
        (r"\btwice\b|\bdoubl", lambda _: 2.0),
        (r"\bthrice\b|\btripl|\btrebl", lambda _: 3.0),
        (r"\bquadrupl", lambda _: 4.0),
        (rf"{_RISES} by {_PART}", lambda one: 1 + _part(one)),
        (rf"{_FALLS} by {_PART}", lambda one: 1 - _part(one)),
        (rf"\b{_PART}(?! (?:{_MORE}|{_LESS}))", _part),
        (r"\bhalf\b|\bhalv", lambda _: 0.5),
    )
)
_AT_LEAST = re.compile(r"\b(?:more than|over|at least|above|upwards of|exceed\w*)\b")
_AT_MOST = re.compile(r"\b(?:less than|under|below|at most|up to|not even|no more than)\b")
_WITH_A_WAY = re.compile(rf"\b(?:{_MORE}|{_LESS}|quicker|shorter|slow|fast)\b")


def multiple_in(words: str) -> float | None:
    """Return the multiple that words say; None where they say none, or a range."""
    text = words.lower()
    if _RANGE.search(text):
        return None
    for pattern, value in MULTIPLES:
        found = pattern.search(text)
        if found is not None:
            return value(found)
    return None


def misses(words: str, said: float, ratio: float) -> bool:
    """Tell whether a ratio is not what words say; "more than twice" is no less than twice.

    "Five times slower" is said of a fifth of a rate, and of five times the time.
    """
    text = words.lower()
    either_way = _WITH_A_WAY.search(text) is not None
    return all(_misses(text, said, one) for one in ([ratio, 1 / ratio] if either_way else [ratio]))


def _misses(text: str, said: float, ratio: float) -> bool:
    difference = ratio / said - 1
    if _AT_LEAST.search(text) and not _AT_MOST.search(text):
        return difference < -APART / 2
    if _AT_MOST.search(text):
        return difference > APART / 2
    return abs(difference) > APART
