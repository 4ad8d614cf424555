"""Tables of MySQL, MariaDB and SingleStore: ``mysql://user@host:3306/database``.

Columns get the types that hold every value of theirs; sessions write times in UTC, so what has a
zone of its own is written in UTC. What has no counterpart (arrays, maps) is JSON.
"""

from __future__ import annotations

import json
import re
from typing import ClassVar

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret
from rowfall.core.model import Column, Schema
from rowfall.core.native import NativeTable
from rowfall.core.options import REPLACE, SKIP
from rowfall.core.patterns import regex
from rowfall.core.s3_access import Access
from rowfall.core.sqltext import SqlText
from rowfall.core.type_names import Type, parse_type
from rowfall.systems.mysql.client import (
    PARAMETERS,
    PASSWORD_VARIABLE,
    PORT,
    TSV_LINES,
    name,
    quote,
)
from rowfall.systems.mysql.native import AUTO_INCREMENT
from rowfall.systems.mysql.option_files import completed
from rowfall.targets.transactional import RowFormat, TransactionalTable, column_lines

_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}
_INTEGER = regex(r"(U?)Int(\d+)\Z")
# The longest integers as text, with their sign.
_DIGITS = {128: 39, 256: 78}
# Of DECIMAL. ClickHouse has up to 76 digits.
_MOST_DIGITS, _MOST_SCALE = 65, 30
_MOST_TIME_DIGITS = 6
_MOST_BINARY = 255
_MEMBER = regex(r"'((?:[^'\\]|\\.|'')*)'\s*=")
_MOST_MEMBERS = 65_535
# A column in a key: 3,072 bytes are the most of all of them, four for each character.
_KEY_CHARACTERS = 255
_WORD = regex(r"`([^`]+)`|([A-Za-z_]\w*)")
_JSON = frozenset({
    "Array", "Map", "Tuple", "Variant", "Dynamic", "JSON", "Object", "Point", "Ring",
    "LineString", "MultiLineString", "Polygon", "MultiPolygon",
})  # fmt: skip
_STATES = ("AggregateFunction", "SimpleAggregateFunction", "Nothing")


class MySQLTable(TransactionalTable):
    """A table of MySQL or of MariaDB."""

    scheme: ClassVar[str] = "mysql"
    port: ClassVar[int] = PORT
    password_variable: ClassVar[str] = PASSWORD_VARIABLE
    settings: ClassVar[tuple[str, ...]] = PARAMETERS
    rows: RowFormat = RowFormat(decoder="MySQL")
    takes: ClassVar[frozenset[str]] = frozenset({"engine", "order_by", "partition_by", "replace"})

    native: str = "mysql"  # which of the two it is says the server

    def completed(self, text: str) -> str:
        """See :class:`rowfall.targets.transactional.TransactionalTable`: as the client does."""
        return completed(text)

    def column_type(self, column: Column) -> str:
        found = self._bare(column, parse_type(column.type))
        null = "NULL" if parse_type(column.type).nullable else "NOT NULL"
        return f"{found} {null}"

    def _bare(self, column: Column, type_: Type) -> str:
        """Return the type without NULL or NOT NULL."""
        base, args = type_.base, type_.args
        if base in _STATES:
            raise UsageError(
                f"{column.name} {column.type} has no type in {self.scheme}://",
                hint="Leave the column out, or load the value that it stands for.",
            )
        if found := _INTEGER.match(base):
            bits = int(found[2])
            if bits in _DIGITS:
                digits = _DIGITS[bits]
                return f"DECIMAL({digits}, 0)" if digits <= _MOST_DIGITS else f"VARCHAR({digits})"
            return _INTEGERS[bits] + (" UNSIGNED" if found[1] else "")
        if base in ("String", "FixedString"):
            return self._text(column, base, args)
        if base == "Decimal":
            precision, scale = (int(part) for part in args.split(","))
            fits = precision <= _MOST_DIGITS and scale <= _MOST_SCALE
            return f"DECIMAL({precision}, {scale})" if fits else f"VARCHAR({precision + 3})"
        if base in ("DateTime64", "Time64"):
            digits = int(args.split(",")[0] or 3)
            return self._moment(base, digits)
        if base.startswith("Enum"):
            return _enum(args)
        plain = {
            "Float32": "FLOAT", "BFloat16": "FLOAT", "Float64": "DOUBLE", "Bool": "BOOLEAN",
            "Date": "DATE", "Date32": "DATE", "DateTime": "DATETIME", "Time": "TIME",
            **self._addresses(),
        }  # fmt: skip
        if base in plain:
            return plain[base]
        return "JSON" if base in _JSON else "LONGTEXT"

    def _text(self, column: Column, base: str, args: str) -> str:
        if base == "FixedString":
            return f"BINARY({args})" if int(args) <= _MOST_BINARY else f"VARBINARY({args})"
        in_key, kind = column.name in self._in_keys(), "BINARY" if column.binary else "CHAR"
        if in_key:
            return f"VAR{kind}({_KEY_CHARACTERS})"
        return "LONGBLOB" if column.binary else "LONGTEXT"

    def _moment(self, base: str, digits: int) -> str:
        if digits > _MOST_TIME_DIGITS:
            return "VARCHAR(32)"  # as text nothing of it is lost
        kind = "TIME" if base == "Time64" else "DATETIME"
        return f"{kind}({digits})" if digits else kind

    def _addresses(self) -> dict[str, str]:
        return {"UUID": "CHAR(36)", "IPv4": "VARCHAR(15)", "IPv6": "VARCHAR(39)"}

    def _in_keys(self) -> frozenset[str]:
        """Return the names that the keys of the table mention."""
        options = self.options
        keys = " ".join(filter(None, (options.order_by, options.partition_by, options.shard_key)))
        return frozenset(quoted or word for quoted, word in _WORD.findall(keys))

    def written_type(self, column: Column) -> str:
        type_ = parse_type(column.type)
        found = column.type
        if type_.base == "Bool":  # as a number, for true and false are none
            found = "UInt8"
        elif type_.base == "DateTime" and type_.args:
            found = "DateTime('UTC')"
        elif type_.base == "DateTime64" and "," in type_.args:
            found = f"DateTime64({type_.args.split(',')[0]}, 'UTC')"
        else:
            return found
        return f"Nullable({found})" if type_.nullable else found

    def written(self, column: Column) -> str:
        type_ = parse_type(column.type)
        return f"toJSONString({name(column.name)})" if type_.base in _JSON else ""

    def create(self, schema: Schema, table: str = "") -> tuple[SqlText, ...]:
        if schema.exists and not table:
            return ()
        native = schema.layout.native or NativeTable("")
        columns = [(name(c.name), self._declared(c, native)) for c in schema.columns]
        lines = [column_lines(columns), *(f"    {key}" for key in self._keys(native))]
        text = (
            f"CREATE TABLE IF NOT EXISTS {name(self.database)}.{name(table or self.table)}\n(\n"
            + ",\n".join(lines)
            + f"\n)\n{self._tail(native)}"
        )
        return (SqlText.of(text),)

    def _declared(self, column: Column, native: NativeTable) -> str:
        """Return how a column is declared: as that of the source, where it is of the same kind."""
        own = native.types.get(column.name)
        if own is None:
            return self.column_type(column)
        # A column that counts has to be the first of a key.
        begins = [key[:1] == (column.name,) for key in (native.key,) if not self.options.order_by]
        begins += [f"({name(column.name)}" in key.text for key in native.keys if not key.check]
        if AUTO_INCREMENT in own.declared and not any(begins):
            return own.declared.replace(AUTO_INCREMENT, "", 1)
        return own.declared

    def writes_binary(self, schema: Schema) -> bool:
        """See :class:`rowfall.targets.transactional.TransactionalTable`.

        LOAD DATA leaves out what the server computes, and takes bits and years as numbers.
        """
        native = schema.layout.native or NativeTable("")
        return not any(one.name in ("bit", "year") or one.computed for one in native.types.values())

    def command(self, schema: Schema) -> str:
        columns = ", ".join(name(c.name) for c in schema.columns)
        at = f"{name(self.database)}.{name(self.table)}"
        return f"LOAD DATA LOCAL INFILE 'rowfall' INTO TABLE {at} {TSV_LINES} ({columns})"

    def command_of_binary(self, schema: Schema) -> str:
        columns = ", ".join(name(c.name) for c in schema.columns)
        marks = ", ".join("?" * len(schema.columns))
        return f"INSERT INTO {name(self.database)}.{name(self.table)} ({columns}) VALUES ({marks})"

    def _keys(self, native: NativeTable) -> list[str]:
        """Return the keys of a new table. InnoDB keeps rows in the order of the primary one."""
        key = self.options.order_by
        keys = [f"PRIMARY KEY ({bare_list(key)})"] if key else []
        if native.key and not key:
            keys.append(f"PRIMARY KEY ({', '.join(map(name, native.key))})")
        return keys + [one.text for one in native.keys]

    def _tail(self, native: NativeTable) -> str:
        """Return the clauses behind the columns of CREATE TABLE; text is compared byte by byte."""
        options = self.options
        parts = [f"ENGINE={options.engine}"] if options.engine else []
        parts.append(native.options or "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        if options.partition_by:
            parts.append(f"PARTITION BY {options.partition_by}")
        return "\n".join(parts)


class MariaDBTable(MySQLTable):
    """A table of MariaDB, which has types for addresses and ids."""

    scheme: ClassVar[str] = "mariadb"

    def _addresses(self) -> dict[str, str]:
        return {"UUID": "UUID", "IPv4": "INET4", "IPv6": "INET6"}


class SingleStoreTable(MySQLTable):
    """A table of SingleStore: columnar, its rows spread by SHARD KEY and sorted by SORT KEY."""

    scheme: ClassVar[str] = "singlestore"
    takes: ClassVar[frozenset[str]] = frozenset({"order_by", "shard_key", "pull"})

    def _moment(self, base: str, digits: int) -> str:
        # It keeps six digits of a second, or none.
        return super()._moment(base, digits and max(digits, _MOST_TIME_DIGITS))

    def _keys(self, native: NativeTable) -> list[str]:
        options = self.options
        keys = [f"SHARD KEY ({bare_list(options.shard_key)})"] if options.shard_key else []
        return keys + ([f"SORT KEY ({bare_list(options.order_by)})"] if options.order_by else [])

    def pipeline(self, own: str, path: str, access: Access, given: PipelineText) -> SqlText:
        """Return the statement that makes a pipeline of a bucket's CSV files.

        Args:
            own: its name. ``path``: bucket and pattern of the objects.
        """
        config = {"region": access.region}
        if access.endpoint:
            config["endpoint_url"] = access.endpoint
        keys = access.keys()
        credentials: dict[str, str] = {}
        if keys is not None:
            credentials = {
                "aws_access_key_id": keys.key_id, "aws_secret_access_key": keys.secret.reveal()
            }  # fmt: skip
            if keys.token:
                credentials["aws_session_token"] = keys.token.reveal()
        action = {SKIP: "SKIP DUPLICATE KEY ERRORS\n", REPLACE: "REPLACE\n"}
        return SqlText.of(
            f"CREATE PIPELINE IF NOT EXISTS {name(own)} AS LOAD DATA S3 {quote(path)}\n"
            f"CONFIG {quote(json.dumps(config))}\nCREDENTIALS ", Secret(json.dumps(credentials)),
            f"\n{action.get(self.options.on_conflict, '')}"
            f"INTO TABLE {name(self.table)}\n"
            f"FIELDS TERMINATED BY {quote(given.delimiter)} OPTIONALLY ENCLOSED BY '\"' "
            "ESCAPED BY '' LINES TERMINATED BY '\\n'"
            + (" IGNORE 1 LINES" if given.header else "")
            + f"\n({', '.join(map(name, given.columns))})\n"
            f"NULL DEFINED BY {quote(given.null)}",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PipelineText:
    """Format of the files of a pipeline.

    Attributes:
        columns: of the table, in the order of the fields. ``null``: what stands for NULL.
    """

    columns: tuple[str, ...]
    delimiter: str = ","
    null: str = ""
    header: bool = False


def bare_list(key: str) -> str:
    """Return a list of columns without the parentheses around all of it."""
    text = key.strip()
    while text.startswith("(") and text.endswith(")") and _closes_last(text):
        text = text[1:-1].strip()
    return text


def _closes_last(text: str) -> bool:
    """Tell whether the first parenthesis is closed by the last one."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return at == len(text) - 1
    return False


def _enum(args: str) -> str:
    """Return an ENUM; VARCHAR where its collation could not tell two members apart."""
    members = [re.sub(r"\\(.)", r"\1", found.replace("''", "'")) for found in _MEMBER.findall(args)]
    if len({m.rstrip(" ") for m in members}) < len(members) or len(members) > _MOST_MEMBERS:
        return f"VARCHAR({max(map(len, members), default=1)})"
    return f"ENUM({', '.join(map(quote, members))})"
