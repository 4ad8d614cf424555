"""Which columns a source has, of which types, and how the table is laid out.

Looks at about 20,000 rows of up to eight objects with two or three aggregated queries of the
engine; nothing is read into Python but the first lines. Every choice carries its reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowfall.core import sql
from rowfall.core.errors import RowfallError, TargetError, UsageError
from rowfall.core.listing import Listing
from rowfall.core.model import Column, Encoding, Kind, Schema
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.schema import sample, tuples
from rowfall.schema.codec import codec, parse_type
from rowfall.schema.column_types import ENOUGH_ROWS, LOW_SHARE, infer_type
from rowfall.schema.ddl import Wish, wished
from rowfall.schema.header import Ask
from rowfall.schema.sample import Survey
from rowfall.schema.sample_facts import Found, Wanted
from rowfall.sources.base import Source

FEW_VALUES = 100
"""So few distinct values make long runs when rows are sorted by them."""

_KEY_NAME = re.compile(r"(^|_)(id|key|code|type|kind|status|category|country|region|state)$", re.I)
_WIDTHS = {"Bool": 1, "Date": 2, "Date32": 4, "DateTime": 4, "DateTime64": 8, "UUID": 16,
           "IPv4": 4, "IPv6": 16, "Float32": 4, "Float64": 8, "Decimal": 8, "Enum8": 1}  # fmt: skip


def schema_for(
    source: Source,
    listing: Listing,
    encoding: Encoding | None,
    options: Options,
    ask: Ask,
    existing: Sequence[Sequence[Any]] | None = None,
) -> tuple[Encoding | None, Schema]:
    """Encoding (with or without a header, as found) and schema of a load.

    Args:
        encoding: by extension or option; None for generators.
        ask: runs a SELECT with settings and gives its rows.
        existing: (name, type, default_kind) of the target's columns when it is there already.

    Raises:
        UsageError: options contradict the source; files differ in header or column count.
        TargetError: the existing table does not fit the source.
    """
    if source.made is not None:
        return encoding, _made(source.made, options, ask, existing)
    if encoding is None:
        raise ValueError("a source of bytes needs an encoding")
    wish = wished(options, ask)
    seen = sample.look(
        source,
        listing,
        encoding,
        ask,
        fixed=options.format is not None,
        tolerant=bool(options.max_errors or options.max_error_ratio),
        wanted=_wanted(wish, existing),
    )
    if seen.encoding.has_names and seen.encoding.fields > len(seen.columns):
        # Behind the elements of a tuple it showed the fields of others.
        seen = replace(seen, columns=tuple(Found(found.name) for found in seen.columns))
    if existing is not None:
        _check_same(wish, existing)
        columns = _match(existing, seen)
        schema = Schema(columns, exists=True, notes=seen.notes)
    else:
        columns = _given(wish.columns, seen) if wish.columns else _chosen(seen, wish)
        schema = _laid_out(columns, seen, wish)
    schema = replace(schema, row_bytes=_row_bytes(columns, seen))
    return seen.encoding, _partitioned(schema, seen, source, ask)


def _check_same(wish: Wish, existing: Sequence[Sequence[Any]]) -> None:
    """The command that made a table may be run again; other types than it has cannot be chosen.

    Raises:
        UsageError: which differ.
    """
    there = {str(name): str(type) for name, type, *_ in existing}
    differ = [
        f"{name} is {there.get(name, 'not there')}, not {type}"
        for name, type in {**dict(wish.columns), **wish.types}.items()
        if there.get(name, "").replace(" ", "") != type.replace(" ", "")
    ]
    if differ:
        raise UsageError(
            f"the table exists already, its types cannot be chosen: {', '.join(differ)}",
            hint="Leave out --schema and --type, load into another --table, or --replace.",
        )


def _wanted(wish: Wish, existing: Sequence[Sequence[Any]] | None) -> Wanted:
    """What the sample has to show: nothing that the user or the table has said already."""

    def types(encoding: Encoding, names: Sequence[str]) -> Mapping[str, str]:
        known = wish.columns if existing is None else _takes(existing, names, encoding)
        if not known:
            return wish.types
        if encoding.has_names:
            return {**dict.fromkeys(names, ""), **dict(known)}
        if len(names) != len(known):
            # The elements of tuples: nothing of them has to be known.
            known = [
                (n, t if tuples.fields(t) == 1 else "")
                for n, t in known
                for _ in range(tuples.fields(t))
            ]
        # Another number of columns will be refused.
        return {name: type_ for name, (_, type_) in zip(names, known, strict=False)}

    names = [n for n, _ in wish.columns]
    if existing is not None:
        names = [str(name) for name, _, default in existing if not default]
    return Wanted(types, existing is None and not wish.order_by, frozenset(names))


# --- columns ----------------------------------------------------------------------------------


def column(name: str, type_: str, found: Found, seen: Survey, reason: str) -> Column:
    """One column with its codec, by what the sample showed about the text."""
    evidence = found.evidence(seen.encoding)
    csv = seen.encoding.is_csv
    made = codec(
        name, found.name, type_, seen.encoding.kind, found.declared, csv=csv, seen=evidence
    )
    return replace(made, reason="; ".join(r for r in (reason, made.reason) if r))


def _chosen(seen: Survey, wish: Wish) -> tuple[Column, ...]:
    names = [found.name for found in seen.columns]
    for name in wish.types:
        if name not in names:
            raise UsageError(
                f"--type names the column {name!r}, which the source does not have",
                hint=f"Its columns: {', '.join(names[:20])}.",
            )
    columns = []
    for found in seen.columns:
        if found.name in wish.types:
            type_, reason = wish.types[found.name], "given with --type"
        else:
            type_, reason = infer_type(found, seen)
        columns.append(column(found.name, type_, found, seen, reason))
    return tuple(columns)


def _given(wanted: Sequence[tuple[str, str]], seen: Survey) -> tuple[Column, ...]:
    """Columns of ``--schema``: by name where the source has names, else by position."""
    known = {found.name: found for found in seen.columns}
    if not seen.encoding.has_names:
        columns = _of_columns([type_ for _, type_ in wanted], seen)
        if columns is None:
            raise UsageError(
                f"the schema has {len(wanted)} columns, {seen.example} has {len(seen.columns)}",
                hint="Name every column of the source, in its order.",
            )
        known = {n: found for (n, _), found in zip(wanted, columns, strict=True)}
    missing = [name for name, _ in wanted if name not in known]
    extra = [name for name in known if name not in dict(wanted)]
    if missing or (extra and seen.encoding.kind is not Kind.TYPED):
        raise UsageError(_difference("the schema", seen.example, missing, extra), hint=_NAMES_HINT)
    return tuple(column(n, t, known[n], seen, "given with --schema") for n, t in wanted)


def _match(rows: Sequence[Sequence[Any]], seen: Survey) -> tuple[Column, ...]:
    """Columns of the existing table: by name where the source has names, else by position."""
    takes = [(str(n), str(t), str(k)) for n, t, k in rows if k in ("", "DEFAULT")]
    if not seen.encoding.has_names:
        into = _takes(rows, [found.name for found in seen.columns], seen.encoding)
        columns = _of_columns([type_ for _, type_ in into], seen)
        if columns is None:
            raise TargetError(
                f"the table takes {len(takes)} columns, {seen.example} has {len(seen.columns)}",
                hint="Columns are matched by position here: "
                f"the table has {', '.join(n for n, _, _ in takes)}.",
            )
        pairs = zip(into, columns, strict=True)
        return tuple(column(n, t, f, seen, "by position") for (n, t), f in pairs)
    known = {found.name: found for found in seen.columns}
    missing = [n for n, _, kind in takes if n not in known and not kind]
    extra = [n for n in known if n not in {t[0] for t in takes}]
    if missing or (extra and seen.encoding.kind is not Kind.TYPED):
        raise TargetError(_difference("the table", seen.example, missing, extra), hint=_NAMES_HINT)
    return tuple(
        column(n, t, known[n], seen, "type of the table") for n, t, _ in takes if n in known
    )


def _of_columns(types: Sequence[str], seen: Survey) -> list[Found] | None:
    """What the sample showed of each column of a file without names, whose tuples may take several
    fields each; None where their number is another one."""
    if len(types) == len(seen.columns):
        return list(seen.columns)
    *first, total = tuples.starts(types)
    csv = seen.encoding.is_csv
    return [seen.columns[n] for n in first] if csv and total == len(seen.columns) else None


def _takes(
    rows: Sequence[Sequence[Any]], names: Sequence[str], encoding: Encoding
) -> list[tuple[str, str]]:
    """(name, type) of the existing table's columns that a row of the source fills."""
    takes = [(str(n), str(t)) for n, t, k in rows if k in ("", "DEFAULT")]
    fields = tuples.starts([t for _, t in takes])[-1] if encoding.format == "CSV" else len(takes)
    if encoding.has_names or len(names) in (len(takes), fields):
        return takes
    # Columns with a DEFAULT may stay away, but then which ones are meant must be clear.
    return [(str(n), str(t)) for n, t, k in rows if k == ""]


_NAMES_HINT = "Columns are matched by name here, exactly as written."


def _difference(what: str, example: str, missing: Sequence[str], extra: Sequence[str]) -> str:
    parts = []
    if missing:
        parts.append(f"{example} lacks {', '.join(missing[:10])}, which {what} needs")
    if extra:
        parts.append(f"{what} lacks {', '.join(extra[:10])} of {example}")
    return "; ".join(parts)


# --- layout -----------------------------------------------------------------------------------


def _laid_out(columns: tuple[Column, ...], seen: Survey, wish: Wish) -> Schema:
    order, reason = wish.order_by, "given with --order-by"
    if not order:
        order, reason = propose_order(columns, seen)
    notes = (*seen.notes, ("ORDER BY", reason))
    return Schema(
        columns,
        engine=wish.engine or "MergeTree",
        order_by=order,
        partition_by=wish.partition_by,
        notes=notes,
    )


def propose_order(columns: Sequence[Column], seen: Survey) -> tuple[str, str]:
    """Key-like columns of few values first, then time, then an id: at most four columns.

    Without time and id any columns of few values follow: neighbours that are alike compress well
    (three integers of 10 to 56 values: 0.04 bytes a row sorted, 2.9 as they came).
    """
    known = {found.name: found for found in seen.columns}
    keys: list[tuple[int, str]] = []
    times: list[str] = []
    ids: list[str] = []
    few: list[tuple[int, str]] = []
    for made in columns:
        type_, found = parse_type(made.type), known[made.source]
        if type_.nullable or found.nested or found.rows < 2:
            continue
        if type_.base in ("Date", "Date32", "DateTime", "DateTime64"):
            times.append(made.name)
        elif found.distinct > 0.95 * found.rows and re.search(r"(^|_)(id|key)$", made.name, re.I):
            ids.append(made.name)
        elif 1 < found.distinct <= LOW_SHARE * found.rows and (
            made.type.startswith("LowCardinality")
            or (_KEY_NAME.search(made.name) and (type_.bits or type_.text))
        ):
            keys.append((found.distinct, made.name))
        elif found.rows >= ENOUGH_ROWS and 1 < found.distinct <= FEW_VALUES and type_.bits:
            few.append((found.distinct, made.name))
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


def _row_bytes(columns: Sequence[Column], seen: Survey) -> float:
    """Bytes of a row in memory: type widths, and lengths of the sample's strings."""
    known = {found.name: found for found in seen.columns}
    total = 0.0
    for made in columns:
        type_, found = parse_type(made.type), known.get(made.source)
        if type_.bits:
            total += type_.bits / 8
        elif type_.base in _WIDTHS:
            total += _WIDTHS[type_.base]
        elif made.type.startswith("LowCardinality"):
            total += 2
        elif seen.encoding.kind is Kind.TYPED and found and found.rows:
            total += found.bytes_each - type_.nullable  # all that it takes
        else:
            total += 8 + (found.bytes_each + 8 * found.nested if found else 16)
        total += type_.nullable
    return max(total, 1.0)


def _partitioned(schema: Schema, seen: Survey, source: Source, ask: Ask) -> Schema:
    """With the partitions counted in the sample; a warning when they grow with the rows."""
    if not schema.partition_by or not seen.splits:
        return schema
    inner = sample.sample_relation(source.relation, seen.splits, seen.encoding, [
        (c.source, c.read_type) for c in schema.columns
    ])  # fmt: skip
    key = schema.partition_by
    text = SqlText.of(
        f"SELECT uniqExact({key}), uniqExactIf({key}, rand() % 4 = 0), count() "
        f"FROM (SELECT {sql.projection(schema.columns)} FROM ", inner, ")",
    )  # fmt: skip
    try:
        ((full, quarter, rows),) = ask(text, sample.settings(seen.encoding, strict=True))
    except RowfallError as error:
        if getattr(error, "code", 0) in (46, 47, 62):
            raise UsageError(
                f"PARTITION BY {key} makes no sense: {error.message.splitlines()[0]}",
                hint="It is an expression over the columns of the table.",
            ) from error
        return schema  # bad rows in the sample: the load itself will say so, with the place
    notes = schema.notes
    if full > 10 and full > 2 * quarter:
        notes = (*notes, (
            "PARTITION BY", f"{full:,} partitions in {rows:,} rows seen and growing with them: "
            "a coarser key loads faster",
        ))  # fmt: skip
    return replace(schema, partitions=max(1, int(full)), notes=notes)


# --- generators -------------------------------------------------------------------------------


def _made(
    made: Schema, options: Options, ask: Ask, existing: Sequence[Sequence[Any]] | None
) -> Schema:
    """A generator's own schema, with the layout that the user asks for."""
    wish = wished(options, ask)
    if wish.columns or wish.types:
        raise UsageError("a generator knows its columns", hint="Leave out --schema and --type.")
    if existing is None:
        return replace(
            made,
            engine=wish.engine or made.engine,
            order_by=wish.order_by or made.order_by,
            partition_by=wish.partition_by or made.partition_by,
        )
    types = {str(n): str(t) for n, t, kind in existing if kind in ("", "DEFAULT")}
    needed = {str(n) for n, _, kind in existing if kind == ""}
    names = {c.name for c in made.columns}
    if needed - names or names - set(types):
        raise TargetError(
            _difference("the table", "the generator", sorted(needed - names),
                        sorted(names - set(types))),
            hint=_NAMES_HINT,
        )  # fmt: skip
    columns = tuple(_cast(c, types[c.name]) for c in made.columns)
    return replace(made, columns=columns, exists=True)


def _cast(made: Column, type_: str) -> Column:
    if type_ == made.type:
        return made
    source = made.source or made.name
    return codec(made.name, source, type_, Kind.TYPED, made.type)
