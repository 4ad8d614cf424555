"""Objects in Google Cloud Storage: ``gs://bucket/key-or-glob``.

By the S3 protocol where there are HMAC keys, which servers can use, too; else by Google's own, as a
service account or unsigned. Keys and endpoint come from the environment.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from rowfall.core import uri
from rowfall.core.after import After
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.listing import Split
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.core.s3_access import Access, Keys
from rowfall.sources import from_clause
from rowfall.sources.base import HttpAddress
from rowfall.stores.buckets import PATIENCE, SIGNED, Bucket
from rowfall.stores.object_stores import UrlStoreSource
from rowfall.stores.s3 import S3, S3Bucket

_HOW_TO_NAME = (
    "Write gs://bucket/key; keys come from GOOGLE_APPLICATION_CREDENTIALS or GS_ACCESS_KEY_ID."
)


def open_gs(texts: Sequence[str], options: Options) -> Gs | GsHmac:
    """Open the source by the S3 protocol where there are keys for it, else by Google's."""
    account = resolve_account()
    return GsHmac(texts, options, account) if account.hmac else Gs(texts, options, account)


class GsHmac(S3):
    """``gs://`` by the S3 protocol."""

    scheme: ClassVar[str] = "gs"
    hears_queue: ClassVar[bool] = False
    how_to_name: ClassVar[str] = _HOW_TO_NAME

    def __init__(self, texts: Sequence[str], options: Options, account: GoogleAccount) -> None:
        super().__init__(texts, options)
        self._opened = account.s3

    def renew(self) -> None:
        """See :class:`rowfall.sources.base.ListedSource`: the environment is read again."""
        super().renew()
        self._opened = resolve_account().s3

    def _open(self, name: str) -> Bucket:
        return HmacBucket(name, self.access(), self.scheme)


class Gs(UrlStoreSource):
    """``gs://`` as a service account, or unsigned; splits are whole objects."""

    scheme: ClassVar[str] = "gs"
    how_to_name: ClassVar[str] = _HOW_TO_NAME

    def __init__(self, texts: Sequence[str], options: Options, account: GoogleAccount) -> None:
        super().__init__(texts, options)
        self._account = account

    @property
    def secrets(self) -> tuple[Secret, ...]:
        return from_clause.secrets_of(self._account.service)

    def addresses(self, splits: Sequence[Split]) -> list[HttpAddress]:
        if not self._signs:
            names = (split.uri.partition("://")[2] for split in splits)
            return [
                HttpAddress(Secret(f"{self._account.endpoint}/{uri.encode(name)}"))
                for name in names
            ]
        keys: dict[str, list[str]] = defaultdict(list)
        for split in splits:
            bucket, key = self._bucket_and_key(split.uri)
            keys[bucket].append(key)
        signed = {b: iter(cast("GsBucket", self._bucket(b)).sign(k)) for b, k in keys.items()}
        return [HttpAddress(next(signed[self._bucket_and_key(split.uri)[0]])) for split in splits]

    @property
    def _signs(self) -> bool:
        return self._account.service is not None

    def renew(self) -> None:
        """See :class:`rowfall.sources.base.ListedSource`: key files are read again."""
        super().renew()
        self._account = resolve_account()

    def _open(self, name: str) -> Bucket:
        return GsBucket(name, self._account)


GOOGLE = "https://storage.googleapis.com"


@dataclass(frozen=True, slots=True)
class GoogleAccount:
    """Endpoint and keys of buckets.

    Attributes:
        endpoint: URL without a trailing slash; buckets follow.
        hmac: keys of the S3 protocol; then nothing else counts.
        service: the key file of a service account, as JSON; None asks without a signature.
    """

    endpoint: str
    hmac: Keys | None = None
    service: Secret | None = None

    @property
    def s3(self) -> Access:
        """Return access to the service by the S3 protocol."""
        return Access(self.endpoint, "auto", anonymous=self.hmac is None, fixed=self.hmac)


def resolve_account(environ: Mapping[str, str] = os.environ) -> GoogleAccount:
    """Return HMAC keys, the emulator, a service account, or nobody: in this order.

    Raises:
        UsageError: the endpoint is no URL, or the key file is none of a service account.
        SourceError: the key file cannot be read.
    """
    key_id, secret = environ.get("GS_ACCESS_KEY_ID"), environ.get("GS_SECRET_ACCESS_KEY")
    emulator = environ.get("STORAGE_EMULATOR_HOST")
    endpoint = _url(environ.get("GOOGLE_BASE_URL") or emulator or GOOGLE)
    if key_id and secret:
        return GoogleAccount(endpoint, hmac=Keys(key_id, Secret(secret)))
    if emulator:
        return GoogleAccount(endpoint)
    text = environ.get("GOOGLE_SERVICE_ACCOUNT_KEY") or _read(environ)
    return GoogleAccount(endpoint, service=_checked_account(text) if text else None)


def _url(text: str) -> str:
    url = text if "://" in text else f"http://{text}"  # as Google's libraries take the emulator's
    if not url.startswith(("http://", "https://")):
        raise UsageError(
            f"the Google Cloud Storage endpoint {text!r} is not an http or https URL",
            hint=f"GOOGLE_BASE_URL looks like {GOOGLE}.",
        )
    return url.rstrip("/")


def _read(environ: Mapping[str, str]) -> str:
    names = (
        "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_APPLICATION_CREDENTIALS",
    )  # fmt: skip
    path = next((environ[name] for name in names if environ.get(name)), None)
    if path is None:
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(
            f"cannot read the Google credentials {path}: {error}",
            hint="GOOGLE_APPLICATION_CREDENTIALS has to name the key file of a service account.",
        ) from error


def _checked_account(text: str) -> Secret:
    try:
        kind = json.loads(text).get("type", "")
    except (ValueError, AttributeError):
        kind = None
    if kind == "service_account":
        return Secret(text)
    what = "are no JSON of Google's" if kind is None else f"are of the type {kind!r}"
    raise UsageError(
        f"the Google credentials {what}: only those of a service account can sign addresses",
        hint="Give the key file of a service account in GOOGLE_APPLICATION_CREDENTIALS, or HMAC "
        "keys in GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY.",
    )


_WRONG_SERVICE = "Check GOOGLE_BASE_URL."
_RIGHTS = "they need storage.objects.list and storage.objects.get (Storage Object Viewer)."


class HmacBucket(S3Bucket):
    """A bucket by the S3 protocol."""

    wrong_service = _WRONG_SERVICE
    unreachable = "Check the network, and GOOGLE_BASE_URL."

    def check_after(self, action: After) -> None:
        """See :class:`Bucket`: Google's side of the S3 protocol knows no tags."""
        Bucket.check_after(self, action)
        super().check_after(action)

    def _denied(self, code: str) -> str:
        return f"Check GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY; {_RIGHTS}"


class GsBucket(Bucket):
    """A bucket by Google's own protocol."""

    wrong_service = _WRONG_SERVICE
    unreachable = "Check the network, and GOOGLE_BASE_URL or STORAGE_EMULATOR_HOST."

    def __init__(self, name: str, account: GoogleAccount) -> None:
        super().__init__(name, "gs", account.endpoint)
        self._account = account

    def sign(self, keys: Sequence[str]) -> Sequence[Secret]:
        """Return an address for each key, good for a day and for reading.

        Raises:
            SourceError: the account's key cannot sign.
        """
        import obstore

        try:
            # It takes what looks encoded for encoded, and leaves "," and "+" as they are, which the
            # engine takes for a pattern and a blank.
            names = [uri.encode(key) for key in keys]
            signed = obstore.sign(self._store(), "GET", names, SIGNED)
        except Exception as error:  # obstore raises what its parts raise
            raise self._source_error(error, f"sign addresses of {self.uri}") from error
        return [Secret(url) for url in signed]

    def _open(self) -> Any:
        from obstore.store import GCSStore

        account = self._account
        config: dict[str, Any] = {"base_url": account.endpoint}
        if account.service is None:
            config["skip_signature"] = True
        else:
            config["service_account_key"] = account.service.reveal()
        return GCSStore(self.name, **PATIENCE, **config)

    def _secrets(self) -> tuple[Secret | None, ...]:
        return (self._account.service,)

    def _reason(self, text: str, status: int, code: str) -> tuple[str, str] | None:
        if "NoSuchBucket" in text or "no bucket named" in text:  # the latter is the emulator's
            return (
                f"no bucket {self.name} at {self.where}",
                "The service answered; check the bucket's name.",
            )
        if status in (401, 403):
            hint = (
                f"Check the rights of the service account; {_RIGHTS}"
                if self._account.service
                else "The bucket is not public: give a service account in "
                "GOOGLE_APPLICATION_CREDENTIALS, or HMAC keys in GS_ACCESS_KEY_ID and "
                "GS_SECRET_ACCESS_KEY."
            )
            return f"access denied by {self.where} ({status})", hint
        return None
