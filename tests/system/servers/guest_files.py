"""Files for booting a guest: a Debian kernel, an initramfs, and programs that the host may lack.

The packages are unpacked, not installed, so that the host is not changed.
"""

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.system.servers.processes import HOST, ServerError

# The newest kernel of this name is used.
KERNEL_PACKAGE = "linux-image-amd64"
# The initramfs's shell, the module loader for `rbd map`, and udev for /dev/rbd/POOL/IMAGE.
PROGRAM_PACKAGES = ["busybox-static", "kmod", "udev"]

# Only these of the kernel's modules are unpacked; all take 400 MB.
MODULE_FOLDERS = [
    "arch/x86/crypto",
    "crypto",
    "drivers/block/nbd.ko",
    "drivers/block/rbd.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/virtio_net.ko",
    "drivers/virtio",
    "fs/9p",
    "fs/ceph",
    "fs/fscache",
    "fs/netfs",
    "fs/overlayfs",
    "lib",
    "net/9p",
    "net/ceph",
    "net/core",
]
# Modules that are loaded before the root file system is mounted.
EARLY_MODULES = ["virtio_pci", "virtio_net", "9pnet_virtio", "9p", "overlay"]

# The guest's own address, on a network where the host is 127.0.0.1.
NETWORK, ADDRESS, NAME_SERVER = "127.0.0.0/24", "127.0.0.15", "127.0.0.3"

_9P = "trans=virtio,version=9p2000.L,msize=262144"

INIT = f"""\
#!/busybox sh
/busybox mkdir -p /bin /proc /sys /dev /host /files /layer /root
/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in %(modules)s; do insmod /modules/$module; done
# The host's files, beneath them those of the guest alone, and above both what the guest writes.
mount -t 9p -o ro,cache=loose,{_9P} host /host
mount -t 9p -o ro,cache=loose,{_9P} files /files
mount -t tmpfs layer /layer
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/files:/host,upperdir=/layer/upper,workdir=/layer/work overlay /root
for folder in proc sys dev; do mount -o move /$folder /root/$folder; done
mkdir -p /root/dev/shm /root/dev/pts
for folder in dev/shm run; do mount -t tmpfs tmpfs /root/$folder; done
mount -t devpts devpts /root/dev/pts
mkdir -p /root%(directory)s
mount -t 9p -o cache=none,{_9P} directory /root%(directory)s
# {HOST} is no address of the guest's: who asks for it asks the host.
ip link set lo up
ip address flush dev lo
echo 1 >/root/proc/sys/net/ipv4/conf/eth0/route_localnet
ip address add {ADDRESS}/8 dev eth0
ip link set eth0 up
hostname guest
exec switch_root /root /bin/bash %(directory)s/agent
"""

# Runs 0.sh, 1.sh and so on, as they appear.
AGENT = """\
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
cd %(directory)s
/lib/systemd/systemd-udevd --daemon
touch ready
number=0
while :; do
    if [ -e $number.sh ]; then
        bash $number.sh >$number.out 2>$number.err </dev/null
        echo $? >$number.new
        mv $number.new $number.code
        number=$((number + 1))
    else
        sleep 0.1
    fi
done
"""


@dataclass(frozen=True)
class Files:
    """The guest's files that are not the host's."""

    folder: Path

    @property
    def busybox(self) -> Path:
        """A statically linked shell with all tools."""
        return self.folder / "bin" / "busybox"

    @property
    def kernels(self) -> list[str]:
        """The versions of the installed kernels: one or none."""
        return [path.name.removeprefix("vmlinuz-") for path in self.folder.glob("boot/vmlinuz-*")]

    @property
    def kernel(self) -> Path:
        """The kernel to boot."""
        return self.folder / "boot" / f"vmlinuz-{self.kernels[0]}"

    @property
    def modules(self) -> Path:
        """The modules of the kernel."""
        return self.folder / "lib" / "modules" / self.kernels[0]

    def is_complete(self) -> bool:
        """Tell whether a guest can be booted from here."""
        return self.busybox.exists() and bool(self.kernels) and self._dependencies.exists()

    def unpack(self, packages: Iterable[Path]) -> None:
        """Unpack packages of Debian, of kernels only what is needed."""
        shutil.rmtree(self.folder, ignore_errors=True)
        # Links as on the host, whose files appear next to these.
        for name in ("bin", "lib", "sbin"):
            (self.folder / "usr" / name).mkdir(parents=True)
            (self.folder / name).symlink_to(f"usr/{name}")
        for package in packages:
            wanted: list[str] = []
            if package.name.startswith("linux-image-"):
                kernel = [f"./lib/modules/*/kernel/{name}*" for name in MODULE_FOLDERS]
                wanted = ["--wildcards", "./boot/vmlinuz-*", "./lib/modules/*/modules.*", *kernel]
            self._extract(package, wanted)
        # A program that acts by the name with which it is called.
        depmod = ["depmod", "-b", str(self.folder), self.kernels[0]]
        subprocess.run(depmod, executable=self.folder / "bin" / "kmod", check=True)

    def write_initramfs(self, directory: Path) -> Path:
        """Write the initramfs with its init script into `directory`."""
        root = directory / "initramfs"
        (root / "modules").mkdir(parents=True)
        early = self._early_modules()
        for module in early:
            shutil.copy(self.modules / module, root / "modules")
        shutil.copy(self.busybox, root)
        names = " ".join(Path(module).name for module in early)
        (root / "init").write_text(INIT % {"modules": names, "directory": directory})
        (root / "init").chmod(0o755)
        (directory / "agent").write_text(AGENT % {"directory": directory})
        paths = [str(path.relative_to(root)) for path in sorted(root.rglob("*"))]
        archive = directory / "initramfs.cpio"
        with archive.open("wb") as file:
            subprocess.run(
                [self.busybox, "cpio", "-o", "-H", "newc"],
                input="\n".join(paths).encode(),
                stdout=file,
                stderr=subprocess.DEVNULL,
                cwd=root,
                check=True,
            )
        return archive

    @property
    def _dependencies(self) -> Path:
        return self.modules / "modules.dep"

    def _early_modules(self) -> list[str]:
        """Return the early modules and their dependencies in loading order."""
        needs: dict[str, list[str]] = {}
        for line in self._dependencies.read_text().splitlines():
            module, _, others = line.partition(":")
            # Some are compressed.
            needs[Path(module).name.partition(".")[0]] = [*reversed(others.split()), module]
        wanted = [module for name in EARLY_MODULES for module in needs[name]]
        return list(dict.fromkeys(wanted))

    def _extract(self, package: Path, wanted: Sequence[str]) -> None:
        content = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
        extract = ["tar", "-x", "-C", str(self.folder), "--keep-directory-symlink", *wanted]
        done = subprocess.run(extract, stdin=content.stdout, capture_output=True, check=False)
        if content.wait() or done.returncode:
            raise ServerError(f"could not unpack {package}: {done.stderr.decode()[-500:]}")
