"""Numbers of a published report as a page or as Markdown: the numbers, and our rules on them."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadstone.analysis.accounts.account import Account
from loadstone.analysis.judgements.finding import Finding
from loadstone.report.formats.markdown import escaped
from loadstone.report.pages.account_rows import account_data, answers_of_times
from loadstone.report.pages.frame import render_page
from loadstone.report.tables.markdown_tables import pieces_of

FINDINGS_TITLE = "Findings of loadstone's rules"
DETAILS_TITLE = "What was measured with"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of an account: a sentence, its tables under their title, and its details.

    Tables may already be Markdown; otherwise their tabs and blanks are kept.
    """

    sentence: str
    title: str
    tables: str
    details: str
    is_markdown: bool


def render_account(account: Account, source: Source, findings: Sequence[Finding]) -> bytes:
    """Return the page of an account without a run."""
    return render_page(
        "account.html.jinja",
        data=account_data(account),
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
    """Return in one sentence whether the rules found problems in the numbers."""
    problems = sum(finding.severity == "problem" for finding in findings)
    if not problems:
        return "The numbers as they were printed; our rules find no problem in them."
    say = "finding says" if problems == 1 else "findings say"
    return f"The numbers as they were printed. {problems} {say} which of them are misleading."


def render_account_markdown(account: Account, source: Source, findings: Sequence[Finding]) -> bytes:
    """Return an account as Markdown; its own tables stay as they are, to the byte."""
    blocks = [
        f"# {escaped(account.title)}",
        escaped(source.sentence),
        f"**{standing_of(findings)}**",
    ]
    answers = tuple(answers_of_times(account))
    if answers:
        blocks.insert(2, "\n".join(f"- {escaped(answer)}" for answer in answers))
    if findings:
        blocks += [f"## {FINDINGS_TITLE}", "\n".join(map(_line, findings))]
    tables = source.tables.rstrip("\n")
    blocks += [f"## {source.title}", tables if source.is_markdown else _code(tables)]
    if source.details.strip():
        blocks += [f"## {DETAILS_TITLE}", _code(source.details.strip("\n"))]
    return ("\n\n".join(blocks) + "\n").encode()


def _line(finding: Finding) -> str:
    inferred = " (inferred)" if finding.is_inferred else ""
    return f"- **{finding.rule}**{inferred}: {escaped(finding.statement)}"


def _code(text: str) -> str:
    return f"```text\n{text}\n```"
