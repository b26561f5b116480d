"""`hosts check` prints lines of 80 columns, and everything on request."""

from dataclasses import replace

import pytest

from loadstone.cli.commands.load.hosts import AnsweringHost, print_hosts
from loadstone.cli.messages import say
from loadstone.hosts.clock import Clock
from loadstone.hosts.contact import Obstacle
from loadstone.hosts.messages import Hello

FACTS = Hello(
    loadstone="0.1.0", build="abc", python="3.11.7", cores=128, memory_bytes=1024 << 30,
    network={
        "lo": {}, "eno1": {"state": "up", "speed_mbit_per_s": "100000"}, "eno2": {"state": "down"},
    },
    descriptors=1048576, ports=28232, rss_bytes=1 << 20, calibration={"absent": "never"},
    fingerprint={},
)  # fmt: skip
LONG = AnsweringHost(
    name="bench@client-017.storage.example.org:2222",
    facts=FACTS,
    joined_s=2.25,
    clock=Clock(offset_ns=-12_345_678, bound_ns=123_456, round_trip_ns=246_912),
    obstacles={"a": None, "b": Obstacle(text="timeout", hint=None, is_unreached=True)},
)


def test_hosts_fit_a_terminal_of_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = replace(FACTS, memory_bytes=None, network={})
    silent = AnsweringHost(name="b", facts=unknown, joined_s=2.25, clock=None)
    print_hosts([LONG, silent], is_full=False)
    head, _, first, second = capsys.readouterr().out.splitlines()
    assert max(map(len, (head, first, second))) <= 80
    assert first.startswith("bench@client-…")
    assert first.split()[1:] == ["128", "1,024", "GiB", "100", "Gbit/s", "-12.35", "±", "0.12",
                                 "1", "of", "2", "no"]  # fmt: skip
    assert second.split() == ["b", "128", *["unknown"] * 3, "0", "of", "0", "no"]


def test_control_characters_of_launcher_commands_are_escaped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say("mpirun: \x1b[2Jgone")
    assert "\x1b" not in capsys.readouterr().err


def test_all_that_hosts_told_is_shown_where_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    print_hosts([LONG], is_full=True)
    line = capsys.readouterr().out.splitlines()[-1]
    for text in (LONG.name, "eno1 100 Gbit/s", "1048576", "28232", "2.2", "0.1.0", "3.11.7"):
        assert text in line
    assert "eno2" not in line
