"""The embedded store as programs that people use meet it: aws, s3cmd, rclone, s5cmd, MinIO's mc.

Each writes an object whole and one in parts, reads them back, lists, copies and deletes. A program
that is not on PATH is skipped.
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conformance import store_under_test
from tests.conformance.store_under_test import ACCESS_KEY, PASSWORD, PROJECT, REGION, SECRET_KEY
from tests.conformance.store_under_test import USER as SWIFT_USER

LARGE = os.urandom((16 << 20) + 7)
SMALL = b"small"
# What the host is set to must not change what a program does here.
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE")

# What a machine may have to be given by hand.
WHERE_FROM = {
    "s5cmd": ": the Go proxy refuses github.com/peak/s5cmd/v2 (403), so install a release of it",
}


class Program:
    """A client's program in a folder of its own, which holds the files `large` and `small`."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str]) -> None:
        """Find the program, or skip the test."""
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"no {name} on PATH{WHERE_FROM.get(name, '')}")
        self.path, self.folder = found, folder
        self.environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        self.environment |= {"HOME": str(folder), **environment}
        (folder / "large").write_bytes(LARGE)
        (folder / "small").write_bytes(SMALL)

    def __call__(self, *arguments: str, given: bytes | None = None) -> bytes:
        """Run it; it must succeed. Return what it printed."""
        done = subprocess.run(
            [self.path, *arguments],
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            cwd=self.folder,
            env=self.environment,
            timeout=120,
        )
        assert done.returncode == 0, (arguments, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def has(self, file: str, content: bytes) -> bool:
        """Tell whether a file in the folder has this content, and remove it."""
        path = self.folder / file
        found = path.read_bytes()
        path.unlink()
        return found == content


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with store_under_test.store() as found:
        yield found


@pytest.fixture
def name() -> str:
    return f"bucket-{uuid.uuid4().hex}"


KEYS = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}


def test_aws(url: str, name: str, tmp_path: Path) -> None:
    program = Program("aws", tmp_path, KEYS | {"AWS_ENDPOINT_URL": url})

    def aws(*arguments: str, given: bytes | None = None) -> bytes:
        return program("s3", *arguments, "--only-show-errors", given=given)

    program("s3", "mb", f"s3://{name}")
    aws("cp", "--checksum-algorithm", "SHA256", "large", f"s3://{name}/large")
    aws("cp", "-", f"s3://{name}/a b/piped", given=LARGE)
    aws("mv", f"s3://{name}/large", f"s3://{name}/moved")
    aws("cp", "--checksum-mode", "ENABLED", "--recursive", f"s3://{name}", "back")
    assert program.has("back/moved", LARGE)
    assert program.has("back/a b/piped", LARGE)
    program("s3", "rb", "--force", f"s3://{name}")


def test_s3cmd(url: str, name: str, tmp_path: Path) -> None:
    program = Program("s3cmd", tmp_path, {})
    host = url.removeprefix("http://")
    options = [f"--host={host}", f"--host-bucket={host}", "--no-ssl", "--no-progress"]
    options += [f"--access_key={ACCESS_KEY}", f"--secret_key={SECRET_KEY}", f"--region={REGION}"]

    def s3cmd(*arguments: str) -> bytes:
        return program(*options, *arguments)

    s3cmd("mb", f"s3://{name}")
    s3cmd("put", "--multipart-chunk-size-mb=5", "large", f"s3://{name}/large")
    s3cmd("put", "small", f"s3://{name}/a b/small")
    s3cmd("cp", f"s3://{name}/large", f"s3://{name}/copied")
    s3cmd("get", f"s3://{name}/copied", "back")
    assert program.has("back", LARGE)
    lines = s3cmd("ls", "-r", f"s3://{name}").decode().splitlines()
    assert [line.split("/", 3)[3] for line in lines] == ["a b/small", "copied", "large"]
    s3cmd("del", "-r", "--force", f"s3://{name}")
    s3cmd("rb", f"s3://{name}")


RCLONE = {
    "s3": {
        "RCLONE_CONFIG_STORE_TYPE": "s3",
        "RCLONE_CONFIG_STORE_PROVIDER": "Other",
        "RCLONE_CONFIG_STORE_ACCESS_KEY_ID": ACCESS_KEY,
        "RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY": SECRET_KEY,
        "RCLONE_CONFIG_STORE_REGION": REGION,
        "RCLONE_S3_CHUNK_SIZE": "5M",
        "RCLONE_S3_UPLOAD_CUTOFF": "5M",
        "RCLONE_S3_COPY_CUTOFF": "6M",
    },
    "swift": {
        "RCLONE_CONFIG_STORE_TYPE": "swift",
        "RCLONE_CONFIG_STORE_USER": f"{PROJECT}:{SWIFT_USER}",
        "RCLONE_CONFIG_STORE_KEY": PASSWORD,
        "RCLONE_SWIFT_CHUNK_SIZE": "5M",
    },
}


@pytest.mark.parametrize("interface", RCLONE)
def test_rclone(url: str, name: str, tmp_path: Path, interface: str) -> None:
    where = {"s3": {"ENDPOINT": url}, "swift": {"AUTH": f"{url}/auth/v1.0"}}[interface]
    where = {f"RCLONE_CONFIG_STORE_{word}": value for word, value in where.items()}
    rclone = Program("rclone", tmp_path, RCLONE[interface] | where | {"RCLONE_CONFIG": os.devnull})
    rclone("mkdir", f"store:{name}")
    rclone("copyto", "large", f"store:{name}/tree/large")
    rclone("copyto", "small", f"store:{name}/tree/a b")
    rclone("rcat", "--streaming-upload-cutoff=1M", f"store:{name}/piped", given=LARGE)
    rclone("copyto", f"store:{name}/tree/large", f"store:{name}/copied")
    for key in ("copied", "piped"):
        assert rclone("cat", f"store:{name}/{key}") == LARGE
    lines = rclone("lsf", "-R", "--files-only", f"store:{name}").decode().splitlines()
    assert sorted(lines) == ["copied", "piped", "tree/a b", "tree/large"]
    rclone("purge", f"store:{name}")
    assert f"{name}/" not in rclone("lsf", "store:").decode().splitlines()


def test_s5cmd(url: str, name: str, tmp_path: Path) -> None:
    s5cmd = Program("s5cmd", tmp_path, KEYS | {"S3_ENDPOINT_URL": url})
    s5cmd("mb", f"s3://{name}")
    s5cmd("cp", "--part-size", "5", "large", f"s3://{name}/large")
    s5cmd("pipe", f"s3://{name}/piped", given=LARGE)
    s5cmd("cp", f"s3://{name}/large", f"s3://{name}/copied")
    for key in ("copied", "piped"):
        assert s5cmd("cat", f"s3://{name}/{key}") == LARGE
    s5cmd("rm", f"s3://{name}/*")
    s5cmd("rb", f"s3://{name}")


def test_mc(url: str, name: str, tmp_path: Path) -> None:
    """MinIO's own client: it streams uploads whose checksums are in trailers and composite."""
    store = url.replace("://", f"://{ACCESS_KEY}:{SECRET_KEY}@")
    mc = Program("mc", tmp_path, {"MC_HOST_store": store, "MC_CONFIG_DIR": str(tmp_path / "mc")})
    mc("mb", f"store/{name}")
    mc("version", "enable", f"store/{name}")
    mc("pipe", f"store/{name}/piped", given=LARGE)
    mc("pipe", "--checksum", "sha256", f"store/{name}/piped-sha256", given=LARGE)
    mc("cp", "--checksum", "crc32c", "large", f"store/{name}/large")
    mc("cp", f"store/{name}/large", f"store/{name}/copied")
    mc("cp", "small", f"store/{name}/large")
    for key in ("piped", "piped-sha256", "copied"):
        assert mc("cat", f"store/{name}/{key}") == LARGE
    assert mc("cat", f"store/{name}/large") == SMALL
    assert len(mc("ls", "-r", "--versions", f"store/{name}").splitlines()) == 5
    mc("rm", "-r", "--force", "--versions", f"store/{name}")
    mc("rb", f"store/{name}")
