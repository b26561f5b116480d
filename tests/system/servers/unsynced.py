"""A file system in memory that a power cut takes back to what was synced.

unsynced.py mount DIRECTORY [--journal]
unsynced.py cut DIRECTORY [PID_FILE]

The bytes and attributes of a file survive a cut as of its last fsync, and names as of the last
fsync of their directory: POSIX owes no more. With `--journal` each fsync keeps all names and
attributes of that moment too, as the journals of ext4 and XFS do; a file whose bytes were never
synced is then empty. `cut` kills the process that PID_FILE names first, and waits until it is gone.

It answers the kernel's requests (linux/fuse.h) without a library: those that go by paths lose files
that are open and have no name. The kernel passes on no sync(2) and no syncfs(2), so that what is
only flushed by them is lost; the names in DIRECTORY itself are an example in many programs.
"""

import argparse
import contextlib
import ctypes
import errno
import os
import select
import signal
import stat
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

CUT = "user.power_cut"
"""To set this attribute of the root cuts the power."""
WRITE_BYTES = 1 << 20
ROOM_BYTES = 1 << 33
BLOCK_BYTES = 4096
ROOT = 1
MAX_PAGES = 1 << 22
MODE, UID, GID, SIZE, ATIME, MTIME, _, ATIME_NOW, MTIME_NOW = (1 << bit for bit in range(9))
NO_REPLACE, EXCHANGE = 1, 2


@dataclass(eq=False)
class Node:
    """A file, a directory or a symbolic link, and the part of it that survives a power cut."""

    number: int
    status: dict[str, int]
    attributes: dict[bytes, bytes] = field(default_factory=dict)
    entries: dict[bytes, "Node"] = field(default_factory=dict)
    content: bytearray = field(default_factory=bytearray)
    lookups: int = 0
    synced_content: bytes = b""
    synced: tuple[dict[str, int], dict[bytes, bytes], dict[bytes, "Node"]] | None = None

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status["mode"])

    def keep_names(self) -> None:
        """Let names and attributes survive."""
        self.synced = dict(self.status), dict(self.attributes), dict(self.entries)

    def resize(self, size: int) -> None:
        """Cut the content off, or extend it with zeros."""
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))
        self.status["mtime"] = time.time_ns()

    def encoded(self) -> bytes:
        """Return it as `struct fuse_attr`."""
        times = [self.status[name] for name in ("atime", "mtime", "mtime")]
        size, status = len(self.content), self.status
        return struct.pack(
            "6Q10I", self.number, size, -(-size // 512), *(ns // 10**9 for ns in times),
            *(ns % 10**9 for ns in times), status["mode"], 1, status["uid"], status["gid"],
            0, BLOCK_BYTES, 0,
        )  # fmt: skip


class FileSystem:
    """Answers requests, one at a time; methods take a node and the request's body."""

    def __init__(self, *, has_journal: bool) -> None:
        self._has_journal = has_journal
        self._last_number = ROOT
        self._owner = {"uid": os.getuid(), "gid": os.getgid()}
        self._changed: set[Node] = set()
        root = Node(ROOT, {"mode": stat.S_IFDIR | 0o755, **self._owner, **_now()})
        root.keep_names()
        self._nodes = {ROOT: root}
        self._operations: dict[int, Callable[[Node, bytes], bytes]] = {
            1: self._look_up, 3: self._status, 4: self._set_status, 5: self._read_link,
            6: self._make_link, 8: self._make_file, 9: self._make_directory, 10: self._unlink,
            11: self._remove_directory, 12: self._rename, 13: self._link, 14: self._open,
            15: self._read, 16: self._write, 17: self._room, 18: self._nothing, 20: self._sync,
            21: self._set_attribute, 22: self._attribute, 23: self._list_attributes,
            24: self._remove_attribute, 25: self._nothing, 26: self._init, 27: self._open,
            28: self._list, 29: self._nothing, 30: self._sync, 35: self._create,
            43: self._allocate, 45: self._rename_with_flags, 51: self._create_unnamed,
        }  # fmt: skip

    def serve(self, channel: int) -> None:
        """Answer the kernel until the file system is unmounted."""
        while True:
            try:
                request = os.read(channel, WRITE_BYTES + 4096)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno in (errno.ENOENT, errno.EINTR):
                    continue
                raise
            _, operation, unique, number, uid, gid = struct.unpack_from("IIQQII", request)
            body = request[40:]
            if operation in (2, 42):
                self._forget(operation, number, body)
                continue
            self._owner = {"uid": uid, "gid": gid}
            try:
                if operation not in self._operations:
                    raise OSError(errno.ENOSYS, f"operation {operation}")
                if number and number not in self._nodes:
                    raise OSError(errno.ESTALE, "from before the power cut")
                answer, code = self._operations[operation](self._nodes[number or ROOT], body), 0
            except OSError as error:
                answer, code = b"", error.errno or errno.EIO
            # A request that was interrupted is not there any more.
            with contextlib.suppress(FileNotFoundError):
                os.write(channel, struct.pack("IiQ", 16 + len(answer), -code, unique) + answer)

    def _forget(self, operation: int, number: int, body: bytes) -> None:
        pairs = [(number, *struct.unpack_from("Q", body))]
        if operation == 42:
            pairs = list(struct.iter_unpack("QQ", body[8:]))
        for number, count in pairs:
            node = self._nodes.get(number)
            if node is not None and number != ROOT:
                node.lookups -= count
                if node.lookups <= 0:
                    del self._nodes[number]

    def _cut(self) -> None:
        """Take everything back to what was synced, under new numbers."""
        copies: dict[Node, Node] = {}

        def copy(node: Node) -> Node:
            if node not in copies:
                status, attributes, entries = node.synced or (node.status, {}, {})
                left = copies[node] = Node(self._number(), dict(status), dict(attributes))
                left.content[:] = left.synced_content = node.synced_content
                left.entries = {name: copy(child) for name, child in entries.items()}
                left.keep_names()
            return copies[node]

        root = copy(self._nodes[ROOT])
        root.number = ROOT
        self._nodes = {ROOT: root}
        self._changed.clear()

    def _number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _make(self, mode: int) -> Node:
        node = Node(self._number(), {"mode": mode, **self._owner, **_now()})
        self._changed.add(node)
        return node

    def _set_name(self, parent: Node, name: bytes, node: Node | None) -> None:
        if node is None:
            del parent.entries[name]
        else:
            parent.entries[name] = node
        parent.status["mtime"] = time.time_ns()
        self._changed.add(parent)

    def _entry(self, node: Node) -> bytes:
        """Return a node as `struct fuse_entry_out`; nothing of it may be cached."""
        node.lookups += 1
        self._nodes[node.number] = node
        return struct.pack("4Q2I", node.number, 0, 0, 0, 0, 0) + node.encoded()

    def _child(self, parent: Node, body: bytes) -> Node:
        name = _name(body)
        if name not in parent.entries:
            raise OSError(errno.ENOENT, os.fsdecode(name))
        return parent.entries[name]

    def _init(self, node: Node, body: bytes) -> bytes:
        major, minor, readahead = struct.unpack_from("III", body)
        pages = WRITE_BYTES // BLOCK_BYTES
        return struct.pack(
            "4IHHIIHHII24x", major, min(minor, 39), readahead, MAX_PAGES, 16, 12, WRITE_BYTES,
            1, pages, 0, 0, 0,
        )  # fmt: skip

    def _look_up(self, node: Node, body: bytes) -> bytes:
        return self._entry(self._child(node, body))

    def _status(self, node: Node, body: bytes) -> bytes:
        return struct.pack("QII", 0, 0, 0) + node.encoded()

    def _set_status(self, node: Node, body: bytes) -> bytes:
        (wanted, _, _, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, _, uid, gid, _
         ) = struct.unpack("II6Q8I", body)  # fmt: skip
        if wanted & SIZE:
            node.resize(size)
        now = time.time_ns()
        for flag, name, value in (
            (MODE, "mode", mode), (UID, "uid", uid), (GID, "gid", gid),
            (ATIME, "atime", atime * 10**9 + atime_ns), (MTIME, "mtime", mtime * 10**9 + mtime_ns),
            (ATIME_NOW, "atime", now), (MTIME_NOW, "mtime", now),
        ):  # fmt: skip
            if wanted & flag:
                node.status[name] = value
        self._changed.add(node)
        return self._status(node, b"")

    def _make_named(self, parent: Node, mode: int, name: bytes) -> Node:
        node = self._make(mode)
        self._set_name(parent, name, node)
        return node

    def _make_file(self, node: Node, body: bytes) -> bytes:
        (mode,) = struct.unpack_from("I", body)
        return self._entry(self._make_named(node, mode, _name(body[16:])))

    def _make_directory(self, node: Node, body: bytes) -> bytes:
        (mode,) = struct.unpack_from("I", body)
        return self._entry(self._make_named(node, stat.S_IFDIR | mode, _name(body[8:])))

    def _make_link(self, node: Node, body: bytes) -> bytes:
        name, target = body.split(b"\0")[:2]
        link = self._make_named(node, stat.S_IFLNK | 0o777, name)
        link.content[:] = target
        return self._entry(link)

    def _read_link(self, node: Node, body: bytes) -> bytes:
        return bytes(node.content)

    def _create(self, node: Node, body: bytes) -> bytes:
        (mode,) = struct.unpack_from("I", body, 4)
        made = self._make_named(node, mode, _name(body[16:]))
        return self._entry(made) + self._open(made, b"")

    def _create_unnamed(self, node: Node, body: bytes) -> bytes:
        (mode,) = struct.unpack_from("I", body, 4)
        made = self._make(mode)
        return self._entry(made) + self._open(made, b"")

    def _link(self, node: Node, body: bytes) -> bytes:
        (number,) = struct.unpack_from("Q", body)
        self._set_name(node, _name(body[8:]), self._nodes[number])
        return self._entry(self._nodes[number])

    def _unlink(self, node: Node, body: bytes) -> bytes:
        self._child(node, body)
        self._set_name(node, _name(body), None)
        return b""

    def _remove_directory(self, node: Node, body: bytes) -> bytes:
        if self._child(node, body).entries:
            raise OSError(errno.ENOTEMPTY, "rmdir")
        return self._unlink(node, body)

    def _rename(self, node: Node, body: bytes) -> bytes:
        return self._move(node, body[:8], 0, body[8:])

    def _rename_with_flags(self, node: Node, body: bytes) -> bytes:
        (flags,) = struct.unpack_from("I", body, 8)
        return self._move(node, body[:8], flags, body[16:])

    def _move(self, source: Node, number: bytes, flags: int, names: bytes) -> bytes:
        target = self._nodes[struct.unpack("Q", number)[0]]
        name, new_name = names.split(b"\0")[:2]
        moved, replaced = self._child(source, names), target.entries.get(new_name)
        if flags & NO_REPLACE and replaced is not None:
            raise OSError(errno.EEXIST, "rename")
        if replaced is not None and replaced.entries and not flags & EXCHANGE:
            raise OSError(errno.ENOTEMPTY, "rename")
        self._set_name(source, name, replaced if flags & EXCHANGE else None)
        self._set_name(target, new_name, moved)
        return b""

    def _open(self, node: Node, body: bytes) -> bytes:
        return bytes(16)

    def _nothing(self, node: Node, body: bytes) -> bytes:
        return b""

    def _read(self, node: Node, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("QQI", body)
        return bytes(node.content[offset : offset + size])

    def _write(self, node: Node, body: bytes) -> bytes:
        _, offset, size, _, _, flags = struct.unpack_from("QQIIQI", body)
        node.resize(max(len(node.content), offset + size))
        node.content[offset : offset + size] = body[40 : 40 + size]
        if flags & os.O_DSYNC:
            self._sync(node, b"")
        return struct.pack("II", size, 0)

    def _allocate(self, node: Node, body: bytes) -> bytes:
        _, offset, size, mode = struct.unpack_from("QQQI", body)
        if mode:
            raise OSError(errno.EOPNOTSUPP, "fallocate")
        node.resize(max(len(node.content), offset + size))
        return b""

    def _sync(self, node: Node, body: bytes) -> bytes:
        node.synced_content = bytes(node.content)
        node.keep_names()
        if self._has_journal:
            for each in self._changed:
                each.keep_names()
            self._changed.clear()
        return b""

    def _list(self, node: Node, body: bytes) -> bytes:
        _, offset, room = struct.unpack_from("QQI", body)
        names = [(b".", node), (b"..", node), *node.entries.items()]
        listed = b""
        for place, (name, child) in enumerate(names[offset:], offset + 1):
            kind = child.status["mode"] >> 12
            entry = struct.pack("QQII", child.number, place, len(name), kind) + name
            entry += bytes(-len(entry) % 8)
            if len(listed) + len(entry) > room:
                break
            listed += entry
        return listed

    def _room(self, node: Node, body: bytes) -> bytes:
        blocks = ROOM_BYTES // BLOCK_BYTES
        sizes = (BLOCK_BYTES, 255, BLOCK_BYTES)
        return struct.pack("5Q3I28x", blocks, blocks, blocks, 1 << 20, 1 << 20, *sizes)

    def _set_attribute(self, node: Node, body: bytes) -> bytes:
        size, flags = struct.unpack_from("II", body)
        name, _, rest = body[8:].partition(b"\0")
        if (node.number, name) == (ROOT, CUT.encode()):
            self._cut()
            return b""
        if flags & os.XATTR_CREATE and name in node.attributes:
            raise OSError(errno.EEXIST, "setxattr")
        if flags & os.XATTR_REPLACE and name not in node.attributes:
            raise OSError(errno.ENODATA, "setxattr")
        node.attributes[name] = rest[:size]
        self._changed.add(node)
        return b""

    def _attribute(self, node: Node, body: bytes) -> bytes:
        name = _name(body[8:])
        if name not in node.attributes:
            raise OSError(errno.ENODATA, "getxattr")
        return _fitting(node.attributes[name], body)

    def _list_attributes(self, node: Node, body: bytes) -> bytes:
        return _fitting(b"".join(name + b"\0" for name in node.attributes), body)

    def _remove_attribute(self, node: Node, body: bytes) -> bytes:
        if node.attributes.pop(_name(body), None) is None:
            raise OSError(errno.ENODATA, "removexattr")
        self._changed.add(node)
        return b""


def _name(body: bytes) -> bytes:
    return body.partition(b"\0")[0]


def _now() -> dict[str, int]:
    return dict.fromkeys(("atime", "mtime"), time.time_ns())


def _fitting(value: bytes, body: bytes) -> bytes:
    """Return a value, or its size where the request has no room for it yet."""
    (room,) = struct.unpack_from("I", body)
    if not room:
        return struct.pack("II", len(value), 0)
    if len(value) > room:
        raise OSError(errno.ERANGE, "too small")
    return value


@contextlib.contextmanager
def mounted(directory: Path) -> Iterator[int]:
    """Mount on a directory; yield what requests of the kernel are read from."""
    libc = ctypes.CDLL(None, use_errno=True)
    channel = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={channel},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other"
    if libc.mount(b"unsynced", os.fsencode(directory), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "mount", str(directory))
    try:
        yield channel
    finally:
        libc.umount2(os.fsencode(directory), 2)
        os.close(channel)


def cut(directory: Path, pid_file: Path | None = None) -> None:
    """Kill a process, wait until it is gone, and drop what was not synced."""
    if pid_file is not None:
        pid = int(pid_file.read_text())
        with contextlib.suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            signal.pidfd_send_signal(process, signal.SIGKILL)
            select.select([process], [], [])
    os.setxattr(directory, CUT, b"")


def main() -> None:
    """Serve the file system until it is unmounted, or cut its power."""
    parser = argparse.ArgumentParser("unsynced.py", None, __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    mounting = commands.add_parser("mount")
    mounting.add_argument("directory", type=Path)
    mounting.add_argument("--journal", action="store_true")
    cutting = commands.add_parser("cut")
    cutting.add_argument("directory", type=Path)
    cutting.add_argument("pid_file", type=Path, nargs="?")
    arguments = parser.parse_args()
    if arguments.command == "cut":
        cut(arguments.directory, arguments.pid_file)
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with mounted(arguments.directory) as channel, contextlib.suppress(KeyboardInterrupt):
        FileSystem(has_journal=arguments.journal).serve(channel)


if __name__ == "__main__":
    main()
