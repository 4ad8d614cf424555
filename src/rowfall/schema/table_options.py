"""Options that describe a new table, and those about columns, with what they make of a sample.

Of ``--schema``, ``--schema-file``, ``--type`` and the layout plain columns are known here; all else
the engine itself parses, so every type that it knows is understood.

A column of the source that is renamed stays what it is. Where columns are left out of text, come
from the names of files, or are computed, the schema gets a :class:`Projection`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from pathlib import Path

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, UsageError, headline
from rowfall.core.listing import Listing
from rowfall.core.model import Column, Kind, Projection, ValueCheck
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import ERROR, Options, condition_of
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.time_range import WIDE, TimeRange
from rowfall.core.type_names import arguments, parse_type, without_nested
from rowfall.schema import projection
from rowfall.schema.bad_rows.data_errors import type_options
from rowfall.schema.column_facts import ColumnFacts, RunSelect
from rowfall.schema.projection import FILE_COLUMNS
from rowfall.schema.sampling import SourceSample
from rowfall.schema.types.strict_reading import FileTraits, TextTraits, strict_column

_CLAUSE = regex(r"(ENGINE = |PARTITION BY |ORDER BY |PRIMARY KEY |SETTINGS |TTL |SAMPLE BY )")
_NOT_COLUMNS = ("INDEX", "PROJECTION", "CONSTRAINT", "PRIMARY KEY")


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The wanted columns and layout of a new table.

    Attributes:
        columns: (name, type) of all of them, () where they are to be inferred.
        types: of single columns, the others stay inferred.
        engine, order_by, partition_by: as SQL, "" where they are not given.
        json_type: the target has the type JSON; ``null_tuples``: Nullable(Tuple); ``time_types``:
            Time and Time64.
        times: days and points in time that the target holds.
        clauses: more of them, as they stand behind ORDER BY.
    """

    columns: tuple[tuple[str, str], ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    engine: str = ""
    order_by: str = ""
    partition_by: str = ""
    json_type: bool = True
    null_tuples: bool = True
    time_types: bool = True
    times: TimeRange = WIDE
    clauses: tuple[str, ...] = ()


def read_asked(
    options: Options, ask: RunSelect, annotations: Sequence[str] = ()
) -> tuple[TableOptions, ColumnOptions]:
    """Read the options that describe the table, and those about its columns.

    Args:
        annotations: added columns that the source writes itself.

    Raises:
        UsageError: they contradict each other or make no sense.
    """
    return read_table_options(options, ask), read_column_options(options, annotations)


def read_table_options(options: Options, ask: RunSelect) -> TableOptions:
    """Read the options that describe the table.

    Raises:
        UsageError: they contradict each other or make no sense to the engine.
    """
    text = options.schema or ""
    if options.schema_file:
        if text:
            raise UsageError("--schema and --schema-file both name the columns")
        text = read_text(options.schema_file)
    asked = parse_ddl(text, ask) if text.strip() else TableOptions()
    types = {}
    for name, type_ in named_types(options):
        # The engine makes columns of their own of the elements of a Nested; here it is one.
        found = _describe(f"{sql.name(name)} {without_nested(type_)}", ask)
        if len(found) != 1:
            raise UsageError(
                f"--type {name} {type_!r} is more than one type",
                hint="Write --type once for each column.",
            )
        types[name] = found[0][1]
    _check_brackets("--order-by", options.order_by)
    _check_brackets("--partition-by", options.partition_by)
    return replace(
        asked,
        # A hint with --type is pasted behind the --schema of the command that has failed.
        columns=tuple((name, types.get(name, type_)) for name, type_ in asked.columns),
        types=types,
        engine=options.engine or asked.engine,
        order_by=_key(options.order_by) or asked.order_by,
        partition_by=options.partition_by or asked.partition_by,
    )


def named_types(options: Options) -> Iterator[tuple[str, str]]:
    """Give name and type of each ``--type``, the type as it was written.

    Raises:
        UsageError: one does not consist of a name and a type.
    """
    for item in options.type:
        name, _, type_ = item.strip().partition(" ")
        if quoted := _QUOTED.match(item.strip()):
            name, type_ = sql.identifier(quoted[0]) or "", item.strip()[quoted.end() :]
        if not type_.strip():
            # Other tools write name:Type or name=Type.
            one, _, other = item.replace("=", ":", 1).partition(":")
            meant = f"{one.strip()} {other.strip()}" if other.strip() else "name Type"
            raise UsageError(
                f"--type {item!r} does not name a column and its type",
                hint=f"Write --type {shlex.quote(meant)}.",
            )
        yield name, type_.strip()


_QUOTED = regex(r"`(?:[^`\\]|\\.|``)*`", re.DOTALL)


def _check_brackets(flag: str, text: str | None) -> None:
    """Check that a key closes what it opens: nothing reads it otherwise.

    Raises:
        UsageError: it does not.
    """
    words = sql.tokens(text or "")
    if words.count("(") != words.count(")"):
        raise UsageError(
            f"{flag} {text} opens {words.count('(')} and closes {words.count(')')} brackets",
            hint="It is an expression over the columns of the table.",
        )


def _key(text: str | None) -> str:
    """Return a sorting key, in parentheses where it needs them: ``a, b`` alone is not a tuple."""
    if text and "," in text and not text.strip().startswith(("(", "tuple(")):
        return f"({text})"
    return text or ""


def parse_ddl(text: str, ask: RunSelect) -> TableOptions:
    """Parse a column list, or a CREATE TABLE, in the form that the engine gives it.

    Raises:
        UsageError: neither; or it has what rowfall does not carry over (codecs, indexes, ...).
    """
    if not re.match(r"\s*(--.*\n\s*)*CREATE\s", text, re.I):
        return TableOptions(_describe(text.strip().rstrip(";,"), ask))
    try:
        ((pretty,),) = ask(SqlText.of(f"SELECT formatQuery({quote(text.strip().rstrip(';'))})"), {})
    except RowfallError as error:
        raise UsageError(f"the schema cannot be parsed: {headline(error.message)}") from error
    _head, _, rest = str(pretty).partition("\n(\n")
    body, _, tail = rest.partition("\n)")
    if not body:
        hint = "Write CREATE TABLE t (a Type, ...)."
        raise UsageError("the schema has no column list", hint=hint)
    lines = [line.strip().rstrip(",") for line in body.split("\n")]
    extra = [line for line in lines if line.startswith(_NOT_COLUMNS)]
    parts = _CLAUSE.split(" ".join(tail.split()))
    clauses = {k.strip(" ="): v.strip() for k, v in zip(parts[1::2], parts[2::2], strict=True)}
    if clauses.get("SETTINGS") == "index_granularity = 8192":
        del clauses["SETTINGS"]  # the default, which SHOW CREATE TABLE always adds
    extra += [c for c in ("TTL", "SAMPLE BY") if c in clauses]
    if extra:
        raise UsageError(
            f"the schema holds what a load does not create: {'; '.join(extra)[:200]}",
            hint="Create the table first with rowfall query, then load into it.",
        )
    return TableOptions(
        _describe(", ".join(lines), ask),
        engine=clauses.get("ENGINE", ""),
        order_by=clauses.get("ORDER BY", ""),
        partition_by=clauses.get("PARTITION BY", ""),
        clauses=tuple(f"{c} {clauses[c]}" for c in ("PRIMARY KEY", "SETTINGS") if c in clauses),
    )


def _describe(columns: str, ask: RunSelect) -> tuple[tuple[str, str], ...]:
    """Return (name, type) of a column list as the engine reads it."""
    hint = "Write 'name Type, name Type'; quote odd names in backticks."
    if plain := plain_columns(columns):
        return plain
    try:
        # On one line each, as the catalogue has the types of a table that is there.
        pretty = {"print_pretty_type_names": 0}
        rows = ask(SqlText.of(f"DESCRIBE TABLE null({quote(columns)})"), pretty)
    except RowfallError as error:
        cause = headline(error.message)
        text = f"the columns {columns[:80]!r} make no sense: {cause}"
        raise UsageError(text, hint=hint) from error
    if any(any(row[2:]) for row in rows):
        raise UsageError(
            "the schema holds defaults or codecs, which a load does not create",
            hint="Create the table first with rowfall query, then load into it.",
        )
    return tuple((str(row[0]), str(row[1])) for row in rows)


_FLAT = (
    r"U?Int(?:8|16|32|64|128|256)|Float32|Float64|String|Bool|Date|Date32|UUID|IPv4|IPv6|"
    r"DateTime(?:\('UTC'\))?|DateTime64\([0-9](?:, ?'UTC')?\)|FixedString\([1-9]\d{0,2}\)|"
    r"Decimal\(\d{1,2}, ?\d{1,2}\)"
)
_PLAIN_TYPE = regex(
    rf"(?:{_FLAT})|(?:Nullable|Array)\((?:{_FLAT})\)|LowCardinality\((?:Nullable\()?String\)?\)"
)
_PLAIN_COLUMN = regex(r"(?:`([^`\\]+)`|([A-Za-z_]\w*))\s+(\S.*)", re.ASCII)
_DIGITS = regex(r"Decimal\((\d+), (\d+)\)")


def plain_columns(text: str) -> tuple[tuple[str, str], ...]:
    """Return (name, type) of a column list of plain types, as the engine writes them.

    Returns () where the engine has to read it. It needs 4 ms, and 0.3 s to start.
    """
    found = []
    for part in arguments(text):
        column = _PLAIN_COLUMN.fullmatch(part.strip())
        type_ = regex(r", ?").sub(", ", column[3].strip()) if column else ""
        if column is None or not _PLAIN_TYPE.fullmatch(type_):
            return ()
        if type_.count("(") != type_.count(")") or (column[2] or "").upper() in _WORDS:
            return ()
        decimal = _DIGITS.search(type_)
        if (decimal and not int(decimal[2]) <= int(decimal[1]) <= 76) or "Decimal(0" in type_:
            return ()
        found.append((column[1] or column[2], type_))
    names = [name for name, _ in found]
    return tuple(found) if len({*names}) == len(names) else ()


_WORDS = frozenset({"INDEX", "PROJECTION", "CONSTRAINT", "PRIMARY", "FOREIGN", "UNIQUE"})


def read_text(path: str) -> str:
    """Read a small text file named by the user.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the schema file {path}: {error}") from error


_NOT_AN_ITEM = frozenset((
    "FROM", "WHERE", "PREWHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "UNION",
    "INTERSECT", "SETTINGS", "FORMAT", "INTO", "DISTINCT", "WINDOW", "QUALIFY", "JOIN", "WITH",
    "OVER",
))  # fmt: skip
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
# Steps of an engine's plan that look at several rows, or give another number of them.
_STEPS = regex(
    r"[\s│├└─]*(Aggregating|Window|ArrayJoin|Limit|Offset|Distinct|Sorting|Join|Fill|Extremes)"
)
_MULTIPLY = frozenset(("arrayjoin", "unnest", "explode"))


# --- options about columns ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """Options about columns, as the user gave them.

    Attributes:
        renames: source name -> name.
        skips: source names.
        added: name -> ``_path`` or ``_file``.
        select, where: SQL, "" where nothing is computed or left out; with ``--sample``.
        limit: rows to take, 0 for all.
        on_new, on_missing: what becomes of columns that the table lacks, and that files lack.
    """

    renames: Mapping[str, str]
    skips: frozenset[str]
    added: Mapping[str, str]
    select: str = ""
    where: str = ""
    on_new: str = ERROR
    on_missing: str = ERROR
    limit: int = 0

    @property
    def any(self) -> bool:
        return bool(self.renames or self.skips or self.added or self.computed)

    @property
    def computed(self) -> bool:
        """Tell whether something is made of the rows that are read, or some are left out."""
        return bool(self.select or self.where or self.limit)


def read_column_options(options: Options, annotations: Sequence[str] = ()) -> ColumnOptions:
    """Read the options about columns.

    Args:
        annotations: added columns that the source writes itself.

    Raises:
        UsageError: one makes no sense by itself.
    """
    renames = dict(_pairs(options.rename, "--rename", "OLD=NEW"))
    added = dict(_pairs(options.add_column, "--add-column", "file=_path"))
    added = {name: what for name, what in added.items() if name not in annotations}
    for name, what in added.items():
        if what not in FILE_COLUMNS:
            raise UsageError(
                f"--add-column {name}={what}: {what} is not one of {', '.join(FILE_COLUMNS)}",
                hint="Columns that are computed from others: --select '*, lower(a) AS b'.",
            )
    select, where = (options.select or "").strip(), (options.where or "").strip()
    _check_clause(select, "--select")
    _check_clause(where, "--where")
    return ColumnOptions(
        renames, frozenset(options.skip), added, select, condition_of(options),
        options.on_new_column, options.on_missing_column, options.limit or 0,
    )  # fmt: skip


def check_syntax(options: Options) -> None:
    """Check what can be known of the options about columns without the source.

    Raises:
        UsageError: one makes no sense by itself.
    """
    for texts, flag, example in (
        (options.rename, "--rename", "OLD=NEW"), (options.add_column, "--add-column", "file=_path"),
    ):  # fmt: skip
        list(_pairs(texts, flag, example))
    _check_clause((options.select or "").strip(), "--select")
    _check_clause((options.where or "").strip(), "--where")


def _pairs(texts: Sequence[str], flag: str, example: str) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for text in texts:
        one, equals, other = (part.strip() for part in text.partition("="))
        if not (one and equals and other):
            before, _, behind = (part.strip() for part in text.partition(":"))
            meant = shlex.quote(f"{before}={behind}") if before and behind else example
            raise UsageError(
                f"{flag} {text!r} does not name two columns", hint=f"Write {flag} {meant}."
            )
        if one in seen:
            raise UsageError(f"{flag} names {one!r} twice")
        seen.add(one)
        yield one, other


def _check_clause(text: str, flag: str) -> None:
    """Check that a clause is expressions and nothing else.

    Raises:
        UsageError: it holds another clause, a semicolon or a bracket without its other half.
    """
    depth, hint = 0, "It takes expressions over the columns of the source."
    for word in sql.tokens(text):
        depth += (word in _OPEN) - (word in _CLOSE)
        if word == ";" or word in ("'", "`", '"') or depth < 0:
            raise UsageError(f"{flag} is not complete, or more than expressions: {text}", hint=hint)
        if word.startswith(("--", "/*")):
            raise UsageError(f"{flag} holds a comment: {text}", hint=hint)
        if not depth and word.upper() in _NOT_AN_ITEM:
            raise UsageError(f"{flag} holds {word.upper()}: {text}", hint=hint)
    if depth:
        raise UsageError(f"{flag} has a bracket without an end: {text}", hint=hint)


# --- the columns of the source -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShapedSample:
    """A sample with the columns that the load takes, under the names that they get.

    Attributes:
        sample: without what is left out.
        order: of all columns of the source, those left out among them, as they are in it.
        constants: facts about what the names of files give.
    """

    sample: SourceSample
    order: tuple[ColumnFacts, ...]
    constants: tuple[ColumnFacts, ...]

    @property
    def computed(self) -> bool:
        """Tell whether the columns read are others than those of the table."""
        kept = len(self.sample.columns)
        left_out = kept < len(self.order) and self.sample.encoding.kind is not Kind.TYPED
        return bool(self.constants) or left_out


def shape(
    sample: SourceSample, listing: Listing, asked: ColumnOptions, only: frozenset[str] | None
) -> ShapedSample:
    """Return the sample with its columns renamed, without those left out.

    Args:
        only: the names of the table's columns, where there is a table or a list of them, so that
            what folders say is taken only if it has a place; None: everything is taken.

    Raises:
        UsageError: an option names a column that is not there, or two get one name.
    """
    names = [found.name for found in sample.columns]
    keys = tuple(k for k in projection.folder_keys(listing) if k not in names)
    for flag, given in (("--rename", asked.renames), ("--skip", asked.skips)):
        for name in given:
            if name not in names and name not in keys:
                raise UsageError(
                    f"{flag} names the column {name!r}, which the source does not have",
                    hint=f"{did_you_mean(name, [*names, *keys])}"
                    f"Its columns: {', '.join([*names, *keys][:20])}.",
                )
    order = tuple(
        replace(found, name=asked.renames.get(found.name, found.name), origin=found.name)
        for found in sample.columns
    )
    kept = tuple(found for found in order if found.source not in asked.skips)
    constants, notes = [], list(sample.notes)
    wanted = {key: asked.renames.get(key, key) for key in keys if key not in asked.skips}
    if only is not None and (left := [key for key, name in wanted.items() if name not in only]):
        notes.append(("folders", f"the table has no column for {', '.join(left)}: left out"))
        wanted = {key: name for key, name in wanted.items() if name in only}
    sources = [*wanted.items(), *((what, name) for name, what in asked.added.items())]
    mentioned = {sql.identifier(w) for w in sql.tokens(f"{asked.select} {asked.where}")}
    taken = {found.name for found in kept} | set(asked.added)
    sources += [(w, w) for w in FILE_COLUMNS if w in mentioned and w not in taken]
    for source, name in sources:
        values = set(projection.constants(listing, source))
        constants.append(ColumnFacts(name, origin=source).measured(
            rows=max((c.values.rows for c in kept), default=0), distinct=len(values),
            nulls=int(None in values), bytes_each=len(max((v or "" for v in values), key=len)),
        ))  # fmt: skip
    final = [found.name for found in (*kept, *constants)]
    doubled = next((name for name in final if final.count(name) > 1), None)
    if doubled is not None:
        raise UsageError(
            f"two columns would be named {doubled}",
            hint=f"Give one another name with --rename, or leave it out with "
            f"--skip {shlex.quote(doubled)}.",
        )
    if not final:
        raise UsageError("no column is left to load", hint="Leave out one --skip.")
    shaped = replace(sample, columns=kept, notes=tuple(notes))
    return ShapedSample(shaped, order, tuple(constants))


def constant_type(found: ColumnFacts, listing: Listing) -> tuple[str, str]:
    """Return (type, reason) of what the names of files give: by all of them, not a sample."""
    if found.source in FILE_COLUMNS:
        return "String", "the name of the file"
    values = [v for v in projection.constants(listing, found.source) if v is not None]
    type_ = "LowCardinality(String)"
    if values and all(re.fullmatch(r"0|-?[1-9]\d{0,17}", value) for value in values):
        type_ = "Int64"
    elif values and all(map(_is_day, values)):
        type_ = "Date"
    if found.values.nulls:
        type_ = type_.replace("String", "Nullable(String)")
        type_ = type_ if "String" in type_ else f"Nullable({type_})"
    return type_, f"of the folders {found.source}=..."


def _is_day(text: str) -> bool:
    try:
        return len(text) == 10 and 1970 <= date.fromisoformat(text).year < 2130
    except ValueError:
        return False


def constant_column(found: ColumnFacts, type_: str, reason: str) -> Column:
    """Return a column of type ``type_`` whose values come from the names of files."""
    traits = TextTraits(infinite=True, file=FileTraits(csv=False))
    made = strict_column(found.name, found.source, type_, Kind.TEXT, traits=traits)
    return replace(made, reason=reason)


# --- the projection ------------------------------------------------------------------------------


def project(shaped: ShapedSample, columns: Sequence[Column], asked: ColumnOptions) -> Projection:
    """Return the projection that makes a table's columns of those read.

    Args:
        columns: that are kept of the source and of the names of files, with the names that they
            have in ``--select``.
    """
    encoding = shaped.sample.encoding
    by_source = {column.source: column for column in columns}
    sources = {found.source for found in shaped.constants}
    reads = []
    for number, found in enumerate(shaped.order):
        own = by_source.get(found.source)
        if own is not None:
            reads.append(own)
        elif encoding.kind is not Kind.TYPED:
            reads.append(_unread(found, number, csv=encoding.is_csv, kind=encoding.kind))
    reads += [column for column in columns if column.source in sources]
    return Projection(
        tuple(reads),
        asked.select or ", ".join(sql.name(column.name) for column in columns),
        asked.where,
        tuple(dict.fromkeys(found.source for found in shaped.constants)),
        keep_all=encoding.kind is not Kind.TYPED,
        limit=asked.limit,
    )


def _unread(found: ColumnFacts, number: int, *, csv: bool, kind: Kind) -> Column:
    """Return a column that is read because the reader wants it, and whose values may be any."""
    made = strict_column(
        f"rowfall_skipped_{number}", found.source, "Nullable(String)", kind,
        traits=TextTraits(breaks=True, file=FileTraits(csv)),
    )  # fmt: skip
    return replace(made, expression="", check=ValueCheck())


def selected(made: Projection, ask: RunSelect, table: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (name, type) of what a projection selects, as the engine describes it.

    Args:
        table: types of the columns that the target has or gets, by name.

    Raises:
        UsageError: it makes no sense to the engine, or needs more than the row itself.
    """
    structure = sql.structure((c.name, c.type) for c in made.columns)
    condition = f" WHERE {made.where}" if made.where else ""
    query = f"SELECT {made.select} FROM null({quote(structure)}){condition}"
    try:
        rows = ask(SqlText.of(f"DESCRIBE TABLE ({query})"), {"print_pretty_type_names": 0})
        steps = ask(SqlText.of(f"SELECT explain FROM (EXPLAIN {query})"), {})
    except RowfallError as error:
        raise UsageError(
            f"the engine refuses --select or --where: {headline(error.message)}",
            hint=_columns_hint(made.columns, table),
        ) from None
    odd = [seen[1] for (step,) in steps if (seen := _STEPS.match(str(step)))]
    odd += [word for word in sql.tokens(query) if word.lower() in _MULTIPLY]
    if odd:
        raise UsageError(
            f"--select or --where need more than the row itself ({odd[0]})",
            hint="Rows are loaded file by file: nothing can be sorted, grouped or multiplied.",
        )
    found = [(str(row[0]), str(row[1])) for row in rows]
    for name, type_ in found:
        if parse_type(type_).base == "Nothing":
            raise UsageError(
                f"--select gives {name} no type", hint=f"CAST it: NULL::Int64 AS {sql.name(name)}."
            )
    if len(dict(found)) < len(found):
        raise UsageError("--select gives two columns one name", hint="Name each with AS.")
    return found


def _columns_hint(columns: Sequence[Column], table: Mapping[str, str]) -> str:
    """Return the hint that lists the columns for ``--select`` and ``--where``.

    Args:
        columns: of the source. ``table``: types of the table's columns, by name; options that read
            text as these types are added to the hint.
    """
    listed = ", ".join(f"{c.name} {c.type}" for c in columns[:20])
    hint = f"They are expressions over the columns of the source: {listed}."
    text = [c.name for c in columns if parse_type(c.type).base == "String" and c.name in table]
    other = [(name, table[name]) for name in text if parse_type(table[name]).base != "String"]
    return f"{hint} To read text as the table has it: {type_options(other)}." if other else hint
