"""What `hosts check` prints: lines of 80 columns, and everything where asked for."""

from typing import Any

import pytest

from loadstone.cli.commands.load.hosts import print_hosts


def host(name: str, **more: Any) -> dict[str, Any]:
    card = {"state": "up", "speed_mbit_per_s": "100000"}
    return {
        "name": name, "loadstone": "0.1.0", "python": "3.11.7", "cores": 128,
        "memory_bytes": 1024 << 30, "network": {"lo": {}, "eno1": card, "eno2": {"state": "down"}},
        "descriptors": 1048576, "ports": 28232, "calibration": {"absent": "never"},
        "joined_s": 2.25, "clock_offset_ns": -12_345_678, "clock_bound_ns": 123_456,
        "round_trip_ns": 246_912, **more,
    }  # fmt: skip


def test_hosts_fit_a_terminal_of_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    long = "bench@client-017.storage.example.org:2222"
    silent = host("b", memory_bytes=None, network={})
    del silent["clock_offset_ns"], silent["round_trip_ns"]
    print_hosts([host(long), silent], is_full=False)
    head, _, first, second = capsys.readouterr().out.splitlines()
    assert max(map(len, (head, first, second))) <= 80
    assert first.startswith("bench@client…")
    assert first.split()[1:] == ["128", "1,024", "GiB", "100", "Gbit/s", "-12.35", "±", "0.12",
                                 "0.25", "no"]  # fmt: skip
    assert second.split() == ["b", "128", *["unknown"] * 4, "no"]


def test_all_that_hosts_told_is_shown_where_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    long = "bench@client-017.storage.example.org:2222"
    print_hosts([host(long)], is_full=True)
    line = capsys.readouterr().out.splitlines()[-1]
    for text in (long, "eno1 100 Gbit/s", "1048576", "28232", "2.2", "0.1.0", "3.11.7"):
        assert text in line
    assert "eno2" not in line
