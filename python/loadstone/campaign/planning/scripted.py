"""Scripts in a plan: which script a phase uses, and its trial documents.

Planning opens no files: `make_plan` takes a function that makes the script's files and describes
them (`loadstone/script/planned.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loadstone.campaign.drivers import ProtocolLimits, facts_of
from loadstone.campaign.planning.case import Case
from loadstone.campaign.planning.lifecycle import PREPARE, dataset_of
from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.schema.dataset import FixedSize
from loadstone.campaign.schema.phase import Phase
from loadstone.campaign.schema.script import Script
from loadstone.documents.manifest import ScriptOrigin
from loadstone.documents.trial import (
    HistoryDocument,
    LoadDocument,
    NamedFileDocument,
    TrialDocument,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedKeys:
    """Facts about a script's keys after encryption, without `object_prefix`.

    `longest` is the key with the most bytes when stored, `longest_flat` the one with the longest
    file name. `partial_prefix` is a listed prefix that ends within a path segment; it does not work
    with encrypted keys, which have no common beginning.
    """

    longest: tuple[str, int]
    longest_flat: tuple[str, int]
    partial_prefix: str | None

    def mistake(self, object_prefix: str, limits: ProtocolLimits) -> tuple[str, str] | None:
        """Return the violated limit and the permitted value, or None."""
        if self.partial_prefix is not None:
            return (
                f'a listing of "{self.partial_prefix}", which ends within a name',
                "none, or listings of prefixes that are empty or end in a slash",
            )
        leaf = object_prefix.rpartition("/")[2]
        for limit, prefix, (key, own_bytes), what in (
            (limits.key_bytes_max, object_prefix, self.longest, "a key"),
            (limits.name_bytes_max, leaf, self.longest_flat, "the name of a file"),
        ):
            key_bytes = len(prefix.encode()) + own_bytes
            if limit is not None and key_bytes > limit:
                return (
                    f'"{key}", which becomes {what} of {key_bytes:,} bytes',
                    f"none, or keys that become at most {limit:,} bytes",
                )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedScript:
    """The script that a phase names, with values from the rest of the campaign."""

    script: Script
    size_bytes: int | None
    threads: int
    seed: int
    has_sealed_paths: bool = False
    """Whether paths are encrypted, so that their stored length must be known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFile:
    """A file of requests: its path, its SHA-256, and the counts of its contents."""

    path: str
    sha256: str
    actions: int
    requests: int
    sessions: int
    shares: Mapping[str, int]

    def named(self) -> NamedFileDocument:
        """Return the file's entry for documents."""
        return {"path": self.path, "sha256": self.sha256}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedScript:
    """The planner's facts about a script.

    `prepare` writes objects that must exist before, `read_back` reads each object once.
    """

    subjects_path: str
    subjects_sha256: str
    objects: int
    places: int
    can_share_buckets: bool
    largest_bytes: int
    smallest_bytes: int
    span_ns: int | None
    measured: ScriptFile
    read_back: ScriptFile
    prepare: ScriptFile | None
    origin: ScriptOrigin | None = None
    """Its source, if it is a trace."""
    sealed: SealedKeys | None = None
    """Its keys as stored, if paths are encrypted."""


VERSION_BYTES = 16
"""Objects of at least this size contain their version, which tells a history what a read saw."""

Scripts = Callable[[WantedScript], PlannedScript]


def no_scripts(wanted: WantedScript) -> PlannedScript:
    """Raise an error: plans with scripts need a function that makes them."""
    raise AssertionError(f"make_plan was given no maker of scripts, but needs {wanted}")


def wanted_by(case: Case, phase: Phase, seed: int) -> WantedScript:
    """Return the script that a phase of a case requests."""
    assert phase.script is not None, "the phase has no script"
    size = case.dataset(phase).size
    size_bytes = size.size_bytes if isinstance(size, FixedSize) else None
    return WantedScript(
        script=phase.script,
        size_bytes=size_bytes,
        threads=case.load(phase).clients,
        seed=seed,
        has_sealed_paths=case.dataset(phase).path_encryption != "none",
    )


def mistake(
    script: PlannedScript, case: Case, phase: Phase, document: TrialDocument
) -> KeyMistake | None:
    """Return the first conflict between a script and the rest of its campaign, or None."""
    path, buckets = case.source.path, case.dataset(phase).buckets
    if buckets > 1 and buckets < script.places and not script.can_share_buckets:
        return KeyMistake(
            path(("dataset", "buckets")),
            f"{buckets} buckets for the {script.places} places of the script",
            f"{script.places} or more, so that its listings see what is theirs; or 1",
        )
    index = case.workload.phases.index(phase)
    if phase.script is not None and phase.script.speed is not None and not script.span_ns:
        return KeyMistake(
            path(("phases", index, "script", "speed")),
            "this key with a script without times",
            "this key with a script whose actions have due_ns",
        )
    if document.get("keeps_history") and script.smallest_bytes < VERSION_BYTES:
        return KeyMistake(
            path(("phases", index, "script")),
            f"an object of {script.smallest_bytes} bytes in a campaign with audit.history",
            f"objects of {VERSION_BYTES} bytes or more, whose bytes tell which write they are of",
        )
    if script.sealed is not None:
        limits = facts_of(document["target"]["driver"]).limits
        wrong = script.sealed.mistake(dataset_of(document)["object_prefix"], limits)
        if wrong is not None:
            return KeyMistake(path(("dataset", "path_encryption")), wrong[0],
                              wrong[1])  # fmt: skip
    return None


def with_script(
    document: TrialDocument, script: PlannedScript, speed: float | None
) -> TrialDocument:
    """Return a measured document that follows a script."""
    measured = script.measured
    load: LoadDocument = document["load"]
    if speed is not None:
        assert script.span_ns, "mistake() refused it"
        rate = measured.requests / (script.span_ns / speed / 1e9)
        clients = load["clients"]
        load = {"kind": "open", "rate_per_s": rate, "arrivals": "constant", "clients_max": clients}
    return {
        **document,
        "dataset": {
            **dataset_of(document),
            "objects": script.objects,
            "size": {"kind": "fixed", "bytes": script.largest_bytes},
        },
        "load": load,
        "stop": {**document["stop"], "requests": measured.requests},
        **_following(script, measured, speed),
    }


def prepare_of(
    document: TrialDocument, script: PlannedScript, prepare: TrialDocument
) -> TrialDocument:
    """Return an unmeasured trial that puts the objects that a script expects to exist."""
    assert script.prepare is not None, "the caller has looked"
    history: TrialDocument = {"keeps_history": True} if document.get("keeps_history") else {}
    return {**prepare, "phase": PREPARE, **history, **_dealt(script, script.prepare, document)}


def read_back_of(
    document: TrialDocument, script: PlannedScript, read_back: TrialDocument, *, is_fresh: bool
) -> TrialDocument:
    """Return an unmeasured trial that reads each object once after a script with a history.

    `is_fresh` means that none of the objects existed before the judged trials.
    """
    judged: HistoryDocument = {**(read_back["judged"] or {}), "version": 0 if is_fresh else None}
    return {**read_back, **_dealt(script, script.read_back, document), "judged": judged}


def _dealt(script: PlannedScript, file: ScriptFile, measured: TrialDocument) -> TrialDocument:
    """Return the fields that make an unmeasured trial follow a request file of the script."""
    clients = min(measured["load"].get("clients", 64), max(1, file.sessions))
    return {
        "load": {"kind": "closed", "clients": clients},
        "stop": {"requests": file.requests, "duration_ns": None},
        **_following(script, file, None),
    }


def _following(script: PlannedScript, file: ScriptFile, speed: float | None) -> TrialDocument:
    return {
        "mix": [{"operation": name, "weight": float(n)} for name, n in file.shares.items()],
        "script": {
            "subjects": {"path": script.subjects_path, "sha256": script.subjects_sha256},
            "requests": file.named(),
            "speed": speed,
            "actions": file.actions,
            "sessions": file.sessions,
        },
    }
