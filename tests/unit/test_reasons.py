"""Limits of results on pages: each distinct reason once."""

from dataclasses import replace
from pathlib import Path

import pytest

from loadstone.analysis import Findings, analyse
from loadstone.analysis.judgements.finding import Evidence
from loadstone.analysis.limits.verdict import Verdict
from loadstone.report.formats.html import CASES_MAX, reasons_of
from loadstone.results.store import read_run
from tests.unit.synthetic_run import write_sweep


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    path: Path = write_sweep(tmp_path_factory.mktemp("sweep"), seconds=4)
    return analyse(read_run(path))


def with_reasons(findings: Findings, *failed: int) -> Findings:
    """Give the first results verdicts that differ in how many of their requests failed."""
    verdicts: list[Verdict | None] = [
        Verdict(
            limit="INVALID",
            grade=None,
            reason=f"{count} of 1,204 requests failed",
            evidence=(Evidence(metric="errors", value=count / 1204, threshold="failed ≤ 0.1%"),),
        )
        for count in failed
    ]
    verdicts += [None] * (len(findings.rounds) - len(failed))
    rounds = zip(findings.rounds, verdicts, strict=True)
    return replace(
        findings, rounds=tuple(replace(cell, verdict=verdict) for cell, verdict in rounds)
    )


def test_reasons_that_differ_in_numbers_are_one_with_ranges(sweep: Findings) -> None:
    (reason,) = reasons_of(with_reasons(sweep, 22, 7, 103))
    assert "7 to 103 of 1,204 " in reason.reason
    assert reason.evidence.startswith("errors 0.00581 to 0.0855 (")
    assert len(reason.cases) == 3


def test_one_result_has_its_own_numbers(sweep: Findings) -> None:
    (reason,) = reasons_of(with_reasons(sweep, 22))
    assert reason.reason.startswith("22 of 1,204 ")


def test_evidence_of_another_kind_is_not_merged(sweep: Findings) -> None:
    findings = with_reasons(sweep, 22, 7)
    first, second, *others = findings.rounds
    assert second.verdict is not None
    late = replace(second.verdict, evidence=(Evidence(metric="late", value=3.0),))
    rounds = (first, replace(second, verdict=late), *others)
    (reason,) = reasons_of(replace(findings, rounds=rounds))
    assert reason.evidence.startswith("errors 0.0183 (")


def test_a_round_is_named_where_there_are_several(sweep: Findings) -> None:
    (reason,) = reasons_of(with_reasons(sweep, *range(1, len(sweep.rounds) + 1)))
    assert not [name for name in reason.cases if "round" in name]
    assert reason.more == len(sweep.rounds) - CASES_MAX
    later = replace(sweep, rounds=(*sweep.rounds[:1], replace(sweep.rounds[1], round=2)))
    (reason,) = reasons_of(with_reasons(later, 1, 2))
    assert all("round" in name for name in reason.cases)
