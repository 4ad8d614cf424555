"""Columns of Parquet files as rowfall-decode finds them: no engine is started for their footers.

The types are those that the engine describes; ``tests/contract/test_parquet_files.py`` compares the
two. What is not known here is left to the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rowfall.core import sql
from rowfall.core.listing import Split
from rowfall.core.model import Encoding
from rowfall.core.patterns import regex
from rowfall.decoder import installed
from rowfall.decoder.documents import Input, InputColumn, SampleRequest, Spec
from rowfall.decoder.sampling import typed_files
from rowfall.schema.column_facts import ColumnFacts
from rowfall.schema.types.footers import FileColumn, Footer, plain_type
from rowfall.sources.base import Addressed, Source
from rowfall.stores.files import LocalFiles

_UNITS = {"milliseconds": 3, "microseconds": 6, "nanoseconds": 9}
_TIME = regex(r"(?:Time|Timestamp)\(isAdjustedToUTC=(?:true|false), timeUnit=(\w+)[^)]*\)")
_MOMENT = regex(r"DateTime64\((\d)(?:, 'UTC')?\)")  # 24.10 says no zone
_DECIMAL = regex(r"Decimal\(precision=(\d+), scale=(\d+)\)")


class TypedSample(NamedTuple):
    """Tells what files with types say of their columns, and facts about values of their first rows.

    Attributes:
        files: what the footer of each holds (crates/rowfall-decode/src/sample/footers.rs), of Arrow
            the schema (arrow.rs).
        rows: that were read, of all files together.
        columns: facts about each column that was asked for, by name.
    """

    files: Sequence[Mapping[str, Any]]
    rows: int
    columns: Sequence[Mapping[str, Any]]


def read(
    source: Source, splits: Sequence[Split], encoding: Encoding, names: Sequence[str] = (),
    rows: int = 0,
) -> TypedSample | None:  # fmt: skip
    """Read the footers of some files; None where rowfall-decode is not there or declines one.

    Args:
        names: of the columns whose values are measured.
        rows: of each file that are read for it.
    """
    if encoding.format != "Parquet":
        return None
    return read_inputs(inputs_of(source, splits, encoding), "Parquet", names, rows)


def read_inputs(
    inputs: Sequence[Input] | None, format_: str, names: Sequence[str], rows: int
) -> TypedSample | None:
    """Sample files with types, see :func:`read`; None without ``inputs``."""
    program = installed.program()
    if program is None or not inputs:
        return None
    columns = tuple(InputColumn(name, "String") for name in names or ("any",))
    spec = Spec(inputs=tuple(inputs), format=format_, outputs=("-",), columns=columns)
    found = typed_files(program, SampleRequest(spec, rows if names else 0))
    if found is None:
        return None
    return TypedSample(found["files"], found["rows"], found["columns"] if names else ())


def null_lists(
    source: object, split: Split, encoding: Encoding, names: Sequence[str]
) -> list[str] | None:
    """Return the columns in which a list or a map is NULL; None where nobody has looked.

    Args:
        encoding: of Parquet or Arrow. ``names``: of the columns that are looked at.
    """
    program = installed.program()
    inputs = None if program is None else inputs_of(source, [split], encoding)
    if program is None or not inputs:
        return None
    columns = tuple(InputColumn(name, "String") for name in names)
    spec = Spec(inputs=inputs, format=encoding.format, outputs=("-",), columns=columns)
    found = typed_files(program, SampleRequest(spec, 0, null_lists=True))
    return None if found is None else found["null_lists"]


def inputs_of(
    source: object, splits: Sequence[Split], encoding: Encoding
) -> tuple[Input, ...] | None:
    """Return files as inputs of rowfall-decode; None where it cannot open them by itself."""
    if encoding.compression not in ("none", "auto"):
        return None
    wholes = [whole_file(split) for split in splits]
    if isinstance(source, LocalFiles):
        return tuple(Input(split.uri) for split in wholes)
    return inputs_by_address(source, wholes)


def inputs_by_address(source: object, splits: Sequence[Split]) -> tuple[Input, ...] | None:
    """Return whole objects as inputs that rowfall-decode fetches; None where it cannot."""
    if not isinstance(source, Addressed) or any(split.size is None for split in splits):
        return None
    return tuple(
        Input(
            split.uri, url=address.url, headers=address.headers or None, size=split.size,
            version=None if address.any_version else split.version, by_query=address.by_query,
        )
        for split, address in zip(splits, source.addresses(splits), strict=True)
    )  # fmt: skip


def whole_file(split: Split) -> Split:
    """Return the file of a range of rows, which has its footer at its end."""
    if split.part is None or split.of_text:
        return split
    return replace(split, size=split.part.size, start=None, stop=None, part=None)


def footers_of(files: Sequence[Mapping[str, Any]]) -> list[Footer]:
    """Return footers as :func:`rowfall.schema.types.footers.read_answer` does: alike ones once."""
    groups: dict[tuple[tuple[str, FileColumn], ...], list[str]] = {}
    for file in files:
        columns = tuple(sorted(
            ((leaf["path"], FileColumn(type_of(leaf), leaf["exact"])) for leaf in file["leaves"]),
            key=lambda pair: pair[0],
        ))  # fmt: skip
        groups.setdefault(columns, []).append(file["uri"])
    return [Footer(dict(columns), tuple(uris)) for columns, uris in groups.items()]


def type_of(leaf: Mapping[str, Any]) -> str:
    """Return the type of a leaf in Parquet's words: ``INT64 Int(bitWidth=8, isSigned=true)``."""
    logical = leaf["logical"]
    return str(leaf["physical"]) + ("" if logical == "None" else f" {logical}")


def leaves_with_nulls(files: Sequence[Mapping[str, Any]], *, some: bool) -> set[str]:
    """Return the paths of leaves whose row groups may hold a NULL, or surely hold none.

    Args:
        some: those that may.
    """
    may, seen = set(), set()
    for file in files:
        for leaf in file["leaves"] if file["row_groups"] else ():
            seen.add(str(leaf["path"]))
            if leaf["with_nulls"]:
                may.add(str(leaf["path"]))
    return may if some else seen - may


def described(file: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """Return (name, type) of the columns as the engine describes them; None where one is unknown.

    The engine is asked with ``schema_inference_make_columns_nullable = 3``: what the file says.
    """
    found = []
    for field in file["fields"]:
        type_ = engine_type(field)
        if type_ is None:
            return None
        found.append((str(field["name"]), type_))
    return found


def with_times_of_day(column: ColumnFacts, leaves: Mapping[str, FileColumn]) -> ColumnFacts:
    """Return a column whose times of day have their own type.

    The engine describes them as moments of 1970; where it is told so, it reads them as they are.

    Args:
        leaves: of the file. Where one of the column is a moment, all are left as they are.
    """
    inside = [
        leaf.type for path, leaf in leaves.items() if f"{path}.".startswith(f"{column.name}.")
    ]
    moments = [type_ for type_ in inside if "Timestamp(" in type_ or type_.startswith("INT96")]
    if moments or not any(" Time(" in type_ for type_ in inside):
        return column
    type_ = _MOMENT.sub(r"Time64(\1)", column.declared.type)
    return replace(column, declared=replace(column.declared, type=type_))


def engine_type(field: Mapping[str, Any], *, optional: bool = False) -> str | None:
    """Return the type that the engine gives a column; None where it is not known here.

    Args:
        optional: a struct around it may be NULL; a list between the two does not count.
    """
    if field["repetition"] == "REPEATED":
        return None
    may_lack = field["repetition"] == "OPTIONAL"
    if "fields" not in field:
        bare = _flat(field)
        return f"Nullable({bare})" if bare and (optional or may_lack) else bare
    if field["logical"] in ("List", "Map"):
        return _repeated(field)
    if field["logical"] != "None" or not field["fields"]:
        return None
    elements = []
    for each in field["fields"]:
        type_ = engine_type(each, optional=optional or may_lack)
        if type_ is None:
            return None
        elements.append(f"{sql.bare_name(each['name'])} {type_}")
    bare = f"Tuple({', '.join(elements)})"
    # Nothing else tells a struct that is NULL from one of NULLs.
    only = may_lack and not optional and all(map(_is_always_there, field["fields"]))
    return f"Nullable({bare})" if only else bare


def _is_always_there(field: Mapping[str, Any]) -> bool:
    """Tell whether neither a field nor what is in it may be NULL or a list."""
    inner = field.get("fields", ())
    return field["repetition"] == "REQUIRED" and all(map(_is_always_there, inner))


def _repeated(field: Mapping[str, Any]) -> str | None:
    """Return the type of a list or a map.

    They have the three levels of the standard: other ways to write them are the engine's to judge.
    """
    inner, is_list = field["fields"], field["logical"] == "List"
    if len(inner) != 1 or inner[0]["repetition"] != "REPEATED" or "fields" not in inner[0]:
        return None
    types = [engine_type(each) for each in inner[0]["fields"]]
    known = [type_ for type_ in types if type_ is not None]
    if len(known) != len(types) or len(known) != (1 if is_list else 2):
        return None
    if is_list:
        return f"Array({known[0]})"
    return None if known[0].startswith("Nullable(") else f"Map({known[0]}, {known[1]})"


def _flat(field: Mapping[str, Any]) -> str | None:
    physical, logical, length = field["physical"], field["logical"], field["length"]
    decimal = _DECIMAL.fullmatch(logical)
    if decimal:
        digits, scale = int(decimal[1]), int(decimal[2])
        return f"Decimal({digits}, {scale})" if 0 < digits <= 76 and scale <= digits else None
    moment = _TIME.fullmatch(logical)
    if moment and physical in ("INT32", "INT64"):  # times of day, too
        return f"DateTime64({_UNITS[moment[1]]}, 'UTC')"
    if logical == "Date" and physical == "INT32":
        return "Date32"
    if physical == "INT96" and logical == "None":
        return "DateTime64(9, 'UTC')"
    if physical == "FIXED_LEN_BYTE_ARRAY":
        kinds = {"UUID": "UUID", "Float16": "Float32", "None": f"FixedString({length})"}
        return kinds.get(logical)
    if physical == "BYTE_ARRAY" and logical in ("Enum", "JSON", "BSON"):
        return "String"
    return plain_type(physical if logical == "Null" else type_of(field))
