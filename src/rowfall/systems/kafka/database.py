"""Topics of Kafka as targets: one message for a row, and the record of what is loaded.

The record is a compacted topic, :data:`RECORD`: one message for each split that is loaded, its key
the id of the target topic and that of the split. It never expires: brokers that make topics by
themselves would give it seven days, so no client of a load lets them.

With ``--transactional`` it is in the transaction of the split's rows, under one transactional id
for each topic: whoever begins to load into it fences those who loaded before, so what the record
says after that stays true. Without, it follows its rows, and a crash in between sends them again.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, TargetError, UsageError
from rowfall.core.listing import MARK
from rowfall.core.masked import Secret, redact
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.core.units import parse_duration
from rowfall.engines.base import ExistingTable
from rowfall.engines.codes import NETWORK_ERROR
from rowfall.engines.database import (
    ACCEPTED,
    LEASE_SECONDS,
    RECORD,
    BusyError,
    Record,
    RefusedRowError,
    Result,
    RolledBackError,
    Transactions,
    UnknownEndError,
)
from rowfall.systems.kafka import client
from rowfall.systems.kafka.producer import (
    AbortedError,
    NoAnswerError,
    Producer,
    TooLarge,
    messages,
)
from rowfall.systems.kafka.rows import keyed, lines

if TYPE_CHECKING:
    from rowfall.systems.kafka.rows import Batch

# Questions to brokers; one that starts needs some seconds to know its leader.
_ASK_SECONDS = 15.0
_RECORDS_AT_ONCE = 10_000
_MOST_NAME = 500
# What brokers take where the topic does not say; librdkafka adds its own head to a batch.
_MOST_MESSAGE = "max.message.bytes"
_HEAD = 512
_SHOWN = 60
_BEGINNING = -2  # OFFSET_BEGINNING of librdkafka
# Brokers make a topic that somebody asks for, with one partition and seven days of retention, where
# the client lets them: librdkafka lets them for producers and admins.
_MAKES_NO_TOPIC: Mapping[str, object] = {"allow.auto.create.topics": False}
# The record: the newest message of each key, for ever.
_KEPT = {"cleanup.policy": "compact", "retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic as brokers describe it.

    Attributes:
        id: of this topic; one of its name that is made anew has another.
    """

    id: str
    partitions: tuple[int, ...]


class Kafka(Transactions):
    """One topic; see :class:`rowfall.engines.database.Database`."""

    kind = "Kafka"

    def __init__(
        self, host: str, port: int, user: str, password: Secret | None,
        settings: Mapping[str, str], schema: str, table: str, options: Options,
    ) -> None:  # fmt: skip
        super().__init__()
        self.topic, self.options = table, options
        self._config = dict(settings)
        self.format = self._config.pop("rowfall.format")
        self._hidden = tuple(Secret(v) for k, v in settings.items() if client.is_secret(k, v))
        self.patience = parse_duration(options.patience)
        self._said = ""
        self._guard = threading.RLock()
        self._id = ""
        self._limit = 0
        self._idle: list[Producer] = []
        self._single: Producer | None = None
        self.turn = threading.Lock()
        """Held by the open transaction: there is one at a time under one id."""
        self._known: dict[str, dict[str, Any]] = {}
        # The mark of the first load into this topic; None where there is none.
        self._accepted: dict[str, Any] | None = None
        # Partition of the record -> the offset that it was read to.
        self._read_to: dict[int, int] = {}
        self._client: Any = None

    # --- clients ----------------------------------------------------------------------------------

    def redacted(self, text: str) -> str:
        """Return foreign text without secrets."""
        return redact(text, *self._hidden)

    def _admin(self) -> Any:
        if self._client is None:
            try:
                from confluent_kafka.admin import AdminClient
            except ImportError:
                raise UsageError(
                    "kafka:// needs the client of Kafka", hint="pip install 'rowfall[kafka]'"
                ) from None
            self._client = self._made(AdminClient, {})
        return self._client

    def _made(self, client: Callable[..., Any], more: Mapping[str, object]) -> Any:
        from confluent_kafka import KafkaException

        def said(error: Any) -> None:
            self._said = self.redacted(error.str())

        own = {k: v for k, v in self._config.items() if k not in _OF_PRODUCERS}
        try:
            return client({**own, **more, **_MAKES_NO_TOPIC, "log_level": 0, "error_cb": said})
        except KafkaException as error:
            raise UsageError(
                f"librdkafka refuses a property: {self.redacted(error.args[0].str())}",
                hint="Properties: https://github.com/confluentinc/librdkafka/blob/master/"
                "CONFIGURATION.md",
            ) from None

    @contextmanager
    def _explained(self, what: str = "ask") -> Iterator[None]:
        """Enter a block that asks brokers: what they answer becomes an error of ours."""
        from concurrent.futures import TimeoutError as FutureTimeoutError

        from confluent_kafka import KafkaException

        try:
            yield
        except (KafkaException, FutureTimeoutError) as error:
            known = isinstance(error, KafkaException)
            text = error.args[0].str() if known else "no answer"
            if known and "AUTHORIZATION" in error.args[0].name():
                raise TargetError(
                    f"cannot {what} {self._config['bootstrap.servers']}: this user may not",
                    hint=f"It needs DESCRIBE and WRITE of {self.topic} and {RECORD}, READ of the "
                    "latter, and CREATE where one of them is missing.",
                ) from None
            self._admin().poll(0)  # gives what it has to say: a wrong password
            why = f" ({self._said})" if self._said else ""
            raise TargetError(
                f"cannot {what} {self._config['bootstrap.servers']}: "
                f"{self.redacted(text).lower()}{why}",
                hint="Check hosts, ports, and security.protocol (PLAINTEXT, SSL, SASL_SSL).",
                transient=True,
            ) from None

    # --- topics -----------------------------------------------------------------------------------

    def _described(self, topic: str) -> _Topic | None:
        """Return what the brokers know of a topic; None where there is none.

        Raises:
            TargetError: they do not answer, or this user may not ask.
        """
        admin = self._admin()
        from confluent_kafka import KafkaException, TopicCollection

        with self._explained():
            asked = admin.describe_topics(TopicCollection([topic]), request_timeout=_ASK_SECONDS)
            try:
                found = asked[topic].result(_ASK_SECONDS)
            except KafkaException as error:
                name = error.args[0].name()
                if name == "UNKNOWN_TOPIC_OR_PART":
                    return None
                if name == "TOPIC_AUTHORIZATION_FAILED":
                    raise TargetError(
                        f"cannot write to the topic {topic}: this user may not",
                        hint=f"It needs DESCRIBE and WRITE of it, and READ of {RECORD}.",
                    ) from None
                if name.startswith("INVALID_TOPIC") or name == "TOPIC_EXCEPTION":
                    raise TargetError(
                        f"cannot write to the topic {topic}: {error.args[0].str().lower()}",
                        hint="Names are letters, digits, '.', '_' and '-'.",
                    ) from None
                raise
        return _Topic(str(found.topic_id), tuple(sorted(p.id for p in found.partitions)))

    def _make(self, topic: str, partitions: int, **config: str) -> None:
        """Make a topic; harmless where another process has made it meanwhile."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined] # it lists no exports

        # -1: as many replicas as the brokers have by default.
        made = NewTopic(topic, partitions, -1, config=config)
        with self._explained(f"make the topic {topic} at"):
            asked = self._admin().create_topics([made], request_timeout=_ASK_SECONDS)
            try:
                asked[topic].result(_ASK_SECONDS)
            except KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise
        until = time.monotonic() + _ASK_SECONDS
        while self._described(topic) is None:  # brokers hear of it a little later
            if time.monotonic() > until:
                raise TargetError(f"the brokers do not show the new topic {topic}", transient=True)
            time.sleep(0.05)

    def check(self, *, dry: bool) -> None:
        """See :class:`rowfall.engines.database.Database`."""
        found = self._described(self.topic)
        wanted = self.options.partitions
        if found is None and not wanted:
            raise TargetError(
                f"the brokers have no topic {self.topic}",
                hint="Make it as you want it, or let this load make it with --partitions 4.",
            )
        if found is not None:
            self._check_partitions(found)
        self._id = found.id if found is not None else ""

    def _check_partitions(self, found: _Topic) -> None:
        """Check that a topic has the partitions that were asked for; more are somebody's wish."""
        wanted, count = self.options.partitions or 0, len(found.partitions)
        if count < wanted:
            raise TargetError(
                f"the topic {self.topic} has {units.counted(count, 'partition')}, not {wanted}",
                hint="Leave --partitions out, or: kafka-topics.sh --bootstrap-server "
                f"{self._config['bootstrap.servers']} --alter --topic {self.topic} "
                f"--partitions {wanted}",
            )

    def existing_table(self) -> ExistingTable | None:
        """Return None: a topic has no columns."""
        return None

    def table_id(self) -> str:
        """See :class:`rowfall.engines.database.Database`."""
        return self._id

    def promise(self) -> str:
        """Return "": the target says it."""
        return ""

    def prepare(self, statements: Sequence[SqlText]) -> None:
        """Make topic and record where they are missing; the record has to keep what it is told."""
        if not self._id:
            self._make(self.topic, self.options.partitions or 1)
            made = self._described(self.topic)
            if made is not None:
                self._check_partitions(made)
                self._id = made.id
        if self._described(RECORD) is None:
            self._make(RECORD, 1, **_KEPT)
        self._keep_record()
        self.refresh()
        if self._accepted is None and not self._known:
            self.accept()

    def _keep_record(self) -> None:
        """Let the record keep its messages for ever: one that brokers have made has seven days.

        Raises:
            TargetError: it would expire, and this user may not alter it.
        """
        from confluent_kafka.admin import (  # type: ignore[attr-defined] # it lists no exports
            AlterConfigOpType,
            ConfigEntry,
            ConfigResource,
        )

        def topic(**more: Any) -> Any:
            return ConfigResource(ConfigResource.Type.TOPIC, RECORD, **more)

        try:
            with self._explained():
                asked = self._admin().describe_configs([topic()], request_timeout=_ASK_SECONDS)
                found = asked[topic()].result(_ASK_SECONDS)
        except TargetError as error:
            if error.transient:
                raise
            return  # it may not be asked; who made it has to know
        policy = str(found["cleanup.policy"].value)
        if policy == _KEPT["cleanup.policy"]:
            return
        wanted = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in _KEPT.items()
        ]
        try:
            with self._explained("alter a topic at"):
                asked = self._admin().incremental_alter_configs(
                    [topic(incremental_configs=wanted)], request_timeout=_ASK_SECONDS
                )
                asked[topic()].result(_ASK_SECONDS)
        except TargetError as error:
            if error.transient:
                raise
            kept = ",".join(f"{name}={value}" for name, value in _KEPT.items())
            raise TargetError(
                f"the topic {RECORD} forgets what is loaded: its cleanup.policy is {policy}, and "
                "this user may not alter it",
                hint=f"kafka-configs.sh --bootstrap-server {self._config['bootstrap.servers']} "
                f"--entity-type topics --entity-name {RECORD} --alter --add-config {kept}",
            ) from None

    def limit(self) -> int:
        """Return the bytes of the largest message that the topic takes."""
        with self._guard:
            if not self._limit:
                from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined] # it lists no exports

                resource = ConfigResource(ConfigResource.Type.TOPIC, self.topic)
                self._limit = 1_000_000
                with suppress(TargetError), self._explained():  # not all users may ask
                    asked = self._admin().describe_configs([resource], request_timeout=_ASK_SECONDS)
                    entry = asked[resource].result(_ASK_SECONDS)[_MOST_MESSAGE]
                    self._limit = int(entry.value)
            return self._limit

    # --- the record -------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read what has come to the record since the last time."""
        with self._guard:
            self._refresh()

    def _refresh(self) -> None:
        from confluent_kafka import Consumer, TopicPartition

        record = self._described(RECORD)
        if record is None:
            return
        reader = self._made(Consumer, {
            "group.id": "rowfall", "enable.auto.commit": False, "enable.partition.eof": True,
            "isolation.level": "read_committed", "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest", "fetch.wait.max.ms": 20,
        })  # fmt: skip
        try:
            # One that brokers have made has as many partitions as they give by default.
            left = set(record.partitions)
            reader.assign([TopicPartition(RECORD, p, self._read_to.get(p, 0)) for p in left])
            heard = time.monotonic()
            while left:
                found = reader.consume(_RECORDS_AT_ONCE, 0.1)
                for message in found:
                    error = message.error()
                    if error is None:
                        self._learn(message.key(), message.value())
                        self._read_to[message.partition()] = message.offset() + 1
                    elif error.name() == "_PARTITION_EOF":
                        left.discard(message.partition())
                    elif error.name() == "TOPIC_AUTHORIZATION_FAILED":
                        raise TargetError(
                            f"cannot read the topic {RECORD}: this user may not",
                            hint="It needs READ of it: it says what is loaded.",
                        )
                    else:
                        self._said = self.redacted(error.str())
                if found:
                    heard = time.monotonic()
                if time.monotonic() - heard > self.patience:
                    why = f" ({self._said})" if self._said else ""
                    raise TargetError(
                        f"cannot read {RECORD}: the brokers do not answer{why}",
                        hint="Run the same command again when they are back.",
                        transient=True,
                    )
        finally:
            reader.close()

    def _learn(self, key: bytes | None, value: bytes | None) -> None:
        topic, _, split = (key or b"").decode().rpartition("/")
        if topic != self._id:
            return
        if split == ACCEPTED:
            self._accepted = json.loads(value) if value is not None else None
        elif value is None:
            self._known.pop(split, None)
        else:
            self._known[split] = json.loads(value)

    def landed(self) -> set[str]:
        """See :class:`rowfall.engines.database.Database`."""
        if not self._id:
            return set()
        self.refresh()
        marks = {f"{MARK}{found['whole']}" for found in self._known.values() if found["whole"]}
        return set(self._known) | marks

    def known(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the record as it was read last: split -> what it says."""
        return self._known

    def settled(self, attempt: str) -> bool:
        """See :class:`rowfall.engines.database.Database`."""
        if not self._id:
            return False
        if self.options.transactional and self._described(RECORD) is not None:
            with self._guard:
                self._renew()  # ends what is left of it, one way or the other
        self.refresh()
        return any(found["attempt"] == attempt for found in self._known.values())

    def forget(self, load_id: str) -> int:
        """See :class:`rowfall.engines.database.Database`."""
        self.check(dry=True)
        self.landed()
        gone = [split for split, found in self._known.items() if found["load"] == load_id]
        if gone:
            producer = self.take()
            producer.send_few(RECORD, [(f"{self._id}/{split}", None) for split in gone])
            producer.flush()
            self.leave(producer, clean=True)
        return len(gone)

    def shown(self, declared: Sequence[str]) -> list[str]:
        """Return the same: a topic has no types."""
        return list(declared)

    def unrecorded(self) -> bool:
        """See :meth:`rowfall.engines.database.Database.unrecorded`.

        The first load into a topic leaves a mark of its own in the record, see :meth:`accept`: what
        a load has sent that was killed before it recorded anything is no question.
        """
        if not self._id:
            return False
        topic = self._described(self.topic)
        if topic is None or not self._holds_messages(topic):
            return False
        self.refresh()
        started = dict((self._accepted or {}).get("start", {}))
        # Offsets before the first one have expired, and with them what was loaded.
        expired = any(
            first > int(started.get(str(partition), 0))
            for partition, first in self._record_starts().items()
        )
        return expired or (self._accepted is None and not self._known)

    def _holds_messages(self, topic: _Topic) -> bool:
        """Return True where readers of committed messages find one."""
        from confluent_kafka import Consumer, TopicPartition

        reader = self._made(Consumer, {
            "group.id": "rowfall", "enable.auto.commit": False, "enable.partition.eof": True,
            "isolation.level": "read_committed", "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
        })  # fmt: skip
        try:
            left, until = set(topic.partitions), time.monotonic() + self.patience
            # "beginning": offsets below it were deleted.
            reader.assign([TopicPartition(self.topic, p, _BEGINNING) for p in left])
            while left and time.monotonic() < until:
                for message in reader.consume(len(left) + 1, 0.1):
                    error = message.error()
                    if error is None:
                        return True
                    if error.name() == "_PARTITION_EOF":
                        left.discard(message.partition())
                    elif error.name() == "TOPIC_AUTHORIZATION_FAILED":
                        return False  # WRITE is enough to load, and does not let us look
            return False
        finally:
            reader.close()

    def _record_starts(self) -> dict[int, int]:
        """Return the first offset that each partition of the record still has."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # it lists no exports

        record = self._described(RECORD)
        if record is None:
            return {}
        spec: Any = OffsetSpec
        with self._explained():
            asked = self._admin().list_offsets(
                {TopicPartition(RECORD, p): spec.earliest() for p in record.partitions},
                request_timeout=_ASK_SECONDS,
            )
            return {tp.partition: f.result(_ASK_SECONDS).offset for tp, f in asked.items()}

    def accept(self) -> None:
        """See :meth:`rowfall.engines.database.Database.accept`."""
        if self._described(RECORD) is None:
            self._make(RECORD, 1, **_KEPT)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        start = {str(partition): first for partition, first in self._record_starts().items()}
        mark = {"topic": self.topic, "start": start, "at": now}
        producer = self.take()
        producer.send_few(RECORD, [(f"{self._id}/{ACCEPTED}", json.dumps(mark))])
        producer.flush()
        self.leave(producer, clean=True)
        self._accepted = mark

    def count(self) -> int:
        """Return the rows that the record knows."""
        self.refresh()
        attempts = {found["attempt"]: int(found["rows"]) for found in self._known.values()}
        return sum(attempts.values())

    def result(self, query: str, *, write: bool) -> Result | None:
        """Refuse: a topic has no tables."""
        servers = self._config["bootstrap.servers"]
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
        return Producer({**largest, **self._config}, self.patience, self.redacted, transactional)

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
        made = self._producer(f"rowfall-{self._id}")
        try:
            made.fence()
        except RowfallError:
            made.close()
            raise
        self._single = made
        # Nobody adds to it from here on without fencing this one.
        self._refresh()
        return made

    def drop(self) -> None:
        """End the producer of transactions."""
        with self._guard:
            found, self._single = self._single, None
        if found is not None:
            found.close()

    def _begin(self) -> Sending:
        return Sending(self)

    def close(self) -> None:
        """See :class:`rowfall.engines.database.Database`."""
        self.drop()
        with self._guard:
            idle, self._idle = self._idle, []
        for producer in idle:
            producer.close()

    def record(
        self, records: Sequence[Record], attempt: str, load: str, rows: int
    ) -> list[tuple[str, str | None]]:
        """Return the messages that say that splits are loaded."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return [
            (f"{self._id}/{one.id}", json.dumps({
                "topic": self.topic, "attempt": attempt, "load": load,
                "name": one.name[:_MOST_NAME], "whole": one.whole, "rows": rows, "at": now,
            }))
            for one in records
        ]  # fmt: skip


# Properties that only producers know; librdkafka would warn of them elsewhere.
_OF_PRODUCERS = frozenset((
    "partitioner", "linger.ms", "batch.size", "batch.num.messages", "compression.type",
    "compression.codec", "compression.level", "acks", "request.required.acks",
    "message.timeout.ms", "queue.buffering.max.messages", "queue.buffering.max.kbytes",
    "message.max.bytes", "sticky.partitioning.linger.ms",
))  # fmt: skip


class Sending:
    """The rows of one attempt; see :class:`rowfall.engines.database.Transaction`."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._producer: Producer | None = None
        self._transactional = bool(kafka.options.transactional)
        self._records: Sequence[Record] = ()
        self._attempt, self._load = "", ""
        self._turn = self._open = False

    def lease(self, attempt: str, load: str, records: Sequence[Record]) -> frozenset[str]:
        """See :meth:`rowfall.engines.database.Transaction.lease`."""
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
        known = kafka.known()
        found = frozenset(one.id for one in records if one.id in known)
        if not found:
            self._producer.begin()
            self._open = True
        return found

    def write(self, columns: Sequence[str], rows: Iterator[bytes]) -> int:
        """See :meth:`rowfall.engines.database.Transaction.write`."""
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
            f"({_MOST_MESSAGE} is {self._kafka.limit():,}): {shown}...",
            uri="",
            hint=f"Raise {_MOST_MESSAGE} of the topic, or leave the row out with --where.",
        )
        error.row = before + large.row + 1
        return error

    def finish(self, rows: int) -> int:
        """Send the record of the splits, behind all rows."""
        kafka, producer = self._kafka, self._sender()
        producer.send_few(RECORD, kafka.record(self._records, self._attempt, self._load, rows))
        producer.flush()
        return rows

    def commit(self) -> None:
        """See :meth:`rowfall.engines.database.Transaction.commit`."""
        kafka, producer = self._kafka, self._sender()
        if not self._transactional:
            self._producer = None
            kafka.leave(producer, clean=True)
            return
        try:
            producer.commit()
        except NoAnswerError as error:
            self._open = False
            kafka.drop()
            raise UnknownEndError(error.message, transient=True, code=NETWORK_ERROR) from None
        except AbortedError as error:
            raise RolledBackError(error.message, transient=True) from None
        self._open = False
        self.release()

    def release(self) -> None:
        """See :meth:`rowfall.engines.database.Transaction.release`."""
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
        """See :meth:`rowfall.engines.database.Transaction.cancel`."""
        if self._producer is not None:
            self._producer.stopped = True

    def _sender(self) -> Producer:
        assert self._producer is not None  # noqa: S101 - the lease comes first
        return self._producer
