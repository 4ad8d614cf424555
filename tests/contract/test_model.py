"""The simulator's model of a server beside real engines: the same statements, the same answers.

Publisher, staging and journal run against both at once (:class:`Both`). Whatever they ask is
answered by the real engine, and the model's answer has to be equal.
"""

from __future__ import annotations

import itertools
import os
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from contract.engines import new_id
from gate import ALL
from rowfall.core.errors import RowfallError
from rowfall.core.listing import Split
from rowfall.core.model import Outcome, StagingPair, Statement
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import table_uuid
from rowfall.ledger import Ledger
from rowfall.ledger.journal import TABLE, Journal
from rowfall.publish.attach import Publisher
from rowfall.systems.clickhouse import staging
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.server import Server
from simulator.server import Server as Model
from simulator.server import Table

pytestmark = pytest.mark.xdist_group("engine")

ROUNDS, STEPS = (40, 40) if ALL else (3, 25)
_numbers = itertools.count()
# Of these the model knows no true figure.
_UNKNOWN = re.compile(
    r"sum\(bytes_on_disk\)|sumIf\(bytes_on_disk, .*? rows > 0\)|ifNull\(total_bytes, 0\)"
    r"|, groupArrayIf\(\(name, path\), .*? rows > 0\)|, dateDiff\(.*?/ 1000 ?"
)


# Values of rows, types of columns, and what depends on files and clocks are other ones here.
_UNCOMPARED = ("cityHash64(", "is_in_sorting_key", ", path FROM", "modification_time >=")


class Both:
    """A real engine and the model: statements go to both, answers are compared.

    Attributes:
        uuids: of parts, those of the model by those of the real engine.
    """

    def __init__(self, engine: Embedded | Server, database: str) -> None:
        self.engine, self.model, self.database = engine, Model(), database
        self.uuids: dict[str, str] = {}
        self.shared = self.engine.shared
        self.facts = engine.facts

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def run(self, statement: Statement, **other: Any) -> Outcome:
        text = statement.sql.reveal()
        found, wrong = Outcome(), 0
        try:
            found = self.engine.run(statement, **other)
        except RowfallError as error:
            wrong = error.code
        self._model(text, wrong, statement.query_id)
        if wrong:
            raise RowfallError("both refuse it", code=wrong)
        return found

    def _model(self, text: str, wrong: int, query_id: str = "") -> None:
        refused = 0
        try:
            self.model.carry_out(self._translated(text), query_id)
        except RowfallError as error:
            refused = error.code
        assert refused == wrong, text
        self._learn()

    def insert(self, table: str, rows: list[tuple[str, str, int]]) -> None:
        """Insert rows; the model knows them by themselves."""
        values = ", ".join(f"({p}, {k})" for _, p, k in rows)
        at = f"`{self.database}`.`{table}`"
        text = f"INSERT INTO {at} SELECT toUInt8(c1), toUInt64(c2) FROM values({values})"
        self.engine.run(Statement(SqlText.of(text)))
        split = f"s{next(_numbers)}"
        self.model.contents[split] = rows
        self._model(f"INSERT INTO {at} ROWS {split}", 0)

    def ask(self, sql: str | SqlText, settings: Any = None, *, lane: int = 0) -> list[list[Any]]:
        text = sql if isinstance(sql, str) else sql.reveal()
        real = self.engine.ask(text, settings, lane=lane)
        if any(word in text for word in _UNCOMPARED):
            return real
        known = _UNKNOWN.sub(lambda m: "" if m[0].startswith(",") else "0", text)
        found = self.model.carry_out(self._translated(known))
        mine = real if known == text else self.engine.ask(known, settings, lane=lane)
        mine = self._known(mine)
        assert _plain(found) == _plain(mine), f"{text}\nmodel: {found}\nreal:  {mine}"
        return real

    def _known(self, value: Any) -> Any:
        """Name the parts of the real engine as the model does, also in arrays."""
        if isinstance(value, list):
            return [self._known(one) for one in value]
        return self.uuids.get(value, value) if isinstance(value, str) else value

    def _translated(self, text: str) -> str:
        for real, model in self.uuids.items():
            text = text.replace(real, model)
        return text

    def _learn(self) -> None:
        """Match the parts of both sides by their names."""
        text = (
            "SELECT table, name, toString(uuid) FROM system.parts WHERE database = "
            f"{quote(self.database)} AND table != '{TABLE}' AND active AND rows > 0"
        )
        mine = {(t, n): u for t, n, u in self.model.carry_out(text)}
        real = {(t, n): u for t, n, u in self.engine.ask(text)}
        assert set(mine) == set(real), f"model: {sorted(mine)}\nreal:  {sorted(real)}"
        self.uuids |= {real[at]: mine[at] for at in real}

    def create(self, table: str) -> None:
        """Make a table that merges nothing by itself."""
        at = f"`{self.database}`.`{table}`"
        full = ("MergeTree PARTITION BY p ORDER BY k SETTINGS old_parts_lifetime = 1000, "
                "max_bytes_to_merge_at_max_space_in_pool = 1")  # fmt: skip
        text = f"CREATE TABLE {at} (p UInt8, k UInt64) ENGINE = {full}"
        self.engine.run(Statement(SqlText.of(text)))
        self.model.add(Table(self.database, table, self.model.uuid(), "MergeTree", full))
        uuid = table_uuid(self.engine, self.database, table)
        self.uuids[uuid] = self.model.tables[self.database, table].uuid


def _plain(rows: list[list[Any]]) -> list[str]:
    """Return rows in an order of their own; true and 1 are the same."""
    return sorted(repr([int(x) if isinstance(x, bool) else x for x in row]) for row in rows)


@pytest.fixture
def both(engine: Embedded | Server) -> Iterator[Both]:
    database = f"model_{os.getpid()}_{next(_numbers)}"
    engine.run(Statement(SqlText.of(f"CREATE DATABASE {database} ENGINE = Atomic")))
    yield Both(engine, database)
    engine.run(Statement(SqlText.of(f"DROP DATABASE {database} SYNC")))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "rowfall.ledger")
    yield ledger
    ledger.close()


class Actions:
    """What is done to one table and its staging tables, at random."""

    def __init__(self, both: Both, ledger: Ledger, seed: int) -> None:
        self.both, self.draw = both, random.Random(seed)
        self.publisher = Publisher(both, ledger)  # type: ignore[arg-type]
        self.staged: list[tuple[str, StagingPair, Any]] = []
        self.names = itertools.count()
        self.dropped = False
        both.create("t")

    @property
    def at(self) -> str:
        return f"`{self.both.database}`.`t`"

    def rows(self) -> list[tuple[str, str, int]]:
        some = self.draw.sample(range(1000), self.draw.randint(1, 5))
        return [("r", self.draw.choice("12"), k) for k in some]

    def run(self, text: str) -> None:
        self.both.run(Statement(SqlText.of(text)))

    def parts(self) -> list[list[Any]]:
        return self.both.ask(
            "SELECT name, partition_id, rows, toString(uuid), level, min_block_number, "
            "max_block_number, data_version FROM system.parts WHERE "
            f"database = {quote(self.both.database)} AND table = 't' AND active AND rows > 0"
        )

    def stage(self) -> None:
        name = f"_rowfall_{new_id().replace('-', '_')}"
        facts = staging.facts(self.both.engine.ask, self.both.database, "t")
        assert facts is not None
        for statement in staging.clone(facts, name):
            self.run(statement.reveal())
        for _ in range(self.draw.randint(1, 2)):
            self.both.insert(name, self.rows())
        if self.draw.random() < 0.3:
            self.run(f"OPTIMIZE TABLE `{self.both.database}`.`{name}` FINAL")
        pair = StagingPair(self.both.database, "t", name)
        self.staged.append((name, pair, self.publisher.staged([pair], 1.0).moves))

    def publish(self) -> None:
        if self.staged:
            name, _, moves = self.draw.choice(self.staged)
            self.publisher.publish(name, moves)

    def settle(self) -> None:
        if self.staged:
            name, _, moves = self.draw.choice(self.staged)
            with suppress(RowfallError):  # it does not know, and has asked
                self.publisher.settle(name, moves)

    def insert(self) -> None:
        self.both.insert("t", self.rows())

    def merge(self) -> None:
        # Until the empty part that covers a dropped one is cleared away, nothing is merged there.
        if not self.dropped and len({p[1] for p in self.parts()}) < len(self.parts()):
            self.run(f"OPTIMIZE TABLE {self.at} FINAL")

    def detach_and_attach(self) -> None:
        if parts := self.parts():
            partition = self.draw.choice(parts)[1]
            if [p[1] for p in parts].count(partition) > 1:
                return  # they come back in the order of the directory
            self.dropped = True
            self.run(f"ALTER TABLE {self.at} DETACH PARTITION ID '{partition}'")
            self.parts()
            self.run(f"ALTER TABLE {self.at} ATTACH PARTITION ID '{partition}'")

    def drop_part(self) -> None:
        if parts := self.parts():
            self.dropped = True
            self.run(f"ALTER TABLE {self.at} DROP PART '{self.draw.choice(parts)[0]}'")

    def rename(self) -> None:
        if self.staged:
            name, pair, _ = self.staged.pop(self.draw.randrange(len(self.staged)))
            database, new = pair.database, f"{name}_x{next(self.names)}"
            self.run(f"RENAME TABLE `{database}`.`{name}` TO `{database}`.`{new}`")
            self.run(f"DROP TABLE IF EXISTS `{database}`.`{new}` SYNC")

    def truncate(self) -> None:
        if self.draw.random() < 0.3:
            self.dropped = True
            self.run(f"TRUNCATE TABLE {self.at}")

    def ask_about_nothing(self) -> None:
        with pytest.raises(RowfallError):
            self.run(f"ALTER TABLE {self.at} ATTACH PARTITION ALL FROM "
                     f"`{self.both.database}`.`_rowfall_gone`")  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_the_model_answers_like_the_engine(both: Both, ledger: Ledger, seed: int) -> None:
    do = Actions(both, ledger, seed)
    acts = [
        do.stage, do.stage, do.publish, do.publish, do.settle, do.insert, do.merge,
        do.detach_and_attach, do.drop_part, do.rename, do.truncate, do.ask_about_nothing,
    ]  # fmt: skip
    for _ in range(STEPS):
        do.draw.choice(acts)()
        do.parts()


def test_the_journal_of_the_model_is_the_real_one(both: Both) -> None:
    into = "11111111-2222-3333-4444-555555555555"
    one, other = (Journal(both, both.database, into, load) for load in "ab")  # type: ignore[arg-type]
    one.create()
    splits = [Split(f"{n:032x}", f"/{n}.csv", "1-1", 10) for n in range(4)]
    assert one.there()
    assert one.lease("a_1", splits[:2]).whole
    assert other.lease("b_1", splits[1:3]).busy
    other.release("b_1")
    one.counting("a_1")
    assert one.commit("a_1", 10, [])
    other.expire("a_1")
    assert one.ownership("a_1").name == "TAKEN"
    one.loaded("a_1")
    assert one.loaded_ids() == {s.id for s in splits[:2]}
    other.forget("a")
    assert one.forgotten_ids() == {s.id for s in splits[:2]}
    assert {e.attempt for e in one.entries()} == {"a_1", "b_1"}


def test_tables_that_are_exchanged_and_renamed_keep_their_parts(both: Both, ledger: Ledger) -> None:
    """What --replace and --atomic do: gather in a shadow, exchange it or attach what it holds."""
    do = Actions(both, ledger, 1)
    database = both.database
    shadow, staged = f"`{database}`.`_rowfall_a_whole`", f"`{database}`.`_rowfall_a_1`"
    facts = staging.facts(both.engine.ask, database, "t")
    assert facts is not None
    both.insert("t", [("old", "1", 1), ("old", "2", 2)])
    for name in ("_rowfall_a_whole", "_rowfall_a_1"):
        for statement in staging.clone(facts, name):
            do.run(statement.reveal())
        uuid = table_uuid(both.engine, database, name)
        both.uuids[uuid] = both.model.tables[database, name].uuid
    both.insert("_rowfall_a_1", [("new", "1", 3), ("new", "2", 4)])

    def names() -> None:
        both.ask(f"SELECT name, toString(uuid) FROM system.tables WHERE database = '{database}'")
        both.ask(
            "SELECT table, name, toString(uuid), rows, level, max_block_number FROM system.parts "
            f"WHERE database = '{database}' AND active AND rows > 0"
        )

    for text in (
        f"ALTER TABLE {shadow} ATTACH PARTITION ALL FROM {staged}",
        f"EXCHANGE TABLES {shadow} AND {do.at}",
        f"RENAME TABLE {shadow} TO `{database}`.`_rowfall_a_whole_x1`",
        f"ALTER TABLE {do.at} ATTACH PARTITION ALL FROM `{database}`.`_rowfall_a_whole_x1`",
        f"DROP TABLE IF EXISTS `{database}`.`_rowfall_a_whole_x1` SYNC",
        f"RENAME TABLE {staged} TO {shadow}",
        f"EXCHANGE TABLES {shadow} AND {do.at}",
        f"EXCHANGE TABLES {shadow} AND {do.at}",
    ):
        do.run(text)
        names()
    with pytest.raises(RowfallError):  # the name is taken
        do.run(f"RENAME TABLE {shadow} TO {do.at}")
    with pytest.raises(RowfallError):  # the name is not there any more
        do.run(f"EXCHANGE TABLES {staged} AND {do.at}")
    assert both.engine.ask(f"SELECT count() FROM {do.at}") == [[4]]
