"""Files as people have them give the table that was written, or a refusal, or a warning."""

from __future__ import annotations

import csv
import io
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from gate import ALL
from rowfall.core.errors import RowfallError
from rowfall.core.options import Options
from rowfall.decoder import installed, rewriting
from rowfall.decoder.documents import encode
from rowfall.schema.text.text_format import UNSURE, asked_of, find_text_format
from rowfall.sources import open_source
from unit.schema.dialect_draws import Draw, as_meant, draw, with_iso_days, with_points

RIGHT, SAID, REFUSED, WRONG = "right", "warned", "refused", "wrong"
DRAWS = 2000 if ALL else 100


def judge(one: Draw, folder: Path) -> tuple[str, str]:
    """Return what becomes of a file, and why, read by Python's csv module as rowfall says.

    Text that rowfall-decode rewrites is rewritten by it first.
    """
    path = folder / f"x{one.suffix}"
    path.write_bytes(one.data)
    options = Options()
    try:
        source = open_source([str(path)], options)
        listing = source.listing()
        declared = source.encoding(listing)
        splits = [listing.split(0, "")]
        found = find_text_format(source, splits, declared, _nobody, asked_of(options))
    except RowfallError as error:
        return REFUSED, error.message
    encoding, data = found.encoding, one.data
    if encoding.dialect is not None:
        spec = encode(rewriting.document(encoding, "none", str(path)))
        command = [str(installed.program()), "rewrite", "--spec", spec]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            return REFUSED, done.stderr.decode()
        data = done.stdout
    text = data.decode("utf-8-sig")
    if encoding.is_tsv:
        rows = [line.split("\t") for line in text.replace("\r\n", "\n").split("\n")]
        rows = rows[:-1] if rows[-1] == [""] else rows
    else:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=encoding.delimiter))
    while rows and not rows[-1]:
        rows.pop()  # blank lines at the end are no rows for either reader
    if encoding.trailing:
        rows = [row[:-1] if row and not row[-1] and n + 1 else row for n, row in enumerate(rows)]
    said = [why for subject, why in found.notes if subject == UNSURE]
    header = rows[: int(encoding.has_header)]
    body = rows[int(encoding.has_header) :]
    if any(len(row) != len(found.names) for row in body):
        return REFUSED, "rows of other widths are refused by both readers"
    wanted = None if one.names is None else [n.strip() for n in one.names]
    names = [n.strip() for n in header[0]][: len(found.names)] if header else None
    read = [[v.strip() for v in row] for row in body]
    same = read in ([[v.strip() for v in r] for r in rows] for rows in _meanings(one))
    if names == wanted and same and not one.ragged:
        return RIGHT, ""
    why = f"{names} for {wanted}, rows {'the same' if same else 'differ'}; {said}"
    return (SAID if said else WRONG), why


def _meanings(one: Draw) -> list[list[list[str]]]:
    if one.ragged:
        return [one.rows]
    told = [one.rows, as_meant(one.rows)]  # missing words
    told += map(with_iso_days, told[:])
    return [*told, *map(with_points, told)]


def _nobody(query: object, settings: object) -> list[list[object]]:
    raise AssertionError("no engine is asked about files of this machine")


@pytest.mark.parametrize("part", range(4))
def test_files_as_people_have_them(tmp_path: Path, part: int) -> None:
    counts: Counter[str] = Counter()
    odd: list[str] = []
    for seed in range(part, DRAWS, 4):
        one = draw(seed)
        verdict, why = judge(one, tmp_path)
        counts[verdict] += 1
        if verdict == WRONG or (verdict == SAID and len(odd) < 40):
            odd.append(f"{verdict}: seed {seed}, {one.quirks}: {why}\n{one.data[:200]!r}")
    assert counts[WRONG] == 0, "\n".join(odd)
    # Encodings that nothing names and rows that are short are refused, as they should be.
    assert counts[RIGHT] >= 0.92 * counts.total(), f"{counts}\n" + "\n".join(odd)
