"""Write signatures.json: requests signed by botocore, which the Rust signer must match."""

import datetime
import json
from pathlib import Path
from unittest import mock

from botocore import auth, awsrequest, credentials

MOMENTS = ["2013-05-24T00:00:00+00:00", "2024-02-29T23:59:59+00:00", "2026-11-21T04:51:06+00:00"]
CASES = [
    # method, path as sent, sorted query as sent, more signed headers, payload, token
    ("GET", "/bucket/key", "", {}, None, None),
    ("GET", "/bucket/a%20b/%C3%BC%2B~", "", {"range": "bytes=0-9"}, None, "a/token+with=signs"),
    ("PUT", "/bucket/key", "partNumber=2&uploadId=a%2Fb", {}, "body", None),
    ("PUT", "/bucket/key", "", {"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg=="}, "", "token"),
    ("PUT", "/b/k", "", {"x-amz-acl": "private", "x-amz-storage-class": "STANDARD"}, "x", "t"),
    ("POST", "/bucket/key", "uploads", {"content-type": "text/plain"}, "", None),
    ("POST", "/bucket", "delete", {"x-amz-sdk-checksum-algorithm": "CRC32C"}, "<x/>", "t"),
    ("DELETE", "/bucket/key", "", {}, None, None),
    ("HEAD", "/", "", {}, None, None),
    ("GET", "/b", "list-type=2&max-keys=2&prefix=a%2Fb", {}, None, None),
]


def sign(moment, region, method, path, query, headers, payload, token):
    """Return the case with the authorization header that botocore gives it."""
    host = "store.example:8080"
    url = f"http://{host}{path}" + (f"?{query}" if query else "")
    request = awsrequest.AWSRequest(
        method=method, url=url, headers={"host": host, **headers}, data=payload or b""
    )
    request.context["client_config"] = mock.Mock(s3={})
    request.context["payload_signing_enabled"] = payload is not None
    keys = credentials.Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token)
    signer = auth.S3SigV4Auth(keys, "s3", region)
    signer._should_sha256_sign_payload = lambda _: payload is not None
    now = datetime.datetime.fromisoformat(moment)
    with mock.patch.object(auth, "get_current_datetime", return_value=now.replace(tzinfo=None)):
        signer.add_auth(request)
    return {
        "unix_s": int(now.timestamp()),
        "region": region,
        "method": method,
        "path": path,
        "query": query,
        "host": host,
        "headers": sorted(headers.items()),
        "payload": payload,
        "token": token,
        "authorization": request.headers["Authorization"],
    }


if __name__ == "__main__":
    signed = [
        sign(moment, region, *case)
        for moment in MOMENTS
        for region in ("us-east-1", "default")
        for case in CASES
    ]
    path = Path(__file__).with_name("signatures.json")
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in signed) + "\n]\n")
