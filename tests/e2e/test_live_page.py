"""The page of a load while it runs: who may look, what they see, and how it ends."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from urllib.parse import urlsplit

import pytest

from e2e.tools import Shell
from lab.browser import Browser
from lab.process import wait_until
from rowfall.cli.live import EVERY_SECONDS, MOST_VIEWERS, LivePage
from rowfall.core.errors import UsageError
from rowfall.report.page import Page, Tile

pytestmark = pytest.mark.xdist_group("browser")


class Shown:
    """A page whose content a test sets."""

    def __init__(self) -> None:
        self.rows, self.ended = "0", False
        self.looks = 0

    def __call__(self) -> tuple[Page, bool]:
        self.looks += 1
        state = "done" if self.ended else "running"
        return Page("load 1", state=state, tiles=(Tile("rows", self.rows),)), self.ended


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def live(shown: Shown) -> Iterator[LivePage]:
    page = LivePage(0, shown)
    yield page
    page.close()


def get(live: LivePage, path: str, **headers: str) -> tuple[int, str, http.client.HTTPMessage]:
    with closing(http.client.HTTPConnection("127.0.0.1", live.port, timeout=10)) as to:
        to.request("GET", path, headers=headers)
        answer = to.getresponse()
        return answer.status, answer.read().decode(), answer.headers


def events(live: LivePage, *, last: str = "") -> tuple[socket.socket, Iterator[dict[str, str]]]:
    """Return a connection, and the events that come by it."""
    to = socket.create_connection(("127.0.0.1", live.port), timeout=20)
    path = urlsplit(live.url).path
    known = f"Last-Event-ID: {last}\r\n" if last else ""
    to.sendall(f"GET {path}events HTTP/1.1\r\nHost: 127.0.0.1:{live.port}\r\n{known}\r\n".encode())
    lines = to.makefile("r", encoding="utf-8")

    def read() -> Iterator[dict[str, str]]:
        event: dict[str, str] = {}
        for line in lines:
            name, _, value = line.rstrip("\r\n").partition(": ")
            if name in ("id", "event", "data"):
                event[name] = value
            elif not name and event:
                yield event
                event = {}

    return to, read()


def rows_of(event: dict[str, str]) -> str:
    found = re.search(r"<b>(\w+)</b>", json.loads(event["data"])["head"])
    assert found is not None
    return found[1]


def test_only_who_has_the_token_may_look(live: LivePage) -> None:
    path = urlsplit(live.url).path
    assert len(path) > 30
    status, body, headers = get(live, path)
    assert (status, "load 1" in body) == (200, True)
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert "connect-src &#x27;self&#x27;" in body
    other = path[:-3] + ("xx/" if path[-3:-1] != "xx" else "yy/")
    for wrong in ("/", "/events", other, f"{other}events", "/%C3%A9", "//"):
        assert get(live, wrong)[0] == 403, wrong
    assert get(live, f"{path}more")[0] == 404
    # A name of somebody else that points here: the browser sends it as Host.
    for host in ("evil.example", f"evil.example:{live.port}", "127.0.0.1", "127.0.0.1:1"):
        assert get(live, path, Host=host)[0] == 403, host
        assert get(live, f"{path}events", Host=host)[0] == 403, host
    assert get(live, path, Host=f"localhost:{live.port}")[0] == 200


def test_what_is_no_request_is_refused(live: LivePage) -> None:
    path = urlsplit(live.url).path
    host = f"Host: 127.0.0.1:{live.port}\r\n"
    for sent, answer in {
        f"GET {path} HTTP/1.1\r\n{host}\r\n": "200 OK",
        f"GET {path} HTTP/1.0\r\nhost:127.0.0.1:{live.port}\r\n\r\n": "200 OK",
        f"POST {path} HTTP/1.1\r\n{host}\r\n": "405 Method Not Allowed",
        f"POST /x HTTP/1.1\r\n{host}\r\n": "403 Forbidden",
        f"GET {path}\r\n{host}\r\n": "400 Bad Request",
        f"GET {path} FTP/1\r\n{host}\r\n": "400 Bad Request",
        f"GET /{'x' * 70_000} HTTP/1.1\r\n{host}\r\n": "414 ",
        f"GET {path} HTTP/1.1\r\n{host}a: {'b' * 70_000}\r\n\r\n": "431 ",
        f"GET {path} HTTP/1.1\r\n{host}" + "a: b\r\n" * 200 + "\r\n": "431 ",
    }.items():
        with socket.create_connection(("127.0.0.1", live.port), timeout=10) as to:
            to.sendall(sent.encode())
            with suppress(ConnectionResetError):  # it has not read all that came
                assert to.recv(64).decode().startswith(f"HTTP/1.1 {answer}"), sent[:60]
    with socket.create_connection(("127.0.0.1", live.port), timeout=10) as to:
        to.sendall(b"\r\n")
        assert to.recv(64) == b""


_LOOKED_AT = r"""
import socket, sys, rowfall.cli.live as live

def look():
    from rowfall.report.page import Page
    return Page("load 1"), False

page = live.LivePage(0, look)
host = f"127.0.0.1:{page.port}"
for name in sys.argv[1:]:
    with socket.create_connection(("127.0.0.1", page.port), timeout=20) as to:
        path = page.url.partition(host)[2] + name
        to.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        found = b""
        while b"load 1" not in found:
            found += to.recv(65536)
print(*sorted(sys.modules))
"""


def test_a_load_imports_no_page_until_somebody_looks_and_never_a_server() -> None:
    """What the standard library's HTTP server brings is more CPU than the page itself."""
    for asked, page in (((), False), (("", "events"), True)):
        done = subprocess.run(
            [sys.executable, "-c", _LOOKED_AT, *asked], capture_output=True, text=True, check=True
        )
        found = set(done.stdout.split())
        assert not {"http", "http.server", "http.client", "email", "ssl", "rich"} & found
        assert ("rowfall.report.page" in found) is page


def test_it_is_drawn_once_a_second_however_many_look(live: LivePage, shown: Shown) -> None:
    path, began = urlsplit(live.url).path, time.monotonic()
    with ExitStack() as opened:
        for number in range(MOST_VIEWERS):
            to, read = events(live)
            opened.enter_context(to)
            next(read)
            assert get(live, path)[0] == 200
            shown.rows = str(number)
        seconds = time.monotonic() - began
        assert 1 <= shown.looks <= 1 + seconds / EVERY_SECONDS
        # One more than there may be is sent away.
        to, read = events(live)
        with to:
            assert next(read, None) is None


def test_it_listens_on_this_machine_only(live: LivePage) -> None:
    assert live.url.startswith("http://127.0.0.1:")
    assert live._server.server_address[0] == "127.0.0.1"


def test_states_are_sent_as_they_change_and_not_twice(live: LivePage, shown: Shown) -> None:
    first, read = events(live)
    with first:
        event = next(read)
        assert rows_of(event) == "0"
        shown.rows = "10"
        event = next(read)
        assert rows_of(event) == "10"
    # Who comes again with what it has seen last gets what is new.
    again, read = events(live, last=event["id"])
    with again:
        shown.rows = "20"
        assert rows_of(next(read)) == "20"
        shown.ended = True
        assert "done" in json.loads(next(read)["data"])["head"]
        assert next(read)["event"] == "end"


def test_the_last_state_is_sent_before_it_closes(shown: Shown) -> None:
    live = LivePage(0, shown)
    to, read = events(live)
    with to:
        next(read)
        shown.rows, shown.ended = "99", True
        live.close()
        assert rows_of(next(read)) == "99"
        assert next(read)["event"] == "end"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", live.port), timeout=5)


def test_a_port_that_is_in_use(live: LivePage, shown: Shown, shell: Shell) -> None:
    with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{live.port}: Address"):
        LivePage(live.port, shown)
    shell.write("t.csv", "a\n1\n")
    done = shell.run("load", "t.csv", "--watch-port", str(live.port))
    assert done.code == 2
    assert f"cannot listen on 127.0.0.1:{live.port}" in done.err
    assert shell.ok("status").out == "no loads yet\n"  # nothing was read
    shell.ok("load", "t.csv", "--watch-port", "0")


def test_the_page_follows_the_states(live: LivePage, shown: Shown) -> None:
    with Browser() as browser:
        browser.open(live.url)
        browser.wait_for("document.querySelector('.tiles b').textContent === '0'")
        browser.wait_for("document.getElementById('live').textContent.startsWith('Live')")
        shown.rows = "12345"
        browser.wait_for("document.querySelector('.tiles b').textContent === '12345'")
        shown.ended = True
        browser.wait_for("document.getElementById('live').textContent.includes('has ended')")
        browser.wait_for("document.querySelector('.state').textContent === 'done'")
        assert browser.problems == []
        assert {urlsplit(each).netloc for each in browser.asked} == {f"127.0.0.1:{live.port}"}


def url_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("live page: "):
            return line.split()[-1]
    raise AssertionError("no address")


@pytest.mark.long  # it has to take seconds
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_load_is_watched_to_its_end(shell: Shell, elsewhere: bool) -> None:
    """In the process of the load, and from another one by what it writes beside its ledger."""
    shell.ok("load", "generate://taxi?rows=1_000_000", "--to", "in/{n}.csv")
    more = [] if elsewhere else ["--watch-port", "0"]
    process = shell.cli.start("load", "in/*.csv", "--table", "t", "--threads", "1",
                              "--attempt-bytes", "20MB", *more)  # fmt: skip
    watching = process
    try:
        if elsewhere:
            wait_until(lambda: "running" in shell.ok("status").out, 30, "the load")
            watching = shell.cli.start("status", "--web")
        url = url_of(watching)
        with Browser() as browser:
            browser.open(url)
            browser.wait_for("document.getElementById('rows-over-time') !== null", 60)
            browser.wait_for("document.querySelectorAll('#rows-over-time svg path').length > 2", 60)
            # Plan and SQL are there before the end.
            browser.wait_for("document.getElementById('plan-and-what-happened-title') !== null")
            text = browser.run("document.body.textContent")
            assert browser.run("document.querySelector('.state').textContent") == "running"
            assert "so far" in text
            assert "CREATE TABLE" in text
            browser.wait_for("document.querySelector('.state').textContent === 'done'", 120)
            browser.wait_for("document.getElementById('live').textContent.includes('has ended')")
            assert "CREATE TABLE" in browser.run("document.body.textContent")
            assert browser.problems == []
        assert process.wait(60) == 0
        assert watching.wait(60) == 0
    finally:
        for each in {process, watching}:
            each.kill()
            each.wait()


def test_status_web_needs_a_load_that_runs(shell: Shell) -> None:
    shell.write("t.csv", "a\n1\n")
    shell.ok("load", "t.csv")
    none = shell.run("status", "--web")
    assert (none.code, "no load runs now" in none.err) == (2, True)
    ended = shell.run("status", "last", "--web")
    assert (ended.code, "does not run: done" in ended.err) == (2, True)
    hint = ended.err.partition("hint: rowfall ")[2].partition(" writes")[0].split()
    shell.ok(*(word if word != "FILE" else "r.html" for word in hint))
    assert (shell.folder / "r.html").exists()


@pytest.mark.long
def test_a_load_that_is_stopped_closes_its_page(shell: Shell) -> None:
    shell.ok("load", "generate://taxi?rows=1_000_000", "--to", "in/{n}.csv")
    process = shell.cli.start("load", "in/*.csv", "--table", "t", "--threads", "1",
                              "--watch-port", "0")  # fmt: skip
    try:
        url = url_of(process)
        with Browser() as browser:
            browser.open(url)
            browser.wait_for("document.querySelectorAll('#rows-over-time svg path').length > 2", 60)
            process.send_signal(signal.SIGINT)
            browser.wait_for("document.querySelector('.state').textContent === 'interrupted'", 60)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
