"""Tables of Iceberg as targets: data files that are written before, made visible by one commit.

The record of what is loaded lies beside the table: ``_rowfall/ID.json`` in its folder, one file for
each commit, with the ids of the splits and the name of the record before it. The commit of the rows
sets the table's property :data:`PROPERTY` to its own record, so rows and record become visible in
one step, and the record outlives the snapshot that came with it. Its folder begins with an
underscore: what removes orphan files (Spark's procedure) leaves such folders alone.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rowfall.core import s3_access, sql, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, TargetError, UsageError
from rowfall.core.listing import overlap
from rowfall.core.masked import Secret
from rowfall.core.model import Column
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.units import parse_duration
from rowfall.engines.base import ExistingTable
from rowfall.engines.database import (
    ACCEPTED,
    Layout,
    NewFile,
    Result,
    TakenError,
    Transaction,
    UnknownEndError,
)
from rowfall.systems.lakes import types
from rowfall.systems.lakes.catalogue import creation_hint, opening_hint

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

PROPERTY = "rowfall.loaded"
"""Property of a table: the name of the newest record of what is loaded."""

FOLDER = "_rowfall"
# A record with fewer ids is written once more, with the next one: the chain that is read stays
# short, and no commit writes more than 400 kB of what is known already.
_FULL = 10_000
# Footers are read over the network when a load commits, each in some 20 ms.
_READERS = 16
# Between two tries to commit, others commit; at most so long, in seconds.
_PAUSE = (0.05, 2.0)
_MICROSECONDS = {"hour": 3_600_000_000, "day": 86_400_000_000}
_WORDS = {
    **{f"{word}s": word for word in ("year", "month", "day", "hour")},
    "toYear": "year", "toYYYYMM": "month", "toStartOfMonth": "month", "toDate": "day",
    "toYYYYMMDD": "day", "toStartOfDay": "day", "toStartOfHour": "hour",
}  # fmt: skip
_TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket", "truncate")


@dataclass(frozen=True, slots=True)
class _Load:
    """What the record says of one load.

    Attributes:
        attempts: that were committed; ``ids`` of the splits.
    """

    attempts: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    rows: int = 0
    at: str = ""


@dataclass(frozen=True, slots=True)
class _Record:
    """What is loaded, as a chain of files says.

    Attributes:
        name: of the newest file, "" for none. ``before``: of the one before it.
        head: loads of the newest file. ``older``: of all files before it.
    """

    name: str = ""
    head: Mapping[str, _Load] = field(default_factory=dict)
    before: str = ""
    older: Sequence[Mapping[str, _Load]] = ()

    def loads(self) -> Iterator[tuple[str, _Load]]:
        for part in (self.head, *self.older):
            yield from part.items()

    def ids(self) -> set[str]:
        return {id_ for _, one in self.loads() for id_ in one.ids}


class IcebergTable:
    """One table of Iceberg; see :class:`rowfall.engines.database.FileTable`."""

    kind: ClassVar[str] = "Iceberg"
    marks: ClassVar[bool] = False

    def __init__(
        self, host: str, port: int, user: str, password: Secret | None,
        settings: Mapping[str, str], schema: str, table: str, options: Options,
    ) -> None:  # fmt: skip
        self.name, self.options = table, options
        self._location, self._catalogue = settings.get("location", ""), host
        self._patience = parse_duration(options.patience)
        self._guard = threading.RLock()
        self._catalog: Any = None
        self._uuid = ""

    # --- the table --------------------------------------------------------------------------------

    def _opened(self) -> Any:
        """Return the catalogue, or what stands for one where a folder is the table."""
        if self._catalog is not None:
            return self._catalog
        try:
            import pyarrow  # noqa: F401 - to ask whether they are installed
            import pyiceberg  # noqa: F401 - as above
        except ImportError:
            raise UsageError(
                "tables of Iceberg are written with pyiceberg and pyarrow, which are not installed",
                hint="pip install 'rowfall[iceberg]'",
            ) from None
        if self._catalogue:
            self._catalog = self._open_catalogue()
        else:
            from rowfall.systems.lakes.folder_catalogue import S3, Disk, FolderCatalog

            remote = self._location.startswith("s3://")
            store = S3(self.options) if remote else Disk()
            self._catalog = FolderCatalog(self._location, store)
        return self._catalog

    def _open_catalogue(self) -> Any:
        from pyiceberg.catalog import load_catalog

        given = {"s3.endpoint": self.options.s3_endpoint, "s3.region": self.options.s3_region}
        try:
            return load_catalog(self._catalogue, **{k: v for k, v in given.items() if v})
        except Exception as error:  # whatever its kind raises
            raise UsageError(
                f"cannot open the catalogue {self._catalogue}: {_first_line(error)}",
                hint=opening_hint(self._catalogue, error),
            ) from None

    @contextmanager
    def _explained(self, what: str, *, missing: bool = False) -> Iterator[None]:
        """Enter a block that asks catalogue and store: what they answer is an error of ours.

        Args:
            missing: whoever asks knows what to do where there is no such file.
        """
        try:
            yield
        except RowfallError:
            raise
        except FileNotFoundError as error:
            if missing:
                raise
            raise TargetError(f"cannot {what} {self.name}: {_first_line(error)}") from None
        except PermissionError as error:
            raise TargetError(
                f"cannot {what} {self.name}: {error.strerror or error}",
                hint="The user needs to read and write the folder of the table.",
            ) from None
        except Exception as error:  # of a catalogue and its store, whatever they are
            hint = creation_hint(self._catalogue, error)
            raise TargetError(
                f"cannot {what} {self.name}: {_first_line(error)}",
                hint=hint or "Run the same command again when catalogue and store answer.",
                transient=hint is None,
            ) from error

    def _table(self) -> Table | None:
        """Return the table as it is now; None where there is none."""
        catalog = self._opened()
        with self._explained("read"):
            if not self._catalogue:
                found: Table | None = catalog.table()
                return found
            from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

            try:
                table: Table = catalog.load_table(self.name)
            except (NoSuchTableError, NoSuchNamespaceError):
                return None
            return table

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
        """See :class:`rowfall.engines.database.Database`."""
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
        asked = _order(self.options, metadata.schema()), _spec(self.options, metadata.schema())
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
        for each in table.metadata.schema().model_dump(by_alias=True)["fields"]:
            type_ = types.readable(_plain(each["type"]), required=bool(each["required"]))
            if type_ != types.UNREADABLE:
                columns.append((str(each["name"]), type_, ""))
            elif each["required"]:
                raise TargetError(
                    f"the column {each['name']} of {self.name} needs a value, and rowfall writes "
                    f"none of its type {each['type']}",
                    hint="Make it optional in the table.",
                )
        layout = self._layout(table)
        return ExistingTable(
            "", self.kind, layout.order_by, tuple(columns), layout.partition_by,
            _of_bytes(table.schema()),
        )  # fmt: skip

    def shown(self, declared: Sequence[str]) -> list[str]:
        """Return the same: the target says them as they are read."""
        return list(declared)

    def table_id(self) -> str:
        """See :class:`rowfall.engines.database.Database`."""
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
        """See :class:`rowfall.engines.database.FileTable`."""
        from pyiceberg.table.metadata import new_table_metadata

        schema = _schema(columns)
        spec, order = _spec(self.options, schema), _order(self.options, schema)
        catalog = self._opened()
        with self._explained("make"):
            if not self._catalogue:
                metadata = new_table_metadata(schema, spec, order, self._location, {})
                catalog.make(metadata)
            else:
                from pyiceberg.exceptions import NoSuchNamespaceError, TableAlreadyExistsError

                with suppress(TableAlreadyExistsError):
                    try:
                        catalog.create_table(
                            self.name, schema, partition_spec=spec, sort_order=order
                        )
                    except NoSuchNamespaceError:
                        raise TargetError(
                            f"the catalogue {self._catalogue} has no namespace "
                            f"{self.name.rpartition('.')[0]}",
                            hint="Make it first.",
                        ) from None
        self._uuid = ""
        self.table_id()

    def mend(self) -> None:
        """See :class:`rowfall.engines.database.FileTable`."""
        if not self._catalogue:
            self._opened().name_newest()

    # --- how rows are written ---------------------------------------------------------------------

    def of_bytes(self, columns: Sequence[Column]) -> frozenset[str]:
        """See :class:`rowfall.engines.database.FileTable`."""
        table = self._table()
        if table is None:
            return frozenset(column.name for column in columns if column.binary)
        return _of_bytes(table.schema())

    def layout(self) -> Layout:
        """See :class:`rowfall.engines.database.FileTable`."""
        return self._layout(self._there())

    def _layout(self, table: Table) -> Layout:
        metadata = table.metadata
        schema = metadata.schema()
        parts = [_sql_of(each, schema, self.name) for each in metadata.spec().fields]
        order = metadata.sort_order_by_id(metadata.default_sort_order_id)
        keys = []
        for each in order.fields if order is not None else ():
            name = sql.name(schema.find_column_name(each.source_id) or "")
            if str(each.transform) != "identity":
                continue  # rows that are sorted by the column are sorted by most of its transforms
            keys.append(f"{name} {each.direction.value.upper()} "
                        f"{each.null_order.value.replace('-', ' ').upper()}")  # fmt: skip
        return Layout(", ".join(keys), ", ".join(parts))

    def written(self, attempt: str, staging: Path) -> list[NewFile]:
        """See :class:`rowfall.engines.database.FileTable`."""
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
        """See :class:`rowfall.engines.database.FileTable`."""
        table = self._there()
        for one in files:
            with self._explained(f"write {one.name} of"):
                self._put(table, staging / one.local, one.name)
        return sum(one.size for one in files)

    def _put(self, table: Table, path: Path, name: str) -> None:
        if not self._catalogue:
            self._opened().store.put(path, name)
            return
        with path.open("rb") as data, table.io.new_output(name).create(overwrite=True) as out:
            while piece := data.read(8 << 20):
                out.write(piece)

    def remove(self, names: Sequence[str]) -> None:
        """See :class:`rowfall.engines.database.FileTable`."""
        table = self._table()
        if table is None:
            return
        for name in names:
            with suppress(FileNotFoundError), self._explained(f"remove {name} of", missing=True):
                table.io.delete(name)

    def relation(self) -> SqlText:
        """See :class:`rowfall.engines.database.FileTable`."""
        table = self._there()
        folder = _folder(table)
        # The state that is read here: an engine would look for the newest by itself.
        file = table.metadata_location.rpartition("/metadata/")[2]
        only = f", SETTINGS iceberg_metadata_file_path = {quote(f'metadata/{file}')})"
        scheme, mark, rest = folder.partition("://")
        if not mark:
            return SqlText.of(f"icebergLocal({quote(folder)}{only}")
        if scheme not in ("s3", "s3a", "s3n"):
            raise UsageError(
                f"{self.name} lies in {scheme}://, and tables there are not read back",
                hint="Ask it with the tools of its catalogue.",
            )
        named = table.io.properties
        options = replace(
            self.options, s3_endpoint=self.options.s3_endpoint or named.get("s3.endpoint"),
            s3_region=self.options.s3_region or named.get("s3.region"),
        )  # fmt: skip
        access, keys = s3_access.resolve(options), None
        if "s3.access-key-id" in named:
            token = named.get("s3.session-token")
            keys = s3_access.Keys(
                named["s3.access-key-id"], Secret(named["s3.secret-access-key"]),
                Secret(token) if token else None,
            )  # fmt: skip
        bucket, _, key = rest.partition("/")
        url = quote(s3_access.base_url(access, bucket) + uri.encode(f"{key}/"))
        signed = s3_access.signature(keys or access.keys())
        return SqlText.of(f"icebergS3({url}", *signed, only)

    # --- the record -------------------------------------------------------------------------------

    def _record(self, table: Table) -> _Record:
        """Read what is loaded.

        Raises:
            TargetError: a file of the record is gone.
        """
        name = table.metadata.properties.get(PROPERTY, "")
        parts: list[Mapping[str, _Load]] = []
        before = ""
        while name:
            with self._explained(f"read the record {name} of", missing=True):
                try:
                    data = json.loads(self._read(table, name))
                except FileNotFoundError:
                    raise TargetError(
                        f"the record of what is loaded into {self.name} is gone: {name}",
                        hint=f"Put it back. Without its property {PROPERTY} the table counts as "
                        "one that nothing was loaded into.",
                    ) from None
            parts.append({
                load: _Load(tuple(one["attempts"]), tuple(one["splits"]), one["rows"], one["at"])
                for load, one in data["loads"].items()
            })  # fmt: skip
            name = data["before"]
            before = before if len(parts) > 1 else name
        newest = table.metadata.properties.get(PROPERTY, "")
        return _Record(newest, parts[0] if parts else {}, before, tuple(parts[1:]))

    def _read(self, table: Table, name: str) -> bytes:
        if not self._catalogue:
            return bytes(self._opened().store.read(name))
        with table.io.new_input(name).open() as file:
            return file.read()

    def _write_record(self, table: Table, loads: Mapping[str, _Load], before: str) -> str:
        name = f"{_folder(table)}/{FOLDER}/{uuid.uuid4().hex}.json"
        data = json.dumps({"before": before, "loads": {
            load: {"attempts": one.attempts, "splits": one.ids, "rows": one.rows, "at": one.at}
            for load, one in loads.items()
        }}).encode()  # fmt: skip
        with self._explained(f"write the record {name} of"):
            if not self._catalogue:
                from rowfall.systems.lakes.folder_catalogue import Disk, check_creates

                store = self._opened().store
                store.create(name, data)
                if not isinstance(store, Disk):
                    check_creates(store, name, data)
            else:
                with table.io.new_output(name).create(overwrite=True) as out:
                    out.write(data)
        return name

    def landed(self) -> set[str]:
        """See :class:`rowfall.engines.database.Database`."""
        table = self._table()
        return self._record(table).ids() if table is not None else set()

    def landed_by(self, load: str) -> set[str]:
        """See :class:`rowfall.engines.database.FileTable`."""
        table = self._table()
        if table is None:
            return set()
        loads = self._record(table).loads()
        return {id_ for name, one in loads if name == load for id_ in one.ids}

    def settled(self, attempt: str) -> bool:
        """See :class:`rowfall.engines.database.Database`."""
        table = self._table()
        if table is None:
            return False
        return any(attempt in one.attempts for _, one in self._record(table).loads())

    def forget(self, load_id: str) -> int:
        """See :class:`rowfall.engines.database.Database`."""
        self.check(dry=True)
        gone = 0

        def without(record: _Record) -> tuple[dict[str, _Load], str]:
            nonlocal gone
            gone = sum(len(one.ids) for name, one in record.loads() if name == load_id)
            kept: dict[str, _Load] = {}
            for name, one in record.loads():
                if name != load_id:
                    kept[name] = _joined(kept.get(name), one)
            return kept, ""

        if self._table() is not None and self.landed_by(load_id):
            self._commit(without, (), replace=False, summary={})
        return gone

    def unrecorded(self) -> bool:
        """See :meth:`rowfall.engines.database.Database.unrecorded`."""
        table = self._table()
        if table is None or PROPERTY in table.metadata.properties:
            return False
        snapshot = table.current_snapshot()
        if snapshot is None:
            return False
        summary = snapshot.summary
        return summary is None or summary.additional_properties.get("total-records") != "0"

    def accept(self) -> None:
        """See :meth:`rowfall.engines.database.Database.accept`."""
        now = datetime.now(UTC).isoformat(timespec="seconds")

        def accepted(record: _Record) -> tuple[dict[str, _Load], str]:
            return {**record.head, ACCEPTED: _Load((), (ACCEPTED,), 0, now)}, record.before

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
        """See :class:`rowfall.engines.database.FileTable`."""
        rows = sum(one.rows for one in files)
        now = datetime.now(UTC).isoformat(timespec="seconds")

        def with_ours(record: _Record) -> tuple[dict[str, _Load], str]:
            if any(attempt in one.attempts for _, one in record.loads()):
                raise _DoneError
            own = _Load((attempt,), tuple(ids), rows, now)
            if replace:
                return {load: own}, ""
            if taken := overlap(ids, record.ids()):
                raise TakenError(frozenset(taken))
            if sum(len(one.ids) for one in record.head.values()) >= _FULL:
                return {load: own}, record.name
            return {**record.head, load: _joined(record.head.get(load), own)}, record.before

        with suppress(_DoneError):
            self._commit(with_ours, files, replace=replace, summary={
                "rowfall.load": load, "rowfall.attempt": attempt, "rowfall.splits": str(len(ids)),
            })  # fmt: skip

    def _commit(
        self, change: Any, files: Sequence[NewFile], *, replace: bool, summary: Mapping[str, str]
    ) -> None:  # fmt: skip
        """Commit files and a new record, again where another one commits at the same time."""
        from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

        described: tuple[Any, list[DataFile]] | None = None
        until, pause = time.monotonic() + self._patience, _PAUSE[0]
        while True:
            table = self._there()
            record = self._record(table)
            loads, before = change(record)
            if described is None or described[0] != table.metadata.default_spec_id:
                described = table.metadata.default_spec_id, self._described(table, files)
            head = self._write_record(table, loads, before)
            try:
                self._try(table, described[1], head, replace=replace, summary=summary)
                return
            except CommitFailedException:
                with suppress(RowfallError, OSError):
                    table.io.delete(head)
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
                    f"the commit to {self.name} was not answered: {_first_line(error)}",
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
        """Return what the metadata says of files, which are looked at once more.

        Raises:
            TargetError: one is gone, or not as it was written.
        """
        with ThreadPoolExecutor(_READERS) as pool:
            return list(pool.map(lambda one: self._describe(table, one), files))

    def _describe(self, table: Table, one: NewFile) -> DataFile:
        from rowfall.systems.lakes.parquet_files import describe

        what = f"read {one.name} of"
        try:
            with self._explained(what, missing=True), self._reader(table, one.name) as file:
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

    @contextmanager
    def _reader(self, table: Table, name: str) -> Iterator[Any]:
        if self._catalogue:
            with table.io.new_input(name).open() as file:
                yield file
            return
        opened = self._opened().store.open(name)
        try:
            yield opened if hasattr(opened, "fileno") else _Seekable(opened)
        finally:
            opened.close()

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


class _Seekable:
    """A reader of an object as pyarrow wants it: it gives bytes."""

    closed = False

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def read(self, size: int = -1) -> bytes:
        return bytes(self._inner.read(size) if size >= 0 else self._inner.readall())

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._inner.seek(offset, whence))

    def tell(self) -> int:
        return int(self._inner.tell())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        """Leave it open: whoever has opened it closes it."""


def _joined(one: _Load | None, other: _Load) -> _Load:
    if one is None:
        return other
    return _Load(
        (*one.attempts, *other.attempts), tuple(dict.fromkeys((*one.ids, *other.ids))),
        one.rows + other.rows, max(one.at, other.at),
    )  # fmt: skip


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


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


# --- schema, partitions, order --------------------------------------------------------------------


def _plain(type_: Any) -> Any:
    """Return a type of pyiceberg as the metadata writes it."""
    if isinstance(type_, Mapping):
        return {key: _plain(value) for key, value in type_.items()}
    if isinstance(type_, list | tuple):
        return [_plain(one) for one in type_]
    return type_ if isinstance(type_, bool | int) else str(type_)


def _schema(columns: Sequence[Column]) -> Schema:
    """Return the schema of a new table."""
    from pyiceberg.schema import Schema

    fields = []
    for column in columns:
        found = types.stored(column.type, binary=column.binary)
        fields.append({"id": 0, "name": column.name, "required": found.required,
                       "type": found.type})  # fmt: skip
    numbered = _numbered({"type": "struct", "fields": fields}, iter(range(1, 1 << 30)))
    return Schema.model_validate({**numbered, "schema-id": 0})


def _of_bytes(schema: Schema) -> frozenset[str]:
    """Return the names of columns that take any bytes."""
    from pyiceberg.types import BinaryType, FixedType

    kinds = BinaryType | FixedType
    return frozenset(f.name for f in schema.fields if isinstance(f.field_type, kinds))


def _numbered(type_: Any, numbers: Iterator[int]) -> Any:
    """Return a type with ids: those of all fields of a struct, then those inside of them."""
    if not isinstance(type_, Mapping):
        return type_
    if type_["type"] == "struct":
        fields = [{**each, "id": next(numbers)} for each in type_["fields"]]
        return {**type_, "fields": [
            {**each, "type": _numbered(each["type"], numbers)} for each in fields
        ]}  # fmt: skip
    found = dict(type_)
    inner = [name for name in ("element", "key", "value") if name in found]
    for name in inner:
        found[f"{name}-id"] = next(numbers)
    return {**found, **{name: _numbered(found[name], numbers) for name in inner}}


def _items(text: str) -> list[str]:
    words = sql.tokens(text.strip())
    if words[:1] == ["("] and sql.closing(words, 0) == len(words) - 1:
        words = words[1:-1]
    return sql.items(words)


def _field_of(word: str, schema: Schema, flag: str) -> Any:
    name = sql.identifier(word)
    names = [each.name for each in schema.fields]
    if name not in names:
        raise UsageError(
            f"{flag} {word} is no column of the table",
            hint=f"{did_you_mean(name or word, names)}Columns: {', '.join(names[:20])}.",
        )
    return schema.find_field(name)


def _order(options: Options, schema: Schema) -> Any:
    """Return the sort order that ``--order-by`` asks for.

    Raises:
        UsageError: it is more than columns.
    """
    from pyiceberg.table.sorting import (
        UNSORTED_SORT_ORDER,
        NullOrder,
        SortDirection,
        SortField,
        SortOrder,
    )
    from pyiceberg.transforms import IdentityTransform

    fields = []
    for item in _items(options.order_by or ""):
        words = [w for w in sql.tokens(item) if not w.isspace()]
        down = [w.upper() for w in words[1:]] == ["DESC"]
        if len(words) > 2 or (len(words) == 2 and not down and words[1].upper() != "ASC"):
            raise UsageError(
                f"--order-by {item}: the order of an Iceberg table is one of columns",
                hint="Name columns, each with ASC or DESC behind it if you want.",
            )
        found = _field_of(words[0], schema, "--order-by")
        fields.append(SortField(
            found.field_id, IdentityTransform(),
            SortDirection.DESC if down else SortDirection.ASC,
            NullOrder.NULLS_LAST if down else NullOrder.NULLS_FIRST,
        ))  # fmt: skip
    return SortOrder(*fields, order_id=1) if fields else UNSORTED_SORT_ORDER


def _spec(options: Options, schema: Schema) -> Any:
    """Return the partitions that ``--partition-by`` asks for.

    Raises:
        UsageError: Iceberg has no such transform, or none of this type.
    """
    from pyiceberg.partitioning import (
        UNPARTITIONED_PARTITION_SPEC,
        PartitionField,
        PartitionSpec,
    )
    from pyiceberg.transforms import parse_transform

    fields: list[PartitionField] = []
    for item in _items(options.partition_by or ""):
        words = [w for w in sql.tokens(item) if not w.isspace()]
        name, given = "identity", words
        if len(words) > 1:
            name = _WORDS.get(words[0], words[0].lower())
            given = [w for w in words[2:-1] if w != ","] if words[1] == "(" else words
        number = next((w for w in given if w.isdigit()), "")
        columns = [w for w in given if not w.isdigit()]
        sized = name in ("bucket", "truncate")
        if name not in _TRANSFORMS or len(columns) != 1 or bool(number) != sized:
            raise UsageError(
                f"--partition-by {item}: Iceberg has no such transform",
                hint="It has column, year(t), month(t), day(t), hour(t), bucket(16, column) and "
                "truncate(4, column).",
            )
        found = _field_of(columns[0], schema, "--partition-by")
        transform = parse_transform(f"{name}[{number}]" if sized else name)
        floating = str(found.field_type) in ("float", "double")
        if not transform.can_transform(found.field_type) or floating:
            raise UsageError(
                f"--partition-by {item}: {found.name} is a {found.field_type}, which {name} does "
                "not take",
                hint="Times take year, month, day and hour; whole numbers and text bucket and "
                "truncate.",
            )
        end = "" if name == "identity" else f"_{'trunc' if name == 'truncate' else name}"
        fields.append(PartitionField(
            source_id=found.field_id, field_id=1000 + len(fields), transform=transform,
            name=f"{found.name}{end}",
        ))  # fmt: skip
    return PartitionSpec(*fields, spec_id=0) if fields else UNPARTITIONED_PARTITION_SPEC


def _sql_of(each: PartitionField, schema: Schema, table: str) -> str:
    """Return SQL of the engine that is the same for rows of one partition, and only for them.

    Raises:
        TargetError: the engine has no such transform.
    """
    found = schema.find_field(each.source_id)
    x = sql.name(schema.find_column_name(each.source_id) or "")
    text = str(each.transform)
    word, _, number = text.rstrip("]").partition("[")
    if word == "void":
        return "1"
    if word == "identity":
        return x
    if word == "bucket":
        return f"icebergBucket({int(number)}, {x})"
    if word == "truncate":
        return f"icebergTruncate({int(number)}, {x})"
    if word == "year":
        return f"toYear({x})"
    if word == "month":
        return f"toYear({x}) * 12 + toMonth({x})"
    if word == "day" and str(found.field_type) == "date":
        return x
    if word in _MICROSECONDS:
        # Rounded down, also before 1970: functions of the engine clip what is far from today.
        moment, step = f"toUnixTimestamp64Micro({x})", _MICROSECONDS[word]
        return f"{moment} - positiveModulo({moment}, {step})"
    raise TargetError(
        f"{table} is partitioned by {text}({x}), which rowfall does not know",
        hint="Load into a table with other partitions.",
    )
