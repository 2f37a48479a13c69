"""Pages as a browser shows them: a Chromium without a window, spoken to over a pipe."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from contextlib import contextmanager

import numpy as np
import pytest
from matplotlib import image

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_PATIENCE_S = 60.0

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine (on Debian: apt-get install chromium)"
)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Browser:
    """One Chromium. It reads commands as JSON, each ended by a zero byte, and answers the same way."""

    def __init__(self, folder):
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        # Chromium reads from 3 and writes to 4.
        run = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", run, CHROMIUM, *_FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._unread = b""
        self._number = 0
        self._told = []

    def command(self, method, session=None, **parameters):
        """Chromium's answer. What it tells in between is kept for whom it concerns."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            asked["sessionId"] = session
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            answer = self._next(until - time.monotonic())
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._told.append(answer)
        raise TimeoutError(method)

    def told(self, session):
        """What was told of a page since the last call."""
        self.command("Browser.getVersion")
        found = [one for one in self._told if one.get("sessionId") == session]
        self._told = [one for one in self._told if one.get("sessionId") != session]
        return found

    def _next(self, seconds):
        while b"\0" not in self._unread:
            if not select.select([self._from], [], [], max(seconds, 0.0))[0]:
                return {}
            part = os.read(self._from, 1 << 20)
            assert part, "Chromium is gone"
            self._unread += part
        answer, _, self._unread = self._unread.partition(b"\0")
        return json.loads(answer)

    @contextmanager
    def page(self, address, *, width=1280, height=1000, dark=False, media=""):
        """A page in a tab of its own, with the window, colours and medium (`print`) that it is to be seen in."""
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        shown = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            shown.command(f"{domain}.enable")
        shown.resize(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        shown.command("Emulation.setEmulatedMedia", media=media, features=scheme)
        shown.command("Page.navigate", url=address)
        shown.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")
        try:
            yield shown
        finally:
            self.command("Target.closeTarget", targetId=target)

    def close(self):
        """Ends the browser."""
        os.close(self._to)
        os.close(self._from)
        self._process.kill()
        self._process.wait()


class Page:
    """A page in the browser."""

    def __init__(self, browser, session):
        self._browser, self._session = browser, session
        self._errors, self._addresses = [], []

    def command(self, method, **parameters):
        """Chromium's answer to a command about this page."""
        return self._browser.command(method, self._session, **parameters)

    def resize(self, width, height):
        """Gives the window another size."""
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def value(self, script):
        """What an expression of JavaScript is."""
        told = self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def wait_for(self, script, seconds=_PATIENCE_S):
        """Waits until an expression is true."""
        until = time.monotonic() + seconds
        while not self.value(script):
            assert time.monotonic() < until, f"never true: {script}"
            time.sleep(0.02)

    def text(self):
        """What a person reads."""
        return self.value("document.body.innerText")

    def numbers(self):
        """What the page has for programs."""
        return json.loads(self.value("document.getElementById('numbers').textContent"))

    def errors(self):
        """What the console complained of."""
        self._listen()
        return self._errors

    def addresses(self):
        """What was asked for, from whom."""
        self._listen()
        return self._addresses

    def _listen(self):
        for one in self._browser.told(self._session):
            said, told = one.get("method"), one.get("params", {})
            if said == "Runtime.exceptionThrown":
                self._errors.append(str(told["exceptionDetails"]))
            elif said == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
                self._errors.append(str(told["args"]))
            elif said == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                self._errors.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
            elif said == "Network.requestWillBeSent":
                self._addresses.append(told["request"]["url"])

    def picture(self, path, *, whole=False):
        """Writes what is seen to a file, and gives its pixels."""
        shot = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
        return (image.imread(path)[:, :, :3] * 255).round().astype(int)


def painted(pixels, colour):
    """How many pixels have a colour, written #rrggbb."""
    wanted = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return int((np.abs(pixels - wanted).sum(axis=2) < 12).sum())
