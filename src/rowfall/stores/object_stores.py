"""Object stores: buckets of keys that are listed, matched, read in parts, and explained.

:class:`Bucket` asks one bucket, by obstore, and says in plain words why that failed.
:class:`StoreSource` is the source over buckets: an exact key, a folder, or a glob, sorted by key.
:class:`UrlStoreSource` is one whose objects the engine reads like files on a web server.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, NamedTuple

from rowfall.core import formats, own_files, units, uri
from rowfall.core.after import TAG, After
from rowfall.core.errors import (
    CutOffError,
    NothingFoundError,
    NotReachedError,
    RowfallError,
    SourceError,
    UsageError,
)
from rowfall.core.events import Listener
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret, redact
from rowfall.core.model import Encoding
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.sources import from_clause, pipes
from rowfall.sources.base import HttpAddress, ListedObject, ListedPage, Probe, any_version
from rowfall.stores import completeness, globs
from rowfall.stores.cleared import ClearsObjects
from rowfall.stores.objects import (
    READS_PARTS,
    ObjectSource,
    changed_while_read,
    largest,
    with_data,
)
from rowfall.stores.patience import Patience

CHUNK = 1000  # keys per answer: S3 gives no more
_CODE = regex(r"<Code>(\w+)</Code>")
_STATUS = regex(r"status code: (\d{3})")
# How the parser of listings says that an answer ends in the middle.
_CUT = regex(r"invalid list response: .*(before end of input|tag not closed|Event::Eof)")
_PIECE = 4 << 20  # a range of it arrives within the client's 9 s at 0.5 MB/s
PATIENCE: dict[str, Any] = {
    "client_options": {"allow_http": True, "connect_timeout": "3s", "timeout": "9s"},
    "retry_config": {
        "max_retries": 2,
        "retry_timeout": timedelta(seconds=9),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=1),
            "base": 2,
        },
    },
}
"""Options of every store: one that is away is an error after some 10 s, not after minutes."""


# An attempt is 20 s of work, but one object of 5 TB at 100 MB/s is 14 hours. S3 allows a week.
SIGNED = timedelta(days=1)
"""Life of a signed address."""


class PreconditionFailed(Exception):  # noqa: N818 - what HTTP calls it
    """The object has another ETag than the one that was asked for."""


class StoredObject(NamedTuple):
    """One object of a listing; ``version`` is the ETag, else ``size-mtime``.

    ``modified`` is in seconds since 1970, None where the listing was read in another way.
    """

    key: str
    size: int
    version: str
    modified: float | None = None


class Bucket(ABC):
    """One bucket, listed and read with obstore.

    Keys that obstore refuses (with control characters or ``//``) go to the ``*_any_key`` methods.

    Attributes:
        uri: ``scheme://name``.
        where: the service, as shown to people.
        wrong_service: the hint when it answers like no service of this kind.
        unreachable: the hint when nothing answers.
    """

    wrong_service: ClassVar[str]
    unreachable: ClassVar[str]

    def __init__(self, name: str, scheme: str, where: str) -> None:
        self.name, self.where = name, where
        self.uri = f"{scheme}://{name}"
        self.patience = Patience()
        self._opened: Any = None
        self._refuses: bool | None = None

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Give the objects whose key starts with ``prefix``, in the order of the service.

        Raises:
            SourceError: no such bucket, access denied, not reachable; with a hint.
        """
        last, waiting = "", self.patience.begin()
        while True:
            try:
                for item in self._list_from(prefix, last):
                    last = item.key
                    waiting.progress()
                    yield item
                return
            except SourceError as error:
                waiting.after(error)

    def _list_from(self, prefix: str, last: str) -> Iterator[StoredObject]:
        """Give the objects behind the key ``last``.

        Raises:
            SourceError: as :meth:`list`.
        """
        from obstore.exceptions import InvalidPathError

        try:
            yield from self._list(prefix, last)
        except InvalidPathError:
            # ListedSource twice from the start; the caller keeps what it has seen by key.
            yield from self._list_any_key(prefix)
        except RowfallError:
            raise
        except Exception as error:
            raise self._source_error(error, f"list {self.uri}/{prefix}".rstrip("/")) from error

    resumes: ClassVar[bool] = True
    """A listing may begin behind a key without those before it being sent."""

    def page(self, prefix: str, after: str) -> Sequence[StoredObject]:
        """Return the objects of one answer behind a key, whose key starts with ``prefix``.

        Nothing is returned where nothing follows.

        Raises:
            SourceError: as :meth:`list`.
        """
        from obstore.exceptions import InvalidPathError

        def asked() -> Sequence[StoredObject]:
            try:
                return self._page(prefix, after)
            except InvalidPathError:
                return self._page_any_key(prefix, after)
            except RowfallError:
                raise
            except Exception as error:
                raise self._source_error(error, f"list {self.uri}/{prefix}".rstrip("/")) from error

        return self.patience.ask(asked)

    def _page(self, prefix: str, after: str) -> Sequence[StoredObject]:
        folder, begin = _folder_and_offset(prefix, after)
        # One request: what follows is asked for from behind the last key, as some services repeat
        # their tokens.
        chunk = next(iter(self._store().list(folder, offset=begin, chunk_size=CHUNK)), ())
        return [stored_object(meta, meta["path"]) for meta in chunk]

    def head(self, key: str) -> StoredObject | None:
        """Return one object, None when there is none.

        Raises:
            SourceError: as :meth:`list`.
        """
        return self.patience.ask(lambda: self._head(key))

    def _head(self, key: str) -> StoredObject | None:
        try:
            try:
                meta = self._store().head(key)
            except ValueError:  # obstore refuses the key before it asks
                return self._head_any_key(key)
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._source_error(error, f"read {self.uri}/{key}") from error
        return stored_object(meta, key)

    def read(self, key: str, start: int, length: int, version: str = "") -> bytes:
        """Return ``length`` bytes of an object, fewer where it ends.

        Args:
            version: that it was listed with; "" takes any.

        Raises:
            ObjectChangedError: it is another version.
            SourceError: as :meth:`list`, or the object is gone.
        """
        etag = from_clause.etag_of(version)
        try:
            data, found = self.patience.ask(lambda: self._get(key, start, length, etag))
        except PreconditionFailed:
            raise changed_while_read(f"{self.uri}/{key}") from None
        # Stores that do not look at If-Match, and those without ETags.
        if version and found != version and bool(etag) == bool(from_clause.etag_of(found)):
            raise changed_while_read(f"{self.uri}/{key}")
        return data

    def refuses_other_versions(self, key: str) -> bool:
        """Ask once whether the store looks at ``If-Match``; ``key`` is one of its objects.

        Raises:
            SourceError: as :meth:`read`.
        """
        if self._refuses is None:
            try:
                self.patience.ask(lambda: self._get(key, 0, 1, from_clause.OTHER_ETAG))
                self._refuses = False
            except PreconditionFailed:
                self._refuses = True
        return self._refuses

    def _get(self, key: str, start: int, length: int, etag: str) -> tuple[bytes, str]:
        """Return bytes of an object, and which version of it they are of.

        Raises:
            PreconditionFailed: it has another ETag.
            SourceError: as :meth:`read`.
        """
        from obstore.exceptions import PreconditionError

        wanted: dict[str, Any] = {"range": (start, start + length)}
        if etag:
            wanted["if_match"] = etag
        try:
            try:
                got = self._store().get(key, options=wanted)
                return bytes(got.bytes()), stored_object(got.meta, key).version
            except ValueError:  # as in head
                return self._get_any_key(key, start, length, etag)
        except PreconditionError:
            raise PreconditionFailed from None
        except (RowfallError, PreconditionFailed):
            raise
        except FileNotFoundError as error:
            raise SourceError(f"cannot read {self.uri}/{key}: it is gone") from error
        except Exception as error:
            raise self._source_error(error, f"read {self.uri}/{key}") from error

    def pieces(self, key: str, size: int, version: str = "") -> Iterator[bytes]:
        """Give a whole object in ranges: no connection stays open while nobody takes its bytes.

        Raises:
            SourceError: as :meth:`read`.
        """
        for start in range(0, size, _PIECE):
            yield self.read(key, start, min(_PIECE, size - start), version)

    def check_after(self, action: After) -> None:
        """Check that objects can get what ``--after`` asks for.

        Raises:
            UsageError: they cannot.
        """
        if action.kind == TAG:
            raise UsageError(
                f"--after tag: objects of {self.uri.partition(':')[0]}:// have no tags",
                hint="Take --after move:PREFIX or --after delete.",
            )

    def copy(self, found: StoredObject, to: str) -> None:
        """Copy this version of an object to another key of the bucket.

        Raises:
            ObjectChangedError: it has another version now; there is no copy of that.
            SourceError: as :meth:`list`.
        """
        with self._writing(found.key, "copy"):
            self._store().copy(found.key, to)
        if self._is_other(found):
            with self._writing(to, "delete"):
                self._store().delete(to)
            raise changed_while_read(f"{self.uri}/{found.key}")

    def delete(self, found: StoredObject) -> None:
        """Delete this version of an object; nothing where it is gone.

        Raises:
            ObjectChangedError: it has another version now.
            SourceError: as :meth:`list`.
        """
        if self._is_other(found):
            raise changed_while_read(f"{self.uri}/{found.key}")
        with self._writing(found.key, "delete"), suppress(FileNotFoundError):
            self._store().delete(found.key)

    def tag(self, key: str, name: str, value: str) -> None:
        """Give an object one more tag.

        Raises:
            SourceError: as :meth:`list`.
        """
        raise self._refused(f"tag {self.uri}/{key}")

    def _is_other(self, found: StoredObject) -> bool:
        now = self.head(found.key)
        return now is not None and now.version != found.version

    @contextmanager
    def _writing(self, key: str, word: str) -> Iterator[None]:
        """Raise what a store says while an object is changed, in plain words."""
        from obstore.exceptions import PreconditionError

        try:
            yield
        except PreconditionError:
            raise changed_while_read(f"{self.uri}/{key}") from None
        except (RowfallError, FileNotFoundError):
            raise
        except Exception as error:
            raise self._source_error(error, f"{word} {self.uri}/{key}") from error

    def _list(self, prefix: str, last: str) -> Iterator[StoredObject]:
        start = prefix.rpartition("/")[2]
        (folder, offset), head = _folder_and_offset(prefix, last), ""
        while True:
            begin, listed, former = offset, 0, set[str]()
            for chunk in self._store().list(folder, offset=begin, chunk_size=CHUNK):
                if head and not listed and chunk and chunk[0]["path"] == head:
                    # It goes on from behind no key, so nobody knows whether there are more.
                    yield from self._list_any_key(prefix)
                    return
                keys = {meta["path"] for meta in chunk}
                if chunk:
                    head, offset = head or chunk[0]["path"], chunk[-1]["path"]
                listed += len(chunk)
                yield from (
                    stored_object(m, m["path"]) for m in chunk if m["path"].startswith(prefix)
                )
                # Keys come in order: behind the prefix nothing can match any more.
                if chunk and start and chunk[-1]["path"] > prefix + "\U0010ffff":
                    return
                if 2 * len(keys - former) < len(chunk):
                    break  # the same pages again: the service repeats a token for ever
                former = keys
            else:
                if not listed or not self._may_go_on(listed):
                    return
            if offset == begin:
                return

    def _store(self) -> Any:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _may_go_on(self, listed: int) -> bool:
        """Tell whether more keys may be there where a listing has ended after ``listed`` keys."""
        return False

    @abstractmethod
    def _open(self) -> Any:
        """Open the store of obstore."""

    @abstractmethod
    def _secrets(self) -> tuple[Secret | None, ...]:
        """Return the secrets that must not be in the text of an error."""

    @abstractmethod
    def _reason(self, text: str, status: int, code: str) -> tuple[str, str] | None:
        """Return cause and hint of an error that services of this kind have; None for others.

        Args:
            text: of the error, masked.
            status: of the answer; 0 where there was none.
            code: ``<Code>`` of the answer, "" without one.
        """

    def _source_error(self, error: Exception, what: str) -> SourceError:
        """Return an error in plain words; foreign text is cut to its first line and masked."""
        text = redact(str(error), *self._secrets())
        number, name = _STATUS.search(text), _CODE.search(text)
        status, code = int(number[1]) if number else 0, name[1] if name else ""
        transient = False
        if _CUT.search(text):
            return CutOffError(
                f"cannot {what}: the answer of {self.where} ends in the middle",
                hint="A proxy in between, or the service, cuts its answers.", transient=True,
            )  # fmt: skip
        if found := self._reason(text, status, code):
            cause, hint = found
        elif status:
            transient = status >= 500 or status == 429
            cause = f"{self.where} answered {status} {code}".rstrip()
            hint = "Try again later." if transient else self.wrong_service
        else:
            why, reached = _network(text)
            cause, hint = f"no connection to {self.where} ({why})", self.unreachable
            made = SourceError if reached else NotReachedError
            return made(f"cannot {what}: {cause}", hint=hint, transient=True)
        return SourceError(f"cannot {what}: {cause}", hint=hint, transient=transient)

    # Without obstore; stores that have no other client refuse the key.

    def _page_any_key(self, prefix: str, after: str) -> Sequence[StoredObject]:
        raise self._refused(f"list {self.uri}/{prefix}")

    def _list_any_key(self, prefix: str) -> Iterator[StoredObject]:
        raise self._refused(f"list {self.uri}/{prefix}")

    def _head_any_key(self, key: str) -> StoredObject | None:
        raise self._refused(f"read {self.uri}/{key}")

    def _get_any_key(self, key: str, start: int, length: int, etag: str) -> tuple[bytes, str]:
        raise self._refused(f"read {self.uri}/{key}")

    def _refused(self, what: str) -> SourceError:
        return SourceError(
            f"cannot {what}: keys with //, /./, /../ or control characters cannot be asked for",
            hint="Copy such objects to other keys, or use a narrower pattern.",
        )


def _folder_and_offset(prefix: str, after: str) -> tuple[str | None, str | None]:
    """Return the folder that obstore lists for a prefix, and the key that it begins behind.

    It lists folders only; inside the folder it starts right before the wanted names.
    """
    folder, _, start = prefix.rpartition("/")
    offset = None
    if start and " " < start[-1] <= "~":
        offset = prefix[:-1] + chr(ord(start[-1]) - 1)
    return folder or None, after or offset


def _network(text: str) -> tuple[str, bool]:
    """Return the reason of a network error by the text of obstore or botocore, and whether there
    was a connection."""
    lower = text.lower().replace("retry_timeout", "")
    for needle, reason in (
        ("connection refused", "connection refused"),
        ("dns error", "the host name is not known"),
        ("failed to lookup", "the host name is not known"),
        ("certificate", "the TLS certificate is not trusted"),
        ("invalidcontenttype", "it does not speak TLS: use http instead of https"),
        ("corrupt message", "it does not speak TLS: use http instead of https"),
    ):
        if needle in lower:
            return reason, False
    if "timed out" in lower or "timeout" in lower:
        return "no answer in time", "connect" not in lower.replace("connect_timeout", "")
    return text.partition("\n")[0][-160:], True


def stored_object(meta: Any, key: str) -> StoredObject:
    """Return an object as the stores describe it."""
    version = version_of(meta["e_tag"], meta["size"], meta["last_modified"])
    return StoredObject(key, meta["size"], version, meta["last_modified"].timestamp())


def version_of(etag: str | None, size: int, modified: datetime) -> str:
    """Return the version of an object: its ETag without quotes, else ``size-mtime``."""
    if etag:
        return etag.strip('"')
    return f"{size}-{modified.timestamp():.0f}"


class StoreSource(ClearsObjects, ObjectSource):
    """A source of objects in buckets; a subclass says how the engine reads them.

    Attributes:
        scheme: of its URIs.
        how_to_name: the hint when a URI names no bucket.
    """

    kind: ClassVar[str] = "objects"
    scheme: ClassVar[str]
    how_to_name: ClassVar[str]

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        super().__init__(" ".join(texts), options)
        self._patterns = [self._bucket_and_key(text) for text in texts]
        self._buckets: dict[str, Bucket] = {}

    @abstractmethod
    def _open(self, name: str) -> Bucket:
        """Open the bucket of that name; called once for each."""

    def _found(self) -> Iterator[tuple[str, str, int]]:
        """Give all objects; ``version`` is the ETag."""
        names: list[str] = []
        versions: list[str] = []
        sizes = array("q")  # flat columns: there may be millions
        for bucket, pattern in self._patterns:
            for item in self._find(bucket, pattern):
                name = f"{self.scheme}://{bucket}/{item.key}"
                _check(item.key, name)
                names.append(name)
                versions.append(item.version)
                sizes.append(item.size)
        for index in sorted(range(len(names)), key=names.__getitem__):
            yield names[index], versions[index], sizes[index]

    def _part(self, split: Split, start: int, length: int) -> bytes:
        bucket, key = self._bucket_and_key(split.uri)
        # There is no range of no bytes.
        length = min(length, (split.size or 0) - start)
        version = split.version if self.pinned else ""
        return self._bucket(bucket).read(key, start, length, version) if length > 0 else b""

    rest_seconds = 0.0

    def walks(self) -> list[KeyWalk]:
        """See :class:`rowfall.sources.base.ListedSource`."""
        found = []
        for bucket, pattern in self._patterns:
            exact = bool(pattern) and not pattern.endswith("/")
            exact = exact and self._exact(bucket, pattern) is not None
            found.append(KeyWalk(self, bucket, pattern, exact=exact))
            next(found[-1].pages(), None)  # whoever may not list hears so at once
        return found

    def notices(self, emit: Listener) -> None:
        """See :class:`rowfall.sources.base.ListedSource`: only listings tell."""

    def renew(self) -> None:
        """See :class:`rowfall.sources.base.ListedSource`."""
        self._buckets.clear()

    def walked(self, bucket: str) -> Bucket:
        """Return a bucket, for a walk over it."""
        return self._bucket(bucket)

    @property
    def everything(self) -> bool:
        """True where all objects of a folder are loaded, whatever their extensions."""
        return self._options.format is not None

    @property
    @abstractmethod
    def secrets(self) -> tuple[Secret, ...]:
        """See :class:`rowfall.sources.base.Source`."""

    def size_of(self, name: str) -> int | None:
        """Return the bytes of an object, None where there is none.

        Raises:
            SourceError: as :meth:`Bucket.list`.
        """
        bucket, key = self._bucket_and_key(name)
        found = self._bucket(bucket).head(key)
        return None if found is None else found.size

    def names_in(self, folder: str) -> Iterator[str]:
        """Give the objects right in a folder; nothing where there is none.

        Raises:
            SourceError: as :meth:`Bucket.list`.
        """
        bucket, key = self._bucket_and_key(folder.rstrip("/") + "/")
        for item in self._bucket(bucket).list(key):
            if "/" not in item.key[len(key) :]:
                yield f"{self.scheme}://{bucket}/{item.key}"

    def modified(self, split: Split) -> float | None:
        """See :class:`rowfall.sources.base.Dated`; a request for each object."""
        bucket, key = self._bucket_and_key(split.uri)
        found = self._bucket(bucket).head(key)
        return None if found is None else found.modified

    def _problem(self, split: Split) -> str | None:
        bucket, key = self._bucket_and_key(split.uri)
        opened = self._bucket(bucket)
        now = opened.head(key)
        if now is None:
            return "the object is gone"
        if now.version != split.version:
            return f"changed from {split.version} to {now.version} (ETag)"
        return self._pipes.broken(split.name) or completeness.check_remote(
            partial(opened.read, key, version=split.version),
            now.size,
            self._packing(split.uri),
        )

    def _opener(self, split: Split) -> pipes.Opener:
        bucket, key = self._bucket_and_key(split.uri)
        # The size is known: listings of objects hold it.
        version = split.version if self.pinned else ""
        return partial(self._bucket(bucket).pieces, key, split.size or 0, version)

    def _bucket_and_key(self, text: str) -> tuple[str, str]:
        """Return bucket and key of ``scheme://bucket/key``; the key is taken letter by letter."""
        bucket, _, key = text.partition("://")[2].partition("/")
        if not bucket or globs.has_meta(bucket) or "@" in bucket or ":" in bucket:
            raise UsageError(f"{uri.mask(text)!r} names no bucket", hint=self.how_to_name)
        return bucket, key

    def _refuses_others(self, split: Split) -> bool:
        """Tell whether a request for another version of an object is refused (If-Match)."""
        bucket, key = self._bucket_and_key(split.uri)
        return self._bucket(bucket).refuses_other_versions(key)

    def _bucket(self, name: str) -> Bucket:
        if name not in self._buckets:
            self._buckets[name] = self._open(name)
            self._buckets[name].patience = Patience.of(self._options)
        return self._buckets[name]

    def _find(self, bucket: str, pattern: str) -> Iterator[StoredObject]:
        """Give the objects that one URI names: an exact key, a glob, or a folder, in this order."""
        if pattern and not pattern.endswith("/"):
            exact = self._exact(bucket, pattern)
            if exact is not None:
                yield exact
                return
        if globs.has_meta(pattern):
            yield from self._matches(bucket, pattern)
            return
        folder = pattern if not pattern or pattern.endswith("/") else pattern + "/"
        yield from self._folder(bucket, folder)

    def _exact(self, bucket: str, key: str) -> StoredObject | None:
        try:
            return self._bucket(bucket).head(key)
        except SourceError:
            if globs.has_meta(key):  # the listing tells what is wrong, if anything is
                return None
            raise

    def _matches(self, bucket: str, pattern: str) -> Iterator[StoredObject]:
        wanted = globs.compile_glob(pattern)
        prefix = globs.constant_prefix(pattern)
        opened = self._bucket(bucket)
        seen, found = 0, False
        for item in opened.list(prefix):
            seen += 1
            if wanted.match(item.key) and not item.key.endswith("/") and not self._own(item.key):
                found = True
                yield item
        if not found:
            raise NothingFoundError(
                f"no object matches {self.scheme}://{bucket}/{pattern} at {opened.where}",
                hint=self._own.said
                or f"{seen:,} keys start with {self.scheme}://{bucket}/{prefix}; * stops at /, "
                "** does not.",
            )

    def _folder(self, bucket: str, folder: str) -> Iterator[StoredObject]:
        opened = self._bucket(bucket)

        def shown(item: StoredObject) -> bool:
            below = item.key[len(folder) :]
            hidden = any(part[:1] in ("_", ".") for part in below.split("/"))
            return not (hidden or item.key.endswith("/") or self._own(item.key))

        def nothing(others: int) -> SourceError:
            where = f"{self.scheme}://{bucket}/{folder}"
            if self._own.said:
                return SourceError(f"no data object below {where}", hint=self._own.said)
            if others:
                return NothingFoundError(
                    f"no data object below {where}",
                    hint=f"It holds {units.counted(others, 'object')} with other extensions; "
                    "name the format with --format.",
                )
            return NothingFoundError(
                f"no such object or folder: {where.removesuffix('/')} at {opened.where}",
                hint="The bucket is there and can be listed; check the key, or use a glob.",
            )

        items = filter(shown, opened.list(folder))
        everything = self._options.format is not None
        return with_data(items, lambda item: item.key, everything, nothing)


class KeyWalk:
    """The objects that one URI of buckets stands for; see :class:`rowfall.sources.base.Walk`.

    Args:
        exact: the pattern is the key of one object.
    """

    def __init__(self, source: StoreSource, bucket: str, pattern: str, *, exact: bool) -> None:
        self._source, self._bucket, self._exact = source, bucket, exact
        self._base = f"{source.scheme}://{bucket}/"
        self.text = f"{self._base}{pattern}"
        self._pattern = pattern
        self._glob = globs.compile_glob(pattern) if globs.has_meta(pattern) and not exact else None
        folder = pattern if not pattern or pattern.endswith("/") else f"{pattern}/"
        self._prefix = globs.constant_prefix(pattern) if self._glob is not None else folder
        self.resumes = source.walked(bucket).resumes

    def _belongs(self, key: str) -> bool:
        if own_files.is_own_path(key) or key.endswith("/"):
            return False
        if self._exact:
            return key == self._pattern
        if self._glob is not None:
            return self._glob.match(key) is not None
        below = key[len(self._prefix) :]
        hidden = any(part[:1] in ("_", ".") for part in below.split("/"))
        return not hidden and (self._source.everything or formats.is_data(key))

    def _item(self, found: StoredObject) -> ListedObject:
        return ListedObject(f"{self._base}{found.key}", found.version, found.size, found.modified)

    def pages(self, after: str = "") -> Iterator[ListedPage]:
        """See :class:`rowfall.sources.base.Walk`."""
        last = after.removeprefix(self._base)
        if self._exact:
            found = None if last else self._source.walked(self._bucket).head(self._pattern)
            if found is not None:
                yield ListedPage([self._item(found)], self.text)
            return
        for chunk in self._chunks(last):
            yield ListedPage(
                [self._item(one) for one in chunk if self._belongs(one.key)],
                f"{self._base}{chunk[-1].key}",
            )

    def _chunks(self, last: str) -> Iterator[Sequence[StoredObject]]:
        """Give what is listed, whether it belongs or not, until keys are behind the prefix."""
        bucket = self._source.walked(self._bucket)
        if not self.resumes:
            held: list[StoredObject] = []
            for one in bucket.list(self._prefix):
                if one.key > last:
                    held.append(one)
                if len(held) == CHUNK:
                    yield held
                    held = []
            if held:
                yield held
            return
        while chunk := self._source.walked(self._bucket).page(self._prefix, last):
            behind = max(one.key for one in chunk)
            if behind <= last:
                return  # a service that does not go on would be asked for ever
            last = behind
            wanted = [one for one in chunk if one.key.startswith(self._prefix)]
            if wanted:
                yield wanted
            if chunk[-1].key > f"{self._prefix}\U0010ffff":
                return

    def look(self, name: str) -> ListedObject | None:
        """See :class:`rowfall.sources.base.Walk`."""
        key = name.removeprefix(self._base)
        if not self._belongs(key):
            return None
        found = self._source.walked(self._bucket).head(key)
        return None if found is None else self._item(found)


def _check(key: str, named: str) -> None:
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise SourceError(
            f"cannot read {named}: the engine cannot ask for keys with //, /./ or /../",
            hint="Copy the object to another key, or exclude it by a narrower pattern.",
        )


class UrlStoreSource(StoreSource):
    """A source over a store whose objects the engine reads from addresses that need no keys.

    Servers write addresses into their logs, so they only read what needs no signature.
    """

    @abstractmethod
    def addresses(self, splits: Sequence[Split]) -> list[HttpAddress]:
        """See :class:`rowfall.sources.base.Addressed`."""

    @property
    @abstractmethod
    def _signs(self) -> bool:
        """True where addresses are signed, which makes them secrets."""

    def _functions(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> list[from_clause.TableFunction]:
        addresses = self.addresses(splits)
        pins = self._pins(splits) if structure and self.pinned else {}
        objects = {
            split.uri: from_clause.UrlObject(
                address.url.reveal(), self._signs, pin=pins.get(split.uri, from_clause.NO_PIN)
            )
            for split, address in zip(splits, addresses, strict=True)
        }
        return from_clause.url_functions(objects, encoding, structure)

    def _pins(self, splits: Sequence[Split]) -> dict[str, from_clause.Pin]:
        """Return the pins that hold an engine to the listed versions, by the objects' names."""
        etags = {
            split.uri: etag for split in splits if (etag := from_clause.etag_of(split.version))
        }
        if len(splits) <= from_clause.APART and all(map(self._refuses_others, splits)):
            return {name: from_clause.pin_by_request(etag) for name, etag in etags.items()}
        return {}

    def _read_here(self, splits: Sequence[Split], encoding: Encoding | None) -> dict[str, Split]:
        """See :class:`ObjectSource`."""
        if not self.reads_here(encoding):
            return {}
        pins = self._pins(splits)
        return {split.uri: split for split in splits if split.uri not in pins}

    def unpinned(self, listing: Listing, encoding: Encoding | None) -> str | None:
        """See :class:`rowfall.sources.base.Pinned`."""
        if self.reads_here(encoding):
            return None
        splits = largest(listing)
        return READS_PARTS if len(self._pins(splits)) < len(splits) else None

    def probe(self, split: Split) -> Probe:
        """Ask for size and first bytes: in another network an address may be another store's."""
        length = min(from_clause.HEAD, split.size or 1)
        (function,) = any_version(self)._functions([split], *from_clause.head_columns(length))
        return from_clause.url_probe(function, split.size, self.part(split, 0, length))
