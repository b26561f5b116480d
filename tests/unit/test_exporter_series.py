"""Series of the targets' exporters: which are worth a chart, in which unit, and where it stands."""

import math

import pyarrow as pa
import pytest

from loadstone.analysis import analyse
from loadstone.analysis.limits.exporter_series import METRICS_MAX
from loadstone.report import REPORTS, Options
from loadstone.report.formats.html import drawn_of_run
from loadstone.results.store import read_run
from tests.unit.drawn_charts import charts_of_run
from tests.unit.synthetic_run import PROBES, SECOND_NS, Folder, trial, trial_rows

SECONDS = 10


def wave(second: int) -> float:
    return 1 + 0.5 * math.sin(second)


def rows_of_exporters(started_unix_ns: int) -> list[tuple]:
    """Two hosts: a counter of bytes, a gauge in seconds, and many constant series."""
    rows = []

    def add(second, host, metric, value, labels=""):
        time = started_unix_ns + second * SECOND_NS
        rows.append((time, host, "prometheus:osds", labels, metric, float(value)))

    sent = {"osd1": 0.0, "osd2": 0.0}
    for second in range(SECONDS + 1):
        for host in ("osd1", "osd2"):
            add(second, host, "up", 1)
            add(second, host, "series", 40)
            add(second, host, "node_sent_bytes_total", sent[host], 'device="eth0"')
            add(second, host, "queue_seconds", wave(second) * (2 if host == "osd2" else 1))
            add(second, host, "node_boot_time_seconds", 1.7e9)
            add(second, host, "op_latency_seconds_bucket", second**2, 'le="1"')
            sent[host] += 2**20 * wave(second)
    return rows


def write(path, rows_of, trials=2):
    folder = Folder(path, "watched", seconds=SECONDS)
    for number in range(1, trials + 1):
        document = trial(number, "ceph", "get", block=number)
        rows = rows_of(folder.now_ns)
        table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=PROBES)
        folder.write(document, trial_rows(document, 100, SECONDS), probes=table)
    return read_run(folder.close(campaign={}, campaign_file=""))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write(tmp_path_factory.mktemp("run") / "run", rows_of_exporters)


def test_only_metrics_that_move_are_kept_and_the_others_are_counted(run):
    exporters = analyse(run).exporters
    assert [metric.metric for metric in exporters.metrics] == [
        "node_sent_bytes_total",
        "queue_seconds",
    ]
    assert (exporters.others, exporters.still) == (0, 1)


def test_a_counter_is_its_growth_a_second_in_a_unit_people_read(run):
    sent = analyse(run).exporters.metrics[0]
    assert sent.unit == "MiB/s"
    assert sent.hosts == ("osd1", "osd2")
    line = next(line for line in sent.lines if line.host == "osd1" and line.trial == "0001")
    assert [point.value for point in line.points] == pytest.approx(
        [wave(second) for second in range(SECONDS)]
    )
    later = next(line for line in sent.lines if line.trial == "0002")
    assert later.points[0].elapsed_s == pytest.approx(SECONDS + 1)


def test_lines_are_named_by_what_differs(run):
    assert {line.name for line in analyse(run).exporters.metrics[1].lines} == {"osd1", "osd2"}


def test_the_charts_stand_in_the_evidence_with_metric_unit_and_host(run):
    findings = analyse(run)
    charts = charts_of_run(run, findings)
    sent, queue = charts["target-osds-node-sent-bytes-total"], charts["target-osds-queue-seconds"]
    assert sent.caption.startswith("osd1, osd2.")
    assert "1 did not" in queue.caption
    assert {row["series"] for row in queue.rows} == {"osd1", "osd2"}
    shown = drawn_of_run(run, findings)["exporters"]
    assert shown[0]["unit"] == "MiB/s"
    assert [metric["title"] for metric in shown] == [
        "node_sent_bytes_total (probe osds)",
        "queue_seconds (probe osds)",
    ]
    starts = {line["points"][0][0] for metric in shown for line in metric["lines"]}
    assert all(0 <= start < 3 for start in starts), "on the trial's own clock"
    assert "target-osds-queue-seconds.svg" in REPORTS["svg"].render_files(run, findings, Options())


def test_their_number_is_bounded(tmp_path):
    def many(started_unix_ns):
        return [
            (started_unix_ns + second * SECOND_NS, "osd1", "prometheus:osds", f'disk="{disk}"',
             f"queue_{number}", wave(second + disk) * number)
            for second in range(SECONDS)
            for number in range(1, 31)
            for disk in range(20)
        ]  # fmt: skip

    run = write(tmp_path / "run", many)
    findings = analyse(run)
    assert len(findings.exporters.metrics) == METRICS_MAX
    assert findings.exporters.others == 30 - METRICS_MAX
    first, *_, last = drawn_of_run(run, findings)["exporters"]
    assert "20 series, the 7" in first["remark"]
    assert "22 more metrics" in last["remark"]


def test_without_exporters_there_is_no_such_chart(tmp_path):
    folder = Folder(tmp_path / "run", "plain", seconds=4)
    folder.add(trial(1, "ceph", "get"), 100)
    run = read_run(folder.close(campaign={}, campaign_file=""))
    assert drawn_of_run(run, analyse(run))["exporters"] == []
