"""The record of what is loaded into topics: a compacted topic beside them, :data:`RECORD`.

It has one message for each split that is loaded, its key the id of the target topic and that of the
split. It never expires: brokers that make topics by themselves would give it seven days.

Many messages become one with the ids in a file (:mod:`rowfall.engines.id_files`), in a transaction
that takes them out one by one; what is forgotten of such ids is a file of its own behind it. That
needs the order of messages, so a record of several partitions stays as it is. One process changes
it so at a time, under a transactional id: whoever begins ends what another one has not committed.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from typing import Any
from uuid import uuid4

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError
from rowfall.core.listing import MARK
from rowfall.engines.database import ACCEPTED, RECORD, SplitRecord
from rowfall.engines.id_files import (
    EPOCH,
    CommittedLoad,
    Drops,
    RecordFile,
    digest_of,
    file_of,
    of_loads,
    packed,
)
from rowfall.systems.kafka.client import LATEST, Client
from rowfall.systems.kafka.errors import KafkaErrorMeaning, ReadingError
from rowfall.systems.kafka.id_set import IdSet

# The newest message of each key, for ever.
_KEPT = {"cleanup.policy": "compact", "retention.ms": "-1", "retention.bytes": "-1"}
# Brokers clean no segment that is still written, and one has a gigabyte by default: so much of the
# record has a hundred bytes an object. Each has three files; a hundred million objects are 2 GB.
_SEGMENTS = {"segment.bytes": str(16 << 20)}
_MOST_NAME = 500
PACK = 5_000
"""So many messages at least are packed; each of them takes 300 bytes of memory here."""
# Of one message: 320 kB of ids, and 1,040 kB where each has a load and an attempt of its own.
_MOST_IDS = 20_000
_MOST_BYTES_AN_ID = 52
MOST_MESSAGE = "max.message.bytes"
"""Property of a topic: the bytes of the largest message that it takes."""
MESSAGE_BYTES = 1_000_000
"""What brokers take where the topic may not be asked."""
# Whoever reads what others send finds what was taken out before the cleaner takes it out for good:
# brokers keep tombstones for a day by default.
_STALE_SECONDS = 6 * 3600.0
# A transaction in the record is open for as long as a commit takes.
_OPEN_SECONDS = 0.02
_PACKED, _UNPACKED = "packed", "unpacked"

Message = tuple[str, str | bytes | None]


@dataclass(frozen=True, slots=True)
class LoadedSplit:
    """What a message says of a split; those of one attempt share it.

    Attributes:
        whole: id of the file that it is a range of, "" for none.
        at: time in ISO 8601.
    """

    attempt: str
    load: str
    whole: str
    at: str


class KafkaRecord:
    """What the record says of one topic, as it was read last.

    Attributes:
        name: of the topic that is the record.
        topic_id: of the topic; "" where it does not exist yet. ``splits``: id of a split -> what is
            known of it, of those that have a message of their own. ``accepted``: the mark of the
            first load into the topic, None for none.
    """

    def __init__(self, client: Client, topic: str, name: str = RECORD) -> None:
        self._client, self._topic, self.name = client, topic, name
        self.topic_id = ""
        self.splits: dict[str, LoadedSplit] = {}
        self.accepted: dict[str, Any] | None = None
        self._last: LoadedSplit | None = None
        self._packed, self._attempts = IdSet(), IdSet()
        # Key of a message with packed ids -> day of its last load, since 2020.
        self._files: dict[str, int] = {}
        # Partition of the record -> the offset that it was read to.
        self._read_to: dict[int, int] = {}
        self._read_at = time.time()
        self._guard = threading.Lock()

    def exists(self) -> bool:
        """Return whether the record of loads exists."""
        return self._client.describe(self.name) is not None

    def make(self) -> None:
        """Make the record where it is missing."""
        if not self.exists():
            self._client.make(self.name, 1, {**_KEPT, **_SEGMENTS})

    def keep(self) -> None:
        """Let the record keep its messages for ever.

        Raises:
            TargetError: it would expire, and this user may not alter it.
        """
        try:
            policy = self._client.config(self.name)["cleanup.policy"]
        except TargetError as error:
            if error.transient:
                raise
            return  # it may not be asked; who made it has to know
        if policy == _KEPT["cleanup.policy"]:
            return
        try:
            self._client.alter(self.name, _KEPT)
        except TargetError as error:
            if error.transient:
                raise
            kept = ",".join(f"{name}={value}" for name, value in _KEPT.items())
            raise TargetError(
                f"the topic {self.name} forgets what is loaded: its cleanup.policy is {policy}, "
                "and this user may not alter it",
                hint=f"kafka-configs.sh --bootstrap-server {self._client.servers} "
                f"--entity-type topics --entity-name {self.name} --alter --add-config {kept}",
            ) from None

    def refresh(self, wait: float = 0) -> None:
        """Read what has come since the last time.

        Args:
            wait: seconds for what lies behind a transaction that is open; 0: it is not read. All
                topics have one record, so that may be the transaction of a load into another.

        Raises:
            TargetError: the brokers do not answer, or this user may not; a transaction stays open.
        """
        with self._guard:
            found = self._client.describe(self.name)
            if found is None:
                return
            if time.time() - self._read_at > _STALE_SECONDS:
                self._read_anew(wait)
                return
            if wait:
                self._await_open(found.partitions, wait)
            self._read_at = time.time()
            # One that brokers have made has as many partitions as they give by default.
            starts = {p: self._read_to.get(p, 0) for p in found.partitions}
            for message in self._messages(starts):
                self._learn((message.key() or b"").decode(), message.value())
                self._read_to[message.partition()] = message.offset() + 1

    def _read_anew(self, wait: float) -> None:
        new = KafkaRecord(self._client, self._topic, self.name)
        new.topic_id = self.topic_id
        new.refresh(wait)
        # Whoever asks meanwhile finds what was packed in one of both.
        self._packed, self._attempts, self._files = new._packed, new._attempts, new._files
        self.splits, self.accepted, self._last = new.splits, new.accepted, new._last
        self._read_to, self._read_at = new._read_to, new._read_at

    def _await_open(self, partitions: Sequence[int], wait: float) -> None:
        """Wait until no transaction is open before what is the end now."""
        ends = self._client.offsets(self.name, partitions, LATEST, behind_open=True)
        until = time.monotonic() + wait
        while True:
            read = self._client.offsets(self.name, partitions, LATEST)
            if all(read[partition] >= end for partition, end in ends.items()):
                return
            if time.monotonic() > until:
                raise TargetError(
                    f"what is loaded cannot be read: a transaction in {self.name} has been open "
                    f"for more than {wait:.0f} s, as of a load that was killed while it committed",
                    hint="Run that load again, which ends it at once, or this one in 15 minutes, "
                    "when the brokers have ended it.",
                    transient=True,
                )
            time.sleep(_OPEN_SECONDS)

    def _messages(self, starts: Mapping[int, int]) -> Iterator[Any]:
        """Yield the messages of the record from some offsets on.

        Raises:
            TargetError: the brokers do not answer, or this user may not.
        """
        try:
            for batch in self._client.read(self.name, starts):
                yield from batch
        except ReadingError as error:
            if error.answer is KafkaErrorMeaning.NO_RIGHT_TO_TOPIC:
                raise TargetError(
                    f"cannot read the topic {self.name}: this user may not",
                    hint="It needs READ of it: it says what is loaded.",
                ) from None
            raise TargetError(
                f"cannot read {self.name}: the brokers do not answer{self._client.reason()}",
                hint="Run the same command again when they are back.",
                transient=True,
            ) from None

    def learn(self, messages: Iterable[Message]) -> None:
        """Take over what was sent to the record."""
        with self._guard:
            for key, value in messages:
                self._learn(key, value)

    def _learn(self, key: str, value: str | bytes | None) -> None:
        topic, _, split = key.rpartition("/")
        if topic != self.topic_id:
            topic, _, kind = topic.rpartition("/")
            if topic == self.topic_id:
                self._learn_packed(kind, key, value)
        elif split == ACCEPTED:
            self.accepted = json.loads(value) if value is not None else None
        elif value is None:
            self.splits.pop(split, None)
        else:
            said = json.loads(value)
            one = LoadedSplit(said["attempt"], said["load"], said["whole"], said["at"])
            self._last = one if one != self._last else self._last
            self.splits[split] = self._last

    def _learn_packed(self, kind: str, key: str, value: str | bytes | None) -> None:
        if not isinstance(value, bytes):
            self._files.pop(key, None)  # forgotten as too old, or by a newer rowfall
            return
        file = RecordFile(key, value)
        if kind == _UNPACKED:
            self._packed.discard(file.id_bytes())
            return
        self._files[key] = file.newest
        self._packed.add(file.id_bytes())
        self._attempts.add(file.attempts())

    # --- questions --------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """True where nothing is recorded of the topic."""
        return self.accepted is None and not self.splits and not self._packed

    @property
    def is_packed(self) -> bool:
        """True where some ids are packed."""
        return bool(self._files)

    def among(self, ids: Iterable[str]) -> set[str]:
        """Return those of some ids, and marks of files, that are loaded."""
        asked = set(ids)
        # In this order: what is packed meanwhile is in the other one before it goes from here.
        found = {id_ for id_ in asked if id_ in self.splits}
        found |= self._packed_among(asked - found)
        if any(id_.startswith(MARK) for id_ in asked):
            found |= asked & self._marks()
        return found

    def _packed_among(self, ids: Iterable[str]) -> set[str]:
        short = [one for id_ in ids if (one := packed(id_)) is not None]
        return {id_.hex() for id_ in self._packed.among(short)}

    def _marks(self) -> set[str]:
        return {f"{MARK}{one.whole}" for one in self.splits.values() if one.whole}

    def ids(self) -> set[str]:
        """Return the ids of all splits, and marks of files of which ranges are loaded."""
        return {*self.splits, *self._marks(), *(id_.hex() for id_ in self._packed)}

    def has(self, attempt: str) -> bool:
        """Tell whether an attempt has loaded anything."""
        if digest_of(attempt) in self._attempts:
            return True
        return any(one.attempt == attempt for one in self.splits.values())

    # --- messages ---------------------------------------------------------------------------------

    def packing(self) -> list[Message]:
        """Return the messages that pack ids; [] where there are few, or several partitions."""
        chosen = sorted(
            (id_ for id_, one in self.splits.items() if not one.whole and packed(id_) is not None),
            key=lambda id_: (self.splits[id_].load, self.splits[id_].attempt),
        )
        if len(chosen) < PACK or not self._is_ordered():
            return []
        sent: list[Message] = []
        most = self._most_ids()
        for start in range(0, len(chosen), most):
            ids = chosen[start : start + most]
            loads = [
                CommittedLoad(one.load, (one.attempt,), tuple(some), at=one.at)
                for one, some in groupby(ids, key=self.splits.__getitem__)
            ]
            sent.append((f"{self.topic_id}/{_PACKED}/{uuid4().hex}", file_of(loads).content()))
            sent += self.forgotten(ids)
        return sent

    def _most_ids(self) -> int:
        """Return how many ids a message of the record may have."""
        # Of its size nine tenths: the rest is for names, and what a batch has besides.
        return max(1, min(_MOST_IDS, self.most_bytes() * 9 // 10 // _MOST_BYTES_AN_ID))

    def most_bytes(self) -> int:
        """Return the bytes of the largest message that the record takes."""
        with suppress(TargetError):  # not all users may ask
            return int(self._client.config(self.name)[MOST_MESSAGE])
        return MESSAGE_BYTES

    def _is_ordered(self) -> bool:
        found = self._client.describe(self.name)
        return found is not None and len(found.partitions) == 1

    def forgetting(self, loads: Iterable[str]) -> tuple[list[Message], int]:
        """Return the messages that take loads out of the record, and how many splits those are.

        Raises:
            TargetError: the record cannot be read.
        """
        names = set(loads)
        if not names:
            return [], 0
        gone = {id_ for id_, one in self.splits.items() if one.load in names}
        sent = self.forgotten(sorted(gone))
        short: set[str] = set()
        if self._files:
            short = self._packed_by(of_loads(names))
        left, most = sorted(short), self._most_ids() if short else 1
        for start in range(0, len(left), most):
            file = file_of([CommittedLoad("", (), tuple(left[start : start + most]))])
            sent.append((f"{self.topic_id}/{_UNPACKED}/{uuid4().hex}", file.content()))
        return sent, len(gone) + len(short - self.splits.keys())

    def _packed_by(self, drops: Drops) -> set[str]:
        """Read the record again; return the ids that are packed with some loads.

        Of an id that was forgotten and loaded again the last one counts.
        """
        found: set[str] = set()
        prefixes = tuple(f"{self.topic_id}/{kind}/" for kind in (_PACKED, _UNPACKED))
        for message in self._messages({0: 0}):
            key, value = (message.key() or b"").decode(), message.value()
            if key.startswith(prefixes) and value is not None:
                file = RecordFile(key, value)
                if found:
                    found.difference_update(id_.hex() for id_ in file.all_ids())
                if key.startswith(prefixes[0]):
                    found.update(file.of_loads(drops))
        return self._packed_among(found)

    def expired(self, days: int) -> list[Message]:
        """Return the messages that forget ids of loads of more than so many days ago.

        A message goes as a whole: what was packed with something later stays for longer.
        """
        last = int(time.time() // 86_400) - EPOCH - days
        return [(key, None) for key, newest in self._files.items() if newest < last]

    def loaded(
        self, records: Sequence[SplitRecord], attempt: str, load: str, rows: int
    ) -> list[Message]:
        """Return the messages that say that splits are loaded."""
        return [
            (f"{self.topic_id}/{one.id}", json.dumps({
                "topic": self._topic, "attempt": attempt, "load": load,
                "name": one.name[:_MOST_NAME], "whole": one.whole, "rows": rows, "at": _now(),
            }))
            for one in records
        ]  # fmt: skip

    def forgotten(self, splits: Sequence[str]) -> list[Message]:
        """Return the messages that take splits out of the record."""
        return [(f"{self.topic_id}/{split}", None) for split in splits]

    def acceptance(self) -> list[Message]:
        """Return the message that says: what the topic holds now counts as loaded."""
        start = {str(p): first for p, first in self._first_offsets().items()}
        mark = {"topic": self._topic, "start": start, "at": _now()}
        return [(f"{self.topic_id}/{ACCEPTED}", json.dumps(mark))]

    def has_expired(self) -> bool:
        """Return whether messages of the record are gone, so that loaded splits are not known."""
        started = dict((self.accepted or {}).get("start", {}))
        return any(
            first > int(started.get(str(partition), 0))
            for partition, first in self._first_offsets().items()
        )

    def _first_offsets(self) -> dict[int, int]:
        """Return the first offset that each partition of the record still has."""
        found = self._client.describe(self.name)
        return {} if found is None else self._client.offsets(self.name, found.partitions)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
