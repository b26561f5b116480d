"""How the tests look into a pool of Ceph without loadstone: with Ceph's own Python bindings.

The bindings belong to the system's interpreter, so each look is a short program run by that.
"""

import json
import subprocess
import sys
from typing import Any

from tests.system.servers.ceph import SYSTEM_PYTHON

PROGRAM = """\
import json, rados, sys
order = json.load(sys.stdin)
with rados.Rados(conffile=order['conf'], name='client.admin') as cluster:
    with cluster.open_ioctx(order['pool']) as pool:
        pool.set_namespace(order.get('bucket', ''))
        key, answer = order.get('key'), None
        if order['action'] == 'buckets':
            pool.set_namespace(rados.LIBRADOS_ALL_NSPACES)
            answer = sorted({found.nspace for found in pool.list_objects()})
        elif order['action'] == 'objects':
            answer = {found.key: pool.stat(found.key)[0] for found in pool.list_objects()}
        elif order['action'] == 'read':
            answer = pool.read(key, 1 << 27).hex()
        elif order['action'] == 'write':
            pool.write_full(key, bytes.fromhex(order['content']))
        elif order['action'] == 'delete':
            pool.remove_object(key)
        elif order['action'] == 'drop':
            for found in list(pool.list_objects()):
                pool.remove_object(found.key)
        json.dump(answer, sys.stdout)
"""


class RadosView:
    """A pool seen by the bindings of Ceph: a bucket is a namespace."""

    def __init__(self, conf: str, pool: str) -> None:
        """Look into one pool."""
        self.order = {"conf": conf, "pool": pool}

    def buckets(self) -> set[str]:
        """Name all namespaces with something in them."""
        return set(self._ask("buckets"))

    def objects(self, bucket: str) -> dict[str, int]:
        """Give the size of each object in a namespace."""
        found: dict[str, int] = self._ask("objects", bucket=bucket)
        return found

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
        order = json.dumps({**self.order, "action": action, **rest})
        done = subprocess.run(
            [SYSTEM_PYTHON, "-c", PROGRAM], input=order, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.stderr.write(done.stderr)
            raise RuntimeError(f'rados: "{action}" {rest.get("bucket", "")} failed')
        return json.loads(done.stdout)
