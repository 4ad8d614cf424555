"""What a plan says that readers see, and where ``--atomic`` cannot be had."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rowfall.contracts.facts import (
    ClusterFacts,
    FilledTable,
    LoadFacts,
    TargetFacts,
    ViewFacts,
    WriterFacts,
)
from rowfall.core.errors import TargetError, UsageError
from rowfall.core.listing import Listing
from rowfall.core.masked import Secret
from rowfall.core.model import Column, Constraint, Encoding, Facts, Kind, Plan, Schema, TableLayout
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.destinations.clickhouse.folder import FolderTables
from rowfall.destinations.files import WrittenFiles
from rowfall.plan.planner import make_plan
from rowfall.systems.clickhouse.target import embedded
from rowfall.targets.export import Export

ENGINE = Facts("26.9.2.1", 4, 8 << 30)
SCHEMA = Schema((Column("a", "UInt32"),), layout=TableLayout(order_by="a"))


class Files:
    """A source of one file."""

    replayable = True
    secrets: tuple[Secret, ...] = ()
    remote = False
    fds: tuple[int, ...] = ()
    made = None
    text = "files"

    def listing(self) -> Listing:
        listing = Listing()
        listing.add("/data/0.csv.gz", "1-1", 1)
        return listing

    def relation(self, *_: object) -> SqlText:
        return SqlText.of("file()")


def plan_of(
    *tables: tuple[str, bool], facts: Facts = ENGINE, refused: str | None = None,
    replicas: bool = False, **options: Any,
) -> Plan:  # fmt: skip
    """The plan of a load into tables of these engines, with or without partitions."""
    filled = tuple(FilledTable(f"d.t{n}", *table) for n, table in enumerate(tables))
    views = tuple(f"d.v{n}" for n in range(1, len(tables)))
    source: Any = Files()
    known = LoadFacts(
        source, embedded(Path("/data"), "d", "t"), FolderTables(), source.listing(),
        Encoding("CSV", "gzip", Kind.TEXT), SCHEMA, (WriterFacts(facts, sync_refused=refused),),
        TargetFacts(
            "t0", None, ViewFacts(views), ClusterFacts(replicas=replicas), filled
        ),
    )  # fmt: skip
    return make_plan(known, replace(Options(), **options))


WHOLE = "all rows of a statement in one moment, one statement after the other"
PARTS = "partition by partition, because Keeper commits one after the other"


@pytest.mark.parametrize("engine", ["MergeTree", "ReplacingMergeTree"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_merge_tree_shows_a_statement_in_one_moment(engine: str, partitioned: bool) -> None:
    assert plan_of((engine, partitioned)).to.visibility == WHOLE
    assert plan_of((engine, partitioned), atomic=True).to.visibility == (
        "nothing until the end of the load, then all rows in one moment"
    )


def test_a_replicated_table_shows_partition_after_partition() -> None:
    assert plan_of(("ReplicatedMergeTree", False)).to.visibility == WHOLE
    assert PARTS in plan_of(("ReplicatedMergeTree", True)).to.visibility
    assert "as they fetch" not in plan_of(("ReplicatedMergeTree", True)).to.visibility
    shown = plan_of(("ReplicatedMergeTree", True), replicas=True).to.visibility
    assert shown.endswith("; other replicas show rows as they fetch them")


def test_tables_behind_views_follow() -> None:
    shown = plan_of(("MergeTree", False), ("SummingMergeTree", True)).to.visibility
    assert shown == f"{WHOLE}; the tables behind views follow, each by itself"
    assert PARTS in plan_of(("MergeTree", False), ("ReplicatedMergeTree", True)).to.visibility
    assert plan_of(("Null", False), ("MergeTree", True)).to.visibility == WHOLE


def test_what_is_not_staged_is_seen_at_once() -> None:
    for made in (plan_of(("Log", False)), plan_of(("MergeTree", False), direct=True)):
        assert made.to.visibility.startswith("rows as they are inserted")


def test_replace_exchanges_tables_of_any_kind() -> None:
    made = plan_of(("ReplicatedMergeTree", True), replace=True)
    assert made.to.visibility.startswith("the old rows or the new ones")


def test_exports_show_complete_files(tmp_path: Path) -> None:
    options, source = Options(files=1), Files()
    known: Any = LoadFacts(
        source, Export(str(tmp_path / "x.csv"), tmp_path / "ledger", options), WrittenFiles(),
        source.listing(),  # type: ignore[arg-type]
        Encoding("CSV", "gzip", Kind.TEXT), SCHEMA, (WriterFacts(ENGINE),),
    )  # fmt: skip
    assert make_plan(known, options).to.visibility == "each file as soon as it is complete"


@pytest.mark.parametrize("behind", [False, True])
def test_atomic_is_refused_where_it_cannot_be_had(behind: bool) -> None:
    replicated = ("ReplicatedSummingMergeTree", True)
    tables = [("MergeTree", True), replicated] if behind else [replicated]
    with pytest.raises(UsageError, match=f"in d.t{int(behind)}: .* partitions") as caught:
        plan_of(*tables, atomic=True)
    assert "Leave out --atomic" in (caught.value.hint or "")
    plan_of(("ReplicatedSummingMergeTree", False), atomic=True)


def test_a_promise_names_what_cannot_be_flushed() -> None:
    assert "survives a power cut" in plan_of(("MergeTree", False)).to.promise
    made = plan_of(("MergeTree", False), refused="'loader' may not flush the disks")
    assert "may take what counts as loaded ('loader' may not flush the disks)" in made.to.promise


# --- settings that the user's profile does not allow ---------------------------------------------


def under(**constraints: Constraint) -> Facts:
    return replace(ENGINE, constraints=constraints)


def test_a_reading_that_the_profile_fixes_otherwise_is_refused() -> None:
    fixed = under(date_time_overflow_behavior=Constraint("saturate", fixed=True))
    with pytest.raises(TargetError, match="sets date_time_overflow_behavior = saturate") as caught:
        plan_of(("MergeTree", False), facts=fixed)
    assert "SETTINGS date_time_overflow_behavior = 'throw'" in (caught.value.hint or "")
    plan_of(("MergeTree", False), facts=under(
        date_time_overflow_behavior=Constraint("throw", fixed=True)
    ))  # fmt: skip


def test_settings_for_speed_keep_to_the_limits() -> None:
    made = plan_of(("MergeTree", False), facts=under(
        max_threads=Constraint("2", most="2"),
        max_insert_threads=Constraint("1", fixed=True),
        max_partitions_per_insert_block=Constraint("100", least="1"),
        insert_deduplicate=Constraint("1", fixed=True),
    ))  # fmt: skip
    sent = {s.name: s.value for s in made.work.settings}
    assert sent["max_threads"] == 2
    assert not sent.keys() & {
        "max_insert_threads", "max_partitions_per_insert_block", "insert_deduplicate"
    }  # fmt: skip


def test_tables_that_collapse_rows_need_them_counted_first() -> None:
    fixed = under(optimize_on_insert=Constraint("1", fixed=True))
    plan_of(("MergeTree", False), facts=fixed)
    with pytest.raises(TargetError, match="optimize_on_insert = 1"):
        plan_of(("ReplacingMergeTree", False), facts=fixed)


@pytest.mark.parametrize(
    ("constraint", "value", "allowed"),
    [
        (Constraint("0"), 5, True),
        (Constraint("0", fixed=True), 5, False),
        (Constraint("1", fixed=True), True, True),
        (Constraint("true", fixed=True), 1, True),
        (Constraint("basic", fixed=True), "basic", True),
        (Constraint("basic", fixed=True), "best_effort", False),
        (Constraint("3", most="4"), 4, True),
        (Constraint("3", most="4"), 5, False),
        (Constraint("3", least="1"), 0, False),
        (Constraint("0", least="1"), 0, True),  # as it is: the server does not look at it
        (Constraint("auto(2)", most="4"), 4, True),
    ],
)
def test_what_a_constraint_allows(constraint: Constraint, value: str | int, allowed: bool) -> None:
    assert constraint.allows(value) == allowed
