"""Probes of nodes: a row per device and mount, a matrix of the network."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from loadstone import units
from loadstone.documents.node import (
    DirectionRates,
    NodeDocument,
    PathProbe,
    StorageProbe,
    is_cached,
)
from loadstone.report.result_words import NOT_KNOWN
from loadstone.report.tables.layout import Table, numbers, texts

Nodes = Mapping[str, NodeDocument]
Measured = tuple[str, StorageProbe]

MATRIX_MAX = 8
"""More nodes than this are listed path by path: a matrix of them fits on no screen."""

CACHED = "*"
CACHED_NOTE = (
    f"{CACHED} not direct, and all files together fit into the node's memory: reads may have been"
    " served from it."
)


def probe_tables(nodes: Nodes) -> Iterator[Table]:
    """Return the tables of probes of nodes; none if no probe ran."""
    measured = [
        storage_probe for storage_probe in storage_probes(nodes) if "failed" not in storage_probe[1]
    ]
    if measured:
        yield _storage(measured)
    paths = [path for path in all_paths(nodes) if path[2].keys() & {"ping", "bandwidth"}]
    if not paths:
        return
    names = list(dict.fromkeys(end for name, other, _ in paths for end in (name, other)))
    if len(names) > MATRIX_MAX:
        yield _listed(paths)
        return
    yield _matrix("Ping between nodes", "ms, mean", names, paths, _ping)
    yield _matrix("Bandwidth between nodes", "Gbit/s", names, paths, _bandwidth)


def storage_probes(nodes: Nodes) -> Iterator[Measured]:
    """Yield every probe of a device or a mount, with its node's name."""
    for name, node in nodes.items():
        for probe in node.get("probes") or ():
            yield name, probe


def all_paths(nodes: Nodes) -> Iterator[tuple[str, str, PathProbe]]:
    """Yield every path between nodes: from, to, and what was measured."""
    for name, node in nodes.items():
        for other, probe in (node.get("paths") or {}).items():
            yield name, other, probe


def _storage(measured: Sequence[Measured]) -> Table:
    rows = [
        (
            name,
            str(probe["path"]) + (CACHED if is_cached(probe) else ""),
            str(probe.get("file_system") or probe["kind"]),
            *_direction(probe.get("write")),
            *_direction(probe.get("read")),
        )
        for name, probe in measured
    ]
    heads = (
        *texts("node", "path", "is"),
        *numbers(("write", "IOPS"), "write", ("read", "IOPS"), "read"),
    )
    notes = [
        "fio, each node by itself. IOPS are of the first block size, random; rates of the second,"
        " sequential. A device is only read."
    ]
    ways: dict[str, list[str]] = {}
    for name, probe in measured:
        ways.setdefault(_way(probe), []).append(f"{name} {probe['path']}")
    if len(ways) == 1:
        notes.append(f"All: {next(iter(ways))}.")
    else:
        notes += [f"{', '.join(places)}: {way}." for way, places in ways.items()]
    if any(is_cached(probe) for _, probe in measured):
        notes.append(CACHED_NOTE)
    return Table(
        title="Devices and mounts of the nodes", columns=heads, rows=tuple(rows), notes=tuple(notes)
    )


def _direction(rates: DirectionRates | None) -> tuple[str, str]:
    if not rates:
        return NOT_KNOWN, NOT_KNOWN
    return (
        units.format_number(rates["requests_per_s"]),
        units.format_byte_rate(rates["bytes_per_s"]),
    )


def _way(probe: StorageProbe) -> str:
    """Return how it was measured: block sizes, jobs and depth, file size, duration."""
    blocks = " and ".join(
        units.format_bytes(size) for size in (probe["small_block_bytes"], probe["block_bytes"])
    )
    jobs = units.counted(probe["jobs"], "job")
    deep = f"{jobs} × depth {probe['depth']}" if probe["direct"] else jobs
    files = f", {units.format_bytes(probe['file_bytes'])} each" if "file_bytes" in probe else ""
    direct = "direct" if probe["direct"] else "through the page cache"
    return f"{blocks}, {deep}{files}, {probe['seconds']:g} s, {direct}"


def _matrix(
    what: str,
    unit: str,
    names: Sequence[str],
    paths: Iterable[tuple[str, str, PathProbe]],
    cell: Callable[[PathProbe], str],
) -> Table:
    cells = {(name, other): cell(probe) for name, other, probe in paths}
    columns = (*texts("from \\ to"), *numbers(*names))
    rows = tuple(
        (name, *("" if name == other else cells.get((name, other), NOT_KNOWN) for other in names))
        for name in names
    )
    return Table(title=f"{what}, {unit}", columns=columns, rows=rows)


def _listed(paths: Iterable[tuple[str, str, PathProbe]]) -> Table:
    columns = (*texts("from", "to", "address"), *numbers("ping, ms", "bandwidth, Gbit/s"))
    rows = tuple(
        (name, other, str(probe.get("address") or NOT_KNOWN), _ping(probe), _bandwidth(probe))
        for name, other, probe in paths
    )
    return Table(title="Network between nodes", columns=columns, rows=rows)


def _ping(probe: PathProbe) -> str:
    ping = probe.get("ping")
    if ping is None or "avg_ms" not in ping:
        return NOT_KNOWN
    lost = ping["sent"] - ping["received"]
    return units.format_number(ping["avg_ms"]) + (f" ({lost} lost)" if lost else "")


def _bandwidth(probe: PathProbe) -> str:
    bandwidth = probe.get("bandwidth")
    return units.format_number(bandwidth["bits_per_s"] / 1e9) if bandwidth else NOT_KNOWN


def deployment(nodes: Nodes) -> str:
    """Return the nodes as a list in Markdown: what runs where, and what was probed."""
    lines = [f"* Deployment on {units.counted(len(nodes), 'node')}"]
    for name, node in nodes.items():
        lines.append(f"    * {name}")
        lines += [f"        * {role}" for role in node.get("roles") or ()]
        lines += [
            f"        * Mount {probe.get('source')}: {probe['path']}"
            for probe in node.get("probes") or ()
            if probe["kind"] == "mount" and probe.get("source")
        ]
    paths = [probe for _, _, probe in all_paths(nodes)]
    pings = [path["ping"]["avg_ms"] for path in paths if "avg_ms" in (path.get("ping") or {})]
    rates = [path["bandwidth"]["bits_per_s"] for path in paths if "bandwidth" in path]
    if pings or rates:
        lines.append("    * Network between nodes")
        lines += [f"        * Ping avg: {_range(pings, '{}ms')}"] if pings else []
        lines += [f"        * Bandwidth: {_range(rates, units.format_bit_rate)}"] if rates else []
    for title, probes in _alike(nodes).items():
        lines.append(f"    * {title} on {units.counted(len(probes), 'node')}:")
        for direction, measured in (
            ("Write", [probe["write"] for probe in probes if "write" in probe]),
            ("Read", [probe["read"] for probe in probes if "read" in probe]),
        ):
            if measured:
                iops = _range([rates["requests_per_s"] for rates in measured], _short)
                rate = _range(
                    [rates["bytes_per_s"] for rates in measured],
                    lambda bytes_per_s: f"{_short(bytes_per_s)}B/s",
                )
                lines.append(f"        * {direction}: IOPS={iops}, BW={rate}")
    return "\n".join(lines) + "\n"


def _alike(nodes: Nodes) -> dict[str, list[StorageProbe]]:
    """Group the probes of nodes by the kind of device or mount."""
    alike: dict[str, list[StorageProbe]] = {}
    for _, probe in storage_probes(nodes):
        if "failed" not in probe:
            what = probe.get("file_system") or "device"
            # Each node has a directory of its own in a shared store; a local path names a device.
            is_local = str(probe.get("source", "")).startswith("/dev/") or probe["kind"] == "device"
            title = f"{probe['path']} ({what})" if is_local else f"Mounted {what}"
            alike.setdefault(title, []).append(probe)
    return alike


def _range(values: Sequence[float], show: "str | Callable[[float], str]") -> str:
    """Return the smallest and the largest value, or one if they look alike."""
    ends = [
        show.format(units.format_number(value)) if isinstance(show, str) else show(value)
        for value in (min(values), max(values))
    ]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _short(value: float) -> str:
    for divisor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= divisor:
            return f"{units.format_number(value / divisor)}{prefix}"
    return units.format_number(value)
