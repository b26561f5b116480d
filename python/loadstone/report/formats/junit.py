"""JUnit XML: a test for each result of a run, and one for each threshold of each case.

A void result is an error, a threshold that was crossed a failure, and one that could not be decided
an error, so that a job that shows tests shows what went wrong. A gate's tests take the same form.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from loadstone import _loadgen, units
from loadstone.analysis import Findings
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.judgements.standing import reason_words
from loadstone.analysis.judgements.thresholds import Outcome, judge
from loadstone.report.options import Options
from loadstone.results.record import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a test did not pass: it failed, or could not be decided (an error)."""

    tag: Literal["failure", "error"]
    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One test of a suite. It passed if it has no problem."""

    group: str
    name: str
    problem: Problem | None = None
    time_s: float | None = None
    output: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Tests under one name."""

    name: str
    tests: Sequence[Test]
    time_s: float | None = None


def render(run: Run, findings: Findings, options: Options) -> bytes:
    """Return one suite for the results, and one for each threshold of `options`."""
    tests = [_test_of_result(result) for result in findings.results if result.requests]
    suites = [Suite(name=run.name, tests=tests)]
    for threshold in options.thresholds:
        tests = [_test_of_outcome(outcome) for outcome in judge(threshold, findings)]
        suites.append(Suite(name=threshold.text, tests=tests))
    return to_xml(run.name, suites)


def to_xml(name: str, suites: Iterable[Suite]) -> bytes:
    """Return a document of suites. Characters that XML does not have are left out of all texts."""
    root = Element("testsuites", name=_text(name))
    for suite in suites:
        _add_suite(root, suite)
    indent(root)
    document: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _add_suite(root: Element, suite: Suite) -> None:
    tags = [test.problem.tag for test in suite.tests if test.problem is not None]
    element = SubElement(
        root, "testsuite", name=_text(suite.name), tests=str(len(suite.tests)),
        failures=str(tags.count("failure")), errors=str(tags.count("error")),
    )  # fmt: skip
    _set_time(element, suite.time_s)
    for test in suite.tests:
        case = SubElement(element, "testcase", classname=_text(test.group), name=_text(test.name))
        _set_time(case, test.time_s)
        if test.problem is not None:
            message = _text(test.problem.message)
            SubElement(case, test.problem.tag, type=test.problem.kind, message=message)
        if test.output is not None:
            SubElement(case, "system-out").text = _text(test.output)


def _test_of_result(result: Result) -> Test:
    reasons = "; ".join(map(reason_words, result.reasons))
    rate = f"{units.format_rate(result.requests_per_s)}, {result.failed:,} requests failed"
    return Test(
        group=f"{result.target}.{result.operation}",
        name=result.name,
        problem=Problem(tag="error", kind="void", message=reasons) if result.is_void else None,
        time_s=result.duration_s or 0,
        output=f"at least {rate}" if result.is_bound else rate,
    )


def _test_of_outcome(outcome: Outcome) -> Test:
    problem = None
    if outcome.is_crossed:
        problem = Problem(tag="failure", kind="threshold", message=outcome.what)
    elif outcome.is_crossed is None:
        message = f"cannot be decided: {outcome.what}"
        problem = Problem(tag="error", kind="undecided", message=message)
    return Test(group=outcome.threshold.text, name=outcome.case, problem=problem)


def _set_time(element: Element, seconds: float | None) -> None:
    if seconds is not None:
        element.set("time", f"{seconds:.3f}")


def _text(text: str) -> str:
    return _loadgen.plain(text)
