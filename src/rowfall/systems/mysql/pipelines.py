"""Pipelines of SingleStore (``--pull``): its leaves read a bucket themselves, each file once.

A pipeline remembers which files it has loaded, so one that a crash has left is started again and
goes on. What its views say vanishes with a restart of the server; so they are copied at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from rowfall.core import s3_access
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, UsageError
from rowfall.core.model import Encoding, Schema
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.sources.base import Source
from rowfall.systems.mysql.client import name, number_of, quote
from rowfall.targets.base import Target

if TYPE_CHECKING:
    from rowfall.systems.mysql.database import MySQLDatabase

# --- whether and by which one ---------------------------------------------------------------------

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
    return _NAME + blake2b(text.encode(), digest_size=8).hexdigest()


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
    """Return the error for ``--pull`` where no pipeline can do the load."""
    return UsageError(f"--pull: {why}", hint="With --push the rows are read here and sent.")


# --- running it -----------------------------------------------------------------------------------

POLL_SECONDS = 0.5
_MOST_ERRORS = 20
_LOADED, _SKIPPED = "Loaded", "Skipped"
# Views of batches are asked for all columns: their names differ between versions.
_WAITS = ("EXTRACT", "TRANSFORM", "NETWORK")


@dataclass(frozen=True, slots=True)
class PipelineState:
    """Holds what the views tell of a pipeline.

    Attributes:
        files: name of each file that it knows -> its state (Unloaded, Loaded, Skipped, ...).
        rows, megabytes: of batches that have succeeded.
        seconds: that batches took, and that they waited for ``extract``, ``transform`` and
            ``network``.
        errors: texts, with the file and line where they are known.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0
    megabytes: float = 0.0
    seconds: Mapping[str, float] = field(default_factory=dict)
    errors: tuple[str, ...] = ()

    @property
    def loaded(self) -> frozenset[str]:
        """Return the files that are loaded."""
        return frozenset(file for file, state in self.files.items() if state == _LOADED)


def run_pipeline(
    database: MySQLDatabase, pipeline: str, create: SqlText, see: Callable[[PipelineState], None]
) -> PipelineState:
    """Create a pipeline where it is missing, run it in the foreground to its end, and look at it.

    On Ctrl-C the pipeline is stopped, and stays for the next run.

    Args:
        see: called with what the views say, twice a second.

    Raises:
        RowfallError: it cannot be created, or has failed; its errors are in the text.
    """
    database.do(create.reveal())
    connection = database.take()
    ended: list[BaseException | None] = []

    def start() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"START PIPELINE {name(pipeline)} FOREGROUND")
            ended.append(None)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            with suppress(RowfallError):
                see(look(database, pipeline))
    except BaseException:
        with suppress(RowfallError):
            database.do(f"STOP PIPELINE {name(pipeline)}")
        raise
    state = look(database, pipeline)
    database.leave(connection)
    if ended[0] is not None:
        raise _failed(database, pipeline, ended[0], state)
    return state


def _failed(
    database: MySQLDatabase, pipeline: str, error: BaseException, state: PipelineState
) -> RowfallError:
    """Return the error of a pipeline with what its view of errors says."""
    if not isinstance(error, Exception):
        raise error
    found = database.explained(error, f"run the pipeline {pipeline}")
    if state.errors:
        found.message += f"; its errors: {'; '.join(state.errors[:3])}"
    if number_of(error) and not found.hint:
        found.hint = "Nothing that has failed is loaded: correct it and run the same command again."
    return found


def drop_pipeline(database: MySQLDatabase, pipeline: str) -> None:
    """Drop a pipeline, which forgets what it has loaded."""
    database.do(f"DROP PIPELINE IF EXISTS {name(pipeline)}")


def exists(database: MySQLDatabase, pipeline: str) -> bool:
    """Tell whether a pipeline is there."""
    return bool(_view(database, "PIPELINES", pipeline))


def look(database: MySQLDatabase, pipeline: str) -> PipelineState:
    """Return the state of a pipeline by information_schema: files, rows, seconds, errors."""
    files = {
        str(row["FILE_NAME"]): str(row["FILE_STATE"])
        for row in _view(database, "PIPELINES_FILES", pipeline)
    }
    rows, megabytes = 0, 0.0
    seconds: dict[str, float] = {}
    for batch in _view(database, "PIPELINES_BATCHES_SUMMARY", pipeline):
        if str(batch.get("BATCH_STATE")) == "Succeeded":
            rows += int(batch.get("ROWS_INSERTED") or batch.get("ROWS_STREAMED") or 0)
            megabytes += float(batch.get("MB_STREAMED") or 0)
        _add(seconds, "batches", batch.get("BATCH_TIME"))
        for column, value in batch.items():
            for word in _WAITS:
                if word in column and "TIME" in column:
                    _add(seconds, word.lower(), value)
    errors = tuple(
        _said(row) for row in _view(database, "PIPELINES_ERRORS", pipeline)[:_MOST_ERRORS]
    )
    return PipelineState(files, rows, megabytes, seconds, errors)


def _add(seconds: dict[str, float], word: str, value: Any) -> None:
    with suppress(TypeError, ValueError):
        seconds[word] = seconds.get(word, 0.0) + float(value)


def _said(row: Mapping[str, Any]) -> str:
    where = str(row.get("BATCH_SOURCE_PARTITION_ID") or "")
    if row.get("LOAD_DATA_LINE_NUMBER"):
        where += f" line {row['LOAD_DATA_LINE_NUMBER']}"
    text = str(row.get("ERROR_MESSAGE") or row.get("ERROR_CODE") or "an error without a text")
    return f"{where}: {text}" if where else text


def _view(database: MySQLDatabase, view: str, pipeline: str) -> list[dict[str, Any]]:
    """Return the rows of a view by the names of their columns."""
    return database.dictionaries(
        f"SELECT * FROM information_schema.{view} WHERE DATABASE_NAME = "
        f"{quote(database.name)} AND PIPELINE_NAME = {quote(pipeline)}"
    )
