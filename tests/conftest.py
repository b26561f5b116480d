"""Fixtures that more than one kind of test uses: the real servers, each started once."""

from tests.golden_files import golden, pytest_addoption
from tests.system.servers.fixtures import (
    ceph_server,
    ceph_to_break,
    cephfs,
    rbd_images,
    swift_server,
    versitygw_server,
)

__all__ = [
    "ceph_server",
    "ceph_to_break",
    "cephfs",
    "golden",
    "pytest_addoption",
    "rbd_images",
    "swift_server",
    "versitygw_server",
]
