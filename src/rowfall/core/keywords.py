"""Name the keyword options of the library with their types, for editors and type checkers.

Made by ``python docs/make_reference.py`` from :mod:`rowfall.core.options`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Literal, TypedDict


class SourceKeywords(TypedDict, total=False):
    """Options of read, load, plan and scale."""

    format: str | None
    """Format of the source: CSV, CSVWithNames, TSV, TSVWithNames, JSONEachRow (or NDJSON), Parquet,
    ORC, Avro, Native. Default: by extension.
    """

    compression: str | None
    """Compression of the source: none, gzip, zstd, lz4, xz, bz2. Default: by extension."""

    delimiter: str | None
    """Field delimiter of CSV, e.g. ';', tab, blank, '||'. Default: found by a sample."""

    header: bool | Literal["yes", "no"] | None
    """The first line of text files names the columns. Default: found by a sample."""

    columns: str | None
    """Names of the columns of text files, in their order; with --header yes in place of those in
    the header. Default: those of the header, or c1, c2, ...
    """

    quote: str | None
    """Character around the fields of CSV, or none. Default: found by a sample."""

    escape: str | None
    """Character before a quote inside quotes, or none: quotes are doubled. Default: found by a
    sample.
    """

    comment: str | None
    """Text that comment lines of text files begin with, or none. Default: found by a sample."""

    skip_lines: int | None
    """Lines of text files to leave out before the header or the first row. Default: found by a
    sample.
    """

    sheet: str | None
    """Sheet of a workbook (.xlsx, .xlsm, .xlsb, .xls, .ods): its name, or its number from 1.
    Default: the only one that holds anything.
    """

    blanks: Literal["keep", "trim"] | None
    """Blanks around the fields of CSV: trim takes them away, also in front of quotes. Default: trim
    where the sample shows blanks in front of quotes, else keep.
    """

    null_lists: str | None
    """A list or map that is NULL in a format with types, a lake, PostgreSQL or a data frame: empty
    stores an empty one. Default: it is refused.
    """

    short_rows: Literal["error", "null"] | None
    """Rows of text files that have fewer fields than there are columns: null fills them. Default:
    error.
    """

    blank_lines: str | None
    """Leave blank lines of text files out, wherever they stand. Default: those between rows are
    left out where the sample shows some; in a file of one column each is a NULL.
    """

    encoding: str | None
    """Character encoding of text: utf-8, windows-1252 (latin-1), utf-16, shift_jis, ...; binary
    takes strings that are not text. Default: utf-8, or what a byte order mark says.
    """

    null: str | None
    """Unquoted fields of CSV or TSV that mean NULL besides the empty one, e.g. NA,NULL,-."""

    decimal: str | None
    """Mark before the decimals of numbers in CSV or TSV, e.g. a comma. Default: a point."""

    thousands: str | None
    """Mark between thousands of numbers in CSV or TSV, e.g. a point; also blank, nbsp (U+00A0),
    thin (U+202F). Default: none.
    """

    dates: Literal["dmy", "mdy", "ymd"] | None
    """Order of dates in CSV or TSV that are not ISO: 31.12.2023 is dmy, 12/31/2023 mdy, 2023/12/31
    ymd.
    """

    snapshot: str | None
    """Snapshot of an Iceberg table (its id, a tag or branch), or version of a Delta table, to load;
    or a time as of which. Default: the newest.
    """

    since: str | None
    """Load only the data files that were added to a lake table after this snapshot or version."""

    query: str | None
    """SELECT whose rows are loaded, of a database that is the source: in its own SQL."""

    s3_endpoint: str | None
    """S3 endpoint other than AWS, e.g. http://127.0.0.1:9000. Default: AWS_ENDPOINT_URL_S3 or
    AWS_ENDPOINT_URL.
    """

    s3_region: str | None
    """Region of the bucket. Default: AWS_REGION, the profile, or us-east-1."""

    s3_profile: str | None
    """Profile of the AWS configuration files. Default: AWS_PROFILE."""

    s3_anonymous: bool
    """Read public buckets without credentials."""

    schema: str | None
    """All columns as 'name Type, ...' instead of inferring them."""

    schema_file: str | PathLike[str] | None
    """All columns, read from a file: a column list or a whole CREATE TABLE."""

    type: str | Iterable[str] | Mapping[str, object]
    """Type of one column, the others stay inferred."""

    max_record: str | int
    """Bytes of one record of text, about; a longer one, or a quote that is never closed, is refused
    with its place.
    """

    max_columns: int
    """Columns of a file; one that has more is refused at once: twice as many take more than twice
    as long.
    """


class SelectKeywords(TypedDict, total=False):
    """Options of read, load and plan."""

    start_at: str | None
    """Where a topic is loaded from. OFFSET may be PARTITION:OFFSET,...; TIME is ISO 8601, UTC
    without a zone. Default: behind what is loaded, at first the earliest message.
    """

    until: str | None
    """Where a topic is loaded to. Default: the end that it has when the load begins."""

    rename: str | Iterable[str] | Mapping[str, object]
    """Another name in the table for a column of the source."""

    skip: str | Iterable[str]
    """A column of the source to leave out."""

    add_column: str | Iterable[str] | Mapping[str, object]
    """A column that holds the full name of each row's file, or its last part; of messages _offset,
    _partition, _timestamp, _key, _headers or _topic.
    """

    union_by_name: bool
    """Load files whose columns differ: those that some lack are NULL there."""

    on_new_column: str
    """What becomes of a column that files have and the table lacks: add gives it to the table,
    ignore leaves it out, error loads nothing. Default: error.
    """

    narrow: bool
    """Give integers of text files and JSON the narrowest type that the values seen allow, as UInt8.
    A later file may not fit it. Default: 64 bits.
    """

    select: str | None
    """What to load, as a SELECT list over the columns of the source: 'id, toDate(ts) AS day'. Part
    of what makes a file loaded already.
    """

    where: str | None
    """Rows to load, as a condition on the columns of the source. Part of what makes a file loaded
    already.
    """

    decoder: Literal["auto", "always", "never"]
    """Let rowfall-decode parse text. auto: where it can; always: fail where it cannot; never.
    Default: auto.
    """

    threads: int | None
    """Threads of the engine. Default: the cores that this process may use."""

    memory: str | int | None
    """Memory for the whole load, e.g. 4GiB. Default: half of what is free."""

    set: str | Iterable[str] | Mapping[str, object]
    """An engine setting for every INSERT; wins over the computed one."""

    max_errors: int
    """Bad rows to leave out before a load fails."""

    max_error_ratio: float
    """Bad rows to leave out, as a share of the rows read, 0 to 1."""

    rejects: str | PathLike[str] | None
    """File for the rows left out, with file, line and reason. Default: rowfall-rejects.tsv here."""


class RowKeywords(SourceKeywords, SelectKeywords, total=False):
    """Options of read."""

    patience: str
    """Time that a server may be away (a restart, a network that fails) before the load ends and can
    be resumed: 30s, 5m, 2h.
    """


class ReadKeywords(SourceKeywords, total=False):
    """Options of load, plan and scale."""

    widths: str | None
    """Text of fixed widths: the characters of each column. Blanks around values are left out."""

    cursor: str | None
    """Column of a database's table or query whose values grow, as updated_at: later runs load only
    the rows at or behind the last value. The first run loads all.
    """

    cursor_overlap: str | None
    """Values in front of the last one whose rows are compared with those in the target, so that
    late ones are loaded. Default: 5m of times, 1d of dates, 1000 of integers, else 0: the last
    value.
    """

    order_by: str | None
    """Sorting key of a new table. Default: proposed from names and cardinalities. MySQL: its
    primary key; SingleStore: its SORT KEY; Iceberg: columns.
    """

    partition_by: str | None
    """Partition key of a new table; of Iceberg, transforms as in day(t). Default: none."""

    attempt_bytes: str | int | None
    """Source bytes that one attempt loads: what a crash loads again. Default: computed."""


class PlanKeywords(ReadKeywords, SelectKeywords, total=False):
    """Options of load and plan."""

    tables: str | None
    """Load many tables of the source, each exactly once: names or patterns as 'public.*', of a
    database, a file of DuckDB or SQLite, an Iceberg namespace, a data folder, or a folder of
    folders.
    """

    table_per_file: bool
    """Load each file of the source into a table of its own, named after the file; --tables and
    --exclude choose among them.
    """

    exclude: str | Iterable[str] | Mapping[str, object]
    """Tables that --tables leaves out."""

    on_missing_column: str
    """What becomes of a column that the table has and files lack: default takes the default of the
    column, error loads nothing. Default: error, unless the table names a DEFAULT.
    """

    widen: bool
    """Change columns of the table to types that the values of the files fit, before the load; those
    that --type names to that type.
    """

    limit: int | None
    """Load the first N rows of the source, and read no more of it than that takes: to look at them.
    A load of its own, by which no file counts as loaded.
    """

    sample: str | None
    """Load about P percent of the rows, spread over all files and always the same ones: those whose
    values have a hash in that share. A load of its own, as with --limit.
    """

    engine: str | None
    """Engine of a new table. Default: MergeTree."""

    replace: bool
    """Replace the target table: rows gather in a new one, which takes its place at the end."""

    atomic: bool
    """Make the whole load visible at once at its end, or nothing of it."""

    upsert: str | None
    """Rows of the table whose key occurs in the load are replaced by the loaded ones, in one moment
    at its end. COLUMNS are those of the key, with commas between them.
    """

    on_conflict: Literal["error", "skip", "replace"]
    """Tables of other databases: what becomes of rows whose key is in the table already: skip
    leaves them out, replace takes the new ones. Default: error.
    """

    unlogged: bool
    """PostgreSQL: make a new table UNLOGGED, which is faster; a crash of the server empties it."""

    direct: bool
    """Insert straight into the table, without staging: a crash may lose or repeat rows."""

    pull: bool
    """Let the server read the source itself. Default: where a probe shows that it can. SingleStore:
    by a pipeline.
    """

    push: bool
    """Read the rows here and send them to the server."""

    shard_key: str | None
    """Cluster: sharding key of a new Distributed table. Default: rand(). SingleStore: SHARD KEY of
    a new table.
    """

    replicated: bool
    """Cluster only: make a new table replicated even where no shard has two replicas."""

    method: str
    """Cluster only: where a sharding key says which rows belong on which shard, filter (each shard
    reads all files and keeps its own rows) or distributed (each reads its share and sends rows
    where they belong). Default: local, each shard its own files; with a key, the cheaper of the
    two.
    """

    skip_unavailable_shards: bool
    """Cluster only: load into the other shards when one does not answer. Default: an error."""

    presort: Literal["auto", "on", "off"]
    """Let rowfall-decode sort blocks by the table's key before they are sent, which spares the
    engine its own sort; on fails where it cannot. Default: auto.
    """

    build: Literal["auto", "on", "off"]
    """Let rowfall-decode write the parts of a table here; the engine or the server only takes them
    over. on fails where it cannot. Default: auto, which is for the embedded engine, and with
    --spare-servers for servers.
    """

    spare_servers: bool
    """Do the work of the load on this machine: it reads, parses, sorts and compresses, and the
    servers take over finished parts, with at most a sixteenth of their cores. Where that cannot be
    done, the plan says why.
    """

    build_address: str | None
    """By which servers reach this machine, to take over the parts that it builds. Default:
    127.0.0.1, for servers on this machine.
    """

    compress: Literal["auto", "lz4", "zlib", "none"]
    """Compress rows on their way to a server: blocks with lz4, the protocol of MySQL with zlib.
    Default: where the network is slower than the cores here.
    """

    streams: int | None
    """Connections that rows are sent over at the same time. Default: computed."""

    files: int | None
    """Export only: number of files to write."""

    to_format: str | None
    """Format of exported files, e.g. CSVWithNames, by default by their extension; or of messages:
    JSONEachRow (the default), CSV, TSV or Avro.
    """

    key: str | None
    """With --cursor, the columns whose values together only one row has; default: the primary key.
    Kafka: the column whose text becomes the key of each message; default: none.
    """

    transactional: bool
    """Kafka: send the rows of each file and the record that it is loaded in one transaction, so
    that each row is there exactly once.
    """

    partitions: int | None
    """Kafka: make the topic with so many partitions where it is missing. Default: an error. A topic
    with fewer is refused.
    """

    tuned: str | None
    """Load as 'rowfall tune --save NAME' has found it fastest; options given here win."""

    wait: str | None
    """At the end, wait until fewer than N parts of the table are active; of a cluster, until all
    replicas have the rows. Both: replicas,merges=N.
    """

    no_sync: bool
    """Do not flush rows to disk before they count as loaded: after a power cut some of them may be
    missing, and no later run loads them.
    """

    no_space_check: bool
    """Make no forecast of what the rows take on disk; load also where they may not fit."""

    force: bool
    """Load again what is loaded already (its rows will be in the table twice)."""

    force_append: bool
    """Append to a table that holds rows which nobody has on record: they are other rows than those
    of this load. It is asked once for each table. Default: stop and say what was found.
    """

    after_load: str
    """What becomes of files once their rows are in the target for good: move:PREFIX (a folder of
    the same store), tag[:KEY=VALUE], delete or nothing. Never of a file that failed or has changed.
    Default: nothing.
    """

    verify: bool
    """Compare checksums of source and target after the load."""


class LoadKeywords(PlanKeywords, total=False):
    """Options of load."""

    metrics_port: int | None
    """Serve metrics to Prometheus while the load runs, on this port; 0 is a free one, whose address
    is printed.
    """

    metrics_host: str
    """Address of this machine that --metrics-port listens on. Default: 127.0.0.1, which only this
    machine reaches.
    """

    follow: bool
    """Go on with what comes into the source, in batches, until Ctrl-C: topics, files, objects of
    stores, lake tables, tables of databases with --cursor.
    """

    on_change: Literal["load", "ignore", "error"]
    """What becomes of an object that was loaded and is overwritten while it is followed: load adds
    the rows of the new version to those of the old one, ignore leaves out all but the first version
    of a name, error counts the new version as a failed file. Default: load.
    """

    at_rest: str | None
    """Take an object when its size and time have not changed for so long. Default: 2s for files, or
    as soon as their writer closes them; objects of stores appear whole.
    """

    marker: str | None
    """Take an object when there is another one of this name beside it: '{name}.done', or one for
    its whole folder, as _SUCCESS.
    """

    batch_seconds: str | None
    """Begin a batch at most so often; what comes meanwhile is loaded together. Default: 2."""

    batch_bytes: str | int | None
    """Begin a batch sooner with so many bytes of objects, and put no more into it. Default: 1GiB.
    """

    batch_rows: int | None
    """Begin a batch sooner with so many messages of a topic. Default: 500000."""

    poll: str | None
    """Look for what is new so often. Default: 1s for stores (two requests where names grow), 10s
    for buckets with --queue, 2s for lake tables, 5s for tables of databases, else 0.5s.
    """

    rescan: str | None
    """Look at all names again within so long, for late names and overwritten objects. Default: a
    page of a thousand names at each poll, ten while late names come.
    """

    queue: str | None
    """Queue of Amazon SQS where the bucket sends its events: new objects are loaded when it tells
    of them, and listings find what it does not.
    """

    forget_after: str | None
    """Keep the record of what is loaded so long, e.g. 90d, and load no object that was changed
    before. Default: for ever.
    """

    no_adapt: bool
    """Keep threads, connections and blocks as planned. Default: between attempts they follow what a
    server that others use has left.
    """

    patience: str
    """Time that a server may be away (a restart, a network that fails) before the load ends and can
    be resumed: 30s, 5m, 2h.
    """

    fleet: str | None
    """Share the load with other machines: 'rowfall worker NAME' joins it there, and so does the
    same command. Default: this process loads alone.
    """

    on: str | None
    """Start workers of this load on a Ray cluster: of this machine, or at an address. Needs rowfall
    there as well.
    """

    workers: int | None
    """Workers that --on starts. Default: one for each node of the cluster."""

    prefill: bool
    """Tables of other databases: fill the buffers of all connections, 64 MiB each, before the first
    byte is sent and the clock of the report starts.
    """

    loaded: Literal["all", "journal", "none"] | None
    """What counts as loaded where ledger, journal and table contradict each other, where the table
    was emptied since (TRUNCATE), or where nothing shows whether the rows of a stopped load are in
    the table: all that either of them knows, what the journal beside the table knows, or none of
    it. Default: stop and say what was found.
    """


class ScaleKeywords(ReadKeywords, total=False):
    """Options of scale."""

    nodes: str
    """Numbers of nodes to project to. Default: 1,2,4,10,100."""

    cores: int | None
    """Cores of one node. Default: those of the server in --to, or of this machine."""

    rate: str | int | None
    """Source bytes that one core loads in a second, e.g. 25MB. Default: past loads, else a sample,
    else the planner's figure.
    """

    network: str | int | None
    """Bytes a second that reach one node. Default: 1.25GB (10 Gbit/s) of remote sources."""

    store: str | int | None
    """Bytes a second that the store gives all nodes together. Default: what S3 promises for each
    prefix, 5,500 requests a second.
    """

    price: str | float | None
    """Price of one node for an hour."""

    replicas: int
    """Replicas of each node's rows, each in a zone of its own: all but one fetch what the node has
    written. Default: 1.
    """

    zone_price: str | float | None
    """Price of a GB that crosses zones, both directions together, e.g. 0.02."""


class AdoptKeywords(TypedDict, total=False):
    """Options of adopt."""

    format: str | None
    """Format of the source: CSV, CSVWithNames, TSV, TSVWithNames, JSONEachRow (or NDJSON), Parquet,
    ORC, Avro, Native. Default: by extension.
    """

    compression: str | None
    """Compression of the source: none, gzip, zstd, lz4, xz, bz2. Default: by extension."""

    snapshot: str | None
    """Snapshot of an Iceberg table (its id, a tag or branch), or version of a Delta table, to load;
    or a time as of which. Default: the newest.
    """

    since: str | None
    """Load only the data files that were added to a lake table after this snapshot or version."""

    query: str | None
    """SELECT whose rows are loaded, of a database that is the source: in its own SQL."""

    cursor: str | None
    """Column of a database's table or query whose values grow, as updated_at: later runs load only
    the rows at or behind the last value. The first run loads all.
    """

    cursor_overlap: str | None
    """Values in front of the last one whose rows are compared with those in the target, so that
    late ones are loaded. Default: 5m of times, 1d of dates, 1000 of integers, else 0: the last
    value.
    """

    s3_endpoint: str | None
    """S3 endpoint other than AWS, e.g. http://127.0.0.1:9000. Default: AWS_ENDPOINT_URL_S3 or
    AWS_ENDPOINT_URL.
    """

    s3_region: str | None
    """Region of the bucket. Default: AWS_REGION, the profile, or us-east-1."""

    s3_profile: str | None
    """Profile of the AWS configuration files. Default: AWS_PROFILE."""

    s3_anonymous: bool
    """Read public buckets without credentials."""

    start_at: str | None
    """Where a topic is loaded from. OFFSET may be PARTITION:OFFSET,...; TIME is ISO 8601, UTC
    without a zone. Default: behind what is loaded, at first the earliest message.
    """

    until: str | None
    """Where a topic is loaded to. Default: the end that it has when the load begins."""

    select: str | None
    """What to load, as a SELECT list over the columns of the source: 'id, toDate(ts) AS day'. Part
    of what makes a file loaded already.
    """

    where: str | None
    """Rows to load, as a condition on the columns of the source. Part of what makes a file loaded
    already.
    """


class TuneKeywords(PlanKeywords, total=False):
    """Options of tune."""

    save: str | None
    """Save the fastest combination under this name, for rowfall load --tuned NAME."""

    fewer_than: int
    """Active parts that are few enough: merges are waited for until there are fewer. A sample waits
    for its share of them. Default: 3000.
    """

    budget: str
    """Time that the sweep may take: 1m, 10m. Samples are as large as that allows. Default: 3m."""
