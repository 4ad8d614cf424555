"""What is read of Iceberg's metadata, compared with pyiceberg's own reading of the same files."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import index_name_by_id
from pyiceberg.types import LongType

from lab.lake_tables import delete_equal, iceberg
from rowfall.systems.lakes import iceberg_metadata as metadata

_PAIR = pa.struct([("x", pa.int64())])
_SCHEMA = pa.schema([
    pa.field("id", pa.int64(), nullable=False), ("day", pa.date32()),
    ("tags", pa.list_(pa.string())), ("pairs", pa.map_(pa.string(), _PAIR)),
])  # fmt: skip


def _rows(start: int) -> pa.Table:
    ids = range(start, start + 6)
    return pa.Table.from_pylist(
        [{"id": i, "day": date(2024, 1, 1 + i % 2), "tags": ["a"], "pairs": [("k", {"x": i})]}
         for i in ids],
        _SCHEMA,
    )  # fmt: skip


@pytest.mark.parametrize("version", ["1", "2"])
def test_all_that_is_read_is_what_pyiceberg_reads(tmp_path: Path, version: str) -> None:
    table = iceberg(str(tmp_path / "t"), _rows(0), properties={"format-version": version})
    with table.update_spec() as spec:
        spec.add_identity("day")
    table.append(_rows(6))
    table.delete("id = 3")
    with table.update_schema() as update:
        update.add_column("more", LongType())
        update.rename_column("day", "date")
    theirs = table.metadata
    ours = metadata.parse_table(Path(table.metadata_location.removeprefix("file://")).read_bytes())
    assert ours.version == theirs.format_version == int(version)
    assert [s.id for s in ours.schemas] == [s.schema_id for s in theirs.schemas]
    assert ours.schema.id == theirs.current_schema_id
    for schema, like in zip(ours.schemas, theirs.schemas, strict=True):
        assert schema.names() == index_name_by_id(like)
        assert [(f.name, f.required) for f in schema.fields] == [
            (f.name, f.required) for f in like.fields
        ]
    assert ours.current is not None
    assert ours.current.id == theirs.current_snapshot_id
    assert ours.refs == {name: ref.snapshot_id for name, ref in theirs.refs.items()}
    assert ours.log == tuple((e.timestamp_ms, e.snapshot_id) for e in theirs.snapshot_log)
    assert {n: [(f.source_id, f.transform) for f in spec] for n, spec in ours.specs.items()} == {
        n: [(f.source_id, str(f.transform)) for f in spec.fields]
        for n, spec in theirs.specs().items()
    }
    for snapshot in theirs.snapshots:
        own = ours.snapshots[snapshot.snapshot_id]
        assert snapshot.summary is not None
        assert (own.parent, own.operation) == (
            snapshot.parent_snapshot_id, snapshot.summary.operation.value
        )  # fmt: skip
        _check_files(table, snapshot, own)


def test_deletes_and_what_entries_leave_to_their_manifest(tmp_path: Path) -> None:
    rows = pa.table({"id": range(20)}, schema=pa.schema([pa.field("id", pa.int64())]))
    table = delete_equal(iceberg(str(tmp_path / "t"), rows), [1, 2])
    place = Path(table.metadata_location.removeprefix("file://"))
    ours = metadata.parse_table(place.read_bytes())
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = _check_files(table, snapshot, ours.snapshots[snapshot.snapshot_id])
    assert sorted(entry.content for entry in found) == [
        metadata.DATA, metadata.EQUALITY_DELETES
    ]  # fmt: skip


def _check_files(table: Any, theirs: Any, ours: metadata.Snapshot) -> list[metadata.ManifestEntry]:
    read = lambda name: Path(name.removeprefix("file://")).read_bytes()  # noqa: E731
    manifests = list(metadata.manifests_of(read(ours.manifest_list)))
    found = []
    for manifest, like in zip(manifests, theirs.manifests(table.io), strict=True):
        assert manifest == metadata.ManifestFile(
            like.manifest_path, int(like.content), like.partition_spec_id,
            like.sequence_number or 0, like.added_snapshot_id,
        )  # fmt: skip
        entries = list(metadata.entries_of(read(manifest.path), manifest))
        known = like.fetch_manifest_entry(table.io, discard_deleted=False)
        for entry, other in zip(entries, known, strict=True):
            file = other.data_file
            values = [file.partition[n] for n in range(len(file.partition))]
            assert (
                entry.status, entry.snapshot_id, entry.sequence_number, entry.path, entry.format,
                entry.content, entry.rows, entry.size, entry.spec_id, len(entry.partition),
                entry.counted, entry.lower, entry.upper,
            ) == (
                int(other.status), other.snapshot_id, other.sequence_number or 0, file.file_path,
                file.file_format.value, int(file.content), file.record_count,
                file.file_size_in_bytes, file.spec_id, len(values),
                {*(file.value_counts or {}), *(file.column_sizes or {})},
                file.lower_bounds or {}, file.upper_bounds or {},
            )  # fmt: skip
        found += entries
    return found


@pytest.mark.parametrize(
    ("value", "type_", "wanted"),
    [
        (date(2024, 2, 29), "date", "2024-02-29"),
        (19782, "date", "2024-02-29"),
        (datetime(2024, 2, 29, 1, 2, 3, 4), "timestamptz", "2024-02-29 01:02:03.000004"),
        (1_709_168_523_000_004, "timestamp", "2024-02-29 01:02:03.000004"),
        (1_709_168_523_000_000_004, "timestamp_ns", "2024-02-29 01:02:03.000000004"),
        (Decimal("1.50"), "decimal(9, 2)", "1.50"),
        (True, "boolean", "true"),
        (None, "long", None),
    ],
)
def test_values_of_partitions_as_text(value: Any, type_: str, wanted: str | None) -> None:
    from rowfall.systems.lakes.iceberg_source import _text

    assert _text(value, type_) == wanted


def test_types() -> None:
    from rowfall.systems.lakes.types import readable, words

    assert readable("decimal(9, 2)", required=True) == "Decimal(9, 2)"
    assert readable("fixed[16]", required=False) == "Nullable(FixedString(16))"
    assert readable("variant", required=False) == ""
    inside = {"type": "list", "element-id": 2, "element": "variant", "element-required": False}
    assert readable(inside, required=False) == ""
    assert words(inside) == "list<variant>"
