"""Objects in S3 and everything that speaks its protocol: ``s3://bucket/key-or-glob``."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from rowfall import formats, uri
from rowfall.errors import SourceError, UsageError
from rowfall.model import Encoding, Listing, Schema, Split
from rowfall.options import Options
from rowfall.s3access import Access, base_url, resolve, signature, signed
from rowfall.secrets import Secret
from rowfall.sources import _feed, _glob, _relation, _whole
from rowfall.sources._bucket import Bucket, Object
from rowfall.sources.base import EMBEDDED, Address, Probe
from rowfall.sql import literal
from rowfall.sqltext import SqlText

_REQUESTS = 32  # HEAD requests at a time
_GLOB = frozenset("*?{}")  # no way to quote them for the engine
_IN_BRACES = frozenset(",^")  # letters outside braces only; 24.10 takes ^ for a regular expression


class S3:
    """One source for any number of ``s3://`` URIs; splits are whole objects sorted by key.

    Empty objects are left out: they hold no rows, and typed formats cannot read them.
    """

    replayable = True
    fds: tuple[int, ...] = ()
    made: Schema | None = None
    reader = EMBEDDED

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        self.text = " ".join(texts)
        self._places = [_place(text) for text in texts]
        self._options = options
        self._opened: Access | None = None
        self._buckets: dict[str, Bucket] = {}
        self._feeder = _feed.Feeder(self)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        keys = self._opened.keys() if self._opened is not None else None
        return _relation.secrets_of(keys.secret, keys.token) if keys else ()

    def listing(self) -> Listing:
        """All objects; ``version`` is the ETag.

        Raises:
            SourceError: no credentials, no such bucket, access denied, nothing matches, all empty.
        """
        names: list[str] = []
        versions: list[str] = []
        sizes = array("q")  # flat columns: there may be millions
        for bucket, pattern in self._places:
            for item in self._find(bucket, pattern):
                _check(item.key, bucket)
                names.append(f"s3://{bucket}/{item.key}")
                versions.append(item.version)
                sizes.append(item.size)
        listing = Listing()
        last = ""
        for index in sorted(range(len(names)), key=names.__getitem__):
            if sizes[index] and names[index] != last:
                last = names[index]
                listing.add(last, versions[index], sizes[index])
        if not len(listing):
            raise SourceError(
                f"cannot read {self.text}: all objects found ({len(names)}) are empty",
                hint="Check what writes them, and whether it has finished.",
            )
        return listing

    def encoding(self, listing: Listing) -> Encoding:
        names = [listing.uri(index) for index in range(len(listing))]
        return _feed.readable(formats.detect(names, self._options), names)

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        return _relation.spread(listing, most)

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        """``s3(...)`` of exactly these objects; a missing one makes the engine raise."""
        fed, rest = _feed.choose(splits, encoding, self.reader)
        calls = self._calls(rest, encoding, structure)
        if fed:
            objects = [(split.uri, self._opener(split)) for split in fed]
            calls.append(_relation.Call(self._feeder.call(objects, encoding, structure)))
        return _relation.joined(calls, structure)

    def _calls(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> list[_relation.Call]:
        access = self._access()
        groups: dict[str, list[str]] = {}
        for split in splits:
            bucket, key = _place(split.uri)
            groups.setdefault(bucket, []).append(key)
        tail = _relation.arguments(encoding, structure)
        census = _relation.arguments(_relation.ONE, _relation.ONE_COLUMN)
        keys = access.keys()
        calls: list[_relation.Call] = []
        for bucket, names in groups.items():
            for path, only, count in _paths(names):
                url = literal(base_url(access, bucket) + path)
                call, counted = (
                    SqlText.of("s3(", url, *signature(keys), f"{end})") for end in (tail, census)
                )
                pattern = only is not None or count > 1  # a single key raises by itself
                calls.append(_relation.Call(
                    call, None if only is None else f"{bucket}/{only}",
                    counted if pattern and not self.reader.exact else None, count,
                ))  # fmt: skip
        return calls

    def probe(self, split: Split) -> Probe:
        """Size and ETag: another service may have the same bucket and key."""
        (call,) = self._calls([split], _relation.ONE, _relation.ONE_COLUMN)
        columns = "toString(_size), replaceAll(_etag, '\"', '')"
        wanted = (("size", str(split.size)), ("ETag", split.version))
        return Probe(_relation.probe(call, columns), wanted)

    def addresses(self, splits: Sequence[Split]) -> list[Address]:
        access = self._access()
        keys = access.keys()
        places = [_place(split.uri) for split in splits]
        urls = [base_url(access, bucket) + uri.encode(key) for bucket, key in places]
        return [Address(signed(url, keys, access.region)) for url in urls]

    def part(self, split: Split, start: int, length: int) -> bytes:
        bucket, key = _place(split.uri)
        # S3 has no range of no bytes.
        length = min(length, (split.size or 0) - start)
        return self._bucket(bucket).read(key, start, length) if length > 0 else b""

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        with ThreadPoolExecutor(_REQUESTS) as pool:
            answers = pool.map(self._wrong, splits)
            return [(split, text) for split, text in zip(splits, answers, strict=True) if text]

    def _wrong(self, split: Split) -> str | None:
        bucket, key = _place(split.uri)
        opened = self._bucket(bucket)
        now = opened.head(key)
        if now is None:
            return "the object is gone"
        if now.version != split.version:
            return f"changed from {split.version} to {now.version} (ETag)"
        return self._feeder.broken(split.uri) or _whole.check_remote(
            partial(opened.read, key), now.size, _whole.packed(key, self._options)
        )

    def _opener(self, split: Split) -> _feed.Opener:
        bucket, key = _place(split.uri)
        # The size is known: listings of objects hold it.
        return partial(self._bucket(bucket).pieces, key, split.size or 0)

    def _access(self) -> Access:
        if self._opened is None:
            self._opened = resolve(self._options)
        return self._opened

    def _bucket(self, name: str) -> Bucket:
        if name not in self._buckets:
            self._buckets[name] = Bucket(name, self._access())
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
        seen, found = 0, False
        for item in self._bucket(bucket).list(prefix):
            seen += 1
            if wanted.match(item.key) and not item.key.endswith("/"):
                found = True
                yield item
        if not found:
            raise SourceError(
                f"no object matches s3://{bucket}/{pattern} at {self._access().where}",
                hint=f"{seen:,} keys start with s3://{bucket}/{prefix}; * stops at /, ** does not.",
            )

    def _folder(self, bucket: str, folder: str) -> Iterator[Object]:
        everything = self._options.format is not None
        others, found = 0, False
        for item in self._bucket(bucket).list(folder):
            below = item.key[len(folder) :]
            hidden = any(part[:1] in ("_", ".") for part in below.split("/"))
            if not below or below.endswith("/") or hidden:
                continue
            if everything or formats.is_data(below):
                found = True
                yield item
            else:
                others += 1
        if found:
            return
        where = f"s3://{bucket}/{folder}"
        if others:
            raise SourceError(
                f"no data object below {where}",
                hint=f"{others} objects have other extensions; name the format with --format.",
            )
        raise SourceError(
            f"no such object or folder: {where.removesuffix('/')} at {self._access().where}",
            hint="The bucket is there and can be listed; check the key, or use a glob.",
        )


def _place(text: str) -> tuple[str, str]:
    """Bucket and key of ``s3://bucket/key``; the key is taken letter by letter."""
    bucket, _, key = text.partition("://")[2].partition("/")
    if not bucket or _glob.has_meta(bucket) or "@" in bucket or ":" in bucket:
        raise UsageError(
            f"{uri.mask(text)!r} names no bucket",
            hint="Write s3://bucket/key; keys come from the environment or --s3-profile, the "
            "address of another service from --s3-endpoint.",
        )
    return bucket, key


def _check(key: str, bucket: str) -> None:
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise SourceError(
            f"cannot read s3://{bucket}/{key}: the engine cannot ask for keys with //, /./ or /../",
            hint="Copy the object to another key, or exclude it by a narrower pattern.",
        )


def _paths(keys: Sequence[str]) -> Iterator[tuple[str, str | None, int]]:
    """Encoded URL paths that name exactly ``keys``: one for all plain ones, one a nasty one.

    Yields (path, key to narrow it to by ``_path`` or None, number of keys). The engine decodes the
    URL before it looks for braces, so names are percent-encoded and the braces are not.
    """
    plain = [key for key in keys if not (_GLOB | _IN_BRACES) & set(key)]
    if len(plain) == 1:
        yield uri.encode(plain[0]), None, 1
    elif plain:
        yield _relation.braces(plain, uri.encode), None, len(plain)
    for key in keys:
        if _GLOB & set(key):
            yield uri.encode(_relation.wildcard(key)), key, 1
        elif _IN_BRACES & set(key):
            yield uri.encode(key), None, 1
