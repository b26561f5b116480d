"""The published reports: every number as printed, every table byte for byte."""

import json
import re
from importlib import resources
from pathlib import Path

import pytest
from pydantic import ValidationError

from loadstone import published
from loadstone.analysis.accounts.account import BYTE_RATE, MEGABYTE_RATE, RATE, SECONDS
from loadstone.analysis.standards import linter
from loadstone.cli import main
from loadstone.errors import InputError
from loadstone.published import datasafe, read

DATA = Path(__file__).parent.parent / "data" / "published"


def fixture(name: str) -> str:
    return (DATA / name).read_text("utf-8")


def rendered(name: str) -> str:
    return published.find(name).render()


def test_the_eighteen_tables_of_hummingbird_are_printed_byte_for_byte_and_in_order() -> None:
    text = rendered("hummingbird")
    tables = [table.strip("\n") + "\n" for table in fixture("hummingbird-tables.md").split("\n\n")]
    assert len(tables) == 18
    places = [text.index(table) for table in tables]
    assert places == sorted(places)
    without_headings = [line for line in text.splitlines() if line.startswith("|")]
    assert without_headings == [line for table in tables for line in table.splitlines()]


def test_hummingbird_has_240_rates_and_every_read_counts_its_three_iterations() -> None:
    account = published.find("hummingbird").account()
    assert len(account.of(RATE)) == 240
    assert {measurement.text for measurement in account.measurements} >= {"4970", "16393", "1174"}
    work = {
        (measurement.operation, measurement.size_bytes): measurement.work
        for measurement in account.measurements
    }
    assert work["get", 4096] == 30_000_000
    assert work["put", 4096] == 10_000_000
    assert work["delete", 2**20] == 1_000_000


@pytest.mark.parametrize(
    "name", ["theflash-table.md", "theflash-ssd-raw.md", "theflash-ceph-raw.md"]
)
def test_the_averages_and_times_of_theflash_are_printed_byte_for_byte(name: str) -> None:
    assert fixture(name) in rendered("theflash")


def test_one_system_of_theflash_prints_its_own_times_only() -> None:
    assert rendered("theflash-ssd") == fixture("theflash-ssd-raw.md")
    assert rendered("published:theflash-ceph") == fixture("theflash-ceph-raw.md")


def test_theflash_keeps_its_unequal_repetitions() -> None:
    account = published.find("theflash").account()
    counts: dict[tuple[str, object], int] = {}
    for measurement in account.of(SECONDS):
        key = (measurement.target, measurement.parameters["query"])
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 44
    assert counts["SSD", "Q12"] == 10
    assert counts["SSD", "Q13"] == 9
    assert counts["Ceph", "Q01"] == 9
    assert sum(counts.values()) == 429


@pytest.mark.parametrize("path", sorted(DATA.glob("cern-*.tsv")), ids=lambda path: path.stem)
def test_the_tables_of_cern_are_printed_byte_for_byte(path: Path) -> None:
    assert path.read_text("utf-8") in rendered("cern")


def test_the_damaged_copies_of_cern_are_kept_and_never_used() -> None:
    account = published.find("cern").account()
    texts = {measurement.text for measurement in account.measurements}
    assert "2.9" not in texts
    details = published.find("cern").details()
    assert "Files/Sec\t7.3 ± 0.5\t25.1 ± 1.2\t33.9 ± 4.4\t36.4\t\t2.9 ± 8.7" in details
    assert details.count("damaged, ") == 3
    assert "2.9 ± 8.7" not in rendered("cern").replace("42.9 ± 8.7", "")


def test_the_call_outs_the_summary_and_the_issues_of_cern_are_shown() -> None:
    details = published.find("cern").details()
    words_shown = ("620 FILES/SEC", "CLIENT SOCKET CONSUMPTION", "118Hz", "Client memory limit")
    for words in words_shown:
        assert words in details


def test_a_blank_cell_of_cern_is_no_measurement() -> None:
    account = published.find("cern").account()
    downloads = [
        measurement
        for measurement in account.of(RATE)
        if measurement.workload == "downloads of 4 KB"
    ]
    assert [download.threads for download in downloads] == [1, 4, 8, 12]
    uploads = [
        measurement
        for measurement in account.of(RATE)
        if measurement.workload == "uploads of 10 MB"
    ]
    assert max(upload.threads or 0 for upload in uploads) == 100
    assert account.planned_threads == (1, 4, 8, 12, 16, 20, 24, 40, 70, 100, 150, 200)
    assert len(account.of(RATE)) == len(account.of(MEGABYTE_RATE)) == 36


@pytest.mark.parametrize("name", ["datasafe-log.txt", "datasafe-rates.tsv"])
def test_the_log_and_the_rates_of_datasafe_are_printed_byte_for_byte(name: str) -> None:
    assert fixture(name) in rendered("datasafe")


def test_skyhook_counts_each_figure_in_the_units_of_its_tool() -> None:
    account = published.find("skyhook").account()
    rates = {measurement.threads: measurement.value for measurement in account.of(BYTE_RATE)}
    assert rates == {1: 350 * 2**20, 10: 950 * 2**20}
    ceilings = {ceiling.resource: ceiling for ceiling in account.ceilings}
    assert ceilings["network"].bytes_per_s == pytest.approx(951.25e6)
    assert ceilings["network"].high == pytest.approx(1031.25e6)
    assert ceilings["device"].bytes_per_s == 2540e6
    assert (ceilings["server"].count, ceilings["server"].bounds) == (4, "write")
    assert ceilings["server"].is_count_inferred
    hinted = {
        (measurement.parameters["threads"], measurement.parameters["OSDs"]): measurement
        for measurement in account.hinted
    }
    assert hinted.keys() == {(4, 4), (8, 4), (10, 1)}
    assert hinted[10, 1].value == 475 * 2**20
    assert "* Min. Bandwidth: `6.5 Gb/s`" in rendered("skyhook")
    assert "`7.61 Gb/s` (951 MB/s)" in rendered("skyhook")


@pytest.mark.parametrize("name", sorted(published.PUBLISHED))
def test_every_report_names_its_source_and_shows_its_details(name: str) -> None:
    report = published.find(name)
    assert len(report.source) > 20
    assert len(report.details()) > 100
    assert report.account().name == name
    assert all(measurement.place for measurement in report.account().measurements)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("title =", "titel ="), ('loop = "closed"', 'loop = "close"'), ("cpus =", "cpu =")],
)
def test_a_fact_that_no_type_knows_is_refused(
    monkeypatch: pytest.MonkeyPatch, right: str, wrong: str
) -> None:
    text = (resources.files("loadstone.published") / "data" / "datasafe.toml").read_text("utf-8")
    monkeypatch.setattr(read, "_data", lambda name: text.replace(right, wrong))
    with pytest.raises(ValidationError, match=wrong.split(" ")[0]):
        read.read_facts("datasafe", datasafe.DatasafeFacts)


def test_an_unknown_report_is_refused_with_the_known_names() -> None:
    with pytest.raises(InputError, match="hummingbird") as caught:
        published.find("published:humingbird")
    assert "humingbird" in caught.value.message


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capfd.readouterr().out


def test_the_command_line_prints_the_tables_and_nothing_else(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run(capfd, "report", "published:hummingbird") == rendered("hummingbird")
    both = run(capfd, "report", "published:theflash-ceph", "published:theflash-ssd")
    assert both == rendered("theflash")


def test_the_command_line_lists_and_shows_every_report(capfd: pytest.CaptureFixture[str]) -> None:
    listed = run(capfd, "published", "list")
    for name in published.PUBLISHED:
        assert name in listed
        assert published.find(name).source in run(capfd, "published", "show", name)
    document = json.loads(run(capfd, "published", "show", "cern", "-f", "json"))
    assert len(document["measurements"]) == 72


def test_an_unknown_name_is_an_error_with_the_known_ones(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["report", "published:nothing"]) == 1
    message = capfd.readouterr().err
    assert '"nothing"' in message
    assert "hummingbird" in message
    assert main(["published", "show"]) == 1
    assert "show NAME: " in capfd.readouterr().err


def test_analyse_prints_findings_with_their_marks(capfd: pytest.CaptureFixture[str]) -> None:
    text = run(capfd, "analyse", "published:theflash-ssd", "published:theflash-ceph")
    assert "Q01, Q02, Q03, Q04, Q11, Q21, Q22" in text
    text = run(capfd, "analyse", "published:cern", "--evidence", "--mistakes")
    assert "link-ceiling [inferred]" in text
    assert all(rule.says in text for rule in linter.RULES)
    document = json.loads(run(capfd, "analyse", "published:skyhook", "-f", "json"))
    assert document["findings"][0]["rule"] == "bottleneck"
    assert len(document["mistakes"]) == len(linter.RULES)


def test_compare_prints_a_table_and_sentences_or_json(capfd: pytest.CaptureFixture[str]) -> None:
    names = ("published:theflash-ssd", "published:theflash-ceph")
    text = run(capfd, "compare", *names)
    assert "1.249 (95 % CI 1.216-1.283)" in text
    assert "4.61×" in text
    assert max(len(line) for line in text.splitlines() if line.startswith("Q")) <= 80
    full = run(capfd, "compare", *names, "--full")
    assert "theflash-ceph takes 4.61×" in full
    assert "theflash-ssd" in full
    document = json.loads(run(capfd, "compare", *names, "-f", "json"))
    assert len(document["comparisons"]) == 22
    assert document["geometric_mean"]["ratio"] == pytest.approx(1.2487, abs=1e-4)


def test_one_report_compares_its_targets_and_one_of_them_can_be_named(
    capfd: pytest.CaptureFixture[str],
) -> None:
    document = json.loads(run(capfd, "compare", "published:hummingbird", "-f", "json"))
    assert [(pair["a"], pair["b"]) for pair in document["pairs"]] == [
        ("Hummingbird", "Ceph"),
        ("Hummingbird", "Swift"),
    ]
    text = run(capfd, "compare", "published:hummingbird@Swift", "published:hummingbird@Ceph")
    assert re.match(r"Ceph\b.*\bSwift\b", text)
    assert main(["compare", "published:hummingbird@Minio", "published:cern"]) == 1
    errors = capfd.readouterr().err
    for target in ("Hummingbird", "Ceph", "Swift"):
        assert target in errors
    assert main(["compare", "published:cern"]) == 1
    errors = capfd.readouterr().err
    assert "published:cern" in errors
    assert "loadstone compare A B" in errors
