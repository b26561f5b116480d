"""Every flag of `loadstone bench` reaches the trial it is meant for."""

import os
from pathlib import Path
from typing import Any

import pytest

from loadstone import cli
from loadstone.campaign import quick
from loadstone.campaign.planning.plan import make_plan
from loadstone.campaign.schema.campaign import Campaign
from loadstone.cli import application
from loadstone.cli.running import session


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the campaign and the options that the command would run."""
    options_given: dict[str, Any] = {}

    def measure(campaign: Campaign, folder: Path, **options: Any) -> int:
        options_given.update(campaign=campaign, folder=folder, **options)
        return 0

    monkeypatch.setattr(session, "measure", measure)
    return options_given


def document(asked: dict[str, Any], *words: str) -> dict[str, Any]:
    assert cli.main(["bench", *words]) == 0
    trials = make_plan(asked["campaign"]).trials
    return next(trial.document for trial in trials if trial.is_measured)


@pytest.mark.parametrize(
    ("flags", "key", "expected"),
    [
        (["-t", "7"], "load", {"kind": "closed", "clients": 7}),
        (["-C", "7"], "load", {"kind": "closed", "clients": 7}),
        (["--threads", "7"], "load", {"kind": "closed", "clients": 7}),
        (["--concurrent", "7"], "load", {"kind": "closed", "clients": 7}),
        (["-d", "2m"], "stop", {"requests": None, "duration_ns": 120 * 10**9}),
        (["-n", "77"], "stop", {"requests": 77, "duration_ns": None}),
        (["--count", "77"], "stop", {"requests": 77, "duration_ns": None}),
        (["--objects", "77"], "stop", {"requests": 77, "duration_ns": None}),
        (["-i", "3"], "iterations", 3),
        (["--ramp-up", "3s", "-d", "5s"], "warm_up_ns", 3 * 10**9),
        (["--warm-up", "3s", "-d", "5s"], "warm_up_ns", 3 * 10**9),
        (["--ramp-down", "3s", "-d", "5s"], "cool_down_ns", 3 * 10**9),
        (["--rate-limit", "100"], "rate_limit_per_s", 100.0),
        (["--no-keepalive"], "connections", "per_request"),
        (["--timeout", "2s"], "timeout_ns", 2 * 10**9),
        (["--verify", "10%"], "verify", 0.1),
        (["--log-requests"], "log_requests", True),
        (["--allow-foreign"], "allow_foreign", True),
        (["--seed", "9"], "seed", 9),
        (["--on-error", "stop"], "on_error", {"action": "stop", "limit": None}),
    ],
)
def test_a_flag_reaches_the_trial(
    asked: dict[str, Any], flags: list[str], key: str, expected: object
) -> None:
    assert document(asked, "get", "null", *flags)[key] == expected


def test_an_open_load_has_a_rate_and_arrivals(asked: dict[str, Any]) -> None:
    words = ("--rate", "2000", "--arrivals", "constant", "--clients-max", "50", "-d", "5s")
    load = document(asked, "get", "null", *words)["load"]
    assert load == {
        "kind": "open",
        "rate_per_s": 2000.0,
        "arrivals": "constant",
        "clients_max": 50,
    }


@pytest.mark.parametrize("flag", ["-s", "--size", "--obj.size"])
def test_the_size_may_be_spelled_as_anywhere(asked: dict[str, Any], flag: str) -> None:
    dataset = document(asked, "put", "null", flag, "64KiB")["dataset"]
    assert dataset["size"] == {"kind": "fixed", "bytes": 65_536}


@pytest.mark.parametrize("flag", ["-b", "--buckets", "--containers"])
def test_buckets_may_be_called_containers(asked: dict[str, Any], flag: str) -> None:
    assert document(asked, "put", "null", flag, "9")["dataset"]["buckets"] == 9


def test_a_mix_is_typed_as_shares(asked: dict[str, Any]) -> None:
    mix = document(asked, "get=3,put=1", "null", "-n", "1000")["mix"]
    shares = {entry["operation"]: entry["weight"] for entry in mix}
    assert shares["get"] == 3 * shares["put"]


def test_a_campaign_key_can_be_set_as_in_a_file(asked: dict[str, Any]) -> None:
    assert document(asked, "get", "null", "--set", "rounds=2")["round"] == 1
    assert asked["campaign"].rounds == 2


def test_help_has_the_default_of_each_flag(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["bench", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"default {quick.THREADS}," in shown
    assert f"default {quick.SIZE}." in shown
    assert f"default {quick.DURATION} without -n" in shown
    assert f"default {quick.WARM_UP} without -n" in shown
    assert f"means {application.BLOCKS}." in shown
    assert f"16 to {quick.OBJECTS_MAX:,}" in shown


@pytest.mark.parametrize(
    ("words", "blocks"),
    [
        (["--blocks"], 6),
        (["--blocks", "-t", "4"], 6),
        (["--blocks", "3"], 3),
        (["--blocks=4"], 4),
        ([], 1),
    ],
)
def test_blocks_without_a_number_are_six(
    asked: dict[str, Any], words: list[str], blocks: int
) -> None:
    document(asked, "get", "null", *words)
    assert asked["campaign"].blocks == blocks
    assert asked["command"] == " ".join(["loadstone bench get null", *words])


def test_typed_words_are_kept(asked: dict[str, Any]) -> None:
    document(asked, "get", "null", "--set", "name=two  ")
    assert asked["command"] == "loadstone bench get null --set 'name=two  '"


def test_a_bad_value_is_told_by_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "get", "null", "-s", "big", "--timeout", "soon"]) == 1
    errors = capsys.readouterr().err
    assert "--size" in errors
    assert "--timeout" in errors


def test_iterations_repeat_only_reads(asked: dict[str, Any]) -> None:
    assert cli.main(["bench", "put,get,delete", "null", "-i", "3"]) == 0
    trials = [trial for trial in make_plan(asked["campaign"]).trials if trial.is_measured]
    repeats = {trial.phase: trial.document["iterations"] for trial in trials}
    assert repeats == {"put": 1, "get": 3, "delete": 1}


def test_an_operation_may_come_again(asked: dict[str, Any]) -> None:
    assert cli.main(["bench", "put,get,post,get", "s3+http://127.0.0.1:1"]) == 0
    trials = [trial.document for trial in make_plan(asked["campaign"]).trials if trial.is_measured]
    assert [trial["phase"] for trial in trials] == ["put", "get", "post", "get-2"]
    assert [trial["mix"][0]["operation"] for trial in trials] == ["put", "get", "post", "get"]


def test_a_setting_inside_a_map_is_reached_by_a_dot(asked: dict[str, Any]) -> None:
    words = ["put", "s3+https://h:1", "--target-set", "tls.ca_file=/a", "--target-set"]
    settings = document(asked, *words, "tls.verify=false")["target"]["settings"]
    assert settings["tls"] == {"ca_file": "/a", "verify": False}


def test_a_setting_that_is_a_value_and_a_map_is_refused(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["put", "s3+https://h:1", "--target-set", "tls=1", "--target-set", "tls.verify=false"]
    assert cli.main(["bench", *words]) == 1
    assert "tls" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "settings", "variables"),
    [
        ("swift+http://h:5000/v3", ["user=u", "password={env: P}"], ["OS_PROJECT_NAME"]),
        ("swift+http://h:5000", ["user=u", "password={env: P}"], ["OS_PROJECT_NAME"]),
        ("swift+http://h:5000/v2.0", ["user=u", "password={env: P}", "project=p"], ["/v3"]),
        ("swift+http://h/auth/v1.0", [], ["ST_USER", "ST_KEY"]),
        ("swift+http://h/v3", ["project=p"], ["OS_USERNAME", "OS_PASSWORD"]),
    ],
)
def test_missing_log_in_settings_are_refused_when_planning(
    target: str,
    settings: list[str],
    variables: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in list(os.environ):
        if name.startswith(("OS_", "ST_")):
            monkeypatch.delenv(name)
    flags = [word for setting in settings for word in ("--target-set", setting)]
    assert cli.main(["bench", "put", target, *flags, "--dry-run"]) == 1
    errors = capsys.readouterr().err
    assert all(variable in errors for variable in variables), errors
