"""Tables of Iceberg that no catalogue knows: a folder, and the numbers of its metadata files.

This is the convention of Hadoop tables, which Spark, ClickHouse, DuckDB and others read by the
folder alone: ``metadata/vN.metadata.json``, the highest N is the table, and
``metadata/version-hint.text`` says about which one that is. A commit makes the file of the next
number where there is none: of two that try, one is told so. On disks a hard link does that, in S3
a PUT with ``If-None-Match: *``; a store that ignores the condition is found out and refused.
"""

from __future__ import annotations

import io
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.serializers import FromByteStream, ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import update_table_metadata

from rowfall.core import disk, s3_access
from rowfall.core.errors import RowfallError, TargetError
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.s3_requests import TokenStore
from rowfall.core.s3_stores import open_store

_HINT = "version-hint.text"
# Commits of others between two looks; each of them takes seconds, a look milliseconds.
_MOST_HINTS = 10
_VERSION = regex(r"v(\d+)\.metadata\.json")
_OTHER = regex(r"\d+-.*\.metadata\.json|v\d+.*\.metadata\.json.*")
# One that is away is an error after some 10 s, not after minutes; a file of data takes longer.
_PATIENCE: dict[str, Any] = {
    "client_options": {"allow_http": True, "connect_timeout": "3s", "timeout": "60s"},
    "retry_config": {
        "max_retries": 3,
        "retry_timeout": timedelta(seconds=30),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1),
            "base": 2,
        },
    },
}  # fmt: skip


class Taken(Exception):  # noqa: N818 - an answer, no failure
    """There is a file of that name already."""


class Store(Protocol):
    """Files by their names: paths, or ``s3://bucket/key``."""

    def read(self, name: str) -> bytes:
        """Return a whole file.

        Raises:
            FileNotFoundError: there is none.
        """

    def size(self, name: str) -> int | None: ...
    def open(self, name: str) -> Any: ...
    def names(self, folder: str) -> list[str]: ...
    def write(self, name: str, data: bytes) -> None: ...

    def create(self, name: str, data: bytes) -> None:
        """Write a file that is not there, in one step.

        Raises:
            Taken: it is there.
        """

    def put(self, path: Path, name: str) -> None:
        """Bring a finished local file to its place; it may be moved."""

    def remove(self, name: str) -> None:
        """Remove a file; harmless where there is none."""


class Disk:
    """Files on this machine; what is written is on disk when it returns."""

    def read(self, name: str) -> bytes:
        return Path(name).read_bytes()

    def size(self, name: str) -> int | None:
        with suppress(FileNotFoundError):
            return os.stat(name).st_size
        return None

    def open(self, name: str) -> Any:
        return open(name, "rb")

    def names(self, folder: str) -> list[str]:
        with suppress(FileNotFoundError):
            return os.listdir(folder)
        return []

    def write(self, name: str, data: bytes) -> None:
        self._write(Path(name), data, lambda made: made.replace(name))

    def create(self, name: str, data: bytes) -> None:
        try:
            # A link is made in one step where there is no such name; rename() would replace it.
            self._write(Path(name), data, lambda made: os.link(made, name))
        except FileExistsError:
            raise Taken from None

    def _write(self, path: Path, data: bytes, name_it: Callable[[Path], object]) -> None:
        disk.make_folder(path.parent)
        made = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            made.write_bytes(data)
            disk.sync_file(made)
            name_it(made)
            disk.sync_folder(path.parent)
        finally:
            made.unlink(missing_ok=True)

    def put(self, path: Path, name: str) -> None:
        final = Path(name)
        disk.make_folder(final.parent)
        disk.sync_file(path)
        path.replace(final)
        disk.sync_folder(final.parent)

    def remove(self, name: str) -> None:
        Path(name).unlink(missing_ok=True)


class S3:
    """Objects of S3, by obstore; keys may be renewed while it is open."""

    def __init__(self, options: Options) -> None:
        self._access = s3_access.resolve(options)
        self._guard = threading.Lock()
        self._opened: dict[tuple[str, object], Any] = {}

    def _at(self, name: str) -> tuple[Any, str]:
        bucket, _, key = name.partition("://")[2].partition("/")
        keys = self._access.keys()
        with self._guard:
            if (bucket, keys) not in self._opened:
                self._opened[bucket, keys] = open_store(bucket, self._access, keys, _PATIENCE)
            return self._opened[bucket, keys], key

    @contextmanager
    def _explained(self, what: str, name: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (FileNotFoundError, RowfallError, Taken):
            raise
        except (BaseError, OSError, ValueError) as error:
            text = str(error)
            code = re.search(r"<Code>(\w+)</Code>", text)
            if code and code[1] == "NoSuchBucket":
                raise TargetError(
                    f"cannot {what} {name}: there is no such bucket at {self._access.where}",
                    hint="Make it first, or check --s3-endpoint (AWS_ENDPOINT_URL).",
                ) from None
            denied = isinstance(error, PermissionError) or (code and "Denied" in code[1]) or any(
                mark in text for mark in ("403", "SignatureDoesNotMatch", "InvalidAccessKeyId")
            )  # fmt: skip
            if denied:
                why = code[1] if code else "403"
                raise TargetError(
                    f"cannot {what} {name}: access denied by {self._access.where} ({why})",
                    hint="The keys need s3:GetObject, s3:PutObject, s3:DeleteObject, s3:ListBucket "
                    "and s3:AbortMultipartUpload.",
                ) from None
            raise TargetError(
                f"cannot {what} {name}: {self._access.where} does not answer "
                f"({text.splitlines()[0][:200] if text else type(error).__name__})",
                hint="Run the same command again when it is back: what is written stays.",
                transient=True,
            ) from None

    def read(self, name: str) -> bytes:
        store, key = self._at(name)
        with self._explained("read", name):
            return bytes(store.get(key).bytes())

    def size(self, name: str) -> int | None:
        store, key = self._at(name)
        try:
            with self._explained("read", name):
                return int(store.head(key)["size"])
        except FileNotFoundError:
            return None

    def open(self, name: str) -> Any:
        import obstore

        store, key = self._at(name)
        with self._explained("read", name):
            if isinstance(store, TokenStore):
                return store.open_reader(key, buffer_size=256 << 10)
            return obstore.open_reader(store, key, buffer_size=256 << 10)

    def names(self, folder: str) -> list[str]:
        store, key = self._at(folder)
        with self._explained("list", folder):
            found = store.list_with_delimiter(f"{key}/")
        return [item["path"].rpartition("/")[2] for item in found["objects"]]

    def write(self, name: str, data: bytes) -> None:
        store, key = self._at(name)
        with self._explained("write", name):
            store.put(key, data)

    def create(self, name: str, data: bytes) -> None:
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        store, key = self._at(name)
        with self._explained("write", name):
            try:
                store.put(key, data, mode="create", use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                # The client tries again when an answer is lost: then it meets its own file.
                if bytes(store.get(key).bytes()) != data:
                    raise Taken from None

    def put(self, path: Path, name: str) -> None:
        store, key = self._at(name)
        with self._explained("write", name):
            store.put(key, path)  # in parts, several at once, and none of it in memory as a whole

    def remove(self, name: str) -> None:
        store, key = self._at(name)
        with self._explained("remove", name), suppress(FileNotFoundError):
            store.delete(key)


# --- files as pyiceberg asks for them -------------------------------------------------------------


class Files(FileIO):
    """Reads and writes metadata of a table through a store."""

    def __init__(self, store: Store) -> None:
        super().__init__({})
        self.store = store

    def new_input(self, location: str) -> InputFile:
        return _In(location, self.store)

    def new_output(self, location: str) -> OutputFile:
        return _Out(location, self.store)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.store.remove(location if isinstance(location, str) else location.location)


class _In(InputFile):
    def __init__(self, location: str, store: Store) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return self._store.size(self.location) or 0

    def exists(self) -> bool:
        return self._store.size(self.location) is not None

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._store.read(self.location))


class _Written(io.BytesIO):
    """Bytes that are written as one file when they are closed."""

    def __init__(self, location: str, store: Store) -> None:
        super().__init__()
        self._location, self._store = location, store

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._store.write(self._location, data)


class _Out(OutputFile):
    def __init__(self, location: str, store: Store) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return self._store.size(self.location) or 0

    def exists(self) -> bool:
        return self._store.size(self.location) is not None

    def to_input_file(self) -> InputFile:
        return _In(self.location, self._store)

    def create(self, overwrite: bool = False) -> Any:
        return _Written(self.location, self._store)


# --- the table ------------------------------------------------------------------------------------


class FolderCatalog(NoopCatalog):
    """The one table of a folder; see the top of this file."""

    def __init__(self, location: str, store: Store) -> None:
        super().__init__("folder")
        self.location, self.store, self.files = location, store, Files(store)

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
        return Table(("folder", "table"), metadata, path, self.files, self)

    def make(self, metadata: TableMetadata) -> None:
        """Make the table; another one may make it at the same time, then that one is it."""
        with suppress(Taken):
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
        except Taken:
            raise CommitFailedException(f"version {version + 1} is there already") from None
        named: dict[str, Any] = {"metadata-location": self._path(version + 1)}
        return CommitTableResponse(metadata=metadata, **named)

    def _write(self, version: int, metadata: TableMetadata) -> None:
        out = _Buffer(self._path(version))
        ToOutputFile.table_metadata(metadata, out)
        self.store.create(self._path(version), out.data)
        self.name_newest()

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


class _Buffer(OutputFile):
    """A file in memory."""

    data = b""

    def __len__(self) -> int:
        return len(self.data)

    def exists(self) -> bool:
        return False

    def to_input_file(self) -> InputFile:
        raise NotImplementedError

    def create(self, overwrite: bool = False) -> Any:
        outer = self

        class _Kept(io.BytesIO):
            def close(self) -> None:
                if not self.closed:
                    outer.data = self.getvalue()
                super().close()

        return _Kept()


def check_creates(store: Store, name: str, data: bytes) -> None:
    """Check that a store refuses to make a file that is there.

    Args:
        name, data: of a file that was just made.

    Raises:
        TargetError: it does not: two commits at once would lose one of them.
    """
    try:
        store.create(name, data + b" ")
    except Taken:
        return
    store.write(name, data)
    raise TargetError(
        f"the store of {name} ignores If-None-Match: two commits at the same time would lose one",
        hint="Load through a catalogue (iceberg://CATALOG/namespace.table), or into a newer store.",
    )
