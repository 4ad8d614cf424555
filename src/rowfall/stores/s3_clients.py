"""Opens a bucket of S3 with the keys that are valid now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowfall.core.s3_access import Access, Keys


def open_store(bucket: str, access: Access, keys: Keys | None, patience: Mapping[str, Any]) -> Any:
    """Return a store of obstore, or what has its methods where the keys have a token.

    Args:
        keys: that a store uses to its end, as it does not renew them; None reads without any.
        patience: options of obstore about time and retries.
    """
    if keys is not None and keys.token:
        from rowfall.core.s3_client import ClientStore  # 0.3 s that other keys save

        return ClientStore(access, keys, bucket)
    from obstore.store import S3Store

    config: dict[str, Any] = {"region": access.region}
    if access.endpoint is not None:
        config["endpoint"] = access.endpoint
    elif "." not in bucket:
        config["virtual_hosted_style_request"] = True
    if keys is None:
        config["skip_signature"] = True
    else:
        config |= {"access_key_id": keys.key_id, "secret_access_key": keys.secret.reveal()}
    return S3Store(bucket, **patience, **config)
