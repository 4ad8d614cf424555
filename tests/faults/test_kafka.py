"""Faults of loads from Kafka, each with every row once afterwards: killed loads, killed brokers."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from e2e.tools import Shell
from lab.kafka import Kafka
from lab.process import let_pass, wait_until
from rowfall import load
from rowfall.core.errors import SourceGoneError
from rowfall.core.events import Event, LoadStarted

pytestmark = pytest.mark.xdist_group("kafka")
ROWS = 30_000


@pytest.fixture
def shell(rowfall: object) -> Shell:
    return Shell(rowfall)


@pytest.fixture(scope="module")
def mortal() -> Iterator[Kafka]:
    """A broker that may be killed."""
    with Kafka() as service:
        yield service


def filled(kafka: Kafka, start: int = 0, stop: int = ROWS) -> str:
    topic = kafka.create(partitions=2)
    fill(kafka, topic, start, stop)
    return topic


def fill(kafka: Kafka, topic: str, start: int, stop: int, partitions: int = 2) -> None:
    for partition in range(partitions):
        values = (b"%d,n%d" % (i, i) for i in range(start, stop) if i % partitions == partition)
        kafka.send(topic, values, partition)


def check(shell: Shell, rows: int) -> None:
    expected = [rows, rows, rows * (rows - 1) // 2]
    assert shell.row("SELECT count(), uniqExact(c1), sum(c1) FROM t", "--to", "d") == expected


def command(kafka: Kafka, topic: str, *more: str) -> tuple[str, ...]:
    return ("load", f"kafka://{kafka.servers}/{topic}", "--table", "t", "--to", "d", *more)


def published(shell: Shell) -> int:
    """Return the attempts whose rows are visible in the folder ``d``, as its ledger has them."""
    ledger = shell.folder / "d/rowfall.ledger"
    if not ledger.exists():
        return 0
    with sqlite3.connect(ledger) as db:
        try:
            ((count,),) = db.execute("SELECT count() FROM attempt WHERE state = 'published'")
        except sqlite3.OperationalError:  # it has just been made, and is empty
            return 0
    return int(count)


def kill_and_repeat(shell: Shell, kafka: Kafka, attempts: list[int]) -> None:
    """Kill loads after so many attempts each, before they end; the topic grows in between."""
    partitions, rows = 12, ROWS  # an attempt for each
    topic = kafka.create(partitions=partitions)
    fill(kafka, topic, 0, rows, partitions)
    for wanted in attempts:
        running = shell.cli.start(*command(kafka, topic, "--attempt-bytes", "16KiB"))
        enough = partial(_published_or_ended, shell, running, published(shell) + wanted)
        wait_until(enough, 60, "attempts to be published")
        running.send_signal(signal.SIGKILL)
        running.wait(30)
        assert running.returncode == -signal.SIGKILL, "the load had ended before it was killed"
        fill(kafka, topic, rows, rows + 600, partitions)
        rows += 600
    shell.ok(*command(kafka, topic))
    check(shell, rows)


def _published_or_ended(shell: Shell, running: subprocess.Popen[str], wanted: int) -> bool:
    return running.poll() is not None or published(shell) >= wanted


def test_a_killed_load_goes_on(shell: Shell, kafka: Kafka) -> None:
    kill_and_repeat(shell, kafka, [1])


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_load_that_is_killed_again_and_again(shell: Shell, kafka: Kafka) -> None:
    kill_and_repeat(shell, kafka, [1, 0, 1, 2, 0, 1])


@pytest.mark.long
def test_the_broker_is_killed_and_comes_back(shell: Shell, mortal: Kafka) -> None:
    """The load waits for it; what it had read is not read twice."""
    topic = filled(mortal)
    mortal.pause()
    running = shell.cli.start(*command(mortal, topic))
    let_pass(1.5, "it has asked for the topic, and a broker that is stopped tells nobody")
    mortal.kill()
    back = threading.Thread(target=mortal.start)
    back.start()
    _, said = running.communicate(timeout=90)
    back.join()
    assert running.returncode in (0, 4), said
    shell.ok(*command(mortal, topic))
    check(shell, ROWS)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_broker_is_killed_while_a_topic_is_followed(shell: Shell, mortal: Kafka) -> None:
    topic, rows = filled(mortal, 0, 1000), 1000
    running = shell.cli.start(*command(mortal, topic, "--follow"))
    for _ in range(3):
        let_pass(4, "each batch of the topic may be at any point")
        mortal.kill()
        mortal.start()
        fill(mortal, topic, rows, rows + 1000)
        rows += 1000
    let_pass(12, "ten of its looks at the topic bring no batch that ends it")
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    running.wait(30)
    shell.ok(*command(mortal, topic))
    check(shell, rows)


@pytest.mark.long
def test_compaction_leaves_gaps(shell: Shell, kafka: Kafka) -> None:
    """The last offsets of a range are gone as well: only the newest message of a key is left."""
    topic = kafka.create(
        cleanup_policy="compact", min_cleanable_dirty_ratio=0.001, segment_ms=100,
        max_compaction_lag_ms=100, delete_retention_ms=0,
    )  # fmt: skip
    for number in range(300):
        kafka.send(topic, [b"%d,n" % number], key=b"k%d" % (number % 10))
        if number % 100 == 0:
            let_pass(0.2, "a segment closes by its age")

    def compacted() -> bool:
        kafka.send(topic, [b"1000,n"], key=b"last")  # closes the segment
        let_pass(0.3, "the segment is closed and cleaned by then, or at the next look")
        log = list((kafka.folder / "data" / f"{topic}-0").glob("*.log"))
        return sum(path.stat().st_size for path in log) < 3000

    wait_until(compacted, 60, "compaction")
    shell.ok(*command(kafka, topic, "--until", "300"))
    newest = sorted(range(290, 300))
    found = shell.rows("SELECT DISTINCT c1 FROM t WHERE c1 < 300 ORDER BY c1", "--to", "d")
    assert [row[0] for row in found][-10:] == newest
    shell.ok(*command(kafka, topic, "--until", "300"))
    assert shell.row("SELECT count() = uniqExact(c1) FROM t", "--to", "d") == [1]


def test_retention_deletes_messages_during_a_load(shell: Shell, kafka: Kafka) -> None:
    """It ends at once and names them, also those of ranges that nobody has come to yet."""
    topic = kafka.create(partitions=2)
    fill(kafka, topic, 0, 2000)

    def hear(event: Event) -> None:
        if isinstance(event, LoadStarted):
            kafka.delete_before(topic, 0, 600)
            kafka.delete_before(topic, 1, 10)

    source = f"kafka://{kafka.servers}/{topic}"
    to = shell.folder / "d"
    with pytest.raises(SourceGoneError) as caught:
        load(source, to=to, table="t", on_event=hear)
    lost = "offsets 0 to 599 of partition 0, offsets 0 to 9 of partition 1"
    assert f"has lost messages that were not loaded: {lost}" in caught.value.message
    assert caught.value.exit_code == 4
    assert "--from earliest" in (caught.value.hint or "")
    shell.ok(*command(kafka, topic, "--from", "earliest"))
    row = shell.row("SELECT count(), uniqExact(c1), min(c1) FROM t", "--to", "d")
    assert row == [1390, 1390, 21]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_brokers_that_stay_away_end_a_load_after_its_patience(shell: Shell, mortal: Kafka) -> None:
    topic = filled(mortal)
    following = shell.cli.start(*command(mortal, topic, "--follow", "--patience", "5s"))
    wait_until(lambda: (shell.folder / "d/rowfall.ledger").exists(), 30, "the first batch")
    let_pass(3, "the stream has nothing to do, which nobody says")
    began = time.monotonic()
    mortal.kill()
    _, said = following.communicate(timeout=120)
    try:
        assert following.returncode in (1, 4), said
        assert time.monotonic() - began < 60
        assert "127.0.0.1" in said or "away" in said, said
    finally:
        mortal.start()
    shell.ok(*command(mortal, topic))
    check(shell, ROWS)


@pytest.mark.long
def test_retention_deletes_messages_while_they_are_read(shell: Shell, kafka: Kafka) -> None:
    """What is gone is said, and the rest lands with --from earliest."""
    topic = kafka.create()
    kafka.send(topic, (b"%d,%s" % (i, b"x" * 200) for i in range(200_000)))
    running = shell.cli.start(*command(kafka, topic))
    wait_until(lambda: (shell.folder / "d").exists(), 30, "the load to begin")
    kafka.delete_before(topic, 0, 150_000)
    _, said = running.communicate(timeout=90)
    if running.returncode:
        assert running.returncode == 4, said
        assert "has lost messages" in said
    done = shell.run(*command(kafka, topic))
    assert done.code in (0, 4)
    shell.ok(*command(kafka, topic, "--from", "earliest"))
    row = shell.row("SELECT countIf(c1 >= 150000), count() = uniqExact(c1) FROM t", "--to", "d")
    assert row == [50_000, 1]
