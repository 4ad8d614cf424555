"""Blobs in Azure: ``az://container/key-or-glob``; the account comes from the environment."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen
from xml.etree import ElementTree

from rowfall.core import uri
from rowfall.core.after import After
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.listing import Split
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.sources import from_clause
from rowfall.sources.base import HttpAddress
from rowfall.stores.buckets import PATIENCE, SIGNED, Bucket, StoredObject
from rowfall.stores.object_stores import UrlStoreSource
from rowfall.stores.objects import changed_while_read


class Az(UrlStoreSource):
    """One source for any number of ``az://`` URIs of one account; splits are whole blobs."""

    scheme: ClassVar[str] = "az"
    how_to_name: ClassVar[str] = (
        "Write az://container/key; account and key come from AZURE_STORAGE_ACCOUNT_NAME and "
        "AZURE_STORAGE_ACCOUNT_KEY."
    )

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        super().__init__(texts, options)
        self._opened: AzureAccount | None = None
        # Container -> what may read it, and when that was made.
        self._shared: dict[str, tuple[Secret | None, datetime]] = {}

    @property
    def secrets(self) -> tuple[Secret, ...]:
        account = self._opened
        return from_clause.secrets_of(account.key, account.token) if account else ()

    def addresses(self, splits: Sequence[Split]) -> list[HttpAddress]:
        return [HttpAddress(self._address(*self._bucket_and_key(split.uri))) for split in splits]

    def _address(self, container: str, key: str) -> Secret:
        url = f"{self._account().endpoint}/{container}/{uri.encode(key)}"
        token = self._token(container)
        return Secret(f"{url}?{token.reveal()}" if token else url)

    def _token(self, container: str) -> Secret | None:
        token, made = self._shared.get(container, (None, None))
        now = datetime.now(UTC)
        if made is None or now - made > SIGNED / 2:
            token, made = shared_access(self._account(), container, now), now
            self._shared[container] = (token, made)
        return token

    @property
    def _signs(self) -> bool:
        return not self._account().public

    def renew(self) -> None:
        """See :class:`rowfall.sources.base.ListedSource`: the environment is read again."""
        super().renew()
        self._opened = None
        self._shared.clear()

    def _open(self, name: str) -> Bucket:
        return AzBucket(name, self._account())

    def _account(self) -> AzureAccount:
        if self._opened is None:
            self._opened = resolve_account()
        return self._opened


# The first version of the service whose signatures have all the fields that are signed here.
_VERSION = "2020-12-06"
# The account of the emulator (Azurite), which is the same everywhere.
_EMULATOR = {
    "AccountName": "devstoreaccount1",
    "AccountKey": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/"
    "K1SZFPTOtr/KBHBeksoGMGw==",
    "BlobEndpoint": "http://127.0.0.1:10000/devstoreaccount1",
}
# One request of those that change a blob, as obstore waits for one.
PATIENCE_SECONDS = 9
# Between two questions whether a copy has ended that the service makes by itself.
COPY_SECONDS = 0.2
_HINT = (
    "Set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and "
    "AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN; without key and token a public "
    "container is read."
)


@dataclass(frozen=True, slots=True)
class AzureAccount:
    """Endpoint and keys of a storage account.

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
        """True where requests are not signed."""
        return self.key is None and self.token is None


def resolve_account(environ: Mapping[str, str] = os.environ) -> AzureAccount:
    """Return account and keys by the variables that Azure's own tools and libraries read.

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
    return AzureAccount(
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


def shared_access(
    account: AzureAccount, container: str, now: datetime | None = None, rights: str = "r"
) -> Secret | None:
    """Return a query that lets anybody read the blobs of a container for a day; None: public.

    One signature for all blobs; obstore signs each, and wrongly where a name has to be encoded.

    Args:
        now: for tests.
        rights: letters of Azure, e.g. ``r`` to read, ``t`` for tags.
    """
    if account.key is None:
        return account.token
    until = ((now or datetime.now(UTC)) + SIGNED).strftime("%Y-%m-%dT%H:%M:%SZ")
    # Permission, start, end, resource, identifier, addresses, protocol, version, kind, snapshot,
    # encryption scope, and the five headers that an answer can be asked to have.
    signed = [rights, "", until, f"/blob/{account.name}/{container}", "", "", "", _VERSION, "c"]
    text = "\n".join(signed + [""] * 7)
    digest = hmac.digest(base64.b64decode(account.key.reveal()), text.encode(), "sha256")
    query = {
        "sp": rights, "se": until, "sv": _VERSION, "sr": "c",
        "sig": base64.b64encode(digest).decode(),
    }  # fmt: skip
    return Secret("&".join(f"{name}={quote(value, safe='')}" for name, value in query.items()))


def denied(account: AzureAccount, container: str, code: str) -> SourceError:
    """Return the error, with a hint, for a container that cannot be read."""
    if account.public:
        hint = f"The container {container} is not public. {_HINT}"
    elif account.token is not None:
        hint = "The token has to allow reading and listing (sp=rl) and must not have expired."
    else:
        hint = "Check AZURE_STORAGE_ACCOUNT_KEY and that it is the key of this account."
    return SourceError(f"access denied by {account.endpoint} ({code})", hint=hint)


class AzBucket(Bucket):
    """A container, listed and read with obstore."""

    # obstore lists all and leaves out what comes before.
    resumes = False

    wrong_service = "Check AZURE_STORAGE_ENDPOINT."
    unreachable = "Check the name of the account, AZURE_STORAGE_ENDPOINT, and the network."

    def __init__(self, name: str, account: AzureAccount) -> None:
        super().__init__(name, "az", account.endpoint)
        self._account = account

    def _open(self) -> Any:
        from obstore.store import AzureStore

        account = self._account
        config: dict[str, Any] = {"account_name": account.name, "endpoint": account.endpoint}
        if account.key is not None:
            config["account_key"] = account.key.reveal()
        elif account.token is not None:
            config["sas_key"] = account.token.reveal()
        else:
            config["skip_signature"] = True
        return AzureStore(self.name, **PATIENCE, **config)

    def check_after(self, action: After) -> None:
        """See :class:`Bucket`: blobs have tags."""
        if self._account.public:
            raise UsageError(
                f"--after {action.kind}: nobody may change blobs of {self.where} without a key",
                hint=_HINT,
            )

    def copy(self, found: StoredObject, to: str) -> None:
        """See :class:`Bucket`. The service may say that it copies, and do so later."""
        source = f"{self._url(found.key)}?{self._token('r')}"
        wanted = {"x-ms-copy-source": source, "x-ms-source-if-match": f'"{found.version}"'}
        said = self._send("PUT", to, "", wanted)
        waiting = self.patience.begin()
        while said.get("x-ms-copy-status", "success") == "pending":
            time.sleep(COPY_SECONDS)
            waiting.progress()
            said = self._send("HEAD", to)
        if (state := said.get("x-ms-copy-status", "success")) != "success":
            raise SourceError(
                f"cannot copy {self.uri}/{found.key}: {self.where} answered {state}",
                hint="Run the same command again.", transient=True,
            )  # fmt: skip

    def delete(self, found: StoredObject) -> None:
        """See :class:`Bucket`; with a condition on its version."""
        self._send("DELETE", found.key, "", {"If-Match": f'"{found.version}"'})

    def tag(self, key: str, name: str, value: str) -> None:
        asked = self._ask("GET", key, "comp=tags")
        tags = {
            tag.findtext("Key", ""): tag.findtext("Value", "")
            for tag in ElementTree.fromstring(asked[1] or b"<Tags/>").iter("Tag")  # noqa: S314
        }
        if tags.get(name) == value:
            return
        document = ElementTree.Element("Tags")
        listed = ElementTree.SubElement(document, "TagSet")
        for one, text in (tags | {name: value}).items():
            tag = ElementTree.SubElement(listed, "Tag")
            ElementTree.SubElement(tag, "Key").text = one
            ElementTree.SubElement(tag, "Value").text = text
        body = ElementTree.tostring(document, "utf-8", xml_declaration=True)
        self._send("PUT", key, "comp=tags", {"Content-Type": "application/xml"}, body)

    def _send(
        self, method: str, key: str, query: str = "", headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Mapping[str, str]:  # fmt: skip
        return self._ask(method, key, query, headers, body)[0]

    def _ask(
        self, method: str, key: str, query: str = "", headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> tuple[Mapping[str, str], bytes]:  # fmt: skip
        """Send a request that obstore has no call for; return the headers and bytes of the answer.

        A blob that is gone is no error.

        Raises:
            ObjectChangedError: a condition of the request does not hold.
            SourceError: as :meth:`Bucket.list`.
        """
        more = f"{query}&" if query else ""
        request = Request(  # noqa: S310 - the endpoint is http or https
            f"{self._url(key)}?{more}{self._token('rwdt')}",
            body if method in ("GET", "HEAD", "DELETE") else body or b"",
            {"x-ms-version": _VERSION, **(headers or {})}, method=method,
        )  # fmt: skip
        with self._writing(key, "change"):
            try:
                with urlopen(request, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310
                    return {k.lower(): v for k, v in answer.headers.items()}, answer.read()
            except HTTPError as error:
                with error:
                    text = error.read().decode(errors="replace")
                if error.code == 404 and error.headers.get("x-ms-error-code") == "BlobNotFound":
                    return {}, b""
                if error.code == 412:
                    raise changed_while_read(f"{self.uri}/{key}") from None
                raise OSError(f"status code: {error.code}: {text}") from None

    def _url(self, key: str) -> str:
        return f"{self._account.endpoint}/{self.name}/{uri.encode(key)}"

    def _token(self, rights: str) -> str:
        token = shared_access(self._account, self.name, rights=rights)
        return token.reveal() if token else ""

    def _secrets(self) -> tuple[Secret | None, ...]:
        return self._account.key, self._account.token

    def _reason(self, text: str, status: int, code: str) -> tuple[str, str] | None:
        if code == "ContainerNotFound":
            return (
                f"no container {self.name} at {self.where}",
                "The account answered; check the name of the container and of the account.",
            )
        if status in (401, 403, 409):  # 409: public access is not permitted on this account
            said = denied(self._account, self.name, code or str(status))
            return said.message, said.hint or ""
        return None
