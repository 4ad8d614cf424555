"""What a real server reads by itself is what the embedded engine reads: rows and checksum."""

from __future__ import annotations

import bz2
import itertools
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from contract.engines import connect
from contract.stores import NASTY, Store, files_store, http_store, s3_store
from lab.clickhouse import ClickHouse
from rowfall.contracts.facts import Reach
from rowfall.core.errors import ObjectChangedError, RowfallError
from rowfall.core.listing import Listing, Split
from rowfall.core.model import Encoding, Statement
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.core.sqltext import quote as quoted
from rowfall.plan.reach import reach
from rowfall.sources import open_source
from rowfall.sources.base import Source, any_version
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.server import Server

COLUMNS = ("a Int64", "b String", "c Float64", "d Date", "e Nullable(String)")
STRUCTURE = ", ".join(COLUMNS)
# Eighths: the fractions that every version reads alike.
ROWS = (
    "SELECT toInt64(number) - 500 AS a, concat('x \"', toString(number % 97), ',\\t', char(195, "
    "164)) AS b, number / 8 AS c, toDate('2020-01-01') + number % 400 AS d, "
    "if(number % 3 = 0, NULL, toString(number)) AS e FROM numbers(1000)"
)
ENDINGS = {"none": "", "gzip": ".gz", "zstd": ".zst", "lz4": ".lz4", "xz": ".xz", "bz2": ".bz2"}
FORMATS = {
    "CSV": ".csv", "CSVWithNames": ".csv", "TSV": ".tsv", "TSVWithNames": ".tsv",
    "JSONEachRow": ".json", "Parquet": ".parquet", "ORC": ".orc", "Avro": ".avro",
    "Arrow": ".arrow", "Native": ".native",
}  # fmt: skip
_numbers = itertools.count()


@pytest.fixture(scope="module")
def embedded() -> Iterator[Embedded]:
    engine = Embedded(None, memory=1 << 30)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def pulling(clickhouse: ClickHouse) -> Iterator[Server]:
    server = connect(clickhouse)
    yield server
    server.close()


@pytest.fixture(params=["files", "s3", "http"])
def store(
    request: pytest.FixtureRequest, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> Store:
    """A place that the server reaches, too."""
    if request.param == "files":
        folder = clickhouse.folder / "user_files" / f"pull-{next(_numbers)}"
        folder.mkdir()
        return files_store(folder)
    if request.param == "s3":
        return s3_store(request.getfixturevalue("s3"), monkeypatch)
    return http_store(request.getfixturevalue("web"))


def opened(store: Store, server: Server, *keys: str) -> tuple[Reach, Source, Listing, Encoding]:
    """The source as both engines read it."""
    source, listing, encoding = store.open(*keys)
    assert encoding is not None
    how = reach(server, source, listing, encoding)
    assert how.pull
    return how, source, listing, encoding


def total(
    engine: Embedded | Server,
    source: Source,
    splits: list[Split],
    encoding: Encoding | None,
    structure: str = "a Int64, b String",
    columns: str = "a, b",
) -> list[int]:
    """Rows and their checksum, as text: some versions cannot hash a tuple with a NULL."""
    relation = source.relation(splits, encoding, structure)
    text = SqlText.of(
        f"SELECT count(), sum(cityHash64(toString(tuple({columns})))) FROM ", relation
    )
    known = engine.facts.settings
    settings = {
        name: value
        for name, value in {
            "input_format_csv_detect_header": 0, "input_format_tsv_detect_header": 0,
            "use_hive_partitioning": 0, "engine_file_skip_empty_files": 0,
            "s3_skip_empty_files": 0, "max_query_size": 64 << 20,
        }.items()
        if not known or name in known
    }  # fmt: skip
    data = engine.run(Statement(text, settings, format="TabSeparatedRaw")).data
    return [int(number) for number in data.split()]


def body(embedded: Embedded, folder: Path, format: str, compression: str) -> bytes:
    """The rows as a file of that kind."""
    path = folder / f"made-{next(_numbers)}"
    packed = "none" if compression == "bz2" else compression
    embedded.run(Statement(SqlText.of(
        f"INSERT INTO FUNCTION file({quoted(str(path))}, {quoted(format)}, {quoted(STRUCTURE)}, "
        f"{quoted(packed)}) {ROWS}"
    )))  # fmt: skip
    data = path.read_bytes()
    return bz2.compress(data) if compression == "bz2" else data


KINDS = [(name, "none") for name in FORMATS] + [
    (name, packed) for name in ("CSV", "TSV", "JSONEachRow") for packed in list(ENDINGS)[1:]
]


@pytest.mark.sampled(1)
def test_no_other_version_is_pulled(store: Store, pulling: Server) -> None:
    for name in ("a.csv", "b.csv"):
        store.put(f"v/{name}", b"1,x\n")
    how, _, listing, encoding = opened(store, pulling, "v/a.csv", "v/b.csv")
    splits = list(listing.splits("t"))
    assert total(pulling, how.source, splits, encoding)[0] == 2
    if splits[0].uri.startswith("/"):
        return  # only objects behind HTTP can be asked for by their ETag
    store.put("v/b.csv", b"2,y\n")
    with pytest.raises(ObjectChangedError, match="changed while it was read"):
        total(pulling, how.source, splits, encoding)
    assert total(pulling, any_version(how.source), splits, encoding)[0] == 2


@pytest.mark.parametrize(("format", "compression"), KINDS)
@pytest.mark.sampled
def test_formats_and_compressions(
    store: Store, embedded: Embedded, pulling: Server, tmp_path: Path, format: str, compression: str
) -> None:
    store.options = Options(format=format)
    names = [f"{n}{FORMATS[format]}{ENDINGS[compression]}" for n in range(2)]
    data = body(embedded, tmp_path, format, compression)
    for name in names:
        store.put(name, data)
    how, source, listing, encoding = opened(store, pulling, *names)
    assert how.pull
    assert encoding.compression == compression
    splits = list(listing.splits("t"))
    columns = "a, b, c, d, e"
    found = total(pulling, how.source, splits, encoding, STRUCTURE, columns)
    assert found[0] == 2000
    assert found == total(embedded, source, splits, encoding, STRUCTURE, columns)
    assert source.changed(splits) == []


@pytest.mark.sampled(1)
def test_nasty_names(store: Store, embedded: Embedded, pulling: Server) -> None:
    for number, name in enumerate(NASTY):
        store.put(f"n/{name}", f"{number},x\n".encode())
    written = NASTY if store.globs else tuple(map(quote, NASTY))
    keys = ["n/"] if store.globs else [f"n/{name}" for name in written]
    how, source, listing, encoding = opened(store, pulling, *keys)
    splits = list(listing.splits("t"))
    found = total(pulling, how.source, splits, encoding)
    assert found[0] == len(NASTY)
    assert found == total(embedded, source, splits, encoding)
    for split in splits:
        alone = total(pulling, how.source, [split], encoding)
        assert alone[0] == 1, split.uri
        assert alone == total(embedded, source, [split], encoding), split.uri


@pytest.mark.sampled(1)
def test_many_objects_of_different_folders(
    store: Store, embedded: Embedded, pulling: Server
) -> None:
    for number in range(60):
        store.put(f"many/{number % 7}/part-{number}.csv", f"{number},x\n".encode())
    keys = [f"many/{number % 7}/part-{number}.csv" for number in range(60)]
    how, source, listing, encoding = opened(store, pulling, *keys)
    splits = list(listing.splits("t"))
    assert total(pulling, how.source, splits, encoding) == total(embedded, source, splits, encoding)
    some = splits[3:40:2]
    assert total(pulling, how.source, some, encoding) == total(embedded, source, some, encoding)


def test_mixed_compressions(store: Store, embedded: Embedded, pulling: Server) -> None:
    store.put("m/a.csv.bz2", bz2.compress(b"1,x\n"))
    store.put("m/b.csv", b"2,x\n")
    store.put("m/c.csv", b"3,x\n")
    how, source, listing, encoding = opened(store, pulling, "m/{a.csv.bz2,b.csv,c.csv}")
    splits = list(listing.splits("t"))
    found = total(pulling, how.source, splits, encoding)
    assert found[0] == 3
    assert found == total(embedded, source, splits, encoding)


@pytest.mark.sampled
@pytest.mark.parametrize("nasty", ["c.csv", "c*.csv", "c,d.csv"])
@pytest.mark.parametrize("alone", [False, True])
def test_a_missing_object_is_an_error(
    store: Store, pulling: Server, nasty: str, alone: bool
) -> None:
    names = [nasty] if alone else ["a.csv", "b.csv", nasty]
    written = names if store.globs else list(map(quote, names))
    for name in names:
        store.put(name, b"1,x\n")
    how, _, listing, encoding = opened(store, pulling, *written)
    splits = list(listing.splits("t"))
    assert total(pulling, how.source, splits, encoding)[0] == len(names)
    store.remove(nasty)
    with pytest.raises(RowfallError):
        total(pulling, how.source, splits, encoding)


@pytest.mark.parametrize("cut", [1, 30])
def test_a_bz2_stream_that_is_cut_is_an_error(store: Store, pulling: Server, cut: int) -> None:
    packed = bz2.compress(b"".join(b"%d,x\n" % n for n in range(100_000)))
    store.put("a.csv.bz2", packed[:-cut])
    how, _, listing, encoding = opened(store, pulling, "a.csv.bz2")
    with pytest.raises(RowfallError):
        total(pulling, how.source, list(listing.splits("t")), encoding)


def test_as_many_long_keys_as_one_attempt_holds(
    clickhouse: ClickHouse, pulling: Server, embedded: Embedded
) -> None:
    """Patterns become regular expressions there, whose size has a limit."""
    folder = clickhouse.folder / "user_files" / "long"
    folder.mkdir()
    for number in range(2000):
        name = f"{number * 2654435761 % 2**32:08x}-{number:04}-{'y' * 60}.csv"
        (folder / name).write_bytes(b"%d,x\n" % number)
    how, source, listing, encoding = opened(files_store(folder), pulling, ".")
    splits = list(listing.splits("t"))
    found = total(pulling, how.source, splits, encoding)
    assert found[0] == 2000
    assert found == total(embedded, source, splits, encoding)


@pytest.mark.sampled
@pytest.mark.parametrize("table", ["trips", "taxi", "hits", "random"])
def test_generated_rows(embedded: Embedded, pulling: Server, table: str) -> None:
    source = open_source([f"generate://{table}?rows=50k&seed=3"], Options(files=3))
    listing = source.listing()
    how = reach(pulling, source, listing, None)
    assert (how.pull, how.reason) == (True, "the server makes the rows itself")
    splits = list(listing.splits("t"))
    found = total(pulling, how.source, splits, None, "", "*")
    assert found[0] == 50_000
    assert found == total(embedded, source, splits, None, "", "*")
