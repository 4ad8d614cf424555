"""Quotes of CSV that are opened and not closed before the end, found from the end."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rowfall.core import open_quotes as rules
from rowfall.core.model import Encoding, Kind
from rowfall.core.open_quotes import OpenQuotes, find_open
from rowfall.core.options import Options
from rowfall.schema.text import open_quotes
from rowfall.sources import open_source

CSV = Encoding("CSV", "none", Kind.TEXT)


def engine(text: bytes) -> int | None:
    """Return where the engine's rules say that a quote is open; None where they refuse the text."""
    at, size = 0, len(text)
    while at < size:
        while at < size and text[at] in b" \t":
            at += 1
        if text[at : at + 1] == b'"':
            opened, at = at, at + 1
            while True:
                at = text.find(b'"', at)
                if at < 0:
                    return opened
                if text[at + 1 : at + 2] != b'"':
                    at += 1
                    break
                at += 2
            while at < size and text[at] in b" \t":
                at += 1
            if at < size and text[at] not in b",\r\n":
                return None
        while at < size and text[at] not in b",\r\n":
            at += 1
        at += 1
    return -1


ENDS = {
    b'1,a\n2,"open': 6, b'1,"a"\n2,"open\n3,b\n': 8, b'1,a\n2,"': 6, b'1,a\n2,"\n': 6,
    b'1,"a""': 2, b'1,"""': 2, b'1,"",""\n': -1, b'1,5" tall\n': -1, b'1,5" tall\n2,"x': 12,
    b'1,"a,"\n': -1, b'1," a" \n2, "b': 11, b'"': 0, b"": -1, b"1,2\n3,4": -1, b'1,"a\nb"\n': -1,
    b'\xef\xbb\xbf"a': 3, b'1,"a","b\n': 6, b'"a",","\n': -1, b'"a",","\n"b",",': 12,
}  # fmt: skip


@pytest.mark.parametrize("text", ENDS)
def test_the_end_of_a_text_tells(text: bytes) -> None:
    assert find_open(text, CSV, whole=True, breaks=True) == ENDS[text]


@pytest.mark.parametrize("seed", range(20))
def test_as_the_rules_of_the_engine_say(seed: int) -> None:
    """For any text that it takes; by its end, and in pieces of any size."""
    draw = random.Random(seed)
    tried = 0
    while tried < 300:
        text = bytes(draw.choices(b'a,"\n ', (3, 4, 5, 2, 1), k=draw.randint(1, 40)))
        wanted = engine(text)
        if wanted is None:
            continue
        tried += 1
        assert find_open(text, CSV, whole=True, breaks=True) == wanted, text
        for begin in range(len(text)):
            found = find_open(text[begin:], CSV, whole=False, breaks=True)
            assert found is None or begin + found == wanted or (found, wanted) == (-1, -1), text


@pytest.mark.parametrize("breaks", [True, False])
@pytest.mark.parametrize("end", [b'7,"open', b"7,x\n", b'7,"open\n8,b\n'])
def test_text_in_pieces(monkeypatch: pytest.MonkeyPatch, end: bytes, breaks: bool) -> None:
    monkeypatch.setattr(rules, "END", 100)
    rows = b"".join(b'%d,"a""\n,b"\n' % n if breaks else b'%d,"a"" b"\n' % n for n in range(500))
    text, opened = rows + end, b"open" in end
    followed = OpenQuotes(CSV, 1 << 20, breaks=breaks)
    for at in range(0, len(text), 37):
        followed.pass_by(text[at : at + 37])
        assert len(followed._kept) < 300
    if opened and not breaks and b"8" in end:
        opened = False  # a reader refuses the line break
    line = 1001 if breaks else 501
    assert followed.end() == ((line, len(rows) + 2) if opened else None)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    import gzip

    monkeypatch.setattr(open_quotes, "END", 16)
    rows = b"id,name\n" + b"1,a\n" * 5000 + b'2,"b\nc"\n' + b"3,d\n" * 5000
    for end, place in ((b"", None), (b'4,"open\n5,e\n', "line 10004")):
        path = tmp_path / name
        path.write_bytes(gzip.compress(rows + end) if name.endswith("gz") else rows + end)
        source = open_source([str(path)], Options())
        split = source.listing().split(0, "")
        encoding = source.encoding(source.listing())
        error = open_quotes.find(source, split, encoding, 1 << 20, breaks=True)
        assert (error is None) == (place is None)
        assert error is None or error.message.startswith(f"{path} {place}: a quote is opened here")
