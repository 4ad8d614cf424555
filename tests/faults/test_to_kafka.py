"""Faults of loads into topics: readers of committed messages see each row once afterwards."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from e2e.test_to_kafka import committed
from e2e.tools import Shell
from lab.kafka import Kafka
from lab.process import let_pass, wait_until, wait_until_stopped

pytestmark = pytest.mark.xdist_group("kafka")

FILES, ROWS = 6, 20_000


@pytest.fixture
def shell(rowfall: object) -> Shell:
    shell = Shell(rowfall)
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        shell.write(f"in/{number}.csv", "id,pad\n" + "".join(f"{i},{'x' * 50}\n" for i in ids))
    return shell


@pytest.fixture(scope="module")
def mortal() -> Iterator[Kafka]:
    """A broker that may be killed."""
    with Kafka() as service:
        yield service


def command(kafka: Kafka, topic: str, *more: str) -> tuple[str, ...]:
    return (
        "load", "in/*.csv", "--to", f"kafka://{kafka.servers}/{topic}", "--attempt-bytes", "1KB",
        "--threads", "2", "--memory", "1GiB", "--transactional", *more,
    )  # fmt: skip


def check(kafka: Kafka, topic: str) -> None:
    ids = [json.loads(value)["id"] for _, value in committed(kafka, topic, 2)]
    assert len(ids) == FILES * ROWS
    assert sorted(ids) == list(range(FILES * ROWS))


def written(kafka: Kafka, topic: str) -> int:
    """Return the end of the topic, with what is not committed."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    reader = Consumer({"bootstrap.servers": kafka.servers, "group.id": "end"})
    try:
        return sum(
            int(reader.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1])
            for p in range(2)
        )
    except KafkaException as error:  # a topic that was just made has no leader yet
        raise OSError(str(error)) from error
    finally:
        reader.close()


def stopped_behind(kafka: Kafka, topic: str, share: float, process: subprocess.Popen[str]) -> None:
    """Stop the load when so much of its rows has arrived.

    A look takes as long as a fifth of the load, which stands still meanwhile.
    """
    give_up = time.monotonic() + 60
    while True:
        process.send_signal(signal.SIGSTOP)
        wait_until_stopped(process.pid)
        with contextlib.suppress(OSError):
            if written(kafka, topic) > share * FILES * ROWS:
                return
        assert time.monotonic() < give_up, "no rows arrive"
        process.send_signal(signal.SIGCONT)
        let_pass(0.02, "it writes on before it is stopped again")


@pytest.mark.parametrize("share", [0.2, pytest.param(0.7, marks=pytest.mark.long)])
def test_a_kill_in_the_middle(shell: Shell, kafka: Kafka, share: float) -> None:
    topic = kafka.create(partitions=2)
    process = shell.cli.start(*command(kafka, topic))
    stopped_behind(kafka, topic, share, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    report = shell.ends(0, *command(kafka, topic, "--json")).document
    check(kafka, topic)
    assert report["splits_skipped"] + report["splits_loaded"] == FILES
    assert shell.ends(0, *command(kafka, topic, "--json")).document["rows"] == 0


@pytest.mark.long
def test_a_paused_load_is_fenced(shell: Shell, kafka: Kafka) -> None:
    """A zombie that wakes up after another one has loaded all commits nothing."""
    topic = kafka.create(partitions=2)
    process = shell.cli.start(*command(kafka, topic))
    stopped_behind(kafka, topic, 0.2, process)
    try:
        # A ledger of this machine is locked by the first one; of another machine there is none.
        other = {"ROWFALL_HOME": str(shell.cli.cwd / "other")}
        shell.ends(0, *command(kafka, topic), env=other)
        check(kafka, topic)
    finally:
        process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=60)
    assert process.returncode in (1, 5), out + err
    assert "another rowfall" in out + err
    check(kafka, topic)


@pytest.mark.long
def test_the_broker_is_killed_and_comes_back(shell: Shell, mortal: Kafka) -> None:
    topic = mortal.create(partitions=2)
    process = shell.cli.start(*command(mortal, topic))
    wait_until(lambda: written(mortal, topic) > 0.2 * FILES * ROWS, 60, "rows to arrive")
    mortal.kill()
    again = threading.Thread(target=mortal.start)
    let_pass(1, "a second without a broker")
    again.start()
    out, err = process.communicate(timeout=120)
    again.join()
    assert "Traceback" not in err
    if process.returncode:
        assert process.returncode in (1, 5), out + err
        shell.ends(0, *command(mortal, topic))
    check(mortal, topic)
