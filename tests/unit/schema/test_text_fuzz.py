"""Thousands of small files that nobody would write: what is said of them is an answer or an error
that a person understands, never a crash."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gate import ALL
from rowfall.core import formats
from rowfall.core.errors import RowfallError
from rowfall.core.options import Options
from rowfall.schema.text.text_format import asked_of, find_text_format
from rowfall.sources import open_source

SEEDS = (
    "a,b,c\n1,2\n3,4\n", "'''a,b''',4\n,2\nh,2\n", "id,name\n1,a\n\n2,b\n", 'a, "b"\n1, "x, y"\n',
    "x;y\n1,5;2\n", "a\tb\n1\t2\n", "# c\na|b|\n1|2|\n", "16:9\n4:3\n", "h\n1\n\n2\n", "a b\n1 2\n",
    '"a\nb",c\n"d\ne",f\n', "T\n\na,b\n1,2\n", "sep=;\na;b\n1;2\n", "a||b\n1||2\n", '"a\\"b",c\n',
    ",a\n0,1\n1,2\n", "a,2019\nx,1\ny,2\n", "\ufeffa,b\r\n1,2\r\n", "a\rb\rc\r",
    "1,234.5\n68,527.00\n",
)  # fmt: skip
PIECES = (
    ",", ";", "|", "\t", " ", ":", "::", "||", "\n", "\r\n", "\r", '"', "'", '""', "\\", "#", "--",
    "a", "1", "2019", "1,5", "2024-01-01", "10:00", "", "NA", "\\N", "é", "\x00", "\x01", "\ufeff",
    "sep=;", "true", "Größe", "//", "  ",
)  # fmt: skip
ASKED = (
    {}, {"header": "yes"}, {"header": "no"}, {"delimiter": ","}, {"delimiter": "||"},
    {"short_rows": "null"}, {"blank_lines": "skip"}, {"blanks": "trim"}, {"skip_lines": 1},
    {"quote": "none"}, {"escape": "\\"}, {"format": "TSV"}, {"format": "CSVWithNames"},
    {"null": "NA,-", "decimal": ",", "dates": "dmy"}, {"comment": "#"}, {"columns": "x,y"},
)  # fmt: skip


def mutated(made: random.Random) -> bytes:
    """Return a seed with up to eight pieces put in, taken out or exchanged."""
    text = list(made.choice(SEEDS) if made.random() < 0.8 else "")
    for _ in range(made.randint(0, 8)):
        at = made.randint(0, len(text))
        how = made.random()
        if how < 0.6:
            text[at:at] = list(made.choice(PIECES))
        elif how < 0.8:
            del text[at : at + made.randint(1, 4)]
        else:
            text[at:at] = text[at : at + made.randint(1, 12)] * made.randint(1, 3)
    data = "".join(text).encode()
    if made.random() < 0.1:
        at = made.randint(0, len(data))
        data = data[:at] + bytes(made.choices(range(256), k=2)) + data[at:]
    return data


def _nothing(query: object, settings: object) -> list[list[object]]:
    raise AssertionError("no engine is asked about files of this machine")


@pytest.mark.parametrize("seed", range(40 if ALL else 4))
def test_no_small_file_crashes_the_sniffer(tmp_path: Path, seed: int) -> None:
    made = random.Random(seed)
    for _ in range(250):
        texts: Sequence[bytes] = [mutated(made) for _ in range(made.choice((1, 1, 1, 2)))]
        for n, data in enumerate(texts):
            (tmp_path / f"{n}.csv").write_bytes(data or b"\n")
        options = replace(Options(), **made.choice(ASKED))
        try:
            source = open_source([str(tmp_path / f"{n}.csv") for n in range(len(texts))], options)
            listing = source.listing()
            encoding = source.encoding(listing)
            splits = [listing.split(n, "") for n in range(len(listing))]
            if formats.by_name("x.csv")[0] is None or not (encoding.is_csv or encoding.is_tsv):
                continue
            find_text_format(source, splits, encoding, _nothing, asked_of(options))
        except RowfallError:
            pass  # says what is wrong
        except Exception as error:
            raise AssertionError(f"{texts!r} with {options.delimiter, options}") from error
