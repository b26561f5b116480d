"""Numbers of a published report as a page: what they say, and what we find."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadstone.analysis.accounts.account import Account
from loadstone.analysis.judgements.finding import Finding
from loadstone.report.pages.account_rows import account_data, answers_of_times
from loadstone.report.pages.frame import render_page
from loadstone.report.tables.markdown_tables import pieces_of

FINDINGS_TITLE = "What our rules find in them"
DETAILS_TITLE = "What was measured with"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an account comes from: a sentence, its tables under their title, and its details.

    Tables may be Markdown of themselves; others keep their tabs and blanks.
    """

    sentence: str
    title: str
    tables: str
    details: str
    is_markdown: bool


def render_account(account: Account, source: Source, findings: Sequence[Finding]) -> bytes:
    """Return the page of an account that is no run."""
    return render_page(
        "account.html.jinja",
        data=account_data(account, findings),
        title=account.title,
        name=account.name,
        source=source,
        answers=tuple(answers_of_times(account)),
        standing=standing_of(findings),
        titles=(FINDINGS_TITLE, DETAILS_TITLE),
        findings=findings,
        pieces=tuple(pieces_of(source.tables)) if source.is_markdown else (),
    )


def standing_of(findings: Sequence[Finding]) -> str:
    """Return in one sentence how far the numbers may be taken for what they look like."""
    problems = sum(finding.severity == "problem" for finding in findings)
    if not problems:
        return "The numbers as they were printed; our rules find no problem in them."
    say = "finding says" if problems == 1 else "findings say"
    return (
        f"The numbers as they were printed. {problems} {say} where they must not be taken for what"
        " they look like."
    )
