"""versitygw: an independent S3 server over a folder, in one process."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.system.servers.install import BIN
from tests.system.servers.processes import HOST, Processes, answers, free_ports, scratch_directory

ACCESS_KEY = "LOADSTONEACCESSKEY02"
SECRET_KEY = "loadstone-secret-of-the-gateway-0123456789"


@contextlib.contextmanager
def running() -> Iterator[dict[str, str]]:
    """Run the gateway over an empty folder; give the settings of the driver `s3` for it."""
    with scratch_directory("versitygw") as directory:
        processes = Processes(directory)
        try:
            yield up(directory, processes)
        finally:
            processes.stop()


def up(directory: Path, processes: Processes) -> dict[str, str]:
    """Start the gateway with its objects in `directory`."""
    port = free_ports(1)
    for name in ("objects", "versions"):
        (directory / name).mkdir()
    listen = ["--port", f"{HOST}:{port}", "--quiet", "--keep-alive"]
    keys = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    store = ["posix", "--versioning-dir", directory / "versions", directory / "objects"]
    processes.start("versitygw", [BIN / "versitygw", *listen, *store], keys)
    endpoint = f"http://{HOST}:{port}"
    processes.wait_for("versitygw", lambda: answers(endpoint))
    return {"endpoint": endpoint, "access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
