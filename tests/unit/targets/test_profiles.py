"""Names for targets in rowfall.toml: where they are looked for, and what they may hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rowfall.core.errors import UsageError
from rowfall.targets.profiles import find_profile, names

PROD = '[profiles.prod]\nto = "clickhouse://me@ch1/db"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    work = tmp_path / "a" / "b"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    return work


def test_the_nearest_file_and_that_of_the_user(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "rowfall.toml").write_text('[profiles.far]\nto = "x"\n')
    (folder.parent / "rowfall.toml").write_text(PROD)
    own = tmp_path / "config" / "rowfall" / "rowfall.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[profiles.prod]\nto = "other"\n[profiles.mine]\nto = "data"\n')
    assert names() == ["prod", "mine"]
    found = find_profile("prod")
    assert found is not None
    assert (found.to, found.password) == ("clickhouse://me@ch1/db", None)
    mine = find_profile("mine")
    assert mine is not None
    assert mine.to == str(own.parent / "data")


def test_what_is_no_name_of_a_profile(folder: Path) -> None:
    (folder / "rowfall.toml").write_text("broken")
    for to in ("./prod", "/srv/prod", "clickhouse://prod", "null:", "a.csv"):
        assert find_profile(to) is None


def test_a_name_that_is_nearly_a_profile(folder: Path) -> None:
    (folder / "rowfall.toml").write_text(PROD)
    with pytest.raises(UsageError) as caught:
        find_profile("prdo")
    assert "Did you mean --to prod?" in (caught.value.hint or "")
    (folder / "prdo").mkdir()
    assert find_profile("prdo") is None
    assert find_profile("rowfall-data") is None


@pytest.mark.parametrize("line", ['password_env = "PW"', 'password_file = "pw"'])
def test_passwords_are_elsewhere(folder: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "rowfall.toml").write_text(PROD + line)
    with pytest.raises(UsageError, match="password"):
        find_profile("prod")
    monkeypatch.setenv("PW", "secret")
    (folder / "pw").write_text("secret\n")
    found = find_profile("prod")
    assert found is not None
    assert found.password is not None
    assert found.password.reveal() == "secret"
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    "text",
    [
        PROD + 'password = "geheim"',
        '[profiles.prod]\nto = "clickhouse://me:geheim@ch1/db"',
        "[profiles.prod]\nthreads = 2",
        "[prod]\nto = 'x'",
        "profiles = 1",
        "[profiles",
    ],
)
def test_files_that_make_no_sense(folder: Path, text: str) -> None:
    (folder / "rowfall.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        find_profile("prod")
    assert "geheim" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_refused(folder: Path) -> None:
    (folder / "rowfall.toml").write_text(PROD)
    os.chown(folder / "rowfall.toml", 12345, 12345)
    with pytest.raises(UsageError, match="belongs to another user"):
        find_profile("prod")
