"""Files in places that others know or may write to are opened safely."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowfall.core.errors import LedgerError, TargetError
from rowfall.ledger import Ledger
from rowfall.systems.clickhouse.embedded import take_folder


def test_everybody_may_write_to_the_folder_of_ledgers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWFALL_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o777)
    with pytest.raises(LedgerError, match="everybody may write") as error:
        Ledger(tmp_path / "home/a.ledger")
    assert f"chmod o-w {tmp_path}/home" in str(error.value.hint)
    (tmp_path / "home").chmod(0o775)
    Ledger(tmp_path / "home/a.ledger").close()


def test_a_link_in_the_place_of_the_engine_s_file(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    data = tmp_path / "data"
    data.mkdir()
    (data / "status").symlink_to(tmp_path / "mine")
    with pytest.raises(TargetError, match="status is a symbolic link"):
        take_folder(data)
    (data / "status").unlink()
    take_folder(data).give_back()
    assert (tmp_path / "mine").read_text() == "precious"
