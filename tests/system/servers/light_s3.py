"""S3 servers of one process each, for what is tried once against many: MinIO and moto.

MinIO takes some minutes to build, so that `make servers` leaves them out:
python -m tests.system.servers install minio moto
"""

import contextlib
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
