"""The decoder against the engine's own reader: whatever it accepts, the engine reads the same.

    PYTHONPATH=src:tests python crates/rowfall-decode/tests/differential.py --seeds 20

Valid and nearly valid values of every type are written as CSV, TSV and JSON. Rows that the decoder
declines are taken out one by one; what is left is read by both sides and compared row by row, and
so is the text that both write of it for databases. With
--times N all of it is read once more, shuffled, as a file of N times as many rows: values then
stand at other places of batches, blocks and chunks.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rowfall.core import sql
from rowfall.core.model import Column, Encoding, FileChecks, Kind, Schema
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.type_names import parse_type
from rowfall.engines.database import replace_escape
from rowfall.schema.text.whole_rows import guarded, read_as, read_structure
from rowfall.schema.types.reader_settings import reader_settings
from rowfall.schema.types.strict_reading import FileTraits, TextTraits, strict_column
from rowfall.systems.mysql.target import MySQLTable
from rowfall.systems.postgresql.target import PostgresTarget
from unit.memory import CSV, JSON, TSV, Chdb, ChdbError
from unit.schema.types.test_strict_reading import MOMENTS, NUMBERS, WORDS

DECODER = os.environ.get("ROWFALL_DECODE", "rowfall-decode")
TYPES = [
    *(f"{u}Int{b}" for b in (8, 16, 32, 64, 128, 256) for u in ("", "U")),
    "Float32", "Float64", "Bool", "String", "FixedString(1)", "FixedString(3)",
    "LowCardinality(String)", "LowCardinality(Nullable(String))", "UUID", "IPv4", "IPv6",
    "Enum8('a' = 1, 'it\\'s' = 2)", "Enum16('x' = -5, 'y,z' = 300, '2' = 1)", "Decimal(9, 2)",
    "Decimal(9, 9)", "Decimal(18, 4)", "Decimal(18, 0)", "Decimal(38, 10)", "Decimal(76, 0)",
    "Decimal(76, 30)", "Date", "Date32", "DateTime", "DateTime('UTC')", "DateTime64(3)",
    "DateTime64(0)", "DateTime64(9, 'UTC')", "DateTime64(6, 'UTC')",
    "DateTime('Europe/Berlin')", "DateTime64(3, 'America/New_York')",
]  # fmt: skip

# Who takes the text, and the escape of the engine's that is written in another way for it.
TARGETS: dict[str, tuple[Any, ...]] = {
    "TSV": (None,),
    "CSV": (None,),
    "JSONEachRow": (None,),
    "PostgreSQL": (PostgresTarget("postgresql://u@h/d", "t", Options()), b"\\0", b"\\000"),
    "MySQL": (MySQLTable("systems.mysql.target://u@h/d", "t", Options()), b"\\f", b"\f"),
}


@dataclass(frozen=True)
class Way:
    """One way to write and read a file."""

    encoding: Encoding
    native: bool = False
    quoted: bool = False
    crlf: bool = False
    trim: bool = False
    shape: str = ""
    chunk: int = 0
    bare: bool = False
    whole: bool = False
    last: bool = False
    blank: bool = False
    padded: bool = False
    canonical: bool = False
    mixed: bool = False
    array: bool = False

    @property
    def label(self) -> str:
        marks = [
            n
            for n in (
                "native", "quoted", "crlf", "trim", "bare", "whole", "last", "blank", "padded",
                "canonical", "mixed", "array",
            )
            if getattr(self, n)
        ]  # fmt: skip
        return " ".join([self.encoding.format, *marks, self.shape])


def texts(rng: random.Random, type_: str, count: int) -> list[str]:
    """Values of a type, most of them valid, some nearly so."""
    found = []
    for _ in range(count):
        text = value(rng, parse_type(type_))
        if rng.random() < 0.3:
            text = mutate(rng, text)
        found.append(text)
    return found


def value(rng: random.Random, t: Any) -> str:
    base = t.base
    if t.bits:
        top = 2 ** rng.randint(0, t.bits)
        near = [top, top - 1, rng.randrange(top), -top, 1 - top, -rng.randrange(top)]
        return str(rng.choice(near))
    if base.startswith("Float"):
        return rng.choice(
            [
                repr(rng.uniform(-200, 200)),
                f"{rng.uniform(-1e4, 1e4):.{rng.randint(0, 20)}f}",
                repr(rng.random() * 10.0 ** rng.randint(-320, 308)),
                str(rng.randint(-(10**20), 10**20)),
                f"{rng.randint(0, 10 ** rng.randint(1, 25))}."
                f"{rng.randint(0, 10 ** rng.randint(1, 25))}",
                f"{rng.randint(-99, 99)}e{rng.randint(-45, 45)}",
                rng.choice(["nan", "NaN", "NAN", "Nan", "-nan", "+nan", "inf", "-inf", "nan "]),
                f"0.{rng.randint(0, 10**17):017d}",
                "-0.0",
                f"{2**24 + rng.randint(-3, 3)}",
                f"{2**53 + rng.randint(-3, 3)}.5",
            ]
        )
    if base == "Decimal":
        digits, scale = (int(a) for a in t.args.split(","))
        size = rng.randint(0, 10 ** rng.randint(1, digits + 1))
        text = str(size).rjust(scale + 1, "0")
        return rng.choice(["", "-"]) + (text[:-scale] + "." + text[-scale:] if scale else text)
    if base in ("Date", "Date32", "DateTime", "DateTime64"):
        year = rng.choice([1969, 1970, 2020, rng.randint(1890, 2310), rng.randint(1970, 2106)])
        day = f"{year}-{rng.randint(1, 12):02d}-{rng.randint(1, 31):02d}"
        if base.startswith("Date3") or base == "Date":
            return day
        clock = f"{rng.randint(0, 24):02d}:{rng.randint(0, 60):02d}:{rng.randint(0, 60):02d}"
        part = "." + "".join(rng.choices("0123456789", k=rng.randint(1, 10)))
        return day + " " + clock + rng.choice(["", part if base == "DateTime64" else ""])
    if base == "UUID":
        text = f"{rng.getrandbits(128):032x}"
        text = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        return text if rng.random() < 0.8 else text.upper()
    if base == "IPv4":
        return ".".join(str(rng.choice([0, 1, 255, rng.randint(0, 260)])) for _ in range(4))
    if base == "IPv6":
        parts = [f"{rng.choice([0, 0, rng.getrandbits(16)]):x}" for _ in range(8)]
        text = ":".join(parts)
        short = re.sub(r"(^|:)0(:0)+(:|$)", "::", text, count=1)
        return rng.choice([text, short, "::ffff:1.2.3.4"])
    if base.startswith("Enum"):
        return rng.choice(["a", "it's", "x", "y,z", "1", "2", "-5", "b", ""])
    if base == "Bool":
        return rng.choice(["true", "false", "1", "0", "True", "TRUE", "FALSE", "tRUE", "2"])
    alphabet = "abc\b\f\r\0\x01\x7f \t,\"\\'N\n\u00e4\u20ac0-" if rng.random() < 0.5 else "abcxyz"
    size = rng.choice([0, 1, 1, 2, 3, 3, 4, 10, 40, 200])
    return "".join(rng.choices(alphabet, k=size))


def mutate(rng: random.Random, text: str) -> str:
    at = rng.randint(0, len(text))
    new = rng.choice([*"0123456789.-+eE :TZ,\"\\'xN\t\0_", "\\N", "  ", "nan", "inf", "0x"])
    return rng.choice(
        [
            text[:at] + new + text[at:],
            text[:at] + text[at + 1 :],
            text[:at] + new + text[at + 1 :],
            " " + text,
            text + " ",
            "",
            "\\N",
            "+" + text,
            "0" + text,
            text + "0",
            text + "\r",
        ]
    )


def row(way: Way, k: int, text: str) -> str | None:
    """The line that holds a text, or None where this way cannot write it."""
    end = "\r\n" if way.crlf else "\n"
    if way.encoding.kind is Kind.JSON:
        value = text if way.bare else json.dumps(text)
        return f'{{"k": {k}, "v": {value}}}{end}'
    if way.encoding is TSV:
        if not way.bare and text != "\\N":
            text = text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
        return f"{k}\t{text}{end}"
    if way.quoted or (way.mixed and k % 2):
        text = '"' + text.replace('"', '""') + '"'
    return f"{k},{text}{end}" if way.last else f"{text},{k}{end}"


def beside(rng: random.Random, way: Way, values: list[str]) -> list[str]:
    """Values as other programs write them: with blanks around them, or none at all."""
    found = []
    for text in values:
        if way.padded and rng.random() < 0.5:
            blanks = rng.choices(["", " ", "  ", "\t", " \t "], k=2)
            text = blanks[0] + text + blanks[1]
        if way.blank and rng.random() < 0.2:
            text = rng.choice(["", "", " ", "   ", "\t", "\\N", " \\N", "\\N "])
        found.append(text)
    return found


def whole_file(way: Way, lines: dict[int, bytes]) -> tuple[bytes, dict[int, tuple[int, int]]]:
    """The lines as a file, and where each stands in it."""
    array, places, data = way.array, {}, b"[" if way.array else b""
    for number, (k, line) in enumerate(lines.items(), 1):
        written = line
        if array and number < len(lines):
            end = line[len(line.rstrip()) :]
            written = line.rstrip() + b"," + end
        places[k] = (len(data), len(data) + len(written))
        data += written
    return data + (b"]" if array else b""), places


class Side:
    """Both readers over one file."""

    def __init__(self, engine: Chdb, folder: Path) -> None:
        self.engine = engine
        self.file, self.native = folder / "rows", folder / "rows.native"

    def names(self, way: Way) -> list[str]:
        first = way.encoding.format.startswith("CSV") and not way.last
        return ["v", "k"] if first else ["k", "v"]

    def decode(self, way: Way, type_: str, data: bytes) -> dict[str, Any] | None:
        """None when accepted, what the decoder says otherwise."""
        self.file.write_bytes(data)
        kinds = {"k": "UInt32", "v": type_}
        names = self.names(way)
        spec = {
            "version": 2, "inputs": [{"path": str(self.file)}], "format": way.encoding.format,
            "null": "\\N" if way.native else "", "trim_strings": way.trim, "timezone": "UTC",
            "tuples": "value" if way.whole else "fields",
            "columns": [
                {"name": n, "position": i, "type": kinds[n],
                 **(notation(way, type_) if n == "v" else {})} for i, n in enumerate(names)
            ],
            "outputs": [str(self.native)],
        }  # fmt: skip
        if way.chunk:
            spec["chunk_bytes"] = way.chunk
        self.spec = spec
        done = subprocess.run(
            [DECODER, "run", "--spec", "-"], input=json.dumps(spec).encode(), capture_output=True
        )
        line = json.loads(done.stderr.splitlines()[-1])
        if done.returncode == 0:
            return None
        if done.returncode != 3:
            raise SystemExit(f"{way.label} {type_}: {line}")
        return line

    def decoded(self, way: Way, type_: str) -> list[list[Any]]:
        kinds = {"k": "UInt32", "v": type_}
        structure = sql.structure((n, kinds[n]) for n in self.names(way))
        relation = f"file('{self.native}', 'Native', {quote(structure)})"
        return self.rows(f"SELECT * FROM {relation}", type_)

    def differing_text(self, type_: str) -> list[str]:
        """Return where the text that both write of what was just decoded differs."""
        wrong = []
        lines = self.native.with_suffix(".lines")
        for format_, (target, *escape) in TARGETS.items():
            column = Column("v", type_)
            if parse_type(type_).nested or (target and target.only_engine_writes(column)):
                continue
            spec = {**self.spec, "output_format": format_, "outputs": [str(lines)]}
            subprocess.run(
                [DECODER, "run", "--spec", "-"], input=json.dumps(spec).encode(), check=True,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            ours = lines.read_bytes().splitlines()
            lines.unlink()
            columns = [Column(c["name"], c["type"]) for c in self.spec["columns"]]
            written = format_ if target is None else "TSV"
            reads = quote(sql.structure((c.name, c.type) for c in columns))
            writes, values = [], []
            for column in columns:
                texts = target.written(column) if target else ""
                kind = target.written_type(column) if target else in_utc(column.type)
                writes.append((column.name, "Nullable(String)" if texts else kind))
                values.append(texts or sql.name(column.name))
            into = f"file('{lines}', '{written}', {quote(sql.structure(writes))})"
            self.engine.run(
                f"INSERT INTO FUNCTION {into} SELECT {', '.join(values)} "
                f"FROM file('{self.native}', 'Native', {reads}) "
                "SETTINGS session_timezone = 'UTC', output_format_json_quote_denormals = 1", "Null",
            )  # fmt: skip
            text = lines.read_bytes()
            lines.unlink()
            if escape:  # databases take quotes as they are
                for one in ((b"\\'", b"'"), escape):
                    text = b"".join(replace_escape(iter([text]), *one))
            theirs = text.splitlines()
            wrong += [
                f"{format_} {type_}: we {a!r}, engine {b!r}"
                for a, b in zip_longest(ours, theirs) if a != b
            ][:5]  # fmt: skip
        return wrong

    def rows(self, relation: str, type_: str, settings: str = "") -> list[list[Any]]:
        shown = f"SELECT k, hex(toString(CAST(v, {quote(type_)}))), isNull(v) FROM ({relation})"
        text = self.engine.run(shown + settings, "JSONCompactEachRow")
        return [json.loads(line) for line in text.splitlines()]

    def read(self, way: Way, type_: str, data: bytes) -> list[list[Any]]:
        """What the engine reads. Raises ChdbError."""
        self.file.write_bytes(data)
        encoding = replace(
            way.encoding,
            null="\\N" if way.native else "",
            keep_blanks=not way.trim,
            fields=2 * way.whole,
        )
        if way.encoding is TSV or way.encoding is JSON:
            encoding = way.encoding
        last: ChdbError | None = None
        for seen in evidences(way):
            try:
                columns = [
                    strict_column(n, n, "UInt32" if n == "k" else type_, encoding.kind,
                          traits=replace(
                              seen,
                              file=replace(seen.file, csv=encoding.format.startswith("CSV")),
                              **(
                                  {"whole": way.whole} if n == "v"
                                  else {
                                      "shape": "", "blank": False, "padded": False,
                                      "canonical": False,
                                  }
                              ),
                          ))
                    for n in self.names(way)
                ]  # fmt: skip
                return self.load(encoding, columns, type_)
            except ChdbError as error:
                last = error
        assert last is not None
        raise last

    def load(self, encoding: Encoding, columns: list[Column], type_: str) -> list[list[Any]]:
        reader = {s.name: s.value for s in reader_settings(encoding, columns)}
        reader["session_timezone"] = "UTC"
        structure = read_structure(columns, encoding)
        read = read_as(columns, encoding)
        relation = f"file('{self.file}', '{read.format}', {quote(structure)})"
        schema = Schema(tuple(columns), checks=FileChecks(ends_known=True))
        relation = guarded(schema, encoding, SqlText.of(relation)).reveal()
        relation = f"SELECT {sql.projection(columns)} FROM {relation}"
        return self.rows(relation, type_, sql.settings_clause(reader))


def notation(way: Way, type_: str) -> dict[str, Any]:
    """What the document says of the column of values, as a plan would."""
    made = strict_column(
        "v", "v", type_, way.encoding.kind,
        traits=replace(evidences(way)[0], blank=way.blank),
    ).notation  # fmt: skip
    if made is None:
        return {"time_notation": way.shape}
    found = {"canonical": made.canonical, "blank": made.blank, "padded": made.padded}
    return {"time_notation": way.shape, **found}


def in_utc(type_: str) -> str:
    """The type of a column whose moments are written in UTC."""
    return re.sub(r"'[A-Z][a-z]+/\w+'", "'UTC'", type_)


def evidences(way: Way) -> list[TextTraits]:
    """The stricter one first: what the sample showed is not known here."""
    base = TextTraits(
        shape=way.shape, padded=way.padded, canonical=way.canonical,
        file=FileTraits(native=way.native),
    )  # fmt: skip
    blank = replace(base, blank=True)
    return [blank] if way.blank else [base, blank]


def check(
    side: Side, way: Way, type_: str, values: list[str], found: Counter[str], times: int = 1
) -> list[str]:
    """Differences, as lines."""
    lines = {k: r.encode() for k, t in enumerate(values) if (r := row(way, k, t)) is not None}
    while True:
        data, starts = whole_file(way, lines)
        if way.array and not lines:
            break
        declined = side.decode(way, type_, data)
        if declined is None:
            break
        bad = [k for k, (a, b) in starts.items() if a <= declined["offset"] < b]
        if not bad and way.array:
            bad = [*lines][-1:]  # behind a quote that was never closed
        if not bad:
            return [f"{way.label} {type_}: declined nowhere: {declined}"]
        before = data[: declined["offset"]].count(b"\n") + 1
        if declined["line"] != before and not way.array:
            return [f"{way.label} {type_}: line {declined['line']} is {before}: {declined}"]
        del lines[bad[0]]
        found["declined"] += 1
    found["accepted"] += len(lines)
    if not lines:
        return []
    if wrong := compare(side, way, type_, lines):
        return wrong
    if times > 1:
        many = list(lines.values()) * times
        random.Random(len(many)).shuffle(many)
        found["read again"] += len(many)
        if declined := side.decode(way, type_, whole_file(way, dict(enumerate(many)))[0]):
            return [f"{way.label} {type_}: declined among others: {declined}"]
        return compare(side, way, type_, dict(enumerate(many)))
    return []


def compare(side: Side, way: Way, type_: str, lines: dict[int, bytes]) -> list[str]:
    """Differences between both sides in a file that was just decoded."""
    ours = side.decoded(way, type_)
    try:
        theirs = side.read(way, type_, whole_file(way, lines)[0])
        if ours == theirs:
            return side.differing_text(type_)
    except ChdbError as error:
        if error.code in (43, 46, 47, 62, 115, 386):
            raise
    return single(side, way, type_, lines)


def single(side: Side, way: Way, type_: str, lines: dict[int, bytes]) -> list[str]:
    """The rows that differ, each read by itself."""
    wrong = []
    for line in lines.values():
        line = whole_file(way, {0: line})[0]
        declined = side.decode(way, type_, line)
        ours = [] if declined else side.decoded(way, type_)
        try:
            theirs: Any = side.read(way, type_, line)
        except ChdbError as error:
            theirs = str(error)[:150]
        if ours != theirs and not declined:
            wrong.append(f"{way.label} {type_}: {line!r}: we {ours}, engine {theirs}")
    return wrong or [f"{way.label} {type_}: differs only as a whole file"]


def ways(rng: random.Random) -> list[Way]:
    native, crlf, chunk = rng.random() < 0.5, rng.random() < 0.3, rng.choice([0, 0, 1, 7, 64, 100])
    trim = rng.random() < 0.5
    return [
        Way(CSV, native=native, crlf=crlf, chunk=chunk, trim=trim),
        Way(CSV, native=native, quoted=True, crlf=crlf, chunk=chunk, trim=trim),
        Way(TSV, crlf=crlf, chunk=chunk),
        Way(TSV, crlf=crlf, chunk=chunk, bare=True),
        Way(JSON, crlf=crlf, chunk=chunk),
        Way(JSON, crlf=crlf, chunk=chunk, bare=True),
        Way(JSON, crlf=crlf, chunk=chunk, array=True, bare=native),
        *odd_ways(rng, Way(CSV, native=native, crlf=crlf, chunk=chunk, trim=trim)),
    ]


def odd_ways(rng: random.Random, csv: Way) -> list[Way]:
    """Ways whose notation lets values be blank, have blanks beside them, or be inferred."""

    def some(way: Way) -> Way:
        blank, padded, canonical = (rng.random() < 0.6 for _ in range(3))
        return replace(way, blank=blank, padded=padded, canonical=canonical)

    rest = {"crlf": csv.crlf, "chunk": csv.chunk}
    return [
        some(replace(csv, mixed=True)),
        some(replace(csv, mixed=True, last=True)),
        some(Way(TSV, **rest)),
        some(Way(TSV, bare=True, **rest)),
        replace(some(Way(JSON, **rest)), padded=False),
        replace(some(Way(JSON, bare=True, array=True, **rest)), padded=False),
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--types", default="")
    parser.add_argument("--formats", default="CSV,TSV,JSONEachRow")
    parser.add_argument("--every", type=int, default=1, help="of each type every n-th way only")
    given = parser.parse_args()
    engine, wrong, found = Chdb(), [], Counter()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        side = Side(engine, Path(folder))
        for seed in range(given.first, given.first + given.seeds):
            rng = random.Random(seed)
            for number, type_ in enumerate(TYPES):
                if given.types and not re.search(given.types, type_):
                    continue
                full = type_
                if rng.random() < 0.5 and not type_.startswith("Low"):
                    full = f"Nullable({type_})"
                fixed = [*NUMBERS, *WORDS, *MOMENTS] if seed % 20 == 0 else []
                values = [*texts(rng, type_, given.rows), *fixed]
                for turn, way in enumerate(ways(rng), number):
                    if way.encoding.format not in given.formats.split(",") or turn % given.every:
                        continue
                    moment = type_.startswith("DateTime")
                    shape = rng.choice(["", "T", "Z"]) if moment else ""
                    written = values
                    if shape:
                        written = [v.replace(" ", "T") + shape.replace("T", "") for v in values]
                    written = beside(rng, way, written)
                    turned = replace(way, shape=shape)
                    for line in check(side, turned, full, written, found, given.times):
                        wrong.append(line)
                        print(line, flush=True)
            print(f"seed {seed}: {dict(found)}", file=sys.stderr, flush=True)
    print(dict(found), f"{len(wrong)} differences")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
