"""List the published reports that loadstone contains, or show one of them.

A published report can be used in place of a run: loadstone report published:cern prints its tables,
loadstone analyse published:cern judges its numbers.

\b
Examples:
  loadstone published list
  loadstone published hummingbird
  loadstone report published:hummingbird
  loadstone report published:cern -f html -o cern.html
  loadstone report published:theflash -f markdown
"""

import json
from typing import Annotated

import typer

from loadstone import published as reports
from loadstone.cli.account_reports import account_json
from loadstone.cli.screen.output import print_table
from loadstone.errors import InputError


def command(
    action: Annotated[
        str, typer.Argument(help="list, show NAME, or the NAME alone.", metavar="[list|show|NAME]")
    ] = "list",
    name: Annotated[str | None, typer.Argument(help="The report to show.")] = None,
    form: Annotated[str, typer.Option("--format", "-f", help="terminal or json.")] = "terminal",
) -> None:
    if form not in ("terminal", "json"):
        allowed = "a format: terminal, json; loadstone report published:NAME has more"
        raise InputError.of_value(form, allowed)
    if action == "list":
        _list(form)
        return
    if action != "show":
        name = action
    if name is None:
        known = ", ".join(reports.PUBLISHED)
        raise InputError(
            "the name of a report is missing", f"loadstone published show NAME: {known}"
        )
    report = reports.find(name)
    if form == "json":
        print(json.dumps(account_json(report.account()), indent=2, ensure_ascii=False))
        return
    account = report.account()
    print(f"{report.name}: {report.title}\nsource: {report.source}")
    print(f"{len(account.measurements)} numbers of {', '.join(account.targets)}\n")
    print(report.details().rstrip("\n"))
    print(f"\nits tables: loadstone report published:{report.name}")
    print(f"its findings: loadstone analyse published:{report.name}")


def _list(form: str) -> None:
    if form == "json":
        rows = [
            {"name": report.name, "title": report.title, "source": report.source}
            for report in reports.PUBLISHED.values()
        ]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    rows_of_text = [
        (report.name, str(len(report.account().measurements)), report.title)
        for report in reports.PUBLISHED.values()
    ]
    print_table(("name", "numbers", "measures"), rows_of_text)
