"""Rows as parameters of one prepared INSERT: COM_STMT_BULK_EXECUTE, which only MariaDB has.

LOAD DATA looks at each character of a text, and makes numbers of digits: of 5.8 CPU-seconds that a
server took for 400,000 taxi rows these were a third. Here rowfall-decode writes numbers and times
as the server has them. What a session has to be strict about is the same: a value that the server
would change is an error of an INSERT.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rowfall.core.model import Column
from rowfall.core.type_names import parse_type
from rowfall.engines.database import Binary, NoBinaryError
from rowfall.systems.mysql import wire
from rowfall.systems.mysql.catalogue import MySQLColumn

FORMAT = "MariaDB"
"""The rows, as rowfall-decode calls them."""

LEAST_PACKET = 4 << 20
"""Smallest max_allowed_packet, in bytes, with which rows are sent so.

rowfall-decode ends a frame with the row that fills 512 KiB, so most rows fit eight times.
"""

_EXECUTE = 0xFA
_SEND_TYPES = 128
# Frames that are sent before the first one is answered: a server that has one waiting never waits.
_AHEAD = 4
_UNSIGNED, _TEXT = 0x8000, 253
_INTEGERS = {"8": 1, "16": 2, "32": 3, "64": 8}
_BINARY = {"Bool": 1, "Float32": 4, "Float64": 5, "Date": 10, "Date32": 10, "DateTime": 12,
           "DateTime64": 12}  # fmt: skip
_INTEGER_KINDS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_MOMENT_KINDS = frozenset({"datetime", "timestamp"})


def binary(columns: Sequence[Column], known: Sequence[MySQLColumn]) -> Binary | None:
    """Return the encoding of columns in a bulk INSERT; None where one is not known, BIT or
    YEAR, or the server computes it.

    Only what is the same value either way is sent in binary. A Float32 is 0.1 as text, which a
    DOUBLE holds exactly so, and is 0.10000000149 as a number.

    Args:
        known: columns of the table.
    """
    by_name = {column.name: column for column in known}
    types, texts = [], []
    for number, column in enumerate(columns):
        there = by_name.get(column.name)
        if there is None or there.kind in ("bit", "year") or there.computed:
            return None
        found = _type_of(column, there)
        types.append(found or _TEXT)
        if not found:
            texts.append(number)
    return Binary(FORMAT, tuple(texts), tuple(types))


def _type_of(column: Column, there: MySQLColumn) -> int:
    """Return the type that a column is sent as; 0 for text."""
    type_ = parse_type(column.type)
    kind, whole = there.kind, there.whole.lower()
    base = type_.base
    bits = base.removeprefix("U").removeprefix("Int")
    if bits in _INTEGERS and base.endswith(f"Int{bits}"):
        sign = _UNSIGNED if base.startswith("U") else 0
        return _INTEGERS[bits] | sign if kind in _INTEGER_KINDS else 0
    same = {
        "Bool": kind in _INTEGER_KINDS,
        # FLOAT(7,2) rounds what it gets.
        "Float32": whole in ("float", "float unsigned"),
        "Float64": whole in ("double", "double unsigned"),
        "Date": kind == "date",
        "Date32": kind == "date",
        "DateTime": kind in _MOMENT_KINDS,
        # Text of more digits than the server keeps is never the same value.
        "DateTime64": kind in _MOMENT_KINDS and type_.digits <= there.digits,
    }
    return _BINARY[base] if same.get(base) else 0


def insert(
    connection: Any, statement: str, types: Sequence[int], pieces: Iterator[bytes],
    most: int,
) -> int:  # fmt: skip
    """Insert rows that come in the frames of rowfall-decode; return how many there were.

    Args:
        statement: an INSERT with a mark for each column. ``types``: of the marks.
        pieces: bytes of frames, cut anywhere; empty ones only show that the source is slow.
        most: bytes of a packet that the server takes.

    Raises:
        NoBinaryError: the server has given warnings, or a row is too large.
        pymysql.err.MySQLError: it refuses the statement or a row. The transaction is to be rolled
            back.
        OSError: the connection was lost.
    """
    number, _ = wire.prepare(connection, statement)
    head = struct.pack("<IH", number, _SEND_TYPES)
    head += struct.pack(f"<{len(types)}H", *types)
    taken, waiting = 0, list[int]()
    problem: BaseException | None = None
    try:
        for rows, parts, size in _frames(pieces):
            if size + len(head) >= most:
                raise NoBinaryError("a row is larger than max_allowed_packet")
            wire.send_command(connection, _EXECUTE, head, *parts)
            waiting.append(rows)
            while len(waiting) >= _AHEAD:
                taken += _answered(connection, waiting.pop(0))
    except BaseException as error:
        problem = error
    for one in waiting:
        # Each statement reads its own answer; and a server that gives up says why before it closes.
        try:
            taken += _answered(connection, one)
        except Exception as error:
            problem = error if problem is None or isinstance(problem, OSError) else problem
    if problem is not None:
        raise problem
    wire.close_statement(connection, number)
    return taken


def _frames(pieces: Iterator[bytes]) -> Iterator[tuple[int, list[bytes], int]]:
    """Give rows, parts and bytes of each frame."""
    take = _taker(pieces)
    while header := take(8):
        rows, size = struct.unpack("<II", b"".join(header))
        yield rows, take(size), size


def _taker(pieces: Iterator[bytes]) -> Callable[[int], list[bytes]]:
    """Return a function that takes the next N bytes off the pieces; it returns [] at the end.

    It raises EOFError where fewer than N bytes are left.
    """
    rest = b""

    def take(size: int) -> list[bytes]:
        nonlocal rest
        parts: list[bytes] = []
        while size:
            if not rest:
                rest = next((piece for piece in pieces if piece), b"")
                if not rest:
                    if parts:
                        raise EOFError("a frame ends in its middle")
                    return []
            part, rest = (rest, b"") if len(rest) <= size else (rest[:size], rest[size:])
            size -= len(part)
            parts.append(part)
        return parts

    return take


def _answered(connection: Any, rows: int) -> int:
    """Read the answer to a command; return its rows.

    Raises:
        NoBinaryError: it tells of warnings, or of another number of rows.
    """
    said = wire.read_counts(connection)
    if said.warning_count or said.affected_rows != rows:
        raise NoBinaryError(
            f"{said.affected_rows:,} of {rows:,} rows taken, {said.warning_count} warnings"
        )
    return rows
