"""Errors of brokers and librdkafka, and their meaning here: one table for both directions."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum, auto
from typing import Any

from rowfall.core import extras
from rowfall.core.errors import UsageError
from rowfall.core.options import Options
from rowfall.core.patterns import regex

_UNKNOWN = regex(r'No such configuration property: "([\w-]+)"')


class KafkaErrorMeaning(Enum):
    """Meaning of an error code."""

    END = auto()  # a reader is at the end of a partition
    LOST = auto()  # there is no such offset: retention, or a topic that was made anew
    NO_TOPIC = auto()
    BAD_NAME = auto()
    EXISTS = auto()
    NO_RIGHT_TO_TOPIC = auto()
    NO_RIGHT = auto()  # to a group, the cluster, a transactional id, a token
    AWAY = auto()  # nobody has answered in time
    FENCED = auto()  # another producer has the transactional id
    FULL = auto()  # the queue of librdkafka
    TOO_LARGE = auto()
    BROKEN = auto()  # messages that came cannot be unpacked or taken apart
    PURGED = auto()  # a message went with one that failed
    FATAL = auto()  # the code of the cause has to be asked for
    OTHER = auto()


CODES = {
    "_PARTITION_EOF": (-191, KafkaErrorMeaning.END),
    "_AUTO_OFFSET_RESET": (-140, KafkaErrorMeaning.LOST),
    "OFFSET_OUT_OF_RANGE": (1, KafkaErrorMeaning.LOST),
    "UNKNOWN_TOPIC_OR_PART": (3, KafkaErrorMeaning.NO_TOPIC),
    "_UNKNOWN_PARTITION": (-190, KafkaErrorMeaning.NO_TOPIC),
    "TOPIC_EXCEPTION": (17, KafkaErrorMeaning.BAD_NAME),
    "TOPIC_ALREADY_EXISTS": (36, KafkaErrorMeaning.EXISTS),
    "TOPIC_AUTHORIZATION_FAILED": (29, KafkaErrorMeaning.NO_RIGHT_TO_TOPIC),
    "GROUP_AUTHORIZATION_FAILED": (30, KafkaErrorMeaning.NO_RIGHT),
    "CLUSTER_AUTHORIZATION_FAILED": (31, KafkaErrorMeaning.NO_RIGHT),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": (53, KafkaErrorMeaning.NO_RIGHT),
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": (65, KafkaErrorMeaning.NO_RIGHT),
    "_TIMED_OUT": (-185, KafkaErrorMeaning.AWAY),
    "_MSG_TIMED_OUT": (-192, KafkaErrorMeaning.AWAY),
    "REQUEST_TIMED_OUT": (7, KafkaErrorMeaning.AWAY),
    "_FENCED": (-144, KafkaErrorMeaning.FENCED),
    "INVALID_PRODUCER_EPOCH": (47, KafkaErrorMeaning.FENCED),
    "PRODUCER_FENCED": (90, KafkaErrorMeaning.FENCED),
    "_QUEUE_FULL": (-184, KafkaErrorMeaning.FULL),
    "MSG_SIZE_TOO_LARGE": (10, KafkaErrorMeaning.TOO_LARGE),
    "_BAD_COMPRESSION": (-198, KafkaErrorMeaning.BROKEN),
    "_BAD_MSG": (-199, KafkaErrorMeaning.BROKEN),
    "_PURGE_QUEUE": (-152, KafkaErrorMeaning.PURGED),
    "_PURGE_INFLIGHT": (-151, KafkaErrorMeaning.PURGED),
    "_FATAL": (-150, KafkaErrorMeaning.FATAL),
}
"""Name in the Python client -> number in librdkafka (``rd_kafka_resp_err_t``), meaning."""

RIGHTS = (KafkaErrorMeaning.NO_RIGHT_TO_TOPIC, KafkaErrorMeaning.NO_RIGHT)
_MEANINGS = dict(CODES.values())


def meaning(code: int) -> KafkaErrorMeaning:
    """Return the meaning of an error code of librdkafka; OTHER for one that is not listed."""
    return _MEANINGS.get(code, KafkaErrorMeaning.OTHER)


class ReadingError(Exception):
    """Messages of a partition cannot be read.

    Attributes:
        answer: LOST, NO_TOPIC, NO_RIGHT_TO_TOPIC, BROKEN, or AWAY: nothing was heard for ``waited``
            seconds. ``at``: the offset that was asked for. ``error``: of the Python client.
    """

    def __init__(
        self,
        answer: KafkaErrorMeaning,
        partition: int,
        at: int,
        *,
        error: Any = None,
        waited: float = 0,
    ) -> None:
        super().__init__(answer.name)
        self.answer, self.partition, self.at = answer, partition, at
        self.error, self.waited = error, waited


def missing_client() -> UsageError:
    """Return the error that says what to install."""
    return extras.missing("kafka:// needs the client of Kafka, which is not installed", "kafka")


def refused_property(text: str, address: str = "") -> UsageError:
    """Return the error of a property that librdkafka does not know, or not with that value."""
    hint = "Properties: https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md"
    found = _UNKNOWN.search(text)
    name = found[1].replace("-", "_") if found else ""
    if name in {field.name for field in fields(Options)}:
        flag = f"--{name.replace('_', '-')}"
        into = ", of a target --to-format" if name == "format" else ""
        hint = f"It is an option behind the address, and no part of it: {flag}{into}"
    return UsageError(
        f"librdkafka refuses a property{' of ' if address else ''}{address}: {text}", hint=hint
    )
