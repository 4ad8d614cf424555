"""Integers read as numbers: a wrong value never passes, and the careful reading takes the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rowfall.core.model import Column, Encoding, Kind, Schema
from rowfall.schema.types import strict_reading
from rowfall.schema.types.strict_reading import NUMBERS, FileTraits, TextTraits, strict_column
from unit.memory import CSV, TSV, Chdb, ChdbError

Write = Callable[[str, str | bytes], Path]
SEEN = TextTraits(nonzero=True)
RANGES = {
    f"{sign}Int{bits}": (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for bits in (8, 16, 32, 64)
    for sign in ("U", "")
}


def column(type_: str, encoding: Encoding = CSV) -> Column:
    csv = encoding.format.startswith("CSV")
    seen = replace(SEEN, file=FileTraits(csv=csv))
    return strict_column("v", "v", type_, Kind.TEXT, traits=seen)


def read(
    engine: Chdb, write: Write, text: str, made: Column, encoding: Encoding = CSV
) -> str | None:
    """The value that lands, or None for an error."""
    traits = TextTraits(file=FileTraits(csv=encoding.format.startswith("CSV")))
    key = strict_column("k", "k", "String", Kind.TEXT, traits=traits)
    mark = "," if encoding.format.startswith("CSV") else "\t"
    path = write("x.txt", f"a{mark}{text}\n")
    try:
        ((_, value),) = engine.load(path, encoding, [key, made])
    except ChdbError:
        return None
    return str(value)


@pytest.mark.parametrize("encoding", [CSV, TSV], ids=["csv", "tsv"])
@given(
    digits=st.from_regex(r"[-+]?[0-9]{1,38}", fullmatch=True),
    type_=st.sampled_from(sorted(RANGES)),
)
@example(digits="18446744073709551621", type_="UInt8")
@example(digits="-1", type_="UInt64")
@example(digits="300", type_="UInt8")
@example(digits="0", type_="Int32")
def test_an_integer_lands_as_it_is_or_not_at_all(
    chdb_engine: Chdb,
    tmp_path_factory: pytest.TempPathFactory,
    encoding: Encoding,
    digits: str,
    type_: str,
) -> None:
    folder = tmp_path_factory.mktemp("numbers")

    def write(name: str, data: str | bytes) -> Path:
        path = folder / name
        path.write_text(str(data))
        return path

    low, high = RANGES[type_]
    value = int(digits)
    loaded = read(chdb_engine, write, digits, column(type_, encoding), encoding)
    fits = low <= value <= high and value != 0
    assert loaded in ((str(value), None) if fits else (None,))
    if fits and digits.lstrip("+-").isdigit() and digits[0] not in "+-" and digits[0] != "0":
        assert loaded == str(value)


@pytest.mark.parametrize("text", ['""', "", "0", "x", "1.5", "\\N", "nan", "1e3", " ", "--1"])
@pytest.mark.parametrize("type_", ["UInt8", "Int64"])
def test_what_is_no_integer_but_zero_raises(
    chdb_engine: Chdb, write: Write, text: str, type_: str
) -> None:
    assert read(chdb_engine, write, text, column(type_)) is None


def test_a_column_that_the_header_lacks_raises(chdb_engine: Chdb, write: Write) -> None:
    names = Encoding("CSVWithNames", "none", Kind.TEXT)
    key = strict_column("k", "k", "String", Kind.TEXT)
    path = write("x.csv", "k\na\n")
    with pytest.raises(ChdbError):
        chdb_engine.load(path, names, [key, column("UInt8")])


def test_nullable_keeps_null_apart_from_zero(chdb_engine: Chdb, write: Write) -> None:
    made = column("Nullable(UInt8)")
    assert made.read_type in NUMBERS
    assert read(chdb_engine, write, "", made) == "None"
    assert read(chdb_engine, write, '""', made) is None
    assert read(chdb_engine, write, "7", made) == "7"


@pytest.mark.parametrize(
    "traits",
    [TextTraits(padded=True), TextTraits(blank=True), TextTraits(file=FileTraits(bom=True))],
)
def test_other_evidence_keeps_to_text(traits: TextTraits) -> None:
    seen = replace(traits, nonzero=True)
    assert strict_column("v", "v", "UInt8", Kind.TEXT, traits=seen).read_type not in NUMBERS


def test_the_careful_schema_is_the_one_without_evidence(chdb_engine: Chdb, write: Write) -> None:
    schema = Schema((column("UInt8"), strict_column("s", "s", "String", Kind.TEXT)))
    assert strict_reading.reads_numbers(schema)
    careful = strict_reading.with_integers_as_text(schema, CSV)
    assert not strict_reading.reads_numbers(careful)
    assert careful.columns == (strict_column("v", "v", "UInt8", Kind.TEXT), schema.columns[1])
    assert read(chdb_engine, write, "0", careful.columns[0]) == "0"


def test_line_breaks_are_allowed_for_guarded_strings_only(chdb_engine: Chdb, write: Write) -> None:
    schema = Schema((column("UInt8"), strict_column("s", "s", "String", Kind.TEXT)))
    assert strict_reading.refuses_line_breaks(schema)
    opened = strict_reading.with_line_breaks(schema, CSV)
    assert not strict_reading.refuses_line_breaks(opened)
    assert opened.columns[0] == schema.columns[0]
    path = write("b.csv", '1,"two\nlines"\n')
    assert chdb_engine.load(path, CSV, opened.columns) == [["1", "two\nlines"]]
    with pytest.raises(ChdbError, match="line break in s"):
        chdb_engine.load(path, CSV, schema.columns)
