"""Infers the columns of a source and makes the schema of the table of them.

About 20,000 rows of up to eight objects are sampled with two or three aggregated queries of the
engine; nothing is read into Python but the first lines. Every choice carries its reason. The type
of a column is the narrowest that is safe by its sample; the layout of the table is in layout.py.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from rowfall.core import engine_formats, log_forms, sql, units
from rowfall.core.dataclass import dataclass
from rowfall.core.dialect import DialectOptions
from rowfall.core.errors import TargetError, UsageError
from rowfall.core.listing import Listing
from rowfall.core.model import Column, ColumnChange, Encoding, Kind, Projection, Schema, TableFit
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import ADD, IGNORE, Options
from rowfall.core.patterns import regex
from rowfall.core.time_range import WIDE, TimeRange
from rowfall.core.type_names import TIMES, csv_fields, first_fields, parse_type
from rowfall.schema import sampling
from rowfall.schema.bad_rows.data_errors import type_options
from rowfall.schema.column_facts import ColumnFacts, DeclaredType, RunSelect, WantedFacts
from rowfall.schema.declared_columns import declared_as
from rowfall.schema.file_units import registry_of
from rowfall.schema.layout import (
    ENOUGH_ROWS,
    LOW_MOST,
    LOW_SHARE,
    check_order,
    count_partitions,
    lay_out,
    named_key,
    row_bytes,
)
from rowfall.schema.projection import folder_keys
from rowfall.schema.sampling import SampleOptions, SourceSample
from rowfall.schema.table_changes import (
    Defaults,
    Rows,
    TargetColumns,
    asked_types,
    fit_names,
    sampled_types,
    with_types,
)
from rowfall.schema.table_options import (
    ColumnOptions,
    ShapedSample,
    TableOptions,
    constant_column,
    constant_type,
    project,
    read_asked,
    selected,
    shape,
)
from rowfall.schema.text import marked_values
from rowfall.schema.text.text_format import OTHERWISE, UNSURE, asked_of
from rowfall.schema.text.united_headers import check_nulls
from rowfall.schema.time_units import check_unit, units_selected
from rowfall.schema.types import footers, json_objects, null_lists
from rowfall.schema.types.nested_nulls import (
    what_nulls_become,
    with_empty_lists,
    without_nullable_tuples,
)
from rowfall.schema.types.state_columns import check_states, tried_select
from rowfall.schema.types.strict_reading import strict_column, with_days
from rowfall.schema.types.wider_types import lossless
from rowfall.sources.base import Annotated, KnowsNullLists, Source

_SELECTED = "--select"
"""Stands for the file of what is made of columns of files."""
_TIME_OF_DAY = regex(r"\bTime(?:64\(\d\))?(?=[,)]|$)")


def schema_for(
    source: Source, listing: Listing, encoding: Encoding | None, options: Options, ask: RunSelect,
    target: TargetColumns | None = None,
) -> tuple[Encoding | None, Schema]:  # fmt: skip
    """Return encoding (with or without a header, as found) and schema of a load.

    Args:
        encoding: by extension or option; None for generators.
        ask: runs a SELECT with settings and gives its rows.
        target: by default one with all types, and without the table.

    Raises:
        UsageError: options contradict the source; files differ in header or column count.
        TargetError: the existing table does not fit the source.
    """
    target = target or TargetColumns()
    existing, table = target.existing, target.questions
    declared = source.made
    if declared is not None and encoding is None:
        return encoding, _made(declared, options, ask, existing)
    if encoding is None:
        raise ValueError("a source of bytes needs an encoding")
    united = {"Parquet", *footers.NAMED}
    kinds = (Kind.JSON, Kind.TEXT)
    if options.union_by_name and encoding.format not in united and encoding.kind not in kinds:
        raise UsageError(
            "--union-by-name reads CSV, TSV, Parquet, ORC, Arrow, Avro and JSON, and the files are "
            f"{encoding.format}",
            hint="Load files with the same columns together, one load after the other, with "
            "--on-new-column add --on-missing-column default",
        )
    if options.null_lists not in (None, "empty"):
        raise UsageError(
            f"--null-lists {options.null_lists} is not known",
            hint="Write --null-lists empty, or leave it out.",
        )
    added = source.annotations if isinstance(source, Annotated) else ()
    asked, own = read_asked(options, ask, added)
    asked = replace(
        asked, json_type=target.json_type, null_tuples=target.null_tuples,
        time_types=target.time_types, times=target.times,
    )  # fmt: skip
    shapes = own.any or bool(folder_keys(listing))
    if engine_formats.is_engine_only(encoding.format):
        ask = _with_format_settings(ask, options)
    if declared is not None:
        sample = _declared(declared, encoding, source)
    else:
        wanted = _wanted_of_source(asked, own) if shapes else _wanted(asked, existing, options)
        reading = SampleOptions(
            text=_with_added(asked_of(options), added),
            union=options.union_by_name,
            skip_bad_lines=bool(options.max_errors or options.max_error_ratio),
            alone=target.alone,
            registry=registry_of(options),
        )
        wanted = replace(wanted, without=own.skips)
        sample = sampling.take_sample(source, listing, encoding, ask, reading, wanted)
    notes = sample.notes
    if own.select:  # one that a note names would have to be one with it
        notes = tuple(n for n in notes if "--select " not in n[1])
    sample = replace(sample, narrow=options.narrow, times=target.times, notes=notes)
    if sample.encoding.has_names and sample.encoding.fields > len(sample.columns):
        # Behind the elements of a tuple it showed the fields of others.
        sample = replace(sample, columns=tuple(ColumnFacts(found.name) for found in sample.columns))
    if added and not sample.encoding.has_names:
        last = sample.columns[-len(added) :]
        named = (replace(found, name=name) for found, name in zip(last, added, strict=True))
        sample = replace(sample, columns=(*sample.columns[: -len(added)], *named))
    if added and asked.columns:
        given = dict(asked.columns)
        untyped = (f for f in sample.columns if f.name in added and f.name not in given)
        typed = tuple((f.name, _inferred(f, sample, asked=asked)) for f in untyped)
        asked = replace(asked, columns=(*asked.columns, *typed))
    if existing is None and sample.encoding.kind is Kind.JSON and options.on_new_column == IGNORE:
        sample = _passing_by(sample, asked)
    fit = TableFit()
    if existing is not None and not own.select:
        changes: tuple[ColumnChange, ...] = ()
        if options.widen and table is not None:
            changes = asked_types(asked.types, existing, table)
            existing = with_types(existing, changes)
            kept = {str(n): t for n, t, _ in existing if asked.types.get(str(n), t) != t}
            asked = replace(asked, types={**asked.types, **kept})
        if sample.encoding.has_names:
            infer = partial(_inferred, sample=sample, asked=asked)
            fitted = fit_names(sample, listing, own, asked, existing, infer)
            sample, existing, fit = fitted.sample, fitted.columns, fitted.fit
            own = replace(own, skips=own.skips | set(fitted.skips))
        _check_same(asked, existing)
        fit = replace(fit, changes=changes + fit.changes)
    only = None
    if not own.select and (existing is not None or asked.columns):
        only = _names_of(existing, asked)
    shaped = shape(sample, listing, own, only)
    inference = _Inference(
        listing, asked, own, existing, ask, widen=options.widen,
        defaults=None if table is None else table.defaults, clocks=target.clocks,
    )  # fmt: skip
    columns, made = inference.columns_of(shaped)
    widens = options.widen and table is not None and bool(sample.splits)
    if widens and existing is not None and not own.select:
        read = Schema(columns, projection=made)
        names = [found.name for found in sample.columns]
        there = replace(target, existing=existing)
        more = sampled_types(source, shaped.sample, read, ask, there, names)
        if more:
            existing = with_types(existing, more)
            columns, made = replace(inference, existing=existing).columns_of(shaped)
            fit = replace(fit, changes=_merged(fit.changes, more))
    chosen = {name for name, _ in asked.columns} | set(asked.types)
    said = number_notes(columns, shaped.sample.columns, chosen)
    hollow = blank_notes(columns, shaped.sample.columns, chosen, there=existing is not None)
    sample = replace(shaped.sample, notes=(*shaped.sample.notes, *said, *hollow))
    if existing is not None:
        schema = Schema(
            columns,
            exists=True,
            notes=sample.notes,
            fit=fit,
        )
    else:
        known = replace(sample, columns=(*sample.columns, *shaped.constants))
        made_names = {column.name for column in columns}
        asked = replace(
            asked, order_by=named_key(asked.order_by, made_names),
            partition_by=named_key(asked.partition_by, made_names),
        )  # fmt: skip
        schema = lay_out(columns, known, asked, declared)
    width = declared.row_bytes if declared is not None else row_bytes(columns, sample)
    schema = replace(schema, row_bytes=width, projection=made)
    if sample.footers:
        some, first = footers.some_columns(options), sample.footers[0]
        same = not any(footers.misfits(f, first, schema.reads, some=some) for f in sample.footers)
        schema = replace(schema, checks=replace(schema.checks, footers_fit=same))
    if options.null_lists and sample.encoding.format == "Avro":
        schema = schema.with_reads(with_empty_lists(schema.reads))
    told = sample.encoding.format == "Avro" or isinstance(source, KnowsNullLists)
    told = told or bool(options.null_lists)
    if not told and sample.encoding.format in null_lists.FORMATS:
        told = null_lists.can_be_looked_at(source, sample.encoding)
        held = (c for c in schema.reads if null_lists.holds_lists(c.type))
        looked_at = (c.name for c in held if told and c.source not in sample.nulls.no_null_lists)
        schema = replace(schema, lists=frozenset(looked_at))
    if empties := what_nulls_become(
        schema.reads, sample.encoding, sample.nulls.no_null_lists, lists_told=told
    ):
        schema = replace(schema, notes=(*schema.notes, (UNSURE, empties)))
    check_nulls(schema, sample.encoding)
    encoding = marked_values.only_where_read(sample.encoding, columns)
    for told_of in (
        marked_values.describe_missing(encoding, columns),
        marked_values.describe_dates(encoding, columns),
        marked_values.describe_numbers(encoding, columns),
    ):
        if told_of:
            schema = replace(schema, notes=(*schema.notes, ("words", told_of)))
    sample = replace(sample, encoding=encoding)
    check_order(schema, asked, ask)
    return encoding, count_partitions(schema, sample, source, ask, target.partition_key)


def _with_added(asked: DialectOptions, added: Sequence[str]) -> DialectOptions:
    """Return the names of --columns with those of the columns that the source adds behind them."""
    if not asked.columns or set(asked.columns) & set(added):
        return asked
    return replace(asked, columns=(*asked.columns, *added))


def _passing_by(sample: SourceSample, asked: TableOptions) -> SourceSample:
    """Return a sample of JSON whose reader passes by keys that a new table has no column for."""
    names = {name for name, _ in asked.columns}
    kept = tuple(c for c in sample.columns if not names or c.name in names)
    return replace(sample, columns=kept, encoding=replace(sample.encoding, ignores=True))


def _inferred(found: ColumnFacts, sample: SourceSample, asked: TableOptions) -> str:
    return infer_type(found, sample, json_type=asked.json_type, times=asked.times)[0]


def _merged(
    first: Sequence[ColumnChange], then: Sequence[ColumnChange]
) -> tuple[ColumnChange, ...]:
    """Return changes of which some columns change twice as one change of each."""
    merged = {change.name: change for change in first}
    for change in then:
        known = merged.get(change.name, change)
        merged[change.name] = replace(known, type=change.type)
    return tuple(merged.values())


def _with_format_settings(ask: RunSelect, options: Options) -> RunSelect:
    """Return ``ask`` with what ``--set`` says about the format: a delimiter, an expression."""
    pairs = (text.partition("=") for text in options.set)
    own = {n: v for n, _, v in pairs if n.startswith(("format_", "input_format_"))}
    return lambda text, settings: ask(text, {**settings, **own})


def _names_of(existing: Rows | None, asked: TableOptions) -> frozenset[str]:
    names = asked.columns if existing is None else [(str(row[0]), "") for row in existing]
    return frozenset(name for name, _ in names)


@dataclass(frozen=True, slots=True)
class _Inference:
    """The way from columns of a sample to those of the table.

    Attributes:
        existing: columns of the table, None where there is none yet.
        widen: those of a table become wider for values of files.
        defaults: gives what the table computes by itself; None where it cannot be asked.
        clocks: columns of the table that take times of day as text.
    """

    listing: Listing
    asked: TableOptions
    own: ColumnOptions
    existing: Rows | None
    ask: RunSelect
    widen: bool = False
    defaults: Defaults | None = None
    clocks: frozenset[str] = frozenset()

    def columns_of(self, shaped: ShapedSample) -> tuple[tuple[Column, ...], Projection | None]:
        """Return the columns of the table, and what they are made of if not of those read."""
        if self.own.computed or shaped.computed:
            return self.projected(shaped)
        return self.plain_columns(shaped.sample, self.asked, self.existing, self.defaults), None

    def plain_columns(
        self, sample: SourceSample, asked: TableOptions, existing: Rows | None,
        defaults: Defaults | None = None,
    ) -> tuple[Column, ...]:  # fmt: skip
        """Return columns as they are read: those of a table, those asked for, or by the sample."""
        if existing is not None:
            for found in sample.columns:
                if found.name in self.clocks:
                    check_unit(found.name, "Time", found, _file_of(sample))
            columns = _match(existing, sample, asked.types, self.ask, defaults)
        else:
            columns = _given(asked.columns, sample) if asked.columns else _chosen(sample, asked)
        check_states(columns, sample.columns, sample.encoding, self.ask)
        return columns

    def projected(self, shaped: ShapedSample) -> tuple[tuple[Column, ...], Projection]:
        """Return the columns of the table, and what they are made of.

        Without ``--select`` what is read has the types of the table; with it its own, and what is
        selected of it is converted, strictly, to those of a table that is there.
        """
        asked, own, existing = self.asked, self.own, self.existing
        inner, table = asked, existing
        if own.select:
            inner, table = replace(asked, columns=()), None
        fixed: dict[str, str] = {}
        names = {found.name for found in shaped.constants}
        if table is not None:
            fixed = {str(n): str(t) for n, t, k in table if k in ("", "DEFAULT") and n in names}
            table = [row for row in table if row[0] not in names]
        elif inner.columns:
            fixed = {n: t for n, t in inner.columns if n in names}
            inner = replace(inner, columns=tuple(c for c in inner.columns if c[0] not in names))
        fixed |= {n: t for n, t in inner.types.items() if n in names}
        inner = replace(inner, types={n: t for n, t in inner.types.items() if n not in names})
        reads = list(self.plain_columns(shaped.sample, inner, table))
        for found in shaped.constants:
            type_, reason = constant_type(found, self.listing)
            reads.append(constant_column(found, fixed.get(found.name, type_), reason))
        made = project(shaped, reads, own)
        types = {str(n): str(t) for n, t, *_ in existing} if existing else dict(asked.columns)
        if not own.select:
            if own.where:
                selected(made, self.ask, types)
            kept = (strict_column(c.name, c.name, c.type, Kind.TYPED, c.type) for c in reads)
            reasons = {c.name: c.reason for c in reads}
            return tuple(replace(c, reason=reasons[c.name]) for c in kept), made
        found_types = selected(made, self.ask, types)
        units = units_selected(own.select, shaped.sample.columns, found_types)
        selection = replace(
            shaped.sample,
            encoding=replace(shaped.sample.encoding, format="Native", kind=Kind.TYPED),
            columns=tuple(
                ColumnFacts(name, DeclaredType(type_, unit=units.get(name, "")))
                for name, type_ in found_types
            ),
            example=_SELECTED,
        )
        if existing is None and not asked.columns:
            by_name = {c.name: c for c in reads}
            return tuple(
                replace(
                    strict_column(name, name, type_, Kind.TYPED, type_),
                    reason=by_name[name].reason
                    if name in by_name and by_name[name].type == type_
                    else "as --select gives it",
                )
                for name, type_ in found_types
            ), made
        taken = {str(row[0]) for row in existing} if existing else {n for n, _ in asked.columns}
        extra = [name for name, _ in found_types if name not in taken]
        if extra:
            raise UsageError(
                f"--select gives {', '.join(extra[:10])}, which the table lacks",
                hint="Name each with AS as the table names it.",
            )
        if self.widen and existing:
            _check_fit(found_types, types)
        return self.plain_columns(selection, replace(asked, types={}), existing), made


def _check_fit(found: Sequence[tuple[str, str]], table: Mapping[str, str]) -> None:
    """Check that columns of a table take whatever ``--select`` may give them.

    Raises:
        UsageError: some do not, and ``--widen`` looks at the values of the source only.
    """
    narrow = [(n, t, table[n]) for n, t in found if n in table and not lossless(t, table[n])]
    if narrow:
        listed = ", ".join(f"{name} {type_} into {old}" for name, type_, old in narrow[:10])
        name, _, old = narrow[0]
        cast = f"CAST(... AS {old}) AS {name}"
        raise UsageError(
            f"--widen widens columns for what files hold, not for what --select gives: {listed}",
            hint=f"Cast what fits, as in {cast}, and leave out --widen; or load into a new table "
            "with --table NAME.",
        )


def _check_same(asked: TableOptions, existing: Rows) -> None:
    """Check that the types asked for are those of the table, as when a command is run again.

    Raises:
        UsageError: some differ; it names them.
    """
    there = {str(name): str(type) for name, type, *_ in existing}
    differ = [
        f"{name} is {there.get(name, 'not there')}, not {type}"
        for name, type in {**dict(asked.columns), **asked.types}.items()
        if there.get(name, "").replace(" ", "") != type.replace(" ", "")
    ]
    if differ:
        raise UsageError(
            f"the table exists already, its types cannot be chosen: {', '.join(differ)}",
            hint="Leave out --schema and --type, add --widen, load into another --table, or "
            "--replace.",
        )


def _wanted_of_source(asked: TableOptions, own: ColumnOptions) -> WantedFacts:
    """Return the facts to take from a sample whose columns are renamed: all but given types."""
    types = {name: type_ for name, type_ in asked.types.items() if name not in own.renames.values()}
    return WantedFacts(lambda encoding, names: types, not asked.order_by)


def _wanted(asked: TableOptions, existing: Rows | None, options: Options) -> WantedFacts:
    """Return the facts to take from a sample: those that neither the user nor the table gives.

    The types of all columns, where the table may change.
    """
    if existing is not None and (options.widen or options.on_new_column == ADD):
        return WantedFacts(layout=False)

    def types(encoding: Encoding, names: Sequence[str]) -> Mapping[str, str]:
        known = asked.columns if existing is None else _takes(existing, names, encoding)
        if not known:
            return asked.types
        if encoding.has_names:
            return {**dict.fromkeys(names, ""), **dict(known)}
        if len(names) != len(known):
            # The elements of tuples: nothing of them has to be known.
            known = [
                (n, t if csv_fields(t) == 1 else "") for n, t in known for _ in range(csv_fields(t))
            ]
        # Another number of columns will be refused.
        return {name: type_ for name, (_, type_) in zip(names, known, strict=False)}

    names = [n for n, _ in asked.columns]
    if existing is not None:
        names = [str(name) for name, _, default in existing if not default]
    return WantedFacts(
        types, existing is None and not asked.order_by, frozenset(names), existing is not None
    )


# --- columns ----------------------------------------------------------------------------------


def column(
    name: str, type_: str, found: ColumnFacts, sample: SourceSample, reason: str, *,
    given: bool = False,
) -> Column:  # fmt: skip
    """Return one column and how it is read, by what the sample showed about the text.

    Args:
        given: the user, or the source, says what the type is: whatever makes a value of it is one.
    """
    check_unit(name, type_, found, _file_of(sample))
    encoding, traits = sample.encoding, found.traits(sample.encoding)
    if not given and found.is_canonical(parse_type(type_)):
        traits = replace(traits, canonical=True)
    if found.values.hollow and not parse_type(type_).text:
        traits = replace(traits, blank=True)  # blanks around no value are those of none
    made = strict_column(
        name,
        found.source,
        type_,
        encoding.kind,
        declared_as(found, type_),
        traits,
    )
    if found.declared.stored:
        made = with_days(made, found.declared.stored, found.declared.type)
    why = "some files lack it" if found.optional else ""
    reasons = "; ".join(r for r in (reason, why, made.reason) if r)
    return replace(made, reason=reasons, optional=found.optional)


def _file_of(sample: SourceSample) -> str:
    return "" if sample.example == _SELECTED else sample.example


def _chosen(sample: SourceSample, asked: TableOptions) -> tuple[Column, ...]:
    names = [found.name for found in sample.columns]
    for name in asked.types:
        if name not in names:
            raise UsageError(
                f"--type names the column {name!r}, which the source does not have",
                hint=f"{did_you_mean(name, names)}Its columns: {', '.join(names[:20])}.",
            )
    columns = []
    for found in sample.columns:
        given = found.name in asked.types
        if given:
            type_, reason = asked.types[found.name], "given with --type"
        else:
            type_, reason = infer_type(found, sample, json_type=asked.json_type, times=asked.times)
            if not asked.null_tuples and sample.encoding.kind is Kind.TYPED:
                type_ = without_nullable_tuples(type_)
            if not asked.time_types and (text := _TIME_OF_DAY.sub("String", type_)) != type_:
                type_, reason = text, "the target has no type for a time of day"
        # Without splits the source declares its columns.
        given = given or not sample.splits
        columns.append(column(found.name, type_, found, sample, reason, given=given))
    return tuple(columns)


def _given(wanted: Sequence[tuple[str, str]], sample: SourceSample) -> tuple[Column, ...]:
    """Return the columns of ``--schema``: by name where the source has names, else by position."""
    known = {found.name: found for found in sample.columns}
    if not sample.encoding.has_names:
        columns = _of_columns([type_ for _, type_ in wanted], sample)
        if columns is None:
            raise UsageError(
                f"the schema has {len(wanted)} columns, {sample.example} has {len(sample.columns)}",
                hint="Name every column of the source, in its order.",
            )
        known = {n: found for (n, _), found in zip(wanted, columns, strict=True)}
    if sample.encoding.kind is Kind.JSON:
        # A key may come behind the sample; NULL is what it means where there is none.
        lacking = (n for n, t in wanted if n not in known and parse_type(t).nullable)
        known |= {name: ColumnFacts(name) for name in lacking}
    missing = [name for name, _ in wanted if name not in known]
    extra = [name for name in known if name not in dict(wanted)]
    if missing or (extra and sample.encoding.kind is not Kind.TYPED):
        raise UsageError(
            _difference("the schema", sample.example, missing, extra), hint=_NAMES_HINT
        )
    return tuple(
        column(n, t, known[n], sample, "given with --schema", given=True) for n, t in wanted
    )


def _flattened(
    known: Mapping[str, ColumnFacts], extra: Sequence[str], missing: Sequence[str]
) -> str:
    """Return the ``--select`` that makes the arrays of Nested of lists of objects, or ""."""
    parts = {name: [m for m in missing if m.startswith(f"{name}.")] for name in extra}
    if not extra or sum(map(len, parts.values())) != len(missing) or not all(parts.values()):
        return ""
    selected = [f"* EXCEPT ({', '.join(str(sql.name(name)) for name in extra)})"]
    for name, wanted in parts.items():
        inner = re.sub(r"^Array\(|\)$", "", known[name].declared.type)
        keys = [m.removeprefix(f"{name}.") for m in wanted]
        has_all = all(re.search(rf"\W{re.escape(key)}\W", inner) for key in keys)
        if not inner.startswith("Tuple(") or not has_all:
            return ""
        selected += [
            f"{sql.name(name)}.{sql.name(key)} AS {sql.name(m)}"
            for key, m in zip(keys, wanted, strict=True)
        ]
    return shlex.quote(", ".join(selected))


def _match(
    rows: Rows, sample: SourceSample, given: Collection[str], ask: RunSelect,
    defaults: Defaults | None,
) -> tuple[Column, ...]:  # fmt: skip
    """Return the columns of the existing table: by name where there are names, else by position.

    Args:
        given: names of columns whose type the user has given, too.
        defaults: gives what the table computes by itself.
    """
    takes = [(str(n), str(t), str(k)) for n, t, k in rows if k in ("", "DEFAULT")]
    if not sample.encoding.has_names:
        into = _takes(rows, [found.name for found in sample.columns], sample.encoding)
        columns = _of_columns([type_ for _, type_ in into], sample)
        if columns is None:
            raise TargetError(
                f"the table takes {len(takes)} columns, {sample.example} has {len(sample.columns)}",
                hint="Columns are matched by position here: "
                f"the table has {', '.join(n for n, _, _ in takes)}.",
            )
        pairs = zip(into, columns, strict=True)
        return tuple(
            column(n, t, f, sample, "by position", given=n in given) for (n, t), f in pairs
        )
    known = {found.name: found for found in sample.columns}
    missing = [n for n, _, kind in takes if n not in known and not kind]
    computed = [str(n) for n, _, k in rows if k not in ("", "DEFAULT") and n in known]
    extra = [n for n in known if n not in {t[0] for t in takes} and n not in computed]
    if missing or extra or computed:
        parts = [f"the table takes no values of {', '.join(computed[:10])}"] if computed else []
        if missing or extra:
            parts.insert(0, _difference("the table", sample.example, missing, extra))
        hints = [_NAMES_HINT]
        flattened = _flattened(known, extra, missing)
        used = [str(n) for n, _, k in rows if k == "EPHEMERAL" and n in known]
        if flattened:
            hints = [f"The table has {', '.join(extra)} as Nested: --select {flattened}"]
            missing = []
        elif extra:
            hints.append("--on-new-column add gives a table of ClickHouse what it lacks, ignore "
                         "leaves it out.")  # fmt: skip
        elif used and not missing:
            hints = [_computed_hint(rows, used, known, defaults() if defaults else {}, ask)]
        elif computed:
            hints.append("--on-new-column ignore leaves out what the table computes by itself.")
        if missing:
            hints.append("--on-missing-column default loads defaults for what files lack.")
        raise TargetError("; ".join(parts), hint=" ".join(hints))
    return tuple(
        column(n, t, known[n], sample, "type of the table", given=n in given)
        for n, t, _ in takes
        if n in known
    )


def _computed_hint(
    rows: Rows, used: Sequence[str], known: Collection[str],
    defaults: Mapping[str, str], ask: RunSelect,
) -> str:  # fmt: skip
    """Return the hint for values that a table computes others of and does not store.

    Args:
        used: names of such columns that the source has.
        defaults: expressions of the columns that have one.
    """
    types = {str(name): str(type_) for name, type_, _ in rows}
    kinds = {str(name): str(kind) for name, _, kind in rows}
    served = {
        name: expression for name, expression in defaults.items()
        if name not in known and {sql.identifier(word) for word in sql.tokens(expression)} & {*used}
    }  # fmt: skip
    if not served:
        return f"No column of the table needs it: {' '.join(f'--skip {n}' for n in used)}"
    computed = [name for name in served if kinds[name] != "DEFAULT"]
    read = [(name, types.get(name, "String")) for name in known]
    select = None if computed else tried_select(
        used, lambda named: [f"{served[name]} AS {named(name)}" for name in served], read, {}, ask,
    )  # fmt: skip
    if select is None:
        return (
            "Load the rows into a table of their own with --table NAME, and let INSERT SELECT "
            f"compute {', '.join(computed or served)} of them."
        )
    typed = type_options([(name, types[name]) for name in used])
    return f"Select what the table computes of it: {typed} {select}"


def _of_columns(types: Sequence[str], sample: SourceSample) -> list[ColumnFacts] | None:
    """Return the facts about each column of a file without names; None where their number differs.

    Tuples may take several fields each.
    """
    if len(types) == len(sample.columns):
        return list(sample.columns)
    *first, total = first_fields(types)
    csv = sample.encoding.is_csv
    return [sample.columns[n] for n in first] if csv and total == len(sample.columns) else None


def _takes(rows: Rows, names: Sequence[str], encoding: Encoding) -> list[tuple[str, str]]:
    """Return (name, type) of the existing table's columns that a row of the source fills."""
    takes = [(str(n), str(t)) for n, t, k in rows if k in ("", "DEFAULT")]
    fields = first_fields([t for _, t in takes])[-1] if encoding.format == "CSV" else len(takes)
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


def _declared(declared: Schema, encoding: Encoding, source: Source) -> SourceSample:
    """Return the columns that the source declares in the form of a sample, without reading rows."""
    columns = tuple(
        ColumnFacts(c.name, DeclaredType(c.type, parse_type(c.type).base == "Array", why=c.reason))
        for c in declared.columns
    )
    notes = tuple(note for note in declared.notes if note[0] != "ORDER BY")
    return SourceSample(encoding, columns, (), source.text, notes)


# --- generators -------------------------------------------------------------------------------


def _made(made: Schema, options: Options, ask: RunSelect, existing: Rows | None) -> Schema:
    """Return a generator's own schema, with the layout that the user asks for."""
    asked, own = read_asked(options, ask)
    if asked.columns or asked.types:
        raise UsageError("a generator knows its columns", hint="Leave out --schema and --type.")
    if own.any:
        made = _made_and_selected(made, own, ask, existing)
    if existing is None:
        return replace(
            made,
            layout=replace(
                made.layout,
                engine=asked.engine or made.layout.engine,
                order_by=asked.order_by or made.layout.order_by,
                partition_by=asked.partition_by or made.layout.partition_by,
            ),
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


def _made_and_selected(
    made: Schema, own: ColumnOptions, ask: RunSelect, existing: Rows | None
) -> Schema:
    """Return a generator's schema with what ``--select`` and ``--where`` make of its rows.

    Raises:
        UsageError: options are about columns of files, or the engine refuses the expressions.
    """
    if own.renames or own.skips or own.added:
        raise UsageError(
            "a generator reads no files, so --rename, --skip and --add-column do nothing",
            hint="Choose and name columns with --select 'a, b AS c'.",
        )
    names = ", ".join(sql.name(column.name) for column in made.columns)
    projection = Projection(
        made.columns, own.select or names, own.where, keep_all=False, limit=own.limit
    )
    table = {str(name): str(type_) for name, type_, *_ in existing or ()}
    own_columns = {column.name: column for column in made.columns}
    columns = [
        replace(
            strict_column(name, name, type_, Kind.TYPED, type_),
            reason=own_columns[name].reason
            if name in own_columns and own_columns[name].type == type_
            else "as --select gives it",
        )
        for name, type_ in selected(projection, ask, table)
    ]
    taken = {column.name for column in columns if column.name in own_columns}
    layout = {
        sql.identifier(word)
        for word in sql.tokens(f"{made.layout.order_by} {made.layout.partition_by}")
    }
    if layout & set(own_columns) <= taken:
        return replace(made, columns=tuple(columns), projection=projection)
    notes = (
        *(note for note in made.notes if note[0] != "ORDER BY"),
        ("ORDER BY", "its key is not loaded"),
    )
    return replace(
        made,
        columns=tuple(columns),
        projection=projection,
        layout=replace(made.layout, order_by="tuple()", partition_by=""),
        notes=notes,
    )


def _cast(made: Column, type_: str) -> Column:
    if type_ == made.type:
        return made
    source = made.source or made.name
    return strict_column(made.name, source, type_, Kind.TYPED, made.type)


# --- the type of a column by its sample -----------------------------------------------------------


_ID_NAME = regex(r"(?i:(^|[_ .-])(id|key|no|nr|number))$|[a-z](Id|ID|Key|No|Nr|Number)$")
_VERSION = regex(r"(?i:(^|[_ .-])(version|ver|semver)$)|[a-z](Version|Ver)$")
# Of these 1.9 and 1.10 are proof, and a number alone is none: a cross section is one.
_SECTION = regex(
    r"(?i:(^|[_ .-])(section|chapter|clause|paragraph|release|revision)$)"
    r"|[a-z](Section|Chapter|Clause|Paragraph|Release|Revision)$"
)
# The least or the greatest text of a column: longer than what is counted as an integer.
_LONG = regex(r"[-+]?\d{39,}")
EXACT = 2**53
"""Integers beyond it have no Float64 of their own."""
HEADROOM = 64
"""Headroom of integers of few values: 0 and 1 fit Int8, up to 511 fit Int16."""
SOME_ROWS = 100
"""Below this many rows nobody can tell a counter from small numbers."""


def infer_type(
    found: ColumnFacts, sample: SourceSample, *, json_type: bool = True, times: TimeRange = WIDE
) -> tuple[str, str]:
    """Return (type, reason) for one column: the narrowest type that is safe by the sample.

    Args:
        json_type: the target has the type JSON.
        times: that the target holds.
    """
    if sample.encoding.kind is Kind.TYPED:
        return _keep_declared(found, sample)
    if found.declared.type and sample.encoding.kind is Kind.TEXT:
        return found.declared.type, found.declared.why
    if found.declared.nested:
        return _nested(found, json_type=json_type)
    if not found.filled and found.values.hollow:
        return _string(found, sample, "")  # a column of blanks alone: nothing says that it is NULL
    if not found.filled:
        return "Nullable(String)", f"empty in all {found.values.rows:,} rows seen"
    type_, reason = _bare_type(found, sample)
    if parse_type(type_).base in TIMES and not times.holds(found.times.first, found.times.last):
        # As String it takes whatever the file holds.
        seen = f"{found.times.first[:10]}..{found.times.last[:10]} seen"
        reason = f"{seen}, which its times do not reach"
        type_ = "String"
    if type_ == "String":
        return _string(found, sample, found.declared.why or reason)
    empty = found.values.nulls + found.values.blanks + found.values.hollow
    if empty:
        return f"Nullable({type_})", f"{reason}; {empty:,} of {found.values.rows:,} empty"
    if _may_lack(found, sample):
        return f"Nullable({type_})", f"{reason}; any line may lack it"
    return type_, reason


def _may_lack(found: ColumnFacts, sample: SourceSample) -> bool:
    """Tell whether lines of a log may lack a value that all lines of the sample have."""
    dialect = sample.encoding.dialect
    form = dialect.lines[:1] if dialect is not None else ()
    return form == ("logfmt",) or (
        form in (("common",), ("combined",)) and found.name not in log_forms.ALWAYS
    )


def _nested(found: ColumnFacts, *, json_type: bool) -> tuple[str, str]:
    """Return (type, reason) for objects and arrays of JSON: JSON or text where no other type fits.

    Args:
        json_type: the target has the type JSON.
    """
    type_, why = found.declared.type, found.declared.why
    if found.values.nulls and type_ not in (json_objects.JSON, json_objects.TEXT):
        type_ = found.declared.nullable
        why = "null or missing in some rows, which no nested type takes"
        why += ": kept as JSON text" if type_ == json_objects.TEXT else ""
    if type_ == json_objects.JSON and not json_type:
        type_ = json_objects.TEXT
        why = f"{why.split(':')[0]}; the target has no JSON type: kept as JSON text"
    return (f"Nullable({type_})" if found.values.nulls else type_), why


def _bare_type(found: ColumnFacts, sample: SourceSample) -> tuple[str, str]:
    if found.kinds.integers == found.filled:
        if found.numbers.zeros:
            return "String", "numbers with leading zeros"
        if found.numbers.plus:
            return "String", "numbers with a plus sign, which an integer would lose"
        return _counted(found, sample)
    if found.kinds.floats == found.filled and not found.numbers.zeros:
        if found.numbers.likely_code:
            return "String", f"{found.numbers.code_text} may be a code"
        if _are_versions(found):
            return "String", "versions or sections: 1.10 is not 1.1"
        if found.kinds.integers > 0 and found.numbers.largest > EXACT:
            return "String", "integers beyond 2^53 among fractions: Float64 would change them"
        if found.numbers.plus:
            return "String", "integers with a plus sign, which a number would lose"
        if is_long(found):
            return "String", "integers of more than 38 digits: Float64 would change them"
        return "Float64", "fractions seen; 15 digits are kept"
    if found.kinds.booleans == found.filled:
        return "Bool", "true and false seen"
    if found.kinds.uuids == found.filled:
        return "UUID", "only UUIDs seen"
    if found.kinds.days == found.filled:
        early, late = found.times.first, found.times.last
        narrow = early >= "1970-01-01" and late < "2130-01-01"
        return ("Date" if narrow else "Date32"), f"{early}..{late} seen"
    if found.kinds.moments == found.filled and found.times.alike(found.filled):
        if found.times.with_z and not found.times.with_t:
            return "String", "times that end in Z without a T"
        return _moment(found)
    return "String", ""


def _are_versions(found: ColumnFacts) -> bool:
    """Tell whether fractions are numbers of versions or sections, in which a last 0 counts."""
    if _VERSION.search(found.name):
        return True
    return bool(_SECTION.search(found.name)) and loses_zeros(found)


def is_long(found: ColumnFacts) -> bool:
    """Tell whether the numbers are integers with more digits than any type of numbers keeps."""
    ends = (found.times.first, found.times.last)
    return found.kinds.floats == found.filled and any(map(_LONG.fullmatch, ends))


def loses_zeros(found: ColumnFacts) -> bool:
    """Tell whether zeros at the end of fractions look like a part of them, as in 1.9 and 1.10.

    Programs write the same number of places in each row, or no zeros behind the last digit but .0.
    """
    return bool(found.numbers.zeroed) and found.numbers.tenths > 0


def _counted(found: ColumnFacts, sample: SourceSample) -> tuple[str, str]:
    """Return the type of integers: one that the next file fits, too.

    It has 64 bits, whatever the sample shows: 3,000 rows of 1 to 90 say nothing of next month's
    file, and compressed, the bytes that are 0 cost next to nothing. ``--narrow`` takes less where
    the values allow it, the narrowest type where the sample is all the data.
    """
    low, high = found.numbers.low, found.numbers.high
    shown = f"{low:,}..{high:,} seen"
    wide, how = _integer(low, high)
    if not sample.narrow:
        return wide, f"{shown}, {how}"
    if _ID_NAME.search(found.name):
        return wide, f"{shown}, {how}: a key"
    if found.filled < SOME_ROWS:
        return wide, f"{shown}, {how}: {units.counted(found.filled, 'value')} tell little"
    # Counters may start anew in every file, so each sampled file may show the same numbers.
    if found.values.distinct > 0.9 * found.filled / len(sample.splits):
        return wide, f"{shown}, {how}: almost all different, may grow"
    if sample.whole:
        type_, how = _integer(low, high, 2)
        return type_, f"{shown} in all the data, {how}"
    if found.values.distinct > LOW_SHARE * found.filled:
        type_, how = _integer(low, max(high, 2**29), 2, signed=True)
        return type_, f"{shown}, {found.values.distinct:,} different: {how}"
    type_, how = _integer(low, high, HEADROOM, signed=True)
    return type_, f"{shown} in a sample: {how}"


def _integer(low: int, high: int, room: int = 0, *, signed: bool = False) -> tuple[str, str]:
    """Return the narrowest type in which ``room`` times the values fit, and half a sentence.

    Args:
        room: 0 for a type of 64 bits.
        signed: negative numbers may come, even where there is none.
    """
    for bits in (8, 16, 32, 64) if room else ():
        sign = "" if low < 0 or signed else "U"
        most = (2 ** (bits - (1 if low < 0 or signed else 0)) - 1) // room
        if high <= most and low >= -most:
            return f"{sign}Int{bits}", f"fits {sign}Int{bits} with room"
    if low >= -(2**63) and high < 2**63:
        return "Int64", "fits Int64"
    if low >= 0 and high < 2**64:
        return "UInt64", "too large for Int64"
    return "String", "too long for 64 bits"


def _moment(found: ColumnFacts) -> tuple[str, str]:
    times = found.times
    span = f"{times.first[:19]}..{times.last[:19]} seen"
    zone = "they end in Z" if times.with_z else "no zone is written, UTC prints them as they are"
    digits = next((d for d in (0, 3, 6, 9) if d >= times.digits), None)
    if digits is None or (digits == 9 and not "1900" <= times.first < times.last < "2262"):
        return "String", "more digits of a second than DateTime64 holds"
    if digits == 0 and times.first >= "1970-01-01" and times.last < "2100":
        return "DateTime('UTC')", f"{span}; {zone}"
    return f"DateTime64({digits}, 'UTC')", f"{span}; {zone}"


def _string(found: ColumnFacts, sample: SourceSample, reason: str) -> tuple[str, str]:
    text = sample.encoding.kind is Kind.TEXT
    empty = found.values.nulls + found.values.blanks if text else found.values.nulls
    csv = sample.encoding.is_csv
    words = sample.encoding.dialect is not None and sample.encoding.dialect.nulls
    # Words for NULL are rewritten to unquoted empty fields: these are NULL where words are named.
    null = found.values.marks > 0 if csv and not words else found.values.nulls > 0
    if empty * 2 > found.values.rows or (found.optional and text) or _may_lack(found, sample):
        null = True
    inner = "Nullable(String)" if null else "String"
    why = [reason, f"{empty:,} of {found.values.rows:,} empty" if null else ""]
    if _is_low(found):
        inner = f"LowCardinality({inner})"
        why.append(f"{found.values.distinct:,} distinct values in {found.values.rows:,} rows")
    return inner, "; ".join(w for w in why if w) or "text"


def _is_low(found: ColumnFacts) -> bool:
    few = found.values.distinct <= min(LOW_MOST, LOW_SHARE * found.values.rows)
    return found.values.rows >= ENOUGH_ROWS and few


def _keep_declared(found: ColumnFacts, sample: SourceSample) -> tuple[str, str]:
    declared = parse_type(found.declared.type)
    if declared.base == "String" and _is_low(found):
        keeps = declared.nullable and found.name not in sample.nulls.filled
        inner = "Nullable(String)" if keeps else "String"
        return (
            f"LowCardinality({inner})",
            f"{found.values.distinct:,} distinct values in {found.values.rows:,}",
        )
    if declared.nullable and found.name in sample.nulls.filled and not found.optional:
        return declared.bare, f"declared {found.declared.type}, but no row holds a NULL"
    return found.declared.type, "declared in the file"


# --- what a number does not keep of its text ------------------------------------------------------


def number_notes(
    columns: Sequence[Column], sampled: Sequence[ColumnFacts], given: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the notes about numbers whose text says more, or something else.

    Args:
        sampled: the columns of the source.
        given: names of columns whose type the user has chosen.
    """
    known = {found.source: found for found in sampled}
    for made in columns:
        found, type_ = known.get(made.source), parse_type(made.type)
        if found is None:
            continue
        if found.numbers.rounded and type_.base == "Float64":
            yield UNSURE, _rounding(made, found)
        if made.name in given:
            continue
        code = found.numbers.code_text
        if type_.base == "Float64" and (
            kept := found.numbers.zeroed if loses_zeros(found) else code
        ):
            flags = type_options([(made.name, _like("String", made))])
            yield (
                UNSURE,
                f"{made.name} holds {kept}, which is read as the number {_shown(float(kept))}; "
                f"{flags} keeps it as it is written",
            )
            yield OTHERWISE, flags
        if type_.base == "String" and is_long(found):
            yield (
                UNSURE,
                f"text as it is written: {made.name}, integers of more digits than a number keeps",
            )
            continue
        fractions = 0 < found.kinds.integers < found.filled == found.kinds.floats
        if type_.base == "String" and fractions and found.numbers.largest > EXACT and not code:
            flags = type_options([(made.name, _like("Float64", made))])
            yield (
                UNSURE,
                f"text as it is written: {made.name}, integers beyond 2^53 among fractions; "
                f"{flags} makes numbers of 15 digits of it",
            )
            yield OTHERWISE, flags
            continue
        if type_.base == "String" and code and found.kinds.floats == found.filled:
            why = f'text as it is written: {made.name} for "{code}", which may be a code'
            if found.numbers.code.startswith("~") or found.numbers.zeros:
                yield UNSURE, why  # some are no number
                continue
            nullable = found.values.nulls + found.values.blanks + found.values.hollow > 0
            flags = type_options([(made.name, "Nullable(Float64)" if nullable else "Float64")])
            yield UNSURE, f"{why}; {flags} makes numbers of it"
            yield OTHERWISE, flags


def blank_notes(
    columns: Sequence[Column], sampled: Sequence[ColumnFacts], given: Collection[str], *,
    there: bool,
) -> Iterator[tuple[str, str]]:  # fmt: skip
    """Yield the note about fields of blanks alone, which are NULL in all columns but text.

    Args:
        sampled, given: see :func:`number_notes`. ``there``: the table is, with its types.
    """
    hollow = {found.source for found in sampled if found.values.hollow}
    names = []
    for made in columns:
        type_ = parse_type(made.type)
        if made.source in hollow and type_.nullable and not type_.text:
            names.append(made.name)
    if not names:
        return
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    text = f"fields of blanks alone are NULL in {', '.join(names[:4])}{more}"
    free = [] if there else [name for name in names if name not in given]
    if free:
        text += f"; {type_options([(free[0], 'String')])} keeps it as it is written"
    yield "words", text


def _rounding(made: Column, found: ColumnFacts) -> str:
    """Return the sentence about a column of floats that lose digits of a value seen."""
    numbers = found.numbers
    # A few digits more than those seen, and room for 20 before the point.
    scale = min(numbers.places + 2, 56)
    type_ = "String" if numbers.exponents else f"Decimal({max(38, scale + 20)}, {scale})"
    return (
        f"Float64 keeps {float(numbers.rounded)!r} of {numbers.rounded} in {made.name}; "
        f"{type_options([(made.name, _like(type_, made))])} keeps all digits"
    )


def _shown(number: float) -> str:
    return f"{number:.0f}" if number.is_integer() and number < 1e15 else repr(number)


def _like(type_: str, made: Column) -> str:
    """Return a type that takes NULL where that of a column does."""
    return f"Nullable({type_})" if parse_type(made.type).nullable else type_
