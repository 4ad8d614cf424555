"""Decides how rows travel from the source into the staging tables of the writers. Pure.

Everything that there is to choose is chosen here, once for a load, with a reason for each part;
:mod:`rowfall.deliver` carries it out. What one attempt sends as it is and what as blocks depends
on its files: that is :func:`sent_as`, which deliveries ask again for each attempt.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import quote_plus

from rowfall.cluster.sharding_keys import ShardingKey
from rowfall.contracts.facts import FirstFacts, LoadFacts, Reach, ShardingFacts
from rowfall.core import formats, units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError, UsageError
from rowfall.core.listing import Split
from rowfall.core.model import (
    BUILD,
    ENGINE,
    HERE,
    INSIDE,
    NOT_SPARED,
    PULL,
    PUSH,
    Choice,
    Encoding,
    Kind,
    Schema,
    Sorting,
    Transport,
)
from rowfall.core.options import DISTRIBUTED, FILTER, Options
from rowfall.core.sqltext import SqlText
from rowfall.core.type_names import parse_type, without_nested
from rowfall.decoder import rewriting
from rowfall.decoder.installed import PROGRAM
from rowfall.engines.base import ExistingTable
from rowfall.plan import attempts, decoding, keys, table_definition
from rowfall.plan.links import LZ4, ZLIB, compress_by_link
from rowfall.plan.sharding import choose_sharding, no_distributed
from rowfall.plan.sorting import choose_sorting, sorted_elements, sorting_key
from rowfall.plan.statements import insert_raw, is_json
from rowfall.schema.text.united_headers import lacks_columns
from rowfall.sources.base import Addressed, Source, Streamed
from rowfall.sources.compression import compression_of
from rowfall.targets.transactional import TransactionalTable


def choose_transport(
    facts: LoadFacts, options: Options, reading: tuple[Choice, Choice], ranges: Sequence[str] = ()
) -> Transport:
    """Decide how the rows of a load travel.

    Args:
        reading: by :func:`choose_reading`.
        ranges: which large files are cut, and why others are not.

    Raises:
        UsageError: an option asks for what cannot be done.
        TargetError: rows have to be sent from here to a server that takes none.
    """
    todo = facts.todo
    delivery, parser = reading
    if delivery.value == PUSH and facts.rows_refused:
        raise TargetError(
            f"the rows have to be sent from here ({delivery.reason}), and {facts.rows_refused}, "
            "which passes no rows on",
            hint="Let the servers read the source, or load from where all of them are reached.",
        )
    parts = choose_parts(facts, options, parser)
    built = parts.value == PROGRAM
    if built:
        delivery = Choice(BUILD, parts.reason)
    sorted_by = sorted_elements(facts) if built else ()
    if sorted_by:
        sort = Sorting("sorted", "parts are in the order of the table's key", sorted_by)
    else:
        sort = choose_sorting(facts, options, parser)
    if built and facts.sharding is not None:
        sharding = Choice(FILTER, f"{PROGRAM} finds the shard of each row, and each gets its parts")
    else:
        sharding = choose_sharding(facts, options, delivery, parser, todo)
    # The server cannot read ranges of text; what its decoder declines of them is read here.
    text = any(facts.listing.of_text(i) for i in todo) if facts.listing.parts else False
    fallback = Choice(PULL, "the engine that stores the rows can read the source")
    if delivery.value == PUSH:
        fallback = Choice(PUSH, delivery.reason)
    elif built and facts.reach is not None and not facts.reach.pull:
        fallback = Choice(PUSH, facts.reach.reason)
    elif text and facts.placement != "embedded":
        fallback = Choice(PUSH, "a server reads no ranges of text files")
    streams = 0
    compression = Choice("", "no rows are sent to a server")
    if delivery.value == PUSH:
        streams = count_streams(facts, options, parser)
        sent = "parsed here and sent as blocks of columns"
        raw = ""
        if parser.value == ENGINE:
            first = list(facts.listing.splits("", todo[: attempts.MOST_SPLITS]))
            once = not facts.source.replayable
            sends = sent_as(first, facts.encoding, facts.schema, stream=once)
            sent = sends.reason
            raw = "" if sends.blocks else sends.reason
        if todo:
            delivery = Choice(PUSH, f"{delivery.reason}; {sent}")
        compression = Choice("", raw) if raw else compress_by_link(facts, options, streams)
    if not todo:
        compression = Choice("", "nothing is left to load")
    elif options.compress == ZLIB and facts.table.database.link is None:
        raise UsageError(
            "only the protocol of MySQL is compressed with zlib",
            hint="Leave out --compress zlib.",
        )
    elif options.compress == LZ4 and not compression.value:
        raise UsageError(
            f"there are no blocks to compress: {compression.reason}",
            hint="Leave out --compress lz4.",
        )
    chosen = Transport(
        delivery, parser, fallback, sort, parts, compression, sharding, streams, tuple(ranges),
    )  # fmt: skip
    return facts.destination.adapt_transport(facts, options, chosen)


# --- pull or push, and who parses ----------------------------------------------------------------


def choose_reading(facts: LoadFacts, options: Options) -> tuple[Choice, Choice]:
    """Decide whether rows are pulled or pushed, and who parses them.

    rowfall-decode is taken wherever it can be used. Where the CPU is this machine's either way,
    pushing decoded blocks takes less than half of what a server needs to parse by itself (50 M rows
    of csv.gz: 3.4 CPU-seconds, 8.2 when it pulls).

    Raises:
        UsageError: ``--decoder always``, and it cannot.
    """
    reach, wish = facts.reach, options.decoder
    if reach is not None and spares_servers(options):
        here = Choice(HERE, "it parses for a quarter of the CPU that the engine takes")
        if (not_built(facts, options, here) or why_too_few(facts, options)) is None:
            return Choice(PUSH, "the servers are spared"), here
    delivery = choose_delivery(reach, options)
    if wish == "never":
        return delivery, Choice(ENGINE, "--decoder never")
    why = why_not_decoded(facts)
    encoding = decoding.read_encoding(facts.source, facts.encoding)
    if why is None and encoding is not None and decoding.makes(encoding):
        why = _why_not_built(facts, options)
        if why is None:
            return delivery, Choice(HERE, "it makes these rows for less CPU than the engine")
    elif why is None and encoding is not None and decoding.copies(encoding):
        own = encoding == facts.encoding
        known = all(decoding.stores(c, facts.common_engine) for c in facts.schema.reads)
        if own and known and facts.program is not None:
            if delivery.value == PUSH:
                return delivery, Choice(HERE, "it copies columns into blocks, and no engine starts")
            if facts.destination.takes_text:
                return delivery, Choice(HERE, "it writes columns as rows, and no engine starts")
        why = _why_not_copied(facts, options)
        if why is None:
            return delivery, Choice(HERE, "it copies columns into parts, for less CPU")
    if why is None and reach is not None and delivery.value == PULL:
        why = _why_not_inside(facts, reach)
        if why is None:
            there = f"{reach.reason}; {PROGRAM} parses there"
            return Choice(PULL, there), Choice(INSIDE, "the servers can run it")
        nearer = _why_push(facts, options)
        if nearer is not None:
            return Choice(PUSH, nearer), Choice(HERE, nearer)
    elif why is None and facts.program is None:
        why = facts.no_program
    if why is None:
        return delivery, Choice(HERE, "it parses for a quarter of the CPU that the engine takes")
    if wish == "always":
        raise UsageError(
            f"{PROGRAM} cannot be used: {why}",
            hint="Leave out --decoder always; rowfall install-decoder puts it into a server.",
        )
    return delivery, Choice(ENGINE, why)


def choose_delivery(reach: Reach | None, options: Options) -> Choice:
    """Decide between pull and push, as far as it does not depend on who parses.

    Raises:
        TargetError: ``--pull``, and the server cannot.
    """
    if reach is None:
        return Choice(PULL, "the engine that stores the rows is on this machine")
    if options.push:
        return Choice(PUSH, "as asked for with --push")
    check_pull(reach, options)
    return Choice(PULL if reach.pull else PUSH, reach.reason)


def check_pull(reach: Reach | None, options: Options) -> None:
    """Check that the server can read the source, where ``--pull`` asks for it.

    Raises:
        TargetError: it cannot.
    """
    if reach is not None and options.pull and not reach.pull:
        raise TargetError(f"the server cannot pull: {reach.reason}", hint=reach.hint)


def may_push(facts: FirstFacts, options: Options) -> bool:
    """Return whether rows may be pushed to servers, so that the network's speed matters."""
    reach = facts.reach
    if reach is None:
        return False
    return options.push or not reach.pull or _why_push(facts, options) is not None


def engine_may_parse(facts: FirstFacts, options: Options) -> bool:
    """Return whether an engine may parse the source; False where another program surely does.

    What servers pull, they may read by themselves; columns are copied where that pays.
    """
    reach, encoding = facts.reach, decoding.read_encoding(facts.source, facts.encoding)
    if options.decoder == "never" or facts.program is None or why_not_decoded(facts) is not None:
        return True
    copied = encoding is not None and (decoding.makes(encoding) or decoding.copies(encoding))
    return copied or (reach is not None and reach.pull)


def decoder_may_parse(facts: FirstFacts, options: Options) -> bool:
    """Return whether rowfall-decode may read the source, here or inside the servers."""
    reach = facts.reach
    if options.decoder == "never" or why_not_decoded(facts) is not None:
        return False
    if reach is None or not reach.pull or options.push:
        return facts.program is not None
    return _why_not_inside(facts, reach) is None or _why_push(facts, options) is not None


def why_not_decoded(facts: FirstFacts) -> str | None:
    """Return the reason that rowfall-decode can parse the rows on no machine; None if it can."""
    encoding = decoding.read_encoding(facts.source, facts.encoding)
    if encoding is not None and decoding.makes(encoding) and facts.reach and facts.reach.pull:
        return facts.reach.reason
    return decoding.refusal(
        facts.listing, encoding, facts.schema, facts.common_engine,
        streamed=isinstance(facts.source, Streamed),
    )  # fmt: skip


def _why_not_built(facts: LoadFacts, options: Options) -> str | None:
    """Return the reason that rowfall-decode does not make a generator's rows; None if it does.

    CPU-seconds of whole loads, rows of 512 bytes: 1 M into an embedded table 2.1, 3.6 where the
    engine makes them; 4 M as text into another database 3.9, and 5.0 (on a busy machine).
    """
    if facts.program is None:
        return facts.no_program
    return (
        None
        if facts.destination.takes_text or facts.reach is not None
        else _why_not_copied(facts, options)
    )


def _why_not_copied(facts: LoadFacts, options: Options) -> str | None:
    """Return the reason that rowfall-decode does not copy columns of a file; None if it does.

    Copying pays only where it writes the parts as well: through a pipe, the engine takes as much
    CPU for Native blocks as for Parquet.
    """
    if facts.program is None:
        return facts.no_program
    if facts.encoding is not None and facts.encoding.format == "Arrow":
        return "parts are made of streams of Arrow, and these are files"
    if options.decoder == "always":
        return None if facts.destination.builds_parts else "rows go into no folder"
    if options.build == "off":
        return "--build off"
    why = not_built(facts, options, Choice(HERE, ""))
    return why or why_too_few(facts, options)


def _why_not_inside(facts: FirstFacts, reach: Reach) -> str | None:
    """Return the reason that servers cannot run the decoder on a source they pull; None if none."""
    if not isinstance(reach.source, Addressed):
        return "the server reads its own files"
    for writer in facts.writers:
        if writer.no_decoder is not None:
            return writer.no_decoder + (f" ({writer.node})" if writer.node else "")
    return None


def _why_push(facts: FirstFacts, options: Options) -> str | None:
    """Return the reason to read and parse rows here instead of having the server pull, or None."""
    if options.pull or facts.program is None:
        return None
    if options.decoder == "always":
        return f"{PROGRAM} reads here, as asked for"
    if facts.rows_refused or not facts.writers[0].link.near:
        return None
    return f"the server is on this machine, where {PROGRAM} parses for half the CPU"


def count_streams(facts: LoadFacts, options: Options, parser: Choice) -> int:
    """Return the number of connections that push rows to one server.

    One a core of the server, where parsing and sorting happen; more than eight fill any network
    (1.2 GB/s of text at 150 MB/s a core). Where rows are parsed here, two a core of this machine,
    so that one works while the other waits for the server: with four a core, 4 shards took 4 % more
    CPU.
    """
    if not facts.source.replayable:
        return 1
    # This machine serves the streams of all shards.
    most = 8 if parser.value == ENGINE else min(8, 2 * facts.cores_here)
    most //= len(facts.writers)
    return options.streams or max(1, min(most, facts.engine.cores))


# --- files as they are, or blocks ----------------------------------------------------------------

# Raw files that are smaller on average go as blocks: a statement and its part cost the server 6 to
# 12 ms. 2,000 files of 30 KB took 14 CPU-seconds raw and 1.3 as blocks, 60 files of 1 MB 1.7 and
# 1.1; at 4 MiB it is 15 % of parsing plain text and 4 % of what is packed.
SMALL_FILE = 4 << 20
# The server holds a whole Parquet, ORC or Arrow file in memory before it reads the first row.
WHOLE_MOST = 64 << 20
# The server refuses longer parameters of a URL (128 KiB, see http.LONGEST_FIELD), and in front of
# what is packed a statement cannot stand.
LONGEST_SQL = 100 << 10

_HELD = frozenset({"Parquet", "ORC", "Arrow"})
# Their first bytes cannot be unpacked by the standard library of Python 3.11.
_SEALED = frozenset({"zstd", "lz4"})


@dataclass(frozen=True, slots=True)
class SentAs:
    """Splits of one attempt by how they are sent to a server.

    Attributes:
        raw: as they are; the server unpacks and parses them.
        blocks: read by the local engine, sent as blocks of columns.
        reason: for the plan, half a sentence.
    """

    raw: tuple[Split, ...]
    blocks: tuple[Split, ...]
    reason: str


def sent_as(
    splits: Sequence[Split], encoding: Encoding | None, schema: Schema, *, stream: bool,
    here: bool = False,
) -> SentAs:  # fmt: skip
    """Decide in which form each split is sent, where the decoder does not parse it.

    Args:
        stream: the source is one that is read once (stdin).
        here: the server's reader has failed, or rowfall-decode; of files with types the server's
            may be older.
    """
    everything = tuple(splits)
    if encoding is None:
        return SentAs((), everything, "rows are made here and sent as blocks")
    if schema.limit:
        return SentAs((), everything, "--limit: read here, sent as blocks")
    if schema.projection is not None and schema.projection.constants and not stream:
        return SentAs((), everything, "names of files give columns: read here, sent as blocks")
    if encoding.dialect is not None and not stream:
        why = f"{rewriting.describe(encoding.dialect)}: rewritten and read here, sent as blocks"
        return SentAs((), everything, why)
    if stream:
        return SentAs(everything, (), "stdin goes on as it comes in")
    if lacks_columns(schema, encoding):
        return SentAs((), everything, "some files lack columns: read here, sent as blocks")
    if here and encoding.kind is Kind.TYPED:
        return SentAs((), everything, "the reader here may be newer: sent as blocks")
    if encoding.format in formats.ARROW:
        # 24.10 reads half floats as other numbers, and no views, lists of views or short decimals.
        return SentAs((), everything, "the reader here may be newer: read here, sent as blocks")
    if older := _not_read_there(encoding, schema):
        return SentAs((), everything, f"{older}: read here, sent as blocks")
    if encoding.format in formats.LAKES or any(not is_local(split) for split in everything):
        return SentAs((), everything, "the source is read here and sent as blocks")
    size = sum(split.size or 0 for split in everything)
    if len(everything) > 1 and size < SMALL_FILE * len(everything):
        why = f"files of {units.memory(size // len(everything))} on average would be a part each"
        return SentAs((), everything, f"{why}: read here, sent as blocks")
    if len(quote_plus(str(insert_raw(SqlText.of("``"), encoding, schema)))) > LONGEST_SQL:
        return SentAs((), everything, "too many columns for one URL: read here, sent as blocks")
    raw = tuple(split for split in everything if not _not_raw(split, encoding))
    kept = frozenset(raw)
    blocks = tuple(split for split in everything if split not in kept)
    as_is = "files go as they are, the server unpacks and parses them"
    if not blocks:
        return SentAs(raw, (), as_is)
    why = f"{_not_raw(blocks[0], encoding)}: read here, sent as blocks"
    return SentAs(raw, blocks, f"{as_is}; {why}" if raw else why)


def _not_read_there(encoding: Encoding, schema: Schema) -> str | None:
    """Return the reason that an older server cannot read a column of a typed file; None if none.

    The columns are described here: 24.10 refuses Nullable(Tuple), reads a UUID of Parquet as bytes,
    has no type for its times of day, and reads no union of null and array where a NULL in other
    columns is an error.
    """
    if encoding.kind is not Kind.TYPED:
        return None
    for column in schema.reads:
        type_ = column.read_type or column.type
        misread = encoding.format == "Parquet" and ("UUID" in type_ or "Time64" in type_)
        if misread or "Nullable(Tuple(" in type_:
            return f"older servers do not read {column.name} as {parse_type(type_).base}"
        if encoding.format == "Avro" and parse_type(type_).nested:
            return f"{column.name} may be NULL in the file"
    return None


def is_local(split: Split) -> bool:
    """Tell whether the split is a file of this machine; members of archives are none."""
    return os.path.isabs(split.uri) and split.start is None and "::" not in split.uri


def _not_raw(split: Split, encoding: Encoding) -> str | None:
    """Return the reason not to send the file's bytes as they are to the server; None if none."""
    packed = compression_of(split.uri, encoding)
    if encoding.kind is Kind.TYPED and packed != "none":
        return f"{encoding.format} inside {packed}"
    size = split.size or 0
    if encoding.format in _HELD and size > WHOLE_MOST:
        return f"the server would hold {units.memory(size)} of {encoding.format} in memory"
    if encoding.has_header and packed in _SEALED:
        # input() does not apply DEFAULT, so a column that the header lacks would be filled in
        # without a word: pushing compares the header first.
        return f"a header inside {packed} cannot be checked beforehand"
    return None


# --- text that another database takes -----------------------------------------------------------


def choose_text_writer(facts: LoadFacts, target: TransactionalTable, parser: Choice) -> Choice:
    """Decide who writes the text that another database takes: rowfall-decode where it parses.

    400,000 taxi rows cost the engine 0.85 CPU-seconds as text, besides its start.
    """
    schema = facts.schema
    why = None
    if parser.value != HERE:
        why = f"{PROGRAM} does not parse: {parser.reason}"
    elif schema.projection is not None:
        why = "the engine selects the columns"
    elif target.rows.decoder:
        only = list(filter(target.only_engine_writes, schema.columns))
        if only:
            why = f"only the engine writes {only[0].type} as text (column {only[0].name})"
        elif not target.takes_back and not reads_ahead(facts.source, facts.encoding):
            why = "what is declined after some rows would be sent twice, without --transactional"
    else:
        why = f"{PROGRAM} writes no messages of Avro, and none with keys"
    if why is not None:
        return Choice(ENGINE, why)
    return Choice(PROGRAM, "it has the values, and no engine sees them")


def reads_ahead(source: Source, encoding: Encoding | None) -> bool:
    """Return whether a file may be parsed once for checking before its rows are sent.

    Reading and parsing taxi rows a second time takes 0.7 CPU-seconds a million, and the engine 2.7
    more than rowfall-decode to write them. Over a network it would cost as much as the load. Rows
    that are made are never declined half-way.
    """
    read = decoding.read_encoding(source, encoding)
    local = not (source.remote or isinstance(source, Streamed)) and source.replayable
    return local or (read is not None and decoding.makes(read))


# --- whether rowfall-decode writes the parts ------------------------------------------------------

# Fewer rows take as long both ways (docs/decisions/0035-default-layout.md).
_LEAST_BUILT_BYTES = 10 << 20
# Files of wide parts that are smaller cost more than their rows.
_LEAST_FILE_BYTES = 64 << 10
_NEW_TABLE = table_definition.Definition((), "MergeTree")
# Settings of an INSERT that apply to parts that are made here, too.
_PART_SETTINGS = frozenset(
    {
        "max_insert_threads",
        "max_partitions_per_insert_block",
        "min_insert_block_size_rows",
        "min_insert_block_size_bytes",
    }
)


def choose_parts(facts: LoadFacts, options: Options, parser: Choice) -> Choice:
    """Decide whether rowfall-decode writes the parts of the table, so that they are only attached.

    The parts are what the embedded engine would write for the same blocks. What it would make
    besides the columns of the load it makes in staging (:mod:`rowfall.plan.table_definition`);
    tables that ask for anything else are left to it.

    Raises:
        UsageError: ``--build on``, and it cannot.
    """
    wish = options.build
    if facts.reach is not None and wish == "auto" and not options.spare_servers:
        return Choice(ENGINE, NOT_SPARED)
    why = not_built(facts, options, parser)
    if wish == "on" and why is not None:
        raise UsageError(f"parts cannot be built: {why}", hint="Leave out --build on.")
    if wish == "off":
        return Choice(ENGINE, "--build off")
    why = why or why_too_few(facts, options)
    if parser.value == ENGINE and wish == "auto" and why is None:
        # CPU seconds, handed over and not: 20 M trips of three numbers 0.6 and 1.2, 1 M taxi rows
        # of 51 columns, 20 of them strings, 2.4 and 1.8.
        texts = [c.name for c in facts.schema.columns if decoding.holds_text(c)]
        why = f"strings ({texts[0]}) would be copied once more" if texts else None
    if why is not None:
        return Choice(ENGINE, why)
    return Choice(PROGRAM, "the engine then neither sorts nor compresses a row")


def why_too_few(facts: LoadFacts, options: Options) -> str | None:
    """Return the reason (few rows, small files) to let the engine write the parts; None if none."""
    rows = attempts.rows(facts, facts.todo) if options.build == "auto" else None
    if rows is None:
        return None
    schema, size = facts.schema, rows * facts.schema.row_bytes
    files = schema.layout.partitions * len(schema.columns)
    if schema.layout.partitions > 1 and size < _LEAST_FILE_BYTES * files:
        table, filled = facts.table.existing, {column.name for column in schema.columns}
        # What a new table asks for is the default.
        found = table_definition.parse(table.create_query) if table else _NEW_TABLE
        each = (size / schema.layout.partitions, rows / schema.layout.partitions)
        if found is None or not table_definition.are_compact(found, filled, *each):
            return "its partitions are small"
    return "there are few rows" if size < _LEAST_BUILT_BYTES * facts.engine.cores else None


def not_built(facts: LoadFacts, options: Options, parser: Choice) -> str | None:
    """Return a clause: why only the engine can write the parts of the table; None if none."""
    schema = facts.schema
    if facts.reach is not None and facts.destination.makes_parts:
        if why := _not_handed_over(facts, options, parser):
            return why
    elif not facts.destination.builds_parts:
        return "rows go into no table of the embedded engine"
    elif facts.engine.release[:2] != table_definition.LAYOUT:
        return f"the parts of version {facts.engine.version} are not known to {PROGRAM}"
    if parser.value == ENGINE:
        if facts.program is None or options.decoder == "never":
            return f"{PROGRAM} does not parse: {parser.reason}"
        if not facts.source.replayable:
            return f"what {PROGRAM} declines could not be read again"
    if options.direct:
        return "rows go straight into the table"
    if schema.projection is not None and parser.value != ENGINE:
        return "the engine selects the columns"
    if facts.table.views.names and facts.table.computed:
        # The setting by which views get the values that are in staging holds for what they fill,
        # too: a value of theirs would then be in place of a computed one.
        for table in facts.table.filled[1:]:
            if table.computed:
                return f"views fill the MATERIALIZED column {table.computed[0]} of {table.name}"
    for column in schema.columns:
        if not column.name.isprintable():
            return f"the definition of the table has {column.name!r} in another form"
        if not decoding.stores(column, facts.common_engine) or is_json(column):
            return f"only the engine writes {column.type} (column {column.name})"
        if parse_type(column.type).nested and "." in column.name:
            return f"columns of a Nested share sizes ({column.name})"
        if column.type != without_nested(column.type):
            return f"only the engine writes {column.type} (column {column.name})"
    # Other settings mean nothing where no INSERT runs.
    for text in options.set:
        name = text.partition("=")[0]
        if name not in _PART_SETTINGS:
            return f"--set {name} is the engine's"
    moves = facts.reach is None
    why = (
        _not_known(schema, facts.table.existing, moves=moves)
        if schema.exists
        else _not_simple(schema)
    )
    if why is not None:
        return why
    return _not_sorted(facts, options)


def _not_handed_over(facts: LoadFacts, options: Options, parser: Choice) -> str | None:
    """Return a clause: why servers cannot take over parts that are made here; None if they can."""
    if options.pull:
        return "--pull has the server read the source"
    if facts.sharding is not None and (why := _not_sharded(facts, options, facts.sharding)):
        return why
    if parser.value != HERE:
        return f"{PROGRAM} does not parse here: {parser.reason}"
    if facts.program is None:
        return facts.no_program
    encoding = decoding.read_encoding(facts.source, facts.encoding)
    if encoding is None:
        return f"{PROGRAM} does not make these rows"
    if not facts.source.replayable:
        return f"what {PROGRAM} declines could not be read again"
    if why := decoding.refusal(
        facts.listing, encoding, facts.schema, facts.common_engine,
        streamed=isinstance(facts.source, Streamed),
    ):  # fmt: skip
        return why
    if facts.rows_refused:
        return facts.rows_refused
    return next((w.link.back for w in facts.writers if w.link.back is not None), None)


def _not_sharded(facts: LoadFacts, options: Options, sharding: ShardingFacts) -> str | None:
    """Return a clause: why parts for each shard cannot be made here; None if they can."""
    key: ShardingKey = sharding.key
    if options.method in (FILTER, DISTRIBUTED):
        return f"--method {options.method} says how rows get to their shards"
    if key.unreplicated:
        return "each replica has a table of its own"
    if sharding.refused is not None:
        return sharding.refused
    if facts.table.views.names:
        return f"views read a table with the sharding key {key.expression}"
    if no_distributed(sharding) is not None:
        return "the cluster has internal_replication = 0"
    found = keys.shard_use(key.expression, facts.schema.columns)
    return found if isinstance(found, str) else None


def _not_sorted(facts: LoadFacts, options: Options) -> str | None:
    """Return a clause: why only the engine can sort rows by the table's key; None if none."""
    table = facts.table.existing
    key = sorting_key(facts.schema, table)
    if not keys.sorting_elements(key):
        return None
    if options.presort == "off":
        return f"blocks are not sorted by its key ({key})"
    others = [column[0] for column in table.columns] if table else []
    found = keys.sorting_key(key, facts.schema.columns, others, facts.table.key_types)
    return found if isinstance(found, str) else None


def _not_simple(schema: Schema) -> str | None:
    """Return a clause: what a new table has that rowfall-decode cannot write; None if nothing."""
    engine = schema.layout.engine.partition("(")[0].strip()
    if engine not in table_definition.ENGINES:
        return f"its engine is {engine}"
    if schema.layout.clauses:
        return "it has settings or a primary key of its own"
    return _not_partitioned(schema.layout.partition_by, schema)


def _not_partitioned(key: str, schema: Schema, others: Sequence[str] = ()) -> str | None:
    """Return a clause: why only the engine can compute the partitions of rows; None if none."""
    if not keys.elements(key):
        return None
    found = keys.partition_key(key, schema.columns, others)
    return found if isinstance(found, str) else None


def _not_known(schema: Schema, table: ExistingTable | None, *, moves: bool) -> str | None:
    """Return a clause: what neither rowfall-decode nor mutations can make of an existing table.

    None where there is nothing of the kind.

    Args:
        moves: see :func:`rowfall.plan.table_definition.refusal`.
    """
    if table is None:
        return "the table is not there"
    if schema.fit.changes:
        return "the load changes the table's columns first"
    definition = table_definition.parse(table.create_query)
    if definition is None:
        return "its definition is not understood"
    filled = {c.name for c in schema.columns}
    why = table_definition.refusal(definition, filled, moves=moves)
    return why or _not_partitioned(table.partition_key, schema, [c[0] for c in table.columns])


def spares_servers(options: Options) -> bool:
    """Tell whether parts for servers are built here where that can be done."""
    return options.build == "on" or (options.spare_servers and options.build != "off")
