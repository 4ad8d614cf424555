"""Cuts large files into ranges, so that no shard of a cluster waits for another one's file.

Which files are cut may differ from run to run: it depends on the shards and on what is left to do.
Where a file is cut never does: on a grid that only its size decides. Of a file that has been begun
in ranges only ranges are loaded, and one that has landed as a whole is never cut; the journal keeps
two processes that decide otherwise at the same moment apart.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rowfall.core import units
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.listing import CUT_LEAST, MARK, Listing, Split
from rowfall.core.model import ENGINE, Choice, Encoding, Kind, Schema
from rowfall.core.options import Options
from rowfall.plan import balance, ranges, row_groups, text_cuts
from rowfall.plan.facts import LoadFacts
from rowfall.plan.reach import source_reader
from rowfall.plan.session import Session
from rowfall.schema import strict_reading
from rowfall.schema.records import header_line, header_names
from rowfall.sources.base import Ranged

# Shards may end so much later than they would on average: DESIGN asks for no more.
AIM = 0.03
# Ranges are at least this long, and a file has at most so many: 1,024 ranges give 32 shards shares
# that differ by 3 %. Neither may ever change: ranges that have landed would not be known again.
LEAST, MOST = CUT_LEAST // 2, 1024


@dataclass(frozen=True, slots=True)
class Cutting:
    """The listing, perhaps with ranges; ``notes`` say what was cut, or why it was not."""

    listing: Listing
    notes: tuple[str, ...] = ()


def step(size: int) -> int:
    """Bytes between two places of the grid of a file: a power of two, from 4 MiB on."""
    return max(LEAST, 1 << (-(-size // MOST) - 1).bit_length())


def cut(session: Session, facts: LoadFacts, parser: Choice, known: Collection[str]) -> Cutting:
    """Cut what has been begun in ranges, and what would keep shards waiting for each other.

    Args:
        facts: with the whole listing.
        parser: who parses text.
        known: ids that have landed, with the marks of files of which ranges have.

    Raises:
        UsageError: a file has been begun in ranges, and now cannot be cut.
    """
    key = session.target_key
    begun, wanted = _begun(facts, known, key), _wanted(facts, known, key)
    if not begun and not wanted:
        return Cutting(facts.listing)
    why = uncut(facts, session.options, parser)
    cuts: dict[int, list[Split]] = {}
    reasons: dict[str, int] = {}
    for index in sorted(begun | wanted):
        try:
            found = why or _parts(session, facts, facts.listing.split(index, key))
        except SourceError as error:
            if index in begun or not error.transient:
                raise
            found = error.message  # whoever loads it has the patience
        if not isinstance(found, str):
            cuts[index] = found
            continue
        if index in begun:
            raise UsageError(
                f"{facts.listing.uri(index)} was loaded in part by ranges and cannot be cut now: "
                f"{found}",
                hint="Load it with the options and tables of that run.",
            )
        reasons[found] = reasons.get(found, 0) + 1
    notes = [_kept_whole(count, reason) for reason, count in reasons.items()]
    if cuts:
        total = sum(map(len, cuts.values()))
        files, ranges = units.counted(len(cuts), "file"), units.counted(total, "range")
        notes.insert(0, f"{files} loaded in {ranges}, so that all shards work")
    return Cutting(_with(facts.listing, cuts), tuple(notes))


def _kept_whole(count: int, reason: str) -> str:
    files = units.counted(count, "file")
    return f"{files} kept whole, so some shards may be done before others: {reason}"


def _begun(facts: LoadFacts, known: Collection[str], key: str) -> set[int]:
    """Return the files of which ranges have landed."""
    if not known or facts.placement == "embedded":
        return set()
    listing = facts.listing
    large = (i for i in range(len(listing)) if (listing.size(i) or 0) >= CUT_LEAST)
    return {
        i for i in large
        if (id_ := listing.split(i, key).id) not in known and f"{MARK}{id_}" in known
    }  # fmt: skip


def _wanted(facts: LoadFacts, known: Collection[str], key: str) -> set[int]:
    """Return the files that would make some writer work for longer than the others."""
    if len(facts.writers) < 2:
        return set()
    splits = facts.listing.splits(key)
    todo = {i: split.size or 0 for i, split in enumerate(splits) if split.id not in known}
    speeds = [float(writer.engine.cores) for writer in facts.writers]
    if not todo or balance.assign(todo.values(), speeds).imbalance <= AIM:
        return set()
    # Smaller ones fill what the ranges of the larger leave.
    share = sum(todo.values()) / len(facts.writers)
    return {i for i, size in todo.items() if size >= max(CUT_LEAST, AIM * share)}


def uncut(facts: LoadFacts, options: Options, parser: Choice) -> str | None:
    """Return why no file can be cut; None where it depends on the file."""
    encoding, views = facts.encoding, facts.table.views
    if facts.sharding is not None:
        return "every file holds rows of all shards, by the sharding key"
    if encoding is None or facts.placement == "embedded" or options.method != "local":
        return "there are no files"
    if options.force:
        return "--force loads files as they are"
    if options.max_errors or options.max_error_ratio:
        return "bad rows are counted and shown by the lines of whole files"
    if options.direct:
        return "--direct has no staging in which the rows of a range are counted"
    if views:
        return f"the table feeds materialized views ({', '.join(views)})"
    if encoding.format == "Parquet":
        return None
    if facts.rows_refused:
        return (
            f"what rowfall-decode declines of a range is sent from here, and {facts.rows_refused}"
        )
    return _not_cut(encoding, facts.schema, parser)


def _not_cut(encoding: Encoding, schema: Schema, parser: Choice) -> str | None:
    """Return why no text file can be cut."""
    if encoding.kind in (Kind.TEXT, Kind.JSON) and encoding.compression != "none":
        return (
            f"{encoding.compression} can be unpacked from its beginning only; several smaller "
            "files, or plain ones, can be loaded by several shards"
        )
    if encoding.kind not in (Kind.TEXT, Kind.JSON):
        return f"{encoding.format} is read from its beginning to its end"
    if parser.value == ENGINE:
        return f"only rowfall-decode reads ranges of text, and {parser.reason}"
    if encoding.is_csv and strict_reading.holds_line_breaks(schema.columns):
        return "its fields hold line breaks, so no place shows that a record ends there"
    return None


def _parts(session: Session, facts: LoadFacts, split: Split) -> list[Split] | str:
    """Return the ranges of one file, or why there are none."""
    encoding, columns = facts.encoding, facts.schema.columns
    if not isinstance(facts.source, Ranged):
        return "it can be read from its beginning only"
    if encoding is not None and encoding.format != "Parquet":
        return _text_parts(facts.source, encoding, facts.schema, split)
    engine, source = source_reader(session, facts.reach)
    (row,) = engine.ask(row_groups.question(source, split, columns))
    return row_groups.parts(split, row_groups.footer(row, columns), step(split.size or 0))


def _text_parts(
    source: Ranged, encoding: Encoding, schema: Schema, split: Split
) -> list[Split] | str:
    data = source.part(split, 0, ranges.HEADER)
    if not data:
        return "its server sends whole files only"
    head, count = b"", len(schema.columns)
    if encoding.has_header:
        head = header_line(data) or b""
        names = header_names(head, encoding)
        wanted = {c.source or c.name for c in schema.columns}
        if len(set(names)) < len(names) or not wanted <= set(names):
            return "its header is not that of the table"
        count = len(names)
    width = strict_reading.line_fields(encoding, schema.columns, count)
    every = step(split.size or 0)
    return text_cuts.parts(split, encoding, head, width, every, source.part)


def _with(listing: Listing, cuts: dict[int, list[Split]]) -> Listing:
    """The listing with ranges in the place of some files."""
    if not cuts:
        return listing
    found = Listing()
    for index, split in enumerate(listing.splits("")):
        for one in cuts.get(index, [split]):
            found.add(one.uri, one.version, one.size, one.start, one.stop, one.part)
    return found
