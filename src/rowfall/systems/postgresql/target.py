"""A table of PostgreSQL: ``postgresql://user@host:port/database``; rows come by COPY."""

from __future__ import annotations

from typing import ClassVar

from rowfall.core import sql
from rowfall.core.errors import UsageError
from rowfall.core.model import Column, Schema
from rowfall.core.sqltext import SqlText, identifier, qualified
from rowfall.core.type_names import parse_type
from rowfall.systems.postgresql.client import PASSWORD_VARIABLE, PORT, SETTINGS
from rowfall.systems.postgresql.conninfo import completed
from rowfall.systems.postgresql.types import (
    NESTED,
    SECOND_DIGITS,
    STRINGS,
    declared_type,
    takes_binary,
)
from rowfall.targets.transactional import RowFormat, TransactionalTable

# Longer names are cut without an error.
_LONGEST = 63
_TOO_FINE = sql.literal(", of which PostgreSQL keeps six digits of a second")
_ELEMENT = (
    r"""if(isNull(e), 'NULL', concat('"', replaceAll(replaceAll(assumeNotNull({}), """
    r"""'\\', '\\\\'), '"', '\\"'), '"'))"""
)


class PostgresTarget(TransactionalTable):
    """Rows go to ``schema.table`` of a database."""

    scheme: ClassVar[str] = "postgresql"
    port: ClassVar[int] = PORT
    password_variable: ClassVar[str] = PASSWORD_VARIABLE
    settings: ClassVar[tuple[str, ...]] = SETTINGS
    rows: RowFormat = RowFormat(decoder="PostgreSQL")
    zeros_in_text: bool = False
    takes: ClassVar[frozenset[str]] = frozenset({"unlogged", "replace"})
    native: str = "postgresql"

    def completed(self, text: str) -> str:
        """See :class:`rowfall.targets.transactional.TransactionalTable`: as libpq does."""
        return completed(text)

    def named_in(self, given: dict[str, str], path: str, table: str) -> tuple[str, str]:
        """Return schema and table: ``--table SCHEMA.NAME``, or the parameter ``schema``."""
        schema, dot, name = table.partition(".")
        by_parameter = given.pop("schema", "")
        if not dot:
            schema, name = by_parameter or "public", table
        if not schema or not name:
            raise UsageError(f"--table {table!r} names no table", hint="Write --table SCHEMA.NAME.")
        return schema, name

    def column_type(self, column: Column) -> str:
        return declared_type(column)

    def written_type(self, column: Column) -> str:
        """See :class:`rowfall.targets.transactional.TransactionalTable`.

        A moment is written in UTC, as the session reads it; what has no zone as it is shown.
        """
        type_ = parse_type(column.type)
        found = type_.bare
        if type_.base in ("DateTime", "DateTime32") and "'" in type_.args:
            found = "DateTime('UTC')"
        elif type_.base == "DateTime64" and "'" in type_.args:
            found = f"DateTime64({type_.digits}, 'UTC')"
        elif type_.base in ("JSON", "Variant", "Dynamic"):
            found = "String"
        return f"Nullable({found})" if type_.nullable else found

    def written(self, column: Column) -> str:
        type_, name = parse_type(column.type), sql.name(column.name)
        if column.binary and type_.base in STRINGS:
            return _hex(name)
        if type_.base == "FixedString":
            return f"toString({name})"  # cuts the zeros at its end; the server refuses others
        if type_.base == "Array" and parse_type(type_.args).base not in NESTED:
            binary = column.binary and parse_type(type_.args).base in STRINGS
            element = _ELEMENT.format(_hex("e") if binary else "toString(e)")
            return f"concat('{{', arrayStringConcat(arrayMap(e -> {element}, {name}), ','), '}}')"
        if type_.nested:
            return f"toJSONString({name})"
        if type_.base == "DateTime64" and type_.digits > SECOND_DIGITS:
            zone = ", 'UTC'" if "'" in type_.args else ""
            cut = f"toDateTime64({name}, {SECOND_DIGITS}{zone})"
            # The server refuses the text, and so the row and its value are named.
            fine = f"concat(toString({name}), {_TOO_FINE})"
            return f"if(ifNull({name} != {cut}, 0), {fine}, toString({cut}))"
        return ""

    def only_engine_writes(self, column: Column) -> bool:
        # Whose end it cuts as the engine does.
        cut = parse_type(column.type).base == "FixedString" and not column.binary
        return not cut and super().only_engine_writes(column)

    def writes_binary(self, schema: Schema) -> bool:
        native = schema.layout.native
        types = {} if native is None else native.types
        return all(takes_binary(types[c.name].name, c.type) for c in schema.columns
                   if c.name in types)  # fmt: skip

    def create(self, schema: Schema, table: str = "") -> tuple[SqlText, ...]:
        long = [c.name for c in schema.columns if len(c.name.encode()) > _LONGEST]
        if long:
            raise UsageError(
                f"PostgreSQL cuts names of more than {_LONGEST} bytes: {long[0]}",
                hint="Give it another one with --rename OLD=NEW.",
            )
        columns = self.column_lines(schema, identifier)
        kind = "UNLOGGED TABLE" if self.options.unlogged else "TABLE"
        at = qualified(self.database, table or self.table)
        return (SqlText.of(f"CREATE {kind} IF NOT EXISTS {at} (\n{columns}\n)"),)

    def command(self, schema: Schema) -> str:
        names = ", ".join(identifier(c.name) for c in schema.columns)
        at = qualified(self.database, self.table)
        return f"COPY {at} ({names}) FROM STDIN"

    def command_of_binary(self, schema: Schema) -> str:
        return f"{self.command(schema)} (FORMAT binary)"


def _hex(x: str) -> str:
    """Return SQL of the text of bytes, as the server writes it."""
    return f"concat('\\\\x', lower(hex({x})))"
