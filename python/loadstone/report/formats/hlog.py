"""The histograms themselves, as an HdrHistogram log of version 1.3 that stock readers can read.

One line per second, operation, kind of time and outcome, under a tag "get.4096.service.ok"; with
several targets the target stands in front. Times count from the run's first trial. The histograms
hold nanoseconds; the column of maxima is milliseconds, as the format has it.
"""

import base64
import datetime
import re
from collections.abc import Iterable

from loadstone.analysis import Findings
from loadstone.analysis.measured.part import LATENCIES
from loadstone.analysis.measured.rows import Rows
from loadstone.analysis.statistics.latency import merge
from loadstone.documents.trial import DatasetDocument, Size
from loadstone.report.options import Options
from loadstone.results.record import Record, Run

NS_PER_S = 1e9
NS_PER_MS = 1e6
LEGEND = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'


def render(run: Run, findings: Findings, options: Options) -> bytes:
    """Return the log of all measured stages of a run."""
    measured = [record for record in run.records if record.trial["measured"]]
    starts = [record.summary.get("started_unix_ns") or 0 for record in measured]
    base_s = min(starts, default=0) / NS_PER_S
    date = datetime.datetime.fromtimestamp(base_s, datetime.UTC).isoformat(timespec="seconds")
    lines = [
        f"#[Logged by loadstone: run {run.name}]",
        "#[Histogram log format version 1.3]",
        f"#[BaseTime: {base_s:.3f} (seconds since epoch)]",
        f"#[StartTime: {base_s:.3f} (seconds since epoch), {date}]",
        LEGEND,
    ]
    is_alone = len({record.trial["case"]["target"] for record in measured}) <= 1
    for record, start_ns in zip(measured, starts, strict=True):
        offset_s = start_ns / NS_PER_S - base_s
        lines.append(f"#[trial {record.id}]")
        lines.extend(_lines(record, offset_s, "" if is_alone else record.trial["case"]["target"]))
    return ("\n".join(lines) + "\n").encode()


def _lines(record: Record, offset_s: float, target: str) -> Iterable[str]:
    size = _size(record.trial.get("dataset") or DatasetDocument())
    rows = Rows(record.intervals).where("stage", "measure")
    seconds, operations = rows["second"].tolist(), rows["operation"].tolist()
    outcomes = rows["outcome"].tolist()
    histograms = {kind: rows[kind].tolist() for kind in LATENCIES}
    for row in sorted(range(len(rows)), key=lambda row: (seconds[row], operations[row])):
        for kind, column in histograms.items():
            encoded = column[row]
            histogram = merge([encoded])
            if histogram is None:
                continue
            words = [target, operations[row], size, kind, outcomes[row]]
            tag = ".".join(_tagged(word) for word in words if word)
            start_s = offset_s + seconds[row]
            yield (
                f"Tag={tag},{start_s:.3f},1.000,{histogram.max / NS_PER_MS:.6f},"
                f"{base64.b64encode(encoded).decode()}"
            )


def _size(dataset: DatasetDocument) -> str:
    size = dataset.get("size") or Size()
    return str(size["bytes"]) if size.get("kind") == "fixed" else str(size.get("kind", "none"))


def _tagged(word: str) -> str:
    """Return a word that a tag may hold: neither a comma nor a space nor a dot of ours."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", word)
