"""What the sniffer says of samples."""

from __future__ import annotations

import csv
import time
from dataclasses import fields

import pytest

from rowfall.core.dialect import (
    DialectOptions,
    FoundDialect,
    LineOptions,
    MarkOptions,
    TextSample,
    sniff,
)
from rowfall.core.errors import UsageError
from rowfall.core.header_line import unique_names


def found(*texts: str | bytes, **asked: object) -> FoundDialect:
    samples = [
        TextSample(f"{n}.csv", text if isinstance(text, bytes) else text.encode(), whole=True)
        for n, text in enumerate(texts)
    ]
    return sniff(samples, asked_of(asked))


def asked_of(given: dict[str, object]) -> DialectOptions:
    marks = {f.name: given.pop(f.name) for f in fields(MarkOptions) if f.name in given}
    lines = {f.name: given.pop(f.name) for f in fields(LineOptions) if f.name in given}
    groups = {"marks": MarkOptions(**marks), "lines": LineOptions(**lines)}  # type: ignore[arg-type]
    return DialectOptions(**groups, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "mark", "width"),
    [
        ("1,5;2,5\n3,5;4,5\n", ";", 2),  # numbers with a decimal comma
        ("id,tags\n1,a|b\n2,c|d\n", ",", 2),
        ("id;what\n1;a, b\n2;c, d\n", ";", 2),
        ("1 2 3\n4 5 9\n", " ", 3),
        ("10:00:00\n11:00:00\n", ",", 1),
        ("2020-01-01 10:00:00\n2020-01-02 10:00:00\n", ",", 1),
        ("John Smith\nJane Doe\n", ",", 1),
        ("http://a/b\nhttp://c/d\n", ",", 1),
        ("16:9\n4:3\n", ",", 1),
        ("ratio\n16:9\n4:3\n", ",", 1),
        ("score\n3:1\n0:0\n2:2\n", ",", 1),
        ("2001:db8::1\n2001:db8::2\nfe80::1\n", ",", 1),
        ("00:1B:44:11:3A:B7\n00:1B:44:11:3A:B8\n", ",", 1),
        ("10:20:30:40\n11:21:31:41\n", ",", 1),
        ("C:\\temp\\a.txt\nD:\\b.txt\n", ",", 1),
        ("height: 12\nwidth: 15\n", ",", 1),
        ("12 mm\n15 mm\n", ",", 1),
        ("1920:1080\n800:600\n", ",", 1),
        ("a:b:c\n1:2:3\n4:5:6\n", ":", 3),
        ("root:0:0:root\nbin:1:1:bin\n", ":", 4),
        ("'Tenacious D'; 'The pick';2006\n'Anna';'x; y';2007\n", ";", 3),
        ('1, "Oslo, N"\n2, "Bern, CH"\n', ",", 2),
        ('a|b\n"x|y"|1\n"z\n|"|2\n', "|", 2),
        ("a\x01b\n1\x012\n", "\x01", 2),
        (" id   day  x\n  1  20  1.5\n 10\t21  2.5 \n", " ", 3),
        ("1.0   20  150.5\n12.5  2   3.25\n", " ", 3),
        ('mpg  hp   name\n18.0  130\t"a b"\n9.5   95\t"c d e"\n', " ", 3),
        ("-1:00:00\n-2:30:00\n", ",", 1),
        ("+01:00\n-02:30\n", ",", 1),
        ("to be  or not\nthat is the  question\nof all\n", ",", 1),
    ],
)
def test_delimiters(text: str, mark: str, width: int) -> None:
    seen = found(text)
    assert (seen.marks.delimiter, seen.width) == (mark, width)


def test_runs_of_blanks_are_one_delimiter_where_single_ones_leave_gaps() -> None:
    seen = found("# by hand\n a  b\n 1   2.5 \n 10  3.5\n")
    assert (seen.names, seen.trim, seen.files[0].rows[1]) == (("a", "b"), True, ("1", "2.5"))
    kept = found("a b c\n1  2\n3 4 5\n6  7\n")  # a value may lack
    assert (kept.trim, kept.width, kept.even) == (False, 3, 1.0)
    asked = found("a b c\n1  2\n3 4 5\n6  7\n", blanks="keep")
    assert asked.files[0].rows[1] == ("1", "", "2")


SHIFTED = {
    "two words make up for an empty cell": "id  city      zip    pop\n"
    + "1   Boston    02101  650000\n" * 8 + "2   New York         800000\n",
    "an empty cell": "id  city      zip    pop\n"
    + "1   Boston    02101  650000\n" * 30 + "2   York             800000\n",
    "one of two": "2024-01-01  100.00          100.00\n2024-01-02          50.00   50.00\n" * 20,
}  # fmt: skip


@pytest.mark.parametrize("text", SHIFTED.values(), ids=SHIFTED)
def test_runs_of_blanks_hide_no_empty_cells(text: str) -> None:
    """Those behind an empty cell were read as the columns in front of their own."""
    assert found(text).width == 1


@pytest.mark.parametrize("text", [
    "a  b\n1  2\n100    2\n",  # nothing stands in columns
    "a  b\n1      2\n1  3\n",
    "id    v\n" + "".join(f"{n:4d}  {n * 3:6d}\n" for n in range(1, 200)),
    "id  v\n" + "".join(f"{n}  {n * 3}\n" for n in range(1, 200)),
    "id  city      zip\n" + "1   Boston    02101\n" * 30 + "2   York\n",  # a line that ends early
])  # fmt: skip
def test_runs_of_blanks_need_no_fixed_columns(text: str) -> None:
    assert (found(text).trim, found(text).header) == (True, True)


@pytest.mark.parametrize("text", ['"a","n" \n"x",3 \n"y",4 \n', '"a" ,"n"\n"x" ,3\n'])
def test_blanks_behind_quotes_are_left_out(text: str) -> None:
    seen = found(text)
    assert (seen.trim, seen.names, seen.files[0].rows[1]) == (True, ("a", "n"), ("x", "3"))


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("16:9\n4:3\n", ((":", 2),)),  # may be pairs
        ("10:00:00\n11:30:15.5\n", ()),
        ("http://a.b:80/c\nhttp://d.e:81/f\n", ()),
        ("ip\nfe80::1\n2001:db8::2/64\n", ()),
        ("00:1B:44:11:3A:B7\n00:1B:44:11:3A:B8\n", ()),
        ("id:n\n1:2\n3:4\n", ((":", 2),)),
        ("a:1\nb:2\n", ((":", 2),)),
    ],
)
def test_colons_inside_of_values_are_not_proposed(
    text: str, others: tuple[tuple[str, int], ...]
) -> None:
    """--delimiter : was named for times and addresses, which it would have cut."""
    assert found(text).others == others


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("user_id,$amount\n1,5\n", True),
        ("name,2019,2020\nx,5,6\ny,7,8\n", True),
        ("name,2019,2020\nx,2015,2016\ny,2010,2012\n", False),
        ("Anna,1,2\nBob,3,5\n", False),
        ("0,1,2,3\n5.1,3.5,1.4,0.2\n", True),
        ("1,2,3\n4,5,9\n", False),
        ("city,country\nOslo,Norway\nBern,Switzerland\n", True),
        ("alice,berlin\nbob,paris\n", False),
        ("Größe,Ort\n1,Bern\n", True),
        ("NA,x\n1,y\n", False),
        ("true,x\nfalse,y\n", False),
        ("city,2019\nOslo,5\nBern,7\nRome,6\n", True),
        ("country,code,2020\nNorway,NO,5\nItaly,IT,7\nChad,TD,6\n", True),
        ("state,2020\nTexas,5.5\nOhio,7.5\nUtah,1.5\n", True),
        ("name,5%,10%\na,1,2\nb,3,4\n", True),
        ("name,5%,10%\na,6%,12%\nb,7%,11%\n", False),
        ("id,100022,100025\n1,5,7\n2,6,8\n3,5,9\n", True),
        ("id,100022,100025\nid1,TRUE,FALSE\nid2,FALSE,TRUE\n", True),
        ("country,2024-01-01,2024-01-02\nNorway,5,7\nItaly,6,8\n", True),
        (",142.24,144.78,147.32\n9.4,0,0,1\n9.5,0,2,0\n", True),
        ("150,4,setosa,virginica\n5.1,3.5,1.4,0\n4.9,3.0,1.3,0\n", True),
        ("id,income\n1,5\n2,.\n" + "3,7\n" * 20, True),
        ("Country,Group,ID\n" + "Angola,Africa,AO\nIndonesia,Asia,ID\n" * 5, True),
        ("V1,V2\na,x\nb,y\n", True),
        (",name,url\n1,Anna,x\n2,Bob,y\n", True),
        ("Oslo,2019\nBern,5\nRome,7\n", False),
        ("1,Anna\n2,Bob\n3,Chen\n", False),
        ("1,,Anna\n2,5,Bob\n3,6,Chen\n", False),
        ("A_1,01.06.2015,x\nA_2,01.06.2013,y\nA_3,,z\n", False),
        ("1,Anna,2024-01-01\n2,Bob,2024-01-02\n", False),
        (".,1,2\n5,1,2\n6,2,3\n", False),
    ],
)
def test_headers(text: str, header: bool) -> None:
    assert found(text).header == header


@pytest.mark.parametrize(
    "text",
    [
        "city,2019\nOslo,5\nBern,7\nRome,6\n",
        "Oslo,2019\nBern,5\nRome,7\n",
        "150,4,setosa,virginica\n5.1,3.5,1.4,0\n4.9,3.0,1.3,0\n",
        "12,abc\nA7,def\nB9,ghi\nC3,jkl\n",
    ],
)
def test_a_first_line_that_may_be_either_is_unsure(text: str) -> None:
    assert not found(text).sure


def test_a_header_with_more_names_than_the_rows_have_fields() -> None:
    short = found("a,b,c\n1,2\n3,4\n")
    assert (short.short, short.width, short.names) == (True, 3, ("a", "b", "c"))
    filled = found("a,b,c\n1,2\n3,4\n", short_rows="null")
    assert filled.files[0].rows[1:] == (("1", "2", ""), ("3", "4", ""))
    ends = found("a,b,\n1,2\n3,4\n")
    assert (ends.ends, ends.names, ends.short) == ("header", ("a", "b"), False)


def test_a_header_that_alone_ends_in_a_delimiter_below_titles() -> None:
    seen = found("A title\nand more\n\nid,year,\n1,1959\n2,1960\n3,1961\n")
    assert (seen.ends, seen.header, seen.names) == ("header", True, ("id", "year"))


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("amount\n68,527.00\n1,234.50\n", 1),
        ("68,527.00\n1,234.50\n", 1),
        ("1,234,567\n1,234\n", 1),
        ("1,234\n5,678\n", 2),
        ("a,b\n1,234\n5,678\n", 2),
    ],
)
def test_commas_between_thousands_split_nothing(text: str, width: int) -> None:
    assert found(text).width == width


def test_blank_lines_between_rows_are_counted() -> None:
    assert found("id,name\n1,a\n\n2,b\n\n").blank_lines == 1
    assert found("\nid,name\n1,a\n2,b\n\n\n").blank_lines == 0
    assert found("id\n1\n\n2\n").blank_lines == 1


@pytest.mark.parametrize("asked", [{"delimiter": ";"}, {"delimiter": "\t", "fixed": True}])
def test_a_delimiter_that_was_named_and_splits_nothing(asked: dict[str, object]) -> None:
    seen = found("a,b\n1,2\n3,4\n", **asked)
    assert (seen.width, seen.others) == (1, ((",", 2),))


def test_files_of_one_load_agree() -> None:
    assert found("alice,berlin\nbob,paris\n", "alice,berlin\ntom,rome\n").header
    with pytest.raises(UsageError, match=r"2\.csv does not start with the header of 0\.csv"):
        found("a,b\nx,y\n", "a,b\nz,w\n", "q,r\ns,t\n")


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (("", " a ", "a"), ("c1", "a", "a_2")),
        (("a", "a", "a_2"), ("a", "a_3", "a_2")),
        (("c2", ""), ("c2", "c2_2")),
    ],
)
def test_names_are_made_unique(given: tuple[str, ...], made: tuple[str, ...]) -> None:
    assert unique_names(given) == made


def test_what_is_said_is_not_looked_for() -> None:
    assert found("a;b\n1;2\n", delimiter=",").width == 1
    assert found("a;b\n1;2\n", header=False).names == ("c1", "c2")
    assert found("x\ny\na,b\n1,2\n", skip_lines=2).given == ("a", "b")
    assert found("a,b\n% no\n1,2\n", comment="%").files[0].rows == (("a", "b"), ("1", "2"))


def test_a_sentence_with_a_comma_above_two_columns_names_none_of_them() -> None:
    rows = "".join(f"{n}.5   {n}.25\n" for n in range(280, 300))
    said = "Air mass 1.5\nBy using the data, you agree to the terms: https://example.org/terms\n"
    found = sniff([TextSample("a", (said + rows).encode(), True)])
    assert (found.width, found.header, found.names, found.skip_lines) == (2, False, ("c1", "c2"), 2)


def test_a_full_line_above_rows_with_few_marks_names_the_columns() -> None:
    names = ["Entry", *(f"Kind{chr(65 + n)}" for n in range(9))]
    rows = [
        ",".join(
            [f"word{x}", *(name if n % 4 == ord(x) % 3 else "" for n, name in enumerate(names[1:]))]
        )
        for x in "abcdefghij"
    ]
    found = sniff([TextSample("a", "\n".join([",".join(names), *rows, ""]).encode(), True)])
    assert (found.header, found.sure, found.names) == (True, False, tuple(names))


def test_a_comma_before_decimals_is_no_delimiter() -> None:
    assert found("x;1,5\ny;2,5\n", decimal=",").marks.delimiter == ";"
    assert found('"1,5","2,5"\n"3,5","4,5"\n', decimal=",").marks.delimiter == ","


def test_the_line_that_tells_excel_the_delimiter() -> None:
    one = found("sep=;\r\na;b\r\n1;2\r\n")
    assert (one.marks.delimiter, one.skip_lines, one.header, one.names) == (
        ";",
        1,
        True,
        ("a", "b"),
    )
    tab = found('"sep=\t"\na\tb\n1\t2\n')
    assert (tab.marks.delimiter, tab.skip_lines) == ("\t", 1)
    assert found("sep=;\na;b\n1;2\n", "a;b\n1;2\n").skip_lines == 0  # a row of some would be lost
    assert found("sep=;\n1;2\n", skip_lines=0).skip_lines == 0


def test_comments_among_the_rows_only_are_unsure() -> None:
    assert found("# made\na,b\n1,2\n# half\n3,4\n", "a,b\n5,6\n").leads
    assert not found("a,b\n1,2\n#3\n4,5\n").leads


def test_bytes_that_make_bad_rows_say_nothing_about_the_charset() -> None:
    assert found(b"id,n\n1,M\xfcller\n").charset == "windows-1252"
    assert found(b"id,n\n1,M\xfcller\n", bad_bytes=True).charset == "utf-8"


@pytest.mark.parametrize(
    ("text", "row_names"),
    [
        ('"a","b"\n"1",1,"x"\n"2",2,"y"\n', True),
        ("a b\nCar1 1.5 7\nCar2 2 8\nCar3 3 9\n", True),
        ("a,b\n1,1,x\n1,2,y\n", False),  # names of rows differ
        ("1,2\n1,1,x\n2,2,y\n", False),
        ("a,b,c\n1,1,x\n2,2,y\n", False),
    ],
)
def test_a_header_without_a_name_for_the_names_of_rows(text: str, row_names: bool) -> None:
    assert found(text).row_names == row_names


def test_names_that_are_numbers_are_names_where_a_header_is_said_to_be_there() -> None:
    text = "a,2019,\n1,2,\n3,4,\n"
    assert (found(text).ends, found(text, header=True).ends) == ("all", "all")
    assert (found(text, header=False).ends, found("1,2,\n3,4,\n").ends) == ("", "")


def test_eight_files_take_no_time() -> None:
    line = '{},"name, {}",{},2020-01-01 10:00:00\n'
    rows = "".join(line.format(i, i, i / 7) for i in range(2000))
    samples = [TextSample("x", ("id,name,x,at\n" + rows).encode()[: 1 << 15])] * 8
    sniff(samples)
    began = time.process_time()
    assert sniff(samples).header
    assert time.process_time() - began < 0.5  # 0.05 s where nothing else runs


def test_one_quote_that_is_not_closed_is_no_dialect() -> None:
    rows = "".join(f"{i},n,{i}\n" for i in range(50))
    one = sniff([TextSample("x", b'id,name,n\n100,"n,1\n' + rows.encode(), True)])
    assert (one.marks.delimiter, one.marks.quote) == (",", '"')
    three = b'id,name,n\n100,"n,1\n101,"n,1\n102,"n,1\n'
    assert sniff([TextSample("x", three + rows.encode(), True)]).marks.quote == ""


def test_two_thirds_of_few_rows_show_the_delimiter() -> None:
    text = b"id,name,n,day\n1,a,1,x\n2,b,2,x\n3,c\n4,d,4,x\n5,e,5,x\n6,f,6,x,more\n"
    found = sniff([TextSample("x", text, True)])
    assert (found.marks.delimiter, found.width, found.header) == (",", 4, True)


def test_bytes_that_are_not_utf_8_in_some_files_are_errors_of_those() -> None:
    plain, odd = b"id,n\n1,a\n2,b\n", b"id,n\n1,\xff\n2,b\n"
    assert sniff([TextSample("x", plain), TextSample("y", odd)]).charset == "utf-8"
    assert sniff([TextSample("x", odd), TextSample("y", odd)]).charset == "windows-1252"
    wide = plain.decode().encode("utf-16-le")
    assert sniff([TextSample("x", plain), TextSample("y", wide)]).charset == "utf-16le"


def test_records_of_a_megabyte_are_rows() -> None:
    """The parser of the standard library stops at 131,072 characters."""
    before = csv.field_size_limit()
    lines = "".join(f"{number},{'y' * 1_000_000}\n" for number in range(2))
    found = sniff([TextSample("big.csv", lines.encode(), whole=False)])
    assert found.width == 2
    assert [len(row) for row in found.files[0].rows] == [2]
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("text", "header"),
    [
        (",0\n1821,269\n1822,321\n1823,585\n", True),  # a series of pandas
        (",0\n1,269\n1,321\n2,585\n", False),
        ("Orth,Phon\n" + "".join(f"{c},{c}{c}\n" for c in "abcdefghij"), True),
        ("Orth,Phon\na,b\nc,d\n", False),
        ("@title,table of it\n@version,v1\n" + "word,x of it\n" * 9, False),
    ],
)
def test_names_that_differ_from_all_values(text: str, header: bool) -> None:
    assert found(text).header is header


@pytest.mark.parametrize(
    ("text", "comment"),
    [
        ("# time,v\n#\n2024-01-01,1\n2024-01-02,2\n", "#"),  # names, and lines below them
        ("# These are codes that somebody gathered, by hand\n# of all\na,1\nb,2\n", "#"),
        ("# time,v\n2024-01-01,1\n2024-01-02,2\n", ""),  # which is the header
        ("# @missing: 0..9,N\n#\n2024-01-01,1\n2024-01-02,2\n# end\n", "#"),
        ("tag,v\n#a,1\n#b,2\n#c\n", ""),
    ],
)
def test_comments_with_as_many_fields_as_rows(text: str, comment: str) -> None:
    assert found(text).marks.comment == comment


NUMBERS = "".join(f" {n}   {n}.5   0.25\n" for n in range(1, 13))


@pytest.mark.parametrize(
    ("above", "names", "skip"),
    [
        ("Station: Hamburg, north\nheight 13 m\n\n", " N   t   p\n", 3),
        ("Station: Hamburg\n1988 to 2007\n", "N t p\n***\n", 2),  # and a ruler
        ("/* made by\nhand */\n<1972 Q2>\n", "N t p\n", 3),
        ("Station: Hamburg\n", "1 2.5 0.5\n", 0),  # no names
        ("Station: Hamburg\n", "N t t\n", 0),
        ("Station: Hamburg\n", "N t\n", 0),
        ("Table 1\n" + NUMBERS.replace(" ", "  ") + "\nTable 2\n", "N t p\n", 0),  # of two tables
        ("Certified on some day: 1\n" * 60, "N t p\n", 60),
        ("Certified on some day: 1\n" * 120, "N t p\n", 0),  # of so few rows
    ],
)
def test_numbers_below_a_text_and_names(above: str, names: str, skip: int) -> None:
    shown = found(above + names + NUMBERS)
    assert (shown.skip_lines if shown.header else 0) == skip
    if skip:
        assert shown.names == ("N", "t", "p")
        assert {len(row) for row in shown.files[0].rows} == {3}
    for other in (NUMBERS + "end of the report, by hand\n", NUMBERS[: len(NUMBERS) // 2]):
        assert found(above + names + other).names != ("N", "t", "p")


@pytest.mark.parametrize(
    ("text", "names", "skip"),
    [
        ("Spread at 150 nm, of all\nRel pixel   0.1x0.03   6x0.2\n" + NUMBERS,
         ("Rel pixel", "0.1x0.03", "6x0.2"), 2),  # names of two words
        ("Data:  y  x  z\n" + NUMBERS, ("y", "x", "z"), 1),
        ("a b c\n\n" + NUMBERS.replace("   ", "\t").replace(" ", ""), ("a", "b", "c"), 2),
        ("pixel,1A,2A\n1\t2.5\t3.5\n2\t2.5\t1\n3\t0\t1\n", ("pixel", "1A", "2A"), 1),
        ("A B\n1\t7\n3\t4\n4\t2\n", ("A", "B"), 1),
        ('"Export"\n"Name:","x"\n\n"n","d","w"\n\n' + '"1","2024-01-05","a"\n' * 12,
         ("n", "d", "w"), 5),
        ("# of it all\n#\n# WAVE FLUX\n# nm   m/s\n" + "800.0 5.25e-14\n" * 12, ("c1", "c2"), 4),
        ("# of it\nid,name,n\n# of all\n" + "1,Ann,5\n2,Bob,6\n" * 6, ("id", "name", "n"), 1),
        ("A B C\n1\t7\n3\t4\n4\t2\n", ("c1", "c2"), 1),  # another number of names
        ("Start: 2024\n\nName:,X,Y\nRate:,10,10\nBits:,8,8\n\n"
         + NUMBERS.replace("   ", ","), ("c1", "c2", "c3"), 6),
        ("Start: 2024\n\nName:,X,Y\nRate:,10,10\n\nd,X,Y\n"
         + NUMBERS.replace("   ", ","), ("d", "X", "Y"), 5),
        ("Start: 2024\nName,X,Y\n1,10,10\n1,8,8\n\n" + NUMBERS.replace("   ", ","),
         ("Name", "X", "Y"), 1),  # another table
    ],
)  # fmt: skip
def test_names_set_apart_otherwise_and_lines_above_rows(
    text: str, names: tuple[str, ...], skip: int
) -> None:
    shown = found(text)
    assert shown.names == names
    assert shown.skip_lines == skip


@pytest.mark.parametrize(
    ("lines", "width"),
    [
        (["Hydrogen  H 1", "Helium  He  2", "Lithium Li  3"] * 4, 3),
        (["Hydrogen  H 1", "Helium  He  2", "Lithium Li  3"], 1),  # few lines
        (["dark-red\t  ff0000", "black\t\t 000000", "pale-red  ff0101"] * 4, 2),
        (["New York", "Los Angeles", "San Francisco"] * 4, 1),
        (["in the year 1", "at the end 2", "by the sea, 3"] * 4 + ["of it 3"], 1),
        (["city:state:n", *["Ulm:BW:5", "Bonn:NW:6", "Kiel:SH:7"] * 4], 3),
        (["16:9", "4:3", "21:9", "1:1"] * 4, 1),
    ],
)
def test_lines_of_as_many_words_are_rows(lines: list[str], width: int) -> None:
    assert found("\n".join(lines) + "\n").width == width


def test_a_column_that_holds_nothing_at_first_shows_its_words_for_null() -> None:
    rows = [f"{n},NA\n" for n in range(600)] + [f"{n},2024-01-0{n % 9 + 1}\n" for n in range(20)]
    assert found("x,y\n" + "".join(rows)).null_words == ((1, ("NA",)),)
    rows[-1] = "1,word\n"
    assert found("x,y\n" + "".join(rows)).null_words == ()


@pytest.mark.parametrize(
    ("names", "value", "header"),
    [
        ("ts,00,10,11,20", "1.5", True),
        ("ts,00,10,11,20", "1", False),
        ("ts,20,10,11,00", "1.5", False),
        ("ts,1.5,1.6,1.7,1.8", "1.5", False),
    ],
)
def test_codes_above_fractions_are_names(names: str, value: str, header: bool) -> None:
    rows = [f"2024-01-0{n},{n}{value},2{n}{value},3{n}{value},4{n}{value}\n" for n in range(1, 9)]
    shown = found(names + "\n" + "".join(rows))
    assert shown.header is header


@pytest.mark.parametrize(
    ("line", "comment"),
    [
        ("# four words of it", "#"),
        ("#no name r g b", "#"),  # another number of words, too
        ("#13 Ann 5 6", ""),  # as the rows are
        ("#a b 5 c", ""),
    ],
)
def test_comments_of_as_many_words_as_rows_have_numbers(line: str, comment: str) -> None:
    rows = "".join(f"{n} w{n} {n} {2 * n}\n" for n in range(1, 15))
    shown = found(f"# of all, by hand\n{rows}{line}\n# and four words more\n{rows}")
    assert shown.marks.comment == comment
    parts = rows.replace("\n", "\n# of it all\n")  # what they name is no part of the rows
    assert found(f"# of all, by hand\n{parts}# more\n").marks.comment == ""
    parts = rows.replace("\n", "\n#S part of it all\n")  # nor where few have as many words
    assert found(f"# of all here\n{parts}#S 5\n").marks.comment == ""


def test_rows_are_filled_up_to_the_longest_where_nothing_names_columns() -> None:
    text = "AD,x\nAE,y\nAF,z,w\n"
    assert found(text).width == 2
    shown = found(text, short_rows="null")
    assert (shown.width, shown.header) == (3, False)
    assert shown.files[0].rows == (("AD", "x", ""), ("AE", "y", ""), ("AF", "z", "w"))
    # Names are those of all columns: what a row has beyond them is a fault.
    named = found("id,v\n1,2\n3,4\n5,6,7\n", short_rows="null")
    assert (named.width, named.header) == (2, True)
