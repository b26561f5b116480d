"""Numbers that others measured, as Markdown for a wiki: what our rules find, then the tables."""

from collections.abc import Sequence

from loadstone.analysis.accounts.account import Account
from loadstone.analysis.judgements.finding import Finding
from loadstone.report.formats.account_page import DETAILS_TITLE, FINDINGS_TITLE, Source, standing_of
from loadstone.report.formats.markdown import escaped
from loadstone.report.pages.account_rows import answers_of_times


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
