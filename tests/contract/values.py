"""Sources, targets and ways to compare for :mod:`contract.test_values`.

A source is one class with the methods of :class:`Source` and one line in :data:`SOURCES`; its
values are one :class:`Case` for each type in :data:`CASES`. A target is the same with
:class:`Target` and :data:`TARGETS`. Neither side is read by rowfall's own eyes: a source says its
values by a client of its own, and so does a target.
"""

from __future__ import annotations

import ipaddress
import itertools
import json
import os
import sqlite3
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pytest

from e2e.tools import Shell

_numbers = itertools.count()
NULL = "NULL"


@dataclass(frozen=True, slots=True)
class Case:
    """Values of one type.

    Attributes:
        source: a key of :data:`SOURCES`. ``type``: in its words.
        kind: how a text becomes a value that can be compared, a key of :data:`KINDS`; ``list`` and
            a kind for arrays of any depth.
        values: as the source takes them: literals of a database.
        options: of the load.
    """

    source: str
    type: str
    kind: str
    values: tuple[str, ...]
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.source} {self.type}"


class Source(Protocol):
    """A table, file or topic with the columns ``n`` (1, 2, ...) and ``v``.

    Attributes:
        name: that an error has to mention.
    """

    name: str

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None: ...

    def make(self, case: Case, numbers: Sequence[int]) -> dict[int, str | None]:
        """Make it anew with some values of a case, by their number from 1.

        Returns:
            What a client of its own says that they are: the text, None for NULL. Values that the
            source itself does not take are missing.
        """

    def arguments(self) -> tuple[str, ...]:
        """Return what comes behind ``rowfall load``."""


class Target(Protocol):
    """A table or a file that is loaded into."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None: ...

    def arguments(self) -> tuple[str, ...]:
        """Return ``--to`` and what belongs to it; each call names a new table."""

    def read(self, kind: str) -> dict[int, str | None]:
        """Return the values that a client of its own finds, by their number."""


# --- values ---------------------------------------------------------------------------------------


def _moment(text: str) -> object:
    """Return a moment in UTC, or one without a zone, as what comes before and behind the year."""
    text = text.strip().replace("T", " ").removesuffix("Z")
    for zone in ("+00:00", "+00"):
        text = text.removesuffix(zone)
    day, _, time = text.partition(" ")
    whole, _, fraction = time.partition(".")
    return day, whole or "00:00:00", fraction.rstrip("0")


def _time(text: str) -> object:
    whole, _, fraction = text.partition(".")
    return whole, fraction.rstrip("0")


def _boolean(text: str) -> bool:
    return {"t": True, "true": True, "1": True, "f": False, "false": False, "0": False}[
        text.lower()
    ]


def _decimal(text: str) -> object:
    return text if text == "NaN" else Decimal(text)


def _single(text: str) -> object:
    """Return the bits of a Float32: two texts of one number may differ."""
    return "nan" if text.lower() == "nan" else struct.pack("f", float(text))


def _double(text: str) -> object:
    return "nan" if text.lower() == "nan" else struct.pack("d", float(text))


KINDS: dict[str, Callable[[str], object]] = {
    "int": int, "decimal": _decimal, "float32": _single, "float64": _double, "bool": _boolean,
    "date": str, "time": _time, "moment": _moment, "text": str, "hex": str.lower,
    "uuid": uuid.UUID, "ip": lambda text: ipaddress.ip_interface(text), "json": json.loads,
}  # fmt: skip


def value_of(kind: str, text: str | None) -> object:
    """Return what a text stands for; None for NULL."""
    if text is None:
        return None
    if kind.startswith("list "):
        return _items(kind.removeprefix("list "), json.loads(text, parse_float=str, parse_int=str))
    try:
        return KINDS[kind](text)
    except (ValueError, KeyError, ArithmeticError):
        return f"no {kind}: {text!r}"


def _items(kind: str, items: Any) -> object:
    if isinstance(items, list):
        return [_items(kind, item) for item in items]
    if isinstance(items, bool):
        return items
    return value_of(kind, items)


# --- sources --------------------------------------------------------------------------------------


class PostgresqlSource:
    """A table of PostgreSQL, read by psycopg as text."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        self._server = request.getfixturevalue("postgresql")
        shell.env["PGPASSWORD"] = self._server.password
        self.name = f"values_{os.getpid()}_{next(_numbers)}"

    def make(self, case: Case, numbers: Sequence[int]) -> dict[int, str | None]:
        with self._server.connect() as connection:
            do = connection.execute
            do(f"DROP TABLE IF EXISTS {self.name}")
            do(f"CREATE TABLE {self.name} (n int PRIMARY KEY, v {case.type})")
            for n in numbers:
                do(f"INSERT INTO {self.name} VALUES ({n}, {case.values[n - 1]})")
            text = "v::text"
            if case.kind == "text":  # as the server shows it, and psql
                text = "CASE WHEN v IS NOT NULL THEN format('%s', v) END"
            if case.kind == "hex":
                text = "encode(v, 'hex')"
            elif case.kind.startswith("list "):
                text = "to_json(v)::text"
            do("SET TimeZone = 'UTC'")
            do("SET extra_float_digits = 3")
            return dict(do(f"SELECT n, {text} FROM {self.name}").fetchall())

    def arguments(self) -> tuple[str, ...]:
        return (f"{self._server.uri}/{self.name}",)


class MariaDBSource:
    """A table of MariaDB, read by PyMySQL as text."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        self._server = request.getfixturevalue("mariadb")
        self.name = f"values_{os.getpid()}_{next(_numbers)}"
        self._server.query("CREATE DATABASE IF NOT EXISTS contract")

    def make(self, case: Case, numbers: Sequence[int]) -> dict[int, str | None]:
        text = {
            "hex": "HEX(v)", "int": "CAST(v + 0 AS CHAR)", "float32": "CAST(v + 0e0 AS CHAR)",
        }.get(case.kind, "CAST(v AS CHAR)")  # fmt: skip
        rows = self._server.query(
            "SET time_zone = '+00:00'", f"DROP TABLE IF EXISTS {self.name}",
            f"CREATE TABLE {self.name} (n INT PRIMARY KEY, v {case.type} NULL) "
            "CHARACTER SET utf8mb4",
            *(f"INSERT INTO {self.name} VALUES ({n}, {case.values[n - 1]})" for n in numbers),
            f"SELECT n, {text} FROM {self.name}", database="contract",
        )  # fmt: skip
        return dict(rows)

    def arguments(self) -> tuple[str, ...]:
        return (self._server.uri(f"contract/{self.name}"),)


class ClickHouseSource:
    """A table of a ClickHouse server, read over HTTP as text."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        self._server = request.getfixturevalue("clickhouse")
        self.name = f"values_{os.getpid()}_{next(_numbers)}"

    def make(self, case: Case, numbers: Sequence[int]) -> dict[int, str | None]:
        do = self._server.query
        do("CREATE DATABASE IF NOT EXISTS contract")
        do(f"DROP TABLE IF EXISTS contract.{self.name} SYNC")
        do(f"CREATE TABLE contract.{self.name} (n UInt32, v {case.type}) ENGINE = MergeTree "
           "ORDER BY n")  # fmt: skip
        rows = ", ".join(f"({n}, {case.values[n - 1]})" for n in numbers)
        do(f"INSERT INTO contract.{self.name} VALUES {rows}")
        return _rows(do(
            f"SELECT n, {clickhouse_text(case.kind)} FROM contract.{self.name} FORMAT "
            "JSONCompactEachRow"
        ))  # fmt: skip

    def arguments(self) -> tuple[str, ...]:
        return (self._server.uri(f"contract/{self.name}"),)


class DuckDBSource:
    """A table in a file of DuckDB, read by DuckDB as text."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        self._file, self.name = shell.folder / "values.duckdb", f"values_{next(_numbers)}"

    def make(self, case: Case, numbers: Sequence[int]) -> dict[int, str | None]:
        rows = ", ".join(f"({n}, {case.values[n - 1]})" for n in numbers)
        with duckdb_at(self._file) as do:
            do(f"CREATE OR REPLACE TABLE {self.name} (n INT PRIMARY KEY, v {case.type})")
            do(f"INSERT INTO {self.name} VALUES {rows}")
            text = duckdb_text(case.kind)
            return dict(do(f"SELECT n, {text} FROM {self.name}").fetchall())

    def arguments(self) -> tuple[str, ...]:
        return (f"duckdb://{self._file}/{self.name}",)


@contextmanager
def duckdb_at(file: Path) -> Iterator[Any]:
    """Give what runs a statement in a file of DuckDB."""
    import duckdb

    with duckdb.connect(str(file)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection.execute


def duckdb_text(kind: str) -> str:
    """Return SQL of the text of ``v``, whatever type it has there."""
    if kind == "hex":
        return "lower(hex(v))"
    return "to_json(v)::VARCHAR" if kind.startswith("list ") else "v::VARCHAR"


class SQLiteSource:
    """A table in a file of SQLite, read by SQLite."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        self._file, self.name = shell.folder / "values.db", f"values_{next(_numbers)}"

    def make(self, case: Case, numbers: Sequence[int]) -> dict[int, str | None]:
        rows = ", ".join(f"({n}, {case.values[n - 1]})" for n in numbers)
        with closing(sqlite3.connect(self._file)) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {self.name}")
            connection.execute(f"CREATE TABLE {self.name} (n INTEGER PRIMARY KEY, v {case.type})")
            connection.execute(f"INSERT INTO {self.name} VALUES {rows}")
            connection.commit()
            found = connection.execute(f"SELECT n, v FROM {self.name}").fetchall()
        return {n: said(v, case.kind) for n, v in found}

    def arguments(self) -> tuple[str, ...]:
        return (f"sqlite://{self._file}/{self.name}",)


SOURCES: dict[str, Callable[[pytest.FixtureRequest, Shell], Source]] = {
    "postgresql": PostgresqlSource, "mariadb": MariaDBSource, "clickhouse": ClickHouseSource,
    "duckdb": DuckDBSource, "sqlite": SQLiteSource,
}  # fmt: skip


# --- targets --------------------------------------------------------------------------------------


def clickhouse_text(kind: str) -> str:
    """Return SQL of the text of ``v``, whatever type it has there."""
    if kind == "hex":
        return "lower(hex(v))"
    if kind.startswith("list "):
        return "toJSONString(v)"
    return "toString(v)"


def _rows(lines: str) -> dict[int, str | None]:
    return {int(n): v for n, v in map(json.loads, lines.splitlines())}


class EmbeddedTarget:
    """A folder, read by chDB."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        self._shell, self._table = shell, ""

    def arguments(self) -> tuple[str, ...]:
        self._table = f"v{next(_numbers)}"
        return ("--to", "data", "--table", self._table)

    def read(self, kind: str) -> dict[int, str | None]:
        done = self._shell.ok(
            "query", f"SELECT n, {clickhouse_text(kind)} FROM {self._table}", "--to", "data",
            "--format", "JSONCompactEachRow",
        )  # fmt: skip
        return _rows(done.out)


class EngineTarget(EmbeddedTarget):
    """The same; rows are read by the engine in place of rowfall-decode."""

    def arguments(self) -> tuple[str, ...]:
        return (*super().arguments(), "--decoder", "never")


class ServerTarget:
    """A server of 24.10, read over HTTP."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        self._server, self._table = request.getfixturevalue("clickhouse"), ""
        self._server.query("CREATE DATABASE IF NOT EXISTS contract")

    def arguments(self) -> tuple[str, ...]:
        self._table = f"v{os.getpid()}_{next(_numbers)}"
        return ("--to", self._server.uri("contract"), "--table", self._table)

    def read(self, kind: str) -> dict[int, str | None]:
        return _rows(self._server.query(
            f"SELECT n, {clickhouse_text(kind)} FROM contract.{self._table} FORMAT "
            "JSONCompactEachRow"
        ))  # fmt: skip


class PostgresqlTarget:
    """A table of PostgreSQL, read by psycopg."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        self._server, self._table = request.getfixturevalue("postgresql"), ""
        shell.env["PGPASSWORD"] = self._server.password

    def arguments(self) -> tuple[str, ...]:
        self._table = f"v{os.getpid()}_{next(_numbers)}"
        return ("--to", self._server.uri, "--table", self._table)

    def read(self, kind: str) -> dict[int, str | None]:
        with self._server.connect() as connection:
            do = connection.execute
            do("SET TimeZone = 'UTC'")
            ((type_,),) = do(
                "SELECT format_type(atttypid, -1) FROM pg_attribute WHERE attname = 'v' AND "
                f"attrelid = '{self._table}'::regclass"
            ).fetchall()
            text = "v::text"
            if kind == "text":  # as of the source: its own types are kept, and casts change them
                text = "CASE WHEN v IS NOT NULL THEN format('%s', v) END"
            if kind == "hex":
                text = "encode(v, 'hex')" if type_ == "bytea" else "encode(v::bytea, 'hex')"
            elif kind.startswith("list "):
                text = "to_json(v)::text"
            return dict(do(f"SELECT n, {text} FROM {self._table}").fetchall())


class MariaDBTarget:
    """A table of MariaDB, read by PyMySQL."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        self._server, self._table = request.getfixturevalue("mariadb"), ""
        self._server.query("CREATE DATABASE IF NOT EXISTS contract_into")

    def arguments(self) -> tuple[str, ...]:
        self._table = f"v{os.getpid()}_{next(_numbers)}"
        return ("--to", self._server.uri("contract_into"), "--table", self._table)

    def read(self, kind: str) -> dict[int, str | None]:
        text = {"hex": "HEX(v)", "float32": "CAST(v + 0e0 AS CHAR)"}.get(kind, "CAST(v AS CHAR)")
        ((type_,),) = self._server.query(
            "SELECT data_type FROM information_schema.columns WHERE column_name = 'v' AND "
            f"table_schema = 'contract_into' AND table_name = '{self._table}'"
        )
        if type_ == "bit":
            text = "CAST(v + 0 AS CHAR)"
        return dict(self._server.query(
            "SET time_zone = '+00:00'", f"SELECT n, {text} FROM {self._table}",
            database="contract_into",
        ))  # fmt: skip


class DuckDBTarget:
    """A table in a file of DuckDB, read by DuckDB."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        self._file, self._table = shell.folder / "into.duckdb", ""

    def arguments(self) -> tuple[str, ...]:
        self._table = f"v{next(_numbers)}"
        return ("--to", str(self._file), "--table", self._table)

    def read(self, kind: str) -> dict[int, str | None]:
        with duckdb_at(self._file) as do:
            return dict(do(f"SELECT n, {duckdb_text(kind)} FROM {self._table}").fetchall())


class FileTarget:
    """Lines of JSON, read by Python."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        self._shell, self._name = shell, ""

    def arguments(self) -> tuple[str, ...]:
        self._name = f"v{next(_numbers)}.jsonl"
        return ("--to", self._name)

    def read(self, kind: str) -> dict[int, str | None]:
        found: dict[int, str | None] = {}
        for line in (self._shell.folder / self._name).read_bytes().splitlines():
            row = json.loads(
                line.decode("utf-8", "surrogateescape"), parse_float=str, parse_int=str
            )
            value = row["v"]
            if isinstance(value, bool):
                value = str(value).lower()
            elif kind == "hex" and value is not None:
                value = value.encode("utf-8", "surrogateescape").hex()
            elif value is not None and not isinstance(value, str):
                value = json.dumps(value)
            found[int(row["n"])] = value
        return found


class IcebergTarget:
    """A table of Iceberg, read by pyiceberg."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        self._shell, self._name = shell, ""

    def arguments(self) -> tuple[str, ...]:
        self._name = f"lake{next(_numbers)}"
        return ("--to", f"iceberg+{self._shell.folder / self._name}")

    def read(self, kind: str) -> dict[int, str | None]:
        from pyiceberg.table import StaticTable

        (newest,) = sorted((self._shell.folder / self._name / "metadata").glob("*.json"))[-1:]
        rows = StaticTable.from_metadata(str(newest)).scan().to_arrow().to_pylist()
        return {int(row["n"]): said(row["v"], kind) for row in rows}


def said(value: Any, kind: str = "") -> str | None:
    """Return what a client has read as text."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str):
        return value.encode().hex() if kind == "hex" else value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        # strftime writes the year 1 without its zeros.
        return value.replace(tzinfo=None).isoformat(" ")
    if isinstance(value, list):
        return json.dumps(value)
    return str(value)


TARGETS: dict[str, Callable[[pytest.FixtureRequest, Shell], Target]] = {
    "embedded": EmbeddedTarget, "engine": EngineTarget, "server": ServerTarget,
    "postgresql": PostgresqlTarget, "mariadb": MariaDBTarget, "iceberg": IcebergTarget,
    "duckdb": DuckDBTarget, "file": FileTarget,
}  # fmt: skip


KEPT_AS = {("mariadb", "-0"): "0"}
"""Values that a target keeps as an equal one: MariaDB has no zero with a sign."""


# --- cases ----------------------------------------------------------------------------------------


def _quoted(*values: str) -> tuple[str, ...]:
    return (*(f"'{value}'" for value in values), NULL)


_TEXTS = (
    "", " ", "NULL", r"\N", "0", "007", "tab\there", "line\nend", "back\\\\slash", "é😀", "a,b",
    'quote"', "null", "[]", "true",
)  # fmt: skip
_PG_TEXTS = tuple(text.replace("\\\\", "\\") for text in _TEXTS)
_MOMENTS = (
    "1970-01-01 00:00:00", "2024-03-31 01:30:00.123456", "1969-12-31 23:59:59.999999",
    "2038-01-19 03:14:08", "1899-12-31 00:00:00", "1900-01-01 00:00:00", "2261-12-31 23:59:59",
    "2299-12-31 23:59:59", "2300-01-01 00:00:00", "9999-12-31 23:59:59.999999",
    "0001-01-01 00:00:00",
)  # fmt: skip
_DAYS = (
    "1970-01-01", "2024-02-29", "1899-12-31", "1900-01-01", "2149-06-06", "2149-06-07",
    "2299-12-31", "2300-01-01", "9999-12-31", "0001-01-01",
)  # fmt: skip

CASES = (
    # PostgreSQL
    Case("postgresql", "boolean", "bool", ("true", "false", NULL)),
    Case("postgresql", "smallint", "int", ("0", "-32768", "32767", NULL)),
    Case("postgresql", "integer", "int", ("0", "-2147483648", "2147483647", NULL)),
    Case("postgresql", "bigint", "int", ("-9223372036854775808", "9223372036854775807", NULL)),
    Case("postgresql", "oid", "int", ("0", "4294967295", NULL)),
    Case("postgresql", "real", "float32", _quoted("0.1", "-0", "3.4028235e38", "1e-45", "16777217",
                                                  "NaN", "Infinity", "-Infinity")),
    Case("postgresql", "double precision", "float64", _quoted(
        "0.1", "-0", "1.7976931348623157e308", "5e-324", "9007199254740993", "NaN", "Infinity")),
    Case("postgresql", "numeric(10,2)", "decimal", ("0", "-99999999.99", "99999999.99", NULL)),
    Case("postgresql", "numeric(38,10)", "decimal",
         ("9999999999999999999999999999.9999999999", "-0.0000000001", NULL)),
    Case("postgresql", "numeric", "decimal", (
        "0", "123456789012345678901234567890.123456789", "0.00000000000000000001", "'NaN'", NULL)),
    Case("postgresql", "text", "text", _quoted(*_PG_TEXTS)),
    Case("postgresql", "char(3)", "text", _quoted("", "a", "abc")),
    Case("postgresql", "bytea", "hex", (r"'\x'", r"'\x00ff5c0a09'", r"'\x616263'", NULL)),
    Case("postgresql", "date", "date", _quoted(*_DAYS, "infinity")),
    Case("postgresql", "time", "time", _quoted("00:00:00", "23:59:59.999999", "24:00:00")),
    Case("postgresql", "timestamp", "moment", _quoted(*_MOMENTS, "infinity")),
    Case("postgresql", "timestamptz", "moment", _quoted(*(f"{m}+00" for m in _MOMENTS))),
    Case("postgresql", "interval", "text", _quoted("1 day", "-1 mons", "00:00:00.5")),
    Case("postgresql", "uuid", "uuid", _quoted("00000000-0000-0000-0000-000000000000",
                                               "123e4567-e89b-12d3-a456-426614174000")),
    Case("postgresql", "inet", "ip", _quoted("10.0.0.1", "10.0.0.0/8", "::1", "2001:db8::/32")),
    Case("postgresql", "inet ", "text", _quoted("10.0.0.1", "10.0.0.0/8", "::1", "2001:db8::/32")),
    Case("postgresql", "cidr", "ip", _quoted("10.0.0.1/32", "10.0.0.0/8", "::/0")),
    Case("postgresql", "jsonb", "json", _quoted('{"a": [1, 2.50, null]}', '"x"', "null", "{}")),
    Case("postgresql", "int[]", "list int", _quoted("{}", "{1,2}", "{1,NULL}")),
    Case("postgresql", "int[][]", "list int", _quoted("{}", "{1}", "{{1,2},{3,4}}")),
    Case("postgresql", "text[]", "list text", _quoted("{}", '{"","a,b",NULL,"q\\"x"}', "{é😀}")),
    # MariaDB
    Case("mariadb", "TINYINT", "int", ("-128", "127", NULL)),
    Case("mariadb", "TINYINT UNSIGNED", "int", ("0", "255", NULL)),
    Case("mariadb", "INT UNSIGNED", "int", ("0", "4294967295", NULL)),
    Case("mariadb", "BIGINT", "int", ("-9223372036854775808", "9223372036854775807", NULL)),
    Case("mariadb", "BIGINT UNSIGNED", "int", ("0", "18446744073709551615", NULL)),
    Case("mariadb", "DECIMAL(65,30)", "decimal",
         (f"{'9' * 35}.{'9' * 30}", "-0.000000000000000000000000000001", NULL)),
    Case("mariadb", "FLOAT", "float32", ("0.1", "3.4028234e38", "16777216", NULL)),
    Case("mariadb", "DOUBLE", "float64", ("0.1", "1.7976931348623157e308", NULL)),
    Case("mariadb", "BIT(8)", "int", ("b'0'", "b'11111111'", NULL)),
    Case("mariadb", "VARCHAR(200)", "text", _quoted(*_TEXTS)),
    Case("mariadb", "LONGTEXT", "text", _quoted(*_TEXTS)),
    Case("mariadb", "VARBINARY(20)", "hex", ("''", "x'00ff5c0a09'", "'abc'", NULL)),
    Case("mariadb", "BLOB", "hex", ("''", "x'00ff5c0a09fdfe'", NULL)),
    Case("mariadb", "DATE", "date", _quoted(*_DAYS)),
    Case("mariadb", "TIME(6)", "time", _quoted("00:00:00", "838:59:59", "-838:59:59",
                                               "-00:00:00.5", "12:30:00.123456")),
    Case("mariadb", "DATETIME(6)", "moment", _quoted(*_MOMENTS)),
    Case("mariadb", "TIMESTAMP(6) ", "moment", _quoted("1970-01-01 00:00:01",
                                                       "2038-01-19 03:14:07.999999")),
    Case("mariadb", "YEAR", "int", ("'0000'", "1901", "2155", NULL)),
    Case("mariadb", "ENUM('', 'a', 'it''s')", "text", ("''", "'a'", "'it''s'", NULL)),
    Case("mariadb", "SET('a', 'b')", "text", ("''", "'a,b'", NULL)),
    Case("mariadb", "UUID", "uuid", _quoted("123e4567-e89b-12d3-a456-426614174000")),
    Case("mariadb", "INET6", "ip", _quoted("::1", "::ffff:10.0.0.1", "2001:db8::1")),
    Case("mariadb", "JSON", "json", _quoted('{"a": [1, 2.50, null]}', "{}")),
    # DuckDB
    Case("duckdb", "BOOLEAN", "bool", ("true", "false", NULL)),
    Case("duckdb", "TINYINT", "int", ("-128", "127", NULL)),
    Case("duckdb", "UTINYINT", "int", ("0", "255", NULL)),
    Case("duckdb", "UBIGINT", "int", ("0", "18446744073709551615", NULL)),
    Case("duckdb", "BIGINT", "int", ("-9223372036854775808", "9223372036854775807", NULL)),
    Case("duckdb", "HUGEINT", "int", (f"'-{1 << 127}'", f"'{(1 << 127) - 1}'", "0", NULL)),
    Case("duckdb", "UHUGEINT", "int", ("0", f"'{(1 << 128) - 1}'", NULL)),
    Case("duckdb", "BIGNUM", "int", ("0", f"'-{'9' * 90}'", NULL)),
    Case("duckdb", "FLOAT", "float32", _quoted("0.1", "-0", "3.4028235e38", "1e-45", "nan", "inf")),
    Case("duckdb", "DOUBLE", "float64", _quoted(
        "0.1", "-0", "1.7976931348623157e308", "5e-324", "nan", "-inf")),
    Case("duckdb", "DECIMAL(4, 1)", "decimal", ("0", "-999.9", NULL)),
    Case("duckdb", "DECIMAL(38, 10)", "decimal",
         (f"'{'9' * 28}.{'9' * 10}'", "-0.0000000001", NULL)),
    Case("duckdb", "VARCHAR", "text", _quoted(*_PG_TEXTS)),
    Case("duckdb", "BLOB", "hex", ("''", r"'\x00\xff\x5c\x0a\x09'", "'abc'", NULL)),
    Case("duckdb", "BIT", "text", ("'101'", "'0'", NULL)),
    Case("duckdb", "DATE", "date", _quoted(*_DAYS, "infinity", "-infinity")),
    Case("duckdb", "TIME", "time", _quoted("00:00:00", "23:59:59.999999", "24:00:00")),
    Case("duckdb", "TIMESTAMP", "moment", _quoted(*_MOMENTS, "infinity")),
    Case("duckdb", "TIMESTAMP_S", "moment", _quoted("1970-01-01 00:00:00", "2299-12-31 23:59:59",
                                                    "0001-01-01 00:00:00")),
    Case("duckdb", "TIMESTAMP_MS", "moment", _quoted("1969-12-31 23:59:59.999", "2300-01-01")),
    Case("duckdb", "TIMESTAMP_NS", "moment", _quoted("1970-01-01 00:00:00.123456789",
                                                     "2261-12-31 23:59:59.999999999")),
    Case("duckdb", "TIMESTAMPTZ", "moment", _quoted(*(f"{m}+00" for m in _MOMENTS))),
    Case("duckdb", "UUID", "uuid", _quoted("00000000-0000-0000-0000-000000000000",
                                           "ffffffff-ffff-ffff-ffff-ffffffffffff")),
    Case("duckdb", "ENUM('', 'a', 'it''s')", "text", ("''", "'a'", "'it''s'", NULL)),
    Case("duckdb", "JSON", "json", _quoted('{"a": [1, 2.50, null]}', '"x"', "null", "{}")),
    Case("duckdb", "INT[]", "list int", ("[]", "[1, 2]", "[1, NULL]", NULL)),
    Case("duckdb", "INT[2]", "list int", ("[1, 2]", "[1, NULL]")),
    Case("duckdb", "VARCHAR[][]", "list text", ("[]", "[[], ['', 'a,b', NULL]]")),
    # SQLite
    Case("sqlite", "INTEGER", "int", ("0", "-9223372036854775808", "9223372036854775807", NULL)),
    Case("sqlite", "REAL", "float64", ("0.1 + 0.2", "-0.0", "1e308", "5e-324", "9e999", NULL)),
    Case("sqlite", "TEXT", "text", _quoted(*_PG_TEXTS)),
    Case("sqlite", "BLOB", "hex", ("x''", "x'00ff5c0a090d'", "x'616263'", NULL)),
    Case("sqlite", "BOOLEAN", "bool", ("0", "1", NULL)),
    Case("sqlite", "DECIMAL(10, 2)", "decimal", ("0", "-12345678.25", "19.99", NULL)),
    Case("sqlite", "NUMERIC", "float64", ("1", "2.5", NULL)),
    Case("sqlite", "", "int", ("1", "-2", NULL)),
    Case("sqlite", "DATE", "date", _quoted(*_DAYS)),
    Case("sqlite", "DATETIME", "moment", _quoted(*_MOMENTS, "2024-01-31T10:00:00Z", "2024-01-31")),
    # ClickHouse
    Case("clickhouse", "UInt64", "int", ("0", "18446744073709551615")),
    Case("clickhouse", "Int256", "int", (f"-{1 << 255}", f"{(1 << 255) - 1}")),
    Case("clickhouse", "Nullable(Float64)", "float64", ("0.1", "nan", "inf", NULL)),
    Case("clickhouse", "Decimal(76, 38)", "decimal", (f"'{'9' * 38}.{'9' * 38}'", "'-0.5'")),
    Case("clickhouse", "Nullable(String)", "text", _quoted(*_TEXTS)),
    Case("clickhouse", "FixedString(4)", "hex", (r"'a\0b'", "'abcd'")),
    Case("clickhouse", "Date", "date", ("'1970-01-01'", "'2149-06-06'")),
    Case("clickhouse", "Date32", "date", ("'1900-01-01'", "'2299-12-31'")),
    Case("clickhouse", "DateTime('UTC')", "moment", ("'1970-01-01 00:00:00'",
                                                     "'2106-02-07 06:28:15'")),
    Case("clickhouse", "DateTime64(6, 'UTC')", "moment", ("'1900-01-01 00:00:00'",
                                                          "'2299-12-31 23:59:59.999999'")),
    Case("clickhouse", "UUID", "uuid", ("'123e4567-e89b-12d3-a456-426614174000'",)),
    Case("clickhouse", "IPv4", "ip", ("'0.0.0.0'", "'255.255.255.255'")),
    Case("clickhouse", "IPv6", "ip", ("'::'", "'::1'", "'2001:db8::1'")),
    Case("clickhouse", "Enum8('a' = 1, 'it\\'s' = 2)", "text", ("'a'", r"'it\'s'")),
    Case("clickhouse", "Bool", "bool", ("true", "false")),
    Case("clickhouse", "Array(Nullable(Int32))", "list int", ("[]", "[1, NULL]")),
    Case("clickhouse", "Array(Array(String))", "list text", ("[]", "[[], ['', 'a,b']]")),
)  # fmt: skip
