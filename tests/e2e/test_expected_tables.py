"""Files as packages carry them become the table that a person expects, without an option."""

from __future__ import annotations

import json

import pytest

from e2e.tools import Shell

FEATURES = {
    "name": "towns", "type": "FeatureCollection",
    "features": [
        {"type": "Feature", "geometry": {"type": "Point", "coordinates": [n, 1]},
         "properties": {"id": n}}
        for n in range(3)
    ],
}  # fmt: skip
TABLES = {
    "month_first.csv": (
        "day,v\n5/19/2006 0:00:00,1\n1/2/2007 13:05:00,2\n",
        [["2006-05-19 00:00:00", 1], ["2007-01-02 13:05:00", 2]],
        "note: day holds dates written as month, day, year; --type 'day String' keeps it",
    ),
    "day_first.tsv": (
        "day\tv\n31.12.2023\t1\n\t2\n",
        [["2023-12-31", 1], [None, 2]],
        "dates written as day, month, year",
    ),
    "half_days.csv": (
        "day,v\n12/31/2023 9:30 AM,1\n1/2/2024 5:05 pm,2\n",
        [["2023-12-31 09:30:00", 1], ["2024-01-02 17:05:00", 2]],
        "dates written as month, day, year",
    ),
    "minutes.csv": (
        "day,v\n2023-01-02 10:30,1\n2023-01-03 11:45,2\n",
        [["2023-01-02 10:30:00", 1], ["2023-01-03 11:45:00", 2]],
        "dates written as year, month, day",
    ),
    "some_with_times.csv": (
        "day,v\n31.12.2023,1\n1.2.2024 17:05:09,2\n",
        [["31.12.2023", 1], ["1.2.2024 17:05:09", 2]],
        "warning: text as it is written",
    ),
    "may_be_either.csv": (
        "day,v\n03/01/2024,1\n02/01/2024,2\n",
        [["03/01/2024", 1], ["02/01/2024", 2]],
        "--dates dmy or --dates mdy makes numbers and dates of it",
    ),
    "two_orders.csv": (
        "a,b,v\n31/12/2023,12/31/2023,1\n30/12/2023,12/30/2023,2\n",
        [["31/12/2023", "12/31/2023", 1], ["30/12/2023", "12/30/2023", 2]],
        "warning: text as it is written",
    ),
    "comments.csv": (
        "# time,v\n#\n# measured by hand\n2024-01-01,1\n2024-01-02,2\n",
        [["2024-01-01", 1], ["2024-01-02", 2]],
        "note: one of the comment lines names the columns",
    ),
    "smileys.tsv": (
        "mark\tv\n:-\\\t1\n:-)\t2\n\\b(a)\t3\n",
        [[":-\\", 1], [":-)", 2], ["\\b(a)", 3]],
        "done",
    ),
    "folders.tsv": (  # two backslashes in front of a tab are one that is escaped
        "path\tv\nC:\\\\a\\\\\t1\nD:\\\\b\\\\\t2\n",
        [["C:\\a\\", 1], ["D:\\b\\", 2]],
        "done",
    ),
    "no_values.tsv": (
        "path\tw\tv\n\\d+\t5\t1\n\\N\t\\N\t2\n",
        [["\\d+", 5, 1], [None, None, 2]],
        "done",
    ),
    "counts.csv": (
        "12,4,red,blue,green\n" + "1.5,2,3,4,0\n" * 12,
        [[1.5, 2, 3, 4, 0]] * 12,
        "note: the first line counts rows and columns, and is left out",
    ),
    "narrow_counts.csv": (
        "12,4,red\n" + "1.5,2,3,0\n" * 12,
        [[1.5, 2, 3, 0]] * 12,
        "note: the first line counts rows and columns, and is left out",
    ),
    "no_counts.csv": (  # they may be a row
        "12,2\n" + "1,2\n" * 12,
        [[1, 2]] * 12 + [[12, 2]],
        "header no",
    ),
    "rows.txt": (
        "12\n" + "1.5 2 3\n" * 12,
        [[1.5, 2, 3]] * 12,
        "note: the first line counts rows, and is left out",
    ),
    "thousands.csv": (
        'v,n,k\n"2,345,678",1,"1,234"\n"23,456 ",2,999\n7,3,12\n',
        [[7, 3, 12], [23456, 2, 999], [2345678, 1, 1234]],
        "note: v, k hold numbers with commas between thousands; --type 'v String' keeps it",
    ),
    "no_thousands.csv": (
        'v,n\n"1,234",1\n"23,456",2\n',
        [["1,234", 1], ["23,456", 2]],
        "warning: text as it is written: v",
    ),
    "utc.csv": (
        "t,v\n2024-03-31 01:30:00+00:00,1\n2024-03-31T02:30:00+0000,2\n",
        [["2024-03-31 01:30:00", 1], ["2024-03-31 02:30:00", 2]],
        "note: t holds times at UTC, as each says, and is read so; --type 't String' keeps it",
    ),
    "blank_before_z.csv": (
        "t,v\n2024-03-31 01:30:00Z,1\n2024-03-31 02:30:00Z,2\n",
        [["2024-03-31 01:30:00", 1], ["2024-03-31 02:30:00", 2]],
        "note: t holds times at UTC",
    ),
    "offsets.csv": (
        "t,v\n2024-03-31 01:30:00+00:00,1\n2024-03-31 02:30:00+01:00,2\n",
        [["2024-03-31 01:30:00+00:00", 1], ["2024-03-31 02:30:00+01:00", 2]],
        "warning: text as it is written: t; --select",
    ),
    "bank.csv": (
        "v;Tag;Betrag;Saldo;n\n1;28.03.24;-1.234,56;1.000,00 €;1.234\n2;05.03.24;7,5;-3,00 €;NA\n",
        [[1, "2024-03-28", -1234.56, 1000, 1234], [2, "2024-03-05", 7.5, -3, None]],
        "note: Betrag, n hold numbers with decimal commas and points between thousands",
    ),
    "stock.csv": (
        'v,day,open,change\n1,"Jun 28, 2024","$1,215.77",-1.5%\n2,"Jun 5, 2024",$9.5,0.4%\n',
        [[1, "2024-06-28", 1215.77, -1.5], [2, "2024-06-05", 9.5, 0.4]],
        "open holds numbers with $, which is left out; --type 'open String' keeps it",
    ),
    "study.csv": (
        "v,visit,seen\n1,05JAN2024,05JAN2024:10:30:00\n2,17FEB2024,\n",
        [[1, "2024-01-05", "2024-01-05 10:30:00"], [2, "2024-02-17", None]],
        "note: visit, seen hold dates with the names of months",
    ),
    "units.csv": (
        "v,t,p\nno,deg C,hPa\n" + "".join(f"{n},{n}.5,{n + 1000}\n" for n in range(4)),
        [[n, n + 0.5, n + 1000] for n in range(4)],
        "warning: line 2 holds units or questions, left out: no,deg C,hPa; --header yes keeps",
    ),
    "regions.tsv": (  # as pandas writes columns of two levels: no units
        "v\treg1\treg1\n\tfood\tmining\n1\t2.5\t3.5\n2\t4.5\t5.5\n",
        [[1, "2.5", "3.5"], [2, "4.5", "5.5"], [None, "food", "mining"]],
        "warning: line 2 holds no values as those below it",
    ),
    "spectrum.dat": (  # the last comment line holds units
        "# a spectrum\n# WAVE FLUX\n# Angstrom   erg/s\n"
        + "".join(f"80{n}.5 5.{n}e-2\n" for n in range(9)),
        [[800.5 + n, float(f"5.{n}e-2")] for n in range(9)],
        "header no",
    ),
    "survey.csv": (
        "v,How?,,n\n,Friend,Web,\n1,x,,5\n2,,y,6\n",
        [[1, "x", "", 5], [2, "", "y", 6], [None, "Friend", "Web", None]],
        "warning: line 2 holds no values as those below it, units perhaps",
    ),
    "requests.log": (
        "#Version: 1.0\n#Fields: v cs-method sc-status\n1\tGET\t200\n2\tPOST\t404\n",
        [[1, "GET", 200], [2, "POST", 404]],
        "note: one of the comment lines names the columns",
    ),
    "filled.tsv": (
        "v\tid   \n1\tA1   \n2\tB22  \n",
        [[1, "A1   "], [2, "B22  "]],
        "warning: texts of id end with blanks; --blanks trim leaves them out",
    ),
    "once.csv": (
        "v,seen,n\n1,28/06/24 23:00:00,5\n2,28/06/24 23:00:00,6\n",
        [[1, "28/06/24 23:00:00", 5], [2, "28/06/24 23:00:00", 6]],
        "warning: text as it is written: seen, with years of two digits",
    ),
    "depths.txt": (
        "#v(m)\tT(K)\n0\t\t278\n3000\t\t279\n6000\t\t280\n9000\t\t281\n",
        [[0, 278], [3000, 279], [6000, 280], [9000, 281]],
        "note: one of the comment lines names the columns",
    ),
    "psql.txt": (
        " v | name  | n \n---+-------+---\n 1 | Ada B | 5\n 2 | O'H   |  \n(2 rows)\n\n",
        [[1, "Ada B", 5], [2, "O'H", None]],
        "note: lines of rulers, and a count of rows below them, are left out",
    ),
    "mysql.txt": (
        "+---+------+\n| v | name |\n+---+------+\n| 1 | a,b  |\n| 2 | NULL |\n+---+------+\n"
        "2 rows in set (0.00 sec)\n",
        [[1, "a,b"], [2, "NULL"]],
        "note: lines of rulers",
    ),
    "unknown.csv": (
        "v,n\n1.5,1\n?,2\n2,3\n",
        [[1.5, 1], [2, 3], [None, 2]],
        "note: ? is NULL in v",
    ),
    "blanks.csv": (
        "n,v\n1,1.5\n2, \n3,2\n",
        [[1, 1.5], [3, 2], [2, None]],
        "note: fields of blanks alone are NULL in v; --type 'v String' keeps it as it is written",
    ),
    "blank_texts.csv": (
        "n,v\n1,a\n2, \n3,b\n",
        [[2, " "], [1, "a"], [3, "b"]],
        "done",
    ),
    "rates.csv": (  # as the European Central Bank writes them
        "v, USD, JPY, \n1 May 2026, 1.1, 175.6, \n",
        [["2026-05-01", 1.1, 175.6, " "]],
        "note: columns whose name is empty or stands twice get one: the empty name is c4",
    ),
    "no_name.csv": (  # the last name is a blank, the values are not there at all
        "v,n, \n1,2,\n3,4,\n",
        [[1, 2, None], [3, 4, None]],
        "the empty name is c3",
    ),
    "ends.csv": (
        "v,n,\n1,2,\n3,4,\n",
        [[1, 2], [3, 4]],
        "done",
    ),
    "lacking.tsv": (
        "v\tn\tnote\n1\tx\ty\n2\tw\t\n3\tz\n",
        [[1, "x", "y"], [2, "w", None], [3, "z", None]],
        "note: 1 row lacks fields at their end: empty ones; --short-rows error refuses such rows",
    ),
    "zones.tsv": (
        "# zones\n" + "".join(f"D{n}\tn{n}\tOslo\nQ{n}\ts{n}\tCasey\tBay {n}\n" for n in range(3)),
        [[f"D{n}", f"n{n}", "Oslo", ""] for n in range(3)]
        + [[f"Q{n}", f"s{n}", "Casey", f"Bay {n}"] for n in range(3)],
        "note: 3 rows lack fields at their end",
    ),
    "report.txt": (
        "Station: Hamburg, 13 m\nall of 1988\n\n v   p\n***\n"
        + "".join(f" {n}   {n}.5\n" for n in range(1, 13)),
        [[n, n + 0.5] for n in range(1, 13)],
        "note: the 3 lines above the names are left out",
    ),
    "about.csv": (
        "made by,hand\nunit,m\nlabel,heights\nv,n\n" + "".join(f"{n}.5,{n}\n" for n in range(12)),
        None,
        "--skip-lines 3 reads those below",
    ),
    "doubles.csv": (
        "v,n\n999999999999998592,1\n1.5e-12,2\n",
        [[999999999999998592, 1], ["1.5e-12", 2]],
        "v, integers beyond 2^53 among fractions; --type 'v Float64' makes numbers",
    ),
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", TABLES)
def test_the_table_is_what_a_person_expects(shell: Shell, name: str) -> None:
    text, rows, says = TABLES[name]
    shell.write(name, text)
    done = shell.ok("load", name, "--table", "t")
    assert says in done.talk
    by = {
        "doubles.csv": "n",
        "zones.tsv": "1",
        "rows.txt": "1",
        "spectrum.dat": "1",
        "depths.txt": "1",
    }
    last = by.get(name, "1" if name.endswith("counts.csv") else "v")
    if rows is not None:
        assert shell.rows(f"SELECT * FROM t ORDER BY {last}") == rows


def test_fields_of_blanks_are_null_in_all_columns_but_text(shell: Shell) -> None:
    """A column of numbers stayed text for one blank, and nothing was said."""
    names = "id,f,day,t,b,quoted,s"
    full = '0,1.5,2024-01-02,2024-01-02 03:04:05,true,"7",x'
    none = '1, ,  , ,   ," ", '
    shell.write("a.csv", f"{names}\n{full}\n{none}\n" + f"{full}\n" * 5)
    for decoder in ("auto", "never"):
        given = ("load", "a.csv", "--decoder", decoder, "--table", decoder)
        said = shell.ok(*given).talk
        assert "fields of blanks alone are NULL in f, day, t, b and 1 more; --type" in said
        # The same file fits the table that it has made.
        said = shell.ok(*given, "--force").talk
        assert "fields of blanks alone are NULL in f, day, t, b and 1 more" in said
        assert "--type 'f String'" not in said
        rows = shell.rows(f"SELECT * FROM {decoder} WHERE id = 1")
        assert rows == [[1, None, None, None, None, None, " "]] * 2
        types = shell.rows(f"SELECT toTypeName(f), toTypeName(b) FROM {decoder} LIMIT 1")
        assert types == [["Nullable(Float64)", "Nullable(Bool)"]]
    shell.ok("load", "a.csv", "--table", "u", "--type", "f String")
    assert shell.rows("SELECT f FROM u WHERE id = 1") == [[" "]]


@pytest.mark.parametrize(
    ("odd", "says", "value"),
    [
        (" ", "fields of blanks alone are NULL in v", None),
        ("word", "warning: text as it is written: v for", "word"),
    ],
)
def test_what_stands_among_numbers_further_down_is_said(
    shell: Shell, odd: str, says: str, value: str | None
) -> None:
    """Rows behind those that are looked at one by one, and before those of the middle."""
    rows = [f"{n},{n}.5" for n in range(19_000)]
    rows[8_800] = f"8800,{odd}"
    shell.write("a.csv", "\n".join(["id,v", *rows, ""]))
    assert says in shell.ok("load", "a.csv", "--table", "t").talk
    assert shell.rows("SELECT v FROM t WHERE id = 8800") == [[value]]


def test_options_about_units_load_the_file(shell: Shell) -> None:
    """A row that is refused with the option as well was let pass when it was tried."""
    marks = "name\td1\td2\nd\td\td\nclass\n"
    shell.write("a.tab", marks + "A\t2\t2\nA\t2\t3\nB\t1\t1\nB\t1\t1\n")
    flags = "--skip-lines 3 --header no --columns name,d1,d2"
    assert f"{flags} skips it and line 3" in shell.ends(1, "load", "a.tab", "--table", "t").talk
    shell.ok("load", "a.tab", "--table", "t", *flags.split())
    assert shell.rows("SELECT * FROM t ORDER BY d2, name LIMIT 3") == [
        ["B", 1, 1], ["B", 1, 1], ["A", 2, 2],
    ]  # fmt: skip
    shell.write("b.csv", "a,b,c\nm,s,kg\n" + "1,2,3\n" * 5 + "4,5\n" + "6,7,8\n" * 5)
    assert "--skip-lines" not in shell.ends(1, "load", "b.csv").talk
    said = shell.ok("load", "b.csv", "--max-errors", "1", "--table", "u").talk
    assert "line 2 holds units or questions, left out: m,s,kg; --header yes keeps" in said
    assert shell.row("SELECT count(), sum(a) FROM u") == [10, 35]
    shell.ok("load", "b.csv", "--max-errors", "1", "--table", "all", "--header", "yes")
    assert shell.row("SELECT count(), countIf(c = 'kg') FROM all") == [11, 1]
    shell.write("c.tsv", "v\tid   \n1\tA1   \n2\tB22  \n")
    shell.ok("load", "c.tsv", "--table", "ids", "--blanks", "trim")
    assert shell.rows("SELECT * FROM ids ORDER BY v") == [[1, "A1"], [2, "B22"]]


def test_a_longer_row_is_refused_with_the_option_that_reads_it(shell: Shell) -> None:
    """The warning named it, and the refusal that came later did not."""
    shell.write("a.csv", "XD,+888\nXR,+979\nXV,+882,+883\nXC,+991\nXN,+870\n")
    done = shell.ends(1, "load", "a.csv", "--table", "t")
    assert "line 3 has 3 fields instead of 2" in done.talk
    assert "hint: --short-rows null reads rows as long as this one" in done.talk
    shell.ok("load", "a.csv", "--table", "t", "--short-rows", "null")
    assert shell.row("SELECT count(), countIf(c3 IS NULL) FROM t") == [5, 4]
    # A table of two columns takes no third.
    shell.write("b.csv", "XD,+888\nXR,+979\n")
    shell.ok("load", "b.csv", "--table", "two")
    done = shell.ends(1, "load", "a.csv", "--table", "two")
    assert "hint: --short-rows" not in done.talk


def test_features_are_rows_whatever_the_name_of_their_file(shell: Shell) -> None:
    shell.write("towns.json", json.dumps(FEATURES))
    done = shell.ok("load", "towns.json")
    assert "is GeoJSON: each feature is a row" in done.talk
    assert shell.row("SELECT count() FROM towns") == [3]


def test_dates_stay_text_where_a_table_holds_text(shell: Shell) -> None:
    """And what the sample did not show ends the load at its line."""
    shell.write("a.csv", "day,v\n31/12/2023,1\n30/12/2023,2\n")
    shell.ok("load", "a.csv", "--type", "day String")
    assert shell.rows("SELECT day FROM a ORDER BY v") == [["31/12/2023"], ["30/12/2023"]]
    body = "".join(f"{1 + n % 28}/12/2023,{n}\n" for n in range(60_000))
    shell.write("b.csv", f"day,v\n{body}12/31/2023,0\n")
    done = shell.ends(1, "load", "b.csv")
    assert 'line 60002 column "day": "12/31/2023"' in done.talk


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("2024-03-31 01:30:00+00:00", "2024-03-31 01:30:00+02:00"),
        ('"1,234,567"', '"1,5"'),
        ('"1,234,567"', '"1.234,5"'),
        ('"1.234,50"', '"1.5"'),
        ("$1.50", "2.5"),
    ],
)
def test_what_the_sample_did_not_show_ends_the_load(shell: Shell, good: str, bad: str) -> None:
    shell.write(
        "a.csv",
        "n,v\n" + f"1,{good}\n2,{good}\n3,{good.replace('1,', '', 1)}\n" * 9000 + f"2,{bad}\n",
    )
    for decoder in ("auto", "never"):
        done = shell.ends(1, "load", "a.csv", "--decoder", decoder)
        assert "line 27002" in done.talk
        assert bad.strip('"') in done.talk


def test_lines_that_end_twice_are_refused_with_a_hint_that_loads_them(shell: Shell) -> None:
    shell.write("a.csv", "v,n\r\r\n1.5,1\r\r\n2,3\r\r\n")
    done = shell.ends(2, "load", "a.csv")
    assert "tr -d '\\r' <" in done.talk
    shell.write("b.csv", "v,n\r\r\n1.5,1\n2,3\n")
    assert "two line ends" not in shell.run("load", "b.csv").talk


def test_logfmt_with_many_flags_ends_with_a_message(shell: Shell) -> None:
    """What is read of a form that fills columns is more than what is wanted: the rest is cut."""
    body = "".join(f'F{n} country="Land {n}" code="{n}"\n' for n in range(90))
    shell.write("a.dat", body)
    done = shell.run("load", "a.dat", "--format", "logfmt")
    assert "bug in rowfall" not in done.talk
