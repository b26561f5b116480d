"""The JSON report: every number of the findings, for programs. Its schema is published.

`results` are what every report shows first: all rounds and iterations of a case added up.

An absent number is null. Times are integer nanoseconds, rates per second, sizes bytes. The types of
`documents/report` say which keys there are, and where in the findings each value stands.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin

from pydantic_core import to_json
from typing_extensions import get_type_hints, is_typeddict

from loadstone.analysis import Findings
from loadstone.analysis.answers.answer import contentions
from loadstone.analysis.audits import Audited, upper_bound
from loadstone.documents.report import JsonReport, ReportAudit
from loadstone.documents.report.result import From
from loadstone.documents.summary import AuditCall, AuditFinding
from loadstone.report.next_step import deciding_step
from loadstone.report.options import Options
from loadstone.results.audits import UNANSWERED
from loadstone.results.record import Run

FORMAT: Final = 1

Document = TypeVar("Document")
Writer = Callable[[Any], Any]


def render(run: Run, findings: Findings, options: Options) -> bytes:
    """Return the JSON report, indented, its keys in a fixed order."""
    # The standard library indents in Python code, which takes nine times as long.
    return to_json(document(run, findings), indent=2, inf_nan_mode="null") + b"\n"


def document(run: Run, findings: Findings) -> JsonReport:
    """Return the JSON report as plain values."""
    manifest = run.manifest
    report = written(
        JsonReport,
        findings,
        format=FORMAT,
        run={
            "id": manifest.get("run"),
            "name": run.name,
            "state": run.state,
            "seed": manifest.get("seed"),
            "started": manifest.get("started"),
            "ended": manifest.get("ended"),
            "loadstone": manifest.get("loadstone"),
            "versions": manifest.get("versions") or {},
            "host": {**(manifest.get("host") or {})},
            "nodes": manifest.get("nodes") or {},
        },
        contention=contentions(findings.results, findings.trials),
        cards=manifest.get("cards") or {},
        audit=_audit(findings.audits) if findings.audits else None,
        audits=[_audit([audit]) for audit in findings.audits],
    )
    for kind in ("results", "rounds", "iterations", "mixes"):
        entries = cast("Mapping[str, Any]", report)[kind]
        for result, entry in zip(getattr(findings, kind), entries, strict=True):
            if result.verdict is not None:
                # Its command is made of the run's own.
                entry["verdict"]["next"] = deciding_step(run, result.verdict)
    return report


def written(kind: type[Document], source: object, **others: object) -> Document:
    """Return a document of a typed dictionary, its values read from `source` or `others`."""
    return cast(
        "Document",
        {
            key: write(others[key] if key in others else _value_at(source, path))
            for key, path, write in _keys(cast("Any", kind))
        },
    )


def _value_at(value: Any, path: Sequence[str]) -> Any:
    """Return an attribute of an attribute; None where one on the way is None."""
    for name in path:
        if value is None:
            return None
        value = value[name] if isinstance(value, Mapping) else getattr(value, name)
    return value


@cache
def _keys(kind: Any) -> tuple[tuple[str, tuple[str, ...], Writer], ...]:
    """Return the keys of a typed dictionary, each with its path in the source and its writer."""
    keys = []
    for key, hint in get_type_hints(kind, include_extras=True).items():
        marks = getattr(hint, "__metadata__", ())
        path = next((mark.path for mark in marks if isinstance(mark, From)), key)
        keys.append((key, tuple(filter(None, path.split("."))), _writer(hint)))
    return tuple(keys)


def _writer(hint: Any) -> Writer:
    """Return the function that makes plain values of one type's."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _writer(inner[0])
    if origin is list:
        return partial(_list, _writer(inner[0]))
    if origin is dict:
        return partial(_dict, _writer(inner[1]))
    if type(None) in inner and len(inner) == 2:
        [known] = (each for each in inner if each is not type(None))
        # An absent text is empty in the analysis.
        return partial(_or_null, _writer(known), "" if known is str else None)
    return partial(_section, hint) if is_typeddict(hint) else _same


def _section(kind: type, value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else written(kind, value)


def _list(write: Writer, values: Sequence[Any]) -> list[Any]:
    return list(values) if write is _same else [write(value) for value in values]


def _dict(write: Writer, values: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): write(value) for key, value in values.items()}


def _or_null(write: Writer, absent: object, value: Any) -> Any:
    return None if value is None or value == absent else write(value)


def _same(value: Any) -> Any:
    return value


def _audit(audits: Sequence[Audited]) -> ReportAudit:
    """Return what audits found together."""
    read_back, wrong = (
        sum(getattr(audit, name) for audit in audits) for name in ("read_back", "wrong")
    )
    return {
        "trials": [audit.trial for audit in audits],
        "acknowledged": sum(audit.acknowledged for audit in audits),
        "read_back": read_back,
        "unknown": sum(audit.unknown for audit in audits),
        "unanswered": sum(audit.unanswered for audit in audits),
        "metadata": sum(audit.metadata for audit in audits),
        "metadata_read_back": sum(audit.metadata_read_back for audit in audits),
        "listings_failed": sum(audit.listings_failed for audit in audits),
        "wrong": wrong,
        "wrong_share_max": upper_bound(wrong, read_back) if read_back else None,
        "is_whole": all(audit.is_whole for audit in audits),
        "histories": cast(
            "Any", [{"audit": audit.trial, **audit.history} for audit in audits if audit.history]
        ),
        "findings": cast(
            "Any",
            [_audit_finding(audit, finding) for audit in audits for finding in audit.findings],
        ),
    }


def _audit_finding(audit: Audited, finding: AuditFinding) -> dict[str, object]:
    place = {"target": audit.target, "audit": audit.trial, "times": 1}
    unknown = dict.fromkeys(("size_bytes", "replay"))
    return {**place, **unknown, **finding, "calls": [_audit_call(c) for c in finding["calls"]]}


def _audit_call(call: AuditCall) -> dict[str, object]:
    unknown = dict.fromkeys(("trial", "version", "expected", "client"))
    ended_ns = None if call["outcome"] == UNANSWERED else call["to_unix_ns"]
    return {**unknown, **call, "to_unix_ns": ended_ns}
