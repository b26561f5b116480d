"""How the tests look into a target without loadstone: with the clients that everybody uses."""

from pathlib import Path
from typing import Any, Protocol

import boto3
import swiftclient
from botocore.config import Config
from botocore.exceptions import ClientError


class View(Protocol):
    """Direct access of a test to a target, without the load generator."""

    def buckets(self) -> set[str]:
        """Name all buckets."""

    def objects(self, bucket: str) -> dict[str, int]:
        """Give the size of each object in a bucket."""

    def read(self, bucket: str, key: str) -> bytes:
        """Read a whole object."""

    def write(self, bucket: str, key: str, content: bytes) -> None:
        """Write a whole object."""

    def delete(self, bucket: str, key: str) -> None:
        """Delete an object."""

    def make_bucket(self, bucket: str) -> None:
        """Make a bucket as a stranger does: without any mark of ours."""

    def drop_bucket(self, bucket: str) -> None:
        """Delete a bucket and all in it, if it is there."""


class S3View:
    """A target seen by boto3."""

    def __init__(self, endpoint: str, access_key: str, secret_key: str, region: str) -> None:
        """Connect; nothing is sent yet."""
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret_key,
            region_name=region,
            config=Config(
                s3={"addressing_style": "path"},
                retries={"max_attempts": 0},
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )

    def buckets(self) -> set[str]:
        """Name all buckets."""
        return {bucket["Name"] for bucket in self.client.list_buckets()["Buckets"]}

    def objects(self, bucket: str) -> dict[str, int]:
        """Give the size of each object in a bucket."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return {entry["Key"]: entry["Size"] for page in pages for entry in page.get("Contents", [])}

    def read(self, bucket: str, key: str) -> bytes:
        """Read a whole object."""
        content: bytes = self.client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return content

    def write(self, bucket: str, key: str, content: bytes) -> None:
        """Write a whole object."""
        self.client.put_object(Bucket=bucket, Key=key, Body=content)

    def delete(self, bucket: str, key: str) -> None:
        """Delete an object."""
        self.client.delete_object(Bucket=bucket, Key=key)

    def make_bucket(self, bucket: str) -> None:
        """Make a bucket as a stranger does."""
        self.client.create_bucket(Bucket=bucket)

    def drop_bucket(self, bucket: str) -> None:
        """Delete a bucket and all in it, if it is there."""
        try:
            for key in self.objects(bucket):
                self.delete(bucket, key)
            self.client.delete_bucket(Bucket=bucket)
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("NoSuchBucket", "404"):
                raise


class SwiftView:
    """A target seen by python-swiftclient."""

    def __init__(self, storage_url: str, token: str) -> None:
        """Connect to an account with a token; nothing is sent yet."""
        self.client: Any = swiftclient.Connection(
            preauthurl=storage_url, preauthtoken=token, retries=0
        )

    def buckets(self) -> set[str]:
        """Name all containers."""
        return {container["name"] for container in self.client.get_account(full_listing=True)[1]}

    def objects(self, bucket: str) -> dict[str, int]:
        """Give the size of each object in a container."""
        listing = self.client.get_container(bucket, full_listing=True)[1]
        return {entry["name"]: entry["bytes"] for entry in listing}

    def read(self, bucket: str, key: str) -> bytes:
        """Read a whole object."""
        content: bytes = self.client.get_object(bucket, key)[1]
        return content

    def write(self, bucket: str, key: str, content: bytes) -> None:
        """Write a whole object."""
        self.client.put_object(bucket, key, content)

    def delete(self, bucket: str, key: str) -> None:
        """Delete an object."""
        self.client.delete_object(bucket, key)

    def make_bucket(self, bucket: str) -> None:
        """Make a container as a stranger does."""
        self.client.put_container(bucket)

    def drop_bucket(self, bucket: str) -> None:
        """Delete a container and all in it, if it is there."""
        try:
            for key in self.objects(bucket):
                self.delete(bucket, key)
            self.client.delete_container(bucket)
        except swiftclient.ClientException as error:
            if error.http_status != 404:
                raise


class FolderView:
    """A folder seen by the operating system: a bucket is a folder, an object is a file."""

    def __init__(self, root: Path) -> None:
        """Look below `root`."""
        self.root = root

    def buckets(self) -> set[str]:
        """Name all folders."""
        return {path.name for path in self.root.iterdir() if path.is_dir()}

    def objects(self, bucket: str) -> dict[str, int]:
        """Give the size of each file below a folder."""
        folder = self.root / bucket
        return {
            path.relative_to(folder).as_posix(): path.stat().st_size
            for path in folder.rglob("*")
            if path.is_file()
        }

    def read(self, bucket: str, key: str) -> bytes:
        """Read a whole file."""
        return (self.root / bucket / key).read_bytes()

    def write(self, bucket: str, key: str, content: bytes) -> None:
        """Write a whole file."""
        (self.root / bucket / key).write_bytes(content)

    def delete(self, bucket: str, key: str) -> None:
        """Delete a file."""
        (self.root / bucket / key).unlink()

    def make_bucket(self, bucket: str) -> None:
        """Make a folder as a stranger does, with something of the stranger's in it."""
        (self.root / bucket).mkdir()

    def drop_bucket(self, bucket: str) -> None:
        """Delete a folder and all in it, if it is there."""
        folder = self.root / bucket
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        if folder.exists():
            folder.rmdir()
