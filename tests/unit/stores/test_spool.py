"""Copies in the temporary folder: whole, or refused before they fill it."""

from __future__ import annotations

import io

import pytest

from rowfall.core.errors import SourceError
from rowfall.stores import spool


def test_a_copy_is_whole_and_said() -> None:
    file = io.BytesIO()
    said = spool.copy([b"ab", b"c"], file, "stdin")
    assert file.getvalue() == b"abc"
    assert said.startswith("stdin is copied into ")
    assert said.endswith(": 3 B")


def test_no_copy_fills_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_RESERVE", 1 << 60)
    with pytest.raises(SourceError, match="no room for a copy of stdin") as raised:
        spool.copy([b"a"], io.BytesIO(), "stdin")
    assert "TMPDIR" in str(raised.value.hint)
