"""Fixtures of the unit tests: chDB takes one path per process, so the engine is shared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from unit.memory import Chdb


@pytest.fixture(scope="session")
def chdb_engine() -> Chdb:
    return Chdb()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    def write(name: str, data: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write
