"""Signed addresses of objects, against the signatures that botocore writes."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from rowfall.core.masked import Secret
from rowfall.core.s3_access import SIGNED_SECONDS, Access, Keys, base_url, signed
from rowfall.core.uri import encode

NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
TOKENS = [None, "FwoGZXIvYXdzE+/=token"]
KEYS = ["a.csv.gz", "dir/a b+c.csv", "é/日本😀.csv", "a~b-c_d.e", "x%41&y=z?#.csv", "'q'(1)!*.csv"]


@pytest.mark.parametrize("token", TOKENS, ids=["key pair", "session token"])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "endpoint",
    ["http://127.0.0.1:9000", "https://s3.example.com/base", "https://s3.example.com:443", None],
)
def test_signatures_are_those_of_botocore(
    endpoint: str | None, key: str, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: NOW)
    region = "eu-central-1"
    url = base_url(Access(endpoint, region, False), "bucket") + encode(key)
    pair = Keys("AKIDEXAMPLE", Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCY"), token and Secret(token))
    request = AWSRequest("GET", url)
    credentials = Credentials(pair.key_id, pair.secret.reveal(), token)
    S3SigV4QueryAuth(credentials, "s3", region, expires=SIGNED_SECONDS).add_auth(request)
    made = signed(url, pair, region, NOW).reveal()
    assert made.partition("?")[0] == url
    assert parse_qs(urlsplit(made).query) == parse_qs(urlsplit(request.url).query)


def test_without_keys_nothing_is_signed() -> None:
    assert signed("http://h/b/k", None, "r") == Secret("http://h/b/k")
