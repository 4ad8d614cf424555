"""Lake tables for tests: by pyiceberg, by the engine, and by hand what no library writes.

pyiceberg's own catalogue in memory needs SQLAlchemy. This one keeps the place of each table's
metadata in a dict; the tables themselves are files, written by pyiceberg.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
import uuid
import zlib
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as parquet
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

PLACES: dict[str, str] = {}
"""Metadata of each table, by its name: a catalogue that is opened anew knows them, too."""


class DictCatalog(MetastoreCatalog):
    """Tables by name. One process, one thread."""

    def create_table(
        self, identifier: Any, schema: Any, location: str | None = None,
        partition_spec: Any = UNPARTITIONED_PARTITION_SPEC, sort_order: Any = UNSORTED_SORT_ORDER,
        properties: Any = None,
    ) -> Table:  # fmt: skip
        if _name(identifier) in PLACES:
            raise TableAlreadyExistsError(_name(identifier))
        staged = self._create_staged_table(
            identifier, schema, location, partition_spec, sort_order, properties or {}
        )
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        PLACES[_name(identifier)] = staged.metadata_location
        return self.load_table(identifier)

    def load_table(self, identifier: Any) -> Table:
        place = PLACES.get(_name(identifier))
        if place is None:
            raise NoSuchTableError(_name(identifier))
        io = self._load_file_io(location=place)
        metadata = FromInputFile.table_metadata(io.new_input(place))
        return Table(self.identifier_to_tuple(_name(identifier)), metadata, place, io, self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        staged = self._update_and_stage_table(
            self.load_table(table.name()), table.name(), requirements, updates
        )
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        PLACES[_name(table.name())] = staged.metadata_location
        named: dict[str, Any] = {"metadata-location": staged.metadata_location}
        return CommitTableResponse(metadata=staged.metadata, **named)

    def load_namespace_properties(self, namespace: Any) -> Any:
        return {}

    def list_namespaces(self, namespace: Any = ()) -> list[tuple[str, ...]]:
        return sorted({tuple(name.split(".")[:-1]) for name in PLACES})

    def list_tables(self, namespace: Any) -> list[tuple[str, ...]]:
        every = (tuple(name.split(".")) for name in PLACES)
        return [name for name in every if name[:-1] == tuple(namespace)]

    def table_exists(self, identifier: Any) -> bool:
        return _name(identifier) in PLACES

    def _nothing(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    register_table = drop_table = rename_table = purge_table = _nothing
    create_namespace = drop_namespace = update_namespace_properties = _nothing
    list_views = drop_view = view_exists = _nothing
    namespace_exists = create_view = load_view = register_view = _nothing


def _name(identifier: Any) -> str:
    return identifier if isinstance(identifier, str) else ".".join(identifier)


def iceberg(folder: str, data: Any, **more: Any) -> Table:
    """A new Iceberg table with one data file.

    Args:
        folder: a path or ``s3://...``.
        data: a table of pyarrow.
        more: arguments of ``create_table``; ``io``: properties of the store.
    """
    io = more.pop("io", {})
    catalogue = DictCatalog("lab", warehouse=folder, **io)
    schema = more.pop("schema", data.schema)
    PLACES.pop(f"lab.{folder}", None)  # folders of tests that passed are used again
    made = catalogue.create_table(f"lab.{folder}", schema, location=folder, **more)
    made.append(data)
    return catalogue.load_table(f"lab.{folder}")


def delete_equal(table: Table, ids: list[int]) -> Table:
    """Delete the rows with these values of the first column, by a file of equality deletes.

    pyiceberg writes no such files itself, only the metadata around this one.
    """
    folder, before = Path(table.location()), table.current_snapshot()
    assert before is not None
    number, order = before.snapshot_id + 1, (before.sequence_number or 0) + 1
    column = pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"})
    name = folder / f"data/eq-{uuid.uuid4()}.parquet"
    parquet.write_table(pa.table([pa.array(ids)], schema=pa.schema([column])), name)

    class Deletes(ManifestWriterV2):
        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES, file_path=str(name),
        file_format=FileFormat.PARQUET, partition=Record(), record_count=len(ids),
        file_size_in_bytes=name.stat().st_size, equality_ids=[1], spec_id=0,
    )  # fmt: skip
    out = table.io.new_output(f"{folder}/metadata/{uuid.uuid4()}-m0.avro")
    with Deletes(table.spec(), table.schema(), out, number, "deflate") as writer:
        writer.add(ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=file
        ))  # fmt: skip
    listed = f"{folder}/metadata/snap-{number}.avro"
    with write_manifest_list(
        2, table.io.new_output(listed), number, before.snapshot_id, order, "deflate"
    ) as manifests:
        manifests.add_manifests([writer.to_manifest_file(), *before.manifests(table.io)])
    fields: dict[str, Any] = {
        "snapshot-id": number, "parent-snapshot-id": before.snapshot_id, "sequence-number": order,
        "timestamp-ms": int(time.time() * 1000), "manifest-list": listed, "schema-id": 0,
        "summary": Summary(operation=Operation.DELETE),
    }  # fmt: skip
    named: dict[str, Any] = {"ref_name": "main", "type": "branch", "snapshot_id": number}
    changes = (AddSnapshotUpdate(snapshot=Snapshot(**fields)), SetSnapshotRefUpdate(**named))
    table.catalog.commit_table(table, (), changes)
    return table.catalog.load_table(table.name())


def delete_by_puffin(table: Table, numbers: list[int]) -> Path:
    """Make version 3 of a table of one file, and delete rows of it by a deletion vector.

    pyiceberg (0.12) writes none: this is the form of the specification, a Puffin file with a 64-bit
    roaring bitmap of one container.

    Returns:
        The newest metadata file.
    """
    folder, before = Path(table.location()), table.current_snapshot()
    assert before is not None
    (data,) = (task.file.file_path for task in table.scan().plan_files())
    bitmap = struct.pack("<Q", 1) + struct.pack("<I", 0) + struct.pack("<II", 12346, 1)
    bitmap += struct.pack("<HHI", 0, len(numbers) - 1, 16)
    bitmap += b"".join(struct.pack("<H", n) for n in numbers)
    vector = b"\xd1\xd3\x39\x64" + bitmap
    blob = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    footer = json.dumps({"blobs": [{
        "type": "deletion-vector-v1", "fields": [2147483645], "snapshot-id": -1,
        "sequence-number": -1, "offset": 4, "length": len(blob),
        "properties": {"referenced-data-file": data, "cardinality": str(len(numbers))},
    }]}).encode()  # fmt: skip
    name = folder / f"data/dv-{uuid.uuid4()}.puffin"
    end = struct.pack("<I", len(footer)) + b"\0" * 4 + b"PFA1"
    name.write_bytes(b"PFA1" + blob + b"PFA1" + footer + end)
    number, order = before.snapshot_id + 1, (before.sequence_number or 0) + 1
    (old,) = before.manifests(table.io)
    with open(old.manifest_path.removeprefix("file://"), "rb") as file:
        schema: Any = fastavro.reader(file).writer_schema
    record = next(f for f in schema["fields"] if f["name"] == "data_file")["type"]
    known = {f["name"] for f in record["fields"]}
    more = (("referenced_data_file", "string", 143), ("content_offset", "long", 144),
            ("content_size_in_bytes", "long", 145))  # fmt: skip
    record["fields"] += [
        {"name": n, "type": ["null", t], "default": None, "field-id": i}
        for n, t, i in more if n not in known
    ]  # fmt: skip
    deleted = {
        "content": 1, "file_path": str(name), "file_format": "PUFFIN", "partition": {},
        "record_count": len(numbers), "file_size_in_bytes": name.stat().st_size,
        "referenced_data_file": data, "content_offset": 4, "content_size_in_bytes": len(blob),
    }  # fmt: skip
    entry = {"status": 1, "snapshot_id": number, "sequence_number": order,
             "file_sequence_number": order, "data_file": deleted}  # fmt: skip
    manifest = folder / f"metadata/{uuid.uuid4()}-m0.avro"
    about = {"schema": table.schema().model_dump_json(), "partition-spec": "[]",
             "partition-spec-id": "0", "format-version": "3", "content": "deletes"}  # fmt: skip
    with manifest.open("wb") as out:
        fastavro.writer(out, schema, [entry], metadata=about)
    listed = folder / f"metadata/snap-{number}.avro"
    with open(before.manifest_list.removeprefix("file://"), "rb") as file:
        reader: Any = fastavro.reader(file)
        rows = list(reader)
    added = {**rows[0], "manifest_path": str(manifest), "content": 1, "sequence_number": order,
             "manifest_length": manifest.stat().st_size, "min_sequence_number": order,
             "added_snapshot_id": number, "added_rows_count": len(numbers)}  # fmt: skip
    with listed.open("wb") as out:
        fastavro.writer(out, reader.writer_schema, [added, *rows],
                        metadata={"format-version": "3"})  # fmt: skip
    newest = max(folder.glob("metadata/*.metadata.json"))
    document = json.loads(newest.read_text())
    snapshot = {
        "snapshot-id": number, "parent-snapshot-id": before.snapshot_id, "sequence-number": order,
        "timestamp-ms": int(time.time() * 1000), "manifest-list": str(listed), "schema-id": 0,
        "summary": {"operation": "delete"}, "first-row-id": 0, "added-rows": 0,
    }  # fmt: skip
    document |= {
        "format-version": 3, "next-row-id": 0, "current-snapshot-id": number,
        "last-sequence-number": order, "snapshots": [*document["snapshots"], snapshot],
        "refs": {"main": {"snapshot-id": number, "type": "branch"}},
    }  # fmt: skip
    made = folder / f"metadata/{99999:05}-{uuid.uuid4()}.metadata.json"
    made.write_text(json.dumps(document))
    return made


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def delete_by_vector(folder: Path, numbers: list[int]) -> None:
    """Delete rows of the first file of a Delta table, which has one commit, by their numbers.

    deltalake writes no deletion vectors, so this is the form of the protocol: an inline roaring
    bitmap of one container.
    """
    log = folder / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    add = next(action["add"] for action in actions if "add" in action)
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    body = struct.pack("<IQI", 1681511377, 1, 0) + struct.pack("<II", 12346, 1)
    body += struct.pack("<HHI", 0, len(numbers) - 1, 16)
    body += b"".join(struct.pack("<H", n) for n in numbers)
    padded = body + b"\0" * (-len(body) % 4)
    text = ""
    for start in range(0, len(padded), 4):
        value = int.from_bytes(padded[start : start + 4], "big")
        text += "".join(_Z85[value // 85**power % 85] for power in (4, 3, 2, 1, 0))
    vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(body),
              "cardinality": len(numbers)}  # fmt: skip
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    removed = {k: add[k] for k in ("path", "size", "partitionValues")}
    written = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"metaData": {**metadata, "configuration": {"delta.enableDeletionVectors": "true"}}},
        {"remove": {**removed, "deletionTimestamp": 1, "dataChange": True}},
        {"add": {**add, "dataChange": True, "deletionVector": vector}},
    ]
    lines = "\n".join(json.dumps(action) for action in written)
    (log / f"{len(list(log.glob('*.json'))):020}.json").write_text(lines)


_BY_ENGINE = """
import json, os, sys
import chdb.state.sqlitelike
os.chdir("/")  # tables below the current folder only
connection = chdb.state.sqlitelike.connect(":memory:")
for statement in json.loads(sys.argv[1]):
    connection.query(statement, "Null")
"""


def by_engine(engine: str, folder: Path, *statements: str) -> None:
    """Let the engine write a table ``t``, as the second writer beside the tables' own libraries."""
    begin = [
        "SET allow_insert_into_iceberg = 1, allow_experimental_delta_lake_writes = 1",
        f"CREATE TABLE t ENGINE = {engine}('{folder}')",
    ]
    command = [sys.executable, "-c", _BY_ENGINE, json.dumps([*begin, *statements])]
    subprocess.run(command, check=True, timeout=60)


def engine_rows(place: str, columns: str, store: Any = None) -> list[list[Any]]:
    """Rows of ``SELECT columns`` of an Iceberg table, as the engine's own reader gives them.

    Args:
        place: a path or ``s3://...``. ``store``: the service that has it.
    """
    table = f"icebergLocal('{place}')"
    if store is not None:
        url = f"{store.endpoint}/{place.removeprefix('s3://')}/"
        table = f"icebergS3('{url}', '{store.access_key}', '{store.secret_key}')"
    script = (
        "import sys, chdb\n"
        f"sys.stdout.write(str(chdb.query({f'SELECT {columns} FROM {table}'!r}, "
        "'JSONCompactEachRow')))"
    )
    # A process of its own, at the root: the engine reads tables below its current folder only.
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          check=False, cwd="/")  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [[int(x) if isinstance(x, str) and x.isdigit() else x for x in row] for row in rows]
