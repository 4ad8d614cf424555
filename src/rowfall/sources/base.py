"""The protocols of sources: they list what can be read and write FROM clauses, and run nothing.

Every source is a :class:`Source`. What only some can do are protocols of their own, and callers ask
with ``isinstance``:

* :class:`Pullable`: a server may be able to read it, too; without it rows are read here;
* :class:`Addressed`: plain HTTP reads its objects, so rowfall-decode can fetch them;
* :class:`Ranged`: parts of its objects can be read, so large ones are loaded in ranges;
* :class:`Continued`: its splits are ranges of numbers, and a later load goes on behind them;
* :class:`ListedSource`: objects come and change while it is followed, and listing finds them;
* :class:`ByCursor`: the ranges may be of a column that the user names, whose values grow;
* :class:`Streamed`: only this process can read it (a database, a queue), and does so as bytes;
* :class:`Stored`: rowfall-decode gets its rows in another encoding than an engine (a lake table);
* :class:`Queried`: it takes a query in place of a table;
* :class:`ClearsFiles`: its files can be moved, tagged or deleted once they are loaded.

A source that is read once says ``replayable = False``; a queue makes its splits of offsets, which
can be read again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

from rowfall.core.after import After
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError
from rowfall.core.events import Listener
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Schema
from rowfall.core.native import NativeTable
from rowfall.core.sqltext import SqlText
from rowfall.decoder.documents import BlockInput

# Loads that follow no column save the import.
if TYPE_CHECKING:
    from rowfall.sources.cursor import Cursor, Overlap, Row

_Source = TypeVar("_Source")


@dataclass(frozen=True, slots=True)
class ReaderFeatures:
    """Abilities of the engine that reads a relation; the defaults are the embedded engine's.

    Attributes:
        bz2: it unpacks bz2 itself.
        exact: ``s3('{a,b}')`` asks for each key, so a missing one is an error (ClickHouse 25.1).
            Before, the bucket was listed, and what was not there was left out without a word.
        arrays: ``file(['a', 'b'])`` is possible.
        etags: s3() compares the ETag of each answer with the one it has read of the object first
            (ClickHouse 26.7).
    """

    bz2: bool = False
    exact: bool = True
    arrays: bool = True
    etags: bool = True


EMBEDDED = ReaderFeatures()


@dataclass(frozen=True, slots=True)
class Probe:
    """A question about one object, for an engine that may see another one by that name.

    Attributes:
        query: gives one row of text; NULL where the engine does not know.
        wanted: (what it is, what the text has to be) for each of its columns.
    """

    query: SqlText
    wanted: tuple[tuple[str, str], ...]


@runtime_checkable
class Pullable(Protocol):
    """A source that a server may be able to read itself.

    A copy of the source with another ``reader`` writes FROM clauses for that server.
    """

    reader: ReaderFeatures

    def probe(self, split: Split) -> Probe:
        """Return a query, with its expected answer, that shows whether a server sees this object.

        Raises:
            SourceError: the object cannot be read from here.
        """


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Address of an object over plain HTTP: all that a program needs that knows nothing of stores.

    Attributes:
        url: signed where the store wants that; good for a day, of this object, for reading.
        headers: of each request; never sent to another host than the URL's.
        by_query: ranges are asked for with ``offset`` and ``length`` in the query (WebHDFS).
        any_version: the version of the split is nothing that the store knows; its size is.
        blocks: of a file in HDFS, where they can be read without WebHDFS, which has the rest.
    """

    url: Secret
    headers: Mapping[str, Secret] = field(default_factory=dict)
    by_query: bool = False
    any_version: bool = False
    blocks: Sequence[BlockInput] = ()


@runtime_checkable
class Addressed(Protocol):
    """A source whose objects can be read by plain HTTP."""

    def addresses(self, splits: Sequence[Split]) -> list[HttpAddress]:
        """Return an address for each split.

        Raises:
            SourceError: the credentials cannot be renewed.
        """


@runtime_checkable
class Renamed(Protocol):
    """A source whose objects had other names in older ledgers."""

    def former_name(self, name: str) -> str:
        """Return the former name of an object of the listing; its name where that is the same."""


@runtime_checkable
class Ranged(Protocol):
    """A source whose objects can be read in parts."""

    def part(self, split: Split, start: int, length: int) -> bytes:
        """Return ``length`` bytes of an object from ``start`` on, fewer where it ends.

        Returns b"" where only the whole object can be had: from a server without ranges.

        Raises:
            SourceError: it cannot be read.
        """


@runtime_checkable
class Streamed(Protocol):
    """A source whose splits this process reads: bytes of a format, as ``encoding`` says.

    Whoever parses them, an engine or rowfall-decode, reads them from named pipes. What goes wrong
    is remembered before a pipe ends, and ``changed`` raises it before anything becomes visible. A
    source derives from :class:`rowfall.sources.pipes.Streams`, which has all but ``stream``.
    """

    def stream(self, split: Split) -> Iterator[bytes]:
        """Give the bytes of a split in pieces of any size; 64 KiB and more cost least.

        An empty piece asks whether they are read any more; if not, the stream is left.

        Runs in a thread of its own, and may be left before its end.

        Raises:
            SourceError: it cannot be read; transient where another try may help.
        """

    def pipes(self, splits: Sequence[Split]) -> list[str]:
        """Return the path of a fresh named pipe for each split, to be opened once."""

    def close(self) -> None:
        """Let go of pipes and connections, at the end of a session."""


@runtime_checkable
class HasDataFiles(Protocol):
    """A source whose splits are files of a store: the data files of a lake table."""

    def in_file(self, split: Split) -> tuple[Ranged, Split, Mapping[str, str]]:
        """Return the store, the file there, and the names there of the columns that it has."""


@runtime_checkable
class Stored(Protocol):
    """A source whose rows rowfall-decode reads in another encoding than an engine does.

    Tables whose rows lie in files, databases with a binary protocol, and rows that are made.
    """

    def stored(self) -> Encoding | None:
        """Return that encoding; None where it is the same, or does not give the rows by itself."""


@runtime_checkable
class Queried(Protocol):
    """A source that runs SQL: ``--query`` says what is loaded; "" where it is a table."""

    query: str


class TableReader(Protocol):
    """Runs queries over the tables of a data folder for a source, which runs none itself."""

    def ask(self, text: str) -> list[list[Any]]:
        """Return the rows of a query."""

    def blocks(self, text: str) -> Iterator[bytes]:
        """Give the rows of a query in Native format; an empty piece asks whether to go on."""

    def numbering(self, uuid: str) -> Mapping[str, str]:
        """Return a word for each partition of a table whose block numbers began anew."""


@runtime_checkable
class HasFolderTables(Protocol):
    """A source whose rows are in the tables of a data folder: ``--table`` names the one to read.

    Attributes:
        folder: the data folder, absolute.
    """

    folder: Path

    @property
    def address(self) -> str:
        """Return the SOURCE argument that names the chosen table as well."""

    def choose(self, table: str | None) -> str:
        """Take the table to read, and return its name; "" for a query or where the address has it.

        Raises:
            UsageError: it has to be named. SourceError: there is none of that name.
        """

    def read_with(self, reader: TableReader) -> None:
        """Take the engine that reads the folder, before anything is listed."""


@runtime_checkable
class RewritesToCsv(Protocol):
    """A source whose text may be rewritten to plain CSV on its way to the reader."""

    def lines_in(self, split: Split, encoding: Encoding, lines: Sequence[int]) -> list[int]:
        """Return the lines of an object in which lines of the rewritten text stand.

        ``lines`` are in ascending order, counted from 1.

        Raises:
            SourceError: it cannot be read.
        """


@runtime_checkable
class HasModificationTimes(Protocol):
    """A source whose objects have times of their last change."""

    def modified(self, split: Split) -> float | None:
        """Return when an object was changed last, in seconds since 1970; None if nobody says so.

        Raises:
            SourceError: it cannot be asked.
        """


class Unreadable(str):
    """The reason that a split cannot be read, with the hint of whoever has read it.

    Other reasons of :meth:`Source.changed` are about objects that have changed meanwhile.
    """

    hint: str | None

    @classmethod
    def of(cls, error: RowfallError) -> Unreadable:
        """Return the reason that an error tells."""
        made = cls(error.message)
        made.hint = error.hint
        return made


@runtime_checkable
class ClearsFiles(Protocol):
    """A source whose files can be moved, tagged or deleted once they are loaded: ``--after``."""

    def check_after(self, action: After) -> None:
        """Check that its files can get this.

        Raises:
            UsageError: they cannot, or what is moved would be listed, and loaded, again.
        """

    def moved_name(self, name: str, action: After) -> str:
        """Return the name that a file gets by a move."""

    def would_list(self, name: str) -> bool:
        """Tell whether a listing would find a file of this name."""

    def clear(self, split: Split, action: After) -> bool:
        """Move, tag or delete the version of a file that was loaded.

        A move or delete that a crash has left half done is finished.

        Returns:
            False where there is no such file any more.

        Raises:
            ObjectChangedError: the file is another version now; it was not touched.
            SourceError: the store refuses.
        """


@runtime_checkable
class Continued(Protocol):
    """A source of streams that grow: a split is a range of numbers (offsets, values of a key).

    Its listings are ``Listing(continued=True)``. Ids of such splits tell their ranges, so what is
    loaded is known whichever way a later run cuts the rest.
    """

    def listing_after(self, loaded: Mapping[str, Sequence[tuple[int, int]]]) -> Listing:
        """Return splits of what is not loaded; none of them may overlap what has.

        Args:
            loaded: by URI of :meth:`Source.listing`, half-open ranges that are in the target: in
                ascending order, without gaps between neighbours that touch. Only of streams of the
                version that was listed.

        Raises:
            SourceError: some of the numbers that follow are gone.
        """


class ListedObject(NamedTuple):
    """One object as a listing shows it; name and version are those of its split.

    Attributes:
        size: bytes as stored. ``modified``: seconds since 1970; None where nobody says so.
    """

    name: str
    version: str
    size: int
    modified: float | None = None


@dataclass(frozen=True, slots=True)
class ListedPage:
    """One answer of a listing.

    Attributes:
        objects: those that belong to the source, in the order of their names.
        last: the last name of the answer, whether it belongs or not; "" of an empty answer.
    """

    objects: Sequence[ListedObject]
    last: str


class ObjectWalk(Protocol):
    """The objects that one name of a source stands for (a folder, a glob, a prefix).

    Attributes:
        text: for people, without secrets.
        resumes: a listing may begin behind any name without those before it being listed.
    """

    text: str
    resumes: bool

    def pages(self, after: str = "") -> Iterator[ListedPage]:
        """Give the objects behind a name, in the order of their names; a page is one request.

        Nothing is given where there is nothing.

        Raises:
            SourceError: it cannot be listed.
        """

    def look(self, name: str) -> ListedObject | None:
        """Return an object as it is now; None where it is gone, or does not belong.

        Raises:
            SourceError: it cannot be asked for.
        """


class NotifiedObjects(NamedTuple):
    """Result of :meth:`ObjectNotices.read`.

    Attributes:
        complete: objects that nobody writes any more. ``young``: those that somebody may write.
        missed: there may be others, so that all has to be listed.
    """

    complete: Sequence[ListedObject]
    young: Sequence[ListedObject]
    missed: bool


class ObjectNotices(Protocol):
    """Tells of objects when they are complete, so that nobody has to list for them."""

    def read(self, seconds: float) -> NotifiedObjects:
        """Return what has come within so many seconds, as soon as there is something.

        Raises:
            OSError: nothing more can be heard.
        """

    def is_closed(self, name: str) -> bool:
        """Tell whether an object is certainly complete, as nobody has it open to write."""

    def close(self) -> None:
        """Tell of nothing more."""


@runtime_checkable
class ListedSource(Protocol):
    """A source whose objects come and change while it is followed, and are found by listing.

    Attributes:
        rest_seconds: an object whose size and time have not changed for so long is complete; 0
            where objects appear as a whole.
    """

    rest_seconds: float

    def walks(self) -> Sequence[ObjectWalk]:
        """Return one walk for each name of the source.

        Raises:
            SourceError: it is not there, or may not be listed.
        """

    def notices(self, emit: Listener) -> ObjectNotices | None:
        """Return what tells of new objects; None where only a listing does."""

    def renew(self) -> None:
        """Take credentials anew, as who refuses them may take those of now."""


@runtime_checkable
class HearsQueue(Protocol):
    """A source of which a queue of messages may tell what is new (``--queue``).

    Attributes:
        hears_queue: False where none does after all.
    """

    hears_queue: ClassVar[bool]


@runtime_checkable
class IdentifiedStream(Protocol):
    """A continued source whose stream may be another one by the same name and version."""

    def identity(self) -> str:
        """Return text by which the stream is known again; "" where nothing tells it from others."""

    def check_identity(self, known: str, loaded: Sequence[tuple[int, int]]) -> None:
        """Check that the stream is the one of which ranges are loaded.

        Args:
            known: :meth:`identity` of then.

        Raises:
            SourceError: it is another one.
        """


@runtime_checkable
class ByCursor(Protocol):
    """A source of streams that ``--cursor`` may follow: see :mod:`rowfall.sources.cursor`.

    Attributes:
        cursor: the column; None without the option.
    """

    cursor: Cursor | None

    def other_streams(self) -> Mapping[str, tuple[str, str]]:
        """Return how else the same rows may have been loaded: words for people -> URI, version."""

    def tell(self, text: str) -> None:
        """Take a line for the plan: the value behind which rows are read."""

    def overlap_rows(self, overlap: Overlap) -> Iterator[Row]:
        """Give key and value of the rows that an overlap has now.

        Raises:
            SourceError: they cannot be read. UsageError: there are too many.
        """


@runtime_checkable
class Snapshotted(Protocol):
    """A source that lists one snapshot of a table; opened anew it lists the newest.

    Attributes:
        snapshot: its name.
    """

    snapshot: str


@runtime_checkable
class Annotated(Protocol):
    """A source that writes more columns behind those of its rows: what ``--add-column`` asks for.

    Attributes:
        annotations: their names, in order; in text without names they are the last fields.
    """

    annotations: tuple[str, ...]


@runtime_checkable
class KnowsNullLists(Protocol):
    """A source that tells a NULL list from an empty one, and refuses it unless it is asked not to.

    Attributes:
        tells_null_lists: True.
    """

    tells_null_lists: bool


@runtime_checkable
class SampledInFile(Protocol):
    """A source of rows that are no files, whose sample is written into one on this machine."""

    def sample_file(self, split: Split, encoding: Encoding) -> tuple[str, Encoding]:
        """Return the path of a split of the sample, and how that file is written.

        Args:
            encoding: of the source.

        Raises:
            SourceError: the rows cannot be read.
        """


@runtime_checkable
class KnowsBinaryColumns(Protocol):
    """A source that knows which of its strings are bytes: ClickHouse has one type for both."""

    def bytes_columns(self) -> frozenset[str]:
        """Return the names of columns whose strings are bytes, and no text."""


@runtime_checkable
class KnowsNativeTypes(Protocol):
    """A source that knows what a table is in its own database."""

    def native(self) -> NativeTable:
        """Return types and key as the database has them."""


@runtime_checkable
class Numbered(Protocol):
    """A source whose rows people know by numbers of its own, not by lines: offsets of messages.

    Attributes:
        number: what such a number is called.
    """

    number: str

    def numbers(self, split: Split, lines: Sequence[int]) -> list[int]:
        """Return the number of what each line of a split's text is from.

        ``lines`` are in ascending order, counted from 1.

        Raises:
            SourceError: it cannot be read.
        """


@runtime_checkable
class Pinned(Protocol):
    """A source that reads the versions of its objects that were listed, and no others.

    Where an object is another one when it is read, reading it fails. :func:`any_version` gives a
    copy that takes any.
    """

    pinned: bool

    def unpinned(self, listing: Listing, encoding: Encoding | None) -> str | None:
        """Return the reason why an engine may read another version unseen; None: it cannot."""


@runtime_checkable
class LacksLengths(Protocol):
    """A source whose objects may come without their length: one that is cut looks whole.

    What is read here is compared with the listing, and a server that reads it cannot.
    """

    def without_length(self, encoding: Encoding | None) -> list[str]:
        """Return the names of such objects, sorted; none whose format has an end of its own."""


def any_version(source: _Source) -> _Source:
    """Return a source that reads objects as they are now: for samples and questions."""
    if not isinstance(source, Pinned):
        return source
    found = copy.copy(source)
    found.pinned = False
    return found


@runtime_checkable
class Folders(Protocol):
    """A source that names whole folders to the embedded engine, which reads what is in them.

    Attributes:
        work: the folder that they lie below; "" where none is named.
    """

    work: str


File = tuple[str, str]
"""URI and version of an object."""


@dataclass(frozen=True, slots=True)
class TableRewrite:
    """One change of a table that took files away, or rows out of them.

    Attributes:
        name: of the change, for people; ``before``: of the state that it changed.
        removed, added: files.
        same_rows: the rows of all added files are those of all removed ones (a compaction).
    """

    name: str
    before: str
    removed: tuple[File, ...]
    added: tuple[File, ...]
    same_rows: bool


@runtime_checkable
class RewritesFiles(Protocol):
    """A source that knows which of its files hold rows of files that were there before."""

    def rewrites(self) -> Sequence[TableRewrite]:
        """Return the files that were replaced or rewritten, the oldest change first.

        Raises:
            SourceError: the history cannot be read.
        """

    def of_unknown_origin(self) -> frozenset[str]:
        """Return the URIs of files that were added before the history begins."""


@runtime_checkable
class ReadOnce(Protocol):
    """A source that is read once; the same run can read a copy again, and no other run can.

    Attributes:
        notes: see :class:`Source`; the last one says that there is a copy.
    """

    notes: tuple[str, ...]

    def spool(self) -> None:
        """Copy all of it, where that has not been done.

        Raises:
            SourceError: there is no room, or reading it breaks off.
        """


class Source(Protocol):
    """Origin of rows: five methods; differences between sources are data.

    Attributes:
        text: what the user typed, without secrets.
        remote: objects are read over the network, so that many requests are sent at once.
        replayable: False for stdin: it can be read once, so no attempt can be repeated.
        secrets: values that must be masked in foreign text (engine errors).
        fds: open file descriptors that the engine's process must inherit (stdin).
        made: columns and layout of a generator; None where they are read from the data.
        notes: sentences for the user about what was found out with the encoding.
    """

    text: str
    remote: bool
    replayable: bool
    secrets: tuple[Secret, ...]
    fds: tuple[int, ...]
    made: Schema | None
    notes: tuple[str, ...]

    def listing(self) -> Listing:
        """Return all splits, in any order.

        Raises:
            SourceError: nothing matches, no such bucket, access denied, endpoint unreachable;
                each with a hint.
        """

    def encoding(self, listing: Listing) -> Encoding | None:
        """Return format and compression by extension or option; None for generators.

        Raises:
            UsageError: formats are mixed (it lists the odd ones) or unknown.
        """

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        """Return at most ``most`` splits for the schema: from all over the listing, none empty.

        stdin answers with a split that reads a copy of its first bytes, so nothing is consumed.
        """

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        """Return the FROM part that reads exactly these splits as ``structure``.

        See :func:`rowfall.core.sql.structure`. With an empty structure the engine finds the
        columns itself (``DESCRIBE``).
        """

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        """Return splits whose object is not what was listed, or was not read to its end.

        Each comes with a predicate that can follow ``<uri>: `` (``the object is gone``, ``its lz4
        stream ends in the middle``). Asked after the rows are staged and before they are published.
        Concurrent where objects are remote: one request an object, two more for lz4, and one a
        MiB for zstd up to 64 MiB.

        Raises:
            SourceError: transient; all may be tried again.
        """
