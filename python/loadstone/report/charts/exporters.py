"""Charts of what the targets' exporters showed: part of the evidence, behind the results."""

from collections.abc import Iterable

from loadstone.analysis import Findings
from loadstone.analysis.limits.exporter_series import ExporterMetric, ExporterSeries
from loadstone.report.charts.over_time import ValueOverTime, resource_picture
from loadstone.report.charts.parts.drawing import Picture, shortened


def charts_of_exporters(findings: Findings) -> Iterable[Picture]:
    """Return one chart for each metric that moved, as many as a reader can take in."""
    seen = findings.exporters
    for number, metric in enumerate(seen.metrics, start=1):
        rows = [
            ValueOverTime(
                panel="",
                series=line.name,
                trial=line.trial,
                elapsed=point.elapsed_s,
                host=line.host,
                value=shortened(point.value),
            )
            for line in metric.lines
            for point in line.points
        ]
        if rows:
            yield resource_picture(
                f"target-{metric.probe}-{metric.metric}".replace(":", "-").replace("_", "-"),
                f"{metric.metric} ({metric.unit}), probe {metric.probe}",
                metric.unit,
                rows,
                metric.hosts,
                _remark(metric) + (_others(seen) if number == len(seen.metrics) else ""),
            )


def _remark(metric: ExporterMetric) -> str:
    drawn = len({(line.host, line.name) for line in metric.lines})
    if drawn == metric.series:
        return ""
    return f" Of its {metric.series} series, the {drawn} that moved most."


def _others(seen: ExporterSeries) -> str:
    words = []
    if seen.others:
        words.append(f"{seen.others} more metrics moved less")
    if seen.still:
        words.append(f"{seen.still} stood still")
    return f" Not drawn: {', '.join(words)}; the run folder has all of them." if words else ""
