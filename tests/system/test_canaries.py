"""Canaries: every secret is a known text, the target sends it back, and no channel may hold it.

A channel is whatever a command prints, every file of a run folder (tables unpacked), every report,
and the command line and environment of every program that a command starts. A part of eight
characters counts as the secret.
"""

import base64
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from loadstone.cli import COMMANDS
from loadstone.results.store import read_run
from loadstone.view.page_server import PageServer
from tests.conformance import targets
from tests.conformance.targets import ACCESS_KEY, PROJECT, USER
from tests.system.command import HANGS_AFTER_S, NO_STATE, CommandResult, settled
from tests.system.hostile_server import Exchange, hostile, is_object_read
from tests.unit.test_metrics_push import collecting

PART = 8
S3_SECRET = "canary-Q3/s+5f1e7c90ab24d683"
PASSWORD = 'canary-W8"p&<7b20fd49c1e6a835'
HOOK_SECRET = "canary-hook-91c4be07f3d25a68"
PROBE_SECRET = "canary-probe-e83a6d10572fbc94"
STORE_SECRET = "canary-shelf-5ad07be1c94f2683"
GIVEN = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": S3_SECRET,
    "CANARY_PASSWORD": PASSWORD,
    "CANARY_HOOK": HOOK_SECRET,
    "CANARY_PROBE": PROBE_SECRET,
    "LOADSTONE_ACCESS_KEY": ACCESS_KEY,
    "LOADSTONE_SECRET_KEY": STORE_SECRET,
}
FORMS = (
    "terminal",
    "html",
    "markdown",
    "csv",
    "json",
    "junit",
    "openmetrics",
    "disclosure",
    "hlog",
)
# Given to a program by name: a hook may have it, what is kept of the hook may not.
OF_HOOKS = HOOK_SECRET
SMALL = ["-t", "4", "-n", "12", "-s", "4KiB", "-b", "2", "--object-prefix", "object-"]


@dataclass
class Cage:
    """The secrets, also those that the target issues, and the places where they were found."""

    secrets: set[str] = field(default_factory=lambda: set(GIVEN.values()) - {ACCESS_KEY})
    processes: int = 0
    problems: list[str] = field(default_factory=list)

    def check(self, channel: str, content: bytes, but: str = "") -> None:
        """Look for every part of every secret."""
        for secret in self.secrets - {but}:
            # Any part holds one of these, and there are far fewer of them.
            halves = (secret[at : at + PART // 2] for at in range(0, len(secret), PART // 2))
            if not any(half.encode() in content for half in halves):
                continue
            parts = (secret[start : start + PART] for start in range(len(secret) - PART + 1))
            # Eight digits stand in any table of numbers; tokens say their times in some.
            telling = (part for part in parts if not part.isdecimal())
            secret_part = next((part for part in telling if part.encode() in content), None)
            if secret_part is not None:
                place = content.index(secret_part.encode())
                shown = content[max(0, place - 40) : place + 60]
                self.problems.append(f"{channel} holds {secret_part!r}: {shown!r}")

    def check_folder(self, folder: Path) -> int:
        """Search every file, and its unpacked content."""
        files = [path for path in folder.rglob("*") if path.is_file()]
        for path in files:
            self.check(str(path), path.read_bytes())
            self.check(f"{path}, unpacked", unpacked(path))
        return len(files)


def unpacked(path: Path) -> bytes:
    """Return the values of a table as text."""
    if path.suffix == ".parquet":
        return repr(pq.read_table(path).to_pylist()).encode()
    if path.name.endswith(".arrow.zst"):
        content = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(path.read_bytes())).read()
        return repr(pa.ipc.open_stream(content).read_all().to_pylist()).encode()
    return b""


@pytest.fixture(scope="module")
def cage() -> Cage:
    """Keep the secrets of all tests of this file."""
    return Cage()


@pytest.fixture(scope="module")
def store_port() -> Iterator[int]:
    """Run a sound store that takes the canaries for keys."""
    with targets.embedded_store(secret_key=S3_SECRET, password=PASSWORD) as url:
        yield int(url.rsplit(":", 1)[1])


class Parrot:
    """Sends back all that it was sent and knows, in every form, and escape sequences with it.

    It knows the secrets of those who speak to it, from elsewhere or from their requests.
    """

    def __init__(self, cage: Cage, *known: str, at_log_in: bool = False) -> None:
        self.cage = cage
        self.known = set(known)
        self.at_log_in = at_log_in
        self.reads = 0

    def __call__(self, exchange: Exchange) -> bool:
        path = exchange.request.path
        if path.startswith("/auth") or path.endswith("/auth/tokens"):
            if self.at_log_in:
                self.echo(exchange, "403 Forbidden")
                return True
            answer = exchange.true_answer()
            for name in ("x-auth-token", "x-subject-token"):
                if token := answer.header(name):
                    self.cage.secrets.add(token)
                    self.known.add(token)
            exchange.send(answer.head() + answer.body)
            return True
        if not is_object_read(exchange.request):
            return False
        self.reads += 1
        if self.reads % 2:
            statuses = ("403 Forbidden", "500 Oops", "503 Slow Down", "429 Wait", "400 No")
            self.echo(exchange, statuses[self.reads // 2 % 5])
            return True
        return False

    def echo(self, exchange: Exchange, status: str) -> None:
        """Say it in full, encoded, in parts, and across the places where texts are cut."""
        request_text = exchange.request.head().decode("latin-1") + exchange.request.body.decode(
            "latin-1"
        )
        forms = [request_text]
        for secret in sorted(self.known):
            forms += [
                f"\x1b]0;{secret}\x07\x1b[31m{secret}\r\n{secret}",
                urllib.parse.quote(secret),
                urllib.parse.quote(secret, safe="").lower(),
                json.dumps(secret),
                base64.b64encode(f"user:{secret}".encode()).decode(),
                secret.encode().hex(),
                secret[3:17],
            ]
        text = " ".join(forms if self.reads % 4 < 2 else reversed(forms))
        filler = "." * (170 + exchange.number % 40)
        first = sorted(self.known)[exchange.number % len(self.known)]
        body = f"{filler}{first} {text}"
        if exchange.number % 3 == 0:
            escaped = body.replace("&", "&amp;").replace("<", "&lt;")
            escaped = escaped.replace("\x1b", "").replace("\x07", "")
            body = f"<Error><Code>Odd</Code><Message>{escaped}</Message></Error>"
        location = ("Location", f"http://127.0.0.1:1/?k={urllib.parse.quote(first)}")
        exchange.send_status(status, location, body=body.encode())


def loadstone(cage: Cage, *arguments: str | Path, without: Collection[str] = ()) -> CommandResult:
    """Run a command to its end, and watch all that it starts."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "OS_", "ST_", "CEPH_"))
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "loadstone", *map(str, arguments)],
        env={
            **environment,
            "NO_COLOR": "1",
            "XDG_STATE_HOME": NO_STATE,
            **{name: value for name, value in GIVEN.items() if name not in without},
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    is_over = threading.Event()
    watch = threading.Thread(target=_watch, args=(cage, process.pid, is_over))
    watch.start()
    try:
        out, err = process.communicate(timeout=HANGS_AFTER_S)
    finally:
        is_over.set()
        watch.join()
    name = " ".join(map(str, arguments))
    for channel, content in (("output", out), ("errors", err)):
        cage.check(f"{channel} of {name}", content)
        assert b"\x1b" not in content, name
        assert b"\x07" not in content, name
    assert b"Traceback" not in err, err.decode()
    return CommandResult(settled(process.returncode, err.decode()), out.decode(), err.decode())


def _watch(cage: Cage, root: int, is_over: threading.Event) -> None:
    processes_read: set[tuple[int, bytes]] = set()
    while not is_over.wait(0.02):
        for number in _descendants(root):
            try:
                command = Path(f"/proc/{number}/cmdline").read_bytes()
                given = Path(f"/proc/{number}/environ").read_bytes()
                # Between fork and exec it is a copy of its parent.
                is_copy = command == Path(f"/proc/{root}/cmdline").read_bytes()
            except OSError:
                continue
            if is_copy or (number, command) in processes_read:
                continue
            processes_read.add((number, command))
            cage.processes += 1
            cage.check(f"command line of {command!r}", command)
            if b"\0agent\0--join\0" in command:
                continue  # Like the run itself, it resolves references in its own environment.
            is_hook = b"LOADSTONE_HOOK=" in given
            cage.check(f"environment of {command!r}", given, OF_HOOKS if is_hook else "")


def _descendants(root: int) -> Iterator[int]:
    """Ask each process for its children: to look at all of the host costs much more."""
    for path in Path(f"/proc/{root}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for number in map(int, path.read_text().split()):
                yield number
                yield from _descendants(number)


def check_pages(cage: Cage, folder: Path) -> None:
    """Search the pages that `loadstone view` serves of a folder."""
    with PageServer(folder) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for entry in server.runs.read():
            pages = ("", f"run/{entry.id}", f"live/{entry.id}", f"live/{entry.id}.json")
            for page in pages:
                with urllib.request.urlopen(server.url + page, timeout=120) as answer:
                    cage.check("page", answer.read())
        server.shutdown()
        thread.join()


# Each kind of target that sends back its requests: driver, path and settings of the log-in.
PARROTS: Mapping[str, tuple[str, str, list[str]]] = {
    "s3": ("s3", "", []),
    "tempauth": ("swift", "/auth/v1.0", [f"user={PROJECT}:{USER}"]),
    "keystone": ("swift", "/v3", [f"user={USER}", f"project={PROJECT}"]),
}


def test_a_target_that_echoes_requests_reveals_no_secret(
    cage: Cage, store_port: int, tmp_path: Path
) -> None:
    """S3, TempAuth and Keystone: outputs of run, report, compare and judge hold none of them."""
    folders = []
    for name, (driver, path, login_settings) in PARROTS.items():
        folder = tmp_path / name
        folders.append(folder)
        parrot = Parrot(cage, S3_SECRET if driver == "s3" else PASSWORD)
        with hostile(store_port, parrot) as server:
            target = f"{driver}+{server.url}{path}"
            login = [] if name == "s3" else [*login_settings, "password={env: CANARY_PASSWORD}"]
            login += [] if name == "s3" else [f"endpoints=[{server.url}]"]
            flags = [word for pair in login for word in ("--target-set", pair)]
            finished = loadstone(
                cage, "bench", "put,get,delete", target, *SMALL, *flags, "--log-requests",
                "-o", folder,
            )  # fmt: skip
            assert finished.code == 1, finished.err
            assert "failed" in finished.err, "the target was asked, and refused"
            assert cage.check_folder(folder) > 6
    assert len(cage.secrets) >= 5, "tokens that the target issued are secrets too"
    for form in FORMS:
        loadstone(cage, "report", folders[0], "-f", form, "-o", tmp_path / "reports" / form)
    loadstone(cage, "compare", folders[0], folders[1])
    with hostile(store_port, Parrot(cage, S3_SECRET)) as server:
        for form in ("terminal", "json"):
            loadstone(cage, "card", f"s3+{server.url}", "-f", form)
            loadstone(cage, "audit", "bestiary", f"s3+{server.url}", "-f", form)
    loadstone(cage, "analyse", folders[0])
    loadstone(cage, "history", tmp_path)
    loadstone(cage, "view", tmp_path / "absent")
    check_pages(cage, tmp_path)
    loadstone(cage, "list", "runs", tmp_path)
    cage.check_folder(tmp_path / "reports")
    assert not cage.problems, cage.problems[:5]


CONTENTION = """
name: contention
targets: {{store: {{driver: s3, endpoint: "{url}"}}}}
dataset: {{objects: 12, size: 4KiB}}
expect: {{failures: true}}
phases: [{{contend: {{keys: 2, clients: 4}}, requests: 40}}]
"""


def test_contention_objects_of_others_and_pushed_metrics_tell_nothing(
    cage: Cage, store_port: int, tmp_path: Path
) -> None:
    file, data_kept, contended, read = (tmp_path / name for name in ("c.yaml", "kept", "c", "read"))
    with hostile(store_port, Parrot(cage, S3_SECRET)) as server, collecting() as collector:
        target = f"s3+{server.url}"
        file.write_text(CONTENTION.format(url=server.url))
        loadstone(cage, "run", file, "-o", contended, "--metrics-push", collector.url)
        assert len(collector.pushes) > 0
        for push in collector.pushes:
            cage.check("pushed metrics", push.SerializeToString())
        loadstone(cage, "bench", "put", target, *SMALL, "--keep-data", "-o", data_kept)
        bucket = read_run(data_kept).plan[0]["dataset"]["bucket_prefix"] + "1"
        words = ["get,head,list", f"{target}/{bucket}", "--existing", "-n", "24", "-o", read]
        assert loadstone(cage, "bench", *words).code == 1
        loadstone(cage, "clean", data_kept, "--yes")
    for folder in (contended, data_kept, read):
        assert cage.check_folder(folder) > 3
    page = tmp_path / "page.html"
    loadstone(cage, "report", contended, "-f", "html", "-o", page)
    cage.check("report", page.read_bytes())
    assert not cage.problems, cage.problems[:5]


class KeyParrot(Parrot):
    """Sends back a customer's key to each request that carries one, as it came and decoded."""

    def __call__(self, exchange: Exchange) -> bool:
        if exchange.request.header("x-amz-server-side-encryption-customer-key") is None:
            return False
        self.reads += 1
        self.echo(exchange, "400 No")
        return True


def test_a_customer_s_key_is_printed_neither_in_base64_nor_decoded(
    cage: Cage, store_port: int, tmp_path: Path
) -> None:
    key, file = "canary-crate/7e19d04b6ac258f3<&>", tmp_path / "key"
    encoded = base64.b64encode(key.encode()).decode()
    file.write_text(encoded)
    cage.secrets |= {key, encoded}
    parrot = KeyParrot(cage, key, encoded)
    settings = ["server_encryption=customer", "customer_key_over_http=true"]
    settings.append(f"customer_key={{file: {file}}}")
    flags = [word for setting in settings for word in ("--target-set", setting)]
    folder = tmp_path / "run"
    with hostile(store_port, parrot) as server:
        target = f"s3+{server.url}"
        put = loadstone(
            cage, "bench", "put", target, *SMALL, *flags, "--log-requests", "-o", folder
        )
        loadstone(cage, "card", target, *flags)
    assert put.code == 1
    assert parrot.reads > 0
    cage.check_folder(folder)
    assert not cage.problems, cage.problems[:5]


@pytest.mark.parametrize("path", ["/auth/v1.0", "/v3"])
def test_a_password_echoed_by_a_log_in_is_masked(
    path: str, cage: Cage, store_port: int, tmp_path: Path
) -> None:
    """The run fails before any load, and does not print the secret that it tried."""
    with hostile(store_port, Parrot(cage, PASSWORD, at_log_in=True)) as server:
        settings = [f"user={USER}", f"project={PROJECT}", "password={env: CANARY_PASSWORD}"]
        settings = settings if path == "/v3" else [settings[0], settings[2]]
        flags = [word for pair in settings for word in ("--target-set", pair)]
        target = f"swift+{server.url}{path}"
        finished = loadstone(
            cage, "bench", "put,get", target, *SMALL, *flags, "-o", tmp_path / "run"
        )
        assert finished.code == 1
        assert "HTTP 403" in finished.err
    assert not (tmp_path / "run").exists()
    assert not cage.problems, cage.problems[:5]


# The hook lives long enough to be seen in a list of processes.
CAMPAIGN = """
name: canaries
targets:
  store: {{driver: s3, endpoint: "{url}", access_key: {key},
          secret_key: {{env: AWS_SECRET_ACCESS_KEY}}}}
dataset: {{objects: 12, size: 4KiB, buckets: 2, object_prefix: object-}}
load: {{threads: 2}}
expect: {{failures: true}}
phases: [{{op: put}}, {{op: get, duration: 2s}}]
hooks:
  - {{at: before_phase, phases: get, name: tells, shell: "env; cat; echo $GIVEN >&2; sleep 0.5",
      env: {{GIVEN: {{env: CANARY_HOOK}}}}}}
  - {{at: before_phase, phases: put, name: stops, run: [{flag}, "$GIVEN"]}}
probes:
  prometheus:
    - {{name: parrot, urls: ["{url}/metrics"], metrics: ["*"], every: 500ms,
        bearer_token: {{env: CANARY_PROBE}}}}
"""


class Exporter(Parrot):
    """An exporter too, which answers with the token in a label."""

    def __call__(self, exchange: Exchange) -> bool:
        if not exchange.request.path.startswith("/metrics"):
            return super().__call__(exchange)
        token = (exchange.request.header("authorization") or "").removeprefix("Bearer ")
        text = f'odd{{told="{token}"}} 1\nodd{{part="{token[2:20]}"}} 2\n'
        exchange.send_status("200 OK", body=text.encode())
        return True


def test_secrets_printed_by_hooks_and_exporters_are_masked(
    cage: Cage, store_port: int, tmp_path: Path
) -> None:
    """A campaign is planned, stopped by a hook, resumed and reported."""
    # A variable that a campaign does not name is none of its secrets.
    others = ("CANARY_PASSWORD", "LOADSTONE_SECRET_KEY")
    folder, flag, file = tmp_path / "run", tmp_path / "flag", tmp_path / "campaign.yaml"
    flag.write_text("#!/bin/sh\nexit 3\n")
    flag.chmod(0o755)
    with hostile(store_port, Exporter(cage, S3_SECRET)) as server:
        file.write_text(CAMPAIGN.format(url=server.url, key=ACCESS_KEY, flag=flag))
        assert loadstone(cage, "run", file, "--dry-run", without=others).code == 0
        refused = loadstone(cage, "run", file, "-o", folder, without=others)
        assert refused.code == 1
        assert "--allow-commands" in refused.err
        assert not folder.exists()
        stopped = loadstone(cage, "run", file, "-o", folder, "--allow-commands", without=others)
        assert stopped.code == 1, stopped.err
        flag.write_text("#!/bin/sh\nexit 0\n")
        resumed = loadstone(
            cage, "run", file, "-o", folder, "--allow-commands", "--resume", without=others
        )
        assert resumed.code == 0, resumed.err
    assert cage.check_folder(folder) > 6
    lines = [json.loads(line) for line in (folder / "hooks.jsonl").read_text().splitlines()]
    assert "GIVEN=***" in next(line for line in lines if line["hook"] == "tells")["said"]
    assert "***" in _subjects(folder), "the exporter was read, and told what it was given"
    loadstone(cage, "report", folder, "-f", "html", "-o", tmp_path / "report.html")
    cage.check("report", (tmp_path / "report.html").read_bytes())
    assert cage.processes >= 3, "hooks and the reader of exporters were looked at"
    assert not cage.problems, cage.problems[:5]


def _subjects(folder: Path) -> str:
    tables: list[Any] = [
        pq.read_table(path)["subject"].to_pylist() for path in (folder / "probes").glob("*.parquet")
    ]
    return repr(tables)


def test_commands_that_need_no_target_tell_nothing_of_the_environment(
    cage: Cage, tmp_path: Path
) -> None:
    """Lists, a calibration that is shown, an import of no known format."""
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    loadstone(cage, "list", "drivers")
    loadstone(cage, "calibrate", "--show")
    loadstone(cage, "doctor")
    loadstone(cage, "published")
    loadstone(cage, "import", "warp", broken, "-o", tmp_path / "imported")
    loadstone(cage, "bench", "get", "s3+http://127.0.0.1:1", "--dry-run")
    loadstone(cage, "script", "make", "users", "-o", tmp_path / "users.csv")
    assert not cage.problems, cage.problems[:5]


def test_a_clean_up_of_a_store_that_echoes_requests_reveals_no_secret(
    cage: Cage, store_port: int, tmp_path: Path
) -> None:
    """Leftovers are audited, listed and deleted through a target that echoes everything."""
    folder = tmp_path / "kept"
    with hostile(store_port, Parrot(cage, S3_SECRET)) as server:
        loadstone(
            cage,
            "bench",
            "put,get",
            f"s3+{server.url}",
            *SMALL,
            "--audit",
            "--keep-data",
            "-o",
            folder,
        )
        loadstone(cage, "audit", folder)
        assert loadstone(cage, "clean", folder, "--dry-run").code == 0
        cleaned = loadstone(cage, "clean", folder, "--yes")
    assert "gone" in cleaned.out, cleaned.err
    cage.check_folder(folder)
    assert not cage.problems, cage.problems[:5]


def test_a_store_and_a_demo_tell_nothing_of_the_environment(cage: Cage, tmp_path: Path) -> None:
    """A store that is given its keys by name, and one that makes up its own."""
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "letter").write_text("mine")
    refused = loadstone(cage, "serve", "--port", "0", "--data", strange)
    assert str(strange) in refused.err, "it got as far as its directory"
    folder = tmp_path / "demo"
    demo = loadstone(cage, "demo", "-o", folder, "--objects", "100")
    assert demo.code == 0, demo.err
    assert cage.check_folder(folder) > 6
    assert not cage.problems, cage.problems[:5]


def test_agents_tell_nothing_of_the_environment(cage: Cage, tmp_path: Path) -> None:
    """Agents have the environment that secrets are resolved from."""
    file = tmp_path / "hosts.yaml"
    file.write_text(
        'name: many\ntargets: {t: {driver: "null"}}\nhosts: {launch: local, count: 1}\n'
        "dataset: {objects: 10, size: 4KiB}\nload: {threads: 1}\nphases: [put]\n"
    )
    assert loadstone(cage, "hosts", "check", file).code == 0
    refused = loadstone(cage, "agent", "--join", tmp_path / "absent")
    assert str(tmp_path / "absent") in refused.err
    folder = tmp_path / "many"
    assert loadstone(cage, "run", file, "-o", folder).code == 0
    assert cage.check_folder(folder) > 3
    assert not cage.problems, cage.problems[:5]


def test_a_gate_tells_nothing_and_gives_its_servers_no_secret(cage: Cage, tmp_path: Path) -> None:
    file, folder = tmp_path / "gate.yaml", tmp_path / "gated"
    target = "{driver: s3, endpoint: 'http://127.0.0.1:1', access_key: k, secret_key: %s}"
    target %= "{env: AWS_SECRET_ACCESS_KEY}"
    arm = f"{{start: ['{sys.executable}', -c, 'import time; time.sleep(2)'], ready: %s}}"
    arm %= "'http://127.0.0.1:1/'"
    file.write_text(
        f"name: gate\ntargets: {{a: {target}, b: {target}}}\narms: {{a: {arm}, b: {arm}}}\n"
        "dataset: {objects: 10, size: 4KiB}\nload: {threads: 1}\nphases: [put]\n"
    )
    others = ("CANARY_PASSWORD", "CANARY_PROBE", "CANARY_HOOK")
    ended = loadstone(cage, "ab", "--allow-commands", "-o", folder, file, without=others)
    assert ended.code == 1
    assert cage.check_folder(folder) >= 1
    assert not cage.problems, cage.problems[:5]


def test_descriptions_of_nodes_tell_nothing(cage: Cage, tmp_path: Path) -> None:
    """Surveys run programs, which have no variable that the campaign names as a secret."""
    others = ("CANARY_PASSWORD", "CANARY_PROBE", "CANARY_HOOK")
    file = tmp_path / "nodes.yaml"
    target = "{driver: s3, endpoint: 'http://127.0.0.1:1', access_key: k, secret_key: %s}"
    file.write_text(
        f"name: nodes\ntargets: {{t: {target % '{env: AWS_SECRET_ACCESS_KEY}'}}}\n"
        "nodes: {here: {}}\ndataset: {objects: 10, size: 4KiB}\nload: {threads: 1}\n"
        "phases: [put]\n"
    )
    finished = loadstone(cage, "nodes", file, "-f", "json", without=others)
    assert finished.code == 0, finished.err
    assert "here" in finished.out
    folder = tmp_path / "described"
    assert loadstone(cage, "run", file, "-o", folder, without=others).code == 1
    assert cage.check_folder(folder) >= 1
    assert not cage.problems, cage.problems[:5]


def test_every_command_is_watched() -> None:
    """A command without a case in this file is a hole in the cage."""
    watched = re.findall(r'loadstone\(\s*cage,\s*"([a-z]+)"', Path(__file__).read_text())
    assert {command.name for command in COMMANDS} == set(watched)


def test_a_part_of_a_canary_is_found_in_every_channel(tmp_path: Path) -> None:
    """The cage must find a secret that is there."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"subject": [f"a{PASSWORD[5:14]}b"]}), path, compression="zstd")
    for channel in ("file", "text", "hook"):
        mine = Cage()
        if channel == "file":
            assert mine.check_folder(tmp_path) == 1
        mine.check("text", PASSWORD[-PART:].encode() if channel == "text" else b"")
        mine.check("hook", HOOK_SECRET.encode(), OF_HOOKS if channel == "text" else "")
        assert mine.problems
