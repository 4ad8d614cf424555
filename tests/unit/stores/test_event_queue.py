"""Messages that tell of new objects."""

from __future__ import annotations

import json

import pytest

from rowfall.stores.event_queue import names_in

_MADE = {
    "eventName": "ObjectCreated:Put",
    "s3": {"bucket": {"name": "b"}, "object": {"key": "in/a+b%2B%C3%A9.csv"}},
}


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({"Records": [_MADE]}, ["s3://b/in/a b+é.csv"]),
        ({"Records": [{**_MADE, "eventName": "s3:ObjectCreated:Copy"}]}, ["s3://b/in/a b+é.csv"]),
        ({"Records": [{**_MADE, "eventName": "ObjectRemoved:Delete"}]}, []),
        ({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"}, []),
        (
            {"Type": "Notification", "Message": json.dumps({"Records": [_MADE]})},
            ["s3://b/in/a b+é.csv"],
        ),
        (
            {
                "source": "aws.s3", "detail-type": "Object Created",
                "detail": {"bucket": {"name": "b"}, "object": {"key": "in/a+b%20.csv"}},
            },
            ["s3://b/in/a+b%20.csv"],
        ),
        ({"source": "aws.s3", "detail-type": "Object Deleted", "detail": {}}, []),
        ({"Records": [{"eventName": "ObjectCreated:Put"}]}, None),
        ({"Type": "Notification", "Message": "hello"}, None),
        ({"Records": [{"eventName": 1}]}, None),
        ([1], None),
        ({}, None),
    ],
)  # fmt: skip
def test_names_of_events(said: object, names: list[str] | None) -> None:
    assert names_in(json.dumps(said)) == names


def test_what_is_no_json_is_no_event() -> None:
    assert names_in("hello") is None
