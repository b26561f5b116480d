"""The results as OpenMetrics text, for a dashboard that keeps the history of many runs."""

from collections.abc import Callable, Iterable, Mapping

from loadstone.analysis import Findings
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.statistics.latency import QUANTILES, Latency
from loadstone.report.options import Options
from loadstone.results.record import Run

NS_PER_S = 1e9

GAUGES: Mapping[str, tuple[str, Callable[[Result], float | None]]] = {
    "loadstone_requests_per_second": (
        "Successful requests per second: the geometric mean of the trials.",
        lambda cell: cell.requests_per_s,
    ),
    "loadstone_requests_per_second_low": (
        "The low end of its spread, where there are several trials.",
        lambda cell: cell.rate.low if cell.rate.is_spread else None,
    ),
    "loadstone_requests_per_second_high": (
        "The high end of its spread, where there are several trials.",
        lambda cell: cell.rate.high if cell.rate.is_spread else None,
    ),
    "loadstone_bytes_per_second": (
        "Payload of successful requests per second: the geometric mean of the trials.",
        lambda cell: cell.bytes_per_s,
    ),
    "loadstone_measured_seconds": ("Length of the measurement.", lambda cell: cell.duration_s),
    "loadstone_client_cpu_seconds_per_request": (
        "Processor time of the load generator for one request.",
        lambda cell: (
            None if cell.client.cpu_us_per_request is None else cell.client.cpu_us_per_request / 1e6
        ),
    ),
    "loadstone_client_resident_bytes": (
        "Maximum memory of the load generator.",
        lambda cell: cell.client.rss_bytes_max,
    ),
    "loadstone_client_sockets": (
        "Maximum number of sockets of the load generator.",
        lambda cell: cell.client.sockets_max,
    ),
}


def render(run: Run, findings: Findings, options: Options) -> bytes:
    """Return one sample per cell and metric; what was not measured has no sample."""
    lines: list[str] = []
    for name, (text, value_of) in GAUGES.items():
        lines += [f"# TYPE {name} gauge", f"# HELP {name} {text}"]
        for cell in findings.iterations:
            value = value_of(cell)
            if value is not None:
                lines.append(f"{name}{_labels(run, cell)} {value:.10g}")
    lines += ["# TYPE loadstone_requests counter"]
    lines += ["# HELP loadstone_requests Requests by outcome."]
    for cell in findings.iterations:
        for outcome, count in {"ok": cell.good, **cell.errors}.items():
            lines.append(f"loadstone_requests_total{_labels(run, cell, outcome=outcome)} {count}")
    lines += ["# TYPE loadstone_request_seconds summary"]
    lines += ["# HELP loadstone_request_seconds Time of successful requests, by kind of time."]
    for cell in findings.iterations:
        kinds = (("response", cell.response), ("service", cell.service))
        for kind, latency in (*kinds, ("first_byte", cell.first_byte), ("part", cell.part)):
            lines.extend(_summary(run, cell, kind, latency))
    lines += ["# TYPE loadstone_standing gauge"]
    lines += ["# HELP loadstone_standing 1 for the standing of a rate: valid, bound or void."]
    for cell in findings.iterations:
        lines += [f"loadstone_standing{_labels(run, cell, standing=cell.standing)} 1"]
    lines += ["# TYPE loadstone_marked gauge"]
    lines += ["# HELP loadstone_marked 1 for each label of the number."]
    for cell in findings.iterations:
        lines += [f"loadstone_marked{_labels(run, cell, label=label)} 1" for label in cell.labels]
    return ("\n".join([*lines, "# EOF"]) + "\n").encode()


def _summary(run: Run, cell: Result, kind: str, latency: Latency | None) -> Iterable[str]:
    if latency is None:
        return
    name = "loadstone_request_seconds"
    for quantile, q in QUANTILES.items():
        value = latency.quantiles[quantile]
        if value is not None:
            labels = _labels(run, cell, time=kind, quantile=str(q))
            yield f"{name}{labels} {value / NS_PER_S:.10g}"
    total_s = latency.mean_ns * latency.count / NS_PER_S
    yield f"{name}_count{_labels(run, cell, time=kind)} {latency.count}"
    yield f"{name}_sum{_labels(run, cell, time=kind)} {total_s:.10g}"


def _labels(run: Run, cell: Result, **more: str) -> str:
    labels = {
        "run": str(run.manifest.get("run")),
        "campaign": run.name,
        "target": cell.target,
        "workload": cell.workload,
        "phase": cell.phase,
        "operation": cell.operation,
        "round": str(cell.round),
        "iteration": str(cell.iteration),
        **{f"parameter_{name}": str(value) for name, value in cell.parameters.items()},
        **more,
    }
    return "{" + ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
