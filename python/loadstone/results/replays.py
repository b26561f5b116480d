"""Writes replays of an audit's findings: campaigns that repeat only the calls of a proof."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from loadstone.campaign.planning.lifecycle import dataset_of
from loadstone.documents.mix import COMPARE_AND_SWAP, COPY, DELETES, POST, WRITES_WHOLE
from loadstone.documents.summary import AuditCall, AuditFinding, Summary
from loadstone.documents.trial import TrialDocument
from loadstone.results.audits import UNANSWERED, call_words
from loadstone.results.files import durable

REPLAYS = "replays"
REPLAYS_MAX = 100
"""Most findings of one audit that get a replay; further ones mostly have the same cause."""
RACES = 100
"""How often concurrent calls are repeated, because their order is random."""
REST_NS_MAX = 1_000_000_000
"""The longest pause between two calls of a replay, even if the original one was longer."""

_CONDITIONAL = {"put_if_absent", "put_if_match", "delete_if_match", COMPARE_AND_SWAP}
_REPEATED = {"put", "delete", COPY, POST}
_OF_LISTS = {"ghost", "list_missing", "listed_twice"}
_ACTIONS = {
    **dict.fromkeys(WRITES_WHOLE, "WRITE"), **dict.fromkeys(DELETES, "DELETE"), "get": "READ",
}  # fmt: skip


def write_replays(folder: Path, stem: str, document: TrialDocument, summary: Summary) -> None:
    """Write a replay for each of an audit's first findings, and add its name to the finding.

    `stem` begins the file names, and is unique to this audit.
    """
    findings = (summary.get("audit") or {}).get("findings") or []
    for number, finding in enumerate(findings[:REPLAYS_MAX], start=1):
        if number == 1:
            durable.make_folder_in(folder, REPLAYS)
        name = f"{REPLAYS}/{stem}-{number:03}-{finding['kind']}"
        calls = sorted(finding["calls"], key=lambda call: call["from_unix_ns"])
        if is_race(calls):
            parts = _race(finding, calls, document)
        elif any(call["operation"] in (COPY, POST) for call in calls):
            parts = _copies(finding, calls)
        else:
            script = f"{name}.csv"
            text, lasts_ns = _script(finding, calls)
            durable.write_file(folder, script, text.encode())
            parts = _sequence(finding, Path(script).name, lasts_ns)
        campaign = "".join(_lines(finding, calls, document, parts, f"{name}.yaml"))
        durable.write_file(folder, f"{name}.yaml", campaign.encode())
        finding["replay"] = f"{name}.yaml"


def is_race(calls: Sequence[AuditCall]) -> bool:
    """Tell whether the proof depends on calls being concurrent.

    Conditional calls count as concurrent: without other clients' writes, every condition would
    hold. Calls from a ledger have no client: their times are bounds.
    """
    if any(call["operation"] in _CONDITIONAL for call in calls):
        return True
    timed = [call for call in calls if call.get("client") is not None]
    return any(
        first["outcome"] == UNANSWERED or second["from_unix_ns"] < first["to_unix_ns"]
        for first, second in pairwise(timed)
    )


def _lines(
    finding: AuditFinding,
    calls: Sequence[AuditCall],
    document: TrialDocument,
    parts: tuple[str, dict[str, Any]],
    name: str,
) -> Iterator[str]:
    expected, campaign = parts
    yield f"# {finding['kind']}: key {json.dumps(finding['key'])} of bucket {finding['bucket']}.\n"
    yield "# The calls that prove it, in UTC:\n"
    yield from (f"#   {call_words(call)}\n" for call in calls)
    yield f"# Expected: {expected}\n"
    yield f"# Exit code 1: the target does it again. To replay: loadstone run RUN/{name}\n"
    target = document["target"]
    settings = target.get("settings") or {}
    common = {
        "name": "replay",
        "targets": {target["name"]: {"driver": target["driver"], **settings}},
        **campaign,
    }
    if encryption := dataset_of(document).get("encryption"):
        common["dataset"]["encryption"] = encryption
    for key, value in common.items():
        # JSON values are valid YAML.
        yield f"{key}: {json.dumps(value, ensure_ascii=True)}\n"


def _sequence(finding: AuditFinding, file: str, lasts_ns: int) -> tuple[str, dict[str, Any]]:
    """Return the expectation for sequential calls, and the campaign that makes them.

    The script in `file` contains the calls, with pauses of `lasts_ns` in total.
    """
    script = {"file": file} | ({"speed": 1} if lasts_ns else {})
    expected = (
        "READ returns the bytes of the last WRITE, nothing after a DELETE; LIST names the key"
        " exactly if it is there. Longer rests between the calls are cut to a second."
    )
    return expected, {
        "dataset": {"size": finding["size_bytes"], "object_prefix": ""},
        "load": {"threads": 1},
        "phases": [{"script": script}],
    }


def _copies(finding: AuditFinding, calls: Sequence[AuditCall]) -> tuple[str, dict[str, Any]]:
    """Return the expectation for copies and metadata, and the campaign that writes them.

    A script has no copies and no metadata, so an audit reads what was written.
    """
    written = [call["operation"] for call in calls if call["operation"] in _REPEATED]
    if POST not in written:
        # The ledger of a copy does not name the puts of its object.
        written = ["put", COPY] * written.count(COPY)
    elif written[0] != "put":
        written.insert(0, "put")
    expected = (
        "the audit reads from the copy what the object held when it was copied last, and the"
        " metadata that was posted last before that; without a copy, from the object itself."
    )
    return expected, {
        "dataset": {
            "objects": 1,
            "size": finding["size_bytes"],
            "object_prefix": f"{finding['key']}-",
        },
        "load": {"threads": 1},
        "phases": [
            {"op": operation, "name": f"{operation}-{number}", "requests": 1}
            for number, operation in enumerate(written, start=1)
        ],
        "audit": True,
    }


def _script(finding: AuditFinding, calls: Sequence[AuditCall]) -> tuple[str, int]:
    """Return the calls as a script in CSV with their original pauses, and the sum of the pauses.

    The sum is in nanoseconds.
    """
    rows: list[tuple[str, int]] = []
    due_ns, ended_ns = 0, 0
    for call in calls:
        action = _ACTIONS.get(call["operation"])
        # A failed change may or may not have taken effect.
        if action is None or (action != "READ" and call["outcome"] != "ok"):
            continue
        if not rows and action != "WRITE" and finding["kind"] != "phantom":
            rows.append(("WRITE", due_ns))
        if rows:
            rest_ns = max(0, call["from_unix_ns"] - ended_ns) if ended_ns else 0
            due_ns += min(REST_NS_MAX, rest_ns)
        ended_ns = call["to_unix_ns"]
        rows.append((action, due_ns))
    if finding["kind"] in _OF_LISTS:
        rows.append(("LIST", due_ns))
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("session", "action", "object", "size", "expect", "due_ns"))
    is_there = False
    for action, due in rows:
        is_there = {"WRITE": True, "DELETE": False}.get(action, is_there)
        size = finding["size_bytes"] if action == "WRITE" else ""
        expect = "absent" if action == "READ" and not is_there else ""
        table.writerow((1, action, finding["key"], size, expect, due))
    return text.getvalue(), due_ns


def _race(
    finding: AuditFinding, calls: Sequence[AuditCall], document: TrialDocument
) -> tuple[str, dict[str, Any]]:
    """Return the expectation for concurrent calls, and the campaign that repeats them."""
    operations = {call["operation"] for call in calls}
    clients = max(2, len({call.get("client") for call in calls}))
    phase: dict[str, Any] = {"requests": RACES * len(calls)}
    conditional = operations & _CONDITIONAL
    if conditional and conditional <= {"put_if_match", COMPARE_AND_SWAP}:
        phase["contend"] = {"keys": 1, "clients": clients}
    else:
        operations |= {"get", "put" if "delete_if_match" in operations else "get"}
        operations |= {"delete"} if "put_if_absent" in operations else set()
        phase["mix"] = dict.fromkeys(sorted(operations), 1)
    model = (document.get("judged") or {}).get("model", "linear")
    expected = (
        f"no call contradicts a {model} store. This depends on timing: {clients} clients make the"
        f" calls at the same time, {RACES} times, on a key that begins with this one's name; none"
        " found proves nothing."
    )
    return expected, {
        "dataset": {
            "objects": 1,
            "size": finding["size_bytes"],
            "object_prefix": f"{finding['key']}-",
        },
        "load": {"threads": clients},
        "phases": [phase],
        "audit": {"history": True, "model": model},
    }
