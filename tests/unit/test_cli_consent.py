"""A campaign's own commands need permission, and permission is for these commands."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.cli.running import consent
from loadstone.documents.trial import TrialDocument
from loadstone.errors import InputError

CAMPAIGN = """
name: with-hooks
targets: {{nowhere: {{driver: "null"}}}}
dataset: {{objects: 10, size: 4KiB}}
load: {{threads: 1}}
phases: [{{op: get, requests: 10}}]
{more}
"""
HOOK = "hooks: [{at: before_run, run: [echo, %s]}]"


class Terminal(io.StringIO):
    """A person who answers."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "loadstone" / "commands.json"


def plan(more: str = "") -> Plan:
    return make_plan(parse_campaign(CAMPAIGN.format(more=more), origin="x.yaml"), run="0" * 32)


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> Terminal:
    monkeypatch.setattr(sys, "stdin", Terminal(text + "\n"))
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def test_a_campaign_without_commands_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    consent.ask(plan(), None, is_allowed=False)


def test_without_a_terminal_commands_are_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(InputError) as refused:
        consent.ask(plan(HOOK % "one"), None, is_allowed=False)
    assert "--allow-commands" in (refused.value.hint or "")
    assert "echo one" in capsys.readouterr().err
    consent.ask(plan(HOOK % "one"), None, is_allowed=True)


def test_leave_is_remembered_for_the_same_commands_and_no_others(
    monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    answer(monkeypatch, "y")
    consent.ask(plan(HOOK % "one"), None, is_allowed=False)
    assert state.stat().st_mode & 0o777 == 0o600
    assert len(json.loads(state.read_text())["allowed"]) == 1
    screen = answer(monkeypatch, "n")
    consent.ask(plan(HOOK % "one"), None, is_allowed=False)
    assert not screen.getvalue()
    with pytest.raises(InputError):
        consent.ask(plan(HOOK % "two"), None, is_allowed=False)
    assert "echo two" in screen.getvalue()


def test_control_characters_of_a_command_are_shown_escaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = answer(monkeypatch, "")
    with pytest.raises(InputError):
        consent.ask(plan(HOOK % '"\\e[2K; rm -r /"'), None, is_allowed=False)
    assert "\x1b" not in screen.getvalue()
    assert "rm -r /" in screen.getvalue()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 9}', '{"format": 1, "allowed": 3}'])
def test_a_damaged_record_of_consent_gives_no_consent(
    content: str, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    state.parent.mkdir()
    state.write_text(content)
    answer(monkeypatch, "n")
    with pytest.raises(InputError):
        consent.ask(plan(HOOK % "one"), None, is_allowed=False)


def test_commands_behind_which_others_run_are_asked_for(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.fio"
    jobs.write_text("[a]\nrw=read\nfilename=/dev/null\n")
    more = f"""
ceilings:
  - {{kind: device, job_file: {jobs}}}
  - {{kind: network, host: osd, via: [ssh, osd1]}}
"""
    commands = list(consent.commands_of(plan(more)))
    assert [where for where, _ in commands] == ["ceiling device", "ceiling network"]
    jobs.write_text("[a]\nrw=read\nfilename=/dev/null\nexec_prerun=id\n")
    assert list(consent.commands_of(plan(more))) != commands


def test_variables_are_shown_and_allowed_as_they_are_and_references_stay_unresolved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hook = "hooks: [{at: before_run, run: [ls], env: {%s}}]"
    monkeypatch.setenv("MINE", "hidden-value")
    for env, is_shown in (
        ("LD_PRELOAD: ./a.so", "LD_PRELOAD=./a.so"),
        ("LD_PRELOAD: ./b.so", "LD_PRELOAD=./b.so"),
        ("TOKEN: {env: MINE}", "TOKEN={env: MINE}"),
        ("TOKEN: {env: OTHER}", "TOKEN={env: OTHER}"),
    ):
        screen = answer(monkeypatch, "y")
        consent.ask(plan(hook % env), None, is_allowed=False)
        assert is_shown in screen.getvalue()
        assert "hidden-value" not in screen.getvalue()


def test_keys_that_a_profile_gets_from_a_program_are_asked_for_with_every_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text("[profile theirs]\ncredential_process = /bin/echo keys\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    settings = {"endpoints": ["http://127.0.0.1:1"], "profile": "theirs"}
    document = {"target": {"name": "store", "driver": "s3", "settings": settings}}
    commands = list(consent.of_profiles([document, document]))
    ((where, command),) = commands
    assert where.split(", ") == ["target store", 'profile "theirs"']
    assert command == "/bin/echo keys"
    answer(monkeypatch, "y")
    consent.ask_for(commands, who="this run", is_allowed=False)
    screen = answer(monkeypatch, "n")
    consent.ask_for(commands, who="this run", is_allowed=False)
    assert not screen.getvalue()


def test_permission_in_one_directory_is_none_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        screen = answer(monkeypatch, "y")
        consent.ask(plan("hooks: [{at: before_run, run: [./prepare.sh]}]"), None, is_allowed=False)
        assert str(tmp_path / name) in screen.getvalue()


def test_commands_that_a_campaign_runs_on_hosts_need_consent() -> None:
    def places_asked(text: str) -> list[str]:
        campaign = parse_campaign(CAMPAIGN.format(more=f"hosts: {{{text}}}"), origin="x.yaml")
        return [where for where, _ in consent.of_hosts(campaign.hosts)]

    mpirun = "launch: mpirun, count: 2, listen: 10.0.0.1"
    assert places_asked("launch: ssh, names: [a, b]") == []
    assert places_asked("launch: ssh, names: [a, b], command: touch it;") == ["hosts.command"]
    assert places_asked("launch: local, count: 2, command: touch it") == ["hosts.command"]
    assert places_asked(f"{mpirun}, options: [--mca, x, y]") == ["hosts.options"]
    job = "launch: slurm, count: 1, listen: 10.0.0.1, job: {job_script_prologue: [touch it]}"
    assert places_asked(job) == ["hosts.job"]
    assert list(consent.of_hosts(None)) == []


def test_code_that_a_query_engine_loads_is_asked_for_once() -> None:
    def queries(settings: dict[str, object]) -> TrialDocument:
        document: Any = {"queries": {"engine": "spark", "settings": settings}}
        return document

    documents = [queries({}), queries({"packages": ["a:b:1"]}), queries({"packages": ["a:b:1"]})]
    assert [where for where, _ in consent.of_engines(documents)] == ["queries"]
