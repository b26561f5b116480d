"""Traces become scripts: in order, joinable, and with nothing lost without a word."""

import json
from pathlib import Path
from typing import Any

import pytest

from loadstone import cli
from loadstone.errors import InputError
from loadstone.script.compiled import check
from loadstone.script.converters import find_converter
from loadstone.script.table import Action
from loadstone.script.trace import Losses, Traced, TraceOptions, script_of
from tests.system.command import settled

DATA = Path(__file__).parents[1] / "data"
WARP = DATA / "importers" / "warp-get.csv.zst"
VERSITYGW = DATA / "traces" / "versitygw.log"

AWS = (
    'owner bucket [06/Feb/2026:00:00:{second:02} +0000] 192.0.2.3 user {id} {operation} {key} '
    '"{method} /bucket/{key}?{query} HTTP/1.1" {status} {error} {sent} {size} 7 5 "-" "agent 1" -'
)  # fmt: skip


def line(operation: str, key: str, second: int = 1, **fields: object) -> str:
    usual = {"id": "ID", "method": "GET", "query": "", "status": 200, "error": "-", "sent": 10,
             "size": 10}  # fmt: skip
    return AWS.format(operation=operation, key=key, second=second, **(usual | fields)) + "\n"


def options(**given: object) -> TraceOptions:
    usual = {"sessions_by": "key", "sessions": 4, "size_bytes": None, "salt": None,
             "has_times": True, "copies": 1}  # fmt: skip
    return TraceOptions(**(usual | given))  # type: ignore[arg-type]


def converted(form: str, path: Path, losses: Losses | None = None, **given: object) -> list[Action]:
    losses = losses or Losses(may_skip=False)
    return list(find_converter(form).script([path], options(**given), losses))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


def test_an_s3_log_becomes_actions_in_their_order(log: Path) -> None:
    log.write_text(
        line("REST.GET.OBJECT", "a%252Fb", 2)
        + line("REST.PUT.OBJECT", "new", 3)
        + line("REST.HEAD.OBJECT", "new", 3)
        + line("REST.GET.OBJECT", "gone", 4, status=404, error="NoSuchKey", size="-")
        + line("REST.DELETE.OBJECT", "new", 5, status=204, sent="-", size="-")
        + line("REST.GET.BUCKET", "-", 6, query="list-type=2&prefix=a%2F", size="-")
        + line("REST.GET.OBJECT", "part", 6, status=206)
        + line("REST.GET.OBJECT", "busy", 6, status=503, error="SlowDown")
        + line("REST.GET.ACL", "a", 7)
    )
    losses = Losses(may_skip=False)
    actions = converted("s3-log", log, losses)
    assert [(action.action, action.object, action.expect, action.size) for action in actions] == [
        ("READ", "a%2Fb", "exists", 10),
        ("WRITE", "new", None, 10),
        ("HEAD", "new", None, None),
        ("READ", "gone", "absent", None),
        ("DELETE", "new", None, None),
        ("LIST", "a/", None, None),
    ]
    assert [action.due_ns for action in actions] == [
        0,
        10**9,
        15 * 10**8,
        2 * 10**9,
        3 * 10**9,
        4 * 10**9,
    ]
    assert sum(losses.left_out.values()) == 3
    assert len(check(actions, "log").expected.prepared) == 1


def test_a_real_log_of_versitygw_is_a_script_without_mistakes() -> None:
    losses = Losses(may_skip=False)
    actions = converted("s3-log", VERSITYGW, losses)
    assert len(actions) >= 20
    assert {action.action for action in actions} >= {"WRITE", "READ", "HEAD"}
    assert {why.partition(":")[0] for why in losses.left_out} == {"s3_DeleteBucket"}
    check(actions, "log")


def test_a_real_file_of_warp_is_a_script_without_mistakes() -> None:
    actions = converted("warp", WARP)
    summary = check(actions, "warp")
    assert summary.requests.action_count == len(actions) > 100
    assert actions == sorted(actions, key=lambda action: action.due_ns or 0)


def test_malformed_lines_are_located_and_refused_or_skipped(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = line("REST.PUT.OBJECT", "a")
    log.write_text(good + "nonsense\n" + good.replace("Feb", "Foo") + good)
    with pytest.raises(InputError) as caught:
        converted("s3-log", log)
    assert "line 2" in caught.value.message
    assert "line 3" in caught.value.message
    made = tmp_path / "made.csv"
    words = ["script", "convert", "s3-log", str(log), "-o", str(made)]
    assert cli.main(words) == 1
    assert not made.exists()
    assert cli.main([*words, "--malformed", "skip"]) == 0
    shown = capsys.readouterr().out
    assert "2 actions" in shown
    assert "skipped: 2" in shown


def test_anonymous_keys_stay_joinable(log: Path) -> None:
    log.write_text(
        line("REST.PUT.OBJECT", "dir/a", 1)
        + line("REST.PUT.OBJECT", "dir/b", 2)
        + line("REST.GET.OBJECT", "dir/a", 3)
        + line("REST.GET.BUCKET", "-", 4, query="prefix=dir%2F")
    )
    keys = [action.object or "" for action in converted("s3-log", log, salt="s")]
    assert keys[0] == keys[2] != keys[1]
    assert keys[3] == keys[0][: len(keys[3])]
    assert "dir" not in "".join(keys)
    assert [action.object for action in converted("s3-log", log, salt="other")] != keys


def test_objects_of_unknown_size_are_counted_and_what_clients_share_is_not_expected() -> None:
    requests = [
        Traced(1, 5, "READ", "b", "x", None, "one", 200),
        Traced(2, 1, "WRITE", "b", "y", 7, "one", 200),
        Traced(3, 2, "READ", "b", "y", 7, "two", 200),
    ]
    losses = Losses(may_skip=False)
    actions = list(script_of(requests, options(sessions_by="client"), losses))
    assert [(action.action, action.session, action.expect) for action in actions] == [
        ("WRITE", 0, None),
        ("READ", 1, "any"),
    ]
    assert sum(losses.left_out.values()) == 1
    check(actions, "trace")
    actions = list(script_of(requests, options(size_bytes=9), Losses(may_skip=False)))
    assert [action.expect for action in actions] == [None, None, "exists"]


def test_the_log_of_a_run_becomes_a_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, run, made = tmp_path / "data", tmp_path / "run", tmp_path / "made.parquet"
    data.mkdir()
    words = ["bench", "put,get,delete", str(data), "-n", "9", "-t", "2", "--log-requests", "-q"]
    assert settled(cli.main([*words, "-o", str(run)]), capsys.readouterr().err) == 0
    assert cli.main(["script", "convert", "loadstone", str(run), "-o", str(made)]) == 0
    assert cli.main(["script", "check", str(made)]) == 0
    assert "27 actions" in capsys.readouterr().out


def test_nectars_mixed_file_becomes_actions_with_containers(tmp_path: Path) -> None:
    file = tmp_path / "mixed.csv"
    file.write_text(
        "completion_time_unix_nano,method,object_name,transaction_id,status,elapsed_nanoseconds\n"
        "3000000200,GET,c1/a,tx,200,200\n"
        "3000000100,PUT,c0/b,tx,201,100\n"
        "3000000500,POST,c0/b,tx,202,100\n"
        "3000000600,GET,c0/b,tx,503,100\n"
        "3000000900,DELETE,c0/b,tx,204,100\n"
    )
    losses = Losses(may_skip=False)
    actions = converted("nectar", file, losses, size_bytes=10)
    assert [
        (action.action, action.place, action.object, action.expect, action.due_ns)
        for action in actions
    ] == [
        ("READ", 0, "a", "exists", 0),
        ("WRITE", 1, "b", None, 0),
        ("DELETE", 1, "b", None, 800),
    ]
    assert losses.left_out == {"POST: not an action of a script": 1, "requests that failed": 1}


def test_nectars_other_files_tell_by_the_status(tmp_path: Path) -> None:
    file = tmp_path / "put.csv"
    head = "completion_time_unix_nano,object_name,transaction_id,status,elapsed_nanoseconds\n"
    file.write_text(head + "3000000200,c1/a,tx,201,200\n3000000300,c1/a,tx,200,100\n")
    losses = Losses(may_skip=False)
    actions = converted("nectar", file, losses, size_bytes=10)
    assert [(action.action, action.object) for action in actions] == [("WRITE", "a")]
    assert losses.left_out == {"status 200: the file does not tell GET or HEAD": 1}


def test_ibms_traces_become_actions(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_text(
        "1219008 REST.PUT.OBJECT 8d4f 1056\n"
        "1221974 REST.HEAD.OBJECT 39d1 528\n"
        "1232488 REST.GET.OBJECT 95d3 1168 0 1167\n"
        "1232489 REST.GET.OBJECT 95d3 1168 0 100\n"
        "1232490 REST.COPY.OBJECT 95d3 1168\n"
        "1234545 REST.DELETE.OBJECT 8d4f\n"
    )
    losses = Losses(may_skip=False)
    actions = converted("ibm", file, losses)
    assert [
        (action.action, action.object, action.expect, action.size, action.due_ns)
        for action in actions
    ] == [
        ("WRITE", "8d4f", None, 1056, 0),
        ("HEAD", "39d1", "exists", 528, 2_966_000_000),
        ("READ", "95d3", "exists", 1168, 13_480_000_000),
        ("DELETE", "8d4f", None, None, 15_537_000_000),
    ]
    assert losses.left_out == {
        "reads of a range": 1,
        "REST.COPY.OBJECT: not an action of a script": 1,
    }


@pytest.mark.parametrize(
    "text", ["x REST.GET.OBJECT a 1", "1 REST.GET.OBJECT", "1 GET a 1", "1 REST.GET.OBJECT a 1 2"]
)
def test_a_malformed_line_of_ibms_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "trace"
    file.write_text("1 REST.PUT.OBJECT b 5\n" + text + "\n")
    with pytest.raises(InputError, match="line 2"):
        converted("ibm", file)
    losses = Losses(may_skip=True)
    assert len(converted("ibm", file, losses)) == 1
    assert losses.malformed == 1


def test_an_iolog_becomes_reads_and_writes_of_extents(tmp_path: Path) -> None:
    path = tmp_path / "iolog"
    path.write_text(
        "fio version 3 iolog\n"
        "10 /dev/sdx add\n10 /dev/sdx open\n"
        "12 /dev/sdx write 4096 8192\n15 /dev/sdx read 4096 8192\n"
        "16 /dev/sdx sync 0 0\n17 /dev/sdx read 0 512\n20 /dev/sdx trim 4096 8192\n"
    )
    losses = Losses(may_skip=False)
    actions = converted("fio-iolog", path, losses)
    assert [
        (action.action, action.object, action.size, action.expect, action.due_ns)
        for action in actions
    ] == [
        ("WRITE", "dev/sdx/4096", 8192, None, 0),
        ("READ", "dev/sdx/4096", None, None, 3_000_000),
        ("READ", "dev/sdx/0", 512, "exists", 5_000_000),
        ("DELETE", "dev/sdx/4096", None, None, 8_000_000),
    ]
    assert losses.left_out.total() == 3
    assert losses.read == 7
    check(actions, "a test's")


def test_waits_of_an_iolog_of_version_2_pass(tmp_path: Path) -> None:
    path = tmp_path / "iolog"
    path.write_text(
        "fio version 2 iolog\nf write 0 4096\nf wait 1500 0\nf read 0 4096\nf read 0\nf jump 0 1\n"
    )
    losses = Losses(may_skip=True)
    actions = converted("fio-iolog", path, losses)
    assert [action.due_ns for action in actions] == [0, 1_500_000]
    assert losses.malformed == 2
    assert all(f"line {at}" in text for at, text in zip((5, 6), losses.examples, strict=True))


def test_an_invalid_iolog_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "iolog"
    path.write_text("12 /dev/sdx write 4096 8192\n")
    with pytest.raises(InputError, match="line 1"):
        converted("fio-iolog", path)


def operation(kind: str, user: str, place: str, **given: Any) -> dict[str, Any]:
    return {"userId": user, "type": kind, "storageType": "PRIVATE", "location": place, **given}


def fixture(*operations: dict[str, Any]) -> str:
    """A fixture in the harness's layout; at its end "a" has one private object, "b" one shared."""
    spaces = {
        "userPrivateSpace": {"a": {"x/1": {"id": "C2"}}, "b": {}},
        "userPublicSpace": {"a": {}, "b": {"s": {"id": "C1"}}},
    }
    return json.dumps({"operations": operations, **spaces})


OPERATIONS = (
    operation("LIST", "a", "", result={"dirContent": []}),
    operation("WRITE", "a", "x/1", contentId={"id": "C1"}),
    operation("WRITE", "a", "x/1", contentId={"id": "C2"}),
    operation("READ", "a", "x/1", result={"content": {"id": "C2"}}),
    operation("SHARE", "a", "s", contentId={"id": "C1"}, recipients=["b"]) | {
        "storageType": "INBOX"
    },
    operation("LIST", "b", "", result={"dirContent": ["s"]}) | {"storageType": "INBOX"},
    operation("WRITE", "b", "y", contentId={"id": "C1"}),
    operation("DELETE", "b", "y"),
)  # fmt: skip


def test_a_fixture_becomes_a_script_of_users_with_its_results(tmp_path: Path) -> None:
    path = tmp_path / "fixture.json"
    path.write_text(fixture(*OPERATIONS))
    losses = Losses(may_skip=False)
    actions = converted("datasafe", path, losses, size_bytes=100, copies=2)
    assert [action.user for action in actions if action.action == "CREATE_USER"] == ["a", "b"]
    for copy in (1, 2):
        of_copy = [action for action in actions if action.session == copy]
        assert [action.action for action in of_copy] == [
            operation["type"] for operation in OPERATIONS
        ]
        assert all((action.object or "").startswith(f"copy-{copy}/") for action in of_copy)
        audits = [action for action in actions if action.session == 2 + copy]
        assert [(audit.user, audit.space, audit.entries) for audit in audits] == [
            ("a", "private", 1), ("b", "private", 0), ("a", "inbox", 0), ("b", "inbox", 1),
        ]  # fmt: skip
    assert losses.read == len(OPERATIONS)
    # The script's own model expects the same sets, and holds the listings to them.
    checked = check(actions, "a test's")
    assert checked.expected.lists == checked.expected.lists_checked == 2 * (2 + 4)


@pytest.mark.parametrize(
    "wrong",
    [
        operation("READ", "a", "x/1", result={"content": {"id": "C1"}}),
        operation("LIST", "a", "x", result={"dirContent": []}),
        operation("DELETE", "a", "x/2"),
        operation("RENAME", "a", "x/1"),
        {"type": "READ"},
    ],
)
def test_an_operation_that_contradicts_those_before_it_is_named(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    path = tmp_path / "fixture.json"
    path.write_text(fixture(*OPERATIONS, wrong))
    with pytest.raises(InputError, match=f"operation {len(OPERATIONS) + 1}:"):
        converted("datasafe", path, size_bytes=100)


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        ({"type": "READ"}, "READ.userId: Field required"),
        (operation("WRITE", "a", "x/3"), "WRITE.contentId: Field required"),
        (operation("LIST", "a", "", result={"dirContent": "x/1"}), "LIST.result.dirContent: "),
        (operation("DELETE", "a", "x/1", storageType="SHARED"), "DELETE.storageType: "),
        (operation("RENAME", "a", "x/1"), "'RENAME' found using 'type'"),  # others' words
        ("READ", "object"),
    ],
)
def test_an_operation_that_is_none_is_refused_by_its_field(
    tmp_path: Path, wrong: Any, fact: str
) -> None:
    path = tmp_path / "fixture.json"
    path.write_text(fixture(*OPERATIONS, wrong))
    with pytest.raises(InputError) as error:
        converted("datasafe", path, size_bytes=100)
    assert f'"{path}", operation {len(OPERATIONS) + 1}: ' in error.value.message
    assert fact in error.value.message
    losses = Losses(may_skip=True)
    assert converted("datasafe", path, losses, size_bytes=100)
    assert (losses.read, losses.malformed) == (len(OPERATIONS) + 1, 1)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("[]", "object"),
        ("{", "JSON"),
        ('{"userPrivateSpace": {}, "userPublicSpace": {}}', "operations: Field"),
        ('{"operations": [], "userPrivateSpace": {"a": 1}, "userPublicSpace": {}}',
         "userPrivateSpace.a: "),
    ],
)  # fmt: skip
def test_an_invalid_fixture_is_refused_with_its_field(tmp_path: Path, text: str, fact: str) -> None:
    path = tmp_path / "fixture.json"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        converted("datasafe", path, size_bytes=100)
    assert error.value.message.startswith(f'"{path}" ')
    assert fact in error.value.message


def test_a_fixture_needs_a_size(tmp_path: Path) -> None:
    path = tmp_path / "fixture.json"
    path.write_text(fixture(*OPERATIONS))
    with pytest.raises(InputError) as error:
        converted("datasafe", path)
    assert "--size" in str(error.value.hint)
