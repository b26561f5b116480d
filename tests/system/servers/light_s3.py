"""S3 servers of one process each, for what is tried once against many: MinIO, SeaweedFS, moto.

Those built with Go take some minutes, so that `make servers` leaves them out:
python -m tests.system.servers install minio seaweedfs moto
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.system.servers.install import BIN, python_of
from tests.system.servers.processes import HOST, Processes, answers, free_ports, scratch_directory

ACCESS_KEY = "LOADSTONEACCESSKEY03"
SECRET_KEY = "loadstone-secret-for-light-servers-0123456789"


@dataclass(frozen=True)
class Server:
    """How a server is started: its program, its words for a port and a folder, its environment."""

    program: Path
    words: Callable[[int, Path], Sequence[str | Path]]
    environment: Mapping[str, str]


SERVERS = {
    "minio": Server(
        BIN / "minio",
        lambda port, folder: [
            "server", "--quiet", "--address", f"{HOST}:{port}",
            "--console-address", f"{HOST}:{free_ports(1)}", folder,
        ],
        {
            "MINIO_ROOT_USER": ACCESS_KEY,
            "MINIO_ROOT_PASSWORD": SECRET_KEY,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
        },
    ),
    "seaweedfs": Server(
        BIN / "weed",
        lambda port, folder: [
            "server", "-ip", HOST, "-ip.bind", HOST, "-dir", folder, "-s3",
            "-s3.port", str(port), "-s3.config", _seaweed_keys(folder),
            *(word for name in ("master", "volume", "filer") for word in _ports(name)),
            "-s3.port.grpc", str(free_ports(1)), "-master.volumeSizeLimitMB", "64",
        ],
        {},
    ),
    "moto": Server(
        python_of("moto").with_name("moto_server"),
        lambda port, folder: ["-H", HOST, "-p", str(port)],
        {},
    ),
}  # fmt: skip


@contextlib.contextmanager
def running(name: str) -> Iterator[dict[str, str]]:
    """Run a server over an empty folder; give the settings of the driver `s3` for it."""
    server = SERVERS[name]
    with scratch_directory(name) as directory:
        processes = Processes(directory)
        folder = directory / "objects"
        folder.mkdir()
        port = free_ports(1)
        words = [server.program, *server.words(port, folder)]
        try:
            processes.start(name, words, server.environment)
            endpoint = f"http://{HOST}:{port}"
            processes.wait_for(name, lambda: answers(endpoint))
            yield {"endpoint": endpoint, "access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
        finally:
            processes.stop()


def _ports(name: str) -> tuple[str, str, str, str]:
    return (f"-{name}.port", str(free_ports(1)), f"-{name}.port.grpc", str(free_ports(1)))


def _seaweed_keys(folder: Path) -> Path:
    keys = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
    identity = {"name": "loadstone", "credentials": [keys], "actions": ["Admin"]}
    path = folder.with_name("keys.json")
    path.write_text(json.dumps({"identities": [identity]}))
    return path
