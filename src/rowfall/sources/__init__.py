"""Sources of rows: which splits there are, and the FROM clause that reads them.

A new source is one file with the methods of :class:`rowfall.sources.base.Source` and one line in
:data:`REGISTRY`. Here lies what all of them share (base, from_clause, pipes, rewriting, rewrites),
what databases share (databases, arrow_database, arrow_batches, limited_rows, handover, relay), and
the rows that the engine makes (generate, recipes). What gives files lies in rowfall.stores, systems
in rowfall.systems. Sources write nothing, except what ``--after`` asks for. Imports decoder, core.
Modules load when their scheme is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from rowfall.core import file_databases, own_files, uri
from rowfall.core.errors import UsageError
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.registry import find

if TYPE_CHECKING:
    from rowfall.sources.base import Source

REGISTRY = {
    "file": "stores.files:LocalFiles",
    "stdin": "stores.stdin:StandardInput",
    "s3": "stores.s3:S3",
    "gs": "stores.gs:open_gs",
    "az": "stores.az:Az",
    "http": "stores.http:Http",
    "https": "stores.http:Http",
    "hdfs": "stores.hdfs:Hdfs",
    "arrow": "stores.frames:open_arrow",
    "generate": "generate:Generate",
    "kafka": "systems.kafka.source:KafkaSource",
    "iceberg": "systems.lakes.iceberg_source:open_iceberg",
    "delta": "systems.lakes.delta_source:open_delta",
    "mysql": "systems.mysql.source:MySQLSource",
    "mariadb": "systems.mysql.source:MySQLSource",
    "singlestore": "systems.mysql.source:MySQLSource",
    "clickhouse": "systems.clickhouse.source:ClickHouse",
    "clickhouses": "systems.clickhouse.source:ClickHouse",
    "folder": "systems.clickhouse.data_folder:DataFolder",
    "duckdb": "systems.duckdb.source:DuckDBSource",
    "sqlite": "systems.sqlite.source:SQLiteSource",
    "postgresql": "systems.postgresql.source:PostgresSource",
    "postgres": "systems.postgresql.source:PostgresSource",
}
"""Scheme -> module in this package, ``stores.file`` or ``systems.folder.file``, and class, which
takes (texts, options)."""

_ARCHIVES = "stores.archives:open_archives"
_BOOKS = "stores.workbooks:open_workbooks"
# Those that nobody writes as scheme://.
_UNWRITTEN = frozenset({"file", "stdin", "arrow"})


def open_source(texts: Sequence[str], options: Options) -> Source:
    """Open the source of one or several SOURCE arguments, not yet listed.

    Raises:
        UsageError: none given, an unknown scheme, or schemes that cannot be joined.
    """
    if not texts or not all(texts):
        raise UsageError(
            "no source is given", hint="Name a file, a folder, a glob, a URI, or - for stdin."
        )
    classes = {_class_of(text): text for text in reversed(texts)}
    if len(classes) > 1:
        listed = ", ".join(uri.mask(text) for text in reversed(classes.values()))
        raise UsageError(
            f"one load reads one kind of source, but these differ: {listed}",
            hint="Run one load after the other into the same table.",
        )
    check_options(texts, options)
    factory = find(next(iter(classes)), "sources")
    if any(map(_ARCHIVE.search, texts)):  # others save its libraries
        archives = find(_ARCHIVES, "sources")(texts, options, factory)
        if archives is not None:
            return cast("Source", archives)
    if any(map(_BOOK.search, texts)):
        books = find(_BOOKS, "sources")(texts, options, factory)
        if books is not None:
            return cast("Source", books)
    if options.sheet is not None:
        raise UsageError(
            f"--sheet is for workbooks, and {uri.mask(texts[0])} is none",
            hint="Workbooks end in .xlsx, .xlsm, .xlsb, .xls or .ods.",
        )
    return cast("Source", factory(texts, options))


def check_options(texts: Sequence[str], options: Options) -> None:
    """Check that no option is given that only sources of another kind know.

    Raises:
        UsageError: one is.
    """
    for name, (flag, schemes, what, hint) in _OF_SOME.items():
        if getattr(options, name) and not any(uri.scheme_of(text) in schemes for text in texts):
            raise UsageError(f"{flag} is for {what}, and {uri.mask(texts[0])} is none", hint=hint)


_LAKES_ARE = "Lake tables are iceberg+s3://bucket/path, delta+/path and the like."
_TOPICS_ARE = "Topics are kafka://host:port/topic."
_OF_SOME = {
    "snapshot": ("--snapshot", uri.LAKES, "lake tables", _LAKES_ARE),
    "since": ("--since", uri.LAKES, "lake tables", _LAKES_ARE),
    "start_at": ("--from", ("kafka",), "topics", _TOPICS_ARE),
    "until": ("--until", ("kafka",), "topics", _TOPICS_ARE),
}
"""Options of some sources: flag, schemes, what has it, hint."""

# Most likely it names an archive.
_ARCHIVE = regex(r"\.(zip|tar|tgz|tbz|txz|tzst)", re.I)
_BOOK = regex(r"\.(xls|ods)", re.I)


def _class_of(text: str) -> str:
    """Return the entry of the registry for one SOURCE argument."""
    scheme = uri.scheme_of(text)
    if scheme not in REGISTRY:
        names = [name for name in REGISTRY if name not in _UNWRITTEN]
        known = ", ".join(f"{name}://" for name in names)
        raise UsageError(
            f"no source reads {scheme}:// ({uri.mask(text)})",
            hint=f"{did_you_mean(scheme, names)}"
            f"Sources are paths, globs, - for stdin, and {known}.",
        )
    if scheme == "file":
        path = os.path.expanduser(uri.file_path(text))
        if own_files.is_data_folder_at(path):
            return REGISTRY["folder"]
        if database := file_databases.scheme_of_file(path):
            return REGISTRY[database]
    return REGISTRY["stdin"] if text == "/dev/stdin" else REGISTRY[scheme]
