"""Fixtures of the end-to-end tests."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.fleet import Fleet
from e2e.lake import Lake
from e2e.tools import Shell, sizes_of_files
from lab.clickhouse import ClickHouse
from lab.cluster import Cluster
from lab.seaweed import Seaweed
from rowfall.ledger import scratches

_numbers = itertools.count()


@pytest.fixture
def shell(rowfall: Any) -> Shell:
    """``shell.ok("load", ...)`` in a folder of its own."""
    return Shell(rowfall)


@pytest.fixture
def untouched(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Check that no command has left a file: in its folder, with its state, or a temporary one.

    The first call remembers what is there, all others compare.
    """
    temporary = shell.folder.parent / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    shell.env["TMPDIR"] = str(temporary)
    before: dict[str, int] = {}

    def check() -> None:
        found = sizes_of_files(shell.folder, shell.cli.home, temporary)
        if not before:
            before.update(found)
        assert found == before
        for prefix in (scratches.DOCTOR, scratches.TUNE):
            assert not list(shell.folder.parent.rglob(f"*{prefix}*"))

    return check


@pytest.fixture
def lake(shell: Shell, server: ClickHouse) -> Iterator[Lake]:
    """A database of its own on the ``server`` of the module."""
    lake = Lake(shell, server)
    yield lake
    lake.do("DROP DATABASE {db} SYNC")


@pytest.fixture
def fleet(shell: Shell, cluster22: Cluster) -> Iterator[Fleet]:
    """A database of its own on two shards of two replicas, unless the module has another."""
    fleet = Fleet(shell, cluster22)
    yield fleet
    fleet.drop()


@pytest.fixture
def bucket(s3: Seaweed) -> str:
    """A new bucket."""
    name = f"bucket-{os.getpid()}-{next(_numbers)}"
    s3.create_bucket(name)
    return name
