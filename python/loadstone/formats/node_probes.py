"""Results of probes of a node, from the output of ping, iperf3 and fio.

The output is not trusted: a missing or absurd number raises InputError with its name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loadstone.documents.ceiling import sustained_share
from loadstone.documents.node import Bandwidth, DirectionRates, Ping
from loadstone.errors import InputError
from loadstone.formats.json_document import JsonNode, parse_document
from loadstone.formats.reading import FileLine, clean

_COUNTS = re.compile(r"(\d{1,9}) packets transmitted, (\d{1,9}) (?:packets )?received")
# iputils, then busybox.
_TIMES = re.compile(r"(?:rtt|round-trip) min/avg/max(?:/mdev)? = ([\d.]+)/([\d.]+)/([\d.]+)")
QUANTILES = {"p50": "50.000000", "p99": "99.000000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FioProbe:
    """fio's rates per direction; None for an unused direction."""

    tool: str
    read: DirectionRates | None
    write: DirectionRates | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMount:
    """A mounted file system."""

    file_system: str
    source: str
    mounted_at: str
    options: str


def read_ping(text: str) -> Ping:
    """Return packets and milliseconds; no times if all packets were lost."""
    counts = _COUNTS.search(text)
    if counts is None:
        raise InputError(f'ping counted nothing: "{clean(text)}"')
    ping: Ping = {"sent": int(counts[1]), "received": int(counts[2])}
    times = _TIMES.search(text)
    if times is not None:
        try:
            low, mean, high = (float(times[number]) for number in (1, 2, 3))
        except ValueError as error:
            raise InputError(f'ping printed no times: "{clean(times[0])}"') from error
        ping |= {"min_ms": low, "avg_ms": mean, "max_ms": high}
    return ping


def read_iperf3(text: str) -> Bandwidth:
    """Return the received bits per second, and the retransmissions.

    If the path became slower, the rate is that of the last third.
    """
    document = _document("iperf3", text)
    error = document.find("error")
    if error is not None:
        raise InputError(clean(str(error.value)) or "iperf3 reported an error without saying which")
    end = document.at("end")
    sent = end.at("sum_sent")
    again = sent.find("retransmits")
    intervals = document.find("intervals")
    rates = [
        item.at("sum", "bits_per_second").number()
        for item in (intervals.items() if intervals is not None else ())
    ]
    sustained = sustained_share(rates)
    arrived = end.at("sum_received", "bits_per_second").number()
    return {
        "bits_per_s": arrived * (1.0 if sustained is None else sustained),
        "seconds": end.at("sum_received", "seconds").number(),
        "retransmits": again.whole() if again is not None else None,
        "tool": clean(str(document.at("start", "version").value)),
    }


def read_fio(text: str) -> FioProbe:
    """Return the rates of a single job, or of jobs reported as a group, per direction."""
    document = _document("fio", text)
    jobs = document.at("jobs").items()
    if len(jobs) != 1:
        raise InputError(f"fio reported {len(jobs)} jobs, one was expected")
    (job,) = jobs
    failed = job.find("error")
    if failed is not None and failed.value:
        raise InputError(f"fio ended with error {clean(str(failed.value))}")
    return FioProbe(
        tool=clean(str(document.at("fio version").value)),
        read=_direction(job.at("read")),
        write=_direction(job.at("write")),
    )


def _direction(node: JsonNode) -> DirectionRates | None:
    if not node.at("total_ios").whole():
        return None
    times = node.find("clat_ns")
    listed = times.find("percentile") if times is not None else None
    quantiles: Mapping[str, JsonNode] = dict(listed.entries()) if listed is not None else {}
    return {
        "bytes_per_s": node.at("bw_bytes").number(),
        "requests_per_s": node.at("iops").number(),
        "latency_ns": {
            name: quantiles[key].whole() for name, key in QUANTILES.items() if key in quantiles
        },
    }


def _document(tool: str, text: str) -> JsonNode:
    # Some programs print text before and after their JSON.
    begin, end = text.find("{"), text.rfind("}")
    if begin < 0:
        raise InputError(clean(text) or f"{tool} printed nothing")
    return parse_document(FileLine(Path(tool)), text[begin : end + 1])


def mounts_in(text: str, path: str) -> list[str]:
    """Return the mount points at or below a path, from /proc/self/mountinfo."""
    points = (_unescaped(line.split()[4]) for line in text.splitlines())
    return [point for point in points if point == path or point.startswith(f"{path}/")]


def read_mount(text: str, path: str) -> FoundMount:
    """Return the mount that contains a path, from /proc/self/mountinfo."""
    best: tuple[str, FoundMount] | None = None
    for line in text.splitlines():
        head, separator, tail = line.partition(" - ")
        words, rest = head.split(), tail.split()
        if not separator or len(words) < 6 or len(rest) < 3:
            continue
        point = _unescaped(words[4])
        is_above = path == point or path.startswith(point.rstrip("/") + "/")
        # The last mount at a place hides earlier ones.
        if is_above and (best is None or len(point) >= len(best[0])):
            options = ",".join(dict.fromkeys([*words[5].split(","), *rest[2].split(",")]))
            best = (
                point,
                FoundMount(
                    file_system=clean(rest[0]),
                    source=clean(_unescaped(rest[1])),
                    mounted_at=clean(point),
                    options=clean(_SECRET.sub(r"\1=(hidden)", options)),
                ),
            )
    if best is None:
        raise InputError(f'nothing is mounted at or above "{path}"')
    return best[1]


_SECRET = re.compile(r"\b(secret|secretfile|password|pass|credentials)=[^,]*")
_ESCAPE = re.compile(r"\\([0-7]{3})")


def _unescaped(word: str) -> str:
    return _ESCAPE.sub(lambda escape: chr(int(escape[1], 8)), word)


def read_room(text: str) -> int:
    """Return the free bytes, from `df -P -k`."""
    words = text.splitlines()[-1].split()
    # A name may contain spaces; the numbers precede the percentage.
    at = next(index for index, word in enumerate(words) if re.fullmatch(r"\d+%|-", word) and index)
    return int(words[at - 1]) * 1024


def is_kind_of(claimed: str, mounted: str) -> bool:
    """Tell whether a mounted file system is of the claimed kind.

    The kernel's CephFS client is "ceph", the one in user space "fuse.ceph-fuse"; the type of NFS
    includes its version.
    """
    if claimed == mounted:
        return True
    name = mounted.removeprefix("fuse.").removesuffix("-fuse")
    return claimed == name or (claimed == "nfs" and name in ("nfs3", "nfs4"))
