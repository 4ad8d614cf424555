"""``--upsert``: rows are replaced by their key, in one moment, and nothing of others is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.lake import JOURNAL, Lake
from e2e.tools import Shell, csv
from lab.clickhouse import ClickHouse
from rowfall.publish.upsert import PartChanges, Upsert, _Block, compare

pytestmark = pytest.mark.xdist_group("server")
HEAD = ("id", "day", "v")
SUMS = "count(), uniqExact(id), sum(v)"


@pytest.fixture(scope="module")
def server() -> Iterator[ClickHouse]:
    with ClickHouse() as service:
        yield service


def rows(start: int, stop: int, v: int) -> str:
    return csv([(i, f"2026-01-{i % 5 + 1:02}", v) for i in range(start, stop)], *HEAD)


def filled(lake: Lake, by: str = "") -> None:
    """A table with 1,000 rows of the value 1."""
    lake.do(
        "CREATE TABLE {db}.t (id UInt64, day Date, v UInt32) ENGINE = MergeTree "
        f"{by} ORDER BY id COMMENT 'mine'",
        "INSERT INTO {db}.t SELECT number, toDate('2026-01-01') + number % 5, 1 FROM numbers(1000)",
    )  # fmt: skip


def upsert(lake: Lake, *more: str, key: str = "id", **given: Any) -> dict[str, Any]:
    return lake.load("in/*.csv", "--table", "t", "--upsert", key, *more, **given)


@pytest.mark.parametrize(
    ("by", "key"),
    [
        pytest.param("", "id", marks=pytest.mark.long),
        pytest.param("PARTITION BY day", "id", marks=pytest.mark.long),
        ("PARTITION BY day", "day,id"),
    ],
)
def test_rows_with_a_loaded_key_are_replaced(lake: Lake, by: str, key: str) -> None:
    filled(lake, by)
    lake.shell.write("in/a.csv", rows(900, 1000, 2))
    lake.shell.write("in/b.csv", rows(1000, 1100, 2))
    assert upsert(lake, key=key)["rows"] == 200
    assert lake.row(f"SELECT {SUMS} FROM {{db}}.t") == [1100, 1100, 900 + 400]
    assert lake.tables() == {"t", JOURNAL}
    assert "COMMENT 'mine'" in lake.row("SELECT create_table_query FROM system.tables WHERE "
                                        "database = '{db}' AND name = 't'")[0]  # fmt: skip
    # Neither this ledger nor another one takes the exchanged table for a strange one.
    assert upsert(lake, key=key)["splits_skipped"] == 2
    lake.shell.write("in/c.csv", rows(0, 10, 3))
    assert upsert(lake, key=key)["rows"] == 10
    assert lake.load("in/*.csv", "--table", "t")["splits_skipped"] == 3
    assert lake.row(f"SELECT {SUMS} FROM {{db}}.t") == [1100, 1100, 890 + 400 + 30]


def test_a_folder(shell: Shell) -> None:
    shell.write("in/a.csv", rows(0, 100, 1))
    shell.ok("load", "in/a.csv", "--table", "t", "--order-by", "id")
    shell.write("in/b.csv", rows(50, 150, 2))
    done = shell.ok("load", "in/b.csv", "--table", "t", "--upsert", "id")
    assert "upsert: 50 rows of default.t with a loaded key are replaced, 50 stay" in done.err
    for _ in range(2):
        shell.ok("load", "in/*.csv", "--table", "t")
        assert shell.rows(f"SELECT {SUMS} FROM t") == [[150, 150, 250]]


def test_the_plan_says_what_it_costs(lake: Lake) -> None:
    filled(lake, "PARTITION BY day")
    lake.shell.write("in/a.csv", rows(900, 1000, 2))
    plan = lake.ok("plan", "in/*.csv", "--table", "t", "--upsert", "id,day", "--json").document
    assert "by id, day: parts that hold a loaded key are written once more" in plan["upsert"]
    assert "parts in the partitions of the load, at most" in plan["upsert"]
    assert "needed twice" in plan["upsert"]
    assert "exchanged at the end of the load" in plan["visibility"]


@pytest.mark.long
def test_a_key_that_occurs_twice_is_an_error_and_nothing_is_left(lake: Lake) -> None:
    filled(lake)
    lake.shell.write("in/a.csv", rows(0, 10, 2))
    lake.shell.write("in/b.csv", rows(9, 20, 3))
    done = lake.ends(4, "load", "in/*.csv", "--table", "t", "--upsert", "id")
    assert "id = 9 occurs 2 times in the load: nothing says which of these rows is the last" in (
        done.err
    )
    assert lake.row(f"SELECT {SUMS} FROM {{db}}.t") == [1000, 1000, 1000]
    assert lake.staging() == set()
    lake.shell.write("in/b.csv", rows(10, 20, 3))
    assert upsert(lake)["rows"] == 20
    assert lake.row(f"SELECT {SUMS} FROM {{db}}.t") == [1000, 1000, 980 + 20 + 30]


@pytest.mark.long
def test_null_in_the_key_is_an_error_in_the_load_and_stays_in_the_table(lake: Lake) -> None:
    lake.do(
        "CREATE TABLE {db}.t (id Nullable(UInt64), v UInt32) ENGINE = MergeTree ORDER BY v",
        "INSERT INTO {db}.t VALUES (1, 1), (NULL, 1), (NULL, 1)",
    )
    lake.shell.write("in/a.csv", "id,v\n1,5\n,6\n")
    done = lake.ends(4, "load", "in/*.csv", "--table", "t", "--upsert", "id")
    assert "1 row of the load have NULL in the key" in done.err or "has NULL" in done.err
    lake.shell.write("in/a.csv", "id,v\n1,5\n2,6\n")
    assert upsert(lake)["rows"] == 2
    assert lake.rows("SELECT id, v FROM {db}.t ORDER BY v") == [
        [None, 1], [None, 1], [1, 5], [2, 6],
    ]  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("table", "key", "said"),
    [
        ("ReplacingMergeTree ORDER BY id", "id", "unites rows of equal keys by itself"),
        ("Log", "id", "has no parts to exchange"),
        ("MergeTree ORDER BY id", "id + 1", "does not name the columns of a key"),
        ("MergeTree ORDER BY id", "nothing", "the load has no column nothing"),
    ],
)
def test_what_cannot_be_had_is_refused(lake: Lake, table: str, key: str, said: str) -> None:
    lake.do(f"CREATE TABLE {{db}}.t (id UInt64, day Date, v UInt32) ENGINE = {table}")
    lake.shell.write("in/a.csv", rows(0, 10, 2))
    assert said in lake.ends(2, "load", "in/*.csv", "--table", "t", "--upsert", key).err
    assert lake.tables() - {JOURNAL} == {"t"}


@pytest.mark.long
def test_views_are_refused(lake: Lake) -> None:
    filled(lake)
    lake.do("CREATE MATERIALIZED VIEW {db}.m ENGINE = MergeTree ORDER BY v AS SELECT v FROM {db}.t")
    lake.shell.write("in/a.csv", rows(0, 10, 2))
    done = lake.ends(2, "load", "in/*.csv", "--table", "t", "--upsert", "id")
    assert "it feeds materialized views" in done.err


# --- others --------------------------------------------------------------------------------------


def between(
    monkeypatch: pytest.MonkeyPatch, method: str, what: Callable[[], object], *, after: bool
) -> None:
    """Do something before or after the first call of a method of the upsert."""
    real = getattr(Upsert, method)
    called: list[bool] = []

    def hurt(self: Upsert, *args: Any) -> Any:
        if not after and not called:
            called.append(True)
            what()
        found = real(self, *args)
        if after and not called:
            called.append(True)
            what()
        return found

    monkeypatch.setattr(Upsert, method, hurt)


@pytest.mark.parametrize("method", [pytest.param("_copy", marks=pytest.mark.long), "_build"])
def test_rows_that_others_insert_meanwhile_are_carried_over(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    filled(lake)
    lake.shell.write("in/a.csv", rows(900, 1100, 2))
    more = "INSERT INTO {db}.t SELECT number + 5000, '2026-01-01', 7 FROM numbers(10)"
    between(monkeypatch, method, lambda: lake.do(more), after=True)
    done = lake.ok("load", "in/*.csv", "--table", "t", "--upsert", "id")
    assert "10 rows that others had inserted before the exchange are carried over" in done.err
    assert lake.row(f"SELECT {SUMS} FROM {{db}}.t") == [1110, 1110, 900 + 400 + 70]
    assert lake.tables() == {"t", JOURNAL}


@pytest.mark.long
def test_rows_of_others_that_were_merged_meanwhile_are_carried_over(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(lake, "PARTITION BY day")
    lake.shell.write("in/a.csv", rows(900, 1100, 2))

    def others() -> None:
        lake.do(
            "INSERT INTO {db}.t SELECT 3, '2026-01-04', 1 FROM numbers(4)",
            "OPTIMIZE TABLE {db}.t FINAL",
        )

    between(monkeypatch, "_build", others, after=True)
    upsert(lake)
    assert lake.row(f"SELECT {SUMS} FROM {{db}}.t") == [1104, 1100, 900 + 400 + 4]
    assert lake.row("SELECT count() FROM {db}.t WHERE id = 3") == [5]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE {db}.t DELETE WHERE id = 5 SETTINGS mutations_sync = 1",
        pytest.param("ALTER TABLE {db}.t DROP PARTITION ID '20260101'", marks=pytest.mark.long),
        pytest.param("ALTER TABLE {db}.t ADD COLUMN x UInt8 DEFAULT 4", marks=pytest.mark.long),
    ],
)
def test_what_others_change_meanwhile_is_in_the_next_copy(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    filled(lake, "PARTITION BY day")
    lake.shell.write("in/a.csv", rows(900, 1100, 2))
    between(monkeypatch, "_copy", lambda: lake.do(change), after=True)
    done = lake.ok("load", "in/*.csv", "--table", "t", "--upsert", "id")
    assert "it is rebuilt once more" in done.err
    gone = {"D": 1, "R": 180, "A": 0}["R" if "DROP" in change else "A" if "ADD" in change else "D"]
    assert lake.row("SELECT count() FROM {db}.t") == [1100 - gone]
    assert lake.tables() == {"t", JOURNAL}


def test_rows_that_others_delete_at_the_moment_of_the_exchange_are_told(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(lake)
    lake.shell.write("in/a.csv", rows(900, 1100, 2))
    change = "ALTER TABLE {db}.t DELETE WHERE id = 5 SETTINGS mutations_sync = 1"
    between(monkeypatch, "_exchange", lambda: lake.do(change), after=False)
    done = lake.ends(5, "load", "in/*.csv", "--table", "t", "--upsert", "id")
    assert "have deleted or changed rows" in done.err
    (old,) = (t for t in lake.staging() if not t.endswith(("_links", "_list", "_whole")))
    assert f"DROP TABLE {lake.database}.{old}" in done.err
    lake.do("ALTER TABLE {db}.t DELETE WHERE id = 5 SETTINGS mutations_sync = 1",
            f"DROP TABLE {{db}}.{old}")  # fmt: skip
    upsert(lake)
    assert lake.row(f"SELECT {SUMS} FROM {{db}}.t") == [1099, 1099, 899 + 400]
    assert lake.tables() == {"t", JOURNAL}


@pytest.mark.long
def test_while_others_insert_all_the_time(lake: Lake) -> None:
    filled(lake)
    stop, sent = threading.Event(), [0]

    def insert() -> None:
        while not stop.is_set():
            lake.do(f"INSERT INTO {{db}}.t VALUES ({10_000 + sent[0]}, '2026-01-01', 1)")
            sent[0] += 1

    thread = threading.Thread(target=insert)
    thread.start()
    try:
        for turn in range(8):
            lake.shell.write(f"in/{turn}.csv", rows(0, 500 + turn, turn + 2))
            upsert(lake)
    finally:
        stop.set()
        thread.join()
    assert lake.row(f"SELECT {SUMS} FROM {{db}}.t") == [
        1000 + sent[0], 1000 + sent[0], 507 * 9 + 493 + sent[0],
    ]  # fmt: skip
    assert lake.tables() == {"t", JOURNAL}


def test_parts_are_compared_by_their_blocks() -> None:
    before = [_Block("a", "p", 1, 1, 10, 1), _Block("b", "p", 2, 2, 5, 2)]
    assert compare(before, before) == PartChanges()
    merged = _Block("m", "p", 1, 2, 15, 1)
    new = _Block("n", "p", 3, 3, 1, 3)
    assert compare(before, [merged]) == PartChanges()
    assert compare(before, [merged, new]) == PartChanges(("n",))
    assert compare(before, [_Block("m", "p", 1, 3, 16, 1)]) == PartChanges((), ("p",))
    assert compare(before, [before[0]]).gone
    assert compare(before, [before[0], _Block("b_9", "p", 2, 2, 5, 9)]).gone
    assert compare(before, [before[0], _Block("b", "q", 2, 2, 5, 2)]).gone
