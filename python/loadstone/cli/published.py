"""List the published reports that loadstone carries, or show what one of them says.

A published report stands wherever a run does: loadstone report published:cern prints its own
tables, loadstone analyse published:cern what its numbers betray.

\b
Examples:
  loadstone published list
  loadstone published show hummingbird
  loadstone report published:hummingbird
  loadstone report published:cern -f html -o cern.html
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from loadstone import published as reports
from loadstone.analysis.account import Account
from loadstone.cli.output import print_table, write_file
from loadstone.errors import InputError

FORMS = ("terminal", "json", "html", "svg", "png")


class Action(StrEnum):
    """What can be done with the published reports."""

    LIST = "list"
    SHOW = "show"


def command(
    action: Annotated[Action, typer.Argument(help="list, or show one of them.")] = Action.LIST,
    name: Annotated[str | None, typer.Argument(help="The report to show.")] = None,
    form: Annotated[str, typer.Option("--format", "-f", help="terminal or json.")] = "terminal",
) -> None:
    if form not in ("terminal", "json"):
        raise InputError.of_value(form, "a format: terminal, json")
    if action is Action.LIST:
        _list(form)
        return
    if name is None:
        known = ", ".join(reports.PUBLISHED)
        raise InputError("which report is to be shown?", f"loadstone published show NAME: {known}")
    one = reports.find(name)
    if form == "json":
        print(json.dumps(account_json(one.account()), indent=2, ensure_ascii=False))
        return
    account = one.account()
    print(f"{one.name}: {one.title}\nsource: {one.source}")
    print(f"{len(account.measurements)} numbers of {', '.join(account.targets)}\n")
    print(one.details().rstrip("\n"))
    print(f"\nits tables: loadstone report published:{one.name}")
    print(f"its findings: loadstone analyse published:{one.name}")


def print_reports(names: list[str], form: str, output: Path | None) -> None:
    """Print published reports in their own layout, or write them as JSON, a page or charts."""
    if form not in FORMS:
        raise InputError.of_value(form, f"a format of a published report: {', '.join(FORMS)}")
    found = reports.find_all(names)
    if form in ("svg", "png"):
        _write_charts(found, form, output)
        return
    if form == "html" and len(found) > 1:
        raise InputError("several published reports are no one page", "name one of them")
    content = _page(found[0]) if form == "html" else _text(found, form).encode()
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    write_file(output, content)


def _text(found: Sequence[reports.Published], form: str) -> str:
    if form == "json":
        accounts = [account_json(one.account()) for one in found]
        shown = accounts[0] if len(accounts) == 1 else accounts
        return json.dumps(shown, indent=2, ensure_ascii=False) + "\n"
    # Tables are printed as they are, to the byte: no line of ours goes in between.
    return "\n".join(one.render() for one in found)


def _page(one: reports.Published) -> bytes:
    from loadstone.analysis.plausibility import judge
    from loadstone.report.account_page import render_account

    account = one.account()
    return render_account(account, one.source, one.render(), one.details(), judge(account))


def _write_charts(found: Sequence[reports.Published], form: str, output: Path | None) -> None:
    from loadstone.analysis.plausibility import judge
    from loadstone.report.account_page import pictures_of_account
    from loadstone.report.images import png_files, svg_files

    if output is None:
        raise InputError(
            f'report "{form}" is several files and cannot be printed',
            hint=f"name a folder to put them in: -f {form} -o DIR",
        )
    for one in found:
        account = one.account()
        drawn = pictures_of_account(account, judge(account))
        if not drawn:
            raise InputError(
                f"published:{one.name} has no rates along a load to draw",
                f"loadstone report published:{one.name} prints its tables",
            )
        for name, content in (svg_files if form == "svg" else png_files)(drawn).items():
            write_file(output / (name if len(found) == 1 else f"{one.name}-{name}"), content)


def account_json(account: Account) -> dict[str, object]:
    """Return an account as plain values."""
    return {"format": 1, **asdict(account)}


def _list(form: str) -> None:
    if form == "json":
        rows = [
            {"name": one.name, "title": one.title, "source": one.source}
            for one in reports.PUBLISHED.values()
        ]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    rows_of_text = [
        (one.name, str(len(one.account().measurements)), one.title)
        for one in reports.PUBLISHED.values()
    ]
    print_table(("name", "numbers", "measures"), rows_of_text)
