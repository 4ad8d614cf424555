"""Places that sources read from, one kind like the other."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.azure import Azure
from lab.google import Google
from lab.http import Web
from lab.seaweed import Seaweed
from rowfall.listing import Listing
from rowfall.model import Encoding
from rowfall.options import Options
from rowfall.sources import open_source
from rowfall.sources.base import Source

NASTY = (
    "a.csv", "b.csv", "abc.csv", "a b.csv", " lead.csv", "a{b}.csv", "{1..3}.csv", "1..3.csv",
    "a*.csv", "a?c.csv", "a,b.csv", "a,{x}.csv", "a'b.csv", '"q".csv', "a#b.csv", "a%41.csv",
    "a%2Cb.csv", "%.csv", "a+b.csv", "a&b=c;d.csv", "a[b].csv", "x|y.csv", "p::q.csv", "~t.csv",
    "^.csv", "é.csv", "日本😀.csv",
)  # fmt: skip
_numbers = itertools.count()


@dataclass
class Store:
    """One kind of object source: where to put objects and how to name them.

    Attributes:
        put, remove: by key.
        at: the URI of a key or, where ``globs``, a pattern.
        globs: whether wildcards can be listed.
    """

    put: Callable[[str, bytes], object]
    remove: Callable[[str], object]
    at: Callable[[str], str]
    globs: bool = True
    options: Options = field(default_factory=Options)

    def open(self, *keys: str) -> tuple[Source, Listing, Encoding | None]:
        source = open_source([self.at(key) for key in keys], self.options)
        listing = source.listing()
        return source, listing, source.encoding(listing)


def files_store(tmp_path: Path) -> Store:
    def put(key: str, body: bytes) -> None:
        path = tmp_path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    return Store(put, lambda key: (tmp_path / key).unlink(), lambda key: str(tmp_path / key))


def s3_store(service: Seaweed, monkeypatch: pytest.MonkeyPatch) -> Store:
    for key, value in service.env.items():
        monkeypatch.setenv(key, value)
    bucket = f"source-{os.getpid()}-{next(_numbers)}"
    service.create_bucket(bucket)
    return Store(
        lambda key, body: service.put(bucket, key, body),
        lambda key: service.delete(bucket, key),
        lambda key: f"s3://{bucket}/{key}",
    )


def gs_hmac_store(service: Seaweed, monkeypatch: pytest.MonkeyPatch) -> Store:
    """``gs://`` by the S3 protocol, which Google speaks for HMAC keys."""
    monkeypatch.setenv("GS_ACCESS_KEY_ID", service.access_key)
    monkeypatch.setenv("GS_SECRET_ACCESS_KEY", service.secret_key)
    monkeypatch.setenv("GOOGLE_BASE_URL", service.endpoint)
    bucket = f"source-{os.getpid()}-{next(_numbers)}"
    service.create_bucket(bucket)
    return Store(
        lambda key, body: service.put(bucket, key, body),
        lambda key: service.delete(bucket, key),
        lambda key: f"gs://{bucket}/{key}",
    )


def gs_store(service: Google, monkeypatch: pytest.MonkeyPatch) -> Store:
    for key, value in service.env.items():
        monkeypatch.setenv(key, value)
    bucket = f"source-{os.getpid()}-{next(_numbers)}"
    service.create_bucket(bucket)
    return Store(
        lambda key, body: service.put(bucket, key, body),
        lambda key: service.delete(bucket, key),
        lambda key: f"gs://{bucket}/{key}",
    )


def az_store(service: Azure, monkeypatch: pytest.MonkeyPatch) -> Store:
    for key, value in service.env.items():
        monkeypatch.setenv(key, value)
    container = f"source-{os.getpid()}-{next(_numbers)}"
    service.create_container(container)
    return Store(
        lambda key, body: service.put(container, key, body),
        lambda key: service.delete(container, key),
        lambda key: f"az://{container}/{key}",
    )


def object_store(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Store:
    """One of ``s3``, ``gs-hmac``, ``gs`` and ``az``, at a service that speaks its protocol."""
    makers: dict[str, tuple[Callable[[Any, pytest.MonkeyPatch], Store], str]] = {
        "s3": (s3_store, "s3"), "gs-hmac": (gs_hmac_store, "s3"), "gs": (gs_store, "google"),
        "az": (az_store, "azure"),
    }  # fmt: skip
    make, service = makers[kind]
    return make(request.getfixturevalue(service), monkeypatch)


def http_store(server: Web) -> Store:
    folder = f"source-{next(_numbers)}"
    return Store(
        lambda key, body: server.put(f"{folder}/{key}", body),
        lambda key: (server.root / folder / key).unlink(),
        lambda key: f"{server.endpoint}/{folder}/{key}",
        globs=False,
    )
