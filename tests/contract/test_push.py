"""Rows pushed to a real server: every format and compression, pieces, blocks, and what breaks."""

from __future__ import annotations

import bz2
import lzma
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from contract.engines import Guarded, connect, new_id, new_table, run, text
from lab.process import wait_until
from lab.proxy import Proxy
from rowfall.core.errors import EngineError, RowfallError, SourceError, UsageError
from rowfall.core.formats import find
from rowfall.core.model import Encoding, Kind, Outcome, Schema, Statement
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText, quote
from rowfall.deliver import streams
from rowfall.deliver.push import Insert, Pusher
from rowfall.plan import transport
from rowfall.plan.statements import FLOAT_PROBE, for_server
from rowfall.schema.projection import Scan
from rowfall.schema.text.headers import Headers
from rowfall.schema.text.records import Read
from rowfall.schema.types.reader_settings import reader_settings
from rowfall.schema.types.strict_reading import FileTraits, TextTraits, strict_column
from rowfall.sources import open_source
from rowfall.sources.base import Source
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.server import Server

# One worker of a parallel run starts the server.
pytestmark = pytest.mark.xdist_group("engine")

ROWS = 20_000
# Strings hold line breaks, and NULL is \\N.
SEEN = TextTraits(breaks=True, file=FileTraits(native=True))
TYPES = {
    "i": "Int64",
    "u": "UInt8",
    "f": "Float64",
    "n": "Nullable(Float32)",
    "d": "Date",
    "t": "DateTime('UTC')",
    "m": "Decimal(12, 3)",
    "s": "String",
    "o": "Nullable(String)",
    "l": "LowCardinality(String)",
}
VALUES = """\
SELECT toInt64(number) - 5 AS i, toUInt8(number) AS u, number * 1.239 AS f,
    if(number % 3 = 0, NULL, toFloat32(number / 7)) AS n, toDate('2020-01-01') + number % 999 AS d,
    toDateTime('2020-01-01 00:00:00', 'UTC') + number AS t, toDecimal64(number, 3) / 8 AS m,
    if(number % 5 = 0, 'a "quoted", text\\n\\\\with\\ttab', concat('r', toString(number))) AS s,
    if(number % 4 = 0, NULL, concat('o', toString(number))) AS o,
    toLowCardinality(toString(number % 9)) AS l"""
COMPRESSIONS = {
    "none": "",
    "gzip": ".gz",
    "zstd": ".zst",
    "lz4": ".lz4",
    "xz": ".xz",
    "bz2": ".bz2",
}
TEXTS = ["CSV", "CSVWithNames", "TSV", "TSVWithNames", "JSONEachRow"]
TYPED = ["Parquet", "ORC", "Arrow", "Avro", "Native"]


@pytest.fixture(scope="module")
def reader() -> Iterator[Embedded]:
    engine = Embedded(None, memory=1 << 30)
    yield engine
    engine.close()


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No pipe, thread or open file survives."""
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    before = len(os.listdir("/proc/self/fd"))
    yield
    wait_until(lambda: not any(folder.glob("rowfall-push-*")), 10, "pipes to be removed")
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before + 2, 10, "files to be closed")


def schema_of(format: str, types: Mapping[str, str] = TYPES) -> Schema:
    kind = find(format.removesuffix("WithNames")).kind
    named = kind is not Kind.TEXT or format.endswith("WithNames")
    seen = replace(SEEN, file=replace(SEEN.file, csv=format.startswith("CSV")))
    columns = (
        strict_column(n, n if named else f"c{at + 1}", t, kind, traits=seen)
        for at, (n, t) in enumerate(types.items())
    )
    return Schema(tuple(columns))


def encoding_of(format: str, compression: str = "none") -> Encoding:
    kind = find(format.removesuffix("WithNames")).kind
    return Encoding(format, compression, kind, null="\\N")


def make(engine: Embedded, path: Path, format: str, compression: str, select: str) -> None:
    """Let the local engine write a file; bz2 is packed here, it cannot, and xz, for which it takes
    20 s of CPU."""
    packed = {"bz2": bz2.compress, "xz": partial(lzma.compress, preset=0)}.get(compression)
    inner = "none" if packed else compression
    run(engine, f"INSERT INTO FUNCTION file('{path}', '{format}', 'auto', '{inner}') {select}",
        settings={"output_format_csv_crlf_end_of_line": 0,
                  "output_format_avro_string_column_pattern": ".*"})  # fmt: skip
    if packed:
        path.write_bytes(packed(path.read_bytes()))


def settings_of(engine: Embedded | Server, encoding: Encoding, schema: Schema) -> dict[str, Any]:
    wanted = {s.name: s.value for s in reader_settings(encoding, schema.columns)}
    wanted |= {"prefer_column_name_to_alias": 1, "insert_deduplicate": 0}
    return {name: value for name, value in wanted.items() if name in engine.facts.settings}


def reads_floats(server: Server) -> bool:
    """Whether the server takes floats of text exactly, as the survey asks it."""
    return text(server, FLOAT_PROBE, settings={"precise_float_parsing": 1}) == "1"


class Push:
    """One load by a Pusher."""

    def __init__(
        self, server: Server, reader: Embedded, streams: int = 2, *, packed: bool = False
    ) -> None:
        self.server, self.reader = server, reader
        self.pusher = Pusher(server, streams=streams, reader=lambda: reader, packed=packed)
        self.attempt = new_id()
        self.table = ""
        self.ticks: list[dict[str, int]] = []
        self._exact: bool | None = None

    def reads_floats(self) -> bool:
        if self._exact is None:
            self._exact = reads_floats(self.server)
        return self._exact

    def __call__(
        self, source: Source, encoding: Encoding | None, schema: Schema, **settings: Any
    ) -> Outcome:
        listing = source.listing()
        if not self.table:
            types = ", ".join(f"`{c.name}` {c.type}" for c in schema.columns)
            self.table = new_table(self.server, types)
        given = settings_of(self.server, encoding, schema) if encoding else {}
        if encoding is not None and encoding.is_csv and encoding.has_header:
            # As the sample gives it: rows are read by position.
            encoding = replace(encoding, names=tuple(c.source for c in schema.columns))
        schema = for_server(schema, encoding, exact=self.reads_floats()) if encoding else schema
        headers = Headers(source, encoding, lambda: self.reader.ask)
        return self.pusher.insert(
            Scan(source, list(listing.splits("")), encoding, schema, headers),
            Insert(SqlText.of(self.table), {**given, **settings}, self.attempt),
            lambda seen: self.ticks.append(dict(seen)),
        )

    def count(self, server: Server | None = None) -> int:
        return int(text(server or self.server, f"SELECT count() FROM {self.table}"))

    def checksum(self, schema: Schema, server: Server | None = None) -> str:
        return text(server or self.server, checksum(schema, self.table))


def checksum(schema: Schema, relation: str) -> str:
    """Over all values as text, by the types of the table."""
    each = ", ".join(
        f"ifNull(toString(CAST(`{c.name}`, {quote(c.type)})), '-')" for c in schema.columns
    )
    return f"SELECT count(), sum(cityHash64({each})) FROM {relation}"


def embedded_checksum(reader: Embedded, source: Source, encoding: Encoding, schema: Schema) -> str:
    """What the same load gives without a server."""
    splits = list(source.listing().splits(""))
    select = streams.local_select(Scan(source, splits, encoding, schema)).reveal()
    sql = checksum(schema, f"({select})")
    return text(reader, sql, settings=settings_of(reader, encoding, schema))


@pytest.fixture
def push(server: Server, reader: Embedded) -> Push:
    return Push(server, reader)


def still_running(server: Server, attempt: str) -> int:
    where = f"startsWith(query_id, '{attempt}')"
    return int(text(server, f"SELECT count() FROM system.processes WHERE {where}", lane=91))


# --- every format and compression ----------------------------------------------------------------


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format", TEXTS)
@pytest.mark.sampled(3)
def test_text_arrives_as_it_does_embedded(
    push: Push,
    reader: Embedded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
    compression: str,
) -> None:
    monkeypatch.setattr(transport, "SMALL_FILE", 0)  # the files are
    load(push, reader, tmp_path, format, compression)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("way", ["raw", "blocks", "packed blocks"])
@pytest.mark.parametrize("format", TYPED)
def test_typed_files_arrive_as_they_do_embedded(
    server: Server,
    reader: Embedded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
    way: str,
) -> None:
    monkeypatch.setattr(transport, "SMALL_FILE", 0 if way == "raw" else 1 << 30)
    push = Push(server, reader, packed=way == "packed blocks")
    load(push, reader, tmp_path, format, "none")


def load(push: Push, reader: Embedded, folder: Path, format: str, compression: str) -> None:
    """Three files, the same rows as the embedded engine reads."""
    types = TYPES if format != "Avro" else {k: v for k, v in TYPES.items() if k in "iufs"}
    schema = schema_of(format, types)
    encoding = encoding_of(format, compression)
    for number in range(3):
        path = folder / f"{number}.data{COMPRESSIONS[compression]}"
        select = f"SELECT {', '.join(types)} FROM ({VALUES} FROM numbers({number * ROWS}, {ROWS}))"
        make(reader, path, format, compression, select)
    source = open_source([f"{folder}/*.data*"], Options(format=format, compression=compression))
    outcome = push(source, encoding, schema)
    assert (outcome.rows_read, outcome.rows_written) == (3 * ROWS, 3 * ROWS)
    assert push.checksum(schema) == embedded_checksum(reader, source, encoding, schema)


# --- a big file in pieces ------------------------------------------------------------------------

QUOTED = {"i": "Int64", "s": "String", "x": "String"}
QUOTED_VALUES = (
    "SELECT number AS i, concat('a \"', toString(number % 77), '\", b\\n', "
    "repeat('c', number % 50)) AS s, concat('plain ', toString(number % 1000)) AS x"
)

PUSHING = """\
import re, sys
from contract.test_push import *
from rowfall.core.masked import Secret
port, user, password, path, format, table, streams = sys.argv[1:]
server = Server("127.0.0.1", int(port), user=user, password=Secret(password))
schema, encoding = schema_of(format, QUOTED), encoding_of(format)
source = open_source([path], Options(format=format))
out = Pusher(server, streams=int(streams), reader=None).insert(
    Scan(source, list(source.listing().splits("")), encoding,
         for_server(schema, encoding, exact=reads_floats(server))),
    Insert(SqlText.of(table), settings_of(server, encoding, schema), "big-" + table),
)
high = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]
print(out.rows_read, int(high) // 1024)
"""


@pytest.mark.long
@pytest.mark.parametrize("format", ["CSV", pytest.param("CSVWithNames", marks=pytest.mark.long)])
def test_a_big_file_in_pieces(
    server: Server, service: Guarded, reader: Embedded, tmp_path: Path, format: str
) -> None:
    """100 MB with quotes and line breaks, sent by a process that stays small: 40 to 60 MB."""
    path, rows = tmp_path / "big.data", 1_800_000
    make(reader, path, format, "none", f"{QUOTED_VALUES} FROM numbers({rows})")
    assert path.stat().st_size > 100_000_000
    sums = []
    for count in (1, 3):
        table = new_table(server, ", ".join(f"{n} {t}" for n, t in QUOTED.items()))
        done = subprocess.run(
            [sys.executable, "-c", PUSHING, str(service.http_port), service.user,
             service.password, str(path), format, table, str(count)],
            env={**os.environ, "PYTHONPATH": "tests:src"},
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        read, memory = map(int, done.stdout.split())
        assert read == rows
        assert memory < 100
        sums.append(text(server, f"SELECT count(), sum(cityHash64(*)) FROM {table}"))
        run(server, "SYSTEM FLUSH LOGS")
        assert len(server.status.logged([f"big-{table}_{n}" for n in range(20)])) == count
    assert sums[0] == sums[1]


def test_an_empty_line_within_a_file_stays_an_error(
    push: Push, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of a file it is none: a piece must not end with it unseen."""
    monkeypatch.setattr(streams, "LEAST_PIECE", 20)
    path = tmp_path / "a.csv"
    path.write_text("1,x\n" * 10 + "\n" + "2,y\n" * 10)
    one = opened(path, "CSV", {"a": "Int64", "b": "String"})
    size = streams.piece_size(list(one[0].listing().splits("")), 2)
    pieces = list(streams.pieces(reading(path), 81, one[1], {}, size))
    assert [piece.stop for piece in pieces] == [41, 81]  # the first one ends with the empty line
    with pytest.raises(RowfallError):
        push(*one)


def reading(path: Path) -> Read:
    data = path.read_bytes()
    return lambda at, length: data[at : at + length]


def opened(
    path: Path, format: str, types: Mapping[str, str], compression: str = "none"
) -> tuple[Source, Encoding, Schema]:
    source = open_source([str(path)], Options(format=format, compression=compression))
    return source, encoding_of(format, compression), schema_of(format, types)


# --- what does not fit ---------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", ["raw", "blocks", "packed blocks"])
def test_a_bad_value_names_its_column_and_ends_all_streams(
    server: Server, reader: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(transport, "SMALL_FILE", 0 if way == "raw" else 1 << 40)
    push = Push(server, reader, packed=way == "packed blocks")
    types = {"a": "UInt16", "b": "String"}
    good, bad = b"7,text\n" * 1_000_000, b"70000,text\n"
    (tmp_path / "1.csv").write_bytes(good + bad + good)
    (tmp_path / "2.csv").write_bytes(good * 3)
    source, encoding, schema = opened(tmp_path / "*.csv", "CSV", types)
    with pytest.raises(RowfallError) as caught:
        push(source, encoding, schema, max_insert_block_size=10_000)
    assert "UInt16" in caught.value.message
    assert "`a`" in caught.value.message or ".c1" in caught.value.message
    assert still_running(push.server, push.attempt) == 0
    assert still_running_here(push.reader, push.attempt) == 0


def still_running_here(reader: Embedded, attempt: str) -> int:
    where = f"startsWith(query, '/* {attempt}')"
    return int(text(reader, f"SELECT count() FROM system.processes WHERE {where}", lane=91))


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_a_column_that_a_header_lacks_is_an_error(
    push: Push, reader: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    monkeypatch.setattr(transport, "SMALL_FILE", 0)
    types = {"a": "Int64", "b": "Nullable(String)", "c": "Nullable(Float64)"}
    for number, names in enumerate(("a, b, c", "c, b, a", "a, b")):
        columns = "1 AS a, 'x' AS b, 2.5 AS c"
        select = f"SELECT {names} FROM (SELECT {columns})"
        make(reader, tmp_path / f"{number}.data", "CSVWithNames", compression, select)
    one = opened(tmp_path / "[01].data", "CSVWithNames", types, compression)
    assert push(*one).rows_read == 2
    assert text(push.server, f"SELECT sum(a), sum(c), any(b) FROM {push.table}") == "2\t5\tx"
    with pytest.raises(RowfallError, match="line 1: the header differs: it lacks c"):
        push(*opened(tmp_path / "*.data", "CSVWithNames", types, compression))


@pytest.mark.parametrize("format", ["CSV", "TSV", "JSONEachRow"])
@pytest.mark.parametrize("value", ["1.239", "-", ".", "1e400", "0.1", "12345.678901"])
def test_floats_are_read_exactly_or_not_at_all(
    push: Push, tmp_path: Path, format: str, value: str
) -> None:
    path = tmp_path / "a.data"
    path.write_text(f'{{"f":"{value}"}}\n' if format == "JSONEachRow" else f"{value}\n")
    one = opened(path, format, {"f": "Float64"})
    if value[-1:].isdigit() and value != "1e400":
        push(*one)
        assert text(push.server, f"SELECT f = {value} FROM {push.table}") == "1"
    else:
        with pytest.raises(RowfallError, match="f Float64"):
            push(*one)


@pytest.mark.parametrize("compression", [c for c in COMPRESSIONS if c != "none"])
@pytest.mark.parametrize("left_out", [1, 100, 0.4])
@pytest.mark.sampled(1)
def test_a_cut_file_is_never_a_short_one(
    push: Push, reader: Embedded, tmp_path: Path, compression: str, left_out: float
) -> None:
    types = {"a": "Int64", "b": "String"}
    path = tmp_path / "cut.data"
    select = "SELECT number AS a, toString(cityHash64(number)) AS b FROM numbers(100000)"
    make(reader, path, "CSV", compression, select)
    size = path.stat().st_size
    os.truncate(path, size - int(left_out if left_out >= 1 else size * left_out))
    source, encoding, schema = opened(path, "CSV", types, compression)
    splits = list(source.listing().splits(""))
    try:
        push(source, encoding, schema)
    except RowfallError:
        return
    assert compression in ("zstd", "lz4")  # the server takes a cut one for a short one
    assert [what for _, what in source.changed(splits) if "ends in the middle" in what]


def test_a_file_that_shrinks_or_goes(push: Push, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"1\n" * 1000)
    source, encoding, schema = opened(path, "CSV", {"a": "Int64"})
    listing = source.listing()
    source.listing = lambda: listing  # type: ignore[method-assign]
    os.truncate(path, 1000)
    with pytest.raises(SourceError, match="became shorter"):
        push(source, encoding, schema)
    path.unlink()
    with pytest.raises(SourceError, match="no such file"):
        push(source, encoding, schema)


def test_without_a_local_engine_blocks_are_refused(server: Server) -> None:
    push = Pusher(server, streams=2, reader=None)
    source = open_source(["generate://random?rows=10&bytes=100"], Options())
    splits = list(source.listing().splits(""))
    with pytest.raises(UsageError, match="an engine that reads them here"):
        push.insert(
            Scan(source, splits, None, schema_of("CSV")), Insert(SqlText.of("t"), {}, new_id())
        )


# --- stdin and generators ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "compression",
    ["none", "gzip", *(pytest.param(c, marks=pytest.mark.long) for c in ("bz2", "xz"))],
)
def test_stdin(
    push: Push,
    reader: Embedded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compression: str,
) -> None:
    path = tmp_path / "in"
    select = "SELECT number AS a, toString(cityHash64(number)) AS b FROM numbers(600000)"
    make(reader, path, "CSV", compression, select)  # more than the head that is read ahead
    with path.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        source = open_source(["-"], Options(format="CSV"))
        encoding = source.encoding(source.listing())
        assert encoding is not None
        assert encoding.compression == compression
        schema = schema_of("CSV", {"a": "Int64", "b": "String"})
        assert push(source, replace(encoding, null="\\N"), schema).rows_read == 600_000
    assert text(push.server, f"SELECT sum(a) FROM {push.table}") == str(sum(range(600_000)))
    os.close(source.fds[0])


def test_generated_rows_go_as_blocks(push: Push, reader: Embedded) -> None:
    source = open_source(["generate://trips?rows=300000"], Options())
    assert source.made is not None
    outcome = push(source, None, source.made)
    assert outcome.rows_read == outcome.rows_written == 300_000
    assert push.checksum(source.made) == text(
        reader,
        checksum(
            source.made,
            "(" + streams.local_select(Scan(source, list(source.listing().splits("")), None,
                                            source.made)).reveal() + ")",
        ),
        settings={"prefer_column_name_to_alias": 1},
    )  # fmt: skip


def test_any_select_of_the_local_engine(push: Push) -> None:
    schema = schema_of("CSV", {"a": "Int64", "b": "Nullable(String)"})
    table = new_table(push.server, "a Int64, b Nullable(String)")
    selects = [
        Statement(
            SqlText.of(
                f"SELECT toInt64(number) AS a, NULL AS b FROM numbers({n}) WHERE number % 2 = 0"
            )
        )
        for n in (100_000, 50_000, 10)
    ]
    into = Insert(SqlText.of(table), {}, push.attempt)
    out = push.pusher.insert_selects(selects, schema.columns, into)
    assert out.rows_written == 75_005
    assert text(push.server, f"SELECT count(), countIf(b IS NULL) FROM {table}") == "75005\t75005"


# --- lost connections, kills, deaths -------------------------------------------------------------


@contextmanager
def through(service: Guarded, reader: Embedded, streams: int = 2) -> Iterator[tuple[Push, Proxy]]:
    with Proxy(service.http_port) as proxy:
        server = connect(service, port=proxy.port)
        try:
            yield Push(server, reader, streams), proxy
        finally:
            server.close()


def plenty(folder: Path, files: int = 3, rows: int = 400_000) -> tuple[Source, Encoding, Schema]:
    """Files of 16 MB."""
    for number in range(files):
        lines = b"".join(b"%d,%030d\n" % (n, number) for n in range(rows))
        (folder / f"{number}.csv").write_bytes(lines)
    return opened(folder / "*.csv", "CSV", {"a": "Int64", "b": "String"})


def test_a_connection_cut_while_data_is_sent(
    service: Guarded, server: Server, reader: Embedded, tmp_path: Path
) -> None:
    one = plenty(tmp_path)
    with through(service, reader) as (push, proxy):
        push.reads_floats()  # a question of its own
        proxy.drop_after(up=20_000_000)
        with pytest.raises(EngineError, match="was lost while data was sent") as caught:
            push(*one)
        assert caught.value.transient
        assert still_running(server, push.attempt) == 0


def test_an_answer_that_is_lost_is_settled(
    service: Guarded, server: Server, reader: Embedded, tmp_path: Path
) -> None:
    one = plenty(tmp_path, files=1)
    with through(service, reader, streams=1) as (push, proxy):
        push.reads_floats()  # a question of its own

        def lose_the_answer() -> None:
            wait_until(lambda: proxy.passed["up"] > 14_000_000, 20, "data")
            proxy.drop_after(down=1)

        thread = threading.Thread(target=lose_the_answer)
        thread.start()
        outcome = push(*one)
        thread.join()
        assert outcome.rows_read == 400_000
        assert push.count(server) == 400_000


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", ["raw", "blocks"])
def test_kill_ends_every_stream(
    service: Guarded,
    server: Server,
    reader: Embedded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    monkeypatch.setattr(transport, "SMALL_FILE", 0 if way == "raw" else 1 << 40)
    one = plenty(tmp_path)
    with through(service, reader) as (push, proxy):
        push.reads_floats()  # a question of its own
        caught: list[BaseException] = []

        def load() -> None:
            try:
                push(*one)
            except BaseException as error:
                caught.append(error)

        thread = threading.Thread(target=load)
        proxy.throttle(2_000_000)
        thread.start()
        wait_until(lambda: still_running(server, push.attempt) == 2, 20, "streams to run")
        started = time.monotonic()
        push.pusher.kill(push.attempt)
        thread.join(10)
        assert time.monotonic() - started < 5
        assert isinstance(caught[0], EngineError)
        assert caught[0].code == 394
        assert still_running(server, push.attempt) == 0
        assert still_running_here(reader, push.attempt) == 0


def test_a_local_engine_that_dies_is_no_end_of_data(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "SMALL_FILE", 1 << 40)
    one = plenty(tmp_path, rows=1_000_000)
    own = Embedded(None, memory=1 << 30)
    try:
        push = Push(server, own)
        real, dead = streams._read, threading.Event()

        def read_and_kill(descriptor: int) -> bytes | None:
            data = real(descriptor)
            if data and not dead.is_set():
                dead.set()
                os.kill(own.pid, signal.SIGKILL)
            return data

        monkeypatch.setattr(streams, "_read", read_and_kill)
        with pytest.raises(EngineError, match="killed by signal 9"):
            push(*one)
        assert still_running(server, push.attempt) == 0
    finally:
        own.close()


def test_a_pause_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that has nothing to send gives empty pieces, and ends with its attempt."""
    monkeypatch.setattr(streams, "QUIET_SECONDS", 0.1)
    source, sink = os.pipe()
    body = streams.readings(lambda: streams._read(source), lambda: None)
    assert next(body) == b""
    os.write(sink, b"x")
    assert next(body) == b"x"
    assert next(body) == b""
    os.close(sink)
    assert list(body) == []
    os.close(source)


def test_ticks_are_sums(push: Push, tmp_path: Path) -> None:
    one = plenty(tmp_path, rows=1_000_000)
    out = push(*one)
    seen = [tick["read_rows"] for tick in push.ticks]
    assert seen == sorted(seen)
    assert all(tick["sent_bytes"] <= out.bytes_read + 100_000_000 for tick in push.ticks)
    assert out.rows_read == 3_000_000
