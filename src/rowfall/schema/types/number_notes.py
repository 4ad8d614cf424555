"""Says what a number does not keep of its text, and which text may be a number. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rowfall.core.model import Column
from rowfall.core.type_names import parse_type
from rowfall.schema.bad_rows.data_errors import type_options
from rowfall.schema.column_facts import ColumnFacts
from rowfall.schema.text.text_format import OTHERWISE, UNSURE
from rowfall.schema.types.inferred_types import EXACT, is_long, loses_zeros


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
