"""The documents of rowfall-decode: each shape of them is fed to the program, which repeats it."""

from __future__ import annotations

import gzip
import json
import subprocess
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from rowfall.core.masked import MASK, Secret
from rowfall.core.model import Dialect
from rowfall.decoder import documents, installed
from rowfall.decoder.documents import (
    ArrowOutput,
    BlockInput,
    ComputedKeys,
    Input,
    InputColumn,
    KeyColumn,
    KeyExpression,
    OutputConnection,
    PartLayout,
    PartMerge,
    PartPartition,
    PartShard,
    RewriteRequest,
    SampleRequest,
    Spec,
    encode,
)
from rowfall.decoder.sampling import measure

FOREIGN = Dialect(
    charset="windows-1252", delimiter=";", quote="'", escape="\\", comment="#", comment_found=True,
    skip_lines=1, nulls=("NA",), decimal=",", thousands=".", numbers=(0,),
    dates=((1, "dmy"), (2, "mdy")), missing=((2, ("n/a", "?")),), trailing=True, header=("a", "b"),
    trim=True, columns=3, fill=True, skip_blank=True,
)  # fmt: skip
PLAIN = Spec((Input("a.csv"),), "CSV", (InputColumn("a", "UInt8", position=0),), ("-",))
NAMED = replace(PLAIN, format="CSVWithNames")
PARTS = replace(PLAIN, parts=True)
USED = (KeyColumn(0), KeyColumn(0, floor=3), KeyColumn(0, modulo=4), KeyColumn(0, divide=5))
BLOCK = BlockInput(0, 9, "pool", 7, 1001, ("host:9866", "other:9866"))
OBJECT = Input(
    "s3://bucket/a.csv", uri="a.csv", url=Secret("http://127.0.0.1/a.csv?signed"),
    headers={"Authorization": Secret("who")}, size=9, version="1",
)  # fmt: skip
TIME, NUMBER = InputColumn("a", "DateTime", position=0), InputColumn("b", "Int64", position=1)

SPECS = {
    "plain": PLAIN,
    "object": replace(NAMED, inputs=(OBJECT,)),
    "hdfs": replace(NAMED, inputs=(replace(OBJECT, by_query=True, blocks=(BLOCK,)),)),
    "range": replace(PLAIN, inputs=(Input("a.csv", start=5, stop=10, size=20),)),
    "text": replace(
        PLAIN, compression="gzip", delimiter=";", null="\\N", trim_strings=False, trailing=True,
        tuples="value", allow_line_breaks=True, binary=True, unknown="skip", file_columns=2,
        skip_header=True, timezone="Europe/Berlin", block_rows=7, block_bytes=99, progress_ms=250,
        read_ahead=True, chunk_bytes=100, record_bytes=77, memory_bytes=1 << 30, simd="scalar",
    ),
    "notations": replace(
        PLAIN, timezone="UTC",
        columns=(
            TIME, replace(TIME, name="t", time_notation="T"),
            replace(TIME, name="z", time_notation="Z"), replace(NUMBER, canonical=True),
            replace(NUMBER, name="n", type="Nullable(Int64)", blank=True, padded=True),
            InputColumn("c", "String", source="other", position=3, codecs=("Delta(1)", "ZSTD(3)")),
        ),
    ),
    "foreign": replace(PLAIN, dialect=FOREIGN),
    "access log": replace(PLAIN, dialect=Dialect(lines=("combined",))),
    "fixed widths": replace(PLAIN, dialect=Dialect(lines=("widths", "3", "4"))),
    "amounts": replace(PLAIN, dialect=Dialect(units=((0, "%"), (1, "")), ruled=True)),
    "foreign dates": replace(PLAIN, dialect=Dialect(dates=((0, "ymd"),))),
    "rows of PostgreSQL": replace(PLAIN, format="PostgreSQL", input_types=("int4",)),
    "lz4": replace(PLAIN, output_compression="lz4", sort_by=(0,)),
    "binary": replace(
        PLAIN, output_format="PostgreSQL binary", output_types=("int2",),
    ),
    "parameters": replace(PLAIN, output_format="MariaDB", output_texts=(0,)),
    "connection": replace(
        PLAIN, output_format="MySQL", output_connection=OutputConnection(7, 1, 1 << 20, 1 << 26)
    ),
    "Arrow": replace(
        PLAIN, output_format="ArrowStream", output_arrow=ArrowOutput(skip_rows=3)
    ),
    "parts": replace(
        PARTS, sort_by=(0, 1), primary=1,
        computed=ComputedKeys("values", (KeyExpression("UInt16", USED),)),
        partition_by=PartPartition(USED, "keys", max_partitions=100, hold_bytes=1 << 20),
        layout=PartLayout(
            granule_rows=1, granule_bytes=2, min_block=3, max_block=4, sparse_above=0.5,
            strings="inline_typed", wide_bytes=5, wide_rows=6, substream_marks=False,
        ),
    ),
    "shards by a hash": replace(
        PARTS, columns=(TIME, NUMBER), timezone="UTC",
        partition_by=PartPartition((), "keys", shard=PartShard((3, 4), "cityHash64", 1)),
    ),
    "shards by a number": replace(
        PARTS, partition_by=PartPartition((), "keys", shard=PartShard((2,), "")),
    ),
    "shards that are asked for": replace(
        PARTS, partition_by=PartPartition((), "keys", shard=PartShard((1, 3), columns=USED)),
    ),
    "strings inline": replace(PARTS, layout=PartLayout(strings="inline")),
    "merged": replace(PARTS, merge=PartMerge(1 << 20, "rows", 1 << 16)),
}  # fmt: skip


def whole(value: Any) -> Any:
    """A document with all that it says, defaults too."""
    if hasattr(value, "__dataclass_fields__"):
        found = {field.name: whole(getattr(value, field.name)) for field in fields(value)}
        if "headers" in found:
            found["headers"] = found["headers"] or {}  # which is None where there are none
        return found
    if isinstance(value, tuple):
        return [whole(item) for item in value]
    if isinstance(value, Secret):
        return MASK
    return {k: whole(v) for k, v in value.items()} if hasattr(value, "items") else value


def check(text: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [str(installed.program()), "check", "--spec", "-"],
        input=text.encode(), capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_program_repeats_a_spec(spec: Spec) -> None:
    """Field for field, also those that were left out because both sides have the same default."""
    code, said = check(encode(spec))
    assert (code, said["reasons"]) == (0, [])
    assert said["spec"] == whole(spec)


def values(kind: type) -> dict[str, set[str]]:
    """What the fields of a document are in all specs above, and those of what it holds."""
    found: dict[str, set[str]] = {field.name: set() for field in fields(kind)}

    def walk(value: Any) -> None:
        if isinstance(value, kind):
            for name in found:
                found[name].add(repr(getattr(value, name)))
        for inner in (
            [getattr(value, f.name) for f in fields(value)]
            if hasattr(value, "__dataclass_fields__")
            else value
            if isinstance(value, tuple)
            else ()
        ):
            walk(inner)

    for spec in SPECS.values():
        walk(spec)
    return found


KINDS = (Spec, Input, BlockInput, InputColumn, KeyColumn, PartPartition, PartShard, PartLayout,
         Dialect)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_field_and_word_of_a_document_is_tried(kind: type) -> None:
    for name, seen in values(kind).items():
        default = next(f.default for f in fields(kind) if f.name == name)
        if name == "version" and kind is Spec:
            continue
        assert seen - {repr(default)}, f"{kind.__name__}.{name} is at its default everywhere"
    for name, hint in get_type_hints(kind).items():
        words = [word for word in get_args(hint) if isinstance(word, str)]
        assert {repr(word) for word in words} <= values(kind)[name]


def test_a_word_that_the_program_lacks_is_refused() -> None:
    text = encode(PLAIN).replace('"columns"', '"trim": true, "columns"')
    code, said = check(text)
    assert code == installed.ProgramExit.REFUSED
    with pytest.raises(installed.UsageError, match="the word 'trim' of a spec"):
        installed.check_known(said["reasons"][0])
    code, said = check(encode(replace(PLAIN, version=documents.VERSION - 1)))
    assert code == installed.ProgramExit.REFUSED
    with pytest.raises(installed.UsageError, match="does not know version"):
        installed.check_known(said["reasons"][0])


def test_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,x\n2,y\n3,z\n")
    columns = (InputColumn("a", "String", position=0), InputColumn("b", "String", position=1))
    spec = replace(PLAIN, inputs=(Input(str(path)),), columns=columns)
    found = measure(str(installed.program()), SampleRequest(spec, rows=2, more="9,w\n"))
    assert found is not None
    assert (found.rows, found.columns[0]["integers"], found.columns[0]["high"]) == (3, 3, "9")


def test_a_sample_for_another_version(tmp_path: Path) -> None:
    path = tmp_path / "older"
    said = "only version 1 of the spec is known"
    path.write_text(f"#!/bin/sh\necho '{said}' >&2; exit 2\n")
    path.chmod(0o700)
    with pytest.raises(installed.UsageError, match="does not know version 2 of a spec"):
        measure(str(path), SampleRequest(PLAIN, rows=2))


def test_a_rewrite(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress("a;b\n1;\xe9\n2;x\n".encode("latin-1")))
    dialect = Dialect(charset="windows-1252", delimiter=";")
    document = RewriteRequest(str(path), "CSVWithNames", dialect, "gzip")

    def run(document: RewriteRequest) -> str:
        command = [str(installed.program()), "rewrite", "--spec", encode(document)]
        return subprocess.run(command, capture_output=True, check=True).stdout.decode()

    assert run(document).splitlines() == ["a,b", "1,\u00e9", "2,x"]
    assert json.loads(run(replace(document, locate=(3,)))) == {"lines": [3]}
