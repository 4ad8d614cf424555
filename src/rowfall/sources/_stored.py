"""What files, web servers and object stores have in common: named things that can be read again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar, TypeVar

from rowfall.core import formats
from rowfall.core.errors import SourceError
from rowfall.core.listing import Listing, Split
from rowfall.core.model import Encoding, Schema
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.sources import _feed, _relation
from rowfall.sources.base import EMBEDDED, Reader

REQUESTS = 32  # at a time, each of one object
_Found = TypeVar("_Found")


class Stored(ABC):
    """A source of files or objects, read whole or in ranges; a subclass says how each is reached.

    Ranges of text, and bz2 for an engine without it, are fed through pipes. All else is read by the
    engine itself. Empty objects are left out: they hold no rows, and typed formats cannot read
    them.

    Attributes:
        kind: what its objects are called.
    """

    kind: ClassVar[str] = "files"
    replayable = True
    fds: tuple[int, ...] = ()
    made: Schema | None = None
    reader: Reader = EMBEDDED

    def __init__(self, text: str, options: Options) -> None:
        self.text = text
        self._options = options
        self._feeder = _feed.Feeder(self)

    @abstractmethod
    def _found(self) -> Iterable[tuple[str, str, int | None]]:
        """Name, version and size of each object, sorted by name; one may come more than once.

        Raises:
            SourceError: as :meth:`rowfall.sources.base.Source.listing`.
        """

    @abstractmethod
    def part(self, split: Split, start: int, length: int) -> bytes:
        """See :class:`rowfall.sources.base.Ranged`."""

    @abstractmethod
    def _calls(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> list[_relation.Call]:
        """Table functions that read these whole objects, one for a single object; a missing one
        makes the engine raise."""

    @abstractmethod
    def _opener(self, split: Split) -> _feed.Opener:
        """The stored bytes of a whole object."""

    @abstractmethod
    def _wrong(self, split: Split) -> str | None:
        """What :meth:`changed` says of one."""

    def _path(self, name: str) -> str:
        """What of an object's name ends with the extension."""
        return name

    def listing(self) -> Listing:
        listing = Listing()
        count, last = 0, ""
        for name, version, size in self._found():
            if name == last:
                continue
            count, last = count + 1, name
            if size != 0:
                listing.add(name, version, size)
        if not len(listing):
            raise SourceError(
                f"cannot read {self.text}: all {self.kind} found ({count}) are empty",
                hint="Check what writes them, and whether it has finished.",
            )
        return listing

    def encoding(self, listing: Listing) -> Encoding:
        names = [self._path(listing.uri(index)) for index in range(len(listing))]
        return _feed.readable(formats.detect(names, self._options), names)

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        return _relation.spread(listing, most)

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        ranges, splits = _feed.ranges(splits, structure, self.reader, self.part)
        fed, rest = _feed.choose(splits, encoding, self.reader)
        whole = _relation.whole(rest, encoding)
        calls = self._calls(whole, encoding, structure) if whole else []
        for split, where in _relation.runs(rest, encoding):
            (call,) = self._calls([split], encoding, structure)
            calls.append(replace(call, where=where))
        if ranges:
            fed_here = self._feeder.call(ranges, encoding, structure, packed=False)
            calls.append(_relation.Call(fed_here))
        if fed:
            objects = [(split.uri, self._opener(split)) for split in fed]
            calls.append(_relation.Call(self._feeder.call(objects, encoding, structure)))
        return _relation.joined(calls, structure)

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        with ThreadPoolExecutor(REQUESTS) as pool:
            answers = pool.map(self._wrong, splits)
            return [(split, text) for split, text in zip(splits, answers, strict=True) if text]


def with_data(
    found: Iterable[_Found], name: Callable[[_Found], str], everything: bool,
    nothing: Callable[[int], SourceError],
) -> Iterator[_Found]:  # fmt: skip
    """What a folder holds by its extension, or ``everything``.

    Raises:
        SourceError: of ``nothing``, which is told how many others the folder holds.
    """
    others, some = 0, False
    for item in found:
        if everything or formats.is_data(name(item)):
            some = True
            yield item
        else:
            others += 1
    if not some:
        raise nothing(others)
