"""Encryption by the store: its own key, or one that goes with each request for an object."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from loadstone import _loadgen
from tests.conformance import store_under_test, trials
from tests.conformance.exemptions import needs
from tests.conformance.targets import Place
from tests.conformance.test_stored_checksums import with_settings
from tests.conformance.trials import Dataset
from tests.system.command import loadstone

KEYS = {
    "AWS_ACCESS_KEY_ID": store_under_test.ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": store_under_test.SECRET_KEY,
    "CONFORMANCE_CUSTOMER_KEY": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
}


# By S3 alone.
@needs("view", "create_upload")
@pytest.mark.parametrize("whose", ["store", "customer"])
def test_a_key_for_the_store_goes_with_requests_for_objects(
    place: Place, dataset: Dataset, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    monkeypatch.setenv("CONFORMANCE_CUSTOMER_KEY", KEYS["CONFORMANCE_CUSTOMER_KEY"])
    settings: dict[str, Any] = {"server_encryption": whose}
    if whose == "customer":
        settings |= {"customer_key": {"env": "CONFORMANCE_CUSTOMER_KEY"}}
        settings |= {"customer_key_over_http": True}
    changes = with_settings(place, **settings)
    try:
        written = trials.prepare(place, dataset, **changes)
    except _loadgen.TargetError as refused:
        # The embedded store, which encrypts nothing, names the header that it was asked by.
        if "x-amz-server-side-encryption" not in str(refused):
            pytest.skip(f"this store refuses it: {refused}")
        return
    if written.outcomes() != {"ok": dataset.objects}:
        trials.clean_up(place, dataset)
        pytest.skip(f"this store refuses it: {written.summary['error_examples']}")
    for operation in ("get", "head", "copy", "post"):
        result = trials.run(trials.document(place, dataset, operation, **changes))
        assert result.outcomes() == {"ok": dataset.objects}, result.summary["error_examples"]
    trials.clean_up(place, dataset, **changes)


class Ignoring(BaseHTTPRequestHandler):
    """Accepts every put of a store that is empty, whatever its headers ask for."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(200)

    def do_HEAD(self) -> None:
        self.answer(404)

    def do_GET(self) -> None:
        self.answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize(
    ("whose", "header"),
    [
        ("store", "x-amz-server-side-encryption"),
        ("customer", "x-amz-server-side-encryption-customer-algorithm"),
    ],
)
def test_a_store_that_ignores_encryption_is_not_measured(
    tmp_path: Path, whose: str, header: str
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Ignoring) as server:
        threading.Thread(target=server.serve_forever).start()
        command = ["bench", "put", f"http://127.0.0.1:{server.server_port}", "-n", "2"]
        command += ["-o", str(tmp_path / "run")]
        command += ["--target-set", f"server_encryption={whose}"]
        if whose == "customer":
            command += ["--target-set", "customer_key={env: CONFORMANCE_CUSTOMER_KEY}"]
            command += ["--target-set", "customer_key_over_http=true"]
        finished = loadstone(*command, environment=KEYS)
        server.shutdown()
    assert finished.code == 1
    assert f" {header}:" in finished.err
