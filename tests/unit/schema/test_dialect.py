"""What the sniffer says of samples."""

from __future__ import annotations

import time

import pytest

from rowfall.core.errors import UsageError
from rowfall.schema.dialect import Asked, Finding, TextSample, sniff, unique_names


def found(*texts: str | bytes, **asked: object) -> Finding:
    samples = [
        TextSample(f"{n}.csv", text if isinstance(text, bytes) else text.encode(), whole=True)
        for n, text in enumerate(texts)
    ]
    return sniff(samples, Asked(**asked))  # type: ignore[arg-type]


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
        ('a|b\n"x|y"|1\n"z\n|"|2\n', "|", 2),
        ("a\x01b\n1\x012\n", "\x01", 2),
    ],
)
def test_delimiters(text: str, mark: str, width: int) -> None:
    seen = found(text)
    assert (seen.delimiter, seen.width) == (mark, width)


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
    ],
)
def test_headers(text: str, header: bool) -> None:
    assert found(text).header == header


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


def test_a_comma_before_decimals_is_no_delimiter() -> None:
    assert found("x;1,5\ny;2,5\n", decimal=",").delimiter == ";"
    assert found('"1,5","2,5"\n"3,5","4,5"\n', decimal=",").delimiter == ","


def test_the_line_that_tells_excel_the_delimiter() -> None:
    one = found("sep=;\r\na;b\r\n1;2\r\n")
    assert (one.delimiter, one.skip_lines, one.header, one.names) == (";", 1, True, ("a", "b"))
    tab = found('"sep=\t"\na\tb\n1\t2\n')
    assert (tab.delimiter, tab.skip_lines) == ("\t", 1)
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
    assert (found(text).ends, found(text, header=True).ends) == ("", "all")


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
    assert (one.delimiter, one.quote) == (",", '"')
    three = b'id,name,n\n100,"n,1\n101,"n,1\n102,"n,1\n'
    assert sniff([TextSample("x", three + rows.encode(), True)]).quote == ""


def test_two_thirds_of_few_rows_show_the_delimiter() -> None:
    text = b"id,name,n,day\n1,a,1,x\n2,b,2,x\n3,c\n4,d,4,x\n5,e,5,x\n6,f,6,x,more\n"
    found = sniff([TextSample("x", text, True)])
    assert (found.delimiter, found.width, found.header) == (",", 4, True)


def test_bytes_that_are_not_utf_8_in_some_files_are_errors_of_those() -> None:
    plain, odd = b"id,n\n1,a\n2,b\n", b"id,n\n1,\xff\n2,b\n"
    assert sniff([TextSample("x", plain), TextSample("y", odd)]).charset == "utf-8"
    assert sniff([TextSample("x", odd), TextSample("y", odd)]).charset == "windows-1252"
    wide = plain.decode().encode("utf-16-le")
    assert sniff([TextSample("x", plain), TextSample("y", wide)]).charset == "utf-16le"
