"""The environment variables people already have, such as AWS_*, OS_* and CEPH_CONF.

They fill what a target does not say; each driver says which. A secret is only ever referred to, as
{env: NAME}; its value stays in the environment and is read by the load generator when it connects.
What is no secret (an endpoint, a region, a user's name) is taken by value, because a record has to
name what it measured.
"""

import json
from collections.abc import Mapping
from typing import Any

from loadstone import _loadgen


def fill_settings(
    driver: str, settings: Mapping[str, Any], environ: Mapping[str, str]
) -> dict[str, Any]:
    """Return the settings with what is absent taken from the environment, secrets by reference."""
    given = {**settings, "endpoints": settings["endpoint"]} if "endpoint" in settings else settings
    told = {str(name): _as_json(value) for name, value in given.items()}
    added = _loadgen.from_environment(driver, json.dumps(told), dict(environ))
    return {**settings, **json.loads(added)}


def _as_json(value: Any) -> Any:
    """Return what is no JSON, such as a date or an infinity, as text: it only has to be there.

    It will be refused later.
    """
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        return str(value)
