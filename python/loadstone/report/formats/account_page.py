"""Numbers that somebody else published, as charts and as a page: what they say, and what we find.

The charts are those that a run of the same shape has; a number that was not printed is no point.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadstone.analysis.accounts.account import RATE, Account
from loadstone.analysis.finding import Finding
from loadstone.report.charts.ceilings import charts_of_stated_ceilings
from loadstone.report.charts.dimensions import SWEEP_VALUES_MIN, swept_parameter, varied_values
from loadstone.report.charts.drawing import Picture
from loadstone.report.charts.operations import Arrangement, charts_of_operations
from loadstone.report.charts.sweep_points import Wording, points_of_account
from loadstone.report.charts.sweeps import charts_along_load
from loadstone.report.charts.times import answers_of_times, charts_of_times
from loadstone.report.formats.page import charts_section, text_of, whole_page

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


def pictures_of_account(account: Account, findings: Sequence[Finding]) -> tuple[Picture, ...]:
    """Return the charts that an account has numbers for: rates along loads, ceilings, times."""
    return (
        *_along_load(account, findings),
        *charts_of_stated_ceilings(account),
        *charts_of_times(account),
    )


def _along_load(account: Account, findings: Sequence[Finding]) -> tuple[Picture, ...]:
    points = points_of_account(account, findings)
    arrangement = Arrangement.of(points, loads_min=1)
    wording = Wording(rate="requests per second", bars=_bars(account), client="the client")
    if arrangement is not None:
        return tuple(charts_of_operations(points, arrangement, wording))
    values = varied_values(point.parameters for point in points)
    sweep = swept_parameter(values, SWEEP_VALUES_MIN)
    if sweep is None:
        return ()
    planned = account.planned_threads if sweep == "threads" else ()
    return tuple(charts_along_load(points, sweep, wording, planned))


def render_account(account: Account, source: Source, findings: Sequence[Finding]) -> bytes:
    """Return the page of an account that is no run."""
    drawn = pictures_of_account(account, findings)
    body = [
        f"<header><h1>{text_of(account.title)}</h1>",
        f"<p>{text_of(source.sentence)}</p>",
        *_answers(account),
        f'<p class="verdict caution">{text_of(standing_of(findings))}</p></header>',
        *_findings(findings),
        *charts_section(drawn),
        *_section("tables", source.title, source.tables),
        *_section("details", DETAILS_TITLE, source.details),
    ]
    return whole_page(account.name, body, drawn)


def _answers(account: Account) -> Iterable[str]:
    answers = tuple(answers_of_times(account))
    if answers:
        yield '<ul class="answers">'
        yield from (f"<li>{text_of(answer)}</li>" for answer in answers)
        yield "</ul>"


def _section(name: str, title: str, text: str) -> Iterable[str]:
    if text.strip():
        yield f'<section id="{name}"><h2>{title}</h2>'
        yield f'<div class="scroll"><pre>{text_of(text)}</pre></div></section>'


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


def _findings(findings: Sequence[Finding]) -> Iterable[str]:
    if not findings:
        return
    yield f'<section id="findings"><h2>{FINDINGS_TITLE}</h2><ul class="findings">'
    for one in findings:
        inferred = " (inferred)" if one.is_inferred else ""
        yield (
            f'<li><b class="{one.severity}">{text_of(one.rule)}{inferred}</b> '
            f"<span>{text_of(one.statement)}</span></li>"
        )
    yield "</ul></section>"


def _bars(account: Account) -> str:
    if any(one.repetition > 1 for one in account.of(RATE)):
        return "Points are means of the repetitions; the bars are one standard deviation of them."
    if not any(one.spread for one in account.measurements):
        return "Nothing is printed about how far repetitions lay apart."
    kind = account.disclosure.spread
    return (
        f"The bars are the printed ±: {kind}."
        if kind
        else ("The bars are the printed ±; the source does not say what it is.")
    )
