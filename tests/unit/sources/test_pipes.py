"""bz2 through named pipes: every byte arrives, every break is remembered, nothing is left."""

from __future__ import annotations

import bz2
import gc
import gzip
import lzma
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.process import wait_until
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Kind
from rowfall.sources import pipes
from rowfall.sources.base import Streamed
from rowfall.sources.pipes import (
    STREAMS,
    BrokenStreamError,
    Pipes,
    Streams,
    check_bz2,
    packed_in_bz2,
    unpack_bz2,
    unpack_streams,
)  # fmt: skip
from rowfall.stores import http
from rowfall.stores.patience import Patience

CSV = Encoding("CSV", "bz2", Kind.TEXT)
TEXT = b"".join(b"%d,abc\n" % n for n in range(50_000))


class Owner:
    """Stands for the source at whose end the pipes go."""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipes]:
    monkeypatch.setattr(pipes.tempfile, "tempdir", str(tmp_path))
    _others.clear()
    _others.update(threading.enumerate())
    owner = Owner()
    made = Pipes(owner)
    yield made
    made.close()
    wait(lambda: not threads())
    assert list(tmp_path.iterdir()) == []


def opener(*chunks: bytes | Exception) -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        for chunk in chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    return pieces


def paths_of(made: Pipes, *objects: tuple[str, Callable[[], Iterator[bytes]]]) -> list[str]:
    made.function(objects, CSV, "a String")
    return [pipe.path for pipe in made._waiting[: len(objects)]]


_others: set[threading.Thread] = set()
"""Threads of tests that the same worker has run before."""


def threads() -> list[str]:
    own = set(threading.enumerate()) - _others
    return [t.name for t in own if t.name.startswith("pipe")]


def wait(ready: Callable[[], object]) -> None:
    wait_until(lambda: bool(ready()), 10, "the threads")


# --- unpacking ----------------------------------------------------------------------------------


PACKERS = {"gzip": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@given(
    st.lists(st.binary(max_size=200), min_size=1, max_size=4), st.integers(1, 40),
    st.integers(0, 9), st.sampled_from(sorted(PACKERS)),
)  # fmt: skip
def test_streams_in_any_pieces(texts: list[bytes], step: int, padding: int, packed: str) -> None:
    data = b"".join(map(PACKERS[packed], texts)) + bytes(padding)
    chunks = (data[at : at + step] for at in range(0, len(data), step))
    assert b"".join(unpack_streams(chunks, packed)) == b"".join(texts)


@pytest.mark.parametrize("packed", PACKERS)
def test_a_stream_is_given_little_of_what_follows(
    packed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives that back as a copy: a million empty streams in chunks of 1 MiB took minutes."""
    begin, given = STREAMS[packed], []

    class Watched:
        def __init__(self) -> None:
            self.own = begin()

        def __getattr__(self, name: str) -> object:
            return getattr(self.own, name)

        def decompress(self, data: bytes, most: int) -> bytes:
            given.append(len(data))
            return bytes(self.own.decompress(data, most))

    monkeypatch.setitem(STREAMS, packed, Watched)
    pack = PACKERS[packed]
    data = pack(b"1\n") + pack(b"") * 5000 + pack(b"2\n")
    assert b"".join(unpack_streams([data], packed)) == b"1\n2\n"
    assert max(given) <= 16 << 10


def test_every_cut_is_broken() -> None:
    first, second = bz2.compress(b"1,a\n"), bz2.compress(b"2,b\n" * 50)
    for size in range(len(first + second)):
        if size == len(first):  # between two streams nobody can tell
            continue
        with pytest.raises(BrokenStreamError):
            list(unpack_bz2([(first + second)[:size]]))


@pytest.mark.parametrize("body", [b"a,b\n1,2\n", bz2.compress(b"1\n") + b"garbage"])
def test_other_bytes_are_broken(body: bytes) -> None:
    with pytest.raises(BrokenStreamError):
        list(unpack_bz2([body]))


def test_pieces_are_bounded() -> None:
    pieces = [len(piece) for piece in unpack_bz2([bz2.compress(bytes(20 << 20))])]
    assert max(pieces) <= 1 << 20
    assert sum(pieces) == 20 << 20


# --- pipes --------------------------------------------------------------------------------------


def test_pipes_are_filled_side_by_side(made: Pipes, monkeypatch: pytest.MonkeyPatch) -> None:
    """One core and readers that open all pipes before they read any: nobody waits for ever."""
    monkeypatch.setattr(pipes, "_CORES", threading.BoundedSemaphore(1))
    body = TEXT * 4  # more than a pipe holds
    packed = bz2.compress(body)
    objects = [(f"/d/{n}.csv.bz2", opener(packed)) for n in range(5)]
    paths = paths_of(made, *objects)
    assert [path.rpartition("-")[2] for path in paths] == [f"{n}.csv" for n in range(5)]
    readers = [open(path, "rb") for path in paths]  # noqa: SIM115
    wait(lambda: len(threads()) == 5)  # the doorkeeper has gone
    for reader in reversed(readers):
        with reader:
            assert reader.read() == body
    assert [made.broken(uri) for uri, _ in objects] == [None] * 5


def test_more_pipes_than_are_tried_at_once(made: Pipes) -> None:
    packed = bz2.compress(b"1,a\n")
    paths = paths_of(made, *((f"/d/{n}.csv.bz2", opener(packed)) for n in range(150)))
    assert len(threads()) == 1
    for path in reversed(paths):
        assert Path(path).read_bytes() == b"1,a\n"
    wait(lambda: not threads())


def test_small_objects_are_files(made: Pipes) -> None:
    """They are gone when the load has asked how their reading went; a broken one is empty."""

    def breaks() -> Iterator[bytes]:
        yield b"half"
        raise SourceError("cut off")

    objects = [("a.csv", lambda: iter([b"1\n", b"2\n"])), ("b.csv", breaks)]
    paths = [Path(path) for path in made.open(objects, {"a.csv", "b.csv"})]
    assert [path.is_file() for path in paths] == [True, True]
    assert [path.read_bytes() for path in paths] == [b"1\n2\n", b""]
    again = Path(made.open(objects[:1], {"a.csv"})[0])
    assert not paths[0].exists()
    assert made.broken("a.csv") is None
    assert not again.exists()
    assert str(made.error("b.csv")) == "cut off"
    assert not paths[1].exists()


def test_a_break_is_remembered_before_the_end(made: Pipes) -> None:
    packed = bz2.compress(TEXT)
    for number in range(20):
        uri = f"/d/{number}.bz2"
        (path,) = paths_of(made, (uri, opener(packed[:-1])))
        Path(path).read_bytes()
        assert made.broken(uri) == "its bz2 stream is broken: it ends in the middle"
    (path,) = paths_of(made, (uri, opener(packed)))
    assert Path(path).read_bytes() == TEXT
    assert made.broken(uri) is None, "the next attempt starts clean"


def test_a_read_error_is_remembered(made: Pipes) -> None:
    packed = bz2.compress(TEXT)[:1000]
    error = SourceError("cannot read s3://b/k: access denied")
    for problem, said in (
        (error, "reading it failed: access denied"),
        (OSError(5, "Input/output error"), "reading it failed: input/output error"),
        (ZeroDivisionError(), "reading it failed: zerodivisionerror"),
    ):
        (path,) = paths_of(made, ("s3://b/k", opener(packed, problem)))
        Path(path).read_bytes()
        assert made.broken("s3://b/k") == said


def test_a_transient_error_is_raised(made: Pipes) -> None:
    error = SourceError("cannot read http://h/k: 503", transient=True)
    (path,) = paths_of(made, ("http://h/k", opener(error)))
    Path(path).read_bytes()
    with pytest.raises(SourceError, match="503"):
        made.broken("http://h/k")


def test_a_reader_that_stops_early_is_no_error(made: Pipes) -> None:
    (path,) = paths_of(made, ("/d/a.bz2", opener(bz2.compress(TEXT * 4))))
    with open(path, "rb") as file:
        file.read(100)
    wait(lambda: not threads())
    assert made.broken("/d/a.bz2") is None


def test_unopened_pipes_go(made: Pipes, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = ("/d/a.bz2", opener()), ("/d/b.bz2", opener())
    old = paths_of(made, a, b)
    new = paths_of(made, a)
    assert all(map(os.path.exists, old + new)), "one statement may read an object twice"
    monkeypatch.setattr(pipes, "_STALE", 0)
    newer = paths_of(made, a)
    assert [os.path.exists(path) for path in old + new + newer] == [False, True, False, True]
    assert made.broken(a[0]) is None
    assert not os.path.exists(newer[0])
    assert os.path.exists(old[1])


def test_all_goes_with_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes.tempfile, "tempdir", str(tmp_path))
    owner = Owner()
    made = Pipes(owner)
    paths_of(made, ("/d/a.bz2", opener()))
    assert len(threads()) == 1
    del owner
    gc.collect()
    wait(lambda: not threads())
    assert list(tmp_path.iterdir()) == []


def test_samples_are_ordinary_files(made: Pipes, tmp_path: Path) -> None:
    packed = tmp_path / "a.csv.bz2"
    packed.write_bytes(bz2.compress(TEXT) * 20)
    opener_ = partial(pipes.read_file, str(packed))
    first = made.function([(str(packed), opener_)], CSV, "").text.reveal()
    assert made.function([(str(packed), opener_)], CSV, "").text.reveal() == first
    (sample,) = made._samples.values()
    body = Path(sample).read_bytes()
    assert (TEXT * 20).startswith(body)
    assert body.endswith(b"\n")
    assert 3 << 20 < len(body) < 6 << 20
    packed.unlink()
    with pytest.raises(SourceError, match=r"no\.bz2: its bz2 stream is broken: invalid data"):
        made.function([("no.bz2", opener(b"a,b\n"))], CSV, "")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nBZh9", "broke 996 bytes before the end"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nBZ", "broke before the end"),
        (
            b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
            "the server answered 503 Busy",
        ),
    ],
)
def test_a_lost_connection_is_no_end(answer: bytes, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1 << 16)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(SourceError, match=said) as caught:
            list(http._pieces(f"http://127.0.0.1:{server.getsockname()[1]}/a", None, Patience()))
        thread.join()
    assert caught.value.transient


# --- which --------------------------------------------------------------------------------------


def test_choose() -> None:
    names = ["/d/a.csv.bz2", "/d/b.csv", "http://h/c.csv.bz2?key=***", "s3://b/d.csv.gz"]
    splits = [Split("", name, "", 1) for name in names]
    picked = {
        c: packed_in_bz2(splits, Encoding("CSV", c, Kind.TEXT))[0] for c in ("auto", "bz2", "gzip")
    }
    assert [s.uri for s in picked["auto"]] == [names[0], names[2]]
    assert picked["bz2"] == splits
    assert picked["gzip"] == []
    assert packed_in_bz2(splits, None) == ([], splits)


def test_formats_with_a_footer_are_refused() -> None:
    for packed in ("bz2", "auto"):
        with pytest.raises(UsageError, match="Parquet packed with bz2"):
            check_bz2(Encoding("Parquet", packed, Kind.TYPED), ["a.parquet", "b.parquet.bz2"])
    fine = Encoding("Parquet", "auto", Kind.TYPED)
    assert check_bz2(fine, ["a.parquet", "b.parquet.gz"]) is fine


# --- streams ------------------------------------------------------------------------------------


class Numbers(Streams):
    """A source whose splits are ranges of numbers, as lines."""

    def __init__(self, broken: Exception | None = None) -> None:
        super().__init__()
        self.broken = broken
        self.left = False

    def stream(self, split: Split) -> Iterator[bytes]:
        try:
            for number in range(split.start or 0, split.stop or 0):
                yield b"%d\n" % number
            if self.broken is not None:
                raise self.broken
        finally:
            self.left = True


def numbered(start: int, stop: int) -> Split:
    return Split(f"{start}", "numbers://n", "v", None, start, stop)


def test_streams_go_through_pipes() -> None:
    source = Numbers()
    assert isinstance(source, Streamed)
    splits = [numbered(0, 3), numbered(3, 5)]
    texts = [Path(path).read_bytes() for path in source.pipes(splits)]
    assert texts == [b"0\n1\n2\n", b"3\n4\n"]
    assert source.changed(splits) == []
    described = str(source.relation(splits, replace(CSV, compression="none"), "n UInt64"))
    assert described.startswith("file([")
    assert source.changed(splits) == []  # and pipes that nobody opened are gone


def test_a_stream_that_is_left_lets_go() -> None:
    source = Numbers()
    (path,) = source.pipes([numbered(0, 10_000_000)])
    with open(path, "rb") as reader:
        assert reader.read(4) == b"0\n1\n"
    wait(lambda: source.left)
    assert source.changed([numbered(0, 10_000_000)]) == []


def test_an_empty_piece_asks_whether_the_stream_is_read() -> None:
    """A stream that does not know its end is left when its reader goes; it may say why then."""

    class Endless(Streams):
        said: Exception | None = None

        def stream(self, split: Split) -> Iterator[bytes]:
            try:
                yield b"all"
                while True:
                    yield b""
            except GeneratorExit:
                if self.said is not None:
                    raise self.said from None

    source, split = Endless(), numbered(0, 3)
    (path,) = source.pipes([split])
    with open(path, "rb") as reader:
        assert reader.read(3) == b"all"
    assert source.changed([split]) == []
    source.said = SourceError("the server broke off")
    (path,) = source.pipes([split])
    with open(path, "rb") as reader:
        assert reader.read(3) == b"all"
    with pytest.raises(SourceError, match="broke off"):
        source.changed([split])


def test_what_broke_a_stream_is_told_for_its_own_range_only() -> None:
    gone = SourceError("the server went away", transient=True)
    source = Numbers(gone)
    split, other = numbered(0, 3), numbered(3, 5)
    (path,) = source.pipes([split])
    assert Path(path).read_bytes() == b"0\n1\n2\n"
    assert source.changed([other]) == []
    with pytest.raises(SourceError, match="went away"):
        source.changed([other, split])
    source.broken = ValueError("odd")
    (path,) = source.pipes([split])
    Path(path).read_bytes()
    assert source.changed([split]) == [(split, "reading it failed: odd")]
