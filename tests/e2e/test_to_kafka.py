"""Topics of a real Kafka as targets: formats, keys, what is skipped, refusals."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from e2e.tools import Shell, csv
from lab.kafka import Kafka, Registry
from lab.process import wait_until
from rowfall.core.errors import TargetError
from rowfall.core.options import Options
from rowfall.destinations.database import open_database
from rowfall.engines.database import SplitRecord
from rowfall.systems.kafka import record as kafka_record
from rowfall.systems.kafka.database import KafkaDatabase
from rowfall.systems.kafka.record import Message
from rowfall.targets import open_target

pytestmark = pytest.mark.xdist_group("kafka")

_SECONDS = 30.0


def committed(kafka: Kafka, topic: str, partitions: int = 1) -> list[tuple[Any, bytes]]:
    """Return key and value of the messages that readers of committed ones see."""
    from confluent_kafka import Consumer, TopicPartition

    config: dict[str, Any] = {
        "bootstrap.servers": kafka.servers, "group.id": "test", "enable.partition.eof": True,
        "isolation.level": "read_committed", "auto.offset.reset": "earliest",
    }  # fmt: skip
    reader = Consumer(config)
    reader.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    found, ended, until = [], 0, time.monotonic() + _SECONDS
    while ended < partitions:
        assert time.monotonic() < until
        for message in reader.consume(10_000, 0.2):
            if message.error() is None:
                found.append((message.key(), message.value()))
            else:
                ended += 1
    reader.close()
    return found


def latest(kafka: Kafka, topic: str) -> dict[str, bytes]:
    """Return the newest value of each key."""
    return {key.decode(): value for key, value in committed(kafka, topic)}


def topic_id(kafka: Kafka, topic: str) -> str:
    with closing(opened(f"kafka://{kafka.servers}/{topic}")) as database:
        return database.table_id()


@pytest.mark.parametrize("more", [pytest.param((), marks=pytest.mark.long), ("--transactional",)])
def test_files_are_loaded_once(shell: Shell, kafka: Kafka, more: tuple[str, ...]) -> None:
    for number in range(3):
        rows = [(i, f"n{i}") for i in range(number * 1000, (number + 1) * 1000)]
        shell.write(f"in/{number}.csv", csv(rows, "id", "name"))
    topic = kafka.create(partitions=2)
    to = ("in/*.csv", "--to", f"kafka://{kafka.servers}/{topic}", *more)
    plan = " ".join(shell.ends(0, "plan", *to).out.split())
    assert ("exactly once" if more else "at least once") in plan
    assert not committed(kafka, topic, 2)
    report = shell.ends(0, "load", *to, "--json").document
    assert (report["rows"], report["splits_loaded"]) == (3000, 3)
    found = [json.loads(value) for _, value in committed(kafka, topic, 2)]
    assert sorted(row["id"] for row in found) == list(range(3000))
    # Another machine knows nothing but what the topic of the record tells it.
    for ledger in shell.cli.home.rglob("*.ledger*"):
        ledger.unlink()
    shell.write("in/3.csv", csv([(9000, "n9000")], "id", "name"))
    again = shell.ends(0, "load", *to, "--json").document
    assert (again["rows"], again["splits_skipped"]) == (1, 3)
    shell.ends(0, "forget", again["load_id"], "--yes", *to[1:3])
    assert shell.ends(0, "load", *to, "--json").document["rows"] == 1
    assert len(committed(kafka, topic, 2)) == 3002


def opened(uri: str) -> KafkaDatabase:
    """Return the database of a topic, as a load opens it."""
    database = open_database(open_target(uri, "", Options()), Options())
    assert isinstance(database, KafkaDatabase)
    database.check(dry=False)
    database.record.refresh()
    return database


@pytest.mark.long  # thousands of files
def test_what_is_recorded_of_many_files_is_packed(
    shell: Shell, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message stands for them, for every load after that; a packer that is killed changes
    nothing, and what is forgotten is loaded again."""
    monkeypatch.setattr(kafka_record, "PACK", 4)
    topic = kafka.create()
    uri = f"kafka://{kafka.servers}/{topic}"
    to = ("in/*.csv", "--to", uri, "--transactional", "--json")
    loads = []
    for batch in range(2):
        for number in range(3):
            shell.write(f"in/{batch}{number}.csv", csv([(batch * 10 + number,)], "id"))
        loads.append(shell.ends(0, "load", *to).document["load_id"])
    with closing(opened(uri)) as killed, closing(opened(uri)) as other:
        ids = other.loaded()
        assert len(ids) == 6
        # Killed before its commit: the next one ends what it has begun.
        begun = killed._producer(f"rowfall-record-{killed.record.topic_id}")
        begun.fence()
        begun.begin()
        begun.send_few(killed.record.name, killed.record.packing())
        begun.flush()
        other.join_record()
        assert (other.record.splits, other.record.ids()) == ({}, ids)
        with pytest.raises(TargetError):
            begun.commit()
        begun.close()
        killed.record.refresh()
        assert (killed.record.splits, killed.record.ids()) == ({}, ids)
        assert all(killed.settled(f"{load}_1") for load in loads)
        assert not killed.settled(f"{loads[0]}_2")
    left = [key for key, value in latest(kafka, "_rowfall_loaded").items()
            if topic_id(kafka, topic) in key and value]  # fmt: skip
    assert len([key for key in left if "/packed/" in key]) == 1
    assert len(left) == 2  # and the mark of the first load
    elsewhere = {"ROWFALL_HOME": str(tmp_path)}  # nothing but the record is known there
    assert shell.ends(0, "load", *to, env=elsewhere).document["splits_skipped"] == 6
    shell.ends(0, "forget", loads[0], "--yes", "--to", uri)
    assert shell.ends(0, "load", *to).document["rows"] == 3
    assert len(committed(kafka, topic)) == 9
    with closing(opened(uri)) as database:
        assert database.loaded() == ids
        assert database.loaded_among([*ids, "0" * 32]) == ids
        assert database.forget(loads[1]) == 3
        database.prune_record(-1)
    with closing(opened(uri)) as database:
        assert len(database.loaded()) == 3  # of the load that came last


@pytest.fixture
def packing(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[KafkaDatabase, ...]]:
    """Two processes at a topic of short messages, of which few are packed."""
    monkeypatch.setattr(kafka_record, "PACK", 4)
    uri = f"kafka://{kafka.servers}/{kafka.create(max_message_bytes=1000)}"
    with closing(opened(uri)) as one, closing(opened(uri)) as other:
        one.prepare(())
        yield one, other


def told(database: KafkaDatabase, load: str, ids: Sequence[str]) -> None:
    """Record ids as a load does."""
    records = [SplitRecord(id_, id_) for id_ in ids]
    database._send(database.record.loaded(records, f"{load}_1", load, 1))


IDS = [f"{number * 99_991:032x}" for number in range(200)]


def test_who_forgets_a_load_again_leaves_what_was_loaded_after_it(
    packing: tuple[KafkaDatabase, ...],
) -> None:
    database, _ = packing
    for load in ("first", "second"):
        told(database, load, IDS)
        database.join_record()
        assert (database.record.splits, len(database.loaded())) == ({}, len(IDS))
        assert database.forget("first") == (len(IDS) if load == "first" else 0)
    assert database.loaded() == set(IDS)
    assert database.forget("second") == len(IDS)
    assert not database.loaded()


def test_what_is_forgotten_while_it_is_packed_is_not_packed(
    packing: tuple[KafkaDatabase, ...],
) -> None:
    packer, other = packing
    told(packer, "first", IDS)

    def change() -> list[Message]:
        found = packer.record.packing()
        assert other.forget("first") == len(IDS)
        return found

    with pytest.raises(TargetError):
        packer._change(change, 10)
    packer.record.refresh()
    assert not packer.loaded()
    assert not other.loaded()


def test_many_ids_are_several_messages(
    packing: tuple[KafkaDatabase, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_record, "_MOST_IDS", 70)
    database, other = packing
    told(database, "first", IDS)
    database.join_record()
    assert other.loaded() == database.loaded() == set(IDS)
    assert len(other.record._files) == 3
    assert other.forget("first") == len(IDS)
    database.record.refresh()
    assert not database.loaded()


def test_a_record_that_was_not_read_for_long_is_read_anew(
    packing: tuple[KafkaDatabase, ...],
) -> None:
    """What says that an id was forgotten is gone from the topic after a day."""
    database, _ = packing
    told(database, "first", IDS[:2])
    database.record.splits["f" * 32] = database.record.splits[IDS[0]]
    assert len(database.loaded()) == 3
    database.record._read_at -= 7 * 3600
    assert database.loaded() == set(IDS[:2])


def test_what_lies_behind_an_open_transaction_is_waited_for(shell: Shell, kafka: Kafka) -> None:
    """All topics have one record, and nobody reads what comes behind what another one has begun:
    a load that did not wait would send again what is recorded there."""
    topic = kafka.create()
    shell.write("a.csv", csv([(1,)], "id"))
    to = ("--to", f"kafka://{kafka.servers}/{topic}", "--transactional", "--json")
    shell.ends(0, "load", "a.csv", *to)
    killed = kafka.producer(transactional_id=f"t{time.time_ns()}")
    killed.init_transactions(30)
    killed.begin_transaction()
    killed.produce("_rowfall_loaded", b"{}", key=b"another/id")
    killed.flush()
    shell.write("b.csv", csv([(2,)], "id"))
    refused = shell.ends(5, "load", "b.csv", *to, "--patience", "1s")
    assert "a transaction in _rowfall_loaded has been open" in " ".join(refused.err.split())
    ended = threading.Timer(3, killed.abort_transaction)
    ended.start()
    assert shell.ends(0, "load", "b.csv", *to).document["rows"] == 1
    ended.join()
    assert len(committed(kafka, topic)) == 2


@pytest.mark.parametrize(
    ("format_", "wanted"),
    [
        ("CSV", [(b"a", b'1,"a","x, ""y""\nz"'), (None, b'2,\\N,"w"')]),
        pytest.param(
            "TSV", [(b"a", b'1\ta\tx, "y"\\nz'), (None, b"2\t\\N\tw")], marks=pytest.mark.long
        ),
        pytest.param("JSONEachRow", [
            (b"a", b'{"id":1,"k":"a","t":"x, \\"y\\"\\nz"}'), (None, b'{"id":2,"k":null,"t":"w"}')
        ], marks=pytest.mark.long),
    ],
)  # fmt: skip
@pytest.mark.parametrize("keyed", [True, False])
def test_formats_and_keys(
    shell: Shell, kafka: Kafka, format_: str, wanted: list[Any], keyed: bool
) -> None:
    shell.write("a.jsonl", '{"id":1,"k":"a","t":"x, \\"y\\"\\nz"}\n{"id":2,"k":null,"t":"w"}\n')
    topic = kafka.create()
    key = ("--key", "k") if keyed else ()
    shell.ends(
        0, "load", "a.jsonl", "--to", f"kafka://{kafka.servers}/{topic}", "--to-format", format_,
        "--type", "k Nullable(String)", *key,
    )  # fmt: skip
    found = committed(kafka, topic)
    assert found == [(key if keyed else None, value) for key, value in wanted]


def test_what_is_declined_half_way_is_sent_once(shell: Shell, kafka: Kafka) -> None:
    """Without a transaction nobody takes back what was sent before: here a plus sign is met."""
    rows = "".join(f"{n},{'x' * 40}\n" for n in range(50_000))
    shell.write("a.csv", f"id,name\n{rows}+50000,x\n")
    to = ("--to", f"kafka://{kafka.servers}/{kafka.create()}", "--to-format", "CSV")
    types = ("--type", "id UInt32", "--type", "name String")
    plan = " ".join(shell.ends(0, "plan", "a.csv", *to, *types).out.split())
    assert "written as text by rowfall-decode" in plan
    done = shell.ends(0, "load", "a.csv", *to, *types)
    assert "the engine reads it instead" in done.talk
    sent = [value.partition(b",")[0] for _, value in committed(kafka, to[1].rpartition("/")[2])]
    assert sorted(map(int, sent)) == list(range(50_001))


def topics(kafka: Kafka) -> set[str]:
    return set(kafka.admin.list_topics(timeout=10).topics)


def policy(kafka: Kafka, topic: str) -> tuple[str, str]:
    """Return cleanup.policy and retention.ms of a topic."""
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = kafka.admin.describe_configs([resource])[resource].result(10)
    return found["cleanup.policy"].value, found["retention.ms"].value


@pytest.mark.parametrize("command", ["plan", "load"])
def test_a_mistyped_topic_is_not_made(shell: Shell, kafka: Kafka, command: str) -> None:
    """Brokers make what a client asks for by name, and the next load would find it there."""
    shell.write("a.csv", csv([(1, "x")], "id", "name"))
    name = f"{kafka.create()}-tpyo"
    to = f"kafka://{kafka.servers}/{name}"
    assert "no topic" in shell.ends(5, command, "a.csv", "--to", to).err
    assert "unknown topic" in shell.ends(4, command, to, "--table", "t").err
    if command == "plan":
        shell.ends(0, command, "a.csv", "--to", to, "--partitions", "2")
    assert name not in topics(kafka)


def test_partitions_are_as_many_as_asked_for(shell: Shell, kafka: Kafka) -> None:
    shell.write("a.csv", csv([(1, "x")], "id", "name"))
    name = f"{kafka.create()}-new"
    to = ("a.csv", "--to", f"kafka://{kafka.servers}/{name}")
    shell.ends(0, "load", *to, "--partitions", "3")
    assert len(kafka.admin.list_topics(name, timeout=10).topics[name].partitions) == 3
    shell.ends(0, "load", *to, "--partitions", "3")
    fewer = shell.ends(5, "load", *to, "--partitions", "4")
    assert "has 3 partitions, not 4" in fewer.err
    assert "--alter" in fewer.err


@pytest.mark.long
@pytest.mark.parametrize("made", ["by the broker", "by us"])
def test_the_record_never_expires(shell: Shell, kafka: Kafka, made: str) -> None:
    """A record that the broker makes keeps seven days, in as many partitions as it likes."""
    record = "_rowfall_loaded"
    shell.write("a.csv", csv([(1, "x"), (2, "y")], "id", "name"))
    if record in topics(kafka):
        kafka.drop(record)
        wait_until(lambda: record not in topics(kafka), 10, "the record to go")
    if made == "by the broker":
        kafka.create(record, partitions=3)
        wait_until(lambda: record in topics(kafka), 10, "the record to be there")
        assert policy(kafka, record)[0] == "delete"
    topic = kafka.create()
    to = ("a.csv", "--to", f"kafka://{kafka.servers}/{topic}", "--transactional", "--json")
    shell.ends(0, "plan", *to)
    assert (record in topics(kafka)) is (made == "by the broker")  # a plan changes nothing
    assert shell.ends(0, "load", *to).document["rows"] == 2
    assert policy(kafka, record) == ("compact", "-1")
    shell.write("b.csv", csv([(3, "z")], "id", "name"))
    assert shell.ends(0, "load", "*.csv", *to[1:]).document["rows"] == 1
    assert shell.ends(0, "load", "*.csv", *to[1:]).document["rows"] == 0


def expire(kafka: Kafka, topic: str) -> None:
    """Delete all messages of a topic, as its retention would, had nobody made it compacted."""
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
    )

    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    kafka.admin.incremental_alter_configs([resource])[resource].result(10)
    kafka.delete_before(topic, 0, -1)


@pytest.mark.long
@pytest.mark.parametrize("lost", ["gone", "expired"])
def test_a_topic_whose_record_is_lost_is_a_question(shell: Shell, kafka: Kafka, lost: str) -> None:
    """Otherwise the same command would send everything again."""
    record = "_rowfall_loaded"
    shell.write("a.csv", csv([(1, "x"), (2, "y")], "id", "name"))
    topic = kafka.create()
    to = ("load", "a.csv", "--to", f"kafka://{kafka.servers}/{topic}", "--transactional")
    shell.ends(0, *to)
    if lost == "gone":
        kafka.drop(record)
        wait_until(lambda: record not in topics(kafka), 10, "the record to go")
    else:
        expire(kafka, record)
    asked = shell.ends(3, *to)
    assert "nobody has on record" in asked.talk
    assert "--force-append" in asked.talk
    assert "rowfall adopt" in asked.talk
    assert len(committed(kafka, topic)) == 2
    shell.write("b.csv", csv([(3, "z")], "id", "name"))
    more = ("load", "b.csv", *to[2:])
    shell.ends(0, *more, "--force-append")
    # It is asked once.
    assert shell.ends(0, *more, "--json").document["rows"] == 0
    assert len(committed(kafka, topic)) == 3


@pytest.mark.long
def test_messages_of_others_are_asked_about_once(shell: Shell, kafka: Kafka) -> None:
    shell.write("a.csv", csv([(1, "x")], "id", "name"))
    topic = kafka.create()
    kafka.send(topic, [b'{"id":7}'])
    to = ("load", "a.csv", "--to", f"kafka://{kafka.servers}/{topic}")
    assert "--force-append" in shell.ends(3, *to).talk
    shell.ends(0, *to, "--force-append")
    shell.write("a.csv", csv([(1, "x"), (2, "y")], "id", "name"))
    shell.ends(0, *to)
    assert len(committed(kafka, topic)) == 4
    # One that was filled by a load which recorded nothing is none: it has begun there before.
    other = kafka.create()
    fresh = (*to[:3], f"kafka://{kafka.servers}/{other}")
    shell.ends(0, *fresh)
    load = shell.ends(0, "report", "last", "--json", "--to", fresh[3]).document["load_id"]
    shell.ends(0, "forget", load, "--yes", "--to", fresh[3])
    shell.ends(0, *fresh)


def test_selected_columns_have_keys(shell: Shell, kafka: Kafka) -> None:
    shell.write("a.csv", csv([(i, f"n{i}") for i in range(10)], "id", "name"))
    topic = kafka.create()
    shell.ends(
        0, "load", "a.csv", "--to", f"kafka://{kafka.servers}/{topic}", "--select",
        "id % 3 AS third, upper(name) AS big", "--where", "id > 7", "--key", "third",
    )  # fmt: skip
    assert committed(kafka, topic) == [
        (b"2", b'{"third":2,"big":"N8"}'), (b"0", b'{"third":0,"big":"N9"}')
    ]  # fmt: skip


def test_refusals(shell: Shell, kafka: Kafka) -> None:
    shell.write("a.csv", csv([(1, "x")], "id", "name"))
    topic = kafka.create()
    to = f"kafka://{kafka.servers}/{topic}"
    missing = shell.ends(5, "load", "a.csv", "--to", f"{to}-none").err
    assert "no topic" in missing
    assert "--partitions" in missing
    unknown = shell.ends(2, "load", "a.csv", "--to", to, "--key", "nam").err
    assert "--key nam" in unknown
    assert "name" in unknown
    assert "registry" in shell.ends(2, "load", "a.csv", "--to", to, "--to-format", "avro").talk
    assert "topic" in shell.ends(2, "load", "a.csv", "--to", to, "--replace").err
    assert "topic" in shell.ends(2, "load", "a.csv", "--to", to, "--table", "t").err
    assert "for topics" in shell.ends(2, "load", "a.csv", "--to", "here", "--transactional").err
    property_ = shell.ends(2, "load", "a.csv", "--to", f"{to}?partitioner=none").err
    assert "partitioner" in property_


@pytest.mark.long  # as long as brokers are waited for
def test_brokers_that_are_away(shell: Shell) -> None:
    shell.write("a.csv", csv([(1, "x")], "id", "name"))
    away = shell.ends(5, "load", "a.csv", "--to", "kafka://127.0.0.1:9/t").err
    assert "127.0.0.1:9" in away


def test_a_topic_is_read_to_be_asked(shell: Shell, kafka: Kafka) -> None:
    shell.write("a.csv", csv([(1, "x"), (2, "y")], "id", "name"))
    to = f"kafka://{kafka.servers}/{kafka.create()}"
    load = shell.ends(0, "load", "a.csv", "--to", to, "--json").document["load_id"]
    hint = f"rowfall load '{to}' --table t"
    assert hint in " ".join(shell.ends(2, "query", "SELECT 1", "--to", to).err.split())
    assert hint in " ".join(shell.ends(2, "verify", load, "--to", to).err.split())
    shell.ends(0, "load", to, "--table", "t")
    assert shell.row("SELECT count(), sum(id) FROM t") == [2, 3]


@pytest.mark.parametrize("more", [pytest.param((), marks=pytest.mark.long), ("--transactional",)])
def test_message_too_large_names_its_line(
    shell: Shell, kafka: Kafka, more: tuple[str, ...]
) -> None:
    rows = [(i, "x" * (5000 if i == 7 else 5)) for i in range(20)]
    shell.write("a.csv", csv(rows, "id", "name"))
    topic = kafka.create(max_message_bytes=3000)
    done = shell.ends(1, "load", "a.csv", "--to", f"kafka://{kafka.servers}/{topic}", *more)
    said = " ".join((done.out + done.err).split())
    assert "line 9" in said
    assert "max.message.bytes" in said
    assert "3,000" in said
    if more:
        assert not committed(kafka, topic)


def test_avro_with_a_schema_registry(shell: Shell, kafka: Kafka) -> None:
    """Rows come back through the real wire format, by a reader of its own; twice sends nothing."""
    import fastavro

    registry = Registry("me", "open:sesame@")
    shell.write("a.csv", "k,x,t,id\na,0.5,2024-01-02 03:04:05,5\n,1.5,2024-01-02 03:04:06,7\n")
    topic = kafka.create()
    more = f"schema.registry.url={registry.url}&schema.registry.user=me"
    to = f"kafka://{kafka.servers}/{topic}?{more}&schema.registry.password=open:sesame@"
    args = ("load", "a.csv", "--to", to, "--to-format", "Avro", "--key", "k", "--transactional")
    report = shell.ends(0, *args, "--json")
    assert report.document["rows"] == 2
    assert "sesame" not in report.out + report.err
    schema = fastavro.parse_schema(json.loads(str(registry._subjects[f"{topic}-value"]["schema"])))
    found = []
    for key, value in committed(kafka, topic):
        assert value[:5] == b"\0\0\0\0\1"
        found.append((key, fastavro.schemaless_reader(io.BytesIO(value[5:]), schema)))
    # 5 is written as the byte 10, which a reader of lines would take for an end.
    assert [(key, row["id"], row["k"], row["x"]) for key, row in found] == [
        (b"a", 5, "a", 0.5), (b"", 7, "", 1.5)
    ]  # fmt: skip
    assert shell.ends(0, *args, "--json").document["rows"] == 0
    assert len(registry._schemas) == 1
    shell.ends(0, "load", to, "--format", "Avro", "--table", "back")
    assert shell.row("SELECT count(), sum(id) FROM back") == [2, 12]


@pytest.mark.long
def test_avro_that_cannot_be_written(shell: Shell, kafka: Kafka) -> None:
    topic = kafka.create()
    to = f"kafka://{kafka.servers}/{topic}"
    registry = Registry()
    avro = ("--to", f"{to}?schema.registry.url={registry.url}", "--to-format", "Avro")
    shell.write("a.csv", "id\n18446744073709551615\n")
    done = shell.ends(2, "load", "a.csv", "--to", to, "--to-format", "Avro")
    assert "?schema.registry.url=http://host:8081" in done.talk
    done = shell.ends(2, "load", "a.csv", *avro[:2])
    assert "--to-format Avro" in done.talk
    done = shell.ends(1, "load", "a.csv", *avro, "--type", "id UInt64")
    assert "63 bits" in done.talk
    shell.write("b.csv", "the id\n1\n")
    done = shell.ends(2, "load", "b.csv", *avro)
    assert "--rename 'the id=name'" in done.talk
    shell.write("c.csv", "id\n1\n")
    registry.refuses = True
    done = shell.run("load", "c.csv", *avro)
    assert done.code in (1, 5, 6), done.err
    assert "incompatible" in done.talk
    assert not committed(kafka, topic)
    registry.refuses = False
    shell.ends(0, "load", "c.csv", *avro)
    shell.ends(0, "load", "b.csv", *avro, "--rename", "the id=name")
    assert len(committed(kafka, topic)) == 2
