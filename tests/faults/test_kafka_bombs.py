"""Messages that unpack to much more than they were sent as, and ``--memory``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from faults import bombs
from faults.test_bombs import MOST, SECONDS, kept
from lab.kafka import Kafka, Registry

pytestmark = [pytest.mark.long, pytest.mark.timeout(6 * SECONDS), pytest.mark.xdist_group("kafka")]

LARGE = 200_000_000
SCHEMA = {
    "type": "record", "name": "r",
    "fields": [{"name": "id", "type": "long"}, {"name": "t", "type": "string"}],
}  # fmt: skip


def _zigzag(number: int) -> bytes:
    return bombs._zigzag(number)


def row(form: str, id_: int, value: bytes, schema: int) -> bytes:
    if form == "CSV":
        return b"%d,%s" % (id_, value)
    if form == "JSON":
        return b'{"id":%d,"t":"%s"}' % (id_, value)
    text = _zigzag(id_) + _zigzag(len(value)) + value
    return b"\0" + schema.to_bytes(4, "big") + text


def send(kafka: Kafka, topic: str, packed: str, values: list[bytes]) -> None:
    producer = kafka.producer(
        compression_type=packed, message_max_bytes=1_000_000_000, batch_size=1_000_000_000,
        queue_buffering_max_kbytes=2_000_000, linger_ms=1_000, batch_num_messages=1_000_000,
    )  # fmt: skip
    refused: list[Any] = []

    def told(error: Any, message: Any) -> None:
        if error is not None:
            refused.append(error)

    for value in values:
        while True:
            try:
                producer.produce(topic, value, on_delivery=told)
                break
            except BufferError:
                producer.poll(0.1)
    # A gigabyte is packed by gzip in 10 s, and on a machine that others use in more than a minute.
    assert not producer.flush(3 * SECONDS)
    assert not refused


def load(rowfall: Any, address: str, *more: str) -> bombs.Taken:
    own = {"HOME": str(rowfall.home), "ROWFALL_HOME": str(rowfall.home / "state")}
    words = bombs.rowfall("load", address, "--table", "t", "--memory", "1GiB", *more)
    return bombs.measure(words, rowfall.cwd, {**os.environ, **own}, 2 * SECONDS)


@pytest.mark.parametrize("packed", ["zstd", "snappy", "gzip", "lz4"])
@pytest.mark.parametrize("form", ["CSV", "JSON", "Avro"])
def test_one_record(rowfall: Any, tmp_path: Path, kafka: Kafka, form: str, packed: str) -> None:
    large = LARGE // 2 if packed == "snappy" else LARGE  # the broker has 256 MB to unpack it
    registry = Registry()
    try:
        schema = registry.add(json.dumps(SCHEMA))
        topic = kafka.create(max_message_bytes=100_000_000)
        send(kafka, topic, packed, [row(form, n, b"x", schema) for n in range(1000)])
        send(kafka, topic, packed, [row(form, 1000, b"y" * large, schema)])
        send(kafka, topic, packed, [row(form, n, b"x", schema) for n in range(1001, 2000)])
        address = f"kafka://{kafka.servers}/{topic}"
        more: tuple[str, ...] = ("--columns", "id,t") if form == "CSV" else ()
        if form == "Avro":
            address += f"?schema.registry.url={registry.url}"
            more = ("--format", "Avro")
        taken = load(rowfall, address, *more)
    finally:
        registry.close()
    kept(taken)
    said = " ".join(taken.out.split())
    assert taken.code in (1, 4)
    if packed == "zstd":  # librdkafka unpacks no more than 100 MB of it
        assert "partition 0: the messages from offset 1000 on cannot be unpacked" in said
        assert taken.seconds < 30  # it was "the brokers have been away", after a minute
    else:
        size = f"{large / (1 << 20):.0f}" if large > 104_857_600 else f"{large / (1 << 20):.1f}"
        assert f"partition 0 offset 1000: a message of {size} MiB, more than --max-record" in said


@pytest.mark.parametrize("packed", ["zstd", "none"])
def test_empty_values(rowfall: Any, kafka: Kafka, packed: str) -> None:
    topic = kafka.create(max_message_bytes=100_000_000)
    send(kafka, topic, packed, [b"1,x"] + [b""] * 1_000_000 + [b"2,y"])
    taken = load(rowfall, f"kafka://{kafka.servers}/{topic}", "--columns", "id,t")
    kept(taken)
    assert taken.code == 0


# The most that librdkafka sends in one message; the test's own memory is beside that of the load.
LARGEST = 950_000_000


@pytest.mark.parametrize("packed", ["gzip", "lz4"])
def test_one_message_of_a_gigabyte(rowfall: Any, kafka: Kafka, packed: str) -> None:
    """librdkafka unpacks a message as a whole before anybody sees how long it is.

    It is refused with its offset, and takes its own length beside ``--memory`` (1.80 GiB in all).
    zstd is not unpacked beyond 100 MB.
    """
    topic = kafka.create(max_message_bytes=100_000_000)
    send(kafka, topic, packed, [b"%d,x" % n for n in range(1000)])
    send(kafka, topic, packed, [b"1000," + b"y" * LARGEST])
    send(kafka, topic, packed, [b"%d,x" % n for n in range(1001, 2000)])
    taken = load(rowfall, f"kafka://{kafka.servers}/{topic}", "--columns", "id,t")
    said = " ".join(taken.out.split())
    assert taken.code in (1, 4), taken.out
    assert "partition 0 offset 1000: a message of 906" in said
    assert "Traceback" not in taken.out
    assert taken.peak <= MOST + LARGEST, f"{taken.peak / (1 << 30):.2f} GiB\n{taken.out}"
    behind = load(
        rowfall, f"kafka://{kafka.servers}/{topic}", "--columns", "id,t", "--from", "0:1001"
    )
    kept(behind)
    assert behind.code == 0, behind.out
