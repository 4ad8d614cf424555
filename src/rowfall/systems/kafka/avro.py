"""Avro messages with a schema registry, as a file of Avro: nothing of a message is decoded.

On the wire a message is a zero byte, the id of its schema in four bytes, and the values. Behind
each other, and behind a header with the schema, the values are the blocks of an Avro file. Only
messages that were written with another schema than the newest are converted to it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from datetime import date, time
from typing import Any

from rowfall.core.model import Encoding, Kind
from rowfall.systems.kafka.messages import BrokenMessageError, check_not_added, varint
from rowfall.systems.kafka.schema_registry import PREFIX, SchemaRegistry, id_of, newest_id

_MAGIC = b"Obj\x01"
_SYNC = b"rowfall-messages"
_TIMES = (date, time)  # a datetime is a date


class AvroMessages:
    """Makes an Avro file of the messages of one topic.

    Args:
        registry: ``url``, and ``user`` and ``password`` where it wants them.
    """

    def __init__(self, registry: Mapping[str, str], added: Sequence[str]) -> None:
        self._registry = SchemaRegistry(registry, "AVRO")
        check_not_added(added, "Avro")
        self._schemas: dict[int, Any] = {}
        self._id = 0

    def encoding(self, messages: list[Any]) -> Encoding:
        """Return the encoding; the schema with the highest id is the one that is read.

        Raises:
            BrokenMessageError: no message has a schema.
        """
        self._id = max(self._id, newest_id(messages))
        return Encoding("Avro", "none", Kind.TYPED)

    def begin(self) -> bytes:
        """Return the header of a file."""
        schema = json.dumps(self._schema(self._id)).encode()
        entries = ((b"avro.schema", schema), (b"avro.codec", b"null"))
        pairs = b"".join(_bytes(name) + _bytes(value) for name, value in entries)
        return _MAGIC + _long(len(entries)) + pairs + _long(0) + _SYNC

    def text(self, messages: Sequence[Any]) -> bytes:
        """Return the messages as a block of a file.

        Raises:
            BrokenMessageError: one is not a message of a registry, or has columns that others lack.
            SourceError: the registry does not know a schema.
        """
        values = []
        for message in messages:
            value = message.value()
            if value:
                own = id_of(message)
                values.append(value[PREFIX:] if own == self._id else self._as_newest(message, own))
        if not values:
            return b""
        data = b"".join(values)
        return _long(len(values)) + _long(len(data)) + data + _SYNC

    def _as_newest(self, message: Any, id_: int) -> bytes:
        import fastavro

        written, newest = self._schema(id_), self._schema(self._id)
        names = {field["name"] for field in newest.get("fields", ())}
        more = [f["name"] for f in written.get("fields", ()) if f["name"] not in names]
        if more:
            raise BrokenMessageError(
                message.offset(),
                f"its schema {id_} has {', '.join(more)}, which the schema {self._id} of the load "
                "lacks",
                b"",
            )
        try:
            stream = io.BytesIO(message.value()[PREFIX:])
            record = fastavro.schemaless_reader(stream, written, newest)
            out = io.BytesIO()
            fastavro.schemaless_writer(out, newest, record)
            out.seek(0)
            again = fastavro.schemaless_reader(out, newest, newest)
            # What no library knows comes as a number: as what the newer schema says of it.
            if not _same_times(record, again, numbers="-nanos" not in json.dumps(written)):
                raise ValueError(f"the schema {self._id} of the load has other units of its times")
        except Exception as error:  # of whatever the message holds
            raise BrokenMessageError(
                message.offset(), f"it is not of its schema {id_}: {error}", message.value()
            ) from None
        return out.getvalue()

    def _schema(self, id_: int) -> Any:
        if id_ not in self._schemas:
            self._schemas[id_] = json.loads(self._registry.schema(id_).text)
        return self._schemas[id_]


def _same_times(one: Any, other: Any, *, numbers: bool) -> bool:
    """Tell whether all times in two values are the same.

    Args:
        numbers: one may be a number in the first value.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_same_times(v, other.get(k), numbers=numbers) for k, v in one.items())
    if isinstance(one, list) and isinstance(other, list):
        pairs = zip(one, other, strict=True)
        return all(_same_times(*pair, numbers=numbers) for pair in pairs)
    if isinstance(one, _TIMES) or isinstance(other, _TIMES):
        return one == other or (numbers and isinstance(one, int))
    return True


def _long(number: int) -> bytes:
    """Return a number as Avro writes it."""
    return varint(number << 1)


def _bytes(data: bytes) -> bytes:
    return _long(len(data)) + data
