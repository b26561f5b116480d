"""Ceilings, hooks and probes of a campaign: their plans and their mistakes."""

import json
from pathlib import Path
from typing import Any

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.ceiling_plan import steps_of_osds
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.campaign.schema.campaign import Campaign
from loadstone.campaign.schema.ceiling import Ceiling
from loadstone.campaign.schema.fio_jobs import writes_of_job_file
from loadstone.campaign.schema.hook import Hook
from loadstone.campaign.schema.target_probe import TargetProbes
from loadstone.errors import CampaignError, InputError, Mistake
from tests.unit.campaign_drivers import DRIVERS
from tests.unit.campaign_mistakes import is_reported
from tests.unit.test_campaign_schema import allowed
from tests.unit.test_campaign_schema import refused as mistakes_of

CAMPAIGN = """
name: test
targets:
  one: {driver: rados, pool: p1, conf: /c, user: client.x}
  four: {driver: rados, pool: p4}
  web: {driver: s3, endpoint: "http://web", access_key: a, secret_key: {env: KEY}}
dataset: {objects: 10, size: 4KiB}
load: {threads: 1}
phases: [put, get]
blocks: 2
"""


def plan_of(text: str, *overrides: str) -> Plan:
    campaign = parse_campaign(CAMPAIGN + text, overrides, drivers=DRIVERS, environ={})
    return make_plan(campaign, DRIVERS)


def mistakes(text: str) -> list[Mistake]:
    with pytest.raises(CampaignError) as caught:
        plan_of(text)
    return caught.value.mistakes


def refused(text: str) -> str:
    return "\n".join(map(str, mistakes(text)))


def steps(text: str) -> list[dict[str, Any]]:
    return [step for planned in plan_of(text).ceilings for step in planned.document["steps"]]


def commands(text: str) -> list[str]:
    return [" ".join(words) for step in steps(text) for words in step["commands"]]


def test_a_network_ceiling_is_measured_in_each_direction_with_each_number_of_streams() -> None:
    network_steps = steps("ceilings: [{kind: network, host: osd, streams: [1, 8], duration: 9s}]")
    assert [(step["bounds"], step["parameters"]["streams"]) for step in network_steps] == [
        ("write", 1), ("write", 8), ("read", 1), ("read", 8),
    ]  # fmt: skip
    for step in network_steps:
        (words,) = step["commands"]
        assert words[:5] == ["iperf3", "-c", "osd", "-p", "5201"]
        assert ("-R" in words) == (step["bounds"] == "read")
        assert words[words.index("-t") + 1] == "9"
        assert step["timeout_ns"] > step["expected_ns"] == 9 * 10**9


def test_a_device_is_only_read_unless_the_campaign_names_it_as_one_to_write() -> None:
    reads = "{kind: device, options: {filename: /dev/x, rw: randread, direct: true}}"
    (command,) = commands(f"ceilings: [{reads}]")
    assert "--readonly" in command
    assert "--direct=1" in command
    writes = "filename: /dev/x, rw: write"
    message = refused(f"ceilings: [{{kind: device, options: {{{writes}}}}}]")
    assert 'writes to "/dev/x"' in message
    assert "allow_write: [/dev/x]" in message
    (step,) = steps(f"ceilings: [{{kind: device, options: {{{writes}}}, allow_write: /dev/x}}]")
    assert "--readonly" not in step["commands"][0]
    assert step["bounds"] == "write"


@pytest.mark.parametrize("kind", ["rw", "randrw", "trim", "write:8", "something-new"])
def test_jobs_not_known_to_read_count_as_writing(kind: str) -> None:
    options = {"filename": "/dev/x", "rw": kind}
    assert "allow_write" in allowed(Ceiling, {"kind": "device", "options": options})
    also = {"kind": "device", "options": options, "allow_write": ["/dev/y"]}
    assert "/dev/x" in allowed(Ceiling, also)


def test_one_of_several_files_that_may_be_written_does_not_allow_the_others() -> None:
    options = {"filename": "/dev/x:/dev/y", "rw": "write"}
    message = allowed(Ceiling, {"kind": "device", "options": options, "allow_write": "/dev/x"})
    assert "/dev/y" in message
    assert 'writes to "/dev/x"' not in message


def test_files_that_a_job_writes_to_are_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "job.fio"
    path.write_text(
        "; a comment\n[global]\nioengine=libaio\ngroup_reporting\nfilename=/dev/x\n"
        "[reads]\nrw=randread\n[writes]\nrw=write\nfilename=/dev/z\n"
    )
    assert writes_of_job_file(path) == ["/dev/z"]
    path.write_text("[global]\nrw=write\n[one]\nfilename=/dev/x\n[two]\nfilename=/dev/y\n")
    assert writes_of_job_file(path) == ["/dev/x", "/dev/y"]
    path.write_text("[one]\nrw=read\nreadwrite=write\ndirectory=/mnt\nfilename=a\n")
    assert writes_of_job_file(path) == ["/mnt/a"]
    path.write_text("include other.fio\n[one]\nfilename=/dev/x\n")
    with pytest.raises(InputError):
        writes_of_job_file(path)
    path.write_text("[one]\nrw=read\nfilename=/mnt/a\nunlink=1\n")
    with pytest.raises(InputError, match="unlink"):
        writes_of_job_file(path)


def test_options_of_fio_that_delete_or_run_something_are_refused() -> None:
    message = refused(
        "ceilings: [{kind: device, options: {filename: /mnt/a, rw: read, unlink: 1,"
        " exec_prerun: 'rm -r /'}}]"
    )
    assert "unlink" in message
    assert "exec_prerun" in message


@pytest.mark.parametrize(
    "option",
    ["exec_prer: touch /x", '"exec_prerun=touch /x #": 1', "ioengine: 'external:./evil.so'"],
)
def test_fio_gets_no_option_that_could_run_something(option: str) -> None:
    """It takes abbreviations, words with "=" as one, and engines from libraries."""
    campaign = "ceilings: [{kind: device, options: {filename: /mnt/a, rw: read, OPTION}}]"
    assert "option" in refused(campaign.replace("OPTION", option))


def test_a_command_for_another_host_is_one_word_that_its_shell_reads_as_many() -> None:
    (step,) = steps(
        "ceilings: [{kind: device, via: [ssh, -4, root@osd],"
        " options: {filename: '/dev/a b;reboot', rw: read}}]"
    )
    (words,) = step["commands"]
    assert words[:3] == ["ssh", "-4", "root@osd"]
    assert len(words) == 4
    assert "'--filename=/dev/a b;reboot'" in words[3]
    (step,) = steps(
        "ceilings: [{kind: device, via: [ip, netns, exec, c],"
        " options: {filename: '/dev/a b', rw: read}}]"
    )
    assert step["commands"][0][:5] == ["ip", "netns", "exec", "c", "fio"]


def test_rados_bench_asks_each_pool_and_deletes_its_own_objects_by_their_name() -> None:
    plan = plan_of("ceilings: [{kind: rados_bench, threads: [1, 4], operations: [rand, write]}]")
    assert [planned.document["targets"] for planned in plan.ceilings] == [["one"], ["four"]]
    first = plan.ceilings[0].document
    words = [step["commands"][0] for step in first["steps"]]
    assert words[0][:7] == ["rados", "-c", "/c", "-n", "client.x", "-p", "p1"]
    # Data must be written before it is read.
    assert [step["parameters"]["operation"] for step in first["steps"]] == ["write", "rand"] * 2
    names = {line[line.index("--run-name") + 1] for line in words}
    assert names == {command[-1] for command in first["clean_up"]}
    assert all(first["run"][:8] in name for name in names)


def test_osd_bench_finds_the_osds_of_a_pool_and_asks_them_alone_and_together() -> None:
    plan = plan_of("ceilings: [{kind: osd_bench, targets: four}]")
    (planned,) = plan.ceilings
    assert planned.document["query"][-5:] == ["pg", "ls-by-pool", "p4", "-f", "json"]
    osd_steps = steps_of_osds(planned.document["steps"][0], [2, 5])
    assert [len(step["commands"]) for step in osd_steps] == [1, 1, 2]
    assert osd_steps[2]["commands"] == [osd_steps[0]["commands"][0], osd_steps[1]["commands"][0]]
    assert "osd.5" in osd_steps[1]["commands"][0]
    named = steps("ceilings: [{kind: osd_bench, osds: [3], targets: web}]")
    assert [step["parameters"]["osds"] for step in named] == [[3]]


def test_a_mount_is_measured_in_a_directory_of_its_own_that_is_removed_again() -> None:
    plan = plan_of("ceilings: [{kind: mount, directory: /mnt/ceph/, file_size: 1MiB}]")
    document = plan.ceilings[0].document
    folder = f"/mnt/ceph/loadstone-{document['run'][:8]}-mount"
    assert document["steps"][0]["commands"] == [["mkdir", folder]]
    assert document["clean_up"] == [["rm", "-r", "--", folder]]
    assert all(f"--directory={folder}" in step["commands"][0] for step in document["steps"][1:])
    assert [step["bounds"] for step in document["steps"][1:]] == ["write", "read"] * 2


def test_ceilings_stand_before_the_trials_behind_them_or_before_each_block() -> None:
    plan = plan_of(
        "ceilings:\n"
        "  - {kind: network, host: h, streams: 1, directions: send, when: both, name: a}\n"
        "  - {kind: network, host: h, streams: 1, directions: send, when: blocks, name: b}\n"
    )
    blocks = {trial.document["block"]: trial.id for trial in reversed(plan.trials)}
    assert [(planned.document["name"], planned.before) for planned in plan.ceilings] == [
        ("a", blocks[1]), ("b", blocks[1]), ("b", blocks[2]), ("a", None),
    ]  # fmt: skip
    assert [planned.id for planned in plan.ceilings] == ["C001", "C002", "C003", "C004"]
    assert json.loads(json.dumps([planned.document for planned in plan.ceilings]))


@pytest.mark.parametrize(
    ("ceiling", "facts"),
    [
        ({"kind": "network"}, ("host", "nothing ->", "network")),
        ({"kind": "network", "host": "h", "osds": 1}, ("osds", "network ->", "osd_bench")),
        (
            {"kind": "network", "host": "h", "start_server": True},
            ("start_server", '"h" ->', "127.0.0.1"),
        ),
        ({"kind": "device"}, ("", "neither ->", "options", "job_file")),
        ({"kind": "device", "options": {"rw": "read"}}, ("options", "no filename ->")),
        (
            {"kind": "device", "options": {"filename": "/x", "output_format": "terse"}},
            ("options.output_format", '"output_format" ->'),
        ),
        (
            {"kind": "device", "job_file": "j", "via": ["ssh", "h"]},
            ("job_file", "via ->", "options"),
        ),
        ({"kind": "rados_bench", "operations": "seq"}, ("operations", "seq ->", "write")),
        (
            {"kind": "mount", "directory": "/m", "via": "ssh h"},
            ("via", '"ssh h" ->', "[systemctl,"),
        ),
    ],
)
def test_a_ceiling_whose_keys_do_not_fit_together_is_refused(
    ceiling: dict[str, Any], facts: tuple[str, ...]
) -> None:
    assert is_reported(mistakes_of(Ceiling, ceiling), *facts)


def test_a_kind_of_ceiling_that_is_misspelt_is_told_with_the_one_meant() -> None:
    assert is_reported(
        mistakes("ceilings: [{kind: netwrok}]"), "ceilings.0.kind", '"netwrok" ->', '"network"?'
    )


@pytest.mark.parametrize(
    ("hook", "facts"),
    [
        ({"at": "before_trial"}, ("", "neither ->", "run", "shell")),
        ({"at": "before_run", "run": ["a"], "shell": "b"}, ("", "run and shell ->")),
        ({"at": "sometimes", "run": ["a"]}, ("at", '"sometimes" -> before_run, after_run')),
        ({"at": "before_run", "run": ["a"], "phases": "get"}, ("phases", "before_run ->")),
        ({"at": "1s", "run": "rm -r /"}, ("run", '"rm -r /" ->', "[systemctl,")),
        ({"at": "1s", "run": ["a", 0.5]}, ("run", "0.5 ->", "in quotes")),
        ({"at": "1s", "run": ["a"], "env": {"T": {"env": "A", "x": 1}}}, ("env", "{env: NAME}")),
    ],
)
def test_a_hook_whose_keys_do_not_fit_together_is_refused(
    hook: dict[str, Any], facts: tuple[str, ...]
) -> None:
    assert is_reported(mistakes_of(Hook, hook), *facts)


def test_a_hook_is_for_the_trials_that_its_filters_name() -> None:
    hook = Hook.model_validate(
        {"at": "30s", "run": ["ceph", "osd", "out", 3], "phases": "get", "targets": ["four"]}
    )
    assert hook.elapsed_ns == 30 * 10**9
    assert hook.command == ("ceph", "osd", "out", "3")
    plan = plan_of("")
    documents = [trial.document for trial in plan.trials if hook.fits(trial.document)]
    assert len(documents) == 2
    assert {(document["phase"], document["case"]["target"]) for document in documents} == {
        ("get", "four")
    }


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("hooks: [{at: 1s, run: [a], phases: gte}]", ("hooks.0.phases.0", '"gte" ->', "put, get")),
        ("hooks: [{at: 1s, run: [a], targets: x}]", ("hooks.0.targets.0", '"x" ->', "one, four")),
        (
            "ceilings: [{kind: network, host: h, targets: x}]",
            ("ceilings.0.targets.0", '"x" ->', "one, four"),
        ),
        (
            "ceilings: [{kind: rados_bench, targets: web}]",
            ("ceilings.0.targets", "rados, ", "web ->", "rados_bench"),
        ),
        (
            "ceilings: [{kind: osd_bench, targets: web}]",
            ("ceilings.0.targets", "osd_bench", "osds: [0, 1]"),
        ),
        ("probes: {ceph: {targets: x}}", ("probes.ceph.0.targets.0", '"x" ->', "one, four")),
        (
            "ceilings: [{kind: network, host: h}, {kind: network, host: i}]",
            ("ceilings.1.name", '"network" ->', "differ"),
        ),
    ],
)
def test_a_name_that_is_nowhere_in_the_campaign_is_told_with_its_place(
    text: str, facts: tuple[str, ...]
) -> None:
    assert is_reported(mistakes(text), *facts)


@pytest.mark.parametrize(
    ("probes", "facts"),
    [
        (
            {"prometheus": {"urls": "osd:9100", "metrics": "a"}},
            ("prometheus.0.urls.0", '"osd:9100" ->', "http://host:9100/metrics"),
        ),
        (
            {"prometheus": {"urls": "http://u:p@h/m", "metrics": "a"}},
            ("prometheus.0.urls.0", "a user or a password in it ->", "without"),
        ),
        ({"prometheus": {"urls": "http://h/m"}}, ("prometheus.0.metrics", "nothing ->")),
        (
            {"prometheus": {"urls": "http://h", "metrics": "a", "every": "1s", "timeout": "2s"}},
            ("prometheus.0.timeout", "every ->"),
        ),
        (
            {"prometheus": [{"urls": "http://h", "metrics": "a"}] * 2},
            ("prometheus.1.name", "differ"),
        ),
        (
            {"prometheus": {"urls": "http://h", "metrics": "a", "bearer_token": "abc"}},
            ("prometheus.0.bearer_token", "{env: NAME}"),
        ),
    ],
)
def test_a_probe_whose_keys_do_not_fit_together_is_refused(
    probes: dict[str, Any], facts: tuple[str, ...]
) -> None:
    assert is_reported(mistakes_of(TargetProbes, probes), *facts)
    assert "abc" not in allowed(TargetProbes, probes)


def test_parts_of_a_plan_around_the_load_survive_serialisation() -> None:
    campaign = parse_campaign(
        CAMPAIGN
        + "ceilings: [{kind: device, options: {filename: /x, rw: read, direct: true}}]\n"
        + "hooks: [{at: 1m30s, shell: 'a | b', env: {T: {env: S}}}, {at: after_run, run: [c]}]\n"
        + "probes: {ceph: true, prometheus: {urls: 'http://h{1...2}/m', metrics: 'a*'}}\n",
        drivers=DRIVERS,
        environ={},
    )
    written = json.loads(json.dumps(campaign.document()))
    again = Campaign.model_validate(written)
    assert again.document() == written
    assert again.hooks == campaign.hooks
    assert again.probes == campaign.probes
    assert again.probes.prometheus[0].urls == ("http://h1/m", "http://h2/m")
    assert again.ceilings == campaign.ceilings


def test_a_ceiling_and_a_hook_can_be_changed_by_name_from_the_command_line() -> None:
    text = CAMPAIGN + "ceilings: [{kind: network, host: far}]\n"
    text += "hooks: [{at: 1s, name: drop, run: [a]}]\n"
    changes = ["ceilings.network.host=near", "hooks.drop.run=[b, 3]", "ceilings.0.streams=2"]
    campaign = parse_campaign(text, changes, drivers=DRIVERS, environ={})
    assert (campaign.ceilings[0].host, campaign.ceilings[0].streams) == ("near", (2,))
    assert campaign.hooks[0].run == ("b", "3")


def test_a_dry_run_shows_every_command_and_what_this_host_lacks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from loadstone.cli.running.preview import print_preview

    monkeypatch.setattr("shutil.which", lambda name: None if name == "iperf3" else f"/bin/{name}")
    print_preview(
        plan_of(
            "ceilings: [{kind: network, host: osd, streams: 3, directions: send, duration: 10s}]\n"
            "hooks: [{at: 30s, phases: get, shell: 'a | b', on_failure: label}]\n"
            "probes: {ceph: true, prometheus: {urls: 'http://h/m', metrics: 'ceph_*'}}\n"
        ),
        None,
        None,
    )
    output = capsys.readouterr().out
    assert "iperf3 -c osd -p 5201 -J -i 1 -t 10 -P 3" in output
    assert "10.0 s" in output
    assert '"iperf3": apt-get install iperf3' in output
    assert "a | b" in output
    assert "30.0 s" in output
    assert "ceph_* of http://h/m" in output
    assert "measured trial" in output


def test_cards_are_of_the_targets_that_have_one() -> None:
    assert plan_of("").cards == ()
    asked = plan_of("card: true")
    assert [target["name"] for target in asked.cards] == ["web"]
    assert asked.are_cards_asked


@pytest.mark.parametrize(
    ("text", "duration", "targets"),
    [
        ("", "49s", []),
        ("", "50s", ["web"]),
        ("card: false", "1h", []),
        ("allow_foreign: [web]", "1h", []),
        ("prepare: never", "1h", []),
        ("hosts: {launch: local, count: 2}", "1h", []),
    ],
)
def test_a_card_is_made_unasked_in_a_long_run_that_makes_its_buckets(
    text: str, duration: str, targets: list[str]
) -> None:
    """Six trials have the duration: three targets, twice."""
    plan = plan_of(text, f"phases.get.duration={duration}")
    assert [target["name"] for target in plan.cards] == targets
    assert not plan.are_cards_asked


def test_a_card_without_a_target_that_has_one_is_refused() -> None:
    text = CAMPAIGN.replace('  web: {driver: s3, endpoint: "http://web", access_key: a, ', "#")
    with pytest.raises(CampaignError) as caught:
        make_plan(parse_campaign(f"{text}card: true", drivers=DRIVERS, environ={}), DRIVERS)
    assert [mistake.key for mistake in caught.value.mistakes] == ["card"]
