"""`loadstone doctor` names the limits of a host and their remedies."""

import json
import os
from pathlib import Path

import pytest

from loadstone import cli
from loadstone.execution.host import doctor
from loadstone.execution.host.doctor import HostCheck, examine
from loadstone.probes import PROBES
from loadstone.probes.proc import AbsentError


def check_named(name: str, folder: Path) -> HostCheck:
    (check,) = (check for check in examine(folder) if check.name == name)
    return check


@pytest.mark.parametrize(
    ("source", "state"), [("tsc", "good"), ("kvm-clock", "good"), ("hpet", "limits")]
)
def test_a_slow_clock_limits(
    source: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor.facts, "fingerprint", lambda: {"clock_source": source})
    check = check_named("clock source", tmp_path)
    assert (check.state, check.value) == (state, source)
    assert (check.advice is None) == (state == "good")


@pytest.mark.parametrize(("governor", "state"), [("performance", "good"), ("powersave", "limits")])
def test_a_governor_that_saves_power_limits(
    governor: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor.facts, "fingerprint", lambda: {"cpu": {"governor": governor}})
    assert check_named("governor", tmp_path).state == state


def test_other_load_is_held_against_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = len(os.sched_getaffinity(0))
    for load, state in ((0.0, "good"), (cores * 1.0, "limits")):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert check_named("other load", tmp_path).state == state


def test_a_probe_that_this_host_lacks_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Absent:
        SUMMARY = "stalls by pressure"

        def __init__(self) -> None:
            raise AbsentError("no /proc/pressure")

    monkeypatch.setattr(doctor, "PROBES", {**PROBES, "pressure": Absent})
    check = check_named("probe pressure", tmp_path)
    assert (check.state, check.value) == ("missing", "no /proc/pressure")


def test_a_folder_that_is_not_there_yet_has_its_parents_room(tmp_path: Path) -> None:
    assert check_named("free space for runs", tmp_path / "a/b/runs").value


def test_json_has_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "-f", "json"]) == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert {"cores", "descriptors", "local ports", "extra report", "calibration"} <= {
        check["name"] for check in checks
    }
    assert all((check["state"] == "good") == (check["advice"] is None) for check in checks)
