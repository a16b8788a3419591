"""A page in a real browser: headless Chromium, spoken to over its own pipe. Standard library only.

with Browser() as browser:
    page = browser.open(path)
    assert not page.complaints and not page.requests
    page.click(".tools button")
    page.evaluate("document.title")
    page.screenshot(tmp_path / "page.png", dark=True, width=390)
"""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--mute-audio",
    "--password-store=basic",
    "--use-mock-keychain",
    "--remote-debugging-pipe",
)
TIMEOUT = 120.0  # seconds; machines that test are busy


class Page:
    """One open page, with every complaint of the browser and every network request."""

    def __init__(self, browser: "Browser", session: str, address: str) -> None:
        self.browser, self.session, self.address = browser, session, address
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def call(self, method: str, **parameters: Any) -> dict:
        return self.browser.call(method, self.session, **parameters)

    def evaluate(self, script: str) -> Any:
        """The value of a script in the page; a promise is waited for."""
        found = self.call(
            "Runtime.evaluate",
            expression=script,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if "exceptionDetails" in found:
            raise AssertionError(
                found["exceptionDetails"].get("exception", {}).get("description", str(found))
            )
        return found["result"].get("value")

    def click(self, selector: str) -> None:
        """Click in the middle of the element, as a person would."""
        found = self.evaluate(
            f"(() => {{const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getClientRects()[0];"
            "return [b.x + b.width / 2, b.y + b.height / 2];})()"
        )
        self.mouse("mouseMoved", *found)
        self.mouse("mousePressed", *found, button="left", clickCount=1)
        self.mouse("mouseReleased", *found, button="left", clickCount=1)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def look(
        self, *, dark: bool = False, width: int = 1000, height: int = 1400, print: bool = False
    ) -> None:
        """Set the colours and the size of the window."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call(
            "Emulation.setEmulatedMedia", media="print" if print else "screen", features=[scheme]
        )
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def screenshot(self, path: Path, *, whole: bool = True, **look: Any) -> Path:
        """The page as a picture: all of it, or the window."""
        self.look(**look)
        found = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole)
        )
        Path(path).write_bytes(base64.b64decode(found["data"]))
        return Path(path)

    def _clip(self, whole: bool) -> dict:
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {
            "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        }

    def heard(self, method: str, said: dict) -> None:
        """Keep what the browser reports."""
        if method == "Log.entryAdded":
            self.complaints.append(f"{said['entry']['level']}: {said['entry']['text']}")
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(said["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(f"console.{said['type']}: {said['args']}")
        elif method == "Network.loadingFailed":
            self.complaints.append(
                f"failed to load: {said.get('errorText')} {said.get('blockedReason', '')}"
            )
        elif method == "Network.requestWillBeSent":
            address = said["request"]["url"]
            if address != self.address and not address.startswith("data:"):
                self.requests.append(address)


class Browser:
    """A headless browser of its own, with an empty profile; closed at the end of ``with``."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.answers: dict[int, dict] = {}
        self.loaded: set[str] = set()
        self.news = threading.Condition()
        self.last = 0

    def __enter__(self) -> "Browser":
        program = next(found for name in NAMES if (found := shutil.which(name)))
        self.profile = tempfile.mkdtemp(prefix="browser-")
        theirs_in, self.ours_out = os.pipe()
        self.ours_in, theirs_out = os.pipe()

        def take_places() -> None:  # Chromium reads commands at 3 and writes answers at 4
            os.dup2(os.dup(theirs_in), 13)
            os.dup2(os.dup(theirs_out), 14)
            os.dup2(13, 3)
            os.dup2(14, 4)

        self.process = subprocess.Popen(
            [program, *QUIET, f"--user-data-dir={self.profile}", "about:blank"],
            pass_fds=(3, 4),
            preexec_fn=take_places,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(30)
        os.close(self.ours_out)
        shutil.rmtree(self.profile, ignore_errors=True)

    def open(self, path: Path, *, scripts: bool = True, **look: Any) -> Page:
        """The file opened in a new page and loaded."""
        address = Path(path).resolve().as_uri()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session, address)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        page.look(**look)
        page.call("Page.navigate", url=address)
        with self.news:
            assert self.news.wait_for(lambda: session in self.loaded, TIMEOUT), (
                "the page was never loaded"
            )
        return page

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict:
        """One command and its answer."""
        with self.news:
            self.last += 1
            number = self.last
        message = {"id": number, "method": method, "params": parameters} | (
            {"sessionId": session} if session else {}
        )
        os.write(self.ours_out, json.dumps(message).encode() + b"\0")
        with self.news:
            assert self.news.wait_for(lambda: number in self.answers, TIMEOUT), (
                f"no answer to {method}"
            )
            answer = self.answers.pop(number)
        assert "error" not in answer, f"{method}: {answer.get('error')}"
        return answer["result"]

    def _listen(self) -> None:
        rest = b""
        with os.fdopen(self.ours_in, "rb", buffering=0) as stream:
            while chunk := stream.read(1 << 16):
                *messages, rest = (rest + chunk).split(b"\0")
                for message in messages:
                    self._heard(json.loads(message))

    def _heard(self, said: dict) -> None:
        with self.news:
            if "id" in said:
                self.answers[said["id"]] = said
            elif page := self.pages.get(said.get("sessionId", "")):
                page.heard(said["method"], said.get("params", {}))
                if said["method"] == "Page.loadEventFired":
                    self.loaded.add(page.session)
            self.news.notify_all()


def settle(page: Page, script: str, seconds: float = 10.0) -> None:
    """Wait until ``script`` is true in the page."""
    until = time.monotonic() + seconds
    while not page.evaluate(script):
        assert time.monotonic() < until, f"never true: {script}"
        time.sleep(0.05)
