"""A rowfall-decode of another version beside this rowfall: said, with what mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.tools import Shell
from rowfall.core.version import __version__
from rowfall.decoder import installed

UNKNOWN = '{"error":"spec","message":"the spec: unknown field `record_bytes`, expected one of"}'


def older(shell: Shell, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program in place of the real one, which is $REAL in the script."""
    path = shell.folder / "older" / "rowfall-decode"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\nREAL={installed.program()}\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(installed, "program", lambda: str(path))


def said(shell: Shell, talk: str, what: str) -> None:
    path = Path(shell.folder, "older", "rowfall-decode")
    assert f"rowfall-decode at {path} is of another version than rowfall {__version__}" in talk
    assert what in talk
    assert f"pip install --upgrade rowfall-decode=={__version__}" in talk


@pytest.mark.parametrize(
    ("says", "what"),
    [
        (UNKNOWN, "the word 'record_bytes' of a spec"),
        ('{"error":"spec","message":"only version 1 of the spec is known"}', "version 2 of a spec"),
        (
            '{"error":"spec","message":"the spec stdin-line: No such file or directory"}',
            "--spec stdin-line",
        ),
        ("usage: rowfall-decode run --spec FILE|-", "what it was asked to do"),
    ],
)
def test_what_another_version_does_not_know(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, says: str, what: str
) -> None:
    older(
        shell,
        monkeypatch,
        f"""[ "$1" = sample ] && exec "$REAL" "$@"
echo '{says}' >&2; exit 2""",
    )
    shell.write("a.csv", "id,n\n1,2\n")
    done = shell.run("load", "a.csv", "--decoder", "always")
    assert done.code in (1, 2)
    said(shell, done.talk, what)
    assert "To resume" not in done.talk


@pytest.mark.parametrize("head", ["aarch64", pytest.param("Mach-O", marks=pytest.mark.long)])
def test_a_program_for_another_processor(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    """As a wheel for another machine leaves it: the engine parses, and that is said."""
    real = installed.program()
    assert real is not None
    program = bytearray(Path(real).read_bytes())
    if head == "aarch64":
        program[18:20] = b"\xb7\0"
    else:
        program[:4] = b"\xcf\xfa\xed\xfe"
    path = shell.write("other/rowfall-decode", bytes(program))
    path.chmod(0o755)
    monkeypatch.setattr(installed, "_found", lambda: str(path))
    shell.write("a.csv", "id,n\n1,2\n")
    done = shell.ok("load", "a.csv")
    kind = "another processor (aarch64)" if head == "aarch64" else "another system"
    said = f"rowfall-decode at {path} is a program for {kind}"
    assert f"warning: {said}: the engine parses text instead" in done.talk
    assert f"--force-reinstall --no-cache-dir rowfall-decode=={__version__}" in done.talk
    assert shell.row("SELECT * FROM a") == [1, 2]
    assert said in shell.ends(2, "load", "a.csv", "--force", "--decoder", "always").talk


@pytest.mark.parametrize("kept", [0, pytest.param(100, marks=pytest.mark.long),
                                  pytest.param(1 << 20, marks=pytest.mark.long)])  # fmt: skip
def test_a_program_of_which_a_part_is_missing(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    """As a download that broke off, a full disk or a damaged cache of pip leaves it."""
    real = installed.program()
    assert real is not None
    path = shell.write("cut/rowfall-decode", Path(real).read_bytes()[:kept])
    path.chmod(0o755)
    monkeypatch.setattr(installed, "_found", lambda: str(path))
    shell.write("a.csv", "id,n\n1,2\n")
    done = shell.ok("load", "a.csv")
    said = f"rowfall-decode at {path} is cut off after {kept} bytes"
    assert f"warning: {said}: the engine parses text instead" in done.talk
    assert "--force-reinstall --no-cache-dir" in done.talk
    assert shell.row("SELECT * FROM a") == [1, 2]
    assert said in shell.ends(2, "load", "a.csv", "--force", "--decoder", "always").talk
