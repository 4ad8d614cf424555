"""Topics of Kafka: ``kafka://host:port[,host:port]/topic``. A split is a range of offsets.

The offsets that are loaded are kept with the rows (ledger, journal), never in a consumer group:
partitions are assigned, not subscribed to, so no other consumer takes one away. Transactions that
were aborted are not read.

A message holds one row or several, with or without a last line end. One without a value (a
tombstone) or of no bytes brings no row.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from rowfall.core import formats, sql, uri
from rowfall.core.errors import DataError, RowfallError, SourceError, SourceGoneError, UsageError
from rowfall.core.listing import Listing, Split, joined
from rowfall.core.machine import total_memory
from rowfall.core.model import Encoding, Schema
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.core.units import duration, parse_size
from rowfall.decoder import rewriting
from rowfall.sources.base import Unreadable
from rowfall.sources.pipes import Streams, describe
from rowfall.stores import first_bytes
from rowfall.stores.first_bytes import HEAD
from rowfall.systems.kafka import protobuf
from rowfall.systems.kafka.avro import AvroMessages
from rowfall.systems.kafka.client import EARLIEST, LATEST, Client, Direction, parse, secrets_of
from rowfall.systems.kafka.errors import KafkaErrorMeaning, ReadingError
from rowfall.systems.kafka.messages import BrokenMessageError, Framing
from rowfall.systems.kafka.protobuf import ProtobufMessages
from rowfall.systems.kafka.schema_registry import PREFIX

COMMITTED = "committed"
# A piece is read by one thread. Of fewer messages a connection (20 ms) would be felt; more keep
# other cores waiting at the end. Eight pieces of small topics keep eight cores busy.
LEAST, MOST, PIECES = 50_000, 1_000_000, 8
# Messages of a split that a sample shows: the schema is made of 20,000 rows of up to eight.
SAMPLED = 5_000
# As much as of a text file: 5,000 messages of a megabyte are more than most memories.
SAMPLED_BYTES = 4 << 20
# Of fewer rows a sample reads on: compaction leaves gaps of any length, tombstones and transactions
# that were aborted fill others. 60,000 aborted messages in front of the first row took 0.3 s.
ENOUGH = 500
# At the end of each partition that many tell of the newest schema.
ENDS = 20

_NEEDS = "It needs READ and DESCRIBE of the topic."


def _direction(address: str) -> Direction:
    return Direction(SourceError, "read", _NEEDS, _NEEDS, {}, address)


class KafkaSource(Streams):
    """One topic."""

    remote = True
    replayable = True
    fds: tuple[int, ...] = ()
    made: Schema | None = None
    number = "offset"

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        super().__init__()
        if len(texts) > 1:
            raise UsageError(
                "one load reads one topic", hint="Run one load after the other into the same table."
            )
        self.text = uri.mask(texts[0])
        self.secrets = uri.secret_values(texts[0])
        self._options = options
        address = parse(texts[0])
        self._topic, self._config, registry = address.topic, address.properties, address.registry
        self.secrets += secrets_of(self._config)
        memory = parse_size(options.memory) if options.memory else total_memory() // 2
        self._client = Client(
            self._config, self.secrets, options.patience, _direction(self.text), memory
        )
        self._since, self._until = (
            _Bound.of(options.start_at, "--from"),
            _Bound.of(options.until, "--until"),
        )
        if COMMITTED in (self._since.word, self._until.word) and "group.id" not in self._config:
            raise UsageError(
                "--from committed needs the group whose offsets are meant",
                hint=f"Name it: '{self.text}{'&' if '?' in self.text else '?'}group.id=NAME'.",
            )
        self._framing = Framing(options)
        self.annotations = self._framing.annotations
        self._typed: AvroMessages | ProtobufMessages | None = None
        format_ = formats.find(options.format).name if options.format else ""
        if format_ == "Avro":
            self._typed = AvroMessages(registry, self.annotations)
        elif format_ == "Protobuf":
            given = dict(text.partition("=")[::2] for text in options.set)
            self._typed = ProtobufMessages(
                registry, self.annotations, given.get(protobuf.SETTING, "")
            )
        self.notes: tuple[str, ...] = ()
        self._first: dict[int, int] = {}
        # Where the rows of a sample lie: see _filled.
        self._rows: dict[tuple[int, int, int], tuple[int, int] | None] = {}
        # What is to be loaded, and what of it is in staging or visible.
        self._todo: list[tuple[int, int, int]] = []
        self._staged: list[tuple[int, int, int]] = []

    # --- listing ------------------------------------------------------------------------------

    def listing(self) -> Listing:
        """Return the ranges of all messages that are to be loaded.

        A partition without any has an empty range, so that it is known.
        """
        return self._list({})

    def listing_after(self, loaded: Mapping[str, Sequence[tuple[int, int]]]) -> Listing:
        return self._list(loaded)

    def _list(self, loaded: Mapping[str, Sequence[tuple[int, int]]]) -> Listing:
        version, partitions = self._identity()
        first, last = self._offsets(partitions, EARLIEST), self._offsets(partitions, LATEST)
        self._first, self._rows = first, {}
        since = self._bound(self._since, partitions, first)
        until = self._bound(self._until, partitions, last)
        todo: list[tuple[int, int, int]] = []
        lost: list[str] = []
        for p in partitions:
            own = loaded.get(self._uri(p), ())
            low = since.get(p, own[0][0] if own else first[p])
            high = min(last[p], until.get(p, last[p]))
            for start, stop in missing(low, high, own):
                gone = min(stop, first[p])
                if start < gone:
                    lost.append(_offsets_text(p, start, gone))
                todo.append((p, max(start, first[p]), stop))
            behind = own[-1][1] if own else low
            if self._since.word == EARLIEST and behind < low:
                self.notes += (
                    f"{_offsets_text(p, behind, low)} are lost: retention has deleted them before "
                    "they were loaded",
                )
        if lost:
            raise SourceError(
                f"{self._topic} has lost messages that were not loaded: {', '.join(lost)} "
                "(retention has deleted them)",
                hint="Load what is left with --from earliest.",
            )
        self._todo, self._staged = todo, []
        step = piece_of(sum(stop - start for _, start, stop in todo))
        listing = Listing(continued=True)
        for p, start, stop in todo:
            for at in range(start, stop, step):
                listing.add(self._uri(p), version, None, at, min(stop, at + step))
        for p in partitions if not todo and not loaded else ():
            listing.add(self._uri(p), version, None, first[p], first[p])
        return listing

    def _uri(self, partition: int) -> str:
        return f"kafka://{self._topic}/{partition}"

    def _identity(self) -> tuple[str, list[int]]:
        """Return the ids of cluster and topic, which a topic made anew does not share; partitions.

        Raises:
            SourceError: there is no such topic.
        """
        cluster = self._client.cluster_id(self._topic)
        found = self._client.describe(self._topic)
        if found is None:
            raise self._no_topic("broker: unknown topic or partition")
        return f"{cluster}/{found.id}", list(found.partitions)

    def _no_topic(self, why: str) -> SourceError:
        return SourceError(
            f"cannot read the topic {self._topic}: {why}",
            hint="kafka-topics.sh --list shows the topics of the cluster.",
        )

    def _offsets(self, partitions: Sequence[int], where: str | int) -> dict[int, int]:
        return self._client.offsets(self._topic, partitions, where)

    def _bound(
        self, bound: _Bound, partitions: Sequence[int], default: Mapping[int, int]
    ) -> dict[int, int]:
        """Return the offset that a bound sets for each partition, without those it does not name.

        Raises:
            UsageError: it names a partition that does not exist.
        """
        if bound.word in (EARLIEST, LATEST):
            return dict(default)
        if bound.word == COMMITTED:
            found = self._client.committed(self._topic, partitions)
            return {p: at if at >= 0 else default[p] for p, at in found.items()}
        if bound.time is not None:
            found = self._offsets(partitions, bound.time)
            last = self._offsets(partitions, LATEST)
            return {p: at if at >= 0 else last[p] for p, at in found.items()}
        if bound.every is not None:
            return dict.fromkeys(partitions, bound.every)
        if unknown := sorted(set(bound.each) - set(partitions)):
            raise UsageError(f"{bound.flag} names partition {unknown[0]}, which does not exist")
        return dict(bound.each)

    # --- reading ------------------------------------------------------------------------------

    def encoding(self, listing: Listing) -> Encoding:
        """Return the format of the messages: by option, else by the first ones."""
        if self._typed is not None:
            some: list[Any] = []
            for split in self.sample(listing, PIECES):
                for messages in self._messages(*_range(split)):
                    some += messages
            some += self._ends(listing)
            with self._named():
                return self._typed.encoding(some)
        head = b""
        for split in self.sample(listing, 1):
            with self._named(_partition(split)):
                for messages in self._messages(*_range(split)):
                    head += self._framing.text(messages, bare=True)
                    if len(head) >= HEAD:
                        break
        if head[:1] == b"\0" and not self._options.format:
            raise self._of_registry(head)
        encoding = self._framing.encoding(head)
        if not head:
            return encoding
        found = first_bytes.examine(
            [first_bytes.FirstBytes(self.text, head)], encoding, self._options
        )
        self.notes = found.notes
        if found.encoding.dialect is not None and self.annotations:
            raise UsageError(
                f"--add-column {self._options.add_column[0]} is not for messages of "
                f"{rewriting.describe(found.encoding.dialect)}"
            )
        self._framing.split_by(found.encoding.delimiter)
        return rewriting.check(found.encoding)

    def _of_registry(self, head: bytes) -> UsageError:
        """Return the error that says which option reads messages behind the id of a schema."""
        address = self.text
        if "schema.registry.url=" not in address:
            mark = "&" if "?" in address else "?"
            address = f"{address}{mark}schema.registry.url=http://HOST:8081"
        if head[PREFIX : PREFIX + 1] == b"{":
            hint = "Objects of JSON behind an id are not read: have them written without it."
        else:
            hint = f"rowfall load {shlex.quote(address)} --format Avro, or --format Protobuf"
        return UsageError(
            f"messages of {self._topic} begin with a zero byte and the number "
            f"{int.from_bytes(head[1:PREFIX], 'big')}, as those of a schema registry do",
            hint=hint,
        )

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        """Return the first rows of some splits, the newest among them.

        Where none of them has any, their beginnings.
        """
        chosen: list[Split] = []
        empty: list[Split] = []
        # A file of Avro cannot be cut like text, at 4 MiB.
        size = SAMPLED if self._typed is None else SAMPLED // 10
        # What is loaded comes first in a listing, and may be gone.
        for split in reversed(list(listing.splits(""))):
            if len(chosen) == most:
                break
            stop = split.stop or 0
            start = max(split.start or 0, self._first.get(_partition(split), 0))
            if start < stop:
                found = self._filled(_partition(split), start, stop, size)
                if found is not None:
                    chosen.append(replace(split, start=found[0], stop=found[1]))
                elif len(empty) < most:
                    empty.append(replace(split, start=start, stop=min(stop, start + size)))
        return chosen or empty

    def _filled(self, partition: int, start: int, stop: int, size: int) -> tuple[int, int] | None:
        """Return the offsets of a range that hold its first rows; None where it has none."""
        key = partition, start, stop
        if key not in self._rows:
            first, rows, taken, end = -1, 0, 0, min(stop, start + size)
            ranges = ((start, end), (end, stop))
            for messages in chain.from_iterable(self._messages(partition, *r) for r in ranges):
                last = -1
                for message in messages:
                    last = message.offset()
                    if value := message.value():
                        first = last if first < 0 else first
                        rows, taken = rows + 1, taken + len(value)
                        if taken >= SAMPLED_BYTES:
                            break
                if last >= end or taken >= SAMPLED_BYTES:
                    end = last + 1
                if rows >= ENOUGH or taken >= SAMPLED_BYTES:
                    break
            self._rows[key] = (first, end) if rows else None
        return self._rows[key]

    def _ends(self, listing: Listing) -> list[Any]:
        """Return the last messages with values of each partition: those of the newest schema."""
        found: list[Any] = []
        for split in {split.uri: split for split in listing.splits("")}.values():
            stop, back = split.stop or 0, ENDS
            low = max(split.start or 0, self._first.get(_partition(split), 0))
            some: list[Any] = []
            while low < stop and not some:
                start = max(low, stop - back)
                for messages in self._messages(_partition(split), start, stop):
                    some += [message for message in messages if message.value()][-ENDS:]
                if start == low:
                    break
                back *= ENDS
            found += some
        return found

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        """Return the FROM part that reads the splits through pipes."""
        text = super().relation(splits, encoding, structure)
        if not isinstance(self._typed, ProtobufMessages):
            return text
        settings = sql.settings_clause(self._typed.settings)
        if structure:
            return SqlText.of("(SELECT *, _path, _file FROM ", text, f"{settings})")
        # DESCRIBE takes no notice of the settings of the outermost select.
        return SqlText.of("(SELECT * FROM (SELECT * FROM ", text, f"{settings}))")

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        """Return the splits that could not be read, each with the reason.

        All of them, where the topic was deleted and made anew meanwhile.

        Raises:
            SourceGoneError: retention has deleted what was to be read.
            SourceError: another try may help.
        """
        errors = {s.id: self._streams.error(s.name) for s in splits}
        for error in errors.values():
            if isinstance(error, _LostError):
                raise self._gone(error)
        lasting: list[tuple[Split, str]] = []
        passing: list[RowfallError] = []
        for split in splits:
            error = errors[split.id]
            if isinstance(error, RowfallError) and error.transient:
                passing.append(error)
            elif isinstance(error, RowfallError):
                lasting.append((split, Unreadable.of(error)))
            elif error is not None:
                lasting.append((split, describe(error, split.name)))
        if passing and not lasting:
            raise passing[0]
        if not lasting and splits and self._identity()[0] != splits[0].version:
            return [(s, "the topic was deleted and made anew") for s in splits]
        if not lasting:
            self._staged += map(_range, splits)
        return lasting

    def stream(self, split: Split) -> Iterator[bytes]:
        """Give the messages of a range as text.

        Raises:
            SourceError: some are gone, or the brokers do not answer.
            DataError: a message is not a whole row; it names partition and offset.
        """
        text = self._framing.text if self._typed is None else self._typed.text
        with self._named(_partition(split)):
            if self._typed is not None:
                yield self._typed.begin()
            for messages in self._messages(*_range(split)):
                if self._typed is not None:
                    self._framing.check_sizes(messages)
                yield text(messages)

    def pieces(self, split: Split) -> Iterator[bytes]:
        """Give what a range begins with as a file: of Avro the header, which has the schema."""
        if self._typed is not None:
            yield self._typed.begin()

    @contextmanager
    def _named(self, partition: int = 0) -> Iterator[None]:
        """Enter a block in which messages are read: a broken one is named by its offset."""
        try:
            yield
        except BrokenMessageError as error:
            where = f"{self._topic} partition {partition} offset {error.offset}"
            raise DataError(
                f"{where}: {error}",
                uri=self._uri(partition),
                value=error.shown,
                hint=f"Load what is behind it with --from {partition}:{error.offset + 1}.",
            ) from None

    def numbers(self, split: Split, lines: Sequence[int]) -> list[int]:
        wanted, found, last = list(reversed(lines)), list[int](), 0
        for messages in self._messages(*_range(split)):
            for message in messages:
                last += self._framing.text([message]).count(b"\n")
                while wanted and wanted[-1] <= last:
                    found.append(message.offset())
                    wanted.pop()
            if not wanted:
                break
        return found + [split.stop or 0] * len(wanted)

    def _messages(self, partition: int, start: int, stop: int) -> Iterator[list[Any]]:
        """Give the messages from ``start`` on, up to ``stop``, in batches.

        Raises:
            SourceError: some are gone, or the brokers do not answer.
        """
        try:
            yield from self._client.read(self._topic, {partition: start}, stop)
        except ReadingError as error:
            if error.answer is KafkaErrorMeaning.LOST:
                raise _LostError(self._topic, partition, error.at) from None
            if error.answer is KafkaErrorMeaning.NO_RIGHT_TO_TOPIC:
                raise SourceError(
                    f"cannot read the topic {self._topic}: this user may not", hint=_NEEDS
                ) from None
            if error.answer is KafkaErrorMeaning.BROKEN:
                raise SourceError(
                    f"cannot read {self._topic} partition {partition}: the messages from offset "
                    f"{error.at} on cannot be unpacked{self._client.reason()}",
                    hint="They are damaged, or unpack to more than 100 MB, the most that is taken "
                    "by default: receive.message.max.bytes=1000000000 in the address takes more. "
                    "--from takes what is behind them.",
                ) from None
            if error.answer is KafkaErrorMeaning.NO_TOPIC:
                raise self._no_topic(error.error.str().lower()) from None
            raise SourceError(
                f"cannot read {self._topic} partition {partition}: the brokers have been away for "
                f"longer than {duration(error.waited)}{self._client.reason()}",
                hint="Run the same command again when they are back; --patience 10m waits for "
                "longer.",
            ) from None

    def _gone(self, error: _LostError) -> SourceGoneError:
        """Return the error that names what retention has deleted of what is to be loaded."""
        first = self._offsets(sorted({p for p, _, _ in self._todo} | {error.partition}), EARLIEST)
        lost = []
        for p, start, stop in self._todo:
            staged = joined((low, high) for q, low, high in self._staged if p == q)
            for low, high in missing(start, min(stop, first[p]), staged):
                lost.append(_offsets_text(p, low, high))
        if not lost:
            return SourceGoneError(error.message, hint=error.hint)
        return SourceGoneError(
            f"{self._topic} has lost messages that were not loaded: {', '.join(lost)} "
            "(retention has deleted them during the load)",
            hint=error.hint,
        )


class _LostError(SourceError):
    """The brokers have no message at an offset that is to be read."""

    def __init__(self, topic: str, partition: int, at: int) -> None:
        super().__init__(
            f"{topic} has lost messages that were not loaded: offset {at:,} of partition "
            f"{partition} is gone",
            hint="Load what is left with --from earliest.",
        )
        self.partition, self.at = partition, at


class _Bound:
    """Value of ``--from`` or ``--until``: a word, a time in ms, or offsets."""

    def __init__(self, flag: str) -> None:
        self.flag, self.word = flag, ""
        self.time: int | None = None
        self.every: int | None = None
        self.each: dict[int, int] = {}

    @classmethod
    def of(cls, text: str | None, flag: str) -> _Bound:
        """Read one option.

        Raises:
            UsageError: it is none of these.
        """
        bound, words = cls(flag), {"--from": (EARLIEST, COMMITTED), "--until": (LATEST,)}[flag]
        if text is None or text in words:
            bound.word = text or ""
        elif re.fullmatch(r"\d+", text):
            bound.every = int(text)
        elif re.fullmatch(r"\d+:\d+(,\d+:\d+)*", text):
            pairs = (pair.split(":") for pair in text.split(","))
            bound.each = {int(partition): int(offset) for partition, offset in pairs}
        else:
            try:
                moment = datetime.fromisoformat(text)
            except ValueError:
                raise UsageError(
                    f"{flag} {text} is neither an offset nor a time",
                    hint=f"Write {', '.join(words)}, an offset, PARTITION:OFFSET,..., or a time "
                    "like 2026-01-31T12:00:00Z.",
                ) from None
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            bound.time = round(zoned.timestamp() * 1000)
        return bound


def missing(low: int, high: int, loaded: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the ranges between two offsets that are not loaded; ``loaded`` in ascending order."""
    for start, stop in loaded:
        if low < min(start, high):
            yield low, min(start, high)
        low = max(low, stop)
    if low < high:
        yield low, high


def piece_of(messages: int) -> int:
    """Return the number of messages in one split, of ``messages`` in all."""
    return max(LEAST, min(MOST, -(-messages // PIECES)))


def _range(split: Split) -> tuple[int, int, int]:
    return _partition(split), split.start or 0, split.stop or 0


def _partition(split: Split) -> int:
    return int(split.uri.rpartition("/")[2])


def _offsets_text(partition: int, start: int, stop: int) -> str:
    return f"offsets {start:,} to {stop - 1:,} of partition {partition}"
