"""From a campaign file to a Campaign: parsing, and reports of mistakes."""

import errno
import os
from pathlib import Path
from textwrap import dedent

import pytest

from loadstone.campaign.parse import parse_campaign, read_campaign
from loadstone.campaign.reading.mistakes import UNKNOWN_KEY
from loadstone.campaign.schema.campaign import Campaign
from loadstone.errors import CampaignError, Mistake
from tests.unit.campaign_drivers import DRIVERS, STORE
from tests.unit.campaign_mistakes import findings, names, places

REST = """\
dataset: {objects: 1000, size: 4KiB}
load: {threads: 4}
phases: [put, get, delete]
"""
GOOD = f"name: good\n{STORE}{REST}"


def parsed(text: str, *overrides: str, environ: dict[str, str] | None = None) -> Campaign:
    return parse_campaign(
        dedent(text), overrides, origin="c.yaml", drivers=DRIVERS, environ=environ or {}
    )


def mistakes(text: str, *overrides: str, environ: dict[str, str] | None = None) -> list[Mistake]:
    with pytest.raises(CampaignError) as caught:
        parsed(text, *overrides, environ=environ)
    return caught.value.mistakes


def test_the_campaign_of_the_design_reads_as_it_stands() -> None:
    campaign = parsed("""\
        name: hummingbird-4k
        seed: 1
        targets:
          hummingbird: {driver: swift, auth_url: http://10.0.0.5:5000/v3, project: test,
                        user: tester, password: {env: OS_PASSWORD}}
          ceph:        {driver: s3, endpoint: "http://rgw{1...5}:7480", region: default}
        dataset: {containers: 100, objects: 10_000_000, size: 4KiB, prefix: "bench-ec-kb-{round}-"}
        load: {threads: 250}
        on_error: continue
        rounds: 2
        phases:
          - {op: put, pause_after: 300s}
          - {op: get, iterations: 3, pause_after: 300s}
          - {op: delete, pause_after: 300s}
        sweep: {}
        blocks: 1
        """)
    assert campaign.dataset is not None
    assert campaign.dataset.buckets == 100
    assert campaign.dataset.objects == 10_000_000
    assert campaign.phases[1].pause_after_ns == 300_000_000_000
    assert campaign.on_error.action == "continue"


def test_every_mistake_is_told_at_once_with_line_key_found_and_allowed() -> None:
    errors = mistakes("""\
        name: bad
        targets:
          store:
            driver: s3
            endpint: http://store
        dataset:
          objects: many
          size: 4kb
        load: {threads: 0}
        phases:
          - op: gett
          - {op: delete, iterations: 3}
        rounds: two
        colour: red
        """)
    settings = [setting.name for setting in DRIVERS["s3"].settings]
    assert findings(errors) == [
        (3, "targets.store.endpoints", "nothing"),
        (5, "targets.store.endpint", UNKNOWN_KEY),
        (7, "dataset.objects", '"many"'),
        (8, "dataset.size", '"4kb"'),
        (9, "load.threads", "0"),
        (11, "phases.0.op", '"gett"'),
        (12, "phases.1.iterations", "3"),
        (13, "rounds", '"two"'),
        (14, "colour", UNKNOWN_KEY),
    ]
    assert {mistake.origin for mistake in errors} == {"c.yaml"}
    missing, unknown, _, size, threads, operation, iterations, _, top = errors
    assert names(missing.hint, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    assert unknown.allowed == ", ".join(["driver", "replication", *settings])
    assert names(unknown.hint, '"endpoints"')
    assert names(size.hint, '"4KiB"', '"4kB"')
    assert "at least 1" in threads.allowed
    assert names(operation.allowed, '"put"', '"get"', '"append"')
    assert names(operation.hint, '"get"')
    assert names(iterations.allowed, "1", "delete")
    assert top.allowed == ", ".join(_top_keys())


def _top_keys() -> list[str]:
    fields = Campaign.model_fields.items()
    return [field.alias or name for name, field in fields]


def test_a_mistake_is_one_line_of_its_fields_and_its_hint_another() -> None:
    mistake = Mistake(origin="c.yaml", line=3, key="a.b", actual="F", allowed="A", hint="H")
    assert str(mistake) == "c.yaml:3: a.b: found F, allowed A\nhint: H"
    what = str(mistake).splitlines()[0].removeprefix("c.yaml:3: a.b: ")
    assert str(Mistake(key="", actual="F", allowed="A", origin="set")) == f"set: {what}"
    error = CampaignError([mistake, mistake], "both")
    assert str(error) == f"{mistake}\n{mistake}\nhint: both"


def test_a_key_written_twice_is_told_with_both_lines() -> None:
    errors = mistakes(f"name: a\n{STORE}name: b\n{REST}")
    assert ("c.yaml", 3, "name") in places(errors)
    assert any("line 1" in mistake.actual for mistake in errors)


def test_a_mistake_is_told_at_the_spelling_that_was_written() -> None:
    errors = mistakes(f"name: a\n{STORE}dataset: {{containers: none, objects: 1, size: 1}}\n")
    assert places(errors)[0] == ("c.yaml", 3, "dataset.containers")
    errors = mistakes("name: a\ntargets: {s: {driver: s3,\n  endpoint: 7}}\n" + REST)
    assert findings(errors) == [(3, "targets.s.endpoint", "7")]


@pytest.mark.parametrize(
    ("text", "line", "actual"),
    [
        ("", 1, "empty file"),
        ("# nothing\n", 1, "empty file"),
        ("- a\n- b\n", 1, "no map"),
        ("name: [a\nload: 1\n", 2, "got ':' (YAML syntax)"),  # others' words
        ("name: a\n\tload: 1\n", 2, "'\\t'"),
        ("name: a: b\n", 1, "(YAML syntax)"),
        ("name: a\n---\nname: b\n", 2, "another document"),
        ("a: &x\n  b: *x\n", 1, "anchors"),
    ],
)
def test_an_invalid_campaign_file_is_reported_with_the_place(
    text: str, line: int, actual: str
) -> None:
    with pytest.raises(CampaignError) as caught:
        parse_campaign(text, origin="c.yaml", drivers=DRIVERS, environ={})
    (mistake,) = caught.value.mistakes
    assert (mistake.origin, mistake.line, mistake.key) == ("c.yaml", line, "")
    assert actual in mistake.actual


def test_a_file_that_is_not_there_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(CampaignError) as caught:
        read_campaign(tmp_path / "none.yaml", drivers=DRIVERS, environ={})
    (mistake,) = caught.value.mistakes
    assert mistake.origin.endswith("none.yaml")
    assert os.strerror(errno.ENOENT) in mistake.actual


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(CampaignError, match="UTF-8"):
        read_campaign(tmp_path / "c.yaml", drivers=DRIVERS, environ={})


def test_anchors_and_merges_are_read_as_yaml_means_them() -> None:
    campaign = parsed(f"""\
        name: a
        {STORE}
        dataset: {{objects: 10, size: 1}}
        load: {{threads: 1}}
        phases:
          - &timed {{op: get, duration: 5s}}
          - {{<<: *timed, op: head}}
        """)
    assert [phase.duration_ns for phase in campaign.phases] == [5_000_000_000] * 2


def test_a_tag_is_refused_instead_of_obeyed() -> None:
    errors = mistakes(f"name: !!python/name:os.system a\n{STORE}{REST}")
    assert places(errors)[0] == ("c.yaml", 1, "name")
    assert "tag:yaml.org,2002:python/name:os.system" in errors[0].actual


def test_set_replaces_a_value_and_makes_what_is_missing_around_it() -> None:
    campaign = parsed(
        GOOD,
        "load.threads=8",
        "dataset.containers=5",
        "sweep.threads=[1, 2]",
        "phases.get.iterations=3",
        "phases.0.warm_up=5s",
        "expect.failures=true",
    )
    assert campaign.load is not None
    assert campaign.load.threads == 8
    assert campaign.dataset is not None
    assert campaign.dataset.buckets == 5
    assert campaign.sweep["threads"] == (1, 2)
    assert campaign.phases[1].iterations == 3
    assert campaign.phases[0].warm_up_ns == 5_000_000_000
    assert campaign.expect.failures


def test_a_mistake_in_set_is_reported_without_a_line_of_the_file() -> None:
    errors = mistakes(
        GOOD, "load.threads=none", "phases.gett.iterations=1", "phases.9.op=put", "nonsense", "a=["
    )
    assert places(errors) == [
        ("set", None, "phases.gett.iterations"),
        ("set", None, "phases.9.op"),
        ("set", None, ""),
        ("set", None, "a"),
        ("set", None, "load.threads"),
    ]
    name, entry, pair, yaml, threads = errors
    assert (name.actual, pair.actual, threads.actual) == ('"gett"', '"nonsense"', '"none"')
    assert (pair.allowed, yaml.allowed) == ("KEY=VALUE", "YAML")
    assert names(name.allowed, "put, get, delete")
    assert names(name.hint, '"get"')
    assert names(entry.allowed, "0 to 2")


def test_a_set_that_reaches_into_a_plain_value_is_refused() -> None:
    (mistake,) = mistakes(GOOD, "name.first=x")
    assert places([mistake]) == [("set", None, "name.first")]
    assert names(mistake.actual, '"good"')


@pytest.mark.parametrize("key", ["password", "secret_key", "session_token"])
def test_a_literal_secret_is_refused_and_never_repeated(key: str) -> None:
    driver = "swift, auth_url: http://k/v3" if key == "password" else "s3, endpoint: http://store"
    errors = mistakes(
        f"name: a\ntargets: {{t: {{driver: {driver}, {key}: hunter2}}}}\n{REST}",
    )
    assert places(errors) == [("c.yaml", 2, f"targets.t.{key}")]
    assert names(errors[0].allowed, "{env: ", "{file: ")
    assert "hunter2" not in str(errors[0])


def test_a_literal_secret_is_not_repeated_when_something_else_is_wrong_too() -> None:
    errors = mistakes(f"name: a\n{STORE}{REST}colour: red\n", "targets.store.secret_key=hunter2")
    assert places(errors) == [("c.yaml", 6, "colour"), ("set", None, "targets.store.secret_key")]
    assert not any("hunter2" in str(mistake) for mistake in errors)


def test_a_password_inside_an_address_or_a_header_is_refused() -> None:
    errors = mistakes(
        "name: a\n"
        "targets:\n"
        "  t: {driver: s3, endpoint: 'http://me:hunter2@store', headers: {X-Auth-Token: hunter2}}\n"
        + REST
    )
    assert [mistake.key for mistake in errors] == ["targets.t.headers", "targets.t.endpoint"]
    assert names(errors[0].actual, '"X-Auth-Token"')
    assert not any("hunter2" in str(mistake) for mistake in errors)


@pytest.mark.parametrize(
    "setting",
    [
        "endpoint: 'http://hunter2@store'",
        "endpoint: 'http://store/?X-Amz-Signature=hunter2'",
        "endpoint: 'https://store/#hunter2'",
        "secret_key: {env: 'hunter2/+='}",
        "headers: {Authorization: Bearer hunter2}",
        "headers: {x-amz-security-token: hunter2}",
        "headers: {X-Api-Key: hunter2}",
        "headers: {Set-Cookie: hunter2}",
        "headers: {X-Vault-Secret: hunter2}",
    ],
)
def test_a_possible_secret_is_refused_and_not_repeated(setting: str) -> None:
    errors = mistakes(f"name: a\ntargets:\n  t: {{driver: s3, {setting}}}\n{REST}")
    assert f"targets.t.{setting.partition(':')[0]}" in {
        mistake.key.replace("endpoints", "endpoint") for mistake in errors
    }
    assert not any("hunter2" in str(mistake) for mistake in errors)


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hunter2@there/", "https://hunter2@there/", "http://there/?access_token=hunter2",
        "http://there/?a=1&X-Amz-Signature=hunter2", "http://there/?sig=hunter2",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("arms.t.ready", "arms: {{t: {{start: [x], ready: '{}'}}}}"),
        ("probes.prometheus.urls", "probes: {{prometheus: {{urls: '{}', metrics: '*'}}}}"),
    ],
)
def test_an_address_that_may_hold_a_secret_is_refused_wherever_it_stands(
    url: str, place: str, text: str
) -> None:
    target = "name: a\ntargets: {t: {driver: s3, endpoint: http://s}}\n"
    errors = mistakes(f"{target}{text.format(url)}\n{REST}")
    assert place in {mistake.key.replace(".0", "") for mistake in errors}
    assert not any("hunter2" in str(mistake) for mistake in errors)
    parsed(f"{target}{text.format('http://there/probe?module=http_2xx')}\n{REST}")


def test_headers_that_carry_no_credential_are_taken() -> None:
    parsed(
        "name: a\ntargets: {t: {driver: s3, endpoint: http://s, headers: {x-amz-acl: private, "
        "x-amz-server-side-encryption-aws-kms-key-id: one}}}\n" + REST
    )


def test_a_secret_may_come_from_the_environment_or_a_file() -> None:
    campaign = parsed(
        "name: a\ntargets: {t: {driver: s3, endpoint: http://s, access_key: AKIA, "
        "secret_key: {file: /run/key}, session_token: {env: TOKEN}}}\n" + REST
    )
    assert campaign.targets["t"].settings["secret_key"] == {"file": "/run/key"}


def test_an_unsupported_operation_is_refused_with_the_line_of_the_phase() -> None:
    errors = mistakes(
        "name: a\ntargets: {t: {driver: file, path: /x}}\n"
        "dataset: {objects: 10, size: 1}\nload: {threads: 1}\n"
        "phases:\n  - put\n  - op: multipart_put\n    part_size: 1\n"
        "  - mix: {get: 1,\n      multi_range_get: 1}\n"
        "    range: 1\n    range_count: 1\n"
    )
    assert findings(errors) == [
        (7, "phases.1.op", '"multipart_put"'),
        (10, "phases.2.mix.multi_range_get", '"multi_range_get"'),
    ]
    for mistake in errors:
        assert names(mistake.allowed, "driver file", 'target "t"', "put, ")


def test_an_unknown_driver_is_refused_with_the_known_ones() -> None:
    errors = mistakes(f"name: a\ntargets: {{t: {{driver: s4}}}}\n{REST}")
    assert findings(errors) == [(2, "targets.t.driver", '"s4"')]
    assert errors[0].allowed == ", ".join(DRIVERS)
    assert names(errors[0].hint, '"s3"')


def test_an_operation_as_a_key_of_a_phase_gets_a_hint() -> None:
    (mistake,) = mistakes(
        f"name: a\n{STORE}dataset: {{objects: 10, size: 1}}\nload: {{threads: 1}}\n"
        "phases:\n  - get: {duration: 1s}\n"
    )
    assert mistake.key == "phases.0.get"
    assert names(mistake.hint, "op: get")


def test_a_target_without_a_driver_is_told_what_was_probably_meant() -> None:
    errors = mistakes(f"name: a\ntargets: {{t: {{drivr: s3}}}}\n{REST}")
    assert findings(errors) == [(2, "targets.t.driver", "nothing")]
    assert names(errors[0].hint, '"driver"', '"drivr"')


def test_a_missing_part_of_the_workload_is_told() -> None:
    errors = mistakes(f"name: a\n{STORE}")
    assert findings(errors) == [(1, "phases", "nothing"), (1, "dataset", "nothing")]
    errors = mistakes(f"name: a\n{STORE}dataset: {{}}\nphases: [put]\n")
    assert findings(errors) == [
        (1, "load", "nothing"),
        (3, "dataset.objects", "nothing"),
        (3, "dataset.size", "nothing"),
    ]


def test_a_wrong_value_in_a_sweep_is_told_at_its_own_place() -> None:
    errors = mistakes(
        GOOD
        + "sweep:\n  threads: [1,\n    x]\n  phases.get.iterations: [1, 0]\n  size: [4kb]\n"
        + "  rounds: [1]\n  phases.gett.range: [1]\n"
    )
    assert findings(errors) == [
        (8, "sweep.threads.1", '"x"'),
        (9, "sweep.phases.get.iterations.1", "0"),
        (10, "sweep.size.0", '"4kb"'),
        (11, "sweep.rounds", errors[3].actual),
        (12, "sweep.phases.gett.range.0", '"gett"'),
    ]


def test_a_wrong_value_in_a_sweep_is_told_beside_mistakes_that_hide_the_rest() -> None:
    text = GOOD.replace("size: 4KiB", "sise: 4KiB").replace("threads: 4", "threads: 0")
    errors = mistakes(
        text
        + "sweep: {size: [4KiB, 4KX], threads: [1, many], phases.get.duration: [1s, soon]}\n"
        + "workloads: [{name: own, sweep: {size: [7Z]}}, {name: other}, 3]\n"
    )
    keys = [error.key for error in errors]
    assert [key for key in keys if "sweep" in key] == [
        "sweep.size.1",
        "sweep.threads.1",
        "sweep.phases.get.duration.1",
        "workloads.0.sweep.size.0",
    ]
    assert {"dataset.sise", "load.threads"} <= set(keys)


def test_a_load_may_come_from_the_sweep_alone() -> None:
    swept = GOOD.replace("load: {threads: 4}\n", "")
    swept += "hosts: {launch: local, count: 2}\nsweep: {hosts: [1, 2], threads: [1, 4]}\n"
    assert parsed(swept).sweep["hosts"] == (1, 2)
    alone = swept.replace(", threads: [1, 4]", "")
    (mistake, _) = mistakes(alone)
    assert mistake.key == "sweep.hosts.0"
    assert names(mistake.allowed, "threads", "rate")


def test_a_sweep_over_the_same_thing_twice_is_refused() -> None:
    errors = mistakes(GOOD + "sweep: {threads: [1, 2], load.threads: [3]}\n")
    assert places(errors) == [("c.yaml", 6, "sweep.load.threads")]
    assert names(errors[0].actual, "load.threads", " threads")


def test_rounds_that_write_need_names_of_their_own() -> None:
    errors = mistakes(
        f"name: a\n{STORE}dataset: {{objects: 1, size: 1, prefix: same-}}\n"
        "load: {threads: 1}\nrounds: 2\nphases: [put]\n"
    )
    assert findings(errors) == [(3, "dataset.prefix", '"same-"')]
    assert names(errors[0].allowed, "{round}")


def test_datasets_that_would_share_a_bucket_are_refused() -> None:
    errors = mistakes(
        f"name: a\n{STORE}dataset: {{objects: 1, size: 1, buckets: 100, prefix: 'b{{round}}'}}\n"
        "load: {threads: 1}\nrounds: 11\nphases: [put]\n"
    )
    assert places(errors) == [("c.yaml", 3, "dataset.prefix")]
    assert names(errors[0].actual, '"b110"', '"b1"', '"b11"')
    assert names(errors[0].hint, '"bench-{round}-"')


@pytest.mark.parametrize(
    ("prefix", "allowed"),
    [
        ("Bench-", "lower-case"),
        ("a_b-", "lower-case"),
        ("é-", "lower-case"),
        ("x" * 63, "63 bytes"),
    ],
)
def test_names_that_s3_has_no_buckets_for_are_refused(prefix: str, allowed: str) -> None:
    errors = mistakes(
        f"name: a\n{STORE}dataset: {{objects: 1, size: 1, buckets: 2, prefix: {prefix}}}\n"
        "load: {threads: 1}\nphases: [put]\n"
    )
    assert [mistake.key for mistake in errors] == ["dataset.prefix"]
    assert allowed in errors[0].allowed


@pytest.mark.parametrize("prefix", ["bücket-日本-", "Bench_", "٣-"])
def test_names_that_only_s3_has_no_buckets_for_are_taken(prefix: str) -> None:
    target = "targets: {here: {driver: file, path: /tmp}}\n"
    rest = "load: {threads: 1}\nphases: [put]\n"
    parsed(f"name: a\n{target}dataset: {{objects: 1, size: 1, prefix: '{prefix}'}}\n{rest}")
    text = f"name: a\n{target}dataset: {{objects: 1, size: 1, prefix: '{'é' * 32}'}}\n{rest}"
    assert "63 bytes" in mistakes(text)[0].allowed


def test_a_prefix_with_an_unknown_brace_is_refused() -> None:
    errors = mistakes(f"name: a\n{STORE}dataset: {{objects: 1, size: 1, prefix: 'b-{{rond}}-'}}\n")
    assert findings(errors)[0][1:] == ("dataset.prefix", '"b-{rond}-"')
    assert names(errors[0].allowed, "{name}")


def test_objects_too_large_for_one_request_are_refused_with_the_way_out() -> None:
    errors = mistakes(
        f"name: a\n{STORE}dataset: {{objects: 1, size: 6GiB}}\nload: {{threads: 1}}\n"
        "phases: [put, {op: multipart_put, name: small, part_size: 1MiB},\n"
        "  {op: multipart_put, name: many, part_size: 5MiB}]\n",
        "dataset.size=60GiB",
    )
    assert names(errors[0].hint, "op: multipart_put", "part_size")
    assert names(errors[1].actual, "1 MiB")
    assert names(errors[1].allowed, "5 MiB", "s3")
    assert names(errors[2].actual, "12288 parts")
    assert names(errors[2].allowed, "10000", "s3")


def test_a_range_that_does_not_fit_the_object_is_refused() -> None:
    errors = mistakes(
        f"name: a\n{STORE}dataset: {{objects: 1, size: 4KiB}}\nload: {{threads: 1}}\n"
        "phases: [{op: range_get, range: 8KiB}]\n"
    )
    assert findings(errors) == [(5, "phases.0.range", "8 KiB")]
    assert names(errors[0].allowed, "4 KiB")


def test_mistakes_in_one_of_several_workloads_are_told_where_their_keys_stand() -> None:
    errors = mistakes(
        f"name: a\n{STORE}load: {{threads: 1}}\n"
        "dataset: {objects: 1, size: 4KiB}\n"
        "workloads:\n"
        "  - {name: one, phases: [{op: range_get, range: 8KiB}]}\n"
        "  - name: two\n"
        "    phases: [get]\n"
        "    sweep: {sise: [1]}\n"
    )
    assert places(errors) == [
        ("c.yaml", 6, "workloads.0.phases.0.range"),
        ("c.yaml", 9, "workloads.1.sweep.sise"),
    ]
    assert errors[0].actual == "8 KiB"
    assert names(errors[1].hint, '"size"')


def test_a_list_in_the_place_of_a_value_is_told_with_the_sweep_that_measures_each() -> None:
    text = GOOD.replace("{threads: 4}", "{threads: [1, 4]}")
    (mistake,) = mistakes(text)
    assert mistake.key == "load.threads"
    assert names(mistake.hint, "sweep: {threads: [1, 4]}")


def test_a_driver_that_is_not_below_its_target_is_told_with_the_target() -> None:
    text = f"name: bad\ntargets:\n  store:\n  driver: s3\n{REST}"
    hints = {mistake.key: mistake.hint for mistake in mistakes(text)}
    assert names(hints["targets.driver"], "store:")
