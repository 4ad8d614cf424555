"""Tables of databases that take rows as text in transactions; PostgreSQL and others derive.

An engine of this process reads the source and writes the rows as text into a named pipe, as it
would write a file; what comes out of the pipe is sent to the database. So the INTO part names a
file, and a dialect says which format, which types, and how the table is made.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar, Self

from rowfall.core import file_databases, passwords, sql, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.masked import MASK, Secret
from rowfall.core.model import Column, Encoding, Projection, Schema
from rowfall.core.native import NativeTable
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import Options
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.type_names import parse_type
from rowfall.targets.base import (
    STAGING_PREFIX,
    Caps,
    Publish,
    Scratch,
    scratch_folder,
    state_folder,
)

PROMISE = (
    "exactly once: rows and the record of their files are committed in one transaction, so a "
    "re-run after a crash loads only what is missing"
)
RECORD_NAME = "rowfall.record"
"""Option of an address: the name of the record of what is loaded, where it has one of its own."""
# Options of a table that is made, or of how rows become visible there.
_OF_TABLES = (
    "engine", "order_by", "partition_by", "shard_key", "unlogged", "replace", "atomic", "direct",
    "upsert", "widen", "wait",
)  # fmt: skip
# What does it there.
_INSTEAD = {
    "upsert": "--on-conflict replace puts rows in the place of those with their key.",
    "replace": "Delete its rows with a client of the database (DELETE FROM), then load with "
    "--force.",
}


@dataclass(frozen=True, slots=True)
class RowFormat:
    """The form of rows for a database, as each writer names it.

    Attributes:
        engine: the name that the engine has for it.
        decoder: the name that rowfall-decode has for it; "" where it does not write it.
        name: what people call it.
        settings: with which the engine writes.
    """

    engine: str = "TSV"
    decoder: str = ""
    name: str = "text"
    settings: Mapping[str, str] = field(default_factory=dict)


class TransactionalTable:
    """One table of a database; a dialect derives from it.

    Attributes:
        scheme: of the URI. ``port``, ``password_variable``: where the URI has none.
        settings: parameters of the URI that go to the driver.
        rows: the form in which it takes rows.
        zeros_in_text: see :class:`rowfall.targets.base.DeclaresTypes`.
        takes_back: rows of an attempt that fails are rolled back.
        takes: options of tables that the dialect knows.
        in_process: the database runs here, and one transaction uses all cores.
    """

    scheme: ClassVar[str]
    port: ClassVar[int]
    password_variable: ClassVar[str]
    settings: ClassVar[tuple[str, ...]] = ()
    rows: RowFormat = RowFormat()
    takes_back: bool = True
    zeros_in_text: bool = True
    takes: ClassVar[frozenset[str]] = frozenset()
    in_process: ClassVar[bool] = False
    facts: ClassVar[Caps] = Caps(Publish.TRANSACTION, PROMISE)

    def __init__(
        self, text: str, table: str, options: Options, password: Secret | None = None
    ) -> None:
        self.options = options
        for name in _OF_TABLES:
            if getattr(options, name) and name not in self.takes:
                raise UsageError(
                    f"--{name.replace('_', '-')} is not for tables of {self.scheme}://",
                    hint=_INSTEAD.get(name, "Make the table as you want it before the load, or "
                                      "leave it out."),
                )  # fmt: skip
        at, (self.database, self.table) = self.located(text, table, password)
        self.address: ServerAt | None = at
        self.server: ServerAt | None = None
        self.folder: Path | None = None
        # Without the password, not with a mask in its place: the text can be pasted and used.
        self.text = uri.mask(self.completed(text)).replace(f":{MASK}@", "@")
        path = at.options["database"]
        digest = blake2b(f"{at.host}:{at.port}/{path}".encode(), digest_size=4).hexdigest()
        # Without a host the database is in a file, whose path may be long.
        place = f"{at.host}-{at.port}-{path}" if at.host else f"{at.kind}-{os.path.basename(path)}"
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", place)
        self.ledger_path = state_folder() / f"{name}-{digest}.ledger"
        self.secrets: tuple[Secret, ...] = (at.password,) if at.password else ()
        self.caps = self.facts

    # --- what a dialect says ----------------------------------------------------------------------

    def completed(self, text: str) -> str:
        """Return an address with what its text leaves out and the client's settings say.

        Raises:
            UsageError: these settings cannot be read.
        """
        return text

    def located(
        self, text: str, table: str, password: Secret | None
    ) -> tuple[ServerAt, tuple[str, str]]:
        """Return the address that a text names, and what holds the table and its own name.

        Raises:
            UsageError: it names no database, or more, or has parameters that are not known.
        """
        where = uri.parse(self.completed(text))
        path = where.path.strip("/")
        example = f"{self.scheme}://{where.user or 'user'}@{where.host or 'host'}/database"
        if not path or "/" in path:
            raise UsageError(
                f"{where.text} names {'one table too many' if path else 'no database'}",
                hint=f"Write --to {example} --table NAME.",
            )
        given = dict(where.query)
        own = self.named_in(given, path, table)
        for name in given:
            if name not in self.settings:
                raise UsageError(
                    f"{self.scheme}:// has no parameter {name!r}",
                    hint=f"{did_you_mean(name, self.settings)}Parameters: "
                    f"{', '.join(self.settings)}.",
                )
        found = os.environ.get("ROWFALL_PASSWORD") or os.environ.get(self.password_variable)
        secret = password or where.password or (Secret(found) if found else None)
        secret = secret or passwords.given(self.completed(text))
        host = given.pop("host", "") or given.get("socket") or where.host or "localhost"
        first = given.get("port", "").partition(",")[0]
        port = int(first) if first.isdigit() else where.port or self.port
        options = {**given, "database": path}
        return ServerAt(host, port, False, where.user, secret, options, kind=self.scheme), own

    def named_in(self, given: dict[str, str], path: str, table: str) -> tuple[str, str]:
        """Return the database or schema that holds the table, and the table's own name.

        Args:
            given: parameters of the URI; those that are no settings of the driver are taken out.
            path: of the URI: the database.
        """
        database, _, name = table.rpartition(".")
        return database or path, name

    def declared(self, column: Column) -> str:
        return self.column_type(column)

    def column_type(self, column: Column) -> str:
        """Return the type of a column in a new table.

        Raises:
            UsageError: there is none.
        """
        raise NotImplementedError

    def written_type(self, column: Column) -> str:
        """Return the type as which the engine writes a column: that decides how its text looks."""
        return column.type

    def written(self, column: Column) -> str:
        """Return SQL of the engine that gives the text of a column; "" where its own will do."""
        return ""

    def only_engine_writes(self, column: Column) -> bool:
        """Tell whether rowfall-decode cannot write the text of a column: it writes flat values."""
        type_ = parse_type(column.type)
        flat = not type_.nested and type_.base != "JSON"
        return not self.rows.decoder or not flat or bool(self.written(column))

    def writes_binary(self, schema: Schema) -> bool:
        """Tell whether a table that is made for a schema takes its rows in binary, if any does."""
        return True

    def create(self, schema: Schema, table: str = "") -> tuple[SqlText, ...]:
        raise NotImplementedError

    def command(self, schema: Schema) -> str:
        """Return the command that takes the rows, for plans."""
        raise NotImplementedError

    def command_of_binary(self, schema: Schema) -> str:
        """Return the command that takes the rows in binary, for plans."""
        return self.command(schema)

    # --- what they share --------------------------------------------------------------------------

    def sent(self, schema: Schema) -> Schema:
        """Return the schema whose columns are as they are sent: text where the type needs it."""
        texts = {c.name: found for c in schema.columns if (found := self.written(c))}
        if not texts:
            return schema
        if schema.projection is not None:
            raise UsageError(
                f"{', '.join(texts)}: --select cannot give columns of this type here",
                hint="Turn it into text in --select: toString(column) AS column.",
            )
        columns = tuple(
            Column(c.name, "Nullable(String)" if c.name in texts else c.type, source=c.name)
            for c in schema.columns
        )
        # An expression is over the column in its own type, which the inner SELECT has made of it.
        return replace(schema, columns=columns, projection=Projection(
            schema.columns, self.select_written(schema.columns)
        ))  # fmt: skip

    def select_written(self, columns: Sequence[Column]) -> str:
        """Return a SELECT list of columns as they are sent, over columns in their own types."""
        return ", ".join(
            f"{self.written(c) or sql.name(c.name)} AS {sql.name(c.name)}" for c in columns
        )

    def column_lines(self, schema: Schema, quote: Callable[[str], str]) -> str:
        """Return the columns of a CREATE TABLE, with their names as ``quote`` gives them."""
        lines = []
        native = schema.layout.native or NativeTable("")
        for c in schema.columns:
            own = native.types.get(c.name)
            nullable = parse_type(c.type).nullable if own is None else own.nullable
            declared = self.column_type(c) if own is None else own.declared
            lines.append((quote(c.name), declared + ("" if nullable else " NOT NULL")))
        key = f",\n    PRIMARY KEY ({', '.join(map(quote, native.key))})" if native.key else ""
        return column_lines(lines) + key

    def into(self, staging: str, schema: Schema) -> SqlText:
        """Return the pipe ``staging`` as a file that the engine writes."""
        structure = sql.structure((c.name, self.written_type(c)) for c in schema.columns)
        format_ = quote(self.rows.engine)
        return SqlText.of(f"FUNCTION file({quote(staging)}, {format_}, {quote(structure)}, 'none')")

    def staging_name(self, attempt_id: str, number: int, encoding: Encoding | None) -> str:
        return f"{STAGING_PREFIX}{attempt_id}"

    def scratch(self, name: str, ledger: Path) -> Scratch:
        """See :class:`rowfall.targets.base.Target`; with a record of its own."""
        found = copy.copy(self)
        found.table, found.ledger_path = name, ledger
        return Scratch(found._at({RECORD_NAME: f"{name}_loaded"}), like=self.table)

    def _at(self, options: Mapping[str, str]) -> Self:
        """Put more options into the address of a copy, and return it."""
        at = self.address
        assert at is not None  # noqa: S101 - a database has one
        self.address = replace(at, options={**at.options, **options})
        return self


class TableInFile(TransactionalTable):
    """One table of a database in a file: ``scheme:///path/of/the.file``, or the path alone.

    Attributes:
        schema: where neither ``--table`` nor the parameter ``schema`` names one.
    """

    schema: ClassVar[str]
    in_process: ClassVar[bool] = True
    facts: ClassVar[Caps] = Caps(
        Publish.TRANSACTION, PROMISE, folds_case=True,
        alone="a file takes one writer, which uses all cores",
    )  # fmt: skip

    def located(
        self, text: str, table: str, password: Secret | None
    ) -> tuple[ServerAt, tuple[str, str]]:
        path, behind, given = file_databases.located(text, ("schema", *self.settings))
        if behind:
            raise UsageError(
                f"{text} names one table too many", hint=f"Write --to {path} --table {behind}."
            )
        schema, dot, name = table.partition(".")
        by_parameter = given.pop("schema", self.schema)
        own = (schema, name) if dot else (by_parameter, table)
        options = {**given, "database": path}
        return ServerAt("", 0, False, "", None, options, kind=self.scheme), own

    def scratch(self, name: str, ledger: Path) -> Scratch:
        """See :class:`rowfall.targets.base.Target`; in a file of its own: one never shrinks."""
        found = copy.copy(self)
        found.table, found.ledger_path, found.database = name, ledger, self.schema
        assert self.address is not None  # noqa: S101 - a database has one
        path = Path(self.address.options["database"])
        own = scratch_folder(path, name)
        return Scratch(found._at({"database": str(own / path.name)}), own)


def column_lines(columns: Sequence[tuple[str, str]]) -> str:
    """Return the columns of a CREATE TABLE, one a line; names are quoted already."""
    width = max(len(name) for name, _ in columns)
    return ",\n".join(f"    {name:<{width}} {type_}" for name, type_ in columns)
