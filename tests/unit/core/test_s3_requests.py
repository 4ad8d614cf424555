"""Requests to S3 that are signed here."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import botocore.session
import pytest
from botocore.config import Config
from obstore.exceptions import PermissionDeniedError, PreconditionError

from lab.seaweed import Seaweed
from rowfall.core.masked import Secret
from rowfall.core.s3_access import Access, Keys
from rowfall.core.s3_requests import TokenStore, sign


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9000", "https://h.example/s3"])
def test_a_signature_is_that_of_botocore(endpoint: str) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    client = botocore.session.Session().create_client(
        "s3", region_name="eu-north-1", endpoint_url=endpoint, aws_access_key_id="AKID",
        aws_secret_access_key="se/cr+et", aws_session_token="to/k+e=n",
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )  # fmt: skip
    with mock.patch("botocore.auth.get_current_datetime", return_value=now.replace(tzinfo=None)):
        wanted = client.generate_presigned_url(
            "get_object", {"Bucket": "lake", "Key": "a b/ü+~.csv"}, 900
        )
    access = Access(endpoint, "eu-north-1", False)
    keys = Keys("AKID", Secret("se/cr+et"), Secret("to/k+e=n"))
    url = wanted.partition("?")[0]
    found = sign(access, keys, "GET", url, now=now)
    assert found.partition("?")[0] == url
    assert sorted(found.partition("?")[2].split("&")) == sorted(wanted.partition("?")[2].split("&"))


def test_a_real_service_takes_them(s3: Seaweed, tmp_path: Path) -> None:
    name = f"signed-{os.getpid()}"
    s3.create_bucket(name)
    access = Access(s3.endpoint, s3.region, False)
    store = TokenStore(access, Keys(s3.access_key, Secret(s3.secret_key)), name)
    for key in ("f/a b+ü.csv", "f/b.csv", "f/g/c.csv", "x.csv"):
        store.put(key, key.encode())
    (tmp_path / "large").write_bytes(b"0123456789" * 100_000)
    store.put("f/large", tmp_path / "large")
    listed = [item for page in store.list("f", chunk_size=2) for item in page]
    assert [item["path"] for item in listed] == ["f/a b+ü.csv", "f/b.csv", "f/g/c.csv", "f/large"]
    assert listed[-1]["size"] == 1_000_000
    after = [item["path"] for page in store.list("f", offset="f/b.csv") for item in page]
    assert after == ["f/g/c.csv", "f/large"]
    inside = store.list_with_delimiter("f")["objects"]
    assert [item["path"] for item in inside] == ["f/a b+ü.csv", "f/b.csv", "f/large"]
    got = store.get("f/large", {"range": (10, 13), "if_match": listed[-1]["e_tag"]})
    assert (got.bytes(), got.meta["size"]) == (b"012", 1_000_000)
    assert store.head("f/large")["e_tag"] == got.meta["e_tag"]
    with store.open_reader("f/large", 1 << 16) as file:
        file.seek(-5, 2)
        assert file.read() == b"56789"
    with pytest.raises(PreconditionError):
        store.get("f/large", {"range": (0, 1), "if_match": "another"})
    with pytest.raises(PreconditionError):
        store.put("x.csv", b"", mode="create")
    store.delete("x.csv")
    with pytest.raises(FileNotFoundError):
        store.head("x.csv")
    wrong = TokenStore(access, Keys(s3.access_key, Secret("wrong")), name)
    with pytest.raises(PermissionDeniedError):
        wrong.get("f/b.csv")
