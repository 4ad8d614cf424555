"""Facts about the columns of clean CSV, TSV and JSON, as rowfall-decode finds them.

A plan asks how the values of text are written. The engine answers by a query of some hundred
aggregates: 0.1 s for three columns and 0.27 s for 105, most of it to read code that nothing else
needs; and where the target is a server, an engine is started for nothing else.
``rowfall-decode sample`` reads the same rows in some milliseconds. Foreign text (logs, fixed
widths, other charsets and marks) it rewrites first, and of an array of JSON it makes lines. It
declines what is not clean; then the engine is asked, and its answer is what counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Kind
from rowfall.decoder import installed, rewriting
from rowfall.decoder.documents import Input, InputColumn, SampleRequest, Spec
from rowfall.decoder.sampling import TextFacts, first_objects, measure
from rowfall.schema.types.parquet_files import inputs_by_address
from rowfall.sources.base import SampledInFile, Source
from rowfall.sources.compression import compression_of
from rowfall.stores.files import LocalFiles


def text_facts(
    source: Source, splits: Sequence[Split], encoding: Encoding, names: Sequence[str],
    rows: int, more: str,
) -> TextFacts | None:  # fmt: skip
    """Measure the first rows of some files; None where the engine has to be asked.

    Of objects in a store the first megabytes are fetched.

    Args:
        names: of all columns of the files, in their order where there is no header; of JSON the
            keys.
        rows: of each file at most.
        more: lines from elsewhere in the files, without a header.
    """
    program, spec = installed.program(), _spec(source, splits, encoding, names, remote=True)
    if program is None or spec is None:
        return None
    return measure(program, SampleRequest(spec, rows, more))


def object_texts(
    source: Source, splits: Sequence[Split], encoding: Encoding, rows: int, size: int, *,
    remote: bool = False,
) -> list[str] | None:  # fmt: skip
    """Return the texts of the first JSON objects of some files; None where the engine is asked.

    Args:
        rows: of each file at most, and ``size`` their bytes, but for the last one.
        remote: the beginning of objects in a store is fetched, too.
    """
    program, spec = installed.program(), _spec(source, splits, encoding, ["any"], remote=remote)
    if program is None or spec is None:
        return None
    return first_objects(program, SampleRequest(spec, rows, texts=size))


def _spec(
    source: Source, splits: Sequence[Split], encoding: Encoding, names: Sequence[str], *,
    remote: bool = False,
) -> Spec | None:  # fmt: skip
    """Return what rowfall-decode reads; None for what it does not sample."""
    paths: list[str] | None = None
    if isinstance(source, SampledInFile):
        files = [source.sample_file(split, encoding) for split in splits]
        paths, encoding = [path for path, _ in files], files[0][1]
    elif isinstance(source, LocalFiles):
        paths = [split.uri for split in splits]
    packed = {compression_of(split.uri, encoding) for split in splits}
    text = encoding.kind is Kind.TEXT
    known = text or encoding.format == "JSONEachRow"
    wholes = all(split.start is None for split in splits)
    if not known or not wholes or len(packed) != 1:
        return None
    inputs: tuple[Input, ...] | None = None
    if paths is not None:
        inputs = tuple(map(Input, paths))
    elif remote:
        inputs = inputs_by_address(source, splits)
    if inputs is None:
        return None
    compression, dialect = packed.pop(), encoding.dialect
    dialect = None if dialect is None else rewriting.known_dates(dialect)
    if not text:
        return Spec(
            inputs=inputs, format=encoding.format, outputs=("-",), compression=compression,
            columns=tuple(InputColumn(name, "Nullable(String)") for name in names),
            dialect=dialect, unknown="skip",
        )  # fmt: skip
    columns = (InputColumn(name, "String", position=number) for number, name in enumerate(names))
    return Spec(
        inputs=inputs,
        format=encoding.format,
        columns=tuple(columns),
        outputs=("-",),
        compression=compression,
        delimiter=encoding.delimiter,
        null=encoding.null,
        trailing=encoding.trailing,
        dialect=dialect,
        unknown="skip",
        skip_header=bool(encoding.header),
        file_columns=len(names),
    )
