"""The points of a calibration: one per load on a target that does nothing."""

from collections.abc import Iterator

from loadstone.analysis.instrument.headroom import jitter_of
from loadstone.analysis.measured.part import Part, read_parts
from loadstone.analysis.measured.rows import Rows
from loadstone.analysis.statistics.latency import latency, merge
from loadstone.results.calibration import CalibrationPoint, costs_of
from loadstone.results.record import Record, Run


def points_of(run: Run) -> Iterator[CalibrationPoint]:
    """Yield a point for each measured trial that ran to its end."""
    for record in run.records:
        if record.trial["measured"] and record.is_whole:
            for part in read_parts(record, Rows(record.intervals)):
                if part.good and not part.errors:
                    yield _point(record, part)


def _point(record: Record, part: Part) -> CalibrationPoint:
    trial, summary = record.trial, record.summary
    requests = summary.get("requests") or part.good
    service = latency(merge([part.histograms["service"]]))
    jitter = jitter_of([record])
    return CalibrationPoint(
        driver=trial["target"]["driver"],
        operation=part.operation,
        clients=trial["load"]["clients"],
        bytes_per_request=part.bytes / part.good,
        requests_per_s=part.requests_per_s,
        # Over the whole trial, because requests of the warm-up cost the same.
        cpu_ns_per_request=sum(summary["thread_cpu_ns"]) / requests,
        cores=summary["cores"],
        verify=trial["verify"] or 0.0,
        connections=trial["connections"] or "keep_alive",
        settings=costs_of(trial["target"]["driver"], trial["target"].get("settings") or {}),
        requests=part.good,
        duration_s=part.duration_s,
        service_ns_p50=service.quantiles["p50"] if service is not None else None,
        service_ns_p99=service.quantiles["p99"] if service is not None else None,
        hiccup_ns_p99_9=jitter.hiccup_ns_p99_9,
        run_delay_share=jitter.run_delay_share,
    )
