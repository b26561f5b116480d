"""The answer of a run, for a reader of one screen: a row a case, or the shape of a sweep.

Repetitions of a case, its rounds among them, are one result: their median, and half their range.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from loadstone.analysis import Findings
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.judgements.labels import BOUNDS, LEFT_OUT, VOIDING
from loadstone.analysis.naming import describe_parameter
from loadstone.analysis.rules import Effect, find_rule, limit_in_words

KNEE_SHARE = 0.95
CURVE_POINTS_MIN = 4
LOADS = ("threads", "clients", "rate_per_s", "rate")
CHECKS = {"errors": "too many requests failed", "steady": "the rate was not steady"}
EFFECTS: tuple[Effect, ...] = ("invalid", "bound", "precision")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case over all its trials: the median of their rates, and relatively half their range.

    `cell` holds their merged times and their counts. `limit` says in words what kept the rate from
    being higher; a bound is what the target can do at least, and what is void must not be used.
    """

    cell: Cell
    rate: float
    spread: float | None
    limit: str
    is_bound: bool
    is_void: bool

    @property
    def bytes_per_s(self) -> float:
        """The data that the rate moves."""
        return self.rate * self.cell.bytes / self.cell.good if self.cell.good else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A sweep along the load: its three points that matter, by what makes them matter."""

    results: tuple[Result, ...]
    load: str
    points: tuple[tuple[str, Result], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A sweep of two parameters: a result for each pair of values, absent where none was left."""

    down: str
    across: str
    rows: tuple[object, ...]
    columns: tuple[object, ...]
    results: Mapping[tuple[object, object], Result]
    best: tuple[object, object] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """What follows for how many of the results, and why, the gravest reason first."""

    effect: Effect
    results: int
    reasons: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a run says on one screen; one of the three forms holds every result."""

    results: tuple[Result, ...]
    curves: tuple[Curve, ...]
    matrices: tuple[Matrix, ...]
    cautions: tuple[Caution, ...]


def answer_of(findings: Findings) -> Answer:
    """Return the answer of a run."""
    results = results_of(findings, findings.cases)
    return arranged(results, tuple(_cautions(findings, _said_by_spread(results))))


def arranged(results: tuple[Result, ...], cautions: tuple[Caution, ...]) -> Answer:
    """Return results in the form that suits what differs between them."""
    groups: dict[tuple[str, ...], list[Result]] = {}
    for one in results:
        cell = one.cell
        groups.setdefault((cell.target, cell.workload, cell.phase, cell.operation), []).append(one)
    varied = _varied(results)
    curves: list[Curve] = []
    matrices: list[Matrix] = []
    if len(varied) == 1 and varied[0] in LOADS:
        curves = [_curve(own, varied[0]) for own in groups.values()]
    elif len(varied) == 2:
        matrices = [_matrix(own, varied) for own in groups.values()]
    return Answer(
        results=results,
        curves=tuple(one for one in curves if len(one.results) >= CURVE_POINTS_MIN),
        matrices=tuple(matrices),
        cautions=cautions,
    )


def results_of(findings: Findings, cells: Iterable[Cell]) -> tuple[Result, ...]:
    """Return the results of cells in which anything was asked for."""
    return tuple(_result(cell, findings) for cell in cells if cell.requests)


def _result(cell: Cell, findings: Findings) -> Result:
    rates = [one.requests_per_s for one in cell.trial_rates]
    middle = median(rates)
    # A case of several rounds has a verdict for each of them.
    own = [one for one in findings.totals if set(one.trials) <= set(cell.trials)]
    own = [one for one in own if one.operation == cell.operation]
    verdicts = [found for one in own if (found := findings.verdict_of(one)) is not None]
    labels = {label for one in own for label in one.labels}
    limits = Counter(found.limit.partition("(")[0] for found in verdicts)
    limit = limits.most_common(1)[0][0] if limits else ""
    is_own = any(found.is_void_for_ratios for found in verdicts)
    is_void = bool(labels & VOIDING) or "INVALID" in limits
    return Result(
        cell=cell,
        rate=middle,
        spread=(max(rates) - min(rates)) / 2 / middle if len(rates) > 1 and middle else None,
        limit=limit_in_words(limit) if limit else "",
        is_bound=not is_void and (is_own or bool(labels & BOUNDS)),
        is_void=is_void,
    )


def _varied(results: Iterable[Result]) -> list[str]:
    """Return the parameters that differ between results, a load last."""
    values: dict[str, set[object]] = {}
    for one in results:
        for name, value in one.cell.parameters.items():
            values.setdefault(name, set()).add(str(value))
    names = [name for name, found in values.items() if len(found) > 1]
    return sorted(names, key=lambda name: (name in LOADS, name != "size"))


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _curve(own: Sequence[Result], name: str) -> Curve:
    """Return the points of least time, of the knee and of the peak; a void one is none of them."""
    swept = sorted(own, key=lambda one: _number(one.cell.parameters.get(name)))
    usable = [one for one in swept if not one.is_void and one.cell.good] or swept
    peak = max(usable, key=lambda one: one.rate)
    knee = next(one for one in usable if one.rate >= KNEE_SHARE * peak.rate)
    timed = [one for one in usable if _median_ns(one) is not None]
    quickest = min(timed, key=lambda one: _median_ns(one) or 0.0) if timed else usable[0]
    points = (("least p50", quickest), ("knee", knee), ("peak", peak))
    return Curve(results=tuple(swept), load=name, points=points)


def _median_ns(one: Result) -> float | None:
    return one.cell.headline.quantiles["p50"] if one.cell.headline is not None else None


def _matrix(own: Sequence[Result], names: Sequence[str]) -> Matrix:
    down, across = names
    found = {(one.cell.parameters.get(down), one.cell.parameters.get(across)): one for one in own}
    rows = sorted({row for row, _ in found}, key=lambda value: (_number(value), str(value)))
    columns = sorted({column for _, column in found}, key=lambda v: (_number(v), str(v)))
    usable = [place for place, one in found.items() if not one.is_void and one.cell.good]
    # Of sizes, the best moves most data: requests of a byte would always be the most.
    is_sized = down == "size" or across == "size"
    best = max(
        usable,
        key=lambda place: found[place].bytes_per_s if is_sized else found[place].rate,
        default=None,
    )
    return Matrix(
        down=down, across=across, rows=tuple(rows), columns=tuple(columns), results=found, best=best
    )


def _said_by_spread(results: Sequence[Result]) -> frozenset[str]:
    """Return the rules on single trials where every result has more, such as rounds."""
    is_repeated = all(one.spread is not None for one in results)
    return frozenset({"n=1", "single-trials"}) if is_repeated else frozenset()


def _cautions(findings: Findings, left_out: frozenset[str]) -> Iterable[Caution]:
    """Return at most one caution for each effect, with the reasons by their gravity."""
    for effect in EFFECTS:
        own = [
            one
            for one in findings.findings
            # A limit of the client counts where it is the verdict, and not wherever it was touched.
            if one.effect == effect
            and one.rule not in left_out
            and "limit" not in find_rule(one.rule).views
            # Of trials that are left out there is no result that must not be used.
            and (
                one.rule not in LEFT_OUT or any(one.rule in cell.labels for cell in findings.totals)
            )
        ]
        limits = Counter(
            found.limit.partition("(")[0]
            for found in findings.verdicts.values()
            if find_rule(found.limit.partition("(")[0]).effect == effect
        )
        own += [one for one in findings.findings if one.rule in limits and one not in own]
        ids = [*(name for name, _ in limits.most_common()), *(one.rule for one in own)]
        said = [_reason(name) for name in ids if name != "INVALID"]
        said += list(_checks_failed(findings)) if effect == "invalid" else []
        reasons = tuple(dict.fromkeys(said))
        if reasons:
            count = _affected(findings, effect)
            yield Caution(effect=effect, results=count, reasons=reasons, findings=tuple(own))


def _checks_failed(findings: Findings) -> Iterable[str]:
    """Return the checks of the accounting that failed, those that are no label."""
    for verdict in findings.verdicts.values():
        limit, _, check = verdict.limit.partition("(")
        if limit == "INVALID" and check.rstrip(")") in CHECKS:
            yield CHECKS[check.rstrip(")")]


def _reason(name: str) -> str:
    rule = find_rule(name)
    return rule.says if "limit" in rule.views else rule.short or rule.says


def _affected(findings: Findings, effect: Effect) -> int:
    """Return how many results a label or a limit of this effect stands beside."""
    count = 0
    for cell in findings.totals:
        verdict = findings.verdict_of(cell)
        names = [*cell.labels, *([verdict.limit.partition("(")[0]] if verdict is not None else [])]
        count += any(find_rule(name).effect == effect for name in names)
    return count


def case_words(one: Result, names: Sequence[str]) -> str:
    """Return those parameters of a case in words."""
    parameters = one.cell.parameters
    return ", ".join(
        describe_parameter(name, parameters[name]) for name in names if name in parameters
    )
