"""Reads a campaign file into a Campaign; reports all mistakes at once, with their lines."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from loadstone import _loadgen
from loadstone.campaign import check
from loadstone.campaign.drivers import Drivers, DriverTable, read_drivers
from loadstone.campaign.planning.case import wrong_swept_values
from loadstone.campaign.reading import mistakes, override
from loadstone.campaign.reading import source as campaign_source
from loadstone.campaign.reading.mistakes import KeyMistake, SourceFile
from loadstone.campaign.schema.campaign import Campaign
from loadstone.campaign.schema.json_schema import known_keys
from loadstone.campaign.schema.target import resolve_raw
from loadstone.errors import CampaignError, Mistake, shown


def read_campaign(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    drivers: DriverTable | None = None,
    environ: Mapping[str, str] | None = None,
) -> Campaign:
    """Read a campaign file, apply the overrides, and check the result.

    An override is `KEY=VALUE`, as `--set` takes it: a dotted key and a value written as YAML.
    Settings that a target lacks are taken from the environment (AWS_*, OS_*, ST_*). Without
    `drivers` the load generator's own table is used. Raises CampaignError.
    """
    document = campaign_source.read_document(path)
    return campaign_of(document, overrides, drivers=drivers, environ=environ)


def parse_campaign(
    text: str,
    overrides: Sequence[str] = (),
    *,
    origin: str = "campaign",
    drivers: DriverTable | None = None,
    environ: Mapping[str, str] | None = None,
) -> Campaign:
    """Do the same as `read_campaign` with a text instead of a file."""
    document = campaign_source.parse_document(text, origin)
    return campaign_of(document, overrides, drivers=drivers, environ=environ)


def campaign_of(
    document: campaign_source.Document,
    overrides: Sequence[str] = (),
    *,
    drivers: DriverTable | None = None,
    environ: Mapping[str, str] | None = None,
) -> Campaign:
    """Return the campaign of a document; raise CampaignError with all of its mistakes."""
    table = read_drivers(drivers)
    wrong = list(document.wrong)
    data, overridden = _overridden(document.data, overrides, wrong)
    source = SourceFile(document.origin, document.lines, overridden)
    data = _with_environment(data, os.environ if environ is None else environ)
    campaign, mistakes = validate(data)
    if campaign is None:
        # The rest cannot be checked, but these sections are independent of it.
        mistakes += [*_wrong_targets(data, table), *wrong_swept_values(data)]
        mistakes = _with_hints(data, mistakes)
    else:
        campaign = campaign.with_source(source)
        mistakes += check.campaign_mistakes(campaign, table)
    wrong += [source.place(mistake) for mistake in mistakes]
    if wrong or campaign is None:
        raise CampaignError(_in_order(wrong))
    return campaign


def validate(data: Mapping[str, Any]) -> tuple[Campaign | None, list[KeyMistake]]:
    """Return the campaign from plain values, or their mistakes."""
    try:
        return Campaign.model_validate(data), []
    except ValidationError as error:
        return None, mistakes.translate(error, known_keys())


def _overridden(
    data: dict[str, Any], overrides: Sequence[str], wrong: list[Mistake]
) -> tuple[dict[str, Any], frozenset[mistakes.Path]]:
    paths: set[mistakes.Path] = set()
    for text in overrides:
        key, equals, written = text.partition("=")
        key = key.strip()
        try:
            if not equals or not key:
                raise override.OverrideError(KeyMistake((), shown(text), "KEY=VALUE"))
            data, path = override.with_value(data, key, campaign_source.parse_value(written))
            paths.add(path)
        except override.OverrideError as error:
            wrong.append(_of_override(error.mistake))
        except ValueError as error:
            actual = f"a value that is not YAML ({error})"
            wrong.append(_of_override(KeyMistake((key,), actual, "YAML")))
    return data, frozenset(paths)


def _of_override(mistake: KeyMistake) -> Mistake:
    return Mistake(
        origin=mistakes.SET_ORIGIN,
        key=".".join(str(step) for step in mistake.path),
        actual=mistake.actual,
        allowed=mistake.allowed,
        hint=mistake.hint,
    )


def _with_environment(data: dict[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    targets = data.get("targets")
    if not isinstance(targets, dict):
        return data
    filled = {
        name: fill_settings(str(target.get("driver")), target, environ)
        if isinstance(target, dict)
        else target
        for name, target in targets.items()
    }
    return {**data, "targets": filled}


def _wrong_targets(data: Mapping[str, Any], drivers: Drivers) -> list[KeyMistake]:
    targets = data.get("targets")
    key_mistakes: list[KeyMistake] = []
    for name, target in (targets if isinstance(targets, dict) else {}).items():
        if isinstance(target, dict) and "driver" in target:
            settings = {
                key: value
                for key, value in target.items()
                if key not in ("driver", "replication", "reuse")
            }
            _, wrong = resolve_raw(target["driver"], settings, drivers)
            key_mistakes += [mistake.below(("targets", name)) for mistake in wrong]
    return key_mistakes


def _with_hints(data: Mapping[str, Any], key_mistakes: Sequence[KeyMistake]) -> list[KeyMistake]:
    """Add hints to mistakes where a valid value is in the wrong place."""
    return [
        replace(mistake, hint=_hint_of(data, mistake.path)) if mistake.hint is None else mistake
        for mistake in key_mistakes
    ]


def _hint_of(data: Mapping[str, Any], path: mistakes.Path) -> str | None:
    value: Any = data
    for step in path:
        if not isinstance(value, (dict, list)) or (isinstance(value, dict) and step not in value):
            return None
        value = value[step]  # type: ignore[index]
    targets = data.get("targets")
    if path == ("targets", "driver") and isinstance(targets, dict):
        name = next((key for key, target in targets.items() if target is None), "NAME")
        return f"indent driver and its settings by two spaces more, below {name}:"
    if isinstance(value, list) and path and path[-1] in override.SHORT_KEYS:
        values = ", ".join(map(str, value))
        return f"to measure each of them: sweep: {{{path[-1]}: [{values}]}}"
    return None


def _in_order(wrong: Sequence[Mistake]) -> list[Mistake]:
    unique = list(dict.fromkeys(wrong))
    return sorted(unique, key=lambda mistake: (mistake.line is None, mistake.line or 0))


# Environment variables fill in settings that a target lacks; each driver lists them. Secrets are
# kept as references, {env: NAME}: the load generator reads their values when it connects. Other
# settings (endpoint, region, user name) are taken by value, because a record must name what it
# measured.
def fill_settings(
    driver: str, settings: Mapping[str, Any], environ: Mapping[str, str]
) -> dict[str, Any]:
    """Return settings completed from the environment, with secrets as references."""
    given = {**settings, "endpoints": settings["endpoint"]} if "endpoint" in settings else settings
    plain_settings = {str(name): _as_json(value) for name, value in given.items()}
    added = _loadgen.from_environment(driver, json.dumps(plain_settings), dict(environ))
    return {**settings, **json.loads(added)}


def _as_json(value: Any) -> Any:
    """Convert non-JSON values such as dates or infinities to text; they are refused later."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        return str(value)
