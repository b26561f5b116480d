"""From a campaign file to a Campaign: what is read, and how mistakes are reported."""

from pathlib import Path
from textwrap import dedent

import pytest

from loadstone.campaign.reading.parse import parse_campaign, read_campaign
from loadstone.campaign.schema.campaign import Campaign
from loadstone.errors import CampaignError
from tests.unit.campaign_drivers import DRIVERS, STORE

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


def mistakes(text: str, *overrides: str, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(CampaignError) as caught:
        parsed(text, *overrides, environ=environ)
    return [str(mistake) for mistake in caught.value.mistakes]


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
    told = mistakes("""\
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
    settings = {setting.name: setting for setting in DRIVERS["s3"].settings}
    assert told == [
        'c.yaml:3: targets.store.endpoints: found nothing, allowed a value; driver s3 needs it '
        f"({settings['endpoints'].help})\n"
        "hint: give it here, or export AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL",
        "c.yaml:5: targets.store.endpint: found an unknown key, allowed driver, replication, "
        f'{", ".join(settings)}\nhint: did you mean "endpoints"?',
        'c.yaml:7: dataset.objects: found "many", allowed a whole number, like 1000 or 10_000_000',
        'c.yaml:8: dataset.size: found "4kb", allowed a size in bytes, or like "4KiB", "4K" (both '
        '4096), "4kB" (4000) or "10MiB"\n'
        'hint: write "4KiB" for powers of two or "4kB" for powers of ten',
        "c.yaml:9: load.threads: found 0, allowed a whole number of at least 1",
        'c.yaml:11: phases.0.op: found "gett", allowed "put", "get", "range_get", '
        '"multi_range_get", "head", "list", "delete", "bulk_delete", "copy", "post", '
        '"multipart_put", "multipart_get", "create_bucket", "delete_bucket", "read", "write" or '
        '"append"\n'
        'hint: did you mean "get"?',
        "c.yaml:12: phases.1.iterations: found 3, allowed 1, because delete can happen to an "
        "object only once",
        'c.yaml:13: rounds: found "two", allowed a whole number, like 1000 or 10_000_000',
        "c.yaml:14: colour: found an unknown key, allowed "
        + ", ".join(_top_keys()),
    ]  # fmt: skip


def _top_keys() -> list[str]:
    fields = Campaign.model_fields.items()
    return [field.alias or name for name, field in fields]


def test_a_key_written_twice_is_told_with_both_lines() -> None:
    assert "c.yaml:3: name: found the key again (first on line 1), allowed it once" in mistakes(
        f"name: a\n{STORE}name: b\n{REST}"
    )


def test_a_mistake_is_told_at_the_spelling_that_was_written() -> None:
    told = mistakes(f"name: a\n{STORE}dataset: {{containers: none, objects: 1, size: 1}}\n")
    assert told[0].startswith("c.yaml:3: dataset.containers: found ")
    told = mistakes("name: a\ntargets: {s: {driver: s3,\n  endpoint: 7}}\n" + REST)
    assert told == ["c.yaml:3: targets.s.endpoint: found 7, allowed one text or a list of them"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "c.yaml:1: found an empty file, allowed a map of keys, such as name: and targets:"),
        ("# nothing\n", "c.yaml:1: found an empty file, "),
        ("- a\n- b\n", "c.yaml:1: found no map of keys, allowed a map of keys"),
        ("name: [a\nload: 1\n", "c.yaml:2: found expected ',' or ']', but got ':' (YAML syntax)"),
        ("name: a\n\tload: 1\n", "c.yaml:2: found found character '\\t'"),
        ("name: a: b\n", "c.yaml:1: found mapping values are not allowed here (YAML syntax)"),
        ("name: a\n---\nname: b\n", "c.yaml:2: found but found another document (YAML syntax)"),
        ("a: &x\n  b: *x\n", "c.yaml:1: found anchors that unfold without end"),
    ],
)
def test_a_file_that_is_no_campaign_at_all_is_told_where_it_goes_wrong(
    text: str, expected: str
) -> None:
    with pytest.raises(CampaignError) as caught:
        parse_campaign(text, origin="c.yaml", drivers=DRIVERS, environ={})
    assert str(caught.value).startswith(expected)


def test_a_file_that_is_not_there_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match=r"none\.yaml: found no readable file \(No such file"):
        read_campaign(tmp_path / "none.yaml", drivers=DRIVERS, environ={})


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(CampaignError, match="bytes that are no UTF-8"):
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
    told = mistakes(f"name: !!python/name:os.system a\n{STORE}{REST}")
    assert "c.yaml:1: name: found the tag tag:yaml.org,2002:python/name:os.system" in told[0]


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


def test_what_is_wrong_in_a_set_is_told_as_such_and_not_with_a_line_of_the_file() -> None:
    told = mistakes(
        GOOD, "load.threads=none", "phases.gett.iterations=1", "phases.9.op=put", "nonsense", "a=["
    )
    assert told == [
        'set: phases.gett.iterations: found "gett", allowed a number, or one of put, get, delete\n'
        'hint: did you mean "get"?',
        "set: phases.9.op: found entry 9, allowed an entry from 0 to 2",
        'set: found "nonsense", allowed KEY=VALUE',
        "set: a: found a value that is no YAML (while parsing a flow node), allowed YAML",
        'set: load.threads: found "none", allowed a whole number, like 1000 or 10_000_000',
    ]


def test_a_set_that_reaches_into_a_plain_value_is_refused() -> None:
    assert mistakes(GOOD, "name.first=x") == [
        'set: name.first: found "good" at name, allowed a map or a list there'
    ]


@pytest.mark.parametrize("key", ["password", "secret_key", "session_token"])
def test_a_literal_secret_is_refused_and_never_repeated(key: str) -> None:
    driver = "swift, auth_url: http://k/v3" if key == "password" else "s3, endpoint: http://store"
    told = mistakes(
        f"name: a\ntargets: {{t: {{driver: {driver}, {key}: hunter2}}}}\n{REST}",
    )
    assert len(told) == 1
    assert f"c.yaml:2: targets.t.{key}: found a literal str, allowed a reference" in told[0]
    assert "hint: a secret stands in the environment or in a file" in told[0]
    assert "hunter2" not in told[0]


def test_a_literal_secret_is_not_repeated_when_something_else_is_wrong_too() -> None:
    told = mistakes(f"name: a\n{STORE}{REST}colour: red\n", "targets.store.secret_key=hunter2")
    assert any("set: targets.store.secret_key: found a literal str" in text for text in told)
    assert not any("hunter2" in text for text in told)


def test_a_password_inside_an_address_or_a_header_is_refused() -> None:
    told = mistakes(
        "name: a\n"
        "targets:\n"
        "  t: {driver: s3, endpoint: 'http://me:hunter2@store', headers: {X-Auth-Token: hunter2}}\n"
        + REST
    )
    assert 'targets.t.headers: found the header "X-Auth-Token"' in told[0]
    assert "targets.t.endpoint: found an address with a password in it" in told[1]
    assert not any("hunter2" in text for text in told)


def test_a_secret_may_come_from_the_environment_or_a_file() -> None:
    campaign = parsed(
        "name: a\ntargets: {t: {driver: s3, endpoint: http://s, access_key: AKIA, "
        "secret_key: {file: /run/key}, session_token: {env: TOKEN}}}\n" + REST
    )
    assert campaign.targets["t"].settings["secret_key"] == {"file": "/run/key"}


def test_what_a_driver_cannot_do_is_refused_with_the_line_of_the_phase() -> None:
    told = mistakes(
        "name: a\ntargets: {t: {driver: file, path: /x}}\n"
        "dataset: {objects: 10, size: 1}\nload: {threads: 1}\n"
        "phases:\n  - put\n  - op: multipart_put\n    part_size: 1\n"
        "  - mix: {get: 1,\n      multi_range_get: 1}\n"
        "    range: 1\n    range_count: 1\n"
    )
    assert told[0].startswith(
        'c.yaml:7: phases.1.op: found "multipart_put", allowed what driver file of target "t" can '
        "do: put, "
    )
    assert told[1].startswith(
        'c.yaml:10: phases.2.mix.multi_range_get: found "multi_range_get", allowed '
    )


def test_an_unknown_driver_is_refused_with_the_known_ones() -> None:
    told = mistakes(f"name: a\ntargets: {{t: {{driver: s4}}}}\n{REST}")
    assert told == [
        'c.yaml:2: targets.t.driver: found "s4", allowed ' + ", ".join(DRIVERS) + "\n"
        'hint: did you mean "s3"?'
    ]


def test_a_target_without_a_driver_is_told_what_was_probably_meant() -> None:
    told = mistakes(f"name: a\ntargets: {{t: {{drivr: s3}}}}\n{REST}")
    assert told == [
        "c.yaml:2: targets.t.driver: found nothing, allowed a driver; this key is required\n"
        'hint: did you mean "driver" by "drivr"?'
    ]


def test_a_missing_part_of_the_workload_is_told() -> None:
    told = mistakes(f"name: a\n{STORE}")
    assert [text.partition(",")[0] for text in told] == [
        "c.yaml:1: phases: found nothing",
        "c.yaml:1: dataset: found nothing",
    ]
    told = mistakes(f"name: a\n{STORE}dataset: {{}}\nphases: [put]\n")
    assert [text.partition(",")[0] for text in told] == [
        "c.yaml:1: load: found nothing",
        "c.yaml:3: dataset.objects: found nothing",
        "c.yaml:3: dataset.size: found nothing",
    ]


def test_a_wrong_value_in_a_sweep_is_told_at_its_own_place() -> None:
    told = mistakes(
        GOOD
        + "sweep:\n  threads: [1,\n    x]\n  phases.get.iterations: [1, 0]\n  size: [4kb]\n"
        + "  rounds: [1]\n  phases.gett.range: [1]\n"
    )
    assert [text.partition(", allowed")[0] for text in told] == [
        'c.yaml:8: sweep.threads.1: found "x"',
        "c.yaml:9: sweep.phases.get.iterations.1: found 0",
        'c.yaml:10: sweep.size.0: found "4kb"',
        "c.yaml:11: sweep.rounds: found a sweep over rounds",
        'c.yaml:12: sweep.phases.gett.range.0: found "gett"',
    ]


def test_a_wrong_value_in_a_sweep_is_told_beside_mistakes_that_hide_the_rest() -> None:
    text = GOOD.replace("size: 4KiB", "sise: 4KiB").replace("threads: 4", "threads: 0")
    told = mistakes(
        text
        + "sweep: {size: [4KiB, 4KX], threads: [1, many], phases.get.duration: [1s, soon]}\n"
        + "workloads: [{name: own, sweep: {size: [7Z]}}, {name: other}, 3]\n"
    )
    keys = [one.split(": ")[1] for one in told]
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
    assert any("sweep.hosts.0: found neither" in one for one in mistakes(alone))


def test_a_sweep_over_the_same_thing_twice_is_refused() -> None:
    told = mistakes(GOOD + "sweep: {threads: [1, 2], load.threads: [3]}\n")
    assert told == [
        "c.yaml:6: sweep.load.threads: found load.threads beside threads, "
        "allowed one of them: they are one"
    ]


def test_rounds_that_write_need_names_of_their_own() -> None:
    told = mistakes(
        f"name: a\n{STORE}dataset: {{objects: 1, size: 1, prefix: same-}}\n"
        "load: {threads: 1}\nrounds: 2\nphases: [put]\n"
    )
    assert told == [
        'c.yaml:3: dataset.prefix: found "same-", allowed a prefix with {round} in it, because '
        "each round writes objects of its own"
    ]


def test_datasets_that_would_share_a_bucket_are_refused() -> None:
    told = mistakes(
        f"name: a\n{STORE}dataset: {{objects: 1, size: 1, buckets: 100, prefix: 'b{{round}}'}}\n"
        "load: {threads: 1}\nrounds: 11\nphases: [put]\n"
    )
    assert told == [
        'c.yaml:3: dataset.prefix: found bucket "b110" in two datasets: prefixes "b1" and "b11", '
        "allowed prefixes that keep datasets apart\n"
        'hint: end the prefix with a dash, as in "bench-{round}-"'
    ]


@pytest.mark.parametrize(
    ("prefix", "allowed"),
    [
        ("Bench-", "names of lower-case letters"),
        ("a_b-", "names of lower-case letters"),
        ("é-", "names of lower-case letters"),
        ("x" * 63, "at most 63 bytes"),
    ],
)
def test_names_that_s3_has_no_buckets_for_are_refused(prefix: str, allowed: str) -> None:
    told = mistakes(
        f"name: a\n{STORE}dataset: {{objects: 1, size: 1, buckets: 2, prefix: {prefix}}}\n"
        "load: {threads: 1}\nphases: [put]\n"
    )
    assert allowed in told[0]


@pytest.mark.parametrize("prefix", ["bücket-日本-", "Bench_", "٣-"])
def test_names_that_only_s3_has_no_buckets_for_are_taken(prefix: str) -> None:
    target = "targets: {here: {driver: file, path: /tmp}}\n"
    rest = "load: {threads: 1}\nphases: [put]\n"
    parsed(f"name: a\n{target}dataset: {{objects: 1, size: 1, prefix: '{prefix}'}}\n{rest}")
    text = f"name: a\n{target}dataset: {{objects: 1, size: 1, prefix: '{'é' * 32}'}}\n{rest}"
    assert "at most 63 bytes" in mistakes(text)[0]


def test_a_prefix_with_an_unknown_brace_is_refused() -> None:
    told = mistakes(f"name: a\n{STORE}dataset: {{objects: 1, size: 1, prefix: 'b-{{rond}}-'}}\n")
    assert 'found "b-{rond}-", allowed a prefix whose braces hold only {name}' in told[0]


def test_objects_too_large_for_one_request_are_refused_with_the_way_out() -> None:
    told = mistakes(
        f"name: a\n{STORE}dataset: {{objects: 1, size: 6GiB}}\nload: {{threads: 1}}\n"
        "phases: [put, {op: multipart_put, name: small, part_size: 1MiB},\n"
        "  {op: multipart_put, name: many, part_size: 5MiB}]\n",
        "dataset.size=60GiB",
    )
    assert "hint: use op: multipart_put with a part_size" in told[0]
    assert "found 1 MiB, allowed at least 5 MiB for s3" in told[1]
    assert "found 12288 parts an object, allowed at most 10000 for s3" in told[2]


def test_a_range_that_does_not_fit_the_object_is_refused() -> None:
    told = mistakes(
        f"name: a\n{STORE}dataset: {{objects: 1, size: 4KiB}}\nload: {{threads: 1}}\n"
        "phases: [{op: range_get, range: 8KiB}]\n"
    )
    assert told == [
        "c.yaml:5: phases.0.range: found 8 KiB, allowed ranges that fit into objects of 4 KiB"
    ]


def test_mistakes_in_one_of_several_workloads_are_told_where_their_keys_stand() -> None:
    told = mistakes(
        f"name: a\n{STORE}load: {{threads: 1}}\n"
        "dataset: {objects: 1, size: 4KiB}\n"
        "workloads:\n"
        "  - {name: one, phases: [{op: range_get, range: 8KiB}]}\n"
        "  - name: two\n"
        "    phases: [get]\n"
        "    sweep: {sise: [1]}\n"
    )
    assert [text.partition(", allowed")[0] for text in told] == [
        "c.yaml:6: workloads.0.phases.0.range: found 8 KiB",
        "c.yaml:9: workloads.1.sweep.sise: found a sweep over sise",
    ]
    assert 'did you mean "size"?' in told[1]
