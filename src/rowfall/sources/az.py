"""Blobs in Azure: ``az://container/key-or-glob``; the account comes from the environment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

from rowfall import azaccess, uri
from rowfall.azaccess import Account
from rowfall.listing import Split
from rowfall.options import Options
from rowfall.secrets import Secret
from rowfall.sources import _relation
from rowfall.sources._azbucket import AzBucket
from rowfall.sources._bucket import Bucket
from rowfall.sources._byurl import ByUrl
from rowfall.sources.base import Address


class Az(ByUrl):
    """One source for any number of ``az://`` URIs of one account; splits are whole blobs."""

    scheme: ClassVar[str] = "az"
    places: ClassVar[str] = (
        "Write az://container/key; account and key come from AZURE_STORAGE_ACCOUNT_NAME and "
        "AZURE_STORAGE_ACCOUNT_KEY."
    )

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        super().__init__(texts, options)
        self._opened: Account | None = None
        # Container -> what may read it, and when that was made.
        self._shared: dict[str, tuple[Secret | None, datetime]] = {}

    @property
    def secrets(self) -> tuple[Secret, ...]:
        account = self._opened
        return _relation.secrets_of(account.key, account.token) if account else ()

    def addresses(self, splits: Sequence[Split]) -> list[Address]:
        return [Address(self._address(*self._place(split.uri))) for split in splits]

    def _address(self, container: str, key: str) -> Secret:
        url = f"{self._account().endpoint}/{container}/{uri.encode(key)}"
        token = self._token(container)
        return Secret(f"{url}?{token.reveal()}" if token else url)

    def _token(self, container: str) -> Secret | None:
        token, made = self._shared.get(container, (None, None))
        now = datetime.now(UTC)
        if made is None or now - made > azaccess.SIGNED / 2:
            token, made = azaccess.shared(self._account(), container, now), now
            self._shared[container] = (token, made)
        return token

    @property
    def _signs(self) -> bool:
        return not self._account().public

    def _open(self, name: str) -> Bucket:
        return AzBucket(name, self._account())

    def _account(self) -> Account:
        if self._opened is None:
            self._opened = azaccess.resolve()
        return self._opened
