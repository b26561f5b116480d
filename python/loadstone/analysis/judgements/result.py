"""A result: one operation of one case over its trials, judged once.

Rates, spreads and standings are computed here alone; reports, comparisons, histories and thresholds
read them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.judgements.standing import Standing, reason_words, standing_of
from loadstone.analysis.limits.verdict import Verdict
from loadstone.documents.outcomes import NO_FAILURES
from loadstone.results.record import Record


@dataclass(frozen=True, kw_only=True)
class Result(Cell):
    """A cell that has been judged.

    `verdict` is its limit, `reasons` are the ids of the rules behind its standing, and `example` is
    the first message of its most frequent error.
    """

    verdict: Verdict | None
    standing: Standing
    reasons: tuple[str, ...]
    example: str

    @property
    def is_void(self) -> bool:
        """Whether it must not be used."""
        return self.standing == "void"

    @property
    def is_bound(self) -> bool:
        """Whether the target can do at least so much."""
        return self.standing == "bound"

    @property
    def limit(self) -> str:
        """The id of its limit; empty if nothing was asked."""
        return self.verdict.rule if self.verdict is not None else ""

    @property
    def limit_words(self) -> str:
        """Its limit in words, or the reason why it is void."""
        is_invalid = self.verdict is not None and self.verdict.effect == "invalid"
        if self.is_void and not is_invalid:
            return reason_words(self.reasons[0])
        if self.verdict is None:
            return ""
        return reason_words(self.verdict.limit if is_invalid else self.limit)

    @property
    def remarks(self) -> tuple[str, ...]:
        """The labels that are no reasons of its standing."""
        return tuple(label for label in self.labels if label not in self.reasons)

    @property
    def most_frequent_error(self) -> str:
        """The kind of the most frequent error; empty where none failed."""
        return next((kind for kind in self.errors if kind not in NO_FAILURES), "")


def judged(cell: Cell, verdict: Verdict | None, examples: Mapping[str, Record]) -> Result:
    """Return a cell with its standing; `examples` are the records of its trials, by their ids."""
    standing, reasons = standing_of(_names(cell.labels, verdict))
    return Result(
        **{field.name: getattr(cell, field.name) for field in fields(Cell)},
        verdict=verdict,
        standing=standing,
        reasons=reasons,
        example=_example(cell, examples),
    )


def _names(labels: Sequence[str], verdict: Verdict | None) -> Iterable[str]:
    yield from labels
    # The verdict repeats a label that is a check of the accounting: the label says it.
    for limit in (verdict.limit, *verdict.also) if verdict is not None else ():
        if limit.removeprefix("INVALID(").rstrip(")") not in labels:
            yield limit


def chosen_verdict(verdicts: Sequence[tuple[int, Verdict]]) -> Verdict | None:
    """Return one of several verdicts, each given with its requests.

    A voiding verdict wins; otherwise the limit of most requests, by its best proof.
    """
    for _, verdict in verdicts:
        if verdict.effect == "invalid":
            return verdict
    weights: dict[str, int] = {}
    for requests, verdict in verdicts:
        weights[verdict.rule] = weights.get(verdict.rule, 0) + requests
    if not weights:
        return None
    most = max(weights, key=lambda rule: weights[rule])
    of_limit = [verdict for _, verdict in verdicts if verdict.rule == most]
    return min(of_limit, key=lambda verdict: verdict.grade or "Z")


def _example(cell: Cell, examples: Mapping[str, Record]) -> str:
    """Return the first message of the most frequent error that a trial kept one of."""
    kind = next((kind for kind in cell.errors if kind not in NO_FAILURES), None)
    if kind is None:
        return ""
    for trial in cell.trials:
        record = examples.get(trial)
        messages: Mapping[str, object] = (record.summary if record else {}).get(
            "error_examples"
        ) or {}
        message = messages.get(kind)
        # The executor of queries keeps the messages of each operation apart.
        inner = messages.get(cell.operation)
        if isinstance(inner, Mapping):
            message = inner.get(kind, message)
        if message:
            return str(message)
    return ""
