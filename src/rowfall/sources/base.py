"""What every source can say; sources list and describe, they never run a statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Schema
from rowfall.core.sqltext import SqlText


@dataclass(frozen=True, slots=True)
class Reader:
    """What the engine that reads a relation can do; the defaults are the embedded engine's.

    Attributes:
        bz2: it unpacks bz2 itself.
        exact: ``s3('{a,b}')`` asks for each key, so a missing one is an error (ClickHouse 25.1).
            Before, the bucket was listed, and what was not there was left out without a word.
        arrays: ``file(['a', 'b'])`` is possible.
    """

    bz2: bool = False
    exact: bool = True
    arrays: bool = True


EMBEDDED = Reader()


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
    """A source that a server may be able to read itself; a copy with another ``reader`` is it."""

    reader: Reader

    def probe(self, split: Split) -> Probe:
        """What the server has to find in this place.

        Raises:
            SourceError: the object cannot be read from here.
        """


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Where plain HTTP gets an object: all that a program needs that knows nothing of stores.

    Attributes:
        url: signed where the store wants that; good for a day, of this object, for reading.
        headers: of each request; never sent to another host than the URL's.
    """

    url: Secret
    headers: Mapping[str, Secret] = field(default_factory=dict)


@runtime_checkable
class Addressed(Protocol):
    """A source whose objects can be read by plain HTTP."""

    def addresses(self, splits: Sequence[Split]) -> list[HttpAddress]:
        """One for each.

        Raises:
            SourceError: the credentials cannot be renewed.
        """


@runtime_checkable
class Ranged(Protocol):
    """A source whose objects can be read in parts."""

    def part(self, split: Split, start: int, length: int) -> bytes:
        """Bytes of an object from ``start`` on, fewer where it ends.

        None at all where only all of it can be had: of a server without ranges.

        Raises:
            SourceError: it cannot be read.
        """


class Source(Protocol):
    """One place to read rows from. At most five methods; differences are data.

    Attributes:
        text: what the user typed, without secrets.
        remote: objects are read over the network, so that many requests are sent at once.
        replayable: False for stdin: it can be read once, so no attempt can be repeated.
        secrets: values that must be masked in foreign text (engine errors).
        fds: open file descriptors that the engine's process must inherit (stdin).
        made: columns and layout of a generator; None where they are read from the data.
    """

    text: str
    remote: bool
    replayable: bool
    secrets: tuple[Secret, ...]
    fds: tuple[int, ...]
    made: Schema | None

    def listing(self) -> Listing:
        """All splits, largest first is not required.

        Raises:
            SourceError: nothing matches, no such bucket, access denied, endpoint unreachable;
                each with a hint.
        """

    def encoding(self, listing: Listing) -> Encoding | None:
        """Format and compression by extension or override; None for generators.

        Raises:
            UsageError: formats are mixed (lists the odd ones) or cannot be told.
        """

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        """At most ``most`` splits to infer the schema from: spread over the listing, none empty.

        stdin answers with a split that reads a copy of its first bytes, so nothing is consumed.
        """

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        """The FROM part that reads exactly these splits as ``structure`` (see sql.structure).

        An empty structure lets the engine tell (``DESCRIBE``).
        """

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        """Splits whose object is not what was listed, or was not read to its end.

        Each comes with a predicate that can follow ``<uri>: `` (``the object is gone``, ``its lz4
        stream ends in the middle``). Asked after the rows are staged and before they are published.
        Concurrent where objects are remote: one request an object, two more for lz4, and one a
        MiB for zstd up to 64 MiB.

        Raises:
            SourceError: transient; all may be tried again.
        """
