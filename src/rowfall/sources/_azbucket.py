"""One container of Azure Blob Storage: what it says, in plain words."""

from __future__ import annotations

import re
from typing import Any

from rowfall.azaccess import Account, denied
from rowfall.errors import SourceError
from rowfall.secrets import redact
from rowfall.sources._bucket import PATIENCE, Bucket, network_reason

_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status code: (\d{3})")


class AzBucket(Bucket):
    """A container; obstore knows the protocol."""

    def __init__(self, name: str, account: Account) -> None:
        super().__init__(name, "az")
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

    def _explained(self, error: Exception, what: str) -> SourceError:
        account = self._account
        text = redact(str(error), account.key, account.token)
        code, found = _CODE.search(text), _STATUS.search(text)
        status = int(found[1]) if found else 0
        named = code[1] if code else str(status)
        if named == "ContainerNotFound":
            return SourceError(
                f"cannot {what}: no container {self.name} at {account.endpoint}",
                hint="The account answered; check the name of the container and of the account.",
            )
        if status in (401, 403, 409):  # 409: public access is not permitted on this account
            said = denied(account, self.name, named)
            return SourceError(f"cannot {what}: {said.message}", hint=said.hint)
        if status:
            return SourceError(
                f"cannot {what}: {account.endpoint} answered {named}",
                hint="Try again later." if status >= 500 else "Check AZURE_STORAGE_ENDPOINT.",
                transient=status >= 500,
            )
        return SourceError(
            f"cannot {what}: no connection to {account.endpoint} ({network_reason(text)})",
            hint="Check the name of the account, AZURE_STORAGE_ENDPOINT, and the network.",
            transient=True,
        )
