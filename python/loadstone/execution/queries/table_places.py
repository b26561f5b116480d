"""Places of a trial's tables: a directory, a bucket, or a database of a server."""

import os

from loadstone.campaign.planning.query_plan import ON_SERVER
from loadstone.documents.trial import TrialDocument
from loadstone.engines import settings_of
from loadstone.engines.engine import Bucket, EngineSettings, ServerAccess
from loadstone.engines.places import BucketPlace, DirectoryPlace, TablePlace
from loadstone.errors import TargetError
from loadstone.execution import secrets


def engine_settings(document: TrialDocument) -> EngineSettings:
    """Return the settings of a trial's engine with resolved secrets."""
    queries = document["queries"]
    resolved = secrets.resolved(queries.get("settings") or {}, os.environ)
    return settings_of(queries["engine"] or "", resolved)


def table_place(document: TrialDocument) -> TablePlace:
    """Return the place of a trial's tables."""
    queries, target = document["queries"], document["target"]
    if queries["storage"] == ON_SERVER:
        from loadstone.engines.clickhouse_server import DatabasePlace

        access = engine_settings(document)
        assert isinstance(access, ServerAccess), "no other engine keeps tables on a server"
        return DatabasePlace(access, queries["place"], queries["partitions"])
    settings = target["settings"]
    if queries["is_directory"]:
        return DirectoryPlace(settings.get("path") or "", queries["place"])
    endpoints = settings.get("endpoints") or ""
    access_key, secret_key = _value(settings.get("access_key")), _value(settings.get("secret_key"))
    if access_key is None or secret_key is None:
        raise TargetError(
            f'target "{target["name"]}": queries need access_key and secret_key in its settings'
        )
    return BucketPlace(
        Bucket(
            name=queries["place"],
            endpoint=endpoints if isinstance(endpoints, str) else endpoints[0],
            region=settings.get("region") or "us-east-1",
            access_key=access_key,
            secret_key=secret_key,
            session_token=_value(settings.get("session_token")),
        )
    )


def _value(setting: str | dict[str, str] | None) -> str | None:
    return secrets.resolve(setting, os.environ) if isinstance(setting, dict) else setting
