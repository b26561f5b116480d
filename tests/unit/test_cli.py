"""The command line: quick to start, plain in its errors, complete in its help."""

import importlib
import inspect
import os
import re
import resource
import signal
import subprocess
import sys
import time

import pytest
import typer

from loadstone import cli
from loadstone.cli import application, exit_code
from loadstone.errors import CampaignError, InputError, LoadstoneError, Mistake

# A process that does nothing but start Python takes 0.02 s of this.
HELP_CPU_S = 0.3


def cpu_of(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "loadstone", *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_is_quick() -> None:
    # The best of some: other work on the machine only ever adds.
    assert min(cpu_of("--help") for _ in range(5)) < HELP_CPU_S


def test_ctrl_c_is_130_wherever_it_comes_or_too_late() -> None:
    """Also while modules are imported and while the interpreter ends, where Python dies of it."""
    codes = set()
    for number in range(12):
        command = [sys.executable, "-X", "importtime", "-m", "loadstone", "list", "drivers"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            # From the first module of the command line on, each time a bit later.
            for line in process.stderr:
                if line.split(b"|")[-1].strip().startswith(b"loadstone.cli"):
                    break
            if number % 2:
                process.stdout.read()
            else:
                time.sleep(number / 300)
            process.send_signal(signal.SIGINT)
            output = process.stderr.read()
        assert process.returncode in {0, 130}, output
        assert b"Traceback" not in output
        codes.add(process.returncode)
    assert codes == {0, 130}


def test_ctrl_c_that_was_turned_off_stays_off() -> None:
    """A shell does so for commands that it starts in the background."""
    program = """
        import signal
        import sys
        from loadstone.__main__ import main
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.argv = ["loadstone", "--version"]
        try:
            main()
        finally:
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    """
    subprocess.run([sys.executable, "-c", inspect.cleandoc(program)], check=True)


@pytest.mark.parametrize("columns", [40, 52, 60, 61, 67, 74, 80, 132])
def test_quick_help_is_what_typer_would_say(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert application.main(["--help"]) == 0
    assert capsys.readouterr().out == cli.overview(columns)


def test_help_imports_nothing_heavy() -> None:
    program = """
        import sys
        from loadstone.cli import main
        main(["--help"])
        heavy = {"rich", "typer", "pyarrow", "numpy", "pydantic", "loadstone._loadgen"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", inspect.cleandoc(program)], check=True)


def test_the_overview_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in cli.COMMANDS:
        assert command.name in shown
        assert command.summary[:20] in shown
    assert "Examples:" in shown


@pytest.mark.parametrize("command", cli.COMMANDS, ids=lambda command: command.name)
def test_every_command_has_an_example_and_explains_all_its_options(
    command: cli.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command.name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"loadstone {command.name}" in shown.partition("Example")[2]
    function = importlib.import_module(f"loadstone.cli.commands.{command.module}").command
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.annotation is typer.Context:
            continue
        (option,) = parameter.annotation.__metadata__
        assert option.help, f"{command.name}: {name} is not explained"


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["bench", "put", "null", "--nope"], "--nope"),
        (["xyzzy"], "xyzzy"),
        (["bench", "put"], "target"),
        (["list", "everything"], "'kind'"),
        (["bench", "put", "null", "-i", "many"], "'--iterations'"),
    ],
)
def test_invalid_input_is_one_error_with_a_hint(
    arguments: list[str], fact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error: ")
    assert fact in lines[0]
    assert re.match(r"hint: .*\bloadstone .*--help\b", lines[-1])
    assert len(lines) == 2


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("loadstone ")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Replace a command by one that raises the first of a list."""
    errors: list[BaseException] = []

    def fail(origin: str, *arguments: object) -> None:
        raise errors[0]

    monkeypatch.setattr("loadstone.campaign.reading.source.read_text", fail)
    return errors


def test_expected_errors_are_told_without_a_traceback(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(LoadstoneError("the disk is full", "make room"))
    assert cli.main(["run", "x.yaml"]) == 1
    assert capsys.readouterr().err == "error: the disk is full\nhint: make room\n"


def test_every_mistake_of_a_campaign_is_told(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    first = Mistake(origin="x.yaml", line=3, key="rounds", actual='"two"', allowed="a number")
    two = Mistake(origin="x.yaml", line=9, key="seed", actual="-1", allowed="a number")
    failing.append(CampaignError([first, two]))
    assert cli.main(["run", "x.yaml"]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert "x.yaml:3: rounds" in errors
    assert "x.yaml:9: seed" in errors


def test_debug_shows_where_an_expected_error_arose(
    failing: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADSTONE_DEBUG", "")
    failing.append(InputError("no"))
    with pytest.raises(InputError, match="no"):
        cli.main(["--debug", "run", "x.yaml"])
    assert os.environ["LOADSTONE_DEBUG"] == "1"


def test_a_bug_of_ours_keeps_its_traceback(failing: list[BaseException]) -> None:
    failing.append(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        cli.main(["run", "x.yaml"])


def test_ctrl_c_outside_a_run_is_no_traceback_either(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(KeyboardInterrupt())
    assert cli.main(["run", "x.yaml"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_output_to_a_closed_pipe_is_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m loadstone list drivers | true",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


@pytest.mark.parametrize("kind", ["drivers", "operations", "probes", "reports", "tables"])
def test_every_list_has_rows(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", kind]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) > 3
    assert all(len(row.split()) > 1 for row in rows)
    assert not any(" Return " in row for row in rows), "a docstring, as code says it"


def test_the_settings_of_one_driver_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "drivers", "s3"]) == 0
    shown = capsys.readouterr().out
    assert "endpoints" in shown
    assert "secret_key" in shown
    assert cli.main(["list", "drivers", "punch-cards"]) == 1
    assert "punch-cards" in capsys.readouterr().err


def test_short_flags_and_misspelt_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-h"]) == 0
    assert cli.main(["-V"]) == 0
    assert cli.main(["bench", "-h"]) == 0
    assert "--blocks" in capsys.readouterr().out
    assert cli.main(["comapre"]) == exit_code.USAGE
    assert "did you mean: loadstone compare" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("be", "bench"), ("bench --fai", "--fail-if"), ("list driv", "drivers")],
)
def test_a_shell_completes_commands_flags_and_values(typed: str, expected: str) -> None:
    words = f"loadstone {typed}"
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", "from loadstone.cli import main; main()"],
        env={**os.environ, **asked, "_LOADSTONE_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == [expected], done.stderr
