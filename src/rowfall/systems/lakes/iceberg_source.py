"""Iceberg tables: ``iceberg+s3://bucket/path``, ``iceberg+/path``, ``iceberg://CATALOG/ns.table``.

The metadata is read here (:mod:`rowfall.systems.lakes.iceberg_metadata`), through rowfall's own
stores; a catalogue is asked by pyiceberg, as its configuration says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, ClassVar

from rowfall.core import uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.sources.base import File, TableRewrite
from rowfall.systems.lakes import iceberg_metadata as metadata
from rowfall.systems.lakes.catalogue import (
    FUNCTIONS,
    NamedTable,
    catalogue_and_name,
    first_line,
)
from rowfall.systems.lakes.files import (
    LakeStore,
    folder_of,
    open_store,
    plain_name,
    with_store,
)
from rowfall.systems.lakes.iceberg_metadata import (
    IcebergSchema,
    ManifestEntry,
    ManifestFile,
    Snapshot,
    TableMetadata,
)
from rowfall.systems.lakes.source import (
    PLAIN,
    DataFile,
    LakeColumn,
    LakeSnapshot,
    LakeSource,
    Layout,
    added_since,
    check_columns,
    missing_driver,
    moment,
    only_one,
)  # fmt: skip
from rowfall.systems.lakes.types import IcebergType, readable, words

_METADATA = regex(r"(?:v(\d+)|(\d+)-.*?)(?:\.gz)?\.metadata\.json(?:\.gz)?")
# The id of the column of delete files that names the data file.
_DELETES_OF = 2147483546
# What holds deletion vectors, of version 3.
_PUFFIN = "puffin"
_PLAIN_NAME = regex(r"[A-Za-z_][A-Za-z0-9_]*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def open_iceberg(texts: Sequence[str], options: Options) -> Iceberg:
    """Open one snapshot of one table.

    Raises:
        UsageError: several tables, a library is missing, no such snapshot.
        SourceError: there is no such table, or it cannot be read.
    """
    text = only_one(texts)
    try:
        import fastavro  # noqa: F401 - to ask whether it is installed
    except ImportError:
        raise missing_driver("fastavro", "iceberg") from None
    by_catalogue = text.lower().startswith("iceberg://")
    found = _of_catalogue(text, options) if by_catalogue else _of_folder(text, options)
    return _opened(found, text, options)


class Iceberg(LakeSource):
    """One snapshot of an Iceberg table."""

    format: ClassVar[str] = "Iceberg"
    function: ClassVar[tuple[str, str]] = FUNCTIONS

    def __init__(
        self, text: str, found: _Found, snapshot: LakeSnapshot, chain: Sequence[Snapshot]
    ) -> None:
        super().__init__(text, found.store, snapshot)
        self._found, self._chain = found, chain

    def rewrites(self) -> list[TableRewrite]:
        return _rewrites(self._found, self._chain, self._snapshot.files)


@dataclass(frozen=True, slots=True)
class _Found:
    """A table that was found: its metadata, where it lies, and what reads it."""

    table: TableMetadata
    location: str
    store: LakeStore


# --- finding the table ---------------------------------------------------------------------------


def _of_folder(text: str, options: Options) -> _Found:
    address = folder_of(text)
    store = open_store(address, options)
    location = address if address.endswith(".json") else _newest_metadata(store, address, text)
    return _Found(_table(store.read(location), location), location, store)


def _newest_metadata(store: LakeStore, folder: str, text: str) -> str:
    """Return the newest metadata file of a table that no catalogue names.

    Raises:
        SourceError: there is none, or two that only a catalogue tells apart.
    """
    names = [(name, found) for name in store.names(f"{folder}/metadata")
             if (found := _METADATA.fullmatch(name.rpartition("/")[2]))]  # fmt: skip
    if not names:
        if store.names(f"{folder}/_delta_log"):
            raise SourceError(
                f"{text} is a Delta table, not an Iceberg table",
                hint=f"Write delta+{text.partition('+')[2]}.",
            )
        raise SourceError(
            f"no Iceberg table in {folder}: it has no metadata/*.metadata.json",
            hint="Name the folder of the table (the one above metadata), or one metadata file.",
        )
    highest = max(int(found[1] or found[2]) for _, found in names)
    newest = [name for name, found in names if int(found[1] or found[2]) == highest]
    if len(newest) > 1:
        raise SourceError(
            f"{folder} has {len(newest)} metadata files of number {highest}, and only its "
            "catalogue knows which is the table",
            hint=f"Name the catalogue (iceberg://CATALOG/namespace.table), or one of the files: "
            f"iceberg+{newest[0]}.",
        )
    return newest[0]


def _of_catalogue(text: str, options: Options) -> _Found:
    """Return the table that a catalogue of pyiceberg's configuration names.

    Raises:
        UsageError: no such catalogue is configured.
        SourceError: it has no such table, or does not answer.
    """
    catalogue, name = catalogue_and_name(text)
    try:
        import pyiceberg  # noqa: F401 - to ask whether it is installed
    except ImportError:
        raise missing_driver("pyiceberg", "iceberg") from None
    named = NamedTable(catalogue, name, options, SourceError)
    try:
        table = named.table()
    except Exception as error:  # whatever its kind raises
        raise SourceError(
            f"cannot load {name} from the catalogue {catalogue}: {first_line(error)}",
            transient=True,
        ) from error
    if table is None:
        raise SourceError(
            f"the catalogue {catalogue} has no table {name}", hint="Check namespace and name."
        )
    location = plain_name(table.metadata_location)
    store = open_store(location, with_store(options, table.io.properties))
    return _Found(_table(table.metadata.model_dump_json().encode(), location), location, store)


# What broken metadata meets: see metadata.parse_table; fastavro raises these, too.
_BROKEN = (ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, OSError)


def _table(data: bytes, location: str) -> TableMetadata:
    try:
        return metadata.parse_table(data)
    except (*_BROKEN, StopIteration) as error:
        raise SourceError(
            f"cannot read {location}: no metadata of an Iceberg table ({first_line(error)})",
            hint="Name the folder of the table (the one above metadata), or one metadata file.",
        ) from error


# --- one snapshot --------------------------------------------------------------------------------


def _opened(found: _Found, text: str, options: Options) -> Iceberg:
    table = found.table
    if table.version > 3:
        raise SourceError(
            f"{text} is a table of version {table.version}; versions 1 to 3 are read",
            hint="Write it as version 3, or load its data files as Parquet.",
        )
    chosen = _snapshot(table, options.snapshot, text)
    if chosen is None:
        raise SourceError(
            f"the Iceberg table {text} holds no rows: it has no snapshot",
            hint="Load it when something was written.",
        )
    schema = table.schema
    if options.snapshot and chosen.schema_id is not None:
        schema = next(s for s in table.schemas if s.id == chosen.schema_id)
    columns = tuple(
        LakeColumn(f.name, readable(f.type, required=f.required), words(f.type))
        for f in schema.fields
    )
    check_columns(columns, options, text)
    moved = _names_moved(table, schema)
    chain = _ancestors(table, chosen)
    files, origins = _data_files(found, chosen, schema, moved=moved)
    retained = {one.id for one in chain}
    unknown = frozenset(uri for uri, number in origins.items() if number not in retained)
    if options.since:
        since = _snapshot(table, options.since, text)
        if since is None or since.id not in retained:
            raise UsageError(
                f"snapshot {options.since} is none that {chosen.id} was made from",
                hint="Name one of the same branch, or load without --since.",
            )
        chain = chain[[one.id for one in chain].index(since.id) + 1 :]
        before, _ = _data_files(found, since, schema, moved=moved)
        rewrites = _rewrites(found, chain, files)
        files = added_since(before, files, rewrites, f"snapshot {since.id}", text)
    note = f"columns were renamed or dropped ({moved}): read by the engine's Iceberg reader"
    folder, _, file_name = found.location.rpartition("/metadata/")
    snapshot = LakeSnapshot(
        columns,
        tuple(sorted(files, key=lambda file: file.uri)),
        f"snapshot {chosen.id}",
        folder,
        # Pinned, the snapshot has the columns that it was written with.
        {"iceberg_snapshot_id": chosen.id} if options.snapshot else {},
        f"metadata/{file_name}",
        (note,) if moved else (),
        unknown,
        options.since or "",
    )
    return Iceberg(text, found, snapshot, chain)


def _snapshot(table: TableMetadata, asked: str | None, text: str) -> Snapshot | None:
    """Return the snapshot that an option names: by id, tag, branch, or time.

    Raises:
        UsageError: there is none.
    """
    if asked is None:
        return table.current
    number = table.refs.get(asked, int(asked) if asked.isdigit() else None)
    if number is not None:
        chosen = table.snapshots.get(number)
    elif (when := moment(asked)) is not None:
        milliseconds = int(when.timestamp() * 1000)
        log = [one for at, one in table.log if at <= milliseconds]
        chosen = table.snapshots.get(log[-1]) if log else None
    else:
        chosen = None
    if chosen is None:
        known = sorted(table.snapshots.values(), key=lambda one: one.milliseconds)[-3:]
        listed = ", ".join(f"{s.id} ({_time(s.milliseconds)})" for s in known)
        raise UsageError(
            f"{text} has no snapshot {asked}: it never had, or it has expired",
            hint=f"The last ones: {listed}." if listed else "It has no snapshots at all.",
        )
    return chosen


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(" ", "seconds")


def _data_files(
    found: _Found, snapshot: Snapshot, schema: IcebergSchema, *, moved: str
) -> tuple[list[DataFile], dict[str, int]]:
    """Return the live data files of a snapshot, and the snapshots that added them, by name.

    Raises:
        SourceError: a file is no Parquet, or lies in another kind of store.
    """
    manifests = _manifests(found, snapshot)
    deletes = _deletes(found, manifests)
    constants = _Constants(found.table, schema)
    files: list[DataFile] = []
    origins: dict[str, int] = {}
    for manifest in manifests:
        if manifest.content != metadata.DATA:
            continue
        for entry in _entries(found, manifest):
            name = plain_name(entry.path)
            _check_file(found, name, entry.format)
            if not entry.rows:
                continue
            own = deletes.of(entry)
            if vector := deletes.vector_of(entry):
                raise _no_vectors(found, name, vector)
            layout = Layout(engine=True) if moved or own else constants.layout(entry)
            files.append(DataFile(name, entry.size, entry.rows, layout, own))
            origins[name] = entry.snapshot_id
    return files, origins


def _no_vectors(found: _Found, name: str, vector: str) -> SourceError:
    """Return the error about rows that a deletion vector of version 3 deletes.

    The engine's reader (26.9) knows delete files of Parquet only; without it deleted rows would be
    loaded. pyiceberg reads them.
    """
    return SourceError(
        f"cannot read {name}: rows of it are deleted by the deletion vector {plain_name(vector)}, "
        "which no reader here knows",
        hint="Rewrite the data files (Spark: CALL system.rewrite_data_files, with delete-file-"
        "threshold 1), or load what pyiceberg reads from Python: "
        f"rowfall.load(StaticTable.from_metadata({found.location!r}).scan()"
        ".to_arrow_batch_reader(), table=..., to=...)",
    )


def _check_file(found: _Found, name: str, format_: str) -> None:
    """Check that a data file can be read.

    Raises:
        SourceError: it cannot.
    """
    if format_.lower() != "parquet":
        raise SourceError(
            f"cannot read {name}: rowfall reads Iceberg tables of Parquet files, and this is "
            f"{format_}",
            hint="Rewrite the table with write.format.default=parquet.",
        )
    if uri.scheme_of(name) != uri.scheme_of(found.location):
        raise SourceError(
            f"cannot read {name}: its table is read from {found.location}, another kind of store",
            hint="A table that was copied still names the files of the original.",
        )


def _ancestors(table: TableMetadata, snapshot: Snapshot) -> list[Snapshot]:
    """Return a snapshot and those that it was made from, the oldest first, as far as kept."""
    chain: list[Snapshot] = []
    one: Snapshot | None = snapshot
    while one is not None:
        chain.append(one)
        one = _parent(table, one)
    return chain[::-1]


def _parent(table: TableMetadata, snapshot: Snapshot) -> Snapshot | None:
    return table.snapshots.get(snapshot.parent) if snapshot.parent is not None else None


def _rewrites(
    found: _Found, chain: Sequence[Snapshot], live: Iterable[DataFile]
) -> list[TableRewrite]:
    """Return the rewrites and deletes of existing files by snapshots, the oldest first."""
    rewrites: list[TableRewrite] = []
    for snapshot in chain:
        if snapshot.operation == metadata.APPEND:
            continue
        number = snapshot.id
        removed: list[File] = []
        added: list[File] = []
        manifests = _manifests(found, snapshot)
        older = _older_deletes(found, snapshot)
        for manifest in manifests:
            if manifest.snapshot_id != number or manifest.content != metadata.DATA:
                continue
            for entry in _entries(found, manifest, live=False):
                if entry.snapshot_id != number or not entry.rows:
                    continue
                made = DataFile(plain_name(entry.path), entry.size, entry.rows)
                if entry.status == metadata.ADDED:
                    added.append(made.key)
                elif entry.status == metadata.DELETED:
                    removed.append(replace(made, deletes=older.of(entry)).key)
        rewrites += _rows_deleted(found, snapshot, manifests)
        if removed:
            rewrites.append(TableRewrite(
                f"snapshot {number} ({snapshot.operation or 'unknown'})",
                str(snapshot.parent), tuple(removed), tuple(added),
                same_rows=snapshot.operation == metadata.REPLACE,
            ))  # fmt: skip
    # What was deleted before the history begins.
    return [*rewrites, *(
        TableRewrite(f"a delete of rows of {file.uri}", "the snapshot before it",
                (file.without_deletes,), (file.key,), same_rows=False)
        for file in live if file.deletes
    )]  # fmt: skip


def _rows_deleted(
    found: _Found, snapshot: Snapshot, manifests: Iterable[ManifestFile]
) -> Iterator[TableRewrite]:
    """Give what a snapshot did to files that stay, but lose rows."""
    parent = _parent(found.table, snapshot)
    new = (m for m in manifests if m.snapshot_id == snapshot.id)
    if parent is None or all(m.content == metadata.DATA for m in new):
        return
    schema = found.table.schema
    before = {f.uri: f.key for f in _data_files(found, parent, schema, moved="")[0]}
    for file in _data_files(found, snapshot, schema, moved="")[0]:
        if file.uri in before and before[file.uri] != file.key:
            name = f"snapshot {snapshot.id}, a delete of rows of {file.uri},"
            yield TableRewrite(name, str(parent.id), (before[file.uri],), (file.key,),
                          same_rows=False)  # fmt: skip


def _deletes(found: _Found, manifests: Iterable[ManifestFile]) -> _Deletes:
    return _Deletes(
        entry for manifest in manifests if manifest.content != metadata.DATA
        for entry in _entries(found, manifest)
    )  # fmt: skip


def _older_deletes(found: _Found, snapshot: Snapshot) -> _Deletes:
    """Return the deletes that applied before a snapshot, as far as that is known."""
    parent = _parent(found.table, snapshot)
    return _deletes(found, _manifests(found, parent) if parent is not None else ())


def _manifests(found: _Found, snapshot: Snapshot) -> list[ManifestFile]:
    if not snapshot.manifest_list:
        raise SourceError(
            f"snapshot {snapshot.id} of {found.location} has no list of manifests: it is of an "
            "early version 1",
            hint="Any newer snapshot of the table has one.",
        )
    name = plain_name(snapshot.manifest_list)
    data = found.store.read(name)
    try:
        return list(metadata.manifests_of(data))
    except _BROKEN as error:
        raise SourceError(f"cannot read {name}: {first_line(error)}") from error


def _entries(found: _Found, manifest: ManifestFile, *, live: bool = True) -> list[ManifestEntry]:
    name = plain_name(manifest.path)
    data = found.store.read(name)
    try:
        entries = list(metadata.entries_of(data, manifest))
    except _BROKEN as error:
        raise SourceError(f"cannot read {name}: {first_line(error)}") from error
    return [e for e in entries if e.status != metadata.DELETED] if live else entries


class _Deletes:
    """Delete files of a snapshot, by what they may delete rows of."""

    def __init__(self, entries: Iterable[ManifestEntry]) -> None:
        self._of_file: dict[str, list[ManifestEntry]] = defaultdict(list)
        self._of_partition: dict[tuple[Any, ...], list[ManifestEntry]] = defaultdict(list)
        self._everywhere: list[ManifestEntry] = []
        for entry in entries:
            target = _deleted_from(entry)
            if target is not None:
                self._of_file[target].append(entry)
            elif entry.partition:
                self._of_partition[_partition(entry)].append(entry)
            else:
                self._everywhere.append(entry)

    def of(self, entry: ManifestEntry) -> str:
        """Return the names of the delete files that may delete rows of a data file."""
        near = [
            *self._of_file.get(entry.path, ()),
            *self._of_partition.get(_partition(entry), ()),
            *self._everywhere,
        ]
        found = []
        for delete in near:
            by_value = delete.content == metadata.EQUALITY_DELETES
            # A file is younger than what it deletes, or, of positions, of the same commit.
            if entry.sequence_number <= delete.sequence_number - by_value:
                found.append(f"{delete.path}@{delete.offset}")
        return "\n".join(sorted(found))

    def vector_of(self, entry: ManifestEntry) -> str:
        """Return the file of the deletion vector of a data file; "" where it has none."""
        for delete in (*self._of_file.get(entry.path, ()), *self._everywhere):
            newer = entry.sequence_number <= delete.sequence_number
            if delete.format.lower() == _PUFFIN and newer:
                return str(delete.path)
        return ""


def _deleted_from(file: ManifestEntry) -> str | None:
    """Return the only data file that a file of deleted positions is about, if it says so."""
    low, high = file.lower.get(_DELETES_OF), file.upper.get(_DELETES_OF)
    bound = low.decode() if low and low == high else None
    return file.target or bound


def _partition(file: ManifestEntry) -> tuple[Any, ...]:
    return (file.spec_id, *map(repr, file.partition))


class _Constants:
    """Values of identity partitions, for files that leave them out (tables that were Hive's)."""

    def __init__(self, table: TableMetadata, schema: IcebergSchema) -> None:
        columns = {f.id: f for f in schema.fields}
        self._fields = {
            number: [
                (place, f.source_id, columns[f.source_id].name, columns[f.source_id].type)
                for place, f in enumerate(spec)
                if f.transform == "identity" and f.source_id in columns
            ]
            for number, spec in table.specs.items()
        }

    def layout(self, file: ManifestEntry) -> Layout:
        fields = self._fields.get(file.spec_id, ())
        # Without counts nobody knows whether the column is in the file: its value is the same.
        missing = [field for field in fields if field[1] not in file.counted]
        if not missing:
            return PLAIN
        return Layout(
            constants=tuple((name, _text(file.partition[at], t)) for at, _, name, t in missing)
        )


def _text(value: Any, type_: IcebergType) -> str | None:
    """Return the value of a partition as ClickHouse reads it."""
    if value is None:
        return None
    if type_ == "date" and isinstance(value, int):
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if type_ in ("timestamp_ns", "timestamptz_ns") and isinstance(value, int):
        moment_ = _EPOCH + timedelta(seconds=value // 10**9)
        return f"{moment_:%Y-%m-%d %H:%M:%S}.{value % 10**9:09}"
    if type_ in ("timestamp", "timestamptz") and isinstance(value, int):
        value = _EPOCH + timedelta(microseconds=value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return str(value)


# --- columns -------------------------------------------------------------------------------------


def _names_moved(table: TableMetadata, schema: IcebergSchema) -> str:
    """Return a clause: why columns cannot be found by name in every file; "" where they can.

    Files are written with the names of their time. Where a column of any schema has had another
    name, or its name was another column's, only its id tells it in all files. A schema that has
    been expired may have had any names.
    """
    names: dict[int, set[str]] = defaultdict(set)
    ids: dict[str, set[int]] = defaultdict(set)
    for one in table.schemas:
        for number, name in one.names().items():
            names[number].add(name)
            ids[name].add(number)
    known = {one.id for one in table.schemas}
    if known != set(range(max(known) + 1)):
        return "older schemas have been expired"
    for number, name in schema.names().items():
        if names[number] != {name} or ids[name] != {number}:
            return name
        if not all(map(_PLAIN_NAME.fullmatch, name.split("."))):
            return f"{name} is written with other letters"
    # Files without ids may have a column under another name.
    mapped = [names[0] for names in table.mapping if len(names) > 1]
    return mapped[0] if mapped else _nested_moved(table, schema)


def _nested_moved(table: TableMetadata, schema: IcebergSchema) -> str:
    """Return the column whose fields inside are not those of every schema, or which has a default
    for files that lack it."""
    for each in schema.fields:
        olders = [f for s in table.schemas for f in s.fields if f.id == each.id]
        if each.default is not None and len(olders) < len(table.schemas):
            return f"{each.name} has a default"
        if isinstance(each.type, str):
            continue
        if len({words(older.type) for older in olders}) > 1:
            return each.name
    return ""
