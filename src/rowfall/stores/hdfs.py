"""Files in HDFS: ``hdfs://user@host:8020/path-or-glob?http=9870``, without Java.

In the place of a host a name service may stand, whose name nodes the configuration of Hadoop names.
The name node is asked over WebHDFS: what there is, and where its blocks are. rowfall-decode reads
them from the data nodes by their own protocol, and over WebHDFS what it does not get there; samples
come over WebHDFS. The engine's ``hdfs()`` speaks the RPC protocol of the port in the URI, and reads
what only it can.
"""

from __future__ import annotations

import getpass
import http.client
import json
import os
import re
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from rowfall.core import formats, own_files, units, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import NotReachedError, SourceError, UsageError
from rowfall.core.events import Listener
from rowfall.core.listing import Split
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.sql import literal
from rowfall.core.sqltext import SqlText
from rowfall.decoder.documents import BlockInput
from rowfall.sources import from_clause, pipes
from rowfall.sources.base import (
    EMBEDDED,
    HttpAddress,
    ListedObject,
    ListedPage,
    Probe,
    any_version,
)
from rowfall.sources.from_clause import TableFunction
from rowfall.stores import completeness, globs, hadoop_config
from rowfall.stores.hadoop_config import HTTP_PORT, RPC_PORT, Place
from rowfall.stores.objects import REQUESTS, ObjectSource, with_data
from rowfall.stores.patience import Patience

# A name node answers within milliseconds, and within seconds while it collects garbage.
_TIMEOUT = 9.0
# Files of a page of a walk: what a name node gives at once.
_PAGE = 1000
# Each request makes the data node ask the name node for blocks, some 10 ms: few and large ones.
_PIECE = 16 << 20
# Two questions about blocks cost as much as one request over WebHDFS: smaller files are one.
_LEAST_IN_BLOCKS = 1 << 20
_WITHOUT = "AAAAAA"  # a token of four empty fields; others are given to whom Kerberos knows
# "?" is a wildcard, too, so only this is taken for a query.
_PLACE = regex(
    r"hdfs://(?:([^@/]*)@)?([^@:/]+)(?::(\d+))?(/.*?)?(?:\?http=(\d+))?\Z",
    re.IGNORECASE | re.DOTALL,
)
_GLOB = frozenset("*?{}")  # no way to quote them for the engine
_BRACES = frozenset("*?{},")
_SHAPE = "hdfs://user@host:8020/path/*.parquet?http=9870"


@dataclass(frozen=True, slots=True)
class HdfsEntry:
    """A file or folder, as the name node describes it; ``version`` is ``size-mtime-id``."""

    path: str
    folder: bool
    size: int
    version: str

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.path.rpartition("/")[2]


class Hdfs(ObjectSource):
    """One source for any number of ``hdfs://`` URIs; splits are whole files sorted by name."""

    secrets: tuple[Secret, ...] = ()

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        super().__init__(" ".join(texts), options)
        self._nodes: dict[str, NameNode] = {}
        self._patterns = [self._node_and_path(text) for text in texts]

    def _node_and_path(self, text: str) -> tuple[NameNode, str]:
        """Return the name node of a URI that the user gave, and the path or pattern.

        Raises:
            UsageError: it is no such URI, or two of them name different users or ports.
        """
        found = _PLACE.fullmatch(text)
        user, host, rpc, path, port = found.groups() if found else ("",) * 5
        if not host or (user and ":" in user):
            why = "HDFS knows no passwords" if host else "it names no host"
            raise UsageError(f"cannot read {uri.mask(text)!r}: {why}", hint=f"Write {_SHAPE}.")
        several = () if rpc or port else hadoop_config.name_nodes(host)
        one = (host, int(rpc or RPC_PORT), int(port or HTTP_PORT))
        node = NameNode(
            several or (one,), user or _user(), host if several else "", Patience.of(self._options)
        )
        if node.rpc == node.http:
            raise UsageError(
                f"cannot read {text!r}: {node.http} is given as both ports of the name node",
                hint=f"hdfs:// takes the RPC port, as in fs.defaultFS, and ?http= that of the web "
                f"interface: hdfs://{host}:{RPC_PORT}{path or '/'}?http={node.http}",
            )
        known = self._nodes.setdefault(node.place, node)
        if known != node:
            raise UsageError(
                f"{known.place} is named with two users or HTTP ports",
                hint="Run one load after the other into the same table.",
            )
        return known, path or "/"

    def _at(self, name: str) -> tuple[NameNode, str]:
        """Return the name node and the path of a file that was listed."""
        place, slash, path = name.partition("://")[2].partition("/")
        return self._nodes[place], slash + path

    # --- what there is ---------------------------------------------------------------------------

    def _found(self) -> Iterator[tuple[str, str, int]]:
        """Give all files; ``version`` is ``size-mtime-id``."""
        found: list[tuple[str, str, int]] = []
        for node, pattern in self._patterns:
            entries = [
                entry
                for entry in _find(node, pattern, everything=self._options.format is not None)
                if entry.path == pattern or not self._own(entry.path)
            ]
            if not entries:
                raise SourceError(
                    f"no data file matches {pattern} at {node.where}", hint=self._own.said
                )
            found += ((f"hdfs://{node.place}{e.path}", e.version, e.size) for e in entries)
        found.sort()
        yield from found

    def _part(self, split: Split, start: int, length: int) -> bytes:
        node, path = self._at(split.uri)
        # Behind the end of a file nothing can be asked for.
        length = min(length, (split.size or 0) - start)
        return node.read(path, start, length) if length > 0 else b""

    def _opener(self, split: Split) -> pipes.Opener:
        return partial(_pieces, *self._at(split.uri), split.size or 0)

    def modified(self, split: Split) -> float | None:
        """See :class:`rowfall.sources.base.HasModificationTimes`: as it was listed."""
        return int(split.version.split("-")[1]) / 1e3

    def _problem(self, split: Split) -> str | None:
        node, path = self._at(split.uri)
        now = node.status(path)
        if now is None or now.folder:
            return "the file is gone"
        if now.version != split.version:
            return f"changed from {split.version} to {now.version} (size-mtime-id)"
        if node.is_open(path):
            # Readers see bytes that its size does not count yet.
            return "somebody writes to it"
        return self._pipes.broken(split.name) or completeness.check_remote(
            partial(node.read, path), now.size, self._packing(split.uri)
        )

    # --- while it is followed --------------------------------------------------------------------

    # A file is seen with the size of its complete blocks while somebody writes it.
    rest_seconds = 2.0

    def walks(self) -> list[HdfsWalk]:
        found = []
        for node, pattern in self._patterns:
            found.append(HdfsWalk(self, node, pattern))
            found[-1].check()
        return found

    def notices(self, emit: Listener) -> None:
        """See :class:`rowfall.sources.base.ListedSource`: only listings tell."""

    def renew(self) -> None:
        """Do nothing: HDFS knows no passwords."""

    def listed(self, node: NameNode, entry: HdfsEntry) -> ListedObject | None:
        """Return a file as a walk gives it; None where it does not belong."""
        if entry.folder or own_files.is_own_path(entry.path):
            return None
        name = f"hdfs://{node.place}{entry.path}"
        return ListedObject(name, entry.version, entry.size, int(entry.version.split("-")[1]) / 1e3)

    def size_of(self, name: str) -> int | None:
        """Return the bytes of a file, None where there is none."""
        node, path = self._at(name)
        found = node.status(path)
        return None if found is None or found.folder else found.size

    @property
    def everything(self) -> bool:
        """True where all files of a folder are loaded, whatever their extensions."""
        return self._options.format is not None

    # --- how it is read --------------------------------------------------------------------------

    def _functions(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> list[TableFunction]:
        tail = from_clause.last_arguments(encoding, structure)
        census = from_clause.last_arguments(from_clause.ONE, from_clause.ONE_COLUMN)
        groups: dict[NameNode, list[str]] = {}
        for split in splits:
            node, path = self._at(split.uri)
            groups.setdefault(node, []).append(path)
        functions = []
        for node, paths in groups.items():
            for pattern, only, count in _patterns(paths):
                url = literal(f"hdfs://{uri.encode(node.user)}@{node.host}:{node.rpc}{pattern}")
                text, counted = (SqlText.of(f"hdfs({url}{end})") for end in (tail, census))
                # Servers (24.10) leave out what is missing, and show no first slash in paths.
                there = self.reader is not EMBEDDED
                several = there and (only is not None or len(splits) > 1)
                if only is not None and there and not self.reader.exact:
                    only = only[1:]
                functions.append(TableFunction(text, only, counted if several else None, count))
        return functions

    def probe(self, split: Split) -> Probe:
        """Ask for size and first bytes: a name may lead to another cluster from there."""
        head = self.part(split, 0, from_clause.HEAD)
        asking = any_version(self)
        (function,) = asking._functions([split], *from_clause.head_columns(len(head)))
        return from_clause.url_probe(function, split.size, head)

    def addresses(self, splits: Sequence[Split]) -> list[HttpAddress]:
        for node in {node for node, _ in (self._at(split.uri) for split in splits) if node.service}:
            node.status("/")  # who reads these addresses knows of no other name node
        large = {s.uri: s for s in splits if (s.size or 0) >= _LEAST_IN_BLOCKS}
        with ThreadPoolExecutor(REQUESTS) as pool:
            blocks = dict(zip(large, pool.map(self._blocks, large.values()), strict=True))
        found = []
        for split in splits:
            node, path = self._at(split.uri)
            url = Secret(node.url(path, "OPEN"))
            found.append(HttpAddress(url, by_query=True, blocks=blocks.get(split.uri, ())))
        return found

    def _blocks(self, split: Split) -> Sequence[BlockInput]:
        """Return the blocks of a file; none where WebHDFS has to be asked for its bytes."""
        node, path = self._at(split.uri)
        with suppress(SourceError):  # whoever reads it says why
            return node.blocks(path, split.version)
        return ()


class HdfsWalk:
    """The files that one URI stands for; see :class:`rowfall.sources.base.ObjectWalk`."""

    resumes = False

    def __init__(self, source: Hdfs, node: NameNode, pattern: str) -> None:
        self._source, self._node, self._pattern = source, node, pattern
        self.text = f"hdfs://{node.place}{pattern}"
        self._glob = globs.compile_glob(pattern) if globs.has_meta(pattern) else None

    def check(self) -> None:
        """Check that the folder is there.

        Raises:
            SourceError: it is not.
        """
        prefix = globs.constant_prefix(self._pattern) if self._glob else self._pattern
        folder = (prefix.rpartition("/")[0] if self._glob else prefix.rstrip("/")) or "/"
        if self._node.status(folder) is None:
            raise SourceError(
                f"no such folder: {folder} at {self._node.where}",
                hint="A folder may be empty at first, but it has to be there.",
            )

    def _entries(self) -> Iterator[HdfsEntry]:
        node, path = self._node, self._pattern.rstrip("/") or "/"
        if self._glob is not None:
            for one in globs.expand_slashes(self._pattern):
                yield from _walk(node, "/", one.strip("/").split("/"))
            return
        exact = node.status(path)
        if exact is None:
            return
        if not exact.folder:
            yield exact
            return
        for entry in _below(node, path):
            if self._source.everything or formats.is_data(entry.path):
                yield entry

    def pages(self, after: str = "") -> Iterator[ListedPage]:
        """See :class:`rowfall.sources.base.ObjectWalk`; in the order of folders."""
        found: list[ListedObject] = []
        for entry in self._entries():
            item = self._source.listed(self._node, entry)
            if item is not None and item.name > after:
                found.append(item)
            if len(found) == _PAGE:
                yield ListedPage(found, found[-1].name)
                found = []
        if found:
            yield ListedPage(found, found[-1].name)

    def look(self, name: str) -> ListedObject | None:
        entry = self._node.status(name.removeprefix(f"hdfs://{self._node.place}"))
        return None if entry is None else self._source.listed(self._node, entry)


def _patterns(paths: Sequence[str]) -> Iterator[tuple[str, str | None, int]]:
    """Give patterns that name exactly ``paths``: one for all plain ones, one for each other.

    Each comes with the path to narrow it to (or None), and how many files it names.
    """
    plain = [path for path in paths if not _BRACES & set(path)]
    if len(plain) > 1:
        yield from_clause.braces(plain), None, len(plain)
        plain = []
    for path in plain:
        yield path, None, 1
    for path in paths:
        if _GLOB & set(path):
            yield from_clause.wildcard(path), path, 1
        elif "," in path:
            yield path, None, 1


def _user() -> str:
    """Return who asks, as Hadoop's own tools choose: HADOOP_USER_NAME, else the user here."""
    with suppress(KeyError, OSError):  # a container may run as a number without a name
        return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    return str(os.geteuid())


def _pieces(node: NameNode, path: str, size: int) -> Iterator[bytes]:
    for start in range(0, size, _PIECE):
        yield node.read(path, start, min(_PIECE, size - start))


# --- globs and folders ---------------------------------------------------------------------------


def _find(node: NameNode, pattern: str, *, everything: bool) -> Iterator[HdfsEntry]:
    """Give the files that a path names: a file, a folder, or a glob, in this order.

    Args:
        everything: take all files of a folder instead of those with a known extension.

    Raises:
        SourceError: nothing found, or not readable.
    """
    exact = node.status(pattern.rstrip("/") or "/") if "//" not in pattern else None
    if exact is not None and not exact.folder:
        yield exact
    elif exact is not None:
        yield from _folder(node, exact.path, everything)
    elif globs.has_meta(pattern):
        yield from _matches(node, pattern)
    else:
        raise SourceError(
            f"no such file or folder: {pattern} at {node.where}", hint=_nearest(node, pattern)
        )


def _folder(node: NameNode, path: str, everything: bool) -> Iterator[HdfsEntry]:
    def nothing(others: int) -> SourceError:
        return SourceError(
            f"no data file in the folder {path} at {node.where}",
            hint=f"It holds {units.counted(others, 'file')} with other extensions; name the format "
            "with --format to load them all."
            if others
            else "It holds no files at all (those that begin with . or _ are not counted).",
        )

    return with_data(_below(node, path), lambda entry: entry.path, everything, nothing)


def _below(node: NameNode, folder: str) -> Iterator[HdfsEntry]:
    """Give files at any depth, but none that is hidden or begins with ``_``, as writers' own do."""
    for entry in node.list(folder):
        if entry.name[:1] in ("_", "."):
            continue
        if entry.folder:
            yield from _below(node, entry.path)
        else:
            yield entry


def _matches(node: NameNode, pattern: str) -> Iterator[HdfsEntry]:
    folders: set[str] = set()
    found = False
    for one in globs.expand_slashes(pattern):
        for entry in _walk(node, "/", one.strip("/").split("/")):
            if entry.folder:
                folders.add(entry.path)
            else:
                found = True
                yield entry
    if found:
        return
    hint = _nearest(node, globs.constant_prefix(pattern))
    if folders:
        found_folders = units.counted(len(folders), "folder")
        hint = f"It matches {found_folders}; add /** to load the files below."
    raise SourceError(f"no file matches {pattern} at {node.where}", hint=hint)


def _walk(node: NameNode, folder: str, segments: Sequence[str]) -> Iterator[HdfsEntry]:
    """Give what below ``folder`` matches one pattern a segment."""
    segment, rest = segments[0], segments[1:]
    if segment == "**":
        yield from _walk(node, folder, rest or ["*"])
        for entry in node.list(folder):
            if entry.folder and not entry.name.startswith("."):
                yield from _walk(node, entry.path, segments)
        return
    if not globs.has_meta(segment):
        path = f"{folder.rstrip('/')}/{segment}"
        if rest:
            yield from _walk(node, path, rest)
        elif (exact := node.status(path)) is not None:
            yield exact
        return
    wanted = globs.compile_glob(segment)
    for entry in node.list(folder):
        if (entry.name.startswith(".") and segment[0] != ".") or not wanted.match(entry.name):
            continue
        if not rest:
            yield entry
        elif entry.folder:
            yield from _walk(node, entry.path, rest)


def _nearest(node: NameNode, path: str) -> str:
    """Return the hint that names the nearest folder that exists and what it holds."""
    folder = path.rpartition("/")[0] or "/"
    while folder != "/" and node.status(folder) is None:
        folder = folder.rpartition("/")[0] or "/"
    try:
        names = sorted(entry.name for entry in node.list(folder))
    except SourceError:
        return f"The nearest existing folder is {folder}."
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"The nearest existing folder is {folder}, which holds {shown or 'nothing'}."


# --- WebHDFS -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NameNode:
    """A name node that is asked over WebHDFS; of a name service, the one that is active.

    Attributes:
        nodes: where it is, or those that may be the active one.
        service: their name; "" for a name node that the URI names itself.
    """

    nodes: tuple[Place, ...]
    user: str
    service: str = ""
    patience: Patience = field(default_factory=Patience, compare=False)
    _active: list[int] = field(default_factory=lambda: [0], compare=False)

    @property
    def host(self) -> str:
        """Return the host of the name node that is asked."""
        return self.nodes[self._active[0]][0]

    @property
    def rpc(self) -> int:
        """Return the port where Hadoop's tools and the engine ask."""
        return self.nodes[self._active[0]][1]

    @property
    def http(self) -> int:
        """Return the port of the web interface."""
        return self.nodes[self._active[0]][2]

    @property
    def place(self) -> str:
        """Return the authority in URIs of files: the name service, or ``host:port``."""
        return self.service or f"{self.host}:{self.rpc}"

    @property
    def where(self) -> str:
        """Return the address that is asked, for people."""
        return f"http://{self.host}:{self.http}"

    def url(self, path: str, operation: str, **more: int | str) -> str:
        """Return the address of an operation on a path."""
        query = {"op": operation, "user.name": self.user, **more}
        listed = "&".join(f"{name}={uri.encode(str(value), '')}" for name, value in query.items())
        return f"{self.where}/webhdfs/v1{uri.encode(path)}?{listed}"

    def status(self, path: str) -> HdfsEntry | None:
        """Return one file or folder, None where there is none.

        Raises:
            SourceError: it cannot be asked, or may not be looked at.
        """
        found = self._ask(path, "GETFILESTATUS")
        return None if found is None else _entry(path, found["FileStatus"])

    def list(self, folder: str) -> Iterator[HdfsEntry]:
        """Give what is in a folder, by name; nothing of one that does not exist, or of a file.

        Raises:
            SourceError: as :meth:`status`.
        """
        after: dict[str, str] = {}
        while True:
            found = self._ask(folder, "LISTSTATUS_BATCH", **after)
            listed = (found or {}).get("DirectoryListing", {})
            items = listed.get("partialListing", {}).get("FileStatuses", {}).get("FileStatus", ())
            for item in items:
                if item["pathSuffix"]:  # "": the folder is a file
                    yield _entry(f"{folder.rstrip('/')}/{item['pathSuffix']}", item)
            if not items or not listed.get("remainingEntries"):
                return
            after = {"startAfter": items[-1]["pathSuffix"]}

    def is_open(self, path: str) -> bool:
        """Tell whether somebody writes to a file; its last bytes are then in no block yet.

        Raises:
            SourceError: as :meth:`status`.
        """
        found = self._ask(path, "GET_BLOCK_LOCATIONS", length=1)
        # HttpFS has no such operation.
        return bool((found or {}).get("LocatedBlocks", {}).get("isUnderConstruction"))

    def blocks(self, path: str, version: str) -> Sequence[BlockInput]:
        """Return the blocks of a file, in order.

        None of a file of another version, of one whose blocks are no pieces of it as it is
        (encrypted, erasure-coded, still written), and where data nodes want to know who asks.

        Raises:
            SourceError: as :meth:`status`.
        """
        status = (self._ask(path, "GETFILESTATUS") or {}).get("FileStatus", {})
        if not status or status.get("encBit") or status.get("ecBit"):
            return ()
        entry = _entry(path, status)
        asked = self._ask(path, "GET_BLOCK_LOCATIONS", offset=0, length=entry.size)
        located = (asked or {}).get("LocatedBlocks", {})
        blocks = [_block(one) for one in located.get("locatedBlocks", ())]
        found = [block for block in blocks if block is not None]
        whole = len(found) == len(blocks) and sum(b.bytes for b in found) == entry.size
        stays = entry.version == version and not located.get("isUnderConstruction")
        return found if whole and stays else ()

    def read(self, path: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes of a file, fewer where it ends.

        Raises:
            SourceError: it is gone, or as :meth:`status`.
        """
        data = self.patience.ask(lambda: self._get(path, "OPEN", offset=start, length=length))
        if data is None:
            raise SourceError(f"cannot read hdfs://{self.place}{path}: it is gone")
        return data

    def _ask(self, path: str, operation: str, **more: int | str) -> dict[str, Any] | None:
        data = self.patience.ask(lambda: self._get(path, operation, **more))
        if data is None:
            return None
        try:
            found: dict[str, Any] = json.loads(data)
        except ValueError:
            raise self._foreign(path) from None
        return found

    def _get(self, path: str, operation: str, **more: int | str) -> bytes | None:
        """Return the body of an answer, None where there is no such file.

        A name node that is away or on standby is left for the next one of its service.
        """
        for _ in self.nodes[1:]:
            at = self._active[0]
            try:
                return self._answer(path, operation, **more)
            except (_StandbyError, NotReachedError):
                self._active[0] = (at + 1) % len(self.nodes)
        return self._answer(path, operation, **more)

    def _answer(self, path: str, operation: str, **more: int | str) -> bytes | None:
        """Ask one name node; as :meth:`_get`."""
        try:
            # Redirects lead to a data node.
            with urlopen(self.url(path, operation, **more), timeout=_TIMEOUT) as answer:  # noqa: S310
                data: bytes = answer.read()
                return data
        except HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            self._check_refusal(path, operation, error.code, text)
            return None
        except (URLError, OSError, http.client.HTTPException) as error:
            raise self._unreachable(path, error) from error

    def _check_refusal(self, path: str, operation: str, code: int, text: str) -> None:
        """Raise the error that an answer stands for, unless that is: no such file."""
        said = _remote_exception(text)
        if said is None:
            raise self._foreign(path, text, code)
        kind, message = said
        if kind == "FileNotFoundException":
            return
        if operation == "GET_BLOCK_LOCATIONS" and code == 400:
            return
        transient, hint = False, None
        if kind == "AccessControlException":
            message = f"permission denied for the user {self.user}"
            hint = f"Name another user as in {_SHAPE}, or with HADOOP_USER_NAME."
        elif kind == "StandbyException":
            raise _StandbyError(
                f"cannot read hdfs://{self.place}{path}: the name node {self.host} is on standby",
                hint="No name node of the service is active: hdfs haadmin -getAllServiceState"
                if self.service
                else "Name the active one, or the name service, with its configuration in "
                "HADOOP_CONF_DIR.",
                transient=bool(self.service),
            )
        elif code == 401 or kind == "SecurityException":
            hint = "Kerberos and tokens are not spoken; a gateway (HttpFS) may take user names."
        else:
            # Safe mode, a queue that is full, data nodes that are away.
            transient, hint = True, "Check name node and data nodes: hdfs dfsadmin -report"
        raise SourceError(
            f"cannot read hdfs://{self.place}{path}: {message}", hint=hint, transient=transient
        )

    def _foreign(self, path: str, text: str = "", code: int = 200) -> SourceError:
        """Return the error about an answer that is none of WebHDFS."""
        if "Hadoop IPC port" in text:
            why = f"{self.http} is its RPC port, and ?http= takes that of the web interface"
            hint = f"Write hdfs://{self.host}:{self.http}{path}?http={HTTP_PORT}"
        elif code == 401:
            why, hint = "it wants Kerberos", "A gateway (HttpFS) may take user names."
        else:
            why = f"{self.where} does not answer like WebHDFS ({code})"
            hint = (
                "Check ?http=, the port of the name node's web interface, and dfs.webhdfs.enabled."
            )
        return SourceError(f"cannot read hdfs://{self.place}{path}: {why}", hint=hint)

    def _unreachable(self, path: str, error: Exception) -> SourceError:
        """Return the error about a connection that failed, or broke."""
        reason = error.reason if isinstance(error, URLError) else error
        cause = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        if isinstance(reason, TimeoutError):
            cause = f"no answer within {_TIMEOUT:.0f} s"
        hint = (
            f"Check host and ports: ?http= names that of the web interface (here {self.http}; "
            "dfs.namenode.http-address), and redirects lead to data nodes by their own names."
        )
        if isinstance(reason, socket.gaierror) and not self.service:
            hint = (
                f"If {self.host} is a name service, set HADOOP_CONF_DIR to the folder with its "
                "hdfs-site.xml. " + hint
            )
        if isinstance(reason, ConnectionRefusedError) and self._speaks_webhdfs(self.rpc):
            hint = (
                f"{self.rpc} is the port of its web interface: write "
                f"hdfs://{self.host}:{RPC_PORT}{path}?http={self.rpc}"
            )
        broken = isinstance(reason, ConnectionError) and not isinstance(
            reason, ConnectionRefusedError
        )
        made = NotReachedError if isinstance(error, URLError) and not broken else SourceError
        return made(
            f"cannot read hdfs://{self.place}{path}: no connection to {self.where} "
            f"({cause.lower()})",
            hint=hint,
            transient=True,
        )

    def _speaks_webhdfs(self, port: int) -> bool:
        """Tell whether another port is that of the web interface."""
        address = f"http://{self.host}:{port}/webhdfs/v1/?op=GETFILESTATUS"
        try:
            with urlopen(address, timeout=_TIMEOUT) as answer:
                return b"FileStatus" in answer.read()
        except (OSError, http.client.HTTPException):
            return False


class _StandbyError(SourceError):
    """A name node answers that another one is active."""


def _block(located: dict[str, Any]) -> BlockInput | None:
    """Return a block, as a name node describes it; None where data nodes do not give it to us."""
    block, token = located["block"], located.get("blockToken", {})
    # Groups of erasure-coded blocks have numbers below zero.
    if token.get("urlString", _WITHOUT) != _WITHOUT or block["blockId"] < 0:
        return None
    nodes = tuple(f"{node['ipAddr']}:{node['xferPort']}" for node in located.get("locations", ()))
    return BlockInput(
        located["startOffset"], block["numBytes"], block["blockPoolId"], block["blockId"],
        block["generationStamp"], nodes,
    )  # fmt: skip


def _entry(path: str, status: dict[str, Any]) -> HdfsEntry:
    size, modified = status["length"], status["modificationTime"]
    version = f"{size}-{modified}-{status.get('fileId', 0)}"
    return HdfsEntry(path, status["type"] == "DIRECTORY", size, version)


def _remote_exception(text: str) -> tuple[str, str] | None:
    """Return kind and first line of the error in an answer; None where it is none of Hadoop's."""
    try:
        said = json.loads(text)["RemoteException"]
        return str(said["exception"]), str(said["message"]).partition("\n")[0][:300]
    except (ValueError, KeyError, TypeError):
        return None
