"""One container of Azure Blob Storage: what it says, in plain words."""

from __future__ import annotations

from typing import Any

from rowfall.core.masked import Secret
from rowfall.sources._az_access import Account, denied
from rowfall.sources._bucket import PATIENCE, Bucket


class AzBucket(Bucket):
    """A container; obstore knows the protocol."""

    odd = "Check AZURE_STORAGE_ENDPOINT."
    away = "Check the name of the account, AZURE_STORAGE_ENDPOINT, and the network."

    def __init__(self, name: str, account: Account) -> None:
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
