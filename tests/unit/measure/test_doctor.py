"""Every sample that doctor loads has an end, however slow the target is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rowfall import api
from rowfall.core.options import Options
from rowfall.core.signals import check_stopped
from rowfall.measure import doctor
from rowfall.measure.trials import TooSlowError, Trials, _ended_after


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "in.csv"
    path.write_text("id,v\n" + "".join(f"{n},{n % 7}\n" for n in range(3_000)))
    return str(path)


def test_samples_that_take_too_long_are_ended(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but one row, and the fewest that say what the target takes."""
    loaded = []
    load = Trials.load

    def noted(self: Trials, sources: Sequence[str], options: Options, **more: Any) -> Any:
        loaded.append((Path(sources[0]).name, more.get("most")))
        return load(self, sources, options, **more)

    monkeypatch.setattr(Trials, "load", noted)
    monkeypatch.setattr(doctor, "_MOST_SECONDS", 0.0)
    found = api.doctor(source, to=str(tmp_path / "data"))
    assert [name for name, most in loaded if most is None] == ["one.native", "100.native"]
    assert {most for _, most in loaded} == {None, 0.0}
    assert {name for name, _ in loaded} >= {"in.csv", "ready.native"}
    assert found.predicted_rows_per_second > 0
    assert found.sample_rows == 100
    assert any("was ended, as it took more than" in note for note in found.notes)
    assert [link.name for link in found.links if link.part.value == "target"] == ["ready rows"]
    assert not (tmp_path / "data").exists()


def test_only_what_is_ended_is_too_slow() -> None:
    """Ctrl-C of a user stays Ctrl-C."""
    with pytest.raises(TooSlowError), _ended_after(0.0):
        _wait_for_the_end()
    with pytest.raises(KeyboardInterrupt), _ended_after(60.0):
        raise KeyboardInterrupt


def _wait_for_the_end() -> None:
    while True:
        check_stopped()
