"""Arrays, tuples and maps against the engine's own reader, as ``differential.py`` does flat types.

    PYTHONPATH=src:tests python crates/rowfall-decode/tests/nested.py --seeds 20

The types are made up, too: nested up to three times, of every flat type.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from differential import TYPES, Side, Way, check, mutate, value

from rowfall.core.type_names import csv_fields, parse_type
from unit.memory import CSV, JSON, TSV, Chdb

KEYS = [
    "String", "LowCardinality(String)", "UInt8", "Int64", "UInt128", "Date", "UUID",
    "FixedString(3)", "DateTime('UTC')", "IPv4", "Enum8('a' = 1, 'it\\'s' = 2)",
]  # fmt: skip
BARE = ("Int", "UInt", "Float", "Decimal", "Bool")


@dataclass(frozen=True)
class Tree:
    """A type: ``kind`` is Array, Map, Tuple, or "" for a flat one with its name."""

    kind: str
    name: str
    parts: tuple[Tree, ...] = ()
    fields: tuple[str, ...] = ()


def flat(name: str) -> Tree:
    return Tree("", name)


def tree(rng: random.Random, depth: int) -> Tree:
    """A type of at most ``depth`` brackets."""
    kind = rng.choice(["Array", "Array", "Map", "Tuple"]) if depth else ""
    if not kind:
        name = rng.choice(TYPES)
        nullable = rng.random() < 0.4 and not name.startswith("Low")
        return flat(f"Nullable({name})" if nullable else name)
    under = 0 if rng.random() < 0.6 else depth - 1
    if kind == "Array":
        part = tree(rng, under)
        return Tree(kind, f"Array({part.name})", (part,))
    if kind == "Map":
        key, part = flat(rng.choice(KEYS)), tree(rng, under)
        return Tree(kind, f"Map({key.name}, {part.name})", (key, part))
    parts = tuple(tree(rng, rng.choice([0, under])) for _ in range(rng.randint(1, 3)))
    fields = tuple(rng.sample(["a", "b_1", "`c d`", "Tuple", "`\u00e4`"], len(parts)))
    if rng.random() < 0.4:
        return Tree(kind, f"Tuple({', '.join(p.name for p in parts)})", parts)
    inner = ", ".join(f"{f} {p.name}" for f, p in zip(fields, parts, strict=True))
    return Tree(kind, f"Tuple({inner})", parts, tuple(f.strip("`") for f in fields))


class Writer:
    """Writes values of a type as one format has them, now and then not quite."""

    def __init__(self, rng: random.Random, as_json: bool) -> None:
        self.rng, self.json = rng, as_json

    def one_of(self, chance: float) -> bool:
        return self.rng.random() < chance

    def comma(self) -> str:
        return self.rng.choice([",", ",", ",", ", ", " ,", ",  "])

    def write(self, t: Tree) -> str:
        size = self.rng.choice([0, 1, 1, 2, 3, 7])
        if t.kind == "Array":
            return "[" + self.comma().join(self.write(t.parts[0]) for _ in range(size)) + "]"
        if t.kind == "Map":
            colon = self.rng.choice([":", ":", " : "])
            pairs = [self.key(t.parts[0]) + colon + self.write(t.parts[1]) for _ in range(size)]
            return "{" + self.comma().join(pairs) + "}"
        if t.kind == "Tuple":
            return self.tuple(t)
        return self.flat(t.name)

    def apart(self, t: Tree) -> str:
        """The elements of a tuple as fields of CSV."""
        found = []
        for part in t.parts:
            if part.kind == "Tuple":
                found.append(self.apart(part))
                continue
            text = self.write(part) if part.kind else self.text(part.name)
            if not part.kind and "Nullable" in part.name and self.one_of(0.2):
                found.append(self.rng.choice(["", "\\N"]))
            elif self.one_of(0.6) or any(c in text for c in ',"\n\r'):
                found.append('"' + text.replace('"', '""') + '"')
            else:
                found.append(text)
        return ",".join(found)

    def tuple(self, t: Tree) -> str:
        found = [self.write(part) for part in t.parts]
        if self.json and t.fields and not self.one_of(0.02):
            pairs = [f"{json.dumps(f)}:{v}" for f, v in zip(t.fields, found, strict=True)]
            if self.one_of(0.3):
                self.rng.shuffle(pairs)
            if self.one_of(0.03):
                pairs = pairs[1:] if self.one_of(0.5) else [*pairs, pairs[0]]
            return "{" + self.comma().join(pairs) + "}"
        text = self.comma().join(found)
        return f"[{text}]" if self.json else f"({text})"

    def key(self, t: Tree) -> str:
        return self.quote(self.text(t.name)) if self.json else self.flat(t.name)

    def text(self, name: str) -> str:
        text = value(self.rng, parse_type(name))
        return mutate(self.rng, text) if self.one_of(0.02) else text

    def quote(self, text: str) -> str:
        if self.json:
            return json.dumps(text, ensure_ascii=self.one_of(0.5))
        text = text.replace("\\", "\\\\").replace("'", "\\'" if self.one_of(0.98) else "''")
        if self.one_of(0.9):
            text = text.replace("\t", "\\t").replace("\n", "\\n")
        return f"'{text}'"

    def flat(self, name: str) -> str:
        t = parse_type(name)
        if (t.nullable and self.one_of(0.2)) or self.one_of(0.003):
            return "null" if self.json else "NULL"
        bare = t.base.startswith(BARE)
        if self.one_of(0.01):
            bare = not bare
        return self.text(name) if bare else self.quote(self.text(name))


def ways(rng: random.Random, t: Tree) -> list[Way]:
    crlf, chunk = rng.random() < 0.3, rng.choice([0, 0, 1, 7, 64, 100])
    native, trim = rng.random() < 0.5, rng.random() < 0.5
    found = [
        Way(TSV, crlf=crlf, chunk=chunk, bare=True),
        Way(JSON, crlf=crlf, chunk=chunk, bare=True),
    ]
    several = csv_fields(t.name) > 1
    found += [
        Way(CSV, native=native, quoted=True, crlf=crlf, chunk=chunk, trim=trim, whole=several),
        Way(CSV, native=native, crlf=crlf, chunk=chunk, trim=trim, whole=several),
    ]
    if t.kind == "Tuple":
        apart = Way(CSV, native=native, crlf=crlf, chunk=chunk, trim=trim)
        found += [apart, replace(apart, last=True)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--types", type=int, default=10, help="types of a seed")
    parser.add_argument("--kind", default="", help="Array, Map or Tuple; all by default")
    given = parser.parse_args()
    engine, wrong, found = Chdb(), [], Counter[str]()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        side = Side(engine, Path(folder))
        for seed in range(given.first, given.first + given.seeds):
            rng = random.Random(seed)
            for _ in range(given.types):
                t = tree(rng, rng.choice([1, 1, 2, 3]))
                if given.kind not in ("", t.kind):
                    continue
                for way in ways(rng, t):
                    writer = Writer(rng, way.encoding is JSON)
                    apart = way.encoding is CSV and t.kind == "Tuple" and not way.whole
                    write = writer.apart if apart and not way.quoted else writer.write
                    values = [write(t) for _ in range(given.rows)]
                    values = [mutate(rng, v) if rng.random() < 0.1 else v for v in values]
                    for line in check(side, way, t.name, values, found, given.times):
                        wrong.append(line)
                        print(line, flush=True)
            print(f"seed {seed}: {dict(found)}", file=sys.stderr, flush=True)
    print(dict(found), f"{len(wrong)} differences")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
