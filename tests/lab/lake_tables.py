"""A catalogue of Iceberg tables that lives in this process, so that pyiceberg can write some.

pyiceberg's own catalogue in memory needs SQLAlchemy. This one keeps the place of each table's
metadata in a dict; the tables themselves are files, written by pyiceberg.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

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

    def _nothing(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    register_table = drop_table = rename_table = purge_table = _nothing
    create_namespace = drop_namespace = update_namespace_properties = _nothing
    list_tables = list_namespaces = list_views = drop_view = view_exists = _nothing
    table_exists = namespace_exists = create_view = load_view = register_view = _nothing


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
    made = catalogue.create_table(f"lab.{folder}", data.schema, location=folder, **more)
    made.append(data)
    return catalogue.load_table(f"lab.{folder}")
