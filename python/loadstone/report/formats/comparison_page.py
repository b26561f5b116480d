"""Comparisons as a page: a sentence per pair, ratios with intervals, and all cases."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from loadstone import units
from loadstone.analysis.accounts import claims
from loadstone.analysis.accounts.account import is_lower_better
from loadstone.analysis.accounts.comparison import MARGIN, CaseComparison, Comparison
from loadstone.analysis.answers.headline import Tile
from loadstone.report.pages.frame import render_page
from loadstone.report.result_words import compared_note, compared_words

KINDS = {
    "faster": "better",
    "slower": "worse",
    "equivalent": "same",
    "no ratio": "void",
    "void": "void",
}
TYPES_NOTE = (
    "Cases of a user type count actions that other cases contain too. ALL is every action of the"
    " type's users, except their creation and audits. These cases have a correction of their own"
    " (Holm), and are part of no mean."
)


def render_comparisons(
    comparisons: Sequence[Comparison], controls: Collection[tuple[str, str]]
) -> bytes:
    """Return the page of some comparisons; `controls` are the pairs of A against A."""
    pairs = [
        _pair(compared, place, is_control=(compared.a, compared.b) in controls)
        for place, compared in enumerate(comparisons)
    ]
    names = " and ".join(f"{compared.b} against {compared.a}" for compared in comparisons)
    return render_page(
        "comparison.html.jinja",
        data={
            "margin": MARGIN,
            "pairs": [{"a": pair.a, "b": pair.b} for pair in pairs],
            "cases": [_drawn(row) for pair in pairs for row in pair.cases if row.case.has_ratio],
        },
        title=names,
        pairs=pairs,
        notes=_notes_of(pairs),
    )


def ratio_rows(compared: Comparison, place: int) -> list[dict[str, object]]:
    """Return the cases of a comparison as charts show them, void ones included."""
    return [_drawn(_row(compared, case, place)) for case in compared.comparisons]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A case with its name, its pair's place, its means in words, and the kind of its verdict."""

    case: CaseComparison
    name: str
    pair: int
    a: str
    b: str
    kind: str
    words: str
    n: str
    p: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two arms: a sentence, tiles, rows and notes."""

    a: str
    b: str
    unit: str
    sentence: str
    tiles: tuple[Tile, ...]
    cases: tuple[_Row, ...]
    notes: tuple[str, ...]


def _drawn(row: _Row) -> dict[str, object]:
    ratio = row.case.ratio
    return {
        **{name: getattr(row, name) for name in ("name", "pair", "kind", "words", "a", "b")},
        "verdict": row.case.verdict,
        "ratio": ratio.ratio,
        "low": ratio.low,
        "high": ratio.high,
    }


def _pair(compared: Comparison, place: int, *, is_control: bool) -> _Pair:
    of_types = () if compared.by_user_type is None else compared.by_user_type.comparisons
    return _Pair(
        a=compared.a,
        b=compared.b,
        unit=claims.unit_of_metric(compared.metric),
        sentence=_sentence(compared),
        tiles=tuple(_tiles(compared)),
        cases=tuple(_row(compared, case, place) for case in (*compared.comparisons, *of_types)),
        notes=(*_notes(compared, is_control=is_control), *([TYPES_NOTE] if of_types else ())),
    )


def _row(compared: Comparison, case: CaseComparison, place: int) -> _Row:
    n, p = claims.numbers_words(case)
    a, b = compared_words(compared, case)
    return _Row(
        case=case,
        name=claims.describe(case) or "all",
        pair=place,
        a=a,
        b=b,
        kind=KINDS.get(case.verdict, "open"),
        words=claims.in_words(case),
        n=n,
        p=p,
        sentence=claims.sentence(compared, case),
    )


def _sentence(compared: Comparison) -> str:
    if compared.refused and not compared.is_overridden:
        fields = ", ".join(str(difference) for difference in compared.refused[:4])
        return f"{compared.a} and {compared.b} are not comparable: they differ in {fields}."
    counts = Counter(case.verdict for case in compared.comparisons)
    total = units.counted(len(compared.comparisons), "case")
    if not any(case.has_ratio for case in compared.comparisons):
        why = "; ".join(claims.reasons(compared.comparisons))
        return f"{compared.b} against {compared.a}: no case has a ratio ({why})."
    parts = [f"{name} in {counts[name]}" for name in ("faster", "slower") if counts[name]]
    parts += [f"equal within ±{MARGIN:.0%} in {counts['equivalent']}"] * bool(counts["equivalent"])
    open_ones = {name: counts[name] for name in counts if name not in KINDS}
    if open_ones:
        parts.append(f"not decided in {sum(open_ones.values())} ({', '.join(open_ones)})")
    parts += [f"{name} in {counts[name]}" for name in ("no ratio", "void") if counts[name]]
    if len(compared.comparisons) == 1:
        case = compared.comparisons[0]
        return f"{compared.b} against {compared.a}: {claims.in_words(case)}."
    return f"Of {total}, {compared.b} against {compared.a} is {', '.join(parts)}."


def _tiles(compared: Comparison) -> Iterable[Tile]:
    together = compared.geometric_mean
    if together is not None:
        interval = "no interval"
        if together.low is not None and together.high is not None:
            low, high = units.format_number(together.low), units.format_number(together.high)
            interval = f"95 % interval {low} to {high}"
        less = " · lower is better" if is_lower_better(compared.metric) else ""
        yield Tile(
            key="ratio",
            name=f"{compared.b} ÷ {compared.a}",
            value=f"{units.format_number(together.ratio)}×",
            note=f"{together.method_words.partition(',')[0]} · {interval}{less}",
        )
    counts = Counter(KINDS.get(case.verdict, "open") for case in compared.comparisons)
    total = units.counted(len(compared.comparisons), "case")
    for kind, name in (
        ("better", "Faster"),
        ("worse", "Slower"),
        ("same", f"Equal within ±{MARGIN:.0%}"),
        ("open", "Not decided"),
        ("void", "Without a ratio"),
    ):
        if counts[kind] or kind in ("better", "worse"):
            is_bad = kind in ("worse", "void") and bool(counts[kind])
            value, note = str(counts[kind]), f"of {total}"
            yield Tile(key=kind, name=name, value=value, note=note, is_bad=is_bad)


def _notes_of(pairs: Sequence[_Pair]) -> list[str]:
    """Return the notes on all pairs, each once; one that is not on all of them names its pair."""
    on_all = set.intersection(*(set(pair.notes) for pair in pairs))
    named = (
        note if note in on_all else f"{pair.b} against {pair.a}: {note}"
        for pair in pairs
        for note in pair.notes
    )
    return list(dict.fromkeys(named))


def _notes(compared: Comparison, *, is_control: bool) -> Iterable[str]:
    if any(case.has_ratio for case in compared.comparisons) and (
        words := claims.without_ratio_words(compared)
    ):
        yield f"{words}."
    for factor in compared.factors:
        yield f"Compared by {factor}."
    if compared.refused:
        label = "NONCOMPARABLE, by --insist" if compared.is_overridden else "Not comparable"
        yield f"{label}: they differ in {'; '.join(map(str, compared.refused))}."
    if compared.kinds:
        yield f"{claims.kinds_words(compared)}."
    if words := compared_note(compared, compared.comparisons):
        yield words
    for words in claims.caveats(compared, is_control=is_control):
        yield f"{words[:1].upper()}{words[1:]}."
