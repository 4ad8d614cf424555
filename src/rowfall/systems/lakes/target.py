"""Tables of Iceberg: ``iceberg+s3://bucket/path``, ``iceberg+/path``, ``iceberg://CATALOG/ns.table``.

The engine writes Parquet files into a folder here. Each is brought to its place in the table when
its attempt is complete, and one commit at the end of the load makes all of them visible.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from rowfall.core import s3_access, sql, uri
from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret
from rowfall.core.model import Column, Encoding, Schema
from rowfall.core.options import ERROR, Options
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText, quote
from rowfall.systems.lakes import types
from rowfall.systems.lakes.catalogue import HOW_TO_NAME, catalogue_and_name
from rowfall.targets.base import Caps, Publish, Scratch, scratch_folder, state_folder

PROMISE = (
    "exactly once: one commit of the table makes all rows visible and carries the record of their "
    "files, so a re-run after a crash loads only what is missing"
)
# Options of tables elsewhere.
_OF_OTHERS = ("engine", "shard_key", "unlogged", "prefill", "files", "to_format")
_SCHEMES = (uri.FILE, "s3")


class IcebergTarget:
    """One table of Iceberg.

    Attributes:
        partition_by: SQL that is the same for all rows of a file, "" for none.
        zeros_in_text: see :class:`rowfall.targets.base.DeclaresTypes`.

    Raises:
        UsageError: the text names no table, or an option is not for one.
    """

    zeros_in_text = True

    def __init__(
        self, text: str, table: str, options: Options, password: Secret | None = None
    ) -> None:
        self.text = uri.mask(text)
        self.partition_by = ""
        self._partitions, self._order = options.partition_by or "", options.order_by or ""
        for name in _OF_OTHERS:
            if getattr(options, name):
                raise UsageError(
                    f"--{name.replace('_', '-')} is not for tables of Iceberg",
                    hint="Leave it out. They have --order-by and --partition-by.",
                )
        if options.on_conflict != ERROR:
            raise UsageError(
                "--on-conflict is not for tables of Iceberg, which have no keys",
                hint="Leave it out.",
            )
        location, catalogue, name = _place(text)
        self._local = bool(location) and "://" not in location
        self.location = location
        self.address: ServerAt | None = ServerAt(
            catalogue, 0, False, "", None, {"location": location}, kind="iceberg"
        )
        self.server: ServerAt | None = None
        self.folder: Path | None = None
        self.database, self.table = "", name
        digest = blake2b(f"{catalogue}/{name}".encode(), digest_size=4).hexdigest()
        file = re.sub(r"[^A-Za-z0-9.-]+", "_", f"iceberg-{catalogue}-{name}")
        self.ledger_path = state_folder() / f"{file[:100]}-{digest}.ledger"
        self.secrets: tuple[Secret, ...] = tuple(uri.secret_values(text))
        self.caps = Caps(Publish.COMMIT, PROMISE, "a table already", takes_table_name=False)

    def declared(self, column: Column) -> str:
        """Return the type as which a column is read again."""
        return types.readable(_stored(column).type, required=True)

    def create(self, schema: Schema, table: str = "") -> tuple[SqlText, ...]:
        """Return the table as Spark would make it, which is shown and not run.

        Raises:
            UsageError: a column has no type of Iceberg.
        """
        columns = _columns(schema.columns)
        parts = f"\nPARTITIONED BY ({self._partitions})" if self._partitions else ""
        order = f"\nORDER BY {self._order}" if self._order else ""
        return (SqlText.of(
            f"CREATE TABLE {self.table} (\n{columns}\n) USING iceberg{parts}{order}"
        ),)  # fmt: skip

    def laid_out(self, partition_by: str) -> IcebergTarget:
        """Return the target with files of one partition each."""
        made: IcebergTarget = object.__new__(IcebergTarget)
        made.__dict__.update(self.__dict__, partition_by=partition_by)
        return made

    def into(self, staging: str, schema: Schema) -> SqlText:
        """Return the files of an attempt, below the folder ``staging``."""
        structure = quote(sql.structure((c.name, _written(c)) for c in schema.columns))
        name = "{_partition_id}" if self.partition_by else "rows"
        path = quote(os.path.join(staging, f"{name}.parquet"))
        # As text, so that NULL and the text "NULL" differ; as a digest, so that it can be a name.
        parts = f" PARTITION BY (hex(MD5(toString(tuple({self.partition_by})))))"
        return SqlText.of(
            f"FUNCTION file({path}, 'Parquet', {structure}, 'none')"
            f"{parts if self.partition_by else ''}"
        )

    def staging_name(self, attempt_id: str, number: int, encoding: Encoding | None) -> str:
        """Return the folder that the engine writes in: where a rename is enough, or a temporary."""
        import tempfile  # 2 ms that others save

        folder = Path(self.location) / "_rowfall" if self._local else Path(tempfile.gettempdir())
        return str(folder / f"rowfall-{attempt_id}")

    def scratch(self, name: str, ledger: Path) -> Scratch:
        found: IcebergTarget = object.__new__(IcebergTarget)
        found.__dict__.update(self.__dict__, ledger_path=ledger)
        folder = scratch_folder(Path(self.location), name) if self._local else None
        if folder is not None:
            found.location = found.table = str(folder)
        elif self.location:
            found.location = found.table = f"{self.location.rpartition('/')[0]}/{name}"
        else:
            found.table = f"{self.table.rpartition('.')[0]}.{name}"
        assert self.address is not None  # noqa: S101 - set by __init__
        found.address = replace(self.address, options={"location": found.location})
        return Scratch(found, folder)


def _place(text: str) -> tuple[str, str, str]:
    """Return the folder of a table, its catalogue, and its name; one of the first two is "".

    Raises:
        UsageError: there is none, or tables in such a place cannot be written.
    """
    if text.lower().startswith("iceberg://"):
        return "", *catalogue_and_name(text)
    address = uri.lake_address(text)
    scheme = uri.scheme_of(address)
    if scheme not in _SCHEMES:
        raise UsageError(
            f"tables of Iceberg are written into local folders and s3://, not {scheme}://",
            hint=f"{HOW_TO_NAME}: a catalogue of pyiceberg writes to more kinds of stores.",
        )
    if scheme == uri.FILE:
        location = os.path.abspath(os.path.expanduser(uri.file_path(address)))
    else:
        location = address.rstrip("/")
        if location.count("/") < 3:
            raise UsageError(f"{uri.mask(text)!r} names no folder of a table", hint=HOW_TO_NAME)
        s3_access.check_bucket(location.split("/")[2], uri.mask(text))
    if location.endswith(".json"):
        raise UsageError(
            f"{uri.mask(text)} is one state of a table, and rows go into the table",
            hint="Name the folder of the table (the one above metadata).",
        )
    return location, "", location


def _stored(column: Column) -> types.StoredType:
    try:
        return types.stored(column.type, binary=column.binary)
    except ValueError as error:
        raise UsageError(
            f"column {column.name}: {column.type} has no place in an Iceberg table: {error}",
            hint=f"Load it as another type: --type '{column.name} {_other(column)}'",
        ) from None


def _other(column: Column) -> str:
    return "Nullable(String)" if column.type.startswith("Nullable(") else "String"


def _written(column: Column) -> str:
    """Return the type that a column has in the Parquet file."""
    if "DateTime64(9" in column.type:  # of a table that is there
        return column.type
    return _stored(column).written


def _columns(columns: Sequence[Column]) -> str:
    width = max((len(c.name) for c in columns), default=0)
    return ",\n".join(
        f"    {c.name:<{width}} {types.spark_words(_stored(c).type)}" for c in columns
    )
