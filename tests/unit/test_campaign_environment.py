"""The environment fills in missing settings of a target: secrets by name, not by value."""

import json

import pytest

from loadstone.campaign.parse import fill_settings, parse_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.errors import CampaignError
from tests.unit.campaign_drivers import DRIVERS

AWS = {
    "AWS_ACCESS_KEY_ID": "AKIASECRET",
    "AWS_SECRET_ACCESS_KEY": "hunter2",
    "AWS_SESSION_TOKEN": "token2",
    "AWS_REGION": "eu-west-1",
    "AWS_ENDPOINT_URL_S3": "http://s3.store",
    "AWS_ENDPOINT_URL": "http://other.store",
}
OPENSTACK = {
    "OS_AUTH_URL": "http://keystone/v3",
    "OS_USERNAME": "tester",
    "OS_PASSWORD": "hunter2",
    "OS_PROJECT_NAME": "test",
    "OS_USER_DOMAIN_NAME": "Default",
    "OS_ENDPOINT_TYPE": "internalURL",
}
SWIFT_V1 = {"ST_AUTH": "http://swift/auth/v1.0", "ST_USER": "test:tester", "ST_KEY": "hunter2"}


def test_aws_variables_fill_an_s3_target() -> None:
    assert fill_settings("s3", {}, AWS) == {
        "endpoints": "http://s3.store",
        "region": "eu-west-1",
        "access_key": {"env": "AWS_ACCESS_KEY_ID"},
        "secret_key": {"env": "AWS_SECRET_ACCESS_KEY"},
        "session_token": {"env": "AWS_SESSION_TOKEN"},
    }


def test_explicit_settings_of_a_target_are_kept() -> None:
    settings = {"endpoint": "http://mine", "access_key": "mine", "secret_key": {"file": "/key"}}
    assert fill_settings("s3", settings, AWS) == {**settings, "region": "eu-west-1"}


def test_a_profile_is_taken_only_where_there_are_no_keys() -> None:
    environ = {"AWS_PROFILE": "lab", "AWS_ENDPOINT_URL": "http://store"}
    assert fill_settings("s3", {}, environ)["profile"] == "lab"
    assert "profile" not in fill_settings("s3", {}, {**AWS, **environ})


def test_half_of_a_pair_of_keys_is_not_taken() -> None:
    assert "access_key" not in fill_settings("s3", {}, {"AWS_ACCESS_KEY_ID": "x"})


def test_openstack_variables_fill_a_swift_target() -> None:
    assert fill_settings("swift", {}, OPENSTACK) == {
        "auth_url": "http://keystone/v3",
        "project": "test",
        "user_domain": "Default",
        "user": "tester",
        "password": {"env": "OS_PASSWORD"},
        "interface": "internal",
    }


def test_an_application_credential_goes_before_a_password() -> None:
    environ = {
        **OPENSTACK,
        "OS_APPLICATION_CREDENTIAL_ID": "id",
        "OS_APPLICATION_CREDENTIAL_SECRET": "hunter2",
    }
    filled = fill_settings("swift", {}, environ)
    assert filled["application_credential_secret"] == {"env": "OS_APPLICATION_CREDENTIAL_SECRET"}
    assert "password" not in filled


def test_the_password_of_another_user_is_not_taken() -> None:
    settings = {"auth_url": "http://keystone/v3", "user": "somebody"}
    assert "password" not in fill_settings("swift", settings, OPENSTACK)
    assert fill_settings("swift", {**settings, "user": "tester"}, OPENSTACK)["password"] == {
        "env": "OS_PASSWORD"
    }


def test_version_one_variables_fill_a_swift_target_where_there_are_no_others() -> None:
    assert fill_settings("swift", {}, SWIFT_V1) == {
        "auth_url": "http://swift/auth/v1.0",
        "user": "test:tester",
        "password": {"env": "ST_KEY"},
    }
    assert fill_settings("swift", {}, {**SWIFT_V1, **OPENSTACK})["user"] == "tester"
    settings = {"auth_url": "http://other/auth/v1.0"}
    assert fill_settings("swift", settings, {**SWIFT_V1, **OPENSTACK})["user"] == "test:tester"


def test_ceph_conf_names_the_configuration_of_a_rados_target() -> None:
    assert fill_settings("rados", {"pool": "p"}, {"CEPH_CONF": "/etc/c"})["conf"] == "/etc/c"


def test_ceph_args_say_who_connects_and_to_which_cluster() -> None:
    environ = {
        "CEPH_CONF": "/etc/c",
        "CEPH_ARGS": "--id bench --cluster=far -k '/a key' --debug-ms 1",
    }
    filled = {"user": "bench", "cluster": "far", "keyring": "/a key", "conf": "/etc/c"}
    assert fill_settings("rados", {}, environ) == filled
    # An argument goes before the variable, and what the target says before both.
    settings = {"user": "client.me"}
    settings_filled = fill_settings(
        "rados", settings, {**environ, "CEPH_ARGS": "-n client.bench -c /other"}
    )
    assert settings_filled == {"user": "client.me", "conf": "/other"}


@pytest.mark.parametrize("text", ["", "--id", "--id 'bench", "bench", "--rados-osd-op-timeout=5"])
def test_ceph_args_without_a_user_fill_nothing(text: str) -> None:
    assert fill_settings("rados", {"pool": "p"}, {"CEPH_ARGS": text}) == {"pool": "p"}


@pytest.mark.parametrize("driver", ["file", "null"])
def test_other_drivers_take_nothing_from_the_environment(driver: str) -> None:
    assert fill_settings(driver, {}, {**AWS, **OPENSTACK}) == {}


def test_no_secret_reaches_the_campaign_or_a_trial_document() -> None:
    text = """
name: a
targets: {s: {driver: s3}, w: {driver: swift}, v: {driver: swift, auth_version: 1}}
dataset: {objects: 1, size: 1}
load: {threads: 1}
phases: [put]
"""
    environ = {**AWS, **OPENSTACK, **SWIFT_V1}
    campaign = parse_campaign(text, drivers=DRIVERS, environ=environ)
    written = json.dumps([campaign.document(), make_plan(campaign, DRIVERS).documents()])
    for secret in ("hunter2", "token2", "AKIASECRET"):
        assert secret not in written
    for name in ("AWS_SECRET_ACCESS_KEY", "OS_PASSWORD", "ST_KEY"):
        assert name in written


@pytest.mark.parametrize("value", [".inf", "-.inf", ".nan", "{deep: [.inf]}"])
def test_settings_that_are_no_json_are_refused_and_break_nothing(value) -> None:
    text = f"""\
name: test
targets: {{store: {{driver: s3, endpoint: "http://s3.store", region: {value}}}}}
dataset: {{objects: 1, size: 1}}
load: {{threads: 1}}
phases: [{{op: put}}]
"""
    with pytest.raises(CampaignError) as caught:
        parse_campaign(text, (), drivers=DRIVERS, environ={})
    assert "targets.store.region" in [mistake.key for mistake in caught.value.mistakes]


@pytest.mark.parametrize(
    ("driver", "variables"),
    [("s3", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]), ("swift", ["OS_AUTH_URL", "ST_AUTH"])],
)
def test_a_missing_setting_names_the_variables_that_provide_it(
    driver: str, variables: list[str]
) -> None:
    with pytest.raises(CampaignError) as error:
        parse_campaign(f"targets: {{t: {{driver: {driver}}}}}\n", drivers=None, environ={})
    (hint,) = [
        mistake.hint for mistake in error.value.mistakes if mistake.key.startswith("targets.t.")
    ]
    assert hint is not None
    assert [name for name in variables if name in hint] == variables
