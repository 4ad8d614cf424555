"""Text files as people have them: each reading gives the same rows, or says why it gives none."""

from __future__ import annotations

import gzip
import shlex

import pytest

from e2e.tools import Shell

BODY = [("1", "Anna", "2024-01-31", "1.5"), ("2", "Bob, \"B\"", "2024-02-01", ""),
        ("3", "", "2024-02-02", "7")]  # fmt: skip
WANTED = [[1, "Anna", "2024-01-31", 1.5], [2, 'Bob, "B"', "2024-02-01", None],
          [3, "", "2024-02-02", 7.0]]  # fmt: skip


def text(mark: str, names: tuple[str, ...] | None, end: str = "\n", last: bool = True) -> str:
    def field(value: str) -> str:
        odd = any(c in value for c in (mark, '"'))
        return '"' + value.replace('"', '""') + '"' if odd else value

    lines = [mark.join(map(field, row)) for row in [*([names] if names else []), *BODY]]
    return end.join(lines) + (end if last else "")


NAMES = ("id", "Full name", "Total $", "2019")
SHAPES = {
    "semicolons": text(";", NAMES),
    "tabs in csv": text("\t", NAMES),
    "pipes without header": text("|", None),
    "carets and CRLF": text("^", NAMES, "\r\n"),
    "tildes": text("~", NAMES),
    "byte 1": text("\x01", NAMES),
    "no last line end": text(",", NAMES, last=False),
    "index of pandas": text(",", ("", "name", "day", "x")),
    "two of a name": text(";", ("id", "a", "a", "a")),
    "blanks around names": text(",", ("id ", " name", "day", "x")),
    "quoted header": text(",", ("id", "name, first", "day", 'x "y"')),
    "umlauts": text(";", ("id", "Größe", "Tag", "x")),
    "title": "Report of March\n\n" + text(",", NAMES),
    "comments": "# made by hand\n" + text(";", NAMES).replace("\n2;", "\n# no\n2;"),
    "CR alone": text(",", NAMES, "\r"),
    "two characters": text("||", NAMES),
    "delimiter at the ends": text("|", None).replace("\n", "|\n"),
    "delimiter at the ends of rows": text(",", NAMES).replace("\n", ",\n").replace(",\n", "\n", 1),
    "backslashes": text(",", NAMES).replace('""', '\\"').replace(',\\",', ',"",'),
    "title above names of no use": "Report\n" + text("||", ("", "a", "a ", "x")),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.sampled(2)
def test_each_dialect_gives_the_same_rows(shell: Shell, name: str) -> None:
    shell.write("a.csv", SHAPES[name])
    for decoder in ("never", "auto", "always"):
        shell.ok("load", "a.csv", "--decoder", decoder, "--table", decoder)
        assert shell.rows(f"SELECT * FROM {decoder} ORDER BY 1") == WANTED


def test_names_that_nobody_can_use_are_made_usable(shell: Shell) -> None:
    (shell.folder / "in").mkdir()
    data = text(",", ("", "a", "a ", "x"))
    for name in ("a", "b"):
        (shell.folder / f"in/{name}.csv.gz").write_bytes(gzip.compress(data.encode()))
    done = shell.ok("load", "in/*.csv.gz", "--table", "t")
    assert "(csv, delimiter comma, header yes, utf-8, gzip)" in done.talk
    names = shell.rows("SELECT name FROM system.columns WHERE table = 't' ORDER BY position")
    assert names == [["c1"], ["a"], ["a_2"], ["x"]]
    assert shell.row("SELECT count(), sum(c1) FROM t") == [6, 12]


def test_a_file_with_another_header_is_not_read_by_position(shell: Shell) -> None:
    """Of twenty files eight are sampled; another one has its columns in another order."""
    for n in range(20):
        names = ("id", "name ", "day", "x") if n != 1 else ("name ", "id", "day", "x")
        shell.write(f"in/f{n:02}.csv", text(",", names))
    done = shell.ends(1, "load", "in/*.csv", "--table", "t")
    assert "f01.csv" in done.talk
    assert "another order" in done.talk
    assert shell.row("SELECT count() FROM t") == [57]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("options", "first"),
    [
        (("--delimiter", "\\t"), [1, "x"]),
        (("--delimiter", "tab"), [1, "x"]),
        (("--delimiter", "blank"), None),
    ],
)
def test_a_tab_as_delimiter(shell: Shell, options: tuple[str, ...], first: list[object]) -> None:
    mark = "\t" if first else " "
    shell.write("a.csv", f"n{mark}s\n1{mark}x\n2{mark}\n")
    for decoder in ("never", "auto"):
        shell.ok("load", "a.csv", *options, "--decoder", decoder, "--table", decoder)
        assert shell.rows(f"SELECT * FROM {decoder} ORDER BY 1") == [[1, "x"], [2, ""]]


def test_what_is_left_out_is_said(shell: Shell) -> None:
    shell.write("a.csv", "# made by hand\n" + text(";", NAMES))
    done = shell.ok("load", "a.csv")
    assert "(csv, delimiter ;, header yes, comment #, utf-8)" in done.talk
    assert "warning" not in done.talk
    # Among the rows it may be a row that is not whole.
    shell.write("c.csv", text(";", NAMES).replace("\n2;", "\n#2\n2;"))
    done = shell.ok("load", "c.csv")
    # Alone, --comment none was refused: the line is one field.
    flags = "--comment none --short-rows null"
    assert f"warning: lines that begin with # are left out; {flags} keeps them" in done.talk
    shell.ok("load", "c.csv", "--table", "d", *shlex.split(flags))
    assert shell.row("SELECT count() FROM d") == [text(";", NAMES).count("\n")]
    shell.write("b.tsv", "n\tpath\n1\tC:\\temp\n")
    shell.ok("load", "b.tsv", "--escape", "none")
    assert shell.row("SELECT path FROM b") == ["C:\\temp"]


def test_what_is_unsure_is_said(shell: Shell) -> None:
    shell.write("a.csv", "alice,berlin\nbob,paris\n")
    done = shell.ok("load", "a.csv")
    assert "header no" in done.talk
    assert "say --header yes if it names columns" in done.talk
    shell.write("b.csv", "John Smith\nJane Doe\n")
    assert "--delimiter blank" in shell.ok("load", "b.csv").talk


def test_the_first_column_of_r_has_no_name(shell: Shell) -> None:
    shell.write("a.csv", '"x","y z"\n"1",1.5,"a"\n"2",2,"b"\n')
    for decoder in ("never", "always"):
        done = shell.ok("load", "a.csv", "--table", decoder, "--decoder", decoder)
        assert "the header has no name for the first column, called row_name here" in done.talk
        rows = shell.rows(f"SELECT row_name, x, `y z` FROM {decoder} ORDER BY 1")
        assert rows == [[1, 1.5, "a"], [2, 2.0, "b"]]
    # Without R's quotes the last name may be missing as well.
    for mark in ",\t":
        lines = "".join(f"{n}{mark}{n}.5{mark}a{n}\n" for n in range(30))
        shell.write("b.csv", f"x{mark}y\n{lines}")
        done = shell.ends(2, "load", "b.csv")
        assert "b.csv names 2 columns, its rows have 3 fields" in done.talk
        assert "--columns row_name,x,y" in done.talk


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "options", "types"),
    [
        ("id;n;d\n1;1'234.5;12/31/2023\n2;5;-\n3;7'000;2/28/2024\n",
         "--dates mdy --null=-",
         ["Int64", "Float64", "Nullable(Date)"]),
        ("id,n\n1,5\n2,(null)\n3,7\n", "--null '(null)'", ["Int64", "Nullable(Int64)"]),
    ],
)  # fmt: skip
def test_what_stays_text_is_said_with_the_options_that_help(
    shell: Shell, text: str, options: str, types: list[str]
) -> None:
    shell.write("a.csv", text)
    for command in ("plan", "load"):
        done = shell.ok(command, "a.csv")
        assert f"{options} makes numbers and dates of it" in done.talk + " ".join(done.out.split())
    done = shell.ok("load", "a.csv", "--table", "t", *shlex.split(options))
    assert "text as it is written" not in done.talk
    names = "SELECT type FROM system.columns WHERE table = 't' ORDER BY position"
    assert [row[0] for row in shell.rows(names)] == types
    assert shell.row("SELECT count() FROM t") == [3]


def test_numbers_with_marks_below_names_that_were_given(shell: Shell) -> None:
    """The header of the file has other names than the columns."""
    shell.write("a.csv", "a;b\nx;1,5\ny;2,5\n")
    for decoder in ("never", "always"):
        given = ("--columns", "k,v", "--decimal", ",", "--table", decoder, "--decoder", decoder)
        shell.ok("load", "a.csv", *given)
        assert shell.rows(f"SELECT k, v FROM {decoder} ORDER BY k") == [["x", 1.5], ["y", 2.5]]


def test_plain_numbers_and_dates_need_no_options(shell: Shell) -> None:
    rows = "1,5.25,2024-01-01,555 123 456,-\n2,1000,2024-01-02,030 77,x\n"
    shell.write("a.csv", f"id,n,day,phone,code\n{rows}")
    assert "text as it is written" not in shell.ok("load", "a.csv").talk


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "options", "rows"),
    [
        ("id,name\n1,a\n\n2,b\n", "", [[1, "a"], [2, "b"]]),
        ("id\tname\n1\ta\n\n2\tb\\n\n", "", [[1, "a"], [2, "b\n"]]),
        ('id, name\n1, "Oslo, N"\n2,  Bern\n', "", [[1, "Oslo, N"], [2, "Bern"]]),
        ("n;t;y\n'Tenacious D'; 'The pick';2006\n'A' ;'x; y';7\n", "",
         [["A", "x; y", 7], ["Tenacious D", "The pick", 2006]]),
        ("id,name,x\n1,a\n2,b,5\n", "--short-rows null", [[1, "a", None], [2, "b", 5]]),
        ("id\tx\n1\n2\t5\n", "--short-rows null", [[1, None], [2, 5]]),
        ("id\n1\n\n2\n", "", [[1], [2], [None]]),
        ("id\n1\n\n2\n", "--blank-lines skip", [[1], [2]]),
        ("a,b,\n1,\n2,x\n", "", [[1, ""], [2, "x"]]),
        ('id, name\n1, "a"\n', "--blanks keep --header yes", [[1, ' "a"']]),
    ],
)  # fmt: skip
def test_lines_that_are_not_whole(
    shell: Shell, text: str, options: str, rows: list[list[object]]
) -> None:
    name = "a.tsv" if "\t" in text else "a.csv"
    shell.write(name, text)
    for decoder in ("never", "auto"):
        given = (*shlex.split(options), "--decoder", decoder, "--table", decoder)
        shell.ok("load", name, *given)
        assert shell.rows(f"SELECT * FROM {decoder} ORDER BY 1") == rows


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "said", "rows"),
    [
        ("a,b,c\n1,2\n3,4\n", "--short-rows null", [[1, 2, None], [3, 4, None]]),
        ("id,n\n" + "1,5\n" * 9 + "2\n", "--short-rows null", [[1, 5]] * 9 + [[2, None]]),
    ],
)
def test_rows_that_lack_fields_are_refused_with_the_option_that_fills_them(
    shell: Shell, text: str, said: str, rows: list[list[object]]
) -> None:
    shell.write("a.csv", text)
    done = shell.run("load", "a.csv")
    assert done.code in (1, 2)
    assert f"{said} fills" in done.talk
    shell.ok("load", "a.csv", *said.split(), "--replace")
    assert shell.rows("SELECT * FROM a ORDER BY 1") == rows


def test_blank_lines_behind_the_sample(shell: Shell) -> None:
    shell.write("a.csv", "id,name\n" + "1,abcdefghijklmnop\n" * 30_000 + "\n" + "2,b\n" * 30_000)
    done = shell.run("load", "a.csv")
    assert done.code == 1
    assert "--blank-lines skip" in done.talk
    shell.ok("load", "a.csv", "--blank-lines", "skip")
    assert shell.row("SELECT count(), sum(id) FROM a") == [60_000, 90_000]


def test_a_delimiter_that_does_not_split_is_said_before_the_first_row(shell: Shell) -> None:
    shell.write("a.csv", "id,name\n1,a\n2,b\n")
    shell.write("n.csv", "id,n\n1,2\n2,3\n")
    said = shell.ok("plan", "n.csv", "--delimiter", ";").out
    assert "--delimiter comma" in said
    assert "--decimal" not in said  # commas between fields stand before no decimals
    for given, said in (
        (("--delimiter", ";"), "--delimiter comma"),
        (("--format", "TSVWithNames"), "--format CSVWithNames --delimiter comma"),
    ):
        done = shell.ok("load", "a.csv", *given, "--table", "t" + said[2])
        assert said in done.talk
        assert done.talk.index(said) < done.talk.index("creating")
        shell.ok("load", "a.csv", *said.split(), "--table", "u" + said[2])
        assert shell.rows(f"SELECT id, name FROM u{said[2]} ORDER BY 1") == [[1, "a"], [2, "b"]]


def test_exports_have_names(shell: Shell) -> None:
    shell.ok("load", "generate://trips?rows=100", "--table", "t")
    shell.ok("load", "generate://trips?rows=100", "--to", "out.csv")
    shell.ok("load", "out.csv", "--table", "u")
    columns = "SELECT groupArray(name) FROM system.columns WHERE table = "
    assert shell.row(columns + "'u'") == shell.row(columns + "'t'")


def test_names_that_are_made_are_said(shell: Shell) -> None:
    shell.write("t.csv", "a,a,,b \n1,2,3,4\n5,6,7,8\n")
    done = shell.ok("load", "t.csv")
    said = " ".join(done.err.split())
    assert "empty or stands twice get one: 'a' is a_2, the empty name is c3 note" in said
    assert shell.rows("SELECT a, a_2, c3, b FROM t ORDER BY a") == [[1, 2, 3, 4], [5, 6, 7, 8]]


WRITTEN = {
    "a.dat": "# by an instrument\n#\n"
    " id    day        x\n   1  2024-01-31  1.5\n  20\t2024-02-01  7 \n",
    "b.csv": '"id","day","x" \n1,2024-01-31,1.5 \n20,2024-02-01,7 \n',
    "c.tsv": "# a list\n# of things\nid\tday\tx\n1\t2024-01-31\t1.5\n20\t2024-02-01\t7\n",
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.sampled(1)
def test_tables_as_instruments_and_agencies_write_them(shell: Shell, name: str) -> None:
    shell.write(name, WRITTEN[name])
    for decoder in ("never", "always"):
        shell.ok("load", name, "--decoder", decoder, "--table", decoder)
        assert shell.rows(f"SELECT id, day, x FROM {decoder} ORDER BY 1") == [
            [1, "2024-01-31", 1.5],
            [20, "2024-02-01", 7.0],
        ]


def test_what_macos_keeps_beside_a_file_is_named(shell: Shell) -> None:
    shell.write("._a.csv", b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        \x00\x02" + bytes(60))
    done = shell.ends(4, "load", "._a.csv", "--table", "t")
    assert "AppleDouble" in done.talk
    assert "without ._" in done.talk
