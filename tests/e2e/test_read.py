"""``rowfall.read``: rows of a source as a stream of Arrow, for other libraries."""

from __future__ import annotations

import _thread
import functools
import gc
import gzip
import json
import operator
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

import rowfall
from lab.http import Web
from lab.postgresql import PostgresqlServer
from lab.process import wait_until
from lab.seaweed import Seaweed
from rowfall.run.read import _Bytes
from rowfall.systems.clickhouse import prestart
from rowfall.systems.clickhouse.embedded import Embedded

ROWS = 200_000  # four batches


def text(rows: int = ROWS) -> str:
    lines = (f"{n},n{n},{n / 8},2024-02-{n % 28 + 1:02} 10:00:00\n" for n in range(rows))
    return "id,name,price,at\n" + "".join(lines)


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    path = tmp_path / "trips.csv.gz"
    path.write_bytes(gzip.compress(text().encode(), 1))
    return path


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("an embedded engine was started")

    monkeypatch.setattr(Embedded, "_start", refused)
    monkeypatch.setattr(prestart, "_spawn", refused)


def programs() -> int:
    """Return the number of programs that this process has started and that run."""
    return len(found_programs())


def found_programs() -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")
        except OSError:
            continue
        own = fields[2].split()[1] == str(os.getpid())
        if own and "rowfall-decode" in fields[0]:
            found.append(int(stat.parent.name))
    return found


def test_others_take_the_rows(trips: Path, no_engine: None) -> None:
    frame = polars.DataFrame(rowfall.read(trips))
    assert frame.shape == (ROWS, 4)
    assert frame["id"].to_list() == list(range(ROWS))
    assert frame.schema["at"] == polars.Datetime("ms", "UTC")
    table = pa.table(rowfall.read(trips))
    assert table.schema.field("at").type == pa.timestamp("s", "UTC")
    assert table.column("price").to_pylist() == [n / 8 for n in range(ROWS)]
    assert list(rowfall.read(trips).df()["name"][:2]) == ["n0", "n1"]
    rows = rowfall.read(trips)
    assert duckdb.sql("SELECT count(*), sum(id) FROM rows").fetchall() == [(ROWS, 19999900000)]
    assert rows.rows == ROWS
    assert rows.report is not None
    assert rows.report.rows == ROWS
    assert programs() == 0


def test_rows_are_read_once_and_late(trips: Path) -> None:
    with rowfall.read(trips) as rows:
        assert repr(rows) == f"rows of {trips}: not read yet"
        assert programs() == 0
        assert pa.schema(rows).names == ["id", "name", "price", "at"]
        assert "  price  Float64" in repr(rows)
        assert "0 rows taken so far" in repr(rows)
        assert "<pre>rows of" in rows._repr_html_()
        seen = []
        for batch in rows:
            seen.append(pa.record_batch(batch).num_rows)
            if len(seen) == 2:
                break
        assert seen == [65_536, 65_536]
        assert f"{sum(seen):,} rows taken so far" in repr(rows)
        with pytest.raises(rowfall.UsageError, match="have been taken"):
            polars.DataFrame(rows)
    assert programs() == 0
    assert "then closed" in repr(rows)
    with pytest.raises(rowfall.UsageError, match="closed"):
        _ = rowfall.read(trips).__exit__() or _closed(trips).schema


def _closed(trips: Path) -> rowfall.RowReader:
    rows = rowfall.read(trips)
    rows.close()
    return rows


@pytest.mark.long
def test_reader_that_is_let_go_ends_its_program(trips: Path) -> None:
    rows: Any = rowfall.read(trips)
    assert rows.schema is not None
    assert programs() == 1
    del rows
    gc.collect()
    wait_until(lambda: programs() == 0, 10, "the program ends")
    taken = pa.RecordBatchReader.from_stream(rowfall.read(trips))
    taken.read_next_batch()
    assert programs() == 1  # it waits, as nobody takes more
    taken.close()
    del taken
    gc.collect()
    wait_until(lambda: programs() == 0, 10, "the program of a capsule ends")


def test_bad_row_is_named_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = text().splitlines()
    lines[150_001] = "x,n,1,2024-02-01 10:00:00"
    path = tmp_path / "bad.csv"
    path.write_text("\n".join(lines) + "\n")
    rows = rowfall.read(path)
    with pytest.raises(rowfall.LoadError) as found:
        rows.arrow()
    (failure,) = found.value.report.failures
    assert (failure.line, failure.column, failure.value) == (150_002, "id", "x")
    assert f"{path} line 150002" in found.value.message
    hint = found.value.hint or ""
    assert "type='id String'" in hint
    assert "max_errors=N" in hint
    assert "--" not in hint
    assert rows.rows == 2 * 65_536
    assert rows.error is found.value
    with pytest.raises(Exception, match=r"line 150002 column .id.: .x. does not fit"):
        polars.DataFrame(rowfall.read(path))  # in its own words
    assert rowfall.read(path, type="id String").pl()["id"][150_000] == "x"  # as the hint says
    monkeypatch.chdir(tmp_path)
    good = rowfall.read(path, max_errors=1, rejects="out.tsv").pl()["id"].to_list()
    assert good == [n for n in range(ROWS) if n != 150_000]  # none twice, in their order
    assert "does not fit" in Path("out.tsv").read_text() or "x" in Path("out.tsv").read_text()


def test_engine_goes_on_behind_what_was_given(tmp_path: Path) -> None:
    """rowfall-decode declines a line break that no sample showed: no row comes twice."""
    names = []
    for at, odd in enumerate((None, 100_000, None)):
        lines = text(150_000).splitlines()
        if odd is not None:
            lines[odd + 1] = f'{odd},"n\n{odd}",{odd / 8},2024-02-01 10:00:00'
        names.append(tmp_path / f"{at}.csv")
        names[-1].write_text("\n".join(lines) + "\n")
    notes: list[Any] = []
    frame = rowfall.read(names, on_event=notes.append).pl()
    assert frame["id"].to_list() == [*range(150_000)] * 3
    wanted = [f"n{n}" for n in range(150_000)] * 3
    wanted[250_000] = "n\n100000"
    assert frame["name"].to_list() == wanted
    assert any("the engine reads" in str(note) for note in notes)


def test_columns_are_chosen_and_rows_filtered(trips: Path) -> None:
    frame = rowfall.read(trips, select="id, upper(name) AS u", where="id % 50000 = 0").pl()
    assert frame.rows() == [(n, f"N{n}") for n in range(0, ROWS, 50_000)]
    with pytest.raises(TypeError, match="order_by"):
        rowfall.read(trips, order_by="id")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean 'delimiter'"):
        rowfall.read(trips, delimeter=";")  # type: ignore[call-arg]


def test_empty_sources(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("id,name\n")
    assert rowfall.read(path, schema="id Int64, name String").pl().schema == {
        "id": polars.Int64, "name": polars.String
    }  # fmt: skip
    with pytest.raises(rowfall.SourceError, match="no such file"):
        rowfall.read(tmp_path / "none.csv").pl()


def test_text_that_is_no_text_is_refused_or_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"id\tname\n1\tok\n2\t\xff\\x41\n")
    with pytest.raises(rowfall.RowfallError, match="UTF-8") as found:
        rowfall.read(path).arrow()
    assert "encoding='binary'" in (found.value.hint or "")
    names = rowfall.read(path, encoding="binary").arrow().column("name").to_pylist()
    assert names[0] in (b"ok", "ok")
    assert len(names) == 2


def test_rows_belong_to_one_process(trips: Path) -> None:
    rows = rowfall.read(trips)
    batches = iter(rows)
    total = len(next(batches))
    child = os.fork()
    if not child:
        try:
            next(batches)
        except rowfall.UsageError as error:
            os._exit("forked" in error.message)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert total + sum(map(len, batches)) == ROWS


def test_one_of_several_threads_takes_the_rows(trips: Path) -> None:
    rows, together = rowfall.read(trips), threading.Barrier(4)

    def take(_: int) -> int:
        together.wait()
        try:
            return pa.table(rows).num_rows
        except rowfall.UsageError:
            return 0

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(take, range(4))) == [0, 0, 0, ROWS]
    assert programs() == 0


def test_rows_that_are_missing_are_an_error(trips: Path) -> None:
    """Neither a program that is killed nor one who reads from its pipe makes a short table."""
    rows = rowfall.read(trips)
    batches = iter(rows)
    next(batches)
    present = rows._loading.channel._present  # type: ignore[union-attr]
    assert present is not None
    while os.read(present.descriptor, 1 << 20):
        pass
    with pytest.raises(rowfall.RowfallError, match="200,000 rows were decoded, and 65,536"):
        next(batches)
    rows, total = rowfall.read(trips), 0
    try:
        for batch in rows:
            total += len(batch)
            for program in found_programs():
                with suppress(ProcessLookupError):  # it ends by itself when all is decoded
                    os.kill(program, signal.SIGKILL)
        assert total == ROWS  # the others were read again
    except rowfall.RowfallError as error:
        assert "rowfall-decode" in error.message  # noqa: PT017 - either is right
    assert programs() == 0


def test_ctrl_c_is_no_end_of_rows(trips: Path) -> None:
    """It comes where the library calls, before anything of ours has begun."""
    rows = rowfall.read(trips)
    batches = iter(rows)
    next(batches)
    loading = rows._loading
    assert loading is not None
    reader, buffer = _Bytes(loading), bytearray(8)
    # Both are called by C, so that no line of Python is between them.
    calls = [_thread.interrupt_main, functools.partial(reader.readinto, buffer)]
    with pytest.raises(RuntimeError, match="interrupted"):
        list(map(operator.call, calls))
    assert isinstance(rows.error, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert programs() == 0


@pytest.mark.long
@pytest.mark.xdist_group("postgresql")
def test_tables_of_a_database(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgresql.run(
        "CREATE TABLE read_some AS SELECT n AS id, n / 8.0 AS price "
        "FROM generate_series(1, 200000) AS n",
        "CREATE TABLE read_none (id int NOT NULL, name text)",
    )
    monkeypatch.setenv("PGPASSWORD", postgresql.password)
    frame = rowfall.read(f"{postgresql.uri}/read_some").pl()
    assert frame["id"].to_list() == list(range(1, 200_001))
    empty = rowfall.read(f"{postgresql.uri}/read_none").pl()
    assert empty.schema == {"id": polars.Int32, "name": polars.String}
    assert empty.height == 0
    with rowfall.read(f"{postgresql.uri}/read_some") as rows:
        assert len(next(iter(rows))) == 65_536
    assert programs() == 0


@pytest.mark.long
def test_objects_of_a_bucket_and_of_a_web_server(
    bucket: str, s3: Seaweed, web: Web, trips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    for name in ("read/a.csv.gz", "read/b.csv.gz"):
        s3.put(bucket, name, trips.read_bytes())
    frame = rowfall.read(f"s3://{bucket}/read/*.csv.gz").pl()
    assert frame["id"].to_list() == [*range(ROWS)] * 2
    assert rowfall.read(web.put("trips.csv.gz", trips.read_bytes())).pl().height == ROWS
    assert programs() == 0


@pytest.mark.long
def test_bounded_memory_and_back_pressure(tmp_path: Path) -> None:
    path = tmp_path / "big.csv.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write("id,word\n")
        piece = "".join(f"{n},{'w' * 200}{n}\n" for n in range(10_000))
        for _ in range(100):
            file.write(piece)
    script = """
        import re, resource, sys, rowfall
        total = 0
        for batch in rowfall.read(sys.argv[1]):
            total += len(batch)
        most = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
        print(total, most >> 10, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(script), path], capture_output=True, text=True, check=True
    )
    total, here, there = map(int, done.stdout.split())
    assert total == 1_000_000  # 210 MB of text
    assert here < 200
    assert there < 150


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_signal_ends_the_program(trips: Path, tmp_path: Path, number: int) -> None:
    script = """
        import signal, sys, rowfall
        rows = iter(rowfall.read(sys.argv[1]))
        next(rows)
        print("ready", flush=True)
        signal.pause()
    """
    child = subprocess.Popen(
        [sys.executable, "-c", dedent(script), trips], stdout=subprocess.PIPE, text=True,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    below = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    mine = [
        int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[1] == str(child.pid)
    ]  # fmt: skip
    assert mine, below
    child.send_signal(number)
    _, said = child.communicate(timeout=20)
    assert number == signal.SIGKILL or "KeyboardInterrupt" in said
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in mine), 20, "they end")


def test_lines_of_json_with_nested_values(tmp_path: Path, no_engine: None) -> None:
    path = tmp_path / "a.jsonl.gz"
    made = [{"id": n, "tags": [n, n + 1], "o": {"k": f"é{n}", "v": n / 4}} for n in range(2000)]
    path.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in made).encode()))
    assert rowfall.read(path).arrow().to_pylist() == made
