"""Brokers that want TLS and a password: what lands, and what is said to those who may not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.tools import Shell
from lab.kafka import Kafka

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def secure() -> Iterator[Kafka]:
    with Kafka(secure=True) as service:
        yield service


@pytest.fixture
def topic(secure: Kafka) -> str:
    made = secure.create(partitions=2)
    for partition in (0, 1):
        secure.send(made, [b"%d,n" % (i * 2 + partition) for i in range(5000)], partition)
    secure.let_in(made)
    return made


def uri(secure: Kafka, topic: str, user: str, *more: str) -> str:
    query = "&".join((f"ssl.ca.location={secure.ca}", *more))
    return f"kafka://{user}@{secure.secure_servers}/{topic}?{query}"


def test_plain_and_scram(shell: Shell, secure: Kafka, topic: str) -> None:
    """The password in the address, or in the environment."""
    plain = uri(secure, topic, f"loader:{secure.password}")
    scram = uri(secure, topic, "loader", "sasl.mechanism=SCRAM-SHA-256")
    for table, source, env in (
        ("plain", plain, {}), ("scram", scram, {"KAFKA_SASL_PASSWORD": secure.password}),
    ):  # fmt: skip
        done = shell.ok("load", source, "--table", table, "--verify", env=env)
        assert shell.row(f"SELECT count(), sum(c1) FROM {table}") == [10_000, 49_995_000]
        assert secure.password not in done.out + done.err
    # By the same topic another address goes on behind the last one.
    more = shell.ok("load", f"kafka://{secure.servers}/{topic}", "--table", "plain", "--json")
    assert more.document["splits_loaded"] == 0
    for path in shell.folder.rglob("*"):
        assert not path.is_file() or secure.password.encode() not in path.read_bytes(), path


def test_who_may_not(shell: Shell, secure: Kafka, topic: str) -> None:
    wrong = shell.ends(4, "load", uri(secure, topic, "loader:nonsense"), "--table", "t")
    assert "authentication" in wrong.talk.lower()
    assert "nonsense" not in wrong.out + wrong.err
    stranger = uri(secure, topic, f"stranger:{secure.password}")
    refused = shell.ends(4, "load", stranger, "--table", "t")
    assert "this user may not" in refused.talk, refused.talk
    unknown = f"kafka://loader:{secure.password}@{secure.secure_servers}/{topic}"
    failed = shell.ends(4, "load", unknown, "--table", "t")
    assert "certificate" in failed.talk.lower(), failed.talk
