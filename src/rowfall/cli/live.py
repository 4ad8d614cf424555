"""Serve the page of a load while it runs: ``load --watch-port``, ``status --web``.

On 127.0.0.1 only, under a path that nobody can guess. States are made while somebody looks, once a
second, from the small file that a running load writes for ``rowfall status``.

The process of the load does all that, so it has to be cheap: what draws the page is imported when
somebody looks first, and the HTTP server of the standard library never is.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING, Any

from rowfall.cli.live_requests import PageRequest
from rowfall.core import units
from rowfall.core.errors import LedgerError, RowfallError, UsageError
from rowfall.core.events import Event, LoadStarted

if TYPE_CHECKING:
    from rowfall.cli.output import CommandOutput
    from rowfall.report.page import Page
    from rowfall.run.history import WatchedLoad

    # Returns a page, and whether it is the last one.
    Look = Callable[[], tuple[Page, bool]]

HOST = "127.0.0.1"
# The file that states are made of is written so often.
EVERY_SECONDS = 1.0
# Of a core, what states may cost the load: its process makes them. One takes 2 to 7 ms.
MOST_SHARE = 0.005
# A connection that proxies and browsers would otherwise take for dead.
BEAT_SECONDS = 15.0
# What those who look get to fetch the last state, when the load has ended.
LAST_SECONDS = 2.0
# A browser opens one connection a tab.
MOST_VIEWERS = 16


class LiveLoad:
    """The live page of a load that this process runs; a listener of its events.

    Args:
        port, to: as typed.
    """

    def __init__(self, output: CommandOutput, port: int, to: str | None) -> None:
        self._to = to
        self._load_id = ""
        self._watched: WatchedLoad | None = None
        self._page = LivePage(port, self._look)
        output.help(f"live page: {self._page.url}")

    def hear(self, event: Event) -> None:
        if isinstance(event, LoadStarted) and event.load_id != self._load_id:
            self._load_id, self._watched = event.load_id, None

    def close(self) -> None:
        """Show the end of the load to those who look."""
        self._page.close()

    def _look(self) -> tuple[Page, bool]:
        from rowfall.report.page import Page
        from rowfall.run.history import WatchedLoad

        watched = self._watched
        if watched is None and self._load_id:
            watched = self._watched = WatchedLoad.find(self._load_id, self._to)
        if watched is None:
            return Page("load", state="planning", color="yellow"), False
        # That it has ended is for close() to say: its record is complete only then.
        return _shown(watched)[0], False


def serve(output: CommandOutput, port: int, load_id: str, to: str | None) -> None:
    """Serve the page of a load of another process until it has ended, or until Ctrl-C."""
    from rowfall.run.history import WatchedLoad

    watched = WatchedLoad.find(load_id, to)
    if watched is None:
        raise LedgerError(f"load {load_id} is in no ledger")
    live = LivePage(port, lambda: _shown(watched))
    output.help(f"live page: {live.url}")
    try:
        live.wait()
    except KeyboardInterrupt:
        pass
    finally:
        live.close()


def _shown(watched: WatchedLoad) -> tuple[Page, bool]:
    from rowfall.report.load_page import load_page
    from rowfall.report.page import Page

    found = watched.now()
    if found is None:
        return Page(
            "load", state="gone", color="red", warnings=("The ledger has it no more.",)
        ), True
    return load_page(found), found.report.outcome != "running"


class LivePage:
    """A server with one page, which draws itself anew with each state.

    Args:
        port: 0 for a free one.
        look: called by one thread at a time, while somebody looks.

    Attributes:
        url: with its token; whoever has it may look.

    Raises:
        UsageError: the port is in use, or not this user's to take.
    """

    def __init__(self, port: int, look: Look) -> None:
        self._look = look
        self._token = secrets.token_urlsafe(24)
        self._changed = threading.Condition()
        self._number = 0
        self._state = ""
        self._last = False
        self._viewers = 0
        self._drawing = threading.Lock()
        self._drawn = 0.0  # as of time.monotonic(), and what was shown then
        self._shown: tuple[Page, dict[str, Any]] | None = None
        try:
            self._server = _Server(port, self)
        except (OSError, OverflowError) as error:
            said = getattr(error, "strerror", None) or error
            raise UsageError(
                f"cannot listen on {HOST}:{port}: {said}",
                hint="Take another port; 0 is a free one.",
            ) from None
        self.port = self._server.server_address[1]
        self.url = f"http://{HOST}:{self.port}/{self._token}/"
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        """Send the last state to those who look, and stop."""
        with self._changed:
            seen = self._viewers
            self._last = not seen
            self._changed.notify_all()
        if seen:
            self._renew(last=True)
        deadline = time.monotonic() + LAST_SECONDS
        with self._changed:
            while seen and self._viewers and time.monotonic() < deadline:
                self._changed.wait(deadline - time.monotonic())
        self._server.shutdown()
        self._server.server_close()

    def wait(self) -> None:
        """Wait until the last state was made; somebody who looks or not."""
        while not self._last:
            self._renew()
            with self._changed:
                self._changed.wait(EVERY_SECONDS)

    # --- states -------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Make a state a second while somebody looks."""
        while not self._last:
            with self._changed:
                while not self._viewers and not self._last:
                    self._changed.wait()
            if not self._last:
                began = time.thread_time()
                self._renew()
                time.sleep(max(EVERY_SECONDS, (time.thread_time() - began) / MOST_SHARE))

    def _renew(self, *, last: bool = False) -> tuple[Page, dict[str, Any]] | None:
        """Return the page and its state, at most a second old; those who wait get what is new."""
        from rowfall.report.page import Page, page_state

        with self._drawing:
            now = time.monotonic()
            if self._shown is not None and not last and now - self._drawn < EVERY_SECONDS:
                return self._shown  # however many look, and however often
            try:
                page, ended = self._look()
            except RowfallError as error:  # a ledger that is locked; the next look may do
                if not last:
                    return None
                page, ended = Page("load", warnings=(error.message,)), True
            self._shown, self._drawn = (page, page_state(page)), now
            state = units.as_json(self._shown[1])
            with self._changed:
                if state != self._state and not self._last:
                    self._number += 1
                    self._state = state
                if (last or ended) and not self._last:
                    self._last = True
                self._changed.notify_all()
            return self._shown

    def allows(self, path: str, host: str) -> bool:
        """Tell whether a request has the token, and came by the address of this machine.

        A page of somebody else may have its name point here (DNS rebinding): its requests name it.
        """
        named = host in (f"{HOST}:{self.port}", f"localhost:{self.port}")
        given = path.lstrip("/").partition("/")[0]
        return named and hmac.compare_digest(given.encode(), self._token.encode())

    def html(self) -> str:
        """Return the page as it is now."""
        from rowfall.report.page import Page, live_html, page_state

        page = Page("load")
        page, state = self._renew() or (page, page_state(page))
        return live_html(page, state, f"/{self._token}/events")

    def follow(self, known: int, send: Callable[[bytes], None]) -> None:
        """Send states as server-sent events, until the last one or until nobody takes them.

        Args:
            known: number of the last state that the other side has.
        """
        with self._changed:
            if self._viewers >= MOST_VIEWERS:
                raise ConnectionRefusedError
            self._viewers += 1
            self._changed.notify_all()
        try:
            send(b"retry: 1000\n\n")
            while True:
                with self._changed:
                    if self._number == known and not self._last:
                        self._changed.wait(BEAT_SECONDS)
                    number, state, last = self._number, self._state, self._last
                if number != known and state:
                    known = number
                    send(f"id: {number}\ndata: {state}\n\n".encode())
                elif not last:
                    send(b": still here\n\n")
                if last:
                    send(f"id: {number}\nevent: end\ndata: end\n\n".encode())
                    return
        finally:
            with self._changed:
                self._viewers -= 1
                self._changed.notify_all()


class _Server(ThreadingTCPServer):
    """Listens for requests, each of which is answered by a thread of its own."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, page: LivePage) -> None:
        self._page = page
        super().__init__((HOST, port), BaseRequestHandler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        PageRequest(self._page, request, client_address, self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: tabs are closed at any time."""
