"""What probes of nodes say of a run: what failed, what is another thing, which is the odd one."""

import statistics
from collections.abc import Iterator, Mapping

from loadstone import units
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.judgements.seen import Seen
from loadstone.documents.node import NodeDocument, StorageProbe

SLOW = 0.7
"""A share of the median of its like below which one is called slow; a single probe of seconds is
not steadier than this."""

Rates = dict[tuple[str, str], dict[str, float]]


def find_of_probes(seen: Seen) -> Iterator[Finding]:
    """Report what the probes of nodes betray; nothing where none was asked for."""
    nodes: Mapping[str, NodeDocument] = (seen.run.manifest.get("nodes") or {}) if seen.run else {}
    for name, node in nodes.items():
        for one in node.get("probes") or ():
            yield from _of_storage(name, one)
        for other, path in (node.get("paths") or {}).items():
            if "failed" in path:
                yield Finding(
                    rule="node-probe-failed",
                    statement=f'network from node "{name}" to "{other}": {path["failed"]}',
                    cases=(name, other),
                )
    yield from _slow(nodes)


def _of_storage(name: str, one: StorageProbe) -> Iterator[Finding]:
    what = f'node "{name}", {one["kind"]} {one["path"]}'
    claimed, found = one.get("claimed"), one.get("file_system")
    if "failed" in one:
        # It was measured only where it is what it is said to be.
        is_another = claimed is not None and found is not None and "total_bytes" not in one
        yield Finding(
            rule="mount-is-another" if is_another else "node-probe-failed",
            statement=f"{what}: {one['failed']}",
            cases=(name,),
        )
    elif is_cached(one):
        total, memory = one["total_bytes"], one["memory_bytes"]
        yield Finding(
            rule="node-probe-cached",
            statement=f"{what}: read through the page cache, files of {units.format_bytes(total)}"
            f" in a memory of {units.format_bytes(memory)}",
            evidence=(
                Evidence(metric="files", value=total, threshold=memory, unit="B", place=name),
            ),
            cases=(name,),
        )


def is_cached(one: StorageProbe) -> bool:
    """Tell whether a mount's files may have been read from the node's memory."""
    memory, total = one.get("memory_bytes"), one.get("total_bytes")
    if memory is None or total is None:
        return False
    return one["kind"] == "mount" and not one["direct"] and total < memory


def _slow(nodes: Mapping[str, NodeDocument]) -> Iterator[Finding]:
    for (what, unit), rates in _rates(nodes).items():
        if len(rates) < 3:
            # Of two, either may be the odd one.
            continue
        middle = statistics.median(rates.values())
        slow = {place: rate for place, rate in rates.items() if rate < SLOW * middle}
        if slow:
            show = units.format_bit_rate if unit == "bit/s" else units.format_byte_rate
            listed = ", ".join(f"{place} {show(rate)}" for place, rate in slow.items())
            yield Finding(
                rule="nodes-perform-unlike",
                statement=f"{what}: {listed}, where the median of {len(rates)} is {show(middle)}",
                evidence=tuple(
                    Evidence(metric=what, value=rate, threshold=middle, unit=unit, place=place)
                    for place, rate in slow.items()
                ),
                cases=tuple(slow),
            )


def _rates(nodes: Mapping[str, NodeDocument]) -> Rates:
    """Return rates by what is alike: paths, and devices and mounts of one kind and way."""
    rates: Rates = {}
    for name, node in nodes.items():
        for other, path in (node.get("paths") or {}).items():
            if "bandwidth" in path:
                like = rates.setdefault(("bandwidth between nodes", "bit/s"), {})
                like[f"{name} to {other}"] = path["bandwidth"]["bits_per_s"]
        for one in node.get("probes") or ():
            if "failed" in one:
                continue
            kind = one.get("file_system") or f"device of {units.format_bytes(one.get('bytes', 0))}"
            for direction, moved in (("write", one.get("write")), ("read", one.get("read"))):
                if moved:
                    like = rates.setdefault((f"{direction} of {kind}, {_way(one)}", "B/s"), {})
                    like[f"{name} {one['path']}"] = moved["bytes_per_s"]
    return rates


def _way(one: StorageProbe) -> str:
    return f"{units.counted(one['jobs'], 'job')} of {units.format_bytes(one['block_bytes'])}"
