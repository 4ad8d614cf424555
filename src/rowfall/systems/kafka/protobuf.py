"""Protobuf messages, with a schema registry or a .proto file: nothing of a message is decoded.

Behind its length a message is what the engine reads as Protobuf. In front of it Confluent's
serializers write a zero byte, the id of the schema in four bytes, and which message of the schema
it is: these are taken off. No message of Protobuf begins with a zero byte, so that tells.

The engine reads schemas from files. A newer schema reads what older ones have written, because
fields are known by their numbers.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rowfall.core.errors import SourceError, UsageError
from rowfall.core.model import Encoding, Kind
from rowfall.core.patterns import regex
from rowfall.systems.kafka.messages import BrokenMessageError, check_not_added, varint
from rowfall.systems.kafka.schema_registry import PREFIX, SchemaRegistry, id_of, newest_id

SETTING = "format_schema"
_IMPORT = regex(r'\bimport\s+(?:public\s+|weak\s+)?"([^"]+)"\s*;')
_NOISE = regex(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', re.S)
_WORD = regex(r"[{};]|[^\s{};]+")
_WRAPPERS = {
    "Double": "double", "Float": "float", "Int64": "int64", "UInt64": "uint64", "Int32": "int32",
    "UInt32": "uint32", "Bool": "bool", "String": "string", "Bytes": "bytes",
}  # fmt: skip
_PAIR = "{ int64 seconds = 1; int32 nanos = 2; }"
_HEAD = 'syntax = "proto3"; package google.protobuf;\n'
# Of the schemas that come with every compiler, those that rows are made of.
_WELL_KNOWN = {
    "google/protobuf/timestamp.proto": f"{_HEAD}message Timestamp {_PAIR}",
    "google/protobuf/duration.proto": f"{_HEAD}message Duration {_PAIR}",
    "google/protobuf/empty.proto": f"{_HEAD}message Empty {{}}",
    "google/protobuf/wrappers.proto": _HEAD + "\n".join(
        f"message {name}Value {{ {type_} value = 1; }}" for name, type_ in _WRAPPERS.items()
    ),
}  # fmt: skip
# The engine looks for files in google/ in a folder of its own, which the embedded one lacks.
_OURS = "known/"


class ProtobufMessages:
    """Makes a file of Protobuf of the messages of one topic.

    Args:
        registry: ``url``, and ``user`` and ``password`` where it wants them.
        file: FILE:MESSAGE in place of a registry; "" for none.
    """

    def __init__(self, registry: Mapping[str, str], added: Sequence[str], file: str) -> None:
        check_not_added(added, "Protobuf")
        self._registry: SchemaRegistry | None = None
        self._id = 0
        self._indexes: tuple[int, ...] = (0,)
        self.settings: dict[str, str] = {}  # for the engine that reads the messages
        if file:
            self.settings[SETTING] = _checked(file)
            return
        if "url" not in registry:
            raise UsageError(
                "messages of Protobuf need a schema",
                hint="Name the registry, kafka://host:9092/topic?schema.registry.url=http://"
                "host:8081, or a file, --set format_schema=orders.proto:Order",
            )
        self._registry = SchemaRegistry(registry, "PROTOBUF")

    def encoding(self, messages: list[Any]) -> Encoding:
        """Return the encoding; the schema with the highest id is the one that is read.

        Raises:
            BrokenMessageError: no message has a schema.
            SourceError: the registry does not know it, or it imports what nobody has.
        """
        if self._registry is not None:
            newest = newest_id(messages)
            if newest > self._id:
                self._id = newest
                first = next(m for m in messages if m.value() and id_of(m) == newest)
                self._indexes, _ = _unframed(first)
                self.settings[SETTING] = self._written(self._registry)
        return Encoding("Protobuf", "none", Kind.TYPED)

    def begin(self) -> bytes:
        """Return the bytes before the first message: none."""
        return b""

    def text(self, messages: Sequence[Any]) -> bytes:
        """Return the messages, each behind its length.

        Raises:
            BrokenMessageError: one is not a message of the registry, of another kind than the
                others, or of a newer schema.
        """
        out = []
        for message in messages:
            value = message.value()
            if not value:
                continue
            if self._registry is not None:
                value = self._checked(message)
            elif not value[0]:
                value = _unframed(message)[1]
            out.append(varint(len(value)))
            out.append(value)
        return b"".join(out)

    def _checked(self, message: Any) -> bytes:
        """Return a message without what stands in front of it."""
        own = id_of(message)
        indexes, payload = _unframed(message)
        if own > self._id:
            # It may have fields that the table lacks.
            raise BrokenMessageError(
                message.offset(),
                f"its schema {own} is newer than the schema {self._id} of the load",
                b"",
            )
        if indexes != self._indexes:
            raise BrokenMessageError(
                message.offset(),
                f"it is message {_dotted(indexes)} of its schema, and the load is of message "
                f"{_dotted(self._indexes)}",
                b"",
            )
        return payload

    def _written(self, registry: SchemaRegistry) -> str:
        """Write the schema for the engine; return FILE:MESSAGE."""
        schema = registry.schema(self._id)
        name = message_name(schema.text, self._indexes)
        if not name:
            raise SourceError(
                f"the schema {self._id} of {registry.url} has no message {_dotted(self._indexes)}"
            )
        if "." in name:
            raise SourceError(
                f"messages of {name} cannot be read: the engine reads only messages that stand in "
                "no other one"
            )
        folder = Path(tempfile.mkdtemp(prefix="rowfall-schema-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        files = {"schema.proto": schema.text, **schema.references}
        plain = _NOISE.sub(_without_comment, "\n".join(files.values()))
        for imported in _IMPORT.findall(plain):
            if imported in _WELL_KNOWN:
                files.setdefault(_OURS + imported, _WELL_KNOWN[imported])
            elif imported not in files:
                raise SourceError(
                    f"the schema {self._id} of {registry.url} imports {imported}, which is not "
                    "among its references",
                    hint="Give a file with all of it: --set format_schema=orders.proto:Order",
                )
        for path, text in files.items():
            at = (folder / path).resolve()
            if not at.is_relative_to(folder.resolve()):
                raise SourceError(f"the schema {self._id} of {registry.url} is named {path}")
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_text(_IMPORT.sub(_from_ours, text))
        return f"{folder / 'schema.proto'}:{name}"


def message_name(text: str, indexes: Sequence[int]) -> str:
    """Return the name of a message of a schema: of a nested one with those around it.

    Args:
        indexes: its place among the messages of the file, then of that message, and so on.

    Returns:
        "" where there is none.
    """
    tops: list[tuple[str, list[Any]]] = []
    # Of blocks that are no messages nobody asks.
    inside: list[list[Any]] = [tops]
    words: list[str] = []
    for word in _WORD.findall(_NOISE.sub(" ", text)):
        if word == "{":
            nested: list[Any] = []
            if words[:1] == ["message"] and len(words) > 1:
                inside[-1].append((words[1], nested))
            inside.append(nested)
        elif word == "}" and len(inside) > 1:
            inside.pop()
        if word in "{};":
            words = []
        else:
            words.append(word)
    names, level = [], tops
    for index in indexes:
        if index >= len(level):
            return ""
        name, level = level[index]
        names.append(name)
    return ".".join(names)


def _without_comment(found: re.Match[str]) -> str:
    return " " if found[0][0] == "/" else found[0]


def _from_ours(found: re.Match[str]) -> str:
    """Return an import, of a well-known schema from where it is written."""
    path = found[1]
    return found[0].replace(path, _OURS + path) if path in _WELL_KNOWN else found[0]


def _checked(file: str) -> str:
    """Return FILE:MESSAGE with the path in full.

    Raises:
        UsageError: it is none.
    """
    path, _, name = file.rpartition(":")
    if not path or not name or not Path(path).is_file():
        raise UsageError(
            f"{SETTING}={file} is not a file and message",
            hint="Write --set format_schema=orders.proto:Order",
        )
    return f"{Path(path).resolve()}:{name}"


def _unframed(message: Any) -> tuple[tuple[int, ...], bytes]:
    """Return the index path of a message's type within its schema, and the message's content.

    Raises:
        BrokenMessageError: the message ends before its content.
    """
    value = message.value()
    if value[PREFIX : PREFIX + 1] == b"\0":  # the usual one: the first
        return (0,), value[PREFIX + 1 :]
    found: list[int] = []
    wanted, at, number, shift = 1, PREFIX, 0, 0
    while len(found) < wanted and at < len(value):
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            number = number >> 1 ^ -(number & 1)
            if not found:  # the first one is how many follow
                wanted = 1 + max(0, number)
            found.append(number)
            number = shift = 0
    if len(found) < wanted or min(found) < 0:
        raise BrokenMessageError(
            message.offset(), "it does not say which message of its schema it is", value
        )
    return tuple(found[1:]), value[at:]


def _dotted(indexes: Sequence[int]) -> str:
    return ".".join(map(str, indexes))
