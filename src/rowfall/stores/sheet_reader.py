"""The child process that reads one sheet of a workbook: ``python -m rowfall.stores.sheet_reader``.

A sheet is held in memory as a whole, and a workbook of some kB may ask for all there is: so it is
read in a process of its own, whose memory is limited. It gets a request as JSON and writes what the
sheet holds as JSON, or its rows as TSV. What is wrong goes to stderr as JSON.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, field
from datetime import date, datetime, time, timedelta
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.header_line import unique_names
from rowfall.core.machine import limit_memory
from rowfall.core.units import counted
from rowfall.stores.error_cells import CODES, UNCALCULATED, error_cells

TYPES = {
    "integer": "Int64", "number": "Float64", "boolean": "Bool", "day": "Date32",
    "moment": "DateTime64(3, 'UTC')", "text": "String", "time of day": "String",
    "duration": "String",
}  # fmt: skip
"""Kinds of values, as ClickHouse has them."""
_WIDENS = (({"integer", "number"}, "number"), ({"day", "moment"}, "moment"))
# Rows among which the header is looked for: more above it is another kind of document.
_LOOKED_AT = 100
_TOTAL = re.compile(
    r"(grand |sub ?)?totals?\b|sum\b|gesamt|summe\b|insgesamt|total g", re.IGNORECASE
)
_ERRORS = frozenset((*CODES.values(), "#SPILL!", "#CALC!"))
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
_SHOWN = 60
# Sheets that a message names: a workbook may have thousands.
_NAMED = 20
_ROUNDED = 1 << 53
"""From here on a float does not hold each integer, and a workbook has floats alone."""


@dataclass(frozen=True, slots=True)
class SheetRequest:
    """The question to the child.

    Attributes:
        sheet: name or number from 1; "" for the only one that holds anything.
        header: the table has one; None to look. ``skip``: rows above it or the first row.
        nulls: texts that mean no value, errors among them.
        columns: name and kind of those that are written; () to describe the sheet.
        memory: bytes that the process may take besides what it has when it begins.
    """

    path: str
    sheet: str = ""
    header: bool | None = None
    skip: int | None = None
    names: tuple[str, ...] = ()
    nulls: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    memory: int = 0


@dataclass(frozen=True, slots=True)
class SheetFacts:
    """The rows of a sheet.

    Attributes:
        names: of the columns; ``kinds``: of each how many values are of which kind.
        first: row of the sheet, from 1, below the header; ``blank``: rows below that hold nothing.
        rows: that are loaded. ``notes``: sentences for the user.
    """

    sheet: str
    names: tuple[str, ...]
    kinds: tuple[dict[str, int], ...]
    first: int
    rows: int
    blank: tuple[int, ...]
    notes: tuple[str, ...] = field(default_factory=tuple)


class SheetError(Exception):
    """A workbook that cannot be read as asked.

    Attributes:
        hint: what helps. ``usage``: the user chooses. ``sheets``: that are to be chosen from.
    """

    def __init__(
        self, text: str, hint: str | None = None, *, usage: bool = False,
        sheets: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(text)
        self.hint, self.usage, self.sheets = hint, usage, sheets


def kind_of_column(kinds: Counter[str]) -> str:
    """Return the kind of a column: the one that takes all its values, or that of most."""
    for some, wider in _WIDENS:
        if kinds and set(kinds) <= some:
            return next(iter(kinds)) if len(kinds) == 1 else wider
    return kinds.most_common(1)[0][0] if kinds else "text"


def _fitting(kind: str) -> set[str]:
    """Return the kinds of values that a column of a kind takes."""
    if kind == "text":
        return set(TYPES)
    return {kind}.union(*(some for some, wider in _WIDENS if wider == kind))


def cell_name(row: int, column: int) -> str:
    """Return the name of a cell, as ``B7``; both from 0."""
    letters, rest = "", column + 1
    while rest:
        rest, letter = divmod(rest - 1, 26)
        letters = chr(65 + letter) + letters
    return f"{letters}{row + 1}"


class _Sheet:
    """One sheet: its table, and the text of its cells."""

    def __init__(self, asked: SheetRequest) -> None:
        import python_calamine as calamine

        self.asked = asked
        try:
            book = calamine.CalamineWorkbook.from_path(asked.path)
        except calamine.PasswordError:
            raise SheetError(
                "it is protected by a password", "Save it without one, then load it."
            ) from None
        except (calamine.CalamineError, OSError, ValueError) as error:
            raise SheetError(f"no workbook can be read of it ({error})") from None
        self.name = self._chosen(book)
        try:
            sheet = book.get_sheet_by_name(self.name)
        except (calamine.CalamineError, ValueError) as error:
            raise SheetError(f"the sheet {self.name} cannot be read ({error})") from None
        self.low = sheet.start or (0, 0)
        self.sheet = sheet
        self.merged = sheet.merged_cell_ranges or []
        # calamine gives cells with errors as empty ones.
        try:
            self.errors, self.sees_errors = error_cells(asked.path, self.name)
        except ValueError as error:
            raise SheetError(f"sheet {self.name}: {error}", "Save it by Excel again.") from None
        self.notes: list[str] = []
        self._find_table()
        self._check_edge()

    def _chosen(self, book: Any) -> str:
        sheets = [meta for meta in book.sheets_metadata if "WorkSheet" in str(meta.typ)]
        names, wanted = [str(meta.name) for meta in sheets], self.asked.sheet
        if wanted in names:
            return wanted
        if wanted.isdigit() and 0 < int(wanted) <= len(names):
            return names[int(wanted) - 1]
        if wanted:
            raise SheetError(
                f"it has no sheet {wanted}", f"Its sheets: {_some(names)}.", usage=True
            )
        seen = [str(meta.name) for meta in sheets if "Visible" in str(meta.visible)]
        filled = {name: book.get_sheet_by_name(name).height for name in seen}
        filled = {name: rows for name, rows in filled.items() if rows}
        if not filled:
            raise SheetError("no sheet of it holds anything")
        if len(filled) > 1:
            shown = _some([f"{name} ({rows:,} rows)" for name, rows in filled.items()])
            raise SheetError(f"has several sheets: {shown}", sheets=tuple(filled))
        return next(iter(filled))

    # --- the table --------------------------------------------------------------------------------

    def _rows(self) -> Iterator[tuple[int, list[Any]]]:
        """Give the number of each row, from 0, and its cells."""
        return enumerate(self.sheet.iter_rows(), self.low[0])

    def _find_table(self) -> None:
        """Find the header, or the first row, and the columns that hold something."""
        head = [(n, row) for n, (_, row) in zip(range(_LOOKED_AT), self._rows(), strict=False)]
        filled = [sum(map(self._is_filled, row)) for _, row in head]
        if not any(filled):
            raise SheetError(f"the sheet {self.name} holds nothing")
        asked, at = self.asked, 0
        if asked.skip is not None:
            at = next(
                (n for n, count in enumerate(filled) if n + self.low[0] >= asked.skip and count), 0
            )
        else:
            # A title has a cell or two; the widest rows are those of the table.
            most = max(filled)
            at = next(n for n, count in enumerate(filled) if 2 * count > most)
        texts = [cell for cell in head[at][1] if self._is_filled(cell)]
        named = all(isinstance(cell, str) for cell in texts) and len(set(texts)) == len(texts)
        has_header = named if asked.header is None else asked.header
        if any(filled[:at]):
            rows = counted(at + self.low[0], "row")
            self.notes.append(
                f"sheet {self.name}: {rows} above the "
                f"{'header' if has_header else 'first row'} left out (--skip-lines N)"
            )
        self.first = at + has_header
        self.columns, self.names = self._named(head[at][1], has_header)
        if not has_header and asked.header is None:
            self.notes.append(f"sheet {self.name}: no header, as its first row holds values")

    def _named(self, row: Sequence[Any], has_header: bool) -> tuple[list[int], tuple[str, ...]]:
        used = [False] * len(row)
        for number, cells in enumerate(self.sheet.iter_rows()):
            if number >= self.first:
                for at, cell in enumerate(cells):
                    used[at] = used[at] or self._is_filled(cell)
        for row_, column in self.errors:
            if row_ >= self.first + self.low[0] and 0 <= column - self.low[1] < len(used):
                used[column - self.low[1]] = True
        names = [_text(cell).strip() if has_header else "" for cell in row]
        kept = [at for at in range(len(row)) if used[at] or names[at]]
        if gaps := sum(at not in kept for at in range(kept[0], kept[-1])):
            self.notes.append(
                f"sheet {self.name}: {counted(gaps, 'empty column')} between others left out; "
                "tables beside each other are loaded as one"
            )
        if has_header:
            at_row = self.first - 1 + self.low[0]
            for (top, left), (bottom, right) in self.merged:
                if top <= at_row <= bottom:
                    for at in range(left + 1 - self.low[1], right + 1 - self.low[1]):
                        names[at] = names[at] or names[left - self.low[1]]
            found = unique_names([names[at] for at in kept])
            odd = [f"{cell_name(at_row, at + self.low[1])} is {name}"
                   for at, name in zip(kept, found, strict=True) if names[at] != name]  # fmt: skip
            if odd:
                self.notes.append(f"names that are empty or stand twice: {', '.join(odd[:8])}")
        else:
            found = tuple(f"c{n + 1}" for n in range(len(kept)))
        if self.asked.names:
            if len(self.asked.names) != len(kept):
                raise SheetError(
                    f"--columns names {len(self.asked.names)} columns, the sheet {self.name} has "
                    f"{len(kept)}: {', '.join(found)}", usage=True,
                )  # fmt: skip
            found = self.asked.names
        return kept, tuple(found)

    def _check_edge(self) -> None:
        """Check that no cell with an error stands behind the cells that calamine sees.

        Raises:
            SheetError: one does: its row, or its column, would be left out.
        """
        bottom, right = self.sheet.end or (0, 0)
        for (row, column), error in self.errors.items():
            behind = row > bottom or column > right
            if behind and row >= self.first + self.low[0] and error not in self.asked.nulls:
                raise self._error(f"sheet {self.name}, cell {cell_name(row, column)}", error)

    def _is_filled(self, cell: Any) -> bool:
        return cell != "" and not (isinstance(cell, str) and cell.isspace())

    def _body(self) -> Iterator[tuple[int, list[Any]]]:
        """Give the rows of the table that hold something, with their numbers from 0."""
        wrong = {row for row, _ in self.errors}
        for number, row in self._rows():
            if number >= self.first + self.low[0] and (
                number in wrong or any(self._is_filled(row[at]) for at in self.columns)
            ):
                yield number, row

    # --- what is asked ----------------------------------------------------------------------------

    def describe(self) -> SheetFacts:
        """Look at all values."""
        kinds, rounded = [Counter[str]() for _ in self.columns], set[str]()
        blank, count, before, last = list[int](), 0, self.first + self.low[0] - 1, list[Any]()
        for number, row in self._body():
            blank += range(before + 2, number + 1)
            before, count, last = number, count + 1, row
            for own, at in zip(kinds, self.columns, strict=True):
                if (found := self._kind(row[at])) is not None:
                    own[found] += 1
                    if found == "number" and abs(row[at]) >= _ROUNDED:
                        rounded.add(self.names[self.columns.index(at)])
        words = [cell for cell in last if isinstance(cell, str) and _TOTAL.match(cell.strip())]
        if count > 1 and words:
            place = cell_name(before, last.index(words[0]) + self.low[1])
            self.notes.append(
                f"sheet {self.name}: the last row looks like totals ({words[0]!r} in {place}) and "
                "is loaded like the others"
            )
        if rounded:
            self.notes.append(
                f"sheet {self.name}: numbers of 16 digits and more are rounded, as Excel does, in "
                f"{', '.join(sorted(rounded))}"
            )
        if blank:
            self.notes.append(f"sheet {self.name}: {counted(len(blank), 'empty row')} left out")
        for name, own in zip(self.names, kinds, strict=True):
            if own[kind := kind_of_column(own)] and not (fitting := _fitting(kind)) >= set(own):
                odd = sum(count for other, count in own.items() if other not in fitting)
                self.notes.append(f"{odd} of {sum(own.values())} values of {name} are no {kind}s")
            if set(own) == {"text"} and self._numbers_as_text(name):
                self.notes.append(f"the column {name} holds numbers as text, and stays text")
        if not self.sees_errors:
            self.notes.append("cells with errors (#N/A) of this format look like empty ones: NULL")
        return SheetFacts(
            self.name, self.names, tuple(map(dict, kinds)), self.first + self.low[0] + 1, count,
            tuple(blank), tuple(self.notes),
        )  # fmt: skip

    def _numbers_as_text(self, name: str) -> bool:
        at = self.columns[self.names.index(name)]
        held = [row[at] for _, (_, row) in zip(range(_LOOKED_AT), self._body(), strict=False)]
        return all(_is_number(cell) for cell in held if cell != "")

    def _kind(self, cell: Any) -> str | None:
        if not self._is_filled(cell) or cell in self.asked.nulls or cell in _ERRORS:
            return None
        return _KINDS[type(cell)] if not isinstance(cell, float) else (
            "integer" if cell.is_integer() and abs(cell) < _ROUNDED else "number"
        )  # fmt: skip

    def write(self, out: Any) -> None:
        """Write the rows of the wanted columns as TSV with a header.

        Raises:
            SheetError: a column is not there, or a value might be taken for another one.
        """
        wanted = [name for name, _ in self.asked.columns]
        if sorted(wanted) != sorted(self.names):
            odd = [n for n in self.names if n not in wanted] or [
                n for n in wanted if n not in self.names
            ]
            raise SheetError(
                f"the sheet {self.name} has other columns than the first workbook: "
                f"{', '.join(odd)}",
                "Load workbooks of different columns on their own.",
            )
        places = [self.columns[self.names.index(name)] for name in wanted]
        kinds = [kind for _, kind in self.asked.columns]
        out.write("\t".join(name.translate(_ESCAPES) for name in wanted) + "\n")
        for number, row in self._body():
            texts = [self._cell(number, at, row[at], kind)
                     for at, kind in zip(places, kinds, strict=True)]  # fmt: skip
            out.write("\t".join(texts) + "\n")

    def _cell(self, row: int, at: int, cell: Any, kind: str) -> str:
        """Return a cell as a field of TSV."""
        error = self.errors.get((row, at + self.low[1])) if self.errors else None
        if error is None and isinstance(cell, str) and cell in _ERRORS:
            error = cell
        if error is not None and error not in self.asked.nulls:
            name = self.names[self.columns.index(at)]
            place = cell_name(row, at + self.low[1])
            raise self._error(f'sheet {self.name}, cell {place}, column "{name}"', error)
        if error is not None or not self._is_filled(cell) or cell in self.asked.nulls:
            return r"\N"
        found = self._kind(cell) or "text"
        if kind == "text" and found != "text":
            return _text(cell).translate(_ESCAPES)
        word = found == "text" and not _taken(cell)
        if found in _fitting(kind) or word or (found, kind) == ("number", "integer"):
            text = _text(cell) if kind != "moment" or type(cell) is not date else f"{cell} 00:00:00"
            return text.translate(_ESCAPES)
        raise self._wrong(row, at, f"{_text(cell)[:_SHOWN]!r} is {_A[found]}", kind)

    def _error(self, where: str, error: str) -> SheetError:
        option = f"load such cells as NULL: --null {_quoted(error)}"
        if error == UNCALCULATED:
            return SheetError(
                f"{where}: the file does not hold the result of its formula",
                f"Open it in Excel or LibreOffice and save it, or {option}",
            )
        return SheetError(f"{where}: {error} is an error", f"Correct the cell, or {option}")

    def _wrong(self, row: int, at: int, what: str, kind: str) -> SheetError:
        place = cell_name(row, at + self.low[1])
        name = self.names[self.columns.index(at)]
        hint = f"Correct the cell, or load the column as text: --type {_quoted(f'{name} String')}"
        return SheetError(f'sheet {self.name}, cell {place}, column "{name}": {what}, '
                          f"and most of the column are {kind}s", hint)  # fmt: skip


_KINDS = {
    int: "integer", float: "number", bool: "boolean", date: "day", datetime: "moment",
    str: "text", time: "time of day", timedelta: "duration",
}  # fmt: skip
_A = {kind: f"a {kind}" for kind in TYPES} | {"integer": "an integer"}


def _text(cell: Any) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < _ROUNDED else repr(cell)
    if isinstance(cell, timedelta):
        micros = abs(cell) // timedelta(microseconds=1)
        seconds, rest = divmod(micros, 1_000_000)
        text = f"{seconds // 3600}:{seconds % 3600 // 60:02}:{seconds % 60:02}"
        sign = "-" * (cell < timedelta())
        return sign + text + (f".{rest:06}".rstrip("0") if rest else "")
    return str(cell)


def _is_number(text: object) -> bool:
    try:
        float(str(text))
    except ValueError:
        return False
    return True


def _taken(text: str) -> bool:
    """Tell whether a reader might take a text for a value of another kind."""
    bare = text.strip().lower()
    return _is_number(text) or bare[:1].isdigit() or bare in ("true", "false")


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _some(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


# --- the program ----------------------------------------------------------------------------------


def main() -> int:
    """Read the request on stdin and answer it on stdout."""
    given = json.load(sys.stdin)
    given |= {name: tuple(map(tuple, given[name])) if name == "columns" else tuple(given[name])
              for name in ("names", "nulls", "columns")}  # fmt: skip
    asked = SheetRequest(**given)
    limit_memory(asked.memory)
    try:
        sheet = _Sheet(asked)
        if asked.columns:
            sheet.write(sys.stdout)
        else:
            json.dump(asdict(sheet.describe()), sys.stdout)
        sys.stdout.flush()
    except SheetError as error:
        json.dump({"error": str(error), **vars(error)}, sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    except MemoryError:
        return 2
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr] # a text file
    raise SystemExit(main())
