"""NULL lists, maps and structs of formats with types, which most tables cannot keep. Pure.

An Array and a Map cannot be Nullable, and a Tuple only on new engines. A NULL list or map is
refused (see :mod:`rowfall.schema.types.null_lists` for formats whose readers do not tell it),
unless ``--null-lists empty`` is given. Where nobody can look, :func:`what_nulls_become` says what
is stored before the first row is read, as it does of structs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from rowfall.core import units
from rowfall.core.model import Column, Encoding, Kind
from rowfall.core.sqltext import quote
from rowfall.core.type_names import Type, arguments, elements, parse_type

# Columns that one sentence names.
_NAMED = 10


def without_nullable_tuples(text: str) -> str:
    """Return a type with each Nullable(Tuple) in it as a Tuple whose elements take NULL."""
    type_ = parse_type(text)
    if type_.base == "Array":
        return f"Array({without_nullable_tuples(type_.args)})"
    if type_.base == "Map":
        key, value = arguments(type_.args)
        return f"Map({key}, {without_nullable_tuples(value)})"
    if type_.base != "Tuple":
        return text
    parts = []
    for part, element in zip(arguments(type_.args), elements(type_.args), strict=True):
        made = without_nullable_tuples(element)
        if type_.nullable:
            made = _nullable(made)
        parts.append(part[: len(part) - len(element)] + made)
    return f"Tuple({', '.join(parts)})"


def _nullable(text: str) -> str:
    type_ = parse_type(text)
    if type_.base == "Tuple":
        return without_nullable_tuples(f"Nullable({text})")
    return text if type_.nullable or type_.nested else f"Nullable({text})"


def as_tuples(x: str, source: Type, target: Type, depth: int = 0) -> str:
    """Return SQL for a value whose Nullable(Tuple)s become Tuples; "" where nothing is to be done.

    A struct that is NULL becomes a tuple of what its elements are without a value. One whose
    elements take no NULL raises: nothing would tell it from a struct of zeros.
    """
    e = f"e{depth}"
    if source.base != target.base or not source.nested:
        return ""
    if source.base == "Array":
        inner = as_tuples(e, parse_type(source.args), parse_type(target.args), depth + 1)
        return inner and f"arrayMap({e} -> {inner}, {x})"
    if source.base == "Map":
        own, wanted = (parse_type(arguments(t.args)[1]) for t in (source, target))
        inner = as_tuples(e, own, wanted, depth + 1)
        return inner and f"mapApply((k{depth}, {e}) -> (k{depth}, {inner}), {x})"
    own_types, wanted_types = elements(source.args), elements(target.args)
    if len(own_types) != len(wanted_types):
        return ""
    lost = source.nullable and not target.nullable
    whole = f"assumeNotNull({x})" if lost else x
    pairs = zip(own_types, wanted_types, strict=True)
    made = [
        as_tuples(f"tupleElement({whole}, {n})", parse_type(own), parse_type(wanted), depth)
        for n, (own, wanted) in enumerate(pairs, 1)
    ]
    if any(made):
        parts = (one or f"tupleElement({whole}, {n})" for n, one in enumerate(made, 1))
        whole = f"CAST(tuple({', '.join(parts)}), {quote(target.full)})"
    if not lost:
        return whole if any(made) else ""
    nothing = without_value(target)
    if nothing is None:
        return ""
    return f"if(isNull({x}), CAST({nothing}, {quote(target.full)}), {whole})"


def without_value(type_: Type) -> str | None:
    """Return SQL for a value that stands for NULL; None where the type has none."""
    if type_.base in ("Array", "Map"):
        return "[]" if type_.base == "Array" else "map()"
    if type_.base == "Tuple" and not type_.nullable:
        parts = [without_value(parse_type(element)) for element in elements(type_.args)]
        known = [part for part in parts if part is not None]
        return f"tuple({', '.join(known)})" if len(known) == len(parts) else None
    return "NULL" if type_.nullable else None


def with_empty_lists(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return columns of Avro whose lists and maps are empty where they are NULL."""
    return tuple(
        replace(column, read_type=f"{type_} DEFAULT defaultValueOfTypeName({quote(type_)})")
        if parse_type(type_ := column.read_type or column.type).base in ("Array", "Map")
        else column
        for column in columns
    )


def what_nulls_become(
    columns: Sequence[Column], encoding: Encoding, without: Collection[str], *, lists_told: bool
) -> str:
    """Return a sentence on the values stored for NULL lists, maps and structs; "" for none.

    Args:
        columns: as they are read. ``without``: names in the source of those that are known to hold
            no such NULL. ``lists_told``: those that are NULL are refused, or asked for.
    """
    if encoding.kind is not Kind.TYPED:
        return ""
    lists, structs = [], []
    for column in columns:
        if column.source in without:
            continue
        kinds = set(_kinds(parse_type(column.type)))
        lists += [column.name] if "list" in kinds and not lists_told else []
        structs += [column.name] if "struct" in kinds else []
    parts = []
    if lists:
        parts.append(f"a list or map in {_named(lists)} that is NULL is stored as an empty one")
    if structs:
        parts.append(f"a struct in {_named(structs)} that is NULL is stored as a tuple of NULLs")
    return f"{', '.join(parts)}: the table has no NULL for it" if parts else ""


def _kinds(type_: Type) -> Iterator[str]:
    """Give what of a type takes no NULL though the source may have one."""
    if type_.base in ("Array", "Map"):
        yield "list"
        yield from _kinds(parse_type(arguments(type_.args)[-1]))
    elif type_.base == "Tuple":
        if not type_.nullable:
            yield "struct"
        for element in elements(type_.args):
            yield from _kinds(parse_type(element))


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    listed = ", ".join(names[:_NAMED])
    return f"{listed} and {units.counted(more, 'other')}" if more > 0 else listed
