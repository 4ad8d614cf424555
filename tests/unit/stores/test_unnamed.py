"""What files hold whose names do not say it."""

from __future__ import annotations

import pytest

from rowfall.core.errors import UsageError
from rowfall.stores.unnamed import format_of


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        ("id,name\n1,a\n2,b\n", "CSV"),
        ("alice;berlin\nbob;paris\n", "CSV"),
        ("id\tname\n1\ta\n", "TSV"),
        ('{"a":1}\n{"a":2}\n', "JSONEachRow"),
        ('{\n  "a": 1\n}\n', "JSONEachRow"),
        ('[{"a":1}]\n', "JSONEachRow"),
        ("apple\npear\nplum\n", "CSV"),
        ("5\n7\n9\n", "CSV"),
        ("2024-01-01 10:00:00\n2024-01-02 10:00:00\n", "CSV"),
        ("time,level\n2024-01-01 10:00:00,INFO\n2024-01-02 10:00:00,WARN\n", "CSV"),
        ("# made by hand\nid,n\n1,2\n3,4\n", "CSV"),
        ("a b\n1 2\n3 4\n", "CSV"),
        ("# separated by whitespace\na   b c\n1  2.5 x\n30 4.5 y\n", "CSV"),
        ("#\n# by hand\n#\n  1.5   20\n 10.5    3\n", "CSV"),
        ("## a list\n#code\tn\nx\t1\ny\t2\n", "TSV"),
        ("a,b,c\n1,2\n3,4\n", "CSV"),
        ("# data sets, by hand\n" + '"abc","labour, in all","n=427"\n' * 8, "CSV"),
        ("# Widths, of 2022\n" + "0020..0021;Na    # Zs [2] SPACE\n" * 8, "CSV"),
        ("# name\tport\n" + "tcp\t1/tcp\t0.5\t# of it\n" * 8 + "x\t2/tcp\t0.1\n" * 4, "TSV"),
        (
            "".join(f"red{n}x\t\t   ff{n:02}ff\npale-red{n}x   ee{n:02}ff\n" for n in range(9)),
            "CSV",
        ),
    ],
)
def test_tables(text: str, format_: str) -> None:
    assert format_of("x", text.encode(), whole=True) == format_


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 5 "-" "M (X; L)"\n' * 3,
         "log"),
        ("Nov 26 10:00:00 host sshd[1]: ok, fine\nNov 26 10:00:01 host sshd[1]: bad, x\n", "log"),
        ("2024-01-01T10:00:00Z INFO a, b\n2024-01-01T10:00:01Z WARN c, d\n", "log"),
        ("---\na: 1\nb: 2\n", "YAML"),
        ("# Title\n\nSome text, with commas.\n", "Markdown"),
        ("# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n", "table of Markdown"),
        ("a | b\n--- | ---\n1 | 2\n", "table of Markdown"),
        ("# T\n\n|a|b|\n|-|:-:|\n|1|2|\n", "table of Markdown"),
        ("<a>\n<b>1</b>\n</a>\n", "XML"),
        ('<gpx version="1.1">\n<trk>\n</trk>\n</gpx>\n', "XML"),
        ("[core]\na = 1\n", "settings"),
        ("The quick fox jumped over, and so on.\nThen it went home, alone.\n", "sentences"),
        ("This is a letter to somebody far away\nwho does not answer it at all\n", "no delimiter"),
        ("# Title\n" + "One, two, three.\nFour, five.\n" * 5, "Markdown"),
        ("# Title\n" + "Words, and more, of it.\n" * 3, "Markdown"),
        ("a\x00b\x02\x03\x04\n" * 9, "not text"),
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        format_of("x", text.encode(), whole=True)
