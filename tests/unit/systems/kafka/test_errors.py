"""The table of errors, against the client that is installed."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from rowfall.systems.kafka.errors import CODES, KafkaErrorMeaning, meaning


@pytest.mark.parametrize("name", CODES)
def test_names_and_numbers_are_those_of_the_client(name: str) -> None:
    code, answer = CODES[name]
    assert KafkaError(code).name() == name
    assert meaning(code) is answer


def test_every_right_is_known() -> None:
    """A new right that brokers ask for would be taken for brokers that do not answer."""
    names = [name for name in dir(KafkaError) if name.endswith("AUTHORIZATION_FAILED")]
    assert len(names) >= 5
    for name in names:
        answer = meaning(getattr(KafkaError, name))
        assert answer in (KafkaErrorMeaning.NO_RIGHT, KafkaErrorMeaning.NO_RIGHT_TO_TOPIC), name


def test_what_nobody_knows() -> None:
    assert meaning(9999) is KafkaErrorMeaning.OTHER
