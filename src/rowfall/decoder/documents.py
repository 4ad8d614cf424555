"""The JSON documents that rowfall-decode takes, as values; one encoder.

They mirror the structs of the program one to one, with their names and defaults:
crates/rowfall-decode/src/spec/ says what each field means, input/rewrite and sample.rs those of
the other two commands. tests/contract/test_decoder_documents.py feeds each to the program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal

from rowfall.core.dataclass import dataclass
from rowfall.core.masked import Secret
from rowfall.core.model import Dialect

VERSION = 2
"""The version of the document: a program that knows another one refuses it."""


@dataclass(frozen=True, slots=True)
class BlockInput:
    """A block of a file in HDFS, as the name node describes it.

    Attributes:
        start, bytes: where it is in the file.
        pool, id, stamp: its block pool, number and generation stamp.
        nodes: ``host:port`` of the data nodes that have it, the nearest first.
    """

    start: int
    bytes: int
    pool: str
    id: int
    stamp: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Input:
    """A file, a pipe or an object; ``url`` and ``headers`` may hold signatures."""

    path: str
    uri: str | None = None
    start: int = 0
    stop: int | None = None
    url: Secret | None = None
    headers: Mapping[str, Secret] | None = None
    by_query: bool = False
    blocks: tuple[BlockInput, ...] = ()
    size: int | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class InputColumn:
    """A column to write."""

    name: str
    type: str
    source: str | None = None
    position: int | None = None
    time_notation: Literal["", "T", "Z"] = ""
    canonical: bool = False
    blank: bool = False
    padded: bool = False
    codecs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column that an expression of a key uses, and which of its values are the same for it."""

    index: int
    floor: int = 0
    modulo: int = 0
    divide: int = 0


@dataclass(frozen=True, slots=True)
class KeyExpression:
    """An expression of a sorting key, whose values the program asks for."""

    type: str
    columns: tuple[KeyColumn, ...]


@dataclass(frozen=True, slots=True)
class ComputedKeys:
    """Expressions of a sorting key; ``file`` begins the names of files with their values."""

    file: str
    expressions: tuple[KeyExpression, ...]


@dataclass(frozen=True, slots=True)
class PartShard:
    """The sharding key of a table, whose parts begin with the number of a shard and a dot.

    Attributes:
        ends: slots behind the last one of each shard.
        hash: function of one column that gives the slot, "" for its value; None where the program
            asks for shards as for partitions, by ``columns``.
        column: index of that column.
    """

    ends: tuple[int, ...]
    hash: str | None = None
    column: int = 0
    columns: tuple[KeyColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class PartPartition:
    """The partition key of a table; the program asks for the partitions of its values."""

    columns: tuple[KeyColumn, ...]
    file: str
    max_partitions: int = 0
    hold_bytes: int = 0
    shard: PartShard | None = None


@dataclass(frozen=True, slots=True)
class PartMerge:
    """How sorted blocks are kept until they become one part.

    Attributes:
        hold_bytes: of rows that are held in memory; others go into a file.
        file: where that file is made; it has no name a moment later.
        block_bytes: of a block that is held in memory.
    """

    hold_bytes: int
    file: str
    block_bytes: int


Strings = Literal["apart", "inline", "inline_typed"]


@dataclass(frozen=True, slots=True)
class PartLayout:
    """Sizes and streams in parts; the defaults are those of the engine."""

    granule_rows: int = 8192
    granule_bytes: int = 10 << 20
    min_block: int = 64 << 10
    max_block: int = 1 << 20
    sparse_above: float = 0.9375
    strings: Strings = "apart"
    wide_bytes: int = 10 << 20
    wide_rows: int = 0
    substream_marks: bool = True


@dataclass(frozen=True, slots=True)
class OutputConnection:
    """A connection of MySQL's protocol that the program writes packets into."""

    descriptor: int
    number: int
    packet_bytes: int
    prefill_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ArrowOutput:
    """A stream of Arrow with Arrow's own types, without its first rows."""

    skip_rows: int = 0


@dataclass(frozen=True, slots=True)
class Spec:
    """The task of a run: the document of ``rowfall-decode run`` and ``check``."""

    inputs: tuple[Input, ...]
    format: str
    columns: tuple[InputColumn, ...]
    outputs: tuple[str, ...]
    version: int = VERSION
    compression: str = "none"
    delimiter: str = ","
    null: str = ""
    trim_strings: bool = True
    trailing: bool = False
    tuples: Literal["fields", "value"] = "fields"
    allow_line_breaks: bool = False
    binary: bool = False
    dialect: Dialect | None = None
    unknown: Literal["error", "skip"] = "error"
    input_types: tuple[str, ...] = ()
    file_columns: int | None = None
    skip_header: bool = False
    timezone: str | None = None
    block_rows: int = 1_000_000
    block_bytes: int = 256 << 20
    sort_by: tuple[int, ...] | None = None
    primary: int | None = None
    computed: ComputedKeys | None = None
    progress_ms: int = 0
    read_ahead: bool = False
    output_compression: Literal["none", "lz4"] = "none"
    output_format: str = "Native"
    output_texts: tuple[int, ...] = ()
    output_types: tuple[str, ...] = ()
    output_connection: OutputConnection | None = None
    output_arrow: ArrowOutput | None = None
    parts: bool = False
    layout: PartLayout = PartLayout()
    partition_by: PartPartition | None = None
    merge: PartMerge | None = None
    chunk_bytes: int = 256 << 10
    memory_bytes: int | None = None
    record_bytes: int = 64 << 20
    simd: str | None = None


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """The document of ``rowfall-decode sample``: rows of each input at most, and more lines.

    Attributes:
        texts: not facts are wanted but the texts of objects, of so many bytes of each input.
        null_lists: not facts are wanted but the columns of Parquet that hold a NULL list or map.
    """

    spec: Spec
    rows: int
    more: str = ""
    texts: int = 0
    null_lists: bool = False


@dataclass(frozen=True, slots=True)
class RewriteRequest:
    """The document of ``rowfall-decode rewrite``: a file or ``-``, as plain text on stdout.

    Attributes:
        locate: lines of the plain text whose lines in the file are asked for.
    """

    path: str
    format: str
    dialect: Dialect
    compression: str = "none"
    locate: tuple[int, ...] = ()


# Said in any case: by these a program knows what the rest means.
_ALWAYS = frozenset({(Spec, "version"), (Dialect, "charset")})


def encode(document: Spec | SampleRequest | RewriteRequest) -> str:
    """Return a document as JSON; what it holds of secrets is readable in it."""
    return json.dumps(plain(document), default=Secret.reveal)


def plain(value: Any) -> Any:
    """Return a document as JSON has it, without what is as its default; secrets stay masked."""
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return dict(value)
    if not hasattr(value, "__dataclass_fields__"):
        return value
    found = {}
    for name, default in _defaults(type(value)):
        given = getattr(value, name)
        if given != default or (type(value), name) in _ALWAYS:
            found[name] = plain(given)
    return found


_KNOWN: dict[type, list[tuple[str, Any]]] = {}


def _defaults(kind: type) -> list[tuple[str, Any]]:
    """Return the fields of a document and their defaults: of columns there may be thousands."""
    if kind not in _KNOWN:
        _KNOWN[kind] = [(field.name, field.default) for field in fields(kind)]
    return _KNOWN[kind]
