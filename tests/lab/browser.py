"""Chromium without a window: the package of Debian, asked by its own protocol over two pipes."""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from lab import debian
from lab.process import ServiceError

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--no-first-run",
    "--disable-dev-shm-usage", "--remote-debugging-pipe", "--hide-scrollbars",
    "--force-color-profile=srgb", "--lang=en-US",
)  # fmt: skip
_SECONDS = 60.0  # a start on busy cores takes ten


class Browser:
    """One tab. Its messages, errors and requests are kept in ``problems`` and ``asked``.

    Attributes:
        problems: errors and warnings of the console, uncaught exceptions, what a policy refused.
        asked: addresses that pages wanted to fetch.
    """

    def __init__(self) -> None:
        root = debian.unpacked("chromium", "chromium", "fonts-dejavu-core", needs=True)
        libraries = root / "usr/lib/x86_64-linux-gnu"
        if not libraries.is_dir():
            libraries = next(root.glob("usr/lib/*-linux-gnu"))
        folders = [libraries, *(each for each in libraries.iterdir() if each.is_dir())]
        self.problems: list[str] = []
        self.asked: list[str] = []
        self._number = 0
        self._waiting: list[dict[str, Any]] = []
        self._folder = tempfile.TemporaryDirectory(prefix="browser-")
        theirs, self._out = os.pipe()
        self._in, their_out = os.pipe()

        def pipes() -> None:
            # The protocol is spoken on descriptors 3 and 4, whichever numbers the pipes have.
            read, write = os.dup(theirs), os.dup(their_out)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self._process = subprocess.Popen(
            [str(root / "usr/lib/chromium/chromium"), *_FLAGS,
             f"--user-data-dir={self._folder.name}", "about:blank"],
            env={**os.environ, "HOME": self._folder.name,
                 "LD_LIBRARY_PATH": ":".join(map(str, folders))},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=pipes, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        os.close(their_out)
        self._buffer = b""
        self._session = ""
        try:
            target = self.ask("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.ask(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def close(self) -> None:
        """End the browser and its children, which are a session of their own."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._folder.cleanup()

    def ask(self, method: str, **values: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result.

        Raises:
            ServiceError: it failed, or the browser has ended.
        """
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": values}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _SECONDS
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise ServiceError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._hear(answer)

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            read = os.read(self._in, 1 << 20) if ready else b""
            if not read:
                raise ServiceError("chromium does not answer")
            self._buffer += read
        text, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def _hear(self, event: dict[str, Any]) -> None:
        values = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled" if values["type"] in ("error", "warning", "assert"):
                said = [str(a.get("value", a.get("description"))) for a in values["args"]]
                self.problems.append(" ".join(said))
            case "Runtime.exceptionThrown":
                details = values["exceptionDetails"]
                self.problems.append(details.get("exception", {}).get("description", str(details)))
            case "Log.entryAdded" if values["entry"]["level"] in ("error", "warning"):
                self.problems.append(values["entry"]["text"])
            case "Network.requestWillBeSent":
                self.asked.append(values["request"]["url"])
            case "Page.loadEventFired":
                self._loaded = True

    def open(
        self, address: str, *, width: int = 1280, height: int = 900, dark: bool = False
    ) -> None:
        """Open a page in a window of a size, and wait until its scripts have run."""
        phone = width < 600
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=phone)  # fmt: skip
        self.ask("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
        ])  # fmt: skip
        self._loaded = False
        self.problems.clear()
        self.asked.clear()
        self.ask("Page.navigate", url=address)
        deadline = time.monotonic() + _SECONDS
        while not self._loaded:
            self._hear(self._next(deadline))

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression (of a promise: what it comes to).

        Raises:
            ServiceError: it throws.
        """
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True,
                         awaitPromise=True)  # fmt: skip
        if "exceptionDetails" in found:
            raise ServiceError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def wait_for(self, script: str, seconds: float = 30.0) -> Any:
        """Return the value of an expression once it is true in the page.

        Raises:
            ServiceError: it has not become so.
        """
        deadline = time.monotonic() + seconds
        while not (found := self.run(script)):
            if time.monotonic() > deadline:
                raise ServiceError(f"not true in {seconds} s: {script}")
            time.sleep(0.05)
        return found

    def press(self, key: str) -> None:
        """Press a key, such as ``Tab`` or ``ArrowRight``."""
        codes = {"Tab": 9, "Enter": 13, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}
        for kind in ("rawKeyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                     windowsVirtualKeyCode=codes[key])  # fmt: skip

    def picture(self, path: Path, top: int = 0, height: int = 0) -> None:
        """Write the page, or ``height`` pixels of it from ``top``, as PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        height = height or size["height"]
        found = self.ask(
            "Page.captureScreenshot", captureBeyondViewport=True,
            clip={"x": 0, "y": top, "width": size["width"], "height": height, "scale": 1},
        )  # fmt: skip
        path.write_bytes(base64.b64decode(found["data"]))

    def print(self, path: Path) -> None:
        """Write the page as PDF, as it is printed on A4."""
        found = self.ask("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        path.write_bytes(base64.b64decode(found["data"]))
