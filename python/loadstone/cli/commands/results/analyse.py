"""Judge the numbers of a run or a published report: plausibility, mistakes, and limits.

Every finding comes from a general rule, and has its evidence. "inferred" marks a finding that rests
on an unstated assumption. "chance" is the probability that the pattern arises by chance alone.

\b
Examples:
  loadstone analyse published:hummingbird
  loadstone analyse published:theflash
  loadstone analyse runs/demo -f json
  loadstone analyse runs/demo --mistakes       also the list of common mistakes
  loadstone analyse runs/ceph --network iperf3.json --null runs/null
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from loadstone.analysis.accounts.account import Account, KnownCeiling
from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.standards import linter
from loadstone.cli import completion
from loadstone.cli.flags import TerminalOrJson
from loadstone.cli.screen.output import print_words

EVIDENCE_SHOWN = 5

Load = tuple[str, int | None, int | None]
"""An operation, the size of its objects in bytes, and the requests in flight."""


def command(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Run folders, or published:NAME.", metavar="RUN...", autocompletion=completion.runs
        ),
    ],
    form: TerminalOrJson = "terminal",
    mistakes: Annotated[bool, typer.Option(help="Also show the list of common mistakes.")] = False,
    evidence: Annotated[bool, typer.Option(help="Show the numbers behind each finding.")] = False,
    network: Annotated[
        Path | None,
        typer.Option(help="Output of iperf3 --json for the path to the target, as its ceiling."),
    ] = None,
    null: Annotated[
        str | None,
        typer.Option(help="A run of the same loads on a null target, as the client's ceiling."),
    ] = None,
) -> None:
    ceilings = _ceilings(network)
    null_rates = _null_rates(null)
    judged = [_judge(name, ceilings, null_rates) for name in _whole(runs)]
    if form == "json":
        documents = [_document(account, findings) for account, findings in judged]
        shown = documents[0] if len(documents) == 1 else documents
        print(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    for account, findings in judged:
        is_titled = account.title != account.name
        print_words(f"{account.name}: {account.title}" if is_titled else account.name)
        for finding in findings:
            _print_finding(finding, with_evidence=evidence)
        if not findings:
            print("  no findings")
        if mistakes:
            _print_mistakes(account)
        print()


def _whole(names: list[str]) -> list[str]:
    from loadstone import published

    if all(published.is_published(name) and "@" not in name for name in names):
        return [published.PREFIX + report.name for report in published.find_all(names)]
    return names


def _ceilings(network: Path | None) -> tuple[KnownCeiling, ...]:
    if network is None:
        return ()
    from loadstone.importers import network_ceiling

    return (network_ceiling.read_ceiling(network),)


def _null_rates(null: str | None) -> Mapping[Load, float]:
    """Return the best rate of each load in a run with the null driver."""
    if null is None:
        return {}
    from loadstone.analysis.accounts.account import RATE
    from loadstone.cli.accounts import read_whole

    rates: dict[Load, float] = {}
    for measurement in read_whole(null).of(RATE):
        load = (measurement.operation, measurement.size_bytes, measurement.threads)
        rates[load] = max(measurement.value, rates.get(load, 0.0))
    return rates


def _judge(
    name: str, ceilings: tuple[KnownCeiling, ...], null_rates: Mapping[Load, float]
) -> tuple[Account, tuple[Finding, ...]]:
    from loadstone.cli.accounts import read_account, split_target
    from loadstone.published.rules import judge

    whole, target = split_target(name)
    if Path(whole).is_dir() and target is None:
        return _judge_run(whole, ceilings, null_rates)
    account = read_account(name)
    account = replace(account, ceilings=(*account.ceilings, *ceilings))
    return account, judge(account)


def _judge_run(
    name: str, ceilings: tuple[KnownCeiling, ...], null_rates: Mapping[Load, float]
) -> tuple[Account, tuple[Finding, ...]]:
    from loadstone.analysis.judgements.judgement import judge_measured
    from loadstone.analysis.measured.reading import read_measured
    from loadstone.results.store import read_run

    run = read_run(name)
    judged = judge_measured(run, read_measured(run), ceilings=ceilings, null_rates=null_rates)
    return judged.account, judged.findings


def _print_finding(finding: Finding, *, with_evidence: bool) -> None:
    marks = ["inferred"] if finding.is_inferred else []
    marks += [f"chance {finding.chance:.0e}"] if finding.chance is not None else []
    mark = f" [{', '.join(marks)}]" if marks else ""
    print(f"  {finding.severity}: {finding.rule}{mark}")
    print_words(finding.statement, indent="    ")
    if not with_evidence:
        return
    for evidence in finding.evidence[:EVIDENCE_SHOWN]:
        place = f"  ({evidence.place})" if evidence.place else ""
        held = (
            f", compared with {_shown(evidence.threshold)}"
            if evidence.threshold is not None
            else ""
        )
        value = f"{evidence.metric}: {_shown(evidence.value)} {evidence.unit}".rstrip()
        print_words(f"{value}{held}{place}", indent="      ", below="        ")
    if len(finding.evidence) > EVIDENCE_SHOWN:
        print(f"      and {len(finding.evidence) - EVIDENCE_SHOWN} more")


def _print_mistakes(account: Account) -> None:
    print("  mistakes:")
    for result in linter.lint(account):
        print_words(
            f"{result.outcome:<14} {result.mistake}: {result.evidence}",
            indent="    ",
            below="        ",
        )


def _document(account: Account, findings: tuple[Finding, ...]) -> dict[str, object]:
    from loadstone.documents.report import ReportFinding
    from loadstone.report.formats.document import written

    return {
        "format": 1,
        "name": account.name,
        "title": account.title,
        "targets": list(account.targets),
        "findings": [written(ReportFinding, finding) for finding in findings],
        "mistakes": [asdict(result) for result in linter.lint(account)],
    }


def _shown(value: float | str | None) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value)
