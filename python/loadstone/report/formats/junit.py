"""The results as JUnit XML: a test for each result, and one for each threshold of each case.

A void result is an error, a threshold that was crossed a failure, and one that could not be decided
an error, so that a job that shows tests shows what went wrong.
"""

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from loadstone import _loadgen, units
from loadstone.analysis import Findings
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.judgements.standing import reason_words
from loadstone.analysis.judgements.thresholds import Outcome, judge
from loadstone.report.options import Options
from loadstone.results.record import Run


def render(run: Run, findings: Findings, options: Options) -> bytes:
    """Return one suite for the results, and one for each threshold of `options`."""
    suites = Element("testsuites", name=_text(run.name))
    suite = _suite(suites, run.name)
    for result in findings.results:
        if result.requests:
            _add_result(suite, result)
    for threshold in options.thresholds:
        suite = _suite(suites, threshold.text)
        for outcome in judge(threshold, findings):
            _add_outcome(suite, outcome)
    for suite in suites:
        for kind, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
            suite.set(kind, str(sum(1 for _ in suite.iter(tag))))
    indent(suites)
    document: bytes = tostring(suites, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _suite(suites: Element, name: str) -> Element:
    return SubElement(suites, "testsuite", name=_text(name))


def _add_result(suite: Element, result: Result) -> None:
    case = SubElement(
        suite,
        "testcase",
        classname=_text(f"{result.target}.{result.operation}"),
        name=_text(result.name),
        time=f"{result.duration_s or 0:.3f}",
    )
    if result.is_void:
        reasons = "; ".join(map(reason_words, result.reasons))
        SubElement(case, "error", type="void", message=_text(reasons))
    rate = f"{units.format_rate(result.requests_per_s)}, {result.failed:,} requests failed"
    bound = "at least " if result.is_bound else ""
    SubElement(case, "system-out").text = _text(bound + rate)


def _add_outcome(suite: Element, outcome: Outcome) -> None:
    text = outcome.threshold.text
    case = SubElement(suite, "testcase", classname=_text(text), name=_text(outcome.case))
    if outcome.is_crossed:
        SubElement(case, "failure", type="threshold", message=_text(outcome.what))
    elif outcome.is_crossed is None:
        message = f"cannot be decided: {outcome.what}"
        SubElement(case, "error", type="undecided", message=_text(message))


def _text(text: str) -> str:
    """Return a text without characters that XML does not have."""
    return _loadgen.plain(text)
