"""The type of a column by its sample: the narrowest that is safe. Pure."""

from __future__ import annotations

from rowfall.core import log_forms, units
from rowfall.core.model import Kind
from rowfall.core.patterns import regex
from rowfall.core.time_range import WIDE, TimeRange
from rowfall.core.type_names import TIMES, parse_type
from rowfall.schema.column_facts import ColumnFacts
from rowfall.schema.sampling import SourceSample
from rowfall.schema.types import json_objects

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
ENOUGH_ROWS = 1000
"""Below this many sample rows cardinalities say nothing."""
SOME_ROWS = 100
"""Below this many rows nobody can tell a counter from small numbers."""
LOW_SHARE, LOW_MOST = 0.05, 10_000
"""LowCardinality pays below 10,000 distinct values (the dictionary of a part stays small)."""


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
