"""What rowfall makes for itself is not data: ledgers, data folders, manifests, rejected rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowfall.core.errors import SourceError
from rowfall.core.options import Options
from rowfall.core.own_files import is_own_path
from rowfall.stores.files import LocalFiles, SkippedOwnFiles, find


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files, and data folders of rowfall beside and below them."""
    for name in (
        "a.json", "sub/b.json",
        "rowfall-data/rowfall.ledger", "rowfall-data/store/abc/t/all_1_1_0/serialization.json",
        "rowfall-data/metadata/default/t.sql",
        "sub/deep/data/rowfall.ledger", "sub/deep/data/x.json",
        # The ledger was taken away.
        "old/metadata/default/t.sql", "old/store/abc/serialization.json", "old/status",
        ".p.json.rowfall", "rowfall-rejects.tsv", "server.ledger",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"id":1}\n')
    return tmp_path


def names(folder: Path, found: list[str]) -> list[str]:
    return sorted(str(Path(path).relative_to(folder)) for path in found)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("", ["a.json", "sub/b.json"]),
        ("**/*.json", ["a.json", "sub/b.json"]),
        ("**", ["a.json", "sub/b.json"]),
        ("*/*.json", ["sub/b.json"]),
        ("*", ["a.json"]),
        ("sub", ["sub/b.json"]),
        ("rowfall-data/store/abc/t/all_1_1_0/serialization.json",
         ["rowfall-data/store/abc/t/all_1_1_0/serialization.json"]),
    ],
)  # fmt: skip
def test_own_files_are_left_out(folder: Path, what: str, expected: list[str]) -> None:
    """One that is named in full is meant."""
    assert names(folder, list(find(f"{folder}/{what}"))) == expected


def test_what_is_left_out_is_said(folder: Path) -> None:
    source = LocalFiles([str(folder)], Options())
    source.encoding(source.listing())
    (said,) = (note for note in source.notes if "left out" in note)
    assert said.startswith("left out: ")
    assert f"{folder}/rowfall-data (a data folder of rowfall)" in said
    left = SkippedOwnFiles()
    list(find(str(folder), left=left))
    assert names(folder, left.folders) == ["old", "rowfall-data", "sub/deep/data"]
    assert names(folder, left.files) == ["rowfall-rejects.tsv", "server.ledger"]


@pytest.mark.parametrize("format", [None, "JSONEachRow"])
def test_a_data_folder_is_no_source_of_files(folder: Path, format: str | None) -> None:
    with pytest.raises(SourceError, match="is a data folder of rowfall"):
        list(find(f"{folder}/rowfall-data", everything=format is not None))


@pytest.mark.parametrize("pattern", ["rowfall-data/**/*.json", "rowfall-data/store/**/*.json",
                                     "rowfall-data/*/*/*/*/*.json"])  # fmt: skip
def test_nothing_below_a_ledger_matches(folder: Path, pattern: str) -> None:
    with pytest.raises(SourceError, match="no file matches") as error:
        list(find(f"{folder}/{pattern}"))
    assert "rowfall-data (a data folder of rowfall)" in str(error.value.hint)


def test_files_beside_a_ledger_may_be_matched(tmp_path: Path) -> None:
    """``--to .`` keeps the tables beside the files of the user."""
    (tmp_path / "rowfall.ledger").write_text("")
    (tmp_path / "a.csv").write_text("id\n1\n")
    assert names(tmp_path, list(find(f"{tmp_path}/*.csv"))) == ["a.csv"]


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("x/rowfall-data/store/9b1/9b1f0a2e-1111-2222-3333-444455556666/all_1_1_0/serialization.json",
         True),
        ("x/data/default/s/all_1_1_0/serialization.json", True),
        ("data/default/s/2024_1_1_0_5/columns.txt", True),
        ("rowfall.ledger", True),
        ("in/.p.json.rowfall", True),
        ("data/db/table/2024_01_01_05/part.json", False),
        ("data/default/s/all/serialization.json", False),
        ("store/9b1/9b1f0a2e/all_1_1_0/serialization.json", False),
        ("store/orders.csv", False),
        ("rowfall/sales.csv", False),
    ],
)  # fmt: skip
def test_paths_of_archives_and_buckets(path: str, own: bool) -> None:
    assert is_own_path(path) is own
