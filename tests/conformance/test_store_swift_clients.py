"""The embedded store as python-swiftclient and plain HTTP see it by the Swift API."""

import base64
import hashlib
import hmac
import io
import itertools
import json
import os
import tarfile
import time
from typing import Any
from xml.etree import ElementTree

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
        found = requests.get(f"{url}/auth/v1.0", headers=login, timeout=30)
        self.storage_url = found.headers["X-Storage-Url"]
        self.token = found.headers["X-Auth-Token"]

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
    found, body = client.get_object(container, "o")
    assert body == DATA
    assert (found["x-object-meta-k"], found["content-type"]) == ("v", "x/y")
    assert client.head_object(container, "o")["content-length"] == "4096"
    client.post_object(container, "o", {"X-Object-Meta-New": "n"})
    found = client.head_object(container, "o")
    assert found["x-object-meta-new"] == "n"
    assert "x-object-meta-k" not in found
    assert found["content-type"] == "x/y"


def test_containers_count_and_keep_what_is_set(
    client: swiftclient.Connection, container: str, raw: Raw
) -> None:
    client.put_object(container, "o", DATA)
    client.post_container(container, {"X-Container-Meta-A": "b"})
    found = client.head_container(container)
    assert (found["x-container-object-count"], found["x-container-bytes-used"]) == ("1", "4096")
    assert found["x-container-meta-a"] == "b"
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
    found = requests.get(other, headers={"X-Auth-Token": raw.token}, timeout=30)
    assert found.status_code == 403


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
    found = raw("GET", path, headers={"Range": "bytes=100-199"})
    assert (found.status_code, found.content) == (206, DATA[100:200])
    assert found.headers["Content-Range"] == "bytes 100-199/4096"
    assert raw("GET", path, headers={"Range": "bytes=-10"}).content == DATA[-10:]
    assert raw("GET", path, headers={"Range": "bytes=9999-"}).status_code == 416
    found = raw("GET", path, headers={"Range": "bytes=0-9,20-29"})
    boundary = found.headers["Content-Type"].split("boundary=")[1]
    parts = found.content.split(f"--{boundary}".encode())
    assert [part.split(b"\r\n\r\n", 1)[1][:10] for part in parts[1:-1]] == [DATA[:10], DATA[20:30]]
    assert parts[-1].strip() == b"--"
    assert b"Content-Range: bytes 20-29/4096" in parts[2]
    assert raw("GET", path, headers={"If-None-Match": MD5}).status_code == 304
    assert raw("GET", path, headers={"If-Match": "other"}).status_code == 412


def test_listings_obey_markers_prefix_delimiter_and_direction(raw: Raw, container: str) -> None:
    wanted = [f"l/{number:03}" for number in range(20)]
    for name in [*wanted, "z"]:
        raw("PUT", f"/{container}/{name}", data=b"x")
    assert names(raw, container, "prefix=l/&marker=l/009&end_marker=l/015") == wanted[10:15]
    assert names(raw, container, "reverse=true&limit=2&prefix=l/") == wanted[:-3:-1]
    found = raw("GET", f"/{container}?delimiter=/&format=json").json()
    assert [line.get("subdir") or line["name"] for line in found] == ["l/", "z"]
    assert found[1]["hash"] == hashlib.md5(b"x").hexdigest()
    assert raw("GET", f"/{container}?limit=10001").status_code == 412
    assert raw("GET", f"/{container}?prefix=nothing").status_code == 204
    seen: list[str] = []
    while page := names(raw, container, f"limit=7&marker={seen[-1] if seen else ''}"):
        seen += page
    assert seen == [*wanted, "z"]


def test_copies_are_objects_of_their_own(
    client: swiftclient.Connection, container: str, raw: Raw
) -> None:
    client.put_object(container, "o", DATA, headers={"X-Object-Meta-K": "v"})
    client.copy_object(container, "o", f"/{container}/copy 1", headers={"X-Object-Meta-N": "1"})
    source = {"X-Copy-From": f"{container}/o", "Content-Length": "0"}
    assert raw("PUT", f"/{container}/copy2", headers=source).headers["Etag"] == MD5
    client.delete_object(container, "o")
    found, body = client.get_object(container, "copy 1")
    assert body == client.get_object(container, "copy2")[1] == DATA
    assert (found["x-object-meta-k"], found["x-object-meta-n"]) == ("v", "1")


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
    found = raw("GET", f"/{container}/slo")
    assert found.content == whole
    assert found.headers["X-Static-Large-Object"] == "True"
    seam = raw("GET", f"/{container}/slo", headers={"Range": "bytes=199990-200009"})
    assert seam.content == whole[199_990:200_010]
    shown = raw("GET", f"/{container}/slo?multipart-manifest=get").json()
    assert [line["bytes"] for line in shown] == [200_000] * 3
    raw("PUT", f"/{container}/seg/0", data=b"other")
    assert raw("GET", f"/{container}/slo").status_code == 409
    gone = raw("DELETE", f"/{container}/slo?multipart-manifest=delete")
    assert gone.status_code == 200
    assert names(raw, container) == []


def test_a_manifest_is_written_under_conditions_and_never_over_its_own_segment(
    raw: Raw, container: str
) -> None:
    whole, manifest = segments(raw, container)
    own = f"{manifest[1]['path']}?multipart-manifest=put"
    refused = raw("PUT", own, json=manifest)
    assert (refused.status_code, "own segment" in refused.text) == (400, True)
    put = f"/{container}/slo?multipart-manifest=put"
    wrong = raw("PUT", put, json=manifest, headers={"If-None-Match": '"some-etag"'})
    assert wrong.status_code == 400
    for status in (201, 412):
        answer = raw("PUT", put, json=manifest, headers={"If-None-Match": "*"})
        assert answer.status_code == status
    assert raw("GET", f"/{container}/slo").content == whole
    for method in ("GET", "HEAD"):
        shown = raw(method, f"/{container}/slo?multipart-manifest=get").headers
        assert {"last-modified", "x-timestamp", "x-static-large-object"} <= set(shown)
        assert shown["Content-Type"] == "application/json; charset=utf-8"


def test_dynamic_large_objects_and_links_resolve_when_read(raw: Raw, container: str) -> None:
    whole, _ = segments(raw, container)
    prefix = {"X-Object-Manifest": f"{container}/seg/"}
    raw("PUT", f"/{container}/dlo", data=b"", headers=prefix)
    target = {"X-Symlink-Target": f"{container}/dlo"}
    raw("PUT", f"/{container}/link", data=b"", headers=target)
    assert raw("GET", f"/{container}/dlo").content == whole
    assert raw("GET", f"/{container}/link").content == whole
    raw("DELETE", f"/{container}/seg/0")
    assert raw("GET", f"/{container}/dlo").content == whole[200_000:]
    circle = {"X-Symlink-Target": f"{container}/circle"}
    raw("PUT", f"/{container}/circle", data=b"", headers=circle)
    assert raw("GET", f"/{container}/circle").status_code == 409


def test_bulk_requests_report_what_they_did(raw: Raw, container: str) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for number in range(5):
            entry = tarfile.TarInfo(f"t {number}")
            entry.size = len(DATA)
            tar.addfile(entry, io.BytesIO(DATA))
    as_json = {"Accept": "application/json"}
    upload = f"/{container}?extract-archive=tar"
    found = raw("PUT", upload, data=archive.getvalue(), headers=as_json).json()
    assert found["Number Files Created"] == 5
    assert raw("GET", f"/{container}/t 3").content == DATA
    lines = "".join(f"{container}/t%20{number}\n" for number in range(6))
    found = raw("POST", "?bulk-delete", data=lines, headers=as_json).json()
    assert (found["Number Deleted"], found["Number Not Found"]) == (5, 1)
    assert found["Response Status"] == "200 OK"
    assert names(raw, container) == []


def test_objects_whose_time_is_over_are_gone(raw: Raw, container: str) -> None:
    raw("PUT", f"/{container}/o", data=b"x", headers={"X-Delete-After": "1"})
    past = {"X-Delete-At": "1000"}
    assert raw("PUT", f"/{container}/p", data=b"x", headers=past).status_code == 400
    deadline = time.monotonic() + 30
    while raw("GET", f"/{container}/o").status_code != 404:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert names(raw, container) == []
    assert raw("DELETE", f"/{container}").status_code == 204


def test_signed_addresses_and_open_containers_need_no_token(raw: Raw, container: str) -> None:
    raw("PUT", f"/{container}/o", data=DATA)
    raw("POST", "", headers={"X-Account-Meta-Temp-URL-Key": "k1"})
    host, path = raw.storage_url.split("/v1/")
    path = f"/v1/{path}/{container}/o"
    expires = int(time.time()) + 600
    signature = hmac.new(b"k1", f"GET\n{expires}\n{path}".encode(), "sha256").hexdigest()
    query = {"temp_url_sig": signature, "temp_url_expires": expires}
    assert requests.get(host + path, params=query, timeout=30).content == DATA
    assert requests.put(host + path, params=query, timeout=30).status_code == 401
    late = query | {"temp_url_expires": expires + 1}
    assert requests.get(host + path, params=late, timeout=30).status_code == 401
    assert requests.get(host + path, timeout=30).status_code == 401
    raw("POST", f"/{container}", headers={"X-Container-Read": ".r:*"})
    assert requests.get(host + path, timeout=30).content == DATA
    assert requests.put(host + path, timeout=30).status_code == 401


def test_versions_are_kept_and_listed(raw: Raw, container: str) -> None:
    raw("POST", f"/{container}", headers={"X-Versions-Enabled": "true"})
    raw("PUT", f"/{container}/o", data=b"1")
    raw("PUT", f"/{container}/o", data=b"22")
    raw("DELETE", f"/{container}/o")
    assert raw("GET", f"/{container}/o").status_code == 404
    found = raw("GET", f"/{container}?versions&format=json").json()
    assert [line["bytes"] for line in found] == [0, 2, 1]
    oldest = f"/{container}/o?version-id={found[2]['version_id']}"
    assert raw("GET", oldest).content == b"1"
    for line in found:
        raw("DELETE", f"/{container}/o?version-id={line['version_id']}")
    assert raw("DELETE", f"/{container}").status_code == 204


def test_an_address_may_be_signed_until_a_date_and_is_not_signed_for_a_version(
    raw: Raw, container: str
) -> None:
    raw("POST", f"/{container}", headers={"X-Versions-Enabled": "true"})
    first = raw("PUT", f"/{container}/o", data=b"before").headers["X-Object-Version-Id"]
    raw("PUT", f"/{container}/o", data=DATA)
    raw("POST", "", headers={"X-Account-Meta-Temp-URL-Key": "k1"})
    host, path = raw.storage_url.split("/v1/")
    path = f"/v1/{path}/{container}/o"
    expires = int(time.time()) + 86400
    signature = hmac.new(b"k1", f"GET\n{expires}\n{path}".encode(), "sha256").hexdigest()
    date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(expires))
    for shown in (str(expires), date, f"{date}Z"):
        query = {"temp_url_sig": signature, "temp_url_expires": shown}
        for asked in (query, query | {"version-id": first}):
            found = requests.get(host + path, params=asked, timeout=30)
            assert (found.status_code, found.content) == (200, DATA)
    query["temp_url_expires"] = "tomorrow"
    assert requests.get(host + path, params=query, timeout=30).status_code == 401


def test_both_apis_see_the_same_objects(url: str, raw: Raw, container: str) -> None:
    s3 = store_under_test.s3(url)
    raw("PUT", f"/{container}/o", data=DATA, headers={"X-Object-Meta-K": "v"})
    found = s3.get_object(Bucket=container, Key="o")
    assert (found["Body"].read(), found["Metadata"]) == (DATA, {"k": "v"})
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
    found = {line["interface"]: line for line in stores[0]["endpoints"]}
    assert set(found) == {"public", "internal", "admin"}
    assert found["public"]["region"] == REGION
    headers = {"X-Auth-Token": token}
    assert requests.get(found["internal"]["url"], headers=headers, timeout=30).ok
    for wrong in [password_document("no"), password_document(project="other")]:
        assert requests.post(tokens, json=wrong, timeout=30).status_code == 401
    subject = headers | {"X-Subject-Token": token}
    assert requests.get(tokens, headers=subject, timeout=30).json()["token"] == facts
    by_token = {"methods": ["token"], "token": {"id": token}}
    again = {"auth": {"identity": by_token, "scope": password_document()["auth"]["scope"]}}
    assert requests.post(tokens, json=again, timeout=30).status_code == 201
    assert requests.delete(tokens, headers=subject, timeout=30).status_code == 204
    assert requests.get(found["public"]["url"], headers=headers, timeout=30).status_code == 401


def test_application_credentials_get_tokens(url: str) -> None:
    tokens = f"{url}/v3/auth/tokens"
    issued = requests.post(tokens, json=password_document(), timeout=30)
    user, token = issued.json()["token"]["user"]["id"], issued.headers["X-Subject-Token"]
    made = requests.post(
        f"{url}/v3/users/{user}/application_credentials",
        headers={"X-Auth-Token": token},
        json={"application_credential": {"name": "robot"}},
        timeout=30,
    )
    given = made.json()["application_credential"]
    for secret, status in [(given["secret"], 201), ("wrong", 401)]:
        credential = {"id": given["id"], "secret": secret}
        identity = {"methods": ["application_credential"], "application_credential": credential}
        document = {"auth": {"identity": identity}}
        assert requests.post(tokens, json=document, timeout=30).status_code == status


def test_tokens_end_after_their_time() -> None:
    with store_under_test.store(token_seconds=1) as url:
        raw = Raw(url)
        assert raw("PUT", "/c").status_code == 201
        deadline = time.monotonic() + 30
        while raw("HEAD", "/c").status_code != 401:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert Raw(url)("HEAD", "/c").status_code == 204


def test_info_tells_what_the_store_can_do(url: str) -> None:
    found = requests.get(f"{url}/info", timeout=30).json()
    assert {"swift", "slo", "bulk_delete"} <= set(json.loads(json.dumps(found)))


def test_a_manifest_may_hold_bytes_of_its_own(raw: Raw, container: str) -> None:
    raw("PUT", f"/{container}/seg", data=b"middle")
    inline = {"data": base64.b64encode(b"first ").decode()}
    put = f"/{container}/slo?multipart-manifest=put"
    manifest = [
        inline,
        {"path": f"/{container}/seg"},
        {"data": base64.b64encode(b" last").decode()},
    ]
    assert raw("PUT", put, json=manifest).status_code == 201
    for path in ("slo", "copy"):
        assert raw("GET", f"/{container}/{path}").content == b"first middle last"
        part = raw("GET", f"/{container}/{path}", headers={"Range": "bytes=4-8"})
        assert part.content == b"t mid"
        shown = raw("GET", f"/{container}/{path}?multipart-manifest=get")
        assert shown.json()[0] == inline
        assert shown.headers["Etag"] == hashlib.md5(shown.content).hexdigest()
        destination = {"Destination": f"{container}/copy"}
        raw("COPY", f"/{container}/slo?multipart-manifest=get", headers=destination)
    for wrong in ([inline], [{"path": f"/{container}/seg", "size": 6}], [{"data": "???"}]):
        assert raw("PUT", put, json=wrong).status_code == 400


def test_a_dynamic_large_object_s_manifest_is_read_copied_and_changed(
    raw: Raw, container: str
) -> None:
    for name in ("a/1", "b/1"):
        raw("PUT", f"/{container}/{name}", data=name.encode())
    raw("PUT", f"/{container}/dlo", data=b"own", headers={"X-Object-Manifest": f"{container}/a/"})
    assert raw("GET", f"/{container}/dlo").content == b"a/1"
    assert raw("GET", f"/{container}/dlo?multipart-manifest=get").content == b"own"
    raw("POST", f"/{container}/dlo", headers={"X-Object-Manifest": f"{container}/b/"})
    assert raw("GET", f"/{container}/dlo").content == b"b/1"
    raw("POST", f"/{container}/dlo", headers={"X-Object-Meta-K": "v"})
    assert raw("GET", f"/{container}/dlo").content == b"own"


def test_listings_come_as_xml_too_and_by_path(url: str, raw: Raw, container: str) -> None:
    for name in ("d/", "d/<1>", "d/e/", "d/e/2", "d/f/3"):
        raw("PUT", f"/{container}/{name}", data=b"x")
    assert names(raw, container, "path=d") == ["d/<1>", "d/e/"]
    listing = raw("GET", f"/{container}?format=xml&delimiter=/&prefix=d/")
    assert listing.headers["Content-Type"] == "application/xml; charset=utf-8"
    root = ElementTree.fromstring(listing.content)
    assert (root.tag, root.get("name")) == ("container", container)
    found = [(line.tag, line.findtext("name")) for line in root]
    assert found == [
        ("object", "d/"),
        ("object", "d/<1>"),
        ("subdir", "d/e/"),
        ("subdir", "d/f/"),
    ]
    assert root.findtext("object/bytes") == "1"
    root = ElementTree.fromstring(raw("GET", "", headers={"Accept": "text/xml"}).content)
    assert container in [line.findtext("name") for line in root.iter("container")]
    assert raw("GET", f"/{container}", headers={"Accept": "image/png"}).status_code == 406


def test_metadata_has_its_limits(raw: Raw, container: str) -> None:
    kinds = {"": "Account", f"/{container}": "Container", f"/{container}/o": "Object"}
    raw("PUT", f"/{container}/o", data=b"x")
    for path, kind in kinds.items():
        for name, value in (("k" * 129, "v"), ("k", "v" * 257)):
            headers = {f"X-{kind}-Meta-{name}": value}
            assert raw("POST", path, headers=headers).status_code == 400, kind
        many = {f"X-{kind}-Meta-{number}": "v" for number in range(91)}
        assert raw("POST", path, headers=many).status_code == 400, kind
    # What was set before counts as well.
    large = [{f"X-Container-Meta-{n}-{m}": "v" * 250 for m in range(9)} for n in range(2)]
    statuses = [raw("POST", f"/{container}", headers=headers).status_code for headers in large]
    assert statuses == [204, 400]


def test_a_copy_takes_the_range_it_was_asked_for(raw: Raw, container: str) -> None:
    raw("PUT", f"/{container}/o", data=DATA)
    headers = {"Destination": f"{container}/copy", "Range": "bytes=10-19"}
    copied = raw("COPY", f"/{container}/o", headers=headers)
    assert copied.headers["Etag"] == hashlib.md5(DATA[10:20]).hexdigest()
    assert raw("GET", f"/{container}/copy").content == DATA[10:20]
    headers["Range"] = f"bytes={len(DATA)}-"
    assert raw("COPY", f"/{container}/o", headers=headers).status_code == 416


def test_what_the_store_does_not_do_is_refused(raw: Raw, container: str) -> None:
    raw("PUT", f"/{container}/o", data=DATA)
    refused = [
        ("PUT", "/o?version-id=1", {}),
        ("GET", "/o?part-number=1", {}),
        ("PUT", "/link", {"X-Symlink-Target": f"{container}/o", "X-Symlink-Target-Etag": MD5}),
        ("POST", "", {"X-Container-Meta-Quota-Bytes": "1"}),
        ("POST", "", {"X-Versions-Location": container}),
        ("COPY", "/o", {"Destination": f"{container}/c", "Destination-Account": "AUTH_other"}),
    ]
    for method, path, headers in refused:
        answer = raw(method, f"/{container}{path}", headers=headers)
        assert answer.status_code == 501, path
    version = raw("HEAD", f"/{container}/o").headers.get("X-Object-Version-Id", "null")
    posted = raw(
        "POST", f"/{container}/o?version-id={version}", headers={"X-Object-Meta-A": "lost"}
    )
    assert posted.status_code == 400
    assert "X-Object-Meta-A" not in raw("HEAD", f"/{container}/o").headers
    assert names(raw, container) == ["o"]
    assert raw("GET", f"/{container}/o").content == DATA
