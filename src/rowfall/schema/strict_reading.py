"""How each column is read so that a value either arrives unchanged or raises. Pure.

The engine's readers wrap (300 as UInt8 is 44), clip (2200-01-01 as Date is 2149-06-06), cut
(1.239 as Decimal(9,2) is 1.23) and fill in (nothing as UInt8 is 0). So a column is read as a type
in which that cannot happen, and an expression converts it and checks: :func:`strict_column`. The
settings of the readers are as strict, and the same in every version: :func:`reader_settings`.
Measured on chDB 26.9.

Two readings are guesses by the sample that cost less: integers as numbers where none of them is 0,
and line breaks in strings as the sign of a quote never closed. What they refuse may be fine: the
last section gives the schema that reads the same rows without the guess.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from rowfall.core import sql
from rowfall.core.charsets import BOM
from rowfall.core.dataclass import dataclass
from rowfall.core.formats import LAKES
from rowfall.core.model import Column, Encoding, Kind, Schema, Setting
from rowfall.core.patterns import regex
from rowfall.core.sqltext import quote
from rowfall.core.type_names import TIMES, Type, arguments, elements, first_fields, parse_type
from rowfall.schema.nested_nulls import as_tuples

TAG = "rowfall: "
"""Start of every message that a guard raises inside the engine."""

MISSING = "\nmissing"
"""Stands for the field of a column that the header or a short row lacks: it fits no type."""

_SHAPES = ("", "T", "Z")
NUMBERS = frozenset({"Int128 DEFAULT 0", "Nullable(Int128) DEFAULT 0"})
"""Types that :func:`_read_as_number` reads: the mark of a column that can be read as text."""
_NAMES = regex(r"'(?:[^'\\]|\\.|'')*'")


@dataclass(frozen=True, slots=True)
class TextTraits:
    """Traits of the values of a column, by the sample; the default trusts nothing.

    Attributes:
        blank: ``""`` stands for "no value" in a column that is not a string.
        padded: blanks around the values are to be ignored.
        shape: how points in time are written: ``""`` is ``2020-01-31 23:59:59``, ``T`` has a T,
            ``Z`` a T and a Z, ``date`` no time, ``epoch`` counts seconds.
        infinite: the text ``inf`` is a value; otherwise infinity is an overflow (1e400).
        breaks: values hold line breaks; otherwise one is the sign of a quote never closed.
        bom: files start with a byte order mark, which this first column would keep.
        nonzero: integers, none of them 0: see :func:`_read_as_number`.
        native: the reader of CSV itself takes ``\\N`` for NULL.
        binary: strings may hold bytes that are not UTF-8.
        canonical: numbers and Bools have to be written as inference takes them: what it would have
            kept as text (``007``, ``+1``) becomes no number behind the sample.
    """

    blank: bool = False
    padded: bool = False
    shape: str = ""
    infinite: bool = False
    breaks: bool = False
    bom: bool = False
    nonzero: bool = False
    native: bool = False
    binary: bool = False
    canonical: bool = False


CANONICAL = "canonical"
"""The shape of numbers and Bools that are written as inference takes them, for rowfall-decode."""


def has_spellings(target: Type) -> bool:
    """Tell whether text of other spellings than inference takes makes values of a type, too."""
    return target.base in ("Bool", "Float64") or 0 < target.bits <= 64


def strict_column(
    name: str,
    source: str,
    target_type: str,
    kind: Kind,
    source_type: str = "",
    *,
    csv: bool = True,
    traits: TextTraits | None = None,
) -> Column:
    """Return how to read ``source`` into a column of ``target_type``.

    Args:
        name, source: column of the table, column of the file.
        kind: of the format; ``source_type`` is the declared type where the format has types.
        csv: TEXT only: fields may be quoted and empty ones mean NULL (False: TSV).
        traits: how the values are written; by default nothing is known.
    """
    target, traits = parse_type(target_type), traits or TextTraits()
    column = Column(name=name, type=target_type, source=source)
    if kind is Kind.MADE:
        return column
    if kind is Kind.TYPED:
        return _typed(column, target, parse_type(source_type or target_type))
    # Objects of the type JSON are read as they stand and converted, so that each can be checked.
    if not target.known and not (target.base == "JSON" and kind is Kind.JSON):
        note = "nested values are checked by the engine's reader only"
        return replace(column, read_type=target_type, reason=note)
    csv = csv and kind is Kind.TEXT
    # What the sample shows to be unusual is for the engine: the decoder would decline it anyway.
    traits = replace(traits, canonical=traits.canonical and has_spellings(target))
    shape = traits.shape if target.base.startswith("DateTime") else ""
    shape = CANONICAL if traits.canonical else shape
    padded = traits.padded and not (target.text or target.base.startswith("Enum"))
    if not (padded or traits.infinite or traits.bom) and shape in (*_SHAPES, CANONICAL):
        column = replace(column, shape=shape)
    direct = _direct(target, kind, traits)
    if direct:
        return _read_directly(column, target, direct, kind, csv)
    text = _read_as_text(column, target, kind, csv, traits)
    if (
        kind is Kind.TEXT
        and traits.nonzero
        and 0 < target.bits <= 64
        and not (traits.padded or traits.blank or traits.bom or traits.canonical)
    ):
        return _read_as_number(text, target)
    return text


def _read_as_number(text: Column, target: Type) -> Column:
    """Return an integer column whose sample holds no 0, read as a number with a guard against 0.

    The integer reader takes a quoted empty field for 0, and a column that the header lacks gets 0
    here: the guard raises, and :func:`with_integers_as_text` reads the objects again, so that a
    real 0 is fine. Int128 wraps from 39 digits on (Int64 would take 2^64 + 5 for 5).
    Measured on 50 M rows of three integers: 6.9 CPU-seconds, 7.8 as text, 6.5 without any check.
    """
    x = sql.name(text.source)
    wanted = f"Nullable({target.bare})" if target.nullable else target.bare
    read = "Nullable(Int128)" if target.nullable else "Int128"
    zero = f"ifNull({x} = 0, 0)" if target.nullable else f"{x} = 0"
    expression = _checked(f"accurateCast({x}, {quote(wanted)})", zero, text)
    return replace(text, read_type=f"{read} DEFAULT 0", expression=expression)


def _direct(target: Type, kind: Kind, traits: TextTraits) -> str | None:
    """Return the type that the reader can parse without a loss; None where only text is safe.

    Integers of CSV and TSV are text where they can be 0: the reader takes a quoted empty field for
    0 and wraps whatever its width. JSON integers up to 32 bits go through Float64, which refuses
    ``""``, for half the cost of text; more than 17 digits are rounded before they are checked.
    """
    if traits.padded or traits.blank or traits.bom or traits.infinite or traits.canonical:
        return None
    if target.base in ("Float32", "Float64"):
        return target.base
    return "Float64" if kind is Kind.JSON and 0 < target.bits <= 32 else None


def _read_directly(column: Column, target: Type, read: str, kind: Kind, csv: bool) -> Column:
    x = sql.name(column.source)
    text = f"trimBoth({x}, ' \\t')" if csv else x  # as the reader does around CSV numbers
    parsed = f"accurateCastOrNull({text}, {quote(read)})"
    if target.bits:
        wanted = f"Nullable({target.bare})" if target.nullable else target.bare
        expression = f"accurateCast({x}, {quote(wanted)})"
        lenient = f"accurateCastOrNull({parsed}, {quote(target.bare)})"
    else:
        # Too large a number is read as infinity, and so is a column that the header lacks.
        wrong = f"ifNull(isInfinite({x}), 0)"
        value = x if target.nullable else f"assumeNotNull({x})"
        wrong = wrong if target.nullable else f"isNull({x}) OR {wrong}"
        expression = _checked(value, wrong, column)
        lenient = f"if(ifNull(isInfinite({parsed}), 0), NULL, {parsed})"
    bad = f"isNull({lenient})"
    if target.nullable:
        bad = f"isNotNull({x}) AND {bad}"
    read = f"Nullable({read})" + (" DEFAULT inf" if kind is Kind.TEXT else "")
    return replace(column, read_type=read, expression=expression, lenient=lenient, bad=bad)


def _read_as_text(
    column: Column, target: Type, kind: Kind, csv: bool, traits: TextTraits
) -> Column:
    x, tsv = sql.name(column.source), kind is Kind.TEXT and not csv
    read = "String" if csv and not target.nullable else "Nullable(String)"
    if kind is Kind.TEXT:
        read += f" DEFAULT {quote(MISSING)}"
    text = f"if(startsWith({x}, '{BOM}'), substring({x}, 4), {x})" if traits.bom else x
    if traits.padded and not target.text:
        text = f"trimBoth({text}, ' \\t')"
    if target.nullable and csv and target.text and not traits.native:
        text = f"nullIf({text}, '\\\\N')"
    # What means NULL fits no other type, so its conversion gives NULL anyway: comparing is enough,
    # and unlike nullIf it copies no strings.
    blank = tsv or traits.blank or (csv and traits.native)
    nulls = [*(["\\N"] if csv else []), *([""] if blank else [])] if target.nullable else []
    if target.base in TIMES:
        for null in nulls:  # toDateTime64OrNull makes 1970 of nothing
            text = f"nullIf({text}, {quote(null)})"
        nulls = []
    value, wrong = _convert(text, target, traits)
    utf8 = target.base == "String" and not traits.binary
    if target.text and kind is Kind.TEXT:
        # MISSING holds a line break, so one test finds both it and a quote never closed.
        broken = csv and not traits.breaks
        guard = f"position({x}, '\\n') > 0" if broken else f"{x} = {quote(MISSING)}"
        if utf8:
            guard += f" OR NOT isValidUTF8({x})"
        wrong = f"ifNull({guard}, 0)" + (f" OR {wrong}" if wrong != "0" else "")
    elif utf8:
        wrong = f"ifNull(NOT isValidUTF8({x}), 0)"
    lenient, bad = value, wrong
    if target.nullable:
        if target.base != "String":
            bad = f"isNotNull({text}) AND ({wrong})"
        if nulls and not target.text:
            others = " AND ".join(f"{text} != {quote(null)}" for null in nulls)
            bad = f"isNotNull({text}) AND {others} AND ({wrong})"
        expression = _checked(value, bad, column) if bad != "0" else value
    elif target.base == "String" and not csv:
        whole, wrong = f"assumeNotNull({value})", f"isNull({x}) OR {wrong}"
        bad, expression = wrong, _checked(whole, wrong, column)
    elif target.bits and target.bits <= 64:
        expression = f"accurateCast({text}, {quote(target.bare)})"
        if traits.canonical:
            expression = _checked(expression, _misspelled(text, target, ""), column)
    else:
        whole = value if target.base == "String" else f"assumeNotNull({value})"
        expression = _checked(whole, wrong, column) if wrong != "0" else whole
    if csv and target.text and not target.nullable:
        # Read leniently, an empty field is NULL; in a String column it is the empty string.
        lenient, bad = lenient.replace(x, f"ifNull({x}, '')"), bad.replace(x, f"ifNull({x}, '')")
    return replace(column, read_type=read, expression=expression, lenient=lenient, bad=bad)


def _checked(value: str, wrong: str, column: Column) -> str:
    """Return SQL for ``value`` that raises when ``wrong``.

    A tuple costs nothing, ``if`` would copy strings.
    """
    line = "line break in" if "'\\n') > 0" in wrong else "a value does not fit"
    message = f"{TAG}{line} {column.name} {column.type}"
    return f"tupleElement(({value}, throwIf({wrong}, {quote(message)})), 1)"


def _convert(t: str, target: Type, traits: TextTraits) -> tuple[str, str]:
    """Return (value or NULL, "is wrong" as 0/1) for text ``t``; NULL text counts as wrong here."""
    base, bare = target.base, target.bare
    if base == "String":
        return t, "0"
    cast = f"accurateCastOrNull({t}, {quote(bare)})"
    if base in TIMES:
        return _convert_time(t, target, traits.shape)
    if base == "UUID":
        return f"toUUIDOrNull({t})", f"ifNull(toString(toUUIDOrNull({t})) != lower({t}), 1)"
    if base == "IPv4":
        return f"toIPv4OrNull({t})", f"ifNull(toString(toIPv4OrNull({t})) != {t}, 1)"
    if base == "IPv6":
        # The engine takes 2001:db8:::1, and :: among eight groups, where it stands for none.
        groups = f"countSubstrings({t}, ':') - startsWith({t}, '::') - endsWith({t}, '::')"
        odd = f"position({t}, ':::') > 0 OR (position({t}, '::') > 0 AND {groups} > 7)"
        return f"toIPv6OrNull({t})", f"isNull(toIPv6OrNull({t})) OR {odd}"
    if base.startswith("Enum"):
        names = ", ".join(_NAMES.findall(target.args))
        first = _NAMES.findall(target.args)[0]
        # The cast alone would take '1' for the element numbered 1, and raises in a lenient read.
        known = f"if({t} IN ({names}), {t}, NULL)"
        value = f"CAST(ifNull({known}, {first}), {quote(bare)})"
        return f"if(isNull({known}), NULL, {value})", f"ifNull({t} NOT IN ({names}), 1)"
    if base == "Decimal":
        scale = target.args.split(",")[1].strip() if "," in target.args else "0"
        extra = f"length(trim(TRAILING '0' FROM {t})) - position({t}, '.') > {scale}"
        # The engine takes a lone sign for 0 and 1.2.3 for 1.23; an exponent would move the point.
        odd = f"position(lower({t}), 'e') > 0 OR {t} IN ('-', '+', '.', '-.', '+.')"
        odd += f" OR countSubstrings({t}, '.') > 1"
        return cast, f"ifNull((position({t}, '.') > 0 AND {extra}) OR {odd}, 1) OR isNull({cast})"
    if target.bits > 64:  # the engine checks no overflow of its widest integers
        return cast, f"ifNull(toString({cast}) != {t}, 1)"
    odd = f" OR {_misspelled(t, target, cast)}" if traits.canonical else ""
    if base.startswith("Float") and not traits.infinite:
        return cast, f"ifNull(isInfinite({cast}), 1){odd}"
    return cast, f"isNull({cast}){odd}"


_EXACT = 2**53
"""Integers beyond it have no Float64 of their own; the next one becomes it."""


def _misspelled(t: str, target: Type, value: str) -> str:
    """Return SQL that is 1 where inference would have kept a text, and a cast makes a value of it.

    Comparisons of text cost a fifth of a regular expression: between ``00`` and ``0:`` is all that
    begins with a 0 and a digit.

    Args:
        value: SQL for the number, of floats.
    """
    if target.base == "Bool":
        return f"ifNull(lower({t}) NOT IN ('true', 'false'), 0)"
    zeros = " OR ".join(f"({t} >= '{s}00' AND {t} < '{s}0:')" for s in ("", "-"))
    plus = f"startsWith({t}, '+')"
    if target.base == "Float64":
        own = f"{t} NOT IN ('{_EXACT}', '-{_EXACT}')"
        lost = f"(abs({value}) >= {_EXACT} AND {own}) OR {plus}"
        plus = f"(({lost}) AND match({t}, '^[-+]?[0-9]+$')) OR ({t} >= '+00' AND {t} < '+0:')"
    return f"ifNull({zeros} OR {plus}, 0)"


def _convert_time(t: str, target: Type, shape: str) -> tuple[str, str]:
    """Convert points in time, which count as read only when they print as the text again."""
    base, args = target.base, [a.strip() for a in target.args.split(",") if a.strip()]
    if base in ("Date", "Date32"):
        value = f"to{base}OrNull({t})"
        return value, f"ifNull(toString({value}) != {t}, 1)"
    if shape == "epoch" and base == "DateTime":
        value = f"CAST(accurateCastOrNull({t}, 'UInt32'), {quote(f'Nullable({target.bare})')})"
        return value, f"isNull({value})"
    digits = int(args.pop(0)) if base == "DateTime64" and args else 3 * (base == "DateTime64")
    zone = "'UTC'" if shape == "Z" else (args[0] if args else "")
    source = f"substring({t}, 1, length({t}) - 1)" if shape == "Z" else t
    parts = [source, *([str(digits)] if base == "DateTime64" else []), *([zone] if zone else [])]
    value = f"to{base}OrNull({', '.join(parts)})"
    zeros = quote("." + "0" * digits) if digits else "''"
    mark = {"T": "T", "Z": "T"}.get(shape, " ")
    if shape == "date":
        expected = f"concat({t}, {quote(' 00:00:00' + (zeros[1:-1] if digits else ''))})"
    elif digits:
        # Fewer digits than the type has are fine, more are not: fill up and compare.
        expected = f"concat({source}, substring({zeros}, greatest(length({source}) - 18, 1)))"
    else:
        expected = source
    printed = f"toString({value})"
    if mark == "T":
        printed = f"replaceOne({printed}, ' ', 'T')"
    wrong = f"{printed} != {expected}"
    if shape == "Z":
        wrong = f"({wrong} OR NOT endsWith({t}, 'Z'))"
        value = f"CAST({value}, {quote(f'Nullable({target.bare})')})"
    return value, f"ifNull({wrong}, 1)"


def _typed(column: Column, target: Type, source: Type) -> Column:
    """Return a column of a format with types: bare, or a cast that is compared with its origin."""
    x = sql.name(column.source)
    read = source.full
    if target.nested and (made := as_tuples(x, source, target)):
        return replace(column, read_type=read, expression=made)
    if source.bare == target.bare or not (target.known and source.known):
        if target.full == source.full or (source.bare == target.bare and not source.nullable):
            return replace(column, read_type=read)
        if target.nullable and source.bare == target.bare:
            return replace(column, read_type=read)
        return replace(
            column,
            read_type=read,
            expression=f"accurateCast({x}, {quote(target.full)})",
            lenient=x if source.bare == target.bare else "",
            bad=f"isNull({x})" if source.bare == target.bare and not target.nullable else "",
        )
    if source.text and not target.text:
        value, wrong = _convert(x, target, TextTraits(infinite=True))
    else:
        value = f"accurateCastOrNull({_within(x, source, target)}, {quote(target.bare)})"
        wrong = f"isNull({value})"
        exact = (*TIMES, "Decimal", "Bool")
        if target.text or (source.base == "Decimal" and target.base.startswith("Float")):
            pass  # rounding a decimal to a float is what was asked for; text holds everything
        elif target.base in exact or source.base in exact:
            wrong = f"ifNull(CAST({value}, {quote(f'Nullable({source.bare})')}) != {x}, 1)"
    bad = f"isNotNull({x}) AND {wrong}" if target.nullable else wrong
    whole = value if target.nullable else f"assumeNotNull({value})"
    return replace(
        column, read_type=read, expression=_checked(whole, bad, column), lenient=value, bad=bad
    )


# What a cast throws at, which then names no row: date_time_overflow_behavior is throw.
_BOUNDS = {
    ("Date32", "Date"): ("toDate32('1970-01-01')", "toDate32('2149-06-06')"),
    ("DateTime64", "DateTime"): (
        "toDateTime64('1970-01-01 00:00:00', 0, 'UTC')",
        # The engine refuses the last second that a DateTime has.
        "toDateTime64('2106-02-07 06:28:14', 0, 'UTC')",
    ),
}


def _within(x: str, source: Type, target: Type) -> str:
    """Return SQL for days and points in time that another type holds: the nearest one."""
    bounds = _BOUNDS.get((source.base, target.base))
    if bounds is None:
        return x
    # What a NULL hides is cast, too, so it must not stand for others.
    return f"if({x} < {bounds[0]}, {bounds[0]}, if({x} > {bounds[1]}, {bounds[1]}, {x}))"


def only_utf8(
    columns: Sequence[Column], encoding: Encoding | None, but: Collection[str]
) -> tuple[Column, ...]:
    """Return the columns with a check that texts are UTF-8, for a target whose texts have to be.

    Text that is read as UTF-8 has been checked already.

    Args:
        encoding: None for rows that are made. ``but``: names of columns that take any bytes.
    """
    known = encoding is not None and encoding.kind in (Kind.TEXT, Kind.JSON)
    known = known and encoding is not None and not encoding.binary
    found = []
    for column in columns:
        nested = parse_type(column.type).nested
        x = column.expression or sql.name(column.source or column.name)
        wrong = "" if column.name in but or (known and not nested) else _no_utf8(column.type, x)
        if not wrong:
            found.append(column)
            continue
        message = f"{TAG}bytes that are not UTF-8 in {column.name} {column.type}"
        checked = f"tupleElement(({x}, throwIf({wrong}, {quote(message)})), 1)"
        bad = f"({column.bad}) OR {wrong}" if column.bad else wrong
        found.append(replace(
            column, expression=checked, lenient=column.lenient or x, bad=bad,
            read_type=column.read_type or column.type,
        ))  # fmt: skip
    return tuple(found)


_SIGNED = regex(r"(?:Replicated)?(Versioned)?CollapsingMergeTree\((.*?)\)")
SIGN = "neither 1 nor -1 in the sign"
"""Part of the message about the sign of a table that collapses rows: the mark of such a column."""


def with_sign(schema: Schema, engine: str) -> Schema:
    """Return the schema with a check of the sign of a table that collapses rows, if it is one.

    An INSERT of the engine checks it only while it collapses rows, which a load switches off to
    count them; FINAL then leaves such rows out, and merges fail.

    Args:
        engine: with its arguments.
    """
    found = _SIGNED.match(engine)
    if found is None:
        return schema
    arguments_ = [argument.strip() for argument in found[2].split(",")]
    name = arguments_[-2 if found[1] else -1].strip('`"')
    columns = tuple(_signed(c) if c.name == name else c for c in schema.columns)
    return replace(schema, columns=columns)


def _signed(column: Column) -> Column:
    x = column.expression or sql.name(column.source or column.name)
    lenient = column.lenient or x
    message = f"{TAG}{SIGN} {column.name} {column.type}"
    expression = f"tupleElement(({x}, throwIf(({x}) NOT IN (1, -1), {quote(message)})), 1)"
    wrong = f"ifNull(({lenient}) NOT IN (1, -1), 1)"
    bad = f"({column.bad}) OR {wrong}" if column.bad else wrong
    return replace(
        column, shape=None, expression=expression, lenient=lenient, bad=bad,
        read_type=column.read_type or column.type,
    )  # fmt: skip


def _no_utf8(type_: str, x: str, depth: int = 0) -> str:
    """Return SQL that is 1 where a text of a value is not UTF-8; "" for types without texts."""
    kind = parse_type(type_)
    if kind.base == "String":
        return f"ifNull(NOT isValidUTF8({x}), 0)"
    if kind.base == "Array":
        inner = _no_utf8(kind.args, f"e{depth}", depth + 1)
        return inner and f"arrayExists(e{depth} -> {inner}, {x})"
    if kind.base == "Map":
        parts = zip(("mapKeys", "mapValues"), arguments(kind.args), strict=True)
        tests = [_no_utf8(f"Array({part})", f"{name}({x})", depth) for name, part in parts]
    elif kind.base == "Tuple":
        tests = [
            _no_utf8(part, f"tupleElement({x}, {n})", depth)
            for n, part in enumerate(elements(kind.args), 1)
        ]
    else:
        return ""
    return " OR ".join(filter(None, tests))


# --- reader settings -----------------------------------------------------------------------------


_ALWAYS = (
    ("input_format_null_as_default", 0, "a NULL in a column without NULLs is an error, not 0"),
    ("input_format_defaults_for_omitted_fields", 1, "so a column that the header lacks is found"),
    ("input_format_skip_unknown_fields", 0, "a column that the table lacks is an error"),
    ("input_format_allow_errors_num", 0, "bad rows are counted by rowfall"),
    ("input_format_allow_errors_ratio", 0, "bad rows are counted by rowfall"),
    ("precise_float_parsing", 1, "230 of 500,000 random floats differ in the last digit without"),
    ("date_time_input_format", "basic", "the default changed in 26.5"),
    ("date_time_overflow_behavior", "throw", "the default clips 2200-01-01 to 2106"),
    ("cast_string_to_date_time_mode", "basic", "each text means one point in time"),
    ("cast_keep_nullable", 0, "casts give the type that they name"),
    ("input_format_column_name_matching_mode", "match_case", "names and keys match exactly"),
    ("use_hive_partitioning", 0, "rowfall itself makes columns of folders key=value"),
    ("input_format_try_infer_dates", 0, "text in JSON columns stays text"),
    ("input_format_try_infer_datetimes", 0, "text in JSON columns stays text"),
)
BLANKS = "input_format_csv_allow_whitespace_or_tab_as_delimiter"
ROWS_MAY_BE_SHORT = "input_format_csv_allow_variable_number_of_columns"
_CSV = (
    ("input_format_csv_empty_as_default", 0, "only a column that is not there takes its default"),
    (ROWS_MAY_BE_SHORT, 1, "missing fields fit no type"),
    ("input_format_csv_use_default_on_bad_values", 0, "a bad value is an error"),
    ("input_format_csv_enum_as_number", 0, "enums are names"),
    ("input_format_csv_detect_header", 0, "the plan says whether there is a header"),
    ("input_format_csv_skip_first_lines", 0, "every line counts"),
    ("format_csv_allow_double_quotes", 1, "RFC 4180"),
    ("format_csv_allow_single_quotes", 0, "an apostrophe is a letter"),
)
_TUPLES = "input_format_csv_deserialize_separate_columns_into_tuple"
_TSV = (
    ("input_format_tsv_empty_as_default", 0, "only a column that is not there takes its default"),
    ("format_tsv_null_representation", "\\N", "what databases write"),
    ("input_format_tsv_allow_variable_number_of_columns", 0, "a ragged row is an error"),
    ("input_format_tsv_crlf_end_of_line", 1, "files from Windows"),
    ("input_format_tsv_detect_header", 0, "the plan says whether there is a header"),
    ("input_format_tsv_skip_first_lines", 0, "every line counts"),
    ("input_format_tsv_enum_as_number", 0, "enums are names"),
)
_JSON = (
    ("input_format_json_read_bools_as_numbers", 0, "true is no number"),
    ("input_format_json_read_numbers_as_strings", 1, "numbers are read as they are written"),
    ("input_format_json_read_bools_as_strings", 1, "the same for true and false"),
    ("input_format_json_read_objects_as_strings", 1, "objects in a String stay as written"),
    ("input_format_json_read_arrays_as_strings", 1, "arrays in a String stay as written"),
    ("input_format_import_nested_json", 0, "nested keys are Tuples, as inferred"),
    ("input_format_json_ignore_unknown_keys_in_named_tuple", 0, "nothing is left out"),
    ("input_format_json_defaults_for_missing_elements_in_named_tuple", 0, "nor filled in"),
    ("input_format_json_ignore_unnecessary_fields", 0, "every field is parsed"),
    ("input_format_json_empty_as_default", 0, "an empty string is no missing value"),
    ("input_format_json_throw_on_bad_escape_sequence", 1, "a broken escape is an error"),
)
_TYPED = (
    ("input_format_parquet_allow_missing_columns", 0, "a missing column is an error, not 0"),
    ("input_format_parquet_case_insensitive_column_matching", 0, "names match exactly"),
    ("input_format_orc_case_insensitive_column_matching", 0, "names match exactly"),
    ("input_format_arrow_case_insensitive_column_matching", 0, "names match exactly"),
    ("input_format_orc_allow_missing_columns", 0, "a missing column is an error, not 0"),
    ("input_format_arrow_allow_missing_columns", 0, "a missing column is an error, not 0"),
    ("input_format_avro_allow_missing_fields", 0, "a missing field is an error, not 0"),
    ("input_format_avro_null_as_default", 0, "a NULL is no 0"),
)


MISSING_COLUMNS = (
    "input_format_parquet_allow_missing_columns", "input_format_orc_allow_missing_columns",
    "input_format_arrow_allow_missing_columns", "input_format_avro_allow_missing_fields",
)  # fmt: skip
"""Settings that let files lack columns, which then are NULL, or 0 where they may not be."""


def reader_settings(encoding: Encoding, columns: Sequence[Column] = ()) -> tuple[Setting, ...]:
    """Return every reader setting that strictness or independence of the version asks for.

    Args:
        columns: of the schema. Where none of them is a string, or none of the strings seen has
            blanks around it, the CSV reader may trim: keeping costs 6 ns a field (16 % of parsing
            short integers).
    """
    rows: list[tuple[str, str | int, str]] = list(_ALWAYS)
    if encoding.kind is Kind.TEXT:
        csv, alone = encoding.is_csv, len(columns) == 1
        rows += _CSV if csv else _TSV
        why = "an empty line is a row of one column" if alone else "an empty last line is no row"
        name = f"input_format_{'csv' if csv else 'tsv'}_skip_trailing_empty_lines"
        rows.append((name, int(not alone), why))
        if csv:
            strings = not columns or any(_is_string(c) for c in columns)
            keep = encoding.keep_blanks and strings
            why = "strings keep their blanks" if keep else "no blanks seen around strings: faster"
            rows.append(("format_csv_null_representation", encoding.null, "as seen in the sample"))
            rows.append(("input_format_csv_trim_whitespaces", int(not keep), why))
            rows.append(("format_csv_delimiter", encoding.delimiter, "as planned"))
            blank = encoding.delimiter in " \t"
            why = "a blank or a tab is the delimiter" if blank else "blanks and tabs are none"
            rows.append((BLANKS, int(blank), why))
            own = tuples_apart(encoding, columns)
            why = "elements of tuples have fields of their own" if own else "tuples have one field"
            rows.append((_TUPLES, int(own), why))
        if csv and encoding.has_names:
            why = "by position: the header was read before"
            rows.append(("input_format_with_names_use_header", 0, why))
        elif encoding.header:
            why = "by position: not all names of the header can be used"
            rows.append(("input_format_with_names_use_header", 0, why))
        elif encoding.has_names:
            rows.append(("input_format_with_names_use_header", 1, "columns are found by name"))
    elif encoding.kind is Kind.JSON:
        rows += _JSON
        if encoding.ignores:
            name = "input_format_skip_unknown_fields"
            rows = [row for row in rows if row[0] != name]
            rows.append((name, 1, "--on-new-column ignore"))
    elif encoding.kind is Kind.TYPED:
        rows += _TYPED
        if nulls_are_guarded(encoding, columns):
            why = "arrays that may be null are read; a NULL is an error by the column's own default"
            rows = [row for row in rows if row != _ALWAYS[0]]
            rows.append(("input_format_null_as_default", 1, why))
        if encoding.format in LAKES:
            # The reader of Parquet also looks for _path in files where it is in a condition (26.9).
            rows = [row for row in rows if row[0] not in MISSING_COLUMNS]
            why = "files may be older than a column; required ones are read as Nullable"
            rows.append((MISSING_COLUMNS[0], 1, why))
        if any(c.optional for c in columns):
            rows = [row for row in rows if row[0] not in MISSING_COLUMNS]
            why = "some files lack columns; those of each are looked at first"
            rows += [(name, 1, why) for name in MISSING_COLUMNS]
        rows += _JSON if encoding.format.startswith("JSON") else ()
        if encoding.format == "Values":
            rows.append(("input_format_values_interpret_expressions", 0, "values, and no SQL"))
            rows.append(
                ("input_format_values_deduce_templates_of_expressions", 0, "values, and no SQL")
            )
    return tuple(Setting(*row, routine=True) for row in rows)


def nulls_are_guarded(encoding: Encoding, columns: Sequence[Column]) -> bool:
    """Tell whether a NULL in a column that takes none raises by the column's own DEFAULT.

    Only with input_format_null_as_default the reader of Avro takes unions of null and array at all.
    Where files may lack columns, those need their defaults.
    """
    return encoding.format == "Avro" and not any(c.optional for c in columns)


def _is_string(column: Column) -> bool:
    target = parse_type(column.type)
    return target.text or target.base.startswith("Enum") or not target.known


def tuples_apart(encoding: Encoding, columns: Sequence[Column]) -> bool:
    """Tell whether elements of tuples have fields of their own: unless each column has one."""
    takes = first_fields([c.type for c in columns])[-1]
    return not (takes > len(columns) == encoding.fields)


def line_fields(encoding: Encoding, columns: Sequence[Column], names: int) -> int:
    """Return how many fields a line of ``names`` columns has, among them ``columns``."""
    csv = encoding.is_csv
    more = first_fields([c.type for c in columns])[-1] - len(columns)
    return names + (more if csv and tuples_apart(encoding, columns) else 0) + encoding.trailing


# --- other readings of the same rows -------------------------------------------------------------


def reads_numbers(schema: Schema) -> bool:
    """Tell whether some integer is read as a number because the sample held no 0."""
    return any(c.read_type in NUMBERS for c in schema.reads)


def with_integers_as_text(schema: Schema, encoding: Encoding) -> Schema:
    """Return the schema with all integers of text formats read as text."""
    traits = TextTraits(native=bool(encoding.null), binary=encoding.binary)
    return _again(schema, encoding, lambda c: c.read_type in NUMBERS, traits)


def refuses_line_breaks(schema: Schema) -> bool:
    """Tell whether some string column takes a line break for a quote never closed."""
    return any(_refuses(c) for c in schema.reads)


def holds_line_breaks(columns: Sequence[Column]) -> bool:
    """Tell whether some string of CSV was seen to hold line breaks, which are not refused then."""
    return any(parse_type(c.type).text and not _refuses(c) for c in columns)


def with_line_breaks(schema: Schema, encoding: Encoding) -> Schema:
    """Return the schema whose strings may hold line breaks: all quotes are known to be closed."""
    traits = TextTraits(breaks=True, native=bool(encoding.null), binary=encoding.binary)
    return _again(schema, encoding, _refuses, traits)


def _refuses(column: Column) -> bool:
    return "line break in" in column.expression


def _again(
    schema: Schema, encoding: Encoding, which: Callable[[Column], bool], traits: TextTraits
) -> Schema:
    columns = tuple(
        replace(
            strict_column(c.name, c.source, c.type, Kind.TEXT, csv=encoding.is_csv, traits=traits),
            reason=c.reason,
            optional=c.optional,
        )
        if which(c)
        else c
        for c in schema.reads
    )
    return schema.with_reads(columns)
