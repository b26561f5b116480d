"""A table of drivers as the load generator gives it, so that campaigns are tested without it."""

from typing import Any

from loadstone.campaign.drivers import Drivers, read_drivers

OBJECT_OPERATIONS = [
    "put",
    "get",
    "range_get",
    "multi_range_get",
    "head",
    "list",
    "delete",
    "bulk_delete",
    "copy",
    "post",
    "multipart_put",
    "create_bucket",
    "delete_bucket",
]


def _setting(name: str, kind: str, *, required: bool = False, choices: tuple[str, ...] = ()) -> Any:
    return {
        "name": name,
        "kind": kind,
        "required": required,
        "default": None,
        "help": f"the {name}",
        "secret": kind == "secret",
        "choices": list(choices),
    }


ROWS: list[dict[str, Any]] = [
    {
        "name": "s3",
        "encrypts": True,
        "operations": OBJECT_OPERATIONS,
        "settings": [
            _setting("endpoints", "texts", required=True),
            _setting("region", "text"),
            _setting("access_key", "text_or_reference"),
            _setting("secret_key", "secret"),
            _setting("session_token", "secret"),
            _setting("profile", "text"),
            _setting("addressing", "choice", choices=("path", "virtual")),
            _setting("tls", "map"),
            _setting("headers", "map"),
        ],
    },
    {
        "name": "swift",
        "encrypts": True,
        # Without copy, so that something cannot be done.
        "operations": [name for name in OBJECT_OPERATIONS if name != "copy"],
        "settings": [
            _setting("auth_url", "text"),
            _setting("auth_version", "number"),
            _setting("user", "text"),
            _setting("password", "secret"),
            _setting("project", "text"),
            _setting("user_domain", "text"),
            _setting("project_domain", "text"),
            _setting("application_credential_id", "text_or_reference"),
            _setting("application_credential_secret", "secret"),
            _setting("region", "text"),
            _setting("interface", "choice", choices=("public", "internal", "admin")),
            _setting("storage_url", "text"),
            _setting("tls", "map"),
        ],
    },
    {
        "name": "file",
        "operations": ["put", "get", "head", "list", "delete", "read", "write", "append"],
        "settings": [
            _setting("path", "text", required=True),
            _setting("direct", "flag"),
            _setting("engine", "choice", choices=("auto", "io_uring", "psync")),
        ],
    },
    {
        "name": "rados",
        "operations": [
            *("put", "get", "range_get", "head", "list", "delete", "read", "write", "append")
        ],
        "settings": [
            _setting("pool", "text", required=True),
            *(_setting(name, "text") for name in ("conf", "keyring", "user", "cluster")),
            _setting("instances", "number"),
            _setting("options", "map"),
        ],
    },
    {
        "name": "block",
        "operations": ["read", "write"],
        "settings": [_setting("path", "text"), _setting("direct", "flag")],
    },
    {"name": "null", "operations": [*OBJECT_OPERATIONS, "read", "write", "append"], "settings": []},
]

DRIVERS: Drivers = read_drivers(ROWS)

STORE = "targets: {store: {driver: s3, endpoint: http://store}}\n"
