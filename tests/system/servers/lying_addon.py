"""An addon of mitmproxy that lies about a share of the requests to an S3 store behind it.

mitmdump --mode reverse:URL -s lying_addon.py --set lie=NAME:SHARE:LOG

Each lie adds a line `{"kind", "bucket", "key"}` to LOG. Requests are passed on as they were signed.
"""

import hashlib
import json
import random
import re
import time

from mitmproxy import ctx, http

OBJECT = re.compile(r"^/([^/?]+)/(object-[^?]+)$")
ENTRY = re.compile(r"<Contents>.*?<Key>(object-\d+)</Key>.*?</Contents>")
RETURNS_AFTER_S = 0.3
LOST_AFTER_S = 0.3


class Liar:
    """Lies in one way; remembers what a real store would have to keep for it."""

    def __init__(self):
        self.chance = random.Random(3)
        self.old = {}
        self.newest = {}
        self.spoiled = set()
        self.deleted = {}
        self.lost = {}

    def load(self, loader):
        """Add the option."""
        loader.add_option("lie", str, "", "NAME:SHARE:LOG")

    def configure(self, _):
        """Read the option."""
        if ctx.options.lie:
            self.name, share, self.log = ctx.options.lie.split(":", 2)
            self.share = float(share)

    def lies(self, name, place):
        """Draw whether this request is lied about, and log it."""
        if name != self.name or self.chance.random() >= self.share:
            return False
        with open(self.log, "a") as file:
            line = {"kind": name, "bucket": place[0], "key": place[1], "number": 1}
            file.write(json.dumps(line) + "\n")
        return True

    def request(self, flow):
        """Answer in the store's place, or pass on."""
        request = flow.request
        place = OBJECT.match(request.path.partition("?")[0])
        if not place or request.query:
            return
        place = place.groups()
        if request.method == "PUT":
            is_copy = "x-amz-copy-source" in request.headers
            if is_copy and self.lies("copy_not_done", place):
                answer = "<CopyObjectResult><ETag>&quot;0123456789abcdef0123456789abcdef&quot;"
                answer += "</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                flow.response = http.Response.make(200, answer + "</CopyObjectResult>")
            elif not is_copy and self.lies("put_not_done", place):
                etag = hashlib.md5(request.content).hexdigest()
                flow.response = http.Response.make(200, b"", {"ETag": f'"{etag}"'})
            else:
                self.spoiled.discard(place)
                self.lost.pop(place, None)
                self.deleted.pop(place, None)
                self.old[place], self.newest[place] = self.newest.get(place), request.content
                if not is_copy and self.lies("stored_damaged", place):
                    self.spoiled.add(place)
                if not is_copy and self.lies("lost_later", place):
                    self.lost[place] = time.monotonic() + LOST_AFTER_S
        elif request.method == "DELETE":
            if self.lies("delete_not_done", place):
                flow.response = http.Response.make(204)
            elif self.lies("deleted_and_back", place):
                self.deleted[place] = time.monotonic() + RETURNS_AFTER_S
                flow.response = http.Response.make(204)
        elif time.monotonic() < self.deleted.get(place, 0) or (
            time.monotonic() > self.lost.get(place, float("inf"))
        ):
            answer = b"" if request.method == "HEAD" else b"<Error><Code>NoSuchKey</Code></Error>"
            flow.response = http.Response.make(404, answer)

    def response(self, flow):
        """Falsify what the store answered."""
        request, response = flow.request, flow.response
        if request.method != "GET" or response.status_code not in (200, 206):
            return
        place = OBJECT.match(request.path.partition("?")[0])
        if place:
            place = place.groups()
            older = self.old.get(place)
            if place in self.spoiled or self.lies("bits_flipped", place):
                body = bytearray(response.content)
                body[len(body) // 2] ^= 4
                response.content = bytes(body)
            elif (
                older is not None
                and len(older) == len(response.content)
                and (self.lies("stale", place))
            ):
                response.content = older
        elif request.query.get("list-type") == "2":
            bucket, text = request.path.split("/")[1].partition("?")[0], response.text
            for entry in list(ENTRY.finditer(text)):
                if self.lies("not_listed", (bucket, entry[1])):
                    text = text.replace(entry[0], "")
                elif self.lies("listed_twice", (bucket, entry[1])):
                    text = text.replace(entry[0], entry[0] * 2)
            response.text = text


addons = [Liar()]
