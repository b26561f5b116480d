"""Charts of a script's actions: completed by wall time, with intervals, and how long each took."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.cells.actions import ActionCell
from loadstone.report.charts.operations import Arrangement, charts_of_operations
from loadstone.report.charts.parts.drawing import Picture, milliseconds, shortened
from loadstone.report.charts.sweep_points import QUANTILES, SweepPoint, Wording

BARS = (
    "The bars are 95 % intervals over the trials, or over their days; a point without one has one"
    " trial."
)
LOADS = ("threads", "clients", "rate_per_s")


def charts_of_actions(findings: Findings) -> Iterable[Picture]:
    """Return a panel for each action over client × load; nothing where no load was varied."""
    yield from completed_charts(findings.actions, findings.client, name="actions", title="")


def completed_charts(
    actions: Sequence[ActionCell], client: str, *, name: str, title: str
) -> Iterable[Picture]:
    """Return what was completed by wall time, and the times, of these actions.

    `name` begins the names of the charts, `title` their titles, where they stand for another chart.
    """
    points = [_point(one) for one in actions if one.completed_per_s]
    load = next((name for name in LOADS if _is_varied(points, name)), None)
    if load is None:
        return
    wording = Wording(rate="actions completed per second", bars=BARS, client=client)
    kinds = ("completed", "latency")
    drawn = charts_of_operations(points, Arrangement.along(load, points), wording)
    for kind, picture in zip(kinds, drawn, strict=False):
        words = picture.title.replace("operation", "action")
        words = f"{title}: {words[0].lower()}{words[1:]}" if title else words
        caption = picture.caption.replace("operations", "actions")
        yield replace(picture, name=f"{name}-{kind}", title=words, caption=caption)


def _is_varied(points: Sequence[SweepPoint], load: str) -> bool:
    values = [point.parameters.get(load) for point in points]
    return len(set(values)) > 1 and all(isinstance(one, (int, float)) for one in values)


def _point(one: ActionCell) -> SweepPoint:
    cell, rate = one.cell, one.completed_per_s
    assert rate, "the caller has looked"
    found, latency = cell.interval, cell.headline
    is_known = found is not None and found.low is not None and found.high is not None
    return SweepPoint(
        target=cell.target,
        workload=cell.workload,
        operation=one.action,
        parameters=cell.parameters,
        round=cell.round,
        rate=shortened(rate),
        low=shortened(found.low if is_known and found and found.low else rate),
        high=shortened(found.high if is_known and found and found.high else rate),
        data=units.format_byte_rate(cell.bytes_per_s),
        quantiles_ms={
            name: milliseconds(latency.quantiles[name]) if latency is not None else None
            for name in QUANTILES
        },
        labels=" ".join(cell.labels) or "none",
        limit="not known",
        own_limit="",
    )
