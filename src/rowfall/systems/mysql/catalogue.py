"""Reads the catalogue of a server: one question for the columns of a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.systems.mysql.client import quote

TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_GENERATED = ("VIRTUAL", "STORED", "PERSISTENT", "GENERATED", "COMPUTED")
BLOBS = frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"})


@dataclass(frozen=True, slots=True)
class DecimalDigits:
    """Digits of a decimal; ``scale`` of them are behind the point."""

    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class MySQLColumn:
    """A column as the catalogue describes it.

    Attributes:
        kind: ``DATA_TYPE`` in lower case, ``whole``: ``COLUMN_TYPE`` (``int(10) unsigned``).
        decimal: of decimals; ``precision`` of other numbers, too. ``digits`` of a second.
        length: in bytes, of BINARY.
        charset: "" for what is not text.
        extra: ``EXTRA`` in upper case; ``default``: None for none.
    """

    name: str
    kind: str
    whole: str
    nullable: bool
    decimal: DecimalDigits = DecimalDigits()
    digits: int = 0
    length: int = 0
    charset: str = ""
    extra: str = ""
    default: str | None = None

    @property
    def bytes(self) -> bool:
        """True where any byte may be in a value."""
        text = self.kind in TEXTS and self.charset == "binary"
        return text or self.kind in BLOBS or self.kind == "binary"

    @property
    def computed(self) -> bool:
        """True where the server computes the values."""
        # DEFAULT_GENERATED is a default of MySQL 8 that is an expression.
        words = self.extra.replace("DEFAULT_GENERATED", "").split()
        return any(word in words for word in _GENERATED)

    @property
    def unsigned(self) -> bool:
        """True for a number that is never negative."""
        return "unsigned" in self.whole or "zerofill" in self.whole


def is_table(database: str, table: str) -> str:
    """Return SQL that is true of the rows of information_schema about a table."""
    return f"TABLE_SCHEMA = {quote(database)} AND TABLE_NAME = {quote(table)}"


def columns_query(database: str, table: str) -> str:
    """Return the question for the columns of a table, whose rows :func:`declared` takes."""
    return (
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, NUMERIC_PRECISION, "
        "NUMERIC_SCALE, DATETIME_PRECISION, CHARACTER_MAXIMUM_LENGTH, CHARACTER_SET_NAME, "
        f"EXTRA, COLUMN_DEFAULT FROM information_schema.COLUMNS WHERE {is_table(database, table)} "
        "ORDER BY ORDINAL_POSITION"
    )


def declared(rows: Iterable[Sequence[Any]]) -> list[MySQLColumn]:
    """Return the columns that the catalogue has described; [] for a table that is not there."""
    return [
        MySQLColumn(
            str(column), str(kind).lower(), str(whole), null == "YES",
            DecimalDigits(int(precision or 0), int(scale or 0)), int(digits or 0),
            int(length or 0), str(charset or ""), str(extra or "").upper(), default,
        )
        for column, kind, whole, null, precision, scale, digits, length, charset, extra, default
        in rows
    ]  # fmt: skip
