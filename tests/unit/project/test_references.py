"""Secrets by reference: where they lead, and what is said where they lead to nothing."""

from __future__ import annotations

import stat
import subprocess
import time
from pathlib import Path

import pytest

from rowfall.core.errors import UsageError
from rowfall.project import references
from rowfall.project.references import resolve, resolve_address

WHERE = "rowfall.toml line 3, [connections.prod]"


def program(folder: Path, text: str) -> Path:
    path = folder / "secret"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_where_a_reference_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "geheim")
    (tmp_path / "pw").write_text("geheim\n")
    program(tmp_path, 'test "$1" = "a b" && echo geheim')
    for reference in ("env:PW", "file:pw", f"file:{tmp_path}/pw", "cmd:./secret 'a b'"):
        found = resolve(reference, tmp_path, WHERE)
        assert found.reveal() == "geheim"
        assert "geheim" not in repr(found)


def test_no_shell_runs_a_program(tmp_path: Path) -> None:
    program(tmp_path, 'echo "$*"')
    assert resolve("cmd:./secret $(id); true", tmp_path, WHERE).reveal() == "$(id); true"


def test_what_leads_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PW", raising=False)
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "long").write_bytes(b"x" * 100_000)
    (tmp_path / "bytes").write_bytes(b"\xff")
    (tmp_path / "plain").write_text("x")
    program(tmp_path, "echo geheim; echo wrong: geheim >&2; exit 3")
    cases = {
        "env:PW": "in the variable PW, which is not set",
        "file:gone": f"cannot read the password in {tmp_path}/gone: no such file",
        "file:empty": "holds no password: it is empty",
        "file:long": "holds no password: it has more than 64 KiB",
        "file:bytes": "is not UTF-8",
        "cmd:./gone": r"cannot run ./gone for the password: no such file",
        "cmd:./plain": r"cannot run ./plain for the password: permission denied",
        "cmd:./secret x": r"\./secret has ended with 3 and no password\n",
        "cmd:true": "true has printed nothing, and not a password",
        "cmd:printf 'a\\nb\\n'": "printf has printed more than one line",
        "cmd:'": "no closing quotation",
        "cmd:curl -H 'geheim": r"cmd:curl \.\.\.: no closing quotation",
    }
    for reference, says in cases.items():
        with pytest.raises(UsageError, match=says) as caught:
            resolve(reference, tmp_path, WHERE)
        assert caught.value.message.startswith(WHERE)
        assert "geheim" not in f"{caught.value.message} {caught.value.hint}"


def test_a_program_that_hangs_is_ended_with_what_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "COMMAND_SECONDS", 0.2)
    program(tmp_path, f"sleep 50 & echo $! > {tmp_path}/pid; wait")
    began = time.monotonic()
    with pytest.raises(UsageError, match=r"has printed no password within 0\.2 s"):
        resolve("cmd:./secret", tmp_path, WHERE)
    assert time.monotonic() - began < 10
    pid = (tmp_path / "pid").read_text().strip()
    done = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True, check=False)  # noqa: E501, S607  # fmt: skip
    assert done.stdout.strip()[:1] in ("", "Z")


def test_secrets_of_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "p@ss/w&rd")
    cases = {
        "kafka://h:9092/t?sasl.password=env:PW&x=1": (
            "kafka://h:9092/t?sasl.password=p%40ss%2Fw%26rd&x=1", None),
        "postgresql://me:env:PW@h/db/t?schema=a": ("postgresql://me@h/db/t?schema=a", "p@ss/w&rd"),
        "https://env:PW@h/t.csv": ("https://p%40ss%2Fw%26rd@h/t.csv", None),
        "s3://bucket/a?b.csv": ("s3://bucket/a?b.csv", None),
        "data/x.csv": ("data/x.csv", None),
    }  # fmt: skip
    for text, (address, password) in cases.items():
        found, secret = resolve_address(text, tmp_path, WHERE)
        assert (found, secret.reveal() if secret else None) == (address, password)
