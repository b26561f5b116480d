"""Installs real servers, or runs one of them until it is interrupted.

python -m tests.system.servers install [--strict] [swift] [versitygw] [ceph] [ceilings] [guest]
    [minio] [moto] [seaweedfs] [seaweedfs-4.30] [versitygw-1.7]   by name alone
python -m tests.system.servers swift [--auth tempauth|keystone|both]
python -m tests.system.servers versitygw
python -m tests.system.servers ceph [--osds 3] [--store bluestore|memstore]
"""

import argparse
import json
import signal
import sys
import time

from tests.system.servers import ceph, swift, versitygw
from tests.system.servers.ceph_files import Shape
from tests.system.servers.install import INSTALLERS, ON_DEMAND, install
from tests.system.servers.processes import ServerError


def main() -> int:
    """Run the command line; the exit code is 1 when a server could not be installed."""
    arguments = _parser().parse_args()
    if arguments.command == "install":
        problems = install(arguments.names or list(INSTALLERS))
        for name, problem in problems.items():
            print(f'error: no server "{name}": {problem}', file=sys.stderr)
        if problems and not arguments.strict:
            print("hint: the tests that need it are skipped", file=sys.stderr)
        return 1 if problems and arguments.strict else 0
    # SIGTERM must stop the servers as SIGINT does, since a shell's background processes ignore
    # SIGINT.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    started = time.monotonic()
    servers = {
        "swift": lambda: swift.running(arguments.auth),
        "versitygw": versitygw.running,
        "ceph": lambda: ceph.running(Shape(arguments.osds, arguments.store)),
    }
    try:
        with servers[arguments.command]() as server:
            endpoints = server.endpoints if isinstance(server, ceph.Cluster) else server
            print(json.dumps(endpoints, indent=2))
            print(f"ready after {time.monotonic() - started:.1f} s; Ctrl-C ends it", flush=True)
            signal.pause()
    except ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def _parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("tests.system.servers", None, __doc__, formatter_class=form)
    commands = parser.add_subparsers(dest="command", required=True)
    names = commands.add_parser("install", help="install servers (all when none is named)")
    names.add_argument("names", nargs="*", choices=[*INSTALLERS, *ON_DEMAND, []])
    names.add_argument("--strict", action="store_true", help="fail when one cannot be had")
    swift_command = commands.add_parser("swift", help="run Swift until Ctrl-C")
    swift_command.add_argument("--auth", choices=swift.AUTHS, default="both")
    commands.add_parser("versitygw", help="run the S3 gateway until Ctrl-C")
    cluster = commands.add_parser("ceph", help="run Ceph until Ctrl-C")
    cluster.add_argument("--osds", type=int, default=3)
    cluster.add_argument("--store", choices=["bluestore", "memstore"], default="bluestore")
    return parser


if __name__ == "__main__":
    sys.exit(main())
