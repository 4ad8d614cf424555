"""One bucket of Google Cloud Storage: what it says, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rowfall.core import uri
from rowfall.core.masked import Secret
from rowfall.sources._bucket import PATIENCE, Bucket
from rowfall.sources._gs_access import SIGNED, Account
from rowfall.sources._s3bucket import S3Bucket

_ODD = "Check GOOGLE_BASE_URL."
_RIGHTS = "they need storage.objects.list and storage.objects.get (Storage Object Viewer)."


class HmacBucket(S3Bucket):
    """A bucket by the S3 protocol."""

    odd = _ODD
    away = "Check the network, and GOOGLE_BASE_URL."

    def _denied(self, code: str) -> str:
        return f"Check GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY; {_RIGHTS}"


class GsBucket(Bucket):
    """A bucket by Google's own protocol."""

    odd = _ODD
    away = "Check the network, and GOOGLE_BASE_URL or STORAGE_EMULATOR_HOST."

    def __init__(self, name: str, account: Account) -> None:
        super().__init__(name, "gs", account.endpoint)
        self._account = account

    def sign(self, keys: Sequence[str]) -> Sequence[Secret]:
        """An address for each key, good for a day and for reading.

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
            raise self._explained(error, f"sign addresses of {self.uri}") from error
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
