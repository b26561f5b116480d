"""Errors and hints on a narrow terminal: whole words, and commands that can be copied."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from loadstone import _loadgen, cli
from loadstone.cli.messages import FORM, tell, wrapped
from loadstone.errors import CampaignError, InputError, Kind, Mistake, ResultError, TargetError

ERROR = (
    'error: target "s3": look for bucket "loadstone-bench-s3-2a54bd3b-1": HEAD'
    " /loadstone-bench-s3-2a54bd3b-1 at 127.0.0.1:1: connect: Connection refused (os error 111)"
)


def test_a_long_message_is_broken_between_words() -> None:
    lines = wrapped(ERROR, 80).split("\n")
    assert len(lines) == 3
    assert all(len(line) <= 80 for line in lines)
    assert " ".join(line.strip() for line in lines) == ERROR


def test_a_command_stays_on_one_line() -> None:
    command = "loadstone clean runs/2026-11-26T060000-a-campaign-of-a-long-name-4a1f --versions"
    hint = f"hint: remove what it left, all versions of it, with: {command}"
    assert wrapped(hint, 60).split("\n")[-1].strip() == command


def test_each_line_of_a_message_is_its_own() -> None:
    assert wrapped("error: a\nerror: b\nhint: c", 80) == "error: a\nerror: b\nhint: c"


def test_blanks_in_a_name_stay() -> None:
    name = 'error: found no file "two  blanks", ' + "and much more, " * 8
    assert '"two  blanks"' in wrapped(name, 60)


def test_a_pipe_gets_each_message_in_one_line() -> None:
    assert wrapped(ERROR, None) == ERROR


def test_messages_on_a_terminal_follow_its_width() -> None:
    parent, child = os.openpty()
    try:
        os.set_blocking(parent, False)
        words = [sys.executable, "-m", "loadstone", "run", "no such file " * 10]
        size = "import sys, termios; termios.tcsetwinsize(2, (24, 60))"
        subprocess.run([sys.executable, "-c", size], stderr=child, check=True)
        done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=child, check=False)
        output = os.read(parent, 65536).decode()
    finally:
        os.close(parent)
        os.close(child)
    assert done.returncode == 1
    assert len(output.splitlines()) > 1
    assert all(len(line) <= 60 for line in output.splitlines())


def test_an_error_is_told_in_words_or_as_a_line_of_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [
        ResultError("first\nsecond", "do", kind="run-exists"),
        ResultError("first"),
        CampaignError([Mistake(origin="c.yaml", line=2, key="a", actual="F", allowed="A")]),
    ]
    for error in errors:
        tell(error)
    assert capsys.readouterr().err.splitlines() == [
        "error: first", "second", "hint: do", "error: first", f"error: {errors[2].message}",
    ]  # fmt: skip
    monkeypatch.setenv(FORM, "json")
    for error in errors:
        tell(error)
    errors_printed = [json.loads(line)["error"] for line in capsys.readouterr().err.splitlines()]
    assert [error["kind"] for error in errors_printed] == ["run-exists", "run", "campaign"]
    assert [error["hint"] for error in errors_printed] == ["do", None, None]
    assert errors_printed[2]["mistakes"] == [
        {"origin": "c.yaml", "line": 2, "key": "a", "actual": "F", "allowed": "A", "hint": None}
    ]


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (["report", "no/such/run"], 1, "no-run"),
        (["frobnicate"], 2, "usage"),
        (["run", "no/such/campaign.yaml"], 1, "campaign"),
        (["report", ".", "-f", "xml"], 1, "input"),
    ],
)
def test_a_command_tells_the_kind_of_its_error(
    words: list[str],
    code: int,
    kind: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(FORM, "terminal")
    assert cli.main(["--errors", "json", *words]) == code
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert json.loads(line)["error"]["kind"] == kind


def test_a_form_of_errors_that_there_is_not_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        cli.application.app(args=["--errors", "xml", "list"], standalone_mode=False)
    assert caught.value.actual == '"xml"'


def test_the_page_for_jobs_tells_each_kind() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/nightly.md").read_text()
    table = page.partition("| kind | meaning |")[2]
    assert sorted(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == sorted(get_args(Kind))


def test_errors_of_a_target_are_kinds_of_ours() -> None:
    assert {*_loadgen.TARGET_ERROR_KINDS} <= {*get_args(Kind)}
    assert TargetError.KIND in _loadgen.TARGET_ERROR_KINDS
