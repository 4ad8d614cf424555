"""Facts about text: what rowfall-decode finds out about a sample is what the engine says of it."""

from __future__ import annotations

import gzip
import json
import random
import threading
from collections.abc import Sequence
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rowfall.core.errors import RowfallError
from rowfall.core.listing import Split
from rowfall.core.masked import Secret
from rowfall.core.model import Dialect, Encoding, Kind
from rowfall.core.options import Options
from rowfall.schema import json_sample, sampling
from rowfall.schema.column_facts import ColumnFacts, WantedFacts
from rowfall.schema.text import text_facts
from rowfall.sources.base import HttpAddress
from rowfall.stores.files import LocalFiles
from unit.memory import Chdb, ChdbError

TYPES = ("Int64", "Nullable(UInt8)", "String", "Nullable(String)", "DateTime", "Date", "Float64",
         "Bool")  # fmt: skip
COMMON = [
    "", "  ", "0", "7", "-7", "+7", "007", "--7", "9" * 38, "1.5", "1e5", " 5", "5 ", "\t",
    "2024-02-29", "2023-02-29", "1900-01-01", "2299-12-31", "2024-2-29",
    "2024-02-29 12:00:00", "2024-02-29T12:00:00", "2024-02-29T12:00:00.25Z", "2024-99-99 99:99:99Z",
    "text", "grün", "N", "NULL", "true", "'x'", "\\N", "inf", "-Infinity", "information", "nan",
    "1234e56", "12e999", "9e9999", "1E014", "1e15", "1.10", "12.340", "1.5.0",
    "+.5", "5.", "-.5E-3", "1e400", "1e", "3.5215257120407011", "0.30000000000000004",
    "-12345678901234567.250", "0.1000000000000000055e-300", "2024-02-29 12:00:00.123456789",
    "grün grün grün grün.12", "0d5f3c1a-7b2e-4c11-9a55-0123456789AB",
    "1234e56", "99E1", "12e560", "1E5", "1e0014", "1e15", "1.10", "12.9", "1.100", "00.0", "-1.10",
    "0d5f3c1a7b2e4c119a550123456789ab", "0d5f3c1a-7b2e-4c11-9a55-0123456789AX",
]  # fmt: skip
CSV_ONLY = ['""', '"quoted"', '"a ""word"""', '" 5"', '"\\N"', '"a\nb"', '"1\n2,3"', '"7"', "a\\tb"]
TSV_ONLY = ["a\\tb", "\\\\N", "\\\\", "one\\ntwo", "1\\n2\\t3", "'"]
UNCLEAN = ["9" * 39, "1899-12-31", "2300-01-01", '5"', ' "x"', '"a"b', "nan(1)"]


@pytest.fixture
def answers(chdb_engine: Chdb, monkeypatch: pytest.MonkeyPatch) -> Answers:
    return Answers(chdb_engine, monkeypatch)


class Answers:
    """What both say of the same files."""

    def __init__(self, engine: Chdb, monkeypatch: pytest.MonkeyPatch) -> None:
        self._engine = engine
        self._monkeypatch = monkeypatch
        self.asked = 0
        self.types = TYPES  # of the table; () for one that is still to be made

    def _columns(self, encoding: Encoding, paths: Sequence[Path]) -> tuple[ColumnFacts, ...]:
        source = LocalFiles([str(path) for path in paths], Options())
        wanted = WantedFacts(
            lambda _, names: dict(zip(names, self.types, strict=False)), layout=not self.types
        )
        asked = sampling._Sampler.measure

        def counting(*given: Any, **more: Any) -> tuple[ColumnFacts, ...]:
            self.asked += 1
            return asked(*given, **more)

        with self._monkeypatch.context() as patch:
            patch.setattr(sampling._Sampler, "measure", counting)
            return sampling.take_sample(
                source, source.listing(), encoding, self._engine.ask, wanted=wanted
            ).columns

    def _said(self, encoding: Encoding, paths: Sequence[Path]) -> list[dict[str, Any]] | str:
        try:
            return [asdict(column) for column in self._columns(encoding, paths)]
        except (ChdbError, RowfallError) as error:
            return str(error)

    def both(self, encoding: Encoding, *paths: Path) -> bool:
        """Compare the two; returns whether rowfall-decode has answered."""
        self.asked = 0
        here = self._said(encoding, paths)
        answered = self.asked == 0
        with self._monkeypatch.context() as patch:
            patch.setattr(sampling, "text_facts", lambda *_: None)
            patch.setattr(json_sample, "object_texts", lambda *_, **_more: None)
            assert here == self._said(encoding, paths)
        return answered


def _encoding(format: str) -> Encoding:
    return Encoding(format, "none", Kind.TEXT)


def _text(format: str, cells: Sequence[Sequence[str]], line_end: str = "\n") -> str:
    delimiter = "," if format.startswith("CSV") else "\t"
    lines = [delimiter.join(row) for row in cells]
    if format.endswith("WithNames"):
        lines.insert(0, delimiter.join(f"column {n}" for n in range(len(TYPES))))
    return "".join(line + line_end for line in lines)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("types", [TYPES, ()], ids=["known", "unknown"])
@pytest.mark.parametrize("format", ["CSV", "CSVWithNames", "TSV", "TSVWithNames"])
def test_both_say_the_same(
    answers: Answers, tmp_path: Path, format: str, types: tuple[str, ...]
) -> None:
    answers.types = types
    csv = format.startswith("CSV")
    cells = [cell for cell in COMMON if csv or cell != "\t"] + (CSV_ONLY if csv else TSV_ONLY)
    chosen, here = random.Random(5), 0
    for number in range(12):
        # Columns of one kind of value, too: what is said of all values of a column counts.
        few = [chosen.sample(cells, chosen.choice([1, 2, 5, 30])) for _ in TYPES]
        rows = [[chosen.choice(column) for column in few] for _ in range(chosen.choice([1, 200]))]
        if number % 6 == 5:
            rows[-1][3] = chosen.choice(UNCLEAN)
        path = tmp_path / f"{number}.txt"
        path.write_text(_text(format, rows, "\r\n" if number % 4 == 3 else "\n"))
        here += answers.both(_encoding(format), path)
    # It declines what is not clean: its answers would mean nothing if it declined everything.
    assert here >= 6


def test_several_packed_files_and_few_rows_of_each(
    answers: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "VALUES", 100 * len(TYPES))
    rows = [[str(n), "", "x" * n, "", "2024-02-29", "2024-02-29", "1.5", "true"] for n in range(90)]
    paths = [tmp_path / f"{n}.csv.gz" for n in range(3)]
    for number, path in enumerate(paths):
        path.write_bytes(gzip.compress(_text("CSVWithNames", rows[number * 20 :]).encode()))
    encoding = replace(_encoding("CSVWithNames"), compression="gzip")
    assert answers.both(encoding, *paths)


def test_lines_from_the_middle_and_the_end_count(answers: Answers, tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    row = ["1", "2", "text", "", "2024-02-29 00:00:00", "2024-02-29", "1.5", "true"]
    last = ["1", "", "text ", "\\N", "2024-02-29T00:00:00Z", "7", "+015", "1"]
    path.write_text(_text("CSVWithNames", [*[row] * 100_000, last]))
    assert answers.both(_encoding("CSVWithNames"), path)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("1,2\na,b\n", True),
        ("1,2\na,b", True),
        ("\ufeff1,2\n3,4\n", False),
        ("1,2\n3\n", False),
        ('1,2\n1,"2\n', False),
        ("1,2\n\n3,4\n", True),  # blank lines are left out as it is rewritten
        ("1,2\n 3,4\n", False),
    ],
)
def test_what_is_not_clean_is_the_engines(
    answers: Answers, tmp_path: Path, text: str, clean: bool
) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(text)
    assert answers.both(_encoding("CSV"), path) == clean


def test_a_byte_order_mark_is_no_part_of_the_first_name(answers: Answers, tmp_path: Path) -> None:
    path = tmp_path / "mark.csv"
    path.write_text("\ufeffcolumn 0,column 1\n1,2\n")
    assert answers.both(_encoding("CSVWithNames"), path)


VALUES = [
    "null", "0", "7", "-7", "1.5", "-0.0", "1e5", "1E-05", "3.5215257120407011", "9007199254740993",
    "12345678901234567890123", "true", "false", '""', '"text"', '"grün"', r'"gr\u00fcn"', '"007"',
    '"+7"', r'"a\nb\t\"c\" \/ \\"', r'"\ud83d\ude00"', '" 5 "', '"2024-02-29"', '"true"',
    '"2024-02-29T12:00:00.25Z"', '"0d5f3c1a-7b2e-4c11-9a55-0123456789AB"', "[]", "[1, 2.5]",
    '["a", null]', "{}", '{"k": 1, "l": [true]}', '"NULL"', r'"\\N"', '"inf"',
]  # fmt: skip
ODD = ["NaN", "+5", ".5", "01", "'x'", '{"k": 1}, "c0": {"k": 2}', '"a" }{ "c9": 1']


@pytest.mark.parametrize("types", [TYPES[:4], ()], ids=["known", "unknown"])
def test_lines_of_json(answers: Answers, tmp_path: Path, types: tuple[str, ...]) -> None:
    answers.types = types
    chosen, here = random.Random(6), 0
    encoding = Encoding("JSONEachRow", "none", Kind.JSON)
    for number in range(14):
        few = [chosen.sample(VALUES, chosen.choice([1, 2, 4, 30])) for _ in range(6)]
        lines = []
        for _ in range(chosen.choice([1, 200])):
            keys = [n for n in range(6) if chosen.random() < 0.9]
            chosen.shuffle(keys)
            cells = (f'"c{n}": {chosen.choice(few[n])}' for n in keys)
            lines.append(f"{{{', '.join(cells)}}}")
        if number % 7 == 6:
            lines.insert(len(lines) // 2, f'{{"c0": {chosen.choice(ODD)}}}')
        path = tmp_path / f"{number}.jsonl"
        end = "\r\n" if number % 4 == 3 else "\n"
        path.write_bytes((end.join(lines) + end * (number % 3)).encode())
        here += answers.both(encoding, path)
    assert here >= 10


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_of_json(answers: Answers, tmp_path: Path, indent: int | None) -> None:
    rows = [{"a": n, "b": f"[{n}\n", "c": {"d": [n]}} for n in range(300)]
    path = tmp_path / "array.json"
    path.write_text(json.dumps(rows, indent=indent))
    answers.types = ()
    assert answers.both(Encoding("JSONEachRow", "none", Kind.JSON), path)


LOG = '127.0.0.1 - - [10/Oct/2024:13:55:{:02} +0000] "GET /{} HTTP/1.1" 200 7 "-" "curl"'


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (("widths", "6", "8", "5"), "{:<6}grün {}  1,5  "),
        (("combined",), LOG),
        ((), "{:02};grün;{},5;31.12.2024"),
    ],
    ids=["widths", "log", "latin-1"],
)
def test_text_that_is_rewritten(
    answers: Answers, tmp_path: Path, lines: tuple[str, ...], line: str
) -> None:
    charset = "utf-8" if lines else "windows-1252"
    path = tmp_path / "foreign.csv"
    path.write_text("".join(f"{line.format(n, n)}\n" for n in range(60)), charset)
    dialect = Dialect(lines=lines, charset=charset)
    answers.types = ()
    assert answers.both(replace(_encoding("CSV"), dialect=dialect), path)


@pytest.mark.parametrize(
    "text", ['[{"a": 1}, {"a": 2}', '{"a":\n1}\n', '\ufeff{"a": 1}\n', '{"a": 1} {"a": 2}\n']
)
def test_other_json_is_the_engines(answers: Answers, tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(text)
    answers.types = ()
    answers.both(Encoding("JSONEachRow", "none", Kind.JSON), path)


class Stored(LocalFiles):
    """Files at addresses that are read by HTTP."""

    def __init__(self, paths: Sequence[Path], port: int) -> None:
        super().__init__([str(path) for path in paths], Options())
        self._port = port

    def addresses(self, splits: Sequence[Split]) -> list[HttpAddress]:
        return [HttpAddress(Secret(f"http://127.0.0.1:{self._port}{s.uri}")) for s in splits]


def test_objects_in_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """rowfall-decode fetches their first megabytes, and says of them what it says of files."""
    paths = [tmp_path / name for name in ("a.csv.gz", "b.csv.gz")]
    for number, path in enumerate(paths):
        # More than two pieces of 4 MiB, of which one is fetched.
        noise = random.Random(number).randbytes(6_000_000).hex()
        rows = [f"{n},text {n}," for n in range(500)] + [
            f"{n},{noise[n * 100 : n * 100 + 100]},1.5" for n in range(120_000)
        ]
        path.write_bytes(gzip.compress("\n".join([*rows, ""]).encode(), 1))
        assert path.stat().st_size > 6_000_000
    sent: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = Path(self.path).read_bytes()
            first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
            part = body[int(first) : int(last) + 1]
            sent.append(len(part))
            self.send_response(206)
            self.send_header("Content-Length", str(len(part)))
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(body)}")
            self.end_headers()
            self.wfile.write(part)

        def log_message(self, format: str, *args: object) -> None: ...

    encoding, names = replace(_encoding("CSV"), compression="gzip"), ["id", "word", "price"]
    files = LocalFiles([str(path) for path in paths], Options())
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setattr(text_facts, "LocalFiles", type("Others", (), {}))
        stored = Stored(paths, server.server_port)
        splits = stored.sample(stored.listing(), 2)
        found = text_facts.text_facts(stored, splits, encoding, names, 1_000, "")
        server.shutdown()
    monkeypatch.undo()
    assert found == text_facts.text_facts(files, splits, encoding, names, 1_000, "")
    assert found is not None
    assert found.rows == 2_000
    assert len(sent) <= 2 * len(paths), "the piece that it is at, and the next one at most"
