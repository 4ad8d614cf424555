"""What guides promise of values and rows, beside the test that holds it: neither goes alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROMISES = [
    ("guides/databases.md", "engine and partition key are not taken over",
     "e2e/test_clickhouse_source.py::test_partitions_are_loaded_with_their_types_and_new_parts_later"),
    ("guides/databases.md", "(0001 to 9999; 1900 to 2299 before ClickHouse 26.7)",
     "e2e/test_older_readers.py::test_a_day_at_which_the_reader_of_a_server_raises"),
    ("guides/databases.md", "none of twenty rows that the last load has looked at is what it was",
     "e2e/test_mysql.py::test_a_table_that_was_made_anew_and_has_grown_is_another_one"),
    ("guides/to-mysql.md", "columns that the files lack keep their values, and no foreign key "
     "cascades", "e2e/test_to_mysql.py::test_rows_whose_key_is_there"),
    ("guides/to-kafka.md", "a mistyped name makes none",
     "e2e/test_to_kafka.py::test_a_mistyped_topic_is_not_made"),
    ("guides/to-kafka.md", "It is compacted and never expires",
     "e2e/test_to_kafka.py::test_the_record_never_expires"),
    ("guides/kafka.md", "one of 950 MB in 1 MB of gzip took 1.8 GiB where 1 GiB was given",
     "faults/test_kafka_bombs.py::test_one_message_of_a_gigabyte"),
    ("guides/lakes.md", "version 3 is read, but for deletion vectors",
     "e2e/test_lakes.py::test_deletion_vectors_of_version_3"),
    ("guides/python.md", "polars' Categorical and Enum, at any depth",
     "e2e/test_frames.py::test_categories_of_polars"),
    ("guides/databases.md", "a NULL array is an error",
     "e2e/test_postgresql.py::test_arrays_that_are_null_or_have_dimensions"),
]  # fmt: skip


@pytest.mark.parametrize(("page", "promise", "test"), PROMISES, ids=[p[1][:30] for p in PROMISES])
def test_what_is_promised_is_held(page: str, promise: str, test: str) -> None:
    text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
    assert promise in text
    file, _, name = test.partition("::")
    source = (ROOT / "tests" / file).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", source, re.M), test
