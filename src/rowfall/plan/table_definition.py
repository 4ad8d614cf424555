"""Reads the definition of a MergeTree table, and says what its parts need besides columns. Pure.

rowfall-decode writes the columns that a load fills. What else the engine would make for an INSERT
(defaults of other columns, indices, projections, the times at which rows expire) it makes in the
staging table, by mutations that read only the columns they need and link all other files
(:func:`completions`). A constraint is asked of the staged rows. Whatever is neither written nor
made is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.patterns import regex
from rowfall.core.sql import closing, identifier, items, tokens
from rowfall.core.sqltext import quote
from rowfall.decoder.abilities import CODECS
from rowfall.decoder.documents import PartLayout, Strings
from rowfall.plan.keys import is_reversed, sorting_elements

_COLUMN_WORDS = frozenset({
    "DEFAULT", "MATERIALIZED", "ALIAS", "EPHEMERAL", "COMMENT", "CODEC", "STATISTICS", "TTL",
    "COLLATE", "SETTINGS", "PRIMARY",
})  # fmt: skip
_TABLE_WORDS = frozenset({"PARTITION", "PRIMARY", "ORDER", "SAMPLE", "TTL", "SETTINGS", "COMMENT"})
ENGINES = frozenset({
    "MergeTree", "ReplacingMergeTree", "SummingMergeTree", "AggregatingMergeTree",
    "CollapsingMergeTree", "VersionedCollapsingMergeTree", "CoalescingMergeTree",
})  # fmt: skip
"""Engines whose parts are alike: they differ in what a merge does, and rows are counted before."""
# Settings of a table that say nothing about the files of a part: about merges, limits, reading,
# cleaning up, and rowfall's own of staging tables.
_NOT_OF_PARTS = regex(
    r"(max|min)_bytes_to_merge_\w+|\w*merge_(selecting|selector|max|with|tree|policy)\w*|"
    r"\w*_(parts|merges|mutations)_\w*pool\w*|number_of_\w+|max_number_of_\w+|"
    r"min_age_to_force_merge_\w+|parts_to_(delay|throw)_insert|inactive_parts_to_\w+|"
    r"max_parts_(in_total|to_merge_at_once)|(max|min)_delay_to_\w+|old_parts_lifetime|"
    r"\w*deduplication_window\w*|async_insert|max_suspicious_\w+|ttl_only_drop_parts|"
    r"materialize_ttl_recalculate_only|assign_part_uuids|\w*vertical_merge\w*|"
    r"allow_\w+|min_bytes_to_rebalance_\w+|"
    r"(temporary_directories|cleanup)_\w+|max_avg_part_size_for_too_many_parts|"
    r"max_(partitions|concurrent_queries|cleanup)\w*|use_\w*columns_cache|"
    r"prewarm_\w+|columns_and_secondary_indices_sizes_lazy_calculation|"
    r"force_read_through_cache_for_merges|lightweight_mutation_projection_mode|"
    r"deduplicate_merge_projection_mode|min_free_disk_\w+|"
    r"compact_parts_m(ax|erge)_\w+|allow_vertical_merges_from_compact_to_wide_parts"
)
_BYTES = regex(r"\d+\Z")
_SHARE = regex(r"\d+(\.\d+)?\Z")
# What rowfall-decode takes.
_LARGEST_BLOCK = 64 << 20
LAYOUT = (26, 9)
"""The release of the engine whose parts rowfall-decode writes; their files change from one to
another (26.x has put sizes of strings into files of their own and counts defaults)."""


@dataclass(frozen=True, slots=True)
class DefinedColumn:
    """One column of a definition.

    Attributes:
        kind: DEFAULT, MATERIALIZED, ALIAS, EPHEMERAL, or "" with the type's own default.
        more: what else stands there, by its first word.
    """

    name: str
    type: str
    kind: str = ""
    expression: str = ""
    more: tuple[tuple[str, str], ...] = ()

    @property
    def stored(self) -> bool:
        return self.kind not in ("ALIAS", "EPHEMERAL")

    @property
    def codec(self) -> str:
        """Return ``Delta(4), LZ4``; "" for the table's default."""
        found = dict(self.more).get("CODEC", "")
        return found[1:-1].strip() if found else ""


@dataclass(frozen=True, slots=True)
class Definition:
    """A table as its CREATE statement describes it.

    Attributes:
        engine: its name, without arguments.
        version: by which VersionedCollapsingMergeTree sorts after the key; "" for other engines.
        constraints: conditions that rows have to meet.
        clauses: what follows the engine, by the first word.
    """

    columns: tuple[DefinedColumn, ...]
    engine: str
    indices: tuple[str, ...] = ()
    projections: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    clauses: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    version: str = ""

    @property
    def sorting_key(self) -> str:
        """Return ``(a, f(b))``, with the column of the version; "" for none."""
        given = self.clauses.get("ORDER", "").removeprefix("BY ")
        if not self.version:
            return given
        return f"({', '.join([*sorting_elements(given), self.version])})"

    @property
    def primary_elements(self) -> int | None:
        """Return the number of elements of the PRIMARY KEY; None where it is the sorting key."""
        primary = self.clauses.get("PRIMARY")
        if primary is None and self.version:  # which is in no index
            return len(sorting_elements(self.sorting_key)) - 1
        return None if primary is None else len(sorting_elements(primary.removeprefix("KEY ")))

    @property
    def expires(self) -> bool:
        """True where rows or values have a time to live."""
        return "TTL" in self.clauses or any("TTL" in dict(c.more) for c in self.columns)


def parse(create_query: str) -> Definition | None:
    """Parse a CREATE TABLE statement as the engine writes it; None where it has another form."""
    words = tokens(create_query)
    try:
        start = words.index("(")
        end = closing(words, start)
        return _parsed(items(words[start + 1 : end]), words[end + 1 :])
    except (ValueError, IndexError):
        return None


def _parsed(listed: Sequence[str], rest: Sequence[str]) -> Definition | None:
    columns: list[DefinedColumn] = []
    named: dict[str, list[str]] = {"INDEX": [], "PROJECTION": [], "CHECK": []}
    unknown: list[str] = []
    for item in listed:
        words = [w for w in tokens(item) if not w.isspace()]
        if words[0][:1] == "`":
            columns.append(_column(item))
        elif words[0] in ("INDEX", "PROJECTION"):
            named[words[0]].append(identifier(words[1]) or "")
        elif words[0] == "CONSTRAINT" and words[2] == "CHECK":
            named["CHECK"].append(_behind(item, "CHECK"))
        elif words[0] != "CONSTRAINT" or words[2] != "ASSUME":
            unknown.append(item)
    pieces = _pieces(rest, _TABLE_WORDS)
    head = [w for w in tokens(pieces.pop("")) if not w.isspace()]
    if head[:2] != ["ENGINE", "="]:
        return None
    # The last argument: path and replica stand before the sign.
    version = items(head[4:-1])[-1] if head[2].endswith("VersionedCollapsingMergeTree") else ""
    settings = {}
    for item in items(tokens(pieces.pop("SETTINGS", ""))):
        name, _, value = item.partition("=")
        settings[name.strip()] = value.strip().strip("'")
    return Definition(
        tuple(columns), head[2], tuple(named["INDEX"]), tuple(named["PROJECTION"]),
        tuple(named["CHECK"]), pieces, settings, tuple(unknown), version,
    )  # fmt: skip


def _column(item: str) -> DefinedColumn:
    words = tokens(item)
    pieces = _pieces(words[1:], _COLUMN_WORDS)
    type_ = pieces.pop("")
    kind = next((w for w in ("DEFAULT", "MATERIALIZED", "ALIAS", "EPHEMERAL") if w in pieces), "")
    expression = pieces.pop(kind, "")
    return DefinedColumn(
        identifier(words[0]) or "", type_, kind, expression, tuple(pieces.items())
    )  # fmt: skip


def _behind(item: str, word: str) -> str:
    return _pieces(tokens(item), frozenset({word}))[word]


def _pieces(words: Sequence[str], heads: Collection[str]) -> dict[str, str]:
    """Return the text after each word of ``heads`` outside of brackets; that before them as ""."""
    found: dict[str, list[str]] = {"": []}
    depth, head = 0, ""
    for word in words:
        depth += word in ("(", "[", "{")
        depth -= word in (")", "]", "}")
        if not depth and word in heads and word not in found:
            head = word
            found[head] = []
        else:
            found[head].append(word)
    return {name: "".join(text).strip() for name, text in found.items()}


def stored_columns(table: Definition, names: Collection[str] | None) -> tuple[str, ...]:
    """Return the columns of parts that some names may stand for, at least one.

    An ALIAS stands for what its expression names.

    Args:
        names: None for all columns.
    """
    given = [column.name for column in table.columns if column.stored]
    if names is None:
        return tuple(given)
    wanted = _behind_aliases(table, set(names))
    # ``n.a`` is a column of its own, or an element of ``n``.
    found = [name for name in given if {name, name.partition(".")[0]} & wanted]
    return tuple(found or given[:1])


def computed_columns(table: Definition) -> tuple[str, ...]:
    """Return the MATERIALIZED columns."""
    return tuple(column.name for column in table.columns if column.kind == "MATERIALIZED")


def without_expressions(table: Definition) -> str:
    """Return the columns of a table into which rows of this one are inserted once more.

    ``*`` means the same columns in both, but nothing is computed there: of columns that are not
    inserted an expression may fail (``intDiv(1, n)``) or cost much.
    """
    return ", ".join(map(_without_expression, table.columns))


def _without_expression(column: DefinedColumn) -> str:
    kind = ""
    if column.kind == "ALIAS":
        kind = f" ALIAS {column.expression}"
    elif column.kind == "MATERIALIZED":
        kind = f" MATERIALIZED {_default(column)}"
    elif column.kind == "EPHEMERAL":
        kind = " EPHEMERAL"
    return f"{sql.name(column.name)} {column.type}{kind}"


def _default(column: DefinedColumn) -> str:
    """Return the default of a column's type."""
    return f"defaultValueOfTypeName({quote(column.type)})"


# --- what is refused -----------------------------------------------------------------------------


def refusal(table: Definition, filled: Collection[str], *, moves: bool = True) -> str | None:
    """Return a clause: why rowfall-decode cannot write parts of a table; None if it can.

    Args:
        filled: the columns that the load fills.
        moves: parts are moved into the table's folder; a server puts them on any disk itself.
    """
    if table.engine.removeprefix("" if moves else "Replicated") not in ENGINES:
        return f"its engine is {table.engine}"
    if table.unknown:
        return f"its definition has {table.unknown[0][:80]}"
    for column in table.columns:
        if column.kind == "EPHEMERAL":
            return f"the column {column.name} is EPHEMERAL"
        for word, text in column.more:
            if word in ("STATISTICS", "COLLATE", "SETTINGS", "PRIMARY"):
                return f"the column {column.name} has {word} {text}"
        if column.name in filled and (why := _codec_refusal(column)):
            return f"only the engine writes the codec {why} (column {column.name})"
    for text in (*table.clauses.values(), *map(_ttl, table.columns)):
        if re.search(r"\bTO (DISK|VOLUME)\b", text):
            return "its TTL moves rows to other disks"
    listed = sorting_elements(table.sorting_key)
    # The list of tables shows the key without that.
    if turned := next(filter(is_reversed, listed), None):
        return f"its key is reversed ({turned})"
    primary = sorting_elements(table.clauses.get("PRIMARY", "").removeprefix("KEY "))
    if primary != listed[: len(primary)]:
        return "its primary key is not the beginning of its sorting key"
    return _settings_refusal(table, moves=moves) or _compact_refusal(table, filled)


def _ttl(column: DefinedColumn) -> str:
    return dict(column.more).get("TTL", "")


def codecs(column: DefinedColumn) -> tuple[str, ...]:
    """Return the codecs of a column, one after the other; () for the default."""
    found = items(tokens(column.codec))
    return () if found == ["Default"] else tuple("LZ4" if c == "Default" else c for c in found)


def _codec_refusal(column: DefinedColumn) -> str | None:
    """Return the first codec that only the engine writes."""
    # rowfall-decode says no to the types that T64 does not take; the engine does not make them.
    return next((c for c in codecs(column) if c.partition("(")[0] not in CODECS), None)


_DEFAULTS = PartLayout()
# Settings that a part is laid out by, with what rowfall-decode calls them and their defaults.
_LAYOUT = {
    "index_granularity": ("granule_rows", _DEFAULTS.granule_rows),
    "index_granularity_bytes": ("granule_bytes", _DEFAULTS.granule_bytes),
    "min_compress_block_size": ("min_block", _DEFAULTS.min_block),
    "max_compress_block_size": ("max_block", _DEFAULTS.max_block),
}
# Smaller parts are compact.
_WIDE = {
    "min_bytes_for_wide_part": ("wide_bytes", _DEFAULTS.wide_bytes),
    "min_rows_for_wide_part": ("wide_rows", _DEFAULTS.wide_rows),
    # The level of what an INSERT writes is 0.
    "min_level_for_wide_part": ("wide_level", 0),
}


_ANY_BYTES = (1 << 64) - 1
_SUBSTREAMS = "write_marks_for_substreams_in_compact_parts"
_SPARSE = "ratio_of_defaults_for_sparse_serialization"


# How strings are stored, by settings that 24.10 does not have: its layout is `inline`. The defaults
# come first.
_VERSIONS = {
    "serialization_info_version": ("with_types", "basic"),
    "string_serialization_version": ("with_size_stream", "single_stream"),
    "propagate_types_serialization_versions_to_nested_types": ("1", "0"),
}


def layout(table: Definition, filled: Collection[str]) -> PartLayout:
    """Return sizes of granules and compressed blocks of a table's parts, and how values are stored.

    Values are the text and the sparse ones.

    Args:
        filled: the columns that the load fills.
    """
    # 0 stands for the default where it is a size of blocks.
    sizes = {
        name: int(table.settings.get(setting, default)) or default
        for setting, (name, default) in _LAYOUT.items()
    }
    strings = _strings(table)
    assert strings is not None  # noqa: S101 - else the table is refused
    return PartLayout(
        **sizes,
        **_least_wide(table, filled),
        sparse_above=float(table.settings.get(_SPARSE, _DEFAULTS.sparse_above)),
        strings=strings,
        substream_marks=table.settings.get(_SUBSTREAMS, "1") == "1",
    )


def _least_wide(table: Definition, filled: Collection[str]) -> dict[str, int]:
    """Return the bytes and rows of a wide part at least."""
    wide = {n: int(table.settings.get(setting, least)) for setting, (n, least) in _WIDE.items()}
    if wide.pop("wide_level"):
        wide["wide_bytes"] = _ANY_BYTES
    # A mutation links the files of a wide part, and writes all of a compact one again.
    return dict.fromkeys(wide, 0) if completions(table, filled) else wide


def least_wide(table: Definition) -> tuple[int, int]:
    """Return the bytes and rows of a wide part at least, by the settings of a table."""
    wide = _least_wide(table, [column.name for column in table.columns])
    return wide["wide_bytes"], wide["wide_rows"]


def are_compact(table: Definition, filled: Collection[str], size: float, rows: float) -> bool:
    """Tell whether parts of so many bytes and rows are compact."""
    wide = _least_wide(table, filled)
    return size < wide["wide_bytes"] or rows < wide["wide_rows"]


def _strings(table: Definition) -> Strings | None:
    """Return the decoder's name of the layout of strings; None where only the engine writes it."""
    typed, apart, nested = (
        table.settings.get(name, values[0]) == values[0] for name, values in _VERSIONS.items()
    )
    if not typed:
        return "inline"
    if apart:
        # Without that, strings of a table are in two layouts.
        return "apart" if nested else None
    return "inline_typed" if nested else "inline"


def _settings_refusal(table: Definition, *, moves: bool) -> str | None:
    for name, value in table.settings.items():
        text = f"its setting {name} = {value} is the engine's"
        if name in _WIDE:
            if not _BYTES.match(value):
                return text
        elif name == "storage_policy":
            if moves and value != "default":
                return text
        elif name == "default_compression_codec":
            if value.upper() not in ("", "LZ4"):
                return text
        elif name in _LAYOUT:
            # Without granules of so many bytes at most marks have another form.
            if not _BYTES.match(value) or (name == "index_granularity_bytes" and value == "0"):
                return text
        elif name == _SUBSTREAMS:
            if value not in ("0", "1"):
                return text
        elif name == _SPARSE:
            if not _SHARE.match(value):
                return text
        elif name in _VERSIONS:
            if value not in _VERSIONS[name] or _strings(table) is None:
                return text
        elif not _NOT_OF_PARTS.fullmatch(name):
            return text
    sizes = layout(table, ())
    if not 1 <= sizes.min_block <= sizes.max_block <= _LARGEST_BLOCK:
        return f"its compressed blocks have up to {sizes.max_block} bytes"
    return None


def _compact_refusal(table: Definition, filled: Collection[str]) -> str | None:
    """Return the setting by which larger parts are compact, where the engine completes them."""
    for name, (_, least) in _WIDE.items():
        value = table.settings.get(name, "0")
        if int(value) > least and completions(table, filled):
            return (
                f"{name} = {value} asks for compact parts, all of which the engine would write "
                "again for what they lack"
            )
    return None


# --- what the engine makes -----------------------------------------------------------------------


def completions(table: Definition, filled: Collection[str]) -> list[str]:
    """Return the ALTER TABLE commands by which the engine completes parts that lack columns.

    Each of them is one mutation, in this order: a default that is computed from another one comes
    after it, so that both see the same value of ``rand()``. Times to live come last and alone:
    beside other commands the engine would write all columns again.
    """
    made: list[list[str]] = []
    left = [c for c in table.columns if c.stored and c.name not in filled]
    while left:
        names = {c.name for c in left}
        now = [c for c in left if not names & _needs(table, c)] or left
        made.append([_filling(column) for column in now])
        left = [c for c in left if c not in now]
    more = [f"MATERIALIZE INDEX {sql.name(name)}" for name in table.indices]
    more += [f"MATERIALIZE PROJECTION {sql.name(name)}" for name in table.projections]
    if made:
        made[-1] += more
    elif more:
        made.append(more)
    if table.expires:
        made.append(["MATERIALIZE TTL"])
    return [", ".join(commands) for commands in made]


def _needs(table: Definition, column: DefinedColumn) -> set[str]:
    """Return the columns that a default is computed from, also by way of ALIAS columns."""
    return _behind_aliases(table, _names(column.expression)) - {column.name}


def _behind_aliases(table: Definition, names: set[str]) -> set[str]:
    """Return names, and those that ALIAS columns among them are computed from."""
    found: set[str] = set()
    fresh = names
    by_name = {c.name: c for c in table.columns}
    while fresh:
        found |= fresh
        alias = [by_name[n] for n in fresh if n in by_name and by_name[n].kind == "ALIAS"]
        fresh = {n for c in alias for n in _names(c.expression)} - found
    return found


def _filling(column: DefinedColumn) -> str:
    if column.kind:
        return f"MATERIALIZE COLUMN {sql.name(column.name)}"
    # The type's own default would be read, too, but only until the column is given another one.
    return f"UPDATE {sql.name(column.name)} = {_default(column)} WHERE 1"


def _names(expression: str) -> set[str]:
    return {found for word in tokens(expression) if (found := identifier(word)) is not None}


def violations(table: Definition, at: str) -> str | None:
    """Return the question how many rows of a staging table break a constraint; None without one.

    Args:
        at: qualified name of the table.
    """
    if not table.constraints:
        return None
    # NULL breaks a constraint, too.
    fine = " AND ".join(f"ifNull(({condition}), 0)" for condition in table.constraints)
    return f"SELECT count() FROM {at} WHERE NOT ({fine})"
