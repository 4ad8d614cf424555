"""Bytes that are not what their names say, and text that is written another way."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from pathlib import Path

import pytest

from e2e.tools import Shell, made

MODES = ("never", "always", "auto")
# What is taken by default is "always" for all of these.
EACH_MODE = ["never", "always", pytest.param("auto", marks=pytest.mark.long)]
PLAIN = 'id,name,amount,day\n1,Müller,1234.5,2023-12-31\n2,,,\n3,"a;b",7,2024-01-02\n'
ROWS = [[1, "Müller", 1234.5, "2023-12-31"], [2, "", None, None], [3, "a;b", 7, "2024-01-02"]]
SCHEMA = "id UInt32, name String, amount Nullable(Float64), day Nullable(Date)"


# --- bytes that lie ------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", EACH_MODE)
def test_gzip_called_csv_is_read_as_gzip(shell: Shell, mode: str) -> None:
    shell.write("t.csv", gzip.compress(PLAIN.encode()))
    done = shell.ok("load", "t.csv", "--decoder", mode)
    assert "t.csv is gzip" in done.talk
    assert shell.rows("SELECT * FROM t ORDER BY id") == ROWS


def test_parquet_is_told_by_its_bytes(shell: Shell) -> None:
    data = made("SELECT number AS id, 'x' AS name FROM numbers(5)", "Parquet")
    shell.write("lie.csv", data)
    shell.write("part-0", data)
    assert "lie.csv is Parquet" in shell.ok("load", "lie.csv", "--table", "t").talk
    shell.ok("load", "part-0", "--table", "t")
    assert shell.row("SELECT count(), sum(id) FROM t") == [10, 20]


def test_a_workbook_is_refused_before_anything_is_made(shell: Shell) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("[Content_Types].xml", "")
    shell.write("t.csv", data.getvalue())
    done = shell.ends(4, "load", "t.csv")
    assert "is an Excel workbook" in done.talk
    assert "Save the sheet as CSV" in done.talk
    assert not (shell.folder / "rowfall-data").exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", EACH_MODE)
def test_bytes_that_are_not_utf_8_are_refused(shell: Shell, mode: str) -> None:
    """But for text in which all words are of one language, which a warning says."""
    shell.write("first.csv", PLAIN.encode("mac-roman"))
    done = shell.ends(4, "load", "first.csv", "--decoder", mode)
    assert "first.csv line 2 is not UTF-8: byte 0x9F" in done.talk
    assert "--encoding macintosh" in done.talk
    shell.write("first.csv", PLAIN.encode("latin-1"))
    done = shell.ok("load", "first.csv", "--decoder", mode)
    assert 'first.csv is not UTF-8 and is read as windows-1252: "1,Müller' in done.talk
    assert shell.rows("SELECT * FROM first ORDER BY id") == ROWS
    # Behind what is looked at, the load itself finds it.
    lines = [f"{i},name{i % 9},{i}" for i in range(30_000)]
    late = "id,name,n\n" + "\n".join([*lines, "9000,Müller,9000"]) + "\n"
    shell.write("late.csv", late.encode("latin-1"))
    done = shell.ends(1, "load", "late.csv", "--table", "t", "--decoder", mode)
    assert 'late.csv line 30002 column "name": "M\\xfcller" is not UTF-8' in done.talk
    assert shell.row("SELECT count() FROM t") == [0]
    shell.ok("load", "late.csv", "--table", "t", "--decoder", mode, "--encoding", "binary")
    assert shell.row("SELECT count(), countIf(NOT isValidUTF8(name)) FROM t") == [30001, 1]


def test_bytes_of_json_that_are_not_utf_8_are_refused(shell: Shell) -> None:
    lines = [f'{{"id":{i},"name":"x"}}' for i in range(9000)]
    text = "\n".join([*lines, '{"id":9000,"name":"Müller"}']) + "\n"
    shell.write("t.json", text.encode("latin-1"))
    for mode in MODES:
        done = shell.ends(1, "load", "t.json", "--decoder", mode)
        assert "t.json line 9001 is not UTF-8" in done.talk


@pytest.mark.parametrize("mode", EACH_MODE)
def test_a_byte_order_mark_before_a_header(shell: Shell, mode: str) -> None:
    shell.write("t.csv", PLAIN.encode("utf-8-sig"))
    shell.ok("load", "t.csv", "--decoder", mode)
    assert shell.rows("SELECT * FROM t ORDER BY id") == ROWS


# --- charsets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", EACH_MODE)
@pytest.mark.parametrize(
    ("charset", "named"),
    [("latin-1", "latin-1"), ("utf-16", None), ("utf-16-be", "utf-16be"), ("cp1252", "cp1252")],
)
@pytest.mark.sampled(1)
def test_charsets(shell: Shell, charset: str, named: str | None, mode: str) -> None:
    shell.write("t.csv", PLAIN.encode(charset))
    options = ("--encoding", named) if named else ()
    shell.ok("load", "t.csv", "--decoder", mode, *options)
    assert shell.rows("SELECT * FROM t ORDER BY id") == ROWS


def test_charsets_of_other_formats_stdin_and_packed_files(shell: Shell) -> None:
    shell.write("t.json.gz", gzip.compress('{"id":1,"name":"Müller"}\n'.encode("utf-16")))
    shell.ok("load", "t.json.gz")
    shell.write("u.tsv", "1\tMü\\tller\n".encode("latin-1"))
    shell.ok("load", "u.tsv", "--encoding", "latin-1", "--table", "u")
    shell.ok("load", "-", "--table", "v", "--null", "NA", stdin="id,name\n1,NA\n2,5\n3,6\n")
    assert shell.rows("SELECT * FROM t") == [[1, "Müller"]]
    assert shell.rows("SELECT * FROM u") == [[1, "Mü\tller"]]
    assert shell.rows("SELECT * FROM v ORDER BY id") == [[1, None], [2, 5], [3, 6]]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", EACH_MODE)
def test_words_for_null_are_null_in_columns_of_text(shell: Shell, mode: str) -> None:
    """Also where few fields are words; in quotes a word is a word, and nothing is nothing."""
    shell.write("t.csv", 'id,name\n1,a\n2,NA\n3,b\n4,""\n5,\n6,"NA"\n7,c\n8,d\n9,e\n')
    shell.ok("load", "t.csv", "--null", "NA", "--decoder", mode)
    names = [row[1] for row in shell.rows("SELECT * FROM t ORDER BY id")]
    assert names == ["a", None, "b", "", None, "NA", "c", "d", "e"]


def test_stdin_says_what_it_is_and_is_copied_where_it_is_read_twice(shell: Shell) -> None:
    text = "id,name\n1,Müller\n2,x\n3,y\n"
    with shell.write("wide", text.encode("utf-16")).open("rb") as file:
        process = shell.cli.start("load", "-", "--table", "t", stdin=file.fileno())
        _, talk = process.communicate(timeout=60)
    assert "(csv, delimiter comma, header yes, utf-16le)" in talk
    assert shell.row("SELECT name FROM t WHERE id = 1") == ["Müller"]
    title = f"Report\n\n{text}"
    done = shell.ok("load", "-", "--table", "u", stdin=title)
    assert "stdin has 2 lines before the header or the first row, so it is copied into" in done.talk
    assert shell.row("SELECT count() FROM u") == [3]


@pytest.mark.long
def test_stdin_with_other_marks_bad_rows_and_wider_types(shell: Shell) -> None:
    scratch = shell.folder / "scratch"
    scratch.mkdir()
    shell.env["TMPDIR"] = str(scratch)
    marks = ("--decimal", ",", "--thousands", ".", "--dates", "dmy")
    text = "id;x;day\n1;1.000,5;31.12.2023\n2;2,5;1.2.2024\n"
    done = shell.ok("load", "-", "--table", "t", *marks, stdin=text)
    assert f"stdin is copied into {scratch} first" in done.talk
    assert shell.rows("SELECT id, x, toString(day) FROM t ORDER BY id") == [
        [1, 1000.5, "2023-12-31"], [2, 2.5, "2024-02-01"],
    ]  # fmt: skip
    small = ("--table", "u", "--type", "n UInt8", "--order-by", "id")
    shell.ok("load", "-", *small, "--max-errors", "1", stdin="id,n\n1,5\n2,x\n3,7\n")
    assert shell.rows("SELECT id, n FROM u ORDER BY id") == [[1, 5], [3, 7]]
    shell.ok("load", "-", "--table", "u", "--widen", stdin="id,n\n4,70000\n")
    assert shell.row("SELECT max(n) FROM u") == [70000]
    shell.ok("load", "-", "--table", "w", "--select", "id + 1 AS id", "--where", "id > 4",
             "--max-errors", "1", stdin="id\n1\n5\n9\n")  # fmt: skip
    assert shell.rows("SELECT id FROM w ORDER BY id") == [[6], [10]]
    assert "at most once" in shell.ok("plan", "-", *marks, stdin=text).out.replace("\n", " ")
    assert not list(scratch.iterdir())


def test_bytes_that_a_charset_lacks_are_errors_with_their_offset(shell: Shell) -> None:
    shell.write("t.csv", "id,name\n1,日本\n".encode("shift_jis") + b"2,\xff\n")
    for mode in MODES:
        done = shell.ends(1, "load", "t.csv", "--encoding", "shift_jis", "--decoder", mode)
        assert "byte 0xFF at offset 17 is not Shift_JIS" in done.talk
        assert "Run the same command again" not in done.talk
    for charset in re.findall(r"--encoding ([\w-]+)", done.talk):
        shell.ok("load", "t.csv", "--encoding", charset, "--table", charset.replace("-", "_"))
    assert shell.row("SELECT count() FROM windows_1252") == [2]
    assert shell.row("SELECT name = unhex('93FA967B') FROM binary WHERE id = 1") == [1]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", EACH_MODE)
def test_a_byte_that_is_no_text_is_a_bad_row_where_some_are_allowed(
    shell: Shell, mode: str
) -> None:
    shell.write("t.csv", b"id,name\n1,a\n2,M\xfcller\n3,c\n")
    shell.ok("load", "t.csv", "--max-errors", "1", "--decoder", mode)
    assert shell.rows("SELECT * FROM t ORDER BY id") == [[1, "a"], [3, "c"]]


def test_what_is_no_row_of_foreign_text_has_a_hint(shell: Shell) -> None:
    shell.write("t.csv", 'id;name\n1;"a\n2;b\n# x\n')
    done = shell.ends(1, "load", "t.csv", "--comment", "#")
    assert "line 2: a quote is opened and never closed" in done.talk
    assert "Where quotes are letters of the values: --quote none" in done.talk
    shell.ok("load", "t.csv", "--comment", "#", "--quote", "none", "--table", "u")
    assert shell.rows("SELECT * FROM u ORDER BY id") == [[1, '"a'], [2, "b"]]


@pytest.mark.parametrize("comment", ["", "# by hand\n"])
def test_quotes_are_said_to_be_letters_where_lines_are_rows_so(shell: Shell, comment: str) -> None:
    """It was named for each quote that is open: pasted, a comma made a field of its own."""
    for text, letters in (('1,"a, b\n2,c\n', False), ('1,5" pipe\n2,"c\n', True)):
        shell.write("t.csv", f"{comment}id,name\n{text}")
        done = shell.ends(1, "load", "t.csv", "--table", f"t{letters:d}")
        assert "quote is opened" in done.talk
        assert ("--quote none" in done.talk) == letters
        given = ("load", "t.csv", "--table", f"u{letters:d}", "--quote", "none")
        shell.ends(0 if letters else 1, *given)
        piped = shell.run("load", "-", "--table", "v", stdin=f"{comment}id,name\n{text}")
        assert letters or "--quote none" not in piped.talk


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", EACH_MODE)
def test_null_of_databases_is_null_in_rewritten_text(shell: Shell, mode: str) -> None:
    """It is told from a text that is empty, as in plain CSV; in quotes it is a text."""
    rows = 'id;name;n\n1;\\N;5\n2;"";\\N\n3;"\\N";7\n'
    shell.write("plain.csv", rows)
    shell.write("t.csv", "# by hand\n" + rows)
    for name in ("plain", "t"):
        shell.ok("load", f"{name}.csv", "--decoder", mode)
    wanted = [[1, None, 5], [2, "", None], [3, "\\N", 7]]
    assert shell.rows("SELECT * FROM plain ORDER BY id") == wanted
    assert shell.rows("SELECT * FROM t ORDER BY id") == wanted


# --- numbers, dates, words -----------------------------------------------------------------------

FOREIGN = 'id;name;amount;day\n1;Müller;1.234,5;31.12.2023\n2;"";NA;-\n3;"a;b";7;2.1.2024\n'
DIALECT = ("--delimiter", ";", "--encoding", "latin-1", "--null", "NA,-", "--decimal", ",",
           "--thousands", ".", "--dates", "dmy")  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", EACH_MODE)
def test_a_foreign_file_gives_the_rows_of_the_plain_one(shell: Shell, mode: str) -> None:
    shell.write("t.csv", FOREIGN.encode("latin-1"))
    shell.ok("load", "t.csv", "--decoder", mode, *DIALECT)
    assert shell.rows("SELECT * FROM t ORDER BY id") == ROWS
    types = "SELECT arrayMap(x -> x.2, groupArray((position, type))) FROM system.columns "
    assert shell.row(types + "WHERE table = 't'") == [
        ["Int64", "String", "Nullable(Float64)", "Nullable(Date)"]
    ]
    # Nothing is loaded twice, and both sides are equal.
    shell.ok("load", "t.csv", "--decoder", mode, *DIALECT)
    assert shell.row("SELECT count() FROM t") == [3]
    load = shell.ok("load", "t.csv", "--decoder", mode, *DIALECT, "--json").document["load_id"]
    shell.ok("verify", load)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", EACH_MODE)
def test_bad_rows_of_foreign_text_are_named_by_their_lines(shell: Shell, mode: str) -> None:
    # An empty line is left out of what is read.
    text = "id;name;amount;day\n1;x;1,5;31.12.2023\n\n2;y;1.5;1.1.2024\n"
    shell.write("t.csv", text)
    given = ("--schema", SCHEMA, "--delimiter", ";", "--decimal", ",", "--dates", "dmy")
    lines = text.splitlines()
    shell.write("u.csv", "\n".join([lines[0], *lines[1:2] * 90, *lines[2:]]) + "\n")
    done = shell.ends(1, "load", "u.csv", "--table", "t", "--decoder", mode, *given)
    assert 'u.csv line 93 column "amount": "1.5 (decimal mark?)" does not fit' in done.talk
    shell.ok("load", "u.csv", "--table", "t", "--decoder", mode, "--max-errors", "1", *given)
    assert shell.row("SELECT count(), sum(amount) FROM t") == [90, 135]
    rejected = (shell.folder / "rowfall-rejects.tsv").read_text().splitlines()[1].split("\t")
    assert rejected[1] == "93"


def test_a_header_in_another_order_is_read_by_its_names(shell: Shell) -> None:
    shell.write("a.csv", "id;amount;code\n1;1,5;1.5\n")
    shell.write("b.csv", "code;amount;id\n2.5;2,5;2\n")
    shell.ok("load", "*.csv", "--table", "t", "--delimiter", ";", "--decimal", ",", "--format",
             "CSVWithNames", "--schema", "id UInt8, amount Float64, code String")  # fmt: skip
    assert shell.rows("SELECT id, amount, code FROM t ORDER BY id") == [
        [1, 1.5, "1.5"], [2, 2.5, "2.5"]
    ]  # fmt: skip


def test_text_is_not_rewritten_without_the_program(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from rowfall.decoder import installed

    monkeypatch.setattr(installed, "_found", lambda: None)
    shell.write("t.csv", PLAIN.encode("latin-1"))
    done = shell.ends(2, "load", "t.csv", "--encoding", "latin-1")
    assert "rewritten by rowfall-decode, and rowfall-decode is not installed" in done.talk
    assert "iconv -f windows-1252 -t utf-8" in done.talk


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--encoding", "latin1x"), "not a character encoding"),
        (("--decimal", "x"), "not a mark"),
        (("--decimal", ",", "--thousands", ","), "contradict"),
        (("--dates", "ydm"), "no order"),
        (("--encoding", "binary", "--null", "NA"), "--encoding binary"),
    ],
)
def test_options_that_make_no_sense(shell: Shell, options: tuple[str, ...], says: str) -> None:
    shell.write("t.csv", PLAIN)
    assert says in shell.ends(2, "load", "t.csv", *options).talk
