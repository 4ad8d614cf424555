"""What the sample would have kept as text becomes no number or Bool behind it."""

from __future__ import annotations

import gzip
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e.lake import Lake
from e2e.tools import Done, Shell
from lab.clickhouse import ClickHouse
from lab.seaweed import Seaweed

SAMPLED = 20_000


@pytest.fixture(scope="module")
def server() -> Iterator[ClickHouse]:
    with ClickHouse() as server:
        yield server


@dataclass(frozen=True, slots=True)
class Odd:
    """Values that a sample shows, and one behind it.

    Attributes:
        type: of the column by the sample.
        taken: what is stored where the type is given; None where it never fits.
    """

    shown: tuple[str, ...]
    odd: str
    type: str
    taken: object


ODD = [
    Odd(("10115", "80331", "-5"), "00123", "Int64", 123),
    Odd(("10115", "80331", "5"), "+49123", "Int64", 49123),
    Odd(("10115", "80331", "-5"), "-007", "Int64", -7),
    Odd(("10115", "80331", "5"), "00000000000000000012", "Int64", 12),
    Odd(("1.5", "2.25", "-3.5"), "007.5", "Float64", 7.5),
    Odd(("1.5", "2.25", "-3.5"), "+7", "Float64", 7),
    Odd(("1.5", "2.25", "-3.5"), "-00.5", "Float64", -0.5),
    Odd(("1.5", "2.25", "3"), "9007199254740993", "Float64", 9007199254740992),
    Odd(("true", "false", "true"), "1", "Bool", True),
    Odd(("true", "false", "true"), "yes", "Bool", True),
    Odd(("1.5", "2.25", "-3.5"), "0x1F", "Float64", None),
    Odd(("1.5", "2.25", "-3.5"), "1_000", "Float64", None),
    Odd(("1.5", "2.25", "-3.5"), "1 000", "Float64", None),
    Odd(("10115", "80331", "5"), "1e3", "Int64", None),
    Odd(("10115", "80331", "5"), "5.", "Int64", None),
    Odd(("2024-01-01", "2024-02-29", "1999-12-31"), "2024-1-1", "Date", None),
    Odd(("2024-01-01 00:00:00", "2024-02-29 12:00:00"), "1704067200", "DateTime('UTC')", None),
]


def _text(kind: str, odd: Odd) -> str:
    # The times of JSON are texts, and its numbers are never written like those that are odd.
    quoted = odd.type.startswith("Date")
    values = [odd.shown[n % len(odd.shown)] for n in range(SAMPLED + 10)]
    if kind == "jsonl":
        shown = [f'"{value}"' if quoted else value for value in values]
        rows = [f'{{"n": {n}, "v": {value}}}' for n, value in enumerate([*shown, f'"{odd.odd}"'])]
        return "\n".join(rows) + "\n"
    mark = "," if kind == "csv" else "\t"
    rows = [f"{n}{mark}{value}" for n, value in enumerate([*values, odd.odd])]
    return "\n".join([f"n{mark}v", *rows]) + "\n"


def _check(failed: Done, kind: str, odd: Odd) -> None:
    line = SAMPLED + 11 + (kind != "jsonl")
    said = f'in.{kind} line {line} column "v": "{odd.odd}" does not fit {odd.type}'
    assert said in failed.talk
    wider = "Float64" if odd.odd in ("1e3", "5.") else "String"
    assert f"--type 'v {wider}'" in failed.talk


@pytest.mark.sampled(2)
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: f"{odd.odd} {odd.type}")
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_it_is_refused_by_the_decoder_and_by_the_engine(shell: Shell, kind: str, odd: Odd) -> None:
    text = _text(kind, odd)
    shell.write(f"in.{kind}", text)
    for decoder in ("auto", "never"):
        table = ("--table", decoder, "--decoder", decoder)
        _check(shell.ends(1, "load", f"in.{kind}", *table), kind, odd)
        assert shell.row(f"SELECT count() FROM {decoder}") == [0]
        rest = shell.ok("load", f"in.{kind}", *table, "--max-errors", "1")
        assert "1 row" in rest.talk or "1 bad" in rest.talk, rest.talk
        assert shell.row(f"SELECT count() FROM {decoder}") == [SAMPLED + 10]


@pytest.mark.parametrize("odd", [ODD[0], ODD[4], ODD[8], ODD[9]], ids=lambda odd: odd.odd)
@pytest.mark.sampled(1)
def test_the_hints_work_when_they_are_pasted(shell: Shell, odd: Odd) -> None:
    shell.write("in.csv", _text("csv", odd))
    failed = shell.ends(1, "load", "in.csv")
    first, *more = re.findall(r"--type '[^']*'", failed.talk)
    shell.ok("load", "in.csv", "--table", "t", *shlex.split(first))
    assert shell.row(f"SELECT v = '{odd.odd}' FROM t WHERE n = {SAMPLED + 10}") == [1]
    shell.ok("load", "in.csv", "--widen", *shlex.split(first))
    assert shell.row(f"SELECT v = '{odd.odd}' FROM in WHERE n = {SAMPLED + 10}") == [1]
    assert bool(more) == (odd.odd != "yes")
    if more:
        shell.ok("load", "in.csv", "--table", "u", *shlex.split(more[0]))
        assert shell.row(f"SELECT v FROM u WHERE n = {SAMPLED + 10}") == [odd.taken]


WAYS: dict[str, tuple[str, ...]] = {
    "pulled": ("--pull",), "parsed by the server": ("--decoder", "never", "--build", "off"),
    "decoded": (),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.sampled(2)
def test_it_is_refused_however_rows_reach_a_server(
    lake: Lake, s3: Seaweed, bucket: str, way: str
) -> None:
    odd, name = ODD[0], "in.csv"
    lake.shell.write(name, _text("csv", odd))
    if way == "pulled":
        s3.put(bucket, name, _text("csv", odd).encode())
        name = f"s3://{bucket}/in.csv"
    _check(lake.ends(1, "load", name, *WAYS[way], env=s3.env), "csv", odd)
    assert lake.row("SELECT count() FROM {db}.in") == [0]


@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_a_table_that_is_there_takes_what_its_sample_shows(shell: Shell, decoder: str) -> None:
    """A table says what is a number, and a file of it whether zeros lead them."""
    ways = ("--table", "t", "--decoder", decoder)
    shell.write("a.csv", "n,v\n" + "".join(f"{n},{n % 7}\n" for n in range(300)))
    shell.ok("load", "a.csv", *ways, "--type", "v UInt16")
    # Next month's file begins as the last one did.
    shell.write("in.csv", _text("csv", Odd(("10115", "5"), "00123", "", 123)))
    failed = shell.ends(1, "load", "in.csv", *ways)
    assert 'column "v": "00123" does not fit UInt16, which would lose leading zeros' in failed.talk
    shell.ok("load", "in.csv", *ways, "--type", "v UInt16")
    assert shell.row("SELECT max(n), argMax(v, n) FROM t") == [SAMPLED + 10, 123]
    # Whoever pads numbers shows it at once.
    padded = "n,v\n" + "".join(f"{n},{n % 24:02}\n" for n in range(1_000))
    shell.write("padded.csv.gz", gzip.compress(padded.encode()))
    shell.ok("load", "padded.csv.gz", *ways)
    assert shell.row("SELECT count() FROM t WHERE n < 1000 AND v < 24") == [1_800]


@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_keys_match_exactly(shell: Shell, decoder: str) -> None:
    """The engine's reader takes a key V for the column v, where no key is v."""
    ways = ("--decoder", decoder)
    rows = [f'{{"id":{n},"v":{n % 50}}}' for n in range(SAMPLED + 10)]
    shell.write("in.jsonl", "\n".join([*rows, '{"id":0,"V":555}']) + "\n")
    failed = shell.ends(1, "load", "in.jsonl", *ways)
    assert f"in.jsonl line {SAMPLED + 11} has a key that the table lacks: V" in failed.talk
    rest = shell.ok("load", "in.jsonl", *ways, "--max-errors", "1", "--json").document
    assert rest["rows"] == SAMPLED + 10
    both = ("--schema", "id Int64, v Nullable(Int64), V Nullable(Int64)", "--table", "both")
    shell.ok("load", "in.jsonl", *ways, *both)
    assert shell.rows("SELECT count(), sum(V), count(v) FROM both") == [
        [SAMPLED + 11, 555, SAMPLED + 10]
    ]


@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_hints_of_a_key_behind_the_sample_work(shell: Shell, decoder: str) -> None:
    ways = ("--decoder", decoder)
    rows = [f'{{"id":{n},"v":{n % 50}}}' for n in range(SAMPLED + 10)]
    shell.write("in.jsonl", "\n".join([*rows, '{"id":0,"v":5,"more of":"x"}']) + "\n")
    failed = shell.ends(1, "load", "in.jsonl", *ways)
    assert "has a key that the table lacks: more of" in failed.talk
    found = re.search(r"--schema '[^']*'", failed.talk)
    assert found
    shell.ok("load", "in.jsonl", *ways, "--table", "t", *shlex.split(found[0]))
    assert shell.row("SELECT count(), any(`more of`) FROM t") == [SAMPLED + 11, "x"]
    shell.ok("load", "in.jsonl", *ways, "--on-new-column", "ignore")
    assert shell.row("SELECT count() FROM in") == [SAMPLED + 11]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_digits_that_a_float_loses_are_said_before_the_first_row(shell: Shell, kind: str) -> None:
    values = ["3.5215257120407011", "2.5", "0.333333333333333333333", "-12345678901234567.89"]
    rows = [f"{n},{value}" for n, value in enumerate(values)]
    if kind == "jsonl":
        rows = [f'{{"n": {n}, "v": {value}}}' for n, value in enumerate(values)]
    shell.write(f"in.{kind}", "\n".join([*(["n,v"] if kind == "csv" else []), *rows]) + "\n")
    done = shell.ok("load", f"in.{kind}", "--table", "t")
    said = re.search(r"warning: Float64 keeps \S+ of \S+ in v; (--type '[^']*')", done.talk)
    assert said
    assert done.talk.index("warning: Float64") < done.talk.index("creating")
    again = shell.ok("load", f"in.{kind}", "--table", "u", *shlex.split(said[1]))
    assert "Float64" not in again.talk
    for n, value in enumerate(values):
        assert shell.row(f"SELECT toString(v) = '{value}' FROM u WHERE n = {n}") == [1]
    # Digits that a float prints again are no matter.
    shell.write("fine.csv", "n,v\n1,0.30000000000000004\n2,0.1\n3,1e-300\n4,100000000000000000.5\n")
    fine = shell.ok("load", "fine.csv").talk
    assert "warning: Float64 keeps 1e+17 of 100000000000000000.5 in v; --type 'v String'" in fine


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip members"])
@pytest.mark.parametrize("before", [1, SAMPLED + 10], ids=["in the sample", "behind it"])
@pytest.mark.sampled(2)
def test_a_header_that_stands_again_is_no_row(shell: Shell, before: int, packed: bool) -> None:
    """Files that were put together by cat keep their headers, and types were text."""
    pieces = ["id,v\n" + "".join(f"{n},5\n" for n in range(before)), "id,v\n2,6\n"]
    name = "in.csv.gz" if packed else "in.csv"
    body = [piece.encode() for piece in pieces]
    shell.write(name, b"".join(gzip.compress(piece) if packed else piece for piece in body))
    failed = shell.ends(1, "load", name, "--table", "t")
    assert f"{name} line {before + 2} is the header again (id)" in failed.talk
    assert ("the header stands again in 1 of the lines seen" in failed.talk) == (before == 1)
    shell.ok("load", name, "--table", "t", "--max-errors", "1")
    assert shell.row("SELECT count(), sum(v), toTypeName(any(id)) FROM t") == [
        before + 1, 5 * before + 6, "Int64"
    ]  # fmt: skip


NESTED = [
    ("[5]", '["007"]', "Array(Nullable(Int64))"),
    ("[5]", '[1, "+1"]', "Array(Nullable(Int64))"),
    ("[1.5]", "[9007199254740993]", "Array(Nullable(Float64))"),
    ("[true]", "[1]", "Array(Nullable(Bool))"),
    ('{"k": 5, "l": [[5]]}', '{"k": 5, "l": [[5], ["007"]]}', "Tuple("),
    ('{"k": "x", "n": 5}', '{"k": "007", "n": "-007"}', "Tuple("),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("shown", "odd", "type_"), NESTED, ids=[odd for _, odd, _ in NESTED])
@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_nested_values_become_no_others_behind_the_sample(
    shell: Shell, shown: str, odd: str, type_: str, decoder: str
) -> None:
    """As in columns, a table that is there takes what the sample of the load shows."""
    ways = ("--table", "t", "--decoder", decoder)
    rows = [f'{{"n": {n}, "v": {shown}}}' for n in range(SAMPLED + 10)]
    shell.write("in.jsonl", "\n".join([*rows, f'{{"n": -1, "v": {odd}}}']) + "\n")
    for number in (1, 2):  # into a new table, and into one that is there
        failed = shell.ends(1, "load", "in.jsonl", *ways)
        assert f'in.jsonl line {SAMPLED + 11} column "v"' in failed.talk
        assert f"does not fit {type_}" in failed.talk
        assert shell.row("SELECT count() FROM t") == [0], number
    rest = shell.ok("load", "in.jsonl", *ways, "--max-errors", "1", "--json").document
    assert rest["rows"] == SAMPLED + 10
    shell.write("shown.jsonl", f'{{"n": -2, "v": {odd}}}\n')
    shell.ok("load", "shown.jsonl", *ways)
    assert shell.row("SELECT count() FROM t WHERE n = -2") == [1]


@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_a_number_in_quotes_is_the_number_in_objects(shell: Shell, decoder: str) -> None:
    """Quotes keep 64 bits of JavaScript and protobuf whole; the number is written as it is kept."""
    rows = [f'{{"n": {n}, "v": 5, "l": [5], "b": true}}' for n in range(SAMPLED + 10)]
    odd = '{"n": -1, "v": "-7", "l": ["9223372036854775807"], "b": "true"}'
    shell.write("in.jsonl", "\n".join([*rows, odd]) + "\n")
    shell.ok("load", "in.jsonl", "--table", "t", "--decoder", decoder)
    assert shell.row("SELECT v, l[1], b FROM t WHERE n = -1") == [-7, 2**63 - 1, True]
