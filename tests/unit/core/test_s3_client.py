"""Requests to S3 by botocore, which stand in for those of obstore."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError, PreconditionError

from lab.faulty import Fault, Faulty
from lab.seaweed import Seaweed
from rowfall.core import s3_client
from rowfall.core.masked import Secret
from rowfall.core.s3_access import Access, Keys
from rowfall.core.s3_client import ClientStore


def test_it_has_the_methods_of_a_store_of_obstore(s3: Seaweed, tmp_path: Path) -> None:
    name = f"signed-{os.getpid()}"
    s3.create_bucket(name)
    access = Access(s3.endpoint, s3.region, False)
    store = ClientStore(access, Keys(s3.access_key, Secret(s3.secret_key)), name)
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
    wrong = ClientStore(access, Keys(s3.access_key, Secret("wrong")), name)
    with pytest.raises(PermissionDeniedError):
        wrong.get("f/b.csv")
    with pytest.raises(GenericError, match="status code: 404: <Code>NoSuchBucket</Code>"):
        ClientStore(access, Keys(s3.access_key, Secret(s3.secret_key)), "not-there").get("a")


def test_a_large_file_goes_in_parts(
    s3: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that is refused is sent again; an upload that fails leaves no part behind."""
    monkeypatch.setattr(s3_client, "PART_BYTES", 5 << 20)  # S3 takes no smaller ones
    name = f"parts-{os.getpid()}"
    s3.create_bucket(name)
    content = os.urandom((12 << 20) + 7)
    (tmp_path / "large").write_bytes(content)
    with Faulty(s3.port) as proxy:
        access = Access(proxy.endpoint, s3.region, False)
        store = ClientStore(access, Keys(s3.access_key, Secret(s3.secret_key)), name)
        refused = iter([Fault(status=503)])
        proxy.script = lambda asked: (
            next(refused, None) if asked.query.get("partNumber") == "2" else None
        )
        store.put("large", tmp_path / "large")
        assert s3.get(name, "large") == content
        numbers = sorted(a.query["partNumber"] for a in proxy.requests if "partNumber" in a.query)
        assert numbers == ["1", "2", "2", "3"]
        proxy.script = lambda asked: (
            Fault(status=403) if asked.query.get("partNumber") == "2" else None
        )
        with pytest.raises(PermissionDeniedError):
            store.put("other", tmp_path / "large")
        assert proxy.requests[-1].method == "DELETE"
    assert s3.list(name) == ["large"]
    assert not s3._client.list_multipart_uploads(Bucket=name).get("Uploads")
