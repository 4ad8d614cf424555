"""Finds what helps against a failed attempt: which attempts replace it, which splits fail.

:meth:`Remedies.of` goes from what nothing helps against to what is tried once more. It knows what
the failures before have taught about reading; it inserts and records nothing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace

from rowfall.contracts.destination import ReceiverInputs
from rowfall.contracts.receiver import (
    Receiver,
    first_line,
)
from rowfall.core import engine_formats, retry, units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import (
    DataError,
    LockLostError,
    MemoryOverrunError,
    ObjectChangedError,
    RecordTooLongError,
    RowfallError,
    SourceError,
    SourceGoneError,
    TargetError,
    UnclosedQuoteError,
)
from rowfall.core.listing import Split
from rowfall.core.model import PULL, PUSH, Kind, Plan, Schema, Setting
from rowfall.decoder import rewriting
from rowfall.decoder.process import DecoderFailure
from rowfall.deliver.decode import DeclinedError
from rowfall.engines.database import RefusedRowError
from rowfall.plan.settings import lower
from rowfall.run.work_queue import Work
from rowfall.schema import avro_blocks
from rowfall.schema.bad_rows import data_errors
from rowfall.schema.bad_rows.declined_rows import declined_row
from rowfall.schema.bad_rows.rejects import BadRows, TooManyBadRowsError
from rowfall.schema.text import long_records
from rowfall.schema.types import strict_reading
from rowfall.sources.base import Unreadable
from rowfall.stores.objects import ObjectSource
from rowfall.systems.clickhouse.codes import (
    BROKEN_OFF,
    DATA_CODES,
    LIBRARY_ERROR,
    MEMORY_LIMIT,
    SOCKET_TIMEOUT,
    broken_off,
    is_one_value,
)
from rowfall.systems.clickhouse.prestart import is_installed

# One thread, so that rows are sent as they stand in the file.
IN_ORDER = {"max_threads": 1, "max_insert_threads": 1, "input_format_parallel_parsing": 0}


class ChangedError(SourceError):
    """Objects that are not what was listed, each with what happened to it."""

    def __init__(self, changed: Sequence[tuple[Split, str]]) -> None:
        super().__init__("the source changed during the load")
        self.changed = changed


class OtherColumnsError(ChangedError):
    """Objects whose columns are not those of the load, each with what differs.

    A second line of that is a hint of its own.
    """


class NullListsError(ChangedError):
    """Objects with lists or maps that are NULL, each with the columns that hold them."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Tells what is to be done about a failed attempt.

    Attributes:
        again: the attempts that replace it.
        failed: splits that are given up, each with the reason.
    """

    again: Sequence[Work]
    failed: Sequence[tuple[Split, RowfallError]] = ()


class Remedies:
    """Finds what helps against the failures of one writer's attempts.

    Args:
        given, receiver: of the writer.
        bad_rows: finds the rows behind an error of the engine.

    Attributes:
        schema: by which rows are read that no attempt has another one for.
        decodes: rowfall-decode reads; False once it has declined too much.
        alone: it reads with one thread, as several took more memory than it may have.
    """

    def __init__(self, given: ReceiverInputs, receiver: Receiver, bad_rows: BadRows) -> None:
        self._given, self._receiver, self._bad_rows = given, receiver, bad_rows
        self._plan, self._source = given.plan, given.load.session.source
        options = given.load.session.options
        self._longest = units.parse_size(options.max_record)
        self._patience = units.parse_duration(options.patience)
        self.schema: Schema = given.plan.schema
        self.decodes, self.alone = True, False
        self._declined = 0
        self._declined_at: dict[str, DecoderFailure] = {}  # by the ids of splits

    def of(self, work: Work, error: RowfallError) -> Remedy:
        """Return what is to be done about a failed attempt.

        Raises:
            RowfallError: ``error``, where nothing of this helps.
        """
        if isinstance(error, LockLostError):
            raise error  # nothing of this process may become visible any more
        if isinstance(error, SourceGoneError):
            raise error  # each of the files left would be looked for by itself
        if self._receiver.unstaged:
            return _without(work, [(s, _half_visible(s, error)) for s in work.splits])
        if not self._source.replayable:
            # What was read of stdin is gone: another try would load the rest as if it were all.
            if error.code == MEMORY_LIMIT:
                memory = self._given.writer.engine.facts.memory
                error = long_records.too_large_stream(work.splits[0].name, memory)
            if error.code in DATA_CODES and not isinstance(error, DataError):
                error = data_errors.explain_engine_error(
                    error.code, error.message, work.splits[0].name
                )
            return _without(work, [(s, error) for s in work.splits])
        if isinstance(error, RefusedRowError):
            if again := self._around_refused(work):
                return Remedy([again])
            return self._halves(work, self._bad_rows.locate(work.splits, error))
        if isinstance(error, DeclinedError):
            if error.said is not None and error.said.no_memory and not work.failed.alone:
                # Each thread may hold a dictionary of its own: 218 MB for 1 M strings of 200 bytes.
                self.alone = True
                self._given.notes.add("info", f"{first_line(error)}; it reads with one thread")
                return Remedy([replace(work, failed=replace(work.failed, alone=True))])
            return self._read_by_engine(work, error)
        if not is_installed() and (told := self._declined_row(work, error)):
            return _without(work, [told])
        if isinstance(error, MemoryOverrunError) and not error.own:
            return Remedy([work])  # whose statement it was fails, or is cut in two
        if error.code == MEMORY_LIMIT and not work.failed.lowered:
            if broken := self._too_large_blocks(work):
                return _without(work, broken)
            encoding = self._plan.encoding
            error = long_records.find(self._source, work.splits, encoding, self._longest) or error
        if isinstance(error, RecordTooLongError):
            return self._halves(work, error)
        if isinstance(error, UnclosedQuoteError):
            schema = work.schema or self.schema
            skips = self._bad_rows.may_be_left_out and not work.skips_bad_rows
            if skips and strict_reading.refuses_line_breaks(schema):
                # The reader of bad rows counts the lines that the quote swallows.
                return Remedy([replace(work, skips_bad_rows=True, engine_reads=True)])
            # The engine would take all that follows the quote for one value.
            one = [s for s in work.splits if s.id == error.split_id]
            return _without(work, [(one[0], error)]) if one else self._halves(work, error)
        if isinstance(error, NullListsError):
            return _without(work, [(s, self._null_lists(s, n)) for s, n in error.changed])
        if isinstance(error, OtherColumnsError):
            return _without(work, [(s, _differs(s, what)) for s, what in error.changed])
        if isinstance(error, ChangedError):
            return _without(work, [(s, _changed(s, what)) for s, what in error.changed])
        if isinstance(error, ObjectChangedError) and work.failed.tries >= retry.MOST_TRANSIENT:
            return self._halves(work, error)  # it says which object only to people
        if error.code == MEMORY_LIMIT and work.failed.lowered < retry.MOST_LOWERED:
            self._given.notes.add(
                "warning",
                "out of memory: blocks are made smaller, and the files are tried once more",
            )
            settings = lower(work.failed.settings or self._given.settings)
            return Remedy([replace(work, failed=work.failed.lower(settings))])
        if isinstance(error, MemoryOverrunError) or (self._typed and is_one_value(error)):
            return self._halves(work, error)
        if error.code != MEMORY_LIMIT:
            if work.pieces and error.code in DATA_CODES:
                # Their rows have been read; the format cannot hold them.
                return _without(work, [(s, error) for s in work.splits])
            if error.code in DATA_CODES and self._is_read_by_schema_file():
                return self._refused_by_server(work, error)
            if self._is_sent_as_it_is(work, error):
                self._given.notes.add(
                    "info", f"{first_line(error)}; the engine here reads it instead"
                )
                return Remedy([replace(work, engine_reads=True)])
            if error.code in DATA_CODES or isinstance(error, DataError):
                return self._bad_data(work, error)
            if error.code == LIBRARY_ERROR and self._typed:
                return self._halves(work, error)
            if error.transient and self._may_try(work, error):
                self._given.notes.add("warning", f"{first_line(error)}; trying again")
                time.sleep(max(retry.pause(work.failed.tries + 1), error.ask_after or 0.0))
                return Remedy(
                    [replace(work, failed=replace(work.failed, tries=work.failed.tries + 1))]
                )
            if self._broke_off(error):
                return self._halves(work, error)
            if isinstance(error, SourceError) and not error.transient:
                return self._halves(work, error)
            if isinstance(error, SourceError):
                # One that breaks off again and again takes no other with it.
                about = [s for s in work.splits if s.uri == error.object] or work.splits
                return _without(work, [(s, error) for s in about])
        raise error

    def _may_try(self, work: Work, error: RowfallError) -> bool:
        """Tell whether another try is due: a few, or until patience ends where a server is busy."""
        tries = work.failed.tries
        if error.code == SOCKET_TIMEOUT and self._broke_off(error):
            return (tries + 1) * retry.HUNG_SECONDS < self._patience
        waits = error.ask_after is not None and retry.waited(tries + 1) <= self._patience
        return waits or tries < retry.MOST_TRANSIENT

    def _broke_off(self, error: RowfallError) -> bool:
        """Tell whether the engine here could not read an object far away to its end."""
        far = isinstance(self._source, ObjectSource) and self._source.remote
        return far and error.code in BROKEN_OFF and self._plan.to.placement == "embedded"

    @property
    def _typed(self) -> bool:
        encoding = self._plan.encoding
        return encoding is not None and encoding.kind is Kind.TYPED

    def _is_read_by_schema_file(self) -> bool:
        encoding = self._plan.encoding
        return encoding is not None and engine_formats.has_schema_file(encoding.format)

    def _refused_by_server(self, work: Work, error: RowfallError) -> Remedy:
        """Return what is left where nobody here can look for the row, without the schema file."""
        if len(work.splits) > 1:
            return self._halves(work, error)
        (split,) = work.splits
        found = data_errors.explain_engine_error(error.code, error.message, split.name)
        found.hint = data_errors.CORRECT
        return _without(work, [(split, found)])

    def _is_sent_as_it_is(self, work: Work, error: RowfallError) -> bool:
        """Tell whether a file with types has failed that an older server was to read by itself.

        The reader here knows newer ones (halves of floats, BYTE_STREAM_SPLIT), and names a value.
        """
        if work.engine_reads or work.skips_bad_rows or not self._typed:
            return False
        pushed = self._plan.transport.delivery.value == PUSH
        return pushed and (error.code == LIBRARY_ERROR or error.code in DATA_CODES)

    def _too_large_blocks(self, work: Work) -> list[tuple[Split, RowfallError]]:
        """Return the errors about Avro files of which a block takes more memory than there is."""
        encoding, source = self._plan.encoding, self._source
        if encoding is None or encoding.format != "Avro" or not isinstance(source, ObjectSource):
            return []
        memory = self._given.load.session.reader.memory
        # The block, a value of it, and the column that holds this.
        return avro_blocks.too_large(source, work.splits, memory, memory // 4)

    def _null_lists(self, split: Split, names: str) -> DataError:
        """Return the error about lists or maps that are NULL in some columns of a file."""
        empty = self._bad_rows.takes_empty_lists(split)
        return DataError(
            f"{split.name} was refused: a list or a map in {names} is NULL, and the table has no "
            "NULL for it",
            uri=split.uri,
            hint=data_errors.EMPTY_LISTS if empty else data_errors.CORRECT,
        )

    def _too_large(self, split: Split) -> SourceError:
        """Return the error about an object of which one value takes more memory than there is."""
        most = units.memory(self._given.writer.engine.facts.memory)
        return SourceError(
            f"{split.name}: one value, block or page of it takes more memory than --memory allows "
            f"({most})",
            hint="Give more with --memory, or write the file with smaller ones.",
            code=MEMORY_LIMIT,
        )

    def _around_refused(self, work: Work) -> Work | None:
        """Return the attempt again, leaving out rows that the database refuses; None if it may not.

        Only an attempt of one file, read in order: the database counts the rows.
        """
        alone = len(work.splits) == 1 and work.most_refused is None
        if not alone or not self._bad_rows.may_be_left_out or self._plan.encoding is None:
            return None
        if not self._receiver.skips_refused_rows:
            return None
        settings = {s.name: s for s in work.failed.settings or self._given.settings}
        for name, value in IN_ORDER.items():
            settings[name] = Setting(name, value, "rows that are refused are counted", routine=True)
        return replace(
            work, most_refused=self._bad_rows.most_left, engine_reads=True,
            failed=replace(work.failed, settings=tuple(settings.values())),
        )  # fmt: skip

    def _read_by_engine(self, work: Work, error: DeclinedError) -> Remedy:
        """Let the engine, which has the last word, read what the decoder declined."""
        split, alone = error.split, not is_installed()
        if alone and split is not None and error.said is not None:
            if self._given.writer.engine.kind == "embedded":
                return _without(work, [(split, declined_row(self._source, split, error.said))])
            self._declined_at[split.id] = error.said
        self._declined += 1
        self._given.notes.add("info", f"{first_line(error)}; the engine reads it instead")
        rest = [s for s in work.splits if s != split]
        # Without an engine here only what rowfall-decode has said about a file names its bad row.
        most = self._declined > retry.MOST_DECLINED and not alone
        if most or split is None or not rest:
            # The next ones would be declined, too.
            self.decodes = self.decodes and not most
            return Remedy([replace(work, engine_reads=True)])
        own = replace(work, splits=[split], engine_reads=True)
        return Remedy([replace(work, splits=rest), own])

    def _declined_row(self, work: Work, error: RowfallError) -> tuple[Split, DataError] | None:
        """Return the file of an attempt that a server refused, and the value that was declined.

        None where ``error`` is about something else.
        """
        found = [s for s in work.splits if s.id in self._declined_at]
        if len(found) != 1 or error.code not in DATA_CODES:
            return None
        split = found[0]
        return split, declined_row(self._source, split, self._declined_at[split.id], error)

    def _bad_data(self, work: Work, error: RowfallError) -> Remedy:
        """Return the next attempts after bad data: by another reader, or without rows or files."""
        if changed := self._source.changed(work.splits):
            # A cut or overwritten object explains any complaint about its last row.
            return _without(work, [(s, _changed(s, what)) for s, what in changed])
        opened = self._bad_rows.open_ended(work.splits)
        if 0 < len(opened) < len(work.splits):
            # Their last fields are read in another way than those of the others.
            rest = [split for split in work.splits if split not in opened]
            return Remedy([replace(work, splits=rest), replace(work, splits=opened)])
        schema = work.schema or self.schema
        other = (
            None
            if work.skips_bad_rows
            else self._bad_rows.other_reading(work.splits, schema, error)
        )
        if other is not None:
            if strict_reading.reads_numbers(schema):
                # A zero in one object: the others will hold some, too. Line breaks are different:
                # whether all quotes are closed is asked for each group.
                self.schema = other
            return Remedy([replace(work, schema=other)])
        if self._bad_rows.may_be_left_out and not work.skips_bad_rows:
            return Remedy([replace(work, skips_bad_rows=True)])
        found: Sequence[tuple[Split, RowfallError]] = self._bad_rows.explain(work.splits, error)
        if isinstance(error, TooManyBadRowsError):
            # The count is the news; where the first one is stands in it, too.
            found = [(split, error) for split, _ in found]
        elif (
            self._typed
            and is_read_by_server(self._plan)
            and (work.skips_bad_rows or not _names_row(found))
        ):
            # The reader of another release raises at a value before any check can leave it out.
            for _, one in found:
                # Others help there, too.
                if one.hint in (None, data_errors.CORRECT) or "--max-errors" in one.hint:
                    one.hint = data_errors.READ_HERE
        return _without(work, found) if found else self._halves(work, error)

    def _halves(self, work: Work, error: RowfallError) -> Remedy:
        """Return the halves of a group with a bad object that no error names; one alone fails."""
        if len(work.splits) == 1:
            split = work.splits[0]
            if error.code == LIBRARY_ERROR:
                error = data_errors.unreadable(split.name, error)
            elif error.code == MEMORY_LIMIT:
                error = self._too_large(split)
            elif self._broke_off(error):
                error = broken_off(split.name, error)
            return _without(work, [(split, error)])
        half = len(work.splits) // 2
        return Remedy(
            [replace(work, splits=part) for part in (work.splits[:half], work.splits[half:])]
        )


def is_read_by_server(plan: Plan) -> bool:
    """Tell whether a server fetches and reads files by itself."""
    return plan.transport.delivery.value == PULL and plan.to.placement != "embedded"


def _without(work: Work, errors: Sequence[tuple[Split, RowfallError]]) -> Remedy:
    """Give up some splits, and load the others of the group."""
    bad = {split.id for split, _ in errors}
    rest = [s for s in work.splits if s.id not in bad]
    return Remedy([replace(work, splits=rest)] if rest else [], errors)


def _names_row(found: Sequence[tuple[Split, RowfallError]]) -> bool:
    return all(re.search(r" row \d+ ", error.message) for _, error in found)


def _half_visible(split: Split, error: RowfallError) -> RowfallError:
    return TargetError(
        f"{split.name}: {first_line(error)}; some of its rows may be in the table",
        hint="A table without parts cannot take half a load back: truncate it and load again.",
    )


def _changed(split: Split, what: str) -> SourceError:
    other = what.startswith(("changed from", "somebody writes"))
    made = ObjectChangedError if other else SourceError
    if isinstance(what, Unreadable):
        return SourceError(f"{split.name}: {what}", hint=what.hint)
    return made(
        f"{split.name}: {what}",
        hint=rewriting.hint(what)
        or "Nothing of it is visible. Run the same command again when nobody writes it any more.",
    )


def _differs(split: Split, what: str) -> SourceError:
    what, _, own = what.partition("\n")
    if own:
        return SourceError(f"{split.name}: {what}", hint=own)
    hint = "Nothing of it is visible. Load it into a table of its own with --table"
    if "missing" in what:
        hint += ", or all files into a new one with --union-by-name"
    return SourceError(f"{split.name}: {what}", hint=f"{hint}.")
