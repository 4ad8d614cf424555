"""Objects in S3 and everything that speaks its protocol: ``s3://bucket/key-or-glob``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from rowfall.core import uri
from rowfall.core.listing import Split
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding
from rowfall.core.options import Options
from rowfall.core.s3_access import Access, base_url, resolve, signature, signed
from rowfall.core.sql import literal
from rowfall.core.sqltext import SqlText
from rowfall.sources import _relation
from rowfall.sources._bucket import Bucket
from rowfall.sources._objects import Objects
from rowfall.sources._s3bucket import S3Bucket
from rowfall.sources.base import Address, Probe

_GLOB = frozenset("*?{}")  # no way to quote them for the engine
_IN_BRACES = frozenset(",^")  # letters outside braces only; 24.10 takes ^ for a regular expression


class S3(Objects):
    """One source for any number of ``s3://`` URIs; splits are whole objects sorted by key."""

    scheme: ClassVar[str] = "s3"
    places: ClassVar[str] = (
        "Write s3://bucket/key; keys come from the environment or --s3-profile, the address of "
        "another service from --s3-endpoint."
    )

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        super().__init__(texts, options)
        self._opened: Access | None = None

    @property
    def secrets(self) -> tuple[Secret, ...]:
        keys = self._opened.keys() if self._opened is not None else None
        return _relation.secrets_of(keys.secret, keys.token) if keys else ()

    def _calls(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> list[_relation.Call]:
        access = self._access()
        groups: dict[str, list[str]] = {}
        for split in splits:
            bucket, key = self._place(split.uri)
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
        places = [self._place(split.uri) for split in splits]
        urls = [base_url(access, bucket) + uri.encode(key) for bucket, key in places]
        return [Address(signed(url, keys, access.region)) for url in urls]

    def _access(self) -> Access:
        if self._opened is None:
            self._opened = resolve(self._options)
        return self._opened

    def _open(self, name: str) -> Bucket:
        return S3Bucket(name, self._access(), self.scheme)


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
