"""Judge what a run or a published report says: plausibility, mistakes, and what limited it.

Every finding comes from a general rule and carries its evidence. "inferred" marks what rests on an
assumption that nobody stated; "chance" is how often accident alone would show the same pattern.

\b
Examples:
  loadstone analyse published:hummingbird
  loadstone analyse published:theflash
  loadstone analyse runs/demo -f json
  loadstone analyse runs/demo --mistakes       also the list of common mistakes
"""

import json
from typing import Annotated

import typer

from loadstone.analysis import linter
from loadstone.analysis.account import Account
from loadstone.analysis.finding import Finding
from loadstone.errors import InputError

EVIDENCE_SHOWN = 5


def command(
    runs: Annotated[
        list[str], typer.Argument(help="Run folders, or published:NAME.", metavar="RUN...")
    ],
    form: Annotated[str, typer.Option("--format", "-f", help="terminal or json.")] = "terminal",
    mistakes: Annotated[
        bool, typer.Option(help="Show the list of common mistakes, X01 to X26, too.")
    ] = False,
    evidence: Annotated[bool, typer.Option(help="Show the numbers behind each finding.")] = False,
) -> None:
    if form not in ("terminal", "json"):
        raise InputError.of_value(form, "a format: terminal, json")
    judged = [_judge(name) for name in _whole(runs)]
    if form == "json":
        documents = [_document(account, findings) for account, findings in judged]
        shown = documents[0] if len(documents) == 1 else documents
        print(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    for account, findings in judged:
        print(f"{account.name}: {account.title}" if account.title != account.name else account.name)
        for finding in findings:
            _print_finding(finding, with_evidence=evidence)
        if not findings:
            print("  nothing was found")
        if mistakes:
            _print_mistakes(account)
        print()


def _whole(names: list[str]) -> list[str]:
    from loadstone import published

    if all(published.is_published(name) and "@" not in name for name in names):
        return [published.PREFIX + one.name for one in published.find_all(names)]
    return names


def _judge(name: str) -> tuple[Account, tuple[Finding, ...]]:
    from loadstone import published
    from loadstone.analysis.plausibility import judge
    from loadstone.cli.accounts import read_account, split_target

    whole, target = split_target(name)
    if published.is_published(name) or target is not None:
        account = read_account(name)
        return account, judge(account)
    return _judge_run(whole)


def _judge_run(name: str) -> tuple[Account, tuple[Finding, ...]]:
    from loadstone.analysis import run_account, trial_findings
    from loadstone.results.store import read_run

    run = read_run(name)
    measured = run_account.read_measured(run)
    account = run_account.account_of(run, measured)
    return account, trial_findings.judge_run(account, measured.parts, measured.flags)


def _print_finding(finding: Finding, *, with_evidence: bool) -> None:
    marks = ["inferred"] if finding.is_inferred else []
    marks += [f"chance {finding.chance:.0e}"] if finding.chance is not None else []
    mark = f" [{', '.join(marks)}]" if marks else ""
    print(f"  {finding.severity}: {finding.rule}{mark}\n    {finding.statement}")
    if not with_evidence:
        return
    for one in finding.evidence[:EVIDENCE_SHOWN]:
        place = f"  ({one.place})" if one.place else ""
        held = f", held against {_shown(one.threshold)}" if one.threshold is not None else ""
        print(f"      {one.metric}: {_shown(one.value)} {one.unit}".rstrip() + f"{held}{place}")
    if len(finding.evidence) > EVIDENCE_SHOWN:
        print(f"      and {len(finding.evidence) - EVIDENCE_SHOWN} more")


def _print_mistakes(account: Account) -> None:
    print("  mistakes:")
    for result in linter.lint(account):
        print(f"    {result.id} {result.outcome:<14} {result.mistake}: {result.evidence}")


def _document(account: Account, findings: tuple[Finding, ...]) -> dict[str, object]:
    return {
        "format": 1,
        "name": account.name,
        "title": account.title,
        "targets": list(account.targets),
        "findings": [finding.to_json() for finding in findings],
        "mistakes": [
            {
                "id": result.id,
                "mistake": result.mistake,
                "outcome": result.outcome,
                "evidence": result.evidence,
            }
            for result in linter.lint(account)
        ],
    }


def _shown(value: float | str | None) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value)
