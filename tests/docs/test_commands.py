"""Every loadstone command in the documents is read, planned as written, and run small.

A page is a session: commands run in its order and in one directory, loads against the embedded
store or a directory instead of the hosts and mounts on the page, with a few requests.
What a page reports on and has not run, stands there as a run of the null target. Commands of other
programs are not run.
"""

import itertools
import json
import re
import shlex
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typer

from loadstone import _loadgen, cli
from loadstone.cli import application, exit_code
from loadstone.cli.fail_if import read_thresholds

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")])

KEYS = {"access_key": "test", "secret_key": "a-secret-of-tests"}
SWIFT = {"user": "tester", "password": "a-password-of-tests", "project": "test"}
SECRETS = {
    "AWS_ACCESS_KEY_ID": KEYS["access_key"],
    "AWS_SECRET_ACCESS_KEY": KEYS["secret_key"],
    "OS_USERNAME": SWIFT["user"],
    "OS_PASSWORD": SWIFT["password"],
    "OS_PROJECT_NAME": SWIFT["project"],
    "AWS_ENDPOINT_URL": "http://store:9000",
    "ST_USER": "test:tester",
    "ST_KEY": SWIFT["password"],
}
SMALL = {
    **dict.fromkeys(("-n", "--count", "--objects"), "20"),
    **dict.fromkeys(("-d", "--duration", "--timelimit"), "100ms"),
    **dict.fromkeys(("-s", "--size", "--obj.size"), "16KiB"),
    **dict.fromkeys(("-t", "--threads", "--concurrent"), "2"),
    **dict.fromkeys(("-b", "--buckets", "--containers"), "2"),
    "--rate": "500",
}
ENDS = ("|", "&", "&&", ">", "<", ";")
TWO_TARGETS = """\
name: two
targets: {a: {driver: "null"}, b: {driver: "null"}}
dataset: {objects: 20, size: 4KiB}
load: {threads: 2}
phases: [put, get]
blocks: 2
"""
SHELLS = ("", "console", "sh", "bash")
OF_ACTIONS = "datasafe"
"""The table whose run is of users' actions."""
FAULTS = tuple(
    f"--{name}" for name in ("kill", "power-cut", "start", "maintain", "degrade", "restore")
)
READERS = ("report", "analyse", "compare", "history", "published", "list")


def commands_of(page: Path) -> list[list[str]]:
    """Return the words of each loadstone command in a page's blocks, without `loadstone` itself."""
    commands = []
    # Fences are taken in pairs, or else the text between two blocks would pass for one.
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines() if kind in SHELLS else ():
            typed = re.match(r"(?:[\w-]*\$ )?(?:\.venv/bin/)?loadstone (.*)", line.strip())
            if typed:
                words = typed[1].replace("$(date +%F)", "2026-01-01")
                lexer = shlex.shlex(words, posix=True, punctuation_chars=True)
                lexer.whitespace_split = True
                commands.append(list(itertools.takewhile(lambda word: word not in ENDS, lexer)))
    return commands


WITH_COMMANDS = [page for page in PAGES if commands_of(page)]


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """A store that the loads of all pages go to."""
    running = _loadgen.Store(json.dumps({**KEYS, **SWIFT}))
    yield running.address
    running.stop()


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_every_command_on_a_page_runs(
    page: Path, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_PROFILE", "CEPH_CONF", "CEPH_ARGS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    for example in (ROOT / "examples").glob("*.yaml"):
        shutil.copy(example, tmp_path)
    commands = commands_of(page)
    for words in commands:
        if OF_ACTIONS in words:
            for folder_of_run in map(run_folder_of, words):
                make_run_of_actions(folder_of_run, store)
    for words in commands:
        check_words(words)
        if "..." in words or not words or words[0].startswith("-"):
            continue
        try_command(words, store, tmp_path)


def try_command(words: Sequence[str], store: str, folder: Path) -> None:
    """Run a command as far as it can be run here."""
    name, *rest = words
    if name == "bench" and {"--existing", "--list"} & set(rest):
        rest = with_objects(rest, store, folder)
    # A threshold is read; so few requests could not decide it.
    read_thresholds([then for word, then in itertools.pairwise(words) if word == "--fail-if"])
    if name == "bench":
        run(["bench", *rest, *([] if "--dry-run" in rest else ["--dry-run"])])
        if "--dry-run" not in rest:
            is_there = {"--existing", "--list"} & set(rest)
            run(["bench", *(rest if is_there else small(rest, store, folder))])
    elif name == "run":
        arguments = without(rest, ("-o", "--output", "--fail-if"), ("--resume", "--allow-commands"))
        if Path(rest[0]).exists():
            run(["run", *arguments, *([] if "--dry-run" in arguments else ["--dry-run"])])
        make_run(output_of(rest))
    elif name == "card":
        targets = [small(["", word], store, folder)[1] for word in rest if "://" in word]
        run(
            [
                "card",
                *dict.fromkeys(targets),
                *without(rest, ("--bucket",), ("--allow-foreign",))[len(targets) :],
            ]
        )
    elif name == "audit":
        # Commands that do something to a store are those of its host.
        if rest[0] != "durability":
            tried = [f"http://{store}" if "://" in word else word for word in rest]
            run(["audit", *without(tried, FAULTS, ())])
    elif name == "ab":
        run_gate(rest, folder)
    elif name in READERS and not any(foreign(word) for word in rest):
        for word in rest:
            make_run(run_folder_of(word))
        # A folder of the host that a page names may not be there, and is not ours.
        here = [str(folder / Path(word).name) if word.startswith("/") else word for word in rest]
        run([name, *without(here, ("--campaign", "--fail-if"), ())])


def with_objects(words: Sequence[str], store: str, folder: Path) -> list[str]:
    """Return a load's words on objects that are there: they are put where the words name them."""
    operations, target, *options = words
    given = dict(itertools.pairwise(options))
    address, place = f"http://{store}", urlsplit(target).path.lstrip("/")
    if target.startswith("/"):
        address, place = str(folder), target.strip("/").replace("/", "-")
        target = f"{folder}/{place}"
    elif target.startswith("swift+"):
        target, place = f"swift+{address}/v3", given["--prefix"]
    else:
        target = f"{address}/{place}"
    bucket, _, prefix = place.partition("/")
    keys = folder / f"keys-of-{bucket}"
    if not keys.exists():
        prefix = given.get("--object-prefix", prefix)
        put = ["put", address, "--prefix", bucket, "--object-prefix", prefix, "--keep-data"]
        run(["bench", *put, "-n", "20", "-s", "128KiB"])
        keys.write_text("\n".join(["key", *(f"{prefix}{number}" for number in range(20))]))
    if "--list" in given:
        shutil.copy(keys, given["--list"])
    shrunk = [
        SMALL.get(before, word) for before, word in zip(["", *options], options, strict=False)
    ]
    return [operations, target, *shrunk]


def run_gate(words: Sequence[str], folder: Path) -> None:
    """Run a gate on stores of this build, with a few requests; of a campaign, plan it alone."""
    if "bench" not in words:
        return
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    at = words.index("bench")
    arguments = [
        word.replace("loadstone serve", f"{sys.executable} -m loadstone serve") for word in words
    ]
    arguments = [word.replace("9000", str(port)) for word in arguments]
    keys = {"LOADSTONE_ACCESS_KEY": KEYS["access_key"], "LOADSTONE_SECRET_KEY": KEYS["secret_key"]}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in keys.items():
            patch.setenv(name, value)
        codes = (0, exit_code.WORSE, exit_code.VOID, exit_code.UNDECIDED)
        options = ["--blocks-max", "6", "-o", str(folder / "gate")]
        load = [*without(arguments[at:], ("-n", "-d", "-t"), ()), "-n", "20"]
        assert cli.main(["ab", *arguments[:at], *options, *load]) in codes
        shutil.rmtree(folder / "gate")


def check_words(words: Sequence[str]) -> None:
    """Read a command as the command line does, and do nothing."""
    group = typer.main.get_command(application.app)
    with group.make_context("loadstone", [], resilient_parsing=True) as context:
        if not words or words[0].startswith("-"):
            return
        command = group.get_command(context, words[0])  # type: ignore[attr-defined]
        assert command is not None, f"no such command: {words[0]}"
        command.make_context(words[0], list(words[1:]), parent=context)


def run(words: Sequence[str]) -> None:
    """Run a command; the verdict of a threshold or a check on a small load is ignored."""
    code = cli.main(list(words))
    # So few requests may be void, or worse than before, where a command says that in its exit code.
    allowed = {0, exit_code.VOID, *([exit_code.WORSE] if "--check" in words else [])}
    assert code in allowed, f"loadstone {shlex.join(words)} ended with {code}"


def small(words: Sequence[str], store: str, folder: Path) -> list[str]:
    """Return a load's words with the store as its target, and few requests."""
    operations, target, *options = words
    if target.startswith("/"):
        target = str(folder / target.strip("/").replace("/", "-"))
        Path(target).mkdir(exist_ok=True)
    elif target.startswith("swift+"):
        target = f"swift+http://{store}{'/auth/v1.0' if 'auth/v1.0' in target else '/v3'}"
    elif "http" in target:
        target = f"s3+http://{store}"
    else:
        target = "null"
    arguments = without(
        options, ("--target-set", "--prefix", "--fail-if"), ("--allow-foreign", "--https")
    )
    shrunk = [
        SMALL.get(before, word) for before, word in zip(["", *arguments], arguments, strict=False)
    ]
    # On a busy host an open load is late, which is no fault of the page.
    if not {"-n", "--count", "-d", "--duration", "--timelimit"} & set(shrunk):
        shrunk += ["-n", SMALL["-n"]]
    return [operations, target, *shrunk, "--set", "expect.failures=true"]


def without(words: Sequence[str], pairs: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Return words without some options; those of `pairs` have a value each."""
    rest, skip = [], False
    for word in words:
        if not skip and word not in (*pairs, *flags):
            rest.append(word)
        skip = not skip and word in pairs
    return rest


def foreign(word: str) -> bool:
    """Tell whether a word names a file of another tool, or a target that only a real run has."""
    return (":" in word and not word.startswith("published:")) or ("@" in word and "runs/" in word)


def output_of(words: Sequence[str]) -> str | None:
    """Return the folder that a command writes its run to."""
    return next(
        (words[at + 1] for at, word in enumerate(words) if word in ("-o", "--output")), None
    )


def run_folder_of(word: str) -> str | None:
    """Return the run folder that a word names, if it names one."""
    folder = word.rpartition("=")[2]
    return folder if folder.startswith(("runs", "RUN")) else None


def make_run_of_actions(folder: str | None, store: str) -> None:
    """Put a small run of users' actions where a page reports on one."""
    if folder is not None:
        target = ["bench", "sessions", f"s3+http://{store}", "-o", folder]
        run([*target, "-n", "40", "-s", "4KiB", "-t", "2", "-q"])


def make_run(folder: str | None) -> None:
    """Put a small run where a page has one, if nothing is there."""
    if folder is None or Path(folder).exists():
        return
    path = Path(folder)
    Path("two.yaml").write_text(TWO_TARGETS)
    run(["run", "two.yaml", "-o", str(path if path.name != "runs" else path / "one")])
