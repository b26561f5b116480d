"""Comparisons as one page: a sentence for each pair, ratios with their intervals, every case."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from loadstone import units
from loadstone.analysis.accounts import claims
from loadstone.analysis.accounts.account import is_lower_better
from loadstone.analysis.accounts.comparison import MARGIN, CaseComparison, Comparison
from loadstone.analysis.answers.headline import Tile
from loadstone.report.pages.frame import render_page

KINDS = {
    "faster": "better",
    "slower": "worse",
    "equivalent": "same",
    "void": "void",
}
TYPES_NOTE = (
    "Cases of a type of users are actions of other cases once more: ALL is all that users of the"
    " type did, making and audits apart. They are corrected by themselves, and in no mean."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCase:
    """A row: the case in words, both means, what is known, and the numbers behind it."""

    name: str
    pair: int
    a: str
    b: str
    words: str
    ratio: float
    low: float | None
    high: float | None
    n: str
    p: str
    verdict: str
    kind: str
    sentence: str
    means: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPair:
    """Two arms: a sentence, its tiles, its rows, and what must be known beside them."""

    a: str
    b: str
    unit: str
    sentence: str
    tiles: tuple[Tile, ...]
    cases: tuple[ComparedCase, ...]
    notes: tuple[str, ...]


def render_comparisons(found: Sequence[Comparison], controls: Collection[tuple[str, str]]) -> bytes:
    """Return the page of some comparisons; `controls` are the pairs of A against A."""
    pairs = [
        _pair(one, place, is_control=(one.a, one.b) in controls) for place, one in enumerate(found)
    ]
    names = " and ".join(f"{one.b} against {one.a}" for one in found)
    return render_page(
        "comparison.html.jinja",
        data={
            "margin": MARGIN,
            "pairs": [{"a": pair.a, "b": pair.b} for pair in pairs],
            "cases": [
                _drawn(case) for pair in pairs for case in pair.cases if case.verdict != "void"
            ],
        },
        title=names,
        pairs=pairs,
    )


def ratio_rows(found: Comparison, place: int) -> list[dict[str, object]]:
    """Return the cases of a comparison as charts show them, void ones too."""
    return [_drawn(_case(found, one, place)) for one in found.comparisons]


def _drawn(case: ComparedCase) -> dict[str, object]:
    return {
        "name": case.name,
        "pair": case.pair,
        "ratio": case.ratio,
        "low": case.low,
        "high": case.high,
        "verdict": case.verdict,
        "kind": case.kind,
        "words": case.words,
        "a": case.a,
        "b": case.b,
    }


def _pair(found: Comparison, place: int, *, is_control: bool) -> ComparedPair:
    unit = claims.unit_of_metric(found.metric)
    of_types = () if found.by_user_type is None else found.by_user_type.comparisons
    return ComparedPair(
        a=found.a,
        b=found.b,
        unit=unit,
        sentence=_sentence(found),
        tiles=tuple(_tiles(found)),
        cases=tuple(_case(found, one, place) for one in (*found.comparisons, *of_types)),
        notes=(*_notes(found, is_control=is_control), *([TYPES_NOTE] if of_types else ())),
    )


def _case(found: Comparison, one: CaseComparison, place: int) -> ComparedCase:
    ratio = one.ratio
    same = ratio.n_a == ratio.n_b
    return ComparedCase(
        name=claims.describe(one) or "all",
        pair=place,
        a=units.format_number(one.a),
        b=units.format_number(one.b),
        words=claims.in_words(found, one),
        ratio=ratio.ratio,
        low=ratio.low,
        high=ratio.high,
        n=(f"{ratio.n_a}" if same else f"{ratio.n_a} and {ratio.n_b}")
        + (f", {ratio.days} days" if ratio.days > 1 else ""),
        p="" if one.p_holm is None or one.verdict == "void" else f"{one.p_holm:.2g}",
        verdict=one.verdict,
        kind=KINDS.get(one.verdict, "open"),
        sentence=claims.sentence(found, one),
        means=(one.a, one.b),
    )


def _sentence(found: Comparison) -> str:
    if found.refused and not found.is_overridden:
        fields = ", ".join(str(one) for one in found.refused[:4])
        return f"{found.a} and {found.b} are not comparable: they differ in {fields}."
    counts = Counter(one.verdict for one in found.comparisons)
    total = units.counted(len(found.comparisons), "case")
    if counts["void"] == len(found.comparisons):
        why = _why_void(found.comparisons)
        return f"{found.b} against {found.a}: no case has a ratio, since of one or both: {why}."
    said = [f"{name} in {counts[name]}" for name in ("faster", "slower") if counts[name]]
    said += [f"equal within ±{MARGIN:.0%} in {counts['equivalent']}"] * bool(counts["equivalent"])
    open_ones = {name: counts[name] for name in counts if name not in KINDS}
    if open_ones:
        said.append(f"not decided in {sum(open_ones.values())} ({', '.join(open_ones)})")
    said += [f"void in {counts['void']}"] * bool(counts["void"])
    if len(found.comparisons) == 1:
        one = found.comparisons[0]
        return f"{found.b} against {found.a}: {claims.in_words(found, one)}."
    return f"Of {total}, {found.b} against {found.a} is {', '.join(said)}."


def _why_void(void: Collection[CaseComparison]) -> str:
    return "; ".join(claims.reasons(void))


def _tiles(found: Comparison) -> Iterable[Tile]:
    together = found.geometric_mean
    if together is not None:
        interval = "no interval"
        if together.low is not None and together.high is not None:
            low, high = units.format_number(together.low), units.format_number(together.high)
            interval = f"95 % interval {low} to {high}"
        less = " · less is better" if is_lower_better(found.metric) else ""
        yield Tile(
            key="ratio",
            name=f"{found.b} ÷ {found.a}",
            value=f"{units.format_number(together.ratio)}×",
            note=f"{together.method_words.partition(',')[0]} · {interval}{less}",
        )
    counts = Counter(KINDS.get(one.verdict, "open") for one in found.comparisons)
    total = units.counted(len(found.comparisons), "case")
    for kind, name in (
        ("better", "Faster"),
        ("worse", "Slower"),
        ("same", f"Equal within ±{MARGIN:.0%}"),
        ("open", "Not decided"),
        ("void", "Void"),
    ):
        if counts[kind] or kind in ("better", "worse"):
            is_bad = kind in ("worse", "void") and bool(counts[kind])
            value, note = str(counts[kind]), f"of {total}"
            yield Tile(key=kind, name=name, value=value, note=note, is_bad=is_bad)


def _notes(found: Comparison, *, is_control: bool) -> Iterable[str]:
    void = [one for one in found.comparisons if one.verdict == "void"]
    if 0 < len(void) < len(found.comparisons):
        yield f"{units.counted(len(void), 'case')} void, with no ratio: {_why_void(void)}."
    for factor in found.factors:
        yield f"Compared by {factor}."
    if found.refused:
        label = "NONCOMPARABLE, by --insist" if found.is_overridden else "Not comparable"
        yield f"{label}: they differ in {'; '.join(str(one) for one in found.refused)}."
    if found.kinds:
        yield f"{claims.kinds_words(found)}."
    if is_control:
        yield f"A against A, one target under two names: {claims.noise(found)}."
    elif not found.has_control:
        yield "No control of A against A: the noise floor of the method is not known."
    if not found.is_one_run:
        yield "Not measured in one run: what changed in between, the hour too, is in the ratio."
    if words := claims.undecided_words(found):
        yield f"{words}."
    for which, cases in ((found.a, found.only_a), (found.b, found.only_b)):
        if cases:
            has = "has" if len(cases) == 1 else "have"
            yield f"{units.counted(len(cases), 'case')} of {which} {has} no partner."
