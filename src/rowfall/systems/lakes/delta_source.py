"""Delta tables: ``delta+s3://bucket/path``, ``delta+/path``.

The log is replayed here: JSON commits on top of the newest checkpoint, read through rowfall's own
stores. deltalake would tell neither deletion vectors nor which commits only rewrote files.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from io import BytesIO
from typing import Any, ClassVar
from urllib.parse import unquote

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.sources.base import File, TableRewrite
from rowfall.systems.lakes.files import LakeStore, folder_of, open_store, plain_name
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
)
from rowfall.systems.lakes.types import of_delta, readable

_COMMIT = regex(r"(\d{20})\.json")
_CHECKPOINT = regex(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_READER = 3
_FEATURES = frozenset({
    "columnMapping", "deletionVectors", "timestampNtz", "vacuumProtocolCheck", "v2Checkpoint",
})  # fmt: skip
_PHYSICAL = "delta.columnMapping.physicalName"
_Action = Mapping[str, Any]


def open_delta(texts: Sequence[str], options: Options) -> Delta:
    """Open one version of one table.

    Raises:
        UsageError: several tables, no such version.
        SourceError: there is no such table, or it cannot be read.
    """
    text = only_one(texts)
    if text.lower().startswith("delta://"):
        raise UsageError(
            f"{text} names no folder", hint="Write delta+s3://bucket/path or delta+/path."
        )
    folder = folder_of(text)
    log = _Log.of(open_store(folder, options), folder, text)
    return _opened(log, text, options)


class Delta(LakeSource):
    """One version of a Delta table."""

    format: ClassVar[str] = "Delta"
    function: ClassVar[tuple[str, str]] = ("deltaLakeLocal", "deltaLake")

    def __init__(
        self, text: str, log: _Log, snapshot: LakeSnapshot, versions: Sequence[int]
    ) -> None:
        super().__init__(text, log.store, snapshot)
        self._log, self._versions = log, versions

    def rewrites(self) -> list[TableRewrite]:
        return list(_rewrites(self._log, self._versions))


# --- the log -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _State:
    """A table after some commits: live files by path and deletion vector."""

    protocol: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    files: dict[tuple[str, str], _Action] = field(default_factory=dict)

    def take(self, kind: str, action: _Action) -> None:
        if kind == "protocol":
            self.protocol = dict(action)
        elif kind == "metaData":
            self.metadata = dict(action)
        elif kind == "add":
            self.files[action["path"], _vector(action)] = action
        elif kind == "remove":
            self.files.pop((action["path"], _vector(action)), None)


@dataclass(frozen=True, slots=True)
class _Log:
    """The log of a table: its commits and checkpoints by version."""

    store: LakeStore
    folder: str
    commits: Mapping[int, str]
    checkpoints: Mapping[int, tuple[str, ...]]

    @classmethod
    def of(cls, store: LakeStore, folder: str, text: str) -> _Log:
        """Return the log of the table in a folder.

        Raises:
            SourceError: there is none.
        """
        commits: dict[int, str] = {}
        parts: dict[int, list[str]] = defaultdict(list)
        wanted: dict[int, int] = {}
        for name in store.names(f"{folder}/_delta_log"):
            last = name.rpartition("/")[2]
            if found := _COMMIT.fullmatch(last):
                commits[int(found[1])] = name
            elif found := _CHECKPOINT.fullmatch(last):
                parts[int(found[1])].append(name)
                wanted[int(found[1])] = int(found[3] or 1)
        if not commits and not parts:
            if store.names(f"{folder}/metadata"):
                raise SourceError(
                    f"{text} is an Iceberg table, not a Delta table",
                    hint=f"Write iceberg+{text.partition('+')[2]}.",
                )
            raise SourceError(
                f"no Delta table in {folder}: it has no _delta_log",
                hint="Name the folder of the table, the one above _delta_log.",
            )
        whole = {n: tuple(names) for n, names in parts.items() if len(names) == wanted[n]}
        return cls(store, folder, commits, whole)

    @property
    def newest(self) -> int:
        return max((*self.commits, *self.checkpoints))

    def state(self, version: int) -> _State:
        """Return the table as it was after a commit.

        Raises:
            SourceError: commits that it is made of have been removed.
        """
        start = max((n for n in self.checkpoints if n <= version), default=-1)
        state = _State()
        for name in self.checkpoints.get(start, ()):
            for kind, action in _checkpoint(self.store.read(name), name):
                state.take(kind, action)
        for number in range(start + 1, version + 1):
            for kind, action in self.actions(number):
                state.take(kind, action)
        if not state.metadata or not state.protocol:
            raise SourceError(f"the log of {self.folder} says nothing of its columns")
        return state

    def actions(self, version: int) -> Iterator[tuple[str, _Action]]:
        """Give the actions of one commit.

        Raises:
            SourceError: it is not there, or no JSON.
        """
        name = self.commits.get(version)
        if name is None:
            raise SourceError(
                f"version {version} of {self.folder} cannot be read: its commit is not in the log",
                hint="Old commits are removed after a while; newer versions can be loaded.",
            )
        try:
            for line in self.store.read(name).splitlines():
                if line.strip():
                    yield from json.loads(line).items()
        except ValueError as error:
            raise SourceError(f"cannot read {name}: it is no JSON ({error})") from error


def _checkpoint(data: bytes, name: str) -> Iterator[tuple[str, _Action]]:
    """Give the actions that a checkpoint holds.

    Raises:
        UsageError: no pyarrow.
        SourceError: it is broken.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise missing_driver("pyarrow", "delta") from None
    try:
        file = parquet.ParquetFile(BytesIO(data))
        kinds = [k for k in ("protocol", "metaData", "add") if k in file.schema_arrow.names]
        for batch in file.iter_batches(columns=kinds):
            for row in batch.to_pylist():
                for kind, action in row.items():
                    if action is not None:
                        yield kind, _plain(action)
    except Exception as error:
        raise SourceError(f"cannot read the checkpoint {name}: {error}") from error


def _plain(action: _Action) -> _Action:
    """Return an action of a checkpoint as one of JSON: Arrow's maps are lists of pairs."""
    maps = ("partitionValues", "configuration")
    return {k: dict(v) if k in maps and v is not None else v for k, v in action.items()}


def _vector(action: _Action) -> str:
    """Return the name of the deletion vector of a file, "" for none."""
    found = action.get("deletionVector")
    if not found or not found.get("storageType"):
        return ""
    return f"{found['storageType']}{found['pathOrInlineDv']}@{found.get('offset') or 0}"


# --- one version ---------------------------------------------------------------------------------


def _opened(log: _Log, text: str, options: Options) -> Delta:
    version = _version(log, options.snapshot, text)
    state = log.state(version)
    mode = str((state.metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none"))
    _check_protocol(state.protocol, text)
    fields = json.loads(state.metadata["schemaString"])["fields"]
    columns = tuple(
        LakeColumn(
            f["name"],
            readable(of_delta(f["type"]), required=not f.get("nullable", True)),
            f["type"] if isinstance(f["type"], str) else str(f["type"]["type"]),
        )
        for f in fields
    )
    check_columns(columns, options, text)
    layouts = _Layouts(fields, state.metadata.get("partitionColumns") or [], mode)
    files = [made for a in state.files.values() if (made := _file(log, a, layouts)) is not None]
    first = _first(log, version)
    versions: Sequence[int] = range(first, version + 1)
    unknown: frozenset[str] = frozenset()
    if first > 0:
        added = {_uri(log, a["path"]) for n in versions for k, a in log.actions(n) if k == "add"}
        unknown = frozenset(file.uri for file in files) - added
    if options.since:
        since = _version(log, options.since, text)
        if since > version:
            raise UsageError(f"version {since} is not older than {version}")
        before = [_file(log, a, layouts) for a in log.state(since).files.values()]
        versions = range(since + 1, version + 1)
        files = added_since(
            (f for f in before if f is not None), files, _rewrites(log, versions),
            f"version {since}", text,
        )  # fmt: skip
    pin = {"delta_lake_snapshot_version": version}
    snapshot = LakeSnapshot(
        columns, tuple(sorted(files, key=lambda file: file.uri)), f"version {version}", log.folder,
        pin, unknown=unknown, since=options.since or "",
    )  # fmt: skip
    return Delta(text, log, snapshot, versions)


def _first(log: _Log, version: int) -> int:
    """Return the oldest commit from which on all up to a version are there."""
    first = version + 1
    while first - 1 in log.commits:
        first -= 1
    return first


def _version(log: _Log, asked: str | None, text: str) -> int:
    """Return the version that an option names: by number or by time.

    Raises:
        UsageError: there is none.
    """
    if asked is None:
        return log.newest
    found: int | None = None
    if asked.isdigit():
        found = int(asked) if int(asked) <= log.newest else None
    elif (when := moment(asked)) is not None:
        limit = when.timestamp() * 1000
        times = ((n, _timestamp(log, n)) for n in sorted(log.commits, reverse=True))
        found = next((n for n, at in times if at is not None and at <= limit), None)
    if found is None:
        raise UsageError(f"{text} has no version {asked}", hint=f"The newest one is {log.newest}.")
    return found


def _timestamp(log: _Log, version: int) -> int | None:
    for kind, action in log.actions(version):
        if kind == "commitInfo":
            found = action.get("inCommitTimestamp") or action.get("timestamp")
            return int(found) if found is not None else None
    return None


def _check_protocol(protocol: Mapping[str, Any], text: str) -> None:
    """Check that rowfall knows how to read the table.

    Raises:
        SourceError: it does not.
    """
    version = int(protocol.get("minReaderVersion") or 1)
    if version > _READER:
        raise SourceError(
            f"{text} needs reader version {version}; rowfall reads up to {_READER}",
            hint="Load its data with a reader that knows it, or write it in an older version.",
        )
    unknown = sorted({*(protocol.get("readerFeatures") or ())} - _FEATURES)
    if unknown:
        raise SourceError(
            f"{text} needs reader features that rowfall does not have: {', '.join(unknown)}",
            hint="Drop the feature (ALTER TABLE ... DROP FEATURE), or copy the table without it.",
        )


class _Layouts:
    """How the columns are found in each file: partition values are in the log alone."""

    def __init__(
        self, fields: Sequence[Mapping[str, Any]], partitions: Sequence[str], mode: str
    ) -> None:
        physical = {
            f["name"]: str((f.get("metadata") or {}).get(_PHYSICAL) or f["name"]) for f in fields
        }
        mapped = mode in ("name", "id")
        own = physical if mapped else {f["name"]: f["name"] for f in fields}
        nested = any(not isinstance(f["type"], str) for f in fields)
        # Names inside of structs are mapped, too, and ids need not go by names.
        self._engine = mode == "id" or (mapped and nested)
        self._names = tuple((n, p) for n, p in own.items() if n != p and n not in partitions)
        self._partitions = [(n, own[n], _kind(fields, n)) for n in partitions]
        self._known: dict[Layout, Layout] = {}

    def of(self, action: _Action) -> Layout:
        if self._engine or _vector(action):
            return Layout(engine=True)
        values = action.get("partitionValues") or {}
        constants = tuple(
            (name, _constant(values.get(key), kind)) for name, key, kind in self._partitions
        )
        made = Layout(self._names, constants)
        return PLAIN if made == PLAIN else self._known.setdefault(made, made)


def _kind(fields: Sequence[Mapping[str, Any]], name: str) -> str:
    return next(str(f["type"]) for f in fields if f["name"] == name)


def _constant(value: str | None, kind: str) -> str | None:
    """Return a partition value as ClickHouse reads it; the empty text is NULL."""
    if not value:
        return None
    if kind.startswith("timestamp"):
        return value.replace("T", " ").removesuffix("Z")
    return value


def _file(log: _Log, action: _Action, layouts: _Layouts) -> DataFile | None:
    """Return a live file; None for one that holds no rows."""
    stats = action.get("stats")
    if stats and json.loads(stats).get("numRecords") == 0:
        return None
    return DataFile(
        _uri(log, action["path"]), int(action["size"]), None, layouts.of(action), _vector(action)
    )


def _uri(log: _Log, path: str) -> str:
    """Return the name of a file by the path that the log has."""
    name = unquote(path)
    if "://" in name or name.startswith(("/", "file:")):
        return plain_name(name)
    return f"{log.folder}/{name}"


def _rewrites(log: _Log, versions: Sequence[int]) -> Iterator[TableRewrite]:
    """Give what commits did to files that were there before, the oldest first.

    Raises:
        SourceError: as :meth:`_Log.actions`.
    """
    sizes: dict[str, int] = {}

    def key(action: _Action) -> File:
        size = action.get("size") or sizes.get(action["path"])
        if size is None:
            raise SourceError(
                f"the log of {log.folder} does not say how large {action['path']} was",
                hint="Load the whole table into a new one: --table NAME.",
            )
        sizes[action["path"]] = int(size)
        return DataFile(_uri(log, action["path"]), int(size), None, PLAIN, _vector(action)).key

    for number in versions:
        added, removed, changes, what = [], [], False, ""
        for kind, action in log.actions(number):
            if kind == "commitInfo":
                what = f" ({action.get('operation', '')})"
            elif kind == "add":
                added.append(key(action))
            elif kind == "remove":
                removed.append(key(action))
            changes = changes or (kind in ("add", "remove") and bool(action.get("dataChange")))
        if removed:
            yield TableRewrite(
                f"version {number}{what}", str(number - 1), tuple(removed), tuple(added),
                same_rows=not changes,
            )  # fmt: skip
