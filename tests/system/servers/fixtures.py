"""The real servers as fixtures: started at their first use, stopped at the end of the run."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.servers import ceph, swift, versitygw
from tests.system.servers.ceph_files import Shape
from tests.system.servers.install import BIN, python_of


@pytest.fixture(scope="session")
def swift_server() -> Iterator[swift.Endpoints]:
    """Run Swift with TempAuth and Keystone, replicated and erasure-coded, with its S3 API."""
    if not (python_of("swift").exists() and python_of("keystone").exists()):
        pytest.skip("Swift is not installed here: make servers")
    with swift.running("both") as endpoints:
        yield endpoints


@pytest.fixture(scope="session")
def versitygw_server() -> Iterator[dict[str, str]]:
    """Run the S3 gateway over a folder."""
    if not (BIN / "versitygw").exists():
        pytest.skip("versitygw is not installed here: make servers")
    with versitygw.running() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def ceph_server() -> Iterator[ceph.Cluster]:
    """Run Ceph with two pools, the object gateway and a file system."""
    need_ceph()
    with ceph.running() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def ceph_to_break() -> Iterator[ceph.Cluster]:
    """Run three OSDs of which tests may kill some; each test leaves the cluster whole."""
    need_ceph()
    with ceph.running(Shape(has_services=False)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cephfs(ceph_server: ceph.Cluster) -> Iterator[Path]:
    """Mount the file system with ceph-fuse."""
    need_fuse()
    with ceph_server.mount(ceph_server.directory / "cephfs") as directory:
        yield directory


@pytest.fixture(scope="session")
def rbd_images(ceph_server: ceph.Cluster) -> Iterator[Path]:
    """Mount the images of a pool with rbd-fuse."""
    need_fuse()
    with ceph_server.mount_images(ceph_server.directory / "images") as directory:
        yield directory


def need_ceph() -> None:
    """Skip the test where Ceph is not installed."""
    missing = ceph.missing_programs()
    if missing:
        pytest.skip(f"Ceph is not installed here ({', '.join(missing)}): make servers")


def need_fuse() -> None:
    """Skip the test where no file system can be mounted."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        pytest.skip(f"file systems cannot be mounted here: /dev/fuse: {error.strerror}")
    if os.geteuid() != 0:
        pytest.skip("file systems can be mounted here by root only")
