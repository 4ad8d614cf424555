"""Finds rows at the end of a file that are none: totals, and notes about the table. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.core import sql
from rowfall.core.load_command import quoted
from rowfall.core.units import counted
from rowfall.core.value_kinds import NULL_WORDS, kind_of, value_class

_LEAST_ROWS = 3  # above them, of which none looks the same
_LEAST_WIDTH = 3  # columns: of two, one may well be empty
_MOST_NOTES = 20  # rows; more are a column that is filled in for the first rows only
_TOTALS = frozenset("""
total|totals|grand total|subtotal|sum|overall total|total general|total général|totale|totaal|totalt
summe|gesamt|insgesamt|gesamtsumme|summa|suma|razem|celkem|итого|всего|合计|总计|合計|総計|소계|합계
""".replace("\n", "|").strip("|").split("|"))  # fmt: skip


def find_last_rows(
    names: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[str, str | None] | None:
    """Return a sentence about notes or totals at the end of a file, and the option to drop them.

    Args:
        rows: without a header, all as wide as ``names``; the last ones are those of the file.

    Returns:
        None where the last rows are data. Otherwise the sentence, and ``--where`` on the column
        whose texts only these rows have; None for the option where there is no such column.
    """
    width = len(names)
    end = len(rows)
    notes = 0
    while width >= _LEAST_WIDTH and notes < _MOST_NOTES and end and _is_note(rows[end - 1]):
        end, notes = end - 1, notes + 1
    if notes and (not any(any(v.strip() for v in row) for row in rows[end:])):
        end, notes = len(rows), 0  # rows of nothing: the columns say so
    totals = int(end > 0 and _is_total(rows[end - 1]))
    body = rows[: end - totals]
    if not notes + totals or len(body) < _LEAST_ROWS or (notes and any(map(_is_note, body))):
        return None
    last = rows[len(body) :]
    texts = [next((n for n, v in enumerate(row) if v.strip()), 0) for row in last]
    column = texts[-1] if not totals else texts[0]
    held = {row[column] for row in body}
    own = list(dict.fromkeys(row[column] for row in last))
    if totals and last[0][column] in held:
        return None  # a value like any other
    which = "line holds" if len(last) == 1 else f"{counted(len(last), 'row')} hold"
    what = "a total" if not notes else "a total and a note" if totals else "one text at most"
    why = f"the last {which} {what}"
    if held & set(own):
        return why, None
    plain = sql.bare_name(names[column])
    listed = ", ".join(map(sql.literal, own))
    condition = f"{plain} != {listed}" if len(own) == 1 else f"{plain} NOT IN ({listed})"
    return why, f"--where {quoted(condition)}"


def odd_values(
    names: Sequence[str], classes: Sequence[str], rows: Sequence[Sequence[str]]
) -> dict[int, tuple[str, ...]]:
    """Return the texts in columns whose first values are numbers or times, by their columns.

    One of them makes text of a column, in which nobody looks for it.

    Args:
        classes: of the first values, see :func:`rowfall.core.value_kinds.value_class`.
        rows: from behind them.
    """
    found = {}
    for n, (name, first) in enumerate(zip(names, classes, strict=True)):
        if first not in ("number", "time"):
            continue
        held = (row[n].strip() for row in rows)
        odd = tuple(v for v in held if value_class([v]) not in ("", first) and v != name)
        if odd:
            found[n] = odd
    return found


def _is_note(row: Sequence[str]) -> bool:
    """Tell whether a row holds one text and nothing else, or nothing at all."""
    filled = [v.strip() for v in row if v.strip()]
    return not filled or (
        len(filled) == 1 and filled[0] not in NULL_WORDS and not kind_of(filled[0])
    )


def _is_total(row: Sequence[str]) -> bool:
    """Tell whether the first text of a row is a word for a total, and numbers stand behind it."""
    filled = [v.strip() for v in row if v.strip()]
    if len(filled) < 2 or filled[0].rstrip(":").strip().lower() not in _TOTALS:
        return False
    return any(kind_of(v, ";") == "number" for v in filled[1:])
