"""Tables of Iceberg as targets: data files that are written before, made visible by one commit."""

from __future__ import annotations

import os
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rowfall.core import extras, s3_access, sql
from rowfall.core.errors import RowfallError, TargetError, UsageError
from rowfall.core.listing import overlap
from rowfall.core.model import Column
from rowfall.core.options import Options
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText
from rowfall.core.units import parse_duration
from rowfall.engines.base import ExistingTable
from rowfall.engines.database import (
    ACCEPTED,
    FileLayout,
    NewFile,
    PlainDatabase,
    Result,
    TakenError,
    Transaction,
    UnknownEndError,
)
from rowfall.engines.id_files import CommittedLoad, PlannedFile, RecordFile, file_bytes, of_loads
from rowfall.systems.lakes import types
from rowfall.systems.lakes.catalogue import (
    FUNCTIONS,
    NamedTable,
    TableCatalogue,
    creation_hint,
    first_line,
)
from rowfall.systems.lakes.files import (
    DiskFiles,
    S3Files,
    TableFiles,
    catalogue_keys,
    engine_table,
    with_store,
)
from rowfall.systems.lakes.layout import partition_spec, partition_sql, sort_order
from rowfall.systems.lakes.record import (
    FOLDER,
    PROPERTY,
    SUFFIX,
    LakeRecord,
    RecordGoneError,
    read_file,
    read_record,
)

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

# Footers are read over the network when a load commits, each in some 20 ms.
_READERS = 16
# Between two tries to commit, others commit; at most so long, in seconds.
_PAUSE = (0.05, 2.0)


class IcebergTable(PlainDatabase):
    """One table of Iceberg; see :class:`rowfall.engines.database.FileTable`."""

    kind: ClassVar[str] = "Iceberg"
    marks: ClassVar[bool] = False

    def __init__(self, at: ServerAt, schema: str, table: str, options: Options) -> None:
        self.name, self.options = table, options
        self._location, self._catalogue = at.options.get("location", ""), at.host
        self._patience = parse_duration(options.patience)
        self._catalog: TableCatalogue | None = None
        self._uuid = ""
        # What is gone of the record is not missed: the user has said what the rows are.
        self._begins_anew = options.replace
        # As it was read last: files are read once, and only new ones later.
        self._known = LakeRecord()

    # --- the table --------------------------------------------------------------------------------

    def _opened(self) -> TableCatalogue:
        """Return the catalogue, or what stands for one where a folder is the table."""
        if self._catalog is not None:
            return self._catalog
        try:
            import pyarrow  # noqa: F401 - to ask whether they are installed
            import pyiceberg  # noqa: F401 - as above
        except ImportError:
            raise extras.missing(
                "tables of Iceberg are written with pyiceberg and pyarrow, which are not installed",
                "iceberg",
            ) from None
        if self._catalogue:
            self._catalog = NamedTable(self._catalogue, self.name, self.options, UsageError)
        else:
            from rowfall.systems.lakes.folder_catalogue import FolderCatalog

            remote = self._location.startswith("s3://")
            store = S3Files(self.options) if remote else DiskFiles()
            self._catalog = FolderCatalog(self._location, store)
        return self._catalog

    def _files(self, table: Table) -> TableFiles:
        return self._opened().files(table)

    @contextmanager
    def _explained(self, what: str, *, missing: bool = False) -> Iterator[None]:
        """Enter a block that calls catalogue and store; turn their errors into RowfallError.

        Args:
            missing: FileNotFoundError is passed on, for the caller to handle.
        """
        try:
            yield
        except RowfallError:
            raise
        except FileNotFoundError as error:
            if missing:
                raise
            raise TargetError(f"cannot {what} {self.name}: {first_line(error)}") from None
        except PermissionError as error:
            raise TargetError(
                f"cannot {what} {self.name}: {error.strerror or error}",
                hint="The user needs to read and write the folder of the table.",
            ) from None
        except Exception as error:  # of a catalogue and its store, whatever they are
            hint = creation_hint(self._catalogue, error)
            raise TargetError(
                f"cannot {what} {self.name}: {first_line(error)}",
                hint=hint or "Run the same command again when catalogue and store answer.",
                transient=hint is None,
            ) from error

    def _table(self) -> Table | None:
        """Return the table as it is now; None where there is none."""
        catalog = self._opened()
        with self._explained("read"):
            return catalog.table()

    def _there(self) -> Table:
        """Return the table, which has to be the one that the load began with.

        Raises:
            TargetError: it is gone, or another one.
        """
        table = self._table()
        if table is None or self._uuid not in ("", str(table.metadata.table_uuid)):
            raise TargetError(
                f"the table {self.name} was {'dropped' if table is None else 'made anew'} since "
                "the load began",
                hint="Run the same command again: it loads everything into the new one.",
            )
        return table

    def check(self, *, dry: bool) -> None:
        table = self._table()
        self._uuid = str(table.metadata.table_uuid) if table is not None else ""
        if table is None:
            return
        if table.metadata.format_version > 2:
            raise TargetError(
                f"{self.name} is a table of version {table.metadata.format_version}, and versions "
                "1 and 2 are written",
                hint="Load into a new table.",
            )
        if self.options.order_by or self.options.partition_by:
            name = "--order-by" if self.options.order_by else "--partition-by"
            self._check_same(table, name)

    def _check_same(self, table: Table, flag: str) -> None:
        """Check that the layout asked for is the one that the table has."""
        metadata = table.metadata
        schema = metadata.schema()
        asked = sort_order(self.options, schema), partition_spec(self.options, schema)
        order = metadata.sort_order_by_id(metadata.default_sort_order_id)
        has_order = [(f.source_id, f.direction) for f in order.fields] if order else []
        has_spec = [(f.source_id, str(f.transform)) for f in metadata.spec().fields]
        wants_order = [(f.source_id, f.direction) for f in asked[0].fields]
        wants_spec = [(f.source_id, str(f.transform)) for f in asked[1].fields]
        if self.options.order_by and flag == "--order-by" and wants_order == has_order:
            flag = "--partition-by" if self.options.partition_by else ""
        if flag == "--partition-by" and wants_spec == has_spec:
            flag = ""
        if flag:
            raise UsageError(
                f"{flag} is for new tables, and {self.name} is there with another layout",
                hint="Leave it out: rows are written as the table says.",
            )

    def existing_table(self) -> ExistingTable | None:
        """Return the table with types of ClickHouse; columns that they cannot hold are left out."""
        table = self._table()
        if table is None:
            return None
        columns = []
        for name, type_, required, declared in types.readable_columns(table.metadata.schema()):
            if type_ != types.UNREADABLE:
                columns.append((name, type_, ""))
            elif required:
                raise TargetError(
                    f"the column {name} of {self.name} needs a value, and rowfall writes none of "
                    f"its type {declared}",
                    hint="Make it optional in the table.",
                )
        layout = self._layout(table)
        return ExistingTable(
            "", self.kind, layout.order_by, tuple(columns), layout.partition_by,
            types.bytes_columns(table.schema()),
        )  # fmt: skip

    def shown(self, declared: Sequence[str]) -> list[str]:
        """Return the same: the target says them as they are read."""
        return list(declared)

    def table_id(self) -> str:
        if not self._uuid:
            table = self._table()
            self._uuid = str(table.metadata.table_uuid) if table is not None else ""
        return self._uuid

    def upkeep(self) -> str:
        """Return "": nothing but rows is written for each row."""
        return ""

    def promise(self) -> str:
        """Return "": the target says it."""
        return ""

    def prepare(self, statements: Sequence[SqlText]) -> None:
        """Do nothing: :meth:`make` makes the table."""

    def make(self, columns: Sequence[Column]) -> None:
        schema = types.new_schema(columns)
        spec, order = partition_spec(self.options, schema), sort_order(self.options, schema)
        catalog = self._opened()
        with self._explained("make"):
            catalog.make(schema, spec, order)
        self._uuid = ""
        self.table_id()

    def make_like(self, table: str) -> None:
        """Do nothing: a scratch is laid out as the options say."""

    def erase(self) -> None:
        with self._explained("remove"):
            self._opened().erase()

    def mend(self) -> None:
        self._opened().name_newest()

    # --- how rows are written ---------------------------------------------------------------------

    def of_bytes(self, columns: Sequence[Column]) -> frozenset[str]:
        table = self._table()
        if table is None:
            return frozenset(column.name for column in columns if column.binary)
        return types.bytes_columns(table.schema())

    def layout(self) -> FileLayout:
        return self._layout(self._there())

    def _layout(self, table: Table) -> FileLayout:
        metadata = table.metadata
        schema = metadata.schema()
        parts = [partition_sql(each, schema, self.name) for each in metadata.spec().fields]
        order = metadata.sort_order_by_id(metadata.default_sort_order_id)
        keys = []
        for each in order.fields if order is not None else ():
            name = sql.name(schema.find_column_name(each.source_id) or "")
            if str(each.transform) != "identity":
                continue  # rows that are sorted by the column are sorted by most of its transforms
            keys.append(f"{name} {each.direction.value.upper()} "
                        f"{each.null_order.value.replace('-', ' ').upper()}")  # fmt: skip
        return FileLayout(", ".join(keys), ", ".join(parts))

    def written(self, attempt: str, staging: Path) -> list[NewFile]:
        from rowfall.systems.lakes.parquet_files import add_ids, row_count

        table = self._there()
        schema, folder = table.metadata.schema(), f"{_folder(table)}/data"
        found = []
        for number, path in enumerate(sorted(staging.glob("*.parquet"))):
            rows = row_count(path)
            if rows:
                name = f"{folder}/{attempt}-{number}.parquet"
                found.append(NewFile(name, path.name, add_ids(path, schema), rows))
        return found

    def add(self, staging: Path, files: Sequence[NewFile]) -> int:
        table = self._there()
        for one in files:
            with self._explained(f"write {one.name} of"):
                self._files(table).put(staging / one.local, one.name)
        return sum(one.size for one in files)

    def remove(self, names: Sequence[str]) -> None:
        table = self._table()
        if table is None:
            return
        for name in names:
            with suppress(FileNotFoundError), self._explained(f"remove {name} of", missing=True):
                self._files(table).remove(name)

    def relation(self) -> SqlText:
        table = self._there()
        folder = _folder(table)
        # The state that is read here: an engine would look for the newest by itself.
        file = table.metadata_location.rpartition("/metadata/")[2]
        scheme, mark, _ = folder.partition("://")
        access = keys = None
        if mark:
            if scheme not in ("s3", "s3a", "s3n"):
                raise UsageError(
                    f"{self.name} lies in {scheme}://, and tables there are not read back",
                    hint="Ask it with the tools of its catalogue.",
                )
            options = with_store(self.options, table.io.properties)
            access, keys = s3_access.resolve(options), catalogue_keys(table.io.properties)
        return engine_table(FUNCTIONS, folder, f"metadata/{file}", access, keys)

    # --- the record -------------------------------------------------------------------------------

    def _record(self, table: Table) -> LakeRecord:
        """Read what is loaded.

        Raises:
            RecordGoneError: a file of the record is gone, and nobody has said that it may be.
        """
        newest = table.metadata.properties.get(PROPERTY, "")
        if newest and self._known.name == newest:
            return self._known
        known, files = {file.name: file for file in self._known.files}, self._files(table)

        def read(name: str, ids: int | None) -> RecordFile:
            if name in known:  # files do not change
                return known[name]
            with self._explained(f"read the record {name} of", missing=True):
                return read_file(name, ids, files.read, files.open)

        try:
            self._known = read_record(newest, read)
        except RecordGoneError as error:
            now = self._table()
            if now is not None and now.metadata.properties.get(PROPERTY, "") != newest:
                return self._record(now)  # another one has ended the record before that file
            if self._begins_anew:
                return error.left
            raise
        return self._known

    def gone(self) -> str:
        table = self._table()
        try:
            if table is not None:
                self._record(table)
        except RecordGoneError as error:
            return error.name
        return ""

    def _name(self, table: Table) -> str:
        return f"{_folder(table)}/{FOLDER}/{uuid.uuid4().hex}{SUFFIX}"

    def _write_record(self, table: Table, planned: PlannedFile) -> None:
        name, store = planned.name, self._files(table)
        with self._explained(f"write the record {name} of"):
            if not planned.is_large:
                data = file_bytes(planned)
                store.create(name, data)
                store.check_creates(name, data)
                return
            store.create(probe := f"{name}.check", b"")
            store.check_creates(probe, b"")
            store.remove(probe)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "record")
                with path.open("wb") as into:
                    planned.write(into)
                store.put(path, name)

    def loaded(self) -> set[str]:
        return self._recorded().ids()

    def loaded_among(self, ids: Sequence[str]) -> set[str]:
        """See :meth:`rowfall.engines.database.IndexedRecord.loaded_among`."""
        return self._recorded().among(ids)

    def _recorded(self) -> LakeRecord:
        """Return the record, of one of which a file is gone the rest."""
        table = self._table()
        try:
            return self._record(table) if table is not None else LakeRecord()
        except RecordGoneError as error:
            return error.left  # whoever loads is asked before, see unrecorded()

    def loaded_by(self, load: str) -> set[str]:
        table = self._table()
        if table is None:
            return set()
        return self._record(table).of_load(load)

    def settled(self, attempt: str) -> bool:
        table = self._table()
        if table is None:
            return False
        return self._record(table).has(attempt)

    def join_record(self) -> None:
        """Do nothing: each commit packs what those before it have left."""

    def forget(self, load_id: str) -> int:
        return self.forget_loads((load_id,))

    def forget_loads(self, loads: Collection[str]) -> int:
        """See :meth:`rowfall.engines.database.IndexedRecord.forget_loads`."""
        self.check(dry=True)
        gone = 0

        def without(table: Table, record: LakeRecord) -> list[PlannedFile]:
            nonlocal gone
            gone = sum(len(record.of_load(load)) for load in loads)
            return record.without(of_loads(loads), lambda: self._name(table))

        if self._table() is not None:
            self._commit(without, (), replace=False, summary={})
        return gone

    def prune_record(self, days: int) -> None:
        """See :meth:`rowfall.engines.database.IndexedRecord.prune_record`.

        Files of the record go as a whole: what was loaded with something later stays for longer.
        """
        gone: list[str] = []

        def ended(table: Table, record: LakeRecord) -> list[PlannedFile]:
            planned, gone[:] = record.forgotten(days, self._name(table))
            return planned

        table = self._table()
        if table is not None:
            self._commit(ended, (), replace=False, summary={})
            for name in gone:
                with suppress(RowfallError, OSError):
                    self._files(table).remove(name)

    def unrecorded(self) -> bool:
        table = self._table()
        if table is None:
            return False
        if PROPERTY in table.metadata.properties:
            return bool(self.gone())
        snapshot = table.current_snapshot()
        if snapshot is None:
            return False
        summary = snapshot.summary
        return summary is None or summary.additional_properties.get("total-records") != "0"

    def accept(self) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")

        def accepted(table: Table, record: LakeRecord) -> list[PlannedFile]:
            own = CommittedLoad(ACCEPTED, (), (ACCEPTED,), 0, now)
            return record.with_load(own, self._name(table))

        self._begins_anew = True
        self._commit(accepted, (), replace=False, summary={})

    def count(self) -> int:
        """Return the rows of the table."""
        with self._explained("read"):
            return int(self._there().scan().count())

    # --- the commit -------------------------------------------------------------------------------

    def commit(
        self, attempt: str, load: str, ids: Sequence[str], files: Sequence[NewFile], *,
        replace: bool,
    ) -> None:  # fmt: skip
        rows = sum(one.rows for one in files)
        now = datetime.now(UTC).isoformat(timespec="seconds")

        def with_ours(table: Table, record: LakeRecord) -> list[PlannedFile]:
            if record.has(attempt):
                raise _DoneError
            own = CommittedLoad(load, (attempt,), tuple(ids), rows, now)
            if replace:
                return LakeRecord().with_load(own, self._name(table))
            if taken := record.among(ids) | overlap(ids, record.others()):
                raise TakenError(frozenset(taken))
            return record.with_load(own, self._name(table))

        with suppress(_DoneError):
            self._commit(with_ours, files, replace=replace, summary={
                "rowfall.load": load, "rowfall.attempt": attempt, "rowfall.splits": str(len(ids)),
            })  # fmt: skip

    def _commit(
        self, change: Callable[[Table, LakeRecord], list[PlannedFile]], files: Sequence[NewFile],
        *, replace: bool, summary: Mapping[str, str],
    ) -> None:  # fmt: skip
        """Commit files and a new record, again where another one commits at the same time.

        Args:
            change: gives the new files of the record, the newest last; with none nothing is
                committed.
        """
        from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

        described: tuple[Any, list[DataFile]] | None = None
        until, pause = time.monotonic() + self._patience, _PAUSE[0]
        while True:
            table = self._there()
            planned = change(table, self._record(table))
            if not planned:
                return
            if described is None or described[0] != table.metadata.default_spec_id:
                described = table.metadata.default_spec_id, self._described(table, files)
            for one in planned:
                self._write_record(table, one)
            try:
                self._try(table, described[1], planned[-1].name, replace=replace, summary=summary)
                return
            except CommitFailedException:
                for one in planned:
                    with suppress(RowfallError, OSError):
                        self._files(table).remove(one.name)
                if time.monotonic() > until:
                    raise TargetError(
                        f"others have committed to {self.name} again and again for "
                        f"{self._patience:.0f} s",
                        hint="Run the same command again: the data files are written already.",
                        transient=True,
                    ) from None
            except (TargetError, CommitStateUnknownException, OSError) as error:
                if isinstance(error, TargetError) and not error.transient:
                    raise
                raise UnknownEndError(
                    f"the commit to {self.name} was not answered: {first_line(error)}",
                    transient=True,
                    hint="Run the same command again: it asks how it has ended.",
                ) from error  # fmt: skip
            time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - no secret
            pause = min(2 * pause, _PAUSE[1])

    def _try(
        self, table: Table, files: Sequence[DataFile], head: str, *, replace: bool,
        summary: Mapping[str, str],
    ) -> None:  # fmt: skip
        """Commit once.

        Raises:
            CommitFailedException: another one has committed.
        """
        from pyiceberg.table import Transaction as Changes
        from pyiceberg.table.update import AssertTableUUID

        changes = Changes(table)
        changes.set_properties({PROPERTY: head})
        update = changes.update_snapshot(snapshot_properties={**summary, "rowfall.record": head})
        producer: Any = update.fast_append()
        if replace:
            producer = _replacement(update, changes, table)
        with producer:
            for one in files:
                producer.append_data_file(one)
        required = (AssertTableUUID(uuid=table.metadata.table_uuid), *changes._requirements)
        try:
            table.catalog.commit_table(table, required, changes._updates)
        except Exception as error:
            from pyiceberg.exceptions import CommitFailedException

            if isinstance(error, CommitFailedException):
                with suppress(RowfallError, OSError, AttributeError):
                    producer._clean_all_uncommitted()
            raise

    def _described(self, table: Table, files: Sequence[NewFile]) -> list[DataFile]:
        """Return the metadata entries of new files, after reading each file's footer again.

        Raises:
            TargetError: a file is gone, or is not as it was written.
        """
        with ThreadPoolExecutor(_READERS) as pool:
            return list(pool.map(lambda one: self._describe(table, one), files))

    def _describe(self, table: Table, one: NewFile) -> DataFile:
        from rowfall.systems.lakes.parquet_files import describe

        what = f"read {one.name} of"
        try:
            with (
                self._explained(what, missing=True),
                closing(self._files(table).open(one.name)) as file,
            ):
                same = file.seek(0, os.SEEK_END) == one.size
                found = describe(file, one.name, one.size, table.metadata) if same else None
                same = found is not None and found.record_count == one.rows
        except FileNotFoundError:
            found, same = None, False
        if found is None or not same:
            raise TargetError(
                f"the data file {one.name} is not there as it was written: somebody has removed or "
                "overwritten it",
                hint="rowfall clean removes what is left of it; then run the same command again.",
            )
        return found

    # --- what a database has besides --------------------------------------------------------------

    def result(self, query: str, *, write: bool) -> Result | None:
        """Refuse: an engine reads the table."""
        raise UsageError(f"{self.name} is read by an engine of ClickHouse")

    def transaction(self, attempt: str) -> Transaction:
        """Refuse: attempts write files."""
        raise NotImplementedError

    def cancel(self, attempt: str) -> None:
        """Do nothing: no attempt waits for the table."""

    def ended(self, attempt: str) -> None:
        """Do nothing: attempts hold nothing open."""

    def close(self) -> None:
        """Do nothing: nothing is held open."""


class _DoneError(Exception):
    """The attempt has been committed before."""


def _replacement(update: Any, changes: Any, table: Table) -> Any:
    """Return a snapshot that holds none of the files that were there before."""
    from pyiceberg.manifest import ManifestContent
    from pyiceberg.table.snapshots import Operation
    from pyiceberg.table.update.snapshot import _OverwriteFiles

    class Replacing(_OverwriteFiles):
        def _existing_manifests(self) -> list[Any]:
            return []  # also none that delete rows of files that are gone

    made = Replacing(
        operation=Operation.OVERWRITE, transaction=changes, io=table.io,
        snapshot_properties=update._snapshot_properties,
    )  # fmt: skip
    now = table.current_snapshot()
    for manifest in now.manifests(table.io) if now is not None else ():
        if manifest.content == ManifestContent.DATA:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                made.delete_data_file(entry.data_file)
    return made


def _folder(table: Table) -> str:
    """Return the folder of a table, as files in it are named."""
    return table.location().rstrip("/").removeprefix("file://")
