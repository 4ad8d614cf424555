"""Sources over buckets of object stores (:mod:`rowfall.stores.buckets`).

:class:`StoreSource` is the source over buckets: an exact key, a folder, or a glob, sorted by key.
:class:`UrlStoreSource` is one whose objects the engine reads like files on a web server.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar

from rowfall.core import formats, own_files, units, uri
from rowfall.core.errors import (
    NothingFoundError,
    SourceError,
    UsageError,
)
from rowfall.core.events import Listener
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding
from rowfall.core.options import Options
from rowfall.sources import from_clause, pipes
from rowfall.sources.base import (
    HttpAddress,
    ListedObject,
    ListedPage,
    ObjectNotices,
    Probe,
    any_version,
)
from rowfall.stores import completeness, globs
from rowfall.stores.buckets import CHUNK, Bucket, StoredObject
from rowfall.stores.cleared import ClearsObjects
from rowfall.stores.objects import (
    READS_PARTS,
    ObjectSource,
    largest,
    with_data,
)
from rowfall.stores.patience import Patience


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
        found = []
        for bucket, pattern in self._patterns:
            exact = bool(pattern) and not pattern.endswith("/")
            exact = exact and self._exact(bucket, pattern) is not None
            found.append(KeyWalk(self, bucket, pattern, exact=exact))
            next(found[-1].pages(), None)  # whoever may not list hears so at once
        return found

    def notices(self, emit: Listener) -> ObjectNotices | None:
        """See :class:`rowfall.sources.base.ListedSource`: only listings tell."""
        return None

    def renew(self) -> None:
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
        """See :class:`rowfall.sources.base.HasModificationTimes`; a request for each object."""
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
    """The objects that one URI of buckets stands for; see :class:`rowfall.sources.base.ObjectWalk`.

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
        if not key.startswith(self._prefix):
            return False
        below = key[len(self._prefix) :]
        hidden = any(part[:1] in ("_", ".") for part in below.split("/"))
        return not hidden and (self._source.everything or formats.is_data(key))

    def _item(self, found: StoredObject) -> ListedObject:
        return ListedObject(f"{self._base}{found.key}", found.version, found.size, found.modified)

    def pages(self, after: str = "") -> Iterator[ListedPage]:
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
        key = name.removeprefix(self._base)
        if key == name or not self._belongs(key):
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
        if not self.reads_here(encoding):
            return {}
        pins = self._pins(splits)
        return {split.uri: split for split in splits if split.uri not in pins}

    def unpinned(self, listing: Listing, encoding: Encoding | None) -> str | None:
        if self.reads_here(encoding):
            return None
        splits = largest(listing)
        return READS_PARTS if len(self._pins(splits)) < len(splits) else None

    def probe(self, split: Split) -> Probe:
        """Ask for size and first bytes: in another network an address may be another store's."""
        length = min(from_clause.HEAD, split.size or 1)
        (function,) = any_version(self)._functions([split], *from_clause.head_columns(length))
        return from_clause.url_probe(function, split.size, self.part(split, 0, length))
