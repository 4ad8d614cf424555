"""Tables of another ClickHouse server as sources."""

from __future__ import annotations

import pytest

from e2e.fleet import Fleet
from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.process import let_pass, wait_until

pytestmark = pytest.mark.xdist_group("mysql")


@pytest.fixture
def there(shell: Shell, clickhouse: ClickHouse) -> Lake:
    """A database on the server that is read."""
    return Lake(shell, clickhouse)


_TYPES = (
    "id UInt64, name LowCardinality(Nullable(String)), at DateTime64(3, 'Europe/Berlin'), "
    "amount Decimal(38, 10), tags Array(Tuple(a UInt8, b String)), m Map(String, Int8), "
    "e Enum8('x' = -1, 'y' = 2), u UUID, i IPv6, f FixedString(3), twice UInt64 MATERIALIZED id * 2"
)
_ROWS = (
    "SELECT number, if(number % 3 = 0, NULL, 'n' || number % 7), toDateTime64('2020-01-01', 3) + "
    "number, number / 3, [(number % 5, 'q')], map('k', 1), if(number % 2, 'x', 'y'), "
    "generateUUIDv4(), toIPv6('::1'), 'abc' FROM numbers({0}, {1})"
)


def fill(there: Lake, start: int, count: int) -> None:
    there.do("INSERT INTO {db}.t " + _ROWS.format(start, count))


def address(there: Lake, table: str = "t") -> str:
    return f"{there.to}/{table}"


def test_partitions_are_loaded_with_their_types_and_new_parts_later(
    shell: Shell, there: Lake
) -> None:
    there.do("CREATE TABLE {db}.t (" + _TYPES + ") ENGINE = MergeTree PARTITION BY id % 4 "
             "ORDER BY id SETTINGS enable_block_number_column = 0")  # fmt: skip
    there.do("SYSTEM STOP MERGES {db}.t")
    fill(there, 0, 5000)
    fill(there, 5000, 5000)
    done = shell.ok("load", address(there), "--json")
    assert done.document["rows"] == 10_000
    assert done.document["splits_loaded"] == 4
    assert "twice: computed there" in done.talk
    columns = "SELECT name, type FROM system.columns WHERE table = 't' AND database = {0} AND name"
    mine = shell.rows(columns.format("'default'") + " != 'twice'")
    assert mine == there.rows(columns.format("'{db}'") + " != 'twice'")
    look = "SELECT count(), sum(cityHash64({0})) FROM {1}"
    names = ", ".join(name for name, _ in mine)
    assert shell.row(look.format(names, "t")) == there.row(look.format(names, "{db}.t"))
    fill(there, 10_000, 1000)
    assert shell.ok("load", address(there), "--json").document["rows"] == 1000
    there.do("SYSTEM START MERGES {db}.t", "OPTIMIZE TABLE {db}.t FINAL")
    assert shell.ok("load", address(there), "--json").document["rows"] == 0
    assert shell.row(look.format(names, "t")) == there.row(look.format(names, "{db}.t"))
    # Rows that were merged with loaded ones cannot be told from them.
    fill(there, 20_000, 1000)
    there.do("OPTIMIZE TABLE {db}.t FINAL")
    wrong = shell.run("load", address(there))
    assert wrong.code in (1, 4)
    assert "merged with rows that are loaded already" in wrong.talk
    assert shell.row("SELECT count() FROM t") == [11_000]
    assert shell.ok("load", address(there), "--replace", "--json").document["rows"] == 12_000


def test_other_engines_queries_and_refusals(shell: Shell, there: Lake) -> None:
    there.do("CREATE TABLE {db}.log (a UInt8, b String) ENGINE = Memory",
             "INSERT INTO {db}.log VALUES (1, 'x'), (2, 'y')",
             "CREATE TABLE {db}.none (a UInt8) ENGINE = MergeTree ORDER BY a")  # fmt: skip
    done = shell.ok("load", address(there, "log"))
    assert "its engine Memory has no parts" in done.talk
    assert shell.rows("SELECT * FROM log ORDER BY a") == [[1, "x"], [2, "y"]]
    shell.ok("load", address(there, "none"))
    assert shell.row("SELECT count() FROM none") == [0]
    shell.ok("load", there.to, "--query", "SELECT a + 1 AS c FROM log", "--table", "q")
    assert shell.row("SELECT sum(c) FROM q") == [5]
    wrong = shell.ends(4, "load", address(there, "lg"))
    assert "Did you mean log?" in wrong.talk
    wrong = shell.ends(4, "load", address(there, "log").replace("0123456789@", "wrong@"))
    assert "CLICKHOUSE_PASSWORD" in wrong.talk


def test_into_another_database_of_the_server(shell: Shell, there: Lake) -> None:
    there.do("CREATE TABLE {db}.t (" + _TYPES + ") ENGINE = MergeTree ORDER BY id")
    fill(there, 0, 3000)
    mine = Lake(shell, there.server)
    mine.ok("load", address(there))
    assert mine.row("SELECT count(), sum(id) FROM {db}.t") == [3000, 2999 * 1500]
    assert mine.load(address(there))["rows"] == 0


# --- faults ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_into_a_cluster_and_after_a_crash(fleet: Fleet, there: Lake) -> None:
    there.do("CREATE TABLE {db}.t (id UInt64, n String) ENGINE = MergeTree PARTITION BY id % 16 "
             "ORDER BY id", "INSERT INTO {db}.t SELECT number, hex(MD5(toString(number))) "
             "FROM numbers(40000)")  # fmt: skip
    fleet.begin_and_kill({}, address(there), "--attempt-bytes", "100K")
    fleet.load(address(there))
    assert fleet.numbers("t") == [40_000, 40_000]
    there.do("INSERT INTO {db}.t SELECT number, '' FROM numbers(40000, 50)")
    assert fleet.load(address(there))["rows"] == 50
    assert fleet.numbers("t") == [40_050, 40_050]


@pytest.mark.long
def test_the_server_is_started_again_while_it_is_read(shell: Shell) -> None:
    with ClickHouse() as server:
        there = Lake(shell, server)
        # One block of rows, for which the server takes 2.5 s.
        there.do("CREATE TABLE {db}.t (id UInt64) ENGINE = MergeTree ORDER BY id",
                 "INSERT INTO {db}.t SELECT number FROM numbers(5000)",
                 "CREATE VIEW {db}.v AS SELECT id, sleepEachRow(0.0005) AS s "
                 "FROM {db}.t")  # fmt: skip
        process = shell.cli.start("load", address(there, "v"))
        reading = "SELECT count() FROM system.processes WHERE query LIKE '%`v`%' AND elapsed > 0.3"
        wait_until(lambda: there.row(reading) == [1], 60, "the view is not read")
        server.kill()
        let_pass(8, "as a restart takes on a busy machine, or one with many parts")
        server.start()
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert shell.row("SELECT count(), uniqExact(id) FROM v") == [5000, 5000]
