"""S3 servers of one process each, for occasional comparisons.

Some take minutes to build, so that `make servers` leaves them out: python -m tests.system.servers
install minio moto seaweedfs
"""

import contextlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.system.servers.install import BIN, python_of
from tests.system.servers.processes import HOST, Processes, answers, free_ports, scratch_directory

ACCESS_KEY = "LOADSTONEACCESSKEY03"
SECRET_KEY = "loadstone-secret-for-light-servers-0123456789"


@dataclass(frozen=True)
class Server:
    """How to start a server: its program, its arguments for a port and a folder, its environment.

    It listens on `ports` consecutive ports, the first of which is for S3.
    """

    program: Path
    words: Callable[[int, Path], Sequence[str | Path]]
    environment: Mapping[str, str]
    ports: int = 1


def _weed(port: int, folder: Path) -> list[str | Path]:
    """Return the arguments of a SeaweedFS on consecutive ports."""
    names = (
        "s3.port", "s3.port.grpc", "filer.port", "filer.port.grpc", "master.port",
        "master.port.grpc", "volume.port", "volume.port.grpc",
    )  # fmt: skip
    return [
        "server", "-dir", folder, "-ip", HOST, "-ip.bind", HOST, "-master.telemetry=false",
        # The filer takes seven of the default eight volumes, and each bucket at least one.
        "-master.volumeSizeLimitMB", "64", "-volume.max", "100", "-filer", "-s3",
        "-s3.port.iceberg=0",
        *(f"-{name}={port + number}" for number, name in enumerate(names)),
    ]  # fmt: skip


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
            # Its own key service, with one key.
            "MINIO_KMS_SECRET_KEY": f"key:{b64encode(bytes(32)).decode()}",
        },
    ),
    "seaweedfs": Server(
        python_of("seaweedfs").with_name("weed"),
        lambda port, folder: [*_weed(port, folder), "-s3.port.lance=0"],
        {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY},
        ports=8,
    ),
    "moto": Server(
        python_of("moto"),
        lambda port, folder: ["-m", "moto.server", "-H", HOST, "-p", str(port)],
        {},
    ),
}  # fmt: skip
SERVERS["seaweedfs-4.30"] = replace(
    SERVERS["seaweedfs"], program=python_of("seaweedfs-4.30").with_name("weed"), words=_weed
)


@contextlib.contextmanager
def running(name: str) -> Iterator[dict[str, str]]:
    """Run a server over an empty folder; yield the settings of the driver `s3` for it."""
    server = SERVERS[name]
    with scratch_directory(name) as directory:
        processes = Processes(directory)
        folder = directory / "objects"
        folder.mkdir()
        port = free_ports(server.ports)
        words = [server.program, *server.words(port, folder)]
        try:
            processes.start(name, words, server.environment)
            endpoint = f"http://{HOST}:{port}"
            processes.wait_for(name, lambda: answers(endpoint))
            yield {"endpoint": endpoint, "access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
        finally:
            processes.stop()
