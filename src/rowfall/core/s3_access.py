"""S3 access: endpoint, region and keys from options, environment and profiles.

Sources read buckets and targets write to them, and neither may import the other: so it is here.
"""

from __future__ import annotations

import ipaddress
import os
from typing import Any
from urllib.parse import urlsplit

from rowfall.core import extras
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.core.sqltext import quote

# Letters of a bucket's name, by the rules of S3. The engines of ClickHouse (24.10 and 26.9) refuse
# all others before they ask.
_LEAST_NAME, _MOST_NAME = 3, 63


@dataclass(frozen=True, slots=True)
class Keys:
    """One pair of keys; ``token`` for temporary ones."""

    key_id: str
    secret: Secret
    token: Secret | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """Endpoint, region and keys of a bucket.

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
        """Return the keys that are valid now, None when anonymous.

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
        """Return the endpoint as shown to people."""
        return self.endpoint or f"AWS S3 in {self.region}"


def resolve(options: Options) -> Access:
    """Find endpoint, region and credentials in the order of the AWS tools.

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
    """Return a session of botocore.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import botocore.session
    except ImportError:
        raise extras.missing(
            "profiles and roles of AWS are read with botocore, which is not installed; keys in "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and --s3-anonymous, do without",
            "aws",
        ) from None
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
    """Return a URL without a trailing slash; None for AWS's own, which the region gives."""
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
    """Check for a scheme, a host, and at most a port and a path."""
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a malformed port
        return False
    return named and parts.scheme in ("http", "https") and not (parts.query or parts.username)


def _is_local(text: str) -> bool:
    host = text.rpartition(":")[0] or text
    try:
        return ipaddress.ip_address(host.strip("[]")).is_private
    except ValueError:
        return host == "localhost"


def check_bucket(name: str, text: str) -> None:
    """Check a name that the user has typed: engines read no bucket with a shorter or longer one.

    Raises:
        UsageError: S3 has no such names.
    """
    if not _LEAST_NAME <= len(name) <= _MOST_NAME:
        raise UsageError(
            f"{text} names the bucket {name}: buckets have names of {_LEAST_NAME} to {_MOST_NAME} "
            "letters",
            hint="Check the address: s3://bucket/key. Where another service has such a bucket, "
            "copy its objects into one with a longer name.",
        )


def base_url(access: Access, bucket: str) -> str:
    """Return the URL of the bucket with a trailing slash: the engine takes it apart itself."""
    if access.endpoint is not None:
        return f"{access.endpoint}/{bucket}/"
    domain = "amazonaws.com.cn" if access.region.startswith("cn-") else "amazonaws.com"
    if "." in bucket:  # the certificate of virtual hosts covers one label only
        return f"https://s3.{access.region}.{domain}/{bucket}/"
    return f"https://{bucket}.s3.{access.region}.{domain}/"


def signature(keys: Keys | None) -> tuple[str | Secret, ...]:
    """Return the arguments of ``s3(...)`` after the URL: the keys, or that there are none."""
    if keys is None:
        return (", NOSIGN",)
    token = (", ", keys.token) if keys.token else ()
    return (f", {quote(keys.key_id)}, ", keys.secret, *token)
