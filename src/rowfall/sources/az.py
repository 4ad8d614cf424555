"""Blobs in Azure: ``az://container/key-or-glob``; the account comes from the environment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

from rowfall.core import uri
from rowfall.core.listing import Split
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.sources import _az_access, _relation
from rowfall.sources._az_access import Account
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
        if made is None or now - made > _az_access.SIGNED / 2:
            token, made = _az_access.shared(self._account(), container, now), now
            self._shared[container] = (token, made)
        return token

    @property
    def _signs(self) -> bool:
        return not self._account().public

    def _open(self, name: str) -> Bucket:
        return AzBucket(name, self._account())

    def _account(self) -> Account:
        if self._opened is None:
            self._opened = _az_access.resolve()
        return self._opened
