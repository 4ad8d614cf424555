"""Each value is stored exactly, or its row is refused by file, place and column.

:mod:`contract.judged_values` draws the values and knows what each may become. They are loaded in
two ways: with ``--max-errors``, many to a file, and without it, a file for each value that may not
fit; by the decoder and by the engine's readers; embedded, and pushed to and pulled by a server of
an older release. What is refused needlessly is a fault only where the engine would write it so.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from contract import typed_files
from contract.judged_values import (
    REFUSED,
    Cell,
    Kind,
    as_csv,
    as_json,
    as_tsv,
    draw,
    draw_kind,
    dynamic,
    is_same,
    leaves,
    objects,
    shapes,
    variant,
)
from gate import ALL
from lab.clickhouse import ClickHouse
from lab.http import Web
from rowfall.schema.bad_rows.data_errors import READ_HERE

TEXT = ("jsonl", "csv", "tsv")
TYPED = typed_files.FORMATS
# Parts that rowfall-decode builds, for the embedded engine and for the older server.
BUILT = {"build": "embedded", "spare": "push"}
WAYS = ("embedded", "push", "pull", *BUILT)
# Of a load with all rows 480 values, of one file by file 72: in the gate some 4,000, with one round
# because each load is a second of CPU; in test-all 240,000. ROWFALL_JUDGE_ROUNDS=N tries more, from
# ROWFALL_JUDGE_FIRST on; ROWFALL_JUDGE_ROWS=160 has 1,920 values in a load with all rows, which
# takes little longer: 90,000 values in nine minutes beside other work.
ROUNDS = int(os.environ.get("ROWFALL_JUDGE_ROUNDS", "12" if ALL else "1"))
FIRST = int(os.environ.get("ROWFALL_JUDGE_FIRST", "0"))
COLUMNS, ROWS = 12, int(os.environ.get("ROWFALL_JUDGE_ROWS", "40"))
READ = (
    "FORMAT JSONCompactEachRow SETTINGS output_format_json_quote_64bit_integers = 1, "
    "output_format_json_quote_decimals = 1, output_format_json_quote_denormals = 1, "
    "output_format_json_named_tuples_as_objects = 0"
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """Rows of values, in each of which at most one may not fit.

    Attributes:
        odd: by row the column of that value.
        owns: what the columns of a file with types are declared as there; () of text.
    """

    kinds: tuple[Kind, ...]
    rows: tuple[tuple[Cell, ...], ...]
    odd: tuple[int | None, ...]
    owns: tuple[typed_files.Own, ...] = ()


def draw_sheet(
    r: random.Random,
    *,
    modern: bool,
    columns: int,
    rows: int,
    form: str = "jsonl",
    whole: bool = True,
) -> Sheet:
    """Draw columns and rows.

    Args:
        whole: bad rows are left out, which columns with a Dynamic do not allow.
    """
    known = leaves(modern=modern)
    engines = modern and form == "jsonl"  # types that only the engine reads
    plain = list(known)
    known += shapes()
    known += [variant(), *[variant()] * 2] if engines else []
    known += [] if whole or not engines else [dynamic()] * 2
    kinds = tuple(
        objects(r, plain, whole=whole)
        if engines and r.random() < 0.15
        else draw_kind(r, known, r.choice((0, 1, 2, 3)), null_tuples=engines)
        for _ in range(columns)
    )
    if form == "csv":  # a field of one element is the element
        kinds = tuple(map(_unwrapped, kinds))
    found, odd = [], []
    for _ in range(rows):
        place = r.randrange(columns) if r.random() < 0.85 else None
        cells = (draw(r, kind, odd=n == place) for n, kind in enumerate(kinds))
        found.append(tuple(as_form(form, k, c) for k, c in zip(kinds, cells, strict=True)))
        odd.append(place)
    return Sheet(kinds, tuple(found), tuple(odd))


def _unwrapped(kind: Kind) -> Kind:
    while kind.base == "Tuple" and len(kind.parts) == 1:
        kind = kind.parts[0]
    return kind


def as_form(form: str, kind: Kind, cell: Cell) -> Cell:
    """Return a value as a form means it: its ways to write NULL may mean something else."""
    texts = ("String", "FixedString", "LowCardinality(String", "LowCardinality(FixedString")
    if form == "csv" and cell.tree is None and kind.name.startswith(texts):
        return replace(cell, value=kind.judge(""))
    if form == "tsv" and cell.tree == "" and kind.nullable and "String" not in kind.name:
        return replace(cell, value=None)
    return cell


def written(sheet: Sheet, form: str, rows: Sequence[int], r: random.Random) -> bytes:
    """Return a text file with some rows; each begins with its number."""
    names = [f"c{n}" for n in range(len(sheet.kinds))]
    if form == "jsonl":
        lines = [
            "{"
            + ", ".join(
                [f'"id": {row}']
                + [
                    f'"{name}": {as_json(kind, cell.tree, r)}'
                    for name, kind, cell in zip(names, sheet.kinds, sheet.rows[row], strict=True)
                ]
            )
            + "}"
            for row in rows
        ]
        return ("\n".join(lines) + "\n").encode()
    mark, field = (",", as_csv) if form == "csv" else ("\t", as_tsv)
    lines = [mark.join(["id", *names])]
    for row in rows:
        cells = zip(sheet.kinds, sheet.rows[row], strict=True)
        lines.append(mark.join([str(row), *(field(kind, cell.tree) for kind, cell in cells)]))
    return ("\n".join(lines) + "\n").encode()


class UnreadColumnError(Exception):
    """Names the index of a column that rowfall-decode does not read; None where it reads none."""

    def __init__(self, column: int | None) -> None:
        super().__init__(column)
        self.column = column


def without(sheet: Sheet, column: int) -> Sheet:
    """Return a sheet without a column."""
    kept = [n for n in range(len(sheet.kinds)) if n != column]
    return Sheet(
        tuple(sheet.kinds[n] for n in kept),
        tuple(tuple(row[n] for n in kept) for row in sheet.rows),
        tuple(kept.index(place) if place in kept else None for place in sheet.odd),
        tuple(sheet.owns[n] for n in kept if sheet.owns),
    )


class Loader:
    """Loads files into a table of its own in one of :data:`WAYS`, and reads it back."""

    def __init__(self, rowfall: Any, way: str, server: ClickHouse | None, web: Web | None) -> None:
        self._rowfall, self._server, self._web = rowfall, server, web
        self.way, self._built = BUILT.get(way, way), way in BUILT
        self._number = 0

    @property
    def modern(self) -> bool:
        return self.way == "embedded"

    def load(
        self, files: dict[str, bytes], sheet: Sheet, form: str, *more: str
    ) -> tuple[dict[str, Any], str, str]:
        """Return the report, the table and what was said."""
        self._number += 1
        folder = self._rowfall.cwd / f"f{self._number}"
        folder.mkdir()
        sources = []
        for name, body in files.items():
            (folder / name).write_bytes(body)
            sources.append(str(folder / name))
            if self.way == "pull" and self._web is not None:
                sources[-1] = self._web.put(f"{self._number}/{name}", body)
        types = [("id", "UInt32"), *((f"c{n}", kind.name) for n, kind in enumerate(sheet.kinds))]
        table = f"t{self._number}"
        target = str(self._rowfall.cwd / "out")
        if self._server is not None:
            target = self._server.uri("judge")
            more = (*more, f"--{self.way}")
        if self._built:
            more = (*more, "--build", "on")
        listed = [part for name, type_ in types for part in ("--type", f"{name} {type_}")]
        header = ["--header", "yes"] if form in ("csv", "tsv") else []
        header += ["--escape", "none"] if form == "csv" else []
        done = self._rowfall.inside(
            "load",
            *sources,
            "--to",
            target,
            "--table",
            table,
            *listed,
            *header,
            "--json",
            "--order-by",
            "id",
            *more,
        )
        if done.returncode == 2 and (
            unread := re.search(
                r"(?:decode cannot be used|parts cannot be built): (?:.*\(column c(\d+)\))?",
                done.stderr,
            )
        ):
            raise UnreadColumnError(None if unread[1] is None else int(unread[1]))
        if done.returncode == 5 and "its release reads some values otherwise" in done.stderr:
            return {"failures": []}, "", "stopped after"
        if done.returncode == 5 and self.way == "pull" and "may hold half floats" in done.stderr:
            return {"failures": []}, "", "stopped after"  # which an old release reads as others
        refusals = ("does not fit", "holds a NULL where the table takes none")
        if self.way == "pull" and done.returncode == 4 and any(w in done.stderr for w in refusals):
            # The reader of an old release raises while the file is sampled, and names no row.
            return {"failures": []}, "", "stopped after"
        if self.way == "pull" and "--max-errors" in more and READ_HERE[:30] in done.stderr:
            # It raises before a row can be left out, and the hint says who reads the file.
            return {"failures": []}, "", "stopped after"
        assert done.returncode in (0, 1), f"{done.returncode}: {done.stderr}\n{done.stdout}"
        return json.loads(done.stdout), table, done.stderr

    def rows(self, table: str) -> dict[int, list[Any]]:
        if not table:
            return {}
        question = f"SELECT * FROM {table} ORDER BY id {READ}"
        if self._server is not None:
            text = self._server.query(question.replace(f"FROM {table}", f"FROM judge.{table}"))
        else:
            done = self._rowfall.inside("query", question, "--to", str(self._rowfall.cwd / "out"))
            assert done.returncode == 0, done.stderr
            text = done.stdout
        pairs = [json.loads(line, object_pairs_hook=list) for line in text.splitlines()]
        return {int(row[0]): row[1:] for row in pairs}


def check_rows(
    sheet: Sheet,
    rows: Sequence[int],
    stored: dict[int, list[Any]],
    refused: dict[int, str],
    said: str,
) -> list[str]:
    """Return what is wrong: values that are others, and rows that are neither here nor there."""
    faults = []
    for row in rows:
        cells, place = sheet.rows[row], sheet.odd[row]
        about = "" if place is None else f"{sheet.kinds[place].name} {cells[place].tree!r}"
        if row in stored:
            if row in refused:
                faults.append(f"row {row} is stored and refused")
            for n, (kind, cell, got) in enumerate(
                zip(sheet.kinds, cells, stored[row], strict=True)
            ):
                if cell.tree == "" and kind.nullable and got is None:
                    continue  # no value, where the sample shows some such
                if cell.value is REFUSED or not is_same(kind, cell.value, got):
                    faults.append(f"c{n} {kind.name}: {cell.tree!r} became {got!r}")
        elif row not in refused and "stopped after" in said:
            continue  # so many files have failed that the others were not tried
        elif row not in refused:
            faults.append(f"row {row} is lost: {about}: {said[-1500:]}")
        elif refused[row] not in {f"c{n}" for n, cell in enumerate(cells) if not cell.plain}:
            named = re.fullmatch(r"c(\d+)", refused[row])
            n = int(named[1]) if named else 0
            why = f"{refused[row]} {sheet.kinds[n].name} {cells[n].tree!r}"
            faults.append(f"row {row} is refused for {why}: c{place} {about}")
    return faults


def judge_leaving_out(
    r: random.Random,
    loader: Loader,
    form: str,
    decoder: str,
    columns: int = COLUMNS,
    rows: int = ROWS,
) -> list[str]:
    """Load one file with all rows and ``--max-errors``; what is left out is in the rejects."""
    sheet, first = _drawn(r, loader, form, columns, rows)
    return _of_read_columns(sheet, lambda own: _leave_out(r, loader, form, decoder, own, first))


def _of_read_columns(sheet: Sheet, judge: Callable[[Sheet], list[str]]) -> list[str]:
    """Judge a sheet without the columns that --decoder always refuses, one after the other."""
    while sheet.kinds:
        try:
            return judge(sheet)
        except UnreadColumnError as error:
            if error.column is None:
                return []
            sheet = without(sheet, error.column)
    return []


def _leave_out(
    r: random.Random, loader: Loader, form: str, decoder: str, sheet: Sheet, first: int
) -> list[str]:
    body = _body(sheet, form, range(len(sheet.rows)), r)
    rejects = loader._rowfall.cwd / "rejects.tsv"
    rejects.unlink(missing_ok=True)
    name = f"v.{form}"
    _, table, said = loader.load(
        {name: body},
        sheet,
        form,
        "--max-errors",
        "100000",
        "--rejects",
        str(rejects),
        "--decoder",
        decoder,
    )
    refused = {}
    if rejects.exists():
        for line in rejects.read_text().splitlines()[1:]:
            _, number, column, *_ = line.split("\t")
            refused[int(number) - first] = column
    return check_rows(sheet, range(len(sheet.rows)), loader.rows(table), refused, said)


def judge_one_by_one(
    r: random.Random,
    loader: Loader,
    form: str,
    decoder: str,
    columns: int = 6,
    rows: int = 12,
) -> list[str]:
    """Load a file for each row, with a good one in front; files that do not fit fail alone."""
    sheet, first = _drawn(r, loader, form, columns, rows, whole=False)
    return _of_read_columns(sheet, lambda own: _one_by_one(r, loader, form, decoder, own, first))


def _one_by_one(
    r: random.Random, loader: Loader, form: str, decoder: str, sheet: Sheet, first: int
) -> list[str]:
    good = [n for n, place in enumerate(sheet.odd) if place is None][:1]
    files = {}
    for row in range(len(sheet.rows)):
        if row not in good:
            files[f"v{row}.{form}"] = _body(sheet, form, [row], r)
    report, table, said = loader.load(files, sheet, form, "--decoder", decoder)
    refused: dict[int, str] = {}
    for failure in report["failures"]:
        found = re.search(r"v(\d+)\.\w+ (?:line|row) (\d+) column \"(\w+)\"", failure["error"])
        if found is None and failure["hint"] == READ_HERE and loader.way == "pull":
            row = int(re.search(r"v(\d+)\.", failure["split"])[1])  # type: ignore[index]
            refused[row] = f"c{sheet.odd[row]}"
        elif found is None:
            refused[int(re.search(r"v(\d+)\.", failure["split"])[1])] = failure["error"]  # type: ignore[index]
        elif int(found[2]) != first:
            refused[int(found[1])] = f"line {found[2]}, not {first}"
        else:
            refused[int(found[1])] = found[3]
    rows_ = [row for row in range(len(sheet.rows)) if row not in good]
    return check_rows(sheet, rows_, loader.rows(table), refused, said)


def _drawn(
    r: random.Random, loader: Loader, form: str, columns: int, rows: int, *, whole: bool = True
) -> tuple[Sheet, int]:
    if form in TYPED:
        sheet = typed_files.draw_sheet(
            r, Sheet, modern=loader.modern, columns=columns, rows=rows, form=form
        )
    else:
        sheet = draw_sheet(
            r, modern=loader.modern, columns=columns, rows=rows, form=form, whole=whole
        )
    first = {"csv": 2, "tsv": 2}.get(form, 1)
    return sheet, first


def _body(sheet: Sheet, form: str, rows: Sequence[int], r: random.Random) -> bytes:
    return (
        typed_files.written(sheet, form, rows) if form in TYPED else written(sheet, form, rows, r)
    )


@contextmanager
def opened(way: str, rowfall: Any, request: pytest.FixtureRequest) -> Iterator[Loader]:
    if BUILT.get(way, way) == "embedded":
        yield Loader(rowfall, way, None, None)
        return
    server = request.getfixturevalue("clickhouse")
    server.query("CREATE DATABASE IF NOT EXISTS judge")
    try:
        yield Loader(
            rowfall, way, server, request.getfixturevalue("web") if way == "pull" else None
        )
    finally:
        server.query("DROP DATABASE judge")


CASES = [
    (form, way, decoder)
    for form in (*TEXT, *TYPED)
    for way in WAYS
    for decoder in ("auto", "never", "always")
    # An engine reads what rowfall-decode does not know, and a server what it pulls.
    if not (decoder != "never" and form in TYPED and form not in ("parquet", "arrow"))
    if not (decoder == "always" and way == "pull")
    # Only rowfall-decode builds parts: --build on is an error where it does not read the source.
    if not (way in BUILT and (decoder != "auto" or form not in (*TEXT, "parquet", "arrow")))
]
JUDGES: dict[str, Callable[..., list[str]]] = {
    "leaving out": judge_leaving_out,
    "one by one": judge_one_by_one,
}


@pytest.mark.sampled(5)
@pytest.mark.timeout(60 + 2 * ROWS * ROUNDS)  # a round takes some 3 s of CPU, of 40 rows
@pytest.mark.xdist_group("judge")
@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(("form", "way", "decoder"), CASES)
def test_values_are_stored_exactly_or_refused(
    judge: str, form: str, way: str, decoder: str, rowfall: Any, request: pytest.FixtureRequest
) -> None:
    with opened(way, rowfall, request) as loader:
        for number in range(FIRST, FIRST + ROUNDS):
            seed = f"{form} {way} {decoder} {judge} {number}"
            faults = JUDGES[judge](random.Random(seed), loader, form, decoder)
            assert not faults, f"seed {seed!r}:\n" + "\n".join(faults)
