"""A project with loads, and the files that they load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from scene import ProjectFolder

from lab.clickhouse import ClickHouse


@pytest.fixture(scope="session")
def server() -> Iterator[ClickHouse]:
    with ClickHouse() as server:
        yield server


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ROWFALL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    (tmp_path / "dagster").mkdir()
    return ProjectFolder(tmp_path)
