"""Keys of AWS profiles: from a process, a log-in, a role; renewed while load goes on."""

import datetime
import hashlib
import http.server
import json
import os
import re
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadstone import _loadgen
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.cli.running import consent

SECRET = "canary-of-a-secret-key-8d1f0b6a"
STS = """<R><AssumeRoleResult><Credentials><AccessKeyId>{AccessKeyId}</AccessKeyId>
<SecretAccessKey>{SecretAccessKey}</SecretAccessKey><SessionToken>{SessionToken}</SessionToken>
<Expiration>{Expiration}</Expiration></Credentials></AssumeRoleResult></R>"""


class Cloud:
    """STS, SSO and a store in one: it gives keys of a short life, and takes only those."""

    def __init__(self, life_s: float) -> None:
        self.life_s = life_s
        self.ends: dict[str, float] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.used: list[str] = []
        self.refuses: int | None = None

    def keys(self) -> dict[str, str]:
        number = len(self.ends) + 1
        end = time.time() + self.life_s
        self.ends[f"ASIA{number}"] = end
        expiration = datetime.datetime.fromtimestamp(end, datetime.UTC)
        return {
            "AccessKeyId": f"ASIA{number}",
            "SecretAccessKey": f"{SECRET}{number}",
            "SessionToken": f"token{number}-of-{SECRET}",
            "Expiration": expiration.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def answer(self, method: str, path: str, headers: Any, body: str) -> tuple[int, str]:
        given = {name.lower(): value for name, value in headers.items()}
        if method == "HEAD":
            key = re.search("Credential=([^/]*)/", given["authorization"])[1]
            self.used.append(key)
            return (200 if time.time() < self.ends.get(key, 0) else 403), ""
        self.asked.append((path, body, given))
        if self.refuses:
            return (
                self.refuses,
                f"<Error><Code>AccessDenied</Code><Message>{body}{given}</Message></Error>",
            )
        keys = self.keys()
        if path == "/of-the-task?id=1":
            return 200, json.dumps({**keys, "Token": keys["SessionToken"]})
        if not path.startswith("/federation"):
            return 200, STS.format(**keys)
        parts = {"accessKeyId": 0, "secretAccessKey": 1, "sessionToken": 2}
        role = {name: list(keys.values())[place] for name, place in parts.items()}
        role["expiration"] = int(self.ends[keys["AccessKeyId"]] * 1000)
        return 200, json.dumps({"roleCredentials": role})


@pytest.fixture
def cloud() -> Iterator[tuple[Cloud, str]]:
    """The services, and their URL."""
    cloud = Cloud(life_s=3)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            status, text = cloud.answer(self.command, self.path, self.headers, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    for method in ("GET", "POST", "HEAD"):
        setattr(Handler, f"do_{method}", Handler.do)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield cloud, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without anybody's keys."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    return tmp_path


def config(home: Path, text: str) -> None:
    (home / ".aws" / "config").write_text(text)


ROLE = "role_arn = r"


def heads(url: str, **changes: Any) -> dict[str, Any]:
    """Run a trial of HEAD requests; return its summary."""
    trial: dict[str, Any] = {
        "format": 1,
        "id": "0001",
        "run": "0123456789abcdef0123456789abcdef",
        "seed": 7,
        "phase": "head",
        "target": {"name": "t", "driver": "s3", "settings": {"endpoints": url, "profile": "used"}},
        "dataset": {
            "bucket_prefix": "b",
            "buckets": 1,
            "objects": 1,
            "object_prefix": "o",
            "size": {"kind": "fixed", "bytes": 10},
        },
        "mix": [{"operation": "head"}],
        "load": {"kind": "closed", "clients": 1},
        # The services are slow, and take the processor from other tests.
        "rate_limit_per_s": 100.0,
        "stop": {"requests": 3, "duration_ns": None},
        "verify": 0.0,
    }
    text = _loadgen.run_trial(json.dumps(trial | changes), None, _loadgen.Control())
    summary: dict[str, Any] = json.loads(text)
    assert SECRET not in text
    return summary


def process(home: Path, keys: dict[str, str]) -> str:
    """Write a program that prints keys, and notes that it ran."""
    path = home / "keys.py"
    path.write_text(
        "import json, sys\n"
        f"open({str(home / 'ran')!r}, 'a').write(sys.argv[1] + '\\n')\n"
        f"print(json.dumps({ ({'Version': 1} | keys)!r}))\n"
    )
    return f"{sys.executable} {path} 'two words'"


def test_a_process_gives_keys_once_for_all_trials(home: Path, cloud: tuple[Cloud, str]) -> None:
    """No shell reads the command, and each trial opens its driver anew."""
    services, url = cloud
    services.life_s = 3600
    config(home, f"[profile used]\ncredential_process = {process(home, services.keys())}\n")
    for _ in range(2):
        assert heads(url)["failed"] == 0
    assert set(services.used) == {"ASIA1"}
    assert (home / "ran").read_text() == "two words\n"


def test_a_process_that_gives_none_is_told_without_what_it_printed(
    home: Path, cloud: tuple[Cloud, str]
) -> None:
    """The output may contain half of a secret."""
    config(home, f"[profile used]\ncredential_process = echo {SECRET}\n")
    with pytest.raises(_loadgen.TargetError, match="credential_process") as error:
        heads(cloud[1])
    assert error.value.kind == "secret-absent"
    assert SECRET not in str(error.value)


def test_a_role_is_assumed_with_the_keys_of_another_profile(
    home: Path, cloud: tuple[Cloud, str]
) -> None:
    """The request to the service sts is signed by them, and has the profile's settings."""
    services, url = cloud
    config(
        home,
        f"[profile used]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\n"
        f"external_id = e/1\nendpoint_url = {url}\nregion = eu-west-1\n"
        f"[profile base]\naws_access_key_id = AKBASE\naws_secret_access_key = {SECRET}\n",
    )
    assert heads(url)["failed"] == 0
    ((_, body, headers),) = services.asked
    form = dict(urllib.parse.parse_qsl(body))
    assert form["Action"] == "AssumeRole"
    assert (form["RoleArn"], form["ExternalId"]) == ("arn:aws:iam::1:role/r", "e/1")
    assert re.search("Credential=AKBASE/[0-9]*/eu-west-1/sts/", headers["authorization"])
    digest = hashlib.sha256(body.encode()).hexdigest()
    assert headers.get("x-amz-content-sha256", digest) == digest


def test_a_role_is_assumed_by_the_token_of_a_pod(
    home: Path, cloud: tuple[Cloud, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment alone says so; nothing is signed."""
    services, url = cloud
    (home / "token").write_text("jwt-of-the-pod\n")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(home / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/pod")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
    target = {"name": "t", "driver": "s3", "settings": {"endpoints": url}}
    assert heads(url, target=target)["failed"] == 0
    ((_, body, headers),) = services.asked
    form = dict(urllib.parse.parse_qsl(body))
    assert (form["Action"], form["WebIdentityToken"]) == (
        "AssumeRoleWithWebIdentity",
        "jwt-of-the-pod",
    )
    assert "authorization" not in headers


def test_a_role_is_assumed_with_the_keys_of_a_container(
    home: Path, cloud: tuple[Cloud, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The container's service is asked first, with its token."""
    services, url = cloud
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/of-the-task?id=1")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", f"bearer-{SECRET}")
    role = f"{ROLE}\ncredential_source = EcsContainer\nendpoint_url = {url}"
    config(home, f"[profile used]\n{role}\n")
    assert heads(url)["failed"] == 0
    (_, _, container), (_, body, sts) = services.asked
    assert container["authorization"] == f"bearer-{SECRET}"
    assert "Action=AssumeRole&" in body
    assert re.search("Credential=ASIA1/", sts["authorization"])
    assert set(services.used) == {"ASIA2"}


def sso(home: Path, url: str, ends: str) -> None:
    config(
        home,
        f"[profile used]\nsso_session = corp\nsso_account_id = 12\nsso_role_name = reader\n"
        f"endpoint_url = {url}\n"
        f"[sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp/start\n",
    )
    cache = home / ".aws" / "sso" / "cache"
    cache.mkdir(parents=True)
    name = hashlib.sha1(b"corp", usedforsecurity=False).hexdigest()
    token = {"accessToken": f"bearer-{SECRET}", "expiresAt": ends}
    (cache / f"{name}.json").write_text(json.dumps(token))


def test_a_log_in_of_sso_gives_the_keys_of_a_role(home: Path, cloud: tuple[Cloud, str]) -> None:
    """The token is that which aws sso login has left."""
    services, url = cloud
    sso(home, url, "2999-01-01T00:00:00Z")
    assert heads(url)["failed"] == 0
    ((path, _, headers),) = services.asked
    assert path == "/federation/credentials?account_id=12&role_name=reader"
    assert headers["x-amz-sso_bearer_token"] == f"bearer-{SECRET}"


def test_a_log_in_that_has_ended_says_how_to_log_in(home: Path, cloud: tuple[Cloud, str]) -> None:
    """Nobody is asked for anything then."""
    services, url = cloud
    sso(home, url, "2001-01-01T00:00:00Z")
    with pytest.raises(_loadgen.TargetError, match="aws sso login") as error:
        heads(url)
    assert error.value.kind == "secret-absent"
    assert not services.asked


def test_a_token_that_is_refused_says_how_to_log_in(home: Path, cloud: tuple[Cloud, str]) -> None:
    """Somebody has logged out; the token itself is not repeated."""
    services, url = cloud
    sso(home, url, "2999-01-01T00:00:00Z")
    services.refuses = 401
    with pytest.raises(_loadgen.TargetError, match="aws sso login") as error:
        heads(url)
    assert error.value.kind == "secret-absent"
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("role_arn = r\nsource_profile = used2\nmfa_serial = m", "device m"),
        (f"{ROLE}\nsource_profile = two\n[profile two]\n{ROLE}\nsource_profile = used", "circle"),
        ("role_arn = r", "source_profile, credential_source"),
        ("role_arn = r\ncredential_source = Moon", "Moon"),
        ("sso_session = none\nsso_account_id = 1\nsso_role_name = r", "sso-session none"),
    ],
)  # fmt: skip
def test_impossible_requests_are_refused_with_the_reason(
    home: Path, cloud: tuple[Cloud, str], text: str, message: str
) -> None:
    """Before any load, and without asking anybody."""
    config(home, f"[profile used]\n{text}\n")
    with pytest.raises(_loadgen.TargetError, match=message):
        heads(cloud[1])


def test_keys_are_renewed_before_they_end_while_load_goes_on(
    home: Path, cloud: tuple[Cloud, str]
) -> None:
    """The store refuses those that have ended; no request fails."""
    services, url = cloud
    role = f"role_arn = r\ncredential_source = Environment\nendpoint_url = {url}"
    config(home, f"[profile used]\n{role}\n")
    os.environ.update(AWS_ACCESS_KEY_ID="AKENV", AWS_SECRET_ACCESS_KEY=SECRET)
    try:
        summary = heads(url, stop={"requests": None, "duration_ns": 5_000_000_000})
    finally:
        del os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    assert summary["failed"] == 0, summary["error_examples"]
    assert {"ASIA1", "ASIA2"} <= set(services.used)
    # Once for each renewal, and once at the start.
    assert 1 <= summary["log_ins"] <= 5
    assert len(services.asked) == summary["log_ins"] + 1


def test_a_renewal_that_fails_is_told_with_the_requests_that_fail_of_it(
    home: Path, cloud: tuple[Cloud, str]
) -> None:
    """The store's refusal alone would not say why."""
    services, url = cloud
    config(home, f"[profile used]\nrole_arn = r\nsource_profile = used\nendpoint_url = {url}\n"
           f"aws_access_key_id = AKBASE\naws_secret_access_key = {SECRET}\n")  # fmt: skip
    timer = threading.Timer(1, lambda: setattr(services, "refuses", 403))
    timer.start()
    summary = heads(url, stop={"requests": None, "duration_ns": 4_500_000_000})
    assert set(summary["error_examples"]) == {"http_403"}
    assert "assume role" in summary["error_examples"]["http_403"]


CAMPAIGN = """
name: keys
targets: {t: {driver: s3, endpoints: "http://127.0.0.1:1", profile: used}}
dataset: {objects: 1, size: 1}
load: {threads: 1}
phases: [put]
"""


def test_a_campaign_that_names_a_profile_asks_for_its_command(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may come from somebody else; the user's own choice needs no consent."""
    config(
        home,
        "[profile used]\nrole_arn = r\nsource_profile = base\n"
        "[profile base]\ncredential_process = give-keys --all\n",
    )
    plan = make_plan(parse_campaign(CAMPAIGN, environ={}))
    ((where, command),) = consent.commands_of(plan)
    assert where.split(", ") == ["target t", 'profile "used"']
    assert command == "give-keys --all"
    monkeypatch.setenv("AWS_PROFILE", "used")
    assert not list(consent.commands_of(plan))
