"""The command line against hostile targets: clear words, an exit code, and nothing lost."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone.cli import exit_code
from loadstone.execution.cleaning import what_is_left
from tests.conformance import targets
from tests.conformance.targets import ACCESS_KEY, SECRET_KEY
from tests.system.command import ERRORS_AS_JSON, assert_secret_absent, loadstone, trials_of
from tests.system.hostile_server import Exchange, every, hostile, self_made_authority
from tests.system.spoilers import CASES, Case, error_document

SECRETS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
SMALL = ["-t", "4", "-n", "12", "-s", "4KiB", "-b", "2", "--object-prefix", "object-"]

CHOSEN = [
    case
    for case in CASES
    if case.name
    in {
        "slow down",
        "reset inside the body",
        "stalled before the answer",
        "one wrong bit",
        "binary",
        "endless head",
    }
]


@pytest.fixture(scope="module")
def store_port() -> Iterator[int]:
    """Run a sound store, in front of which the hostile servers stand."""
    with targets.embedded_store() as url:
        yield int(url.rsplit(":", 1)[1])


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_failed_requests_are_told_and_the_rest_is_kept(
    case: Case, store_port: int, tmp_path: Path
) -> None:
    """The exit code says that requests failed, the report how many and of which kind."""
    folder = tmp_path / "run"
    with hostile(store_port, every(4, case.spoil)) as server:
        finished = loadstone(
            *["bench", "put,get,delete", f"s3+{server.url}", *SMALL, "--timeout", "1s"],
            *["-o", folder],
            environment=SECRETS,
        )
    assert finished.code == 1, finished.err
    assert "Traceback" not in finished.err
    assert "panicked" not in finished.err
    assert_secret_absent(SECRET_KEY, finished, folder)
    failed = {trial["trial"]["phase"]: trial["summary"]["failed"] for trial in trials_of(folder)}
    assert failed["put"] == failed["delete"] == 0
    assert failed["get"] == 3
    report = loadstone("report", folder, "-f", "json").json()
    errors = {row["operation"]: row["errors"] for row in report["iterations"]}
    assert sum(errors["get"].values()) == 3
    assert set(errors["get"]) <= case.outcomes
    assert not errors["put"]


def test_a_target_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    """The message names the action, its object and the response, without a traceback."""
    with hostile(0, lambda exchange: False) as server:
        url = server.url
    folder = tmp_path / "run"
    finished = loadstone("bench", "put,get", f"s3+{url}", *SMALL, "-o", folder, environment=SECRETS)
    assert finished.code == 1
    assert url.removeprefix("http://") in finished.err
    assert "refused" in finished.err
    assert "Traceback" not in finished.err
    assert_secret_absent(SECRET_KEY, finished, tmp_path)


def test_plain_http_to_a_port_of_tls_names_https(store_port: int, tmp_path: Path) -> None:
    with (
        self_made_authority() as (context, _),
        hostile(store_port, lambda exchange: False, context) as server,
    ):
        url = server.url.replace("https://", "s3+http://")
        finished = loadstone(
            "bench", "put", url, *SMALL, "-o", tmp_path / "run", environment=SECRETS
        )
    assert finished.code == 1
    assert "https" in finished.err[finished.err.index("hint:") :]


@pytest.mark.parametrize("status", ["400 Bad Request", "301 Moved Permanently"])
def test_the_region_that_would_be_right_is_told(
    status: str, store_port: int, tmp_path: Path
) -> None:
    """AWS answers so to requests that are signed for another region, to HEAD without a body."""

    def spoil(exchange: Exchange) -> bool:
        code = b"<Code>AuthorizationHeaderMalformed</Code><Message>the region is wrong</Message>"
        body = b"<Error>" + code + b"<Region>eu-central-1</Region></Error>"
        body = b"" if exchange.request.method == "HEAD" else body
        exchange.send_status(status, ("x-amz-bucket-region", "eu-central-1"), body=body)
        return True

    with hostile(store_port, spoil) as server:
        url = f"s3+{server.url}"
        finished = loadstone(
            "bench", "put", url, *SMALL, "-o", tmp_path / "run", environment=SECRETS
        )
    assert finished.code == 1
    hints = finished.err[finished.err.index("hint:") :]
    assert "region" in hints
    assert "eu-central-1" in hints


def test_a_missing_authority_is_told_before_the_run() -> None:
    url, missing = "s3+https://127.0.0.1:1", "tls.ca_file=/nowhere/authority.pem"
    finished = loadstone(
        "bench", "put", url, *SMALL, "--target-set", missing, "--dry-run", environment=SECRETS
    )
    assert finished.code != 0
    assert "/nowhere/authority.pem" in finished.err


def test_wrong_credentials_are_told_in_words(store_port: int, tmp_path: Path) -> None:
    """The message says that access was denied, and to whom, but not the secret."""
    wrong = {**SECRETS, "AWS_SECRET_ACCESS_KEY": "a-wrong-secret-never-to-be-printed"}
    url = f"s3+http://127.0.0.1:{store_port}"
    finished = loadstone("bench", "put", url, *SMALL, "-o", tmp_path / "run", environment=wrong)
    assert finished.code == 1
    assert "SignatureDoesNotMatch" in finished.err or "403" in finished.err
    assert "Traceback" not in finished.err
    assert_secret_absent("a-wrong-secret-never-to-be-printed", finished, tmp_path)


def test_missing_credentials_are_told_in_words(store_port: int, tmp_path: Path) -> None:
    """The message names the environment variables that would help."""
    url = f"s3+http://127.0.0.1:{store_port}"
    home = {"HOME": str(tmp_path)}
    finished = loadstone("bench", "put", url, *SMALL, "-o", tmp_path / "run", environment=home)
    assert finished.code != 0
    assert "AWS_ACCESS_KEY_ID" in finished.err
    assert "Traceback" not in finished.err


def test_a_target_that_dies_leaves_the_trials_before_it(store_port: int, tmp_path: Path) -> None:
    """Measurements from before the target's end remain readable."""

    def spoil(exchange: Exchange) -> bool:
        # The first read comes when all objects have been written.
        if exchange.request.method == "GET" and "/object-" in exchange.request.path:
            exchange.server.is_stopping.set()
            exchange.server.stop_listening()
            exchange.reset()
        return False

    folder = tmp_path / "run"
    with hostile(store_port, spoil) as server:
        result = loadstone(
            *["bench", "put,get,delete", f"s3+{server.url}", *SMALL, "-o", folder],
            environment=SECRETS,
        )
    assert result.code == 1
    assert "Traceback" not in result.err
    finished = trials_of(folder)
    assert finished[0]["trial"]["phase"] == "put"
    assert finished[0]["summary"]["requests"] == 12
    assert finished[0]["summary"]["failed"] == 0
    assert loadstone("report", folder, "-f", "json").json()["iterations"]


def test_a_bucket_in_the_url_makes_nothing_and_leaves_nothing(
    store_port: int, tmp_path: Path
) -> None:
    url = f"s3+http://127.0.0.1:{store_port}/somebody"
    run = tmp_path / "run"
    finished = loadstone("bench", "put", url, *SMALL, "-o", run, environment=SECRETS)
    assert finished.code == 1
    assert not what_is_left(run)
    assert loadstone("clean", run, "--yes", environment=SECRETS).code == 0


def test_a_store_that_hides_buckets_from_unknown_keys_is_not_one_without_them(
    store_port: int, tmp_path: Path
) -> None:
    """Some stores answer 404 to keys that they do not know, and HEAD has no words for it."""
    run = tmp_path / "run"

    def spoil(exchange: Exchange) -> bool:
        code = b"<Error><Code>XAdminUserNotFound</Code><Message>no such key</Message></Error>"
        body = b"" if exchange.request.method == "HEAD" else code
        exchange.send_status("404 Not Found", body=body)
        return True

    url = f"s3+http://127.0.0.1:{store_port}"
    finished = loadstone("bench", "put", url, *SMALL, "--keep-data", "-o", run, environment=SECRETS)
    assert finished.code == 0, finished.err
    with hostile(store_port, spoil) as server:
        manifest = run / "manifest.json"
        text = manifest.read_text()
        manifest.write_text(text.replace(f"127.0.0.1:{store_port}", server.url.split("//")[1]))
        result = loadstone("clean", run, "--yes", environment=SECRETS)
        manifest.write_text(text)
    assert (result.code, "gone" in result.out) == (1, False)
    assert "XAdminUserNotFound" in result.err
    cleaned = loadstone("clean", run, "--yes", environment=SECRETS)
    assert "12 objects" in cleaned.out
    assert "2 buckets" in cleaned.out


def test_a_target_without_keys_is_told_before_anything_runs(tmp_path: Path) -> None:
    """A plan may be looked at where it will not be run; a run that cannot begin leaves nothing."""
    file = tmp_path / "keys.yaml"
    for secret, lacks in (
        ("", "no access_key"),
        ("access_key: k, secret_key: {env: STORE_SECRET}", '"STORE_SECRET"'),
        # The text in place of the name may be the secret itself.
        ("access_key: k, secret_key: {env: hunter2}", "secret_key"),
    ):
        file.write_text(
            "name: keys\n"
            f"targets: {{s: {{driver: s3, endpoint: 'http://127.0.0.1:1', {secret}}}}}\n"
            "dataset: {objects: 1, size: 1KiB}\nload: {threads: 1}\nphases: [put]\n"
        )
        environment = {"AWS_SHARED_CREDENTIALS_FILE": "/absent", "AWS_CONFIG_FILE": "/absent"}
        shown = loadstone("run", file, "--dry-run", environment=environment)
        assert shown.code == 0, shown.err
        assert lacks in shown.out
        finished = loadstone("run", file, "-o", tmp_path / "run", environment=environment)
        assert finished.code == 1
        assert lacks in finished.err
        assert "hint: " in finished.err
        assert "hunter2" not in shown.out + shown.err + finished.out + finished.err
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("token", ["", "<NextContinuationToken></NextContinuationToken>"])
def test_a_truncated_listing_without_a_token_ends_all_the_same(
    token: str, store_port: int, tmp_path: Path
) -> None:
    """Other clients have asked for the first page for ever."""
    listings = 0

    def spoil(exchange: Exchange) -> bool:
        nonlocal listings
        if "list-type=2" not in exchange.request.path:
            return False
        listings += 1
        answer = exchange.true_answer()
        text = answer.body.decode()
        entries = re.findall(r"<Contents>.*?</Contents>", text, re.DOTALL)
        if len(entries) <= 3:
            return False
        for entry in entries[3:]:
            text = text.replace(entry, "")
        cut = "<IsTruncated>true</IsTruncated>" + token
        text = re.sub("<IsTruncated>false</IsTruncated>", cut, text)
        exchange.send_status("200 OK", ("Content-Type", "application/xml"), body=text.encode())
        return True

    folder = tmp_path / "run"
    with hostile(store_port, spoil) as server:
        finished = loadstone(
            "bench", "put,list", server.url, *SMALL, "-o", folder, environment=SECRETS
        )
    assert "Traceback" not in finished.err
    assert finished.code in (0, exit_code.LEFT), finished.err
    assert bool(what_is_left(folder)) is (finished.code == exit_code.LEFT)
    assert listings < 200


def test_an_authority_s_certificate_in_the_place_of_the_server_s_is_named(
    store_port: int, tmp_path: Path
) -> None:
    with (
        self_made_authority(shows_itself=True) as (context, authority),
        hostile(store_port, lambda exchange: False, context) as server,
    ):
        finished = loadstone(
            *(*ERRORS_AS_JSON, "bench", "put", server.url, *SMALL),
            *("--target-set", f"tls.ca_file={authority}", "-o", tmp_path / "run"),
            environment=SECRETS,
        )
    (error,) = finished.errors
    assert error["kind"] == "certificates"
    assert "CA:TRUE" in error["hint"]
    assert "subjectAltName" in error["hint"]


def test_a_bucket_that_locks_its_objects_is_left_for_that_reason(
    store_port: int, tmp_path: Path
) -> None:
    lock = b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>"
    held = set[str]()

    def spoil(exchange: Exchange) -> bool:
        request = exchange.request
        bucket = request.path.partition("?")[0].strip("/")
        if request.method == "DELETE" and "/" not in bucket:
            held.add(bucket)
            exchange.send_status("409 Conflict", body=error_document("BucketNotEmpty"))
            return True
        if request.method == "GET" and request.path.endswith("?object-lock"):
            exchange.send_status("200 OK", body=lock + b"</ObjectLockConfiguration>")
            return True
        return False

    folder = tmp_path / "run"
    with hostile(store_port, spoil) as server:
        finished = loadstone("bench", "put", server.url, *SMALL, "-o", folder, environment=SECRETS)
    assert finished.code == exit_code.LEFT, finished.err
    left = trials_of(folder)[-1]["summary"]["places_left"]
    assert {(place["place"], place["kind"]) for place in left} == {
        (bucket, "locked") for bucket in held
    }
