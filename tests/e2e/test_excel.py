"""Workbooks as sources: which sheet, where its table begins, types of cells, what is wrong."""

from __future__ import annotations

import datetime as dt
import shlex
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import xlsxwriter

from e2e.tools import Shell, kill_while_it_loads
from lab.seaweed import Seaweed
from unit.stores import test_error_cells as error_cells

DAY = dt.date(2024, 1, 31)


FORMATS = ("yyyy-mm-dd", "yyyy-mm-dd hh:mm:ss", "hh:mm:ss", "[h]:mm:ss", "0%")


def book(path: Path, sheets: dict[str, Sequence[Sequence[Any]]], **options: Any) -> None:
    """Write a workbook; a tuple is a value and its format, or a formula and its result."""
    with xlsxwriter.Workbook(str(path), options) as made:
        forms = {form: made.add_format({"num_format": form}) for form in FORMATS}
        for name, rows in sheets.items():
            sheet = made.add_worksheet(name)
            for row, cells in enumerate(rows):
                for column, cell in enumerate(cells):
                    _write(sheet, row, column, cell, forms)


def _write(sheet: Any, row: int, column: int, cell: Any, forms: dict[str, Any]) -> None:
    if isinstance(cell, tuple) and str(cell[0]).startswith("="):
        sheet.write_formula(row, column, cell[0], None, cell[1])
    elif isinstance(cell, tuple):
        sheet.write(row, column, cell[0], forms[cell[1]])
    elif isinstance(cell, dt.datetime):
        sheet.write_datetime(row, column, cell, forms["yyyy-mm-dd hh:mm:ss"])
    elif isinstance(cell, dt.date):
        sheet.write_datetime(row, column, cell, forms["yyyy-mm-dd"])
    elif isinstance(cell, dt.time):
        sheet.write_datetime(row, column, cell, forms["hh:mm:ss"])
    elif isinstance(cell, str):
        sheet.write_string(row, column, cell)
    elif cell is not None:
        sheet.write(row, column, cell)


HEAD = ("id", "name", "day", "at", "rate", "ok", "zip", "clock", "took")


def rows(count: int) -> list[Sequence[Any]]:
    return [
        (n, f"n\t{n}", DAY, dt.datetime(2024, 1, 31, 10, 0, n), (0.25, "0%"), n % 2 == 0,
         f"0012{n}", dt.time(10, 30, n), (1.5, "[h]:mm:ss"))
        for n in range(count)
    ]  # fmt: skip


def test_a_sheet_below_a_title(shell: Shell) -> None:
    """Types are those of the cells; numbers as text stay text, and what is left out is said."""
    title = [("Report of sales",), (), HEAD]
    book(shell.folder / "sales.xlsx", {"Q1": [*title, *rows(3), (), *rows(5)[3:]]})
    done = shell.ok("load", "sales.xlsx")
    assert "2 rows above the header left out" in done.talk
    assert "1 empty row left out" in done.talk
    assert "zip holds numbers as text" in done.talk
    assert shell.rows("SELECT count(), sum(id), any(day), sum(rate), countIf(ok) FROM sales") == [
        [5, 10, "2024-01-31", 1.25, 3]]  # fmt: skip
    told = "SELECT name, concat(zip, '!'), toString(at), clock, took FROM sales WHERE id = 4"
    assert shell.rows(told) == [
        ["n\t4", "00124!", "2024-01-31 10:00:04.000", "10:30:04", "36:00:00"]]  # fmt: skip
    types = dict(shell.rows("SELECT name, type FROM system.columns WHERE table = 'sales'"))
    assert types == {
        "id": "Nullable(Int64)", "name": "Nullable(String)", "day": "Nullable(Date32)",
        "at": "Nullable(DateTime64(3, 'UTC'))", "rate": "Nullable(Float64)", "ok": "Nullable(Bool)",
        "zip": "Nullable(String)", "clock": "Nullable(String)", "took": "Nullable(String)",
    }  # fmt: skip


@pytest.mark.long
def test_the_sheet_is_named(shell: Shell) -> None:
    book(
        shell.folder / "b.xlsx", {"My sales": [("a",), (1,)], "Empty": [], "Other": [("b",), (2,)]}
    )
    done = shell.ends(2, "load", "b.xlsx")
    assert "My sales (2 rows), Other (2 rows)" in done.talk
    one, _, every = done.err.partition("Name one: ")[2].partition(", or load each")
    shell.ok("load", "b.xlsx", "--table", "one", *shlex.split(one))
    shell.ok(*shlex.split(every.partition("own: rowfall ")[2]))
    assert shell.rows("SELECT a FROM one") == shell.rows("SELECT a FROM `My sales`") == [[1]]
    assert shell.rows("SELECT b FROM Other") == [[2]]
    shell.ok("load", "b.xlsx", "--sheet", "3", "--table", "third")
    shell.ok("load", "b.xlsx::Other", "--table", "third")
    assert shell.rows("SELECT count() FROM third") == [[2]], "by its number it has another name"
    assert "Its sheets: My sales" in shell.ends(2, "load", "b.xlsx", "--sheet", "no").talk
    assert "--delimiter is for text" in shell.ends(2, "load", "b.xlsx", "--delimiter", ";").talk
    (shell.folder / "a.csv").write_text("a\n1\n")
    assert "--sheet is for workbooks" in shell.ends(2, "load", "a.csv", "--sheet", "1").talk


def test_cells_that_do_not_fit(shell: Shell) -> None:
    """Errors of formulas and values of another kind are named by their cell."""
    body = [(n, n * 2, DAY) for n in range(10)]
    bad = [("id", "n", "d"), *body, (10, ("=1/0", "#DIV/0!"), DAY)]
    book(shell.folder / "error.xlsx", {"S": bad})
    done = shell.ends(1, "load", "error.xlsx")
    assert 'sheet S, cell B12, column "n": #DIV/0! is an error' in done.talk
    option = shlex.split(done.err.partition("cells as NULL: ")[2].splitlines()[0])
    shell.ok("load", "error.xlsx", *option)
    assert shell.rows("SELECT count(), count(n) FROM error") == [[11, 10]]
    book(shell.folder / "mixed.xlsx", {"S": [("id", "n", "d"), *body, (10, "12", DAY)]})
    done = shell.ends(1, "load", "mixed.xlsx")
    assert (
        "cell B12, column \"n\": '12' is a text, and most of the column are integers" in done.talk
    )
    option = shlex.split(done.err.partition("column as text: ")[2].splitlines()[0])
    shell.ok("load", "mixed.xlsx", "--table", "m", *option)
    assert shell.rows("SELECT groupArray(n) FROM m WHERE id > 8") == [[["18", "12"]]]
    book(shell.folder / "total.xlsx", {"S": [("id", "n", "d"), *body, ("Total", 90, None)]})
    done = shell.ends(1, "load", "total.xlsx")
    assert "looks like totals ('Total' in A12)" in done.talk
    assert 'row 12 column "id": "Total" does not fit' in done.talk
    shell.ok("load", "total.xlsx", "--max-errors", "1")
    assert shell.rows("SELECT count(), sum(n) FROM total") == [[10, 90]]


@pytest.mark.long
def test_cells_that_look_empty(shell: Shell) -> None:
    """Errors of older formats, and formulas that nobody has calculated, are no NULL in silence."""
    text = '<c r="{}1" t="inlineStr"><is><t>{}</t></is></c>'
    rows = f'<row r="1">{text.format("A", "n")}{text.format("B", "m")}</row><row r="2"><c r="A2">'
    error_cells.xlsx(shell.folder / "f.xlsx", f'{rows}<v>1</v></c><c r="B2"><f>A2</f></c></row>')
    error_cells.xlsb(shell.folder / "b.xlsb")
    error_cells.xls(shell.folder / "o.xls")
    for name, said in (
        ("f.xlsx", 'sheet S, cell B2, column "m": the file does not hold the result'),
        ("b.xlsb", "sheet S, cell A3: #N/A is an error"),
        ("o.xls", 'sheet S, cell A3, column "n": #DIV/0! is an error'),
    ):
        done = shell.run("load", name)
        assert done.code in (1, 4)
        assert said in done.talk
    done = shell.ends(1, "load", "f.xlsx")
    shell.ok("load", "f.xlsx", *shlex.split(done.err.partition("as NULL: ")[2].splitlines()[0]))
    assert shell.rows("SELECT n, m FROM f") == [[1, None]]
    shell.ok("load", "o.xls", "--null", "#N/A,#DIV/0!,true", "--type", "n Nullable(String)")
    assert shell.rows("SELECT count(), count(n) FROM o") == [[4, 2]]


@pytest.mark.long
def test_durations_numbers_and_gaps(shell: Shell) -> None:
    """Of durations neither sign nor fraction is lost; what is rounded or left out is said."""
    took = [(value, "[h]:mm:ss") for value in (1.5, -0.5, 1.5 / 86400, -30 / 86400)]
    body = [(n, None, each, 123_456_789_012_345_678) for n, each in enumerate(took)]
    book(shell.folder / "d.xlsx", {"S": [("n", None, "took", "big"), *body]}, date_1904=True)
    done = shell.ok("load", "d.xlsx")
    assert "1 empty column between others left out" in done.talk
    assert "numbers of 16 digits and more are rounded, as Excel does, in big" in done.talk
    assert shell.rows("SELECT groupArray(took) FROM (SELECT took FROM d ORDER BY n)") == [
        [["36:00:00", "-12:00:00", "0:00:01.5", "-0:00:30"]]]  # fmt: skip


@pytest.mark.long
def test_several_workbooks_each_once(shell: Shell) -> None:
    """Columns are found by their names; one of other columns is refused by its name."""
    book(shell.folder / "m1.xlsx", {"S": [("id", "x"), (1, 1.5), (2, 2)]})
    book(shell.folder / "m2.xlsx", {"T": [("x", "id"), (7, 3), (8.25, 4)]}, date_1904=True)
    assert shell.ok("load", "m*.xlsx", "--table", "m", "--json").document["rows"] == 4
    book(shell.folder / "m3.xlsx", {"S": [("id", "x"), (5, 9)]})
    assert shell.ok("load", "m*.xlsx", "--table", "m", "--json").document["rows"] == 1
    assert shell.rows("SELECT id, x FROM m ORDER BY id") == [
        [1, 1.5], [2, 2], [3, 7], [4, 8.25], [5, 9]]  # fmt: skip
    book(shell.folder / "m4.xlsx", {"S": [("id", "y"), (5, 9)]})
    assert "m4.xlsx has other columns than" in shell.ends(4, "load", "m*.xlsx", "--table", "m").talk


@pytest.mark.long
def test_other_workbooks(shell: Shell) -> None:
    """Days since 1904, merged headers, no header; text of OpenDocument, and what is none."""
    book(shell.folder / "d.xlsx", {"S": [("d",), (DAY,)]}, date_1904=True)
    shell.ok("load", "d.xlsx")
    assert shell.rows("SELECT d FROM d") == [["2024-01-31"]]
    book(shell.folder / "plain.xlsx", {"S": [(1, "a"), (2, "b")]})
    assert "no header" in shell.ok("load", "plain.xlsx").talk
    shell.ok("load", "plain.xlsx", "--table", "named", "--columns", "id,name")
    assert shell.rows("SELECT id, name FROM named ORDER BY id") == [[1, "a"], [2, "b"]]
    with xlsxwriter.Workbook(str(shell.folder / "merged.xlsx")) as made:
        sheet = made.add_worksheet()
        sheet.write(0, 0, "id")
        sheet.merge_range(0, 1, 0, 2, "name")
        sheet.write_row(1, 0, [1, "x", "y"])
    assert "C1 is name_2" in shell.ok("load", "merged.xlsx").talk
    assert shell.rows("SELECT id, name, name_2 FROM merged") == [[1, "x", "y"]]
    cells = "".join(
        f'<table:table-row><table:table-cell office:value-type="string"><text:p>{a}</text:p>'
        f'</table:table-cell><table:table-cell office:value-type="{kind}"'
        f"{f' office:value={chr(34)}{b}{chr(34)}' if kind == 'float' else ''}>"
        f"<text:p>{b}</text:p></table:table-cell></table:table-row>"
        for a, kind, b in (("name", "string", "n"), ("x", "float", "1.5"), ("y", "float", "2"))
    )
    space = "urn:oasis:names:tc:opendocument:xmlns"
    with zipfile.ZipFile(shell.folder / "o.ods", "w") as made:
        made.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        made.writestr(
            "META-INF/manifest.xml", f'<manifest:manifest xmlns:manifest="{space}:manifest:1.0"/>'
        )
        made.writestr("content.xml", f'<office:document-content xmlns:office="{space}:office:1.0" '
                      f'xmlns:table="{space}:table:1.0" xmlns:text="{space}:text:1.0"><office:body>'
                      f'<office:spreadsheet><table:table table:name="S">{cells}</table:table>'
                      "</office:spreadsheet></office:body></office:document-content>")  # fmt: skip
    shell.ok("load", "o.ods")
    assert shell.rows("SELECT sum(n) FROM o") == [[3.5]]
    (shell.folder / "no.xlsx").write_bytes(b"id,name\n1,a\n")
    assert "no workbook can be read of it" in shell.ends(4, "load", "no.xlsx").talk


def test_a_sheet_of_more_cells_than_memory(shell: Shell) -> None:
    """A file of some kB may claim 17 billion cells."""
    with xlsxwriter.Workbook(str(shell.folder / "bomb.xlsx")) as made:
        sheet = made.add_worksheet()
        sheet.write(0, 0, "a")
        sheet.write(1_048_575, 16_383, 1)
    done = shell.ends(4, "load", "bomb.xlsx", "--memory", "1GiB")
    assert "the sheet takes more than the 1GiB of --memory" in done.talk


@pytest.mark.long
def test_workbooks_of_a_bucket(shell: Shell, s3: Seaweed, bucket: str) -> None:
    book(shell.folder / "b.xlsx", {"S": [("id",), (1,), (2,)]})
    s3.put(bucket, "in/b.xlsx", (shell.folder / "b.xlsx").read_bytes())
    load = ("load", f"s3://{bucket}/in/*.xlsx", "--table", "b", "--json")
    assert shell.ok(*load, env=s3.env).document["rows"] == 2
    assert shell.ok(*load, env=s3.env).document["rows"] == 0


@pytest.mark.long
def test_a_load_that_is_killed_in_the_middle(shell: Shell) -> None:
    """Each row of each workbook once afterwards."""
    for n in range(4):
        body = [(5000 * n + row, row / 4) for row in range(5000)]
        book(shell.folder / f"{n}.xlsx", {"S": [("id", "x"), *body]})
    kill_while_it_loads(shell, "load", "*.xlsx", "--table", "t", "--threads", "1")
    shell.ok("load", "*.xlsx", "--table", "t")
    assert shell.rows("SELECT count(), uniqExact(id), sum(x) FROM t") == [
        [20_000, 20_000, 12_497_500]]  # fmt: skip
