"""Formats that only the engine's own readers read, without checks by rowfall. Pure.

One table: names, extensions, and whether the file itself says what its columns are. The page
docs/reference/formats.md is made of it by ``docs/make_reference.py``.
"""

from __future__ import annotations

from rowfall.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class EngineFormat:
    """One format.

    Attributes:
        name: the engine's name.
        given: columns are those that the user or the table gives, where they do: the file has no
            names, or no types. Otherwise they are found by name.
        needs: what has to be given besides the file, as half a sentence; "" for nothing.
        extensions: lower case, with the dot; only where they mean nothing else.
        aliases: other names, lower case.
    """

    name: str
    given: bool = False
    needs: str = ""
    extensions: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


SCHEMA = "--schema, or a table that is there"
# The embedded engine would look for the file in a folder that it does not have.
_PROTOBUF = (
    "a server; --schema; and --set format_schema=FILE:MESSAGE, or --set "
    "format_schema_source=string with the text of the .proto file and --set "
    "format_schema_message_name=MESSAGE"
)
_SEPARATED = "--set format_custom_field_delimiter=... and its like; a tab by default"
_REGEXP = "--set format_regexp=..., one group a column"
_TEMPLATE = "--set format_template_row_format='${id:CSV},${name:CSV}' or ..._row=FILE"
_REGISTRY = "--set format_avro_schema_registry_url=..."

ENGINE_FORMATS = (
    EngineFormat("ArrowStream", extensions=(".arrows",)),
    EngineFormat("AvroConfluent", needs=_REGISTRY),
    EngineFormat("BSONEachRow", extensions=(".bson",), aliases=("bson",)),
    EngineFormat("Buffers", given=True, needs=SCHEMA),
    EngineFormat("CSVWithNamesAndTypes"),
    EngineFormat(
        "CapnProto", given=True, needs="a server; --schema; and --set format_schema=FILE:MESSAGE"
    ),
    EngineFormat("CustomSeparated", given=True, needs=_SEPARATED),
    EngineFormat("CustomSeparatedIgnoreSpaces", given=True, needs=_SEPARATED),
    EngineFormat("CustomSeparatedIgnoreSpacesWithNames", needs=_SEPARATED),
    EngineFormat("CustomSeparatedIgnoreSpacesWithNamesAndTypes", needs=_SEPARATED),
    EngineFormat("CustomSeparatedWithNames", needs=_SEPARATED),
    EngineFormat("CustomSeparatedWithNamesAndTypes", needs=_SEPARATED),
    EngineFormat("DWARF"),
    EngineFormat("Form"),
    EngineFormat("GeoJSON", extensions=(".geojson",)),
    EngineFormat("HiveText", given=True, needs=SCHEMA),
    EngineFormat("JSON"),
    EngineFormat("JSONAsObject", given=True),
    EngineFormat("JSONAsString", given=True),
    EngineFormat("JSONColumns"),
    EngineFormat("JSONColumnsWithMetadata"),
    EngineFormat("JSONCompact"),
    EngineFormat("JSONCompactColumns", given=True),
    EngineFormat("JSONCompactEachRow", given=True),
    EngineFormat("JSONCompactEachRowWithNames"),
    EngineFormat("JSONCompactEachRowWithNamesAndTypes"),
    EngineFormat("JSONCompactStringsEachRow", given=True),
    EngineFormat("JSONCompactStringsEachRowWithNames"),
    EngineFormat("JSONCompactStringsEachRowWithNamesAndTypes"),
    EngineFormat("JSONObjectEachRow"),
    EngineFormat("JSONStringsEachRow"),
    EngineFormat("LineAsString", given=True, aliases=("lines",)),
    EngineFormat("MsgPack", given=True, needs=SCHEMA, aliases=("messagepack",)),
    EngineFormat("MySQLDump", given=True),
    EngineFormat("Npy", given=True, extensions=(".npy",), aliases=("numpy",)),
    EngineFormat("One"),
    EngineFormat("ParquetMetadata"),
    EngineFormat("Protobuf", given=True, needs=_PROTOBUF),
    EngineFormat("ProtobufList", given=True, needs=_PROTOBUF),
    EngineFormat("ProtobufSingle", given=True, needs=_PROTOBUF),
    EngineFormat("Puffin"),
    EngineFormat("PuffinMetadata"),
    EngineFormat("RawBLOB", given=True),
    EngineFormat("Regexp", given=True, needs=_REGEXP),
    EngineFormat("RowBinary", given=True, needs=SCHEMA),
    EngineFormat("RowBinaryWithDefaults", given=True, needs=SCHEMA),
    EngineFormat("RowBinaryWithNames", given=True, needs=SCHEMA),
    EngineFormat("RowBinaryWithNamesAndTypes"),
    EngineFormat("RowBinaryWithNamesAndTypesAndDefaults"),
    EngineFormat("TSKV", extensions=(".tskv",)),
    EngineFormat("TSVRaw", given=True, aliases=("tabseparatedraw", "raw")),
    EngineFormat("TSVRawWithNames", aliases=("tabseparatedrawwithnames", "rawwithnames")),
    EngineFormat(
        "TSVRawWithNamesAndTypes",
        aliases=("tabseparatedrawwithnamesandtypes", "rawwithnamesandtypes"),
    ),
    EngineFormat("TSVWithNamesAndTypes", aliases=("tabseparatedwithnamesandtypes",)),
    EngineFormat("Template", given=True, needs=_TEMPLATE),
    EngineFormat("TemplateIgnoreSpaces", given=True, needs=_TEMPLATE),
    EngineFormat("Values", given=True),
)

BY_NAME = {f.name: f for f in ENGINE_FORMATS}


def is_engine_only(name: str) -> bool:
    """Tell whether a format has no reading of rowfall's own: the engine's defaults judge values."""
    return name in BY_NAME


def are_given(name: str) -> bool:
    """Tell whether the columns of a format are those that the user or the table gives."""
    return name in BY_NAME and BY_NAME[name].given


def has_schema_file(name: str) -> bool:
    """Tell whether a format is read by a schema that only the server has."""
    return are_given(name) and "format_schema=" in BY_NAME[name].needs


def needs(name: str) -> str:
    """Return a clause on what a format needs besides the file, as a schema; "" for nothing."""
    return BY_NAME[name].needs if name in BY_NAME else ""
