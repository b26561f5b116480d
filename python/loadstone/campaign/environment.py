"""The environment variables people already have: AWS_*, OS_*, ST_*, CEPH_CONF and CEPH_ARGS.

They fill what a target does not say. A secret is only ever referred to, as {env: NAME}; its value
stays in the environment and is read by the load generator when it connects. What is no secret (an
endpoint, a region, a user's name) is taken by value, because a record has to name what it measured.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable and the setting it fills."""

    name: str
    setting: str
    is_secret: bool = False


AWS = (
    Variable("AWS_ENDPOINT_URL_S3", "endpoints"),
    Variable("AWS_ENDPOINT_URL", "endpoints"),
    Variable("AWS_REGION", "region"),
    Variable("AWS_DEFAULT_REGION", "region"),
)
AWS_KEYS = (
    Variable("AWS_ACCESS_KEY_ID", "access_key", is_secret=True),
    Variable("AWS_SECRET_ACCESS_KEY", "secret_key", is_secret=True),
    Variable("AWS_SESSION_TOKEN", "session_token", is_secret=True),
)
AWS_PROFILE = (Variable("AWS_PROFILE", "profile"),)
OPENSTACK = (
    Variable("OS_AUTH_URL", "auth_url"),
    Variable("OS_STORAGE_URL", "storage_url"),
    Variable("OS_PROJECT_NAME", "project"),
    Variable("OS_TENANT_NAME", "project"),
    Variable("OS_USER_DOMAIN_NAME", "user_domain"),
    Variable("OS_PROJECT_DOMAIN_NAME", "project_domain"),
    Variable("OS_REGION_NAME", "region"),
)
OPENSTACK_PASSWORD = (
    Variable("OS_USERNAME", "user"),
    Variable("OS_PASSWORD", "password", is_secret=True),
)
OPENSTACK_APPLICATION = (
    Variable("OS_APPLICATION_CREDENTIAL_ID", "application_credential_id"),
    Variable("OS_APPLICATION_CREDENTIAL_SECRET", "application_credential_secret", is_secret=True),
)
CEPH = (Variable("CEPH_CONF", "conf"),)
# What Ceph's own commands read from CEPH_ARGS before anything else; librados reads the rest of it.
CEPH_ARGUMENTS = {
    "--conf": "conf",
    "-c": "conf",
    "--name": "user",
    "-n": "user",
    "--id": "user",
    "--user": "user",
    "--cluster": "cluster",
    "--keyring": "keyring",
    "-k": "keyring",
}
SWIFT_V1 = (
    Variable("ST_AUTH", "auth_url"),
    Variable("ST_USER", "user"),
    Variable("ST_KEY", "password", is_secret=True),
)


def fill_settings(
    driver: str, settings: Mapping[str, Any], environ: Mapping[str, str]
) -> dict[str, Any]:
    """Return the settings with what is absent taken from the environment, secrets by reference.

    Credentials are filled as a set or not at all: half of a file's and half of the environment's
    would belong to nobody.
    """
    match driver:
        case "s3":
            return _fill_s3(dict(settings), environ)
        case "swift":
            return _fill_swift(dict(settings), environ)
        case "rados":
            return _fill_rados(settings, environ)
    return dict(settings)


def _fill_s3(settings: dict[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    has_endpoint = "endpoint" in settings
    filled = _filled(settings, AWS, environ, skip={"endpoints"} if has_endpoint else set())
    if not {"access_key", "secret_key", "session_token", "profile"} & filled.keys():
        if {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} <= environ.keys():
            filled = _filled(filled, AWS_KEYS, environ)
        else:
            filled = _filled(filled, AWS_PROFILE, environ)
    return _with_authority(filled, environ.get("AWS_CA_BUNDLE"))


def _fill_swift(settings: dict[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    auth_url = settings.get("auth_url")
    # A target that names a version-1 address, or an environment that has no other, means ST_*.
    is_v1 = settings.get("auth_version") == 1 or "/auth/v1" in str(auth_url or "")
    if is_v1 or (auth_url is None and "OS_AUTH_URL" not in environ and "ST_AUTH" in environ):
        has_key = "password" in settings
        return _filled(settings, SWIFT_V1, environ, skip={"password"} if has_key else set())
    filled = _filled(settings, OPENSTACK, environ)
    if not {"user", "password", "application_credential_id"} & filled.keys():
        is_application = "OS_APPLICATION_CREDENTIAL_ID" in environ
        family = OPENSTACK_APPLICATION if is_application else OPENSTACK_PASSWORD
        filled = _filled(filled, family, environ)
    elif "user" in filled and "password" not in filled:
        # The password of somebody else would only make a confusing refusal.
        owner = environ.get("OS_USERNAME")
        if owner in (None, filled["user"]):
            filled = _filled(filled, OPENSTACK_PASSWORD, environ)
    interface = environ.get("OS_INTERFACE") or environ.get("OS_ENDPOINT_TYPE")
    if interface and "interface" not in filled:
        filled["interface"] = interface.removesuffix("URL")
    return _with_authority(filled, environ.get("OS_CACERT"))


def _fill_rados(settings: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    filled = _ceph_arguments(environ.get("CEPH_ARGS", "")) | dict(settings)
    return _filled(filled, CEPH, environ)


def _ceph_arguments(text: str) -> dict[str, Any]:
    """Read `--id admin`, `--id=admin` and the like; what else there is says nothing of a target."""
    try:
        words = shlex.split(text)
    except ValueError:
        # An unclosed quotation mark: Ceph's own commands will say so.
        return {}
    found: dict[str, Any] = {}
    for word, following in pairwise([*words, ""]):
        name, has_value, value = word.partition("=")
        if name in CEPH_ARGUMENTS and (has_value or following):
            found[CEPH_ARGUMENTS[name]] = value if has_value else following
    return found


def _filled(
    settings: Mapping[str, Any],
    variables: tuple[Variable, ...],
    environ: Mapping[str, str],
    skip: set[str] | None = None,
) -> dict[str, Any]:
    filled = dict(settings)
    for variable in variables:
        is_taken = variable.setting in filled or variable.setting in (skip or set())
        if is_taken or not environ.get(variable.name):
            continue
        reference = {"env": variable.name}
        filled[variable.setting] = reference if variable.is_secret else environ[variable.name]
    return filled


def _with_authority(settings: dict[str, Any], ca_file: str | None) -> dict[str, Any]:
    if ca_file and "tls" not in settings:
        settings["tls"] = {"ca_file": ca_file}
    return settings
