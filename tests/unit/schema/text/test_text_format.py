"""Rows that lack fields at their end, and lines that count rows: what is left out by no chance."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from rowfall.core.dialect import DialectOptions, LineOptions, MarkOptions, TextSample, sniff
from rowfall.schema.text.text_format import counts_of, lacking_rows

TABS = DialectOptions(marks=MarkOptions("\t", ""))


def lacking(text: str, asked: DialectOptions = TABS, *, whole: bool = True) -> int:
    samples = [TextSample("a.tsv", text.encode(), whole)]
    return lacking_rows(sniff(samples, asked), samples, asked)


def test_tabs_left_out_at_the_end_of_rows_are_put_back() -> None:
    draw = random.Random(37)
    found = 0
    for _ in range(200):
        width, named = draw.randint(3, 6), draw.random() < 0.5
        rows = []
        for n in range(40):
            row = [str(n), *(f"w{draw.randrange(9)}" for _ in range(width - 1))]
            for at in range(2, width):
                row[at] = row[at] if draw.random() < 0.7 else ""
            rows.append(row)
        rows[0] = ["7", *"x" * (width - 1)]  # a first row that lacks some may be a title
        names = [[f"name_{n}" for n in range(width)]] if named else []
        table = [*names, *rows]
        lines = ["\t".join(row).rstrip("\t") for row in table]
        short = sum(line.count("\t") < width - 1 for line in lines)
        text = "\n".join(lines) + "\n"
        sizes = [line.count("\t") + 1 for line in lines]
        torn = any(a < width > b and a + b == width + 1 for a, b in pairwise(sizes))
        assert lacking(text) == (0 if torn else short)
        if short and not torn:
            found += 1
            filled = DialectOptions(marks=TABS.marks, lines=LineOptions(short_rows="null"))
            read = sniff([TextSample("a.tsv", text.encode(), True)], filled)
            assert [list(row) for file in read.files for row in file.rows] == table
            assert read.header is named
            # What may be a fault is none of them.
            assert lacking(text, whole=False) == 0
            assert lacking(text + "the end\n") == 0
            assert lacking(text + "x\ty") == 0  # the file is cut
            assert lacking(text + "word\tw1\n") == 0  # no number in the first column
            assert lacking(text + "9\tw1\t" + "w2\t" * (width - 3) + "w3\n") in (0, short)
            broken = "\n".join(("9\tcut", "here" + "\tx" * (width - 2)))
            assert lacking(text + broken + "\n") == 0
    assert found > 20


@pytest.mark.parametrize(
    "text",
    [
        "id\tname\tx\n1\ta\n2\tb\t5\n3\tc\t6\n" + "4\td\t7\n" * 30,  # one, and none is empty
        "id\tx\n1\n2\t5\n3\t\n",
        "id\tname\tx\n" + "1\ta\t5\n" * 30 + "2\tb\t5\t6\n" * 9,  # rows beyond the names
    ],
)
def test_rows_that_may_be_faults_lack_nothing(text: str) -> None:
    assert lacking(text) == 0


def test_commas_stand_in_texts_and_show_no_columns() -> None:
    text = "AD,x\nAE,y\n" + "AF,z,w\nAG,q\n" * 9
    assert lacking(text, DialectOptions()) == 0


def test_a_first_line_of_one_number_counts_rows() -> None:
    def counted(text: str) -> str:
        samples = [TextSample("a.txt", text.encode(), True)]
        return counts_of(sniff(samples, DialectOptions()), samples, DialectOptions())

    for rows in (10, 12, 56):
        for mark in " ,;\t":
            body = "".join(mark.join((str(n), "0.5", "7")) + "\n" for n in range(rows))
            assert counted(f"{rows}\n{body}") == "rows"
            assert counted(f"{rows + 1}\n{body}") == ""
            assert counted(f"{rows}\n{body}{body}") == ""
            assert counted(f"{rows}\n{mark.join(('n', 'x', 'y'))}\n{body}") == ""
    assert counted("10\n" + "".join(f"{n}\n" for n in range(10))) == ""  # one column
    assert counted("3\n1 2 3\n4 5 6\n7 8 9\n") == ""  # any small number counts so few
