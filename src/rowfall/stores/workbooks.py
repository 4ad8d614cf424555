"""Workbooks of Excel and of others as sources: one sheet of each file is a table.

``book.xlsx`` is its only sheet that holds anything; ``book.xlsx::Sales`` and ``--sheet`` name one.
The files themselves are found and read by the source of their scheme. A child process reads the
sheet (:mod:`rowfall.stores.sheet_reader`), once to look at all values and once to write its rows.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import IO, Any, cast

from rowfall.core import environment, extras, uri
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.listing import Listing, Split
from rowfall.core.machine import total_memory
from rowfall.core.masked import Secret
from rowfall.core.model import Column, Encoding, Kind, Schema, TableLayout
from rowfall.core.options import Options
from rowfall.core.tables import FoundTable
from rowfall.core.type_names import text_columns
from rowfall.core.units import memory, parse_size
from rowfall.sources.base import Source
from rowfall.sources.compression import path_of
from rowfall.sources.many import WORKBOOK, SeparateTables
from rowfall.sources.pipes import Streams
from rowfall.stores import spool
from rowfall.stores.objects import ObjectSource
from rowfall.stores.sheet_reader import TYPES, SheetFacts, SheetRequest, kind_of_column

MARK = "::"
"""Between a workbook and a sheet, as between an archive and a member."""
_LOOKED_AT = 16
"""Workbooks whose values are looked at: each is read a second time when it is loaded."""
_OWN = 100 << 20  # of the memory, what this process takes beside that which reads a sheet
_READ = 1 << 18
_NO_SIGN = ("format", "compression", "delimiter", "quote", "escape", "comment", "encoding",
            "decimal", "thousands", "dates", "blanks")  # fmt: skip


def split_name(text: str) -> tuple[str, str] | None:
    """Return a workbook and the name of its sheet ("" for none); None for no workbook."""
    book, mark, sheet = text.rpartition(MARK)
    if mark and WORKBOOK.search(path_of(book)):
        return book, sheet
    return (text, "") if WORKBOOK.search(path_of(text)) else None


def open_workbooks(
    texts: Sequence[str], options: Options, opens: Callable[[Sequence[str], Options], ObjectSource]
) -> Workbooks | None:
    """Open the source of the workbooks that texts name; None where none of them is one.

    Raises:
        UsageError: workbooks and other files at once, several sheets, or options of text.
    """
    names = [split_name(text) for text in texts]
    given = [name for name in names if name is not None]
    if not given:
        return None
    if len(given) < len(names):
        raise UsageError(
            f"one load reads workbooks or other files, but these differ: {uri.mask(given[0][0])}, "
            f"{uri.mask(texts[names.index(None)])}",
            hint="Run one load after the other into the same table.",
        )
    sheets = {sheet for _, sheet in given if sheet} | ({options.sheet} if options.sheet else set())
    if len(sheets) > 1:
        raise UsageError(
            f"one load reads one sheet, but these differ: {', '.join(sorted(sheets))}",
            hint="Run one load after the other into the same table.",
        )
    for name in _NO_SIGN:
        if getattr(options, name) is not None:
            raise UsageError(
                f"--{name} is for text, and {uri.mask(texts[0])} is a workbook",
                hint="Leave it out.",
            )
    if importlib.util.find_spec("python_calamine") is None:
        raise extras.missing("the reader of workbooks is not installed", "excel")
    files = opens([book for book, _ in given], replace(options, null=None, header=None))
    return Workbooks(files, options, next(iter(sheets), ""))


class Workbooks(Streams):
    """One sheet of each of some workbooks.

    Args:
        files: the source of the workbooks.
    """

    replayable = True
    number = "row"
    fds: tuple[int, ...] = ()

    def __init__(self, files: ObjectSource, options: Options, sheet: str) -> None:
        super().__init__()
        self._files, self._options, self._sheet = files, options, sheet
        self.text = files.text + (f"{MARK}{sheet}" if sheet else "")
        self.remote = files.remote
        self.secrets: tuple[Secret, ...] = getattr(files, "secrets", ())
        self.notes: tuple[str, ...] = ()
        self.made: Schema | None = None
        self._facts: dict[str, SheetFacts] = {}
        self._books: dict[str, Split] = {}
        self._copies: dict[str, IO[bytes]] = {}
        self._guard = threading.Lock()

    def listing(self) -> Listing:
        """Return one split for each workbook; its version is that of the file.

        Raises:
            SourceError: none is there, or one of the first cannot be read.
        """
        found, listing = self._files.listing(), Listing()
        for split in found.splits(""):
            name = f"{split.uri}{MARK}{self._sheet}" if self._sheet else split.uri
            self._books[name] = split
            listing.add(name, split.version, split.size)
        self._describe()
        return listing

    def encoding(self, listing: Listing) -> Encoding:
        """See :class:`rowfall.sources.base.Source`; the child writes TSV."""
        names = tuple(name for name, _ in self._columns)
        return Encoding(
            "TSVWithNames", "none", Kind.TEXT, delimiter="\t", header=names, renamed=True,
            names=names, fields=len(names),
        )  # fmt: skip

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        """Return no split: all values were looked at."""
        return []

    def stream(self, split: Split) -> Iterator[bytes]:
        """Give the rows of a workbook as TSV with a header.

        Raises:
            SourceError: it cannot be read, or a cell fits no value of its column.
        """
        child = self._start(split.uri, self._columns)
        try:
            assert child.stdout is not None  # noqa: S101 - it is a pipe
            while piece := child.stdout.read(_READ):
                yield piece
            self._ended(split.uri, child)
        finally:
            child.kill()
            child.communicate()

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        books = {self._books[split.uri].uri: split for split in splits}
        files = [self._books[split.uri] for split in splits]
        said = [(books[file.uri], text) for file, text in self._files.changed(files)]
        return said or super().changed(splits)

    def numbers(self, split: Split, lines: Sequence[int]) -> list[int]:
        """See :class:`rowfall.sources.base.Numbered`: rows of the sheet."""
        facts = self._look(split.uri)
        found, number, blank = [], facts.first, set(facts.blank)
        for place in range(1, max(lines)):
            while number in blank:
                number += 1
            if place + 1 in lines:
                found.append(number)
            number += 1
        return found

    def close(self) -> None:
        """Remove pipes and copies."""
        super().close()
        with self._guard:
            for copy in self._copies.values():
                copy.close()
            self._copies.clear()

    def sheets(self) -> list[FoundTable]:
        """Return the sheets of the first workbook, see :class:`Sheets`."""
        split = next(iter(self._files.listing().splits("")))
        self._books[split.uri] = split
        try:
            facts = self._look(split.uri)
        except _SeveralSheetsError as error:
            return [FoundTable("", name) for name in error.names]
        return [FoundTable("", facts.sheet)]

    # --- looking at them --------------------------------------------------------------------------

    @property
    def _columns(self) -> tuple[tuple[str, str], ...]:
        if self.made is None:
            self._describe()
        return self._found

    def _describe(self) -> None:
        """Look at the values of some workbooks, from all over the listing."""
        names = list(self._books)
        step = max(1, len(names) // _LOOKED_AT)
        kinds: dict[str, Counter[str]] = {}
        notes: list[str] = []
        for name in names[::step]:
            facts = self._look(name)
            if kinds and sorted(kinds) != sorted(facts.names):
                odd = sorted(set(kinds) ^ set(facts.names))
                raise SourceError(
                    f"{name} has other columns than {names[0]}: {', '.join(odd)}",
                    hint="Load workbooks of different columns on their own.",
                )
            for column, own in zip(facts.names, facts.kinds, strict=True):
                kinds.setdefault(column, Counter()).update(own)
            notes += [note if len(names) == 1 else f"{name}: {note}" for note in facts.notes]
        texts = text_columns(self._options.type)
        self._found = tuple(
            (name, "text" if name in texts else kind_of_column(own)) for name, own in kinds.items()
        )
        self.notes = tuple(notes)
        self.made = Schema(
            tuple(
                Column(name, f"Nullable({TYPES[kind]})", f"{kind}s in the sheet", name)
                for name, kind in self._found
            ),
            layout=TableLayout(),
            row_bytes=float(16 * len(self._found)),
        )

    def _look(self, name: str) -> SheetFacts:
        """Return what the sheet of a workbook holds."""
        if name not in self._facts:
            child = self._start(name, ())
            out, said = child.communicate()
            self._check(name, child.returncode, said)
            found: dict[str, Any] = json.loads(out)
            held = {k: tuple(v) if isinstance(v, list) else v for k, v in found.items()}
            self._facts[name] = SheetFacts(**cast("Any", held))
        return self._facts[name]

    def _start(self, name: str, columns: Sequence[tuple[str, str]]) -> subprocess.Popen[bytes]:
        options = self._options
        most = parse_size(options.memory) if options.memory else total_memory() // 2
        asked = SheetRequest(
            self._path(name), self._sheet,
            None if options.header is None else options.header.lower() in ("yes", "true"),
            options.skip_lines,
            tuple(filter(None, map(str.strip, (options.columns or "").split(",")))),
            tuple(filter(None, (options.null or "").split(","))), tuple(columns), most - _OWN,
        )  # fmt: skip
        child = subprocess.Popen(
            [sys.executable, "-m", "rowfall.stores.sheet_reader"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment.of_child(internet=False),
        )  # fmt: skip
        assert child.stdin is not None  # noqa: S101 - it is a pipe
        child.stdin.write(json.dumps(asdict(asked)).encode())
        child.stdin.close()
        child.stdin = None
        return child

    def _ended(self, name: str, child: subprocess.Popen[bytes]) -> None:
        _, said = child.communicate()
        self._check(name, child.returncode, said)

    def _check(self, name: str, code: int, said: bytes) -> None:
        """Check how the child has ended.

        Raises:
            SourceError: it could not read the workbook, or not within its memory.
        """
        if code == 0:
            return
        try:
            found: dict[str, Any] = json.loads(said.splitlines()[-1])
        except (ValueError, IndexError):
            if code == 1:
                raise SourceError(f"cannot read {name}: {said.decode()[-300:]}") from None
            asked = self._options.memory or memory(total_memory() // 2)
            raise SourceError(
                f"cannot read {name}: the sheet takes more than the {asked} of --memory",
                hint="A sheet is read as a whole. Save it as CSV, or give it more: --memory",
            ) from None
        if found["sheets"]:
            raise _SeveralSheetsError(name, found["error"], found["sheets"])
        if found["usage"]:
            raise UsageError(f"{name}: {found['error']}", hint=found["hint"])
        raise SourceError(f"{name}: {found['error']}", hint=found["hint"])

    def _path(self, name: str) -> str:
        """Return the path of a workbook here; of one that is elsewhere a copy is made once."""
        book = self._books[name]
        if uri.scheme_of(book.uri) == uri.FILE and os.path.isfile(path := uri.file_path(book.uri)):
            return path
        with self._guard:
            if name not in self._copies:
                copy = tempfile.NamedTemporaryFile(prefix="rowfall-sheet-", suffix=".book")  # noqa: SIM115
                self._copies[name] = copy
                self.notes = (*self.notes, spool.copy(self._files.pieces(book), copy, name))
            return self._copies[name].name


class _SeveralSheetsError(UsageError):
    """A workbook has several sheets that hold something, and none is named."""

    def __init__(self, book: str, why: str, names: Sequence[str]) -> None:
        self.names = names
        super().__init__(
            f"{book} {why}",
            hint=f"Name one: --sheet {shlex.quote(names[0])}, or load each into a table of its "
            f"own: rowfall load {shlex.quote(book)} --tables '*'",
        )


class Sheets(SeparateTables):
    """The sheets of one workbook as tables."""

    _MOMENT = "each sheet is read when its turn comes"

    def __init__(self, text: str, options: Options) -> None:
        from rowfall.sources import open_source

        self.text = uri.mask(text)
        self._typed, self._options = text, options
        self._opens = open_source

    def list_tables(self) -> Sequence[FoundTable]:
        source = cast("Workbooks", self._opens([self._typed], self._options))
        try:
            return source.sheets()
        finally:
            source.close()

    def address(self, table: FoundTable) -> str:
        return f"{self._typed}{MARK}{table.name}"

    def open(self, table: FoundTable, options: Options) -> Source:
        return self._opens([self.address(table)], options)

    def close(self) -> None:
        """See :class:`rowfall.sources.many.TableSet`."""
