"""What a sample of the source shows: header, names, and facts about each column's values.

One query for the first lines, one DESCRIBE where the format names its columns, and one query
with about ten aggregates per column (51 columns, 20,000 rows: 0.2 s).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rowfall import header, sql
from rowfall.codec import BOM, Evidence, parse_type, reader_settings
from rowfall.errors import DataError, RowfallError, SourceError
from rowfall.header import Ask
from rowfall.model import Encoding, Kind, Listing, Split
from rowfall.sources.base import Source
from rowfall.sqltext import SqlText, quote

FILES, ROWS = 8, 20_000
"""Objects looked at, rows of all of them together."""
VALID_LINES = 1_000
"""Lines of broken JSON that are looked at: they travel inside the statement."""
VALUES = 400_000
"""Wide tables are looked at in fewer rows: 51 columns of 20,000 took 0.4 s of every start."""


@dataclass(frozen=True, slots=True)
class Found:
    """Facts about one column of the sample; counts are of rows.

    Attributes:
        name: in the source; ``declared`` its type there (formats with types and JSON).
        nested: an array, map, tuple or other type that is passed through.
        nulls: NULL or missing, unquoted empty CSV fields among them; ``marks`` are written \\N.
        blanks: the empty string; ``filled`` all the others.
        zeros: numbers with leading zeros.
        bom: the first column of a file that starts with a byte order mark.
        first, last: least and greatest text of dates and times; ``digits`` after the second.
    """

    name: str
    declared: str = ""
    nested: bool = False
    rows: int = 0
    nulls: int = 0
    blanks: int = 0
    marks: int = 0
    padded: int = 0
    breaks: int = 0
    swallowed: int = 0
    distinct: int = 0
    bytes_each: float = 16.0
    integers: int = -1
    zeros: int = 0
    low: int = 0
    high: int = 0
    floats: int = -1
    infinite: int = 0
    booleans: int = -1
    uuids: int = -1
    days: int = -1
    moments: int = -1
    with_t: int = 0
    with_z: int = 0
    digits: int = 0
    first: str = ""
    last: str = ""
    bom: bool = False

    @property
    def filled(self) -> int:
        return self.rows - self.nulls - self.blanks

    def evidence(self, encoding: Encoding) -> Evidence:
        """What the codec may rely on."""
        shape = "Z" if self.with_z else "T" if self.with_t else ""
        if self.filled and self.days == self.filled:
            shape = "date"
        elif self.filled and self.integers == self.filled:
            shape = "epoch"
        return Evidence(
            blank=self.blanks + (0 if encoding.null else self.marks) > 0
            and encoding.kind is not Kind.TYPED,
            padded=self.padded > 0 and encoding.kind is Kind.TEXT,
            shape=shape,
            infinite=self.infinite > 0,
            breaks=self.breaks > 0 and not self.swallowed,
            bom=self.bom,
            native=bool(encoding.null),
            nonzero=0 < self.filled == self.integers and (self.low > 0 or self.high < 0),
        )


@dataclass(frozen=True, slots=True)
class Survey:
    """The sample: ``encoding`` says whether there is a header, ``example`` names one object."""

    encoding: Encoding
    columns: tuple[Found, ...]
    splits: tuple[Split, ...]
    example: str
    notes: tuple[tuple[str, str], ...] = field(default=())


def look(
    source: Source,
    listing: Listing,
    encoding: Encoding,
    ask: Ask,
    *,
    fixed: bool,
    tolerant: bool = False,
) -> Survey:
    """Look at up to :data:`FILES` objects.

    Args:
        fixed: the user has named the format.
        tolerant: bad rows will be left out, so lines that are not JSON are passed over here.

    Raises:
        SourceError: there is nothing to look at.
        UsageError: the objects differ in header or column count.
    """
    splits = tuple(source.sample(listing, FILES))
    if not splits:
        raise SourceError(f"{source.text} holds no data to infer columns from")
    notes: tuple[tuple[str, str], ...] = ()
    if encoding.kind is Kind.TEXT:
        encoding, names, marked, notes = header.read(source, splits, encoding, ask, fixed)
        columns = [Found(name, guess) for name, guess in names]
        # The reader takes the mark away in front of a header only.
        columns[0] = replace(columns[0], bom=marked and not encoding.has_names)
        found = _measure(source.relation, splits, encoding, columns, ask)
        if encoding.format.startswith("CSV"):
            encoding = replace(
                encoding,
                null="\\N" if any(c.marks for c in found) else "",
                # Numbers with blanks around them are trimmed by their own expression.
                keep_blanks=any(c.padded for c in found),
            )
        return Survey(encoding, found, splits, splits[0].uri, notes)
    relation: Relate = source.relation
    read = splits
    if tolerant and encoding.kind is Kind.JSON:
        relation, read = _valid_lines(source, splits, encoding, ask), splits[:1]
    try:
        columns = _described(relation, read, encoding, ask)
    except RowfallError as error:
        if encoding.kind is not Kind.JSON or not source.replayable:
            raise
        raise _broken_line(source, splits, encoding, ask) or error from None
    found = _measure(relation, read, encoding, columns, ask)
    return Survey(encoding, found, splits, splits[0].uri, notes)


def settings(encoding: Encoding, *, strict: bool = False) -> dict[str, str | int | float]:
    """Reader settings of a probe: strict as a load, or reading all that can be read."""
    chosen = {s.name: s.value for s in reader_settings(encoding)}
    if not strict and encoding.kind is Kind.TEXT:
        kind = "csv" if encoding.format.startswith("CSV") else "tsv"
        chosen[f"input_format_{kind}_allow_variable_number_of_columns"] = 1
    # A parser per file that stops at the LIMIT, not one that reads ahead on all cores.
    return {
        **chosen, "input_format_skip_unknown_fields": 1, "input_format_parallel_parsing": 0,
        "max_block_size": ROWS // FILES, "max_threads": 4,
        "compile_expressions": 0, "compile_aggregate_expressions": 0,
    }  # fmt: skip


Relate = Callable[[Sequence[Split], Encoding | None, str], SqlText]
"""``Source.relation``, or what stands in for it."""


def _valid_lines(source: Source, splits: Sequence[Split], encoding: Encoding, ask: Ask) -> Relate:
    """A relation of the JSON objects among the first lines of the splits, as one text."""
    lines = replace(encoding, format="LineAsString")
    limit = max(VALID_LINES // len(splits), 1)
    parts: list[str | SqlText] = []
    for split in splits:
        parts += [" UNION ALL " if parts else "", "SELECT line FROM "]
        parts += [source.relation([split], lines, "`line` String"), f" LIMIT {limit}"]
    query = SqlText.of(
        "SELECT line FROM (", *parts, ") WHERE isValidJSON(line) AND JSONType(line) = 'Object'"
    )
    rows = ask(query, {"max_threads": 4, "input_format_parallel_parsing": 0})
    text = quote("\n".join(str(row[0]) for row in rows))

    def relation(splits: Sequence[Split], encoding: Encoding | None, structure: str) -> SqlText:
        columns = f"{quote(structure)}, " if structure else ""
        return SqlText.of(f"format(JSONEachRow, {columns}{text})")

    return relation


def _broken_line(
    source: Source, splits: Sequence[Split], encoding: Encoding, ask: Ask
) -> DataError | None:
    """The first line that is no JSON object, by object and number; None when there is none."""
    lines = replace(encoding, format="LineAsString")
    for split in splits:
        relation = source.relation([split], lines, "`line` String")
        query = SqlText.of(
            "SELECT n, substringUTF8(line, 1, 60) FROM (SELECT rowNumberInAllBlocks() + 1 AS n, "
            "line FROM ", relation, ") WHERE notEmpty(trimBoth(line, ' \\t\\r')) "
            "AND NOT (isValidJSON(line) AND JSONType(line) = 'Object') LIMIT 1",
        )  # fmt: skip
        for number, text in ask(query, {"max_threads": 1, "input_format_parallel_parsing": 0}):
            return DataError(
                f"{split.uri} line {number} is not a JSON object: {text}",
                uri=split.uri, line=int(number), value=str(text),
                hint="Correct the file, or leave bad rows out with --max-errors N.",
            )  # fmt: skip
    return None


def sample_relation(
    relate: Relate,
    splits: Sequence[Split],
    encoding: Encoding,
    columns: Sequence[tuple[str, str]],
    limit: int = 0,
) -> SqlText:
    """The first rows of every split, as one relation; ``limit`` rows of each."""
    limit = limit or max(ROWS // len(splits), 1)
    names = ", ".join(sql.name(n) for n, _ in columns)
    parts: list[str | SqlText] = []
    for split in splits:
        relation = relate([split], encoding, sql.structure(columns))
        parts += [" UNION ALL " if parts else "", f"SELECT {names} FROM ", relation]
        parts += [f" LIMIT {limit}"]
    return SqlText.of("(", *parts, ")")


# --- columns ----------------------------------------------------------------------------------


def _described(
    relate: Relate, splits: Sequence[Split], encoding: Encoding, ask: Ask
) -> list[Found]:
    """Names and types as the engine tells them; the keys of all sampled files for JSON."""
    fixed: dict[str, str | int | float] = {
        "input_format_try_infer_dates": 0, "input_format_try_infer_datetimes": 0,
        "input_format_json_try_infer_numbers_from_strings": 0, "use_hive_partitioning": 0,
        "schema_inference_make_columns_nullable": 3, "input_format_parallel_parsing": 0,
        "input_format_max_rows_to_read_for_schema_inference": ROWS // 4,
        "input_format_json_infer_incomplete_types_as_strings": 1,
    }  # fmt: skip
    if encoding.kind is Kind.JSON:
        fixed["schema_inference_mode"] = "union"
        fixed["schema_inference_make_columns_nullable"] = 1
        # Every sampled file adds its keys, so each gives fewer rows.
        fixed["input_format_max_rows_to_read_for_schema_inference"] = ROWS // FILES
    else:
        splits = splits[:1]
    rows = ask(SqlText.of("DESCRIBE TABLE ", relate(splits, encoding, "")), fixed)
    columns = []
    for row in rows:
        type_ = parse_type(str(row[1]))
        nested = type_.base in ("Array", "Tuple", "Map", "JSON", "Object", "Variant", "Dynamic")
        nested = nested or type_.base == "Nested"
        declared = str(row[1]) if encoding.kind is Kind.TYPED or nested else type_.bare
        columns.append(Found(str(row[0]), declared, nested))
    if not columns:
        raise SourceError(f"{splits[0].uri} holds no columns")
    return columns


def _measure(
    relate: Relate,
    splits: Sequence[Split],
    encoding: Encoding,
    columns: Sequence[Found],
    ask: Ask,
) -> tuple[Found, ...]:
    """Facts about every column, in one query."""
    plain, wanted = [], []
    items = ["count()"]
    for column in columns:
        group = _group(column, encoding)
        read = column.declared if group == "typed" else "Nullable(String)"
        plain.append((column.name, read))
        x = sql.name(column.name)
        x = f"if(startsWith({x}, '{BOM}'), substring({x}, 4), {x})" if column.bom else x
        facts = _facts(x, column, group, len(columns), encoding)
        wanted.append([name for name, _ in facts])
        items += [text for _, text in facts]
    limit = max(min(ROWS, VALUES // len(columns)) // len(splits), 1)
    relation = sample_relation(relate, splits, encoding, plain, limit)
    chosen = {**settings(encoding), "max_block_size": limit}
    (row,) = ask(SqlText.of(f"SELECT {', '.join(items)} FROM ", relation), chosen)
    rows, values = int(row[0]), iter(row[1:])
    made = []
    for column, names in zip(columns, wanted, strict=True):
        given = {name: next(values) for name in names}
        if encoding.kind is Kind.TEXT:
            given["declared"] = ""
        for name in ("low", "high"):
            if name in given:
                given[name] = int(given[name] or 0)
        made.append(replace(column, rows=rows, **{k: v for k, v in given.items() if v is not None}))
    return tuple(made)


def _group(column: Found, encoding: Encoding) -> str:
    """Which facts are worth asking for."""
    if encoding.kind is Kind.TYPED:
        return "typed"
    if column.nested:
        return "nested"
    if encoding.kind is Kind.TEXT:
        return column.declared or "any"
    base = parse_type(column.declared)
    if base.base == "Bool":
        return "bool"
    # What is written in quotes stays text, even digits; only times and UUIDs have no type in JSON.
    return "number" if base.bits or base.base == "Float64" else "quoted"


def _facts(
    x: str, column: Found, group: str, width: int, encoding: Encoding
) -> list[tuple[str, str]]:
    """(field of Found, aggregate) for one column."""
    if group == "nested":
        return [("nulls", f"countIf(isNull({x}))"), ("bytes_each", f"avg(byteSize({x}))")]
    if group == "typed":
        distinct = "0" if column.nested else f"uniq({x})"
        return [("nulls", f"countIf(isNull({x}))"), ("distinct", distinct),
                ("bytes_each", f"avg(byteSize({x}))")]  # fmt: skip
    text = encoding.kind is Kind.TEXT
    t = f"trimBoth({x}, ' \\t')" if text else x
    null = f"isNull({x}) OR {x} = '\\\\N'" if text else f"isNull({x})"
    facts = [("nulls", f"countIf({null})"), ("blanks", f"countIf({x} = '')"),
             ("distinct", f"uniq({x})"),
             ("bytes_each", f"avg(length(ifNull({x}, '')))")]  # fmt: skip
    if text:
        facts.append(("marks", f"countIf({x} = '\\\\N')"))
        facts.append(("padded", f"countIf({x} != {t})"))
    if text and encoding.format.startswith("CSV"):
        facts.append(("breaks", f"countIf(position({x}, '\\n') > 0)"))
        if width > 1:
            commas = f"countSubstrings(l, {sql.literal(encoding.delimiter)}) = {width - 1}"
            lines = f"splitByChar('\\n', ifNull({x}, ''))"
            swallowed = f"position({x}, '\\n') > 0 AND arrayCount(l -> {commas}, {lines}) > 1"
            facts.append(("swallowed", f"countIf({swallowed})"))
    if group in ("number", "any"):
        whole, real = f"accurateCastOrNull({t}, 'Int128')", f"accurateCastOrNull({t}, 'Float64')"
        facts += [
            ("integers", f"countIf(match({t}, '^[-+]?[0-9]{{1,38}}$'))"),
            ("zeros", f"countIf(match({t}, '^[-+]?0[0-9]'))"),
            ("low", f"toString(min({whole}))"), ("high", f"toString(max({whole}))"),
            ("floats", f"count({real})"), # 1e400 is no infinity but a number too large.
            ("infinite", f"countIf(isInfinite({real}) AND match({t}, '(?i)inf'))"),
        ]  # fmt: skip
    if group in ("time", "any", "quoted"):
        shape = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\\\\.[0-9]+)?Z?$"
        day = f"substring({t}, 1, 10)"
        real = f"toString(toDate32OrNull({day})) = {day}"
        facts += [
            ("days", f"countIf(length({t}) = 10 AND {real})"),
            ("moments", f"countIf(match({t}, '{shape}') AND {real})"),
            ("with_t", f"countIf(match({t}, '{shape}') AND position({t}, 'T') = 11)"),
            ("with_z", f"countIf(match({t}, '{shape}') AND endsWith({t}, 'Z'))"),
            ("digits", f"max(length(extract({t}, '^.{{19}}\\\\.([0-9]+)')))"),
            ("first", f"minIf({t}, {t} != '')"), ("last", f"max({t})"),
        ]  # fmt: skip
    if group in ("bool", "any"):
        facts.append(("booleans", f"countIf(lower({t}) IN ('true', 'false'))"))
    if group in ("uuid", "any", "quoted"):
        facts.append(("uuids", f"countIf(toString(toUUIDOrNull({t})) = lower({t}))"))
    return facts
