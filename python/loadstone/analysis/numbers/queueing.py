"""Sweeps over the load: saturation, and models of rate against load."""

from collections.abc import Iterator, Sequence

from loadstone import units
from loadstone.analysis.accounts.account import RATE, Account, Measurement, describe_case
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.rules.rule import NumberRules
from loadstone.analysis.statistics import scaling
from loadstone.analysis.statistics.mean import mean_of

RULES = NumberRules()


LOADS_MIN = 3


@RULES.note(
    id="saturation",
    says="where a sweep saturates, and what load beyond it costs",
    means="Beyond that point more load only queues.",
    do="Operate below the knee.",
)
def saturation_point(account: Account) -> Iterator[Finding]:
    """State where a sweep saturates, and the time that more load costs by Little's law."""
    for sweep in _sweeps(account):
        points = [_point(cells) for cells in sweep]
        saturation = scaling.saturation(points)
        yield _saturation(sweep, points, saturation)


@RULES.note(
    id="scaling-model",
    says="which curve a sweep follows",
    means="It tells contention from a fixed ceiling.",
    do="Extrapolate with care: the model holds where it was fitted.",
)
def scaling_model(account: Account) -> Iterator[Finding]:
    """State which curve a sweep follows: the universal scalability law, or two straight lines.

    If the law does not fit, the finding says why: for example, the ceiling of a link has another
    shape.
    """
    for sweep in _sweeps(account):
        if len(sweep) < scaling.USL_POINTS_MIN:
            continue
        points = [_point(cells) for cells in sweep]
        model = scaling.fit(points)
        name = describe_case(sweep[0][0], ("threads",))
        if model.kind == "usl":
            peak = f", best at {model.peak:.0f} threads" if model.peak else ""
            statement = (
                f"{name}: follows the universal scalability law with contention"
                f" {model.alpha:.3f} and coherency {model.beta:.2g}{peak}; residuals up to"
                f" {model.residual_max:.0%}"
            )
        else:
            statement = (
                f"{name}: {model.gamma:.3g}/s a thread up to a ceiling of {model.ceiling:.3g}/s;"
                f" the universal scalability law does not hold: {model.why_not_usl}"
            )
        knee = scaling.kneedle(points)
        evidence = [Evidence("largest residual", model.residual_max)]
        evidence += [Evidence("knee by Kneedle on log2", knee)] if knee else []
        yield Finding("scaling-model", statement, evidence=tuple(evidence), cases=(name,))


def _saturation(
    sweep: Sequence[Sequence[Measurement]],
    points: Sequence[scaling.ScalingPoint],
    saturation: scaling.Saturation,
) -> Finding:
    name = describe_case(sweep[0][0], ("threads",))
    first, last = points[0], points[-1]
    alone, waits = first.load / first.rate, last.load / last.rate
    if saturation.is_reached:
        knee = f", N* = {saturation.knee:.1f}" if saturation.knee else ""
        sure = ", by the lower ends of their intervals" if saturation.is_certain else ""
        statement = (
            f"{name}: saturated from {saturation.load:g} threads on ({saturation.rate:.4g}"
            f" of at most"
            f" {saturation.rate_max:.4g}/s{sure}{knee}); at {last.load:g} threads a request takes"
            f" {units.format_duration(1e9 * waits)} by Little's law (N/X), {waits / alone:.0f}× the"
            f" {units.format_duration(1e9 * alone)} with {first.load:g}: load beyond only queues"
        )
    else:
        statement = (
            f"{name}: not saturated: the last step, to {saturation.load_of_max:g} threads, still"
            f" brought {last.rate / points[-2].rate - 1:+.0%}"
        )
    return Finding(
        "saturation",
        statement,
        evidence=(
            Evidence("saturation load", saturation.load, unit="threads"),
            Evidence("best rate", saturation.rate_max, unit="1/s"),
            Evidence("mean time at the largest load", waits, unit="s"),
        ),
        cases=(describe_case(sweep[0][0]), describe_case(sweep[-1][0])),
    )


def _point(cells: Sequence[Measurement]) -> scaling.ScalingPoint:
    """Return one load with the mean of its trials, and the lower end of their spread."""
    rate = mean_of([cell.value for cell in cells])
    low = rate.low if rate.is_spread else None
    return scaling.ScalingPoint(load=cells[0].threads or 1, rate=rate.value, low=low)


def _sweeps(account: Account) -> Iterator[list[list[Measurement]]]:
    """Return the trials of each sweep, by their number of threads from the fewest up."""
    known = [m for m in account.of(RATE) if m.threads is not None]
    for cells in grouped(known, lambda m: (m.target, m.case_without("threads"))).values():
        loads = sorted({cell.threads or 1 for cell in cells})
        if len(loads) >= LOADS_MIN:
            yield [[cell for cell in cells if cell.threads == load] for load in loads]
