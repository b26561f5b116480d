"""Generates the drivers' part of the reference from the load generator's table.

Run it (`python -m tests.docs.driver_reference`) after a driver has changed.
"""

import re
from pathlib import Path

from loadstone import units
from loadstone.campaign.drivers import Driver, read_drivers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "targets.md"
LIMITS = {
    "put_bytes_max": ("an object in one request", units.format_bytes),
    "object_bytes_max": ("an object", units.format_bytes),
    "part_bytes_min": ("a part, at least", units.format_bytes),
    "parts_max": ("parts of an object", "{:,}".format),
    "bulk_keys_max": ("objects of one `bulk_delete`", "{:,}".format),
    "key_bytes_max": ("a key", "{:,} bytes".format),
    "name_bytes_max": ("a name between two slashes", "{:,} bytes".format),
}


def marks(name: str) -> tuple[str, str]:
    """Return what stands before and behind the made part of a driver."""
    return f"<!-- facts of {name} -->", f"<!-- end of {name} -->"


def part_of(driver: Driver) -> str:
    """Return the made part of a driver, without its marks."""
    return "\n\n".join(
        ["", f"Operations: {_listed(driver.operations)}.", *_facts(driver), _settings(driver), ""]
    )


def written() -> dict[str, str]:
    """Return the made parts as they stand in the reference."""
    text = PAGE.read_text()
    parts = {}
    for name in read_drivers():
        start, end = marks(name)
        match = re.search(f"{re.escape(start)}(.*?){re.escape(end)}", text, re.S)
        parts[name] = match[1].strip() if match else ""
    return parts


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _settings(driver: Driver) -> str:
    if not driver.settings:
        return "No settings."
    rows = ["| setting | required | kind | default | meaning |", "|---|---|---|---|---|"]
    for setting in driver.settings:
        kind = ", ".join(setting.choices) or setting.kind.replace("_", " ")
        required = "yes" if setting.required else ""
        rows.append(
            f"| `{setting.name}` | {required} | {kind} | {setting.default or ''} | {setting.help} |"
        )
    return "\n".join(rows)


def _facts(driver: Driver) -> list[str]:
    facts = driver.facts
    lines = [f"- Objects are in: a {facts.place}." if facts.keeps else "- Keeps nothing."]
    if facts.words:
        lines.append(f"- In one word (`loadstone bench`): {_listed(facts.words)}.")
    variables = [variable for group in facts.environment for variable in group]
    if variables:
        shown = dict.fromkeys(
            f"`{' '.join(filter(None, (variable.name, variable.argument)))}` (`{variable.setting}`"
            f"{', by reference' if variable.is_secret else ''})"
            for variable in variables
        )
        lines.append(f"- From the environment: {', '.join(shown)}.")
    rule = facts.bucket_names
    letters = "letters, underscores" if rule.capitals_and_underscores else "lower-case letters"
    lines.append(
        f"- Names of buckets: {rule.length_min} to {rule.length_max} characters: {letters}, digits,"
        " dots, dashes."
    )
    limits = [
        f"{what} {shown(value)}"
        for name, (what, shown) in LIMITS.items()
        if (value := getattr(facts.limits, name)) is not None
    ]
    if limits:
        lines.append(f"- Limits: {'; '.join(limits)}.")
    throttling = facts.throttling
    if throttling.statuses or throttling.codes:
        codes = f"; 503 with the code {_listed(throttling.codes)}" if throttling.codes else ""
        statuses = ", ".join(map(str, throttling.statuses))
        lines.append(f"- Counted as `throttled`: {statuses}{codes}.")
    if facts.calibration is not None:
        lines.append(f"- Can be calibrated: {_listed(facts.calibration.can)}.")
    return ["\n".join(lines)]


def write() -> None:
    """Write the made parts anew."""
    text = PAGE.read_text()
    for name, driver in read_drivers().items():
        start, end = marks(name)
        made = f"{start}{part_of(driver)}{end}"
        text = re.sub(
            f"{re.escape(start)}.*?{re.escape(end)}", lambda _, made=made: made, text, flags=re.S
        )
    PAGE.write_text(text)


if __name__ == "__main__":
    write()
