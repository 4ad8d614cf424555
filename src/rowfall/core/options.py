"""Every option once: its type, default, flag, help and the commands that take it.

The command line, the keyword options of the library (:mod:`rowfall.core.keywords`) and
``docs/reference/options.md`` are made from this table.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, field, fields, replace
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.nearest import nearest
from rowfall.core.other_tools import option_hint

FILTER, DISTRIBUTED = "filter", "distributed"
"""Ways of rows to the shard that a sharding key says, see :class:`rowfall.core.model.Plan`."""

ALL, JOURNAL, NONE = "all", "journal", "none"
"""Answers of ``--loaded`` where ledger, journal and table contradict each other."""

ADD, IGNORE, ERROR, DEFAULT = "add", "ignore", "error", "default"
SKIP, REPLACE = "skip", "replace"
"""What becomes of columns that only the files have, or only the table."""

METHODS = ("local", FILTER, DISTRIBUTED)
"""All ways that may be asked for."""

COMPRESSIONS = ("auto", "lz4", "zlib", "none")
"""Answers of ``--compress``."""

MAIN = frozenset((
    "to", "table", "tables", "password", "format", "delimiter", "header", "null", "encoding",
    "schema", "type", "select", "where", "on_new_column", "order_by", "replace", "upsert",
    "on_conflict", "max_errors", "memory", "verify", "save", "fewer_than", "budget", "json",
    "quiet", "verbose", "help", "every", "dry_run", "at_once",
))  # fmt: skip
"""Options that most loads need: those that ``--help`` lists without being asked for more."""

FOLLOW_ONLY = (
    "on_change", "at_rest", "marker", "batch_seconds", "batch_bytes", "batch_rows", "poll",
    "rescan", "queue", "forget_after",
)  # fmt: skip
"""Options that mean nothing without ``--follow``."""

EXPORT = "export"
LOAD, PLAN, QUERY, STATUS, REPORT, VERIFY = "load", "plan", "query", "status", "report", "verify"
SCALE, ADOPT, DOCTOR, TUNE = "scale", "adopt", "doctor", "tune"
READ = "read"
FOLLOW = "follow"
"""Scope of options that only a load has which goes on: those of a pipeline in ``rowfall.toml``."""
_READ_TAKES = frozenset((
    "format", "compression", "delimiter", "header", "columns", "quote", "escape", "comment",
    "skip_lines", "blanks", "null_lists", "short_rows", "blank_lines", "encoding", "null",
    "decimal", "thousands", "dates", "sheet", "snapshot", "since", "query", "s3_endpoint",
    "s3_region", "s3_profile", "s3_anonymous", "start_at", "until", "schema", "schema_file",
    "type", "rename", "skip", "add_column", "union_by_name", "on_new_column", "narrow", "select",
    "where", "decoder",
    "threads", "memory", "max_record", "max_columns", "set", "max_errors", "max_error_ratio",
    "rejects", "patience",
))  # fmt: skip
"""Options of ``rowfall.read``: what there is of the others is for tables and for loads."""
_EXPORT_TAKES = frozenset((
    "query", "select", "where", "rename", "skip", "limit", "sample", "files", "to_format",
    "replace", "verify", "threads", "memory", "s3_endpoint", "s3_region", "s3_profile",
    "s3_anonymous",
))  # fmt: skip
"""Options of ``rowfall export``: of the others some are for text, and some for tables to write."""
_TAKES = {READ: _READ_TAKES, EXPORT: _EXPORT_TAKES}
ANSWERS = ("force", "force_append", "loaded")
"""Options that answer what one load has asked: they stand in no file and no variable."""
_BOTH = (LOAD, PLAN, DOCTOR, TUNE)
_READS = (LOAD, PLAN, SCALE, DOCTOR, TUNE)
# What says which rows a source has: part of what is recorded as loaded.
_NAMES = (*_READS, ADOPT)


@dataclass(frozen=True, slots=True)
class Flag:
    """Spelling of one option on the command line.

    Attributes:
        flags: e.g. ``("--threads", "-j")``.
        metavar: placeholder in the help, "" for switches.
        help: one sentence.
        group: heading in help and reference.
        commands: the commands that take it.
        many: may be given more than once; the values are collected.
    """

    flags: tuple[str, ...]
    metavar: str
    help: str
    group: str
    commands: tuple[str, ...] = _BOTH
    many: bool = False


def _opt(
    default: Any,
    flags: str,
    metavar: str,
    help: str,
    group: str,
    commands: tuple[str, ...] = _BOTH,
) -> Any:
    many = isinstance(default, tuple)
    return field(
        default=default,
        metadata={"flag": Flag(tuple(flags.split()), metavar, help, group, commands, many)},
    )


@dataclass(frozen=True, slots=True)
class Options:
    """Options of ``load`` and ``plan``; the defaults are those of the command line."""

    format: str | None = _opt(
        None,
        "--format",
        "NAME",
        "Format of the source: CSV, CSVWithNames, TSV, TSVWithNames, "
        "JSONEachRow (or NDJSON), Parquet, ORC, Avro, Native. Default: by extension.",
        "Source",
        _NAMES,
    )
    compression: str | None = _opt(
        None,
        "--compression",
        "NAME",
        "Compression of the source: none, gzip, zstd, lz4, xz, bz2. Default: by extension.",
        "Source",
        _NAMES,
    )
    delimiter: str | None = _opt(
        None,
        "--delimiter",
        "TEXT",
        "Field delimiter of CSV, e.g. ';', tab, blank, '||'. Default: found by a sample.",
        "Source",
        _READS,
    )
    header: str | None = _opt(
        None,
        "--header",
        "yes|no",
        "The first line of text files names the columns. Default: found by a sample.",
        "Source",
        _READS,
    )
    columns: str | None = _opt(
        None,
        "--columns",
        "NAME,...",
        "Names of the columns of text files, in their order; with --header yes in place of "
        "those in the header. Default: those of the header, or c1, c2, ...",
        "Source",
        _READS,
    )
    quote: str | None = _opt(
        None,
        "--quote",
        "CHAR",
        "Character around the fields of CSV, or none. Default: found by a sample.",
        "Source",
        _READS,
    )
    escape: str | None = _opt(
        None,
        "--escape",
        "CHAR",
        "Character before a quote inside quotes, or none: quotes are doubled. "
        "Default: found by a sample.",
        "Source",
        _READS,
    )
    comment: str | None = _opt(
        None,
        "--comment",
        "TEXT",
        "Text that comment lines of text files begin with, or none. Default: found by a sample.",
        "Source",
        _READS,
    )
    skip_lines: int | None = _opt(
        None,
        "--skip-lines",
        "N",
        "Lines of text files to leave out before the header or the first row. "
        "Default: found by a sample.",
        "Source",
        _READS,
    )
    widths: str | None = _opt(
        None,
        "--widths",
        "N,N,...",
        "Text of fixed widths: the characters of each column. Blanks around values are left out.",
        "Source",
        _READS,
    )
    sheet: str | None = _opt(
        None,
        "--sheet",
        "NAME|N",
        "Sheet of a workbook (.xlsx, .xlsm, .xlsb, .xls, .ods): its name, or its number from 1. "
        "Default: the only one that holds anything.",
        "Source",
        _READS,
    )
    blanks: str | None = _opt(
        None,
        "--blanks",
        "keep|trim",
        "Blanks around the fields of CSV: trim takes them away, also in front of quotes. Default: "
        "trim where the sample shows blanks in front of quotes, else keep.",
        "Source",
        _READS,
    )
    null_lists: str | None = _opt(
        None,
        "--null-lists",
        "empty",
        "A list or map that is NULL in a format with types, a lake, PostgreSQL or a data frame: "
        "empty stores an empty one. Default: it is refused.",
        "Source",
        _READS,
    )
    short_rows: str | None = _opt(
        None,
        "--short-rows",
        "error|null",
        "Rows of text files that have fewer fields than there are columns: null fills them. "
        "Default: error.",
        "Source",
        _READS,
    )
    blank_lines: str | None = _opt(
        None,
        "--blank-lines",
        "skip",
        "Leave blank lines of text files out, wherever they stand. Default: those between rows are "
        "left out where the sample shows some; in a file of one column each is a NULL.",
        "Source",
        _READS,
    )
    encoding: str | None = _opt(
        None,
        "--encoding",
        "NAME",
        "Character encoding of text: utf-8, windows-1252 (latin-1), utf-16, shift_jis, ...; binary "
        "takes strings that are not text. Default: utf-8, or what a byte order mark says.",
        "Source",
        _READS,
    )
    null: str | None = _opt(
        None,
        "--null",
        "WORD,...",
        "Unquoted fields of CSV or TSV that mean NULL besides the empty one, e.g. NA,NULL,-.",
        "Source",
        _READS,
    )
    decimal: str | None = _opt(
        None,
        "--decimal",
        "CHAR",
        "Mark before the decimals of numbers in CSV or TSV, e.g. a comma. Default: a point.",
        "Source",
        _READS,
    )
    thousands: str | None = _opt(
        None,
        "--thousands",
        "CHAR",
        "Mark between thousands of numbers in CSV or TSV, e.g. a point; also blank, nbsp (U+00A0), "
        "thin (U+202F). Default: none.",
        "Source",
        _READS,
    )
    dates: str | None = _opt(
        None,
        "--dates",
        "dmy|mdy|ymd",
        "Order of dates in CSV or TSV that are not ISO: 31.12.2023 is dmy, 12/31/2023 mdy, "
        "2023/12/31 ymd.",
        "Source",
        _READS,
    )
    snapshot: str | None = _opt(
        None,
        "--snapshot",
        "ID|TIME",
        "Snapshot of an Iceberg table (its id, a tag or branch), or version of a Delta table, to "
        "load; or a time as of which. Default: the newest.",
        "Source",
        _NAMES,
    )
    since: str | None = _opt(
        None,
        "--since",
        "ID|TIME",
        "Load only the data files that were added to a lake table after this snapshot or version.",
        "Source",
        _NAMES,
    )
    query: str | None = _opt(
        None,
        "--query",
        "SQL",
        "SELECT whose rows are loaded, of a database that is the source: in its own SQL.",
        "Source",
        _NAMES,
    )
    tables: str | None = _opt(
        None,
        "--tables",
        "PATTERN,...",
        "Load many tables of the source, each exactly once: names or patterns as 'public.*', of a "
        "database, a file of DuckDB or SQLite, an Iceberg namespace, a data folder, or a folder of "
        "folders.",
        "Source",
        (LOAD, PLAN),
    )
    table_per_file: bool = _opt(
        False,
        "--table-per-file",
        "",
        "Load each file of the source into a table of its own, named after the file; --tables and "
        "--exclude choose among them.",
        "Source",
        (LOAD, PLAN),
    )
    exclude: tuple[str, ...] = _opt(
        (),
        "--exclude",
        "PATTERN,...",
        "Tables that --tables leaves out.",
        "Source",
        (LOAD, PLAN),
    )
    cursor: str | None = _opt(
        None,
        "--cursor",
        "COLUMN",
        "Column of a database's table or query whose values grow, as updated_at: later runs load "
        "only the rows at or behind the last value. The first run loads all.",
        "Source",
        _NAMES,
    )
    cursor_overlap: str | None = _opt(
        None,
        "--cursor-overlap",
        "DURATION|N",
        "Values in front of the last one whose rows are compared with those in the target, so that "
        "late ones are loaded. Default: 5m of times, 1d of dates, 1000 of integers, else 0: the "
        "last value.",
        "Source",
        _NAMES,
    )
    s3_endpoint: str | None = _opt(
        None,
        "--s3-endpoint",
        "URL",
        "S3 endpoint other than AWS, e.g. http://127.0.0.1:9000. "
        "Default: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL.",
        "Source",
        _NAMES,
    )
    s3_region: str | None = _opt(
        None,
        "--s3-region",
        "NAME",
        "Region of the bucket. Default: AWS_REGION, the profile, or us-east-1.",
        "Source",
        _NAMES,
    )
    s3_profile: str | None = _opt(
        None,
        "--s3-profile",
        "NAME",
        "Profile of the AWS configuration files. Default: AWS_PROFILE.",
        "Source",
        _NAMES,
    )
    s3_anonymous: bool = _opt(
        False, "--s3-anonymous", "", "Read public buckets without credentials.", "Source", _NAMES
    )
    start_at: str | None = _opt(
        None,
        "--from",
        "earliest|committed|OFFSET|TIME",
        "Where a topic is loaded from. OFFSET may be PARTITION:OFFSET,...; TIME is ISO 8601, UTC "
        "without a zone. Default: behind what is loaded, at first the earliest message.",
        "Source",
        (LOAD, PLAN, ADOPT, DOCTOR, TUNE),
    )
    until: str | None = _opt(
        None,
        "--until",
        "latest|OFFSET|TIME",
        "Where a topic is loaded to. Default: the end that it has when the load begins.",
        "Source",
        (LOAD, PLAN, ADOPT, DOCTOR, TUNE),
    )
    metrics_port: int | None = _opt(
        None,
        "--metrics-port",
        "PORT",
        "Serve metrics to Prometheus while the load runs, on this port; 0 is a free one, whose "
        "address is printed.",
        "Run",
        (LOAD,),
    )
    metrics_host: str = _opt(
        "127.0.0.1",
        "--metrics-host",
        "ADDRESS",
        "Address of this machine that --metrics-port listens on. Default: 127.0.0.1, which only "
        "this machine reaches.",
        "Run",
        (LOAD,),
    )
    follow: bool = _opt(
        False,
        "--follow",
        "",
        "Go on with what comes into the source, in batches, until Ctrl-C: topics, files, objects "
        "of stores, lake tables, tables of databases with --cursor.",
        "Follow",
        (LOAD,),
    )
    on_change: str = _opt(
        LOAD,
        "--on-change",
        "load|ignore|error",
        "What becomes of an object that was loaded and is overwritten while it is followed: load "
        "adds the rows of the new version to those of the old one, ignore leaves out all but the "
        "first version of a name, error counts the new version as a failed file. Default: load.",
        "Follow",
        (LOAD,),
    )
    at_rest: str | None = _opt(
        None,
        "--at-rest",
        "DURATION",
        "Take an object when its size and time have not changed for so long. Default: 2s for "
        "files, or as soon as their writer closes them; objects of stores appear whole.",
        "Follow",
        (LOAD,),
    )
    marker: str | None = _opt(
        None,
        "--marker",
        "NAME",
        "Take an object when there is another one of this name beside it: '{name}.done', or one "
        "for its whole folder, as _SUCCESS.",
        "Follow",
        (LOAD,),
    )
    batch_seconds: str | None = _opt(
        None,
        "--batch-seconds",
        "SECONDS",
        "Begin a batch at most so often; what comes meanwhile is loaded together. Default: 2.",
        "Follow",
        (LOAD,),
    )
    batch_bytes: str | None = _opt(
        None,
        "--batch-bytes",
        "SIZE",
        "Begin a batch sooner with so many bytes of objects, and put no more into it. "
        "Default: 1GiB.",
        "Follow",
        (LOAD,),
    )
    batch_rows: int | None = _opt(
        None,
        "--batch-rows",
        "N",
        "Begin a batch sooner with so many messages of a topic. Default: 500000.",
        "Follow",
        (LOAD,),
    )
    poll: str | None = _opt(
        None,
        "--poll",
        "DURATION",
        "Look for what is new so often. Default: 1s for stores (two requests where names grow), "
        "10s for buckets with --queue, 2s for lake tables, 5s for tables of databases, else 0.5s.",
        "Follow",
        (LOAD,),
    )
    rescan: str | None = _opt(
        None,
        "--rescan",
        "DURATION",
        "Look at all names again within so long, for late names and overwritten objects. Default: "
        "a page of a thousand names at each poll, ten while late names come.",
        "Follow",
        (LOAD,),
    )
    queue: str | None = _opt(
        None,
        "--queue",
        "URL",
        "Queue of Amazon SQS where the bucket sends its events: new objects are loaded when it "
        "tells of them, and listings find what it does not.",
        "Follow",
        (LOAD,),
    )
    forget_after: str | None = _opt(
        None,
        "--forget-after",
        "DURATION",
        "Keep the record of what is loaded so long, e.g. 90d, and load no object that was changed "
        "before. Default: for ever.",
        "Follow",
        (LOAD,),
    )
    schema: str | None = _opt(
        None,
        "--schema",
        "COLUMNS",
        "All columns as 'name Type, ...' instead of inferring them.",
        "Table",
        _READS,
    )
    schema_file: str | None = _opt(
        None,
        "--schema-file",
        "FILE",
        "All columns, read from a file: a column list or a whole CREATE TABLE.",
        "Table",
        _READS,
    )
    type: tuple[str, ...] = _opt(
        (),
        "--type",
        "'NAME TYPE'",
        "Type of one column, the others stay inferred.",
        "Table",
        _READS,
    )
    rename: tuple[str, ...] = _opt(
        (),
        "--rename",
        "OLD=NEW",
        "Another name in the table for a column of the source.",
        "Columns",
    )
    skip: tuple[str, ...] = _opt(
        (), "--skip", "NAME", "A column of the source to leave out.", "Columns"
    )
    add_column: tuple[str, ...] = _opt(
        (),
        "--add-column",
        "NAME=_path|_file",
        "A column that holds the full name of each row's file, or its last part; of messages "
        "_offset, _partition, _timestamp, _key, _headers or _topic.",
        "Columns",
    )
    union_by_name: bool = _opt(
        False,
        "--union-by-name",
        "",
        "Load files whose columns differ: those that some lack are NULL there.",
        "Columns",
    )
    on_new_column: str = _opt(
        ERROR,
        "--on-new-column",
        "ACTION",
        "What becomes of a column that files have and the table lacks: add gives it to the table, "
        "ignore leaves it out, error loads nothing. Default: error.",
        "Columns",
    )
    on_missing_column: str = _opt(
        ERROR,
        "--on-missing-column",
        "ACTION",
        "What becomes of a column that the table has and files lack: default takes the default "
        "of the column, error loads nothing. Default: error, unless the table names a DEFAULT.",
        "Columns",
    )
    narrow: bool = _opt(
        False,
        "--narrow",
        "",
        "Give integers of text files and JSON the narrowest type that the values seen allow, as "
        "UInt8. A later file may not fit it. Default: 64 bits.",
        "Columns",
    )
    widen: bool = _opt(
        False,
        "--widen",
        "",
        "Change columns of the table to types that the values of the files fit, before the load; "
        "those that --type names to that type.",
        "Columns",
    )
    select: str | None = _opt(
        None,
        "--select",
        "EXPRESSIONS",
        "What to load, as a SELECT list over the columns of the source: "
        "'id, toDate(ts) AS day'. Part of what makes a file loaded already.",
        "Columns",
        (LOAD, PLAN, ADOPT, DOCTOR, TUNE),
    )
    where: str | None = _opt(
        None,
        "--where",
        "CONDITION",
        "Rows to load, as a condition on the columns of the source. "
        "Part of what makes a file loaded already.",
        "Columns",
        (LOAD, PLAN, ADOPT, DOCTOR, TUNE),
    )
    limit: int | None = _opt(
        None,
        "--limit",
        "N",
        "Load the first N rows of the source, and read no more of it than that takes: to look at "
        "them. A load of its own, by which no file counts as loaded.",
        "Columns",
    )
    sample: str | None = _opt(
        None,
        "--sample",
        "P%",
        "Load about P percent of the rows, spread over all files and always the same ones: those "
        "whose values have a hash in that share. A load of its own, as with --limit.",
        "Columns",
    )
    order_by: str | None = _opt(
        None,
        "--order-by",
        "EXPR",
        "Sorting key of a new table. Default: proposed from names and cardinalities. MySQL: its "
        "primary key; SingleStore: its SORT KEY; Iceberg: columns.",
        "Table",
        _READS,
    )
    partition_by: str | None = _opt(
        None,
        "--partition-by",
        "EXPR",
        "Partition key of a new table; of Iceberg, transforms as in day(t). Default: none.",
        "Table",
        _READS,
    )
    engine: str | None = _opt(
        None, "--engine", "ENGINE", "Engine of a new table. Default: MergeTree.", "Table"
    )
    replace: bool = _opt(
        False,
        "--replace",
        "",
        "Replace the target table: rows gather in a new one, which takes its place at the end.",
        "Table",
    )
    atomic: bool = _opt(
        False,
        "--atomic",
        "",
        "Make the whole load visible at once at its end, or nothing of it.",
        "Table",
    )
    upsert: str | None = _opt(
        None,
        "--upsert",
        "COLUMNS",
        "Rows of the table whose key occurs in the load are replaced by the loaded ones, in one "
        "moment at its end. COLUMNS are those of the key, with commas between them.",
        "Table",
    )
    on_conflict: str = _opt(
        ERROR,
        "--on-conflict",
        "error|skip|replace",
        "Tables of other databases: what becomes of rows whose key is in the table already: skip "
        "leaves them out, replace takes the new ones. Default: error.",
        "Table",
    )
    unlogged: bool = _opt(
        False,
        "--unlogged",
        "",
        "PostgreSQL: make a new table UNLOGGED, which is faster; a crash of the server empties it.",
        "Table",
    )
    direct: bool = _opt(
        False,
        "--direct",
        "",
        "Insert straight into the table, without staging: a crash may lose or repeat rows.",
        "Table",
    )
    pull: bool = _opt(
        False,
        "--pull",
        "",
        "Let the server read the source itself. Default: where a probe shows that it can. "
        "SingleStore: by a pipeline.",
        "Target",
    )
    push: bool = _opt(
        False, "--push", "", "Read the rows here and send them to the server.", "Target"
    )
    shard_key: str | None = _opt(
        None,
        "--shard-key",
        "EXPR",
        "Cluster: sharding key of a new Distributed table. Default: rand(). SingleStore: SHARD KEY "
        "of a new table.",
        "Target",
    )
    replicated: bool = _opt(
        False,
        "--replicated",
        "",
        "Cluster only: make a new table replicated even where no shard has two replicas.",
        "Target",
    )
    method: str = _opt(
        "local",
        "--method",
        "NAME",
        "Cluster only: where a sharding key says which rows belong on which shard, filter (each "
        "shard reads all files and keeps its own rows) or distributed (each reads its share and "
        "sends rows where they belong). Default: local, each shard its own files; with a key, the "
        "cheaper of the two.",
        "Target",
    )
    skip_unavailable_shards: bool = _opt(
        False,
        "--skip-unavailable-shards",
        "",
        "Cluster only: load into the other shards when one does not answer. Default: an error.",
        "Target",
    )
    decoder: str = _opt(
        "auto",
        "--decoder",
        "auto|always|never",
        "Let rowfall-decode parse text. auto: where it can; always: fail where it cannot; never. "
        "Default: auto.",
        "Tuning",
    )
    presort: str = _opt(
        "auto",
        "--presort",
        "auto|on|off",
        "Let rowfall-decode sort blocks by the table's key before they are sent, which spares "
        "the engine its own sort; on fails where it cannot. Default: auto.",
        "Tuning",
    )
    build: str = _opt(
        "auto",
        "--build",
        "auto|on|off",
        "Let rowfall-decode write the parts of a table here; the engine or the server only takes "
        "them over. on fails where it cannot. Default: auto, which is for the embedded engine, and "
        "with --spare-servers for servers.",
        "Tuning",
    )
    spare_servers: bool = _opt(
        False,
        "--spare-servers",
        "",
        "Do the work of the load on this machine: it reads, parses, sorts and compresses, and the "
        "servers take over finished parts, with at most a sixteenth of their cores. Where that "
        "cannot be done, the plan says why.",
        "Tuning",
    )
    build_address: str | None = _opt(
        None,
        "--build-address",
        "HOST[:PORT]",
        "By which servers reach this machine, to take over the parts that it builds. Default: "
        "127.0.0.1, for servers on this machine.",
        "Tuning",
    )
    compress: str = _opt(
        "auto",
        "--compress",
        "auto|lz4|zlib|none",
        "Compress rows on their way to a server: blocks with lz4, the protocol of MySQL with "
        "zlib. Default: where the network is slower than the cores here.",
        "Tuning",
    )
    streams: int | None = _opt(
        None,
        "--streams",
        "N",
        "Connections that rows are sent over at the same time. Default: computed.",
        "Tuning",
    )
    files: int | None = _opt(
        None, "--files", "N", "Export only: number of files to write.", "Target"
    )
    to_format: str | None = _opt(
        None,
        "--to-format",
        "NAME",
        "Format of exported files, e.g. CSVWithNames, by default by their extension; or of "
        "messages: JSONEachRow (the default), CSV, TSV or Avro.",
        "Target",
    )
    key: str | None = _opt(
        None,
        "--key",
        "COLUMN,...",
        "With --cursor, the columns whose values together only one row has; default: the primary "
        "key. Kafka: the column whose text becomes the key of each message; default: none.",
        "Target",
    )
    transactional: bool = _opt(
        False,
        "--transactional",
        "",
        "Kafka: send the rows of each file and the record that it is loaded in one transaction, so "
        "that each row is there exactly once.",
        "Target",
    )
    partitions: int | None = _opt(
        None,
        "--partitions",
        "N",
        "Kafka: make the topic with so many partitions where it is missing. Default: an error. "
        "A topic with fewer is refused.",
        "Target",
    )
    threads: int | None = _opt(
        None,
        "--threads",
        "N",
        "Threads of the engine. Default: the cores that this process may use.",
        "Tuning",
    )
    memory: str | None = _opt(
        None,
        "--memory",
        "SIZE",
        "Memory for the whole load, e.g. 4GiB. Default: half of what is free.",
        "Tuning",
    )
    max_record: str = _opt(
        "64MiB",
        "--max-record",
        "SIZE",
        "Bytes of one record of text, about; a longer one, or a quote that is never closed, is "
        "refused with its place.",
        "Tuning",
        _READS,
    )
    # 5,000 columns of a CSV file are loaded in 4 s, 20,000 in 20, and the engine's parser gives up
    # statements about 200,000 after minutes.
    max_columns: int = _opt(
        10_000,
        "--max-columns",
        "N",
        "Columns of a file; one that has more is refused at once: twice as many take more than "
        "twice as long.",
        "Tuning",
        _READS,
    )
    set: tuple[str, ...] = _opt(
        (),
        "--set",
        "NAME=VALUE",
        "An engine setting for every INSERT; wins over the computed one.",
        "Tuning",
    )
    attempt_bytes: str | None = _opt(
        None,
        "--attempt-bytes",
        "SIZE",
        "Source bytes that one attempt loads: what a crash loads again. Default: computed.",
        "Tuning",
        _READS,
    )
    tuned: str | None = _opt(
        None,
        "--tuned",
        "NAME",
        "Load as 'rowfall tune --save NAME' has found it fastest; options given here win.",
        "Tuning",
        (LOAD, PLAN, DOCTOR),
    )
    no_adapt: bool = _opt(
        False,
        "--no-adapt",
        "",
        "Keep threads, connections and blocks as planned. Default: between attempts they follow "
        "what a server that others use has left.",
        "Tuning",
        (LOAD,),
    )
    save: str | None = _opt(
        None,
        "--save",
        "NAME",
        "Save the fastest combination under this name, for rowfall load --tuned NAME.",
        "Tune",
        (TUNE,),
    )
    fewer_than: int = _opt(
        3000,
        "--fewer-than",
        "N",
        "Active parts that are few enough: merges are waited for until there are fewer. A sample "
        "waits for its share of them. Default: 3000.",
        "Tune",
        (TUNE,),
    )
    budget: str = _opt(
        "3m",
        "--budget",
        "DURATION",
        "Time that the sweep may take: 1m, 10m. Samples are as large as that allows. Default: 3m.",
        "Tune",
        (TUNE,),
    )
    max_errors: int = _opt(
        0, "--max-errors", "N", "Bad rows to leave out before a load fails.", "Bad rows"
    )
    max_error_ratio: float = _opt(
        0.0,
        "--max-error-ratio",
        "R",
        "Bad rows to leave out, as a share of the rows read, 0 to 1.",
        "Bad rows",
    )
    rejects: str | None = _opt(
        None,
        "--rejects",
        "FILE",
        "File for the rows left out, with file, line and reason. "
        "Default: rowfall-rejects.tsv here.",
        "Bad rows",
    )
    wait: str | None = _opt(
        None,
        "--wait",
        "merges=N|replicas",
        "At the end, wait until fewer than N parts of the table are active; of a cluster, until "
        "all replicas have the rows. Both: replicas,merges=N.",
        "Run",
    )
    patience: str = _opt(
        "1m",
        "--patience",
        "DURATION",
        "Time that a server may be away (a restart, a network that fails) before the load ends "
        "and can be resumed: 30s, 5m, 2h.",
        "Run",
        (LOAD,),
    )
    no_sync: bool = _opt(
        False,
        "--no-sync",
        "",
        "Do not flush rows to disk before they count as loaded: after a power cut some of them may "
        "be missing, and no later run loads them.",
        "Run",
    )
    no_space_check: bool = _opt(
        False,
        "--no-space-check",
        "",
        "Make no forecast of what the rows take on disk; load also where they may not fit.",
        "Run",
    )
    fleet: str | None = _opt(
        None,
        "--fleet",
        "NAME",
        "Share the load with other machines: 'rowfall worker NAME' joins it there, and so does the "
        "same command. Default: this process loads alone.",
        "Run",
        (LOAD,),
    )
    on: str | None = _opt(
        None,
        "--on",
        "ray|ray://HOST:PORT",
        "Start workers of this load on a Ray cluster: of this machine, or at an address. Needs "
        "rowfall there as well.",
        "Run",
        (LOAD,),
    )
    workers: int | None = _opt(
        None,
        "--workers",
        "N",
        "Workers that --on starts. Default: one for each node of the cluster.",
        "Run",
        (LOAD,),
    )
    prefill: bool = _opt(
        False,
        "--prefill",
        "",
        "Tables of other databases: fill the buffers of all connections, 64 MiB each, before the "
        "first byte is sent and the clock of the report starts.",
        "Run",
        (LOAD,),
    )
    force: bool = _opt(
        False,
        "--force",
        "",
        "Load again what is loaded already (its rows will be in the table twice).",
        "Run",
    )
    loaded: str | None = _opt(
        None,
        "--loaded",
        "all|journal|none",
        "What counts as loaded where ledger, journal and table contradict each other, where the "
        "table was emptied since (TRUNCATE), or where nothing shows whether the rows of a stopped "
        "load are in the table: all that either of them knows, what the journal beside the table "
        "knows, or none of it. Default: stop and say what was found.",
        "Run",
        (LOAD,),
    )
    force_append: bool = _opt(
        False,
        "--force-append",
        "",
        "Append to a table that holds rows which nobody has on record: they are other rows than "
        "those of this load. It is asked once for each table. Default: stop and say what was "
        "found.",
        "Run",
    )
    stop_on_error: bool = _opt(
        False,
        "--stop-on-error",
        "",
        "A pipeline ends at the first file that cannot be loaded. Default: it is left out and told "
        "of, and the others go on.",
        "Run",
        (FOLLOW,),
    )
    after_load: str = _opt(
        "nothing",
        "--after",
        "ACTION",
        "What becomes of files once their rows are in the target for good: move:PREFIX (a folder "
        "of the same store), tag[:KEY=VALUE], delete or nothing. Never of a file that failed or "
        "has changed. Default: nothing.",
        "Run",
        (LOAD, PLAN),
    )
    verify: bool = _opt(
        False,
        "--verify",
        "",
        "Compare checksums of source and target after the load.",
        "Run",
    )
    nodes: str = _opt(
        "1,2,4,10,100",
        "--nodes",
        "N,...",
        "Numbers of nodes to project to. Default: 1,2,4,10,100.",
        "Scale",
        (SCALE,),
    )
    cores: int | None = _opt(
        None,
        "--cores",
        "N",
        "Cores of one node. Default: those of the server in --to, or of this machine.",
        "Scale",
        (SCALE,),
    )
    rate: str | None = _opt(
        None,
        "--rate",
        "SIZE",
        "Source bytes that one core loads in a second, e.g. 25MB. "
        "Default: past loads, else a sample, else the planner's figure.",
        "Scale",
        (SCALE,),
    )
    network: str | None = _opt(
        None,
        "--network",
        "SIZE",
        "Bytes a second that reach one node. Default: 1.25GB (10 Gbit/s) of remote sources.",
        "Scale",
        (SCALE,),
    )
    store: str | None = _opt(
        None,
        "--store",
        "SIZE",
        "Bytes a second that the store gives all nodes together. "
        "Default: what S3 promises for each prefix, 5,500 requests a second.",
        "Scale",
        (SCALE,),
    )
    price: str | None = _opt(
        None, "--price", "N", "Price of one node for an hour.", "Scale", (SCALE,)
    )
    replicas: int = _opt(
        1,
        "--replicas",
        "N",
        "Replicas of each node's rows, each in a zone of its own: all but one fetch what the node "
        "has written. Default: 1.",
        "Scale",
        (SCALE,),
    )
    zone_price: str | None = _opt(
        None,
        "--zone-price",
        "N",
        "Price of a GB that crosses zones, both directions together, e.g. 0.02.",
        "Scale",
        (SCALE,),
    )

    @property
    def gathers(self) -> bool:
        """Return True where rows gather until the end of the load, beside a table that stays."""
        return self.atomic or self.upsert is not None

    @property
    def gathers_anew(self) -> bool:
        """Return True where rows take the place of those that are there, or of their key."""
        return self.replace or self.upsert is not None

    @property
    def partial(self) -> str:
        """Return what leaves most rows of the source out, as it was given; "" where nothing."""
        limit = f"--limit {self.limit}" if self.limit else ""
        return " ".join(filter(None, (limit, self.sample and f"--sample {self.sample}")))

    @property
    def many_tables(self) -> bool:
        """Return True where many tables are asked for, each a load of its own."""
        return self.tables is not None or bool(self.exclude) or self.table_per_file


def from_keywords(command: str, base: Options | None, values: dict[str, Any]) -> Options:
    """Return ``base`` with the keyword options of the library, see :mod:`rowfall.core.keywords`.

    What may be given more than once takes one string, several, or a mapping (``{"a": "UInt8"}``);
    numbers stand for their text (``memory=4 << 30``), and True and False for yes and no.

    Raises:
        TypeError: ``command`` takes no such option.
    """
    known = {item.name: (item, flag) for item, flag in flags_of(command)}
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            near = nearest(name, known)
            more = f"; did you mean {near!r}?" if near else ""
            if found := option_hint(f"--{name}"):
                more = f"; {found.strip()}"
            raise TypeError(f"{command}() got an unexpected keyword argument {name!r}{more}")
        item, flag = known[name]
        if flag.many:
            value = several(value, " " if name == "type" else "=")
        elif isinstance(value, os.PathLike):
            value = os.fspath(value)
        elif isinstance(value, bool) and item.default is not False:
            value = "yes" if value else "no"
        elif isinstance(value, int | float) and str(item.type).startswith("str"):
            value = str(value)
        given[name] = value
    return replace(base or Options(), **given)


def several(value: Any, joined: str) -> tuple[str, ...]:
    """Return the texts of an option that may be given more than once.

    Args:
        value: a text, several, or a mapping. ``joined``: stands between its names and values.
    """
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping):
        # Backquotes, as a name in front of a type ends at its first blank.
        return tuple(
            f"`{k}` {v}" if joined == " " and " " in k else f"{k}{joined}{v}"
            for k, v in value.items()
        )
    return tuple(value or ())


def condition_of(options: Options) -> str:
    """Return ``--where`` and ``--sample`` as one condition on the columns of the source; ""."""
    where = (options.where or "").strip()
    if options.sample is None:
        return where
    # The values decide, not the place: whoever reads the rows, in whatever pieces, finds the same
    # ones. As text, because a hash of NULL is NULL.
    from rowfall.core.units import SHARES, parse_share  # only here: --help saves the import

    share = f"cityHash64(toString(tuple(*))) % {SHARES} < {parse_share(options.sample)}"
    return f"({where}) AND {share}" if where else share


def projection_of(options: Options, *, partial: bool = True) -> str:
    """Return which rows of a file are loaded, and as what, for the ids of splits; "" for all.

    Args:
        partial: with ``--limit`` and ``--sample``.
    """
    if not partial:
        options = replace(options, limit=None, sample=None)
    where = condition_of(options) if options.sample else options.where
    text = f"{options.select or '*'} WHERE {where or '1'}" if options.select or where else ""
    return f"{text or '*'} LIMIT {options.limit}" if options.limit else text


def changed(options: Options) -> dict[str, Any]:
    """Return the options that differ from the defaults, for the ledger; no secrets."""
    return {
        item.name: getattr(options, item.name)
        for item in fields(Options)
        if getattr(options, item.name) != item.default
    }


def command_line(command: str, sources: Sequence[str], options: Options, *more: str) -> str:
    """Return a command with the options that it takes and that differ from the defaults.

    Args:
        sources: without secrets.
        more: arguments behind the sources, e.g. ``--to`` and the target.

    Returns:
        Text to be pasted into a shell.
    """
    words = ["rowfall", command, *sources, *more]
    for item, flag in flags_of(command):
        value = getattr(options, item.name)
        if value == item.default:
            continue
        if item.default is False:
            words.append(flag.flags[0])
            continue
        for one in value if flag.many else (value,):
            text = str(one)
            # What begins with a dash would be taken for an option.
            words += [f"{flag.flags[0]}={text}"] if text[:1] == "-" else [flag.flags[0], text]
    return shlex.join(words)


def load_command(command: str, load_id: str, to: str | None, *more: str) -> str:
    """Return a command about a load, which only its own target knows.

    Args:
        to: the target, as typed or as it is shown; None for the one of no option.

    Returns:
        Text to be pasted into a shell.
    """
    from rowfall.core import uri  # its hashlib takes 3 ms of `rowfall --help`

    target = ("--to", uri.mask(to)) if to else ()
    return shlex.join(["rowfall", command, load_id, *target, *more])


def restored(values: dict[str, Any]) -> Options:
    """Return the options that :func:`changed` gave, read from JSON; unknown names are left out."""
    known = {item.name for item in fields(Options)}
    given: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in known
    }
    return Options(**given)


def flags_of(command: str) -> Iterator[tuple[Field[Any], Flag]]:
    """Give the options that ``command`` takes, in table order."""
    for item in fields(Options):
        flag: Flag = item.metadata["flag"]
        if command in flag.commands or item.name in _TAKES.get(command, ()):
            yield item, flag
