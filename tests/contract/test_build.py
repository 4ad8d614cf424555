"""Parts that rowfall-decode writes against those that the engine writes of the same rows."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow  # type: ignore[import-untyped]
import pytest

from contract.engines import run
from rowfall.core import sql
from rowfall.decoder import installed
from rowfall.decoder.documents import plain
from rowfall.plan import statements, table_definition
from rowfall.plan.keys import sorting_elements
from rowfall.systems.clickhouse.embedded import Embedded

SEED = int(os.environ.get("ROWFALL_SEED", "1"))
NULL, QUOTE = "\\N", '"'
# Settings of tables that have parts of one kind.
WIDE = ", min_bytes_for_wide_part = 0"
COMPACT = ", min_bytes_for_wide_part = 1000000000"
ROWS = 12_500  # of two granules, in compact parts, too
# Of one statement, the rows in the order of the file.
ONE_BLOCK = {
    "max_threads": 1,
    "max_insert_threads": 1,
    "min_insert_block_size_rows": 10_000_000,
    "min_insert_block_size_bytes": 1_000_000_000,
    "precise_float_parsing": 1,
    "max_partitions_per_insert_block": 0,
    "input_format_parquet_preserve_order": 1,
}
# Random for each part.
OF_ITSELF = {"uuid.txt", "checksums.txt"}
Value = Callable[[random.Random], str]
Columns = Mapping[str, str]
Rows = Sequence[Sequence[str]]


def integer(bits: int, *, signed: bool) -> Value:
    low = -(1 << bits - 1) if signed else 0
    return lambda rng: str(rng.choice((low, low + (1 << bits) - 1, low + rng.getrandbits(bits))))


def decimal(digits: int, scale: int) -> Value:
    def value(rng: random.Random) -> str:
        number = str(rng.randrange(10 ** rng.randint(1, digits))).rjust(scale + 1, "0")
        return f"{rng.choice(('', '-'))}{number[:-scale]}.{number[-scale:]}"

    return value


def string(rng: random.Random) -> str:
    return "".join(rng.choices("abyzAZ019 _-.~éß", k=rng.choice((1, 2, 15, 16, 17, 40, 64, 65))))


def moment(rng: random.Random) -> str:
    days, second = divmod(rng.randrange(129 * 12 * 28 * 86_400), 86_400)
    day = f"{1971 + days // 336}-{days // 28 % 12 + 1:02}-{days % 28 + 1:02}"
    return f"{day} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def uuid(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return "-".join(digits[a:b] for a, b in itertools.pairwise((0, 8, 12, 16, 20, 32)))


# What values of a type look like, and its default.
TYPES: dict[str, tuple[Value, str]] = {
    **{
        f"{'' if signed else 'U'}Int{bits}": (integer(bits, signed=signed), "0")
        for bits in (8, 16, 32, 64, 128, 256)
        for signed in (True, False)
    },
    "Float32": (lambda rng: repr(rng.choice((-1, 1)) * 2.0 ** rng.randint(-100, 100)), "0"),
    "Float64": (lambda rng: rng.choice(("-0.0", repr(rng.uniform(-1e9, 1e9)))), "0"),
    "Decimal(9, 2)": (decimal(9, 2), "0"),
    "Decimal(18, 4)": (decimal(18, 4), "0"),
    "Decimal(38, 10)": (decimal(38, 10), "0"),
    "Decimal(76, 30)": (decimal(76, 30), "0"),
    "Bool": (lambda rng: rng.choice(("true", "false")), "false"),
    "String": (string, ""),
    "FixedString(1)": (lambda rng: rng.choice("abc"), "\0"),
    "FixedString(3)": (lambda rng: "".join(rng.choices("ab~", k=rng.randint(1, 3))), "\0\0\0"),
    "FixedString(40)": (lambda rng: "".join(rng.choices("xyz", k=40)), "\0" * 40),
    "Date": (lambda rng: moment(rng)[:10], "1970-01-01"),
    "Date32": (lambda rng: f"{rng.randint(1900, 2299)}{moment(rng)[4:10]}", "1970-01-01"),
    "DateTime": (moment, "1970-01-01 00:00:00"),
    "DateTime64(3, 'UTC')": (
        lambda rng: f"{moment(rng)}.{rng.randrange(1000):03}",
        "1970-01-01 00:00:00.000",
    ),
    "UUID": (uuid, "00000000-0000-0000-0000-000000000000"),
    "IPv4": (lambda rng: ".".join(str(rng.randrange(256)) for _ in range(4)), "0.0.0.0"),  # noqa: S104
    "IPv6": (lambda rng: ":".join(f"{rng.getrandbits(16):x}" for _ in range(8)), "::"),
    "Enum8('no' = -3, 'none' = 0, 'yes' = 100)": (lambda rng: rng.choice(("no", "yes")), "none"),
    "Enum16('x' = -500, 'y' = 3)": (lambda rng: rng.choice("xy"), "x"),
    "LowCardinality(String)": (lambda rng: f"{rng.randrange(200)} ä", ""),
}


class Parts:
    """A folder of the embedded engine, and tables that are filled in two ways."""

    def __init__(self, engine: Embedded, folder: Path) -> None:
        self._engine = engine
        self._folder = folder
        self._numbers = itertools.count()

    def sql(self, statement: str, **settings: int) -> str:
        """What it gives, a line for each row."""
        found = run(self._engine, statement, format="TabSeparated", settings=settings)
        return found.data.decode().removesuffix("\n")

    def create(
        self,
        columns: Columns,
        key: str,
        settings: str = "",
        codecs: Columns | None = None,
        partition: str = "tuple()",
    ) -> str:
        table = f"t{next(self._numbers)}"
        given = {name: f" CODEC({codec})" for name, codec in (codecs or {}).items()}
        listed = ", ".join(
            f"{sql.name(name)} {type_}{given.get(name, '')}" for name, type_ in columns.items()
        )
        wide = "" if "_wide_part" in settings else WIDE
        self.sql(
            f"CREATE TABLE {table} ({listed}) ENGINE = MergeTree "
            f"PARTITION BY {partition} ORDER BY {key or 'tuple()'} "
            f"SETTINGS assign_part_uuids = 1{wide}{settings}"
        )
        return table

    def file(self, columns: Columns, rows: Rows, format: str = "CSV") -> Path:
        path = self._folder / f"rows{next(self._numbers)}"
        lines = (
            ",".join(row)
            if format == "CSV"
            else json.dumps(dict(zip(columns, map(bare, row), strict=True)))
            for row in rows
        )
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def relation(self, columns: Columns, path: Path, format: str = "CSV") -> str:
        """What reads a file."""
        structure = sql.literal(sql.structure(columns.items()))
        return f"file('{path}', '{format}', {structure})"

    def insert(self, table: str, columns: Columns, path: Path, format: str = "CSV") -> None:
        self.sql(
            f"INSERT INTO {table} SELECT * FROM {self.relation(columns, path, format)}", **ONE_BLOCK
        )

    def written(self, columns: Columns, source: str, format: str, **settings: int) -> Path:
        """A file that the engine writes; in Native with plain strings, as rowfall asks for them."""
        path = self._folder / f"rows{next(self._numbers)}.{format}"
        if format == "Native":
            columns = {name: statements.plain_type(type_) for name, type_ in columns.items()}
        self.sql(
            f"INSERT INTO FUNCTION {self.relation(columns, path, format)} SELECT * FROM {source}",
            **ONE_BLOCK,
            **settings,
        )
        return path

    def build(
        self, table: str, columns: Columns, key: str, paths: Sequence[Path], **spec: Any
    ) -> None:
        """Write parts of files and attach them, as rowfall.deliver.build does it."""
        number = next(self._numbers)
        outputs = [self._folder / f"built{number}_{n}" for n in range(spec.pop("outputs", 1))]
        names: list[str | None] = list(columns)
        listed = sorting_elements(key) if key else []
        found = table_definition.parse(self.sql(f"SHOW CREATE TABLE {table} FORMAT TSVRaw"))
        assert found is not None
        assert table_definition.refusal(found, set(columns)) is None
        codecs = {c.name: table_definition.codecs(c) for c in found.columns}
        document = {
            "version": 2,
            "layout": plain(table_definition.layout(found, set(columns))),
            "inputs": [{"path": str(path)} for path in paths],
            "format": "CSV",
            "null": NULL,
            "trim_strings": False,
            "timezone": "UTC",
            "columns": [
                {"name": name, "position": n, "type": type_, "codecs": codecs[name]}
                for n, (name, type_) in enumerate(columns.items())
            ],
            "sort_by": [names.index(sql.identifier(k)) for k in listed] if listed else None,
            "outputs": [str(output) for output in outputs],
            "parts": True,
            **spec,
        }
        done = subprocess.run(
            [os.environ.get("ROWFALL_DECODE") or str(installed.program()), "run", "--spec", "-"],
            input=json.dumps(document).encode(), capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        parts = sorted(part for output in outputs for part in output.iterdir())
        for n, part in enumerate(parts, 1):
            part.rename(self.place(table) / "detached" / f"all_{n}_{n}_0")
        self.sql(f"ALTER TABLE {table} ATTACH PARTITION tuple()")

    def place(self, table: str) -> Path:
        return Path(self.sql(f"SELECT data_paths[1] FROM system.tables WHERE name = '{table}'"))

    def check(self, table: str) -> list[str]:
        """What CHECK TABLE has against its parts."""
        found = self.sql(f"CHECK TABLE {table}", check_query_single_value_result=0)
        lines = found.splitlines()
        assert lines
        return [line for line in lines if line.split("\t")[1] != "1"]

    def attach_again(self, table: str) -> None:
        """Which leaves a file in its parts."""
        for verb in ("DETACH", "ATTACH"):
            self.sql(f"ALTER TABLE {table} {verb} PARTITION tuple()")

    def part(self, table: str) -> Path:
        """The only part of a table."""
        (part,) = self.sql(
            f"SELECT path FROM system.parts WHERE table = '{table}' AND active"
        ).splitlines()
        return Path(part)

    def contents(self, table: str) -> str:
        """Rows and where they stand."""
        return self.sql(
            f"SELECT count(), sum(cityHash64(rowNumberInAllBlocks(), tuple(*))) FROM {table}",
            max_threads=1,
        )

    def index(self, table: str, key: str) -> list[list[str]]:
        """Granules and their keys."""
        found = self.sql(
            f"SELECT mark_number, rows_in_granule{', ' + key.strip('()') if key else ''} FROM "
            f"mergeTreeIndex(currentDatabase(), {table}) ORDER BY mark_number"
        )
        return [line.split("\t") for line in found.splitlines()]

    def sizes(self, table: str) -> dict[str, str]:
        """Bytes of each column, uncompressed."""
        found = self.sql(
            "SELECT column, column_data_uncompressed_bytes, column_marks_bytes > 0 "
            f"FROM system.parts_columns WHERE table = '{table}' AND active"
        )
        return dict(line.split("\t", 1) for line in found.splitlines())

    def drop(self, *tables: str) -> None:
        for table in tables:
            self.sql(f"DROP TABLE {table} SYNC")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    folder = tmp_path_factory.mktemp("parts")
    engine = Embedded(folder / "data", memory=2 << 30)
    yield Parts(engine, folder)
    engine.close()
    shutil.rmtree(folder)


def unpacked(path: Path) -> bytes:
    """What the compressed blocks of a file hold, as codecs of numbers have made it."""
    return b"".join(blocks(path).values())


def blocks(path: Path) -> dict[int, bytes]:
    """The same for each block, by where it starts."""
    data, at, found = path.read_bytes(), 0, {}
    while at < len(data):
        size = struct.unpack("<I", data[at + 17 : at + 21])[0]
        found[at] = unpacked_block(data[at + 16 : at + 16 + size])
        at += 16 + size
    return found


def unpacked_block(block: bytes) -> bytes:
    """A block with its header: the codec, its size, the size of the text."""
    codec, text, packed = block[0], struct.unpack("<I", block[5:9])[0], block[9:]
    match codec:
        case 0x02:
            return packed
        case 0x82 | 0x90:
            name = "lz4_raw" if codec == 0x82 else "zstd"
            return bytes(pyarrow.decompress(packed, text, name, asbytes=True))
        case 0x91:
            count = packed[0]
            return packed[: count + 1] + unpacked_block(packed[count + 1 :])
    return block


def bare(value: str) -> str | None:
    return None if value == NULL else value.strip(QUOTE)


def marks(path: Path) -> list[tuple[int, int]]:
    """Of each granule where it starts in its block, which is as long as it is, and its rows."""
    found = list(struct.iter_unpack("<QQQ", unpacked(path)))
    assert found.pop()[2] == 0, "the end"
    return [(start, rows) for _, start, rows in found]


def either(*case: object) -> str:
    """Settings for one kind of parts: about half of all cases have each."""
    return (WIDE, COMPACT)[zlib.crc32(f"{SEED} {case}".encode()) % 2]


def is_compact(part: Path) -> bool:
    return any(part.glob("data.cmrk[34]"))


def compact_data(part: Path, loose: Collection[str]) -> tuple[list[bytes], list[int]]:
    """The blocks of a compact part, and its marks with numbers of blocks in place of their starts.

    Args:
        loose: columns whose values do not count, but how many bytes they have.
    """
    found, at = blocks(part / "data.bin"), list[bytes]()
    numbers = {start: number for number, start in enumerate(found)}
    numbers[(part / "data.bin").stat().st_size] = len(found)
    listed = re.findall(r"^`(.*)` ", (part / "columns.txt").read_text(), re.MULTILINE)
    streams = [1] * len(listed)
    (path,) = part.glob("data.cmrk*")
    if path.suffix == ".cmrk4":
        text = (part / "columns_substreams.txt").read_text()
        streams = [int(n) for n in re.findall(r"^(\d+) substreams for", text, re.MULTILINE)]
    packed = unpacked(path)
    words = list(struct.unpack(f"<{len(packed) // 8}Q", packed))
    starts = dict[int, str]()
    for granule in range(0, len(words), 2 * sum(streams) + 1):
        place = granule
        for name, count in zip(listed, streams, strict=True):
            starts.setdefault(words[place], name)
            for _ in range(count):
                words[place] = numbers[words[place]]
                place += 2
    name = ""
    for start, block in found.items():
        name = starts.get(start, name)
        at.append(bytes(len(block)) if name in loose else block)
    return at, words


def kinds(path: Path, *, sampled: bool = False) -> Any:
    """How columns are stored, and their defaults.

    Args:
        sampled: with what the engine says of tuples, by some rows of a block before it is sorted.
    """
    found = json.loads(path.read_text())

    def forget(columns: Iterable[dict[str, Any]]) -> None:
        for column in columns:
            if "subcolumns" in column:
                del column["num_defaults"]
                forget(column["subcolumns"])

    if not sampled:
        forget(found["columns"])
    return found


def dictionaries(part: Path) -> set[str]:
    """The files that say values by the keys of a dictionary, and those of the keys."""
    found = {path.name.removesuffix(".dict.bin") for path in part.glob("*.dict.bin")}
    return {f"{name}{end}" for name in found for end in (".bin", ".dict.bin")}


def compared(
    parts: Parts, columns: Columns, key: str, rows: Rows, *, granules: bool = True,
    format: str = "CSV", codecs: Columns | None = None, settings: str = "",
) -> str:  # fmt: skip
    """Build a part of rows; see :func:`compared_file`."""
    path = parts.file(columns, rows)
    if format != "CSV":
        path = parts.written(columns, parts.relation(columns, path), format)
    table = compared_file(
        parts, columns, key, path, granules=granules, format=format, codecs=codecs,
        settings=settings,
    )  # fmt: skip
    path.unlink()
    return table


def compared_file(
    parts: Parts, columns: Columns, key: str, path: Path, *, granules: bool = True,
    format: str = "CSV", codecs: Columns | None = None, settings: str = "", sampled: bool = False,
) -> str:  # fmt: skip
    """Build a part; assert that it is what the engine writes, to the last byte.

    But for dictionaries: the engine has their values in the order of the key. The table that was
    built is given back.

    Args:
        granules: they are the same, too, and so are dictionaries but for their order.
        format: of the file that both read.
        sampled: so are numbers of tuples that the engine takes from some rows.
    """
    if "_wide_part" not in settings:
        settings += either(columns, key, settings, format)
    ours = parts.create(columns, key, settings, codecs)
    parts.build(ours, columns, key, [path], format=format)
    plain = parts.create(columns, key, settings, codecs)
    parts.insert(plain, columns, path, format)
    parts.attach_again(plain)
    assert parts.check(ours) == []
    mine, other = parts.part(ours), parts.part(plain)
    assert sorted(p.name for p in mine.iterdir()) == sorted(p.name for p in other.iterdir())
    # The engine's readers of columns leave what they please under a NULL of a fixed string.
    typed = format in ("Parquet", "ArrowStream", "Arrow")
    odd = {name for name, type_ in columns.items() if typed and "Nullable(Fixed" in type_}
    low = dictionaries(mine)
    for path_ in mine.iterdir():
        name = path_.name
        if name == "serialization.json":
            assert kinds(path_, sampled=sampled) == kinds(other / name, sampled=sampled)
        elif path_.suffix == ".txt" and name not in OF_ITSELF:
            assert path_.read_text() == (other / name).read_text(), name
        elif path_.suffix == ".cmrk2" and granules:
            assert marks(path_) == marks(other / name), name
        elif name == "data.bin" and is_compact(mine):
            if granules:
                assert compact_data(mine, odd) == compact_data(other, odd)
        elif path_.suffix == ".bin" and name not in low and re.split(r"\.|%2E", name)[0] not in odd:
            assert unpacked(path_) == unpacked(other / name), name
    assert parts.contents(ours) == parts.contents(plain)
    if granules:
        assert parts.index(ours, key) == parts.index(plain, key)
        assert parts.sizes(ours) == parts.sizes(plain)
    parts.drop(plain)
    return ours


def pool(
    rng: random.Random, type_: str, rows: int, defaults: float, nulls: float = 0, some: int = 300
) -> list[str]:
    """Values of a column: some hundred, over and over again."""
    value, default = TYPES[type_]
    others = max(0, 1 - defaults - nulls)
    found = [default, *(value(rng) for _ in range(some if others else 0))]
    if "String" in type_ or "Enum" in type_:  # true and false may not be quoted
        found = [f'"{v}"' for v in found]
    shares = [defaults, nulls, *(others / some for _ in found[1:])]
    # One call: the tests of parts draw some ten million values.
    return rng.choices([found[0], NULL, *found[1:]], shares, k=rows)


def table_of(*columns: Iterable[str]) -> list[tuple[str, ...]]:
    return list(zip(*columns, strict=True))


def count(parts: Parts, table: str, condition: str, **settings: int) -> str:
    return parts.sql(f"SELECT count() FROM {table} WHERE {condition}", **settings)


def assert_found(parts: Parts, table: str, condition: str) -> None:
    """The primary key finds what a look at all rows finds."""
    found = count(parts, table, condition, force_primary_key=1)
    assert found == count(parts, table, condition, use_primary_key=0), condition


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.sampled
def test_a_key_of_every_type(type_: str, parts: Parts) -> None:
    rng = random.Random(f"{SEED} {type_}")
    columns = {"k": type_, "n": "UInt32"}
    keys = pool(rng, type_, ROWS, defaults=0.2, some=ROWS)
    table = compared(parts, columns, "k", table_of(keys, map(str, range(ROWS))))
    for key in rng.sample(keys, 3):
        literal = f"CAST($${key.strip(QUOTE)}$$, $${type_}$$)"
        for comparison in ("=", "<=", ">"):
            assert_found(parts, table, f"k {comparison} {literal}")
    parts.drop(table)


@pytest.mark.parametrize(
    "types",
    [
        ("Int16", "String", "Date"),
        ("LowCardinality(String)", "Float64", "FixedString(3)"),
        ("Bool", "Enum8('no' = -3, 'none' = 0, 'yes' = 100)", "Int8"),
        ("Decimal(9, 2)", "DateTime", "Float32"),
    ],
    ids=str,
)
def test_keys_of_several_columns(types: Sequence[str], parts: Parts) -> None:
    rng = random.Random(f"{SEED} {types}")
    columns = {**dict(zip("abc", types, strict=True)), "n": "UInt32", "s": "String"}
    keys = [rng.choices(pool(rng, t, 9, defaults=0.2), k=ROWS) for t in types]
    rows = table_of(*keys, map(str, range(ROWS)), pool(rng, "String", ROWS, defaults=0.2))
    table = compared(parts, columns, "(a, b, c)", rows)
    for row in rng.sample(rows, 3):
        a, b, c = (f"CAST($${v.strip(QUOTE)}$$, $${t}$$)" for v, t in zip(row, types, strict=False))
        for condition in (
            f"a = {a} AND b = {b} AND c = {c}", f"a = {a} AND b > {b}", f"a = {a} AND c < {c}",
            f"a BETWEEN {a} AND {a} AND b >= {b}",
        ):  # fmt: skip
            assert_found(parts, table, condition)
    parts.drop(table)


def wide(
    rng: random.Random, types: Iterable[str], rows: int
) -> tuple[dict[str, str], list[tuple[str, ...]]]:
    """Two columns that may be keys, and of each type: one with all kinds of values, one with few
    that are no defaults, one of defaults only; some NULL, none, nothing else.
    """
    columns = {"a": "Int32", "b": "String"}
    values = [pool(rng, type_, rows, defaults=0.2) for type_ in columns.values()]
    for number, type_ in enumerate(types):
        low = type_.startswith("Low")
        nullable = "LowCardinality(Nullable(String))" if low else f"Nullable({type_})"
        for name, kind, defaults, nulls in (
            ("some", type_, 0.3, 0), ("few", type_, 0.97, 0), ("none", type_, 1, 0),
            ("nulls", nullable, 0.3, 0.3), ("full", nullable, 0.3, 0), ("empty", nullable, 0, 1),
        ):  # fmt: skip
            columns[f"{name}_{number}"] = kind
            values.append(pool(rng, type_, rows, defaults, nulls))
    return columns, table_of(*values)


@pytest.mark.parametrize(
    ("key", "kind"), [("", WIDE), ("(b, a)", COMPACT), ("", COMPACT), ("(b, a)", WIDE)]
)
@pytest.mark.sampled(2)
def test_columns_of_every_type(key: str, kind: str, parts: Parts) -> None:
    columns, rows = wide(random.Random(f"{SEED} {key}"), TYPES, 9_000)
    parts.drop(compared(parts, columns, key, rows, settings=kind))


@pytest.mark.parametrize("ratio", ["0", "0.5", "0.9", "0.9375", "0.99", "1"])
@pytest.mark.parametrize("key", ["", "(b, a)", "d95"])
@pytest.mark.sampled(3)
def test_sparse_columns(key: str, ratio: str, parts: Parts) -> None:
    """Of every share of defaults, also in the key, in runs, and with codecs of numbers."""
    rng = random.Random(f"{SEED} {key} {ratio}")
    rows = ROWS
    columns, values, codecs = {"a": "Int32", "b": "String"}, [], {}
    values = [pool(rng, type_, rows, 0.95) for type_ in columns.values()]
    for share in (0, 0.4, 0.5, 0.85, 0.9, 0.93, 0.9375, 0.94, 0.95, 0.98, 0.99, 0.9999, 1):
        name = f"{share:g}".replace("0.", "")
        others = {n for n in range(rows) if n >= round(share * rows)}
        for kind, type_, codec in (("d", "Int64", ""), ("c", "UInt32", "Delta(4), ZSTD(1)")):
            columns[f"{kind}{name}"] = type_
            mixed = rng.sample(range(rows), rows) if kind == "d" else range(rows)
            values.append([str(n + 1 if n in others else 0) for n in mixed])
            if codec:
                codecs[f"{kind}{name}"] = codec
    settings = f", ratio_of_defaults_for_sparse_serialization = {ratio}"
    for more in ("", ", index_granularity = 100, min_compress_block_size = 100"):
        table = compared(
            parts, columns, key, table_of(*values), codecs=codecs, settings=settings + more
        )
        for condition in (
            "a = 0", "a > 5", "b = ''", "b != ''", "d95 = 0", "c98 > 5", "d1 = 0", "c1 != 0",
            "d9999 > 0", f"d95 = {rows}",
        ):  # fmt: skip
            found = count(parts, table, condition)
            assert found == count(parts, table, f"identity({condition})", use_primary_key=0)
        parts.insert(table, columns, parts.file(columns, table_of(*values)))
        parts.sql(f"OPTIMIZE TABLE {table} FINAL")
        assert parts.check(table) == []
        parts.drop(table)


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("nulls", [0, 0.3, 1])
@pytest.mark.sampled(6)
def test_keys_that_may_be_null(type_: str, nulls: float, parts: Parts) -> None:
    """As the first column of a key, where whole granules have NULL, and behind another one."""
    rng = random.Random(f"{SEED} {type_} {nulls}")
    low = type_.startswith("Low")
    nullable = "LowCardinality(Nullable(String))" if low else f"Nullable({type_})"
    columns = {"k": nullable, "n": "UInt8", "s": "String"}
    few = [str(n % 3) for n in range(9_000)]
    values = pool(rng, type_, 9_000, 0.3 if nulls < 1 else 0, nulls, some=30)
    rows = table_of(values, few, pool(rng, "String", 9_000, defaults=0.3))
    for key in ("(k, n)", "(n, k)", "k"):
        parts.drop(compared(parts, columns, key, rows, settings=", allow_nullable_key = 1"))


NAMES = (
    "a b", "1st", "per cent %", "a.b", "a-b/c", "\u00e4\u00f6\u00fc\u00df", "\U0001f600",
    "back`tick", "back\\slash", "key 0", "quo'te", 'dou"ble', "x" * 115, "x" * 119, "y" * 122,
    "y" * 127, "z" * 128, "z" * 250, "\u00fc" * 21, "\u00fc" * 22, "select", "tab,ular", "(x)",
)  # fmt: skip


@pytest.mark.parametrize("key", ["", "(`a b`, `\u00e4\u00f6\u00fc\u00df`)", "`tab,ular`"])
def test_names_of_columns(key: str, parts: Parts) -> None:
    """Every name with flat and nested values: files of escaped names, and hashes of long ones."""
    rng = random.Random(f"{SEED} {key}")
    types = ("UInt32", "String", "LowCardinality(String)")
    for turn in (1, len(types)):
        columns, values = {}, []
        for number, name in enumerate(NAMES, turn):
            # The files of dictionaries are told by their names, and those of long ones are hashes.
            type_ = types[number % (2 if len(name.encode()) > 40 else 3)]
            values.append(pool(rng, type_, 9_000, rng.choice((0.3, 0.97))))
            columns[name] = type_
            if turn == len(types) and "." not in name and name not in key:
                columns[name] = "Array(Tuple(`\u20ac-` String, `b c` Nullable(UInt8)))"
                values[-1] = [rng.choice(('"[]"', "\"[('x',1),('',NULL)]\"")) for _ in range(9_000)]
        table = compared(parts, columns, key, table_of(*values))
        parts.insert(table, columns, parts.file(columns, table_of(*values)))
        parts.sql(f"OPTIMIZE TABLE {table} FINAL")
        assert parts.check(table) == []
        parts.drop(table)


def test_a_dictionary_with_a_long_name(parts: Parts) -> None:
    columns = {"k": "UInt32", "x" * 125: "LowCardinality(String)"}
    path = parts.file(columns, [(str(n), f"v{n % 50}") for n in range(9_000)])
    ours, theirs = parts.create(columns, "k"), parts.create(columns, "k")
    parts.build(ours, columns, "k", [path])
    parts.insert(theirs, columns, path)
    parts.attach_again(theirs)
    mine, other = ({p.name for p in parts.part(table).iterdir()} for table in (ours, theirs))
    assert mine == other
    assert parts.check(ours) == []
    assert parts.contents(ours) == parts.contents(theirs)
    parts.drop(ours, theirs)


@pytest.mark.parametrize("order", ["sorted", "backwards", "equal"])
def test_orders_of_rows(order: str, parts: Parts) -> None:
    """Also those that need no sorting at all, and the rows of exactly two granules."""
    rng = random.Random(f"{SEED} {order}")
    numbers = [str(7 if order == "equal" else n) for n in range(16_384)]
    rows = table_of(
        numbers[:: -1 if order == "backwards" else 1],
        pool(rng, "String", 16_384, defaults=0.3),
        pool(rng, "Float64", 16_384, defaults=0.3),
    )
    columns = {"k": "UInt32", "s": "Nullable(String)", "f": "Float64"}
    parts.drop(compared(parts, columns, "k", rows))


LONG = (0, 1, 127, 128, 129, 130, 16_383, 16_384, 16_386, 70_000, 1 << 20, (1 << 21) - 1, 1 << 21)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", ["", "k"])
def test_strings_of_all_lengths(key: str, parts: Parts) -> None:
    rng = random.Random(f"{SEED} {key}")
    lengths = [*LONG, 3_000_000, *rng.choices(LONG[:9], k=3000)]
    rng.shuffle(lengths)
    texts = [rng.choice("abcxyz") * n for n in lengths]
    rows = table_of(
        (str(rng.randrange(100)) for _ in texts),
        texts,
        (rng.choice((NULL, f'"{t}"')) for t in texts),
        (t if len(t) < 20_000 else "long" for t in texts),
    )
    columns = {
        "k": "Int32", "s": "String", "n": "Nullable(String)",
        "l": "LowCardinality(String)",
    }  # fmt: skip
    for kind in (WIDE, COMPACT):
        parts.drop(compared(parts, columns, key, rows, settings=kind))


@pytest.mark.parametrize("rows", [1, 8_191, 8_193, 12_287, 12_288, 16_384, 20_479, 20_480])
def test_the_last_granule(rows: int, parts: Parts) -> None:
    """Of a compact part it has more rows, where few would be left for one more."""
    columns = {"k": "UInt32", "s": "LowCardinality(String)"}
    lines = [(str(n * 7919 % 30_011), f"v{n % 300}") for n in range(rows)]
    parts.drop(compared(parts, columns, "k", lines, settings=COMPACT))


SIZED: dict[str, Callable[[int], str]] = {
    "UInt32": lambda n: str(n),
    "String": lambda n: f'"{"x" * (n % 700)}"',
    "Nullable(String)": lambda n: NULL if n % 3 else "y" * 20_000,
    "LowCardinality(String)": lambda n: f"v{n % 300}",
    "LowCardinality(Nullable(String))": lambda n: f"v{n % 200}" if n % 5 else NULL,
    "Array(String)": lambda n: f'"{["ab" * 70] * (n % 4)}"',
}


def kind(parts: Parts, type_: str, path: Path, settings: str, *, built: bool) -> str:
    """The kind of a part that is built or inserted."""
    columns = {"k": type_}
    table = parts.create(columns, "", settings)
    if built:
        parts.build(table, columns, "", [path])
    else:
        parts.insert(table, columns, path)
    found = parts.sql(f"SELECT part_type FROM system.parts WHERE table = '{table}'")
    parts.drop(table)
    return found


@pytest.mark.parametrize("type_", SIZED)
def test_the_kind_is_the_engines(type_: str, parts: Parts) -> None:
    """By bytes, of which a table may ask for one more than a block has, by rows, and by levels."""
    value = SIZED[type_]
    path = parts.file({"k": type_}, [(value(n),) for n in range(1_000)])
    low, high = 0, 1 << 24
    while high - low > 1:
        middle = (low + high) // 2
        asked = f", min_bytes_for_wide_part = {middle}"
        wide = kind(parts, type_, path, asked, built=False) == "Wide"
        low, high = (middle, high) if wide else (low, middle)
    for settings, wanted in (
        (f", min_bytes_for_wide_part = {low}", "Wide"),
        (f", min_bytes_for_wide_part = {high}", "Compact"),
        (f"{WIDE}, min_rows_for_wide_part = 1000", "Wide"),
        (f"{WIDE}, min_rows_for_wide_part = 1001", "Compact"),
        (f"{WIDE}, min_level_for_wide_part = 1", "Compact"),
    ):
        found = [kind(parts, type_, path, settings, built=built) for built in (True, False)]
        assert found == [wanted] * 2, settings


def test_granules_of_long_rows(parts: Parts) -> None:
    """They have as many rows as the engine's."""
    rng = random.Random(SEED)
    texts = ["x" * rng.randrange(6000) for _ in range(100)]
    columns = {"k": "Int32", "s": "String"}
    rows = [(str(rng.randrange(10**6)), rng.choice(texts)) for _ in range(16_000)]
    ours = compared(parts, columns, "k", rows, granules=False)
    theirs = parts.create(columns, "k")
    parts.insert(theirs, columns, parts.file(columns, rows))
    mine, other = ([int(r) for _, r, *_ in parts.index(t, "k")] for t in (ours, theirs))
    assert len(mine) == len(other) > 3
    assert mine == other
    for key, _ in rng.sample(rows, 5):
        assert_found(parts, ours, f"k = {key}")
    parts.drop(ours, theirs)


@pytest.mark.parametrize("type_", ["LowCardinality(String)", "LowCardinality(Nullable(String))"])
@pytest.mark.parametrize("values", [3, 254, 255, 256, 8_190, 8_191, 8_192, 8_193, 15_000])
@pytest.mark.parametrize("format", ["CSV", "Parquet"])
@pytest.mark.sampled(3)
def test_dictionaries(type_: str, values: int, format: str, parts: Parts) -> None:
    """Of a whole part, or of each granule; read as a whole and from the middle."""
    rng = random.Random(f"{SEED} {type_} {values}")
    columns = {"k": "Int32", "v": type_}
    texts = [*(f"value {n}" for n in range(values)), *([NULL] if "Null" in type_ else [])]
    found = [*texts, *rng.choices(texts, k=30_000 - len(texts))]
    rng.shuffle(found)
    rows = table_of((str(rng.randrange(5000)) for _ in found), found)
    ours = compared(parts, columns, "k", rows, granules=False, format=format, settings=WIDE)
    theirs = parts.create(columns, "k")
    parts.insert(theirs, columns, parts.file(columns, rows))
    mine, other = (unpacked(parts.part(t) / "v.dict.bin") for t in (ours, theirs))
    keys = len({"", *texts} | ({NULL} if "Null" in type_ else set()))
    assert len(mine) == (len(other) if keys <= 8_192 else 8)
    some = rng.sample(texts, 3)
    for query in (
        "SELECT count(), uniqExact(v), sum(cityHash64(v)) FROM {}",
        f"SELECT k, v FROM {{}} WHERE k = {rows[5][0]} ORDER BY ALL",
        f"SELECT count() FROM {{}} WHERE k > 3000 AND v = '{some[0]}'",
        f"SELECT sum(k) FROM {{}} PREWHERE v IN ('{some[0]}', '{some[1]}', '{some[2]}')",
        "SELECT count(), sum(k) FROM {} WHERE isNull(v) OR v = ''",
        "SELECT sum(cityHash64(v)) FROM (SELECT v FROM {} LIMIT 900 OFFSET 20000)",
        "SELECT sum(cityHash64(v)) FROM (SELECT DISTINCT v FROM {} WHERE k > 2500)",
        "SELECT v, count() FROM {} WHERE k BETWEEN 1000 AND 1500 GROUP BY v ORDER BY ALL",
    ):
        answers = [parts.sql(query.format(t), max_threads=1) for t in (ours, theirs)]
        assert answers[0] == answers[1], query
    parts.drop(ours, theirs)


# Codecs, and the types of a column that takes them.
CODECS = {
    "NONE": ["String", "UInt64", "LowCardinality(String)", "Nullable(Int8)"],
    "ZSTD(1)": ["String", "Float64", "LowCardinality(String)", "Nullable(FixedString(40))"],
    "ZSTD(9)": ["Nullable(String)", "UUID"],
    "ZSTD(3, 20)": ["String", "LowCardinality(String)", "Nullable(UInt64)"],
    "ZSTD(1, 0)": ["UInt64"],
    "LZ4HC": ["String", "Nullable(UInt64)"],
    "LZ4HC(12)": ["LowCardinality(String)", "UUID"],
    "Delta(4), LZ4HC(3)": ["Int32", "Nullable(DateTime)"],
    "DoubleDelta, ZSTD(3, 22)": ["UInt64"],
    "Default": ["Int32"],
    "Delta, LZ4": ["Int8", "UInt16", "Nullable(Int32)", "UInt64", "Decimal(18, 4)", "Date32"],
    "Delta(8), ZSTD(1)": ["UInt8", "Float32"],
    "Delta(4), Default": ["DateTime64(3, 'UTC')"],
    "DoubleDelta": ["Int8", "UInt16", "Int32", "UInt64", "Int64", "DateTime", "Nullable(Date)"],
    "DoubleDelta, ZSTD(1)": ["Nullable(DateTime64(3, 'UTC'))", "Enum16('x' = -500, 'y' = 3)"],
    "Gorilla": ["Float32", "Float64", "Nullable(Float64)"],
    "Gorilla, LZ4": ["Float32", "Float64"],
    "T64": [
        "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Date", "Date32",
        "DateTime", "DateTime64(3, 'UTC')", "Decimal(9, 2)", "Decimal(18, 4)", "IPv4", "Bool",
        "Enum8('no' = -3, 'none' = 0, 'yes' = 100)", "Enum16('x' = -500, 'y' = 3)",
    ],
    "T64('bit'), ZSTD(1)": ["Nullable(Int16)", "UInt64", "Int64", "Nullable(DateTime)"],
    "T64, LZ4": ["Int32", "Bool"],
}  # fmt: skip


def test_codecs_and_sizes_of_blocks(parts: Parts) -> None:
    """Values at random, in order, and all the same: 9,003, so that granules are not filled."""
    rng, rows = random.Random(SEED), 9_003
    columns, codecs = {"k": "UInt32"}, {"k": "Delta(4), LZ4"}
    values = [[str(n * 3 % 500_009) for n in range(rows)]]
    for codec, types in CODECS.items():
        for type_ in types:
            flat = type_.removeprefix("Nullable(").removesuffix(")") if type_[0] == "N" else type_
            some = pool(rng, flat, rows, 0.2, 0.2 * (flat != type_))
            shapes = [some, sorted(some), [some[0]] * rows]
            for shape in shapes if codec[0] in "DGT" else shapes[:1]:
                columns[f"c{len(columns)}"] = type_
                codecs[f"c{len(codecs)}"] = codec
                values.append(shape)
    sizes = ", min_compress_block_size = 5000, max_compress_block_size = 30000"
    for key, settings in (("k", ""), ("", f"{sizes}, index_granularity = 1000")):
        table = compared(
            parts, columns, key, table_of(*values), codecs=codecs, settings=settings,
            granules=not settings,
        )  # fmt: skip
        for verb in ("insert", "merge"):
            if verb == "insert":
                parts.insert(table, columns, parts.file(columns, table_of(*values)))
            else:
                parts.sql(f"OPTIMIZE TABLE {table} FINAL")
            assert parts.check(table) == []
        parts.drop(table)


def test_they_merge_with_the_engines_parts(parts: Parts) -> None:
    rng = random.Random(SEED)
    columns, rows = wide(rng, list(TYPES)[::3], 9_000)
    ours, theirs = parts.create(columns, "a"), parts.create(columns, "a")
    for turn, some in enumerate((rows[:5000], rows[5000:])):
        path = parts.file(columns, some)
        parts.insert(theirs, columns, path)
        if turn:
            parts.insert(ours, columns, path)
        else:
            parts.build(ours, columns, "a", [path])
    for table in (ours, theirs):
        parts.sql(f"OPTIMIZE TABLE {table} FINAL")
        assert parts.check(table) == []
    assert parts.contents(ours) == parts.contents(theirs)
    query = (
        "SELECT column, serialization_kind, column_data_uncompressed_bytes "
        "FROM system.parts_columns WHERE table = '{}' AND active ORDER BY column"
    )
    mine, other = (parts.sql(query.format(table)) for table in (ours, theirs))
    assert mine == other
    assert mine.count("Sparse") > len(TYPES) / 3
    parts.drop(ours, theirs)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("more", [1, 12], ids=["narrow", "wide"])
@pytest.mark.parametrize("format", ["CSV", "JSONEachRow"])
def test_blocks_and_outputs(format: str, more: int, parts: Parts) -> None:
    """Of several files: no row is lost, and each part is in order."""
    rng = random.Random(f"{SEED} {format} {more}")
    types = {"k": "Int32", "s": "String", **{f"n{n}": "Int64" for n in range(more)}}
    columns = {n: f"Nullable({t})" if t == "Int64" else t for n, t in types.items()}
    paths = []
    unmerged = ", max_bytes_to_merge_at_max_space_in_pool = 1"
    ours, theirs = parts.create(columns, "(s, k)", unmerged), parts.create(columns, "(s, k)")
    for _ in range(3):
        values = (pool(rng, t, ROWS, 0.1, 0.1 * (t == "Int64")) for t in types.values())
        rows = table_of(*values)
        paths.append(parts.file(columns, rows, format))
        parts.insert(theirs, columns, paths[-1], format)
    parts.build(ours, columns, "(s, k)", paths, format=format, outputs=2, block_rows=2700)
    assert parts.check(ours) == []
    whole = "SELECT count(), sum(cityHash64(*)) FROM {}"
    assert parts.sql(whole.format(ours)) == parts.sql(whole.format(theirs))
    sizes = parts.sql(f"SELECT rows FROM system.parts WHERE table = '{ours}' AND active").split()
    assert len(sizes) >= 10
    assert max(map(int, sizes)) == 2700
    unsorted = (
        "SELECT countIf((s, k) < before) FROM (SELECT s, k, lagInFrame((s, k), 1, (s, k)) "
        f"OVER (PARTITION BY _part ORDER BY _part_offset) AS before FROM {ours})"
    )
    assert parts.sql(unsorted) == "0"
    parts.drop(ours, theirs)


@pytest.mark.parametrize(
    ("kind", "files"),
    [(WIDE, ("k.bin", "s.bin", "s.size.bin", "s.cmrk2")), (COMPACT, ("data.bin", "data.cmrk4"))],
)
def test_a_changed_byte_is_found(kind: str, files: Sequence[str], parts: Parts) -> None:
    columns = {"k": "Int32", "s": "String"}
    rows = [(str(n), "some text") for n in range(20_000)]
    table = compared(parts, columns, "k", rows, settings=kind)
    part = parts.part(table)
    for name in (*files, "primary.cidx", "count.txt", "serialization.json", "uuid.txt"):
        sound = (part / name).read_bytes()
        changed = bytearray(sound)
        changed[len(sound) // 2] ^= 1
        (part / name).write_bytes(changed)
        assert parts.check(table), name
        (part / name).write_bytes(sound)
        assert parts.check(table) == []
    parts.drop(table)
