"""Messages of Protobuf: with a schema registry, and with a .proto file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.kafka import Kafka, Registry

pytestmark = pytest.mark.xdist_group("kafka")

ORDER = """
syntax = "proto3";
package shop;
enum Kind { NONE = 0; SALE = 1; }
message Other { string text = 1; /* message Wrong { */ }
message Order {
  int64 id = 1;
  string name = 2;
  repeated int32 sizes = 3;
  Kind kind = 4;
}
"""


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    yield made
    made.close()


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes((number,))


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def order(id_: int, name: str = "", sizes: tuple[int, ...] = (), kind: int = 0) -> bytes:
    found = number(1, id_) + (block(2, name.encode()) if name else b"")
    found += block(3, b"".join(map(varint, sizes))) if sizes else b""
    return found + (number(4, kind) if kind else b"")


def framed(schema: int, index: bytes, value: bytes) -> bytes:
    """As Confluent's serializers write it; numbers of ``index`` are zigzag."""
    return b"\0" + schema.to_bytes(4, "big") + index + value


def uri(kafka: Kafka, topic: str, registry: Registry | None = None) -> str:
    more = f"?schema.registry.url={registry.url}" if registry else ""
    return f"kafka://{kafka.servers}/{topic}{more}"


SECOND = b"\2\2"  # one number follows: 1


def test_with_a_schema_registry(shell: Shell, kafka: Kafka, registry: Registry) -> None:
    """Messages of an older schema, too; of a newer one only after the next run has begun."""
    old = registry.add(ORDER, "PROTOBUF")
    new = registry.add(ORDER.replace("Kind kind = 4;", "Kind kind = 4; bool paid = 5;"), "PROTOBUF")
    topic = kafka.create(partitions=2)
    kafka.send(topic, [framed(old, SECOND, order(i, f"n{i}", (i, 2), 1)) for i in range(200)])
    kafka.send(topic, [framed(new, SECOND, order(200, "x" * 300) + number(5, 1)), None], 1)
    source = uri(kafka, topic, registry)
    done = shell.ok("load", source, "--format", "protobuf", "--table", "t", "--verify", "--json")
    assert done.document["rows"] == 201
    found = "count(), sum(id), countIf(paid), sum(sizes[1]), any(length(name)) > 0, max(kind)"
    assert shell.row(f"SELECT {found} FROM t") == [201, 20100, 1, 19900, 1, "SALE"]
    # Another message of the same schema, and what is not a message of the registry.
    kafka.send(topic, [framed(new, b"\0", block(1, b"other"))])
    failed = shell.ends(1, "load", source, "--format", "Protobuf", "--table", "t")
    assert "offset 200: it is message 0 of its schema, and the load is of message 1" in failed.talk
    kafka.send(topic, [b"\x08\x01"], 1)
    failed = shell.ends(1, "load", source, "--format", "Protobuf", "--table", "t")
    assert "offset 2: it does not begin with the id of a schema" in failed.talk
    refused = shell.ends(2, "load", uri(kafka, topic), "--format", "Protobuf", "--table", "t")
    assert "messages of Protobuf need a schema" in refused.talk


def test_with_a_file(shell: Shell, kafka: Kafka) -> None:
    """With and without what Confluent's serializers write in front."""
    (shell.folder / "orders.proto").write_text(ORDER)
    topic = kafka.create()
    kafka.send(topic, [order(1, "a"), framed(7, SECOND, order(2, "b")), order(3)])
    given = ("--format", "Protobuf", "--set", "format_schema=orders.proto:Order")
    assert (
        shell.ok("load", uri(kafka, topic), "--table", "t", *given, "--json").document["rows"] == 3
    )
    assert shell.rows("SELECT id, name FROM t ORDER BY id") == [[1, "a"], [2, "b"], [3, ""]]
    gone = (*given[:-1], "format_schema=none.proto:Order")
    assert "not a file and message" in shell.ends(2, "load", uri(kafka, topic), *gone).talk


def test_what_a_schema_imports(shell: Shell, kafka: Kafka, registry: Registry) -> None:
    """References of the registry, and what comes with every compiler; a message in a message."""
    place = 'syntax = "proto3"; package geo; message Place { string city = 1; int32 zip = 2; }'
    registry.add(place, "PROTOBUF", "geo-place")
    schema = registry.add(
        'syntax = "proto3"; import "geo/place.proto"; import "google/protobuf/timestamp.proto";\n'
        '// import "x.proto";\n'
        "message Visit { int64 id = 1; geo.Place place = 2; google.protobuf.Timestamp at = 3; }",
        "PROTOBUF", references={"geo/place.proto": "geo-place"},
    )  # fmt: skip
    topic = kafka.create()
    visit = number(1, 5) + block(2, block(1, b"Ulm")) + block(3, number(1, 1_700_000_000))
    kafka.send(topic, [framed(schema, b"\0", visit)])
    shell.ok("load", uri(kafka, topic, registry), "--format", "Protobuf", "--table", "t")
    assert shell.row("SELECT id, place.city, at.seconds FROM t") == [5, "Ulm", 1_700_000_000]
    text = 'syntax = "proto3"; import "not/there.proto"; message M { int64 a = 1; }'
    lacking = registry.add(text, "PROTOBUF")
    kafka.send(topic, [framed(lacking, b"\0", number(1, 1))])
    failed = shell.ends(4, "load", uri(kafka, topic, registry), "--format", "Protobuf",
                        "--table", "u")  # fmt: skip
    assert "imports not/there.proto" in failed.talk


@pytest.mark.long
def test_into_a_server(lake: Lake, kafka: Kafka, registry: Registry) -> None:
    schema = registry.add(ORDER, "PROTOBUF")
    topic = kafka.create(partitions=2)
    for partition in (0, 1):
        kafka.send(topic, [framed(schema, SECOND, order(i * 2 + partition)) for i in range(1000)],
                   partition)  # fmt: skip
    source = uri(kafka, topic, registry)
    assert lake.load(source, "--table", "t", "--format", "Protobuf", "--verify")["rows"] == 2000
    assert lake.load(source, "--table", "t", "--format", "Protobuf")["rows"] == 0
    assert lake.row("SELECT count(), uniqExact(id) FROM {db}.t") == [2000, 2000]
