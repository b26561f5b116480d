"""The utilisation of the target's resources during a trial, from its exporters.

Metrics are those of node_exporter and cAdvisor. The busiest host counts, since the others wait for
it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from loadstone.analysis.instrument.watched_lines import Line, Lines
from loadstone.analysis.judgements.finding import Evidence

PREFIX = "prometheus:"
BUSY_MAX = 0.8
"""A device that is idle for a fifth of the time has room."""
PARALLEL = re.compile(r"(nvme|md|dm-|rbd|zd|bcache)")
"""Devices that serve many requests at once: a busy one need not be full."""
IDLE_MODES = ("idle", "iowait")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def find_utilisation(lines: Lines) -> Mapping[str, float]:
    """Return the utilisation of each resource, 0 to 1; only of those that were probed.

    cpu: busy time of all cores, or the share of periods in which a quota throttled a container;
    core: the busiest core; disk: time in which something waited for it, or the busy time of the
    busiest device; network: share of the card's speed. A parallel device that is always busy may
    be full or not: it is "device", not "disk".
    """
    series = _exporter_lines(lines)
    devices = [
        (
            min(1.0, line.rate),
            line.rate < BUSY_MAX or not PARALLEL.match(_labels(line).get("device", "")),
        )
        for line in series.get("node_disk_io_time_seconds_total", ())
        if line.length_s > 0
    ]
    used = {
        "cpu": max([*_cpu(series, by_core=False), *_quota(series)], default=None),
        "core": max(_cpu(series, by_core=True), default=None),
        "disk": max(
            [
                *_rates(series, "node_pressure_io_waiting_seconds_total"),
                *(rate for rate, is_known in devices if is_known),
            ],
            default=None,
        ),
        "device": max((rate for rate, is_known in devices if not is_known), default=None),
        "network": max(_network(series), default=None),
    }
    return {name: value for name, value in used.items() if value is not None}


def _exporter_lines(lines: Lines) -> Mapping[str, Sequence[Line]]:
    """Return the lines that come from exporters, by metric."""
    return {metric: chosen for (probe, metric), chosen in lines.items() if probe.startswith(PREFIX)}


def _cpu(series: Mapping[str, Sequence[Line]], *, by_core: bool) -> Iterable[float]:
    """Return the busy share of each host's processors together, or of each of its cores."""
    busy: dict[tuple[str, str], float] = {}
    whole: dict[tuple[str, str], float] = {}
    for line in series.get("node_cpu_seconds_total", ()):
        labels = _labels(line)
        processor = line.host, labels.get("cpu", "") if by_core else ""
        whole[processor] = whole.get(processor, 0.0) + line.growth
        if labels.get("mode") not in IDLE_MODES:
            busy[processor] = busy.get(processor, 0.0) + line.growth
    return [busy.get(processor, 0.0) / total for processor, total in whole.items() if total > 0]


def _quota(series: Mapping[str, Sequence[Line]]) -> Iterable[float]:
    periods = {
        (line.host, line.subject): line.growth
        for line in series.get("container_cpu_cfs_periods_total", ())
    }
    for line in series.get("container_cpu_cfs_throttled_periods_total", ()):
        total = periods.get((line.host, line.subject), 0.0)
        if total > 0:
            yield min(1.0, line.growth / total)


def _rates(series: Mapping[str, Sequence[Line]], name: str) -> Iterable[float]:
    return [min(1.0, line.rate) for line in series.get(name, ()) if line.length_s > 0]


def _network(series: Mapping[str, Sequence[Line]]) -> Iterable[float]:
    speeds = {
        (line.host, _labels(line).get("device")): float(line.values.max())
        for line in series.get("node_network_speed_bytes", ())
    }
    for name in ("receive", "transmit"):
        for line in series.get(f"node_network_{name}_bytes_total", ()):
            speed = speeds.get((line.host, _labels(line).get("device")), 0.0)
            if speed > 0:
                yield min(1.0, line.rate / speed)


LOSSES = (
    ("TARGET_NETWORK", "node_network_receive_drop_total", "node_network_receive_packets_total"),
    ("TARGET_NETWORK", "node_network_transmit_drop_total", "node_network_transmit_packets_total"),
    ("NETWORK_PATH", "node_netstat_Tcp_RetransSegs", "node_netstat_Tcp_OutSegs"),
    ("TARGET_SOFTWARE", "node_netstat_TcpExt_ListenDrops", "node_netstat_Tcp_PassiveOpens"),
)
"""Counters of losses, the counters that they are a share of, and the limit that they support."""

LOST = {"TARGET_NETWORK": 0.001, "NETWORK_PATH": 0.01, "TARGET_SOFTWARE": 0.001}


def find_losses(lines: Lines) -> Mapping[str, list[Evidence]]:
    """Return losses at the target by the limit that they support."""
    series = _exporter_lines(lines)
    losses: dict[str, list[Evidence]] = {}
    for limit, metric, whole in LOSSES:
        of = {(line.host, line.subject): line.growth for line in series.get(whole, ())}
        for line in series.get(metric, ()):
            total = of.get((line.host, line.subject), 0.0)
            share = line.growth / total if total > 0 else 0.0
            if share >= LOST[limit]:
                losses.setdefault(limit, []).append(
                    Evidence(
                        f"{metric} of {whole}",
                        share,
                        LOST[limit],
                        place=line.host,
                        source="losses at the target",
                    )
                )
    return losses


def _labels(line: Line) -> Mapping[str, str]:
    return dict(_LABEL.findall(line.subject))
