"""The bestiary: published sequences of requests by which stores lost data, run against a target.

To add one, write its function in `sequences.py` and its row here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from loadstone.card import sequences
from loadstone.card.conclusion import Conclusion
from loadstone.card.making import ask_target, shown
from loadstone.card.sequences import Faults
from loadstone.card.store import Store
from loadstone.card.table import ALONE, Question, Where
from loadstone.documents.card import Bestiary, BestiaryAnswer, BestiaryRow, CardAnswer
from loadstone.documents.trial import TargetDocument

SEQUENCE_S: Final = 20.0
"""Time limit of one sequence, in seconds."""
FAULT_S: Final = 180.0
"""Time limit of a sequence that takes the store down, including the user's commands."""
LIMIT_S: Final = 1800.0
ANSWERS: Final[Mapping[CardAnswer, BestiaryAnswer]] = {
    "yes": "passed", "no": "failed", "differs": "failed", "refused": "not applicable",
    "undecided": "undecided",
}  # fmt: skip
SEAWEEDFS, RUSTFS = "https://github.com/seaweedfs/seaweedfs", "https://github.com/rustfs/rustfs"
MINIO, VERSITYGW = "https://github.com/minio/minio", "https://github.com/versity/versitygw"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSequence:
    """One published sequence.

    `needs` are the commands without which it is not applicable; `instead` is the reason why a
    sequence is not run here, and what to run instead. `reference` is the thread that published it.
    """

    number: str
    name: str
    store: str
    text: str
    reference: str
    ask: Callable[[Store], Conclusion] | None = None
    ask_with_faults: Callable[[Store, Faults], Conclusion] | None = None
    needs: tuple[str, ...] = ()
    where: Where = "objects"
    instead: str = ""


# fmt: off
BESTIARY: Final = (
    PublishedSequence(number="B1", name="one-writer-wins", store="versitygw",
        text="32 writers race on one condition: one wins",
        ask=sequences.one_writer_wins, reference=f"{VERSITYGW}/pull/2288"),
    PublishedSequence(number="B2", name="killed-while-completing", store="SeaweedFS",
        text="killed while an upload is completed; what is left of the upload is aborted",
        ask_with_faults=sequences.killed_while_completing, needs=("kill", "start"),
        reference=f"{SEAWEEDFS}/issues/11382"),
    PublishedSequence(number="B3", name="part-again-while-completing", store="SeaweedFS",
        text="a part is sent again while its upload is completed",
        ask=sequences.part_sent_again_while_completing, reference=f"{SEAWEEDFS}/pull/5460"),
    PublishedSequence(number="B4", name="completed-while-suspended", store="SeaweedFS",
        text="an upload is completed on a deleted key, versions suspended",
        ask=sequences.completed_while_suspended, where="versions",
        reference=f"{SEAWEEDFS}/issues/10583"),
    PublishedSequence(number="B5", name="cut-put-over-a-marker", store="SeaweedFS",
        text="a put is cut off after a delete, versions suspended",
        ask=sequences.cut_put_over_a_marker, where="versions",
        reference=f"{SEAWEEDFS}/pull/10589"),
    PublishedSequence(number="B6", name="deleted-from-before-versions", store="SeaweedFS",
        text="an object from before versions is deleted",
        ask=sequences.deleted_from_before_versions, where="versions",
        reference=f"{SEAWEEDFS}/issues/10681"),
    PublishedSequence(number="B7", name="churn-with-versions", store="RustFS",
        text="keys with versions are written and deleted again and again, and listed",
        ask=sequences.churn, where="versions", reference=f"{RUSTFS}/issues/6218"),
    PublishedSequence(number="B8", name="read-after-completion", store="RustFS",
        text="an object is read and copied right after its completion",
        ask=sequences.read_after_completion, reference=f"{RUSTFS}/issues/7056"),
    PublishedSequence(number="B9", name="one-writer-wins-across-endpoints", store="RustFS",
        text="writers race on one condition, each through another address",
        ask=sequences.one_writer_wins_across_endpoints, reference=f"{RUSTFS}/issues/1659"),
    PublishedSequence(number="B10", name="power-cut-after-puts", store="RustFS",
        text="the power is cut after puts",
        ask_with_faults=sequences.power_cut_after_puts, needs=("power_cut", "start"),
        reference=f"{RUSTFS}/pull/4221"),
    PublishedSequence(number="B11", name="copied-onto-itself", store="Ceph RGW",
        text="an object is copied onto itself, and garbage is collected",
        ask_with_faults=sequences.copied_onto_itself, needs=("maintain",),
        reference="https://tracker.ceph.com/issues/70746"),
    PublishedSequence(number="B12", name="slow-part-of-the-same-number", store="Ceph RGW",
        text="a part is uploaded twice, the first time slowly, and completed twice at once",
        ask=sequences.slow_part_of_the_same_number,
        reference="https://tracker.ceph.com/issues/63642"),
    PublishedSequence(number="B13", name="part-beside-abort", store="MinIO",
        text="parts arrive while their upload is aborted",
        ask=sequences.part_beside_abort, reference=f"{MINIO}/issues/21456"),
    PublishedSequence(number="B14", name="conditions-while-degraded", store="MinIO",
        text="conditions that do not hold, below the quorum of reads",
        ask_with_faults=sequences.conditions_while_degraded, needs=("degrade", "restore"),
        reference=f"{MINIO}/issues/21603"),
    PublishedSequence(number="B15", name="condition-on-what-is-absent", store="MinIO",
        text="If-Match where nothing is there",
        ask=sequences.condition_on_what_is_absent, reference=f"{MINIO}/issues/21526"),
    PublishedSequence(number="B16", name="completed-while-degraded", store="MinIO",
        text="an upload is completed while disks stall",
        ask_with_faults=sequences.completed_while_degraded, needs=("degrade", "restore"),
        reference=f"{MINIO}/issues/21646"),
    PublishedSequence(number="B17", name="deleted-while-degraded", store="MinIO",
        text="objects are deleted while disks are away, and listed afterwards",
        ask_with_faults=sequences.deleted_while_degraded, needs=("degrade", "restore"),
        reference=f"{MINIO}/issues/14635"),
    PublishedSequence(number="B18", name="short-reads-at-scale", store="AIStore",
        text="of many large objects in parts a few end early",
        instead="needs some 20,000 large objects: loadstone bench multipart_put TARGET --audit",
        reference="https://github.com/mlcommons/storage/issues/593"),
    PublishedSequence(number="B19", name="versions-written-at-once", store="NooBaa",
        text="5 writers put one key at once: each version is kept",
        ask=sequences.versions_written_at_once, where="versions",
        reference="https://github.com/noobaa/noobaa-core/issues/8316"),
    PublishedSequence(number="B20", name="overwrite-beside-reads", store="s3gw",
        text="an object is read while it is overwritten",
        ask=sequences.overwrite_beside_reads,
        reference="https://github.com/s3gw-tech/s3gw/issues/462"),
    PublishedSequence(number="B20", name="completions-at-once", store="versitygw",
        text="several uploads of one key are completed at once",
        ask=sequences.completions_at_once, reference=f"{VERSITYGW}/issues/873"),
)
# fmt: on
"""In the order of their collection numbers; the last one consists of two sequences."""


def try_bestiary(
    target: TargetDocument,
    commands: Mapping[str, Callable[[], None]],
    *,
    say_left: Callable[[str], None],
    say_freed: Callable[[str], None],
) -> Bestiary:
    """Run all sequences that a target and the fault commands allow.

    Uses the places and clean-up of `ask_target`, and raises the same errors.
    """
    faults = Faults(commands=dict(commands))
    # A power cut may destroy the bucket that the other sequences use, so it is last.
    rows = sorted(BESTIARY, key=lambda row: "power_cut" in row.needs)
    questions = [("", question) for row in rows if (question := _question(row, faults)) is not None]
    asked = ask_target(target, questions, say_left=say_left, say_freed=say_freed, limit_s=LIMIT_S)
    answers = {question.name: answer for _, question, answer in asked.answers}
    return {**asked.facts, "rows": [_row(row, answers.get(row.name)) for row in BESTIARY]}


def _question(row: PublishedSequence, faults: Faults) -> Question | None:
    """Return a sequence as a question; None if it is not applicable."""
    if not faults.commands.keys() >= set(row.needs):
        return None
    if (ask := row.ask_with_faults) is not None:
        return Question(
            row.name, row.text, lambda store: ask(store, faults), turn=ALONE, limit_s=FAULT_S
        )
    if row.ask is None:
        return None
    return Question(row.name, row.text, row.ask, where=row.where, limit_s=SEQUENCE_S)


def _row(row: PublishedSequence, answer: Conclusion | None) -> BestiaryRow:
    if answer is None:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in row.needs)
        answer = Conclusion("refused", row.instead or f"needs {options}")
    return {
        "number": row.number,
        "name": row.name,
        "store": row.store,
        "sequence": row.text,
        "answer": ANSWERS[answer.word],
        "finding": answer.finding or None,
        "detail": shown(answer.detail),
        "reference": row.reference,
    }
