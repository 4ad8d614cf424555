"""The planner: groups cover every split once, settings fit the machine, the forecast warns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowfall.contracts.facts import LoadFacts, WriterFacts
from rowfall.core.errors import UsageError
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import (
    ENGINE,
    HERE,
    Choice,
    Column,
    Encoding,
    Facts,
    Kind,
    Plan,
    Schema,
    TableLayout,
)
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.destinations import open_destination
from rowfall.destinations.clickhouse.folder import FolderTables
from rowfall.plan.planner import make_plan
from rowfall.plan.settings import LoadShape, block, chosen_settings, compute_settings, lower
from rowfall.plan.transport import count_streams
from rowfall.schema.types.strict_reading import strict_column
from rowfall.systems.clickhouse.target import embedded
from rowfall.targets.export import Export

CSV_GZ = Encoding("CSV", "gzip", Kind.TEXT)
SCHEMA = Schema((Column("a", "UInt32"), Column("b", "String")), layout=TableLayout(order_by="a"))
FACTS = Facts("26.9.2.1", 4, 8 << 30)


class Files:
    """A source of the given sizes; text and facts only, like every source."""

    replayable = True
    secrets: tuple[Secret, ...] = ()
    remote = False
    fds: tuple[int, ...] = ()
    made = None
    text = "files"

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes

    def listing(self) -> Listing:
        listing = Listing()
        for number, size in enumerate(self.sizes):
            listing.add(f"/data/{number:06}.csv.gz", f"{size}-1", size)
        return listing

    def encoding(self, listing: Listing) -> Encoding | None:
        return CSV_GZ

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        return list(listing.splits("", range(min(most, len(listing)))))

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        return SqlText.of("file(" + ",".join(s.uri for s in splits) + ")")

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        return []


def plan_of(
    sizes: Sequence[int],
    options: Options | None = None,
    *,
    facts: Facts = FACTS,
    schema: Schema = SCHEMA,
    loaded: frozenset[int] = frozenset(),
    export: Path | None = None,
    program: str | None = None,
) -> Plan:
    options = options or Options()
    source = Files(sizes)
    target = (
        Export(str(export / "part_{n}.csv"), export / "ledger", options)
        if export
        else embedded(Path("/data"), "default", "t")
    )
    known = LoadFacts(
        source,
        target,
        open_destination(target),
        source.listing(),
        CSV_GZ,
        schema,
        (WriterFacts(facts),),
        loaded=loaded,
        program=program,
    )
    return make_plan(known, options)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 5_000_000_000), min_size=1, max_size=300),
    attempt=st.sampled_from([None, "1", "10MB", "3GB"]),
    loaded=st.sets(st.integers(0, 299)),
)
def test_groups_hold_every_split_that_is_not_loaded_exactly_once(
    sizes: list[int], attempt: str | None, loaded: set[int]
) -> None:
    done = frozenset(i for i in loaded if i < len(sizes))
    made = plan_of(sizes, Options(attempt_bytes=attempt), loaded=done)
    planned = [i for group in made.work.groups for i in group.indexes]
    assert sorted(planned) == [i for i in range(len(sizes)) if i not in done]
    assert all(group.indexes for group in made.work.groups)
    for group in made.work.groups:
        assert group.size == sum(sizes[i] for i in group.indexes)


def test_one_attempt_is_about_twenty_seconds_of_work() -> None:
    made = plan_of([100_000_000] * 100)
    assert 4 <= len(made.work.groups) <= 6
    weights = [g.size or 0 for g in made.work.groups]
    assert max(weights) <= 1.2 * min(weights)


def test_a_small_load_is_one_attempt() -> None:
    assert len(plan_of([1000] * 50).work.groups) == 1


def test_largest_files_of_an_attempt_come_first() -> None:
    (group,) = plan_of([5, 30, 20]).work.groups
    assert list(group.indexes) == [1, 2, 0]


def test_attempts_are_cut_before_the_statement_gets_too_long() -> None:
    made = plan_of([1] * 5000)
    assert max(len(g.indexes) for g in made.work.groups) <= 2000


class TestExport:
    @settings(max_examples=30, deadline=None)
    @given(pieces=st.integers(1, 60), files=st.integers(1, 60))
    def test_every_file_gets_neighbouring_pieces(
        self, tmp_path_factory: pytest.TempPathFactory, pieces: int, files: int
    ) -> None:
        folder = tmp_path_factory.mktemp("out")
        options = Options(files=files)
        if files > pieces:
            with pytest.raises(UsageError, match="more than the"):
                plan_of([10] * pieces, options, export=folder)
            return
        made = plan_of([10] * pieces, options, export=folder)
        assert len(made.work.groups) == files
        assert [sorted(g.indexes) for g in made.work.groups] == [
            list(range(min(g.indexes), max(g.indexes) + 1)) for g in made.work.groups
        ]
        assert sorted(i for g in made.work.groups for i in g.indexes) == list(range(pieces))

    def test_a_file_with_one_missing_piece_is_written_whole(self, tmp_path: Path) -> None:
        made = plan_of([10] * 6, Options(files=3), loaded=frozenset({0, 1, 2}), export=tmp_path)
        assert [sorted(g.indexes) for g in made.work.groups] == [[], [2, 3], [4, 5]]

    def test_as_many_files_at_once_as_cores(self, tmp_path: Path) -> None:
        assert plan_of([10] * 8, Options(files=8), export=tmp_path).work.lanes == FACTS.cores
        assert plan_of([10] * 8, Options(files=2), export=tmp_path).work.lanes == 2


class TestSettings:
    def value(self, made: Plan, name: str) -> object:
        return {s.name: s.value for s in made.work.settings}[name]

    @pytest.mark.parametrize("memory", [512 << 20, 1 << 30, 8 << 30, 512 << 30])
    @pytest.mark.parametrize("cores", [1, 2, 4, 16, 96])
    @pytest.mark.parametrize("row_bytes", [1.0, 9.0, 400.0, 100_000.0])
    def test_blocks_of_all_writers_fit_the_memory(
        self, memory: int, cores: int, row_bytes: float
    ) -> None:
        schema = Schema(SCHEMA.columns, layout=TableLayout(order_by="a"), row_bytes=row_bytes)
        made = plan_of([1000] * 200, facts=Facts("26.9", cores, memory), schema=schema)
        writers = int(str(self.value(made, "max_insert_threads")))
        size = int(str(self.value(made, "min_insert_block_size_bytes")))
        assert 3 * writers * size <= max(memory - (350 << 20), 3 * 8 << 20)
        assert 1 <= writers <= cores

    @pytest.mark.parametrize(
        ("memory", "format", "readers", "writers", "most"),
        [
            # What was measured to stay below the engine's limit with 51 columns and 2 cores.
            (900 << 20, "Parquet", 1, 1, 20 << 20),
            (1 << 30, "Parquet", 1, 1, 50 << 20),
            (2 << 30, "Parquet", 2, 2, 80 << 20),
            (8 << 30, "Parquet", 2, 2, 256 << 20),
            (1 << 30, "CSV", 2, 1, 70 << 20),
            (8 << 30, "CSV", 2, 2, 256 << 20),
        ],
    )
    def test_wide_tables_get_fewer_writers_where_their_files_would_not_fit(
        self, memory: int, format: str, readers: int, writers: int, most: int
    ) -> None:
        columns = tuple(Column(f"c{n}", "Nullable(UInt64)") for n in range(60))
        kind = Kind.TYPED if format == "Parquet" else Kind.TEXT
        shape = LoadShape(
            4, 42_500_000, 520.0, 1, columns, Encoding(format, "none", kind), remote=False
        )
        made = {s.name: s.value for s in compute_settings(Facts("26.9", 2, memory), shape, {})}
        assert (made["max_threads"], made["max_insert_threads"]) == (readers, writers)
        assert 8 << 20 <= int(made["min_insert_block_size_bytes"]) <= most

    @pytest.mark.parametrize(
        ("columns", "megabytes", "partitions", "least", "most"),
        [
            # What was fastest into a server: 10 M rows of 3 columns in blocks of 16 to 32 MiB,
            # 1 M of 16 columns in 32, 0.5 M of 51 columns in one; 5 GB are long without an end.
            (3, 120, 1, 16, 32), (16, 56, 1, 24, 40), (51, 107, 1, 256, 256),
            (3, 40_000, 1, 256, 256),
            # A block of many partitions is many parts.
            (3, 120, 56, 256, 256),
            # Rows may be more than estimated; so few are one block even so, or nobody has counted.
            (3, 12, 1, 16, 16), (3, 2, 1, 256, 256), (3, 0, 1, 256, 256),
        ],
    )  # fmt: skip
    def test_an_attempt_of_narrow_rows_is_inserted_while_it_is_read(
        self, columns: int, megabytes: int, partitions: int, least: int, most: int
    ) -> None:
        made = tuple(Column(f"c{n}", "UInt64") for n in range(columns))
        shape = LoadShape(
            8, 1 << 20, 24.0, partitions, made, CSV_GZ, remote=False, decoded=True,
            stream_bytes=megabytes * 1_000_000,
        )  # fmt: skip
        one = Facts("24.10", 1, 32 << 30)
        assert least << 20 <= block(one, shape)[1] <= most << 20
        # As much for each of two insert threads of one statement, within the memory there is.
        two = Facts("26.9", 2, 64 << 30)
        both = replace(shape, stream_bytes=2 * shape.stream_bytes)
        assert block(two, both)[1] == block(one, shape)[1]
        assert block(Facts("24.10", 1, 512 << 20), shape)[1] <= 32 << 20

    def test_the_rows_of_a_load_decide_about_its_blocks(self) -> None:
        reason = "min_insert_block_size_bytes"
        few, many = (plan_of([size] * 8).work.settings for size in (10_000, 10_000_000))
        assert "of each thread" not in {s.name: s.reason for s in few}[reason]
        assert "of each thread in blocks" in {s.name: s.reason for s in many}[reason]
        # Who makes parts of blocks parses them, too: nothing goes on meanwhile.
        columns = tuple(strict_column(name, name, "Int64", Kind.TEXT) for name in "ab")
        schema = replace(SCHEMA, columns=columns)
        made = plan_of([10_000_000] * 8, schema=schema, program="/rowfall-decode")
        assert made.transport.delivery.value == "build"
        assert "of each thread" not in {s.name: s.reason for s in made.work.settings}[reason]

    @pytest.mark.parametrize(
        ("memory", "columns", "sent", "size"),
        [
            # Half of a server of 2.8 GiB for each of two connections: 125 files, 640 MB taken.
            (864 << 20, 51, False, 13), (864 << 20, 51, True, 84), (8 << 30, 51, True, 256),
            (864 << 20, 3, False, 102), (864 << 20, 3, True, 102), (600 << 20, 51, True, 8),
        ],
    )  # fmt: skip
    def test_blocks_that_are_sent_are_worth_the_files_of_their_part(
        self, memory: int, columns: int, sent: bool, size: int
    ) -> None:
        text, number = "Nullable(String)", "Nullable(Int8)"
        taken = tuple(Column(f"c{n}", text if n % 2 else number) for n in range(columns))
        encoding = Encoding("MySQL", "none", Kind.TYPED)
        shape = LoadShape(
            4, 42_500_000, 900.0, 1, taken, encoding, remote=True, decoded=True, sent=sent
        )
        made = {s.name: s.value for s in compute_settings(Facts("24.10", 1, memory), shape, {})}
        found = int(made["min_insert_block_size_bytes"])
        assert abs(found / 1e6 - size) < 0.1 * size, found
        assert (made["min_insert_block_size_rows"] == 5_000_000) is sent

    def test_blocks_of_the_parquet_reader_become_parts_as_they_are(self) -> None:
        columns = tuple(Column(f"c{n}", "Nullable(UInt64)") for n in range(60))
        encoding = Encoding("Parquet", "none", Kind.TYPED)
        shape = LoadShape(4, 42_500_000, 520.0, 1, columns, encoding, remote=False)
        settings = compute_settings(Facts("26.9", 2, 8 << 30), shape, {})
        made = {s.name: int(s.value) for s in settings if str(s.value).isdigit()}
        read = made["input_format_parquet_max_block_size"]
        assert read > 400_000
        assert made["min_insert_block_size_rows"] == read // 2, "a row group's end is smaller"
        assert (
            made["min_insert_block_size_bytes"] <= made["input_format_parquet_prefer_block_bytes"]
        )
        # Also those that are small to be inserted while others are read: put together they would
        # be sorted once more.
        short = replace(shape, columns=columns[:3], row_bytes=24.0, stream_bytes=90_000_000)
        shared = {s.name: s.value for s in compute_settings(Facts("26.9", 1, 8 << 30), short, {})}
        assert shared["input_format_parquet_prefer_block_bytes"] == 16_826_036
        assert shared["min_insert_block_size_bytes"] == 16_826_036 // 2
        smaller = {s.name: s.value for s in lower(settings)}
        assert smaller["input_format_parquet_max_block_size"] == 65_409
        assert smaller["input_format_parquet_prefer_block_bytes"] == 16 << 20

    def test_every_reason_is_given(self) -> None:
        assert all(s.reason for s in plan_of([1]).work.settings)

    def test_set_wins_and_says_so(self) -> None:
        made = plan_of([1], Options(set=("max_threads=3", "format_csv_null_representation=x")))
        assert self.value(made, "max_threads") == 3
        assert self.value(made, "format_csv_null_representation") == "x"
        assert [s.name for s in made.work.settings].count("max_threads") == 1

    def test_unknown_settings_are_not_sent_but_refused_when_chosen(self) -> None:
        facts = Facts("24.8", 4, 8 << 30, frozenset({"max_threads", "max_insert_threads"}))
        made = plan_of([1], facts=facts)
        assert {s.name for s in made.work.settings} == {"max_threads", "max_insert_threads"}
        with pytest.raises(UsageError, match="no setting 'max_treads'"):
            plan_of([1], Options(set=("max_treads=1",)), facts=facts)

    @pytest.mark.parametrize("text", ["max_threads", "a b=1", "x;DROP=1", "=1"])
    def test_malformed_settings_are_refused(self, text: str) -> None:
        with pytest.raises(UsageError):
            chosen_settings((text,))

    def test_too_little_memory_is_said_at_once(self) -> None:
        with pytest.raises(UsageError, match="too little"):
            plan_of([1], facts=Facts("26.9", 4, 100 << 20))


def test_partition_explosion_is_forecast_with_advice() -> None:
    schema = Schema(
        SCHEMA.columns,
        layout=TableLayout(order_by="a", partition_by="b", partitions=5000),
    )
    made = plan_of([10_000_000_000], schema=schema)
    assert made.forecast.parts >= 5000
    assert "coarser key" in made.forecast.advice[0]
    quiet = Schema(
        SCHEMA.columns,
        layout=TableLayout(order_by="a", partition_by="b", partitions=100),
    )
    assert plan_of([10_000_000], schema=quiet).forecast.advice == ()


def test_merges_are_forecast_where_parts_are_more_than_partitions() -> None:
    schema = Schema(
        SCHEMA.columns,
        layout=TableLayout(order_by="a", partition_by="b", partitions=50),
        row_bytes=10,
    )
    made = plan_of([10_000_000_000], schema=schema).forecast
    assert made.merges is not None
    assert (made.merges.parts, made.merges.into) == (made.parts, 50)
    assert made.merges.bytes == int((made.rows or 0) * 10)
    assert made.merges.seconds > 0
    one = Facts("26.9.2.1", 1, 8 << 30)
    assert plan_of([1_000], schema=schema, facts=one).forecast.merges is None


@pytest.mark.parametrize(
    ("shards", "cores_here", "undecoded", "streams"),
    [
        (1, 64, "", 4),  # as many as the server has cores
        (1, 1, "", 2),
        (2, 2, "", 2),
        (4, 2, "", 1),  # four decoders have two cores
        (4, 2, "the types", 2),  # the servers parse
        (100, 64, "the types", 1),
    ],
)
def test_connections_of_all_shards_share_this_machine(
    shards: int, cores_here: int, undecoded: str, streams: int
) -> None:
    facts = LoadFacts(
        Files([1]), embedded(Path("/data"), "default", "t"), FolderTables(), Listing(), CSV_GZ,
        SCHEMA,
        tuple(WriterFacts(FACTS, "server", n, f"n{n}:9000") for n in range(shards)),
        cores_here=cores_here,
    )  # fmt: skip
    parser = Choice(ENGINE, undecoded) if undecoded else Choice(HERE, "it can")
    assert count_streams(facts, Options(), parser) == streams
    assert count_streams(facts, Options(streams=5), parser) == 5
