"""What the processes that rowfall starts know of its secrets, and show of its data."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import rowfall
from rowfall.core import environment
from rowfall.decoder.documents import Spec
from rowfall.decoder.process import DecoderProcess
from rowfall.systems.clickhouse.embedded import Embedded

SECRETS = ("ROWFALL_PASSWORD", "CLICKHOUSE_PASSWORD", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
           "AZURE_STORAGE_ACCOUNT_KEY", "DATABASE_URL")  # fmt: skip
NEEDED = {"PATH": "/bin:/usr/bin", "HOME": "/nowhere", "TZ": "Europe/Berlin", "LC_ALL": "C.UTF-8",
          "SSL_CERT_FILE": "/certs.pem", "https_proxy": "http://proxy:3128"}  # fmt: skip


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "s3cret-value")


def test_a_child_gets_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NEEDED.items():
        monkeypatch.setenv(name, value)
    found = environment.of_child()
    assert {name: found[name] for name in NEEDED} == NEEDED
    assert not set(SECRETS) & set(found)
    assert "https_proxy" not in environment.of_child(internet=False)


def test_the_engine_gets_no_secret() -> None:
    engine = Embedded(None, memory=1 << 30)
    try:
        engine.opened()
        path = Path(f"/proc/{engine.pid}/environ")
        found, mode = path.read_text(), stat.S_IMODE(path.stat().st_mode)
    finally:
        engine.close()
    assert "s3cret-value" not in found
    assert "PYTHONPATH=" in found
    assert mode == 0o400  # as docs/concepts/secrets.md says of a proxy's password


def test_the_decoder_gets_no_secret(tmp_path: Path) -> None:
    program = tmp_path / "decoder"
    program.write_text('#!/bin/sh\nenv > "$0.env"\n')
    program.chmod(0o700)
    assert DecoderProcess(str(program), Spec((), "CSV", (), ())).end()[0] == 0
    found = (tmp_path / "decoder.env").read_text()
    assert "s3cret-value" not in found
    assert "PATH=" in found


def test_what_an_engine_in_memory_writes_is_for_its_user_alone() -> None:
    engine = Embedded(None, memory=1 << 30)
    try:
        ((path,),) = engine.ask("SELECT path FROM system.disks WHERE name = 'default'")
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o700
    finally:
        engine.close()


def test_the_engine_is_of_the_version_that_starts_it(tmp_path: Path) -> None:
    """Two are in one environment: whichever Python takes, its processes are all of that one."""
    assert rowfall.__file__
    other = tmp_path / "other/rowfall"
    shutil.copytree(Path(rowfall.__file__).parent, other)
    child, seen = other / "systems/clickhouse/chdb_child.py", tmp_path / "seen"
    (other / "core/version.py").write_text('__version__ = "9.9.9"\n')
    child.write_text(f"{child.read_text()}\nprint(__file__, file=open({str(seen)!r}, 'a'))\n")
    (tmp_path / "in.csv").write_text("id\n1\n2\n")
    env = {**os.environ, "PYTHONPATH": str(other.parent), "ROWFALL_HOME": str(tmp_path / "home")}

    def said(*words: str) -> str:
        # -P: what lies in the current folder, a rowfall.py perhaps, is not taken either.
        return subprocess.run(
            [sys.executable, "-P", "-m", "rowfall", *words], cwd=tmp_path, env=env, check=True,
            capture_output=True, text=True,
        ).stdout  # fmt: skip

    assert said("--version") == "rowfall 9.9.9\n"
    (tmp_path / "rowfall.py").write_text("raise SystemExit('taken from the current folder')\n")
    said("load", "in.csv")
    assert set(seen.read_text().splitlines()) == {str(child)}
    assert said("query", "SELECT sum(id) FROM `in`", "--format", "CSV") == "3\n"
