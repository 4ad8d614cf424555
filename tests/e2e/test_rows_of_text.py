"""Rows of CSV and TSV whose ends are unusual: the same values by both readers, or refused."""

from __future__ import annotations

import gzip

import pytest

from e2e.tools import Shell

MODES = ("never", "always", "auto")


def values(
    shell: Shell, data: str, *options: str, mode: str = "never", name: str = "in.csv"
) -> str:
    """Load one file and give its rows as TSV."""
    file = shell.folder / name
    file.write_bytes(gzip.compress(data.encode()) if name.endswith(".gz") else data.encode())
    to = f"{mode}-{len(list(shell.folder.iterdir()))}"
    shell.ok("load", name, "--table", "t", "--decoder", mode, "--to", to, *options)
    return shell.ok("query", "SELECT * FROM t ORDER BY ALL", "--to", to, "--format", "TSV").out


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", MODES)
def test_an_empty_last_field_without_a_line_end_is_null(shell: Shell, mode: str) -> None:
    data = "id,city,note\n1,Oslo,\n2,Rome,x\n3,Bern,"
    given = ("--schema", "id UInt32, city String, note Nullable(String)")
    assert values(shell, data, *given, mode=mode) == "1\tOslo\t\\N\n2\tRome\tx\n3\tBern\t\\N\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("type_", ["Float64", "Int32", "Date", "UUID", "Bool", "DateTime"])
def test_nor_is_it_an_error_behind_the_sample(shell: Shell, type_: str) -> None:
    texts = {
        "Float64": "1.5", "Int32": "7", "Date": "2024-01-02", "Bool": "true",
        "UUID": "61f0c404-5cb3-11e7-907b-a6006ad3dba0", "DateTime": "2024-01-02 03:04:05",
    }  # fmt: skip
    data = "id,x\n" + f"1,{texts[type_]}\n" * 20_500 + "2,"
    name = "in.csv.gz" if type_ == "Int32" else "in.csv"
    found = values(shell, data, "--type", f"x Nullable({type_})", name=name)
    assert found.count("\n") == 20_501
    assert found.endswith("2\t\\N\n")


def test_it_is_null_where_bad_rows_are_left_out(shell: Shell) -> None:
    given = ("--schema", "id UInt32, note Nullable(String)", "--max-errors", "1")
    assert values(shell, "id,note\n1,x\nno number,y\n3,", *given) == "1\tx\n3\t\\N\n"


def test_it_is_null_beside_a_file_with_a_bad_row(shell: Shell) -> None:
    """A second try with line breaks in strings read it as an empty string."""
    shell.write("in/a.csv", "id,note\n1,x\n2,")
    shell.write("in/b.csv", "id,note\n3\n4,")
    given = ("--schema", "id UInt32, note Nullable(String)", "--decoder", "never")
    shell.ends(1, "load", "in/*.csv", "--table", "t", *given)
    assert shell.rows("SELECT * FROM t ORDER BY ALL") == [[1, "x"], [2, None]]


def test_it_is_null_in_files_with_other_last_columns(shell: Shell) -> None:
    """One of two such files was refused for it."""
    shell.write("in/a.csv", "id,a,b\n1,x,true\n2,y,")
    shell.write("in/b.csv", "id,b,a\n3,true,x\n4,true,")
    given = ("--schema", "id UInt32, a Nullable(String), b Nullable(Bool)", "--decoder", "never")
    shell.ok("load", "in/*.csv", "--table", "t", *given)
    assert shell.rows("SELECT * FROM t ORDER BY ALL") == [
        [1, "x", True], [2, "y", None], [3, "x", True], [4, None, True]
    ]  # fmt: skip


def test_quoted_empty_strings_stay_beside_it(shell: Shell) -> None:
    """In one file nobody can tell the two: it is refused, and a line end helps."""
    given = ("--schema", "a UInt32, b Nullable(String)", "--format", "CSVWithNames")
    assert values(shell, 'a,b\n1,""\n2,\n', *given) == "1\t\n2\t\\N\n"
    (shell.folder / "in.csv").write_text('a,b\n1,""\n2,')
    done = shell.run("load", "in.csv", "--decoder", "never", "--to", "x", *given)
    assert done.code == 1
    assert "Add a line end" in done.talk


RAGGED = {
    "longer": ("a,b,c,d\nx,y,z,\np,,q,r,\n", 3, "5 fields instead of 4"),
    "much longer": ("a,b,c,d\nx,y,z,w\np,,q,r,,1\n", 3, "6 fields instead of 4"),
    "shorter": ("a,b,c,d\nx,y,z,w\np,q,r\n", 3, "3 fields instead of 4"),
    "the last": ("a,b,c,d\nx,y,z,w\np,q,r,s,", 3, "5 fields instead of 4"),
}


@pytest.mark.parametrize("form", ["CSVWithNames", "CSV", "TSVWithNames"])
@pytest.mark.parametrize("case", RAGGED)
@pytest.mark.sampled(1)
def test_rows_of_another_length_are_refused(shell: Shell, case: str, form: str) -> None:
    data, line, says = RAGGED[case]
    head, _, rest = data.partition("\n")
    data, line = f"{head}\n" + "k,l,m,n\n" * 3 + rest, line + 3
    if form == "CSV":
        data, line = data.partition("\n")[2], line - 1
    data = data.replace(",", "\t") if form.startswith("TSV") else data
    (shell.folder / "in.data").write_text(data)
    schema = "a String, b String, c String, d Nullable(String)"
    # Shorter rows of TSV are filled without it, and noted.
    given = ("--format", form, "--schema", schema, "--short-rows", "error")
    for mode in MODES:
        done = shell.run("load", "in.data", "--table", "t", "--decoder", mode, "--to", mode, *given)
        assert done.code == 1
        assert f"in.data line {line} has {says}" in done.talk, mode
    more = ("--max-errors", "1", "--rejects", "out.tsv")
    shell.ok("load", "in.data", "--table", "t", "--decoder", "never", "--to", "n", *given, *more)
    assert shell.ok("query", "SELECT count() FROM t", "--to", "n").out.split()[-1] == "4"
    assert f"in.data\t{line}\t" in (shell.folder / "out.tsv").read_text()


TRAILING = {
    "bare": ("1|a x |\n2||\n3|c|\n", "CSV"),
    "below a header": ("a|b\n1|a x |\n2||\n3|c|\n", "CSVWithNames"),
    "with the header": ("a|b|\n1|a x |\n2||\n3|c|\n", "CSVWithNames"),
    "open": ("1|a x |\r\n2||\r\n3|c|", "CSV"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", TRAILING)
@pytest.mark.sampled(1)
def test_a_delimiter_at_the_end_of_all_rows(shell: Shell, case: str, mode: str) -> None:
    """As TPC-H writes its tables; a row that does not end so is refused."""
    data, form = TRAILING[case]
    given = ("--format", form, "--delimiter", "|", "--schema", "a UInt8, b String")
    assert values(shell, data, *given, mode=mode) == "1\ta x \n2\t\n3\tc\n"
    body = data if data[-1] == "\n" else data + "\r\n"
    body = body * 40 if form == "CSV" else body + "7|x|\n" * 90
    (shell.folder / "odd.csv").write_text(body + "5|y\n")
    done = shell.run("load", "odd.csv", "--table", "odd", "--decoder", mode, *given)
    assert done.code == 1
    assert "does not end with a delimiter '|'" in done.talk or "fields instead" in done.talk


def test_headers_of_another_order_are_read_by_position(shell: Shell) -> None:
    (shell.folder / "a.csv").write_text("id,name,x\n1,a,\n")
    (shell.folder / "b.csv").write_text("x,id,name\n,2,b\n")
    shell.ok("load", "*.csv", "--format", "CSVWithNames", "--decoder", "never", "--table", "t",
             "--schema", "id UInt8, name String, x Nullable(String)")  # fmt: skip
    found = shell.ok("query", "SELECT * FROM t ORDER BY id", "--format", "TSV").out
    assert found == "1\ta\t\\N\n2\tb\t\\N\n"
    (shell.folder / "c.csv").write_text("id,name,y\n3,c,\n")
    done = shell.run(
        "load", "*.csv", "--format", "CSVWithNames", "--decoder", "never", "--table", "t"
    )
    assert done.code != 0
    assert "c.csv" in done.talk


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", MODES)
def test_blanks_stay_wherever_they_stand(shell: Shell, mode: str) -> None:
    """Whether the sample has some makes no difference, and the decoder reads them."""
    rows = [f"plain {n % 80},{n},plain {n % 90}\n" for n in range(20_500)]
    given = ("--format", "CSV", "--schema", "a String, id UInt32, s String")
    for at in (0, 20_499):
        data = "".join([*rows[:at], f" both ,{at}, both \n", *rows[at + 1 :]])
        (shell.folder / f"{at}.csv").write_text(data)
        shell.ok("load", f"{at}.csv", "--table", "t", "--decoder", mode, "--to", mode, *given)
    where = "a = ' both ' AND s = a"
    found = shell.ok("query", f"SELECT id FROM t WHERE {where} ORDER BY id", "--to", mode)
    assert found.out.split()[-2:] == ["0", "20499"]
    if mode == "auto":
        plan = shell.ok("plan", "0.csv", *given, "--to", "p", "--json").document
        assert plan["decoder"] == "rowfall-decode"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", MODES)
def test_blanks_in_front_of_the_first_field_stay(shell: Shell, mode: str) -> None:
    """Wherever a header puts the field, alone, and in rows that are left when others are bad."""
    (shell.folder / "a.csv").write_text("id,s,x\n1, a ,\n")
    (shell.folder / "b.csv").write_text("s,x,id\n b ,,2\n\tc,,3\n")
    given = ("--format", "CSVWithNames", "--decoder", mode, "--type", "s Nullable(String)")
    shell.ok("load", "*.csv", "--table", "t", *given, "--type", "x Nullable(UInt8)")
    wanted = [[1, " a ", None], [2, " b ", None], [3, "\tc", None]]
    assert shell.rows("SELECT id, s, x FROM t ORDER BY id") == wanted
    (shell.folder / "bad.csv").write_text("s,n\n a,1\n b,x\n,3\n")
    shell.ok("load", "bad.csv", "--table", "bad", *given, "--type", "n UInt8", "--max-errors", "1")
    assert shell.rows("SELECT * FROM bad ORDER BY n") == [[" a", 1], [None, 3]]
    (shell.folder / "one.csv").write_text('s\n a\n\n""\nb\n')
    shell.ok("load", "one.csv", "--table", "one", *given)
    assert shell.rows("SELECT * FROM one ORDER BY s") == [[""], [" a"], ["b"], [None]]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", MODES)
def test_blanks_behind_quotes_and_around_numbers(shell: Shell, mode: str) -> None:
    """They stand where the sample has not seen any, and blanks in front of a string stay."""
    (shell.folder / "a.csv").write_text(
        "s,x,t\n" + "a,1.5,b\n" * 20_500 + ' c, 2.5 ,d\n"e" ,3,"f"\n'
    )
    given = ("--format", "CSVWithNames", "--decoder", mode, "--verify")
    shell.ok("load", "a.csv", "--table", "t", *given)
    found = shell.rows("SELECT s, x, t, count() FROM t GROUP BY s, x, t ORDER BY x")
    assert found == [["a", 1.5, "b", 20_500], [" c", 2.5, "d", 1], ["e", 3, "f", 1]]
