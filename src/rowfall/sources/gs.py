"""Objects in Google Cloud Storage: ``gs://bucket/key-or-glob``, by HMAC keys or Google's own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar, cast

from rowfall.core import uri
from rowfall.core.listing import Split
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.sources import _gs_access, _relation
from rowfall.sources._bucket import Bucket
from rowfall.sources._byurl import ByUrl
from rowfall.sources._gs_access import Account
from rowfall.sources._gsbucket import GsBucket, HmacBucket
from rowfall.sources.base import Address
from rowfall.sources.s3 import S3

_PLACES = (
    "Write gs://bucket/key; keys come from GOOGLE_APPLICATION_CREDENTIALS or GS_ACCESS_KEY_ID."
)


def open_gs(texts: Sequence[str], options: Options) -> Gs | GsHmac:
    """By the S3 protocol where there are keys for it: servers can then read the bucket, too."""
    account = _gs_access.resolve()
    return GsHmac(texts, options, account) if account.hmac else Gs(texts, options, account)


class GsHmac(S3):
    """``gs://`` by the S3 protocol."""

    scheme: ClassVar[str] = "gs"
    places: ClassVar[str] = _PLACES

    def __init__(self, texts: Sequence[str], options: Options, account: Account) -> None:
        super().__init__(texts, options)
        self._opened = account.s3

    def _open(self, name: str) -> Bucket:
        return HmacBucket(name, self._access(), self.scheme)


class Gs(ByUrl):
    """``gs://`` as a service account, or as nobody; splits are whole objects."""

    scheme: ClassVar[str] = "gs"
    places: ClassVar[str] = _PLACES

    def __init__(self, texts: Sequence[str], options: Options, account: Account) -> None:
        super().__init__(texts, options)
        self._account = account

    @property
    def secrets(self) -> tuple[Secret, ...]:
        return _relation.secrets_of(self._account.service)

    def addresses(self, splits: Sequence[Split]) -> list[Address]:
        if not self._signs:
            names = (split.uri.partition("://")[2] for split in splits)
            return [
                Address(Secret(f"{self._account.endpoint}/{uri.encode(name)}")) for name in names
            ]
        keys: dict[str, list[str]] = defaultdict(list)
        for split in splits:
            bucket, key = self._place(split.uri)
            keys[bucket].append(key)
        signed = {b: iter(cast("GsBucket", self._bucket(b)).sign(k)) for b, k in keys.items()}
        return [Address(next(signed[self._place(split.uri)[0]])) for split in splits]

    @property
    def _signs(self) -> bool:
        return self._account.service is not None

    def _open(self, name: str) -> Bucket:
        return GsBucket(name, self._account)
