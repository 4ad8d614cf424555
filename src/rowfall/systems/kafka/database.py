"""Topics of Kafka as targets: one message for a row, and the record of what is loaded.

With ``--transactional`` the record (:mod:`rowfall.systems.kafka.record`) is in the transaction of
the split's rows, under one transactional id for each topic: whoever begins to load into it fences
those who loaded before, so what the record says after that stays true. Without, it follows its
rows, and a crash in between sends them again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rowfall.core import units
from rowfall.core.errors import RowfallError, TargetError, UsageError
from rowfall.core.options import Options
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import NETWORK_ERROR, ExistingTable
from rowfall.engines.database import (
    LEASE_SECONDS,
    RECORD,
    BusyError,
    PlainTransaction,
    RefusedRowError,
    Result,
    RolledBackError,
    SplitRecord,
    Transactions,
    UnknownEndError,
)
from rowfall.systems.kafka.client import (
    BEGINNING,
    LATEST,
    Client,
    Direction,
    TopicFacts,
    with_secrets,
)
from rowfall.systems.kafka.errors import ReadingError
from rowfall.systems.kafka.producer import (
    SHORT_MS,
    AbortedError,
    FencedError,
    Producer,
    ProducerTimeoutError,
    TooLarge,
    messages,
)
from rowfall.systems.kafka.record import MESSAGE_BYTES, MOST_MESSAGE, KafkaRecord, Message
from rowfall.systems.kafka.rows import keyed, lines
from rowfall.targets.transactional import RECORD_NAME

if TYPE_CHECKING:
    from rowfall.systems.kafka.rows import Batch

_SHOWN = 60
_TIMEOUTS = ("message.timeout.ms", "delivery.timeout.ms")  # one property with two names


def _direction(topic: str) -> Direction:
    return Direction(
        error=TargetError,
        does="write to",
        needs=f"It needs DESCRIBE and WRITE of it, and READ of {RECORD}.",
        needs_all=f"It needs DESCRIBE and WRITE of {topic} and {RECORD}, READ of the latter, and "
        "CREATE where one of them is missing.",
        # What is loaded is what is committed, whatever the address says of readers.
        fixed={
            "group.id": "rowfall", "enable.auto.commit": False, "enable.partition.eof": True,
            "isolation.level": "read_committed", "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
        },
    )  # fmt: skip


class KafkaDatabase(Transactions):
    """One topic; see :class:`rowfall.engines.database.Database`."""

    kind = "Kafka"

    def __init__(self, at: ServerAt, schema: str, table: str, options: Options) -> None:
        super().__init__()
        self.topic, self.options = table, options
        self._config = dict(at.options)
        self.format = self._config.pop("rowfall.format")
        own = self._config.pop(RECORD_NAME, "")
        self._scratch = bool(own)
        self.client = Client(with_secrets(self._config), (), options.patience, _direction(table))
        self.record = KafkaRecord(self.client, table, own or RECORD)
        self._guard = threading.RLock()
        self._limit = 0
        self._idle: list[Producer] = []
        self._single: Producer | None = None
        self.turn = threading.Lock()
        """Held by the open transaction: there is one at a time under one id."""

    # --- topics -----------------------------------------------------------------------------------

    def check(self, *, dry: bool) -> None:
        found = self.client.describe(self.topic)
        wanted = self.options.partitions
        if found is None and not wanted and not self._scratch:
            raise TargetError(
                f"the brokers have no topic {self.topic}",
                hint="Make it as you want it, or let this load make it with --partitions 4.",
            )
        if found is not None:
            self._check_partitions(found)
        self.record.topic_id = found.id if found is not None else ""

    def _check_partitions(self, found: TopicFacts) -> None:
        """Check that a topic has the partitions that were asked for; more are somebody's wish."""
        wanted, count = self.options.partitions or 0, len(found.partitions)
        if count < wanted:
            raise TargetError(
                f"the topic {self.topic} has {units.counted(count, 'partition')}, not {wanted}",
                hint="Leave --partitions out, or: kafka-topics.sh --bootstrap-server "
                f"{self.client.servers} --alter --topic {self.topic} --partitions {wanted}",
            )

    def existing_table(self) -> ExistingTable | None:
        """Return None: a topic has no columns."""
        return None

    def table_id(self) -> str:
        return self.record.topic_id

    def promise(self) -> str:
        """Return "": the target says it."""
        return ""

    def prepare(self, statements: Sequence[SqlText]) -> None:
        """Make topic and record where they are missing; the record has to keep what it is told."""
        if not self.record.topic_id:
            self.client.make(self.topic, self.options.partitions or 1, {})
            made = self.client.describe(self.topic)
            if made is not None:
                self._check_partitions(made)
                self.record.topic_id = made.id
        self.record.make()
        self.record.keep()
        self._read()
        if self.record.is_empty:
            self.accept()
        self.join_record()

    def make_like(self, table: str) -> None:
        like = self.client.describe(table)
        if like is not None:
            self.client.make(self.topic, len(like.partitions), {})
            self.check(dry=False)

    def erase(self) -> None:
        self.client.remove([self.topic, self.record.name])

    def limit(self) -> int:
        """Return the bytes of the largest message that the topic takes."""
        with self._guard:
            if not self._limit:
                self._limit = MESSAGE_BYTES
                with suppress(TargetError):  # not all users may ask
                    self._limit = int(self.client.config(self.topic)[MOST_MESSAGE])
            return self._limit

    # --- the record -------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read the record before something is sent.

        What lies behind the transaction of another topic is waited for. With transactions that has
        time until our own has begun, which ends what a killed load into this topic has left open.
        """
        self.record.refresh(0 if self.options.transactional else self.client.patience)

    def loaded(self) -> set[str]:
        if not self.record.topic_id:
            return set()
        self._read()
        return self.record.ids()

    def loaded_among(self, ids: Sequence[str]) -> set[str]:
        """See :meth:`rowfall.engines.database.IndexedRecord.loaded_among`."""
        if not self.record.topic_id:
            return set()
        self._read()
        return self.record.among(ids)

    def settled(self, attempt: str) -> bool:
        if not self.record.topic_id:
            return False
        if self.options.transactional and self.record.exists():
            with self._guard:
                self._renew()  # ends what is left of it, one way or the other
        self.record.refresh()
        return self.record.has(attempt)

    def forget(self, load_id: str) -> int:
        return self.forget_loads((load_id,))

    def forget_loads(self, loads: Collection[str]) -> int:
        """See :meth:`rowfall.engines.database.IndexedRecord.forget_loads`."""
        self.check(dry=True)
        if not self.record.topic_id:
            return 0
        self.record.refresh()
        gone = 0

        def change() -> list[Message]:
            nonlocal gone
            messages, gone = self.record.forgetting(loads)
            return messages

        if not change():
            return 0
        try:
            # Alone: who packs meanwhile would write that it is loaded behind what takes it out.
            self._change(change, self.client.patience)
        except (FencedError, ProducerTimeoutError):
            raise
        except TargetError as error:
            if error.transient or self.record.is_packed:
                raise
            self._send(change())  # which needs no right to transactions
        return gone

    def join_record(self) -> None:
        """Pack what is recorded one by one, where that is much and this user may."""
        self.record.refresh()
        if self.record.packing():
            # It is packed some other time, by somebody else.
            with suppress(TargetError):
                self._change(self.record.packing, LEASE_SECONDS)

    def prune_record(self, days: int) -> None:
        """See :meth:`rowfall.engines.database.IndexedRecord.prune_record`."""
        self.record.refresh()
        if messages := self.record.expired(days):
            self._send(messages)

    def _change(self, change: Callable[[], list[Message]], wait: float) -> None:
        """Change the record of what was loaded before, which one process does at a time.

        Args:
            change: gives the messages, from the record as it is when nobody else changes it.
            wait: seconds for the open transactions of others.

        Raises:
            TargetError: the brokers do not answer, or this user may not.
        """
        own = {k: v for k, v in self._config.items() if k not in _TIMEOUTS}  # of rows, maybe long
        config = {**own, "message.max.bytes": str(max(1000, self.record.most_bytes()))}
        id_ = f"rowfall-record-{self.record.topic_id}"
        producer = Producer(config, self.client, id_, SHORT_MS)
        try:
            producer.fence()
            self.record.refresh(wait)
            if messages := change():
                producer.begin()
                producer.send_few(self.record.name, messages)
                producer.commit()
        except RowfallError:
            # Nobody reads behind what is open.
            with suppress(RowfallError):
                producer.abort()
            raise
        finally:
            producer.close()
        self.record.refresh()

    def shown(self, declared: Sequence[str]) -> list[str]:
        """Return the same: a topic has no types."""
        return list(declared)

    def unrecorded(self) -> bool:
        """See :meth:`rowfall.engines.database.Database.unrecorded`.

        The first load into a topic leaves a mark of its own in the record, see :meth:`accept`: what
        a load has sent that was killed before it recorded anything is no question.
        """
        if not self.record.topic_id:
            return False
        topic = self.client.describe(self.topic)
        if topic is None or not self._holds_messages(topic):
            return False
        self.record.refresh()
        return self.record.is_empty or self.record.has_expired()

    def _holds_messages(self, topic: TopicFacts) -> bool:
        """Return True where readers of committed messages find one."""
        # "beginning": offsets below it were deleted.
        starts = dict.fromkeys(topic.partitions, BEGINNING)
        try:
            return any(True for _ in self.client.read(self.topic, starts))
        except ReadingError:
            return False  # WRITE is enough to load, and does not let us look

    def accept(self) -> None:
        self.record.make()
        self._send(self.record.acceptance())

    def _send(self, messages: Sequence[Message]) -> None:
        """Send messages of the record, and wait for them."""
        producer = self.take()
        producer.send_few(self.record.name, messages)
        producer.flush()
        self.leave(producer, clean=True)
        self.record.learn(messages)

    def count(self) -> int:
        """Return the messages of the topic by its offsets; ends of transactions count as some."""
        topic = self.client.describe(self.topic)
        if topic is None:
            return 0
        ends = self.client.offsets(self.topic, topic.partitions, LATEST)
        begins = self.client.offsets(self.topic, topic.partitions)
        return sum(ends[p] - begins[p] for p in topic.partitions)

    def result(self, query: str, *, write: bool) -> Result | None:
        """Refuse: a topic has no tables."""
        servers = self.client.servers
        raise UsageError(
            f"the topic {self.topic} has no tables to query",
            hint=f"Read it into one: rowfall load 'kafka://{servers}/{self.topic}' --table t",
        )

    # --- producers --------------------------------------------------------------------------------

    def take(self) -> Producer:
        """Return a producer without transactions."""
        with self._guard:
            if self._idle:
                return self._idle.pop()
        return self._producer("")

    def _producer(self, transactional: str) -> Producer:
        largest = {"message.max.bytes": str(max(1000, self.limit()))}
        return Producer({**largest, **self._config}, self.client, transactional)

    def leave(self, producer: Producer, *, clean: bool) -> None:
        """Give a producer back; one that has failed is ended."""
        if not clean:
            producer.close()
            return
        with self._guard:
            self._idle.append(producer)

    def single(self) -> Producer:
        """Return the producer of transactions; the first time it fences all others of the topic."""
        with self._guard:
            return self._single or self._renew()

    def _renew(self) -> Producer:
        self.drop()
        made = self._producer(f"rowfall-{self.record.topic_id}")
        try:
            made.fence()
            # Nobody adds to it from here on without fencing this one; what was added is read whole.
            self.record.refresh(self.client.patience)
        except RowfallError:
            made.close()
            raise
        self._single = made
        return made

    def drop(self) -> None:
        """End the producer of transactions."""
        with self._guard:
            found, self._single = self._single, None
        if found is not None:
            found.close()

    def _begin(self) -> KafkaTransaction:
        return KafkaTransaction(self)

    def close(self) -> None:
        self.drop()
        with self._guard:
            idle, self._idle = self._idle, []
        for producer in idle:
            producer.close()
        self.client.close()


class KafkaTransaction(PlainTransaction):
    """The rows of one attempt; see :class:`rowfall.engines.database.Transaction`."""

    def __init__(self, kafka: KafkaDatabase) -> None:
        self._kafka = kafka
        self._producer: Producer | None = None
        self._transactional = bool(kafka.options.transactional)
        self._records: Sequence[SplitRecord] = ()
        self._attempt, self._load = "", ""
        self._turn = self._open = False

    def lease(self, attempt: str, load: str, records: Sequence[SplitRecord]) -> frozenset[str]:
        kafka = self._kafka
        self._attempt, self._load, self._records = attempt, load, records
        if not self._transactional:
            self._producer = self._producer or kafka.take()
            return frozenset()
        if not self._turn:
            self._turn = kafka.turn.acquire(timeout=LEASE_SECONDS)
            if not self._turn:
                raise BusyError("another attempt has its transaction open", transient=True)
        self._producer = kafka.single()
        found = frozenset(kafka.record.among([one.id for one in records]))
        if not found:
            self._producer.begin()
            self._open = True
        return found

    def write(self, columns: Sequence[str], rows: Iterator[bytes]) -> int:
        kafka, producer = self._kafka, self._sender()
        quoted = kafka.format == "CSV"
        by_rows = kafka.options.key or kafka.format == "Avro"
        batches = keyed(rows) if by_rows else lines(rows, quoted=quoted)
        sent = 0
        for batch in batches:
            data, starts, sizes, keys = batch
            large = producer.send(kafka.topic, messages(data, starts, sizes, keys))
            if large is not None:
                raise self._too_large(large, batch, sent)
            sent += len(starts)
        producer.flush()
        return sent

    def _too_large(self, large: TooLarge, batch: Batch, before: int) -> RefusedRowError:
        data, starts, _, _ = batch
        start = int(starts[large.row])
        shown = bytes(data[start : start + _SHOWN]).decode(errors="replace")
        error = RefusedRowError(
            f"{self._kafka.topic} takes no message of {large.size:,} bytes "
            f"({MOST_MESSAGE} is {self._kafka.limit():,}): {shown}...",
            uri="",
            hint=f"Raise {MOST_MESSAGE} of the topic, or leave the row out with --where.",
        )
        error.row = before + large.row + 1
        return error

    def finish(self, rows: int) -> int:
        """Send the record of the splits, behind all rows."""
        kafka, producer = self._kafka, self._sender()
        producer.send_few(
            kafka.record.name, kafka.record.loaded(self._records, self._attempt, self._load, rows)
        )
        producer.flush()
        return rows

    def commit(self) -> None:
        kafka, producer = self._kafka, self._sender()
        if not self._transactional:
            self._producer = None
            kafka.leave(producer, clean=True)
            return
        try:
            producer.commit()
        except ProducerTimeoutError as error:
            self._open = False
            kafka.drop()
            raise UnknownEndError(error.message, transient=True, code=NETWORK_ERROR) from None
        except AbortedError as error:
            raise RolledBackError(error.message, transient=True) from None
        self._open = False
        self.release()

    def release(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None and not self._transactional:
            self._kafka.leave(producer, clean=False)
        if self._open and producer is not None:
            self._open = False
            producer.stopped = False
            try:
                producer.abort()
            except RowfallError:
                self._kafka.drop()  # the next one ends it by taking over its id
        if self._turn:
            self._turn = False
            self._kafka.turn.release()

    def cancel(self) -> None:
        if self._producer is not None:
            self._producer.stopped = True

    def _sender(self) -> Producer:
        assert self._producer is not None  # noqa: S101 - the lease comes first
        return self._producer
