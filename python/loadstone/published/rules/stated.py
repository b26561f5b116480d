"""Checks a report's statements against its numbers: limits, labels, ratios in words."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from loadstone.analysis.accounts.account import Account, Statement
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.rules.rule import NumberRules
from loadstone.published.rules.consistency import in_common

RULES = NumberRules()

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


def _number(match: re.Match[str]) -> float:
    """Parse a number with a point or a comma; a comma before three digits separates thousands."""
    text = re.sub(r",(?=\d{3}(?!\d))", "", match["number"])
    return float(text.replace(",", "."))


def _counted(match: re.Match[str]) -> float:
    return _COUNTS[match["word"]]


def _part(match: re.Match[str]) -> float:
    return _OF_PARTS[match["parts"]] * _PARTS[match["part"]]


_RANGE = re.compile(r"\d\s*(?:-|\u2013|to|or)\s*\d+(?:[.,]\d+)?\s*(?:×|x\b|times|-?fold|%)")
"""A range of multiples, which is not a single multiple."""

# Longer phrases precede their parts: "one and a half" contains "half".
MULTIPLES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], float]], ...] = tuple(
    (re.compile(pattern), value)
    for pattern, value in (
        (rf"(?P<word>{_COUNT}) and a half(?: times|-?fold)", lambda match: _counted(match) + 0.5),
        (r"\bone and a half\b|\bhalf again\b|\bhalf as \w+ again\b", lambda _: 1.5),
        (rf"{_NUMBER}\s*(?:×|x\b|times\b|-?fold\b)", _number),
        (rf"factor(?: of)? {_NUMBER}", _number),
        (rf"factor(?: of)? (?P<word>{_COUNT})\b", _counted),
        (rf"{_NUMBER}{_PERCENT} (?:{_MORE})", lambda match: 1 + _number(match) / 100),
        (rf"{_NUMBER}{_PERCENT} (?:{_LESS})", lambda match: 1 - _number(match) / 100),
        (rf"{_RISES} by \D*{_NUMBER}{_PERCENT}", lambda match: 1 + _number(match) / 100),
        (rf"{_FALLS} by \D*{_NUMBER}{_PERCENT}", lambda match: 1 - _number(match) / 100),
        (rf"{_NUMBER}{_PERCENT} of\b", lambda match: _number(match) / 100),
        (rf"\b(?P<word>{_COUNT})(?: times|-?fold)\b", _counted),
        (r"\btwice\b|\bdoubl", lambda _: 2.0),
        (r"\bthrice\b|\btripl|\btrebl", lambda _: 3.0),
        (r"\bquadrupl", lambda _: 4.0),
        (rf"{_RISES} by {_PART}", lambda match: 1 + _part(match)),
        (rf"{_FALLS} by {_PART}", lambda match: 1 - _part(match)),
        (rf"\b{_PART}(?! (?:{_MORE}|{_LESS}))", _part),
        (r"\bhalf\b|\bhalv", lambda _: 0.5),
    )
)
_AT_LEAST = re.compile(r"\b(?:more than|over|at least|above|upwards of|exceed\w*)\b")
_AT_MOST = re.compile(r"\b(?:less than|under|below|at most|up to|not even|no more than)\b")
_WITH_A_WAY = re.compile(rf"\b(?:{_MORE}|{_LESS}|quicker|shorter|slow|fast)\b")


def multiple_in(words: str) -> float | None:
    """Return the multiple in words; None if there is none, or a range."""
    text = words.lower()
    if _RANGE.search(text):
        return None
    for pattern, value in MULTIPLES:
        match = pattern.search(text)
        if match is not None:
            return value(match)
    return None


def misses(words: str, stated_ratio: float, ratio: float) -> bool:
    """Tell whether a ratio contradicts a phrase; "more than twice" allows any larger ratio.

    "Five times slower" may mean a fifth of a rate, or five times the duration.
    """
    text = words.lower()
    either_way = _WITH_A_WAY.search(text) is not None
    return all(
        _misses(text, stated_ratio, match)
        for match in ([ratio, 1 / ratio] if either_way else [ratio])
    )


def _misses(text: str, stated_ratio: float, ratio: float) -> bool:
    difference = ratio / stated_ratio - 1
    if _AT_LEAST.search(text) and not _AT_MOST.search(text):
        return difference < -APART / 2
    if _AT_MOST.search(text):
        return difference > APART / 2
    return abs(difference) > APART


SCALES = 0.8
ABOVE = 1.05
APART = 0.10


@RULES.caution(
    id="limit-does-not-scale",
    short="limits that do not scale",
    says="a limit per bucket, client or the like that does not grow with their number",
    means="A shared resource is the limit.",
    do="Name the shared resource, or measure it.",
)
def limits_that_do_not_scale(account: Account) -> Iterator[Finding]:
    """Find limits "per bucket" and the like that do not grow with their number."""
    groups: dict[tuple[str, str, str], list[Statement]] = {}
    for statement in account.statements:
        _, unit = in_common(statement.value, statement.unit)
        groups.setdefault((statement.quantity, unit, statement.per), []).append(statement)
    for (quantity, _, per), entries in groups.items():
        ordered = sorted(entries, key=lambda entry: entry.count)
        first, last = ordered[0], ordered[-1]
        if not per or first.count <= 0 or last.count <= first.count or first.value <= 0:
            continue
        more, brings = last.count / first.count, _over(last, first) or 0.0
        if SCALES * more <= brings <= more / SCALES:
            continue
        yield Finding(
            "limit-does-not-scale",
            f"{quantity} is stated per {per}: {first.value:g} {first.unit} with"
            f" {first.count:g}, but {last.value:g} {last.unit} with {last.count:g}, which is"
            f" {last.value / last.count:.3g} each:"
            f" {more:.3g} times as many bring {brings:.2f} times as much, so it is not a limit per"
            f" {per} alone",
            evidence=(
                Evidence(
                    f"rise / rise of {per}s",
                    brings / more,
                    SCALES,
                    place=f"{first.place}; {last.place}",
                ),
            ),
        )


@RULES.caution(
    id="faster-than-beneath",
    short="faster than the layer beneath",
    says="a layer that is stated to be faster than the layer below",
    means="Several were used at once, or a cache was measured.",
    do="Say how many, and what was cached.",
)
def faster_than_beneath(account: Account) -> Iterator[Finding]:
    """Find layers that are stated to be faster than the layer below."""
    for statement in account.statements:
        below = [
            other
            for other in account.statements
            if statement.carried_by and other.quantity == statement.carried_by
        ]
        passed = [other for other in below if (_over(statement, other) or 0.0) > ABOVE]
        if not passed:
            continue
        beneath = " and ".join(f"{other.value:g} {other.unit} ({other.place})" for other in passed)
        yield Finding(
            "faster-than-beneath",
            f"{statement.quantity}, {statement.value:g} {statement.unit}, is above the"
            f" {statement.carried_by} beneath it, {beneath}: that takes several of them at once"
            " or a cache, so it does not describe the layer itself",
            evidence=tuple(
                Evidence(
                    f"{statement.quantity} / {statement.carried_by}",
                    _over(statement, other) or 0.0,
                    ABOVE,
                    place=f"{statement.place}; {other.place}",
                )
                for other in passed
            ),
        )


def _over(statement: Statement, other: Statement) -> float | None:
    """Return the ratio of two quantities; None if they have different kinds of units."""
    (value, unit), (beneath, of) = (in_common(each.value, each.unit) for each in (statement, other))
    return value / beneath if unit == of and beneath > 0 else None


@RULES.caution(
    id="contradicting-ceilings",
    short="contradicting ceilings",
    says="the ceiling of one device or link stated twice, differently",
    means="A share of that ceiling is uncertain.",
    do="Find out which of them holds.",
)
def two_speeds(account: Account) -> Iterator[Finding]:
    """Find a device or link with several different ceilings."""
    if account.run:
        # A run may measure one ceiling in several ways.
        return
    groups: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for ceiling in account.ceilings:
        key = (ceiling.name, ceiling.bounds or "")
        groups.setdefault(key, []).append((ceiling.bytes_per_s, ceiling.text or ceiling.place))
    for stated in account.statements:
        value, unit = in_common(stated.value, stated.unit)
        keys = [key for key in groups if key[0] == stated.quantity]
        # If reads and writes are listed separately, a single figure may be either.
        if unit == "B/s" and len(keys) == 1 and not stated.per:
            text = f"{stated.value:g} {stated.unit} ({stated.place})"
            groups[keys[0]].append((value, text))
    for (name, _), speeds in groups.items():
        values = [value for value, _ in speeds]
        if len(speeds) < 2 or max(values) <= (1 + APART) * min(values):
            continue
        yield Finding(
            "contradicting-ceilings",
            f"{name} has several speeds: {' and '.join(text for _, text in speeds)},"
            f" {max(values) / min(values):.1f}× apart",
            evidence=tuple(Evidence(name, value, unit="B/s", place=text) for value, text in speeds),
        )


@RULES.note(
    id="ratio-in-words",
    short="ratios in words",
    says='a ratio in words ("thrice") that its own numbers miss by more than a tenth',
    means="The words claim another result than the numbers.",
    do="Correct the words.",
)
def ratios_in_words(account: Account) -> Iterator[Finding]:
    """Find ratios in words that differ from their numbers, such as "thrice" for 2.67."""
    for claim in account.ratios:
        ratio = claim.value / claim.base if claim.base else 0.0
        stated = multiple_in(claim.words)
        if not stated or not ratio or not misses(claim.words, stated, ratio):
            continue
        yield Finding(
            "ratio-in-words",
            f'"{claim.words}" ({claim.place}) is {ratio:.2f}×, {ratio / stated - 1:+.0%} from'
            f" the {stated:g} that the words say ({claim.value:g} over {claim.base:g}"
            f" {claim.unit})",
            evidence=(Evidence("ratio of the numbers", ratio, stated, place=claim.place),),
        )


@RULES.caution(
    id="threads-and-cores",
    short="threads and cores contradict",
    says='labels such as "all threads" that contradict each other or the cores',
    means="The load behind a number is not known.",
    do="State the number of threads.",
)
def threads_and_cores(account: Account) -> Iterator[Finding]:
    """Find labels such as "all threads available" that contradict each other."""
    all_of_them = sorted({load.threads for load in account.loads if load.share == "all"})
    wrong = [
        f"{load.threads} threads are called fewer than available ({load.place}), and"
        f" {all_of_them[0]} are called all"
        for load in account.loads
        if load.share == "fewer" and all_of_them and load.threads >= all_of_them[0]
    ]
    wrong += [
        f"{few} and {many} threads are both called all" for few, many in pairwise(all_of_them)
    ]
    known = {load.available for load in account.loads if load.available is not None}
    wrong += [
        f"{load.threads} threads are called {load.share} of {load.available} ({load.place})"
        for load in account.loads
        if load.available is not None
        and (
            (load.share == "all" and load.threads not in known)
            or (load.share == "fewer" and load.threads >= load.available)
        )
    ]
    if wrong:
        yield Finding(
            "threads-and-cores",
            f"labels of threads contradict each other or the cores: {'; '.join(wrong)}",
            evidence=tuple(
                Evidence("threads", float(load.threads), load.share,
                         place=load.place)
                for load in account.loads
            ),
        )  # fmt: skip


@RULES.problem(
    id="unnamed-spread",
    short="a ± without a name",
    says="a ± whose meaning is not given",
    means="It may be a standard deviation, a standard error or a range.",
    do="Say which, and of what.",
)
def unnamed_spread(account: Account) -> Iterator[Finding]:
    """Find a ± without a stated meaning, from which no interval can be computed."""
    spreads = [m for m in account.measurements if m.spread is not None]
    if spreads and account.disclosure.spread is None:
        yield Finding(
            "unnamed-spread",
            f"{len(spreads)} numbers carry a ± without a definition: a standard deviation, a"
            " standard error and an interval differ by factors",
            evidence=(Evidence("± without a meaning", len(spreads)),),
        )
