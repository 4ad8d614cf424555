"""Cells of workbooks that hold errors: their places in files of each format."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from rowfall.stores.error_cells import UNCALCULATED, error_cells

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
KEY = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def xlsx(path: Path, rows: str, *, prefix: str = "") -> Path:
    """Write a workbook whose only sheet, S, has these rows."""
    p, space = prefix, f"xmlns:{prefix[:-1]}" if prefix else "xmlns"
    with zipfile.ZipFile(path, "w") as book:
        book.writestr(
            "xl/workbook.xml",
            f'<{p}workbook {space}="{MAIN}" xmlns:r="{KEY}"><{p}sheets><{p}sheet name="S" '
            f'sheetId="1" r:id="r1"/></{p}sheets></{p}workbook>',
        )
        _link(book, "xml")
        book.writestr(
            "xl/worksheets/sheet1.xml",
            f'<{p}worksheet {space}="{MAIN}"><{p}sheetData>{rows}</{p}sheetData></{p}worksheet>',
        )
    return path


def _link(book: zipfile.ZipFile, kind: str) -> None:
    for file, type_, target in (
        (f"xl/_rels/workbook.{kind}.rels", "worksheet", f"worksheets/sheet1.{kind}"),
        ("_rels/.rels", "officeDocument", f"xl/workbook.{kind}"),
    ):
        book.writestr(
            file,
            '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
            f'<Relationship Id="r1" Type="{KEY}/{type_}" Target="{target}"/></Relationships>',
        )


def xlsb(path: Path) -> Path:
    """Write a sheet S: n, 5 and the error of a formula, one below the other."""

    def record(kind: int, data: bytes = b"") -> bytes:
        head = bytes([kind]) if kind < 128 else bytes([kind & 127 | 128, kind >> 7])
        return head + bytes([len(data)]) + data

    def wide(text: str) -> bytes:
        return struct.pack("<I", len(text)) + text.encode("utf-16-le")

    def row(number: int) -> bytes:
        return record(0, struct.pack("<IIHBBBI", number, 0, 300, 0, 0, 0, 0))

    cell = struct.pack("<II", 0, 0)
    with zipfile.ZipFile(path, "w") as book:
        sheet = record(156, struct.pack("<II", 0, 1) + wide("r1") + wide("S"))
        book.writestr(
            "xl/workbook.bin", record(131) + record(143) + sheet + record(144) + record(132)
        )
        _link(book, "bin")
        book.writestr(
            "xl/worksheets/sheet1.bin",
            record(129) + record(148, struct.pack("<IIII", 0, 2, 0, 0)) + record(145)
            + row(0) + record(6, cell + wide("n")) + row(1) + record(5, cell + struct.pack("<d", 5))
            + row(2) + record(11, cell + bytes([0x2A]) + bytes(10)) + record(146) + record(130),
        )  # fmt: skip
    return path


def xls(path: Path) -> Path:
    """Write a sheet S: n, 5 and two errors, one below the other; and a chart in it."""

    def record(kind: int, data: bytes = b"") -> bytes:
        return struct.pack("<HH", kind, len(data)) + data

    begin = record(0x0809, struct.pack("<HHHHII", 0x0600, 0x0010, 0, 0, 0, 0))
    first = record(0x0809, struct.pack("<HHHHII", 0x0600, 0x0005, 0, 0, 0, 0))
    end = record(0x000A)
    at = len(first) + 4 + 9 + len(end)
    book = first + record(0x0085, struct.pack("<IBBBB", at, 0, 0, 1, 0) + b"S") + end + begin
    book += record(0x0200, struct.pack("<IIHHH", 0, 4, 0, 1, 0))
    book += record(0x0204, struct.pack("<HHHHB", 0, 0, 0, 1, 0) + b"n")
    book += record(0x0203, struct.pack("<HHHd", 1, 0, 0, 5))
    book += begin + record(0x0205, struct.pack("<HHHBB", 9, 0, 0, 7, 1)) + end
    book += record(0x0205, struct.pack("<HHHBB", 2, 0, 0, 7, 1))
    book += record(0x0205, struct.pack("<HHHBB", 3, 0, 0, 1, 0))  # the value true
    result = struct.pack("<BBBBHH", 2, 0, 0x2A, 0, 0, 0xFFFF)
    book += record(0x0006, struct.pack("<HHH", 4, 0, 0) + result + bytes(8)) + end
    book = book.ljust(4096, b"\0")
    none, last = 0xFFFF_FFFF, 0xFFFF_FFFE
    table = [0xFFFF_FFFD, last, *range(3, 10), last]
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    head += struct.pack("<HHHHH6xIIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, 1, 1, 0, 4096, last, 0,
                        last, 0, 0)  # fmt: skip
    head += struct.pack("<108I", *[none] * 108)

    def entry(name: str, kind: int, child: int, start: int, size: int) -> bytes:
        letters = name.encode("utf-16-le")
        return letters.ljust(64, b"\0") + struct.pack(
            "<HBBIII36xIQ", len(letters) + 2, kind, 1, none, none, child, start, size
        )

    folder = entry("Root Entry", 5, 1, last, 0) + entry("Workbook", 2, none, 2, 4096)
    fat = struct.pack("<128I", *table, *[none] * (128 - len(table)))
    path.write_bytes(head + fat + folder.ljust(512, b"\0") + book)
    return path


@pytest.mark.parametrize("prefix", ["", "x:"])
def test_cells_of_xlsx(tmp_path: Path, prefix: str) -> None:
    """A shared formula does not reach to the next cell, nor a namespace hide one."""
    rows = (
        '<row r="1"><c r="A1" t="e"><f t="shared" si="0"/><v>#N/A</v></c>'
        '<c r="B1" t="e"><f>1/0</f><v>#DIV/0!</v></c><c r="C1"><f>A2</f><v>12</v></c></row>'
        '<row r="2"><c r="A2"><f>B2+1</f></c><c r="B2"><f>1</f><v/></c><c r="C2"><f>2</f><v></v>'
        '</c><c r="D2" t="str"><f>E2</f><v></v></c><c r="AA2"><v>3</v></c><c r="AB2"/></row>'
    )
    rows = rows.replace("</", f"</{prefix}")
    for tag in "cfv":
        rows = rows.replace(f"<{tag}>", f"<{prefix}{tag}>").replace(f"<{tag} ", f"<{prefix}{tag} ")
        rows = rows.replace(f"<{tag}/", f"<{prefix}{tag}/")
    rows = rows.replace("<row", f"<{prefix}row")
    found, told = error_cells(str(xlsx(tmp_path / "a.xlsx", rows, prefix=prefix)), "S")
    assert told
    assert found == {
        (0, 0): "#N/A", (0, 1): "#DIV/0!", (1, 0): UNCALCULATED, (1, 1): UNCALCULATED,
        (1, 2): UNCALCULATED,
    }  # fmt: skip


def test_a_cell_without_a_place(tmp_path: Path) -> None:
    path = xlsx(tmp_path / "a.xlsx", '<row><c t="e"><v>#N/A</v></c></row>')
    with pytest.raises(ValueError, match="#N/A in a cell that does not say where"):
        error_cells(str(path), "S")


def test_cells_of_older_workbooks(tmp_path: Path) -> None:
    """Records of .xlsb and of .xls; those of a chart in a sheet are others'."""
    assert error_cells(str(xlsb(tmp_path / "a.xlsb")), "S") == ({(2, 0): "#N/A"}, True)
    path = xls(tmp_path / "a.xls")
    assert error_cells(str(path), "S") == ({(2, 0): "#DIV/0!", (4, 0): "#N/A"}, True)
    assert error_cells(str(path), "T") == ({}, False)
    (tmp_path / "half.xls").write_bytes(path.read_bytes()[:1600])
    assert error_cells(str(tmp_path / "half.xls"), "S")[1] is False
