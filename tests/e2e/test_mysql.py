"""Tables of MariaDB as sources: what arrives, what a second run adds, what is refused."""

from __future__ import annotations

import re
import secrets
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.fleet import Fleet
from e2e.lake import Lake
from e2e.test_hint_commands import typed
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.mariadb import MariaDB, client
from lab.process import wait_until
from lab.scripted_mysql import Rows, ScriptedMySQL
from lab.tls import certificate

pytestmark = pytest.mark.xdist_group("mysql")
_ROWS = 20_000
_FILL = (
    "CREATE TABLE {0} (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(200))",
    f"INSERT INTO {{0}} SELECT seq, REPEAT(CHAR(97 + seq % 26), 200) FROM seq_1_to_{_ROWS}",
    "ANALYZE TABLE {0}",
)


@dataclass(frozen=True, slots=True)
class Tables:
    """A database of MariaDB with names for its tables."""

    server: MariaDB
    name: str

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.query(*statements, database=self.name)

    def fill(self, table: str = "t") -> None:
        """Make a table of 5 MB, which is read in many ranges."""
        self.run(*(text.format(table) for text in _FILL))

    def uri(self, table: str = "t", **more: str) -> str:
        return self.server.uri(f"{self.name}/{table}", **more)


@pytest.fixture
def tables(mariadb: MariaDB) -> Tables:
    name = f"db_{secrets.token_hex(4)}"
    mariadb.query(f"CREATE DATABASE {name}")
    return Tables(mariadb, name)


# --- what arrives ---------------------------------------------------------------------------------


def test_a_table_is_loaded_once_in_ranges_and_grows(shell: Shell, tables: Tables) -> None:
    tables.fill()
    done = shell.ok("load", tables.uri(), "--json")
    assert done.document["rows"] == _ROWS
    assert done.document["splits_loaded"] > 10
    assert "ranges of id (each connection has a snapshot of its own" in done.talk
    assert f"a later run loads the values above {_ROWS}" in done.talk
    look = "SELECT count(), sum(id), uniqExact(id), uniqExact(name) FROM t"
    assert shell.row(look) == [_ROWS, _ROWS * (_ROWS + 1) // 2, _ROWS, 26]
    tables.run(f"INSERT INTO t SELECT seq, 'new' FROM seq_{_ROWS + 1}_to_{_ROWS + 50}")
    assert shell.ok("load", tables.uri(), "--json").document["rows"] == 50
    assert shell.ok("load", tables.uri(), "--json").document["rows"] == 0
    assert shell.row(look)[:3] == [_ROWS + 50, (_ROWS + 50) * (_ROWS + 51) // 2, _ROWS + 50]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["DROP TABLE t", "TRUNCATE TABLE t"])
def test_rows_of_a_table_that_was_made_anew_are_not_loaded(
    shell: Shell, tables: Tables, how: str
) -> None:
    """They had lower numbers than those of the old one, and counted as loaded: exit 0."""
    make = "CREATE TABLE {}t (id INT AUTO_INCREMENT PRIMARY KEY, v TEXT)"
    tables.run(make.format(""), "INSERT INTO t SELECT seq, 'old' FROM seq_1_to_100")
    shell.ok("load", tables.uri())
    # The last rows are gone, and one has no number: that is the same table.
    tables.run("DELETE FROM t WHERE id > 50", "ALTER TABLE t ADD COLUMN w INT",
               "ALTER TABLE t DROP COLUMN w")  # fmt: skip
    assert shell.ok("load", tables.uri(), "--json").document["rows"] == 0
    tables.run(how, make.format("IF NOT EXISTS "),
               "INSERT INTO t SELECT seq, 'new' FROM seq_1_to_20")  # fmt: skip
    for command in ("plan", "load"):
        said = " ".join(shell.ends(4, command, tables.uri()).talk.split())
        # MariaDB tells when a table was made to the second: one made anew in the same is known by
        # its numbers, and by its rows otherwise.
        numbers = "loaded up to id 100" in said and "no number above 20" in said
        assert numbers or "it is another table by now" in said
    ((old,),) = [[one["load_id"] for one in shell.ok("status", "--json").document["loads"]
                  if one["rows"]]]  # fmt: skip
    shell.ok("forget", old, "--yes")
    shell.ok("load", tables.uri(), "--replace")
    assert shell.rows("SELECT v, count() FROM t GROUP BY v") == [["new", 20]]
    assert "nothing to load" in shell.ok("load", tables.uri()).talk


@pytest.mark.parametrize(
    "key", ["INT AUTO_INCREMENT", pytest.param("DATE", marks=pytest.mark.long),
            pytest.param("BINARY(16)", marks=pytest.mark.long)],
)  # fmt: skip
def test_a_table_that_was_made_anew_and_has_grown_is_another_one(
    shell: Shell, tables: Tables, key: str
) -> None:
    """Its number of AUTO_INCREMENT was beyond the old one: rows behind that were added, exit 0."""
    make = f"CREATE TABLE t (id {key} PRIMARY KEY, v TEXT, n INT)"
    values = {
        "DATE": "DATE '2020-01-01' + INTERVAL {} DAY", "BINARY(16)": "UNHEX(LPAD(HEX({}), 32, '0'))"
    }  # fmt: skip
    id_ = values.get(key, "{}").format("seq")
    fill = f"INSERT INTO t SELECT {id_}, CONCAT('{{}}', seq), 1 FROM seq_1_to_"
    tables.run(make, fill.format("old") + "100")
    shell.ok("load", tables.uri())
    # Columns come, go and change, rows are deleted and changed: one row of those that were seen
    # is what it was.
    tables.run(
        "ALTER TABLE t ADD COLUMN w INT, MODIFY n BIGINT", "ALTER TABLE t DROP COLUMN w",
        "UPDATE t SET v = 'changed' WHERE v != 'old1'", "DELETE FROM t WHERE v = 'old100'",
    )  # fmt: skip
    _later(tables)
    assert shell.ok("load", tables.uri(), "--json").document["rows"] == 0
    tables.run("DROP TABLE t", make, fill.format("new") + "150")
    _later(tables)
    for command in ("plan", "load"):
        said = " ".join(shell.ends(4, command, tables.uri()).talk.split())
        assert "it is another table by now" in said
        assert "no row that was looked at then is what it was" in said
    assert shell.row("SELECT count() FROM t") == [100]
    for old in shell.ok("status", "--json").document["loads"]:
        shell.ok("forget", old["load_id"], "--yes")
    shell.ok("load", tables.uri(), "--replace")
    assert shell.row("SELECT count(), countIf(startsWith(v, 'new')) FROM t") == [150, 150]
    assert "nothing to load" in shell.ok("load", tables.uri()).talk


def _later(tables: Tables) -> None:
    """Alter the table until its time is another one: the server counts whole seconds."""
    where = f"TABLE_SCHEMA = '{tables.name}' AND TABLE_NAME = 't'"
    ask = f"SELECT CREATE_TIME FROM information_schema.TABLES WHERE {where}"
    before = tables.server.query(ask)

    def is_later() -> bool:
        tables.run("ALTER TABLE t COMMENT = ''")
        return tables.server.query(ask) != before

    wait_until(is_later, 10, "another second")


def test_what_the_client_shows_on_a_terminal_is_read_or_names_the_command_that_writes_rows(
    shell: Shell, tables: Tables
) -> None:
    tables.run("CREATE TABLE t (id INT, s TEXT)", "INSERT INTO t VALUES (1, 'a\tb'), (NULL, 'c')")
    program, own = client()
    at = tables.server
    mysql = f"{program} -h127.0.0.1 -P{at.port} -u{at.user} -p{at.password} {tables.name}"
    assert typed(shell, f"{mysql} --table -e 'SELECT * FROM t' > box", **own).code == 0
    assert typed(shell, "mv box boxed.txt; rowfall load boxed.txt").code == 0
    assert shell.rows("SELECT * FROM boxed ORDER BY s") == [[1, "a\tb"], [None, "c"]]
    # A value with a line break breaks the box.
    tables.run("INSERT INTO t VALUES (2, 'd\ne')")
    for more in ("--table", "--vertical"):
        done = typed(shell, f"{mysql} {more} -e 'SELECT * FROM t' > box", **own)
        assert done.code == 0, done
        refused = typed(shell, "cat box | rowfall load -")
        assert refused.code in (2, 4)
        hint = re.search(r"hint: .*: (mysql --batch .*)$", refused.err, re.M)
        assert hint, refused.err
        assert typed(shell, "mv box box.csv; rowfall load box.csv").code in (2, 4)
    command = hint[1].replace("mysql", mysql, 1).replace("SELECT ...", "SELECT * FROM t")
    assert typed(shell, command, **own).code == 0
    rows = shell.rows("SELECT * FROM NAME ORDER BY s")
    assert rows == [[1, "a\tb"], [None, "c"], [2, "d\ne"]]


def test_tables_keep_their_names(shell: Shell, tables: Tables) -> None:
    for number, name in enumerate(("orders_2023", "orders_2024", "fuzz", "fuzz_part")):
        tables.run(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} VALUES "
                   f"({number})")  # fmt: skip
        shell.ok("load", tables.uri(name))
        assert shell.row(f"SELECT groupArray(id) FROM {name}") == [[number]]
    # Of another database with a table of this name it is said that its rows are added.
    other = Tables(tables.server, f"{tables.name}_other")
    tables.server.query(f"CREATE DATABASE {other.name}")
    other.run("CREATE TABLE fuzz (id INT PRIMARY KEY)", "INSERT INTO fuzz VALUES (9)")
    done = shell.ok("load", other.uri("fuzz"))
    assert "fuzz is named after the source and holds rows of mysql://" in done.talk
    assert f"/{tables.name}/fuzz already" in done.talk
    assert "holds rows of" not in shell.ok("load", other.uri("fuzz")).talk
    assert "holds rows of" not in shell.ok("load", tables.uri("fuzz_part"), "--table", "fuzz").talk


_TYPES = """
CREATE TABLE types (
    id BIGINT UNSIGNED PRIMARY KEY, tiny TINYINT(1), utiny TINYINT UNSIGNED, small SMALLINT,
    medium MEDIUMINT UNSIGNED, filled INT(8) ZEROFILL, big BIGINT, exact DECIMAL(65, 30),
    money DECIMAL(9, 2) NOT NULL, single FLOAT, twice DOUBLE, flags BIT(10), one BIT(1),
    latin VARCHAR(20) CHARACTER SET latin1, words TEXT, fixed CHAR(5), raw VARBINARY(20),
    three BINARY(3), picture BLOB, day DATE, moment DATETIME(3), stamp TIMESTAMP(6) NULL,
    plain TIMESTAMP NULL, hours TIME, y YEAR, e ENUM('a', 'it''s', ''), s SET('x', 'y'),
    j JSON, u UUID, i4 INET4, i6 INET6, twofold INT AS (utiny * 2) STORED, secret INT INVISIBLE
) CHARACTER SET utf8mb4
"""
_LARGE = r"""
18446744073709551615, -128, 255, -32768, 16777215, 42, -9223372036854775808,
-12345678901234567890123456789012345.123456789012345678901234567891, 1234567.89, 16777217, 0.1,
b'1111111111', 1, 'café', '😀 a\tb\n\r\\N', 'ab', X'00ff0a095c', X'01', X'fffe00', '1900-01-01',
'2299-12-31 23:59:59.999', '2038-01-19 03:14:07.999999', '1970-01-01 00:00:01', '-838:59:59', 2155,
'it''s', 'x,y', '{"a": [1, "\\n"]}', '123e4567-e89b-12d3-a456-426614174000', '10.0.0.1', '::ffff',
DEFAULT
"""


def test_every_type_arrives_as_it_is(shell: Shell, tables: Tables) -> None:
    tables.run(
        "SET time_zone = '+00:00'", "SET sql_mode = ''", _TYPES,
        f"INSERT INTO types VALUES ({_LARGE})",
        "INSERT INTO types (id, money) VALUES (0, 0)",
        "INSERT INTO types (id, money, day, moment, stamp, plain, e) VALUES "
        "(1, -1, '0000-00-00', '2020-00-15', '0000-00-00', '0000-00-00', 'none such')",
    )  # fmt: skip
    done = shell.ok("load", tables.uri("types"))
    assert "secret: invisible, left out" in done.talk
    types = dict(shell.rows("SELECT name, type FROM system.columns WHERE table = 'types'"))
    assert types["id"] == "UInt64"
    assert types["tiny"] == "Nullable(Int8)"
    assert types["utiny"] == "Nullable(UInt8)"
    assert types["medium"] == "Nullable(UInt32)"
    assert types["filled"] == "Nullable(UInt32)"
    assert types["exact"] == "Nullable(Decimal(65, 30))"
    assert types["money"] == "Decimal(9, 2)"
    assert types["flags"] == "Nullable(UInt16)"
    assert types["three"] == "Nullable(FixedString(3))"
    assert types["moment"] == "Nullable(DateTime64(3, 'UTC'))"
    assert types["plain"] == "Nullable(DateTime('UTC'))"
    assert types["e"] == "Nullable(Enum8('a' = 1, 'it\\'s' = 2, '' = 3))"
    assert types["u"] == "Nullable(UUID)"
    assert types["i4"] == "Nullable(IPv4)"
    assert "secret" not in types
    text = (
        "SELECT toString((tiny, utiny, small, medium, filled, big, exact, money, single, twice, "
        "flags, one)), toString((latin, words, fixed, hex(raw), hex(three), hex(picture))), "
        "toString((day, moment, stamp, plain, hours, y, e, s, hex(j), u, i4, i6, twofold)) "
        "FROM types ORDER BY id"
    )
    nothing, zero, large = shell.rows(text)
    assert nothing[0] == "(NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL)"
    assert nothing[1] == "(NULL,NULL,NULL,NULL,NULL,NULL)"
    assert zero[2].startswith("(NULL,NULL,NULL,NULL,NULL,NULL,'',NULL")
    assert large[0] == (
        "(-128,255,-32768,16777215,42,-9223372036854775808,"
        "-12345678901234567890123456789012345.123456789012345678901234567891,1234567.89,16777216,"
        "0.1,1023,1)"
    )
    assert large[1] == (
        "('caf\u00e9','\U0001f600 a\\tb\\n\\r\\\\N','ab','00FF0A095C','010000','FFFE00')"
    )
    assert large[2] == (
        "('1900-01-01','2299-12-31 23:59:59.999','2038-01-19 03:14:07.999999',"
        "'1970-01-01 00:00:01','-838:59:59',2155,'it\\'s','x,y',"
        "'7B2261223A205B312C20225C6E225D7D',"
        "'123e4567-e89b-12d3-a456-426614174000','10.0.0.1','::ffff',510)"
    )


_EXTREMES = {
    "TINYINT": (-128, 127), "TINYINT UNSIGNED": (0, 255), "SMALLINT": (-32768, 32767),
    "SMALLINT UNSIGNED": (0, 65535), "MEDIUMINT": (-8388608, 8388607), "INT": (-(2**31), 2**31 - 1),
    "INT UNSIGNED": (0, 2**32 - 1), "INT(9) ZEROFILL": (0, 42), "BIGINT": (-(2**63), 2**63 - 1),
    "BIGINT UNSIGNED": (0, 2**64 - 1), "DECIMAL(9,2)": ("-9999999.99", "0.01"),
    "DECIMAL(18,0)": ("-1", "999999999999999999"), "DECIMAL(38,38)": ("-0.1", "0." + "9" * 38),
    "DECIMAL(65,30)": ("-" + "9" * 35, "0." + "0" * 29 + "1"), "DECIMAL(8,3) ZEROFILL": (0, "1.5"),
    "FLOAT": (-3.4028234e38, 1.17549435e-38), "FLOAT(7,4)": (0.1, -999.9999),
    "DOUBLE": (-1.7976931348623157e308, 5e-324), "DOUBLE(12,2)": (1.1, -1234567890.12),
    "BIT(1)": (0, 1), "BIT(64)": (0, 2**64 - 1), "DATE": ("1900-01-01", "2299-12-31"),
    "DATETIME": ("1900-01-01 00:00:00", "2299-12-31 23:59:59"),
    "DATETIME(3)": ("1970-01-01 00:00:00.001", "2299-12-31 23:59:59.999"),
    "DATETIME(6)": ("1969-12-31 23:59:59", "2261-12-31 23:59:59.999999"),
    "TIMESTAMP": ("1970-01-01 00:00:01", "2038-01-19 03:14:07"),
    "TIMESTAMP(6)": ("1970-01-01 00:00:01.000001", "2038-01-19 03:14:07.999999"),
    "TIME(6)": ("-838:59:59.999999", "00:00:00.000001"), "YEAR": (0, 2155),
    "CHAR(9)": (" a ", "\u00fc\u0000"), "VARCHAR(300)": ("x" * 251, "\\N"),
    "VARCHAR(99) CHARACTER SET latin1": ("\u00e9\u20ac", "\t\n\\"),
    "VARCHAR(99) CHARACTER SET utf16": ("\U0001f600", ""), "TINYTEXT": ("", "\r"),
    "TEXT CHARACTER SET utf8mb3": ("\u20ac" * 999, "a"), "LONGTEXT": ("y" * 70_000, "\"q\""),
    "ENUM('a','b''c','\u20ac')": ("b'c", "\u20ac"), "SET('x','y','z')": ("x,z", ""),
    "JSON": ('{"a": [1, "\\\\n"]}', "[]"), "UUID": ("0" * 31 + "1", "f" * 32),
    "INET4": ("0.0.0.1", "255.255.255.255"), "INET6": ("::", "ff::1"),
}  # fmt: skip
_RAW = {
    "BINARY(3)": (b"\0\xff\n", b"a"),
    "VARBINARY(300)": (b"\xfb\xfc\xfd\xfe\xff", b"\\N"),
    "BLOB": (b"\0" * 300, b""),
    "LONGBLOB": (bytes(range(256)) * 300, b"\t\r\n\\"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("more", [{}, _RAW], ids=["texts", "bytes"])
def test_rows_in_binary_are_those_of_text(
    shell: Shell, tables: Tables, more: dict[str, Any]
) -> None:
    """Of extreme values, NULLs and zero dates; also where other types are asked for."""
    types = _EXTREMES | more
    columns = ", ".join(f"c{n} {kind} NULL" for n, kind in enumerate(types))
    tables.run("SET sql_mode = ''", "SET time_zone = '+00:00'",
               f"CREATE TABLE v (id INT PRIMARY KEY, {columns}) CHARACTER SET utf8mb4")  # fmt: skip
    low, high = ([pair[end] for pair in types.values()] for end in (0, 1))
    # Each value beside neighbours that are NULL, so that each bit of the bitmap counts.
    mixed = [[v if (n + k) % 3 else None for n, v in enumerate(low)] for k in range(3)]
    dates = [n for n, kind in enumerate(types) if kind.startswith("DATE")]
    zeros = [["0000-00-00", "2020-00-10"][n % 2] if n in dates else None for n in range(len(types))]
    with tables.server.connect(tables.name) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        marks = ", ".join(["%s"] * (len(types) + 1))
        for number, row in enumerate([low, high, [None] * len(types), *mixed, zeros]):
            cursor.execute(f"INSERT INTO v VALUES ({marks})", [number, *row])
    names = ["id", *(f"c{n}" for n in range(len(types)))]
    shown = "SELECT " + ", ".join(f"'=' || hex(toString({name}))" for name in names) + " FROM"
    wider = [f"c{n} Nullable(String)" for n, k in enumerate(types) if k.startswith(("DATE", "BIG"))]
    wider += [f"c{list(types).index('INT')} Nullable(Decimal(12, 2))"]
    asked = [part for one in wider for part in ("--type", one)]
    for number, (given, name) in enumerate([((), "as"), (asked, "other")]):
        before = shell.ok("load", tables.uri("v"), "--table", f"t{number}", *given,
                          "--decoder", "never")  # fmt: skip
        found = shell.rows(f"{shown} t{number} ORDER BY id")
        done = shell.ok("load", tables.uri("v"), "--table", f"b{number}", *given,
                        "--decoder", "always")  # fmt: skip
        assert "the engine reads it instead" not in done.talk, (name, before.talk)
        assert shell.rows(f"{shown} b{number} ORDER BY id") == found, name
        assert len(found) == 7, name


def test_a_query_is_loaded(shell: Shell, tables: Tables) -> None:
    tables.fill()
    query = (
        "SELECT id, CAST(id AS DECIMAL(9, 2)) AS d, name, LENGTH(name) AS size, NOW() AS at "
        "FROM t WHERE id % 2;"
    )
    uri = tables.uri("").rstrip("/")
    done = shell.ok("load", uri, "--query", query, "--table", "q", "--json")
    assert done.document["rows"] == _ROWS // 2
    assert shell.row("SELECT count(), sum(id), sum(size), toTypeName(any(d)) FROM q")[:3] == [
        _ROWS // 2, (_ROWS // 2) ** 2, 200 * _ROWS // 2,
    ]  # fmt: skip
    again = shell.ok("load", uri, "--query", query, "--table", "q", "--json")
    assert again.document["rows"] == 0
    twice = shell.ends(2, "load", uri, "--query", "SELECT 1 AS a, 2 AS a", "--table", "r")
    assert "two columns of one name" in twice.talk


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("DATETIME(2)", "'2020-01-01' + INTERVAL seq MINUTE"),
        ("BINARY(16)", "UNHEX(MD5(seq))"),
        ("CHAR(36)", "CONCAT(LOWER(HEX(seq * 214748)), '-', seq)"),
        ("BIGINT", "CAST(seq AS SIGNED) * 461168601842738 - 4611686018427380000"),
    ],
)
def test_keys_of_other_types(shell: Shell, tables: Tables, column: str, value: str) -> None:
    tables.run(
        f"CREATE TABLE k (k {column} PRIMARY KEY, n INT, pad CHAR(250))",
        f"INSERT INTO k SELECT {value}, seq, REPEAT('x', 250) FROM seq_1_to_{_ROWS}",
        "ANALYZE TABLE k",
    )
    done = shell.ok("load", tables.uri("k"), "--json")
    assert done.document["splits_loaded"] > 5
    assert shell.row("SELECT count(), sum(n), uniqExact(n) FROM k") == [
        _ROWS, _ROWS * (_ROWS + 1) // 2, _ROWS,
    ]  # fmt: skip
    assert shell.ok("load", tables.uri("k"), "--json").document["rows"] == 0


def test_a_named_key_with_nulls(shell: Shell, tables: Tables) -> None:
    tables.fill()
    tables.run("ALTER TABLE t ADD at DATE, ADD INDEX (at)",
               "UPDATE t SET at = '2020-01-01' + INTERVAL id MOD 400 DAY WHERE id % 3",
               "ANALYZE TABLE t")  # fmt: skip
    assert shell.ok("load", f"{tables.uri()}?key=at", "--json").document["rows"] == _ROWS
    assert shell.row("SELECT count(), uniqExact(id), countIf(at IS NULL) FROM t") == [
        _ROWS, _ROWS, _ROWS // 3,
    ]  # fmt: skip


def test_tables_without_a_key_and_empty_ones(shell: Shell, tables: Tables) -> None:
    tables.run("CREATE TABLE bare (a INT, b TEXT)", "INSERT INTO bare VALUES (1, 'x'), (NULL, '')",
               "CREATE TABLE none (a INT)", "CREATE TABLE later (id SERIAL)",
               "CREATE VIEW seen AS SELECT a FROM bare")  # fmt: skip
    done = shell.ok("load", tables.uri("bare"))
    assert "bare is read as one stream: it has no primary key" in done.talk
    assert shell.rows("SELECT * FROM bare ORDER BY a") == [[1, "x"], [None, ""]]
    shell.ok("load", tables.uri("seen"))
    assert shell.row("SELECT count() FROM seen") == [2]
    talk = shell.ok("load", tables.uri("none")).talk
    assert re.search(r"nothing to load: mysql://.*/none is empty", talk), talk
    assert shell.row("SELECT count() FROM none") == [0]
    shell.ok("load", tables.uri("later"))
    tables.run("INSERT INTO later VALUES (1), (2)")
    shell.ok("load", tables.uri("later"))
    assert shell.row("SELECT count(), sum(id) FROM later") == [2, 3]


@pytest.mark.long
def test_into_a_server(shell: Shell, tables: Tables, clickhouse: ClickHouse) -> None:
    tables.fill()
    lake = Lake(shell, clickhouse)
    password = tables.server.password
    done = lake.ok("load", tables.uri(), "--verify")
    assert password not in done.out + done.err
    assert lake.row("SELECT count(), sum(id) FROM {db}.t") == [_ROWS, _ROWS * (_ROWS + 1) // 2]
    assert lake.load(tables.uri())["rows"] == 0
    assert lake.staging() == set()


@pytest.mark.long
def test_into_a_cluster_and_after_a_crash(fleet: Fleet, tables: Tables) -> None:
    tables.fill()
    uri = tables.uri()
    fleet.begin_and_kill({}, uri, "--attempt-bytes", "200K")
    fleet.load(uri)
    assert fleet.numbers("t") == [_ROWS, _ROWS]
    tables.run(f"INSERT INTO t SELECT seq, 'new' FROM seq_{_ROWS + 1}_to_{_ROWS + 50}")
    assert fleet.load(uri)["rows"] == 50
    assert fleet.numbers("t") == [_ROWS + 50, _ROWS + 50]


def test_rows_of_transactions_that_end_late(shell: Shell, tables: Tables) -> None:
    """Whoever has a lower number and commits while the load begins is waited for."""
    tables.run("CREATE TABLE late (id INT AUTO_INCREMENT PRIMARY KEY)")
    with tables.server.connect(tables.name) as writer, writer.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO late VALUES (NULL)")
        tables.run("INSERT INTO late VALUES (NULL)")
        timer = threading.Timer(1.5, writer.commit)
        timer.start()
        done = shell.ok("load", tables.uri("late"))
        timer.join()
    assert "still open" not in done.talk
    assert shell.row("SELECT count(), sum(id) FROM late") == [2, 3]


# --- what is refused ------------------------------------------------------------------------------


def test_what_cannot_be_read(shell: Shell, tables: Tables) -> None:
    tables.fill("orders")
    tables.run("CREATE TABLE places (id INT PRIMARY KEY, at POINT)")
    wrong = shell.ends(4, "load", tables.uri("order"))
    assert f"{tables.name} has no table order" in wrong.talk
    assert "Did you mean orders?" in wrong.talk
    wrong = shell.ends(4, "load", tables.uri("orders", password="no"))
    assert "Access denied" in wrong.talk
    assert "MYSQL_PWD" in wrong.talk
    word = tables.server.add_user("half", f"SELECT (id) ON {tables.name}.orders")
    wrong = shell.ends(4, "load", tables.uri("orders", user="half", password=word), "--table", "h")
    assert "SELECT command denied" in wrong.talk
    word = tables.server.add_user("nobody", f"SELECT ON {tables.name}.places")
    wrong = shell.ends(4, "load", tables.uri("orders", user="nobody", password=word))
    assert "SELECT command denied" in wrong.talk
    assert f"GRANT SELECT ON `{tables.name}`.`orders`" in wrong.talk
    wrong = shell.ends(4, "load", tables.uri("places"))
    assert "at point" in wrong.talk
    query = f"SELECT `id`, ST_AsText(`at`) AS `at` FROM `{tables.name}`.`places`"
    assert f"--query '{query}'" in wrong.talk
    shell.ok("load", tables.uri("").rstrip("/"), "--query", query, "--table", "places")
    wrong = shell.ends(2, "load", f"{tables.uri('orders')}?kye=id")
    assert "Did you mean key?" in wrong.talk
    wrong = shell.ends(4, "load", f"{tables.uri('orders')}?key=name")
    assert "begins no index" in wrong.talk


def test_dates_that_clickhouse_has_not(shell: Shell, tables: Tables) -> None:
    tables.run("SET sql_mode = ''", "CREATE TABLE z (id INT PRIMARY KEY, day DATE NOT NULL)",
               "INSERT INTO z VALUES (1, '2020-01-01'), (2, '0000-00-00')")  # fmt: skip
    wrong = shell.run("load", tables.uri("z"))
    assert wrong.code in (1, 4)
    assert "day" in wrong.talk
    assert "0000-00-00" in wrong.talk


@pytest.mark.long
def test_an_encrypted_connection(shell: Shell) -> None:
    """Rows in binary come through TLS, too, which keeps some of what has come to itself."""
    with tempfile.TemporaryDirectory() as folder:
        made, key = certificate(Path(folder))
        for path in (Path(folder), made, key):  # the server is another user
            path.chmod(0o755)
        with MariaDB(ssl_cert=str(made), ssl_key=str(key)) as server:
            server.query("CREATE DATABASE d", "USE d", *(text.format("t") for text in _FILL))
            # Only to a server that has this certificate.
            done = shell.ok("load", server.uri(f"d/t?ssl_ca={made}"), "--decoder", "always")
            assert "the engine reads it instead" not in done.talk
    look = "SELECT count(), sum(id), uniqExact(name) FROM t"
    assert shell.row(look) == [_ROWS, _ROWS * (_ROWS + 1) // 2, 26]


# --- SingleStore ----------------------------------------------------------------------------------

_STORED = {
    r"SELECT @@SESSION.time_zone, @@SESSION.sql_mode, @@system_time_zone": Rows(
        ("a", "b", "c"), [("SYSTEM", "STRICT_ALL_TABLES", "UTC")]
    ),
    r"SELECT COLUMN_NAME, DATA_TYPE.*": Rows(
        tuple("abcdefghijk"),
        [
            (
                "id",
                "bigint",
                "bigint(20)",
                "NO",
                "19",
                "0",
                None,
                None,
                None,
                "auto_increment",
                None,
            ),
            ("name", "varchar", "varchar(30)", "YES", None, None, None, "30", "utf8", "", None),
            ("at", "timestamp", "timestamp(6)", "YES", None, None, "6", None, None, "", None),
        ],
    ),
    r"SELECT ENGINE, TABLE_ROWS, DATA_LENGTH FROM information_schema.TABLES.*": Rows(
        tuple("abc"), [("MemSQL", None, None)]
    ),
    r"SELECT \* FROM `shop`.`orders` LIMIT 1": Rows(("id",), [("1",)]),
    r"SELECT INDEX_NAME, COLUMN_NAME.*": Rows(
        tuple("abcde"), [("PRIMARY", "id", 0, None, "COLUMNSTORE HASH")]
    ),
    r"START TRANSACTION": None,
    r"SET .*": None,
    r"SELECT CONCAT\(CONCAT_WS\(.*FROM `shop`.`orders`": Rows(
        ("row",),
        [
            (b"1\xffone\ttwo\xff2024-01-01 00:00:00.000001\xfd",),
            (b"-2\xff\xfeN\xff\xfeN\xfd",),
        ],
    ),
}


def test_singlestore_by_its_documentation(shell: Shell) -> None:
    """No such server can be had: it keeps its time zone, and has no snapshots and no InnoDB."""
    with ScriptedMySQL("5.7.32", _STORED) as server:
        uri = f"singlestore://reader:some-word@127.0.0.1:{server.port}/shop/orders"
        done = shell.ok("load", uri)
        assert "orders is read as one stream" in done.talk
        assert "some-word" not in done.out + done.err
        assert shell.rows("SELECT * FROM orders ORDER BY id") == [
            [-2, None, None], [1, "one\ttwo", "2024-01-01 00:00:00.000001"],
        ]  # fmt: skip
        assert "START TRANSACTION" in server.asked
        assert "loaded already" in shell.ok("load", uri).talk
    zoned = {**_STORED, next(iter(_STORED)): Rows(tuple("abc"), [("SYSTEM", "", "CET")])}
    with ScriptedMySQL("5.7.32", zoned) as server:
        uri = f"singlestore://reader@127.0.0.1:{server.port}/shop/orders"
        assert "they are CET and empty" in shell.ends(4, "load", uri).talk
