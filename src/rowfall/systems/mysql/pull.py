"""Tell whether and by which pipeline SingleStore reads a source itself (``--pull``). Pure."""

from __future__ import annotations

from rowfall.core import s3_access
from rowfall.core.digest import hexdigest
from rowfall.core.errors import UsageError
from rowfall.core.model import Encoding, Schema
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.sources.base import Source
from rowfall.targets.base import Target

PROMISE = (
    "exactly once by the pipeline: SingleStore loads each file in one transaction and remembers it "
    "until the load is recorded; values are read by the rules of its LOAD DATA"
)
# Of --select and the like: the leaves read the files as they are.
_REFUSED = (
    "select", "where", "max_errors", "max_error_ratio", "rejects", "streams", "add_column",
    "verify", "force", "query", "union_by_name",
)  # fmt: skip
_NAME = "rowfall_"


def pulls(target: Target, options: Options) -> bool:
    """Tell whether a load is a pipeline's."""
    if not options.pull:
        return False
    from rowfall.systems.mysql.target import SingleStoreTable  # 21 kB of code

    return isinstance(target, SingleStoreTable)


def pipeline_name(source: Source, target: Target) -> str:
    """Return the name of the pipeline of a source and a table."""
    text = f"{source.text}\0{target.text}\0{target.database}.{target.table}"
    return _NAME + hexdigest(text.encode(), 8)


def create_pipeline(
    source: Source, target: Target, options: Options, encoding: Encoding | None, schema: Schema
) -> SqlText:
    """Return CREATE PIPELINE for what a load reads.

    Raises:
        UsageError: pipelines cannot read it, or not as it is asked for.
    """
    from rowfall.systems.mysql.target import PipelineText, SingleStoreTable

    assert isinstance(target, SingleStoreTable)  # noqa: S101 - see pulls()
    for flag in _REFUSED:
        if getattr(options, flag):
            raise refused(f"--{flag.replace('_', '-')} needs rows that are read here")
    if not source.text.startswith("s3://") or " " in source.text:
        raise refused("a pipeline reads one s3:// pattern")
    if encoding is None or not encoding.is_csv or encoding.dialect is not None:
        raise refused("only plain CSV goes through a pipeline here")
    if encoding.compression not in ("none", "gzip"):
        raise refused(f"pipelines do not unpack {encoding.compression}")
    if any(c.name != (c.source or c.name) for c in schema.columns) or schema.projection:
        raise refused("columns have other names than those of the files")
    path = source.text.removeprefix("s3://")
    text = PipelineText(
        _in_file(encoding, schema), encoding.delimiter, encoding.null, encoding.has_header
    )
    return target.pipeline(pipeline_name(source, target), path, s3_access.resolve(options), text)


def _in_file(encoding: Encoding, schema: Schema) -> tuple[str, ...]:
    """Return the columns in the order of the files."""
    names = tuple(c.name for c in schema.columns)
    header = encoding.names or encoding.header
    if not header:
        return names
    if set(header) != set(names):
        raise refused("the files have other columns than the table")
    return tuple(header)


def refused(why: str) -> UsageError:
    """Return why a load cannot be a pipeline's."""
    return UsageError(f"--pull: {why}", hint="With --push the rows are read here and sent.")
