"""Numbers of a published report, as charts and as a page: what they say, and what we find.

The charts are those that a run of the same shape has; a number that was not printed is no point.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from loadstone.analysis.accounts.account import RATE, Account
from loadstone.analysis.judgements.finding import Finding
from loadstone.report.charts.ceilings import charts_of_stated_ceilings
from loadstone.report.charts.images import embedded
from loadstone.report.charts.operations import Arrangement, charts_of_operations
from loadstone.report.charts.parts.dimensions import (
    SWEEP_VALUES_MIN,
    swept_parameter,
    varied_values,
)
from loadstone.report.charts.parts.drawing import Picture
from loadstone.report.charts.sweep_points import Wording, points_of_account
from loadstone.report.charts.sweeps import charts_along_load
from loadstone.report.charts.times import answers_of_times, charts_of_times
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
    pictures = pictures_of_account(account, findings)
    return render_page(
        "account.html.jinja",
        data=None,
        title=account.title,
        name=account.name,
        source=source,
        answers=tuple(answers_of_times(account)),
        standing=standing_of(findings),
        titles=(FINDINGS_TITLE, DETAILS_TITLE),
        findings=findings,
        pictures=embedded(pictures),
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
