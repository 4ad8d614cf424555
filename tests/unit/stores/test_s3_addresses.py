"""Signed addresses of objects, against the signatures that botocore writes."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from rowfall.core.masked import Secret
from rowfall.core.s3_access import Access, Keys, base_url
from rowfall.core.uri import encode
from rowfall.stores.buckets import SIGNED
from rowfall.stores.s3 import S3Bucket

TOKENS = [None, "FwoGZXIvYXdzE+/=token"]
KEYS = ["a.csv.gz", "dir/a b+c.csv", "é/日本😀.csv", "a~b-c_d.e", "x%41&y=z?#.csv", "'q'(1)!*.csv",
        "a\tb.csv"]  # fmt: skip
REGION = "eu-central-1"


@pytest.mark.parametrize("token", TOKENS, ids=["key pair", "session token"])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "endpoint",
    ["http://127.0.0.1:9000", "https://s3.example.com/base", "https://s3.example.com:443", None],
)
@pytest.mark.parametrize("bucket", ["bucket", "buck.et"])
@pytest.mark.sampled
def test_signatures_are_those_of_botocore(
    bucket: str, endpoint: str | None, key: str, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Keys("AKIDEXAMPLE", Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCY"), token and Secret(token))
    access = Access(endpoint, REGION, False, pair)
    made = S3Bucket(bucket, access).address(key).reveal()
    query = parse_qs(urlsplit(made).query)
    now = datetime.strptime(query["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: now)
    request = AWSRequest("GET", base_url(access, bucket) + encode(key))
    credentials = Credentials(pair.key_id, pair.secret.reveal(), token)
    seconds = int(SIGNED.total_seconds())
    S3SigV4QueryAuth(credentials, "s3", REGION, expires=seconds).add_auth(request)
    # Both may leave out a scheme's own port, which is not in the Host header either.
    addresses = [url.partition("?")[0].replace(".com:443/", ".com/") for url in (made, request.url)]
    assert addresses[0] == addresses[1]
    assert query == parse_qs(urlsplit(request.url).query)


def test_without_keys_nothing_is_signed() -> None:
    access = Access("http://h", "r", anonymous=True)
    assert S3Bucket("b", access).address("k") == Secret("http://h/b/k")


def test_renewed_keys_sign_the_next_address() -> None:
    class Provider:
        token = "one"

        def get_frozen_credentials(self) -> Credentials:
            return Credentials("AKID", "secret-key", self.token)

    provider = Provider()
    bucket = S3Bucket("b", Access("http://h", "r", anonymous=False, provider=provider))
    assert "X-Amz-Security-Token=one&" in bucket.address("k").reveal()
    provider.token = "two"
    assert "X-Amz-Security-Token=two&" in bucket.address("k").reveal()
