"""Reports without a run: published reports, and files with a summary but no requests."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from loadstone import importers, published
from loadstone.analysis.accounts.account import Account
from loadstone.cli.screen.output import write_files
from loadstone.errors import InputError
from loadstone.report.formats.account import Source

FORMS = ("terminal", "markdown", "json", "html", "svg", "png")
ONE_PAGE = ("markdown", "html")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The contents of one argument, or of several files that belong together."""

    name: str
    account: Account
    source: Source


def is_account(name: str) -> bool:
    """Tell whether an argument names a published report or a summary, not a run."""
    return published.is_published(name) or _summary_format(name) is not None


def refuse_file_of_requests(name: str) -> None:
    """Refuse a file whose format has to be imported as a run first."""
    form, _, file = name.partition(":")
    if file and form in importers.IMPORTERS and not Path(name).exists():
        raise InputError(
            f'"{name}" is a file, not a run folder',
            f"loadstone import {form} {file} -o RUN, and then: loadstone report RUN",
        )


def print_accounts(
    names: Sequence[str], form: str, output: Path | None, *, may_overwrite: bool = False
) -> None:
    """Print accounts in the layout of their report, or write them as a page or as charts."""
    if form not in FORMS:
        raise InputError(
            f'"{names[0]}" has no report "{form}": it has numbers, but no requests',
            f"available: {', '.join(FORMS)}",
        )
    accounts = _read(names)
    if form in ("svg", "png"):
        _write_charts(accounts, form, output, may_overwrite=may_overwrite)
        return
    if form in ONE_PAGE and len(accounts) > 1:
        raise InputError("cannot show several published reports at once", "name one of them")
    content = _page(accounts[0], form) if form in ONE_PAGE else _text(accounts, form).encode()
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    write_files({output: content}, may_overwrite=may_overwrite)


def account_json(account: Account) -> dict[str, object]:
    """Return an account as plain values."""
    return {"format": 1, **asdict(account)}


def _summary_format(name: str) -> str | None:
    form, _, file = name.partition(":")
    known = importers.IMPORTERS.get(form)
    is_file = known is not None and known.is_summary and file and not Path(name).exists()
    return form if is_file else None


def _read(names: Sequence[str]) -> list[Shown]:
    files = {name: _summary_format(name) for name in names}
    shown_accounts = [
        _published(report) for report in published.find_all([n for n in names if not files[n]])
    ]
    for form in dict.fromkeys(file for file in files.values() if file):
        files_of_form = [
            name.partition(":")[2] for name, file_form in files.items() if file_form == form
        ]
        shown_accounts.append(_of_files(form, files_of_form))
    return shown_accounts


def _published(report: published.Published) -> Shown:
    return Shown(
        name=report.name,
        account=report.account(),
        source=Source(
            sentence=f"Published by others: {report.source}.",
            title="The tables, as they were published",
            tables=report.render(),
            details=report.details(),
            is_markdown=report.is_markdown,
        ),
    )


def _of_files(form: str, files: Sequence[str]) -> Shown:
    from loadstone.formats.imported import Hints
    from loadstone.published.tables.accounts import account_table, is_markdown

    account = importers.find(form).read([Path(file) for file in files], Hints())
    assert isinstance(account, Account), "a summary becomes an account"
    return Shown(
        name=form,
        account=account,
        source=Source(
            sentence=f"Measured by others, and read from {', '.join(files)}.",
            title="The numbers",
            tables=account_table(account),
            details="",
            is_markdown=is_markdown(account),
        ),
    )


def _text(shown_accounts: Sequence[Shown], form: str) -> str:
    if form == "json":
        accounts = [account_json(shown.account) for shown in shown_accounts]
        shown = accounts[0] if len(accounts) == 1 else accounts
        return json.dumps(shown, indent=2, ensure_ascii=False) + "\n"
    # Tables are printed byte for byte, without lines in between.
    return "\n".join(shown.source.tables for shown in shown_accounts)


def _page(shown: Shown, form: str) -> bytes:
    from loadstone.published.rules import judge
    from loadstone.report.formats.account import render_account, render_account_markdown

    render = render_account if form == "html" else render_account_markdown
    return render(shown.account, shown.source, judge(shown.account))


def _write_charts(
    shown_accounts: Sequence[Shown], form: str, output: Path | None, *, may_overwrite: bool
) -> None:
    from loadstone.report.formats.images import draw, png_files, svg_files
    from loadstone.report.pages.account_rows import account_data

    if output is None:
        raise InputError(
            f'cannot print report "{form}": it consists of several files',
            hint=f"name a folder for them: -f {form} -o DIR",
        )
    for shown in shown_accounts:
        drawn = draw(account_data(shown.account))
        if not drawn:
            raise InputError(
                f"{shown.name} has nothing to draw: no rates along a load, and no repeated times",
                "without -f, its tables are printed",
            )
        begin = "" if len(shown_accounts) == 1 else f"{shown.name}-"
        charts = (svg_files if form == "svg" else png_files)(drawn).items()
        contents = {output / (begin + name): content for name, content in charts}
        write_files(contents, may_overwrite=may_overwrite)
