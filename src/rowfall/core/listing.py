"""The listing of a source: objects, and ranges of them that are loaded on their own. Stdlib only.

A plan over one million objects has to stay under 500 MB, so the listing keeps columns (three
flat sequences) and makes :class:`Split` objects only when somebody asks for one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from hashlib import blake2b

from rowfall.core.dataclass import dataclass
from rowfall.core.patterns import regex

# A smaller file is never cut: half of it would be a range of less than a second of work.
CUT_LEAST = 8 << 20
MARK = "~"
"""Prefix of the id of a file: some range of it."""
# In the columns of a listing: no value. Offsets and keys may be negative, but not so much.
_NONE = -(1 << 63)
# Behind the digits the range of a continued split, then the load that has loaded it by force.
_ID = regex(r"([0-9a-f]{32})(?:\[(-?\d+):(-?\d+)\])?")


@dataclass(frozen=True, slots=True)
class Part:
    """The file that a range belongs to, and how an engine that filters finds the rows.

    Attributes:
        size: bytes of the whole file.
        column: of Parquet, the column whose values tell the range; "" of text.
        low, high: ``low <= column < high``, as SQL; "" no bound.
        head: of text, bytes of the header that each range is read with.
    """

    size: int
    column: str = ""
    low: str = ""
    high: str = ""
    head: int = 0

    @property
    def of_text(self) -> bool:
        """True for a range of bytes, which no SQL reads; a condition finds a range of rows."""
        return not self.column


@dataclass(frozen=True, slots=True)
class Split:
    """The smallest piece that is loaded, retried and recorded on its own.

    Attributes:
        id: 32 hex digits, see :func:`split_id`.
        uri: the object, without secrets (``/data/a.csv``, ``s3://bucket/key``, ``generate://trips``).
        version: what changes when the content does: ETag, or ``size-mtime_ns``.
        size: bytes as stored (compressed), None when unknown (stdin, generated).
        start, stop: half-open range inside the object (rows for generators and Parquet, bytes of
            text), or None for all.
        part: of a range of a file, what it is a part of; ``whole`` is the id of that, or of the
            stream that a range continues.
        label: the range for people, behind the URI; None for ``[start:stop]``.
    """

    id: str
    uri: str
    version: str
    size: int | None
    start: int | None = None
    stop: int | None = None
    part: Part | None = None
    whole: str = ""
    label: str | None = None

    @property
    def rows(self) -> int | None:
        """Return the rows of a range of Parquet, as its footer says; None for anything else."""
        if self.part is None or self.of_text or self.start is None or self.stop is None:
            return None
        return self.stop - self.start

    @property
    def of_text(self) -> bool:
        """True for a range of text, see :attr:`Part.of_text`."""
        return self.part is not None and self.part.of_text

    @property
    def continued(self) -> bool:
        """True for a range of a stream, whose id tells the range: see :func:`range_of`."""
        return bool(self.whole) and self.part is None

    @property
    def mark(self) -> str:
        """Return the id that stands for "some range of this file" in leases and in the ledger."""
        return f"{MARK}{self.whole}"

    @property
    def overlapping(self) -> tuple[str, ...]:
        """Return ids of the same rows: of a range its file, of a file the mark of its ranges.

        Continued ranges are compared by their bounds.
        """
        if self.continued:
            return ()
        if self.whole:
            return (self.whole,)
        return (f"{MARK}{self.id}",) if (self.size or 0) >= CUT_LEAST else ()

    @property
    def name(self) -> str:
        """Return the URI, with the range where there is one, for people."""
        if self.start is None:
            return self.uri
        label = f"[{self.start}:{self.stop}]" if self.label is None else self.label
        return f"{self.uri}{label}"


def split_id(
    uri: str,
    version: str,
    start: int | None,
    stop: int | None,
    target_key: str,
    projection: str = "",
) -> str:
    """Return the identity of a split: object, version, range, projection and target.

    Nothing about the run.

    Never batch size, thread count, pid or time: a later run with other settings must recognise
    what is loaded (DESIGN section 2).
    """
    text = "\0".join((uri, version, str(start), str(stop), target_key))
    text += f"\0{projection}" if projection else ""
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def continued_id(stream: str, start: int, stop: int) -> str:
    """Return the id of a range of a stream; see :func:`range_of`."""
    return f"{stream}[{start}:{stop}]"


def range_of(id_: str) -> tuple[str, int, int] | None:
    """Return stream, start and stop of a continued split by its id; None for any other id."""
    found = _ID.match(id_)
    return (found[1], int(found[2]), int(found[3])) if found and found[2] else None


def partial_mark(id_: str) -> str:
    """Return the id that says that some rows of a split are loaded, by ``--limit`` or ``--sample``.

    Args:
        id_: of a file or a stream.
    """
    return MARK + blake2b(id_.encode(), digest_size=16, person=b"some rows").hexdigest()


def without_salt(id_: str) -> str:
    """Return the id of a split as it would be without ``--force``, of which only journals tell."""
    found = _ID.match(id_)
    return found[0] if found else id_


def overlap(ids: Collection[str], others: Collection[str]) -> set[str]:
    """Return the ids that are among the others, or are ranges that share numbers with theirs."""
    found = {i for i in ids if i in others}
    ranges = ranges_by_stream(others) if any(range_of(i) for i in ids) else {}
    for id_ in ids:
        stream, start, stop = range_of(id_) or ("", 0, 0)
        if any(a < stop and start < b for a, b in ranges.get(stream, ())):
            found.add(id_)
    return found


def ranges_by_stream(ids: Iterable[str]) -> dict[str, list[tuple[int, int]]]:
    """Return the ranges that ids of continued splits tell, in order, by the id of the stream."""
    found: dict[str, list[tuple[int, int]]] = {}
    for id_ in ids:
        if (one := range_of(id_)) is not None:
            found.setdefault(one[0], []).append(one[1:])
    return {stream: sorted(set(ranges)) for stream, ranges in found.items()}


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in ascending order with those joined that touch or overlap."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return found


class Listing:
    """The objects of a source as flat columns: about 200 bytes an object.

    Generators give ranges without sizes; files give sizes and versions, and ranges where they
    are cut.

    Attributes:
        projection: which rows of an object are loaded, and as what, where the user says so: part
            of the identity of each split.
        continued: the ranges are of streams, of which later runs load what follows, and may cut
            it at other places (see :class:`rowfall.sources.base.Continued`).
        label: what people read of a range in place of its numbers: :attr:`Split.label`.
        by_name: an object is known by its name alone: all versions of it are one split.
        folders: folders ``key=value`` in the names of objects give columns; not where a table has
            them anyway.
    """

    __slots__ = (
        "_parts", "_sizes", "_starts", "_stops", "_uris", "_versions", "by_name", "continued",
        "folders", "label", "projection",
    )  # fmt: skip

    def __init__(self, projection: str = "", *, continued: bool = False) -> None:
        self.projection = projection
        self.continued = continued
        self.folders = True
        self.by_name = False
        self.label: Callable[[int, int], str] | None = None
        self._uris: list[str] = []
        self._versions: list[str] = []
        self._sizes: array[int] = array("q")
        self._starts: array[int] = array("q")
        self._stops: array[int] = array("q")
        self._parts: dict[int, Part] = {}

    def add(
        self,
        uri: str,
        version: str,
        size: int | None,
        start: int | None = None,
        stop: int | None = None,
        part: Part | None = None,
    ) -> None:
        """Append one split; ``size`` in bytes (None: unknown)."""
        if part is not None:
            self._parts[len(self)] = part
        self._uris.append(uri)
        self._versions.append(version)
        self._sizes.append(-1 if size is None else size)
        self._starts.append(_NONE if start is None else start)
        self._stops.append(_NONE if stop is None else stop)

    def only(self, indexes: Iterable[int]) -> Listing:
        """Return a listing of some of the splits, as they are here."""
        found = Listing(self.projection, continued=self.continued)
        found.label, found.folders, found.by_name = self.label, self.folders, self.by_name
        for index in indexes:
            start: int | None = self._starts[index]
            stop: int | None = self._stops[index]
            start, stop = (None, None) if start == _NONE else (start, stop)
            found.add(self._uris[index], self._versions[index], self.size(index), start, stop,
                      self._parts.get(index))  # fmt: skip
        return found

    def __len__(self) -> int:
        return len(self._uris)

    def uri(self, index: int) -> str:
        return self._uris[index]

    def name_and_version(self, index: int) -> tuple[str, str]:
        """Return URI and version of the object, as they are part of its identity."""
        return self._uris[index], "" if self.by_name else self._versions[index]

    def size(self, index: int) -> int | None:
        size = self._sizes[index]
        return None if size < 0 else size

    def part(self, index: int) -> Part | None:
        """Return the part that a range of a file is, None for whole objects."""
        return self._parts.get(index)

    def of_text(self, index: int) -> bool:
        """True for a range of text, see :attr:`Part.of_text`."""
        part = self._parts.get(index)
        return part is not None and part.of_text

    def whole_and_ranges(self, indexes: Iterable[int]) -> tuple[list[int], list[int]]:
        """Return ``indexes`` of what is whole, and of ranges of files, both in their order."""
        both: tuple[list[int], list[int]] = ([], [])
        for index in indexes:
            both[index in self._parts].append(index)
        return both

    @property
    def parts(self) -> int:
        """Return the number of splits that are ranges of files."""
        return len(self._parts)

    @property
    def unit(self) -> str:
        """Return the word for splits in messages: "range" where some are ranges, else "file"."""
        return "file" if max(self._starts, default=_NONE) == _NONE else "range"

    def rows(self, index: int) -> int | None:
        """Return the rows of a generated range, None for files (unknown before they are read).

        Of a stream whose ranges have no sizes, the messages.
        """
        if self._starts[index] == _NONE or index in self._parts:
            return None
        if self.continued and self._sizes[index] >= 0:
            return None  # numbers of a key have gaps
        return self._stops[index] - self._starts[index]

    def split(self, index: int, target_key: str) -> Split:
        """Return the split at ``index`` for a target (part of its identity)."""
        start: int | None = self._starts[index]
        stop: int | None = self._stops[index]
        start, stop = (None, None) if start == _NONE else (start, stop)
        version, part, more = self._versions[index], self._parts.get(index), self.projection
        uri, known = self.name_and_version(index)
        ranged = part is not None or (self.continued and start is not None)
        whole = split_id(uri, known, None, None, target_key, more) if ranged else ""
        if ranged and part is None:
            id_ = continued_id(whole, start or 0, stop or 0)
        else:
            id_ = split_id(uri, known, start, stop, target_key, more)
        label = None
        if self.label is not None and start is not None and stop is not None:
            label = self.label(start, stop)
        return Split(id_, uri, version, self.size(index), start, stop, part, whole, label)

    def splits(self, target_key: str, indexes: Iterable[int] | None = None) -> Iterator[Split]:
        for index in range(len(self)) if indexes is None else indexes:
            yield self.split(index, target_key)

    def evenly(self, most: int) -> list[Split]:
        """Return at most ``most`` splits, evenly over the listing, first and last among them."""
        count = len(self)
        most = max(1, min(most, count))
        if most == 1:
            return [self.split(0, "")] if count else []
        chosen = dict.fromkeys(round(n * (count - 1) / (most - 1)) for n in range(most))
        return [self.split(index, "") for index in chosen]

    @property
    def total_size(self) -> int | None:
        """Return the bytes of all objects, None when any is unknown."""
        return None if any(s < 0 for s in self._sizes) else sum(self._sizes)

    @property
    def total_rows(self) -> int | None:
        if not len(self) or any(self.rows(i) is None for i in range(len(self))):
            return None
        return sum(self._stops) - sum(self._starts)
