"""Lake tables: what Iceberg and Delta share. Their metadata names the files, the engine reads them.

A snapshot of a table is a list of data files. Each is a split of its own, known by its path, size
and number of rows, and not by the snapshot: the same file in a later snapshot is loaded already.
A file of which rows were deleted is known by its deletes as well, and read by the engine's own
reader of such tables, pinned to the snapshot. All others are read by their names as Parquet.
"""

from __future__ import annotations

import copy
import re
from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rowfall.core import extras, sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError, SourceGoneError, UsageError
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Kind, Schema
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText, quote
from rowfall.sources import from_clause
from rowfall.sources.base import (
    EMBEDDED,
    Addressed,
    File,
    HttpAddress,
    Probe,
    Ranged,
    ReaderFeatures,
    TableRewrite,
)
from rowfall.sources.rewrites import follow
from rowfall.stores.objects import REQUESTS
from rowfall.systems.lakes.files import LakeStore, engine_table, is_s3
from rowfall.systems.lakes.types import UNREADABLE

if TYPE_CHECKING:
    pass

_PARQUET = Encoding(from_clause.PARQUET, "none", Kind.TYPED)


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """One column of a table; ``type`` is :data:`UNREADABLE` for one that cannot be loaded.

    Attributes:
        declared: its type in the words of the table.
    """

    name: str
    type: str
    declared: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of a table as they stand in some of its files.

    Attributes:
        names: names in the file, where they are not those of the table.
        constants: text of the value of all rows, where it is not in the file; None for NULL.
        deletes: rows are deleted, or columns have moved: only the engine's reader of such tables
            gives the rows.
    """

    names: tuple[tuple[str, str], ...] = ()
    constants: tuple[tuple[str, str | None], ...] = ()
    engine: bool = False


PLAIN = Layout()


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file.

    Attributes:
        rows: None where the table does not say.
        deletes: names of what deletes rows of it, "" for nothing.
    """

    uri: str
    size: int
    rows: int | None
    layout: Layout = PLAIN
    deletes: str = ""

    @property
    def version(self) -> str:
        """Return the version of this file: it changes with the file and with its deletes."""
        mark = ""
        if self.deletes:
            mark = "-" + blake2b(self.deletes.encode(), digest_size=8).hexdigest()
        return f"{self.without_deletes[1]}{mark}"

    @property
    def key(self) -> File:
        """Return URI and version."""
        return self.uri, self.version

    @property
    def without_deletes(self) -> File:
        """Return URI and version of the file as it was written."""
        return self.uri, f"{self.size}" if self.rows is None else f"{self.size}-{self.rows}"


@dataclass(frozen=True, slots=True)
class LakeSnapshot:
    """One snapshot of a table.

    Attributes:
        columns: of the table, in its order.
        files: that have rows, sorted by name.
        name: of the snapshot, for people.
        folder, pin, metadata: for the engine's reader: of the table, settings that pin the
            snapshot, and the file below the folder that pins the schema, "" for none.
        since: what ``--since`` says, "" for the whole snapshot.
        unknown: URIs of files that were added before the history of the table begins.
    """

    columns: tuple[LakeColumn, ...]
    files: tuple[DataFile, ...]
    name: str
    folder: str
    pin: Mapping[str, int | str] = field(default_factory=dict)
    metadata: str = ""
    notes: tuple[str, ...] = ()
    unknown: frozenset[str] = frozenset()
    since: str = ""


class LakeSource(ABC):
    """One snapshot of a lake table as a source; a subclass knows one kind of table.

    Attributes:
        format: the kind, as the plan shows it.
        function: the engine's reader of such tables in local folders and in S3.
    """

    format: ClassVar[str]
    function: ClassVar[tuple[str, str]]
    replayable = True
    fds: tuple[int, ...] = ()
    made: Schema | None = None
    reader: ReaderFeatures

    def __init__(self, text: str, store: LakeStore, snapshot: LakeSnapshot) -> None:
        self.text = text
        self._store, self._snapshot = store, snapshot
        self.snapshot = snapshot.name
        self._unread = {c.name: None for c in snapshot.columns if c.type == UNREADABLE}
        self._layouts = {f.uri: f.layout for f in snapshot.files if f.layout is not PLAIN}
        self.remote = store.source.remote
        # The engine reads tables below its current folder only.
        engine = any(layout.engine for layout in self._layouts.values())
        if engine and self.remote and not is_s3(store.source):
            raise SourceError(
                f"cannot read {text}: rows of its files are deleted, or columns were renamed, and "
                "the engine reads such tables on local disks and in S3 only",
                hint="Compact the table (rewrite its data files) and load it then.",
            )
        self.work = "/" if engine and not self.remote else ""
        if not engine:
            # Without the attribute it is not Pullable: which deletes a server applies depends on
            # its version, so that such tables are read here.
            self.reader = EMBEDDED
        self.notes = snapshot.notes
        if self.remote and self.stored() is not None:
            # Only files that are read by their names have addresses: then the source is Addressed.
            self.addresses = self._addresses

    @property
    def secrets(self) -> tuple[Secret, ...]:
        return self._store.source.secrets

    def listing(self) -> Listing:
        listing = Listing()
        listing.folders = False
        for file in self._snapshot.files:
            listing.add(file.uri, file.version, file.size)
        if not len(listing):
            since = f" that were added since {self._snapshot.since}" if self._snapshot.since else ""
            raise SourceError(
                f"the {self.format} table {self.text} holds no rows{since} ({self._snapshot.name})",
                hint="Load it when something was written, or name another --snapshot.",
            )
        return listing

    def encoding(self, listing: Listing) -> Encoding:
        return Encoding(self.format, "none", Kind.TYPED)

    def stored(self) -> Encoding | None:
        return None if self._layouts or self._unread else _PARQUET

    def in_file(self, split: Split) -> tuple[Ranged, Split, Mapping[str, str]]:
        layout = self._layouts.get(split.uri, PLAIN)
        names, gone = dict(layout.names), {*dict(layout.constants), *self._unread}
        known = (column.name for column in self._snapshot.columns)
        there = {name: names.get(name, name) for name in known if name not in gone}
        file = _of_store(split)
        if file.size is None:
            file = Split("", split.uri, "", self._store.size(split.uri))
        return self._store.source, file, there

    def _addresses(self, splits: Sequence[Split]) -> list[HttpAddress]:
        store = cast(Addressed, self._store.source)
        found = store.addresses(list(map(_of_store, splits)))
        return [replace(address, any_version=True) for address in found]

    def bytes_columns(self) -> frozenset[str]:
        return frozenset(
            column.name for column in self._snapshot.columns
            if column.declared == "binary" or column.declared.startswith("fixed")
        )  # fmt: skip

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        return listing.evenly(most)

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        if not structure:
            columns = sql.structure(
                (c.name, c.type or "Nullable(String)") for c in self._snapshot.columns
            )
            return SqlText.of(f"null({quote(columns)})")
        wanted = sql.columns_of(structure)
        groups: dict[Layout, list[Split]] = {}
        for split in splits:
            groups.setdefault(self._layouts.get(split.uri, PLAIN), []).append(split)
        return from_clause.union([
            self._by_engine(files, wanted) if layout.engine else self._of(layout, files, wanted)
            for layout, files in groups.items()
        ])  # fmt: skip

    def _of(
        self, layout: Layout, files: Sequence[Split], wanted: Sequence[tuple[str, str]]
    ) -> SqlText:
        """Return the rows of files that are read as Parquet."""
        names, constants = dict(layout.names), {**dict(layout.constants), **self._unread}
        read = {names.get(n, n): _nullable(t) for n, t in wanted if n not in constants}
        if not read:  # some column has to be asked for, for the number of rows
            read = {
                names.get(c.name, c.name): _nullable(c.type)
                for c in self._snapshot.columns
                if c.name not in constants and c.type != UNREADABLE
            }
        store = copy.copy(self._store.source)
        # A file that is missing never comes back, so changed() finds it, too: nobody has to count.
        store.reader, store.pinned = replace(getattr(self, "reader", EMBEDDED), exact=True), False
        inner = store.relation(list(map(_of_store, files)), _PARQUET, sql.structure(read.items()))
        values = []
        for name, type_ in wanted:
            value = f"f.{sql.name(names.get(name, name))}"
            if name in constants:
                text = constants[name]
                value = f"CAST({'NULL' if text is None else quote(text)}, {quote(type_)})"
            elif read[names.get(name, name)] != type_:
                value = f"CAST({value}, {quote(type_)})"
            values.append(f"{value} AS {sql.name(name)}")
        return _selected(values, SqlText.of(inner, " AS f"))

    def _by_engine(self, files: Sequence[Split], wanted: Sequence[tuple[str, str]]) -> SqlText:
        """Return the rows of files that the engine's reader of such tables gives."""
        values = [
            f"CAST({'NULL' if n in self._unread else f'f.{sql.name(n)}'}, {quote(t)}) "
            f"AS {sql.name(n)}"
            for n, t in wanted
        ]
        paths = ", ".join(quote(_engine_path(split.uri)) for split in files)
        pin = sql.settings_clause(self._snapshot.pin)
        return _selected(
            values, SqlText.of(self._table(), f" AS f WHERE f._path IN ({paths})", pin)
        )

    def _table(self) -> SqlText:
        """Return the engine's function for the whole table."""
        store = self._store.source
        access = store.access() if is_s3(store) else None
        return engine_table(self.function, self._snapshot.folder, self._snapshot.metadata, access)

    def probe(self, split: Split) -> Probe:
        store: Any = copy.copy(self._store.source)
        store.reader, store.pinned = self.reader, False
        found: Probe = store.probe(_of_store(split))
        return found

    def of_unknown_origin(self) -> frozenset[str]:
        return self._snapshot.unknown

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        with ThreadPoolExecutor(REQUESTS if self.remote else 1) as pool:
            answers = pool.map(self._problem, splits)
            return [(split, text) for split, text in zip(splits, answers, strict=True) if text]

    def _problem(self, split: Split) -> str | None:
        """Return the reason that one data file is unreadable, for :meth:`changed`; None if none.

        Raises:
            SourceGoneError: it is gone; the others of the snapshot are or will be, too.
        """
        size = self._store.size(split.uri)
        if size is None:
            raise SourceGoneError(
                f"cannot read {split.uri}: the data file is gone, {self._snapshot.name} has been "
                "expired or vacuumed",
                hint="Nothing of it is visible. Load the newest snapshot: the same command again, "
                "without --snapshot.",
            )
        if size != split.size:
            return f"its size is {size}, and the table says {split.size}"
        return None


def added_since(
    before: Iterable[DataFile], files: Sequence[DataFile], rewrites: Iterable[TableRewrite],
    since: str, text: str,
) -> list[DataFile]:  # fmt: skip
    """Return the files whose rows were added after a snapshot.

    Raises:
        SourceError: rows that were there before were changed or removed since.
    """
    found = follow((file.key for file in before), rewrites)
    changed = next((found.changed[f.key] for f in files if f.key in found.changed), found.removed)
    if changed is not None:
        what = "merged older with newer files" if changed.same_rows else "changed or removed rows"
        raise SourceError(
            f"{text} cannot be loaded since {since}: {changed.name} {what} that were there before",
            hint=f"Load up to {changed.before} with --snapshot, and from {changed.name} on with "
            "--since; or the whole table with --replace.",
        )
    return [file for file in files if file.key not in found.loaded]


def only_one(texts: Sequence[str]) -> str:
    """Return the one table that a load reads.

    Raises:
        UsageError: several are given.
    """
    if len(texts) != 1:
        raise UsageError(
            "one load reads one lake table", hint="Run one load after the other into the table."
        )
    return texts[0]


def missing_driver(package: str, extra: str) -> UsageError:
    """Return the error about a library that is not installed."""
    return extras.missing(f"{extra} tables are read with {package}, which is not installed", extra)


def check_columns(columns: Iterable[LakeColumn], options: Options, text: str) -> None:
    """Check that every column that is not left out can be loaded.

    Raises:
        SourceError: some have a type that ClickHouse does not have; it names them.
    """
    bad = [c for c in columns if c.type == UNREADABLE and c.name not in options.skip]
    if bad:
        listed = ", ".join(f"{c.name} ({c.declared})" for c in bad)
        raise SourceError(
            f"cannot load all columns of {text}: no type for {listed}",
            hint="Leave them out with " + " ".join(f"--skip {c.name}" for c in bad)
            + ", or write them with another type.",
        )  # fmt: skip


def moment(text: str) -> datetime | None:
    """Return the time that ``--snapshot`` or ``--since`` names, in UTC where it has no zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _of_store(split: Split) -> Split:
    """Return a data file as the store reads it: any version, since no name is written twice."""
    return Split("", split.uri, "", split.size)


def _engine_path(name: str) -> str:
    """Return the virtual column ``_path`` of a file."""
    return name.partition("://")[2] if "://" in name else name


def _selected(values: Sequence[str], relation: SqlText) -> SqlText:
    # All members of a UNION show the same columns, those by which errors name a file among them.
    return SqlText.of(f"(SELECT {', '.join(values)}, f._path AS _path, f._file AS _file FROM ",
                      relation, ")")  # fmt: skip


def _nullable(type_: str) -> str:
    """Return the type that takes NULL, too; nested ones cannot."""
    if re.match(r"(Nullable|LowCardinality|Array|Map|Tuple|Nested)\(", type_):
        return type_
    return f"Nullable({type_})"
