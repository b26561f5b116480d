"""The confusion matrix counts what was said of what was injected, and leaves its page alone."""

from pathlib import Path

from tests.rig.bottleneck import BOTTLENECKS
from tests.rig.experiment import Outcome
from tests.rig.matrix import BEGIN, END, is_blamed, is_right, publish, summary, table


def outcome(name: str, limit: str) -> Outcome:
    return Outcome(
        bottleneck=name,
        limit=limit,
        grade="C",
        reason="",
        requests_per_s=1.0,
        verdicts={},
    )


OUTCOMES = [
    outcome("client-quota", "INSTRUMENT_CPU"),
    outcome("client-quota", "TARGET"),
    outcome("server-quota", "TARGET_CPU"),
    outcome("server-quota", "INSTRUMENT_CPU"),
]


def test_right_is_what_was_injected_and_blame_is_the_instrument_seen_elsewhere() -> None:
    assert [is_right(one) for one in OUTCOMES] == [True, False, True, False]
    # A target's limit that is put down to the client is wrong, and not the grave mistake.
    assert [is_blamed(one) for one in OUTCOMES] == [False, True, False, False]
    for fact in ("2 of 4 ", "(50%)", "1 of 2 limits"):
        assert fact in summary(OUTCOMES)


def test_the_matrix_marks_what_was_wrong() -> None:
    rows = table(OUTCOMES).splitlines()
    labels = rows[0].split(" | ")[2:]
    assert labels == ["`INSTRUMENT_CPU`", "`TARGET`", "`TARGET_CPU` |"]
    assert rows[2].endswith("| **1** | 1 ✗ |  |")


def test_a_page_keeps_what_stands_around_its_matrix(tmp_path: Path) -> None:
    page = tmp_path / "verdict.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    publish(page, OUTCOMES, "two quiet cores")
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "quiet cores" in text


def test_every_limit_of_the_instrument_is_known_as_one() -> None:
    ours = {name for name, one in BOTTLENECKS.items() if one.is_instrument}
    assert ours == {name for name in BOTTLENECKS if name.startswith("client-")}
