"""Places that sources read from, one kind like the other."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.azure import Azure
from lab.google import Google
from lab.hdfs import Hdfs
from lab.http import Web
from lab.seaweed import Seaweed
from rowfall.core.listing import Listing
from rowfall.core.model import Encoding
from rowfall.core.options import Options
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
        nasty: names that are hard to quote.
    """

    put: Callable[[str, bytes], object]
    remove: Callable[[str], object]
    at: Callable[[str], str]
    globs: bool = True
    options: Options = field(default_factory=Options)
    nasty: tuple[str, ...] = NASTY

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


def bucket_store(
    service: Seaweed | Google | Azure, scheme: str, env: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Store:  # fmt: skip
    """A new bucket; ``env`` says where it is and who asks."""
    for key, value in env.items():
        monkeypatch.setenv(key, value)
    bucket = f"source-{os.getpid()}-{next(_numbers)}"
    service.create_bucket(bucket)
    return Store(
        lambda key, body: service.put(bucket, key, body),
        lambda key: service.delete(bucket, key),
        lambda key: f"{scheme}://{bucket}/{key}",
    )


def hdfs_store(service: Hdfs) -> Store:
    folder = f"/source-{next(_numbers)}"
    return Store(
        lambda key, body: service.put(f"{folder}/{key}", body),
        lambda key: service.delete(f"{folder}/{key}"),
        lambda key: service.at(f"{folder}/{key}"),
        nasty=tuple(name for name in NASTY if ":" not in name),  # HDFS takes no such name
    )


def s3_store(service: Seaweed, monkeypatch: pytest.MonkeyPatch) -> Store:
    return bucket_store(service, "s3", service.env, monkeypatch)


def object_store(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Store:
    """One of ``s3``, ``gs-hmac``, ``gs`` and ``az``, at a service that speaks its protocol."""
    service = request.getfixturevalue({"gs": "google", "az": "azure"}.get(kind, "s3"))
    env = service.google_env if kind == "gs-hmac" else service.env
    return bucket_store(service, kind.partition("-")[0], env, monkeypatch)


def http_store(server: Web) -> Store:
    folder = f"source-{next(_numbers)}"
    return Store(
        lambda key, body: server.put(f"{folder}/{key}", body),
        lambda key: (server.root / folder / key).unlink(),
        lambda key: f"{server.endpoint}/{folder}/{key}",
        globs=False,
    )
