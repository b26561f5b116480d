"""The table of targets on which the drivers are tried.

A new driver gets the whole suite by a line in `TARGETS`: where it finds a target, and how the
tests look into that target without it.
"""

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import swiftclient

from loadstone import _loadgen
from tests.conformance.devices import DEVICES, DIRECTORIES, loop_device, named, row
from tests.conformance.rados_view import RadosView
from tests.conformance.views import FolderView, S3View, SwiftView, View
from tests.system.servers import keystone

# Every secret of the tests comes from the environment, under these names, as users' secrets do.
S3_SECRET, SWIFT_SECRET = "CONFORMANCE_S3_SECRET", "CONFORMANCE_SWIFT_SECRET"

# The embedded store's credentials. Tests search all output for these words.
ACCESS_KEY, SECRET_KEY = "LOADSTONEACCESSKEY03", "embedded-secret-key-never-to-be-printed"
USER, PASSWORD, PROJECT = "tester", "embedded-password-never-to-be-printed", "test"


@dataclass(frozen=True)
class Place:
    """A target that is up: the driver's settings for it, and the tests' own view of it."""

    driver: str
    settings: Mapping[str, Any]
    view: View | None
    environment: Mapping[str, str] = field(default_factory=dict)
    smallest_part_bytes: int = 5 << 20
    # The operations that write and read a whole object, and the length of tested ranges.
    fill: str = "put"
    read: str = "get"
    range_bytes: int = 1024
    # Whether it is there before loadstone, and has to be allowed.
    is_foreign: bool = False


Start = Callable[[pytest.FixtureRequest], contextlib.AbstractContextManager[Place]]


@dataclass(frozen=True)
class Target:
    """A row: which driver is tried, on what, and which installed server that needs."""

    name: str
    driver: str
    start: Start
    # The installed server that it needs, and in whose group its tests run.
    server: str | None = None
    # True for a variant of a product that has a row: only its operations are tested.
    is_variant: bool = False
    # Set for another interface of a product that has a row: its operations and the safety of
    # others' data are always tested, the rest only by `make test-long`.
    rest_cpu_s: float | None = None
    # Operations that this product does not offer, though the driver can ask for them.
    lacks: frozenset[str] = frozenset()


@contextlib.contextmanager
def _null(request: pytest.FixtureRequest) -> Iterator[Place]:
    yield Place("null", {}, None, smallest_part_bytes=1 << 20)


@contextlib.contextmanager
def _folder(request: pytest.FixtureRequest) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="loadstone-") as folder:
        yield Place("file", {"path": folder}, FolderView(Path(folder)), {}, 1 << 20)


@contextlib.contextmanager
def _block(request: pytest.FixtureRequest) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="loadstone-") as folder:
        settings = {"path": f"{folder}/blocks", "direct": False}
        yield Place("block", settings, None, fill="write", read="read", range_bytes=4096)


@contextlib.contextmanager
def embedded_store(**configuration: Any) -> Iterator[str]:
    """Run the embedded store inside this process; give its URL."""
    logins = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
    logins |= {"user": USER, "password": PASSWORD, "project": PROJECT}
    store = _loadgen.Store(json.dumps(logins | configuration))
    try:
        yield f"http://127.0.0.1:{store.port}"
    finally:
        store.stop()


@contextlib.contextmanager
def _embedded_s3(request: pytest.FixtureRequest) -> Iterator[Place]:
    with embedded_store() as url:
        yield s3_place(url, ACCESS_KEY, SECRET_KEY)


@contextlib.contextmanager
def _embedded_swift_tempauth(request: pytest.FixtureRequest) -> Iterator[Place]:
    with embedded_store() as url:
        yield tempauth_place(f"{url}/auth/v1.0", f"{PROJECT}:{USER}", PASSWORD)


@contextlib.contextmanager
def _embedded_swift_keystone(request: pytest.FixtureRequest) -> Iterator[Place]:
    with embedded_store() as url:
        login = {"auth_url": f"{url}/v3", "user": USER, "password": PASSWORD, "project": PROJECT}
        yield keystone_place(login)


@contextlib.contextmanager
def _versitygw(request: pytest.FixtureRequest) -> Iterator[Place]:
    server = request.getfixturevalue("versitygw_server")
    yield s3_place(server["endpoint"], server["access_key"], server["secret_key"])


def _swift_s3(auth: str) -> Start:
    @contextlib.contextmanager
    def start(request: pytest.FixtureRequest) -> Iterator[Place]:
        server = request.getfixturevalue("swift_server")
        login = server[auth]
        yield s3_place(server["swift"]["proxy"], login["s3_access_key"], login["s3_secret_key"])

    return start


def _swift_tempauth(policy: str) -> Start:
    @contextlib.contextmanager
    def start(request: pytest.FixtureRequest) -> Iterator[Place]:
        login = request.getfixturevalue("swift_server")["tempauth"]
        yield tempauth_place(login["auth_url"], login["user"], login["password"], policy)

    return start


def _swift_keystone(policy: str) -> Start:
    @contextlib.contextmanager
    def start(request: pytest.FixtureRequest) -> Iterator[Place]:
        yield keystone_place(request.getfixturevalue("swift_server")["keystone"], policy)

    return start


@contextlib.contextmanager
def _ceph_s3(request: pytest.FixtureRequest) -> Iterator[Place]:
    login = request.getfixturevalue("ceph_server").endpoints["s3"]
    yield s3_place(login["endpoint"], login["access_key"], login["secret_key"], login["region"])


@contextlib.contextmanager
def _ceph_swift(request: pytest.FixtureRequest) -> Iterator[Place]:
    login = request.getfixturevalue("ceph_server").endpoints["swift"]
    yield tempauth_place(login["auth_url"], login["user"], login["password"])


def _ceph_pool(pool: str) -> Start:
    @contextlib.contextmanager
    def start(request: pytest.FixtureRequest) -> Iterator[Place]:
        login = request.getfixturevalue("ceph_server").endpoints["rados"]
        settings = {"pool": pool, "conf": login["conf"], "keyring": login["keyring"]}
        yield Place("rados", settings, RadosView(login["conf"], pool))

    return start


@contextlib.contextmanager
def _cephfs(request: pytest.FixtureRequest) -> Iterator[Place]:
    mount = request.getfixturevalue("cephfs")
    with tempfile.TemporaryDirectory(prefix="loadstone-", dir=mount) as folder:
        yield Place("file", {"path": folder}, FolderView(Path(folder)), {}, 1 << 20)


@contextlib.contextmanager
def _rbd_image(request: pytest.FixtureRequest) -> Iterator[Place]:
    settings = {"path": f"{request.getfixturevalue('rbd_images')}/blocks", "direct": False}
    yield Place("block", settings, None, fill="write", read="read", range_bytes=4096)


def _device(path: str) -> Start:
    @contextlib.contextmanager
    def start(request: pytest.FixtureRequest) -> Iterator[Place]:
        yield device_place(path)

    return start


def _directory(path: str) -> Start:
    @contextlib.contextmanager
    def start(request: pytest.FixtureRequest) -> Iterator[Place]:
        with tempfile.TemporaryDirectory(prefix="loadstone-", dir=path) as folder:
            settings = {"path": folder, "direct": True}
            yield Place("file", settings, FolderView(Path(folder)), {}, 1 << 20)

    return start


@contextlib.contextmanager
def _loop_device(request: pytest.FixtureRequest) -> Iterator[Place]:
    with loop_device() as path:
        yield device_place(str(path))


def device_place(path: str) -> Place:
    """Describe a block device, whose holdings may be overwritten."""
    ways = {"fill": "write", "read": "read"}
    return Place("block", {"path": path}, None, range_bytes=4096, is_foreign=True, **ways)


def s3_place(endpoint: str, access_key: str, secret_key: str, region: str = "us-east-1") -> Place:
    """Describe an S3 server to the driver and to boto3."""
    settings = {"endpoints": [endpoint], "region": region, "access_key": access_key}
    settings["secret_key"] = {"env": S3_SECRET}
    view = S3View(endpoint, access_key, secret_key, region)
    return Place("s3", settings, view, {S3_SECRET: secret_key})


def tempauth_place(auth_url: str, user: str, password: str, policy: str | None = None) -> Place:
    """Describe a Swift server with TempAuth to the driver and to swiftclient."""
    settings = {"auth_url": auth_url, "user": user, "password": {"env": SWIFT_SECRET}}
    storage_url, token = swiftclient.get_auth(auth_url, user, password, auth_version="1")
    return _swift_place(settings, SwiftView(storage_url, token), password, policy)


def keystone_place(login: Mapping[str, str], policy: str | None = None) -> Place:
    """Describe a Swift server with Keystone v3 to the driver and to swiftclient."""
    settings: dict[str, Any] = {name: login[name] for name in ("auth_url", "user", "project")}
    settings |= {"password": {"env": SWIFT_SECRET}, "user_domain": "Default"}
    settings |= {"project_domain": "Default"}
    view = SwiftView(*keystone.account_of(login))
    return _swift_place(settings, view, login["password"], policy)


def _swift_place(
    settings: dict[str, Any], view: SwiftView, password: str, policy: str | None
) -> Place:
    policies = {"storage_policy": policy} if policy else {}
    return Place("swift", settings | policies, view, {SWIFT_SECRET: password}, 1 << 20)


# Few products give several ranges at once; the others answer with the whole, one, or an error.
_NO_RANGES = frozenset({"multi_range_get"})
# By S3, Swift refuses If-Match of a put, and takes no notice of that of a delete.
_NO_IF_MATCH = frozenset({"put_if_match", "delete_if_match", "compare_and_swap"})

TARGETS = [
    Target("null", "null", _null),
    Target("folder", "file", _folder),
    Target("file-as-blocks", "block", _block),
    Target("loop-device", "block", _loop_device),
    Target("embedded-s3", "s3", _embedded_s3, lacks=_NO_RANGES),
    Target("embedded-swift-tempauth", "swift", _embedded_swift_tempauth),
    Target("embedded-swift-keystone", "swift", _embedded_swift_keystone),
    Target("versitygw", "s3", _versitygw, server="swift", lacks=_NO_RANGES),
    Target("swift-tempauth-single", "swift", _swift_tempauth("single"), server="swift"),
    Target(
        "swift-keystone-triple", "swift", _swift_keystone("triple"), server="swift", rest_cpu_s=2
    ),
    Target("swift-keystone-ec", "swift", _swift_keystone("ec"), server="swift", is_variant=True),
    Target(
        "swift-s3-tempauth",
        "s3",
        _swift_s3("tempauth"),
        server="swift",
        rest_cpu_s=2,
        lacks=_NO_IF_MATCH,
    ),
    Target(
        "swift-s3-keystone",
        "s3",
        _swift_s3("keystone"),
        server="swift",
        is_variant=True,
        lacks=_NO_IF_MATCH,
    ),
    # It answers a conditional put that loses a race with 500 UnknownError.
    Target("ceph-s3", "s3", _ceph_s3, server="ceph", lacks=_NO_RANGES | {"compare_and_swap"}),
    Target(
        "ceph-swift",
        "swift",
        _ceph_swift,
        server="ceph",
        rest_cpu_s=1,
        # By Swift it takes no notice of If-None-Match.
        lacks=_NO_RANGES | {"put_if_absent"},
    ),
    Target("ceph-pool-replicated", "rados", _ceph_pool("bench"), server="ceph"),
    Target("ceph-pool-ec", "rados", _ceph_pool("ecbench"), server="ceph", is_variant=True),
    Target("cephfs-by-fuse", "file", _cephfs, server="ceph"),
    # rbd-fuse cannot discard.
    Target("rbd-image-by-fuse", "block", _rbd_image, server="ceph", lacks=frozenset({"delete"})),
]

TARGETS += [
    Target(row(kind, path), driver, start(path))
    for variable, kind, driver, start in (
        (DEVICES, "device", "block", _device),
        (DIRECTORIES, "directory", "file", _directory),
    )
    for path in named(variable)
]
