"""Views fire exactly once: a staged load leaves what a direct INSERT would have left."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest

from contract.engines import Guarded, connect, run, text
from rowfall.core import sql
from rowfall.core.errors import RowfallError, TargetError
from rowfall.core.masked import Secret
from rowfall.core.model import Ask, StagingPair
from rowfall.core.sql import qualified
from rowfall.plan import table_definition
from rowfall.publish.tables import StagingTables
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.server import Server
from rowfall.systems.clickhouse.staging import clone, discard, facts
from rowfall.systems.clickhouse.views import Select, Views, discover, fed_name

pytestmark = pytest.mark.xdist_group("engine")

Engine = Embedded | Server
_numbers = itertools.count()
PREFIX = "_rowfall_a1"


@dataclass(frozen=True)
class Case:
    """Tables and views in ``{db}``, the loaded table being ``t``; what to compare after a load.

    Attributes:
        rows: what is inserted, after ``INSERT INTO t``.
        same: queries that must give the same; all rows of all tables in ``tables`` by default.
        tables: the views' tables, in any order.
        pairs: how many tables get parts besides the loaded one.
        home: engine of the databases.
    """

    made: Sequence[str]
    tables: Sequence[str] = ("o",)
    rows: str = "(a, b) SELECT number, intDiv(number, 3) FROM numbers(100)"
    same: Sequence[str] = ()
    pairs: int | None = None
    home: str = "Atomic"


T = "CREATE TABLE {db}.t (a UInt64, b UInt64) ENGINE = MergeTree ORDER BY a"
OUT = "CREATE TABLE {db}.o (k UInt64, r UInt64) ENGINE = MergeTree ORDER BY k"
U = (
    "CREATE TABLE {db}.u ENGINE = MergeTree ORDER BY a AS "
    "SELECT number AS a, number * 2 AS b FROM numbers(50)"
)

V = "CREATE MATERIALIZED VIEW {db}.v TO {db}.o AS SELECT "


def simple(select: str, *more: str) -> Case:
    """One view that fills ``o``."""
    return Case([T, OUT, *more, "CREATE MATERIALIZED VIEW {db}.v TO {db}.o AS " + select])


CASES = {
    "plain": simple("SELECT a AS k, b AS r FROM {db}.t"),
    "filter": simple("SELECT a AS k, b + 1 AS r FROM {db}.t WHERE (a % 2) = 0 ORDER BY k LIMIT 7"),
    "group": simple("SELECT b AS k, count() AS r FROM {db}.t GROUP BY b"),
    "order of columns": simple("SELECT b AS r, a AS k FROM {db}.t"),
    "missing column": simple("SELECT a AS k FROM {db}.t"),
    "asterisk": Case(
        [T, OUT.replace("r ", "b UInt64, r "),
         "CREATE MATERIALIZED VIEW {db}.v TO {db}.o (k UInt64, b UInt64) AS "
         "SELECT * EXCEPT a, a + 1 AS k FROM {db}.t"],
    ),
    "qualified asterisk": Case(
        [T, OUT.replace("k ", "a UInt64, b UInt64, k "),
         "CREATE MATERIALIZED VIEW {db}.v TO {db}.o AS SELECT {db}.t.*, t.a AS k FROM {db}.t"],
    ),
    "alias": simple("SELECT s.a AS k, b AS r FROM {db}.t AS s"),
    "table in spite of alias": simple("SELECT t.a AS k, {db}.t.b AS r FROM {db}.t AS s"),
    "alias like the database": simple("SELECT {db}.a AS k, {db}.b AS r FROM {db}.t AS {db}"),
    "qualified": simple("SELECT {db}.t.a AS k, t.b AS r FROM {db}.t WHERE {db}.t.a > 3"),
    "subquery": simple(
        "SELECT k, sum(x) AS r FROM (SELECT t.b AS k, {db}.t.a AS x FROM {db}.t) AS t GROUP BY k"
    ),
    "cte": simple(
        "WITH c AS (SELECT a, b FROM {db}.t WHERE t.a > 5) SELECT c.a AS k, b AS r FROM c"
    ),
    "cte like the table": simple(
        "WITH t AS (SELECT a, b FROM {db}.t) SELECT t.a AS k, b AS r FROM t"
    ),
    "cte twice": simple(
        "WITH c AS (SELECT a, b FROM {db}.t) SELECT c.a AS k, count(d.a) AS r FROM c "
        "INNER JOIN c AS d ON c.b = d.b GROUP BY k"
    ),
    "expression in with": simple(
        "WITH a + 1 AS x, 'FROM d.t' AS y SELECT x AS k, length(y) AS r FROM {db}.t"
    ),
    "join": simple(
        "SELECT {db}.t.a AS k, {db}.u.b AS r FROM {db}.t LEFT JOIN {db}.u ON {db}.u.a = t.b", U
    ),
    "join using": simple("SELECT a AS k, u.b AS r FROM {db}.t ANY INNER JOIN {db}.u USING (a)", U),
    "join of a subquery": simple(
        "SELECT a AS k, x.m AS r FROM {db}.t LEFT JOIN (SELECT a AS n, max(b) AS m FROM {db}.u "
        "GROUP BY n) AS x ON x.n = {db}.t.b", U
    ),
    "comma": simple(
        "SELECT t.a AS k, n.number AS r FROM {db}.t, numbers(3) AS n, {db}.u WHERE u.a = t.a", U
    ),
    "self join": simple(
        "SELECT t.a AS k, count(s.a) AS r FROM {db}.t LEFT JOIN {db}.t AS s ON s.b = t.b GROUP BY k"
    ),
    "self in": simple(
        "SELECT a AS k, 1 AS r FROM {db}.t WHERE b IN (SELECT b FROM {db}.t WHERE t.a < 30)"
    ),
    "scalar": simple("WITH (SELECT max(a) FROM {db}.t) AS m SELECT a AS k, m AS r FROM {db}.t"),
    "in another table": simple(
        "SELECT a AS k, b AS r FROM {db}.t WHERE a IN (SELECT a FROM {db}.u)", U
    ),
    "array join": simple("SELECT a AS k, x AS r FROM {db}.t ARRAY JOIN [b, b + 1, t.a] AS x"),
    "union": simple("SELECT k, r FROM (SELECT a AS k, b AS r FROM {db}.t UNION ALL "
                    "SELECT t.b AS k, 7 AS r FROM {db}.t)"),
    "window": simple(
        "SELECT a AS k, sum(b) OVER w AS r FROM {db}.t WINDOW w AS (PARTITION BY b ORDER BY a)"
    ),
    "now": simple("SELECT a AS k, 1 AS r FROM {db}.t WHERE now() > toDateTime(a)"),
    "settings": simple("SELECT a AS k, b AS r FROM {db}.t SETTINGS max_threads = 1"),
    "two views, one table": Case(
        [T, OUT, "CREATE MATERIALIZED VIEW {db}.v TO {db}.o AS SELECT a AS k, 1 AS r FROM {db}.t",
         "CREATE MATERIALIZED VIEW {db}.w TO {db}.o AS SELECT a AS k, 2 AS r FROM {db}.t"],
        pairs=1,
    ),
    "inner table": Case(
        [T, "CREATE MATERIALIZED VIEW {db}.v ENGINE = SummingMergeTree ORDER BY b AS "
         "SELECT b, count() AS c FROM {db}.t GROUP BY b"],
        ["v"], same=["SELECT b, sum(c) FROM {db}.v GROUP BY b ORDER BY b"],
    ),
    "another database": Case(
        ["CREATE DATABASE {db}_2", T, OUT.replace("{db}", "{db}_2"),
         "CREATE MATERIALIZED VIEW {db}_2.v TO {db}_2.o AS SELECT t.a AS k, b AS r FROM {db}.t"],
        tables=[], same=["SELECT * FROM {db}_2.o ORDER BY ALL"],
    ),
    "cascade": Case(
        [T, OUT, "CREATE MATERIALIZED VIEW {db}.v TO {db}.o AS SELECT b AS k, a AS r FROM {db}.t",
         "CREATE TABLE {db}.p (x UInt64, n UInt64) ENGINE = SummingMergeTree ORDER BY x",
         "CREATE MATERIALIZED VIEW {db}.w TO {db}.p AS SELECT o.k AS x, count() AS n FROM {db}.o "
         "GROUP BY x",
         "CREATE TABLE {db}.q (x UInt64, n UInt64) ENGINE = MergeTree ORDER BY x",
         "CREATE MATERIALIZED VIEW {db}.x TO {db}.q AS SELECT x, n FROM {db}.p WHERE n > 1"],
        ["o", "q"], same=["SELECT x, sum(n) FROM {db}.p GROUP BY x ORDER BY x"], pairs=3,
    ),
    "diamond": Case(
        [T, OUT, OUT.replace(".o", ".p"), OUT.replace(".o", ".q"),
         "CREATE MATERIALIZED VIEW {db}.v1 TO {db}.o AS SELECT a AS k, 1 AS r FROM {db}.t",
         "CREATE MATERIALIZED VIEW {db}.v2 TO {db}.p AS SELECT k, r FROM {db}.o",
         "CREATE MATERIALIZED VIEW {db}.v3 TO {db}.p AS SELECT a AS k, 2 AS r FROM {db}.t",
         "CREATE MATERIALIZED VIEW {db}.v4 TO {db}.q AS SELECT k, r FROM {db}.p"],
        ["o", "p", "q"], pairs=3,
    ),
    "a view on a view": Case(  # fired by inserts into the first view only, not by ours
        [T, OUT, "CREATE MATERIALIZED VIEW {db}.v ENGINE = MergeTree ORDER BY a AS "
         "SELECT a FROM {db}.t",
         "CREATE MATERIALIZED VIEW {db}.w TO {db}.o AS SELECT a AS k FROM {db}.v"],
        ["v", "o"], pairs=1,
    ),
    "states": Case(
        [T, "CREATE TABLE {db}.o (k UInt64, s AggregateFunction(sum, UInt64), u "
         "AggregateFunction(uniqExact, UInt64), q AggregateFunction(quantiles(0.5, 0.9), UInt64)) "
         "ENGINE = AggregatingMergeTree ORDER BY k",
         "CREATE MATERIALIZED VIEW {db}.v TO {db}.o AS SELECT b % 7 AS k, sumState(a) AS s, "
         "uniqExactState(b) AS u, quantilesState(0.5, 0.9)(a) AS q FROM {db}.t GROUP BY k"],
        [], same=["SELECT k, sumMerge(s), uniqExactMerge(u), quantilesMerge(0.5, 0.9)(q) "
                  "FROM {db}.o GROUP BY k ORDER BY k", "SELECT k FROM {db}.o FINAL ORDER BY k"],
    ),
    "replacing, partitions, projection, ttl": Case(
        [T, "CREATE TABLE {db}.o (k UInt64, r UInt64, d DateTime DEFAULT '2100-01-01 00:00:00', "
         "INDEX i r TYPE minmax, PROJECTION p (SELECT r, count() GROUP BY r)) ENGINE = "
         "ReplacingMergeTree(r) PARTITION BY k % 3 ORDER BY k TTL d + INTERVAL 1 DAY "
         "SETTINGS deduplicate_merge_projection_mode = 'drop'",
         "CREATE MATERIALIZED VIEW {db}.v TO {db}.o AS SELECT b AS k, a AS r FROM {db}.t"],
        [], same=["SELECT * FROM {db}.o FINAL ORDER BY ALL"],
    ),
    "null with two views": Case(
        [T.replace("MergeTree ORDER BY a", "Null"), OUT, OUT.replace(".o", ".p"),
         "CREATE MATERIALIZED VIEW {db}.v TO {db}.o AS SELECT a AS k, b AS r FROM {db}.t",
         "CREATE MATERIALIZED VIEW {db}.w TO {db}.p AS SELECT b AS k, sum(a) AS r FROM {db}.t "
         "GROUP BY k"],
        ["o", "p"], pairs=2,
    ),
    "null in between": Case(
        [T, "CREATE TABLE {db}.n (k UInt64, r UInt64) ENGINE = Null", OUT,
         "CREATE MATERIALIZED VIEW {db}.v TO {db}.n AS SELECT a AS k, b AS r FROM {db}.t",
         "CREATE MATERIALIZED VIEW {db}.w TO {db}.o AS SELECT k, r FROM {db}.n"],
        pairs=1,
    ),
    "kinds of columns": Case(
        ["CREATE TABLE {db}.t (a UInt64, b UInt64, e UInt64 EPHEMERAL 5, m UInt64 MATERIALIZED "
         "a * 2, f UInt64 DEFAULT e + 1, l UInt64 ALIAS a + 1) ENGINE = MergeTree ORDER BY a",
         "CREATE TABLE {db}.o (k UInt64, f UInt64, m UInt64, l UInt64, z UInt64 DEFAULT k + 9, "
         "y UInt64 MATERIALIZED k + 1, e UInt64 EPHEMERAL 3, x UInt64 DEFAULT e) "
         "ENGINE = MergeTree ORDER BY k",
         "CREATE MATERIALIZED VIEW {db}.v TO {db}.o AS SELECT a AS k, f, t.m AS m, l FROM {db}.t"],
        rows="(b, e, a) SELECT number, number + 7, 3 FROM numbers(50)",
        same=["SELECT *, y FROM {db}.o ORDER BY ALL", "SELECT *, m FROM {db}.t ORDER BY ALL"],
    ),
    "unusual names": Case(
        ["CREATE TABLE {db}.`t ``x'\".y` (`a b` UInt64, `from` UInt64, `FROM` UInt64, "
         "`select` String) ENGINE = MergeTree ORDER BY `a b`",
         "CREATE TABLE {db}.`o \\\\ ö` (`k 'k` UInt64, `from` UInt64, s String) "
         "ENGINE = MergeTree ORDER BY tuple()",
         "CREATE MATERIALIZED VIEW {db}.`v TO x` TO {db}.`o \\\\ ö` AS SELECT `a b` AS `k 'k`, "
         "{db}.`t ``x'\".y`.`from` AS `from`, concat('FROM d.t ''', `t ``x'\".y`.`select`, "
         "'\\\\') AS s FROM {db}.`t ``x'\".y` WHERE `from` != 3"],
        tables=["`o \\\\ ö`"], rows="SELECT number, number, 1, 'x' FROM numbers(9)",
    ),
}  # fmt: skip


def asking(engine: Engine) -> Ask:
    def own(text: str) -> list[list[Any]]:
        return engine.ask(text)

    return own


class Pairing:
    """The same tables and views twice: one for a direct INSERT, one for a staged load."""

    def __init__(
        self, engine: Engine, case: Case, settings: Mapping[str, int] = MappingProxyType({}),
        *, fed: bool = False,
    ) -> None:  # fmt: skip
        self.engine = engine
        self.settings = settings
        self.fed = fed
        self.before: dict[str, str] = {}
        self.case = case
        number = f"{os.getpid()}_{next(_numbers)}"
        self.direct, self.staged = f"views d{number}", f"views s{number}"
        self.table = "t `x'\".y" if "t ``x" in case.made[0] else "t"
        for database in (self.direct, self.staged):
            self.run(f"CREATE DATABASE {{db}} ENGINE = {case.home}", database)
            for statement in case.made:
                self.run(statement, database)

    def run(self, statement: str, database: str) -> None:
        run(self.engine, self.of(statement, database))

    def of(self, statement: str, database: str) -> str:
        return statement.replace("{db}_2", f"`{database} 2`").replace("{db}", f"`{database}`")

    def insert(self, database: str, table: str, views: Views | None = None, rows: str = "") -> None:
        # One thread and small blocks: several blocks, and the same ones both times.
        run(
            self.engine,
            f"INSERT INTO {qualified(database, table)} {rows or self.case.rows}",
            settings={
                "max_threads": 1, "max_insert_threads": 1, "max_block_size": 32,
                "min_insert_block_size_rows": 32, "min_insert_block_size_bytes": 0,
                "optimize_on_insert": 0, **self.settings, **(views.settings if views else {}),
            },
        )  # fmt: skip

    def load(self, prefix: str) -> Views:
        """Stage, insert and publish as a load does it."""
        own = facts(asking(self.engine), self.staged, self.table)
        assert own is not None
        views = discover(asking(self.engine), self.staged, self.table)
        for statement in StagingTables(own, views, fed=self.fed).stage(prefix):
            run(self.engine, *statement.parts)
        self.insert(self.staged, prefix, views)
        if self.fed:
            staged = qualified(self.staged, prefix)
            definition = table_definition.parse(own.create_query)
            assert definition is not None
            used = table_definition.stored_columns(definition, views.names_in_selects())
            listed = ", ".join(map(sql.name, used))
            self.settings = {**self.settings, "insert_allow_materialized_columns": 1}
            self.insert(
                self.staged, fed_name(prefix), views, f"({listed}) SELECT {listed} FROM {staged}"
            )
        for table in self.case.tables:
            assert self.count(table) == self.before[table], "visible before it is published"
        pairs = [*views.pairs(prefix)]
        if own.publish_kind == "attach":
            pairs.append(StagingPair(self.staged, self.table, prefix))
        for pair in pairs:
            target, twin = (qualified(pair.database, n) for n in (pair.table, pair.staging))
            run(self.engine, f"ALTER TABLE {target} ATTACH PARTITION ALL FROM {twin}")
        for statement in discard(asking(self.engine), prefix):
            run(self.engine, *statement.parts)
        return views

    def count(self, table: str) -> str:
        return text(self.engine, f"SELECT count() FROM `{self.staged}`.{table}")

    def check(self) -> Views:
        for _ in range(2):
            self.insert(self.direct, self.table)
        found = Views("", "")
        for number in range(2):
            self.before = {table: self.count(table) for table in self.case.tables}
            found = self.load(f"{PREFIX}_{number}")
        own = qualified("{db}", self.table).replace("`{db}`", "{db}")
        default = [f"SELECT * FROM {{db}}.{table} ORDER BY ALL" for table in self.case.tables]
        for query in (*self.case.same, *default, f"SELECT * FROM {own} ORDER BY ALL"):
            expected = text(self.engine, self.of(query, self.direct))
            assert text(self.engine, self.of(query, self.staged)) == expected, query
        return found

    def close(self) -> None:
        for database in (self.direct, self.staged):
            for name in (database, f"{database} 2"):
                run(self.engine, f"DROP DATABASE IF EXISTS `{name}` SYNC")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.sampled(8)
def test_like_a_direct_insert(engine: Engine, case: Case) -> None:
    try:
        pairing = Pairing(engine, case)
    except RowfallError as error:
        if "UNION is not supported" in error.message:
            pytest.skip("this version has no such views")
        raise
    views = pairing.check()
    assert views
    if case.pairs is not None:
        assert len(views.pairs(PREFIX)) == case.pairs
    pairing.close()


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"null with two views"}))
@pytest.mark.parametrize("engine", ["embedded"], indirect=True)
@pytest.mark.sampled(2)
def test_fed_out_of_staging(engine: Engine, name: str) -> None:
    """As above, where rows come into staging as parts, which fire no views."""
    pairing = Pairing(engine, CASES[name], fed=True)
    assert pairing.check()
    pairing.close()


OLD = ("alias", "qualified", "subquery", "cte", "join", "array join", "cascade", "states", "scalar")


@pytest.mark.sampled
@pytest.mark.parametrize("name", OLD)
def test_the_old_analyzer(server: Server, name: str) -> None:
    """Profiles may switch it on up to 26.8; there one mention of the table may be replaced."""
    pairing = Pairing(server, CASES[name], {"allow_experimental_analyzer": 0})
    if name == "scalar":  # a second mention: the whole table
        with pytest.raises(TargetError, match="twice, and the new analyzer is switched off"):
            discover(without_analyzer(server), pairing.staged, "t")
    else:
        assert discover(without_analyzer(server), pairing.staged, "t")
        pairing.check()
    pairing.close()


def without_analyzer(engine: Engine) -> Ask:
    def own(text: str) -> list[list[Any]]:
        off = "" if "SETTINGS allow_experimental_analyzer" in text else OFF
        return engine.ask(text + off)

    return own


OFF = " SETTINGS allow_experimental_analyzer = 0"


# --- what is found -----------------------------------------------------------------------------


@pytest.fixture
def database(engine: Engine) -> Iterator[str]:
    name = f"views_{os.getpid()}_{next(_numbers)}"
    run(engine, f"CREATE DATABASE {name}")
    yield name
    run(engine, f"DROP DATABASE {name} SYNC")


def make(engine: Engine, database: str, *statements: str) -> None:
    for statement in statements:
        run(engine, statement.replace("{db}", database))


def test_no_views_cost_one_query(engine: Engine, database: str) -> None:
    make(engine, database, T)
    asked = []

    def counting(text: str) -> list[list[Any]]:
        asked.append(text)
        return engine.ask(text)

    views = discover(counting, database, "t")
    assert not views
    assert len(asked) == 1
    assert views == Views(database, "t")
    assert (views.names, views.pairs("p"), views.create("p", "p")) == ((), (), ())
    assert views.settings == {}
    assert not discover(asking(engine), database, "no such table")


def test_what_a_plan_shows(engine: Engine, database: str) -> None:
    make(engine, database, *CASES["cascade"].made)
    views = discover(asking(engine), database, "t")
    assert views == discover(asking(engine), database, "t")
    assert views.names == (f"{database}.v", f"{database}.w", f"{database}.x")
    assert views.pairs("p") == (
        StagingPair(database, "o", "p_t0"), StagingPair(database, "p", "p_t1"),
        StagingPair(database, "q", "p_t2"),
    )  # fmt: skip
    assert views.collapses
    assert [str(s).split()[1] for s in views.create("p", "p")] == ["TABLE"] * 3 + [
        "MATERIALIZED"
    ] * 3
    assert views.create_tables("p") == views.create("p", "p")[:3]
    make(engine, database, "DROP VIEW {db}.x SYNC")
    assert views != discover(asking(engine), database, "t")


def test_refreshable_views_do_not_fire(engine: Engine, database: str) -> None:
    make(engine, database, T, OUT)
    run(
        engine,
        f"CREATE MATERIALIZED VIEW {database}.v REFRESH EVERY 1 YEAR TO {database}.o AS "
        f"SELECT a AS k, b AS r FROM {database}.t",
        settings={"allow_experimental_refreshable_materialized_view": 1},
    )
    assert not discover(asking(engine), database, "t")


def test_a_failing_view_fails_the_insert(engine: Engine, database: str) -> None:
    """Even where the user's profile says that such errors do not matter."""
    make(
        engine, database, T, OUT,
        V + "a AS k, throwIf(a = 50) AS r FROM {db}.t",
    )  # fmt: skip
    own = facts(asking(engine), database, "t")
    assert own is not None
    views = discover(asking(engine), database, "t")
    for statement in (*clone(own, PREFIX), *views.create(PREFIX, PREFIX)):
        run(engine, *statement.parts)
    with pytest.raises(RowfallError, match="while pushing to view"):
        run(
            engine,
            f"INSERT INTO {database}.{PREFIX} SELECT number, 1 FROM numbers(100)",
            settings=dict(views.settings),
        )


# --- what is refused ---------------------------------------------------------------------------

REFUSED = {
    "memory": (
        [T, OUT.replace("MergeTree ORDER BY k", "Memory"), V + "a AS k FROM {db}.t"],
        "Memory tables cannot be staged",
    ),
    "buffer": (
        [T, OUT.replace("MergeTree ORDER BY k", "Buffer('', '', 1, 1, 1, 1, 1, 1, 1)"),
         V + "a AS k FROM {db}.t"],
        "Buffer tables cannot be staged",
    ),
    "later table": (
        [T, OUT, V + "a AS k FROM {db}.t",
         OUT.replace(".o", ".p").replace("MergeTree ORDER BY k", "Log"),
         "CREATE MATERIALIZED VIEW {db}.w TO {db}.p AS SELECT k, r FROM {db}.o"],
        r"\.w: it fills .*\.p, and Log tables",
    ),
    "circle": (
        [T, OUT, V + "a AS k FROM {db}.t",
         "CREATE MATERIALIZED VIEW {db}.w TO {db}.t AS SELECT k AS a FROM {db}.o"],
        r"\.w: it fills the table that is loaded",
    ),
    "lookup in its own table": (
        [T, OUT, V + "a AS k FROM {db}.t WHERE a NOT IN (SELECT k FROM {db}.o)"],
        r"it also reads .*\.o, which the same rows change",
    ),
    "lookup in a set": (
        [T, "CREATE TABLE {db}.o (k UInt64) ENGINE = MergeTree ORDER BY k",
         V + "a AS k FROM {db}.t WHERE a NOT IN ({db}.o)"],
        r"it also reads .*\.o, which the same rows change",
    ),
    "lookup in the loaded table": (
        [T, OUT, OUT.replace(".o", ".p"), V + "a AS k FROM {db}.t",
         "CREATE MATERIALIZED VIEW {db}.w TO {db}.p AS SELECT k, b AS r FROM {db}.o "
         "LEFT JOIN {db}.t ON a = k"],
        r"\.w: it also reads .*\.t, which",
    ),
    "lookup through views": (
        [T, OUT, "CREATE VIEW {db}.x AS SELECT a FROM {db}.t",
         "CREATE VIEW {db}.y AS SELECT a FROM {db}.x",
         V + "a AS k FROM {db}.t WHERE a IN (SELECT a FROM {db}.y)"],
        r"\.v: it also reads .*\.t, which",
    ),
    "lookup through a materialized view": (
        [T, OUT, "CREATE MATERIALIZED VIEW {db}.x TO {db}.o AS SELECT a AS k FROM {db}.t",
         OUT.replace(".o", ".p"),
         "CREATE MATERIALIZED VIEW {db}.v TO {db}.p AS SELECT a AS k FROM {db}.t "
         "WHERE a NOT IN (SELECT k FROM {db}.x)"],
        r"\.v: it also reads .*\.x, which",
    ),
    "table function": (
        [T, OUT, V + "a AS k FROM {db}.t WHERE a NOT IN (SELECT a FROM merge('{db}', '^t$'))"],
        r"by way of merge\(\)",
    ),
    "secret": (
        [T, "CREATE TABLE {db}.o (k String) ENGINE = MergeTree ORDER BY k",
         V + "encrypt('aes-128-ecb', toString(a), 'sixteen letters!') AS k FROM {db}.t"],
        "holds a secret",
    ),
    "several aliases": (
        [T, OUT, V + "x.a AS k, t.b AS r FROM {db}.t AS x INNER JOIN {db}.t AS y ON x.a = y.b"],
        "several aliases",
    ),
    "dropped target": ([T, OUT, V + "a AS k FROM {db}.t", "DROP TABLE {db}.o SYNC"], "is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(engine: Engine, database: str, name: str) -> None:
    made, reason = REFUSED[name]
    make(engine, database, *made)
    with pytest.raises(TargetError, match=reason) as caught:
        discover(asking(engine), database, "t")
    assert f"{database}." in caught.value.message
    assert "--direct" in str(caught.value.hint)
    make(engine, database, "DROP VIEW IF EXISTS {db}.w SYNC", "DROP VIEW IF EXISTS {db}.v SYNC")
    make(engine, database, "DROP VIEW IF EXISTS {db}.x SYNC")


@pytest.mark.parametrize("name", ["LiveView", "WindowView"])
def test_other_kinds_of_views(name: str) -> None:
    def own(text: str) -> list[list[Any]]:
        table = ["d", "t", "", "MergeTree", "", "", 0, "", ["d"], ["v"], "", ""]
        return [["d", "v", "", name, "", "", 0, "", [], [], "", ""] if "'v'" in text else table]

    with pytest.raises(TargetError, match=rf"view d\.v: its engine is {name}"):
        discover(own, "d", "t")


def test_renamed_table(engine: Engine, database: str) -> None:
    """A view goes on naming what it was made for: what is found is what fires, or it is refused."""
    make(
        engine, database, T, OUT, V + "a AS k FROM {db}.t", "RENAME TABLE {db}.t TO {db}.x", T
    )  # fmt: skip
    for table in ("t", "x"):
        make(engine, database, "TRUNCATE TABLE {db}.o", f"INSERT INTO {{db}}.{table} SELECT 1, 1")
        fired = text(engine, f"SELECT count() FROM {database}.o") == "1"
        try:
            assert bool(discover(asking(engine), database, table)) == fired
        except TargetError as error:
            assert "renamed" in error.message  # noqa: PT017 - either is right


# --- rights ------------------------------------------------------------------------------------

# What docs/concepts/views.md asks for, on the database of the table and on those of views.
RIGHTS = "SELECT, INSERT, ALTER DELETE, CREATE TABLE, DROP TABLE"


@pytest.fixture
def guarded(service: Guarded, request: pytest.FixtureRequest) -> Iterator[tuple[Server, str]]:
    """The server as its own user sees it, and a database with a view that only others may read."""
    server = connect(service)
    database = f"views_{os.getpid()}_{next(_numbers)}"
    run(server, f"CREATE DATABASE {database}")
    run(server, f"CREATE DATABASE {database}_dim")
    make(server, database, T, OUT, U.replace("{db}", "{db}_dim"))
    yield server, database
    run(server, f"DROP DATABASE {database} SYNC")
    run(server, f"DROP DATABASE {database}_dim SYNC")
    server.close()


def as_user(service: Guarded, server: Server, *grants: str) -> Server:
    """A user who may do no more than that."""
    user = f"loader_{next(_numbers)}"
    run(server, f"CREATE USER {user} IDENTIFIED WITH plaintext_password BY 'pw'")
    for grant in grants:
        run(server, f"GRANT {grant} TO {user}")
    return connect(service, user=user, password=Secret("pw"))


def test_rights_that_are_enough(service: Guarded, guarded: tuple[Server, str]) -> None:
    server, database = guarded
    make(server, database, V + "a AS k, b AS r FROM {db}.t")
    loader = as_user(service, server, f"{RIGHTS} ON {database}.*")
    own = facts(asking(loader), database, "t")
    assert own is not None
    views = discover(asking(loader), database, "t")
    for statement in (*clone(own, PREFIX), *views.create(PREFIX, PREFIX)):
        run(loader, *statement.parts)
    run(
        loader,
        f"INSERT INTO {database}.{PREFIX} SELECT number, 1 FROM numbers(10)",
        settings=dict(views.settings),
    )
    for pair in (StagingPair(database, "t", PREFIX), *views.pairs(PREFIX)):
        run(
            loader,
            f"ALTER TABLE {database}.{pair.table} "
            f"ATTACH PARTITION ALL FROM {database}.{pair.staging}",
        )
    for statement in discard(asking(loader), PREFIX):
        run(loader, *statement.parts)
    assert text(server, f"SELECT count(), sum(r) FROM {database}.o") == "10\t10"
    loader.close()


def test_a_lookup_that_only_the_definer_may_read(
    service: Guarded, guarded: tuple[Server, str]
) -> None:
    """The staging view would run as the loading user: said before anything is made."""
    server, database = guarded
    make(
        server,
        database,
        f"CREATE MATERIALIZED VIEW {{db}}.v TO {{db}}.o DEFINER = {service.user} SQL SECURITY "
        "DEFINER AS SELECT a AS k, 1 AS r FROM {db}.t WHERE a IN (SELECT a FROM {db}_dim.u)",
    )
    loader = as_user(service, server, f"{RIGHTS} ON {database}.*")
    run(loader, f"INSERT INTO {database}.t SELECT 1, 1")  # would do
    with pytest.raises(TargetError, match=rf"view {database}\.v: .*lacks the grant SELECT"):
        discover(asking(loader), database, "t")
    loader.close()


def test_a_view_that_may_not_be_seen(service: Guarded, guarded: tuple[Server, str]) -> None:
    server, database = guarded
    run(
        server,
        f"CREATE MATERIALIZED VIEW {database}_dim.v TO {database}.o AS "
        f"SELECT a AS k, b AS r FROM {database}.t",
    )
    loader = as_user(service, server, f"{RIGHTS} ON {database}.*")
    with pytest.raises(TargetError, match=rf"the view {database}_dim\.v reads") as caught:
        discover(asking(loader), database, "t")
    assert "GRANT" in str(caught.value.hint)
    loader.close()


# --- replicated tables -------------------------------------------------------------------------


def test_replicated_tables(keeper: Server) -> None:
    """Replicated table and views' tables; equal loads are no repetitions."""

    def replicated(made: str, engine: str = "MergeTree", arguments: str = "") -> str:
        path = f"('/clickhouse/{{database}}/{next(_numbers)}', '{{replica}}'{arguments})"
        return made.replace(engine, f"Replicated{engine}{path}")

    case = Case(
        [
            replicated(T + " PARTITION BY a % 2"), replicated(OUT),
            replicated("CREATE TABLE {db}.p (x UInt64, n UInt64) ENGINE = SummingMergeTree "
                       "ORDER BY x", "SummingMergeTree", ", n"),
            "CREATE MATERIALIZED VIEW {db}.v TO {db}.o AS SELECT a AS k, b AS r FROM {db}.t",
            "CREATE MATERIALIZED VIEW {db}.w TO {db}.p AS SELECT r AS x, count() AS n FROM {db}.o "
            "GROUP BY x",
        ],
        ["o"], same=["SELECT x, sum(n) FROM {db}.p GROUP BY x ORDER BY x"], pairs=2,
    )  # fmt: skip
    pairing = Pairing(keeper, case, {"insert_deduplicate": 0})
    assert len(pairing.check().pairs(PREFIX)) == 2
    pairing.close()


def test_a_replicated_database(keeper: Server) -> None:
    case = Case(
        [
            T.replace("MergeTree", "ReplicatedMergeTree"),
            OUT.replace("MergeTree", "ReplicatedReplacingMergeTree(r)"),
            V + "a AS k, b AS r FROM {db}.t",
            "CREATE MATERIALIZED VIEW {db}.w ENGINE = ReplicatedMergeTree ORDER BY k AS "
            "SELECT k, r FROM {db}.o",
        ],
        ["w"], same=["SELECT * FROM {db}.o FINAL ORDER BY ALL"], pairs=2,
        home=f"Replicated('/clickhouse/views/{{db}}_{next(_numbers)}', 's', 'r')",
    )  # fmt: skip
    pairing = Pairing(keeper, case, {"insert_deduplicate": 0})
    assert len(pairing.check().pairs(PREFIX)) == 2
    pairing.close()


# --- the text of a SELECT ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("SELECT a FROM d.t", "SELECT a FROM S AS `t`"),
        ("SELECT d.t.a, t.a, x.t FROM d.t", "SELECT `t`.a, t.a, x.t FROM S AS `t`"),
        ("SELECT a FROM d.t AS s FINAL", "SELECT a FROM S AS s FINAL"),
        ('SELECT t.a, d.t.* FROM `d`."t" AS `s s`', "SELECT `s s`.a, `s s`.* FROM S AS `s s`"),
        ("SELECT a FROM d.u AS t, d.t AS s WHERE t.a", "SELECT a FROM d.u AS t, S AS s WHERE t.a"),
        ("SELECT a FROM d.t WHERE a IN (d.t)", "SELECT a FROM S AS `t` WHERE a IN (S)"),
        ("SELECT a FROM d.t ARRAY JOIN d.x", "SELECT a FROM S AS `t` ARRAY JOIN d.x"),
        (
            "SELECT 'FROM d.t', `FROM d.t` /* d.t */ FROM d.t",
            "SELECT 'FROM d.t', `FROM d.t` /* d.t */ FROM S AS `t`",
        ),
        ("SELECT from, d.a FROM d.t, d.t2", "SELECT from, d.a FROM S AS `t`, d.t2"),
        (
            "SELECT (SELECT max(a) FROM d.t AS x) FROM d.t AS y",
            "SELECT (SELECT max(a) FROM S AS x) FROM S AS y",
        ),
    ],
)
def test_cut(before: str, after: str) -> None:
    assert "S".join(Select(before, ("d", "v")).cut(("d", "t"))) == after


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        ("SELECT a FROM d.u", "does not name"),
        ("SELECT d.t FROM d.t", "may be the table or a column"),
        ("SELECT a FROM remote('x', d.t)", r"by way of remote\(\)"),
        ("SELECT d.t.a FROM d.t AS x, d.t AS y", "several aliases"),
    ],
)
def test_not_cut(select: str, reason: str) -> None:
    with pytest.raises(TargetError, match=reason):
        Select(select, ("d", "v")).cut(("d", "t"))
