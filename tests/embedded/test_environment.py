"""What the processes that rowfall starts know of its secrets, and show of its data."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

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


def test_the_engine_gets_no_secret() -> None:
    engine = Embedded(None, memory=1 << 30)
    try:
        engine.opened()
        found = Path(f"/proc/{engine.pid}/environ").read_text()
    finally:
        engine.close()
    assert "s3cret-value" not in found
    assert "PYTHONPATH=" in found


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
