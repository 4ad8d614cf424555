"""Files with types, lakes and topics as sources of :mod:`contract.test_values`.

They are written by pyarrow, fastavro, deltalake, pyiceberg and librdkafka, which also say what the
values are: none of them is a reader of rowfall.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import polars
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pytest
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable, write_deltalake

import rowfall
from contract.values import NULL, Case, Source, said
from e2e.tools import Done, Shell
from lab.kafka import Registry
from lab.lake_tables import iceberg
from rowfall.core.errors import RowfallError

_numbers = itertools.count()
_MICROSECONDS = pa.timestamp("us", "UTC")
TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(), "int8": pa.int8(), "int64": pa.int64(), "uint64": pa.uint64(),
    "float": pa.float32(), "double": pa.float64(), "decimal(38, 10)": pa.decimal128(38, 10),
    "string": pa.string(), "binary": pa.binary(), "date": pa.date32(), "timestamp": _MICROSECONDS,
    "list<int64>": pa.list_(pa.int64()),
}  # fmt: skip
AVRO: dict[str, Any] = {
    "bool": "boolean", "int64": "long", "float": "float", "double": "double", "string": "string",
    "binary": "bytes", "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "decimal(38, 10)": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
}  # fmt: skip
_READ: dict[str, Callable[[str], Any]] = {
    "bool": "true".__eq__, "int": int, "float32": float, "float64": float, "decimal": Decimal,
    "text": str, "hex": bytes.fromhex, "date": date.fromisoformat, "list int": json.loads,
    "moment": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
}  # fmt: skip


def _value(case: Case, number: int) -> Any:
    text = case.values[number - 1]
    return None if text == NULL else _READ[case.kind](text)


class FileSource:
    """One file, or one table of a lake."""

    format = ""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        self._folder = shell.folder
        self.name = f"in{next(_numbers)}.{self.format}"

    def make(self, case: Case, numbers: Sequence[int]) -> dict[int, str | None]:
        self.name = f"in{next(_numbers)}.{self.format}"  # another file, not a changed one
        values = [_value(case, n) for n in numbers]
        found = self.write(case, list(numbers), values)
        return {int(n): said(v) for n, v in found.items()}

    def write(self, case: Case, numbers: list[int], values: list[Any]) -> dict[int, Any]:
        """Write the rows; return what an own client reads."""
        table = pa.table({
            "n": pa.array(numbers, pa.int32()), "v": pa.array(values, TYPES[case.type]),
        })  # fmt: skip
        back = self.keep(table)
        return dict(zip(back["n"].to_pylist(), back["v"].to_pylist(), strict=True))

    def keep(self, table: pa.Table) -> pa.Table:
        raise NotImplementedError

    @property
    def path(self) -> str:
        return str(self._folder / self.name)

    def arguments(self) -> tuple[str, ...]:
        return (self.path,)


class Parquet(FileSource):
    format = "parquet"

    def keep(self, table: pa.Table) -> pa.Table:
        pyarrow.parquet.write_table(table, self.path)
        return pyarrow.parquet.read_table(self.path)


class Orc(FileSource):
    format = "orc"

    def keep(self, table: pa.Table) -> pa.Table:
        pyarrow.orc.write_table(table, self.path)
        return pyarrow.orc.read_table(self.path)


class Arrow(FileSource):
    format = "arrow"

    def keep(self, table: pa.Table) -> pa.Table:
        pyarrow.feather.write_feather(table, self.path, compression="uncompressed")
        return pyarrow.feather.read_table(self.path)


class Avro(FileSource):
    format = "avro"

    def write(self, case: Case, numbers: list[int], values: list[Any]) -> dict[int, Any]:
        schema: Any = {"type": "record", "name": "r", "fields": [
            {"name": "n", "type": "int"}, {"name": "v", "type": ["null", AVRO[case.type]]},
        ]}  # fmt: skip
        with open(self.path, "wb") as out:
            rows = zip(numbers, values, strict=True)
            fastavro.writer(out, schema, [{"n": n, "v": v} for n, v in rows])
        with open(self.path, "rb") as file:
            read: Any = fastavro.reader(file)
            return {row["n"]: row["v"] for row in read}


class Delta(FileSource):
    format = "delta"

    def keep(self, table: pa.Table) -> pa.Table:
        write_deltalake(self.path, table)
        return pa.table(DeltaTable(self.path).to_pyarrow_table())

    def arguments(self) -> tuple[str, ...]:
        return (f"delta+{self.path}",)


class Iceberg(FileSource):
    format = "iceberg"

    @property
    def path(self) -> str:
        return super().path.replace(".", "_")  # the name of a table in a catalogue

    def keep(self, table: pa.Table) -> pa.Table:
        return iceberg(self.path, table).scan().to_arrow()

    def arguments(self) -> tuple[str, ...]:
        return (f"iceberg+{self.path}",)


class Json(FileSource):
    """Messages of JSON in a topic."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        super().__init__(request, shell)
        self._kafka = request.getfixturevalue("kafka")

    def make(self, case: Case, numbers: Sequence[int]) -> dict[int, str | None]:
        self.name = self._kafka.create(f"values{os.getpid()}x{next(_numbers)}")
        literal = {"text": json.dumps, "date": json.dumps}.get(case.kind, str)
        texts = {n: case.values[n - 1] for n in numbers}
        written = {n: "null" if v == NULL else literal(v) for n, v in texts.items()}
        self._kafka.send(self.name, [f'{{"n":{n},"v":{v}}}'.encode() for n, v in written.items()])
        rows = [json.loads(m, parse_int=str, parse_float=str) for m in self.messages(len(written))]
        return {int(row["n"]): said(row["v"]) for row in rows}

    def messages(self, count: int) -> list[bytes]:
        """Return so many messages of the topic, as librdkafka reads them."""
        reader = Consumer({"bootstrap.servers": self._kafka.servers, "group.id": "values"})
        reader.assign([TopicPartition(self.name, 0, 0)])
        found: list[bytes] = []
        while len(found) < count:
            values = (message.value() for message in reader.consume(1000, 0.2))
            found += [value for value in values if isinstance(value, bytes) and value]
        reader.close()
        return found

    def arguments(self) -> tuple[str, ...]:
        return (f"kafka://{self._kafka.servers}/{self.name}", "--format", "JSONEachRow")


class Csv(Json):
    """Messages of CSV in a topic."""

    def make(self, case: Case, numbers: Sequence[int]) -> dict[int, str | None]:
        self.name = self._kafka.create(f"values{os.getpid()}x{next(_numbers)}")
        texts = {n: case.values[n - 1] for n in numbers}
        fields = {n: "\\N" if v == NULL else '"' + v.replace('"', '""') + '"'
                  for n, v in texts.items()}  # fmt: skip
        if case.kind != "text":
            fields = {n: v.strip('"') for n, v in fields.items()}
        self._kafka.send(self.name, [f"{n},{v}\n".encode() for n, v in fields.items()])
        found: dict[int, str | None] = {}
        for message in self.messages(len(fields)):
            ((number, value),) = csv.reader(io.StringIO(message.decode(), newline=""))
            found[int(number)] = None if value == "\\N" else value
        return found

    def arguments(self) -> tuple[str, ...]:
        return (f"kafka://{self._kafka.servers}/{self.name}", "--format", "CSV", "--columns", "n,v")


class Registered(Json):
    """Messages of Avro in a topic, whose schema is in a registry."""

    def make(self, case: Case, numbers: Sequence[int]) -> dict[int, str | None]:
        self.name = self._kafka.create(f"values{os.getpid()}x{next(_numbers)}")
        self._registry = Registry()
        schema: Any = {"type": "record", "name": "r", "fields": [
            {"name": "n", "type": "int"}, {"name": "v", "type": ["null", AVRO[case.type]]},
        ]}  # fmt: skip
        begin = b"\0" + self._registry.add(json.dumps(schema)).to_bytes(4, "big")
        messages = []
        for n in numbers:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, {"n": n, "v": _value(case, n)})
            messages.append(begin + out.getvalue())
        self._kafka.send(self.name, messages)
        rows: list[Any] = [
            fastavro.schemaless_reader(io.BytesIO(message[len(begin) :]), schema)  # type: ignore[call-arg]
            for message in self.messages(len(messages))
        ]
        return {int(row["n"]): said(row["v"]) for row in rows}

    def arguments(self) -> tuple[str, ...]:
        registry = f"schema.registry.url={self._registry.url}"
        return (f"kafka://{self._kafka.servers}/{self.name}?{registry}", "--format", "Avro")


class Frame(FileSource):
    """A data frame of polars, loaded by Python."""

    def __init__(self, request: pytest.FixtureRequest, shell: Shell) -> None:
        super().__init__(request, shell)
        self._patch = request.getfixturevalue("monkeypatch")
        self._patch.chdir(shell.folder)

    def make(self, case: Case, numbers: Sequence[int]) -> dict[int, str | None]:
        found = super().make(case, numbers)
        self.name = "arrow"  # errors call it arrow:// and a number
        return found

    def keep(self, table: pa.Table) -> pa.Table:
        self._frame = polars.DataFrame(table)
        return self._frame.to_arrow()

    def arguments(self) -> tuple[str, ...]:
        return ()

    def run(self, shell: Shell, *args: str) -> Done:
        """Load it with the options of a command line."""
        given: dict[str, Any] = {}
        for flag, value in zip(args[::2], args[1::2], strict=True):
            name = flag.removeprefix("--").replace("-", "_")
            given[name] = [*given.get(name, ()), value] if name == "type" else value
        for name, value in shell.env.items():
            self._patch.setenv(name, value)
        try:
            rowfall.load(self._frame, **given)
        except RowfallError as error:
            return Done(error.exit, "", f"{error}\n  hint: {error.hint}")
        return Done(0, "", "")


SOURCES: dict[str, Callable[[pytest.FixtureRequest, Shell], Source]] = {
    "parquet": Parquet, "orc": Orc, "arrow": Arrow, "avro": Avro, "delta": Delta,
    "iceberg": Iceberg, "kafka": Json, "kafka csv": Csv, "kafka avro": Registered, "frame": Frame,
}  # fmt: skip
_TEXTS = ("", " ", "0", "007", "tab\there", "line\nend", "back\\slash", "é😀", "null", NULL)
_DAYS = ("1970-01-01", "1899-12-31", "2149-06-07", "2299-12-31", "2300-01-01", "9999-12-31",
         "0001-01-01", NULL)  # fmt: skip
_MOMENTS = (
    "1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "1899-12-31 00:00:00",
    "2299-12-31 23:59:59", "2300-01-01 00:00:00", "9999-12-31 23:59:59", "0001-01-01 00:00:00",
    NULL,
)  # fmt: skip
_NEAR = (*_MOMENTS[:2], "1700-01-01 00:00:00", "2261-12-31 23:59:59", NULL)
_VALUES: dict[str, tuple[str, tuple[str, ...]]] = {
    "bool": ("bool", ("true", "false", NULL)),
    "int8": ("int", ("-128", "127", NULL)),
    "int64": ("int", ("-9223372036854775808", "9223372036854775807", NULL)),
    "uint64": ("int", ("0", "18446744073709551615", NULL)),
    "float": ("float32", ("0.1", "3.4028234663852886e38", "nan", "inf", NULL)),
    "double": ("float64", ("0.1", "5e-324", "9007199254740993", "nan", "-inf", NULL)),
    "decimal(38, 10)": ("decimal", (
        "9999999999999999999999999999.9999999999", "-0.0000000001", NULL)),
    "string": ("text", _TEXTS),
    "binary": ("hex", ("", "00ff5c0a09", "616263", NULL)),
    "date": ("date", _DAYS),
    "timestamp": ("moment", _MOMENTS),
    "list<int64>": ("list int", ("[]", "[1, -9223372036854775808]")),
}  # fmt: skip
# Arrow's types that a format does not have.
_LACKS = {
    "orc": {"uint64"}, "avro": set(TYPES) - set(AVRO), "delta": {"uint64"},
    "iceberg": {"uint64", "int8"}, "kafka avro": set(TYPES) - set(AVRO),
}  # fmt: skip
CASES = (
    *(
        # pyarrow reads nanoseconds of ORC back, up to 2262.
        Case(source, type_, kind, _NEAR if (source, type_) == ("orc", "timestamp") else values)
        for source in (
            "parquet", "orc", "arrow", "avro", "delta", "iceberg", "kafka avro", "frame",
        )
        for type_, (kind, values) in _VALUES.items()
        if type_ not in _LACKS.get(source, ())
    ),
    Case("kafka", "integer", "int", ("-9223372036854775808", "9223372036854775807", "0")),
    Case("kafka", "number", "float64", ("0.1", "-1.5e300", "3.5")),
    Case("kafka", "string", "text", ("", "007", "é😀", "null", "a\nb", NULL)),
    Case("kafka", "day", "date", ("1970-01-01", "2024-02-29", "2299-12-31")),
    Case("kafka csv", "integer", "int",
         ("-9223372036854775808", "9223372036854775807", "0", NULL)),
    Case("kafka csv", "number", "float64", ("0.1", "-1.5e300", "3.5")),
    Case("kafka csv", "string", "text", ("", "07a", "é😀", "null", "a\nb", 'q"x', NULL)),
    Case("kafka csv", "day", "date", ("1970-01-01", "2024-02-29", "2299-12-31")),
)  # fmt: skip
