"""The configuration files of a small Swift: six devices, three storage policies, one proxy."""

import getpass
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.system.servers.processes import HOST

DEVICES = [f"d{number}" for number in range(6)]
POLICIES = ["single", "triple", "ec"]
SERVICE_PASSWORD = "swift-service-secret"
TEMPAUTH_USER, TEMPAUTH_KEY = "test:tester", "testing-secret"

# The prefix of the accounts that each way to log in leads to.
PREFIXES = {"tempauth": "AUTH", "keystone": "KEY"}


@dataclass(frozen=True)
class Ports:
    """The port of each process."""

    proxy: int
    account: int
    container: int
    object: int
    memcached: int
    keystone: int

    @classmethod
    def from_first(cls, first: int) -> "Ports":
        """Take six ports in a row."""
        return cls(*range(first, first + 6))


def write(directory: Path, ports: Ports, auth: str) -> None:
    """Write every file that the Swift processes read into `directory/etc`."""
    etc = directory / "etc"
    etc.mkdir(exist_ok=True)
    for device in DEVICES:
        (directory / "devices" / device).mkdir(parents=True)
    (etc / "swift.conf").write_text(_policies())
    (etc / "rings.py").write_text(RINGS)
    (etc / "launch.py").write_text(LAUNCH)
    (etc / "proxy-server.conf").write_text(_proxy(directory, ports, auth))
    for service in ("account", "container", "object"):
        text = _storage_server(directory, service, getattr(ports, service))
        (etc / f"{service}-server.conf").write_text(text)


def _policies() -> str:
    return textwrap.dedent("""\
        [swift-hash]
        swift_hash_path_prefix = loadstone
        swift_hash_path_suffix = test
        [storage-policy:0]
        name = single
        policy_type = replication
        default = yes
        [storage-policy:1]
        name = triple
        policy_type = replication
        [storage-policy:2]
        name = ec
        policy_type = erasure_coding
        ec_type = liberasurecode_rs_vand
        ec_num_data_fragments = 4
        ec_num_parity_fragments = 2
        ec_object_segment_size = 1048576
        """)


def _default_section(directory: Path, port: int) -> str:
    return textwrap.dedent(f"""\
        [DEFAULT]
        bind_ip = {HOST}
        bind_port = {port}
        # no fork: one process for each server, so that its pid is the one that was started
        workers = 0
        user = {getpass.getuser()}
        swift_dir = {directory}/etc
        devices = {directory}/devices
        mount_check = false
        disable_fallocate = true
        fallocate_reserve = 0
        log_level = WARNING
        log_udp_host =
        conn_timeout = 5
        node_timeout = 60
        recon_cache_path = {directory}/run
        run_dir = {directory}/run
        """)


def _storage_server(directory: Path, service: str, port: int) -> str:
    return _default_section(directory, port) + textwrap.dedent(f"""\
        [pipeline:main]
        pipeline = healthcheck {service}-server
        [filter:healthcheck]
        use = egg:swift#healthcheck
        [app:{service}-server]
        use = egg:swift#{service}
        log_requests = false
        """)


def _proxy(directory: Path, ports: Ports, auth: str) -> str:
    pipeline = ["catch_errors", "gatekeeper", "healthcheck", "cache", "listing_formats", "bulk"]
    pipeline += ["tempurl", "s3api"]
    if auth in ("keystone", "both"):
        pipeline += ["authtoken", "s3token", "keystoneauth"]
    if auth in ("tempauth", "both"):
        # Behind keystoneauth, which would overwrite the decision of a filter before it.
        pipeline += ["tempauth"]
    pipeline += ["copy", "container-quotas", "account-quotas", "slo", "dlo", "versioned_writes"]
    pipeline += ["symlink", "proxy-server"]
    main = f"[pipeline:main]\npipeline = {' '.join(pipeline)}\n"
    text = _default_section(directory, ports.proxy) + main + _PROXY_FILTERS
    return text.format(
        memcached=f"{HOST}:{ports.memcached}",
        keystone=f"http://{HOST}:{ports.keystone}",
        prefix=PREFIXES["keystone"],
        password=SERVICE_PASSWORD,
        tempauth_key=TEMPAUTH_KEY,
    )


_PROXY_FILTERS = """\
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
allow_account_management = true
error_suppression_limit = 100000
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:cache]
use = egg:swift#memcache
memcache_servers = {memcached}
memcache_max_connections = 8
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
[filter:tempurl]
use = egg:swift#tempurl
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
# The check knows the stock orders only, and both ways to log in at once is not one of them.
auth_pipeline_check = false
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
www_authenticate_uri = {keystone}
auth_url = {keystone}
auth_type = password
username = swift
password = {password}
project_name = service
user_domain_id = default
project_domain_id = default
delay_auth_decision = true
cache = swift.cache
token_cache_time = 300
include_service_catalog = false
service_token_roles_required = true
[filter:s3token]
use = egg:swift#s3token
auth_uri = {keystone}/v3
reseller_prefix = {prefix}
delay_auth_decision = true
secret_cache_duration = 300
auth_type = password
auth_url = {keystone}/v3
username = swift
password = {password}
project_name = service
user_domain_id = default
project_domain_id = default
[filter:keystoneauth]
use = egg:swift#keystoneauth
reseller_prefix = {prefix}
operator_roles = admin, member, swiftoperator
reseller_admin_role = ResellerAdmin
allow_overrides = true
[filter:tempauth]
use = egg:swift#tempauth
reseller_prefix = AUTH
token_life = 86400
user_test_tester = {tempauth_key} .admin
user_test2_tester2 = {tempauth_key} .admin
[filter:copy]
use = egg:swift#copy
[filter:container-quotas]
use = egg:swift#container_quotas
[filter:account-quotas]
use = egg:swift#account_quotas
[filter:slo]
use = egg:swift#slo
# Reads of many small segments are slowed down on purpose by default.
rate_limit_after_segment = 1000000
[filter:dlo]
use = egg:swift#dlo
rate_limit_after_segment = 1000000
[filter:versioned_writes]
use = egg:swift#versioned_writes
allow_versioned_writes = true
allow_object_versioning = true
[filter:symlink]
use = egg:swift#symlink
"""

# All rings in one process: the command-line tool starts an interpreter for each of 40 steps.
RINGS = f"""\
import sys
from swift.common.ring import RingBuilder
etc, account, container, object_ = sys.argv[1], *map(int, sys.argv[2:])
devices = {DEVICES!r}
rings = [('account', 1, account), ('container', 1, container), ('object', 1, object_),
         ('object-1', 3, object_), ('object-2', 6, object_)]
for name, replicas, port in rings:
    builder = RingBuilder(6, replicas, 0)
    for number, device in enumerate(devices):
        builder.add_dev(dict(id=number, region=1, zone=number + 1, weight=100, device=device,
                             ip='{HOST}', port=port, meta='',
                             replication_ip='{HOST}', replication_port=port))
    builder.rebalance(seed=1)
    builder.get_ring().save(f'{{etc}}/{{name}}.ring.gz')
"""

# Storage policies are read when the servers are imported: `swift_dir` in their own files comes
# too late, so the path of swift.conf is set before.
LAUNCH = """\
import importlib, os, sys
etc, service = sys.argv[1:3]
import swift.common.utils
swift.common.utils.SWIFT_CONF_FILE = os.path.join(etc, 'swift.conf')
module = {'object': 'swift.obj.server'}.get(service, f'swift.{service}.server')
sys.argv = [f'swift-{service}-server', os.path.join(etc, f'{service}-server.conf')]
sys.exit(importlib.import_module(module).main())
"""
