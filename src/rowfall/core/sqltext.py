"""SQL text whose secrets stay masked until an engine reveals them; quoting of strings.

Apart from :mod:`rowfall.core.sql`, which renders the values of :mod:`rowfall.core.model`, because
those values hold SQL text themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from rowfall.core.dataclass import dataclass
from rowfall.core.masked import MASK, Secret


def quote(value: str) -> str:
    """Return a single-quoted string literal with ClickHouse's backslash escapes."""
    escaped = (
        value.replace("\\", "\\\\")
        .replace("'", "\\'")
        .replace("\0", "\\0")
        .replace("\n", "\\n")
        .replace("\r", "\\r")
        .replace("\t", "\\t")
    )
    return f"'{escaped}'"


def identifier(name: str) -> str:
    """Return a name as standard SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def qualified(schema: str, name: str) -> str:
    """Return the name of a table in its schema as standard SQL has it."""
    return f"{identifier(schema)}.{identifier(name)}"


def literal(text: str) -> str:
    """Return a string literal as standard SQL has it, where a backslash is a letter."""
    return "'" + text.replace("'", "''") + "'"


def quoted_list(values: Iterable[str]) -> str:
    """Return string literals with commas between them, as in ``IN (...)``."""
    return ", ".join(map(quote, values))


@dataclass(frozen=True, slots=True)
class SqlText:
    """SQL made of text and secrets: ``str(x)`` shows ``'[HIDDEN]'``, ``x.reveal()`` is for engines.

    A :class:`Secret` part stands for a whole string literal, quotes included.
    """

    parts: tuple[str | Secret, ...]

    @classmethod
    def of(cls, *parts: str | Secret | SqlText) -> SqlText:
        """Join text, secrets and other SQL."""
        flat: list[str | Secret] = []
        for part in parts:
            if isinstance(part, SqlText):
                flat.extend(part.parts)
            else:
                flat.append(part)
        return cls(tuple(flat))

    def reveal(self) -> str:
        """Return the real text; only engines may call this."""
        return "".join(p if isinstance(p, str) else quote(p.reveal()) for p in self.parts)

    def __str__(self) -> str:
        return "".join(p if isinstance(p, str) else f"'{MASK}'" for p in self.parts)
