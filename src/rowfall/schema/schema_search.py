"""Find encoding and columns of a source, whatever is wrong with some of the objects of its sample.

An object that is broken is left out of the sample: its split fails later, with a reason of its own,
and the others are loaded. What is too large, or gone, is said in words that name it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from rowfall.core import units, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import (
    DataError,
    EngineError,
    RecordTooLongError,
    RowfallError,
    SourceError,
)
from rowfall.core.listing import Listing, Split
from rowfall.core.long_records import PIECE
from rowfall.core.model import Encoding, Kind, Schema
from rowfall.core.options import Options
from rowfall.core.time_range import WIDE
from rowfall.schema.bad_rows import data_errors
from rowfall.schema.column_facts import RunSelect
from rowfall.schema.inference import schema_for
from rowfall.schema.sampling import FILES
from rowfall.schema.table_changes import TargetColumns
from rowfall.schema.text import long_records
from rowfall.schema.text.long_records import too_large_stream
from rowfall.schema.types.strict_reading import with_whole_tuples, within
from rowfall.sources.base import Source
from rowfall.sources.compression import compression_of
from rowfall.systems.clickhouse.codes import (
    BROKEN_OFF,
    DATA_CODES,
    LIBRARY_ERROR,
    MEMORY_LIMIT,
    TIMEOUT_EXCEEDED,
    broken_off,
)

# A sample of files here takes a second; gigabytes of commas in a line take minutes and no memory.
SAMPLE_SECONDS = 20


@dataclass(frozen=True, slots=True)
class SchemaSearch:
    """The search for encoding and columns of a source.

    Attributes:
        declared: encoding by options and file names; None for generators.
        options: as the engine that is asked understands them.
        ask: runs a SELECT of that engine.
        zone: time zone of the engine that stores the rows.
        most: bytes of a record.
        memory: bytes that the engine of this machine may take; None where another one is asked,
            which has limits of its own.
    """

    source: Source
    declared: Encoding | None
    options: Options
    ask: RunSelect
    target: TargetColumns
    zone: str
    most: int
    memory: int | None

    def find(self, listing: Listing) -> tuple[Encoding | None, Schema]:
        """Return encoding (with or without a header, as found) and schema of a load.

        Raises:
            RowfallError: no object can be sampled; see :func:`rowfall.schema.inference.schema_for`.
        """
        source = self.source
        while True:
            try:
                if self.memory is not None and (long := self._begins_long(listing)):
                    raise long
                return self._of(listing)
            except RowfallError as error:
                if isinstance(error, EngineError):
                    _check_sample(source, listing)
                    if source.remote and error.code in BROKEN_OFF:
                        raise _broken_off(source, listing, error) from None
                if error.code in (MEMORY_LIMIT, TIMEOUT_EXCEEDED) and self.memory is not None:
                    one = self._first_too_large(listing, error)
                    error = self._too_much(one, error.code, self.memory)
                error, name = self._of_one(listing, error)
                try:
                    listing = _without_broken(listing, error, name)
                except DataError as said:
                    if self.memory is None and said.hint == data_errors.CORRECT:
                        said.hint = data_errors.READ_HERE
                    raise

    def _of(self, listing: Listing) -> tuple[Encoding | None, Schema]:
        """Return encoding and schema, with what all columns together ask for, and the engine."""
        encoding, schema = schema_for(
            self.source, listing, self.declared, self.options, self.ask, self.target
        )
        kind = encoding.kind if encoding is not None else Kind.MADE
        if encoding is not None:
            schema = with_whole_tuples(schema, encoding)
        times = self.target.times
        schema = replace(schema, times=times)
        checked = schema.with_reads(within(schema.reads, times, kind, self.zone))
        if schema.projection is not None and times != WIDE:
            # What is selected may be computed.
            columns = within(checked.columns, times, Kind.TYPED, self.zone)
            checked = replace(checked, columns=columns)
        return encoding, checked

    def _begins_long(self, listing: Listing) -> RecordTooLongError | None:
        """Return the error about a sampled file whose first rows hold one that is too long.

        The engine would skip two thousand million fields without looking at its limits in between.
        """
        source, encoding = self.source, self.declared
        if encoding is None or encoding.kind is Kind.TYPED or not source.replayable:
            return None
        sampled = source.sample(listing, FILES)
        doubtful = [split for split in sampled if self._may_be_long(split, encoding)]
        # What may begin in the first piece is found to be too long before so many bytes.
        within = self.most + 2 * PIECE
        return long_records.find(source, doubtful, encoding, self.most, within=within)

    def _may_be_long(self, split: Split, encoding: Encoding) -> bool:
        packed = compression_of(split.uri, encoding)
        if packed == "none" and split.size is not None and split.size <= self.most:
            return False
        # Of what is far away the engine's own limits have to do: each look is a request.
        return not self.source.remote and long_records.may_begin(self.source, split, packed)

    def _first_too_large(self, listing: Listing, error: RowfallError) -> Listing:
        """Return the one sampled object that alone takes more memory than there is, or all."""
        splits = self.source.sample(listing, FILES)
        for split in splits if error.code == MEMORY_LIMIT and len(splits) > 1 else ():
            alone = _only(split)
            try:
                self._of(alone)
            except RowfallError as again:
                if again.code == MEMORY_LIMIT:
                    return alone
        return listing

    def _too_much(self, listing: Listing, code: int, memory: int) -> RowfallError:
        """Return the error about a sample that takes more memory, or longer, than it may."""
        source = self.source
        splits = source.sample(listing, FILES)
        found = long_records.find(source, splits, self.declared, self.most)
        if found is not None:
            return found
        names = splits[0].uri + (f" and {len(splits) - 1} more" if len(splits) > 1 else "")
        if not source.replayable:  # its sample is a copy that nobody knows
            return too_large_stream(listing.split(0, "").name, memory)
        if code == TIMEOUT_EXCEEDED:
            return SourceError(
                f"a sample of {names} takes longer than {SAMPLE_SECONDS} s",
                hint="Millions of empty lines in front of the rows may be the reason: look at the "
                "beginning of the file. --skip-lines leaves lines out.",
                code=code,
            )
        said = f"a sample of {names} takes more memory than --memory allows "
        said += f"({units.memory(memory)})"
        hint = (
            "One value, block or page of it is very large: give more with --memory, or write the "
            "file with smaller ones."
        )
        if len(splits) == 1:
            return DataError(said, uri=splits[0].uri, hint=hint)
        return SourceError(said, hint=hint, code=MEMORY_LIMIT)

    def _of_one(self, listing: Listing, error: RowfallError) -> tuple[RowfallError, str]:
        """Return the error of the first sampled object that cannot be read alone, and its name.

        "" where the error names it itself, and where each can be read. Libraries name no file.
        """
        known = {LIBRARY_ERROR, *DATA_CODES}
        if error.code not in known or isinstance(error, DataError):
            return error, ""
        if data_errors.named_object(error.message) is not None:
            return error, ""
        splits = self.source.sample(listing, FILES)
        if len(listing) == 1 or len(splits) == 1:
            return error, splits[0].uri if splits else ""
        for split in splits:
            try:
                self._of(_only(split))
            except RowfallError as again:
                if again.code in known or isinstance(again, DataError):
                    return again, split.uri
        return error, ""


def _only(split: Split) -> Listing:
    """Return a listing of one object."""
    alone = Listing()
    alone.add(split.uri, split.version, split.size)
    return alone


def _check_sample(source: Source, listing: Listing) -> None:
    """Check that what an engine could not read is still there.

    Raises:
        SourceError: it is gone, or another version.
    """
    for split, what in source.changed(source.sample(listing, FILES)):
        raise SourceError(f"cannot read {split.uri}: {what}")


def _broken_off(source: Source, listing: Listing, error: EngineError) -> SourceError:
    """Return the error of a sample whose bytes did not come."""
    some = [uri.mask(split.uri) for split in source.sample(listing, FILES)]
    more = f", or one of {len(some) - 1} more" if len(some) > 1 else ""
    return broken_off(f"{some[0]}{more}", error)


def _without_broken(listing: Listing, error: RowfallError, name: str = "") -> Listing:
    """Return the listing for another sample, without the object that cannot be read.

    Its split will fail with a reason of its own, and the others land.

    Args:
        name: of the object, where the error does not say it.

    Raises:
        RowfallError: ``error``, in better words where it is about the only object.
    """
    if isinstance(error, DataError):
        said = error
    elif error.code == LIBRARY_ERROR and name:
        said = data_errors.unreadable(name, error)
    elif error.code in DATA_CODES:
        only = name or (listing.uri(0) if len(listing) == 1 else "")
        said = data_errors.explain_engine_error(error.code, error.message, only)
        inner = re.search(r"Code: (\d+)\. DB::Exception: (.+)", error.message)
        if inner:
            said = data_errors.explain_engine_error(int(inner[1]), inner[2], said.uri)
    else:
        raise error
    rest = Listing()
    for split in listing.splits(""):
        if not data_errors.same_object(split.uri, said.uri):
            rest.add(split.uri, split.version, split.size)
    if not 0 < len(rest) < len(listing):
        raise said from None
    return rest
