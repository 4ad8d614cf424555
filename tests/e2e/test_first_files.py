"""First files of a newcomer: exports of Excel, answers of services, logs, titles above a table."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from e2e.tools import Shell


def test_the_line_in_which_excel_is_told_the_delimiter_is_no_row(shell: Shell) -> None:
    shell.write("a.csv", "sep=;\r\nid;name\r\n1;Müller, A\r\n2;b\r\n")
    done = shell.ok("load", "a.csv")
    assert "csv, delimiter ;, header yes, lines skipped 1" in done.err
    assert shell.rows("SELECT * FROM a ORDER BY id") == [[1, "Müller, A"], [2, "b"]]


def test_a_title_above_the_table_is_said(shell: Shell) -> None:
    shell.write(
        "a.csv", "Sales 2023,,,\nmade 2024-01-05,,,\nid,region,sum,share\n1,N,1,12%\n2,S,3,34%\n"
    )
    done = shell.ok("load", "a.csv")
    assert "header yes, lines skipped 2" in done.talk
    assert shell.rows("SELECT id, share FROM a ORDER BY 1") == [[1, 12], [2, 34]]  # a note says so
    # Where nothing but texts stands below, it is said only.
    shell.write("b.csv", "Sales 2023,,\nmade today,,\na,region,by\nx,N,Ann\ny,S,Bob\n")
    done = shell.ok("load", "b.csv")
    assert "the first 2 lines hold one value at most; --skip-lines 2 leaves them out" in done.talk
    again = shell.ok("load", "a.csv", "--table", "c", "--skip-lines", "2")
    assert "hold one value at most" not in again.err  # its shares are amounts with a sign
    assert shell.row("SELECT count(), sum(id) FROM c") == [2, 3]


def test_a_header_alone_is_said(shell: Shell) -> None:
    shell.write("a.csv", "id,name,amount\n")
    assert "warning: there is no row below the header" in shell.ok("load", "a.csv").talk
    # The first row is longer than what is read to find out how the file is written.
    shell.write("b.csv", f"id,name\n1,{'x' * 300_000}\n")
    assert "no row below the header" not in shell.ok("load", "b.csv").talk
    assert shell.row("SELECT id, length(name) FROM b") == [1, 300_000]


@pytest.mark.parametrize(
    ("name", "format", "text", "said"),
    [
        ("a.txt", "CSV", "id,name\n1,a\n2,b\n", "--header yes reads it so"),
        ("a.txt", "CSVWithNames", "1,a\n2,b\n", "--format CSV reads it so"),
    ],
)
def test_a_format_that_takes_a_header_for_a_row_is_questioned(
    shell: Shell, name: str, format: str, text: str, said: str
) -> None:
    shell.write(name, text)
    assert said in " ".join(shell.ok("plan", name, "--format", format).out.split())


def test_rows_inside_of_an_answer_are_pointed_at(shell: Shell) -> None:
    answer = {"status": "ok", "data": [{"id": 1}, {"id": 2}]}
    shell.write("a.json", json.dumps(answer, indent=2))
    said = shell.ok("load", "a.json").talk
    assert "2 objects in its key data" in said
    assert "jq -c '.data[]' " in said
    shell.write("b.json", json.dumps([{"id": 1, "tags": [{"a": 1}]}, {"id": 2, "tags": []}]))
    assert "jq" not in shell.ok("load", "b.json").talk  # each is a row


def test_what_is_no_table_says_what_it_is(shell: Shell) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        member = tarfile.TarInfo("a.csv")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"1,2\n"))
    shell.write("backup.gz", gzip.compress(data.getvalue()))
    assert "backup.gz is a tar archive" in shell.ends(4, "load", "backup.gz").talk
    shell.write("dump.sql", "--\n-- PostgreSQL database dump\n--\nCREATE TABLE t (a int);\n")
    assert "dump.sql is a script of SQL, not a table" in shell.ends(4, "load", "dump.sql").talk
    shell.write("blank.csv", "\n\n\n")
    assert "hint: Check what writes it" in shell.ends(4, "load", "blank.csv").talk


def test_a_log_whose_fields_blanks_separate(shell: Shell) -> None:
    rows = "".join(f"2024-01-01 10:00:{n:02} INFO started\n" for n in range(9))
    shell.write("app.log", rows)
    done = shell.ok("load", "app.log", "--format", "CSV", "--delimiter", "blank")
    assert "ended with" not in done.err
    assert shell.row("SELECT count(), max(c2) FROM app") == [9, "10:00:08"]


def test_notes_about_json_that_the_engine_reads(shell: Shell) -> None:
    shell.write("a.json", '{"id": 1} {"id": 2}\n')
    done = shell.ok("load", "a.json")
    assert "a.json: line 1: more stands behind the object; the engine reads it instead" in done.talk


def test_geometries_of_geoparquet_keep_their_bytes_and_their_nulls(shell: Shell) -> None:
    """As the engine's points a NULL fails, or is the point (0, 0) among other shapes."""
    point = struct.pack("<BIdd", 1, 1, 13.4, 52.5)
    column = {"encoding": "WKB", "geometry_types": ["Point"]}
    geo = {"version": "1.0.0", "primary_column": "shape", "columns": {"shape": column}}
    for name, shapes in {"nulls": [point, None, point], "points": [point, point]}.items():
        table = pa.table({"id": list(range(len(shapes))), "shape": shapes})
        pq.write_table(
            table.replace_schema_metadata({"geo": json.dumps(geo)}),
            shell.folder / f"{name}.parquet",
        )
    said = shell.ok("load", "nulls.parquet").talk
    assert "warning: shape: geometries of GeoParquet as their bytes (WKB)" in said
    assert shell.rows("SELECT id, hex(shape) FROM nulls ORDER BY id") == [
        [0, point.hex().upper()], [1, None], [2, point.hex().upper()],
    ]  # fmt: skip
    shell.ok("load", "points.parquet", "--type", "shape Point")
    assert shell.rows("SELECT shape FROM points LIMIT 1") == [[[13.4, 52.5]]]
    assert "NULL" in shell.ends(1, "load", "nulls.parquet", "--table", "points").talk


@pytest.mark.parametrize("format", ["parquet", "orc", "arrow", "avro"])
@pytest.mark.parametrize("damage", ["cut", "end", "head"])
@pytest.mark.sampled
def test_a_damaged_file_of_columns_is_said_to_be_one(
    shell: Shell, format: str, damage: str
) -> None:
    """No value of it is at fault, so --max-errors would not help."""
    shell.ok("load", "generate://random?rows=3000&bytes=64", "--to", f"a.{format}")
    whole = (shell.folder / f"a.{format}").read_bytes()
    half = whole[: len(whole) // 2]
    bodies = {"cut": half, "end": whole[:-20] + b"x" * 16 + whole[-4:], "head": whole[:6]}
    shell.write(f"b.{format}", bodies[damage])
    said = shell.ends(4, "load", f"b.{format}").talk
    assert "is not a whole file of its format hint: Fetch the file again" in said
