"""What an object is packed with: one rule."""

from __future__ import annotations

import pytest

from rowfall.core import formats
from rowfall.core.model import Encoding, Kind
from rowfall.sources.compression import compression_of


@pytest.mark.parametrize(
    ("uri", "packed"),
    [
        ("/d/a.csv.gz", "gzip"),
        ("/d/a.csv", "none"),
        ("/d/a.csv?b.gz", "gzip"),  # a file here has no query
        ("s3://b/a.csv?b.zst", "zstd"),
        ("https://h/a.csv.xz?sig=b.gz", "xz"),
        ("https://h/a.csv.gz;jsessionid=1", "gzip"),
        ("hdfs://h:8020/a.csv.bz2?http=9870", "bz2"),
    ],
)
def test_names_say_it_where_objects_differ(uri: str, packed: str) -> None:
    assert compression_of(uri, formats.AUTO) == packed
    assert compression_of(uri, Encoding("CSV", formats.AUTO, Kind.TEXT)) == packed


@pytest.mark.parametrize("declared", ["none", "gzip", "zstd"])
def test_what_is_declared_for_all_objects_holds(declared: str) -> None:
    assert compression_of("/d/a.csv.xz", declared) == declared
    assert compression_of("/d/a.csv.xz", Encoding("CSV", declared, Kind.TEXT)) == declared
