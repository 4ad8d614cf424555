"""Rows of messages: text that readers of files read, one message behind the other. Pure.

Each message has to end its own rows. One with a quote that is never closed would swallow those
behind it, and the rows of two messages would become one: such a message is refused by its offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rowfall.core import formats
from rowfall.core.errors import UsageError
from rowfall.core.model import Encoding
from rowfall.core.options import Options

# Characters of a broken message that an error shows.
_SHOWN = 80
_FORMATS = ("CSV", "TSV", "JSONEachRow")


class BrokenMessageError(ValueError):
    """A message is no whole row."""

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
        plain = Encoding(found.name, "none", found.kind, delimiter)
        return formats.with_dialect(plain, options)

    def text(self, messages: Sequence[Any]) -> bytes:
        """Return the rows of messages, each with a line end.

        Raises:
            BrokenMessageError: one is no whole row.
        """
        values = [value for message in messages if (value := message.value())]
        text = b"\n".join(values)
        whole = _CHECKS.get(self._format)
        if whole is None or whole(text, values):
            if not text.endswith(b"\n") and b"\n\n" not in text:
                return text + b"\n" if values else b""
        else:
            for message in messages:
                _check(message, self._format)
        return b"".join(value.removesuffix(b"\n") + b"\n" for value in values)


def _check(message: Any, format: str) -> None:
    value = message.value()
    if value and not _CHECKS[format](value, (value,)):
        raise BrokenMessageError(message.offset(), _BROKEN[format], value)


def _closed(text: bytes, values: Sequence[bytes]) -> bool:
    """Tell whether no message of CSV holds quotes; of a single one, whether all are closed."""
    quotes = text.count(b'"')
    return not quotes or (len(values) == 1 and quotes % 2 == 0)


def _ended(text: bytes, values: Sequence[bytes]) -> bool:
    """Tell whether no message of TSV ends in a backslash, which would hide the line end."""
    return b"\\" not in text or (
        len(values) == 1 and (len(text) - len(text.rstrip(b"\\"))) % 2 == 0
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
