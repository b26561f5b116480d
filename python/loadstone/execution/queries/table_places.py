"""Where the tables of a trial lie: in a directory, in a bucket, or in the database of a server."""

import os

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from loadstone.campaign.planning.query_plan import ON_SERVER
from loadstone.documents.mistake import first_mistake
from loadstone.documents.trial import TrialDocument
from loadstone.engines import settings_of
from loadstone.engines.engine import Bucket
from loadstone.engines.places import BucketPlace, DirectoryPlace, TablePlace
from loadstone.engines.settings import EngineSettings, ServerAccess
from loadstone.errors import TargetError
from loadstone.execution import secrets


class PlaceSettings(TypedDict, total=False):
    """What a place needs of a target's settings: a directory's path, or the way to a bucket."""

    __pydantic_config__ = ConfigDict(extra="ignore")  # type: ignore[misc]

    path: str
    endpoints: list[str]
    region: str | None
    access_key: str | dict[str, str] | None
    secret_key: str | dict[str, str] | None
    session_token: str | dict[str, str] | None


def place_settings(document: TrialDocument) -> PlaceSettings:
    """Return what a trial's target says of its place; raise TargetError for what is no setting."""
    target = document["target"]
    try:
        return TypeAdapter(PlaceSettings).validate_python(target["settings"])
    except ValidationError as error:
        raise TargetError(f'target "{target["name"]}": {first_mistake(error)}') from error


def engine_settings(document: TrialDocument) -> EngineSettings:
    """Return the settings of a trial's engine, their secrets resolved."""
    own = document["queries"]
    resolved = secrets.resolved(own.get("settings") or {}, os.environ)
    return settings_of(own["engine"] or "", resolved)


def table_place(document: TrialDocument) -> TablePlace:
    """Return the place of a trial's tables."""
    own, target = document["queries"], document["target"]
    if own["storage"] == ON_SERVER:
        from loadstone.engines.clickhouse_server import DatabasePlace

        access = engine_settings(document)
        assert isinstance(access, ServerAccess), "no other engine keeps tables on a server"
        return DatabasePlace(access, own["place"], own["partitions"])
    settings = place_settings(document)
    if own["is_directory"]:
        return DirectoryPlace(settings["path"], own["place"])
    access_key, secret_key = _value(settings.get("access_key")), _value(settings.get("secret_key"))
    if access_key is None or secret_key is None:
        raise TargetError(
            f'target "{target["name"]}": queries need access_key and secret_key in its settings'
        )
    return BucketPlace(
        Bucket(
            name=own["place"],
            endpoint=settings["endpoints"][0],
            region=settings.get("region") or "us-east-1",
            access_key=access_key,
            secret_key=secret_key,
            session_token=_value(settings.get("session_token")),
        )
    )


def _value(setting: str | dict[str, str] | None) -> str | None:
    return secrets.resolve(setting, os.environ) if isinstance(setting, dict) else setting
