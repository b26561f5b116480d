"""One word for a target and the objects in it that others wrote, as `bench --existing` takes it."""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from loadstone.campaign.drivers import read_drivers
from loadstone.errors import CampaignError, Mistake


def bucket_apart(text: str) -> tuple[str, str | None, str | None]:
    """Return a word for a target without the bucket and the prefix of keys in it, and these.

    `s3://BUCKET/PREFIX` is a bucket where the environment says the store's address, and so is that
    of any driver; in `http://HOST/BUCKET/PREFIX` the path is one. Other addresses have a path of
    their own.
    """
    drivers = read_drivers()
    scheme, separator, rest = text.partition("://")
    if separator and scheme in drivers:
        bucket, _, prefix = rest.partition("/")
        return scheme, bucket or None, prefix or None
    named = drivers.get(text.partition("+")[0])
    if not separator or (named is not None and named.facts.place != "bucket"):
        return text, None, None
    parts = urlsplit(text)
    bucket, _, prefix = parts.path.strip("/").partition("/")
    # A slash at the end tells the keys below a folder from those that only begin alike.
    prefix += "/" if prefix and parts.path.endswith("/") else ""
    return parts._replace(path="").geturl(), bucket or None, prefix or None


def directory_apart(
    driver: str, settings: Mapping[str, Any], bucket: str | None
) -> tuple[dict[str, Any], str]:
    """Return a target's settings and its bucket; of a directory, that is its path's last step.

    Of a pool it is the default namespace, which has no name.
    """
    facts = read_drivers()[driver].facts
    if bucket is None and facts.place == "directory":
        [key] = facts.address.settings
        parent, bucket = os.path.split(os.path.abspath(str(settings[key])))
        settings = {**settings, key: parent}
    if bucket is None and facts.place == "namespace":
        # That of a pool in which most programs write.
        bucket = ""
    elif not bucket:
        mistake = Mistake(
            key="TARGET",
            actual=f"no {facts.place} whose objects are there",
            allowed="one, as in http://HOST:PORT/BUCKET/PREFIX, or its name by --prefix and that "
            "of keys by --object-prefix",
        )
        raise CampaignError([mistake])
    return dict(settings), bucket
