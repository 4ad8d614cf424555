"""Tables of Iceberg that no catalogue knows: a folder, and the numbers of its metadata files.

This is the convention of Hadoop tables, which Spark, ClickHouse, DuckDB and others read by the
folder alone: ``metadata/vN.metadata.json``, the highest N is the table, and
``metadata/version-hint.text`` says about which one that is. A commit makes the file of the next
number where there is none: of two that try, one is told so. On disks a hard link does that, in S3
a PUT with ``If-None-Match: *``; a store that ignores the condition is found out and refused.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.serializers import FromByteStream, ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.update import update_table_metadata

from rowfall.core.errors import RowfallError, TargetError
from rowfall.core.patterns import regex
from rowfall.systems.lakes import record
from rowfall.systems.lakes.files import FolderFiles, NameTaken

_HINT = "version-hint.text"
# Commits of others between two looks; each of them takes seconds, a look milliseconds.
_MOST_HINTS = 10
_VERSION = regex(r"v(\d+)\.metadata\.json")
_OTHER = regex(r"\d+-.*\.metadata\.json|v\d+.*\.metadata\.json.*")


# --- files as pyiceberg asks for them -------------------------------------------------------------


class Files(FileIO):
    """Reads and writes metadata of a table through a store."""

    def __init__(self, store: FolderFiles) -> None:
        super().__init__({})
        self.store = store

    def new_input(self, location: str) -> InputFile:
        return _File(location, self.store)

    def new_output(self, location: str) -> OutputFile:
        return _File(location, self.store)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.store.remove(location if isinstance(location, str) else location.location)


class _WrittenMetadata(io.BytesIO):
    """Bytes that are written as one file when they are closed."""

    def __init__(self, location: str, write: Callable[[str, bytes], None]) -> None:
        super().__init__()
        self._location, self._write_file = location, write

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._write_file(self._location, data)


class _File(InputFile, OutputFile):
    def __init__(self, location: str, store: FolderFiles) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return self._store.size(self.location) or 0

    def exists(self) -> bool:
        return self._store.size(self.location) is not None

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._store.read(self.location))

    def to_input_file(self) -> InputFile:
        return self

    def create(self, overwrite: bool = False) -> Any:
        return _WrittenMetadata(self.location, self._store.write)


class _New(_File):
    """A file that nobody else has made, or :class:`NameTaken`."""

    def create(self, overwrite: bool = False) -> Any:
        return _WrittenMetadata(self.location, self._store.create)


# --- the table ------------------------------------------------------------------------------------


class FolderCatalog(NoopCatalog):
    """The one table of a folder; see the top of this file."""

    def __init__(self, location: str, store: FolderFiles) -> None:
        super().__init__("folder")
        self.location, self.store, self.io = location, store, Files(store)

    def _path(self, version: int) -> str:
        return f"{self.location}/metadata/v{version}.metadata.json"

    def _version(self) -> int:
        """Return the highest version; 0 where there is no table.

        Raises:
            TargetError: the table is one of a catalogue.
        """
        folder = f"{self.location}/metadata"
        names = self.store.names(folder)
        found = [int(match[1]) for name in names if (match := _VERSION.fullmatch(name))]
        others = [name for name in names if _OTHER.fullmatch(name) and not _VERSION.fullmatch(name)]
        if others:
            raise TargetError(
                f"the table in {self.location} is one of a catalogue, or packed ({max(others)}): a "
                "commit beside the catalogue would make two tables of it",
                hint="Name it by its catalogue: --to iceberg://CATALOG/namespace.table",
            )
        return max(found, default=0)

    def table(self) -> Table | None:
        """Return the table as it is now; None where there is none.

        Raises:
            TargetError: its metadata cannot be read.
        """
        version = self._version()
        if not version:
            return None
        path = self._path(version)
        try:
            metadata = FromByteStream.table_metadata(io.BytesIO(self.store.read(path)))
        except FileNotFoundError:
            raise TargetError(f"{path} is gone", transient=True) from None
        except ValueError as error:
            raise TargetError(
                f"cannot read {path}: no metadata of an Iceberg table ({error})"[:300],
                hint="Remove it if it is none, or name another folder.",
            ) from None
        return Table(("folder", "table"), metadata, path, self.io, self)

    def files(self, table: Table) -> FolderFiles:
        return self.store

    def make(self, schema: Any, spec: Any, order: Any) -> None:
        """Make the table; another one may make it at the same time, then that one is it."""
        metadata = new_table_metadata(schema, spec, order, self.location, {})
        with suppress(NameTaken):
            self._write(1, metadata)

    def load_table(self, identifier: Any) -> Table:
        found = self.table()
        if found is None:
            raise TargetError(f"the table in {self.location} is gone")
        return found

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        version = int(_VERSION.fullmatch(table.metadata_location.rpartition("/")[2])[1])  # type: ignore[index]
        for requirement in requirements:
            requirement.validate(table.metadata)
        metadata = update_table_metadata(
            table.metadata, updates, metadata_location=table.metadata_location
        )
        try:
            self._write(version + 1, metadata)
        except NameTaken:
            raise CommitFailedException(f"version {version + 1} is there already") from None
        named: dict[str, Any] = {"metadata-location": self._path(version + 1)}
        return CommitTableResponse(metadata=metadata, **named)

    def _write(self, version: int, metadata: TableMetadata) -> None:
        ToOutputFile.table_metadata(metadata, _New(self._path(version), self.store))
        self.name_newest()

    def erase(self) -> None:
        for below in ("data", "metadata", record.FOLDER):
            folder = f"{self.location}/{below}"
            for name in self.store.names(folder):
                self.store.remove(f"{folder}/{name}")

    def name_newest(self) -> None:
        """Name the newest version in the hint, from which readers start that cannot list.

        It is behind where the one that made the version was killed before this. Another one may
        commit meanwhile and have its hint replaced by an older one: so it is looked at again until
        it names the newest.
        """
        name = f"{self.location}/metadata/{_HINT}"
        with suppress(RowfallError, OSError):
            for _ in range(_MOST_HINTS):
                version = self._version()
                try:
                    known = self.store.read(name).strip()
                except FileNotFoundError:
                    known = b"0"
                if not version or (known.isdigit() and int(known) >= version):
                    return
                self.store.write(name, str(version).encode())
