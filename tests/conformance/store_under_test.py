"""Starts the embedded store for tests that look at the store itself, by other people's clients.

With LOADSTONE_STORE_BIN set the store is that program, in a process of its own; otherwise it is
the one in the extension, in this process.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import boto3
import swiftclient
from botocore.config import Config

from loadstone import _loadgen

ACCESS_KEY, SECRET_KEY = "STOREACCESS", "store-secret"
USER, PASSWORD, PROJECT, REGION = "tester", "testing", "test", "us-east-1"


@contextlib.contextmanager
def store(**configuration: Any) -> Iterator[str]:
    """Run a store; give its URL."""
    logins = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
    logins |= {"user": USER, "password": PASSWORD, "project": PROJECT, "region": REGION}
    document = json.dumps(logins | configuration)
    program = os.environ.get("LOADSTONE_STORE_BIN")
    if program is None:
        running = _loadgen.Store(document)
        try:
            yield f"http://127.0.0.1:{running.port}"
        finally:
            running.stop()
        return
    with subprocess.Popen(
        [program, "serve", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(document)
            process.stdin.close()
            yield process.stdout.readline().split()[-1]
        finally:
            process.kill()


def s3(
    url: str, *, secret_key: str = SECRET_KEY, signature_version: str = "s3v4", **options: Any
) -> Any:
    """Connect boto3; it never tries again, so that each failure is seen."""
    return boto3.client(
        "s3",
        endpoint_url=url,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=secret_key,
        region_name=REGION,
        config=Config(
            signature_version=signature_version,
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1},
            **options,
        ),
    )


def swift(url: str) -> swiftclient.Connection:
    """Connect python-swiftclient by TempAuth; it never tries again."""
    user = f"{PROJECT}:{USER}"
    return swiftclient.Connection(
        authurl=f"{url}/auth/v1.0", user=user, key=PASSWORD, auth_version="1", retries=0
    )
