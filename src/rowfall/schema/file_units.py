"""The units of times that a file says of its columns, whatever its format."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from rowfall.core import formats
from rowfall.core.errors import RowfallError
from rowfall.core.listing import Split
from rowfall.core.model import Encoding
from rowfall.core.options import Options
from rowfall.schema import arrow_units, avro_blocks, avro_units
from rowfall.schema.time_units import Units

if TYPE_CHECKING:
    from rowfall.systems.kafka.schema_registry import SchemaRegistry

MESSAGES = "AvroConfluent"
ANY_TIMES = frozenset({"Avro", MESSAGES})
"""Formats whose files say the units of all times, and not of durations alone."""
FORMATS = frozenset({*ANY_TIMES, "Parquet", *formats.ARROW})
_REGISTRY = "format_avro_schema_registry_url"


def units_of(source: Any, split: Split, encoding: Encoding, registry: str = "") -> Units | None:
    """Return the units of the times in each column; None of a file that nobody can look into.

    Args:
        registry: the address of the registry of schemas, for messages of Avro.
    """
    if not isinstance(source, avro_blocks.HasPieces):
        return None
    if encoding.format == MESSAGES:
        return _of_messages(source, split, encoding, registry)
    if encoding.format == "Avro":
        schema = avro_blocks.schema_of(source, split, encoding)
        return None if schema is None else avro_units.times(schema)
    if encoding.format == "Parquet":
        return arrow_units.of_parquet(source, split, encoding)
    return arrow_units.of_arrow(source, split, encoding)


def registry_of(options: Options) -> str:
    """Return the address of the registry that ``--set`` names; "" for none."""
    given = dict(text.partition("=")[::2] for text in options.set)
    return given.get(_REGISTRY, "")


def _of_messages(
    source: avro_blocks.HasPieces, split: Split, encoding: Encoding, registry: str
) -> Units | None:
    """Return the units in the schema of the first message of a file.

    Where the next one begins is known to who reads its values.
    """
    from rowfall.systems.kafka.schema_registry import PREFIX

    begin = avro_blocks.first_bytes(source, split, encoding, PREFIX)
    if len(begin) < PREFIX or begin[0] or not registry:
        return None
    with suppress(RowfallError, ValueError):  # the reader asks, too, and says what is wrong
        schema = _opened(registry).schema(int.from_bytes(begin[1:], "big"))
        return avro_units.times(json.loads(schema.text))
    return None


@lru_cache(maxsize=4)
def _opened(registry: str) -> SchemaRegistry:
    """Return the registry at an address, which asks for each schema once."""
    from rowfall.systems.kafka.schema_registry import SchemaRegistry  # 14 ms that others save

    address = urlsplit(registry)
    host = address.netloc.rpartition("@")[2]
    given = {"url": address._replace(netloc=host).geturl()}
    if address.username:
        given["user"] = unquote(address.username)
        given["password"] = unquote(address.password or "")
    return SchemaRegistry(given, "AVRO")
