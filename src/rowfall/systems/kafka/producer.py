"""A producer of librdkafka, called in C through ctypes with whole batches.

The Python client makes objects of every message: a million taxi rows cost 1.7-2.7 CPU-seconds by
its ``produce_batch`` and 0.6-0.9 this way, where numpy fills the array of messages and the library
copies them while Python's lock is free.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, TargetError, UsageError
from rowfall.systems.kafka.client import Client
from rowfall.systems.kafka.errors import (
    CODES,
    RIGHTS,
    KafkaErrorMeaning,
    meaning,
    missing_client,
    refused_property,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PRODUCER, _COPY, _ANY_PARTITION = 0, 2, -1
# Messages that wait in the library: of rows of 100 bytes its buffers take 100 MB, so that they are
# full before the count is.
_QUEUE = {
    "queue.buffering.max.messages": "1000000", "queue.buffering.max.kbytes": str(128 << 10),
    # Batches as large as brokers take by default; rows are never few.
    "linger.ms": "20", "batch.size": "1000000", "batch.num.messages": "100000",
    "compression.type": "lz4",
    # As clients in Java choose a partition, so that a key stays in its own.
    "partitioner": "murmur2_random",
}  # fmt: skip
# While the queue is full, errors are heard this often, and Ctrl-C.
_POLL_MS = 50
# A transaction may wait for slow files; 15 minutes is the most that brokers allow by default.
_TRANSACTION_MS = 900_000
SHORT_MS = 60_000
"""For a transaction of what is at hand: nobody reads behind one whose process was killed."""
# The coordinator of a transaction answers within milliseconds; after a crash of a broker it is
# elected within seconds.
_STEP_SECONDS = 1.0


class FencedError(TargetError):
    """Another producer has taken over the transactional id."""


class AbortedError(TargetError):
    """The transaction cannot be committed any more."""


class ProducerTimeoutError(TargetError):
    """Nobody has said how a commit has ended."""


@dataclass(slots=True)
class TooLarge:
    """A message that is larger than the topic takes.

    Attributes:
        row: from 0, in the batch. ``size``: of key and value in bytes.
    """

    row: int
    size: int


class _Message(ctypes.Structure):
    """``rd_kafka_message_t``."""

    _fields_ = (
        ("err", ctypes.c_int), ("rkt", ctypes.c_void_p), ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p), ("len", ctypes.c_size_t), ("key", ctypes.c_void_p),
        ("key_len", ctypes.c_size_t), ("offset", ctypes.c_int64), ("private", ctypes.c_void_p),
    )  # fmt: skip


_ERROR_CALLBACK = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p
)
_REPORT_CALLBACK = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.POINTER(_Message), ctypes.c_void_p
)


@cache
def _library() -> ctypes.CDLL:
    """Return the librdkafka that the Python client has loaded.

    Raises:
        UsageError: there is none.
    """
    try:
        from confluent_kafka import cimpl
    except ImportError:
        raise missing_client() from None
    library = ctypes.CDLL(cimpl.__file__)  # symbols are looked up in what it is linked to
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    number, size = ctypes.c_int, ctypes.c_size_t
    signatures: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
        "conf_new": (pointer, ()),
        "conf_set": (number, (pointer, text, text, text, size)),
        "conf_set_error_cb": (None, (pointer, _ERROR_CALLBACK)),
        "conf_set_dr_msg_cb": (None, (pointer, _REPORT_CALLBACK)),
        "conf_destroy": (None, (pointer,)),
        "new": (pointer, (number, pointer, text, size)),
        "destroy": (None, (pointer,)),
        "topic_new": (pointer, (pointer, text, pointer)),
        "topic_destroy": (None, (pointer,)),
        "produce_batch": (number, (pointer, ctypes.c_int32, number, pointer, number)),
        "poll": (number, (pointer, number)),
        "flush": (number, (pointer, number)),
        "purge": (number, (pointer, number)),
        "fatal_error": (number, (pointer, text, size)),
        "err2str": (text, (number,)),
        "init_transactions": (pointer, (pointer, number)),
        "begin_transaction": (pointer, (pointer,)),
        "commit_transaction": (pointer, (pointer, number)),
        "abort_transaction": (pointer, (pointer, number)),
        "error_code": (number, (pointer,)),
        "error_string": (text, (pointer,)),
        "error_is_retriable": (number, (pointer,)),
        "error_txn_requires_abort": (number, (pointer,)),
        "error_destroy": (None, (pointer,)),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"rd_kafka_{name}", None)
        if function is None:
            raise UsageError(
                "this build of confluent-kafka hides librdkafka, which sends the rows",
                hint="Install confluent-kafka from its wheel, which brings the library.",
            )
        function.restype, function.argtypes = result, arguments
    return library


def _call(name: str, *given: Any) -> Any:
    return getattr(_library(), f"rd_kafka_{name}")(*given)


def messages(
    data: NDArray[np.uint8], starts: NDArray[Any], sizes: NDArray[Any],
    keys: tuple[NDArray[np.uint8], NDArray[Any], NDArray[Any]] | None = None,
) -> NDArray[Any]:  # fmt: skip
    """Return the array of messages over bytes, which have to stay until they are sent.

    Args:
        starts, sizes: of the values in ``data``.
        keys: data, starts and sizes; -1 for none.
    """
    import numpy as np

    fields = {name: getattr(_Message, name).offset for name, _ in _Message._fields_}
    layout = np.dtype({
        "names": list(fields), "offsets": list(fields.values()),
        "formats": ["i4", "u8", "i4", "u8", "u8", "u8", "u8", "i8", "u8"],
        "itemsize": ctypes.sizeof(_Message),
    })  # fmt: skip
    found = np.zeros(len(starts), layout)
    found["payload"], found["len"] = data.ctypes.data + starts, sizes
    if keys is not None:
        text, at, lengths = keys
        some = lengths >= 0
        # A pointer without bytes is an empty key; no pointer is none.
        found["key"], found["key_len"] = np.where(some, text.ctypes.data + at, 0), lengths * some
    return found


class Producer:
    """One connection that sends messages; one thread at a time.

    Args:
        config: properties of librdkafka. ``client``: of the same brokers.
        transactional: its id; "" without transactions. ``most_ms``: how long one may be open.

    Raises:
        UsageError: librdkafka refuses a property.
    """

    def __init__(
        self, config: Mapping[str, str], client: Client, transactional: str = "",
        most_ms: int = _TRANSACTION_MS,
    ) -> None:  # fmt: skip
        self._redacted, self._patience = client.redacted, client.patience
        self.said = ""
        self.stopped = False
        self._error = 0
        self._lost = 0
        self._topics: dict[str, Any] = {}
        given = {
            **_QUEUE,
            "message.timeout.ms": str(round(client.patience * 1000)),
            **config,
            "enable.idempotence": "true",
            # A topic that was deleted meanwhile stays away: brokers would make another one.
            "allow.auto.create.topics": "false",
            "delivery.report.only.error": "true",
            "log_level": "0",
        }
        if transactional:
            given |= {"transactional.id": transactional, "transaction.timeout.ms": str(most_ms)}
            # librdkafka refuses messages that may wait for longer than their transaction.
            if "message.timeout.ms" not in config:
                given["message.timeout.ms"] = str(min(round(client.patience * 1000), most_ms))
        text = ctypes.create_string_buffer(512)
        conf = _call("conf_new")
        for name, value in given.items():
            if _call("conf_set", conf, name.encode(), value.encode(), text, len(text)):
                _call("conf_destroy", conf)
                raise refused_property(self._redacted(text.value.decode()))
        # ctypes keeps no callback alive by itself.
        self._heard = _ERROR_CALLBACK(self._on_error)
        self._reported = _REPORT_CALLBACK(self._on_report)
        _call("conf_set_error_cb", conf, self._heard)
        _call("conf_set_dr_msg_cb", conf, self._reported)
        self._handle = _call("new", _PRODUCER, conf, text, len(text))
        if not self._handle:
            _call("conf_destroy", conf)
            raise refused_property(self._redacted(text.value.decode()))

    def _on_error(self, _handle: object, _code: int, text: bytes, _opaque: object) -> None:
        self.said = self._redacted(text.decode(errors="replace"))

    def _on_report(self, _handle: object, message: Any, _opaque: object) -> None:
        code = int(message.contents.err)
        if code:
            self._lost += 1
            # The first one is the cause; those behind it are taken along.
            if not self._error or meaning(self._error) is KafkaErrorMeaning.PURGED:
                self._error = code

    # --- messages ---------------------------------------------------------------------------------

    def send(self, topic: str, array: NDArray[Any]) -> TooLarge | None:
        """Hand messages to the library, which copies them; wait where its queue is full.

        Returns:
            The first message that is too large; those behind it may not be sent.

        Raises:
            TargetError: some message did not arrive.
        """
        import numpy as np

        handle = self._topics.get(topic)
        if handle is None:
            handle = self._topics[topic] = _call("topic_new", self._handle, topic.encode(), None)
        at, step = 0, array.dtype.itemsize
        while at < len(array):
            self._check()
            rest = len(array) - at
            begin = array.ctypes.data + at * step
            taken = _call("produce_batch", handle, _ANY_PARTITION, _COPY, begin, rest)
            if taken == rest:
                break
            # Where the queue is full all behind it are refused; another refusal is of one message.
            bad = np.flatnonzero(array["err"][at:])
            code = int(array["err"][at + bad[0]])
            answer = meaning(code)
            if answer is KafkaErrorMeaning.TOO_LARGE:
                row = at + int(bad[0])
                return TooLarge(row, int(array["len"][row] + array["key_len"][row]))
            if answer is not KafkaErrorMeaning.FULL:
                raise self._explained(code)
            at += int(bad[0])
            array["err"][at:] = 0
            _call("poll", self._handle, _POLL_MS)
        _call("poll", self._handle, 0)
        self._check()
        return None

    def send_few(self, topic: str, pairs: Sequence[tuple[str, str | bytes | None]]) -> None:
        """Send messages of a few keys and values; None for a tombstone.

        Raises:
            TargetError: some message did not arrive.
        """
        import numpy as np

        keys = [key.encode() for key, _ in pairs]
        values = [v if isinstance(v, bytes) else (v or "").encode() for _, v in pairs]
        data = np.frombuffer(b"".join(keys + values), np.uint8)
        sizes = np.array([len(part) for part in (*keys, *values)], np.int64)
        starts, count = np.cumsum(sizes) - sizes, len(pairs)
        array = messages(data, starts[count:], sizes[count:], (data, starts[:count], sizes[:count]))
        array["payload"][[value is None for _, value in pairs]] = 0
        if self.send(topic, array) is not None:
            raise self._explained(CODES["MSG_SIZE_TOO_LARGE"][0])

    def flush(self) -> None:
        """Wait until all messages are written.

        Raises:
            TargetError: some are not.
        """
        # Each message ends by itself after message.timeout.ms, at the latest.
        while _call("flush", self._handle, _POLL_MS):
            self._check()
        self._check()

    def _check(self) -> None:
        fatal = self._fatal()
        if fatal or self._error:
            raise self._explained(fatal or self._error)
        if self.stopped:
            raise AbortedError("sending was stopped", transient=True)

    def _fatal(self) -> int:
        text = ctypes.create_string_buffer(512)
        return int(_call("fatal_error", self._handle, text, len(text)))

    def _explained(self, code: int, text: str = "") -> RowfallError:
        text = text or _call("err2str", code).decode()
        why = f" ({self.said})" if self.said else ""
        if meaning(code) is KafkaErrorMeaning.FATAL:
            code = self._fatal() or code
        answer = meaning(code)
        if answer is KafkaErrorMeaning.FENCED:
            return FencedError(
                "another rowfall has begun to load into this topic, which ends this one",
                hint="Run the same command again when it has ended: what it has loaded is skipped.",
            )
        if answer in RIGHTS:
            return TargetError(
                f"the brokers refuse: {text}",
                hint="The user needs WRITE and DESCRIBE of the topic and of _rowfall_loaded, READ "
                "of the latter; with --transactional also WRITE of the transactional id.",
            )
        if answer is KafkaErrorMeaning.AWAY:
            return TargetError(
                f"cannot send: the brokers have been away for longer than "
                f"{self._patience:.0f} s{why}",
                hint="Run the same command again when they are back; --patience 10m waits longer.",
            )
        return TargetError(f"cannot send: {self._redacted(text)}{why}")

    # --- transactions -----------------------------------------------------------------------------

    def fence(self) -> None:
        """Take over the transactional id: what others have open under it is rolled back.

        Raises:
            TargetError: the brokers do not answer, or refuse it.
        """
        self._step("init_transactions", lambda left: (left,))

    def begin(self) -> None:
        """Begin a transaction."""
        self._error, self._lost = 0, 0
        self._step("begin_transaction", lambda _left: ())

    def commit(self) -> None:
        """Commit.

        Raises:
            FencedError: another one has taken over. AbortedError: it can only be rolled back.
            NoAnswerError: the brokers have not said how it has ended.
        """
        self._step("commit_transaction", lambda left: (left,), commits=True)

    def abort(self) -> None:
        """Roll back; a fenced producer has nothing to roll back."""
        _call("purge", self._handle, 3)  # in queue and in flight
        if not self._fatal():
            self._step("abort_transaction", lambda left: (left,))
        self._error, self._lost = 0, 0

    def _step(
        self, name: str, arguments: Callable[[int], tuple[int, ...]], *, commits: bool = False
    ) -> None:
        """Ask the coordinator, again while it says that it may answer later."""
        until = time.monotonic() + self._patience
        while True:
            error = _call(name, self._handle, *arguments(round(_STEP_SECONDS * 1000)))
            _call("poll", self._handle, 0)
            if not error:
                return
            code, text = _call("error_code", error), _call("error_string", error).decode()
            again = bool(_call("error_is_retriable", error))
            aborts = bool(_call("error_txn_requires_abort", error))
            _call("error_destroy", error)
            if again and time.monotonic() < until and not self.stopped:
                continue
            fatal = self._fatal()
            if KafkaErrorMeaning.FENCED in (meaning(fatal), meaning(code)):
                raise self._explained(fatal or code)
            if aborts:
                raise AbortedError(f"the transaction is rolled back: {self._redacted(text)}",
                                   transient=True)  # fmt: skip
            found = self._explained(fatal or code, text)
            raise ProducerTimeoutError(found.message, hint=found.hint) if commits else found

    def close(self) -> None:
        """End it; what waits is dropped. Safe to call twice."""
        handle, self._handle = self._handle, None
        if handle:
            _call("purge", handle, 3)
            _call("flush", handle, _POLL_MS)
            for topic in self._topics.values():
                _call("topic_destroy", topic)
            _call("destroy", handle)
