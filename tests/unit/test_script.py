"""Scripts: generated, read, checked with all mistakes at once, and compiled."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from pydantic import ValidationError

from loadstone import cli
from loadstone.campaign.schema.script import Users
from loadstone.errors import InputError
from loadstone.script import table, users
from loadstone.script.compiled import Checked, check, compile_script
from loadstone.script.expansion import ABSENT, ANY, EXISTS
from loadstone.script.mistakes import SHOWN_MAX, Mistakes, ScriptError, ScriptMistake
from loadstone.script.summary import summarise
from loadstone.script.table import read_actions

HEAD = "session,action,user,space,object,size,recipients,expect,entries\n"


def checked(path: Path, text: str) -> Checked:
    path.write_text(HEAD + text)
    mistakes = Mistakes(path.name)
    return check(table.read_actions(path, mistakes), path.name, mistakes)


def mistakes_of(path: Path, text: str) -> tuple[ScriptMistake, ...]:
    with pytest.raises(ScriptError) as caught:
        checked(path, text)
    assert caught.value.name == path.name
    return caught.value.mistakes


def places(mistakes: Iterable[ScriptMistake]) -> list[tuple[int | None, str | None]]:
    return [(mistake.row, mistake.column) for mistake in mistakes]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.csv"


def test_users_do_what_the_published_sequence_did() -> None:
    for seed in range(3):
        steps = users.sequence(Users(), seed)
        counts = Counter((step.action, step.space) for step in steps)
        assert counts == users.COUNTS
        assert sum(len(step.holders) for step in steps) == round(63 * 5.5)
        assert {len(step.holders) for step in steps if step.action == "SHARE"} <= set(range(1, 10))
        assert all(step.user not in step.holders for step in steps)
        assert overwrites(steps) == 215
        assert len({step.content for step in steps} - {None}) == 10


def overwrites(steps: Sequence[users.UserStep]) -> int:
    there: set[tuple[str, int, str | None]] = set()
    overwritten = 0
    for step in steps:
        who = (step.user,) if step.action == "WRITE" else step.holders
        written = {(step.space, user, step.name) for user in who}
        overwritten += len(written & there)
        there |= written
        if step.action == "DELETE":
            there.remove((step.space, step.user, step.name))
    return overwritten


def test_every_copy_is_the_same_sequence_under_its_own_prefix() -> None:
    settings = Users(copies=3, size="100KiB")
    actions = list(users.make(settings, 7))
    assert actions == list(users.make(settings, 7)) != list(users.make(settings, 8))
    copies = [
        [(action.action, action.user, (action.object or "").partition("/")[2]) for action in actions
         if action.session == copy] for copy in (1, 2, 3)
    ]  # fmt: skip
    assert copies[0] == copies[1] == copies[2]
    checked_script = check(actions, "users")
    assert (checked_script.requests.first_sessions, checked_script.requests.last_sessions) == (1, 3)
    assert (
        checked_script.expected.lists
        == checked_script.expected.lists_checked
        == 3 * 281 + 3 * 10 * 2
    )


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_script_reads_back_as_it_was_written(tmp_path: Path, name: str) -> None:
    actions = list(users.make(Users(copies=1, size=5, actions=50), 1))
    with table.writing(tmp_path / name, may_overwrite=False) as writer:
        for action in actions:
            writer.add(action)
    assert list(table.read_actions(tmp_path / name, Mistakes(name))) == actions


def test_types_of_users_divide_the_actions_each_by_its_own_mix() -> None:
    types = {
        "readers": {"share": 3, "mix": {"READ": 5, "LIST": 1}},
        "writers": {"mix": {"WRITE": 3, "SHARE": 1, "READ": 1}},
        "rest": {},
    }
    settings = Users(copies=2, size=5, actions=1000, types=types)
    actions = list(users.make(settings, 1))
    made = Counter(action.user_type for action in actions if action.action == "CREATE_USER")
    assert made == {"readers": 6, "writers": 2, "rest": 2}
    counts = Counter(
        (action.user_type, action.action, action.space) for action in actions if action.session == 1
    )
    # Users who write nothing have nothing in their private space.
    of_readers = {kind[1:]: count for kind, count in counts.items() if kind[0] == "readers"}
    assert of_readers == {("READ", "inbox"): 500, ("LIST", "inbox"): 100}
    assert counts["writers", "WRITE", "private"] == 120
    assert counts["writers", "SHARE", None] == 40
    assert counts["writers", "READ", "private"] + counts["writers", "READ", "inbox"] == 40
    assert sum(n for (name, *_), n in counts.items() if name == "rest") > 190
    # Objects that are read and deleted exist.
    checked_script = check(actions, "users")
    document = summarise(checked_script).document()
    assert document["user_types"]["readers"]["READ"] == 2 * 500
    assert document["actions"]["SHARE"]["actions"] == sum(
        2 * n for (_, action, _), n in counts.items() if action == "SHARE"
    )


@pytest.mark.parametrize(("count", "users_of_all", "most"), [(11, 20, 10), (3, 2, 2)])
def test_more_types_than_users_or_than_are_counted_are_refused(
    count: int, users_of_all: int, most: int
) -> None:
    types: dict[str, dict[str, str]] = {f"t{number}": {} for number in range(count)}
    with pytest.raises(ValidationError, match=f"'types'.*at most {most}"):
        Users(users=users_of_all, recipients=(1, 1), types=types)


def test_a_user_is_of_one_type_and_the_kinds_of_actions_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "script.csv"
    head = "session,action,user,object,size,user_type\n"
    path.write_text(
        f"{head}1,WRITE,ann,a,5,reader\n1,READ,ann,a,,writer\n1,READ,ann,a,,\n1,READ,bob,a,,writer\n"
    )
    mistakes = Mistakes(path.name)
    with pytest.raises(InputError) as caught:
        check(table.read_actions(path, mistakes), path.name, mistakes)
    place = '"script.csv", row {}, column "user_type": found {}, allowed "reader", as row 1 has it'
    assert caught.value.message.splitlines() == [
        place.format(2, '"writer"'),
        place.format(3, "nothing"),
    ]
    rows = [f"{n},WRITE,user-{n},{n},5,type-{n}" for n in range(129)]
    path.write_text(head + "\n".join(rows) + "\n")
    mistakes = Mistakes(path.name)
    with pytest.raises(InputError) as caught:
        check(table.read_actions(path, mistakes), path.name, mistakes)
    assert [line.partition(": ")[0] for line in caught.value.message.splitlines()] == [
        f'"script.csv", row {row}, column "user_type"' for row in (128, 129)
    ]


def test_all_mistakes_come_at_once_with_row_and_column(script: Path) -> None:
    lines = mistakes_of(
        script,
        "0,CREATE_USER,ann,,,,,,\n"
        "1,WRITE,bob,private,a,5,,,\n"
        "1,SHARE,ann,,a,5,,,\n"
        "1,WIRTE,ann,private,a,5,,,\n"
        "1,WRITE,ann,private,a,five,,,\n"
        "1,READ,ann,public,a,,,,\n"
        "1,SHARE,ann,,a,5,carl;dora,,\n",
    )
    assert places(lines) == [
        (2, "user"),
        (3, "recipients"),
        (4, "action"),
        (5, "size"),
        (6, "space"),
        (7, "recipients"),
        (7, "recipients"),
    ]


def test_a_mistake_is_one_line_of_its_fields_and_those_beyond_fifty_are_counted() -> None:
    mistakes = Mistakes("s.csv")
    mistakes.add(2, "size", "F", "A", "H")
    mistakes.add(None, None, "G", "B")
    with pytest.raises(ScriptError) as caught:
        mistakes.refuse()
    assert caught.value.message == (
        '"s.csv": found G, allowed B\n"s.csv", row 2, column "size": found F, allowed A\nhint: H'
    )
    for row in range(SHOWN_MAX):
        mistakes.add(row + 3, "user", "F", "A")
    with pytest.raises(ScriptError) as caught:
        mistakes.stop_if_any()
    assert (len(caught.value.mistakes), caught.value.count) == (SHOWN_MAX, SHOWN_MAX + 2)
    assert caught.value.message.splitlines()[-1] == "and 2 more"


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_numbers_out_of_bounds_are_mistakes_in_both_kinds_of_file(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    rows = {"session": [1, 1, 1], "action": ["WRITE"] * 3, "object": ["a", "b", "c"]}
    sizes = [-5, 2**40, 2**40 - 1]
    if name.endswith("csv"):
        lines = [",".join(map(str, row)) for row in zip(*rows.values(), sizes, strict=True)]
        path.write_text("session,action,object,size\n" + "\n".join(lines) + "\n")
    else:
        pa.parquet.write_table(pa.table({**rows, "size": sizes}), path)
    mistakes = Mistakes(name)
    with pytest.raises(ScriptError) as caught:
        check(table.read_actions(path, mistakes), name, mistakes)
    bounds_crossed = caught.value.mistakes
    assert places(bounds_crossed) == [(1, "size"), (2, "size")]
    assert [mistake.actual for mistake in bounds_crossed] == ['"-5"', f'"{2**40}"']
    assert all(mistake.allowed.endswith(f" 0 to {2**40 - 1}") for mistake in bounds_crossed)


def test_cells_that_are_no_utf_8_are_mistakes_with_their_places(script: Path) -> None:
    lines = b"1,WRITE,,,caf\xc3\xa9,5,,,\n1,WRITE,,,\xff\xfe,5,,,\n1,WRITE,,,a,five,,,\n"
    script.write_bytes(HEAD.encode() + lines)
    mistakes = Mistakes(script.name)
    with pytest.raises(ScriptError) as caught:
        check(table.read_actions(script, mistakes), script.name, mistakes)
    assert places(caught.value.mistakes) == [(2, "object"), (3, "size")]
    assert "b'\\xff\\xfe'" in caught.value.mistakes[0].actual
    script.write_bytes(b"\xff" + HEAD.encode() + lines)
    with pytest.raises(InputError, match="UTF-8"):
        list(table.read_actions(script, mistakes))


def test_changes_that_contradict_the_script_are_refused(script: Path) -> None:
    errors = mistakes_of(
        script,
        "1,READ,,,early,,,,\n"
        "1,WRITE,,,a,5,,,\n"
        "1,READ,,,a,6,,,\n"
        "1,READ,,,a,,,absent,\n"
        "1,LIST,,,,,,,7\n"
        "1,DELETE,,,a,,,,\n"
        "1,DELETE,,,a,,,,\n"
        "1,READ,,,old,,,exists,\n",
    )
    assert places(errors) == [
        (1, "object"), (3, "size"), (4, "expect"), (5, "entries"), (7, "object"), (8, "size"),
    ]  # fmt: skip
    early, size, _, entries, deleted, old = errors
    assert '"early"' in early.actual
    assert (size.actual, size.allowed.partition(",")[0]) == ("6", "5")
    assert "row 2" in size.allowed
    assert (entries.actual, entries.allowed.partition(",")[0]) == ("7", "2")
    assert "row 6" in deleted.actual
    assert old.actual == "nothing"


def test_sessions_that_wait_for_each_other_are_a_cycle(script: Path) -> None:
    errors = mistakes_of(
        script,
        "1,READ,,,a,,,,\n1,WRITE,,,b,5,,,\n2,READ,,,b,,,,\n2,WRITE,,,a,5,,,\n",
    )
    assert places(errors) == [(1, "object"), (3, "object")]
    assert any("cycle" in (error.hint or "") for error in errors)


def test_an_invalid_script_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    (tmp_path / "a.csv").write_text("session,deed\n1,READ\n")
    with pytest.raises(InputError, match="Parquet"):
        list(table.read_actions(tmp_path / "a.parquet", Mistakes("a")))
    with pytest.raises(ScriptError) as caught:
        list(table.read_actions(tmp_path / "a.csv", Mistakes("a")))
    assert places(caught.value.mistakes) == [(None, "action"), (None, "deed")]


def test_requests_have_what_must_come_back(script: Path, tmp_path: Path) -> None:
    checked_script = checked(
        script,
        "5,WRITE,,,x/a,5,,,\n"
        "5,WRITE,,,x/a,6,,,\n"
        "5,READ,,,x/a,,,,\n"
        "5,READ,,,x/b,9,,exists,\n"
        "5,LIST,,,x/,,,,\n"
        "5,DELETE,,,x/a,,,,\n"
        "5,LIST,,,x/,,,,1\n"
        "5,HEAD,,,x/a,,,absent,\n"
        "9,AUDIT,,,,,,,\n",
    )
    made = compile_script(checked_script, tmp_path)
    rows = pa.ipc.open_file(made.measured.path).read_all()
    assert rows["version"].to_pylist()[:4] == [1, 2, 2, 1]
    assert rows["size"].to_pylist()[:4] == [5, 6, 6, 9]
    assert rows["expect"].to_pylist() == [ANY, ANY, EXISTS, EXISTS, ANY, EXISTS, ANY, ABSENT, ANY]
    sums = {
        key: int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
        for key in ("x/a", "x/b")
    }
    assert rows["entries"].to_pylist()[4:] == [2, None, 1, None, 1]
    hashes = rows["entries_hash"].to_pylist()
    assert hashes[4] == (sums["x/a"] + sums["x/b"]) % 2**64
    assert hashes[6] == hashes[8] == sums["x/b"]
    assert made.prepare is not None
    assert pa.ipc.open_file(made.prepare.path).read_all()["size"].to_pylist() == [9]
    digest = hashlib.sha256(made.measured.path.read_bytes()).hexdigest()
    assert made.measured.path.name == f"{digest}.arrow"
    subjects = rows.schema.metadata[b"subjects_sha256"].decode()
    keys = pa.ipc.open_file(tmp_path / f"{subjects}.subjects.arrow").read_all()["key"].to_pylist()
    assert sorted(keys) == ["", "x/", "x/a", "x/b"]


def test_rows_are_sorted_by_session_with_users_first_and_audits_last(script: Path) -> None:
    checked_script = checked(
        script,
        "9,AUDIT,ann,private,,,,,\n"
        "4,WRITE,ann,private,a,5,,,\n"
        "7,WRITE,ann,private,b,5,,,\n"
        "4,READ,ann,private,a,,,,\n"
        "3,CREATE_USER,ann,,,,,,\n",
    )
    requests = checked_script.requests
    assert list(requests.session) == [0, 0, 0, 0, 1, 1, 2, 3]
    assert list(requests.row) == [5, 5, 5, 5, 2, 4, 3, 1]
    assert checked_script.expected.entries[7] == 2
    assert summarise(checked_script).users == 1


def test_the_command_makes_shows_and_checks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "users.csv"
    assert cli.main(["script", "make", "users", "-o", str(path), "--set", "actions=100"]) == 0
    assert cli.main(["script", "show", str(path), "--rows", "2"]) == 0
    assert cli.main(["script", "check", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "130 actions" in shown
    assert "3 sessions" in shown
    assert "CREATE_USER" in shown
    assert cli.main(["script", "make", "users", "-o", str(path), "--set", "recipients=[5,20]"]) == 1
    assert "recipients" in capsys.readouterr().err
    assert cli.main(["script", "make", "users"]) == 1
    assert "-o FILE" in capsys.readouterr().err


def test_mistakes_are_values_where_json_is_asked_for(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text(HEAD + "1,WRITE,,,a,five,,,\n")
    assert cli.main(["script", "check", "--json", str(script)]) == 1
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert (document["script"], document["count"]) == (str(script), 1)
    (mistake,) = document["mistakes"]
    assert (mistake["row"], mistake["column"], mistake["actual"]) == (1, "size", '"five"')
    assert mistake["allowed"] in shown.err


WRONG = """\
session,action,user,space,object,size,recipients,expect
1,READ,,,never,,,
1,WRITE,,,a,ten,,
1,READ,,,a,,,
x,WRITE,,,b,10,,
1,READ,,,b,,,
1,LIST,,,,,,
2,SHARE,u,,s,10,,
2,READ,,,other,,,
3,CREATE_USER,u,,,,,
4,CREATE_USER,u,,,,,
2,SHARE,u,,t,10,ghost,
2,JUMP,,,c,,,
2,READ,,,c,,,
"""


def test_all_mistakes_come_at_once_and_none_that_follows_from_another(tmp_path: Path) -> None:
    """Mistakes in cells neither hide nor invent mistakes in the order of other rows."""
    path = tmp_path / "own.csv"
    path.write_text(WRONG)
    mistakes = Mistakes("own.csv")
    with pytest.raises(InputError) as error:
        check(read_actions(path, mistakes), "own.csv", mistakes)
    matches = re.findall(r'row (\d+), column "(\w+)"', error.value.message)
    assert [(int(row), column) for row, column in matches] == [
        (1, "object"),  # nothing writes it
        (2, "size"),
        (4, "session"),
        (7, "recipients"),
        (8, "object"),
        (10, "user"),
        (11, "recipients"),
        (12, "action"),
    ]
    # Rows 3, 5 and 13 read what wrong rows may have written.
    assert {3, 5, 6, 13}.isdisjoint(mistakes.rows)
