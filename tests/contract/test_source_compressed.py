"""Packed objects, whole and broken, as the engine reads them from every kind of source."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import itertools
import lzma
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contract.stores import object_store
from lab.http import Web
from lab.process import wait_until
from lab.seaweed import Seaweed
from rowfall.core.errors import RowfallError, SourceError, UsageError
from rowfall.core.listing import Listing, Split
from rowfall.core.model import Encoding, Statement
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.sources import open_source
from rowfall.sources.base import Source
from rowfall.systems.clickhouse.embedded import Embedded

STRUCTURE = "`a` Int64, `b` String"
ROWS = b"".join(b"%d,abc\n" % n for n in range(200_000))  # unpacked more than a pipe holds
SUM = f"200000 {sum(range(200_000))}"
Put = Callable[[str, bytes], str]
_numbers = itertools.count()


@pytest.fixture(params=["files", "s3", "gs", "az", "http"])
def put(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Puts an object; gives its URI."""
    place = f"packed-{os.getpid()}-{next(_numbers)}"
    if request.param == "files":

        def write(key: str, body: bytes) -> str:
            (tmp_path / key).write_bytes(body)
            return str(tmp_path / key)

        return write
    if request.param == "http":
        server: Web = request.getfixturevalue("web")
        return lambda key, body: server.put(f"{place}/{key}", body)
    store = object_store(request.param, request, monkeypatch)

    def upload(key: str, body: bytes) -> str:
        store.put(key, body)
        return store.at(key)

    return upload


@pytest.fixture(scope="module")
def engine() -> Iterator[Embedded]:
    engine = Embedded(None, memory=1 << 30)
    yield engine
    engine.close()


def opened(*uris: str) -> tuple[Source, Listing, Encoding]:
    source = open_source(uris, Options())
    listing = source.listing()
    encoding = source.encoding(listing)
    assert encoding is not None
    return source, listing, encoding


def run(engine: Embedded, *parts: str | SqlText) -> list[list[str]]:
    settings = {"input_format_csv_detect_header": 0}
    statement = Statement(SqlText.of(*parts), settings, format="TabSeparatedRaw")
    return [line.split("\t") for line in engine.run(statement).data.decode().splitlines()]


def total(engine: Embedded, source: Source, splits: list[Split], encoding: Encoding) -> str:
    relation = source.relation(splits, encoding, STRUCTURE)
    return " ".join(run(engine, "SELECT count(), sum(a) FROM ", relation)[0])


def pipe_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("pipe")]


# --- bz2 ----------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
def test_bz2(put: Put, engine: Embedded) -> None:
    half = ROWS.index(b"100000,")
    uri = put("a.csv.bz2", bz2.compress(ROWS[:half]) + bz2.compress(ROWS[half:]))
    source, listing, encoding = opened(uri)
    assert encoding.compression == "bz2"
    splits = list(listing.splits("t"))
    for _ in range(2):  # an attempt may be repeated
        assert total(engine, source, splits, encoding) == SUM
        assert source.changed(splits) == []
    sample = source.sample(listing, 3)
    described = run(engine, "DESCRIBE ", source.relation(sample, encoding, ""))
    assert [row[0] for row in described] == ["c1", "c2"]
    first = run(engine, "SELECT * FROM ", source.relation(sample, encoding, STRUCTURE), " LIMIT 1")
    assert first == [["0", "abc"]]
    assert source.changed(splits) == []


def test_bz2_with_a_nasty_name(
    s3: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Embedded
) -> None:
    """Names that the engine cannot quote and that one of our S3 clients cannot send."""
    name = "a\t{1}*?'é, b.csv.bz2"
    for key, value in s3.env.items():
        monkeypatch.setenv(key, value)
    bucket = f"packed-{os.getpid()}-{next(_numbers)}"
    s3.create_bucket(bucket)
    s3.put(bucket, f"n/{name}", bz2.compress(ROWS))
    (tmp_path / name).write_bytes(bz2.compress(ROWS))
    for folder in (f"s3://{bucket}/n/", f"{tmp_path}/"):
        source, listing, encoding = opened(folder)
        splits = list(listing.splits("t"))
        assert total(engine, source, splits, encoding) == SUM
        assert source.changed(splits) == []


@pytest.mark.sampled(2)
def test_many_bz2_and_others(put: Put, engine: Embedded) -> None:
    packers = (bz2.compress, gzip.compress, bytes)
    endings = (".bz2", ".gz", "")
    uris = [put(f"{n}.csv{endings[n % 3]}", packers[n % 3](b"%d,x\n" % n)) for n in range(40)]
    source, listing, encoding = opened(*uris)
    assert encoding.compression == "auto"
    splits = list(listing.splits("t"))
    assert total(engine, source, splits, encoding) == "40 780"
    described = run(engine, "DESCRIBE ", source.relation(splits, encoding, ""))
    assert [row[0] for row in described] == ["c1", "c2"]
    only = [split for split in splits if split.uri.endswith("bz2")]
    assert total(engine, source, only, encoding) == "14 273"
    assert source.changed(splits) == []


@pytest.mark.parametrize("place", ["end", "middle", "flipped"])
def test_broken_bz2(put: Put, engine: Embedded, place: str) -> None:
    body = bz2.compress(ROWS)
    broken = {
        "end": body[:-1],
        "middle": body[: len(body) // 2],
        "flipped": body[:-30] + bytes([body[-30] ^ 1]) + body[-29:],
    }[place]
    uris = put("a.csv.bz2", bz2.compress(b"1,x\n")), put("b.csv.bz2", broken)
    source, listing, encoding = opened(*uris)
    splits = list(listing.splits("t"))
    with contextlib.suppress(RowfallError):  # the last row may be half a row
        total(engine, source, splits, encoding)
    ((split, text),) = source.changed(splits)
    assert split == splits[1]
    assert text.startswith("its bz2 stream is broken: ")


def test_bz2_that_changes_before_it_is_read(put: Put, engine: Embedded) -> None:
    uri = put("a.csv.bz2", bz2.compress(ROWS))
    source, listing, encoding = opened(uri)
    splits = list(listing.splits("t"))
    put("a.csv.bz2", bz2.compress(b"1,x\n"))
    total(engine, source, splits, encoding)
    ((_, text),) = source.changed(splits)
    assert text.startswith(("changed from ", "its bz2 stream is broken"))


@pytest.mark.sampled(2)
def test_a_statement_that_fails_leaves_nothing(put: Put, engine: Embedded) -> None:
    bad = ROWS[: len(ROWS) // 2] + b"oops,x\n" + ROWS
    uris = [put(f"{n}.csv.bz2", bz2.compress(bad)) for n in range(4)]
    source, listing, encoding = opened(*uris)
    splits = list(listing.splits("t"))
    with pytest.raises(RowfallError):
        total(engine, source, splits, encoding)
    assert source.changed(splits) == []
    wait_until(lambda: not pipe_threads(), 10, "the threads of pipes to end")


def test_bz2_of_a_format_with_a_footer(put: Put) -> None:
    with pytest.raises(UsageError, match="packed with bz2"):
        opened(put("a.parquet.bz2", bz2.compress(b"PAR1")))


def test_not_bz2_at_all(put: Put, engine: Embedded) -> None:
    """Alone it is read as what it is; among files that are packed it is a broken one."""
    plain = put("a.csv.bz2", ROWS)
    source, listing, encoding = opened(plain)
    assert encoding.compression == "none"
    assert "a.csv.bz2 is not packed: not bz2, as its name says" in "".join(source.notes)
    splits = list(listing.splits("t"))
    assert total(engine, source, splits, encoding) == SUM
    assert source.changed(splits) == []
    source, listing, encoding = opened(plain, put("b.csv.bz2", bz2.compress(b"1,x\n")))
    assert encoding.compression == "bz2"
    with pytest.raises(SourceError, match="bz2 stream is broken: invalid data stream"):
        source.relation(source.sample(listing, 1), encoding, "")


@pytest.mark.parametrize("name", ["a.csv.bz2", "a.csv.gz", "a.csv.xz"])
@pytest.mark.sampled(2)
def test_cut_inside_the_signature(put: Put, engine: Embedded, name: str) -> None:
    pack = {"bz2": bz2.compress, "gz": gzip.compress, "xz": lzma.compress}[name.rpartition(".")[2]]
    whole = pack(ROWS)
    for length in (1, 3):
        try:
            source, listing, encoding = opened(put(name, whole[:length]))
            splits = list(listing.splits("t"))
            total(engine, source, splits, encoding)
        except RowfallError:
            continue
        assert source.changed(splits)


# --- cut streams that the engine takes for short ones -------------------------------------------


def _zstd(*blocks: bytes) -> bytes:
    head = (0xFD2FB528).to_bytes(4, "little") + b"\x00\x58"
    return head + b"".join(
        (len(block) << 3 | (n == len(blocks) - 1)).to_bytes(3, "little") + block
        for n, block in enumerate(blocks)
    )


def _lz4(*blocks: bytes) -> bytes:
    head = (0x184D2204).to_bytes(4, "little") + b"\x60\x70\x73"
    body = b"".join((len(b) | 1 << 31).to_bytes(4, "little") + b for b in blocks)
    return head + body + bytes(4)


@pytest.mark.parametrize(("name", "pack"), [("zstd", _zstd), ("lz4", _lz4)])
def test_cut_between_rows(
    put: Put, engine: Embedded, name: str, pack: Callable[..., bytes]
) -> None:
    whole = pack(b"1,a\n2,b\n", b"3,c\n")
    cut = whole[: whole.index(b"2,b\n") + 4]
    ending = {"zstd": "zst", "lz4": "lz4"}[name]
    uris = put(f"a.csv.{ending}", whole), put(f"b.csv.{ending}", cut)
    source, listing, encoding = opened(*uris)
    splits = list(listing.splits("t"))
    # If this raises one day, the engine has learned to see it by itself.
    assert total(engine, source, splits, encoding) == "5 9"
    assert source.changed(splits) == [(splits[1], f"its {name} stream ends in the middle")]


# --- stdin --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "options", "rows", "said"),
    [
        (bz2.compress(ROWS), Options(), SUM, None),
        (bz2.compress(b"1,x\n") + bz2.compress(b"2,y\n"), Options(), "2 3", None),
        (bz2.compress(ROWS)[:-1], Options(), None,
         "its bz2 stream is broken: it ends in the middle"),
        (_zstd(b"1,a\n", b"2,b\n"), Options(format="CSV"), "2 3", None),
        (_zstd(b"1,a\n", b"2,b\n")[:-7], Options(format="CSV"), "1 1",
         "its zstd stream ends in the middle"),
    ],
)  # fmt: skip
def test_stdin(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    body: bytes,
    options: Options,
    rows: str | None,
    said: str | None,
) -> None:
    (tmp_path / "in").write_bytes(body)
    with (tmp_path / "in").open("rb") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        source = open_source(["-"], options)
        listing = source.listing()
    encoding = source.encoding(listing)
    assert encoding is not None
    splits = list(listing.splits("t"))
    engine = Embedded(None, memory=1 << 30, fds=source.fds)
    try:
        found = total(engine, source, splits, encoding)
        assert rows is None or found == rows
        assert source.changed(splits) == ([(splits[0], said)] if said else [])
    finally:
        engine.close()
