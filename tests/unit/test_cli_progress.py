"""The view tells how a run goes, on a terminal and in a pipe."""

import io
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from loadstone.campaign.forecast import Forecast
from loadstone.campaign.parameters import describe_trial
from loadstone.campaign.planning.trial import PlannedTrial
from loadstone.cli.screen import live_screen, progress
from loadstone.execution.events import (
    Event,
    HookEnded,
    HostNews,
    Resting,
    TrialEnded,
    TrialFailed,
    TrialProgress,
    TrialSkipped,
    TrialStarted,
)
from tests.unit.fake_loadgen import LIVE, summary


def document(number: int = 1, **changes: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "id": f"{number:04d}",
        "phase": "get",
        "round": 2,
        "block": 1,
        "measured": True,
        "target": {"name": "ceph"},
        "case": {"parameters": {"threads": 250, "size": 4096}},
        "mix": [{"operation": "get", "weight": 1.0}],
        "load": {"kind": "closed", "clients": 250},
        "dataset": {"size": {"kind": "fixed", "bytes": 4096}},
        "stop": {"requests": 1000, "duration_ns": None},
        "iterations": 1,
    }
    return usual | changes


def planned(number: int, pause_s: int = 0, **changes: Any) -> PlannedTrial:
    return PlannedTrial(document=document(number, **changes), pause_before_ns=pause_s * 10**9)


PAUSE, REFUSED = "the campaign's pause", "refused\nby all"
STORY: tuple[Event, ...] = (
    TrialStarted(document=document(), number=1),
    TrialProgress(document=document(), live=LIVE),
    TrialEnded(document=document(), summary=summary()),
    Resting(seconds=299.8, why=PAUSE),
    TrialFailed(document=document(2), reason=REFUSED),
    TrialSkipped(document=document(3), reason="as before"),
)


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_pipe_gets_plain_lines(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    view = progress.make_view([planned(1), planned(2), planned(3)])
    for event in STORY:
        clock.now += 1.0
        view.show(event)
    view.close()
    shown = capsys.readouterr()
    assert shown.out == ""
    begun, half, ended, rest, failed, skipped = shown.err.splitlines()
    name = describe_trial(document())
    for fact in ("ceph", "get", "round 2", "4 KiB", "250 threads"):
        assert fact in name
    assert begun.startswith(f"[1/3] {name}: ")
    assert half == "[1/3]  50%        10/s       0.0 MiB/s  p50 1.00 µs  p99 2.00 µs"
    assert ended == f"[1/3] {name}: {progress.ending(summary())}"
    assert rest.startswith("[-/3] ")
    assert rest.endswith(f" 5 min: {PAUSE}")
    assert failed.startswith(f"[1/3] {name}: ")
    assert failed.endswith(f": {'; '.join(REFUSED.splitlines())}")
    assert skipped.startswith(f"[-/3] {name}: ")
    assert skipped.endswith(": as before")
    assert "\x1b" not in shown.err


@pytest.mark.parametrize("stream", [io.StringIO, lambda: Terminal()])
def test_control_characters_from_a_host_are_escaped(
    monkeypatch: pytest.MonkeyPatch, stream: Callable[[], io.StringIO]
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    screen = stream()
    monkeypatch.setattr(sys, "stderr", screen)
    view = progress.make_view([planned(1)])
    view.show(HostNews(document=document(), text="lost: \x1b]0;title\x07", is_problem=True))
    view.close()
    assert "]0;title" in screen.getvalue()
    assert "\x1b]" not in screen.getvalue()
    assert "\x07" not in screen.getvalue()


def test_quiet_prints_only_errors(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    view = progress.make_view([planned(1), planned(2), planned(3)], is_quiet=True)
    for event in STORY:
        clock.now += 1.0
        view.show(event)
    view.show(TrialEnded(document=planned(2).document, summary=summary(requests=30, failed=2)))
    view.close()
    lines = capsys.readouterr().err.splitlines()
    assert [
        next(word for word in ("skipped", "2 failed", "failed", "") if word in line)
        for line in lines
    ] == [
        "failed",
        "skipped",
        "2 failed",
    ]


def test_a_terminal_with_another_progress_keeps_only_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    lines_left = {}
    for has_trials in (True, False):
        monkeypatch.setattr(sys, "stderr", screen := Terminal())
        view = progress.make_view([planned(1), planned(2)], has_trials=has_trials)
        for event in STORY:
            view.show(event)
        view.close()
        lines_left[has_trials] = [screen.getvalue().count(mark) for mark in ("✓", "✗")]
    assert lines_left == {True: [1, 1], False: [0, 1]}


@pytest.mark.parametrize(
    ("state", "exit_code", "lines"), [("ended", 0, 0), ("ended", 3, 1), ("timed out", None, 1)]
)
def test_quiet_prints_only_failed_hooks(
    capsys: pytest.CaptureFixture[str], state: str, exit_code: int | None, lines: int
) -> None:
    entry = {
        "hook": "1", "at": "start", "trial": None, "state": state, "exit_code": exit_code,
        "said": "", "started_unix_ns": 0, "ended_unix_ns": 1,
    }  # fmt: skip
    view = progress.make_view([planned(1)], is_quiet=True)
    view.show(HookEnded(entry=entry))
    view.close()
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_a_pipe_gets_at_most_one_line_a_second(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    view = progress.make_view([planned(1)])
    view.show(STORY[0])
    for _ in range(100):
        clock.now += 0.1
        view.show(STORY[1])
    assert 9 <= len(capsys.readouterr().err.splitlines()) <= 11


def test_a_long_rest_is_told_once_a_minute_in_a_pipe(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    view = progress.make_view([planned(1)])
    for left in range(300, 0, -1):
        clock.now += 1.0
        view.show(Resting(seconds=left, why="the campaign's pause"))
    assert len(capsys.readouterr().err.splitlines()) == 5


def test_a_closed_output_does_not_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Closed())
    view = progress.make_view([planned(1)])
    for event in STORY:
        view.show(event)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch, *, no_color: bool = False) -> str:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    view = progress.make_view([planned(1), planned(2, pause_s=60), planned(3)])
    for event in STORY:
        view.show(event)
        view._progress.refresh()  # type: ignore[attr-defined]
    view.close()
    return screen.getvalue()


def test_a_terminal_keeps_one_line_of_each_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_terminal(monkeypatch)
    assert f"✓ {describe_trial(document())}" in shown
    assert progress.ending(summary()) in shown
    assert "✗ ceph get" in shown
    assert "[1/3] ceph get" in shown
    assert "1 s left" in shown
    assert "resting" in shown


def test_a_terminal_tells_how_long_the_whole_run_will_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 10 requests a second: 100 s for each of the two trials to come, a minute's rest, 1 s for this.
    assert "4 min 21 s" in on_terminal(monkeypatch)


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    color = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")
    assert color.search(on_terminal(monkeypatch))
    assert not color.search(on_terminal(monkeypatch, no_color=True))


def test_a_dumb_terminal_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    progress.make_view([planned(1)]).show(STORY[0])
    assert screen.getvalue().startswith("[1/1] ")


def test_the_line_of_a_trial_tells_failures_with_their_first_words() -> None:
    line = progress.ending(
        summary(failed=5, error_examples={"http_503": "SlowDown"}, state="stopped", reason="enough")
    )
    assert re.findall(r"[\d.]+", line)[:3] == ["25", "3.00", "8"]
    assert line.endswith("5 failed (http_503: SlowDown) [stopped: enough]")


def test_the_rate_of_a_trial_s_line_is_not_raised_by_the_requests_of_its_warm_up() -> None:
    times = {
        "iteration": 1, "start_ns": 0, "measure_start_ns": 5 * 10**9,
        "measure_end_ns": 10 * 10**9, "end_ns": 10 * 10**9,
    }  # fmt: skip
    line = progress.ending(summary(requests=1000, iterations=[times]))
    assert re.findall(r"[\d.,]*\d", line)[:3] == ["1,000", "10.00", "100"]


def test_a_trial_without_a_request_has_a_line_too() -> None:
    line = progress.ending(summary(requests=0, bytes=0, iterations=[]))
    assert re.findall(r"[\d.]+", line) == ["0"]


def test_a_trial_whose_hosts_were_all_lost_has_no_rate_and_names_them() -> None:
    hosts = [{"name": f"c{number}", "state": "lost"} for number in range(1, 6)]
    line = progress.ending(summary(requests=3097, iterations=[], hosts=hosts))
    assert "/s" not in line
    assert re.findall(r"c\d|[\d,]+\d|\d", line)[:4] == ["3,097", "c1", "c2", "c3"]


def test_without_rates_there_is_no_forecast() -> None:
    assert Forecast([planned(1)]).left_ns() is None


def test_trials_by_the_clock_take_their_time() -> None:
    stop = {"requests": None, "duration_ns": 10 * 10**9}
    trial = planned(1, pause_s=5, stop=stop, iterations=3, warm_up_ns=10**9, cool_down_ns=10**9)
    assert Forecast([trial]).left_ns() == (36 + 5) * 10**9


def test_a_trial_takes_the_rate_of_its_own_kind_before_that_of_others() -> None:
    other = {"target": {"name": "minio"}}
    forecast = Forecast([planned(2), planned(3, **other)])
    forecast.observe(document(1), 1000, 10**9)
    assert forecast.left_ns() == 2 * 10**9
    forecast.observe(document(1, **other), 100, 10**9)
    assert forecast.left_ns() == 11 * 10**9
    forecast.drop(document(3))
    assert forecast.left_ns() == 10**9


def test_objects_that_a_clean_up_swept_are_counted_in_its_line() -> None:
    line = progress.ending(summary(requests=0, objects_swept=29, buckets_left=["b-0"]))
    assert line.startswith("29 objects swept")
    assert "1 bucket left" in line
    assert "swept" not in progress.ending(summary(objects_swept=0))
    assert progress.ending(summary(requests=0, buckets_left=["b-0"])) == "1 bucket left"


def test_gets_of_objects_whose_put_failed_are_told_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = progress._PlainView(4)
    put = document(1, phase="put", mix=[{"operation": "put", "weight": 1.0}])
    missing = {"failed": 3, "error_examples": {"not_found": "HTTP 404"}}
    story = (
        (put, summary(failed=5, puts_failed_more=3)),
        (document(2), summary(**missing)),
        (document(5), summary(failed=3, error_examples={"http_404": ""})),
        (document(3), summary(failed=1, error_examples={"timeout": ""})),
        (put, summary()),
        (document(4), summary(**missing)),
    )
    for trial, end in story:
        view.show(TrialEnded(document=trial, summary=end))
    is_explained = ["put had failed" in line for line in capsys.readouterr().err.splitlines()]
    assert is_explained == [False, True, True, False, False, False]


@pytest.mark.parametrize(
    ("wrong", "failed", "is_reported"),
    [
        ({"corrupt": 30}, 30, True),
        ({"corrupt": 29}, 29, False),
        # Objects whose numbers begin with 1: the dataset's first is not there.
        ({"corrupt": 29}, 30, True),
        ({"corrupt": 10}, 30, False),
        ({}, 30, False),
        ({}, 0, False),
    ],
)
def test_reads_of_what_somebody_else_wrote_are_told_with_what_to_do(
    wrong: dict[str, int], failed: int, is_reported: bool
) -> None:
    line = progress.ending(summary(failed=failed, mismatches=wrong))
    assert ("verify: 0" in line) is is_reported


def lines_of(screen: live_screen.LiveScreen, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, legacy_windows=False)
    with console.capture() as capture:
        console.print(screen)
    return capture.get().splitlines()


@pytest.mark.parametrize("width", [160, 80, 60, 44])
def test_the_live_lines_fit_any_width_and_never_lose_p99(width: int) -> None:
    screen = live_screen.LiveScreen()
    live = {**LIVE, "requests_last_s": 3_934_567, "bytes_last_s": 16 << 30, "failed": 12}
    for second in range(1, 20):
        now = live | {"elapsed_ns": second * 10**9}
        screen.update("[104/108] ceph get round 2, 4 KiB, 250 threads", now, "7 s left")
    # The same object is drawn at whatever width the terminal has by now.
    first, second_line = lines_of(screen, width)
    assert max(len(first), len(second_line)) <= width
    assert "7 s left" in first
    assert "p50 1 µs" in second_line.replace(".00", "")
    assert "p99 2" in second_line
    assert ("client CPU" in second_line) == (width >= 80)


def test_the_first_second_says_connecting() -> None:
    screen = live_screen.LiveScreen()
    screen.begin("[1/3] ceph get")
    assert "connecting" in lines_of(screen, 80)[1]
    screen.update("[1/3] ceph get", LIVE | {"requests": 0}, "")
    assert "connecting" in lines_of(screen, 80)[1]
    screen.update("[1/3] ceph get", LIVE, "")
    assert "connecting" not in lines_of(screen, 80)[1]


def test_a_resumption_goes_on_with_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    view = progress.make_view([planned(8)], done=7)
    view.show(TrialStarted(document=document(8), number=1))
    assert capsys.readouterr().err.startswith("[8/8] ")


def test_a_clean_up_that_found_nothing_has_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    view = progress.make_view([planned(1)])
    clean_up = document(phase="clean-up", measured=False)
    nothing = summary(requests=0) | {"objects_swept": 0}
    view.show(TrialEnded(document=clean_up, summary=nothing))
    assert capsys.readouterr().err == ""
    view.show(TrialEnded(document=clean_up, summary=nothing | {"objects_swept": 3}))
    view.show(TrialEnded(document=clean_up, summary=nothing | {"state": "interrupted"}))
    view.show(TrialEnded(document=document(), summary=nothing))
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_one_request_is_not_requests() -> None:
    times = [{"start_ns": 0, "end_ns": 10**9}]
    assert progress.ending({"requests": 1, "iterations": times}).startswith("1 request in")
    assert progress.ending({"requests": 2, "iterations": times}).startswith("2 requests in")
