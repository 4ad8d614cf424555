"""Where Google Cloud Storage is and who asks: keys and accounts from the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from rowfall.core.errors import SourceError, UsageError
from rowfall.core.masked import Secret
from rowfall.core.s3_access import Access, Keys

GOOGLE = "https://storage.googleapis.com"
# As long as an address of S3 is good: an attempt is 20 s of work, one huge object may be hours.
SIGNED = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Account:
    """How buckets are reached.

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
        """The same place by the S3 protocol."""
        return Access(self.endpoint, "auto", anonymous=self.hmac is None, fixed=self.hmac)


def resolve(environ: Mapping[str, str] = os.environ) -> Account:
    """HMAC keys, the emulator, a service account, or nobody: in this order.

    Raises:
        UsageError: the endpoint is no URL, or the key file is none of a service account.
        SourceError: the key file cannot be read.
    """
    key_id, secret = environ.get("GS_ACCESS_KEY_ID"), environ.get("GS_SECRET_ACCESS_KEY")
    emulator = environ.get("STORAGE_EMULATOR_HOST")
    endpoint = _url(environ.get("GOOGLE_BASE_URL") or emulator or GOOGLE)
    if key_id and secret:
        return Account(endpoint, hmac=Keys(key_id, Secret(secret)))
    if emulator:
        return Account(endpoint)
    text = environ.get("GOOGLE_SERVICE_ACCOUNT_KEY") or _read(environ)
    return Account(endpoint, service=_checked(text) if text else None)


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


def _checked(text: str) -> Secret:
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
