"""Keystone v3 over sqlite, with a service user for Swift and a project `demo`."""

import base64
import json
import os
import shutil
import sqlite3
import urllib.request
from pathlib import Path
from typing import Any

from tests.system.servers.install import CACHE, python_of
from tests.system.servers.processes import HOST, Processes, ServerError, answers
from tests.system.servers.swift_files import PREFIXES, SERVICE_PASSWORD, Ports

ADMIN_PASSWORD = "admin-secret-of-keystone"
DEMO_USER, DEMO_PASSWORD, DEMO_PROJECT = "demo", "demo-secret-of-keystone", "demo"
REGION = "RegionOne"

# Filling a database takes most of the first start, so later starts copy it. Increase the number
# when the contents change.
TEMPLATE = CACHE / "keystone-template-1"


def prepare(directory: Path, processes: Processes, ports: Ports) -> bool:
    """Write the configuration and the database; return whether the database is still empty."""
    home = directory / "keystone"
    (directory / "etc" / "keystone.conf").write_text(_configuration(directory, ports))
    (directory / "etc" / "keystone_launch.py").write_text(_LAUNCH)
    if TEMPLATE.exists():
        shutil.copytree(TEMPLATE, home)
        _move_endpoints(home, ports)
        return False
    home.mkdir()
    for keys in ("fernet-keys", "credential-keys"):
        (home / keys).mkdir(mode=0o700)
        for number in "01":
            key = home / keys / number
            key.write_bytes(base64.urlsafe_b64encode(os.urandom(32)))
            key.chmod(0o600)
    python = python_of("keystone")
    manage = [python, "-W", "ignore", python.with_name("keystone-manage")]
    manage += ["--config-file", directory / "etc" / "keystone.conf"]
    processes.run("keystone-db-sync", [*manage, "db_sync"])
    url = f"http://{HOST}:{ports.keystone}/v3"
    bootstrap = ["bootstrap", "--bootstrap-region-id", REGION]
    for interface in ("admin", "public", "internal"):
        bootstrap += [f"--bootstrap-{interface}-url", url]
    password = {"OS_BOOTSTRAP_PASSWORD": ADMIN_PASSWORD}
    processes.run("keystone-bootstrap", [*manage, *bootstrap], password)
    return True


def start(directory: Path, processes: Processes, ports: Ports) -> None:
    """Start the identity service."""
    environment = {
        "OS_KEYSTONE_CONFIG_DIR": str(directory / "etc"),
        "OS_KEYSTONE_CONFIG_FILES": "keystone.conf",
    }
    launch = directory / "etc" / "keystone_launch.py"
    command = [python_of("keystone"), "-W", "ignore", launch, str(ports.keystone)]
    processes.start("keystone", command, environment)


def fill(directory: Path, processes: Processes, ports: Ports, is_new: bool) -> dict[str, str]:
    """Wait for the service; create users, roles and endpoints in a new database."""
    url = f"http://{HOST}:{ports.keystone}/v3"
    processes.wait_for("keystone", lambda: answers(url))
    home = directory / "keystone"
    if is_new:
        _fill(home, url, ports)
        _keep_as_template(home, ports)
    login: dict[str, str] = json.loads((home / "demo.json").read_text())
    return {"auth_url": url, **login}


def account_of(login: dict[str, str]) -> tuple[str, str]:
    """Log in as a client does; give back the URL of the account in Swift, and a token."""
    token, answer = _login(login["auth_url"], login["user"], login["password"], login["project"])
    services = {service["type"]: service["endpoints"] for service in answer["token"]["catalog"]}
    for endpoint in services["object-store"]:
        if endpoint["interface"] == "public":
            return endpoint["url"], token
    raise ServerError("the catalogue of Keystone names no public object store")


def _fill(home: Path, url: str, ports: Ports) -> None:
    token, _ = _login(url, "admin", ADMIN_PASSWORD, "admin")

    def ask(method: str, path: str, body: Any = None) -> Any:
        return _call(method, url + path, body, token)[1]

    roles = {role["name"]: role["id"] for role in ask("GET", "/roles")["roles"]}
    for name in ("swiftoperator", "ResellerAdmin", "member", "service"):
        if name not in roles:
            roles[name] = ask("POST", "/roles", {"role": {"name": name}})["role"]["id"]
    projects, users = {}, {}
    for name in ("service", DEMO_PROJECT):
        body = {"project": {"name": name, "domain_id": "default"}}
        projects[name] = ask("POST", "/projects", body)["project"]["id"]
    for name, password in (("swift", SERVICE_PASSWORD), (DEMO_USER, DEMO_PASSWORD)):
        body = {"user": {"name": name, "password": password, "domain_id": "default"}}
        users[name] = ask("POST", "/users", body)["user"]["id"]
    for user, project, role in (
        ("swift", "service", "admin"),
        ("swift", "service", "service"),
        (DEMO_USER, DEMO_PROJECT, "member"),
        (DEMO_USER, DEMO_PROJECT, "swiftoperator"),
    ):
        ask("PUT", f"/projects/{projects[project]}/users/{users[user]}/roles/{roles[role]}")
    body = {"service": {"type": "object-store", "name": "swift"}}
    service = ask("POST", "/services", body)["service"]["id"]
    account = f"http://{HOST}:{ports.proxy}/v1/{PREFIXES['keystone']}_%(project_id)s"
    for interface in ("public", "internal", "admin"):
        endpoint = {"service_id": service, "interface": interface, "region_id": REGION}
        ask("POST", "/endpoints", {"endpoint": {**endpoint, "url": account}})
    _keep_demo_login(home, url, users[DEMO_USER], projects[DEMO_PROJECT])


def _keep_demo_login(home: Path, url: str, user: str, project: str) -> None:
    token, _ = _login(url, DEMO_USER, DEMO_PASSWORD, DEMO_PROJECT)
    path = f"{url}/users/{user}/credentials/OS-EC2"
    pair = _call("POST", path, {"tenant_id": project}, token)[1]["credential"]
    body = {"application_credential": {"name": "loadstone"}}
    path = f"{url}/users/{user}/application_credentials"
    application = _call("POST", path, body, token)[1]["application_credential"]
    login = {
        "user": DEMO_USER,
        "password": DEMO_PASSWORD,
        "project": DEMO_PROJECT,
        "region": REGION,
        "application_credential_id": application["id"],
        "application_credential_secret": application["secret"],
        "s3_access_key": pair["access"],
        "s3_secret_key": pair["secret"],
    }
    (home / "demo.json").write_text(json.dumps(login))


def _login(url: str, user: str, password: str, project: str) -> tuple[str, Any]:
    who = {"name": user, "domain": {"id": "default"}, "password": password}
    identity = {"methods": ["password"], "password": {"user": who}}
    scope = {"project": {"name": project, "domain": {"id": "default"}}}
    body = {"auth": {"identity": identity, "scope": scope}}
    return _call("POST", f"{url}/auth/tokens", body, None)


def _call(method: str, url: str, body: Any, token: str | None) -> tuple[str, Any]:
    headers = {"Content-Type": "application/json"} | ({"X-Auth-Token": token} if token else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
        return answer.headers.get("X-Subject-Token", ""), json.loads(text) if text else None


def _keep_as_template(home: Path, ports: Ports) -> None:
    unfinished = TEMPLATE.with_name(f"{TEMPLATE.name}.{os.getpid()}")
    shutil.copytree(home, unfinished, ignore=shutil.ignore_patterns("keystone.db*"))
    with (
        sqlite3.connect(home / "keystone.db") as source,
        sqlite3.connect(unfinished / "keystone.db") as target,
    ):
        source.backup(target)
    (unfinished / "ports.json").write_text(json.dumps([ports.proxy, ports.keystone]))
    try:
        unfinished.rename(TEMPLATE)
    except OSError as error:
        # Another start was quicker, and its database is equivalent.
        shutil.rmtree(unfinished)
        if not TEMPLATE.exists():
            raise ServerError(f"cannot keep {TEMPLATE}") from error


def _move_endpoints(home: Path, ports: Ports) -> None:
    old = json.loads((home / "ports.json").read_text())
    statement = "UPDATE endpoint SET url = replace(url, ?, ?)"
    with sqlite3.connect(home / "keystone.db") as database:
        for before, now in zip(old, (ports.proxy, ports.keystone), strict=True):
            # In two steps, so that a new port which equals an old one is not replaced twice.
            database.execute(statement, (f"{HOST}:{before}/", f"{HOST}:moved-{now}/"))
        database.execute(statement, (f"{HOST}:moved-", f"{HOST}:"))
    database.close()


def _configuration(directory: Path, ports: Ports) -> str:
    home = directory / "keystone"
    return f"""\
[DEFAULT]
log_file = {directory}/log/keystone-requests.log
public_endpoint = http://{HOST}:{ports.keystone}
[database]
connection = sqlite:///{home}/keystone.db
[token]
provider = fernet
expiration = 86400
[fernet_tokens]
key_repository = {home}/fernet-keys
[fernet_receipts]
key_repository = {home}/fernet-keys
[credential]
key_repository = {home}/credential-keys
[identity]
password_hash_rounds = 4
[cache]
enabled = true
backend = dogpile.cache.memory
"""


# Keystone reads the command line when it is imported, so ours is removed before.
_LAUNCH = f"""\
import sys
port = int(sys.argv[1])
del sys.argv[1:]
import waitress
from keystone.server.wsgi import initialize_public_application
waitress.serve(initialize_public_application(), host='{HOST}', port=port, threads=4)
"""
