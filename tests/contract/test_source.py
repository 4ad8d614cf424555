"""What every source promises, proven by the engine that reads what it describes."""

from __future__ import annotations

import gzip
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from contract.stores import (
    Store,
    files_store,
    hdfs_store,
    http_store,
    object_store,
    s3_store,
)
from contract.values import duckdb_at
from lab.http import Web
from lab.kafka import Kafka
from lab.lake_tables import iceberg
from lab.postgresql import PostgresqlServer
from lab.seaweed import Seaweed
from rowfall.core.errors import ObjectChangedError, RowfallError, SourceError, UsageError
from rowfall.core.listing import Part, Split
from rowfall.core.model import Encoding, Kind, Statement
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.sources import open_source
from rowfall.sources.base import Continued, Pullable, Ranged, Source, Streamed, any_version
from rowfall.stores.objects import ObjectSource
from rowfall.systems.clickhouse.embedded import Embedded

STRUCTURE = "`a` Int64, `b` String"


@pytest.fixture(scope="module")
def engine() -> Iterator[Embedded]:
    engine = Embedded(None, memory=1 << 30)
    yield engine
    engine.close()


# The same cases as of others, all on the worker with the only HDFS.
_HDFS = pytest.param("hdfs", marks=[pytest.mark.long, pytest.mark.xdist_group("hdfs")])


@pytest.fixture(params=["files", "s3", "gs-hmac", "gs", "az", "http", _HDFS])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    if request.param == "files":
        return files_store(tmp_path)
    if request.param == "http":
        return http_store(request.getfixturevalue("web"))
    if request.param == "hdfs":
        return hdfs_store(request.getfixturevalue("hdfs"))
    return object_store(request.param, request, monkeypatch)


def run(engine: Embedded, *parts: str | SqlText) -> list[list[str]]:
    settings: Mapping[str, int] = {"input_format_csv_detect_header": 0}
    statement = Statement(SqlText.of(*parts), settings, format="TabSeparatedRaw")
    data = engine.run(statement).data.decode()
    return [line.split("\t") for line in data.splitlines()]


def total(engine: Embedded, source: Source, splits: list[Split], encoding: Encoding | None) -> str:
    """``count sum`` of the first column."""
    relation = source.relation(splits, encoding, STRUCTURE)
    return " ".join(run(engine, "SELECT count(), sum(a) FROM ", relation)[0])


# --- objects -----------------------------------------------------------------------------------


@pytest.mark.sampled(2)
def test_reads_every_object_once(store: Store, engine: Embedded) -> None:
    for number in range(12):
        store.put(f"p/part-{number:02}.csv", f"{number},x\n".encode())
    source, listing, encoding = store.open("p/part-{00..11}.csv", "p/part-{00..01}.csv")
    splits = list(listing.splits("t"))
    assert encoding is not None
    assert (encoding.format, encoding.compression) == ("CSV", "none")
    assert [s.uri.rpartition("/")[2] for s in splits] == [f"part-{n:02}.csv" for n in range(12)]
    assert total(engine, source, splits, encoding) == "12 66"
    assert total(engine, source, splits[3:5], encoding) == "2 7"
    assert total(engine, source, splits[4:5], encoding) == "1 4"
    assert source.changed(splits) == []
    assert source.replayable


def test_parts_of_an_object(store: Store) -> None:
    body = bytes(range(256)) * 20
    store.put("a.csv", body)
    store.options = Options(encoding="binary")  # without it bytes that are not text are refused
    source, listing, _ = store.open("a.csv")
    (split,) = listing.splits("t")
    assert isinstance(source, Ranged)
    assert source.part(split, 0, 300) == body[:300]
    assert source.part(split, 1000, 1) == body[1000:1001]
    assert source.part(split, len(body) - 5, 100) == body[-5:]
    store.remove("a.csv")
    with pytest.raises(SourceError):
        source.part(replace(split, version="another"), 0, 1)  # the first bytes may be known


def test_identity_is_stable_and_follows_the_content(store: Store) -> None:
    store.put("a.csv", b"1,x\n")
    first = next(store.open("a.csv")[1].splits("t"))
    assert next(store.open("a.csv")[1].splits("t")) == first
    assert next(store.open("a.csv")[1].splits("other")).id != first.id
    store.put("a.csv", b"12,x\n")
    assert next(store.open("a.csv")[1].splits("t")).id != first.id


@pytest.mark.sampled(1)
def test_no_other_version_is_read(store: Store, engine: Embedded) -> None:
    """What was listed is asked for by its ETag: an object that changes back is noticed, too."""
    names = ["v/a.csv", "v/b{c}.csv"] if store.globs else ["v/a.csv", "v/b%7Bc%7D.csv"]
    for name in ("v/a.csv", "v/b{c}.csv"):
        store.put(name, b"1,x\n")
    source, listing, encoding = store.open(*names)
    splits = list(listing.splits("t"))
    assert total(engine, source, splits, encoding) == "2 2"
    if splits[0].uri.startswith(("/", "hdfs:")):
        return  # only objects of stores can be asked for like this
    for name in ("v/a.csv", "v/b{c}.csv"):
        store.put(name, b"2,y\n")
    for split in splits:
        try:
            total(engine, source, [split], encoding)
        except ObjectChangedError:
            pass
        else:  # a pipe has ended, and what it met is said when the source is asked
            assert "gs://" in split.uri
            assert source.changed([split])
        assert isinstance(source, ObjectSource)
        # The beginning has been read from the version that was listed, and nothing mixes with it.
        assert source.part(split, 0, 3) == b"1,x"
        with pytest.raises(ObjectChangedError, match="changed while it was read"):
            source._part(split, 0, 3)
    assert total(engine, any_version(source), splits, encoding) == "2 4"


@pytest.mark.sampled(2)
def test_nasty_names(store: Store, engine: Embedded) -> None:
    for number, name in enumerate(store.nasty):
        store.put(f"n/{name}", f"{number},x\n".encode())
    keys = ["n/"]
    written = store.nasty
    if not store.globs:  # names in URLs are percent-encoded
        written = tuple(map(quote, store.nasty))
        keys = [f"n/{name}" for name in written]
    source, listing, encoding = store.open(*keys)
    splits = list(listing.splits("t"))
    assert len(splits) == len(written)
    expected = f"{len(written)} {sum(range(len(written)))}"
    assert total(engine, source, splits, encoding) == expected
    for number, name in enumerate(written):
        source, listing, encoding = store.open(f"n/{name}")
        assert total(engine, source, list(listing.splits("t")), encoding) == f"1 {number}", name


@pytest.mark.sampled(2)
def test_compression_by_extension_and_mixed(store: Store, engine: Embedded) -> None:
    store.put("m/a.csv.gz", gzip.compress(b"1,x\n"))
    store.put("m/b.csv", b"2,x\n")
    source, listing, encoding = store.open("m/a.csv.gz")
    assert encoding is not None
    assert encoding.compression == "gzip"
    assert total(engine, source, list(listing.splits("t")), encoding) == "1 1"
    source, listing, encoding = store.open("m/{a.csv.gz,b.csv}")
    assert total(engine, source, list(listing.splits("t")), encoding) == "2 3"


def test_sample_describes_itself(store: Store, engine: Embedded) -> None:
    for number in range(9):
        store.put(f"{number}.csv", f"{number},x\n".encode())
    source, listing, encoding = store.open("{0..8}.csv")
    sample = source.sample(listing, 3)
    assert len(sample) == 3
    rows = run(engine, "DESCRIBE ", source.relation(sample, encoding, ""))
    assert [row[0] for row in rows] == ["c1", "c2"]


@pytest.mark.sampled(2)
def test_empty_objects_are_left_out(store: Store) -> None:
    store.put("a.csv", b"1,x\n")
    store.put("b.csv", b"")
    assert len(store.open("{a,b}.csv")[1]) == 1
    with pytest.raises(SourceError, match="empty") as caught:
        store.open("b.csv")
    assert caught.value.hint


@pytest.mark.sampled(2)
def test_changed_and_gone(store: Store, engine: Embedded) -> None:
    for name in "abc":
        store.put(f"{name}.csv", b"1,x\n")
    source, listing, encoding = store.open("{a,b,c}.csv")
    splits = list(listing.splits("t"))
    store.put("a.csv", b"1,longer\n")
    store.remove("c.csv")
    changed = source.changed(splits)
    assert [split for split, _ in changed] == [splits[0], splits[2]]
    assert all(text for _, text in changed)
    # The engine must never read two objects of three and call it done.
    try:
        total(engine, source, splits, encoding)
    except RowfallError:
        return
    # Read through pipes: what one of them met is said when the source is asked after the reading.
    assert "gs://" in splits[0].uri
    assert [split for split, _ in source.changed(splits)] == [splits[0], splits[2]]


def test_nothing_there(store: Store) -> None:
    store.put("a.csv", b"1,x\n")
    with pytest.raises(SourceError) as caught:
        store.open("nope.csv")
    assert "nope.csv" in caught.value.message
    assert caught.value.hint


def test_mixed_formats(store: Store) -> None:
    store.put("a.csv", b"1,x\n")
    store.put("b.json", b"{}\n")
    with pytest.raises(UsageError, match=r"b\.json"):
        store.open("{a.csv,b.json}")


@pytest.mark.sampled(2)
def test_many_objects_in_one_statement(store: Store, engine: Embedded) -> None:
    for number in range(100):
        store.put(f"many/{number}.csv", f"{number},x\n".encode())
    source, listing, encoding = store.open("many/{0..99}.csv")
    assert total(engine, source, list(listing.splits("t")), encoding) == "100 4950"


def test_ranges_of_text(store: Store, engine: Embedded) -> None:
    head, *rows = [b"a,b\n", *(f"{n},x{n}\n".encode() for n in range(1_000))]
    body = head + b"".join(rows)
    store.put("t.csv", body)
    store.put("u.csv", head + b"5000,y\n")
    source, listing, _ = store.open("t.csv", "u.csv")
    encoding = Encoding("CSVWithNames", "none", Kind.TEXT, ",")
    first, other = listing.splits("t")
    half = len(head) + len(b"".join(rows[:500]))
    ranges = [
        replace(first, size=stop - start, start=start, stop=stop, part=Part(len(body), head=4))
        for start, stop in ((4, half), (half, len(body)))
    ]
    assert total(engine, source, ranges, encoding) == "1000 499500"
    assert total(engine, source, ranges[1:], encoding) == "500 374750"
    assert total(engine, source, [ranges[0], other], encoding) == "501 129750"
    assert source.changed(ranges) == []


def test_ranges_of_rows(store: Store, engine: Embedded) -> None:
    text = "SELECT toInt64({}) AS a, 'x' AS b FROM numbers({})"
    for key, sql in (("a", text.format("number", 1_000)), ("b", text.format("5000", 1))):
        body = engine.run(Statement(SqlText.of(sql), {}, format="Parquet")).data
        store.put(f"{key}.parquet", body)
    source, listing, encoding = store.open("a.parquet", "b.parquet")
    first, other = listing.splits("t")
    size = first.size or 0
    ranges = [
        replace(first, start=start, stop=stop, part=Part(size, "a", low, high))
        for start, stop, low, high in (
            (0, 10, "", "300"), (10, 20, "300", "600"), (20, size, "600", ""),
        )
    ]  # fmt: skip
    assert total(engine, source, ranges, encoding) == "1000 499500"
    assert total(engine, source, ranges[1:2], encoding) == "300 134850"
    assert total(engine, source, [ranges[2], ranges[0], other], encoding) == "701 369650"
    footer = Encoding("ParquetMetadata", "none", Kind.TYPED)
    relation = source.relation(ranges, footer, "num_rows UInt64")
    assert run(engine, "SELECT num_rows FROM ", relation) == [["1000"]]
    assert source.changed(ranges) == []


# --- globs and folders -------------------------------------------------------------------------


@pytest.fixture(params=["files", "s3", "gs", "az", _HDFS])
def tree(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    if request.param == "files":
        store = files_store(tmp_path)
    elif request.param == "hdfs":
        store = hdfs_store(request.getfixturevalue("hdfs"))
    else:
        store = object_store(request.param, request, monkeypatch)
    for key in ("t/1/01.csv", "t/1/02.csv", "t/1/deep/10.csv", "t/2/20.csv", "t/_tmp/x.csv",
                "t/.git/y.csv", "t/notes.md", "tt/z.csv"):  # fmt: skip
        store.put(key, b"1,x\n")
    return store


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("t", ["01", "02", "10", "20"]),
        ("t/", ["01", "02", "10", "20"]),
        ("t/1/*.csv", ["01", "02"]),
        ("t/*/*.csv", ["01", "02", "20"]),
        ("t/[0-9]/**/*.csv", ["01", "02", "10", "20"]),
        ("t/1/{01..09}.csv", ["01", "02"]),
        ("t/{1/01,2/20}.csv", ["01", "20"]),
        ("t/?/?0.csv", ["20"]),
        ("t*/*.csv", ["z"]),
    ],
)
def test_globs(tree: Store, pattern: str, names: list[str]) -> None:
    found = tree.open(pattern)[1]
    read = [found.uri(n).rpartition("/")[2].partition(".")[0] for n in range(len(found))]
    assert sorted(set(read) - {"x", "y"}) == names


@pytest.mark.parametrize("pattern", ["t/*.nope", "t/{77..99}/*.csv", "nope/**", "t/3/"])
def test_no_match(tree: Store, pattern: str) -> None:
    with pytest.raises(SourceError) as caught:
        tree.open(pattern)
    assert caught.value.hint


def test_folder_with_other_files_only(tree: Store) -> None:
    tree.put("docs/readme.md", b"x")
    with pytest.raises(SourceError, match="no data") as caught:
        tree.open("docs")
    assert "--format" in (caught.value.hint or "")


# --- S3 alone ----------------------------------------------------------------------------------


def _s3_error(monkeypatch: pytest.MonkeyPatch, text: str, **env: str) -> RowfallError:
    for key, value in env.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(SourceError) as caught:
        open_source([text], Options()).listing()
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("key", ["a.csv", "*.csv", ""])
def test_s3_wrong_secret(s3: Seaweed, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    store = s3_store(s3, monkeypatch)
    wrong = "wrong-secret-0123456789"
    error = _s3_error(monkeypatch, store.at(key), AWS_SECRET_ACCESS_KEY=wrong)
    assert "access denied" in error.message
    assert wrong not in f"{error.message} {error.hint}"


def test_s3_missing_bucket(s3: Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    error = _s3_error(monkeypatch, "s3://no-such-bucket/*.csv", **s3.env)
    assert "no bucket no-such-bucket" in error.message
    assert s3.endpoint in error.message


def test_s3_wrong_endpoints(s3: Seaweed, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {**s3.env, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    assert "connection refused" in _s3_error(monkeypatch, "s3://bucket/*.csv", **env).message
    env["AWS_ENDPOINT_URL"] = web.endpoint
    assert "like an S3 service" in _s3_error(monkeypatch, "s3://bucket/*.csv", **env).message
    env["AWS_ENDPOINT_URL"] = s3.endpoint.replace("http:", "https:")
    assert "TLS" in _s3_error(monkeypatch, "s3://bucket/*.csv", **env).message


def test_s3_secret_is_masked_in_sql(s3: Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    store = s3_store(s3, monkeypatch)
    store.put("a.csv", b"1,x\n")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token-of-some-length")
    source = open_source([store.at("a.csv")], store.options)
    split = Split("", store.at("a.csv"), "", 4)
    text = source.relation([split], Encoding("CSV", "none", kind="text"), STRUCTURE)  # type: ignore[arg-type]
    assert s3.secret_key in text.reveal()
    assert s3.secret_key not in str(text)
    assert "a-token" not in str(text)
    assert {secret.reveal() for secret in source.secrets} == {
        s3.secret_key, "a-token-of-some-length",
    }  # fmt: skip


def test_s3_key_with_control_characters(
    s3: Seaweed, monkeypatch: pytest.MonkeyPatch, engine: Embedded
) -> None:
    store = s3_store(s3, monkeypatch)
    store.put("w/a\tb.csv", b"1,x\n")
    store.put("w/c.csv", b"2,x\n")
    source, listing, encoding = store.open("w/")
    assert total(engine, source, list(listing.splits("t")), encoding) == "2 3"


# --- HTTP alone --------------------------------------------------------------------------------


def test_http_password_is_a_header_and_masked(web: Web, engine: Embedded) -> None:
    store = http_store(web)
    store.put("a.csv", b"5,x\n")
    address = store.at("a.csv").replace("://", "://bob:s3cr%40et@") + "?token=abcdef"
    source = open_source([address], Options())
    listing = source.listing()
    splits = list(listing.splits("t"))
    relation = source.relation(splits, source.encoding(listing), STRUCTURE)
    for text in (source.text, splits[0].uri, str(relation)):
        assert "s3cr" not in text
        assert "abcdef" not in text
    assert run(engine, "SELECT a FROM ", relation) == [["5"]]


def test_http_refused() -> None:
    with pytest.raises(SourceError, match="connection refused") as caught:
        open_source(["http://127.0.0.1:1/a.csv"], Options()).listing()
    assert caught.value.transient


# --- stdin -------------------------------------------------------------------------------------

TEXT = "".join(f"{n},abc\n" for n in range(700_000)).encode()  # more than the head


def _stdin(monkeypatch: pytest.MonkeyPatch, path: Path, body: bytes, options: Options) -> Source:
    path.write_bytes(body)
    monkeypatch.setattr(sys, "stdin", path.open("rb"))
    return open_source(["-"], options)


@pytest.mark.parametrize(
    ("pack", "options", "replayable"),
    [
        (bytes, Options(), False),
        (gzip.compress, Options(), False),
        (bytes, Options(format="CSV", compression="none"), False),
    ],
)
def test_stdin(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pack: Callable[[bytes], bytes],
    options: Options,
    replayable: bool,
) -> None:
    source = _stdin(monkeypatch, tmp_path / "in", pack(TEXT), options)
    listing = source.listing()
    encoding = source.encoding(listing)
    splits = list(listing.splits("t"))
    assert source.replayable is replayable
    engine = Embedded(None, memory=1 << 30, fds=source.fds)
    try:
        sample = source.sample(listing, 3)
        rows = run(engine, "DESCRIBE ", source.relation(sample, encoding, ""))
        assert [row[0] for row in rows] == ["c1", "c2"]
        # The sample ends with a whole row and takes nothing from the stream.
        assert 0 < int(total(engine, source, list(sample), encoding).split()[0]) <= 700_000
        assert total(engine, source, splits, encoding) == f"700000 {sum(range(700_000))}"
        assert source.changed(splits) == []
    finally:
        engine.close()
        sys.stdin.close()


def test_stdin_is_spooled_for_native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Embedded(None, memory=1 << 30)
    try:
        made = Statement(SqlText.of("SELECT toInt64(number) AS a, 'x' AS b FROM numbers(1000)"),
                         format="Parquet")  # fmt: skip
        body = engine.run(made).data
        source = _stdin(monkeypatch, tmp_path / "in", body, Options())
        listing = source.listing()
        encoding = source.encoding(listing)
        assert encoding is not None
        assert encoding.format == "Parquet"
        assert (source.replayable, source.fds) == (True, ())
        assert total(engine, source, list(listing.splits("t")), encoding) == "1000 499500"
    finally:
        engine.close()
        sys.stdin.close()


def test_stdin_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match="empty"):
        _stdin(monkeypatch, tmp_path / "in", b"", Options()).listing()
    sys.stdin.close()


def test_two_runs_of_stdin_are_two_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = set()
    for _ in range(2):
        source = _stdin(monkeypatch, tmp_path / "in", b"1,x\n", Options())
        ids.add(next(source.listing().splits("t")).id)
        sys.stdin.close()
    assert len(ids) == 2


# --- generators --------------------------------------------------------------------------------

TABLES = ["trips", "taxi", "hits", "random", "cabs", "downloads", "lineitem"]


def _checksum(engine: Embedded, source: Source, splits: list[Split]) -> list[list[str]]:
    relation = source.relation(splits, None, "")
    return run(engine, "SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM ", relation)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("table", TABLES)
def test_generated_rows_do_not_depend_on_cuts(table: str, engine: Embedded) -> None:
    def read(files: int, order: int, seed: int = 7) -> list[list[str]]:
        options = Options(files=files)
        source = open_source([f"generate://{table}?rows=50_000&seed={seed}"], options)
        listing = source.listing()
        assert (len(listing), listing.total_rows) == (files, 50_000)
        assert source.encoding(listing) is None
        splits = list(listing.splits("t"))[::order]
        assert source.changed(splits) == []
        return _checksum(engine, source, splits)

    whole = read(1, 1)
    assert whole[0][0] == "50000"
    assert read(7, 1) == whole
    assert read(7, -1) == whole
    assert read(1, 1, seed=8) != whole


@pytest.mark.parametrize("table", TABLES)
def test_generated_columns_fit_their_schema(table: str, engine: Embedded) -> None:
    source = open_source([f"generate://{table}?rows=20k"], Options())
    made = source.made
    assert made is not None
    relation = source.relation(source.sample(source.listing(), 1), None, "")
    names = [row[0] for row in run(engine, "DESCRIBE ", relation)]
    assert names == [column.name for column in made.columns]
    # accurateCast raises where a value does not fit.
    casts = ", ".join(f"sum(ignore(accurateCast({c.name}, '{c.type}')))" for c in made.columns)
    run(engine, f"SELECT {casts} FROM ", relation)


def test_a_longer_load_takes_up_where_a_shorter_ended() -> None:
    short = open_source(["generate://trips?rows=10M"], Options()).listing()
    long = open_source(["generate://trips?rows=1e8"], Options()).listing()
    assert {s.id for s in short.splits("t")} < {s.id for s in long.splits("t")}


def test_trips_are_those_of_the_article(engine: Embedded) -> None:
    source = open_source(["generate://trips?rows=1M"], Options())
    relation = source.relation(list(source.listing().splits("t")), None, "")
    question = (
        "SELECT count(), countIf(duration_seconds != distance_miles * vehicle_id), "
        "uniqExact(vehicle_id), uniqExact(distance_miles), uniqExact(duration_seconds) FROM "
    )
    assert run(engine, question, relation) == [["1000000", "0", "10", "10", "56"]]


@pytest.mark.parametrize(
    ("table", "columns"), [("taxi", 51), ("hits", 105), ("cabs", 24), ("lineitem", 16)]
)
def test_generated_tables_have_the_columns_of_the_published_ones(table: str, columns: int) -> None:
    made = open_source([f"generate://{table}?rows=1"], Options()).made
    assert made is not None
    assert len(made.columns) == columns


def test_hits_are_visits_of_users_to_pages_that_come_back(engine: Embedded) -> None:
    source = open_source(["generate://hits?rows=40k"], Options())
    relation = source.relation(list(source.listing().splits("t")), None, "")
    question = (
        "SELECT count(), uniqExact(WatchID), uniqExact(UserID) <= 5000, uniqExact(URL) < 38000, "
        "avg(length(Title)) BETWEEN 30 AND 120, countIf(SearchPhrase != '') BETWEEN 400 AND 4000, "
        "countIf(toDate(EventTime, 'UTC') != EventDate) FROM "
    )
    assert run(engine, question, relation) == [["40000", "40000", *"11110"]]


@pytest.mark.parametrize("size", [1, 7, 512, 1000])
def test_random_payload(engine: Embedded, size: int) -> None:
    source = open_source([f"generate://random?rows=1000&bytes={size}"], Options())
    relation = source.relation(list(source.listing().splits("t")), None, "")
    found = run(engine, "SELECT min(length(payload)), max(length(payload)) FROM ", relation)
    assert found == [[str(size), str(size)]]


@pytest.mark.parametrize(
    "text",
    ["generate://nope", "generate://trips?rows=x", "generate://trips?bytes=1",
     "generate://random?bytes=0", "generate://trips?seed=-1"],
)  # fmt: skip
def test_generator_usage(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_source([text], Options())
    assert caught.value.hint


@pytest.mark.parametrize("text", ["1e6", "1_000_000", "1M", "1000k"])
def test_rows(text: str) -> None:
    listing = open_source([f"generate://trips?rows={text}"], Options()).listing()
    assert listing.total_rows == 1_000_000


def test_a_billion_is_b() -> None:
    assert open_source(["generate://trips?rows=2B"], Options()).listing().total_rows == 2 * 10**9


# --- opening -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "texts", [[], [""], ["foo://x"], ["a.csv", "s3://b/k"], ["-", "a.csv"], ["s3:///key"]]
)
def test_open_source_usage(texts: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        open_source(texts, Options())
    assert caught.value.hint


# --- lake tables ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_files_of_a_snapshot_are_read_once_each(
    kind: str, tmp_path: Path, engine: Embedded
) -> None:
    """Alone and together, whatever was appended and compacted before."""
    rows = [
        pa.table({"a": pa.array(range(10 * n, 10 * n + 10)), "b": ["x"] * 10}) for n in range(5)
    ]
    folder = tmp_path / "t"
    if kind == "iceberg":
        table = iceberg(str(folder), rows[0])
        for more in rows[1:]:
            table.append(more)
    else:
        for number, more in enumerate(rows):
            write_deltalake(str(folder), more, mode="append")
            if number == 2:
                DeltaTable(str(folder)).optimize.compact()
    source = open_source([f"{kind}+{folder}"], Options())
    listing = source.listing()
    encoding = source.encoding(listing)
    splits = list(listing.splits("t"))
    assert len({split.id for split in splits}) == len(splits) == (5 if kind == "iceberg" else 3)
    assert total(engine, source, splits, encoding) == "50 1225"
    found = [total(engine, source, [split], encoding).split() for split in splits]
    assert [sum(int(row[n]) for row in found) for n in (0, 1)] == [50, 1225]
    described = run(engine, "DESCRIBE TABLE ", source.relation(splits[:1], encoding, ""))
    assert [row[:2] for row in described] == [["a", "Nullable(Int64)"], ["b", "Nullable(String)"]]
    assert source.changed(splits) == []
    probe = cast("Pullable", source).probe(splits[0])
    (seen,) = run(engine, probe.query)
    assert seen == [wanted for _, wanted in probe.wanted]
    Path(splits[0].uri).unlink()
    with pytest.raises(SourceError, match=re.escape(splits[0].uri)):
        source.changed(splits)


# --- tables of databases ------------------------------------------------------------------------


@pytest.mark.xdist_group("postgresql")
def test_a_table_of_postgresql(
    postgresql: PostgresqlServer, engine: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row is in one range, in one snapshot; ranges that are loaded are left out."""
    monkeypatch.setenv("PGPASSWORD", postgresql.password)
    table = f"contract_{os.getpid()}"
    postgresql.run(
        f"CREATE TABLE {table} (a bigint PRIMARY KEY, b text NOT NULL)",
        f"INSERT INTO {table} SELECT 7 * i - 1000, repeat('x', 80) "
        "FROM generate_series(1, 60000) i",
    )

    def opened() -> Any:
        return open_source([f"{postgresql.uri}/{table}"], Options())

    source = opened()
    assert isinstance(source, Streamed)
    assert isinstance(source, Continued)
    listing, encoding = source.listing(), source.encoding(source.listing())
    splits = list(listing.splits("t"))
    assert len(splits) == 16
    again = opened()
    assert next(again.listing().splits("t")).whole == splits[0].whole
    assert next(again.listing().splits("other")).whole != splits[0].whole
    again.close()
    everything = "60000 12540210000"
    postgresql.run(f"INSERT INTO {table} VALUES (0, 'later')")  # the snapshot is older
    assert total(engine, source, splits, encoding) == everything
    assert total(engine, source, splits[::-1], encoding) == everything
    each = [total(engine, source, [split], encoding).split() for split in splits]
    assert [sum(int(one[n]) for one in each) for n in (0, 1)] == [60_000, 12_540_210_000]
    assert source.changed(splits) == []
    uri, some = splits[0].uri, [(s.start or 0, s.stop or 0) for s in splits[3:5]]
    rest = list(source.listing_after({uri: some}).splits("t"))
    assert [s.id for s in rest] == [s.id for s in splits if s not in splits[3:5]]
    source.close()
    postgresql.run(f"DROP TABLE {table}")


def test_a_table_of_duckdb(engine: Embedded, tmp_path: Path) -> None:
    """Ranges of an integer key are known whatever else changes, those of places until it does."""
    file = tmp_path / "shop.duckdb"

    def run_there(*statements: str) -> None:
        with duckdb_at(file) as do:
            for statement in statements:
                do(statement)

    run_there(
        "CREATE TABLE keyed (a BIGINT PRIMARY KEY, b VARCHAR NOT NULL)",
        "CREATE TABLE plain (a BIGINT, b VARCHAR)",
        *(f"INSERT INTO {table} SELECT 7 * i - 1000, repeat('x', 80) "
          "FROM generate_series(1, 300000) AS g(i)" for table in ("keyed", "plain")),
    )  # fmt: skip
    for table in ("keyed", "plain"):
        source: Any = open_source([f"duckdb://{file}/{table}"], Options())
        assert isinstance(source, Streamed)
        assert isinstance(source, Continued)
        listing, encoding = source.listing(), source.encoding(source.listing())
        splits = list(listing.splits("t"))
        assert len(splits) > 1
        assert total(engine, source, splits, encoding) == "300000 314701050000"
        each = [total(engine, source, [split], encoding).split() for split in splits]
        assert [sum(int(one[n]) for one in each) for n in (0, 1)] == [300_000, 314_701_050_000]
        assert source.changed(splits) == []
        some = [(s.start or 0, s.stop or 0) for s in splits[1:]]
        landed = {splits[0].uri: some}
        (rest,) = source.listing_after(landed).splits("t")
        assert rest.id == splits[0].id
        source.close()
        run_there(f"INSERT INTO {table} VALUES (0, 'later')")
        again: Any = open_source([f"duckdb://{file}/{table}"], Options())
        if table == "keyed":
            (rest,) = again.listing_after(landed).splits("t")
            assert rest.id == splits[0].id
        else:
            with pytest.raises(SourceError, match="may have been updated or deleted"):
                again.listing_after(landed)
            whole = [(s.start or 0, s.stop or 0) for s in splits]
            assert not len(again.listing_after({splits[0].uri: whole}))
        again.close()


# --- topics --------------------------------------------------------------------------------------


@pytest.mark.xdist_group("kafka")
def test_topic(kafka: Kafka, engine: Embedded) -> None:
    topic = kafka.create(partitions=2)
    kafka.send(topic, (b"%d,x" % i for i in range(100)), 0)
    kafka.send(topic, (b"%d,x" % i for i in range(100, 120)), 1)
    source = open_source([f"kafka://{kafka.servers}/{topic}"], Options())
    assert isinstance(source, Continued)
    listing = source.listing()
    encoding = source.encoding(listing)
    splits = list(listing.splits("t"))
    assert [(s.uri, s.start, s.stop) for s in splits] == [
        (f"kafka://{topic}/0", 0, 100), (f"kafka://{topic}/1", 0, 20),
    ]  # fmt: skip
    assert total(engine, source, splits, encoding) == "120 7140"
    assert total(engine, source, splits[1:], encoding) == "20 2190"
    assert source.changed(splits) == []
    assert source.replayable
    again = open_source([f"kafka://localhost:{kafka.port}/{topic}"], Options()).listing()
    assert [s.id for s in again.splits("t")] == [s.id for s in splits]
    rest = source.listing_after({f"kafka://{topic}/0": [(0, 40), (60, 100)]})
    assert [(s.uri[-1], s.start, s.stop) for s in rest.splits("t")] == [("0", 40, 60), ("1", 0, 20)]
    sample = source.sample(listing, 1)
    described = run(engine, "DESCRIBE TABLE ", source.relation(sample, encoding, ""))
    assert [row[0] for row in described] == ["c1", "c2"]
    kafka.drop(topic)
    with pytest.raises(SourceError, match=f"cannot read the topic {topic}"):
        source.changed(splits)
