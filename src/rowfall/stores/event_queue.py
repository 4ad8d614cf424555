"""Events of new objects in a queue of Amazon SQS, where a bucket of S3 sends them.

Events come late, twice or never, so they only say where to look: the object is asked for as it is
now, and listing goes on more seldom. Whether it is loaded, the record in the target says. So an
event is removed from the queue when its object was looked at: who is killed before has it again,
and who is killed after finds the object in a listing, as every start begins with one.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from rowfall.core.errors import RowfallError, SourceError
from rowfall.core.events import Listener, Note
from rowfall.core.patterns import regex
from rowfall.core.s3_access import Access, Keys
from rowfall.core.s3_client import open_service
from rowfall.sources.base import ListedObject, NotifiedObjects

# The most that SQS allows of both: a queue in which nothing happens costs 4,300 requests a day.
_LONG_POLL, _MOST = 20, 10
# An answer may take that and what a request takes.
_TIMEOUT = _LONG_POLL + 9
# Messages that wait here for the loop; and that it takes at once.
_WAITING, _AT_ONCE = 200, 100
# Objects that are asked for at the same time, as for those that are looked at again.
_REQUESTS = 16
# SIGTERM is heard between two looks.
_LOOK_SECONDS = 1.0
# A queue that is away is asked again after so long; who reads hears of it every five minutes.
_AGAIN_SECONDS, _SAY_SECONDS = 5.0, 300.0
_RIGHTS = "The user needs sqs:ReceiveMessage and sqs:DeleteMessage; check the URL of --queue."
_REGION = regex(r"(?:.*\.)?sqs\.([a-z0-9-]+)\..*|([a-z0-9-]+)\.queue\.amazonaws\..*")

Look = Callable[[str], ListedObject | None]


class EventQueue:
    """Listens to a queue; see :class:`rowfall.sources.base.ObjectNotices`.

    Args:
        url: of the queue. ``access``: gives the credentials of now.
        look: returns an object by its name, None where it does not belong to the source.

    Raises:
        SourceError: the queue does not answer, or this user may not read it.
        UsageError: botocore is not installed.
    """

    def __init__(self, url: str, access: Callable[[], Access], look: Look, emit: Listener) -> None:
        self._url, self._access, self._look, self._emit = url, access, look, emit
        self._opened: tuple[Keys | None, Any] | None = None
        self._came: queue.Queue[tuple[str, Sequence[str]]] = queue.Queue(_WAITING)
        # Of the messages that were taken: names that are not looked at yet, and receipts.
        self._names: list[str] = []
        self._receipts: list[str] = []
        self._stopped = threading.Event()
        self._said = -_SAY_SECONDS
        self._receive(wait=0)
        threading.Thread(target=self._listen, name="queue", daemon=True).start()

    def read(self, seconds: float) -> NotifiedObjects:
        if not self._names:
            # Those of the last time are judged by now.
            self._remove()
            self._take(min(seconds, _LOOK_SECONDS))
        found: list[ListedObject] = []
        if self._names:
            names = list(dict.fromkeys(self._names))
            with ThreadPoolExecutor(min(_REQUESTS, len(names))) as pool:
                found = [item for item in pool.map(self._look, names) if item is not None]
            self._names = []
        return NotifiedObjects(found, (), missed=False)

    def _take(self, seconds: float) -> None:
        for number in range(_AT_ONCE):
            try:
                wait = seconds if not number and seconds > 0 else None
                receipt, names = self._came.get(wait is not None, wait)
            except queue.Empty:
                return
            self._receipts.append(receipt)
            self._names += names

    def _remove(self) -> None:
        """Remove messages; those that stay come again, and their objects are known then."""
        while self._receipts:
            some = self._receipts[:_MOST]
            entries = [{"Id": str(n), "ReceiptHandle": one} for n, one in enumerate(some)]
            try:
                self._client().delete_message_batch(QueueUrl=self._url, Entries=entries)
            except _failures() as error:
                self._say(f"events cannot be removed: {_explained(self._url, error).message}")
            del self._receipts[:_MOST]

    def is_closed(self, name: str) -> bool:
        return False  # objects appear as a whole, so nobody asks

    def close(self) -> None:
        self._stopped.set()

    # --- the queue ------------------------------------------------------------------------------

    def _listen(self) -> None:
        while not self._stopped.is_set():
            try:
                self._receive(wait=_LONG_POLL)
            except RowfallError as error:
                self._say(f"{error.message}; objects are found by listing alone meanwhile")
                self._stopped.wait(_AGAIN_SECONDS)

    def _receive(self, wait: int) -> None:
        """Put messages where the loop finds them; wait for the first of them.

        Raises:
            SourceError: the queue does not answer.
        """
        try:
            said = self._client().receive_message(
                QueueUrl=self._url, MaxNumberOfMessages=_MOST, WaitTimeSeconds=wait
            )
        except _failures() as error:
            raise _explained(self._url, error) from None
        for message in said.get("Messages", ()):
            names = names_in(message.get("Body", ""))
            if names is None:
                self._say(
                    f"a message in {self._url} is no event of S3, and stays there: "
                    f"{message.get('Body', '')[:100]}"
                )
                continue
            while not self._stopped.is_set():
                try:
                    self._came.put((message["ReceiptHandle"], names), timeout=1.0)
                    break
                except queue.Full:
                    continue  # a batch is being loaded

    def _client(self) -> Any:
        """Return a client with the keys of now."""
        access = self._access()
        keys, opened = access.keys(), self._opened
        if opened is None or opened[0] != keys:
            opened = self._opened = keys, _open_client(self._url, access, keys)
        return opened[1]

    def _say(self, text: str) -> None:
        if time.monotonic() - self._said >= _SAY_SECONDS:
            self._said = time.monotonic()
            self._emit(Note("warning", text))


def _open_client(url: str, access: Access, keys: Keys | None) -> Any:
    parts = urlsplit(url)
    found = _REGION.fullmatch(parts.hostname or "")
    region = next(filter(None, found.groups())) if found else access.region
    return open_service(
        "sqs", "--queue is read with botocore, which is not installed",
        (region, f"{parts.scheme}://{parts.netloc}"), keys,
        read_timeout=_TIMEOUT,
    )  # fmt: skip


def _explained(url: str, error: Exception) -> SourceError:
    from botocore.exceptions import ClientError

    text = str(error)
    if refused := isinstance(error, ClientError):
        text = error.response.get("Error", {}).get("Message") or text
    text = text.strip().rstrip(".")
    return SourceError(
        f"cannot read the queue {url}: {text[:1].lower()}{text[1:]}",
        hint=_RIGHTS,
        transient=not refused,
    )


def _failures() -> tuple[type[Exception], ...]:
    from botocore.exceptions import BotoCoreError, ClientError

    return BotoCoreError, ClientError


def names_in(body: str) -> list[str] | None:
    """Return the names of the objects that a message says were made; None for no event of S3.

    Events come as S3 sends them, through a topic of SNS, or through EventBridge.
    """
    try:
        said = json.loads(body)
        if said.get("Type") == "Notification":
            said = json.loads(said["Message"])
        if said.get("Event") == "s3:TestEvent":
            return []
        return list(_created(said))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _created(said: dict[str, Any]) -> Iterator[str]:
    if said.get("source") == "aws.s3":  # EventBridge, which gives keys as they are
        if said["detail-type"] == "Object Created":
            detail = said["detail"]
            yield f"s3://{detail['bucket']['name']}/{detail['object']['key']}"
        return
    for record in said["Records"]:
        event = record["eventName"].removeprefix("s3:")
        if event.startswith("ObjectCreated:"):
            about = record["s3"]
            yield f"s3://{about['bucket']['name']}/{unquote_plus(about['object']['key'])}"
