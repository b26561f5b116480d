"""A script on several hosts: its files, and the turns that hosts take together."""

import hashlib
import tracemalloc
from pathlib import Path

import pytest

from loadstone.hosts import sent_files
from loadstone.hosts.messages import Begin
from loadstone.hosts.sent_files import SentFiles, read_piece
from loadstone.hosts.turns import DOUBTS_BYTES_MAX, Turns


class Sender:
    """A controller that sends files and records the requests for them."""

    def __init__(self, *contents: bytes) -> None:
        self.files = {hashlib.sha256(content).hexdigest(): content for content in contents}
        self.asked: list[tuple[str, int]] = []
        self.piece_bytes = 4

    def __call__(self, sha256: str, offset: int) -> tuple[int, bytes]:
        self.asked.append((sha256, offset))
        content = self.files[sha256]
        return len(content), content[offset : offset + self.piece_bytes]


def test_a_file_comes_piece_by_piece_and_only_once(tmp_path: Path) -> None:
    sender = Sender(b"0123456789")
    (sha256,) = sender.files
    files = SentFiles(tmp_path / "files")
    path = files.take(sha256, [sha256], sender)
    assert path.read_bytes() == b"0123456789"
    assert [offset for _, offset in sender.asked] == [0, 4, 8]
    assert files.take(sha256, [sha256], sender) == path
    assert len(sender.asked) == 3
    assert [path.name for path in (tmp_path / "files").iterdir()] == [sha256]


@pytest.mark.parametrize("wrong", [b"another", b"012345678", b""])
def test_a_file_with_another_digest_is_refused_and_not_kept(tmp_path: Path, wrong: bytes) -> None:
    sender = Sender(b"0123456789")
    (sha256,) = sender.files
    sender.files[sha256] = wrong
    with pytest.raises(ValueError, match=f" names {sha256}"):
        SentFiles(tmp_path / "files").take(sha256, [sha256], sender)
    assert list((tmp_path / "files").iterdir()) == []


def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        SentFiles(tmp_path / "files").take("../../etc/passwd", [], Sender())


def test_earlier_files_make_room_and_those_that_are_needed_do_not(tmp_path: Path) -> None:
    sender = Sender(b"a" * 10, b"b" * 10, b"c" * 10, b"d" * 31)
    first, second, third, large = sender.files
    files = SentFiles(tmp_path / "files", bytes_max=25)
    files.take(first, [first], sender)
    files.take(second, [second], sender)
    files.take(third, [second, third], sender)
    assert {path.name for path in (tmp_path / "files").iterdir()} == {second, third}
    with pytest.raises(ValueError, match=r"\b25\b"):
        files.take(large, [second, large], sender)
    assert {path.name for path in (tmp_path / "files").iterdir()} == {second}


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    sender = Sender(b"0123456789")
    (tmp_path / "files").write_text("in the way")
    (sha256,) = sender.files
    with pytest.raises(ValueError, match=f'write ".*{sha256}.part": .*\nhint: .*TMPDIR'):
        SentFiles(tmp_path / "files").take(sha256, [sha256], sender)


def test_a_piece_is_read_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_files, "PIECE_BYTES", 4)
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert read_piece(path, 0) == (10, b"0123")
    assert read_piece(path, 8) == (10, b"89")
    assert read_piece(path, 10) == (10, b"")


def test_a_large_file_takes_the_memory_of_a_few_pieces(tmp_path: Path) -> None:
    path = tmp_path / "file"
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for number in range(64):
            piece = number.to_bytes(4, "little") * (sent_files.PIECE_BYTES // 4)
            file.write(piece)
            digest.update(piece)
    sha256 = digest.hexdigest()
    files = SentFiles(tmp_path / "files")
    tracemalloc.start()
    try:
        files.take(sha256, [sha256], lambda _, offset: read_piece(path, offset))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "files" / sha256).stat().st_size == 64 * sent_files.PIECE_BYTES
    assert most < 4 * sent_files.PIECE_BYTES


def test_a_turn_begins_when_all_that_take_part_have_ended_the_one_before() -> None:
    turns = Turns(["a", "b", "c"], 7)
    turns.end("a", 0, b"1111")
    turns.end("c", 0, b"")
    assert turns.next(["a", "b", "c"], []) is None
    turns.end("b", 0, b"2222")
    assert turns.next(["a", "b", "c"], []) == Begin(attempt=7, turn=1, doubts=b"11112222", lost=[])
    # It begins once, and knows nothing of the one before.
    assert turns.next(["a", "b", "c"], []) is None
    for host in "abc":
        turns.end(host, 1, b"")
    assert turns.next(["a", "b", "c"], []) == Begin(attempt=7, turn=2, doubts=b"", lost=[])


def test_a_lost_host_is_not_waited_for_and_its_part_is_in_doubt_unless_it_had_ended() -> None:
    turns = Turns(["a", "b", "c"], 7)
    turns.end("b", 0, b"2222")
    assert turns.next(["a"], ["b", "c"]) is None
    turns.end("a", 0, b"")
    assert turns.next(["a"], ["b", "c"]) == Begin(attempt=7, turn=1, doubts=b"2222", lost=[2])
    turns.end("a", 1, b"")
    assert turns.next([], ["a", "b", "c"]) is None
    assert turns.next(["a"], ["b", "c"]) == Begin(attempt=7, turn=2, doubts=b"", lost=[1, 2])


def test_too_many_doubts_are_a_doubt_of_all() -> None:
    turns = Turns(["a", "b"], 7)
    turns.end("a", 0, bytes(DOUBTS_BYTES_MAX))
    turns.end("b", 0, b"1111")
    assert turns.next(["a", "b"], []) == Begin(attempt=7, turn=1, doubts=None, lost=[])
    turns.end("a", 1, None)
    turns.end("b", 1, b"1111")
    assert turns.next(["a", "b"], []) == Begin(attempt=7, turn=2, doubts=None, lost=[])
