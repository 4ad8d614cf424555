"""What all object stores have in common: buckets of keys that are listed, matched and looked at."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar

from rowfall.core import units, uri
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.listing import Split
from rowfall.core.options import Options
from rowfall.sources import _feed, _glob, _whole
from rowfall.sources._bucket import Bucket, Object
from rowfall.sources._stored import Stored, with_data


class Objects(Stored):
    """A source of objects, sorted by key; what reads them is the subclass's.

    Attributes:
        scheme: of its URIs.
        places: where buckets and keys come from, for the hint when a URI names no bucket.
    """

    kind: ClassVar[str] = "objects"
    scheme: ClassVar[str]
    places: ClassVar[str]

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        super().__init__(" ".join(texts), options)
        self._places = [self._place(text) for text in texts]
        self._buckets: dict[str, Bucket] = {}

    @abstractmethod
    def _open(self, name: str) -> Bucket:
        """The bucket of that name; called once for each."""

    def _found(self) -> Iterator[tuple[str, str, int]]:
        """All objects; ``version`` is the ETag."""
        names: list[str] = []
        versions: list[str] = []
        sizes = array("q")  # flat columns: there may be millions
        for bucket, pattern in self._places:
            for item in self._find(bucket, pattern):
                name = f"{self.scheme}://{bucket}/{item.key}"
                _check(item.key, name)
                names.append(name)
                versions.append(item.version)
                sizes.append(item.size)
        for index in sorted(range(len(names)), key=names.__getitem__):
            yield names[index], versions[index], sizes[index]

    def part(self, split: Split, start: int, length: int) -> bytes:
        bucket, key = self._place(split.uri)
        # There is no range of no bytes.
        length = min(length, (split.size or 0) - start)
        return self._bucket(bucket).read(key, start, length) if length > 0 else b""

    def _wrong(self, split: Split) -> str | None:
        bucket, key = self._place(split.uri)
        opened = self._bucket(bucket)
        now = opened.head(key)
        if now is None:
            return "the object is gone"
        if now.version != split.version:
            return f"changed from {split.version} to {now.version} (ETag)"
        return self._feeder.broken(split.name) or _whole.check_remote(
            partial(opened.read, key), now.size, _whole.packed(key, self._options)
        )

    def _opener(self, split: Split) -> _feed.Opener:
        bucket, key = self._place(split.uri)
        # The size is known: listings of objects hold it.
        return partial(self._bucket(bucket).pieces, key, split.size or 0)

    def _place(self, text: str) -> tuple[str, str]:
        """Bucket and key of ``scheme://bucket/key``; the key is taken letter by letter."""
        bucket, _, key = text.partition("://")[2].partition("/")
        if not bucket or _glob.has_meta(bucket) or "@" in bucket or ":" in bucket:
            raise UsageError(f"{uri.mask(text)!r} names no bucket", hint=self.places)
        return bucket, key

    def _bucket(self, name: str) -> Bucket:
        if name not in self._buckets:
            self._buckets[name] = self._open(name)
        return self._buckets[name]

    def _find(self, bucket: str, pattern: str) -> Iterator[Object]:
        """Objects that one URI names: an exact key, a folder, or a glob, in this order."""
        if pattern and not pattern.endswith("/"):
            exact = self._exact(bucket, pattern)
            if exact is not None:
                yield exact
                return
        if _glob.has_meta(pattern):
            yield from self._matches(bucket, pattern)
            return
        folder = pattern if not pattern or pattern.endswith("/") else pattern + "/"
        yield from self._folder(bucket, folder)

    def _exact(self, bucket: str, key: str) -> Object | None:
        try:
            return self._bucket(bucket).head(key)
        except SourceError:
            if _glob.has_meta(key):  # the listing tells what is wrong, if anything is
                return None
            raise

    def _matches(self, bucket: str, pattern: str) -> Iterator[Object]:
        wanted = _glob.compile_glob(pattern)
        prefix = _glob.constant_prefix(pattern)
        opened = self._bucket(bucket)
        seen, found = 0, False
        for item in opened.list(prefix):
            seen += 1
            if wanted.match(item.key) and not item.key.endswith("/"):
                found = True
                yield item
        if not found:
            raise SourceError(
                f"no object matches {self.scheme}://{bucket}/{pattern} at {opened.where}",
                hint=f"{seen:,} keys start with {self.scheme}://{bucket}/{prefix}; * stops at /, "
                "** does not.",
            )

    def _folder(self, bucket: str, folder: str) -> Iterator[Object]:
        opened = self._bucket(bucket)

        def shown(item: Object) -> bool:
            below = item.key[len(folder) :]
            hidden = any(part[:1] in ("_", ".") for part in below.split("/"))
            return not (hidden or item.key.endswith("/"))

        def nothing(others: int) -> SourceError:
            where = f"{self.scheme}://{bucket}/{folder}"
            if others:
                return SourceError(
                    f"no data object below {where}",
                    hint=f"It holds {units.counted(others, 'object')} with other extensions; "
                    "name the format with --format.",
                )
            return SourceError(
                f"no such object or folder: {where.removesuffix('/')} at {opened.where}",
                hint="The bucket is there and can be listed; check the key, or use a glob.",
            )

        items = filter(shown, opened.list(folder))
        everything = self._options.format is not None
        return with_data(items, lambda item: item.key, everything, nothing)


def _check(key: str, named: str) -> None:
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise SourceError(
            f"cannot read {named}: the engine cannot ask for keys with //, /./ or /../",
            hint="Copy the object to another key, or exclude it by a narrower pattern.",
        )
