"""Parts that rowfall-decode makes for the shards of a cluster: rows are where the engine says."""

from __future__ import annotations

import random
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from contract.test_build import SEED, Parts, parts
from contract.test_build_partitions import schema
from rowfall.cluster.sharding_keys import ShardingKey
from rowfall.core.model import Column
from rowfall.core.sqltext import SqlText
from rowfall.decoder import installed
from rowfall.decoder.documents import Input, InputColumn, PartPartition, PartShard, Spec
from rowfall.decoder.process import DecoderProcess
from rowfall.deliver.build import handed_rows
from rowfall.plan import keys, table_definition

__all__ = ["parts"]
ROWS = 3_000
NUMBERS = {
    "u8": ("UInt8", 0, 2**8), "u16": ("UInt16", 0, 2**16), "u32": ("UInt32", 0, 2**32),
    "u64": ("UInt64", 0, 2**64), "i8": ("Int8", -(2**7), 2**7), "i16": ("Int16", -(2**15), 2**15),
    "i32": ("Int32", -(2**31), 2**31), "i64": ("Int64", -(2**63), 2**63),
}  # fmt: skip
COLUMNS = {name: type_ for name, (type_, _, _) in NUMBERS.items()} | {
    "d": "Date", "t": "DateTime", "s": "String", "l": "LowCardinality(String)", "b": "Bool",
}  # fmt: skip
HASHES = ("intHash32", "intHash64", "cityHash64", "sipHash64", "xxHash64")
KEYS = (
    *(name for name in COLUMNS if name not in "dtslb"),
    *(f"{hash_}({name})" for hash_ in HASHES for name in COLUMNS if name not in "slb"),
    *(f"{hash_}({name})" for hash_ in HASHES[2:] for name in "slb"),
    "toYYYYMM(t)", "i64 % 13", "intDiv(i16, 1000)", "toHour(t)", "d", "i8 * 3",
)  # fmt: skip


def rows() -> str:
    chance = random.Random(f"{SEED} shards")
    lines = []
    for _ in range(ROWS):
        numbers = [
            str(chance.choice((low, most - 1, 0, chance.randrange(low, most))))
            for _, low, most in NUMBERS.values()
        ]
        # Each length has a way of its own up to 64.
        text = "".join(chance.choices(string.printable[:62] + " äß", k=chance.randrange(200)))
        day = f"20{chance.randrange(10, 30)}-{chance.randrange(1, 13):02}-17"
        time = f"{day} 13:{chance.randrange(60):02}:01"
        few = (f"k{chance.randrange(90)}", chance.choice(("true", "false")))
        lines.append(",".join((*numbers, day, time, text, *few)))
    return "\n".join([*lines, ""])


@pytest.fixture(scope="module")
def file(parts: Parts) -> Path:
    path = parts._folder / "shards.csv"
    path.write_text(rows())
    return path


def build(parts: Parts, table: str, key: ShardingKey, use: keys.ShardUse, file: Path) -> Path:
    """Make the parts of all shards, as rowfall.deliver.sharded_build does it."""
    folder = parts._folder / f"shards{table}"
    folder.mkdir()
    definition = table_definition.parse(parts.sql(f"SHOW CREATE TABLE {table} FORMAT TSVRaw"))
    assert definition is not None
    shard = PartShard(key.ends, use.hash, use.column, use.used)
    asked = Spec(
        inputs=(Input(str(file)),), format="CSV", trim_strings=False, timezone="UTC", parts=True,
        partition_by=PartPartition((), str(folder / "keys"), hold_bytes=1 << 30, shard=shard),
        layout=table_definition.layout(definition, set(COLUMNS)), block_rows=1_000,
        columns=tuple(
            InputColumn(name, type_, position=n) for n, (name, type_) in enumerate(COLUMNS.items())
        ),
        sort_by=(3,), outputs=(str(folder / "0"), str(folder / "1")),
    )  # fmt: skip

    def answers(question: str, about: Mapping[str, Any]) -> Mapping[str, Any]:
        found = handed_rows(schema(COLUMNS), about, SqlText.of(f"file('{about['file']}'"))
        slots = parts._engine.ask(SqlText.of(f"SELECT {key.slot} FROM (", found, ")"))
        return {"partitions": [["all", "", int(slot)] for (slot,) in slots]}

    child = DecoderProcess(str(installed.program()), asked, answers)
    assert child.wait(60)
    assert child.end()[0] == 0, child.end()
    return folder


@pytest.mark.sampled(6)
@pytest.mark.parametrize("text", KEYS)
def test_rows_are_with_their_shard(parts: Parts, file: Path, text: str) -> None:
    key = ShardingKey("lab", text, (1,) * 7)
    use = keys.shard_use(text, [Column(n, t, source=n) for n, t in COLUMNS.items()])
    assert isinstance(use, keys.ShardUse), use
    table = parts.create(COLUMNS, "u64")
    made = sorted(build(parts, table, key, use, file).glob("*/*.*"))
    seen = 0
    for shard in range(7):
        own = [part for part in made if part.name.startswith(f"{shard}.all_")]
        for number, part in enumerate(own):
            assert not (part / "partition.dat").exists()
            part.rename(parts.place(table) / "detached" / f"all_{number}_{number}_0")
        parts.sql(f"ALTER TABLE {table} ATTACH PARTITION ALL")
        found = parts.sql(f"SELECT count(), countIf({key.condition(shard)}) FROM {table}").split()
        assert found[0] == found[1], (text, shard)
        seen += int(found[0])
        parts.sql(f"TRUNCATE TABLE {table}")
    assert seen == ROWS
    parts.drop(table)


def test_zero_weights_and_heavy_ones(parts: Parts, file: Path) -> None:
    key = ShardingKey("lab", "cityHash64(s)", (3, 0, 1))
    assert key.ends == (3, 3, 4)
    use = keys.shard_use(key.expression, [Column(n, t, source=n) for n, t in COLUMNS.items()])
    assert isinstance(use, keys.ShardUse)
    table = parts.create(COLUMNS, "u64")
    found = {
        part.name.partition(".")[0] for part in build(parts, table, key, use, file).glob("*/*")
    }
    assert found == {"0", "2"}
    parts.drop(table)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("a", "String"), ("intHash64(a)", "String"), ("cityHash64(a)", "Nullable(String)"),
        ("cityHash64(a)", "Decimal(9, 2)"), ("cityHash64(a, a)", "UInt64"), ("a", "UInt128"),
        ("halfMD5(a)", "UInt64"), ("cityHash64(a) % 8", "UInt64"), ("(a, a)", "UInt64"),
    ],
)  # fmt: skip
def test_what_is_declined(text: str, type_: str) -> None:
    found = keys.shard_use(text, [Column("a", type_, source="a")])
    assert found == f"rowfall-decode does not compute the sharding key {text}"
