"""Iceberg tables: ``iceberg+s3://bucket/path``, ``iceberg+/path``, ``iceberg://CATALOG/ns.table``.

pyiceberg reads the metadata (not one data file), through rowfall's own stores; a catalogue is asked
as pyiceberg's configuration says.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar

from rowfall.core import sql, uri
from rowfall.core.errors import RowfallError, SourceError, UsageError
from rowfall.core.options import Options
from rowfall.sources.base import File, Rewrite
from rowfall.sources.lakes import (
    PLAIN,
    UNREADABLE,
    DataFile,
    LakeColumn,
    LakeSnapshot,
    LakeSource,
    LakeStore,
    Layout,
    added_since,
    check_columns,
    folder_of,
    missing_driver,
    moment,
    only_one,
    open_store,
    plain_name,
)  # fmt: skip

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.schema import Schema as IcebergSchema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import IcebergType

_HOW_TO_NAME = "Write iceberg+s3://bucket/path/table, iceberg+/path/table, or iceberg://CATALOG/namespace.table"
_METADATA = re.compile(r"(?:v(\d+)|(\d+)-.*?)(?:\.gz)?\.metadata\.json(?:\.gz)?")
# The id of the column of delete files that names the data file.
_DELETES_OF = 2147483546
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def open_iceberg(texts: Sequence[str], options: Options) -> Iceberg:
    """Open one snapshot of one table.

    Raises:
        UsageError: several tables, no pyiceberg, no such snapshot.
        SourceError: there is no such table, or it cannot be read.
    """
    text = only_one(texts)
    try:
        import pyiceberg  # noqa: F401
    except ImportError:
        raise missing_driver("pyiceberg", "iceberg") from None
    by_catalogue = text.lower().startswith("iceberg://")
    found = _of_catalogue(text, options) if by_catalogue else _of_folder(text, options)
    return _opened(found, text, options)


class Iceberg(LakeSource):
    """One snapshot of an Iceberg table."""

    format: ClassVar[str] = "Iceberg"
    function: ClassVar[tuple[str, str]] = ("icebergLocal", "icebergS3")

    def __init__(
        self, text: str, found: _Found, snapshot: LakeSnapshot, chain: Sequence[Snapshot]
    ) -> None:
        super().__init__(text, found.store, snapshot)
        self._found, self._chain = found, chain

    def rewrites(self) -> list[Rewrite]:
        """See :class:`rowfall.sources.base.Rewriting`."""
        return _rewrites(self._found, self._chain, self._snapshot.files)


@dataclass(frozen=True, slots=True)
class _Found:
    """A table that was found: its metadata, where it lies, and what reads it."""

    metadata: TableMetadata
    location: str
    store: LakeStore
    io: Any


# --- finding the table ---------------------------------------------------------------------------


def _of_folder(text: str, options: Options) -> _Found:
    address = folder_of(text)
    store = open_store(address, options)
    io = _file_io(store)
    location = address if address.endswith(".json") else _newest_metadata(store, address, text)
    return _Found(_metadata(io, location), location, store, io)


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
    catalogue, _, name = text.partition("://")[2].partition("/")
    if not catalogue or "." not in name:
        raise UsageError(f"{uri.mask(text)!r} names no table", hint=_HOW_TO_NAME)
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        opened = load_catalog(catalogue)
    except Exception as error:  # whatever its kind raises
        raise SourceError(
            f"cannot open the catalogue {catalogue}: {_first_line(error)}",
            hint="Catalogues are configured in ~/.pyiceberg.yaml or by "
            f"PYICEBERG_CATALOG__{catalogue.upper()}__URI and its like.",
        ) from error
    try:
        table = opened.load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError):
        raise SourceError(
            f"the catalogue {catalogue} has no table {name}", hint="Check namespace and name."
        ) from None
    except Exception as error:
        raise SourceError(
            f"cannot load {name} from the catalogue {catalogue}: {_first_line(error)}",
            transient=True,
        ) from error
    location = plain_name(table.metadata_location)
    store = open_store(location, _with_properties(options, table.io.properties))
    return _Found(table.metadata, location, store, _file_io(store))


def _with_properties(options: Options, properties: Mapping[str, Any]) -> Options:
    """Return the options with the store's address that the catalogue gives, where none is given."""
    return replace(
        options,
        s3_endpoint=options.s3_endpoint or properties.get("s3.endpoint"),
        s3_region=options.s3_region or properties.get("s3.region"),
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _metadata(io: Any, location: str) -> TableMetadata:
    from pyiceberg.serializers import FromInputFile

    try:
        return FromInputFile.table_metadata(io.new_input(location))
    except RowfallError:
        raise
    except Exception as error:  # pydantic's words are many lines
        raise SourceError(
            f"cannot read {location}: no metadata of an Iceberg table that pyiceberg knows "
            f"({_first_line(error)})",
            hint="A newer pyiceberg may know it: pip install --upgrade 'rowfall[iceberg]'.",
        ) from error


def _file_io(store: LakeStore) -> Any:
    """Return pyiceberg's way to files, which reads them from rowfall's stores."""
    from pyiceberg.io import FileIO, InputFile, OutputFile

    class _Input(InputFile):
        def __len__(self) -> int:
            return store.size(plain_name(self.location)) or 0

        def exists(self) -> bool:
            return store.size(plain_name(self.location)) is not None

        def open(self, seekable: bool = True) -> Any:
            return BytesIO(store.read(plain_name(self.location)))

    class _Files(FileIO):
        def new_input(self, location: str) -> InputFile:
            return _Input(location)

        def new_output(self, location: str) -> OutputFile:
            raise NotImplementedError("rowfall writes nothing to a table that it reads")

        def delete(self, location: Any) -> None:
            raise NotImplementedError("rowfall removes nothing of a table that it reads")

    return _Files({})


# --- one snapshot --------------------------------------------------------------------------------


def _opened(found: _Found, text: str, options: Options) -> Iceberg:
    metadata = found.metadata
    if metadata.format_version > 3:
        raise SourceError(
            f"{text} is a table of version {metadata.format_version}; versions 1 to 3 are read",
            hint="Write it as version 3, or load its data files as Parquet.",
        )
    chosen = _snapshot(metadata, options.snapshot, text)
    if chosen is None:
        raise SourceError(
            f"the Iceberg table {text} holds no rows: it has no snapshot",
            hint="Load it when something was written.",
        )
    schema = metadata.schema()
    if options.snapshot and chosen.schema_id is not None:
        schema = next(s for s in metadata.schemas if s.schema_id == chosen.schema_id)
    columns = tuple(
        LakeColumn(f.name, _type(f.field_type, required=f.required), str(f.field_type))
        for f in schema.fields
    )
    check_columns(columns, options, text)
    moved = _names_moved(metadata, schema)
    chain = _ancestors(metadata, chosen)
    files, origins = _data_files(found, chosen, schema, moved=moved)
    retained = {one.snapshot_id for one in chain}
    unknown = frozenset(uri for uri, number in origins.items() if number not in retained)
    if options.since:
        since = _snapshot(metadata, options.since, text)
        if since is None or since.snapshot_id not in retained:
            raise UsageError(
                f"snapshot {options.since} is none that {chosen.snapshot_id} was made from",
                hint="Name one of the same branch, or load without --since.",
            )
        chain = chain[[one.snapshot_id for one in chain].index(since.snapshot_id) + 1 :]
        before, _ = _data_files(found, since, schema, moved=moved)
        rewrites = _rewrites(found, chain, files)
        files = added_since(before, files, rewrites, f"snapshot {since.snapshot_id}", text)
    note = f"columns were renamed or dropped ({moved}): read by the engine's Iceberg reader"
    folder, _, file_name = found.location.rpartition("/metadata/")
    snapshot = LakeSnapshot(
        columns,
        tuple(sorted(files, key=lambda file: file.uri)),
        f"snapshot {chosen.snapshot_id}",
        folder,
        # Pinned, the snapshot has the columns that it was written with.
        {"iceberg_snapshot_id": chosen.snapshot_id} if options.snapshot else {},
        f"metadata/{file_name}",
        (note,) if moved else (),
        unknown,
        options.since or "",
    )
    return Iceberg(text, found, snapshot, chain)


def _snapshot(metadata: TableMetadata, asked: str | None, text: str) -> Snapshot | None:
    """Return the snapshot that an option names: by id, tag, branch, or time.

    Raises:
        UsageError: there is none.
    """
    if asked is None:
        return metadata.snapshot_by_id(metadata.current_snapshot_id or -1)
    found = metadata.refs.get(asked)
    number = found.snapshot_id if found else int(asked) if asked.isdigit() else None
    if number is not None:
        chosen = metadata.snapshot_by_id(number)
    elif (when := moment(asked)) is not None:
        milliseconds = int(when.timestamp() * 1000)
        log = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= milliseconds]
        chosen = metadata.snapshot_by_id(log[-1].snapshot_id) if log else None
    else:
        chosen = None
    if chosen is None:
        known = sorted(metadata.snapshots, key=lambda one: one.timestamp_ms)[-3:]
        listed = ", ".join(f"{s.snapshot_id} ({_time(s.timestamp_ms)})" for s in known)
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
    from pyiceberg.manifest import ManifestContent

    manifests = _manifests(found, snapshot)
    deletes = _deletes(found, manifests)
    constants = _Constants(found.metadata, schema)
    files: list[DataFile] = []
    origins: dict[str, int] = {}
    for manifest in manifests:
        if manifest.content != ManifestContent.DATA:
            continue
        for entry in _entries(found, manifest):
            file = entry.data_file
            name = plain_name(file.file_path)
            _check_file(found, name, file.file_format.value)
            if not file.record_count:
                continue
            own = deletes.of(entry)
            layout = Layout(engine=True) if moved or own else constants.layout(file)
            made = DataFile(name, file.file_size_in_bytes, file.record_count, layout, own)
            files.append(made)
            origins[name] = entry.snapshot_id or 0
    return files, origins


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


def _ancestors(metadata: TableMetadata, snapshot: Snapshot) -> list[Snapshot]:
    """Return a snapshot and those that it was made from, the oldest first, as far as kept."""
    by_id = {one.snapshot_id: one for one in metadata.snapshots}
    chain: list[Snapshot] = []
    one: Snapshot | None = snapshot
    while one is not None:
        chain.append(one)
        one = by_id.get(one.parent_snapshot_id or -1)
    return chain[::-1]


def _rewrites(found: _Found, chain: Sequence[Snapshot], live: Iterable[DataFile]) -> list[Rewrite]:
    """Return what snapshots did to files that were there before, the oldest first."""
    from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
    from pyiceberg.table.snapshots import Operation

    rewrites: list[Rewrite] = []
    for snapshot in chain:
        operation = snapshot.summary.operation if snapshot.summary else None
        if operation == Operation.APPEND:
            continue
        number = snapshot.snapshot_id
        removed: list[File] = []
        added: list[File] = []
        manifests = _manifests(found, snapshot)
        older = _older_deletes(found, snapshot)
        for manifest in manifests:
            if manifest.added_snapshot_id != number or manifest.content != ManifestContent.DATA:
                continue
            for entry in _entries(found, manifest, live=False):
                if entry.snapshot_id != number or not entry.data_file.record_count:
                    continue
                file = entry.data_file
                name, size = plain_name(file.file_path), file.file_size_in_bytes
                made = DataFile(name, size, file.record_count)
                if entry.status == ManifestEntryStatus.ADDED:
                    added.append(made.key)
                elif entry.status == ManifestEntryStatus.DELETED:
                    removed.append(replace(made, deletes=older.of(entry)).key)
        rewrites += _rows_deleted(found, snapshot, manifests)
        if removed:
            rewrites.append(Rewrite(
                f"snapshot {number} ({operation.value if operation else 'unknown'})",
                str(snapshot.parent_snapshot_id), tuple(removed), tuple(added),
                same_rows=operation == Operation.REPLACE,
            ))  # fmt: skip
    # What was deleted before the history begins.
    return [*rewrites, *(
        Rewrite(f"a delete of rows of {file.uri}", "the snapshot before it",
                (file.without_deletes,), (file.key,), same_rows=False)
        for file in live if file.deletes
    )]  # fmt: skip


def _rows_deleted(found: _Found, snapshot: Snapshot, manifests: Iterable[Any]) -> Iterator[Rewrite]:
    """Give what a snapshot did to files that stay, but lose rows."""
    from pyiceberg.manifest import ManifestContent

    parent = found.metadata.snapshot_by_id(snapshot.parent_snapshot_id or -1)
    new = (m for m in manifests if m.added_snapshot_id == snapshot.snapshot_id)
    if parent is None or all(m.content == ManifestContent.DATA for m in new):
        return
    schema = found.metadata.schema()
    before = {f.uri: f.key for f in _data_files(found, parent, schema, moved="")[0]}
    for file in _data_files(found, snapshot, schema, moved="")[0]:
        if file.uri in before and before[file.uri] != file.key:
            name = f"snapshot {snapshot.snapshot_id}, a delete of rows of {file.uri},"
            yield Rewrite(name, str(parent.snapshot_id), (before[file.uri],), (file.key,),
                          same_rows=False)  # fmt: skip


def _deletes(found: _Found, manifests: Iterable[Any]) -> _Deletes:
    from pyiceberg.manifest import ManifestContent

    return _Deletes(
        entry for manifest in manifests if manifest.content == ManifestContent.DELETES
        for entry in _entries(found, manifest)
    )  # fmt: skip


def _older_deletes(found: _Found, snapshot: Snapshot) -> _Deletes:
    """Return the deletes that applied before a snapshot, as far as that is known."""
    parent = found.metadata.snapshot_by_id(snapshot.parent_snapshot_id or -1)
    return _deletes(found, _manifests(found, parent) if parent is not None else ())


def _manifests(found: _Found, snapshot: Snapshot) -> list[Any]:
    try:
        return list(snapshot.manifests(found.io))
    except RowfallError:
        raise
    except Exception as error:
        raise SourceError(
            f"cannot read {plain_name(snapshot.manifest_list)}: {_first_line(error)}"
        ) from error


def _entries(found: _Found, manifest: Any, *, live: bool = True) -> list[ManifestEntry]:
    try:
        entries: list[ManifestEntry] = manifest.fetch_manifest_entry(found.io, live)
    except RowfallError:
        raise
    except Exception as error:
        raise SourceError(
            f"cannot read {plain_name(manifest.manifest_path)}: {_first_line(error)}"
        ) from error
    return entries


class _Deletes:
    """Delete files of a snapshot, by what they may delete rows of."""

    def __init__(self, entries: Iterable[ManifestEntry]) -> None:
        self._of_file: dict[str, list[ManifestEntry]] = defaultdict(list)
        self._of_partition: dict[tuple[Any, ...], list[ManifestEntry]] = defaultdict(list)
        self._everywhere: list[ManifestEntry] = []
        for entry in entries:
            file = entry.data_file
            target = _deleted_from(file)
            if target is not None:
                self._of_file[target].append(entry)
            elif len(_values(file.partition)):
                self._of_partition[_partition(file)].append(entry)
            else:
                self._everywhere.append(entry)

    def of(self, entry: ManifestEntry) -> str:
        """Return the names of the delete files that may delete rows of a data file."""
        from pyiceberg.manifest import DataFileContent

        file = entry.data_file
        near = [
            *self._of_file.get(file.file_path, ()),
            *self._of_partition.get(_partition(file), ()),
            *self._everywhere,
        ]
        found = []
        for delete in near:
            by_value = delete.data_file.content == DataFileContent.EQUALITY_DELETES
            # A file is younger than what it deletes, or, of positions, of the same commit.
            least = (delete.sequence_number or 0) - by_value
            if (entry.sequence_number or 0) <= least:
                at = getattr(delete.data_file, "content_offset", None) or 0
                found.append(f"{delete.data_file.file_path}@{at}")
        return "\n".join(sorted(found))


def _deleted_from(file: Any) -> str | None:
    """Return the only data file that a file of deleted positions is about, if it says so."""
    named = getattr(file, "referenced_data_file", None)
    if named:
        return str(named)
    low = (file.lower_bounds or {}).get(_DELETES_OF)
    high = (file.upper_bounds or {}).get(_DELETES_OF)
    return bytes(low).decode() if low and low == high else None


def _partition(file: Any) -> tuple[Any, ...]:
    return (file.spec_id, *map(repr, _values(file.partition)))


def _values(record: Any) -> list[Any]:
    return [record[i] for i in range(len(record))] if record is not None else []


class _Constants:
    """Values of identity partitions, for files that leave them out (tables that were Hive's)."""

    def __init__(self, metadata: TableMetadata, schema: IcebergSchema) -> None:
        from pyiceberg.transforms import IdentityTransform

        names = {f.field_id: f.name for f in schema.fields}
        types = {f.field_id: f.field_type for f in schema.fields}
        self._fields = {
            number: [
                (place, f.source_id, names[f.source_id], types[f.source_id])
                for place, f in enumerate(spec.fields)
                if isinstance(f.transform, IdentityTransform) and f.source_id in names
            ]
            for number, spec in metadata.specs().items()
        }

    def layout(self, file: Any) -> Layout:
        fields = self._fields.get(file.spec_id, ())
        # Without counts nobody knows whether the column is in the file: its value is the same.
        counted = {*(file.value_counts or {}), *(file.column_sizes or {})}
        missing = [field for field in fields if field[1] not in counted]
        if not missing:
            return PLAIN
        values = _values(file.partition)
        return Layout(constants=tuple((n, _text(values[at], t)) for at, _, n, t in missing))


def _text(value: Any, type_: IcebergType) -> str | None:
    """Return the value of a partition as ClickHouse reads it."""
    kind = str(type_)
    if value is None:
        return None
    if kind == "date" and isinstance(value, int):
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if kind in ("timestamp", "timestamptz") and isinstance(value, int):
        moment_ = _EPOCH + timedelta(microseconds=value)
        return moment_.strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return str(value)


# --- columns -------------------------------------------------------------------------------------

_TYPES = {
    "boolean": "Bool", "int": "Int32", "long": "Int64", "float": "Float32", "double": "Float64",
    "date": "Date32", "timestamp": "DateTime64(6, 'UTC')", "timestamptz": "DateTime64(6, 'UTC')",
    "timestamp_ns": "DateTime64(9, 'UTC')", "timestamptz_ns": "DateTime64(9, 'UTC')",
    "string": "String", "uuid": "UUID", "binary": "String",
}  # fmt: skip


def _type(type_: IcebergType, *, required: bool) -> str:
    """Return the type of ClickHouse for one of Iceberg; UNREADABLE where there is none."""
    from pyiceberg.types import DecimalType, FixedType, ListType, MapType, StructType

    if isinstance(type_, StructType):
        inner = [(f.name, _type(f.field_type, required=f.required)) for f in type_.fields]
        if not all(t for _, t in inner):
            return UNREADABLE
        return f"Tuple({', '.join(f'{sql.name(n)} {t}' for n, t in inner)})"
    if isinstance(type_, ListType):
        element = _type(type_.element_type, required=type_.element_required)
        return element and f"Array({element})"
    if isinstance(type_, MapType):
        key = _type(type_.key_type, required=True)
        value = _type(type_.value_type, required=type_.value_required)
        return f"Map({key}, {value})" if key and value else UNREADABLE
    if isinstance(type_, DecimalType):
        found = f"Decimal({type_.precision}, {type_.scale})"
    elif isinstance(type_, FixedType):
        found = f"FixedString({len(type_)})"
    else:
        found = _TYPES.get(str(type_), UNREADABLE)
    return found if required or not found else f"Nullable({found})"


def _names_moved(metadata: TableMetadata, schema: IcebergSchema) -> str:
    """Return why names do not tell the columns of every file; "" where they do.

    Files are written with the names of their time. Where a column of any schema has had another
    name, or its name was another column's, only its id tells it in all files. A schema that has
    been expired may have had any names.
    """
    from pyiceberg.schema import index_name_by_id

    names: dict[int, set[str]] = defaultdict(set)
    ids: dict[str, set[int]] = defaultdict(set)
    for one in metadata.schemas:
        for number, name in index_name_by_id(one).items():
            names[number].add(name)
            ids[name].add(number)
    known = {s.schema_id for s in metadata.schemas}
    if known != set(range(max(known) + 1)):
        return "older schemas have been expired"
    for number, name in index_name_by_id(schema).items():
        if names[number] != {name} or ids[name] != {number}:
            return name
        if not all(map(_PLAIN_NAME.fullmatch, name.split("."))):
            return f"{name} is written with other letters"
    mapped = _mapped(metadata)
    return mapped[0] if mapped else _nested_moved(metadata, schema)


def _mapped(metadata: TableMetadata) -> list[str]:
    """Return the names of columns that files without ids may have under another name."""
    mapping = metadata.name_mapping()
    fields = list(mapping.root) if mapping is not None else []
    return [str(f.names[0]) for f in fields if len(f.names) > 1]


def _nested_moved(metadata: TableMetadata, schema: IcebergSchema) -> str:
    """Return the column whose fields inside are not those of every schema, or which has a default
    for files that lack it."""
    from pyiceberg.types import PrimitiveType

    for field in schema.fields:
        olders = [f for s in metadata.schemas for f in s.fields if f.field_id == field.field_id]
        if getattr(field, "initial_default", None) is not None and len(olders) < len(
            metadata.schemas
        ):
            return f"{field.name} has a default"
        if isinstance(field.field_type, PrimitiveType):
            continue
        inner = {str(older.field_type) for older in olders}
        if len(inner) > 1:
            return field.name
    return ""
