"""Buckets whose events come through a queue of SQS: ElasticMQ, which speaks its protocol.

No store here sends events by itself, so the tests send them, in the form of S3.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

import pytest

from e2e.following import Follower
from e2e.tools import Shell
from lab.elasticmq import ElasticMq, created
from lab.process import wait_until
from lab.seaweed import Seaweed
from rowfall.contracts.following import Lag
from rowfall.core.errors import SourceError, UsageError


@pytest.fixture(scope="module")
def mq() -> Iterator[ElasticMq]:
    with ElasticMq() as service:
        yield service


@pytest.fixture
def queue(mq: ElasticMq, bucket: str) -> str:
    return mq.create(bucket)


def csv(number: int) -> bytes:
    return b"a\n%d\n" % number


def rows(shell: Shell) -> list[int]:
    return [row[0] for row in shell.rows("SELECT a FROM t ORDER BY a", "--to", "d")]


def test_objects_are_loaded_when_the_queue_tells_of_them(
    shell: Shell, s3: Seaweed, mq: ElasticMq, queue: str, bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Listings come once an hour here; events come twice, of others too, and for what is gone."""
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    s3.put(bucket, "in/first.csv", csv(0))

    def put(number: int) -> None:
        # With letters that events write in their own way.
        key = f"in/a day=1/{number} +é.csv"
        s3.put(bucket, key, csv(number))
        for _ in range(2):
            mq.send(queue, created(bucket, key, "in/gone.csv", "other/x.csv", "in/_hidden.csv"))
        mq.send(queue, created("another-bucket", key))

    s3.put(bucket, "other/x.csv", csv(99))
    s3.put(bucket, "in/_hidden.csv", csv(98))
    mq.send(queue, '{"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"}')
    follower = Follower(lambda: put(1), lambda: put(2))
    monkeypatch.setattr(follower, "idle", idle_after(follower, mq, queue))
    follower.run(f"s3://{bucket}/in/", shell.folder / "d", queue=queue, poll="1h")
    assert rows(shell) == [0, 1, 2]
    assert follower.failed == []
    assert mq.left(queue) == 0


def idle_after(follower: Follower, mq: ElasticMq, queue: str) -> Callable[[Lag], None]:
    """Do the next step when the queue is empty."""
    steps = list(follower._steps)

    def idle(lag: Lag) -> None:
        if mq.left(queue):
            return
        if steps:
            steps.pop(0)()
        else:
            follower.control.stop()

    return idle


def test_what_no_event_tells_of_is_found_by_listing(
    shell: Shell, s3: Seaweed, mq: ElasticMq, queue: str, bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Foreign messages stay in the queue, which is said."""
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    s3.put(bucket, "in/a.csv", csv(1))
    mq.send(queue, "not of S3")
    follower = Follower(lambda: s3.put(bucket, "in/b.csv", csv(2)))
    follower.run(f"s3://{bucket}/in/", shell.folder / "d", queue=queue)
    assert rows(shell) == [1, 2]
    assert mq.left(queue) == 1
    assert any("is no event of S3, and stays there: not of S3" in text for text in follower.said)


def test_a_queue_has_to_be_there(
    shell: Shell, s3: Seaweed, mq: ElasticMq, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    gone = f"{mq.url}/000000000000/gone"
    with pytest.raises(
        SourceError, match=r"cannot read the queue .*gone: the .*queue does not exist"
    ):
        Follower().run(f"s3://{bucket}/in/", shell.folder / "d", queue=gone)
    for text in ("gone", "arn:aws:sqs:eu-central-1:1:q", "https://sqs.eu-central-1.amazonaws.com"):
        with pytest.raises(UsageError, match="is not the URL of a queue"):
            Follower().run(f"s3://{bucket}/in/", shell.folder / "d", queue=text)
    (shell.folder / "in").mkdir()
    with pytest.raises(UsageError, match="--queue is for buckets of S3"):
        Follower().run(str(shell.folder / "in"), shell.folder / "d", queue=gone)


@pytest.mark.long
def test_a_queue_that_goes_away_and_keys_that_change(
    shell: Shell, s3: Seaweed, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile listings find everything."""
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("rowfall.stores.event_queue._AGAIN_SECONDS", 0.1)
    with ElasticMq() as own:
        queue = own.create("q")

        def away() -> None:
            own.kill()
            s3.put(bucket, "in/a.csv", csv(1))

        def back() -> None:
            own.start()
            own.create("q")
            s3.put(bucket, "in/b.csv", csv(2))
            own.send(queue, created(bucket, "in/b.csv"))

        follower = Follower(away, back)
        follower.run(f"s3://{bucket}/in/", shell.folder / "d", queue=queue, poll="0.1s")
    assert rows(shell) == [1, 2]
    assert any("objects are found by listing alone meanwhile" in text for text in follower.said)


def there(shell: Shell, number: int) -> bool:
    done = shell.run("query", f"SELECT count() FROM t WHERE a = {number}", "--to", "d")
    return done.out == "count()\n1\n"


def test_a_watcher_hears_of_an_object_and_ends_at_once(
    shell: Shell, s3: Seaweed, mq: ElasticMq, queue: str, bucket: str
) -> None:
    """The real command: an object is visible within seconds though it lists once an hour."""
    s3.put(bucket, "in/a.csv", csv(1))
    running = shell.cli.start(
        "load", f"s3://{bucket}/in/", "--table", "t", "--to", "d", "--follow", "--queue", queue,
        "--poll", "1h", "--batch-seconds", "0", env=s3.env,
    )  # fmt: skip
    try:
        wait_until(lambda: there(shell, 1), 60, "the first")
        s3.put(bucket, "in/0.csv", csv(2))
        mq.send(queue, created(bucket, "in/0.csv"))
        wait_until(lambda: there(shell, 2), 30, "the second")
    finally:
        began = time.monotonic()
        running.send_signal(signal.SIGTERM)
        code = running.wait(30)
    assert code in (0, 130)
    assert time.monotonic() - began < 10
    assert mq.left(queue) == 0
