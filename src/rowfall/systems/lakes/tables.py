"""Many tables of an Iceberg catalogue: those of a namespace, or of all of them.

A catalogue has no snapshot of several tables. The newest snapshot of each is noted at the
beginning, one right after the other, and that one is read, whenever its turn comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast

from rowfall.core import uri
from rowfall.core.errors import RowfallError, SourceError, UsageError
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import Options
from rowfall.core.tables import FoundTable
from rowfall.core.units import counted
from rowfall.sources.base import Source
from rowfall.sources.databases import one_table
from rowfall.sources.many import SeparateTables, TableSet
from rowfall.stores.folders import SubFolders
from rowfall.systems.lakes.catalogue import first_line, open_catalogue
from rowfall.systems.lakes.iceberg_source import open_iceberg
from rowfall.systems.lakes.source import missing_driver

# Each question of a table's metadata is one request, which waits for the catalogue.
_ASKING = 8


def open_tables(text: str, options: Options) -> TableSet:
    """Open the tables of ``iceberg://CATALOG/namespace``, or of a folder of tables.

    Raises:
        UsageError: no such catalogue is configured, or its library is not installed.
    """
    if not text.lower().startswith("iceberg://"):
        return SubFolders(text, options)
    try:
        import pyiceberg  # noqa: F401 - to ask whether it is installed
    except ImportError:
        raise missing_driver("pyiceberg", "iceberg") from None
    return NamespaceTables(text, options)


class NamespaceTables(SeparateTables):
    """The tables of one namespace of a catalogue."""

    _MOMENT = (
        "each table is read in the snapshot that was its newest when the load began; a catalogue "
        "has none of several tables"
    )

    def __init__(self, text: str, options: Options) -> None:
        self.text = uri.mask(text)
        name, _, namespace = text.partition("://")[2].strip("/").partition("/")
        if not name:
            raise UsageError(
                f"{self.text} names no catalogue", hint="Write iceberg://CATALOG/namespace."
            )
        self._name, self._namespace = name, namespace
        self._catalogue: Any = open_catalogue(name, options, SourceError)
        self._pinned: dict[str, str] = {}
        self._empty: list[str] = []

    def list_tables(self) -> Sequence[FoundTable]:
        try:
            spaces = [tuple(s) for s in self._catalogue.list_namespaces()]
            if self._namespace:
                wanted = tuple(self._namespace.split("."))
                if wanted not in spaces and self._catalogue.table_exists(self._namespace):
                    *above, table = wanted
                    raise one_table(
                        self.text,
                        f"iceberg://{self._name}/{'.'.join(above)} --tables '{table}'",
                    )
                if wanted not in spaces and len(wanted) == 1:
                    raise self._no_namespace(spaces)
                spaces = [wanted]
            found = [name for space in spaces for name in self._catalogue.list_tables(space)]
        except RowfallError:
            raise
        except Exception as error:  # whatever its kind raises
            raise SourceError(
                f"cannot list the tables of {self.text}: {first_line(error)}", transient=True
            ) from error
        return [FoundTable(".".join(space), table) for *space, table in sorted(map(tuple, found))]

    def _no_namespace(self, spaces: Sequence[tuple[str, ...]]) -> SourceError:
        names = [".".join(space) for space in spaces]
        return SourceError(
            f"the catalogue {self._name} has no namespace {self._namespace}",
            hint=f"{did_you_mean(self._namespace, names)}It has: "
            f"{', '.join(names[:10]) or 'none'}.",
        )

    def measure(self, tables: Sequence[FoundTable]) -> Sequence[FoundTable]:
        """Note the newest snapshot of each; see :class:`rowfall.sources.many.TableSet`."""
        with ThreadPoolExecutor(_ASKING) as pool:
            found = list(pool.map(self._measure, tables))
        # A load of one has no file that would tell its columns.
        self._empty = [table.full for table in found if table.rows == 0]
        if len(self._empty) == len(found):
            raise SourceError(
                f"no table of {self.text} that was chosen has rows",
                hint="Load them when something was written.",
            )
        return [table for table in found if table.rows != 0]

    def _measure(self, table: FoundTable) -> FoundTable:
        try:
            snapshot = self._catalogue.load_table(table.full).current_snapshot()
        except Exception:  # whoever opens it says why it cannot be read
            return table
        if snapshot is None:
            return replace(table, rows=0, bytes=0)
        self._pinned[table.full] = str(snapshot.snapshot_id)
        said = snapshot.summary
        rows, size = (said[k] if said else None for k in ("total-records", "total-files-size"))
        return replace(
            table,
            rows=None if rows is None else int(rows),
            bytes=None if size is None else int(size),
        )

    def address(self, table: FoundTable) -> str:
        return f"iceberg://{self._name}/{table.full}"

    def open(self, table: FoundTable, options: Options) -> Source:
        pinned = options.snapshot or self._pinned.get(table.full)
        opened = open_iceberg([self.address(table)], replace(options, snapshot=pinned))
        return cast("Source", opened)

    def remarks(self) -> Sequence[str]:
        if self._empty:
            names = ", ".join(self._empty[:10])
            return (f"{counted(len(self._empty), 'table')} without rows left out: {names}",)
        return ()

    def close(self) -> None:
        """Do nothing: requests end by themselves."""
