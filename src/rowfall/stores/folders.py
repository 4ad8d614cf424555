"""Many tables of one folder, on a disk or in a bucket: each sub-folder is a table, or each file."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence

from rowfall.core import uri
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.tables import FoundTable
from rowfall.sources import open_source
from rowfall.sources.base import Source, Streamed
from rowfall.sources.compression import path_of
from rowfall.sources.databases import one_table
from rowfall.sources.many import SeparateTables
from rowfall.stores.objects import ObjectSource

# Folders that make their parent a table of a lake.
_LOGS = (("delta", "_delta_log"), ("iceberg", "metadata"))


class SubFolders(SeparateTables):
    """The sub-folders of a folder; files that lie in it directly belong to none of them."""

    _MOMENT = "files are read as they are; one that changes while it is read is read again"

    def __init__(self, text: str, options: Options) -> None:
        if set(text) & set("*?"):
            raise UsageError(
                f"{text} is a pattern, and --tables takes the folder whose sub-folders are tables",
                hint="Choose among them with --tables 'PATTERN'.",
            )
        self._typed, self._options = text, options
        self.text = uri.mask(text)
        self._lakes: dict[str, str] = {}
        self._beside = 0
        folder = uri.lake_address(text)
        self._local = uri.scheme_of(folder) == uri.FILE
        self._folder = uri.file_path(folder) if self._local else folder
        kind = _lake(os.path.expanduser(self._folder)) if self._local else ""
        if kind:
            raise one_table(self.text, f"{kind}+{self._folder}")

    def list_tables(self) -> Sequence[FoundTable]:
        if self._local:
            self._find_lakes()
        sizes: dict[str, int | None] = {}
        base = self._folder.rstrip("/") + "/"
        if uri.lake_address(self._typed) == self._typed:
            source = open_source([base], self._options)
            listing = source.listing()
            start = os.path.abspath(os.path.expanduser(base)) + "/" if self._local else base
            for index in range(len(listing)):
                name, slash, _ = listing.uri(index).removeprefix(start).partition("/")
                if not slash:
                    self._beside += 1
                elif name not in self._lakes:
                    size, before = listing.size(index), sizes.get(name, 0)
                    sizes[name] = None if size is None or before is None else before + size
        names = sorted({*sizes, *self._lakes})
        if not names and self._beside:
            raise SourceError(
                f"{self.text} has files and no sub-folders that hold some: it is one table",
                hint=f"Load it without --tables: rowfall load {self.text}",
            )
        return [FoundTable("", name, bytes=sizes.get(name)) for name in names]

    def _find_lakes(self) -> None:
        folder = os.path.expanduser(self._folder)
        if os.path.isfile(folder):
            raise one_table(self.text, self.text)
        if not os.path.isdir(folder):
            raise SourceError(
                f"there is no folder {self.text}", hint="Name one whose sub-folders hold files."
            )
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir() and (kind := _lake(entry.path)):
                    self._lakes[entry.name] = kind

    def address(self, table: FoundTable) -> str:
        path = f"{self._folder.rstrip('/')}/{table.name}"
        kind = self._lakes.get(table.name)
        if kind:
            return f"{kind}+{path}"
        return path if self._local else f"{path}/"

    def open(self, table: FoundTable, options: Options) -> Source:
        return open_source([self.address(table)], options)

    def remarks(self) -> Sequence[str]:
        if not self._beside:
            return ()
        are = "file lies" if self._beside == 1 else "files lie"
        return (
            f"{self._beside:,} {are} in no sub-folder and belong to no table: "
            "load them without --tables",
        )

    def close(self) -> None:
        """Do nothing: nothing is shared."""


class FileTables(SeparateTables):
    """The files of a source, each of which is a table: ``--table-per-file``."""

    _MOMENT = SubFolders._MOMENT

    def __init__(self, text: str, options: Options) -> None:
        self.text = uri.mask(text)
        self._options = options
        self._source = open_source([text], options)
        self._uris: dict[str, str] = {}

    def list_tables(self) -> Sequence[FoundTable]:
        """See :class:`rowfall.sources.many.TableSet`.

        Raises:
            UsageError: the source has no files.
        """
        listing = self._source.listing()
        files = {split.uri: split.size for split in listing.splits("")}
        if not isinstance(self._source, ObjectSource) or listing.continued:
            raise UsageError(
                f"--table-per-file is for files, and {self.text} has none",
                hint="Tables of a database are loaded with --tables '*'.",
            )
        names = {file: _stem(file) for file in files}
        twice = {name for name, count in Counter(names.values()).items() if count > 1}
        for file, name in names.items():
            if name in twice:  # then its folder tells it from the others
                names[file] = f"{_plain(file.rpartition('/')[0].rpartition('/')[2])}_{name}"
        found = [FoundTable("", names[file], bytes=size) for file, size in files.items()]
        for file, name in names.items():
            if self._uris.setdefault(name, file) != file:
                raise UsageError(
                    f"{self._uris[name]} and {file} would both be the table {name}",
                    hint="Load one of them alone, with --table NAME.",
                )
        return found

    def address(self, table: FoundTable) -> str:
        return self._uris[table.name]

    def open(self, table: FoundTable, options: Options) -> Source:
        return open_source([self.address(table)], options)

    def close(self) -> None:
        """End what the listing needed."""
        if isinstance(self._source, Streamed):
            self._source.close()


_OF_FILE = regex(r"\.(gz|gzip|zst|zstd|lz4|xz|bz2)\Z", re.I)


def _stem(file: str) -> str:
    """Return the name of a file without its folders and extensions, as a name of a table."""
    name = _OF_FILE.sub("", path_of(file).replace("::", "/").rpartition("/")[2])
    return _plain(os.path.splitext(name)[0] or name)


def _plain(text: str) -> str:
    name = re.sub(r"\W+", "_", text).strip("_") or "t"
    return f"t_{name}" if name[0].isdigit() else name


def _lake(folder: str) -> str:
    """Return the kind of lake table that a folder is; "" for none."""
    for kind, name in _LOGS:
        log = os.path.join(folder, name)
        if not os.path.isdir(log):
            continue
        if kind == "delta" or any(each.endswith(".metadata.json") for each in os.listdir(log)):
            return kind
    return ""
