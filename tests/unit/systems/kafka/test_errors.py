"""The table of errors, against the client that is installed."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from rowfall.core.errors import UsageError
from rowfall.core.options import Options
from rowfall.systems.kafka.errors import CODES, KafkaErrorMeaning, meaning
from rowfall.systems.kafka.source import KafkaSource


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


@pytest.mark.parametrize(("name", "hint"), [
    ("format", "no part of it: --format"), ("max-errors", "--max-errors"),
    ("fromat", "Properties:"),
])  # fmt: skip
def test_an_option_among_the_properties_of_an_address(name: str, hint: str) -> None:
    """The client's own words were all that was said of ?format=JSONEachRow."""
    source = KafkaSource([f"kafka://127.0.0.1:1/t?{name}=x"], Options(patience="1s"))
    with pytest.raises(UsageError, match=f'No such configuration property: "{name}"') as error:
        source.listing()
    assert error.value.hint is not None
    assert hint in error.value.hint
