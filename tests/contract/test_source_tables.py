"""What tables of MariaDB and of another ClickHouse promise as sources, without a load."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from lab.clickhouse import ClickHouse
from lab.mariadb import MariaDB
from rowfall.core.errors import SourceError
from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Statement
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.sources import open_source
from rowfall.sources.base import Continued, Source, Streamed
from rowfall.systems.clickhouse.embedded import Embedded

pytestmark = pytest.mark.xdist_group("mysql")
_EVERYTHING = (60_000, 12_540_210_000)


@pytest.fixture(scope="module")
def engine() -> Iterator[Embedded]:
    engine = Embedded(None, memory=1 << 30)
    yield engine
    engine.close()


def total(
    engine: Embedded, source: Source, splits: list[Split], encoding: Encoding | None
) -> tuple[int, int]:
    """Number of rows and sum of ``a``."""
    relation = source.relation(splits, encoding, "`a` Int64, `b` String")
    text = SqlText.of("SELECT count(), sum(a) FROM ", relation)
    count, added = engine.run(Statement(text, format="TSV")).data.split()
    return int(count), int(added)


def opened(uri: str) -> Any:
    source = open_source([uri], Options())
    assert isinstance(source, Streamed)
    assert isinstance(source, Continued)
    return source


def test_a_table_of_mariadb(mariadb: MariaDB, engine: Embedded) -> None:
    """Every row is in one range, below zero too; ranges that are loaded are left out."""
    name = f"contract_{os.getpid()}"
    mariadb.query(
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.t (a BIGINT PRIMARY KEY, b VARCHAR(200) NOT NULL)",
        f"INSERT INTO {name}.t SELECT 7 * CAST(seq AS SIGNED) - 1000, REPEAT('x', 200) "
        f"FROM {name}.seq_1_to_60000",
        f"ANALYZE TABLE {name}.t",
    )
    uri = mariadb.uri(f"{name}/t")
    source = opened(uri)
    listing, encoding = source.listing(), source.encoding(source.listing())
    splits = list(listing.splits("t"))
    assert len(splits) > 8
    again = opened(uri.replace("mysql://", "mariadb://"))
    assert next(again.listing().splits("t")).whole == splits[0].whole
    assert next(again.listing().splits("other")).whole != splits[0].whole
    assert total(engine, source, splits, encoding) == _EVERYTHING
    each = [total(engine, source, [split], encoding) for split in splits]
    assert tuple(map(sum, zip(*each, strict=True))) == _EVERYTHING
    # Ranges hold about as many rows each, though nobody has counted them.
    assert max(count for count, _ in each) < 3 * 60_000 / len(splits)
    assert source.changed(splits) == []
    some = [(s.start or 0, s.stop or 0) for s in splits[3:5]]
    rest = list(source.listing_after({splits[0].uri: some}).splits("t"))
    assert [s.id for s in rest] == [s.id for s in splits if s not in splits[3:5]]
    source.close()
    again.close()


def test_parts_that_are_merged_between_listing_and_reading(
    clickhouse: ClickHouse, engine: Embedded
) -> None:
    """Merged among themselves they are the same rows; with new ones they are refused."""
    name = f"contract_{os.getpid()}"
    clickhouse.query(f"CREATE DATABASE {name}")
    clickhouse.query(f"CREATE TABLE {name}.t (a Int64, b String) ENGINE = MergeTree "
                     "PARTITION BY a % 3 ORDER BY a")  # fmt: skip
    insert = f"INSERT INTO {name}.t SELECT 7 * number - 993, 'x' FROM numbers"
    for start in range(0, 60_000, 20_000):
        clickhouse.query(f"{insert}({start}, 20000)")
    source = opened(f"{clickhouse.uri(name)}/t")
    listing, encoding = source.listing(), source.encoding(source.listing())
    splits = list(listing.splits("t"))
    assert total(engine, source, splits, encoding) == _EVERYTHING
    clickhouse.query(f"OPTIMIZE TABLE {name}.t FINAL")
    assert total(engine, source, splits, encoding) == _EVERYTHING
    clickhouse.query(f"INSERT INTO {name}.t VALUES (3, 'new')")
    assert total(engine, source, splits, encoding) == _EVERYTHING
    clickhouse.query(f"OPTIMIZE TABLE {name}.t PARTITION 0 FINAL")
    (mixed,) = (split for split in splits if split.uri.endswith("=0"))
    with pytest.raises(SourceError, match="were merged with rows"):
        list(source.stream(mixed))
    others = [split for split in splits if split is not mixed]
    count, _ = total(engine, source, others, encoding)
    assert 39_000 < count < 41_000
    source.close()


@pytest.mark.long
def test_a_server_that_dies_is_no_end_of_the_rows() -> None:
    with ClickHouse() as server:
        server.query("CREATE DATABASE d")
        server.query("CREATE TABLE d.t (a Int64, b String) ENGINE = MergeTree ORDER BY a")
        server.query(
            "INSERT INTO d.t SELECT number, randomPrintableASCII(1000) FROM numbers(100000)"
        )
        source = opened(f"{server.uri('d')}/t")
        (split,) = source.listing().splits("t")
        stream = source.stream(split)
        next(stream)
        server.kill()
        with pytest.raises(SourceError) as error:
            list(stream)
        assert error.value.transient
