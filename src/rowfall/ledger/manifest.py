"""The manifest of an export: which files it writes, from what, and whether that is all.

It lies beside the files, so it goes where they go, and another machine knows what this one has
written. Its name is hidden and has an end of its own: ``*.csv`` does not match it, nor does Spark
read it. Each change replaces the whole file in one step, after a look whether it is still the one
that was read: of two processes that change it at once, one is told so.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

from rowfall.core import disk, s3_access
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LedgerError, RowfallError, TargetError
from rowfall.core.listing import Split, joined
from rowfall.core.options import Options
from rowfall.stores.s3_clients import open_store

VERSION = 1
WRITING, WHOLE = "writing", "whole"

# A store that is away is an error after some 10 s; small objects take no longer.
_PATIENCE: dict[str, Any] = {
    "client_options": {"allow_http": True, "connect_timeout": "3s", "timeout": "9s"},
    "retry_config": {"max_retries": 2, "retry_timeout": timedelta(seconds=9)},
}

Range = tuple[str, str, int | None, int | None]
"""Name, version and range (of bytes, rows or offsets) of what was read; None for all of it."""


@dataclass(frozen=True, slots=True)
class Output:
    """One written file.

    Attributes:
        name: relative to the folder of the manifest.
        version: of the file, as :meth:`ManifestStore.version` says it; "" where there is no file.
    """

    name: str
    rows: int
    version: str
    sources: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The record of an export: what it is about to write, and what it has written.

    Attributes:
        layout: what makes files of the same rows other files: their number, format, columns, and
            which rows are chosen.
        state: ``writing`` until every row of the source is in some output, then ``whole``.
        load: id of the load that writes, or has written last.
        owner: the process that writes now, "" for none; see :mod:`rowfall.ledger.leases`.
        claims: names of all outputs. What is there under one of them while the export is
            ``writing`` is its own, also where a crash has kept it from recording that.
        reads: names of the objects whose rows these outputs are to hold.
        outputs: what was written, by name.
        stale: files of an earlier layout, name and version, that go when this one is complete.
    """

    layout: Mapping[str, Any]
    state: str = WRITING
    load: str = ""
    owner: str = ""
    claims: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    outputs: Mapping[str, Output] = field(default_factory=dict)
    stale: Mapping[str, str] = field(default_factory=dict)

    def with_output(self, output: Output) -> Manifest:
        """Return the manifest with one more output."""
        return replace(self, outputs={**self.outputs, output.name: output})

    @property
    def rows(self) -> int:
        """Return the rows of all outputs."""
        return sum(output.rows for output in self.outputs.values())

    def to_bytes(self) -> bytes:
        """Return the text of the file."""
        head = {
            "rowfall_export": VERSION,
            "about": "Written by rowfall beside the files of an export: what they hold. "
            "Keep it: without it, the export cannot go on or be verified.",
            "state": self.state, "rows": self.rows, "load": self.load, "owner": self.owner,
            "layout": self.layout, "stale": self.stale, "claims": self.claims, "reads": self.reads,
        }  # fmt: skip
        # A line for each file: people look at it, too.
        outputs = ",\n".join(
            json.dumps({"name": o.name, "rows": o.rows, "version": o.version, "sources": o.sources})
            for o in self.outputs.values()
        )
        text = f'{json.dumps(head)[:-1]},\n"outputs": [\n{outputs}\n]}}\n'
        return text.encode("utf-8", "surrogateescape")

    @staticmethod
    def of_bytes(data: bytes, name: str) -> Manifest:
        """Read the text of the file.

        Raises:
            LedgerError: it is damaged, or of a newer rowfall.
        """
        try:
            found = json.loads(data.decode("utf-8", "surrogateescape"))
            version = found["rowfall_export"]
            if version == VERSION:
                outputs = [
                    Output(
                        o["name"], int(o["rows"]), o["version"], tuple(map(_source, o["sources"]))
                    )
                    for o in found["outputs"]
                ]
                return Manifest(
                    found["layout"], found["state"], found["load"], found["owner"],
                    tuple(found["claims"]), tuple(found["reads"]),
                    {o.name: o for o in outputs}, found["stale"],
                )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LedgerError(
                f"the manifest {name} is damaged, so nobody knows what the files beside it hold",
                hint="Put it back from a backup, or overwrite the files with --replace.",
            ) from None
        raise LedgerError(
            f"the manifest {name} was written by a newer rowfall (format {version})",
            hint="Use that version, or write somewhere else.",
        )


def _source(found: Sequence[Any]) -> Range:
    name, version, start, stop = found
    return str(name), str(version), start, stop


def sources_of(splits: Iterator[Split] | Sequence[Split]) -> tuple[Range, ...]:
    """Return the files and ranges that splits read, with adjacent ranges joined."""
    ranges: dict[tuple[str, str], list[tuple[int, int]]] = {}
    whole: dict[tuple[str, str], None] = {}
    for split in splits:
        if split.start is None or split.stop is None:
            whole[split.uri, split.version] = None
        else:
            ranges.setdefault((split.uri, split.version), []).append((split.start, split.stop))
    found: list[Range] = [(name, version, None, None) for name, version in whole]
    for (name, version), own in ranges.items():
        found += [(name, version, start, stop) for start, stop in joined(own)]
    return tuple(sorted(found, key=lambda s: (s[0], s[1], s[2] is not None, s[2] or 0)))


# --- where it lies --------------------------------------------------------------------------------


class ManifestTakenError(LedgerError):
    """Another process has changed the manifest meanwhile."""


class ManifestStore(Protocol):
    """The folder or prefix that an export writes into."""

    def read(self, name: str) -> tuple[bytes, str] | None:
        """Return a small file and a tag that tells it from others; None where there is none."""

    def write(self, name: str, data: bytes, over: str | None) -> str:
        """Write a small file in one step, on disk when it returns; return its tag.

        Args:
            over: tag of the one that it replaces, None where there is none.

        Raises:
            TakenError: that is not what is there.
        """

    def version(self, name: str) -> str | None:
        """Return a file's version, which changes with the file; None where there is no file."""

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""

    def drop_unfinished(self, names: Collection[str]) -> None:
        """Remove what a killed export has sent of files, and nobody sees."""

    def is_held(self, name: str) -> bool | None:
        """Tell whether a process lives that has written a small file; None where nobody knows."""

    def release(self) -> None:
        """Let go of what was written: this process goes on, and does not write it any more."""


class ManifestFolder:
    """A folder on this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: int | None = None

    def read(self, name: str) -> tuple[bytes, str] | None:
        try:
            data = (self._path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failed("read", name, error) from None
        return data, blake2b(data, digest_size=16).hexdigest()

    def write(self, name: str, data: bytes, over: str | None) -> str:
        path = self._path / name
        made = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}")
        try:
            disk.make_folder(path.parent)
            with _locked(path.parent):
                there = self.read(name)
                if (there[1] if there else None) != over:
                    raise ManifestTakenError(
                        f"another rowfall has changed {path} meanwhile",
                        hint="Two exports write the same files: let one of them end first.",
                    )
                try:
                    made.write_bytes(data)
                    disk.sync_file(made)
                    # Before anybody sees it; what it replaces is let go behind that.
                    opened = os.open(made, os.O_RDONLY | os.O_CLOEXEC)
                    try:
                        disk.try_lock(opened)
                        made.replace(path)
                    except OSError:
                        os.close(opened)
                        raise
                    self.release()
                    self._held = opened
                finally:
                    made.unlink(missing_ok=True)
                disk.sync_folder(path.parent)
                return blake2b(data, digest_size=16).hexdigest()
        except OSError as error:
            raise self._failed("write", name, error) from None

    def version(self, name: str) -> str | None:
        try:
            found = (self._path / name).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failed("read", name, error) from None
        return f"{found.st_size}-{found.st_mtime_ns}"

    def remove(self, name: str) -> None:
        try:
            (self._path / name).unlink(missing_ok=True)
        except OSError as error:
            raise self._failed("remove", name, error) from None

    def drop_unfinished(self, names: Collection[str]) -> None:
        """Do nothing: the process that writes a hidden file removes those of dead ones."""

    def is_held(self, name: str) -> bool | None:
        while True:
            try:
                opened = os.open(self._path / name, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return None
            try:
                locked = disk.try_lock(opened, shared=True)
                there = os.stat(self._path / name)
                if locked is not True or os.path.samestat(there, os.fstat(opened)):
                    return None if locked is None else not locked
            except OSError:
                return None
            finally:
                os.close(opened)  # another file has taken its name: that one is asked

    def release(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _failed(self, what: str, name: str, error: OSError) -> TargetError:
        return TargetError(
            f"cannot {what} {self._path / name}: {error.strerror}",
            hint="Check the rights and the space of the folder.",
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder for a moment.

    Where a file system knows no such lock, two that write at the same moment may both succeed; the
    one that was replaced finds that out at its next change.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


class ManifestBucket:
    """A prefix of a bucket of S3, by obstore."""

    def __init__(self, prefix: str, options: Options) -> None:
        bucket, _, self._prefix = prefix.partition("://")[2].partition("/")
        self._bucket = bucket
        self._access = s3_access.resolve(options)
        self._opened: tuple[object, Any] | None = None

    def _store(self) -> Any:
        keys = self._access.keys()
        if self._opened is None or self._opened[0] != keys:
            self._opened = keys, open_store(self._bucket, self._access, keys, _PATIENCE)
        return self._opened[1]

    def _key(self, name: str) -> str:
        return f"{self._prefix.rstrip('/')}/{name}".lstrip("/")

    def read(self, name: str) -> tuple[bytes, str] | None:
        with self._explained("read", name):
            try:
                found = self._store().get(self._key(name))
                return bytes(found.bytes()), str(found.meta["e_tag"] or "")
            except FileNotFoundError:
                return None

    def write(self, name: str, data: bytes, over: str | None) -> str:
        from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

        taken = ManifestTakenError(
            f"another rowfall has changed s3://{self._bucket}/{self._key(name)} meanwhile",
            hint="Two exports write the same objects: let one of them end first.",
        )
        mode: Any = "create" if over is None else {"e_tag": over}
        with self._explained("write", name):
            try:
                put = self._store().put(self._key(name), data, mode=mode, use_multipart=False)
            except NotSupportedError:
                # A store without conditional writes: what is there was looked at just before.
                found = self.read(name)
                if (found[1] if found else None) != over:
                    raise taken from None
                put = self._store().put(self._key(name), data, use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                # The client tries again when an answer is lost: then it meets its own object.
                found = self.read(name)
                if found is None or found[0] != data:
                    raise taken from None
                return found[1]
            return str(put["e_tag"] or "")

    def version(self, name: str) -> str | None:
        with self._explained("read", name):
            try:
                found = self._store().head(self._key(name))
            except FileNotFoundError:
                return None
            return f"{found['size']}-{found['e_tag'] or found['last_modified']}"

    def remove(self, name: str) -> None:
        with self._explained("remove", name), suppress(FileNotFoundError):
            self._store().delete(self._key(name))

    def drop_unfinished(self, names: Collection[str]) -> None:
        """End the uploads in parts that nobody will complete: they are paid for, and not listed.

        Keys without the rights for that go on without: a rule of the bucket's lifecycle does it.
        """
        from obstore.exceptions import BaseError

        from rowfall.core.s3_client import ClientStore  # obstore lists no uploads

        with suppress(RowfallError, BaseError, OSError):
            client = ClientStore(self._access, self._access.keys(), self._bucket)
            client.end_uploads(self._key(""), {self._key(name) for name in names})

    def is_held(self, name: str) -> bool | None:
        return None

    def release(self) -> None:
        """Do nothing: a store knows no locks."""

    @contextmanager
    def _explained(self, what: str, name: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (FileNotFoundError, RowfallError):
            raise
        except (BaseError, OSError, ValueError) as error:
            text = str(error)
            denied = isinstance(error, PermissionError) or any(
                mark in text for mark in ("403", "AccessDenied", "SignatureDoesNotMatch")
            )
            why = "access denied" if denied else (text.splitlines() or [type(error).__name__])[0]
            raise TargetError(
                f"cannot {what} s3://{self._bucket}/{self._key(name)}: {why[:200]} "
                f"({self._access.where})",
                hint="The keys need s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket."
                if denied
                else "Check --s3-endpoint and the bucket.",
                transient=not denied,
            ) from None
