"""Adds pages to the documentation site that are made from code and from the tree.

MkDocs calls `on_files` and `on_page_markdown`. README.md is the home page; ARCHITECTURE.md, the
examples and the like are pages too, and links between them work in the repository and in the site.
"""

import json
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]

SHIM_URL, SHIM = "https://unpkg.com/iframe-worker/shim", "scripts/iframe-worker.js"
"""A script that lets the search work in pages opened from files."""

FROM_THE_TREE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
}
FOR_MAINTAINERS = {"project/architecture.md", "project/contributing.md", "project/changelog.md"}
RARELY_SOUGHT = "---\nsearch: {boost: 0.2}\n---\n"
"""Ranks a page behind those for users when somebody searches the site."""

EXAMPLES = {
    f"examples/{path.name}": f"examples/{path.stem}.md"
    for path in (ROOT / "examples").glob("*.yaml")
}
PAGES = {**FROM_THE_TREE, **EXAMPLES, "examples": "examples/index.md"}
"""Files of the tree outside docs/, and the pages that they are."""

ORIGINS = {page: origin for origin, page in PAGES.items()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    made = {
        page: (RARELY_SOUGHT if page in FOR_MAINTAINERS else "") + (ROOT / origin).read_text()
        for origin, page in FROM_THE_TREE.items()
    }
    made |= dict(_examples())
    made["reference/commands.md"] = commands_page()
    made["reference/campaign-keys.md"] = keys_page()
    for name, text in made.items():
        # Examples are reached from their list, which keeps the menu short.
        page = File.generated(config, name, content=text)
        files.append(page)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files of the tree into links to pages."""
    source = ORIGINS.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return re.sub(
        r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=[)\s])",
        lambda link: _link(link[1], source, page.file.src_uri) + (link[2] or ""),
        markdown,
    )


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Load from the site what the theme would fetch from elsewhere."""
    return output.replace(
        SHIM_URL, f"{posixpath.relpath(SHIM, posixpath.dirname(page.url) or '.')}"
    )


def on_post_template(output: str, *, template_name: str, config: MkDocsConfig) -> str:
    """Do the same in the page for addresses that lead nowhere."""
    return output.replace(SHIM_URL, SHIM)


def _link(target: str, source: str, page: str) -> str:
    """Return a link as it is in the site; one to a file that is no page stays as it is."""
    if re.match(r"[a-z]+:", target):
        return target
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    goal = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
    return target if goal is None else posixpath.relpath(goal, posixpath.dirname(page) or ".")


def _examples() -> Iterator[tuple[str, str]]:
    rows = []
    for origin, page in sorted(EXAMPLES.items()):
        text = (ROOT / origin).read_text()
        head = re.findall(r"^# ?(.*)$", text.partition("\nname:")[0], re.M)[1:]
        about = " ".join(head).partition(". ")[0].rstrip(".")
        name = Path(origin).name
        rows.append(f"- [{name}]({Path(page).name}): {about}.")
        yield page, f"---\nsearch: {{boost: 0.5}}\n---\n# {name}\n\n```yaml\n{text}```\n"
    yield "examples/index.md", "# Examples\n\n" + "\n".join(rows) + "\n"


def commands_page() -> str:
    """Return the reference of the command line: each command's own help."""
    from loadstone import cli
    from loadstone.cli import application

    os.environ["TERMINAL_WIDTH"] = "96"
    parts = ["# Commands\n\nEach command prints this with `--help`.\n"]
    for name in ("", *(command.name for command in cli.COMMANDS)):
        words = [name] if name else []
        done = CliRunner().invoke(application.app, [*words, "--help"], prog_name="loadstone")
        if done.exit_code:
            raise RuntimeError(f"loadstone {name} --help: {done.output}")
        parts.append(f"## loadstone {name}".rstrip() + f"\n\n```text\n{done.output.strip()}\n```\n")
    return "\n".join(parts)


def keys_page() -> str:
    """Return every key of a campaign, from the schema that editors check it by."""
    schema = json.loads((ROOT / "docs/reference/campaign.schema.json").read_text())
    parts = [
        "# Every key of a campaign\n\nMade from the [schema](campaign.schema.json), which editors"
        " check a file by. [The campaign file](campaign.md) explains them.\n"
    ]
    parts += _keys("Campaign", schema)
    for name, part in sorted(schema["$defs"].items()):
        if part.get("properties"):
            parts += _keys(name, part)
    return "\n".join(parts)


def _keys(name: str, part: dict[str, Any]) -> list[str]:
    rows = ["| key | kind | default | meaning |", "|---|---|---|---|"]
    for key, value in part.get("properties", {}).items():
        mark = "required" if key in part.get("required", ()) else _default(value)
        meaning = (value.get("description") or "").replace("|", "\\|").replace("\n", " ")
        rows.append(f"| `{key}` | {_kind(value)} | {mark} | {meaning} |")
    about = (part.get("description") or "").replace("\n", " ")
    return [f"## {name}\n\n{about}\n\n" + "\n".join(rows) + "\n"]


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    return "" if value in (None, "", [], {}) else f"`{json.dumps(value)}`"


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    branches = schema.get("anyOf") or schema.get("oneOf") or ()
    kinds = dict.fromkeys(_kind(each) for each in branches if each.get("type") != "null")
    if kinds:
        return " or ".join(filter(None, kinds))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items') or {}) or 'anything'}"
    return str(schema.get("type") or "")
