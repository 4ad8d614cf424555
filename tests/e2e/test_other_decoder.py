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


def test_a_word_of_a_load(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    older(
        shell,
        monkeypatch,
        f"""[ "$1" = sample ] && exec "$REAL" "$@"
echo '{UNKNOWN}' >&2; exit 2""",
    )
    shell.write("a.csv", "id,n\n1,2\n")
    done = shell.run("load", "a.csv", "--decoder", "always")
    assert done.code in (1, 2)
    said(shell, done.talk, "the word 'record_bytes' of a spec")
    assert "To resume" not in done.talk
