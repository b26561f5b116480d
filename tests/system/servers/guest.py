"""A small virtual machine, whose kernel has the Ceph clients that the host's may lack.

The processor is emulated, so that it runs on any host, but too slowly for speed measurements. The
guest sees the host's files, and keeps its writes in memory; one directory is shared in both
directions. Its 127.0.0.1 is the host's, so servers on loopback have the same addresses as on the
host, and nothing else is reachable.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.system.servers import guest_files
from tests.system.servers.guest_files import Files
from tests.system.servers.processes import HOST, Processes, ServerError, scratch_directory

PROGRAM = "qemu-system-x86_64"
MEMORY_MIB = 2048

# A guest without output for longer hangs, even on a slow host: no boot and no test takes more than
# a few minutes.
HANGS_AFTER_S = 1200


@dataclass(frozen=True)
class ScriptResult:
    """The exit code and the output of a script."""

    code: int
    out: str
    err: str


def missing(files: Files) -> list[str]:
    """Return the missing requirements of a guest."""
    programs = [PROGRAM] if shutil.which(PROGRAM) is None else []
    return programs + ([] if files.is_complete() else ["the guest's kernel"])


@contextlib.contextmanager
def running(files: Files) -> Iterator["Guest"]:
    """Boot a guest; all its writes are discarded at the end."""
    with scratch_directory("guest") as directory:
        guest = Guest(directory, files)
        try:
            guest.start()
            yield guest
        finally:
            # Its memory is not needed any more, so it is killed without a grace period.
            guest.processes.kill()


class Guest:
    """A virtual machine, and the scripts that it runs one after the other."""

    def __init__(self, directory: Path, files: Files) -> None:
        """Use `directory`, which the guest sees under the same name."""
        self.directory, self.files = directory, files
        self.processes = Processes(directory)
        self._scripts = 0

    def start(self) -> None:
        """Boot, and wait until scripts can be run."""
        archive = self.files.write_initramfs(self.directory)
        self.processes.start("guest", self._command(archive))
        ready, console = self.directory / "ready", self.processes.log("guest")
        self._wait_for("guest", ready, [console])

    def run(self, script: str) -> ScriptResult:
        """Run a shell script to its end; its output is also kept in `directory`."""
        name = str(self._scripts)
        self._scripts += 1
        whole = self.directory / f"{name}.whole"
        whole.write_text(script)
        # Renamed, so that it appears complete.
        whole.rename(self.directory / f"{name}.sh")
        code = self.directory / f"{name}.code"
        out, err = (self.directory / f"{name}.{end}" for end in ("out", "err"))
        try:
            self._wait_for("script", code, [out, err])
        except ServerError as error:
            output = "\n".join(path.read_text()[-2000:] for path in (out, err) if path.exists())
            raise ServerError(f"{error}\nin the guest:\n{script}\n{output}") from error
        return ScriptResult(int(code.read_text()), out.read_text(), err.read_text())

    def _wait_for(self, what: str, file: Path, outputs: Sequence[Path]) -> None:
        """Wait for a file, as long as its outputs grow."""

        def output_bytes() -> list[int]:
            return [path.stat().st_size for path in outputs if path.exists()]

        self.processes.wait_for(what, file.exists, HANGS_AFTER_S, output_bytes)

    def _command(self, archive: Path) -> list[str | Path]:
        # Emulate as many threads as the guest has processors, at most the host's number.
        machine = ["-machine", "pc", "-accel", "tcg,thread=multi", "-cpu", "max,la57=off"]
        machine += ["-smp", str(min(2, os.cpu_count() or 1)), "-m", str(MEMORY_MIB)]
        bare = ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        # A panic ends the guest, and its console is the process's log.
        kernel = ["-kernel", self.files.kernel, "-initrd", archive, "-serial", "stdio"]
        kernel += ["-append", "console=ttyS0 panic=-1 loglevel=5 mitigations=off"]
        network = f"user,id=net,net={guest_files.NETWORK},host={HOST},ipv6=off"
        network += f",dhcpstart={guest_files.ADDRESS},dns={guest_files.NAME_SERVER}"
        devices = ["-netdev", network, "-device", "virtio-net-pci,netdev=net,romfile="]
        devices += ["-device", "virtio-rng-pci"]
        shares = [
            *_share("host", Path("/"), "readonly=on"),
            *_share("files", self.files.folder, "readonly=on"),
            *_share("directory", self.directory, "readonly=off"),
        ]
        return [PROGRAM, *machine, *bare, *kernel, *devices, *shares]


def _share(tag: str, folder: Path, option: str) -> list[str]:
    what = f"local,id={tag},path={folder},security_model=none,multidevs=remap,{option}"
    return ["-fsdev", what, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
