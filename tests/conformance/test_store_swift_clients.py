"""The embedded store as python-swiftclient and plain HTTP see it by the Swift API."""

import hashlib
import itertools
import os
import time
from typing import Any

import pytest
import requests
import swiftclient

from tests.conformance import store_under_test
from tests.conformance.store_under_test import PASSWORD, PROJECT, REGION, USER

DATA = os.urandom(4096)
MD5 = hashlib.md5(DATA).hexdigest()
NAMES = (f"container-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def client(url: str) -> swiftclient.Connection:
    return store_under_test.swift(url)


@pytest.fixture
def container(client: swiftclient.Connection) -> str:
    name = next(NAMES)
    client.put_container(name)
    return name


class Raw:
    """Plain requests with a token, for what python-swiftclient has no call for."""

    def __init__(self, url: str) -> None:
        login = {"X-Auth-User": f"{PROJECT}:{USER}", "X-Auth-Key": PASSWORD}
        answer = requests.get(f"{url}/auth/v1.0", headers=login, timeout=30)
        self.storage_url = answer.headers["X-Storage-Url"]
        self.token = answer.headers["X-Auth-Token"]

    def __call__(self, method: str, path: str, **options: Any) -> requests.Response:
        headers = {"X-Auth-Token": self.token, **options.pop("headers", {})}
        return requests.request(
            method, self.storage_url + path, headers=headers, timeout=30, **options
        )


@pytest.fixture(scope="module")
def raw(url: str) -> Raw:
    return Raw(url)


def names(raw: Raw, container: str, query: str = "") -> list[str]:
    return raw("GET", f"/{container}?{query}").text.split()


def test_an_object_comes_back_with_its_bytes_and_metadata(
    client: swiftclient.Connection, container: str
) -> None:
    headers = {"X-Object-Meta-K": "v"}
    etag = client.put_object(container, "o", DATA, content_type="x/y", headers=headers)
    assert etag == MD5
    headers, body = client.get_object(container, "o")
    assert body == DATA
    assert (headers["x-object-meta-k"], headers["content-type"]) == ("v", "x/y")
    assert client.head_object(container, "o")["content-length"] == "4096"
    client.post_object(container, "o", {"X-Object-Meta-New": "n"})
    headers = client.head_object(container, "o")
    assert headers["x-object-meta-new"] == "n"
    assert "x-object-meta-k" not in headers
    assert headers["content-type"] == "x/y"


def test_containers_count_and_keep_what_is_set(
    client: swiftclient.Connection, container: str, raw: Raw
) -> None:
    client.put_object(container, "o", DATA)
    client.post_container(container, {"X-Container-Meta-A": "b"})
    headers = client.head_container(container)
    assert (headers["x-container-object-count"], headers["x-container-bytes-used"]) == ("1", "4096")
    assert headers["x-container-meta-a"] == "b"
    client.post_container(container, {"X-Remove-Container-Meta-A": "x"})
    assert "x-container-meta-a" not in client.head_container(container)
    assert raw("PUT", f"/{container}").status_code == 202
    assert raw("DELETE", f"/{container}").status_code == 409
    assert any(line["name"] == container for line in client.get_account()[1])


def test_the_storage_policy_that_was_named_is_shown(raw: Raw) -> None:
    name = next(NAMES)
    assert raw("PUT", f"/{name}", headers={"X-Storage-Policy": "gold"}).status_code == 201
    assert raw("HEAD", f"/{name}").headers["X-Storage-Policy"] == "gold"
    assert raw("PUT", f"/{name}", headers={"X-Storage-Policy": "tin"}).status_code == 409


def test_log_ins_are_checked(url: str, raw: Raw) -> None:
    wrong = {"X-Auth-User": f"{PROJECT}:{USER}", "X-Auth-Key": "no"}
    assert requests.get(f"{url}/auth/v1.0", headers=wrong, timeout=30).status_code == 401
    assert requests.get(raw.storage_url, timeout=30).status_code == 401
    assert raw("GET", "", headers={"X-Auth-Token": "AUTH_tkguess"}).status_code == 401
    other = raw.storage_url.replace("AUTH_test", "AUTH_other")
    answer = requests.get(other, headers={"X-Auth-Token": raw.token}, timeout=30)
    assert answer.status_code == 403


def test_writes_are_checked(raw: Raw, container: str) -> None:
    path = f"/{container}/o"
    assert raw("PUT", path, data=DATA, headers={"ETag": "0" * 32}).status_code == 422
    assert raw("PUT", path, data=iter([DATA, DATA])).status_code == 201
    assert raw("PUT", path, data=DATA, headers={"If-None-Match": "*"}).status_code == 412
    assert raw("PUT", "/missing/o", data=DATA).status_code == 404
    assert raw("DELETE", f"/{container}/missing").status_code == 404
    assert raw("HEAD", f"/{container}/missing").status_code == 404
    assert raw("GET", path).content == DATA + DATA


def test_ranges_come_one_by_one_or_many_in_one_body(raw: Raw, container: str) -> None:
    path = f"/{container}/o"
    raw("PUT", path, data=DATA, headers={"Content-Type": "x/y"})
    answer = raw("GET", path, headers={"Range": "bytes=100-199"})
    assert (answer.status_code, answer.content) == (206, DATA[100:200])
    assert answer.headers["Content-Range"] == "bytes 100-199/4096"
    assert raw("GET", path, headers={"Range": "bytes=-10"}).content == DATA[-10:]
    assert raw("GET", path, headers={"Range": "bytes=9999-"}).status_code == 416
    answer = raw("GET", path, headers={"Range": "bytes=0-9,20-29"})
    boundary = answer.headers["Content-Type"].split("boundary=")[1]
    parts = answer.content.split(f"--{boundary}".encode())
    assert [part.split(b"\r\n\r\n", 1)[1][:10] for part in parts[1:-1]] == [DATA[:10], DATA[20:30]]
    assert parts[-1].strip() == b"--"
    assert b"Content-Range: bytes 20-29/4096" in parts[2]
    assert raw("GET", path, headers={"If-None-Match": MD5}).status_code == 304
    assert raw("GET", path, headers={"If-Match": "other"}).status_code == 412


def test_listings_obey_markers_prefix_and_delimiter(raw: Raw, container: str) -> None:
    wanted = [f"l/{number:03}" for number in range(20)]
    for name in [*wanted, "z"]:
        raw("PUT", f"/{container}/{name}", data=b"x")
    assert names(raw, container, "prefix=l/&marker=l/009&limit=5") == wanted[10:15]
    listing = raw("GET", f"/{container}?delimiter=/&format=json").json()
    assert [line.get("subdir") or line["name"] for line in listing] == ["l/", "z"]
    assert listing[1]["hash"] == hashlib.md5(b"x").hexdigest()
    assert raw("GET", f"/{container}?limit=10001").status_code == 412
    assert raw("GET", f"/{container}?prefix=nothing").status_code == 204
    listed: list[str] = []
    while page := names(raw, container, f"limit=7&marker={listed[-1] if listed else ''}"):
        listed += page
    assert listed == [*wanted, "z"]


def segments(raw: Raw, container: str) -> tuple[bytes, list[dict[str, Any]]]:
    bodies = [os.urandom(200_000) for _ in range(3)]
    manifest = []
    for number, body in enumerate(bodies):
        raw("PUT", f"/{container}/seg/{number}", data=body)
        etag = hashlib.md5(body).hexdigest()
        path = f"/{container}/seg/{number}"
        manifest.append({"path": path, "etag": etag, "size_bytes": len(body)})
    return b"".join(bodies), manifest


def test_static_large_objects_read_as_one(raw: Raw, container: str) -> None:
    whole, manifest = segments(raw, container)
    put = f"/{container}/slo?multipart-manifest=put"
    wrong = [{**manifest[0], "etag": "0" * 32}]
    assert raw("PUT", put, json=wrong).status_code == 400
    assert raw("PUT", put, json=manifest).status_code == 201
    answer = raw("GET", f"/{container}/slo")
    assert answer.content == whole
    assert answer.headers["X-Static-Large-Object"] == "True"
    seam = raw("GET", f"/{container}/slo", headers={"Range": "bytes=199990-200009"})
    assert seam.content == whole[199_990:200_010]
    raw("PUT", f"/{container}/seg/0", data=b"other")
    assert raw("GET", f"/{container}/slo").status_code == 409


def test_a_manifest_is_written_under_conditions_and_never_over_its_own_segment(
    raw: Raw, container: str
) -> None:
    whole, manifest = segments(raw, container)
    path = f"{manifest[1]['path']}?multipart-manifest=put"
    refused = raw("PUT", path, json=manifest)
    assert (refused.status_code, "own segment" in refused.text) == (400, True)
    put = f"/{container}/slo?multipart-manifest=put"
    wrong = raw("PUT", put, json=manifest, headers={"If-None-Match": '"some-etag"'})
    assert wrong.status_code == 400
    for status in (201, 412):
        answer = raw("PUT", put, json=manifest, headers={"If-None-Match": "*"})
        assert answer.status_code == status
    assert raw("GET", f"/{container}/slo").content == whole
    of_manifests = [{"path": f"/{container}/slo"}]
    nested = raw("PUT", f"/{container}/nested?multipart-manifest=put", json=of_manifests)
    assert nested.status_code == 400


def test_versions_are_kept_and_listed(raw: Raw, container: str) -> None:
    raw("POST", f"/{container}", headers={"X-Versions-Enabled": "true"})
    raw("PUT", f"/{container}/o", data=b"1")
    raw("PUT", f"/{container}/o", data=b"22")
    raw("DELETE", f"/{container}/o")
    assert raw("GET", f"/{container}/o").status_code == 404
    versions = raw("GET", f"/{container}?versions&format=json").json()
    assert [line["bytes"] for line in versions] == [0, 2, 1]
    oldest = f"/{container}/o?version-id={versions[2]['version_id']}"
    assert raw("GET", oldest).content == b"1"
    for line in versions:
        raw("DELETE", f"/{container}/o?version-id={line['version_id']}")
    assert raw("DELETE", f"/{container}").status_code == 204


def test_both_apis_see_the_same_objects(url: str, raw: Raw, container: str) -> None:
    s3 = store_under_test.s3(url)
    raw("PUT", f"/{container}/o", data=DATA, headers={"X-Object-Meta-K": "v"})
    answer = s3.get_object(Bucket=container, Key="o")
    assert (answer["Body"].read(), answer["Metadata"]) == (DATA, {"k": "v"})
    s3.put_object(Bucket=container, Key="p", Body=DATA, Metadata={"n": "w"})
    assert raw("GET", f"/{container}/p").headers["X-Object-Meta-N"] == "w"
    whole, manifest = segments(raw, container)
    raw("PUT", f"/{container}/slo?multipart-manifest=put", json=manifest)
    assert s3.get_object(Bucket=container, Key="slo")["Body"].read() == whole


def password_document(password: str = PASSWORD, project: str = PROJECT) -> dict[str, Any]:
    domain = {"name": "Default"}
    user = {"name": USER, "domain": domain, "password": password}
    identity = {"methods": ["password"], "password": {"user": user}}
    scope = {"project": {"name": project, "domain": domain}}
    return {"auth": {"identity": identity, "scope": scope}}


def test_keystone_tokens_open_the_store(url: str, client: swiftclient.Connection) -> None:
    tokens = f"{url}/v3/auth/tokens"
    issued = requests.post(tokens, json=password_document(), timeout=30)
    assert issued.status_code == 201
    token, facts = issued.headers["X-Subject-Token"], issued.json()["token"]
    stores = [entry for entry in facts["catalog"] if entry["type"] == "object-store"]
    endpoints = {line["interface"]: line for line in stores[0]["endpoints"]}
    assert set(endpoints) == {"public", "internal", "admin"}
    assert endpoints["public"]["region"] == REGION
    headers = {"X-Auth-Token": token}
    assert requests.get(endpoints["internal"]["url"], headers=headers, timeout=30).ok
    for wrong in [password_document("no"), password_document(project="other")]:
        assert requests.post(tokens, json=wrong, timeout=30).status_code == 401


def test_tokens_end_after_their_time() -> None:
    with store_under_test.store(token_seconds=1) as url:
        raw = Raw(url)
        assert raw("PUT", "/c").status_code == 201
        deadline = time.monotonic() + 30
        while raw("HEAD", "/c").status_code != 401:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert Raw(url)("HEAD", "/c").status_code == 204


def test_copies_are_objects_of_their_own(
    client: swiftclient.Connection, container: str, raw: Raw
) -> None:
    client.put_object(container, "o", DATA, headers={"X-Object-Meta-K": "v"})
    source = {"X-Copy-From": f"{container}/o", "X-Object-Meta-N": "1", "Content-Length": "0"}
    assert raw("PUT", f"/{container}/copy", headers=source).headers["Etag"] == MD5
    client.delete_object(container, "o")
    headers, body = client.get_object(container, "copy")
    assert body == DATA
    assert (headers["x-object-meta-k"], headers["x-object-meta-n"]) == ("v", "1")


def test_bulk_deletes_report_what_they_did(raw: Raw, container: str) -> None:
    for number in range(5):
        raw("PUT", f"/{container}/t {number}", data=DATA)
    lines = "".join(f"{container}/t%20{number}\n" for number in range(6))
    report = raw("POST", "?bulk-delete", data=lines).json()
    assert (report["Number Deleted"], report["Number Not Found"]) == (5, 1)
    assert report["Response Status"] == "200 OK"
    assert names(raw, container) == []


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("PUT", "/o?version-id=1", {}),
        ("POST", "/o?version-id=null", {"X-Object-Meta-A": "lost"}),
        ("GET", "/o?part-number=1", {}),
        ("GET", "?reverse=true", {}),
        ("GET", "/o?temp_url_sig=0", {}),
        ("DELETE", "/o?multipart-manifest=delete", {}),
        ("PUT", "?extract-archive=tar", {}),
        ("PUT", "/link", {"X-Symlink-Target": "c/o"}),
        ("PUT", "/dlo", {"X-Object-Manifest": "c/o"}),
        ("PUT", "/o", {"X-Delete-After": "1"}),
        ("POST", "", {"X-Container-Read": ".r:*"}),
        ("POST", "", {"X-Container-Meta-Quota-Bytes": "1"}),
        ("POST", "", {"X-Versions-Location": "c"}),
        ("COPY", "/o", {"Destination": "c/o"}),
    ],
)
def test_unsupported_features_are_refused(
    raw: Raw, container: str, method: str, path: str, headers: dict[str, str]
) -> None:
    raw("PUT", f"/{container}/o", data=DATA)
    assert raw(method, f"/{container}{path}", headers=headers).status_code == 501
    assert names(raw, container) == ["o"]
    assert raw("GET", f"/{container}/o").content == DATA
    assert "X-Object-Meta-A" not in raw("HEAD", f"/{container}/o").headers
