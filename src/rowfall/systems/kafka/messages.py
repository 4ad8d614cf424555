"""Rows of messages: text that readers of files read, one message behind the other. Pure.

Each message has to end its own rows. One with a quote that is never closed would swallow those
behind it, and the rows of two messages would become one: such a message is refused by its offset.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rowfall.core import formats, units
from rowfall.core.errors import UsageError
from rowfall.core.model import Encoding
from rowfall.core.options import Options

# Characters of a broken message that an error shows.
_SHOWN = 80
_FORMATS = ("CSV", "TSV", "JSONEachRow")


class BrokenMessageError(ValueError):
    """A message is not a whole row."""

    def __init__(self, offset: int, text: str, value: bytes) -> None:
        super().__init__(text)
        self.offset = offset
        self.shown = value[:_SHOWN].decode("utf-8", "backslashreplace")


class Framing:
    """Makes text of the messages of one topic.

    A message here is what confluent-kafka gives: ``value()``, ``offset()`` and the like.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._format = ""
        self._delimiter = ","
        self._added = read_annotations(options)
        # An engine holds a record several times: 200 MB of one letter are 9 kB of zstd.
        self._most = units.parse_size(options.max_record)

    @property
    def annotations(self) -> tuple[str, ...]:
        """Return the names of the columns that are written behind those of each row."""
        return tuple(self._added)

    def encoding(self, head: bytes) -> Encoding:
        """Return the format by option, or by the first messages.

        Raises:
            UsageError: messages are not read in it.
        """
        options = self._options
        found = formats.find(options.format or formats.guess_text(head))
        if found.name not in _FORMATS:
            raise UsageError(
                f"messages are not read as {found.name}",
                hint=f"Formats of messages: {', '.join(_FORMATS)}; --columns gives names.",
            )
        self._format = found.name
        delimiter = formats.delimiter(options, found)
        self._delimiter = delimiter
        plain = Encoding(found.name, "none", found.kind, delimiter)
        return formats.with_dialect(plain, options)

    def split_by(self, delimiter: str) -> None:
        """Write what is added behind this delimiter, which the first messages have shown."""
        self._delimiter = delimiter

    def text(self, messages: Sequence[Any], *, bare: bool = False) -> bytes:
        """Return the rows of messages, each with a line end.

        Args:
            bare: without what is added.

        Raises:
            BrokenMessageError: one is not a whole row.
        """
        if self._added and not bare:
            self.check_sizes(messages)
            return b"".join(self._annotated(m) for m in messages if m.value())
        values = [value for message in messages if (value := message.value())]
        if max(map(len, values), default=0) > self._most:  # 20 ns each
            self.check_sizes(messages)
        text = b"\n".join(values)
        whole = _CHECKS.get(self._format)
        if whole is None or whole(text, values):
            if not text.endswith(b"\n") and b"\n\n" not in text:
                return text + b"\n" if values else b""
        else:
            for message in messages:
                _check(message, self._format)
        return b"".join(value.removesuffix(b"\n") + b"\n" for value in values)

    def check_sizes(self, messages: Sequence[Any]) -> None:
        """Check that no message is longer than ``--max-record``, before it is copied.

        Raises:
            BrokenMessageError: one is.
        """
        for message in messages:
            if len(message.value() or b"") > self._most:
                raise BrokenMessageError(
                    message.offset(),
                    f"a message of {units.memory(len(message.value()))}, more than --max-record "
                    f"{self._options.max_record}",
                    message.value(),
                )

    def _annotated(self, message: Any) -> bytes:
        """Return the rows of one message, each with what is added to it."""
        _check(message, self._format)
        value = message.value().removesuffix(b"\n")
        found = {name: _VALUES[what](message) for name, what in self._added.items()}
        if self._format == "JSONEachRow":
            pairs = json.dumps(found, ensure_ascii=False)[1:-1].encode()
            return b"".join(_with_keys(o, pairs) for o in _each_object(value, message))
        csv = self._format == "CSV"
        fields = [_csv_field(v) if csv else _tsv_field(v) for v in found.values()]
        end = "".join(f"{self._delimiter}{field}" for field in fields).encode() + b"\n"
        rows = _csv_rows(value) if csv else iter(value.split(b"\n"))
        return b"".join(row.removesuffix(b"\r") + end for row in rows)


# --- what is added to rows -----------------------------------------------------------------------


def _moment(message: Any) -> str | None:
    kind, milliseconds = message.timestamp()
    if not kind:
        return None
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03}"


def _headers(message: Any) -> str | None:
    headers = message.headers()
    if not headers:
        return None
    found: dict[str, Any] = {}
    for name, value in headers:
        text = _text_of(value)
        if name in found:
            before = found[name] if isinstance(found[name], list) else [found[name]]
            found[name] = [*before, text]
        else:
            found[name] = text
    return json.dumps(found, ensure_ascii=False)


def _text_of(value: bytes | str | None) -> str | None:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


_VALUES: Mapping[str, Callable[[Any], int | str | None]] = {
    "_offset": lambda message: int(message.offset()),
    "_partition": lambda message: int(message.partition()),
    "_timestamp": _moment,
    "_key": lambda message: _text_of(message.key()),
    "_headers": _headers,
    "_topic": lambda message: str(message.topic()),
}


def read_annotations(options: Options) -> dict[str, str]:
    """Return the values of messages that ``--add-column`` asks for, by the column's name."""
    pairs = (text.partition("=") for text in options.add_column)
    found = {name.strip(): what.strip() for name, _, what in pairs}
    return {name: what for name, what in found.items() if what in _VALUES}


def check_not_added(added: Sequence[str], kind: str) -> None:
    """Check that nothing is to be written behind the rows of messages that are not text.

    Raises:
        UsageError: it is.
    """
    if added:
        raise UsageError(
            f"--add-column {added[0]} is for messages of text, and these are {kind}",
            hint="Leave it out; --add-column NAME=_path gives topic and partition.",
        )


def varint(number: int) -> bytes:
    """Return a number as Protobuf writes a length, and Avro twice the number."""
    if number < 0x80:
        return bytes((number,))
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _csv_field(value: int | str | None) -> str:
    if value is None or isinstance(value, int):
        return "" if value is None else str(value)
    doubled = value.replace('"', '""')
    return f'"{doubled}"'


_TSV_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _tsv_field(value: int | str | None) -> str:
    return "\\N" if value is None else str(value).translate(_TSV_ESCAPES)


def _csv_rows(value: bytes) -> Iterator[bytes]:
    """Give the rows of CSV whose quotes are all closed."""
    row = b""
    for line in value.split(b"\n"):
        row = row + b"\n" + line if row else line
        if row.count(b'"') % 2 == 0:
            yield row
            row = b""


def _each_object(value: bytes, message: Any) -> Iterator[bytes]:
    text = value.decode("utf-8", "surrogateescape")
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        try:
            _, end = decoder.raw_decode(text, at)
        except ValueError:
            raise BrokenMessageError(
                message.offset(), _BROKEN["JSONEachRow"], message.value()
            ) from None
        yield text[at:end].encode("utf-8", "surrogateescape")
        at = end
        while at < len(text) and text[at].isspace():
            at += 1


def _with_keys(text: bytes, pairs: bytes) -> bytes:
    rest = text[1:].lstrip()
    return b"{" + pairs + (b"}\n" if rest == b"}" else b", " + rest + b"\n")


# --- whole messages ------------------------------------------------------------------------------


def _check(message: Any, format: str) -> None:
    value = message.value()
    if value and not _CHECKS[format](value, (value,)):
        raise BrokenMessageError(message.offset(), _BROKEN[format], value)


def _closed(text: bytes, values: Sequence[bytes]) -> bool:
    """Tell whether every message of CSV closes its quotes."""
    # A count for each message, in one list: a quarter of what a call for each costs.
    return b'"' not in text or not any([value.count(b'"') & 1 for value in values])


def _ended(text: bytes, values: Sequence[bytes]) -> bool:
    """Tell whether no message of TSV ends in a backslash, which would hide the line end."""
    return b"\\" not in text or not any(
        (len(value) - len(value.rstrip(b"\\"))) & 1 for value in values if value[-1] == 0x5C
    )


def _objects(text: bytes, values: Sequence[bytes]) -> bool:
    """Tell whether every message of JSON is one object, or some."""
    return all(
        (value[0] == 0x7B and value[-1] == 0x7D) or _is_object(value.strip()) for value in values
    )


def _is_object(value: bytes) -> bool:
    return not value or (value[:1] == b"{" and value[-1:] == b"}")


_CHECKS: dict[str, Callable[[bytes, Sequence[bytes]], bool]] = {
    "CSV": _closed, "TSV": _ended, "JSONEachRow": _objects,
}  # fmt: skip
_BROKEN = {
    "CSV": "a quote is opened in this message and not closed",
    "TSV": "the message ends in a backslash, which hides the end of its row",
    "JSONEachRow": "the message is no JSON object",
}
