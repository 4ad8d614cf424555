"""Where S3 is and who asks: endpoint, region and keys from options, environment and profiles."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote as percent
from urllib.parse import urlsplit

from rowfall.core.errors import SourceError, UsageError
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.core.sqltext import quote

# An attempt is 20 s of work, but one object of 5 TB at 100 MB/s is 14 hours. S3 allows a week.
SIGNED_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Keys:
    """One pair of keys; ``token`` for temporary ones."""

    key_id: str
    secret: Secret
    token: Secret | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """How a bucket is reached.

    Attributes:
        endpoint: URL without a trailing slash; None means AWS itself.
        region: never empty.
        anonymous: requests are not signed.
        provider: botocore's credentials, which renew themselves; None for ``fixed`` ones.
    """

    endpoint: str | None
    region: str
    anonymous: bool
    fixed: Keys | None = None
    provider: Any = None

    def keys(self) -> Keys | None:
        """Keys valid now, None when anonymous.

        Raises:
            SourceError: they cannot be renewed (an expired SSO session).
        """
        if self.provider is None:
            return self.fixed
        try:
            frozen = self.provider.get_frozen_credentials()
        except Exception as error:  # botocore raises what its providers raise
            raise SourceError(
                f"cannot get S3 credentials: {error}",
                hint="Log in again (aws sso login), or set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY.",
            ) from error
        token = Secret(frozen.token) if frozen.token else None
        return Keys(frozen.access_key, Secret(frozen.secret_key), token)

    @property
    def where(self) -> str:
        """The endpoint for people."""
        return self.endpoint or f"AWS S3 in {self.region}"


def resolve(options: Options) -> Access:
    """Endpoint, region and credentials, in the order the AWS tools look for them.

    Raises:
        UsageError: the endpoint is no URL, the profile does not exist.
        SourceError: no credentials anywhere.
    """
    environ = os.environ
    endpoint = (
        options.s3_endpoint or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    )
    region = options.s3_region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    fixed = None if options.s3_profile else _environment_keys()
    # Importing botocore takes longer than a small load; it is needed for profiles and roles only.
    if fixed or (options.s3_anonymous and not _has_profile(options)):
        return Access(
            _endpoint(endpoint),
            region or "us-east-1",
            options.s3_anonymous,
            None if options.s3_anonymous else fixed,
        )
    session = _session(options)
    config = _profile(session)
    endpoint = _endpoint(endpoint or config.get("endpoint_url"))
    region = region or config.get("region") or "us-east-1"
    if options.s3_anonymous:
        return Access(endpoint, region, True)
    if endpoint is not None:
        # The metadata service of a cloud machine knows nothing about another endpoint's keys, and
        # asking for it where there is none takes seconds.
        session.get_component("credential_provider").remove("iam-role")
    credentials = session.get_credentials()
    if credentials is None:
        raise SourceError(
            "no S3 credentials found (environment, profiles, role of the machine)",
            hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile with "
            "--s3-profile, or read a public bucket with --s3-anonymous.",
        )
    return Access(endpoint, region, False, provider=credentials)


def _environment_keys() -> Keys | None:
    key_id = os.environ.get("AWS_ACCESS_KEY_ID")
    secret = os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not key_id or not secret:
        return None
    token = os.environ.get("AWS_SESSION_TOKEN") or os.environ.get("AWS_SECURITY_TOKEN")
    return Keys(key_id, Secret(secret), Secret(token) if token else None)


def _has_profile(options: Options) -> bool:
    return bool(options.s3_profile or os.environ.get("AWS_PROFILE"))


def _session(options: Options) -> Any:
    import botocore.session

    return botocore.session.Session(profile=options.s3_profile)


def _profile(session: Any) -> dict[str, str]:
    from botocore.exceptions import BotoCoreError

    try:
        config: dict[str, str] = session.get_scoped_config()
    except BotoCoreError as error:
        raise UsageError(
            f"cannot use the AWS profile: {error}",
            hint="Profiles are sections of ~/.aws/config and ~/.aws/credentials.",
        ) from error
    return config


def _endpoint(text: str | None) -> str | None:
    """A URL without a trailing slash; None for AWS's own addresses, which the region gives."""
    if not text:
        return None
    url = text if "://" in text else f"{'http' if _is_local(text) else 'https'}://{text}"
    if not _is_plain(url):
        raise UsageError(
            f"the S3 endpoint {text!r} is not an http or https URL",
            hint="An endpoint looks like http://127.0.0.1:9000, without bucket, keys or query.",
        )
    return url.rstrip("/")


def _is_plain(url: str) -> bool:
    """Scheme, host and at most a port and a path; a malformed port raises inside urlsplit."""
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return named and parts.scheme in ("http", "https") and not (parts.query or parts.username)


def _is_local(text: str) -> bool:
    host = text.rpartition(":")[0] or text
    try:
        return ipaddress.ip_address(host.strip("[]")).is_private
    except ValueError:
        return host == "localhost"


def base_url(access: Access, bucket: str) -> str:
    """URL of the bucket with a trailing slash, as the engine takes bucket and key from it."""
    if access.endpoint is not None:
        return f"{access.endpoint}/{bucket}/"
    domain = "amazonaws.com.cn" if access.region.startswith("cn-") else "amazonaws.com"
    if "." in bucket:  # the certificate of virtual hosts covers one label only
        return f"https://s3.{access.region}.{domain}/{bucket}/"
    return f"https://{bucket}.s3.{access.region}.{domain}/"


def signature(keys: Keys | None) -> tuple[str | Secret, ...]:
    """The arguments of ``s3(...)`` after the URL that say who asks."""
    if keys is None:
        return (", NOSIGN",)
    token = (", ", keys.token) if keys.token else ()
    return (f", {quote(keys.key_id)}, ", keys.secret, *token)


def signed(url: str, keys: Keys | None, region: str, now: datetime | None = None) -> Secret:
    """The URL with a signature that lets anybody read this object for a day (SigV4 in the query).

    Args:
        url: percent-encoded, without a query.
        keys: None leaves it unsigned.
        now: for tests.
    """
    if keys is None:
        return Secret(url)
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    query = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{keys.key_id}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(SIGNED_SECONDS),
        **({"X-Amz-Security-Token": keys.token.reveal()} if keys.token else {}),
        "X-Amz-SignedHeaders": "host",
    }
    canonical = "&".join(f"{name}={percent(value, safe='-_.~')}" for name, value in query.items())
    parts = urlsplit(url)
    # Clients leave a scheme's own port out of the Host header.
    host = parts.netloc.removesuffix({"http": ":80", "https": ":443"}[parts.scheme])
    request = f"GET\n{parts.path}\n{canonical}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = b"AWS4" + keys.secret.reveal().encode()
    for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"):
        key = hmac.digest(key, part.encode(), "sha256")
    return Secret(f"{url}?{canonical}&X-Amz-Signature={key.hex()}")
