"""What ``--to`` names: a folder, files, nothing, a server; and what was meant as another kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowfall.core.errors import UsageError
from rowfall.core.options import Options
from rowfall.targets import open_target
from rowfall.targets.kinds import kind_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("data", "folder"),
        ("./rowfall-data", "folder"),
        ("/srv/ch.data/v2", "folder"),
        ("data.v2", "folder"),
        ("my.db", "folder"),
        ("./localhost", "folder"),
        ("./127.0.0.1:8123", "folder"),
        ("/mnt/out.xlsx/", "folder"),
        ("file:///srv/data", "folder"),
        ("out.csv", "file"),
        ("out-2024-01-01T00:00.csv.gz", "file"),
        ("part_{n}.parquet", "file"),
        ("out.arrow", "file"),
        ("s3://bucket/out.csv", "s3"),
        ("clickhouse://localhost", "clickhouse"),
        ("null:", "null"),
    ],
)
def test_what_is_named(
    text: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert kind_of(text, Options()) == kind


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("localhost", "--to clickhouse://localhost:8123/default."),
        ("localhost:8124/logs", "--to clickhouse://localhost:8124/logs."),
        ("127.0.0.1:8123", "--to clickhouse://127.0.0.1:8123/default."),
        ("db.example.com", "--to clickhouse://db.example.com:8123/default."),
        ("me@ch.internal:8443", "--to clickhouse://me@ch.internal:8443/default."),
        ("ch:9000", "--to clickhouse://ch:8123/default."),
        ("clickhouse:x", "--to ./clickhouse:x"),
        ("clickhose://ch/", "Did you mean clickhouse?"),
        ("out.xlsx", "--to out.xlsx/"),
        ("out.txt", "--to-format"),
        ("dump.csv.zip", ".csv.gz"),
        ("null", "--to null:"),
        ("-", "--to out.csv"),
        ("there", "Name a folder"),
    ],
)
def test_what_was_meant_otherwise(
    text: str, instead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").touch()
    with pytest.raises(UsageError) as caught:
        kind_of(text, Options())
    assert instead in (caught.value.hint or "")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_folder_that_is_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("localhost", "out.xlsx"):
        (tmp_path / name).mkdir()
        assert kind_of(name, Options()) == "folder"


def test_a_format_by_name_makes_files_of_any_end() -> None:
    assert kind_of("out.txt", Options(to_format="CSV")) == "file"


@pytest.mark.parametrize("table", ["", " ", "db.", ".t"])
def test_a_table_has_a_name(table: str, tmp_path: Path) -> None:
    for to in (str(tmp_path / "data"), "clickhouse://localhost"):
        with pytest.raises(UsageError, match="names no table"):
            open_target(to, table, Options())


def test_an_empty_target_is_no_folder() -> None:
    with pytest.raises(UsageError, match="--to is empty"):
        open_target("", "t", Options())
