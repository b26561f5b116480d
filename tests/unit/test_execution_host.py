"""The fingerprint of a host holds what decides a measurement, and nothing else."""

import json
from pathlib import Path

import pytest

from loadstone.execution.host import facts as host


def test_the_fingerprint_of_this_host_can_be_kept_as_json() -> None:
    facts = host.fingerprint()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["cpu"]["cores_allowed"] >= 1
    assert facts["memory_bytes"] > 0
    assert facts["descriptors_max"] > 0
    assert "lo" in facts["network"]


def test_the_build_that_measures_is_named() -> None:
    versions = host.versions()
    assert len(versions["load_generator"]) == 16
    assert versions["load_generator_build"] in ("release", "debug")
    assert "pyarrow" in versions


def test_only_speed_options_of_the_kernel_command_line_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = "BOOT_IMAGE=/vmlinuz token=secret mitigations=off isolcpus=2-3 console=ttyS0"
    monkeypatch.setattr(host, "_text", lambda path: line)
    assert host._kernel_options() == ["mitigations=off", "isolcpus=2-3"]


def test_a_host_that_tells_nothing_has_a_fingerprint_without_guesses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "_text", lambda path: None)
    monkeypatch.setattr(host, "NETWORK", tmp_path / "none")
    monkeypatch.setattr(host, "BLOCK", tmp_path / "none")
    monkeypatch.setattr(host, "CPU", tmp_path / "none")
    facts = host.fingerprint()
    assert not {"memory_bytes", "network", "disks", "sysctl", "clock_source"} & facts.keys()
    assert "model" not in facts["cpu"]


@pytest.mark.parametrize(
    ("no_turbo", "boost", "expected"),
    [
        ("0", None, "on"),
        ("1", None, "off"),
        (None, "1", "on"),
        (None, "0", "off"),
        (None, None, None),
    ],
)
def test_turbo_is_told_for_both_makers_of_processors(
    no_turbo: str | None, boost: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text_of = {"no_turbo": no_turbo, "boost": boost}
    monkeypatch.setattr(host, "_text", lambda path: text_of[path.name])
    assert host._turbo() == expected


def test_a_card_without_a_speed_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, speed in (("eth0", "10000\n"), ("veth1", "-1\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "speed").write_text(speed)
        (tmp_path / name / "mtu").write_text("1500\n")
    monkeypatch.setattr(host, "NETWORK", tmp_path)
    cards = host.fingerprint()["network"]
    assert cards == {
        "eth0": {"mtu": "1500", "speed_mbit_per_s": "10000"},
        "veth1": {"mtu": "1500"},
    }
