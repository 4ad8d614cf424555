"""rowfall-decode inside a load: the same rows as the engine's reader, or the engine's reader."""

from __future__ import annotations

import bz2
import functools
import gzip
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from e2e.tools import Shell, decoder_of
from lab.faulty import Fault, Faulty, Request, first, internal_error, slow_down
from lab.http import SilentServer, Web
from lab.process import let_pass, wait_until
from lab.seaweed import Seaweed
from rowfall.decoder import installed
from rowfall.decoder.documents import Spec
from rowfall.deliver import decode
from rowfall.deliver.decode import PIPES
from rowfall.deliver.ranges import LEAST, cut_files

CHECK = "SELECT count(), sum(cityHash64(*)), uniqExact(id) FROM t"


@pytest.fixture(autouse=True)
def _installed() -> None:
    assert installed.program(), "make test builds it: make decoder"


def plan(shell: Shell, *args: str) -> tuple[str, str]:
    made = shell.ok("plan", *args, "--json").document
    return made["decoder"], made["why_decoder"]


def mixed(shell: Shell, name: str, start: int, rows: int) -> None:
    lines = ["id,name,price,day,at,flag,maybe"]
    lines += [
        f'{i},"n ""{i % 7}"", x",{i % 100}.{i % 90 + 10},2024-0{i % 9 + 1}-1{i % 9},'
        f"2024-01-0{i % 9 + 1} 10:00:{i % 50 + 10},{'true' if i % 2 else 'false'},"
        f"{'' if i % 3 else i}"
        for i in range(start, start + rows)
    ]
    shell.write(f"in/{name}.csv", "\n".join(lines) + "\n")
    path = shell.folder / f"in/{name}.csv"
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def test_the_same_rows_as_the_engine_reads(shell: Shell) -> None:
    for n in range(3):
        mixed(shell, f"f{n}", n * 5000 + 1, 5000)
    assert plan(shell, "in/*.csv.gz") == ("rowfall-decode", "")
    shell.ok("load", "in/*.csv.gz", "--table", "t", "--decoder", "always", "--to", "a")
    shell.ok("load", "in/*.csv.gz", "--table", "t", "--decoder", "never", "--to", "b")
    decoded = shell.ok("query", CHECK, "--to", "a").out
    assert decoded == shell.ok("query", CHECK, "--to", "b").out
    assert "\n15000\t" in decoded


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "form",
    [
        *(pytest.param(f, marks=pytest.mark.long) for f in ("CSV", "TSV")),
        "TSVWithNames",
        "JSONEachRow",
    ],
)
def test_every_text_format(shell: Shell, form: str) -> None:
    shell.ok("load", "generate://taxi?rows=20000&seed=7", "--table", "t", "--to", "a")
    out = shell.folder / "in.data"
    out.write_text(shell.ok("query", f"SELECT * FROM t FORMAT {form}", "--to", "a").out)
    ddl = shell.ok(
        "query", "SELECT name || ' ' || type FROM system.columns WHERE table = 't'", "--to", "a",
        "--format", "TSVRaw",
    ).out  # fmt: skip
    options = ("--format", form, "--schema", ", ".join(ddl.split("\n")).rstrip(", "))
    count = "SELECT count(), sum(cityHash64(*)) FROM t"
    for name in ("always", "never"):
        shell.ok("load", "in.data", *options, "--table", "t", "--decoder", name, "--to", name)
        assert (
            shell.ok("query", count, "--to", name).out == shell.ok("query", count, "--to", "a").out
        )


@pytest.mark.long
def test_sorted_blocks_hold_the_same_rows(shell: Shell) -> None:
    made = ("--to", "in/p_{n}.csv.gz", "--files", "3", "--to-format", "CSV")
    shell.ok("load", "generate://trips?rows=300000", *made)
    ways = {
        "engine": ["--decoder", "never"],
        "on": ["--presort", "on"],
        "off": ["--presort", "off"],
    }
    counts = set()
    for name, way in ways.items():
        shell.ok(
            "load", "in/*.csv.gz", "--format", "CSV", "--order-by", "(c3, c1)", "--partition-by",
            "c1", "--table", "t", "--to", name, *way,
        )  # fmt: skip
        count = "SELECT count(), sum(cityHash64(*)) FROM t"
        counts.add(shell.ok("query", count, "--to", name).out)
    assert len(counts) == 1


@pytest.mark.long
def test_the_plan_says_what_blocks_are_sorted_by(shell: Shell) -> None:
    mixed(shell, "a", 0, 100)

    def key(*args: str) -> list[str]:
        made = shell.ok("plan", "in/*.csv.gz", "--table", "t", "--json", *args).document
        return list(made["sorted_by"])

    assert key("--order-by", "(day, `id`)") == key("--order-by", "day, id") == ["day", "id"]
    assert key("--order-by", "(day, id)", "--presort", "off") == []
    assert key("--order-by", "(day, id)", "--decoder", "never") == []
    assert key("--order-by", "(toYYYYMM(day), id)") == key("--order-by", "tuple()") == []
    shell.ok("load", "in/*.csv.gz", "--table", "t", "--order-by", "name")
    assert key("--presort", "on") == ["name"]
    assert "blocks sorted by name" in shell.ok("plan", "in/*.csv.gz", "--table", "t").out


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--order-by", "tuple()"], "the table has no key"),
        (["--order-by", "(toYYYYMM(day), id)"], "the table's key is (toYYYYMM(day), id), not just"),
        (["--order-by", "id", "--decoder", "never"], "the engine parses: --decoder never"),
        (["--to", "null:"], "rows go into no table"),
    ],
)
def test_presort_says_why_it_cannot(shell: Shell, options: list[str], why: str) -> None:
    mixed(shell, "a", 0, 100)
    done = shell.run("load", "in/*.csv.gz", "--presort", "on", *options)
    assert done.code == 2
    assert f"blocks cannot be sorted: {why}" in done.talk
    assert shell.run("load", "in/*.csv.gz", "--presort", "never").code == 2


@pytest.mark.parametrize(("packed", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_one_packed_file_is_read_by_several_threads(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, packed: str, compress: Any
) -> None:
    """Pieces end outside quotes; the first bad line is told by its number in the file."""
    monkeypatch.setattr("rowfall.deliver.decode.SHARED_LEAST", 1 << 16)
    monkeypatch.setattr("rowfall.deliver.decode._SHARED_LEAST_BZ2", 1 << 14)
    make, threads = decode.decoder_spec, list[int]()

    def spec(*args: Any) -> Spec:
        threads.append(len(args[4]))
        return make(*args)

    monkeypatch.setattr(decode, "decoder_spec", spec)
    lines = [f'{n},"n\n{"x" * (n % 40)}""",{n % 90}.5' for n in range(60_000)]

    def write(name: str) -> None:
        text = "id,name,price\n" + "\n".join(lines) + "\n"
        (shell.folder / name).write_bytes(compress(text.encode(), 1))

    write(f"big.csv.{packed}")
    load = ("load", f"big.csv.{packed}", "--table", "t", "--threads", "3", "--order-by", "id")
    for name in ("always", "never"):
        shell.ok(*load, "--decoder", name, "--to", name)
    found = shell.ok("query", CHECK, "--to", "always").out
    assert found == shell.ok("query", CHECK, "--to", "never").out
    assert "\n60000\t" in found
    assert threads == [3]
    lines[50_000] = '50000,"n\n",x'
    lines[50_500] = '50500,"n\n",y'
    write(f"bad.csv.{packed}")
    bad = shell.run(
        "load", f"bad.csv.{packed}", "--table", "u", "--threads", "3", "--decoder", "always"
    )
    assert bad.code != 0
    assert "100002" in bad.talk, bad.talk


@pytest.mark.long
@pytest.mark.parametrize(
    "form",
    [*(pytest.param(f, marks=pytest.mark.long) for f in ("CSV", "JSONEachRow")), "CSVWithNames"],
)
def test_one_big_file_is_read_in_ranges(shell: Shell, form: str) -> None:
    shell.ok("load", "generate://trips?rows=5e6", "--to", "in/big.csv", "--to-format", form)
    assert (shell.folder / "in/big.csv").stat().st_size > 2 * LEAST
    for name in ("always", "never"):
        shell.ok("load", "in/big.csv", "--format", form, "--table", "t", "--threads", "4",
                 "--decoder", name, "--to", name)  # fmt: skip
    count = "SELECT count(), sum(cityHash64(*)) FROM t"
    found = shell.ok("query", count, "--to", "always").out
    assert found == shell.ok("query", count, "--to", "never").out
    assert "\n5000000\t" in found


NESTED = (
    "id UInt32, tags Array(LowCardinality(String)), counts Map(String, Array(Nullable(UInt16))), "
    "points Array(Tuple(x Float64, `at of` DateTime('UTC')))"
)
MADE = """SELECT toUInt32(number * 7919 % 20000) AS id,
    arrayMap(i -> ['a', 'it''s', '"q"', 'two\\twords', 'ä'][i % 5 + 1], range(number % 7)) AS tags,
    CAST(if(number % 3 = 0, map(), map('k', [1, NULL, number % 999], 'x y', [])),
        'Map(String, Array(Nullable(UInt16)))') AS counts,
    CAST(arrayMap(i -> (i / 8, i * 1e6), range(number % 4)),
        'Array(Tuple(x Float64, `at of` DateTime(''UTC'')))') AS points
    FROM numbers(20000) FORMAT """


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", ["CSVWithNames", "TSV", "JSONEachRow"])
def test_nested_columns(shell: Shell, form: str) -> None:
    (shell.folder / "in.data").write_text(shell.ok("query", MADE + form).out)
    options = ("--format", form, "--schema", NESTED, "--order-by", "id", "--table", "t")
    found = []
    for name in ("always", "never"):
        done = shell.ok("load", "in.data", *options, "--decoder", name, "--to", name)
        assert "the engine reads it instead" not in done.talk
        sums = "sum(length(tags)), sum(cityHash64(id, tags, toString(counts), toString(points)))"
        found.append(shell.ok("query", f"SELECT count(), {sums} FROM t", "--to", name).out)
    assert found[0] == found[1]
    assert "\n20000\t" in found[0]


PAIRS = "id UInt32, place Tuple(x Int32, at Tuple(name String, `on` Nullable(Date))), k UInt8"
PAIRS_MADE = """SELECT toUInt32(number) AS id,
    CAST((number % 999 - 500, (['a', 'it''s, "q"', ''][number % 3 + 1],
        if(number % 4 = 0, NULL, toDate('2024-01-01') + number % 300))),
        'Tuple(x Int32, at Tuple(name String, `on` Nullable(Date)))') AS place,
    toUInt8(number % 7) AS k FROM numbers(20000) FORMAT """


@pytest.mark.sampled(1)
@pytest.mark.parametrize("apart", ["1", "0"])
@pytest.mark.parametrize("form", [pytest.param("CSV", marks=pytest.mark.long), "CSVWithNames"])
def test_tuples_of_csv(shell: Shell, form: str, apart: str) -> None:
    """As ClickHouse writes them: in fields of their own, or in one."""
    how = f" SETTINGS output_format_csv_serialize_tuple_into_separate_columns = {apart}, "
    how += "format_csv_null_representation = ''"
    text = shell.ok("query", PAIRS_MADE + "CSV" + how).out
    head = "" if form == "CSV" else "id,place,k\n"  # 26.9 itself would write place.x and so on
    (shell.folder / "in.csv").write_text(head + text)
    options = ("--format", form, "--schema", PAIRS, "--order-by", "id", "--table", "t")
    sums = "SELECT count(), sum(cityHash64(id, toString(place), k)) FROM "
    wanted = shell.ok("query", f"{sums}({PAIRS_MADE.removesuffix('FORMAT ')})").out
    for name in ("always", "never"):
        done = shell.ok("load", "in.csv", *options, "--decoder", name, "--to", name)
        assert "the engine reads it instead" not in done.talk
        assert shell.ok("query", f"{sums}t", "--to", name).out == wanted
        # Again, into the table that is there now.
        shell.ok("load", "in.csv", *options[:2], "--table", "t", "--decoder", name, "--to", name,
                 "--force")  # fmt: skip
    assert "\n20000\t" in wanted


def test_a_cut_inside_of_quotes_is_found(shell: Shell) -> None:
    # Without line breaks where the sample looks; then hardly anything else.
    plain = "".join(f'{i},"{i:030}"\n' for i in range(30_000))
    broken = "".join(f'{i},"{i:020}\n{i:030}\n{i:040}"\n' for i in range(30_000, 400_000))
    shell.write("in/big.csv", "id,name\n" + plain + broken)
    done = shell.ok("load", "in/big.csv", "--table", "t", "--schema", "id UInt32, name String")
    assert "the engine reads it instead" in done.talk
    found = shell.ok("query", "SELECT count(), sum(id), countIf(position(name, '\n') > 0) FROM t")
    assert found.out.split("\n")[1] == f"400000\t{400_000 * 399_999 // 2}\t370000"


def test_what_it_declines_the_engine_reads(shell: Shell) -> None:
    shell.write("in/a.csv", "id,name\n1,x\n2,y\n")
    shell.write("in/b.csv", "id,name\n+3,x\n4,y\n")  # a plus sign is the engine's business
    done = shell.ok("load", "in/*.csv", "--table", "t", "--schema", "id UInt8, name String")
    assert "the engine reads it instead" in done.talk
    assert shell.ok("query", "SELECT sum(id) FROM t").out == "sum(id)\n10\n"


@pytest.mark.parametrize("form", ["csv", "tsv", "json"])
def test_an_empty_field_in_quotes_is_null(shell: Shell, form: str) -> None:
    """As programs write it that put every field in quotes; the engine took four times as long."""
    rows = [(n, n * 3, n + 0.5, f"2024-01-0{n % 9 + 1}", f"10.0.0.{n}") for n in range(90)]
    cells = [[str(c) if i % 4 else "" for c in row] for i, row in enumerate(rows)]
    if form == "json":  # whose numbers have no quotes
        lines = [json.dumps({"k": str(i), "d": c[3], "p": c[4]}) for i, c in enumerate(cells)]
        names = ["d", "p"]
    else:
        names = ["n", "f", "d", "p"]
        mark, between = ('"', ",") if form == "csv" else ("", "\t")
        written = [[str(i), *c[1:]] for i, c in enumerate(cells)]
        lines = [between.join(f"{mark}{v}{mark}" for v in row)
                 for row in (["k", "n", "f", "d", "p"], *written)]  # fmt: skip
    shell.write(f"t.{form}", "\n".join(lines) + "\n")
    load = ("load", f"t.{form}", "--table", "t", "--type", "p Nullable(IPv4)")
    done = shell.ok(*load, "--decoder", "always")
    assert "engine reads it" not in done.err
    asked = f"SELECT sum(cityHash64(k, {', '.join(names)})), {{}} FROM t"
    asked = asked.format(", ".join(f"countIf(isNull({name}))" for name in names))
    found = shell.row(asked)
    assert found[1:] == [23] * len(names)
    shell.ok(*load, "--decoder", "never", "--to", "other")
    assert shell.row(asked, "--to", "other") == found


def test_values_as_other_programs_write_them(shell: Shell) -> None:
    """Blanks around numbers, TRUE of R, nan of numpy: the engine need not read the file."""
    integers, floats = ["", "{}", " {}", "{}\t", '" {}"'], ["nan", "NaN", " 2.25", "-3.5 ", "7.5"]
    booleans, days = ["TRUE", "FALSE", "True", "false"], ["2024-01-02", " 2024-01-03", ""]
    lines = ["id, n, f ,b,d"]
    for i in range(60):
        row = [integers[i % 5].format(i), floats[i % 7 % 5], booleans[i % 4], days[i % 3]]
        lines.append(f"{i},{','.join(row)}")
    shell.write("t.csv", "\n".join(lines) + "\n")
    done = shell.ok("load", "t.csv", "--decoder", "always")
    assert "engine reads it" not in done.err
    asked = (
        "SELECT sum(cityHash64(*)), sum(reinterpretAsUInt64(f)), sum(n), countIf(isNull(d)) FROM t"
    )
    found = shell.row(asked)
    assert found[2:] == [sum(i for i in range(60) if i % 5), 20]
    shell.ok("load", "t.csv", "--decoder", "never", "--to", "other")
    assert shell.row(asked, "--to", "other") == found


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_of_objects(shell: Shell, indent: int | None) -> None:
    """As most web services answer; it was the engine's, at three times the CPU."""
    rows = [{"id": i, "tags": ["a]", "b,{"], "o": {"k": f"x\\{i}"}} for i in range(500)]
    text = json.dumps(rows, indent=indent) + "\n"
    (shell.folder / "t.json.gz").write_bytes(gzip.compress(text.encode()))
    (shell.folder / "u.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode()))
    done = shell.ok("load", "t.json.gz", "u.json.gz", "--table", "t", "--decoder", "always")
    assert "engine reads it" not in done.err
    asked = "SELECT count(), sum(cityHash64(id, toString(tags), toString(o.k))) FROM t"
    found = shell.row(asked)
    load = ("load", "t.json.gz", "u.json.gz", "--table", "t", "--decoder", "never", "--to", "other")
    shell.ok(*load)
    assert found == shell.row(asked, "--to", "other")
    assert found[0] == 1000


def test_a_bad_value_is_named_by_file_line_and_column(shell: Shell) -> None:
    lines = "".join(f"{i},x\n" for i in range(1, 1001))
    shell.write("in/a.csv", "id,name\n" + lines)
    shell.write("in/b.csv", "id,name\n" + lines + "300000,y\n")
    done = shell.run("load", "in/*.csv", "--table", "t", "--schema", "id UInt16, name String")
    assert done.code == 1
    assert 'in/b.csv line 1002 column "id": "300000" does not fit UInt16' in done.talk
    assert shell.ok("query", "SELECT count() FROM t").out == "count()\n1000\n"


def test_many_declined_files_do_not_cost_an_attempt_each(shell: Shell) -> None:
    for n in range(12):
        shell.write(f"in/{n}.csv", f"id,name\n+{n},x\n")
    done = shell.ok(
        "load", "in/*.csv", "--table", "t", "--schema", "id UInt8, name String", "--json"
    ).document
    assert done["rows"] == 12
    assert done["attempts"] <= 4


def test_always_says_why_it_cannot(shell: Shell) -> None:
    shell.write("in/a.csv", "id,at\n1,2024-01-01 00:00:00\n")
    done = shell.run(
        "load", "in/*.csv", "--table", "t", "--decoder", "always",
        "--schema", "id UInt8, at DateTime('Asia/Kathmandu')",
    )  # fmt: skip
    assert done.code == 2
    assert "does not know the time zone of at" in done.talk
    assert shell.run("load", "in/*.csv", "--decoder", "perhaps").code == 2


def test_a_cut_file_is_no_short_file(shell: Shell) -> None:
    mixed(shell, "f", 1, 20_000)
    path = shell.folder / "in/f.csv.gz"
    path.write_bytes(path.read_bytes()[:-1000])
    done = shell.run("load", "in/*.csv.gz", "--table", "t")
    assert done.code != 0
    assert "f.csv.gz" in done.talk


@pytest.mark.long
def test_a_lack_of_memory_is_not_blamed_on_the_decoder(shell: Shell) -> None:
    shell.ok("load", "generate://taxi?rows=100000", "--to", "in/p_{n}.csv", "--files", "2")
    limit = ("--set", "max_memory_usage=30000000")
    done = shell.run("load", "in/*.csv", "--table", "t", "--decoder", "always", *limit)
    assert "out of memory: blocks are made smaller" in done.talk
    assert "rowfall-decode" not in done.talk


@pytest.mark.sampled(1)
@pytest.mark.parametrize("victim", ["decoder", "rowfall", "aborted"])
def test_killed_in_the_middle(shell: Shell, victim: str) -> None:
    shell.ok("load", "generate://trips?rows=6000000", "--to", "in/p_{n}.csv", "--files", "4")
    command = [sys.executable, "-m", "rowfall", "load", "in/*.csv", "--table", "t"]
    environment = {**os.environ, **shell.env}
    process = subprocess.Popen(command, cwd=shell.folder, env=environment, stderr=subprocess.PIPE)
    child = decoder_of(process)
    let_pass(0.1, "it reads by then")
    try:
        # It aborts where its memory ends: the engine reads the file, nobody tries the same again.
        how = signal.SIGABRT if victim == "aborted" else signal.SIGKILL
        os.kill(process.pid if victim == "rowfall" else child, how)
    except ProcessLookupError:
        pytest.skip("it had ended by itself")
    _, talk = process.communicate(timeout=120)
    if victim == "decoder":
        assert process.returncode == 0, talk
        assert b"rowfall-decode was killed by signal 9; trying again" in talk
    elif victim == "aborted":
        assert process.returncode == 0, talk
        assert b"rowfall-decode gave up" in talk
        assert b"trying again" not in talk
    else:
        gone = lambda: not Path(f"/proc/{child}").exists()  # noqa: E731
        wait_until(gone, 30, "the end of the decoder, which outlived rowfall")
    shell.ok("load", "in/*.csv", "--table", "t")
    assert shell.ok("query", "SELECT count() FROM t").out == "count()\n6000000\n"


def test_a_decoder_whose_rowfall_was_killed_ends(tmp_path: Path) -> None:
    # Nobody reads the pipe, so opening it waits for ever.
    pipe, data = tmp_path / "pipe", tmp_path / "a.csv"
    os.mkfifo(pipe)
    data.write_text("1\n")
    column = {"name": "a", "type": "UInt8", "position": 0}
    spec = {"version": 2, "inputs": [{"path": str(data)}], "format": "CSV", "columns": [column],
            "outputs": [str(pipe)]}  # fmt: skip
    command = [installed.program() or "", "run", "--spec", "stdin-line"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(spec).encode() + b"\n")
        process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.stdin.close()
        assert process.wait(10) == 5


# --- objects behind HTTP --------------------------------------------------------------------------

ROWS, OBJECTS = 40_000, 4
NAMES = "name String, price Decimal(9, 2), day Date, at DateTime, flag Bool, maybe Nullable(UInt32)"
TYPES = ("--schema", f"id UInt32, {NAMES}")


def packed(start: int, rows: int) -> bytes:
    lines = [
        f"{i},n {i % 7},{i % 100}.{i % 90 + 10},2024-01-1{i % 9},2024-01-01 10:00:{i % 50 + 10},"
        f"{'true' if i % 2 else 'false'},{'' if i % 3 else i}\n"
        for i in range(start, start + rows)
    ]
    return gzip.compress(b"id,name,price,day,at,flag,maybe\n" + "".join(lines).encode(), 1)


@pytest.fixture(scope="module")
def objects() -> list[bytes]:
    return [packed(n * ROWS + 1, ROWS) for n in range(OBJECTS)]


@pytest.fixture
def lake(shell: Shell, s3: Seaweed, bucket: str, objects: list[bytes]) -> Iterator[Faulty]:
    """Objects in S3, and the proxy in front of it that the shell's commands use."""
    for n, body in enumerate(objects):
        s3.put(bucket, f"in/{n}.csv.gz", body)
    with Faulty(s3.port) as proxy:
        shell.env |= {**s3.env, "AWS_ENDPOINT_URL": proxy.endpoint, "BUCKET": bucket}
        yield proxy


def source(shell: Shell) -> str:
    return f"s3://{shell.env['BUCKET']}/in/*.csv.gz"


def by_decoder(request: Request) -> bool:
    """The engine's reader and the listing sign in a header."""
    return request.method == "GET" and "X-Amz-Signature" in request.query


def same_rows(shell: Shell, objects: list[bytes]) -> None:
    for n, body in enumerate(objects):
        shell.write(f"wanted/{n}.csv.gz", body)
    shell.ok("load", "wanted/*.csv.gz", "--table", "t", *TYPES, "--decoder", "never", "--to", "w")
    assert shell.ok("query", CHECK).out == shell.ok("query", CHECK, "--to", "w").out


def test_objects_in_s3(shell: Shell, lake: Faulty, objects: list[bytes]) -> None:
    assert plan(shell, source(shell)) == ("rowfall-decode", "")
    done = shell.ok("load", source(shell), "--table", "t", *TYPES, "--decoder", "always")
    assert "the engine reads it instead" not in done.talk
    same_rows(shell, objects)
    assert sum(map(by_decoder, lake.requests)) == OBJECTS


@pytest.mark.long
def test_files_on_a_web_server(shell: Shell, web: Web, objects: list[bytes]) -> None:
    for n, body in enumerate(objects):
        web.put(f"decode/{n} +é.csv.gz", body)
    url = web.url("decode/0 +é.csv.gz").replace("/0%20", "/{0..3}%20")
    done = shell.ok("load", url, "--table", "t", *TYPES, "--decoder", "always")
    assert "the engine reads it instead" not in done.talk
    same_rows(shell, objects)


@pytest.mark.long
def test_a_web_server_without_ranges(shell: Shell, objects: list[bytes]) -> None:
    # More than one piece of 4 MiB, and more than are held at a time.
    body = b"".join(b"%d,%d\n" % (i, i * 7919) for i in range(2_000_000))
    folder = shell.folder / "www"
    folder.mkdir()
    (folder / "a.csv").write_bytes(body)
    handler = partial(Silent, directory=str(folder))
    with SilentServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/a.csv"
        done = shell.ok(
            "load", url, "--table", "t", "--schema", "id UInt32, n UInt64", "--format", "CSV",
            "--decoder", "always",
        )  # fmt: skip
        server.shutdown()
    assert len(body) > 16 << 20
    assert "the engine reads it instead" not in done.talk
    assert shell.row("SELECT count(), sum(id), sum(n) FROM t") == [
        2_000_000, 1_999_999_000_000, 1_999_999_000_000 * 7919,
    ]  # fmt: skip


class Silent(SimpleHTTPRequestHandler):
    """Writes no log: stderr is that of the command which is run in this process."""

    def log_message(self, format: str, *args: object) -> None:
        pass


class Guarded(Silent):
    """Wants a user for /in, and sends everybody on from /old to /new."""

    def send_head(self) -> Any:
        if self.path.startswith("/old/"):
            self.send_response(302)
            self.send_header("Location", self.path.replace("/old/", "/new/"))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        right = self.headers.get("Authorization") == "Basic dTpwdy0xMjM0NQ=="
        if self.path.startswith("/in/") and not right:
            self.send_error(403)
            return None
        return super().send_head()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("place", ["u:pw-12345@HOST/in", "HOST/old", "u:wrong-pw@HOST/in"])
def test_a_web_server_with_users_and_redirects(shell: Shell, place: str) -> None:
    for folder in ("in", "new"):
        shell.write(f"www/{folder}/a.csv", "id,name\n1,x\n2,y\n")
    handler = partial(Guarded, directory=str(shell.folder / "www"))
    with SilentServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://{place.replace('HOST', f'127.0.0.1:{server.server_port}')}/a.csv"
        done = shell.run("load", url, "--table", "t", "--decoder", "always")
        server.shutdown()
    assert "pw-12345" not in done.err
    if "wrong" in place:
        assert "wrong-pw" not in done.err
        assert (done.code, "answered 403" in done.talk) == (4, True)
        return
    assert done.code == 0, done.err
    assert "the engine reads it instead" not in done.talk
    assert shell.row("SELECT count(), sum(id) FROM t") == [2, 3]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(internal_error(), id="500"),
        pytest.param(slow_down(), id="503", marks=pytest.mark.long),
        pytest.param(Fault(reset="before"), id="reset"),
        pytest.param(Fault(reset="after"), id="reset after", marks=pytest.mark.long),
        pytest.param(Fault(truncate=70_000), id="truncated", marks=pytest.mark.long),
        pytest.param(Fault(truncate=1000), id="truncated early"),
        pytest.param(Fault(stall_answer=17), id="stalled", marks=pytest.mark.long),
    ],
)
def test_a_store_that_stumbles(
    shell: Shell, lake: Faulty, objects: list[bytes], fault: Fault
) -> None:
    lake.script = first(3, fault, by_decoder)
    done = shell.ok("load", source(shell), "--table", "t", *TYPES)
    assert "the engine reads it instead" not in done.talk
    same_rows(shell, objects)
    assert sum(map(by_decoder, lake.requests)) == OBJECTS + 3


@pytest.mark.long
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(status=403), id="403"),
        pytest.param(slow_down(), id="503", marks=pytest.mark.long),
        pytest.param(Fault(reset="before"), id="reset", marks=pytest.mark.long),
        pytest.param(Fault(truncate=1000), id="truncated", marks=pytest.mark.long),
    ],
)
def test_a_store_that_refuses_the_decoder(
    shell: Shell, lake: Faulty, objects: list[bytes], fault: Fault
) -> None:
    """The engine reads instead, and everything is there once."""
    lake.script = lambda request: fault if by_decoder(request) else None
    done = shell.ok("load", source(shell), "--table", "t", *TYPES)
    assert "the engine reads it instead" in done.talk
    assert "X-Amz" not in done.err
    assert "lab-secret" not in done.err
    same_rows(shell, objects)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("what", ["gone", "changed"])
def test_an_object_that_is_another_one_meanwhile(
    shell: Shell, lake: Faulty, s3: Seaweed, objects: list[bytes], what: str
) -> None:
    bucket = shell.env["BUCKET"]

    def change() -> None:
        if what == "gone":
            s3.delete(bucket, "in/2.csv.gz")
        else:
            s3.put(bucket, "in/2.csv.gz", packed(7, 100))

    lake.script = first(1, Fault(before=change), by_decoder)
    done = shell.run("load", source(shell), "--table", "t", *TYPES)
    assert done.code == 1
    assert f"s3://{bucket}/in/2.csv.gz" in done.talk
    assert ("is gone" if what == "gone" else "changed from") in done.talk
    assert shell.row("SELECT count() FROM t") == [(OBJECTS - 1) * ROWS]
    assert shell.row("SELECT countIf(id BETWEEN 80001 AND 120000) FROM t") == [0]


@pytest.mark.long
def test_a_big_object_that_changes_is_no_mixture(shell: Shell, lake: Faulty, s3: Seaweed) -> None:
    bucket = shell.env["BUCKET"]
    lines = b"".join(b"%09d,%010d\n" % (i, i) for i in range(1_200_000))  # 25 MB: seven ranges
    s3.put(bucket, "big/a.csv", lines)
    seen = iter(range(1000))

    def change() -> None:
        if next(seen) == 5:  # one row in the middle of what has not been asked for yet
            s3.put(bucket, "big/a.csv", lines[:-21] + b"999999999,9999999999\n")

    lake.script = lambda request: Fault(before=change) if by_decoder(request) else None
    done = shell.run(
        "load", f"s3://{bucket}/big/*.csv", "--table", "t", "--format", "CSV",
        "--schema", "id UInt32, n UInt64", "--decoder", "always",
    )  # fmt: skip
    assert done.code in (1, 4)
    assert "changed from" in done.talk
    assert shell.rows("SELECT name FROM system.tables WHERE name = 't' AND total_rows > 0") == []


@functools.cache
def numbers(rows: int, row: bytes = b"%09d,%010d\n") -> bytes:
    return b"id,n\n" + b"".join(row % (i, i) for i in range(1, rows + 1))


def cut(requests: Sequence[Request]) -> set[int]:
    """Where ranges begin that no object read as a whole would have asked for."""
    starts = (int(r.headers["range"].removeprefix("bytes=").partition("-")[0]) for r in requests)
    return {start for start in starts if start % (4 << 20)}


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> int:
    """Ranges of 1 MiB at least, in place of 16: a sixteenth of the bytes is cut as often."""
    assert cut_files.__kwdefaults__["least"] == LEAST
    monkeypatch.setitem(cut_files.__kwdefaults__, "least", 1 << 20)
    return 1 << 20


def test_a_big_object_is_read_in_ranges(
    shell: Shell, lake: Faulty, s3: Seaweed, small_ranges: int
) -> None:
    body, rows = numbers(250_000), 250_000
    assert len(body) > 2 * small_ranges
    s3.put(shell.env["BUCKET"], "big/a.csv", body)
    done = shell.ok(
        "load", f"s3://{shell.env['BUCKET']}/big/*", "--table", "t", "--threads", "2", "--verify",
        "--schema", "id UInt32, n UInt32",
    )  # fmt: skip
    assert "the engine reads it instead" not in done.talk
    assert shell.row("SELECT count(), sum(id), sum(n), uniqExact(id) FROM t") == [
        rows, rows * (rows + 1) // 2, rows * (rows + 1) // 2, rows,
    ]  # fmt: skip
    assert cut([request for request in lake.requests if by_decoder(request)])


@pytest.mark.parametrize(
    "after", [pytest.param(1, marks=pytest.mark.long), 8, pytest.param(11, marks=pytest.mark.long)]
)
def test_a_load_in_ranges_that_is_killed(
    shell: Shell, lake: Faulty, s3: Seaweed, after: int
) -> None:
    """rowfall is killed at one of some 13 requests; the same command then loads each row once."""
    rows = 2_000_000
    s3.put(shell.env["BUCKET"], "big/a.csv", numbers(rows))
    args = (
        "load", f"s3://{shell.env['BUCKET']}/big/*", "--table", "t", "--threads", "2",
        "--schema", "id UInt32, n UInt32",
    )  # fmt: skip
    reached = threading.Event()
    asked = itertools.count(1)

    def script(request: Request) -> Fault | None:
        if by_decoder(request) and next(asked) == after:
            reached.set()
            return Fault(stall=1.0)
        return None

    lake.script = script
    process = subprocess.Popen(
        [sys.executable, "-m", "rowfall", *args], cwd=shell.folder,
        env={**os.environ, **shell.env}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert reached.wait(60)
    process.kill()
    process.wait()
    assert shell.ok(*args, "--json").document["outcome"] == "done"
    assert shell.row("SELECT count(), sum(id), uniqExact(n) FROM t") == [
        rows, rows * (rows + 1) // 2, rows,
    ]  # fmt: skip
    assert shell.rows("SELECT name FROM system.tables WHERE name LIKE '%rowfall%'") == []
    assert not list((shell.folder / "rowfall-data" / PIPES).iterdir())


def test_the_line_of_a_bad_value_in_a_range(
    shell: Shell, lake: Faulty, s3: Seaweed, small_ranges: int
) -> None:
    body = numbers(54_998, b"%d,%060d\n") + b"x,1\n" + b"55000,1\n"
    assert len(body) > 2 * small_ranges
    s3.put(shell.env["BUCKET"], "big/a.csv", body)
    done = shell.run(
        "load", f"s3://{shell.env['BUCKET']}/big/*", "--table", "t", "--threads", "2",
        "--schema", "id UInt32, n String",
    )  # fmt: skip
    assert cut([request for request in lake.requests if by_decoder(request)])
    assert done.code in (1, 4)
    assert "line 55000" in done.talk.replace(",", "")
    assert shell.rows("SELECT name FROM system.tables WHERE name = 't' AND total_rows > 0") == []


@pytest.mark.long
def test_a_big_file_of_a_web_server_is_read_in_ranges(shell: Shell, web: Web) -> None:
    rows = 2_000_000
    url = web.put("decode/big.csv", numbers(rows))
    with Faulty(urlsplit(url).port or 0) as proxy:
        at = url.replace(web.endpoint, proxy.endpoint)
        shell.ok("load", at, "--table", "t", "--threads", "2", "--decoder", "always",
                 "--schema", "id UInt32, n UInt32")  # fmt: skip
        ranges = [r for r in proxy.requests if "range" in r.headers and r.method == "GET"]
    assert shell.row("SELECT count(), sum(id), uniqExact(n) FROM t") == [
        rows, rows * (rows + 1) // 2, rows,
    ]  # fmt: skip
    assert cut(ranges)


@pytest.mark.long
def test_a_cut_of_an_object_inside_of_quotes_is_found(
    shell: Shell, lake: Faulty, s3: Seaweed
) -> None:
    # Without line breaks where the sample looks; then hardly anything else.
    rows = 700_000
    body = numbers(60_000, b'%d,"%060d"\n') + b"".join(
        b'%d,"%020d\n%010d\n%020d"\n' % (i, i, i, i) for i in range(60_001, rows + 1)
    )
    assert len(body) > 2 * LEAST
    s3.put(shell.env["BUCKET"], "big/a.csv", body)
    done = shell.ok(
        "load", f"s3://{shell.env['BUCKET']}/big/*", "--table", "t", "--threads", "2",
        "--schema", "id UInt32, n String",
    )  # fmt: skip
    assert "the engine reads it instead" in done.talk
    assert shell.row("SELECT count(), sum(id), countIf(position(n, '\n') > 0) FROM t") == [
        rows, rows * (rows + 1) // 2, rows - 60_000,
    ]  # fmt: skip


def test_keys_are_nowhere_to_be_seen(shell: Shell, lake: Faulty, s3: Seaweed) -> None:
    lake.script = first(1, Fault(stall=2.0), by_decoder)
    command = [sys.executable, "-m", "rowfall", "load", source(shell), "--table", "t", *TYPES]
    environment = {**os.environ, **shell.env}
    process = subprocess.Popen(
        command, cwd=shell.folder, env=environment, stderr=subprocess.PIPE, text=True
    )
    child = decoder_of(process)
    shown = Path(f"/proc/{child}/cmdline").read_bytes()
    wait_until(lambda: any(map(by_decoder, lake.requests)), 60, "a request of the decoder")
    for path in shell.folder.rglob("*"):
        if path.is_file() and path.stat().st_size < 1 << 20:
            held = path.read_bytes()
            assert b"X-Amz-Signature" not in held, path
            assert s3.secret_key.encode() not in held, path
    _, talk = process.communicate(timeout=60)
    assert process.returncode == 0, talk
    for text in (shown.decode(), talk):
        assert "X-Amz" not in text
        assert s3.secret_key not in text
