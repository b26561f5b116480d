"""Skyhook's observations: rados bench, and the ceilings of network, device and OSDs."""

from collections.abc import Mapping
from typing import Any

from loadstone.analysis.accounts.account import BYTE_RATE, Account, KnownCeiling, Measurement
from loadstone.analysis.standards import printed_units
from loadstone.published import read

FILE = "skyhook"


def account() -> Account:
    """Return the rates and the ceilings in bytes per second, each as its own tool counts them."""
    facts = read.read_facts(FILE)
    return Account(
        name=FILE,
        title=facts["title"],
        measurements=tuple(_measurement(entry, facts["target"]) for entry in facts["rates"]),
        hinted=tuple(_measurement(entry, facts["target"]) for entry in facts["hinted"]),
        ceilings=tuple(_ceiling(entry) for entry in facts["ceilings"]),
        disclosure=read.disclosure(facts),
        ratios=read.ratios(facts),
        loads=read.loads(facts),
        planned_threads=tuple(facts["threads"]),
    )


def render() -> str:
    """Return the network's figures as they are printed, and all figures in a table.

    The report has no table of its own.
    """
    facts = read.read_facts(FILE)
    network = facts["ceilings"][0]
    lines = [
        f"* Min. Bandwidth: `{network['low']}`",
        f"* Max. Bandwidth: `{network['high']}`",
        "",
        f"The average is `{network['value']}` ({network['text'].partition('(')[2]}.",
        "",
    ]
    lines += ["| Figure | As printed | Tool |", "| ------ | ---------- | ---- |"]
    for entry in facts["ceilings"]:
        text = entry["text"]
        if "low" in entry:
            text = f"{text}, min {entry['low']}, max {entry['high']}"
        lines.append(f"| {entry['name']} | {text} | {entry['tool']} |")
    for entry in facts["rates"]:
        lines.append(f"| {_load(entry)} | {entry['text']} | {entry['tool']} |")
    lines += [f"| {_load(one)} | {one['text']} | {one['tool']} |" for one in facts["hinted"]]
    return "\n".join(lines) + "\n"


def details() -> str:
    """Return the nodes, and the command that measured the device."""
    text = read.read_facts(FILE)["text"]
    return f"{text['node']}\n{text['fio']}"


def _load(entry: Mapping[str, Any]) -> str:
    threads = "1 thread" if entry["threads"] == 1 else f"{entry['threads']} threads"
    return f"read, {threads}, {entry['osds']} OSD{'s' * (entry['osds'] > 1)}"


def _measurement(entry: Mapping[str, Any], target: str) -> Measurement:
    return Measurement(
        target=target,
        workload="rados bench",
        operation="read",
        parameters={"threads": entry["threads"], "OSDs": entry["osds"]},
        metric=BYTE_RATE,
        value=printed_units.parse_rate_bytes(
            entry.get("value", entry["text"].lstrip("~")), entry["tool"]
        ),
        text=entry["text"],
        tool=entry["tool"],
        place=entry["place"],
    )


def _ceiling(entry: Mapping[str, Any]) -> KnownCeiling:
    def rate(key: str) -> float | None:
        text = entry.get(key)
        return printed_units.parse_rate_bytes(text, entry["tool"]) if text else None

    value = rate("value")
    assert value is not None, "a ceiling has a value"
    return KnownCeiling(
        resource=entry["resource"],
        name=entry["name"],
        bytes_per_s=value,
        low=rate("low"),
        high=rate("high"),
        count=entry["count"],
        is_count_inferred=entry.get("is_count_inferred", False),
        bounds=entry.get("bounds"),
        text=entry["text"],
        tool=entry["tool"],
        place=entry["place"],
    )
