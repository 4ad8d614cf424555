"""The layout of a new table: sorting key, partitions, bytes of a row."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from rowfall.core import sql
from rowfall.core.errors import RowfallError, UsageError, headline
from rowfall.core.model import Column, Kind, Schema, TableLayout
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.type_names import parse_type
from rowfall.schema import sampling
from rowfall.schema.column_facts import RunSelect
from rowfall.schema.projection import Scan
from rowfall.schema.sampling import SourceSample
from rowfall.schema.table_options import TableOptions
from rowfall.sources.base import Source
from rowfall.systems.clickhouse.codes import UNKNOWN_IDENTIFIER

ENOUGH_ROWS = 1000
"""Below this many sample rows cardinalities say nothing."""
LOW_SHARE, LOW_MOST = 0.05, 10_000
"""LowCardinality pays below 10,000 distinct values (the dictionary of a part stays small)."""
FEW_VALUES = 100
"""So few distinct values make long runs when rows are sorted by them."""

_KEY_NAME = regex(r"(^|_)(id|key|code|type|kind|status|category|country|region|state)$", re.I)
_WIDTHS = {"Bool": 1, "Date": 2, "Date32": 4, "DateTime": 4, "DateTime64": 8, "Time": 4,
           "Time64": 8, "UUID": 16, "IPv4": 4, "IPv6": 16, "Float32": 4, "Float64": 8,
           "Decimal": 8, "Enum8": 1}  # fmt: skip


def lay_out(
    columns: tuple[Column, ...], sample: SourceSample, asked: TableOptions,
    declared: Schema | None = None,
) -> Schema:  # fmt: skip
    """Return the schema of a new table, with its sorting key and the reason for it."""
    order, reason = asked.order_by, "given with --order-by"
    if not order and declared is not None:
        kept = {column.source for column in columns if column.name == column.source}
        names = {sql.identifier(word) for word in sql.tokens(declared.layout.order_by)}
        whole = names & {column.source for column in declared.columns} <= kept
        order = declared.layout.order_by if whole else "tuple()"
        reason = dict(declared.notes).get("ORDER BY", "") if whole else "its key is not loaded"
    if not order:
        order, reason = propose_order(columns, sample)
    notes = (*sample.notes, ("ORDER BY", reason))
    return Schema(
        columns,
        layout=TableLayout(
            engine=asked.engine or "MergeTree",
            order_by=order,
            partition_by=asked.partition_by,
            clauses=asked.clauses if order == asked.order_by else (),
        ),
        notes=notes,
    )


def named_key(key: str, names: Collection[str]) -> str:
    """Return a key whose elements are all names of columns as SQL: ``Order ID`` needs quotes."""
    elements = [element.strip() for element in key.strip().strip("()").split(",")]
    if key and set(elements) <= set(names) and not all(map(_PLAIN.fullmatch, elements)):
        text = ", ".join(map(sql.name, elements))
        return text if len(elements) == 1 else f"({text})"
    return key


_PLAIN = regex(r"[A-Za-z_]\w*", re.ASCII)


def propose_order(columns: Sequence[Column], sample: SourceSample) -> tuple[str, str]:
    """Propose a sorting key: key-like columns of few values, a time, an id; at most four.

    Without time and id any columns of few values follow: neighbours that are alike compress well
    (three integers of 10 to 56 values: 0.04 bytes a row sorted, 2.9 as they came).
    """
    known = {found.name: found for found in sample.columns}
    known |= {found.source: found for found in sample.columns}
    keys: list[tuple[int, str]] = []
    times: list[str] = []
    ids: list[str] = []
    few: list[tuple[int, str]] = []
    for made in columns:
        type_, found = parse_type(made.type), known.get(made.source)
        if found is None or type_.nullable or found.declared.nested or found.values.rows < 2:
            continue
        values = found.values
        if type_.base in ("Date", "Date32", "DateTime", "DateTime64"):
            times.append(made.name)
        elif values.distinct > 0.95 * values.rows and re.search(r"(^|_)(id|key)$", made.name, re.I):
            ids.append(made.name)
        elif 1 < values.distinct <= LOW_SHARE * values.rows and (
            made.type.startswith("LowCardinality")
            or (_KEY_NAME.search(made.name) and (type_.bits or type_.text))
        ):
            keys.append((values.distinct, made.name))
        elif values.rows >= ENOUGH_ROWS and 1 < values.distinct <= FEW_VALUES and type_.bits:
            few.append((values.distinct, made.name))
    if not times and not ids:
        keys = [*sorted(keys)[:2], *sorted(few)][:3]
    leading = sorted(keys)[:2] if times or ids else keys
    chosen = [name for _, name in leading] + times[:1] + ids[:1]
    if not chosen:
        return "tuple()", "no column looks like a key or a time: rows stay in the order they come"
    text = ", ".join(sql.name(name) for name in chosen)
    parts = [f"{name} ({count:,} values)" for count, name in leading]
    parts += [f"{name} (time)" for name in times[:1]] + [f"{name} (id)" for name in ids[:1]]
    return (text if len(chosen) == 1 else f"({text})"), "few values first: " + ", ".join(parts)


def row_bytes(columns: Sequence[Column], sample: SourceSample) -> float:
    """Return bytes of a row in memory: type widths, and lengths of the sample's strings."""
    known = {found.name: found for found in sample.columns}
    known |= {found.source: found for found in sample.columns}
    total = 0.0
    for made in columns:
        type_, found = parse_type(made.type), known.get(made.source)
        if type_.bits:
            total += type_.bits / 8
        elif type_.base in _WIDTHS:
            total += _WIDTHS[type_.base]
        elif made.type.startswith("LowCardinality"):
            total += 2
        elif sample.encoding.kind is Kind.TYPED and found and found.values.rows:
            total += found.values.bytes_each - type_.nullable  # all that it takes
        else:
            total += 8 + (found.values.bytes_each + 8 * found.declared.nested if found else 16)
        total += type_.nullable
    return max(total, 1.0)


def check_order(schema: Schema, asked: TableOptions, ask: RunSelect) -> None:
    """Check that ``--order-by`` names columns of a table to be made, before anything is made.

    Raises:
        UsageError: it names another one.
    """
    key = schema.layout.order_by if asked.order_by and not schema.exists else ""
    elements = (each.strip() for each in key.strip("() ").split(","))
    named = {sql.identifier(e) if len(sql.tokens(e)) == 1 else None for e in elements}
    if not key or named <= {column.name for column in schema.columns}:
        return  # nothing but columns: 5 to 11 ms for no question
    structure = quote(sql.structure((c.name, c.type) for c in schema.columns))
    try:
        ask(SqlText.of(f"DESCRIBE TABLE (SELECT {key} FROM null({structure}))"), {})
    except RowfallError as error:
        # Other errors are those of words such as DESC, which only CREATE TABLE judges.
        if error.code == UNKNOWN_IDENTIFIER:
            raise UsageError(
                f"ORDER BY {key} makes no sense: {headline(error.message)}",
                hint=f"Columns of the table: {', '.join(c.name for c in schema.columns[:20])}.",
            ) from None


def count_partitions(
    schema: Schema, sample: SourceSample, source: Source, ask: RunSelect, stored: str
) -> Schema:
    """Return the schema with its partitions counted in the sample; warn where rows add more.

    Args:
        stored: the partition key of a table that is there; "" for none.
    """
    key = schema.layout.partition_by or stored
    if not key or not sample.splits:
        return schema
    if schema.projection is None:
        inner = sampling.sample_relation(source.relation, sample.splits, sample.encoding, [
            (c.source, c.read_type) for c in schema.columns
        ])  # fmt: skip
    else:
        rows = Scan(source, sample.splits, sample.encoding, schema).relation()
        inner = SqlText.of("(SELECT * FROM ", rows, f" LIMIT {sampling.ROWS})")
    text = SqlText.of(
        f"SELECT uniqExact({key}), uniqExactIf({key}, rand() % 4 = 0), count() "
        f"FROM (SELECT {sql.projection(schema.columns)} FROM ", inner, ")",
    )  # fmt: skip
    try:
        ((full, quarter, rows),) = ask(text, sampling.probe_settings(sample.encoding, strict=True))
    except RowfallError as error:
        if not stored and getattr(error, "code", 0) in (46, 47, 62):
            raise UsageError(
                f"PARTITION BY {key} makes no sense: {headline(error.message)}",
                hint="It is an expression over the columns of the table.",
            ) from error
        # Bad rows in the sample: the load itself will name their lines. Or the key of a table is
        # over columns that the files lack.
        return schema
    notes = schema.notes
    if not stored and full > 10 and full > 2 * quarter:
        notes = (*notes, (
            "PARTITION BY", f"{full:,} partitions in {rows:,} rows seen and growing with them: "
            "a coarser key loads faster",
        ))  # fmt: skip
    return replace(schema, layout=replace(schema.layout, partitions=max(1, int(full))), notes=notes)
