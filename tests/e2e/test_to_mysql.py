"""MariaDB as a target: what arrives, what a second run adds, what is refused."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from e2e.following import Follower, put
from e2e.test_avro import put_times
from e2e.test_durations import put_durations, select_of
from e2e.test_to_postgresql import WRITTEN, WRITTEN_TYPES
from e2e.tools import Done, Shell, made
from lab.mariadb import MariaDB
from lab.proxy import Proxy
from rowfall import api
from rowfall.run import follow
from rowfall.systems.mysql import joined
from rowfall.systems.mysql.database import MySQLDatabase

pytestmark = pytest.mark.xdist_group("mysql")
_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class Database:
    """A database of MariaDB that is loaded into."""

    server: MariaDB
    name: str
    shell: Shell

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.query(*statements, database=self.name)

    def uri(self, **more: str) -> str:
        return self.server.uri(self.name, **more)

    def load(self, *args: str, **more: str) -> Done:
        return self.shell.ok("load", *args, "--to", self.uri(**more), "--table", "t")

    def fails(self, code: int, *args: str, **more: str) -> Done:
        return self.shell.ends(code, "load", *args, "--to", self.uri(**more), "--table", "t")

    def loaded(self) -> list[tuple[Any, ...]]:
        return self.run("SELECT COUNT(*), SUM(id), COUNT(DISTINCT id) FROM t")


@pytest.fixture
def db(mariadb: MariaDB, shell: Shell) -> Database:
    name = f"db_{secrets.token_hex(4)}"
    mariadb.query(f"CREATE DATABASE {name}")
    return Database(mariadb, name, shell)


@contextlib.contextmanager
def variable(server: MariaDB, name: str, value: str) -> Iterator[None]:
    """Change a variable of the whole server for new connections."""
    ((before,),) = server.query(f"SELECT @@GLOBAL.{name}")
    server.query(f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        text = before if isinstance(before, int) else f"'{before}'"
        server.query(f"SET GLOBAL {name} = {text}")


def lines(start: int, stop: int, text: str = "x") -> str:
    return "".join(f"{n},{text}{n}\n" for n in range(start, stop))


# --- what arrives ---------------------------------------------------------------------------------


def test_files_are_loaded_once_and_new_ones_are_added(db: Database) -> None:
    for number in range(3):
        db.shell.write(f"in/{number}.csv", "id,name\n" + lines(number * 1000, number * 1000 + 1000))
    done = db.load("in/*.csv", "--json")
    assert done.document["rows"] == 3_000
    assert "creating" in done.talk
    assert db.loaded() == [(3_000, 3_000 * 2_999 // 2, 3_000)]
    assert db.load("in/*.csv", "--json").document["rows"] == 0
    db.shell.write("in/3.csv", "id,name\n" + lines(3_000, 4_000))
    assert db.load("in/*.csv", "--json").document["rows"] == 1_000
    assert db.loaded() == [(4_000, 4_000 * 3_999 // 2, 4_000)]
    records = db.run("SELECT COUNT(*), COUNT(DISTINCT split), MIN(attempt_rows) "
                     "FROM _rowfall_loaded")  # fmt: skip
    assert records[0][:2] == (4, 4)
    assert db.load("in/*.csv", "--force", "--json").document["rows"] == 4_000
    assert db.run("SELECT COUNT(*) FROM t") == [(8_000,)]


def test_an_emptied_and_a_dropped_table_are_loaded_again(db: Database) -> None:
    db.shell.write("a.csv", "id,name\n" + lines(0, 10))
    db.load("a.csv")
    db.run("TRUNCATE TABLE t")
    assert db.load("a.csv", "--json").document["rows"] == 10
    db.run("OPTIMIZE TABLE t", "ALTER TABLE t FORCE")
    assert db.load("a.csv", "--json").document["rows"] == 0
    db.run("DROP TABLE t")
    assert db.load("a.csv", "--json").document["rows"] == 10
    assert db.loaded() == [(10, 45, 10)]


@pytest.mark.parametrize(
    "change", [
        "ALTER TABLE t ADD COLUMN more INT DEFAULT 3 FIRST",
        "ALTER TABLE t MODIFY name VARCHAR(99)",
        "CREATE TABLE u LIKE t; INSERT INTO u SELECT * FROM t; RENAME TABLE t TO old, u TO t",
        "INSERT INTO t VALUES (-5, 'of others'); OPTIMIZE TABLE t",
    ],
)  # fmt: skip
def test_a_table_that_is_altered_is_the_same(db: Database, change: str) -> None:
    db.shell.write("a.csv", "id,name\n" + lines(0, 10))
    db.load("a.csv")
    _as_if_made_earlier(db)
    db.run(*change.split("; "))
    ((before,),) = db.run("SELECT COUNT(*) FROM t")
    assert db.load("a.csv", "--json").document["rows"] == 0
    db.shell.write("b.csv", "id,name\n" + lines(10, 20))
    db.load("a.csv", "b.csv")
    ((rows, times),) = db.run("SELECT COUNT(*), (SELECT COUNT(DISTINCT table_made) FROM "
                              "_rowfall_loaded) FROM t")  # fmt: skip
    assert (rows, times) == (before + 10, 1)


def _as_if_made_earlier(db: Database) -> None:
    """Set the time back that the record has, so that no test waits for the next second."""
    done = db.run("UPDATE _rowfall_loaded SET table_made = '2020-02-02 02:02:02'",
                  "SELECT COUNT(*), MIN(sample) FROM _rowfall_loaded")  # fmt: skip
    assert done[0][0] == 1
    assert done[0][1] is not None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rows", ["(99, 'of others')", "(0, 'x0')", ", ".join(
    f"({n}, 'of others')" for n in range(50)
)])  # fmt: skip
@pytest.mark.parametrize("answer", ["--force-append", "adopt", "skip"])
def test_a_table_that_was_made_anew_and_holds_rows_is_asked_about(
    db: Database, rows: str, answer: str
) -> None:
    """Its rows are not those on record, but have their number, or one of them."""
    db.shell.write("a.csv", "id,name\n" + lines(0, 10))
    db.load("a.csv")
    _as_if_made_earlier(db)
    db.run("DROP TABLE t", "CREATE TABLE t (id BIGINT, name TEXT, UNIQUE (id, name(9)))",
           f"INSERT INTO t VALUES {rows}")  # fmt: skip
    ((before,),) = db.run("SELECT COUNT(*) FROM t")
    for _ in range(2):
        assert "that nobody has on record" in db.fails(3, "a.csv").talk
    assert db.run("SELECT COUNT(*) FROM t") == [(before,)]
    more: tuple[str, ...] = ()
    if answer == "adopt":
        db.shell.ok("adopt", "a.csv", "--to", db.uri(), "--table", "t")
    else:
        taken = answer == "--force-append" and "x0" in rows
        if taken:
            db.run("DELETE FROM t WHERE name = 'x0'", "INSERT INTO t VALUES (-1, 'of others')")
        more = ("--on-conflict", "skip") if answer == "skip" else (answer,)
        db.load("a.csv", *more)
        before += 9 if answer == "skip" and "x0" in rows else 10
    assert db.load("a.csv", "--json").document["rows"] == 0
    assert db.run("SELECT COUNT(*) FROM t") == [(before,)]


def test_a_record_of_an_earlier_version_still_counts(db: Database) -> None:
    db.shell.write("a.csv", "id,name\n" + lines(0, 10))
    db.load("a.csv")
    db.run("ALTER TABLE _rowfall_loaded DROP COLUMN table_made, DROP COLUMN gained, "
           "DROP COLUMN sample")  # fmt: skip
    assert db.load("a.csv", "--json").document["rows"] == 0
    db.shell.write("b.csv", "id,name\n" + lines(10, 20))
    db.load("a.csv", "b.csv")
    assert db.run("SELECT SUM(table_made = ''), COUNT(sample), COUNT(*) FROM _rowfall_loaded") == [
        (1, 1, 2)
    ]


_SELECT = r"""
SELECT 255::UInt8 AS t, 18446744073709551615 AS big, toInt128('-170141183460469231731687303715884105728') AS wide,
16777216::Float32 AS f, 0.1::Float64 AS d, toDecimal128('12345678901234567890.0123456789', 10) AS dec,
true AS b, toDate32('2299-12-31') AS day, toDateTime64('2299-12-31 23:59:59.999999', 6, 'UTC') AS at,
toDateTime('2024-07-01 09:00:00', 'Asia/Tokyo') AS zone,
toUUID('123e4567-e89b-12d3-a456-426614174000') AS id, toIPv4('10.0.0.1') AS v4, toIPv6('::1') AS v6,
CAST('it\'s', 'Enum8(\'a\' = 1, \'it\\\'s\' = 2)') AS e, ['a"b', 'c'] AS list, map('k', 1::UInt8) AS m,
'tab\t line\n back\\ slash quote\' \f feed \b bell \0 zero \r \\f \\N é😀' AS s,
NULL::Nullable(String) AS n
"""  # noqa: E501
_TEXT = "tab\t line\n back\\ slash quote' \f feed \b bell \0 zero \r \\f \\N é😀"


def test_every_type_arrives_as_it_is(db: Database) -> None:
    import chdb

    chdb.query(f"{_SELECT} INTO OUTFILE '{db.shell.folder}/a.native' FORMAT Native")
    db.load("a.native", scheme="mariadb")
    ((*values, text, null),) = db.run("SELECT * FROM t")
    assert [str(value) for value in values] == [
        "255", "18446744073709551615", "-170141183460469231731687303715884105728", "16777200.0",
        "0.1", "12345678901234567890.0123456789", "1", "2299-12-31",
        "2299-12-31 23:59:59.999999", "2024-07-01 00:00:00",
        "123e4567-e89b-12d3-a456-426614174000", "10.0.0.1", "::1", "it's", '["a\\"b","c"]',
        '{"k":1}',
    ]  # fmt: skip
    assert (text, null) == (_TEXT, None)
    assert db.run("SELECT f + 0e0 FROM t") == [(16777216.0,)]


_NESTED = """
SELECT [1, NULL] AS n, [[1, 2], [3]] AS deep, ['a"b', NULL] AS s,
map('k', 1.50::Decimal(9, 2)) AS m, tuple(1, 'x')::Tuple(a UInt8, b String) AS t,
[toDate32('2024-01-02')] AS d, CAST([], 'Array(Bool)') AS e
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["JSON", "LONGTEXT"])
def test_nested_values_are_json_in_a_table_that_is_there(db: Database, kind: str) -> None:
    """The second file of a table was refused: it had the engine's own text, [1,NULL]."""
    db.shell.write("a.parquet", made(_NESTED, "Parquet"))
    for table in ("new", "new", "own"):
        if table == "own":
            columns = ", ".join(f"{name} {kind}" for name in ("n", "deep", "s", "m", "t", "d", "e"))
            db.run(f"CREATE TABLE own ({columns})")
        db.shell.ok("load", "a.parquet", "--force", "--to", db.uri(), "--table", table)
    row = (
        "[1,null]", "[[1,2],[3]]", '["a\\"b",null]', '{"k":1.5}', '{"a":1,"b":"x"}',
        '["2024-01-02"]', "[]",
    )  # fmt: skip
    assert db.run("SELECT n, deep, s, m, t, d, e FROM new") == [row, row]
    assert db.run("SELECT n, deep, s, m, t, d, e FROM own") == [row]


def test_both_writers_write_the_same(db: Database) -> None:
    db.shell.write("t.csv", made(WRITTEN, "CSVWithNames"))
    options = [w for n, t in WRITTEN_TYPES.items() for w in ("--type", f"{n} {t}")]
    sums = []
    for decoder in ("auto", "never"):
        to = ("--to", db.uri(), "--table", "t", "--decoder", decoder)
        plan = db.shell.ok("plan", "-v", "t.csv", *to, *options).out
        said = "in binary by rowfall-decode" if decoder == "auto" else "as text by the engine"
        plan = " ".join(plan.split())
        assert f"written {said}" in plan
        assert ("VALUES (?, ?," if decoder == "auto" else "LOAD DATA LOCAL") in plan
        db.load("t.csv", "--decoder", decoder, *options)
        names = ", ".join(f"IFNULL(HEX(`{name}`), 'null')" for name in WRITTEN_TYPES)
        sums.append(db.run(f"SELECT {names} FROM t ORDER BY `i`"))
        db.run("DROP TABLE t")
    assert len(sums[0]) == 3000
    assert sums[0] == sums[1]


# Columns, and what is written into them, which is not their own type everywhere.
_COLUMNS = {
    "tiny": ("TINYINT", "number % 256 - 128"), "big": ("BIGINT UNSIGNED", "number * 1e15"),
    "middle": ("MEDIUMINT", "number - 500"), "year": ("YEAR", "1901 + number % 255"),
    "flag": ("BOOLEAN", "number % 2"), "short": ("FLOAT(7,2)", "number / 8 + 0.005"),
    "float": ("FLOAT", "number / 7"), "double": ("DOUBLE", "number * exp10(number % 40) / 7"),
    "fixed": ("DOUBLE(20,3)", "number / 3"), "dec": ("DECIMAL(20,6)", "number / 8"),
    "at": ("TIMESTAMP(3) NULL", "toDateTime64(946684800 + number * 86_399 + number / 8, 3, 'UTC')"),
    "when": ("DATETIME(6)", "toDateTime64(number * 8_639_999 + number / 64, 6, 'UTC')"),
    "day": ("DATE", "toDate32(number * 97 - 20_000)"), "clock": ("TIME", "concat('-12:00:', "
    "leftPad(toString(number % 60), 2, '0'))"), "e": ("ENUM('a','it''s')", "['a', 'it\\'s'][1 + "
    "number % 2]"), "c": ("CHAR(3) CHARACTER SET latin1", "['é', 'ab ', ''][1 + number % 3]"),
    "bin": ("BINARY(4)", "concat(char(40 + number % 50), 'é')"),
    "blob": ("BLOB", "char(65, 40 + number % 50)"),
    "long": ("LONGTEXT", "repeat('é', [0, 125, 126, 32_767, 32_768][1 + number % 5])"),
    "json": ("JSON", "concat('[', toString(number), ', \"a\"]')"),
    "uuid": ("UUID", "toUUID('123e4567-e89b-12d3-a456-426614174000')"),
    "v4": ("INET4", "toIPv4(number)"),
    "v6": ("INET6", "toIPv6(concat('fe80::', toString(number)))"),
}  # fmt: skip


def test_columns_of_a_table_get_the_same_in_binary(db: Database) -> None:
    """As parameters, and as LOAD DATA reads them; every seventh row is NULL."""
    # A table with a YEAR gets text: 0 as a parameter would be 2000.
    taken = {name: kind for name, kind in _COLUMNS.items() if kind[0].upper() != "YEAR"}
    values = ", ".join(
        f"if(number % 7 = 3, NULL, {value}) AS {name}" for name, (_, value) in taken.items()
    )
    db.shell.write(
        "t.csv", made(f"SELECT number AS id, {values} FROM numbers(300)", "CSVWithNames")
    )
    columns = ", ".join(f"`{name}` {type_}" for name, (type_, _) in taken.items())
    sums = []
    for decoder, command in (("auto", "Com_stmt_prepare"), ("never", "Com_load")):
        db.run(f"CREATE OR REPLACE TABLE t (id INT, {columns})")
        before = db.run(f"SHOW GLOBAL STATUS LIKE '{command}'")
        done = db.load("t.csv", "--decoder", decoder)
        assert "the engine reads it instead" not in done.talk, done.talk
        assert db.run(f"SHOW GLOBAL STATUS LIKE '{command}'") != before
        names = ", ".join(f"IFNULL(HEX(`{name}`), 'null')" for name in taken)
        sums.append(db.run(f"SELECT id, {names}, at, `when`, day FROM t ORDER BY id"))
        db.run("DROP TABLE _rowfall_loaded")
    assert len(sums[0]) == 300
    assert sums[0] == sums[1]


def test_a_row_that_no_packet_takes_is_sent_as_text(db: Database) -> None:
    db.shell.write("a.csv", f"id,name\n1,{'x' * (17 << 20)}\n2,y\n")
    assert "a row is larger than max_allowed_packet" in db.load("a.csv").talk
    assert db.run("SELECT id, LENGTH(name) FROM t ORDER BY id") == [(1, 17 << 20), (2, 1)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("more", [(), ("--on-conflict", "skip")], ids=["binary", "LOAD DATA"])
def test_a_slow_network_gets_compressed_packets(
    db: Database, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    """The same rows arrive in a fraction of the bytes, also where a row is refused first."""
    db.shell.write("a.csv", "id,name\n" + lines(0, 30_000, "some text that is the same "))
    sent = {}
    with Proxy(db.server.port) as cable:
        uri = db.uri().replace(f":{db.server.port}/", f":{cable.port}/")
        args = ("a.csv", "--to", uri, "--table", "t", *more)
        plan = " ".join(db.shell.ok("plan", "-v", *args).out.split())
        assert "packets not compressed: the server is on this machine" in plan
        for way in ("none", "zlib"):
            db.run("CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, name VARCHAR(60) NOT NULL)")
            before = cable.passed["up"]
            db.shell.ok("load", *args, "--compress", way)
            sent[way] = cable.passed["up"] - before
            assert db.loaded() == [(30_000, 30_000 * 29_999 // 2, 30_000)]
        assert sent["zlib"] < sent["none"] / 3
        # What is refused in binary is sent once more as text, over the same sessions.
        db.shell.write("b.csv", "id,name\n" + lines(30_000, 40_000) + "1,double\n")
        done = db.shell.run("load", "b.csv", *args[1:], "--compress", "zlib")
        assert (done.code, db.loaded()[0][0]) == ((0, 40_000) if more else (1, 30_000)), done.err
        monkeypatch.setattr(MySQLDatabase, "same_machine", lambda self: False)
        cable.throttle(2_000_000)
        db.shell.write("c.csv", "id,name\n" + lines(50_000, 60_000))
        plan = " ".join(db.shell.ok("plan", "-v", "c.csv", *args[1:]).out.split())
        assert "packets compressed with zlib: the network takes" in plan


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["a.csv.gz", "a.parquet", "a.json", "-", "mysql"])
def test_other_sources(db: Database, name: str) -> None:
    rows = f"generate://random?rows={_ROWS}&bytes=20"
    look = "SELECT COUNT(*), SUM(document_id), COUNT(DISTINCT payload) FROM t"
    expected = [(_ROWS, _ROWS * (_ROWS - 1) // 2, _ROWS)]
    if name == "-":
        text = "document_id,payload\n" + "".join(f"{n},p{n}\n" for n in range(_ROWS))
        to = ("--to", db.uri(), "--table", "t")
        db.shell.ok("load", "-", "--format", "CSVWithNames", *to, stdin=text)
    elif name == "mysql":
        db.shell.ok("load", rows, "--to", db.uri(), "--table", "other")
        db.load(db.uri() + "/other")
        assert db.load(db.uri() + "/other", "--json").document["rows"] == 0
    else:
        db.shell.ok("load", rows, "--to", name)
        db.load(name)
        assert db.load(name, "--json").document["rows"] == 0
    assert db.run(look) == expected


@pytest.mark.parametrize(
    ("table", "more"),
    [
        ("payload VARCHAR(40) NULL, document_id BIGINT UNSIGNED NOT NULL", ()),
        ("document_id BIGINT UNSIGNED NULL, payload TEXT NULL", ()),
        ("document_id INT PRIMARY KEY, payload VARCHAR(40)", ("--on-conflict", "skip")),
        ("document_id BIGINT UNSIGNED PRIMARY KEY, payload BLOB", ("--on-conflict", "replace")),
        ("document_id BIGINT UNSIGNED PRIMARY KEY, payload TEXT", ("--decoder", "never")),
    ],
)
def test_rows_of_a_generator_are_those_of_the_engine(
    db: Database, table: str, more: tuple[str, ...]
) -> None:
    """Whoever makes them, and whatever the table calls their types."""
    rows = f"generate://random?rows={_ROWS}&bytes=37&seed=3"
    db.run(f"CREATE TABLE t ({table})")
    db.load(rows, *more)
    db.shell.ok("load", rows, "--to", "made.csv")
    lines_made = (db.shell.folder / "made.csv").read_text().split()[1:]
    expected = [
        (int(number), text.strip('"')) for number, text in (one.split(",") for one in lines_made)
    ]
    found = db.run("SELECT document_id, CAST(payload AS CHAR) FROM t ORDER BY document_id")
    assert list(found) == sorted(expected)


def test_keys_and_partitions_are_made(db: Database) -> None:
    db.shell.write("a.csv", "id,name\n" + lines(0, 100))
    db.load("a.csv", "--order-by", "id", "--partition-by", "HASH(id) PARTITIONS 4")
    ((_, made),) = db.run("SHOW CREATE TABLE t")
    assert "PRIMARY KEY (`id`)" in made
    assert "PARTITION BY HASH (`id`)" in made
    assert db.loaded() == [(100, 4950, 100)]


def test_query_and_plan_know_the_table(db: Database) -> None:
    db.shell.write("a.csv", "id,name\n" + lines(0, 10))
    plan = db.shell.ok("plan", "-v", "a.csv", "--to", db.uri(), "--table", "t")
    assert "CREATE TABLE IF NOT EXISTS" in plan.out
    assert "exactly once: rows and the record of their files" in " ".join(plan.out.split())
    assert db.run("SHOW TABLES") == []
    db.load("a.csv")
    found = db.shell.ok("query", "SELECT COUNT(*) AS n, MAX(name) AS m FROM t", "--to", db.uri())
    assert "10" in found.out
    assert "x9" in found.out


def test_buffers_are_filled_before_the_clock_starts(db: Database) -> None:
    rows = "generate://random?rows=20000&bytes=512"
    done = db.load(rows, "--prefill", "--streams", "3", "--json")
    assert done.document["rows"] == 20_000
    assert "the clock starts with the first byte that was sent" in done.talk
    look = "SELECT COUNT(*), COUNT(DISTINCT document_id), SUM(LENGTH(payload)) FROM t"
    assert db.run(look) == [(20_000, 20_000, 20_000 * 512)]
    assert db.shell.ends(2, "load", rows, "--prefill", "--table", "t").talk


# --- keys that are there --------------------------------------------------------------------------


def test_rows_whose_key_is_there(db: Database) -> None:
    db.run(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))", "INSERT INTO t VALUES (5, 'old')"
    )
    db.shell.write("a.csv", "id,name\n" + lines(0, 10))
    done = db.fails(1, "a.csv", "--force-append")
    assert "Duplicate entry '5' for key" in done.talk
    assert "--on-conflict" in done.talk
    assert db.run("SELECT * FROM t") == [(5, "old")]
    assert db.run("SELECT split FROM _rowfall_loaded") == [("accepted",)]
    db.load("a.csv", "--on-conflict", "skip")
    assert db.run("SELECT COUNT(*), MAX(name = 'old') FROM t") == [(10, 1)]
    db.load("a.csv", "--on-conflict", "replace", "--force")
    assert db.run("SELECT COUNT(*), SUM(name LIKE 'x%') FROM t") == [(10, 10)]


@pytest.fixture
def keyed(db: Database) -> Database:
    """A table with a key, another unique key, a column that no file has, and rows that refer."""
    db.run(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20) UNIQUE, more INT DEFAULT 7)",
        "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
        "CREATE TABLE child (t INT REFERENCES t (id) ON DELETE CASCADE)",
        "INSERT INTO child VALUES (1), (2)",
    )
    return db


@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_rows_with_a_key_that_is_there_are_changed_in_place(keyed: Database, decoder: str) -> None:
    keyed.shell.write("a.csv", "id,name\n1,A\n4,first\n4,last\n2,b\n")
    done = keyed.load("a.csv", "--on-conflict", "replace", "--decoder", decoder)
    assert "3 rows had the key of another one" in done.talk
    assert keyed.run("SELECT * FROM t ORDER BY id") == [
        (1, "A", 1), (2, "b", 2), (3, "c", 3), (4, "last", 7)
    ]  # fmt: skip
    assert keyed.run("SELECT * FROM child ORDER BY t") == [(1,), (2,)]
    assert keyed.load("a.csv", "--on-conflict", "replace", "--json").document["rows"] == 0


@pytest.mark.parametrize("rows", ["9,b", "3,b", "8,new\n9,new"])
def test_rows_that_share_another_unique_key_are_refused(keyed: Database, rows: str) -> None:
    """Which of the two rows is meant nobody knows, and one would vanish."""
    keyed.shell.write("a.csv", f"id,name\n1,A\n{rows}\n")
    talk = keyed.fails(1, "a.csv", "--on-conflict", "replace").talk
    assert "Duplicate entry" in talk
    assert "for key 'name'" in talk
    assert keyed.run("SELECT * FROM t ORDER BY id") == [(1, "a", 1), (2, "b", 2), (3, "c", 3)]


def test_what_says_no_which_row_is_meant_is_refused(db: Database) -> None:
    db.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
    db.shell.write("a.csv", "name\nx\n")
    replace = ("--on-conflict", "replace", "--on-missing-column", "default")
    db.run("ALTER TABLE t MODIFY id INT AUTO_INCREMENT")
    assert "lack the key column id" in db.fails(2, "a.csv", *replace).talk
    for columns in (
        "id INT UNIQUE, name VARCHAR(20) UNIQUE",
        "id INT, name TEXT, UNIQUE (name(9))",
    ):
        db.run(f"CREATE OR REPLACE TABLE t ({columns})")
        assert (
            "needs the key that says which rows are the same" in db.fails(2, "a.csv", *replace).talk
        )


def test_two_attempts_with_the_same_keys(db: Database) -> None:
    """The last one that commits wins, row by row; none is there twice, and none fails."""
    db.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
    for number in range(4):
        db.shell.write(f"in/{number}.csv", "id,name\n" + lines(0, 3_000, f"f{number}_"))
    more = ("--on-conflict", "replace", "--streams", "4", "--attempt-bytes", "1KB")
    db.load("in/*.csv", *more)
    assert db.run("SELECT COUNT(*), COUNT(DISTINCT id), SUM(name LIKE 'f%') FROM t") == [
        (3_000, 3_000, 3_000)
    ]


def test_a_table_without_a_key_has_no_conflicts(db: Database) -> None:
    db.run("CREATE TABLE t (id INT, name VARCHAR(20))")
    db.shell.write("a.csv", "id,name\n" + lines(0, 10))
    assert "no unique key" in db.fails(2, "a.csv", "--on-conflict", "skip").talk


# --- values and tables that do not fit ------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("TINYINT", "300", "300"),
        ("INT", "abc", "abc"),
        ("DATE", "2024-02-30", "2024-02-30"),
        ("DECIMAL(5, 2)", "1.239", "1.239"),
        ("ENUM('a', 'b')", "c", "c"),
        ("DATETIME(0)", "2024-01-01 00:00:00.5", "00.5"),
        ("VARCHAR(3)", "abcd", "v"),
        ("VARCHAR(9) CHARACTER SET latin1", "é😀", "\\xF0\\x9F\\x98\\x80"),
        ("TIMESTAMP NULL", "2039-01-01 00:00:00", "v"),
        ("YEAR", "24", "Out of range value for column 'v'"),
    ],
)
def test_a_value_that_does_not_fit_is_not_clipped(
    db: Database, column: str, value: str, said: str
) -> None:
    """LOAD DATA LOCAL would clip it with a warning, in any sql_mode."""
    db.run(f"CREATE TABLE t (id INT, v {column})")
    db.shell.write("a.csv", f"id,v\n1,\n2,{value}\n")
    done = db.fails(1, "a.csv")
    assert said in done.talk
    assert "v" in done.talk
    assert db.run("SELECT COUNT(*) FROM t") == [(0,)]


def test_values_are_checked_without_the_strict_mode(db: Database) -> None:
    db.run("CREATE TABLE t (id INT, v VARCHAR(3))")
    db.shell.write("a.csv", "id,v\n1,abcd\n")
    with variable(db.server, "sql_mode", "''"):
        db.fails(1, "a.csv")
    assert db.run("SELECT COUNT(*) FROM t") == [(0,)]


def test_other_columns_are_refused(db: Database) -> None:
    db.run("CREATE TABLE t (id INT, other INT)")
    db.shell.write("a.csv", "id,name\n1,a\n")
    assert "name" in db.shell.run("load", "a.csv", "--to", db.uri(), "--table", "t").talk
    assert db.run("SELECT COUNT(*) FROM t") == [(0,)]


def test_generated_and_numbered_columns_are_the_servers(db: Database) -> None:
    db.run(
        "CREATE TABLE t (nr INT AUTO_INCREMENT PRIMARY KEY, id INT, twice INT AS (id * 2) STORED, "
        "bits BIT(4), at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)"
    )
    db.shell.write("a.csv", "id,bits\n3,5\n4,15\n")
    db.load("a.csv")
    assert db.run("SELECT nr, id, twice, bits + 0, at IS NOT NULL FROM t ORDER BY nr") == [
        (1, 3, 6, 5, 1), (2, 4, 8, 15, 1),
    ]  # fmt: skip


def test_a_number_of_zero_stays_zero(db: Database) -> None:
    db.run("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))")
    db.shell.write("a.csv", "id,name\n0,a\n7,b\n")
    db.load("a.csv")
    assert db.run("SELECT id FROM t ORDER BY id") == [(0,), (7,)]


def test_a_year_of_zero_stays_zero(db: Database) -> None:
    db.run("CREATE TABLE t (id INT, y YEAR)")
    db.shell.write("a.csv", "id,y\n1,0\n2,1901\n3,\n")
    db.load("a.csv")
    assert db.run("SELECT id, y + 0 FROM t ORDER BY id") == [(1, 0), (2, 1901), (3, None)]


def test_text_of_another_charset_is_converted(db: Database) -> None:
    db.run("CREATE TABLE t (id INT, v VARCHAR(9) CHARACTER SET latin1)")
    db.shell.write("a.csv", "id,v\n1,café\n")
    db.load("a.csv")
    assert db.run("SELECT v, LENGTH(v) FROM t") == [("café", 4)]


# --- servers that refuse --------------------------------------------------------------------------


def test_local_infile_is_off(db: Database) -> None:
    db.shell.write("a.csv", "id,name\n1,a\n")
    with variable(db.server, "local_infile", "OFF"):
        done = db.fails(5, "a.csv")
    assert "the server has local_infile switched off (rowfall has it on)" in done.talk
    assert "SET GLOBAL local_infile = ON" in done.talk
    assert db.run("SHOW TABLES") == []


def test_packets_are_as_small_as_the_server_wants_them(db: Database) -> None:
    db.shell.write("a.csv", f"id,name\n1,{'x' * 300_000}\n2,{'y' * 300_000}\n")
    with variable(db.server, "max_allowed_packet", "16384"):
        db.load("a.csv")
    assert db.run("SELECT id, LENGTH(name) FROM t ORDER BY id") == [(1, 300_000), (2, 300_000)]


def test_only_singlestore_has_pipelines(db: Database) -> None:
    db.shell.write("a.csv", "id,name\n1,a\n")
    done = db.fails(2, "a.csv", "--pull", scheme="singlestore")
    assert "is MariaDB 10.11" in done.talk
    assert "--pull is not for mysql://" in db.fails(2, "a.csv", "--pull").talk
    assert db.run("SHOW TABLES") == []


def test_a_user_who_may_only_read(db: Database) -> None:
    word = db.server.add_user(f"reader_{db.name}", f"SELECT ON {db.name}.*")
    db.shell.write("a.csv", "id,name\n1,a\n")
    done = db.fails(5, "a.csv", user=f"reader_{db.name}", password=word)
    assert "denied" in done.talk
    assert "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON" in done.talk
    assert word not in done.err
    assert db.run("SHOW TABLES") == []


def test_a_wrong_password_and_a_missing_database(db: Database) -> None:
    db.shell.write("a.csv", "id,name\n1,a\n")
    done = db.fails(5, "a.csv", password="wrong-0123456789")
    assert "Access denied" in done.talk
    assert "wrong-0123456789" not in done.err
    done = db.shell.ends(
        5, "load", "a.csv", "--to", db.server.uri("none_such"), "--table", "t", "--patience", "1s"
    )
    assert "none_such" in done.talk


def test_a_table_without_transactions_is_loaded_at_least_once(db: Database) -> None:
    db.shell.write("a.csv", "id,name\n" + lines(0, 10))
    new = db.shell.ok("plan", "-v", "a.csv", "--to", db.uri(), "--table", "t", "--engine", "MyISAM")
    assert "at least once: MyISAM has no transactions" in " ".join(new.out.split())
    db.run("CREATE TABLE t (id INT, name VARCHAR(20)) ENGINE=MyISAM")
    plan = db.shell.ok("plan", "-v", "a.csv", "--to", db.uri(), "--table", "t")
    assert "at least once: MyISAM has no transactions" in " ".join(plan.out.split())
    db.load("a.csv")
    assert db.loaded() == [(10, 45, 10)]


# --- rows that only the database refuses ----------------------------------------------------------


def _refusing(db: Database) -> None:
    db.run(
        "CREATE TABLE t (id INT PRIMARY KEY, n SMALLINT NOT NULL, s VARCHAR(5), d DATE, "
        "CHECK (n <> 13)) ENGINE=InnoDB",
        "INSERT INTO t VALUES (7, 0, 'old', NULL)",
    )


# Line 9 is there already, lines 12, 102 and 202 hold what the columns cannot, 302 breaks the CHECK.
_BAD = {
    7: "7,1,there,",
    10: "10,99999,a,",
    100: "100,1,toolong,",
    200: "200,1,a,",
    300: "300,13,a,",
}


def test_rows_that_the_server_refuses_are_left_out(db: Database) -> None:
    _refusing(db)
    text = "id,n,s,d\n" + "".join(
        f"{_BAD.get(i, f'{i},{i % 10},a,2024-01-01')}\n" for i in range(5_000)
    )
    db.shell.write("in/a.csv", text)
    db.shell.write("in/b.csv", "id,n,s,d\n6000,1,b,\n")
    done = db.load(
        "in/*.csv", "--max-errors", "4", "--rejects", "r.tsv", "--json", "--force-append"
    )
    report = done.document
    assert (report["rows"], report["rows_rejected"]) == (4_997, 4)
    assert db.run("SELECT COUNT(*), MIN(n), MAX(id) FROM t") == [(4_998, 0, 6000)]
    rejects = [
        line.split("\t") for line in (db.shell.folder / "r.tsv").read_text().splitlines()[1:]
    ]
    assert [(row[1], row[4]) for row in rejects] == [
        (str(i + 2), _BAD[i]) for i in (7, 10, 100, 300)
    ]
    assert rejects[0][0].endswith("in/a.csv")
    assert "Duplicate entry '7'" in rejects[0][3]
    assert (rejects[1][2], rejects[2][2]) == ("n", "s")
    assert db.load("in/*.csv", "--max-errors", "4", "--json").document["rows"] == 0


@pytest.mark.long
def test_more_refused_rows_than_allowed_load_nothing_of_the_file(db: Database) -> None:
    _refusing(db)
    db.shell.write("a.csv", "id,n,s,d\n1,1,a,\n7,1,a,\n2,99999,a,\n3,1,toolong,\n4,1,a,\n")
    done = db.fails(1, "a.csv", "--max-errors", "2", "--force-append")
    assert "a.csv" in done.err
    assert db.run("SELECT id FROM t") == [(7,)]
    assert db.load("a.csv", "--max-errors", "3", "--json").document["rows"] == 2
    assert db.run("SELECT id FROM t ORDER BY id") == [(1,), (4,), (7,)]


@pytest.mark.long
def test_rows_that_the_engine_and_the_server_refuse(db: Database) -> None:
    _refusing(db)
    db.shell.write(
        "a.csv", "id,n,s,d\n1,1,a,\nx,1,a,\n7,1,a,\n2,1,a,\ny,1,a,\n3,99999,a,\n4,1,a,\n"
    )
    report = db.load(
        "a.csv", "--max-errors", "4", "--rejects", "r.tsv", "--json", "--force-append"
    ).document
    assert (report["rows"], report["rows_rejected"]) == (3, 4)
    lines = [line.split("\t") for line in (db.shell.folder / "r.tsv").read_text().splitlines()[1:]]
    assert sorted((row[1], row[4]) for row in lines) == [
        ("3", "x,1,a,"), ("4", "7,1,a,"), ("6", "y,1,a,"), ("7", "3,99999,a,"),
    ]  # fmt: skip
    assert db.run("SELECT id FROM t ORDER BY id") == [(1,), (2,), (4,), (7,)]


def test_the_plan_counts_what_each_row_costs(db: Database) -> None:
    db.run(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, KEY (n), CHECK (n > 0)) ENGINE=InnoDB",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.n = NEW.n",
    )
    db.shell.write("t.csv", "id,n\n1,1\n")
    plan = db.shell.ok("plan", "t.csv", "--table", "t", "--to", db.uri(), "--json").document
    assert plan["upkeep"].startswith("2 indexes, 1 CHECK, 1 trigger: kept up with each row")


# --- what was loaded long ago ---------------------------------------------------------------------


def pack_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let batches become one load, and their ids be packed, without waiting for an hour."""
    monkeypatch.setattr(follow, "KEPT", 2)
    monkeypatch.setattr(follow, "JOINED_AT_ONCE", 1)
    monkeypatch.setattr(joined, "_AGE", "INTERVAL 0 SECOND")


@pytest.mark.long
def test_a_followed_folder_and_a_record_that_is_joined(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was loaded long ago is known by its digest, whoever asks and whatever is altered."""
    pack_at_once(monkeypatch)
    folder, to = db.shell.folder / "in", db.uri(scheme="mariadb")
    folder.mkdir()
    ranges = "INSERT INTO _rowfall_loaded (target, split, attempt, load_id, name, whole, session, "

    def file(*numbers: int) -> None:
        for number in numbers:
            put(folder / f"{number}.csv", number)

    def skipped() -> list[int]:
        other = {"ROWFALL_HOME": str(db.shell.folder / secrets.token_hex(4))}
        words = ("load", str(folder), "--table", "t", "--to", to, "--json")
        done = json.loads(db.shell.ok(*words, env=other).out)
        return [done["splits_skipped"], done["rows"]]

    # Of a record that an earlier version has begun, with a range that stays where it is.
    Follower(partial(file, 0)).run(str(folder), to)
    db.run(
        f"{ranges} loaded, attempt_rows, table_made) SELECT target, '0[0:1]', 'x_1', 'x', 'f', "
        f"'w', 0, loaded, 1, table_made FROM _rowfall_loaded",
    )
    Follower(*(partial(file, number) for number in range(1, 7))).run(str(folder), to)
    ((left,),) = db.run("SELECT COUNT(*) FROM _rowfall_loaded")
    ((moved,),) = db.run("SELECT SUM(LENGTH(ids)) DIV 16 FROM _rowfall_packed")
    assert left + moved == 8
    assert moved >= 3
    Follower(partial(file, *range(7, 1007))).run(str(folder), to)
    all_rows = "SELECT COUNT(*), COUNT(DISTINCT a) FROM t"
    assert db.run(all_rows) == [(1007, 1007)]
    assert skipped() == [1007, 0]
    db.run("ALTER TABLE t FORCE", "OPTIMIZE TABLE t")
    assert skipped() == [1007, 0]
    # The load that stands for the oldest batches is forgotten with all of them.
    oldest = min(api.loads(to=to), key=lambda one: one.started)
    gone = [a for (a,) in db.run(f"SELECT a FROM t ORDER BY a LIMIT {oldest.rows}")]
    db.run(f"DELETE FROM t WHERE a <= {max(gone)}")
    assert oldest.rows >= 4
    assert api.forget(oldest.load_id, to=to) == oldest.rows
    assert skipped() == [1007 - oldest.rows, oldest.rows]
    assert db.run(all_rows) == [(1007, 1007)]
    # Another table of this name holds nothing of it, nor does one that replaces it.
    db.run("CREATE TABLE u LIKE t", "DROP TABLE t", "RENAME TABLE u TO t")
    assert skipped() == [0, 1007]
    assert db.run("SELECT COUNT(*) FROM _rowfall_joined_sets") == [(0,)]
    assert db.run("SELECT COUNT(*) FROM _rowfall_packed") == [(0,)]
    assert db.run(all_rows) == [(1007, 1007)]


@pytest.mark.long
def test_what_a_table_that_is_replaced_held_is_not_the_new_ones(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack_at_once(monkeypatch)
    folder, to = db.shell.folder / "in", db.uri(scheme="mariadb")
    folder.mkdir()
    steps = [partial(put, folder / f"{number}.csv", number) for number in range(6)]
    Follower(*steps).run(str(folder), to)
    ((moved,),) = db.run("SELECT SUM(LENGTH(ids)) DIV 16 FROM _rowfall_packed")
    assert moved >= 2
    one = str(folder / "5.csv")
    words = ("--table", "t", "--to", to, "--json")
    assert json.loads(db.shell.ok("load", one, "--replace", *words).out)["rows"] == 1
    assert json.loads(db.shell.ok("load", str(folder), *words).out)["rows"] == 5
    assert db.run("SELECT COUNT(*), COUNT(DISTINCT a) FROM t") == [(6, 6)]


@pytest.mark.parametrize(("type_", "name", "shown"), [
    pytest.param("TIME(3)", "a.parquet", "00:00:01.005", marks=pytest.mark.long),
    ("DATETIME(3)", "a.avro", "1970-01-01 00:00:01.005"),
    pytest.param("TIME(3)", "a.avro", "00:00:01.005", marks=pytest.mark.long),
])  # fmt: skip
def test_milliseconds_are_no_clock(db: Database, type_: str, name: str, shown: str) -> None:
    """The server took 1005 milliseconds for ten minutes and five seconds."""
    db.run(f"CREATE TABLE t (a {type_})")
    if name == "a.avro":
        put_times(db.shell, name, "time-millis", 1005)
    else:
        put_durations(db.shell, name, "ms", 1005)
    done = db.fails(2, name)
    assert f"{name}: the numbers of a are " in done.talk
    db.load(name, "--select", select_of(done))
    assert db.run("SELECT CAST(a AS CHAR) FROM t") == [(shown,)]
