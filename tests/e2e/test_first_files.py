"""First files of a newcomer: exports of Excel, answers of services, logs, titles above a table."""

from __future__ import annotations

import gzip
import io
import json
import tarfile

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
    assert "the first 2 lines hold one value at most; --skip-lines 2 leaves them out" in done.talk
    again = shell.ok("load", "a.csv", "--table", "b", "--skip-lines", "2")
    assert "warning" not in again.err
    assert shell.row("SELECT count(), sum(id) FROM b") == [2, 3]


def test_a_header_alone_is_said(shell: Shell) -> None:
    shell.write("a.csv", "id,name,amount\n")
    assert "warning: there is no row below the header" in shell.ok("load", "a.csv").talk


@pytest.mark.parametrize(
    ("name", "format", "text", "said"),
    [
        ("a.txt", "CSV", "id,name\n1,a\n2,b\n", "--header yes reads it so"),
        ("a.txt", "CSVWithNames", "1,a\n2,b\n", "a --format without WithNames reads it so"),
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
    shell.write("a.json", '[{"id": 1},\n{"id": 2}]\n')
    done = shell.ok("load", "a.json")
    assert "a.json: line 1: it is no object; the engine reads it instead" in done.talk
