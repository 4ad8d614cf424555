"""Pieces of an output file: what of it was read by attempts of their own, until all are there.

One output file is written by one INSERT. Where its source files have to be read in several ways
(the decoder has declined one, the last field of another is left open, a bad one is looked for),
each attempt writes its rows into a piece, a Native file that nobody else sees. When the last one
has ended, one more attempt puts them together into the output.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.model import Column
from rowfall.core.sqltext import SqlText
from rowfall.run.work_queue import OutputPiece, Work
from rowfall.targets.export import PIECE, read_piece


@dataclass(slots=True)
class _Output:
    """An output whose rows are in pieces.

    Attributes:
        order: ids of its splits as they were planned.
        left: works that may still bring a piece.
    """

    order: Mapping[str, int]
    left: int = 0
    pieces: list[OutputPiece] = field(default_factory=list)


class OutputPieces:
    """Keeps the pieces of the outputs of one writer, until each is put together.

    Args:
        whole: one attempt writes an output; False where each attempt is published by itself.
    """

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._guard = threading.Lock()
        self._outputs: dict[int, _Output] = {}
        self._made: dict[str, OutputPiece] = {}

    def of(self, work: Work, works: Sequence[Work]) -> Sequence[Work]:
        """Return the attempts that replace a failed one, marked as pieces where its output is cut.

        Args:
            works: what is left of ``work`` to load, with settings changed by what the failure told.
        """
        if not self._whole or work.pieces or (len(works) < 2 and not work.piece):
            return works
        with self._guard:
            if work.number not in self._outputs:
                order = {split.id: place for place, split in enumerate(work.splits)}
                self._outputs[work.number] = _Output(order)
            output = self._outputs[work.number]
            output.left += len(works) - work.piece
            return [replace(one, piece=True) for one in works] or self._finished(work.number)

    def add(self, work: Work, piece: OutputPiece) -> Sequence[Work]:
        """Keep a finished piece; if it is the last, return the work that puts them together."""
        with self._guard:
            output = self._outputs[work.number]
            output.left -= 1
            output.pieces.append(piece)
            self._made[piece.path] = piece
            return self._finished(work.number)

    def _finished(self, number: int) -> Sequence[Work]:
        output = self._outputs[number]
        if output.left:
            return []
        del self._outputs[number]
        pieces = sorted(output.pieces, key=lambda one: min(output.order[s.id] for s in one.splits))
        splits = [split for piece in pieces for split in piece.splits]
        return [Work(number, splits, pieces=tuple(pieces))] if pieces else []

    def remove(self, pieces: Sequence[OutputPiece] | None = None) -> None:
        """Remove pieces that were put together; None: all that there are."""
        with self._guard:
            for piece in list(self._made.values()) if pieces is None else pieces:
                piece.remove()
                self._made.pop(piece.path, None)


def piece_name(staging: str, attempt_id: str) -> str:
    """Return the file of a piece: beside the output, or in the folder for temporary files.

    Args:
        staging: what the attempt would write otherwise; an object has no place for a local file.
    """
    if "://" not in staging:
        return f"{staging}{PIECE}"
    return os.path.join(tempfile.gettempdir(), f"rowfall-{attempt_id}{PIECE}")


def select(pieces: Sequence[OutputPiece], columns: Sequence[Column]) -> SqlText:
    """Return the SELECT of all rows of some pieces, in their order."""
    names = ", ".join(sql.name(column.name) for column in columns)
    parts: list[str | SqlText] = []
    for piece in pieces:
        if piece.rows:
            rows = SqlText.of(f"SELECT {names} FROM ", read_piece(piece.path, columns))
            parts += ["\nUNION ALL " if parts else "", rows]
    if not parts:
        return SqlText.of(f"SELECT {names} FROM ", read_piece("", columns))
    return SqlText.of(*parts)
