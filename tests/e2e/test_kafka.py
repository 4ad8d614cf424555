"""Loading topics of a real broker as a user does it: what lands, once, and what is said."""

from __future__ import annotations

import io
import itertools
import json
import shlex
import signal
import sqlite3
import time
from typing import Any

import pytest

from e2e.fleet import Fleet
from e2e.lake import JOURNAL, Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.kafka import Kafka, Registry
from lab.process import let_pass, wait_until
from rowfall.contracts.destination import LoadRun, Session
from rowfall.contracts.load import Settled
from rowfall.core.listing import Listing
from rowfall.core.options import Options
from rowfall.destinations.clickhouse.tables import ClickHouseTables
from rowfall.run import follow
from rowfall.sources import open_source
from rowfall.sources.base import Streamed

pytestmark = pytest.mark.xdist_group("kafka")


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def uri(kafka: Kafka, topic: str) -> str:
    return f"kafka://{kafka.servers}/{topic}"


def lines(start: int, stop: int) -> list[bytes | None]:
    return [b"%d,n%d" % (i, i) for i in range(start, stop)]


def load(shell: Shell, source: str, *args: str) -> dict[str, Any]:
    table = () if "--table" in args else ("--table", "t")
    return shell.ok("load", source, *table, "--json", *args).document


def loaded(shell: Shell) -> int:
    """Rows that are visible in the folder ``d``, which a running load keeps for itself."""
    ledger = shell.folder / "d/rowfall.ledger"
    if not ledger.exists():
        return 0
    with sqlite3.connect(ledger) as db:
        try:
            ((rows,),) = db.execute("SELECT sum(rows) FROM attempt WHERE state = 'published'")
        except sqlite3.OperationalError:  # it has just been made, and is empty
            return 0
    return int(rows or 0)


def test_a_load_goes_on_behind_the_last_one(shell: Shell, kafka: Kafka) -> None:
    topic = kafka.create(partitions=2)
    kafka.send(topic, lines(0, 1000), 0)
    kafka.send(topic, lines(1000, 1500), 1)
    first = load(shell, uri(kafka, topic), "--verify")
    assert (first["rows"], first["splits_loaded"], first["splits_skipped"]) == (1500, 2, 0)
    again = load(shell, uri(kafka, topic))
    assert (again["rows"], again["splits_loaded"], again["splits_skipped"]) == (0, 0, 2)
    kafka.send(topic, lines(1500, 1600), 1)
    more = load(shell, uri(kafka, topic), "--verify")
    assert (more["rows"], more["splits_loaded"], more["splits_skipped"]) == (100, 1, 2)
    assert shell.row("SELECT count(), uniqExact(c1), sum(c1) FROM t") == [1600, 1600, 1279200]
    plan = shell.ok("plan", uri(kafka, topic), "--table", "t").out
    assert "3 ranges" in plan or "nothing" in plan, plan


def test_messages_of_no_row_of_one_and_of_several(shell: Shell, kafka: Kafka) -> None:
    topic = kafka.create()
    kafka.send(topic, [
        b"1,a", b"2,b\n", b"3,c\n4,d\n", b"5,e\r\n", None, b"", b"6,f\n7,g", b'8,"x, ""y"""',
    ])  # fmt: skip
    assert load(shell, uri(kafka, topic))["rows"] == 8
    found = shell.rows("SELECT * FROM t ORDER BY c1")
    assert found == [*([i, c] for i, c in enumerate("abcdefg", 1)), [8, 'x, "y"']]


def test_tsv_and_json(shell: Shell, kafka: Kafka) -> None:
    tsv, objects = kafka.create(), kafka.create()
    kafka.send(tsv, [b"1\ta b", b"2\tc\\td\n"])
    assert load(shell, uri(kafka, tsv))["rows"] == 2
    assert shell.rows("SELECT * FROM t ORDER BY c1") == [[1, "a b"], [2, "c\td"]]
    kafka.send(objects, [b'{"a": 1, "b": "x"}', b'{"a": 2, "b": "y"}\n{"a": 3, "b": "z"}'])
    load(shell, uri(kafka, objects), "--table", "j")
    assert shell.rows("SELECT * FROM j ORDER BY a") == [[1, "x"], [2, "y"], [3, "z"]]


def avro(id_: int, schema: dict[str, Any], *records: dict[str, Any]) -> list[bytes]:
    import fastavro

    found = []
    for record in records:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, record)
        found.append(b"\0" + id_.to_bytes(4, "big") + out.getvalue())
    return found


def test_avro_with_a_schema_registry(shell: Shell, kafka: Kafka) -> None:
    """The registry is a stand-in, the wire format Confluent's; the schema has grown meanwhile."""
    registry = Registry("me", "open-sesame")
    old: dict[str, Any] = {"type": "record", "name": "r", "fields": [
        {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]},
    ]}  # fmt: skip
    new = {**old, "fields": [*old["fields"], {"name": "n", "type": "int", "default": 7}]}
    first, second = (registry.add(json.dumps(schema)) for schema in (old, new))
    topic = kafka.create()
    kafka.send(topic, avro(first, old, *({"id": i, "name": f"n{i}"} for i in range(100))))
    kafka.send(topic, avro(second, new, {"id": 100, "name": None, "n": 1}))
    more = f"schema.registry.url={registry.url}&schema.registry.user=me"
    source = f"{uri(kafka, topic)}?{more}&schema.registry.password=open-sesame"
    done = load(shell, source, "--format", "avro", "--verify")
    assert done["rows"] == 101
    assert shell.row("SELECT count(), sum(id), sum(n), countIf(name IS NULL) FROM t") == [
        101, 5050, 701, 1,
    ]  # fmt: skip
    kafka.send(topic, [b"no avro"])
    failed = shell.ends(1, "load", source, "--table", "t", "--format", "Avro")
    assert "offset 101: it does not begin with the id of a schema" in failed.talk
    assert "open-sesame" not in failed.out + failed.err
    refused = shell.ends(4, "load", f"{uri(kafka, topic)}?{more}", "--format", "Avro")
    assert "401" in refused.talk
    assert "registry.url" in shell.ends(2, "load", uri(kafka, topic), "--format", "Avro").talk
    registry.close()


def test_times_of_avro_in_units_of_their_own(shell: Shell, kafka: Kafka) -> None:
    """1005 ms were stored as 00:16:45, and microseconds of an older schema were cut to ms."""
    registry = Registry()

    def schema(unit: str) -> dict[str, Any]:
        base = "int" if unit == "time-millis" else "long"
        column = {"name": "a", "type": {"type": base, "logicalType": unit}}
        return {"type": "record", "name": "r", "fields": [column]}

    topic, day = kafka.create(), schema("time-millis")
    kafka.send(topic, avro(registry.add(json.dumps(day)), day, {"a": 1005}))
    source = f"{uri(kafka, topic)}?schema.registry.url={registry.url}"
    shell.ok("query", "--write", "CREATE TABLE made (a Time64(3)) ORDER BY ()")
    for more in (("--table", "t", "--type", "a Time64(3)"), ("--table", "made")):
        done = shell.ends(2, "load", source, "--format", "Avro", *more)
        assert "the numbers of a are time-millis of Avro" in done.talk
    select = shlex.split(done.talk.partition("--select ")[2].partition("\n")[0])[0]
    shell.ok("load", source, "--format", "Avro", "--table", "made", "--select", select)
    assert shell.row("SELECT toString(a) FROM made") == ["00:00:01.005"]

    topic, micros, millis = kafka.create(), schema("timestamp-micros"), schema("timestamp-millis")
    ids = [registry.add(json.dumps(one)) for one in (micros, millis)]
    kafka.send(topic, avro(ids[0], micros, {"a": 5005000}))
    kafka.send(topic, avro(ids[1], millis, {"a": 6006}))
    source = f"{uri(kafka, topic)}?schema.registry.url={registry.url}"
    load(shell, source, "--format", "Avro")
    shown = ["1970-01-01 00:00:05.005", "1970-01-01 00:00:06.006"]
    assert shell.rows("SELECT toString(a) FROM t ORDER BY a") == [[one] for one in shown]
    kafka.send(topic, avro(ids[0], micros, {"a": 7007007}))
    kafka.send(topic, avro(ids[1], millis, {"a": 8008}))
    failed = shell.ends(1, "load", source, "--format", "Avro", "--table", "t")
    assert f"offset 2: it is not of its schema {ids[0]}: the schema {ids[1]}" in failed.talk
    registry.close()


def test_what_a_message_is_besides_its_value(shell: Shell, kafka: Kafka) -> None:
    csv, objects = kafka.create(partitions=2), kafka.create()
    given: dict[str, Any] = {"timestamp": 1_700_000_000_123}
    kafka.send(csv, [b'1,"a\nb"', b"2,c\n3,d\n"], 1, key=b'k"1', headers={"h": "v"}, **given)
    kafka.send(csv, [b"4,e"], 0, **given)
    asked = [
        f"--add-column={what}=_{what}"
        for what in ("offset", "partition", "timestamp", "key", "headers", "topic")
    ]
    assert load(shell, uri(kafka, csv), *asked, "--add-column=f=_path")["rows"] == 4
    names = "c1, offset, partition, toString(timestamp), key, headers, topic, f"
    moment = "2023-11-14 22:13:20.123"
    rest = (1, moment, 'k"1', '{"h": "v"}', csv, f"kafka://{csv}/1")
    assert shell.rows(f"SELECT {names} FROM t ORDER BY c1") == [
        [1, 0, *rest], [2, 1, *rest], [3, 1, *rest],
        [4, 0, 0, moment, "", "", csv, f"kafka://{csv}/0"],
    ]  # fmt: skip
    kafka.send(csv, [b"5,f"], 0)
    assert load(shell, uri(kafka, csv), *asked, "--add-column=f=_path")["rows"] == 1
    kafka.send(objects, [b'{"a": 1}', b'{ "a": 2}\n{"a": 3}', b"{}"], key="k")
    load(shell, uri(kafka, objects), *asked, "--table", "j")
    found = shell.rows("SELECT a, offset, key FROM j ORDER BY offset, a")
    assert found == [[1, 0, "k"], [2, 1, "k"], [3, 1, "k"], [None, 2, "k"]]
    assert "not one of" in shell.ends(2, "load", uri(kafka, csv), "--add-column=x=_nothing").talk


def test_aborted_transactions_bring_no_rows(shell: Shell, kafka: Kafka) -> None:
    """The last offsets of a range hold no message: marks of transactions, and what was aborted."""
    topic = kafka.create()
    producer = kafka.producer(transactional_id=f"t{time.time_ns()}")
    producer.init_transactions(30)
    for number, ends in enumerate(("commit", "abort", "commit", "abort")):
        producer.begin_transaction()
        for line in lines(number * 100, number * 100 + 100):
            producer.produce(topic, line)
        producer.flush()
        (producer.commit_transaction if ends == "commit" else producer.abort_transaction)()
    assert load(shell, uri(kafka, topic), "--verify")["rows"] == 200
    assert load(shell, uri(kafka, topic))["splits_loaded"] == 0
    # One that is open is not there yet.
    producer.begin_transaction()
    producer.produce(topic, b"400,late")
    producer.flush()
    assert load(shell, uri(kafka, topic))["splits_loaded"] == 0
    producer.commit_transaction()
    assert load(shell, uri(kafka, topic))["rows"] == 1
    assert shell.row("SELECT count(), sum(c1) FROM t") == [201, 4950 + 24950 + 400]


def _tombstones(kafka: Kafka, topic: str) -> None:
    kafka.send(topic, [None] * 30_000, key="k")


def _aborted(kafka: Kafka, topic: str) -> None:
    producer = kafka.producer(transactional_id=f"t{time.time_ns()}")
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(60_000):
        producer.produce(topic, b"aborted,%d" % number)
    producer.flush()
    producer.abort_transaction()


@pytest.mark.parametrize("begin", [_tombstones, pytest.param(_aborted, marks=pytest.mark.long)])
def test_rows_are_far_behind_the_first_offset(shell: Shell, kafka: Kafka, begin: Any) -> None:
    topic = kafka.create()
    begin(kafka, topic)
    kafka.send(topic, lines(0, 100))
    assert load(shell, uri(kafka, topic), "--verify")["rows"] == 100
    assert shell.row("SELECT count(), sum(c1) FROM t") == [100, 4950]
    # What comes brings no row, and is loaded.
    begin(kafka, topic)
    assert load(shell, uri(kafka, topic))["rows"] == 0
    assert load(shell, uri(kafka, topic))["splits_loaded"] == 0
    typed = load(shell, uri(kafka, topic), "--table", "s", "--schema", "id Int64, name String")
    assert typed["rows"] == 100


def test_avro_of_the_newest_schema_lies_before_tombstones(shell: Shell, kafka: Kafka) -> None:
    registry = Registry()
    schema: dict[str, Any] = {
        "type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}],
    }  # fmt: skip
    id_ = registry.add(json.dumps(schema))
    topic = kafka.create()
    kafka.send(topic, avro(id_, schema, *({"id": i} for i in range(10))))
    kafka.send(topic, [None] * 600, key="k")
    source = f"{uri(kafka, topic)}?schema.registry.url={registry.url}"
    assert load(shell, source, "--format", "Avro")["rows"] == 10
    # Who does not say the format is told it, in a command.
    told = shell.ends(2, "load", source, "--table", "u").talk
    hint = f"rowfall load '{source}' --format Avro"
    assert hint in " ".join(told.split())
    assert "--encoding" not in told
    registry.close()


def test_columns_are_named_beside_added_ones(shell: Shell, kafka: Kafka) -> None:
    topic = kafka.create()
    kafka.send(topic, lines(0, 3), key="k")
    source, added = uri(kafka, topic), ("--add-column", "key=_key", "--add-column", "at=_offset")
    load(shell, source, "--columns", "id,name", *added)
    load(shell, source, "--columns", "id,name,key,at", *added, "--table", "named")
    load(shell, source, "--schema", "id Int32, name String", *added, "--table", "typed")
    for table in ("t", "named", "typed"):
        found = shell.rows(f"SELECT id, name, key, at FROM {table} ORDER BY id")
        assert found == [[i, f"n{i}", "k", i] for i in range(3)]


def test_messages_that_retention_has_deleted_are_named(shell: Shell, kafka: Kafka) -> None:
    topic = kafka.create(partitions=2)
    kafka.send(topic, lines(0, 100))
    load(shell, uri(kafka, topic))
    kafka.send(topic, lines(100, 300))
    kafka.delete_before(topic, 0, 250)
    failed = shell.ends(4, "load", uri(kafka, topic), "--table", "t")
    assert "offsets 100 to 249 of partition 0" in failed.talk
    assert "--from earliest" in failed.talk
    done = shell.ok("load", uri(kafka, topic), "--table", "t", "--from", "earliest")
    assert "offsets 100 to 249 of partition 0" in done.talk
    assert shell.row("SELECT count(), max(c1), countIf(c1 >= 100 AND c1 < 250) FROM t") == [
        150, 299, 0,
    ]  # fmt: skip
    assert load(shell, uri(kafka, topic), "--from", "earliest")["splits_loaded"] == 0


def test_a_poison_message_is_named_and_passed_by(shell: Shell, kafka: Kafka) -> None:
    topic = kafka.create(partitions=2)
    kafka.send(topic, [*lines(0, 10), b'10,"open', *lines(11, 20)], 0)
    kafka.send(topic, lines(20, 30), 1)
    failed = shell.ends(1, "load", uri(kafka, topic), "--table", "t")
    assert f"{topic} partition 0 offset 10: a quote is opened" in failed.talk
    assert shell.row("SELECT count() FROM t") == [10]
    load(shell, uri(kafka, topic), "--until", "0:10")
    load(shell, uri(kafka, topic), "--from", "0:11")
    assert shell.row("SELECT count(), sum(c1) FROM t") == [29, 435 - 10]


def test_a_value_that_does_not_fit_is_named_or_rejected(shell: Shell, kafka: Kafka) -> None:
    topic = kafka.create()
    kafka.send(topic, [*lines(0, 50), b"x,y", *lines(51, 100)])
    typed = ("--schema", "a UInt32, b String")
    failed = shell.ends(1, "load", uri(kafka, topic), "--table", "t", *typed)
    assert f'kafka://{topic}/0 offset 50 column "a": "x" does not fit UInt32' in failed.talk
    done = load(shell, uri(kafka, topic), *typed, "--max-errors", "1")
    assert (done["rows"], done["rows_rejected"]) == (99, 1)
    rejected = (shell.folder / "rowfall-rejects.tsv").read_text().splitlines()[1].split("\t")
    assert rejected[:3] == [f"kafka://{topic}/0", "50", "a"]
    assert rejected[-1] == "x,y"


@pytest.mark.long
def test_from_and_until(shell: Shell, kafka: Kafka) -> None:
    topic = kafka.create(partitions=2)
    kafka.send(topic, lines(0, 50), 0, timestamp=1_700_000_000_000)
    kafka.send(topic, lines(50, 100), 0, timestamp=1_700_000_100_000)
    kafka.send(topic, lines(100, 120), 1, timestamp=1_700_000_000_000)
    source = uri(kafka, topic)
    assert load(shell, source, "--from", "10", "--until", "40")["rows"] == 40
    # What is behind, not what is before.
    assert load(shell, source, "--until", "2023-11-14T22:14:00Z")["rows"] == 10
    assert load(shell, source, "--from", "2023-11-14T22:14:00")["rows"] == 50
    assert load(shell, source)["rows"] == 0
    assert load(shell, source, "--from", "earliest")["rows"] == 20
    assert shell.row("SELECT count(), uniqExact(c1) FROM t") == [120, 120]
    named = f"{source}?group.id=g{time.time_ns()}"
    assert load(shell, named, "--from", "committed", "--table", "u")["rows"] == 120
    for wrong in (("--from", "never"), ("--until", "committed"), ("--from", "7:1")):
        shell.ends(2, "load", source, "--table", "t", *wrong)
    assert "group.id=NAME" in shell.ends(2, "load", source, "--from", "committed").talk


@pytest.mark.long
def test_a_topic_that_is_made_anew_is_another_one(shell: Shell, kafka: Kafka) -> None:
    topic = kafka.create()
    kafka.send(topic, lines(0, 100))
    load(shell, uri(kafka, topic))
    kafka.drop(topic)
    let_pass(0.5, "the name is free when the broker has forgotten it, which it tells nobody")
    kafka.create(topic)
    kafka.send(topic, lines(200, 210))
    assert load(shell, uri(kafka, topic))["rows"] == 10
    assert shell.row("SELECT count() FROM t") == [110]


def test_what_is_not_there(shell: Shell, kafka: Kafka) -> None:
    gone = shell.ends(4, "load", uri(kafka, "nothing"), "--table", "t")
    assert "cannot read the topic nothing" in gone.talk
    for wrong in ("kafka://h:9092", "kafka://h:9092/", "kafka:///t"):
        assert "kafka://host:9092/topic" in shell.ends(2, "load", wrong).talk
    refused = shell.ends(2, "load", f"{uri(kafka, 'x')}?no.such.property=1", "--table", "t")
    assert "no.such.property" in refused.talk
    secret = "kafka://me:open-sesame@h:1/t?nonsense=1"
    assert "open-sesame" not in "".join(str(shell.ends(2, "load", secret)))


def test_an_empty_topic(shell: Shell, kafka: Kafka) -> None:
    topic = kafka.create(partitions=2)
    empty = shell.ends(4, "load", uri(kafka, topic), "--table", "t")
    assert "holds no data to infer columns from" in empty.talk
    kafka.send(topic, lines(0, 10))
    assert load(shell, uri(kafka, topic))["rows"] == 10
    assert shell.row("SELECT count() FROM t") == [10]


@pytest.mark.long
def test_other_consumers_change_nothing(shell: Shell, kafka: Kafka) -> None:
    """One joins the group of that name, and leaves it, while the topic is loaded."""
    from confluent_kafka import Consumer

    topic = kafka.create(partitions=2)
    for partition in (0, 1):
        kafka.send(topic, lines(partition * 20_000, partition * 20_000 + 20_000), partition)
    given = {"bootstrap.servers": kafka.servers, "group.id": "rowfall"}
    other = Consumer({**given, "auto.offset.reset": "earliest"})
    other.subscribe([topic])
    other.consume(100, 2)
    done = load(shell, uri(kafka, topic), "--verify")
    other.close()
    assert done["rows"] == 40_000
    assert shell.row("SELECT count(), uniqExact(c1) FROM t") == [40_000, 40_000]


def test_follow(shell: Shell, kafka: Kafka) -> None:
    """A topic that begins empty; Ctrl-C between two batches, and one that goes on."""
    topic = kafka.create(partitions=2)
    command = ("load", uri(kafka, topic), "--table", "t", "--follow", "--to", "d")
    running = shell.cli.start(*command)
    kafka.send(topic, [b'{"a": 1}', b'{"a": 2}'], 0)
    wait_until(lambda: loaded(shell) == 2, 60, "the first batch")
    kafka.send(topic, [b'{"a": 3}'], 1)
    wait_until(lambda: loaded(shell) == 3, 60, "the second batch")
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    # 130: it was still busy with the end of the batch.
    assert running.returncode in (0, 130), said
    load(shell, uri(kafka, topic), "--to", "d")
    assert shell.row("SELECT count(), sum(a) FROM t", "--to", "d") == [3, 6]
    for wrong in ("--atomic", "--force", "--until=5"):
        shell.ends(2, *command, wrong)
    assert "is for topics" in shell.ends(2, "load", "generate://trips?rows=5", "--follow").talk


def followed(kafka: Kafka, topic: str, batches: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the next ``--follow`` load so many batches, one message line after the other.

    Returns:
        A list that gets an entry for each time that everything is asked as for a first batch.
    """
    wait, ask = follow._wait, ClickHouseTables.settle
    numbers, asked = itertools.count(), list[int]()

    def next_batch(session: Session, seen: dict[str, int]) -> Listing | None:
        number = next(numbers)
        if number == batches:
            return None
        kafka.send(topic, lines(number * 10, number * 10 + 10), number % 2)
        return wait(session, seen)

    def settle(load: LoadRun) -> Settled:
        asked.append(1)
        return ask(load)

    for name, value in (
        ("_wait", next_batch), ("BATCH_SECONDS", 0), ("POLL_SECONDS", 0.02), ("KEPT", 2),
    ):  # fmt: skip
        monkeypatch.setattr(follow, name, value)
    monkeypatch.setattr(ClickHouseTables, "settle", staticmethod(settle))
    return asked


@pytest.mark.long
def test_batches_cost_the_same_and_leave_a_small_ledger(
    shell: Shell, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older ones become one load, which may be forgotten like any other."""
    topic = kafka.create(partitions=2)
    asked = followed(kafka, topic, 6, monkeypatch)
    done = load(shell, uri(kafka, topic), "--follow")
    assert (done["rows"], len(asked)) == (60, 1)
    with sqlite3.connect(shell.folder / "rowfall-data/rowfall.ledger") as db:
        ((loads,),) = db.execute("SELECT count(*) FROM load")
        ((attempts, rows),) = db.execute("SELECT count(*), sum(rows) FROM attempt")
        ((loaded, splits),) = db.execute(
            "SELECT (SELECT count(*) FROM landed), (SELECT count(*) FROM split)"
        )
    # Of each partition one range of the older batches, and one of the last batch.
    assert (loads, attempts, rows, loaded, splits) == (2, 2, 60, 3, 2)
    reports = json.loads(shell.ok("status", "--json").out)
    assert sorted(one["rows"] for one in reports["loads"]) == [10, 50]
    assert load(shell, uri(kafka, topic))["splits_loaded"] == 0
    assert shell.row("SELECT count(), uniqExact(c1) FROM t") == [60, 60]
    older = next(one["load_id"] for one in reports["loads"] if one["rows"] == 50)
    shell.ok("query", "--write", "DELETE FROM t WHERE c1 < 50")
    shell.ok("forget", older, "--yes")
    assert load(shell, uri(kafka, topic), "--from", "earliest")["rows"] == 50
    assert shell.row("SELECT count(), uniqExact(c1) FROM t") == [60, 60]


@pytest.mark.long
def test_batches_into_a_server_cost_the_same(
    lake: Lake, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create(partitions=2)
    asked = followed(kafka, topic, 5, monkeypatch)
    done = lake.load(uri(kafka, topic), "--table", "t", "--follow")
    assert (done["rows"], len(asked)) == (50, 1)
    assert lake.load(uri(kafka, topic), "--table", "t")["rows"] == 0
    home = {"ROWFALL_HOME": str(lake.shell.folder / "elsewhere")}
    assert lake.load(uri(kafka, topic), "--table", "t", env=home)["rows"] == 0
    assert lake.row("SELECT count(), uniqExact(c1) FROM {db}.t") == [50, 50]
    assert lake.tables() == {"t", JOURNAL}
    # The load that stands for older batches is forgotten with all of them.
    reports = json.loads(lake.ok("status", "--json").out)["loads"]
    older = max(reports, key=lambda one: one["rows"])
    assert older["rows"] == 40
    lake.do("DELETE FROM {db}.t WHERE c1 < 40")
    lake.ok("forget", older["load_id"], "--yes")
    assert lake.load(uri(kafka, topic), "--table", "t", "--from", "earliest")["rows"] == 40
    assert lake.row("SELECT count(), uniqExact(c1) FROM {db}.t") == [50, 50]


@pytest.mark.long
def test_batches_into_a_cluster(
    fleet: Fleet, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create(partitions=2)
    asked = followed(kafka, topic, 4, monkeypatch)
    assert fleet.load(uri(kafka, topic), "--table", "t", "--follow")["rows"] == 40
    assert len(asked) == 1
    assert fleet.load(uri(kafka, topic), "--table", "t")["rows"] == 0
    assert fleet.numbers("t", "c1") == [40, 40]


@pytest.mark.long
def test_into_a_server(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create(partitions=2)
    kafka.send(topic, lines(0, 1000), 0)
    kafka.send(topic, lines(1000, 2000), 1)
    source = uri(kafka, topic)
    assert lake.load(source, "--table", "t", "--verify")["rows"] == 2000
    kafka.send(topic, lines(2000, 2100), 1)
    # Another machine has no ledger of this load: the journal says what is loaded.
    home = {"ROWFALL_HOME": str(lake.shell.folder / "elsewhere")}
    assert lake.load(source, "--table", "t", env=home)["rows"] == 100
    assert lake.load(source, "--table", "t")["rows"] == 0
    assert lake.row("SELECT count(), uniqExact(c1) FROM {db}.t") == [2100, 2100]
    assert lake.tables() == {"t", JOURNAL}


def test_who_reads_slowly_is_not_taken_for_silent_brokers(kafka: Kafka) -> None:
    """A pipe may be full for longer than the patience with brokers: the engine merges, say."""
    topic = kafka.create()
    kafka.send(topic, lines(0, 30_000), 0)
    source = open_source([uri(kafka, topic)], Options(patience="1s", format="CSV"))
    listing = source.listing()
    source.encoding(listing)
    assert isinstance(source, Streamed)
    (split,) = listing.splits("")
    pieces = source.stream(split)
    rows = next(pieces).count(b"\n")
    let_pass(1.2, "the engine takes its time")
    rows += sum(piece.count(b"\n") for piece in pieces)
    assert rows == 30_000
