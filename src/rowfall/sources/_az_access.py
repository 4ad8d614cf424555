"""Where Azure Blob Storage is and who asks: account, endpoint and keys from the environment."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from rowfall.core.errors import SourceError, UsageError
from rowfall.core.masked import Secret

# As long as an address of S3 is good: an attempt is 20 s of work, one huge object may be hours.
SIGNED = timedelta(days=1)
# The first version of the service whose signatures have all the fields that are signed here.
_VERSION = "2020-12-06"
# The account of the emulator (Azurite), which is the same everywhere.
_EMULATOR = {
    "AccountName": "devstoreaccount1",
    "AccountKey": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/"
    "K1SZFPTOtr/KBHBeksoGMGw==",
    "BlobEndpoint": "http://127.0.0.1:10000/devstoreaccount1",
}
_HINT = (
    "Set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and "
    "AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN; without key and token a public "
    "container is read."
)


@dataclass(frozen=True, slots=True)
class Account:
    """How a storage account is reached.

    Attributes:
        endpoint: of its blobs, without a trailing slash; containers follow.
        key: base64; None without one.
        token: a shared access signature, ``sv=...&sig=...``; None without one.
    """

    name: str
    endpoint: str
    key: Secret | None = None
    token: Secret | None = None

    @property
    def public(self) -> bool:
        """Requests are not signed."""
        return self.key is None and self.token is None


def resolve(environ: Mapping[str, str] = os.environ) -> Account:
    """Account and keys, by the variables that Azure's own tools and libraries read.

    Raises:
        UsageError: no account is named, the endpoint is no URL, or the key is not base64.
    """
    given = _connection(environ.get("AZURE_STORAGE_CONNECTION_STRING", ""))
    name = given.get("AccountName") or _first(
        environ, "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"
    )
    key = given.get("AccountKey") or _first(
        environ, "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCESS_KEY"
    )
    token = given.get("SharedAccessSignature") or _first(
        environ, "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"
    )
    endpoint = given.get("BlobEndpoint") or _first(
        environ, "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"
    )
    if not name and not endpoint:
        raise UsageError("no Azure storage account is named", hint=_HINT)
    if not endpoint:
        scheme = given.get("DefaultEndpointsProtocol", "https")
        suffix = given.get("EndpointSuffix", "core.windows.net")
        endpoint = f"{scheme}://{name}.blob.{suffix}"
    if not endpoint.startswith(("http://", "https://")):
        raise UsageError(
            f"the Azure endpoint {endpoint!r} is not an http or https URL",
            hint="An endpoint looks like https://account.blob.core.windows.net.",
        )
    return Account(
        name or endpoint.partition("://")[2].partition(".")[0],
        endpoint.rstrip("/"),
        _checked(key) if key and not token else None,
        Secret(token.removeprefix("?")) if token else None,
    )


def _connection(text: str) -> Mapping[str, str]:
    pairs = (item.partition("=") for item in text.split(";") if item.strip())
    found = {name.strip(): value.strip() for name, _, value in pairs}
    return _EMULATOR if found.get("UseDevelopmentStorage") == "true" else found


def _first(environ: Mapping[str, str], *names: str) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def _checked(key: str) -> Secret:
    try:
        base64.b64decode(key, validate=True)
    except binascii.Error:
        raise UsageError(
            "the key of the Azure storage account is not base64",
            hint="Copy it whole from the portal (Access keys), with the == at its end.",
        ) from None
    return Secret(key)


def shared(account: Account, container: str, now: datetime | None = None) -> Secret | None:
    """A query that lets anybody read the blobs of a container for a day; None: public.

    The library that lists signs blobs one by one, and wrongly where a name has to be encoded.

    Args:
        now: for tests.
    """
    if account.key is None:
        return account.token
    until = ((now or datetime.now(UTC)) + SIGNED).strftime("%Y-%m-%dT%H:%M:%SZ")
    # Permission, start, end, resource, identifier, addresses, protocol, version, kind, snapshot,
    # encryption scope, and the five headers that an answer may be told to have.
    signed = ["r", "", until, f"/blob/{account.name}/{container}", "", "", "", _VERSION, "c"]
    text = "\n".join(signed + [""] * 7)
    digest = hmac.digest(base64.b64decode(account.key.reveal()), text.encode(), "sha256")
    query = {
        "sp": "r", "se": until, "sv": _VERSION, "sr": "c", "sig": base64.b64encode(digest).decode(),
    }  # fmt: skip
    return Secret("&".join(f"{name}={quote(value, safe='')}" for name, value in query.items()))


def denied(account: Account, container: str, code: str) -> SourceError:
    """Why a container cannot be read, and what helps."""
    if account.public:
        hint = f"The container {container} is not public. {_HINT}"
    elif account.token is not None:
        hint = "The token has to allow reading and listing (sp=rl) and must not have expired."
    else:
        hint = "Check AZURE_STORAGE_ACCOUNT_KEY and that it is the key of this account."
    return SourceError(f"access denied by {account.endpoint} ({code})", hint=hint)
