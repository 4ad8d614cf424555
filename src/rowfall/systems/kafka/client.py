"""The client of topics: addresses, properties, questions to brokers, and one loop that reads.

Partitions are assigned, never subscribed to: no reader is in a group, and nothing is committed.
No client lets brokers make a topic: one that they make has one partition and seven days.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, unquote

from rowfall.core import passwords, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError, TargetError, UsageError
from rowfall.core.masked import Secret, is_shown, redact
from rowfall.core.patterns import regex
from rowfall.core.units import parse_duration
from rowfall.systems.kafka.errors import (
    RIGHTS,
    KafkaErrorMeaning,
    ReadingError,
    meaning,
    missing_client,
    refused_property,
)

_URI = regex(r"kafka://(?:(?P<user>[^/?#]*)@)?(?P<hosts>[^/?#@]+)/(?P<topic>[^/?#]+)"
                  r"(?:\?(?P<query>.*))?", re.I)  # fmt: skip
_HINT = "Write kafka://host:9092/topic, or kafka://a:9092,b:9092/topic."
_PASSWORD = "KAFKA_SASL_PASSWORD"  # noqa: S105 - the name of a variable
_REGISTRY = "schema.registry."
SERVERS = "bootstrap.servers"

EARLIEST, LATEST = "earliest", "latest"
BEGINNING = -2  # OFFSET_BEGINNING of librdkafka
# Messages that come together from librdkafka; more make it no faster.
BATCH = 10_000
# Seconds of a question to brokers; one that starts needs some to know its leader.
ASK_SECONDS = 15.0
# Where one reader has waited for brokers in vain, the next ones only try whether they are back.
_TRY_SECONDS = 10.0
# Of small messages one partition gave 154,000 a second by librdkafka's defaults, and 1,350,000 with
# these: it stops at 100,000 messages that wait here, and then for a whole second; and in front of
# the end of a partition a request waits for half a second, and with it the next range. What is
# fetched ahead behind a range is thrown away: 2 MB took the least CPU, 16 MB a third more. Larger
# pieces are for brokers that are far away.
_FAST = {
    "queued.min.messages": 1_000_000, "queued.max.messages.kbytes": 2 << 10,
    "fetch.queue.backoff.ms": 5, "fetch.wait.max.ms": 20, "fetch.message.max.bytes": 4 << 20,
}  # fmt: skip
_READER: Mapping[str, object] = {
    "group.id": "rowfall", "enable.auto.commit": False, "auto.offset.reset": "error",
    "enable.partition.eof": True, "isolation.level": "read_committed",
    "enable.auto.offset.store": False, **_FAST,
    # Nobody is to be put out of a group because the engine is slow.
    "max.poll.interval.ms": 86_400_000,
}  # fmt: skip
# librdkafka unpacks all of an answer at once, and deflate makes up to 1,032 bytes of one: what one
# of several readers is sent may take a quarter of the memory. The queue alone would allow 2 MB.
_MOST_FETCHED, _LEAST_FETCHED, _SHARE = 2 << 20, 64 << 10, 4096


def fetched(memory: int) -> dict[str, object]:
    """Return the properties of readers that say how much brokers send at once.

    A batch that is larger comes all the same, alone.

    Args:
        memory: of the load, in bytes.
    """
    most = max(_LEAST_FETCHED, min(_MOST_FETCHED, memory // _SHARE))
    # librdkafka raises the limit of an answer to that of one message.
    return {"fetch.max.bytes": most, "message.max.bytes": most, "fetch.message.max.bytes": most}


# Properties that only producers know; librdkafka would warn of them elsewhere.
_OF_PRODUCERS = frozenset((
    "partitioner", "linger.ms", "batch.size", "batch.num.messages", "compression.type",
    "compression.codec", "compression.level", "acks", "request.required.acks",
    "message.timeout.ms", "queue.buffering.max.messages", "queue.buffering.max.kbytes",
    "message.max.bytes", "sticky.partitioning.linger.ms",
))  # fmt: skip


def _is_secret(name: str, value: str) -> bool:
    """Tell whether a property of librdkafka may hold a secret (``ssl.key.pem``, ...)."""
    return name != "sasl.username" and not is_shown(name, value, web=False)


@dataclass(frozen=True, slots=True)
class TopicAddress:
    """Parts of a URI of a topic.

    Attributes:
        properties: of librdkafka. ``registry``: of the schema registry, without their prefix.
    """

    topic: str
    properties: Mapping[str, str | Secret]
    registry: Mapping[str, str]


def parse(text: str) -> TopicAddress:
    """Read ``kafka://user@host:port[,host:port]/topic?property=value``.

    Raises:
        UsageError: no topic, or no host.
    """
    found = _URI.fullmatch(text)
    if found is None:
        raise UsageError(f"{uri.mask(text)!r} names no brokers and topic", hint=_HINT)
    given = dict(parse_qsl(found["query"] or "", keep_blank_values=True))
    registry = {k.removeprefix(_REGISTRY): v for k, v in given.items() if k.startswith(_REGISTRY)}
    config = {k: v for k, v in given.items() if not k.startswith(_REGISTRY)}
    config[SERVERS] = found["hosts"]
    user, colon, password = (found["user"] or "").partition(":")
    if user:
        config.setdefault("sasl.username", unquote(user))
        config.setdefault("security.protocol", "SASL_SSL")
        config.setdefault("sasl.mechanism", "PLAIN")
    known = None if colon else passwords.given(text)
    secret = unquote(password) if colon else known.reveal() if known else os.environ.get(_PASSWORD)
    if secret and "sasl.username" in config:
        config.setdefault("sasl.password", secret)
    return TopicAddress(unquote(found["topic"]), with_secrets(config), registry)


def with_secrets(properties: Mapping[str, str]) -> dict[str, str | Secret]:
    """Return properties with those as secrets that may hold one."""
    return {k: Secret(v) if _is_secret(k, v) else v for k, v in properties.items()}


def secrets_of(properties: Mapping[str, str | Secret]) -> tuple[Secret, ...]:
    """Return the secrets among properties."""
    return tuple(value for value in properties.values() if isinstance(value, Secret))


def revealed(properties: Mapping[str, str | Secret]) -> dict[str, str]:
    """Return properties as librdkafka takes them."""
    return {k: v.reveal() if isinstance(v, Secret) else v for k, v in properties.items()}


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as brokers describe it.

    Attributes:
        id: of this topic; one of its name that is made anew has another.
    """

    id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Direction:
    """What one direction says and needs.

    Attributes:
        error: class of its errors. ``does``: to a topic. ``needs``: rights to the topic, and
            ``needs_all`` for all questions; hints. ``fixed``: properties of its readers that no
            address changes. ``address``: the masked URI, for errors; "" for none.
    """

    error: type[SourceError] | type[TargetError]
    does: str
    needs: str
    needs_all: str
    fixed: Mapping[str, object]
    address: str = ""


class Client:
    """Asks the brokers of one address, and reads topics there.

    Args:
        properties: of librdkafka. ``secrets``: what else errors may not show. ``patience``: how
            long brokers may be away. ``memory``: of the load, see :func:`fetched`; 0 for no reader
            of rows.
    """

    def __init__(
        self, properties: Mapping[str, str | Secret], secrets: Sequence[Secret],
        patience: str, direction: Direction, memory: int = 0,
    ) -> None:  # fmt: skip
        self.servers = str(properties[SERVERS])
        self.patience = parse_duration(patience)
        self._properties, self._direction = properties, direction
        self._reading = {**_READER, **(fetched(memory) if memory else {})}
        self._secrets = (*secrets, *secrets_of(properties))
        self._said = ""  # the last error of librdkafka, which it tells from another thread
        self._silent = False
        self._guard = threading.Lock()
        self._idle: list[Any] = []

    def redacted(self, text: str) -> str:
        """Return foreign text without secrets."""
        return redact(text, *self._secrets)

    def reason(self) -> str:
        """Return the last message of librdkafka, in brackets behind a blank; "" for none."""
        return f" ({self._said})" if self._said else ""

    def _made(self, client: Callable[..., Any], more: Mapping[str, object]) -> Any:
        from confluent_kafka import KafkaException

        def said(error: Any) -> None:
            self._said = self.redacted(error.str())

        given = {k: v for k, v in revealed(self._properties).items() if k not in _OF_PRODUCERS}
        fixed = self._direction.fixed if more else {}
        own = {"allow.auto.create.topics": False, "log_level": 0, "error_cb": said}
        try:
            return client({**more, **given, **fixed, **own})
        except KafkaException as error:
            text = self.redacted(error.args[0].str())
            raise refused_property(text, self._direction.address) from None

    # --- questions --------------------------------------------------------------------------------

    @cached_property
    def admin(self) -> Any:
        """Return the admin client of confluent-kafka."""
        try:
            from confluent_kafka.admin import AdminClient
        except ImportError:
            raise missing_client() from None
        return self._made(AdminClient, {})

    @contextmanager
    def explained(self, what: str = "ask") -> Iterator[None]:
        """Enter a block that asks brokers: what they answer becomes an error of ours."""
        from concurrent.futures import TimeoutError as FutureTimeoutError

        admin = self.admin  # says what is missing
        from confluent_kafka import KafkaException

        try:
            yield
        except (KafkaException, FutureTimeoutError) as error:
            text = "no answer"
            if isinstance(error, KafkaException):
                text = error.args[0].str()
                if meaning(error.args[0].code()) in RIGHTS:
                    raise self._direction.error(
                        f"cannot {what} {self.servers}: this user may not",
                        hint=self._direction.needs_all,
                    ) from None
            admin.poll(0)  # gives what it has to say: a wrong password
            raise self._direction.error(
                f"cannot {what} {self.servers}: {self.redacted(text).lower()}{self.reason()}",
                hint="Check hosts, ports, and security.protocol (PLAINTEXT, SSL, SASL_SSL).",
                transient=True,
            ) from None

    def _answer(self, question: str, asked: Any) -> Any:
        """Return the answer to a question of the admin client about one thing."""
        (found,) = getattr(self.admin, question)(asked, request_timeout=ASK_SECONDS).values()
        return found.result(ASK_SECONDS)

    def describe(self, topic: str) -> TopicFacts | None:
        """Return id and partitions of a topic by the brokers; None where there is no such topic.

        Raises:
            SourceError, TargetError: they do not answer, or this user may not ask.
        """
        with self.explained():
            from confluent_kafka import KafkaException, TopicCollection

            try:
                found = self._answer("describe_topics", TopicCollection([topic]))
            except KafkaException as error:
                answer = meaning(error.args[0].code())
                if answer is KafkaErrorMeaning.NO_TOPIC:
                    return None
                what = f"cannot {self._direction.does} the topic {topic}"
                if answer is KafkaErrorMeaning.NO_RIGHT_TO_TOPIC:
                    raise self._direction.error(
                        f"{what}: this user may not", hint=self._direction.needs
                    ) from None
                if answer is KafkaErrorMeaning.BAD_NAME:
                    raise self._direction.error(
                        f"{what}: {error.args[0].str().lower()}",
                        hint="Names are letters, digits, '.', '_' and '-'.",
                    ) from None
                raise
        return TopicFacts(str(found.topic_id), tuple(sorted(p.id for p in found.partitions)))

    def cluster_id(self, topic: str) -> str:
        """Return the id of the cluster; a topic is named so that not all are listed."""
        with self.explained():
            return str(self.admin.list_topics(topic, timeout=ASK_SECONDS).cluster_id)

    def offsets(
        self, topic: str, partitions: Sequence[int], where: str | int = EARLIEST, *,
        behind_open: bool = False,
    ) -> dict[int, int]:  # fmt: skip
        """Return an offset of each partition: the first one, the end, or by time (ms).

        The end is where transactions are that are still open, unless ``behind_open``.
        """
        with self.explained():
            from confluent_kafka import IsolationLevel, TopicPartition
            from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # it lists no exports

            spec: Any = OffsetSpec
            known = {EARLIEST: spec.earliest, LATEST: spec.latest}
            wanted = known[where]() if isinstance(where, str) else spec.for_timestamp(where)
            level = IsolationLevel.READ_COMMITTED
            if behind_open:
                level = IsolationLevel.READ_UNCOMMITTED
            asked = self.admin.list_offsets(
                {TopicPartition(topic, p): wanted for p in partitions},
                isolation_level=level,
                request_timeout=ASK_SECONDS,
            )
            return {tp.partition: f.result(ASK_SECONDS).offset for tp, f in asked.items()}

    def committed(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """Return the offset that the consumer group has committed in each partition.

        Negative where it has committed none.
        """
        with self.explained(), self._reader() as reader:
            from confluent_kafka import TopicPartition

            asked = [TopicPartition(topic, p) for p in partitions]
            return {t.partition: t.offset for t in reader.committed(asked, timeout=ASK_SECONDS)}

    # --- topics -----------------------------------------------------------------------------------

    def make(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        """Make a topic, unless another process has made it meanwhile."""
        with self.explained(f"make the topic {topic} at"):
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined] # it lists no exports

            # -1: as many replicas as the brokers have by default.
            made = NewTopic(topic, partitions, -1, config=dict(config))
            try:
                self._answer("create_topics", [made])
            except KafkaException as error:
                if meaning(error.args[0].code()) is not KafkaErrorMeaning.EXISTS:
                    raise
        until = time.monotonic() + ASK_SECONDS
        while self.describe(topic) is None:  # brokers hear of it a little later
            if time.monotonic() > until:
                raise self._direction.error(
                    f"the brokers do not show the new topic {topic}", transient=True
                )
            time.sleep(0.05)

    def remove(self, topics: Sequence[str]) -> None:
        """Remove topics that exist, and wait until the brokers know none of them."""
        with self.explained(f"remove the topic {topics[0]} at"):
            from confluent_kafka import KafkaException

            for topic in topics:
                try:
                    self._answer("delete_topics", [topic])
                except KafkaException as error:
                    if meaning(error.args[0].code()) is not KafkaErrorMeaning.NO_TOPIC:
                        raise
        until = time.monotonic() + ASK_SECONDS
        while any(self.describe(topic) for topic in topics) and time.monotonic() < until:
            time.sleep(0.05)

    def config(self, topic: str) -> dict[str, str]:
        """Return the configuration of a topic."""
        with self.explained():
            from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined] # it lists no exports

            resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
            found = self._answer("describe_configs", [resource])
        return {name: str(entry.value) for name, entry in found.items()}

    def alter(self, topic: str, config: Mapping[str, str]) -> None:
        """Set some of the configuration of a topic."""
        with self.explained("alter a topic at"):
            from confluent_kafka.admin import (  # type: ignore[attr-defined] # it lists no exports
                AlterConfigOpType,
                ConfigEntry,
                ConfigResource,
            )

            entries = [
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in config.items()
            ]
            resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
            self._answer("incremental_alter_configs", [resource])

    # --- reading ----------------------------------------------------------------------------------

    def read(
        self, topic: str, starts: Mapping[int, int], stop: int | None = None
    ) -> Iterator[list[Any]]:
        """Give the messages of partitions from their offsets on, in batches.

        Args:
            starts: partition -> offset.
            stop: where the only partition ends; the last offsets may hold no message, as compaction
                leaves gaps, and transactions leave marks. None: read all to their ends.

        Raises:
            ReadingError: some are gone, this user may not, or the brokers do not answer.
        """
        from confluent_kafka import TopicPartition

        left, at = set(starts), min(starts.values(), default=0)
        if stop is not None and at >= stop:
            return
        with self._reader() as reader:
            reader.assign([TopicPartition(topic, p, offset) for p, offset in starts.items()])
            heard = time.monotonic()
            while left:
                # It waits for as many as it is asked for: no longer than a tenth of a second.
                found = reader.consume(BATCH if stop is None else min(BATCH, stop - at), 0.1)
                events = [message for message in found if message.error() is not None]
                if events:
                    found = [message for message in found if message.error() is None]
                if found:
                    self._silent = False
                    if stop is not None:
                        at = found[-1].offset() + 1
                        if at > stop:
                            found = [message for message in found if message.offset() < stop]
                    yield found
                    heard = time.monotonic()  # not before: who reads them may take its time
                for event in events:
                    if not self._is_end(event, min(left), at):
                        continue
                    if stop is None:
                        left.discard(event.partition())
                    else:
                        at = max(at, int(event.offset()))
                if stop is not None and at >= stop:
                    return
                patience = min(self.patience, _TRY_SECONDS) if self._silent else self.patience
                if time.monotonic() - heard > patience:
                    self._silent = True
                    raise ReadingError(KafkaErrorMeaning.AWAY, min(left), at, waited=patience)

    def _is_end(self, event: Any, partition: int, at: int) -> bool:
        """Tell whether a partition has ended; raise what cannot be waited for."""
        error = event.error()
        answer = meaning(error.code())
        if answer is KafkaErrorMeaning.END:
            return True
        self._said = self.redacted(error.str())
        if answer in (
            KafkaErrorMeaning.LOST,
            KafkaErrorMeaning.NO_TOPIC,
            KafkaErrorMeaning.NO_RIGHT_TO_TOPIC,
            KafkaErrorMeaning.BROKEN,  # librdkafka asks for the same messages for ever
        ):
            raise ReadingError(answer, partition, at, error=error)
        return False

    @contextmanager
    def _reader(self) -> Iterator[Any]:
        """Enter a consumer of nobody's group; it is kept for the next range."""
        from confluent_kafka import Consumer

        with self._guard:
            reader = self._idle.pop() if self._idle else None
        if reader is None:
            reader = self._made(Consumer, self._reading)
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        reader.unassign()
        with self._guard:
            self._idle.append(reader)

    def close(self) -> None:
        """Close what is kept."""
        with self._guard:
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.close()
