"""Sends rows to a database and leaves out those that it refuses (``--max-errors``).

Only the database knows what it refuses: a number out of its range, a key that is there already, a
CHECK. So rows go in batches, each behind a savepoint. A batch with a refused row is taken back and
sent again in pieces: around the row that the server names, or else in halves, always from the first
row on, so that of two rows with one key the first one stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rowfall.core.model import Refused
from rowfall.engines.database import RefusedRowError, Transaction

# A refused row that the server does not name costs twelve statements of half as many rows each; a
# savepoint and a statement of their own cost some 2,000 rows less than a tenth.
_BATCH = 2_000


def write_good(
    transaction: Transaction, columns: Sequence[str], pieces: Iterable[bytes], most: int
) -> tuple[int, tuple[Refused, ...]]:
    """Write rows, halving a batch that fails to find its refused rows.

    Returns:
        The number of rows taken, and the rows refused.

    Args:
        most: number of rows that may be refused.

    Raises:
        RefusedRowError: more rows than ``most`` were refused.
    """
    taken, first = 0, 1
    refused: list[Refused] = []
    for batch in _batches(pieces):
        stack = [(0, len(batch))]
        while stack:
            start, stop = stack.pop()
            if start == stop:
                continue
            transaction.mark()
            try:
                taken += transaction.write(columns, iter([b"".join(batch[start:stop])]))
                continue
            except RefusedRowError as error:
                transaction.back()
                row, said = error.sent_row, error
            if stop - start == 1:
                refused.append(Refused(first + start, said.message, said.column, said.value))
                if len(refused) > most:
                    raise said
            elif row is not None and 1 <= row <= stop - start:
                at = start + row - 1
                stack += [(at + 1, stop), (at, at + 1), (start, at)]
            else:
                middle = (start + stop) // 2
                stack += [(middle, stop), (start, middle)]
        first += len(batch)
    return taken, tuple(refused)


def _batches(pieces: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield lines, some at a time."""
    rest, lines = b"", list[bytes]()
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        lines += [line + b"\n" for line in whole]
        while len(lines) >= _BATCH:
            yield lines[:_BATCH]
            del lines[:_BATCH]
    if rest:
        lines.append(rest + b"\n")
    if lines:
        yield lines
