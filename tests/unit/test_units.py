"""Spellings people use for sizes, times, rates and hosts, and what is shown to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone import units
from loadstone.errors import InputError, shown

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("written", "size_bytes"),
    [
        (4096, 4096),
        (0, 0),
        ("4096", 4096),
        ("1_000", 1000),
        ("4KiB", 4096),
        ("4 KiB", 4096),
        ("4K", 4096),
        ("4k", 4096),
        ("4kB", 4000),
        ("4KB", 4000),
        ("1M", 1 << 20),
        ("1MB", 1_000_000),
        ("10MiB", 10 << 20),
        ("1.5MiB", 3 << 19),
        ("2G", 2 << 30),
        ("1TiB", 1 << 40),
        ("512B", 512),
    ],
)
def test_a_size_means_powers_of_two_unless_the_b_says_ten(
    written: str | int, size_bytes: int
) -> None:
    assert units.parse_size(written) == size_bytes


@pytest.mark.parametrize("written", ["", "x", "4XB", "-1", -1, "1.2.3K", "0.3", True, 1.5, "KiB"])
def test_a_size_that_cannot_be_read_says_what_is_allowed(written: str) -> None:
    with pytest.raises(InputError) as caught:
        units.parse_size(written)
    assert caught.value.actual == shown(written)
    assert '"4KiB"' in str(caught.value.allowed)


def test_100kb_is_refused_because_it_means_two_things() -> None:
    with pytest.raises(InputError) as caught:
        units.parse_size("100kb")
    assert caught.value.hint is not None
    assert '"100KiB"' in caught.value.hint
    assert '"100kB"' in caught.value.hint


@pytest.mark.parametrize(
    ("written", "duration_ns"),
    [
        ("300s", 300 * SECOND),
        ("5m", 300 * SECOND),
        ("5min", 300 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1 h 30 min", 5400 * SECOND),
        ("1.5h", 5400 * SECOND),
        ("250ms", SECOND // 4),
        ("10us", 10_000),
        ("10µs", 10_000),
        ("7ns", 7),
        ("2d", 172_800 * SECOND),
        (300, 300 * SECOND),
        (0.25, SECOND // 4),
        ("300", 300 * SECOND),
        ("0", 0),
    ],
)
def test_a_duration_may_be_composed_and_plain_numbers_are_seconds(
    written: str | float, duration_ns: int
) -> None:
    assert units.parse_duration_ns(written) == duration_ns


@pytest.mark.parametrize("written", ["", "5x", "1h30", -1, "-5s", float("inf"), True, "s", None])
def test_a_duration_that_cannot_be_read_says_what_is_allowed(written: str) -> None:
    with pytest.raises(InputError) as caught:
        units.parse_duration_ns(written)
    assert caught.value.actual == shown(written)
    assert "duration" in str(caught.value.allowed)


def test_a_rate_is_per_second_unless_it_names_another_period() -> None:
    assert units.parse_rate("1000/s") == 1000
    assert units.parse_rate("600/min") == 10
    assert units.parse_rate("7200 / h") == 2
    assert units.parse_rate(2.5) == 2.5


@pytest.mark.parametrize("written", ["0/s", 0, -1, "10/fortnight", "fast", True])
def test_a_rate_that_cannot_be_read_says_what_is_allowed(written: str) -> None:
    with pytest.raises(InputError) as caught:
        units.parse_rate(written)
    assert caught.value.actual == shown(written)
    assert "rate" in str(caught.value.allowed)


def test_a_fraction_may_be_a_percentage() -> None:
    assert units.parse_fraction("50%") == 0.5
    assert units.parse_fraction("12.5 %") == 0.125
    assert units.parse_fraction(1) == 1.0


@pytest.mark.parametrize("written", ["150%", 50, -0.1, "half", True])
def test_a_fraction_stays_between_0_and_1(written: str) -> None:
    with pytest.raises(InputError) as caught:
        units.parse_fraction(written)
    assert caught.value.actual == shown(written)
    assert "fraction" in str(caught.value.allowed)


def test_a_count_may_group_its_digits_but_not_use_a_unit() -> None:
    assert units.parse_count("10_000_000") == 10_000_000
    with pytest.raises(InputError) as caught:
        units.parse_count("10M")
    assert caught.value.hint is not None


@pytest.mark.parametrize(
    ("written", "hosts"),
    [
        ("http://rgw{1...3}:7480", [f"http://rgw{i}:7480" for i in (1, 2, 3)]),
        ("node{1..2}", ["node1", "node2"]),
        ("node[1-2,7]", ["node1", "node2", "node7"]),
        ("n{08...11}", ["n08", "n09", "n10", "n11"]),
        ("r{1...2}n{1...2}", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("a, b,,c", ["a", "b", "c"]),
        ("http://[::1]:80", ["http://[::1]:80"]),
    ],
)
def test_a_list_of_hosts_counts_in_braces_and_brackets(written: str, hosts: list[str]) -> None:
    assert units.expand_hosts(written) == hosts


@pytest.mark.parametrize("written", ["", "n{5...1}", "n{0...99999999}", "n{1...999}m{1...999}"])
def test_a_list_of_hosts_that_makes_no_sense_is_refused(written: str) -> None:
    with pytest.raises(InputError):
        units.expand_hosts(written)


def test_every_shown_value_has_a_unit() -> None:
    assert units.format_bytes(4096) == "4 KiB"
    assert units.format_bytes(1_500_000) == "1.43 MiB"
    assert units.format_bytes(512) == "512 B"
    assert units.format_bytes(1023.9 * 1024) == "1.00 MiB"
    assert units.format_byte_rate(110e6) == "105 MiB/s"
    assert units.format_bit_rate(9.82e9) == "9.82 Gbit/s"
    assert units.format_bit_rate(999) == "999 bit/s"
    assert units.format_rate(4970.4) == "4,970/s"
    assert units.format_duration(123_456) == "123 µs"
    assert units.format_duration(1_500_000) == "1.50 ms"
    assert units.format_duration(5400 * SECOND) == "1 h 30 min"
    assert units.format_duration(12) == "12 ns"
    assert units.format_count(10_000_000) == "10,000,000"


def test_a_number_keeps_its_significant_digits_across_a_rounding() -> None:
    assert units.format_number(9.996) == "10.0"
    assert units.format_number(999.6) == "1,000"
    assert units.format_number(0.012345) == "0.0123"
    assert units.format_number(0) == "0"


@given(st.integers(min_value=0, max_value=1 << 60))
def test_a_size_written_exactly_reads_back_the_same(size_bytes: int) -> None:
    assert units.parse_size(units.format_size(size_bytes)) == size_bytes


@given(st.floats(min_value=1e-9, max_value=1e15))
def test_a_shown_number_is_within_half_a_percent(value: float) -> None:
    assert float(units.format_number(value).replace(",", "")) == pytest.approx(value, rel=0.0051)


def test_a_spread_has_no_digits_that_mean_nothing() -> None:
    shown = [units.format_spread(share) for share in (0.0, 0.000018, 0.0048, 0.24, 1.23)]
    assert shown == ["0 %", "< 0.1 %", "0.48 %", "24 %", "123 %"]


def test_a_text_that_a_spreadsheet_would_compute_is_a_text_in_its_cell() -> None:
    for text in ("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"):
        assert units.csv_cell(text) == f"'{text}"
    for value in ("-5", "+1.5", "-0,5", "-1.5e-07", "text", "a=b", "", -5, 0.5, None):
        assert units.csv_cell(value) == value
