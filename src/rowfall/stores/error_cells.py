"""Cells of workbooks that hold errors, or formulas nobody has calculated.

calamine gives both as empty cells, so they are looked for in the files of the workbook: XML of
.xlsx, records of .xlsb ([MS-XLSB] 2.1.4) and of .xls ([MS-XLS] 2.1.4, in the file system of
[MS-CFB]).
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from html import unescape

UNCALCULATED = "#UNCALCULATED"
"""In place of an error: a formula whose result the file does not hold."""

_X = rb"(?:\w+:)?"  # some programs write each name with its namespace
# A cell up to its end: what one has no result of has no value, either.
_CELL = re.compile(
    rb"<" + _X + rb"c\b([^>]*)(?<!/)>\s*"
    rb"(<" + _X + rb"f\b[^>]*/>|<" + _X + rb"f\b[^>]*>[^<]*</" + _X + rb"f>)?\s*"
    rb"(?:<" + _X + rb"v\b[^>]*/>|<" + _X + rb"v\b[^>]*>([^<]*)</" + _X + rb"v>)?\s*"
    rb"</" + _X + rb"c>"
)  # fmt: skip
_PLACE = re.compile(rb"""\br=["']([A-Z]+)(\d+)["']""")
_KIND = re.compile(rb"""\bt=["'](\w+)["']""")
_OVERLAP, _PIECE = 64 << 10, 4 << 20
CODES = {
    0x00: "#NULL!", 0x07: "#DIV/0!", 0x0F: "#VALUE!", 0x17: "#REF!", 0x1D: "#NAME?", 0x24: "#NUM!",
    0x2A: "#N/A", 0x2B: "#GETTING_DATA",
}  # fmt: skip

Cells = dict[tuple[int, int], str]
"""Errors by row and column, both from 0."""


def error_cells(path: str, sheet: str) -> tuple[Cells, bool]:
    """Return the cells of a sheet that hold errors; False: nobody can tell.

    Raises:
        ValueError: an error stands in a cell that does not say where it is.
    """
    try:
        if not zipfile.is_zipfile(path):
            with open(path, "rb") as file:
                return dict(_of_xls(file.read(), sheet)), True
        with zipfile.ZipFile(path) as book:
            names = set(book.namelist())
            if "content.xml" in names:
                return {}, True  # of ODS they come as their texts
            if "xl/workbook.bin" in names and (part := _part_of_xlsb(book, sheet)) in names:
                return dict(_of_xlsb(book.read(part))), True
            if "xl/workbook.xml" in names and (part := _part_of_xlsx(book, sheet)) in names:
                return _of_xlsx(book, part), True
    except (struct.error, IndexError, KeyError, UnicodeDecodeError):
        pass  # it is written in another way than the specifications say
    return {}, False


def _error(code: int) -> str:
    return CODES.get(code, f"#ERROR{code}!")


# --- .xlsx ----------------------------------------------------------------------------------------


def _of_xlsx(book: zipfile.ZipFile, part: str) -> Cells:
    found: Cells = {}
    with book.open(part) as file:
        rest = b""
        while piece := file.read(_PIECE):
            data = rest + piece
            if b't="e"' in data or b"t='e'" in data or b"<f" in data or b":f" in data:
                found |= dict(_in_xml(data))
            rest = data[-_OVERLAP:]
    return found


def _in_xml(data: bytes) -> Iterator[tuple[tuple[int, int], str]]:
    for cell in _CELL.finditer(data):
        named = _KIND.search(cell[1])
        kind = named[1] if named else b"n"
        if kind == b"e":
            error = unescape((cell[3] or b"").decode()) or UNCALCULATED
        elif cell[2] and not cell[3] and kind != b"str":  # that of a text may be empty
            error = UNCALCULATED
        else:
            continue
        place = _PLACE.search(cell[1])
        if place is None:
            raise ValueError(f"it holds {error} in a cell that does not say where it is")
        column = 0
        for letter in place[1]:
            column = column * 26 + letter - 64
        yield (int(place[2]) - 1, column - 1), error


def _part_of_xlsx(book: zipfile.ZipFile, sheet: str) -> str:
    """Return the name of the file that holds a sheet; "" for none."""
    listed = book.read("xl/workbook.xml").decode("utf-8", "replace")
    for tag in re.findall(r"<(?:\w+:)?sheet\b[^>]*>", listed):
        name, key = re.search(r'\bname="([^"]*)"', tag), re.search(r'\b\w+:id="([^"]*)"', tag)
        if name and key and unescape(name[1]) == sheet:
            return _related(book, "xl/_rels/workbook.xml.rels", key[1])
    return ""


def _related(book: zipfile.ZipFile, rels: str, key: str) -> str:
    related = book.read(rels).decode("utf-8", "replace")
    for link in re.findall(r"<(?:\w+:)?Relationship\b[^>]*>", related):
        target = re.search(r'\bTarget="([^"]*)"', link)
        if f'Id="{key}"' in link and target:
            own = target[1]
            return own.lstrip("/") if own.startswith("/") else f"xl/{own}"
    return ""


# --- .xlsb ----------------------------------------------------------------------------------------

_ROW, _CELL_ERROR, _FORMULA_ERROR, _BUNDLE_SHEET = 0, 3, 11, 156


def _xlsb_records(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Give the type of each record, and where it begins and ends."""
    at, last = 0, len(data)
    while at < last:
        kind = data[at]
        at += 1
        if kind & 0x80:
            kind = kind & 0x7F | (data[at] & 0x7F) << 7
            at += 1
        size = shift = 0
        for shift in (0, 7, 14, 21):
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        yield kind, at, at + size
        at += size


def _of_xlsb(data: bytes) -> Iterator[tuple[tuple[int, int], str]]:
    row = 0
    for kind, at, _ in _xlsb_records(data):
        if kind == _ROW:
            (row,) = struct.unpack_from("<I", data, at)
        elif kind in (_CELL_ERROR, _FORMULA_ERROR):
            column, _, code = struct.unpack_from("<IIB", data, at)
            yield (row, column), _error(code)


def _part_of_xlsb(book: zipfile.ZipFile, sheet: str) -> str:
    data = book.read("xl/workbook.bin")
    for kind, at, _ in _xlsb_records(data):
        if kind == _BUNDLE_SHEET:
            key, at = _wide(data, at + 8)
            if _wide(data, at)[0] == sheet:
                return _related(book, "xl/_rels/workbook.bin.rels", key)
    return ""


def _wide(data: bytes, at: int) -> tuple[str, int]:
    (count,) = struct.unpack_from("<I", data, at)
    end = at + 4 + 2 * count
    return data[at + 4 : end].decode("utf-16-le"), end


# --- .xls -----------------------------------------------------------------------------------------

_CFB = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_LAST_SECTOR = 0xFFFF_FFFA
"""From here on numbers are no sectors."""
_FORMULA, _EOF, _SHEET, _BOOL_ERR, _BOF = 0x0006, 0x000A, 0x0085, 0x0205, 0x0809


def _of_xls(data: bytes, sheet: str) -> Iterator[tuple[tuple[int, int], str]]:
    book = _stream(data) if data.startswith(_CFB) else data
    at = dict(_xls_sheets(book))[sheet]
    depth = 0  # charts in a sheet have records of their own
    while True:
        kind, size = struct.unpack_from("<HH", book, at)
        at += 4
        depth += (kind == _BOF) - (kind == _EOF)
        if depth == 0:
            return
        if kind == _BOOL_ERR and depth == 1:
            row, column, _, code, is_error = struct.unpack_from("<HHHBB", book, at)
            if is_error:
                yield (row, column), _error(code)
        elif kind == _FORMULA and depth == 1:
            row, column, _, what, _, code, _, _, end = struct.unpack_from("<HHHBBBBHH", book, at)
            if end == 0xFFFF and what == 2:  # of a text it is 0, of a boolean 1
                yield (row, column), _error(code)
        at += size


def _xls_sheets(book: bytes) -> Iterator[tuple[str, int]]:
    """Give names of sheets, and where their records begin."""
    at = 0
    _, size, version = struct.unpack_from("<HHH", book, at)
    kind = 0
    while kind != _EOF:
        kind, size = struct.unpack_from("<HH", book, at)
        at += 4
        if kind == _SHEET:
            begin, count, wide = *struct.unpack_from("<I", book, at), book[at + 6], book[at + 7]
            if version < 0x0600:  # BIFF5 has no byte for that
                yield book[at + 7 : at + 7 + count].decode("cp1252"), begin
            elif wide & 1:
                yield book[at + 8 : at + 8 + 2 * count].decode("utf-16-le"), begin
            else:
                yield book[at + 8 : at + 8 + count].decode("latin-1"), begin
        at += size


def _stream(data: bytes) -> bytes:
    """Return the stream of the workbook in a compound file."""
    size, small = 1 << data[30], 1 << data[32]
    first_folder, _, least, first_small = struct.unpack_from("<IIII", data, 48)
    more, = struct.unpack_from("<I", data, 68)  # fmt: skip
    tables = [n for n in struct.unpack_from("<109I", data, 76) if n < _LAST_SECTOR]
    while more < _LAST_SECTOR and len(tables) * size <= len(data):
        *own, more = struct.unpack_from(f"<{size // 4}I", data, (more + 1) * size)
        tables += [n for n in own if n < _LAST_SECTOR]
    following: list[int] = []
    for sector in tables:
        following += struct.unpack_from(f"<{size // 4}I", data, (sector + 1) * size)

    def chain(sector: int) -> bytes:
        parts: list[bytes] = []
        while sector < _LAST_SECTOR and len(parts) <= len(following):
            parts.append(data[(sector + 1) * size : (sector + 2) * size])
            sector = following[sector]
        return b"".join(parts)

    folder = chain(first_folder)
    entries: dict[str, tuple[int, int]] = {}
    for at in range(0, len(folder), 128):
        letters = struct.unpack_from("<H", folder, at + 64)[0]
        name = folder[at : at + max(letters - 2, 0)].decode("utf-16-le")
        entries[name] = struct.unpack_from("<II", folder, at + 116)
    begin, length = entries.get("Workbook") or entries["Book"]
    if length >= least:
        return chain(begin)[:length]
    held, links = chain(entries["Root Entry"][0]), chain(first_small)
    parts: list[bytes] = []
    while begin < _LAST_SECTOR and len(parts) * small < length:
        parts.append(held[begin * small : (begin + 1) * small])
        (begin,) = struct.unpack_from("<I", links, begin * 4)
    return b"".join(parts)[:length]
