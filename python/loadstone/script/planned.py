"""Makes the files of the scripts that a campaign's phases name, for its plan."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc

from loadstone import _loadgen
from loadstone.campaign.planning.scripted import PlannedScript, ScriptFile, SealedKeys, WantedScript
from loadstone.documents.manifest import ScriptOrigin
from loadstone.script.compiled import Checked, Compiled, CompiledScript, check, compile_script
from loadstone.script.generators import find_generator, read_settings
from loadstone.script.mistakes import Mistakes
from loadstone.script.table import Action, read_actions, read_origin

FOLDER = "scripts"
"""The scripts' folder in a run folder."""

Watch = Callable[[Iterator[Action], str], Iterator[Action]]
"""Passes the actions of a named script through, to observe progress."""


class ScriptMaker:
    """Makes the scripts of a plan, each once, in the subfolder `scripts` of a folder.

    Relative paths of a campaign's files start at the campaign's folder.
    """

    def __init__(self, base: Path, *, beside: Path, watch: Watch | None = None) -> None:
        self._folder = base / FOLDER
        self._beside = beside
        self._watch = watch or (lambda actions, _: actions)
        self._made: dict[str, PlannedScript] = {}

    @property
    def folder(self) -> Path:
        """The folder of the files, created with the first script."""
        return self._folder

    @property
    def origins(self) -> dict[str, ScriptOrigin]:
        """The sources of scripts that are traces, by the SHA-256 of their measured requests."""
        return {
            script.measured.sha256: script.origin
            for script in self._made.values()
            if script.origin is not None
        }

    def __call__(self, wanted: WantedScript) -> PlannedScript:
        """Make the files of a script, and return its facts for the planner."""
        known = f"{wanted.script.model_dump_json()} {wanted.size_bytes}"
        if wanted.script.generator is not None:
            known += f" {wanted.threads} {wanted.seed}"
        known += " sealed" if wanted.has_sealed_paths else ""
        if known not in self._made:
            file, origin = wanted.script.file, None
            if file is None:
                name = str(wanted.script.generator)
                checked = check(self._watch(_generated(wanted), name), name)
            else:
                path, mistakes = self._beside / file, Mistakes(file)
                checked = check(self._watch(read_actions(path, mistakes), file), file, mistakes)
                origin = read_origin(path)
            compiled = compile_script(checked, self._folder)
            sealed = _sealed_keys(checked, compiled) if wanted.has_sealed_paths else None
            self._made[known] = replace(_planned(compiled), origin=origin, sealed=sealed)
        return self._made[known]


def _generated(wanted: WantedScript) -> Iterator[Action]:
    generator = find_generator(str(wanted.script.generator))
    written = wanted.script.settings
    settings = {} if written is None else written.model_dump(by_alias=True, exclude_none=True)
    usual = {"size": wanted.size_bytes, "copies": wanted.threads}
    return generator.make(read_settings(generator, {**usual, **settings}), wanted.seed)


def _sealed_keys(checked: Checked, compiled: CompiledScript) -> SealedKeys:
    longest, longest_flat = _loadgen.longest_sealed(compiled.subjects, compiled.subjects_sha256)
    coded = checked.subjects.coded
    listed = coded.filter(pc.starts_with(coded, "p")).to_pylist()
    partial = (prefix for prefix in listed if not prefix.endswith("/"))
    return SealedKeys(
        longest=longest,
        longest_flat=longest_flat,
        partial_prefix=next((prefix.partition("/")[2] for prefix in partial), None),
    )


def _planned(compiled: CompiledScript) -> PlannedScript:
    return PlannedScript(
        subjects_path=f"{FOLDER}/{compiled.subjects.name}",
        subjects_sha256=compiled.subjects_sha256,
        objects=compiled.measured.subjects,
        places=compiled.places,
        can_share_buckets=compiled.can_share_buckets,
        largest_bytes=compiled.largest_bytes,
        smallest_bytes=compiled.smallest_bytes,
        span_ns=compiled.span_ns,
        measured=_file(compiled.measured),
        read_back=_file(compiled.read_back),
        prepare=None if compiled.prepare is None else _file(compiled.prepare),
    )


def _file(compiled: Compiled) -> ScriptFile:
    return ScriptFile(
        path=f"{FOLDER}/{compiled.path.name}",
        sha256=compiled.sha256,
        actions=compiled.actions,
        requests=compiled.requests,
        sessions=compiled.sessions,
        shares=compiled.shares,
    )
