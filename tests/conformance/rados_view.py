"""How the tests look into a pool of Ceph without loadstone: with Ceph's own Python bindings.

The bindings belong to the system's interpreter, so one process of that does all looks of a view.
"""

import json
import subprocess
import sys
import weakref
from typing import Any

from tests.system.servers.ceph import SYSTEM_PYTHON

PROGRAM = """\
import json, rados, sys

def do(order):
    pool.set_namespace(order.get('bucket', ''))
    key, action = order.get('key'), order['action']
    if action == 'buckets':
        pool.set_namespace(rados.LIBRADOS_ALL_NSPACES)
        return sorted({found.nspace for found in pool.list_objects()})
    if action == 'objects':
        return {found.key: pool.stat(found.key)[0] for found in pool.list_objects()}
    if action == 'read':
        return pool.read(key, 1 << 27).hex()
    if action == 'write':
        pool.write_full(key, bytes.fromhex(order['content']))
    if action == 'delete':
        pool.remove_object(key)
    if action == 'drop':
        for found in list(pool.list_objects()):
            pool.remove_object(found.key)

with rados.Rados(conffile=sys.argv[1], name='client.admin') as cluster:
    with cluster.open_ioctx(sys.argv[2]) as pool:
        for line in sys.stdin:
            try:
                answer = {'answer': do(json.loads(line))}
            except rados.Error as error:
                answer = {'error': str(error)}
            print(json.dumps(answer), flush=True)
"""


class RadosView:
    """A pool seen by the bindings of Ceph: a bucket is a namespace."""

    def __init__(self, conf: str, pool: str) -> None:
        """Look into one pool."""
        self.command = [SYSTEM_PYTHON, "-c", PROGRAM, conf, pool]
        self.process: subprocess.Popen[str] | None = None

    def buckets(self) -> set[str]:
        """Name all namespaces with something in them."""
        return set(self._ask("buckets"))

    def objects(self, bucket: str) -> dict[str, int]:
        """Give the size of each object in a namespace."""
        sizes: dict[str, int] = self._ask("objects", bucket=bucket)
        return sizes

    def read(self, bucket: str, key: str) -> bytes:
        """Read a whole object."""
        return bytes.fromhex(self._ask("read", bucket=bucket, key=key))

    def write(self, bucket: str, key: str, content: bytes) -> None:
        """Write a whole object."""
        self._ask("write", bucket=bucket, key=key, content=content.hex())

    def delete(self, bucket: str, key: str) -> None:
        """Delete an object."""
        self._ask("delete", bucket=bucket, key=key)

    def make_bucket(self, bucket: str) -> None:
        """Do nothing: a namespace is there as soon as something is in it."""

    def drop_bucket(self, bucket: str) -> None:
        """Delete all in a namespace."""
        self._ask("drop", bucket=bucket)

    def _ask(self, action: str, **rest: str) -> Any:
        # A cluster that was restarted is connected to anew.
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            weakref.finalize(self, self.process.kill)
        orders, answers = self.process.stdin, self.process.stdout
        assert orders is not None
        assert answers is not None
        orders.write(json.dumps({"action": action, **rest}) + "\n")
        orders.flush()
        document = json.loads(answers.readline() or '{"error": "the process of the view ended"}')
        if "error" in document:
            what = f"{action} {rest.get('bucket', '')} {rest.get('key', '')}"
            print(f"rados: {what}: {document['error']}", file=sys.stderr)
            raise RuntimeError(f"rados: {what} failed")
        return document["answer"]
