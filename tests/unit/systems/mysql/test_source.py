"""MySQL without a server: rows out of packets, types, ranges by estimates."""

from __future__ import annotations

import io
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.core.errors import SourceError
from rowfall.sources.key_ranges import (
    END,
)
from rowfall.systems.mysql.catalogue import DecimalDigits, MySQLColumn
from rowfall.systems.mysql.client import quote
from rowfall.systems.mysql.rows import BrokenPacketError, lines
from rowfall.systems.mysql.source import halve
from rowfall.systems.mysql.types import BYTES, TSV, column_of, columns_of
from rowfall.systems.mysql.wire import PacketError, ends

END_OF_ROWS = b"\x05\x00\x00\x09\xfe\x00\x00\x22\x00"
_LONGEST = (1 << 24) - 1


class Slow(io.BytesIO):
    """Gives few bytes at a time, as networks do."""

    def __init__(self, data: bytes, step: int) -> None:
        super().__init__(data)
        self.step = step

    def read1(self, size: int | None = -1, /) -> bytes:
        return self.read(self.step)


def packets(value: bytes) -> bytes:
    """A row of one value, in as many packets as it takes."""
    size = len(value)
    if size <= 250:
        body = bytes([size]) + value
    elif size < 1 << 16:
        body = b"\xfc" + size.to_bytes(2, "little") + value
    elif size < 1 << 24:
        body = b"\xfd" + size.to_bytes(3, "little") + value
    else:
        body = b"\xfe" + size.to_bytes(8, "little") + value
    found = b""
    for number in range(len(body) // _LONGEST + 1):
        part = body[number * _LONGEST :][:_LONGEST]
        found += len(part).to_bytes(3, "little") + bytes([number % 256]) + part
    return found


def read(data: bytes, step: int) -> bytes:
    return b"".join(lines(Slow(data, step), TSV))


_VALUES = st.lists(st.binary(max_size=300).map(lambda text: text.replace(b"\n", b"\r") + b"\n"))


def test_the_last_packet_in_binary_tells_how_rows_end() -> None:
    assert ends(b"\x00" * 50 + END_OF_ROWS)
    assert not ends(END_OF_ROWS + b"\x02\x00\x00\x07\x00\x00")
    assert not any(map(ends, (b"", b"\xff", END_OF_ROWS[:-1])))
    error = b"\xff\x25\x05#70100Query execution was interrupted"
    packed = len(error).to_bytes(3, "little") + b"\x09" + error
    with pytest.raises(PacketError, match=r"interrupted \(error 1317\)"):
        ends(b"\x00\x05" * 20 + packed)


@given(_VALUES, st.integers(1, 700))
def test_rows_come_out_of_packets_wherever_reads_end(values: list[bytes], step: int) -> None:
    data = b"".join(map(packets, values)) + END_OF_ROWS
    assert read(data, step) == b"".join(values)


@pytest.mark.parametrize("size", [1, 250, 251, 65_535, 65_536, 1 << 20, _LONGEST - 4,
                                  _LONGEST - 3, (1 << 24) + 7])  # fmt: skip
def test_long_rows(size: int) -> None:
    value = b"\xff\xfe" * (size // 2) + b"x" * (size % 2)
    value = value[: size - 1] + b"\n"
    data = packets(b"before\n") + packets(value) + packets(b"behind\n") + END_OF_ROWS
    assert read(data, 1 << 18) == b"before\n" + value + b"behind\n"


@given(_VALUES, st.integers(1, 700), st.integers(0))
def test_an_answer_that_ends_early_is_no_end(values: list[bytes], step: int, cut: int) -> None:
    data = b"".join(map(packets, values)) + END_OF_ROWS
    with pytest.raises(BrokenPacketError):
        read(data[: cut % len(data)], step)


def test_an_error_behind_rows() -> None:
    said = b"\xff\x25\x05#70100Query execution was interrupted"
    data = packets(b"1\n") + len(said).to_bytes(3, "little") + b"\x02" + said
    got: list[bytes] = []
    with pytest.raises(PacketError, match="interrupted") as error:
        got.extend(lines(Slow(data, 100), TSV))
    assert got == [b"1\n"]
    assert error.value.number == 1317


@given(st.lists(st.lists(st.none() | st.text(), min_size=1), max_size=20), st.integers(1, 90))
def test_fields_between_bytes_become_tsv(rows: list[list[str | None]], step: int) -> None:
    def packed(row: list[str | None]) -> bytes:
        return b"\xff".join(b"\xfeN" if f is None else f.encode() for f in row) + b"\xfd"

    def written(field: str | None) -> str:
        if field is None:
            return "\\N"
        for plain, letter in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
            field = field.replace(plain, letter)
        return field

    data = b"".join(packets(packed(row)) for row in rows) + END_OF_ROWS
    expected = "".join("\t".join(map(written, row)) + "\n" for row in rows)
    assert b"".join(lines(Slow(data, step), BYTES)) == expected.encode()


def test_null_is_no_line() -> None:
    with pytest.raises(BrokenPacketError, match="not a row"):
        read(packets(b"1\n") + b"\x01\x00\x00\x02\xfb" + END_OF_ROWS, 100)


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "more", "type_"),
    [
        ("tinyint", {"whole": "tinyint(1)"}, "Int8"),
        ("int", {"whole": "int(10) unsigned"}, "UInt32"),
        ("int", {"whole": "int(5) zerofill"}, "UInt32"),
        ("bigint", {"whole": "bigint(20) unsigned"}, "UInt64"),
        ("mediumint", {}, "Int32"),
        ("decimal", {"decimal": DecimalDigits(65, 30)}, "Decimal(65, 30)"),
        ("float", {}, "Float32"),
        ("bit", {"decimal": DecimalDigits(1)}, "UInt8"),
        ("bit", {"decimal": DecimalDigits(33)}, "UInt64"),
        ("binary", {"length": 16}, "FixedString(16)"),
        ("enum", {"whole": "enum('a','b''c')"}, r"Enum8('' = 0, 'a' = 1, 'b\'c' = 2)"),
        ("enum", {"whole": f"enum({','.join(map(quote, map(str, range(200))))})"}, "Enum16("),
        ("datetime", {"digits": 6}, "DateTime64(6, 'UTC')"),
        ("timestamp", {}, "DateTime('UTC')"),
        ("uuid", {}, "UUID"),
        ("time", {}, "String"),
    ],
)
def test_types(kind: str, more: dict[str, Any], type_: str) -> None:
    given_ = {"whole": kind, **more}
    found = column_of(MySQLColumn("c", kind, nullable=False, **given_), TSV)
    assert found is not None
    assert found.type.startswith(type_)
    assert TSV.null not in found.select
    null = column_of(MySQLColumn("c", kind, nullable=True, **given_), TSV)
    assert null is not None
    assert null.type == f"Nullable({found.type})"
    assert TSV.null in null.select


def test_types_without_a_counterpart_are_named_with_a_cast() -> None:
    columns = [MySQLColumn("id", "int", "int(11)", False),
               MySQLColumn("at", "point", "point", True),
               MySQLColumn("v", "vector", "vector(3)", True)]  # fmt: skip
    with pytest.raises(SourceError, match=r"at point, v vector\(3\)") as error:
        columns_of(columns, "`d`.`t`")
    assert error.value.hint is not None
    assert "SELECT `id`, ST_AsText(`at`) AS `at`, HEX(`v`) AS `v` FROM `d`.`t`" in error.value.hint


def test_names_and_texts_are_quoted() -> None:
    found = column_of(MySQLColumn("a`b", "int", "int(11)", False), BYTES)
    assert found is not None
    assert BYTES.line([found.select]) == ("CONCAT(CONCAT_WS(_binary X'FF', `a``b`), _binary X'fd')")
    assert quote("it's \\ \n") == "'it''s \\\\ \\n'"


# --- ranges ---------------------------------------------------------------------------------------


@given(
    st.integers(0, END - 1), st.integers(0, END), st.lists(st.integers(0, END), max_size=200),
    st.integers(1, 50), st.integers(0, 3),
)  # fmt: skip
def test_ranges_cover_all_and_never_overlap(
    start: int, size: int, keys: list[int], most: int, error: int
) -> None:
    stop = min(END, start + size)

    def estimate(low: int, high: int) -> int:
        return error * sum(low <= key < high for key in keys)

    found = halve(start, stop, estimate, most)
    assert found[0][0] == start
    assert found[-1][1] == stop
    assert all(a[1] == b[0] for a, b in itertools.pairwise(found))
    if error == 1:
        held = [len({key for key in keys if low <= key < high}) for low, high in found]
        assert all(count <= max(1.5 * most, len(keys) - len(set(keys)) + 1) for count in held)
