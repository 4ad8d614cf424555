"""Known rows: what is loaded as it should be passes, and every kind of damage is found."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from lab.clickhouse import ClickHouse
from lab.rows import DAYS, Rows, check_exact, create_target, leftovers, make_rows

DATABASE = "lab_rows_known"


@pytest.fixture(scope="module")
def rows(clickhouse: ClickHouse, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return make_rows(clickhouse, tmp_path_factory.mktemp("rows") / "files", files=5, rows=5000)


@pytest.fixture
def loaded(clickhouse: ClickHouse, rows: Rows) -> Iterator[ClickHouse]:
    """A server whose target holds every row once."""
    create_target(clickhouse, DATABASE, views=True)
    for name, body in rows.bodies().items():
        text = gzip.decompress(body) if name.endswith(".gz") else body
        clickhouse.query(f"INSERT INTO {DATABASE}.t FORMAT CSVWithNames", body=text)
    yield clickhouse
    clickhouse.query(f"DROP DATABASE {DATABASE}")


def test_files_hold_every_row_once(loaded: ClickHouse, rows: Rows) -> None:
    assert rows.checksum[0] == 5000
    assert len({path.stat().st_size for path in rows.folder.iterdir()}) == 5
    assert [name for name in rows.names if name.endswith(".gz")] == ["part-002.csv.gz"]
    check_exact(loaded, DATABASE, rows)
    parts = loaded.query(
        f"SELECT uniqExact(partition) FROM system.parts WHERE database = '{DATABASE}' "
        "AND table = 't'"
    )
    assert parts == f"{DAYS}\n"


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("INSERT INTO t SELECT * FROM t WHERE id = 17", r"doubled '17"),
        ("DELETE FROM t WHERE id = 4999", r"missing '4999"),
        ("ALTER TABLE t UPDATE note = 'x' WHERE id = 5 SETTINGS mutations_sync = 1", r"\b5000\b"),
        ("INSERT INTO t_copy SELECT * FROM t WHERE id = 17", "view of every row"),
        ("INSERT INTO t_days VALUES ('2024-01-02', 1, 0)", "view of sums by day"),
        ("CREATE TABLE _rowfall_x AS t", "_rowfall_x"),
    ],
    ids=["doubled", "missing", "changed", "view", "sums", "left"],
)
@pytest.mark.sampled
def test_damage_is_found(loaded: ClickHouse, rows: Rows, damage: str, found: str) -> None:
    loaded.query(damage, settings={"database": DATABASE})
    with pytest.raises(AssertionError, match=found):
        check_exact(loaded, DATABASE, rows)


def test_parts_that_came_twice_are_found(loaded: ClickHouse, rows: Rows) -> None:
    def run(sql: str) -> None:
        loaded.query(sql, settings={"database": DATABASE})

    run("CREATE TABLE u AS t")
    run("SYSTEM STOP MERGES u")  # one that is made of both parts would hide them
    run("ALTER TABLE u ATTACH PARTITION '2024-01-02' FROM t")
    run("ALTER TABLE u ATTACH PARTITION '2024-01-02' FROM t")
    with pytest.raises(AssertionError, match="the same part twice"):
        check_exact(loaded, DATABASE, rows)


def test_the_journal_may_stay(loaded: ClickHouse, rows: Rows) -> None:
    loaded.query(f"CREATE TABLE {DATABASE}._rowfall_journal (a UInt8) ENGINE = Memory")
    assert leftovers(loaded, DATABASE) == []
    check_exact(loaded, DATABASE, rows)


@pytest.mark.parametrize("partitioned", [True, False])
def test_targets_without_views(clickhouse: ClickHouse, partitioned: bool) -> None:
    create_target(clickhouse, "lab_rows_bare", partitioned=partitioned)
    keys = clickhouse.query(
        "SELECT partition_key FROM system.tables WHERE database = 'lab_rows_bare' AND name = 't'"
    )
    assert keys == ("day\n" if partitioned else "\n")
    clickhouse.query("DROP DATABASE lab_rows_bare")
