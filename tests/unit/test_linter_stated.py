"""Rules that hold words, labels and limits of a report against its numbers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from loadstone import published
from loadstone.analysis.accounts import judged_account
from loadstone.analysis.accounts.account import (
    BYTE_RATE,
    MEGABYTE_RATE,
    Account,
    Disclosure,
    KnownCeiling,
    StatedLoad,
    StatedRatio,
    Statement,
)
from loadstone.analysis.judgements.finding import Finding
from loadstone.published.rules import judge
from loadstone.published.rules.stated import multiple_in
from loadstone.results.store import read_run
from tests.unit.synthetic_run import write_rounds, write_sweep
from tests.unit.test_linter import account, measurement, rules

RULES = {
    "contradicting-spread", "limit-does-not-scale", "faster-than-beneath", "ratio-in-words",
    "threads-and-cores", "working-set",
}  # fmt: skip


def findings_of(made: Account, rule: str) -> list[Finding]:
    return [finding for finding in judge(made) if finding.rule == rule]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hummingbird", set()),
        ("datasafe", set()),
        ("theflash", {"faster-than-beneath"}),
        ("cern", {"contradicting-spread", "limit-does-not-scale", "working-set"}),
        ("skyhook", {"ratio-in-words", "threads-and-cores"}),
    ],
)
def test_each_rule_finds_its_published_reports(name: str, expected: set[str]) -> None:
    assert rules(published.find(name).account()) & RULES == expected


@pytest.mark.parametrize("write", [write_rounds, write_sweep])
def test_runs_of_our_own_raise_none_of_them(
    write: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    made = judged_account.read_account(read_run(write(tmp_path / "run", 8)))
    assert not rules(made) & RULES


def limits(*values: tuple[float, float], per: str = "client") -> Account:
    stated = tuple(
        Statement(quantity="q", value=value, unit="1/s", place="p", per=per, count=count)
        for count, value in values
    )
    return account([measurement(1.0)], statements=stated)


def test_a_limit_per_client_that_more_clients_multiply_is_one() -> None:
    assert not rules(limits((1, 300), (4, 1150))) & RULES
    (finding,) = findings_of(limits((1, 300), (4, 520)), "limit-does-not-scale")
    assert finding.evidence[0].value == pytest.approx(520 / 300 / 4)
    assert not rules(limits((2, 300), (2, 301))) & RULES
    # Two values of a quantity that is not per something contradict each other.
    assert "contradicting-statements" in rules(limits((1, 300), (4, 520), per=""))
    assert "contradicting-statements" not in rules(limits((1, 300), (4, 520)))


def test_a_layer_is_slower_than_what_carries_it_or_it_is_said() -> None:
    below = Statement(quantity="disk", value=200.0, unit="MB/s", place="p")
    above = Statement(quantity="fs", value=190.0, unit="MB/s", place="q", carried_by="disk")
    made = account([measurement(1.0)], statements=(below, above))
    assert not rules(made) & RULES
    faster = replace(made, statements=(below, replace(above, value=260.0)))
    assert findings_of(faster, "faster-than-beneath")[0].evidence[0].value == pytest.approx(1.3)
    other_unit = replace(above, value=260.0, unit="1/s")
    assert not rules(replace(made, statements=(below, other_unit))) & RULES
    # A rate is one in any unit of rates: 1.9 Gbit/s are 238 MB/s.
    link = replace(below, value=1.9, unit="Gbit/s")
    assert not rules(replace(made, statements=(link, above))) & RULES
    assert findings_of(
        replace(made, statements=(link, replace(above, value=260.0))), "faster-than-beneath"
    )


@pytest.mark.parametrize(
    ("value_and_unit", "other", "is_reported"),
    [
        ((500, "MB/s"), (1.2, "GB/s"), True),
        ((500, "MB/s"), (0.5, "GB/s"), False),
        ((10, "Gbit/s"), (1.25, "GB/s"), False),
        ((10, "Gbit/s"), (1.25, "1/s"), False),
        ((3000, "1/s"), (4000, "1/s"), True),
    ],
)
def test_two_values_are_held_against_each_other_in_any_unit_of_rates(
    value_and_unit: tuple[float, str], other: tuple[float, str], *, is_reported: bool
) -> None:
    stated = tuple(
        Statement(quantity="SSD", value=value, unit=unit, place="p")
        for value, unit in (value_and_unit, other)
    )
    made = account([measurement(1.0)], statements=stated)
    assert ("contradicting-statements" in rules(made)) == is_reported
    limits_ = tuple(
        replace(each, per="node", count=n) for each, n in zip(stated, (1, 4), strict=True)
    )
    per_node = account([measurement(1.0)], statements=limits_)
    # Four nodes would have four times as much; a limit of another kind is not compared.
    comparable = other[1] != "1/s" or value_and_unit[1] == "1/s"
    assert ("limit-does-not-scale" in rules(per_node)) == comparable


def test_one_device_with_two_speeds_is_told_and_two_devices_are_not() -> None:
    disk = KnownCeiling(resource="device", name="sda", bytes_per_s=500e6, text="500 MB/s")
    rate = measurement(90e6, metric=BYTE_RATE)

    def is_reported(*ceilings: KnownCeiling, run: str = "") -> bool:
        made = account([rate], ceilings=ceilings, run=run)
        return "contradicting-ceilings" in rules(made)

    twice = replace(disk, bytes_per_s=230e6, text="230 MB/s")
    assert is_reported(disk, twice)
    assert not is_reported(disk, replace(twice, name="sdb"))
    assert not is_reported(replace(disk, bounds="read"), replace(twice, bounds="write"))
    assert not is_reported(disk, replace(disk, bytes_per_s=520e6))
    assert not is_reported(disk, twice, run="r")
    # A statement in the text counts, too; for a device with a speed per direction it may be either.
    statements = (Statement(quantity="sda", value=1.84, unit="Gbit/s", place="text"),)
    made = account([rate], ceilings=(disk,), statements=statements)
    assert "contradicting-ceilings" in rules(made)
    ways = (replace(disk, bounds="read"), replace(twice, bounds="write"))
    assert "contradicting-ceilings" not in rules(replace(made, ceilings=ways))


@pytest.mark.parametrize(
    ("words", "multiple"),
    [
        ("almost thrice", 3), ("nearly double", 2), ("half of it", 0.5), ("2.5x faster", 2.5),
        ("about 4 times", 4), ("much more", None), ("tripled", 3), ("a fivefold gain", 5),
        ("a 3-fold rise", 3), ("by a factor of 2.5", 2.5), ("two and a half times", 2.5),
        ("half as fast again", 1.5), ("one and a half", 1.5), ("20 % faster", 1.2),
        ("30 percent slower", 0.7), ("a third of it", 1 / 3), ("on behalf of", None),
        ("1,5 times", 1.5), ("1,500 times", 1500), ("by a factor three", 3), ("factor 3", 3),
        ("twelve times", 12), ("two thirds of it", 2 / 3), ("one fifth", 1 / 5),
        ("only 20% of that", 0.2), ("increases by 30%", 1.3), ("drops by about 40 percent", 0.6),
        ("was cut by two thirds", 1 / 3), ("3-4 times", None), ("3 to 4 times", None),
        ("a third slower", None),
    ],
)  # fmt: skip
def test_a_multiple_in_words_is_read(words: str, multiple: float | None) -> None:
    assert multiple_in(words) == (multiple and pytest.approx(multiple))


def test_words_that_miss_their_numbers_by_a_tenth_are_told() -> None:
    def is_reported(words: str, value: float) -> bool:
        ratio = StatedRatio(words=words, value=value, base=100.0, unit="MB/s", place="p")
        return "ratio-in-words" in rules(account([measurement(1.0)], ratios=(ratio,)))

    assert not is_reported("almost twice", 188.0)
    assert is_reported("almost twice", 170.0)
    assert is_reported("half", 62.0)
    assert not is_reported("somewhat more", 170.0)
    # A bound is no estimate: it is passed on one side only.
    assert not is_reported("more than twice", 260.0)
    assert is_reported("more than twice", 180.0)
    assert not is_reported("less than half", 30.0)
    assert is_reported("less than half", 60.0)
    # "Slower" is said of rates that fall and of times that rise.
    assert not is_reported("five times slower", 20.0)
    assert not is_reported("five times slower", 500.0)
    assert is_reported("five times slower", 300.0)
    assert is_reported("five times", 20.0)


def test_threads_that_are_all_and_fewer_at_once_are_told() -> None:
    def is_reported(*loads: StatedLoad) -> bool:
        return "threads-and-cores" in rules(account([measurement(1.0)], loads=loads))

    every = StatedLoad(threads=16, share="all", place="p")
    assert not is_reported(every, StatedLoad(threads=12, share="fewer", place="q"))
    assert is_reported(every, StatedLoad(threads=20, share="fewer", place="q"))
    assert is_reported(every, StatedLoad(threads=24, share="all", place="q"))
    assert not is_reported(replace(every, available=16))
    assert is_reported(replace(every, available=32))
    assert is_reported(StatedLoad(threads=8, share="fewer", place="p", available=8))


@pytest.mark.parametrize(
    ("objects", "size", "operation", "is_reported"),
    [
        (200, 8192, "get", True),
        (200, 2**20, "get", False),
        (10**6, 8192, "get", False),
        (200, 8192, "put", False),
        (200, 8192, "GET", True),
        (200, 8192, "randread", True),
        (200, 8192, "stat", False),
    ],
)
def test_reads_that_a_cache_holds_are_told(
    objects: int, size: int, operation: str, *, is_reported: bool
) -> None:
    of_size = measurement(9000.0, operation=operation, parameters={"size": size, "threads": 4})
    made = account([of_size], disclosure=Disclosure(dataset_objects=objects))
    assert ("working-set" in rules(made)) == is_reported


def test_two_spreads_of_the_same_trials_agree_as_far_as_their_digits_tell() -> None:
    def is_reported(spread_of_megabytes: float) -> bool:
        cells = []
        for threads, rate in ((2, 20.0), (4, 41.0), (8, 83.0), (16, 150.0)):
            given = {"parameters": {"size": 2**20, "threads": threads}}
            last = threads == 16
            cells.append(measurement(rate, text=f"{rate:g}", spread=0.1 * rate, **given))
            spread = spread_of_megabytes if last else 0.1 * rate
            cells.append(
                measurement(rate, text=f"{rate:g}", spread=spread, metric=MEGABYTE_RATE, **given)
            )
        return "contradicting-spread" in rules(account(cells))

    assert not is_reported(15.0)
    assert not is_reported(14.0)
    assert is_reported(3.0)
    assert is_reported(60.0)


def test_one_cell_alone_shows_that_its_two_spreads_are_not_of_one_kind() -> None:
    def is_reported(size: int | None) -> bool:
        given = {"parameters": {"size": size, "threads": 3}}
        cells = [
            measurement(40.0, text="40.0", spread=4.0, **given),
            measurement(40.0, text="40.0", spread=0.3, metric=MEGABYTE_RATE, **given),
        ]
        return "contradicting-spread" in rules(account(cells))

    assert is_reported(10**6)
    # Requests of several sizes have spreads of their own.
    assert not is_reported(None)


def held_out(*, is_flawed: bool) -> Account:
    """An invented report: a file server over a link, with flaws or without."""
    cells = [
        measurement(rate, text=f"{rate:g}", target="nas", parameters={"size": 2**20, "threads": at})
        for at, rate in ((1, 101.0), (4, 188.0), (8, 201.0))
    ]
    link = Statement(quantity="link", value=2.5, unit="Gbit/s", place="set-up")
    nfs = Statement(
        quantity="NFS reads",
        value=340.0 if is_flawed else 210.0,
        unit="MB/s",
        place="results",
        carried_by="link",
    )
    limit = Statement(quantity="limit", value=100, unit="1/s", place="summary", per="mount")
    many = replace(limit, value=130 if is_flawed else 390, count=4)
    twice = StatedRatio(
        words="more than doubled", value=170.0 if is_flawed else 205.0, base=100.0,
        unit="1/s", place="summary",
    )  # fmt: skip
    loads = (
        StatedLoad(threads=8, share="all", place="figure 1"),
        StatedLoad(threads=12 if is_flawed else 4, share="fewer", place="figure 2"),
    )
    objects = 24 if is_flawed else 60_000
    return account(
        cells,
        statements=(link, nfs, limit, many),
        ratios=(twice,),
        loads=loads,
        disclosure=Disclosure(dataset_objects=objects),
    )


def test_a_report_that_no_rule_was_made_for_is_read_by_all_of_them() -> None:
    assert rules(held_out(is_flawed=True)) & RULES == RULES - {"contradicting-spread"}
    assert not rules(held_out(is_flawed=False)) & RULES
