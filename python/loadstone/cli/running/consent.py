"""Consent to run a campaign's own commands: asked for once, and remembered for these commands only.

A campaign file may come from a stranger. Its commands run on this host with the rights of the user,
who must see them before they run.
"""

import datetime
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from loadstone import _loadgen
from loadstone.campaign.planning.plan import Plan
from loadstone.campaign.schema.hosts import Hosts
from loadstone.cli import plain
from loadstone.documents.trial import TrialDocument
from loadstone.errors import InputError, ResultError
from loadstone.results.files import durable
from loadstone.results.layout import state_folder

ALLOWED = "commands.json"
CODE_OF_ENGINES = ("jars", "packages", "conf")
"""Settings of query engines that determine which code runs."""


class AllowedCommands(TypedDict):
    """The file of allowed commands: the time of consent by the digest of commands and directory."""

    format: Literal[1]
    allowed: dict[str, str]


def ask(plan: Plan, hosts: Hosts | None, *, is_allowed: bool) -> None:
    """Ask whether a campaign's commands may run; raise InputError if the user refuses."""
    commands = [*commands_of(plan), *of_hosts(hosts)]
    ask_for(commands, who="this campaign", is_allowed=is_allowed)


def ask_for(commands: Sequence[tuple[str, str]], *, who: str, is_allowed: bool) -> None:
    """Ask whether commands may run, each given with its place; raise InputError if refused."""
    if is_allowed or not commands:
        return
    # Relative names of programs depend on it, so consent applies to one directory.
    directory = os.getcwd()
    digest = hashlib.sha256(json.dumps([directory, commands]).encode()).hexdigest()
    known = _known()
    if digest in known:
        return
    what = f"{who} runs commands that have not run here before"
    print(plain(f"{what}, in {directory}:"), file=sys.stderr)
    for where, command in commands:
        print(plain(f"  {where}: {command}"), file=sys.stderr)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(
            "these commands are not allowed yet, and there is no terminal to ask for permission",
            "read them, and pass --allow-commands",
        )
    print("run them? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("these commands are not allowed", "nothing has been run")
    _remember(digest, known)


def commands_of(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the commands that a campaign contains, each as a pair of its place and its words.

    Programs that loadstone chooses are left out, but their wrappers such as ssh are included, and
    so are fio's job files, which may run commands, and the credential processes of AWS profiles
    that the campaign names.
    """
    yield from of_profiles(plan.documents())
    yield from of_engines(plan.documents())
    for hook in plan.hooks:
        names = "".join(f"{_variable(name, hook.env[name])} " for name in sorted(hook.env))
        yield f"hook {hook.label}", names + shlex.join(hook.command)
    for name, arm in plan.arms.items():
        names = "".join(f"{_variable(key, arm.env[key])} " for key in sorted(arm.env))
        for words in filter(None, (arm.start, arm.stop)):
            yield f"arm {name}", names + shlex.join(words)
    for planned in plan.ceilings:
        document = planned.document
        job_file = document.get("job_file")
        if job_file is not None:
            path = Path(job_file)
            content = path.read_bytes() if path.is_file() else b""
            digest = hashlib.sha256(content).hexdigest()[:16]
            yield f"ceiling {document['name']}", f"fio {shlex.quote(str(path))} (SHA-256 {digest}…)"
        elif document["via"]:
            yield f"ceiling {document['name']}", f"{shlex.join(document['via'])} …"
    for probe in plan.probes.ceph:
        if probe.via:
            yield "probe ceph", f"{shlex.join(probe.via)} …"


def of_profiles(documents: Iterable[TrialDocument]) -> Iterator[tuple[str, str]]:
    """Yield the commands of profiles that print credentials, for profiles named in trials."""
    targets = {document["target"]["name"]: document["target"] for document in documents}
    for name, target in targets.items():
        settings = target["settings"]
        profile = settings.get("profile")
        if profile is not None and settings.get("access_key") is None:
            for command in _commands_of_profile(profile):
                yield f'target {name}, profile "{profile}"', command


def _commands_of_profile(profile: str) -> list[str]:
    # The user chose these profiles on this host: they need no consent.
    if profile in ("default", os.environ.get("AWS_PROFILE")):
        return []
    return _loadgen.profile_commands(profile)


def of_engines(documents: Iterable[TrialDocument]) -> Iterator[tuple[str, str]]:
    """Yield the libraries that a campaign loads into query engines, and settings that may name
    some.
    """
    loaded: dict[str, None] = {}
    for document in documents:
        queries = document.get("queries") or {}
        settings = queries.get("settings") or {}
        code = {key: settings[key] for key in CODE_OF_ENGINES if settings.get(key)}
        if code:
            text = f"engine {queries.get('engine')}: {json.dumps(code, sort_keys=True)}"
            loaded.setdefault(text)
    for text in loaded:
        yield "queries", text


def of_hosts(hosts: Hosts | None) -> Iterator[tuple[str, str]]:
    """Yield the commands that a campaign runs on its hosts, or to reach them."""
    if hosts is None:
        return
    if hosts.command:
        where = "this host" if hosts.launch == "local" else f"each host, by {hosts.launch}"
        yield "hosts.command", f"{hosts.command} agent … (on {where})"
    for profile in hosts.profiles:
        for command in _commands_of_profile(profile):
            yield f'hosts.profiles, profile "{profile}"', command
    if hosts.options:
        yield "hosts.options", f"{hosts.launch} {shlex.join(hosts.options)} …"
    if hosts.job:
        yield "hosts.job", json.dumps(hosts.job, sort_keys=True, default=str)


def _variable(name: str, value: str | dict[str, str]) -> str:
    """Return a variable as the campaign spells it; a literal value may change what a command does.

    Of a secret, only the reference is shown; nothing is resolved.
    """
    if isinstance(value, str):
        return f"{shlex.quote(name)}={shlex.quote(value)}"
    ((kind, where),) = value.items()
    named = shlex.quote(where) if kind == "env" else _loadgen.file_named(where)
    return f"{shlex.quote(name)}={{{kind}: {named}}}"


def _path() -> Path:
    return state_folder() / ALLOWED


def _known() -> dict[str, str]:
    try:
        return TypeAdapter(AllowedCommands).validate_json(_path().read_bytes())["allowed"]
    except (OSError, ValidationError):
        return {}


def _remember(digest: str, known: dict[str, str]) -> None:
    now = datetime.datetime.now(datetime.UTC).isoformat()
    try:
        os.makedirs(_path().parent, mode=0o700, exist_ok=True)
        document: AllowedCommands = {"format": 1, "allowed": {**known, digest: now}}
        durable.write_json(_path().parent, ALLOWED, document)
        os.chmod(_path(), 0o600)
    except (OSError, ResultError) as error:
        # Only remembering failed; the commands run, since the user has allowed them.
        print(plain(f"warning: not remembered: {error}"), file=sys.stderr)
