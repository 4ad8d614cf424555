"""Columns of Arrow files and frames as rowfall-decode finds them: no engine is started for them.

The types are those that the engine describes; ``tests/contract/test_parquet_files.py`` compares the
two. What is not known here is left to the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rowfall.core import sql
from rowfall.core.formats import ARROW
from rowfall.core.listing import Split
from rowfall.core.model import Encoding
from rowfall.decoder.documents import Input
from rowfall.schema.types import bytes_columns, parquet_files
from rowfall.schema.types.parquet_files import TypedSample
from rowfall.sources.base import SampledInFile, Source


def read(
    source: Source, splits: Sequence[Split], encoding: Encoding, names: Sequence[str] = (),
    rows: int = 0,
) -> TypedSample | None:  # fmt: skip
    """Read the schemas of some files, or of a frame; None where rowfall-decode declines one.

    Args:
        names: of the columns whose values are measured.
        rows: of each file that are read for it.
    """
    if encoding.format not in ARROW:
        return None
    if isinstance(source, SampledInFile):
        paths = (source.sample_file(split, encoding)[0] for split in splits)
        inputs: tuple[Input, ...] | None = tuple(map(Input, paths))
    else:
        inputs = parquet_files.inputs_of(source, splits, encoding)
    return parquet_files.read_inputs(inputs, encoding.format, names, rows)


def described(file: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """Return (name, type) of the columns as the engine describes them; None where one is unknown.

    The engine is asked with ``schema_inference_make_columns_nullable = 3``: what the file says.
    """
    types = [_engine_type(field) for field in file["fields"]]
    known = [type_ for type_ in types if type_ is not None]
    if len(known) != len(types):
        return None
    return [(str(f["name"]), type_) for f, type_ in zip(file["fields"], known, strict=True)]


def _engine_type(field: Mapping[str, Any]) -> str | None:
    """Return the type that the engine gives a column; None where it is not known here."""
    bare: str | None = field.get("type")
    if bare is None:
        return None
    inner = field.get("fields")
    if inner is None:
        type_ = f"Nullable({bare})" if field["nullable"] else bare
        return f"LowCardinality({type_})" if field["dictionary"] else type_
    types = [_engine_type(each) for each in inner]
    known = [type_ for type_ in types if type_ is not None]
    if len(known) != len(types) or not known:
        return None
    if bare == "Map" and known[0].startswith("Nullable("):
        return None
    if bare == "Tuple":
        names = (sql.bare_name(each["name"]) for each in inner)
        known = [f"{name} {type_}" for name, type_ in zip(names, known, strict=True)]
    made = f"{bare}({', '.join(known)})"
    return f"Nullable({made})" if bare == "Tuple" and field["nullable"] else made


def no_texts(
    source: Source, split: Split, encoding: Encoding, names: Sequence[str], *, zeros: bool
) -> frozenset[str] | None:
    """Return the columns of strings that hold what is no text of a database in the first rows.

    None where the engine has to be asked.

    Args:
        names: of the columns that are looked at, of flat values.
        zeros: texts may have zero bytes.
    """
    sample = read(source, [split], encoding, names, bytes_columns.SAMPLE_ROWS)
    if sample is None:
        return None
    counted = ("foreign",) if zeros else ("foreign", "zeros")
    told = zip(names, sample.columns, strict=True)
    return frozenset(name for name, facts in told if any(facts[fact] for fact in counted))
