"""The type of a column, narrowest that is safe, by what a sample of its values showed."""

from __future__ import annotations

from rowfall.core.model import Kind
from rowfall.schema.codec import parse_type
from rowfall.schema.sample import Survey
from rowfall.schema.sample_facts import Found

ENOUGH_ROWS = 1000
"""Below this many sample rows cardinalities say nothing."""
SOME_ROWS = 100
"""Below this many rows nobody can tell a counter from small numbers."""
LOW_SHARE, LOW_MOST = 0.05, 10_000
"""LowCardinality pays below 10,000 distinct values (the dictionary of a part stays small)."""


def infer_type(found: Found, seen: Survey) -> tuple[str, str]:
    """(type, reason) for one column by what the sample showed; narrowest safe one."""
    if seen.encoding.kind is Kind.TYPED:
        return _keep_declared(found, seen)
    if found.nested and found.nulls:
        return "Nullable(String)", "null among nested values: kept as JSON text"
    if found.nested:
        return _no_nullable_nesting(found.declared), "as the engine reads it"
    if not found.filled:
        return "Nullable(String)", f"empty in all {found.rows:,} rows seen"
    type_, reason = _bare_type(found, len(seen.splits))
    if type_ == "String":
        return _string(found, seen, reason)
    if found.nulls or found.blanks:
        empty = found.nulls + found.blanks
        return f"Nullable({type_})", f"{reason}; {empty:,} of {found.rows:,} empty"
    return type_, reason


def _no_nullable_nesting(text: str) -> str:
    """``Nullable(Tuple(...))`` and its like without the Nullable, which no table takes."""
    for name in ("Tuple", "Array", "Map", "Nested"):
        while (start := text.find(f"Nullable({name}(")) >= 0:
            depth, end = 0, start
            for end in range(start, len(text)):
                depth += (text[end] == "(") - (text[end] == ")")
                if depth == 0 and text[end] == ")":
                    break
            text = text[:start] + text[start + 9 : end] + text[end + 1 :]
    return text


def _bare_type(found: Found, files: int) -> tuple[str, str]:
    if found.integers == found.filled:
        if found.zeros:
            return "String", "numbers with leading zeros"
        return _counted(found, files)
    if found.floats == found.filled and not found.zeros:
        return "Float64", "fractions seen; 15 digits are kept"
    if found.booleans == found.filled:
        return "Bool", "true and false seen"
    if found.uuids == found.filled:
        return "UUID", "only UUIDs seen"
    if found.days == found.filled:
        early, late = found.first, found.last
        narrow = early >= "1970-01-01" and late < "2130-01-01"
        return ("Date" if narrow else "Date32"), f"{early}..{late} seen"
    if found.moments == found.filled and len({found.with_t, found.with_z, 0, found.filled}) == 2:
        return _moment(found)
    return "String", ""


def _counted(found: Found, files: int) -> tuple[str, str]:
    """Integers that keep on changing outgrow the first rows of a file: they get more room."""
    if found.filled >= SOME_ROWS:
        # Counters may start anew in every file, so each sampled file may show the same numbers.
        if found.distinct > 0.9 * found.filled / files:
            type_, _ = _integer(min(found.low, 0), 2**62)
            return type_, f"{found.low:,}..{found.high:,} seen, almost all different: may grow"
        if found.distinct > LOW_SHARE * found.filled:
            type_, _ = _integer(min(found.low, 0), max(found.high, 2**30))
            return type_, f"{found.low:,}..{found.high:,} seen, {found.distinct:,} different"
    return _integer(found.low, found.high)


def _integer(low: int, high: int) -> tuple[str, str]:
    """The narrowest type of which the values fill at most half, so that more may come."""
    seen = f"{low:,}..{high:,} seen"
    for bits in (8, 16, 32, 64):
        sign = "" if low < 0 else "U"
        most = (2 ** (bits - (1 if low < 0 else 0)) - 1) // 2
        if high <= most and low >= -most:
            return f"{sign}Int{bits}", f"{seen}, fits {sign}Int{bits} with room"
    if low >= 0 and high < 2**64:
        return "UInt64", f"{seen}, fits UInt64"
    if low >= -(2**63) and high < 2**63:
        return "Int64", f"{seen}, fits Int64"
    return "String", f"{seen}, too long for 64 bits"


def _moment(found: Found) -> tuple[str, str]:
    span = f"{found.first[:19]}..{found.last[:19]} seen"
    zone = "they end in Z" if found.with_z else "no zone is written, UTC prints them as they are"
    digits = next((d for d in (0, 3, 6, 9) if d >= found.digits), None)
    if digits is None or (digits == 9 and not "1900" <= found.first < found.last < "2262"):
        return "String", "more digits of a second than DateTime64 holds"
    if digits == 0 and found.first >= "1970-01-01" and found.last < "2100":
        return "DateTime('UTC')", f"{span}; {zone}"
    return f"DateTime64({digits}, 'UTC')", f"{span}; {zone}"


def _string(found: Found, seen: Survey, reason: str) -> tuple[str, str]:
    empty = found.nulls + found.blanks if seen.encoding.kind is Kind.TEXT else found.nulls
    csv = seen.encoding.is_csv
    null = found.marks > 0 if csv else found.nulls > 0
    if empty * 2 > found.rows:
        null = True
    inner = "Nullable(String)" if null else "String"
    why = [reason, f"{empty:,} of {found.rows:,} empty" if null else ""]
    if _is_low(found):
        inner = f"LowCardinality({inner})"
        why.append(f"{found.distinct:,} distinct values in {found.rows:,} rows")
    return inner, "; ".join(w for w in why if w) or "text"


def _is_low(found: Found) -> bool:
    few = found.distinct <= min(LOW_MOST, LOW_SHARE * found.rows)
    return found.rows >= ENOUGH_ROWS and few


def _keep_declared(found: Found, seen: Survey) -> tuple[str, str]:
    declared = parse_type(found.declared)
    if declared.base == "String" and _is_low(found):
        inner = "Nullable(String)" if found.nulls else "String"
        return f"LowCardinality({inner})", f"{found.distinct:,} distinct values in {found.rows:,}"
    if declared.nullable and not found.nulls and found.rows:
        return declared.bare, f"declared {found.declared}, no NULL in {found.rows:,} rows seen"
    return found.declared, "declared in the file"
