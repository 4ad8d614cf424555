"""The record of what is loaded into topics: a compacted topic beside them, :data:`RECORD`.

It has one message for each split that is loaded, its key the id of the target topic and that of the
split. It never expires: brokers that make topics by themselves would give it seven days.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rowfall.core.errors import TargetError
from rowfall.engines.database import ACCEPTED, RECORD, SplitRecord
from rowfall.systems.kafka.client import Client
from rowfall.systems.kafka.errors import KafkaErrorMeaning, ReadingError

# The newest message of each key, for ever.
_KEPT = {"cleanup.policy": "compact", "retention.ms": "-1", "retention.bytes": "-1"}
_MOST_NAME = 500


class KafkaRecord:
    """What the record says of one topic, as it was read last.

    Attributes:
        name: of the topic that is the record.
        topic_id: of the topic; "" where it does not exist yet. ``splits``: id of a split -> what is
            known of it. ``accepted``: the mark of the first load into the topic, None for none.
    """

    def __init__(self, client: Client, topic: str, name: str = RECORD) -> None:
        self._client, self._topic, self.name = client, topic, name
        self.topic_id = ""
        self.splits: dict[str, dict[str, Any]] = {}
        self.accepted: dict[str, Any] | None = None
        # Partition of the record -> the offset that it was read to.
        self._read_to: dict[int, int] = {}
        self._guard = threading.Lock()

    def exists(self) -> bool:
        """Return whether the record of loads exists."""
        return self._client.describe(self.name) is not None

    def make(self) -> None:
        """Make the record where it is missing."""
        if not self.exists():
            self._client.make(self.name, 1, _KEPT)

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

    def refresh(self) -> None:
        """Read what has come since the last time.

        Raises:
            TargetError: the brokers do not answer, or this user may not.
        """
        with self._guard:
            found = self._client.describe(self.name)
            if found is None:
                return
            # One that brokers have made has as many partitions as they give by default.
            starts = {p: self._read_to.get(p, 0) for p in found.partitions}
            try:
                for batch in self._client.read(self.name, starts):
                    for message in batch:
                        self._learn((message.key() or b"").decode(), message.value())
                        self._read_to[message.partition()] = message.offset() + 1
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

    def learn(self, messages: Iterable[tuple[str, str | None]]) -> None:
        """Take over what was sent to the record."""
        with self._guard:
            for key, value in messages:
                self._learn(key, value)

    def _learn(self, key: str, value: str | bytes | None) -> None:
        topic, _, split = key.rpartition("/")
        if topic != self.topic_id:
            return
        if split == ACCEPTED:
            self.accepted = json.loads(value) if value is not None else None
        elif value is None:
            self.splits.pop(split, None)
        else:
            self.splits[split] = json.loads(value)

    def loaded(
        self, records: Sequence[SplitRecord], attempt: str, load: str, rows: int
    ) -> list[tuple[str, str | None]]:
        """Return the messages that say that splits are loaded."""
        return [
            (f"{self.topic_id}/{one.id}", json.dumps({
                "topic": self._topic, "attempt": attempt, "load": load,
                "name": one.name[:_MOST_NAME], "whole": one.whole, "rows": rows, "at": _now(),
            }))
            for one in records
        ]  # fmt: skip

    def forgotten(self, splits: Sequence[str]) -> list[tuple[str, str | None]]:
        """Return the messages that take splits out of the record."""
        return [(f"{self.topic_id}/{split}", None) for split in splits]

    def acceptance(self) -> list[tuple[str, str | None]]:
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
