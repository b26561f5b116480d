"""Plain tables: on a narrow terminal the last column wraps; a program reads a line for each row."""

import pytest

from loadstone.cli.screen.output import print_table, print_words

HEAD = ("driver", "operations")
ROWS = [("s3", ", ".join(["multipart_put"] * 8)), ("null", "put")]


@pytest.mark.parametrize("columns", [40, 80])
def test_words_of_the_last_column_go_on_below_themselves_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    print_table(HEAD, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert "".join(lines).count("multipart_put") == 8
    names = [line[:6].strip() for line in lines]
    assert [name for name in names if name] == ["driver", "------", "s3", "null"]
    assert all(line.startswith("        multipart_put") for line in lines[3:-1])


def test_a_row_is_one_line_where_no_terminal_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(HEAD, ROWS)
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_a_sentence_is_as_wide_as_the_terminal_and_one_line_for_programs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = " ".join(["the client was the limit;"] * 8)
    print_words(sentence, below="  ")
    assert capsys.readouterr().out == f"{sentence}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    print_words(sentence, below="  ")
    first, *rest = capsys.readouterr().out.splitlines()
    assert max(map(len, (first, *rest))) <= 80
    assert all(line.startswith("  ") for line in rest)
    assert " ".join(" ".join((first, *rest)).split()) == sentence
