"""Tables of a data folder of rowfall: ``rowfall load ./rowfall-data --table t --to out.csv``.

The address of one is ``folder:///path/of/the/folder/table``. The folder's own engine reads them,
from a copy made of links, so a load may go on meanwhile. What a split is, and what a later run
loads, is as of a server's table: see :mod:`rowfall.systems.clickhouse.source`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rowfall.core import uri
from rowfall.core.errors import EngineError, SourceError, UsageError
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import Options
from rowfall.core.own_files import is_data_folder_at
from rowfall.sources.base import TableReader
from rowfall.sources.databases import with_table
from rowfall.systems.clickhouse.source import Tables

SCHEME = "folder"
_OWN = "_rowfall_"
_SHOWN = 10
_DEFAULT = "default"
_PARAMETERS = ("schema", "table")
# The engine's own, and those whose tables are made by it.
_NO_TABLES = frozenset({"system", "information_schema", "INFORMATION_SCHEMA"})


class DataFolder(Tables):
    """One table of a data folder, or the result of ``--query`` over all of them."""

    remote = False

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        if len(texts) > 1:
            raise UsageError(
                f"one load reads one table, and {texts[0]} is a data folder of rowfall: its rows "
                "are in tables",
                hint="Run one load for each.",
            )
        for name in ("format", "compression", "delimiter", "header", "columns", "quote",
                     "encoding"):  # fmt: skip
            if getattr(options, name) is not None:
                raise UsageError(
                    f"--{name} is for files, and {texts[0]} is a data folder of rowfall: its rows "
                    "are in tables",
                    hint="Leave it out.",
                )
        self.folder, self._named = located(texts[0])
        super().__init__(texts[0], address_of(self.folder), _DEFAULT, "", options)
        if self._named and self.query:
            raise UsageError(
                f"--query and the table {self._named[1]} exclude each other",
                hint=f"Write {shlex.quote(address_of(self.folder))} --query ...",
            )
        self._reader: TableReader | None = None

    @property
    def address(self) -> str:
        """Return the SOURCE argument that names the chosen table as well; as typed for a query."""
        if self.query:
            return self.text
        return address_of(self.folder, self.database, self.table)

    def choose(self, table: str | None) -> str:
        """Take the table to read, and return its name; "" for a query or where the address has it.

        Args:
            table: may be ``database.table``; None for the only one that there is.

        Raises:
            UsageError: it has to be named. SourceError: there is no such table.
        """
        if self.query:
            return ""
        tables = self._tables()
        names = sorted(tables)
        if table is None and len(names) > 1 and not self._named:
            raise UsageError(
                f"{self.text} is a data folder with {len(names)} tables: {_listed(names)}",
                hint=f"Name one with --table, as in --table {shlex.quote(names[0])}.",
            )
        if not names:
            raise SourceError(
                f"{self.text} is a data folder of rowfall without a table: its files are not data",
                hint=f"Load something into it first: rowfall load FILE --to "
                f"{shlex.quote(self.text)}",
            )
        if self._named:
            table = ".".join(self._named)
        wanted = names[0] if table is None else table.removeprefix(f"{_DEFAULT}.")
        if wanted not in names:
            raise SourceError(
                f"{self.text} is a data folder without a table {wanted}",
                hint=f"{did_you_mean(wanted, names)}Its tables: {_listed(names)}.",
            )
        self.database, self.table = tables[wanted]
        self.base += f"/{uri.encode(self.database)}"
        return "" if self._named else self.table

    def read_with(self, reader: TableReader) -> None:
        """Take the engine that reads the folder."""
        self._reader = reader

    def ask(self, text: str) -> list[list[Any]]:
        assert self._reader is not None  # noqa: S101 - a session gives one
        try:
            return self._reader.ask(text)
        except EngineError as error:
            raise self._refused(error) from None

    def blocks(self, text: str) -> Iterator[bytes]:
        assert self._reader is not None  # noqa: S101 - a session gives one
        try:
            yield from self._reader.blocks(text)
        except EngineError as error:
            raise self._refused(error) from None

    def numbering(self, uuid: str) -> Mapping[str, str]:
        """See :class:`Tables`: as it was written down when rows were removed."""
        assert self._reader is not None  # noqa: S101 - a session gives one
        return self._reader.numbering(uuid)

    def _refused(self, error: EngineError) -> SourceError:
        return self.merged(error.message) or SourceError(
            f"cannot read {self.text}: {error.message}", hint=error.hint,
            transient=error.transient, code=error.code,
        )  # fmt: skip

    def _tables(self) -> dict[str, tuple[str, str]]:
        """Return database and table by the name for people, which has a dot behind another one."""
        found = {}
        for database in _entries(self.folder / "metadata"):
            named = unquote(database.name)
            if named in _NO_TABLES or not database.is_dir():
                continue
            before = "" if named == _DEFAULT else f"{named}."
            for entry in _entries(Path(database.path)):
                name = unquote(entry.name.removesuffix(".sql"))
                if entry.name.endswith(".sql") and not name.startswith(_OWN):
                    found[f"{before}{name}"] = named, name
        return found


def address_of(folder: Path, database: str = _DEFAULT, table: str = "") -> str:
    """Return the address of a data folder, or of one of its tables."""
    base = f"{SCHEME}://{uri.encode(str(folder))}"
    return with_table(base, "" if database == _DEFAULT else database, table) if table else base


def located(text: str) -> tuple[Path, tuple[str, str] | None]:
    """Return the data folder that a SOURCE argument names, and database and table behind it.

    Raises:
        UsageError: there is no data folder, or a parameter that is not known.
    """
    if uri.scheme_of(text) == uri.FILE:
        return _absolute(uri.file_path(text)), None
    at = uri.parse(text)
    path = f"{at.host}{at.path}".rstrip("/")
    for name in at.query:
        if name not in _PARAMETERS:
            raise UsageError(
                f"{SCHEME}:// has no parameter {name!r}",
                hint=f"{did_you_mean(name, _PARAMETERS)}Parameters: {', '.join(_PARAMETERS)}.",
            )
    # Empty where a name has a dot and is of the usual database.
    database, table = at.query.get("schema") or _DEFAULT, at.query.get("table", "")
    if not table and not is_data_folder_at(str(_absolute(path))):
        path, _, named = path.rpartition("/")
        before, dot, behind = named.partition(".")
        database, table = (before, behind) if dot else (database, named)
    # A host in front of the path would be written in small letters.
    if at.host not in ("", ".", "..", "~") or not is_data_folder_at(str(_absolute(path))):
        raise UsageError(
            f"{text} names no data folder of rowfall",
            hint=f"Write {SCHEME}:///path/of/the/folder/table, or the path of the folder alone.",
        )
    return _absolute(path), (database, table) if table else None


def _absolute(path: str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(path)))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
