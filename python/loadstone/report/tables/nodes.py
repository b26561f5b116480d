"""The machines of a run: hardware, cards, disks, mounts and pools."""

from collections.abc import Iterator, Mapping, Sequence

from loadstone import units
from loadstone.documents.node import CardFacts, NodeDocument, ProcessorFacts
from loadstone.report.result_words import NOT_KNOWN
from loadstone.report.tables.layout import Column, Table
from loadstone.report.tables.node_probes import probe_tables

LEFT_OUT_FIRST = ("kernel", "firmware", "driver", "MTU")
"""Columns that a narrow terminal has no room for; what is left out is named below the table."""

PACKAGES_SHOWN = ("ceph-common", "ceph-osd", "radosgw", "swift", "fio", "iperf3")

Nodes = Mapping[str, NodeDocument]


def node_tables(nodes: Nodes) -> Iterator[Table]:
    """Return the tables of nodes; none if the campaign names none."""
    if not nodes:
        return
    yield _table(
        "Nodes",
        ("node", "roles", "chassis", "memory", "kernel", "system", "processors"),
        [
            (
                name,
                ", ".join(node.get("roles") or ()),
                str(node.get("chassis") or NOT_KNOWN),
                _memory(node),
                str(node.get("kernel") or NOT_KNOWN).removeprefix("Linux "),
                str(node.get("system") or NOT_KNOWN),
                _processors(node.get("cpu") or {}),
            )
            for name, node in nodes.items()
        ],
    )
    yield from probe_tables(nodes)
    yield from _parts_of(nodes)


def _parts_of(nodes: Nodes) -> Iterator[Table]:
    cards = [
        (
            name,
            card,
            *_words(facts, "model", "driver", "firmware"),
            _speed(facts),
            str(facts.get("mtu", "")),
        )
        for name, node in nodes.items()
        for card, facts in (node.get("network") or {}).items()
    ]
    disks = [
        (
            name,
            disk,
            *_words(facts, "model", "firmware", "transport"),
            "rotates" if facts.get("rotates") else "flash",
            units.format_bytes(facts.get("bytes", 0)),
            " ".join(facts.get("mounts") or ()),
        )
        for name, node in nodes.items()
        for disk, facts in (node.get("disks") or {}).items()
    ]
    mounts = [
        (name, *_words(mount, "path", "type", "device", "options"))
        for name, node in nodes.items()
        for mount in node.get("mounts") or ()
        if mount["type"] != "overlay"
    ]
    pools = [
        (
            name,
            str(pool["name"]),
            str(pool["placement_groups"]),
            f"{pool['copies']} copies" if pool.get("copies") else f"erasure {pool['erasure_code']}",
        )
        for name, node in nodes.items()
        for pool in node.get("pools") or ()
    ]
    packages = [
        (name, package, version)
        for name, node in nodes.items()
        for package, version in (node.get("packages") or {}).items()
        if package in PACKAGES_SHOWN
    ]
    raid = [(name, line) for name, node in nodes.items() for line in node.get("raid") or ()]
    absent = [
        (name, "everything" if what == "failed" else what, str(why))
        for name, node in nodes.items()
        for what, why in _not_read(node)
    ]
    heads: Sequence[tuple[str, tuple[str, ...], Sequence[tuple[str, ...]]]] = (
        ("Network cards", ("node", "card", "model", "driver", "firmware", "speed", "MTU"), cards),
        (
            "Disks",
            ("node", "disk", "model", "firmware", "bus", "kind", "size", "mounted at"),
            disks,
        ),
        ("RAID", ("node", "is"), raid),
        ("Mounts", ("node", "path", "type", "device", "options"), mounts),
        ("Pools", ("node", "pool", "placement groups", "redundancy"), pools),
        ("Packages", ("node", "package", "version"), packages),
        ("Not read of nodes", ("node", "what", "why"), absent),
    )
    for title, head, rows in heads:
        if rows:
            yield _table(title, head, rows)


def _table(title: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Table:
    columns = tuple(
        Column(head=head, align="left", is_optional=head in LEFT_OUT_FIRST) for head in heads
    )
    return Table(title=title, columns=columns, rows=tuple(rows))


def _not_read(node: NodeDocument) -> Iterator[tuple[str, str]]:
    if "failed" in node:
        yield "failed", node["failed"]
    yield from (node.get("not_read") or {}).items()
    for probe in node.get("probes") or ():
        if "failed" in probe:
            yield f"{probe['kind']} {probe['path']}", probe["failed"]
    for other, path in (node.get("paths") or {}).items():
        if "failed" in path:
            yield f"network to {other}", path["failed"]


def _words(facts: Mapping[str, object], *keys: str) -> tuple[str, ...]:
    return tuple(str(facts.get(key) or NOT_KNOWN) for key in keys)


def _processors(cpu: ProcessorFacts) -> str:
    if not cpu:
        return NOT_KNOWN
    many = f"{cpu['sockets']} × " if cpu.get("sockets", 1) > 1 else ""
    counted = f", {cpu['cores']} cores" if "cores" in cpu else ""
    threads = f", {cpu['threads']} threads" if "threads" in cpu else ""
    mhz = cpu.get("mhz_max") or cpu.get("mhz")
    return f"{many}{cpu.get('model', NOT_KNOWN)}{counted}{threads}" + (
        f", {mhz:.0f} MHz" if mhz else ""
    )


def _memory(node: NodeDocument) -> str:
    size = node.get("memory_bytes")
    modules = node.get("memory_modules") or ()
    if not size:
        return NOT_KNOWN
    kinds = {" ".join(_words(module, "size", "type")) for module in modules}
    listed = f" ({len(modules)} × {kinds.pop()})" if len(kinds) == 1 else ""
    return units.format_bytes(size) + listed


def _speed(card: CardFacts) -> str:
    speed = card.get("speed_mbit_per_s")
    return f"{speed / 1000:g} Gbit/s" if speed else NOT_KNOWN
