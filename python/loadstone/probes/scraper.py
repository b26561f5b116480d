"""Reads metrics of exporters at an interval, in a separate process beside the load.

`python -m loadstone.probes.scraper` reads its task as JSON from standard input, writes rows as an
Arrow stream to standard output, and exits when its input is closed. It runs at a lower priority
than the load. Each exporter has a thread. A late, oversized or malformed response is recorded as a
gap with its reason (metric `up`, value 0, the reason as its subject).
"""

import contextlib
import fnmatch
import http.client
import itertools
import json
import os
import queue
import re
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families
from typing_extensions import TypedDict

from loadstone import _loadgen
from loadstone._loadgen import StreamEncoder
from loadstone.results.record import PROBE_SCHEMA

Row = tuple[int, str, str, str, str, float]

NICE = 10
REASON_MAX = 160
MISSED_MAX = 1000
PART_BYTES = 1 << 16
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


class ExporterDocument(TypedDict):
    """Exporters' URLs, wanted metrics, and the interval; `bearer_token` is its value or file."""

    name: str
    urls: tuple[str, ...]
    metrics: tuple[str, ...]
    every_ns: int
    timeout_ns: int
    answer_max_bytes: int
    series_max: int
    bearer_token: dict[str, str] | None
    ca_file: str | None


class GapError(Exception):
    """A failed reading and its reason."""


def pattern_of(names: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern for names in which * matches anything."""
    return re.compile("|".join(f"(?:{fnmatch.translate(name)})" for name in names))


def parse(text: str, wanted: re.Pattern[str]) -> Iterator[tuple[str, str, float]]:
    """Yield labels, name and value of each wanted series.

    Lines of other series are skipped before parsing, as few out of a hundred thousand are wanted.
    """
    wanted_lines = (
        line
        for line in text.splitlines()
        if (name := _NAME.match(line)) is not None and wanted.match(name[0])
    )
    for family in text_string_to_metric_families("\n".join(wanted_lines) + "\n"):
        for sample in family.samples:
            labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
            yield labels, sample.name, float(sample.value)


def fetch(url: str, probe: ExporterDocument, token: str | None) -> str:
    """Return an exporter's response, or raise GapError; the probe's time limit covers all of it.

    A time limit for each read would not suffice: an exporter may send one byte per second for ever.
    """
    parts = urlsplit(url)
    timeout_s = probe["timeout_ns"] / 1e9
    connection = _connection(parts.scheme, parts.netloc, probe, timeout_s)
    is_over = threading.Event()
    watchdog = threading.Timer(timeout_s, _shut, (connection, is_over))
    watchdog.daemon = True
    began = time.monotonic()
    watchdog.start()
    late = f"no complete response within {timeout_s:g} s"
    try:
        text = _answer(connection, parts.path or "/", parts.query, probe, token)
        # A response without a stated length looks complete when the watchdog has cut it off.
        if is_over.is_set() or time.monotonic() - began >= timeout_s:
            raise GapError(late)
        return text
    except (OSError, http.client.HTTPException, ValueError) as error:
        if is_over.is_set() or time.monotonic() - began >= timeout_s:
            raise GapError(late) from error
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise GapError(str(reason)) from error
    finally:
        watchdog.cancel()
        connection.close()


def _connection(
    scheme: str, netloc: str, probe: ExporterDocument, timeout_s: float
) -> http.client.HTTPConnection:
    if scheme != "https":
        return http.client.HTTPConnection(netloc, timeout=timeout_s)
    try:
        context = ssl.create_default_context(cafile=probe["ca_file"])
    except OSError as error:
        raise GapError(f"{probe['ca_file']}: {error.strerror}") from error
    return http.client.HTTPSConnection(netloc, timeout=timeout_s, context=context)


def _shut(connection: http.client.HTTPConnection, is_over: threading.Event) -> None:
    is_over.set()
    sock = connection.sock
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _answer(
    connection: http.client.HTTPConnection,
    path: str,
    query: str,
    probe: ExporterDocument,
    token: str | None,
) -> str:
    headers = {"Accept": "text/plain;version=0.0.4", "Connection": "close"}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    connection.request("GET", f"{path}?{query}" if query else path, headers=headers)
    # The response takes over the socket, and the watchdog needs it until the end.
    sock = connection.sock
    response = connection.getresponse()
    connection.sock = connection.sock or sock
    if response.status != http.client.OK:
        raise GapError(f"HTTP {response.status}")
    parts, size = [], 0
    while part := response.read(PART_BYTES):
        size += len(part)
        if size > probe["answer_max_bytes"]:
            raise GapError(f"the answer is longer than {probe['answer_max_bytes']} bytes")
        parts.append(part)
    if response.length:
        raise GapError(f"the answer ended {response.length} bytes early")
    return b"".join(parts).decode(errors="replace")


def place_of(url: str, urls: Sequence[str]) -> str:
    """Return an exporter's name: host and port, and its path if several share them.

    The query may be a secret; exporters that differ only in the query are numbered.
    """
    parts = urlsplit(url)
    others = [other for other in urls if urlsplit(other).netloc == parts.netloc]
    if len(others) <= 1:
        return parts.netloc
    same = [other for other in others if urlsplit(other).path == parts.path]
    return parts.netloc + parts.path + (f" {same.index(url) + 1}" if len(same) > 1 else "")


def read_exporter(url: str, probe: ExporterDocument, token: str | None) -> list[Row]:
    """Return the rows of one reading: the wanted series, or the gap and its reason."""
    host, name = place_of(url, probe["urls"]), f"prometheus:{probe['name']}"
    time_ns = time.time_ns()
    # The query of a URL may be a secret, too.
    secrets = [secret for secret in (token, urlsplit(url).query) if secret]
    try:
        series = list(
            itertools.islice(
                parse(fetch(url, probe, token), pattern_of(probe["metrics"])),
                probe["series_max"] + 1,
            )
        )
    except GapError as gap:
        return [_gap(time_ns, host, name, fit(str(gap), secrets))]
    except Exception as error:
        # A response, however malformed, must not end this thread or others.
        return [_gap(time_ns, host, name, fit(f"not understood: {error}", secrets))]
    rows = [
        (time_ns, host, name, fit(labels, secrets), metric, value)
        for labels, metric, value in series[: probe["series_max"]]
    ]
    # The count reveals a response without any wanted series, and one that was truncated.
    rows.append((time_ns, host, name, "", "up", 1.0))
    rows.append((time_ns, host, name, "", "series", float(len(series))))
    return rows


def fit(text: str, secrets: list[str]) -> str:
    """Return an exporter's message without secrets that it echoed and without control
    characters.
    """
    return _loadgen.plain(_loadgen.blot(text, secrets)) if secrets else _loadgen.plain(text)


def _gap(time_ns: int, host: str, name: str, reason: str) -> Row:
    words = " ".join(reason.split())[:REASON_MAX]
    return (time_ns, host, name, words, "up", 0.0)


def _read_for_ever(
    url: str, probe: ExporterDocument, token: str | None, rows: "queue.Queue[list[Row]]"
) -> None:
    every_ns = probe["every_ns"]
    due_ns = time.monotonic_ns()
    while True:
        rows.put(read_exporter(url, probe, token))
        # On absolute ticks; a tick missed during name resolution is a gap, too.
        due_ns += every_ns
        missed = 0
        while due_ns < time.monotonic_ns():
            due_ns += every_ns
            missed += 1
        host, name = place_of(url, probe["urls"]), f"prometheus:{probe['name']}"
        late = _gap(time.time_ns(), host, name, "the previous reading took too long")
        if missed:
            rows.put([late] * min(missed, MISSED_MAX))
        time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)


def main() -> None:
    """Read the task, and run it until the input is closed."""
    with contextlib.suppress(OSError):
        os.nice(NICE)
    source = sys.stdin.buffer
    probes: list[ExporterDocument] = json.loads(source.readline())
    rows: queue.Queue[list[Row]] = queue.Queue(maxsize=1000)
    threading.Thread(target=_end_with, args=(source,), daemon=True).start()
    for probe in probes:
        token = _token(probe["bearer_token"])
        for url in probe["urls"]:
            arguments = (url, probe, token, rows)
            threading.Thread(target=_read_for_ever, args=arguments, daemon=True).start()
    host = socket.gethostname()
    stream = StreamEncoder(PROBE_SCHEMA)
    sys.stdout.buffer.write(stream.begin())
    while True:
        readings = rows.get()
        cost = (time.time_ns(), host, "process", "", "scraper_cpu_ns")
        readings = [*readings, (*cost, float(time.process_time_ns()))]
        columns = [list(column) for column in zip(*readings, strict=True)]
        sys.stdout.buffer.write(stream.encode(PROBE_SCHEMA.of_columns(columns)))
        sys.stdout.buffer.flush()


def _end_with(source: BinaryIO) -> None:
    # End of file means that the parent has exited, and that nothing reads the rows any more.
    while source.read(1):
        pass
    os._exit(0)


def _token(reference: dict[str, str] | None) -> str | None:
    match reference:
        case {"value": value}:
            return value
        case {"file": path}:
            with contextlib.suppress(OSError):
                return Path(path).read_text(encoding="utf-8").strip()
    return None


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        main()
