"""A real browser without a screen, driven over a pipe by the Chrome DevTools Protocol.

A page is opened at a size, in light or dark, on a screen or on paper; expressions are evaluated in
it, keys are pressed, and pictures are taken of it.
"""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium")
MISSING = "no chromium to open a page with: apt-get install chromium"
TIMEOUT_S = 60.0


class Browser:
    """One tab of a browser of its own."""

    def __init__(self, profile: Path) -> None:
        assert PROGRAM, MISSING
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def place_pipes() -> None:
            # The protocol uses descriptors 3 and 4, which these two may already have in reverse
            # order.
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        command = [
            PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={profile}",
            "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command,
            preexec_fn=place_pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.messages: list[str] = []
        self.requests: list[str] = []
        targets = self._ask("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        asked = {"targetId": page["targetId"], "flatten": True}
        self._session = self._ask("Target.attachToTarget", asked)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self._ask(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(30)
        os.close(self._read)
        os.close(self._write)

    def open(
        self,
        url: str,
        *,
        width: int = 1400,
        height: int = 900,
        is_dark: bool = False,
        media: str = "screen",
    ) -> None:
        """Go to a page and wait until it is loaded."""
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self._ask("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
        self.messages.clear()
        self.requests.clear()
        self._ask("Page.navigate", {"url": url})
        self.wait_for(
            f"location.href !== 'about:blank' && document.readyState === 'complete' /*{url}*/"
        )

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page; promises are waited for."""
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = self._ask("Runtime.evaluate", asked)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(details.get("exception", details).get("description", details))
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Return the first truthy value of an expression."""
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            with contextlib.suppress(AssertionError):
                if value := self.evaluate(expression):
                    return value
            time.sleep(0.05)
        raise AssertionError(f"never true: {expression}; the page said {self.messages}")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key, as a person would."""
        for kind in ("keyDown", "keyUp"):
            asked = {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}
            if text and kind == "keyDown":
                asked["text"] = text
            self._ask("Input.dispatchKeyEvent", asked)

    def picture(self, path: Path, *, is_whole: bool = False) -> None:
        """Write the visible part, or the whole page, as a PNG."""
        asked: dict[str, Any] = {"format": "png", "captureBeyondViewport": is_whole}
        if is_whole:
            size = self._ask("Page.getLayoutMetrics")["cssContentSize"]
            asked["clip"] = {**size, "scale": 1}
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", asked)["data"]))

    def paper(self, path: Path) -> None:
        """Write the page in its print layout as a PDF."""
        asked = {"printBackground": False, "preferCSSPageSize": True}
        path.write_bytes(base64.b64decode(self._ask("Page.printToPDF", asked)["data"]))

    def _ask(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": parameters or {}}
        if self._session:
            asked["sessionId"] = self._session
        data = json.dumps(asked).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        end = time.monotonic() + TIMEOUT_S
        while True:
            message = self._next(end)
            if message.get("id") == self._number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return dict(message["result"])
            self._note(message)

    def _note(self, event: dict[str, Any]) -> None:
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.messages.append(json.dumps(event["params"]["exceptionDetails"])[:2000])
            case "Runtime.consoleAPICalled":
                self.messages.append(json.dumps(event["params"]["args"])[:2000])
            case "Network.requestWillBeSent":
                self.requests.append(event["params"]["request"]["url"])

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            ready, _, _ = select.select([self._read], [], [], max(0.0, left))
            data = os.read(self._read, 1 << 20) if ready else b""
            if not data:
                raise AssertionError("the browser ended, or did not answer")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))


@contextlib.contextmanager
def open_browser(profile: Path) -> Iterator[Browser]:
    """Run a browser for a while."""
    browser = Browser(profile)
    try:
        yield browser
    finally:
        browser.close()
