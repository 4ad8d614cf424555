"""Rules for rowfall-decode: what it can read. Pure.

Of formats with columns (:func:`copies`) it parses nothing: it copies their values into parts, or
makes them (:func:`makes`).

The decoder gives the rows that the engine's reader would give
(`schema/types/strict_reading.py`), or declines: then the engine reads the object and has the last
word. It parses for a quarter of the CPU: 50 M rows of three integers take 0.9 CPU-seconds out of
gzip, the engine's readers 4 to 5.
"""

from __future__ import annotations

from rowfall.core import type_names, uri
from rowfall.core.listing import Listing
from rowfall.core.model import Column, Encoding, Facts, Kind, Schema
from rowfall.core.patterns import regex
from rowfall.core.type_names import parse_type
from rowfall.decoder import abilities
from rowfall.decoder.abilities import flat_types
from rowfall.decoder.installed import PROGRAM
from rowfall.schema.text.united_headers import lacks_columns
from rowfall.schema.types import strict_reading
from rowfall.sources.base import Source, Stored
from rowfall.sources.recipes import MADE_COLUMNS, RANDOM

_SCHEMES = frozenset({uri.FILE, "s3", "gs", "az", "http", "https", "hdfs"})
_COLUMNAR = frozenset({"Parquet", "ArrowStream", "Arrow", RANDOM})
# Types whose values files have in another form, which only the engine converts.
_NEVER_COPIED = frozenset({"UUID", "IPv4", "IPv6", "Enum8", "Enum16"})
# Numbers of rows are far below 2^63.
_SIGNED = {"UInt64": "Int64"}
_NAME = regex(r"`([^`\\]+)`|([A-Za-z_]\w*)")


def refusal(
    listing: Listing, encoding: Encoding | None, schema: Schema, engine: Facts,
    *, streamed: bool = False,
) -> str | None:  # fmt: skip
    """Return the reason, as a clause, that only the engine can parse these objects; None if none.

    Args:
        streamed: this process reads the objects and sends them through pipes.
    """
    if encoding is None:
        return "the rows are made by the engine"
    if schema.limit:
        return f"the engine stops behind the rows of --limit, and {PROGRAM} reads whole files"
    columnar = copies(encoding)
    packed = abilities.COMPRESSIONS if not columnar else ("none",)
    if (
        not (columnar or encoding.format in abilities.TEXT_FORMATS | abilities.ROW_FORMATS)
        or encoding.compression not in packed
    ):
        return f"{PROGRAM} does not read {encoding.format} in {encoding.compression}"
    if makes(encoding):
        return _refusal_of_made(schema)
    if not len(listing) or not (streamed or uri.scheme_of(listing.uri(0)) in _SCHEMES):
        return f"{PROGRAM} reads files, object stores and HTTP only"
    if encoding.is_csv and encoding.delimiter == " ":
        return f"{PROGRAM} takes no blank as delimiter"
    if lacks_columns(schema, encoding):
        return f"some files lack columns, and {PROGRAM} takes files that have all"
    if encoding.hex:
        return f"{PROGRAM} reads no bytes that are written as hex digits"
    if schema.projection is not None and schema.projection.constants:
        return f"{PROGRAM} takes no columns from the names of files"
    if columnar and listing.parts:
        return f"{PROGRAM} reads whole files of {encoding.format}"
    for column in schema.columns:
        if strict_reading.SIGN in column.expression:
            return f"only the engine checks that the sign {column.name} is 1 or -1"
    for column in schema.reads:
        nested = parse_type(column.type).nested
        if encoding.format == "MySQL" and nested:
            return f"only the engine reads {column.type} (column {column.name})"
        if columnar and (column.optional or not _is_copied(column, encoding)):
            return f"only the engine reads {column.type} (column {column.name})"
        if column.notation is None and not nested and not columnar:
            return f"only the engine reads the column {column.name} {column.type} strictly"
        tuples = parse_type(column.type).base == "Tuple"
        if tuples and not columnar and encoding.delimiter.isspace():
            named = f"{column.name} {column.type}"
            return f"the engine skips the delimiter between elements of {named}"
        for type_ in flat_types(column.type):
            # Of other flat types it takes the text, and the engine makes the values.
            if (nested or "LowCardinality" in type_) and not abilities.knows_flat(type_):
                inner = f": {type_}" if nested else ""
                return f"only the engine reads {column.type} (column {column.name}){inner}"
            if not abilities.knows_zone(zone(type_), engine.timezone):
                return f"{PROGRAM} does not know the time zone of {column.name}"
    return None


def _refusal_of_made(schema: Schema) -> str | None:
    """Return the reason that only the engine can make the rows of a generator; None if none."""
    if schema.projection is not None:
        return "the engine selects the columns"
    for column in schema.reads:
        made = MADE_COLUMNS.get(column.source or column.name, "")
        if parse_type(column.type).bare not in (made, _SIGNED.get(made)):
            return f"only the engine makes {column.type} (column {column.name})"
    return None


def _is_copied(column: Column, encoding: Encoding) -> bool:
    """Tell whether a column is not cast, or in a way that loses nothing or is an error.

    It may be that a NULL in it is an error, too.
    """
    # Structs of Parquet that are NULL are tuples of NULLs, but where they are read as Nullable.
    null_structs = encoding.format != "Parquet"
    own = column.read_type or column.type
    same = _bare(own, tuples=null_structs) == _bare(column.type, tuples=null_structs)
    known = all(parse_type(type_).base not in _NEVER_COPIED for type_ in flat_types(column.type))
    cast = bool(column.expression) and not abilities.converts(
        parse_type(own), parse_type(column.type)
    )
    return known and (same or not cast)


def _bare(type_: str, *, tuples: bool) -> tuple[object, ...]:
    """Return a type without Nullable and LowCardinality, also of what it holds.

    Args:
        tuples: without that of tuples, too.
    """
    kind = parse_type(type_)
    if not kind.nested:
        return (kind.bare,)
    nullable = kind.nullable and not tuples
    names, types = [""], type_names.arguments(kind.args)
    if kind.base == "Tuple":
        names, types = type_names.element_names(kind.args), type_names.elements(kind.args)
    return (kind.base, nullable, *names, *(_bare(part, tuples=tuples) for part in types))


def stores(column: Column, engine: Facts) -> bool:
    """Tell whether parts can have a column, of flat values or nested ones."""
    return all(
        abilities.knows_flat(type_) and abilities.knows_zone(zone(type_), engine.timezone)
        for type_ in flat_types(column.type)
    )


def holds_text(column: Column) -> bool:
    """Tell whether some values of a column are strings, of a nested one those in it."""
    return any(parse_type(type_).text for type_ in flat_types(column.type))


def read_encoding(source: Source, encoding: Encoding | None) -> Encoding | None:
    """Return the encoding of what rowfall-decode would read: of a lake table that of its files."""
    return (source.stored() or encoding) if isinstance(source, Stored) else encoding


def copies(encoding: Encoding) -> bool:
    """Tell whether values are copied out of columns, or made, and not parsed."""
    return encoding.kind is Kind.TYPED and encoding.format in _COLUMNAR


def makes(encoding: Encoding) -> bool:
    """Tell whether rows are made, and not read."""
    return encoding.kind is Kind.TYPED and encoding.format == RANDOM


def zone(type_: str) -> str | None:
    """Return the time zone of a type: "" for the engine's own, None where it has none."""
    kind = parse_type(type_)
    if not kind.base.startswith("DateTime"):
        return None
    last = kind.args.rpartition(",")[2].strip()
    return last.strip("'") if last.startswith("'") else ""


def sort_columns(sorting_key: str, schema: Schema) -> tuple[int, ...]:
    """Return the indexes of the columns in a sorting key; () where it has anything but them.

    Sorting blocks before they are sent spares the engine its own sort, which costs it more. CPU
    seconds of decoder and engine: 50 M trips (3 columns) 4.1 to 2.9; 2 M taxi rows (51 columns)
    6.1 to 5.8, of which the decoder's are 2.3 to 2.9 (on a busy machine).

    Args:
        sorting_key: as ``system.tables`` has it: ``a, b``.
    """
    names = [column.name for column in schema.columns]
    found = []
    for item in filter(None, (part.strip() for part in sorting_key.split(","))):
        match = _NAME.fullmatch(item)
        name = (match[1] or match[2]) if match else ""
        if name not in names:
            return ()  # an expression, or a column that the load does not fill
        index = names.index(name)
        if parse_type(schema.columns[index].type).nested:
            return ()
        found.append(index)
    return tuple(found)
