"""Facts of this machine, from files as other machines have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowfall.core import machine


@pytest.mark.parametrize(
    ("set_to", "zone"),
    [("Europe/Berlin", "Europe/Berlin"), (":Asia/Tokyo", "Asia/Tokyo"), ("Etc/UTC", "UTC"),
     ("{zones}/Europe/Berlin", "Europe/Berlin"), ("{copy}", "Europe/Berlin"), ("{odd}", "UTC")],
)  # fmt: skip
def test_the_time_zone_is_the_one_that_the_engine_finds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, set_to: str, zone: str
) -> None:
    """Also where the file is a copy and no link, which was taken for UTC."""
    zones = tmp_path / "zoneinfo"
    for name in ("Asia/Tokyo", "Europe/Berlin"):
        (zones / name).parent.mkdir(parents=True)
        (zones / name).write_text(f"rules of {name}")
    (tmp_path / "copy").write_text("rules of Europe/Berlin")
    (tmp_path / "odd").write_text("rules of nobody")
    monkeypatch.setattr(machine, "_ZONES", zones)
    paths = {"zones": zones, "copy": tmp_path / "copy", "odd": tmp_path / "odd"}
    monkeypatch.setenv("TZ", set_to.format(**paths))
    assert machine.local_timezone() == zone
