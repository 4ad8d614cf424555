"""Topics without a broker: addresses, ranges of offsets, rows of messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.core.errors import UsageError
from rowfall.core.listing import joined
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.sources import open_source
from rowfall.systems.kafka.client import _READER, fetched
from rowfall.systems.kafka.messages import BrokenMessageError, Framing
from rowfall.systems.kafka.protobuf import ProtobufMessages, message_name
from rowfall.systems.kafka.source import LEAST, MOST, KafkaSource, missing, piece_of


@dataclass
class Message:
    content: bytes | None
    number: int = 0

    def value(self) -> bytes | None:
        return self.content

    def offset(self) -> int:
        return self.number


def text(format: str, *values: bytes | None) -> bytes:
    framing = Framing(Options(format=format))
    framing.encoding(b"")
    return framing.text([Message(value, n) for n, value in enumerate(values)])


@pytest.mark.parametrize(
    ("format", "values", "wanted"),
    [
        ("CSV", [b"1,a", b"2,b"], b"1,a\n2,b\n"),
        ("CSV", [b"1,a\n", b"2,b\n3,c", None, b"", b"4,d\n"], b"1,a\n2,b\n3,c\n4,d\n"),
        ("CSV", [b'1,"a\nb"', b'2,""""'], b'1,"a\nb"\n2,""""\n'),
        ("CSV", [b"1,a\r\n", b"2,b\r\n"], b"1,a\r\n2,b\r\n"),
        ("CSV", [None, b""], b""),
        ("CSV", [], b""),
        ("CSV", [b'1,"a"\n', b'2,"b ""c"""\n'], b'1,"a"\n2,"b ""c"""\n'),
        ("TSV", [b"1\ta\\\\", b"2\tb\\n"], b"1\ta\\\\\n2\tb\\n\n"),
        ("JSONEachRow", [b'{"a":1}', b' {"a":2} \n'], b'{"a":1}\n {"a":2} \n'),
    ],
)
def test_rows_of_messages(format: str, values: Sequence[bytes | None], wanted: bytes) -> None:
    assert text(format, *values) == wanted


@pytest.mark.parametrize(
    ("format", "values", "offset"),
    [
        # Together their quotes are closed, and two rows would become one.
        ("CSV", [b"0,a", b'1,"a', b'b",2'], 1),
        ("TSV", [b"0\ta", b"1\ta\\", b"2\tb"], 1),
        ("JSONEachRow", [b'{"a":1}', b'{"a":', b"2}"], 1),
        ("JSONEachRow", [b"[1]"], 0),
    ],
)
def test_a_message_that_is_no_whole_row(format: str, values: Sequence[bytes], offset: int) -> None:
    with pytest.raises(BrokenMessageError) as caught:
        text(format, *values)
    assert caught.value.offset == offset


@given(st.lists(st.text("a,\n", min_size=1).map(str.encode), max_size=20))
def test_every_message_ends_its_own_rows(values: list[bytes]) -> None:
    got = text("CSV", *values)
    assert got == b"".join(value.removesuffix(b"\n") + b"\n" for value in values)


@given(
    low=st.integers(0, 100), length=st.integers(0, 100),
    cuts=st.lists(st.integers(0, 220), max_size=8, unique=True),
)  # fmt: skip
def test_what_is_missing_and_what_is_loaded_are_all(low: int, length: int, cuts: list[int]) -> None:
    edges = sorted(cuts)[: len(cuts) // 2 * 2]
    loaded = list(zip(edges[::2], edges[1::2], strict=True))
    high = low + length
    found = list(missing(low, high, loaded))
    assert all(a < b for a, b in found)
    assert all(before[1] < after[0] for before, after in pairwise(found))
    numbers = {n for a, b in found for n in range(a, b)}
    assert numbers == set(range(low, high)) - {n for a, b in loaded for n in range(a, b)}
    assert joined(loaded) == loaded or len(joined(loaded)) < len(loaded)


@pytest.mark.parametrize("messages", [0, 1, LEAST, 10 * LEAST, 10**7, 10**10])
def test_pieces_are_neither_small_nor_large(messages: int) -> None:
    assert LEAST <= piece_of(messages) <= MOST


def opened(text: str, **options: str) -> KafkaSource:
    source = open_source([text], Options(**options))  # type: ignore[arg-type]
    assert isinstance(source, KafkaSource)
    return source


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = opened("kafka://a:9092,b:9093/the.topic?client.id=me")
    assert plain._topic == "the.topic"
    assert plain._config == {"bootstrap.servers": "a:9092,b:9093", "client.id": "me"}
    named = opened("kafka://me:p%40ss@a:1/t?ssl.key.password=xyzzy")
    assert named._config["sasl.password"] == Secret("p@ss")
    assert named._config["security.protocol"] == "SASL_SSL"
    assert named.text == "kafka://me:[HIDDEN]@a:1/t?ssl.key.password=[HIDDEN]"
    assert "p@ss" not in repr(named._config)
    assert "xyzzy" not in repr(named._config)
    assert {"p@ss", "xyzzy"} <= {secret.reveal() for secret in named.secrets}
    monkeypatch.setenv("KAFKA_SASL_PASSWORD", "of-environment")
    assert opened("kafka://me@a:1/t")._config["sasl.password"] == Secret("of-environment")
    assert "sasl.password" not in opened("kafka://a:1/t")._config


@pytest.mark.parametrize("text", ["kafka://a:1", "kafka://a:1/", "kafka:///t", "kafka://a/t/3"])
def test_no_topic(text: str) -> None:
    with pytest.raises(UsageError, match="names no brokers and topic"):
        opened(text)


def test_bounds() -> None:
    source = opened("kafka://a/t", start_at="2026-01-31T12:00:00Z", until="1:5,0:7")
    assert source._since.time == 1_769_860_800_000
    assert source._until.each == {0: 7, 1: 5}
    assert opened("kafka://a/t", start_at="2026-01-31T13:00:00+01:00")._since.time == (
        source._since.time
    )
    assert opened("kafka://a/t", start_at="17")._since.every == 17
    with pytest.raises(UsageError, match="neither an offset nor a time"):
        opened("kafka://a/t", start_at="yesterday")
    with pytest.raises(UsageError, match="--until committed is neither an offset"):
        opened("kafka://a/t", until="committed")
    with pytest.raises(UsageError, match="needs the group"):
        opened("kafka://a/t", start_at="committed")
    with pytest.raises(UsageError, match="one load reads one topic"):
        open_source(["kafka://a/t", "kafka://a/u"], Options())


def test_other_formats_are_refused() -> None:
    with pytest.raises(UsageError, match="messages are not read as Parquet"):
        Framing(Options(format="Parquet")).encoding(b"")


SCHEMA = """
syntax = "proto3"; // message A {
package p;
option java_package = "message B {";
enum E { X = 0; }
message First { oneof which { int32 a = 1; string b = 2; } message Inner { enum K { Z = 0; } } }
message Second { message One {} /* } */ message Two { message Deep {} } int32 c = 1 [lazy=true]; }
"""


@pytest.mark.parametrize(
    ("indexes", "name"),
    [
        ((0,), "First"), ((0, 0), "First.Inner"), ((1,), "Second"), ((1, 1), "Second.Two"),
        ((1, 1, 0), "Second.Two.Deep"), ((2,), ""), ((0, 1), ""),
    ],
)  # fmt: skip
def test_names_of_messages_in_a_schema(indexes: Sequence[int], name: str) -> None:
    assert message_name(SCHEMA, indexes) == name


@given(st.lists(st.binary(min_size=1, max_size=40_000).filter(lambda v: v[0] != 0), max_size=4))
def test_protobuf_stands_behind_its_length(values: list[bytes]) -> None:
    messages = ProtobufMessages({}, (), f"{__file__}:M")
    framed = [b"\0\0\0\0\7" + index + v for v in values for index in (b"\0", b"\4\2\0")]
    data = messages.text([Message(v) for v in (*values, None, *framed)])
    found, at = [], 0
    while at < len(data):
        size = shift = 0
        while True:
            byte, at = data[at], at + 1
            size, shift = size | (byte & 0x7F) << shift, shift + 7
            if not byte & 0x80:
                break
        found.append(data[at : at + size])
        at += size
    assert found == [*values, *(v for v in values for _ in range(2))]


@pytest.mark.parametrize("value", [b"\0\0\0\0\7", b"\0\0\0\0\7\4\2", b"\0\0\0\0\7\xff", b"\0\1"])
def test_a_message_without_its_place_in_the_schema_is_broken(value: bytes) -> None:
    messages = ProtobufMessages({}, (), f"{__file__}:M")
    with pytest.raises(BrokenMessageError, match="which message of its schema"):
        messages.text([Message(value, 5)])


@pytest.mark.parametrize(
    ("size", "wanted"), [(10, (2, 5_000)), (100_000, (2, 43)), (5_000_000, (2, 2))]
)
def test_a_sample_is_bounded_by_bytes(
    size: int, wanted: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """5,000 messages of a megabyte of each of eight partitions were a sample, to be refused."""
    source = open_source(["kafka://h:9092/t"], Options(format="JSON"))
    assert isinstance(source, KafkaSource)
    contents = [None, b"", *([b"x" * size] * 9_998)]
    messages = [Message(content, n) for n, content in enumerate(contents)]
    monkeypatch.setattr(
        source, "_messages", lambda partition, start, stop: iter([messages[start:stop]])
    )
    first, end = source._filled(0, 0, 10_000, 5_000) or (-1, -1)
    assert (first, end - (size > 10)) == wanted


@pytest.mark.parametrize(
    ("memory", "most"), [(256 << 20, 64 << 10), (1 << 30, 256 << 10), (64 << 30, 2 << 20)]
)
def test_brokers_send_no_more_than_the_memory_allows(memory: int, most: int) -> None:
    """An answer of gzip becomes a thousand times as long, all at once."""
    assert set(fetched(memory).values()) == {most}
    from confluent_kafka import Consumer

    Consumer({**_READER, **fetched(memory)}).close()
