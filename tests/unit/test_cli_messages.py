"""Errors and hints on a narrow terminal: whole words, and commands that can be copied."""

import os
import subprocess
import sys

from loadstone.cli.messages import wrapped

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
        said = os.read(parent, 65536).decode()
    finally:
        os.close(parent)
        os.close(child)
    assert done.returncode == 1
    assert len(said.splitlines()) > 1
    assert all(len(line) <= 60 for line in said.splitlines())
