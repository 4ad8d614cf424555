"""Copying the decoder to where a server starts programs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rowfall.destinations.clickhouse.install import _copy


def test_a_link_of_the_servers_user_is_not_followed(tmp_path: Path) -> None:
    program, precious = tmp_path / "program", tmp_path / "precious"
    program.write_bytes(b"#!/bin/sh\n")
    precious.write_text("kept")
    (tmp_path / "scripts").mkdir()
    path = tmp_path / "scripts" / "rowfall-decode"
    path.with_name(f"{path.name}.{os.getpid()}.new").symlink_to(precious)
    _copy(str(program), path)
    assert precious.read_text() == "kept"
    assert path.read_bytes() == b"#!/bin/sh\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert [each.name for each in path.parent.iterdir()] == ["rowfall-decode"]
