"""`--fail-if`: conditions as people write them, applied to runs, and the exit code."""

from pathlib import Path

import pytest

from loadstone import cli
from loadstone.analysis import analyse
from loadstone.analysis.judgements.thresholds import judge, parse_threshold
from loadstone.campaign.quick import campaign_from_flags
from loadstone.cli import exit_code
from loadstone.cli.fail_if import read_thresholds
from loadstone.cli.running import session
from loadstone.errors import InputError
from loadstone.execution.runner import RunEnd
from loadstone.results.store import read_run
from tests.unit.synthetic_run import Folder, trial


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Puts at 400/s and gets at 500/s in trials of ten seconds; 50 gets fail."""
    folder = Folder(tmp_path_factory.mktemp("runs") / "one", "small", 10)
    folder.add(trial(1, "ceph", "put", size=1 << 20), 400)
    folder.add(trial(2, "ceph", "get", size=1 << 20), 500, failed_per_s=5)
    return Path(folder.close(campaign={"targets": {"ceph": {}}}, campaign_file=""))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p99 > 50ms", (None, "p99", ">", 50e6, "ns")),
        ("get p99.9>=1.5s", ("get", "p99_9", ">=", 1.5e9, "ns")),
        ("p999 > 1s", (None, "p99_9", ">", 1e9, "ns")),
        ("p50 < 10us", (None, "p50", "<", 10e3, "ns")),
        ("rate < 600/min", (None, "rate", "<", 10.0, "/s")),
        ("rate<1000", (None, "rate", "<", 1000.0, "/s")),
        ("put rate < 100 MiB/s", ("put", "rate", "<", float(100 << 20), "B/s")),
        ("failures > 1%", (None, "failures", ">", 0.01, "share")),
        ("failures > 0", (None, "failures", ">", 0.0, "requests")),
    ],
)
def test_a_condition_is_read_as_people_write_it(text: str, expected: tuple[object, ...]) -> None:
    threshold = parse_threshold(text)
    assert (
        threshold.of,
        threshold.metric,
        threshold.sign,
        threshold.limit,
        threshold.unit,
    ) == expected


@pytest.mark.parametrize(
    "text",
    ["p99", "p98 > 1s", "p99 > 50", "p99 = 1s", "rate < 1ms", "failures > x", "get > 1s", ""],
)
def test_an_invalid_condition_is_refused_before_the_run(text: str) -> None:
    with pytest.raises(InputError):
        parse_threshold(text)
    assert cli.main(["bench", "put", "null", "--fail-if", text]) == exit_code.FAILED


@pytest.mark.parametrize(
    ("conditions", "code"),
    [
        (["p99 > 1h", "rate < 1/s"], 0),
        (["p50 > 1ns"], exit_code.WORSE),
        (["p99 > 1h", "put rate < 401/s"], exit_code.WORSE),
        (["put rate < 390MiB/s"], 0),
        (["put rate < 410MiB/s"], exit_code.WORSE),
        (["failures > 2%"], 0),
        (["failures > 0.5%"], exit_code.WORSE),
        (["put failures > 0"], 0),
        (["failures > 49"], exit_code.WORSE),
        (["failures > 50"], 0),
        (["delete p99 > 1s"], exit_code.FAILED),
        (["delete p99 > 1s", "p50 > 1ns"], exit_code.WORSE),
    ],
)
def test_a_run_is_held_to_its_conditions(run: Path, conditions: list[str], code: int) -> None:
    flags = [word for text in conditions for word in ("--fail-if", text)]
    assert cli.main(["report", str(run), *flags]) == code


def test_a_percentile_of_too_few_requests_is_judged_by_its_bounds(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run", "small", 4)
    folder.add(trial(1, "ceph", "put", size=4096), 100)
    findings = analyse(read_run(folder.close(campaign={}, campaign_file="")))
    times = findings.results[0].headline
    assert times is not None
    assert times.quantiles["p99_9"] is None
    between = f"p999 > {(times.min_ns + times.max_ns) // 2}ns"
    asked = ("p999 > 1h", "p999 > 1ns", between)
    answers = [judge(parse_threshold(text), findings)[0].is_crossed for text in asked]
    assert answers == [False, True, None]


def test_a_threshold_of_failures_says_how_many_are_too_many(run: Path) -> None:
    end = RunEnd(state="finished", failed_requests=50)
    campaign = campaign_from_flags("get", "null")
    findings = analyse(read_run(run))

    def code(*conditions: str, is_left: bool = False) -> int:
        judged = read_thresholds(conditions)
        return session._exit_code(end, campaign, judged, findings, is_left=is_left)

    assert code() == exit_code.FAILED
    assert code("p99 > 1h") == exit_code.FAILED
    assert code("failures > 2%") == 0
    assert code("failures > 2%", is_left=True) == exit_code.LEFT
    assert code("failures > 0.1%", is_left=True) == exit_code.WORSE
    assert code("failures > 2%", "p50 > 1ns") == exit_code.WORSE


def test_a_condition_of_what_is_not_measured_is_refused_before_any_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench = ["bench", "get", "null", "-n", "10", "-o", "run"]
    assert cli.main([*bench, "--fail-if", "put p99 > 5ms"]) == exit_code.FAILED
    assert not (tmp_path / "run").exists()
    assert cli.main([*bench, "--dry-run", "--fail-if", "put p99 > 5ms"]) == exit_code.FAILED
    assert cli.main([*bench, "--fail-if", "get p50 > 1h", "--fail-if", "rate < 1/s"]) != 1


def test_a_resumption_asks_for_what_its_run_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(
        "name: c\ntargets: {a: {driver: 'null'}}\ndataset: {objects: 10, size: 4KiB}\n"
        "load: {threads: 1}\nphases: [{op: get, requests: 10}]\n"
    )
    cli.main(["run", "c.yaml", "-o", "run"])
    capsys.readouterr()
    resume = ["run", "c.yaml", "-o", "run", "--resume", "--fail-if"]
    assert cli.main([*resume, "put p99 > 5ms"]) == exit_code.FAILED
    refused = capsys.readouterr()
    # Before anything is read or shown of the run.
    assert (bool(refused.err), refused.out) == (True, "")
    cli.main([*resume, "get p50 > 1h"])
    assert capsys.readouterr().out
