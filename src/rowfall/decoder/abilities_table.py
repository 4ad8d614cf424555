"""Abilities of rowfall-decode, as ``rowfall-decode --abilities`` says it.

Made by ``python docs/make_abilities.py``, so that plans start no process; not edited by hand.
"""

from __future__ import annotations

from typing import Any

ABILITIES: dict[str, Any] = {
    "codecs": (
        "NONE", "LZ4", "LZ4HC", "ZSTD", "Delta", "DoubleDelta", "Gorilla", "T64",
    ),
    "column_formats": (
        "Native", "ArrowStream", "Arrow", "Parquet", "Random",
    ),
    "compressions": (
        "none", "gzip", "zstd", "lz4", "xz", "bz2",
    ),
    "converted": {
        "Bool": (
            "Bool", "Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16",
            "UInt32", "UInt64", "UInt128", "UInt256",
        ),
        "Date32": (
            "Date", "Date32",
        ),
        "DateTime64": (
            "DateTime", "DateTime64",
        ),
        "Decimal": (
            "Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16", "UInt32",
            "UInt64", "UInt128", "UInt256", "Decimal",
        ),
        "FixedString": (
        ),
        "Float32": (
            "Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16", "UInt32",
            "UInt64", "UInt128", "UInt256", "Float32", "Float64",
        ),
        "Float64": (
            "Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16", "UInt32",
            "UInt64", "UInt128", "UInt256", "Float32", "Float64",
        ),
        "Int16": (
            "Bool", "Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16",
            "UInt32", "UInt64", "UInt128", "UInt256", "Float32", "Float64", "Decimal",
        ),
        "Int32": (
            "Bool", "Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16",
            "UInt32", "UInt64", "UInt128", "UInt256", "Float32", "Float64", "Decimal",
        ),
        "Int64": (
            "Bool", "Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16",
            "UInt32", "UInt64", "UInt128", "UInt256", "Float32", "Float64", "Decimal",
        ),
        "Int8": (
            "Bool", "Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16",
            "UInt32", "UInt64", "UInt128", "UInt256", "Float32", "Float64", "Decimal",
        ),
        "String": (
            "String", "FixedString",
        ),
        "UInt16": (
            "Bool", "Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16",
            "UInt32", "UInt64", "UInt128", "UInt256", "Float32", "Float64", "Decimal",
        ),
        "UInt32": (
            "Bool", "Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16",
            "UInt32", "UInt64", "UInt128", "UInt256", "Float32", "Float64", "Decimal", "DateTime",
        ),
        "UInt64": (
            "Bool", "Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16",
            "UInt32", "UInt64", "UInt128", "UInt256", "Float32", "Float64", "Decimal",
        ),
        "UInt8": (
            "Bool", "Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16",
            "UInt32", "UInt64", "UInt128", "UInt256", "Float32", "Float64", "Decimal",
        ),
    },
    "dictionary_types": (
        "String",
    ),
    "nested_types": (
        "Array", "Map", "Tuple",
    ),
    "output_formats": (
        "Native", "TSV", "CSV", "JSONEachRow", "MySQL", "PostgreSQL", "MariaDB",
        "PostgreSQL binary", "ArrowStream",
    ),
    "postgresql": {
        "bool": (
            "Bool",
        ),
        "bpchar": (
            "String", "FixedString", "Enum8", "Enum16",
        ),
        "date": (
            "Date", "Date32",
        ),
        "float4": (
            "Float32",
        ),
        "float8": (
            "Float64",
        ),
        "inet": (
            "IPv4", "IPv6",
        ),
        "int2": (
            "Int8", "Int16", "UInt8",
        ),
        "int4": (
            "Int8", "Int16", "Int32", "UInt8", "UInt16",
        ),
        "int8": (
            "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32",
        ),
        "json": (
            "String", "FixedString", "Enum8", "Enum16",
        ),
        "jsonb": (
            "String", "FixedString", "Enum8", "Enum16",
        ),
        "numeric": (
            "Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16", "UInt32",
            "UInt64", "UInt128", "UInt256", "Decimal",
        ),
        "text": (
            "String", "FixedString", "Enum8", "Enum16",
        ),
        "timestamp": (
            "DateTime", "DateTime64",
        ),
        "timestamptz": (
            "DateTime", "DateTime64",
        ),
        "uuid": (
            "UUID",
        ),
        "varchar": (
            "String", "FixedString", "Enum8", "Enum16",
        ),
    },
    "postgresql_second_digits": 6,
    "row_formats": (
        "MySQL", "PostgreSQL",
    ),
    "text_formats": (
        "CSV", "CSVWithNames", "TSV", "TSVWithNames", "JSONEachRow",
    ),
    "timezones": (
        "Africa/Johannesburg", "Africa/Lagos", "Africa/Nairobi", "America/Anchorage",
        "America/Argentina/Buenos_Aires", "America/Chicago", "America/Denver", "America/Halifax",
        "America/Lima", "America/Los_Angeles", "America/New_York", "America/Phoenix",
        "America/Sao_Paulo", "America/Toronto", "Asia/Bangkok", "Asia/Calcutta", "Asia/Dubai",
        "Asia/Hong_Kong", "Asia/Jakarta", "Asia/Jerusalem", "Asia/Karachi", "Asia/Kolkata",
        "Asia/Seoul", "Asia/Shanghai", "Asia/Singapore", "Asia/Taipei", "Asia/Tokyo",
        "Australia/Adelaide", "Australia/Brisbane", "Australia/Melbourne", "Australia/Perth",
        "Australia/Sydney", "Europe/Amsterdam", "Europe/Athens", "Europe/Berlin", "Europe/Brussels",
        "Europe/Bucharest", "Europe/Budapest", "Europe/Copenhagen", "Europe/Dublin",
        "Europe/Helsinki", "Europe/Istanbul", "Europe/Lisbon", "Europe/London", "Europe/Madrid",
        "Europe/Moscow", "Europe/Oslo", "Europe/Paris", "Europe/Prague", "Europe/Rome",
        "Europe/Stockholm", "Europe/Vienna", "Europe/Warsaw", "Europe/Zurich", "Pacific/Auckland",
        "Pacific/Honolulu",
    ),
    "tuple_elements": 64,
    "types": (
        "Bool", "Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16", "UInt32",
        "UInt64", "UInt128", "UInt256", "Float32", "Float64", "Decimal", "String", "FixedString",
        "Date", "Date32", "DateTime", "DateTime64", "UUID", "IPv4", "IPv6", "Enum8", "Enum16",
    ),
    "utc": (
        "UTC", "Etc/UTC", "Zulu", "GMT",
    ),
    "version": 2,
}  # fmt: skip
