"""How names and types of lake tables are taken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.core import sql, uri
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.options import Options
from rowfall.sources import open_source
from rowfall.systems.lakes.files import plain_name

# --- names and types -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "scheme"),
    [("iceberg+s3://b/t", "iceberg"), ("delta+/t", "delta"), ("iceberg://c/n.t", "iceberg"),
     ("DELTA+./t", "delta"), ("iceberg/t", "file"), ("deltas+/t", "file")],
)  # fmt: skip
def test_kinds_of_tables_are_schemes(text: str, scheme: str) -> None:
    assert uri.scheme_of(text) == scheme


@pytest.mark.parametrize(
    ("text", "name"),
    [("file:///a%20b/c", "/a b/c"), ("file:/a/c", "/a/c"), ("/a%20b", "/a%20b"),
     ("s3a://b/k", "s3://b/k"), ("abfss://c@acc.dfs.core.windows.net/a/b", "az://c/a/b")],
)  # fmt: skip
def test_locations_are_named_as_rowfall_names_them(text: str, name: str) -> None:
    assert plain_name(text) == name


names = st.text(st.characters(blacklist_characters="\0", codec="utf-8"), min_size=1)
types = st.sampled_from(["Int64", "Tuple(`a` Int8, `b,(` Array(String))", "Decimal(9, 2)",
                         "Nullable(DateTime64(6, 'UTC'))"])  # fmt: skip


@given(st.lists(st.tuples(names, types), min_size=1))
def test_columns_of_a_structure_are_those_it_was_made_of(columns: list[tuple[str, str]]) -> None:
    assert sql.columns_of(sql.structure(columns)) == columns


# --- tables that cannot be read ------------------------------------------------------------------


def delta_log(folder: Path, *, reader: int = 1, features: list[str] | None = None,
              type_: object = "long", stats: str = "") -> Path:  # fmt: skip
    """A Delta table whose log has one commit with one file, which is not there."""
    fields = [{"name": "v", "type": type_, "nullable": True, "metadata": {}}]
    metadata = {"schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [], "configuration": {}}  # fmt: skip
    protocol = {"minReaderVersion": reader, "readerFeatures": features}
    add = {"path": "a%20b.parquet", "size": 9, "partitionValues": {}, "stats": stats}
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    actions = [{"protocol": protocol}, {"metaData": metadata}, {"add": add}]
    lines = "\n".join(json.dumps(action) for action in actions)
    (log / f"{0:020}.json").write_text(lines)
    return folder


def test_a_delta_table_is_listed_by_its_log(tmp_path: Path) -> None:
    source = open_source([f"delta+{delta_log(tmp_path / 't')}"], Options())
    (split,) = source.listing().splits("")
    assert (split.uri, split.version, split.size) == (str(tmp_path / "t/a b.parquet"), "9", 9)
    with pytest.raises(SourceError, match="is gone, version 0 has been expired or vacuumed"):
        source.changed([split])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"reader": 4}, "needs reader version 4"),
        (
            {"reader": 3, "features": ["deletionVectors", "typeWidening"]},
            "features .* typeWidening",
        ),
        ({"type_": "variant"}, r"no type for v \(variant\)"),
        ({"stats": '{"numRecords": 0}'}, "holds no rows"),
    ],
)
def test_a_delta_table_that_cannot_be_read_is_refused(
    tmp_path: Path, table: dict[str, object], words: str
) -> None:
    folder = delta_log(tmp_path / "t", **table)  # type: ignore[arg-type]
    with pytest.raises(SourceError, match=words):
        open_source([f"delta+{folder}"], Options()).listing()


def test_a_column_without_a_type_can_be_left_out(tmp_path: Path) -> None:
    folder = delta_log(tmp_path / "t", type_="variant")
    assert len(open_source([f"delta+{folder}"], Options(skip=("v",))).listing()) == 1


def test_a_log_with_a_hole_is_refused(tmp_path: Path) -> None:
    log = delta_log(tmp_path / "t") / "_delta_log"
    (log / f"{2:020}.json").write_text('{"commitInfo": {}}')
    with pytest.raises(SourceError, match=r"version 1 of .* its commit is not in the log"):
        open_source([f"delta+{tmp_path / 't'}"], Options())


@pytest.mark.parametrize(
    ("text", "options", "error", "words"),
    [
        ("delta+{0}/none", Options(), SourceError, "no Delta table in"),
        ("iceberg+{0}/none", Options(), SourceError, "no Iceberg table in"),
        ("iceberg+{0}/t", Options(), SourceError, "is a Delta table, not an Iceberg table"),
        ("delta+{0}/t", Options(snapshot="7"), UsageError, "has no version 7"),
        ("delta+{0}/t", Options(snapshot="yesterday"), UsageError, "has no version yesterday"),
        ("delta+http://host/t", Options(), UsageError, "not http://"),
        ("delta://host/t", Options(), UsageError, "names no folder"),
        ("iceberg://table", Options(), UsageError, "names no table"),
        ("{0}/t", Options(since="1"), UsageError, "--since is for lake tables"),
    ],
)
def test_what_is_asked_for_and_not_there_is_said(
    tmp_path: Path, text: str, options: Options, error: type[Exception], words: str
) -> None:
    delta_log(tmp_path / "t")
    with pytest.raises(error, match=words):
        open_source([text.format(tmp_path)], options)
