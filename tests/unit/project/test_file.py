"""One rowfall.toml: what is refused with file, line, key and value, and where keys stand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rowfall.core.errors import UsageError
from rowfall.project.file import ProjectFile
from unit.project.refused import LOAD, REFUSED


def read(tmp_path: Path, text: str | bytes) -> ProjectFile:
    path = tmp_path / "rowfall.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return ProjectFile(path)


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_refused_with_its_line(tmp_path: Path, case: str) -> None:
    text, says, _ = REFUSED[case]
    with pytest.raises(UsageError, match=says) as caught:
        read(tmp_path, text)
    assert caught.value.message.startswith(str(tmp_path / "rowfall.toml"))
    assert "geheim" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (f'{LOAD}tabel = "t"', "Did you mean table?"),
        (f"{LOAD}thread = 2", "Did you mean threads?"),
        ("[load.orders]\nsource = 'a'", "Did you mean loads?"),
        (f"{LOAD}force = true", "--force on the command line"),
        (f"{LOAD}follow = true", r"[pipelines.NAME]"),
        ('[loads.a]\nsources = "b"', "Did you mean source?"),
        ('[connections.prod]\nto = "x"', "Did you mean uri?"),
        (f'{LOAD}password = "env:A"', "[connections.NAME] has uri and password"),
        ('[connections.my-db]\nuri = "clickhouse://h/db"\npassword = "x"', '"env:MY_DB_PASSWORD"'),
        (f'{LOAD}after = {{ command = "true" }}', '["sh", "-c", "..."]'),
    ],
)
def test_a_mistake_has_a_hint(tmp_path: Path, text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert hint in (caught.value.hint or "")


def test_what_is_no_toml_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not TOML: .* \(at line 1, column 7\)"):
        read(tmp_path, "[loads\n")
    with pytest.raises(UsageError, match=r"line 2 is not UTF-8: byte 0xff"):
        read(tmp_path, b"[loads.a]\nsource = '\xff'\n")
    with pytest.raises(UsageError, match=r"cannot read .*: is a directory"):
        ProjectFile(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    read(tmp_path, LOAD)
    os.chown(tmp_path / "rowfall.toml", 12345, 12345)
    with pytest.raises(UsageError, match="belongs to another user"):
        ProjectFile(tmp_path / "rowfall.toml")


def test_a_file_that_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    read(tmp_path, LOAD)
    (tmp_path / "rowfall.toml").chmod(0o666)
    with pytest.raises(UsageError, match="everybody may write to") as caught:
        ProjectFile(tmp_path / "rowfall.toml")
    assert f"chmod o-w {tmp_path}/rowfall.toml" in (caught.value.hint or "")
    (tmp_path / "rowfall.toml").chmod(0o664)
    ProjectFile(tmp_path / "rowfall.toml")


def test_every_key_knows_its_line(tmp_path: Path) -> None:
    """Also behind texts and lists of several lines that look like keys."""
    file = read(
        tmp_path,
        '# a\n\n[loads.a]\nsource = [\n  "b",\n  # table = 1\n]\nselect = """\ntable = 3\n"""\n'
        'table = "t"\n\n[loads . "b"] # x\nsource = "c"\nafter = { sql = "SELECT 1" }\n'
        '[connections]\nprod.uri = "data"\nprod.threads = 2\n',
    )
    where = {
        ("loads", "a"): 3, ("loads", "a", "source"): 4, ("loads", "a", "select"): 8,
        ("loads", "a", "table"): 11, ("loads", "b"): 13, ("loads", "b", "after"): 15,
        ("loads", "b", "after", "sql"): 15, ("connections", "prod", "uri"): 17,
        ("connections", "prod", "threads"): 18,
    }  # fmt: skip
    for keys, line in where.items():
        assert file.where(*keys) == f"{file.path} line {line}", keys


def test_a_windows_editor(tmp_path: Path) -> None:
    file = read(tmp_path, b'\xef\xbb\xbf[loads.a]\r\nsource = "b"\r\n')
    assert file.named("loads") == ["a"]
    assert file.where("loads", "a", "source").endswith("line 2")
