"""Reads by ceph-fuse for its clients are counted for the mount that they use."""

import os
from pathlib import Path

import pytest

from loadstone.engines.traffic import Route, received_by, server_of
from tests.system.servers import ceph

pytestmark = pytest.mark.real

SIZE = 8 << 20


def test_a_mount_in_user_space_counts_what_its_program_receives(
    ceph_server: ceph.Cluster, cephfs: Path
) -> None:
    """Two mounts of one file system: each has a program of its own, and only one of them reads."""
    folder = cephfs / "mounts"
    folder.mkdir()
    (folder / "file").write_bytes(os.urandom(SIZE))
    try:
        with ceph_server.mount(ceph_server.directory / "second") as second:
            reader, writer = server_of(str(second / "mounts")), server_of(str(folder))
            assert reader is not None
            assert writer not in (None, reader)
            with (
                received_by(False, Route(server=writer)) as idle,
                received_by(False, Route(server=reader)) as received,
            ):
                assert len((second / "mounts" / "file").read_bytes()) == SIZE
    finally:
        (folder / "file").unlink()
        folder.rmdir()
    assert SIZE <= received[0] < 2 * SIZE
    assert idle[0] < SIZE // 8


def test_other_file_systems_have_no_such_program(tmp_path: Path) -> None:
    assert server_of(str(tmp_path)) is None
    assert server_of(str(tmp_path / "absent")) is None
