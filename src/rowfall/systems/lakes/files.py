"""Files of a table of a lake: where they lie, and who may read and write them.

Sources read by :class:`LakeStore`, which is what reads files of that place in any load. The target
reads and writes by :class:`TableFiles`: this disk, S3, or what a catalogue gives access to.
"""

from __future__ import annotations

import copy
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, cast

from rowfall.core import disk, s3_access, sql, uri
from rowfall.core.errors import RowfallError, SourceError, TargetError, UsageError
from rowfall.core.listing import Split
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.stores.s3_clients import open_store as open_bucket

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from rowfall.stores.files import LocalFiles
    from rowfall.stores.object_stores import StoreSource
    from rowfall.stores.s3 import S3

# --- names and addresses -------------------------------------------------------------------------

_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_AZURE = regex(r"(?:abfss?|wasbs?)://([^@/]+)@[^/]+/(.*)")


def plain_name(location: str) -> str:
    """Return a location out of a table's metadata as rowfall names it: a path, or a URI.

    Iceberg's locations are no encoded URIs: ``city=S%C3%A3o`` is the name of a folder. Where there
    is none of that name, the writer has encoded it all the same.
    """
    if location.startswith("file:"):
        path = "/" + location[5:].lstrip("/")
        if "%" in path and not os.path.exists(path):
            return uri.file_path(f"file://{path}")
        return path
    if found := _AZURE.fullmatch(location):
        return f"az://{found[1]}/{found[2]}"
    scheme, mark, rest = location.partition("://")
    return f"{_ALIASES.get(scheme, scheme)}://{rest}" if mark else location


def folder_of(text: str) -> str:
    """Return the folder that ``iceberg+...`` or ``delta+...`` names, as its files are named."""
    address = uri.lake_address(text)
    if uri.scheme_of(address) == uri.FILE:
        return os.path.abspath(os.path.expanduser(uri.file_path(address)))
    return address.rstrip("/")


def with_store(options: Options, properties: Mapping[str, Any]) -> Options:
    """Return the options with the store's address that a catalogue gives, where none is given."""
    return replace(
        options,
        s3_endpoint=options.s3_endpoint or properties.get("s3.endpoint"),
        s3_region=options.s3_region or properties.get("s3.region"),
    )


def catalogue_keys(properties: Mapping[str, Any]) -> s3_access.Keys | None:
    """Return the keys that a catalogue hands out; None where it has none."""
    if "s3.access-key-id" not in properties:
        return None
    token = properties.get("s3.session-token")
    return s3_access.Keys(
        properties["s3.access-key-id"], Secret(properties["s3.secret-access-key"]),
        Secret(token) if token else None,
    )  # fmt: skip


def engine_table(
    functions: tuple[str, str], folder: str, metadata: str, access: s3_access.Access | None,
    keys: s3_access.Keys | None = None,
) -> SqlText:  # fmt: skip
    """Return the engine's function for a whole table.

    Args:
        functions: its name for local folders, and for S3.
        metadata: the file below the folder that says what the table is, "" for the newest.
        access: of S3, None for a local folder. ``keys``: besides those of ``access``.
    """
    only = sql.settings_clause({"iceberg_metadata_file_path": metadata} if metadata else {})
    end = f",{only})" if only else ")"
    if access is None:
        return SqlText.of(f"{functions[0]}({quote(folder)}{end}")
    bucket, _, key = folder.partition("://")[2].partition("/")
    url = quote(s3_access.base_url(access, bucket) + uri.encode(key.rstrip("/") + "/"))
    signed = s3_access.signature(keys or access.keys())
    return SqlText.of(f"{functions[1]}({url}", *signed, end)


# --- reading -------------------------------------------------------------------------------------


def open_store(address: str, options: Options) -> LakeStore:
    """Return the store of a table by the address of its folder.

    Raises:
        UsageError: tables in such a place cannot be read.
    """
    from rowfall.sources import open_source

    scheme = uri.scheme_of(address)
    if scheme not in (uri.FILE, "s3", "gs", "az"):
        raise UsageError(
            f"lake tables are read from local folders, s3://, gs:// and az://, not {scheme}://",
            hint="Write iceberg+s3://bucket/path/table, or delta+/path/table.",
        )
    plain = replace(options, snapshot=None, since=None)
    return LakeStore(cast("LocalFiles | StoreSource", open_source([address], plain)))


class LakeStore:
    """Reads the files of a table's metadata, where its data files lie, too."""

    def __init__(self, source: LocalFiles | StoreSource) -> None:
        self.source = source

    def size(self, name: str) -> int | None:
        """Return the bytes of a file, None where there is none.

        Raises:
            SourceError: it cannot be asked for.
        """
        return self.source.size_of(name)

    def read(self, name: str) -> bytes:
        """Return a whole file of metadata.

        Raises:
            SourceError: it is not there, or cannot be read.
        """
        size = self.size(name)
        if size is None:
            raise SourceError(f"cannot read {name}: there is no such file", hint=_EXPIRED)
        store = copy.copy(self.source)
        store.pinned = False
        return store.part(Split("", name, "", size), 0, size)

    def names(self, folder: str) -> list[str]:
        """Return the names of the files right below a folder, sorted; [] where there is none.

        Raises:
            SourceError: it cannot be listed.
        """
        return sorted(self.source.names_in(folder))


_EXPIRED = (
    "Metadata of the table is missing: a snapshot that was expired, or a table that was copied "
    "or removed in part."
)


def is_s3(store: LocalFiles | StoreSource) -> TypeGuard[S3]:
    if not store.remote:
        return False  # the import takes 10 ms that tables here save
    from rowfall.stores.s3 import S3

    return isinstance(store, S3)


# --- writing -------------------------------------------------------------------------------------

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


class NameTaken(Exception):  # noqa: N818 - an answer, no failure
    """There is a file of that name already."""


class TableFiles(Protocol):
    """Files of a table by their names: paths, or ``s3://bucket/key``."""

    def read(self, name: str) -> bytes:
        """Return a whole file.

        Raises:
            FileNotFoundError: there is none.
        """

    def open(self, name: str) -> Any:
        """Return a file that pyarrow reads; the caller closes it."""

    def create(self, name: str, data: bytes) -> None:
        """Write a file that is not there, in one step.

        Raises:
            Taken: it is there.
        """

    def check_creates(self, name: str, data: bytes) -> None:
        """Check that :meth:`create` refuses to make a file that is there, where one may doubt it.

        Args:
            name, data: of a file that was just made.

        Raises:
            TargetError: it does not: two commits at once would lose one of them.
        """

    def put(self, path: Path, name: str) -> None:
        """Bring a finished local file to its place; it may be moved."""

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""


class FolderFiles(TableFiles, Protocol):
    """The same of a folder that is the table, with what its metadata needs besides."""

    def size(self, name: str) -> int | None: ...
    def names(self, folder: str) -> list[str]: ...
    def write(self, name: str, data: bytes) -> None: ...


class DiskFiles:
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
            raise NameTaken from None

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

    def check_creates(self, name: str, data: bytes) -> None:
        """Do nothing: links do."""

    def put(self, path: Path, name: str) -> None:
        final = Path(name)
        disk.make_folder(final.parent)
        disk.sync_file(path)
        path.replace(final)
        disk.sync_folder(final.parent)

    def remove(self, name: str) -> None:
        Path(name).unlink(missing_ok=True)


class S3Files:
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
                self._opened[bucket, keys] = open_bucket(bucket, self._access, keys, _PATIENCE)
            return self._opened[bucket, keys], key

    @contextmanager
    def _explained(self, what: str, name: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (FileNotFoundError, RowfallError, NameTaken):
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
            if hasattr(store, "open_reader"):  # of keys with a token
                return _Seekable(store.open_reader(key, buffer_size=256 << 10))
            return _Seekable(obstore.open_reader(store, key, buffer_size=256 << 10))

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
                    raise NameTaken from None

    def check_creates(self, name: str, data: bytes) -> None:
        try:
            self.create(name, data + b" ")
        except NameTaken:
            return
        self.write(name, data)
        raise TargetError(
            f"the store of {name} ignores If-None-Match: two commits at the same time would lose "
            "one",
            hint="Load through a catalogue (iceberg://CATALOG/namespace.table), or into a newer "
            "store.",
        )

    def put(self, path: Path, name: str) -> None:
        store, key = self._at(name)
        with self._explained("write", name):
            store.put(key, path)  # in parts, several at once, and none of it in memory as a whole

    def remove(self, name: str) -> None:
        store, key = self._at(name)
        with self._explained("remove", name), suppress(FileNotFoundError):
            store.delete(key)


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
        self._inner.close()


class CatalogueFiles:
    """Files as a catalogue gives access to them, by pyiceberg."""

    def __init__(self, io: FileIO) -> None:
        self._io = io

    def read(self, name: str) -> bytes:
        with self._io.new_input(name).open() as file:
            return file.read()

    def open(self, name: str) -> Any:
        return self._io.new_input(name).open()

    def create(self, name: str, data: bytes) -> None:
        """Write a file whose name nobody else has: what has to be made once, the catalogue does."""
        with self._io.new_output(name).create(overwrite=True) as out:
            out.write(data)

    def check_creates(self, name: str, data: bytes) -> None:
        """Do nothing: the catalogue lets one commit win."""

    def put(self, path: Path, name: str) -> None:
        with path.open("rb") as data, self._io.new_output(name).create(overwrite=True) as out:
            while piece := data.read(8 << 20):
                out.write(piece)

    def remove(self, name: str) -> None:
        self._io.delete(name)
